use std::collections::{BTreeMap, BTreeSet};

use super::io::{Credentials, Hello, PeerId, StoreOffer, Version};
use super::shares::UserShares;
use crate::types::ProcId;

/// The stage of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The host has not yet agreed.
    Arriving,
    /// May send requests.
    Admitted,
    /// Has finalized; only its end is missing.
    Finalized,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) proc: ProcId,
    /// The kernel's ids at connection time.
    pub(super) credentials: Credentials,
    pub(super) store: StoreOffer,
    pub(super) version: Version,
    pub(super) stage: Stage,
    /// Whether it came as a tool without an announcement of the host.
    pub(super) is_tool: bool,
    /// Whether it reads job information as entries.
    pub(super) reads_entries: bool,
    /// Processes with large data whose complete values it has got once.
    pub(super) told_all: BTreeSet<ProcId>,
}

/// All connections.
#[derive(Debug, Default)]
pub(super) struct Peers {
    peers: BTreeMap<PeerId, Peer>,
    /// Number of connections of each user.
    of_users: UserShares,
    last_index: u32,
}

impl Peers {
    pub(super) fn insert(&mut self, id: PeerId, hello: Hello) {
        let Hello { proc, credentials, store, version, .. } = hello;
        let (stage, told_all) = (Stage::Arriving, BTreeSet::new());
        let peer = Peer { proc, credentials, store, version, stage, is_tool: false, reads_entries: true, told_all };
        self.of_users.take(credentials.uid, 1);
        if let Some(before) = self.peers.insert(id, peer) {
            self.of_users.give_back(before.credentials.uid, 1);
        }
    }

    /// The slot number for the next admitted tool: peers repeat it in every header, but the server never reads it.
    pub(super) fn next_index(&mut self) -> u32 {
        self.last_index = self.last_index.wrapping_add(1);
        self.last_index
    }

    pub(super) fn get(&self, id: PeerId) -> Option<&Peer> {
        self.peers.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: PeerId) -> Option<&mut Peer> {
        self.peers.get_mut(&id)
    }

    pub(super) fn remove(&mut self, id: PeerId) -> Option<Peer> {
        let peer = self.peers.remove(&id)?;
        self.of_users.give_back(peer.credentials.uid, 1);
        Some(peer)
    }

    /// Whether a user may have `more` further connections under the bound `peers_max`.
    pub(super) fn permit(&self, uid: u32, more: usize, peers_max: usize) -> bool {
        // One connection is always allowed while there is room at all.
        self.of_users.permit(uid, more, peers_max) || more == 1 && self.of_users.of(uid) == 0
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (PeerId, &Peer)> {
        self.peers.iter().map(|(id, peer)| (*id, peer))
    }

    /// Connections under this name that have not finalized.
    pub(super) fn of_process(&self, proc: &ProcId) -> impl Iterator<Item = PeerId> {
        let are_there = |peer: &Peer| peer.proc == *proc && peer.stage != Stage::Finalized;
        self.peers.iter().filter(move |(_, peer)| are_there(peer)).map(|(id, _)| *id)
    }

    pub(super) fn len(&self) -> usize {
        self.peers.len()
    }
}
