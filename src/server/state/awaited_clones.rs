//! The ranks of a fence that awaits all of their clones (`PMIX_ALL_CLONES_PARTICIPATE`).
//!
//! A clone is a further connection under the name of a rank, mostly of a forked child. A rank lacks clones while one of
//! its connections does not wait for the fence. So a clone that ends is awaited no more, and one that connects
//! meanwhile is.

use std::collections::BTreeSet;

use super::registry::Registry;
use crate::server::interface::PeerId;
use crate::types::ProcId;

/// The ranks, and those that may lack clones.
#[derive(Debug, Default)]
pub(crate) struct AwaitedClones {
    ranks: BTreeSet<ProcId>,
    open: BTreeSet<ProcId>,
}

impl AwaitedClones {
    pub(crate) fn add(&mut self, rank: ProcId) {
        if self.ranks.insert(rank.clone()) {
            self.open.insert(rank);
        }
    }

    pub(crate) fn contains(&self, rank: &ProcId) -> bool {
        self.ranks.contains(rank)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ranks.is_empty()
    }

    /// A clone of a rank has connected.
    pub(crate) fn reopen(&mut self, rank: &ProcId) {
        self.open.extend(self.ranks.get(rank).cloned());
    }

    /// Whether no rank lacks clones. It looks at each rank once, and at the first one that lacks some again.
    pub(crate) fn are_here(&mut self, registry: &Registry, waits: impl Fn(PeerId) -> bool) -> bool {
        while let Some(rank) = self.open.first() {
            if lacks_clones(registry, rank, &waits) {
                return false;
            }
            self.open.pop_first();
        }
        true
    }

    /// The ranks that lack clones.
    pub(crate) fn lacking(&self, registry: &Registry, waits: impl Fn(PeerId) -> bool) -> Vec<ProcId> {
        self.ranks.iter().filter(|rank| lacks_clones(registry, rank, &waits)).cloned().collect()
    }
}

fn lacks_clones(registry: &Registry, rank: &ProcId, waits: impl Fn(PeerId) -> bool) -> bool {
    registry.client(rank).is_some_and(|client| !client.connections().iter().all(|peer| waits(*peer)))
}
