//! The shortest run that still breaks the rule.

use super::faults::Faults;
use super::rule::Rule;
use super::run::{Report, run, run_in_words, run_twice};
use super::setup::Setup;

/// A failing seed, made as small as possible: every part of it is a parameter of the command.
#[derive(Clone, Debug)]
pub struct Shortest {
    /// The parameters.
    pub setup: Setup,
    /// The report of the shortest run, with its last steps in words.
    pub report: Report,
}

/// Leaves out kinds of faults, single faults, processes, nodes and phases for as long as the same rule breaks.
#[must_use]
pub fn shrink(failed: &Report, setup: &Setup) -> Option<Shortest> {
    let rule = failed.broken.as_ref()?.rule;
    let mut best = (setup.clone(), failed.steps);
    let mut tries_left = TRIES_MAX;
    while let Some(better) = step(failed.seed, rule, &best, &mut tries_left) {
        best = better;
    }
    let report = match rule {
        Rule::SameAgain => run_twice(failed.seed, &best.0),
        _ => run_in_words(failed.seed, &best.0),
    };
    Some(Shortest { setup: best.0, report })
}

/// The first smaller setup that breaks the same rule.
fn step(seed: u64, rule: Rule, best: &(Setup, u64), tries_left: &mut u32) -> Option<(Setup, u64)> {
    let (setup, steps) = best;
    for smaller in smaller(setup) {
        *tries_left = tries_left.checked_sub(1)?;
        let report = if rule == Rule::SameAgain { run_twice(seed, &smaller) } else { run(seed, &smaller) };
        let is_same = report.broken.as_ref().is_some_and(|broken| broken.rule == rule);
        if is_same && (report.steps <= *steps || smaller.faults.bits().count_ones() < setup.faults.bits().count_ones())
        {
            return Some((smaller, report.steps));
        }
    }
    None
}

/// Setups with a little less of something, boldest first.
fn smaller(setup: &Setup) -> Vec<Setup> {
    let mut all = Vec::new();
    if !setup.faults.is_empty() {
        all.push(Setup { faults: Faults::empty(), ..setup.clone() });
    }
    for kind in setup.faults.iter() {
        all.push(Setup { faults: setup.faults - kind, ..setup.clone() });
    }
    for ranks in less(setup.ranks) {
        all.push(Setup { ranks, ..setup.clone() });
    }
    for nodes in less(setup.nodes) {
        all.push(Setup { nodes, ..setup.clone() });
    }
    for phases in less(setup.phases) {
        all.push(Setup { phases, ..setup.clone() });
    }
    if !setup.faults.is_empty() {
        let most = if setup.faults_max == u32::MAX { 64 } else { setup.faults_max };
        for faults_max in less(most) {
            all.push(Setup { faults_max, ..setup.clone() });
        }
    }
    all
}

/// Half of it, and one less.
fn less(count: u32) -> impl Iterator<Item = u32> {
    let choices = if count > 1 { vec![count / 2, count - 1] } else { Vec::new() };
    choices.into_iter()
}

/// Runs that shrinking may take.
const TRIES_MAX: u32 = 400;
