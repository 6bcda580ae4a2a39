//! The programs in `examples/`, run as their comments say. Readers copy them, so they must work.

#![expect(clippy::unwrap_used, reason = "a failing step fails the test")]

use std::path::PathBuf;
use std::process::Command;

/// An example, which `cargo test` has built beside this test.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.ancestors().nth(2).unwrap().join("examples").join(name);
    assert!(path.is_file(), "no {}: `cargo build --examples` makes it", path.display());
    path
}

/// The lines of a job on the example host, sorted.
fn run(program: &str) -> Vec<String> {
    let output = Command::new(example("host")).arg("3").args(["sh", "-c", program]).output().unwrap();
    let mut lines: Vec<String> = String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
    lines.sort();
    assert!(output.status.success(), "{lines:?} {}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(lines.remove(0), "3 processes have ended, 0 of them with an error");
    lines
}

#[test]
fn clients_read_what_the_next_one_put() {
    let next = |rank: u32| format!("job-1:{rank} of 3: job-1:{0} listens at \"10.0.0.{0}:4711\"", (rank + 1) % 3);
    assert_eq!(run(&format!("exec {}", example("client").display())), [next(0), next(1), next(2)]);
}

/// Regression: the examples ended with `Error: NotLaunched`.
#[test]
fn a_process_without_a_launcher_ends_with_a_sentence() {
    for name in ["client", "groups"] {
        let mut command = Command::new(example(name));
        std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PMIX_")).for_each(|(name, _)| {
            command.env_remove(name);
        });
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.starts_with("Error: \"PMIX_NAMESPACE is not set: "), "{said}");
    }
}

#[test]
fn every_second_process_is_in_the_group() {
    let lines = run(&format!("exec {}", example("groups").display()));
    let begins = |line: &String, name: &str| line.starts_with(&format!("{name} is one of 2 members of group "));
    assert!(matches!(&lines[..], [one, other] if begins(one, "job-1:0") && begins(other, "job-1:2")), "{lines:?}");
}

/// Two switches with four nodes each: an allocation fills one switch before it takes nodes of the other.
#[test]
fn the_scheduler_gives_lends_and_takes_back_nodes() {
    let output = Command::new(example("scheduler_host")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let expected = [
        "new with 2 nodes: n0,n1",
        // n0 and n1 are taken, n3 is at the same switch, and n4 is the first of the other one.
        "new with 3 nodes: n2,n3,n4",
        // Three of eight are left.
        "new with 4 nodes: PMIX_ERR_OUT_OF_RESOURCE (-29)",
        "extend the first by 1: n0,n1,n5",
        "lend the second: no nodes",
        "reacquire the second: n2,n3,n4",
        "release by another user: PMIX_ERR_NOT_FOUND (-46)",
        "end the second session: no nodes",
        // n0, n1 and n5 are taken.
        "new with 5 nodes: n2,n3,n4,n6,n7",
        "new with 8 nodes, after the requester's end: n0,n1,n2,n3,n4,n5,n6,n7",
        "define a block: done",
        "define it again: PMIX_ERR_EXISTS (-11)",
    ];
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().collect::<Vec<_>>(), expected);
}

#[test]
fn the_tool_lists_the_job() {
    let forget = "unset $(env | grep -o '^PMIX_[A-Z0-9_]*')";
    let lines =
        run(&format!("test $PMIX_RANK = 0 || exit 0; host=$PPID; {forget}; exec {} $host", example("tool").display()));
    assert!(matches!(&lines[..], [line] if line.contains("job-1")), "{lines:?}");
}
