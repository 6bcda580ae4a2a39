//! A process of a job: it publishes an endpoint, waits for all others and reads theirs.
//!
//! ```console
//! $ cargo build --example client && modex run -n 4 -- target/debug/examples/client
//! ```

use modex::types::{ProcId, Rank, Scope};
use modex::{Client, FenceOptions, GetOptions, keys};

/// The key that all processes of this program use. Keys that begin with `pmix.` belong to the standard.
const ENDPOINT: &str = "example.endpoint";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The error is a sentence for people.
    let client = Client::connect().map_err(|error| error.to_string())?;
    let me = client.proc().clone();
    let size = client.get(Rank::Wildcard, keys::JOB_SIZE)?;

    let rank = me.rank.process().unwrap_or_default();
    client.put(Scope::Global, ENDPOINT, format!("10.0.0.{rank}:4711"))?;
    client.commit()?;
    client.fence(&FenceOptions::new().collect(true)).wait()?;

    let next = ProcId::new(me.namespace.clone(), (rank + 1) % size);
    let endpoint = client.get_value(&next, ENDPOINT, &GetOptions::default())?;
    println!("{me} of {size}: {next} listens at {:?}", endpoint.as_str().unwrap_or("no text"));
    client.finalize()?;
    Ok(())
}
