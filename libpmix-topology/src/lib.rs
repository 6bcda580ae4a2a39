//! hwloc behind a few C functions, loaded by `libpmix.so.2` when a program first asks about the hardware.
//!
//! Were `libpmix.so.2` linked with hwloc itself, every process of a job would load hwloc and what hwloc needs at its
//! start, and hardly any uses it. The topologies and bitmaps that cross here are hwloc's own: a program may use them with
//! the hwloc it is linked with, because both find the same `libhwloc.so.15`.
//!
//! Everything is a thin call; what the answers mean is decided in `modex::capi`. A topology is never changed after
//! [`modex_topology_load`], so any number of threads may read it.
#![expect(unsafe_code, reason = "hwloc is a C library, and so are the callers")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr;

use hwlocality_sys as hwloc;

/// A device and how far it is from a set of processors.
#[repr(C)]
pub struct Device {
    /// The operating system's name; the topology's.
    pub name: *const c_char,
    /// Its network or fabric address; null if it has none; the topology's.
    pub address: *const c_char,
    /// hwloc's number for the kind of device.
    pub kind: c_uint,
    /// Levels of the hierarchy between the device and the nearest of the processors.
    pub nearest: c_uint,
    /// The same for the farthest.
    pub farthest: c_uint,
}

/// Reads the topology of this machine, devices included; null on failure.
#[unsafe(no_mangle)]
pub extern "C" fn modex_topology_load() -> *mut c_void {
    let mut topology = ptr::null_mut();
    // SAFETY: the pointer is a place for the result.
    if unsafe { hwloc::hwloc_topology_init(&raw mut topology) } != 0 {
        return ptr::null_mut();
    }
    // SAFETY: initialised above, not loaded yet.
    let kept = unsafe { hwloc::hwloc_topology_set_io_types_filter(topology, hwloc::HWLOC_TYPE_FILTER_KEEP_IMPORTANT) };
    // SAFETY: as before.
    if kept != 0 || unsafe { hwloc::hwloc_topology_load(topology) } != 0 {
        // SAFETY: nobody else knows it.
        unsafe { hwloc::hwloc_topology_destroy(topology) };
        return ptr::null_mut();
    }
    topology.cast()
}

/// Frees a topology.
///
/// # Safety
/// `topology` is hwloc's and not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn modex_topology_destroy(topology: *mut c_void) {
    // SAFETY: the caller's contract.
    unsafe { hwloc::hwloc_topology_destroy(topology.cast()) };
}

/// The processors this process (`thread` 0) or thread (1) may run on, as a new bitmap; null on failure.
///
/// # Safety
/// `topology` is a loaded topology.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn modex_topology_binding(topology: *const c_void, thread: c_int) -> *mut c_void {
    let bitmap = modex_bitmap_new();
    let whose = if thread == 0 { hwloc::HWLOC_CPUBIND_PROCESS } else { hwloc::HWLOC_CPUBIND_THREAD };
    // SAFETY: the topology by the caller's contract; the bitmap was made above, and hwloc refuses a null one.
    if !bitmap.is_null() && unsafe { hwloc::hwloc_get_cpubind(topology.cast(), bitmap.cast(), whose) } != 0 {
        // SAFETY: made above.
        unsafe { modex_bitmap_free(bitmap) };
        return ptr::null_mut();
    }
    bitmap
}

/// Whether a set of processors leaves nothing of the topology out, or names nothing of it: 1 or 0.
///
/// # Safety
/// `topology` is a loaded topology, `bitmap` a bitmap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn modex_topology_is_unbound(topology: *const c_void, bitmap: *const c_void) -> c_int {
    // SAFETY: the caller's contract.
    let all = unsafe { hwloc::hwloc_topology_get_topology_cpuset(topology.cast()) };
    // SAFETY: both are bitmaps.
    let covers = unsafe { hwloc::hwloc_bitmap_isincluded(all, bitmap.cast()) };
    // SAFETY: both are bitmaps.
    let meets = unsafe { hwloc::hwloc_bitmap_intersects(all, bitmap.cast()) };
    c_int::from(covers != 0 || meets == 0)
}

/// The logical indices of the objects of a kind that share a processor with a set, ascending, as many as fit into
/// `capacity`; returns how many there are.
///
/// `kind` is hwloc's number of an object type.
///
/// # Safety
/// `topology` is a loaded topology, `bitmap` a bitmap, `indices` has room for `capacity` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn modex_topology_covering(
    topology: *const c_void,
    bitmap: *const c_void,
    kind: c_uint,
    indices: *mut c_uint,
    capacity: usize,
) -> usize {
    // SAFETY: the caller's contract; any number may be asked for.
    let depth = unsafe { hwloc::hwloc_get_type_depth(topology.cast(), kind) };
    // SAFETY: the caller's contract; a depth that does not exist has no objects.
    let count = unsafe { hwloc::hwloc_get_nbobjs_by_depth(topology.cast(), depth) };
    let mut found = 0;
    for index in 0..count {
        // SAFETY: the caller's contract; null behind the end.
        let object = unsafe { hwloc::hwloc_get_obj_by_depth(topology.cast(), depth, index) };
        // SAFETY: the topology's objects live as long as it and don't change.
        let Some(object) = (unsafe { object.as_ref() }) else { break };
        // SAFETY: both are bitmaps; an object without processors has none to share.
        if object.cpuset.is_null() || unsafe { hwloc::hwloc_bitmap_intersects(object.cpuset, bitmap.cast()) } == 0 {
            continue;
        }
        if found < capacity {
            // SAFETY: below the capacity the caller vouches for.
            unsafe { indices.add(found).write(index) };
        }
        found += 1;
    }
    found
}

/// The device of this number, and how far it is from the processors; 0, or -1 behind the last one.
///
/// # Safety
/// `topology` is a loaded topology, `bitmap` a bitmap, `device` writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn modex_topology_device(
    topology: *const c_void,
    bitmap: *const c_void,
    number: c_uint,
    device: *mut Device,
) -> c_int {
    let depth = hwloc::HWLOC_TYPE_DEPTH_OS_DEVICE;
    // SAFETY: the caller's contract; null behind the end.
    let object = unsafe { hwloc::hwloc_get_obj_by_depth(topology.cast(), depth, number) };
    // SAFETY: the topology's objects live as long as it and don't change.
    let Some(object) = (unsafe { object.as_ref() }) else { return -1 };
    // SAFETY: every OS device has attributes, of that kind.
    let kind = unsafe { object.attr.as_ref() }.map_or(0, |attributes| unsafe { attributes.osdev.ty });
    // SAFETY: the caller's contract.
    let (nearest, farthest) = unsafe { levels(topology, bitmap, object) };
    let address = [c"Address", c"NodeGUID"].into_iter().find_map(|name| info(object, name)).unwrap_or(ptr::null());
    // SAFETY: the caller's contract.
    unsafe { device.write(Device { name: object.name, address, kind, nearest, farthest }) };
    0
}

/// Levels between a device and the nearest and the farthest processor of a set.
///
/// # Safety
/// `topology` is a loaded topology that has `device`, `bitmap` a bitmap.
unsafe fn levels(topology: *const c_void, bitmap: *const c_void, device: &hwloc::hwloc_obj) -> (c_uint, c_uint) {
    // SAFETY: the caller's contract.
    let leaves = unsafe { hwloc::hwloc_get_type_depth(topology.cast(), hwloc::HWLOC_OBJ_PU) };
    let (mut nearest, mut farthest) = (c_uint::MAX, 0);
    // SAFETY: the caller's contract.
    let mut processor = unsafe { modex_bitmap_next(bitmap, -1) };
    while let Ok(number) = c_uint::try_from(processor) {
        let mut place = device.parent;
        // SAFETY: parents are the topology's; the topmost has none.
        while let Some(object) = unsafe { place.as_ref() } {
            // SAFETY: not null, so a bitmap.
            let here = !object.cpuset.is_null() && unsafe { hwloc::hwloc_bitmap_isset(object.cpuset, number) } != 0;
            if here {
                let distance = c_uint::try_from(leaves - object.depth).unwrap_or(c_uint::MAX);
                nearest = nearest.min(distance);
                farthest = farthest.max(distance);
                break;
            }
            place = object.parent;
        }
        // SAFETY: the caller's contract.
        processor = unsafe { modex_bitmap_next(bitmap, processor) };
    }
    if nearest == c_uint::MAX { (c_uint::MAX, c_uint::MAX) } else { (nearest, farthest) }
}

/// What the topology says about an object under this name.
fn info(object: &hwloc::hwloc_obj, name: &CStr) -> Option<*const c_char> {
    (0..object.infos_count as usize).find_map(|index| {
        // SAFETY: the object has that many.
        let entry = unsafe { object.infos.add(index) };
        // SAFETY: below the count, so it is there.
        let entry = unsafe { entry.as_ref() }?;
        // SAFETY: hwloc's texts end with NUL.
        let is_it = !entry.name.is_null() && unsafe { CStr::from_ptr(entry.name) } == name;
        is_it.then_some(entry.value.cast_const())
    })
}

/// An empty bitmap; null without memory.
#[unsafe(no_mangle)]
pub extern "C" fn modex_bitmap_new() -> *mut c_void {
    // SAFETY: takes nothing.
    unsafe { hwloc::hwloc_bitmap_alloc() }.cast()
}

/// Adds the numbers from `first` to `last`; 0, or -1 without memory.
///
/// # Safety
/// `bitmap` is a bitmap that nobody else uses meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn modex_bitmap_add(bitmap: *mut c_void, first: c_uint, last: c_uint) -> c_int {
    let Ok(last) = c_int::try_from(last) else { return -1 };
    // SAFETY: the caller's contract.
    unsafe { hwloc::hwloc_bitmap_set_range(bitmap.cast(), first, last) }
}

/// The next number behind `previous` (-1: the first); -1 behind the last.
///
/// # Safety
/// `bitmap` is a bitmap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn modex_bitmap_next(bitmap: *const c_void, previous: c_int) -> c_int {
    // SAFETY: the caller's contract.
    if unsafe { hwloc::hwloc_bitmap_isfull(bitmap.cast()) } != 0 {
        return -1;
    }
    // SAFETY: the caller's contract.
    unsafe { hwloc::hwloc_bitmap_next(bitmap.cast(), previous) }
}

/// Frees a bitmap.
///
/// # Safety
/// `bitmap` is null or hwloc's, and not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn modex_bitmap_free(bitmap: *mut c_void) {
    // SAFETY: the caller's contract; hwloc takes null.
    unsafe { hwloc::hwloc_bitmap_free(bitmap.cast()) };
}
