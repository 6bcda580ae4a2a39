//! The fabric of a machine: planes of devices and switches, and what communication between two devices costs.
//!
//! ```text
//! text or inventories --> Provider --> FabricDescription --> Fabric: planes --> Plane: devices, switches, structure --> cost, block, nearest
//!                                               |
//!                                               +-- CurrentFabric: the newest revision, replaced whole by each update
//!                                               +-- FabricHandle: one revision, whole, while somebody holds it
//! ```
//!
//! The cost of two devices is the number of links between them. A structure computes it, so no matrix exists: a tree,
//! a dragonfly and a torus need no memory for pairs. An irregular network has a table of the switches with devices.
//!
//! Promises:
//! - A description becomes a [`Fabric`] as a whole, or an error names the plane, switch or device. Nothing is repaired.
//! - Costs are symmetric, and a device's cost to itself is 0. Devices without a path have the cost [`UNREACHABLE`].
//! - A query for the nearest devices stops at the distance where it has found enough.
//! - A handle never changes. [`FabricHandle::is_outdated`] tells that a later revision exists.
//!
//! | file | owns |
//! |---|---|
//! | `description` | a fabric as a provider describes it, without a check |
//! | `revisions` | all planes of a machine in one revision; the current revision and its handles |
//! | `plane` | the devices and switches of a plane, and the queries |
//! | `structure` | the distances of switches |
//! | `groups` | lists of numbers by number, without a vector for each |
//! | `nodes` | the nodes' devices as inventories; the part of a fabric for some nodes |
//! | `assignment` | the endpoints of a job's processes |
//! | `attributes` | a fabric in the standard's keys |
//! | `cost_request` | costs in this library's keys |
//! | `error` | reasons to refuse a description |
//! | `providers` | descriptions from texts of other programs |
//!
//! Source: PMIx Standard, "Fabric Support Definitions".
//!
//! ```
//! use modex::fabric::{DeviceDescription, Fabric, FabricDescription, Links, PlaneDescription};
//!
//! let device = |node: &str, switch| DeviceDescription {
//!     node: node.to_owned(),
//!     name: "eth0".to_owned(),
//!     vendor: "example".into(),
//!     switch,
//!     ..DeviceDescription::default()
//! };
//! let plane = PlaneDescription {
//!     name: "plane0".to_owned(),
//!     vendor: "example".to_owned(),
//!     switches: ["top", "left", "right"].map(String::from).to_vec(),
//!     links: Links::Tree(vec![None, Some(0), Some(0)]),
//!     devices: vec![device("n0", 1), device("n1", 1), device("n2", 2)],
//! };
//! let fabric = Fabric::new(FabricDescription { identifier: "demo".to_owned(), planes: vec![plane] })?;
//! let plane = &fabric.planes()[0];
//! assert_eq!([plane.cost(0, 0), plane.cost(0, 1), plane.cost(0, 2)], [Some(0), Some(2), Some(4)]);
//! assert_eq!(plane.nearest(0, 1), Some(vec![(1, 2)]));
//! # Ok::<(), modex::fabric::FabricError>(())
//! ```

mod assignment;
mod attributes;
mod cost_request;
mod description;
mod error;

mod groups;
mod nodes;
mod plane;
pub mod providers;
mod revisions;
mod structure;
#[cfg(test)]
mod tests;

pub use assignment::{Closest, DeviceEndpoint, SWITCH_PEERS_BYTES_MAX, Turns, endpoints_at, numbered};
pub(crate) use attributes::FabricList;
pub use attributes::{KEYS, LISTED_MAX, PlaneDevices};
pub(crate) use cost_request::{CostRequest, is_malformed};
pub use description::{DeviceDescription, FabricDescription, Links, PlaneDescription};
pub use error::FabricError;
pub(crate) use plane::is_sound;
pub use plane::{BLOCK_CELLS_MAX, DEVICES_MAX, Device, NAME_BYTES_MAX, Plane, SWITCHES_MAX, UNREACHABLE};
pub(crate) use revisions::FIRST_REVISION;
pub use revisions::{CurrentFabric, Fabric, FabricHandle};
pub use structure::{LEVELS_MAX, TABLE_SWITCHES_MAX};
