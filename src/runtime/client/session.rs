mod derived;
mod events;
pub(super) mod exchange;
mod get;
mod member;
mod output;
mod query_cache;
mod stores;
mod topology;
mod whereabouts;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, MutexGuard};

use self::events::Handlers;
use self::query_cache::QueryCache;
use self::topology::TopologyCache;
use super::groups::Groups;
use super::link::Link;
use super::progress::Progress;
use super::readers::{ForeignSources, Source};
use super::started_fence::StartedFence;
use crate::client::{Call, CallError, FenceDirectives, Staged, Staging, StagingError, StagingLimits};
use crate::gds::NamespaceReader;
use crate::proto::{Abort, Commit};
use crate::ptl::{LAUNCHER_PREFIX, ServerAddress};
use crate::runtime::shared::data_form::DataForm;
use crate::runtime::shared::peer_profile::PeerProfile;
use crate::types::{IntoValue, Key, Namespace, ProcId, Rank, Scope, Status, Text, Value};

/// A process's membership in its job: the segments that it reads, the values that it put, and the link to its server.
///
/// To the server, dropping it without [`Session::finalize`] looks like the end of the process. A copy in a forked child
/// reads the segment, but the connection remains the parent's: calls end with [`CallError::Lost`].
pub struct Session {
    proc: ProcId,
    server: ProcId,
    /// The address of the server; `None`: there is no server.
    address: Option<ServerAddress>,
    hostname: Option<String>,
    /// The segment of the own namespace: read without a lock. `None`: all values come over the socket.
    own: Option<Source>,
    foreign: ForeignSources,
    peer_profile: PeerProfile,
    groups: Arc<Groups>,
    topology: TopologyCache,
    /// Shared with the callbacks of queries.
    query_cache: Arc<QueryCache>,
    staging: Mutex<Staging>,
    /// Whether this process has put anything. Until then a Get of its own values need not look into `staging`.
    has_put: AtomicBool,
    /// Whether it stored a value for another process, as few processes do. Until then a Get of other processes' values
    /// need not look into `staging`, and so takes no lock.
    has_stored: AtomicBool,
    pub(super) link: Arc<Link>,
    /// Made at the first use: a tool's further sessions share those of its first one.
    handlers: OnceLock<Handlers>,
    pub(super) progress: Progress,
    /// Whether the process runs without a launcher, so that there is no server and no other process.
    is_alone: bool,
}

impl Session {
    /// `server` is the server's own name.
    pub(super) fn new(proc: ProcId, server: ProcId, hostname: Option<String>, own: Option<Source>, link: Link) -> Self {
        let peer_profile = link.with(|state| state.peer_profile());
        let foreign = ForeignSources::new(proc.namespace.clone(), &link);
        let link = Arc::new(link);
        Self {
            handlers: OnceLock::new(),
            staging: Mutex::new(Staging::new(proc.clone(), StagingLimits::default())),
            proc,
            server,
            address: None,
            hostname,
            own,
            foreign,
            peer_profile,
            groups: Arc::default(),
            topology: TopologyCache::default(),
            query_cache: Arc::default(),
            has_put: AtomicBool::new(false),
            has_stored: AtomicBool::new(false),
            link,
            progress: Progress::default(),
            is_alone: false,
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

    /// The server's name for this node, if the server sent one.
    #[must_use]
    pub fn hostname(&self) -> Option<&str> {
        self.hostname.as_deref()
    }

    /// Whether the session reads the server's segment of the namespace. If not, all values except the job's description
    /// come from requests.
    #[must_use]
    pub fn reads_segment(&self) -> bool {
        self.own.as_ref().is_some_and(|own| own.is_servers)
    }

    /// The session, with the address of its server.
    pub(super) fn at(mut self, address: ServerAddress) -> Self {
        self.address = Some(address);
        self
    }

    /// The session of a process without a server.
    pub(super) fn into_alone(mut self) -> Self {
        self.is_alone = true;
        let now = self.link.now();
        self.link.with(|state| state.forgo(now));
        self
    }

    /// Whether the server has closed the connection.
    #[must_use]
    pub fn has_lost_server(&self) -> bool {
        !self.is_alone && self.link.is_lost()
    }

    /// Whether this process has no launcher, and so no server.
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
        if value == Value::Undefined {
            return self.remove(scope, Key::for_put(key.to_owned())?);
        }
        self.check_type(scope, key, &value)?;
        // Release pairs with the Acquire in `may_be_staged`.
        self.has_put.store(true, Ordering::Release);
        self.staging.lock().put(scope, key, value)
    }

    /// As [`Session::put`], for any key. The standard reserves keys for the host, but MPI libraries put some of their
    /// own (the node's name, their binding) for their peers.
    ///
    /// # Errors
    /// [`StagingError`].
    pub fn put_any(&self, scope: Scope, key: Key, value: Value) -> Result<(), StagingError> {
        if value == Value::Undefined {
            return self.remove(scope, key);
        }
        self.check_type(scope, key.as_str(), &value)?;
        // Release pairs with the Acquire in `may_be_staged`.
        self.has_put.store(true, Ordering::Release);
        self.staging.lock().put_any(scope, key, value)
    }

    /// Removes a value that this process put; others hear of it by a commit.
    ///
    /// # Errors
    /// [`StagingError`].
    pub fn remove(&self, scope: Scope, key: Key) -> Result<(), StagingError> {
        if !self.is_alone && scope != Scope::Internal && !self.peer_profile.removes_values() {
            return Err(StagingError::NoRemovals { key });
        }
        // Release pairs with the Acquire in `may_be_staged`.
        self.has_put.store(true, Ordering::Release);
        self.staging.lock().remove(scope, key)
    }

    /// Stores a value of any process; only this process sees it.
    ///
    /// # Errors
    /// [`StagingError`].
    pub fn store_internal(&self, proc: &ProcId, key: Key, value: Value) -> Result<(), StagingError> {
        // Release pairs with the Acquire in `may_be_staged`.
        self.has_stored.store(true, Ordering::Release);
        self.staging.lock().store_internal(proc, key, value)
    }

    /// Sends the server the values that were put since the last commit, and waits until they are published. Without new
    /// values it returns at once, except for the first commit, which other processes may wait for. After an error the
    /// values are part of the next commit.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn commit(&self) -> Result<(), CallError> {
        if self.is_alone {
            // No other process will look. The process itself finds its values in the staging area.
            return Ok(());
        }
        // The lock is free during the wait, so another thread's commit of other keys may overtake this one.
        while let Some(staged) = self.take_staged() {
            let is_empty = staged.commit.parts.is_empty();
            let result = self
                .commits(staged.commit)
                .into_iter()
                .try_for_each(|commit| self.link.call(Call::Commit(commit)).map(drop));
            if let Err(error) = result {
                self.staging.lock().put_back(staged.mark);
                // An empty commit loses nothing with the server.
                return if is_empty && matches!(error, CallError::Lost { .. }) { Ok(()) } else { Err(error) };
            }
        }
        Ok(())
    }

    /// Whether this process runs alone, and the names mean no other process.
    fn is_everyone(&self, procs: &[ProcId]) -> bool {
        self.is_alone && procs.iter().all(|proc| proc.covers(&self.proc))
    }

    /// Refuses a value for which the server would refuse the whole commit.
    fn check_type(&self, scope: Scope, key: &str, value: &Value) -> Result<(), StagingError> {
        if scope == Scope::Internal || self.peer_profile.takes(value) {
            return Ok(());
        }
        Err(StagingError::UnknownType { key: key.to_owned(), data_type: value.data_type().name() })
    }

    /// Our own server knows global values. Other servers get them twice, as local and as remote values.
    fn commits(&self, commit: Commit) -> Vec<Commit> {
        match self.peer_profile.is_ours {
            true => vec![commit],
            false => commit.by_audience(self.peer_profile.message_bytes_max / 2),
        }
    }

    fn take_staged(&self) -> Option<Staged> {
        let mut staging = self.staging.lock();
        // Gets at our own server may wait for the first commit, even an empty one. Other servers limit the time of
        // every Get.
        staging.take_commit().or_else(|| if self.peer_profile.is_ours { staging.take_first_commit() } else { None })
    }

    /// Waits for every named process; an empty list means the namespace.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn fence(&self, procs: Vec<ProcId>, directives: FenceDirectives) -> Result<(), CallError> {
        if self.is_everyone(&procs) {
            return Ok(());
        }
        let fence = Call::Fence { procs: self.groups.spell_out(procs), directives };
        self.link.fence(None, fence, self.servers_segment()).1.map(drop)
    }

    /// [`Session::commit`] and then [`Session::fence`]; with our own server one wait instead of two. Even if the commit
    /// fails, the fence takes place.
    ///
    /// # Errors
    /// [`CallError`], that of the commit first.
    pub fn commit_and_fence(&self, procs: Vec<ProcId>, directives: FenceDirectives) -> Result<(), CallError> {
        if self.is_alone || !self.peer_profile.is_ours {
            // The other processes wait in the fence, even if this commit fails.
            let committed = self.commit();
            let fenced = self.fence(procs, directives);
            return committed.and(fenced);
        }
        let Some(staged) = self.take_staged() else { return self.fence(procs, directives) };
        let fence = Call::Fence { procs: self.groups.spell_out(procs), directives };
        let (committed, fenced) = self.link.fence(Some(Call::Commit(staged.commit)), fence, self.servers_segment());
        if let Some(Err(error)) = committed {
            self.staging.lock().put_back(staged.mark);
            return Err(error);
        }
        fenced.map(drop)
    }

    /// As [`Session::fence`], without waiting.
    pub fn start_fence(&self, procs: Vec<ProcId>, directives: FenceDirectives) -> StartedFence {
        if self.is_everyone(&procs) {
            return StartedFence::done(&self.link);
        }
        let procs = self.groups.spell_out(procs);
        StartedFence::new(&self.link, self.link.start(Call::Fence { procs, directives }))
    }

    /// As [`Session::fence`]; the result goes to `callback`, on the progress thread. Starts that thread if needed.
    ///
    /// # Errors
    /// The thread could not be started, and the fence has not begun.
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

    /// Runs a job on the progress thread, after the callbacks that are ready.
    ///
    /// # Errors
    /// The session is closed, or the thread could not be started. The job will not run.
    pub fn later(&self, job: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        self.progress.begin(&self.link, |link| link.defer(job))
    }

    /// Asks the server to end processes; an empty list means the whole namespace.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn abort(&self, status: Status, message: Option<Text>, procs: Vec<ProcId>) -> Result<(), CallError> {
        self.link.call(Call::Abort(Abort { status, message, procs })).map(drop)
    }

    /// Leaves in order: waits for the server's consent and closes the connection. Pending calls end with an error.
    ///
    /// # Errors
    /// [`CallError`] if the server refused or took too long. The connection is closed anyway.
    pub fn finalize(&self) -> Result<(), CallError> {
        self.link.call(Call::Finalize).map(drop)
    }

    /// Closes the connection and ends the progress thread. Pending calls end with an error. Published values stay
    /// readable.
    ///
    /// Callbacks that are ready run before this returns, but it waits no longer than a second. A callback may wait for
    /// a lock of the caller, as in Python. Inside a callback it does not wait.
    pub fn close(&self) {
        if !self.link.is_of_this_process() {
            // A close would end the parent's connection, and its thread does not exist here.
            return;
        }
        if let Some(Handlers { hub, link_id }) = self.handlers.get() {
            hub.remove_link(*link_id);
        }
        self.progress.close(&self.link);
    }

    pub(super) fn link(&self) -> &Link {
        &self.link
    }

    /// The segment of the own namespace, if it is the server's.
    fn servers_segment(&self) -> Option<&NamespaceReader> {
        self.own.as_ref().filter(|own| own.is_servers).map(|own| &own.reader)
    }

    pub(super) fn own_source(&self) -> Option<&Source> {
        self.own.as_ref()
    }

    pub(super) fn foreign_source(&self, namespace: &Namespace) -> Option<Arc<Source>> {
        self.foreign.source(namespace, &self.link)
    }

    /// The kind and limits of the server.
    pub(super) const fn peer_profile(&self) -> &PeerProfile {
        &self.peer_profile
    }

    /// The most bytes of one push of input that the server and its host take. PRRTE copies a push into 8 KiB without a
    /// look at its size, and the tools of OpenPMIx push 4 KiB. Tools know our launcher by its name.
    #[must_use]
    pub fn push_bytes_max(&self) -> usize {
        let is_ours = self.peer_profile.is_ours || self.server.namespace.as_str().starts_with(LAUNCHER_PREFIX);
        if is_ours { OWN_PUSH_BYTES } else { FOREIGN_PUSH_BYTES }
    }

    /// The form of packed data for the server.
    #[must_use]
    pub const fn data_form(&self) -> DataForm {
        DataForm::of_peer(self.peer_profile.dialect.codec, self.peer_profile.is_ours)
    }

    /// The groups of this process.
    pub(super) const fn groups(&self) -> &Arc<Groups> {
        &self.groups
    }

    const fn topology(&self) -> &TopologyCache {
        &self.topology
    }

    pub(super) fn staging(&self) -> MutexGuard<'_, Staging> {
        self.staging.lock()
    }

    /// Whether a value that this process put or stored may hide the segment's value for this rank of its own namespace.
    /// Stored values always belong to one process, never to the job.
    #[inline]
    pub(super) fn may_be_staged(&self, rank: Rank) -> bool {
        // Acquire pairs with the Release in `put` and `store_internal`. A thread that learns of a put from the putting
        // thread also finds the value. Other threads see it some time later.
        match rank {
            Rank::Wildcard => false,
            rank if rank == self.proc.rank || rank == Rank::Undefined => {
                self.has_put.load(Ordering::Acquire) || self.has_stored.load(Ordering::Acquire)
            }
            _ => self.has_stored.load(Ordering::Acquire),
        }
    }
}

/// The bytes of a push to a server of ours. The pusher waits for each answer. A launcher takes up to 1 MiB.
const OWN_PUSH_BYTES: usize = 256 << 10;
/// The bytes of a push to other servers.
const FOREIGN_PUSH_BYTES: usize = 4 << 10;

impl Drop for Session {
    fn drop(&mut self) {
        if !self.link.is_of_this_process() {
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
