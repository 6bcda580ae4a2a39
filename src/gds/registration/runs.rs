//! Numbers by index in little memory: a host's values of processes mostly repeat or count up.

/// Pairs of index and number, in the order in which they were added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Runs(Vec<Run>);

/// Indexes that count up by one, and numbers that grow by `step`, wrapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    index: u32,
    count: u32,
    number: u64,
    step: u64,
}

impl Runs {
    /// Adds a pair.
    pub(super) fn push(&mut self, index: u32, number: u64) {
        if let Some(run) = self.0.last_mut()
            && run.index.checked_add(run.count) == Some(index)
        {
            // After a single pair the step is still unknown.
            if run.count == 1 {
                run.step = number.wrapping_sub(run.number);
            }
            if run.number_at(run.count) == number {
                run.count += 1;
                return;
            }
        }
        self.0.push(Run { index, count: 1, number, step: 0 });
    }

    /// All pairs.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, u64)> + Clone {
        self.0.iter().flat_map(|run| (0..run.count).map(|at| (run.index + at, run.number_at(at))))
    }

    /// Number of pairs.
    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|run| usize::try_from(run.count).unwrap_or(usize::MAX)).sum()
    }

    /// Whether the indexes are 0, 1, 2 and so on.
    pub(super) fn counts_from_zero(&self) -> bool {
        let mut next = 0;
        self.0.iter().all(|run| {
            let follows = run.index == next;
            next = run.index.wrapping_add(run.count);
            follows
        })
    }

    /// Whether there are no pairs.
    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Run {
    const fn number_at(&self, at: u32) -> u64 {
        self.number.wrapping_add(self.step.wrapping_mul(at as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn runs(pairs: &[(u32, u64)]) -> Runs {
        let mut runs = Runs::default();
        pairs.iter().for_each(|&(index, number)| runs.push(index, number));
        runs
    }

    #[test]
    fn repeating_or_evenly_rising_numbers_form_one_run() {
        let pairs: Vec<(u32, u64)> = (0..1000).map(|index| (index, u64::from(index) * 3)).collect();
        assert_eq!(runs(&pairs).0.len(), 1);
        let local_ranks: Vec<(u32, u64)> = (0..1000).map(|index| (index, u64::from(index) % 100)).collect();
        assert_eq!(runs(&local_ranks).0.len(), 10);
    }

    #[test]
    fn a_step_that_was_tried_in_vain_is_not_kept() {
        let pairs = [(5, 7), (7, 9), (8, u64::MAX), (8, 0), (u32::MAX, 1), (0, 2)];
        assert_eq!(runs(&pairs).iter().collect::<Vec<_>>(), pairs);
    }

    proptest! {
        #[test]
        fn all_pairs_come_back_in_order(
            pairs in prop::collection::vec((0_u32..6, prop_oneof![0_u64..4, any::<u64>()]), 0..60),
        ) {
            let runs = runs(&pairs);
            prop_assert_eq!(runs.len(), pairs.len());
            prop_assert_eq!(runs.is_empty(), pairs.is_empty());
            prop_assert_eq!(runs.counts_from_zero(), (0..).zip(&pairs).all(|(at, (index, _))| at == *index));
            prop_assert_eq!(runs.iter().collect::<Vec<_>>(), pairs);
        }
    }
}
