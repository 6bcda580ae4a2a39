//! The order of waiting requests: by fair shares of the server's time.
//!
//! The time of requests is counted by user, and then by process. The waiting user with the least used time comes next,
//! and of its processes the one with the least. So a user with a hundred processes gets no more than a user with one,
//! and likewise a process with a hundred connections. The time of a long request is paid for: its process waits until
//! the other waiting ones have had as much.
//!
//! Shares can't save time: after a pause a share begins at the level of the share served last. They can't lose debts
//! either: a share that used more keeps its level until the others have caught up.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::request_quota::Account;
use crate::server::PeerId;

/// The connections with waiting requests, or other things that wait.
#[derive(Debug)]
pub(super) struct Turns<I = PeerId> {
    users: Shares<u32>,
    processes: BTreeMap<u32, Processes<I>>,
    /// The waiting connections, by number.
    waiting: BTreeMap<I, WaitingConnection>,
    /// Number of handled requests.
    requests: u64,
    /// The most requests that were handled while a process without debts waited.
    requests_waited_max: u64,
}

/// A waiting connection.
#[derive(Debug)]
struct WaitingConnection {
    share: Share,
    /// The number of handled requests at its arrival, if its process had no debts and was not waiting yet.
    came_at: Option<u64>,
}

/// The share of the server's time for a connection's requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) uid: u32,
    pub(super) account: Account,
}

/// The used time of one user's processes, and their waiting connections, longest first.
#[derive(Debug)]
struct Processes<I> {
    shares: Shares<Account>,
    connections: BTreeMap<Account, VecDeque<I>>,
}

impl<I> Default for Turns<I> {
    fn default() -> Self {
        let (users, processes, waiting) = (Shares::default(), BTreeMap::new(), BTreeMap::new());
        Self { users, processes, waiting, requests: 0, requests_waited_max: 0 }
    }
}

impl<I> Default for Processes<I> {
    fn default() -> Self {
        Self { shares: Shares::default(), connections: BTreeMap::new() }
    }
}

impl<I: Ord + Clone> Turns<I> {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Number of waiting processes.
    pub(super) fn process_count(&self) -> usize {
        self.processes.values().map(|user| user.connections.len()).sum()
    }

    /// Adds a connection with a waiting request. A waiting connection keeps its place.
    pub(super) fn join(&mut self, id: I, share: Share) {
        self.add(id, share, VecDeque::push_back);
    }

    /// Adds a connection in front of the others of its process: its last turn did not finish its request.
    pub(super) fn resume(&mut self, id: I, share: Share) {
        self.add(id, share, VecDeque::push_front);
    }

    fn add(&mut self, id: I, share: Share, put: impl FnOnce(&mut VecDeque<I>, I)) {
        if self.waiting.contains_key(&id) {
            return;
        }
        let Share { uid, account } = &share;
        let user = self.processes.entry(*uid).or_default();
        let is_first = !user.connections.contains_key(account);
        let owes_nothing = self.users.join(*uid) & user.shares.join(account.clone());
        put(user.connections.entry(account.clone()).or_default(), id.clone());
        let came_at = (is_first && owes_nothing).then_some(self.requests);
        self.waiting.insert(id, WaitingConnection { share, came_at });
    }

    /// The most requests of other processes that were handled while a process without debts waited.
    pub(super) const fn requests_waited_max(&self) -> u64 {
        self.requests_waited_max
    }

    /// Takes the next connection. [`Turns::charge`] its share with the used time afterwards.
    pub(super) fn next(&mut self) -> Option<(I, Share)> {
        let uid = self.users.first()?;
        let user = self.processes.get_mut(&uid)?;
        let account = user.shares.first()?;
        let id = user.connections.get(&account)?.front()?.clone();
        let came_at = self.waiting.get(&id)?.came_at;
        let waited = came_at.map_or(0, |came_at| self.requests.saturating_sub(came_at));
        self.requests_waited_max = self.requests_waited_max.max(waited);
        self.leave(&id).map(|share| (id, share))
    }

    /// Removes a connection without a waiting request. Returns its share if it waited.
    pub(super) fn leave(&mut self, id: &I) -> Option<Share> {
        let WaitingConnection { share, .. } = self.waiting.remove(id)?;
        let user = self.processes.get_mut(&share.uid)?;
        let connections = user.connections.get_mut(&share.account)?;
        connections.retain(|other| other != id);
        if connections.is_empty() {
            user.connections.remove(&share.account);
            user.shares.leave(&share.account);
        }
        if user.connections.is_empty() {
            self.users.leave(&share.uid);
        }
        Some(share)
    }

    /// Charges a share with handled requests and their time.
    pub(super) fn charge(&mut self, share: &Share, requests: u64, time: Duration) {
        self.requests = self.requests.saturating_add(requests);
        let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(TIME_MIN_NS);
        self.users.charge(&share.uid, time);
        if let Some(user) = self.processes.get_mut(&share.uid) {
            user.shares.charge(&share.account, time);
        }
    }
}

/// Used time of shares, in nanoseconds.
#[derive(Debug)]
struct Shares<K> {
    /// The used time of the share served last. A new share begins at least here.
    now: u64,
    /// The waiting shares, least used first.
    waiting: BTreeSet<(u64, K)>,
    /// The used time of waiting shares, and of those with debts.
    used: BTreeMap<K, u64>,
}

impl<K> Default for Shares<K> {
    fn default() -> Self {
        Self { now: 0, waiting: BTreeSet::new(), used: BTreeMap::new() }
    }
}

impl<K: Ord + Clone> Shares<K> {
    /// Adds a waiting share. Returns whether it has used no more than the share served last.
    fn join(&mut self, of: K) -> bool {
        let used = self.used.entry(of.clone()).or_default();
        *used = (*used).max(self.now);
        let owes_nothing = *used == self.now;
        self.waiting.insert((*used, of));
        owes_nothing
    }

    /// The next share.
    fn first(&mut self) -> Option<K> {
        let (used, of) = self.waiting.first()?;
        self.now = self.now.max(*used);
        Some(of.clone())
    }

    fn leave(&mut self, of: &K) {
        if let Some(&used) = self.used.get(of) {
            self.waiting.remove(&(used, of.clone()));
        }
        // Shares without debts are forgotten and begin anew. This runs seldom enough to cost nothing.
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

/// Least charge of a request, even if the clock shows less.
const TIME_MIN_NS: u64 = 1000;
/// Number of remembered shares from which on those without debts are forgotten.
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

    /// The number of turns of each connection, out of `count` turns of one step each, with requests always waiting.
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
    fn an_idle_connection_saves_no_time_up() {
        let mut turns = Turns::default();
        turns.join(PeerId(1), share(1, 1));
        served(&mut turns, 1000);
        turns.join(PeerId(2), share(1, 2));
        let served = served(&mut turns, 20);
        assert!(served[&PeerId(1)] >= 9, "{served:?}");
    }

    #[test]
    fn a_share_without_debt_is_forgotten() {
        let mut turns = Turns::default();
        for rank in 0..10_000 {
            turns.join(PeerId(1), share(1, rank));
            let (_, share) = turns.next().unwrap();
            turns.charge(&share, 1, STEP);
            turns.join(PeerId(2), self::share(1, u32::MAX >> 1));
            turns.next().map(|(_, share)| turns.charge(&share, 1, STEP * 2)).unwrap();
        }
        assert!(turns.processes[&1].shares.used.len() <= 2 * FORGET_FROM);
        assert_eq!(turns.leave(&PeerId(9)), None);
    }

    proptest! {
        /// Between two turns of a connection with constant requests, no other process uses more than that connection's
        /// share did, plus one request. This holds for any costs, arrivals and departures.
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
                if leaves { turns.leave(&id); } else { turns.join(id, share(uid, rank)); }
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
