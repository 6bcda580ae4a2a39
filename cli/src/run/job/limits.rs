//! The time that spawned jobs may run (`PMIX_JOB_TIMEOUT`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use modex::types::Time;
use rustix::process::Signal;

use super::LaunchedJob;
use crate::run::rank_id::RankId;
use crate::run::verdict::EndRequest;

/// The jobs with a time limit.
#[derive(Debug, Default)]
pub(super) struct RunLimits {
    /// When each job ends, and its limit.
    running: BTreeMap<u32, (Time, Duration)>,
    /// The jobs that end because of their limit.
    overdue: BTreeMap<u32, Duration>,
}

impl RunLimits {
    /// A job has started.
    pub(super) fn start(&mut self, job: u32, now: Time, limit: Duration) {
        self.running.insert(job, (now + limit, limit));
    }

    /// When the next job has to end.
    pub(super) fn next_tick(&self) -> Option<Time> {
        self.running.values().map(|(at, _)| *at).min()
    }

    /// The limit of a job that ends because of it.
    pub(super) fn overdue(&self, job: u32) -> Option<Duration> {
        self.overdue.get(&job).copied()
    }

    fn take_due(&mut self, now: Time) -> Vec<(u32, Duration)> {
        let due: Vec<_> = self.running.extract_if(.., |_, (at, _)| *at <= now).collect();
        due.into_iter().map(|(job, (_, limit))| (job, limit)).collect()
    }

    /// A job ends because of its limit.
    fn note_overdue(&mut self, job: u32, limit: Duration) {
        self.overdue.insert(job, limit);
    }

    /// Forgets a job.
    pub(super) fn remove(&mut self, job: u32) {
        self.running.remove(&job);
        self.overdue.remove(&job);
    }
}

impl LaunchedJob {
    /// Ends the jobs that have had their time. Other jobs go on.
    pub(super) fn end_overdue(&mut self) {
        let now = self.clock.now();
        for (job, limit) in self.run_limits.take_due(now) {
            let of_job = |rank: &RankId| rank.job == job;
            let targets: BTreeSet<RankId> = self.verdict.running_ranks().filter(of_job).collect();
            if targets.is_empty() || self.verdict.is_stopped() {
                continue;
            }
            self.run_limits.note_overdue(job, limit);
            let (limit, grace) = (limit.as_secs_f64(), self.verdict.grace());
            let ranks = if targets.len() == 1 { "rank gets" } else { "ranks get" };
            let (count, time) = (targets.len(), grace.as_secs_f64());
            self.say(&format!(
                "modex: job {job} exceeded its time limit of {limit} s; its {count} {ranks} {time} s to end\n"
            ));
            self.verdict.dismiss(&targets);
            let by = "the time limit of its job";
            targets.iter().for_each(|rank| {
                self.verdict.note_request(*rank, EndRequest { by: by.to_owned(), signal: None });
            });
            self.terminate(&targets, now + grace);
        }
    }

    /// Asks ranks to end, and kills them when their time is over. A process that can't be signalled is no reason to
    /// spare the others.
    fn terminate(&mut self, targets: &BTreeSet<RankId>, until: Time) {
        self.terminations.add(targets, until);
        let _ = self.children.signal_trees(targets, Signal::TERM);
        if self.has_paused_ranks {
            // A paused process gets its signal when it goes on.
            let _ = self.children.signal_trees(targets, Signal::CONT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_overdue_once_and_until_it_is_forgotten() {
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        let mut limits = RunLimits::default();
        limits.start(1, at(1), Duration::from_secs(2));
        limits.start(2, at(1), Duration::from_secs(9));
        assert_eq!((limits.next_tick(), limits.take_due(at(2))), (Some(at(3)), vec![]));
        assert_eq!(limits.take_due(at(3)), [(1, Duration::from_secs(2))]);
        assert_eq!(limits.overdue(1), None, "its ranks may have ended");
        limits.note_overdue(1, Duration::from_secs(2));
        assert_eq!((limits.overdue(1), limits.overdue(2)), (Some(Duration::from_secs(2)), None));
        limits.remove(1);
        assert_eq!((limits.overdue(1), limits.next_tick()), (None, Some(at(10))));
    }
}
