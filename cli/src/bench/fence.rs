//! Fences among processes of one node.

use clap::Args;
use modex::types::{Rank, Scope};
use modex::{Client, FenceOptions};

use super::super::Outcome;
use super::figure::figures;
use super::measure::{Series, Unit, timed};
use super::node::{Failure, Node, words};
use super::output::BenchOutput;

/// Fences before anything is measured, until all processes run.
const WARM_UP_COUNT: usize = 20;

/// Bytes that each process exchanges.
const VALUE_BYTES: usize = 64;

#[derive(Args, Debug)]
pub(super) struct FenceBenchOptions {
    /// Numbers of processes
    #[arg(long, value_delimiter = ',', num_args = 1.., default_values_t = [2, 8, 32], value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    processes: Vec<u32>,

    /// Fences of each kind
    #[arg(long, default_value_t = 300, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    samples: usize,

    #[command(flatten)]
    output: BenchOutput,
}

/// The work of one process.
#[derive(Args, Debug)]
pub(super) struct FenceTask {
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    processes: u32,
    #[arg(long, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    samples: usize,
}

pub(super) fn run(options: &FenceBenchOptions) -> Outcome {
    let progress = options.output.begin("fence", options.processes.len())?;
    let mut all = Vec::new();
    for &processes in &options.processes {
        progress.step(&format!("{processes} processes"));
        let samples = format!("--samples={}", options.samples);
        let task = words([&"fence", &format!("--processes={processes}"), &samples]);
        all.extend(Node::start(processes)?.workers(processes, &task)?);
    }
    options.output.show("fence", &figures(all))
}

/// One process's fences. All processes take part, rank 0 reports.
pub(super) fn measure(task: &FenceTask) -> Result<Vec<Series>, Failure> {
    let client = Client::connect()?;
    let (barrier, collect) = (FenceOptions::new(), FenceOptions::new().collect(true));
    let post = || -> Result<(), Failure> {
        client.put(Scope::Global, "bench.fence", vec![7_u8; VALUE_BYTES])?;
        Ok(client.commit()?)
    };
    post()?;
    for _ in 0..WARM_UP_COUNT {
        client.fence(&collect).wait()?;
    }
    let fence = |options: &FenceOptions| -> Result<(), Failure> { Ok(client.fence(options).wait()?) };
    let all = [
        repeated("fence.no_data", task, || fence(&barrier))?,
        repeated("fence.collect", task, || fence(&collect))?,
        repeated("fence.put_commit_collect", task, || post().and_then(|()| fence(&collect)))?,
    ];
    let tells = client.proc().rank == Rank::Process(0);
    client.finalize()?;
    Ok(if tells { all.to_vec() } else { Vec::new() })
}

fn repeated(name: &str, task: &FenceTask, mut call: impl FnMut() -> Result<(), Failure>) -> Result<Series, Failure> {
    let mut series = Series::new(name, Unit::Microseconds).param("processes", task.processes.into());
    for _ in 0..task.samples {
        let (time, result) = timed(&mut call);
        result?;
        series.add(time);
    }
    Ok(series)
}
