//! The launcher says which ranks an operation waits for.

use nix::sys::signal::Signal;

use crate::launch::{MODEX, script};

/// Ranks 0 and 2 come to a fence, and rank 1 does something else.
#[test]
fn the_operations_and_the_missing_ranks_are_shown_on_request_and_at_the_end() {
    let ranks = format!("if [ $PMIX_RANK = 1 ]; then echo ready; exec sleep 1000; fi; exec {MODEX} demo");
    let mut running = script(&["-n", "3", "--grace", "0.2"], &ranks).start();
    assert_eq!(running.line(), "ready\n");
    let is_report = |line: &str| line.starts_with("modex: fence of all ranks: 2 of 3 arrived, ");
    let line = loop {
        // The report ends no rank: these have no handler for the signal, and do not get it.
        running.signal(Signal::SIGUSR1);
        let line = running.error_line();
        if is_report(&line) {
            break line;
        }
        assert!(line.starts_with("modex: "), "{line}");
    };
    assert!(line.contains(" s; waiting for rank 1 (pid ") && line.contains(", state S"), "{line}");
    running.signal(Signal::SIGINT);
    let ended = running.finish();
    assert_eq!(ended.code(), Some(130), "{ended:?}");
    assert!(ended.err.lines().any(is_report), "{ended:?}");
}

#[test]
fn a_job_in_which_nothing_waits_says_so_on_request() {
    let mut running = script(&["-n", "2", "--grace", "0.2"], "echo ready; sleep 1000").start();
    assert_eq!((running.line(), running.line()), ("ready\n".to_owned(), "ready\n".to_owned()));
    running.signal(Signal::SIGUSR1);
    assert_eq!(running.error_line(), "modex: no operation of the ranks waits\n");
    running.signal(Signal::SIGTERM);
    let ended = running.finish();
    assert_eq!(ended.code(), Some(143));
    assert_eq!(ended.err, "modex: received SIGTERM; 2 ranks get 0.2 s to end\n");
}
