//! The fabric of a machine: its planes and devices, what communication costs, and the forms in which it is described.
//!
//! [`crate::ServerBuilder::fabric`] makes a server answer for one. A site with a form of its own implements
//! [`Provider`].

pub use crate::fabric::providers::{
    Fault, IbNetDiscover, Provider, ProviderError, SlurmTopology, SlurmYaml, SysListing, TestFabric,
};
pub use crate::fabric::{
    Device, DeviceDescription, Fabric, FabricDescription, FabricError, FabricHandle, Links, Plane, PlaneDescription,
    UNREACHABLE,
};
