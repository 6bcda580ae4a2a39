//! Requests for data: answered from the store, held, or fetched by the host.

use std::time::Duration;

use super::access::{Action, Object, Subject};
use crate::gds::{Audience, Datastore, KeyRef, Lookup, LookupError, RealmRequest};
use crate::keys;
use crate::proto::{self, RankData, Reply};
use crate::server::interface::{
    Answer, AnswerData, Capabilities, GetDirectives, HostResult, JobData, OwnGet, PeerId, TOPOLOGY,
};
use crate::server::state::{
    Asker, CallTicket, Concerned, Fetch, HeldGet, HeldGetId, NEXT_STEP_IN, OperationId, Pool, Presence,
    RegisteredClient, RegisteredJob, RequestedData, Review, ServerCore, Ticket, Timer,
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
        let requested = RequestedData { proc, key, directives: read, reader };
        let is_by_socket = self.peers.get(ticket.peer()).is_some_and(|peer| !peer.maps_segments());
        if let Some(entry) = self.given_to_group(&requested, &directives).filter(|_| is_by_socket) {
            let data = RankData { proc: requested.proc, entries: vec![entry] };
            return self.outputs.reply(ticket, Reply::Data(vec![data]));
        }
        if let Some(number) = self.process_number(&requested).filter(|_| is_by_socket) {
            let data = RankData { proc: requested.proc, entries: vec![number] };
            return self.outputs.reply(ticket, Reply::Data(vec![data]));
        }
        let id = ticket.peer();
        match self.answer_from_hardware(Asker::Peer(ticket), &requested, &directives) {
            Some(Asker::Peer(ticket)) if is_by_socket && self.describes_instead(id, &requested) => {
                let job = JobData { namespace: requested.proc.namespace, is_whole: false, rest: AnswerData::NONE };
                self.outputs.answer(ticket, Answer::JobData(job));
            }
            Some(asker) => self.ask(now, asker, requested),
            None => {}
        }
    }

    /// Whether a peer gets the description of another job in place of a refusal, once. Clients of OpenPMIx 4.2 ask
    /// about the job for values of its ranks, and look for them in the description. A Get about a node, an application
    /// or a session is refused: the job's own value of that key would answer another question.
    fn describes_instead(&mut self, id: PeerId, requested: &RequestedData) -> bool {
        let RequestedData { proc, key: Some(key), .. } = requested else { return false };
        let is_other = self.peers.get(id).is_some_and(|peer| !peer.is_of_job(&proc.namespace));
        let is_missing = is_other
            && proc.rank == Rank::Wildcard
            && requested.directives.realm.is_default()
            && key.is_reserved()
            && self.registry.registered(&proc.namespace).is_some()
            && matches!(self.locate(requested, key, For::Peer), Err(LookupError::NotFound { .. }));
        is_missing && self.peers.get_mut(id).is_some_and(|peer| peer.describe_fully(proc))
    }

    /// The number of a process, if a Get asks for it and the host has described the process. A registered one has
    /// precedence.
    fn process_number(&self, requested: &RequestedData) -> Option<Kval> {
        let key = requested.key.as_ref().filter(|key| key.as_str() == keys::PROC_PID.name())?;
        let pid = self.registry.client(&requested.proc)?.pid()?;
        let is_registered = self.locate(requested, key, For::Peer).is_ok();
        (!is_registered).then(|| Kval { key: key.clone(), value: Value::Pid(pid) })
    }

    /// A Get of the server's own process. It sees the same values as a local client.
    pub(in crate::server) fn get_for_host(&mut self, now: Time, ticket: CallTicket, get: OwnGet) {
        let OwnGet { proc, directives, key } = get;
        if proto::Get::unmet(&directives).is_some() {
            return self.refuse(Asker::Own(ticket), Status::ERR_NOT_SUPPORTED);
        }
        let read = GetDirectives::read(&directives, key.as_ref());
        let requested = RequestedData { proc, key, directives: read, reader: None };
        let asker = self.answer_from_hardware(Asker::Own(ticket), &requested, &directives);
        let asker = asker.and_then(|asker| self.answer_own_from_topology(asker, &requested, &directives));
        if let Some(asker) = asker {
            self.ask(now, asker, requested);
        }
    }

    /// Answers a request for data, or holds it until an answer exists. Its timeout runs from now.
    pub(in crate::server) fn ask(&mut self, now: Time, asker: Asker, requested: RequestedData) {
        let is_immediate = requested.directives.immediate;
        let deadline = requested.directives.timeout.map(|timeout| now + timeout);
        let verdict = self.judge(&asker, &requested);
        let topology = self.topology_question(&asker, &requested, &verdict);
        let held = HeldGet { asker, requested, since: now, via: None, shares_upcall: false, fence: None, deadline };
        if let Some(key) = topology {
            return self.ask_topology(held, key);
        }
        match verdict {
            GetVerdict::Found => self.answer(held.asker, &held.requested),
            GetVerdict::Refused(Status::ERR_NOT_FOUND) if !is_immediate => {
                self.hold_for_fence(now, held, Status::ERR_NOT_FOUND);
            }
            GetVerdict::Refused(status) => self.refuse(held.asker, status),
            GetVerdict::Hold | GetVerdict::Fetch(_) if is_immediate => self.refuse(held.asker, Status::ERR_NOT_FOUND),
            GetVerdict::Hold => self.hold(now, held),
            GetVerdict::Fetch(fetch) => self.fetch(now, held, fetch),
        }
    }

    pub(super) fn hold(&mut self, now: Time, mut held: HeldGet) {
        let is_full = self.held_gets.host_requests() >= self.config.limits.host_requests_max;
        if matches!(held.asker, Asker::Host(_) | Asker::Own(_)) && is_full {
            return self.refuse(held.asker, Status::ERR_OUT_OF_RESOURCE);
        }
        let pool = Pool { max: self.config.limits.held_get_bytes_max, used: self.held_gets.size_bytes() };
        if let Some(uid) = held.requested.user()
            && !self.has_share(uid, pool, held.requested.size_bytes(), || self.held_gets.size_bytes_of_user(uid))
        {
            return self.refuse(held.asker, Status::ERR_OUT_OF_RESOURCE);
        }
        held.fence = self.fence_to_bring(&held.asker, &held.requested.proc).filter(|_| held.via.is_none());
        let deadline = held.deadline.or_else(|| self.end_of_patience(now, &held));
        held.deadline = deadline;
        let wait = self.held_gets.insert(held);
        self.timers.arm(deadline, Timer::HeldGet(wait));
    }

    /// The deadline of a Get without a bound of its own that a local process could answer. There is none until that
    /// process has spoken; afterwards it may never put the key. For a request of another node, that node's server has a
    /// bound.
    fn end_of_patience(&self, now: Time, held: &HeldGet) -> Option<Time> {
        let is_bounded = held.via.is_none() && !held.requested.directives.is_unbounded;
        let is_for_here = matches!(held.asker, Asker::Peer(_) | Asker::Own(_));
        let has_spoken = || self.have_spoken(&held.asker, &held.requested.proc);
        let has_come = || self.fence_to_bring(&held.asker, &held.requested.proc).is_none();
        (is_for_here && is_bounded && has_spoken() && has_come()).then(|| now + SPOKEN_WAIT_MAX)
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

    /// Holds a request whose data a fence in progress may bring from another node, until that fence ends: its
    /// participants ask without a wait for its end ("lazy modex"). Refuses any other.
    pub(super) fn hold_for_fence(&mut self, now: Time, held: HeldGet, otherwise: Status) {
        let proc = &held.requested.proc;
        let is_elsewhere = self.registry.registered(&proc.namespace).is_some() && self.registry.client(proc).is_none();
        let is_to_come = is_elsewhere && self.fence_to_bring(&held.asker, proc).is_some();
        if is_to_come { self.hold(now, held) } else { self.refuse(held.asker, otherwise) }
    }

    /// The fence at which the asker waits and to which a process has yet to come with its data.
    fn fence_to_bring(&self, asker: &Asker, proc: &ProcId) -> Option<OperationId> {
        let (Asker::Peer(ticket), Some(_)) = (asker, proc.rank.process()) else { return None };
        self.collectives.fence_to_bring(ticket.peer(), proc, self.registry.client(proc).is_some())
    }

    /// The fence has ended that could bring the data of a request. Returns the size of its answer, if it gets one, in
    /// bytes.
    fn settle_after_fence(&mut self, now: Time, id: HeldGetId) -> usize {
        let Some(held) = self.take_held(id) else { return 0 };
        match self.judge(&held.asker, &held.requested) {
            GetVerdict::Found => return self.answer_held(held),
            GetVerdict::Hold => self.hold(now, held),
            GetVerdict::Fetch(fetch) => self.fetch(now, held, fetch),
            GetVerdict::Refused(Status::ERR_NOT_FOUND) => self.hold_for_fence(now, held, Status::ERR_NOT_FOUND),
            GetVerdict::Refused(status) => self.refuse(held.asker, status),
        }
        0
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
        changes.into_iter().for_each(|concerned| self.held_gets.make_due(concerned));
        if self.held_gets.reviews.next_step().is_none() {
            self.review_some(now);
        }
    }

    /// Reviews some of the held requests whose review is due.
    pub(in crate::server) fn review_some(&mut self, now: Time) {
        self.held_gets.reviews.set_next_step(None);
        let mut step_bytes = 0_usize;
        for _ in 0..REVIEWS_PER_STEP {
            let Some(due) = self.held_gets.take_due() else { return };
            let cost_bytes = match due {
                Review::Of(id) => self.search_bytes(id).saturating_add(self.review_held(now, id)),
                Review::Settle(id) => self.search_bytes(id).saturating_add(self.settle_held(now, id)),
                Review::AfterFence(id) => self.search_bytes(id).saturating_add(self.settle_after_fence(now, id)),
                Review::Refuse(id) => {
                    self.refuse_held(id, Status::ERR_NOT_FOUND);
                    0
                }
                Review::End => 0,
            };
            step_bytes = step_bytes.saturating_add(cost_bytes);
            if step_bytes > STEP_BYTES {
                break;
            }
        }
        self.held_gets.reviews.rotate();
        if !self.held_gets.reviews.is_empty() {
            let next = Some(now + NEXT_STEP_IN);
            self.held_gets.reviews.set_next_step(next);
            self.timers.arm(next, Timer::Reviews);
        }
    }

    /// The time to judge a held request, as the bytes that are copied in this time. A Get with qualifiers may search
    /// many values.
    fn search_bytes(&self, id: HeldGetId) -> usize {
        let held = self.held_gets.get(id).filter(|held| !held.requested.directives.qualifiers.is_empty());
        let values = held.map_or(0, |held| self.store.qualified_values(&held.requested.proc.namespace));
        values.saturating_mul(BYTES_PER_VALUE)
    }

    /// Reviews a held request. Returns the size of its answer, if it gets one, in bytes.
    fn review_held(&mut self, now: Time, id: HeldGetId) -> usize {
        let Some(held) = self.held_gets.get(id) else { return 0 };
        let (via, is_here) = (held.via, self.registry.client(&held.requested.proc).is_some());
        let awaits_fence = held.fence.is_some() && !is_here;
        match self.judge(&held.asker, &held.requested) {
            GetVerdict::Found => return self.take_held(id).map_or(0, |held| self.answer_held(held)),
            // The end of the fence decides.
            GetVerdict::Fetch(_) | GetVerdict::Refused(Status::ERR_NOT_FOUND) if awaits_fence => {}
            GetVerdict::Refused(status) => self.refuse_held(id, status),
            GetVerdict::Fetch(fetch) if via.is_none() => {
                if let Some(held) = self.take_held(id) {
                    self.fetch(now, held, fetch);
                }
            }
            GetVerdict::Hold if held.deadline.is_none() => {
                let deadline = self.end_of_patience(now, held);
                self.held_gets.set_deadline(id, deadline);
                self.timers.arm(deadline, Timer::HeldGet(id));
            }
            GetVerdict::Hold | GetVerdict::Fetch(_) => {}
        }
        0
    }

    pub(super) fn refuse_held(&mut self, id: HeldGetId, status: Status) {
        if let Some(held) = self.take_held(id) {
            self.refuse(held.asker, status);
        }
    }

    /// The time of a held request is over. Its answer may be here, and only its review be due. Returns whether this
    /// took the time of a step.
    pub(in crate::server) fn expire_held(&mut self, now: Time, id: HeldGetId) -> bool {
        if self.held_gets.is_about_ended(id) {
            self.refuse_held(id, Status::ERR_NOT_FOUND);
            return false;
        }
        if self.held_gets.get(id).is_some_and(|held| self.held_gets.settlement(held).is_some()) {
            return self.settle_held(now, id) > 0;
        }
        let is_long = self.search_bytes(id) > STEP_BYTES;
        let Some(held) = self.held_gets.get(id).filter(|_| !is_long || self.held_gets.is_due(id)) else {
            self.refuse_held(id, Status::ERR_TIMEOUT);
            return false;
        };
        let verdict = self.judge(&held.asker, &held.requested);
        // Its process may have begun a fence after the request.
        let may_come = held.requested.directives.timeout.is_none()
            && verdict == GetVerdict::Hold
            && self.fence_to_bring(&held.asker, &held.requested.proc).is_some();
        if may_come {
            self.hold_anew(now, id);
            return is_long;
        }
        if verdict != GetVerdict::Found {
            self.refuse_held(id, Status::ERR_TIMEOUT);
            return is_long;
        }
        let concerned = Concerned::Key(held.requested.proc.clone(), held.requested.awaited_key().cloned());
        self.held_gets.set_deadline(id, None);
        self.review(now, [concerned]);
        is_long
    }

    /// Holds a request whose time is over until a fence ends.
    fn hold_anew(&mut self, now: Time, id: HeldGetId) {
        if let Some(held) = self.take_held(id) {
            self.hold(now, HeldGet { deadline: None, ..held });
        }
    }

    pub(super) fn take_held(&mut self, id: HeldGetId) -> Option<HeldGet> {
        let held = self.held_gets.remove(id)?;
        self.timers.disarm(held.deadline, Timer::HeldGet(id));
        Some(held)
    }

    pub(super) fn refuse(&mut self, asker: Asker, status: Status) {
        match asker {
            Asker::Peer(ticket) => self.outputs.reply_status(ticket, status),
            Asker::Host(ticket) | Asker::Own(ticket) => self.outputs.complete(ticket, HostResult::Status(status)),
        }
    }

    /// Whether the requested value of a process is here: registered for it, or fetched before.
    fn is_here(&self, requested: &RequestedData, rank: u32) -> bool {
        match &requested.key {
            Some(key) => self.locate(requested, key, For::Peer).is_ok(),
            None if requested.directives.scope.is_some() => false,
            None => self.process_for_peers(requested, rank).is_ok_and(|entries| !entries.is_empty()),
        }
    }

    /// One stored value, for a client.
    pub(super) fn value_for_peer(&self, requested: &RequestedData, key: &Key) -> Result<Value, LookupError> {
        let (namespace, lookup) = (&requested.proc.namespace, lookup_of(requested, key, For::Peer));
        let found = match requested.directives.qualifiers.as_slice() {
            [] => self.store.lookup(namespace, &lookup),
            qualifiers => return self.store.lookup_qualified(namespace, &lookup, qualifiers),
        };
        match found {
            Err(LookupError::NotFound { .. }) => self.find_in_session(requested, &lookup).map_or(found, Ok),
            found => found,
        }
    }

    /// Whether a reader finds a value, without a copy of it.
    fn locate(&self, requested: &RequestedData, key: &Key, reader: For) -> Result<(), LookupError> {
        let (namespace, lookup) = (&requested.proc.namespace, lookup_of(requested, key, reader));
        let found = match requested.directives.qualifiers.as_slice() {
            [] => self.store.locate(namespace, &lookup),
            qualifiers => return self.store.lookup_qualified(namespace, &lookup, qualifiers).map(drop),
        };
        match found {
            Err(LookupError::NotFound { .. }) if reader == For::Peer => {
                self.find_in_session(requested, &lookup).map_or(found, |_| Ok(()))
            }
            found => found,
        }
    }

    /// The value in a session, if one is meant, from any job that the reader may read: in the named session, else in
    /// the namespace's own.
    fn find_in_session(&self, requested: &RequestedData, lookup: &Lookup<'_>) -> Option<Value> {
        let (own, realm) = (&requested.proc.namespace, &requested.directives.realm);
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
            let reader = requested.reader.as_ref().map(|(proc, uid)| Subject { proc, uid: *uid, is_tool: false });
            reader.is_none_or(|reader| self.may(reader, Action::Read, Object::Job(namespace)))
        };
        let registered = self.registry.jobs().filter(|(_, job)| job.is_registered());
        let mut jobs = registered.map(|(namespace, _)| namespace).filter(may_read);
        jobs.find_map(|namespace| self.store.lookup(namespace, &lookup).ok())
    }

    /// Decides how to handle a request now. Changes nothing.
    pub(in crate::server) fn judge(&self, asker: &Asker, requested: &RequestedData) -> GetVerdict {
        let reader = reader_of(asker);
        let Some(job) = self.registry.registered(&requested.proc.namespace) else {
            return self.judge_unknown_namespace(requested, reader);
        };
        if requested.is_static() {
            return match &requested.key {
                Some(key) => self.locate(requested, key, reader).map_or_else(refused, |()| GetVerdict::Found),
                None => GetVerdict::Found,
            };
        }
        match (requested.proc.rank, &requested.key) {
            (Rank::Process(rank), _) => match self.judge_process(job, rank, requested, asker) {
                // If a process posted nothing and no wait would help, its registered values are the answer. If no newer
                // value can be fetched, the stored one counts.
                GetVerdict::Refused(Status::ERR_NOT_FOUND) if reader == For::Peer && self.is_here(requested, rank) => {
                    GetVerdict::Found
                }
                GetVerdict::Hold | GetVerdict::Fetch(_)
                    if requested.directives.immediate && reader == For::Peer && self.is_here(requested, rank) =>
                {
                    GetVerdict::Found
                }
                verdict => verdict,
            },
            (Rank::Undefined, Some(key)) => match self.locate(requested, key, reader) {
                Err(LookupError::NotFound { .. }) if requested.directives.refresh && reader == For::Peer => {
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
    fn judge_unknown_namespace(&self, requested: &RequestedData, reader: For) -> GetVerdict {
        let rank = match requested.proc.rank {
            _ if reader == For::Host && self.registry.has_ended(&requested.proc.namespace) => {
                return GetVerdict::Refused(Status::ERR_NOT_FOUND);
            }
            _ if reader == For::Host => return GetVerdict::Hold,
            Rank::Process(_) if !requested.is_static() => requested.proc.rank,
            Rank::Process(_) | Rank::Wildcard => Rank::Wildcard,
            _ => return GetVerdict::Refused(Status::ERR_NOT_FOUND),
        };
        self.fetch_or_refuse(ProcId::new(requested.proc.namespace.clone(), rank), requested)
    }

    /// Judges a request about a process of a known job and a key that it may have posted.
    fn judge_process(&self, job: &RegisteredJob, rank: u32, requested: &RequestedData, asker: &Asker) -> GetVerdict {
        let reader = reader_of(asker);
        let client = job.clients().get(&rank);
        let is_elsewhere = client.is_none() && job.is_defined();
        let is_outside = client.is_none() && job.job_size().is_some_and(|job_size| rank >= job_size);
        if is_outside || (is_elsewhere && reader == For::Host) {
            return GetVerdict::Refused(Status::ERR_NOT_FOUND);
        }
        let must_ask = is_elsewhere && requested.directives.refresh && !requested.directives.immediate;
        let found = match &requested.key {
            _ if must_ask => false,
            Some(key) => match self.locate(requested, key, reader) {
                Ok(()) => true,
                Err(LookupError::NotFound { .. }) => false,
                Err(error) => return refused(error),
            },
            None => match client {
                Some(client) => client.has_spoken() || self.is_asker(asker, &requested.proc),
                None => self.has_posted(requested, rank, reader),
            },
        };
        match client.map(|client| client.presence()) {
            _ if found => GetVerdict::Found,
            // The store already holds the newest values of local processes, so a refresh does not wait.
            Some(_) if requested.directives.refresh && reader == For::Peer => {
                GetVerdict::Refused(Status::ERR_NOT_FOUND)
            }
            Some(presence) if presence.may_commit() => GetVerdict::Hold,
            Some(Presence::Finalized | Presence::Lost | Presence::Deregistered) => {
                GetVerdict::Refused(Status::ERR_NOT_FOUND)
            }
            // A process that is not registered yet may turn out to be local.
            _ if !is_elsewhere => GetVerdict::Hold,
            _ => self.fetch_or_refuse(requested.proc.clone(), requested),
        }
    }

    fn fetch_or_refuse(&self, proc: ProcId, requested: &RequestedData) -> GetVerdict {
        if !self.config.capabilities.contains(Capabilities::DIRECT_MODEX) {
            return GetVerdict::Refused(Status::ERR_NOT_FOUND);
        }
        // The whole job is fetched for any of its keys. A qualified value needs a fetch of all keys, because the other
        // server may never see its key alone.
        let is_whole = proc.rank == Rank::Wildcard || !requested.directives.qualifiers.is_empty();
        let key = requested.key.clone().filter(|_| !is_whole);
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

fn lookup_of<'a>(requested: &'a RequestedData, key: &'a Key, reader: For) -> Lookup<'a> {
    let directives = &requested.directives;
    let audience = match reader {
        For::Host => (!requested.is_static()).then_some(Audience::OtherNodes),
        For::Peer => Audience::of_scope(directives.scope),
    };
    Lookup { rank: requested.proc.rank, key: KeyRef::new(key.as_str()), realm: directives.realm.as_request(), audience }
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
