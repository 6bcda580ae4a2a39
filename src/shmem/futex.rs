//! Waiting for, and announcing, a change of a segment's generation.
//!
//! The word is shared between processes, so the futex is not a private one. Waiting works on a read-only mapping.

use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::futex::{self, Flags, Timespec};

use super::sync::memory::AtomicU32;

/// Wakes everybody who waits on `word`.
pub(super) fn wake_all(word: &AtomicU32) {
    // The kernel takes the count as a signed number. The result is of no use: a wake-up can only fail for a bad
    // address, and a reference is none.
    let _ = futex::wake(word, Flags::empty(), i32::MAX.unsigned_abs());
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wake {
    /// The word changed, or somebody woke us, or a signal came: look again.
    LookAgain,
    /// The time is over.
    TimedOut,
}

/// Sleeps while `word` is `seen`, for at most `timeout`.
pub(super) fn wait(word: &AtomicU32, seen: u32, timeout: Option<Duration>) -> Wake {
    let timeout = timeout.map(|duration| Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    });
    match futex::wait(word, Flags::empty(), seen, timeout.as_ref()) {
        Err(Errno::TIMEDOUT) => Wake::TimedOut,
        _ => Wake::LookAgain,
    }
}
