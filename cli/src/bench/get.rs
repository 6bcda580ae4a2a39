//! Hot Gets: of a value that was read before, in memory that is mapped.

use std::sync::Barrier;

use clap::Args;
use modex::{Client, FenceOptions};

use super::super::Outcome;
use super::figure::{compare_with, figures};
use super::measure::{Series, Unit, batched};
use super::node::{Failure, words};
use super::output::BenchOutput;
use super::peer::{Targets, with_peer};
use super::probe::{HashProbe, L1_SLOTS};
use super::ranks;
use super::shape::RANKS_MAX;
use super::syscalls;

/// The figure that all others are compared with.
const PROBE: &str = "limit.hash_probe.L1";

/// The figures take turns this often, so that a change of the machine's pace meets all alike.
const ROUND_COUNT: usize = 10;

#[derive(Args, Debug)]
pub(super) struct GetBenchOptions {
    /// Numbers of processes that measure at the same time
    #[arg(long, value_delimiter = ',', num_args = 1.., default_values_t = [1, 16], value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    processes: Vec<u32>,

    /// Numbers of threads in each process; they share one client
    #[arg(long, value_delimiter = ',', num_args = 1.., default_values_t = [1, 4], value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Vec<u32>,

    /// Sizes of the peer's values, in bytes
    #[arg(long, value_delimiter = ',', num_args = 1.., default_values_t = [8, 64, 1024, 65536], value_name = "BYTES", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=15 << 20))]
    sizes: Vec<usize>,

    /// Samples of each figure; each is the mean of a batch of Gets
    #[arg(long, default_value_t = 2000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    samples: u32,

    /// Also get values of random processes of a job of this size, and compare with a hash probe in a table of a million
    /// names
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=RANKS_MAX))]
    ranks: Option<u32>,

    /// Only make --count Gets between two getppid system calls, for a tracer to look at
    #[arg(long)]
    quiet_loop: bool,

    /// Gets of the quiet loop
    #[arg(long, default_value_t = 1_000_000, value_name = "N", requires = "quiet_loop")]
    count: u64,

    #[command(flatten)]
    output: BenchOutput,
}

/// The work of one process.
#[derive(Args, Debug)]
pub(super) struct GetTask {
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    processes: u32,
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,
    #[arg(long, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    samples: usize,
    #[arg(long, value_delimiter = ',', value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=15 << 20))]
    sizes: Vec<usize>,
}

pub(super) fn run(options: &GetBenchOptions) -> Outcome {
    if options.quiet_loop {
        return syscalls::start(options.count, &options.sizes);
    }
    let steps = options.processes.len() * options.threads.len() + usize::from(options.ranks.is_some());
    let progress = options.output.begin("get", steps)?;
    let mut all = Vec::new();
    for &processes in &options.processes {
        for &threads in &options.threads {
            progress.step(&format!("{processes} processes of {threads} threads"));
            let measuring = processes.saturating_mul(threads).max(1);
            let samples = usize::try_from(options.samples / measuring)?.max(ROUND_COUNT);
            let sizes = options.sizes.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
            let task = words([
                &"get",
                &format!("--processes={processes}"),
                &format!("--threads={threads}"),
                &format!("--samples={samples}"),
                &format!("--sizes={sizes}"),
            ]);
            all.extend(with_peer(processes, &options.sizes, &task)?);
        }
    }
    if let Some(ranks) = options.ranks {
        progress.step(&format!("random ranks of {ranks}"));
        all.extend(ranks::measure(ranks, usize::try_from(options.samples)?)?);
    }
    let mut figures = figures(all);
    compare_with(&mut figures, PROBE);
    compare_with(&mut figures, ranks::PROBE);
    options.output.show("get", &figures)
}

/// One process's Gets.
pub(super) fn measure(task: &GetTask) -> Result<Vec<Series>, Failure> {
    let client = Client::connect()?;
    client.fence(&FenceOptions::new().collect(true)).wait()?;
    let targets = Targets::of(&client, &task.sizes)?;
    let threads = usize::try_from(task.threads)?;
    let barrier = Barrier::new(threads);
    let all = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(|| measure_thread(&targets, task, &barrier))).collect();
        let joined = threads.into_iter().map(|thread| thread.join().map_err(|_| "a measuring thread failed"));
        joined.collect::<Result<Vec<_>, _>>()
    })?;
    client.finalize()?;
    Ok(all.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

fn measure_thread(targets: &Targets<'_>, task: &GetTask, barrier: &Barrier) -> Result<Vec<Series>, &'static str> {
    let series = |name: &str| {
        let series = Series::new(name, Unit::Nanoseconds).param("processes", task.processes.into());
        series.param("threads", task.threads.into())
    };
    let mut all = vec![series(PROBE), series("get.job_key"), series("get.job_key.by_name")];
    let size_of = |size: usize| u64::try_from(size).unwrap_or(u64::MAX);
    all.extend(targets.values.iter().map(|(size, _)| series("get.peer_value").param("bytes", size_of(*size))));
    let mut probe = HashProbe::<L1_SLOTS>::new().ok_or("no table for the probe")?;
    for _ in 0..ROUND_COUNT {
        for (number, series) in all.iter_mut().enumerate() {
            barrier.wait();
            let count = task.samples / ROUND_COUNT;
            series.samples.extend(match (number, number.checked_sub(3).and_then(|at| targets.values.get(at))) {
                (_, Some((_, key))) => batched(count, || targets.peer_value(key)),
                (0, None) => batched(count, || probe.run()),
                (1, None) => batched(count, || targets.job_size()),
                (_, None) => batched(count, || targets.job_size_by_name()),
            });
        }
    }
    Ok(all)
}
