//! A launcher that lacks a resource names the resource and the remedy.

use std::process::{Command, Output};

use crate::launch::{MODEX, script};

/// The launcher under these conditions, made by a shell script that gets its path as `$0`. Nothing may be left of it.
fn launcher(conditions: &str) -> Output {
    let directory = tempfile::tempdir().unwrap();
    let script = format!("{conditions}; exec \"$0\" run -n 2 true");
    let mut shell = Command::new("sh");
    let output = shell.args(["-c", &script, MODEX]).env("TMPDIR", directory.path()).output().unwrap();
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    output
}

/// Raises a limit step by step until the job runs. Every error must have these words.
fn says_what_to_do_until_there_is_enough(condition: impl Fn(u32) -> String, first: u32, words: &str) {
    for (failures, limit) in (first..first + 100).enumerate() {
        let output = launcher(&condition(limit));
        let said = String::from_utf8(output.stderr).unwrap();
        if output.status.success() {
            assert!(failures >= 3, "{failures} failures tell nothing: {said}");
            return;
        }
        assert!(
            output.status.code() == Some(1) && said.lines().all(|line| line.starts_with("modex: ")),
            "{limit}: {said}"
        );
        assert!(said.lines().last().is_some_and(|line| line.contains(words)), "{limit}: {said}");
    }
    panic!("a hundred more are not enough");
}

/// Regression: each step of the start met the limit on descriptors, and no message named the limit.
#[test]
fn too_few_descriptors() {
    // With fewer descriptors no program can be loaded.
    says_what_to_do_until_there_is_enough(|limit| format!("ulimit -n {limit}"), 6, "(ulimit -n)");
}

/// The message named the limit, but neither its value nor the value that the job needs.
#[test]
fn a_limit_is_named_with_its_value_and_the_number_that_is_needed() {
    let job = |condition: &str| script(&["-n", "1"], &format!("{condition} && exec {MODEX} run -n 64 -- true")).run();
    let ended = job("ulimit -n 64");
    let words =
        "raise the limit on open files (ulimit -n), which is 64 (usually 1024 or more); a job of 64 ranks needs 296";
    assert!(ended.code() == Some(1) && ended.err.contains(words), "{ended:?}");
    let ended = job("ulimit -n 296");
    assert!(ended.code() == Some(0) && ended.err.is_empty(), "{ended:?}");
    let demo = format!("ulimit -n 296 && exec {MODEX} run -n 64 -- {MODEX} demo");
    let ended = script(&["-n", "1"], &demo).run();
    assert!(ended.code() == Some(0) && ended.err.is_empty(), "{ended:?}");
}

/// The removal takes a descriptor for each level. The directory stayed, and no line said so.
#[test]
fn a_directory_that_is_too_deep_to_be_removed_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let dig = "cd \"$PMIX_SERVER_TMPDIR\"; for level in $(seq 200); do mkdir d; cd d; done";
    let script = format!("ulimit -n 100; exec \"$0\" run -n 1 -- sh -c '{dig}'");
    let output = Command::new("sh").args(["-c", &script, MODEX]).env("TMPDIR", directory.path()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let left = std::fs::read_dir(directory.path()).unwrap().next().unwrap().unwrap().path();
    let named = format!("the job's directory {} can't be removed", left.display());
    assert!(output.status.code() == Some(0) && said.contains(&named), "{said}");
}

#[test]
fn the_limit_on_address_space_is_named_with_its_value() {
    // No room for the stack of a thread.
    let output = launcher("ulimit -v 4000000; export RUST_MIN_STACK=8000000000");
    let said = String::from_utf8(output.stderr).unwrap();
    let words = "the limit on address space (ulimit -v), which is 4000000 (usually unlimited)";
    assert!(output.status.code() == Some(1) && said.contains(words), "{said}");
}

/// Regression: the error of a full file system was only "No space left on device", without advice.
#[test]
fn a_full_temporary_directory() {
    if !nix::unistd::geteuid().is_root() {
        return eprintln!("not applicable: only root can mount a file system that is full");
    }
    let full = |files: u32| {
        let mount = format!("mount -t tmpfs -o size=64k,nr_inodes={files} none \"$TMPDIR\"");
        format!("exec unshare -m sh -c '{mount} && exec \"$0\" run -n 2 true' \"$0\"")
    };
    says_what_to_do_until_there_is_enough(full, 1, "set TMPDIR to a directory that ");
}

/// Some systems with many threads have a small limit on the stack (`ulimit -s 64`). There the command overflowed its
/// stack while it parsed its arguments, and was aborted. Now the main thread takes a larger stack if the limit is low.
#[test]
fn a_small_stack_is_no_shortage() {
    for kib in [64, 512] {
        let limited = format!("ulimit -s {kib} && exec {MODEX} run -n 2 -- {MODEX} demo");
        let ended = script(&["-n", "1"], &limited).run();
        assert_eq!(ended.code(), Some(0), "{ended:?}");
        assert!(ended.err.is_empty(), "{ended:?}");
    }
}
