//! The roles of this process in PMIx: client, server, or both, with counts of initializations.
//!
//! ```text
//! any function ── member() ──► thread's copy ── same generation? ──► Arc<Membership> or Arc<dyn ServerRole>
//!                                   └── no ──► the state, under its lock ──► new copy
//! ```
//!
//! - **P1** Access to the client costs one atomic load. Every thread keeps a copy of the state's member with the
//!   state's number (its generation). A change of the state changes the number. [`member`] also looks at a tool's
//!   connection, because a tool goes on without a server that has ended.
//! - **P2** The lock of the state is held for assignments only, never during a wait or a callback. [`begin`] gives the
//!   right to change the state over a longer time; only Init and Finalize wait for it.
//! - **P3** A forked child is not initialized: `pthread_atfork` gives it a new, empty state. It does not matter which
//!   locks the parent's threads held. The child's copies hold the parent's client but never drop the last reference to it. The
//!   child may initialize itself.

use std::cell::RefCell;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

use modex::types::{AsStatus, Info, ProcId, Status};
use modex::{Client, Roster};
use nix::libc;
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::client::KeptValues;
use super::output::{PullOutputs, SpawnedOutput};
use super::server_role::ServerRole;
use super::{stdin_reading, turns};

/// The role in which this process calls client functions.
#[derive(Clone)]
pub(super) enum Member {
    /// A client of a server, or alone.
    Client(Arc<Membership>),
    /// A server, with its own store and its host's functions.
    Server(Arc<dyn ServerRole>),
}

/// A client, and data of the same lifetime.
pub(super) struct Membership {
    client: Client,
    /// Values that callers look at without owning them.
    pub(super) kept: KeptValues,
    /// Pulls whose output this process writes.
    pub(super) outputs: PullOutputs,
    /// Output of the jobs that a tool has spawned.
    pub(super) spawned: Arc<SpawnedOutput>,
    /// Whether the process has chosen this server itself. A tool goes on without a server that has ended.
    is_of_tool: bool,
}

impl Membership {
    pub(super) fn new(client: Client) -> Self {
        let (outputs, spawned) = (PullOutputs::default(), Arc::default());
        Self { client, kept: KeptValues::default(), outputs, spawned, is_of_tool: false }
    }

    /// A tool's connection, or a tool without a server.
    pub(super) fn of_tool(client: Client) -> Self {
        Self { is_of_tool: true, ..Self::new(client) }
    }

    /// Whether this is a tool's connection to a server that has ended.
    fn is_left(&self) -> bool {
        self.is_of_tool && self.client.has_lost_server()
    }

    /// Writes output that the server sends without a pull.
    pub(super) fn show_spawned(&self) -> io::Result<()> {
        let writer = Arc::clone(&self.spawned);
        self.client.take_output(move |output| writer.write(output))
    }

    /// Writes all output that has come, at the end of the connection.
    pub(super) fn finish_output(&self) {
        self.outputs.finish();
        self.spawned.finish();
    }
}

impl AsRef<Client> for Membership {
    fn as_ref(&self) -> &Client {
        &self.client
    }
}

impl std::ops::Deref for Membership {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

/// Roles and counts of initializations.
#[derive(Default)]
pub(super) struct State {
    /// `PMIx_Init` less `PMIx_Finalize`.
    pub(super) client_count: u32,
    /// `PMIx_server_init` less `PMIx_server_finalize`.
    pub(super) server_count: u32,
    /// `PMIx_tool_init` less `PMIx_tool_finalize`.
    pub(super) tool_count: u32,
    /// Directives of the first `PMIx_Init`.
    pub(super) init_directives: Vec<Info>,
    /// Directives of the first `PMIx_server_init`.
    pub(super) server_directives: Vec<Info>,
    /// Directives of the first `PMIx_tool_init`.
    pub(super) tool_directives: Vec<Info>,
    /// Set by the first `PMIx_Init` in a process that is no server, or by a tool's first connection.
    pub(super) client: Option<Arc<Membership>>,
    /// A tool's connections, the oldest first; `client` is one of them, or has no server.
    pub(super) attached: Vec<Arc<Membership>>,
    /// The tool has no name yet. Its first server gives it one.
    pub(super) is_unnamed: bool,
    /// Connections to servers that have ended. Their handlers still hear it.
    pub(super) lost: Vec<Arc<Membership>>,
    /// Directories in which a tool looks for servers, the session's and the node's.
    pub(super) tool_places: [Option<PathBuf>; 2],
    /// Set by the first `PMIx_server_init`, or when a tool becomes a server.
    pub(super) server: Option<Arc<dyn ServerRole>>,
}

impl State {
    /// Whether any initialization is not undone yet.
    pub(super) const fn is_initialized(&self) -> bool {
        self.client_count > 0 || self.server_count > 0 || self.tool_count > 0
    }

    /// A tool's connections, and the one that functions use.
    pub(super) const fn roster(&mut self) -> Roster<'_, Membership> {
        Roster { primary: &mut self.client, attached: &mut self.attached }
    }

    /// The client takes precedence over the server: a process with both asks its own server for data of other processes
    /// of its job. A tool without a server uses the server inside it.
    fn member(&self) -> Option<Member> {
        match (&self.client, &self.server) {
            (Some(client), Some(server)) if self.tool_count > 0 && client.is_alone() => {
                Some(Member::Server(Arc::clone(server)))
            }
            (Some(client), _) => Some(Member::Client(Arc::clone(client))),
            (None, Some(server)) => Some(Member::Server(Arc::clone(server))),
            (None, None) => None,
        }
    }
}

impl Member {
    /// This process's name.
    pub(super) fn proc(&self) -> ProcId {
        match self {
            Self::Client(client) => client.proc().clone(),
            Self::Server(role) => role.server().proc().clone(),
        }
    }

    /// Values that callers look at without owning them.
    pub(super) fn kept(&self) -> &KeptValues {
        match self {
            Self::Client(client) => &client.kept,
            Self::Server(role) => role.kept(),
        }
    }

    /// Runs a job on the thread of callbacks.
    ///
    /// # Errors
    /// There is no thread for it; it will not run.
    pub(super) fn defer(&self, job: impl FnOnce() + Send + 'static) -> Result<(), Status> {
        match self {
            Self::Client(client) => client.later(job).map_err(|_| Status::ERR_OUT_OF_RESOURCE),
            Self::Server(role) => role.server().defer(job).map_err(|error| error.status()),
        }
    }
}

/// The current role. A tool whose primary server has ended has none.
///
/// # Errors
/// `ERR_INIT` before the first and after the last initialization, and in a forked child. `ERR_OUT_OF_RESOURCE` for a
/// tool whose server has ended, if there is no descriptor left.
pub(super) fn member() -> Result<Member, Status> {
    match known_member()? {
        Member::Client(client) if client.is_left() => {
            forget_lost()?;
            known_member()
        }
        member => Ok(member),
    }
}

/// Takes servers that have ended out of a tool's list. If the primary one has, there is none until another is chosen.
///
/// # Errors
/// `ERR_OUT_OF_RESOURCE`: there is no descriptor left.
pub(super) fn forget_lost() -> Result<(), Status> {
    let attached = read(|state| state.attached.clone());
    // The reading of their last messages may take a while, so it needs no lock (P2).
    let lost: Vec<_> = attached.into_iter().filter(|client| client.is_left()).collect();
    let Some(first) = lost.first() else { return Ok(()) };
    let alone = alone_beside(first)?;
    change(|state| {
        for client in &lost {
            if state.attached.iter().any(|attached| Arc::ptr_eq(attached, client)) {
                state.roster().remove_this(client, Some(Arc::clone(&alone)));
                state.lost.push(Arc::clone(client));
            }
        }
    });
    Ok(())
}

/// Drops connections to servers that have ended. This waits for their callbacks.
pub(super) fn drop_lost() {
    let lost = change(|state| std::mem::take(&mut state.lost));
    renew_copy();
    for client in lost {
        // Output that has come is written before the end.
        let _ = client.leave();
        client.finish_output();
    }
}

/// A tool without a server. It has the name and the event handlers of a present connection.
///
/// # Errors
/// `ERR_OUT_OF_RESOURCE`: there is no descriptor or thread left.
pub(super) fn alone_beside(present: &Client) -> Result<Arc<Membership>, Status> {
    let alone = Client::alone_as(present.proc().clone());
    let alone = alone.and_then(|alone| alone.share_handlers(present).map(|()| alone));
    Ok(Arc::new(Membership::of_tool(alone.map_err(|_| Status::ERR_OUT_OF_RESOURCE)?)))
}

fn known_member() -> Result<Member, Status> {
    // A thread that is about to end has no copy any more, so it reads the state: MPI libraries finalize from `atexit`.
    let found = with_copy(|member| member.cloned()).unwrap_or_else(|| read(State::member));
    found.ok_or(Status::ERR_INIT)
}

/// Runs `act` with the client, without counting references. `None` when this process is no client. `act` must not wait
/// and must not call out.
#[inline]
pub(super) fn peek_client<R>(act: impl FnOnce(&Membership) -> Option<R>) -> Option<R> {
    let looked = with_copy(|member| match member {
        Some(Member::Client(client)) => act(client),
        _ => None,
    });
    looked.flatten()
}

/// Drops this thread's copy of an old state.
pub(super) fn renew_copy() {
    let _ = with_copy(|_| ());
}

/// Whether any initialization is not undone yet.
pub(super) fn is_initialized() -> bool {
    shared().state.lock().is_initialized()
}

/// The right to initialize and finalize, while the guard lives. It must not be held while a client or server is
/// finalized: their callbacks may call Init.
pub(super) fn begin() -> MutexGuard<'static, Changes> {
    shared().changes.lock()
}

/// As [`begin`], for a caller that is about to connect: it waits until a leaving client has left. A callback of the
/// leaving client that calls this waits until the client gives up on it.
pub(super) fn begin_to_join() -> MutexGuard<'static, Changes> {
    let Shared { changes, left, .. } = shared();
    let mut changes = changes.lock();
    while changes.leaving_count > 0 {
        left.wait(&mut changes);
    }
    changes
}

/// State that delays new connections.
#[derive(Default)]
pub(super) struct Changes {
    leaving_count: u32,
}

impl Changes {
    /// Marks that a client leaves its server, until the result is dropped. With two connections of one process at a
    /// time, the server would take the end of the older one for the end of the process.
    pub(super) const fn leave(&mut self) -> Leaving {
        self.leaving_count += 1;
        Leaving(())
    }
}

/// A client is leaving.
pub(super) struct Leaving(());

impl Drop for Leaving {
    fn drop(&mut self) {
        let Shared { changes, left, .. } = shared();
        let mut changes = changes.lock();
        changes.leaving_count = changes.leaving_count.saturating_sub(1);
        left.notify_all();
    }
}

/// Looks at the state, under its lock (P2).
pub(super) fn read<R>(look: impl FnOnce(&State) -> R) -> R {
    look(&shared().state.lock())
}

/// Changes the state, under its lock (P2). Old values must be returned and dropped outside the lock.
pub(super) fn change<R>(apply: impl FnOnce(&mut State) -> R) -> R {
    let mut state = shared().state.lock();
    let result = apply(&mut state);
    // Release pairs with the Acquire in `with_copy`: a reader of the new number finds the new state behind the lock.
    GENERATION.fetch_add(1, Ordering::Release);
    result
}

struct Shared {
    changes: Mutex<Changes>,
    /// Announces that a client has left.
    left: Condvar,
    state: Mutex<State>,
    /// In a forked child the parent's state. It is unused, but stays reachable for memcheck.
    #[expect(dead_code, reason = "it only has to be there")]
    of_parent: AtomicPtr<Shared>,
}

/// A thread's copy of the result of `State::member`.
struct Copy {
    generation: u64,
    member: Option<Member>,
}

/// Never zero, so that an empty copy is out of date.
static GENERATION: AtomicU64 = AtomicU64::new(1);
/// Null until it is needed, and again in a forked child.
static SHARED: AtomicPtr<Shared> = AtomicPtr::new(std::ptr::null_mut());
/// In a forked child the parent's state, for the child's own to refer to.
static ABANDONED: AtomicPtr<Shared> = AtomicPtr::new(std::ptr::null_mut());
static IS_FORK_WATCHED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static COPY: RefCell<Copy> = const { RefCell::new(Copy { generation: 0, member: None }) };
}

/// Runs `act` with the thread's copy; `None` when the thread is about to end and has none any more.
#[inline]
fn with_copy<R>(act: impl FnOnce(Option<&Member>) -> R) -> Option<R> {
    COPY.try_with(|copy| {
        // Acquire pairs with the Release in `change`.
        let generation = GENERATION.load(Ordering::Acquire);
        if let Ok(copy) = copy.try_borrow()
            && copy.generation == generation
        {
            return Some(act(copy.member.as_ref()));
        }
        refresh(copy, generation);
        copy.try_borrow().ok().map(|copy| act(copy.member.as_ref()))
    })
    .ok()
    .flatten()
}

/// Takes a new copy. `generation` was read before the state: after a change in between, the copy is renewed again.
#[cold]
#[inline(never)]
fn refresh(copy: &RefCell<Copy>, generation: u64) {
    let member = read(State::member);
    let stale = match copy.try_borrow_mut() {
        Ok(mut copy) => std::mem::replace(&mut *copy, Copy { generation, member }),
        Err(_) => return,
    };
    // Dropping the last reference to a client waits for its thread; the copy must not be borrowed meanwhile.
    drop(stale);
}

fn shared() -> &'static Shared {
    let found = SHARED.load(Ordering::Acquire);
    // SAFETY: what `SHARED` points to was leaked by `make_shared`, so it lives as long as the process; Acquire pairs
    // with the Release there.
    match unsafe { found.as_ref() } {
        Some(shared) => shared,
        None => make_shared(),
    }
}

#[cold]
fn make_shared() -> &'static Shared {
    if !IS_FORK_WATCHED.swap(true, Ordering::Relaxed) {
        // SAFETY: `forget_after_fork` is safe to run in a forked child: it only stores. A failure (no memory) means
        // that a fork is not noticed here; the client's own checks still are.
        let _ = unsafe { libc::pthread_atfork(None, None, Some(forget_after_fork)) };
    }
    let of_parent = AtomicPtr::new(ABANDONED.load(Ordering::Acquire));
    let made = Box::into_raw(Box::new(Shared {
        changes: Mutex::default(),
        left: Condvar::new(),
        state: Mutex::default(),
        of_parent,
    }));
    let null = std::ptr::null_mut();
    match SHARED.compare_exchange(null, made, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: made above, and never freed from here on.
        Ok(_) => unsafe { &*made },
        Err(theirs) => {
            // SAFETY: made above by `Box`, and nobody has seen it.
            drop(unsafe { Box::from_raw(made) });
            // SAFETY: leaked by the thread that won; see `shared`.
            unsafe { &*theirs }
        }
    }
}

/// In a forked child the state and its locks stay the parent's; a thread that does not exist here may hold them. They
/// are never touched again.
extern "C" fn forget_after_fork() {
    ABANDONED.store(SHARED.swap(std::ptr::null_mut(), Ordering::AcqRel), Ordering::Release);
    GENERATION.fetch_add(1, Ordering::Release);
    stdin_reading::forget_after_fork();
    turns::forget_after_fork();
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Regression: Init in one thread during Finalize in another one made a second connection before the first had
    /// left.
    #[test]
    fn an_init_waits_for_a_finalize_in_another_thread() {
        for _ in 0..100 {
            let (order, seen) = mpsc::channel();
            let leaving = begin().leave();
            let joined = order.clone();
            let joining = std::thread::Builder::new().spawn(move || {
                drop(begin_to_join());
                joined.send("joined").unwrap();
            });
            // Other callers may change the state meanwhile.
            drop(begin());
            std::thread::yield_now();
            order.send("left").unwrap();
            drop(leaving);
            joining.unwrap().join().unwrap();
            assert_eq!([seen.recv().unwrap(), seen.recv().unwrap()], ["left", "joined"]);
        }
    }
}
