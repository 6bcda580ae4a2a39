//! The beginning of each line of the ranks' output: its time (`--timestamp`) and its source (`--tag-output`).

use std::borrow::Cow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::super::universal_time::universal_time;
use super::children::Channel;
use super::rank_id::RankId;

/// The user's request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LineMarks {
    pub(super) has_time: bool,
    pub(super) has_tag: bool,
}

/// The beginning of the lines of one stream.
#[derive(Debug)]
pub(super) struct LinePrefix {
    has_time: bool,
    tag: String,
}

impl LinePrefix {
    /// The beginning for this rank's lines: `2026-10-07T10:34:56.789012Z [rank,channel] `, or `[job:rank,channel] `
    /// for a spawned job.
    pub(super) fn new(marks: LineMarks, rank: RankId, channel: Channel) -> Self {
        Self::of_source(marks, &rank.tag(), channel)
    }

    /// The same for a source that need not be a rank.
    pub(super) fn of_source(marks: LineMarks, source: &str, channel: Channel) -> Self {
        let tag = if marks.has_tag { format!("[{source},{}] ", channel.name()) } else { String::new() };
        Self { has_time: marks.has_time, tag }
    }

    /// The bytes for lines that end now.
    pub(super) fn bytes(&self) -> Cow<'_, [u8]> {
        self.bytes_at(since_epoch())
    }

    /// The bytes for lines of this time since 1970.
    pub(super) fn bytes_at(&self, since_epoch: Duration) -> Cow<'_, [u8]> {
        if self.has_time {
            format!("{} {}", universal_time(since_epoch), self.tag).into_bytes().into()
        } else {
            self.tag.as_bytes().into()
        }
    }
}

/// The present, since 1970.
#[expect(clippy::disallowed_methods, reason = "lines, logs and records carry the wall-clock time")]
pub(super) fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_stands_before_the_tag() {
        let bytes = |has_time, has_tag| {
            let prefix = LinePrefix::new(LineMarks { has_time, has_tag }, RankId { job: 0, rank: 3 }, Channel::Error);
            String::from_utf8(prefix.bytes().into_owned()).unwrap()
        };
        assert_eq!((bytes(false, false).as_str(), bytes(false, true).as_str()), ("", "[3,stderr] "));
        let both = bytes(true, true);
        assert_eq!((both.get(26..), both.len()), (Some("Z [3,stderr] "), 39));
        assert_eq!(bytes(true, false).len(), 28);
    }
}
