//! The number of pulls for each process and channel. The host has to know of them, so those of its own process do not
//! count.

use std::collections::BTreeMap;

use super::output_pull::OutputPull;
use crate::types::{Namespace, ProcId, Rank};

/// The number of pulls for each process and channel.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct WantedOutput {
    jobs: BTreeMap<Namespace, WantedOfJob>,
}

/// Number of pulls for a job's output.
#[derive(Debug, Default, PartialEq, Eq)]
struct WantedOfJob {
    of_any: Counts,
    of_rank: BTreeMap<Rank, Counts>,
}

/// Number of pulls for each channel, by the number of its bit.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts([usize; u16::BITS as usize]);

impl WantedOutput {
    /// Number of jobs.
    pub(super) fn len(&self) -> usize {
        self.jobs.len()
    }

    pub(super) fn add(&mut self, pull: &OutputPull) {
        for proc in pull.procs.iter().filter(|_| pull.peer.is_some()) {
            let wanted = self.jobs.entry(proc.namespace.clone()).or_default();
            wanted.of_any.change(pull.channels, 1);
            wanted.of_rank.entry(proc.rank).or_default().change(pull.channels, 1);
        }
    }

    pub(super) fn remove(&mut self, pull: &OutputPull) {
        if pull.peer.is_some() {
            pull.procs.iter().for_each(|proc| self.remove_process(proc, pull.channels));
        }
    }

    fn remove_process(&mut self, proc: &ProcId, channels: u16) {
        let Some(wanted) = self.jobs.get_mut(&proc.namespace) else { return };
        wanted.of_any.change(channels, -1);
        if let Some(counts) = wanted.of_rank.get_mut(&proc.rank) {
            counts.change(channels, -1);
            if *counts == Counts::default() {
                wanted.of_rank.remove(&proc.rank);
            }
        }
        if wanted.of_rank.is_empty() {
            self.jobs.remove(&proc.namespace);
        }
    }

    /// Whether any pull wants one of these channels of a process. A wildcard rank means any process of the job.
    pub(super) fn has_any(&self, proc: &ProcId, channels: u16) -> bool {
        let of_any = || self.jobs.get(&proc.namespace).is_some_and(|job| job.of_any.has(channels));
        if proc.rank == Rank::Wildcard { of_any() } else { self.has_all_of(proc, channels) }
    }

    /// Whether pulls want all that a pull wants.
    pub(super) fn covers(&self, pull: &OutputPull) -> bool {
        let mut channels = (0..u16::BITS).map(|bit| 1 << bit).filter(|channel| pull.channels & channel != 0);
        channels.all(|channel| pull.procs.iter().all(|proc| self.has_all_of(proc, channel)))
    }

    /// Whether pulls want one of these channels of a process. A wildcard rank means all processes of the job.
    fn has_all_of(&self, proc: &ProcId, channels: u16) -> bool {
        let Some(job) = self.jobs.get(&proc.namespace) else { return false };
        let has = |rank: Rank| job.of_rank.get(&rank).is_some_and(|counts| counts.has(channels));
        has(proc.rank) || has(Rank::Wildcard)
    }
}

impl Counts {
    fn change(&mut self, channels: u16, by: isize) {
        for count in self.of(channels) {
            *count = count.saturating_add_signed(by);
        }
    }

    fn of(&mut self, channels: u16) -> impl Iterator<Item = &mut usize> {
        self.0.iter_mut().enumerate().filter(move |(bit, _)| channels & (1 << bit) != 0).map(|(_, count)| count)
    }

    fn has(&self, channels: u16) -> bool {
        self.0.iter().enumerate().any(|(bit, &count)| channels & (1 << bit) != 0 && count > 0)
    }
}
