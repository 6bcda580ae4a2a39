//! Answers to requests for data: the values, and their form for each asker.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::access::{Action, Object};
use super::get::For;
use crate::gds::qualified::QUALIFIED_VALUE;
use crate::gds::{Audience, Datastore, LookupError, StoredValues};
use crate::proto::{self, RankData, Reply};
use crate::server::interface::{
    Answer, AnswerData, CommittedValues, GetDirectives, HostData, HostResult, JobData, PeerId, ProcessAnswer,
};
use crate::server::state::{Asker, CallTicket, HeldGet, Peer, RegisteredClient, RequestedData, ServerCore, Ticket};
use crate::types::{AsStatus, Key, Kval, Namespace, ProcId, Rank, Status};

impl<S: Datastore> ServerCore<S> {
    pub(super) fn answer(&mut self, asker: Asker, requested: &RequestedData) {
        match asker {
            Asker::Peer(ticket) => {
                let payload = self.payload(ticket.peer(), requested);
                self.answer_peer(ticket, requested, payload);
            }
            Asker::Host(ticket) => self.answer_another_server(ticket, requested),
            Asker::Own(ticket) => {
                let entries = self.entries(requested, false);
                self.outputs.complete(ticket, result_of(entries));
            }
        }
    }

    /// Answers a held request. Returns the size of the answer's values for a peer, in bytes.
    pub(super) fn answer_held(&mut self, held: HeldGet) -> usize {
        let HeldGet { asker, requested, .. } = held;
        let Asker::Peer(ticket) = asker else {
            self.answer(asker, &requested);
            return 0;
        };
        let payload = self.payload(ticket.peer(), &requested);
        let answer_bytes = match &payload {
            Ok(AnswerData::Read(data)) => data.iter().map(|data| size_bytes(&data.entries)).sum(),
            _ => 0,
        };
        self.answer_peer(ticket, &requested, payload);
        answer_bytes
    }

    /// Answers another server: with all that a process posted, or with the description of a job.
    fn answer_another_server(&mut self, ticket: CallTicket, requested: &RequestedData) {
        let RequestedData { proc, key, directives, .. } = requested;
        let is_of_process = key.is_some() || directives.realm.is_default();
        let Some(rank) = proc.rank.process().filter(|_| is_of_process) else {
            let entries = self.store.job_entries(&proc.namespace);
            return self.outputs.complete(ticket, result_of(entries));
        };
        let commit = self.registry.client(proc).map(RegisteredClient::last_commit);
        match self.posted(requested, rank, For::Host) {
            Ok(values) => self.outputs.complete_later(ticket, HostData::Unread(CommittedValues { values, commit })),
            Err(error) => self.outputs.complete(ticket, HostResult::Status(error.status())),
        }
    }

    fn answer_peer(&mut self, ticket: Ticket, requested: &RequestedData, payload: Result<AnswerData, LookupError>) {
        let with_job = self.described_with_job(ticket.peer(), requested);
        match (payload, with_job) {
            (Ok(rest), Some(is_whole)) => {
                let namespace = requested.proc.namespace.clone();
                self.outputs.answer(ticket, Answer::JobData(JobData { namespace, is_whole, rest }));
            }
            (Ok(AnswerData::Read(data)), None) => self.outputs.reply(ticket, Reply::Data(data)),
            (Ok(AnswerData::Unread(answer)), None) => self.outputs.answer(ticket, Answer::Process(*answer)),
            (Err(error), _) => self.outputs.reply_status(ticket, error.status()),
        }
    }

    /// Whether the answer begins with the job's description, and whether with all of it.
    fn described_with_job(&self, id: PeerId, requested: &RequestedData) -> Option<bool> {
        let peer = self.peers.get(id).filter(|peer| !Self::looks_again(peer, requested))?;
        let is_of_job = requested.proc.rank == Rank::Wildcard;
        match &requested.key {
            _ if is_of_job && peer.expects_whole_job() => Some(false),
            None if is_of_job => Some(true),
            _ if peer.is_of_job(&requested.proc.namespace) => None,
            // Clients of OpenPMIx look for values of nodes, applications and sessions in the arrays of the description.
            _ if requested.is_static() && requested.directives.realm.is_default() => None,
            _ => (!self.has_segment(id, &requested.proc.namespace)).then_some(false),
        }
    }

    /// Whether a peer reads the answer from its own segment. Another session's values are in the segment of another
    /// job.
    fn looks_again(peer: &Peer, requested: &RequestedData) -> bool {
        let is_own = peer.is_of_job(&requested.proc.namespace);
        is_own && peer.maps_segments() && !requested.directives.realm.is_of_session()
    }

    /// The values for a peer, without the job's description. A peer that looks again gets only the hint to do so.
    fn payload(&mut self, id: PeerId, requested: &RequestedData) -> Result<AnswerData, LookupError> {
        let tells_all = self.tells_all(id, requested);
        let Some(peer) = self.peers.get(id) else { return Ok(AnswerData::NONE) };
        let RequestedData { proc, key, directives, .. } = requested;
        let is_of_job = proc.rank == Rank::Wildcard && (key.is_none() || peer.expects_whole_job());
        if is_of_job || Self::looks_again(peer, requested) {
            return Ok(AnswerData::NONE);
        }
        match proc.rank {
            Rank::Process(rank) if directives.realm.is_default() && self.is_large(requested, rank, tells_all) => {
                self.process_answer(requested, rank).map(|answer| AnswerData::Unread(Box::new(answer)))
            }
            Rank::Process(_) if key.is_none() && !directives.realm.is_default() => {
                let posted = self.store.job_entries_later(&proc.namespace)?;
                let answer = ProcessAnswer { proc: proc.clone(), posted, registered: Vec::new() };
                Ok(AnswerData::Unread(Box::new(answer)))
            }
            _ => {
                let entries = self.entries(requested, tells_all)?;
                Ok(AnswerData::Read(vec![RankData { proc: proc.clone(), entries }]))
            }
        }
    }

    /// Whether the requested data of a process is too large for a copy on the server's thread. Such a value is a posted
    /// one.
    fn is_large(&self, requested: &RequestedData, rank: u32, tells_all: bool) -> bool {
        let namespace = &requested.proc.namespace;
        match &requested.key {
            None => !self.store.posts_at_most(namespace, rank, AT_ONCE_BYTES_MAX),
            // All values together are small.
            Some(_) if tells_all => false,
            Some(key) => {
                let audience = self.audience(requested, For::Peer);
                requested.directives.qualifiers.is_empty()
                    && !requested.is_static()
                    && self.store.posted_bytes(namespace, rank, audience, key.as_str()) > AT_ONCE_BYTES_MAX
            }
        }
    }

    /// Whether the answer to a Get of one key carries all values of its process. Clients of other libraries keep them,
    /// so one answer may serve several of their Gets. But the cost must match the request: a connection gets a large
    /// set once, and from then on only the requested key.
    fn tells_all(&mut self, id: PeerId, requested: &RequestedData) -> bool {
        let RequestedData { proc, key: Some(_), directives, .. } = requested else { return true };
        let Some(rank) = proc.rank.process() else { return false };
        if requested.is_static() || directives.scope.is_some() {
            return false;
        }
        let reply_bytes_max = self.config.limits.reply_bytes_max;
        let posts_at_most =
            |bytes_max: usize| self.store.posts_at_most(&proc.namespace, rank, bytes_max.min(reply_bytes_max));
        if posts_at_most(TOLD_ALL_BYTES) {
            return true;
        }
        self.peers.get_mut(id).is_some_and(|peer| peer.describe_fully(proc)) && posts_at_most(AT_ONCE_BYTES_MAX)
    }

    /// The description of a job for peers.
    pub(super) fn job_for_peers(&self, namespace: &Namespace) -> Result<Vec<Kval>, LookupError> {
        let mut entries = self.store.job_entries(namespace)?;
        entries.retain(proto::is_for_peers);
        Ok(entries)
    }

    /// The values for a process of this node: one key's, or all that the process shows to it.
    fn entries(&self, requested: &RequestedData, tells_all: bool) -> Result<Vec<Kval>, LookupError> {
        let RequestedData { proc, key, .. } = requested;
        match (key, proc.rank) {
            (None, Rank::Process(rank)) if requested.directives.realm.is_default() => {
                self.process_answer(requested, rank)?.read().map(|data| data.entries)
            }
            (None, _) => self.store.job_entries(&proc.namespace),
            (Some(key), Rank::Process(rank)) if tells_all => {
                let mut entries = self.posted(requested, rank, For::Peer)?.read()?;
                entries.retain(|entry| !entry.is_removal());
                let is_qualified = !requested.directives.qualifiers.is_empty();
                // The key may be registered but not posted.
                if is_qualified || entries.iter().all(|kval| kval.key != *key) {
                    let found = self.found(requested, key).ok();
                    entries.extend(found.filter(|found| !entries.contains(found)));
                }
                if size_bytes(&entries) > self.config.limits.reply_bytes_max {
                    entries.retain(|kval| kval.key == *key || (is_qualified && kval.key.as_str() == QUALIFIED_VALUE));
                }
                Ok(entries)
            }
            (Some(key), _) => Ok(vec![self.found(requested, key)?]),
        }
    }

    /// The requested value, under its key on the wire.
    fn found(&self, requested: &RequestedData, key: &Key) -> Result<Kval, LookupError> {
        let value = self.value_for_peer(requested, key)?;
        let is_qualified = !requested.directives.qualifiers.is_empty();
        let key = if is_qualified { Key::from_static(QUALIFIED_VALUE) } else { key.clone() };
        Ok(Kval { key, value })
    }

    /// Sends all that a process has posted. Clients of OpenPMIx since 6.1 ask for it before a Get that demands current
    /// values.
    pub(in crate::server) fn refresh(&mut self, ticket: Ticket, proc: ProcId) {
        if let Err(status) = self.permit_peer(ticket.peer(), Action::Read, Object::Job(&proc.namespace)) {
            return self.outputs.reply_status(ticket, status);
        }
        let Some(rank) = proc.rank.process() else { return self.outputs.reply_status(ticket, Status::ERR_NOT_FOUND) };
        if !self.store.posts_at_most(&proc.namespace, rank, AT_ONCE_BYTES_MAX) {
            tracing::debug!(%proc, "the process has posted too much for a refreshed Get of a client of OpenPMIx");
            return self.outputs.reply_status(ticket, Status::ERR_OUT_OF_RESOURCE);
        }
        let requested = RequestedData { proc, key: None, directives: GetDirectives::default(), reader: None };
        match self.posted(&requested, rank, For::Peer).and_then(|values| values.read()) {
            Ok(mut entries) => {
                entries.retain(|entry| !entry.is_removal());
                self.outputs.reply(ticket, Reply::Entries(entries));
            }
            Err(error) => self.outputs.reply_status(ticket, error.status()),
        }
    }

    /// The posted values that a reader may see.
    fn posted(&self, requested: &RequestedData, rank: u32, reader: For) -> Result<StoredValues, LookupError> {
        self.store.posted_later(&requested.proc.namespace, rank, self.audience(requested, reader), None)
    }

    /// Whether a process has posted a value that a reader may see.
    pub(super) fn has_posted(&self, requested: &RequestedData, rank: u32, reader: For) -> bool {
        self.store.has_posted(&requested.proc.namespace, rank, self.audience(requested, reader))
    }

    fn audience(&self, RequestedData { proc, directives, .. }: &RequestedData, reader: For) -> Audience {
        let is_neighbour = reader == For::Peer && self.registry.client(proc).is_some();
        let implied = if is_neighbour { Audience::SameNode } else { Audience::OtherNodes };
        Audience::of_scope(directives.scope).filter(|_| reader == For::Peer).unwrap_or(implied)
    }

    /// The requested data of a process for a process of this node: a posted value, or everything. Registered values
    /// have no scope.
    fn process_answer(&self, requested: &RequestedData, rank: u32) -> Result<ProcessAnswer, LookupError> {
        let key = requested.key.as_ref().map(|key| vec![Arc::new(BTreeSet::from([Arc::new(key.clone())]))]);
        let registered = match requested.directives.scope {
            None if key.is_none() => self.process_for_peers(requested, rank)?,
            _ => Vec::new(),
        };
        let posted =
            self.store.posted_later(&requested.proc.namespace, rank, self.audience(requested, For::Peer), key)?;
        Ok(ProcessAnswer { proc: requested.proc.clone(), posted, registered })
    }

    /// The description of a process for peers.
    pub(super) fn process_for_peers(&self, requested: &RequestedData, rank: u32) -> Result<Vec<Kval>, LookupError> {
        let mut entries = self.store.described(&requested.proc.namespace, rank)?;
        entries.retain(proto::is_for_peers);
        Ok(entries)
    }
}

/// Bytes of further values in the answer to a Get of one key, for every asker.
const TOLD_ALL_BYTES: usize = 16 << 10;
/// Largest posted data of a process that the server's thread copies at once, in bytes.
pub(super) const AT_ONCE_BYTES_MAX: usize = 256 << 10;

fn result_of(entries: Result<Vec<Kval>, LookupError>) -> HostResult {
    entries.map_or_else(|error| HostResult::Status(error.status()), HostResult::Entries)
}

/// The size of values that are not compressed, in bytes.
pub(super) fn size_bytes(entries: &[Kval]) -> usize {
    let sizes = entries.iter().map(|kval| proto::unpacked_bytes(&kval.value));
    sizes.fold(0, usize::saturating_add)
}
