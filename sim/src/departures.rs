//! Groups that members have left, and groups that have ended.

use std::collections::{BTreeMap, BTreeSet};

use modex::types::{Text, Time};

use super::queue::ServerId;

/// What is known of groups that were left, and ended.
#[derive(Debug, Default)]
pub(super) struct GroupDepartures {
    /// Who has left which, and when it was told that it has.
    pub(super) left: BTreeMap<(Text, u32), Time>,
    /// How often each was told that it is in one: as a clone it may have come in again.
    pub(super) told: BTreeMap<(Text, u32), u32>,
    /// Where one of a name has ended: who ends it once more, perhaps as a clone, waits for nobody.
    pub(super) ended: BTreeSet<(Text, ServerId)>,
    /// Events have not reached servers that they were meant for.
    pub(super) has_lost_news: bool,
}
