//! The devices and switches of a plane, and the queries about them.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use super::description::{DeviceDescription, Links, PlaneDescription};
use super::error::FabricError;
use super::groups::Groups;
use super::structure::Structure;
pub use crate::topo::NAME_BYTES_MAX;
use crate::topo::{is_name, is_name_in_lists};

/// The cost of two devices without a path between them.
pub const UNREACHABLE: u16 = u16::MAX;

/// Devices of a plane.
pub const DEVICES_MAX: usize = 1 << 20;

/// Switches of a plane.
pub const SWITCHES_MAX: usize = 1 << 18;

/// Cells of one block of costs: 8 MiB.
pub const BLOCK_CELLS_MAX: usize = 1 << 22;

/// A plane of a fabric, checked. Its devices and switches have numbers from 0.
#[derive(Debug, PartialEq, Eq)]
pub struct Plane {
    name: String,
    vendor: String,
    switches: Vec<Box<str>>,
    structure: Structure,
    nodes: Vec<Box<str>>,
    devices: Vec<StoredDevice>,
    by_switch: Groups,
    by_node: Groups,
    /// The devices with an id in inventories, in the order of these ids and of their names.
    by_id: Vec<u32>,
}

/// A device of a plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Device<'p> {
    /// The number of its row and column in the matrix of costs.
    pub index: u32,
    /// Its node.
    pub node: &'p str,
    /// Its name in the operating system.
    pub name: &'p str,
    /// Its maker.
    pub vendor: &'p str,
    /// Its id in inventories and distances, if it is known.
    pub id: Option<&'p str>,
    /// Its link-level address.
    pub address: Option<&'p str>,
    /// Its place on the PCI bus.
    pub bus_address: Option<&'p str>,
    /// The switch it is at.
    pub switch: &'p str,
}

#[derive(Debug, PartialEq, Eq)]
struct StoredDevice {
    name: Box<str>,
    vendor: Arc<str>,
    id: Option<Box<str>>,
    address: Option<Box<str>>,
    bus_address: Option<Box<str>>,
    node: u32,
    switch: u32,
    port: Option<u32>,
}

impl Plane {
    /// Checks a description.
    pub(super) fn new(description: PlaneDescription) -> Result<Self, FabricError> {
        check_sizes_and_names(&description)?;
        let PlaneDescription { name, vendor, switches, links, devices } = description;
        let switches: Vec<Box<str>> = switches.into_iter().map(String::into_boxed_str).collect();
        let mut sorted: Vec<&Box<str>> = switches.iter().collect();
        sorted.sort_unstable();
        if let Some([switch, _]) = sorted.array_windows().find(|[one, other]| one == other) {
            return Err(FabricError::TwoSwitches { plane: name, switch: switch.to_string() });
        }
        let mut with_devices: Vec<u32> = devices.iter().map(|device| device.switch).collect();
        with_devices.sort_unstable();
        with_devices.dedup();
        let structure = Structure::new(links, &name, &switches, &with_devices)?;
        let mut nodes: Vec<&str> = devices.iter().map(|device| device.node.as_str()).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let nodes: Vec<Box<str>> = nodes.into_iter().map(Box::from).collect();
        let stored = |device: DeviceDescription| {
            let node = nodes.binary_search_by(|node| (**node).cmp(&device.node)).unwrap_or_default();
            let DeviceDescription { name, vendor, id, address, bus_address, switch, port, .. } = device;
            let [id, address, bus_address] = [id, address, bus_address].map(|text| text.map(String::into_boxed_str));
            let node = u32::try_from(node).unwrap_or(u32::MAX);
            StoredDevice { name: name.into(), vendor, id, address, bus_address, node, switch, port }
        };
        let devices: Vec<StoredDevice> = devices.into_iter().map(stored).collect();
        let numbered = || (0..).zip(&devices);
        let by_switch = Groups::new(switches.len(), numbered().map(|(index, device)| (device.switch, index)));
        let by_node = Groups::new(nodes.len(), numbered().map(|(index, device)| (device.node, index)));
        let mut by_id: Vec<(&str, &str, u32)> =
            numbered().filter_map(|(index, device)| Some((device.id.as_deref()?, &*device.name, index))).collect();
        by_id.sort_unstable();
        let by_id = by_id.into_iter().map(|(.., index)| index).collect();
        Ok(Self { name, vendor, switches, structure, nodes, devices, by_switch, by_node, by_id })
    }

    /// The devices of some nodes, all at one switch; `None` without any.
    pub(super) fn part(&self, nodes: &BTreeSet<&str>) -> Option<PlaneDescription> {
        let described = |Device { node, name, vendor, id, .. }: Device<'_>| DeviceDescription {
            node: node.to_owned(),
            name: name.to_owned(),
            vendor: vendor.into(),
            id: id.map(str::to_owned),
            ..DeviceDescription::default()
        };
        let devices: Vec<_> = nodes.iter().flat_map(|node| self.devices_of_node(node)).map(described).collect();
        let (name, vendor) = (self.name.clone(), self.vendor.clone());
        let (switches, links) = (vec![name.clone()], Links::Tree(vec![None]));
        (!devices.is_empty()).then_some(PlaneDescription { name, vendor, switches, links, devices })
    }

    /// `PMIX_FABRIC_PLANE`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `PMIX_FABRIC_VENDOR`.
    #[must_use]
    pub fn vendor(&self) -> &str {
        &self.vendor
    }

    /// The names of the switches, by number.
    pub fn switches(&self) -> impl ExactSizeIterator<Item = &str> {
        self.switches.iter().map(|switch| &**switch)
    }

    /// The number of devices.
    #[must_use]
    pub fn device_count(&self) -> usize {
        self.devices.len()
    }

    /// A device by its number.
    #[must_use]
    pub fn device(&self, index: u32) -> Option<Device<'_>> {
        let StoredDevice { name, vendor, id, address, bus_address, node, switch, .. } =
            self.devices.get(index as usize)?;
        let (node, switch) = (self.nodes.get(*node as usize)?, self.switches.get(*switch as usize)?);
        let [id, address, bus_address] = [id, address, bus_address].map(|text| text.as_deref());
        Some(Device { index, node, name, vendor, id, address, bus_address, switch })
    }

    /// The names of the nodes with devices, sorted.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = &str> {
        self.nodes.iter().map(|node| &**node)
    }

    /// The devices of a node, by number.
    pub fn devices_of_node(&self, node: &str) -> impl Iterator<Item = Device<'_>> {
        let node = self.nodes.binary_search_by(|other| (**other).cmp(node)).ok();
        let devices = node.and_then(|node| u32::try_from(node).ok()).map(|node| self.by_node.of(node));
        devices.unwrap_or_default().iter().filter_map(|&index| self.device(index))
    }

    /// A device by its node and name.
    #[must_use]
    pub fn device_by_name(&self, node: &str, name: &str) -> Option<Device<'_>> {
        self.devices_of_node(node).find(|device| device.name == name)
    }

    /// The devices with an id in inventories and a name, if one is given. An interface without an address has its name
    /// as its id, on each node.
    pub(super) fn devices_by_id(&self, id: &str, name: Option<&str>) -> impl Iterator<Item = Device<'_>> {
        let identity = |index: &u32| {
            let device = self.devices.get(*index as usize);
            device.map(|device| (device.id.as_deref(), &*device.name))
        };
        let first = self.by_id.partition_point(|index| identity(index) < Some((Some(id), name.unwrap_or_default())));
        let found = self.by_id.get(first..).unwrap_or_default().iter().filter_map(|&index| self.device(index));
        found.take_while(move |device| device.id == Some(id) && name.is_none_or(|name| name == device.name))
    }

    /// The devices at the switch of a device, with itself, by number.
    pub fn switch_peers(&self, index: u32) -> impl Iterator<Item = Device<'_>> {
        let peers = self.switch_of(index).map(|switch| self.by_switch.of(switch));
        peers.unwrap_or_default().iter().filter_map(|&index| self.device(index))
    }

    /// The coordinates of a device: those of its switch, and its place there. All devices have as many.
    #[must_use]
    pub fn coordinates(&self, index: u32) -> Option<Vec<u32>> {
        let switch = self.switch_of(index)?;
        let place = self.by_switch.of(switch).binary_search(&index).ok()?;
        let mut coordinates = self.structure.coordinates(switch);
        coordinates.push(u32::try_from(place).ok()?);
        Some(coordinates)
    }

    /// The end of a device's cable: the number of the switch, and that of its port. `None` if the description lacks the
    /// port.
    #[must_use]
    pub fn port(&self, index: u32) -> Option<(u32, u32)> {
        let device = self.devices.get(index as usize)?;
        Some((device.switch, device.port?))
    }

    /// The size of each dimension of the coordinates. Groups and switches of different sizes count with the largest
    /// one.
    #[must_use]
    pub fn shape(&self) -> Vec<u32> {
        let mut shape = self.structure.shape(self.switches.len());
        shape.push(self.by_switch.longest());
        shape
    }

    /// The number of links between two devices; [`UNREACHABLE`] without a path, and `None` if a device does not exist.
    #[must_use]
    pub fn cost(&self, one: u32, other: u32) -> Option<u16> {
        let (from, to) = (self.switch_of(one)?, self.switch_of(other)?);
        let with_links_of_devices = |hops: u16| hops.saturating_add(2);
        Some(if one == other { 0 } else { self.structure.hops(from, to).map_or(UNREACHABLE, with_links_of_devices) })
    }

    /// The costs of each row with each column, row by row. `None` if a device does not exist, or for more than
    /// [`BLOCK_CELLS_MAX`] cells.
    #[must_use]
    pub fn block(&self, rows: Range<u32>, columns: Range<u32>) -> Option<Vec<u16>> {
        let cells = rows.len().checked_mul(columns.len()).filter(|&cells| cells <= BLOCK_CELLS_MAX)?;
        let mut costs = Vec::with_capacity(cells);
        for row in rows {
            for column in columns.clone() {
                costs.push(self.cost(row, column)?);
            }
        }
        Some(costs)
    }

    /// The `count` cheapest other devices with their costs: the cheapest first, and equal ones by number. Devices
    /// without a path are not among them. `None` if the device does not exist.
    #[must_use]
    pub fn nearest(&self, index: u32, count: usize) -> Option<Vec<(u32, u16)>> {
        let switch = self.switch_of(index)?;
        let mut found = Vec::with_capacity(count.min(self.devices.len()));
        let costs = (0_u64..).map(|hops| u16::try_from(hops + 2).unwrap_or(UNREACHABLE));
        for (cost, layer) in costs.zip(self.structure.walk(switch, self.switches.len())) {
            let missing = count - found.len();
            if missing == 0 {
                break;
            }
            let mut devices: Vec<u32> = layer
                .iter()
                .flat_map(|&switch| self.by_switch.of(switch))
                .copied()
                .filter(|&device| device != index)
                .collect();
            if missing < devices.len() {
                devices.select_nth_unstable(missing);
                devices.truncate(missing);
            }
            devices.sort_unstable();
            found.extend(devices.into_iter().map(|device| (device, cost)));
        }
        Some(found)
    }

    /// `PMIX_FABRIC_GROUPS`: the nodes of each group of a dragonfly, or of each switch with devices, as
    /// `0:nodeA,nodeB;1:nodeC`.
    #[must_use]
    pub fn groups(&self) -> String {
        let group = |device: &StoredDevice| (self.structure.group_of(device.switch), device.node);
        let mut members: Vec<(u32, u32)> = self.devices.iter().map(group).collect();
        members.sort_unstable();
        members.dedup();
        let mut text = String::new();
        for (number, group) in members.chunk_by(|one, other| one.0 == other.0).enumerate() {
            let separator = if number == 0 { "" } else { ";" };
            text += &format!("{separator}{number}:");
            for (place, (_, node)) in group.iter().enumerate() {
                text += if place == 0 { "" } else { "," };
                text += self.nodes.get(*node as usize).map_or("", |node| node);
            }
        }
        text
    }

    /// Each node and name, for the check of the whole fabric.
    pub(super) fn device_names(&self) -> impl Iterator<Item = (&str, &str)> {
        let node = |device: &StoredDevice| self.nodes.get(device.node as usize).map_or("", |node| node);
        self.devices.iter().map(move |device| (node(device), &*device.name))
    }

    fn switch_of(&self, index: u32) -> Option<u32> {
        self.devices.get(index as usize).map(|device| device.switch)
    }
}

fn check_sizes_and_names(plane: &PlaneDescription) -> Result<(), FabricError> {
    let PlaneDescription { name: plane, vendor, switches, links: _, devices } = plane;
    let too_many = |what, count, max| FabricError::TooMany { plane: plane.clone(), what, count, max };
    if devices.is_empty() {
        return Err(FabricError::NoDevices { plane: plane.clone() });
    }
    if devices.len() > DEVICES_MAX {
        return Err(too_many("devices", devices.len(), DEVICES_MAX));
    }
    if switches.len() > SWITCHES_MAX {
        return Err(too_many("switches", switches.len(), SWITCHES_MAX));
    }
    let shown = |text: &str| text.chars().take(NAME_BYTES_MAX / 4).collect::<String>();
    let names = [plane.as_str(), vendor.as_str()].into_iter().chain(switches.iter().map(String::as_str));
    if let Some(name) = names.into_iter().find(|name| !is_name(name)) {
        return Err(FabricError::Name { plane: shown(plane), name: shown(name), max: NAME_BYTES_MAX });
    }
    if let Some(device) = devices.iter().find(|device| !is_sound(device)) {
        let (node, device) = (shown(&device.node), shown(&device.name));
        return Err(FabricError::Device { plane: plane.clone(), node, device, max: NAME_BYTES_MAX });
    }
    match devices.iter().find(|device| device.switch as usize >= switches.len()) {
        None => Ok(()),
        Some(device) => Err(FabricError::DeviceAtNoSwitch {
            plane: plane.clone(),
            node: device.node.clone(),
            device: device.name.clone(),
            switch: device.switch,
            count: switches.len(),
        }),
    }
}

/// Whether a device can be in a fabric.
pub(crate) fn is_sound(device: &DeviceDescription) -> bool {
    let DeviceDescription { node, name, vendor, id, address, bus_address, .. } = device;
    is_name_in_lists(node)
        && is_name_in_lists(name)
        && is_name(vendor)
        && [id, address, bus_address].into_iter().flatten().all(|text| is_name(text))
}
