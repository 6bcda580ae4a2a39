//! Reasons why data could not be stored.

use super::layout::cell::ValueError;
use super::layout::segment_view::Damage;
use super::registration::RegisterError;
use crate::shmem::{CreateError, GrowError, HandleError, WriteError};
use crate::types::{AsStatus, DataType, Key, Namespace, Rank, Status};

/// Why a registration or commit was refused. Earlier data is unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The namespace is not registered, or no longer registered.
    #[error("namespace {namespace} is not registered with this server; register it before committing to it")]
    UnknownNamespace {
        /// The namespace.
        namespace: Namespace,
    },
    /// The rank exceeds the store's limit.
    #[error("rank {rank} is beyond the limit of {ranks_max} ranks in a namespace; raise StoreLimits::ranks_max")]
    RankOutOfRange {
        /// The rank.
        rank: u32,
        /// The limit.
        ranks_max: u32,
    },
    /// The rank is not one of the job's.
    #[error("rank {rank} is not in a job of {job_size} processes; register the job again if it has grown")]
    RankOutsideJob {
        /// The rank.
        rank: u32,
        /// Number of processes of the job.
        job_size: u32,
    },
    /// One commit has more values than allowed.
    #[error("a commit of {found} values exceeds the limit of {entries_max}; commit more often")]
    TooManyEntries {
        /// Values in the commit.
        found: usize,
        /// The limit.
        entries_max: u32,
    },
    /// The namespace uses more different keys than allowed.
    #[error("key {key} would be key number {} of the namespace, above its limit; reuse keys", .keys_max + 1)]
    TooManyKeys {
        /// The key beyond the limit.
        key: String,
        /// The limit.
        keys_max: u32,
    },
    /// A value of this scope must not leave its process.
    #[error("key {key} has scope internal, which must not reach the store")]
    InternalScope {
        /// The key.
        key: Key,
    },
    /// A value cannot be stored.
    #[error("value of key {key} cannot be stored: {reason}")]
    Value {
        /// The key.
        key: Key,
        /// Why.
        reason: ValueError,
    },
    /// The host's description of the job was refused.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// A job record contradicts itself.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The segment has reached its limit.
    #[error("segment needs {need_bytes} bytes, the limit is {bytes_max}; raise StoreLimits::segment_bytes_max")]
    SegmentFull {
        /// Bytes needed in all.
        need_bytes: u64,
        /// The limit.
        bytes_max: u64,
    },
    /// A process has used up its share of its namespace's limit. Other processes continue.
    #[error(
        "rank {rank} has {held} {} of its namespace and may have {left} more, but needs {needed}; {}, \
         or raise StoreLimits::{}", .shared.name(), .shared.advice(), .shared.limit()
    )]
    Share {
        /// The shared quantity.
        shared: Shared,
        /// The process.
        rank: u32,
        /// Amount used by the process.
        held: u64,
        /// Further amount needed.
        needed: u64,
        /// Further amount available now.
        left: u64,
    },
    /// A segment could not be made.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// The segment could not grow; names the needed and the available space, and the place.
    #[error(transparent)]
    Grow(#[from] GrowError),
    /// The segment refused a write: a bug of this module.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The writer could not map its own segment for reading.
    #[error("cannot read the segment just made: {0}")]
    Attach(#[from] crate::shmem::SegmentError),
    /// No handle for readers could be made.
    #[error(transparent)]
    Handle(#[from] HandleError),
    /// The segment differs from this process's writes: another process wrote to it.
    #[error("segment of this server is damaged: {0}")]
    Damaged(#[from] Damage),
}

/// Quantities that the processes of a namespace share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shared {
    /// Different keys, counted for the process that put them first.
    Keys,
    /// Bytes of the segment.
    Bytes,
}

impl Shared {
    const fn name(self) -> &'static str {
        match self {
            Self::Keys => "keys",
            Self::Bytes => "bytes",
        }
    }

    const fn advice(self) -> &'static str {
        match self {
            Self::Keys => "put values under fewer keys",
            Self::Bytes => "put large values less often (each time takes their size until the job ends)",
        }
    }

    const fn limit(self) -> &'static str {
        match self {
            Self::Keys => "keys_max",
            Self::Bytes => "segment_bytes_max",
        }
    }
}

/// A contradiction in a job record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// A column has too few or too many values.
    #[error("column {key} has {found} values for {expected} indexes")]
    ColumnLength {
        /// The key.
        key: Key,
        /// Values given.
        found: usize,
        /// Ranks or nodes of the job.
        expected: u32,
    },
    /// The indexes of a sparse column don't ascend or pass its end.
    #[error("sparse column {key} has index {index}, which does not ascend or is not below {count}")]
    SparseIndex {
        /// The key.
        key: Key,
        /// The index.
        index: u32,
        /// Ranks or nodes of the job.
        count: u32,
    },
    /// A number is impossible for the column's type.
    #[error("column {key} of type {} cannot hold {number}", data_type.name())]
    Number {
        /// The key.
        key: Key,
        /// The column's type.
        data_type: DataType,
        /// The number.
        number: u64,
    },
    /// A node column, or the column of node ids, refers to the node's value.
    #[error("column {key} cannot take its values from the node")]
    OfNode {
        /// The key.
        key: Key,
    },
    /// Rank lists by rule in a column other than local peers, or with ranks outside the job.
    #[error(
        "column {key} cannot hold these lists of ranks; only the column of local peers can, with ranks below \
     {rank_count}"
    )]
    RankLists {
        /// The key.
        key: Key,
        /// Processes of the job.
        rank_count: u32,
    },
    /// More processes or nodes than allowed.
    #[error("a job of {found} {what} exceeds the limit of {max}; raise StoreLimits")]
    TooLarge {
        /// "ranks" or "nodes".
        what: &'static str,
        /// Number found.
        found: u32,
        /// The limit.
        max: u32,
    },
    /// The server's own node is not one of the job's.
    #[error("own node {own_node} is not one of the job's {node_count} nodes")]
    OwnNode {
        /// The index given.
        own_node: u32,
        /// Nodes of the job.
        node_count: u32,
    },
}

impl AsStatus for StoreError {
    fn status(&self) -> Status {
        match self {
            Self::UnknownNamespace { .. } => Status::ERR_NOT_FOUND,
            Self::RankOutOfRange { rank, .. } if *rank > Rank::PROCESS_MAX => Status::ERR_BAD_PARAM,
            Self::Register(error) => error.status(),
            Self::RankOutsideJob { .. } | Self::InternalScope { .. } | Self::Record(_) => Status::ERR_BAD_PARAM,
            Self::RankOutOfRange { .. }
            | Self::TooManyEntries { .. }
            | Self::TooManyKeys { .. }
            | Self::Value { .. }
            | Self::SegmentFull { .. }
            | Self::Share { .. }
            | Self::Create(_)
            | Self::Grow(_) => Status::ERR_OUT_OF_RESOURCE,
            Self::Attach(error) if error.is_shortage() => Status::ERR_OUT_OF_RESOURCE,
            Self::Handle(error) if error.is_shortage() => Status::ERR_OUT_OF_RESOURCE,
            Self::Write(_) | Self::Attach(_) | Self::Handle(_) | Self::Damaged(_) => Status::ERROR,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use nix::errno::Errno;

    use super::*;
    use crate::shmem::{Location, SegmentError};

    /// Regression: a host whose server was out of descriptors got `PMIX_ERROR` (-1), without a reason. A shortage of
    /// the system has its own status at every place.
    #[test]
    fn a_shortage_is_told_from_other_errors() {
        let status = |errno: Errno| {
            let source = || io::Error::from(errno);
            let open = HandleError::Open { location: Location::Anonymous, source: source() };
            let system = SegmentError::System { step: "fstat", source: source() };
            let map = SegmentError::Map { bytes: 4096, source: source() };
            [StoreError::from(open), system.into(), map.into()].map(|error| error.status())
        };
        for errno in [Errno::EMFILE, Errno::ENFILE, Errno::ENOMEM] {
            assert_eq!(status(errno), [Status::ERR_OUT_OF_RESOURCE; 3], "{errno}");
        }
        assert_eq!(status(Errno::EACCES), [Status::ERROR; 3]);
    }
}
