use crate::client::CallError;
use crate::events::RegistrationError;
use crate::types::{AsStatus, Status};

/// Why a call about event handlers failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum EventError {
    /// The registration is invalid, or its place in the chain is taken.
    #[error(transparent)]
    Registration(#[from] RegistrationError),
    /// The server refused or did not answer.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The server in this process, or its host, refused.
    #[error("the event can't be registered or passed on: {0}")]
    Refused(Status),
    /// The call would wait for the host inside a function of the host.
    #[error(
        "a function of the host can't wait for the host to register events of the environment; register with a callback"
    )]
    WouldBlock,
    /// The server in this process has ended.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// No thread could be started for handlers and callbacks. Nothing has begun.
    #[error("no thread for event handlers can be started: {}", .0)]
    Thread(std::io::ErrorKind),
}

impl AsStatus for EventError {
    fn status(&self) -> Status {
        match self {
            Self::Registration(error) => error.status(),
            Self::Call(error) => error.status(),
            Self::Refused(status) => *status,
            Self::WouldBlock => Status::ERR_WOULD_BLOCK,
            Self::Stopped(_) => Status::ERR_SERVER_NOT_AVAIL,
            Self::Thread(_) => Status::ERR_OUT_OF_RESOURCE,
        }
    }
}

/// The server has ended, or ended before it answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the server has ended")]
pub struct Stopped;
