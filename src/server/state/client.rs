//! One announced process: its presence, its connections and its commits.

use std::collections::BTreeSet;

use super::changes::Changes;
use crate::server::interface::{Credentials, PeerId};
use crate::types::{Key, Text};

/// One local process.
#[derive(Debug)]
pub(crate) struct RegisteredClient {
    credentials: Credentials,
    object: u64,
    is_guest: bool,
    is_vouched_for: bool,
    pid: Option<u32>,
    executable: Option<Text>,
    presence: Presence,
    /// Admitted connections that have not finalized.
    connections: BTreeSet<PeerId>,
    /// Its commit numbers start after this one.
    commit_base: u64,
    /// Number of applied commits.
    commits: u64,
    has_spoken: bool,
    /// Whether its server has generated values of it for other nodes.
    has_generated_values: bool,
    /// Whether an event has said that it ended without a disconnect.
    is_end_announced: bool,
    /// The changes that its next fence must carry.
    changes: Changes,
}

/// The state of a local process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// Announced, not seen yet.
    Expected,
    /// At least one connection is admitted and has not finalized.
    Connected,
    /// All connections have finalized; the process may come again.
    Finalized,
    /// The last connection broke.
    Lost,
    /// The host reported its end. Kept because a wildcard participant counts it.
    Deregistered,
}

impl RegisteredClient {
    /// A process that the host announced and that has not connected yet.
    pub(crate) fn expected(credentials: Credentials, object: u64, commit_base: u64) -> Self {
        Self {
            credentials,
            object,
            is_guest: false,
            is_vouched_for: false,
            pid: None,
            executable: None,
            presence: Presence::Expected,
            connections: BTreeSet::new(),
            commit_base,
            commits: 0,
            has_spoken: false,
            has_generated_values: false,
            is_end_announced: false,
            changes: Changes::default(),
        }
    }

    /// A tool without an announcement of the host.
    pub(crate) fn guest(credentials: Credentials, commit_base: u64) -> Self {
        Self { is_guest: true, ..Self::expected(credentials, 0, commit_base) }
    }

    /// The host announces it, perhaps again. Connections stay.
    pub(crate) fn announce(&mut self, credentials: Credentials, object: u64) {
        (self.is_guest, self.credentials, self.object) = (false, credentials, object);
        if self.connections.is_empty() {
            self.presence = Presence::Expected;
        }
    }

    /// The host admits a guest under its name.
    pub(crate) const fn vouch(&mut self) {
        self.is_vouched_for = true;
    }

    /// The host describes it.
    pub(crate) fn describe(&mut self, pid: u32, executable: Option<Text>) {
        self.pid = Some(pid);
        self.executable = executable.or(self.executable.take());
    }

    /// A connection is admitted.
    pub(crate) fn connect(&mut self, peer: PeerId) {
        self.connections.insert(peer);
        self.is_end_announced = false;
        self.presence = Presence::Connected;
    }

    /// A connection finalizes. Returns whether the process has finalized with it.
    pub(crate) fn finalize(&mut self, peer: PeerId) -> bool {
        self.end_connection(peer, Presence::Finalized)
    }

    /// A connection breaks. Returns whether the process is lost with it.
    pub(crate) fn lose(&mut self, peer: PeerId) -> bool {
        self.end_connection(peer, Presence::Lost)
    }

    fn end_connection(&mut self, peer: PeerId, presence: Presence) -> bool {
        self.connections.remove(&peer);
        let was_last = self.connections.is_empty() && self.presence == Presence::Connected;
        if was_last {
            self.presence = presence;
        }
        was_last
    }

    /// An event says that it ended without a disconnect. Returns whether it is the first one.
    pub(crate) const fn mark_end_announced(&mut self) -> bool {
        !std::mem::replace(&mut self.is_end_announced, true)
    }

    /// Whether an event has said that it ended without a disconnect.
    pub(crate) const fn is_end_announced(&self) -> bool {
        self.is_end_announced
    }

    /// The host reports its end. Returns its presence until then.
    pub(crate) const fn deregister(&mut self) -> Presence {
        std::mem::replace(&mut self.presence, Presence::Deregistered)
    }

    /// User and group, as the kernel must report them.
    pub(crate) const fn credentials(&self) -> Credentials {
        self.credentials
    }

    /// The number that upcalls about it carry.
    pub(crate) const fn object(&self) -> u64 {
        self.object
    }

    /// Whether it is a tool without an announcement of the host.
    pub(crate) const fn is_guest(&self) -> bool {
        self.is_guest
    }

    /// Whether it is a guest that the host was asked about and admitted under this name.
    pub(crate) const fn is_vouched_for(&self) -> bool {
        self.is_vouched_for
    }

    /// Its process number, from the host.
    pub(crate) const fn pid(&self) -> Option<u32> {
        self.pid
    }

    /// Its program, from the host.
    pub(crate) const fn executable(&self) -> Option<&Text> {
        self.executable.as_ref()
    }

    pub(crate) const fn presence(&self) -> Presence {
        self.presence
    }

    /// Admitted connections that have not finalized.
    pub(crate) const fn connections(&self) -> &BTreeSet<PeerId> {
        &self.connections
    }

    /// The number of its last commit; 0: none.
    pub(crate) const fn last_commit(&self) -> u64 {
        if self.commits == 0 { 0 } else { self.commit_base.saturating_add(self.commits) }
    }

    /// A commit, or a piece of one, is applied. It changed these keys for other nodes. `goes_on`: it is not the first
    /// piece.
    pub(crate) fn note_commit(&mut self, changed_keys: impl IntoIterator<Item = Key>, goes_on: bool) {
        self.commits = self.commits.saturating_add(1);
        let commit = self.last_commit();
        self.changes.note(changed_keys, commit, goes_on);
    }

    /// The keys that changed for other nodes.
    pub(crate) const fn changes(&self) -> &Changes {
        &self.changes
    }

    /// Whether it has spoken: it has committed, perhaps nothing, or has arrived at a collecting fence. It may never put
    /// a key that it has not put by then.
    pub(crate) const fn has_spoken(&self) -> bool {
        self.has_spoken
    }

    /// Whether its server has generated values of it for other nodes.
    pub(crate) const fn has_generated_values(&self) -> bool {
        self.has_generated_values
    }

    pub(crate) const fn note_generated_values(&mut self) {
        self.has_generated_values = true;
    }

    /// Notes that it has spoken. Returns whether this is the first time.
    pub(crate) const fn speak(&mut self) -> bool {
        !std::mem::replace(&mut self.has_spoken, true)
    }
}

impl Presence {
    /// Whether the process can no longer arrive at a collective.
    pub(crate) const fn is_gone(self) -> bool {
        matches!(self, Self::Lost | Self::Deregistered)
    }

    /// Whether the process can still commit something.
    pub(crate) const fn may_commit(self) -> bool {
        matches!(self, Self::Expected | Self::Connected)
    }
}
