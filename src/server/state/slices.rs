//! Unfinished requests.

use std::collections::{BTreeMap, VecDeque};

use super::commit_rest::CommitRest;
use super::outputs::Ticket;
use super::questions::Answering;
use crate::server::interface::{Garbage, PeerId};

/// Unfinished requests of connections.
#[derive(Debug, Default)]
pub(crate) struct Slices(BTreeMap<PeerId, VecDeque<Rest>>);

/// The rest of one request.
#[derive(Debug)]
pub(crate) enum Rest {
    Commit(CommitRest),
    Queries(Box<Answering>),
    /// The kept events that a new registration has not got yet, by number. It is answered already.
    MissedEvents(VecDeque<u64>),
}

impl Rest {
    const fn ticket(&self) -> Option<&Ticket> {
        match self {
            Self::Commit(rest) => Some(&rest.ticket),
            Self::Queries(answering) => Some(&answering.ticket),
            Self::MissedEvents(_) => None,
        }
    }

    /// The ticket, and the memory that it holds.
    fn into_parts(self) -> Option<(Ticket, Garbage)> {
        match self {
            Self::Commit(rest) => Some((rest.ticket, Garbage::new((rest.parts, rest.spent)))),
            Self::Queries(answering) => Some(answering.into_parts()),
            Self::MissedEvents(_) => None,
        }
    }
}

impl Slices {
    pub(crate) fn len(&self) -> usize {
        self.0.values().map(VecDeque::len).sum()
    }

    /// Takes back the requests of a connection. Their memory must be freed.
    pub(crate) fn withdraw(&mut self, peer: PeerId) -> impl Iterator<Item = (Ticket, Garbage)> {
        self.0.remove(&peer).into_iter().flatten().filter_map(Rest::into_parts)
    }

    /// Connections with open requests.
    pub(crate) fn waiting_peers(&self) -> impl Iterator<Item = PeerId> {
        self.0.values().flatten().filter_map(Rest::ticket).map(Ticket::peer)
    }

    /// Whether a connection has an unfinished request.
    pub(crate) fn has(&self, peer: PeerId) -> bool {
        self.0.contains_key(&peer)
    }

    pub(crate) fn push(&mut self, peer: PeerId, rest: Rest) {
        self.0.entry(peer).or_default().push_back(rest);
    }

    /// Takes the oldest request of a connection.
    pub(crate) fn take(&mut self, peer: PeerId) -> Option<Rest> {
        let rests = self.0.get_mut(&peer)?;
        let rest = rests.pop_front();
        if rests.is_empty() {
            self.0.remove(&peer);
        }
        rest
    }
}
