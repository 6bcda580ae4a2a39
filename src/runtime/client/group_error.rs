//! Failures of groups by invitation.

use super::fetched::FetchError;
use crate::client::{CallError, DirectiveError};
use crate::runtime::shared::event_error::EventError;
use crate::types::{AsStatus, Namespace, ProcId, Status};

/// Why a group was not formed, or why this process is not a member.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// The directives are invalid.
    #[error(transparent)]
    Directive(#[from] DirectiveError),
    /// The server refused or did not answer, or no thread could be started.
    #[error(transparent)]
    Event(#[from] EventError),
    /// No process was invited, or one with an empty namespace, which names no process.
    #[error("an invitation to group {id:?} names no process; name the processes to invite")]
    NobodyInvited {
        /// The group's name.
        id: String,
    },
    /// The answer to an invitation names a leader with an empty namespace, which names no process.
    #[error("the leader of group {id:?} has an empty namespace; name the source of the invitation, or pass no leader")]
    NobodyLeads {
        /// The group's name.
        id: String,
    },
    /// A whole job was invited, but its size is unknown.
    #[error(
        "the processes of {namespace} can't be invited as a whole: their number is unknown ({error}); name each \
     process"
    )]
    UnknownJob {
        /// The job.
        namespace: Namespace,
        /// Why.
        error: FetchError,
    },
    /// Some of the invited processes did not join.
    #[error("the construction of group {id:?} was aborted{}", because_of(.refused))]
    Aborted {
        /// The group's name.
        id: String,
        /// Processes that declined, ended or kept silent; only the leader knows them.
        refused: Vec<ProcId>,
    },
    /// The leader ended before the group was formed.
    #[error("{leader}, the leader of group {id:?}, has ended; the group is not formed")]
    LeaderLost {
        /// The group's name.
        id: String,
        /// The process that sent the invitation.
        leader: ProcId,
    },
    /// No such group exists, or this process is not a member.
    #[error("this process is in no group {id:?}")]
    NotAMember {
        /// The group's name.
        id: String,
    },
    /// A handler or callback would wait for events, but its own thread delivers them.
    #[error("a handler or callback can't wait for events; use the function with a callback")]
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
