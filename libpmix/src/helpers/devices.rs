//! Devices, their places and distances: construct, create, destruct, free.

use super::family;
use crate::argument::{Count, Freed, InOut, Out};
use crate::types::{
    pmix_coord_t, pmix_cpuset_t, pmix_device_distance_t, pmix_device_t, pmix_endpoint_t, pmix_geometry_t,
    pmix_resource_unit_t, pmix_topology_t,
};

/// Makes a place empty.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Geometry_construct(p: Out<'_, pmix_geometry_t>) {
    family::construct::<pmix_geometry_t>(p);
}

/// `n` empty ones in one block, for `PMIx_Geometry_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Geometry_create(n: usize) -> *mut pmix_geometry_t {
    family::create::<pmix_geometry_t>(n)
}

/// Releases the content of a place and empties it.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Geometry_destruct(p: InOut<'_, pmix_geometry_t>) {
    family::destruct(p);
}

/// Releases `n` of them, with their content, and their block.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Geometry_free<'a>(p: Freed<'a, pmix_geometry_t>, n: Count<'a, pmix_geometry_t>) {
    family::free(p, n);
}

/// Makes a device empty.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Device_construct(p: Out<'_, pmix_device_t>) {
    family::construct::<pmix_device_t>(p);
}

/// `n` empty ones in one block, for `PMIx_Device_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Device_create(n: usize) -> *mut pmix_device_t {
    family::create::<pmix_device_t>(n)
}

/// Releases the content of a device and empties it.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Device_destruct(p: InOut<'_, pmix_device_t>) {
    family::destruct(p);
}

/// Releases `n` of them, with their content, and their block.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Device_free<'a>(p: Freed<'a, pmix_device_t>, n: Count<'a, pmix_device_t>) {
    family::free(p, n);
}

/// Makes a distance empty.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Device_distance_construct(p: Out<'_, pmix_device_distance_t>) {
    family::construct::<pmix_device_distance_t>(p);
}

/// `n` empty ones in one block, for `PMIx_Device_distance_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Device_distance_create(n: usize) -> *mut pmix_device_distance_t {
    family::create::<pmix_device_distance_t>(n)
}

/// Releases the content of a distance and empties it.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Device_distance_destruct(p: InOut<'_, pmix_device_distance_t>) {
    family::destruct(p);
}

/// Releases `n` of them, with their content, and their block.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Device_distance_free<'a>(
    p: Freed<'a, pmix_device_distance_t>,
    n: Count<'a, pmix_device_distance_t>,
) {
    family::free(p, n);
}

/// Makes an endpoint empty.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Endpoint_construct(p: Out<'_, pmix_endpoint_t>) {
    family::construct::<pmix_endpoint_t>(p);
}

/// `n` empty ones in one block, for `PMIx_Endpoint_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Endpoint_create(n: usize) -> *mut pmix_endpoint_t {
    family::create::<pmix_endpoint_t>(n)
}

/// Releases the content of an endpoint and empties it.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Endpoint_destruct(p: InOut<'_, pmix_endpoint_t>) {
    family::destruct(p);
}

/// Releases `n` of them, with their content, and their block.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Endpoint_free<'a>(p: Freed<'a, pmix_endpoint_t>, n: Count<'a, pmix_endpoint_t>) {
    family::free(p, n);
}

/// Makes a coordinate empty.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Coord_construct(p: Out<'_, pmix_coord_t>) {
    family::construct::<pmix_coord_t>(p);
}

/// Releases the content of a coordinate and empties it.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Coord_destruct(p: InOut<'_, pmix_coord_t>) {
    family::destruct(p);
}

/// Releases `n` of them, with their content, and their block.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Coord_free<'a>(p: Freed<'a, pmix_coord_t>, n: Count<'a, pmix_coord_t>) {
    family::free(p, n);
}

/// Makes a set of processors empty.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Cpuset_construct(p: Out<'_, pmix_cpuset_t>) {
    family::construct::<pmix_cpuset_t>(p);
}

/// `n` empty ones in one block, for `PMIx_Cpuset_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Cpuset_create(n: usize) -> *mut pmix_cpuset_t {
    family::create::<pmix_cpuset_t>(n)
}

/// Releases the content of a set of processors and empties it.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Cpuset_destruct(p: InOut<'_, pmix_cpuset_t>) {
    family::destruct(p);
}

/// Releases `n` of them, with their content, and their block.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Cpuset_free<'a>(p: Freed<'a, pmix_cpuset_t>, n: Count<'a, pmix_cpuset_t>) {
    family::free(p, n);
}

/// Makes a topology empty.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Topology_construct(p: Out<'_, pmix_topology_t>) {
    family::construct::<pmix_topology_t>(p);
}

/// `n` empty ones in one block, for `PMIx_Topology_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Topology_create(n: usize) -> *mut pmix_topology_t {
    family::create::<pmix_topology_t>(n)
}

/// Releases the content of a topology and empties it.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Topology_destruct(p: InOut<'_, pmix_topology_t>) {
    family::destruct(p);
}

/// Releases `n` of them, with their content, and their block.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Topology_free<'a>(p: Freed<'a, pmix_topology_t>, n: Count<'a, pmix_topology_t>) {
    family::free(p, n);
}

/// Makes a number of devices empty.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Resource_unit_construct(p: Out<'_, pmix_resource_unit_t>) {
    family::construct::<pmix_resource_unit_t>(p);
}

/// `n` empty ones in one block, for `PMIx_Resource_unit_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Resource_unit_create(n: usize) -> *mut pmix_resource_unit_t {
    family::create::<pmix_resource_unit_t>(n)
}

/// Releases the content of a number of devices and empties it.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Resource_unit_destruct(p: InOut<'_, pmix_resource_unit_t>) {
    family::destruct(p);
}

/// Releases `n` of them, with their content, and their block.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Resource_unit_free<'a>(
    p: Freed<'a, pmix_resource_unit_t>,
    n: Count<'a, pmix_resource_unit_t>,
) {
    family::free(p, n);
}
