//! Requests that start, end and control processes, and requests about their hardware.

use super::layout::{Many, One, layout};
use super::{Abort, ResolvePeers, ResourceBlock, SessionControl, Spawn};
use crate::bfrops::wire::{Info, Proc, ResblockDirective, ResourceUnit, Status, String, Uint32};
use crate::keys;
use crate::types::Value;

layout! {
    Abort { status: One<Status>, message: One<String>, procs: Many<Proc> }
    ResourceBlock {
        directive: One<ResblockDirective>, name: One<String>, units: Many<ResourceUnit>, directives: Many<Info>,
    }
    ResolvePeers { node: One<String>, namespace: One<String> }
    SessionControl { session: One<Uint32>, directives: Many<Info> }
}

impl Spawn {
    /// Whether each parent (`PMIX_PARENT_ID`) that the job or an application names is a process.
    #[must_use]
    pub fn has_valid_parents(&self) -> bool {
        let mut directives = self.job.iter().chain(self.apps.iter().flat_map(|app| &app.info));
        directives.all(|info| info.key.as_str() != keys::PARENT_ID.name() || matches!(info.value, Value::Proc(_)))
    }
}
