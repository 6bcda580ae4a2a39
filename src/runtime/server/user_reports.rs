//! Lines of the log that processes of any user can cause.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;

use crate::types::Time;

/// Lines of the log about processes of other users: refused connections, for example. Everybody can cause them, so each
/// user has a number of them for a time, and the others are only counted.
#[derive(Debug, Default)]
pub(super) struct UserReports {
    of_users: BTreeMap<Option<u32>, OfUser>,
}

/// The lines about one user.
#[derive(Debug)]
struct OfUser {
    /// The end of the time.
    end: Time,
    lines_left: u32,
    omitted: u64,
}

impl UserReports {
    /// Counts a line about a process of a user; `None`: unknown. Returns whether it is written, after a line about the
    /// omitted ones.
    pub(super) fn is_due(&mut self, user: Option<u32>, now: Time) -> bool {
        let Some(omitted) = self.count(user, now) else { return false };
        if omitted > 0 {
            tracing::warn!(uid = user, omitted, "further warnings about processes of this user were left out");
        }
        true
    }

    /// The number of omitted lines before this one; `None` if this one is omitted, too.
    fn count(&mut self, user: Option<u32>, now: Time) -> Option<u64> {
        if self.of_users.len() >= USERS_MAX {
            self.of_users.retain(|_, reports| now < reports.end);
        }
        let begin = || OfUser { end: now + REPORTS_TIME, lines_left: LINES_MAX, omitted: 0 };
        let reports = self.of_users.entry(user).or_insert_with(begin);
        if now >= reports.end {
            *reports = OfUser { omitted: reports.omitted, ..begin() };
        }
        match reports.lines_left.checked_sub(1) {
            Some(left) => {
                reports.lines_left = left;
                Some(std::mem::take(&mut reports.omitted))
            }
            None => {
                reports.omitted = reports.omitted.saturating_add(1);
                None
            }
        }
    }
}

/// A text of a peer for the log, without its further part if it is long.
pub(super) fn shortened(text: &impl Display) -> String {
    let text = text.to_string();
    match text.char_indices().nth(TEXT_CHARS_MAX) {
        Some((end, _)) => text.get(..end).unwrap_or_default().to_owned() + " ...",
        None => text,
    }
}

/// Lines of the log about one user in [`REPORTS_TIME`].
const LINES_MAX: u32 = 16;
const REPORTS_TIME: Duration = Duration::from_secs(10);
/// Users whose omitted lines are counted beyond that time.
const USERS_MAX: usize = 1024;
/// The part of a text that is shown.
const TEXT_CHARS_MAX: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: one user wrote 163 MB into the log of a server in five seconds.
    #[test]
    fn refused_connections_do_not_fill_the_log() {
        let mut reports = UserReports::default();
        let start = Time::from_nanos(7);
        let lines = |reports: &mut UserReports, now: Time| -> Vec<u64> {
            (0..1016).filter_map(|_| reports.count(Some(1), now)).collect()
        };
        assert_eq!(lines(&mut reports, start), [0; LINES_MAX as usize]);
        assert_eq!(reports.count(Some(2), start), Some(0), "another user");
        let later = lines(&mut reports, start + REPORTS_TIME);
        assert_eq!((later.len(), later.first(), later.get(1)), (LINES_MAX as usize, Some(&1000), Some(&0)));
        assert_eq!(shortened(&"x".repeat(100_000)).len(), TEXT_CHARS_MAX + 4);
        assert_eq!(shortened(&"short"), "short");
    }
}
