//! What the connections of a server hold of its memory, all together: beginnings of messages and what waits to be sent, and the
//! answers that many of them get. Each has a bound of its own; many that each stay below it would still be too much.

use std::collections::BTreeMap;

use super::burdens::Account;
use crate::server::PeerId;

/// Bytes that are held, by connection.
#[derive(Debug)]
pub(super) struct Held {
    bytes_max: usize,
    /// What each has for itself.
    bytes: usize,
    of_peers: BTreeMap<PeerId, usize>,
    /// What many get.
    shared_bytes: usize,
}

impl Held {
    pub(super) const fn new(bytes_max: usize) -> Self {
        Self { bytes_max, bytes: 0, of_peers: BTreeMap::new(), shared_bytes: 0 }
    }

    /// Notes what a connection holds now.
    pub(super) fn set(&mut self, id: PeerId, bytes: usize) {
        let before = if bytes == 0 { self.of_peers.remove(&id) } else { self.of_peers.insert(id, bytes) };
        self.bytes = self.bytes.saturating_sub(before.unwrap_or(0)).saturating_add(bytes);
    }

    /// Notes what is held of answers that many get.
    pub(super) const fn set_shared(&mut self, bytes: usize) {
        self.shared_bytes = bytes;
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes.saturating_add(self.shared_bytes)
    }

    pub(super) const fn is_exceeded(&self) -> bool {
        self.bytes() > self.bytes_max
    }

    /// Whether what nobody asked for should no longer pile up: half of all is kept for what was asked for.
    pub(super) const fn is_scarce(&self) -> bool {
        self.bytes() > self.bytes_max / 2
    }

    /// The connection to part with, as long as too much is held: of whoever holds most, the one that holds most. Who answers for
    /// a connection, and what it has yet to take of what is shared, is asked of the caller; the latter counts where the
    /// former alone would not be too much.
    pub(super) fn greediest(&self, of_peer: impl Fn(PeerId) -> Option<(Account, usize)>) -> Option<PeerId> {
        if !self.is_exceeded() {
            return None;
        }
        let counts_shared = self.bytes <= self.bytes_max;
        let mut accounts: BTreeMap<Option<Account>, Share> = BTreeMap::new();
        for (&id, &bytes) in &self.of_peers {
            let (account, shared_bytes) = of_peer(id).map_or((None, 0), |(account, bytes)| (Some(account), bytes));
            let bytes = bytes.saturating_add(if counts_shared { shared_bytes } else { 0 });
            let share = accounts.entry(account).or_default();
            share.bytes = share.bytes.saturating_add(bytes);
            share.largest = share.largest.max(Some((bytes, id)));
        }
        let greediest = accounts.into_values().max_by_key(|share| share.bytes)?;
        greediest.largest.map(|(_, id)| id)
    }
}

/// What is held on one account.
#[derive(Debug, Default)]
struct Share {
    bytes: usize,
    /// The connection that holds most of it.
    largest: Option<(usize, PeerId)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account_of(id: PeerId) -> Option<(Account, usize)> {
        Some((Account::Tools(u32::try_from(id.0 / 10).unwrap()), 0))
    }

    #[test]
    fn at_the_bound_nobody_goes_and_beyond_it_the_largest_of_the_greediest() {
        let mut held = Held::new(100);
        held.set(PeerId(10), 40);
        held.set(PeerId(20), 25);
        held.set(PeerId(21), 35);
        assert_eq!((held.bytes(), held.greediest(account_of)), (100, None));
        held.set(PeerId(10), 41);
        assert_eq!(held.greediest(account_of), Some(PeerId(21)), "60 in two parts are more than 41 in one");
        held.set(PeerId(21), 0);
        assert_eq!((held.bytes(), held.greediest(account_of)), (66, None));
        held.set(PeerId(20), 90);
        assert_eq!(held.greediest(account_of), Some(PeerId(20)));
    }

    #[test]
    fn half_of_it_is_for_what_was_asked_for() {
        let mut held = Held::new(100);
        held.set(PeerId(10), 50);
        assert!(!held.is_scarce());
        held.set(PeerId(11), 1);
        assert!(held.is_scarce());
    }

    #[test]
    fn what_is_shared_counts_once_and_falls_to_who_does_not_take_it() {
        let taking = |id: PeerId| account_of(id).map(|(account, _)| (account, if id.0 >= 20 { 50 } else { 0 }));
        let mut held = Held::new(100);
        held.set(PeerId(10), 45);
        held.set(PeerId(20), 1);
        held.set(PeerId(21), 1);
        held.set_shared(50);
        assert_eq!((held.bytes(), held.greediest(taking)), (97, None));
        held.set_shared(60);
        assert_eq!(held.greediest(taking), Some(PeerId(21)));
        held.set(PeerId(10), 99);
        assert_eq!(held.greediest(taking), Some(PeerId(10)), "their own alone is too much");
    }
}
