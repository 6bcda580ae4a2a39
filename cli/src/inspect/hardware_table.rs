//! Topologies and inventories for people.

use super::hardware::{DeviceReport, HardwareReport, InventoryReport, ObjectReport};
use super::table::{Page, SIZE, nothing, size};

impl Page {
    pub(super) fn hardware(&mut self, hardware: &HardwareReport) {
        self.inventory(&hardware.totals);
        let Some(objects) = &hardware.objects else { return };
        let headings = [("part", false), ("number", true), ("os", true), ("processors", false), SIZE, ("name", false)];
        self.table("Parts", &headings, objects.iter().map(object));
    }

    pub(super) fn inventory(&mut self, inventory: &InventoryReport) {
        let InventoryReport { node, model, packages, cores, processors, memory, .. } = inventory;
        let bytes = memory.iter().fold(0_u64, |sum, memory| sum.saturating_add(memory.bytes));
        let facts = [
            ("node", node.clone().unwrap_or_default()),
            ("processor", model.clone()),
            ("packages", packages.to_string()),
            ("cores", cores.to_string()),
            ("processors", processors.to_string()),
            ("memory", format!("{}, {} NUMA nodes", size(bytes), memory.len())),
        ];
        let known = facts.into_iter().filter(|(_, fact)| !fact.is_empty());
        self.table("", &[("hardware", false), ("", false)], known.map(|(name, fact)| vec![name.to_owned(), fact]));
        let caches = inventory.caches.iter();
        let caches = caches.map(|c| vec![format!("L{}", c.level), c.count.to_string(), c.bytes.to_string()]);
        self.table("Caches", &[("level", false), ("count", true), SIZE], caches);
        let headings = [
            ("kind", false),
            ("name", false),
            ("identity", false),
            ("bus", false),
            ("vendor:model", false),
            ("package", true),
            ("NUMA", true),
        ];
        self.table("Devices", &headings, inventory.devices.iter().map(device));
    }
}

fn device(device: &DeviceReport) -> Vec<String> {
    let number = |number: Option<u32>| number.map_or_else(nothing, |number| number.to_string());
    let numbers = match (&device.vendor, &device.model) {
        (Some(vendor), Some(model)) => format!("{vendor}:{model}"),
        _ => nothing(),
    };
    vec![
        device.kinds.join(","),
        device.name.clone(),
        device.uuid.clone(),
        device.bus_address.clone(),
        numbers,
        number(device.package),
        number(device.numa_node),
    ]
}

fn object(object: &ObjectReport) -> Vec<String> {
    vec![
        format!("{}{}", "  ".repeat(object.level), object.kind),
        object.number.to_string(),
        object.os_number.map_or_else(nothing, |number| number.to_string()),
        object.processors.clone().unwrap_or_default(),
        object.size_bytes.map_or_else(nothing, |bytes| bytes.to_string()),
        object.name.clone(),
    ]
}
