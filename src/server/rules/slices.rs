//! Requests that take more than one turn.
//!
//! A request may bring a million values. Its work is cut: each step does a bounded part and leaves the rest here.
//! [`Output::Unfinished`] says that there is a rest, and [`Input::Proceed`](crate::server::Input::Proceed) does the next step. The
//! runtime serves others in between, and takes the next request of the same connection after the last step. So the
//! requests of a connection stay in order.

use std::collections::{BTreeMap, VecDeque};

use super::commit::CommitRest;
use super::query::Answering;
use crate::gds::Datastore;
use crate::server::dispatch::core::Server;
use crate::server::interface::io::{Garbage, Output, PeerId};
use crate::server::state::outputs::Ticket;
use crate::types::Time;

/// Unfinished requests of connections.
#[derive(Debug, Default)]
pub(in crate::server) struct Slices(BTreeMap<PeerId, VecDeque<Rest>>);

/// The rest of one request.
#[derive(Debug)]
pub(super) enum Rest {
    Commit(CommitRest),
    Queries(Box<Answering>),
}

impl Rest {
    const fn ticket(&self) -> &Ticket {
        match self {
            Self::Commit(rest) => &rest.ticket,
            Self::Queries(answering) => &answering.ticket,
        }
    }

    /// The ticket, and the memory that it holds.
    fn into_parts(self) -> (Ticket, Garbage) {
        match self {
            Self::Commit(rest) => (rest.ticket, Garbage::new((rest.parts, rest.spent))),
            Self::Queries(answering) => answering.into_parts(),
        }
    }
}

impl Slices {
    pub(in crate::server) fn len(&self) -> usize {
        self.0.values().map(VecDeque::len).sum()
    }

    /// Takes back the requests of a connection. Their memory must be freed.
    pub(in crate::server) fn withdraw(&mut self, peer: PeerId) -> impl Iterator<Item = (Ticket, Garbage)> {
        self.0.remove(&peer).into_iter().flatten().map(Rest::into_parts)
    }

    /// Connections with open requests.
    pub(in crate::server) fn waiting_peers(&self) -> impl Iterator<Item = PeerId> {
        self.0.values().flatten().map(Rest::ticket).map(Ticket::peer)
    }

    /// Takes the oldest request of a connection.
    fn take(&mut self, peer: PeerId) -> Option<Rest> {
        let rests = self.0.get_mut(&peer)?;
        let rest = rests.pop_front();
        if rests.is_empty() {
            self.0.remove(&peer);
        }
        rest
    }
}

impl<S: Datastore> Server<S> {
    /// Keeps the rest of a connection's request for its next step.
    pub(super) fn leave_rest(&mut self, peer: PeerId, rest: Rest) {
        self.slices.0.entry(peer).or_default().push_back(rest);
        self.outputs.push(Output::Unfinished(peer));
    }

    /// Does the next step of a connection's request, if there is one.
    pub(in crate::server) fn proceed(&mut self, now: Time, peer: PeerId) {
        let Some(rest) = self.slices.take(peer) else { return };
        // An answer of the host may have brought another rest meanwhile.
        if self.slices.0.contains_key(&peer) {
            self.outputs.push(Output::Unfinished(peer));
        }
        match rest {
            Rest::Commit(rest) => self.proceed_commit(now, peer, rest),
            Rest::Queries(answering) => self.proceed_queries(answering),
        }
    }

    /// Does all steps of a connection's requests.
    pub(in crate::server) fn finish_rest(&mut self, now: Time, peer: PeerId) {
        while self.slices.0.contains_key(&peer) {
            self.proceed(now, peer);
        }
    }
}
