//! Connecting to the server and leaving again.

use clap::Args;
use modex::Client;

use super::super::Outcome;
use super::figure::{compare_with_first, figures};
use super::measure::{Series, Unit, timed};
use super::node::{Failure, Node, words};
use super::output::BenchOutput;
use super::shape::{RANKS_MAX, RankPlacement, Shape};

#[derive(Args, Debug)]
pub(super) struct InitBenchOptions {
    /// Processes of each job, one after the other; each connects for the first time once
    #[arg(long, default_value_t = 50, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    processes: u32,

    /// Sizes of the jobs that the processes belong to, in turn; the first 100 ranks of each are on this node
    #[arg(long, value_delimiter = ',', num_args = 1.., default_values_t = [10, 1_000_000], value_name = "N", value_parser = clap::value_parser!(u32).range(1..=RANKS_MAX))]
    ranks: Vec<u32>,

    /// Number of further connections of each process
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    again: u32,

    #[command(flatten)]
    output: BenchOutput,
}

/// The work of one process.
#[derive(Args, Debug)]
pub(super) struct InitTask {
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    again: u32,
}

pub(super) fn run(options: &InitBenchOptions) -> Outcome {
    let steps = options.ranks.len() + usize::try_from(options.processes)?;
    let progress = options.output.begin("init", steps)?;
    let mut nodes = Vec::new();
    for &ranks in &options.ranks {
        progress.step(&format!("a job of {ranks} ranks"));
        let shape = Shape { ranks, ranks_per_node: RANKS_PER_NODE, placement: RankPlacement::Block };
        nodes.push((Node::start_of(shape)?, shape));
    }
    let mut all = Vec::new();
    for number in 0..options.processes {
        progress.step("a process that connects and leaves");
        for (node, shape) in &nodes {
            // The same ranks of each, so that nothing differs but the job.
            let rank = number % shape.ranks.min(ALIKE);
            let measured = node.worker(rank, &words([&"init", &format!("--again={}", options.again)]))?.finish()?;
            all.extend(measured.into_iter().map(|series| series.param("ranks", shape.ranks.into())));
        }
    }
    let mut figures = figures(all);
    for name in NAMES {
        compare_with_first(&mut figures, name);
    }
    options.output.show("init", &figures)
}

/// Ranks of each node.
const RANKS_PER_NODE: u32 = 100;
/// Processes are these ranks of their job.
const ALIKE: u32 = 10;
/// Connecting, first and again, and leaving.
const NAMES: [&str; 4] = ["init.first", "init.again", "finalize.first", "finalize.again"];

/// One process's connections.
pub(super) fn measure(task: &InitTask) -> Result<Vec<Series>, Failure> {
    let [first, again, left_first, left_again] = NAMES.map(|name| Series::new(name, Unit::Microseconds));
    let (mut connect, mut leave) = ([first, again], [left_first, left_again]);
    let turns = [1, task.again];
    for ((connect, leave), turns) in connect.iter_mut().zip(&mut leave).zip(turns) {
        for _ in 0..turns {
            let (time, client) = timed(Client::connect);
            connect.add(time);
            let client = client?;
            let (time, left) = timed(|| client.finalize());
            leave.add(time);
            left?;
        }
    }
    Ok(connect.into_iter().chain(leave).collect())
}
