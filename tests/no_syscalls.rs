//! A hot Get makes no system call: counted by strace between two marks in a process of a real job.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a trace that can't be read fails the test")]

use std::path::Path;
use std::process::Command;

const GET_COUNT: u32 = 1_000_000;

/// The mark: a system call that nothing else in the process makes.
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

/// System calls that the marking thread made between its two marks. A call that strace interrupted to show another
/// thread's appears as two lines, of which the second is no call of its own.
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
