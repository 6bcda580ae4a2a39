//! How far devices are from a process.

use hwlocality_sys as hwloc_types;
use hwlocality_sys::hwloc_obj;

use super::detect::{self, Machine};
use super::*;
use crate::capi::guard::guard_or;
use crate::capi::to_c::Array;
use crate::capi::{from_c, lent, process};
use crate::types::codes::device_type;
use crate::types::{Info, Value};

/// A distance that is not known.
const UNKNOWN: u16 = u16::MAX;

/// Each device of the machine, and how many levels of its hierarchy lie between it and the nearest and the farthest
/// processor of the set. Infos narrow the choice: `PMIX_DEVICE_TYPE` by kinds, `PMIX_DEVICE_ID` by one identity.
///
/// Support: implemented.
///
/// # Safety
/// `topo` and `cpuset` point to what `PMIx_Load_topology` and `PMIx_Get_cpuset` gave; `info` has `ninfo` elements; the
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
    guard(|| {
        // SAFETY: the caller's contract.
        let array = unsafe { pointer::unique(distances, "place for the distances") }?;
        // SAFETY: the caller's contract.
        let count = unsafe { pointer::unique(ndist, "place for their number") }?;
        (*array, *count) = (std::ptr::null_mut(), 0);
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
        // Here and not later: the topology and the set are the caller's again when this returns.
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

/// The release function of distances that a callback got.
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
    let machine = Machine::get("compute distances")?;
    // SAFETY: a loaded topology and a bitmap (the caller's contract).
    let found = unsafe { wanted.devices(machine, topology.topology, bitmap) };
    let mut array = Array::<pmix_device_distance_t>::constructed(found.len())?;
    for (place, device) in array.as_mut_slice().iter_mut().zip(&found) {
        *place = device.to_c();
    }
    Ok(array)
}

/// A device and its distances.
struct Distance {
    uuid: String,
    name: String,
    kind: u64,
    nearest: u16,
    farthest: u16,
}

impl Distance {
    fn to_c(&self) -> pmix_device_distance_t {
        pmix_device_distance_t {
            uuid: memory::string(self.uuid.as_bytes()),
            osname: memory::string(self.name.as_bytes()),
            type_: self.kind,
            mindist: self.nearest,
            maxdist: self.farthest,
        }
    }
}

/// Which devices the caller asked for.
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

    /// # Safety
    /// `topology` is a loaded topology, `bitmap` a bitmap.
    unsafe fn devices(&self, machine: &Machine, topology: *const c_void, bitmap: *const c_void) -> Vec<Distance> {
        // SAFETY: the caller's contract.
        let devices = unsafe { machine.devices(topology) };
        let describe = |device: &hwloc_obj| {
            // SAFETY: the caller's contract; the device is the topology's.
            let levels = unsafe { machine.levels(topology, bitmap, device) };
            // SAFETY: the device is the topology's.
            unsafe { describe(device, levels) }
        };
        devices.into_iter().map(describe).filter(|device| self.includes(device)).collect()
    }

    fn includes(&self, device: &Distance) -> bool {
        let is_kind = self.kinds.is_none_or(|kinds| kinds & device.kind != 0);
        is_kind && self.identity.as_ref().is_none_or(|identity| identity.as_bytes() == device.uuid.as_bytes())
    }
}

/// # Safety
/// `device` is an OS device of a loaded topology.
unsafe fn describe(device: &hwloc_obj, levels: Option<(u16, u16)>) -> Distance {
    // SAFETY: libhwloc's texts end with NUL.
    let name = unsafe { detect::text(device.name) }.map_or(String::new(), |name| name.to_string_lossy().into_owned());
    // SAFETY: the attributes are the topology's.
    let attributes = unsafe { device.attr.as_ref() };
    // SAFETY: the attributes of an OS device are of that kind.
    let kind = attributes.map_or(device_type::DEVTYPE_UNKNOWN, |attributes| kind_of(unsafe { attributes.osdev.ty }));
    let address = [c"Address", c"NodeGUID"].into_iter().find_map(|key| {
        // SAFETY: the device is the topology's.
        unsafe { detect::remark(device, key) }
    });
    let uuid = address.map_or_else(|| name.clone(), |address| address.to_string_lossy().into_owned());
    let (nearest, farthest) = levels.unwrap_or((UNKNOWN, UNKNOWN));
    Distance { uuid, name, kind, nearest, farthest }
}

/// The standard's bit for hwloc's kind of device.
const fn kind_of(kind: hwloc_types::hwloc_obj_osdev_type_t) -> u64 {
    match kind {
        hwloc_types::HWLOC_OBJ_OSDEV_STORAGE => device_type::DEVTYPE_BLOCK,
        hwloc_types::HWLOC_OBJ_OSDEV_GPU => device_type::DEVTYPE_GPU,
        hwloc_types::HWLOC_OBJ_OSDEV_NETWORK => device_type::DEVTYPE_NETWORK,
        hwloc_types::HWLOC_OBJ_OSDEV_OPENFABRICS => device_type::DEVTYPE_OPENFABRICS,
        hwloc_types::HWLOC_OBJ_OSDEV_DMA => device_type::DEVTYPE_DMA,
        hwloc_types::HWLOC_OBJ_OSDEV_COPROC => device_type::DEVTYPE_COPROC,
        _ => device_type::DEVTYPE_UNKNOWN,
    }
}
