//! The roles of the processes.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use modex::keys::TypedKey;
use modex::types::AsStatus;
use modex::types::{Rank, Scope, Status};
use modex::{Client, FenceOptions, GetOptions, LocalHost, Server, keys};
use nix::sys::ptrace;
use nix::sys::signal::{Signal, raise};
use nix::unistd::{alarm, getppid, gettid};

use crate::support::{description, descriptors, ids, namespace, proc, shared_mappings, this_binary};

const ENDPOINT: TypedKey<str> = TypedKey::new("endpoint");
pub(crate) const VICTIM: u32 = 0;
pub(crate) const PEERS: std::ops::Range<u32> = 1..3;
/// Names the traced thread: the harness runs the role on a thread of its own.
pub(crate) const THREAD: &str = "traced thread ";
/// The host's directory, for its server and for the words of its clients.
pub(crate) const DIRECTORY: &str = "MODEX_TEST_DIRECTORY";
pub(crate) const SESSION: &str = "session";
/// Variable: the host's clients use it like an OpenPMIx server, over TCP.
pub(crate) const OVER_TCP: &str = "MODEX_TEST_OVER_TCP";
/// The words of a peer about its fence.
pub(crate) const COMPLETE: &str = "fence complete";
pub(crate) const BROKEN: &str = "fence broken";
/// The words of a process that noticed no fault.
pub(crate) const EQUAL: &str = "all answers are equal";
/// The start of an error message.
pub(crate) const ERROR: &str = "error: ";
/// A process that has not ended after this time hangs; SIGALRM ends it.
pub(crate) const HANGS_AFTER_S: u32 = 120;

type Outcome = Result<(), String>;

/// Does something while system calls may fail.
fn at_risk<R>(act: impl FnOnce() -> R) -> R {
    getppid();
    let result = act();
    getppid();
    result
}

/// Lets the parent trace this thread.
fn be_traced() {
    alarm::set(HANGS_AFTER_S);
    let permission = ptrace::traceme().map_or_else(|errno| errno.to_string(), |()| "granted".to_owned());
    println!("{THREAD}{}, ptrace {permission}", gettid());
    raise(Signal::SIGSTOP).unwrap();
}

/// Reports the outcome and exits, because the harness's later work does not matter.
fn tell(outcome: Outcome) -> ! {
    match outcome {
        Ok(()) => println!("{EQUAL}"),
        Err(error) => println!("{ERROR}{error}"),
    }
    std::process::exit(0);
}

pub(crate) fn victim() {
    let before = held();
    be_traced();
    let outcome = at_risk(|| whole_life(VICTIM, 0..PEERS.end));
    expect_nothing_left(&before, &outcome);
    tell(outcome);
}

/// Descriptors, mappings, threads.
type Held = (Vec<String>, Vec<String>, usize);

fn held() -> Held {
    (descriptors(), shared_mappings(), thread_count())
}

fn thread_count() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// For every outcome.
fn expect_nothing_left(before: &Held, outcome: &Outcome) {
    // The thread that calls the host is not joined, and it has descriptors until its end. The kernel lists a joined
    // thread for a moment longer. If a thread stays, the process is seen to hang.
    while thread_count() > before.2 {
        std::thread::yield_now();
    }
    let after = held();
    if (&after.0, &after.1) != (&before.0, &before.1) {
        println!("left behind: {after:?}, was {before:?} after {outcome:?}");
        std::process::exit(1);
    }
}

/// Becomes `modex run` with a job of one.
pub(crate) fn next_launcher() -> ! {
    use std::os::unix::process::CommandExt;

    alarm::set(HANGS_AFTER_S);
    panic!(
        "{}",
        std::process::Command::new(crate::command::built("modex")).args(["run", "-n", "1", "--", "true"]).exec()
    );
}

/// Becomes `modex run` with a job of two processes of this program.
pub(crate) fn launcher() -> ! {
    use std::os::unix::process::CommandExt;

    let ranks = RANKS.to_string();
    let mut launcher = std::process::Command::new(crate::command::built("modex"));
    launcher.args(["run", "-n", &ranks, "--"]).arg(std::env::current_exe().unwrap());
    launcher
        .args(["--exact", "client_process", "--nocapture", "--test-threads=1"])
        .env(crate::support::ROLE, "launched");
    be_traced();
    panic!("{}", launcher.exec());
}

/// A rank of that job.
#[expect(clippy::disallowed_methods, reason = "a test binary is an edge")]
pub(crate) fn launched() {
    alarm::set(HANGS_AFTER_S);
    let rank = std::env::var("PMIX_RANK").unwrap().parse().unwrap();
    tell(whole_life(rank, 0..RANKS));
}

/// Connects, puts, commits, fences, gets, finalizes.
fn whole_life(rank: u32, everybody: std::ops::Range<u32>) -> Outcome {
    let said = |what: &str, error: &dyn std::fmt::Display| format!("{what}: {error}");
    let client =
        Client::builder().timeout(Duration::from_secs(10)).connect().map_err(|error| said("connect", &error))?;
    client.put(Scope::Global, ENDPOINT.name(), endpoint(rank)).map_err(|error| said("put", &error))?;
    client.commit().map_err(|error| said("commit", &error))?;
    let fence = FenceOptions::new().collect(true).timeout(Duration::from_secs(30));
    client.fence(&fence).wait().map_err(|error| said("fence", &error))?;
    for peer in everybody {
        let found = client.get(peer, ENDPOINT).map_err(|error| said("get", &error))?;
        assert_eq!(found, endpoint(peer));
    }
    client.finalize().map_err(|error| said("finalize", &error))
}

/// Exchanges values as the only process of its job.
pub(crate) fn exchange_alone(client: &Client) {
    client.put(Scope::Global, ENDPOINT.name(), endpoint(0)).unwrap();
    client.commit().unwrap();
    client.fence(&FenceOptions::new().collect(true)).wait().unwrap();
    assert_eq!(client.get(0, ENDPOINT).unwrap(), endpoint(0));
    assert_eq!(client.get(Rank::Wildcard, keys::JOB_SIZE), Ok(1));
}

/// Long enough to show a torn value.
fn endpoint(rank: u32) -> String {
    format!("endpoint of {rank};").repeat(100)
}

/// A peer of the affected process.
pub(crate) fn peer() {
    alarm::set(HANGS_AFTER_S);
    let client = Client::connect().unwrap();
    let rank = client.proc().rank.process().unwrap();
    client.put(Scope::Global, ENDPOINT.name(), endpoint(rank)).unwrap();
    client.commit().unwrap();
    match client.fence(&FenceOptions::new().collect(true)).wait().map_err(|error| error.status()) {
        Ok(()) => {
            assert_eq!(client.get(VICTIM, ENDPOINT).unwrap(), endpoint(VICTIM));
            println!("{COMPLETE}");
        }
        Err(status) => {
            assert_eq!(status, Status::ERR_PARTIAL_SUCCESS);
            let name = proc(client.proc().namespace.as_str(), VICTIM);
            match client.get_value(&name, ENDPOINT.name(), &GetOptions::new().immediate()) {
                Ok(found) => assert_eq!(found.into_str().unwrap(), endpoint(VICTIM)),
                Err(error) => assert_eq!(error.status(), Status::ERR_NOT_FOUND, "{error}"),
            }
            println!("{BROKEN}");
        }
    }
    for peer in PEERS {
        assert_eq!(client.get(peer, ENDPOINT).unwrap(), endpoint(peer));
    }
    client.finalize().unwrap();
}

/// A client of the affected server.
pub(crate) fn rank() {
    alarm::set(HANGS_AFTER_S);
    let rank = Client::launched_as().unwrap().rank.process().unwrap();
    tell(whole_life(rank, 0..RANKS));
}

pub(crate) const RANKS: u32 = 2;

/// A server, from its start to its end, and a job on it.
#[expect(clippy::disallowed_methods, reason = "a test binary is an edge")]
pub(crate) fn host() {
    let directory = PathBuf::from(std::env::var(DIRECTORY).unwrap());
    let is_over_tcp = std::env::var(OVER_TCP).is_ok();
    let before = held();
    be_traced();
    let outcome = serve(&directory, is_over_tcp);
    expect_nothing_left(&before, &outcome);
    tell(outcome);
}

fn serve(directory: &Path, is_over_tcp: bool) -> Outcome {
    let builder = Server::builder().hostname("node0").tmpdir(directory.join(SESSION));
    let server = at_risk(|| builder.start(LocalHost)).map_err(|error| format!("start: {error}"))?;
    let outcome = serve_a_job(&server, directory, is_over_tcp);
    at_risk(|| drop(server));
    outcome
}

/// The file for the words of a host's client, because the host may be gone by then.
pub(crate) fn words_of(directory: &Path, rank: u32) -> PathBuf {
    directory.join(format!("rank{rank}"))
}

/// The variables of a process's server, without those that only our own clients understand.
pub(crate) fn as_of_the_reference(environment: Vec<(String, String)>) -> Vec<(String, String)> {
    environment.into_iter().filter(|(name, _)| !name.starts_with("MODEX_")).collect()
}

fn serve_a_job(server: &Server, directory: &Path, is_over_tcp: bool) -> Outcome {
    let job = namespace("job");
    let said = |what: &str, error: &dyn std::fmt::Display| format!("{what}: {error}");
    let described = description(RANKS, &[("node0", "0,1")]);
    at_risk(|| server.register_namespace(&job, RANKS, described).wait()).map_err(|error| said("register", &error))?;
    let (uid, gid) = ids();
    let mut clients = Vec::new();
    for rank in 0..RANKS {
        let name = proc("job", rank);
        at_risk(|| server.register_client(&name, uid, gid).wait()).map_err(|error| said("announce", &error))?;
    }
    for rank in 0..RANKS {
        let environment = at_risk(|| server.setup_fork(&proc("job", rank))).map_err(|error| said("setup", &error))?;
        let environment = if is_over_tcp { as_of_the_reference(environment) } else { environment };
        let words = File::create(words_of(directory, rank)).unwrap();
        let mut command = this_binary("rank");
        clients.push((rank, command.envs(environment).stdout(words).stderr(Stdio::inherit()).spawn().unwrap()));
    }
    let mut outcome = Ok(());
    while !clients.is_empty() {
        std::thread::sleep(Duration::from_millis(2));
        let has_ended = |(_, client): &mut (u32, Child)| client.try_wait().unwrap().is_some();
        let ended: Vec<(u32, Child)> = clients.extract_if(.., has_ended).collect();
        for (rank, client) in ended {
            outcome = outcome.and(outcome_of(rank, client, &words_of(directory, rank)));
            let told = at_risk(|| server.deregister_client(&proc("job", rank)).wait());
            outcome = outcome.and(told.map_err(|error| said("end of a client", &error)));
        }
    }
    outcome.and(at_risk(|| server.deregister_namespace(&job).wait()).map_err(|error| said("deregister", &error)))
}

/// The outcome of a client. It must end in order, with any fault of its server.
fn outcome_of(rank: u32, mut client: Child, words: &Path) -> Outcome {
    let status = client.wait().unwrap();
    let out = std::fs::read_to_string(words).unwrap();
    if !status.success() {
        println!("client {rank} ended with {status}: {out}");
        std::process::exit(1);
    }
    match out.split_once(ERROR) {
        None => Ok(()),
        Some((_, error)) => Err(format!("client {rank}: {error}")),
    }
}
