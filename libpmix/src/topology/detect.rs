//! The machine, read with libhwloc.

use std::sync::OnceLock;

use hwlocality_sys as hwloc_types;
use modex::topo::TopologyError;

use crate::hwloc::{open, symbol};
use crate::types::{c_int, c_void};

/// libhwloc's functions for reading a machine. A loaded topology does not change, so any thread may read it.
#[derive(Clone, Copy)]
pub(super) struct Discovery {
    topology_init: unsafe extern "C" fn(*mut *mut c_void) -> c_int,
    topology_set_io_types_filter: unsafe extern "C" fn(*mut c_void, c_int) -> c_int,
    topology_load: unsafe extern "C" fn(*mut c_void) -> c_int,
    topology_destroy: unsafe extern "C" fn(*mut c_void),
}

impl Discovery {
    /// The functions, looked up once.
    pub(super) fn get(doing: &'static str) -> Result<&'static Self, TopologyError> {
        static FUNCTIONS: OnceLock<Option<Discovery>> = OnceLock::new();
        FUNCTIONS.get_or_init(Self::look_up).as_ref().ok_or(TopologyError::NoLibrary { doing })
    }

    fn look_up() -> Option<Self> {
        let library = open()?;
        Some(Self {
            // SAFETY: the symbol has this type in every libhwloc.so.15; so has each below.
            topology_init: unsafe { symbol(library, c"hwloc_topology_init") }?,
            // SAFETY: as above.
            topology_set_io_types_filter: unsafe { symbol(library, c"hwloc_topology_set_io_types_filter") }?,
            // SAFETY: as above.
            topology_load: unsafe { symbol(library, c"hwloc_topology_load") }?,
            // SAFETY: as above.
            topology_destroy: unsafe { symbol(library, c"hwloc_topology_destroy") }?,
        })
    }

    /// Reads this machine, devices included.
    pub(super) fn load(&self) -> Result<*mut c_void, TopologyError> {
        let failed = Err(TopologyError::Failed { doing: "read the topology of this machine" });
        let mut topology = std::ptr::null_mut();
        // SAFETY: the pointer is a place for the result.
        if unsafe { (self.topology_init)(&raw mut topology) } != 0 {
            return failed;
        }
        // SAFETY: made just now, not loaded yet.
        let kept =
            unsafe { (self.topology_set_io_types_filter)(topology, hwloc_types::HWLOC_TYPE_FILTER_KEEP_IMPORTANT) };
        // SAFETY: as above.
        if kept != 0 || unsafe { (self.topology_load)(topology) } != 0 {
            // SAFETY: nobody else knows it.
            unsafe { (self.topology_destroy)(topology) };
            return failed;
        }
        Ok(topology)
    }
}
