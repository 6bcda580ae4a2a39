//! Fences of clients that one process drives in turn. `modex bench fence` measures processes that wait for each other.

mod support;

use criterion::Criterion;
use modex::FenceOptions;
use support::{Failure, Job};

fn main() -> Result<(), Failure> {
    let mut criterion = Criterion::default().sample_size(20).configure_from_args();
    for count in [2, 8] {
        let job = Job::start(count)?;
        for (name, options) in [("no data", FenceOptions::new()), ("collecting", FenceOptions::new().collect(true))] {
            criterion.bench_function(&format!("fence/{count} clients, {name}"), |bench| {
                bench.iter(|| fence(&job, &options));
            });
        }
    }
    criterion.final_summary();
    Ok(())
}

fn fence(job: &Job, options: &FenceOptions) -> Result<(), Failure> {
    let begun = job.clients.iter().map(|client| client.fence(options).start()).collect::<Result<Vec<_>, _>>()?;
    begun.into_iter().try_for_each(|fence| Ok(fence.wait()?))
}
