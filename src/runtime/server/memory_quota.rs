//! The memory that all connections of a server hold together: partial messages, queued output, and shared answers. Each
//! connection has a limit of its own, but many connections below their limits would still hold too much.

use std::collections::BTreeMap;

use super::request_quota::Account;
use crate::server::PeerId;

/// Bytes that are held, by connection.
#[derive(Debug)]
pub(super) struct MemoryQuota {
    bytes_max: usize,
    /// Bytes for single connections.
    bytes: usize,
    of_peers: BTreeMap<PeerId, MemoryUse>,
    /// Bytes of shared answers.
    shared_bytes: usize,
    /// Bytes that the peers of each user have not read.
    unread_bytes: BTreeMap<u32, usize>,
}

/// The bytes held for one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MemoryUse {
    /// Bytes for this connection alone.
    pub(super) own: usize,
    /// Bytes of shared answers that the peer has not taken.
    pub(super) shared: usize,
    /// The user of the peer, and bytes among its own that it has not read.
    pub(super) unread: Option<(u32, usize)>,
}

impl MemoryQuota {
    pub(super) const fn new(bytes_max: usize) -> Self {
        Self { bytes_max, bytes: 0, of_peers: BTreeMap::new(), shared_bytes: 0, unread_bytes: BTreeMap::new() }
    }

    /// Notes the bytes that a connection holds now.
    pub(super) fn set(&mut self, id: PeerId, used: MemoryUse) {
        let before = match used {
            MemoryUse { own: 0, shared: 0, .. } => self.of_peers.remove(&id),
            _ => self.of_peers.insert(id, used),
        };
        let before = before.unwrap_or_default();
        self.bytes = self.bytes.saturating_sub(before.own).saturating_add(used.own);
        if before.unread != used.unread {
            self.note_unread(before.unread, used.unread);
        }
    }

    fn note_unread(&mut self, before: Option<(u32, usize)>, now: Option<(u32, usize)>) {
        if let Some((uid, bytes)) = now.filter(|(_, bytes)| *bytes > 0) {
            let of_user = self.unread_bytes.entry(uid).or_default();
            *of_user = of_user.saturating_add(bytes);
        }
        if let Some((uid, bytes)) = before
            && let Some(of_user) = self.unread_bytes.get_mut(&uid)
        {
            *of_user = of_user.saturating_sub(bytes);
            if *of_user == 0 {
                self.unread_bytes.remove(&uid);
            }
        }
    }

    /// Whether the peers of a user have read enough for another large reply.
    pub(super) fn has_room_for_reply(&self, uid: u32) -> bool {
        self.unread_bytes.get(&uid).is_none_or(|bytes| *bytes < self.bytes_max / UNREAD_PARTS)
    }

    /// Notes the bytes of shared answers.
    pub(super) const fn set_shared(&mut self, bytes: usize) {
        self.shared_bytes = bytes;
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes.saturating_add(self.shared_bytes)
    }

    pub(super) const fn is_exceeded(&self) -> bool {
        self.bytes() > self.bytes_max
    }

    /// Limit of a connection's queue for unrequested messages, if `queued_bytes_max` is its limit for all. They should
    /// no longer pile up when half of all memory is held: the rest is kept for replies. Peers that read at once still
    /// get them.
    pub(super) fn unasked_bytes_max(&self, queued_bytes_max: usize) -> usize {
        let is_scarce = self.bytes() > self.bytes_max / 2;
        if is_scarce { UNASKED_BYTES_MIN.min(queued_bytes_max / 2) } else { queued_bytes_max / 2 }
    }

    /// The connection to close while too much is held. It is the largest connection of the largest account of the
    /// largest user. Shared bytes count only if the own bytes of all connections are within the limit.
    pub(super) fn greediest(&self, holder_of: impl Fn(PeerId) -> Option<(u32, Account)>) -> Option<PeerId> {
        if !self.is_exceeded() {
            return None;
        }
        let counts_shared = self.bytes <= self.bytes_max;
        let mut users: BTreeMap<Option<u32>, UserShare> = BTreeMap::new();
        for (&id, used) in &self.of_peers {
            let bytes = used.own.saturating_add(if counts_shared { used.shared } else { 0 });
            let (uid, account) = holder_of(id).unzip();
            let user = users.entry(uid).or_default();
            user.bytes = user.bytes.saturating_add(bytes);
            let share = user.accounts.entry(account).or_default();
            share.bytes = share.bytes.saturating_add(bytes);
            share.largest = share.largest.max(Some((bytes, id)));
        }
        let user = users.into_values().max_by_key(|user| user.bytes)?;
        let greediest = user.accounts.into_values().max_by_key(|share| share.bytes)?;
        greediest.largest.map(|(_, id)| id)
    }
}

/// Memory held for one user.
#[derive(Debug, Default)]
struct UserShare {
    bytes: usize,
    accounts: BTreeMap<Option<Account>, Share>,
}

/// Memory held for one account.
#[derive(Debug, Default)]
struct Share {
    bytes: usize,
    /// The connection that holds most of it.
    largest: Option<(usize, PeerId)>,
}

/// Queue for unrequested messages that each connection has even when memory is scarce: those of one turn.
const UNASKED_BYTES_MIN: usize = 64 << 10;
/// A user's next large reply waits while its peers have not read more than this part of all memory.
const UNREAD_PARTS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    /// Connections of one user, with ten connections for each account.
    fn account_of(id: PeerId) -> Option<(u32, Account)> {
        Some((1000, Account::Tools(u32::try_from(id.0 / 10).unwrap())))
    }

    /// One user's hundred processes, which held a little each, kept everything. Another user's only process lost its
    /// connection.
    #[test]
    fn of_several_users_the_one_goes_who_holds_most_in_all() {
        let holder_of = |id: PeerId| account_of(id).map(|(_, account)| (u32::from(id.0 >= 50), account));
        let mut quota = MemoryQuota::new(100);
        quota.set(PeerId(50), own(45));
        for id in [10, 20, 30] {
            quota.set(PeerId(id), own(20));
        }
        assert!([10, 20, 30].map(PeerId).contains(&quota.greediest(holder_of).unwrap()));
    }

    fn own(own: usize) -> MemoryUse {
        MemoryUse { own, ..MemoryUse::default() }
    }

    #[test]
    fn at_the_bound_nobody_goes_and_beyond_it_the_largest_of_the_greediest() {
        let mut quota = MemoryQuota::new(100);
        quota.set(PeerId(10), own(40));
        quota.set(PeerId(20), own(25));
        quota.set(PeerId(21), own(35));
        assert_eq!((quota.bytes(), quota.greediest(account_of)), (100, None));
        quota.set(PeerId(10), own(41));
        assert_eq!(quota.greediest(account_of), Some(PeerId(21)), "60 in two parts are more than 41 in one");
        quota.set(PeerId(21), own(0));
        assert_eq!((quota.bytes(), quota.greediest(account_of)), (66, None));
        quota.set(PeerId(20), own(90));
        assert_eq!(quota.greediest(account_of), Some(PeerId(20)));
    }

    /// With 50 shared bytes.
    fn shared(own: usize) -> MemoryUse {
        MemoryUse { shared: 50, ..self::own(own) }
    }

    #[test]
    fn a_user_whose_peers_do_not_read_has_no_room_for_large_replies() {
        let mut quota = MemoryQuota::new(800);
        let unread = |uid, bytes| MemoryUse { unread: Some((uid, bytes)), ..own(bytes) };
        quota.set(PeerId(10), unread(1, 60));
        quota.set(PeerId(11), unread(1, 39));
        quota.set(PeerId(20), unread(2, 99));
        assert!(quota.has_room_for_reply(1) && quota.has_room_for_reply(2));
        quota.set(PeerId(11), unread(1, 40));
        assert!(!quota.has_room_for_reply(1) && quota.has_room_for_reply(2));
        quota.set(PeerId(10), MemoryUse::default());
        assert!(quota.has_room_for_reply(1));
        [11, 20].into_iter().for_each(|id| quota.set(PeerId(id), MemoryUse::default()));
        assert!(quota.unread_bytes.is_empty());
    }

    #[test]
    fn half_of_it_is_for_what_was_asked_for() {
        let mut quota = MemoryQuota::new(100);
        quota.set(PeerId(10), own(50));
        assert_eq!(quota.unasked_bytes_max(1 << 20), 1 << 19);
        quota.set(PeerId(11), own(1));
        assert_eq!(quota.unasked_bytes_max(1 << 20), UNASKED_BYTES_MIN, "events of one turn still pass");
    }

    /// A peer that took only the head of a shared answer held nothing of its own, so another peer lost its connection.
    #[test]
    fn shared_bytes_count_once_and_against_the_peer_that_does_not_take_them() {
        let mut quota = MemoryQuota::new(100);
        quota.set(PeerId(10), own(45));
        quota.set(PeerId(20), shared(0));
        quota.set(PeerId(21), shared(1));
        quota.set(PeerId(30), shared(16));
        quota.set_shared(38);
        assert_eq!((quota.bytes(), quota.greediest(account_of)), (100, None));
        quota.set_shared(50);
        assert_eq!(quota.greediest(account_of), Some(PeerId(21)));
        quota.set(PeerId(21), MemoryUse::default());
        quota.set(PeerId(30), MemoryUse::default());
        quota.set_shared(60);
        assert_eq!(quota.greediest(account_of), Some(PeerId(20)));
        quota.set(PeerId(10), own(101));
        assert_eq!(quota.greediest(account_of), Some(PeerId(10)), "their own alone is too much");
    }
}
