//! What the connections of a server hold of its memory, all together: beginnings of messages and what waits to be sent,
//! and the answers that many of them get. Each has a bound of its own; many that each stay below it would still be too
//! much.

use std::collections::BTreeMap;

use super::burdens::Account;
use crate::server::PeerId;

/// Bytes that are held, by connection.
#[derive(Debug)]
pub(super) struct Held {
    bytes_max: usize,
    /// What each has for itself.
    bytes: usize,
    of_peers: BTreeMap<PeerId, Part>,
    /// What many get.
    shared_bytes: usize,
}

/// What is held for one connection, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    /// For it alone.
    pub(super) own: usize,
    /// Of what many get, as long as it has yet to take it.
    pub(super) shared: usize,
}

impl Held {
    pub(super) const fn new(bytes_max: usize) -> Self {
        Self { bytes_max, bytes: 0, of_peers: BTreeMap::new(), shared_bytes: 0 }
    }

    /// Notes what a connection holds now.
    pub(super) fn set(&mut self, id: PeerId, part: Part) {
        let before = match part {
            Part { own: 0, shared: 0 } => self.of_peers.remove(&id),
            _ => self.of_peers.insert(id, part),
        };
        self.bytes = self.bytes.saturating_sub(before.unwrap_or_default().own).saturating_add(part.own);
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

    /// The connection to part with, as long as too much is held: of the user who holds most, of its process that holds
    /// most, the one that holds most. What it has yet to take of what is shared counts where all that each has for itself
    /// would not be too much.
    pub(super) fn greediest(&self, holder_of: impl Fn(PeerId) -> Option<(u32, Account)>) -> Option<PeerId> {
        if !self.is_exceeded() {
            return None;
        }
        let counts_shared = self.bytes <= self.bytes_max;
        let mut users: BTreeMap<Option<u32>, UserShare> = BTreeMap::new();
        for (&id, part) in &self.of_peers {
            let bytes = part.own.saturating_add(if counts_shared { part.shared } else { 0 });
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

    /// All of one user, in tens of one account each.
    fn account_of(id: PeerId) -> Option<(u32, Account)> {
        Some((1000, Account::Tools(u32::try_from(id.0 / 10).unwrap())))
    }

    /// A user whose hundred processes held a little each kept it all, and another one's only process lost its connection.
    #[test]
    fn of_several_users_the_one_goes_who_holds_most_in_all() {
        let holder_of = |id: PeerId| account_of(id).map(|(_, account)| (u32::from(id.0 >= 50), account));
        let mut held = Held::new(100);
        held.set(PeerId(50), own(45));
        for id in [10, 20, 30] {
            held.set(PeerId(id), own(20));
        }
        assert!([10, 20, 30].map(PeerId).contains(&held.greediest(holder_of).unwrap()));
    }

    fn own(own: usize) -> Part {
        Part { own, shared: 0 }
    }

    #[test]
    fn at_the_bound_nobody_goes_and_beyond_it_the_largest_of_the_greediest() {
        let mut held = Held::new(100);
        held.set(PeerId(10), own(40));
        held.set(PeerId(20), own(25));
        held.set(PeerId(21), own(35));
        assert_eq!((held.bytes(), held.greediest(account_of)), (100, None));
        held.set(PeerId(10), own(41));
        assert_eq!(held.greediest(account_of), Some(PeerId(21)), "60 in two parts are more than 41 in one");
        held.set(PeerId(21), own(0));
        assert_eq!((held.bytes(), held.greediest(account_of)), (66, None));
        held.set(PeerId(20), own(90));
        assert_eq!(held.greediest(account_of), Some(PeerId(20)));
    }

    #[test]
    fn half_of_it_is_for_what_was_asked_for() {
        let mut held = Held::new(100);
        held.set(PeerId(10), own(50));
        assert!(!held.is_scarce());
        held.set(PeerId(11), own(1));
        assert!(held.is_scarce());
    }

    /// Who had got the head of an answer and took no more held nothing of its own, and another lost its connection.
    #[test]
    fn what_is_shared_counts_once_and_falls_to_who_does_not_take_it() {
        let mut held = Held::new(100);
        held.set(PeerId(10), own(45));
        held.set(PeerId(20), Part { own: 0, shared: 50 });
        held.set(PeerId(21), Part { own: 1, shared: 50 });
        held.set(PeerId(30), Part { own: 16, shared: 50 });
        held.set_shared(38);
        assert_eq!((held.bytes(), held.greediest(account_of)), (100, None));
        held.set_shared(50);
        assert_eq!(held.greediest(account_of), Some(PeerId(21)));
        held.set(PeerId(21), Part::default());
        held.set(PeerId(30), Part::default());
        held.set_shared(60);
        assert_eq!(held.greediest(account_of), Some(PeerId(20)));
        held.set(PeerId(10), own(101));
        assert_eq!(held.greediest(account_of), Some(PeerId(10)), "their own alone is too much");
    }
}
