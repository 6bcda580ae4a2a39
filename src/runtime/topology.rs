//! The node's topology in a server: read once, on the first question, and shared in one segment.
//!
//! ```text
//! first question (a client's, or the host's) --> source.read() --> SharedMachine --> descriptor or text, for everybody
//!                                                (own thread)
//! ```
//!
//! Reading can hang: drivers of devices and network file systems have a say in it, and nothing ends a thread that waits for
//! them. So nobody waits longer than a bound ([`READING_TIME_MAX`]) from the first question; afterwards the answer is that it takes
//! too long, until it is there after all. Clients of other libraries are told of their job without it then.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::process::{Pid, getpriority_process, nice, setpriority_process};
use rustix::thread::gettid;

use super::clock::Clock;
use super::commands::{Command, CommandSender};
use super::threads::spawn;
use crate::gds::AsStatus;
use crate::proto::Tag;
use crate::server::{PeerId, TopologyQuestion};
use crate::shmem::SegmentOptions;
use crate::topo::{SharedMachine, TopologyError};
use crate::types::{Namespace, Status, Time, Topology};

/// Reads the machine, or has the topology from elsewhere. A server asks at most once.
pub trait TopologySource: fmt::Debug + Send + Sync + 'static {
    /// The topology as hwloc's XML, devices included. May take its time.
    ///
    /// # Errors
    /// [`TopologyError`].
    fn read(&self) -> Result<Topology, TopologyError>;
}

/// When a server reads the topology of its node, and for whom.
///
/// Source: PMIx Standard, `PMIX_SERVER_SHARE_TOPOLOGY`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TopologySharing {
    /// At the first question, for all that ask.
    #[default]
    OnDemand,
    /// Soon after the server's start, when it has nothing else to do or a client of another library comes. Such clients find it
    /// among what they are told of their job.
    AtStart,
    /// For the host alone.
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

/// How a server comes by the topology of its node.
#[derive(Clone, Debug)]
pub struct TopologyOptions {
    /// Who reads it; with none there is none.
    pub source: Option<Arc<dyn TopologySource>>,
    /// When it is read, and for whom.
    pub sharing: TopologySharing,
    /// How long anybody waits for it, from the first question.
    pub time_max: Duration,
}

impl Default for TopologyOptions {
    fn default() -> Self {
        Self { source: None, sharing: TopologySharing::default(), time_max: READING_TIME_MAX }
    }
}

/// What all parts of a server know of its node's topology.
pub struct NodeTopology {
    options: TopologyOptions,
    segment: SegmentOptions,
    clock: Clock,
    /// Who answers those that ask by message.
    commands: CommandSender,
    outcome: OnceLock<Outcome>,
    reading: Mutex<Reading>,
    /// The outcome is there, or nobody is to wait for it any more.
    is_over: Condvar,
    ahead: Ahead,
}

/// What has come of the reading so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// Nobody has asked.
    NotBegun,
    /// A thread is at it, and nobody has asked yet. It gives way to others and may take its time.
    Ahead,
    /// A thread is at it. Nobody waits for it longer than this.
    Until(Time),
    /// The server ends; the thread may go on.
    Abandoned,
}

/// The thread that reads ahead of any question. It gives way to the processes that start meanwhile, most of which will
/// never ask: where there is one processor for all, they would wait for it in their Init.
#[derive(Debug, Default)]
struct Ahead {
    /// Its number while it reads; 0: there is none.
    thread: AtomicI32,
    /// Its priority before it gave way.
    priority: AtomicI32,
    /// Somebody waits for it.
    is_awaited: AtomicBool,
}

type Outcome = Result<Arc<SharedMachine>, TopologyError>;

impl NodeTopology {
    pub(super) const fn new(
        options: TopologyOptions,
        segment: SegmentOptions,
        clock: Clock,
        commands: CommandSender,
    ) -> Self {
        let ahead =
            Ahead { thread: AtomicI32::new(0), priority: AtomicI32::new(0), is_awaited: AtomicBool::new(false) };
        let (reading, is_over) = (Mutex::new(Reading::NotBegun), Condvar::new());
        Self { options, segment, clock, commands, outcome: OnceLock::new(), reading, is_over, ahead }
    }

    /// The topology; the first call has it read, and all wait for that.
    ///
    /// # Errors
    /// [`TopologyError`]. A machine that could not be read once is not tried again; one that takes too long may be there
    /// later ([`TopologyError::TooSlow`]).
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

    /// Until when to wait for the thread that reads; `None`: as long as it takes.
    fn patience(&self, reading: Reading) -> Result<Option<Instant>, TopologyError> {
        match reading {
            Reading::Until(end) if self.clock.now() < end => Ok(self.clock.instant_of(end)),
            Reading::NotBegun | Reading::Ahead | Reading::Until(_) => Err(TopologyError::TooSlow),
            Reading::Abandoned => Err(TopologyError::Unreachable { reason: "it has ended".to_owned() }),
        }
    }

    /// Has it read on a thread of its own, unless that has been done. The time of those who wait begins with the first.
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
            // Who waits has looked for the outcome before it let go of this.
            let _reading = self.reading.lock();
            let _ = self.outcome.set(outcome);
        }
        self.is_over.notify_all();
        // A server that has ended wants none.
        let _ = self.commands.send(Command::TopologyRead);
    }

    /// The server ends: nobody is kept waiting.
    pub(super) fn abandon(&self) {
        *self.reading.lock() = Reading::Abandoned;
        self.is_over.notify_all();
    }

    /// Somebody waits now.
    fn hurry(&self) {
        if self.outcome.get().is_none() {
            self.ahead.hurry();
        }
    }

    /// What can be said now of what is being read; `None`: it is worth waiting.
    fn said(&self) -> Option<Outcome> {
        self.outcome.get().cloned().or_else(|| self.patience(*self.reading.lock()).err().map(Err))
    }

    fn read(&self) -> Outcome {
        let source = self.options.source.as_ref().ok_or(TopologyError::NoSource)?;
        let read = catch_unwind(AssertUnwindSafe(|| source.read()));
        let panicked = || TopologyError::Failed { doing: "read the topology of this machine" };
        let shared = read.unwrap_or_else(|_| Err(panicked())).and_then(|topology| {
            let unusable = |error: crate::topo::ShareError| TopologyError::Unusable { reason: error.to_string() };
            SharedMachine::publish(&topology, &self.segment).map(Arc::new).map_err(unusable)
        });
        match &shared {
            Ok(shared) => tracing::debug!(objects = shared.machine().objects().count(), "topology read"),
            Err(error) => tracing::warn!(%error, "nobody here learns of the hardware"),
        }
        shared
    }

    /// Whether clients may ask.
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

/// Whether somebody waits for what is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    AtOnce,
    /// Nobody does yet.
    Ahead,
}

impl Ahead {
    /// Gives way to others, on the thread that reads.
    fn give_way(&self) {
        let Ok(before) = getpriority_process(None) else { return };
        if self.is_awaited.load(Ordering::SeqCst) || nice(NICENESS).is_err() {
            return;
        }
        // Who can come back at once may go further.
        if setpriority_process(None, before).is_ok() {
            let _ = nice(NICENESS_MAX);
        }
        self.priority.store(before, Ordering::SeqCst);
        self.thread.store(gettid().as_raw_nonzero().get(), Ordering::SeqCst);
        // In one order for all: either this sees that somebody waits, or who waits sees the thread.
        if self.is_awaited.load(Ordering::SeqCst) {
            self.hurry();
        }
    }

    /// Lets the thread go on as any other, as far as this process may raise a priority. If it may not the thread still gets
    /// a tenth of a processor that others want, and all of one that nobody does.
    fn hurry(&self) {
        self.is_awaited.store(true, Ordering::SeqCst);
        if let Some(thread) = Pid::from_raw(self.thread.swap(0, Ordering::SeqCst)) {
            let _ = setpriority_process(Some(thread), self.priority.load(Ordering::SeqCst));
        }
    }

    /// The thread has read. Its number may come to mean another.
    fn end(&self) {
        self.thread.store(0, Ordering::SeqCst);
    }
}

/// The server loop's part: who waits for the topology.
pub(super) struct TopologyDesk {
    topology: Arc<NodeTopology>,
    waiting: Vec<Waiting>,
    /// The core does, for requests that it answers itself.
    is_core_waiting: bool,
    /// When reading ahead begins, if the server has nothing to do until then.
    ahead_at: Option<Time>,
}

/// A question that is not answered yet.
pub(super) struct Waiting {
    pub(super) peer: PeerId,
    pub(super) tag: Tag,
    pub(super) wish: Wish,
}

/// What is asked.
pub(super) enum Wish {
    /// The topology.
    Topology(TopologyQuestion),
    /// A job's information, of which it is a part.
    JobInfo(Namespace),
}

/// What is to be said to who asks.
pub(super) enum Said {
    /// Here it is, or why not.
    Now(Waiting, Outcome),
    /// It is being read.
    Later,
}

impl TopologyDesk {
    /// With sharing at the start reading begins soon.
    pub(super) fn open(topology: Arc<NodeTopology>) -> Self {
        let mut desk = Self { topology, waiting: Vec::new(), is_core_waiting: false, ahead_at: None };
        if desk.is_part_of_job() {
            desk.ahead_at = Some(desk.topology.clock.now() + QUIET_TIME);
        }
        desk
    }

    /// The server has something to do. A host registers its first job right after the start, and the reading would be in the way:
    /// both change what is mapped, and the reader may be interrupted for long while it holds the kernel's lock of that.
    pub(super) fn put_off(&mut self, now: Time) {
        if let Some(at) = &mut self.ahead_at {
            *at = now + QUIET_TIME;
        }
    }

    /// Begins to read ahead if the server was quiet for long enough.
    pub(super) fn read_if_quiet(&mut self, now: Time) {
        if self.ahead_at.is_some_and(|at| at <= now) {
            self.read_ahead();
        }
    }

    fn read_ahead(&mut self) {
        if self.ahead_at.take().is_some() {
            // Later requests get the reason.
            let _ = self.topology.begin(Pace::Ahead);
        }
    }

    /// Whether clients of other libraries are to be told among all else, and wait until that can be, or has taken too long.
    pub(super) fn is_part_of_job(&self) -> bool {
        self.topology.is_shared_at_start() && self.topology.is_for_clients()
    }

    /// Has it read if need be.
    pub(super) fn ask(&mut self, question: Waiting) -> Said {
        if self.topology.options.sharing == TopologySharing::Refused {
            return Said::Now(question, Err(TopologyError::NotShared));
        }
        let already = self.waiting.iter().filter(|waiting| waiting.peer == question.peer).count();
        if already >= WAITING_OF_PEER_MAX {
            return Said::Now(question, Err(TopologyError::NoThread));
        }
        if let Err(error) = self.topology.begin(Pace::AtOnce) {
            return Said::Now(question, Err(error));
        }
        if let Some(said) = self.topology.said() {
            return Said::Now(question, said);
        }
        self.topology.hurry();
        self.waiting.push(question);
        Said::Later
    }

    /// The same for the core, which says itself for whom it is. `None`: it is being read ([`TopologyDesk::take_for_core`]).
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

    /// What the core waited for, when it has been read or has taken too long.
    pub(super) fn take_for_core(&mut self) -> Option<Outcome> {
        if !self.is_core_waiting {
            return None;
        }
        let said = self.topology.said()?;
        self.is_core_waiting = false;
        Some(said)
    }

    /// Somebody comes who may be told of it in a moment, as clients of other libraries are.
    pub(super) fn foresee(&mut self) {
        if self.is_part_of_job() {
            self.topology.hurry();
            self.read_ahead();
        }
    }

    /// When those who wait are told that it takes too long, or reading ahead begins.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        let end = match *self.topology.reading.lock() {
            Reading::Until(end) if !self.waiting.is_empty() || self.is_core_waiting => Some(end),
            _ => None,
        };
        end.into_iter().chain(self.ahead_at).min()
    }

    /// Those who waited, when it has been read or has taken too long.
    pub(super) fn take_waiting(&mut self) -> Vec<(Waiting, Outcome)> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        let Some(said) = self.topology.said() else { return Vec::new() };
        if matches!(said, Err(TopologyError::TooSlow)) {
            let time_max = self.topology.options.time_max;
            tracing::warn!(?time_max, "reading the topology takes too long; clients go on without it");
        }
        std::mem::take(&mut self.waiting).into_iter().map(|waiting| (waiting, said.clone())).collect()
    }
}

/// How long anybody waits for a machine to be read. It takes some ten milliseconds, seconds where many devices are asked.
const READING_TIME_MAX: Duration = Duration::from_secs(10);
/// A server that had nothing to do for so long has registered its first job, or gets none soon. Processes take about as long to start.
const QUIET_TIME: Duration = Duration::from_millis(10);
/// By how much the reading ahead gives way where it can't come back: with it a thread gets a tenth of what another one gets.
const NICENESS: i32 = 10;
/// As far as one can go: a seventieth.
const NICENESS_MAX: i32 = 19;
/// Questions of one connection that wait: a client needs one.
const WAITING_OF_PEER_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use crossbeam::channel::{Receiver, Sender, unbounded};

    use super::super::poller::{Poller, Token, Waker};
    use super::*;

    /// Says which priority it is read with, before and after it is told to go on.
    #[derive(Debug)]
    struct Witness {
        said: Sender<i32>,
        go_on: Receiver<()>,
    }

    impl TopologySource for Witness {
        fn read(&self) -> Result<Topology, TopologyError> {
            self.said.send(getpriority_process(None).unwrap()).unwrap();
            self.go_on.recv().unwrap();
            self.said.send(getpriority_process(None).unwrap()).unwrap();
            Err(TopologyError::NoCores)
        }
    }

    fn topology() -> (Arc<NodeTopology>, Receiver<i32>, Sender<()>) {
        let ((said, priorities), (go, go_on)) = (unbounded(), unbounded());
        let source: Arc<dyn TopologySource> = Arc::new(Witness { said, go_on });
        let options =
            TopologyOptions { source: Some(source), sharing: TopologySharing::AtStart, ..TopologyOptions::default() };
        let waker = Waker::new(&Poller::new().unwrap(), Token(0)).unwrap();
        let (commands, _) = CommandSender::new(waker);
        let segment = SegmentOptions::new("", "srv.0");
        (Arc::new(NodeTopology::new(options, segment, Clock::start(), commands)), priorities, go)
    }

    fn may_raise_priorities() -> bool {
        let before = getpriority_process(None).unwrap();
        let try_it = move || nice(1).is_ok() && setpriority_process(None, before).is_ok();
        let (said, answer) = unbounded();
        spawn("try", move || said.send(try_it()).unwrap()).unwrap().join().unwrap();
        answer.recv().unwrap()
    }

    /// With one processor for all, clients that never asked for the topology waited in their Init for the thread that read it.
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

    /// The thread that read ahead from the server's start on was in the way of the host's first registration, which took 6 ms
    /// instead of 0.3 or 2. It begins when the server has nothing to do, or when a process comes that may ask.
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
    fn what_somebody_waits_for_does_not_give_way() {
        let own = getpriority_process(None).unwrap();
        let (topology, priorities, go) = topology();
        topology.hurry();
        topology.begin(Pace::Ahead).unwrap();
        assert_eq!(priorities.recv().unwrap(), own);
        go.send(()).unwrap();
        assert_eq!(topology.wait().err(), Some(TopologyError::NoCores));
    }
}
