//! A run from its first step to its verdict.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::faults::Canary;
use super::invariants::{Broken, Rule};
use super::setup::Setup;
use super::trace::Keep;
use super::world::World;

/// What became of one seed.
#[derive(Clone, Debug)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// Events taken.
    pub steps: u64,
    /// Requests that servers took.
    pub requests: u64,
    /// Faults that happened.
    pub faults: u64,
    /// A number that two runs share if and only if they had the same steps.
    pub hash: u64,
    /// The rule that did not hold, if any.
    pub broken: Option<Broken>,
    /// The last steps, as text, if they were wanted.
    pub lines: Vec<String>,
}

/// Runs a seed until nothing is left to happen or a rule is broken.
#[must_use]
pub fn run(seed: u64, setup: &Setup) -> Report {
    run_keeping(seed, setup, Keep::Nothing)
}

/// The same, with the last steps as text.
#[must_use]
pub fn run_in_words(seed: u64, setup: &Setup) -> Report {
    run_keeping(seed, setup, Keep::Text)
}

/// Runs a seed twice and holds the second run to the first, step for step.
#[must_use]
pub fn run_twice(seed: u64, setup: &Setup) -> Report {
    let first = run(seed, setup);
    let second = run(seed, setup);
    if first.broken.is_some() || first.hash == second.hash {
        return first;
    }
    let what = format!(
        "{} steps with hash {:016x}, then {} steps with hash {:016x}",
        first.steps, first.hash, second.steps, second.hash
    );
    Report { broken: Some(Broken { rule: Rule::SameAgain, what }), ..second }
}

fn run_keeping(seed: u64, setup: &Setup, keep: Keep) -> Report {
    if setup.canary == Some(Canary::Memory) {
        REMEMBERED.with(|remembered| remembered.set(remembered.get() + 1));
    }
    let mut world = World::new(seed, setup, keep);
    // An assertion of a core that fails is a finding like any other.
    let outcome = catch_unwind(AssertUnwindSafe(|| world.run()));
    let panicked = outcome.err().map(|cause| {
        let text = cause.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| cause.downcast_ref::<&str>().copied()).unwrap_or("an assertion failed");
        Broken { rule: Rule::Consistent, what: text.to_owned() }
    });
    Report {
        seed,
        steps: world.trace.steps(),
        requests: world.requests,
        faults: u64::from(world.dice.struck()),
        hash: world.trace.hash(),
        broken: panicked.or_else(|| world.rules.broken().cloned()),
        lines: world.trace.into_lines(),
    }
}

thread_local! {
    /// What [`Canary::Memory`] lets one run know of another.
    static REMEMBERED: Cell<u64> = const { Cell::new(0) };
}

pub(super) fn remembered() -> u64 {
    REMEMBERED.with(Cell::get)
}
