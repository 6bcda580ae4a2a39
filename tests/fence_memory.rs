//! Receiving a fence of any size takes little memory besides the host's data and the segment.
//!
//! This file has one test, because it counts the memory of its whole process.

#[path = "support/counting.rs"]
mod counting;

use std::error::Error;
use std::sync::Arc;

use modex::gds::registration::JobDescription;
use modex::types::{Key, Kval, Namespace, ProcId, Scope, Value};
use modex::{
    Capabilities, Client, ExchangeForm, FenceOptions, FenceReply, FenceUpcall, GetOptions, Host, Responder, Server,
};

/// Bytes that each remote process posted.
const VALUE_BYTES: usize = 64 << 10;
/// Remote processes.
const RANKS: u32 = 1024;
/// Memory that any fence may take: one piece of data, and queues and tables.
const EXTRA_BYTES_MAX: usize = 4 << 20;

/// A host that answers every fence with the same bytes, which it keeps.
struct Echo(Arc<Vec<u8>>);

struct Bytes(Arc<Vec<u8>>);

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Host for Echo {
    fn capabilities(&self) -> Capabilities {
        Capabilities::FENCE
    }

    fn fence(&self, _: FenceUpcall, reply: Responder<FenceReply>) {
        reply.packed(Bytes(Arc::clone(&self.0)));
    }
}

/// The contributions of other nodes' servers, with eight processes each.
fn contributions(job: &Namespace) -> Result<Vec<u8>, Box<dyn Error>> {
    let sizes = [(job.clone(), Some(RANKS + 1))];
    let mut bytes = Vec::with_capacity(usize::try_from(RANKS)? * (VALUE_BYTES + 64));
    let ranks: Vec<u32> = (1..=RANKS).collect();
    for part in ranks.chunks(8) {
        let value = |rank: u32| Value::ByteObject(vec![rank.to_le_bytes()[0]; VALUE_BYTES]);
        let entry = |rank| vec![Kval { key: Key::from_static("large"), value: value(rank) }];
        let data = part.iter().map(|&rank| (ProcId::new(job.clone(), rank), entry(rank)));
        bytes.extend(ExchangeForm::default().pack_fence(data.collect(), &sizes)?);
    }
    Ok(bytes)
}

#[test]
fn receiving_a_fence_takes_the_same_little_memory_however_much_it_brings() -> Result<(), Box<dyn Error>> {
    let job = Namespace::new("large-modex")?;
    let bytes = Arc::new(contributions(&job)?);
    let server = Server::builder().hostname("node0").start(Echo(Arc::clone(&bytes)))?;
    let description = JobDescription::new(&job).nodes(["node0", "node1"]).ranks_by_node([0..1, 1..RANKS + 1]);
    server.register_namespace(&job, 1, description.build()?).wait()?;
    let proc = ProcId::new(job.clone(), 0);
    server.register_client(&proc, nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw()).wait()?;
    let client = Client::builder().env(server.setup_fork(&proc)?).connect()?;
    client.put(Scope::Global, "small", 1_u32)?;
    client.commit()?;

    let (extra, fenced) = counting::peak_of(|| client.fence(&FenceOptions::new().collect(true)).wait());
    fenced?;
    eprintln!("{} MiB received with {} KiB of memory at most", bytes.len() >> 20, extra >> 10);
    assert!(extra <= EXTRA_BYTES_MAX, "{extra} bytes for {} received", bytes.len());

    for rank in [1, RANKS] {
        let value = client.get_value(&ProcId::new(job.clone(), rank), "large", &GetOptions::new())?;
        assert!(value.as_bytes().is_some_and(|bytes| bytes.len() == VALUE_BYTES), "rank {rank}");
    }
    client.finalize()?;
    Ok(())
}
