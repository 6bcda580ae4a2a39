//! Topologies and inventories for people.

use modex::stderr_log::printable;

use super::hardware::{ClusterReport, DeviceReport, HardwareReport, InventoryReport, ObjectReport};
use super::table::{Page, SIZE, counted, nothing, size};

impl Page {
    pub(super) fn hardware(&mut self, hardware: &HardwareReport) {
        self.inventory(&hardware.totals);
        let Some(objects) = &hardware.objects else { return };
        let headings = [("part", false), ("number", true), ("os", true), ("processors", false), SIZE, ("name", false)];
        self.table("Parts", &headings, objects.iter().map(object));
    }

    /// The nodes of each server, and their devices.
    pub(super) fn clusters(&mut self, clusters: &[ClusterReport]) {
        for ClusterReport { pid, server, nodes } in clusters {
            let process = pid.map_or_else(String::new, |pid| format!(", process {pid}"));
            let known = match u32::try_from(nodes.len()).unwrap_or(u32::MAX) {
                0 => "knows no inventory".to_owned(),
                count => counted(count, "node"),
            };
            let separator = if self.text.is_empty() { "" } else { "\n" };
            self.text.push_str(&format!("{separator}server {}{process}: {known}\n", printable(server)));
            let headings = [
                ("node", false),
                ("packages", true),
                ("cores", true),
                ("processors", true),
                ("memory", true),
                ("devices", true),
                ("processor", false),
            ];
            self.table("Nodes", &headings, nodes.iter().map(node));
            let headings = [("node", false), ("kind", false), ("name", false), ("plane", false), ("identity", false)];
            let devices = nodes.iter().flat_map(|node| node.devices.iter().map(move |device| (node, device)));
            let row = |(node, device): (&InventoryReport, &DeviceReport)| {
                let plane = device.plane.clone().unwrap_or_else(nothing);
                let node = node.node.clone().unwrap_or_default();
                vec![node, device.kinds.join(","), device.name.clone(), plane, device.uuid.clone()]
            };
            self.table("Devices", &headings, devices.map(row));
        }
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

/// A node's row. The hardware of a node that only the fabric knows is unknown.
fn node(node: &InventoryReport) -> Vec<String> {
    let InventoryReport { node, model, packages, cores, processors, memory, devices, .. } = node;
    let bytes = memory.iter().fold(0_u64, |sum, memory| sum.saturating_add(memory.bytes));
    let count = |count: u32| if count == 0 { nothing() } else { count.to_string() };
    vec![
        node.clone().unwrap_or_default(),
        count(*packages),
        count(*cores),
        count(*processors),
        if bytes == 0 { nothing() } else { size(bytes) },
        devices.len().to_string(),
        model.clone(),
    ]
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
