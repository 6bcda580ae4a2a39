//! Tries faults at many places, and judges their effects.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::Mutex;

use nix::errno::Errno;
use nix::libc::{SYS_connect, SYS_epoll_create1, SYS_openat, SYS_poll, SYS_sendto, SYS_statx, SYS_write, c_long};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::faults::{Aim, Extent, Fault, KINDS, Kind, What};
use crate::roles::{self, BROKEN, COMPLETE, EQUAL, ERROR, PEERS, VICTIM};
use crate::support::{Process, TestServer, descriptors, namespace, proc, shared_mappings, this_binary};
use crate::tracer::{Traced, Tracer};

/// Places at which each kind of fault is tried if not at all.
const SAMPLES: usize = 3;

/// The tests count descriptors of this process, so only one sweep runs at a time.
pub(crate) static ALONE: Mutex<()> = Mutex::new(());

/// An earlier bug, and the fault that shows it.
struct Found {
    role: &'static str,
    what: What,
    extent: Extent,
    aim: Aim,
    which: Which,
}

/// The affected call among those of the aim.
#[derive(Clone, Copy, Debug)]
enum Which {
    Nth(usize),
    Last,
}

const fn found(role: &'static str, what: Errno, extent: Extent, aim: (c_long, &'static str), which: Which) -> Found {
    Found { role, what: What::Error(what), extent, aim: Aim { call: aim.0, object: aim.1 }, which }
}

const FOUND: [Found; 10] = [
    // An interrupted connect was an error.
    found("client", Errno::EINTR, Extent::Often, (SYS_connect, ""), Which::Nth(0)),
    // The same over TCP, and the check whether the server is still there.
    found("tcp-client", Errno::EINTR, Extent::Often, (SYS_connect, ""), Which::Nth(0)),
    found("tcp-client", Errno::EINTR, Extent::Often, (SYS_poll, "for 0 ms"), Which::Last),
    // Servers left a directory that could not be opened or examined.
    found("server", Errno::ENOMEM, Extent::Once, (SYS_openat, "/session/modex-"), Which::Nth(0)),
    found("server", Errno::ENOMEM, Extent::Once, (SYS_statx, "/session/modex-"), Which::Nth(0)),
    found("server", Errno::ENOMEM, Extent::Once, (SYS_statx, "/session/modex-"), Which::Nth(2)),
    // Launchers left one too, before and after the start of the job.
    found("launcher", Errno::EMFILE, Extent::ForGood, (SYS_epoll_create1, ""), Which::Last),
    found("launcher", Errno::EMFILE, Extent::ForGood, (SYS_openat, "/modex-run-"), Which::Last),
    // An interrupted wake of the server's thread was lost, and its caller waited for ever.
    found("server", Errno::EINTR, Extent::Once, (SYS_write, "8 bytes of anon_inode:[eventfd]"), Which::Nth(0)),
    // The byte that reports a rank's end to its launcher was lost.
    found("launcher", Errno::ECONNRESET, Extent::ForGood, (SYS_sendto, "1 bytes of socket:"), Which::Nth(0)),
];

/// Places tried at once if they are independent: they mostly wait.
const AT_ONCE: usize = 4;

/// Tries the places one by one.
pub(crate) fn sweep(role: &str, kinds: &[Kind], run: impl Fn(Fault) -> Traced) {
    let mut bad = places(role, kinds, &run);
    bad.retain(|&fault| !holds(role, fault, &run));
    assert_none(role, &bad);
}

/// Tries several places at once.
pub(crate) fn sweep_side_by_side(role: &str, kinds: &[Kind], run: impl Fn(Fault) -> Traced + Sync) {
    let places = Mutex::new(places(role, kinds, &run).into_iter());
    let next = || places.lock().unwrap().next();
    let bad = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(fault) = next() {
                    if !holds(role, fault, &run) {
                        bad.lock().unwrap().push(fault);
                    }
                }
            });
        }
    });
    assert_none(role, &bad.into_inner().unwrap());
}

/// The places of a sweep: `MODEX_FAULT`, if it is for this role, or `MODEX_FAULTS=all`, or samples. Earlier bugs come
/// first.
#[expect(clippy::disallowed_methods, reason = "a test binary is an edge")]
fn places(role: &str, kinds: &[Kind], run: &impl Fn(Fault) -> Traced) -> Vec<Fault> {
    if let Ok(one) = std::env::var("MODEX_FAULT") {
        if let Some(fault) = one.strip_prefix(role).and_then(|rest| rest.strip_prefix(':')) {
            println!("{:?}", run(fault.parse().unwrap()));
        }
        return Vec::new();
    }
    FOUND.iter().filter(|found| found.role == role).for_each(|found| found.try_again(run));
    let is_whole = std::env::var("MODEX_FAULTS").is_ok_and(|which| which == "all");
    let mut places = Vec::new();
    for &(what, extents) in kinds {
        for (number, &extent) in extents.iter().enumerate() {
            let never = run(Fault { what, extent, at: usize::MAX, aim: None });
            assert!(never.struck.is_none());
            assert!(never.concerned > 0, "{what:?} concerns no system call of the {role}");
            let is_whole = is_whole || (what == What::Kill && is_killed_everywhere(role));
            let step = if is_whole { 1 } else { never.concerned.div_ceil(SAMPLES) };
            // Each extent of a kind starts at another place.
            let chosen = (number * step / 2..never.concerned).step_by(step);
            places.extend(chosen.map(|at| Fault { what, extent, at, aim: None }));
        }
    }
    places
}

/// Whether all checks hold with this fault; prints the failed one.
fn holds(role: &str, fault: Fault, run: &impl Fn(Fault) -> Traced) -> bool {
    println!("{role}:{fault}");
    catch_unwind(AssertUnwindSafe(|| run(fault))).is_ok()
}

fn assert_none(role: &str, bad: &[Fault]) {
    let named = bad.iter().map(|fault| format!("MODEX_FAULT={role}:{fault}")).collect::<Vec<_>>();
    assert!(named.is_empty(), "{} places: {}", named.len(), named.join(" "));
}

impl Found {
    /// Finds the call in an undisturbed run, and lets it fail.
    fn try_again(&self, run: &impl Fn(Fault) -> Traced) {
        let Self { role, what, extent, aim, which } = *self;
        let fault_at = |at| Fault { what, extent, at, aim: Some(aim) };
        let undisturbed = run(fault_at(usize::MAX)).concerned;
        let fault = fault_at(match which {
            Which::Nth(number) => number,
            Which::Last => undisturbed.saturating_sub(1),
        });
        assert!(undisturbed > fault.at, "{role}:{fault}: {undisturbed} such calls are made");
        let traced = run(fault);
        let struck = traced.struck.unwrap_or_else(|| panic!("{role}:{fault} met no call"));
        assert!(struck.first.number == aim.call && struck.object.contains(aim.object), "{role}:{fault} met {struck:?}");
    }
}

#[test]
#[should_panic(expected = "0 such calls are made")]
fn a_finding_is_missed_once_its_call_is_no_longer_made() {
    let gone = found("client", Errno::EINTR, Extent::Once, (SYS_connect, "nowhere"), Which::Nth(0));
    gone.try_again(&|_| Traced::default());
}

/// The connection between processes and their server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    /// As with our own library: the UNIX-domain socket, and segments.
    Own,
    /// As under an OpenPMIx server: TCP, its handshake, and all data in messages.
    Reference,
}

/// Tries faults at one client of a job. `victim` makes its command.
pub(crate) fn clients_sweep(role: &str, wire: Wire, kinds: &[Kind], victim: impl Fn() -> Command) {
    let _alone = ALONE.lock();
    // Its program may have to be compiled first. The compilation must not delay the processes of a job, which have
    // alarms.
    drop(victim());
    let node = TestServer::local();
    serve_a_fresh_client(&node);
    let held = held_when_quiet(&node);
    let turn = Cell::new(0);
    let deaths = RefCell::new(BTreeSet::new());
    sweep(role, kinds, |fault| {
        turn.set(turn.get() + 1);
        let (traced, said) = run_client(&node, (role, wire, &victim), &format!("job{}", turn.get()), fault);
        if fault.what == What::Kill {
            assert_eq!(said.len(), 1, "peers of one fence disagree after {role}:{fault}: {said:?}");
            deaths.borrow_mut().extend(said);
            serve_a_fresh_client(&node);
        }
        settle(|| held_when_quiet(&node) == held);
        assert_eq!(held_when_quiet(&node), held, "something is left at the server after {role}:{fault}");
        traced
    });
    if is_killed_everywhere(role) {
        assert_eq!(deaths.into_inner(), BTreeSet::from([COMPLETE, BROKEN]), "before the fence, and behind it");
    }
}

/// Whether this run kills a client at each of its system calls. Such kills are cheap, and no fault is worse.
#[expect(clippy::disallowed_methods, reason = "a test binary is an edge")]
fn is_killed_everywhere(role: &str) -> bool {
    role == "client" && std::env::var("MODEX_FAULT").is_err()
}

fn serve_a_fresh_client(node: &TestServer) {
    node.register_local_job("fresh", 1);
    roles::exchange_alone(&node.connect("fresh", 0));
    node.server.deregister_namespace(&namespace("fresh")).wait().unwrap();
}

/// A process may panic when it gets no memory for a thread. A backtrace would open files, and the test would take those
/// calls for its cause of death.
pub(crate) fn without_backtraces(mut command: Command) -> Command {
    command.env("RUST_BACKTRACE", "0").env_remove("RUST_LIB_BACKTRACE");
    command
}

fn spawn(node: &TestServer, wire: Wire, name: &str, rank: u32, command: Command) -> Process {
    let environment = node.server.setup_fork(&proc(name, rank)).unwrap();
    let environment = match wire {
        Wire::Own => environment,
        Wire::Reference => roles::as_of_the_reference(environment),
    };
    Process::of(without_backtraces(command).envs(environment).spawn().unwrap())
}

/// Runs a job with a fault at one of its processes. Returns the words of the others.
fn run_client(
    node: &TestServer,
    by: (&str, Wire, &dyn Fn() -> Command),
    job: &str,
    fault: Fault,
) -> (Traced, BTreeSet<&'static str>) {
    let (role, wire, victim) = by;
    node.register_local_job(job, PEERS.end);
    let peers: Vec<Process> = PEERS.map(|rank| spawn(node, wire, job, rank, this_binary("peer"))).collect();
    let mut victim = spawn(node, wire, job, VICTIM, victim());
    // Its peers are children of this thread, too, but the tracer must not wait for them.
    let traced = Tracer::take(traced_thread(&mut victim), fault).run_alone();
    let (end, said) = victim.end();
    node.server.deregister_client(&proc(job, VICTIM)).wait().unwrap();
    let mut words = BTreeSet::new();
    for peer in peers {
        let all = peer.said();
        let word = [COMPLETE, BROKEN].into_iter().find(|word| all.contains(word));
        words.insert(word.unwrap_or_else(|| panic!("{role}:{fault}: {all}")));
    }
    node.server.deregister_namespace(&namespace(job)).wait().unwrap();
    judge(role, fault, &traced, end, &said);
    (traced, words)
}

/// Tries faults at a server with a job of two.
pub(crate) fn servers_sweep(role: &str, wire: Wire) {
    let _alone = ALONE.lock();
    sweep_side_by_side(role, &KINDS, |fault| {
        let directory = tempfile::tempdir().unwrap();
        let session = directory.path().join(roles::SESSION);
        std::fs::create_dir(&session).unwrap();
        let mut command = without_backtraces(this_binary("host"));
        command.env(roles::DIRECTORY, directory.path());
        if wire == Wire::Reference {
            command.env(roles::OVER_TCP, "yes");
        }
        let mut host = Process::of(command.spawn().unwrap());
        let traced = Tracer::take(traced_thread(&mut host), fault).run(pid_of(&host));
        // Its clients share its standard error, so they have ended when that ends.
        let (end, said) = host.end();
        judge(role, fault, &traced, end, &said);
        let left = || std::fs::read_dir(&session).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
        if !end.success() {
            // A killed server can't clean up. Its clients end by themselves, and the next server starts at once.
            (0..roles::RANKS).for_each(|rank| judge_orphan(&roles::words_of(directory.path(), rank), role, fault));
            drop(modex::Server::builder().tmpdir(&session).start(modex::LocalHost).unwrap());
        }
        assert!(left().is_empty(), "{role}:{fault} leaves {:?}: {said}", left());
        traced
    });
}

/// Checks a client whose server was killed: it finished or got an error. A client that was never started has no words.
fn judge_orphan(words: &Path, role: &str, fault: Fault) {
    let said = std::fs::read_to_string(words).unwrap_or_default();
    let has_ended = said.contains(EQUAL) || said.contains(ERROR);
    assert!(
        said.trim().is_empty() || has_ended,
        "a client of a server that ended hangs or crashes: {role}:{fault}: {said}"
    );
}

/// Checks the process that had the fault.
fn judge(role: &str, fault: Fault, traced: &Traced, end: ExitStatus, said: &str) {
    let context = || format!("{role}:{fault} {end}\n{traced:?}\n{said}");
    match end.signal().map(Signal::try_from) {
        Some(Ok(Signal::SIGKILL)) if fault.what == What::Kill && traced.struck.is_some() => {}
        None if end.success() && said.contains(EQUAL) => {}
        None if end.success() && said.contains(ERROR) && traced.struck.is_some() => {
            assert!(!fault.what.is_harmless(), "this must not matter: {}", context());
        }
        Some(Ok(Signal::SIGALRM)) => panic!("hangs: {}", context()),
        Some(Ok(Signal::SIGABRT)) => assert!(has_no_memory(traced, said), "aborts: {}", context()),
        _ => panic!("ends badly: {}", context()),
    }
}

/// The standard library can only abort without memory for the heap, or for a thread.
fn has_no_memory(traced: &Traced, said: &str) -> bool {
    traced.struck.as_ref().is_some_and(|struck| struck.last.is_for_the_heap()) && says_no_memory(said)
}

pub(crate) fn says_no_memory(said: &str) -> bool {
    ["memory allocation of", "alternative stack"].iter().any(|text| said.contains(text))
}

pub(crate) fn traced_thread(process: &mut Process) -> Pid {
    let said = process.line_after(roles::THREAD);
    let (thread, permission) = said.split_once(", ptrace ").unwrap();
    assert_eq!(permission, "granted", "run the tests where ptrace is permitted, for example as root");
    Pid::from_raw(thread.parse().unwrap())
}

pub(crate) fn pid_of(process: &Process) -> Pid {
    Pid::from_raw(process.pid().try_into().unwrap())
}

/// Waits until the server has noticed the end of every connection. The end of the last one may come later than the
/// reply to a later call.
fn settle(is_settled: impl Fn() -> bool) {
    for _ in 0..1000 {
        if is_settled() {
            return;
        }
        std::thread::yield_now();
    }
}

fn held_when_quiet(node: &TestServer) -> (usize, usize) {
    for _ in 0..2 {
        node.server.deregister_namespace(&namespace("nobody")).wait().unwrap();
    }
    (descriptors().len(), shared_mappings().len())
}
