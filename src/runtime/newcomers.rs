//! Connections of which nobody knows yet whose they are.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::server::PeerId;
use crate::types::Time;

/// Who has connected and not yet said who it is, by user.
#[derive(Debug, Default)]
pub(super) struct Greeting {
    of_users: BTreeMap<u32, BTreeSet<PeerId>>,
    users: BTreeMap<PeerId, u32>,
}

impl Greeting {
    pub(super) fn insert(&mut self, id: PeerId, uid: u32) {
        self.users.insert(id, uid);
        self.of_users.entry(uid).or_default().insert(id);
    }

    /// Returns whether it was there.
    pub(super) fn remove(&mut self, id: PeerId) -> bool {
        let Some(uid) = self.users.remove(&id) else { return false };
        if let Some(of_user) = self.of_users.get_mut(&uid) {
            of_user.remove(&id);
            if of_user.is_empty() {
                self.of_users.remove(&uid);
            }
        }
        true
    }

    pub(super) fn len(&self) -> usize {
        self.users.len()
    }

    pub(super) fn oldest_of_the_largest(&self) -> Option<PeerId> {
        self.of_users.values().max_by_key(|of_user| of_user.len())?.first().copied()
    }
}

/// Connections refused because nobody knows whose they are. Everybody can make some; not each is worth a line.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    count: u64,
    /// No report before this.
    quiet_until: Option<Time>,
}

impl Refusals {
    /// Counts one. How many there were since the last report, if it is time for another.
    pub(super) fn report(&mut self, now: Time) -> Option<u64> {
        self.count = self.count.saturating_add(1);
        if self.quiet_until.is_some_and(|end| now < end) {
            return None;
        }
        self.quiet_until = Some(now + REFUSALS_PAUSE);
        Some(std::mem::take(&mut self.count))
    }
}

/// How long refused connections are only counted after one was reported.
const REFUSALS_PAUSE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_connections_do_not_fill_the_log() {
        let mut refusals = Refusals::default();
        let start = Time::from_nanos(7);
        assert_eq!(refusals.report(start), Some(1));
        assert!((0..1000).all(|_| refusals.report(start).is_none()));
        assert_eq!(refusals.report(start + REFUSALS_PAUSE), Some(1001));
    }

    /// Over TCP everybody can connect; one who does so and stays silent would have pushed out those who are on their way.
    #[test]
    fn who_crowds_the_door_makes_room_himself() {
        let mut greeting = Greeting::default();
        greeting.insert(PeerId(1), 1000);
        (2..6).for_each(|id| greeting.insert(PeerId(id), 66));
        greeting.insert(PeerId(6), 1000);
        assert_eq!((greeting.len(), greeting.oldest_of_the_largest()), (6, Some(PeerId(2))));
        assert!(greeting.remove(PeerId(2)) && !greeting.remove(PeerId(2)));
        assert_eq!(greeting.oldest_of_the_largest(), Some(PeerId(3)));
        assert!((3..6).all(|id| greeting.remove(PeerId(id))));
        assert_eq!(greeting.oldest_of_the_largest(), Some(PeerId(1)));
        assert!(greeting.remove(PeerId(1)) && greeting.remove(PeerId(6)));
        assert_eq!((greeting.len(), greeting.oldest_of_the_largest()), (0, None));
    }
}
