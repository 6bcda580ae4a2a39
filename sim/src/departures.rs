//! Groups that members have left, and groups that have ended.

use std::collections::{BTreeMap, BTreeSet};

use modex::types::{Text, Time};

use super::queue::ServerId;

/// Groups that members have left, and groups that have ended.
#[derive(Debug, Default)]
pub(super) struct GroupDepartures {
    /// When each process was told that it has left a group.
    pub(super) left: BTreeMap<(Text, u32), Time>,
    /// How often each process was told that it is in a group: as a clone it may have come in again.
    pub(super) notices: BTreeMap<(Text, u32), u32>,
    /// Servers where a group of a name has ended. A process that ends the group once more, perhaps a clone, does not
    /// wait.
    pub(super) ended: BTreeSet<(Text, ServerId)>,
    /// Events have missed servers that they were meant for.
    pub(super) has_lost_news: bool,
}
