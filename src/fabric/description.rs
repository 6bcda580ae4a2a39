use std::sync::Arc;

/// A fabric as a provider describes it. [`super::Fabric::new`] checks it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FabricDescription {
    /// `PMIX_FABRIC_IDENTIFIER`.
    pub identifier: String,
    /// The planes. The first one is the default.
    pub planes: Vec<PlaneDescription>,
}

/// A part of a fabric whose devices reach each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaneDescription {
    /// `PMIX_FABRIC_PLANE`; unique in the fabric.
    pub name: String,
    /// `PMIX_FABRIC_VENDOR`.
    pub vendor: String,
    /// The names of the switches; unique in the plane. A switch's number is its place in this list.
    pub switches: Vec<String>,
    /// The links between the switches.
    pub links: Links,
    /// The devices. A device's number, `PMIX_FABRIC_DEVICE_INDEX`, is its place in this list.
    pub devices: Vec<DeviceDescription>,
}

/// A device of a node. One link connects it with a switch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceDescription {
    /// The node's name.
    pub node: String,
    /// The name of the device in the operating system; unique in the node.
    pub name: String,
    /// The maker of the device. Devices of one maker share the text.
    pub vendor: Arc<str>,
    /// `PMIX_DEVICE_ID` in inventories and distances, if the description has it. Otherwise node and name make an id.
    pub id: Option<String>,
    /// The link-level address.
    pub address: Option<String>,
    /// The place on the PCI bus.
    pub bus_address: Option<String>,
    /// The number of the switch.
    pub switch: u32,
    /// The number of the switch's port that the cable is in, if the description has it.
    pub port: Option<u32>,
}

/// The links between the switches of a plane. Each of them costs 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Links {
    /// The switch above each switch. Several trees have no path between them.
    Tree(Vec<Option<u32>>),
    /// The sizes of the groups. Switches of a group follow each other. Each one has a link to all others of its group.
    /// Each pair of groups has one link. The links of a group go to the other groups in turn, from its switches in
    /// turn.
    Dragonfly(Vec<u32>),
    /// The size of each dimension. The last coordinate of a switch changes fastest with its number. Each dimension is a
    /// ring, so one dimension is a ring of switches.
    Torus(Vec<u32>),
    /// Pairs of switches, in any order and direction.
    Irregular(Vec<(u32, u32)>),
}
