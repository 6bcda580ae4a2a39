//! Processes that left the ranks' process group (`setsid`, daemons) and outlived their parents.
//!
//! The launcher makes itself their new parent, so that it can end them with the job. If the launcher itself is killed,
//! the guardian finds them (see `job_processes`).

use std::collections::BTreeSet;
use std::time::Duration;

use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::clock::Clock;
use super::guardian;
use crate::printing;

/// Ends them.
#[derive(Debug)]
pub(super) struct Orphans {
    /// Children of the launcher that do not belong to the job: the process may have had some before `exec`.
    others: BTreeSet<i32>,
}

impl Orphans {
    /// Orphans of the job become children of this process from now on. `guardian` is not one of them.
    pub(super) fn adopt(guardian: Pid) -> Self {
        // A kernel without this call leaves orphans to init.
        let _ = set_child_subreaper(true);
        let mut others = children();
        others.insert(guardian.as_raw());
        Self { others }
    }

    /// Reaps those that have ended, so that a daemon is no zombie until the launcher's end. `is_rank` tells the ranks,
    /// which are reaped with their jobs. The caller is the main thread: orphans become children of this thread, and
    /// programs that other threads have started are children of those.
    pub(super) fn reap_ended(&self, is_rank: impl Fn(i32) -> bool) {
        let this = std::process::id();
        let list = std::fs::read_to_string(format!("/proc/self/task/{this}/children")).unwrap_or_default();
        let children = list.split_whitespace().filter_map(|word| word.parse().ok());
        for child in children.filter(|child| !self.others.contains(child) && !is_rank(*child)) {
            // A process that has not ended stays.
            let _ = waitpid(Pid::from_raw(child), Some(WaitPidFlag::WNOHANG));
        }
    }

    /// Kills and reaps them, and every process that becomes an orphan by it. Some may stay in the end, with a line for
    /// the user.
    pub(super) fn end(&self) {
        let clock = Clock::start();
        let begun = clock.now();
        let spent = || clock.now().since(begun);
        let (mut known, mut are_new) = (BTreeSet::new(), false);
        while spent() < END_TIME_MAX {
            let orphans: BTreeSet<i32> = children().difference(&self.others).copied().collect();
            if orphans.is_empty() {
                return;
            }
            are_new = !orphans.is_subset(&known);
            // The newest ones first: of a chain of processes only the newest one lives.
            for orphan in orphans.iter().rev() {
                // A rank may have been a launcher itself. Its guardian cleans up after it and ends, unless it is
                // stopped, or another process holds its input.
                let may_clean_up = spent() < CLEANING_TIME_MAX && guardian::is_one(*orphan);
                let signal = if may_clean_up { Signal::SIGCONT } else { Signal::SIGKILL };
                // The process is a child until it is reaped, so its number can't belong to another process. Another
                // thread may have reaped a program that it had started.
                let _ = kill(Pid::from_raw(*orphan), signal);
            }
            if !reap(&orphans) {
                std::thread::sleep(PAUSE);
            }
            known = orphans;
        }
        let reason =
            if are_new { "start others faster than they can be killed" } else { "do not end when they are killed" };
        printing::complain(&format!("processes of the job {reason}; some stay"));
    }
}

/// Reaps those that have ended. Returns whether there is one.
fn reap(orphans: &BTreeSet<i32>) -> bool {
    let mut has_ended = false;
    for orphan in orphans {
        has_ended |= waitpid(Pid::from_raw(*orphan), Some(WaitPidFlag::WNOHANG)) != Ok(WaitStatus::StillAlive);
    }
    has_ended
}

/// The time for all orphans to end.
const END_TIME_MAX: Duration = Duration::from_secs(30);
/// The part of it for guardians to clean up.
const CLEANING_TIME_MAX: Duration = Duration::from_secs(20);
/// The time for killed processes to end.
const PAUSE: Duration = Duration::from_millis(1);

/// This process's children, of all its threads. Empty if the kernel does not list them.
fn children() -> BTreeSet<i32> {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return BTreeSet::new() };
    let lists = threads.flatten().filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>()).collect()
}
