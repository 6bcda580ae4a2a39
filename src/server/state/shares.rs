//! Each user's share of a bounded resource.
//!
//! A bound for each process does not protect users from each other. Four processes of one user opened all the
//! operations that the server allows, and every other user's fence was refused.
//!
//! The rule: the user's part of the whole may be at most twice the square of the part that is left. The first greedy
//! user gets one half, the second 19 %, the third 9 %, the tenth 1 %. The message bus `dbus-broker` has a similar rule.

use std::collections::BTreeMap;

/// A resource that all users share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pool {
    pub(crate) max: usize,
    pub(crate) used: usize,
}

impl Pool {
    /// Whether a user may take `more` units. `of_user` counts the user's units; it is called only if the answer depends
    /// on it.
    pub(crate) fn has_share(self, more: usize, of_user: impl FnOnce() -> usize) -> bool {
        // Counted before the last unit is taken, so that a pool of one unit is usable.
        let left = self.max.saturating_sub(self.used.saturating_add(more.saturating_sub(1)));
        let is_within = |held: usize| {
            let [held, left, max] =
                [held.saturating_add(more), left, self.max].map(|n| u64::try_from(n).map(u128::from));
            matches!((held, left, max), (Ok(held), Ok(left), Ok(max)) if held * max <= (left * left).saturating_mul(2))
        };
        more == 0 || left > 0 && (is_within(self.used) || is_within(of_user()))
    }
}

/// Units of a resource by user.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct UserShares {
    held: BTreeMap<u32, usize>,
    sum: usize,
}

impl UserShares {
    /// Whether a user may take `more` units, if there are `max` in all.
    pub(crate) fn permit(&self, uid: u32, more: usize, max: usize) -> bool {
        Pool { max, used: self.sum }.has_share(more, || self.of(uid))
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

    /// The units of a user.
    pub(crate) fn of(&self, uid: u32) -> usize {
        self.held.get(&uid).copied().unwrap_or_default()
    }

    /// The units of all users.
    pub(crate) const fn sum(&self) -> usize {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes single units as long as it may.
    fn take_all(shares: &mut UserShares, max: usize, uid: u32) -> usize {
        while shares.permit(uid, 1, max) {
            shares.take(uid, 1);
        }
        shares.of(uid)
    }

    #[test]
    fn each_user_leaves_something_for_the_next() {
        let mut shares = UserShares::default();
        let taken = [1, 2, 3, 1].map(|uid| take_all(&mut shares, 1200, uid));
        assert_eq!(taken, [600, 229, 112, 600], "what the first has it keeps");
        shares.give_back(1, 600);
        shares.give_back(1, 1);
        assert_eq!((shares.of(1), take_all(&mut shares, 1200, 2)), (0, 526));
        assert!((4..20).all(|uid| take_all(&mut shares, 1200, uid) > 0));
    }

    #[test]
    fn a_piece_is_no_larger_than_what_is_left() {
        let has_share = |used, more| Pool { max: 10, used }.has_share(more, || used);
        assert_eq!(
            [0, 5, 6, 7, 10, usize::MAX].map(|more| has_share(0, more)),
            [true, true, false, false, false, false]
        );
        assert_eq!([0, 1].map(|more| has_share(10, more)), [true, false]);
        assert!([1, usize::MAX].iter().all(|&max| Pool { max, used: 0 }.has_share(1, || 0)));
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
