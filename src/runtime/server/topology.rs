//! The node's topology at a server: read once, at the first request, and shared in one segment.
//!
//! ```text
//! first question (a client's, or the host's) --> source.read() --> SharedMachine --> descriptor or text, for everybody
//!                                                (own thread)
//! ```
//!
//! Reading can hang in drivers of devices and in network file systems, and a thread that waits for them can't be ended.
//! So every request waits at most [`READING_TIME_MAX`], counted from the first request. Afterwards it fails with
//! `TooSlow` until the reading is done. Clients of other libraries then get their job information without the topology.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crossbeam::channel::bounded;
use parking_lot::{Condvar, Mutex};
use rustix::process::{Pid, getpriority_process, nice, setpriority_process};
use rustix::thread::gettid;

use super::loop_messages::{LoopMessage, LoopSender};
use crate::proto::Tag;
use crate::runtime::shared::clock::Clock;
use crate::runtime::shared::threads::spawn;
use crate::server::{PeerId, TopologyQuestion};
use crate::shmem::SegmentOptions;
use crate::topo::{Machine, SharedMachine, TopologyError};
use crate::types::{AsStatus, Namespace, Status, Time, Topology};

/// Reads the machine, or gets the topology elsewhere.
pub trait TopologySource: fmt::Debug + Send + Sync + 'static {
    /// The topology as hwloc's XML, with devices. It may take long. A server calls this at most once.
    ///
    /// # Errors
    /// [`TopologyError`].
    fn read(&self) -> Result<Topology, TopologyError>;

    /// The machine as it is now, for inventories
    /// ([`Server::collect_current_inventory`](crate::Server::collect_current_inventory)). A source that keeps what it
    /// has read must read anew here.
    ///
    /// # Errors
    /// [`TopologyError`].
    fn read_again(&self) -> Result<Topology, TopologyError> {
        self.read()
    }
}

/// When a server reads the topology of its node, and who may request it.
///
/// Source: PMIx Standard, `PMIX_SERVER_SHARE_TOPOLOGY`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TopologySharing {
    /// At the first request; all clients may request it.
    #[default]
    OnDemand,
    /// Soon after the server's start: when it is idle, or when a client of another library connects. Such clients get
    /// it with their job information.
    AtStart,
    /// Only for the host.
    Refused,
}

impl AsStatus for TopologyError {
    fn status(&self) -> Status {
        match self {
            Self::NoLibrary { .. } | Self::NotBuilt | Self::Forbidden | Self::NoSource | Self::NotShared => {
                Status::ERR_NOT_SUPPORTED
            }
            Self::NoCores => Status::ERR_NOT_FOUND,
            Self::Unreachable { .. } => Status::ERR_UNREACH,
            Self::NoThread => Status::ERR_OUT_OF_RESOURCE,
            Self::TooSlow => Status::ERR_TIMEOUT,
            Self::Detection { .. } | Self::Failed { .. } | Self::Unusable { .. } => Status::ERROR,
        }
    }
}

/// How a server gets the topology of its node.
#[derive(Clone, Debug)]
pub struct TopologyOptions {
    /// Reads the topology; without it there is none.
    pub source: Option<Arc<dyn TopologySource>>,
    /// When it is read, and who may request it.
    pub sharing: TopologySharing,
    /// The longest wait for it, counted from the first request.
    pub time_max: Duration,
}

impl Default for TopologyOptions {
    fn default() -> Self {
        Self { source: None, sharing: TopologySharing::default(), time_max: READING_TIME_MAX }
    }
}

/// The node's topology, shared by all parts of a server.
pub struct NodeTopology {
    options: TopologyOptions,
    segment: SegmentOptions,
    clock: Clock,
    /// Tells the loop, which answers requests by message.
    loop_sender: LoopSender,
    outcome: OnceLock<Outcome>,
    reading: Mutex<Reading>,
    /// Signals that the outcome is there, or that the waiting is over.
    is_over: Condvar,
    ahead: Ahead,
    /// Whether a later reading runs.
    is_read_again: AtomicBool,
}

/// The state of the reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// There was no request.
    NotBegun,
    /// A thread reads before any request. It has a low priority and may take its time.
    Ahead,
    /// A thread reads. Requests wait for it until this time.
    Until(Time),
    /// The server ends; the thread may continue.
    Abandoned,
}

/// The thread that reads before any request. It has a low priority because starting processes, most of which never need
/// the topology, would wait for a shared processor in their Init.
#[derive(Debug, Default)]
struct Ahead {
    /// Its thread number while it reads; 0: there is none.
    thread: AtomicI32,
    /// Its priority before it was lowered.
    priority: AtomicI32,
    /// Whether a request waits for it.
    is_awaited: AtomicBool,
}

type Outcome = Result<Arc<SharedMachine>, TopologyError>;

impl NodeTopology {
    pub(super) const fn new(
        options: TopologyOptions,
        segment: SegmentOptions,
        clock: Clock,
        loop_sender: LoopSender,
    ) -> Self {
        let ahead =
            Ahead { thread: AtomicI32::new(0), priority: AtomicI32::new(0), is_awaited: AtomicBool::new(false) };
        let (reading, is_over) = (Mutex::new(Reading::NotBegun), Condvar::new());
        let outcome = OnceLock::new();
        let is_read_again = AtomicBool::new(false);
        Self { options, segment, clock, loop_sender, outcome, reading, is_over, ahead, is_read_again }
    }

    /// The topology. The first call starts the reading, and all calls wait for it.
    ///
    /// # Errors
    /// [`TopologyError`]. A failed reading is not tried again. A slow one ([`TopologyError::TooSlow`]) may end later.
    pub fn wait(self: &Arc<Self>) -> Result<Arc<SharedMachine>, TopologyError> {
        self.hurry();
        self.begin(Pace::AtOnce)?;
        let mut reading = self.reading.lock();
        loop {
            if let Some(outcome) = self.outcome.get() {
                return outcome.clone();
            }
            match self.patience(*reading) {
                Ok(Some(end)) => drop(self.is_over.wait_until(&mut reading, end)),
                Ok(None) => self.is_over.wait(&mut reading),
                Err(error) => return Err(error),
            }
        }
    }

    /// The outcome of the first reading; `None`: it has not ended.
    pub(super) fn outcome(&self) -> Option<Outcome> {
        self.outcome.get().cloned()
    }

    /// The machine as it is now. The processes keep the topology of the first reading. One reading runs at a time.
    ///
    /// # Errors
    /// [`TopologyError`]; `TooSlow` also as long as an earlier call's reading has not ended.
    pub(super) fn read_again(self: &Arc<Self>) -> Result<Machine, TopologyError> {
        if self.is_read_again.swap(true, Ordering::AcqRel) {
            return Err(TopologyError::TooSlow);
        }
        let (sender, outcome) = bounded(1);
        let topology = Arc::clone(self);
        let read = move || {
            let machine = topology.read_machine();
            topology.is_read_again.store(false, Ordering::Release);
            // The caller may have stopped waiting.
            let _ = sender.send(machine);
        };
        if spawn("modex-topology", read).is_err() {
            self.is_read_again.store(false, Ordering::Release);
            return Err(TopologyError::NoThread);
        }
        outcome.recv_timeout(self.options.time_max).unwrap_or(Err(TopologyError::TooSlow))
    }

    fn read_machine(&self) -> Result<Machine, TopologyError> {
        let topology = self.read_source(|source| source.read_again())?;
        let unusable = |reason: String| TopologyError::Unusable { reason };
        let xml = topology.xml.as_ref().map(|xml| xml.to_str().map_err(|error| unusable(error.to_string())));
        let xml = xml.transpose()?.ok_or_else(|| unusable("it has no text".to_owned()))?;
        Machine::of_xml(xml).map_err(|error| unusable(error.to_string()))
    }

    /// The end of the wait for the reading thread; `None`: no limit.
    fn patience(&self, reading: Reading) -> Result<Option<Instant>, TopologyError> {
        match reading {
            Reading::Until(end) if self.clock.now() < end => Ok(self.clock.instant_of(end)),
            Reading::NotBegun | Reading::Ahead | Reading::Until(_) => Err(TopologyError::TooSlow),
            Reading::Abandoned => Err(TopologyError::Unreachable { reason: "it has ended".to_owned() }),
        }
    }

    /// Starts the reading thread if there is none. The time limit of all requests starts at the first one.
    fn begin(self: &Arc<Self>, pace: Pace) -> Result<(), TopologyError> {
        let mut reading = self.reading.lock();
        match (*reading, pace) {
            (Reading::NotBegun, _) => {
                let topology = Arc::clone(self);
                spawn("modex-topology", move || topology.perform(pace)).map_err(|_| TopologyError::NoThread)?;
            }
            (Reading::Ahead, Pace::AtOnce) => {}
            (Reading::Ahead | Reading::Until(_) | Reading::Abandoned, _) => return Ok(()),
        }
        *reading = match pace {
            Pace::Ahead => Reading::Ahead,
            Pace::AtOnce => Reading::Until(self.clock.now() + self.options.time_max),
        };
        Ok(())
    }

    fn perform(&self, pace: Pace) {
        if pace == Pace::Ahead {
            self.ahead.give_way();
        }
        let outcome = self.read();
        self.ahead.end();
        {
            // A waiting thread checks for the outcome under this lock, so it can't miss the signal.
            let _reading = self.reading.lock();
            let _ = self.outcome.set(outcome);
        }
        self.is_over.notify_all();
        // A server that has ended needs no message.
        let _ = self.loop_sender.send(LoopMessage::TopologyRead);
    }

    /// Ends all waits, because the server ends.
    pub(super) fn abandon(&self) {
        *self.reading.lock() = Reading::Abandoned;
        self.is_over.notify_all();
    }

    /// Notes that a request waits.
    fn hurry(&self) {
        if self.outcome.get().is_none() {
            self.ahead.hurry();
        }
    }

    /// The present answer; `None`: wait for the reading.
    fn said(&self) -> Option<Outcome> {
        self.outcome.get().cloned().or_else(|| self.patience(*self.reading.lock()).err().map(Err))
    }

    fn read(&self) -> Outcome {
        let shared = self.read_source(|source| source.read()).and_then(|topology| {
            let unusable = |error: crate::topo::ShareError| TopologyError::Unusable { reason: error.to_string() };
            SharedMachine::publish(&topology, &self.segment).map(Arc::new).map_err(unusable)
        });
        match &shared {
            Ok(shared) => tracing::debug!(objects = shared.machine().objects().count(), "topology read"),
            Err(error) => tracing::warn!(%error, "the processes of this node get no hardware topology"),
        }
        shared
    }

    fn read_source(
        &self,
        read: impl FnOnce(&dyn TopologySource) -> Result<Topology, TopologyError>,
    ) -> Result<Topology, TopologyError> {
        let source = self.options.source.as_ref().ok_or(TopologyError::NoSource)?;
        let panicked = || TopologyError::Failed { doing: "read the topology of this machine" };
        catch_unwind(AssertUnwindSafe(|| read(&**source))).unwrap_or_else(|_| Err(panicked()))
    }

    /// Whether clients may request it.
    pub(super) fn is_for_clients(&self) -> bool {
        self.options.source.is_some() && self.options.sharing != TopologySharing::Refused
    }

    const fn is_shared_at_start(&self) -> bool {
        matches!(self.options.sharing, TopologySharing::AtStart)
    }
}

impl fmt::Debug for NodeTopology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeTopology")
            .field("options", &self.options)
            .field("outcome", &self.outcome)
            .finish_non_exhaustive()
    }
}

/// Whether a request waits for the reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    AtOnce,
    /// No request waits yet.
    Ahead,
}

impl Ahead {
    /// Lowers the priority of the calling thread, which reads. With the usual priority a client's Init on the same
    /// processor takes 1.7 times as long (docs/performance.md).
    fn give_way(&self) {
        let Ok(before) = getpriority_process(None) else { return };
        if self.is_awaited.load(Ordering::SeqCst) || nice(NICENESS).is_err() {
            return;
        }
        // A thread that may restore its priority can lower it further.
        if setpriority_process(None, before).is_ok() {
            let _ = nice(NICENESS_MAX);
        }
        self.priority.store(before, Ordering::SeqCst);
        self.thread.store(gettid().as_raw_nonzero().get(), Ordering::SeqCst);
        // `SeqCst`: either this thread sees the waiting request, or the request sees this thread's number.
        if self.is_awaited.load(Ordering::SeqCst) {
            self.hurry();
        }
    }

    /// Restores the thread's priority if this process may raise priorities. Otherwise the thread keeps a tenth of a
    /// busy processor, and all of an idle one.
    fn hurry(&self) {
        self.is_awaited.store(true, Ordering::SeqCst);
        if let Some(thread) = Pid::from_raw(self.thread.swap(0, Ordering::SeqCst)) {
            let _ = setpriority_process(Some(thread), self.priority.load(Ordering::SeqCst));
        }
    }

    /// The thread has finished, so its number may soon be another's.
    fn end(&self) {
        self.thread.store(0, Ordering::SeqCst);
    }
}

/// The server loop's part: requests that wait for the topology.
pub(super) struct TopologyDesk {
    topology: Arc<NodeTopology>,
    waiting: Vec<TopologyWaiter>,
    /// Whether the core waits, for requests that it answers itself.
    is_core_waiting: bool,
    /// When the early reading starts, if the server is idle until then.
    ahead_at: Option<Time>,
}

/// A request without an answer yet.
pub(super) struct TopologyWaiter {
    pub(super) peer: PeerId,
    pub(super) tag: Tag,
    pub(super) wish: Wish,
}

/// The requested data.
pub(super) enum Wish {
    /// The topology.
    Topology(TopologyQuestion),
    /// A job's information, with the topology as a part.
    JobInfo(Namespace),
}

/// The answer to a request.
pub(super) enum Said {
    /// The outcome, now.
    Now(TopologyWaiter, Outcome),
    /// The reading still runs.
    Later,
}

impl TopologyDesk {
    /// If the topology is shared at the start, the reading begins soon.
    pub(super) fn open(topology: Arc<NodeTopology>) -> Self {
        let mut desk = Self { topology, waiting: Vec::new(), is_core_waiting: false, ahead_at: None };
        if desk.is_part_of_job() {
            desk.ahead_at = Some(desk.topology.clock.now() + QUIET_TIME);
        }
        desk
    }

    /// Delays the early reading, because the server is busy. A host registers its first job right after the start. Both
    /// change the memory map, and a reader that is interrupted under the kernel's lock of the map would delay the
    /// registration.
    pub(super) fn put_off(&mut self, now: Time) {
        if let Some(at) = &mut self.ahead_at {
            *at = now + QUIET_TIME;
        }
    }

    /// Starts the early reading after enough idle time.
    pub(super) fn read_if_quiet(&mut self, now: Time) {
        if self.ahead_at.is_some_and(|at| at <= now) {
            self.read_ahead();
        }
    }

    fn read_ahead(&mut self) {
        if self.ahead_at.take().is_some() {
            // Later requests get the error.
            let _ = self.topology.begin(Pace::Ahead);
        }
    }

    /// Whether the topology is part of the job information for clients of other libraries. They wait for it up to the
    /// limit.
    pub(super) fn is_part_of_job(&self) -> bool {
        self.topology.is_shared_at_start() && self.topology.is_for_clients()
    }

    /// Starts the reading if needed.
    pub(super) fn ask(&mut self, waiter: TopologyWaiter) -> Said {
        if self.topology.options.sharing == TopologySharing::Refused {
            return Said::Now(waiter, Err(TopologyError::NotShared));
        }
        let already = self.waiting.iter().filter(|earlier| earlier.peer == waiter.peer).count();
        if already >= WAITING_OF_PEER_MAX {
            return Said::Now(waiter, Err(TopologyError::NoThread));
        }
        if let Err(error) = self.topology.begin(Pace::AtOnce) {
            return Said::Now(waiter, Err(error));
        }
        if let Some(said) = self.topology.said() {
            return Said::Now(waiter, said);
        }
        self.topology.hurry();
        self.waiting.push(waiter);
        Said::Later
    }

    /// As [`TopologyDesk::ask`], for the core, which checks permissions itself. `None`: the reading runs
    /// ([`TopologyDesk::take_for_core`]).
    pub(super) fn ask_for_core(&mut self) -> Option<Outcome> {
        if let Err(error) = self.topology.begin(Pace::AtOnce) {
            return Some(Err(error));
        }
        let said = self.topology.said();
        if said.is_none() {
            self.topology.hurry();
            self.is_core_waiting = true;
        }
        said
    }

    /// The outcome that the core waited for, when the reading is done or too slow.
    pub(super) fn take_for_core(&mut self) -> Option<Outcome> {
        if !self.is_core_waiting {
            return None;
        }
        let said = self.topology.said()?;
        self.is_core_waiting = false;
        Some(said)
    }

    /// Prepares for a new connection that may need the topology soon, as clients of other libraries do.
    pub(super) fn foresee(&mut self) {
        if self.is_part_of_job() {
            self.topology.hurry();
            self.read_ahead();
        }
    }

    /// When waiting requests fail as too slow, or the early reading starts.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        let end = match *self.topology.reading.lock() {
            Reading::Until(end) if !self.waiting.is_empty() || self.is_core_waiting => Some(end),
            _ => None,
        };
        end.into_iter().chain(self.ahead_at).min()
    }

    /// The waiting requests, when the reading is done or too slow.
    pub(super) fn take_waiting(&mut self) -> Vec<(TopologyWaiter, Outcome)> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        let Some(said) = self.topology.said() else { return Vec::new() };
        if matches!(said, Err(TopologyError::TooSlow)) {
            let time_max = self.topology.options.time_max;
            tracing::warn!(?time_max, "reading the topology takes too long; clients go on without it");
        }
        std::mem::take(&mut self.waiting).into_iter().map(|waiter| (waiter, said.clone())).collect()
    }
}

/// The longest wait for the reading. It takes some ten milliseconds, and seconds if there are many devices.
const READING_TIME_MAX: Duration = Duration::from_secs(10);
/// After this idle time a server has registered its first job, or gets none soon. Processes take about as long to
/// start.
const QUIET_TIME: Duration = Duration::from_millis(10);
/// Lower priority of the early reading if it can't be raised again: the thread gets a tenth of another thread's time.
const NICENESS: i32 = 10;
/// The lowest priority: a seventieth.
const NICENESS_MAX: i32 = 19;
/// Waiting requests of one connection; a client needs one.
const WAITING_OF_PEER_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use crossbeam::channel::{Receiver, Sender, unbounded};

    use super::*;
    use crate::runtime::server::poller::{Poller, Token, Waker};

    /// Reports its priority before and after it is allowed to continue.
    #[derive(Debug)]
    struct LifecycleObserver {
        said: Sender<i32>,
        go_on: Receiver<()>,
    }

    impl TopologySource for LifecycleObserver {
        fn read(&self) -> Result<Topology, TopologyError> {
            self.said.send(getpriority_process(None).unwrap()).unwrap();
            self.go_on.recv().unwrap();
            self.said.send(getpriority_process(None).unwrap()).unwrap();
            Err(TopologyError::NoCores)
        }
    }

    fn topology() -> (Arc<NodeTopology>, Receiver<i32>, Sender<()>) {
        let ((said, priorities), (go, go_on)) = (unbounded(), unbounded());
        let source: Arc<dyn TopologySource> = Arc::new(LifecycleObserver { said, go_on });
        let options =
            TopologyOptions { source: Some(source), sharing: TopologySharing::AtStart, ..TopologyOptions::default() };
        let waker = Waker::new(&Poller::new().unwrap(), Token(0)).unwrap();
        let (loop_sender, _) = LoopSender::new(waker);
        let segment = SegmentOptions::new("", "srv.0");
        (Arc::new(NodeTopology::new(options, segment, Clock::start(), loop_sender)), priorities, go)
    }

    fn may_raise_priorities() -> bool {
        let before = getpriority_process(None).unwrap();
        let try_it = move || nice(1).is_ok() && setpriority_process(None, before).is_ok();
        let (said, answer) = unbounded();
        spawn("try", move || said.send(try_it()).unwrap()).unwrap().join().unwrap();
        answer.recv().unwrap()
    }

    /// With one shared processor, clients that never needed the topology waited in their Init for the reading thread.
    #[test]
    fn reading_ahead_gives_way_until_somebody_asks() {
        let own = getpriority_process(None).unwrap();
        let (topology, priorities, go) = topology();
        topology.begin(Pace::Ahead).unwrap();
        let given_way = priorities.recv().unwrap();
        assert_eq!(*topology.reading.lock(), Reading::Ahead, "nobody's time runs yet");
        let niceness = if may_raise_priorities() { NICENESS_MAX } else { NICENESS };
        assert_eq!(given_way, (own + niceness).min(NICENESS_MAX));
        topology.hurry();
        go.send(()).unwrap();
        assert_eq!(priorities.recv().unwrap(), if may_raise_priorities() { own } else { given_way });
        assert_eq!(topology.wait().err(), Some(TopologyError::NoCores));
    }

    /// An early reading at the server's start slowed down the host's first registration, to 6 ms instead of 0.3 or 2.
    /// Now it starts when the server is idle, or when a process that may need it connects.
    #[test]
    fn reading_ahead_begins_when_the_server_is_quiet_or_somebody_comes() {
        for comes in [false, true] {
            let (topology, priorities, go) = topology();
            let mut desk = TopologyDesk::open(Arc::clone(&topology));
            let first = desk.next_deadline().unwrap();
            desk.put_off(first);
            assert_eq!(desk.next_deadline(), Some(first + QUIET_TIME));
            desk.read_if_quiet(first);
            assert_eq!(*topology.reading.lock(), Reading::NotBegun);
            if comes {
                desk.foresee();
            } else {
                desk.read_if_quiet(first + QUIET_TIME);
            }
            assert_eq!(*topology.reading.lock(), Reading::Ahead);
            assert_eq!(desk.next_deadline(), None);
            priorities.recv().unwrap();
            go.send(()).unwrap();
            assert_eq!(topology.wait().err(), Some(TopologyError::NoCores));
        }
    }

    #[test]
    fn an_awaited_read_of_the_topology_keeps_its_priority() {
        let own = getpriority_process(None).unwrap();
        let (topology, priorities, go) = topology();
        topology.hurry();
        topology.begin(Pace::Ahead).unwrap();
        assert_eq!(priorities.recv().unwrap(), own);
        go.send(()).unwrap();
        assert_eq!(topology.wait().err(), Some(TopologyError::NoCores));
    }
}
