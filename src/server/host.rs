//! What the server and its host say to each other. Each family (publish, spawn, groups ...) is one variant of [`Upcall`]
//! and, if its answer carries data, one of [`HostReply`]; what the requests hold is in `requests`.

use std::time::Duration;

use super::config::Capabilities;
use super::io::{Credentials, ToolKind};
use super::requests::{
    Allocate, Connect, Credential, CredentialRequest, GroupRequest, IofOutput, IofPull, JobControl, Log, Lookup,
    Monitor, Publish, PushStdin, QueryRequest, Spawn, Unpublish, ValidateRequest,
};
use crate::events::Event;
use crate::gds::registration::Description;
use crate::proto::exchange::PackedFence;
use crate::types::{Info, Key, Kval, Namespace, Pdata, ProcId, Status, Text};

/// Names one call of the host; chosen by the caller, given back in [`HostResult`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// Names one upcall; chosen by the core, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UpcallId(pub u64);

/// A call of the host. Each is completed exactly once.
///
/// Source: PMIx Standard, "Server-Specific Interfaces".
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum HostCall {
    /// Describes a job, or describes it anew.
    RegisterNamespace(RegisterNamespace),
    /// Adds to the description of a job that is registered; what it said under the same keys is replaced.
    ExtendNamespace(Namespace, Description),
    /// Forgets a job; everything pending on it ends with a status. Unknown names are harmless.
    DeregisterNamespace(Namespace),
    /// Announces a local process.
    RegisterClient(RegisterClient),
    /// Says what is known of a local process since it was started. Unknown processes are harmless.
    DescribeProcess(ProcessFacts),
    /// Names a set of processes, and tells the processes here.
    DefineProcessSet(ProcessSet),
    /// Takes a name back, and tells the processes here. Unknown names are not found.
    DeleteProcessSet {
        /// The set's name.
        name: Text,
        /// Who is told to have said so.
        source: ProcId,
    },
    /// Says that a local process has ended. Unknown processes are harmless.
    DeregisterClient(ProcId),
    /// Asks for what a local process posted for other nodes.
    DirectModexRequest(DirectModexRequest),
    /// The server's own process wants data, as a client on this node would.
    Get(OwnGet),
    /// Hands over inventories of nodes, as blobs. That of a node takes the place of its older one.
    DeliverInventories(Vec<Vec<u8>>),
    /// Hands over output of a process, for whoever has pulled it. Nobody has: it is kept for a while.
    IofDeliver(IofOutput),
    /// The host has other functions from now on.
    Capabilities(Capabilities),
    /// Tells local processes of an event that the host knows of.
    NotifyEvent(Event),
    /// The server's own process wants events.
    RegisterEvents(RegisterEvents),
    /// The server's own process no longer wants these events. The marker of default handlers is
    /// [`events::DEFAULT_HANDLER`](crate::events::DEFAULT_HANDLER).
    DeregisterEvents(Vec<Status>),
}

/// A job's description. Operations of many processes wait for that of each job that they name, so servers get it where the
/// job has no process, too.
#[derive(Clone, Debug, PartialEq)]
pub struct RegisterNamespace {
    /// The job's name.
    pub namespace: Namespace,
    /// How many local processes a wildcard participant stands for; `None`: as said before or, if never said, as many
    /// as are registered.
    pub local_count: Option<u32>,
    /// The job's data.
    pub description: Description,
    /// Record the name only, keep no job data.
    pub nodata: bool,
}

/// A local process that will connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterClient {
    /// The process; its rank must be that of one process.
    pub proc: ProcId,
    /// User id the kernel must report for its connections.
    pub uid: u32,
    /// Group id the kernel must report for its connections.
    pub gid: u32,
    /// Handed back in upcalls about this process.
    pub object: u64,
}

/// What a host knows of a process that it has started, for those who ask for the table of processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessFacts {
    /// The process.
    pub proc: ProcId,
    /// The operating system's number for it.
    pub pid: u32,
    /// Its program.
    pub executable: Option<Text>,
}

/// A fixed set of processes with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessSet {
    /// Distinct from every namespace and other set, which is the host's to see to.
    pub name: Text,
    /// The processes; the wildcard rank: all of a namespace.
    pub members: Vec<ProcId>,
    /// Who is told to have said so.
    pub source: ProcId,
}

/// A request of another node for a local process's data, held until the process has committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectModexRequest {
    /// The process, or the wildcard rank for job-level data.
    pub proc: ProcId,
    /// A key that must be present before the answer; `None`: any commit will do.
    pub key: Option<Key>,
    /// How long to hold it; `None`: until the process has committed or is gone.
    pub timeout: Option<Duration>,
}

/// What the server's own process wants to know.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnGet {
    /// Whose data: a process, or the wildcard rank for the job's.
    pub proc: ProcId,
    /// The key; `None`: everything.
    pub key: Option<Key>,
    /// Directives of `PMIx_Get`.
    pub directives: Vec<Info>,
}

/// What became of a [`HostCall`].
#[derive(Clone, Debug, PartialEq)]
pub enum HostResult {
    /// Only whether it worked.
    Status(Status),
    /// The data asked for.
    Entries(Vec<Kval>),
    /// It failed, and the datastore says more than a status can. Text, because each datastore has errors of its own.
    Failed {
        /// What the error means in the standard's terms.
        status: Status,
        /// What happened, to what, and what to do, for people.
        reason: String,
    },
}

/// Something only the host can do. Answered by [`HostReply`] at any later time, or never.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Upcall {
    /// A client wants in; anything but success refuses it.
    ClientConnected {
        /// The client.
        proc: ProcId,
        /// As given at its registration.
        object: u64,
        /// Facts about the connection.
        directives: Vec<Info>,
    },
    /// A client leaves in order and is held until the answer.
    ClientFinalized {
        /// The client.
        proc: ProcId,
        /// As given at its registration.
        object: u64,
    },
    /// End processes.
    Abort(AbortUpcall),
    /// All local participants have arrived; exchange the contributions of all servers.
    Fence(FenceUpcall),
    /// Somebody here wants events of the environment that nobody here wanted before.
    RegisterEvents(RegisterEvents),
    /// Nobody here wants these events of the environment any more. The answer is not waited for.
    DeregisterEvents(Vec<Status>),
    /// Take an event on to those in range who are not on this node.
    NotifyEvent(Event),
    /// Fetch data of a process elsewhere, or of a whole job (wildcard rank).
    DirectModex {
        /// Whose data.
        proc: ProcId,
        /// `PMIX_REQUIRED_KEY` and `PMIX_TIMEOUT`, if the request had them.
        directives: Vec<Info>,
    },
    /// Make data available for lookup.
    Publish(Publish),
    /// Find published data. Answered by [`HostReply::Lookup`].
    Lookup(Lookup),
    /// Withdraw published data.
    Unpublish(Unpublish),
    /// Start a job. Answered by [`HostReply::Spawned`].
    Spawn(Spawn),
    /// All local participants want to be connected.
    Connect(Connect),
    /// All local participants want to be disconnected.
    Disconnect(Connect),
    /// Answer queries. Answered by [`HostReply::Infos`].
    Query(QueryRequest),
    /// Log data.
    Log(Log),
    /// Change an allocation. Answered by [`HostReply::Infos`].
    Allocate(Allocate),
    /// Control processes. Answered by [`HostReply::Infos`].
    JobControl(JobControl),
    /// Watch something. Answered by [`HostReply::Infos`].
    Monitor(Monitor),
    /// Make a credential. Answered by [`HostReply::Credential`].
    GetCredential(CredentialRequest),
    /// Check a credential. Answered by [`HostReply::Infos`].
    ValidateCredential(ValidateRequest),
    /// Forward output to this server from now on.
    IofPull(IofPull),
    /// Feed standard input.
    PushStdin(PushStdin),
    /// A tool wants to connect; it is held until the answer. Answered by [`HostReply::Tool`].
    ToolConnected(ToolUpcall),
    /// Form or dissolve a group. Answered by [`HostReply::Infos`].
    Group(GroupRequest),
}

/// A tool that wants to connect.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolUpcall {
    /// What it is.
    pub kind: ToolKind,
    /// The name it brings, if any; otherwise it wants one.
    pub claimed: Option<ProcId>,
    /// Whose process it is, according to the kernel.
    pub credentials: Credentials,
    /// What it says of itself, its release (`PMIX_VERSION_INFO`), the kernel's ids (`PMIX_USERID`, `PMIX_GRPID`), and its
    /// name if it brings one (`PMIX_NSPACE`, `PMIX_RANK`).
    pub directives: Vec<Info>,
}

/// Events that the host is to pass on to this server.
#[derive(Clone, Debug, PartialEq)]
pub struct RegisterEvents {
    /// Their codes.
    pub codes: Vec<Status>,
    /// Directives of the registration.
    pub directives: Vec<Info>,
}

/// Who wants whom ended.
#[derive(Clone, Debug, PartialEq)]
pub struct AbortUpcall {
    /// Who asks.
    pub requester: ProcId,
    /// As given at the requester's registration.
    pub object: u64,
    /// Status to report.
    pub status: Status,
    /// Message for people.
    pub message: Option<Text>,
    /// Whom to end; empty: the requester's whole namespace.
    pub procs: Vec<ProcId>,
}

/// One server's part of a fence.
#[derive(Clone, Debug, PartialEq)]
pub struct FenceUpcall {
    /// The participants, sorted, each entry once.
    pub procs: Vec<ProcId>,
    /// Directives of the first arrival, then `PMIX_LOCAL_COLLECTIVE_STATUS` if local participants are missing.
    pub directives: Vec<Info>,
    /// What this server contributes.
    pub data: FenceData,
    /// The namespaces of the participants in the order of their first mention, each with its number of processes if
    /// that is known. Servers number the participants with them when they exchange data.
    pub namespaces: Vec<(Namespace, Option<u32>)>,
}

/// Data that servers exchange in a fence.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FenceData {
    /// Whether the participants asked for an exchange. All servers must agree.
    pub collect: bool,
    /// Values by process; a process without values is left out.
    pub blocks: Vec<(ProcId, Vec<Kval>)>,
}

/// The host's answer to an [`Upcall`].
///
/// A status alone answers any upcall; success without data means that there is none.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum HostReply {
    /// Only whether it worked.
    Status(Status),
    /// The outcome of a fence with the contributions of all servers, in any order; one's own may be among them.
    Fence {
        /// Whether it worked, for every participant.
        status: Status,
        /// Values by process.
        blocks: Vec<(ProcId, Vec<Kval>)>,
    },
    /// The same, as servers have packed it (see [`crate::ExchangeForm`]). It is read where it lies and given back
    /// afterwards.
    PackedFence {
        /// Whether it worked, for every participant.
        status: Status,
        /// The contributions one after the other.
        packed: PackedFence,
    },
    /// Data fetched; successful.
    DirectModex(Vec<Kval>),
    /// Published data found.
    Lookup {
        /// Success, or `PARTIAL_SUCCESS` if keys are missing.
        status: Status,
        /// What was found.
        found: Vec<Pdata>,
    },
    /// A job was started.
    Spawned(Namespace),
    /// Results as infos.
    Infos {
        /// Success, or why there are only these.
        status: Status,
        /// The results.
        info: Vec<Info>,
    },
    /// A credential was made.
    Credential(Credential),
    /// A tool may come, under this name. None: the one it brings, or one that the server makes up.
    Tool(Option<ProcId>),
}
