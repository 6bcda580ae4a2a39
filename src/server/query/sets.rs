//! Questions about process sets and groups.

use super::{Scope, Server};
use crate::gds::Publish;
use crate::keys;
use crate::server::psets::processes;
use crate::server::requests::Requester;
use crate::types::{DataArray, DataType, Key, ProcId, Text, Value};

/// The keys that are answered here.
pub(super) const KEYS: [&str; 6] = [
    keys::QUERY_NUM_PSETS.name(),
    keys::QUERY_PSET_NAMES.name(),
    keys::QUERY_PSET_MEMBERSHIP.name(),
    keys::QUERY_NUM_GROUPS.name(),
    keys::QUERY_GROUP_NAMES.name(),
    keys::QUERY_GROUP_MEMBERSHIP.name(),
];

impl<S: Publish> Server<S> {
    /// What somebody may know of sets and groups.
    pub(super) fn fact_about_sets(&self, requester: &Requester, scope: &Scope, key: &Key) -> Option<Value> {
        let is = |known: &str| key.as_str() == known;
        if is(keys::QUERY_NUM_PSETS.name()) {
            return Some(count(self.sets_shown_to(requester).count()));
        }
        if is(keys::QUERY_PSET_NAMES.name()) {
            let names: Vec<String> = self.sets_shown_to(requester).map(Text::to_string_lossy).collect();
            return Some(Value::from(names.join(",").as_str()));
        }
        if is(keys::QUERY_PSET_MEMBERSHIP.name()) {
            let name = scope.set.as_ref()?;
            let is_shown = self.sets_shown_to(requester).any(|shown| shown == name);
            return self.process_sets.members(name).filter(|_| is_shown).map(processes);
        }
        if is(keys::QUERY_NUM_GROUPS.name()) {
            return Some(count(self.groups_shown_to(requester).count()));
        }
        if is(keys::QUERY_GROUP_NAMES.name()) {
            let elements = self.groups_shown_to(requester).map(|(id, _)| Value::String(id.clone())).collect();
            return Some(Value::DataArray(Box::new(DataArray { element_type: DataType::String, elements })));
        }
        if is(keys::QUERY_GROUP_MEMBERSHIP.name()) {
            let name = scope.group.as_ref()?;
            // One's own group of that name is meant before another's.
            let named = || self.groups_shown_to(requester).filter(|(id, _)| *id == name).map(|(_, members)| members);
            let own = named().find(|members| members.contains(&requester.proc));
            return own.or_else(|| named().next()).map(processes);
        }
        None
    }

    /// Names of the sets with a process of a job that somebody may ask about.
    fn sets_shown_to(&self, requester: &Requester) -> impl Iterator<Item = &Text> {
        let is_open =
            |proc: &ProcId| self.registry.job(&proc.namespace).is_some_and(|job| self.is_open(requester, job));
        let sets = self.process_sets.iter();
        sets.filter(move |(_, members)| members.iter().any(is_open)).map(|(name, _)| name)
    }

    /// One's own user's groups; for root and the server's user all.
    fn groups_shown_to(&self, requester: &Requester) -> impl Iterator<Item = (&Text, &[ProcId])> {
        let uid = requester.uid;
        let groups = self.groups.iter().filter(move |(_, group)| self.is_trusted(uid) || group.users.contains(&uid));
        groups.map(|(id, group)| (id, group.members.as_slice()))
    }
}

fn count(number: usize) -> Value {
    Value::Size(u64::try_from(number).unwrap_or(u64::MAX))
}
