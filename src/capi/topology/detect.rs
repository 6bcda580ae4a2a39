//! The machine, read with libhwloc.

use std::ffi::CStr;
use std::sync::OnceLock;

use hwlocality_sys as hwloc_types;
use hwlocality_sys::hwloc_obj;

use crate::capi::hwloc::{open, symbol};
use crate::capi::types::{c_char, c_int, c_uint, c_void};
use crate::gds::AsStatus;
use crate::types::Status;

/// Why a question about the hardware has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No libhwloc here.
    #[error("libhwloc.so.15 can't be loaded; install it (Debian: libhwloc15) to {doing}")]
    NoLibrary {
        /// What was to be done.
        doing: &'static str,
    },
    /// libhwloc failed.
    #[error("libhwloc could not {doing}")]
    Failed {
        /// What was to be done.
        doing: &'static str,
    },
    /// Another provider's object.
    #[error("the {what} comes from {source_name:?}; this library knows hwloc only")]
    Source {
        /// What was handed in.
        what: &'static str,
        /// Its provider.
        source_name: String,
    },
}

impl AsStatus for Error {
    fn status(&self) -> Status {
        match self {
            Self::NoLibrary { .. } | Self::Source { .. } => Status::ERR_NOT_SUPPORTED,
            Self::Failed { .. } => Status::ERROR,
        }
    }
}

/// libhwloc's functions for reading a machine. A topology is not changed once it is loaded, so any thread may read it.
#[derive(Clone, Copy)]
pub(super) struct Machine {
    topology_init: unsafe extern "C" fn(*mut *mut c_void) -> c_int,
    topology_set_io_types_filter: unsafe extern "C" fn(*mut c_void, c_int) -> c_int,
    topology_load: unsafe extern "C" fn(*mut c_void) -> c_int,
    topology_destroy: unsafe extern "C" fn(*mut c_void),
    topology_get_topology_cpuset: unsafe extern "C" fn(*const c_void) -> *const c_void,
    get_cpubind: unsafe extern "C" fn(*const c_void, *mut c_void, c_int) -> c_int,
    get_type_depth: unsafe extern "C" fn(*const c_void, c_uint) -> c_int,
    get_nbobjs_by_depth: unsafe extern "C" fn(*const c_void, c_int) -> c_uint,
    get_obj_by_depth: unsafe extern "C" fn(*const c_void, c_int, c_uint) -> *mut hwloc_obj,
    bitmap_alloc: unsafe extern "C" fn() -> *mut c_void,
    bitmap_free: unsafe extern "C" fn(*mut c_void),
    bitmap_isset: unsafe extern "C" fn(*const c_void, c_uint) -> c_int,
    bitmap_next: unsafe extern "C" fn(*const c_void, c_int) -> c_int,
    bitmap_isincluded: unsafe extern "C" fn(*const c_void, *const c_void) -> c_int,
    bitmap_intersects: unsafe extern "C" fn(*const c_void, *const c_void) -> c_int,
}

impl Machine {
    /// The functions, looked up once.
    pub(super) fn get(doing: &'static str) -> Result<&'static Self, Error> {
        static MACHINE: OnceLock<Option<Machine>> = OnceLock::new();
        MACHINE.get_or_init(Self::look_up).as_ref().ok_or(Error::NoLibrary { doing })
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
            // SAFETY: as above.
            topology_get_topology_cpuset: unsafe { symbol(library, c"hwloc_topology_get_topology_cpuset") }?,
            // SAFETY: as above.
            get_cpubind: unsafe { symbol(library, c"hwloc_get_cpubind") }?,
            // SAFETY: as above.
            get_type_depth: unsafe { symbol(library, c"hwloc_get_type_depth") }?,
            // SAFETY: as above.
            get_nbobjs_by_depth: unsafe { symbol(library, c"hwloc_get_nbobjs_by_depth") }?,
            // SAFETY: as above.
            get_obj_by_depth: unsafe { symbol(library, c"hwloc_get_obj_by_depth") }?,
            // SAFETY: as above.
            bitmap_alloc: unsafe { symbol(library, c"hwloc_bitmap_alloc") }?,
            // SAFETY: as above.
            bitmap_free: unsafe { symbol(library, c"hwloc_bitmap_free") }?,
            // SAFETY: as above.
            bitmap_isset: unsafe { symbol(library, c"hwloc_bitmap_isset") }?,
            // SAFETY: as above.
            bitmap_next: unsafe { symbol(library, c"hwloc_bitmap_next") }?,
            // SAFETY: as above.
            bitmap_isincluded: unsafe { symbol(library, c"hwloc_bitmap_isincluded") }?,
            // SAFETY: as above.
            bitmap_intersects: unsafe { symbol(library, c"hwloc_bitmap_intersects") }?,
        })
    }

    /// Reads this machine, devices included.
    pub(super) fn load(&self) -> Result<*mut c_void, Error> {
        let failed = Err(Error::Failed { doing: "read the topology of this machine" });
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
            unsafe { self.destroy(topology) };
            return failed;
        }
        Ok(topology)
    }

    /// # Safety
    /// `topology` is libhwloc's and not used afterwards.
    pub(super) unsafe fn destroy(&self, topology: *mut c_void) {
        // SAFETY: the caller's contract.
        unsafe { (self.topology_destroy)(topology) };
    }

    /// The processors this process or thread may run on, as a new bitmap.
    ///
    /// # Safety
    /// `topology` is a loaded topology.
    pub(super) unsafe fn binding(&self, topology: *const c_void, of_thread: bool) -> Result<*mut c_void, Error> {
        let doing = "read the processors this process may run on";
        // SAFETY: takes nothing.
        let bitmap = unsafe { (self.bitmap_alloc)() };
        if bitmap.is_null() {
            return Err(Error::Failed { doing });
        }
        let flags = if of_thread { hwloc_types::HWLOC_CPUBIND_THREAD } else { hwloc_types::HWLOC_CPUBIND_PROCESS };
        // SAFETY: the topology by the caller's contract; the bitmap was made just now.
        if unsafe { (self.get_cpubind)(topology, bitmap, flags) } == 0 {
            return Ok(bitmap);
        }
        // SAFETY: made just now.
        unsafe { (self.bitmap_free)(bitmap) };
        Err(Error::Failed { doing })
    }

    /// Whether a set of processors leaves nothing of the machine out, or has nothing of it.
    ///
    /// # Safety
    /// `topology` is a loaded topology, `bitmap` a bitmap.
    pub(super) unsafe fn is_unbound(&self, topology: *const c_void, bitmap: *const c_void) -> bool {
        // SAFETY: the caller's contract.
        let all = unsafe { (self.topology_get_topology_cpuset)(topology) };
        // SAFETY: both are bitmaps.
        let covers = unsafe { (self.bitmap_isincluded)(all, bitmap) } != 0;
        // SAFETY: both are bitmaps.
        covers || unsafe { (self.bitmap_intersects)(all, bitmap) } == 0
    }

    /// The logical indices, ascending, of the objects of a kind that share a processor with a set.
    ///
    /// # Safety
    /// `topology` is a loaded topology, `bitmap` a bitmap.
    pub(super) unsafe fn covering(&self, topology: *const c_void, bitmap: *const c_void, kind: c_uint) -> Vec<u32> {
        // SAFETY: the caller's contract; any kind may be asked for.
        let depth = unsafe { (self.get_type_depth)(topology, kind) };
        // SAFETY: the caller's contract; a depth that does not exist has no objects.
        let count = unsafe { (self.get_nbobjs_by_depth)(topology, depth) };
        let shares = |index: &u32| {
            // SAFETY: the caller's contract; null behind the end.
            let object = unsafe { (self.get_obj_by_depth)(topology, depth, *index) };
            // SAFETY: a topology's objects live as long as it and don't change.
            let Some(object) = (unsafe { object.as_ref() }) else { return false };
            // SAFETY: both are bitmaps.
            !object.cpuset.is_null() && unsafe { (self.bitmap_intersects)(object.cpuset.cast(), bitmap) } != 0
        };
        (0..count).filter(shares).collect()
    }

    /// The devices of the operating system.
    ///
    /// # Safety
    /// `topology` is a loaded topology that outlives the result.
    pub(super) unsafe fn devices<'a>(&self, topology: *const c_void) -> Vec<&'a hwloc_obj> {
        let depth = hwloc_types::HWLOC_TYPE_DEPTH_OS_DEVICE;
        // SAFETY: the caller's contract.
        let count = unsafe { (self.get_nbobjs_by_depth)(topology, depth) };
        let device = |index| {
            // SAFETY: the caller's contract; null behind the end.
            let object = unsafe { (self.get_obj_by_depth)(topology, depth, index) };
            // SAFETY: a topology's objects live as long as it and don't change.
            unsafe { object.as_ref() }
        };
        (0..count).filter_map(device).collect()
    }

    /// Levels of the hierarchy between a device and the nearest and the farthest processor of a set; `None` when
    /// nothing connects them.
    ///
    /// # Safety
    /// `topology` is a loaded topology that has `device`, `bitmap` a bitmap.
    pub(super) unsafe fn levels(
        &self,
        topology: *const c_void,
        bitmap: *const c_void,
        device: &hwloc_obj,
    ) -> Option<(u16, u16)> {
        // SAFETY: the caller's contract.
        let leaves = unsafe { (self.get_type_depth)(topology, hwloc_types::HWLOC_OBJ_PU) };
        let mut range: Option<(u16, u16)> = None;
        // SAFETY: the caller's contract.
        let mut processor = unsafe { (self.bitmap_next)(bitmap, -1) };
        while let Ok(number) = c_uint::try_from(processor) {
            // SAFETY: the caller's contract.
            let Some(place) = (unsafe { self.common_place(device, number) }) else { break };
            let distance = u16::try_from(leaves.saturating_sub(place.depth)).unwrap_or(u16::MAX);
            range = Some(range.map_or((distance, distance), |(near, far)| (near.min(distance), far.max(distance))));
            // SAFETY: the caller's contract.
            processor = unsafe { (self.bitmap_next)(bitmap, processor) };
        }
        range
    }

    /// The lowest object above a device that has this processor.
    ///
    /// # Safety
    /// `device` belongs to a loaded topology.
    unsafe fn common_place<'a>(&self, device: &'a hwloc_obj, processor: c_uint) -> Option<&'a hwloc_obj> {
        let mut place = device.parent;
        loop {
            // SAFETY: parents are the topology's; the topmost object has none.
            let object = unsafe { place.as_ref() }?;
            // SAFETY: not null, so a bitmap.
            if !object.cpuset.is_null() && unsafe { (self.bitmap_isset)(object.cpuset.cast(), processor) } != 0 {
                return Some(object);
            }
            place = object.parent;
        }
    }
}

/// What the topology says about an object under this name.
///
/// # Safety
/// `object` belongs to a loaded topology.
pub(super) unsafe fn remark<'a>(object: &'a hwloc_obj, name: &CStr) -> Option<&'a CStr> {
    (0..object.infos_count as usize).find_map(|index| {
        // SAFETY: the object has more than `index` of them.
        let entry = unsafe { object.infos.add(index) };
        // SAFETY: as above; they live as long as the object.
        let entry = unsafe { entry.as_ref() }?;
        // SAFETY: libhwloc's texts end with NUL.
        let found = unsafe { text(entry.name) }? == name;
        // SAFETY: as above.
        if found { unsafe { text(entry.value) } } else { None }
    })
}

/// # Safety
/// `text` is null or ends with NUL and lives as long as the result.
pub(super) unsafe fn text<'a>(text: *const c_char) -> Option<&'a CStr> {
    // SAFETY: the caller's contract.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })
}
