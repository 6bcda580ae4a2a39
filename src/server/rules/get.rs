//! Requests for data: answered from the store, held, or fetched by the host.

use std::time::Duration;

use super::access::{Action, Object, Subject};
use crate::gds::{Audience, Datastore, KeyRef, Lookup, LookupError, RealmRequest};
use crate::keys;
use crate::proto::{self, RankData, Reply};
use crate::server::interface::{Capabilities, GetDirectives, HostResult, OwnGet, TOPOLOGY};
use crate::server::state::{
    Asker, CallTicket, Concerned, Fetch, NEXT_STEP_IN, Pool, Presence, RegisteredClient, RegisteredJob, Review,
    ServerCore, Ticket, Timer, WaitId, Waiter, Wanted,
};
use crate::types::{AsStatus, Key, Namespace, ProcId, Rank, Status, Time, Value};

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
pub(super) enum For {
    Peer,
    Host,
}

impl<S: Datastore> ServerCore<S> {
    pub(in crate::server) fn get(&mut self, now: Time, ticket: Ticket, get: proto::Get) {
        let proto::Get { proc, directives, key } = get;
        let is_of_job = proc.rank == Rank::Wildcard
            && self.peers.get(ticket.peer()).is_some_and(|peer| peer.is_of_job(&proc.namespace));
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
        let reader = self.peers.get(ticket.peer()).map(|peer| (peer.proc().clone(), peer.user()));
        let wanted = Wanted { proc, key, directives: read, reader };
        let is_by_socket = self.peers.get(ticket.peer()).is_some_and(|peer| !peer.maps_segments());
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
        let waiter = Waiter { asker, wanted, via: None, deadline };
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
            Asker::Peer(ticket) => self.peers.proc_of(ticket.peer()) == Some(proc),
            Asker::Host(_) | Asker::Own(_) => false,
        }
    }

    /// Reviews the held requests that changes concern: the first ones now, the others in later turns. One change may
    /// answer very many, and each answer has a copy of the value.
    pub(super) fn review(&mut self, now: Time, changes: impl IntoIterator<Item = Concerned>) {
        changes.into_iter().for_each(|concerned| self.waiting.make_due(concerned));
        if self.waiting.reviews.next_step().is_none() {
            self.review_some(now);
        }
    }

    /// Reviews some of the held requests whose review is due.
    pub(in crate::server) fn review_some(&mut self, now: Time) {
        self.waiting.reviews.set_next_step(None);
        let mut step_bytes = 0_usize;
        for _ in 0..REVIEWS_PER_STEP {
            let Some(due) = self.waiting.take_due() else { return };
            let cost_bytes = match due {
                Review::Of(id) => self.search_bytes(id).saturating_add(self.review_wait(now, id)),
                Review::Settle(id) => self.search_bytes(id).saturating_add(self.settle_wait(now, id)),
                Review::Refuse(id) => {
                    self.refuse_wait(id, Status::ERR_NOT_FOUND);
                    0
                }
                Review::End => 0,
            };
            step_bytes = step_bytes.saturating_add(cost_bytes);
            if step_bytes > STEP_BYTES {
                break;
            }
        }
        self.waiting.reviews.rotate();
        if !self.waiting.reviews.is_empty() {
            let next = Some(now + NEXT_STEP_IN);
            self.waiting.reviews.set_next_step(next);
            self.timers.arm(next, Timer::Reviews);
        }
    }

    /// The time to judge a held request, as the bytes that are copied in this time. A Get with qualifiers may search many
    /// values.
    fn search_bytes(&self, id: WaitId) -> usize {
        let waiter = self.waiting.get(id).filter(|waiter| !waiter.wanted.directives.qualifiers.is_empty());
        let values = waiter.map_or(0, |waiter| self.store.qualified_values(&waiter.wanted.proc.namespace));
        values.saturating_mul(BYTES_PER_VALUE)
    }

    /// Reviews a held request. Returns the size of its answer, if it gets one, in bytes.
    fn review_wait(&mut self, now: Time, id: WaitId) -> usize {
        let Some(waiter) = self.waiting.get(id) else { return 0 };
        let via = waiter.via;
        match self.judge(&waiter.asker, &waiter.wanted) {
            GetVerdict::Found => return self.take_wait(id).map_or(0, |waiter| self.answer_held(waiter)),
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

    pub(super) fn refuse_wait(&mut self, id: WaitId, status: Status) {
        if let Some(waiter) = self.take_wait(id) {
            self.refuse(waiter.asker, status);
        }
    }

    /// The time of a held request is over. Its answer may be here, and only its review be due. Returns whether this took
    /// the time of a step.
    pub(in crate::server) fn expire_wait(&mut self, now: Time, id: WaitId) -> bool {
        if self.waiting.is_about_ended(id) {
            self.refuse_wait(id, Status::ERR_NOT_FOUND);
            return false;
        }
        if self.waiting.get(id).is_some_and(|waiter| self.waiting.settlement(waiter).is_some()) {
            return self.settle_wait(now, id) > 0;
        }
        let is_long = self.search_bytes(id) > STEP_BYTES;
        let Some(waiter) = self.waiting.get(id).filter(|_| !is_long || self.waiting.is_due(id)) else {
            self.refuse_wait(id, Status::ERR_TIMEOUT);
            return false;
        };
        if self.judge(&waiter.asker, &waiter.wanted) != GetVerdict::Found {
            self.refuse_wait(id, Status::ERR_TIMEOUT);
            return is_long;
        }
        let concerned = Concerned::Key(waiter.wanted.proc.clone(), waiter.wanted.awaited_key().cloned());
        self.waiting.set_deadline(id, None);
        self.review(now, [concerned]);
        is_long
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

    /// Whether the wanted value of a process is here: registered for it, or fetched before.
    fn is_here(&self, wanted: &Wanted, rank: u32) -> bool {
        match &wanted.key {
            Some(key) => self.locate(wanted, key, For::Peer).is_ok(),
            None if wanted.directives.scope.is_some() => false,
            None => self.process_for_peers(wanted, rank).is_ok_and(|entries| !entries.is_empty()),
        }
    }

    /// One stored value, for a client.
    pub(super) fn value_for_peer(&self, wanted: &Wanted, key: &Key) -> Result<Value, LookupError> {
        let (namespace, lookup) = (&wanted.proc.namespace, lookup_of(wanted, key, For::Peer));
        let found = match wanted.directives.qualifiers.as_slice() {
            [] => self.store.lookup(namespace, &lookup),
            qualifiers => return self.store.lookup_qualified(namespace, &lookup, qualifiers),
        };
        match found {
            Err(LookupError::NotFound { .. }) => self.find_in_session(wanted, &lookup).map_or(found, Ok),
            found => found,
        }
    }

    /// Whether a reader finds a value, without a copy of it.
    fn locate(&self, wanted: &Wanted, key: &Key, reader: For) -> Result<(), LookupError> {
        let (namespace, lookup) = (&wanted.proc.namespace, lookup_of(wanted, key, reader));
        let found = match wanted.directives.qualifiers.as_slice() {
            [] => self.store.locate(namespace, &lookup),
            qualifiers => return self.store.lookup_qualified(namespace, &lookup, qualifiers).map(drop),
        };
        match found {
            Err(LookupError::NotFound { .. }) if reader == For::Peer => {
                self.find_in_session(wanted, &lookup).map_or(found, |_| Ok(()))
            }
            found => found,
        }
    }

    /// The value in a session, if one is meant, from any job that the reader may read: in the named session, else in the
    /// namespace's own.
    fn find_in_session(&self, wanted: &Wanted, lookup: &Lookup<'_>) -> Option<Value> {
        let (own, realm) = (&wanted.proc.namespace, &wanted.directives.realm);
        if !realm.is_of_session() {
            return None;
        }
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
                Some(key) => self.locate(wanted, key, reader).map_or_else(refused, |()| GetVerdict::Found),
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
            (Rank::Undefined, Some(key)) => match self.locate(wanted, key, reader) {
                Err(LookupError::NotFound { .. }) if wanted.directives.refresh && reader == For::Peer => {
                    GetVerdict::Refused(Status::ERR_NOT_FOUND)
                }
                Err(LookupError::NotFound { .. }) => GetVerdict::Hold,
                found => found.map_or_else(refused, |()| GetVerdict::Found),
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
            Some(key) => match self.locate(wanted, key, reader) {
                Ok(()) => true,
                Err(LookupError::NotFound { .. }) => false,
                Err(error) => return refused(error),
            },
            None => match client {
                Some(client) => client.has_spoken() || self.is_asker(asker, &wanted.proc),
                None => self.has_posted(wanted, rank, reader),
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

/// Servers of OpenPMIx 4.2 to 6.1 wait as long, even if the process has committed.
const SPOKEN_WAIT_MAX: Duration = Duration::from_secs(2);
/// Number of held requests reviewed in one step.
const REVIEWS_PER_STEP: usize = 64;
/// A step ends after this many bytes of answers and searches.
const STEP_BYTES: usize = 1 << 20;
/// Bytes that are copied in the time in which a search examines a value.
const BYTES_PER_VALUE: usize = 256;

fn lookup_of<'a>(wanted: &'a Wanted, key: &'a Key, reader: For) -> Lookup<'a> {
    let directives = &wanted.directives;
    let audience = match reader {
        For::Host => (!wanted.is_static()).then_some(Audience::OtherNodes),
        For::Peer => Audience::of_scope(directives.scope),
    };
    Lookup { rank: wanted.proc.rank, key: KeyRef::new(key.as_str()), realm: directives.realm.as_request(), audience }
}

const fn reader_of(asker: &Asker) -> For {
    match asker {
        Asker::Peer(_) | Asker::Own(_) => For::Peer,
        Asker::Host(_) => For::Host,
    }
}

fn refused(error: LookupError) -> GetVerdict {
    GetVerdict::Refused(error.status())
}
