//! Distances of devices from a process.

use modex::runtime::understood::OF_DISTANCES;
use modex::topo;
use modex::types::{DeviceDistance, Info, Value};

use super::*;
use crate::argument::{Count, Counted, In, Items, Marked, Out, OutArray};
use crate::callback::Callback;
use crate::form::Whole;
use crate::pointer::CallerData;
use crate::to_c::Array;
use crate::{from_c, process};

/// For each device of the machine, the number of levels of the hierarchy between it and the nearest and the farthest
/// processor of the set. Infos narrow the choice: `PMIX_DEVICE_TYPE` by kinds, `PMIX_DEVICE_ID` by one identity.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Compute_distances<'a>(
    topo: In<'a, pmix_topology_t>,
    cpuset: In<'a, pmix_cpuset_t>,
    info: Marked<'a>,
    ninfo: Count<'a, pmix_info_t>,
    distances: Out<'a, *mut pmix_device_distance_t>,
    ndist: Out<'a, usize>,
) -> pmix_status_t {
    let mut results = OutArray::cleared(distances, ndist);
    let status = guard(|| {
        let (array, count) = results.places("place for the distances", "place for their number")?;
        (*array, *count) = compute(topo, cpuset, info.counted(ninfo))?.into_raw();
        Ok(())
    });
    info.mark_if(status, ninfo)
}

/// As [`PMIx_Compute_distances`], with a callback. The array belongs to the library until the callback's release
/// function is called.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Compute_distances_nb<'a>(
    topo: In<'a, pmix_topology_t>,
    cpuset: In<'a, pmix_cpuset_t>,
    info: Items<'a, pmix_info_t>,
    ninfo: Count<'a, pmix_info_t>,
    cbfunc: Callback<pmix_device_dist_cbfunc_t>,
    cbdata: CallerData,
) -> pmix_status_t {
    guard(|| {
        let member = process::member()?;
        let callback = cbfunc.with(cbdata).ok_or(Failure(Status::ERR_BAD_PARAM))?;
        // Computed now: the topology and the set belong to the caller again when this returns.
        let found = compute(topo, cpuset, info.counted(ninfo))?;
        Ok(member.defer(move || callback.call(Status::SUCCESS, found))?)
    })
}

fn compute(
    topo: In<'_, pmix_topology_t>,
    cpuset: In<'_, pmix_cpuset_t>,
    infos: Counted<'_, pmix_info_t>,
) -> Result<Array<pmix_device_distance_t>, Failure> {
    let bitmap = locality::bitmap(cpuset)?.ok_or(Failure(Status::ERR_BAD_PARAM))?;
    let wanted = Wanted::of(&from_c::infos(infos)?)?;
    let set = locality::set_of(bitmap)?;
    // NULL means the own node (PMIx Standard, `PMIx_Compute_distances`).
    let other = match topo.is_null() {
        true => None,
        false => other_machine(&topo.get("topology")?)?,
    };
    let found = match other {
        Some(machine) => machine.distances(&set),
        None => source::machine()?.distances(&set),
    };
    let found: Vec<DeviceDistance> = found.iter().filter(|device| wanted.includes(device)).map(owned).collect();
    Ok(Array::new(&found)?)
}

/// The machine of the caller's topology; `None` if that is the one that this library has loaded.
fn other_machine(topology: &Whole<'_, pmix_topology_t>) -> Result<Option<topo::Machine>, Failure> {
    is_ours(topology.source(), "topology")?;
    let object = topology.topology()?.ok_or(Failure(Status::ERR_BAD_PARAM))?;
    let is_kept = hwloc::is_kept(topology.get().topology);
    Ok(if is_kept { None } else { Some(source::machine_of(object)?) })
}

fn owned(device: &topo::DeviceDistance) -> DeviceDistance {
    DeviceDistance {
        uuid: Some(Text::from(device.uuid.as_str())),
        os_name: Some(Text::from(device.name.as_str())),
        device_type: device.device_types,
        minimum: device.nearest,
        maximum: device.farthest,
    }
}

/// The wanted devices.
struct Wanted {
    kinds: Option<u64>,
    identity: Option<Text>,
}

impl Wanted {
    fn of(directives: &[Info]) -> Result<Self, Failure> {
        let [of_kind, of_identity] = OF_DISTANCES;
        from_c::refuse_others(directives, &OF_DISTANCES)?;
        let mut wanted = Self { kinds: None, identity: None };
        for directive in directives {
            match (directive.key.as_str(), &directive.value) {
                (key, Value::DeviceType(kinds) | Value::Uint64(kinds)) if key == of_kind => wanted.kinds = Some(*kinds),
                (key, Value::String(identity)) if key == of_identity => wanted.identity = Some(identity.clone()),
                (key, _) if key == of_kind || key == of_identity => return Err(Failure(Status::ERR_BAD_PARAM)),
                _ => {}
            }
        }
        Ok(wanted)
    }

    fn includes(&self, device: &topo::DeviceDistance) -> bool {
        let is_kind = self.kinds.is_none_or(|kinds| kinds & device.device_types != 0);
        is_kind && self.identity.as_ref().is_none_or(|identity| identity.as_bytes() == device.uuid.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use modex::keys;
    use modex::runtime::attributes_of_library;
    use modex::types::{InfoFlags, Key};

    use super::*;

    /// The list of supported attributes is in the library, and their code is here.
    #[test]
    fn distances_take_the_attributes_of_the_list() {
        let values = || [Value::DeviceType(0), Value::from("id"), Value::Bool(true), Value::Uint32(1)];
        let is_taken = |name: &&'static str| {
            values().into_iter().any(|value| {
                let info = Info::new(Key::from_static(name), value);
                Wanted::of(&[Info { flags: InfoFlags::REQUIRED.bits(), ..info }]).is_ok()
            })
        };
        let taken: BTreeSet<&str> = keys::attributes().map(|attribute| attribute.name).filter(is_taken).collect();
        assert_eq!(taken, attributes_of_library("PMIx_Compute_distances"));
    }
}
