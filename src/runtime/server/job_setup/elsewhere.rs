//! The question for fabric resources that the server lacks: an allocation request to the host or the scheduler, with
//! the lacking wishes and the job's layout.

use std::error::Error;
use std::sync::Arc;

use crate::keys;
use crate::types::{AsStatus, Info, Key, Namespace, Status};

/// Info that [`super::JobSetup::setup_application`] puts before all others: a version, a space, and the job. PRRTE
/// passes on the changes of the environment alone, so infos without the mark are taken, too.
pub(super) const MARK: &str = "modex.setup";
/// Version of the infos. A later version means something that this library would overlook.
pub(super) const VERSION: &str = "1";

/// Why a question got no answer.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unanswered {
    /// The server asks nobody: it is a scheduler's, it has a fabric, or it answers such a question.
    #[error(
        "This server asks no other one: it is a scheduler's, it has a fabric, or it answers the question of another server"
    )]
    NotAsked,
    /// The host allocates nothing, and no scheduler is reached.
    #[error(
        "The host has no function for allocations, and the scheduler can't be asked: {0}. Start it, or name its address in PMIX_SERVER_URI"
    )]
    NoScheduler(#[source] Arc<dyn Error + Send + Sync>),
    /// No server is reached at the given address.
    #[error("The server {address:?} of PMIX_SERVER_URI can't be asked: {error}. Start it, or correct the address")]
    Unreached {
        /// The address.
        address: String,
        /// The reason.
        #[source]
        error: Arc<dyn Error + Send + Sync>,
    },
    /// The host or the scheduler refused.
    #[error("The host or scheduler answered with {status}")]
    Refused {
        /// Its status.
        status: Status,
    },
    /// The answer did not come in time.
    #[error("The host or scheduler did not answer within {seconds} s; give it more time with PMIX_TIMEOUT")]
    TooSlow {
        /// The limit.
        seconds: u32,
    },
}

impl AsStatus for Unanswered {
    fn status(&self) -> Status {
        match self {
            Self::NotAsked | Self::NoScheduler(_) => Status::ERR_NOT_SUPPORTED,
            Self::Unreached { .. } => Status::ERR_UNREACH,
            Self::Refused { status } => *status,
            Self::TooSlow { .. } => Status::ERR_TIMEOUT,
        }
    }
}

/// Seconds in which the answer to a setup's question must come.
pub(crate) fn seconds_of(setup: &[Info]) -> u32 {
    let given = setup.iter().find(|info| info.key.as_str() == keys::TIMEOUT.name());
    given.and_then(|info| info.value.as_u32()).filter(|seconds| *seconds > 0).unwrap_or(SECONDS_MAX)
}

/// Time for an answer without a `PMIX_TIMEOUT`. A launch waits for it.
const SECONDS_MAX: u32 = 10;

/// The infos of the question: the job, the wishes, and the layout.
pub(super) fn question(namespace: &Namespace, infos: &[Info], lacking: &[&Info]) -> Vec<Info> {
    let mark = Info::new(Key::from_static(MARK), format!("{VERSION} {namespace}"));
    let job = Info::new(Key::from_static(keys::NSPACE.name()), namespace.as_str());
    let layout = infos.iter().filter(|info| PASSED_ON.contains(&info.key.as_str()));
    [mark, job].into_iter().chain(lacking.iter().copied().chain(layout).cloned()).collect()
}

/// The parts of the setup that place the job.
const PASSED_ON: [&str; 4] =
    [keys::NODE_MAP.name(), keys::PROC_MAP.name(), keys::JOB_INFO_ARRAY.name(), keys::PROC_INFO_ARRAY.name()];
