//! The server's own process in the place of a client: the parts that need C.

use std::sync::Arc;

use modex::Server;
use modex::gds::qualified;
use modex::keys;
use modex::topo::TopologyError;
use modex::types::{Info, Key, ProcId, Value};

use super::state::ServerProcess;
use crate::child_input::ChildInput;
use crate::client::KeptValues;
use crate::hwloc::{self, RawTopology};
use crate::output::{PullOutputs, Stream};
use crate::server_role::ServerRole;

impl ServerRole for ServerProcess {
    fn kept(&self) -> &KeptValues {
        &self.kept
    }

    fn server(&self) -> &Server {
        Self::server(self)
    }

    fn writes_logs(&self) -> bool {
        let module = self.bridge.module();
        self.bridge.is_gateway || (module.log.is_none() && module.log2.is_none())
    }

    fn has_global_syslog(&self) -> bool {
        self.bridge.is_gateway
    }

    fn outputs(&self) -> &PullOutputs {
        &self.pulled
    }

    fn write_log(&self, stream: Stream, text: &[u8]) {
        self.output.log(Self::server(self).proc(), stream, text);
    }

    fn take_child_inputs(&self, targets: &mut Vec<ProcId>) -> Vec<(ProcId, Arc<ChildInput>)> {
        self.forked.take_inputs(targets)
    }

    fn close_child_input(&self, proc: &ProcId) {
        self.forked.close_input(proc);
    }

    fn pauses_own_input(&self) -> bool {
        self.bridge.flow.pauses(Self::server(self).proc())
    }

    fn topology_object(&self) -> Result<&'static RawTopology, TopologyError> {
        // If the machine can't be read, this fails after the same time as for other callers.
        match Self::server(self).topology() {
            Err(error @ (TopologyError::TooSlow | TopologyError::Unreachable { .. })) => Err(error),
            _ => self.topology.object(),
        }
    }

    fn topology_value(&self, proc: Option<&ProcId>, key: Option<&Key>, directives: &[Info]) -> Option<Value> {
        let (key, server) = (key.filter(|key| key.as_str() == keys::TOPOLOGY2.name())?, Self::server(self));
        let is_own = proc.is_none_or(|proc| proc == server.proc());
        if !is_own || !qualified::qualifiers(directives).is_empty() || server.has_stored(server.proc(), key) {
            return None;
        }
        let topology = self.topology_object().ok()?;
        Some(Value::Topology(Box::new(hwloc::exported(topology).ok()?)))
    }
}
