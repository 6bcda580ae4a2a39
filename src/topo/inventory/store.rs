//! The inventories of many nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use super::{Device, Inventory, InventoryError};

/// Limit of nodes.
pub const NODES_MAX: usize = 1 << 16;
/// Bytes of their inventories together, as blobs.
const BYTES_MAX: usize = 256 << 20;

/// Delivered inventories, by node. A node's newer inventory replaces the older one.
#[derive(Clone, Debug, Default)]
pub struct Inventories {
    nodes: BTreeMap<Arc<str>, Arc<Kept>>,
    size_bytes: usize,
    network_revision: u64,
}

#[derive(Debug)]
struct Kept {
    inventory: Inventory,
    size_bytes: usize,
}

/// The inventories that a server's core takes and its runtime reads. A clone is the same.
#[derive(Clone, Debug, Default)]
pub struct SharedInventories(Arc<Mutex<Inventories>>);

impl SharedInventories {
    /// The inventories, for a short look.
    pub fn lock(&self) -> MutexGuard<'_, Inventories> {
        self.0.lock()
    }

    /// The inventories as they are now. A delivery never waits for the use of it.
    #[must_use]
    pub fn snapshot(&self) -> Inventories {
        self.lock().clone()
    }
}

/// A device that a node's newer inventory lacks, or that its older one lacked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceChange {
    /// The node's name.
    pub node: String,
    /// The device.
    pub device: Device,
    /// Whether the newer inventory has it.
    pub is_found: bool,
}

impl Inventories {
    /// Takes blobs, all of them or none. Returns the changes of devices that carry data or compute: of networks, and GPUs. A node's
    /// first inventory is no change.
    ///
    /// # Errors
    /// [`InventoryError`] if a blob is invalid, if two are of one node, or if the total exceeds the limit.
    pub fn deliver<'a>(
        &mut self,
        blobs: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Vec<DeviceChange>, InventoryError> {
        let mut arrived = BTreeMap::new();
        for blob in blobs {
            let inventory = Inventory::decode(blob)?;
            if let Some(device) = twice(&inventory) {
                return Err(InventoryError::TwoDevices { node: inventory.node.clone(), device: device.to_owned() });
            }
            let node: Arc<str> = inventory.node.as_str().into();
            let kept = Arc::new(Kept { inventory, size_bytes: blob.len() });
            if arrived.insert(Arc::clone(&node), kept).is_some() {
                return Err(InventoryError::TwoOfNode { node: node.as_ref().to_owned() });
            }
        }
        let (mut node_count, mut size_bytes) = (self.nodes.len(), self.size_bytes);
        let (mut changes, mut has_other_networks) = (Vec::new(), false);
        for (node, kept) in &arrived {
            let older = self.nodes.get(node);
            let known = older.map(|older| networks(&older.inventory)).into_iter().flatten();
            has_other_networks |= !known.eq(networks(&kept.inventory));
            match older {
                Some(older) => {
                    size_bytes = size_bytes.saturating_sub(older.size_bytes);
                    changes.extend(compare(&older.inventory, &kept.inventory));
                }
                None => node_count += 1,
            }
            size_bytes = size_bytes.saturating_add(kept.size_bytes);
        }
        if node_count > NODES_MAX {
            return Err(InventoryError::TooMany { what: "nodes", max: NODES_MAX });
        }
        if size_bytes > BYTES_MAX {
            return Err(InventoryError::TooMany { what: "bytes of all nodes", max: BYTES_MAX });
        }
        self.nodes.extend(arrived);
        self.size_bytes = size_bytes;
        self.network_revision += u64::from(has_other_networks);
        Ok(changes)
    }

    /// Grows with each delivery that changes network devices.
    #[must_use]
    pub const fn network_revision(&self) -> u64 {
        self.network_revision
    }

    /// The inventory of a node.
    #[must_use]
    pub fn of(&self, node: &str) -> Option<&Inventory> {
        self.nodes.get(node).map(|kept| &kept.inventory)
    }

    /// All inventories, by node name.
    pub fn iter(&self) -> impl Iterator<Item = &Inventory> {
        self.nodes.values().map(|kept| &kept.inventory)
    }

    /// Number of inventories.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are no inventories.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}

fn networks(inventory: &Inventory) -> impl Iterator<Item = &Device> {
    inventory.devices.iter().filter(|device| device.is_of_network())
}

/// A name that two devices of networks have.
fn twice(inventory: &Inventory) -> Option<&str> {
    let mut names = BTreeSet::new();
    networks(inventory).find(|device| !names.insert(&device.name)).map(|device| device.name.as_str())
}

/// First the devices that are lost, then those that are found.
fn compare<'i>(older: &'i Inventory, newer: &'i Inventory) -> impl Iterator<Item = DeviceChange> + 'i {
    let missing = |from: &'i Inventory, to: &'i Inventory| {
        let known: BTreeSet<_> = to.devices.iter().map(identity).collect();
        let followed = from.devices.iter().filter(|device| device.is_of_network() || device.is_gpu());
        followed.filter(move |device| !known.contains(&identity(device)))
    };
    let change =
        |is_found| move |device: &Device| DeviceChange { node: newer.node.clone(), device: device.clone(), is_found };
    missing(older, newer).map(change(false)).chain(missing(newer, older).map(change(true)))
}

fn identity(device: &Device) -> (&str, &str) {
    (&device.name, &device.uuid)
}
