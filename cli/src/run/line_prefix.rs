//! The beginning of each line of the ranks' output: its time (`--timestamp`) and its source (`--tag-output`).

use std::borrow::Cow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

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
        let name = match channel {
            Channel::Out => "stdout",
            Channel::Error => "stderr",
        };
        let tag = if marks.has_tag { format!("[{source},{name}] ") } else { String::new() };
        Self { has_time: marks.has_time, tag }
    }

    /// The bytes for lines that end now.
    #[expect(clippy::disallowed_methods, reason = "the user asked for the wall-clock time")]
    pub(super) fn bytes(&self) -> Cow<'_, [u8]> {
        self.bytes_at(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
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

/// A time since 1970 as RFC 3339 has it, in UTC with microseconds.
pub(crate) fn universal_time(since_epoch: Duration) -> String {
    let seconds = since_epoch.as_secs();
    let (days, second) = (seconds / DAY_SECONDS, seconds % DAY_SECONDS);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:06}Z", since_epoch.subsec_micros())
}

const DAY_SECONDS: u64 = 86_400;
/// Days of 400 years. Their calendar repeats.
const ERA_DAYS: u64 = 146_097;
/// Days from the first of March of the year 0 to the first of January 1970.
const DAYS_BEFORE_EPOCH: u64 = 719_468;

/// Year, month and day of the day with this number since 1970. Years are counted from March here, so that the leap day
/// is the last.
const fn date(days: u64) -> (u64, u64, u64) {
    let days = days + DAYS_BEFORE_EPOCH;
    let (era, day_of_era) = (days / ERA_DAYS, days % ERA_DAYS);
    let leap_days = day_of_era / 1460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // The months from March have 153 days in each five.
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + if month <= 2 { 1 } else { 0 }, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_follow_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_399, "2000-02-28T23:59:59.000000Z"),
            (951_868_799, "2000-02-29T23:59:59.000000Z"),
            (951_868_800, "2000-03-01T00:00:00.000000Z"),
            (1_709_251_199, "2024-02-29T23:59:59.000000Z"),
            (1_735_689_599, "2024-12-31T23:59:59.000000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000000Z"),
        ] {
            assert_eq!(universal_time(Duration::from_secs(seconds)), expected);
        }
        assert!(universal_time(Duration::from_micros(1_000_012)).ends_with("00:00:01.000012Z"));
        let mut next = (1970, 1, 1);
        for days in 0..100_000 {
            assert_eq!(date(days), next);
            next = day_after(next);
        }
    }

    /// The calendar in the plain way.
    fn day_after((year, month, day): (u64, u64, u64)) -> (u64, u64, u64) {
        let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let last = match month {
            2 if is_leap => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        match (month, day == last) {
            (12, true) => (year + 1, 1, 1),
            (_, true) => (year, month + 1, 1),
            (_, false) => (year, month, day + 1),
        }
    }

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
