//! Connections.

use std::collections::{BTreeMap, BTreeSet};

use super::shares::UserShares;
use crate::proto::Version;
use crate::server::interface::{Credentials, Hello, PeerId, StoreOffer, ToolHello, ToolKind};
use crate::types::{Namespace, ProcId};

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
    proc: ProcId,
    /// The kernel's ids at connection time.
    credentials: Credentials,
    store: StoreOffer,
    version: Version,
    stage: PeerStage,
    is_tool: bool,
    may_serve: bool,
    is_parent: bool,
    reads_entries: bool,
    /// Processes with large data whose complete values it has got once.
    fully_described: BTreeSet<ProcId>,
}

impl Peer {
    /// A client. It waits for the host's decision.
    fn client(hello: Hello) -> Self {
        let Hello { proc, credentials, store, version, .. } = hello;
        let (stage, fully_described) = (PeerStage::Arriving, BTreeSet::new());
        let (is_tool, may_serve, is_parent, reads_entries) = (false, false, false, true);
        Self { proc, credentials, store, version, stage, is_tool, may_serve, is_parent, reads_entries, fully_described }
    }

    /// A tool. The host has already admitted it, and it gets all data over the socket.
    fn tool(proc: ProcId, hello: &ToolHello) -> Self {
        Self {
            proc,
            credentials: hello.credentials,
            store: StoreOffer::Socket,
            version: hello.version,
            stage: PeerStage::Admitted,
            is_tool: true,
            may_serve: hello.kind == ToolKind::Tool,
            is_parent: false,
            reads_entries: hello.reads_entries,
            fully_described: BTreeSet::new(),
        }
    }

    pub(crate) const fn proc(&self) -> &ProcId {
        &self.proc
    }

    /// The kernel's ids at connection time.
    pub(crate) const fn credentials(&self) -> Credentials {
        self.credentials
    }

    /// The user that owns its process.
    pub(crate) const fn user(&self) -> u32 {
        self.credentials.uid
    }

    pub(crate) const fn stage(&self) -> PeerStage {
        self.stage
    }

    pub(crate) fn is_admitted(&self) -> bool {
        self.stage == PeerStage::Admitted
    }

    /// Whether it came as a tool without an announcement of the host.
    pub(crate) const fn is_tool(&self) -> bool {
        self.is_tool
    }

    /// Whether it came as a tool, announced or not, and not as a launcher. So do PRRTE's launchers, which are servers.
    pub(crate) const fn may_serve(&self) -> bool {
        self.may_serve
    }

    /// An announced client came as a tool.
    pub(crate) const fn note_tool(&mut self) {
        self.may_serve = true;
    }

    /// Whether this process has made the connection, to the tool that started it.
    pub(crate) const fn is_parent(&self) -> bool {
        self.is_parent
    }

    /// This process has made the connection, to the tool that started it.
    pub(crate) const fn note_parent(&mut self) {
        self.is_parent = true;
    }

    /// Whether its process is one of this job.
    pub(crate) fn is_of_job(&self, namespace: &Namespace) -> bool {
        self.proc.namespace == *namespace
    }

    /// Whether it maps segments. Otherwise it gets all data over the socket. Only clients of this library map segments.
    pub(crate) fn maps_segments(&self) -> bool {
        self.store == StoreOffer::Segment
    }

    /// Whether it reads job information as entries.
    pub(crate) const fn reads_entries(&self) -> bool {
        self.reads_entries
    }

    /// Whether it expects the whole job in every answer about the job.
    pub(crate) const fn expects_whole_job(&self) -> bool {
        self.version.major < WHOLE_JOB_UNTIL
    }

    /// Whether it informs the members about the result of its invitation, although it does not state that. The first
    /// releases of this library do so and map segments.
    pub(crate) fn informs_members(&self) -> bool {
        self.maps_segments() || self.version.major >= INFORMS_MEMBERS_SINCE
    }

    /// Whether it keeps copies of values, and takes notices of removed ones.
    pub(crate) fn hears_removals(&self) -> bool {
        self.is_admitted() && !self.maps_segments() && self.version >= Version::FIRST_WITH_REMOVALS
    }

    /// The host has agreed to the connection.
    pub(crate) fn admit(&mut self) {
        self.stage = PeerStage::Admitted;
    }

    pub(crate) fn finalize(&mut self) {
        self.stage = PeerStage::Finalized;
    }

    /// It could not map a segment: from now on it gets all data over the socket.
    pub(crate) fn fall_back_to_socket(&mut self) {
        self.store = StoreOffer::Socket;
    }

    /// Notes that it gets all values of a process. Returns whether it has not got them before.
    pub(crate) fn describe_fully(&mut self, proc: &ProcId) -> bool {
        !self.fully_described.contains(proc) && self.fully_described.insert(proc.clone())
    }
}

/// First release of OpenPMIx that does not expect the whole job in every answer about it.
const WHOLE_JOB_UNTIL: u32 = 4;
/// First release of OpenPMIx whose leaders inform the members about the result of an invitation.
const INFORMS_MEMBERS_SINCE: u32 = 7;

/// All connections.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    peers: BTreeMap<PeerId, Peer>,
    /// Number of connections of each user.
    of_users: UserShares,
    last_index: u32,
}

impl Peers {
    /// A client has introduced itself.
    pub(crate) fn insert_client(&mut self, id: PeerId, hello: Hello) {
        self.insert(id, Peer::client(hello));
    }

    /// The host has admitted a tool under this name.
    pub(crate) fn insert_tool(&mut self, id: PeerId, proc: ProcId, hello: &ToolHello) {
        self.insert(id, Peer::tool(proc, hello));
    }

    fn insert(&mut self, id: PeerId, peer: Peer) {
        self.of_users.take(peer.user(), 1);
        if let Some(before) = self.peers.insert(id, peer) {
            self.of_users.give_back(before.user(), 1);
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

    /// The process of a connection.
    pub(crate) fn proc_of(&self, id: PeerId) -> Option<&ProcId> {
        self.get(id).map(Peer::proc)
    }

    /// The user that owns the process of a connection.
    pub(crate) fn user_of(&self, id: PeerId) -> Option<u32> {
        self.get(id).map(Peer::user)
    }

    pub(crate) fn get_mut(&mut self, id: PeerId) -> Option<&mut Peer> {
        self.peers.get_mut(&id)
    }

    pub(crate) fn remove(&mut self, id: PeerId) -> Option<Peer> {
        let peer = self.peers.remove(&id)?;
        self.of_users.give_back(peer.user(), 1);
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
