//! Values of processes on other nodes, for one process and for 64 at once: the cost of one request to the host.
//!
//! Each round asks about a new process. The host answers at once, to measure this node alone, or after the time of a
//! network. Each round checks that 64 askers cost the host one request. Other rounds ask nothing: they show the
//! machine's time to wake and gather so many threads.
#![expect(clippy::disallowed_methods, reason = "a bench measures")]

mod support;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use criterion::Criterion;
use modex::gds::registration::JobDescription;
use modex::types::{Key, Kval, Namespace, ProcId, Value};
use modex::{Capabilities, Client, DirectModex, GetOptions, Host, Responder, Server};
use support::Failure;

const CLIENTS: u32 = 64;
const RANKS: u32 = 4_000_000;
const KEY: &str = "bench.endpoint";
const VALUE_BYTES: usize = 128;
/// Time of an answer from another node.
const NETWORK: Duration = Duration::from_millis(1);

fn main() -> Result<(), Failure> {
    let mut criterion = Criterion::default().sample_size(10).configure_from_args();
    fetch(&mut criterion)?;
    criterion.final_summary();
    Ok(())
}

/// A host where every process of another node has put one value.
struct Elsewhere {
    /// Number of requests to the host.
    asked: Arc<AtomicU32>,
    /// Time until the host answers.
    delay: Duration,
}

impl Host for Elsewhere {
    fn capabilities(&self) -> Capabilities {
        Capabilities::DIRECT_MODEX
    }

    fn direct_modex(&self, _: DirectModex, reply: Responder<Vec<Kval>>) {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if !self.delay.is_zero() {
            std::thread::sleep(self.delay);
        }
        reply.succeed(vec![Kval { key: Key::from_static(KEY), value: Value::ByteObject(vec![7; VALUE_BYTES]) }]);
    }
}

/// The clients of one node, in this process, and their common state.
struct Node {
    clients: Vec<Client>,
    asked: Arc<AtomicU32>,
    /// The next process to ask about.
    next: AtomicU32,
    _server: Server,
}

impl Node {
    fn start(delay: Duration) -> Result<Self, Failure> {
        let asked = Arc::new(AtomicU32::new(0));
        let server = Server::builder().hostname("node0").start(Elsewhere { asked: Arc::clone(&asked), delay })?;
        let job = Namespace::new("bench")?;
        let description = JobDescription::new(&job).nodes(["node0", "node1"]);
        let description = description.ranks_by_node([0..CLIENTS, CLIENTS..RANKS]).build()?;
        server.register_namespace(&job, CLIENTS, description).wait()?;
        let mut clients = Vec::new();
        for rank in 0..CLIENTS {
            let proc = ProcId::new(job.clone(), rank);
            server.register_client(&proc, nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw()).wait()?;
            clients.push(Client::builder().env(server.setup_fork(&proc)?).connect()?);
        }
        Ok(Self { clients, asked, next: AtomicU32::new(CLIENTS), _server: server })
    }

    /// Runs `rounds` rounds. In each, the first `askers` clients ask about one process at once.
    fn rounds(&self, askers: usize, rounds: u64) -> Duration {
        let asked = self.asked.load(Ordering::Relaxed);
        let first = self.next.fetch_add(u32::try_from(rounds).unwrap_or(u32::MAX), Ordering::Relaxed);
        let total = together(askers, rounds, |client, round| {
            let Some(client) = self.clients.get(client) else { return };
            let rank = first + u32::try_from(round).unwrap_or(u32::MAX);
            let proc = ProcId::new(client.proc().namespace.clone(), rank);
            let found = client.get_value(&proc, KEY, &GetOptions::new());
            assert!(found.is_ok_and(|found| found.as_bytes().map(<[u8]>::len) == Some(VALUE_BYTES)));
        });
        let questions = u64::from(self.asked.load(Ordering::Relaxed) - asked);
        assert_eq!(questions, rounds, "one question to the host for each process");
        total
    }
}

/// Runs `rounds` rounds. In each, `threads` threads call `act` at once. Returns the time of all rounds, each from the
/// moment when all threads are ready until the last one is done.
fn together(threads: usize, rounds: u64, act: impl Fn(usize, u64) + Sync) -> Duration {
    let (barrier, act) = (&Barrier::new(threads + 1), &act);
    let mut total = Duration::ZERO;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                for round in 0..rounds {
                    barrier.wait();
                    act(thread, round);
                    barrier.wait();
                }
            });
        }
        for _ in 0..rounds {
            barrier.wait();
            let begun = Instant::now();
            barrier.wait();
            total += begun.elapsed();
        }
    });
    total
}

fn fetch(criterion: &mut Criterion) -> Result<(), Failure> {
    let (at_once, later) = (Node::start(Duration::ZERO)?, Node::start(NETWORK)?);
    let mut group = criterion.benchmark_group("direct modex");
    for askers in [1, 2, 8, usize::try_from(CLIENTS)?] {
        group.bench_function(format!("{askers} meet and ask nothing"), |bench| {
            bench.iter_custom(|rounds| together(askers, rounds, |_, _| ()));
        });
        group.bench_function(format!("{askers} ask at once"), |bench| {
            bench.iter_custom(|rounds| at_once.rounds(askers, rounds));
        });
        group.bench_function(format!("{askers} ask at once, answer after 1 ms"), |bench| {
            bench.iter_custom(|rounds| later.rounds(askers, rounds));
        });
    }
    group.finish();
    Ok(())
}
