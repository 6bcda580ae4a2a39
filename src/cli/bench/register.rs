//! What a job costs the server to describe, and a process to attach to, by the size of the job.

use clap::Args;

use super::super::Outcome;
use super::figure::{Figure, figures};
use super::measure::{Series, Unit, timed};
use super::node::Failure;
use super::output::{Output, progress};
use crate::gds::registration::JobDescription;
use crate::gds::{KeyRef, Lookup, NamespaceReader, Publish, RealmRequest, Store, StoreOptions};
use crate::keys;
use crate::types::{Info, Namespace, Rank};

/// Ranks of each node, so that a million ranks are on ten thousand nodes.
const RANKS_PER_NODE: u32 = 100;

#[derive(Args, Debug)]
pub(super) struct Options {
    /// Sizes of the jobs to register
    #[arg(long, value_delimiter = ',', default_values_t = [1000, 10_000, 100_000, 1_000_000], value_name = "N")]
    ranks: Vec<u32>,

    /// Sizes of the jobs to attach to
    #[arg(long, value_delimiter = ',', default_values_t = [10, 1_000_000], value_name = "N")]
    attach_ranks: Vec<u32>,

    /// Registrations of each size
    #[arg(long, default_value_t = 5, value_name = "N")]
    samples: usize,

    /// Attachments to each job
    #[arg(long, default_value_t = 500, value_name = "N")]
    attach_samples: usize,

    #[command(flatten)]
    output: Output,
}

pub(super) fn run(options: &Options) -> Outcome {
    let mut all = Vec::new();
    for &ranks in &options.ranks {
        progress(&format!("register: {ranks} ranks"));
        all.extend(registrations(ranks, options.samples)?);
    }
    all.extend(attachments(&options.attach_ranks, options.attach_samples)?);
    let mut figures = figures(all);
    for name in ["register.per_rank", "attach"] {
        compare_with_first(&mut figures, name);
    }
    options.output.show("register", &figures)
}

/// The costs of registering a job of this size.
fn registrations(ranks: u32, samples: usize) -> Result<Vec<Series>, Failure> {
    let series = |name: &str, unit| Series::new(name, unit).param("ranks", ranks.into());
    let mut whole = series("register", Unit::Milliseconds);
    let mut per_rank = series("register.per_rank", Unit::Nanoseconds);
    let mut bytes = series("register.bytes_per_rank", Unit::Bytes);
    let description = describe(ranks)?;
    for _ in 0..samples {
        let mut store = store();
        let (time, registered) = timed(|| store.register(&job()?, &description).map_err(Failure::from));
        registered?;
        whole.add(time);
        per_rank.samples.push(Unit::Nanoseconds.of(time) / f64::from(ranks));
        let published = u32::try_from(store.statistics(&job()?)?.published_bytes)?;
        bytes.samples.push(f64::from(published) / f64::from(ranks));
    }
    Ok(vec![whole, per_rank, bytes])
}

/// What a process pays to map the job and read its first value, for jobs of these sizes in turn.
fn attachments(sizes: &[u32], samples: usize) -> Result<Vec<Series>, Failure> {
    let mut stores = Vec::new();
    for &ranks in sizes {
        progress(&format!("attach: {ranks} ranks"));
        let mut store = store();
        store.register(&job()?, &describe(ranks)?)?;
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

/// A job in blocks of [`RANKS_PER_NODE`], as its host would describe it on the first node.
fn describe(ranks: u32) -> Result<Vec<Info>, Failure> {
    let nodes = ranks.div_ceil(RANKS_PER_NODE);
    let blocks = (0..nodes).map(|node| {
        let first = node.saturating_mul(RANKS_PER_NODE);
        first..ranks.min(first.saturating_add(RANKS_PER_NODE))
    });
    let names = (0..nodes).map(|node| format!("node{node:05}"));
    Ok(JobDescription::new(&job()?).nodes(names).ranks_by_node(blocks).build()?)
}

fn store() -> Store {
    Store::new(StoreOptions::new("bench.0", "node00000"))
}

fn job() -> Result<Namespace, Failure> {
    Ok(Namespace::new("bench-job")?)
}

/// Compares the figures of one name with the first of them: what should not depend on the size has ratio 1.
fn compare_with_first(figures: &mut [Figure], name: &str) {
    let mut of_name = figures.iter_mut().filter(|figure| figure.name == name);
    if let Some(first) = of_name.next() {
        let reference = Figure { name: first.label(), ..first.clone() };
        of_name.for_each(|figure| figure.compare(&reference));
    }
}
