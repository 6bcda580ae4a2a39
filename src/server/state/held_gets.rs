//! Held requests for data.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use super::index::take_out;
use super::operation::OperationId;
use super::outputs::{CallTicket, Ticket};
use super::reviews::{Concerned, HeldGetId, ReviewCursor, Reviews};
use super::shares::UserShares;
use super::sizes::size_of_infos;
use crate::server::interface::{GetDirectives, PeerId, UpcallId};
use crate::types::{Key, Kval, Namespace, ProcId, Rank, Status, Time};

/// The requested data of a request.
#[derive(Clone, Debug)]
pub(crate) struct RequestedData {
    pub(crate) proc: ProcId,
    pub(crate) key: Option<Key>,
    pub(crate) directives: GetDirectives,
    /// The process that asks and its user; none: the host or the server's own process, which may read everything.
    pub(crate) reader: Option<(ProcId, u32)>,
}

impl RequestedData {
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
        size_of::<HeldGet>().saturating_add(key).saturating_add(size_of_infos(&self.directives.qualifiers))
    }

    /// The key whose next value may be the answer; `None`: any key. Qualified values have names of their own.
    pub(crate) const fn awaited_key(&self) -> Option<&Key> {
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
pub(crate) struct HeldGet {
    pub(crate) asker: Asker,
    pub(crate) requested: RequestedData,
    pub(crate) since: Time,
    /// The upcall whose answer it needs; `None`: it needs local data.
    pub(crate) via: Option<UpcallId>,
    /// Whether that upcall is for another key of the process.
    pub(crate) shares_upcall: bool,
    /// The fence in progress that may bring the data from another node.
    pub(crate) fence: Option<OperationId>,
    pub(crate) deadline: Option<Time>,
}

/// The end of an upcall that requests wait for.
#[derive(Clone, Debug)]
pub(crate) struct Settlement {
    /// Whether the host has given values of the process.
    pub(crate) is_given: bool,
    /// The answer to a request that the upcall did not help.
    pub(crate) otherwise: Status,
    /// The data, if its job is unknown.
    pub(crate) fetched: Option<Arc<DirectModexData>>,
}

/// Data of an unknown job that a direct modex has fetched.
#[derive(Debug)]
pub(crate) struct DirectModexData {
    pub(crate) proc: ProcId,
    pub(crate) entries: Arc<[Kval]>,
    /// Whether it is too large for the answer to a request for a part of it.
    pub(crate) is_large: bool,
}

/// One step of the reviews of held requests.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Review {
    /// A request that may be answered now.
    Of(HeldGetId),
    /// A request whose upcall has ended.
    Settle(HeldGetId),
    /// A request whose fence has ended.
    AfterFence(HeldGetId),
    /// A request whose job has ended.
    Refuse(HeldGetId),
    /// All requests that one change concerns are reviewed.
    End,
}

/// Held requests for data, indexed by target, by connection, by upcall, and by fence.
#[derive(Debug, Default)]
pub(crate) struct HeldGets {
    held: BTreeMap<HeldGetId, HeldGet>,
    by_target: BTreeMap<ProcId, ByKey>,
    by_peer: BTreeMap<PeerId, BTreeSet<HeldGetId>>,
    by_upcall: BTreeMap<UpcallId, BTreeSet<HeldGetId>>,
    by_fence: BTreeMap<OperationId, BTreeSet<HeldGetId>>,
    host_requests: usize,
    /// Memory of the requests of processes, by user.
    bytes: UserShares,
    /// Number of the requests of processes, by user.
    counts: UserShares,
    last: u64,
    pub(crate) reviews: Reviews,
    /// Ended upcalls that some requests still wait for.
    settlements: BTreeMap<UpcallId, Settlement>,
}

/// Requests about one process by the awaited key; under `None` those that a value of any key may answer.
type ByKey = BTreeMap<Option<Key>, BTreeSet<HeldGetId>>;

impl HeldGets {
    pub(crate) fn insert(&mut self, held: HeldGet) -> HeldGetId {
        self.last = self.last.saturating_add(1);
        let id = HeldGetId(self.last);
        let by_key = self.by_target.entry(held.requested.proc.clone()).or_default();
        by_key.entry(held.requested.awaited_key().cloned()).or_default().insert(id);
        match &held.asker {
            Asker::Peer(ticket) => {
                self.by_peer.entry(ticket.peer()).or_default().insert(id);
            }
            Asker::Host(_) | Asker::Own(_) => self.host_requests = self.host_requests.saturating_add(1),
        }
        if let Some(upcall) = held.via {
            self.by_upcall.entry(upcall).or_default().insert(id);
        }
        if let Some(fence) = held.fence {
            self.by_fence.entry(fence).or_default().insert(id);
        }
        if let Some(uid) = held.requested.user() {
            self.counts.take(uid, 1);
            self.bytes.take(uid, held.requested.size_bytes());
        }
        self.held.insert(id, held);
        id
    }

    pub(crate) fn remove(&mut self, id: HeldGetId) -> Option<HeldGet> {
        let held = self.held.remove(&id)?;
        if let Some(by_key) = self.by_target.get_mut(&held.requested.proc) {
            take_out(by_key, &held.requested.awaited_key().cloned(), &id);
            if by_key.is_empty() {
                self.by_target.remove(&held.requested.proc);
            }
        }
        match &held.asker {
            Asker::Peer(ticket) => take_out(&mut self.by_peer, &ticket.peer(), &id),
            Asker::Host(_) | Asker::Own(_) => self.host_requests = self.host_requests.saturating_sub(1),
        }
        if let Some(upcall) = held.via {
            take_out(&mut self.by_upcall, &upcall, &id);
        }
        if let Some(fence) = held.fence {
            take_out(&mut self.by_fence, &fence, &id);
        }
        if let Some(uid) = held.requested.user() {
            self.counts.give_back(uid, 1);
            self.bytes.give_back(uid, held.requested.size_bytes());
        }
        Some(held)
    }

    pub(crate) fn get(&self, id: HeldGetId) -> Option<&HeldGet> {
        self.held.get(&id)
    }

    pub(crate) fn set_deadline(&mut self, id: HeldGetId, deadline: Option<Time>) {
        if let Some(held) = self.held.get_mut(&id) {
            held.deadline = deadline;
        }
    }

    /// Makes the reviews due of the requests that a change concerns.
    pub(crate) fn make_due(&mut self, concerned: Concerned) {
        let has_any = match &concerned {
            Concerned::Upcall(upcall) => self.by_upcall.contains_key(upcall),
            Concerned::Fence(fence) => self.by_fence.contains_key(fence),
            _ => self.next_on(&concerned, None).is_some(),
        };
        if has_any {
            self.reviews.add(concerned);
        }
    }

    /// Keeps the end of an upcall until all requests that wait for it are settled.
    pub(crate) fn note_settled(&mut self, upcall: UpcallId, settlement: Settlement) {
        if self.by_upcall.contains_key(&upcall) {
            self.settlements.insert(upcall, settlement);
        }
    }

    /// The end of the upcall that a request waits for, if it has ended.
    pub(crate) fn settlement(&self, held: &HeldGet) -> Option<&Settlement> {
        self.settlements.get(&held.via?)
    }

    /// Takes the next review that is due.
    pub(crate) fn take_due(&mut self) -> Option<Review> {
        let (concerned, after) = self.reviews.first()?;
        if let Concerned::Fence(fence) = concerned {
            if let Some(id) = self.by_fence.get(fence).and_then(BTreeSet::first) {
                return Some(if self.is_about_ended(*id) { Review::Refuse(*id) } else { Review::AfterFence(*id) });
            }
        } else if let Concerned::Upcall(upcall) = concerned {
            if let Some(id) = self.by_upcall.get(upcall).and_then(BTreeSet::first) {
                return Some(if self.is_about_ended(*id) { Review::Refuse(*id) } else { Review::Settle(*id) });
            }
            self.settlements.remove(upcall);
        } else if let Some(cursor) = self.next_on(concerned, after) {
            let id = cursor.id;
            self.reviews.advance(cursor);
            return Some(if self.is_about_ended(id) { Review::Refuse(id) } else { Review::Of(id) });
        }
        self.reviews.finish();
        Some(Review::End)
    }

    /// The requests about a process that a new value of one of these keys may answer.
    pub(crate) fn on_keys<'k>(&self, proc: &ProcId, keys: impl Iterator<Item = &'k Key>) -> Vec<Concerned> {
        let Some(by_key) = self.by_target.get(proc) else { return Vec::new() };
        let keys = std::iter::once(None).chain(keys.cloned().map(Some));
        keys.filter(|key| by_key.contains_key(key)).map(|key| Concerned::Key(proc.clone(), key)).collect()
    }

    /// The next request behind a cursor that a change of data concerns.
    fn next_on(&self, concerned: &Concerned, after: Option<&ReviewCursor>) -> Option<ReviewCursor> {
        self.targets_of(concerned, after).find_map(|(target, by_key)| {
            let after = after.filter(|after| after.target == *target);
            let (key, id) = match concerned {
                Concerned::Key(_, key) => (key.clone(), next_id(by_key.get(key)?, after)?),
                _ => next_of(by_key, after)?,
            };
            Some(ReviewCursor { target: target.clone(), key, id })
        })
    }

    /// The targets that a change may concern, from a cursor on.
    fn targets_of<'a>(
        &'a self,
        concerned: &'a Concerned,
        from: Option<&ReviewCursor>,
    ) -> impl Iterator<Item = (&'a ProcId, &'a ByKey)> {
        let first = from.map_or_else(|| concerned.first_target(), |from| Some(from.target.clone()));
        let from_first = first.map(|first| self.by_target.range(first..));
        from_first.into_iter().flatten().take_while(|(target, _)| concerned.is_about(target))
    }

    /// Whether a review of a request is due.
    pub(crate) fn is_due(&self, id: HeldGetId) -> bool {
        let Some(held) = self.held.get(&id) else { return false };
        let (target, key) = (held.requested.proc.clone(), held.requested.awaited_key().cloned());
        let changes = [
            Concerned::Job(target.namespace.clone()),
            Concerned::Process(target.clone()),
            Concerned::Key(target.clone(), key.clone()),
        ];
        let cursor = ReviewCursor { target, key, id };
        self.settlement(held).is_some()
            || self.is_about_ended(id)
            || held.fence.is_some_and(|fence| self.reviews.is_ahead(&Concerned::Fence(fence), &cursor))
            || changes.iter().any(|change| self.reviews.is_ahead(change, &cursor))
    }

    /// Whether a request is about a job that has ended, although another one may have its name by now.
    pub(crate) fn is_about_ended(&self, id: HeldGetId) -> bool {
        let held = self.held.get(&id);
        held.is_some_and(|held| self.reviews.is_ending(&held.requested.proc.namespace, id))
    }

    /// All present requests about a job that ends.
    pub(crate) fn about_ended(&self, namespace: &Namespace) -> Concerned {
        Concerned::Ended(namespace.clone(), HeldGetId(self.last))
    }

    pub(crate) fn of_peer(&self, peer: PeerId) -> Vec<HeldGetId> {
        self.by_peer.get(&peer).into_iter().flatten().copied().collect()
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

    pub(crate) fn iter(&self) -> impl Iterator<Item = (HeldGetId, &HeldGet)> {
        self.held.iter().map(|(id, held)| (*id, held))
    }
}

/// The first request behind a cursor, and its key.
fn next_of(by_key: &ByKey, after: Option<&ReviewCursor>) -> Option<(Option<Key>, HeldGetId)> {
    let same_key = after.and_then(|after| Some((after.key.clone(), next_id(by_key.get(&after.key)?, Some(after))?)));
    same_key.or_else(|| {
        let later = by_key.range((after.map_or(Unbounded, |after| Excluded(&after.key)), Unbounded));
        later.filter_map(|(key, ids)| Some((key.clone(), *ids.first()?))).next()
    })
}

/// The first request of one key behind a cursor.
fn next_id(ids: &BTreeSet<HeldGetId>, after: Option<&ReviewCursor>) -> Option<HeldGetId> {
    ids.range((after.map_or(Unbounded, |after| Excluded(after.id)), Unbounded)).next().copied()
}
