//! Fabrics as the tutorial of PMIx has them: vertices and their costs, one by one.
//!
//! A vertex is a device. Each function sees the revision of the fabric's registration or last update. Once a later one
//! exists, it fails with `PMIX_FABRIC_UPDATED` until an update.

use modex::fabrics::Device;
use modex::keys;
use modex::types::{Info, Key, Status, Value};

use super::scheduler::{FabricPlace, bring_up_to_date, deregister, register};
use crate::argument::{Count, In, Items, Out};
use crate::guard::{Failure, guard, guard_status};
use crate::types::{c_char, pmix_info_t, pmix_status_t, pmix_value_t};
use crate::{from_c, memory, to_c};

/// As `PMIx_Fabric_register`. See the tutorial's function of the same name.
///
/// Support: passed to the host.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_server_register_fabric<'a>(
    mut fabric: FabricPlace,
    directives: Items<'a, pmix_info_t>,
    ndirs: Count<'a, pmix_info_t>,
) -> pmix_status_t {
    guard_status(|| register(&mut fabric, directives.counted(ndirs)))
}

/// As `PMIx_Fabric_update`. See the tutorial's function of the same name.
///
/// Support: passed to the host.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_server_update_fabric(mut fabric: FabricPlace) -> pmix_status_t {
    guard_status(|| bring_up_to_date(&mut fabric))
}

/// As `PMIx_Fabric_deregister`. See the tutorial's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_server_deregister_fabric(mut fabric: FabricPlace) -> pmix_status_t {
    guard(|| deregister(&mut fabric))
}

/// The number of devices of a registered fabric. It needs a server with a description of the fabric. See the tutorial's
/// function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_server_get_num_vertices(
    mut fabric: FabricPlace,
    mut nverts: Out<'_, u32>,
) -> pmix_status_t {
    guard(|| {
        let place = nverts.place("place for a number")?;
        let (fabric, plane) = fabric.held()?;
        let count = fabric.planes().get(plane).map(|plane| plane.device_count());
        *place = count.and_then(|count| u32::try_from(count).ok()).ok_or(Failure(Status::ERR_NOT_FOUND))?;
        Ok(())
    })
}

/// The cost of two devices; 65535 without a path. A wrong number fails with `PMIX_ERR_BAD_PARAM`. See the tutorial's
/// function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_server_get_comm_cost(
    mut fabric: FabricPlace,
    src: u32,
    dest: u32,
    mut cost: Out<'_, u16>,
) -> pmix_status_t {
    guard(|| {
        let place = cost.place("place for a cost")?;
        let (fabric, plane) = fabric.held()?;
        let found = fabric.planes().get(plane).and_then(|plane| plane.cost(src, dest));
        *place = found.ok_or(Failure(Status::ERR_BAD_PARAM))?;
        Ok(())
    })
}

/// The texts among the infos of a device (`PMIX_FABRIC_DEVICE`), and the name of its node. Its plane, switch and device
/// also have the keys of the tutorial's time. Programs of that time print all values as texts. The caller releases
/// both. A wrong number fails with `PMIX_ERR_BAD_PARAM`. See the tutorial's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_server_get_vertex_info(
    mut fabric: FabricPlace,
    i: u32,
    mut vertex: Out<'_, pmix_value_t>,
    mut nodename: Out<'_, *mut c_char>,
) -> pmix_status_t {
    nodename.clear();
    guard(|| {
        let (vertex, name) = (vertex.place("place for a vertex")?, nodename.place("place for a name")?);
        let number = Info::new(Key::from_static(keys::FABRIC_DEVICE_INDEX.name()), i);
        let device = described(&mut fabric, vec![number]).map_err(|Failure(status)| match status {
            Status::ERR_NOT_FOUND => Failure(Status::ERR_BAD_PARAM),
            other => Failure(other),
        })?;
        let node = memory::new_string(text(&device, keys::HOSTNAME.name())?.as_bytes())?;
        to_c::value(&texts_of(&device), vertex)?;
        *name = node;
        Ok(())
    })
}

/// The number and node of a device. `vertex` has its infos: `PMIX_DEVICE_ID`, `PMIX_FABRIC_DEVICE_INDEX`, or
/// `PMIX_FABRIC_DEVICE_NAME` and `PMIX_HOSTNAME`, or `PMIX_HOSTNAME` alone of a node with one device. A string is an id,
/// or a name that one device has: `NAME` or `NODE/NAME`. The caller releases the name. See the tutorial's function of
/// the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_server_get_index(
    mut fabric: FabricPlace,
    vertex: In<'_, pmix_value_t>,
    mut i: Out<'_, u32>,
    mut nodename: Out<'_, *mut c_char>,
) -> pmix_status_t {
    nodename.clear();
    guard(|| {
        let (place, name) = (i.place("place for a number")?, nodename.place("place for a name")?);
        let meant = match from_c::value_at(vertex)? {
            Value::DataArray(array) => infos(&array.elements).cloned().collect(),
            Value::String(name) => vec![Info::new(Key::from_static(keys::DEVICE_ID.name()), Value::String(name))],
            _ => return Err(Failure(Status::ERR_BAD_PARAM)),
        };
        let device = device_of(&mut fabric, meant)?;
        let number = find(&device, keys::FABRIC_DEVICE_INDEX.name()).and_then(Value::as_u32);
        let number = number.ok_or(Failure(Status::ERR_NOT_FOUND))?;
        *name = memory::new_string(text(&device, keys::HOSTNAME.name())?.as_bytes())?;
        *place = number;
        Ok(())
    })
}

/// Keys of the tutorial's time, and those that have taken their places.
const OLDER_KEYS: [(&str, &str); 3] = [
    ("pmix.net.plane", keys::FABRIC_PLANE.name()),
    ("pmix.net.switch", keys::FABRIC_SWITCH.name()),
    ("pmix.net.nic", keys::FABRIC_DEVICE_NAME.name()),
];

/// The texts of a device, and those with older keys.
fn texts_of(device: &Value) -> Value {
    let Value::DataArray(array) = device else { return Value::info_array(Vec::new()) };
    let texts = infos(&array.elements).filter(|info| info.value.as_str().is_some()).cloned();
    let older = OLDER_KEYS
        .iter()
        .filter_map(|&(older, key)| Some(Info::new(Key::from_static(older), find(device, key)?.clone())));
    Value::info_array(older.chain(texts).collect())
}

/// As [`described`], for infos that may also be the name of a device or node alone, or have older keys.
fn device_of(fabric: &mut FabricPlace, mut meant: Vec<Info>) -> Result<Value, Failure> {
    for info in &mut meant {
        if let Some((_, key)) = OLDER_KEYS.iter().find(|(older, _)| info.key.as_str() == *older) {
            info.key = Key::from_static(key);
        }
    }
    let only = match meant.as_slice() {
        [info] => Some(info.clone()),
        _ => None,
    };
    described(fabric, meant).or_else(|failure| {
        let only = only.ok_or(failure)?;
        let name = only.value.as_str().ok_or(failure)?;
        let number = match only.key.as_str() {
            key if key == keys::DEVICE_ID.name() || key == keys::FABRIC_DEVICE_NAME.name() => {
                index_of_name(fabric, name)?
            }
            key if key == keys::HOSTNAME.name() => index_of_node(fabric, name)?,
            _ => return Err(failure),
        };
        described(fabric, vec![Info::new(Key::from_static(keys::FABRIC_DEVICE_INDEX.name()), number)])
    })
}

/// The data of the device of a registered fabric that the infos mean.
fn described(fabric: &mut FabricPlace, mut meant: Vec<Info>) -> Result<Value, Failure> {
    let (fabric, plane) = fabric.held()?;
    let number = u64::try_from(plane).map_err(|_| Failure(Status::ERR_BAD_PARAM))?;
    meant.insert(0, Info::new(Key::from_static(keys::FABRIC_INDEX.name()), Value::Size(number)));
    fabric.value(keys::FABRIC_DEVICE.name(), &meant).ok_or(Failure(Status::ERR_NOT_FOUND))
}

/// The number of the device with a name that no other one has: its own name, or `NODE/NAME`.
fn index_of_name(fabric: &mut FabricPlace, name: &str) -> Result<u32, Failure> {
    let (fabric, plane) = fabric.held()?;
    let plane = fabric.planes().get(plane).ok_or(Failure(Status::ERR_NOT_FOUND))?;
    if let Some(device) = name.split_once('/').and_then(|(node, name)| plane.device_by_name(node, name)) {
        return Ok(device.index);
    }
    the_only((0..).map_while(|index| plane.device(index)).filter(|device| device.name == name))
}

/// The number of the device of a node that has no other one.
fn index_of_node(fabric: &mut FabricPlace, node: &str) -> Result<u32, Failure> {
    let (fabric, plane) = fabric.held()?;
    let plane = fabric.planes().get(plane).ok_or(Failure(Status::ERR_NOT_FOUND))?;
    the_only(plane.devices_of_node(node))
}

fn the_only<'p>(mut devices: impl Iterator<Item = Device<'p>>) -> Result<u32, Failure> {
    let only = devices.next().filter(|_| devices.next().is_none());
    only.map(|device| device.index).ok_or(Failure(Status::ERR_NOT_FOUND))
}

fn infos(elements: &[Value]) -> impl Iterator<Item = &Info> {
    elements.iter().filter_map(|element| if let Value::Info(info) = element { Some(&**info) } else { None })
}

fn find<'v>(device: &'v Value, key: &str) -> Option<&'v Value> {
    let Value::DataArray(array) = device else { return None };
    infos(&array.elements).find(|info| info.key.as_str() == key).map(|info| &info.value)
}

fn text<'v>(device: &'v Value, key: &str) -> Result<&'v str, Failure> {
    find(device, key).and_then(Value::as_str).ok_or(Failure(Status::ERR_NOT_FOUND))
}
