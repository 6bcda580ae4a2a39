//! Finds the smallest encoding of one number for each index, in linear time.

use crate::gds::layout::format::Run;

/// The stored form of a column's numbers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Computed: `base + ((index / div) % modulo) * factor`, wrapping.
    Stride(Stride),
    /// An array of differences from `base`, `width` bytes each.
    Narrow { base: u64, width: u16 },
    /// Runs of constant growth.
    Runs(Vec<Run>),
}

/// Parameters of a computed column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stride {
    pub(crate) base: u64,
    pub(crate) div: u64,
    pub(crate) modulo: u64,
    pub(crate) factor: u64,
}

/// Runs are chosen when an array would be this many times larger: finding a run costs a binary search.
const RUNS_ADVANTAGE: usize = 4;

impl Plan {
    /// The plan for these numbers.
    pub(crate) fn of(numbers: &[u64]) -> Self {
        if let Some(stride) = Stride::of(numbers) {
            return Self::Stride(stride);
        }
        let base = numbers.iter().copied().min().unwrap_or_default();
        let spread = numbers.iter().copied().max().unwrap_or_default() - base;
        let width = width_of(spread);
        let array_bytes = numbers.len().saturating_mul(usize::from(width));
        match runs(numbers, array_bytes / RUNS_ADVANTAGE / size_of::<Run>()) {
            Some(runs) => Self::Runs(runs),
            None => Self::Narrow { base, width },
        }
    }
}

impl Stride {
    /// The same number everywhere.
    pub(crate) const fn constant(base: u64) -> Self {
        Self { base, div: 1, modulo: 1, factor: 0 }
    }

    /// The index and a number.
    pub(crate) const fn counting(base: u64) -> Self {
        Self { base, div: 1, modulo: u64::MAX, factor: 1 }
    }

    /// The number at an index; `None` if `div` or `modulo` is zero, which no column has.
    pub(crate) fn at(self, index: u64) -> Option<u64> {
        let step = index.checked_div(self.div)?.checked_rem(self.modulo)?;
        Some(self.base.wrapping_add(step.wrapping_mul(self.factor)))
    }

    /// The stride that yields exactly these numbers, if there is one.
    fn of(numbers: &[u64]) -> Option<Self> {
        let Some(&base) = numbers.first() else { return Some(Self::constant(0)) };
        let Some(div) = numbers.iter().position(|&number| number != base) else { return Some(Self::constant(base)) };
        let factor = numbers.get(div)?.wrapping_sub(base);
        // The cycle ends when the first number recurs; without a recurrence there is none.
        let cycle = numbers.iter().step_by(div).skip(1).position(|&number| number == base);
        let modulo = cycle.map_or(u64::MAX, |blocks| u64::try_from(blocks).unwrap_or(u64::MAX).saturating_add(1));
        let stride = Self { base, div: u64::try_from(div).ok()?, modulo, factor };
        stride.yields(numbers, div).then_some(stride)
    }

    /// Whether these are the numbers from index 0; `div` is the stride's. Counts instead of dividing: a million
    /// divisions would take longer than all other work on a column.
    fn yields(self, numbers: &[u64], div: usize) -> bool {
        let (mut step, mut next) = (0, self.base);
        let mut expected = || {
            let expected = next;
            (step, next) = (step + 1, next.wrapping_add(self.factor));
            if step == self.modulo {
                (step, next) = (0, self.base);
            }
            expected
        };
        if div <= 1 {
            return numbers.iter().all(|&number| number == expected());
        }
        numbers.chunks(div).all(|block| {
            let expected = expected();
            block.iter().all(|&number| number == expected)
        })
    }
}

/// Splits into runs; `None` if there would be more than `runs_max`.
fn runs(numbers: &[u64], runs_max: usize) -> Option<Vec<Run>> {
    let mut runs: Vec<Run> = Vec::new();
    let mut previous = 0_u64;
    // Whether the last run has only its first number, so that its step is unknown.
    let mut step_is_open = false;
    for (index, &number) in (0_u32..).zip(numbers) {
        let growth = number.wrapping_sub(previous);
        let is_full = runs.len() >= runs_max;
        previous = number;
        match runs.last_mut() {
            Some(run) if step_is_open => {
                run.step = growth;
                step_is_open = false;
            }
            Some(run) if run.step == growth => {}
            _ if is_full => return None,
            _ => {
                runs.push(Run { start: index, reserved: 0, base: number, step: 0 });
                step_is_open = true;
            }
        }
    }
    Some(runs)
}

const fn width_of(spread: u64) -> u16 {
    match spread {
        0..=0xFF => 1,
        0x100..=0xFFFF => 2,
        0x1_0000..=0xFFFF_FFFF => 4,
        _ => 8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(plan: &Plan, numbers: &[u64], index: u32) -> u64 {
        match plan {
            Plan::Stride(stride) => stride.at(index.into()).unwrap(),
            Plan::Narrow { base, width } => {
                let difference = numbers[index as usize] - base;
                assert_eq!(width_of(difference).max(*width), *width, "{difference} does not fit {width} bytes");
                base + difference
            }
            Plan::Runs(runs) => {
                let run = runs[runs.partition_point(|run| run.start <= index) - 1];
                run.base.wrapping_add(u64::from(index - run.start).wrapping_mul(run.step))
            }
        }
    }

    #[test]
    fn constants_and_block_and_cyclic_maps_are_computed() {
        let stride = |base, div, modulo, factor| Plan::Stride(Stride { base, div, modulo, factor });
        assert_eq!(Plan::of(&[7; 5]), Plan::Stride(Stride::constant(7)));
        assert_eq!(Plan::of(&[]), Plan::Stride(Stride::constant(0)));
        let identity: Vec<u64> = (0..100).collect();
        assert_eq!(Plan::of(&identity), stride(0, 1, u64::MAX, 1));
        let block: Vec<u64> = (0..100).map(|rank| rank / 8).collect();
        assert_eq!(Plan::of(&block), stride(0, 8, u64::MAX, 1));
        let cyclic: Vec<u64> = (0..100).map(|rank| 3 + rank % 8).collect();
        assert_eq!(Plan::of(&cyclic), stride(3, 1, 8, 1));
        let falling: Vec<u64> = (0..100).map(|rank| 200 - 2 * rank).collect();
        assert_eq!(Plan::of(&falling), stride(200, 1, u64::MAX, 2_u64.wrapping_neg()));
    }

    #[test]
    fn an_uneven_block_map_becomes_runs() {
        let sizes = [150_u64, 170, 164, 190];
        let ranks: Vec<u64> = (0..400).flat_map(|node| 0..sizes[node % 4]).collect();
        let Plan::Runs(runs) = Plan::of(&ranks) else { panic!("not runs") };
        assert!(runs.len() <= 400 + 1);
    }

    #[test]
    fn an_irregular_column_is_as_narrow_as_its_spread() {
        let numbers = |spread: u64| vec![1000, 1000 + spread, 1000 + spread / 3, 1000 + spread / 2, 1000];
        for (spread, width) in [(0xFF, 1), (0x100, 2), (0xFFFF, 2), (0x1_0000, 4), (0xFFFF_FFFF, 4), (1 << 32, 8)] {
            assert_eq!(Plan::of(&numbers(spread)), Plan::Narrow { base: 1000, width }, "spread {spread:#x}");
        }
        assert_eq!(Plan::of(&[0, u64::MAX, 5, 5]), Plan::Narrow { base: 0, width: 8 });
    }

    proptest! {
        #[test]
        fn every_plan_yields_the_numbers_it_was_made_from(
            numbers in prop_oneof![
                prop::collection::vec(0_u64..4, 0..60),
                prop::collection::vec(any::<u64>(), 0..20),
                (any::<u64>(), 1_u64..9, 1_u64..9, any::<u64>(), 0_u64..80).prop_map(|(base, div, modulo, factor, count)| {
                    (0..count).map(|i| Stride { base, div, modulo, factor }.at(i).unwrap()).collect()
                }),
                prop::collection::vec((0_u64..1000, 0_u64..3, 100_usize..200), 1..4).prop_map(|runs| {
                    runs.into_iter().flat_map(|(base, step, n)| (0..n as u64).map(move |i| base + i * step)).collect()
                }),
            ],
        ) {
            let plan = Plan::of(&numbers);
            for (index, &number) in (0_u32..).zip(&numbers) {
                prop_assert_eq!(at(&plan, &numbers, index), number, "{:?} at {}", plan, index);
            }
        }
    }
}
