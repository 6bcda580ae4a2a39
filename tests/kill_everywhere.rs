//! A process may die at any moment. Here it does: a client is killed before and after every system call of its script,
//! one job for each, while three peers run theirs. Whatever the moment, the peers end by themselves, all with the same
//! news, and the server goes on as if nothing had been.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeSet;

use modex::gds::AsStatus;
use modex::keys::TypedKey;
use modex::types::{Rank, Scope, Status};
use modex::{Client, FenceOptions, GetOptions, keys};
use nix::sys::ptrace;
use nix::sys::signal::{Signal, kill, raise};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, gettid};
use support::{Process, TestServer, descriptors, namespace, proc, role, shared_mappings};

const ENDPOINT: TypedKey<str> = TypedKey::new("endpoint");
const VICTIM: u32 = 0;
const PEERS: std::ops::Range<u32> = 1..4;
/// How the victim tells which of its threads is traced: the harness runs the script on one of its own.
const THREAD: &str = "traced thread ";
/// What a peer says of its fence.
const COMPLETE: &str = "fence complete";
const BROKEN: &str = "fence broken";

#[test]
fn client_process() {
    match role().as_deref() {
        Some("victim") => victim(),
        Some("peer") => peer(),
        Some(other) => panic!("unknown role {other}"),
        None => {}
    }
}

/// Lets its parent trace it from here to its end.
fn victim() {
    let permission = ptrace::traceme().map_or_else(|errno| errno.to_string(), |()| "granted".to_owned());
    println!("{THREAD}{}, ptrace {permission}", gettid());
    raise(Signal::SIGSTOP).unwrap();
    let client = Client::connect().unwrap();
    exchange(&client).unwrap();
    for peer in PEERS {
        assert_eq!(client.get(peer, ENDPOINT).unwrap(), endpoint(peer));
    }
    client.finalize().unwrap();
    // What the harness does afterwards is not of interest.
    std::process::exit(0);
}

fn peer() {
    let client = Client::connect().unwrap();
    match exchange(&client) {
        Ok(()) => {
            assert_eq!(client.get(VICTIM, ENDPOINT).unwrap(), endpoint(VICTIM));
            println!("{COMPLETE}");
        }
        Err(status) => {
            assert_eq!(status, Status::ERR_PARTIAL_SUCCESS);
            // All or nothing of what the victim put.
            let name = proc(client.proc().namespace.as_str(), VICTIM);
            let found = client.get_value(&name, ENDPOINT.name(), &GetOptions::new().immediate());
            match found {
                Ok(found) => assert_eq!(found.into_str().unwrap(), endpoint(VICTIM)),
                Err(error) => assert_eq!(error.status(), Status::ERR_NOT_FOUND, "{error}"),
            }
            println!("{BROKEN}");
        }
    }
    // Those who live can still read each other, and go on.
    for peer in PEERS {
        assert_eq!(client.get(peer, ENDPOINT).unwrap(), endpoint(peer));
    }
    client.finalize().unwrap();
}

/// The script: put, commit, fence.
fn exchange(client: &Client) -> Result<(), Status> {
    let rank = client.proc().rank.process().unwrap();
    client.put(Scope::Global, ENDPOINT.name(), endpoint(rank)).unwrap();
    client.commit().unwrap();
    client.fence(&FenceOptions::new().collect(true)).map_err(|error| error.status())
}

/// Long enough to make a torn value show.
fn endpoint(rank: u32) -> String {
    format!("endpoint of {rank};").repeat(100)
}

#[test]
fn a_process_killed_at_any_system_call_leaves_its_peers_with_a_clear_answer() {
    let node = TestServer::local();
    serve_a_fresh_client(&node);
    let held = held_when_quiet(&node);
    let mut seen = BTreeSet::new();
    for stop in 0.. {
        let (has_finished, said) = run_with_victim_killed_at(&node, stop);
        assert_eq!(said.len(), 1, "peers of one fence disagree when the victim is killed at stop {stop}: {said:?}");
        seen.extend(said);
        serve_a_fresh_client(&node);
        assert_eq!(held_when_quiet(&node), held, "something is left of the victim that was killed at stop {stop}");
        if has_finished {
            assert!(stop > 50, "the victim was not traced: it finished within {stop} stops");
            break;
        }
    }
    assert_eq!(seen, BTreeSet::from([COMPLETE, BROKEN]));
}

/// Runs a job whose victim is killed at its `stop`-th entry to or return from the kernel. Returns whether it finished
/// before that, and what its peers said.
fn run_with_victim_killed_at(node: &TestServer, stop: usize) -> (bool, BTreeSet<&'static str>) {
    let job = format!("job{stop}");
    node.register_local_job(&job, PEERS.end);
    let peers: Vec<Process> = PEERS.map(|rank| node.spawn(&job, rank, "peer")).collect();
    let mut victim = node.spawn(&job, VICTIM, "victim");
    let has_finished = match advance(&mut victim, stop) {
        Some(traced) => {
            // The tracer has to bury the thread before anybody can bury the process.
            kill(traced, Signal::SIGKILL).unwrap();
            waitpid(traced, Some(WaitPidFlag::__WALL)).unwrap();
            victim.kill();
            false
        }
        None => {
            victim.succeed();
            true
        }
    };
    // The host sees its process end, and says so.
    node.server.deregister_client(&proc(&job, VICTIM)).unwrap();
    let said = peers.into_iter().map(Process::said).map(|said| {
        let of = |text: &&str| said.contains(*text);
        [COMPLETE, BROKEN].into_iter().find(of).unwrap()
    });
    let said = said.collect();
    node.server.deregister_namespace(&namespace(&job)).unwrap();
    (has_finished, said)
}

/// Lets the victim run until it has stopped so many times after its first stop, and gives the thread that stopped.
/// `None`: it ended before that.
fn advance(victim: &mut Process, stops: usize) -> Option<Pid> {
    let said = victim.line_after(THREAD);
    let (thread, permission) = said.split_once(", ptrace ").unwrap();
    assert_eq!(permission, "granted", "run the tests where ptrace is permitted, for example as root");
    let traced = Pid::from_raw(thread.parse().unwrap());
    let wait = || waitpid(traced, Some(WaitPidFlag::__WALL)).unwrap();
    assert_eq!(wait(), WaitStatus::Stopped(traced, Signal::SIGSTOP));
    ptrace::setoptions(traced, ptrace::Options::PTRACE_O_TRACESYSGOOD).unwrap();
    for _ in 0..=stops {
        ptrace::syscall(traced, None).unwrap();
        match wait() {
            WaitStatus::PtraceSyscall(_) => {}
            WaitStatus::Exited(_, status) => {
                assert_eq!(status, 0, "the victim failed before it was killed");
                return None;
            }
            other => panic!("the victim did something else than entering or leaving the kernel: {other:?}"),
        }
    }
    Some(traced)
}

fn serve_a_fresh_client(node: &TestServer) {
    node.register_local_job("fresh", 1);
    let client = node.connect("fresh", 0);
    exchange(&client).unwrap();
    assert_eq!(client.get(0, ENDPOINT).unwrap(), endpoint(0));
    assert_eq!(client.get(Rank::Wildcard, keys::JOB_SIZE), Ok(1));
    client.finalize().unwrap();
    node.server.deregister_namespace(&namespace("fresh")).unwrap();
}

/// Descriptors and mappings, when the server has seen the end of every connection: it has by the time it answers the
/// call of a later turn.
fn held_when_quiet(node: &TestServer) -> (usize, usize) {
    for _ in 0..2 {
        node.server.deregister_namespace(&namespace("nobody")).unwrap();
    }
    (descriptors().len(), shared_mappings().len())
}
