//! Contributions of groups' members to each other (`PMIX_GROUP_INFO`), for clients that request them from the server.
//!
//! Our clients and those of OpenPMIx 6 store the contributions from the construct's reply. Clients of OpenPMIx 4.2 and
//! 5.0 request them from their server, with the context number of the group as a qualifier, even after the group's end.
//! So this table outlives the groups: it holds the newest of each user, up to a limit.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::keys;
use crate::proto::contributions;
use crate::types::{Info, Key, Namespace, ProcId, Text, Value, footprint};

/// Bound on contributions of one user's groups.
const BYTES_PER_USER_MAX: usize = 4 << 20;

/// The oldest group first.
#[derive(Debug, Default)]
pub(crate) struct Given(VecDeque<OfGroup>);

#[derive(Debug)]
struct OfGroup {
    id: Text,
    context_id: Option<u64>,
    /// The users of its local members, who share the costs.
    users: BTreeSet<u32>,
    values: BTreeMap<(ProcId, Key), Value>,
    size_bytes: usize,
}

impl Given {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Stores the contributions in the results of a construct. Older groups of the same users make room.
    pub(crate) fn keep(&mut self, id: &Text, context_id: Option<u64>, users: &BTreeSet<u32>, results: &[Info]) {
        let values: BTreeMap<_, _> = contributions(results).collect();
        let size_bytes = values.iter().map(size_bytes_of).fold(0, usize::saturating_add);
        if values.is_empty() || size_bytes > BYTES_PER_USER_MAX {
            return;
        }
        for user in users {
            let is_theirs = |group: &&OfGroup| group.users.contains(user);
            let theirs = self.0.iter().filter(is_theirs).map(|group| group.size_bytes);
            let mut excess = theirs.fold(size_bytes, usize::saturating_add).saturating_sub(BYTES_PER_USER_MAX);
            self.0.retain(|group| {
                let is_dropped = excess > 0 && group.users.contains(user);
                excess = excess.saturating_sub(if is_dropped { group.size_bytes } else { 0 });
                !is_dropped
            });
        }
        self.0.push_back(OfGroup { id: id.clone(), context_id, users: users.clone(), values, size_bytes });
    }

    /// A process's contribution to the newest group that the directives select: by name, by context number, else any
    /// group.
    pub(crate) fn find(&self, directives: &[Info], proc: &ProcId, key: &Key) -> Option<&Value> {
        if self.0.is_empty() {
            return None;
        }
        let wanted = (proc.clone(), key.clone());
        let is_meant = |group: &&OfGroup| {
            directives.iter().all(|info| match info.key.as_str() {
                name if name == keys::GROUP_ID.name() => {
                    info.value.as_str().map(str::as_bytes) == Some(group.id.as_bytes())
                }
                name if name == keys::GROUP_CONTEXT_ID.name() => {
                    group.context_id.is_some() && info.value.as_u64() == group.context_id
                }
                _ => true,
            })
        };
        self.0.iter().rev().filter(is_meant).find_map(|group| group.values.get(&wanted))
    }

    /// Drops the values of an ended job.
    pub(crate) fn forget_namespace(&mut self, namespace: &Namespace) {
        for group in &mut self.0 {
            group.values.retain(|(proc, _), _| proc.namespace != *namespace);
        }
        self.0.retain(|group| !group.values.is_empty());
    }
}

fn size_bytes_of(((_, key), value): (&(ProcId, Key), &Value)) -> usize {
    let fixed = size_of::<(ProcId, Key, Value)>().saturating_add(key.as_str().len());
    footprint(value).unwrap_or_default().saturating_add(fixed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_groups_of_a_user_make_room_and_those_of_others_stay() {
        let proc = ProcId::new(Namespace::new("job").unwrap(), 0);
        let port = Key::from_static("port");
        let results = |bytes: usize| {
            let named = Info::new(Key::from_static(keys::PROCID.name()), proc.clone());
            let given = Info::new(port.clone(), Value::ByteObject(vec![7; bytes]));
            [Info::new(Key::from_static(keys::GROUP_INFO.name()), Value::info_array(vec![named, given]))]
        };
        let mut given = Given::default();
        given.keep(&Text::from("g"), Some(0), &BTreeSet::from([1]), &results(BYTES_PER_USER_MAX / 2));
        for number in 1..=3 {
            given.keep(&Text::from("g"), Some(number), &BTreeSet::from([2]), &results(BYTES_PER_USER_MAX / 2));
        }
        given.keep(&Text::from("g"), Some(4), &BTreeSet::from([2]), &results(BYTES_PER_USER_MAX));
        let is_there = |number: u64| {
            let of = Info::new(Key::from_static(keys::GROUP_CONTEXT_ID.name()), Value::Size(number));
            given.find(&[of], &proc, &port).is_some()
        };
        assert_eq!([0, 1, 2, 3, 4].map(is_there), [true, false, false, true, false]);
    }
}
