use super::server_handle::Stopped;
use crate::client::CallError;
use crate::events::RegistrationError;
use crate::gds::AsStatus;
use crate::types::Status;

/// Why a call about event handlers failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum EventError {
    /// The registration makes no sense, or its place is taken.
    #[error(transparent)]
    Registration(#[from] RegistrationError),
    /// The server refused or could not be asked.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The server in this process, or its host, refused.
    #[error("the event can't be registered or passed on: {0}")]
    Refused(Status),
    /// The host is to be asked, and it is what waits.
    #[error(
        "a function of the host can't wait for the host to register events of the environment; register with a callback"
    )]
    WouldBlock,
    /// The server in this process has ended.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// No thread could be started for handlers and callbacks; nothing was begun.
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
