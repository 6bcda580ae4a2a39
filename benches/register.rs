//! Registration of jobs that are described rank by rank.

mod support;

use criterion::{Criterion, Throughput};
use support::{Failure, describe, registered};

fn main() -> Result<(), Failure> {
    let mut criterion = Criterion::default().sample_size(10).configure_from_args();
    let mut group = criterion.benchmark_group("register");
    for ranks in [1000, 10_000] {
        let description = describe(ranks)?;
        group.throughput(Throughput::Elements(ranks.into()));
        group.bench_function(format!("{ranks} ranks"), |bench| bench.iter(|| registered(&description)));
    }
    group.finish();
    criterion.final_summary();
    Ok(())
}
