//! Calls of a server's core, as operations.

use std::sync::Arc;

use crate::runtime::{OwnProcess, Stopped};
use crate::server::{HostCall, HostResult};
use crate::types::{AsStatus, Namespace, ProcId, Status};

use super::pending::Operation;
use super::pending::sealed::Sealed;

/// One call of a server's core, as an operation whose result is a `T`.
///
/// ```no_run
/// # use modex::types::{Namespace, ProcId};
/// # async fn example(server: modex::Server) -> Result<(), Box<dyn std::error::Error>> {
/// let proc = ProcId::new(Namespace::new("job-1")?, 0);
/// server.register_client(&proc, 1000, 1000).wait()?;
/// // The callback runs on the thread of the host's functions.
/// server.deregister_client(&proc).then(|result| println!("{result:?}"))?;
/// server.register_client(&proc, 1000, 1000).await?;
/// # Ok(())
/// # }
/// ```
pub struct ServerCall<T> {
    own: Arc<OwnProcess>,
    begin: Box<dyn FnOnce() -> Begun<T> + Send>,
}

/// An operation after its begin.
pub(super) enum Begun<T> {
    /// The core has the result.
    Call(HostCall, Read<T>),
    /// The core has nothing to do.
    Over(Result<T, ServerError>),
}

/// Reads the core's result.
pub(super) type Read<T> = Box<dyn FnOnce(HostResult) -> Result<T, ServerError> + Send>;

impl<T: Send + 'static> ServerCall<T> {
    /// An operation that is one call.
    pub(super) fn new(
        own: Arc<OwnProcess>,
        call: HostCall,
        read: impl FnOnce(HostResult) -> Result<T, ServerError> + Send + 'static,
    ) -> Self {
        Self::begin(own, move || Begun::Call(call, Box::new(read)))
    }

    /// An operation that begins with `begin`.
    pub(super) fn begin(own: Arc<OwnProcess>, begin: impl FnOnce() -> Begun<T> + Send + 'static) -> Self {
        Self { own, begin: Box::new(begin) }
    }
}

impl ServerCall<()> {
    /// A call whose result is a status. `doing` names it in an error.
    pub(super) fn without_data(own: Arc<OwnProcess>, doing: &'static str, call: HostCall) -> Self {
        Self::new(own, call, move |result| done(doing, result))
    }
}

impl<T> Sealed for ServerCall<T> {}

impl<T: Send + 'static> Operation for ServerCall<T> {
    type Output = T;
    type Error = ServerError;

    fn run(self) -> Result<T, ServerError> {
        match (self.begin)() {
            Begun::Call(call, read) => read(self.own.call(call)?),
            Begun::Over(result) => result,
        }
    }

    fn run_with(self, callback: impl FnOnce(Result<T, ServerError>) + Send + 'static) -> Result<(), ServerError> {
        match (self.begin)() {
            Begun::Call(call, read) => Ok(self.own.call_with(call, Box::new(move |result| callback(read(result))))?),
            Begun::Over(result) => Ok(self.own.run(Box::new(move || callback(result)))?),
        }
    }
}

/// Reason of a failed call to the server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The server refused.
    #[error("the server can't {doing}: {reason}")]
    Refused {
        /// The refused action.
        doing: &'static str,
        /// The reason, as a status of the standard.
        status: Status,
        /// The reason for people: the wrong value of an object, and the remedy. Without details it is the status's
        /// name.
        reason: String,
    },
    /// The name does not stand for a single process.
    #[error("{proc} is not one process; name it by namespace and number")]
    NoProcess {
        /// The given name.
        proc: ProcId,
    },
    /// No job of this name is registered here.
    #[error("{namespace} is not registered with this server; register the job before its processes start")]
    UnknownJob {
        /// The job.
        namespace: Namespace,
    },
    /// The server has ended.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl AsStatus for ServerError {
    fn status(&self) -> Status {
        match self {
            Self::Refused { status, .. } => *status,
            Self::NoProcess { .. } => Status::ERR_BAD_PARAM,
            Self::UnknownJob { .. } => Status::ERR_INVALID_NAMESPACE,
            Self::Stopped(_) => Status::ERR_INIT,
        }
    }
}

pub(super) fn done(doing: &'static str, result: HostResult) -> Result<(), ServerError> {
    match result {
        HostResult::Status(Status::SUCCESS) | HostResult::Entries(_) => Ok(()),
        failure => Err(refused(doing, failure)),
    }
}

pub(super) fn refused(doing: &'static str, failure: HostResult) -> ServerError {
    match failure {
        HostResult::Failed { status, reason } => ServerError::Refused { doing, status, reason },
        HostResult::Status(status) => ServerError::Refused { doing, status, reason: status.to_string() },
        // Data is no failure, but an error where none is expected.
        HostResult::Entries(_) | HostResult::Answers(..) => {
            ServerError::Refused { doing, status: Status::ERROR, reason: "unexpected data".into() }
        }
    }
}
