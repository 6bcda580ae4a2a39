//! The kernel may say no at any moment. Here it does: at every system call of a client's whole life, and of a server's, each
//! error is given that fits the call, once and from then on. What may not matter (an interruption, a full buffer, a transfer of
//! one byte) does not; whatever else, the process that it happens to says what is wrong or goes on, its peers end by
//! themselves, what anybody reads is what was put, and nothing is left behind.
//!
//! `cargo test` tries a few places of each kind, `make faults` all. `MODEX_FAULT=client:EMFILE:once:17` tries one.
#![cfg(target_arch = "x86_64")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod faults;
mod roles;
#[path = "../support/mod.rs"]
mod support;
mod tracer;

use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitStatus;
use std::sync::Mutex;

use faults::{Extent, Fault, KINDS, What};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use roles::{BROKEN, COMPLETE, EQUAL, ERROR, PEERS, VICTIM};
use support::{Process, TestServer, descriptors, namespace, proc, role, shared_mappings, this_binary};
use tracer::{Traced, Tracer};

/// Places at which each kind of fault is tried where not all are.
const SAMPLES: usize = 3;

/// Descriptors of this process are counted: one sweep at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// What was wrong once: an interrupted connect was an error; a directory that could not be opened was
/// left; an interrupted call for the server's thread was lost, and its caller waited for ever.
const FOUND: [(&str, &str); 5] = [
    ("client", "EINTR:often:0"),
    ("server", "ENOMEM:once:2"),
    ("server", "ENOMEM:once:4"),
    ("server", "ENOMEM:once:6"),
    ("server", "EINTR:once:10"),
];

#[test]
fn client_process() {
    match role().as_deref() {
        Some("victim") => roles::victim(),
        Some("peer") => roles::peer(),
        Some("host") => roles::host(),
        Some("rank") => roles::rank(),
        Some(other) => panic!("unknown role {other}"),
        None => {}
    }
}

/// What a sweep goes over: `MODEX_FAULT`, if it is for this role, or `MODEX_FAULTS=all`, or samples.
#[expect(clippy::disallowed_methods, reason = "a test binary is an edge")]
fn sweep(role: &str, kinds: &[(What, [Extent; 2])], run: impl Fn(Fault) -> Traced) {
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
        for (number, extent) in extents.into_iter().enumerate() {
            let never = run(Fault { what, extent, at: usize::MAX });
            assert!(never.struck.is_none());
            assert!(never.concerned > 0, "{what:?} concerns no system call of the {role}");
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

#[test]
fn a_client_to_which_the_kernel_says_no_goes_on_or_says_why() {
    let _alone = ALONE.lock();
    let node = TestServer::local();
    node.register_local_job("fresh", 1);
    roles::exchange_alone(&node.connect("fresh", 0));
    node.server.deregister_namespace(&namespace("fresh")).unwrap();
    let held = held_when_quiet(&node);
    let turn = std::cell::Cell::new(0);
    // A client creates nothing.
    sweep("client", &KINDS[1..], |fault| {
        turn.set(turn.get() + 1);
        let traced = run_client(&node, &format!("job{}", turn.get()), fault);
        assert_eq!(held_when_quiet(&node), held, "something is left at the server after client:{fault}");
        traced
    });
}

fn run_client(node: &TestServer, job: &str, fault: Fault) -> Traced {
    node.register_local_job(job, PEERS.end);
    let peers: Vec<Process> = PEERS.map(|rank| node.spawn(job, rank, "peer")).collect();
    let mut victim = node.spawn(job, VICTIM, "victim");
    // Its peers are children of this thread, too, and not the tracer's to bury.
    let traced = Tracer::take(traced_thread(&mut victim), fault).run_alone();
    let (end, said) = victim.end();
    node.server.deregister_client(&proc(job, VICTIM)).unwrap();
    for peer in peers {
        let words = peer.said();
        assert!([COMPLETE, BROKEN].iter().any(|word| words.contains(word)), "client:{fault}: {words}");
    }
    node.server.deregister_namespace(&namespace(job)).unwrap();
    judge("client", fault, &traced, end, &said);
    traced
}

#[test]
fn a_server_to_which_the_kernel_says_no_goes_on_or_says_why() {
    let _alone = ALONE.lock();
    sweep("server", &KINDS, |fault| {
        let directory = tempfile::tempdir().unwrap();
        let mut command = this_binary("host");
        command.env(roles::DIRECTORY, directory.path());
        let mut host = Process::of(command.spawn().unwrap());
        let traced = Tracer::take(traced_thread(&mut host), fault).run(pid_of(&host));
        let (end, said) = host.end();
        judge("server", fault, &traced, end, &said);
        // Whoever is killed can't clean up; the next one does.
        if end.success() {
            let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
            assert!(left.is_empty(), "server:{fault} leaves {left:?}: {said}");
        }
        traced
    });
}

/// What the process that the fault happened to made of it.
fn judge(role: &str, fault: Fault, traced: &Traced, end: ExitStatus, said: &str) {
    let context = || format!("{role}:{fault} {end}\n{traced:?}\n{said}");
    match end.signal().map(Signal::try_from) {
        None if end.success() && said.contains(EQUAL) => {}
        None if end.success() && said.contains(ERROR) && traced.struck.is_some() => {
            assert!(!fault.what.is_harmless(), "this must not matter: {}", context());
        }
        Some(Ok(Signal::SIGALRM)) => panic!("hangs: {}", context()),
        Some(Ok(Signal::SIGABRT)) => {
            // The standard library knows no other end where there is no memory for the heap, or for a thread.
            let is_for_the_heap = traced.struck.as_ref().is_some_and(|(_, last)| last.is_for_the_heap());
            let is_said = ["memory allocation of", "alternative stack"].iter().any(|text| said.contains(text));
            assert!(is_for_the_heap && is_said, "aborts: {}", context());
        }
        _ => panic!("ends badly: {}", context()),
    }
}

fn traced_thread(process: &mut Process) -> Pid {
    let said = process.line_after(roles::THREAD);
    let (thread, permission) = said.split_once(", ptrace ").unwrap();
    assert_eq!(permission, "granted", "run the tests where ptrace is permitted, for example as root");
    Pid::from_raw(thread.parse().unwrap())
}

fn pid_of(process: &Process) -> Pid {
    Pid::from_raw(process.pid().try_into().unwrap())
}

/// Descriptors and mappings, when the server has seen the end of every connection.
fn held_when_quiet(node: &TestServer) -> (usize, usize) {
    for _ in 0..2 {
        node.server.deregister_namespace(&namespace("nobody")).unwrap();
    }
    (descriptors().len(), shared_mappings().len())
}

#[test]
fn faults_are_read_as_they_are_written() {
    for (what, extents) in KINDS {
        for extent in extents {
            let text = Fault { what, extent, at: 3 }.to_string();
            assert_eq!(text.parse::<Fault>().unwrap().to_string(), text);
        }
    }
    assert!("EMFILE:twice:1".parse::<Fault>().is_err());
    assert_eq!(What::Short.is_harmless(), Extent::Once.times() == 1);
}
