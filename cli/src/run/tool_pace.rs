//! A short wait for tools that read output almost as fast as the ranks write it.
//!
//! A server drops output that a tool does not read in time. A tool that shares the processors with the ranks may fall
//! behind for a moment, so the ranks wait for it then. A tool that is slow for longer misses output instead: it must
//! not slow the ranks down.
//!
//! ```text
//!             BEHIND_BYTES unread                WAIT_TIME is over
//!   keeps up ---------------------> ranks wait -------------------> slow
//!      ^-- CAUGHT_UP_BYTES unread ------|  ^                          |
//!      |--------------------------- all read ------------------------|
//! ```

use std::time::Duration;

use modex::types::Time;

/// The unread bytes at which the ranks wait: half of what a server keeps for a process.
const BEHIND_BYTES: usize = 16 << 20;

/// The unread bytes at which they go on. A tool must read the difference within the wait, which is 160 MB a second.
const CAUGHT_UP_BYTES: usize = 8 << 20;

/// The longest wait. A slow tool causes another one only after it has read everything and has fallen behind again.
const WAIT_TIME: Duration = Duration::from_millis(50);

/// The time between two looks during a wait.
const LOOKS_AFTER: Duration = Duration::from_millis(1);

/// The number of offered pieces, of 64 KiB or less, between two looks while the tools keep up.
const OFFERS: usize = 16;

/// The state of the slowest tool.
#[derive(Debug, Default)]
pub(super) struct ToolPace {
    speed: Speed,
    offers: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Speed {
    #[default]
    KeepsUp,
    /// The ranks wait until this time.
    Behind(Time),
    Slow,
}

impl ToolPace {
    /// Counts an offered piece of output. Returns whether it is time for a look.
    pub(super) const fn offer(&mut self) -> bool {
        self.offers = self.offers.saturating_add(1);
        self.offers >= OFFERS
    }

    /// Takes the bytes that the slowest tool has not read.
    pub(super) fn look(&mut self, now: Time, unread_bytes: usize) {
        self.offers = 0;
        self.speed = match self.speed {
            Speed::KeepsUp if unread_bytes >= BEHIND_BYTES => Speed::Behind(now + WAIT_TIME),
            Speed::Behind(_) if unread_bytes <= CAUGHT_UP_BYTES => Speed::KeepsUp,
            Speed::Behind(until) if until <= now => Speed::Slow,
            Speed::Slow if unread_bytes == 0 => Speed::KeepsUp,
            speed => speed,
        };
    }

    /// Whether the ranks' output stays in their pipes.
    pub(super) const fn is_waiting(&self) -> bool {
        matches!(self.speed, Speed::Behind(_))
    }

    /// The time until the next look during a wait.
    pub(super) fn next_look(&self) -> Option<Duration> {
        self.is_waiting().then_some(LOOKS_AFTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time::ZERO;

    fn at(pace: &mut ToolPace, time: Duration, unread_bytes: usize) -> bool {
        pace.look(START + time, unread_bytes);
        pace.is_waiting()
    }

    #[test]
    fn ranks_wait_for_a_tool_that_catches_up() {
        let mut pace = ToolPace::default();
        assert!(!at(&mut pace, Duration::ZERO, BEHIND_BYTES - 1));
        assert!(at(&mut pace, Duration::ZERO, BEHIND_BYTES));
        assert_eq!(pace.next_look(), Some(LOOKS_AFTER));
        assert!(at(&mut pace, WAIT_TIME / 2, CAUGHT_UP_BYTES + 1));
        assert!(!at(&mut pace, WAIT_TIME / 2, CAUGHT_UP_BYTES));
        assert_eq!(pace.next_look(), None);
        assert!(at(&mut pace, WAIT_TIME, BEHIND_BYTES), "each wait has its time");
        assert!(at(&mut pace, 2 * WAIT_TIME - LOOKS_AFTER, BEHIND_BYTES));
    }

    #[test]
    fn a_slow_tool_gets_no_second_wait_until_it_has_read_all() {
        let mut pace = ToolPace::default();
        assert!(at(&mut pace, Duration::ZERO, BEHIND_BYTES));
        assert!(!at(&mut pace, WAIT_TIME, CAUGHT_UP_BYTES + 1));
        for unread_bytes in [2 * BEHIND_BYTES, 1, BEHIND_BYTES] {
            assert!(!at(&mut pace, WAIT_TIME, unread_bytes));
        }
        assert!(!at(&mut pace, WAIT_TIME, 0));
        assert!(at(&mut pace, WAIT_TIME, BEHIND_BYTES));
    }

    #[test]
    fn a_look_is_due_after_some_output() {
        let mut pace = ToolPace::default();
        let due = [(); OFFERS].map(|()| pace.offer());
        assert_eq!(due.iter().position(|is_due| *is_due), Some(OFFERS - 1));
        pace.look(START, 0);
        assert!(!pace.offer());
    }
}
