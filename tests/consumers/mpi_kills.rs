//! Ranks of Open MPI killed at random moments, on several hosts: the job ends in every case.

use std::fs;

use crate::library::library;
use crate::mpi::{mpirun, program};
use crate::process::wait_for;

/// Number of jobs in a run of the tests; `MODEX_KILLS=200` tries more.
const JOBS: u64 = 4;
const RANKS: u64 = 16;
/// The duration of an undisturbed job, on two processors.
const LIFE_MICROSECONDS: u64 = 3_000_000;

#[test]
fn sixteen_ranks_on_four_hosts_with_ranks_killed_at_random() {
    let jobs = std::env::var("MODEX_KILLS").map_or(JOBS, |count| count.parse().unwrap());
    let mut killed = 0;
    for seed in 0..jobs {
        killed += u64::from(is_killed(seed));
    }
    println!("{killed} of {jobs} jobs lost a rank, and all have ended");
    assert!(killed > 0, "every job of {jobs} was over before a rank was to be killed");
}

/// Runs one job; returns whether it was lost. [`Consumer`](crate::process::Consumer) checks that it ends at all.
fn is_killed(seed: u64) -> bool {
    let mut random = oorandom::Rand64::new(seed.into());
    let mut arguments = vec!["200".to_owned()];
    for _ in 0..random.rand_range(1..4) {
        let (rank, moment) = (random.rand_range(0..RANKS), random.rand_range(0..LIFE_MICROSECONDS));
        arguments.extend([rank.to_string(), moment.to_string()]);
    }
    let hosts = ["--host", "nodeA:4,nodeB:4,nodeC:4,nodeD:4", "-n", "16"];
    let mark = format!("MODEX_TEST_JOB={}-{seed}", std::process::id());
    let (name, value) = mark.split_once('=').unwrap();
    let job = mpirun(library()).args(hosts).args(["-x", name]).arg(program("killed")).args(&arguments).env(name, value);
    let ended = job.run();
    // Daemons may still be ending after the launcher. If one stays, the test does not end.
    wait_for(|| !is_anyone_left(&mark));
    match ended.status.code() {
        Some(0) => assert_eq!(ended.text(), "sum 120 of 16\n", "seed {seed}: {arguments:?}\n{}", ended.transcript()),
        // Killed, or the status of Open MPI 4.1 if that happened before its daemon knew the rank.
        Some(137 | 1) => assert!(!ended.text().contains("sum"), "seed {seed}: {arguments:?}\n{}", ended.transcript()),
        other => panic!("seed {seed}: {arguments:?}: status {other:?}\n{}", ended.transcript()),
    }
    ended.status.code() != Some(0)
}

/// Whether a process has the mark in its environment.
pub(crate) fn is_anyone_left(mark: &str) -> bool {
    let is_marked = |environment: &[u8]| environment.split(|&byte| byte == 0).any(|entry| entry == mark.as_bytes());
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .any(|process| fs::read(process.path().join("environ")).is_ok_and(|environment| is_marked(&environment)))
}
