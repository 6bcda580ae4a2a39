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

/// A job of a user. A host may answer the question of its own setup with another setup, so questions have an order of
/// their own.
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

/// Setups that have not ended, in the order of their calls.
#[derive(Debug, Default)]
struct Lanes {
    lanes: BTreeMap<Lane, VecDeque<Entry>>,
    last: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    number: u64,
    /// Time for the answer to its question.
    seconds: u32,
}

/// A setup in its order. It ends with the drop.
#[must_use = "later setups of the job wait for its end"]
#[derive(Debug)]
pub struct QueuedSetup(Option<Place>);

#[derive(Debug)]
struct Place {
    queue: Arc<SetupQueue>,
    lane: Lane,
    entry: Entry,
    /// Whether it may ask another process.
    asks: bool,
}

impl SetupQueue {
    /// Adds a setup behind all others of its lane.
    pub(super) fn enter(self: &Arc<Self>, lane: Lane, infos: &[Info], asks: bool) -> Result<QueuedSetup, SetupError> {
        let Some(entry) = self.lanes.lock().enter(&lane, seconds_of(infos)) else {
            return Err(SetupError::TooManyAtOnce { namespace: lane.job });
        };
        Ok(QueuedSetup(Some(Place { queue: Arc::clone(self), lane, entry, asks })))
    }
}

impl Lanes {
    /// Adds a setup; `None` beyond the limit.
    fn enter(&mut self, lane: &Lane, seconds: u32) -> Option<Entry> {
        let entries = self.lanes.entry(lane.clone()).or_default();
        if entries.len() >= SETUPS_MAX {
            return None;
        }
        self.last = self.last.wrapping_add(1);
        let entry = Entry { number: self.last, seconds };
        entries.push_back(entry);
        Some(entry)
    }

    /// The first setup, if it is another one.
    fn before(&self, lane: &Lane, entry: Entry) -> Option<Entry> {
        self.lanes.get(lane)?.front().copied().filter(|first| *first != entry)
    }

    fn leave(&mut self, lane: &Lane, entry: Entry) {
        let Some(entries) = self.lanes.get_mut(lane) else { return };
        entries.retain(|other| *other != entry);
        if entries.is_empty() {
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
        let is_behind = |place: &Place| place.queue.lanes.lock().before(&place.lane, place.entry).is_some();
        self.0.as_ref().is_some_and(|place| place.asks || is_behind(place))
    }

    /// Waits for all earlier setups. Each of them must end within its own time and that of this one, as its question
    /// does. A setup that waits for this one would never end.
    pub(in crate::runtime::server) fn wait(&self) -> Result<(), SetupError> {
        self.wait_within(|seconds| Duration::from_secs(seconds.into()))
    }

    /// As [`QueuedSetup::wait`], with the time that so many seconds take.
    fn wait_within(&self, time_of: impl Fn(u32) -> Duration) -> Result<(), SetupError> {
        let Some(Place { queue, lane, entry, .. }) = &self.0 else { return Ok(()) };
        let mut lanes = queue.lanes.lock();
        while let Some(first) = lanes.before(lane, *entry) {
            let seconds = first.seconds.saturating_add(entry.seconds);
            let is_there = |lanes: &mut Lanes| lanes.before(lane, *entry) == Some(first);
            if queue.ended.wait_while_for(&mut lanes, is_there, time_of(seconds)).timed_out() {
                return Err(SetupError::EarlierSetup { namespace: lane.job.clone(), seconds });
            }
        }
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.queue.lanes.lock().leave(&self.lane, self.entry);
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
        let [one, two, of_other, three] = ["job", "job", "other", "job"].map(|job| lanes.enter(&lane(job), 1).unwrap());
        let before = |lanes: &Lanes, job: &str, entry| lanes.before(&lane(job), entry);
        assert_eq!([before(&lanes, "job", one), before(&lanes, "other", of_other)], [None; 2]);
        assert_eq!([before(&lanes, "job", two), before(&lanes, "job", three)], [Some(one); 2]);
        lanes.leave(&lane("job"), two);
        assert_eq!(before(&lanes, "job", three), Some(one), "the second one has given up");
        lanes.leave(&lane("job"), one);
        assert_eq!(before(&lanes, "job", three), None);
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

    /// A host that sets up the job of its own question would wait for itself for ever. Setups that begin together have
    /// one time limit, and the first one may need all of it: the others failed then.
    #[test]
    fn an_earlier_setup_that_does_not_end_within_both_times_is_an_error() {
        let queue = Arc::new(SetupQueue::default());
        let enter = |seconds: u32| {
            queue.enter(lane("job"), &[Info::new(Key::from_static(keys::TIMEOUT.name()), seconds)], false).unwrap()
        };
        let (earlier, later) = (enter(30), enter(40));
        let at_once = later.wait_within(|_| Duration::ZERO);
        assert!(matches!(at_once, Err(SetupError::EarlierSetup { seconds: 70, .. })));
        drop(earlier);
        later.wait().unwrap();
    }
}
