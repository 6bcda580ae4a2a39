use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

use crate::types::Time;

/// The monotonic clock of one loop. The cores get its readings as arguments.
#[derive(Clone, Copy, Debug)]
pub(in crate::runtime) struct Clock {
    start: Instant,
}

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "the one place where the product reads a clock")]
    pub(in crate::runtime) fn start() -> Self {
        Self { start: Instant::now() }
    }

    pub(in crate::runtime) fn now(self) -> Time {
        Time::ZERO + self.start.elapsed()
    }

    /// How long until `deadline`; `None` for no deadline.
    pub(in crate::runtime) fn until(self, deadline: Option<Time>) -> Option<Duration> {
        deadline.map(|deadline| deadline.since(self.now()))
    }

    /// The same moment on the operating system's clock, for waiting primitives that take one.
    pub(in crate::runtime) fn instant_of(self, deadline: Time) -> Option<Instant> {
        self.start.checked_add(Duration::from_nanos(deadline.as_nanos()))
    }
}

/// A time that several waits share.
#[derive(Clone, Copy, Debug)]
pub struct SharedTime {
    clock: Clock,
    end: Time,
}

impl SharedTime {
    /// Begins now.
    #[must_use]
    pub fn begin(time: Duration) -> Self {
        let clock = Clock::start();
        Self { clock, end: clock.now() + time }
    }

    /// The time that is left.
    #[must_use]
    pub fn left(&self) -> Duration {
        self.end.since(self.clock.now())
    }
}

/// The clock that all processes of a node share (`CLOCK_MONOTONIC`). `None`: this system lacks it.
pub(in crate::runtime) fn node_time() -> Option<Time> {
    let since_boot = clock_gettime(ClockId::CLOCK_MONOTONIC).ok()?;
    Some(Time::ZERO + Duration::from(since_boot))
}

/// Seconds since the epoch, for people (`CLOCK_REALTIME`).
pub(in crate::runtime) fn calendar_time() -> Option<u64> {
    u64::try_from(clock_gettime(ClockId::CLOCK_REALTIME).ok()?.tv_sec()).ok()
}

/// Milliseconds for `poll` and `epoll_wait`, rounded up so that a wait never ends before its deadline and then spins.
/// A longer wait than the kernel can express is cut; the loop waits again.
pub(in crate::runtime) fn wait_ms(timeout: Option<Duration>) -> i32 {
    const FOREVER: i32 = -1;
    timeout.map_or(FOREVER, |timeout| i32::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_rounded_up_and_never_becomes_endless() {
        assert_eq!(wait_ms(None), -1);
        assert_eq!(wait_ms(Some(Duration::ZERO)), 0);
        assert_eq!(wait_ms(Some(Duration::from_nanos(1))), 1);
        assert_eq!(wait_ms(Some(Duration::from_millis(7))), 7);
        assert_eq!(wait_ms(Some(Duration::MAX)), i32::MAX);
    }
}
