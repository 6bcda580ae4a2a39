//! The pulls of each user and process, counted for their bounds.

use std::collections::BTreeMap;

use super::output_pull::OutputPull;
use crate::types::ProcId;

/// The pulls of each user and process. Output of spawned jobs does not count.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PullShares {
    all: PullShare,
    users: BTreeMap<u32, PullShare>,
    processes: BTreeMap<ProcId, usize>,
}

/// A number of pulls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PullShare {
    pub(crate) pulls: usize,
    /// The processes in them.
    pub(crate) procs: usize,
}

impl PullShares {
    pub(crate) const fn all(&self) -> PullShare {
        self.all
    }

    pub(crate) fn of_user(&self, uid: u32) -> PullShare {
        self.users.get(&uid).copied().unwrap_or_default()
    }

    /// Number of pulls of a process.
    pub(crate) fn of_process(&self, proc: &ProcId) -> usize {
        self.processes.get(proc).copied().unwrap_or_default()
    }

    pub(super) fn add(&mut self, pull: &OutputPull) {
        if pull.is_of_spawn {
            return;
        }
        for share in [&mut self.all, self.users.entry(pull.requester.uid).or_default()] {
            share.pulls = share.pulls.saturating_add(1);
            share.procs = share.procs.saturating_add(pull.procs.len());
        }
        let of_process = self.processes.entry(pull.requester.proc.clone()).or_default();
        *of_process = of_process.saturating_add(1);
    }

    pub(super) fn remove(&mut self, pull: &OutputPull) {
        if pull.is_of_spawn {
            return;
        }
        for share in self.users.get_mut(&pull.requester.uid).into_iter().chain([&mut self.all]) {
            share.pulls = share.pulls.saturating_sub(1);
            share.procs = share.procs.saturating_sub(pull.procs.len());
        }
        if self.of_user(pull.requester.uid) == PullShare::default() {
            self.users.remove(&pull.requester.uid);
        }
        if let Some(of_process) = self.processes.get_mut(&pull.requester.proc) {
            *of_process = of_process.saturating_sub(1);
            if *of_process == 0 {
                self.processes.remove(&pull.requester.proc);
            }
        }
    }
}
