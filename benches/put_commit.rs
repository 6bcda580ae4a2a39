//! A put, and a commit of one value: alone, after many other commits, and the total cost of such a loop.
#![expect(clippy::disallowed_methods, reason = "a bench measures")]

mod support;

use std::time::Instant;

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
    // Each commit brings a new key. The cost of a commit must not depend on the number of earlier commits.
    let (mut posted, mut round): (u32, u64) = (0, 0);
    for posted_before in [1_000, 8_000, 32_000] {
        let begun = Instant::now();
        let commits = posted_before - posted;
        while posted < posted_before {
            client.put(Scope::Global, format!("bench.loop.{posted}").as_str(), posted)?;
            client.commit()?;
            posted += 1;
        }
        println!("a loop of {commits} commits until there were {posted}: {:?}", begun.elapsed());
        criterion.bench_function(&format!("put and commit/behind {posted_before} commits"), |bench| {
            bench.iter(|| -> Result<(), Failure> {
                round += 1;
                client.put(Scope::Global, "bench.put", round)?;
                Ok(client.commit()?)
            });
        });
    }
    criterion.final_summary();
    Ok(())
}
