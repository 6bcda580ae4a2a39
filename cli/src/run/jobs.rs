//! The jobs of one launcher: the job on the command line, and those that its ranks spawn.

use std::collections::BTreeMap;
use std::ops::Range;

use modex::types::{Namespace, ProcId};

use super::apps::App;
use super::plan::Plan;
use super::rank_id::{FIRST_JOB, RankId};

/// The jobs that run, by number.
#[derive(Debug)]
pub(super) struct Jobs {
    running: BTreeMap<u32, Job>,
    /// The number of the next spawned job.
    next: u32,
    /// The number of ranks of all jobs so far.
    rank_count: u32,
}

/// A job that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) namespace: Namespace,
    /// Its programs.
    pub(super) apps: Vec<App>,
    /// For each rank, the index of its program.
    pub(super) app_of_rank: Vec<usize>,
    /// Whether its output is kept for the process that spawned it.
    keeps_output: bool,
    /// Whether its ranks have one output.
    is_merged: bool,
    /// The process that spawned it and wants to hear of its end.
    awaited_by: Option<ProcId>,
    /// The tool that has its input.
    input_source: Option<ProcId>,
    /// The numbers of its ranks among all that run.
    node_ranks: Range<u32>,
    /// The index of the core of each rank, if ranks are bound.
    cores: Vec<usize>,
}

impl Job {
    pub(super) fn of(plan: &Plan) -> Self {
        let Plan { namespace, apps, app_of_rank, parent, is_awaited, .. } = plan.clone();
        let input_source = plan.feeder().cloned();
        let keeps_output = plan.io.kept_channels.contains(&true);
        let node_ranks = plan.node_rank_first..plan.node_rank_first.saturating_add(plan.rank_count());
        let cores = plan.core_of_rank.clone();
        Self {
            namespace,
            apps,
            app_of_rank,
            keeps_output,
            is_merged: plan.io.form.is_merged,
            awaited_by: parent.filter(|_| is_awaited),
            input_source,
            node_ranks,
            cores,
        }
    }
}

impl Jobs {
    /// The job on the command line.
    pub(super) fn new(first: &Plan) -> Self {
        Self {
            running: BTreeMap::from([(FIRST_JOB, Job::of(first))]),
            next: FIRST_JOB + 1,
            rank_count: first.rank_count(),
        }
    }

    /// A number that no job had before.
    pub(super) const fn next_number(&mut self) -> u32 {
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        number
    }

    /// The first of this many numbers that no rank of the launcher had before (`PMIX_GLOBAL_RANK`).
    pub(super) const fn global_ranks(&mut self, count: u32) -> u32 {
        let first = self.rank_count;
        self.rank_count = first.wrapping_add(count);
        first
    }

    /// The first of this many numbers in a row that no rank of a running job has (`PMIX_NODE_RANK`).
    pub(super) fn node_ranks(&self, count: u32) -> u32 {
        let mut taken: Vec<&Range<u32>> = self.running.values().map(|job| &job.node_ranks).collect();
        taken.sort_by_key(|ranks| ranks.start);
        let mut first = 0_u32;
        for ranks in taken {
            if ranks.start.saturating_sub(first) >= count {
                return first;
            }
            first = first.max(ranks.end);
        }
        first
    }

    /// The core of each rank of the jobs that run.
    pub(super) fn cores(&self) -> impl Iterator<Item = usize> {
        self.running.values().flat_map(|job| &job.cores).copied()
    }

    /// A job was started.
    pub(super) fn insert(&mut self, number: u32, job: Job) {
        self.running.insert(number, job);
    }

    /// A job has ended.
    pub(super) fn remove(&mut self, number: u32) -> Option<Job> {
        self.running.remove(&number)
    }

    /// Whether the output of a job is kept for the process that spawned it.
    pub(super) fn keeps_output(&self, number: u32) -> bool {
        self.running.get(&number).is_some_and(|job| job.keeps_output)
    }

    /// Whether directives give the ranks of a job one output.
    pub(super) fn is_merged(&self, number: u32) -> bool {
        self.running.get(&number).is_some_and(|job| job.is_merged)
    }

    /// The process that spawned a job and wants to hear of its end.
    pub(super) fn awaited_by(&self, number: u32) -> Option<&ProcId> {
        self.running.get(&number)?.awaited_by.as_ref()
    }

    /// The jobs whose input is that of a tool.
    pub(super) fn with_input_of(&self, tool: &ProcId) -> impl Iterator<Item = u32> {
        self.running.iter().filter(move |(_, job)| job.input_source.as_ref() == Some(tool)).map(|(number, _)| *number)
    }

    /// Whether this was the name of a job that runs no more.
    pub(super) fn has_ended(&self, namespace: &Namespace) -> bool {
        let first = self.namespace(FIRST_JOB).map(|first| first.as_str());
        let rest = first.and_then(|first| namespace.as_str().strip_prefix(first)?.strip_prefix('-'));
        let number = rest.and_then(|rest| rest.parse().ok());
        number.is_some_and(|number: u32| number < self.next && !self.running.contains_key(&number))
    }

    /// The name of a job that runs.
    pub(super) fn namespace(&self, number: u32) -> Option<&Namespace> {
        Some(&self.running.get(&number)?.namespace)
    }

    /// The number of a job that runs.
    pub(super) fn number(&self, namespace: &Namespace) -> Option<u32> {
        self.running.iter().find(|(_, job)| job.namespace == *namespace).map(|(number, _)| *number)
    }

    /// The jobs that run.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Job> {
        self.running.values()
    }

    /// The numbers of all jobs that run, by name.
    pub(super) fn numbers(&self) -> BTreeMap<Namespace, u32> {
        self.running.iter().map(|(number, job)| (job.namespace.clone(), *number)).collect()
    }

    /// A process, if it is a rank of these jobs.
    pub(super) fn rank(&self, proc: &ProcId) -> Option<RankId> {
        Some(RankId { job: self.number(&proc.namespace)?, rank: proc.rank.process()? })
    }

    /// Whether a job that runs has this rank.
    pub(super) fn has(&self, RankId { job, rank }: RankId) -> bool {
        let has = |job: &Job| usize::try_from(rank).is_ok_and(|rank| rank < job.app_of_rank.len());
        self.running.get(&job).is_some_and(has)
    }

    /// The program of a process, if it is a rank of these jobs.
    pub(super) fn app(&self, proc: &ProcId) -> Option<&App> {
        let RankId { job, rank } = self.rank(proc)?;
        let job = self.running.get(&job)?;
        job.apps.get(*job.app_of_rank.get(usize::try_from(rank).ok()?)?)
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

    /// A spawned job got the numbers behind the count of running ranks, and a core that was taken while another was
    /// free.
    #[test]
    fn a_job_gets_the_numbers_and_cores_that_an_ended_one_has_left() {
        let app = |count| vec![App { count, program: "true".into(), ..App::default() }];
        let mut plan = Plan::new(app(1), false).unwrap();
        plan.cores = Some((0..4).map(|core| vec![core]).collect());
        plan.choose_cores(std::iter::empty());
        let mut jobs = Jobs::new(&plan);
        let parent = ProcId::new(plan.namespace.clone(), 0);
        let spawn = |jobs: &mut Jobs, number: u32, count: u32| {
            let mut spawned = plan.spawned(number, parent.clone(), app(count)).unwrap();
            spawned.node_rank_first = jobs.node_ranks(count);
            spawned.choose_cores(jobs.cores());
            jobs.insert(number, Job::of(&spawned));
            (spawned.node_rank(0), spawned.core_of_rank.clone())
        };
        assert_eq!([1, 2].map(|number| spawn(&mut jobs, number, 1)), [(1, vec![1]), (2, vec![2])]);
        jobs.remove(1);
        assert_eq!(spawn(&mut jobs, 3, 1), (1, vec![1]));
        jobs.remove(3);
        assert_eq!(spawn(&mut jobs, 4, 2), (3, vec![1, 3]));
        assert_eq!(spawn(&mut jobs, 5, 1), (1, vec![0]));
    }

    #[test]
    fn ranks_are_found_by_the_names_of_their_jobs_while_these_run() {
        let name = |text| Namespace::new(text).unwrap();
        let app = |program: &str| App { count: 1, program: program.into(), ..App::default() };
        let mut plan = Plan::new(vec![app("first")], false).unwrap();
        plan.namespace = name("a");
        let mut jobs = Jobs::new(&plan);
        let number = jobs.next_number();
        assert_eq!((number, jobs.next_number()), (1, 2));
        assert_eq!((jobs.global_ranks(8), jobs.global_ranks(1)), (1, 9));
        let apps = vec![App { count: 7, ..app("one") }, app("other")];
        let mut spawned = plan.spawned(number, ProcId::new(name("a"), 0), apps).unwrap();
        assert_eq!(spawned.namespace, name("a-1"));
        spawned.namespace = name("b");
        jobs.insert(number, Job::of(&spawned));
        let rank = RankId { job: 1, rank: 7 };
        let proc = ProcId::new(name("b"), 7);
        assert_eq!((jobs.rank(&proc), jobs.proc(rank)), (Some(rank), Some(proc.clone())));
        assert_eq!(jobs.app(&proc).map(|app| &app.program), Some(&"other".into()));
        assert_eq!(jobs.rank(&ProcId::new(name("c"), 7)), None);
        assert_eq!(jobs.rank(&ProcId { namespace: name("b"), rank: Rank::Wildcard }), None);
        assert_eq!(jobs.remove(number).map(|job| job.namespace), Some(name("b")));
        assert_eq!((jobs.rank(&proc), jobs.number(&name("a"))), (None, Some(FIRST_JOB)));
    }
}
