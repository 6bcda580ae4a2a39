//! A loop of Gets between two system calls that occur nowhere else, so that a tracer finds the calls in between.

use std::os::unix::process::parent_id;

use clap::Args;
use modex::{Client, FenceOptions};

use super::super::{Outcome, printing};
use super::measure::Series;
use super::node::{Failure, words};
use super::peer::{Targets, with_peer};

/// The work of the looping process.
#[derive(Args, Debug)]
pub(super) struct SyscallTask {
    #[arg(long)]
    count: u64,
    #[arg(long, value_delimiter = ',', value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=15 << 20))]
    sizes: Vec<usize>,
}

/// Starts a job of two processes, one of which loops.
pub(super) fn start(count: u64, sizes: &[usize]) -> Outcome {
    let list = sizes.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    with_peer(1, sizes, &words([&"quiet-loop", &format!("--count={count}"), &format!("--sizes={list}")]))?;
    printing::print(&format!("{count} gets between two getppid system calls\n"))?;
    Ok(0)
}

/// The loop: job key and peer's values in turn.
pub(super) fn run(task: &SyscallTask) -> Result<Vec<Series>, Failure> {
    let client = Client::connect()?;
    client.fence(&FenceOptions::new().collect(true)).wait()?;
    let targets = Targets::of(&client, &task.sizes)?;
    let gets_per_turn = u64::try_from(task.sizes.len())?.saturating_add(1);
    let turns = task.count.div_ceil(gets_per_turn);
    // `parent_id` is one getppid, which the C library does not cache.
    let before = parent_id();
    let all_found = (0..turns).all(|_| targets.job_size().is_some() && targets.all_peer_values());
    let after = parent_id();
    client.finalize()?;
    match (all_found, before == after) {
        (false, _) => Err("a value was not found".into()),
        (true, false) => Err("the parent process has ended".into()),
        (true, true) => Ok(Vec::new()),
    }
}
