//! Sets of processors and topologies: objects of libhwloc.

use modex::types::{Text, Topology};

use super::{Depth, Form};
use crate::error::CError;
use crate::types::{pmix_cpuset_t, pmix_topology_t};
use crate::{hwloc, memory};

/// The provider that the members name.
const SOURCE: &[u8] = b"hwloc";

/// The list form of the set; `None` without a set.
impl Form for pmix_cpuset_t {
    type C = Self;
    type Owned = Option<Text>;

    unsafe fn read(from: &Self, _: Depth) -> Result<Option<Text>, CError> {
        if from.bitmap.is_null() {
            return Ok(None);
        }
        // SAFETY: the member is a bitmap of libhwloc (P1).
        unsafe { hwloc::list_of(from.bitmap) }.map(Some)
    }

    fn write(owned: &Option<Text>, to: &mut Self) -> Result<(), CError> {
        let Some(list) = owned else { return Ok(()) };
        to.bitmap = hwloc::bitmap_of(list)?;
        to.source = memory::new_string(SOURCE)?;
        Ok(())
    }

    unsafe fn copy(from: &Self, to: &mut Self, depth: Depth) -> Result<(), CError> {
        // SAFETY: the caller's contract.
        unsafe { super::Str::copy(&from.source, &mut to.source, depth) }?;
        if !from.bitmap.is_null() {
            // SAFETY: the member is a bitmap of libhwloc (P1).
            to.bitmap = unsafe { hwloc::duplicate_bitmap(from.bitmap) }?;
        }
        Ok(())
    }

    unsafe fn destruct(member: &mut Self) {
        if !member.bitmap.is_null() {
            // SAFETY: the bitmap is libhwloc's and belongs to the structure (F1).
            unsafe { hwloc::free_bitmap(member.bitmap) };
        }
        // SAFETY: F1.
        unsafe { memory::release(member.source) };
        Self::construct(member);
    }
}

/// The topology as libhwloc exports it.
impl Form for pmix_topology_t {
    type C = Self;
    type Owned = Topology;

    unsafe fn read(from: &Self, _: Depth) -> Result<Topology, CError> {
        if from.topology.is_null() {
            return Ok(Topology { xml: None, support: Vec::new() });
        }
        // SAFETY: the member is a topology of libhwloc (P1).
        unsafe { hwloc::export(from.topology) }
    }

    fn write(owned: &Topology, to: &mut Self) -> Result<(), CError> {
        let Some(xml) = &owned.xml else { return Ok(()) };
        to.topology = hwloc::import(xml, hwloc::Of::SomeMachine)?;
        to.source = memory::new_string(SOURCE)?;
        Ok(())
    }

    unsafe fn copy(from: &Self, to: &mut Self, depth: Depth) -> Result<(), CError> {
        // SAFETY: the caller's contract.
        unsafe { super::Str::copy(&from.source, &mut to.source, depth) }?;
        if !from.topology.is_null() {
            // SAFETY: the member is a topology of libhwloc (P1).
            to.topology = unsafe { hwloc::duplicate_topology(from.topology) }?;
        }
        Ok(())
    }

    unsafe fn destruct(member: &mut Self) {
        if !member.topology.is_null() {
            // SAFETY: the topology is libhwloc's and belongs to the structure (F1).
            unsafe { hwloc::destroy_topology(member.topology) };
        }
        // SAFETY: F1.
        unsafe { memory::release(member.source) };
        Self::construct(member);
    }
}
