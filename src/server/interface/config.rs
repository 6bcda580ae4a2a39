//! The capabilities of the host, limits, and rules for tools.

use std::sync::Arc;
use std::time::Duration;

use super::output_settings::{KEPT_BYTES_MAX, OutputSettings};
use crate::fabric::FabricHandle;
use crate::proto::{Service, with_services};
use crate::storage;
use crate::topo::inventory::{SharedInventories, StoredInventory};
use crate::types::{ProcId, Text};
use crate::usage::is_of_this_node;

macro_rules! capabilities {
    ($(
        $(#$doc:tt)*
        $service:ident = $code:literal, $capability:ident = $bit:literal,
        fn $method:ident($directives:ident) -> $answer:ty { $($fields:tt)* }
    )*) => {
        bitflags::bitflags! {
            /// Upcalls that the host answers. Without one, the standard's rule for a missing entry of the server module
            /// applies, named at each flag.
            ///
            /// Source: PMIx Standard, "Server-Specific Interfaces" (server module).
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
            pub struct Capabilities: u32 {
                /// Is asked before a client is admitted; without: admitted at once.
                const CLIENT_CONNECTED = 1;
                /// Learns of a client's finalization; without: the client is released at once.
                const CLIENT_FINALIZED = 1 << 1;
                /// Ends processes; without: not supported.
                const ABORT = 1 << 2;
                /// Exchanges fence contributions between servers; without: local fences succeed, other fences are not
                /// supported.
                const FENCE = 1 << 3;
                /// Fetches data of processes on other nodes; without: not found.
                const DIRECT_MODEX = 1 << 4;
                $(
                    $(#$doc)*
                    ///
                    /// Without: not supported. Queries and heartbeats need no host, and files with
                    /// [`ServerConfig::watches_files`].
                    const $capability = 1 << $bit;
                )*
                /// Connects processes; without: processes of this node alone are connected, other requests are not
                /// supported.
                const CONNECT = 1 << 12;
                /// Registers some jobs only on a connect request for them, as the daemons of Open MPI do with the jobs
                /// of another `mpirun`. The host gets connect requests at once. Groups and disconnects wait a second
                /// for unregistered jobs, which then count as jobs of other nodes. Without: operations wait until all
                /// jobs that they name are registered here. Fences always do.
                const REGISTERS_ON_CONNECT = 1 << 25;
                /// Gets only connects and disconnects with processes of other nodes, as hosts of OpenPMIx do. Without:
                /// gets all of them.
                const CONNECTS_OTHER_NODES_ONLY = 1 << 26;
                /// Disconnects processes; without: as for connecting.
                const DISCONNECT = 1 << 13;
                /// Forwards output; without: not supported.
                const IOF_PULL = 1 << 21;
                /// Forms groups across nodes and assigns context numbers; without: groups of this node alone are
                /// formed, other requests are not supported.
                const GROUP = 1 << 23;
                /// Gets requests for events of the environment when a local process wants them. Without: registration
                /// for the environment's own codes is not supported; registration for applications' codes needs no
                /// host.
                const REGISTER_EVENTS = 1 << 5;
                /// Gets a notice when no local process wants events of the environment any more; without: none.
                const DEREGISTER_EVENTS = 1 << 6;
                /// Takes processes' events on to other nodes; without: they reach the processes of this node, and
                /// events for the host alone are not supported.
                const NOTIFY_EVENT = 1 << 7;
                /// Decides about tools and names them; without: the library does, as its [`ToolPolicy`] says.
                const TOOL_CONNECTED = 1 << 24;
            }
        }
    };
}

with_services!(capabilities);

/// The services that the server's runtime answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServiceRules {
    own_services: Capabilities,
    stages_files: bool,
    shares_monitoring: bool,
}

impl ServiceRules {
    /// Whether the runtime answers this request, with a host of these capabilities. A service that is switched on takes
    /// the place of a function that the host does not have. Requests about files, and shared ones about this node, are
    /// the runtime's in any case.
    pub(crate) fn is_own(self, service: &Service, host: Capabilities) -> bool {
        let needs = service.needs();
        match service {
            Service::JobControl(control) if self.stages_files && storage::has_directive(&control.directives) => true,
            Service::Monitor(request) if self.shares_monitoring && is_of_this_node(&request.directives) => true,
            _ => self.own_services.contains(needs) && !host.contains(needs),
        }
    }

    /// Whether the runtime measures anything, with a host of these capabilities.
    pub(crate) const fn measures(self, host: Capabilities) -> bool {
        let is_left = self.shares_monitoring || !host.contains(Capabilities::MONITOR);
        is_left && self.own_services.contains(Capabilities::MONITOR)
    }
}

/// Configuration of a server. Made once, at the edge.
#[derive(Clone, Debug, Default)]
pub struct ServerConfig {
    /// Upcalls that the host answers.
    pub capabilities: Capabilities,
    /// Services that the server's runtime answers if the host does not.
    pub own_services: Capabilities,
    /// Whether the server's runtime looks at files for processes of the server's user (`PMIX_MONITOR_FILE`).
    pub watches_files: bool,
    /// Whether the runtime monitors this node, and the host other nodes alone.
    pub shares_monitoring: bool,
    /// Tools that may connect.
    pub tools: ToolPolicy,
    /// Bounds on the state that peers can make the server hold.
    pub limits: Limits,
    /// Directives for output. Those of spawns and of pulls have precedence.
    pub output: OutputSettings,
    /// Time that the host has to answer an upcall; then waiting requests get a timeout status. `None`: no bound.
    pub host_timeout: Option<Duration>,
    /// Time in which lost connections give one event in the server's process. Zero: each gives one at once.
    pub loss_window: Duration,
    /// Commit numbers start after this one. Other nodes keep the newest number of each process, so a replacement of a
    /// server needs larger numbers.
    pub commit_base: u64,
    /// Whether the server's runtime has the node's topology and answers [`Answer::Topology`].
    ///
    /// [`Answer::Topology`]: crate::server::Answer::Topology
    pub answers_topology: bool,
    /// Whether the host gets one request at a time for the data of a process of another node. PRRTE up to 4.1 answers
    /// all open ones with the first answer. Then a request for a key that the process never posts delays those for
    /// other keys. It also delays a fence that makes up for a missed one.
    pub one_fetch_per_process: bool,
    /// The fabric for which a server in the role of the scheduler answers.
    pub fabric: Option<FabricHandle>,
    /// Delivered inventories, for the server's runtime to read. A clone of the configuration has the same.
    pub inventories: SharedInventories,
    /// The kernel's facts about this node, for queries where the topology has no more. `None`: queries find delivered
    /// inventories alone.
    pub kernel_inventory: Option<Arc<StoredInventory>>,
    /// Whether the server's runtime answers queries about storage that the host leaves, after [`Output::Look`].
    ///
    /// [`Output::Look`]: crate::server::Output::Look
    pub answers_storage: bool,
    /// Whether the server's runtime stages, moves and caches files for the server's user.
    pub stages_files: bool,
    /// The name and address under which processes find this server. `None`: they do not find it.
    pub contact: Option<Contact>,
}

impl ServerConfig {
    pub(crate) const fn service_rules(&self) -> ServiceRules {
        let Self { own_services, stages_files, shares_monitoring, .. } = *self;
        ServiceRules { own_services, stages_files, shares_monitoring }
    }
}

/// A server's name and address for tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contact {
    /// Its name.
    pub proc: ProcId,
    /// Its address, in the form `<namespace>.<rank>;<place>`.
    pub uri: Text,
}

/// Rules for tools. Processes that the host announced may always connect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolPolicy {
    /// Whether tools may connect, and who names them.
    pub admission: ToolAdmission,
    /// Whether tools of every user may connect, not only those of root and of the server's user.
    pub any_user: bool,
    /// The server's effective user id. The server removes leftovers of this user's processes only.
    pub own_uid: u32,
    /// Prefix of the namespaces that the library gives to tools. A number follows.
    pub name_prefix: String,
}

/// Whether tools may connect, and who names them if the host does not ([`Capabilities::TOOL_CONNECTED`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolAdmission {
    /// No tool may connect.
    #[default]
    Refused,
    /// Tools that bring a name may connect, and tools that the host names.
    Named,
    /// All tools may connect; the library names tools without a name from the host.
    Assigned,
}

/// Bounds on the state that peers and the host can make the server hold. A request beyond a bound is refused with "out
/// of resource". A user gets only a part of the rest of a resource that all processes share. Root and the server's user
/// may take all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time. Beyond one for each process, a user may have at most half of them, and less if other
    /// users have some.
    pub peers_max: usize,
    /// Connections of one process, including forked children with its name.
    pub peers_per_process_max: usize,
    /// Connections of all tools of one user together.
    pub tools_per_user_max: usize,
    /// Unanswered requests of one connection. Commits and finalizations are always taken: they never wait for others.
    pub requests_per_peer_max: usize,
    /// Open collective operations, including those at the host.
    pub collectives_max: usize,
    /// Collective operations at which one process has arrived.
    pub collectives_per_process_max: usize,
    /// Memory that the participants and directives of all open collectives may take, in bytes.
    pub collective_bytes_max: usize,
    /// Entries in the participant list of one collective, as written.
    pub participants_max: usize,
    /// Jobs in such a list. Each is looked up by itself.
    pub participant_jobs_max: usize,
    /// Direct-modex upcalls in flight.
    pub direct_modex_max: usize,
    /// Memory that held requests of processes for data may take, in bytes.
    pub held_get_bytes_max: usize,
    /// Held requests of the host for local data.
    pub host_requests_max: usize,
    /// Remembered names of ended jobs, so that no request waits for them. The oldest are forgotten; nothing is refused.
    pub jobs_ended_max: usize,
    /// Groups known at a time.
    pub groups_max: usize,
    /// Members of all groups together, as written.
    pub group_members_max: usize,
    /// Groups that one process helped to form.
    pub groups_per_process_max: usize,
    /// Ties of one process at a time: sets that it is connected with, jobs that it has started, and groups with other
    /// jobs.
    pub ties_per_process_max: usize,
    /// Standing requests for forwarded output.
    pub pulls_max: usize,
    /// Standing requests of one process.
    pub pulls_per_process_max: usize,
    /// Bytes of output kept for a later request.
    pub kept_output_bytes_max: usize,
    /// Bytes of output that deliveries to processes wait with (`PMIX_IOF_BUFFERING_SIZE`). Beyond them they wait no
    /// longer.
    pub collected_output_bytes_max: usize,
    /// Paths registered for removal at the end of processes.
    pub cleanup_paths_max: usize,
    /// Bytes of these paths.
    pub cleanup_bytes_max: usize,
    /// Paths that one process has registered.
    pub cleanup_paths_per_process_max: usize,
    /// Bytes of these paths.
    pub cleanup_bytes_per_process_max: usize,
    /// Event codes that one client may register for at a time.
    pub event_codes_max: usize,
    /// Keys in all queries of one request.
    pub query_keys_max: usize,
    /// Bytes of memory for the answer to the queries of one request. This is room for the tables of a job of 100,000
    /// processes; the message is smaller.
    pub query_bytes_max: usize,
    /// Bytes of further values in the answer to a Get of one key. Release 6.1 accepts messages of 32 MiB, release 3.2
    /// of 16 MiB.
    pub reply_bytes_max: usize,
}

impl Default for Limits {
    /// Room for 512 local clients with a few clones each and participant lists of a million explicit ranks.
    fn default() -> Self {
        Self {
            peers_max: 8192,
            peers_per_process_max: 256,
            tools_per_user_max: 1024,
            requests_per_peer_max: 4096,
            collectives_max: 4096,
            collectives_per_process_max: 1024,
            collective_bytes_max: 512 << 20,
            participants_max: 1 << 20,
            participant_jobs_max: 4096,
            direct_modex_max: 1 << 17,
            held_get_bytes_max: 1 << 30,
            host_requests_max: 131_072,
            jobs_ended_max: 128,
            groups_max: 65_536,
            groups_per_process_max: 4096,
            group_members_max: 1 << 23,
            ties_per_process_max: 4096,
            pulls_max: 4096,
            pulls_per_process_max: 1024,
            kept_output_bytes_max: KEPT_BYTES_MAX,
            collected_output_bytes_max: 64 << 20,
            cleanup_paths_max: 65_536,
            cleanup_bytes_max: 16 << 20,
            cleanup_paths_per_process_max: 8192,
            cleanup_bytes_per_process_max: 2 << 20,
            event_codes_max: 4096,
            query_keys_max: 4096,
            query_bytes_max: 64 << 20,
            reply_bytes_max: 8 << 20,
        }
    }
}
