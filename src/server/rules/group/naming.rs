//! Group names in other requests: members named by their ranks in a group mean the processes (PMIx Standard, "Process
//! Sets and Groups"). A Get arrives with the process's real name, because the client resolves it first: it stores the
//! result under that name.

use std::collections::BTreeSet;

use crate::gds::Datastore;
use crate::keys;
use crate::server::interface::processes;
use crate::server::state::ServerCore;
use crate::types::{Info, ProcId, Status, Value};

impl<S: Datastore> ServerCore<S> {
    /// Processes that a request names, each once, with groups replaced by their members. A rank that a group does not
    /// have stays as named, because an empty list may mean all processes.
    pub(in crate::server::rules) fn with_members(
        &self,
        procs: Vec<ProcId>,
        caller: &ProcId,
    ) -> Result<Vec<ProcId>, Status> {
        let mut names = self.groups.names(&self.registry, caller);
        if !procs.iter().any(|named| names.members(named).is_some_and(|members| !members.is_empty())) {
            return Ok(procs);
        }
        let mut seen = BTreeSet::new();
        let mut all = Vec::new();
        for named in procs {
            let members = names.members(&named).filter(|members| !members.is_empty());
            for proc in members.unwrap_or(std::slice::from_ref(&named)) {
                if all.len() >= self.config.limits.participants_max {
                    return Err(Status::ERR_OUT_OF_RESOURCE);
                }
                if seen.insert(proc.clone()) {
                    all.push(proc.clone());
                }
            }
        }
        Ok(all)
    }

    /// The same in the infos of an event that name processes. Returns whether there was a group's name.
    pub(in crate::server::rules) fn put_members(&self, infos: &mut [Info], caller: &ProcId) -> Result<bool, Status> {
        let mut is_changed = false;
        // Repeated keys are expanded only once.
        let mut open = NAMING_PROCESSES.to_vec();
        let mut names = self.groups.names(&self.registry, caller);
        for info in infos {
            let Some(place) = open.iter().position(|key| *key == info.key.as_str()) else { continue };
            open.swap_remove(place);
            let Some(named) = procs_in(&info.value) else { continue };
            // Without a group's name a long list is not copied.
            if !named.iter().any(|named| names.members(named).is_some_and(|members| !members.is_empty())) {
                continue;
            }
            let named: Vec<ProcId> = named.into_iter().cloned().collect();
            let members = self.with_members(named.clone(), caller)?;
            if members == named {
                continue;
            }
            is_changed = true;
            info.value = match (members.as_slice(), &info.value) {
                ([member], Value::Proc(_)) => Value::from(member.clone()),
                _ => processes(members),
            };
        }
        Ok(is_changed)
    }
}

/// The processes that a value names, if it holds only processes.
fn procs_in(value: &Value) -> Option<Vec<&ProcId>> {
    let elements = match value {
        Value::DataArray(array) => array.elements.as_slice(),
        one => std::slice::from_ref(one),
    };
    elements.iter().map(|value| if let Value::Proc(proc) = value { Some(&**proc) } else { None }).collect()
}

/// Keys that name processes in events.
const NAMING_PROCESSES: [&str; 3] =
    [keys::EVENT_CUSTOM_RANGE.name(), keys::EVENT_AFFECTED_PROC.name(), keys::EVENT_AFFECTED_PROCS.name()];
