//! Data that a fence brings from other nodes, compared with two copies of the same bytes and with a barrier.

mod support;

use std::collections::VecDeque;
use std::hint::black_box;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use modex::gds::Datastore;
use modex::gds::registration::JobDescription;
use modex::proto::exchange::PackedFence;
use modex::types::{Key, Kval, Namespace, ProcId, Scope, Value};
use modex::{
    Capabilities, Client, ExchangeForm, FenceOptions, FenceReply, FenceUpcall, GetOptions, Host, Responder, Server,
};
use parking_lot::Mutex;
use support::{Failure, describe, namespace, registered};

/// Number of ranks, and bytes of each.
const RANKS: u32 = 1_000_000;
const VALUE_BYTES: usize = 128;
/// Ranks in one server's part.
const RANKS_PER_PART: u32 = 100;

fn main() -> Result<(), Failure> {
    let mut criterion = Criterion::default().sample_size(10).configure_from_args();
    receive(&mut criterion)?;
    fence(&mut criterion)?;
    exchange(&mut criterion)?;
    criterion.final_summary();
    Ok(())
}

/// The result of a fence of all ranks, as hosts get it.
fn blob(namespace: &Namespace, ranks: u32, value_bytes: usize) -> Result<Vec<u8>, Failure> {
    let sizes = [(namespace.clone(), Some(ranks))];
    let mut bytes = Vec::new();
    for first in (0..ranks).step_by(usize::try_from(RANKS_PER_PART)?) {
        let data = |rank: u32| {
            let [low, ..] = rank.to_le_bytes();
            let value = Value::ByteObject(vec![low; value_bytes]);
            let commit = Kval { key: Key::from_static("pmix.modex.commit"), value: 1_u64.into() };
            (ProcId::new(namespace.clone(), rank), vec![Kval { key: Key::from_static("bench.modex"), value }, commit])
        };
        let data = (first..ranks.min(first + RANKS_PER_PART)).map(data).collect();
        bytes.extend(ExchangeForm::default().pack_fence(data, &sizes)?);
    }
    Ok(bytes)
}

/// Measures the way from the host's bytes into the segment.
fn receive(criterion: &mut Criterion) -> Result<(), Failure> {
    let job = namespace()?;
    let (bytes, description) = (Arc::new(blob(&job, RANKS, VALUE_BYTES)?), describe(RANKS)?);
    let packed = PackedFence::new(Bytes(Arc::clone(&bytes)))?;
    let sizes = [(job.clone(), Some(RANKS))];
    packed.read(&sizes, &mut |_, _| ControlFlow::Continue(()))?;
    let mut group = criterion.benchmark_group("receive/1000000 x 128 B");
    group.throughput(Throughput::Bytes(u64::try_from(bytes.len())?)).warm_up_time(Duration::from_millis(1));
    group.bench_function("copy twice", |bench| {
        bench.iter(|| black_box(Vec::clone(black_box(&Vec::clone(&bytes)))));
    });
    group.bench_function("read", |bench| {
        bench.iter(|| {
            let mut count = 0;
            packed.read(&sizes, &mut |_, entries| {
                count += entries.len();
                ControlFlow::Continue(())
            })?;
            Ok::<_, Failure>(count)
        });
    });
    group.bench_function("store", |bench| {
        bench.iter_batched_ref(
            || registered(&description),
            |store| -> Result<(), Failure> {
                let store = store.as_mut().map_err(|error| error.to_string())?;
                let mut failure = None;
                PackedFence::new(Bytes(Arc::clone(&bytes)))?.read(&sizes, &mut |source, entries| {
                    failure = store.take_arrival(source.namespace, source.rank, entries).err();
                    if failure.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                })?;
                failure.map_or(Ok(()), Err)?;
                store.publish_arrivals(&job)?;
                Ok(())
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
    Ok(())
}

/// The data that a host adds to a fence.
enum Elsewhere {
    /// The values of all ranks, instead of the data that the host got.
    All(Arc<Vec<u8>>),
    /// The data of the other nodes for the first collecting fence, the second and so on; each is used once.
    Others(Mutex<VecDeque<Vec<u8>>>),
}

struct Bytes(Arc<Vec<u8>>);

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Host for Elsewhere {
    fn capabilities(&self) -> Capabilities {
        Capabilities::FENCE
    }

    fn fence(&self, request: FenceUpcall, reply: Responder<FenceReply>) {
        if !request.data.collect {
            return reply.packed(Vec::new());
        }
        match self {
            Self::All(bytes) => reply.packed(Bytes(Arc::clone(bytes))),
            Self::Others(others) => {
                match ExchangeForm::default().pack_fence(request.data.blocks, &request.namespaces) {
                    Ok(mut bytes) => {
                        bytes.extend(others.lock().pop_front().unwrap_or_default());
                        reply.packed(bytes);
                    }
                    Err(error) => reply.fail(error.status()),
                }
            }
        }
    }
}

/// A server with one local process of a job; the other processes are on other nodes.
fn node(job: &str, ranks: u32, elsewhere: Elsewhere) -> Result<(Client, Server), Failure> {
    let server = Server::builder().hostname("node0").start(elsewhere)?;
    let job = Namespace::new(job)?;
    let description = JobDescription::new(&job).nodes(["node0", "node1"]).ranks_by_node([0..1, 1..ranks]);
    server.register_namespace(&job, 1, description.build()?).wait()?;
    let proc = ProcId::new(job, 0);
    server.register_client(&proc, nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw()).wait()?;
    let client = Client::builder().env(server.setup_fork(&proc)?).connect()?;
    Ok((client, server))
}

/// The same through a server: from the last arrival until the release of the client.
fn fence(criterion: &mut Criterion) -> Result<(), Failure> {
    let bytes = Arc::new(blob(&namespace()?, RANKS, VALUE_BYTES)?);
    let mut group = criterion.benchmark_group("receive/1000000 x 128 B");
    group.throughput(Throughput::Bytes(u64::try_from(bytes.len())?)).warm_up_time(Duration::from_millis(1));
    group.bench_function("fence", |bench| {
        bench.iter_batched_ref(
            || {
                let node = node("bench-job", RANKS, Elsewhere::All(Arc::clone(&bytes)))?;
                // The next allocation tidies the memory that registration freed; the measured fence must not pay for
                // this.
                node.0.fence(&FenceOptions::new()).wait()?;
                Ok::<_, Failure>(node)
            },
            |node| -> Result<(), Failure> {
                let (client, _server) = node.as_ref().map_err(|error| error.to_string())?;
                Ok(client.fence(&FenceOptions::new().collect(true)).wait()?)
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
    Ok(())
}

/// Measures the n-th fence of a local and a remote process, after put and commit, and a barrier instead of it.
fn exchange(criterion: &mut Criterion) -> Result<(), Failure> {
    let mut group = criterion.benchmark_group("exchange");
    let (barrier, collect) = (FenceOptions::new(), FenceOptions::new().collect(true));
    for value_bytes in [1, 64, 4 << 10, 64 << 10] {
        for repetition in [1, 20] {
            arrives(value_bytes, repetition)?;
            for (name, options) in [("", &collect), (", barrier instead", &barrier)] {
                let id = BenchmarkId::new(format!("{value_bytes} B{name}"), repetition);
                group.bench_with_input(id, &repetition, |bench, _| {
                    bench.iter_batched_ref(
                        || ready(value_bytes, repetition),
                        |node| -> Result<(), Failure> {
                            let (client, _server) = node.as_ref().map_err(|error| error.to_string())?;
                            Ok(client.fence(options).wait()?)
                        },
                        BatchSize::PerIteration,
                    );
                });
            }
        }
    }
    let (client, _server) = ready(1, 20)?;
    let whole = vec![7_u8; 2 * (64 << 10)];
    group.bench_function("copy of 2 x 65536 B", |bench| bench.iter(|| black_box(Vec::clone(black_box(&whole)))));
    for (name, options) in [("barrier", FenceOptions::new()), ("nothing new", FenceOptions::new().collect(true))] {
        client.fence(&options).wait()?;
        group.bench_function(name, |bench| bench.iter(|| client.fence(&options).wait()));
    }
    group.finish();
    Ok(())
}

/// Checks that the measured fence brings the values of the other node.
fn arrives(value_bytes: usize, repetition: u32) -> Result<(), Failure> {
    let (client, _server) = ready(value_bytes, repetition)?;
    client.fence(&FenceOptions::new().collect(true)).wait()?;
    let other = ProcId::new(namespace()?, 1);
    let found = client.get_value(&other, &format!("bench.{repetition}"), &GetOptions::new().optional())?;
    let is_whole = found.into_value()? == Value::ByteObject(vec![9; value_bytes]);
    is_whole.then_some(()).ok_or_else(|| "the fence brought another value than was put".into())
}

/// A node whose process has finished all exchanges but the last, each with a new key, and has committed the last one.
/// It starts with a barrier, because the server's first request to its host starts a thread.
fn ready(value_bytes: usize, repetitions: u32) -> Result<(Client, Server), Failure> {
    let job = namespace()?;
    let sizes = [(job.clone(), Some(2))];
    let other = |repetition: u32| -> Result<Vec<u8>, Failure> {
        let value = Value::ByteObject(vec![9; value_bytes]);
        let commit = Kval { key: Key::from_static("pmix.modex.commit"), value: u64::from(repetition).into() };
        let data = vec![Kval { key: Key::new(format!("bench.{repetition}"))?, value }, commit];
        Ok(ExchangeForm::default().pack_fence(vec![(ProcId::new(job.clone(), 1), data)], &sizes)?)
    };
    let others = (1..=repetitions).map(other).collect::<Result<_, _>>()?;
    let (client, server) = node("bench-job", 2, Elsewhere::Others(Mutex::new(others)))?;
    client.fence(&FenceOptions::new()).wait()?;
    for repetition in 1..=repetitions {
        client.put(Scope::Global, &format!("bench.{repetition}"), vec![7_u8; value_bytes])?;
        client.commit()?;
        if repetition < repetitions {
            client.fence(&FenceOptions::new().collect(true)).wait()?;
        }
    }
    Ok((client, server))
}
