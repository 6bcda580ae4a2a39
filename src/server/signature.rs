//! What the participants of one operation agree on: its kind, and who they are. Two that never agree never match each other.
//!
//! Source: PMIx Standard, "Process-Related Non-Reserved Keys" and fence: a set of participants is the same however it is ordered.

use std::cmp::Ordering;
use std::ops::Deref;
use std::sync::Arc;

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
    pub(super) procs: Participants,
}

/// The participants as written, sorted, each entry once. A list may have a million entries, so its copies share them, and
/// a copy is equal to its original without a look at the entries.
#[derive(Clone, Debug, Default)]
pub(super) struct Participants(Arc<Vec<ProcId>>);

impl Participants {
    pub(super) fn new(mut procs: Vec<ProcId>) -> Self {
        // Lists are mostly in order already, or in a few parts that are: a stable sort takes advantage of that.
        procs.sort();
        procs.dedup();
        Self(Arc::new(procs))
    }

    /// The same list, shared.
    pub(super) fn shared(&self) -> Arc<Vec<ProcId>> {
        Arc::clone(&self.0)
    }

    /// The namespaces named, in order, each once.
    pub(super) fn namespaces(&self) -> impl Iterator<Item = &Namespace> {
        ProcId::by_namespace(self).map(|(namespace, _)| namespace)
    }
}

impl Deref for Participants {
    type Target = [ProcId];

    fn deref(&self) -> &[ProcId] {
        &self.0
    }
}

impl Ord for Participants {
    fn cmp(&self, other: &Self) -> Ordering {
        if Arc::ptr_eq(&self.0, &other.0) { Ordering::Equal } else { self.0.cmp(&other.0) }
    }
}

impl PartialOrd for Participants {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Participants {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Participants {}

impl Signature {
    pub(super) fn new(kind: Kind, procs: Vec<ProcId>) -> Self {
        Self { kind, procs: Participants::new(procs) }
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
        self.procs.namespaces().any(|named| named == namespace)
    }
}
