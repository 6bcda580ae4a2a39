//! Process sets: names that the host gives to fixed sets of processes. Nothing is done with one; processes are told, and
//! may ask.

use std::collections::BTreeMap;

use super::core::Server;
use super::host::ProcessSet;
use crate::events::Event;
use crate::gds::Publish;
use crate::keys;
use crate::types::codes::range;
use crate::types::{DataArray, DataType, Info, Key, Namespace, ProcId, Rank, Status, Text, Time, Value};

/// The sets that the host has defined and not deleted.
#[derive(Debug, Default)]
pub(super) struct ProcessSets(BTreeMap<Text, Vec<ProcId>>);

impl<S: Publish> Server<S> {
    /// The host names a set. One of that name is replaced.
    pub(super) fn define_process_set(&mut self, now: Time, set: ProcessSet) -> Status {
        let ProcessSet { name, members, source } = set;
        let limits = &self.config.limits;
        let is_somebody = |proc: &ProcId| matches!(proc.rank, Rank::Process(_) | Rank::Wildcard);
        if name.as_bytes().is_empty() || members.is_empty() || !members.iter().all(is_somebody) {
            return Status::ERR_BAD_PARAM;
        }
        let is_new = !self.process_sets.0.contains_key(&name);
        if members.len() > limits.participants_max || (is_new && self.process_sets.0.len() >= limits.groups_max) {
            return Status::ERR_OUT_OF_RESOURCE;
        }
        self.process_sets.0.insert(name.clone(), members.clone());
        self.tell_of_set(now, Status::PROCESS_SET_DEFINE, name, &members, source);
        Status::SUCCESS
    }

    /// The host takes a name back.
    pub(super) fn delete_process_set(&mut self, now: Time, name: Text, source: ProcId) -> Status {
        let Some(members) = self.process_sets.0.remove(&name) else { return Status::ERR_NOT_FOUND };
        self.tell_of_set(now, Status::PROCESS_SET_DELETE, name, &members, source);
        Status::SUCCESS
    }

    /// Everybody here is told, members or not.
    fn tell_of_set(&mut self, now: Time, status: Status, name: Text, members: &[ProcId], source: ProcId) {
        let info = vec![
            Info::new(Key::from_static(keys::PSET_NAME.name()), name),
            Info::new(Key::from_static(keys::PSET_MEMBERS.name()), processes(members)),
        ];
        self.distribute(now, &Event { status, source: Some(source), range: range::RANGE_LOCAL, info }, None);
    }
}

impl ProcessSets {
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Text, &[ProcId])> {
        self.0.iter().map(|(name, members)| (name, members.as_slice()))
    }

    pub(super) fn members(&self, name: &Text) -> Option<&[ProcId]> {
        self.0.get(name).map(Vec::as_slice)
    }

    /// A set of processes of a job that is gone is none any more.
    pub(super) fn forget_namespace(&mut self, namespace: &Namespace) {
        self.0.retain(|_, members| members.iter().any(|proc| proc.namespace != *namespace));
    }
}

/// A list of processes as a value.
pub(super) fn processes(procs: &[ProcId]) -> Value {
    let elements = procs.iter().cloned().map(Value::from).collect();
    Value::DataArray(Box::new(DataArray { element_type: DataType::Proc, elements }))
}
