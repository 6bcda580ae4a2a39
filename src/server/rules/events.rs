//! Events: registrations, distribution, and the cache for later registrations.
//!
//! A client's event goes to all registered processes in range except the client itself, and up to the host unless it
//! stays on the node. An event of the host goes to the same processes, and never up. A client registers a set of codes;
//! only the client knows the handlers for them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::access::{Action, Object};
use crate::events::{Event, Registration, RegistrationError, is_of_environment, is_system};
use crate::gds::Datastore;
use crate::keys;
use crate::proto::notification::RELAYED;
use crate::proto::{self, OF_CONNECTION};
use crate::server::interface::{
    Capabilities, EventDelivery, Garbage, HostResult, Output, PeerId, RegisterEvents, Upcall, UpcallId, processes,
};
use crate::server::state::{
    Asker, CallTicket, Codes, EventOrigin, HeldEvent, Listener, Participants, Peer, Purpose, RegisteredClient, Remote,
    Rest, ServerCore, Ticket, Timer, Voice, listener_of,
};
use crate::types::codes::range;
use crate::types::{Info, Key, Namespace, ProcId, Rank, Status, Time, Value};

impl<S: Datastore> ServerCore<S> {
    /// Handles an event of a client.
    pub(in crate::server) fn notify(&mut self, now: Time, ticket: Ticket, source: ProcId, notify: proto::Notify) {
        let proto::Notify { status, range, mut info } = notify;
        // Only servers use these keys: a mark of other libraries' servers, and a question between servers.
        info.retain(|info| info.key.as_str() != RELAYED && info.key.as_str() != proto::GROUP_AWAITED);
        let origin = match self.put_members(&mut info, &source) {
            // The sender could not know that it is among the targets, and has not called its own handlers.
            Ok(true) => None,
            Ok(false) => Some(ticket.peer()),
            Err(status) => return self.outputs.reply_status(ticket, status),
        };
        let mut event = Event { status, source: Some(source), range, info };
        if !is_addressed(&event) {
            return self.outputs.reply_status(ticket, Status::ERR_BAD_PARAM);
        }
        let origin = match self.admit_event(ticket.peer(), &mut event) {
            Ok(voice) => EventOrigin { connection: origin, voice },
            Err(status) => return self.outputs.reply_status(ticket, status),
        };
        let stays_here = matches!(range, range::RANGE_LOCAL | range::RANGE_PROC_LOCAL) || event.stays_local();
        let has_host = self.config.capabilities.contains(Capabilities::NOTIFY_EVENT);
        if (stays_here || !has_host) && event.needs_a_host() {
            return self.outputs.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
        }
        if event.needs_a_host() {
            // No process hears of an event that the host refuses.
            let held = Some(Box::new(HeldEvent { event: event.clone(), origin }));
            self.ask_host(now, Purpose::Notify(ticket, held), Upcall::NotifyEvent(event));
            return;
        }
        let event = Arc::new(event);
        self.distribute(now, &event, origin);
        self.note_group_event(now, &event, Some(ticket.peer()));
        if stays_here || !has_host {
            let is_lost = range == range::RANGE_RM && !has_host;
            let status = if is_lost { Status::ERR_NOT_SUPPORTED } else { Status::SUCCESS };
            self.outputs.reply_status(ticket, status);
            if has_long_list(&event) {
                self.outputs.push(Output::Discard(Garbage::new(event)));
            }
            return;
        }
        self.ask_host(now, Purpose::Notify(ticket, None), Upcall::NotifyEvent(Arc::unwrap_or_clone(event)));
    }

    /// The host has answered an event. One that waited for this goes to the processes in range.
    pub(in crate::server) fn settle_event(
        &mut self,
        now: Time,
        ticket: Ticket,
        held: Option<Box<HeldEvent>>,
        status: Status,
    ) {
        if let Some(held) = held.filter(|_| status == Status::SUCCESS) {
            let HeldEvent { event, origin } = *held;
            let event = Arc::new(event);
            self.distribute(now, &event, origin);
            self.note_group_event(now, &event, Some(ticket.peer()));
        }
        self.outputs.reply_status(ticket, status);
    }

    /// The host has answered an event whose raiser has ended. The other processes in range get it.
    pub(in crate::server) fn settle_orphan(&mut self, now: Time, held: HeldEvent, status: Status) {
        if status == Status::SUCCESS {
            self.distribute(now, &Arc::new(held.event), held.origin);
        }
    }

    /// The authority of a connection's event. Unreachable targets are removed; others must remain.
    fn admit_event(&self, id: PeerId, event: &mut Event) -> Result<Voice, Status> {
        let Some(peer) = self.peers.get(id) else { return Err(Status::ERR_NOT_AVAILABLE) };
        // Targets of one job are mostly neighbours, and each job is looked up once for all of them.
        let mut last: Option<(Namespace, bool)> = None;
        let mut known: BTreeMap<Namespace, bool> = BTreeMap::new();
        let is_reached = |target: &ProcId| match &last {
            Some((namespace, is_reached)) if namespace.is(&target.namespace) => *is_reached,
            _ => {
                let may_raise = || self.may(peer, Action::Raise, Object::Job(&target.namespace));
                let is_reached = *known.entry(target.namespace.clone()).or_insert_with(may_raise);
                last = Some((target.namespace.clone(), is_reached));
                is_reached
            }
        };
        if event.range == range::RANGE_CUSTOM && event.retain_targets(is_reached) == 0 {
            return Err(Action::Raise.rule().refusal);
        }
        Ok(Voice::User(peer.user()))
    }

    /// The authority of an event without a connection: its source's user, or the host if that is unknown or the server.
    pub(super) fn voice_of(&self, source: Option<&ProcId>) -> Voice {
        let Some(source) = source.filter(|source| !self.is_server(source)) else { return Voice::Host };
        let user = match self.registry.client(source) {
            Some(client) => Some(client.credentials().uid),
            None => self.registry.job(&source.namespace).and_then(|job| job.users().first().copied()),
        };
        user.map_or(Voice::Host, Voice::User)
    }

    /// Handles an event of the host. It never goes back to the host.
    pub(in crate::server) fn notify_of_host(&mut self, now: Time, event: &Arc<Event>) -> Status {
        if !is_addressed(event) {
            return Status::ERR_BAD_PARAM;
        }
        if self.is_outdone(now, event) || self.is_asked_for_part(now, event) {
            return Status::SUCCESS;
        }
        self.distribute(now, event, self.voice_of(event.source.as_ref()).into());
        if event.status == Status::ERR_PROC_TERM_WO_SYNC {
            for proc in event.affected() {
                if self.reaches_connected(event, proc) {
                    self.registry.client_mut(proc).map(RegisteredClient::mark_end_announced);
                }
            }
        }
        self.note_group_event(now, event, None);
        Status::SUCCESS
    }

    /// Whether an event goes to all processes that are connected with a process.
    fn reaches_connected(&self, event: &Event, proc: &ProcId) -> bool {
        let targets = event.targets();
        match event.range {
            range::RANGE_LOCAL | range::RANGE_SESSION | range::RANGE_GLOBAL => true,
            range::RANGE_CUSTOM => {
                self.ties.connections_of(proc).flat_map(addressees).all(|connected| targets.contains(&&connected))
            }
            _ => false,
        }
    }

    /// Notifies handlers in the server's process that the connection of a process has broken, or that a tool has left.
    /// The event comes at the end of the window at the latest.
    pub(super) fn raise_lost_connection(&mut self, now: Time, proc: &ProcId) {
        let before = self.loss_window.due();
        let report = self.loss_window.lose(now, proc.clone());
        if before != self.loss_window.due() {
            self.timers.disarm(before, Timer::Losses);
            self.timers.arm(self.loss_window.due(), Timer::Losses);
        }
        self.raise_here(report);
    }

    /// Reports the connections that have broken in the window.
    pub(in crate::server) fn report_losses(&mut self) {
        self.timers.disarm(self.loss_window.due(), Timer::Losses);
        let report = self.loss_window.take_losses();
        self.raise_here(report);
    }

    /// Notifies handlers in the server's process alone.
    fn raise_here(&mut self, event: Option<Event>) {
        let wanted = event.filter(|event| self.events.wants(Listener::Host, event));
        if let Some(event) = wanted {
            self.outputs.push(Output::Raise(event));
        }
    }

    /// A process has ended, and it is still connected with others: they get an event, unless the host has raised it.
    /// Default handlers do not get it, because libraries of MPI abort in these. Servers of other nodes get it from the
    /// host.
    pub(super) fn raise_end_without_disconnect(&mut self, now: Time, proc: &ProcId) {
        let connections: Vec<Participants> = self.ties.connections_of(proc).cloned().collect();
        if connections.is_empty() || !self.registry.client_mut(proc).is_some_and(RegisteredClient::mark_end_announced) {
            return;
        }
        let has_host = self.config.capabilities.contains(Capabilities::NOTIFY_EVENT);
        let is_for_host = has_host && connections.iter().any(|procs| self.has_members_elsewhere(procs));
        let flag = |key: &'static str| Info::new(Key::from_static(key), true);
        let info = vec![
            Info::new(Key::from_static(keys::EVENT_AFFECTED_PROC.name()), proc.clone()),
            Info::new(Key::from_static(keys::EVENT_CUSTOM_RANGE.name()), processes(addressees_of_all(&connections))),
            flag(keys::EVENT_NON_DEFAULT.name()),
            flag(keys::EVENT_DO_NOT_CACHE.name()),
            flag(OF_CONNECTION),
        ];
        let (status, source) = (Status::ERR_PROC_TERM_WO_SYNC, Some(proc.clone()));
        let event = Arc::new(Event { status, source, range: range::RANGE_CUSTOM, info });
        let is_connected =
            |core: &Self, hearer: &ProcId| core.ties.connections_of(hearer).any(|procs| procs.cover(proc));
        self.spread(now, &event, self.voice_of(Some(proc)).into(), is_connected);
        if is_for_host {
            let id = self.upcalls.unawaited();
            self.outputs.push(Output::Upcall(id, Upcall::NotifyEvent(Arc::unwrap_or_clone(event))));
        }
    }

    /// Whether processes of other nodes are connected. Long lists are not searched: their jobs decide.
    fn has_members_elsewhere(&self, procs: &Participants) -> bool {
        let is_elsewhere = |job: &Namespace| self.registry.job(job).is_none_or(|job| job.remote() != Remote::None);
        procs.namespaces().any(is_elsewhere)
            && addressees(procs).iter().any(|addressee| match addressee.rank.process() {
                Some(_) => self.registry.client(addressee).is_none(),
                None => is_elsewhere(&addressee.namespace),
            })
    }

    /// Whether a process has got the server's own event about the end of a process with which it is connected.
    fn has_heard(&self, event: &Event, hearer: &ProcId) -> bool {
        let is_announced = |proc: &ProcId| self.registry.client(proc).is_some_and(RegisteredClient::is_end_announced);
        let is_connected = |proc: &ProcId| self.ties.connections_of(hearer).any(|procs| procs.cover(proc));
        let affected = event.affected();
        event.status == Status::ERR_PROC_TERM_WO_SYNC
            && !affected.is_empty()
            && affected.into_iter().all(|proc| is_announced(proc) && is_connected(proc))
    }

    /// Registers a client for events.
    pub(in crate::server) fn register_events(&mut self, now: Time, ticket: Ticket, request: proto::RegisterEvents) {
        let proto::RegisterEvents { codes, directives } = request;
        self.register(now, Asker::Peer(ticket), Codes::registered(codes), directives);
    }

    /// Registers the server's own process for events.
    pub(in crate::server) fn register_events_of_host(
        &mut self,
        now: Time,
        ticket: CallTicket,
        request: RegisterEvents,
    ) {
        let RegisterEvents { codes, directives } = request;
        self.register(now, Asker::Host(ticket), Codes::registered(codes), directives);
    }

    fn register(&mut self, now: Time, asker: Asker, codes: Codes, directives: Vec<Info>) {
        let has_host = self.config.capabilities.contains(Capabilities::REGISTER_EVENTS);
        if !has_host && codes.listed.iter().any(|code| is_system(*code)) {
            return self.answer_registration(asker, Status::ERR_NOT_SUPPORTED);
        }
        let environment: Vec<Status> = codes.listed.iter().copied().filter(|code| is_of_environment(*code)).collect();
        let is_asked = has_host && !self.events.unasked(&environment).is_empty();
        if !is_asked && directives.iter().any(is_required_of_host) {
            return self.answer_registration(asker, Status::ERR_NOT_SUPPORTED);
        }
        let listener = listener_of(&asker);
        if self.events.size_with(listener, &codes) > self.config.limits.event_codes_max {
            return self.answer_registration(asker, Status::ERR_OUT_OF_RESOURCE);
        }
        let mut waits_for = BTreeSet::new();
        if has_host {
            waits_for = self.ask_for_environment(now, &environment, directives);
        }
        if waits_for.is_empty() {
            return self.grant(now, asker, &codes);
        }
        self.events.hold(asker, codes, waits_for);
    }

    /// Requests new codes of the environment from the host. Returns the upcalls that must be answered before all codes
    /// are granted.
    fn ask_for_environment(&mut self, now: Time, wanted: &[Status], directives: Vec<Info>) -> BTreeSet<UpcallId> {
        let new = self.events.unasked(wanted);
        if !new.is_empty() {
            let upcall = Upcall::RegisterEvents(RegisterEvents { codes: new.clone(), directives });
            let id = self.ask_host(now, Purpose::RegisterEvents, upcall);
            self.events.note_asked(new, id);
        }
        self.events.asked(wanted)
    }

    /// Handles the host's answer about codes of the environment.
    pub(in crate::server) fn complete_environment(&mut self, now: Time, id: UpcallId, status: Status) {
        let is_granted = status == Status::SUCCESS;
        let mut answered = self.events.note_answer(id, is_granted);
        for number in self.events.note_answered(id) {
            let Some((asker, codes)) = self.events.take_settled(number, is_granted) else { continue };
            match is_granted {
                true => self.grant(now, asker, &codes),
                false => {
                    answered.extend(&codes.listed);
                    self.answer_registration(asker, status);
                }
            }
        }
        // The listener for these codes may have gone meanwhile.
        self.settle_environment(&answered);
    }

    /// Completes a registration: first the reply, then the missed events.
    fn grant(&mut self, now: Time, asker: Asker, codes: &Codes) {
        let listener = listener_of(&asker);
        self.answer_registration(asker, Status::SUCCESS);
        if let Listener::Peer(id) = listener
            && !self.peers.get(id).is_some_and(Peer::is_admitted)
        {
            return self.settle_environment(&codes.listed);
        }
        self.events.expire(now);
        let missed = self.missed(listener, codes);
        self.events.add(listener, codes);
        self.deliver_missed(listener, missed);
    }

    /// Delivers the next missed events, and leaves the rest for another step. An event that is raised between two steps
    /// overtakes those of the later one, and may push them out of the cache.
    pub(in crate::server) fn deliver_missed(&mut self, listener: Listener, mut numbers: VecDeque<u64>) {
        let (proc, mut left_bytes) = match listener {
            Listener::Host => (None, usize::MAX),
            Listener::Peer(id) => (self.peers.get(id).map(|peer| peer.proc().clone()), MISSED_BYTES_MAX),
        };
        while left_bytes > 0
            && let Some(number) = numbers.pop_front()
        {
            // Newer events may have pushed it out of the cache.
            let Some((event, bytes)) = self.events.kept(number) else { continue };
            self.deliver(listener, proc.as_ref(), number, EventDelivery { event, was_missed: true });
            left_bytes = left_bytes.saturating_sub(bytes.max(MISSED_EVENT_BYTES_MIN));
        }
        if let Listener::Peer(id) = listener
            && !numbers.is_empty()
        {
            self.leave_rest(id, Rest::MissedEvents(numbers));
        }
    }

    fn answer_registration(&mut self, asker: Asker, status: Status) {
        match asker {
            Asker::Peer(ticket) => self.outputs.reply_status(ticket, status),
            Asker::Host(ticket) | Asker::Own(ticket) => self.outputs.complete(ticket, HostResult::Status(status)),
        }
    }

    /// Deregisters a listener from these codes.
    pub(in crate::server) fn deregister_events(&mut self, listener: Listener, codes: Vec<Status>) {
        let codes = Codes::listed(codes);
        self.events.remove(listener, &codes);
        self.settle_environment(&codes.listed);
    }

    /// Deregisters a connection from all events.
    pub(super) fn forget_listener(&mut self, id: PeerId) {
        let given_up = self.events.forget(id);
        self.settle_environment(&given_up);
    }

    /// Tells the host which of these codes of the environment have no listener any more. Other codes are not checked,
    /// because that would compare all codes with all listeners.
    fn settle_environment(&mut self, given_up: &[Status]) {
        let unwanted = self.events.take_unwanted(given_up);
        if !unwanted.is_empty() && self.config.capabilities.contains(Capabilities::DEREGISTER_EVENTS) {
            let id = self.upcalls.unawaited();
            self.outputs.push(Output::Upcall(id, Upcall::DeregisterEvents(unwanted)));
        }
    }

    /// Delivers an event to all local listeners in range except its origin, and caches it for later registrations.
    pub(super) fn distribute(&mut self, now: Time, event: &Arc<Event>, origin: EventOrigin) {
        let source = event.source.as_ref().map(tracing::field::display);
        tracing::debug!(status = %event.status, source, range = event.range, "an event goes to the processes in range");
        self.spread(now, event, origin, |core, hearer| !core.has_heard(event, hearer));
    }

    /// As [`Self::distribute`], to these processes.
    fn spread(
        &mut self,
        now: Time,
        event: &Arc<Event>,
        origin: EventOrigin,
        is_meant: impl Fn(&Self, &ProcId) -> bool,
    ) {
        if event.range == range::RANGE_PROC_LOCAL {
            return;
        }
        let (number, spent) = self.events.keep(now, event, origin);
        if !spent.is_empty() {
            self.outputs.push(Output::Discard(Garbage::new(spent)));
        }
        let listeners: Vec<Listener> = self.events.wanting(event).collect();
        let reach = event.reach();
        for listener in listeners {
            let proc = match listener {
                Listener::Host => None,
                Listener::Peer(id) if Some(id) == origin.connection => continue,
                Listener::Peer(id) => match self.peers.get(id) {
                    Some(peer)
                        if reach.contains(peer.proc())
                            && self.carries(origin.voice, event, peer)
                            && is_meant(self, peer.proc()) =>
                    {
                        Some(peer.proc().clone())
                    }
                    _ => continue,
                },
            };
            let delivery = EventDelivery { event: Arc::clone(event), was_missed: false };
            self.deliver(listener, proc.as_ref(), number, delivery);
        }
    }

    /// Connections that this event would reach now.
    pub(super) fn hearers_of(&self, event: &Event) -> Vec<PeerId> {
        let peers = self.events.wanting(event).filter_map(|listener| match listener {
            Listener::Peer(id) => Some(id),
            Listener::Host => None,
        });
        let (voice, reach) = (self.voice_of(event.source.as_ref()), event.reach());
        let is_reached = |peer: &Peer| reach.contains(peer.proc()) && self.carries(voice, event, peer);
        peers.filter(|id| self.peers.get(*id).is_some_and(is_reached)).collect()
    }

    /// Whether a process is in range of an event, and its raiser may reach it.
    fn reaches(&self, voice: Voice, event: &Event, hearer: &Peer) -> bool {
        event.is_meant_for(hearer.proc()) && self.carries(voice, event, hearer)
    }

    /// The numbers of the events of these codes that a listener has missed, in order of arrival.
    fn missed(&self, listener: Listener, codes: &Codes) -> VecDeque<u64> {
        let hearer = match listener {
            Listener::Host => None,
            Listener::Peer(id) => self.peers.get(id),
        };
        let is_missed = |event: &Event, origin: EventOrigin| {
            hearer.is_none_or(|hearer| self.reaches(origin.voice, event, hearer))
                && origin.connection.is_none_or(|origin| listener != Listener::Peer(origin))
        };
        let missed = self.events.ungot(listener, codes).filter(|(_, event, origin)| is_missed(event, *origin));
        missed.map(|(number, ..)| number).collect()
    }

    fn deliver(&mut self, listener: Listener, proc: Option<&ProcId>, number: u64, delivery: EventDelivery) {
        self.outputs.push(match listener {
            Listener::Host => Output::Raise((*delivery.event).clone()),
            Listener::Peer(id) => Output::Notify(id, delivery),
        });
        if let Some(proc) = proc {
            self.events.note_served(number, proc);
        }
    }
}

/// The participants of connections as receivers of an event; all processes of their jobs if there are many.
fn addressees_of_all(connections: &[Participants]) -> BTreeSet<ProcId> {
    let count = connections.iter().fold(0_usize, |count, procs| count.saturating_add(procs.len()));
    match count <= ALL_ADDRESSEES_MAX {
        true => connections.iter().flat_map(addressees).collect(),
        false => connections.iter().flat_map(Participants::namespaces).map(all_of_job).collect(),
    }
}

/// Larger connections name their jobs. The end of a process in 2,000 connections of 50 processes took 9 ms.
const ALL_ADDRESSEES_MAX: usize = 256;

/// The participants of a connection as receivers of an event; all processes of their jobs if there are many.
fn addressees(procs: &Participants) -> Vec<ProcId> {
    let is_single = |proc: &ProcId| proc.rank.process().is_some();
    if procs.len() <= ADDRESSEES_MAX && procs.iter().all(is_single) {
        return procs.to_vec();
    }
    procs.namespaces().map(all_of_job).collect()
}

fn all_of_job(namespace: &Namespace) -> ProcId {
    ProcId::new(namespace.clone(), Rank::Wildcard)
}

/// A connection of more processes names jobs instead. Otherwise the ends of its processes would name each process, each
/// of them.
const ADDRESSEES_MAX: usize = 64;

/// Whether a directive of a registration is required, and a host alone may know it.
fn is_required_of_host(info: &Info) -> bool {
    matches!(Registration::parse(&[], std::slice::from_ref(info)), Err(RegistrationError::NotSupported { .. }))
}

/// Whether the event takes milliseconds to free, because it names many processes.
fn has_long_list(event: &Event) -> bool {
    let is_long = |info: &Info| matches!(&info.value, Value::DataArray(array) if array.elements.len() > LIST_MAX);
    event.info.iter().any(is_long)
}

/// A step delivers no more missed events after this much memory.
const MISSED_BYTES_MAX: usize = 256 << 10;
/// Share of a missed event in that, even if it is smaller: it costs a message.
const MISSED_EVENT_BYTES_MIN: usize = 4 << 10;

/// Length of a list that is freed at once.
const LIST_MAX: usize = 1024;

/// Whether the receivers of the event are known.
pub(super) fn is_addressed(event: &Event) -> bool {
    event.has_valid_range() && (event.range != range::RANGE_CUSTOM || !event.targets().is_empty())
}
