//! Held requests for data.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::outputs::{CallTicket, Ticket};
use super::shares::UserShares;
use super::sizes::size_of_infos;
use crate::server::interface::{GetDirectives, PeerId, UpcallId};
use crate::types::{Key, Namespace, ProcId, Rank, Time};

/// Identifies one held request for data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WaitId(pub(crate) u64);

/// The wanted data of a request.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) proc: ProcId,
    pub(crate) key: Option<Key>,
    pub(crate) directives: GetDirectives,
    /// The process that asks and its user; none: the host or the server's own process, which may read everything.
    pub(crate) reader: Option<(ProcId, u32)>,
}

impl Wanted {
    /// Whether the answer is fixed when the job starts, so that a wait would not help in a known job.
    pub(crate) fn is_static(&self) -> bool {
        self.proc.rank == Rank::Wildcard
            || !self.directives.realm.is_default()
            || self.key.as_ref().is_some_and(Key::is_reserved)
    }

    /// The user of the asking process.
    pub(crate) fn user(&self) -> Option<u32> {
        self.reader.as_ref().map(|(_, uid)| *uid)
    }

    /// Approximate memory while it is held, in bytes.
    pub(crate) fn size_bytes(&self) -> usize {
        let key = self.key.as_ref().map_or(0, |key| key.as_str().len().saturating_mul(2));
        size_of::<Waiter>().saturating_add(key).saturating_add(size_of_infos(&self.directives.qualifiers))
    }

    /// The key whose next value may be the answer; `None`: any key. Qualified values have names of their own.
    const fn awaited_key(&self) -> Option<&Key> {
        if self.directives.qualifiers.is_empty() { self.key.as_ref() } else { None }
    }
}

/// The source of a request.
#[derive(Debug)]
pub(crate) enum Asker {
    Peer(Ticket),
    /// The host, for another node.
    Host(CallTicket),
    /// The server's own process, for itself.
    Own(CallTicket),
}

/// A held request for data.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) asker: Asker,
    pub(crate) wanted: Wanted,
    /// The upcall whose answer it needs; `None`: it needs local data.
    pub(crate) via: Option<UpcallId>,
    pub(crate) deadline: Option<Time>,
    /// Whether a change may have brought its answer, and its review is due.
    pub(crate) is_due: bool,
}

/// Held requests for data, indexed by target, by connection, and by upcall.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    waiters: BTreeMap<WaitId, Waiter>,
    by_target: BTreeMap<ProcId, ByKey>,
    by_peer: BTreeMap<PeerId, BTreeSet<WaitId>>,
    by_upcall: BTreeMap<UpcallId, BTreeSet<WaitId>>,
    host_requests: usize,
    /// Memory of the requests of processes, by user.
    bytes: UserShares,
    /// Number of the requests of processes, by user.
    counts: UserShares,
    last: u64,
    /// Requests whose review is due, and the time of the next step.
    due: VecDeque<WaitId>,
    next_step: Option<Time>,
}

/// Requests about one process by the awaited key; under `None` those that a value of any key may answer.
type ByKey = BTreeMap<Option<Key>, BTreeSet<WaitId>>;

impl Waiting {
    pub(crate) fn insert(&mut self, mut waiter: Waiter) -> WaitId {
        waiter.is_due = false;
        self.last = self.last.saturating_add(1);
        let id = WaitId(self.last);
        let by_key = self.by_target.entry(waiter.wanted.proc.clone()).or_default();
        by_key.entry(waiter.wanted.awaited_key().cloned()).or_default().insert(id);
        match &waiter.asker {
            Asker::Peer(ticket) => {
                self.by_peer.entry(ticket.peer()).or_default().insert(id);
            }
            Asker::Host(_) | Asker::Own(_) => self.host_requests = self.host_requests.saturating_add(1),
        }
        if let Some(upcall) = waiter.via {
            self.by_upcall.entry(upcall).or_default().insert(id);
        }
        if let Some(uid) = waiter.wanted.user() {
            self.counts.take(uid, 1);
            self.bytes.take(uid, waiter.wanted.size_bytes());
        }
        self.waiters.insert(id, waiter);
        id
    }

    pub(crate) fn remove(&mut self, id: WaitId) -> Option<Waiter> {
        let waiter = self.waiters.remove(&id)?;
        if let Some(by_key) = self.by_target.get_mut(&waiter.wanted.proc) {
            take_out(by_key, &waiter.wanted.awaited_key().cloned(), id);
            if by_key.is_empty() {
                self.by_target.remove(&waiter.wanted.proc);
            }
        }
        match &waiter.asker {
            Asker::Peer(ticket) => take_out(&mut self.by_peer, &ticket.peer(), id),
            Asker::Host(_) | Asker::Own(_) => self.host_requests = self.host_requests.saturating_sub(1),
        }
        if let Some(upcall) = waiter.via {
            take_out(&mut self.by_upcall, &upcall, id);
        }
        if let Some(uid) = waiter.wanted.user() {
            self.counts.give_back(uid, 1);
            self.bytes.give_back(uid, waiter.wanted.size_bytes());
        }
        Some(waiter)
    }

    pub(crate) fn get(&self, id: WaitId) -> Option<&Waiter> {
        self.waiters.get(&id)
    }

    pub(crate) fn set_deadline(&mut self, id: WaitId, deadline: Option<Time>) {
        if let Some(waiter) = self.waiters.get_mut(&id) {
            waiter.deadline = deadline;
        }
    }

    /// Makes the review of requests due, once for each.
    pub(crate) fn make_due(&mut self, waits: Vec<WaitId>) {
        for id in waits {
            if let Some(waiter) = self.waiters.get_mut(&id)
                && !std::mem::replace(&mut waiter.is_due, true)
            {
                self.due.push_back(id);
            }
        }
    }

    /// Takes the next request whose review is due. It may have ended meanwhile.
    pub(crate) fn take_due(&mut self) -> Option<WaitId> {
        let id = self.due.pop_front()?;
        if let Some(waiter) = self.waiters.get_mut(&id) {
            waiter.is_due = false;
        }
        Some(id)
    }

    /// Whether reviews are due.
    pub(crate) fn has_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// The time of the next step of reviews.
    pub(crate) const fn next_step(&self) -> Option<Time> {
        self.next_step
    }

    pub(crate) const fn set_next_step(&mut self, next_step: Option<Time>) {
        self.next_step = next_step;
    }

    pub(crate) fn on_target(&self, proc: &ProcId) -> Vec<WaitId> {
        self.by_target.get(proc).into_iter().flat_map(BTreeMap::values).flatten().copied().collect()
    }

    /// Requests about a process that a new value of one of these keys may answer.
    pub(crate) fn on_keys<'k>(&self, proc: &ProcId, keys: impl Iterator<Item = &'k Key>) -> Vec<WaitId> {
        let Some(by_key) = self.by_target.get(proc) else { return Vec::new() };
        let places = std::iter::once(None).chain(keys.cloned().map(Some));
        places.filter_map(|place| by_key.get(&place)).flatten().copied().collect()
    }

    pub(crate) fn on_namespace(&self, namespace: &Namespace) -> Vec<WaitId> {
        let first = ProcId::new(namespace.clone(), Rank::Process(0));
        let targets = self.by_target.range(first..).take_while(|(proc, _)| proc.namespace == *namespace);
        targets.flat_map(|(_, by_key)| by_key.values()).flatten().copied().collect()
    }

    pub(crate) fn of_peer(&self, peer: PeerId) -> Vec<WaitId> {
        self.by_peer.get(&peer).into_iter().flatten().copied().collect()
    }

    pub(crate) fn on_upcall(&self, upcall: UpcallId) -> Vec<WaitId> {
        self.by_upcall.get(&upcall).into_iter().flatten().copied().collect()
    }

    /// Memory of all requests of processes, in bytes.
    pub(crate) const fn size_bytes(&self) -> usize {
        self.bytes.sum()
    }

    /// Memory of the requests of a user's processes, in bytes.
    pub(crate) fn size_bytes_of_user(&self, uid: u32) -> usize {
        self.bytes.of(uid)
    }

    /// Number of the requests of a user's processes.
    pub(crate) fn count_of_user(&self, uid: u32) -> usize {
        self.counts.of(uid)
    }

    pub(crate) const fn host_requests(&self) -> usize {
        self.host_requests
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (WaitId, &Waiter)> {
        self.waiters.iter().map(|(id, waiter)| (*id, waiter))
    }
}

fn take_out<K: Ord>(index: &mut BTreeMap<K, BTreeSet<WaitId>>, key: &K, id: WaitId) {
    if let Some(ids) = index.get_mut(key) {
        ids.remove(&id);
        if ids.is_empty() {
            index.remove(key);
        }
    }
}
