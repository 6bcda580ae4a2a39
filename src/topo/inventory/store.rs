//! The inventories of many nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use rpds::{RedBlackTreeMapSync, RedBlackTreeSetSync};

use super::{Device, Inventory, InventoryError};

/// Limit of nodes.
pub const NODES_MAX: usize = 1 << 16;
/// Bytes of their inventories together, as blobs.
const BYTES_MAX: usize = 256 << 20;

/// Inventories by node. A node's newer inventory replaces the older one. A clone shares them, so a delivery to one of
/// both copies a few nodes of the trees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventories {
    nodes: RedBlackTreeMapSync<Arc<str>, Arc<StoredInventory>>,
    /// Network devices: their identity, name and node.
    networks: RedBlackTreeSetSync<(Arc<str>, Arc<str>, Arc<str>)>,
    size_bytes: usize,
    network_revision: u64,
}

/// An inventory and its blob. Answers share the blob, so it is encoded once.
#[derive(Debug, PartialEq, Eq)]
pub struct StoredInventory {
    inventory: Inventory,
    blob: Vec<u8>,
}

impl StoredInventory {
    /// An inventory with its blob.
    ///
    /// # Errors
    /// See [`Inventory::encode`].
    pub fn new(inventory: Inventory) -> Result<Self, InventoryError> {
        let blob = inventory.encode()?;
        Ok(Self { inventory, blob })
    }

    /// The inventory.
    #[must_use]
    pub const fn inventory(&self) -> &Inventory {
        &self.inventory
    }

    /// The bytes.
    #[must_use]
    pub fn blob(&self) -> &[u8] {
        &self.blob
    }
}

/// The inventories that a server's core takes and its runtime reads. A clone is the same.
#[derive(Clone, Debug, Default)]
pub struct SharedInventories(Arc<Mutex<Arc<Inventories>>>);

impl SharedInventories {
    /// The inventories as they are now. A delivery never waits for the use of it.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Inventories> {
        Arc::clone(&self.0.lock())
    }

    /// See [`Inventories::deliver`].
    ///
    /// # Errors
    /// The same.
    pub fn deliver(&self, blobs: Vec<Vec<u8>>) -> Result<Vec<DeviceChange>, InventoryError> {
        Arc::make_mut(&mut self.0.lock()).deliver(blobs)
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
    /// Encodes inventories. One that does not fit a blob is left out.
    pub(crate) fn of_nodes(inventories: impl Iterator<Item = Inventory>) -> Self {
        let mut all = Self::default();
        for stored in inventories.filter_map(|inventory| StoredInventory::new(inventory).ok()) {
            all.size_bytes = all.size_bytes.saturating_add(stored.blob.len());
            all.replace(stored.inventory.node.as_str().into(), Arc::new(stored));
        }
        all
    }

    /// The inventories of some nodes, which both share.
    pub(crate) fn part(&self, nodes: &BTreeSet<&str>) -> Self {
        let mut part = Self::default();
        for stored in nodes.iter().filter_map(|node| self.stored(node)) {
            part.size_bytes = part.size_bytes.saturating_add(stored.blob.len());
            part.replace(stored.inventory.node.as_str().into(), Arc::clone(stored));
        }
        part
    }

    /// Takes blobs, all of them or none. Returns the changes of devices that carry data or compute: of networks, and
    /// GPUs. A node's first inventory is no change.
    ///
    /// # Errors
    /// [`InventoryError`] if a blob is invalid, if two are of one node, or if the total exceeds the limit.
    pub fn deliver<B>(&mut self, blobs: impl IntoIterator<Item = B>) -> Result<Vec<DeviceChange>, InventoryError>
    where
        B: AsRef<[u8]> + Into<Vec<u8>>,
    {
        let mut arrived = BTreeMap::new();
        for blob in blobs {
            let inventory = Inventory::decode(blob.as_ref())?;
            if let Some(device) = twice(&inventory) {
                return Err(InventoryError::TwoDevices { node: inventory.node.clone(), device: device.to_owned() });
            }
            let node: Arc<str> = inventory.node.as_str().into();
            let stored = Arc::new(StoredInventory { inventory, blob: blob.into() });
            if arrived.insert(Arc::clone(&node), stored).is_some() {
                return Err(InventoryError::TwoOfNode { node: node.as_ref().to_owned() });
            }
        }
        let (mut node_count, mut size_bytes) = (self.nodes.size(), self.size_bytes);
        let (mut changes, mut has_other_networks) = (Vec::new(), false);
        for (node, newer) in &arrived {
            let older = self.nodes.get(node);
            let known = older.map(|older| older.inventory.networks()).into_iter().flatten();
            has_other_networks |= !known.eq(newer.inventory.networks());
            match older {
                Some(older) => {
                    size_bytes = size_bytes.saturating_sub(older.blob.len());
                    changes.extend(compare(&older.inventory, &newer.inventory));
                }
                None => node_count += 1,
            }
            size_bytes = size_bytes.saturating_add(newer.blob.len());
        }
        if node_count > NODES_MAX {
            return Err(InventoryError::TooMany { what: "nodes", max: NODES_MAX });
        }
        if size_bytes > BYTES_MAX {
            return Err(InventoryError::TooMany { what: "bytes of all nodes", max: BYTES_MAX });
        }
        for (node, newer) in arrived {
            self.replace(node, newer);
        }
        self.size_bytes = size_bytes;
        self.network_revision += u64::from(has_other_networks);
        Ok(changes)
    }

    fn replace(&mut self, node: Arc<str>, newer: Arc<StoredInventory>) {
        let entry = |device: &Device| {
            let [identity, name] = [&device.uuid, &device.name].map(|text| Arc::from(text.as_str()));
            (identity, name, Arc::clone(&node))
        };
        for device in self.nodes.get(&node).into_iter().flat_map(|older| older.inventory.networks()) {
            self.networks.remove_mut(&entry(device));
        }
        newer.inventory.networks().map(entry).for_each(|device| {
            self.networks.insert_mut(device);
        });
        self.nodes.insert_mut(node, newer);
    }

    /// Grows with each delivery that changes network devices.
    #[must_use]
    pub const fn network_revision(&self) -> u64 {
        self.network_revision
    }

    /// The inventory of a node.
    #[must_use]
    pub fn of(&self, node: &str) -> Option<&Inventory> {
        self.stored(node).map(|stored| &stored.inventory)
    }

    /// The same with its blob.
    #[must_use]
    pub fn stored(&self, node: &str) -> Option<&Arc<StoredInventory>> {
        self.nodes.get(node)
    }

    /// The node of the first network device with an identity and, if given, a name; and the device.
    #[must_use]
    pub fn network_device(&self, identity: &str, name: Option<&str>) -> Option<(&str, &Device)> {
        let from: (Arc<str>, Arc<str>, Arc<str>) = (identity.into(), name.unwrap_or_default().into(), "".into());
        let (found, of_name, node) = self.networks.range(from..).next()?;
        let is_meant = **found == *identity && name.is_none_or(|name| **of_name == *name);
        let device = self.of(node)?.networks().find(|device| *device.name == **of_name)?;
        is_meant.then_some((node, device))
    }

    /// Number of network devices.
    #[must_use]
    pub fn network_count(&self) -> usize {
        self.networks.size()
    }

    /// All inventories, by node name.
    pub fn iter(&self) -> impl Iterator<Item = &Inventory> {
        self.blobs().map(|stored| &stored.inventory)
    }

    /// The same with their blobs.
    pub fn blobs(&self) -> impl Iterator<Item = &StoredInventory> {
        self.nodes.values().map(|stored| &**stored)
    }

    /// Bytes of all blobs.
    #[must_use]
    pub const fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// Number of inventories.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.size()
    }

    /// Whether there are no inventories.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}

/// A name that two devices of networks have.
fn twice(inventory: &Inventory) -> Option<&str> {
    let mut names = BTreeSet::new();
    inventory.networks().find(|device| !names.insert(&device.name)).map(|device| device.name.as_str())
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
