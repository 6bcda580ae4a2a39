//! The nodes' hardware, as a fabric describes it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::attributes::id;
use super::description::FabricDescription;
use super::plane::{Device, Plane};
use super::revisions::{Fabric, FabricHandle};
use crate::topo::inventory::{self, Inventories, Inventory};
use crate::types::codes::device_type::DEVTYPE_NETWORK;

impl Fabric {
    /// The names of all nodes.
    #[must_use]
    pub fn nodes(&self) -> BTreeSet<&str> {
        self.planes().iter().flat_map(Plane::nodes).collect()
    }

    /// The number of devices in all planes.
    #[must_use]
    pub fn device_count(&self) -> usize {
        self.planes().iter().map(Plane::device_count).sum()
    }

    /// The devices of a node, as an inventory without anything else. `None` if the fabric does not know the node.
    #[must_use]
    pub fn inventory_of(&self, node: &str) -> Option<Inventory> {
        let devices: Vec<_> =
            self.planes().iter().flat_map(|plane| plane.devices_of_node(node)).map(described).collect();
        (!devices.is_empty()).then(|| Inventory { node: node.to_owned(), devices, ..Inventory::default() })
    }
}

impl Fabric {
    /// The devices of some nodes, each plane's in their order, without the network between them.
    pub(crate) fn part(&self, nodes: &BTreeSet<&str>) -> Self {
        let planes = self.planes().iter().filter_map(|plane| plane.part(nodes)).collect();
        let identifier = self.identifier().to_owned();
        Self::new(FabricDescription { identifier, planes })
            .unwrap_or_else(|_| Self::unknown(self.identifier().to_owned()))
    }

    /// Whether a node has the same devices in the same planes of another fabric.
    pub(crate) fn has_same_devices(&self, other: &Self, node: &str) -> bool {
        fn devices<'f>(fabric: &'f Fabric, node: &str) -> impl Iterator<Item = [&'f str; 5]> {
            let of_plane = move |plane: &'f Plane| {
                let identity = |device: Device<'f>| (device.name, device.id.unwrap_or_default());
                let facts = move |(name, id)| [fabric.identifier(), plane.name(), plane.vendor(), name, id];
                plane.devices_of_node(node).map(identity).map(facts)
            };
            fabric.planes().iter().flat_map(of_plane)
        }
        devices(self, node).eq(devices(other, node))
    }
}

impl FabricHandle {
    /// The devices of all nodes, encoded once for each revision. It may take long. A node with too many for an
    /// inventory is left out.
    pub(crate) fn inventories(&self) -> &Arc<Inventories> {
        let encode = |fabric: &Fabric| {
            Inventories::of_nodes(fabric.nodes().into_iter().filter_map(|node| fabric.inventory_of(node)))
        };
        self.inventories_or(encode)
    }
}

/// The class of the device is unknown.
fn described(device: Device<'_>) -> inventory::Device {
    inventory::Device {
        device_types: DEVTYPE_NETWORK,
        name: device.name.to_owned(),
        uuid: id(device),
        bus_address: device.bus_address.unwrap_or_default().to_owned(),
        ..inventory::Device::default()
    }
}
