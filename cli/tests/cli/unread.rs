//! Jobs without a reader of their output, or with a late one: the launcher stays in charge of them.
//!
//! The launcher wrote the ranks' output from its only loop. Without a reader (a pager, a stuck log collector), signals,
//! the time limit and ends of ranks waited, possibly for ever. Now a thread writes the output, and the loop never waits
//! for a reader.

use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;

use crate::launch::{Running, script, wait_until};

/// Writes for ever.
const CHATTY: &str = "exec yes";
/// Rank 0 fails on request, the others write for ever.
const ONE_FAILS: &str = "[ $PMIX_RANK = 0 ] && { read go; exit 7; }; exec yes";

/// A pipe that nobody reads.
fn unread() -> (PipeReader, PipeWriter) {
    pipe().unwrap()
}

/// No process reads, so a full pipe stays full.
fn wait_until_full(pipe: &PipeWriter) {
    wait_until(|| poll(&mut [PollFd::new(pipe.as_fd(), PollFlags::POLLOUT)], PollTimeout::ZERO).unwrap() == 0);
}

/// Waits until only the launcher is left, without ranks and guardian. It must have started them before.
fn wait_until_alone(running: &Running) {
    wait_until(|| running.processes().len() == 1);
}

#[test]
fn a_signal_ends_a_job_whose_output_nobody_reads() {
    for (signal, status) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let (_reader, writer) = unread();
        let running = script(&["-n", "2"], CHATTY).out_to(writer.try_clone().unwrap()).start();
        wait_until_full(&writer);
        running.signal(signal);
        let ended = running.finish();
        assert_eq!(ended.code(), Some(status), "{ended:?}");
        assert_eq!(ended.err, format!("modex: received {signal}; 2 ranks get 2 s to end\n"));
    }
}

#[test]
fn a_signal_ends_a_job_whose_errors_nobody_reads() {
    let (_reader, writer) = unread();
    let running = script(&["-n", "2"], "exec yes >&2").err_to(writer.try_clone().unwrap()).start();
    wait_until_full(&writer);
    running.signal(Signal::SIGINT);
    assert_eq!(running.finish().code(), Some(130));
}

#[test]
fn a_time_limit_ends_a_job_whose_output_nobody_reads() {
    let (_reader, writer) = unread();
    let ended = script(&["-n", "2", "--timeout", "0.5"], CHATTY).out_to(writer).run();
    assert_eq!(ended.code(), Some(124), "{ended:?}");
    assert!(ended.err.starts_with("modex: the job exceeded its time limit of 0.5 s"), "{ended:?}");
}

#[test]
fn a_rank_that_fails_ends_a_job_whose_output_nobody_reads_yet() {
    let (mut reader, writer) = unread();
    let mut running = script(&["-n", "3"], ONE_FAILS).out_to(writer.try_clone().unwrap()).open_input().start();
    wait_until_full(&writer);
    drop(writer);
    running.child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    wait_until_alone(&running);
    let mut out = String::new();
    reader.read_to_string(&mut out).unwrap();
    assert!(out.lines().all(|line| line == "y") && out.ends_with('\n'));
    let ended = running.finish();
    assert_eq!(ended.code(), Some(7), "{ended:?}");
    assert!(ended.err.starts_with("modex: rank 0 exited with status 7; "), "{ended:?}");
}

#[test]
fn the_launcher_passes_output_on_long_after_the_end_of_the_ranks() {
    let (mut reader, writer) = unread();
    let running = script(&["-n", "2"], "seq 50000").out_to(writer.try_clone().unwrap()).start();
    wait_until_full(&writer);
    drop(writer);
    wait_until_alone(&running);
    let mut out = String::new();
    reader.read_to_string(&mut out).unwrap();
    assert_eq!((out.lines().count(), out.len()), (100_000, 2 * 288_894));
    assert!(running.finish().status.success());
}

#[test]
fn output_of_ended_ranks_that_nobody_reads_is_given_up_after_a_signal() {
    let (_reader, writer) = unread();
    let running = script(&["-n", "1"], "seq 50000").out_to(writer.try_clone().unwrap()).start();
    wait_until_full(&writer);
    drop(writer);
    wait_until_alone(&running);
    running.signal(Signal::SIGTERM);
    let ended = running.finish();
    assert_eq!((ended.code(), ended.err.as_str()), (Some(143), "modex: received SIGTERM\n"));
}

#[test]
fn output_of_ended_ranks_that_nobody_reads_is_given_up_at_the_time_limit() {
    let (_reader, writer) = unread();
    let ended = script(&["-n", "1", "--timeout", "3"], "seq 50000").out_to(writer).run();
    assert_eq!(ended.code(), Some(124), "{ended:?}");
    assert_eq!(ended.err, "modex: the job exceeded its time limit of 3 s\n");
}
