//! Faults at `modex run`, with a job that does not know of them.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::faults::{Extent, Fault, KINDS, What};
use crate::roles::{EQUAL, ERROR, HANGS_AFTER_S, RANKS};
use crate::support::{Process, this_binary};
use crate::sweep::{ALONE, pid_of, says_no_memory, sweep_side_by_side, traced_thread, without_backtraces};
use crate::tracer::{Traced, Tracer};

/// Variable with the same value in every process of one launcher.
const MARK: &str = "MODEX_TEST_MARK";

pub(crate) fn launchers_sweep(role: &str) {
    static LAST: AtomicU32 = AtomicU32::new(0);
    let _alone = ALONE.lock();
    sweep_side_by_side(role, &KINDS, |fault| {
        let directory = tempfile::tempdir().unwrap();
        let value = &format!("{}-{}", std::process::id(), LAST.fetch_add(1, Ordering::Relaxed));
        let mark = format!("{MARK}={value}");
        let mut command = without_backtraces(this_binary("launcher"));
        command.env("TMPDIR", directory.path()).env(MARK, value);
        let mut launcher = Process::of(command.spawn().unwrap());
        let traced = Tracer::take(traced_thread(&mut launcher), fault).run(pid_of(&launcher));
        let (end, said) = end_of_all(launcher, &mark, &format!("{role}:{fault} {traced:?}"));
        judge(role, fault, &traced, end, &said);
        let left =
            || std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
        if fault.extent == Extent::ForGood && !left().is_empty() {
            // A process that can examine no directory can't clean up; the next launcher does.
            let mut next = this_binary("next launcher");
            let next = Process::of(next.env("TMPDIR", directory.path()).env(MARK, value).spawn().unwrap());
            let (end, said) = end_of_all(next, &mark, &format!("the one after {role}:{fault}"));
            assert!(end.success(), "{role}:{fault} is in the next one's way: {end} {said}");
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
            // One of its threads aborts while others go on.
            let is_for_memory = fault.what == What::Error(Errno::ENOMEM);
            assert!(is_for_memory && says_no_memory(said), "aborts: {}", context());
        }
        Some(other) => panic!("ends by {other:?}: {}", context()),
        None if end.success() && is_whole => {}
        None => {
            // The words of the launcher, or of a rank.
            let is_explained = ["modex: ", ERROR].iter().any(|text| said.contains(text));
            assert!(traced.struck.is_some() && !fault.what.is_harmless(), "this must not matter: {}", context());
            assert!(is_explained && !said.contains("panicked"), "says nothing of it: {}", context());
        }
    }
}

/// All processes below a launcher share its outputs, so the outputs end with the last of them. The guardian of a killed
/// launcher is an exception: it closes them before it cleans up.
fn end_of_all(launcher: Process, mark: &str, what: &str) -> (ExitStatus, String) {
    let all_others_have_ended = 2 * Duration::from_secs(HANGS_AFTER_S.into());
    wait_for_the_last(mark, what, all_others_have_ended);
    // A process that was becoming another program was not seen.
    let end = launcher.end();
    wait_for_the_last(mark, what, all_others_have_ended);
    end
}

/// Waits until no process of a launcher is left. Processes with an alarm end by it. Processes that still exist later
/// hang; they are ended and named.
#[expect(clippy::disallowed_methods, reason = "an alarm")]
fn wait_for_the_last(mark: &str, what: &str, hangs_after: Duration) {
    let hangs_at = Instant::now() + hangs_after;
    while let left @ [_, ..] = &*processes(mark) {
        if Instant::now() > hangs_at {
            let name = |pid: &String| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let named = left.iter().map(|pid| format!("{pid} {:?}", name(pid))).collect::<Vec<_>>();
            for pid in left.iter().filter_map(|pid| pid.parse().ok()) {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
            panic!("hangs: {} of {what}", named.join(", "));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Processes with this variable in their environment.
fn processes(mark: &str) -> Vec<String> {
    let is_marked = |pid: &String| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|variable| variable == mark.as_bytes())
    };
    let entries = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let pids = entries.filter_map(|entry| entry.file_name().into_string().ok());
    pids.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())).filter(is_marked).collect()
}

#[test]
#[should_panic(expected = "sleep")]
fn a_process_that_hangs_is_ended_and_named() {
    let _hanging = Process::of(Command::new("sleep").arg("infinity").env(MARK, "hanging").spawn().unwrap());
    let mark = format!("{MARK}=hanging");
    // Its environment exists once it has become that program.
    while processes(&mark).is_empty() {}
    wait_for_the_last(&mark, "a test", Duration::ZERO);
}
