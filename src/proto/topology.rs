//! Fabric and devices.

use super::ComputeDistances;
use super::layout::{Many, One, layout};
use crate::bfrops::wire::{Cpuset, Info, Topology};

layout! {
    ComputeDistances { topology: One<Topology>, cpuset: One<Cpuset>, directives: Many<Info> }
}
