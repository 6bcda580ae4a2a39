//! Connecting to the server and leaving again.

use clap::Args;

use super::super::Outcome;
use super::figure::figures;
use super::measure::{Series, Unit, timed};
use super::node::{Failure, Node, words};
use super::output::{Output, progress};
use crate::api::Client;

#[derive(Args, Debug)]
pub(super) struct Options {
    /// Processes, one after the other; each connects for the first time once
    #[arg(long, default_value_t = 50, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    processes: u32,

    /// How often each process connects again
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    again: u32,

    #[command(flatten)]
    output: Output,
}

/// What one process does.
#[derive(Args, Debug)]
pub(super) struct Task {
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    again: u32,
}

pub(super) fn run(options: &Options) -> Outcome {
    let node = Node::start(options.processes)?;
    let mut all = Vec::new();
    for rank in 0..options.processes {
        progress(&format!("init: process {rank} of {}", options.processes));
        all.extend(node.worker(rank, &words([&"init", &format!("--again={}", options.again)]))?.finish()?);
    }
    options.output.show("init", &figures(all))
}

/// One process's connections.
pub(super) fn measure(task: &Task) -> Result<Vec<Series>, Failure> {
    let mut connect = [Series::new("init.first", Unit::Microseconds), Series::new("init.again", Unit::Microseconds)];
    let mut leave =
        [Series::new("finalize.first", Unit::Microseconds), Series::new("finalize.again", Unit::Microseconds)];
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
