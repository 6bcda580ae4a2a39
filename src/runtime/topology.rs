//! The node's topology in a server: read once, on the first question, and shared in one segment.
//!
//! ```text
//! first question (a client's, or the host's) --> source.read() --> SharedMachine --> descriptor or text, for everybody
//!                                                (own thread)
//! ```

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

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
}

type Outcome = Result<Arc<SharedMachine>, TopologyError>;

impl NodeTopology {
    pub(super) const fn new(
        source: Option<Arc<dyn TopologySource>>,
        sharing: TopologySharing,
        segment: SegmentOptions,
    ) -> Self {
        Self { source, sharing, segment, outcome: OnceLock::new() }
    }

    /// The topology; the first call reads it, and others wait for that.
    ///
    /// # Errors
    /// [`TopologyError`], the same for ever: a machine that could not be read once is not tried again.
    pub fn wait(&self) -> Result<Arc<SharedMachine>, TopologyError> {
        self.outcome.get_or_init(|| self.read()).clone()
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
            let _ = desk.begin();
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
        let begun = if already >= WAITING_OF_PEER_MAX { Err(TopologyError::NoThread) } else { self.begin() };
        match begun {
            Ok(()) => {
                self.waiting.push(question);
                Said::Later
            }
            Err(error) => Said::Now(question, Err(error)),
        }
    }

    /// Those who waited, when it has been read.
    pub(super) fn take_waiting(&mut self) -> Vec<(Waiting, Outcome)> {
        let Some(outcome) = self.known().cloned() else { return Vec::new() };
        std::mem::take(&mut self.waiting).into_iter().map(|waiting| (waiting, outcome.clone())).collect()
    }

    fn begin(&mut self) -> Result<(), TopologyError> {
        if self.is_reading {
            return Ok(());
        }
        let (topology, commands) = (Arc::clone(&self.topology), self.commands.clone());
        let body = move || {
            // The outcome is kept; a server that has ended wants none.
            let _ = topology.wait();
            let _ = commands.send(Command::TopologyRead);
        };
        spawn("modex-topology", body).map_err(|_| TopologyError::NoThread)?;
        self.is_reading = true;
        Ok(())
    }
}

/// Questions of one connection that wait: a client needs one.
const WAITING_OF_PEER_MAX: usize = 16;
