//! Values of the fabric and of inventories on their way to a process. They share the data until the thread that sends
//! them writes them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::fabric::{CostRequest, FabricHandle, FabricList};
use crate::keys::{self, TypedKey};
use crate::proto::{RankData, Reply};
use crate::topo::inventory::{Device, Inventories, Inventory, StoredInventory};
use crate::types::{DataArray, DataType, Info, Key, Kval, ProcId, Value, footprint};

/// A value of the fabric or of inventories.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum HardwareValue {
    /// A value that is written already.
    Short(Value),
    /// A list of the fabric.
    List(FabricHandle, FabricList),
    /// Costs of the fabric.
    Costs(FabricHandle, CostRequest),
    /// The blob of a node.
    Blob(Arc<StoredInventory>),
    /// The blobs of all nodes.
    Blobs(AllNodes),
    /// The network devices in inventories: of a node, or of all.
    Devices(Arc<Inventories>, Option<String>),
}

/// The inventories of all nodes. A delivered one comes before the own one, and that before the fabric's.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AllNodes {
    pub(in crate::server) delivered: Arc<Inventories>,
    pub(in crate::server) own: Option<Arc<StoredInventory>>,
    pub(in crate::server) of_fabric: Option<FabricHandle>,
}

impl HardwareValue {
    /// Size as a value, in bytes: for devices of a fabric and lists of devices an estimate. A node with two inventories
    /// counts twice.
    pub(in crate::server) fn value_bytes(&self) -> Option<usize> {
        let of_devices = |count: usize| Some(count.saturating_mul(DEVICE_BYTES));
        match self {
            Self::Short(value) => footprint(value),
            Self::List(_, list) => of_devices(list.entry_count),
            Self::Costs(_, request @ CostRequest::Block { .. }) => Some(request.cost_count()? * size_of::<Value>()),
            Self::Costs(_, request @ CostRequest::Nearest { .. }) => of_devices(request.cost_count()?),
            Self::Blob(stored) => Some(size_of::<Value>().saturating_add(stored.blob().len())),
            Self::Blobs(AllNodes { delivered, own, of_fabric }) => {
                let own = own.as_ref().map_or(0, |own| size_of::<Value>() + own.blob().len());
                let of_fabric = of_fabric.as_ref().map_or(0, |fabric| fabric.device_count() * ENCODED_DEVICE_BYTES);
                Some(own + delivered.size_bytes() + delivered.len() * size_of::<Value>() + of_fabric)
            }
            Self::Devices(inventories, Some(node)) => of_devices(inventories.of(node)?.networks().count()),
            Self::Devices(inventories, None) => of_devices(inventories.network_count()),
        }
    }

    /// The value. This may take long.
    pub(super) fn into_value(self) -> Value {
        match self {
            Self::Short(value) => value,
            Self::List(fabric, list) => fabric.write(&list),
            Self::Costs(fabric, request) => fabric.costs(&request),
            Self::Blob(stored) => blob(&stored),
            Self::Blobs(all) => all.into_value(),
            Self::Devices(inventories, Some(node)) => list(inventories.of(&node).into_iter()),
            Self::Devices(inventories, None) => list(inventories.iter()),
        }
    }
}

/// A value of the fabric or of inventories as the answer to a Get.
#[derive(Clone, Debug, PartialEq)]
pub struct HardwareAnswer {
    pub(in crate::server) proc: ProcId,
    pub(in crate::server) key: Key,
    pub(in crate::server) value: HardwareValue,
}

impl HardwareAnswer {
    /// Size of the value in bytes. For a list of devices it is an estimate.
    #[must_use]
    pub fn value_bytes(&self) -> usize {
        self.value.value_bytes().unwrap_or(usize::MAX)
    }

    /// The reply. To write a list may take long.
    #[must_use]
    pub fn into_reply(self) -> Reply {
        let proc = self.proc.clone();
        Reply::Data(vec![RankData { proc, entries: self.into_entries() }])
    }

    pub(super) fn into_entries(self) -> Vec<Kval> {
        vec![Kval { key: self.key, value: self.value.into_value() }]
    }
}

impl AllNodes {
    fn into_value(self) -> Value {
        let Self { delivered, own, of_fabric } = &self;
        let of_fabric = of_fabric.iter().flat_map(|fabric| fabric.inventories().blobs());
        let all = of_fabric.chain(own.as_deref()).chain(delivered.blobs());
        let by_node: BTreeMap<&str, _> = all.map(|stored| (stored.inventory().node.as_str(), stored)).collect();
        let elements = by_node.into_values().map(blob).collect();
        Value::DataArray(Box::new(DataArray { element_type: DataType::ByteObject, elements }))
    }
}

fn blob(stored: &StoredInventory) -> Value {
    Value::ByteObject(stored.blob().to_vec())
}

fn list<'i>(inventories: impl Iterator<Item = &'i Inventory>) -> Value {
    let devices = inventories.flat_map(|inventory| inventory.networks().map(|device| (&*inventory.node, device)));
    let key = Key::from_static(keys::FABRIC_DEVICE.name());
    Value::info_array(devices.map(|(node, device)| Info::new(key.clone(), described(node, device))).collect())
}

/// A device in the standard's form.
pub(in crate::server) fn described(node: &str, device: &Device) -> Value {
    Value::info_array(facts(node, device))
}

/// The identity of a device, then the known details.
pub(in crate::server) fn facts(node: &str, device: &Device) -> Vec<Info> {
    let text = |key: TypedKey<str>, value: &str| Info::new(Key::from_static(key.name()), value);
    let mut infos = vec![
        text(keys::DEVICE_ID, &device.uuid),
        text(keys::HOSTNAME, node),
        text(keys::FABRIC_DEVICE_NAME, &device.name),
    ];
    if let Some(vendor) = device.vendor {
        infos.push(text(keys::FABRIC_DEVICE_VENDORID, &format!("0x{vendor:04x}")));
    }
    if !device.bus_address.is_empty() {
        infos.push(text(keys::FABRIC_DEVICE_BUS_TYPE, "PCI"));
        infos.push(text(keys::FABRIC_DEVICE_PCI_DEVID, &device.bus_address));
    }
    infos.push(Info::new(Key::from_static(keys::DEVICE_TYPE.name()), Value::DeviceType(device.device_types)));
    infos
}

/// Approximate memory of a device in a list: ten infos.
const DEVICE_BYTES: usize = 2 << 10;
/// Approximate memory of a device of a fabric in the blob of its node.
const ENCODED_DEVICE_BYTES: usize = 512;
