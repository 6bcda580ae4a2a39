//! Lines without an end, which may be questions to the user. Such a line is written when no more of it has come for a
//! time.

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
}

impl Questions {
    /// Notes that a piece has come, and whether the channel's line is open after it.
    pub(super) fn note(&mut self, channel: &Channel, is_open: bool, now: Instant) {
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
            match self.last.remove(&channel)? {
                Some(last) if last + QUIET_TIME <= now => return Some(channel),
                Some(last) => {
                    self.last.insert(channel.clone(), Some(last));
                    self.order.push_back((last + QUIET_TIME, channel));
                }
                None => {}
            }
        }
        None
    }
}

/// How long the end of a line may take. People do not notice such a delay of a question.
const QUIET_TIME: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use modex::types::{Namespace, ProcId};

    use super::super::stream::Stream;
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any moment will do")]
    fn a_line_is_due_when_no_more_of_it_has_come_for_a_time() {
        let mut questions = Questions::default();
        let channel = |rank| (ProcId::new(Namespace::new("job").unwrap(), rank), Stream::Stdout);
        let begin = Instant::now();
        let at = |millis| begin + Duration::from_millis(millis);
        questions.note(&channel(0), false, at(0));
        assert_eq!(questions.next_look(), None);
        questions.note(&channel(0), true, at(0));
        questions.note(&channel(1), true, at(10));
        questions.note(&channel(2), true, at(20));
        questions.note(&channel(1), true, at(40));
        questions.note(&channel(2), false, at(40));
        assert_eq!(questions.take_due(at(49)), None);
        assert_eq!(questions.take_due(at(50)), Some(channel(0)));
        assert_eq!(questions.take_due(at(89)), None);
        assert_eq!(questions.take_due(at(90)), Some(channel(1)));
        assert_eq!((questions.take_due(at(1000)), questions.next_look()), (None, None));
    }
}
