//! What the members of a group gave each other when it was formed (`PMIX_GROUP_INFO`), for Gets of this process.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::keys;
use crate::proto::Reply;
use crate::types::{Info, Key, ProcId, Value};

/// By member and key.
type Given = BTreeMap<(ProcId, Key), Value>;

/// By group. Stands behind everything that a process has posted and that is published: it is looked at
/// before the server is asked, never before the segment.
#[derive(Debug, Default)]
pub(super) struct Gifts {
    by_group: Mutex<BTreeMap<Vec<u8>, Given>>,
    /// Whether there is anything: most processes need no lock.
    is_any: AtomicBool,
}

impl Gifts {
    /// A group has been formed; whatever was given in an older one of that name is forgotten.
    pub(super) fn take(&self, group: &[u8], reply: &Reply) {
        let given: Given = infos_in(reply).iter().flat_map(given_by_one).take(MAX).collect();
        let mut by_group = self.by_group.lock();
        by_group.remove(group);
        if !given.is_empty() && by_group.values().map(BTreeMap::len).sum::<usize>() < MAX {
            by_group.insert(group.to_vec(), given);
            // Release pairs with the Acquire in `find`.
            self.is_any.store(true, Ordering::Release);
        }
    }

    /// A group has ended.
    pub(super) fn forget(&self, group: &[u8]) {
        self.by_group.lock().remove(group);
    }

    /// What a member gave under a key, in the group of this name or in any.
    pub(super) fn find(&self, group: Option<&[u8]>, proc: &ProcId, key: &Key) -> Option<Value> {
        if !self.is_any.load(Ordering::Acquire) {
            return None;
        }
        let wanted = (proc.clone(), key.clone());
        let by_group = self.by_group.lock();
        match group {
            Some(name) => by_group.get(name)?.get(&wanted).cloned(),
            None => by_group.values().find_map(|given| given.get(&wanted)).cloned(),
        }
    }
}

fn infos_in(reply: &Reply) -> &[Info] {
    match reply {
        Reply::Group { info, .. } => info,
        Reply::Partial { results, .. } => infos_in(results),
        _ => &[],
    }
}

/// What is in one info: a member's bundle, whose first entry says whose it is, or several of them. What the host
/// describes is not theirs to say.
fn given_by_one(info: &Info) -> Vec<((ProcId, Key), Value)> {
    let Value::DataArray(array) = &info.value else { return Vec::new() };
    let inner =
        array.elements.iter().filter_map(|value| if let Value::Info(info) = value { Some(&**info) } else { None });
    match info.key.as_str() {
        key if key == keys::GROUP_INFO.name() => bundle(inner),
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

/// Values kept of all groups.
const MAX: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Namespace;

    #[test]
    fn what_members_gave_is_found_by_who_gave_it_and_goes_with_the_group() {
        let proc = |rank| ProcId::new(Namespace::new("job").unwrap(), rank);
        let info = |key: &'static str, value: Value| Info::new(Key::from_static(key), value);
        let given = |rank: u32, entries: Vec<Info>| {
            let named = info(keys::PROCID.name(), Value::from(proc(rank)));
            info(keys::GROUP_INFO.name(), Value::info_array([named].into_iter().chain(entries).collect()))
        };
        let host_name = Key::from_static(keys::HOSTNAME.name());
        let port = Key::from_static("port");
        let bundles = vec![
            given(0, vec![info("port", Value::Uint32(7)), Info::new(host_name.clone(), "elsewhere")]),
            info(
                keys::GROUP_INFO_ARRAY.name(),
                Value::info_array(vec![given(1, vec![info("port", Value::Uint32(8))])]),
            ),
            info(keys::GROUP_INFO.name(), Value::info_array(vec![info("port", Value::Uint32(9))])),
        ];
        let reply = Reply::Group { members: vec![proc(0), proc(1)], context_id: None, info: bundles, jobs: Vec::new() };
        let gifts = Gifts::default();
        assert_eq!(gifts.find(None, &proc(0), &port), None);
        gifts.take(b"g", &reply);
        assert_eq!(
            [0, 1, 2].map(|rank| gifts.find(None, &proc(rank), &port).and_then(|value| value.as_u32())),
            [Some(7), Some(8), None]
        );
        assert_eq!(gifts.find(None, &proc(0), &host_name), None, "the host's to say");
        let [here, elsewhere] = [&b"g"[..], b"h"].map(|group| gifts.find(Some(group), &proc(1), &port));
        assert_eq!((here.and_then(|value| value.as_u32()), elsewhere), (Some(8), None));
        gifts.forget(b"g");
        assert_eq!(gifts.find(None, &proc(0), &port), None);
    }
}
