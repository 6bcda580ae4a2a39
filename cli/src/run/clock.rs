//! The time of a launcher.

use std::time::{Duration, Instant};

use modex::types::Time;

/// The launcher's clock, shared by its threads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(Instant);

impl Clock {
    /// Starts it.
    #[expect(clippy::disallowed_methods, reason = "the launcher's only clock")]
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    /// Time since the start.
    pub(super) fn now(self) -> Time {
        Time::ZERO + self.0.elapsed()
    }

    /// This duration before now, or the clock's start if that is later.
    pub(super) fn ago(self, age: Duration) -> Time {
        Time::ZERO + self.now().since(Time::ZERO + age)
    }
}
