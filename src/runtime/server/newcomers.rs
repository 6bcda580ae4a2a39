//! Connections without an introduction.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::time::Duration;

use crate::server::PeerId;
use crate::types::Time;

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

/// Lines of the log about connections that were refused or dropped. Everybody can cause them, so each user has a number
/// of them for a time, and the others are only counted.
#[derive(Debug, Default)]
pub(super) struct DropReports {
    of_users: BTreeMap<Option<u32>, UserReports>,
}

/// The lines about one user.
#[derive(Debug)]
struct UserReports {
    /// The end of the time.
    end: Time,
    lines_left: u32,
    omitted: u64,
}

impl DropReports {
    /// Counts a line about a connection of a user; `None`: unknown. Returns whether it is written, after a line about the
    /// omitted ones.
    pub(super) fn is_due(&mut self, user: Option<u32>, now: Time) -> bool {
        let Some(omitted) = self.count(user, now) else { return false };
        if omitted > 0 {
            tracing::warn!(uid = user, omitted, "further connections of this user were refused or dropped");
        }
        true
    }

    /// The number of omitted lines before this one; `None` if this one is omitted, too.
    fn count(&mut self, user: Option<u32>, now: Time) -> Option<u64> {
        if self.of_users.len() >= USERS_MAX {
            self.of_users.retain(|_, reports| now < reports.end);
        }
        let begin = || UserReports { end: now + REPORTS_TIME, lines_left: LINES_MAX, omitted: 0 };
        let reports = self.of_users.entry(user).or_insert_with(begin);
        if now >= reports.end {
            *reports = UserReports { omitted: reports.omitted, ..begin() };
        }
        match reports.lines_left.checked_sub(1) {
            Some(left) => {
                reports.lines_left = left;
                Some(std::mem::take(&mut reports.omitted))
            }
            None => {
                reports.omitted = reports.omitted.saturating_add(1);
                None
            }
        }
    }
}

/// A text of a peer for the log, without its further part if it is long.
pub(super) fn shortened(text: &impl Display) -> String {
    let text = text.to_string();
    match text.char_indices().nth(TEXT_CHARS_MAX) {
        Some((end, _)) => text.get(..end).unwrap_or_default().to_owned() + " ...",
        None => text,
    }
}

/// A sixteenth of all connections may always be without an introduction.
const NEWCOMERS_PART: usize = 16;
/// Lines of the log about the connections of one user in [`REPORTS_TIME`].
const LINES_MAX: u32 = 16;
const REPORTS_TIME: Duration = Duration::from_secs(10);
/// Users whose omitted lines are counted beyond that time.
const USERS_MAX: usize = 1024;
/// The part of a text that is shown.
const TEXT_CHARS_MAX: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: one user wrote 163 MB into the log of a server in five seconds.
    #[test]
    fn refused_connections_do_not_fill_the_log() {
        let mut reports = DropReports::default();
        let start = Time::from_nanos(7);
        let lines = |reports: &mut DropReports, now: Time| -> Vec<u64> {
            (0..1016).filter_map(|_| reports.count(Some(1), now)).collect()
        };
        assert_eq!(lines(&mut reports, start), [0; LINES_MAX as usize]);
        assert_eq!(reports.count(Some(2), start), Some(0), "another user");
        let later = lines(&mut reports, start + REPORTS_TIME);
        assert_eq!((later.len(), later.first(), later.get(1)), (LINES_MAX as usize, Some(&1000), Some(&0)));
        assert_eq!(shortened(&"x".repeat(100_000)).len(), TEXT_CHARS_MAX + 4);
        assert_eq!(shortened(&"short"), "short");
    }

    /// Over TCP every user can connect. A user with many silent connections would have pushed out the connections of
    /// others.
    #[test]
    fn who_crowds_the_door_makes_room_himself() {
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
