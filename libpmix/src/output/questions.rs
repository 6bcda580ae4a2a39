//! Lines without an end, which may be questions to the user. Such a line is written when no output has come for a time,
//! of any source: behind it, the line of another source would not be whole. If other sources write all the time, it is
//! written when no more of it has come for a longer time.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use super::stream::Channel;

/// Channels with an open line that may be a question.
#[derive(Debug, Default)]
pub(super) struct Questions {
    /// The time of the last piece; `None` once the line has its end. Each channel is here once and in `order` once.
    last: BTreeMap<Channel, Option<Instant>>,
    /// The channels by the time at which they are looked at.
    order: VecDeque<(Instant, Channel)>,
    /// The time of the last piece of any channel.
    last_of_all: Option<Instant>,
}

impl Questions {
    /// Notes that a piece has come, and whether the channel's line is open after it.
    pub(super) fn note(&mut self, channel: &Channel, is_open: bool, now: Instant) {
        self.last_of_all = Some(now);
        if let Some(last) = self.last.get_mut(channel) {
            *last = is_open.then_some(now);
        } else if is_open {
            self.last.insert(channel.clone(), Some(now));
            self.order.push_back((now + QUIET_TIME, channel.clone()));
        }
    }

    /// The time of the next look; `None` if there is none.
    pub(super) fn next_look(&self) -> Option<Instant> {
        self.order.front().map(|(at, _)| *at)
    }

    /// A channel whose open line is written now.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<Channel> {
        while self.next_look().is_some_and(|at| at <= now) {
            let (_, channel) = self.order.pop_front()?;
            let Some(last) = self.last.remove(&channel)? else { continue };
            let quiet_at = self.last_of_all.unwrap_or(last) + QUIET_TIME;
            let due_at = quiet_at.min(last + BUSY_QUIET_TIME);
            if due_at <= now {
                return Some(channel);
            }
            self.last.insert(channel.clone(), Some(last));
            self.order.push_back((due_at, channel));
        }
        None
    }
}

/// How long the end of a line may take. People do not notice such a delay of a question.
const QUIET_TIME: Duration = Duration::from_millis(50);
/// The same while other sources write.
const BUSY_QUIET_TIME: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use modex::types::{Namespace, ProcId};

    use super::super::stream::Stream;
    use super::*;

    fn channel(rank: u32) -> Channel {
        (ProcId::new(Namespace::new("job").unwrap(), rank), Stream::Stdout)
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any moment will do")]
    fn a_line_is_due_when_no_more_of_it_has_come_for_a_time() {
        let mut questions = Questions::default();
        let begin = Instant::now();
        let at = |millis| begin + Duration::from_millis(millis);
        questions.note(&channel(0), false, at(0));
        assert_eq!(questions.next_look(), None);
        questions.note(&channel(0), true, at(0));
        questions.note(&channel(1), true, at(10));
        questions.note(&channel(1), false, at(20));
        assert_eq!(questions.take_due(at(69)), None);
        assert_eq!(questions.take_due(at(70)), Some(channel(0)));
        assert_eq!((questions.take_due(at(5000)), questions.next_look()), (None, None));
    }

    /// Regression: a source that paused in a line had it written in pieces, between the lines of others.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "any moment will do")]
    fn a_line_waits_while_others_write_but_not_for_ever() {
        let mut questions = Questions::default();
        let begin = Instant::now();
        let at = |millis| begin + Duration::from_millis(millis);
        questions.note(&channel(0), true, at(0));
        for millis in (10..1000).step_by(10) {
            questions.note(&channel(1), false, at(millis));
            assert_eq!(questions.take_due(at(millis)), None);
        }
        let next = questions.next_look().unwrap();
        assert!(next <= at(1000), "{:?}", next - begin);
        questions.note(&channel(1), false, at(1000));
        assert_eq!(questions.take_due(at(1000)), Some(channel(0)));
    }
}
