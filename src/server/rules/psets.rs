//! Process sets: names that the host gives to fixed sets of processes. The server only informs processes about them,
//! and answers queries.

use std::sync::Arc;

use crate::events::Event;
use crate::gds::Datastore;
use crate::keys;
use crate::server::interface::{HostResult, ProcessSet, processes};
use crate::server::state::{ServerCore, Voice};
use crate::types::codes::range;
use crate::types::{Info, Key, ProcId, Rank, Status, Text, Time};

impl<S: Datastore> ServerCore<S> {
    /// Defines a set of the host. It replaces a set of the same name.
    pub(in crate::server) fn define_process_set(&mut self, now: Time, set: ProcessSet) -> HostResult {
        let ProcessSet { name, members, source } = set;
        let limits = &self.config.limits;
        let refused = |status, reason| HostResult::Failed { status, reason };
        if name.as_bytes().is_empty() {
            return refused(Status::ERR_BAD_PARAM, "its name is empty; give it one".to_owned());
        }
        let printed = name.to_string_lossy();
        if members.is_empty() {
            let reason = format!("set {printed:?} has no members; name one at least, or delete the set");
            return refused(Status::ERR_BAD_PARAM, reason);
        }
        let is_somebody = |proc: &&ProcId| matches!(proc.rank, Rank::Process(_) | Rank::Wildcard);
        if let Some(nobody) = members.iter().find(|proc| !is_somebody(proc)) {
            let reason = format!(
                "{nobody} in set {printed:?} is not a process; give its rank, or * for all ranks of its namespace"
            );
            return refused(Status::ERR_BAD_PARAM, reason);
        }
        if members.len() > limits.participants_max {
            let (found, max) = (members.len(), limits.participants_max);
            let reason =
                format!("set {printed:?} has {found} members, this server accepts {max}; name whole namespaces by *");
            return refused(Status::ERR_OUT_OF_RESOURCE, reason);
        }
        if self.process_sets.members(&name).is_none() && self.process_sets.len() >= limits.groups_max {
            let max = limits.groups_max;
            let reason =
                format!("set {printed:?} would be one more than the {max} that this server accepts; delete others");
            return refused(Status::ERR_OUT_OF_RESOURCE, reason);
        }
        self.process_sets.insert(name.clone(), members.clone());
        self.tell_of_set(now, Status::PROCESS_SET_DEFINE, name, &members, source);
        HostResult::Status(Status::SUCCESS)
    }

    /// Deletes a set of the host.
    pub(in crate::server) fn delete_process_set(&mut self, now: Time, name: Text, source: ProcId) -> HostResult {
        let Some(members) = self.process_sets.remove(&name) else {
            let reason = format!("no set {:?} is defined; it may be deleted already", name.to_string_lossy());
            return HostResult::Failed { status: Status::ERR_NOT_FOUND, reason };
        };
        self.tell_of_set(now, Status::PROCESS_SET_DELETE, name, &members, source);
        HostResult::Status(Status::SUCCESS)
    }

    /// Informs all local processes that may know of the set, members or not.
    fn tell_of_set(&mut self, now: Time, status: Status, name: Text, members: &[ProcId], source: ProcId) {
        let info = vec![
            Info::new(Key::from_static(keys::PSET_NAME.name()), name),
            Info::new(Key::from_static(keys::PSET_MEMBERS.name()), processes(members.iter().cloned())),
        ];
        let event = Arc::new(Event { status, source: Some(source), range: range::RANGE_LOCAL, info });
        self.distribute(now, &event, Voice::OfSet.into());
    }
}
