//! From a topology to an inventory.

use std::collections::BTreeMap;

use super::{Caches, Device, Inventory, NumaMemory};
use crate::topo::kind::Kind;
use crate::topo::machine::{Machine, identity};
use crate::topo::rows::Object;
use crate::topo::{NAME_BYTES_MAX, is_name_in_lists};

impl Inventory {
    /// The inventory of a topology, for a node of this name. Devices with odd names are left out: those that are empty
    /// or longer than 255 bytes, or have a space, `,`, `;`, `/` or control character. A fabric would refuse the
    /// inventories of all nodes for one of them.
    #[must_use]
    pub fn of(node: &str, machine: &Machine) -> Self {
        let count = |kind| u32::try_from(machine.of_kind(kind).count()).unwrap_or(u32::MAX);
        let model = machine.objects().find_map(|object| object.remark("CPUModel")).unwrap_or_default();
        let memory = machine.of_kind(Kind::NumaNode).map(|node| NumaMemory {
            number: node.os_index().unwrap_or(node.logical_index()),
            bytes: node.size_bytes(),
        });
        let is_named = |device: &Object<'_>| is_name_in_lists(device.name());
        let (named, odd): (Vec<_>, Vec<_>) = machine.of_kind(Kind::OsDevice).partition(is_named);
        if let Some(device) = odd.first() {
            let name: String = device.name().chars().take(NAME_BYTES_MAX / 4).collect();
            tracing::warn!(
                ?name,
                count = odd.len(),
                "devices are left out of the inventory: no list can hold such a name"
            );
        }
        Self {
            node: node.to_owned(),
            model: model.to_owned(),
            packages: count(Kind::Package),
            cores: count(Kind::Core),
            processors: count(Kind::Processor),
            memory: memory.collect(),
            caches: caches(machine),
            devices: named.iter().map(describe).collect(),
        }
    }
}

fn caches(machine: &Machine) -> Vec<Caches> {
    let mut counts = BTreeMap::<(u8, u64), u32>::new();
    for object in machine.objects() {
        if let Some(level) = object.kind().cache_level() {
            let count = counts.entry((level, object.size_bytes())).or_default();
            *count = count.saturating_add(1);
        }
    }
    counts.into_iter().map(|((level, bytes), count)| Caches { level, count, bytes }).collect()
}

fn describe(device: &Object<'_>) -> Device {
    let above = |kind: Kind| device.ancestors().find(move |object| object.kind() == kind);
    let pci = above(Kind::PciDevice);
    let numbers = pci.as_ref().and_then(Object::pci_numbers);
    Device {
        device_types: device.device_types(),
        name: device.name().to_owned(),
        uuid: identity(device),
        subtype: device.subtype().to_owned(),
        bus_address: pci.and_then(|pci| pci.remark(crate::topo::digest::PCI_ADDRESS)).unwrap_or_default().to_owned(),
        vendor: numbers.map(|[_, vendor, ..]| vendor),
        model: numbers.map(|[_, _, model, _]| model),
        package: above(Kind::Package).map(|package| package.logical_index()),
        memory: nearest_memory(device),
    }
}

/// The NUMA node in the smallest part around a device that has any; `None` if that part has several.
fn nearest_memory(device: &Object<'_>) -> Option<u32> {
    device.ancestors().find_map(|place| {
        let mut nodes = place.parts().filter(|part| part.kind() == Kind::NumaNode);
        let first = nodes.next()?;
        Some(nodes.next().is_none().then(|| first.os_index()).flatten())
    })?
}
