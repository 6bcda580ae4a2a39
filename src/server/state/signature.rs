//! The common data of the participants of one operation: its kind, and the set of participants.
//!
//! Source: PMIx Standard, "Process-Related Non-Reserved Keys" and fence: the order of participants does not matter.

use std::cmp::Ordering;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::registry::{Membership, Registry};
use crate::keys;
use crate::server::interface::{Capabilities, GroupOperation};
use crate::types::{Namespace, ProcId, Rank, Text};

/// Kinds of operations that never match each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CollectiveKind {
    Fence,
    Connect,
    Disconnect,
    /// An operation on a group of this name.
    Group(GroupOperation, Text),
}

impl CollectiveKind {
    /// Whether it ends a relation whose jobs may have ended since: it goes on without them. No new relation starts with
    /// an ended job.
    pub(crate) const fn outlives_jobs(&self) -> bool {
        matches!(self, Self::Disconnect | Self::Group(GroupOperation::Destruct, _))
    }

    /// The host's capability for operations beyond this node.
    pub(crate) const fn capability(&self) -> Capabilities {
        match self {
            Self::Fence => Capabilities::FENCE,
            Self::Connect => Capabilities::CONNECT,
            Self::Disconnect => Capabilities::DISCONNECT,
            Self::Group(..) => Capabilities::GROUP,
        }
    }

    /// Directives that a server can meet without the host.
    pub(crate) const fn understood(&self) -> &'static [&'static str] {
        match self {
            Self::Fence => &UNDERSTOOD_OF_FENCES,
            Self::Connect | Self::Disconnect => &UNDERSTOOD_OF_CONNECTIONS,
            Self::Group(GroupOperation::Construct, _) => &UNDERSTOOD_OF_GROUPS,
            Self::Group(GroupOperation::Destruct, _) => &UNDERSTOOD_OF_GROUP_ENDS,
        }
    }

    /// Members of a group send different directives about themselves; other participants should all send the same.
    pub(crate) const fn merges_directives(&self) -> bool {
        matches!(self, Self::Group(..))
    }
}

impl fmt::Display for CollectiveKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fence => f.write_str("fence"),
            Self::Connect => f.write_str("connect"),
            Self::Disconnect => f.write_str("disconnect"),
            Self::Group(GroupOperation::Construct, name) => write!(f, "construct of group {name}"),
            Self::Group(GroupOperation::Destruct, name) => write!(f, "destruct of group {name}"),
        }
    }
}

/// The common data of the participants of one operation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Signature {
    pub(crate) kind: CollectiveKind,
    pub(crate) procs: Participants,
}

/// The participants as written, sorted, each entry once. A list may have a million entries, so copies share them, and
/// equal copies compare without a look at the entries.
#[derive(Clone, Debug, Default)]
pub(crate) struct Participants(Arc<Vec<ProcId>>);

impl Participants {
    pub(crate) fn new(mut procs: Vec<ProcId>) -> Self {
        // Lists are mostly sorted already, or consist of a few sorted parts: a stable sort uses that.
        procs.sort();
        procs.dedup();
        Self(Arc::new(procs))
    }

    /// The same list, shared.
    pub(crate) fn shared(&self) -> Arc<Vec<ProcId>> {
        Arc::clone(&self.0)
    }

    /// Whether a process is one of them.
    pub(crate) fn cover(&self, proc: &ProcId) -> bool {
        let groups_here = [Rank::LocalPeers, Rank::LocalNode];
        self.cover_elsewhere(proc) || groups_here.into_iter().any(|rank| self.name_rank(proc, rank))
    }

    /// Whether a process of another node is one of them.
    fn cover_elsewhere(&self, proc: &ProcId) -> bool {
        self.name_rank(proc, proc.rank) || self.name_rank(proc, Rank::Wildcard)
    }

    /// Whether an entry names this rank of the process's job.
    fn name_rank(&self, proc: &ProcId, rank: Rank) -> bool {
        let wanted = (&proc.namespace, rank);
        self.binary_search_by(|entry| (&entry.namespace, entry.rank).cmp(&wanted)).is_ok()
    }

    /// The named namespaces, in order, each once.
    pub(crate) fn namespaces(&self) -> impl Iterator<Item = &Namespace> {
        ProcId::by_namespace_sorted(self).map(|(namespace, _)| namespace)
    }
}

/// The first participants, and the number of the others.
impl fmt::Display for Participants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, proc) in self.iter().take(PARTICIPANTS_SHOWN_MAX).enumerate() {
            write!(f, "{}{proc}", if at == 0 { "" } else { " " })?;
        }
        match self.len().checked_sub(PARTICIPANTS_SHOWN_MAX) {
            None | Some(0) => Ok(()),
            Some(others) => write!(f, " and {others} more"),
        }
    }
}

/// Limit of the participants in a line of the log.
const PARTICIPANTS_SHOWN_MAX: usize = 8;

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
    pub(crate) fn new(kind: CollectiveKind, procs: Vec<ProcId>) -> Self {
        Self { kind, procs: Participants::new(procs) }
    }

    /// The local participants, as far as known; see [`Registry::membership`].
    pub(crate) fn membership(&self, registry: &Registry) -> Option<Membership> {
        registry.membership(&self.procs, self.kind.outlives_jobs())
    }

    /// The work of finding the local participants, in processes.
    pub(crate) fn work(&self, registry: &Registry) -> usize {
        let of_run = |(namespace, entries): (&Namespace, &[ProcId])| {
            let has_set = entries.last().is_some_and(|entry| entry.rank.process().is_none());
            let job = registry.job(namespace).filter(|_| has_set);
            entries.len().saturating_add(job.map_or(0, |job| job.clients().len()))
        };
        ProcId::by_namespace_sorted(&self.procs).map(of_run).fold(0, usize::saturating_add)
    }

    /// Whether a process is among the participants.
    pub(crate) fn covers(&self, proc: &ProcId) -> bool {
        self.procs.cover(proc)
    }

    /// Whether a process of another node is among the participants.
    pub(crate) fn covers_elsewhere(&self, proc: &ProcId) -> bool {
        self.procs.cover_elsewhere(proc)
    }

    /// Whether both have a common participant, as far as their entries show.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let names_one = |one: &Self, another: &Self| another.procs.iter().any(|proc| one.covers(proc));
        names_one(self, other) || names_one(other, self)
    }

    /// Whether all processes of an entry are among the participants, in any form.
    pub(crate) fn encloses(&self, registry: &Registry, entry: &ProcId) -> bool {
        if self.covers(entry) {
            return true;
        }
        let named = |rank: u32| self.covers(&ProcId::new(entry.namespace.clone(), rank));
        match (entry.rank, registry.job(&entry.namespace)) {
            // The loop stops at the first missing rank, so it visits at most the written ones.
            (Rank::Wildcard, Some(job)) => job.job_size().is_some_and(|size| (0..size).all(named)),
            (Rank::LocalPeers | Rank::LocalNode, Some(_)) => {
                let here = registry.membership(std::slice::from_ref(entry), false);
                here.is_some_and(|members| members.local.iter().all(|proc| self.covers(proc)))
            }
            _ => false,
        }
    }

    pub(crate) fn names(&self, namespace: &Namespace) -> bool {
        let first = self.procs.partition_point(|entry| entry.namespace < *namespace);
        self.procs.get(first).is_some_and(|entry| entry.namespace == *namespace)
    }
}

pub(crate) const UNDERSTOOD_OF_FENCES: [&str; 4] = [
    keys::COLLECT_DATA.name(),
    keys::COLLECT_GENERATED_JOB_INFO.name(),
    keys::ALL_CLONES_PARTICIPATE.name(),
    keys::TIMEOUT.name(),
];
pub(crate) const UNDERSTOOD_OF_CONNECTIONS: [&str; 1] = [keys::TIMEOUT.name()];
pub(crate) const UNDERSTOOD_OF_GROUP_ENDS: [&str; 1] = [keys::TIMEOUT.name()];
pub(crate) const UNDERSTOOD_OF_GROUPS: [&str; 11] = [
    keys::TIMEOUT.name(),
    keys::GROUP_LOCAL_ONLY.name(),
    keys::GROUP_OPTIONAL.name(),
    keys::GROUP_FT_COLLECTIVE.name(),
    keys::GROUP_NOTIFY_TERMINATION.name(),
    keys::GROUP_ASSIGN_CONTEXT_ID.name(),
    keys::GROUP_LEADER.name(),
    keys::GROUP_INFO.name(),
    keys::GROUP_LOCAL_CID.name(),
    keys::GROUP_BOOTSTRAP.name(),
    keys::GROUP_ADD_MEMBERS.name(),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_of_participants_is_shown_in_part() {
        let namespace = Namespace::new("job").unwrap();
        let shown = |count| {
            Participants::new((0..count).map(|rank| ProcId::new(namespace.clone(), rank)).collect()).to_string()
        };
        assert_eq!(shown(2), "job:0 job:1");
        assert_eq!(shown(8), "job:0 job:1 job:2 job:3 job:4 job:5 job:6 job:7");
        assert_eq!(shown(10), format!("{} and 2 more", shown(8)));
    }
}
