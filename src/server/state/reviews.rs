//! Held requests to look at again after a change.
//!
//! One change may concern many requests, and the answer to each has a copy of the value. So a change only notes the
//! requests that it concerns, as a range of an index. They are reviewed later, some in each step.

use super::operation::OperationId;
use super::passes::Passes;
use crate::server::interface::UpcallId;
use crate::types::{Key, Namespace, ProcId, Rank};

/// Identifies one held request for data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HeldGetId(pub(crate) u64);

/// The held requests that a change concerns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Concerned {
    /// Requests about a job or its processes.
    Job(Namespace),
    /// Requests about a process.
    Process(ProcId),
    /// Requests about a process that await this key, or any key (`None`).
    Key(ProcId, Option<Key>),
    /// Requests that wait for this upcall.
    Upcall(UpcallId),
    /// Requests that wait for the end of this fence.
    Fence(OperationId),
    /// Requests about a job that has ended here, up to this number. Later ones are not about the ended job.
    Ended(Namespace, HeldGetId),
}

impl Concerned {
    /// The first target of requests that the change may concern, in order; `None`: it concerns no target.
    pub(crate) fn first_target(&self) -> Option<ProcId> {
        match self {
            Self::Job(namespace) | Self::Ended(namespace, _) => Some(ProcId::new(namespace.clone(), Rank::Process(0))),
            Self::Process(proc) | Self::Key(proc, _) => Some(proc.clone()),
            Self::Upcall(_) | Self::Fence(_) => None,
        }
    }

    /// Whether the change may concern requests about this target.
    pub(crate) fn is_about(&self, target: &ProcId) -> bool {
        match self {
            Self::Job(namespace) | Self::Ended(namespace, _) => target.namespace == *namespace,
            Self::Process(proc) | Self::Key(proc, _) => target == proc,
            Self::Upcall(_) | Self::Fence(_) => false,
        }
    }
}

/// The position of a review in the index of held requests by target.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ReviewCursor {
    pub(crate) target: ProcId,
    pub(crate) key: Option<Key>,
    pub(crate) id: HeldGetId,
}

/// The changes whose reviews are not finished, in order.
pub(crate) type Reviews = Passes<Concerned, ReviewCursor>;

impl Reviews {
    /// Whether a request about a job is yet to be refused, because the job has ended.
    pub(crate) fn is_ending(&self, namespace: &Namespace, id: HeldGetId) -> bool {
        let first = self.changes_from(Concerned::Ended(namespace.clone(), id)).next();
        first.is_some_and(|change| matches!(change, Concerned::Ended(ended, _) if ended == namespace))
    }
}
