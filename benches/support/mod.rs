//! A server and its clients in this process, for the benches.

#![allow(dead_code, reason = "each bench uses its part of this")]

use modex::gds::registration::JobDescription;
use modex::gds::{Datastore, Store, StoreOptions};
use modex::types::{Info, Namespace, ProcId};
use modex::{Client, LocalHost, Server};

pub(crate) type Failure = Box<dyn std::error::Error>;

/// Ranks of each node of a described job.
const RANKS_PER_NODE: u32 = 100;

/// A job whose processes are all clients in this process.
pub(crate) struct Job {
    /// The clients by rank. This field is first, so that they are dropped before the server.
    pub(crate) clients: Vec<Client>,
    _server: Server,
}

impl Job {
    pub(crate) fn start(rank_count: u32) -> Result<Self, Failure> {
        let server = Server::builder().start(LocalHost)?;
        let job = Namespace::new("bench")?;
        let description =
            JobDescription::new(&job).nodes([server.hostname()]).ranks_by_node(std::iter::once(0..rank_count));
        server.register_namespace(&job, rank_count, description.build()?).wait()?;
        let mut clients = Vec::new();
        for rank in 0..rank_count {
            let proc = ProcId::new(job.clone(), rank);
            server.register_client(&proc, nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw()).wait()?;
            clients.push(Client::builder().env(server.setup_fork(&proc)?).connect()?);
        }
        Ok(Self { clients, _server: server })
    }
}

pub(crate) fn namespace() -> Result<Namespace, Failure> {
    Ok(Namespace::new("bench-job")?)
}

/// The description of a job in blocks of ranks, as a host would write it on the first node.
pub(crate) fn describe(ranks: u32) -> Result<Vec<Info>, Failure> {
    let nodes = ranks.div_ceil(RANKS_PER_NODE);
    let blocks = (0..nodes).map(|node| node * RANKS_PER_NODE..ranks.min((node + 1) * RANKS_PER_NODE));
    let names = (0..nodes).map(|node| format!("node{node:05}"));
    Ok(JobDescription::new(&namespace()?).nodes(names).ranks_by_node(blocks).build()?)
}

/// A store with that job.
pub(crate) fn registered(description: &[Info]) -> Result<Store, Failure> {
    let mut store = Store::new(StoreOptions::new("bench.0", "node00000"));
    store.register(&namespace()?, description)?;
    Ok(store)
}
