//! Connections: their claims, and the facts of the kernel about them.

use std::collections::BTreeSet;

use crate::keys;
use crate::proto::Version;
use crate::types::{Info, Key, ProcId};

/// Identifies one connection; chosen by the runtime, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub u64);

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

impl ToolHello {
    /// The ids to compare with registered ones.
    pub(in crate::server) fn claimed_credentials(&self) -> Credentials {
        Credentials { uid: self.credentials.uid, gid: self.claimed_gid }
    }
}

/// Infos with which a tool finds a server, in `PMIx_tool_init` and in a later attachment.
pub const UNDERSTOOD_OF_ATTACHING: [&str; 15] = [
    keys::TOOL_ATTACHMENT_FILE.name(),
    keys::SERVER_URI.name(),
    keys::TCP_URI.name(),
    keys::SERVER_PIDINFO.name(),
    keys::SERVER_NSPACE.name(),
    keys::CONNECT_TO_SYSTEM.name(),
    keys::CONNECT_SYSTEM_FIRST.name(),
    keys::CONNECT_TO_SCHEDULER.name(),
    keys::CONNECT_TO_SYS_CONTROLLER.name(),
    keys::SERVER_TMPDIR.name(),
    keys::SYSTEM_TMPDIR.name(),
    keys::CONNECT_MAX_RETRIES.name(),
    keys::CONNECT_RETRY_DELAY.name(),
    keys::PRIMARY_SERVER.name(),
    keys::TIMEOUT.name(),
];

/// Infos that the library of a tool honours only when the tool begins.
pub const UNDERSTOOD_OF_NEW_TOOLS: [&str; 7] = [
    keys::EXTERNAL_PROGRESS.name(),
    keys::TOOL_NSPACE.name(),
    keys::TOOL_RANK.name(),
    keys::TOOL_DO_NOT_CONNECT.name(),
    keys::TOOL_CONNECT_OPTIONAL.name(),
    keys::LAUNCHER.name(),
    keys::SERVER_TOOL_SUPPORT.name(),
];

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

    /// The ids as infos for a host. A host that took an unknown group for a number would keep its own group.
    pub(crate) fn infos(self) -> Vec<Info> {
        let user = Info::new(Key::from_static(keys::USERID.name()), self.uid);
        let group =
            (self.gid != Self::GROUP_UNKNOWN).then(|| Info::new(Key::from_static(keys::GRPID.name()), self.gid));
        [user].into_iter().chain(group).collect()
    }

    /// Whether a process with the credentials `found` may be the announced one: the user must match, and the group if
    /// it is known.
    pub(in crate::server) const fn are_met_by(self, found: Self) -> bool {
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
