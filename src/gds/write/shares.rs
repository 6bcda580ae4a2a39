//! Fair shares of a bounded quantity.
//!
//! Half of the whole is guaranteed, in equal parts for each holder. The other half is common. A holder may take a piece
//! of the common half only if its common holding then is at most the free rest of that half. The message bus
//! `dbus-broker` does the same with its users' quotas. Thus one holder alone gets three quarters of the whole, and many
//! equal holders get nearly all of it together. No holder can lower another's guaranteed part.

use rustc_hash::FxHashMap;

/// The holdings of all holders. Without a number of holders there are no limits.
#[derive(Debug)]
pub(crate) struct Shares {
    whole: u64,
    holders: u64,
    held: FxHashMap<u32, u64>,
    /// Sum of all guaranteed holdings, and of all common ones.
    guaranteed_held: u64,
    common_held: u64,
}

/// A piece exceeds the holder's share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exceeded {
    /// Present holding.
    pub(crate) held: u64,
    /// Further amount available now.
    pub(crate) left: u64,
}

impl Shares {
    /// Shares without any holding.
    pub(crate) fn new(whole: u64) -> Self {
        Self { whole, holders: 0, held: FxHashMap::default(), guaranteed_held: 0, common_held: 0 }
    }

    /// Sets the number of holders; at least the number of those with a holding.
    pub(crate) fn share_among(&mut self, holders: u32) {
        let holders = u64::from(holders).max(u64::try_from(self.held.len()).unwrap_or(u64::MAX));
        if holders == self.holders {
            return;
        }
        self.holders = holders;
        let part = self.guaranteed();
        self.guaranteed_held = self.held.values().fold(0, |sum, &held| sum.saturating_add(held.min(part)));
        self.common_held = self.held.values().fold(0, |sum, &held| sum.saturating_add(held.saturating_sub(part)));
    }

    /// The guaranteed part of each holder.
    fn guaranteed(&self) -> u64 {
        (self.whole / 2).checked_div(self.holders).unwrap_or_default()
    }

    /// The amount that must stay free for the guaranteed parts of all other holders.
    pub(crate) fn reserved_for_others(&self, holder: Option<u32>) -> u64 {
        let part = self.guaranteed();
        let own = holder.map_or(0, |holder| part.saturating_sub(self.held_by(holder)));
        part.saturating_mul(self.holders).saturating_sub(self.guaranteed_held).saturating_sub(own)
    }

    fn held_by(&self, holder: u32) -> u64 {
        self.held.get(&holder).copied().unwrap_or_default()
    }

    /// Whether a holder may take a piece of the free amount. `None`: not a holder, which must leave all guaranteed
    /// parts free.
    pub(crate) fn permit(&self, holder: Option<u32>, piece: u64, free: u64) -> Result<(), Exceeded> {
        if self.holders == 0 {
            return Ok(());
        }
        let free = free.saturating_sub(self.reserved_for_others(holder));
        let held = holder.map_or(0, |holder| self.held_by(holder));
        let left = match holder {
            None => free,
            Some(_) => {
                let part = self.guaranteed();
                let common = self.whole.saturating_sub(part.saturating_mul(self.holders));
                let own = held.saturating_sub(part);
                // `own + more <= common - common_held - more`, solved for `more`.
                let more = common.saturating_sub(self.common_held).saturating_sub(own) / 2;
                let unused = part.saturating_sub(held);
                unused.max(unused.saturating_add(more).min(free))
            }
        };
        if piece <= left { Ok(()) } else { Err(Exceeded { held, left }) }
    }

    /// Adds a piece to a holder's holding.
    pub(crate) fn take(&mut self, holder: u32, piece: u64) {
        let before = self.held_by(holder);
        let after = before.saturating_add(piece);
        self.held.insert(holder, after);
        let part = self.guaranteed();
        let within = after.min(part).saturating_sub(before.min(part));
        self.guaranteed_held = self.guaranteed_held.saturating_add(within);
        self.common_held = self.common_held.saturating_add(after.saturating_sub(before).saturating_sub(within));
        if self.holders > 0 && u64::try_from(self.held.len()).is_ok_and(|count| count > self.holders) {
            self.share_among(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WHOLE: u64 = 1 << 20;

    fn shared_among(holders: u32) -> Shares {
        let mut shares = Shares::new(WHOLE);
        shares.share_among(holders);
        shares
    }

    fn taken(shares: &Shares) -> u64 {
        shares.held.values().sum()
    }

    /// Takes pieces as long as permitted; returns their sum.
    fn take_all(shares: &mut Shares, holder: u32, piece: u64) -> u64 {
        let mut sum = 0;
        while shares.permit(Some(holder), piece, WHOLE - taken(shares)).is_ok() {
            shares.take(holder, piece);
            sum += piece;
        }
        sum
    }

    #[test]
    fn one_alone_gets_three_quarters() {
        assert_eq!(take_all(&mut shared_among(1), 0, 1), WHOLE / 4 * 3);
    }

    #[test]
    fn each_gets_its_part_behind_greedy_ones() {
        for holders in [2, 64, 512] {
            let mut shares = shared_among(holders);
            let got: Vec<u64> = (0..holders).map(|holder| take_all(&mut shares, holder, 1)).collect();
            let part = WHOLE / 2 / u64::from(holders);
            assert!(got.iter().all(|&got| got >= part), "{got:?}");
            assert!(got[0] >= WHOLE / 4, "the first of {holders} gets {}", got[0]);
            assert!(taken(&shares) <= WHOLE);
        }
    }

    #[test]
    fn many_that_take_alike_get_nearly_all() {
        let mut shares = shared_among(64);
        let mut may_go_on = true;
        while may_go_on {
            may_go_on = false;
            for holder in 0..64 {
                if shares.permit(Some(holder), 1, WHOLE - taken(&shares)).is_ok() {
                    shares.take(holder, 1);
                    may_go_on = true;
                }
            }
        }
        assert!(taken(&shares) > WHOLE / 100 * 98, "{}", taken(&shares));
    }

    #[test]
    fn a_refusal_says_what_is_left() {
        let mut shares = shared_among(2);
        shares.take(0, WHOLE / 4);
        let exceeded = shares.permit(Some(0), WHOLE, WHOLE).unwrap_err();
        assert_eq!(exceeded, Exceeded { held: WHOLE / 4, left: WHOLE / 4 });
        assert_eq!(shares.permit(Some(0), exceeded.left, WHOLE), Ok(()));
        assert!(shares.permit(Some(0), exceeded.left + 1, WHOLE).is_err());
    }

    #[test]
    fn without_holders_nothing_is_shared() {
        let mut shares = Shares::new(10);
        shares.take(3, 9);
        assert_eq!(shares.permit(Some(3), 9, 0), Ok(()));
        shares.share_among(2);
        assert!(shares.permit(Some(3), 1, 1).is_err());
    }

    #[test]
    fn an_uncounted_process_becomes_a_holder() {
        let mut shares = shared_among(1);
        shares.take(0, 1);
        shares.take(7, 1);
        assert_eq!((shares.holders, shares.guaranteed()), (2, WHOLE / 4));
    }

    proptest! {
        #![proptest_config(crate::cases::cases(200))]

        /// Each holder can always have its guaranteed part, whatever other holders and non-holders take.
        #[test]
        fn no_holder_brings_another_below_its_guaranteed_part(
            holders in 1_u32..70,
            pieces in prop::collection::vec((prop::option::of(0_u32..70), 1_u64..WHOLE / 4), 0..200),
        ) {
            let mut shares = shared_among(holders);
            let mut free = WHOLE;
            for (holder, piece) in pieces {
                let holder = holder.map(|holder| holder % holders);
                if shares.permit(holder, piece, free).is_ok() {
                    prop_assert!(piece <= free);
                    free -= piece;
                    if let Some(holder) = holder {
                        shares.take(holder, piece);
                    }
                }
                let part = shares.guaranteed();
                let unused = (0..holders).map(|holder| part.saturating_sub(shares.held_by(holder)));
                prop_assert!(unused.sum::<u64>() <= free);
                for holder in 0..holders {
                    let unused = part.saturating_sub(shares.held_by(holder));
                    prop_assert_eq!(shares.permit(Some(holder), unused, free), Ok(()));
                }
            }
        }
    }
}
