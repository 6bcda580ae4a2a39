//! The contents of a node's topology segment, and of inventories.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use modex::topo::inventory::{BLOB_BYTES_MAX, Device};
use modex::topo::{CpuSet, Inventory, Machine, Object};
use serde::Serialize;

use super::error::InspectError;

/// The topology of a node.
#[derive(Debug, Serialize)]
pub(super) struct HardwareReport {
    pub(super) object_count: usize,
    pub(super) xml_bytes: usize,
    #[serde(flatten)]
    pub(super) totals: InventoryReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) objects: Option<Vec<ObjectReport>>,
}

/// An inventory, or a summary of a topology.
#[derive(Debug, Serialize)]
pub(super) struct InventoryReport {
    pub(super) node: Option<String>,
    pub(super) model: String,
    pub(super) packages: u32,
    pub(super) cores: u32,
    pub(super) processors: u32,
    pub(super) memory: Vec<MemoryReport>,
    pub(super) caches: Vec<CachesReport>,
    pub(super) devices: Vec<DeviceReport>,
}

#[derive(Debug, Serialize)]
pub(super) struct MemoryReport {
    pub(super) number: u32,
    pub(super) bytes: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct CachesReport {
    pub(super) level: u8,
    pub(super) count: u32,
    pub(super) bytes: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct DeviceReport {
    pub(super) kinds: Vec<&'static str>,
    pub(super) name: String,
    pub(super) uuid: String,
    pub(super) subtype: String,
    pub(super) bus_address: String,
    pub(super) vendor: Option<String>,
    pub(super) model: Option<String>,
    pub(super) package: Option<u32>,
    pub(super) numa_node: Option<u32>,
    /// Known of the devices of a server's fabric.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) plane: Option<String>,
}

/// The nodes that a server knows.
#[derive(Debug, Serialize)]
pub(super) struct ClusterReport {
    pub(super) pid: Option<u32>,
    pub(super) server: String,
    pub(super) nodes: Vec<InventoryReport>,
}

/// A part of the machine.
#[derive(Debug, Serialize)]
pub(super) struct ObjectReport {
    /// The number of parts around it.
    pub(super) level: usize,
    pub(super) kind: &'static str,
    pub(super) number: u32,
    pub(super) os_number: Option<u32>,
    pub(super) processors: Option<String>,
    pub(super) size_bytes: Option<u64>,
    pub(super) name: String,
}

impl HardwareReport {
    pub(super) fn new(machine: &Machine, with_objects: bool) -> Self {
        Self {
            object_count: machine.objects().count(),
            xml_bytes: machine.xml().len(),
            totals: InventoryReport::new(Inventory::of("", machine)),
            objects: with_objects.then(|| machine.objects().map(|object| ObjectReport::new(&object)).collect()),
        }
    }
}

impl ObjectReport {
    fn new(object: &Object<'_>) -> Self {
        Self {
            level: object.ancestors().count(),
            kind: object.kind().name(),
            number: object.logical_index(),
            os_number: object.os_index(),
            processors: object.processors().map(|words| CpuSet::of_words(words).to_string()),
            size_bytes: Some(object.size_bytes()).filter(|&bytes| bytes > 0),
            name: object.name().to_owned(),
        }
    }
}

impl InventoryReport {
    pub(super) fn new(inventory: Inventory) -> Self {
        let memory = inventory.memory.iter().map(|memory| MemoryReport { number: memory.number, bytes: memory.bytes });
        let caches = inventory.caches.iter();
        let caches =
            caches.map(|caches| CachesReport { level: caches.level, count: caches.count, bytes: caches.bytes });
        Self {
            memory: memory.collect(),
            caches: caches.collect(),
            devices: inventory.devices.iter().map(DeviceReport::new).collect(),
            node: Some(inventory.node).filter(|node| !node.is_empty()),
            model: inventory.model,
            packages: inventory.packages,
            cores: inventory.cores,
            processors: inventory.processors,
        }
    }

    /// Reads a blob from a file.
    pub(super) fn of_file(path: &Path) -> Result<Self, InspectError> {
        let refuse = |source| InspectError::File { path: path.to_owned(), source };
        let mut blob = Vec::new();
        let limit = u64::try_from(BLOB_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
        File::open(path).and_then(|file| file.take(limit).read_to_end(&mut blob)).map_err(refuse)?;
        Ok(Self::new(Inventory::decode(&blob)?))
    }
}

impl DeviceReport {
    fn new(device: &Device) -> Self {
        let hexadecimal = |number: Option<u16>| number.map(|number| format!("{number:04x}"));
        let kinds = KINDS.iter().filter(|(bit, _)| device.device_types & bit != 0);
        Self {
            kinds: kinds.map(|(_, name)| *name).collect(),
            name: device.name.clone(),
            uuid: device.uuid.clone(),
            subtype: device.subtype.clone(),
            bus_address: device.bus_address.clone(),
            vendor: hexadecimal(device.vendor),
            model: hexadecimal(device.model),
            package: device.package,
            numa_node: device.memory,
            plane: None,
        }
    }
}

/// `PMIX_DEVTYPE_*`.
const KINDS: [(u64, &str); 7] = [
    (1, "block"),
    (2, "gpu"),
    (4, "network"),
    (8, "openfabrics"),
    (0x10, "dma"),
    (0x20, "coprocessor"),
    (0x40, "memory"),
];
