//! The right to write to each of the launcher's outputs.
//!
//! All ranks write line by line. A line that is too long to keep is passed on in pieces. Meanwhile its rank holds the
//! lock of the output. The output of other ranks stays in their pipes until the line ends.
//!
//! A rank that stops within such a line may wait for the other ranks, and these may wait for room in their pipes. So a
//! rank loses the lock if it has been silent for a while and other ranks have output.

use std::time::Duration;

use modex::types::Time;

use super::children::Channel;

/// How long a rank may be silent within a long line while others wait.
const SILENCE_TIME: Duration = Duration::from_secs(5);

/// Both outputs. Streams are known by their index.
#[derive(Debug, Default)]
pub(super) struct OutputLocks {
    out: Place,
    error: Place,
}

/// One output.
#[derive(Debug, Default)]
struct Place {
    holder: Option<Holder>,
    /// The ranks with waiting output.
    waiting: Vec<usize>,
}

#[derive(Debug)]
struct Holder {
    stream: usize,
    /// The time of its last output.
    at: Time,
}

impl OutputLocks {
    /// Whether this stream may write now. If not, it counts as waiting.
    pub(super) fn admits(&mut self, stream: usize, channel: Channel) -> bool {
        let place = self.place(channel);
        let is_free = place.holder.as_ref().is_none_or(|holder| holder.stream == stream);
        if !is_free && !place.waiting.contains(&stream) {
            place.waiting.push(stream);
        }
        is_free
    }

    /// This stream has written or ended, inside a line or not. Returns the streams that waited for the line's end.
    #[must_use]
    pub(super) fn wrote(&mut self, now: Time, stream: usize, channel: Channel, is_mid_line: bool) -> Vec<usize> {
        let place = self.place(channel);
        if place.holder.as_ref().is_some_and(|holder| holder.stream != stream) {
            return Vec::new();
        }
        place.holder = is_mid_line.then_some(Holder { stream, at: now });
        if is_mid_line { Vec::new() } else { std::mem::take(&mut place.waiting) }
    }

    /// The rank that holds the lock there.
    pub(super) fn holder(&mut self, channel: Channel) -> Option<usize> {
        self.place(channel).holder.as_ref().map(|holder| holder.stream)
    }

    /// The loop listens to all streams again after a pause, in which no stream could write.
    pub(super) fn resume(&mut self, now: Time) {
        for place in [&mut self.out, &mut self.error] {
            place.waiting.clear();
            place.holder.iter_mut().for_each(|holder| holder.at = now);
        }
    }

    /// The rank that must end its line, because it is silent and others wait; one at a time.
    pub(super) fn silent(&self, now: Time) -> Option<usize> {
        let due = |place: &Place| place.due().filter(|(_, at)| *at <= now).map(|(stream, _)| stream);
        due(&self.out).or_else(|| due(&self.error))
    }

    /// When [`OutputLocks::silent`] is due.
    pub(super) fn next_tick(&self) -> Option<Time> {
        let of = |place: &Place| place.due().map(|(_, at)| at);
        [of(&self.out), of(&self.error)].into_iter().flatten().min()
    }

    const fn place(&mut self, channel: Channel) -> &mut Place {
        match channel {
            Channel::Out => &mut self.out,
            Channel::Error => &mut self.error,
        }
    }
}

impl Place {
    fn due(&self) -> Option<(usize, Time)> {
        let holder = self.holder.as_ref().filter(|_| !self.waiting.is_empty())?;
        Some((holder.stream, holder.at + SILENCE_TIME))
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
        assert!(output_locks.admits(0, Channel::Out));
        assert_eq!(output_locks.wrote(at(0), 0, Channel::Out, false), NOBODY);
        assert!(output_locks.admits(2, Channel::Out));
        assert_eq!((output_locks.next_tick(), output_locks.silent(at(99))), (None, None));
    }

    #[test]
    fn others_wait_for_the_end_of_a_long_line_on_the_same_output() {
        let mut output_locks = OutputLocks::default();
        assert_eq!(output_locks.wrote(at(0), 0, Channel::Out, true), NOBODY);
        assert!(output_locks.admits(0, Channel::Out) && output_locks.admits(1, Channel::Error));
        assert!(!output_locks.admits(2, Channel::Out) && !output_locks.admits(2, Channel::Out));
        assert_eq!(output_locks.wrote(at(5), 0, Channel::Out, false), [2]);
        assert!(output_locks.admits(2, Channel::Out));
    }

    #[test]
    fn one_that_ends_while_it_waits_changes_nothing() {
        let mut output_locks = OutputLocks::default();
        assert_eq!(output_locks.wrote(at(0), 0, Channel::Out, true), NOBODY);
        assert!(!output_locks.admits(1, Channel::Out));
        assert_eq!(output_locks.wrote(at(0), 1, Channel::Out, false), NOBODY);
        assert_eq!(output_locks.holder(Channel::Out), Some(0));
    }

    #[test]
    fn a_pause_is_nobodys_silence() {
        let mut output_locks = OutputLocks::default();
        assert_eq!(output_locks.wrote(at(0), 0, Channel::Out, true), NOBODY);
        assert!(!output_locks.admits(1, Channel::Out));
        output_locks.resume(at(5));
        assert!(!output_locks.admits(1, Channel::Out));
        assert_eq!((output_locks.silent(at(9)), output_locks.next_tick()), (None, Some(at(10))));
    }

    #[test]
    fn a_silent_rank_loses_the_floor_if_others_wait() {
        let mut output_locks = OutputLocks::default();
        assert_eq!(output_locks.wrote(at(0), 0, Channel::Error, true), NOBODY);
        assert_eq!((output_locks.next_tick(), output_locks.silent(at(99))), (None, None));
        assert!(!output_locks.admits(3, Channel::Error));
        assert_eq!(output_locks.next_tick(), Some(at(5)));
        assert_eq!(output_locks.wrote(at(1), 0, Channel::Error, true), NOBODY);
        assert_eq!((output_locks.silent(at(5)), output_locks.silent(at(6))), (None, Some(0)));
    }
}
