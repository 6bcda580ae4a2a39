//! The directives of groups: names, members, and the handling of deaths.

use std::collections::BTreeSet;

use crate::events::Event;
use crate::keys;
use crate::proto;
use crate::server::interface::{find, flag};
use crate::types::{Info, Namespace, ProcId, Status, Text, Value};

/// The status of a construction that lost members.
pub(super) const ABORTED: Status = Status::GROUP_CONSTRUCT_ABORT;

pub(super) fn name_of(group: &proto::Group) -> Option<Text> {
    group.id.clone().filter(|id| !id.as_bytes().is_empty() && id.as_bytes().len() <= Namespace::SIZE_BYTES_MAX)
}

/// The group of an event.
pub(super) fn group_of(event: &Event) -> Option<Text> {
    match &find(&event.info, keys::GROUP_ID)?.value {
        Value::String(id) => Some(id.clone()),
        _ => None,
    }
}

/// Whether a group is formed of the remaining members.
pub(super) fn tolerates_deaths(directives: &[Info]) -> bool {
    wants_notice_of_deaths(directives) || flag(directives, keys::GROUP_OPTIONAL)
}

/// Whether processes that form a group are informed about members that end before they arrive.
pub(super) fn wants_notice_of_deaths(directives: &[Info]) -> bool {
    flag(directives, keys::GROUP_FT_COLLECTIVE) || flag(directives, keys::GROUP_NOTIFY_TERMINATION)
}

/// The members in the host's order.
pub(super) fn membership(info: &[Info]) -> Option<Vec<ProcId>> {
    membership_in(&find(info, keys::GROUP_MEMBERSHIP)?.value)
}

/// The processes that a membership names, as they stand there.
pub(super) fn named_members(info: &[Info]) -> impl Iterator<Item = &ProcId> {
    let array = find(info, keys::GROUP_MEMBERSHIP).and_then(|info| match &info.value {
        Value::DataArray(array) => Some(&array.elements),
        _ => None,
    });
    array.into_iter().flatten().filter_map(|value| if let Value::Proc(proc) = value { Some(&**proc) } else { None })
}

pub(super) fn membership_in(value: &Value) -> Option<Vec<ProcId>> {
    let Value::DataArray(array) = value else { return None };
    let member = |value: &Value| match value {
        Value::Proc(proc) if !proc.namespace.is_nobodys() => Some((**proc).clone()),
        _ => None,
    };
    let members = array.elements.iter().map(member).collect::<Option<Vec<ProcId>>>()?;
    let mut seen = BTreeSet::new();
    let members: Vec<ProcId> = members.into_iter().filter(|proc| seen.insert(proc.clone())).collect();
    (!members.is_empty()).then_some(members)
}
