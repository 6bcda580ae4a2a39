//! Goes over the places at which things go wrong, and judges what comes of each.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::Mutex;

use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::faults::{Fault, KINDS, Kind, What};
use crate::roles::{self, BROKEN, COMPLETE, EQUAL, ERROR, PEERS, VICTIM};
use crate::support::{Process, TestServer, descriptors, namespace, proc, shared_mappings, this_binary};
use crate::tracer::{Traced, Tracer};

/// Places at which each kind of fault is tried where not all are.
const SAMPLES: usize = 3;

/// Descriptors of this process are counted: one sweep at a time.
pub(crate) static ALONE: Mutex<()> = Mutex::new(());

/// What was wrong once: an interrupted connect was an error; a directory that could not be opened was
/// left, by servers and by launchers; an interrupted call for the server's thread was lost, and its caller waited for ever; so was
/// the byte that tells a launcher of a rank's end.
const FOUND: [(&str, &str); 10] = [
    ("client", "EINTR:often:0"),
    // The same over TCP, and the question whether the server is still there.
    ("tcp-client", "EINTR:often:0"),
    ("tcp-client", "EINTR:often:15"),
    ("server", "ENOMEM:once:2"),
    ("server", "ENOMEM:once:4"),
    ("server", "ENOMEM:once:6"),
    ("server", "EINTR:once:10"),
    ("launcher", "EMFILE:forgood:20"),
    ("launcher", "EMFILE:forgood:36"),
    ("launcher", "ECONNRESET:forgood:5"),
];

/// What a sweep goes over: `MODEX_FAULT`, if it is for this role, or `MODEX_FAULTS=all`, or samples.
#[expect(clippy::disallowed_methods, reason = "a test binary is an edge")]
pub(crate) fn sweep(role: &str, kinds: &[Kind], run: impl Fn(Fault) -> Traced) {
    if let Ok(one) = std::env::var("MODEX_FAULT") {
        if let Some(fault) = one.strip_prefix(role).and_then(|rest| rest.strip_prefix(':')) {
            println!("{:?}", run(fault.parse().unwrap()));
        }
        return;
    }
    for (_, fault) in FOUND.into_iter().filter(|(of, _)| *of == role) {
        run(fault.parse().unwrap());
    }
    let is_whole = std::env::var("MODEX_FAULTS").is_ok_and(|which| which == "all");
    let mut failed = Vec::new();
    for &(what, extents) in kinds {
        for (number, &extent) in extents.iter().enumerate() {
            let never = run(Fault { what, extent, at: usize::MAX });
            assert!(never.struck.is_none());
            assert!(never.concerned > 0, "{what:?} concerns no system call of the {role}");
            let is_whole = is_whole || (what == What::Kill && is_killed_everywhere(role));
            let step = if is_whole { 1 } else { never.concerned.div_ceil(SAMPLES) };
            // Not the same places each time a kind is tried.
            for at in (number * step / 2..never.concerned).step_by(step) {
                let fault = Fault { what, extent, at };
                if catch_unwind(AssertUnwindSafe(|| run(fault))).is_err() {
                    failed.push(format!("MODEX_FAULT={role}:{fault}"));
                }
            }
        }
    }
    assert!(failed.is_empty(), "{} places: {}", failed.len(), failed.join(" "));
}

/// How processes find their server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    /// As our own do: the UNIX-domain socket, and segments.
    Own,
    /// As under a server of the reference: TCP, its handshake, and everything in messages.
    Reference,
}

/// Has the kernel say no to one client of a job. `victim` makes the command of that one.
pub(crate) fn clients_sweep(role: &str, wire: Wire, kinds: &[Kind], victim: impl Fn() -> Command) {
    let _alone = ALONE.lock();
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

/// Whether this run kills a client at each of its system calls, which is cheap, and the most that can happen.
#[expect(clippy::disallowed_methods, reason = "a test binary is an edge")]
fn is_killed_everywhere(role: &str) -> bool {
    role == "client" && std::env::var("MODEX_FAULT").is_err()
}

fn serve_a_fresh_client(node: &TestServer) {
    node.register_local_job("fresh", 1);
    roles::exchange_alone(&node.connect("fresh", 0));
    node.server.deregister_namespace(&namespace("fresh")).unwrap();
}

fn spawn(node: &TestServer, wire: Wire, name: &str, rank: u32, mut command: Command) -> Process {
    let environment = node.server.setup_fork(&proc(name, rank)).unwrap();
    let environment = match wire {
        Wire::Own => environment,
        Wire::Reference => roles::as_of_the_reference(environment),
    };
    Process::of(command.envs(environment).spawn().unwrap())
}

/// A job in which the kernel says no to one of its processes. Gives what the others say.
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
    // Its peers are children of this thread, too, and not the tracer's to bury.
    let traced = Tracer::take(traced_thread(&mut victim), fault).run_alone();
    let (end, said) = victim.end();
    node.server.deregister_client(&proc(job, VICTIM)).unwrap();
    let mut words = BTreeSet::new();
    for peer in peers {
        let all = peer.said();
        let word = [COMPLETE, BROKEN].into_iter().find(|word| all.contains(word));
        words.insert(word.unwrap_or_else(|| panic!("{role}:{fault}: {all}")));
    }
    node.server.deregister_namespace(&namespace(job)).unwrap();
    judge(role, fault, &traced, end, &said);
    (traced, words)
}

/// Has the kernel say no to a server with a job of two.
pub(crate) fn servers_sweep(role: &str, wire: Wire) {
    let _alone = ALONE.lock();
    sweep(role, &KINDS, |fault| {
        let directory = tempfile::tempdir().unwrap();
        let session = directory.path().join(roles::SESSION);
        std::fs::create_dir(&session).unwrap();
        let mut command = this_binary("host");
        command.env(roles::DIRECTORY, directory.path());
        if wire == Wire::Reference {
            command.env(roles::OVER_TCP, "yes");
        }
        let mut host = Process::of(command.spawn().unwrap());
        let traced = Tracer::take(traced_thread(&mut host), fault).run(pid_of(&host));
        // Its clients write to its standard error, too: they have ended when that has.
        let (end, said) = host.end();
        judge(role, fault, &traced, end, &said);
        let left = || std::fs::read_dir(&session).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
        if !end.success() {
            // Whoever is killed can't clean up; its clients end by themselves, and the next server starts at once.
            (0..roles::RANKS).for_each(|rank| judge_orphan(&roles::words_of(directory.path(), rank), role, fault));
            drop(modex::Server::builder().tmpdir(&session).start(modex::LocalHost).unwrap());
        }
        assert!(left().is_empty(), "{role}:{fault} leaves {:?}: {said}", left());
        traced
    });
}

/// What a client made of it whose server was killed: it finished, or got an error. One that was never started said nothing.
fn judge_orphan(words: &Path, role: &str, fault: Fault) {
    let said = std::fs::read_to_string(words).unwrap_or_default();
    let has_ended = said.contains(EQUAL) || said.contains(ERROR);
    assert!(
        said.trim().is_empty() || has_ended,
        "a client of a server that ended hangs or crashes: {role}:{fault}: {said}"
    );
}

/// What the process that the fault happened to made of it.
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

/// The standard library knows no other end than to abort where there is no memory for the heap, or for a thread.
fn has_no_memory(traced: &Traced, said: &str) -> bool {
    traced.struck.as_ref().is_some_and(|(_, last)| last.is_for_the_heap()) && says_no_memory(said)
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

/// Descriptors and mappings, when the server has seen the end of every connection.
/// The end of the last connection may come later than the answer to what was asked after it.
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
        node.server.deregister_namespace(&namespace("nobody")).unwrap();
    }
    (descriptors().len(), shared_mappings().len())
}
