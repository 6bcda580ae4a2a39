//! Resources: data that belong to no job and are in every job's description.

use crate::gds::registration::{Description, RegisterError, check_resources, resources_for};
use crate::keys;
use crate::types::{Info, Namespace, Value};

/// Puts the resources for this job before its description, so that the description's values count. Leaves out single
/// values that the description has itself.
pub(super) fn add(namespace: &Namespace, description: &mut Description, resources: &[Info]) {
    let mut added = resources_for(namespace, description, resources);
    added.retain(|resource| entries(resource).is_some() || !description.has(&resource.key));
    description.prepend(added);
}

/// Adds resources, unless a value can't be read or contradicts another resource. A value that can't be stored (nested
/// too deep or too large) fails later, with the first job.
///
/// Facts about a group are no resources. PRRTE registers them here and then returns them to the members' servers once
/// more.
pub(super) fn keep(kept: &mut Vec<Info>, mut added: Vec<Info>) -> Result<(), RegisterError> {
    added.retain(|info| !OF_GROUPS.contains(&info.key.as_str()));
    check_resources(kept, &added)?;
    kept.extend(added);
    Ok(())
}

/// Keys of facts about one group.
const OF_GROUPS: [&str; 5] = [
    keys::GROUP_CONTEXT_ID.name(),
    keys::GROUP_INFO.name(),
    keys::GROUP_INFO_ARRAY.name(),
    keys::GROUP_ENDPT_DATA.name(),
    keys::GROUP_JOB_INFO.name(),
];

/// Removes resources. A key alone means all values of that key. A node's array means the keys that it names of that
/// node, or the whole node if it names none. A device's number means every array that holds it.
///
/// Source: PMIx Standard, chapter on server-specific interfaces (`PMIx_server_deregister_resources`).
pub(super) fn take_back(resources: &mut Vec<Info>, meant: &[Info]) {
    for info in meant {
        let key = info.key.as_str();
        match entries(info) {
            Some(named) if key == keys::NODE_INFO_ARRAY.name() => {
                let named: Vec<&Info> = named.collect();
                resources.retain_mut(|resource| keep_of_node(resource, &named));
            }
            None if key == keys::DEVICE_ID.name() => resources.retain_mut(|resource| keep_beside(resource, info)),
            _ => resources.retain(|resource| resource.key != info.key),
        }
    }
}

/// Removes the named keys from a resource if it is that node's array. Returns whether anything is left.
fn keep_of_node(resource: &mut Info, named: &[&Info]) -> bool {
    let is_array = resource.key.as_str() == keys::NODE_INFO_ARRAY.name();
    let is_named = |entry: &Info| is_identity(entry) && named.iter().any(|info| is_same(info, entry));
    if !is_array || !entries(resource).is_some_and(|mut entries| entries.any(is_named)) {
        return true;
    }
    let mut is_taken_whole = true;
    for info in named.iter().filter(|info| !is_identity(info)) {
        is_taken_whole = false;
        retain(resource, |entry| entry.key != info.key);
    }
    !is_taken_whole && entries(resource).is_some_and(|mut entries| entries.any(|entry| !is_identity(entry)))
}

/// Removes arrays that hold the device's number. Returns false if the resource itself is to be removed.
fn keep_beside(resource: &mut Info, device: &Info) -> bool {
    if is_same(resource, device)
        || entries(resource).is_some_and(|mut entries| entries.any(|entry| is_same(entry, device)))
    {
        return false;
    }
    let Value::DataArray(array) = &mut resource.value else { return true };
    array.elements.retain_mut(|element| match element {
        Value::Info(entry) => keep_beside(entry, device),
        _ => true,
    });
    true
}

fn retain(array: &mut Info, mut is_kept: impl FnMut(&Info) -> bool) {
    if let Value::DataArray(array) = &mut array.value {
        array.elements.retain(|element| !matches!(element, Value::Info(info) if !is_kept(info)));
    }
}

/// The entries of an array of infos; `None` for anything else.
fn entries(info: &Info) -> Option<impl Iterator<Item = &Info>> {
    let Value::DataArray(array) = &info.value else { return None };
    Some(array.elements.iter().filter_map(|element| if let Value::Info(info) = element { Some(&**info) } else { None }))
}

fn is_same(one: &Info, other: &Info) -> bool {
    one.key == other.key && one.value == other.value
}

fn is_identity(info: &Info) -> bool {
    [keys::HOSTNAME.name(), keys::NODEID.name()].contains(&info.key.as_str())
}

#[cfg(test)]
mod tests {
    use crate::types::Key;

    use super::*;

    fn info(key: &'static str, value: impl Into<Value>) -> Info {
        Info::new(Key::from_static(key), value)
    }

    fn node(name: &'static str, more: &[Info]) -> Info {
        let entries = [&[info("pmix.hname", name)], more].concat();
        info("pmix.node.arr", Value::info_array(entries))
    }

    #[test]
    fn resources_come_first_and_give_way() {
        let mut description = Description::from(vec![info("a", 1_u32), info("b", 2_u32)]);
        let array = info("b", Value::info_array(vec![info("x", 9_u32)]));
        add(&Namespace::new("job").unwrap(), &mut description, &[info("a", 7_u32), info("c", 8_u32), array.clone()]);
        assert_eq!(description.infos(), [info("c", 8_u32), array, info("a", 1_u32), info("b", 2_u32)]);
    }

    /// Regression: resources were kept unchecked, and then no job could be registered any more.
    #[test]
    fn an_entry_invalid_in_descriptions_is_refused_as_a_resource() {
        let check = |resources: &[Info]| keep(&mut Vec::new(), resources.to_vec());
        let said = |resources: &[Info]| check(resources).unwrap_err().to_string();
        // Registration reads a node's number itself. For other keys it accepts values of other types.
        let wrong = [info("vendor.a", 1_u8), node("n0", &[info("pmix.nodeid", "two")])];
        assert!(said(&wrong).starts_with("node.arr[1] \"pmix.nodeid\": expected uint32, got string"));
        assert_eq!(check(&[node("n0", &[info("pmix.local.size", "two")])]), Ok(()));
        assert!(said(&[info("pmix.node.arr", 1_u8)]).starts_with("\"pmix.node.arr\": "));
        assert!(said(&[info("pmix.node.arr", Value::info_array(vec![]))]).starts_with("node.arr[0]: "));
        let right = [info("vendor.a", 1_u8), node("n0", &[info("m", 1_u32)]), info("pmix.wdir", "/")];
        assert_eq!(check(&right), Ok(()));
        for of_one_job in [info("pmix.nspace", "job-1"), info("pmix.jobid", "7")] {
            let text = said(std::slice::from_ref(&of_one_job));
            assert!(text.contains(&format!("{:?}: names one job", of_one_job.key.as_str())), "{text}");
            let in_array = info("pmix.job.arr", Value::info_array(vec![of_one_job, info("vendor.a", 1_u8)]));
            assert_eq!(check(&[in_array]), Ok(()));
        }
        assert_eq!(check(&[]), Ok(()));
    }

    /// Regression: each resource was valid by itself, and two that contradict each other were kept.
    #[test]
    fn a_resource_that_contradicts_kept_ones_is_refused() {
        let nodes = info("pmix.nmap", "n0,n1");
        let mut kept = Vec::new();
        keep(&mut kept, vec![nodes.clone()]).unwrap();
        keep(&mut kept, vec![info("a", 1_u32), info("a", 2_u32)]).unwrap();
        let before = kept.clone();
        assert_eq!(
            keep(&mut kept, vec![info("pmix.node.arr", 1_u8)]).unwrap_err().to_string().get(..15),
            Some("\"pmix.node.arr\"")
        );
        assert_eq!(kept, before);
        let mut kept = vec![nodes.clone()];
        let ranks_of_three = info("pmix.pmap", "0;1;2");
        assert_eq!(keep(&mut Vec::new(), vec![ranks_of_three.clone()]), Ok(()));
        let error = keep(&mut kept, vec![ranks_of_three]).unwrap_err();
        assert!(matches!(error.cause(), RegisterError::MapLengths { .. }), "{error}");
        assert_eq!(kept, [nodes]);
    }

    #[test]
    fn a_resource_is_taken_back_by_key_node_or_device() {
        let device = |id: &'static str| info("pmix.fab.dev", Value::info_array(vec![info("pmix.dev.id", id)]));
        let all = [
            info("a", 1_u32),
            node("n0", &[info("m", 1_u32), info("k", 2_u32)]),
            node("n1", &[info("m", 3_u32), device("d0")]),
            device("d1"),
        ];
        let left = |meant: Info| {
            let mut resources = all.to_vec();
            take_back(&mut resources, &[meant]);
            resources
        };
        assert_eq!(left(info("a", Value::Undefined)), all[1..]);
        assert_eq!(left(node("n0", &[info("m", Value::Undefined)]))[1], node("n0", &[info("k", 2_u32)]));
        assert_eq!(left(node("n0", &[])), [&all[..1], &all[2..]].concat());
        assert_eq!(left(node("n9", &[])), all);
        assert_eq!(left(info("pmix.dev.id", "d1")), all[..3]);
        assert_eq!(left(info("pmix.dev.id", "d0"))[2], node("n1", &[info("m", 3_u32)]));
        assert_eq!(left(info("pmix.node.arr", Value::Undefined)), [&all[..1], &all[3..]].concat());
    }
}
