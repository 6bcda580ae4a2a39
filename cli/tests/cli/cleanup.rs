//! Nothing of a job outlives its launcher, after any kind of end.

use std::os::unix::process::ExitStatusExt;

use nix::sys::signal::Signal;

use crate::launch::{MODEX, entries, is_alive, modex, script, wait_until};

/// Leaves a process behind that ignores requests to end, and prints its process number.
const ORPHAN: &str = "(trap '' TERM HUP; exec sleep 1000) & echo $!";

#[test]
fn processes_that_a_rank_leaves_behind_are_gone() {
    let orphans: Vec<i32> =
        script(&["-n", "2"], ORPHAN).run().success().lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(orphans.len(), 2);
    for orphan in orphans {
        wait_until(|| !is_alive(orphan));
    }
}

/// Regression: `setsid` takes a process out of the ranks' group, and such a process lived on after the job.
#[test]
fn processes_that_left_the_ranks_group_are_gone() {
    let orphan = "setsid sh -c 'trap \"\" TERM HUP; sleep 1000 & echo $$; exec sleep 1000' & exec sleep 1000";
    let mut running = script(&["-n", "1"], orphan).start();
    let orphan: i32 = running.line().trim().parse().unwrap();
    running.signal(Signal::SIGTERM);
    assert_eq!(running.finish().code(), Some(143));
    assert!(!is_alive(orphan));
}

/// As above, with the launcher killed: `setsid` took a process out of the guardian's reach, and it lived on for ever.
/// One process has a rank as its parent and no trace of the job in its environment. The other is an orphan with the
/// job's environment.
#[test]
fn processes_that_left_the_ranks_group_are_gone_after_a_launcher_that_is_killed() {
    let body = "trap \"\" TERM HUP; sleep 1000 & echo $$; exec sleep 1000";
    let with_parent = format!("setsid env -i MODEX_TEST_MARK=$MODEX_TEST_MARK PATH=$PATH sh -c '{body}' &");
    let orphan = format!("(setsid sh -c '{body}' &) &");
    let mut running = script(&["-n", "1"], &format!("{with_parent} {orphan} exec sleep 1000")).start();
    let strays: Vec<i32> = (0..2).map(|_| running.line().trim().parse().unwrap()).collect();
    // The launcher, the guardian, the rank, two strays and their children.
    wait_until(|| running.processes().len() == 7);
    running.kill_launcher();
    assert!(!strays.into_iter().any(is_alive));
}

/// A launcher started by a rank has its own guardian, in no group of the outer job. The outer launcher took that
/// guardian for a stray. It killed the guardian before the guardian had removed the inner job's directory.
#[test]
fn a_launcher_under_a_launcher_leaves_nothing_either() {
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        let inner =
            format!("exec {MODEX} run -n 1 -- sh -c \"trap '' TERM; echo ready; while :; do sleep 1000; done\"");
        let mut running = script(&["-n", "1", "--grace", "0.1"], &inner).start();
        assert_eq!(running.line(), "ready\n");
        assert_eq!(running.temporary_files().len(), 2);
        if signal == Signal::SIGKILL {
            running.kill_launcher();
        } else {
            running.signal(signal);
            assert_eq!(running.finish().code(), Some(143));
        }
    }
}

/// A guardian got its group's request to stop while it started. It ended, and the directory stayed.
#[test]
fn a_guardian_is_deaf_to_what_its_group_is_sent_from_its_first_moment() {
    let mut running = script(&["-n", "1"], "echo started; exec sleep 1000").start();
    assert_eq!(running.line(), "started\n");
    let guardian = running.guardian();
    let status = std::fs::read_to_string(format!("/proc/{guardian}/status")).unwrap();
    let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:\t")).unwrap();
    let blocked = u64::from_str_radix(blocked, 16).unwrap();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGTSTP] {
        assert_ne!(blocked & (1 << (signal as i32 - 1)), 0, "{signal} in {blocked:x}");
    }
    running.kill_launcher();
}

#[test]
fn a_launcher_that_is_killed_takes_everything_with_it() {
    let mut running = script(&["-n", "3"], &format!("trap '' TERM HUP INT; {ORPHAN}; exec sleep 1000")).start();
    let orphans: Vec<i32> = (0..3).map(|_| running.line().trim().parse().unwrap()).collect();
    // The launcher, its guardian, three ranks and their children.
    wait_until(|| running.processes().len() == 8);
    assert_eq!(running.temporary_files().len(), 1, "the directory of the server's socket");
    running.kill_launcher();
    assert!(!orphans.into_iter().any(is_alive));
}

/// Launcher and guardian were killed at once (`pkill -9 modex`). All ranks and their children lived on, because each of
/// the two relied on the other. Now the kernel ends the ranks when both are gone. The next launcher removes the files.
#[test]
fn launcher_and_guardian_that_are_killed_at_once_leave_no_rank() {
    let rank = format!("trap '' TERM HUP INT IO; exec 3</dev/null; {ORPHAN}; exec sleep 1000");
    let mut running = script(&["-n", "8"], &rank).start();
    let orphans: Vec<i32> = (0..8).map(|_| running.line().trim().parse().unwrap()).collect();
    // The launcher, its guardian, eight ranks and their children.
    wait_until(|| running.processes().len() == 18);
    let temporary = running.kill_launcher_and_guardian();
    assert!(!orphans.into_iter().any(is_alive));
    assert_eq!(entries(temporary.path()).len(), 1, "the directory of the server's socket");
    let next =
        std::process::Command::new(MODEX).args(["run", "-n", "1", "true"]).env("TMPDIR", temporary.path()).status();
    assert!(next.unwrap().success());
    assert_eq!(entries(temporary.path()), Vec::<std::path::PathBuf>::new());
}

/// As above, with the guardian killed first.
#[test]
fn a_launcher_that_is_killed_after_its_guardian_leaves_no_rank() {
    let mut running = script(&["-n", "2"], "echo started; exec sleep 1000").start();
    (0..2).for_each(|_| assert_eq!(running.line(), "started\n"));
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(running.guardian()), Signal::SIGKILL).unwrap();
    wait_until(|| running.processes().len() == 3);
    running.signal(Signal::SIGKILL);
    wait_until(|| running.processes().is_empty());
}

#[test]
fn a_launcher_that_is_killed_amid_an_exchange_takes_everything_with_it() {
    let mut running = script(&["-n", "4"], &format!("echo started; exec {MODEX} demo --rounds 1000000")).start();
    (0..4).for_each(|_| assert_eq!(running.line(), "started\n"));
    running.kill_launcher();
}

/// Regression: the socket of a bench's server stayed when the bench was killed, by Ctrl-C for example.
#[test]
fn a_bench_that_is_killed_leaves_nothing() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGKILL] {
        for scenario in
            [&["fence", "--processes=2", "--samples=100000000"][..], &["launch", "--ranks=2", "--samples=100000"]]
        {
            let mut running = modex(["bench"].iter().chain(scenario)).start();
            // The bench, its guardian, and two workers; or the guardian's own guardian and its children.
            wait_until(|| running.processes().len() >= 4 && !running.temporary_files().is_empty());
            running.signal(signal);
            assert_eq!(running.child.wait().unwrap().signal(), Some(signal as i32));
            running.kill_launcher();
        }
    }
}

#[test]
fn a_stopped_rank_can_be_ended() {
    let mut running = script(&["-n", "1", "--grace", "0.1"], "echo $$; kill -STOP $$").start();
    let rank: i32 = running.line().trim().parse().unwrap();
    let state = || std::fs::read_to_string(format!("/proc/{rank}/stat")).unwrap();
    wait_until(|| state().contains(") T "));
    running.signal(Signal::SIGTERM);
    assert_eq!(running.finish().code(), Some(143));
}

#[test]
fn a_guardian_that_is_killed_harms_nobody() {
    let mut running = script(&["-n", "1"], "echo ready; read go").open_input().start();
    assert_eq!(running.line(), "ready\n");
    let guardian = running.guardian();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(guardian), Signal::SIGKILL).unwrap();
    wait_until(|| !is_alive(guardian));
    drop(running.child.stdin.take());
    // `read` fails at the end of its input.
    assert_eq!(running.finish().code(), Some(1));
}

/// A launcher killed during its start left its socket's directory or a rank. The guardian heard of the directory only
/// after its creation, and learned the ranks' group from the first rank. Now the guardian leads that group, and knows
/// the directory before its creation.
#[test]
fn a_launcher_that_is_killed_while_it_starts_takes_everything_with_it() {
    for process_count in 1..=4 {
        // The launcher; its guardian; one rank after the other.
        for _ in 0..8 {
            let running = script(&["-n", "2"], "exec sleep 1000").start();
            wait_until(|| running.processes().len() >= process_count);
            running.kill_launcher();
        }
    }
    for _ in 0..8 {
        let running = script(&["-n", "2"], "exec sleep 1000").start();
        wait_until(|| !running.temporary_files().is_empty());
        running.kill_launcher();
    }
}
