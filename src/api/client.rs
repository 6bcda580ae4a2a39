use std::borrow::Cow;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use crate::client::{
    CallError, DirectiveError, FenceDirectives, GetDirectives, GetRequest, GetRequestError, StagingError,
};
use crate::gds::KeyRef;
use crate::keys::{self, TypedKey};
use crate::runtime::{self, ConnectError, FetchError, Fetched, Prover, Session, StartedFence};
use crate::types::{
    AsStatus, DataType, Info, InfoFlags, IntoValue, Key, KeyError, ProcId, Rank, Scope, Status, Text, Value,
};

use super::options::{FenceOptions, GetOptions};
use super::pending::sealed::Sealed;
use super::pending::{Operation, Pending};
use super::typed::KeyType;

/// A process's membership in its job.
///
/// Reading published values of the job and its processes takes no lock and sends no request. The values lie in memory
/// that the server shares with its clients. A client has no thread until it gets a callback or an event handler.
///
/// Dropping a client without [`Client::finalize`] looks to the server like the end of the process. After a fork the
/// client belongs to the parent. The child may read shared memory and drop its copy, but every call to the server ends
/// with [`CallError::Lost`]. A child that wants to be a client connects itself.
///
/// Source: PMIx Standard, "Client Initialization and Finalization" and "Data Access and Sharing".
#[derive(Debug)]
pub struct Client {
    pub(super) session: Arc<Session>,
}

/// Options of a connection. See [`Client::builder`].
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct ClientBuilder {
    environment: Option<Vec<(OsString, OsString)>>,
    timeout: Option<Duration>,
    prover: Option<Arc<dyn Prover>>,
}

/// Reason of a failed Get.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GetError {
    /// There is no value.
    #[error("key {key:?} of {proc} is not there")]
    NotFound {
        /// The key.
        key: Cow<'static, str>,
        /// Owner of the value.
        proc: ProcId,
    },
    /// The process has posted nothing at all.
    #[error("{proc} has posted nothing that this process may see")]
    NothingPosted {
        /// Owner of the values.
        proc: ProcId,
    },
    /// There is a value, but not for this process.
    #[error("key {key:?} of {proc} was posted with a scope that excludes this process")]
    OutsideScope {
        /// The key.
        key: Cow<'static, str>,
        /// Owner of the value.
        proc: ProcId,
    },
    /// The value has another type.
    #[error("key {key:?} of {proc} holds {}, not {expected}", found.name())]
    WrongType {
        /// The key.
        key: Cow<'static, str>,
        /// Owner of the value.
        proc: ProcId,
        /// Type that the key should hold.
        expected: &'static str,
        /// Type of the stored value.
        found: DataType,
    },
    /// The stored bytes are damaged.
    #[error("key {key:?} of {proc} can't be read: the stored bytes are damaged")]
    Damaged {
        /// The key.
        key: Cow<'static, str>,
        /// Owner of the value.
        proc: ProcId,
    },
    /// The key is invalid.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The directives are invalid.
    #[error(transparent)]
    Directive(#[from] DirectiveError),
    /// The request is invalid.
    #[error(transparent)]
    Refusal(#[from] GetRequestError),
    /// The server could not be asked, refused, or did not answer in time.
    #[error("key {key:?} of {proc} can't be had: {error}")]
    Call {
        /// The key.
        key: Cow<'static, str>,
        /// Owner of the value.
        proc: ProcId,
        /// Error of the request.
        error: CallError,
    },
    /// The client was dropped before the value came.
    #[error("the client was dropped before the value came")]
    Dropped,
    /// No thread could be started for the callback; the Get was not started.
    #[error("no thread for the callback can be started: {}", .0)]
    Thread(std::io::ErrorKind),
}

/// Reason of a failed fence.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FenceError {
    /// The directives are invalid.
    #[error(transparent)]
    Directive(#[from] DirectiveError),
    /// The server refused, could not be asked, or did not answer in time.
    #[error(transparent)]
    Call(#[from] CallError),
    /// No thread could be started for the callback; the fence was not started.
    #[error("no thread for the callback can be started: {}", .0)]
    Thread(std::io::ErrorKind),
}

impl AsStatus for GetError {
    fn status(&self) -> Status {
        match self {
            Self::NotFound { .. } | Self::NothingPosted { .. } => Status::ERR_NOT_FOUND,
            Self::OutsideScope { .. } => Status::ERR_EXISTS_OUTSIDE_SCOPE,
            Self::WrongType { .. } => Status::ERR_TYPE_MISMATCH,
            Self::Damaged { .. } => Status::ERROR,
            Self::Key(_) => Status::ERR_BAD_PARAM,
            Self::Directive(error) => error.status(),
            Self::Refusal(error) => error.status(),
            Self::Call { error, .. } => error.status(),
            Self::Dropped => Status::ERR_LOST_CONNECTION,
            Self::Thread(_) => Status::ERR_OUT_OF_RESOURCE,
        }
    }
}

impl AsStatus for FenceError {
    fn status(&self) -> Status {
        match self {
            Self::Directive(error) => error.status(),
            Self::Call(error) => error.status(),
            Self::Thread(_) => Status::ERR_OUT_OF_RESOURCE,
        }
    }
}

impl ClientBuilder {
    /// Takes these environment variables instead of the process's own.
    pub fn env<N: Into<OsString>, V: Into<OsString>>(mut self, variables: impl IntoIterator<Item = (N, V)>) -> Self {
        let variables = variables.into_iter().map(|(name, value)| (name.into(), value.into()));
        self.environment = Some(variables.collect());
        self
    }

    /// Time limit for the server to admit this process; the default is one minute. The server's host may be asked
    /// meanwhile.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Source of munge credentials, for servers of other libraries that demand them. Without it such servers are
    /// refused.
    pub fn prover(mut self, prover: Arc<dyn Prover>) -> Self {
        self.prover = Some(prover);
        self
    }

    /// Connects.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub fn connect(self) -> Result<Client, ConnectError> {
        let environment = self.environment.unwrap_or_else(runtime::environment);
        let session = runtime::connect(environment, self.timeout.unwrap_or(runtime::CONNECT_TIME_MAX), self.prover)?;
        Ok(Client { session: Arc::new(session) })
    }
}

impl Client {
    /// Connects to the server that the launcher put into the environment.
    ///
    /// # Errors
    /// [`ConnectError::NotLaunched`] without a launcher, [`ConnectError::ServerUnreachable`] when its server can't be
    /// reached, and the other variants for an invalid environment.
    pub fn connect() -> Result<Self, ConnectError> {
        Self::builder().connect()
    }

    /// The launcher's name for this process; `None` if no launcher started it. This holds whether its server is
    /// reachable or not.
    #[must_use]
    pub fn launched_as() -> Option<ProcId> {
        runtime::launched_as(runtime::environment())
    }

    /// The server's own name.
    #[must_use]
    pub fn server(&self) -> &ProcId {
        self.session.server()
    }

    /// Builder of a connection.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// This process.
    #[must_use]
    pub fn proc(&self) -> &ProcId {
        self.session.proc()
    }

    /// The server's name for this node, if the server sent it.
    #[must_use]
    pub fn hostname(&self) -> Option<&str> {
        self.session.hostname()
    }

    /// Whether values are read from shared memory. If not, each Get is a request to the server.
    #[must_use]
    pub fn reads_segment(&self) -> bool {
        self.session.reads_segment()
    }

    /// Puts a value, of at most 16 MiB. Processes of this node can see it after [`Client::commit`], those of other
    /// nodes after a collecting fence.
    ///
    /// # Errors
    /// [`StagingError`]: reserved key, or more data than a process may put.
    pub fn put(&self, scope: Scope, key: &str, value: impl IntoValue) -> Result<(), StagingError> {
        self.session.put(scope, key, value)
    }

    /// Puts one of several values of a key, which differ in their qualifiers (`PMIX_QUALIFIED_VALUE`). A Get with
    /// [`GetOptions::qualifier`](crate::GetOptions::qualifier) finds the value that has all of the Get's qualifiers. A
    /// Get without qualifiers finds the value that was put without.
    ///
    /// # Errors
    /// As [`Client::put`].
    pub fn put_qualified(
        &self,
        scope: Scope,
        key: Key,
        value: impl Into<Value>,
        qualifiers: Vec<Info>,
    ) -> Result<(), StagingError> {
        let flagged =
            qualifiers.into_iter().map(|info| Info { flags: info.flags | InfoFlags::QUALIFIER.bits(), ..info });
        let infos = std::iter::once(Info::new(key, value)).chain(flagged).collect();
        self.session.put(scope, keys::QUALIFIED_VALUE.name(), Value::info_array(infos))
    }

    /// Removes a value that this process has put, as a put of [`Value::Undefined`] does. This process no longer finds
    /// it. Processes of this node no longer find it after [`Client::commit`], processes of other nodes after a
    /// collecting fence. After the commit a Get of the key waits for a new value, as if there had never been one.
    ///
    /// A qualified value can't be removed. The key counts on towards the limits. Processes of other jobs and processes
    /// without a segment keep a copy until they refresh it ([`GetOptions::refresh`](crate::GetOptions::refresh)).
    ///
    /// # Errors
    /// [`StagingError`]; [`StagingError::NoRemovals`] at a server of OpenPMIx before 7.0.
    ///
    /// Source: OpenPMIx 7.0, `PMIx_Put` (`PMIX_DEL_LOCAL`, `PMIX_DEL_REMOTE`, `PMIX_DEL_GLOBAL`).
    ///
    /// ```no_run
    /// # use modex::{Client, types::{Key, Scope}};
    /// # fn withdraw(client: &Client) -> Result<(), Box<dyn std::error::Error>> {
    /// client.remove(Scope::Global, Key::new("endpoint".to_owned())?)?;
    /// client.commit()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn remove(&self, scope: Scope, key: Key) -> Result<(), StagingError> {
        self.session.remove(scope, key)
    }

    /// Stores a value about any process, for this process alone.
    ///
    /// # Errors
    /// [`StagingError`].
    pub fn store_internal(&self, proc: &ProcId, key: Key, value: impl Into<Value>) -> Result<(), StagingError> {
        self.session.store_internal(proc, key, value.into())
    }

    /// Makes the values put since the last commit visible, and waits for that.
    ///
    /// # Errors
    /// [`CallError`]; the values are then part of the next commit.
    pub fn commit(&self) -> Result<(), CallError> {
        self.session.commit()
    }

    /// Waits until all named processes have entered the fence, and exchanges data if the options say so.
    ///
    /// Fails with [`FenceError`].
    pub fn fence(&self, options: &FenceOptions) -> Pending<Fence> {
        let FenceOptions { procs, directives } = options.clone();
        Pending(Fence { session: Arc::clone(&self.session), procs, directives })
    }

    /// [`Client::commit`] and then [`Client::fence`], with one wait for the server's answers instead of two. If the
    /// commit fails, the fence still takes place before this returns.
    ///
    /// # Errors
    /// [`FenceError`] of the commit if that failed, else of the fence.
    pub fn commit_and_fence(&self, options: &FenceOptions) -> Result<(), FenceError> {
        let directives = FenceDirectives::parse(&options.directives)?;
        Ok(self.session.commit_and_fence(options.procs.clone(), directives)?)
    }

    /// A value of a known type: of a process of this job, or of the job itself (`Rank::Wildcard`). Waits for a missing
    /// value; see [`Client::get_value`] for other options.
    ///
    /// # Errors
    /// [`GetError`].
    pub fn get<T: KeyType + ?Sized>(&self, rank: impl Into<Rank>, key: TypedKey<T>) -> Result<T::Output<'_>, GetError> {
        let rank = rank.into();
        if let Some(found) = self.quick(rank, key.name(), key.hash())
            && let Some(value) = T::read(found)
        {
            return Ok(value);
        }
        self.get_thoroughly(rank, key)
    }

    #[inline(never)]
    fn get_thoroughly<T: KeyType + ?Sized>(&self, rank: Rank, key: TypedKey<T>) -> Result<T::Output<'_>, GetError> {
        let fetched = match self.session.peek(rank, KeyRef { name: key.name(), hash: key.hash() }) {
            Some(fetched) => fetched,
            None => {
                let proc = ProcId { namespace: self.proc().namespace.clone(), rank };
                self.fetch(proc, Some(Key::new(key.name())?), GetDirectives::default())?
            }
        };
        let found = fetched.data_type();
        T::read(fetched).ok_or_else(|| GetError::WrongType {
            key: Cow::Borrowed(key.name()),
            proc: ProcId { namespace: self.proc().namespace.clone(), rank },
            expected: T::EXPECTED,
            found,
        })
    }

    /// A value of any type, of any process or job. Borrowed from shared memory if it lies there.
    ///
    /// # Errors
    /// [`GetError`].
    pub fn get_value(&self, proc: &ProcId, key: &str, options: &GetOptions) -> Result<Fetched<'_>, GetError> {
        if options.directives.is_empty()
            && proc.namespace.is(&self.proc().namespace)
            && let Some(found) = self.session.quick(proc.rank, KeyRef::new(key))
        {
            return Ok(found);
        }
        self.get_value_thoroughly(proc, key, options)
    }

    #[inline(never)]
    fn get_value_thoroughly(&self, proc: &ProcId, key: &str, options: &GetOptions) -> Result<Fetched<'_>, GetError> {
        if options.directives.is_empty()
            && proc.namespace == self.proc().namespace
            && let Some(found) = self.session.peek(proc.rank, KeyRef::new(key))
        {
            return Ok(found);
        }
        self.fetch(proc.clone(), Some(Key::new(key.to_owned())?), GetDirectives::parse(&options.directives)?)
    }

    /// All values of a process (a Get without a key): those that it posted for this process, and those that the host
    /// registered for it. Waits until the process has committed. If the options forbid the wait, the registered values
    /// are the result. Values that this process has put but not committed are not included.
    ///
    /// # Errors
    /// [`GetError`].
    pub fn get_all(&self, proc: &ProcId, options: &GetOptions) -> Result<Vec<Info>, GetError> {
        let directives = GetDirectives::parse(&options.directives)?;
        match self.fetch(proc.clone(), None, directives)?.into_value() {
            Ok(Value::DataArray(mut array)) => {
                Ok(std::mem::take(&mut array.elements).into_iter().filter_map(into_info).collect())
            }
            Ok(_) | Err(_) => Err(GetError::Damaged { key: Cow::Borrowed(""), proc: proc.clone() }),
        }
    }

    /// As [`Client::get_value`], as an operation whose result owns its value.
    ///
    /// Fails with [`GetError`].
    pub fn pending_get(&self, proc: &ProcId, key: &str, options: &GetOptions) -> Pending<Get> {
        let request = Key::new(key.to_owned()).map_err(GetError::from).and_then(|key| {
            let directives = GetDirectives::parse(&options.directives)?;
            Ok(GetRequest::new(Some(proc.clone()), Some(key), directives, self.proc())?)
        });
        Pending(Get { session: Arc::clone(&self.session), request })
    }

    /// Asks the server to end processes; an empty list means this process's whole job. The host decides whether and
    /// when it happens. If this process is among them, the call returns only if the host agrees and does not end the
    /// process within 2 seconds.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn abort(&self, status: Status, message: &str, procs: Vec<ProcId>) -> Result<(), CallError> {
        let message = (!message.is_empty()).then(|| Text::from(message));
        self.session.abort(status, message, procs)
    }

    /// Leaves the job in order. A later [`Client::connect`] joins the job again.
    ///
    /// # Errors
    /// [`CallError`] when the server refused or took too long; the connection is closed all the same.
    pub fn finalize(self) -> Result<(), CallError> {
        self.session.finalize()
    }

    pub(super) const fn of(session: Arc<Session>) -> Self {
        Self { session }
    }

    pub(super) const fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// One body for all types of [`Client::get`]. The key comes in parts, which are passed in registers.
    #[inline(never)]
    fn quick(&self, rank: Rank, name: &str, hash: u64) -> Option<Fetched<'_>> {
        self.session.quick(rank, KeyRef { name, hash })
    }

    fn fetch(&self, proc: ProcId, key: Option<Key>, directives: GetDirectives) -> Result<Fetched<'_>, GetError> {
        let request = GetRequest::new(Some(proc), key, directives, self.proc())?;
        self.session.get(&request).map_err(|error| get_error(&request, error))
    }
}

/// A fence as an operation.
#[derive(Debug)]
pub struct Fence {
    session: Arc<Session>,
    procs: Vec<ProcId>,
    directives: Vec<Info>,
}

impl Sealed for Fence {}

impl Operation for Fence {
    type Output = ();
    type Error = FenceError;

    fn run(self) -> Result<(), FenceError> {
        let directives = FenceDirectives::parse(&self.directives)?;
        Ok(self.session.fence(self.procs, directives)?)
    }

    fn run_with(self, callback: impl FnOnce(Result<(), FenceError>) + Send + 'static) -> Result<(), FenceError> {
        let directives = FenceDirectives::parse(&self.directives)?;
        let callback = |result: Result<(), CallError>| callback(result.map_err(FenceError::Call));
        let begun = self.session.fence_with(self.procs, directives, callback);
        begun.map_err(|error| FenceError::Thread(error.kind()))
    }
}

impl Pending<Fence> {
    /// Enters the fence. The caller picks the result up later, without a thread for callbacks.
    ///
    /// # Errors
    /// [`FenceError::Directive`].
    pub fn start(self) -> Result<StartedFence, FenceError> {
        let Fence { session, procs, directives } = self.0;
        Ok(session.start_fence(procs, FenceDirectives::parse(&directives)?))
    }
}

/// A Get as an operation.
#[derive(Debug)]
pub struct Get {
    pub(super) session: Arc<Session>,
    pub(super) request: Result<GetRequest, GetError>,
}

impl Sealed for Get {}

impl Operation for Get {
    type Output = Value;
    type Error = GetError;

    fn run(self) -> Result<Value, GetError> {
        let request = self.request?;
        let found = self.session.get(&request).map_err(|error| get_error(&request, error))?;
        found.into_value().map_err(|_| get_error(&request, FetchError::Damaged))
    }

    fn run_with(self, callback: impl FnOnce(Result<Value, GetError>) + Send + 'static) -> Result<(), GetError> {
        let request = self.request?;
        let asked = request.clone();
        let found = move |result: Result<Value, FetchError>| callback(result.map_err(|error| get_error(&asked, error)));
        self.session.get_with(request, found).map_err(|error| GetError::Thread(error.kind()))
    }
}

pub(super) fn get_error(request: &GetRequest, error: FetchError) -> GetError {
    let proc = request.proc.clone();
    if request.key.is_none() && error.is_not_found() {
        return GetError::NothingPosted { proc };
    }
    let key = Cow::Owned(request.key.as_ref().map_or_else(String::new, ToString::to_string));
    match error {
        FetchError::NotFound { status } => absent(key, proc, status),
        FetchError::Call(CallError::Refused { command, status }) => match status {
            Status::ERR_NOT_FOUND | Status::ERR_EXISTS_OUTSIDE_SCOPE => absent(key, proc, status),
            status => GetError::Call { key, proc, error: CallError::Refused { command, status } },
        },
        FetchError::Call(error) => GetError::Call { key, proc, error },
        FetchError::Refused(refusal) => refusal.into(),
        FetchError::Damaged => GetError::Damaged { key, proc },
        FetchError::Dropped => GetError::Dropped,
    }
}

fn into_info(value: Value) -> Option<Info> {
    match value {
        Value::Info(info) => Some(*info),
        _ => None,
    }
}

fn absent(key: Cow<'static, str>, proc: ProcId, status: Status) -> GetError {
    match status {
        Status::ERR_EXISTS_OUTSIDE_SCOPE => GetError::OutsideScope { key, proc },
        _ => GetError::NotFound { key, proc },
    }
}
