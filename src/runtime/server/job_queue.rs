//! The queue to the thread of the host's functions: fair turns of users and processes, and order where it matters.
//!
//! Each job has places in one or more lanes, such as the lanes of the processes that asked for it. It is ready when it
//! is the first in all of them. So jobs with a common lane run in the order in which they were given. Ready jobs take
//! turns: first by user, then in the order in which they became ready. A lane has one ready job at most, so that no
//! lane waits for all that another one has.
//!
//! The thread sleeps while there is nothing to do. The receiver of a channel would offer its processor a few times
//! before it sleeps. If there are many more running processes than processors, each offer costs a turn of every
//! process.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

/// Gives jobs to the thread. After its drop, the thread finishes the remaining jobs and ends.
pub(super) struct JobSender<L, T>(Arc<Shared<L, T>>);

/// The thread's end.
pub(super) struct JobReceiver<L, T> {
    shared: Arc<Shared<L, T>>,
    taken: VecDeque<T>,
}

struct Shared<L, T> {
    state: Mutex<State<L, T>>,
    news: Condvar,
}

/// All jobs that have not been taken, by number.
struct State<L, T> {
    jobs: BTreeMap<u64, QueuedJob<L, T>>,
    lanes: BTreeMap<L, VecDeque<u64>>,
    /// The ready jobs of each user, in the order of the users' turns.
    ready: VecDeque<(Option<u32>, VecDeque<u64>)>,
    last: u64,
    is_over: bool,
}

struct QueuedJob<L, T> {
    uid: Option<u32>,
    lanes: BTreeSet<L>,
    /// The number of its lanes with an earlier job.
    behind: usize,
    job: T,
}

/// Both ends of a queue. Its length has no limit here.
pub(super) fn queue<L, T>() -> (JobSender<L, T>, JobReceiver<L, T>) {
    let (jobs, lanes) = (BTreeMap::new(), BTreeMap::new());
    let state = Mutex::new(State { jobs, lanes, ready: VecDeque::new(), last: 0, is_over: false });
    let shared = Arc::new(Shared { state, news: Condvar::new() });
    (JobSender(Arc::clone(&shared)), JobReceiver { shared, taken: VecDeque::new() })
}

impl<L: Ord + Clone, T> JobSender<L, T> {
    /// Adds a job on the turns of a user, behind all others of its lanes.
    pub(super) fn send(&self, uid: Option<u32>, lanes: BTreeSet<L>, job: T) {
        self.0.state.lock().add(uid, lanes, job);
        self.0.news.notify_one();
    }

    /// Adds a job behind all others of these lanes, or of one if there are none.
    pub(super) fn send_behind(&self, is_before: impl Fn(&L) -> bool, otherwise: L, job: T) {
        let mut state = self.0.state.lock();
        let mut lanes: BTreeSet<L> = state.lanes.keys().filter(|lane| is_before(lane)).cloned().collect();
        if lanes.is_empty() {
            lanes.insert(otherwise);
        }
        state.add(None, lanes, job);
        drop(state);
        self.0.news.notify_one();
    }
}

impl<L, T> Drop for JobSender<L, T> {
    fn drop(&mut self) {
        self.0.state.lock().is_over = true;
        self.0.news.notify_one();
    }
}

impl<L: Ord + Clone, T> State<L, T> {
    fn add(&mut self, uid: Option<u32>, lanes: BTreeSet<L>, job: T) {
        self.last = self.last.saturating_add(1);
        let number = self.last;
        let mut behind = 0_usize;
        for lane in &lanes {
            let places = self.lanes.entry(lane.clone()).or_default();
            behind = behind.saturating_add(usize::from(!places.is_empty()));
            places.push_back(number);
        }
        self.jobs.insert(number, QueuedJob { uid, lanes, behind, job });
        if behind == 0 {
            self.make_ready(uid, number);
        }
    }

    fn make_ready(&mut self, uid: Option<u32>, number: u64) {
        match self.ready.iter_mut().find(|(other, _)| *other == uid) {
            Some((_, ready)) => ready.push_back(number),
            None => self.ready.push_back((uid, VecDeque::from([number]))),
        }
    }

    /// Takes the next job. Its user goes behind the others.
    fn next(&mut self) -> Option<T> {
        let (uid, mut ready) = self.ready.pop_front()?;
        let taken = self.jobs.remove(&ready.pop_front()?)?;
        if !ready.is_empty() {
            self.ready.push_back((uid, ready));
        }
        for lane in taken.lanes {
            let Some(places) = self.lanes.get_mut(&lane) else { continue };
            places.pop_front();
            let Some(&first) = places.front() else {
                self.lanes.remove(&lane);
                continue;
            };
            let Some(queued) = self.jobs.get_mut(&first) else { continue };
            queued.behind = queued.behind.saturating_sub(1);
            if queued.behind == 0 {
                let uid = queued.uid;
                self.make_ready(uid, first);
            }
        }
        Some(taken.job)
    }
}

impl<L: Ord + Clone, T> Iterator for JobReceiver<L, T> {
    type Item = T;

    /// The next job, waited for; `None` after the last.
    fn next(&mut self) -> Option<T> {
        if self.taken.is_empty() {
            let mut state = self.shared.state.lock();
            while state.ready.is_empty() && !state.is_over {
                self.shared.news.wait(&mut state);
            }
            self.taken.extend(std::iter::from_fn(|| state.next()).take(TAKEN_MAX));
        }
        self.taken.pop_front()
    }
}

/// Jobs taken at once: a later job waits for no more than these.
const TAKEN_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn jobs_come_in_their_order_and_the_last_before_the_end() {
        let (sender, receiver) = queue();
        let receiving = std::thread::Builder::new().spawn(move || receiver.collect::<Vec<u32>>()).unwrap();
        for number in 0..1000 {
            sender.send(None, BTreeSet::from([()]), number);
            if number % 7 == 0 {
                std::thread::yield_now();
            }
        }
        drop(sender);
        assert_eq!(receiving.join().unwrap(), (0..1000).collect::<Vec<u32>>());
    }

    /// All jobs had one queue. A request to the host waited for all earlier requests of other users, 13 seconds for
    /// 48,000. The same held for the processes of one user. Users take turns now, and so do their processes.
    #[test]
    fn a_job_waits_for_few_of_other_users_and_other_processes() {
        let (sender, mut receiver) = queue();
        let send = |uid, process| sender.send(Some(uid), BTreeSet::from([process]), (uid, process));
        (0..1000).for_each(|_| (1..=9).for_each(|process| send(66, process)));
        assert_eq!(receiver.next(), Some((66, 1)));
        send(66, 10);
        send(1000, 20);
        let place_of = |wanted| receiver.by_ref().position(|job| job == wanted).unwrap();
        let places = [(1000, 20), (66, 10)].map(place_of);
        assert!(places[0] <= TAKEN_MAX && places[0] + places[1] <= TAKEN_MAX + 11, "{places:?}");
        drop(sender);
        assert_eq!(receiver.count() + places[0] + places[1] + 3, 9002);
    }

    #[test]
    fn a_job_can_wait_for_all_that_some_lanes_have() {
        let (sender, receiver) = queue();
        for number in 0..3 {
            sender.send(Some(1), BTreeSet::from(["mine"]), number);
            sender.send(Some(2), BTreeSet::from(["other"]), 10 + number);
        }
        sender.send_behind(|lane| *lane == "mine", "host", 100);
        sender.send(Some(1), BTreeSet::from(["mine"]), 3);
        drop(sender);
        let order: Vec<u32> = receiver.collect();
        assert_eq!(order, [0, 10, 1, 11, 2, 12, 100, 3]);
    }

    proptest! {
        /// Jobs come once each. Jobs with a common lane keep their order.
        #[test]
        fn jobs_with_a_common_lane_keep_their_order(
            jobs in prop::collection::vec((0_u32..3, prop::collection::btree_set(0_u8..6, 1..4)), 0..100),
        ) {
            let (sender, receiver) = queue();
            for (number, (uid, lanes)) in jobs.iter().enumerate() {
                sender.send(Some(*uid), lanes.clone(), number);
            }
            drop(sender);
            let order: Vec<usize> = receiver.collect();
            prop_assert_eq!(order.iter().copied().collect::<BTreeSet<_>>().len(), jobs.len());
            for lane in 0..6 {
                let of_lane: Vec<usize> = order.iter().copied().filter(|&number| jobs[number].1.contains(&lane)).collect();
                prop_assert!(of_lane.is_sorted(), "lane {}: {:?}", lane, of_lane);
            }
        }
    }
}
