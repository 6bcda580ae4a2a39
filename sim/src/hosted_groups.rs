//! Groups over several nodes that the host forms.

use std::collections::{BTreeMap, BTreeSet};

use modex::proto::Tag;
use modex::server::PeerId;
use modex::types::{ProcId, Text, Time};

use super::queue::ServerId;

/// Groups that the host forms, as the checker knows them.
#[derive(Debug, Default)]
pub(super) struct HostedGroups {
    /// Requests to form one: with whom. To end one: nobody.
    pub(super) asked: BTreeMap<PeerId, BTreeMap<Tag, (Text, Vec<ProcId>)>>,
    /// The groups of each server, with their members in order, and the local processes that were told that they are in. A group
    /// leaves the server with the last of these processes.
    pub(super) formed: BTreeMap<(ServerId, Text, Vec<ProcId>), BTreeSet<u32>>,
    /// When each server was first asked for something about which.
    pub(super) first_asked: BTreeMap<(ServerId, Text), Time>,
}
