//! Names of the launcher's processes.

use std::fmt;

/// The number of the job on the command line. Jobs that ranks spawn follow.
pub(super) const FIRST_JOB: u32 = 0;

/// A rank of one of the launcher's jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RankId {
    /// The job's number.
    pub(super) job: u32,
    /// The rank in it.
    pub(super) rank: u32,
}

impl RankId {
    /// The short form at the beginning of its lines.
    pub(super) fn tag(self) -> String {
        let Self { job, rank } = self;
        if job == FIRST_JOB { rank.to_string() } else { format!("{job}:{rank}") }
    }
}

impl fmt::Display for RankId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { job, rank } = self;
        if *job == FIRST_JOB { write!(f, "rank {rank}") } else { write!(f, "rank {rank} of job {job}") }
    }
}
