//! Connections of which nobody knows yet whose they are.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::server::PeerId;
use crate::types::Time;

/// Connections that have not introduced themselves, by user.
#[derive(Debug)]
pub(super) struct Greeting {
    handshakes_max: usize,
    /// The most connections that there may be, with those that have introduced themselves.
    connections_max: usize,
    of_users: BTreeMap<u32, BTreeSet<PeerId>>,
    users: BTreeMap<PeerId, u32>,
}

impl Greeting {
    pub(super) const fn new(handshakes_max: usize, connections_max: usize) -> Self {
        Self { handshakes_max, connections_max, of_users: BTreeMap::new(), users: BTreeMap::new() }
    }

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

    /// The connection that has to go, and how many may stay, if there are too many: the oldest of the user with the most.
    ///
    /// Introduced connections leave the others less room, because all take descriptors. A sixteenth is always for newcomers.
    pub(super) fn surplus(&self, connection_count: usize) -> Option<(PeerId, usize)> {
        let introduced = connection_count.saturating_sub(self.users.len());
        let room = self.connections_max.saturating_sub(introduced).max(self.connections_max / NEWCOMERS_PART);
        let max = self.handshakes_max.min(room).max(1);
        let largest = self.of_users.values().max_by_key(|of_user| of_user.len())?;
        largest.first().filter(|_| self.users.len() > max).map(|oldest| (*oldest, max))
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

/// What part of all connections may always be without an introduction.
const NEWCOMERS_PART: usize = 16;
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
        let mut greeting = Greeting::new(1, 100);
        greeting.insert(PeerId(1), 1000);
        (2..6).for_each(|id| greeting.insert(PeerId(id), 66));
        greeting.insert(PeerId(6), 1000);
        let oldest = |greeting: &Greeting| greeting.surplus(6).map(|(oldest, _)| oldest);
        assert_eq!(oldest(&greeting), Some(PeerId(2)));
        assert!(greeting.remove(PeerId(2)) && !greeting.remove(PeerId(2)));
        assert_eq!(oldest(&greeting), Some(PeerId(3)));
        assert!((3..6).all(|id| greeting.remove(PeerId(id))));
        assert_eq!(oldest(&greeting), Some(PeerId(1)));
        assert!(greeting.remove(PeerId(1)));
        assert_eq!(oldest(&greeting), None);
        assert!(greeting.remove(PeerId(6)) && greeting.users.is_empty() && greeting.of_users.is_empty());
    }

    /// Where a process may have 64 descriptors, 512 half introductions of one user took them all. Another user's connected
    /// process got no segment for its first commit. All connections together have a bound now, with a part for newcomers.
    #[test]
    fn half_introductions_and_connections_share_the_descriptors() {
        let mut greeting = Greeting::new(512, 56);
        (0..40).for_each(|id| greeting.insert(PeerId(id), 66));
        let max = |greeting: &Greeting, introduced: usize| greeting.surplus(40 + introduced).map(|(_, max)| max);
        let told = [16, 17, 50, 53, 56, 1000].map(|introduced| max(&greeting, introduced));
        assert_eq!(told, [None, Some(39), Some(6), Some(3), Some(3), Some(3)]);
    }
}
