//! Groups over several nodes that the host forms.

use std::collections::{BTreeMap, BTreeSet};

use modex::proto::Tag;
use modex::server::PeerId;
use modex::types::{ProcId, Text, Time};

use super::queue::ServerId;

/// Groups that the host forms, as the checker knows them.
#[derive(Debug, Default)]
pub(super) struct HostedGroups {
    /// Requests about a group. A request to form one has its members; a request to end one has none.
    pub(super) asked: BTreeMap<PeerId, BTreeMap<Tag, (Text, Vec<ProcId>)>>,
    /// The groups of each server: their members in order, and the local processes that were told of their membership. A
    /// group leaves the server with the last of these processes.
    pub(super) formed: BTreeMap<(ServerId, Text, Vec<ProcId>), BTreeSet<u32>>,
    /// When each server first got a request about each group.
    pub(super) first_asked: BTreeMap<(ServerId, Text), Time>,
}
