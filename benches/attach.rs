//! Mapping a job and reading its first value, for a small job and a large one.

mod support;

use criterion::Criterion;
use modex::gds::{KeyRef, Lookup, NamespaceReader, RealmRequest, Store};
use modex::types::Rank;
use support::{Failure, describe, namespace, registered};

fn main() -> Result<(), Failure> {
    let mut criterion = Criterion::default().sample_size(20).configure_from_args();
    for ranks in [10, 10_000] {
        let mut store = registered(&describe(ranks)?)?;
        criterion.bench_function(&format!("attach/{ranks} ranks"), |bench| bench.iter(|| job_size(&mut store)));
    }
    criterion.final_summary();
    Ok(())
}

fn job_size(store: &mut Store) -> Result<Option<u32>, Failure> {
    let reader = NamespaceReader::attach(store.handle(&namespace()?)?)?;
    let key = KeyRef::new("pmix.job.size");
    let lookup = Lookup { rank: Rank::Wildcard, key, realm: RealmRequest::Default, audience: None };
    Ok(reader.get(&lookup)?.as_u32())
}
