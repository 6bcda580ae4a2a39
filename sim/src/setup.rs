//! The parameters of a run, and where its processes are.

use std::collections::BTreeSet;
use std::time::Duration;

use modex::types::{Namespace, ProcId, Rank};

use super::faults::{Canary, Faults};
use super::random::{Random, RandomStream};

/// Everything that a run depends on besides its seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Servers.
    pub nodes: u32,
    /// Processes of all jobs together.
    pub ranks: u32,
    /// The number of collective operations in the program.
    pub phases: u32,
    /// Kinds of faults that may happen.
    pub faults: Faults,
    /// The largest number of faults.
    pub faults_max: u32,
    /// A planted defect.
    pub canary: Option<Canary>,
}

impl Setup {
    /// A few processes on a few nodes, where everything may go wrong.
    pub const SMALL: Self =
        Self { nodes: 3, ranks: 8, phases: 6, faults: Faults::all(), faults_max: u32::MAX, canary: None };

    /// A random shape for each seed, so that many seeds try many shapes: any subset of the faults, few or many.
    #[must_use]
    pub fn drawn(seed: u64) -> Self {
        let mut random = Random::of(seed, RandomStream::Shape);
        let mut between = |most: u32| random.below_u32(most).saturating_add(1);
        let (nodes, ranks, phases) = (between(DRAWN_NODES_MAX), between(DRAWN_RANKS_MAX), between(DRAWN_PHASES_MAX));
        let faults_max = if between(4) == 1 { u32::MAX } else { between(DRAWN_FAULTS_MAX) };
        let faults = Faults::kinds().filter(|_| random.one_in(2)).collect();
        Self { nodes, ranks, phases, faults, faults_max, canary: None }
    }

    /// Whether full checks cost too much time for each step, and exchanges among all cost too much memory.
    pub(super) const fn is_large(&self) -> bool {
        self.ranks > 4096
    }
}

/// The largest drawn shape. Far more processes than nodes, and far fewer, are among them.
const DRAWN_NODES_MAX: u32 = 50;
const DRAWN_RANKS_MAX: u32 = 64;
const DRAWN_PHASES_MAX: u32 = 9;
/// The most faults of a drawn shape that bounds them.
const DRAWN_FAULTS_MAX: u32 = 16;
/// How long a server waits for its host.
pub(super) const HOST_TIMEOUT: Duration = Duration::from_secs(60);
/// How long the host waits until all servers of an operation have come.
pub(super) const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(40);
/// When the host ends the jobs, finished or not.
pub(super) const JOB_LIMIT: Duration = Duration::from_secs(900);
/// How long a stopped process stays stopped.
pub(super) const STOPPED_FOR: Duration = Duration::from_secs(60);

/// One namespace: `size` processes in blocks over the nodes.
#[derive(Clone, Debug)]
pub(super) struct JobSetup {
    pub(super) namespace: Namespace,
    pub(super) size: u32,
    /// The number of its rank 0 among all processes of the run.
    pub(super) first: u32,
    /// The first of its nodes, and how many it has.
    pub(super) node_first: u32,
    pub(super) node_count: u32,
    /// Nodes that it was never registered with, not even with an earlier server.
    pub(super) unheard_on: BTreeSet<u32>,
}

impl JobSetup {
    pub(super) fn node_of(&self, rank: u32) -> u32 {
        let (rank, nodes, size) = (u64::from(rank), u64::from(self.node_count), u64::from(self.size.max(1)));
        self.node_first.saturating_add(u32::try_from(rank.saturating_mul(nodes) / size).unwrap_or(0))
    }

    /// Its ranks on a node, in order.
    pub(super) fn ranks_on(&self, node: u32) -> std::ops::Range<u32> {
        let Some(place) = node.checked_sub(self.node_first).filter(|place| *place < self.node_count) else {
            return 0..0;
        };
        let first_of = |place: u32| {
            let first = (u64::from(place) * u64::from(self.size)).div_ceil(u64::from(self.node_count));
            u32::try_from(first).unwrap_or(u32::MAX)
        };
        first_of(place)..first_of(place + 1)
    }

    pub(super) fn proc(&self, rank: u32) -> ProcId {
        ProcId::new(self.namespace.clone(), rank)
    }

    pub(super) fn everybody(&self) -> ProcId {
        ProcId::new(self.namespace.clone(), Rank::Wildcard)
    }

    /// The ranks that an entry of a participant list stands for.
    pub(super) fn ranks_of(&self, entry: &ProcId) -> std::ops::Range<u32> {
        match entry.rank {
            _ if entry.namespace != self.namespace => 0..0,
            Rank::Process(rank) if rank < self.size => rank..rank + 1,
            Rank::Wildcard => 0..self.size,
            _ => 0..0,
        }
    }
}

/// The jobs that a run begins with: one over all nodes and, where there are enough processes, a small one on the last
/// nodes. They may be on the first few nodes only.
pub(super) fn jobs(setup: &Setup, has_second: bool, nodes: u32) -> Vec<JobSetup> {
    let second = if has_second && setup.ranks >= 4 { (setup.ranks / 4).min(64) } else { 0 };
    let first = setup.ranks.max(1) - second;
    let mut jobs = vec![job("alpha", first, 0, 0, nodes)];
    if second > 0 {
        let node_count = nodes.min(2);
        jobs.push(job("beta", second, first, nodes - node_count, node_count));
    }
    jobs
}

/// Puts the second job on the last node, and the first on the others.
pub(super) fn part(jobs: &mut [JobSetup], nodes: u32) {
    if let [first, second] = jobs
        && let Some(others) = nodes.checked_sub(1).filter(|others| *others > 0)
    {
        first.node_count = others.min(first.size.max(1));
        (second.node_first, second.node_count) = (others, 1);
    }
}

pub(super) fn job(name: &str, size: u32, first: u32, node_first: u32, node_count: u32) -> JobSetup {
    #[expect(clippy::expect_used, reason = "the names are ours")]
    let namespace = Namespace::new(name).expect("a short name");
    let node_count = node_count.min(size.max(1));
    JobSetup { namespace, size, first, node_first, node_count, unheard_on: BTreeSet::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_shapes_reach_their_bounds_and_repeat() {
        let shapes: Vec<Setup> = (0..2000).map(Setup::drawn).collect();
        assert_eq!(shapes, (0..2000).map(Setup::drawn).collect::<Vec<_>>());
        for (of, most) in [
            ((|shape| shape.nodes) as fn(&Setup) -> u32, DRAWN_NODES_MAX),
            (|shape| shape.ranks, DRAWN_RANKS_MAX),
            (|shape| shape.phases, DRAWN_PHASES_MAX),
        ] {
            assert_eq!((shapes.iter().map(of).min(), shapes.iter().map(of).max()), (Some(1), Some(most)));
        }
        let faults = |of: fn(Faults, Faults) -> Faults| shapes.iter().map(|shape| shape.faults).reduce(of);
        assert_eq!((faults(|a, b| a | b), faults(|a, b| a & b)), (Some(Faults::all()), Some(Faults::empty())));
        assert!(shapes.iter().all(|shape| shape.faults_max > 0));
    }

    #[test]
    fn every_rank_is_on_one_node() {
        for (size, nodes) in [(1, 1), (3, 5), (8, 3), (1000, 7), (7, 7)] {
            let job = job("j", size, 0, 2, nodes);
            let placed: Vec<u32> = (0..2 + nodes).flat_map(|node| job.ranks_on(node)).collect();
            assert_eq!(placed, (0..size).collect::<Vec<_>>());
            assert!((0..size).all(|rank| job.ranks_on(job.node_of(rank)).contains(&rank)), "{size} on {nodes}");
        }
    }
}
