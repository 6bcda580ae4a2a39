//! Contributions of a group's members to each other, as infos carry them: `PMIX_GROUP_INFO`, and endpoint data. The
//! members send the latter as `PMIX_PROC_INFO_ARRAY`, and the host returns them as `PMIX_GROUP_ENDPT_DATA`.

use crate::keys;
use crate::types::{Info, Key, ProcId, Scope, Value};

/// A contribution: member and key, and the value. An info is a member's bundle, whose first entry names the member, or
/// holds several bundles. Reserved keys belong to the host and are left out, except the member's local context number.
pub fn contributions(infos: &[Info]) -> impl Iterator<Item = ((ProcId, Key), Value)> {
    infos.iter().flat_map(given_by_one)
}

fn given_by_one(info: &Info) -> Vec<((ProcId, Key), Value)> {
    let Value::DataArray(array) = &info.value else { return Vec::new() };
    let inner =
        array.elements.iter().filter_map(|value| if let Value::Info(info) = value { Some(&**info) } else { None });
    match info.key.as_str() {
        key if BUNDLES.contains(&key) => bundle(inner),
        key if key == keys::GROUP_INFO_ARRAY.name() => inner.flat_map(given_by_one).collect(),
        _ => Vec::new(),
    }
}

fn bundle<'a>(mut infos: impl Iterator<Item = &'a Info>) -> Vec<((ProcId, Key), Value)> {
    let Some(first) = infos.next().filter(|info| info.key.as_str() == keys::PROCID.name()) else { return Vec::new() };
    let Value::Proc(proc) = &first.value else { return Vec::new() };
    let is_theirs = |key: &Key| !key.is_reserved() || key.as_str() == keys::GROUP_LOCAL_CID.name();
    let given = infos.filter(|info| is_theirs(&info.key));
    given.map(|info| (((**proc).clone(), info.key.clone()), info.value.clone())).collect()
}

/// Limit of the bytes of one process's endpoint data, and of the data of all members of a group that come from one
/// place.
pub const ENDPOINT_BYTES_MAX: usize = 8 << 20;

/// One process's values for other nodes, as clients of OpenPMIx send them. `None`: there are none.
pub fn endpoints(owner: &ProcId, values: impl Iterator<Item = (Key, Value)>) -> Option<Info> {
    let named = Info::new(Key::from_static(keys::PROCID.name()), owner.clone());
    let scope = Info::new(Key::from_static(keys::DATA_SCOPE.name()), Value::Scope(Scope::Remote.to_raw()));
    let mut bundle = vec![named, scope];
    bundle.extend(values.map(|(key, value)| Info::new(key, value)));
    (bundle.len() > 2).then(|| Info::new(Key::from_static(keys::PROC_INFO_ARRAY.name()), Value::info_array(bundle)))
}

/// The process whose values such an info holds: the first entry names it.
#[must_use]
pub fn owner_of_endpoints(info: &Info) -> Option<&ProcId> {
    let Value::DataArray(array) = &info.value else { return None };
    match array.elements.first().filter(|_| info.key.as_str() == keys::PROC_INFO_ARRAY.name())? {
        Value::Info(first) if first.key.as_str() == keys::PROCID.name() => match &first.value {
            Value::Proc(proc) => Some(proc),
            _ => None,
        },
        _ => None,
    }
}

/// Keys of one member's bundle: from the member, from one process to others, and from the host.
const BUNDLES: [&str; 3] = [keys::GROUP_INFO.name(), keys::PROC_INFO_ARRAY.name(), keys::GROUP_ENDPT_DATA.name()];
