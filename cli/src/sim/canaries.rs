//! Planted defects, one kind after the other, and the seed that finds each.

use super::super::Outcome;
use super::output::{self, Caught};
use super::seeds::{self, SeedsReport, Sums};
use super::{Canary, SimOptions};

pub(super) fn run(options: &SimOptions, kinds: &[Canary]) -> Outcome {
    let mut caught = Vec::new();
    let mut all = SeedsReport { sums: Sums::default(), time: std::time::Duration::ZERO, failure: None };
    for &kind in kinds {
        let setup = options.setup(kind.faults(), Some(kind));
        let SeedsReport { sums, time, failure, .. } = seeds::run(options.seeds, |_| setup.clone(), options.threads());
        all.sums.seeds += sums.seeds;
        all.sums.steps += sums.steps;
        all.sums.requests += sums.requests;
        all.sums.faults += sums.faults;
        all.time += time;
        caught.push(Caught::new(kind, failure));
    }
    let found = caught.iter().filter(|caught| caught.is_found()).count();
    output::show(&all, &caught, options.json)?;
    Ok(match found {
        found if found == kinds.len() => 1,
        // Every planted defect must be found, so some failures are not enough.
        _ => 0,
    })
}
