//! A server and its clients as they are used: real processes, real sockets, real segments.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::mpsc;
use std::time::Duration;

use modex::client::{CallError, LossReason};
use modex::gds::{AsStatus, StoreLimits};
use modex::keys::{TypedKey, marker};
use modex::proto::Command;
use modex::types::{DataType, Info, Key, ProcId, Rank, Scope, Status, Value};
use modex::{
    BackingKind, Client, ConnectError, FenceError, FenceOptions, GetError, GetOptions, LocalHost, Server, ServerError,
    keys,
};
use support::{Process, TestServer, description, namespace, proc, role};

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
    client.fence(&FenceOptions::new().collect(true)).unwrap();
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
    // Ends with the connection: nobody puts this key.
    let _ = client.get(client.proc().rank, TypedKey::<str>::new("never put"));
}

fn count_threads() {
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let before = threads();
    let client = Client::connect().unwrap();
    client.put(Scope::Global, "endpoint", "x").unwrap();
    client.commit().unwrap();
    client.fence(&FenceOptions::new()).unwrap();
    client.fence_nb(&FenceOptions::new()).unwrap().wait().unwrap();
    assert_eq!(threads(), before, "a client without callbacks runs no thread");
    let (done, result) = mpsc::channel();
    client.fence_with(&FenceOptions::new(), move |outcome| done.send(outcome).unwrap()).unwrap();
    assert_eq!(result.recv().unwrap(), Ok(()));
    assert_eq!(threads(), before + 1, "the first callback starts one");
    client.finalize().unwrap();
    // It ends with the client. The kernel lists a joined thread for a moment longer.
    while threads() != before {
        std::thread::yield_now();
    }
}

/// What the child does with the client must not show in the parent.
fn fork_with_a_client() {
    let client = Client::connect().unwrap();
    // A thread of the client's own, which the child does not have.
    let (done, result) = mpsc::channel();
    client.fence_with(&FenceOptions::new(), move |outcome| done.send(outcome).unwrap()).unwrap();
    assert_eq!(result.recv().unwrap(), Ok(()));
    client.put(Scope::Global, "endpoint", "of the parent").unwrap();
    #[expect(unsafe_code, reason = "the tested library must survive programs that fork; there is no safe fork")]
    // SAFETY: the child allocates, which glibc allows after a fork, and touches nothing that another thread may hold:
    // the test thread is the only one that runs; the client's waits for work without a lock.
    let fork = unsafe { nix::unistd::fork() }.unwrap();
    if let nix::unistd::ForkResult::Parent { child } = fork {
        let ended = nix::sys::wait::waitpid(child, None).unwrap();
        assert_eq!(ended, nix::sys::wait::WaitStatus::Exited(child, 0), "the child saw what it should");
        client.commit().unwrap();
        client.fence(&FenceOptions::new()).unwrap();
        assert_eq!(client.get(client.proc().rank, ENDPOINT).unwrap(), "of the parent");
        return client.finalize().unwrap();
    }
    let size = client.get(Rank::Wildcard, keys::JOB_SIZE);
    let fence = client.fence(&FenceOptions::new());
    let is_refused = matches!(fence, Err(FenceError::Call(CallError::Lost { reason: LossReason::Forked, .. })));
    drop(client);
    std::process::exit(if size == Ok(1) && is_refused { 0 } else { 1 });
}

#[test]
fn a_forked_child_neither_uses_nor_ends_its_parents_connection() {
    // Dropping a client shut the socket that parent and child share, and joined a thread that a fork does not copy:
    // a program that forks helpers lost its server, or hung. A client belongs to the process that connected it.
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
fn a_get_waits_for_a_late_commit() {
    let node = TestServer::local();
    node.register_local_job("job", 2);
    let (early, late) = (node.connect("job", 0), node.connect("job", 1));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| early.get(1, ENDPOINT).unwrap().into_owned());
        // The second commit is the one that completes: a commit without the key does not.
        late.put(Scope::Global, "other", 1_u32).unwrap();
        late.commit().unwrap();
        late.put(Scope::Global, "endpoint", "late").unwrap();
        late.commit().unwrap();
        assert_eq!(waiting.join().unwrap(), "late");
    });
}

#[test]
fn threads_of_one_process_share_the_socket_and_each_gets_its_own_answer() {
    let node = TestServer::local();
    node.register_local_job("job", 9);
    let asking = node.connect("job", 8);
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..8_u32)
            .map(|rank| {
                (rank, {
                    let asking = &asking;
                    scope.spawn(move || asking.get(rank, SQUARE))
                })
            })
            .collect();
        // In an order unlike the one in which they asked.
        for rank in [5_u32, 0, 7, 2, 1, 6, 4, 3] {
            let peer = node.connect("job", rank);
            peer.put(Scope::Local, "square", u64::from(rank) * u64::from(rank)).unwrap();
            peer.commit().unwrap();
            peer.finalize().unwrap();
        }
        for (rank, thread) in waiting {
            assert_eq!(thread.join().unwrap(), Ok(u64::from(rank) * u64::from(rank)));
        }
    });
}

/// As at servers of the reference: MPI programs then run alone. It was a failure of communication.
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
fn optional_and_immediate_do_not_wait_and_a_timeout_ends_waiting() {
    let node = TestServer::local();
    node.register_local_job("job", 2);
    let client = node.connect("job", 0);
    let peer = proc("job", 1);
    for options in [GetOptions::new().optional(), GetOptions::new().immediate()] {
        let missing = client.get_value(&peer, "endpoint", &options).unwrap_err();
        assert!(matches!(missing, GetError::NotFound { .. }), "{missing}");
    }
    let late = client.get_value(&peer, "endpoint", &GetOptions::new().timeout(Duration::from_secs(1))).unwrap_err();
    assert_eq!(late.status(), Status::ERR_TIMEOUT, "{late}");
}

#[test]
fn a_process_sees_its_own_puts_at_once_and_others_only_after_a_commit() {
    let node = TestServer::local();
    node.register_local_job("job", 2);
    let (mine, peer) = (node.connect("job", 0), node.connect("job", 1));
    mine.put(Scope::Global, "endpoint", "first").unwrap();
    assert_eq!(mine.get(0, ENDPOINT).unwrap(), "first");
    let optional = GetOptions::new().optional();
    assert!(peer.get_value(&proc("job", 0), "endpoint", &optional).is_err());
    mine.commit().unwrap();
    let found = peer.get_value(&proc("job", 0), "endpoint", &optional).unwrap();
    assert!(found.is_borrowed());
    assert_eq!(found.as_str(), Some("first"));
    mine.put(Scope::Global, "endpoint", "second").unwrap();
    mine.commit().unwrap();
    assert_eq!(peer.get(0, ENDPOINT).unwrap(), "second");
}

#[test]
fn remote_scope_hides_a_value_from_this_node_and_internal_from_everybody() {
    let node = TestServer::local();
    node.register_local_job("job", 2);
    let (mine, peer) = (node.connect("job", 0), node.connect("job", 1));
    mine.put(Scope::Remote, "far", 1_u32).unwrap();
    mine.put(Scope::Internal, "own", 2_u32).unwrap();
    mine.commit().unwrap();
    let hidden = peer.get_value(&proc("job", 0), "far", &GetOptions::new()).unwrap_err();
    assert!(matches!(hidden, GetError::OutsideScope { .. }), "{hidden}");
    let absent = peer.get_value(&proc("job", 0), "own", &GetOptions::new().immediate()).unwrap_err();
    assert!(matches!(absent, GetError::NotFound { .. }), "{absent}");
    assert_eq!(mine.get(0, TypedKey::<u32>::new("own")), Ok(2));
}

#[test]
fn a_value_of_another_type_is_a_typed_error() {
    let node = TestServer::local();
    node.register_local_job("job", 1);
    let client = node.connect("job", 0);
    client.put(Scope::Global, "endpoint", 7_u32).unwrap();
    client.commit().unwrap();
    match client.get(0, ENDPOINT).unwrap_err() {
        GetError::WrongType { expected, found, .. } => {
            assert_eq!((expected, found), ("a UTF-8 string", DataType::Uint32));
        }
        other => panic!("{other}"),
    }
    // Width does not matter, only whether the number fits.
    assert_eq!(client.get(0, TypedKey::<u64>::new("endpoint")), Ok(7));
    assert_eq!(client.get(0, TypedKey::<u8>::new("endpoint")), Ok(7));
}

#[test]
fn every_kind_of_value_is_read_as_what_it_is() {
    let node = TestServer::local();
    node.register_local_job("job", 2);
    let (mine, peer) = (node.connect("job", 0), node.connect("job", 1));
    let array = Value::info_array(vec![Info::new(Key::from_static("inner"), 5_u32)]);
    mine.put(Scope::Global, "bool", true).unwrap();
    mine.put(Scope::Global, "negative", -5_i64).unwrap();
    mine.put(Scope::Global, "float", 1.5_f32).unwrap();
    mine.put(Scope::Global, "bytes", vec![1_u8, 2, 3]).unwrap();
    mine.put(Scope::Global, "proc", proc("job", 1)).unwrap();
    mine.put(Scope::Global, "rank", Rank::Wildcard).unwrap();
    mine.put(Scope::Global, "status", Value::Status(-46)).unwrap();
    mine.put(Scope::Global, "array", array.clone()).unwrap();
    mine.commit().unwrap();
    assert_eq!(peer.get(0, TypedKey::<bool>::new("bool")), Ok(true));
    assert_eq!(peer.get(0, TypedKey::<i32>::new("negative")), Ok(-5));
    assert_eq!(peer.get(0, TypedKey::<f64>::new("float")), Ok(1.5));
    assert_eq!(&*peer.get(0, TypedKey::<marker::Bytes>::new("bytes")).unwrap(), [1, 2, 3]);
    assert_eq!(peer.get(0, TypedKey::<marker::Proc>::new("proc")), Ok(proc("job", 1)));
    assert_eq!(peer.get(0, TypedKey::<marker::Rank>::new("rank")), Ok(Rank::Wildcard));
    assert_eq!(peer.get(0, TypedKey::<marker::StatusCode>::new("status")), Ok(Status::ERR_NOT_FOUND));
    assert_eq!(peer.get(0, TypedKey::<marker::Any>::new("array")), Ok(array.clone()));
    match (array, peer.get(0, TypedKey::<marker::Array>::new("array")).unwrap()) {
        (Value::DataArray(expected), found) => assert_eq!(*expected, found),
        (other, _) => panic!("{other:?}"),
    }
    assert!(peer.get(0, TypedKey::<u32>::new("negative")).is_err());
    assert!(peer.get(0, TypedKey::<marker::Proc>::new("rank")).is_err());
}

#[test]
fn what_a_process_stores_for_a_peer_stands_before_what_the_peer_published() {
    let node = TestServer::local();
    node.register_local_job("job", 2);
    let (mine, peer) = (node.connect("job", 0), node.connect("job", 1));
    peer.put(Scope::Global, "endpoint", "published").unwrap();
    peer.commit().unwrap();
    assert_eq!(mine.get(1, ENDPOINT).unwrap(), "published");
    mine.store_internal(&proc("job", 1), Key::from_static("endpoint"), "noted").unwrap();
    assert_eq!(mine.get(1, ENDPOINT).unwrap(), "noted");
    assert_eq!(peer.get(1, ENDPOINT).unwrap(), "published");
}

/// The list of another node's ranks is written nowhere, and so must be made where it is asked for.
#[test]
fn the_local_peers_of_every_node_are_found_as_text() {
    let node = TestServer::local();
    let layout = [("node0", "0,1"), ("node1", "2,3"), ("node2", "4")];
    node.server.register_namespace(&namespace("job"), 2, description(5, &layout)).unwrap();
    node.register_client("job", 0);
    let client = node.connect("job", 0);
    let whole = ProcId::new(namespace("job"), Rank::Wildcard);
    for (name, list) in layout {
        let options = GetOptions::new().optional();
        let options = options.info(Info::new(Key::from_static("pmix.node.info"), true));
        let options = options.info(Info::new(Key::from_static("pmix.hname"), name));
        let found = client.get_value(&whole, "pmix.lpeers", &options).unwrap();
        assert_eq!((found.as_str(), found.is_borrowed()), (Some(list), name == "node0"));
        assert_eq!(found.clone().into_str().as_deref(), Some(list));
        assert_eq!(found.into_value(), Ok(Value::from(list)));
    }
    assert_eq!(client.get(Rank::Wildcard, keys::LOCAL_PEERS).unwrap(), "0,1");
}

#[test]
fn job_data_are_complete_at_start_and_a_missing_key_of_the_own_job_is_not_waited_for() {
    let node = TestServer::local();
    node.register_local_job("job", 3);
    let client = node.connect("job", 1);
    assert_eq!(client.get(Rank::Wildcard, keys::JOB_SIZE), Ok(3));
    assert_eq!(client.get(2, keys::LOCAL_RANK), Ok(2));
    assert_eq!(client.get(0, keys::HOSTNAME).unwrap(), "node0");
    assert_eq!(client.get(Rank::Wildcard, keys::LOCAL_PEERS).unwrap(), "0,1,2");
    let missing = client.get(Rank::Wildcard, keys::ANL_MAP).unwrap_err();
    assert!(matches!(missing, GetError::NotFound { .. }), "{missing}");
}

#[test]
fn a_fence_under_way_lets_the_process_go_on() {
    let node = TestServer::local();
    node.register_local_job("job", 2);
    let (first, second) = (node.connect("job", 0), node.connect("job", 1));
    let pending = first.fence_nb(&FenceOptions::new().collect(true)).unwrap();
    let pending = pending.try_wait().expect_err("the other process has not arrived");
    assert_eq!(first.get(Rank::Wildcard, keys::JOB_SIZE), Ok(2));
    second.fence(&FenceOptions::new().collect(true)).unwrap();
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
            // Answers to others of this process do not wait for the fence.
            first.put(Scope::Global, "endpoint", format!("of round {round}")).unwrap();
            first.commit().unwrap();
            second.fence(&FenceOptions::new().collect(true)).unwrap();
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
        second.fence(&FenceOptions::new()).unwrap();
        let refused = exchange.join().unwrap().unwrap_err();
        assert!(matches!(&refused, FenceError::Call(CallError::Refused { command: Command::Commit, .. })), "{refused}");
    });
    // The values are part of the next commit, as after any that failed.
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
        .fence_with(&FenceOptions::new(), move |outcome| {
            outcome.unwrap();
            inner.fence(&FenceOptions::new()).unwrap();
            done.send(inner.get(Rank::Wildcard, keys::JOB_SIZE).unwrap()).unwrap();
        })
        .unwrap();
    assert_eq!(result.recv().unwrap(), 1);
}

#[test]
fn a_callback_that_panics_costs_the_others_nothing() {
    // The panic ended the thread of the callbacks, and every later one waited for ever.
    let node = TestServer::local();
    node.register_local_job("job", 1);
    let client = node.connect("job", 0);
    client.fence_with(&FenceOptions::new(), |_| panic!("on purpose")).unwrap();
    let (done, result) = mpsc::channel();
    client.fence_with(&FenceOptions::new(), move |outcome| done.send(outcome).unwrap()).unwrap();
    assert_eq!(result.recv().unwrap(), Ok(()));
}

#[test]
fn a_get_with_callback_delivers_what_is_there_and_what_comes_later() {
    let node = TestServer::local();
    node.register_local_job("job", 2);
    let (mine, peer) = (node.connect("job", 0), node.connect("job", 1));
    let (done, values) = mpsc::channel();
    for key in ["now", "later"] {
        if key == "later" {
            mine.put(Scope::Global, "now", 1_u32).unwrap();
            mine.commit().unwrap();
        }
        let done = done.clone();
        peer.get_nb(&proc("job", 0), key, &GetOptions::new(), move |value| done.send((key, value)).unwrap()).unwrap();
    }
    assert_eq!(values.recv().unwrap(), ("now", Ok(Value::Uint32(1))));
    mine.put(Scope::Global, "later", 2_u32).unwrap();
    mine.commit().unwrap();
    assert_eq!(values.recv().unwrap(), ("later", Ok(Value::Uint32(2))));
    let optional = GetOptions::new().optional();
    peer.get_nb(&proc("job", 0), "never", &optional, move |value| done.send(("never", value)).unwrap()).unwrap();
    assert!(matches!(values.recv().unwrap(), ("never", Err(GetError::NotFound { .. }))));
}

#[test]
fn a_callback_still_due_when_the_client_goes_learns_so() {
    let node = TestServer::local();
    node.register_local_job("job", 2);
    let client = node.connect("job", 0);
    let (done, values) = mpsc::channel();
    let fence_done = done.clone();
    client.fence_with(&FenceOptions::new(), move |result| fence_done.send(result.is_err()).unwrap()).unwrap();
    client
        .get_nb(&proc("job", 1), "never", &GetOptions::new(), move |value| done.send(value.is_err()).unwrap())
        .unwrap();
    drop(client);
    assert_eq!(values.iter().collect::<Vec<_>>(), [true, true]);
}

#[test]
fn a_fence_with_a_time_limit_ends_without_the_others() {
    let node = TestServer::local();
    node.register_local_job("job", 2);
    let client = node.connect("job", 0);
    let late = client.fence(&FenceOptions::new().timeout(Duration::from_secs(1))).unwrap_err();
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
        let fences: Vec<_> = clients.iter().map(|client| scope.spawn(|| client.fence(&FenceOptions::new()))).collect();
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
        client.fence(&FenceOptions::new()).unwrap();
        client.finalize().unwrap();
    }
}

#[test]
fn the_end_of_the_server_ends_every_wait_with_an_error() {
    let node = TestServer::local();
    node.register_local_job("job", 2);
    let client = node.connect("job", 0);
    let pending = client.fence_nb(&FenceOptions::new()).unwrap();
    drop(node);
    assert!(matches!(pending.wait(), Err(CallError::Lost { .. })));
    assert!(matches!(client.commit(), Ok(())), "nothing was put, so nothing is lost");
    client.put(Scope::Global, "endpoint", "x").unwrap();
    assert!(matches!(client.commit(), Err(CallError::Lost { .. })));
    // The segment outlives the server for as long as it is mapped.
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
fn values_of_every_size_reach_other_processes() {
    let node = TestServer::local();
    node.register_local_job("job", 2);
    let (mine, peer) = (node.connect("job", 0), node.connect("job", 1));
    let sizes = [0_usize, 1, 7, 8, 9, 4095, 4096, 65_535, 65_536, 300_000, 5_000_000];
    for size in sizes {
        mine.put(Scope::Global, &format!("bytes.{size}"), vec![7_u8; size]).unwrap();
    }
    mine.commit().unwrap();
    for size in sizes {
        let found = peer.get_value(&proc("job", 0), &format!("bytes.{size}"), &GetOptions::new()).unwrap();
        assert_eq!(found.as_bytes(), Some(vec![7_u8; size].as_slice()));
    }
    let nested = Value::info_array(vec![Info::new(Key::from_static("inner"), 5_u32)]);
    mine.put(Scope::Global, "nested", nested.clone()).unwrap();
    mine.commit().unwrap();
    let found = peer.get_value(&proc("job", 0), "nested", &GetOptions::new()).unwrap();
    assert_eq!(found.into_value().unwrap(), nested);
}

#[test]
fn a_get_without_a_key_gives_all_that_a_process_posted_and_all_that_is_registered_for_it() {
    let node = TestServer::local();
    node.register_local_job("job", 2);
    let (mine, peer) = (node.connect("job", 0), node.connect("job", 1));
    // Of a process that has posted nothing, and is not waited for.
    let registered = mine.get_all(&proc("job", 1), &GetOptions::new().immediate()).unwrap();
    assert!(registered.contains(&Info::new(Key::from_static("pmix.rank"), Rank::from(1))), "{registered:?}");
    assert!(registered.iter().all(|info| info.key.is_reserved()), "{registered:?}");
    let nothing = mine.get_all(&proc("job", 1), &GetOptions::new().immediate().scope(Scope::Local)).unwrap_err();
    assert_eq!(nothing, GetError::NothingPosted { proc: proc("job", 1) });
    peer.put(Scope::Local, "near", 1_u32).unwrap();
    peer.put(Scope::Remote, "far", 2_u32).unwrap();
    peer.put(Scope::Global, "both", 3_u32).unwrap();
    peer.commit().unwrap();
    let mut all = mine.get_all(&proc("job", 1), &GetOptions::new()).unwrap();
    all.sort_by(|a, b| a.key.cmp(&b.key));
    let (told, posted): (Vec<Info>, Vec<Info>) = all.into_iter().partition(|info| info.key.is_reserved());
    assert_eq!(posted, [("both", 3_u32), ("near", 1)].map(|(key, value)| Info::new(Key::from_static(key), value)));
    assert_eq!(told, registered);
    let refused = mine.get_all(&ProcId { rank: Rank::Wildcard, ..proc("job", 1) }, &GetOptions::new());
    assert!(matches!(refused, Err(GetError::Refusal(_))));
}

#[test]
fn a_string_is_no_byte_object_wherever_it_was_found() {
    // In the segment it was: the bytes of both are stored alike.
    let node = TestServer::local();
    node.register_local_job("job", 2);
    let (mine, peer) = (node.connect("job", 0), node.connect("job", 1));
    mine.put(Scope::Global, "endpoint", "text").unwrap();
    mine.put(Scope::Global, "blob", b"bytes".to_vec()).unwrap();
    mine.commit().unwrap();
    for (client, is_borrowed) in [(&mine, false), (&peer, true)] {
        let text = client.get_value(&proc("job", 0), "endpoint", &GetOptions::new()).unwrap();
        assert_eq!((text.is_borrowed(), text.as_bytes(), text.as_str()), (is_borrowed, None, Some("text")));
        assert_eq!(text.into_bytes(), None);
        let blob = client.get_value(&proc("job", 0), "blob", &GetOptions::new()).unwrap();
        assert_eq!((blob.as_bytes(), blob.as_str()), (Some(&b"bytes"[..]), None));
    }
}

#[test]
fn a_refused_registration_says_which_value_is_wrong() {
    // The host got a bare number and had to look into the server's log.
    let node = TestServer::local();
    let description = vec![Info::new(Key::from_static(keys::JOB_SIZE.name()), "four")];
    let error = node.server.register_namespace(&namespace("job"), 1, description).unwrap_err();
    assert!(matches!(error, ServerError::Refused { status, .. } if status.is_error()), "{error}");
    assert!(error.to_string().contains(keys::JOB_SIZE.name()), "{error}");
}
