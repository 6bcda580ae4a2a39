//! Sets of processors and topologies: objects of libhwloc.

use modex::types::{Text, Topology};

use super::{Depth, Form, Own, Str, Whole};
use crate::error::CError;
use crate::hwloc::{self, Bitmap, RawTopology};
use crate::types::{pmix_cpuset_t, pmix_topology_t};
use crate::{memory, pointer};

/// The provider that the members name.
const SOURCE: &[u8] = b"hwloc";

/// The list form of the set; `None` without a set.
impl Form for pmix_cpuset_t {
    type C = Self;
    type Owned = Option<Text>;

    fn read(from: Whole<'_, Self>, _: Depth) -> Result<Option<Text>, CError> {
        from.bitmap()?.map(hwloc::list_of).transpose()
    }

    fn write(owned: &Option<Text>, to: &mut Self) -> Result<(), CError> {
        let Some(list) = owned else { return Ok(()) };
        to.bitmap = hwloc::bitmap_of(list)?;
        to.source = memory::new_string(SOURCE)?;
        Ok(())
    }

    fn copy(from: Whole<'_, Self>, to: &mut Self, depth: Depth) -> Result<(), CError> {
        Str::copy(from.source(), &mut to.source, depth)?;
        if let Some(bitmap) = from.bitmap()? {
            to.bitmap = hwloc::duplicate_bitmap(bitmap)?;
        }
        Ok(())
    }

    fn destruct(member: Own<'_, Self>) {
        let member = member.into_place();
        if !member.bitmap.is_null() {
            // SAFETY: the bitmap is libhwloc's and belongs to the structure (F1).
            unsafe { hwloc::free_bitmap(member.bitmap) };
        }
        // SAFETY: F1: the name of the provider is a block of its own.
        unsafe { memory::release(member.source) };
        Self::construct(member);
    }
}

/// The topology as libhwloc exports it.
impl Form for pmix_topology_t {
    type C = Self;
    type Owned = Topology;

    fn read(from: Whole<'_, Self>, _: Depth) -> Result<Topology, CError> {
        from.topology()?.map_or_else(|| Ok(Topology { xml: None, support: Vec::new() }), hwloc::exported)
    }

    fn write(owned: &Topology, to: &mut Self) -> Result<(), CError> {
        let Some(xml) = &owned.xml else { return Ok(()) };
        to.topology = hwloc::import(xml, hwloc::Of::SomeMachine)?;
        to.source = memory::new_string(SOURCE)?;
        Ok(())
    }

    fn copy(from: Whole<'_, Self>, to: &mut Self, depth: Depth) -> Result<(), CError> {
        Str::copy(from.source(), &mut to.source, depth)?;
        if let Some(topology) = from.topology()? {
            to.topology = hwloc::duplicate_topology(topology)?;
        }
        Ok(())
    }

    fn destruct(member: Own<'_, Self>) {
        let member = member.into_place();
        if !member.topology.is_null() {
            // SAFETY: the topology is libhwloc's and belongs to the structure (F1).
            unsafe { hwloc::destroy_topology(member.topology) };
        }
        // SAFETY: F1: the name of the provider is a block of its own.
        unsafe { memory::release(member.source) };
        Self::construct(member);
    }
}

impl<'a> Whole<'a, pmix_cpuset_t> {
    /// The set; `None` when there is none.
    ///
    /// # Errors
    /// When the pointer is an impossible address.
    pub fn bitmap(self) -> Result<Option<&'a Bitmap>, CError> {
        // SAFETY: P1 holds for the member, which names a bitmap of libhwloc.
        unsafe { pointer::optional(self.get().bitmap.cast::<Bitmap>(), "set of processors") }
    }

    /// The name of the provider.
    #[must_use]
    pub const fn source(self) -> Whole<'a, Str> {
        // SAFETY: P1 holds for the member, which is a string.
        unsafe { Whole::new(&self.get().source) }
    }
}

impl<'a> Whole<'a, pmix_topology_t> {
    /// The topology; `None` when there is none.
    ///
    /// # Errors
    /// When the pointer is an impossible address.
    pub fn topology(self) -> Result<Option<&'a RawTopology>, CError> {
        // SAFETY: P1 holds for the member, which names a topology of libhwloc.
        unsafe { pointer::optional(self.get().topology.cast::<RawTopology>(), "topology") }
    }

    /// The name of the provider.
    #[must_use]
    pub const fn source(self) -> Whole<'a, Str> {
        // SAFETY: P1 holds for the member, which is a string.
        unsafe { Whole::new(&self.get().source) }
    }
}
