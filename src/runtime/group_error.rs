//! Why a group by invitation did not come about.

use super::event_error::EventError;
use super::session::FetchError;
use crate::client::{CallError, DirectiveError};
use crate::gds::AsStatus;
use crate::types::{Namespace, ProcId, Status};

/// Why there is no group, or why a process is not in it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// The directives make no sense.
    #[error(transparent)]
    Directive(#[from] DirectiveError),
    /// The server could not be asked or refused, or no thread could be started.
    #[error(transparent)]
    Event(#[from] EventError),
    /// Nobody was invited, or a process with an empty namespace, which is nobody.
    #[error("an invitation to group {id:?} names nobody; name the processes to be invited")]
    NobodyInvited {
        /// The group's name.
        id: String,
    },
    /// An invitation was answered to a process with an empty namespace, which is nobody.
    #[error(
        "the leader of group {id:?} has an empty namespace, which is nobody; name the source of the invitation, or none"
    )]
    NobodyLeads {
        /// The group's name.
        id: String,
    },
    /// How many processes "all of a job" are is not known.
    #[error("all processes of {namespace} can't be invited: how many there are is not known ({error}); name them")]
    UnknownJob {
        /// The job.
        namespace: Namespace,
        /// Why.
        error: FetchError,
    },
    /// Not everybody who was invited is there.
    #[error("the construction of group {id:?} was aborted{}", because_of(.refused))]
    Aborted {
        /// The group's name.
        id: String,
        /// Who declined, ended or kept silent; the leader alone knows.
        refused: Vec<ProcId>,
    },
    /// The leader ended before there was a group.
    #[error("{leader}, who was to form group {id:?}, has ended; there will be no group")]
    LeaderLost {
        /// The group's name.
        id: String,
        /// Who invited.
        leader: ProcId,
    },
    /// There is no such group, or this process is not in it.
    #[error("this process is in no group {id:?}")]
    NotAMember {
        /// The group's name.
        id: String,
    },
    /// The thread of the handlers and callbacks can't wait for what comes by events.
    #[error("a handler or callback can't wait for what comes by events; use the function with a callback")]
    WouldBlock,
    /// The process has finalized meanwhile.
    #[error("the process left before the group was formed")]
    Closed,
}

fn because_of(refused: &[ProcId]) -> String {
    let names: Vec<String> = refused.iter().take(16).map(ToString::to_string).collect();
    if names.is_empty() { String::new() } else { format!(": without {}", names.join(", ")) }
}

impl AsStatus for GroupError {
    fn status(&self) -> Status {
        match self {
            Self::Directive(error) => error.status(),
            Self::Event(error) => error.status(),
            Self::NobodyInvited { .. } | Self::NobodyLeads { .. } | Self::UnknownJob { .. } => Status::ERR_BAD_PARAM,
            Self::Aborted { .. } => Status::GROUP_CONSTRUCT_ABORT,
            Self::LeaderLost { .. } => Status::GROUP_LEADER_FAILED,
            Self::NotAMember { .. } => Status::ERR_NOT_FOUND,
            Self::WouldBlock => Status::ERR_WOULD_BLOCK,
            Self::Closed => Status::ERR_LOST_CONNECTION,
        }
    }
}

impl From<CallError> for GroupError {
    fn from(error: CallError) -> Self {
        Self::Event(EventError::Call(error))
    }
}
