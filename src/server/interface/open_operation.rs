//! Operations under way, for people who want to know why a job does not go on.

use std::fmt;
use std::time::Duration;

use crate::types::{Key, ProcId, Text};

/// An operation that waits for processes or for the host.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenOperation {
    /// The operation.
    pub kind: OperationKind,
    /// The participants as they were named. For a Get: the process that asked; empty: the host did.
    pub participants: Vec<ProcId>,
    /// The number of local participants that have arrived.
    pub arrived: usize,
    /// The processes that it waits for: local participants, or the process of a Get. Empty, as is
    /// [`OpenOperation::lacking_clones`]: it waits for the host.
    pub missing: Vec<ProcId>,
    /// The ranks whose clones it waits for, too (`PMIX_ALL_CLONES_PARTICIPATE`).
    pub lacking_clones: Vec<ProcId>,
    /// The time since its begin.
    pub age: Duration,
}

impl OpenOperation {
    /// Limit of the listed collectives, and of the listed Gets.
    pub const LISTED_MAX: usize = 64;
}

/// A kind of operation that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperationKind {
    /// `PMIx_Fence`.
    Fence,
    /// `PMIx_Connect`.
    Connect,
    /// `PMIx_Disconnect`.
    Disconnect,
    /// `PMIx_Group_construct` of this group.
    GroupConstruct(Text),
    /// `PMIx_Group_destruct` of this group.
    GroupDestruct(Text),
    /// `PMIx_Get` of this key, or of all values.
    Get(Option<Key>),
}

impl fmt::Display for OperationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fence => f.write_str("fence"),
            Self::Connect => f.write_str("connect"),
            Self::Disconnect => f.write_str("disconnect"),
            Self::GroupConstruct(name) => write!(f, "construction of group {name:?}"),
            Self::GroupDestruct(name) => write!(f, "end of group {name:?}"),
            Self::Get(Some(key)) => write!(f, "Get of {:?}", key.as_str()),
            Self::Get(None) => f.write_str("Get of all values"),
        }
    }
}
