//! What a job costs the server to describe, and a process to attach to, by the size of the job.

use clap::Args;

use super::super::Outcome;
use super::figure::{Figure, figures};
use super::measure::{Series, Unit, timed};
use super::node::Failure;
use super::output::{Output, progress};
use crate::gds::registration::JobDescription;
use crate::gds::{JobSummary, KeyRef, Lookup, NamespaceReader, Publish, RealmRequest, Store, StoreOptions};
use crate::keys;
use crate::types::{Info, Key, Namespace, Rank, Value};

/// Ranks of each node, so that a million ranks are on ten thousand nodes.
const RANKS_PER_NODE: u32 = 100;

#[derive(Args, Debug)]
pub(super) struct Options {
    /// Sizes of the jobs to register
    #[arg(long, value_delimiter = ',', num_args = 1.., default_values_t = [1000, 10_000, 100_000, 1_000_000], value_name = "N")]
    ranks: Vec<u32>,

    /// Sizes of the jobs to attach to
    #[arg(long, value_delimiter = ',', num_args = 1.., default_values_t = [10, 1_000_000], value_name = "N")]
    attach_ranks: Vec<u32>,

    /// Registrations of each size
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    samples: usize,

    /// Attachments to each job
    #[arg(long, default_value_t = 500, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    attach_samples: usize,

    #[command(flatten)]
    output: Output,
}

/// How the host describes the job.
#[derive(Clone, Copy, Debug)]
enum Form {
    /// By size and maps, from which the server derives what is asked for.
    Maps,
    /// With an array of values for each rank besides.
    RankByRank,
}

impl Form {
    const fn name(self) -> &'static str {
        match self {
            Self::Maps => "register.maps",
            Self::RankByRank => "register.rank_by_rank",
        }
    }
}

pub(super) fn run(options: &Options) -> Outcome {
    let mut all = Vec::new();
    for form in [Form::Maps, Form::RankByRank] {
        for &ranks in &options.ranks {
            progress(&format!("{}: {ranks} ranks", form.name()));
            all.extend(registrations(form, ranks, options.samples)?);
        }
    }
    all.extend(attachments(&options.attach_ranks, options.attach_samples)?);
    let mut figures = figures(all);
    for name in ["register.maps.per_rank", "register.rank_by_rank.per_rank", "attach"] {
        compare_with_first(&mut figures, name);
    }
    options.output.show("register", &figures)
}

/// The costs of registering a job of this size.
fn registrations(form: Form, ranks: u32, samples: usize) -> Result<Vec<Series>, Failure> {
    let name = form.name();
    let series = |what: &str, unit| Series::new(&format!("{name}{what}"), unit).param("ranks", ranks.into());
    let mut whole = series("", Unit::Milliseconds);
    let mut per_rank = series(".per_rank", Unit::Nanoseconds);
    let mut bytes = series(".bytes_per_rank", Unit::Bytes);
    let description = match form {
        Form::Maps => maps_alone(ranks),
        Form::RankByRank => describe(ranks)?,
    };
    for _ in 0..samples {
        let mut store = store();
        let (time, registered) = timed(|| store.register(&job()?, &description).map_err(Failure::from));
        check(&store, registered?, ranks)?;
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
        let summary = store.register(&job()?, &describe(ranks)?)?;
        check(&store, summary, ranks)?;
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

/// The same job by its size and maps alone, spelled out.
fn maps_alone(ranks: u32) -> Vec<Info> {
    let nodes = ranks.div_ceil(RANKS_PER_NODE);
    let names: Vec<String> = (0..nodes).map(|node| format!("node{node:05}")).collect();
    let fields: Vec<String> = (0..nodes)
        .map(|node| {
            let first = node.saturating_mul(RANKS_PER_NODE);
            let field = first..ranks.min(first.saturating_add(RANKS_PER_NODE));
            field.map(|rank| rank.to_string()).collect::<Vec<_>>().join(",")
        })
        .collect();
    vec![
        Info::new(Key::from_static(keys::JOB_SIZE.name()), ranks),
        Info::new(Key::from_static(keys::NODE_MAP.name()), Value::from(names.join(","))),
        Info::new(Key::from_static(keys::PROC_MAP.name()), Value::from(fields.join(";"))),
    ]
}

/// Refuses to time anything but the job that was meant: size, nodes, and the last rank's place.
fn check(store: &Store, summary: JobSummary, ranks: u32) -> Result<(), Failure> {
    let nodes = ranks.div_ceil(RANKS_PER_NODE);
    let key = KeyRef::new(keys::NODEID.name());
    let rank = Rank::Process(ranks.saturating_sub(1));
    let lookup = Lookup { rank, key, realm: RealmRequest::Default, audience: None };
    let reader = store.reader(&job()?).ok_or("the job is not registered")?;
    let last = reader.get(&lookup)?.as_u32();
    if (summary.job_size, summary.node_count, last) == (Some(ranks), Some(nodes), nodes.checked_sub(1)) {
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

/// Compares the figures of one name with the first of them: what should not depend on the size has ratio 1.
fn compare_with_first(figures: &mut [Figure], name: &str) {
    let mut of_name = figures.iter_mut().filter(|figure| figure.name == name);
    if let Some(first) = of_name.next() {
        let reference = Figure { name: first.label(), ..first.clone() };
        of_name.for_each(|figure| figure.compare(&reference));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_describe_the_job_that_is_meant() {
        for description in [maps_alone(250), describe(250).unwrap()] {
            let mut store = store();
            let summary = store.register(&job().unwrap(), &description).unwrap();
            check(&store, summary, 250).unwrap();
        }
    }

    #[test]
    fn an_empty_job_is_not_timed_as_a_large_one() {
        let mut store = store();
        let summary = store.register(&job().unwrap(), &[]).unwrap();
        assert!(check(&store, summary, 250).is_err());
    }
}
