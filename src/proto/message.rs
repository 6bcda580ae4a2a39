//! Messages between the peers after the handshake, as types.
//!
//! One request is one frame; its reply is one frame with the same tag. The bytes are made and read by the other files
//! of this module; the cores see only these types. The requests themselves are in `services` and `request`.
//!
//! Source: OpenPMIx wire protocol 3.2 to 6.1 (commands 0 to 39).

use super::layout::{IfPresent, Many, One, layout};
use crate::bfrops::wire;
use crate::types::{DeviceDistance, Info, Key, Kval, Pdata, ProcId, Scope, Status, Text, Topology, footprint};

/// Announces a segment whose read-only descriptor travels with this message.
#[derive(Clone, Debug, PartialEq)]
pub struct SegmentNotice {
    /// Namespace whose data the segment holds.
    pub namespace: crate::types::Namespace,
    /// Layout of the segment; a reader with another layout uses the socket instead.
    pub layout_id: u64,
}

/// Declares the body of a message. With layouts, its bytes are the fields in the order of the wire.
macro_rules! body {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }
    };
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty => $layout:ty,)* }) => {
        body! { $(#[$doc])* $name { $($(#[$field_doc])* $field: $type,)* } }
        layout! { $name { $($field: $layout,)* } }
    };
}

body! {
    /// End processes.
    Abort {
        /// Status to report.
        status: Status => One<wire::Status>,
        /// Message for people.
        message: Option<Text> => One<wire::String>,
        /// Processes to end; empty: the requester's whole namespace.
        procs: Vec<ProcId> => Many<wire::Proc>,
    }
}
body! {
    /// Values a process makes visible to others, by scope. A foreign client repeats global values under `Local` and
    /// `Remote`; ours sends each value once under its own scope.
    Commit {
        /// Values by scope, in the order sent.
        parts: Vec<(Scope, Vec<Kval>)>,
    }
}
impl Commit {
    /// The same in the form that every server takes: global values under both scopes, local and remote. Two messages if
    /// one would exceed `bytes_max`. Then the values for other nodes go first, because their servers request them once.
    #[must_use]
    pub fn by_audience(self, bytes_max: usize) -> Vec<Self> {
        let entries_for = |audience| {
            let parts = self.parts.iter().filter(move |(scope, _)| *scope == audience || *scope == Scope::Global);
            parts.flat_map(|(_, entries)| entries.iter().cloned()).collect::<Vec<_>>()
        };
        let parts = [Scope::Local, Scope::Remote].map(|audience| (audience, entries_for(audience)));
        let size = |entries: &[Kval]| {
            let sizes =
                entries.iter().map(|entry| footprint(&entry.value).unwrap_or(bytes_max) + entry.key.as_str().len());
            sizes.fold(0, usize::saturating_add)
        };
        let total = parts.iter().fold(0, |sum: usize, (_, entries)| sum.saturating_add(size(entries)));
        let mut parts: Vec<_> = parts.into_iter().filter(|(_, entries)| !entries.is_empty()).collect();
        if total <= bytes_max {
            return vec![Self { parts }];
        }
        parts.reverse();
        parts.into_iter().map(|part| Self { parts: vec![part] }).collect()
    }
}
body! {
    /// An operation in which every named process takes part.
    Collective {
        /// The participants as sent.
        procs: Vec<ProcId> => Many<wire::Proc>,
        /// Directives.
        directives: Vec<Info> => Many<wire::Info>,
    }
}
body! {
    /// Requested data.
    Get {
        /// The process; wildcard rank: the job.
        proc: ProcId,
        /// Directives and qualifiers.
        directives: Vec<Info>,
        /// The key; `None`: everything.
        key: Option<Key>,
    }
}
body! {
    /// An event to pass on.
    Notify {
        /// The event's code.
        status: Status => One<wire::Status>,
        /// Range code.
        range: u8 => One<wire::DataRange>,
        /// Details.
        info: Vec<Info> => Many<wire::Info>,
    }
}
body! {
    /// Interest in events.
    RegisterEvents {
        /// Event codes; empty: all.
        codes: Vec<Status> => Many<wire::Status>,
        /// Directives.
        directives: Vec<Info> => Many<wire::Info>,
    }
}
body! {
    /// Output to forward.
    IofPull {
        /// Sources of the output.
        procs: Vec<ProcId> => Many<wire::Proc>,
        /// Directives.
        directives: Vec<Info> => Many<wire::Info>,
        /// Channel set ([`crate::types::codes::iof_channel`]), never standard input for a host.
        channels: u16 => One<wire::IofChannel>,
        /// The requester's own number for the request. Clients older than 4.0 have none, but a server of 3.2 refuses a
        /// request without a number. Hosts get none.
        local_id: Option<u64> => IfPresent<wire::Size>,
    }
}
body! {
    /// End of forwarding.
    IofDeregister {
        /// Directives.
        directives: Vec<Info> => Many<wire::Info>,
        /// Number given by the server.
        reference: u64 => One<wire::Size>,
    }
}
/// Key of an event handler's verdict about the end of a member: success, an abort, or leadership from now on. Our
/// client sends it to our server, in a [`Group`] with the command of an invitation.
pub const GROUP_VERDICT: &str = "modex.group.verdict";

/// In an event of our server: it is about the end of a connection (`PMIx_Connect`), and says nothing about groups. The
/// process may be back already. No attribute of the standard.
pub const OF_CONNECTION: &str = "modex.connection";

/// In an invitation to a group: its leader reports the outcome to all members itself. No attribute of the standard.
pub const GROUP_LEADER_TELLS: &str = "modex.group.leader.tells";

/// In a leader's report that a group exists: processes outside the group that the leader informs itself. It had
/// received their acceptance but did not count it. Its server informs the others. No attribute of the standard.
pub const GROUP_LEFT_OUT: &str = "modex.group.left.out";

/// In an event of our server to another: an array of processes that it awaits at the end of a group. The event's only
/// target has left that group. The other server gives its part, if no process there will. No attribute of the standard.
pub const GROUP_AWAITED: &str = "modex.group.awaited";

body! {
    /// A group operation.
    Group {
        /// Command code (24 to 28).
        command: u8,
        /// The group's name.
        id: Option<Text>,
        /// Members; empty where the sender's version does not send them.
        procs: Vec<ProcId>,
        /// Directives.
        directives: Vec<Info>,
    }
}
body! {
    /// Distances wanted.
    ComputeDistances {
        /// Topology of the requester.
        topology: Topology => One<wire::Topology>,
        /// Processors of the requester.
        cpuset: Option<Text> => One<wire::Cpuset>,
        /// Directives.
        directives: Vec<Info> => Many<wire::Info>,
    }
}
body! {
    /// Processes on a node.
    ResolvePeers {
        /// The node; `None`: the requester's.
        node: Option<Text> => One<wire::String>,
        /// The namespace; `None`: all.
        namespace: Option<Text> => One<wire::String>,
    }
}
body! {
    /// All entries of a reply about one process.
    RankData {
        /// The process; wildcard rank: the job.
        proc: ProcId,
        /// The values.
        entries: Vec<Kval>,
    }
}

body! {
    /// A credential and its details.
    Credential {
        /// Opaque to all but its issuer.
        bytes: Vec<u8>,
        /// Details, for example its issuer.
        info: Vec<Info>,
    }
}

/// A server's answer.
///
/// A failed command is answered with [`Reply::Status`] alone, for every kind of request.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Reply {
    /// Success or the error.
    Status(Status),
    /// Results of an operation that succeeded only in part.
    Partial {
        /// Reason why only in part.
        status: Status,
        /// The results: any reply but a status, job information or another partial one.
        results: Box<Reply>,
    },
    /// Job-level information: namespace and entries. Has no status field; a server that cannot answer closes instead.
    JobInfo {
        /// The requester's namespace.
        namespace: Text,
        /// Its data.
        entries: Vec<Kval>,
    },
    /// Data found. To a peer that reads the segment an empty list means "published, look again".
    Data(Vec<RankData>),
    /// Published data found.
    Lookup(Vec<Pdata>),
    /// A started job.
    Spawned {
        /// Its namespace.
        namespace: Text,
        /// Its data, if known.
        entries: Vec<Kval>,
    },
    /// Results as infos.
    Infos(Vec<Info>),
    /// A credential.
    Credential(Credential),
    /// The server's number for a forwarding request.
    IofPulled(u64),
    /// A constructed group.
    Group {
        /// The members, in rank order.
        members: Vec<ProcId>,
        /// Context id, if one was assigned.
        context_id: Option<u64>,
        /// Details (6.1 peers).
        info: Vec<Info>,
        /// Job data of the other participating namespaces (5.0 peers), each packed as namespace and entries.
        jobs: Vec<(Text, Vec<Kval>)>,
    },
    /// Distances.
    Distances(Vec<DeviceDistance>),
    /// Refreshed values.
    Entries(Vec<Kval>),
    /// Processes. Beside the status of a fence that succeeded only in part: participants that were missing.
    Procs(Vec<ProcId>),
    /// Node names, separated by commas.
    Nodes(Text),
}
