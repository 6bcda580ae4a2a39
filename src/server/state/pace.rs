//! A bound on the work that ends of processes do at once.
//!
//! Each process has a turn of its own, also for its end. Hundreds of processes that end together must not do all the
//! work that follows in these turns. They share a bound; the rest of the work goes on in the server's own steps.

use std::fmt;
use std::time::Duration;

use crate::types::Time;

/// The work of ends in one period.
#[derive(Default)]
pub(crate) struct Pace {
    since: Time,
    spent: usize,
}

/// The text of a core tells its states apart. Spent work makes a difference only if it is much.
impl fmt::Debug for Pace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.spent < LOOKS_PER_STEP / 2 { "Pace" } else { "Pace(mostly spent)" })
    }
}

impl Pace {
    /// The work that an end may do at once, in looks at a process.
    pub(crate) fn left(&mut self, now: Time) -> usize {
        if now.since(self.since) >= PERIOD {
            *self = Self { since: now, spent: 0 };
        }
        LOOKS_PER_STEP.saturating_sub(self.spent)
    }

    /// Notes work that was done at once.
    pub(crate) const fn spend(&mut self, looks: usize) {
        self.spent = self.spent.saturating_add(looks);
    }
}

/// Looks at processes, operations or connections in one step: about half a millisecond.
pub(crate) const LOOKS_PER_STEP: usize = 4096;
/// Number of outputs after which a step informs no other group.
pub(crate) const OUTPUTS_PER_STEP: usize = 256;
/// Time in which ends do as much work at once as one step.
const PERIOD: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_one_period_share_the_work_of_one_step() {
        let at = |milliseconds| Time::ZERO + Duration::from_millis(milliseconds);
        let mut pace = Pace::default();
        assert_eq!(pace.left(at(0)), LOOKS_PER_STEP);
        pace.spend(LOOKS_PER_STEP - 1);
        assert_eq!(pace.left(at(9)), 1);
        pace.spend(50_000);
        assert_eq!(pace.left(at(9)), 0);
        assert_eq!(pace.left(at(10)), LOOKS_PER_STEP);
    }
}
