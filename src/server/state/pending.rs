//! Upcalls without an answer.

use std::collections::BTreeMap;

use super::events::HeldEvent;
use super::operation::OperationId;
use super::outputs::Ticket;
use super::questions::Questions;
use crate::proto::{AnswerForm, Monitor};
use crate::server::interface::{OutputSettings, PeerId, Requester, UpcallId};
use crate::types::{Info, Key, Namespace, ProcId, Time};

/// The purpose of an upcall.
#[derive(Debug)]
pub(crate) enum Purpose {
    ClientConnected(PeerId),
    ToolConnected(PeerId),
    ClientFinalized(Ticket),
    Abort(Ticket, AbortStage),
    /// An event, and what is left to do with it if the host agrees.
    Notify(Ticket, Option<Box<HeldEvent>>),
    /// An event whose raiser has ended. The others get it if the host agrees.
    OrphanedEvent(Box<HeldEvent>),
    RegisterEvents,
    /// A request passed up unchanged.
    Passed(Ticket, Expected),
    Operation(OperationId),
    /// Values of a process that a fence waits for.
    MissedFence(OperationId, ProcId),
    DirectModex(Fetch),
}

/// The stages of an abort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AbortStage {
    /// The host is asked to end other processes.
    OfOthers,
    /// The host is asked to end the caller, too.
    OfCaller,
    /// The host has agreed to end the caller.
    Ordered,
}

impl Purpose {
    /// The subject of the upcall, for the log.
    pub(crate) const fn subject(&self) -> &'static str {
        match self {
            Self::ClientConnected(_) => "a client that connects",
            Self::ToolConnected(_) => "a tool that connects",
            Self::ClientFinalized(_) => "a client that finalizes",
            Self::Abort(..) => "an abort",
            Self::Notify(..) | Self::OrphanedEvent(_) => "an event",
            Self::RegisterEvents => "a registration for events",
            Self::Passed(..) => "a request of a process",
            Self::Operation(_) => "a fence, connect, disconnect or group",
            Self::MissedFence(..) => "the values of a missed fence",
            Self::DirectModex(_) => "the values of a remote process",
        }
    }
}

/// The expected answer to a passed-up request.
#[derive(Debug)]
pub(crate) enum Expected {
    /// The answer of a service.
    Answer(AnswerForm),
    /// Infos; this server answers what the host does not, as far as it can.
    Queries(Box<Questions>),
    /// Values of the runtime for queries that the host has left.
    Looks(Box<Questions>),
    /// What the runtime has measured here, of a request that goes to other nodes, too.
    Share(Box<(Requester, Monitor)>),
    /// What other nodes have measured, beside these figures of this one.
    Rest(Vec<Info>),
    /// Success, which grants the pull that the host was asked for.
    Pull,
    /// The namespace of a job with these directives for its output.
    Spawned(SpawnedOutput),
}

/// Directives of a spawn for the output of its job.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SpawnedOutput {
    pub(crate) settings: OutputSettings,
    /// Channels that the spawner gets without a pull.
    pub(crate) channels: u16,
    /// Whether it gets them in place of their usual destination.
    pub(crate) is_redirect: bool,
    /// Whether tools that watch the spawner get the job's output.
    pub(crate) inherits: bool,
}

/// Data requested from the host. Equal requests share one upcall.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fetch {
    pub(crate) proc: ProcId,
    pub(crate) key: Option<Key>,
}

/// One upcall without an answer.
#[derive(Debug)]
pub(crate) struct PendingUpcall {
    pub(crate) purpose: Purpose,
    pub(crate) deadline: Option<Time>,
}

/// All upcalls without an answer.
#[derive(Debug, Default)]
pub(crate) struct PendingUpcalls {
    pending: BTreeMap<UpcallId, PendingUpcall>,
    fetches: BTreeMap<Fetch, UpcallId>,
    /// Fetches for missed fences, at most one for each process.
    missed_fence_fetches: BTreeMap<ProcId, UpcallId>,
    last: u64,
}

impl PendingUpcalls {
    pub(crate) fn insert(&mut self, purpose: Purpose, deadline: Option<Time>) -> UpcallId {
        self.last = self.last.saturating_add(1);
        let id = UpcallId(self.last);
        match &purpose {
            Purpose::DirectModex(fetch) => drop(self.fetches.insert(fetch.clone(), id)),
            Purpose::MissedFence(_, proc) => drop(self.missed_fence_fetches.insert(proc.clone(), id)),
            _ => {}
        }
        self.pending.insert(id, PendingUpcall { purpose, deadline });
        id
    }

    /// A number for an upcall whose answer is not awaited.
    pub(crate) fn unawaited(&mut self) -> UpcallId {
        self.last = self.last.saturating_add(1);
        UpcallId(self.last)
    }

    pub(crate) fn remove(&mut self, id: UpcallId) -> Option<PendingUpcall> {
        let upcall = self.pending.remove(&id)?;
        match &upcall.purpose {
            Purpose::DirectModex(fetch) => drop(self.fetches.remove(fetch)),
            Purpose::MissedFence(_, proc) => drop(self.missed_fence_fetches.remove(proc)),
            _ => {}
        }
        Some(upcall)
    }

    /// Sets the deadline of an upcall. Returns the previous one.
    pub(crate) fn postpone(&mut self, id: UpcallId, deadline: Option<Time>) -> Option<Time> {
        std::mem::replace(&mut self.pending.get_mut(&id)?.deadline, deadline)
    }

    pub(crate) fn get(&self, id: UpcallId) -> Option<&PendingUpcall> {
        self.pending.get(&id)
    }

    /// The open upcall for the same fetch.
    pub(crate) fn fetching(&self, fetch: &Fetch) -> Option<UpcallId> {
        self.fetches.get(fetch).copied()
    }

    /// The first open upcall for data of a process, for a Get or a missed fence.
    pub(crate) fn fetching_of(&self, proc: &ProcId) -> Option<UpcallId> {
        let from = Fetch { proc: proc.clone(), key: None };
        let of_get = self.fetches.range(from..).next().filter(|(fetch, _)| fetch.proc == *proc).map(|(_, id)| *id);
        of_get.or_else(|| self.missed_fence_fetches.get(proc).copied())
    }

    pub(crate) fn fetch_count(&self) -> usize {
        self.fetches.len()
    }

    /// Upcalls made on behalf of a connection.
    pub(crate) fn of_peer(&self, peer: PeerId) -> Vec<UpcallId> {
        let is_for = |upcall: &PendingUpcall| match &upcall.purpose {
            Purpose::ClientConnected(id) | Purpose::ToolConnected(id) => *id == peer,
            Purpose::ClientFinalized(ticket)
            | Purpose::Abort(ticket, _)
            | Purpose::Passed(ticket, _)
            | Purpose::Notify(ticket, _) => ticket.peer() == peer,
            Purpose::Operation(_)
            | Purpose::MissedFence(..)
            | Purpose::DirectModex(_)
            | Purpose::OrphanedEvent(_)
            | Purpose::RegisterEvents => false,
        };
        self.pending.iter().filter(|(_, upcall)| is_for(upcall)).map(|(id, _)| *id).collect()
    }

    /// The raiser of an event that waits for the host has ended. The event waits on without the raiser's request, which
    /// this returns.
    pub(crate) fn orphan_event(&mut self, id: UpcallId) -> Option<Ticket> {
        let upcall = self.pending.get_mut(&id)?;
        let purpose = std::mem::replace(&mut upcall.purpose, Purpose::RegisterEvents);
        let (ticket, purpose) = match purpose {
            Purpose::Notify(ticket, Some(held)) => (Some(ticket), Purpose::OrphanedEvent(held)),
            other => (None, other),
        };
        upcall.purpose = purpose;
        ticket
    }

    /// Upcalls for the values that a fence must catch up with.
    pub(crate) fn catching_up(&self, operation: OperationId) -> Vec<(UpcallId, ProcId)> {
        let of = |(id, upcall): (&UpcallId, &PendingUpcall)| match &upcall.purpose {
            Purpose::MissedFence(of, proc) if *of == operation => Some((*id, proc.clone())),
            _ => None,
        };
        self.pending.iter().filter_map(of).collect()
    }

    /// Upcalls that fetch data of a namespace.
    pub(crate) fn fetches_of(&self, namespace: &Namespace) -> Vec<UpcallId> {
        let of_gets = self.fetches.iter().map(|(fetch, id)| (&fetch.proc, id));
        let all = of_gets.chain(&self.missed_fence_fetches);
        all.filter(|(proc, _)| proc.namespace == *namespace).map(|(_, id)| *id).collect()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (UpcallId, &PendingUpcall)> {
        self.pending.iter().map(|(id, upcall)| (*id, upcall))
    }

    pub(crate) fn len(&self) -> usize {
        self.pending.len()
    }
}
