//! Connections without an introduction.

use std::collections::{BTreeMap, BTreeSet};

use crate::server::PeerId;

/// Connections without an introduction, by user.
#[derive(Debug)]
pub(super) struct PendingHandshakes {
    handshakes_max: usize,
    /// Limit of all connections, including introduced ones.
    connections_max: usize,
    of_users: BTreeMap<u32, BTreeSet<PeerId>>,
    users: BTreeMap<PeerId, u32>,
}

impl PendingHandshakes {
    pub(super) const fn new(handshakes_max: usize, connections_max: usize) -> Self {
        Self { handshakes_max, connections_max, of_users: BTreeMap::new(), users: BTreeMap::new() }
    }

    pub(super) fn insert(&mut self, id: PeerId, uid: u32) {
        self.users.insert(id, uid);
        self.of_users.entry(uid).or_default().insert(id);
    }

    /// Returns whether the connection was there.
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

    /// The older half of the connections of the user with the most.
    pub(super) fn crowd(&self) -> Vec<PeerId> {
        let largest = self.of_users.values().max_by_key(|of_user| of_user.len());
        largest.map_or_else(Vec::new, |of_user| of_user.iter().take(of_user.len().div_ceil(2)).copied().collect())
    }

    /// If there are too many, returns the oldest connection of the user with the most, which must go, and the limit.
    ///
    /// All connections take descriptors, so introduced ones leave less room for the others. A sixteenth is always for
    /// newcomers.
    pub(super) fn surplus(&self, connection_count: usize) -> Option<(PeerId, usize)> {
        let introduced = connection_count.saturating_sub(self.users.len());
        let room = self.connections_max.saturating_sub(introduced).max(self.connections_max / NEWCOMERS_PART);
        let max = self.handshakes_max.min(room).max(1);
        let largest = self.of_users.values().max_by_key(|of_user| of_user.len())?;
        largest.first().filter(|_| self.users.len() > max).map(|oldest| (*oldest, max))
    }
}

/// A sixteenth of all connections may always be without an introduction.
const NEWCOMERS_PART: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// Over TCP every user can connect. A user with many silent connections would have pushed out the connections of
    /// others.
    #[test]
    fn a_user_with_too_many_handshakes_loses_its_own_oldest_one() {
        let mut pending_handshakes = PendingHandshakes::new(1, 100);
        pending_handshakes.insert(PeerId(1), 1000);
        (2..6).for_each(|id| pending_handshakes.insert(PeerId(id), 66));
        pending_handshakes.insert(PeerId(6), 1000);
        let oldest = |pending_handshakes: &PendingHandshakes| pending_handshakes.surplus(6).map(|(oldest, _)| oldest);
        assert_eq!(oldest(&pending_handshakes), Some(PeerId(2)));
        assert!(pending_handshakes.remove(PeerId(2)) && !pending_handshakes.remove(PeerId(2)));
        assert_eq!(oldest(&pending_handshakes), Some(PeerId(3)));
        assert!((3..6).all(|id| pending_handshakes.remove(PeerId(id))));
        assert_eq!(oldest(&pending_handshakes), Some(PeerId(1)));
        assert!(pending_handshakes.remove(PeerId(1)));
        assert_eq!(oldest(&pending_handshakes), None);
        assert!(
            pending_handshakes.remove(PeerId(6))
                && pending_handshakes.users.is_empty()
                && pending_handshakes.of_users.is_empty()
        );
    }

    /// In a process with 64 descriptors, 512 half introductions of one user took them all. Another user's connected
    /// process got no segment for its first commit. Now all connections share a limit, with a part for newcomers.
    #[test]
    fn half_introductions_and_connections_share_the_descriptors() {
        let mut pending_handshakes = PendingHandshakes::new(512, 56);
        (0..40).for_each(|id| pending_handshakes.insert(PeerId(id), 66));
        let max = |pending_handshakes: &PendingHandshakes, introduced: usize| {
            pending_handshakes.surplus(40 + introduced).map(|(_, max)| max)
        };
        let told = [16, 17, 50, 53, 56, 1000].map(|introduced| max(&pending_handshakes, introduced));
        assert_eq!(told, [None, Some(39), Some(6), Some(3), Some(3), Some(3)]);
    }

    /// A server with 256 descriptors had none left for a connection, and half introductions of one process kept them
    /// until their deadline.
    #[test]
    fn a_lack_of_descriptors_costs_the_user_with_most_newcomers_half_of_them() {
        let mut pending_handshakes = PendingHandshakes::new(512, 224);
        assert_eq!(pending_handshakes.crowd(), []);
        pending_handshakes.insert(PeerId(1), 1000);
        assert_eq!(pending_handshakes.crowd(), [PeerId(1)]);
        (2..7).for_each(|id| pending_handshakes.insert(PeerId(id), 66));
        assert_eq!(pending_handshakes.crowd(), (2..5).map(PeerId).collect::<Vec<_>>());
    }
}
