//! For those who pass on what others ask: the C library and bindings. Arguments may be missing, keys may be reserved.

use std::io;
use std::sync::Arc;

use crate::client::{CallError, GetDirectives, GetRequest, StagingError};
use crate::gds::KeyRef;
use crate::runtime::{self, Fetched};
use crate::types::{Info, Key, ProcId, Rank, Scope, Value};

use super::client::{Client, GetError, get_error};

impl Client {
    /// A process that no launcher started, as a job of one: named `singleton.HOST.PID`, rank 0. It knows its host, its
    /// size and its local rank; commits and fences with itself succeed; whatever else would need a server is
    /// unreachable.
    ///
    /// # Errors
    /// There are no descriptors left.
    pub fn alone() -> io::Result<Self> {
        Ok(Self::of(Arc::new(runtime::alone()?)))
    }

    /// As [`Client::alone`], under a name that the process has already.
    ///
    /// # Errors
    /// There are no descriptors left.
    pub fn alone_as(proc: ProcId) -> io::Result<Self> {
        Ok(Self::of(Arc::new(runtime::alone_as(proc)?)))
    }

    /// Connects a process that no launcher started to the node's system server. `None`: there is none, or none that
    /// wants it.
    #[must_use]
    pub fn connect_singleton() -> Option<Self> {
        let environment: Vec<_> = runtime::environment().into_iter().collect();
        Some(Self::of(Arc::new(runtime::connect_singleton(&environment)?)))
    }

    /// Connects to the server that the directions lead to; [`Tool`](super::Tool) does this for Rust.
    ///
    /// # Errors
    /// [`runtime::ToolError`].
    #[doc(hidden)]
    pub fn of_tool(directions: &runtime::ToolDirections) -> Result<Self, runtime::ToolError> {
        Ok(Self::of(Arc::new(runtime::connect_tool(directions, &runtime::environment())?)))
    }

    /// Whether this process has no server; see [`Client::alone`].
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.session().is_alone()
    }

    /// A value that this process can read without asking, of a process of its job or of the job: no lock, no system
    /// call, no allocation unless it stored values for others or asks for a text that follows from a rule. `None`:
    /// [`Client::find`] may know more.
    #[must_use]
    #[inline]
    pub fn peek_value(&self, rank: Rank, key: &str) -> Option<Fetched<'_>> {
        let key = KeyRef::new(key);
        match self.session().quick(rank, key) {
            Some(found) => Some(found),
            None => self.session().peek(rank, key),
        }
    }

    /// As [`Client::get_value`], with what may be missing: without a process the caller's job is meant (and its own
    /// rank where the realm is a node or an application), without a key everything of the process.
    ///
    /// # Errors
    /// [`GetError`].
    pub fn find(&self, proc: Option<ProcId>, key: Option<Key>, directives: &[Info]) -> Result<Fetched<'_>, GetError> {
        let request = GetRequest::new(proc, key, GetDirectives::parse(directives)?, self.proc())?;
        self.session().get(&request).map_err(|error| get_error(&request, error))
    }

    /// As [`Client::find`], without waiting: the value goes to `callback`, on a thread of the client, never from inside
    /// this function.
    ///
    /// # Errors
    /// [`GetError`]: the callback will not run.
    pub fn find_with(
        &self,
        proc: Option<ProcId>,
        key: Option<Key>,
        directives: &[Info],
        callback: impl FnOnce(Result<Value, GetError>) + Send + 'static,
    ) -> Result<(), GetError> {
        let request = GetRequest::new(proc, key, GetDirectives::parse(directives)?, self.proc())?;
        let asked = request.clone();
        let begun =
            self.session().get_with(request, move |result| callback(result.map_err(|error| get_error(&asked, error))));
        begun.map_err(|error| GetError::Thread(error.kind()))
    }

    /// As [`Client::put`], of any key. Reserved keys are the host's by the standard, but MPI libraries put some of their
    /// own for peers to read (the node's name, their binding).
    ///
    /// # Errors
    /// [`StagingError`].
    pub fn put_any(&self, scope: Scope, key: Key, value: Value) -> Result<(), StagingError> {
        self.session().put_any(scope, key, value)
    }

    /// Runs something on the thread of the client where callbacks run, after those that are due.
    ///
    /// # Errors
    /// The thread could not be started; it will not run.
    pub fn later(&self, job: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.session().later(job)
    }

    /// As [`Client::finalize`], for a client that others hold, too: their calls end with an error from then on. Callbacks
    /// that are due have run when this returns, unless one of them is the caller or takes longer than a second; what was
    /// published can still be read.
    ///
    /// # Errors
    /// [`CallError`] when the server refused or took too long; the connection is closed all the same.
    pub fn leave(&self) -> Result<(), CallError> {
        let result = self.session().finalize();
        self.session().close();
        result
    }
}
