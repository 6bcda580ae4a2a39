//! A queue to a thread that sleeps while there is nothing to do.
//!
//! The receiver of a channel offers its processor a few times before it sleeps. Where many more processes want to run
//! than there are processors, as when a job starts or ends, each offer costs a turn of every one of them; who sleeps is
//! woken in the order of need. It also takes all that is there at once, so that many jobs cost one look at the lock.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

/// Gives jobs to the thread. Dropped, it lets the thread finish what is there, and end.
pub(super) struct JobSender<T>(Arc<Shared<T>>);

/// The thread's end.
pub(super) struct JobReceiver<T> {
    shared: Arc<Shared<T>>,
    taken: VecDeque<T>,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    news: Condvar,
}

struct State<T> {
    jobs: VecDeque<T>,
    is_over: bool,
}

/// Both ends of a queue. Its length is not bounded here.
pub(super) fn queue<T>() -> (JobSender<T>, JobReceiver<T>) {
    let state = Mutex::new(State { jobs: VecDeque::new(), is_over: false });
    let shared = Arc::new(Shared { state, news: Condvar::new() });
    (JobSender(Arc::clone(&shared)), JobReceiver { shared, taken: VecDeque::new() })
}

impl<T> JobSender<T> {
    /// Adds a job behind all others.
    pub(super) fn send(&self, job: T) {
        self.0.state.lock().jobs.push_back(job);
        self.0.news.notify_one();
    }
}

impl<T> Drop for JobSender<T> {
    fn drop(&mut self) {
        self.0.state.lock().is_over = true;
        self.0.news.notify_one();
    }
}

impl<T> Iterator for JobReceiver<T> {
    type Item = T;

    /// The next job, waited for; `None` after the last.
    fn next(&mut self) -> Option<T> {
        if self.taken.is_empty() {
            let mut state = self.shared.state.lock();
            while state.jobs.is_empty() && !state.is_over {
                self.shared.news.wait(&mut state);
            }
            std::mem::swap(&mut state.jobs, &mut self.taken);
        }
        self.taken.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_come_in_their_order_and_the_last_before_the_end() {
        let (sender, receiver) = queue();
        let receiving = std::thread::Builder::new().spawn(move || receiver.collect::<Vec<u32>>()).unwrap();
        for number in 0..1000 {
            sender.send(number);
            if number % 7 == 0 {
                std::thread::yield_now();
            }
        }
        drop(sender);
        assert_eq!(receiving.join().unwrap(), (0..1000).collect::<Vec<u32>>());
    }
}
