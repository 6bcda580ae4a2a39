//! The state of the topology while a request is answered.

use std::sync::Arc;

use crate::topo::{Machine, SharedMachine};

/// The state of the topology here.
#[derive(Debug)]
pub(crate) enum Topology {
    /// Not requested yet.
    Unasked,
    Known(Arc<SharedMachine>),
    /// Not available.
    Absent,
}

impl Topology {
    pub(crate) fn hardware(&self) -> Hardware<'_> {
        match self {
            Self::Unasked => Hardware::Unasked,
            Self::Known(shared) => Hardware::Known(shared.machine()),
            Self::Absent => Hardware::Absent,
        }
    }
}

/// The state of the topology here.
#[derive(Clone, Copy)]
pub(crate) enum Hardware<'a> {
    /// Not requested yet.
    Unasked,
    Known(&'a Machine),
    /// Not available.
    Absent,
}
