//! Contributions of a group's members to each other (`PMIX_GROUP_INFO`), as infos carry them.

use crate::keys;
use crate::types::{Info, Key, ProcId, Value};

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
        key if key == keys::GROUP_INFO.name() || key == keys::PROC_INFO_ARRAY.name() => bundle(inner),
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
