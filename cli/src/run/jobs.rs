//! The jobs of one launcher: the job on the command line, and those that its ranks spawn.

use std::collections::BTreeMap;

use modex::types::{Namespace, ProcId};

use super::rank_id::{FIRST_JOB, RankId};

/// The jobs that run, by number.
#[derive(Debug)]
pub(super) struct Jobs {
    running: BTreeMap<u32, Job>,
    /// The number of the next spawned job.
    next: u32,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) namespace: Namespace,
    /// The process that wants to know when it ends.
    pub(super) awaited_by: Option<ProcId>,
}

impl Jobs {
    /// The job on the command line.
    pub(super) fn new(first: Namespace) -> Self {
        let first = Job { namespace: first, awaited_by: None };
        Self { running: BTreeMap::from([(FIRST_JOB, first)]), next: FIRST_JOB + 1 }
    }

    /// A number that no job had before.
    pub(super) const fn next_number(&mut self) -> u32 {
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        number
    }

    /// A job was started.
    pub(super) fn insert(&mut self, number: u32, job: Job) {
        self.running.insert(number, job);
    }

    /// A job has ended.
    pub(super) fn remove(&mut self, number: u32) -> Option<Job> {
        self.running.remove(&number)
    }

    /// The name of a job that runs.
    pub(super) fn namespace(&self, number: u32) -> Option<&Namespace> {
        Some(&self.running.get(&number)?.namespace)
    }

    /// The number of a job that runs.
    pub(super) fn number(&self, namespace: &Namespace) -> Option<u32> {
        self.running.iter().find(|(_, job)| job.namespace == *namespace).map(|(number, _)| *number)
    }

    /// A process, if it is a rank of these jobs.
    pub(super) fn rank(&self, proc: &ProcId) -> Option<RankId> {
        Some(RankId { job: self.number(&proc.namespace)?, rank: proc.rank.process()? })
    }

    /// The process of a rank of these jobs.
    pub(super) fn proc(&self, rank: RankId) -> Option<ProcId> {
        Some(ProcId::new(self.namespace(rank.job)?.clone(), rank.rank))
    }
}

#[cfg(test)]
mod tests {
    use modex::types::Rank;

    use super::*;

    #[test]
    fn ranks_are_found_by_the_names_of_their_jobs_while_these_run() {
        let name = |text| Namespace::new(text).unwrap();
        let mut jobs = Jobs::new(name("a"));
        let number = jobs.next_number();
        assert_eq!((number, jobs.next_number()), (1, 2));
        jobs.insert(number, Job { namespace: name("b"), awaited_by: None });
        let rank = RankId { job: 1, rank: 7 };
        let proc = ProcId::new(name("b"), 7);
        assert_eq!((jobs.rank(&proc), jobs.proc(rank)), (Some(rank), Some(proc.clone())));
        assert_eq!(jobs.rank(&ProcId::new(name("c"), 7)), None);
        assert_eq!(jobs.rank(&ProcId { namespace: name("b"), rank: Rank::Wildcard }), None);
        assert_eq!(jobs.remove(number).map(|job| job.namespace), Some(name("b")));
        assert_eq!((jobs.rank(&proc), jobs.number(&name("a"))), (None, Some(FIRST_JOB)));
    }
}
