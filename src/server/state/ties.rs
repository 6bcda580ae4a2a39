//! The ties of processes to other jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::signature::Participants;
use crate::types::{Namespace, ProcId, Text};

/// A reason why processes of several jobs are tied.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tie {
    /// They are connected: the participants as written.
    Connection(Participants),
    /// They are in a group of this name. Several groups may have it.
    Group(Text, u64),
    /// A process claims to be in a group of this name, formed by invitation. The others may not know of it.
    Claim(Text, u64),
    /// A process has started this job.
    Spawn(Namespace),
}

/// The relation of a process to another job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Bond {
    /// Connected, in one group, or started by that job.
    Other,
    /// The process has started the job.
    Child,
}

/// Jobs of a tie, including the process's own.
pub(crate) type Jobs = Arc<BTreeSet<Namespace>>;

/// A change of what a connection may map.
#[derive(Clone, Debug)]
pub(crate) enum Handover {
    /// It gets the segment of this job.
    Give(Namespace),
    /// It must forget the segment of this job.
    Take(Namespace),
}

/// All ties of the local processes.
#[derive(Debug, Default)]
pub(crate) struct Ties {
    of_process: BTreeMap<ProcId, BTreeMap<Tie, Jobs>>,
    last_group: u64,
    /// Changes with each new tie.
    revision: u64,
}

/// Jobs that local processes may no longer read.
pub(crate) type Lost = Vec<(ProcId, Namespace)>;

impl Ties {
    /// Number of processes with ties.
    pub(crate) fn len(&self) -> usize {
        self.of_process.len()
    }

    /// The sets with which a process is connected.
    pub(crate) fn connections_of(&self, proc: &ProcId) -> impl Iterator<Item = &Participants> {
        self.of(proc).filter_map(|(tie, _)| if let Tie::Connection(procs) = tie { Some(procs) } else { None })
    }

    /// Number of a process's ties.
    pub(crate) fn count(&self, proc: &ProcId) -> usize {
        self.of_process.get(proc).map_or(0, BTreeMap::len)
    }

    pub(crate) fn of(&self, proc: &ProcId) -> impl Iterator<Item = (&Tie, &Jobs)> {
        self.of_process.get(proc).into_iter().flatten()
    }

    /// A number that changes with each new tie.
    pub(crate) const fn revision(&self) -> u64 {
        self.revision
    }

    /// The processes with ties, and their ties.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&ProcId, &BTreeMap<Tie, Jobs>)> {
        self.of_process.iter()
    }

    /// A number for a group.
    pub(crate) const fn next_group(&mut self) -> u64 {
        self.last_group = self.last_group.saturating_add(1);
        self.last_group
    }

    /// Adds a tie of a process.
    pub(crate) fn insert(&mut self, proc: &ProcId, tie: &Tie, jobs: &Jobs) {
        self.revision = self.revision.wrapping_add(1);
        self.of_process.entry(proc.clone()).or_default().insert(tie.clone(), Arc::clone(jobs));
    }

    /// Drops all ties to a removed job, and all ties of its processes.
    pub(crate) fn forget_namespace(&mut self, namespace: &Namespace) {
        self.of_process.retain(|proc, ties| {
            ties.retain(|_, jobs| {
                if !jobs.contains(namespace) {
                    return true;
                }
                *jobs = Arc::new(jobs.iter().filter(|job| *job != namespace).cloned().collect());
                jobs.iter().any(|job| *job != proc.namespace)
            });
            proc.namespace != *namespace && !ties.is_empty()
        });
    }

    /// Jobs that a process may read besides its own.
    pub(crate) fn reach(&self, proc: &ProcId) -> BTreeSet<Namespace> {
        let jobs = self.of(proc).flat_map(|(_, jobs)| jobs.iter());
        jobs.filter(|namespace| **namespace != proc.namespace).cloned().collect()
    }

    pub(crate) fn reaches(&self, proc: &ProcId, namespace: &Namespace) -> bool {
        *namespace != proc.namespace && self.of(proc).any(|(_, jobs)| jobs.contains(namespace))
    }

    /// The strongest bond of a process to another job. A claim counts if a process of that job has the same claim.
    pub(crate) fn bond(&self, proc: &ProcId, namespace: &Namespace) -> Option<Bond> {
        let about_it = self.of(proc).filter(|(_, jobs)| jobs.contains(namespace));
        let bonds = about_it.filter_map(|(tie, _)| match tie {
            Tie::Spawn(child) if child == namespace => Some(Bond::Child),
            Tie::Claim(id, _) => self.is_claimed(id, namespace, &proc.namespace).then_some(Bond::Other),
            Tie::Spawn(_) | Tie::Connection(_) | Tie::Group(..) => Some(Bond::Other),
        });
        bonds.max()
    }

    /// Whether a process of one job claims to be in a group with another job.
    fn is_claimed(&self, id: &Text, by: &Namespace, with: &Namespace) -> bool {
        let first = ProcId::new(by.clone(), 0);
        let of_job = self.of_process.range(first..).take_while(|(proc, _)| proc.namespace == *by);
        let mut ties = of_job.flat_map(|(_, ties)| ties);
        ties.any(|(tie, jobs)| matches!(tie, Tie::Claim(name, _) if name == id) && jobs.contains(with))
    }

    /// Removes processes from the ties that match.
    pub(crate) fn part(&mut self, procs: &BTreeSet<ProcId>, is_meant: impl Fn(&Tie, &Jobs) -> bool) -> Lost {
        let mut lost = Vec::new();
        for proc in procs {
            let before = self.reach(proc);
            let Some(ties) = self.of_process.get_mut(proc) else { continue };
            ties.retain(|tie, jobs| !is_meant(tie, jobs));
            if ties.is_empty() {
                self.of_process.remove(proc);
            }
            let after = self.reach(proc);
            lost.extend(before.into_iter().filter(|name| !after.contains(name)).map(|name| (proc.clone(), name)));
        }
        lost
    }

    /// The processes of other jobs that are tied to a job.
    pub(crate) fn readers_of(&self, namespace: &Namespace) -> Vec<ProcId> {
        self.of_process.keys().filter(|proc| self.reaches(proc, namespace)).cloned().collect()
    }
}
