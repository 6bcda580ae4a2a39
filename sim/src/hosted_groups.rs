//! Groups over several nodes that the host forms.

use std::collections::{BTreeMap, BTreeSet};

use modex::proto::Tag;
use modex::server::PeerId;
use modex::types::{ProcId, Text, Time};

use super::queue::ServerId;

/// What is known of groups that the host forms.
#[derive(Debug, Default)]
pub(super) struct HostedGroups {
    /// Requests to form one: with whom. To end one: nobody.
    pub(super) asked: BTreeMap<PeerId, BTreeMap<Tag, (Text, Vec<ProcId>)>>,
    /// Where there is which, with its members in order, and the processes there that were told that they are in it. With the last of
    /// those it is none of the server's any more.
    pub(super) formed: BTreeMap<(ServerId, Text, Vec<ProcId>), BTreeSet<u32>>,
    /// When each server was first asked for something about which.
    pub(super) first_asked: BTreeMap<(ServerId, Text), Time>,
}
