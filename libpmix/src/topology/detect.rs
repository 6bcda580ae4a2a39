//! The machine, read with libhwloc.

use std::sync::OnceLock;

use hwlocality_sys as hwloc_types;
use modex::topo::TopologyError;

use crate::hwloc::{RawTopology, dynamic_functions, open};
use crate::types::c_int;

dynamic_functions! {
    /// libhwloc's functions for reading a machine. A loaded topology does not change, so any thread may read it.
    pub(super) struct Discovery {
        topology_init = c"hwloc_topology_init": extern "C" fn(&mut *mut RawTopology) -> c_int,
        topology_set_io_types_filter = c"hwloc_topology_set_io_types_filter":
            extern "C" fn(&mut RawTopology, c_int) -> c_int,
        topology_load = c"hwloc_topology_load": extern "C" fn(&mut RawTopology) -> c_int,
        topology_destroy = c"hwloc_topology_destroy": unsafe extern "C" fn(*mut RawTopology),
    }
}

impl Discovery {
    /// The functions, looked up once.
    pub(super) fn get(doing: &'static str) -> Result<&'static Self, TopologyError> {
        static FUNCTIONS: OnceLock<Option<Discovery>> = OnceLock::new();
        let found = FUNCTIONS.get_or_init(|| Self::look_up(open()?));
        found.as_ref().ok_or(TopologyError::NoLibrary { doing })
    }

    /// Reads this machine, devices included. The topology stays as long as the process, unless its only user destroys it.
    pub(super) fn load(&self) -> Result<&'static RawTopology, TopologyError> {
        let failed = Err(TopologyError::Failed { doing: "read the topology of this machine" });
        let mut made = std::ptr::null_mut();
        if (self.topology_init)(&mut made) != 0 {
            return failed;
        }
        // SAFETY: libhwloc made the topology just now, and nobody else knows it.
        let topology = unsafe { &mut *made };
        let kept = (self.topology_set_io_types_filter)(topology, hwloc_types::HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
        if kept != 0 || (self.topology_load)(topology) != 0 {
            // SAFETY: made just now, and used by nobody.
            unsafe { (self.topology_destroy)(made) };
            return failed;
        }
        Ok(topology)
    }
}
