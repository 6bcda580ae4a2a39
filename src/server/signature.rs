//! What the participants of one operation agree on: its kind, and who they are. Two that never agree never match each other.
//!
//! Source: PMIx Standard, "Process-Related Non-Reserved Keys" and fence: a set of participants is the same however it is ordered.

use super::registry::{Membership, Registry};
use super::requests::GroupOperation;
use crate::types::{Namespace, ProcId, Rank, Text};

/// Kinds of operations that never match each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Fence,
    Connect,
    Disconnect,
    /// What is done to which group.
    Group(GroupOperation, Text),
}

impl Kind {
    /// Whether it winds up what was begun when all its jobs were here: it goes on without those that have ended since. Nothing
    /// is begun with such a job.
    pub(super) const fn outlives_jobs(&self) -> bool {
        matches!(self, Self::Disconnect | Self::Group(GroupOperation::Destruct, _))
    }
}

/// What the participants of one operation agree on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Signature {
    pub(super) kind: Kind,
    /// Sorted, each entry once.
    pub(super) procs: Vec<ProcId>,
}

impl Signature {
    pub(super) fn new(kind: Kind, mut procs: Vec<ProcId>) -> Self {
        procs.sort_unstable();
        procs.dedup();
        Self { kind, procs }
    }

    /// Who must arrive here, as far as is known; see [`Registry::membership`].
    pub(super) fn membership(&self, registry: &Registry) -> Option<Membership> {
        registry.membership(&self.procs, self.kind.outlives_jobs())
    }

    /// Whether a process is among the participants.
    pub(super) fn covers(&self, proc: &ProcId) -> bool {
        let is_named = |rank: Rank| {
            let wanted = (&proc.namespace, rank);
            self.procs.binary_search_by(|entry| (&entry.namespace, entry.rank).cmp(&wanted)).is_ok()
        };
        [proc.rank, Rank::Wildcard, Rank::LocalPeers, Rank::LocalNode].into_iter().any(is_named)
    }

    /// Whether both have a participant, as far as that can be seen from how they are written.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let names_one = |one: &Self, another: &Self| another.procs.iter().any(|proc| one.covers(proc));
        names_one(self, other) || names_one(other, self)
    }

    /// Whether all whom an entry stands for are among the participants, however these are written.
    pub(super) fn encloses(&self, registry: &Registry, entry: &ProcId) -> bool {
        if self.covers(entry) {
            return true;
        }
        let named = |rank: u32| self.covers(&ProcId::new(entry.namespace.clone(), rank));
        match (entry.rank, registry.job(&entry.namespace)) {
            // Not more are looked at than are written: the first who is not stops it.
            (Rank::Wildcard, Some(job)) => job.job_size.is_some_and(|size| (0..size).all(named)),
            (Rank::LocalPeers | Rank::LocalNode, Some(_)) => {
                let here = registry.membership(std::slice::from_ref(entry), false);
                here.is_some_and(|members| members.local.iter().all(|proc| self.covers(proc)))
            }
            _ => false,
        }
    }

    pub(super) fn names(&self, namespace: &Namespace) -> bool {
        self.procs.iter().any(|entry| entry.namespace == *namespace)
    }
}
