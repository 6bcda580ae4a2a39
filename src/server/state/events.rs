//! Registrations for events, and recent events.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::held_gets::Asker;
use super::interest::{Codes, Interest, Listener};
use super::outputs::Ticket;
use crate::events::{Event, EventCache, EventCacheLimits};
use crate::server::interface::{PeerId, UpcallId};
use crate::types::codes::range;
use crate::types::{Namespace, ProcId, Status, Time};

/// Registrations, and recent events.
#[derive(Debug)]
pub(crate) struct Events {
    interests: BTreeMap<Listener, Interest>,
    /// Codes of the environment that were requested from the host.
    environment: BTreeMap<Status, Standing>,
    /// Registrations that wait for the host.
    pending: BTreeMap<u64, PendingRegistration>,
    last_pending: u64,
    /// Codes of withdrawn registrations, until a check for other listeners.
    withdrawn: Vec<Status>,
    cache: EventCache<EventOrigin>,
}

/// The origin of an event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventOrigin {
    /// The connection that raised it, and does not get it back.
    pub(crate) connection: Option<PeerId>,
    pub(crate) voice: Voice,
}

/// An event that waits for the host's answer, because only the host may know a required info.
#[derive(Debug)]
pub(crate) struct HeldEvent {
    pub(crate) event: Event,
    pub(crate) origin: EventOrigin,
}

/// The authority behind an event. It decides which processes the event reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Voice {
    /// The host, whose events reach all processes in range.
    Host,
    /// The event's source, a process of this user.
    User(u32),
    /// The host, about a process set. The event reaches processes that may know of the set.
    OfSet,
}

/// Size of an event whose memory takes long to free. A thread of the runtime frees it.
const LARGE_BYTES_MIN: usize = 256 << 10;

impl Voice {
    pub(crate) const fn user(self) -> Option<u32> {
        match self {
            Self::User(uid) => Some(uid),
            Self::Host | Self::OfSet => None,
        }
    }
}

impl From<Voice> for EventOrigin {
    fn from(voice: Voice) -> Self {
        Self { connection: None, voice }
    }
}

/// The host's answer for a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Asked(UpcallId),
    Granted,
}

#[derive(Debug)]
struct PendingRegistration {
    asker: Asker,
    codes: Codes,
    waits_for: BTreeSet<UpcallId>,
}

impl Default for Events {
    fn default() -> Self {
        Self {
            interests: BTreeMap::new(),
            environment: BTreeMap::new(),
            pending: BTreeMap::new(),
            last_pending: 0,
            withdrawn: Vec::new(),
            cache: EventCache::new(EventCacheLimits {
                spent_bytes_min: LARGE_BYTES_MIN,
                ..EventCacheLimits::default()
            }),
        }
    }
}

impl Events {
    /// Number of registrations and pending ones, without cached events.
    pub(crate) fn len(&self) -> usize {
        let of_peers = self.interests.keys().filter(|listener| **listener != Listener::Host).count();
        of_peers.saturating_add(self.pending.len())
    }

    /// Whether a listener wants an event.
    pub(crate) fn wants(&self, listener: Listener, event: &Event) -> bool {
        self.interests.get(&listener).is_some_and(|interest| interest.wants(event))
    }

    /// The listeners that want an event.
    pub(crate) fn wanting(&self, event: &Event) -> impl Iterator<Item = Listener> {
        self.interests.iter().filter(|(_, interest)| interest.wants(event)).map(|(listener, _)| *listener)
    }

    /// Number of codes of a listener after adding these.
    pub(crate) fn size_with(&mut self, listener: Listener, codes: &Codes) -> usize {
        let oldest = self.cache.oldest_number().unwrap_or(u64::MAX);
        self.interests.entry(listener).or_default().size_with(codes, oldest)
    }

    /// Registers a listener for codes.
    pub(crate) fn add(&mut self, listener: Listener, codes: &Codes) {
        self.interests.entry(listener).or_default().add(codes);
    }

    /// Deregisters a listener from codes, in pending registrations, too.
    pub(crate) fn remove(&mut self, listener: Listener, codes: &Codes) {
        if let Some(interest) = self.interests.get_mut(&listener) {
            interest.remove(codes, self.cache.last_number());
        }
        let pending = self.pending.values_mut();
        pending.filter(|of| listener_of(&of.asker) == listener).for_each(|of| of.codes.remove(codes));
    }

    /// Forgets a connection. Returns the codes that it no longer wants.
    pub(crate) fn forget(&mut self, id: PeerId) -> Vec<Status> {
        let mut given_up = std::mem::take(&mut self.withdrawn);
        let interest = self.interests.remove(&Listener::Peer(id));
        given_up.extend(interest.iter().flat_map(Interest::wanted_codes));
        given_up
    }

    /// Keeps a registration until these upcalls are answered.
    pub(crate) fn hold(&mut self, asker: Asker, codes: Codes, waits_for: BTreeSet<UpcallId>) {
        self.last_pending = self.last_pending.saturating_add(1);
        self.pending.insert(self.last_pending, PendingRegistration { asker, codes, waits_for });
    }

    /// Codes of the environment that were not requested from the host yet.
    pub(crate) fn unasked(&self, codes: &[Status]) -> Vec<Status> {
        codes.iter().copied().filter(|code| !self.environment.contains_key(code)).collect()
    }

    /// Codes of the environment are requested by this upcall.
    pub(crate) fn note_asked(&mut self, codes: Vec<Status>, id: UpcallId) {
        self.environment.extend(codes.into_iter().map(|code| (code, Standing::Asked(id))));
    }

    /// The unanswered upcalls about these codes.
    pub(crate) fn asked(&self, codes: &[Status]) -> BTreeSet<UpcallId> {
        let asked = |code| match self.environment.get(code) {
            Some(Standing::Asked(id)) => Some(*id),
            Some(Standing::Granted) | None => None,
        };
        codes.iter().filter_map(asked).collect()
    }

    /// The host has answered. Returns the codes of the upcall.
    pub(crate) fn note_answer(&mut self, id: UpcallId, is_granted: bool) -> Vec<Status> {
        let codes = self.environment.extract_if(.., |_, standing| *standing == Standing::Asked(id));
        let answered: Vec<Status> = codes.map(|(code, _)| code).collect();
        if is_granted {
            self.environment.extend(answered.iter().map(|code| (*code, Standing::Granted)));
        }
        answered
    }

    /// The pending registrations that waited for this upcall, by number.
    pub(crate) fn note_answered(&mut self, id: UpcallId) -> Vec<u64> {
        let pending = self.pending.iter_mut();
        pending.filter_map(|(number, registration)| registration.waits_for.remove(&id).then_some(*number)).collect()
    }

    /// Takes a pending registration, if the host has refused it, or if it waits for no more upcalls.
    pub(crate) fn take_settled(&mut self, number: u64, is_granted: bool) -> Option<(Asker, Codes)> {
        self.pending.get(&number).filter(|registration| !is_granted || registration.waits_for.is_empty())?;
        self.pending.remove(&number).map(|registration| (registration.asker, registration.codes))
    }

    /// Takes the granted codes of the environment among these that have no listener any more.
    pub(crate) fn take_unwanted(&mut self, given_up: &[Status]) -> Vec<Status> {
        let Self { environment, interests, pending, .. } = self;
        let is_wanted = |code: &Status| {
            interests.values().any(|interest| interest.wants_code(*code))
                || pending.values().any(|registration| registration.codes.listed.contains(code))
        };
        let is_over = |code: &&Status| environment.get(code) == Some(&Standing::Granted) && !is_wanted(code);
        let mut unwanted: Vec<Status> = given_up.iter().filter(is_over).copied().collect();
        unwanted.sort_unstable();
        unwanted.dedup();
        environment.retain(|code, _| unwanted.binary_search(code).is_err());
        unwanted
    }

    /// Keeps an event for later listeners, if it may be kept. Returns its number, and forgotten events.
    pub(crate) fn keep(&mut self, now: Time, event: &Arc<Event>, origin: EventOrigin) -> (u64, Vec<Arc<Event>>) {
        let number = match event.may_be_kept() {
            true => self.cache.push(now, Arc::clone(event), origin, origin.voice.user()),
            false => NOT_KEPT,
        };
        (number, self.cache.take_spent())
    }

    /// Forgets old events.
    pub(crate) fn expire(&mut self, now: Time) {
        self.cache.expire(now);
    }

    /// The kept events of these codes that a listener has not got, in order of arrival.
    pub(crate) fn ungot(
        &self,
        listener: Listener,
        codes: &Codes,
    ) -> impl Iterator<Item = (u64, &Arc<Event>, EventOrigin)> {
        let interest = self.interests.get(&listener);
        let is_ungot = move |number: u64, event: &Event| {
            codes.matches(event) && !interest.is_some_and(|interest| interest.has_got(number, event))
        };
        let kept = self.cache.iter().filter(move |kept| is_ungot(kept.number, &kept.event));
        kept.map(|kept| (kept.number, &kept.event, kept.origin))
    }

    /// A kept event, and its approximate memory in bytes.
    pub(crate) fn kept(&self, number: u64) -> Option<(Arc<Event>, usize)> {
        self.cache.get(number).map(|kept| (Arc::clone(&kept.event), kept.bytes))
    }

    /// A process has got an event.
    pub(crate) fn note_served(&mut self, number: u64, proc: &ProcId) {
        self.cache.served(number, proc);
    }

    /// Takes back the tickets of a connection.
    pub(crate) fn withdraw(&mut self, id: PeerId) -> Vec<Ticket> {
        let is_of_peer = |registration: &PendingRegistration| listener_of(&registration.asker) == Listener::Peer(id);
        let withdrawn = self.pending.extract_if(.., |_, registration| is_of_peer(registration));
        let ticket = |(_, registration): (u64, PendingRegistration)| {
            self.withdrawn.extend(registration.codes.listed);
            match registration.asker {
                Asker::Peer(ticket) => Some(ticket),
                Asker::Host(_) | Asker::Own(_) => None,
            }
        };
        withdrawn.filter_map(ticket).collect()
    }

    /// Drops events for the processes of a removed namespace.
    pub(crate) fn forget_namespace(&mut self, namespace: &Namespace) {
        self.cache.retain(|kept| {
            let source = kept.event.source.as_ref().map(|source| &source.namespace);
            kept.event.range != range::RANGE_NAMESPACE || source != Some(namespace)
        });
    }

    /// Connections with registrations that wait for the host.
    pub(crate) fn waiting_peers(&self) -> impl Iterator<Item = PeerId> {
        self.pending.values().filter_map(|registration| match &registration.asker {
            Asker::Peer(ticket) => Some(ticket.peer()),
            Asker::Host(_) | Asker::Own(_) => None,
        })
    }

    /// Calls of the host that wait for its own answer.
    pub(crate) fn host_requests(&self) -> usize {
        self.pending.values().filter(|registration| matches!(registration.asker, Asker::Host(_))).count()
    }
}

pub(crate) fn listener_of(asker: &Asker) -> Listener {
    match asker {
        Asker::Peer(ticket) => Listener::Peer(ticket.peer()),
        Asker::Host(_) | Asker::Own(_) => Listener::Host,
    }
}

/// The number of an event that is not in the cache.
const NOT_KEPT: u64 = 0;
