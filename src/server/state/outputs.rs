//! Pending outputs, and the duties to answer.

use std::collections::{BTreeMap, VecDeque};

use crate::proto::{Reply, Tag};
use crate::server::interface::{Answer, HostCallId, HostData, HostResult, Output, PeerId};
use crate::types::Status;

/// The duty to answer one accepted request. Other code can't copy or make it, so it is spent exactly once: by
/// [`Outputs::reply`], or by [`Outputs::forget`] when the connection has ended.
#[derive(Debug)]
#[must_use = "every accepted request is answered exactly once"]
pub(crate) struct Ticket {
    peer: PeerId,
    tag: Tag,
}

impl Ticket {
    pub(crate) const fn peer(&self) -> PeerId {
        self.peer
    }
}

/// The duty to complete one call of the host.
#[derive(Debug)]
#[must_use = "every call of the host is completed exactly once"]
pub(crate) struct CallTicket {
    call: HostCallId,
}

/// Pending outputs, in order, and the number of open duties.
#[derive(Debug, Default)]
pub(crate) struct Outputs {
    queue: VecDeque<Output>,
    open_requests: BTreeMap<PeerId, usize>,
    open_calls: usize,
}

impl Outputs {
    pub(crate) fn push(&mut self, output: Output) {
        self.queue.push_back(output);
    }

    /// Number of outputs of this input so far.
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn pop(&mut self) -> Option<Output> {
        self.queue.pop_front()
    }

    pub(crate) fn accept(&mut self, peer: PeerId, tag: Tag) -> Ticket {
        let open = self.open_requests.entry(peer).or_default();
        *open = open.saturating_add(1);
        Ticket { peer, tag }
    }

    pub(crate) fn answer(&mut self, ticket: Ticket, answer: Answer) {
        self.queue.push_back(Output::Answer(ticket.peer, ticket.tag, answer));
        self.forget(ticket);
    }

    pub(crate) fn reply(&mut self, ticket: Ticket, reply: Reply) {
        self.answer(ticket, Answer::Reply(reply));
    }

    pub(crate) fn reply_status(&mut self, ticket: Ticket, status: Status) {
        self.reply(ticket, Reply::Status(status));
    }

    /// Spends a ticket whose connection has ended.
    pub(crate) fn forget(&mut self, ticket: Ticket) {
        let Ticket { peer, tag: _ } = ticket;
        if let Some(open) = self.open_requests.get_mut(&peer) {
            *open = open.saturating_sub(1);
            if *open == 0 {
                self.open_requests.remove(&peer);
            }
        }
    }

    pub(crate) fn accept_call(&mut self, call: HostCallId) -> CallTicket {
        self.open_calls = self.open_calls.saturating_add(1);
        CallTicket { call }
    }

    pub(crate) fn complete(&mut self, ticket: CallTicket, result: HostResult) {
        self.complete_with(ticket, result.into());
    }

    /// Completes a call with data that the host's thread reads.
    pub(crate) fn complete_later(&mut self, ticket: CallTicket, data: HostData) {
        self.complete_with(ticket, HostResult::Entries(data));
    }

    fn complete_with(&mut self, ticket: CallTicket, result: HostResult<HostData>) {
        let CallTicket { call } = ticket;
        self.open_calls = self.open_calls.saturating_sub(1);
        self.queue.push_back(Output::Complete(call, result));
    }

    pub(crate) fn open_requests_of(&self, peer: PeerId) -> usize {
        self.open_requests.get(&peer).copied().unwrap_or(0)
    }

    pub(crate) fn open_requests(&self) -> usize {
        self.open_requests.values().sum()
    }

    pub(crate) const fn open_calls(&self) -> usize {
        self.open_calls
    }
}
