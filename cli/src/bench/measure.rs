//! Clocks and batches.

use std::hint::black_box;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// Shortest time between two readings of the clock. A reading costs about 30 ns, which is under one per cent of it.
const BATCH_TIME_MIN: Duration = Duration::from_micros(5);

/// Runs before the batch is sized, so that caches and branch predictors are as they will be.
const WARM_UP_CALLS: u32 = 1000;

/// Samples of one operation under the same conditions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Series {
    /// The name of the figure.
    pub(super) name: String,
    /// The conditions.
    pub(super) params: Vec<(String, u64)>,
    /// The unit of the samples.
    pub(super) unit: Unit,
    /// The samples, in the order of measurement.
    pub(super) samples: Vec<f64>,
}

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Unit {
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// Microseconds.
    #[serde(rename = "us")]
    Microseconds,
    /// Milliseconds.
    #[serde(rename = "ms")]
    Milliseconds,
    /// Bytes.
    #[serde(rename = "B")]
    Bytes,
    /// Hundredths.
    #[serde(rename = "%")]
    Percent,
}

impl Series {
    /// An empty series.
    pub(super) fn new(name: &str, unit: Unit) -> Self {
        Self { name: name.to_owned(), params: Vec::new(), unit, samples: Vec::new() }
    }

    /// Adds a condition.
    pub(super) fn param(mut self, name: &str, value: u64) -> Self {
        self.params.push((name.to_owned(), value));
        self
    }

    /// Adds samples.
    pub(super) fn with(mut self, samples: Vec<f64>) -> Self {
        self.samples.extend(samples);
        self
    }

    /// Adds the duration of one operation.
    pub(super) fn add(&mut self, time: Duration) {
        self.samples.push(self.unit.of(time));
    }
}

impl Unit {
    /// A duration in this unit; bytes and shares have none.
    pub(super) fn of(self, time: Duration) -> f64 {
        let seconds = time.as_secs_f64();
        match self {
            Self::Nanoseconds => seconds * 1e9,
            Self::Microseconds => seconds * 1e6,
            Self::Milliseconds => seconds * 1e3,
            Self::Bytes | Self::Percent => 0.0,
        }
    }

    /// The unit's symbol.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Nanoseconds => "ns",
            Self::Microseconds => "us",
            Self::Milliseconds => "ms",
            Self::Bytes => "B",
            Self::Percent => "%",
        }
    }
}

/// The time a call took, and its result.
#[expect(clippy::disallowed_methods, reason = "measuring time is what this command does")]
pub(super) fn timed<T>(call: impl FnOnce() -> T) -> (Duration, T) {
    let begun = Instant::now();
    let result = call();
    (begun.elapsed(), result)
}

/// Mean times of one call in nanoseconds, each over a batch that is long enough for the clock.
pub(super) fn batched<T>(sample_count: usize, mut call: impl FnMut() -> T) -> Vec<f64> {
    let mut call = || drop(black_box(call()));
    let batch = batch_size(&mut call);
    let sample = |_| {
        let (time, ()) = timed(|| (0..batch).for_each(|_| call()));
        Unit::Nanoseconds.of(time) / f64::from(batch)
    };
    (0..sample_count).map(sample).collect()
}

fn batch_size(call: &mut impl FnMut()) -> u32 {
    (0..WARM_UP_CALLS).for_each(|_| call());
    let mut batch = 1_u32;
    while timed(|| (0..batch).for_each(|_| call())).0 < BATCH_TIME_MIN {
        batch = batch.saturating_mul(2);
    }
    batch
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_covers_calls_and_the_number_of_samples_is_the_one_asked_for() {
        let mut calls = 0_u64;
        let samples = batched(7, || calls += 1);
        assert_eq!(samples.len(), 7);
        assert!(calls > u64::from(WARM_UP_CALLS) + 7);
    }

    #[test]
    fn units_agree_with_each_other() {
        let time = Duration::from_micros(1500);
        let all = [Unit::Nanoseconds, Unit::Microseconds, Unit::Milliseconds].map(|unit| unit.of(time));
        let expected = [1_500_000.0, 1500.0, 1.5];
        assert!(all.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-6), "{all:?}");
    }
}
