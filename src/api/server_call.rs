//! Calls of a server's core, as operations.

use crate::runtime::OwnProcess;
use crate::server::{HostCall, HostResult};

use super::pending::Operation;
use super::pending::sealed::Sealed;
use super::server::ServerError;

/// One call of a server's core, as an operation whose result is a `T`.
pub struct ServerCall<T> {
    own: OwnProcess,
    begin: Box<dyn FnOnce() -> Begun<T> + Send>,
}

/// An operation after its begin.
pub(super) enum Begun<T> {
    /// The core has the result.
    Call(HostCall, Read<T>),
    /// The core has nothing to do.
    Over(T),
}

/// Reads the core's result.
pub(super) type Read<T> = Box<dyn FnOnce(HostResult) -> Result<T, ServerError> + Send>;

impl<T: Send + 'static> ServerCall<T> {
    /// An operation that is one call.
    pub(super) fn new(
        own: OwnProcess,
        call: HostCall,
        read: impl FnOnce(HostResult) -> Result<T, ServerError> + Send + 'static,
    ) -> Self {
        Self::begin(own, move || Begun::Call(call, Box::new(read)))
    }

    /// An operation that begins with `begin`.
    pub(super) fn begin(own: OwnProcess, begin: impl FnOnce() -> Begun<T> + Send + 'static) -> Self {
        Self { own, begin: Box::new(begin) }
    }
}

impl<T> Sealed for ServerCall<T> {}

impl<T: Send + 'static> Operation for ServerCall<T> {
    type Output = T;
    type Error = ServerError;

    fn run(self) -> Result<T, ServerError> {
        match (self.begin)() {
            Begun::Call(call, read) => read(self.own.call(call)?),
            Begun::Over(result) => Ok(result),
        }
    }

    fn run_with(self, callback: impl FnOnce(Result<T, ServerError>) + Send + 'static) -> Result<(), ServerError> {
        match (self.begin)() {
            Begun::Call(call, read) => Ok(self.own.call_with(call, Box::new(move |result| callback(read(result))))?),
            Begun::Over(result) => Ok(self.own.run(Box::new(move || callback(Ok(result))))?),
        }
    }
}
