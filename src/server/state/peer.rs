//! Connections.

use std::collections::{BTreeMap, BTreeSet};

use super::shares::UserShares;
use crate::server::interface::{Credentials, Hello, PeerId, StoreOffer, Version};
use crate::types::ProcId;

/// The stage of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerStage {
    /// The host has not yet agreed.
    Arriving,
    /// May send requests.
    Admitted,
    /// Has finalized; only its end is missing.
    Finalized,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) proc: ProcId,
    /// The kernel's ids at connection time.
    pub(crate) credentials: Credentials,
    pub(crate) store: StoreOffer,
    pub(crate) version: Version,
    pub(crate) stage: PeerStage,
    /// Whether it came as a tool without an announcement of the host.
    pub(crate) is_tool: bool,
    /// Whether it reads job information as entries.
    pub(crate) reads_entries: bool,
    /// Processes with large data whose complete values it has got once.
    pub(crate) fully_described: BTreeSet<ProcId>,
}

/// All connections.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    peers: BTreeMap<PeerId, Peer>,
    /// Number of connections of each user.
    of_users: UserShares,
    last_index: u32,
}

impl Peers {
    pub(crate) fn insert(&mut self, id: PeerId, hello: Hello) {
        let Hello { proc, credentials, store, version, .. } = hello;
        let (stage, fully_described) = (PeerStage::Arriving, BTreeSet::new());
        let peer =
            Peer { proc, credentials, store, version, stage, is_tool: false, reads_entries: true, fully_described };
        self.of_users.take(credentials.uid, 1);
        if let Some(before) = self.peers.insert(id, peer) {
            self.of_users.give_back(before.credentials.uid, 1);
        }
    }

    /// The slot number for the next admitted tool: peers repeat it in every header, but the server never reads it.
    pub(crate) fn next_index(&mut self) -> u32 {
        self.last_index = self.last_index.wrapping_add(1);
        self.last_index
    }

    pub(crate) fn get(&self, id: PeerId) -> Option<&Peer> {
        self.peers.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: PeerId) -> Option<&mut Peer> {
        self.peers.get_mut(&id)
    }

    pub(crate) fn remove(&mut self, id: PeerId) -> Option<Peer> {
        let peer = self.peers.remove(&id)?;
        self.of_users.give_back(peer.credentials.uid, 1);
        Some(peer)
    }

    /// Whether a user may have `more` further connections under the bound `peers_max`.
    pub(crate) fn permit(&self, uid: u32, more: usize, peers_max: usize) -> bool {
        // One connection is always allowed while there is room at all.
        self.of_users.permit(uid, more, peers_max) || more == 1 && self.of_users.of(uid) == 0
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (PeerId, &Peer)> {
        self.peers.iter().map(|(id, peer)| (*id, peer))
    }

    /// Connections under this name that have not finalized.
    pub(crate) fn of_process(&self, proc: &ProcId) -> impl Iterator<Item = PeerId> {
        let are_there = |peer: &Peer| peer.proc == *proc && peer.stage != PeerStage::Finalized;
        self.peers.iter().filter(move |(_, peer)| are_there(peer)).map(|(id, _)| *id)
    }

    pub(crate) fn len(&self) -> usize {
        self.peers.len()
    }
}
