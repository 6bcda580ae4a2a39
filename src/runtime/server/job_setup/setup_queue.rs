//! The order of setups: those of one job run one after the other, in the order of their calls.
//!
//! A setup that waits for a scheduler may fail. Endpoints of a setup beside it would move then, or be given twice.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::SetupError;
use super::elsewhere::seconds_of;
use crate::types::{Info, Namespace};

/// Setups of one job that have not ended.
pub(super) const SETUPS_MAX: usize = 1024;

/// A job of a user. A host may answer the question of its own setup with another setup, so questions have an order of their own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::runtime::server) struct Lane {
    pub(super) owner: u32,
    pub(super) job: Namespace,
    /// Whether setups in it may wait for others.
    pub(super) may_ask: bool,
}

/// The setups of all jobs.
#[derive(Debug, Default)]
pub(super) struct SetupQueue {
    lanes: Mutex<Lanes>,
    ended: Condvar,
}

/// The numbers of setups that have not ended, in the order of their calls.
#[derive(Debug, Default)]
struct Lanes {
    lanes: BTreeMap<Lane, VecDeque<u64>>,
    last: u64,
}

/// A setup in its order. It ends with the drop.
#[must_use = "later setups of the job wait for its end"]
#[derive(Debug)]
pub struct QueuedSetup(Option<Place>);

#[derive(Debug)]
struct Place {
    queue: Arc<SetupQueue>,
    lane: Lane,
    number: u64,
    /// Time for each earlier setup.
    seconds: u32,
    /// Whether it may ask another process.
    asks: bool,
}

impl SetupQueue {
    /// Adds a setup behind all others of its lane. The infos say how long it waits for each of them.
    pub(super) fn enter(self: &Arc<Self>, lane: Lane, infos: &[Info], asks: bool) -> Result<QueuedSetup, SetupError> {
        let Some(number) = self.lanes.lock().enter(&lane) else {
            return Err(SetupError::TooManyAtOnce { namespace: lane.job });
        };
        Ok(QueuedSetup(Some(Place { queue: Arc::clone(self), lane, number, seconds: seconds_of(infos), asks })))
    }
}

impl Lanes {
    /// The number of a new setup; `None` beyond the limit.
    fn enter(&mut self, lane: &Lane) -> Option<u64> {
        let numbers = self.lanes.entry(lane.clone()).or_default();
        if numbers.len() >= SETUPS_MAX {
            return None;
        }
        self.last = self.last.wrapping_add(1);
        numbers.push_back(self.last);
        Some(self.last)
    }

    fn first(&self, lane: &Lane) -> Option<u64> {
        self.lanes.get(lane)?.front().copied()
    }

    fn leave(&mut self, lane: &Lane, number: u64) {
        let Some(numbers) = self.lanes.get_mut(lane) else { return };
        numbers.retain(|other| *other != number);
        if numbers.is_empty() {
            self.lanes.remove(lane);
        }
    }
}

impl QueuedSetup {
    /// A setup without an order, because it changes nothing that others of the job see.
    pub(super) const fn unordered() -> Self {
        Self(None)
    }

    /// Whether it may wait: for an earlier setup of the job, or for another process.
    #[must_use]
    pub fn may_wait(&self) -> bool {
        self.0.as_ref().is_some_and(|place| place.asks || !place.is_first(&place.queue.lanes.lock()))
    }

    /// Waits for all earlier setups. Each of them must end within the time.
    pub(in crate::runtime::server) fn wait(&self) -> Result<(), SetupError> {
        let Some(place) = &self.0 else { return Ok(()) };
        let Place { queue, lane, seconds, .. } = place;
        let mut lanes = queue.lanes.lock();
        while !place.is_first(&lanes) {
            let first = lanes.first(lane);
            let is_there = |lanes: &mut Lanes| lanes.first(lane) == first;
            let waited = queue.ended.wait_while_for(&mut lanes, is_there, Duration::from_secs((*seconds).into()));
            if waited.timed_out() {
                return Err(SetupError::EarlierSetup { namespace: lane.job.clone(), seconds: *seconds });
            }
        }
        Ok(())
    }
}

impl Place {
    fn is_first(&self, lanes: &Lanes) -> bool {
        lanes.first(&self.lane) == Some(self.number)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.queue.lanes.lock().leave(&self.lane, self.number);
        self.queue.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys;
    use crate::types::Key;

    fn lane(job: &str) -> Lane {
        Lane { owner: 7, job: Namespace::new(job).unwrap(), may_ask: true }
    }

    #[test]
    fn setups_of_one_job_run_in_the_order_of_their_calls() {
        let mut lanes = Lanes::default();
        let [one, two, of_other, three] = ["job", "job", "other", "job"].map(|job| lanes.enter(&lane(job)).unwrap());
        assert_eq!([lanes.first(&lane("job")), lanes.first(&lane("other"))], [Some(one), Some(of_other)]);
        lanes.leave(&lane("job"), two);
        assert_eq!(lanes.first(&lane("job")), Some(one), "the second one has given up");
        lanes.leave(&lane("job"), one);
        assert_eq!(lanes.first(&lane("job")), Some(three));
        lanes.leave(&lane("job"), three);
        lanes.leave(&lane("other"), of_other);
        assert!(lanes.lanes.is_empty());
    }

    #[test]
    fn a_job_has_a_limit_of_setups_at_once() {
        let queue = Arc::new(SetupQueue::default());
        let enter = |job: &str| queue.enter(lane(job), &[], false);
        let mut entered: Vec<QueuedSetup> = (0..SETUPS_MAX).map(|_| enter("job").unwrap()).collect();
        assert!(matches!(enter("job"), Err(SetupError::TooManyAtOnce { .. })));
        assert!(!enter("other").unwrap().may_wait());
        entered.pop();
        assert!(enter("job").unwrap().may_wait());
    }

    /// A host that sets up the job of its own question would wait for itself for ever.
    #[test]
    fn an_earlier_setup_that_does_not_end_is_an_error() {
        let queue = Arc::new(SetupQueue::default());
        let enter = || queue.enter(lane("job"), &[Info::new(Key::from_static(keys::TIMEOUT.name()), 1_u32)], false);
        let (earlier, later) = (enter().unwrap(), enter().unwrap());
        assert!(matches!(later.wait(), Err(SetupError::EarlierSetup { seconds: 1, .. })));
        drop(earlier);
        later.wait().unwrap();
    }
}
