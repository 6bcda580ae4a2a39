//! Hot Gets, within one process. `modex bench get` measures them in many.

mod support;

use std::hint::black_box;

use criterion::Criterion;
use modex::types::{Rank, Scope};
use modex::{FenceOptions, GetOptions, keys};
use support::{Failure, Job};

fn main() -> Result<(), Failure> {
    let job = Job::start(2)?;
    let [client, peer] = job.clients.as_slice() else { return Err("two clients were asked for".into()) };
    for size in [8, 65536] {
        peer.put(Scope::Global, &format!("bench.value.{size}"), vec![7_u8; size])?;
    }
    peer.commit()?;
    let fence = client.fence(&FenceOptions::new().collect(true)).start()?;
    peer.fence(&FenceOptions::new().collect(true)).wait()?;
    fence.wait()?;

    let mut criterion = Criterion::default().sample_size(20).configure_from_args();
    criterion.bench_function("get/job key", |bench| bench.iter(|| client.get(Rank::Wildcard, keys::JOB_SIZE)));
    criterion.bench_function("get/host name of a peer", |bench| bench.iter(|| client.get(1, keys::HOSTNAME)));
    let options = GetOptions::new();
    for key in ["bench.value.8", "bench.value.65536"] {
        let get = || client.get_value(peer.proc(), black_box(key), &options).map(|value| value.as_bytes().is_some());
        criterion.bench_function(&format!("get/{key}"), |bench| bench.iter(get));
    }
    criterion.final_summary();
    Ok(())
}
