//! Functions for the C library and bindings, which pass on requests of others. Arguments may be missing, keys may be
//! reserved.

use std::io;
use std::sync::Arc;

use crate::client::{CallError, GetDirectives, GetRequest, StagingError};
use crate::gds::KeyRef;
use crate::runtime::{self, DataForm, Fetched};
use crate::types::{Info, Key, ProcId, Rank, Scope, Value};

use super::client::{Client, Get, GetError, get_error};
use super::pending::Pending;

impl Client {
    /// A process that no launcher started, as a job of one: named `singleton.HOST.PID`, rank 0. It knows its host, its
    /// size and its local rank. Commits, and fences with itself, succeed; all other requests to a server are
    /// unreachable.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn alone() -> io::Result<Self> {
        Ok(Self::of(Arc::new(runtime::alone()?)))
    }

    /// As [`Client::alone`], under a name that the process has already.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn alone_as(proc: ProcId) -> io::Result<Self> {
        Ok(Self::of(Arc::new(runtime::alone_as(proc)?)))
    }

    /// Makes the event handlers of another client of this process those of this one, too. An event calls each handler
    /// once, whatever its server. Must be called before the first use of this client's handlers.
    ///
    /// # Errors
    /// When no thread can be started.
    #[doc(hidden)]
    pub fn share_handlers(&self, other: &Self) -> io::Result<()> {
        self.session.share_handlers(&other.session)
    }

    /// Connects a process that no launcher started to the node's system server. `None` when there is none, or it
    /// refuses the process.
    #[must_use]
    pub fn connect_singleton() -> Option<Self> {
        let environment: Vec<_> = runtime::environment().into_iter().collect();
        Some(Self::of(Arc::new(runtime::connect_singleton(&environment)?)))
    }

    /// Connects to a server by its directions; [`Tool`](super::Tool) does this for Rust.
    ///
    /// # Errors
    /// [`runtime::ToolError`].
    #[doc(hidden)]
    pub fn of_tool(directions: &runtime::ToolDirections) -> Result<Self, runtime::ToolError> {
        Ok(Self::of(Arc::new(runtime::connect_tool(directions, &runtime::environment(), &[])?)))
    }

    /// Whether this process has no server; see [`Client::alone`].
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.session().is_alone()
    }

    /// Whether the server has closed the connection.
    pub fn has_lost_server(&self) -> bool {
        self.session().has_lost_server()
    }

    /// A value of the process's job, or of a process of it, that can be read without a request. The call needs no lock,
    /// no system call and no allocation. Exceptions: the process has stored values for others, or asks for a text that
    /// follows from a rule. After `None`, [`Client::find`] may know more.
    #[must_use]
    #[inline]
    pub fn peek_value(&self, rank: Rank, key: &str) -> Option<Fetched<'_>> {
        let key = KeyRef::new(key);
        match self.session().quick(rank, key) {
            Some(found) => Some(found),
            None => self.session().peek(rank, key),
        }
    }

    /// As [`Client::get_value`], with optional arguments. Without a process it means the caller's job (and its own rank
    /// if the realm is a node or an application). Without a key it means all values of the process.
    ///
    /// # Errors
    /// [`GetError`].
    pub fn find(&self, proc: Option<ProcId>, key: Option<Key>, directives: &[Info]) -> Result<Fetched<'_>, GetError> {
        let request = GetRequest::new(proc, key, GetDirectives::parse(directives)?, self.proc())?;
        self.session().get(&request).map_err(|error| get_error(&request, error))
    }

    /// As [`Client::find`], as an operation whose result owns its value.
    ///
    /// Fails with [`GetError`].
    pub fn pending_find(&self, proc: Option<ProcId>, key: Option<Key>, directives: &[Info]) -> Pending<Get> {
        let directives = GetDirectives::parse(directives).map_err(GetError::from);
        let request = directives.and_then(|directives| Ok(GetRequest::new(proc, key, directives, self.proc())?));
        Pending(Get { session: Arc::clone(self.session()), request })
    }

    /// As [`Client::put`], for any key. The standard reserves keys for the host, but MPI libraries put some for their
    /// peers (the node's name, their binding).
    ///
    /// # Errors
    /// [`StagingError`].
    pub fn put_any(&self, scope: Scope, key: Key, value: Value) -> Result<(), StagingError> {
        self.session().put_any(scope, key, value)
    }

    /// The form of packed data for the server.
    #[doc(hidden)]
    #[must_use]
    pub fn data_form(&self) -> DataForm {
        self.session().data_form()
    }

    /// Runs a job on the client's thread for callbacks, after those that are due.
    ///
    /// # Errors
    /// When the thread could not be started; the job will not run.
    pub fn later(&self, job: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.session().later(job)
    }

    /// As [`Client::finalize`], for a client with other owners: their calls end with an error from then on. Due
    /// callbacks have run when this returns, unless one of them is the caller or takes longer than a second. Published
    /// values can still be read.
    ///
    /// # Errors
    /// [`CallError`] when the server refused or took too long; the connection is closed all the same.
    pub fn leave(&self) -> Result<(), CallError> {
        let result = self.session().finalize();
        self.session().close();
        result
    }
}
