//! Whose requests are worked off next: by fair shares of the server's time.
//!
//! The time that requests have taken is counted, first by user, then by process. Of the users whose requests wait, the
//! one with the least time used comes next, and of this user the process with the least. So a user with a hundred
//! processes gets no more than a user with one, and a process with a hundred connections no more than one with one. A
//! request that took long is paid for: its process waits until the others that wait have had as much.
//!
//! Nobody saves time up: a share that has not waited for a while begins at the share served last. Nobody loses debts
//! either: a share that used more keeps that number while it has no requests, or until the others have caught up.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::burdens::Account;
use crate::server::PeerId;

/// The connections with requests that wait.
#[derive(Debug, Default)]
pub(super) struct Turns {
    users: Shares<u32>,
    processes: BTreeMap<u32, Processes>,
    /// Where each connection waits.
    places: BTreeMap<PeerId, Place>,
    /// Requests that were handled.
    requests: u64,
    /// The most that were handled while a process waited that owed nothing.
    requests_waited_max: u64,
}

/// A connection that waits.
#[derive(Debug)]
struct Place {
    share: Share,
    /// How many requests had been handled when it came, if its process owed nothing and did not wait yet.
    came_at: Option<u64>,
}

/// On whose share a connection's requests are worked off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) uid: u32,
    pub(super) account: Account,
}

/// What one user's processes have used, and which connections of each wait, longest first.
#[derive(Debug, Default)]
struct Processes {
    shares: Shares<Account>,
    connections: BTreeMap<Account, VecDeque<PeerId>>,
}

impl Turns {
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Processes that wait.
    pub(super) fn process_count(&self) -> usize {
        self.processes.values().map(|user| user.connections.len()).sum()
    }

    /// A connection has a request that waits. It stays where it is if it waits already.
    pub(super) fn join(&mut self, id: PeerId, share: Share) {
        if self.places.contains_key(&id) {
            return;
        }
        let Share { uid, account } = &share;
        let user = self.processes.entry(*uid).or_default();
        let is_first = !user.connections.contains_key(account);
        let owes_nothing = self.users.join(*uid) & user.shares.join(account.clone());
        user.connections.entry(account.clone()).or_default().push_back(id);
        let came_at = (is_first && owes_nothing).then_some(self.requests);
        self.places.insert(id, Place { share, came_at });
    }

    /// The most requests of others that were handled while a process waited that owed nothing.
    pub(super) const fn requests_waited_max(&self) -> u64 {
        self.requests_waited_max
    }

    /// Takes the connection whose turn it is; [`Turns::charge`] its share with what it used.
    pub(super) fn next(&mut self) -> Option<(PeerId, Share)> {
        let uid = self.users.first()?;
        let user = self.processes.get_mut(&uid)?;
        let account = user.shares.first()?;
        let id = *user.connections.get(&account)?.front()?;
        let came_at = self.places.get(&id)?.came_at;
        let waited = came_at.map_or(0, |came_at| self.requests.saturating_sub(came_at));
        self.requests_waited_max = self.requests_waited_max.max(waited);
        self.leave(id).map(|share| (id, share))
    }

    /// A connection has no request any more. Returns its share if it waited.
    pub(super) fn leave(&mut self, id: PeerId) -> Option<Share> {
        let Place { share, .. } = self.places.remove(&id)?;
        let user = self.processes.get_mut(&share.uid)?;
        let connections = user.connections.get_mut(&share.account)?;
        connections.retain(|other| *other != id);
        if connections.is_empty() {
            user.connections.remove(&share.account);
            user.shares.leave(&share.account);
        }
        if user.connections.is_empty() {
            self.users.leave(&share.uid);
        }
        Some(share)
    }

    /// So many requests were handled on this share, and so much of the server's time was used for them.
    pub(super) fn charge(&mut self, share: &Share, requests: u64, time: Duration) {
        self.requests = self.requests.saturating_add(requests);
        let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(TIME_MIN_NS);
        self.users.charge(&share.uid, time);
        if let Some(user) = self.processes.get_mut(&share.uid) {
            user.shares.charge(&share.account, time);
        }
    }
}

/// Time used by each of many, in nanoseconds.
#[derive(Debug)]
struct Shares<K> {
    /// What the one served last had used: whoever comes begins here, at least.
    now: u64,
    /// Those that wait, least used first.
    waiting: BTreeSet<(u64, K)>,
    /// What those have used that wait, or used more than the others.
    used: BTreeMap<K, u64>,
}

impl<K> Default for Shares<K> {
    fn default() -> Self {
        Self { now: 0, waiting: BTreeSet::new(), used: BTreeMap::new() }
    }
}

impl<K: Ord + Clone> Shares<K> {
    /// Returns whether it has used no more than the one served last.
    fn join(&mut self, of: K) -> bool {
        let used = self.used.entry(of.clone()).or_default();
        *used = (*used).max(self.now);
        let owes_nothing = *used == self.now;
        self.waiting.insert((*used, of));
        owes_nothing
    }

    /// Whose turn it is.
    fn first(&mut self) -> Option<K> {
        let (used, of) = self.waiting.first()?;
        self.now = self.now.max(*used);
        Some(of.clone())
    }

    fn leave(&mut self, of: &K) {
        if let Some(&used) = self.used.get(of) {
            self.waiting.remove(&(used, of.clone()));
        }
        // Those that were caught up with begin like anybody else. Looked for seldom enough to cost nothing.
        if self.used.len() > FORGET_FROM.max(self.waiting.len().saturating_mul(2)) {
            let (now, waiting) = (self.now, &self.waiting);
            self.used.retain(|of, used| *used > now || waiting.contains(&(*used, of.clone())));
        }
    }

    fn charge(&mut self, of: &K, time: u64) {
        let now = self.now;
        let used = self.used.entry(of.clone()).or_insert(now);
        let waited = self.waiting.remove(&(*used, of.clone()));
        *used = used.saturating_add(time);
        if waited {
            self.waiting.insert((*used, of.clone()));
        }
    }
}

/// No request is cheaper than this, whatever the clock says.
const TIME_MIN_NS: u64 = 1000;
/// Shares that may be remembered before those are forgotten that owe nothing.
const FORGET_FROM: usize = 64;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::types::{Namespace, ProcId};

    const STEP: Duration = Duration::from_micros(10);

    fn share(uid: u32, rank: u32) -> Share {
        Share { uid, account: Account::Process(ProcId::new(Namespace::new("job").unwrap(), rank)) }
    }

    /// Who is served in `count` turns that cost one step each, where every connection always has another request.
    fn served(turns: &mut Turns, count: usize) -> BTreeMap<PeerId, usize> {
        let mut served = BTreeMap::new();
        for _ in 0..count {
            let (id, share) = turns.next().unwrap();
            *served.entry(id).or_default() += 1;
            turns.charge(&share, 1, STEP);
            turns.join(id, share);
        }
        served
    }

    #[test]
    fn users_share_alike_and_so_do_the_processes_of_each() {
        let mut turns = Turns::default();
        (1..=9).for_each(|id| turns.join(PeerId(id), share(1, u32::try_from(id).unwrap())));
        turns.join(PeerId(100), share(2, 0));
        let served = served(&mut turns, 180);
        assert_eq!(served[&PeerId(100)], 90);
        assert!((1..=9).all(|id| served[&PeerId(id)] == 10), "{served:?}");
    }

    #[test]
    fn connections_of_one_process_have_one_share() {
        let mut turns = Turns::default();
        (1..=10).for_each(|id| turns.join(PeerId(id), share(1, 0)));
        turns.join(PeerId(100), share(1, 1));
        assert_eq!(turns.process_count(), 2);
        let served = served(&mut turns, 100);
        assert_eq!(served[&PeerId(100)], 50);
        assert!((1..=10).all(|id| served[&PeerId(id)] == 5), "{served:?}");
    }

    #[test]
    fn a_debt_outlives_the_connection_and_is_paid_before_the_next_turn() {
        let mut turns = Turns::default();
        turns.join(PeerId(1), share(1, 0));
        let (id, heavy) = turns.next().unwrap();
        assert_eq!(id, PeerId(1));
        turns.charge(&heavy, 1, STEP * 20);
        assert!(turns.is_empty());
        turns.join(PeerId(2), share(1, 1));
        turns.join(PeerId(3), heavy);
        let served = served(&mut turns, 20);
        assert_eq!(served.get(&PeerId(3)), None, "its process has used twenty steps already");
        assert_eq!(self::served(&mut turns, 2).len(), 2);
    }

    #[test]
    fn requests_that_a_process_waits_for_are_counted_unless_it_owes() {
        let mut turns = Turns::default();
        turns.join(PeerId(1), share(1, 1));
        let (_, first) = turns.next().unwrap();
        turns.join(PeerId(2), share(1, 2));
        turns.charge(&first, 7, STEP);
        turns.join(PeerId(1), first);
        let (second, share) = turns.next().unwrap();
        assert_eq!((second, turns.requests_waited_max()), (PeerId(2), 7));
        turns.charge(&share, 9, STEP);
        assert_eq!(turns.next().unwrap().0, PeerId(1));
        assert_eq!(turns.requests_waited_max(), 7, "it had its turn before");
    }

    #[test]
    fn nobody_saves_time_up() {
        let mut turns = Turns::default();
        turns.join(PeerId(1), share(1, 1));
        served(&mut turns, 1000);
        turns.join(PeerId(2), share(1, 2));
        let served = served(&mut turns, 20);
        assert!(served[&PeerId(1)] >= 9, "{served:?}");
    }

    #[test]
    fn whoever_owes_nothing_is_forgotten() {
        let mut turns = Turns::default();
        for rank in 0..10_000 {
            turns.join(PeerId(1), share(1, rank));
            let (_, share) = turns.next().unwrap();
            turns.charge(&share, 1, STEP);
            turns.join(PeerId(2), self::share(1, u32::MAX >> 1));
            turns.next().map(|(_, share)| turns.charge(&share, 1, STEP * 2)).unwrap();
        }
        assert!(turns.processes[&1].shares.used.len() <= 2 * FORGET_FROM);
        assert_eq!(turns.leave(PeerId(9)), None);
    }

    proptest! {
        /// Whatever the requests cost and however connections come and go: between two turns of a connection that always
        /// has a request, every other process uses no more than that connection's own share did, and one request.
        #[test]
        fn no_wait_exceeds_what_one_request_of_each_other_process_costs(
            steps in prop::collection::vec((1_u64..8, 1_u32..4, 0_u32..4, 1_u64..1000, any::<bool>()), 1..400),
        ) {
            let mut turns = Turns::default();
            let victim = PeerId(1000);
            let own = share(9, 9);
            turns.join(victim, own.clone());
            let mut since: BTreeMap<(u32, Account), u64> = BTreeMap::new();
            let (mut paid, mut largest) = (0, 0);
            for (id, uid, rank, cost, leaves) in steps {
                let id = PeerId(u64::from(uid) * 100 + u64::from(rank) * 10 + id);
                if leaves { turns.leave(id); } else { turns.join(id, share(uid, rank)); }
                let (served, share) = turns.next().unwrap();
                let cost = cost * 1000;
                turns.charge(&share, 1, Duration::from_nanos(cost));
                if served == victim {
                    since.clear();
                    paid = cost;
                } else {
                    largest = largest.max(cost);
                    *since.entry((share.uid, share.account.clone())).or_default() += cost;
                    let of_user: u64 = since.iter().filter(|((uid, _), _)| *uid == share.uid).map(|(_, used)| used).sum();
                    prop_assert!(of_user <= paid + 2 * largest, "user {} used {of_user} while {paid} was paid", share.uid);
                }
                turns.join(served, share);
            }
        }
    }
}
