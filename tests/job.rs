//! A server and its clients in normal use: real processes, real sockets, real segments.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::mpsc;
use std::time::Duration;

use modex::client::{CallError, LossReason};
use modex::gds::{AsStatus, StoreLimits};
use modex::keys::TypedKey;
use modex::proto::Command;
use modex::types::{Info, Key, Rank, Scope, Status};
use modex::{
    BackingKind, Client, ConnectError, FenceError, FenceOptions, GetError, GetOptions, LocalHost, Server, ServerError,
    keys,
};
use support::{Process, TestServer, namespace, proc, role};

const ENDPOINT: TypedKey<str> = TypedKey::new("endpoint");
const SQUARE: TypedKey<u64> = TypedKey::new("square");

#[test]
fn client_process() {
    match role().as_deref() {
        Some("exchange") => exchange(),
        Some("wait") => wait_to_be_killed(),
        Some("count threads") => count_threads(),
        Some("fork") => fork_with_a_client(),
        Some(other) => panic!("unknown role {other}"),
        None => {}
    }
}

fn exchange() {
    let client = Client::connect().unwrap();
    assert!(client.reads_segment());
    let rank = client.proc().rank.process().unwrap();
    let size = client.get(Rank::Wildcard, keys::JOB_SIZE).unwrap();
    client.put(Scope::Global, "endpoint", format!("endpoint of {rank}")).unwrap();
    client.put(Scope::Local, "square", u64::from(rank) * u64::from(rank)).unwrap();
    client.commit().unwrap();
    client.fence(&FenceOptions::new().collect(true)).wait().unwrap();
    for peer in 0..size {
        assert_eq!(client.get(peer, ENDPOINT).unwrap(), format!("endpoint of {peer}"));
        assert_eq!(client.get(peer, SQUARE).unwrap(), u64::from(peer) * u64::from(peer));
    }
    client.finalize().unwrap();
}

fn wait_to_be_killed() {
    let client = Client::connect().unwrap();
    client.put(Scope::Global, "endpoint", "of the dead").unwrap();
    client.commit().unwrap();
    println!("here");
    // Ends with the connection, because no process puts this key.
    let _ = client.get(client.proc().rank, TypedKey::<str>::new("never put"));
}

fn count_threads() {
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let before = threads();
    let client = Client::connect().unwrap();
    client.put(Scope::Global, "endpoint", "x").unwrap();
    client.commit().unwrap();
    client.fence(&FenceOptions::new()).wait().unwrap();
    client.fence(&FenceOptions::new()).start().unwrap().wait().unwrap();
    assert_eq!(threads(), before, "a client without callbacks runs no thread");
    let (done, result) = mpsc::channel();
    client.fence(&FenceOptions::new()).then(move |outcome| done.send(outcome).unwrap()).unwrap();
    assert_eq!(result.recv().unwrap(), Ok(()));
    assert_eq!(threads(), before + 1, "the first callback starts one");
    client.finalize().unwrap();
    // It ends with the client. The kernel lists a joined thread for a moment longer.
    while threads() != before {
        std::thread::yield_now();
    }
}

/// The child's use of the client must not affect the parent.
fn fork_with_a_client() {
    let client = Client::connect().unwrap();
    // A thread of the client, which the child does not have.
    let (done, result) = mpsc::channel();
    client.fence(&FenceOptions::new()).then(move |outcome| done.send(outcome).unwrap()).unwrap();
    assert_eq!(result.recv().unwrap(), Ok(()));
    client.put(Scope::Global, "endpoint", "of the parent").unwrap();
    #[expect(unsafe_code, reason = "the tested library must survive programs that fork; there is no safe fork")]
    // SAFETY: the child allocates, which glibc allows after a fork. It uses no lock that another thread may hold: only
    // the test thread runs, and the client's thread waits for work without a lock.
    let fork = unsafe { nix::unistd::fork() }.unwrap();
    if let nix::unistd::ForkResult::Parent { child } = fork {
        let ended = nix::sys::wait::waitpid(child, None).unwrap();
        assert_eq!(ended, nix::sys::wait::WaitStatus::Exited(child, 0), "the child saw what it should");
        client.commit().unwrap();
        client.fence(&FenceOptions::new()).wait().unwrap();
        assert_eq!(client.get(client.proc().rank, ENDPOINT).unwrap(), "of the parent");
        return client.finalize().unwrap();
    }
    let size = client.get(Rank::Wildcard, keys::JOB_SIZE);
    let fence = client.fence(&FenceOptions::new()).wait();
    let is_refused = matches!(fence, Err(FenceError::Call(CallError::Lost { reason: LossReason::Forked, .. })));
    drop(client);
    std::process::exit(if size == Ok(1) && is_refused { 0 } else { 1 });
}

#[test]
fn a_forked_child_neither_uses_nor_ends_its_parents_connection() {
    // Dropping a client shut the socket that parent and child share, and joined a thread that a fork does not copy. A
    // program that forks helpers lost its server, or hung. A client belongs to the process that connected it.
    let node = TestServer::local();
    node.register_local_job("job", 1);
    node.spawn("job", 0, "fork").succeed();
}

#[test]
fn every_process_reads_what_every_other_put_before_the_fence() {
    let node = TestServer::local();
    node.register_local_job("job", 4);
    let clients: Vec<_> = (0..4).map(|rank| node.spawn("job", rank, "exchange")).collect();
    clients.into_iter().for_each(Process::succeed);
}

#[test]
fn a_segment_may_live_in_any_backing_that_has_a_descriptor() {
    let backings = [
        BackingKind::Memfd,
        BackingKind::File,
        #[cfg(feature = "posix-shm")]
        BackingKind::Posix,
    ];
    for backing in backings {
        let node = TestServer::with_backing("node0", LocalHost, backing);
        node.register_local_job("job", 2);
        let clients: Vec<_> = (0..2).map(|rank| node.spawn("job", rank, "exchange")).collect();
        clients.into_iter().for_each(Process::succeed);
        let directory = node.directory;
        drop(node.server);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "{backing}");
    }
}

#[test]
fn a_client_that_gets_no_segment_is_served_over_the_socket() {
    // Memory of the server's own process has no descriptor.
    let node = TestServer::with_backing("node0", LocalHost, BackingKind::Heap);
    node.register_local_job("job", 2);
    let (mine, peer) = (node.connect("job", 0), node.connect("job", 1));
    assert!(!mine.reads_segment());
    assert_eq!(mine.get(Rank::Wildcard, keys::JOB_SIZE), Ok(2));
    assert_eq!(mine.get(1, keys::LOCAL_RANK), Ok(1));
    mine.put(Scope::Global, "endpoint", "over the socket").unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| peer.get(0, ENDPOINT).unwrap().into_owned());
        mine.commit().unwrap();
        assert_eq!(waiting.join().unwrap(), "over the socket");
    });
    let missing = peer.get_value(&proc("job", 0), "never", &GetOptions::new().immediate()).unwrap_err();
    assert!(matches!(missing, GetError::NotFound { .. }), "{missing}");
}

#[test]
fn a_client_runs_no_thread_until_it_gives_a_callback() {
    let node = TestServer::local();
    node.register_local_job("job", 1);
    node.spawn("job", 0, "count threads").succeed();
}

#[test]
fn a_job_has_variables_from_its_registration_on() {
    let node = TestServer::local();
    let unknown = node.server.setup_fork(&proc("job", 0)).unwrap_err();
    assert_eq!(unknown.status(), Status::ERR_INVALID_NAMESPACE, "{unknown}");
    node.register_local_job("job", 1);
    node.server.setup_fork(&proc("job", 0)).unwrap();
}

/// As at OpenPMIx's servers: MPI programs then run alone. It was reported as a failure of communication.
#[test]
fn variables_that_a_job_left_behind_lead_to_nobody() {
    let node = TestServer::local();
    node.register_local_job("job", 1);
    let left = node.server.setup_fork(&proc("job", 0)).unwrap();
    drop(node);
    let error = Client::builder().env(left).connect().unwrap_err();
    assert_eq!(error.status(), Status::ERR_UNREACH, "{error}");
}

#[test]
fn a_fence_under_way_lets_the_process_go_on() {
    let node = TestServer::local();
    node.register_local_job("job", 2);
    let (first, second) = (node.connect("job", 0), node.connect("job", 1));
    let pending = first.fence(&FenceOptions::new().collect(true)).start().unwrap();
    let pending = pending.try_wait().expect_err("the other process has not arrived");
    assert_eq!(first.get(Rank::Wildcard, keys::JOB_SIZE), Ok(2));
    second.fence(&FenceOptions::new().collect(true)).wait().unwrap();
    pending.wait().unwrap();
}

#[test]
fn a_commit_and_a_fence_may_be_one_wait() {
    let node = TestServer::local();
    node.register_local_job("job", 2);
    let (first, second) = (node.connect("job", 0), node.connect("job", 1));
    for round in 0..3_u64 {
        first.put(Scope::Global, "square", round).unwrap();
        std::thread::scope(|scope| {
            let exchange = scope.spawn(|| first.commit_and_fence(&FenceOptions::new().collect(true)));
            // Replies to other threads of this process do not wait for the fence.
            first.put(Scope::Global, "endpoint", format!("of round {round}")).unwrap();
            first.commit().unwrap();
            second.fence(&FenceOptions::new().collect(true)).wait().unwrap();
            exchange.join().unwrap().unwrap();
        });
        assert_eq!(second.get(0, SQUARE), Ok(round));
        assert_eq!(second.get(0, ENDPOINT).unwrap(), format!("of round {round}"));
    }
    // Nothing new to commit.
    std::thread::scope(|scope| {
        let exchange = scope.spawn(|| first.commit_and_fence(&FenceOptions::new()));
        second.commit_and_fence(&FenceOptions::new()).unwrap();
        exchange.join().unwrap().unwrap();
    });
}

#[test]
fn a_commit_that_fails_keeps_nobody_from_the_fence_behind_it() {
    let directory = tempfile::tempdir().unwrap();
    let limits = StoreLimits { commit_entries_max: 1, ..StoreLimits::default() };
    let builder = Server::builder().hostname("node0").tmpdir(directory.path()).store_limits(limits);
    let node = TestServer { server: std::sync::Arc::new(builder.start(LocalHost).unwrap()), directory };
    node.register_local_job("job", 2);
    let (first, second) = (node.connect("job", 0), node.connect("job", 1));
    first.put(Scope::Global, "endpoint", "one").unwrap();
    first.put(Scope::Global, "square", 2_u64).unwrap();
    std::thread::scope(|scope| {
        let exchange = scope.spawn(|| first.commit_and_fence(&FenceOptions::new()));
        second.fence(&FenceOptions::new()).wait().unwrap();
        let refused = exchange.join().unwrap().unwrap_err();
        assert!(matches!(&refused, FenceError::Call(CallError::Refused { command: Command::Commit, .. })), "{refused}");
    });
    // The values are part of the next commit, as after any failed one.
    assert!(first.commit().is_err());
}

#[test]
fn a_callback_may_use_the_client_it_came_from() {
    let node = TestServer::local();
    node.register_local_job("job", 1);
    let client = std::sync::Arc::new(node.connect("job", 0));
    let (done, result) = mpsc::channel();
    let inner = client.clone();
    client
        .fence(&FenceOptions::new())
        .then(move |outcome| {
            outcome.unwrap();
            inner.fence(&FenceOptions::new()).wait().unwrap();
            done.send(inner.get(Rank::Wildcard, keys::JOB_SIZE).unwrap()).unwrap();
        })
        .unwrap();
    assert_eq!(result.recv().unwrap(), 1);
}

#[test]
fn a_callback_that_panics_costs_the_others_nothing() {
    // The panic ended the callback thread, and every later callback waited for ever.
    let node = TestServer::local();
    node.register_local_job("job", 1);
    let client = node.connect("job", 0);
    client.fence(&FenceOptions::new()).then(|_| panic!("on purpose")).unwrap();
    let (done, result) = mpsc::channel();
    client.fence(&FenceOptions::new()).then(move |outcome| done.send(outcome).unwrap()).unwrap();
    assert_eq!(result.recv().unwrap(), Ok(()));
}

#[test]
fn a_fence_with_a_time_limit_ends_without_the_others() {
    let node = TestServer::local();
    node.register_local_job("job", 2);
    let client = node.connect("job", 0);
    let late = client.fence(&FenceOptions::new().timeout(Duration::from_secs(1))).wait().unwrap_err();
    assert_eq!(late.status(), Status::ERR_TIMEOUT, "{late}");
}

#[test]
fn a_dead_process_does_not_hang_the_fence_and_its_data_stay() {
    let node = TestServer::local();
    node.register_local_job("job", 3);
    let mut dying = node.spawn("job", 2, "wait");
    dying.wait_for_line("here");
    let clients = [node.connect("job", 0), node.connect("job", 1)];
    std::thread::scope(|scope| {
        let fences: Vec<_> =
            clients.iter().map(|client| scope.spawn(|| client.fence(&FenceOptions::new()).wait())).collect();
        dying.kill();
        let ends: Vec<_> = fences.into_iter().map(|fence| fence.join().unwrap().map_err(|e| e.status())).collect();
        assert_eq!(ends[0], ends[1], "both learn the same");
    });
    assert_eq!(clients[0].get(2, ENDPOINT).unwrap(), "of the dead");
}

#[test]
fn a_process_may_leave_and_come_back() {
    let node = TestServer::local();
    node.register_local_job("job", 1);
    for round in 0..3_u32 {
        let client = node.connect("job", 0);
        if round > 0 {
            assert_eq!(client.get(0, TypedKey::<u32>::new("round")), Ok(round - 1));
        }
        client.put(Scope::Global, "round", round).unwrap();
        client.commit().unwrap();
        client.fence(&FenceOptions::new()).wait().unwrap();
        client.finalize().unwrap();
    }
}

#[test]
fn the_end_of_the_server_ends_every_wait_with_an_error() {
    let node = TestServer::local();
    node.register_local_job("job", 2);
    let client = node.connect("job", 0);
    let pending = client.fence(&FenceOptions::new()).start().unwrap();
    drop(node);
    assert!(matches!(pending.wait(), Err(CallError::Lost { .. })));
    assert!(matches!(client.commit(), Ok(())), "nothing was put, so nothing is lost");
    client.put(Scope::Global, "endpoint", "x").unwrap();
    assert!(matches!(client.commit(), Err(CallError::Lost { .. })));
    // The segment outlives the server while it is mapped.
    assert_eq!(client.get(Rank::Wildcard, keys::JOB_SIZE), Ok(2));
    client.finalize().unwrap();
}

#[test]
fn a_process_without_launcher_and_one_without_server_are_told_what_to_do() {
    let nothing: [(&str, &str); 0] = [];
    assert!(matches!(Client::builder().env(nothing).connect(), Err(ConnectError::NotLaunched)));

    let node = TestServer::local();
    node.register_local_job("job", 1);
    let variables = node.server.setup_fork(&proc("job", 0)).unwrap();
    drop(node);
    let error = Client::builder().env(variables).connect().unwrap_err();
    assert!(matches!(error, ConnectError::ServerUnreachable { .. }), "{error}");
    assert_eq!(error.to_string().lines().count(), 1);

    let error = Client::builder().env([("PMIX_NAMESPACE", "job"), ("PMIX_RANK", "zero")]).connect().unwrap_err();
    assert!(error.to_string().contains("PMIX_RANK"), "{error}");
}

#[test]
fn a_refused_registration_says_which_value_is_wrong() {
    // The host got only a number and had to look into the server's log.
    let node = TestServer::local();
    let description = vec![Info::new(Key::from_static(keys::JOB_SIZE.name()), "four")];
    let error = node.server.register_namespace(&namespace("job"), 1, description).wait().unwrap_err();
    assert!(matches!(error, ServerError::Refused { status, .. } if status.is_error()), "{error}");
    assert!(error.to_string().contains(keys::JOB_SIZE.name()), "{error}");
}
