//! The inputs of the service.

use crate::proto::{Lookup, Publish, Service, Unpublish};
use crate::server::Requester;
use crate::types::{Namespace, ProcId};

/// Identifies a request; chosen by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// The process behind a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Asker {
    /// The process, with the ids of the kernel.
    pub requester: Requester,
    /// Whether it is a tool. Its connection is all of its job.
    pub is_tool: bool,
}

/// One of the three requests.
#[derive(Clone, Debug, PartialEq)]
pub enum NameRequest {
    /// Publish data.
    Publish(Publish),
    /// Find data.
    Lookup(Lookup),
    /// Withdraw data.
    Unpublish(Unpublish),
}

/// An event for [`Names`](super::Names).
#[derive(Clone, Debug, PartialEq)]
pub enum NameInput {
    /// A request. Its end is an answer, or [`NameInput::Cancelled`].
    Request(RequestId, Asker, NameRequest),
    /// Nobody waits for the answer to this request any more.
    Cancelled(RequestId),
    /// A process has ended, or its last connection.
    ProcessEnded(ProcId),
    /// A job has ended.
    JobEnded(Namespace),
    /// Processes reach others than before, for example because their jobs have connected.
    TiesChanged,
    /// The moment of [`Names::poll_timeout`](super::Names::poll_timeout) has come.
    Timeout,
}

impl NameRequest {
    /// The request, if the service is one of the three.
    ///
    /// # Errors
    /// Gives any other service back.
    pub fn of(service: Service) -> Result<Self, Box<Service>> {
        match service {
            Service::Publish(request) => Ok(Self::Publish(request)),
            Service::Lookup(request) => Ok(Self::Lookup(request)),
            Service::Unpublish(request) => Ok(Self::Unpublish(request)),
            other => Err(Box::new(other)),
        }
    }
}
