//! Groups' names in other requests than those about groups: whoever is in a group may name its members by their ranks in it. The
//! host never sees such a name (PMIx Standard, "Process Sets and Groups").

use crate::gds::Publish;
use crate::keys;
use crate::proto::{JobControl, Request};
use crate::server::core::Server;
use crate::types::{DataArray, DataType, Info, ProcId, Value};

impl<S: Publish> Server<S> {
    /// A request with the members of groups in the place of the groups.
    pub(in crate::server) fn with_members(&self, mut request: Request, caller: &ProcId) -> Request {
        match &mut request {
            Request::Abort(abort) => self.put_members(&mut abort.procs, caller),
            Request::JobControl(JobControl { targets, .. }) => self.put_members(targets, caller),
            Request::Notify(notify) => {
                let names_processes = |info: &&mut Info| NAMING_PROCESSES.contains(&info.key.as_str());
                for info in notify.info.iter_mut().filter(names_processes) {
                    self.put_members_in(&mut info.value, caller);
                }
            }
            _ => {}
        }
        request
    }

    /// The process that is named by its rank in a group; `None`: no group is named.
    pub(in crate::server) fn member_named(&self, named: &ProcId, caller: &ProcId) -> Option<ProcId> {
        named.rank.process()?;
        let mut member = vec![named.clone()];
        self.put_members(&mut member, caller);
        member.pop().filter(|member| member != named)
    }

    /// A rank that the group does not have stays as it is named: nobody at all may stand for everybody.
    fn put_members(&self, procs: &mut Vec<ProcId>, caller: &ProcId) {
        let procs_max = self.config.limits.participants_max;
        let members = |named: ProcId| {
            let members = self.groups.translate(&self.registry, vec![named.clone()], caller, procs_max);
            if members.is_empty() { vec![named] } else { members }
        };
        *procs = std::mem::take(procs).into_iter().flat_map(members).take(procs_max).collect();
    }

    fn put_members_in(&self, value: &mut Value, caller: &ProcId) {
        let named: Option<Vec<ProcId>> = match value {
            Value::Proc(proc) => Some(vec![ProcId::clone(proc)]),
            // An array with something else in it is left to those who judge it.
            Value::DataArray(array) => array.elements.iter().map(proc_in).collect(),
            _ => None,
        };
        let Some(named) = named else { return };
        let mut members = named.clone();
        self.put_members(&mut members, caller);
        if members == named {
            return;
        }
        *value = match members.as_slice() {
            [member] if matches!(value, Value::Proc(_)) => Value::from(member.clone()),
            _ => {
                let elements = members.into_iter().map(Value::from).collect();
                Value::DataArray(Box::new(DataArray { element_type: DataType::Proc, elements }))
            }
        };
    }
}

fn proc_in(value: &Value) -> Option<ProcId> {
    if let Value::Proc(proc) = value { Some(ProcId::clone(proc)) } else { None }
}

/// What events name processes with.
const NAMING_PROCESSES: [&str; 3] =
    [keys::EVENT_CUSTOM_RANGE.name(), keys::EVENT_AFFECTED_PROC.name(), keys::EVENT_AFFECTED_PROCS.name()];
