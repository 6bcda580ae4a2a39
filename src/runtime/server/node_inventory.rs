//! The inventory of this node: as its topology has it, or as the machine is now.

use std::sync::Arc;

use parking_lot::Mutex;

use super::kernel_inventory::kernel_inventory;
use super::topology::NodeTopology;
use crate::topo::TopologyError;
use crate::topo::inventory::{Inventories, Inventory, SharedInventories, StoredInventory};
use crate::types::{AsStatus, Status};

/// Reads the inventory of this node. A clone reads the same node.
#[derive(Clone, Debug)]
pub struct NodeInventory {
    hostname: String,
    topology: Arc<NodeTopology>,
    inventories: SharedInventories,
    /// Locked from a reading to its delivery, so an older reading is never delivered behind a newer one.
    order: Arc<Mutex<()>>,
}

impl NodeInventory {
    pub(super) fn new(hostname: &str, topology: &Arc<NodeTopology>, inventories: &SharedInventories) -> Self {
        let (topology, inventories) = (Arc::clone(topology), inventories.clone());
        Self { hostname: hostname.to_owned(), topology, inventories, order: Arc::default() }
    }

    /// The node's name.
    pub(super) fn hostname(&self) -> &str {
        &self.hostname
    }

    /// The inventories of all nodes that were delivered last.
    pub(super) fn delivered(&self) -> Arc<Inventories> {
        self.inventories.snapshot()
    }

    /// The inventory from the topology, which is read once. Without a topology it has the kernel's facts.
    ///
    /// # Errors
    /// [`TopologyError`] of an unreadable topology.
    pub fn of_topology(&self) -> Result<Inventory, TopologyError> {
        let shared = self.topology.wait();
        self.or_of_kernel(shared.map(|shared| Inventory::of(&self.hostname, shared.machine())))
    }

    /// The inventory of the machine as it is now. The first request reads the topology for all processes, and each
    /// later one reads the machine again. A reading has the time limit of the topology.
    ///
    /// `deliver` tells the server of it, so that lost and found devices become events. It gets up to two blobs: the
    /// inventory before the change, if the server does not know that, and the new one.
    ///
    /// # Errors
    /// [`TopologyError`] of an unreadable topology, and of an inventory that fits no blob; and the error of `deliver`.
    pub fn current(
        &self,
        mut deliver: impl FnMut(Vec<u8>) -> Result<(), TopologyError>,
    ) -> Result<Arc<StoredInventory>, TopologyError> {
        let _order = self.order.lock();
        let before = self.topology.outcome();
        let inventory = match &before {
            Some(_) => {
                let machine = self.topology.read_again();
                self.or_of_kernel(machine.map(|machine| Inventory::of(&self.hostname, &machine)))?
            }
            None => self.of_topology()?,
        };
        let current = Arc::new(StoredInventory::new(inventory).map_err(unusable)?);
        let delivered = self.delivered();
        let delivered = delivered.of(&self.hostname);
        if let (None, Some(Ok(shared))) = (delivered, &before) {
            deliver(Inventory::of(&self.hostname, shared.machine()).encode().map_err(unusable)?)?;
        }
        if delivered != Some(current.inventory()) {
            deliver(current.blob().to_vec())?;
        }
        Ok(current)
    }

    /// The inventory for other processes of the server's user: [`NodeInventory::current`], unless the host keeps the
    /// topology to itself.
    pub(super) fn current_for_peers(
        &self,
        deliver: impl FnMut(Vec<u8>) -> Result<(), TopologyError>,
    ) -> Result<Arc<StoredInventory>, TopologyError> {
        if self.topology.is_for_clients() {
            return self.current(deliver);
        }
        StoredInventory::new(kernel_inventory(&self.hostname)).map(Arc::new).map_err(unusable)
    }

    fn or_of_kernel(&self, inventory: Result<Inventory, TopologyError>) -> Result<Inventory, TopologyError> {
        match inventory {
            Err(error) if error.status() == Status::ERR_NOT_SUPPORTED => Ok(kernel_inventory(&self.hostname)),
            other => other,
        }
    }
}

fn unusable(error: crate::topo::InventoryError) -> TopologyError {
    TopologyError::Unusable { reason: error.to_string() }
}
