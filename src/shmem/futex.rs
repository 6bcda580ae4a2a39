//! Waiting for, and announcing, a change of a segment's generation.
//!
//! The word is shared between processes, so the futex is not a private one. Waiting works on a read-only mapping.

use std::num::NonZeroU32;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use rustix::io::Errno;
use rustix::thread::futex::{self, Flags, Timespec};

use super::sync::memory::AtomicU32;

/// Wakes all waiters on `word`.
pub(super) fn wake_all(word: &AtomicU32) {
    // The kernel reads the count as a signed number. The result is ignored: a wake-up can only fail for a bad address,
    // and a reference has a valid one.
    let _ = futex::wake(word, Flags::empty(), COUNT_MAX);
}

/// Wakes the waiters on `word` in these classes, and those in all classes.
pub(super) fn wake_classes(word: &AtomicU32, classes: NonZeroU32) {
    // As above.
    let _ = futex::wake_bitset(word, Flags::empty(), COUNT_MAX, classes);
}

const COUNT_MAX: u32 = i32::MAX.unsigned_abs();

/// Outcome of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wake {
    /// The word changed, or a wake-up or a signal came: check again.
    LookAgain,
    /// The time is over.
    TimedOut,
}

/// Sleeps while `word` is `seen`, for at most `timeout`.
pub(super) fn wait(word: &AtomicU32, seen: u32, timeout: Option<Duration>) -> Wake {
    outcome(futex::wait(word, Flags::empty(), seen, timeout.map(timespec).as_ref()))
}

/// As [`wait`], undisturbed by wake-ups of other classes; at most `timeout`.
pub(super) fn wait_for_classes(word: &AtomicU32, seen: u32, classes: NonZeroU32, timeout: Duration) -> Wake {
    // The kernel's timeout for this call is absolute, on the clock since boot. The clock comes from the C library:
    // rustix searches it in memory that valgrind hides.
    let Ok(now) = clock_gettime(ClockId::CLOCK_MONOTONIC) else { return Wake::TimedOut };
    let end = Duration::from(now).saturating_add(timeout);
    outcome(futex::wait_bitset(word, Flags::empty(), seen, Some(&timespec(end)), classes))
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}

fn outcome(result: rustix::io::Result<()>) -> Wake {
    match result {
        Ok(()) | Err(Errno::AGAIN | Errno::INTR) => Wake::LookAgain,
        // The kernel refuses to let this process sleep, and would refuse the next time, too.
        Err(_) => Wake::TimedOut,
    }
}
