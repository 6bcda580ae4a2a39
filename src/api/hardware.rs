//! The hardware of a node: its inventory and its topology.

pub use crate::topo::inventory::{Caches, Device, Inventories, Inventory, InventoryError, NumaMemory};
pub use crate::topo::{CpuSet, DeviceDistance, Kind, Machine, Object, SharedMachine};
