//! A queue to a thread that sleeps while there is nothing to do.
//!
//! The receiver of a channel offers its processor a few times before it sleeps. Where many more processes want to run
//! than there are processors, as when a job starts or ends, each offer costs a turn of every one of them; who sleeps is
//! woken in the order of need. It also takes several jobs at once, so that many cost few looks at the lock.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

/// Gives jobs to the thread. Dropped, it lets the thread finish what is there, and end.
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

struct State<L, T> {
    /// Jobs of each lane that has some, and the lanes in the order of their turns.
    lanes: VecDeque<(L, VecDeque<T>)>,
    is_over: bool,
}

/// Both ends of a queue. Its length is not bounded here. Jobs of one lane come in their order; of several lanes each has one job
/// done in turn, so that none waits for all that another has.
pub(super) fn queue<L, T>() -> (JobSender<L, T>, JobReceiver<L, T>) {
    let state = Mutex::new(State { lanes: VecDeque::new(), is_over: false });
    let shared = Arc::new(Shared { state, news: Condvar::new() });
    (JobSender(Arc::clone(&shared)), JobReceiver { shared, taken: VecDeque::new() })
}

impl<L: PartialEq, T> JobSender<L, T> {
    /// Adds a job behind all others of its lane.
    pub(super) fn send(&self, lane: L, job: T) {
        let mut state = self.0.state.lock();
        match state.lanes.iter_mut().find(|(other, _)| *other == lane) {
            Some((_, jobs)) => jobs.push_back(job),
            None => state.lanes.push_back((lane, VecDeque::from([job]))),
        }
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

impl<L, T> State<L, T> {
    /// The job whose turn it is. Its lane comes behind the others.
    fn next(&mut self) -> Option<T> {
        let (lane, mut jobs) = self.lanes.pop_front()?;
        let job = jobs.pop_front();
        if !jobs.is_empty() {
            self.lanes.push_back((lane, jobs));
        }
        job
    }
}

impl<L, T> Iterator for JobReceiver<L, T> {
    type Item = T;

    /// The next job, waited for; `None` after the last.
    fn next(&mut self) -> Option<T> {
        if self.taken.is_empty() {
            let mut state = self.shared.state.lock();
            while state.lanes.is_empty() && !state.is_over {
                self.shared.news.wait(&mut state);
            }
            self.taken.extend(std::iter::from_fn(|| state.next()).take(TAKEN_MAX));
        }
        self.taken.pop_front()
    }
}

/// Jobs that are taken at a time: a job of another lane that comes meanwhile waits for no more.
const TAKEN_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_come_in_their_order_and_the_last_before_the_end() {
        let (sender, receiver) = queue();
        let receiving = std::thread::Builder::new().spawn(move || receiver.collect::<Vec<u32>>()).unwrap();
        for number in 0..1000 {
            sender.send((), number);
            if number % 7 == 0 {
                std::thread::yield_now();
            }
        }
        drop(sender);
        assert_eq!(receiving.join().unwrap(), (0..1000).collect::<Vec<u32>>());
    }

    /// All jobs had one queue: what one user wanted of the host waited for all that another had asked before, 13 seconds for
    /// 48,000 requests.
    #[test]
    fn a_job_waits_for_few_of_another_lane() {
        let (sender, mut receiver) = queue();
        (0..1000).for_each(|number| sender.send('a', ('a', number)));
        assert_eq!(receiver.next(), Some(('a', 0)));
        (0..3).for_each(|number| sender.send('b', ('b', number)));
        let order: Vec<(char, i32)> = receiver.by_ref().take(TAKEN_MAX + 6).collect();
        assert_eq!(order.iter().filter(|(lane, _)| *lane == 'b').count(), 3, "{order:?}");
        drop(sender);
        let left: Vec<(char, i32)> = order.into_iter().chain(receiver).filter(|(lane, _)| *lane == 'a').collect();
        assert_eq!(left, (1..1000).map(|number| ('a', number)).collect::<Vec<_>>(), "each lane in its order");
    }
}
