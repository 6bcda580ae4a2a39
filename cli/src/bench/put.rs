//! Puts, and commits of the values.

use clap::Args;
use modex::Client;
use modex::types::Scope;

use super::super::Outcome;
use super::figure::figures;
use super::measure::{Series, Unit, batched, timed};
use super::node::{Failure, Node, words};
use super::output::BenchOutput;

#[derive(Args, Debug)]
pub(super) struct PutBenchOptions {
    /// Size of a value, in bytes
    #[arg(long, default_value_t = 64, value_name = "BYTES")]
    size: usize,

    /// Numbers of values in a commit
    #[arg(long, value_delimiter = ',', num_args = 1.., default_values_t = [1, 100], value_name = "N")]
    values: Vec<u32>,

    /// Samples of each figure
    #[arg(long, default_value_t = 500, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    samples: usize,

    #[command(flatten)]
    output: BenchOutput,
}

/// The work of the process.
#[derive(Args, Debug)]
pub(super) struct PutTask {
    #[arg(long)]
    size: usize,
    #[arg(long, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    samples: usize,
    #[arg(long, value_delimiter = ',')]
    values: Vec<u32>,
}

pub(super) fn run(options: &PutBenchOptions) -> Outcome {
    let progress = options.output.begin("put", 1)?;
    progress.step("a process that puts and commits");
    let values = options.values.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let task = words([
        &"put",
        &format!("--size={}", options.size),
        &format!("--samples={}", options.samples),
        &format!("--values={values}"),
    ]);
    let series = Node::start(1)?.workers(1, &task)?;
    options.output.show("put", &figures(series))
}

/// One process's puts and commits.
pub(super) fn measure(task: &PutTask) -> Result<Vec<Series>, Failure> {
    let client = Client::connect()?;
    let bytes = u64::try_from(task.size)?;
    let value = vec![7_u8; task.size];
    let put = batched(task.samples, || client.put(Scope::Global, "bench.put", value.clone()));
    client.commit()?;
    let mut all = vec![Series::new("put", Unit::Nanoseconds).param("bytes", bytes).with(put)];
    for &count in &task.values {
        let mut series = Series::new("commit", Unit::Microseconds).param("values", count.into()).param("bytes", bytes);
        for _ in 0..task.samples {
            for number in 0..count {
                client.put(Scope::Global, &format!("bench.put.{number}"), value.clone())?;
            }
            let (time, committed) = timed(|| client.commit());
            committed?;
            series.add(time);
        }
        all.push(series);
    }
    client.finalize()?;
    Ok(all)
}
