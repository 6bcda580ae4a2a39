//! `modex run` as the one to which the kernel says no, with a job that knows nothing of that.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::errno::Errno;
use nix::sys::signal::Signal;

use crate::faults::{Extent, Fault, KINDS, What};
use crate::roles::{EQUAL, ERROR, RANKS};
use crate::support::{Process, this_binary};
use crate::sweep::{ALONE, pid_of, says_no_memory, sweep, traced_thread};
use crate::tracer::{Traced, Tracer};

/// Every process of one launcher has the same value of this.
const MARK: &str = "MODEX_TEST_MARK";

pub(crate) fn launchers_sweep(role: &str) {
    static LAST: AtomicU32 = AtomicU32::new(0);
    let _alone = ALONE.lock();
    sweep(role, &KINDS, |fault| {
        let directory = tempfile::tempdir().unwrap();
        let mark = format!("{MARK}={}-{}", std::process::id(), LAST.fetch_add(1, Ordering::Relaxed));
        let mut command = this_binary("launcher");
        command.env("TMPDIR", directory.path()).env(MARK, &mark[MARK.len() + 1..]);
        let mut launcher = Process::of(command.spawn().unwrap());
        let traced = Tracer::take(traced_thread(&mut launcher), fault).run(pid_of(&launcher));
        // Everybody below it writes to its outputs, so those end with the last of them.
        let (end, said) = launcher.end();
        judge(role, fault, &traced, end, &said);
        let left =
            || std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
        // The guardian of one that was killed has closed its outputs before it cleans up.
        while !processes(&mark).is_empty() {
            std::thread::yield_now();
        }
        if fault.extent == Extent::ForGood && !left().is_empty() {
            // Whoever can look at nothing can't clean up; the next one does.
            let mut next = Command::new(env!("CARGO_BIN_EXE_modex"));
            let next = next.args(["run", "-n", "1", "--", "true"]).env("TMPDIR", directory.path()).status().unwrap();
            assert!(next.success(), "{role}:{fault} is in the next one's way");
        }
        assert!(left().is_empty(), "{role}:{fault} {end} {traced:?} leaves {:?}: {said}", left());
        traced
    });
}

fn judge(role: &str, fault: Fault, traced: &Traced, end: ExitStatus, said: &str) {
    let context = || format!("{role}:{fault} {end}\n{traced:?}\n{said}");
    let is_whole = said.matches(EQUAL).count() == RANKS as usize;
    match end.signal().map(Signal::try_from) {
        Some(Ok(Signal::SIGKILL)) if fault.what == What::Kill && traced.struck.is_some() => {}
        Some(Ok(Signal::SIGALRM)) => panic!("hangs: {}", context()),
        Some(Ok(Signal::SIGABRT)) => {
            // One of its threads, while others go on.
            let is_for_memory = fault.what == What::Error(Errno::ENOMEM);
            assert!(is_for_memory && says_no_memory(said), "aborts: {}", context());
        }
        Some(other) => panic!("ends by {other:?}: {}", context()),
        None if end.success() && is_whole => {}
        None => {
            // The launcher's words, or a rank's.
            let is_explained = ["modex: ", ERROR].iter().any(|text| said.contains(text));
            assert!(traced.struck.is_some() && !fault.what.is_harmless(), "this must not matter: {}", context());
            assert!(is_explained && !said.contains("panicked"), "says nothing of it: {}", context());
        }
    }
}

/// Processes with this in their environment.
fn processes(mark: &str) -> Vec<String> {
    let is_marked = |pid: &String| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|variable| variable == mark.as_bytes())
    };
    let entries = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let pids = entries.filter_map(|entry| entry.file_name().into_string().ok());
    pids.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())).filter(is_marked).collect()
}
