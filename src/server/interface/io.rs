use std::any::Any;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::host::{CallId, HostCall, HostReply, HostResult, Upcall, UpcallId};
use super::job_data::JobData;
use super::requests::IofOutput;
use crate::events::Event;
use crate::proto::notification::Event as Notification;
use crate::proto::{Reply, Request, Tag, notification};
use crate::server::rules::cleanup::Cleanup;
use crate::topo::SharedMachine;
use crate::types::{Info, Key, Namespace, ProcId, Status};

/// Identifies one connection; chosen by the runtime, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub u64);

/// An event for the server.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// A connection introduced itself. Ends in [`Output::Admit`] or [`Output::Refuse`].
    Connected(PeerId, Hello),
    /// A connection introduced itself as a tool. Ends in [`Output::AdmitTool`], [`Output::Admit`] if the host announced
    /// its process, or [`Output::Refuse`].
    ToolConnected(PeerId, ToolHello),
    /// A request of an admitted connection. Ends in [`Output::Reply`] with the same tag, or with the connection.
    Request(PeerId, Tag, Request),
    /// A heartbeat of a connection's process. There is no reply.
    Heartbeat(PeerId),
    /// The next step of a request, after [`Output::Unfinished`].
    Proceed(PeerId),
    /// A connection ended. Not needed after [`Output::Refuse`] or [`Output::Close`], and harmless.
    Lost(PeerId),
    /// A call of the host. Ends in [`Output::Complete`].
    Host(CallId, HostCall),
    /// The host's answer to an upcall. It is ignored if no request waits for it.
    Completed(UpcallId, HostReply),
    /// The node's topology, after [`Output::WantTopology`].
    Topology(NodeHardware),
    /// The moment of [`crate::server::Server::poll_timeout`] has come.
    Timeout,
}

/// The topology of the node; none: there is none, or it is not available.
#[derive(Clone, Debug)]
pub struct NodeHardware(pub Option<Arc<SharedMachine>>);

impl PartialEq for NodeHardware {
    /// Whether both are the same reading.
    fn eq(&self, other: &Self) -> bool {
        self.0.as_ref().map(Arc::as_ptr) == other.0.as_ref().map(Arc::as_ptr)
    }
}

/// A task for the runtime. Tasks must be done in order.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub enum Output {
    /// Tell the connection that it is admitted, with its slot number.
    Admit(PeerId, u32),
    /// Tell the tool that it is admitted, with its slot number and its name.
    AdmitTool(PeerId, u32, ProcId),
    /// Tell the connection that it is refused, in the form of its version, and close it.
    Refuse(PeerId, Refusal),
    /// Answer a request.
    Reply(PeerId, Tag, Reply),
    /// The connection's request needs another step: send [`Input::Proceed`] at its next turn, before its next request.
    Unfinished(PeerId),
    /// Answer a request for job information with this namespace's data in the store now. The bytes are the same for all
    /// its clients of one dialect, until [`Output::Described`].
    ReplyJobInfo(PeerId, Tag, Namespace),
    /// Answer a Get with data that begins with the description of a job. The bytes are the same for all clients of one
    /// dialect, until [`Output::Described`].
    ReplyJobData(PeerId, Tag, JobData),
    /// Answer a question about the node's topology.
    ReplyTopology(PeerId, Tag, TopologyQuestion),
    /// Some requests need the node's topology: read it, and return it by [`Input::Topology`].
    WantTopology,
    /// The description of this namespace is new, or gone: bytes made of an older one must not be sent any more.
    Described(Namespace),
    /// Send output of another process.
    Forward(PeerId, Forwarded),
    /// Send the descriptor of a namespace's segment.
    SendSegment(PeerId, Namespace),
    /// Tell a process to forget the segment of another job, to which it has no tie any more.
    WithdrawSegment(PeerId, Namespace),
    /// Close the connection after everything before this has been written.
    Close(PeerId, Reason),
    /// Ask the host.
    Upcall(UpcallId, Upcall),
    /// Notify a connection of an event.
    Notify(PeerId, Arc<Notification>),
    /// Notify the handlers in the server's own process of an event.
    Raise(Event),
    /// Complete a call of the host.
    Complete(CallId, HostResult),
    /// Remove what a process, or its job, left behind.
    Cleanup(Cleanup),
    /// Data of this namespace was published: wake the sleepers on its segment.
    Wake(Namespace),
    /// Free this memory where no request waits for it.
    Discard(Garbage),
}

/// Unused memory that takes long to free.
#[derive(Clone, Debug)]
pub struct Garbage(Arc<dyn Any + Send + Sync>);

impl Garbage {
    pub(crate) fn new(memory: impl Any + Send + Sync) -> Self {
        Self(Arc::new(memory))
    }
}

impl PartialEq for Garbage {
    /// Whether both are the same memory.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// A question about the node's topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyQuestion {
    /// The question's namespace, with the wildcard rank.
    pub proc: ProcId,
    /// The requested key.
    pub key: Key,
    /// Whether the answer is the segment, because it is wanted and can be sent. Otherwise it is the text.
    pub wants_segment: bool,
}

/// A piece of output for one of its receivers. They share it: each message is written at its turn.
#[derive(Clone, Debug, PartialEq)]
pub struct Forwarded {
    /// The receiver's own number for its request.
    pub reference: u64,
    /// The piece.
    pub output: Arc<IofOutput>,
}

impl Forwarded {
    /// The message; a copy.
    #[must_use]
    pub fn notification(&self) -> notification::Output {
        let IofOutput { source, channel, bytes, info } = self.output.as_ref().clone();
        notification::Output { source, channels: channel, reference: self.reference, info, bytes }
    }
}

/// A connection's claims, and the kernel's facts about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The claimed process.
    pub proc: ProcId,
    /// The owner of its process, according to the kernel; never the peer's claim.
    pub credentials: Credentials,
    /// How it can receive data.
    pub store: StoreOffer,
    /// The release it announced.
    pub version: Version,
    /// Connections under the same name whose processes are not related to this one, according to the kernel. Related
    /// are the same process, and parents and children of any degree.
    pub strangers: BTreeSet<PeerId>,
}

/// A tool's claims, and the kernel's facts about it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolHello {
    /// The kind of tool.
    pub kind: ToolKind,
    /// Its own name, if any.
    pub claimed: Option<ProcId>,
    /// Whether it claims that a server started it.
    pub is_started: bool,
    /// The owner of its process, according to the kernel; never the peer's claim. An unknown group is -1.
    pub credentials: Credentials,
    /// The group that it claims. It counts only if the host announced the process with it.
    pub claimed_gid: u32,
    /// Whether it reads job information as entries. A tool that needs its own library's segments gets none.
    pub reads_entries: bool,
    /// The release it announced.
    pub version: Version,
    /// The release in the tool's own words.
    pub version_text: String,
    /// Its other infos.
    pub info: Vec<Info>,
    /// As for [`Hello::strangers`].
    pub strangers: BTreeSet<PeerId>,
}

/// Kinds of tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolKind {
    /// It sends requests only.
    Tool,
    /// It starts jobs and has processes of its own.
    Launcher,
    /// A process that no launcher started.
    Singleton,
    /// The scheduler of the system.
    Scheduler,
}

/// Effective ids of a connection's owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// User id.
    pub uid: u32,
    /// Group id; [`Credentials::GROUP_UNKNOWN`] if it is unknown.
    pub gid: u32,
}

impl Credentials {
    /// The id of an unknown group; no group has it.
    pub const GROUP_UNKNOWN: u32 = u32::MAX;

    /// Whether a process with the credentials `found` may be the announced one: the user must match, and the group if
    /// it is known.
    pub(crate) const fn are_met_by(self, found: Self) -> bool {
        self.uid == found.uid && (self.gid == found.gid || found.gid == Self::GROUP_UNKNOWN)
    }
}

/// How a peer can receive data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreOffer {
    /// It maps segments: data of its own namespace is announced, not sent.
    Segment,
    /// Everything is sent over the socket.
    Socket,
}

/// A peer's PMIx release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// First number.
    pub major: u8,
    /// Second number.
    pub minor: u8,
}

/// The reason for a refusal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The host never registered the namespace.
    #[error(
        "namespace {namespace} is not registered with this server; the host must register it before its processes start"
    )]
    UnknownNamespace {
        /// As claimed.
        namespace: Namespace,
    },
    /// The host never registered the process, or has deregistered it.
    #[error("process {proc} is not registered with this server; the host must register each local process")]
    UnknownProcess {
        /// As claimed.
        proc: ProcId,
    },
    /// The kernel reports another owner than the announced one.
    #[error(
        "process {proc} must run as uid {} gid {}, but the connection belongs to uid {} gid {}",
        expected.uid, expected.gid, found.uid, found.gid
    )]
    Credentials {
        /// As claimed.
        proc: ProcId,
        /// As registered.
        expected: Credentials,
        /// As the kernel reports.
        found: Credentials,
    },
    /// The bound on connections is reached.
    #[error("the server holds {peers_max} connections, which is its limit")]
    TooManyPeers {
        /// The bound.
        peers_max: usize,
    },
    /// An unrelated process is connected under this name.
    #[error(
        "{proc} is connected already, and the process that claims its name is neither the same process nor its parent \
         or child; give it a name of its own"
    )]
    Taken {
        /// As claimed.
        proc: ProcId,
    },
    /// The process has used its share of the connections.
    #[error("process {proc} has {peers_max} connections, which is the limit of one process")]
    TooManyOfProcess {
        /// As claimed.
        proc: ProcId,
        /// The bound.
        peers_max: usize,
    },
    /// The user has used its share of the connections.
    #[error(
        "user {uid} has used up its share of this server's connections; the rest is reserved for other users. Each \
         process of a job always gets one connection"
    )]
    TooManyOfUser {
        /// The user, according to the kernel.
        uid: u32,
    },
    /// The tools of one user have used their share of the connections.
    #[error("the tools of user {uid} have {peers_max} connections, which is the limit of one user")]
    TooManyTools {
        /// Their user, according to the kernel.
        uid: u32,
        /// The bound.
        peers_max: usize,
    },
    /// A tool of an ordinary user claims a name, and no host can confirm it.
    #[error(
        "a tool of user {uid} claims the name {proc}; the host must confirm the name, or the tool must connect \
         without one"
    )]
    UnprovenName {
        /// As claimed.
        proc: ProcId,
        /// The tool's user, according to the kernel.
        uid: u32,
    },
    /// The same connection introduced itself twice.
    #[error("the connection introduced itself a second time")]
    Repeated,
    /// The host refused it or did not answer in time.
    #[error("the host refused process {proc} with {status}")]
    Host {
        /// As claimed.
        proc: ProcId,
        /// The host's reason; a timeout if it did not answer.
        status: Status,
    },
    /// Tools are not served.
    #[error("this server does not admit tools; its host must enable tool support")]
    NoTools,
    /// A tool of a user without admission.
    #[error(
        "the tool runs as user {uid}; this server admits only root and user {ours} unless its host admits tools of \
         every user"
    )]
    ForeignTool {
        /// Its user, according to the kernel.
        uid: u32,
        /// The server's.
        ours: u32,
    },
    /// A tool without a name, and no host to assign one.
    #[error("the tool has no name and this server's host assigns none; give it one (PMIX_TOOL_NSPACE)")]
    NoName,
    /// The tool's own name is in use.
    #[error("{proc} is connected already; a tool must bring another name")]
    NameTaken {
        /// As claimed.
        proc: ProcId,
    },
    /// The host refused a tool or did not answer in time.
    #[error("the tool was refused with {status}")]
    HostForTool {
        /// The host's reason; a timeout if it did not answer.
        status: Status,
    },
    /// The namespace or process was deregistered before the host had answered.
    #[error("process {proc} was deregistered while its connection was being set up")]
    Deregistered {
        /// As claimed.
        proc: ProcId,
    },
}

impl Refusal {
    /// Whether a process of a job is now without a server, which the user of the job should see.
    #[must_use]
    pub const fn is_of_rank(&self) -> bool {
        match self {
            Self::UnknownNamespace { .. }
            | Self::UnknownProcess { .. }
            | Self::Credentials { .. }
            | Self::TooManyPeers { .. }
            | Self::TooManyOfProcess { .. }
            | Self::TooManyOfUser { .. }
            | Self::Taken { .. }
            | Self::Host { .. } => true,
            Self::TooManyTools { .. }
            | Self::Repeated
            | Self::NoTools
            | Self::ForeignTool { .. }
            | Self::UnprovenName { .. }
            | Self::NoName
            | Self::NameTaken { .. }
            | Self::HostForTool { .. }
            | Self::Deregistered { .. } => false,
        }
    }

    /// The status for a peer whose version expects one.
    #[must_use]
    pub const fn status(&self) -> Status {
        match self {
            Self::UnknownNamespace { .. } | Self::UnknownProcess { .. } | Self::Deregistered { .. } => {
                Status::ERR_NOT_FOUND
            }
            Self::Credentials { .. } => Status::ERR_INVALID_CRED,
            Self::NoTools | Self::NoName => Status::ERR_NOT_SUPPORTED,
            Self::ForeignTool { .. } | Self::UnprovenName { .. } => Status::ERR_NO_PERMISSIONS,
            Self::NameTaken { .. } | Self::Taken { .. } => Status::ERR_EXISTS,
            Self::HostForTool { status } => *status,
            Self::TooManyPeers { .. }
            | Self::TooManyOfProcess { .. }
            | Self::TooManyOfUser { .. }
            | Self::TooManyTools { .. } => Status::ERR_OUT_OF_RESOURCE,
            Self::Repeated => Status::ERR_BAD_PARAM,
            Self::Host { status, .. } => *status,
        }
    }
}

/// Why a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// It asked for something before it was admitted.
    #[error("a request came before the connection was admitted")]
    RequestBeforeAdmission,
    /// Job information can't be given, and its reply has no place for a status.
    #[error("the job information of the client's namespace can't be read")]
    NoJobInformation,
    /// The host deregistered the client or its namespace.
    #[error("the host deregistered this process or its namespace")]
    Deregistered,
}
