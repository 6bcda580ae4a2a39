use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use super::derived;
use super::events::EventHub;
use super::fetched::Fetched;
use super::groups::Groups;
use super::inflated::{inflated, inflated_entries};
use super::link::{CallResult, Link};
use super::manners::Manners;
use super::pending::Pending;
use super::progress::Progress;
use super::readers::{ForeignSources, Source};
use super::session_events;
use super::session_topology::KnownTopology;
use super::stores::SessionStores;
use crate::client::{
    Call, CallError, Decision, FenceDirectives, GetRequest, Outcome, Round, Staged, Staging, StagingError,
    StagingLimits, resolve,
};
use crate::gds::{KeyRef, Lookup, RealmRequest};
use crate::proto::{Abort, Command, Commit, RankData};
use crate::types::{DataType, IntoValue, Key, Namespace, ProcId, Rank, Scope, Status, Text, Time, Value};

/// A process's membership in its job: what it reads, what it put, and the line to its server.
///
/// Dropping it without [`Session::finalize`] looks to the server like the end of the process. A copy of it in a forked
/// child reads the segment, but the connection stays its parent's: calls end with [`CallError::Lost`].
pub struct Session {
    proc: ProcId,
    server: ProcId,
    hostname: Option<String>,
    /// The segment of the own namespace: read without a lock. `None`: everything is asked for over the socket.
    own: Option<Source>,
    foreign: ForeignSources,
    manners: Manners,
    groups: Arc<Groups>,
    topology: KnownTopology,
    staging: Mutex<Staging>,
    /// Whether this process has put anything. Until then a Get of its own values need not look into `staging`.
    has_put: AtomicBool,
    /// Whether it stored anything for another process, which most never do. Until then a Get of other processes'
    /// values need not look into `staging`, and so takes no lock.
    has_stored: AtomicBool,
    pub(super) link: Arc<Link>,
    pub(super) events: Arc<EventHub>,
    pub(super) progress: Progress,
    /// Nobody started this process: there is no server, and nobody else to wait for.
    is_alone: bool,
    /// A forked copy has neither the connection nor the thread.
    owner_pid: u32,
}

/// Why a Get gave no value.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// There is none, or none that this process may see.
    #[error("no value: {status}")]
    NotFound {
        /// Not found, or posted with a scope that excludes this process.
        status: Status,
    },
    /// The server could not be asked, or refused.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The stored bytes are damaged.
    #[error("the stored bytes are damaged")]
    Damaged,
    /// The session was dropped before the value came.
    #[error("the client was dropped before the value came")]
    Dropped,
}

impl FetchError {
    /// Whether there simply is no value.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        match self {
            Self::NotFound { status } | Self::Call(CallError::Refused { status, .. }) => {
                *status == Status::ERR_NOT_FOUND
            }
            _ => false,
        }
    }

    /// What a lookup that ended with this status means.
    const fn of(status: Status) -> Self {
        match status {
            Status::ERROR => Self::Damaged,
            status => Self::NotFound { status },
        }
    }
}

impl Session {
    /// `server` is the server's own name.
    pub(super) fn new(proc: ProcId, server: ProcId, hostname: Option<String>, own: Option<Source>, link: Link) -> Self {
        let manners = link.with(|state| state.manners());
        let foreign = ForeignSources::new(proc.namespace.clone(), &link);
        let link = Arc::new(link);
        let events = session_events::hub(&proc, server.clone(), &link);
        Self {
            events,
            staging: Mutex::new(Staging::new(proc.clone(), StagingLimits::default())),
            proc,
            server,
            hostname,
            own,
            foreign,
            manners,
            groups: Arc::default(),
            topology: KnownTopology::default(),
            has_put: AtomicBool::new(false),
            has_stored: AtomicBool::new(false),
            link,
            progress: Progress::default(),
            is_alone: false,
            owner_pid: process::id(),
        }
    }

    /// This process.
    #[must_use]
    pub fn proc(&self) -> &ProcId {
        &self.proc
    }

    /// The server.
    #[must_use]
    pub fn server(&self) -> &ProcId {
        &self.server
    }

    /// The server's name for this node, if it told.
    #[must_use]
    pub fn hostname(&self) -> Option<&str> {
        self.hostname.as_deref()
    }

    /// Whether values are read from the server's segment of the namespace. If not, all but the job's description is
    /// asked for.
    #[must_use]
    pub fn reads_segment(&self) -> bool {
        self.own.as_ref().is_some_and(|own| own.is_servers)
    }

    /// The same for a process that has no server.
    pub(super) fn into_alone(mut self) -> Self {
        self.is_alone = true;
        let now = self.link.now();
        self.link.with(|state| state.forgo(now));
        self
    }

    /// Whether this process was started by no launcher, and so has no server.
    #[must_use]
    pub const fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// Puts a value; others see it after a commit.
    ///
    /// # Errors
    /// [`StagingError`].
    pub fn put(&self, scope: Scope, key: &str, value: impl IntoValue) -> Result<(), StagingError> {
        self.staging.lock().check_size(key, value.held_bytes())?;
        let value = value.into();
        self.check_type(scope, key, &value)?;
        // Release pairs with the Acquire in `may_be_staged`.
        self.has_put.store(true, Ordering::Release);
        self.staging.lock().put(scope, key, value)
    }

    /// As [`Session::put`], of any key. Reserved keys are the host's by the standard, but MPI libraries put some of
    /// their own (the node's name, their binding) for peers to read.
    ///
    /// # Errors
    /// [`StagingError`].
    pub fn put_any(&self, scope: Scope, key: Key, value: Value) -> Result<(), StagingError> {
        self.check_type(scope, key.as_str(), &value)?;
        // Release pairs with the Acquire in `may_be_staged`.
        self.has_put.store(true, Ordering::Release);
        self.staging.lock().put_any(scope, key, value)
    }

    /// Stores a value for any process, for this process alone.
    ///
    /// # Errors
    /// [`StagingError`].
    pub fn store_internal(&self, proc: &ProcId, key: Key, value: Value) -> Result<(), StagingError> {
        // Release pairs with the Acquire in `may_be_staged`.
        self.has_stored.store(true, Ordering::Release);
        self.staging.lock().store_internal(proc, key, value)
    }

    /// Hands the server what was put since the last commit, and waits until it is published. Nothing new: returns at
    /// once. After an error the values are part of the next commit.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn commit(&self) -> Result<(), CallError> {
        if self.is_alone {
            // Nobody else will ever look. The process itself finds its values where they are.
            return Ok(());
        }
        // The lock is free while this waits: another thread's commit may overtake, with other keys.
        while let Some(staged) = self.take_staged() {
            let result = self
                .commits(staged.commit)
                .into_iter()
                .try_for_each(|commit| self.link.call(Call::Commit(commit)).map(drop));
            if let Err(error) = result {
                self.staging.lock().put_back(staged.mark);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Whether a process that is alone is all there is of these.
    fn is_everyone(&self, procs: &[ProcId]) -> bool {
        self.is_alone && procs.iter().all(|proc| proc.covers(&self.proc))
    }

    /// Refuses a value here that the server would refuse with all others of the commit.
    fn check_type(&self, scope: Scope, key: &str, value: &Value) -> Result<(), StagingError> {
        if scope == Scope::Internal || self.manners.takes(value) {
            return Ok(());
        }
        Err(StagingError::UnknownType { key: key.to_owned(), data_type: value.data_type().name() })
    }

    /// Our own server knows what a global value is; others are told twice.
    fn commits(&self, commit: Commit) -> Vec<Commit> {
        match self.manners.is_ours {
            true => vec![commit],
            false => commit.by_audience(self.manners.message_bytes_max / 2),
        }
    }

    fn take_staged(&self) -> Option<Staged> {
        self.staging.lock().take_commit()
    }

    /// Waits for every named process; an empty list means the namespace.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn fence(&self, procs: Vec<ProcId>, directives: FenceDirectives) -> Result<(), CallError> {
        if self.is_everyone(&procs) {
            return Ok(());
        }
        self.link.call(Call::Fence { procs: self.groups.spell_out(procs), directives }).map(drop)
    }

    /// As [`Session::fence`], without waiting.
    pub fn start_fence(&self, procs: Vec<ProcId>, directives: FenceDirectives) -> Pending {
        if self.is_everyone(&procs) {
            return Pending::done(&self.link);
        }
        let procs = self.groups.spell_out(procs);
        Pending::new(&self.link, self.link.start(Call::Fence { procs, directives }))
    }

    /// As [`Session::fence`]; the result goes to `callback`, on the progress thread, which is started if it does not
    /// run yet.
    ///
    /// # Errors
    /// The thread could not be started; the fence was not.
    pub fn fence_with(
        &self,
        procs: Vec<ProcId>,
        directives: FenceDirectives,
        callback: impl FnOnce(Result<(), CallError>) + Send + 'static,
    ) -> std::io::Result<()> {
        let is_over = self.is_everyone(&procs);
        let procs = self.groups.spell_out(procs);
        self.progress.begin(&self.link, |link| match is_over {
            true => link.defer(move || callback(Ok(()))),
            false => {
                link.start_with(Call::Fence { procs, directives }, Box::new(|result| callback(result.map(drop))));
            }
        })
    }

    /// As [`Session::peek`], for what is found without a detour; `None`: ask that.
    #[must_use]
    #[inline(always)]
    pub fn quick(&self, rank: Rank, key: KeyRef<'_>) -> Option<Fetched<'_>> {
        if self.may_be_staged(rank) { None } else { self.quick_published(rank, key) }
    }

    #[inline(always)]
    fn quick_published(&self, rank: Rank, key: KeyRef<'_>) -> Option<Fetched<'_>> {
        self.own.as_ref()?.reader.quick(rank, key).map(Fetched::published)
    }

    /// A value straight from the segment of the own namespace, which [`Session::quick`] has not found: no lock, no system
    /// call, no allocation. `None` when it is not there, or something this process stored itself might stand before it;
    /// [`Session::get`] then knows more.
    #[must_use]
    pub fn peek(&self, rank: Rank, key: KeyRef<'_>) -> Option<Fetched<'_>> {
        if self.may_be_staged(rank) {
            return self.peek_behind_staging(rank, key);
        }
        self.peek_published(rank, key)
    }

    /// What this process stored itself stands before what is published; without a rank only [`Session::get`] knows
    /// whose is meant.
    fn peek_behind_staging(&self, rank: Rank, key: KeyRef<'_>) -> Option<Fetched<'_>> {
        rank.process()?;
        let proc = ProcId { namespace: self.proc.namespace.clone(), rank };
        let staged = self.staging.lock().find(&proc, key.name, None).cloned();
        match staged {
            Some(value) => Some(Fetched::shared(value)),
            None => self.quick_published(rank, key).or_else(|| self.peek_published(rank, key)),
        }
    }

    fn peek_published(&self, rank: Rank, key: KeyRef<'_>) -> Option<Fetched<'_>> {
        let lookup = Lookup { rank, key, realm: RealmRequest::Default, audience: None };
        match self.own.as_ref()?.reader.search(&lookup) {
            // What was compressed must be unpacked, which is not for here.
            Ok(value) if value.data_type() != DataType::CompressedString => Some(Fetched::published(value)),
            _ => None,
        }
    }

    /// A value from wherever it is; waits for it if the request lets it.
    ///
    /// # Errors
    /// [`FetchError`].
    pub fn get(&self, request: &GetRequest) -> Result<Fetched<'_>, FetchError> {
        match self.look_up(request) {
            Err(error) if error.is_not_found() => self.derived(request).map(Fetched::owned).ok_or(error),
            outcome => outcome,
        }
    }

    /// As [`Session::get`], of what somebody registered or put.
    pub(super) fn look_up(&self, request: &GetRequest) -> Result<Fetched<'_>, FetchError> {
        let stores = SessionStores(self);
        let begun = request.directives.timeout.map(|_| self.link.now());
        let mut answer: Option<Arc<[RankData]>> = None;
        loop {
            let round = answer.as_deref().map_or(Round::First, Round::Answered);
            let decision = resolve(request, &self.proc, round, &stores);
            if matches!(decision, Decision::Ask(_) | Decision::NotFound(_))
                && let Some(value) = self.given(request)
            {
                return as_put(Fetched::owned(value), request);
            }
            let request = match decision {
                Decision::Found(value) => return as_put(value, request),
                Decision::Known(value) => return as_put(Fetched::owned(value), request),
                Decision::NotFound(status) => return Err(FetchError::of(status)),
                Decision::Ask(request) => self.in_time(request, begun)?,
            };
            answer = match self.link.call(Call::Get(request))? {
                Outcome::Answered(data) => Some(data),
                Outcome::LookAgain | Outcome::Complete | Outcome::Reply(_) => None,
            };
        }
    }

    /// As [`Session::get`]; the value, copied, goes to `callback`, on the progress thread, also if it is there already.
    ///
    /// # Errors
    /// The thread could not be started; the callback will not run.
    pub fn get_with(
        self: &Arc<Self>,
        request: GetRequest,
        callback: impl FnOnce(Result<Value, FetchError>) + Send + 'static,
    ) -> std::io::Result<()> {
        let session = Arc::downgrade(self);
        let begun = request.directives.timeout.map(|_| self.link.now());
        let callback: ValueCallback = match derived::may_follow(&request) {
            true => derived::or_derived(&session, &request, Box::new(callback)),
            false => Box::new(callback),
        };
        let asked = Asked { request, begun };
        self.later(move || continue_get(&session, asked, None, callback))
    }

    /// Runs something on the progress thread, after the callbacks that are due.
    ///
    /// # Errors
    /// The session is closed, or the thread could not be started; it will not run.
    pub fn later(&self, job: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        self.progress.begin(&self.link, |link| link.defer(job))
    }

    /// What the process asked about gave a group that this one is in too.
    fn given(&self, request: &GetRequest) -> Option<Value> {
        let key = request.key.as_ref().filter(|_| request.directives.is_unqualified())?;
        self.groups.gifts.find(&request.proc, key)
    }

    /// The request with what is left of its time; each round of a Get takes from the same.
    fn in_time(&self, mut request: GetRequest, begun: Option<Time>) -> Result<GetRequest, CallError> {
        let spent = begun.map_or(Duration::ZERO, |begun| self.link.now().since(begun));
        if request.directives.spend(spent) { Ok(request) } else { Err(CallError::TimedOut { command: Command::Get }) }
    }

    /// Asks the server to end processes; an empty list means the whole namespace.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn abort(&self, status: Status, message: Option<Text>, procs: Vec<ProcId>) -> Result<(), CallError> {
        self.link.call(Call::Abort(Abort { status, message, procs })).map(drop)
    }

    /// Leaves in order: waits for the server's consent and closes the connection. What is in flight ends with an
    /// error.
    ///
    /// # Errors
    /// [`CallError`] when the server said no or took too long; the connection is closed all the same.
    pub fn finalize(&self) -> Result<(), CallError> {
        self.link.call(Call::Finalize).map(drop)
    }

    /// Closes the connection and ends the progress thread. What is in flight ends with an error; callbacks that are
    /// ready run before this returns, unless one of them is what calls it, or takes longer than a second: it may be
    /// waiting for a lock that the caller holds, as Python does. Nothing can be asked any more; published values can
    /// still be read.
    pub fn close(&self) {
        if process::id() != self.owner_pid {
            // Closing would end the parent's connection, and the thread to join does not exist here.
            return;
        }
        self.progress.close(&self.link);
    }

    pub(super) fn link(&self) -> &Link {
        &self.link
    }

    pub(super) fn own_source(&self) -> Option<&Source> {
        self.own.as_ref()
    }

    pub(super) fn foreign_source(&self, namespace: &Namespace) -> Option<Arc<Source>> {
        self.foreign.source(namespace, &self.link)
    }

    /// What the server is and takes.
    pub(super) const fn manners(&self) -> &Manners {
        &self.manners
    }

    /// The groups that this process is in.
    pub(super) const fn groups(&self) -> &Arc<Groups> {
        &self.groups
    }

    pub(super) const fn topology(&self) -> &KnownTopology {
        &self.topology
    }

    pub(super) fn staging(&self) -> MutexGuard<'_, Staging> {
        self.staging.lock()
    }

    /// Whether something this process put or stored may stand before what the segment has for this rank of its own
    /// namespace. What it stores is always for one process, never for the job.
    #[inline]
    pub(super) fn may_be_staged(&self, rank: Rank) -> bool {
        // Acquire pairs with the Release in `put` and `store_internal`: a thread that learns of a put from the one
        // that made it also finds the value. Threads that do not talk to each other see it when they see it.
        match rank {
            Rank::Wildcard => false,
            rank if rank == self.proc.rank || rank == Rank::Undefined => {
                self.has_put.load(Ordering::Acquire) || self.has_stored.load(Ordering::Acquire)
            }
            _ => self.has_stored.load(Ordering::Acquire),
        }
    }
}

/// Takes the value of a Get once it is there.
pub(super) type ValueCallback = Box<dyn FnOnce(Result<Value, FetchError>) + Send>;

/// A Get with callback.
struct Asked {
    request: GetRequest,
    /// When its time limit began to run, if it has one.
    begun: Option<Time>,
}

/// One round of a Get with callback. The session is held for the round only: one that was dropped meanwhile has ended
/// its calls.
fn continue_get(session: &Weak<Session>, asked: Asked, answer: Option<Arc<[RankData]>>, callback: ValueCallback) {
    let Some(held) = session.upgrade() else {
        return callback(Err(FetchError::Dropped));
    };
    let round = answer.as_deref().map_or(Round::First, Round::Answered);
    let decision = resolve(&asked.request, &held.proc, round, &SessionStores(&held));
    if matches!(decision, Decision::Ask(_) | Decision::NotFound(_))
        && let Some(value) = held.given(&asked.request)
    {
        return callback(Ok(value));
    }
    let ask = match decision {
        Decision::Found(value) => return callback(as_put(value, &asked.request).and_then(owned)),
        Decision::Known(value) => return callback(as_put(Fetched::owned(value), &asked.request).and_then(owned)),
        Decision::NotFound(status) => return callback(Err(FetchError::of(status))),
        Decision::Ask(ask) => match held.in_time(ask, asked.begun) {
            Ok(ask) => ask,
            Err(error) => return callback(Err(FetchError::Call(error))),
        },
    };
    let session = Weak::clone(session);
    let go_on = Box::new(move |result: CallResult| match result {
        Ok(Outcome::Answered(data)) => continue_get(&session, asked, Some(data), callback),
        Ok(_) => continue_get(&session, asked, None, callback),
        Err(error) => callback(Err(FetchError::Call(error))),
    });
    held.link.start_with(Call::Get(ask), go_on);
}

/// One value, or everything about a process, without compression.
fn as_put<'a>(found: Fetched<'a>, request: &GetRequest) -> Result<Fetched<'a>, FetchError> {
    match request.key {
        Some(_) => inflated(found),
        None => Ok(Fetched::owned(inflated_entries(found.into_value().map_err(|_| FetchError::Damaged)?))),
    }
}

fn owned(value: Fetched<'_>) -> Result<Value, FetchError> {
    value.into_value().map_err(|_| FetchError::Damaged)
}

impl Drop for Session {
    fn drop(&mut self) {
        if process::id() != self.owner_pid {
            return self.progress.forget();
        }
        self.close();
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("proc", &self.proc).field("reads_segment", &self.reads_segment()).finish()
    }
}
