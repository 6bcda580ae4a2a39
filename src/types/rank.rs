use std::fmt;

use rkyv::Deserialize;
use rkyv::rancor::Fallible;

use super::Namespace;
use super::archive::Checking;

/// A process of a namespace. Special ranks are variants, so that their numbers cannot be mistaken for processes.
///
/// Source: PMIx Standard, "Data Structures and Types" (`pmix_rank_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, rkyv::Archive, rkyv::Serialize)]
pub enum Rank {
    /// One process, numbered from 0 to [`Rank::PROCESS_MAX`].
    Process(u32),
    /// The standard's invalid rank.
    Invalid,
    /// All processes of the namespace on this node.
    LocalPeers,
    /// All processes on this node.
    LocalNode,
    /// The namespace as a whole: job-level data, or every process in a collective.
    Wildcard,
    /// Unknown: for a key that is unique in its namespace.
    Undefined,
}

/// A number that the standard reserves without giving it a meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("rank {raw} lies in the reserved range above {}; it names no process", Rank::PROCESS_MAX)]
pub struct RankError {
    /// The number as received.
    pub raw: u32,
}

/// An archive is foreign data: a number beyond the last process is refused.
impl<D> Deserialize<Rank, D> for ArchivedRank
where
    D: Fallible + Checking + ?Sized,
{
    fn deserialize(&self, copier: &mut D) -> Result<Rank, D::Error> {
        Ok(match self {
            Self::Process(rank) => {
                let raw = rank.to_native();
                let rank = if raw <= Rank::PROCESS_MAX { Ok(Rank::Process(raw)) } else { Err(RankError { raw }) };
                copier.checked(rank, Rank::Invalid)
            }
            Self::Invalid => Rank::Invalid,
            Self::LocalPeers => Rank::LocalPeers,
            Self::LocalNode => Rank::LocalNode,
            Self::Wildcard => Rank::Wildcard,
            Self::Undefined => Rank::Undefined,
        })
    }
}

impl Rank {
    /// Highest number that names a process.
    pub const PROCESS_MAX: u32 = u32::MAX - 51;

    /// Reads the number used on the wire and in the C ABI.
    ///
    /// # Errors
    /// [`RankError`] for a reserved number without meaning.
    pub const fn from_raw(raw: u32) -> Result<Self, RankError> {
        match raw {
            u32::MAX => Ok(Self::Undefined),
            0xFFFF_FFFE => Ok(Self::Wildcard),
            0xFFFF_FFFD => Ok(Self::LocalNode),
            0xFFFF_FFFC => Ok(Self::Invalid),
            0xFFFF_FFFB => Ok(Self::LocalPeers),
            0..=Self::PROCESS_MAX => Ok(Self::Process(raw)),
            _ => Err(RankError { raw }),
        }
    }

    /// The number used on the wire and in the C ABI.
    #[must_use]
    pub const fn to_raw(self) -> u32 {
        match self {
            Self::Process(rank) => rank,
            Self::Invalid => 0xFFFF_FFFC,
            Self::LocalPeers => 0xFFFF_FFFB,
            Self::LocalNode => 0xFFFF_FFFD,
            Self::Wildcard => 0xFFFF_FFFE,
            Self::Undefined => u32::MAX,
        }
    }

    /// The number of one process, if this rank names one.
    #[must_use]
    pub const fn process(self) -> Option<u32> {
        match self {
            Self::Process(rank) => Some(rank),
            _ => None,
        }
    }
}

/// The rank of one process. Numbers above [`Rank::PROCESS_MAX`] become [`Rank::Invalid`].
impl From<u32> for Rank {
    fn from(rank: u32) -> Self {
        if rank <= Self::PROCESS_MAX { Self::Process(rank) } else { Self::Invalid }
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process(rank) => write!(f, "{rank}"),
            Self::Invalid => f.write_str("invalid"),
            Self::LocalPeers => f.write_str("local-peers"),
            Self::LocalNode => f.write_str("local-node"),
            Self::Wildcard => f.write_str("*"),
            Self::Undefined => f.write_str("undefined"),
        }
    }
}

/// A process (or, with a special rank, a set of processes): namespace and rank.
///
/// Source: PMIx Standard, "Data Structures and Types" (`pmix_proc_t`).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct ProcId {
    /// The job.
    pub namespace: Namespace,
    /// Rank of the process in it.
    pub rank: Rank,
}

impl ProcId {
    /// Names a process.
    #[must_use]
    pub fn new(namespace: Namespace, rank: impl Into<Rank>) -> Self {
        Self { namespace, rank: rank.into() }
    }

    /// The entries of each namespace in a list grouped by namespace.
    pub(crate) fn by_namespace(procs: &[Self]) -> impl Iterator<Item = (&Namespace, &[Self])> {
        let parts = procs.chunk_by(|one, next| one.namespace.is(&next.namespace));
        parts.filter_map(|part| Some((&part.first()?.namespace, part)))
    }

    /// The entries of each namespace in a sorted list. A long run costs few comparisons.
    pub(crate) fn by_namespace_sorted(procs: &[Self]) -> impl Iterator<Item = (&Namespace, &[Self])> {
        let mut left = procs;
        std::iter::from_fn(move || {
            let namespace = &left.first()?.namespace;
            let is_in_run = |entry: &Self| entry.namespace == *namespace;
            let mut bound: usize = 1;
            while left.get(bound).is_some_and(is_in_run) {
                bound = bound.saturating_mul(2);
            }
            let run_length = left.get(..bound).unwrap_or(left).partition_point(is_in_run);
            let (run, rest) = left.split_at_checked(run_length)?;
            left = rest;
            Some((namespace, run))
        })
    }

    /// Whether this entry of a participant list includes the given process: same namespace, and same rank or wildcard.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.namespace == other.namespace
            && (self.rank == other.rank || self.rank == Rank::Wildcard || other.rank == Rank::Wildcard)
    }
}

impl fmt::Debug for ProcId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.namespace, self.rank)
    }
}

impl fmt::Display for ProcId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.namespace, self.rank)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_ranks_survive_the_border() {
        for raw in [u32::MAX, u32::MAX - 1, u32::MAX - 2, u32::MAX - 3, u32::MAX - 4, 0, 7, Rank::PROCESS_MAX] {
            assert_eq!(Rank::from_raw(raw).unwrap().to_raw(), raw);
        }
    }

    #[test]
    fn reserved_numbers_without_meaning_are_refused() {
        assert_eq!(Rank::from_raw(u32::MAX - 5), Err(RankError { raw: u32::MAX - 5 }));
        assert_eq!(Rank::from(u32::MAX), Rank::Invalid);
    }

    #[test]
    fn a_sorted_list_falls_into_its_namespaces() {
        for counts in [vec![], vec![1], vec![1, 1, 7, 2, 64, 3], vec![100, 1]] {
            let of_each = |(index, count): (usize, &u32)| {
                let namespace = Namespace::new(&format!("job{index}")).unwrap();
                (0..*count).map(move |rank| ProcId::new(namespace.clone(), rank)).collect::<Vec<_>>()
            };
            let parts: Vec<Vec<ProcId>> = counts.iter().enumerate().map(of_each).collect();
            let list = parts.concat();
            let found = ProcId::by_namespace_sorted(&list).map(|(_, entries)| entries.to_vec());
            assert_eq!(found.collect::<Vec<_>>(), parts);
        }
    }

    #[test]
    fn a_wildcard_covers_every_rank_of_its_namespace_only() {
        let all = ProcId::new(Namespace::new("a").unwrap(), Rank::Wildcard);
        assert!(all.covers(&ProcId::new(Namespace::new("a").unwrap(), 3)));
        assert!(!all.covers(&ProcId::new(Namespace::new("b").unwrap(), 3)));
    }
}
