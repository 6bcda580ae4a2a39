//! Distances of devices from a process.

use modex::topo::DeviceDistance;
use modex::types::{Info, Value};

use super::*;
use crate::guard::guard_or;
use crate::to_c::Array;
use crate::{from_c, lent, process};

/// For each device of the machine, the number of levels of the hierarchy between it and the nearest and the farthest
/// processor of the set. Infos narrow the choice: `PMIX_DEVICE_TYPE` by kinds, `PMIX_DEVICE_ID` by one identity.
///
/// Support: implemented.
///
/// # Safety
/// `topo` and `cpuset` point to results of `PMIx_Load_topology` and `PMIx_Get_cpuset`; `info` has `ninfo` elements; the
/// results are writable. The caller frees the array.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Compute_distances(
    topo: *mut pmix_topology_t,
    cpuset: *mut pmix_cpuset_t,
    info: *const pmix_info_t,
    ninfo: usize,
    distances: *mut *mut pmix_device_distance_t,
    ndist: *mut usize,
) -> pmix_status_t {
    // SAFETY: the caller's contract.
    unsafe { pointer::clear_array(distances, ndist) };
    guard(|| {
        // SAFETY: the caller's contract.
        let array = unsafe { pointer::unique(distances, "place for the distances") }?;
        // SAFETY: the caller's contract.
        let count = unsafe { pointer::unique(ndist, "place for their number") }?;
        // SAFETY: the caller's contract.
        let found = unsafe { compute(topo, cpuset, info, ninfo) }?;
        (*array, *count) = found.into_raw();
        Ok(())
    })
}

/// As [`PMIx_Compute_distances`], with a callback. The array belongs to the library until the callback's release function
/// is called.
///
/// Support: implemented.
///
/// # Safety
/// As [`PMIx_Compute_distances`]. `cbfunc` may be called on another thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Compute_distances_nb(
    topo: *mut pmix_topology_t,
    cpuset: *mut pmix_cpuset_t,
    info: *const pmix_info_t,
    ninfo: usize,
    cbfunc: Option<pmix_device_dist_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t {
    guard(|| {
        let member = process::member()?;
        let callback = cbfunc.ok_or(Failure(Status::ERR_BAD_PARAM))?;
        // Computed now: the topology and the set belong to the caller again when this returns.
        // SAFETY: the caller's contract.
        let found = unsafe { compute(topo, cpuset, info, ninfo) }?;
        let data = cbdata.expose_provenance();
        let deliver = move || {
            let data = std::ptr::with_exposed_provenance_mut(data);
            let (first, count) = (found.as_ptr().cast_mut(), found.len());
            let held = lent::lend(found);
            // SAFETY: the caller gave the function for this, and its data with it; the array lives until it is released.
            unsafe { callback(Status::SUCCESS.to_raw(), first, count, data, Some(release), held) };
        };
        Ok(member.defer(deliver)?)
    })
}

/// The release function for distances of a callback.
unsafe extern "C" fn release(held: *mut c_void) {
    guard_or((), || lent::take_back(held));
}

/// # Safety
/// As [`PMIx_Compute_distances`].
unsafe fn compute(
    topo: *const pmix_topology_t,
    cpuset: *const pmix_cpuset_t,
    info: *const pmix_info_t,
    ninfo: usize,
) -> Result<Array<pmix_device_distance_t>, Failure> {
    // SAFETY: the caller's contract.
    let topology = unsafe { pointer::shared(topo, "topology") }?;
    // SAFETY: a member that is NULL or ends with NUL.
    unsafe { is_ours(topology.source, "topology") }?;
    // SAFETY: the caller's contract.
    let bitmap = unsafe { locality::bitmap(cpuset) }?.ok_or(Failure(Status::ERR_BAD_PARAM))?;
    if topology.topology.is_null() {
        return Err(Failure(Status::ERR_BAD_PARAM));
    }
    // SAFETY: the caller's contract.
    let wanted = Wanted::of(&unsafe { from_c::infos(info, ninfo) }?)?;
    // SAFETY: a bitmap (the caller's contract).
    let set = unsafe { locality::set_of(bitmap) }?;
    let found = match hwloc::is_kept(topology.topology) {
        true => source::machine()?.distances(&set),
        // SAFETY: a loaded topology (the caller's contract).
        false => unsafe { source::machine_of(topology.topology) }?.distances(&set),
    };
    let found: Vec<DeviceDistance> = found.into_iter().filter(|device| wanted.includes(device)).collect();
    let mut array = Array::<pmix_device_distance_t>::constructed(found.len())?;
    for (place, device) in array.as_mut_slice().iter_mut().zip(&found) {
        *place = to_c(device);
    }
    Ok(array)
}

fn to_c(device: &DeviceDistance) -> pmix_device_distance_t {
    pmix_device_distance_t {
        uuid: memory::string(device.uuid.as_bytes()),
        osname: memory::string(device.name.as_bytes()),
        type_: device.device_types,
        mindist: device.nearest,
        maxdist: device.farthest,
    }
}

/// The wanted devices.
struct Wanted {
    kinds: Option<u64>,
    identity: Option<Text>,
}

impl Wanted {
    fn of(directives: &[Info]) -> Result<Self, Failure> {
        let mut wanted = Self { kinds: None, identity: None };
        for directive in directives {
            match (directive.key.as_str(), &directive.value) {
                ("pmix.dev.type", Value::DeviceType(kinds) | Value::Uint64(kinds)) => wanted.kinds = Some(*kinds),
                ("pmix.dev.id", Value::String(identity)) => wanted.identity = Some(identity.clone()),
                ("pmix.dev.type" | "pmix.dev.id", _) => return Err(Failure(Status::ERR_BAD_PARAM)),
                _ => {}
            }
        }
        Ok(wanted)
    }

    fn includes(&self, device: &DeviceDistance) -> bool {
        let is_kind = self.kinds.is_none_or(|kinds| kinds & device.device_types != 0);
        is_kind && self.identity.as_ref().is_none_or(|identity| identity.as_bytes() == device.uuid.as_bytes())
    }
}
