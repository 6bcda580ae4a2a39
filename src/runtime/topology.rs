//! The node's topology in a server: read once, on the first question, and shared in one segment.
//!
//! ```text
//! first question (a client's, or the host's) --> source.read() --> SharedMachine --> descriptor or text, for everybody
//!                                                (own thread)
//! ```

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, OnceLock};

use rustix::process::{Pid, getpriority_process, nice, setpriority_process};
use rustix::thread::gettid;

use super::commands::{Command, CommandSender};
use super::threads::spawn;
use crate::gds::AsStatus;
use crate::proto::Tag;
use crate::server::{PeerId, TopologyQuestion};
use crate::shmem::SegmentOptions;
use crate::topo::{SharedMachine, TopologyError};
use crate::types::{Namespace, Status, Topology};

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
    /// When the server starts. Clients of other libraries find it among what they are told of their job.
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
            Self::Detection { .. } | Self::Failed { .. } | Self::Unusable { .. } => Status::ERROR,
        }
    }
}

/// What all parts of a server know of its node's topology.
#[derive(Debug)]
pub struct NodeTopology {
    source: Option<Arc<dyn TopologySource>>,
    sharing: TopologySharing,
    segment: SegmentOptions,
    outcome: OnceLock<Outcome>,
    ahead: Ahead,
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
        source: Option<Arc<dyn TopologySource>>,
        sharing: TopologySharing,
        segment: SegmentOptions,
    ) -> Self {
        let ahead =
            Ahead { thread: AtomicI32::new(0), priority: AtomicI32::new(0), is_awaited: AtomicBool::new(false) };
        Self { source, sharing, segment, outcome: OnceLock::new(), ahead }
    }

    /// The topology; the first call reads it, and others wait for that.
    ///
    /// # Errors
    /// [`TopologyError`], the same for ever: a machine that could not be read once is not tried again.
    pub fn wait(&self) -> Result<Arc<SharedMachine>, TopologyError> {
        self.hurry();
        self.outcome.get_or_init(|| self.read()).clone()
    }

    /// As [`NodeTopology::wait`], on a thread of its own and for nobody yet.
    fn read_ahead(&self) {
        self.ahead.give_way();
        let _ = self.outcome.get_or_init(|| self.read());
        self.ahead.end();
    }

    /// Somebody waits now.
    fn hurry(&self) {
        if self.outcome.get().is_none() {
            self.ahead.hurry();
        }
    }

    fn read(&self) -> Outcome {
        let source = self.source.as_ref().ok_or(TopologyError::NoSource)?;
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
        self.source.is_some() && self.sharing != TopologySharing::Refused
    }

    const fn is_shared_at_start(&self) -> bool {
        matches!(self.sharing, TopologySharing::AtStart)
    }
}

impl Ahead {
    /// Gives way to others, on the thread that reads.
    fn give_way(&self) {
        let Ok(before) = getpriority_process(None) else { return };
        if self.is_awaited.load(Ordering::SeqCst) || nice(NICENESS).is_err() {
            return;
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
    commands: CommandSender,
    is_reading: bool,
    waiting: Vec<Waiting>,
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
    /// With sharing at the start reading begins.
    pub(super) fn open(topology: Arc<NodeTopology>, commands: CommandSender) -> Self {
        let mut desk = Self { topology, commands, is_reading: false, waiting: Vec::new() };
        if desk.is_part_of_job() {
            // Who asks later is told why not.
            let _ = desk.begin(NodeTopology::read_ahead);
        }
        desk
    }

    /// Whether clients of other libraries are to be told among all else, and must wait until that can be.
    pub(super) fn is_part_of_job(&self) -> bool {
        self.topology.is_shared_at_start() && self.topology.is_for_clients()
    }

    /// What is known already.
    pub(super) fn known(&self) -> Option<&Outcome> {
        self.topology.outcome.get()
    }

    /// Has it read if need be.
    pub(super) fn ask(&mut self, question: Waiting) -> Said {
        if self.topology.sharing == TopologySharing::Refused {
            return Said::Now(question, Err(TopologyError::NotShared));
        }
        if let Some(outcome) = self.known() {
            return Said::Now(question, outcome.clone());
        }
        let already = self.waiting.iter().filter(|waiting| waiting.peer == question.peer).count();
        let reads = |topology: &NodeTopology| drop(topology.wait());
        let begun = if already >= WAITING_OF_PEER_MAX { Err(TopologyError::NoThread) } else { self.begin(reads) };
        match begun {
            Ok(()) => {
                self.topology.hurry();
                self.waiting.push(question);
                Said::Later
            }
            Err(error) => Said::Now(question, Err(error)),
        }
    }

    /// Somebody comes who may be told of it in a moment, as clients of other libraries are.
    pub(super) fn foresee(&self) {
        if self.is_part_of_job() {
            self.topology.hurry();
        }
    }

    /// Those who waited, when it has been read.
    pub(super) fn take_waiting(&mut self) -> Vec<(Waiting, Outcome)> {
        let Some(outcome) = self.known().cloned() else { return Vec::new() };
        std::mem::take(&mut self.waiting).into_iter().map(|waiting| (waiting, outcome.clone())).collect()
    }

    fn begin(&mut self, read: impl FnOnce(&NodeTopology) + Send + 'static) -> Result<(), TopologyError> {
        if self.is_reading {
            return Ok(());
        }
        let (topology, commands) = (Arc::clone(&self.topology), self.commands.clone());
        let body = move || {
            // The outcome is kept; a server that has ended wants none.
            read(&topology);
            let _ = commands.send(Command::TopologyRead);
        };
        spawn("modex-topology", body).map_err(|_| TopologyError::NoThread)?;
        self.is_reading = true;
        Ok(())
    }
}

/// By how much the reading ahead gives way: with it a thread gets a tenth of what another one gets.
const NICENESS: i32 = 10;
/// Questions of one connection that wait: a client needs one.
const WAITING_OF_PEER_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use crossbeam::channel::{Receiver, Sender, unbounded};

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
        let segment = SegmentOptions::new("", "srv.0");
        let source: Arc<dyn TopologySource> = Arc::new(Witness { said, go_on });
        (Arc::new(NodeTopology::new(Some(source), TopologySharing::AtStart, segment)), priorities, go)
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
        let reader = Arc::clone(&topology);
        let ahead = spawn("ahead", move || reader.read_ahead()).unwrap();
        let given_way = priorities.recv().unwrap();
        assert_eq!(given_way, (own + NICENESS).min(19));
        topology.hurry();
        go.send(()).unwrap();
        assert_eq!(priorities.recv().unwrap(), if may_raise_priorities() { own } else { given_way });
        ahead.join().unwrap();
        assert!(topology.wait().is_err());
    }

    #[test]
    fn what_somebody_waits_for_does_not_give_way() {
        let own = getpriority_process(None).unwrap();
        let (topology, priorities, go) = topology();
        let reader = Arc::clone(&topology);
        topology.hurry();
        let ahead = spawn("ahead", move || reader.read_ahead()).unwrap();
        assert_eq!(priorities.recv().unwrap(), own);
        go.send(()).unwrap();
        ahead.join().unwrap();
    }
}
