//! Requests about process sets and groups, by queries and by Gets.

use super::asking::Asking;
use crate::gds::{Datastore, KeyRef, Lookup, RealmRequest};
use crate::keys;
use crate::proto::{RankData, Reply};
use crate::server::interface::{Requester, find, processes};
use crate::server::rules::access::{Action, Object};
use crate::server::state::{Group, ServerCore, Ticket};
use crate::types::{DataArray, DataType, Info, Key, Kval, ProcId, Rank, Status, Text, Value};

/// The keys about one process or group, which a Get may request, too.
const BY_GET: [&str; 3] = [keys::PSET_NAMES.name(), keys::GROUP_NAMES.name(), keys::GROUP_CONTEXT_ID.name()];

/// Sets and groups that a key looks at for one unit of a step.
const SETS_PER_UNIT: usize = 64;

impl<S: Datastore> ServerCore<S> {
    /// The units of a key that looks at all sets and groups.
    pub(super) fn units_of_sets(&self, key: &Key) -> usize {
        let all = [
            keys::QUERY_NUM_PSETS.name(),
            keys::QUERY_PSET_NAMES.name(),
            keys::QUERY_NUM_GROUPS.name(),
            keys::QUERY_GROUP_NAMES.name(),
            keys::PSET_NAMES.name(),
            keys::GROUP_NAMES.name(),
        ];
        let looks_at_all = all.contains(&key.as_str());
        if looks_at_all { self.groups.len().saturating_add(self.process_sets.len()) / SETS_PER_UNIT } else { 0 }
    }

    /// A fact about sets and groups that the requester may know.
    pub(super) fn fact_about_sets(&self, asking: &Asking<'_>, key: &Key) -> Option<Value> {
        let Asking { requester, scope, requested, .. } = asking;
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
            let members = self.process_sets.members(name)?;
            let is_shown = members.iter().any(|proc| self.is_open(requester, &proc.namespace));
            return is_shown.then(|| processes(members.iter().cloned()));
        }
        if is(keys::QUERY_NUM_GROUPS.name()) {
            return Some(count(self.groups_shown_to(requester).count()));
        }
        if is(keys::QUERY_GROUP_NAMES.name()) {
            let elements = self.groups_shown_to(requester).map(|(id, _)| Value::String(id.clone())).collect();
            return Some(Value::DataArray(Box::new(DataArray { element_type: DataType::String, elements })));
        }
        if is(keys::QUERY_GROUP_MEMBERSHIP.name()) {
            let group = self.group_meant(requester, scope.group.as_ref()?)?;
            return Some(processes(group.members.iter().cloned()));
        }
        // As in a Get, a value that the host registered for the process excludes others.
        let is_plain = requested.directives.qualifiers.is_empty() && !self.has_registered(&requested.proc, key);
        if is_plain { self.fact_by_get(requester, &requested.proc, key, scope.group.as_ref()) } else { None }
    }

    fn has_registered(&self, proc: &ProcId, key: &Key) -> bool {
        let (rank, key) = (proc.rank, KeyRef::new(key.as_str()));
        let lookup = Lookup { rank, key, realm: RealmRequest::Default, audience: None };
        self.store.lookup(&proc.namespace, &lookup).is_ok()
    }

    /// Answers a Get about sets and groups. No segment holds these values, because they change while a job runs. Values
    /// that the host registered under such a key take precedence. Returns the ticket of any other request.
    pub(in crate::server::rules) fn answer_about_sets(
        &mut self,
        ticket: Ticket,
        proc: &ProcId,
        key: Option<&Key>,
        directives: &[Info],
    ) -> Option<Ticket> {
        let Some(key) = key.filter(|key| BY_GET.contains(&key.as_str())) else { return Some(ticket) };
        // The host may know more about a job that is unknown here.
        let is_known = self.registry.registered(&proc.namespace).is_some();
        if !is_known || self.has_registered(proc, key) {
            return Some(ticket);
        }
        let asker = self.peers.proc_of(ticket.peer()).cloned();
        let requester = asker.and_then(|asker| self.requester(ticket.peer(), asker));
        let group = find(directives, keys::GROUP_ID).and_then(|info| match &info.value {
            Value::String(id) => Some(id),
            _ => None,
        });
        let found = requester.and_then(|requester| self.fact_by_get(&requester, proc, key, group));
        let data =
            |value| Reply::Data(vec![RankData { proc: proc.clone(), entries: vec![Kval { key: key.clone(), value }] }]);
        self.outputs.reply(ticket, found.map_or(Reply::Status(Status::ERR_NOT_FOUND), data));
        None
    }

    /// The value of one of [`BY_GET`].
    fn fact_by_get(&self, requester: &Requester, proc: &ProcId, key: &Key, group: Option<&Text>) -> Option<Value> {
        let is_in = |members: &[ProcId]| {
            members.contains(proc) || members.contains(&ProcId { rank: Rank::Wildcard, ..proc.clone() })
        };
        if key.as_str() == keys::GROUP_CONTEXT_ID.name() {
            return self.group_meant(requester, group?)?.context_id.map(Value::Size);
        }
        let names: Vec<&Text> = match key.as_str() {
            key if key == keys::PSET_NAMES.name() => {
                let shown = self.sets_shown_to(requester);
                shown.filter(|name| self.process_sets.members(name).is_some_and(is_in)).collect()
            }
            key if key == keys::GROUP_NAMES.name() => {
                let shown = self.groups_shown_to(requester);
                shown.filter(|(_, group)| is_in(&group.members)).map(|(id, _)| id).collect()
            }
            _ => return None,
        };
        let elements: Vec<Value> = names.into_iter().cloned().map(Value::String).collect();
        let is_any = !elements.is_empty();
        is_any.then(|| Value::DataArray(Box::new(DataArray { element_type: DataType::String, elements })))
    }

    /// The group that a requester means by a name: first one of its own, then another one.
    fn group_meant(&self, requester: &Requester, name: &Text) -> Option<&Group> {
        let named = || self.groups.named(name).filter(|group| self.may(requester, Action::Query, Object::Group(group)));
        // Others may still be in a group that this process has left for another one of that name.
        let own = named().find(|group| group.here.contains(&requester.proc));
        own.or_else(|| named().find(|group| group.members.contains(&requester.proc))).or_else(|| named().next())
    }

    /// Names of the sets with a process of a job that the requester may query.
    fn sets_shown_to(&self, requester: &Requester) -> impl Iterator<Item = &Text> {
        let is_open = |proc: &ProcId| self.is_open(requester, &proc.namespace);
        let sets = self.process_sets.iter();
        sets.filter(move |(_, members)| members.iter().any(is_open)).map(|(name, _)| name)
    }

    /// The groups that a requester may query.
    fn groups_shown_to(&self, requester: &Requester) -> impl Iterator<Item = (&Text, &Group)> {
        self.groups.iter().filter(move |(_, group)| self.may(requester, Action::Query, Object::Group(group)))
    }
}

fn count(number: usize) -> Value {
    Value::Size(u64::try_from(number).unwrap_or(u64::MAX))
}
