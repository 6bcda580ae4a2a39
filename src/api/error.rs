use crate::client::{CallError, StagingError};
use crate::runtime::{ConnectError, EventError};
use crate::types::{AsStatus, Status};

use super::client::{FenceError, GetError};
use super::round_trip::RequestError;
use super::server_builder::BuildError;
use super::server_call::ServerError;

/// Any error of a [`Client`](crate::Client) or [`Server`](crate::Server), for callers that treat all alike.
///
/// ```no_run
/// use modex::types::{Rank, Scope};
/// use modex::{AsStatus, Client, FenceOptions, keys};
///
/// fn exchange() -> Result<u32, modex::Error> {
///     let client = Client::connect()?;
///     client.put(Scope::Global, "endpoint", "10.0.0.7:4711")?;
///     client.commit()?;
///     client.fence(&FenceOptions::new().collect(true)).wait()?;
///     Ok(client.get(Rank::Wildcard, keys::JOB_SIZE)?)
/// }
///
/// if let Err(error) = exchange() {
///     eprintln!("{error} ({})", error.status());
/// }
/// ```
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
#[non_exhaustive]
pub enum Error {
    /// No connection to a server.
    Connect(#[from] ConnectError),
    /// No value.
    Get(#[from] GetError),
    /// A value can't be put.
    Put(#[from] StagingError),
    /// A fence failed.
    Fence(#[from] FenceError),
    /// Another request failed.
    Request(#[from] RequestError),
    /// A commit, an abort or the leave failed.
    Call(#[from] CallError),
    /// Events are not available, or a notification failed.
    Event(#[from] EventError),
    /// No server.
    Build(#[from] BuildError),
    /// The server refused its host.
    Server(#[from] ServerError),
}

impl AsStatus for Error {
    fn status(&self) -> Status {
        match self {
            Self::Connect(error) => error.status(),
            Self::Get(error) => error.status(),
            Self::Put(error) => error.status(),
            Self::Fence(error) => error.status(),
            Self::Request(error) => error.status(),
            Self::Call(error) => error.status(),
            Self::Event(error) => error.status(),
            Self::Build(error) => error.status(),
            Self::Server(error) => error.status(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::Command;

    #[test]
    fn an_error_keeps_its_text_and_its_status() {
        let inner = CallError::Refused { command: Command::Commit, status: Status::ERR_NOT_FOUND };
        let error = Error::from(inner.clone());
        assert_eq!((error.to_string(), error.status()), (inner.to_string(), Status::ERR_NOT_FOUND));
    }
}
