//! The interface between the server and its host.
//!
//! All services are one variant of [`Upcall`]: a requester and its request. Each form of an answer with data is one
//! variant of [`HostReply`].

use std::sync::Arc;
use std::time::Duration;

use super::config::Capabilities;
use super::connection::{Credentials, ToolKind};
use super::hardware_value::HardwareAnswer;
use super::query_answers::QueryAnswers;
use super::requests::{Connect, GroupRequest, IofOutput, Requester};
use super::unread::CommittedValues;
use crate::events::Event;
use crate::fabric::FabricHandle;
use crate::gds::LookupError;
use crate::gds::registration::{Description, ResourceChange};
use crate::proto::exchange::PackedFence;
use crate::proto::{Credential, IofPull, Service};
use crate::types::{AsStatus, Info, Key, Kval, Namespace, Pdata, ProcId, Query, Status, Text};

/// Identifies one call of the host; chosen by the caller, returned with [`HostResult`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostCallId(pub u64);

/// Identifies one upcall; chosen by the core, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UpcallId(pub u64);

/// A call of the host. Each is completed exactly once.
///
/// Source: PMIx Standard, "Server-Specific Interfaces".
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum HostCall {
    /// Describes a job, or describes it again.
    RegisterNamespace(RegisterNamespace),
    /// Extends the description of a registered job; values under the same keys are replaced.
    ExtendNamespace(Namespace, Description),
    /// Gives a registered job other resources.
    ChangeResources(Namespace, ResourceChange),
    /// Forgets a job; everything pending on it ends with a status. Unknown names are harmless.
    DeregisterNamespace(Namespace),
    /// Announces a local process.
    RegisterClient(RegisterClient),
    /// Adds facts about a local process since its start. Unknown processes are harmless.
    DescribeProcess(ProcessFacts),
    /// Names a set of processes, and informs the local processes.
    DefineProcessSet(ProcessSet),
    /// Deletes a name, and informs the local processes. Unknown names are not found.
    DeleteProcessSet {
        /// The set's name.
        name: Text,
        /// The source in the event.
        source: ProcId,
    },
    /// Reports the end of a local process. Unknown processes are harmless.
    DeregisterClient(ProcId),
    /// Requests the values that a local process posted for other nodes.
    DirectModexRequest(DirectModexRequest),
    /// A Get of the server's own process, as a local client would do it.
    Get(OwnGet),
    /// Queries of the server's own process that the host does not answer, or not all of them.
    Query(OwnQuery),
    /// Delivers inventories of nodes, as blobs. A node's inventory replaces its older one.
    DeliverInventories(Vec<Vec<u8>>),
    /// Delivers output of a process to its pullers. Output without a puller is kept for a while.
    IofDeliver(Arc<IofOutput>),
    /// Passes output of a process on to the clients that have pulled it, and keeps nothing. The status is that of a
    /// [`Delivery`].
    IofOffer(Arc<IofOutput>),
    /// As [`Self::IofOffer`]. Output without a puller is kept for a while if there is room.
    IofOfferOrKeep(Arc<IofOutput>),
    /// Pulls output for the server's own process.
    IofPull(Requester, IofPull),
    /// Ends the pull of the server's own process that has this number there (`local_id`).
    IofDeregister(u64),
    /// Forwards the output of a job to a tool that does not pull it.
    ForwardOutput {
        /// The tool.
        tool: ProcId,
        /// The job.
        job: Namespace,
        /// The channels.
        channels: u16,
    },
    /// A new revision of the fabric.
    Fabric(FabricHandle),
    /// The host's new functions.
    Capabilities(Capabilities),
    /// Notifies local processes of an event from the host.
    NotifyEvent(Event),
    /// Notifies the process that asked for samples, here or on another node.
    NotifyRequester(ProcId, Event),
    /// Registers the server's own process for events.
    RegisterEvents(RegisterEvents),
    /// Deregisters the server's own process from these events. The marker of default handlers is
    /// [`events::DEFAULT_HANDLER`](crate::events::DEFAULT_HANDLER).
    DeregisterEvents(Vec<Status>),
}

/// Queries of the server's own process. The result has a status of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnQuery {
    /// The server's own process.
    pub requester: Requester,
    /// The queries.
    pub queries: Vec<Query>,
    /// The host's status, if it was asked.
    pub host_status: Option<Status>,
    /// The host's answers.
    pub host_answers: Vec<Info>,
    /// The reason for missing values of the runtime.
    pub runtime_refusal: Option<Status>,
}

impl OwnQuery {
    /// Whether the host's status leaves parts of a query to the server.
    #[must_use]
    pub const fn is_left(status: Status) -> bool {
        matches!(status, Status::ERR_NOT_SUPPORTED | Status::ERR_NOT_FOUND | Status::ERR_PARTIAL_SUCCESS)
    }
}

/// A job's description. Operations of many processes wait for the description of each job that they name, so servers
/// without processes of the job get it, too.
#[derive(Clone, Debug, PartialEq)]
pub struct RegisterNamespace {
    /// The job's name.
    pub namespace: Namespace,
    /// Number of local processes that a wildcard participant means; `None`: the earlier number or, without one, the
    /// number of registered processes.
    pub local_count: Option<u32>,
    /// The job's data.
    pub description: Description,
    /// Record the name only, keep no job data.
    pub nodata: bool,
}

/// A local process that will connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterClient {
    /// The process; the rank must be a number.
    pub proc: ProcId,
    /// User id the kernel must report for its connections.
    pub uid: u32,
    /// Group id the kernel must report for its connections.
    pub gid: u32,
    /// Returned in upcalls about this process.
    pub object: u64,
}

/// The host's facts about a process that it has started, for the table of processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessFacts {
    /// The process.
    pub proc: ProcId,
    /// The operating system's process id.
    pub pid: u32,
    /// Its program.
    pub executable: Option<Text>,
}

/// A fixed set of processes with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessSet {
    /// A name distinct from every namespace and other set; the host ensures this.
    pub name: Text,
    /// The processes; the wildcard rank: all of a namespace.
    pub members: Vec<ProcId>,
    /// The source in the event.
    pub source: ProcId,
}

/// A request of another node for a local process's data, held until the process has committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectModexRequest {
    /// The process, or the wildcard rank for job-level data.
    pub proc: ProcId,
    /// A key that must be present before the answer; `None`: any commit will do.
    pub key: Option<Key>,
    /// Time to hold the request; `None`: until the process has committed or ended.
    pub timeout: Option<Duration>,
}

/// A Get of the server's own process.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnGet {
    /// The process, or the wildcard rank for job-level data.
    pub proc: ProcId,
    /// The key; `None`: everything.
    pub key: Option<Key>,
    /// Directives of `PMIx_Get`.
    pub directives: Vec<Info>,
}

/// The result of a [`HostCall`].
#[derive(Clone, Debug, PartialEq)]
pub enum HostResult<D = Vec<Kval>> {
    /// Success or an error.
    Status(Status),
    /// The requested data.
    Entries(D),
    /// The answers to queries, and whether they are all.
    Answers(Status, Vec<Info>),
    /// An error whose text says more than a status can. Text, because each datastore has errors of its own.
    Failed {
        /// The error in the standard's terms.
        status: Status,
        /// The event, its object and the remedy, for people.
        reason: String,
    },
}

/// The fate of output that a host offers with [`HostCall::IofOffer`] or [`HostCall::IofOfferOrKeep`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delivery {
    /// No process has pulled it.
    Unwanted,
    /// Processes get a copy.
    Copied,
    /// A process gets it in place of its usual destination (`PMIX_IOF_REDIRECT`).
    Redirected,
    /// No process has pulled it, and it is kept for the first that does.
    Kept,
}

impl Delivery {
    /// The status that stands for it.
    #[must_use]
    pub const fn status(self) -> Status {
        match self {
            Self::Unwanted => Status::ERR_NOT_FOUND,
            Self::Copied => Status::SUCCESS,
            Self::Redirected => Status::OPERATION_SUCCEEDED,
            Self::Kept => Status::OPERATION_IN_PROGRESS,
        }
    }

    /// The meaning of a status; `None`: an error.
    #[must_use]
    pub fn of(status: Status) -> Option<Self> {
        let all = [Self::Unwanted, Self::Copied, Self::Redirected, Self::Kept];
        all.into_iter().find(|delivery| delivery.status() == status)
    }
}

/// Data for the host. The host's thread reads or writes large data.
#[derive(Clone, Debug, PartialEq)]
pub enum HostData {
    /// Entries.
    Read(Vec<Kval>),
    /// The posted values of a process for another server.
    Unread(CommittedValues),
    /// The value of a Get about hardware.
    Hardware(HardwareAnswer),
    /// The answers to queries.
    Queries(QueryAnswers),
}

impl From<HostResult> for HostResult<HostData> {
    fn from(result: HostResult) -> Self {
        match result {
            HostResult::Status(status) => Self::Status(status),
            HostResult::Failed { status, reason } => Self::Failed { status, reason },
            HostResult::Answers(status, infos) => Self::Answers(status, infos),
            HostResult::Entries(entries) => Self::Entries(HostData::Read(entries)),
        }
    }
}

impl HostResult<HostData> {
    /// The result with its values.
    #[must_use]
    pub fn read(self) -> HostResult {
        match self {
            Self::Status(status) => HostResult::Status(status),
            Self::Failed { status, reason } => HostResult::Failed { status, reason },
            Self::Answers(status, infos) => HostResult::Answers(status, infos),
            Self::Entries(HostData::Read(entries)) => HostResult::Entries(entries),
            Self::Entries(HostData::Unread(values)) => {
                values.read().map_or_else(|error| HostResult::Status(error.status()), HostResult::Entries)
            }
            Self::Entries(HostData::Hardware(answer)) => HostResult::Entries(answer.into_entries()),
            Self::Entries(HostData::Queries(answers)) => match answers.into_parts() {
                (status, infos) if infos.is_empty() => HostResult::Status(status),
                (status, infos) => HostResult::Answers(status, infos),
            },
        }
    }
}

impl Upcall {
    /// The host's function.
    pub(in crate::server) const fn name(&self) -> &'static str {
        match self {
            Self::ClientConnected(_) => "client_connected",
            Self::ClientFinalized(_) => "client_finalized",
            Self::Abort(_) => "abort",
            Self::Fence(_) => "fence",
            Self::RegisterEvents(_) => "register_events",
            Self::DeregisterEvents(_) => "deregister_events",
            Self::NotifyEvent(_) => "notify_event",
            Self::DirectModex(_) => "direct_modex",
            Self::Service(..) => "a service",
            Self::Connect(_) => "connect",
            Self::Disconnect(_) => "disconnect",
            Self::IofPull(..) => "iof_pull",
            Self::ToolConnected(_) => "tool_connected",
            Self::Group(_) => "group",
        }
    }
}

/// A request that only the host can fulfil. Answered by [`HostReply`] at any later time, or never.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Upcall {
    /// A client wants to connect; any status but success refuses it.
    ClientConnected(ClientConnected),
    /// A client finalizes, and is held until the answer.
    ClientFinalized(ClientFinalized),
    /// End processes.
    Abort(AbortUpcall),
    /// All local participants have arrived; exchange the contributions of all servers.
    Fence(FenceUpcall<Contribution>),
    /// A local process wants events of the environment that no local process wanted before.
    RegisterEvents(RegisterEvents),
    /// No local process wants these events of the environment any more. The answer has no effect.
    DeregisterEvents(Vec<Status>),
    /// Take an event on to processes in range on other nodes.
    NotifyEvent(Event),
    /// Fetch data of a process on another node, or of a whole job (wildcard rank).
    DirectModex(DirectModex),
    /// A service for a process. The form of its answer is in the table of services.
    Service(Requester, Service),
    /// All local participants want to be connected.
    Connect(Connect),
    /// All local participants want to be disconnected.
    Disconnect(Connect),
    /// Forward output to this server from now on.
    IofPull(Requester, IofPull),
    /// A tool wants to connect; it is held until the answer. Answered by [`HostReply::Tool`].
    ToolConnected(ToolUpcall),
    /// Form or dissolve a group. Answered by [`HostReply::Infos`].
    Group(GroupRequest),
}

/// A process that wants to connect.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientConnected {
    /// The process.
    pub proc: ProcId,
    /// The object of its registration.
    pub object: u64,
    /// Facts about the connection.
    pub directives: Vec<Info>,
}

/// A process that has finalized.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientFinalized {
    /// The process.
    pub proc: ProcId,
    /// The object of its registration.
    pub object: u64,
}

/// Data wanted from another node.
#[derive(Clone, Debug, PartialEq)]
pub struct DirectModex {
    /// The owner of the data; wildcard rank: the job.
    pub proc: ProcId,
    /// `PMIX_REQUIRED_KEY` and `PMIX_TIMEOUT`, if the request had them.
    pub directives: Vec<Info>,
}

/// A tool that wants to connect.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolUpcall {
    /// The kind of tool.
    pub kind: ToolKind,
    /// Its own name, if any; otherwise it needs one.
    pub claimed: Option<ProcId>,
    /// Its owner, according to the kernel.
    pub credentials: Credentials,
    /// Its own infos, its release (`PMIX_VERSION_INFO`), the kernel's ids (`PMIX_USERID`, `PMIX_GRPID`), and its own
    /// name, if any (`PMIX_NSPACE`, `PMIX_RANK`).
    pub directives: Vec<Info>,
}

/// Events that the host must pass on to this server.
#[derive(Clone, Debug, PartialEq)]
pub struct RegisterEvents {
    /// Their codes.
    pub codes: Vec<Status>,
    /// Directives of the registration.
    pub directives: Vec<Info>,
}

/// A request to end processes.
#[derive(Clone, Debug, PartialEq)]
pub struct AbortUpcall {
    /// The requester.
    pub requester: ProcId,
    /// The object of the requester's registration.
    pub object: u64,
    /// Status to report.
    pub status: Status,
    /// Message for people.
    pub message: Option<Text>,
    /// The processes to end; empty: the requester's whole namespace.
    pub procs: Vec<ProcId>,
}

/// One server's part of a fence.
#[derive(Clone, Debug, PartialEq)]
pub struct FenceUpcall<D = FenceData> {
    /// The participants, sorted, each entry once.
    pub procs: Vec<ProcId>,
    /// Directives of the first arrival, then `PMIX_LOCAL_COLLECTIVE_STATUS` if local participants are missing.
    pub directives: Vec<Info>,
    /// The contribution of this server.
    pub data: D,
    /// The namespaces of the participants in the order of their first mention, each with its number of processes if
    /// known. Servers number the participants with them in exchanged data.
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

/// One server's part of a fence. [`FenceData`] is the same with its values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contribution {
    /// Whether the participants asked for an exchange.
    pub collect: bool,
    /// Values by process.
    pub parts: Vec<(ProcId, CommittedValues)>,
}

impl Contribution {
    fn read(&self) -> Result<FenceData, LookupError> {
        let mut blocks = Vec::with_capacity(self.parts.len());
        for (proc, values) in &self.parts {
            let entries = values.read()?;
            if !entries.is_empty() {
                blocks.push((proc.clone(), entries));
            }
        }
        Ok(FenceData { collect: self.collect, blocks })
    }
}

impl FenceUpcall<Contribution> {
    /// The upcall with the values.
    ///
    /// # Errors
    /// [`LookupError::Damaged`].
    pub fn read(self) -> Result<FenceUpcall, LookupError> {
        let Self { procs, directives, data, namespaces } = self;
        Ok(FenceUpcall { procs, directives, data: data.read()?, namespaces })
    }
}

/// The host's answer to an [`Upcall`].
///
/// A status alone answers any upcall; success without data means that there is none.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum HostReply {
    /// Success or an error.
    Status(Status),
    /// The result of a fence with the contributions of all servers, in any order; this server's own may be among them.
    Fence {
        /// The status for every participant.
        status: Status,
        /// Values by process.
        blocks: Vec<(ProcId, Vec<Kval>)>,
    },
    /// The same, as servers packed it (see [`crate::ExchangeForm`]). The server reads it in place, and then returns it.
    PackedFence {
        /// The status for every participant.
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
        /// The found data.
        found: Vec<Pdata>,
    },
    /// A job was started.
    Spawned(Namespace),
    /// Results as infos.
    Infos {
        /// Success, or the reason for missing results.
        status: Status,
        /// The results.
        info: Vec<Info>,
    },
    /// A credential was made.
    Credential(Credential),
    /// A tool is admitted under this name. None: under its own name, or under a new one from the server.
    Tool(Option<ProcId>),
}

impl HostReply {
    /// The values that the runtime has found, and the reason for missing ones. The rest of the queries has its answers.
    pub(crate) fn into_looks(self) -> (Vec<Info>, Option<Status>) {
        match self {
            Self::Infos { status, info } => (info, Some(status).filter(|status| *status != Status::SUCCESS)),
            other => (Vec::new(), Some(other.status())),
        }
    }

    /// The status in a reply. Unexpected data is the host's mistake, and an error.
    pub(in crate::server) fn status(&self) -> Status {
        match self {
            Self::Status(status) => settled(*status),
            Self::Fence { .. }
            | Self::PackedFence { .. }
            | Self::DirectModex(_)
            | Self::Lookup { .. }
            | Self::Spawned(_)
            | Self::Infos { .. }
            | Self::Credential(_)
            | Self::Tool(_) => Status::ERROR,
        }
    }
}

/// "Done at once" is another form of success.
pub(in crate::server) fn settled(status: Status) -> Status {
    if status == Status::OPERATION_SUCCEEDED { Status::SUCCESS } else { status }
}
