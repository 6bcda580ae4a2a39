//! Hot Gets: of a value that was read before, in memory that is mapped.

use std::hint::black_box;
use std::sync::Barrier;

use clap::Args;
use modex::keys;
use modex::types::{ProcId, Rank, Scope};
use modex::{Client, FenceOptions, Fetched, GetOptions};

use super::super::Outcome;
use super::figure::{compare_with, figures};
use super::measure::{Series, Unit, batched};
use super::node::{Failure, Node, words};
use super::output::{Output, progress};
use super::probe::{HashProbe, L1_SLOTS};
use super::ranks;
use super::shape::RANKS_MAX;
use super::syscalls;

/// The figure that all others are compared with.
const PROBE: &str = "limit.hash_probe.L1";

/// What is measured takes turns this often, so that a change of the machine's pace meets all alike.
const ROUND_COUNT: usize = 10;

#[derive(Args, Debug)]
pub(super) struct Options {
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

    /// Also get values of random processes of a job of this size, beside a hash probe in a table of a million names
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=RANKS_MAX))]
    ranks: Option<u32>,

    /// Only make --count Gets between two getppid system calls, for a tracer to look at
    #[arg(long)]
    quiet_loop: bool,

    /// Gets of the quiet loop
    #[arg(long, default_value_t = 1_000_000, value_name = "N", requires = "quiet_loop")]
    count: u64,

    #[command(flatten)]
    output: Output,
}

/// What one process does.
#[derive(Args, Debug)]
pub(super) struct Task {
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    processes: u32,
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,
    #[arg(long, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    samples: usize,
    #[arg(long, value_delimiter = ',', value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=15 << 20))]
    sizes: Vec<usize>,
}

pub(super) fn run(options: &Options) -> Outcome {
    if options.quiet_loop {
        return syscalls::start(options.count, &options.sizes);
    }
    let mut all = Vec::new();
    for &processes in &options.processes {
        for &threads in &options.threads {
            progress(&format!("get: {processes} processes of {threads} threads"));
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
        progress(&format!("get: random ranks of {ranks}"));
        all.extend(ranks::measure(ranks, usize::try_from(options.samples)?)?);
    }
    let mut figures = figures(all);
    compare_with(&mut figures, PROBE);
    compare_with(&mut figures, ranks::PROBE);
    options.output.show("get", &figures)
}

/// Runs workers in a job whose last rank, this process, fences values of all sizes to them.
pub(super) fn with_peer(processes: u32, sizes: &[usize], task: &[String]) -> Result<Vec<Series>, Failure> {
    let node = Node::start(processes.saturating_add(1))?;
    let peer = node.client(processes)?;
    for &size in sizes {
        peer.put(Scope::Global, &value_key(size), vec![7_u8; size])?;
    }
    peer.commit()?;
    std::thread::scope(|scope| {
        // The fence waits for all workers; should they fail to start, the server's end ends it.
        let fence = scope.spawn(|| peer.fence(&FenceOptions::new().collect(true)));
        let series = node.workers(processes, task);
        if series.is_err() {
            drop(node);
        }
        match fence.join() {
            Ok(fenced) => series.and_then(|series| Ok(fenced.map(|()| series)?)),
            Err(_) => Err("the fencing thread failed".into()),
        }
    })
}

/// One process's Gets.
pub(super) fn measure(task: &Task) -> Result<Vec<Series>, Failure> {
    let client = Client::connect()?;
    client.fence(&FenceOptions::new().collect(true))?;
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

/// What there is to get.
pub(super) struct Targets<'a> {
    client: &'a Client,
    job: ProcId,
    peer: ProcId,
    values: Vec<(usize, String)>,
    options: GetOptions,
}

impl<'a> Targets<'a> {
    /// Gets everything once, and complains about what is not there or not borrowed from the segment.
    pub(super) fn of(client: &'a Client, sizes: &[usize]) -> Result<Self, Failure> {
        let job_size = client.get(Rank::Wildcard, keys::JOB_SIZE)?;
        let namespace = client.proc().namespace.clone();
        let peer = ProcId::new(namespace.clone(), job_size.saturating_sub(1));
        let job = ProcId { namespace, rank: Rank::Wildcard };
        let values = sizes.iter().map(|&size| (size, value_key(size))).collect();
        let targets = Self { client, job, peer, values, options: GetOptions::new() };
        for (size, key) in &targets.values {
            let found = client.get_value(&targets.peer, key, &targets.options)?;
            if !found.is_borrowed() || found.as_bytes().map(<[u8]>::len) != Some(*size) {
                return Err(format!("{key} of {} is not the value it should be: {found:?}", targets.peer).into());
            }
        }
        Ok(targets)
    }

    /// The size of the job, by a typed key.
    pub(super) fn job_size(&self) -> Option<u32> {
        self.client.get(Rank::Wildcard, keys::JOB_SIZE).ok()
    }

    /// The same by the text of the key.
    fn job_size_by_name(&self) -> Option<u64> {
        let found = self.client.get_value(&self.job, black_box("pmix.job.size"), &self.options);
        found.ok().and_then(|found: Fetched<'_>| found.as_u64())
    }

    /// The length of a value of the peer; the bytes themselves stay where they are.
    fn peer_value(&self, key: &str) -> Option<usize> {
        match self.client.get_value(&self.peer, black_box(key), &self.options) {
            Ok(found) => black_box(found.as_bytes()).map(<[u8]>::len),
            Err(_) => None,
        }
    }

    /// Gets every value of the peer; whether all were there.
    pub(super) fn all_peer_values(&self) -> bool {
        self.values.iter().all(|(size, key)| self.peer_value(key) == Some(*size))
    }
}

fn measure_thread(targets: &Targets<'_>, task: &Task, barrier: &Barrier) -> Result<Vec<Series>, &'static str> {
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

/// The key of the peer's value of a size.
fn value_key(size: usize) -> String {
    format!("bench.value.{size}")
}
