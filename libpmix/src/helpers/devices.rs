//! Devices, their places and distances: construct, create, destruct, free.

use super::family;
use crate::types::{
    pmix_coord_t, pmix_cpuset_t, pmix_device_distance_t, pmix_device_t, pmix_endpoint_t, pmix_geometry_t,
    pmix_resource_unit_t, pmix_topology_t,
};

/// Makes a place empty.
///
/// Support: implemented.
///
/// # Safety
/// P1: `p` points to storage for one, with any content.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Geometry_construct(p: *mut pmix_geometry_t) {
    // SAFETY: the caller's contract.
    unsafe { family::construct::<pmix_geometry_t>(p) };
}

/// `n` empty ones in one block, for `PMIx_Geometry_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Geometry_create(n: usize) -> *mut pmix_geometry_t {
    family::create::<pmix_geometry_t>(n)
}

/// Releases the content of a place and empties it.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for its content.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Geometry_destruct(p: *mut pmix_geometry_t) {
    // SAFETY: the caller's contract.
    unsafe { family::destruct::<pmix_geometry_t>(p) };
}

/// Releases `n` of them, with their content, and their block.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for their content; the block came from `PMIx_Geometry_create` or libc's allocator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Geometry_free(p: *mut pmix_geometry_t, n: usize) {
    // SAFETY: the caller's contract.
    unsafe { family::free::<pmix_geometry_t>(p, n) };
}

/// Makes a device empty.
///
/// Support: implemented.
///
/// # Safety
/// P1: `p` points to storage for one, with any content.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Device_construct(p: *mut pmix_device_t) {
    // SAFETY: the caller's contract.
    unsafe { family::construct::<pmix_device_t>(p) };
}

/// `n` empty ones in one block, for `PMIx_Device_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Device_create(n: usize) -> *mut pmix_device_t {
    family::create::<pmix_device_t>(n)
}

/// Releases the content of a device and empties it.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for its content.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Device_destruct(p: *mut pmix_device_t) {
    // SAFETY: the caller's contract.
    unsafe { family::destruct::<pmix_device_t>(p) };
}

/// Releases `n` of them, with their content, and their block.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for their content; the block came from `PMIx_Device_create` or libc's allocator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Device_free(p: *mut pmix_device_t, n: usize) {
    // SAFETY: the caller's contract.
    unsafe { family::free::<pmix_device_t>(p, n) };
}

/// Makes a distance empty.
///
/// Support: implemented.
///
/// # Safety
/// P1: `p` points to storage for one, with any content.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Device_distance_construct(p: *mut pmix_device_distance_t) {
    // SAFETY: the caller's contract.
    unsafe { family::construct::<pmix_device_distance_t>(p) };
}

/// `n` empty ones in one block, for `PMIx_Device_distance_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Device_distance_create(n: usize) -> *mut pmix_device_distance_t {
    family::create::<pmix_device_distance_t>(n)
}

/// Releases the content of a distance and empties it.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for its content.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Device_distance_destruct(p: *mut pmix_device_distance_t) {
    // SAFETY: the caller's contract.
    unsafe { family::destruct::<pmix_device_distance_t>(p) };
}

/// Releases `n` of them, with their content, and their block.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for their content; the block came from `PMIx_Device_distance_create` or libc's allocator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Device_distance_free(p: *mut pmix_device_distance_t, n: usize) {
    // SAFETY: the caller's contract.
    unsafe { family::free::<pmix_device_distance_t>(p, n) };
}

/// Makes an endpoint empty.
///
/// Support: implemented.
///
/// # Safety
/// P1: `p` points to storage for one, with any content.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Endpoint_construct(p: *mut pmix_endpoint_t) {
    // SAFETY: the caller's contract.
    unsafe { family::construct::<pmix_endpoint_t>(p) };
}

/// `n` empty ones in one block, for `PMIx_Endpoint_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Endpoint_create(n: usize) -> *mut pmix_endpoint_t {
    family::create::<pmix_endpoint_t>(n)
}

/// Releases the content of an endpoint and empties it.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for its content.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Endpoint_destruct(p: *mut pmix_endpoint_t) {
    // SAFETY: the caller's contract.
    unsafe { family::destruct::<pmix_endpoint_t>(p) };
}

/// Releases `n` of them, with their content, and their block.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for their content; the block came from `PMIx_Endpoint_create` or libc's allocator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Endpoint_free(p: *mut pmix_endpoint_t, n: usize) {
    // SAFETY: the caller's contract.
    unsafe { family::free::<pmix_endpoint_t>(p, n) };
}

/// Makes a coordinate empty.
///
/// Support: implemented.
///
/// # Safety
/// P1: `p` points to storage for one, with any content.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Coord_construct(p: *mut pmix_coord_t) {
    // SAFETY: the caller's contract.
    unsafe { family::construct::<pmix_coord_t>(p) };
}

/// Releases the content of a coordinate and empties it.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for its content.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Coord_destruct(p: *mut pmix_coord_t) {
    // SAFETY: the caller's contract.
    unsafe { family::destruct::<pmix_coord_t>(p) };
}

/// Releases `n` of them, with their content, and their block.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for their content; the block came from `PMIx_Coord_create` or libc's allocator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Coord_free(p: *mut pmix_coord_t, n: usize) {
    // SAFETY: the caller's contract.
    unsafe { family::free::<pmix_coord_t>(p, n) };
}

/// Makes a set of processors empty.
///
/// Support: implemented.
///
/// # Safety
/// P1: `p` points to storage for one, with any content.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Cpuset_construct(p: *mut pmix_cpuset_t) {
    // SAFETY: the caller's contract.
    unsafe { family::construct::<pmix_cpuset_t>(p) };
}

/// `n` empty ones in one block, for `PMIx_Cpuset_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Cpuset_create(n: usize) -> *mut pmix_cpuset_t {
    family::create::<pmix_cpuset_t>(n)
}

/// Releases the content of a set of processors and empties it.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for its content.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Cpuset_destruct(p: *mut pmix_cpuset_t) {
    // SAFETY: the caller's contract.
    unsafe { family::destruct::<pmix_cpuset_t>(p) };
}

/// Releases `n` of them, with their content, and their block.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for their content; the block came from `PMIx_Cpuset_create` or libc's allocator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Cpuset_free(p: *mut pmix_cpuset_t, n: usize) {
    // SAFETY: the caller's contract.
    unsafe { family::free::<pmix_cpuset_t>(p, n) };
}

/// Makes a topology empty.
///
/// Support: implemented.
///
/// # Safety
/// P1: `p` points to storage for one, with any content.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Topology_construct(p: *mut pmix_topology_t) {
    // SAFETY: the caller's contract.
    unsafe { family::construct::<pmix_topology_t>(p) };
}

/// `n` empty ones in one block, for `PMIx_Topology_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Topology_create(n: usize) -> *mut pmix_topology_t {
    family::create::<pmix_topology_t>(n)
}

/// Releases the content of a topology and empties it.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for its content.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Topology_destruct(p: *mut pmix_topology_t) {
    // SAFETY: the caller's contract.
    unsafe { family::destruct::<pmix_topology_t>(p) };
}

/// Releases `n` of them, with their content, and their block.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for their content; the block came from `PMIx_Topology_create` or libc's allocator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Topology_free(p: *mut pmix_topology_t, n: usize) {
    // SAFETY: the caller's contract.
    unsafe { family::free::<pmix_topology_t>(p, n) };
}

/// Makes a number of devices empty.
///
/// Support: implemented.
///
/// # Safety
/// P1: `p` points to storage for one, with any content.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Resource_unit_construct(p: *mut pmix_resource_unit_t) {
    // SAFETY: the caller's contract.
    unsafe { family::construct::<pmix_resource_unit_t>(p) };
}

/// `n` empty ones in one block, for `PMIx_Resource_unit_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Resource_unit_create(n: usize) -> *mut pmix_resource_unit_t {
    family::create::<pmix_resource_unit_t>(n)
}

/// Releases the content of a number of devices and empties it.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for its content.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Resource_unit_destruct(p: *mut pmix_resource_unit_t) {
    // SAFETY: the caller's contract.
    unsafe { family::destruct::<pmix_resource_unit_t>(p) };
}

/// Releases `n` of them, with their content, and their block.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for their content; the block came from `PMIx_Resource_unit_create` or libc's allocator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Resource_unit_free(p: *mut pmix_resource_unit_t, n: usize) {
    // SAFETY: the caller's contract.
    unsafe { family::free::<pmix_resource_unit_t>(p, n) };
}
