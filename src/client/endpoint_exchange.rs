//! Endpoint data that the members of a group give each other: the values that they have put for other nodes, committed
//! or not.
//!
//! A request to form a group at a server of OpenPMIx carries the values of its sender. Our own server adds the
//! committed ones itself. In a group by invitation the members exchange the values themselves.
//!
//! An acceptance carries the values of its sender. The leader adds those of all members to the event that announces the
//! group.
//!
//! Source: events of OpenPMIx clients from 7.0 on. Earlier releases send no such data, and ignore them.

use std::collections::{BTreeMap, BTreeSet};

use super::staging::Staging;
use crate::gds::qualified;
use crate::proto::{ENDPOINT_BYTES_MAX, endpoints, owner_of_endpoints};
use crate::types::{Info, Key, ProcId, Scope, Value, footprint};

/// The values that a process has put for other nodes, as an info of an event. `None` if it has put none, or if they
/// take more than 8 MiB. Reserved keys and qualified values are left out.
#[must_use]
pub fn own_endpoints(own: &ProcId, staging: &Staging) -> Option<Info> {
    let is_given = |(key, _): &(&Key, _)| !qualified::public_key(Key::clone(key)).is_reserved();
    let given = || staging.own(Some(Scope::Remote)).filter(is_given);
    let size_bytes = given().map(|(_, value)| footprint(value).unwrap_or(usize::MAX)).fold(0, usize::saturating_add);
    if size_bytes > ENDPOINT_BYTES_MAX {
        warn_of_excess(own, size_bytes);
        return None;
    }
    endpoints(own, given().map(|(key, value)| (key.clone(), Value::clone(value))))
}

/// The endpoint data that a leader has received.
#[derive(Debug, Default)]
pub(super) struct MemberEndpoints {
    of: BTreeMap<ProcId, Info>,
    size_bytes: usize,
}

impl MemberEndpoints {
    /// Takes the data of one process out of its first acceptance. Data in the name of another process are ignored. Data
    /// beyond [`ENDPOINT_BYTES_MAX`] are left out.
    pub(super) fn take(&mut self, from: &ProcId, infos: &[Info]) {
        let Some(bundle) = infos.iter().find(|info| owner_of_endpoints(info) == Some(from)) else { return };
        let size_bytes = footprint(&bundle.value).unwrap_or(usize::MAX).saturating_add(self.size_bytes);
        if size_bytes > ENDPOINT_BYTES_MAX {
            return warn_of_excess(from, size_bytes);
        }
        self.of.insert(from.clone(), bundle.clone());
        self.size_bytes = size_bytes;
    }

    /// The data of the members, for the event that announces the group.
    pub(super) fn of(&self, members: &[ProcId]) -> Vec<Info> {
        members.iter().filter_map(|member| self.of.get(member)).cloned().collect()
    }
}

/// The infos of an event that are endpoint data of members.
pub(super) fn endpoints_in(infos: &[Info], members: &[ProcId]) -> Vec<Info> {
    let members: BTreeSet<&ProcId> = members.iter().collect();
    let is_members = |info: &&Info| owner_of_endpoints(info).is_some_and(|owner| members.contains(owner));
    infos.iter().filter(is_members).cloned().collect()
}

fn warn_of_excess(proc: &ProcId, size_bytes: usize) {
    tracing::warn!(
        %proc,
        size_bytes,
        limit = ENDPOINT_BYTES_MAX,
        "the members of the group get no endpoint data of this process; commit the data, and use a fence"
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::staging::StagingLimits;
    use crate::keys;
    use crate::proto::contributions;
    use crate::types::Namespace;

    fn proc(rank: u32) -> ProcId {
        ProcId::new(Namespace::new("job").unwrap(), rank)
    }

    fn staging(rank: u32, puts: &[(Scope, &'static str, usize)]) -> Staging {
        let mut staging = Staging::new(proc(rank), StagingLimits::default());
        for &(scope, key, size_bytes) in puts {
            staging.put_any(scope, Key::from_static(key), Value::ByteObject(vec![7; size_bytes])).unwrap();
        }
        staging
    }

    #[test]
    fn values_for_other_nodes_are_given_and_no_others() {
        let puts = [
            (Scope::Remote, "port", 1),
            (Scope::Global, "address", 2),
            (Scope::Local, "shm", 3),
            (Scope::Internal, "own", 4),
            (Scope::Remote, keys::HOSTNAME.name(), 5),
        ];
        let given = own_endpoints(&proc(1), &staging(1, &puts)).unwrap();
        let given: BTreeMap<_, _> = contributions(&[given]).map(|((proc, key), _)| (key, proc)).collect();
        assert_eq!(given, BTreeMap::from(["address", "port"].map(|key| (Key::from_static(key), proc(1)))));
        assert_eq!(own_endpoints(&proc(1), &staging(1, &puts[2..])), None);
    }

    #[test]
    fn data_beyond_the_limit_are_left_out() {
        let of = |rank: u32, size_bytes: usize| {
            own_endpoints(&proc(rank), &staging(rank, &[(Scope::Remote, "port", size_bytes)]))
        };
        assert_eq!(of(0, ENDPOINT_BYTES_MAX), None);
        let mut endpoints = MemberEndpoints::default();
        for (rank, size_bytes) in [(0, ENDPOINT_BYTES_MAX / 2), (1, ENDPOINT_BYTES_MAX / 2), (2, 1)] {
            endpoints.take(&proc(rank), of(rank, size_bytes).as_slice());
        }
        let members = [0, 1, 2].map(proc);
        let left: Vec<ProcId> = endpoints.of(&members).iter().filter_map(owner_of_endpoints).cloned().collect();
        assert_eq!(left, [proc(0), proc(2)]);
    }

    #[test]
    fn data_in_the_name_of_another_process_or_of_no_member_are_ignored() {
        let given =
            [0, 1].map(|rank| own_endpoints(&proc(rank), &staging(rank, &[(Scope::Remote, "port", 1)])).unwrap());
        let mut endpoints = MemberEndpoints::default();
        endpoints.take(&proc(2), &given);
        assert_eq!(endpoints.of(&[0, 1, 2].map(proc)), []);
        endpoints.take(&proc(1), &given);
        assert_eq!(endpoints.of(&[0, 1].map(proc)), given[1..]);
        assert_eq!(endpoints.of(&[proc(0)]), []);
        assert_eq!(endpoints_in(&given, &[proc(0), proc(7)]), given[..1]);
    }
}
