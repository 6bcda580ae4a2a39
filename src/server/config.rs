use std::time::Duration;

use crate::types::{ProcId, Text};

bitflags::bitflags! {
    /// Which upcalls the host answers. What happens without one follows the standard's rule for a missing entry of the
    /// server module, named at each flag.
    ///
    /// Source: PMIx Standard, "Server-Specific Interfaces" (server module).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Capabilities: u32 {
        /// Is asked before a client is admitted; without: admitted at once.
        const CLIENT_CONNECTED = 1;
        /// Is told when a client leaves in order; without: released at once.
        const CLIENT_FINALIZED = 1 << 1;
        /// Ends processes; without: not supported.
        const ABORT = 1 << 2;
        /// Exchanges fence contributions between servers; without: local fences succeed, others are not supported.
        const FENCE = 1 << 3;
        /// Fetches data of processes elsewhere; without: not found.
        const DIRECT_MODEX = 1 << 4;
        /// Makes data available for lookup; without: not supported, as for all of the following that say nothing else.
        const PUBLISH = 1 << 8;
        /// Finds published data.
        const LOOKUP = 1 << 9;
        /// Withdraws published data.
        const UNPUBLISH = 1 << 10;
        /// Starts jobs.
        const SPAWN = 1 << 11;
        /// Connects processes; without: those of this node alone are connected, others are not supported.
        const CONNECT = 1 << 12;
        /// Does not register each job with each server, but some only when it is asked to connect to them, as the daemons of
        /// Open MPI do with the jobs of another `mpirun`: it is asked to connect at once, and groups and disconnects wait a
        /// second for jobs that are not registered, which then live elsewhere; without: operations wait until all jobs that
        /// they name are registered here. Fences always do.
        const REGISTERS_ON_CONNECT = 1 << 25;
        /// Disconnects processes; without: as for connecting.
        const DISCONNECT = 1 << 13;
        /// Answers queries.
        const QUERY = 1 << 14;
        /// Logs data.
        const LOG = 1 << 15;
        /// Changes allocations.
        const ALLOCATE = 1 << 16;
        /// Controls processes.
        const JOB_CONTROL = 1 << 17;
        /// Watches processes, files and nodes.
        const MONITOR = 1 << 18;
        /// Makes credentials.
        const GET_CREDENTIAL = 1 << 19;
        /// Checks credentials.
        const VALIDATE_CREDENTIAL = 1 << 20;
        /// Forwards output.
        const IOF_PULL = 1 << 21;
        /// Feeds standard input.
        const PUSH_STDIN = 1 << 22;
        /// Forms groups across nodes and hands out context numbers; without: groups of this node alone are formed, the
        /// rest is not supported.
        const GROUP = 1 << 23;
        /// Is asked for events of the environment when somebody here wants them; without: registration for the
        /// environment's own codes is not supported, that for applications' codes needs no host.
        const REGISTER_EVENTS = 1 << 5;
        /// Is told when nobody here wants events of the environment any more; without: not told.
        const DEREGISTER_EVENTS = 1 << 6;
        /// Takes events of processes on to others; without: they reach the processes of this node, and those meant
        /// for the host alone are not supported.
        const NOTIFY_EVENT = 1 << 7;
        /// Decides about tools and names them; without: the library does, as its [`ToolPolicy`] says.
        const TOOL_CONNECTED = 1 << 24;
    }
}

/// How a server behaves. Made once, at the edge.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Which upcalls the host answers.
    pub capabilities: Capabilities,
    /// Which tools may connect.
    pub tools: ToolPolicy,
    /// Bounds on what peers can make the server hold.
    pub limits: Limits,
    /// How long the host may take to answer an upcall; then whoever waits gets a timeout status. `None`: for ever.
    pub host_timeout: Option<Duration>,
    /// What the numbers of commits begin behind. Other nodes keep the newest number of each process, so those of a server
    /// that takes the place of another should be larger.
    pub commit_base: u64,
    /// Whether whoever runs this server has the node's topology and answers [`Output::ReplyTopology`].
    ///
    /// [`Output::ReplyTopology`]: super::Output::ReplyTopology
    pub answers_topology: bool,
    /// The name and address under which processes find this server. `None`: they find none.
    pub contact: Option<Contact>,
}

/// The name of a server and the place where tools reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contact {
    /// Its name.
    pub proc: ProcId,
    /// Its address, in the form `<namespace>.<rank>;<place>`.
    pub uri: Text,
}

/// Which tools may connect. Processes that the host announced always may.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolPolicy {
    /// Whether, and who names them.
    pub admission: ToolAdmission,
    /// Whether those of every user may, not only root's and the server's own.
    pub any_user: bool,
    /// The server's effective user id. It also decides for whom the server removes what processes leave behind.
    pub own_uid: u32,
    /// What the namespaces of tools begin with that the library names. A number follows.
    pub name_prefix: String,
}

/// Whether tools may connect, and who names them where the host does not ([`Capabilities::TOOL_CONNECTED`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolAdmission {
    /// None may.
    #[default]
    Refused,
    /// Those may that bring a name, and those that the host names.
    Named,
    /// All may; whom the host does not name, the library does.
    Assigned,
}

/// Bounds on what peers and the host can make the server hold. What would exceed one is refused with "out of resource". Of
/// what all processes share, one user takes no more than others find left; root and the server's user may take all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time. Beyond one for each process, a user may have at most half of them, and less if other users
    /// have some.
    pub peers_max: usize,
    /// Those of one process, forked children that go by its name included.
    pub peers_per_process_max: usize,
    /// Those of all tools of one user together.
    pub tools_per_user_max: usize,
    /// Unanswered requests of one connection. Commits and finalizations are always taken: they never wait for others.
    pub requests_per_peer_max: usize,
    /// Collective operations open at a time, those that the host is working on included.
    pub collectives_max: usize,
    /// Those that one process has arrived at.
    pub collectives_per_process_max: usize,
    /// Memory that the participants and directives of all open collectives may take, in bytes.
    pub collective_bytes_max: usize,
    /// Entries in the participant list of one collective, as written.
    pub participants_max: usize,
    /// Direct-modex upcalls in flight.
    pub direct_modex_max: usize,
    /// Memory that held requests of processes for data may take, in bytes.
    pub held_get_bytes_max: usize,
    /// Requests of the host for local data that are held.
    pub host_requests_max: usize,
    /// Names of jobs that have ended, kept so that nobody waits for them. The oldest are forgotten; nothing is refused.
    pub jobs_ended_max: usize,
    /// Groups known at a time.
    pub groups_max: usize,
    /// Members of all groups together, as written.
    pub group_members_max: usize,
    /// Groups that one process took part in forming.
    pub groups_per_process_max: usize,
    /// Sets that one process is connected with, jobs that it has started, and groups with other jobs that it is in, at a
    /// time.
    pub ties_per_process_max: usize,
    /// Standing requests for forwarded output.
    pub pulls_max: usize,
    /// Those of one process.
    pub pulls_per_process_max: usize,
    /// Bytes of output kept for whoever will ask for it.
    pub kept_output_bytes_max: usize,
    /// Paths that are registered for removal at the end of processes.
    pub cleanup_paths_max: usize,
    /// Bytes of these paths.
    pub cleanup_bytes_max: usize,
    /// Paths that one process has registered.
    pub cleanup_paths_per_process_max: usize,
    /// Bytes of these paths.
    pub cleanup_bytes_per_process_max: usize,
    /// Event codes that one client may want at a time.
    pub event_codes_max: usize,
    /// Keys in all queries of one request.
    pub query_keys_max: usize,
    /// Bytes of memory that the answer to the queries of one request may take. Room for the tables of a job of 100,000
    /// processes; what is sent is smaller.
    pub query_bytes_max: usize,
    /// Bytes of values that the answer to a Get of one key may carry besides it. Release 6.1 takes messages of 32 MiB,
    /// release 3.2 of 16 MiB.
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
            direct_modex_max: 1 << 17,
            held_get_bytes_max: 1 << 30,
            host_requests_max: 131_072,
            jobs_ended_max: 128,
            groups_max: 65_536,
            groups_per_process_max: 4096,
            group_members_max: 1 << 23,
            ties_per_process_max: 4096,
            pulls_max: 65_536,
            pulls_per_process_max: 1024,
            kept_output_bytes_max: 1 << 20,
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
