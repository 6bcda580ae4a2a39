//! The processes that a request names.

use super::{Get, Request, Service};
use crate::types::ProcId;

impl Request {
    /// Whether the request holds an unfilled process (with an empty namespace). Peers can't read such a request,
    /// because every namespace has a name.
    #[must_use]
    pub fn names_nobody(&self) -> bool {
        let is_nobody = |proc: &ProcId| proc.namespace.is_nobodys();
        let procs: &[ProcId] = match self {
            Self::Abort(abort) => &abort.procs,
            Self::Fence(collective) | Self::Connect(collective) | Self::Disconnect(collective) => &collective.procs,
            Self::GroupConstruct(group) | Self::GroupDestruct(group) | Self::GroupOther(group) => &group.procs,
            Self::Service(Service::JobControl(control)) => &control.targets,
            Self::IofPull(pull) => &pull.procs,
            Self::Service(Service::IofPush(push)) => &push.targets,
            Self::Get(Get { proc, .. }) | Self::RefreshCache(proc) => std::slice::from_ref(proc),
            _ => &[],
        };
        procs.iter().any(is_nobody)
    }
}
