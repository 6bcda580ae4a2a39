//! A job whose last rank posts values of several sizes, and Gets of them.

use std::hint::black_box;

use modex::keys;
use modex::types::{ProcId, Rank, Scope};
use modex::{Client, FenceOptions, Fetched, GetOptions};

use super::measure::Series;
use super::node::{Failure, Node};

/// Runs workers in a job whose last rank, this process, fences values of all sizes to them.
pub(super) fn with_peer(processes: u32, sizes: &[usize], task: &[String]) -> Result<Vec<Series>, Failure> {
    let node = Node::start(processes.saturating_add(1))?;
    let peer = node.client(processes)?;
    for &size in sizes {
        peer.put(Scope::Global, &value_key(size), vec![7_u8; size])?;
    }
    peer.commit()?;
    std::thread::scope(|scope| {
        // The fence waits for all workers. If a worker fails to start, the end of the server ends the fence.
        let fence = scope.spawn(|| peer.fence(&FenceOptions::new().collect(true)).wait());
        let series = node.workers(processes, task);
        if series.is_err() {
            drop(node);
        }
        match fence.join() {
            Ok(fenced) => series.and_then(|series| Ok(fenced.map(|()| series)?)),
            Err(_) => Err("the fencing thread failed".into()),
        }
    })
}

/// The keys that a worker gets.
pub(super) struct Targets<'a> {
    client: &'a Client,
    job: ProcId,
    peer: ProcId,
    pub(super) values: Vec<(usize, String)>,
    options: GetOptions,
}

impl<'a> Targets<'a> {
    /// Gets everything once, and reports a value that is missing or not borrowed from the segment.
    pub(super) fn of(client: &'a Client, sizes: &[usize]) -> Result<Self, Failure> {
        let job_size = client.get(Rank::Wildcard, keys::JOB_SIZE)?;
        let namespace = client.proc().namespace.clone();
        let peer = ProcId::new(namespace.clone(), job_size.saturating_sub(1));
        let job = ProcId { namespace, rank: Rank::Wildcard };
        let values = sizes.iter().map(|&size| (size, value_key(size))).collect();
        let targets = Self { client, job, peer, values, options: GetOptions::new() };
        for (size, key) in &targets.values {
            let found = client.get_value(&targets.peer, key, &targets.options)?;
            if !found.is_borrowed() || found.as_bytes().map(<[u8]>::len) != Some(*size) {
                return Err(format!("{key} of {} is not the value it should be: {found:?}", targets.peer).into());
            }
        }
        Ok(targets)
    }

    /// The size of the job, by a typed key.
    pub(super) fn job_size(&self) -> Option<u32> {
        self.client.get(Rank::Wildcard, keys::JOB_SIZE).ok()
    }

    /// The same by the text of the key.
    pub(super) fn job_size_by_name(&self) -> Option<u64> {
        let found = self.client.get_value(&self.job, black_box("pmix.job.size"), &self.options);
        found.ok().and_then(|found: Fetched<'_>| found.as_u64())
    }

    /// The length of a value of the peer; the bytes stay in place.
    pub(super) fn peer_value(&self, key: &str) -> Option<usize> {
        match self.client.get_value(&self.peer, black_box(key), &self.options) {
            Ok(found) => black_box(found.as_bytes()).map(<[u8]>::len),
            Err(_) => None,
        }
    }

    /// Gets every value of the peer. Returns whether all were found.
    pub(super) fn all_peer_values(&self) -> bool {
        self.values.iter().all(|(size, key)| self.peer_value(key) == Some(*size))
    }
}

/// The key of the peer's value of a size.
fn value_key(size: usize) -> String {
    format!("bench.value.{size}")
}
