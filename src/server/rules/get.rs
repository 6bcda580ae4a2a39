//! Requests for data: answered from the store, held, or fetched by the host.

use std::time::Duration;

use super::access::{Action, Object, Subject};
use crate::gds::qualified::{QUALIFIED_VALUE, is_same_place};
use crate::gds::{Audience, Datastore, KeyRef, Lookup, LookupError, RealmRequest};
use crate::keys;
use crate::proto::{self, RankData, Reply};
use crate::server::interface::{
    Capabilities, GetDirectives, HostResult, JobData, OwnGet, PeerId, StoreOffer, TOPOLOGY,
};
use crate::server::state::{
    Asker, CallTicket, Fetch, NEXT_STEP_IN, Peer, Pool, Presence, RegisteredClient, RegisteredJob, ServerCore, Ticket,
    Timer, WaitId, Waiter, Wanted, add_commit_number,
};
use crate::types::{AsStatus, Key, Kval, Namespace, ProcId, Rank, Status, Time, Value};

/// Possible handling of a request for data now.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::server) enum GetVerdict {
    /// The store holds the answer.
    Found,
    /// There is no answer, and a wait would not help.
    Refused(Status),
    /// A local process or a registration may bring the answer.
    Hold,
    /// The host may bring the answer.
    Fetch(Fetch),
}

/// The reader on whose behalf the store is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum For {
    Peer,
    Host,
}

impl<S: Datastore> ServerCore<S> {
    pub(in crate::server) fn get(&mut self, now: Time, ticket: Ticket, get: proto::Get) {
        let proto::Get { proc, directives, key } = get;
        let is_of_job = proc.rank == Rank::Wildcard
            && self.peers.get(ticket.peer()).is_some_and(|peer| peer.proc.namespace == proc.namespace);
        if is_of_job && key.as_ref().is_some_and(|key| key.as_str() == TOPOLOGY) {
            return self.pass_topology_question(ticket, proc, Key::from_static(TOPOLOGY));
        }
        if let Err(status) = self.permit_peer(ticket.peer(), Action::Read, Object::Job(&proc.namespace)) {
            return self.outputs.reply_status(ticket, status);
        }
        if proto::Get::unmet(&directives).is_some() {
            return self.outputs.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
        }
        let Some(ticket) = self.answer_about_sets(ticket, &proc, key.as_ref(), &directives) else { return };
        let read = GetDirectives::read(&directives, key.as_ref());
        let reader = self.peers.get(ticket.peer()).map(|peer| (peer.proc.clone(), peer.credentials.uid));
        let wanted = Wanted { proc, key, directives: read, reader };
        let is_by_socket = self.peers.get(ticket.peer()).is_some_and(|peer| peer.store == StoreOffer::Socket);
        if let Some(entry) = self.given_to_group(&wanted, &directives).filter(|_| is_by_socket) {
            let data = RankData { proc: wanted.proc, entries: vec![entry] };
            return self.outputs.reply(ticket, Reply::Data(vec![data]));
        }
        let asker = self.answer_from_inventories(Asker::Peer(ticket), &wanted, &directives);
        if let Some(asker) = asker {
            self.ask(now, asker, wanted);
        }
    }

    /// A Get of the server's own process. It sees the same values as a local client.
    pub(in crate::server) fn get_for_host(&mut self, now: Time, ticket: CallTicket, get: OwnGet) {
        let OwnGet { proc, directives, key } = get;
        if proto::Get::unmet(&directives).is_some() {
            return self.refuse(Asker::Own(ticket), Status::ERR_NOT_SUPPORTED);
        }
        let read = GetDirectives::read(&directives, key.as_ref());
        let wanted = Wanted { proc, key, directives: read, reader: None };
        let asker = self.answer_from_inventories(Asker::Own(ticket), &wanted, &directives);
        let asker = asker.and_then(|asker| self.answer_own_from_topology(asker, &wanted, &directives));
        if let Some(asker) = asker {
            self.ask(now, asker, wanted);
        }
    }

    /// Answers a request for data, or holds it until an answer exists. Its timeout runs from now.
    pub(in crate::server) fn ask(&mut self, now: Time, asker: Asker, wanted: Wanted) {
        let is_immediate = wanted.directives.immediate;
        let deadline = wanted.directives.timeout.map(|timeout| now + timeout);
        let verdict = self.judge(&asker, &wanted);
        let topology = self.topology_question(&asker, &wanted, &verdict);
        let waiter = Waiter { asker, wanted, via: None, deadline, is_due: false };
        if let Some(key) = topology {
            return self.ask_topology(waiter, key);
        }
        match verdict {
            GetVerdict::Found => self.answer(waiter.asker, &waiter.wanted),
            GetVerdict::Refused(status) => self.refuse(waiter.asker, status),
            GetVerdict::Hold | GetVerdict::Fetch(_) if is_immediate => self.refuse(waiter.asker, Status::ERR_NOT_FOUND),
            GetVerdict::Hold => self.hold(now, waiter),
            GetVerdict::Fetch(fetch) => self.fetch(now, waiter, fetch),
        }
    }

    pub(super) fn hold(&mut self, now: Time, mut waiter: Waiter) {
        let is_full = self.waiting.host_requests() >= self.config.limits.host_requests_max;
        if matches!(waiter.asker, Asker::Host(_) | Asker::Own(_)) && is_full {
            return self.refuse(waiter.asker, Status::ERR_OUT_OF_RESOURCE);
        }
        let pool = Pool { max: self.config.limits.held_get_bytes_max, used: self.waiting.size_bytes() };
        if let Some(uid) = waiter.wanted.user()
            && !self.has_share(uid, pool, waiter.wanted.size_bytes(), || self.waiting.size_bytes_of_user(uid))
        {
            return self.refuse(waiter.asker, Status::ERR_OUT_OF_RESOURCE);
        }
        let deadline = waiter.deadline.or_else(|| self.end_of_patience(now, &waiter));
        waiter.deadline = deadline;
        let wait = self.waiting.insert(waiter);
        self.timers.arm(deadline, Timer::Wait(wait));
    }

    /// The deadline of a Get without a bound of its own that a local process could answer. There is none until that
    /// process has spoken; afterwards it may never put the key. For a request of another node, that node's server has a
    /// bound.
    fn end_of_patience(&self, now: Time, waiter: &Waiter) -> Option<Time> {
        let is_bounded = waiter.via.is_none() && !waiter.wanted.directives.is_unbounded;
        let is_for_here = matches!(waiter.asker, Asker::Peer(_) | Asker::Own(_));
        let has_spoken = || self.have_spoken(&waiter.asker, &waiter.wanted.proc);
        (is_for_here && is_bounded && has_spoken()).then(|| now + SPOKEN_WAIT_MAX)
    }

    /// Whether all processes that could answer have spoken. A process that waits for itself counts as one: it usually
    /// puts nothing meanwhile. If any process may put the value, all local ones must have spoken. A remote one brings
    /// its data with a fence, at which local ones arrive, too. The state of a job without local processes is unknown.
    fn have_spoken(&self, asker: &Asker, proc: &ProcId) -> bool {
        let Some(job) = self.registry.registered(&proc.namespace) else { return false };
        let has_spoken = |rank: u32, client: &RegisteredClient| {
            client.has_spoken() || self.is_asker(asker, &ProcId::new(proc.namespace.clone(), rank))
        };
        match proc.rank {
            Rank::Process(rank) => job.clients().get(&rank).is_some_and(|client| has_spoken(rank, client)),
            _ => {
                let mut clients = job.clients().iter();
                job.is_defined()
                    && !job.clients().is_empty()
                    && clients.all(|(&rank, client)| !client.presence().may_commit() || has_spoken(rank, client))
            }
        }
    }

    /// Whether this process is the asker.
    fn is_asker(&self, asker: &Asker, proc: &ProcId) -> bool {
        match asker {
            Asker::Peer(ticket) => self.peers.get(ticket.peer()).is_some_and(|peer| peer.proc == *proc),
            Asker::Host(_) | Asker::Own(_) => false,
        }
    }

    /// Reviews held requests after a change: the first ones now, the others in later turns. One change may answer very
    /// many, and each answer has a copy of the value.
    pub(super) fn review_waits(&mut self, now: Time, waits: Vec<WaitId>) {
        self.waiting.make_due(waits);
        if self.waiting.next_step().is_none() {
            self.review_some(now);
        }
    }

    /// Reviews some of the held requests whose review is due.
    pub(in crate::server) fn review_some(&mut self, now: Time) {
        self.waiting.set_next_step(None);
        let mut answer_bytes = 0_usize;
        for _ in 0..REVIEWS_PER_STEP {
            let Some(id) = self.waiting.take_due() else { return };
            answer_bytes = answer_bytes.saturating_add(self.review_wait(now, id));
            if answer_bytes > ANSWER_BYTES_PER_STEP {
                break;
            }
        }
        if self.waiting.has_due() {
            self.waiting.set_next_step(Some(now + NEXT_STEP_IN));
            self.timers.arm(self.waiting.next_step(), Timer::Reviews);
        }
    }

    /// Reviews a held request. Returns the size of its answer, if it gets one, in bytes.
    fn review_wait(&mut self, now: Time, id: WaitId) -> usize {
        let Some(waiter) = self.waiting.get(id) else { return 0 };
        let via = waiter.via;
        match self.judge(&waiter.asker, &waiter.wanted) {
            GetVerdict::Found => return self.answer_wait(id),
            GetVerdict::Refused(status) => self.refuse_wait(id, status),
            GetVerdict::Fetch(fetch) if via.is_none() => {
                if let Some(waiter) = self.take_wait(id) {
                    self.fetch(now, waiter, fetch);
                }
            }
            GetVerdict::Hold if waiter.deadline.is_none() => {
                let deadline = self.end_of_patience(now, waiter);
                self.waiting.set_deadline(id, deadline);
                self.timers.arm(deadline, Timer::Wait(id));
            }
            GetVerdict::Hold | GetVerdict::Fetch(_) => {}
        }
        0
    }

    /// Answers a held request. Returns the size of the answer's values for a peer, in bytes.
    fn answer_wait(&mut self, id: WaitId) -> usize {
        let Some(Waiter { asker, wanted, .. }) = self.take_wait(id) else { return 0 };
        let Asker::Peer(ticket) = asker else {
            self.answer(asker, &wanted);
            return 0;
        };
        let payload = self.payload(ticket.peer(), &wanted);
        let sizes = payload.iter().flatten().map(|data| size_bytes(&data.entries));
        let answer_bytes = sizes.fold(0, usize::saturating_add);
        self.answer_peer(ticket, &wanted, payload);
        answer_bytes
    }

    pub(super) fn refuse_wait(&mut self, id: WaitId, status: Status) {
        if let Some(waiter) = self.take_wait(id) {
            self.refuse(waiter.asker, status);
        }
    }

    /// The time of a held request is over. Its answer may be here, and only its review be due.
    pub(in crate::server) fn expire_wait(&mut self, id: WaitId) {
        let is_due = |waiter: &&Waiter| waiter.is_due;
        let due = self.waiting.get(id).filter(is_due).map(|waiter| self.judge(&waiter.asker, &waiter.wanted));
        match due {
            Some(GetVerdict::Found) => {
                self.answer_wait(id);
            }
            _ => self.refuse_wait(id, Status::ERR_TIMEOUT),
        }
    }

    pub(super) fn take_wait(&mut self, id: WaitId) -> Option<Waiter> {
        let waiter = self.waiting.remove(id)?;
        self.timers.disarm(waiter.deadline, Timer::Wait(id));
        Some(waiter)
    }

    pub(super) fn refuse(&mut self, asker: Asker, status: Status) {
        match asker {
            Asker::Peer(ticket) => self.outputs.reply_status(ticket, status),
            Asker::Host(ticket) | Asker::Own(ticket) => self.outputs.complete(ticket, HostResult::Status(status)),
        }
    }

    pub(super) fn answer(&mut self, asker: Asker, wanted: &Wanted) {
        match asker {
            Asker::Peer(ticket) => {
                let payload = self.payload(ticket.peer(), wanted);
                self.answer_peer(ticket, wanted, payload);
            }
            Asker::Host(ticket) => {
                let result = match self.entries(wanted, For::Host, true) {
                    Ok(mut entries) => {
                        if let Some(client) = self.registry.client(&wanted.proc) {
                            add_commit_number(&mut entries, client.last_commit());
                        }
                        HostResult::Entries(entries)
                    }
                    Err(error) => HostResult::Status(error.status()),
                };
                self.outputs.complete(ticket, result);
            }
            Asker::Own(ticket) => {
                let result = self.entries(wanted, For::Peer, false).map_err(|error| HostResult::Status(error.status()));
                self.outputs.complete(ticket, result.map_or_else(|failure| failure, HostResult::Entries));
            }
        }
    }

    fn answer_peer(&mut self, ticket: Ticket, wanted: &Wanted, payload: Result<Vec<RankData>, LookupError>) {
        let with_job = self.described_with_job(ticket.peer(), wanted);
        match (payload, with_job) {
            (Ok(rest), Some(is_whole)) => {
                let namespace = wanted.proc.namespace.clone();
                self.outputs.reply_job_data(ticket, JobData { namespace, is_whole, rest });
            }
            (Ok(data), None) => self.outputs.reply(ticket, Reply::Data(data)),
            (Err(error), _) => self.outputs.reply_status(ticket, error.status()),
        }
    }

    /// Whether the answer begins with the job's description, and whether with all of it. Peers before 4.0 expect the
    /// job in every answer about it.
    fn described_with_job(&self, id: PeerId, wanted: &Wanted) -> Option<bool> {
        let peer = self.peers.get(id).filter(|peer| !Self::looks_again(peer, wanted))?;
        let is_of_job = wanted.proc.rank == Rank::Wildcard;
        match &wanted.key {
            _ if is_of_job && peer.version.major < 4 => Some(false),
            None if is_of_job => Some(true),
            _ if peer.proc.namespace == wanted.proc.namespace || wanted.is_static() => None,
            _ => (!self.has_segment(id, &wanted.proc.namespace)).then_some(false),
        }
    }

    /// Whether a peer reads the answer from its own segment. Another session's values are in the segment of another
    /// job.
    fn looks_again(peer: &Peer, wanted: &Wanted) -> bool {
        let is_own = peer.proc.namespace == wanted.proc.namespace;
        is_own && peer.store == StoreOffer::Segment && !wanted.directives.realm.is_of_session()
    }

    /// The values for a peer, without the job's description. A peer that looks again gets only the hint to do so.
    fn payload(&mut self, id: PeerId, wanted: &Wanted) -> Result<Vec<RankData>, LookupError> {
        let tells_all = self.tells_all(id, wanted);
        let Some(peer) = self.peers.get(id) else { return Ok(Vec::new()) };
        let is_of_job = wanted.proc.rank == Rank::Wildcard && (wanted.key.is_none() || peer.version.major < 4);
        if is_of_job || Self::looks_again(peer, wanted) {
            return Ok(Vec::new());
        }
        Ok(vec![RankData { proc: wanted.proc.clone(), entries: self.entries(wanted, For::Peer, tells_all)? }])
    }

    /// Whether the answer to a Get of one key carries all values of its process. Clients of other libraries keep them,
    /// so one answer may serve several of their Gets. But the cost must match the request: a connection gets a large
    /// set once, and from then on only the wanted key.
    fn tells_all(&mut self, id: PeerId, wanted: &Wanted) -> bool {
        let Wanted { proc, key: Some(_), directives, .. } = wanted else { return true };
        let Some(rank) = proc.rank.process() else { return false };
        if wanted.is_static() || directives.scope.is_some() {
            return false;
        }
        let posts_at_most = |bytes_max| self.store.posts_at_most(&proc.namespace, rank, bytes_max);
        if posts_at_most(TOLD_ALL_BYTES.min(self.config.limits.reply_bytes_max)) {
            return true;
        }
        let is_possible = self.peers.get(id).is_some_and(|peer| {
            !peer.fully_described.contains(proc) && posts_at_most(self.config.limits.reply_bytes_max)
        });
        self.peers.get_mut(id).is_some_and(|peer| peer.fully_described.insert(proc.clone())) && is_possible
    }

    /// The description of a job for peers.
    pub(super) fn job_for_peers(&self, namespace: &Namespace) -> Result<Vec<Kval>, LookupError> {
        let mut entries = self.store.job_entries(namespace)?;
        entries.retain(proto::is_for_peers);
        Ok(entries)
    }

    /// The values for a reader: one key's, or all that the process shows to this reader, within the size of a message.
    fn entries(&self, wanted: &Wanted, reader: For, tells_all: bool) -> Result<Vec<Kval>, LookupError> {
        let Wanted { proc, key, .. } = wanted;
        match (key, proc.rank) {
            (None, Rank::Process(rank)) if wanted.directives.realm.is_default() => {
                self.everything(wanted, rank, reader)
            }
            (None, _) => self.store.job_entries(&proc.namespace),
            (Some(_), Rank::Wildcard) if reader == For::Host => self.store.job_entries(&proc.namespace),
            (Some(_), Rank::Process(rank)) if reader == For::Host => self.posted(wanted, rank, reader),
            (Some(key), Rank::Process(rank)) if tells_all => {
                let mut entries = self.posted(wanted, rank, reader)?;
                let is_qualified = !wanted.directives.qualifiers.is_empty();
                // The key may be registered but not posted.
                if is_qualified || entries.iter().all(|kval| kval.key != *key) {
                    let found = self.found(wanted, key, reader).ok();
                    entries.extend(found.filter(|found| !entries.contains(found)));
                }
                if size_bytes(&entries) > self.config.limits.reply_bytes_max {
                    entries.retain(|kval| kval.key == *key || (is_qualified && kval.key.as_str() == QUALIFIED_VALUE));
                }
                Ok(entries)
            }
            (Some(key), _) => Ok(vec![self.found(wanted, key, reader)?]),
        }
    }

    /// The wanted value, under its key on the wire.
    fn found(&self, wanted: &Wanted, key: &Key, reader: For) -> Result<Kval, LookupError> {
        let value = self.find(wanted, key, reader)?;
        let is_qualified = !wanted.directives.qualifiers.is_empty();
        let key = if is_qualified { Key::from_static(QUALIFIED_VALUE) } else { key.clone() };
        Ok(Kval { key, value })
    }

    fn posted(&self, wanted: &Wanted, rank: u32, reader: For) -> Result<Vec<Kval>, LookupError> {
        let Wanted { proc, directives, .. } = wanted;
        let is_neighbour = reader == For::Peer && self.registry.client(proc).is_some();
        let implied = if is_neighbour { Audience::SameNode } else { Audience::OtherNodes };
        let named = Audience::of_scope(directives.scope).filter(|_| reader == For::Peer);
        self.store.posted(&proc.namespace, rank, named.unwrap_or(implied))
    }

    /// The posted values of a process and, for peers, its registered values, which have no scope. As in a Get of one
    /// key, the host's value wins for a reserved key, and the process's value for any other.
    fn everything(&self, wanted: &Wanted, rank: u32, reader: For) -> Result<Vec<Kval>, LookupError> {
        let mut entries = self.posted(wanted, rank, reader)?;
        if reader == For::Host || wanted.directives.scope.is_some() {
            return Ok(entries);
        }
        for registered in self.process_for_peers(wanted, rank)? {
            match entries.iter_mut().find(|entry| is_same_place(entry, &registered)) {
                Some(entry) if registered.key.is_reserved() => *entry = registered,
                Some(_) => {}
                None => entries.push(registered),
            }
        }
        Ok(entries)
    }

    /// The description of a process for peers.
    fn process_for_peers(&self, wanted: &Wanted, rank: u32) -> Result<Vec<Kval>, LookupError> {
        let mut entries = self.store.described(&wanted.proc.namespace, rank)?;
        entries.retain(proto::is_for_peers);
        Ok(entries)
    }

    /// Whether the wanted value of a process is here: registered for it, or fetched before.
    fn is_here(&self, wanted: &Wanted, rank: u32) -> bool {
        match &wanted.key {
            Some(key) => self.find(wanted, key, For::Peer).is_ok(),
            None if wanted.directives.scope.is_some() => false,
            None => self.process_for_peers(wanted, rank).is_ok_and(|entries| !entries.is_empty()),
        }
    }

    /// One stored value, for a client.
    pub(super) fn value_for_peer(&self, wanted: &Wanted, key: &Key) -> Result<Value, LookupError> {
        self.find(wanted, key, For::Peer)
    }

    fn find(&self, wanted: &Wanted, key: &Key, reader: For) -> Result<Value, LookupError> {
        let lookup = Lookup {
            rank: wanted.proc.rank,
            key: KeyRef::new(key.as_str()),
            realm: wanted.directives.realm.as_request(),
            audience: match reader {
                For::Host => (!wanted.is_static()).then_some(Audience::OtherNodes),
                For::Peer => Audience::of_scope(wanted.directives.scope),
            },
        };
        let found = match wanted.directives.qualifiers.as_slice() {
            [] => self.store.lookup(&wanted.proc.namespace, &lookup),
            qualifiers => return self.store.lookup_qualified(&wanted.proc.namespace, &lookup, qualifiers),
        };
        match found {
            Err(LookupError::NotFound { .. }) if reader == For::Peer && wanted.directives.realm.is_of_session() => {
                self.find_in_session(wanted, &lookup).map_or(found, Ok)
            }
            found => found,
        }
    }

    /// The value in a session, from any job that the reader may read: in the named session, else in the namespace's
    /// own.
    fn find_in_session(&self, wanted: &Wanted, lookup: &Lookup<'_>) -> Option<Value> {
        let (own, realm) = (&wanted.proc.namespace, &wanted.directives.realm);
        let key = KeyRef::new(keys::SESSION_ID.name());
        let id = Lookup { rank: Rank::Wildcard, key, realm: RealmRequest::Session(None), audience: None };
        let id = self.store.lookup(own, &id).ok().and_then(|id| id.as_u32());
        let realm = id.map_or_else(|| realm.clone(), |id| realm.of_session(id));
        // Without a number, each job's own session would be meant.
        realm.session_id()?;
        let lookup = Lookup { rank: Rank::Wildcard, realm: realm.as_request(), ..*lookup };
        let may_read = |namespace: &&Namespace| {
            let reader = wanted.reader.as_ref().map(|(proc, uid)| Subject { proc, uid: *uid, is_tool: false });
            reader.is_none_or(|reader| self.may(reader, Action::Read, Object::Job(namespace)))
        };
        let registered = self.registry.jobs().filter(|(_, job)| job.is_registered());
        let mut jobs = registered.map(|(namespace, _)| namespace).filter(may_read);
        jobs.find_map(|namespace| self.store.lookup(namespace, &lookup).ok())
    }

    /// Decides how to handle a request now. Changes nothing.
    pub(in crate::server) fn judge(&self, asker: &Asker, wanted: &Wanted) -> GetVerdict {
        let reader = reader_of(asker);
        let Some(job) = self.registry.registered(&wanted.proc.namespace) else {
            return self.judge_unknown_namespace(wanted, reader);
        };
        if wanted.is_static() {
            return match &wanted.key {
                Some(key) => self.find(wanted, key, reader).map_or_else(refused, |_| GetVerdict::Found),
                None => GetVerdict::Found,
            };
        }
        match (wanted.proc.rank, &wanted.key) {
            (Rank::Process(rank), _) => match self.judge_process(job, rank, wanted, asker) {
                // If a process posted nothing and no wait would help, its registered values are the answer. If no newer
                // value can be fetched, the stored one counts.
                GetVerdict::Refused(Status::ERR_NOT_FOUND) if reader == For::Peer && self.is_here(wanted, rank) => {
                    GetVerdict::Found
                }
                GetVerdict::Hold | GetVerdict::Fetch(_)
                    if wanted.directives.immediate && reader == For::Peer && self.is_here(wanted, rank) =>
                {
                    GetVerdict::Found
                }
                verdict => verdict,
            },
            (Rank::Undefined, Some(key)) => match self.find(wanted, key, reader) {
                Err(LookupError::NotFound { .. }) if wanted.directives.refresh && reader == For::Peer => {
                    GetVerdict::Refused(Status::ERR_NOT_FOUND)
                }
                Err(LookupError::NotFound { .. }) => GetVerdict::Hold,
                found => found.map_or_else(refused, |_| GetVerdict::Found),
            },
            _ => GetVerdict::Refused(Status::ERR_BAD_PARAM),
        }
    }

    /// A request of the host is held, because the host may still register the namespace, unless the job has ended. For
    /// a peer the host must fetch the data.
    fn judge_unknown_namespace(&self, wanted: &Wanted, reader: For) -> GetVerdict {
        let rank = match wanted.proc.rank {
            _ if reader == For::Host && self.registry.has_ended(&wanted.proc.namespace) => {
                return GetVerdict::Refused(Status::ERR_NOT_FOUND);
            }
            _ if reader == For::Host => return GetVerdict::Hold,
            Rank::Process(_) if !wanted.is_static() => wanted.proc.rank,
            Rank::Process(_) | Rank::Wildcard => Rank::Wildcard,
            _ => return GetVerdict::Refused(Status::ERR_NOT_FOUND),
        };
        self.fetch_or_refuse(ProcId::new(wanted.proc.namespace.clone(), rank), wanted)
    }

    /// Judges a request about a process of a known job and a key that it may have posted.
    fn judge_process(&self, job: &RegisteredJob, rank: u32, wanted: &Wanted, asker: &Asker) -> GetVerdict {
        let reader = reader_of(asker);
        let client = job.clients().get(&rank);
        let is_elsewhere = client.is_none() && job.is_defined();
        let is_outside = client.is_none() && job.job_size().is_some_and(|job_size| rank >= job_size);
        if is_outside || (is_elsewhere && reader == For::Host) {
            return GetVerdict::Refused(Status::ERR_NOT_FOUND);
        }
        let must_ask = is_elsewhere && wanted.directives.refresh && !wanted.directives.immediate;
        let found = match &wanted.key {
            _ if must_ask => false,
            Some(key) => match self.find(wanted, key, reader) {
                Ok(_) => true,
                Err(LookupError::NotFound { .. }) => false,
                Err(error) => return refused(error),
            },
            None => match client {
                Some(client) => client.has_spoken() || self.is_asker(asker, &wanted.proc),
                None => self.posted(wanted, rank, reader).is_ok_and(|entries| !entries.is_empty()),
            },
        };
        match client.map(|client| client.presence()) {
            _ if found => GetVerdict::Found,
            // The store already holds the newest values of local processes, so a refresh does not wait.
            Some(_) if wanted.directives.refresh && reader == For::Peer => GetVerdict::Refused(Status::ERR_NOT_FOUND),
            Some(presence) if presence.may_commit() => GetVerdict::Hold,
            Some(Presence::Finalized | Presence::Lost | Presence::Deregistered) => {
                GetVerdict::Refused(Status::ERR_NOT_FOUND)
            }
            // A process that is not registered yet may turn out to be local.
            _ if !is_elsewhere => GetVerdict::Hold,
            _ => self.fetch_or_refuse(wanted.proc.clone(), wanted),
        }
    }

    fn fetch_or_refuse(&self, proc: ProcId, wanted: &Wanted) -> GetVerdict {
        if !self.config.capabilities.contains(Capabilities::DIRECT_MODEX) {
            return GetVerdict::Refused(Status::ERR_NOT_FOUND);
        }
        // The whole job is fetched for any of its keys. A qualified value needs a fetch of all keys, because the other
        // server may never see its key alone.
        let is_whole = proc.rank == Rank::Wildcard || !wanted.directives.qualifiers.is_empty();
        let key = wanted.key.clone().filter(|_| !is_whole);
        GetVerdict::Fetch(Fetch { proc, key })
    }
}

/// Bytes of further values in the answer to a Get of one key, for every asker.
const TOLD_ALL_BYTES: usize = 16 << 10;

/// Servers of OpenPMIx 4.2 to 6.1 wait as long, even if the process has committed.
const SPOKEN_WAIT_MAX: Duration = Duration::from_secs(2);
/// Number of held requests reviewed in one step.
const REVIEWS_PER_STEP: usize = 64;
/// A step ends after this many bytes of answers.
const ANSWER_BYTES_PER_STEP: usize = 1 << 20;

const fn reader_of(asker: &Asker) -> For {
    match asker {
        Asker::Peer(_) | Asker::Own(_) => For::Peer,
        Asker::Host(_) => For::Host,
    }
}

fn refused(error: LookupError) -> GetVerdict {
    GetVerdict::Refused(error.status())
}

fn size_bytes(entries: &[Kval]) -> usize {
    let sizes = entries.iter().map(|kval| proto::unpacked_bytes(&kval.value));
    sizes.fold(0, usize::saturating_add)
}
