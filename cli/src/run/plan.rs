//! The plan of a job: programs, ranks, and places, before any process is started.

use std::path::PathBuf;
use std::time::Duration;

use modex::output::FileDirectives;
use modex::types::{Info, Namespace, NamespaceError, ProcId};

use super::apps::{App, RANK_COUNT_MAX};
use super::children::Channel;
use super::cores::{self, CoresError};
use super::debug_stops::DebugStops;
use super::rank_id::{FIRST_JOB, RankId};
use super::spawn_output::OutputForm;

/// Why a job can't be planned.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlanError {
    /// Too many ranks.
    #[error("one launcher starts at most {RANK_COUNT_MAX} ranks, but {wanted} were requested; start fewer")]
    TooMany {
        /// The number of ranks requested.
        wanted: u64,
    },
    /// There is no core to bind to.
    #[error(transparent)]
    Cores(#[from] CoresError),
    /// The launcher's own name for the job was refused.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// The current directory is gone.
    #[error("cannot find the current directory: {0}")]
    Directory(#[from] std::io::Error),
}

/// Ranks that have a pipe as their standard input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum InputTargets {
    #[default]
    Nobody,
    One(u32),
    All,
}

/// Standard input and output of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct JobIo {
    pub(super) input: InputTargets,
    /// Whether the tool that spawned the job is the only one that feeds them: its end is theirs.
    pub(super) is_of_tool: bool,
    /// The form of its output.
    pub(super) form: OutputForm,
    /// The files that directives name for its output.
    pub(super) files: FileDirectives,
    /// Whether standard output and standard error are kept for the process that spawned the job.
    pub(super) kept_channels: [bool; 2],
    /// Whether this process gets them in place of the launcher's user.
    pub(super) is_redirected: bool,
}

/// A job to start.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Its number.
    pub(super) job: u32,
    /// The process that spawned it.
    pub(super) parent: Option<ProcId>,
    /// Whether this process wants to hear of the job's end.
    pub(super) is_awaited: bool,
    /// Values that the parent has given to the job, for its description.
    pub(super) values: Vec<Info>,
    /// The time that it may run.
    pub(super) run_limit: Option<Duration>,
    /// Where its ranks wait for a debugger.
    pub(super) stops: DebugStops,
    /// Its name.
    pub(super) namespace: Namespace,
    /// Its standard input and output.
    pub(super) io: JobIo,
    /// Its programs.
    pub(super) apps: Vec<App>,
    /// For each rank, the index of its program.
    pub(super) app_of_rank: Vec<usize>,
    /// Processors of each core, if ranks get bound to cores.
    pub(super) cores: Option<Vec<Vec<usize>>>,
    /// The number of its first rank among the ranks that run.
    pub(super) node_rank_first: u32,
    /// For each rank, the index of its core.
    pub(super) core_of_rank: Vec<usize>,
    /// The number of its first rank among all ranks of the launcher, also of ended jobs.
    pub(super) global_rank_first: u32,
    /// The start directory of programs without their own.
    pub(super) directory: PathBuf,
}

impl InputTargets {
    /// Whether a rank has a pipe.
    pub(super) fn has(self, rank: u32) -> bool {
        match self {
            Self::Nobody => false,
            Self::One(target) => rank == target,
            Self::All => true,
        }
    }
}

impl JobIo {
    /// Whether an output is kept for the process that spawned the job.
    pub(super) const fn keeps(&self, channel: Channel) -> bool {
        let [out, error] = self.kept_channels;
        match channel {
            Channel::Out => out,
            Channel::Error => error,
        }
    }
}

impl Plan {
    /// Ranks are numbered through the programs in the order given.
    pub(super) fn new(apps: Vec<App>, bind: bool) -> Result<Self, PlanError> {
        let wanted: u64 = apps.iter().map(|app| u64::from(app.count)).sum();
        if wanted > u64::from(RANK_COUNT_MAX) {
            return Err(PlanError::TooMany { wanted });
        }
        let mut plan = Self {
            job: FIRST_JOB,
            parent: None,
            is_awaited: false,
            values: Vec::new(),
            run_limit: None,
            stops: DebugStops::default(),
            io: JobIo::default(),
            namespace: Namespace::new(&format!("modex-{}", std::process::id()))?,
            core_of_rank: Vec::new(),
            app_of_rank: app_of_rank(&apps),
            apps,
            cores: if bind { Some(cores::cores()?) } else { None },
            node_rank_first: 0,
            global_rank_first: 0,
            directory: std::env::current_dir()?,
        };
        plan.choose_cores(std::iter::empty());
        Ok(plan)
    }

    /// Gives each rank the core with the fewest ranks, in turn. `taken` has the core of each rank that runs.
    pub(super) fn choose_cores(&mut self, taken: impl Iterator<Item = usize>) {
        let Some(cores) = self.cores.as_ref().filter(|cores| !cores.is_empty()) else { return };
        let mut loads = vec![0_usize; cores.len()];
        taken.for_each(|core| loads.iter_mut().skip(core).take(1).for_each(|load| *load += 1));
        self.core_of_rank = (0..self.app_of_rank.len())
            .map(|_| {
                let least = (0..).zip(&loads).min_by_key(|(_, load)| **load).map_or(0, |(core, _)| core);
                loads.iter_mut().skip(least).take(1).for_each(|load| *load += 1);
                least
            })
            .collect();
    }

    /// A job that a process of a running job has spawned.
    pub(super) fn spawned(&self, job: u32, parent: ProcId, apps: Vec<App>) -> Result<Self, NamespaceError> {
        Ok(Self {
            job,
            parent: Some(parent),
            is_awaited: false,
            values: Vec::new(),
            run_limit: None,
            stops: DebugStops::default(),
            io: JobIo::default(),
            namespace: Namespace::new(&format!("{}-{job}", self.namespace))?,
            app_of_rank: app_of_rank(&apps),
            apps,
            cores: self.cores.clone(),
            core_of_rank: Vec::new(),
            node_rank_first: 0,
            global_rank_first: 0,
            directory: self.directory.clone(),
        })
    }

    /// The tool whose end is the end of the ranks' input.
    pub(super) fn feeder(&self) -> Option<&ProcId> {
        self.parent.as_ref().filter(|_| self.io.is_of_tool)
    }

    /// Whether a namespace is the name of a job of this launcher, running or ended.
    pub(super) fn names(&self, namespace: &Namespace) -> bool {
        let rest = namespace.as_str().strip_prefix(self.namespace.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    }

    /// The number of its ranks.
    pub(super) fn rank_count(&self) -> u32 {
        u32::try_from(self.app_of_rank.len()).unwrap_or(u32::MAX)
    }

    /// Its ranks, and the index of the program of each.
    pub(super) fn ranks(&self) -> impl Iterator<Item = (RankId, usize)> {
        let job = self.job;
        (0u32..).zip(&self.app_of_rank).map(move |(rank, app)| (RankId { job, rank }, *app))
    }

    /// The number of ranks and the smaller number of cores that they share, if ranks are bound.
    pub(super) fn shared_cores(&self) -> Option<(usize, usize)> {
        let core_count = self.cores.as_ref()?.len();
        (self.app_of_rank.len() > core_count).then_some((self.app_of_rank.len(), core_count))
    }

    /// The number of a rank among those that run on this node (`PMIX_NODE_RANK`).
    pub(super) fn node_rank(&self, rank: u32) -> u16 {
        u16::try_from(self.node_rank_first.saturating_add(rank)).unwrap_or(u16::MAX)
    }

    /// The processors to which a rank is bound. If there are more ranks than cores, ranks share cores in turn.
    pub(super) fn place(&self, rank: u32) -> Option<&[usize]> {
        let cores = self.cores.as_deref()?;
        let core = *self.core_of_rank.get(usize::try_from(rank).ok()?)?;
        cores.get(core).map(Vec::as_slice)
    }
}

/// For each rank, the index of its program: ranks are numbered through the programs.
fn app_of_rank(apps: &[App]) -> Vec<usize> {
    let ranks = |(index, app): (usize, &App)| std::iter::repeat_n(index, usize::try_from(app.count).unwrap_or(0));
    apps.iter().enumerate().flat_map(ranks).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn app(count: u32) -> App {
        App { count, program: "true".into(), ..App::default() }
    }

    #[test]
    fn ranks_run_through_the_programs_in_order() {
        let plan = Plan::new(vec![app(2), app(1)], false).unwrap();
        assert_eq!(plan.app_of_rank, vec![0, 0, 1]);
        assert_eq!(plan.place(0), None);
    }

    /// A rank of an ended job was taken for a tool, and its request to end its job ended all jobs.
    #[test]
    fn the_names_of_its_jobs_are_known_after_their_end() {
        let plan = Plan::new(vec![app(1)], false).unwrap();
        let own = plan.namespace.as_str();
        let names = |name: &str| plan.names(&Namespace::new(name).unwrap());
        assert!(names(own) && names(&format!("{own}-7")));
        assert!(!names(&format!("{own}7")) && !names("tool-7"));
    }

    #[test]
    fn more_ranks_than_cores_share_them_in_turn() {
        let mut plan = Plan::new(vec![app(3)], false).unwrap();
        assert_eq!(plan.shared_cores(), None);
        plan.cores = Some(vec![vec![0, 1], vec![2]]);
        plan.choose_cores(std::iter::empty());
        assert_eq!(plan.shared_cores(), Some((3, 2)));
        assert_eq!(
            (plan.place(0), plan.place(1), plan.place(2)),
            (Some(&[0, 1][..]), Some(&[2][..]), Some(&[0, 1][..]))
        );
    }

    #[test]
    fn a_job_beyond_the_limit_is_refused() {
        assert!(Plan::new(vec![app(4096)], false).is_ok());
        assert!(matches!(Plan::new(vec![app(4096), app(1)], false), Err(PlanError::TooMany { wanted: 4097 })));
    }
}
