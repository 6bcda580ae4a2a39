//! Many seeds on several threads.

use std::str::FromStr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use modex_sim::{Report, Setup, Shortest, run as run_once, run_twice, shrink};

use super::super::bench::progress;

/// Seeds from `first` to `end`, without `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SeedRange {
    pub(super) first: u64,
    pub(super) end: u64,
}

/// Why a range of seeds was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a range of seeds; write a range such as 0..1000, or one seed such as 17")]
pub(super) struct SeedRangeError {
    text: String,
}

impl FromStr for SeedRange {
    type Err = SeedRangeError;

    fn from_str(text: &str) -> Result<Self, SeedRangeError> {
        let error = || SeedRangeError { text: text.to_owned() };
        let number = |text: &str| text.trim().parse::<u64>().map_err(|_| error());
        let range = match text.split_once("..") {
            Some((first, end)) => Self { first: number(first)?, end: number(end)? },
            None => {
                let first = number(text)?;
                Self { first, end: first.checked_add(1).ok_or_else(error)? }
            }
        };
        if range.first < range.end { Ok(range) } else { Err(error()) }
    }
}

/// The outcome of all seeds.
#[derive(Debug)]
pub(super) struct SeedsReport {
    pub(super) sums: Sums,
    pub(super) time: Duration,
    /// The first seed that broke a rule, made small.
    pub(super) failure: Option<Shortest>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    pub(super) seeds: u64,
    pub(super) steps: u64,
    pub(super) requests: u64,
    pub(super) faults: u64,
    /// The hashes of all runs together, independent of their order.
    pub(super) hash: u64,
}

/// The state that the threads share.
#[derive(Debug)]
struct Shared {
    next: u64,
    sums: Sums,
    failed: Option<Report>,
    last_said: Instant,
}

/// Runs the seeds, each in the world that `setup_of` gives it. After the first seed that breaks a rule, no new run
/// starts.
pub(super) fn run(seeds: SeedRange, setup_of: impl Fn(u64) -> Setup + Sync, threads: usize) -> SeedsReport {
    let begun = now();
    let shared = Mutex::new(Shared { next: seeds.first, sums: Sums::default(), failed: None, last_said: begun });
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| while run_next(seeds, &setup_of, &shared) {});
        }
    });
    progress("");
    let shared = shared.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let failure = shared.failed.as_ref().and_then(|failed| {
        progress(&format!("making seed {} small", failed.seed));
        let shortest = shrink(failed, &setup_of(failed.seed));
        progress("");
        shortest
    });
    SeedsReport { sums: shared.sums, time: now().duration_since(begun), failure }
}

/// Runs one seed; false if none is left.
fn run_next(seeds: SeedRange, setup_of: impl Fn(u64) -> Setup, shared: &Mutex<Shared>) -> bool {
    let seed = {
        let mut shared = shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if shared.failed.is_some() || shared.next >= seeds.end {
            return false;
        }
        shared.next += 1;
        shared.next - 1
    };
    let setup = setup_of(seed);
    let report = if seed % TWICE_EVERY == 0 { run_twice(seed, &setup) } else { run_once(seed, &setup) };
    let mut shared = shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    shared.sums.seeds += 1;
    shared.sums.steps += report.steps;
    shared.sums.requests += report.requests;
    shared.sums.faults += report.faults;
    shared.sums.hash = shared.sums.hash.wrapping_add(report.hash);
    // Seeds start in order, so the lowest failed seed is the first that fails.
    if report.broken.is_some() && shared.failed.as_ref().is_none_or(|failed| report.seed < failed.seed) {
        shared.failed = Some(report);
    }
    let at = now();
    if at.duration_since(shared.last_said) > SAY_EVERY {
        shared.last_said = at;
        progress(&format!("{} of {} seeds", shared.sums.seeds, seeds.end - seeds.first));
    }
    true
}

#[expect(clippy::disallowed_methods, reason = "how long it took is for people; no run depends on it")]
fn now() -> Instant {
    Instant::now()
}

/// The interval of seeds that run twice, to compare the steps. A large run that is alone runs once.
const TWICE_EVERY: u64 = 16;
const SAY_EVERY: Duration = Duration::from_millis(300);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read() {
        assert_eq!("3..5".parse(), Ok(SeedRange { first: 3, end: 5 }));
        assert_eq!("17".parse(), Ok(SeedRange { first: 17, end: 18 }));
        for wrong in ["", "5..5", "a..b", "1..", "18446744073709551615"] {
            assert!(wrong.parse::<SeedRange>().is_err(), "{wrong}");
        }
    }
}
