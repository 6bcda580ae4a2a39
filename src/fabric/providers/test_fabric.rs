use std::sync::Arc;

use super::hostlist::expand;
use super::provider::{Fault, Provider, ProviderError, number, u32_of};
use crate::fabric::{DEVICES_MAX, DeviceDescription, FabricDescription, Links, PlaneDescription};

/// The invented fabrics of the PMIx tutorial and of OpenPMIx 4.0. Switches of a plane are in a ring.
///
/// - `nodes:5;plane:d:3` has 5 nodes and a plane of 3 switches. Each node has one device in a plane, with the node's number. Each
///   switch has the same number of ports, as few as the nodes need.
/// - `wide:5;plane:d:3` has as many devices of a node in a plane as the plane has switches, so each switch has a port for each
///   node. Devices are numbered node by node.
/// - `names:a,b,c;plane:d:3:2` has the nodes with these names. Each node has one device in a plane. Each of the 3 switches
///   has 2 ports. Without a number a switch has 3. If all ports are taken, switches get one port more in turn.
///
/// In a dense plane (`d`, or no letter) devices fill one switch after the other. In a sparse plane (`s`) they go to the
/// switches in turn.
#[derive(Debug, Clone, Copy, Default)]
pub struct TestFabric;

const VENDOR: &str = "TEST";
const IDENTIFIER: &str = "TEST-1";
const NODES_MAX: u32 = 100_000;
const SWITCHES_MAX: u32 = 10_000;

/// Ports of a switch in a fabric of named nodes, unless the text has a number.
const PORTS: u32 = 3;

/// The nodes of a fabric.
enum Nodes {
    Count(u32),
    /// Nodes with a device for each switch.
    Wide(u32),
    Names(Vec<String>),
}

/// An entry of a plane.
struct Entry {
    is_dense: bool,
    switches: u32,
    /// The ports of each switch; only named nodes have them.
    ports: Option<u32>,
}

impl Provider for TestFabric {
    fn describe(&self, text: &str) -> Result<FabricDescription, ProviderError> {
        let mut nodes = None;
        let mut entries = Vec::new();
        for (place, entry) in text.split(';').enumerate() {
            let fault = |fault| ProviderError::Part { unit: "entry", number: place + 1, fault };
            match entry.trim().split_once(':') {
                Some(("nodes", count)) if nodes.is_none() => {
                    nodes = Some(Nodes::Count(number(count, 1, NODES_MAX).map_err(fault)?));
                }
                Some(("wide", count)) if nodes.is_none() => {
                    nodes = Some(Nodes::Wide(number(count, 1, NODES_MAX).map_err(fault)?));
                }
                Some(("names", names)) if nodes.is_none() => {
                    let names = expand(names, NODES_MAX as usize).map_err(|error| fault(error.into()))?;
                    nodes = Some(Nodes::Names(names));
                }
                Some(("plane", kind)) => entries.push((place + 1, entry_of(kind).map_err(fault)?)),
                _ => return Err(fault(Fault::form(entry))),
            }
        }
        let missing = Fault::Missing { key: "nodes" };
        let planes = match nodes.ok_or(ProviderError::Part { unit: "entry", number: 1, fault: missing })? {
            Nodes::Count(nodes) => counted_planes(nodes, false, entries)?,
            Nodes::Wide(nodes) => counted_planes(nodes, true, entries)?,
            Nodes::Names(nodes) => {
                let max = DEVICES_MAX / nodes.len().max(1);
                if let Some((number, _)) = entries.get(max) {
                    let fault = Fault::Number { text: entries.len().to_string(), min: 1, max: u32_of(max) };
                    return Err(ProviderError::Part { unit: "entry", number: *number, fault });
                }
                let named = |(place, (_, entry)): (usize, (usize, Entry))| named_plane(place, &nodes, &entry);
                entries.into_iter().enumerate().map(named).collect()
            }
        };
        Ok(FabricDescription { identifier: IDENTIFIER.to_owned(), planes })
    }
}

/// Reads `d:3`, `s:3`, `3`, or `d:3:4` with ports.
fn entry_of(kind: &str) -> Result<Entry, Fault> {
    let (letter, counts) = kind.split_once(':').unwrap_or(("d", kind));
    let is_dense = match letter {
        "d" | "D" => true,
        "s" | "S" => false,
        _ => return Err(Fault::form(kind)),
    };
    let (switches, ports) = counts.split_once(':').map_or((counts, None), |(switches, ports)| (switches, Some(ports)));
    let ports = ports.map(|ports| number(ports, 1, NODES_MAX)).transpose()?;
    Ok(Entry { is_dense, switches: number(switches, 1, SWITCHES_MAX)?, ports })
}

/// The planes of numbered nodes.
fn counted_planes(
    nodes: u32,
    is_wide: bool,
    entries: Vec<(usize, Entry)>,
) -> Result<Vec<PlaneDescription>, ProviderError> {
    let part = |number, fault| ProviderError::Part { unit: "entry", number, fault };
    let with_ports = entries.iter().find_map(|(place, entry)| Some((*place, entry.ports?)));
    if let Some((place, ports)) = with_ports {
        return Err(part(place, Fault::Ports { ports }));
    }
    let per_node = entries.iter().map(|(_, entry)| if is_wide { u64::from(entry.switches) } else { 1 }).sum::<u64>();
    if u64::from(nodes) * per_node > DEVICES_MAX as u64 {
        let max = u32_of(DEVICES_MAX) / nodes;
        return Err(part(1, Fault::Number { text: per_node.to_string(), min: 1, max }));
    }
    let mut first = 0;
    let planes = entries.into_iter().enumerate().map(|(place, (_, entry))| {
        let name = plane_name(place);
        if is_wide {
            let plane = wide_plane(&name, nodes, first, &entry);
            first += entry.switches;
            return plane;
        }
        let plane = counted_plane(name, nodes, first, &entry);
        first += nodes;
        plane
    });
    Ok(planes.collect())
}

/// A plane of named nodes.
fn named_plane(place: usize, nodes: &[String], entry: &Entry) -> PlaneDescription {
    let Entry { is_dense, switches, ports } = *entry;
    let (name, vendor) = (plane_name(place), Arc::<str>::from(VENDOR));
    let ports = ports.unwrap_or(PORTS);
    let device = |(index, node): (u32, &String)| DeviceDescription {
        node: node.clone(),
        name: format!("{node}:nic.{name}.0"),
        vendor: Arc::clone(&vendor),
        // Full switches get one more in turn.
        switch: if is_dense && index / ports < switches { index / ports } else { index % switches },
        ..DeviceDescription::default()
    };
    let devices = (0..).zip(nodes).map(device).collect();
    ring(name, switches, devices)
}

fn plane_name(place: usize) -> String {
    format!("plane{place:03}")
}

/// A plane whose switches are in a ring.
fn ring(name: String, switches: u32, devices: Vec<DeviceDescription>) -> PlaneDescription {
    PlaneDescription {
        vendor: VENDOR.to_owned(),
        switches: (0..switches).map(|switch| format!("{name}:switch{switch:03}")).collect(),
        links: Links::Torus(vec![switches]),
        devices,
        name,
    }
}

/// A plane with one device of each node. `first` is the number of that of the first node.
fn counted_plane(name: String, nodes: u32, first: u32, entry: &Entry) -> PlaneDescription {
    let (vendor, ports) = (Arc::<str>::from(VENDOR), nodes.div_ceil(entry.switches));
    let device = |index: u32| {
        let node = format!("test{index:03}");
        DeviceDescription {
            name: format!("{node}:nic{:03}", first + index),
            node,
            vendor: Arc::clone(&vendor),
            switch: if entry.is_dense { index / ports } else { index % entry.switches },
            ..DeviceDescription::default()
        }
    };
    ring(name, entry.switches, (0..nodes).map(device).collect())
}

/// A plane with a device of each node at each switch. `first` is the number of the first device in each node.
fn wide_plane(name: &str, nodes: u32, first: u32, &Entry { is_dense, switches, .. }: &Entry) -> PlaneDescription {
    let vendor: Arc<str> = VENDOR.into();
    let device = |index: u32| {
        let (node, device) = (index / switches, first + index % switches);
        let node = format!("test{node:03}");
        DeviceDescription {
            name: format!("{node}:nic{device:03}"),
            node,
            vendor: Arc::clone(&vendor),
            switch: if is_dense { index / nodes } else { index % switches },
            ..DeviceDescription::default()
        }
    };
    ring(name.to_owned(), switches, (0..nodes * switches).map(device).collect())
}
