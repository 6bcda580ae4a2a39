//! Shares of users in something that has a bound: a share follows from what is left for others.
//!
//! Of what the other users do not have, a user may have one part of as many as there are users with something, and one
//! more. So one user alone gets half of the whole, and whoever comes later always finds something. The message bus
//! `dbus-broker` shares this way.

use std::collections::BTreeMap;

/// Amounts in use, by user.
#[derive(Debug, Default)]
pub(crate) struct UserShares {
    held: BTreeMap<u32, usize>,
    sum: usize,
}

impl UserShares {
    /// The most that a user may have of the whole, as things are.
    pub(crate) fn limit(&self, whole: usize, uid: u32) -> usize {
        let own = self.of(uid);
        let users = self.held.len().saturating_add(usize::from(own == 0));
        let left = whole.saturating_sub(self.sum.saturating_sub(own));
        left.checked_div(users.saturating_add(1)).unwrap_or_default()
    }

    pub(crate) fn take(&mut self, uid: u32, piece: usize) {
        if piece > 0 {
            let held = self.held.entry(uid).or_default();
            *held = held.saturating_add(piece);
            self.sum = self.sum.saturating_add(piece);
        }
    }

    pub(crate) fn give_back(&mut self, uid: u32, piece: usize) {
        let Some(held) = self.held.get_mut(&uid) else { return };
        let piece = piece.min(*held);
        *held -= piece;
        self.sum = self.sum.saturating_sub(piece);
        if *held == 0 {
            self.held.remove(&uid);
        }
    }

    /// The amount in use by a user.
    pub(crate) fn of(&self, uid: u32) -> usize {
        self.held.get(&uid).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes single pieces as long as it may.
    fn take_all(shares: &mut UserShares, whole: usize, uid: u32) -> usize {
        while shares.of(uid) < shares.limit(whole, uid) {
            shares.take(uid, 1);
        }
        shares.of(uid)
    }

    #[test]
    fn each_user_leaves_something_for_the_next() {
        let mut shares = UserShares::default();
        assert_eq!(take_all(&mut shares, 1200, 1), 600);
        assert_eq!(take_all(&mut shares, 1200, 2), 200);
        assert_eq!(take_all(&mut shares, 1200, 3), 100);
        assert_eq!(take_all(&mut shares, 1200, 1), 600, "what it has it keeps");
        shares.give_back(1, 600);
        shares.give_back(1, 1);
        assert_eq!((shares.of(1), take_all(&mut shares, 1200, 2)), (0, 366));
        assert!((4..20).all(|uid| take_all(&mut shares, 1200, uid) > 0));
    }

    #[test]
    fn users_that_have_nothing_are_forgotten() {
        let mut shares = UserShares::default();
        for uid in 0..100 {
            shares.take(uid, 3);
            shares.take(uid, 0);
            shares.give_back(uid, 3);
        }
        assert!(shares.held.is_empty() && shares.sum == 0);
    }
}
