use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::event::Event;
use crate::types::codes::range;
use crate::types::{Info, ProcId, Rank, Time, footprint_up_to};

/// Recent events, kept for later registrations. Bounded in number, bytes and time. If there are too many, the oldest
/// event of the owner with the most goes. So one user's events never push out those of another user with fewer.
#[derive(Debug)]
pub struct EventCache<O> {
    limits: EventCacheLimits,
    kept: VecDeque<Kept<O>>,
    shares: BTreeMap<Option<u32>, Share>,
    bytes: usize,
    last: u64,
    /// Large events that are not kept any more.
    spent: Vec<Arc<Event>>,
}

/// Memory of the events of one owner.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    count: usize,
    bytes: usize,
}

/// Bounds of an [`EventCache`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventCacheLimits {
    /// Bound on the kept events.
    pub events_max: usize,
    /// Bound on their approximate memory, in bytes.
    pub bytes_max: usize,
    /// Time that an event is kept.
    pub age_max: Duration,
    /// Removed events of this size and above wait for [`EventCache::take_spent`].
    pub spent_bytes_min: usize,
}

impl Default for EventCacheLimits {
    /// The numbers of OpenPMIx, and a bound on memory that it does not have. Each removed event is freed at once.
    fn default() -> Self {
        Self { events_max: 512, bytes_max: 16 << 20, age_max: Duration::from_secs(120), spent_bytes_min: usize::MAX }
    }
}

/// One event.
#[derive(Debug)]
pub struct Kept<O> {
    /// Its position in the order of arrival, from 1.
    pub number: u64,
    /// The event.
    pub event: Arc<Event>,
    /// The origin, which must not get it back.
    pub origin: O,
    arrived: Time,
    /// The user whose process raised it; none: the host raised it.
    owner: Option<u32>,
    /// Its approximate memory.
    pub bytes: usize,
    /// Its targets that have not received it; `None`: not all targets are known.
    awaited: Option<BTreeSet<ProcId>>,
}

impl<O> EventCache<O> {
    /// An empty cache.
    #[must_use]
    pub const fn new(limits: EventCacheLimits) -> Self {
        Self { limits, kept: VecDeque::new(), shares: BTreeMap::new(), bytes: 0, last: 0, spent: Vec::new() }
    }

    /// The number of the newest event ever; 0: none.
    #[must_use]
    pub const fn last_number(&self) -> u64 {
        self.last
    }

    /// The number of the oldest kept event.
    #[must_use]
    pub fn oldest_number(&self) -> Option<u64> {
        self.kept.front().map(|kept| kept.number)
    }

    /// Keeps an event of an owner, at the cost of older ones. An event larger than the memory bound is counted but not
    /// kept.
    pub fn push(&mut self, now: Time, event: Arc<Event>, origin: O, owner: Option<u32>) -> u64 {
        self.expire(now);
        self.last = self.last.saturating_add(1);
        let Some(bytes) = size(&event, self.limits.bytes_max) else { return self.last };
        let awaited = explicit_targets(&event);
        self.bytes = self.bytes.saturating_add(bytes);
        let share = self.shares.entry(owner).or_default();
        share.count = share.count.saturating_add(1);
        share.bytes = share.bytes.saturating_add(bytes);
        self.kept.push_back(Kept { number: self.last, event, origin, arrived: now, owner, bytes, awaited });
        while self.kept.len() > self.limits.events_max {
            self.drop_oldest_of_largest(|share| share.count);
        }
        while self.bytes > self.limits.bytes_max {
            self.drop_oldest_of_largest(|share| share.bytes);
        }
        self.last
    }

    /// Takes the large events that are not kept any more. To free one takes milliseconds.
    pub fn take_spent(&mut self) -> Vec<Arc<Event>> {
        std::mem::take(&mut self.spent)
    }

    /// Drops expired events.
    pub fn expire(&mut self, now: Time) {
        while self.kept.front().is_some_and(|kept| now.since(kept.arrived) >= self.limits.age_max) {
            self.remove(0);
        }
    }

    /// The kept events, in order of arrival.
    pub fn iter(&self) -> impl Iterator<Item = &Kept<O>> {
        self.kept.iter()
    }

    /// The kept event with this number.
    #[must_use]
    pub fn get(&self, number: u64) -> Option<&Kept<O>> {
        self.kept.get(self.position(number)?)
    }

    /// Records that a process has received an event. An event that all its targets have received is dropped.
    pub fn served(&mut self, number: u64, proc: &ProcId) {
        let Some(index) = self.position(number) else { return };
        let Some(Kept { awaited: Some(awaited), .. }) = self.kept.get_mut(index) else { return };
        awaited.remove(proc);
        if awaited.is_empty() {
            self.remove(index);
        }
    }

    /// Keeps only the events that `is_kept` accepts.
    pub fn retain(&mut self, is_kept: impl Fn(&Kept<O>) -> bool) {
        let mut index = 0;
        while let Some(kept) = self.kept.get(index) {
            if is_kept(kept) {
                index = index.saturating_add(1);
            } else {
                self.remove(index);
            }
        }
    }

    fn position(&self, number: u64) -> Option<usize> {
        self.kept.binary_search_by_key(&number, |kept| kept.number).ok()
    }

    fn drop_oldest_of_largest(&mut self, size: impl Fn(&Share) -> usize) {
        let largest = self.shares.iter().max_by_key(|(_, share)| size(share)).map(|(owner, _)| *owner);
        let oldest = self.kept.iter().position(|kept| largest == Some(kept.owner));
        self.remove(oldest.unwrap_or(0));
    }

    fn remove(&mut self, index: usize) {
        let Some(Kept { owner, bytes, event, .. }) = self.kept.remove(index) else { return };
        if bytes >= self.limits.spent_bytes_min {
            self.spent.push(event);
        }
        self.bytes = self.bytes.saturating_sub(bytes);
        let Some(share) = self.shares.get_mut(&owner) else { return };
        *share = Share { count: share.count.saturating_sub(1), bytes: share.bytes.saturating_sub(bytes) };
        if share.count == 0 {
            self.shares.remove(&owner);
        }
    }
}

/// Limit of the targets that are awaited one by one. An event with more is kept for its whole time.
const AWAITED_MAX: usize = 1024;

/// The processes that an event is addressed to, if it names each of them, and few.
fn explicit_targets(event: &Event) -> Option<BTreeSet<ProcId>> {
    let targets = (event.range == range::RANGE_CUSTOM).then(|| event.targets())?;
    let is_one = |proc: &&ProcId| matches!(proc.rank, Rank::Process(_));
    ((1..=AWAITED_MAX).contains(&targets.len()) && targets.iter().all(is_one))
        .then(|| targets.into_iter().cloned().collect())
}

/// Approximate memory of an event in bytes. `None` if it is larger than this, or nested too deep to be measured.
fn size(event: &Event, bytes_max: usize) -> Option<usize> {
    let bytes = event.info.iter().try_fold(size_of::<Event>(), |sum, info| {
        let value = footprint_up_to(&info.value, bytes_max)?;
        Some(sum.saturating_add(size_of::<Info>()).saturating_add(info.key.as_str().len()).saturating_add(value))
    })?;
    (bytes <= bytes_max).then_some(bytes)
}
