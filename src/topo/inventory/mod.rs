//! A node's hardware in short, for schedulers with many nodes.
//!
//! An inventory is the rollup of a topology ([`Inventory::of`]). It travels as a versioned blob of bytes
//! ([`Inventory::encode`]); a reader skips unknown records.

mod blob;
mod rollup;
mod store;
#[cfg(test)]
mod tests;

use crate::types::codes::device_type;

#[cfg(test)]
pub(crate) use blob::encodings;
pub use blob::{BLOB_BYTES_MAX, InventoryError};
pub use store::{DeviceChange, Inventories, NODES_MAX, SharedInventories, StoredInventory};

/// The hardware of a node according to hwloc.
///
/// ```
/// use modex::topo::{Inventory, Machine};
///
/// let xml = r#"<topology version="2.0"><object type="Machine" cpuset="0x3">
///     <object type="Core" cpuset="0x3"><object type="PU" cpuset="0x1"/><object type="PU" cpuset="0x2"/></object>
///   </object></topology>"#;
/// let inventory = Inventory::of("node0", &Machine::of_xml(xml)?);
/// assert_eq!((inventory.cores, inventory.processors), (1, 2));
/// assert_eq!(Inventory::decode(&inventory.encode()?)?, inventory);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// The node's name.
    pub node: String,
    /// Model of its processors; empty if unknown.
    pub model: String,
    /// Packages.
    pub packages: u32,
    /// Cores.
    pub cores: u32,
    /// Hardware threads.
    pub processors: u32,
    /// Memory, by NUMA node.
    pub memory: Vec<NumaMemory>,
    /// Caches, by level and size.
    pub caches: Vec<Caches>,
    /// Devices of the operating system.
    pub devices: Vec<Device>,
}

impl Inventory {
    /// The devices through which nodes reach each other.
    pub(crate) fn networks(&self) -> impl Iterator<Item = &Device> {
        self.devices.iter().filter(|device| device.is_of_network())
    }
}

/// Memory of a NUMA node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumaMemory {
    /// The operating system's number of the node.
    pub number: u32,
    /// Its bytes.
    pub bytes: u64,
}

/// Identical caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caches {
    /// Their level; 1 is next to the core.
    pub level: u8,
    /// Number of caches.
    pub count: u32,
    /// Bytes of each.
    pub bytes: u64,
}

/// A device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// `PMIX_DEVTYPE_*` bits.
    pub device_types: u64,
    /// The operating system's name.
    pub name: String,
    /// Its name in the whole system: an address or identifier, else its local name.
    pub uuid: String,
    /// Its subtype; mostly empty.
    pub subtype: String,
    /// Its place on the PCI bus; empty if unknown.
    pub bus_address: String,
    /// Vendor of the PCI device.
    pub vendor: Option<u16>,
    /// The vendor's number for it.
    pub model: Option<u16>,
    /// The package that it is next to.
    pub package: Option<u32>,
    /// The operating system's number of the nearest NUMA node.
    pub memory: Option<u32>,
}

/// The kinds of devices through which nodes reach each other.
pub(crate) const NETWORK_TYPES: u64 = device_type::DEVTYPE_NETWORK | device_type::DEVTYPE_OPENFABRICS;

impl Device {
    /// Whether nodes reach each other through it.
    #[must_use]
    pub const fn is_of_network(&self) -> bool {
        self.device_types & NETWORK_TYPES != 0
    }

    /// Whether it is a GPU.
    #[must_use]
    pub const fn is_gpu(&self) -> bool {
        self.device_types & device_type::DEVTYPE_GPU != 0
    }
}
