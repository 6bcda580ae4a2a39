//! Values that the members of a group contributed when it was formed, for Gets of this process. They come from
//! `PMIX_GROUP_INFO`, or are the endpoint data of a group by invitation.
//!
//! OpenPMIx 6 keeps such values for ever, and finds them by the group's context number. So the newest values outlive
//! their group here too, up to a limit.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::proto::{Reply, contributions};
use crate::types::{Info, Key, ProcId, Value, footprint};

/// By member and key.
type Given = BTreeMap<(ProcId, Key), Value>;

/// Contributions of the members of groups. A Get looks at them after the segment, and before it asks the server.
#[derive(Debug, Default)]
pub(super) struct GroupInfo {
    /// The oldest group first.
    groups: Mutex<Vec<Contributions>>,
    /// Whether there are contributions: most processes need no lock.
    is_any: AtomicBool,
}

/// Contributions of the members of one group.
#[derive(Debug)]
struct Contributions {
    group: Vec<u8>,
    context_id: Option<u64>,
    has_ended: bool,
    given: Given,
    size_bytes: usize,
}

/// The groups that a Get means. Without name and number: every group.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Meant<'a> {
    pub(super) group: Option<&'a [u8]>,
    pub(super) context_id: Option<u64>,
}

impl GroupInfo {
    /// Takes the contributions out of the answer about a new group. An older group of that name has ended.
    pub(super) fn take_of_reply(&self, group: &[u8], reply: &Reply) {
        if let Some((infos, context_id)) = described_in(reply) {
            self.take(group, context_id, infos);
        }
    }

    /// Takes the contributions of a new group. An older group of that name has ended.
    pub(super) fn take(&self, group: &[u8], context_id: Option<u64>, infos: &[Info]) {
        let given: Given = contributions(infos).take(MAX).collect();
        let mut groups = self.groups.lock();
        groups.retain(|old| old.group != group || old.context_id != context_id);
        end(&mut groups, group);
        if given.is_empty() {
            return;
        }
        let size_bytes = given.iter().map(size_bytes).fold(0, usize::saturating_add);
        let live = || groups.iter().filter(|old| !old.has_ended);
        let live_bytes = live().map(|old| old.size_bytes).fold(size_bytes, usize::saturating_add);
        if live().map(|old| old.given.len()).sum::<usize>() >= MAX || live_bytes > LIVE_BYTES_MAX {
            tracing::warn!(
                group = %group.escape_ascii(),
                "this process keeps no values of the group's members, because it has too many of other groups; end some of these"
            );
            return;
        }
        groups.push(Contributions { group: group.to_vec(), context_id, has_ended: false, given, size_bytes });
        // Release pairs with the Acquire in `find`.
        self.is_any.store(true, Ordering::Release);
    }

    /// Notes that a group has ended, or that this process has left it.
    pub(super) fn end(&self, group: &[u8]) {
        end(&mut self.groups.lock(), group);
    }

    /// The value that a member contributed under a key. If several of the meant groups have one, the newest counts.
    pub(super) fn find(&self, meant: Meant<'_>, proc: &ProcId, key: &Key) -> Option<Value> {
        if !self.is_any.load(Ordering::Acquire) {
            return None;
        }
        let wanted = (proc.clone(), key.clone());
        let is_meant = |one: &&Contributions| {
            meant.group.is_none_or(|group| one.group == group)
                && meant.context_id.is_none_or(|id| one.context_id == Some(id))
        };
        let groups = self.groups.lock();
        groups.iter().rev().filter(is_meant).find_map(|one| one.given.get(&wanted)).cloned()
    }
}

/// Notes the end of a group. Forgets the oldest ended groups if they hold too much.
fn end(groups: &mut Vec<Contributions>, group: &[u8]) {
    for one in groups.iter_mut().filter(|one| one.group == group) {
        one.has_ended = true;
    }
    let mut excess_bytes = groups.iter().filter(|one| one.has_ended).map(|one| one.size_bytes).sum::<usize>();
    excess_bytes = excess_bytes.saturating_sub(ENDED_BYTES_MAX);
    groups.retain(|one| {
        let is_dropped = one.has_ended && excess_bytes > 0;
        excess_bytes = excess_bytes.saturating_sub(if is_dropped { one.size_bytes } else { 0 });
        !is_dropped
    });
}

fn size_bytes(((_, key), value): (&(ProcId, Key), &Value)) -> usize {
    let fixed = size_of::<(ProcId, Key, Value)>().saturating_add(key.as_str().len());
    footprint(value).unwrap_or_default().saturating_add(fixed)
}

fn described_in(reply: &Reply) -> Option<(&[Info], Option<u64>)> {
    match reply {
        Reply::Group { info, context_id, .. } => Some((info, *context_id)),
        Reply::Partial { results, .. } => described_in(results),
        _ => None,
    }
}

/// Limit of the values of all groups that have not ended.
const MAX: usize = 1 << 16;

/// Limit of the bytes of these values.
const LIVE_BYTES_MAX: usize = 64 << 20;

/// Limit of the values of ended groups: the local context numbers of some 10,000 members.
const ENDED_BYTES_MAX: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys;
    use crate::types::Namespace;

    fn proc(rank: u32) -> ProcId {
        ProcId::new(Namespace::new("job").unwrap(), rank)
    }

    fn info(key: &'static str, value: impl Into<Value>) -> Info {
        Info::new(Key::from_static(key), value)
    }

    fn given(rank: u32, entries: Vec<Info>) -> Info {
        let named = info(keys::PROCID.name(), proc(rank));
        info(keys::GROUP_INFO.name(), Value::info_array([named].into_iter().chain(entries).collect()))
    }

    fn group(context_id: Option<u64>, info: Vec<Info>) -> Reply {
        Reply::Group { members: vec![proc(0), proc(1)], context_id, info, jobs: Vec::new() }
    }

    fn named(group: &[u8]) -> Meant<'_> {
        Meant { group: Some(group), context_id: None }
    }

    const fn numbered(id: u64) -> Meant<'static> {
        Meant { group: None, context_id: Some(id) }
    }

    const PORT: Key = Key::from_static("port");

    fn port(group_info: &GroupInfo, meant: Meant<'_>, rank: u32) -> Option<u64> {
        group_info.find(meant, &proc(rank), &PORT).and_then(|value| value.as_u64())
    }

    #[test]
    fn a_contribution_to_a_group_is_found_by_its_member() {
        let host_name = Key::from_static(keys::HOSTNAME.name());
        let bundles = vec![
            given(0, vec![info("port", 7_u32), Info::new(host_name.clone(), "elsewhere")]),
            info(keys::GROUP_INFO_ARRAY.name(), Value::info_array(vec![given(1, vec![info("port", 8_u32)])])),
            info(keys::GROUP_INFO.name(), Value::info_array(vec![info("port", 9_u32)])),
        ];
        let group_info = GroupInfo::default();
        assert_eq!(port(&group_info, Meant::default(), 0), None);
        group_info.take_of_reply(b"g", &group(None, bundles));
        assert_eq!([0, 1, 2].map(|rank| port(&group_info, Meant::default(), rank)), [Some(7), Some(8), None]);
        assert_eq!(group_info.find(Meant::default(), &proc(0), &host_name), None, "the host's to say");
        assert_eq!([named(b"g"), named(b"h")].map(|meant| port(&group_info, meant, 1)), [Some(8), None]);
    }

    /// Programs of OpenPMIx 6 read contributions with the context number of the group, some of them after its end. Here
    /// such a Get found nothing. Now a Get with or without the number finds them, even after the end.
    #[test]
    fn contributions_are_found_by_the_number_of_their_group_and_after_its_end() {
        let of = |number: u64, port: u32| group(Some(number), vec![given(0, vec![info("port", port)])]);
        let group_info = GroupInfo::default();
        group_info.take_of_reply(b"g", &of(5, 7));
        let every_way =
            |id: u64| [numbered(id), named(b"g"), Meant::default()].map(|meant| port(&group_info, meant, 0));
        assert_eq!(every_way(5), [Some(7); 3]);
        group_info.end(b"g");
        assert_eq!(every_way(5), [Some(7); 3]);
        group_info.take_of_reply(b"g", &of(6, 8));
        assert_eq!(every_way(6), [Some(8); 3], "the newest group of a name is meant");
        assert_eq!(port(&group_info, numbered(5), 0), Some(7));
        assert_eq!(port(&group_info, numbered(4), 0), None);
        group_info.take_of_reply(b"g", &of(6, 9));
        assert_eq!(every_way(6), [Some(9); 3]);
    }

    #[test]
    fn values_of_many_groups_are_bounded() {
        let group_info = GroupInfo::default();
        let large = || Value::ByteObject(vec![7; LIVE_BYTES_MAX / 2]);
        let is_there = |id: u64| group_info.find(numbered(id), &proc(0), &PORT).is_some();
        for (id, name) in (0..3).zip([b"a", b"b", b"c"]) {
            group_info.take_of_reply(name, &group(Some(id), vec![given(0, vec![info("port", large())])]));
        }
        assert_eq!([0, 1, 2].map(is_there), [true, false, false]);
        group_info.end(b"a");
        group_info.take_of_reply(b"d", &group(Some(3), vec![given(0, vec![info("port", large())])]));
        assert!(is_there(3));
    }

    #[test]
    fn the_oldest_groups_that_have_ended_make_room() {
        let group_info = GroupInfo::default();
        let large = || Value::ByteObject(vec![7; ENDED_BYTES_MAX / 2]);
        group_info.take_of_reply(b"lives", &group(Some(0), vec![given(0, vec![info("port", large())])]));
        for id in 1..=3 {
            group_info.take_of_reply(b"g", &group(Some(id), vec![given(0, vec![info("port", large())])]));
            group_info.end(b"g");
        }
        let is_there = |id: u64| group_info.find(numbered(id), &proc(0), &PORT).is_some();
        assert_eq!([0, 1, 2, 3].map(is_there), [true, false, false, true]);
    }
}
