//! The cost of a job by its size: for the server's registration, and for the attachment of a process.

use std::hint::black_box;

use clap::Args;
use modex::gds::registration::JobDescription;
use modex::gds::{Datastore, JobSummary, KeyRef, Lookup, NamespaceReader, RealmRequest, Store, StoreOptions};
use modex::keys;
use modex::types::{Info, Namespace, Rank, Value};

use super::super::Outcome;
use super::figure::{compare_with, compare_with_first, figures};
use super::measure::{Series, Unit, timed};
use super::node::Failure;
use super::output::BenchOutput;
use super::progress::Progress;
use super::shape::{RANKS_MAX, RankPlacement, Shape};

/// Ranks of each node of a job described rank by rank.
const RANKS_PER_NODE: u32 = 100;

#[derive(Args, Debug)]
pub(super) struct RegisterBenchOptions {
    /// Sizes of the jobs to register
    #[arg(long, value_delimiter = ',', num_args = 1.., default_values_t = [1000, 10_000, 100_000, 1_000_000], value_name = "N", value_parser = clap::value_parser!(u32).range(1..=RANKS_MAX))]
    ranks: Vec<u32>,

    /// Ranks of each node of the jobs described by maps: 100 puts a million ranks on ten thousand nodes
    #[arg(long, value_delimiter = ',', num_args = 1.., default_values_t = [100, 10], value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    ranks_per_node: Vec<u32>,

    /// How these maps place the ranks
    #[arg(long, value_delimiter = ',', num_args = 1.., default_values_t = [RankPlacement::Block, RankPlacement::Cyclic], value_name = "PLACEMENT")]
    placements: Vec<RankPlacement>,

    /// Parts to measure
    #[arg(long, value_delimiter = ',', num_args = 1.., default_values_t = [Part::Maps, Part::RankByRank, Part::Many, Part::Attach], value_name = "PART")]
    parts: Vec<Part>,

    /// Jobs that one server holds at the end of the part `many`; each has the largest number of ranks
    #[arg(long, default_value_t = 10, value_name = "N")]
    jobs: u32,

    /// Sizes of the jobs to attach to
    #[arg(long, value_delimiter = ',', num_args = 1.., default_values_t = [10, 1_000_000], value_name = "N", value_parser = clap::value_parser!(u32).range(1..=RANKS_MAX))]
    attach_ranks: Vec<u32>,

    /// Registrations of each size
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    samples: usize,

    /// Attachments to each job
    #[arg(long, default_value_t = 500, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    attach_samples: usize,

    #[command(flatten)]
    output: BenchOutput,
}

/// Parts of this benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Jobs described by size and maps, from which the server derives what is asked for.
    Maps,
    /// Jobs with an array of values for each rank besides.
    RankByRank,
    /// Many jobs of one server: what they cost in memory.
    Many,
    /// Attaching to a job.
    Attach,
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Maps => "maps",
            Self::RankByRank => "rank-by-rank",
            Self::Many => "many",
            Self::Attach => "attach",
        })
    }
}

pub(super) fn run(options: &RegisterBenchOptions) -> Outcome {
    let progress = options.output.begin("register", steps(options))?;
    let mut all = Vec::new();
    for part in &options.parts {
        all.extend(match part {
            Part::Maps => by_maps(options, &progress)?,
            Part::RankByRank => rank_by_rank(&options.ranks, options.samples, &progress)?,
            Part::Many => many(options, &progress)?,
            Part::Attach => attachments(&options.attach_ranks, options.attach_samples, &progress)?,
        });
    }
    let mut figures = figures(all);
    compare_with(&mut figures, READING);
    for name in ["register.maps.per_rank", "attach"] {
        compare_with_first(&mut figures, name);
    }
    options.output.show("register", &figures)
}

/// The steps of all parts.
fn steps(options: &RegisterBenchOptions) -> usize {
    let of_part = |part: &Part| match part {
        Part::Maps => options.placements.len() * options.ranks_per_node.len() * options.ranks.len(),
        Part::RankByRank => options.ranks.len(),
        Part::Many => usize::try_from(options.jobs).unwrap_or(usize::MAX),
        Part::Attach => options.attach_ranks.len(),
    };
    options.parts.iter().map(of_part).fold(0, usize::saturating_add)
}

fn by_maps(options: &RegisterBenchOptions, progress: &Progress) -> Result<Vec<Series>, Failure> {
    let mut all = Vec::new();
    for &placement in &options.placements {
        for &ranks_per_node in &options.ranks_per_node {
            for &ranks in &options.ranks {
                let shape = Shape { ranks, ranks_per_node, placement };
                progress.step(&format!("maps: {ranks} ranks, {placement}, {} nodes", shape.nodes()));
                let named = |what: &str| format!("register.maps{what}.{placement}");
                all.extend(registrations(named, shape, &shape.maps(), options.samples)?);
            }
        }
    }
    Ok(all)
}

fn rank_by_rank(sizes: &[u32], samples: usize, progress: &Progress) -> Result<Vec<Series>, Failure> {
    let mut all = Vec::new();
    for &ranks in sizes {
        progress.step(&format!("rank by rank: {ranks} ranks"));
        let shape = Shape { ranks, ranks_per_node: RANKS_PER_NODE, placement: RankPlacement::Block };
        let description = describe(shape)?;
        let mut reading = Series::new(READING, Unit::Milliseconds).param("ranks", ranks.into());
        (0..samples).for_each(|_| reading.add(timed(|| black_box(read(black_box(&description)))).0));
        all.push(reading);
        all.extend(registrations(|what| format!("register.rank_by_rank{what}"), shape, &description, samples)?);
    }
    Ok(all)
}

/// The cost of registering this job.
fn registrations(
    named: impl Fn(&str) -> String,
    shape: Shape,
    description: &[Info],
    samples: usize,
) -> Result<Vec<Series>, Failure> {
    let series = |what: &str, unit| {
        let series = Series::new(&named(what), unit).param("ranks", shape.ranks.into());
        series.param("nodes", shape.nodes().into())
    };
    let mut whole = series("", Unit::Milliseconds);
    let mut per_rank = series(".per_rank", Unit::Nanoseconds);
    let mut bytes = series(".bytes_per_rank", Unit::Bytes);
    for _ in 0..samples {
        let mut store = store();
        let (time, registered) = timed(|| store.register(&job()?, description).map_err(Failure::from));
        check(&store, &job()?, registered?, shape)?;
        whole.add(time);
        per_rank.samples.push(Unit::Nanoseconds.of(time) / f64::from(shape.ranks));
        let published_bytes = u32::try_from(store.statistics(&job()?)?.published_bytes)?;
        bytes.samples.push(f64::from(published_bytes) / f64::from(shape.ranks));
    }
    Ok(vec![whole, per_rank, bytes])
}

/// The cost of a server that holds several large jobs, by the number of registered jobs: time, segments, and private
/// memory. The private memory must not grow with the number of ranks.
fn many(options: &RegisterBenchOptions, progress: &Progress) -> Result<Vec<Series>, Failure> {
    let ranks = options.ranks.iter().copied().max().unwrap_or_default();
    let ranks_per_node = options.ranks_per_node.first().copied().unwrap_or(RANKS_PER_NODE);
    let shape = Shape { ranks, ranks_per_node, placement: RankPlacement::Block };
    let description = shape.maps();
    let before = own_bytes()?;
    let mut store = store();
    let mut all = Vec::new();
    let mut segments = 0;
    for number in 1..=options.jobs {
        progress.step(&format!("many: job {number} with {ranks} ranks"));
        let job = Namespace::new(&format!("bench-job-{number}"))?;
        let (time, registered) = timed(|| store.register(&job, &description));
        check(&store, &job, registered?, shape)?;
        segments += store.statistics(&job)?.reserved_bytes.unwrap_or_default();
        let own = own_bytes()?.saturating_sub(before);
        let series = |what: &str, unit| {
            let series = Series::new(&format!("register.many{what}"), unit).param("ranks", ranks.into());
            series.param("jobs", number.into())
        };
        let bytes = |count: u64| u32::try_from(count >> 10).map(|kib| vec![f64::from(kib) * 1024.0]);
        all.push(series("", Unit::Milliseconds).with(vec![Unit::Milliseconds.of(time)]));
        all.push(series(".segment_bytes", Unit::Bytes).with(bytes(segments)?));
        all.push(series(".own_bytes", Unit::Bytes).with(bytes(own)?));
    }
    Ok(all)
}

/// This process's memory outside segments, in bytes.
fn own_bytes() -> Result<u64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")).ok_or("the kernel does not tell RssAnon")?;
    Ok(kib.trim().parse::<u64>()? << 10)
}

/// The figure of comparison for a description rank by rank: a single pass that reads it.
const READING: &str = "limit.read_rank_by_rank";

/// Reads every key and every number of a description, and does nothing with them.
fn read(infos: &[Info]) -> u64 {
    infos.iter().fold(0, |sum, info| {
        let key = info.key.as_str().bytes().fold(sum, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        key.wrapping_add(match &info.value {
            Value::DataArray(array) => array.elements.iter().fold(0, |sum, element| match element {
                Value::Info(info) => sum ^ read(std::slice::from_ref(info)),
                other => sum ^ other.as_u64().unwrap_or_default(),
            }),
            Value::String(text) => text.as_bytes().iter().fold(0, |sum, byte| sum ^ u64::from(*byte)),
            other => other.as_u64().unwrap_or_default(),
        })
    })
}

/// The cost for a process that maps the job and reads its first value, for jobs of these sizes in turn.
fn attachments(sizes: &[u32], samples: usize, progress: &Progress) -> Result<Vec<Series>, Failure> {
    let mut stores = Vec::new();
    for &ranks in sizes {
        progress.step(&format!("attach: {ranks} ranks"));
        let mut store = store();
        let shape = Shape { ranks, ranks_per_node: RANKS_PER_NODE, placement: RankPlacement::Block };
        let summary = store.register(&job()?, &describe(shape)?)?;
        check(&store, &job()?, summary, shape)?;
        stores.push((store, Series::new("attach", Unit::Microseconds).param("ranks", ranks.into())));
    }
    for _ in 0..samples {
        for (store, series) in &mut stores {
            let handle = store.handle(&job()?)?;
            let (time, attached) = timed(|| -> Result<_, Failure> {
                let reader = NamespaceReader::attach(handle)?;
                let size = job_size(&reader)?;
                Ok((reader, size))
            });
            attached?;
            series.add(time);
        }
    }
    Ok(stores.into_iter().map(|(_, series)| series).collect())
}

fn job_size(reader: &NamespaceReader) -> Result<Option<u32>, Failure> {
    let key = KeyRef { name: keys::JOB_SIZE.name(), hash: keys::JOB_SIZE.hash() };
    let lookup = Lookup { rank: Rank::Wildcard, key, realm: RealmRequest::Default, audience: None };
    Ok(reader.get(&lookup)?.as_u32())
}

/// A job as its host would describe it on the first node, rank by rank.
fn describe(shape: Shape) -> Result<Vec<Info>, Failure> {
    let description = JobDescription::new(&job()?).nodes(shape.names());
    Ok(description.ranks_by_node((0..shape.nodes()).map(|node| shape.ranks_of(node))).build()?)
}

/// Refuses to measure any other job than the intended one: checks the size, the nodes, and the last rank's place.
fn check(store: &Store, job: &Namespace, summary: JobSummary, shape: Shape) -> Result<(), Failure> {
    let key = KeyRef::new(keys::NODEID.name());
    let (ranks, nodes) = (shape.ranks, shape.nodes());
    let rank = Rank::Process(ranks.saturating_sub(1));
    let lookup = Lookup { rank, key, realm: RealmRequest::Default, audience: None };
    let reader = store.reader(job).ok_or("the job is not registered")?;
    let last = reader.get(&lookup)?.as_u32();
    if (summary.job_size, summary.node_count, last) == (Some(ranks), Some(nodes), Some(shape.node_of_last())) {
        return Ok(());
    }
    Err(format!("registered another job than the {ranks} ranks meant: {summary:?}, last rank on node {last:?}").into())
}

fn store() -> Store {
    Store::new(StoreOptions::new("bench.0", "node00000"))
}

fn job() -> Result<Namespace, Failure> {
    Ok(Namespace::new("bench-job")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPES: [Shape; 2] = [
        Shape { ranks: 250, ranks_per_node: 100, placement: RankPlacement::Block },
        Shape { ranks: 250, ranks_per_node: 100, placement: RankPlacement::Cyclic },
    ];

    #[test]
    fn every_form_describes_the_job_that_is_meant() {
        for shape in SHAPES {
            for description in [shape.maps(), describe(shape).unwrap()] {
                let mut store = store();
                let summary = store.register(&job().unwrap(), &description).unwrap();
                check(&store, &job().unwrap(), summary, shape).unwrap();
            }
        }
    }

    #[test]
    fn an_empty_job_is_not_timed_as_a_large_one() {
        let mut store = store();
        let summary = store.register(&job().unwrap(), &[]).unwrap();
        assert!(check(&store, &job().unwrap(), summary, SHAPES[0]).is_err());
    }
}
