use std::sync::Arc;

use super::provider::{Fault, Provider, ProviderError, number, u32_of};
use crate::fabric::{DEVICES_MAX, DeviceDescription, FabricDescription, Links, PlaneDescription};

/// The invented fabric of the PMIx tutorial: `nodes:5;plane:d:3` has 5 nodes and a plane of 3 switches in a ring.
///
/// Each node has as many devices in a plane as the plane has switches, so each switch has a port for each node. Devices
/// are numbered node by node. In a dense plane (`d`, or no letter) they fill one switch after the other. In a sparse
/// plane (`s`) they go to the switches in turn.
#[derive(Debug, Clone, Copy, Default)]
pub struct TestFabric;

const VENDOR: &str = "TEST";
const IDENTIFIER: &str = "TEST-1";
const NODES_MAX: u32 = 100_000;
const SWITCHES_MAX: u32 = 10_000;

impl Provider for TestFabric {
    fn describe(&self, text: &str) -> Result<FabricDescription, ProviderError> {
        let mut nodes = None;
        let mut planes = Vec::new();
        for (place, entry) in text.split(';').enumerate() {
            let fault = |fault| ProviderError::Part { unit: "entry", number: place + 1, fault };
            match entry.trim().split_once(':') {
                Some(("nodes", count)) if nodes.is_none() => {
                    nodes = Some(number(count, 1, NODES_MAX).map_err(fault)?);
                }
                Some(("plane", kind)) => planes.push(plane_of(kind).map_err(fault)?),
                _ => return Err(fault(Fault::form(entry))),
            }
        }
        let missing = Fault::Missing { key: "nodes" };
        let nodes = nodes.ok_or(ProviderError::Part { unit: "entry", number: 1, fault: missing })?;
        let per_node = planes.iter().map(|&(_, switches)| u64::from(switches)).sum::<u64>();
        if u64::from(nodes) * per_node > DEVICES_MAX as u64 {
            let max = u32_of(DEVICES_MAX) / nodes;
            let fault = Fault::Number { text: per_node.to_string(), min: 1, max };
            return Err(ProviderError::Part { unit: "entry", number: 1, fault });
        }
        let mut first = 0;
        let described = planes.into_iter().enumerate().map(|(place, (is_dense, switches))| {
            let plane = plane(&format!("plane{place:03}"), nodes, first, is_dense, switches);
            first += switches;
            plane
        });
        Ok(FabricDescription { identifier: IDENTIFIER.to_owned(), planes: described.collect() })
    }
}

/// Whether a plane is dense, and its number of switches.
fn plane_of(kind: &str) -> Result<(bool, u32), Fault> {
    let (letter, count) = kind.split_once(':').unwrap_or(("d", kind));
    let is_dense = match letter {
        "d" | "D" => true,
        "s" | "S" => false,
        _ => return Err(Fault::form(kind)),
    };
    Ok((is_dense, number(count, 1, SWITCHES_MAX)?))
}

/// A plane. `first` is the number of the first device in each node.
fn plane(name: &str, nodes: u32, first: u32, is_dense: bool, switches: u32) -> PlaneDescription {
    let vendor: Arc<str> = VENDOR.into();
    let device = |index: u32| {
        let (node, device) = (index / switches, first + index % switches);
        let node = format!("test{node:03}");
        DeviceDescription {
            name: format!("{node}:nic{device:03}"),
            node,
            vendor: Arc::clone(&vendor),
            address: None,
            switch: if is_dense { index / nodes } else { index % switches },
        }
    };
    PlaneDescription {
        name: name.to_owned(),
        vendor: VENDOR.to_owned(),
        switches: (0..switches).map(|switch| format!("{name}:switch{switch:03}")).collect(),
        links: Links::Torus(vec![switches]),
        devices: (0..nodes * switches).map(device).collect(),
    }
}
