//! Reasons why connections are refused or closed.

use super::connection::Credentials;
use crate::types::{Key, Namespace, ProcId, Status};

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
    /// An info that a tool requires, and no host to honour it.
    #[error(
        "the tool requires the info {key:?}, and this server's host has no function for tools; leave it out, or do not \
         require it"
    )]
    Unhonoured {
        /// Its key.
        key: Key,
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
            | Self::Unhonoured { .. }
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
            Self::NoTools | Self::NoName | Self::Unhonoured { .. } => Status::ERR_NOT_SUPPORTED,
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
