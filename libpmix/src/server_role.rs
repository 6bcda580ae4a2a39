//! A process that is a server and no client, as client functions see it.

use std::sync::Arc;

use modex::Server;
use modex::topo::TopologyError;
use modex::types::{Info, Key, ProcId, Value};

use super::child_input::ChildInput;
use super::client::KeptValues;
use super::hwloc::RawTopology;
use super::output::{PullOutputs, Stream};

/// A server process in the place of a client. [`Server`] has the client functions of its own process.
pub(super) trait ServerRole: Send + Sync {
    /// Values that callers look at without owning them.
    fn kept(&self) -> &KeptValues;

    /// The server.
    fn server(&self) -> &Server;

    /// Whether this process writes logs itself: a gateway, or a server whose host has no log.
    fn writes_logs(&self) -> bool;

    /// Whether this process writes the log of the system for the whole cluster.
    fn has_global_syslog(&self) -> bool;

    /// The pulls whose output this process writes.
    fn outputs(&self) -> &PullOutputs;

    /// Writes a text to the standard output or error of this process.
    fn write_log(&self, stream: Stream, text: &[u8]);

    /// Takes processes that this process has started itself out of a list of targets. Returns their inputs that are
    /// open.
    fn take_child_inputs(&self, targets: &mut Vec<ProcId>) -> Vec<(ProcId, Arc<ChildInput>)>;

    /// A process that this process has started itself gets no more input.
    fn close_child_input(&self, proc: &ProcId);

    /// Whether the host has asked this process for a pause of its standard input (`PMIx_server_IOF_flow_control`).
    fn pauses_own_input(&self) -> bool;

    /// The topology of the node as an object for callers.
    fn topology_object(&self) -> Result<&'static RawTopology, TopologyError>;

    /// The value of a Get for the topology that the host gave this process. `None` for other Gets.
    fn topology_value(&self, proc: Option<&ProcId>, key: Option<&Key>, directives: &[Info]) -> Option<Value>;
}
