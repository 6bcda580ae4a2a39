//! The right to write to each destination of the ranks' output.
//!
//! All ranks write line by line. A line that is too long to keep is passed on in pieces. Meanwhile its rank holds the
//! lock of the output. The output of other ranks stays in their pipes until the line ends.
//!
//! A rank that stops within such a line may wait for the other ranks, and these may wait for room in their pipes. So a
//! rank loses the lock if it has been silent for a while and other ranks have output.

use std::collections::BTreeMap;
use std::time::Duration;

use modex::types::Time;

use super::destination::Destination;

/// How long a rank may be silent within a long line while others wait.
const SILENCE_TIME: Duration = Duration::from_secs(5);

/// The held locks. Streams are known by their index.
#[derive(Debug, Default)]
pub(super) struct OutputLocks(BTreeMap<Destination, Lock>);

/// The lock of one destination.
#[derive(Debug)]
struct Lock {
    holder: usize,
    /// The time of the holder's last output.
    at: Time,
    /// The streams with waiting output.
    waiting: Vec<usize>,
}

impl OutputLocks {
    /// Whether this stream may write now. If not, it counts as waiting.
    pub(super) fn admits(&mut self, stream: usize, destination: Destination) -> bool {
        let Some(lock) = self.0.get_mut(&destination).filter(|lock| lock.holder != stream) else { return true };
        if !lock.waiting.contains(&stream) {
            lock.waiting.push(stream);
        }
        false
    }

    /// This stream has written or ended, inside a line or not. Returns the streams that waited for the line's end.
    #[must_use]
    pub(super) fn wrote(
        &mut self,
        now: Time,
        stream: usize,
        destination: Destination,
        is_mid_line: bool,
    ) -> Vec<usize> {
        if self.holder(destination).is_some_and(|holder| holder != stream) {
            return Vec::new();
        }
        if is_mid_line {
            let free = || Lock { holder: stream, at: now, waiting: Vec::new() };
            self.0.entry(destination).or_insert_with(free).at = now;
            return Vec::new();
        }
        self.0.remove(&destination).map(|lock| lock.waiting).unwrap_or_default()
    }

    /// The rank that holds the lock there.
    pub(super) fn holder(&self, destination: Destination) -> Option<usize> {
        self.0.get(&destination).map(|lock| lock.holder)
    }

    /// The loop listens to all streams again after a pause, in which no stream could write.
    pub(super) fn resume(&mut self, now: Time) {
        for lock in self.0.values_mut() {
            lock.waiting.clear();
            lock.at = now;
        }
    }

    /// The rank that must end its line, because it is silent and others wait; one at a time.
    pub(super) fn silent(&self, now: Time) -> Option<usize> {
        self.0.values().find(|lock| lock.due().is_some_and(|at| at <= now)).map(|lock| lock.holder)
    }

    /// When [`OutputLocks::silent`] is due.
    pub(super) fn next_tick(&self) -> Option<Time> {
        self.0.values().filter_map(Lock::due).min()
    }
}

impl Lock {
    fn due(&self) -> Option<Time> {
        (!self.waiting.is_empty()).then(|| self.at + SILENCE_TIME)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOBODY: [usize; 0] = [];

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn whole_lines_hold_nobody_up() {
        let mut output_locks = OutputLocks::default();
        assert!(output_locks.admits(0, Destination::Out));
        assert_eq!(output_locks.wrote(at(0), 0, Destination::Out, false), NOBODY);
        assert!(output_locks.admits(2, Destination::Out));
        assert_eq!((output_locks.next_tick(), output_locks.silent(at(99))), (None, None));
    }

    #[test]
    fn others_wait_for_the_end_of_a_long_line_on_the_same_output() {
        let mut output_locks = OutputLocks::default();
        assert_eq!(output_locks.wrote(at(0), 0, Destination::Out, true), NOBODY);
        assert!(output_locks.admits(0, Destination::Out) && output_locks.admits(1, Destination::Error));
        assert!(!output_locks.admits(2, Destination::Out) && !output_locks.admits(2, Destination::Out));
        assert_eq!(output_locks.wrote(at(5), 0, Destination::Out, false), [2]);
        assert!(output_locks.admits(2, Destination::Out));
    }

    #[test]
    fn one_that_ends_while_it_waits_changes_nothing() {
        let mut output_locks = OutputLocks::default();
        assert_eq!(output_locks.wrote(at(0), 0, Destination::Out, true), NOBODY);
        assert!(!output_locks.admits(1, Destination::Out));
        assert_eq!(output_locks.wrote(at(0), 1, Destination::Out, false), NOBODY);
        assert_eq!(output_locks.holder(Destination::Out), Some(0));
    }

    #[test]
    fn a_pause_is_nobodys_silence() {
        let mut output_locks = OutputLocks::default();
        assert_eq!(output_locks.wrote(at(0), 0, Destination::Out, true), NOBODY);
        assert!(!output_locks.admits(1, Destination::Out));
        output_locks.resume(at(5));
        assert!(!output_locks.admits(1, Destination::Out));
        assert_eq!((output_locks.silent(at(9)), output_locks.next_tick()), (None, Some(at(10))));
    }

    #[test]
    fn a_silent_rank_loses_the_floor_if_others_wait() {
        let mut output_locks = OutputLocks::default();
        assert_eq!(output_locks.wrote(at(0), 0, Destination::Error, true), NOBODY);
        assert_eq!((output_locks.next_tick(), output_locks.silent(at(99))), (None, None));
        assert!(!output_locks.admits(3, Destination::Error));
        assert_eq!(output_locks.next_tick(), Some(at(5)));
        assert_eq!(output_locks.wrote(at(1), 0, Destination::Error, true), NOBODY);
        assert_eq!((output_locks.silent(at(5)), output_locks.silent(at(6))), (None, Some(0)));
    }
}
