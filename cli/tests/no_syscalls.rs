//! System calls of a process of a real job, as strace shows them: none for a hot Get, as few as possible for a fence.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a trace that can't be read fails the test")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

const GET_COUNT: u32 = 1_000_000;

/// The mark: a system call that occurs nowhere else in the process.
const MARK: &str = "getppid(";

#[test]
fn a_million_gets_make_no_system_call() {
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("trace");
    let output = Command::new("strace")
        .args(["-f", "-q", "-o"])
        .arg(&trace)
        .arg(env!("CARGO_BIN_EXE_modex"))
        .args(["bench", "get", "--quiet-loop", "--count", &GET_COUNT.to_string()])
        .output()
        .expect("strace is needed; `make test` installs it");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains(&format!("{GET_COUNT} gets")), "{text}");
    assert_eq!(between_marks(&trace), Vec::<String>::new());
}

#[test]
fn calls_between_the_marks_would_be_seen() {
    let trace = tempfile::NamedTempFile::new().unwrap();
    let lines = "7 read(3) = 1\n7 getppid() = 5\n8 read(4) = 1\n7 futex(0) = 0\n7 getppid() = 5\n7 close(3) = 0\n";
    std::fs::write(trace.path(), lines).unwrap();
    assert_eq!(between_marks(trace.path()), ["futex(0) = 0"]);
}

/// Each sample is two fences, a commit and a third fence. Other work of a process costs the same for few samples and
/// for many.
#[test]
fn a_fence_or_commit_costs_a_client_one_send_and_one_wait() {
    let is_undisturbed = |added: &BTreeMap<String, i64>| {
        // The last process of a fence may find it complete. A commit may change the number on which another process
        // sleeps.
        assert!(added.keys().all(|call| ["futex", "recvmsg", "sendmsg"].contains(&call.as_str())), "{added:?}");
        let waits = added.get("futex").copied().unwrap_or_default();
        let others = added.iter().filter(|(call, _)| *call != "futex").map(|(call, &count)| (call.as_str(), count));
        (1..=160).contains(&waits) && others.eq([("recvmsg", 40), ("sendmsg", 160)])
    };
    // Under other load a fence may take so long that a sleeping process asks for a message, but not each time.
    let mut disturbed = Vec::new();
    while disturbed.len() < 20 {
        let added = calls_of_more_samples();
        if is_undisturbed(&added) {
            return;
        }
        disturbed.push(added);
    }
    panic!("{disturbed:?}");
}

/// The system calls that two clients make more often in 40 samples than in 20.
fn calls_of_more_samples() -> BTreeMap<String, i64> {
    let (few, many) = (calls_of_fencing_clients(20), calls_of_fencing_clients(40));
    assert_eq!((few.len(), many.len()), (2, 2), "each process has one thread that sends and never waits with epoll");
    let mut added = BTreeMap::<String, i64>::new();
    for (calls, sign) in few.into_iter().map(|calls| (calls, -1)).chain(many.into_iter().map(|calls| (calls, 1))) {
        for (call, count) in calls {
            *added.entry(call).or_default() += sign * count;
        }
    }
    // Rank 0 writes down the time of each one.
    added.retain(|call, count| *count != 0 && call != "write");
    added
}

/// The number of each system call that each client made, in a benchmark of fences with this number of samples.
fn calls_of_fencing_clients(samples: usize) -> Vec<BTreeMap<String, i64>> {
    let directory = tempfile::tempdir().unwrap();
    let output = Command::new("strace")
        .args(["-ff", "-q", "-o"])
        .arg(directory.path().join("trace"))
        .arg(env!("CARGO_BIN_EXE_modex"))
        .args(["bench", "fence", "--processes", "2", "--samples", &samples.to_string()])
        .output()
        .expect("strace is needed; `make test` installs it");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let threads = std::fs::read_dir(directory.path()).unwrap().map(|trace| calls(&trace.unwrap().path()));
    threads.filter(|calls| calls.contains_key("sendmsg") && !calls.contains_key("epoll_wait")).collect()
}

/// System calls in one thread's trace, by name.
fn calls(trace: &Path) -> BTreeMap<String, i64> {
    let mut calls = BTreeMap::new();
    for line in std::fs::read_to_string(trace).unwrap().lines() {
        if let Some((name, _)) =
            line.split_once('(').filter(|(name, _)| name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric()))
        {
            *calls.entry(name.to_owned()).or_default() += 1;
        }
    }
    calls
}

/// System calls that the marking thread made between its two marks. A call that strace interrupted to show another
/// thread's appears as two lines. The second line is no separate call.
fn between_marks(trace: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(trace).unwrap();
    let lines = text.lines().filter_map(|line| line.split_once(' ')).map(|(thread, call)| (thread, call.trim_start()));
    let calls: Vec<(&str, &str)> = lines.filter(|(_, call)| !call.starts_with("<... ")).collect();
    let marks: Vec<usize> =
        calls.iter().enumerate().filter(|(_, (_, call))| call.starts_with(MARK)).map(|(at, _)| at).collect();
    let [first, last] = marks[..] else { panic!("there are {} marks instead of two", marks.len()) };
    let marker = calls[first].0;
    assert_eq!(marker, calls[last].0, "both marks come from the same thread");
    let within = calls[first + 1..last].iter().filter(|(thread, _)| *thread == marker);
    within.map(|(_, call)| (*call).to_owned()).collect()
}
