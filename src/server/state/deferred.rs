//! Requests that wait for the topology of the node.

use super::held_gets::RequestedData;
use super::operation::OperationId;
use super::outputs::{CallTicket, Ticket};
use super::questions::Questions;
use crate::server::interface::PeerId;
use crate::types::{ProcId, Time};

/// Requests that wait for the topology. The bound on a connection's requests bounds these.
#[derive(Debug, Default)]
pub(crate) struct Deferred {
    requests: Vec<DeferredRequest>,
    /// The time at which those that are left over want the topology again.
    next_step: Option<Time>,
}

#[derive(Debug)]
pub(crate) enum DeferredRequest {
    Queries(Ticket, Box<Questions>),
    Own(CallTicket, Box<RequestedData>),
    /// The generated values of a process, for its fence.
    Generated(OperationId, ProcId),
}

impl Deferred {
    /// Takes back the waiting requests of a connection.
    pub(crate) fn withdraw(&mut self, peer: PeerId) -> Vec<Ticket> {
        let is_of_peer = |request: &mut DeferredRequest| matches!(request, DeferredRequest::Queries(ticket, _) if ticket.peer() == peer);
        let withdrawn = self.requests.extract_if(.., is_of_peer);
        let ticket = |request| match request {
            DeferredRequest::Queries(ticket, _) => Some(ticket),
            DeferredRequest::Own(..) | DeferredRequest::Generated(..) => None,
        };
        withdrawn.filter_map(ticket).collect()
    }

    pub(crate) fn push(&mut self, request: DeferredRequest) {
        self.requests.push(request);
    }

    /// Takes all requests.
    pub(crate) fn take(&mut self) -> Vec<DeferredRequest> {
        std::mem::take(&mut self.requests)
    }

    pub(crate) fn waiting_peers(&self) -> impl Iterator<Item = PeerId> {
        self.requests.iter().filter_map(|request| match request {
            DeferredRequest::Queries(ticket, _) => Some(ticket.peer()),
            DeferredRequest::Own(..) | DeferredRequest::Generated(..) => None,
        })
    }

    pub(crate) const fn next_step(&self) -> Option<Time> {
        self.next_step
    }

    pub(crate) const fn set_next_step(&mut self, next_step: Option<Time>) {
        self.next_step = next_step;
    }

    pub(crate) const fn len(&self) -> usize {
        self.requests.len()
    }

    pub(crate) fn host_requests(&self) -> usize {
        self.requests.iter().filter(|request| matches!(request, DeferredRequest::Own(..))).count()
    }
}
