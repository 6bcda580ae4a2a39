//! Processes that are stopped, become another program, or leave a copy of themselves. Other processes wait no longer
//! than necessary, and the server's memory stays within its limits.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "of the memory only what stays in use is of interest here")]
#[path = "support/counting.rs"]
mod counting;
mod support;

use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::sync::Mutex;

use modex::keys::TypedKey;
use modex::types::AsStatus;
use modex::types::codes::range;
use modex::types::{Info, Key, ProcId, Scope, Status, Value};
use modex::{Client, ConnectionLimits, FenceOptions, LocalHost, keys};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use support::{Process, TestServer, proc, role, this_binary, without_socket};

const ENDPOINT: TypedKey<str> = TypedKey::new("endpoint");
/// A code for applications.
const NEWS: Status = Status::from_raw(-3000);
const VICTIM: u32 = 0;
/// The tests count the allocations of this process, so only one runs at a time.
static ALONE: Mutex<()> = Mutex::new(());
const OTHERS: std::ops::Range<u32> = 1..3;

#[test]
fn client_process() {
    match role().as_deref() {
        Some("hears and fences") => hear_and_fence(),
        Some("becomes another program") => {
            let client = Client::connect().unwrap();
            client.put(Scope::Global, "endpoint", "of the first program").unwrap();
            client.commit().unwrap();
            println!("\nfirst");
            let mut line = String::new();
            std::io::stdin().read_line(&mut line).unwrap();
            let mut other = this_binary("is another program");
            other.stdin(Stdio::inherit()).stdout(Stdio::inherit()).stderr(Stdio::inherit());
            panic!("not replaced: {}", other.exec());
        }
        Some("is another program") => {
            let client = Client::connect().unwrap();
            assert_eq!(client.get(VICTIM, ENDPOINT).unwrap(), "of the first program");
            println!("\nagain");
            client.fence(&FenceOptions::new()).wait().unwrap();
            client.finalize().unwrap();
        }
        Some("leaves a copy") => leave_a_copy(Client::connect().unwrap()),
        Some("leaves a copy over TCP") => leave_a_copy(connect_over_tcp()),
        Some(other) => panic!("unknown role {other}"),
        None => {}
    }
}

fn everybody() -> Vec<ProcId> {
    (VICTIM..OTHERS.end).map(|rank| proc("job", rank)).collect()
}

/// Registers for events, reports it, and enters the fence when it is released.
fn hear_and_fence() {
    let client = Client::connect().unwrap();
    client.register_event_handler(&[NEWS], &[], |call| call.complete(Status::SUCCESS, Vec::new())).wait().unwrap();
    println!("\nlistening");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    client.fence(&FenceOptions::new()).wait().unwrap();
    client.finalize().unwrap();
}

fn signal(process: &Process, signal: Signal) {
    kill(Pid::from_raw(process.pid().try_into().unwrap()), signal).unwrap();
}

fn wait_until_stopped(process: &Process) {
    let stat = || std::fs::read_to_string(format!("/proc/{}/stat", process.pid())).unwrap();
    while !stat().rsplit_once(") ").unwrap().1.starts_with('T') {
        std::thread::yield_now();
    }
}

/// A stopped process reads nothing. Processes that do not need it go on, and it continues itself after `SIGCONT`.
#[test]
fn a_stopped_process_holds_up_who_waits_for_it_and_nobody_else() {
    const HELD_MAX: usize = 8 << 20;
    const NEWS_BYTES: usize = 64 << 10;
    const NEWS_COUNT: usize = 300;
    let _alone = ALONE.lock();
    let limits = ConnectionLimits { queued_bytes_max: 2 << 20, ..ConnectionLimits::default() };
    let node = TestServer::with_limits_and_host(limits, LocalHost);
    node.register_local_job("job", OTHERS.end);
    let mut victim = node.spawn_waiting("job", VICTIM, "hears and fences");
    victim.wait_for_line("listening");
    let others: Vec<Client> = OTHERS.map(|rank| node.connect("job", rank)).collect();
    signal(&victim, Signal::SIGSTOP);
    wait_until_stopped(&victim);
    let used = counting::used_bytes();
    for number in 0..NEWS_COUNT {
        let news = Info::new(Key::from_static("news"), Value::from("x".repeat(NEWS_BYTES).as_str()));
        let info = vec![news, Info::new(Key::from_static(keys::EVENT_DO_NOT_CACHE.name()), true)];
        others[0].notify_event(NEWS, None, range::RANGE_NAMESPACE, &info).wait().unwrap();
        if number % 100 == 0 {
            // Without the stopped process.
            let set = OTHERS.map(|rank| proc("job", rank)).collect::<Vec<_>>();
            std::thread::scope(|scope| {
                for client in &others {
                    let fence = FenceOptions::new().procs(set.clone()).collect(true);
                    scope.spawn(move || client.fence(&fence).wait().unwrap());
                }
            });
            let held = counting::used_bytes().saturating_sub(used);
            assert!(held < HELD_MAX, "{held} bytes are held for one that stands still");
        }
    }
    signal(&victim, Signal::SIGCONT);
    let fences: Vec<_> = others.iter().map(|client| client.fence(&FenceOptions::new()).start().unwrap()).collect();
    victim.release();
    fences.into_iter().for_each(|fence| fence.wait().unwrap());
}

/// Its connection ends with the first program. The second program comes as the same process, and finds the first one's
/// values.
#[test]
fn a_process_that_becomes_another_program_comes_again() {
    let _alone = ALONE.lock();
    let node = TestServer::local();
    node.register_local_job("job", OTHERS.end);
    let mut victim = node.spawn_waiting("job", VICTIM, "becomes another program");
    victim.wait_for_line("first");
    let others: Vec<Client> = OTHERS.map(|rank| node.connect("job", rank)).collect();
    // A process that waits for the first program hears of its end.
    let early = others[0].fence(&FenceOptions::new().procs(vec![proc("job", VICTIM), proc("job", 1)])).start().unwrap();
    // Its input stays open for the second program.
    victim.tell_line();
    let gone = early.wait().map_err(|error| error.status());
    assert_eq!(gone, Err(Status::ERR_PARTIAL_SUCCESS));
    victim.wait_for_line("again");
    let fences: Vec<_> = others.iter().map(|client| client.fence(&FenceOptions::new()).start().unwrap()).collect();
    fences.into_iter().for_each(|fence| fence.wait().unwrap());
    victim.succeed();
}

/// A living copy holds the connection open, so the end can't be read.
#[test]
fn a_process_that_is_killed_while_a_copy_of_it_lives_has_ended_for_everybody() {
    end_while_a_copy_lives("leaves a copy", |_| {});
}

/// Only the host knows of the end of a process that came over TCP.
#[test]
fn one_that_came_over_tcp_is_no_longer_waited_for_once_the_host_says_that_it_has_ended() {
    end_while_a_copy_lives("leaves a copy over TCP", |node| {
        node.server.deregister_client(&proc("job", VICTIM)).wait().unwrap();
    });
}

/// Kills a process with a copy, completes the actions that announce its end, and checks that no process waits for it.
fn end_while_a_copy_lives(role: &str, tell: impl FnOnce(&TestServer)) {
    let _alone = ALONE.lock();
    let node = TestServer::local();
    node.register_local_job("job", OTHERS.end);
    let mut victim = node.spawn("job", VICTIM, role);
    let copy: i32 = victim.line_after("copy ").parse().unwrap();
    let others: Vec<Client> = OTHERS.map(|rank| node.connect("job", rank)).collect();
    let fence = FenceOptions::new().procs(everybody());
    let fences: Vec<_> = others.iter().map(|client| client.fence(&fence).start().unwrap()).collect();
    victim.kill();
    assert!(std::path::Path::new(&format!("/proc/{copy}")).exists(), "the copy lives");
    tell(&node);
    for fence in fences {
        assert_eq!(fence.wait().map_err(|error| error.status()), Err(Status::ERR_PARTIAL_SUCCESS));
    }
    assert!(std::path::Path::new(&format!("/proc/{copy}")).exists(), "the copy lives");
    kill(Pid::from_raw(copy), Signal::SIGKILL).unwrap();
    others.into_iter().for_each(|client| client.finalize().unwrap());
}

/// Without the variable that leads to the server's UNIX-domain socket.
fn connect_over_tcp() -> Client {
    let client = Client::builder().env(without_socket(std::env::vars())).connect().unwrap();
    assert!(!client.reads_segment(), "no segment comes over TCP");
    client
}

fn leave_a_copy(_client: Client) {
    #[expect(unsafe_code, reason = "the tested library must survive programs that fork; there is no safe fork")]
    // SAFETY: the child only waits for its end.
    let fork = unsafe { nix::unistd::fork() }.unwrap();
    match fork {
        nix::unistd::ForkResult::Parent { child } => {
            println!("\ncopy {child}");
            loop {
                std::thread::park();
            }
        }
        nix::unistd::ForkResult::Child => loop {
            nix::unistd::pause();
        },
    }
}
