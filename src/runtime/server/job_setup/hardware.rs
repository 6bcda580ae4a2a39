//! The fabric and the inventories from which applications have their endpoints.
//!
//! Jobs keep a part of earlier hardware alone: the devices of their nodes. So changes of a large fabric do not add up
//! in memory.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::fabric::{CurrentFabric, FabricHandle};
use crate::topo::Inventories;

/// Bytes of a device in a part of a fabric, about.
const DEVICE_BYTES: usize = 256;

#[cfg(test)]
thread_local! {
    /// Runs at each comparison of this thread.
    pub(super) static ON_COMPARISON: std::cell::RefCell<Option<Box<dyn Fn()>>> = const { std::cell::RefCell::new(None) };
}

/// Fabric and inventories at one time. A clone is the same.
#[derive(Clone, Debug)]
pub(super) struct Hardware {
    pub(super) fabric: FabricHandle,
    pub(super) inventories: Arc<Inventories>,
    /// The memory of a part. The whole hardware is the server's.
    size_bytes: usize,
}

impl Hardware {
    pub(super) const fn new(fabric: FabricHandle, inventories: Arc<Inventories>) -> Self {
        Self { fabric, inventories, size_bytes: 0 }
    }

    /// Whether it is a clone. Others may have the same devices.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.fabric.is_same(&other.fabric) && Arc::ptr_eq(&self.inventories, &other.inventories)
    }

    /// The hardware of some nodes at a later time: the `newest`, if nothing has changed there. Otherwise their part of
    /// this.
    pub(super) fn kept_for<'n, I: Iterator<Item = &'n str>>(&self, nodes: impl Fn() -> I, newest: &Self) -> Self {
        #[cfg(test)]
        ON_COMPARISON.with_borrow(|note| note.iter().for_each(|note| note()));
        let has_same_fabric = self.fabric.is_same(&newest.fabric);
        let is_as_before = |node: &str| {
            (has_same_fabric || self.fabric.has_same_devices(&newest.fabric, node))
                && self.inventories.stored(node) == newest.inventories.stored(node)
        };
        if nodes().all(is_as_before) {
            return newest.clone();
        }
        if self.size_bytes > 0 {
            return self.clone();
        }
        let nodes: BTreeSet<&str> = nodes().collect();
        let (fabric, inventories) = (self.fabric.part(&nodes), self.inventories.part(&nodes));
        let size_bytes = (fabric.device_count() + 1) * DEVICE_BYTES + inventories.size_bytes();
        Self { fabric: CurrentFabric::new(fabric).handle(), inventories: Arc::new(inventories), size_bytes }
    }

    pub(super) const fn size_bytes(&self) -> usize {
        self.size_bytes
    }
}
