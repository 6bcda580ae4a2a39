//! The node's hardware. One process reads the machine, through hwloc; all others read the result that it shares.
//!
//! ```text
//! hwloc's XML --> digest, levels --> rows --> segment (shared)
//!                                     |          |
//!                                     +-- Machine <--- Object, CpuSet, localities, distances
//! ```
//!
//! A [`Machine`] answers from rows of fixed width, checked once. The rows are in the server's segment or were made here
//! from a text. Only reading the hardware itself needs hwloc.
//!
//! Source: PMIx Standard, "Process-Related Non-Reserved Keys" and "Device and Topology Support".

mod cpu_set;
pub mod derived;
#[cfg(feature = "topology")]
mod detect;
pub(crate) mod device_id;
mod device_name;
mod digest;
mod error;
mod format;
pub mod inventory;
mod kind;
mod levels;
mod locality;
mod machine;
mod rows;
mod segment;
#[cfg(test)]
mod tests;

pub use cpu_set::{CpuSet, CpuSetError, PROCESSORS_MAX};
pub use device_name::NAME_BYTES_MAX;
pub(crate) use device_name::{is_name, is_name_in_lists};
pub use digest::{DigestError, XML_BYTES_MAX};
pub use error::TopologyError;
pub use inventory::{Inventories, Inventory, InventoryError};
pub use kind::Kind;
pub use locality::{LocalityError, locality_string, relative_locality};
pub use machine::{DeviceDistance, Machine, MachineError, layout_id};
pub use rows::{Object, RowError};
pub use segment::{LABEL, ShareError, SharedMachine};

/// The operating system's processor numbers of each core this process may run on, in hwloc's logical order.
///
/// # Errors
/// [`TopologyError`] when the topology can't be read, or the crate was built without feature `topology`.
pub fn cores() -> Result<Vec<Vec<usize>>, TopologyError> {
    #[cfg(feature = "topology")]
    return detect::cores();
    #[cfg(not(feature = "topology"))]
    Err(TopologyError::NotBuilt)
}

/// Reads the machine: hwloc's XML, with devices.
///
/// # Errors
/// [`TopologyError`] when the topology can't be read, or the crate was built without feature `topology`.
pub fn read() -> Result<crate::types::Topology, TopologyError> {
    #[cfg(feature = "topology")]
    return detect::read();
    #[cfg(not(feature = "topology"))]
    Err(TopologyError::NotBuilt)
}
