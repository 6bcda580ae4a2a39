use std::collections::BTreeMap;

use super::collective::OperationId;
use super::forwarding::Pull;
use super::host::UpcallId;
use super::host_request::AnswerForm;
use super::io::PeerId;
use super::outputs::Ticket;
use super::query::Questions;
use crate::types::{Key, Namespace, ProcId, Time};

/// The purpose of an upcall.
#[derive(Debug)]
pub(super) enum Purpose {
    ClientConnected(PeerId),
    ToolConnected(PeerId),
    ClientFinalized(Ticket),
    Abort(Ticket),
    Notify(Ticket),
    RegisterEvents,
    /// A request passed up unchanged.
    Passed(Ticket, Expected),
    Operation(OperationId),
    /// Values of a process that a fence waits for.
    MissedFence(OperationId, ProcId),
    DirectModex(Fetch),
}

/// The expected answer to a passed-up request.
#[derive(Debug)]
pub(super) enum Expected {
    /// The answer of a service.
    Answer(AnswerForm),
    /// Infos; this server answers what the host does not, as far as it can.
    Queries(Box<Questions>),
    /// Success, which grants this pull.
    Pull(Box<Pull>),
}

/// Data requested from the host. Equal requests share one upcall.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Fetch {
    pub(super) proc: ProcId,
    pub(super) key: Option<Key>,
}

/// One upcall without an answer.
#[derive(Debug)]
pub(super) struct PendingUpcall {
    pub(super) purpose: Purpose,
    pub(super) deadline: Option<Time>,
}

/// All upcalls without an answer.
#[derive(Debug, Default)]
pub(super) struct PendingUpcalls {
    pending: BTreeMap<UpcallId, PendingUpcall>,
    fetches: BTreeMap<Fetch, UpcallId>,
    last: u64,
}

impl PendingUpcalls {
    pub(super) fn insert(&mut self, purpose: Purpose, deadline: Option<Time>) -> UpcallId {
        self.last = self.last.saturating_add(1);
        let id = UpcallId(self.last);
        if let Purpose::DirectModex(fetch) = &purpose {
            self.fetches.insert(fetch.clone(), id);
        }
        self.pending.insert(id, PendingUpcall { purpose, deadline });
        id
    }

    /// A number for an upcall whose answer is not awaited.
    pub(super) fn unawaited(&mut self) -> UpcallId {
        self.last = self.last.saturating_add(1);
        UpcallId(self.last)
    }

    pub(super) fn remove(&mut self, id: UpcallId) -> Option<PendingUpcall> {
        let upcall = self.pending.remove(&id)?;
        if let Purpose::DirectModex(fetch) = &upcall.purpose {
            self.fetches.remove(fetch);
        }
        Some(upcall)
    }

    pub(super) fn get(&self, id: UpcallId) -> Option<&PendingUpcall> {
        self.pending.get(&id)
    }

    /// The open upcall for the same fetch.
    pub(super) fn fetching(&self, fetch: &Fetch) -> Option<UpcallId> {
        self.fetches.get(fetch).copied()
    }

    pub(super) fn fetch_count(&self) -> usize {
        self.fetches.len()
    }

    /// Upcalls made on behalf of a connection.
    pub(super) fn of_peer(&self, peer: PeerId) -> Vec<UpcallId> {
        let is_for = |upcall: &PendingUpcall| match &upcall.purpose {
            Purpose::ClientConnected(id) | Purpose::ToolConnected(id) => *id == peer,
            Purpose::ClientFinalized(ticket)
            | Purpose::Abort(ticket)
            | Purpose::Passed(ticket, _)
            | Purpose::Notify(ticket) => ticket.peer() == peer,
            Purpose::Operation(_) | Purpose::MissedFence(..) | Purpose::DirectModex(_) | Purpose::RegisterEvents => {
                false
            }
        };
        self.pending.iter().filter(|(_, upcall)| is_for(upcall)).map(|(id, _)| *id).collect()
    }

    /// Upcalls for the values that a fence must catch up with.
    pub(super) fn catching_up(&self, operation: OperationId) -> Vec<(UpcallId, ProcId)> {
        let of = |(id, upcall): (&UpcallId, &PendingUpcall)| match &upcall.purpose {
            Purpose::MissedFence(of, proc) if *of == operation => Some((*id, proc.clone())),
            _ => None,
        };
        self.pending.iter().filter_map(of).collect()
    }

    /// Upcalls that fetch data of a namespace.
    pub(super) fn fetches_of(&self, namespace: &Namespace) -> Vec<UpcallId> {
        self.fetches.iter().filter(|(fetch, _)| fetch.proc.namespace == *namespace).map(|(_, id)| *id).collect()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (UpcallId, &PendingUpcall)> {
        self.pending.iter().map(|(id, upcall)| (*id, upcall))
    }

    pub(super) fn len(&self) -> usize {
        self.pending.len()
    }
}
