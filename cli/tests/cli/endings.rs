//! The end of a job: the launcher's exit status, its messages, and the grace periods.

use modex::Client;
use modex::types::Status;
use nix::sys::signal::Signal;

use crate::launch::{MODEX, ROLE, modex, modex_with_signals, script};

/// A rank that ignores the request to end, and reports when it gets one.
const STUBBORN: &str = "trap '' TERM INT; echo ready; exec sleep 1000";
/// A rank that reports the request that ends it.
const POLITE: &str =
    "trap 'echo interrupted; exit 0' INT; trap 'echo asked; exit 0' TERM; echo ready; sleep 1000 & wait";
/// A rank that ignores interrupts, and reports when it is asked to end.
const DEAF: &str = "trap '' INT; trap 'echo asked; exit 0' TERM; echo ready; sleep 1000 & wait";

#[test]
fn a_job_whose_ranks_succeed_succeeds_silently() {
    assert_eq!(modex(["run", "-n", "3", "true"]).run().success(), "");
}

#[test]
fn the_first_rank_that_fails_gives_status_and_reason() {
    let ended = script(&["-n", "3"], "[ $PMIX_RANK = 1 ] && exit 3; exec sleep 1000").run();
    assert_eq!(ended.code(), Some(3));
    assert_eq!(ended.err, "modex: rank 1 exited with status 3; the other 2 ranks get 2 s to end\n");
}

/// A byte in a socket announces the end of a rank, and the kernel may refuse the byte. The launcher looked for the end
/// only after a while without any event. So a job went on for as long as other ranks wrote output. Now the launcher
/// looks every few seconds.
#[test]
fn a_rank_that_ends_unheard_is_missed_while_another_talks() {
    let rank = "[ $PMIX_RANK = 1 ] && exit 3; for i in $(seq 200); do echo talk; sleep 0.3; done";
    let arguments = ["run", "-n", "2", "--grace", "0.1", "--", "sh", "-c", rank];
    let ended = modex_with_signals(&["--block-signal=CHLD"], arguments).run();
    assert_eq!(ended.code(), Some(3));
    assert!(
        ended.err.starts_with("modex: rank 1 exited with status 3; the other 1 rank gets 0.1 s to end\n"),
        "{}",
        ended.err
    );
}

/// The launcher waited for ever: it took the signal's number for an error, because real-time signals have no name.
#[test]
fn a_rank_killed_by_a_signal_without_a_name_ends() {
    let ended = script(&["-n", "1"], "kill -42 $$").run();
    assert_eq!((ended.code(), ended.err.as_str()), (Some(170), "modex: rank 0 was killed by signal 42\n"));
}

#[test]
fn the_error_about_a_lone_rank_mentions_no_other_ranks() {
    let ended = script(&["-n", "1"], "exit 255").run();
    assert_eq!((ended.code(), ended.err.as_str()), (Some(255), "modex: rank 0 exited with status 255\n"));
}

#[test]
fn a_rank_killed_by_a_signal_gives_128_and_its_number() {
    for (signal, status) in [("SEGV", 139), ("KILL", 137), ("TERM", 143)] {
        let ended = script(&["-n", "1"], &format!("kill -{signal} $$")).run();
        assert_eq!(ended.code(), Some(status));
        assert_eq!(ended.err, format!("modex: rank 0 was killed by SIG{signal}\n"));
    }
}

#[test]
fn a_time_limit_ends_the_job_with_124() {
    let ended = modex(["run", "-n", "2", "--timeout", "0.1", "sleep", "1000"]).run();
    assert_eq!(ended.code(), Some(124));
    assert_eq!(ended.err, "modex: the job exceeded its time limit of 0.1 s; 2 ranks get 2 s to end\n");
}

#[test]
fn a_time_limit_beyond_all_clocks_is_none() {
    assert_eq!(modex(["run", "-n", "1", "--timeout", "1e18", "--grace", "1e18", "true"]).run().success(), "");
}

#[test]
fn a_rank_that_ignores_the_request_is_killed_after_the_grace_period() {
    let fail = format!("[ $PMIX_RANK = 0 ] && read go && exit 7; {STUBBORN}");
    let mut running = script(&["-n", "2", "--grace", "0.2"], &fail).open_input().start();
    assert_eq!(running.line(), "ready\n");
    use std::io::Write;
    running.child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let ended = running.finish();
    assert_eq!(ended.code(), Some(7));
    assert_eq!(ended.err, "modex: rank 0 exited with status 7; the other 1 rank gets 0.2 s to end\n");
}

/// A launcher inherits it, and then rightly goes on.
fn is_hangup_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(ignored.trim(), 16).unwrap() & 1 == 1
}

#[test]
fn a_rank_that_is_asked_to_end_can_finish_what_it_does() {
    assert!(!is_hangup_ignored(), "hangups are ignored here; run the tests without nohup");
    for (signal, status, heard) in [
        (Signal::SIGINT, 130, "interrupted"),
        (Signal::SIGTERM, 143, "asked"),
        (Signal::SIGHUP, 129, "asked"),
        (Signal::SIGQUIT, 131, "asked"),
    ] {
        let mut running = script(&["-n", "2", "--grace", "1000"], POLITE).start();
        assert_eq!((running.line(), running.line()), ("ready\n".to_owned(), "ready\n".to_owned()));
        running.signal(signal);
        let ended = running.finish();
        assert_eq!((ended.code(), ended.out), (Some(status), format!("{heard}\n{heard}\n")));
        assert_eq!(ended.err, format!("modex: received {signal}; 2 ranks get 1000 s to end\n"));
    }
}

/// Regression: a launcher under `nohup` ended its job at the end of the session.
#[test]
fn a_launcher_under_nohup_outlives_a_hangup() {
    let script = format!("nohup {MODEX} run -n 1 -- sh -c 'kill -HUP $PPID; sleep 0.2; echo alive' 2>&1");
    let ended = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
    let out = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(ended.status.success() && out.contains("alive"), "{out}");
}

/// Regression: the launcher heard no signal and noticed the end of its ranks late. Some services block all signals
/// before they start a process.
#[test]
fn a_launcher_hears_signals_that_were_blocked() {
    let blocked = "import os, signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals()); \
                   os.execvp(sys.argv[1], sys.argv[1:])";
    let rank = "kill -TERM $PPID; sleep 1000";
    let run = ["-c", blocked, MODEX, "run", "-n", "1", "--grace", "0.1", "--", "sh", "-c", rank];
    let ended = std::process::Command::new("python3").args(run).output().unwrap();
    assert_eq!(ended.status.code(), Some(143), "{ended:?}");
}

/// Regression: the launcher died of SIGXFSZ without a word.
#[test]
fn a_file_at_its_largest_size_is_reported() {
    let place = tempfile::tempdir().unwrap();
    let run = format!("ulimit -f 8; exec {MODEX} run -n 1 --output d -- head -c 100000 /dev/zero");
    let ended = std::process::Command::new("bash").args(["-c", &run]).current_dir(&place).output().unwrap();
    let err = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.code() == Some(1) && err.contains("File too large"), "{ended:?}");
}

/// These signals killed the launcher.
#[test]
fn a_signal_that_is_the_users_own_is_passed_on_to_the_ranks() {
    let report = "modex: no operation of the ranks waits\n";
    for (signal, name, said) in [(Signal::SIGUSR1, "USR1", report), (Signal::SIGUSR2, "USR2", "")] {
        let rank = format!("trap 'echo heard; exit 0' {name}; echo ready; sleep 1000 & wait");
        let mut running = script(&["-n", "2"], &rank).start();
        assert_eq!((running.line(), running.line()), ("ready\n".to_owned(), "ready\n".to_owned()));
        running.signal(signal);
        let ended = running.finish();
        assert_eq!((ended.code(), ended.out.as_str(), ended.err.as_str()), (Some(0), "heard\nheard\n", said));
    }
}

/// A shell's background jobs ignore interrupts, and their children inherit this.
#[test]
fn a_rank_that_ignores_an_interrupt_is_asked_to_end_before_it_is_killed() {
    let mut running = script(&["-n", "1"], DEAF).start();
    assert_eq!(running.line(), "ready\n");
    running.signal(Signal::SIGINT);
    let ended = running.finish();
    assert_eq!((ended.code(), ended.out.as_str()), (Some(130), "asked\n"), "{ended:?}");
    let said = "modex: received SIGINT; 1 rank gets 2 s to end\n\
                modex: 1 rank has not ended on SIGINT; SIGTERM, and 2 s more\n";
    assert_eq!(ended.err, said);
}

#[test]
fn a_second_signal_kills() {
    let mut running = script(&["-n", "1", "--grace", "1000"], STUBBORN).start();
    assert_eq!(running.line(), "ready\n");
    running.signal(Signal::SIGINT);
    assert_eq!(running.error_line(), "modex: received SIGINT; 1 rank gets 1000 s to end\n");
    running.signal(Signal::SIGINT);
    assert_eq!(running.finish().code(), Some(130));
}

/// Rank 1 asks for the end of the job; the others wait for ever.
pub(crate) fn abort_as_rank_one() {
    let client = Client::connect().unwrap();
    if client.proc().rank.process() == Some(1) {
        let status: i32 = std::env::var("MODEX_TEST_STATUS").unwrap().parse().unwrap();
        client.abort(Status::from_raw(status), "the mesh\n\u{1b}[2Jis torn", Vec::new()).unwrap();
    }
    loop {
        std::thread::park();
    }
}

/// The text of `PMIx_Abort` reached the launcher's terminal raw. A rank could clear the user's screen, or write lines
/// that looked like the launcher's. Now the launcher escapes a peer's text when it writes the line.
#[test]
fn a_rank_can_abort_the_job() {
    for (given, status) in [(42, 42), (256, 1), (0, 1), (-1, 255)] {
        let this = std::env::current_exe().unwrap();
        let words = ["run", "-n", "3", this.to_str().unwrap(), "--exact", "client_process", "--nocapture"];
        let ended = modex(words).env(ROLE, "abort").env("MODEX_TEST_STATUS", given.to_string()).run();
        assert_eq!(ended.code(), Some(status), "{ended:?}");
        let said = format!(
            "modex: rank 1 aborted the job with status {given}: the mesh\\n\\u{{1b}}[2Jis torn; the other 2 ranks get 2 s to end"
        );
        assert!(ended.err.lines().any(|line| line == said), "{ended:?}");
    }
}

/// A rank ended without ever joining, and the others waited in their fence for ever. The launcher did not tell its
/// server that the process was gone. Now it does, and the fence fails.
#[test]
fn a_rank_that_ends_without_joining_does_not_leave_the_others_waiting() {
    let ended = script(&["-n", "3"], &format!("[ $PMIX_RANK = 1 ] && exit 0; exec {MODEX} demo")).run();
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    assert!(ended.err.contains("PMIX_ERR_PARTIAL_SUCCESS (-52): modex-"), "{ended:?}");
    assert!(ended.err.contains(":1 left before taking part"), "{ended:?}");
}

/// Rank 1 joins and ends with status 0; the others wait for it in a fence.
pub(crate) fn leave_as_rank_one() {
    let client = Client::connect().unwrap();
    if client.proc().rank.process() == Some(1) {
        std::process::exit(0);
    }
    let _ = client.fence(&modex::FenceOptions::default()).wait();
    loop {
        std::thread::park();
    }
}

/// A rank called `exit(0)` after `MPI_Init`. The others waited for it for ever, without a message.
#[test]
fn a_rank_that_leaves_without_finalizing_ends_the_job() {
    let this = std::env::current_exe().unwrap();
    let words = ["run", "-n", "3", "--grace", "0.1", this.to_str().unwrap(), "--exact", "client_process"];
    let ended = modex(words).env(ROLE, "leave").run();
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    let said = "modex: rank 1 ended without finalizing; the other 2 ranks get 0.1 s to end";
    assert!(ended.err.lines().any(|line| line == said), "{ended:?}");
}
