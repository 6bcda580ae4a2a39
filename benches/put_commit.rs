//! A put, and a commit of one value.

mod support;

use criterion::Criterion;
use modex::types::Scope;
use support::{Failure, Job};

fn main() -> Result<(), Failure> {
    let job = Job::start(1)?;
    let [client] = job.clients.as_slice() else { return Err("one client was asked for".into()) };
    let value = vec![7_u8; 64];
    let mut criterion = Criterion::default().sample_size(20).configure_from_args();
    criterion.bench_function("put/64 B", |bench| {
        bench.iter(|| client.put(Scope::Global, "bench.put", value.clone()));
    });
    client.commit()?;
    criterion.bench_function("put and commit/64 B", |bench| {
        bench.iter(|| -> Result<(), Failure> {
            client.put(Scope::Global, "bench.put", value.clone())?;
            Ok(client.commit()?)
        });
    });
    criterion.final_summary();
    Ok(())
}
