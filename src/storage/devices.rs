//! The texts of block statistics and of a cgroup's limits.
//!
//! Source: the kernel's `iostats` and `cgroup-v2` documents.

use std::collections::BTreeMap;

use super::provider::{DeviceNumber, Rates};

/// Devices of a table that count.
const DEVICES_MAX: usize = 4096;

/// The kernel counts in sectors of this size, whatever the device has.
const SECTOR_BYTES: u64 = 512;

/// The work of a device since the start of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Reads.
    pub reads: Traffic,
    /// Writes.
    pub writes: Traffic,
}

/// The work of a device in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Operations.
    pub operations: u64,
    /// Bytes.
    pub bytes: u64,
}

/// The limits of a device for one direction, per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limit {
    /// Bytes.
    pub bytes: Option<f64>,
    /// Operations.
    pub operations: Option<f64>,
}

/// Reads `/proc/diskstats`.
#[must_use]
pub fn work_of_devices(table: &str) -> BTreeMap<DeviceNumber, Work> {
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().take(11).collect();
        let number = |at: usize| words.get(at)?.parse::<u64>().ok();
        let traffic = |operations: usize, sectors: usize| {
            Some(Traffic { operations: number(operations)?, bytes: number(sectors)?.checked_mul(SECTOR_BYTES)? })
        };
        let device = (u32::try_from(number(0)?).ok()?, u32::try_from(number(1)?).ok()?);
        Some((device, Work { reads: traffic(3, 5)?, writes: traffic(7, 9)? }))
    };
    table.lines().filter_map(row).take(DEVICES_MAX).collect()
}

/// The limits of a device for reads and writes, from the files `io.max` of a cgroup and those above it: the smallest
/// one.
#[must_use]
pub fn limits_of(device: DeviceNumber, texts: &[String]) -> [Limit; 2] {
    let name = format!("{}:{}", device.0, device.1);
    let of_device = |text: &String| {
        let line = text.lines().find_map(|line| line.strip_prefix(&name)?.strip_prefix(' '));
        line.map(str::to_owned)
    };
    let lines: Vec<String> = texts.iter().filter_map(of_device).collect();
    let least = |key: &str| {
        let words = lines.iter().flat_map(|line| line.split_whitespace());
        let limits = words.filter_map(|word| word.strip_prefix(key)?.strip_prefix('=')?.parse::<u64>().ok());
        limits.min().map(float)
    };
    [["rbps", "riops"], ["wbps", "wiops"]]
        .map(|[bytes, operations]| Limit { bytes: least(bytes), operations: least(operations) })
}

/// The path of a process's cgroup, from `/proc/self/cgroup`.
#[must_use]
pub fn path_of_cgroup(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("0::"))
}

/// The observed rates of a device. Readings that are close to each other say nothing.
#[derive(Clone, Debug, Default)]
pub struct Observation {
    /// Seconds since the start of the machine.
    at: f64,
    work: BTreeMap<DeviceNumber, Work>,
    seen: BTreeMap<DeviceNumber, [Rates; 2]>,
}

/// The shortest time of an observation.
const SECONDS_MIN: f64 = 1.0;

impl Observation {
    /// Takes another reading.
    pub fn observe(&mut self, now: f64, work: BTreeMap<DeviceNumber, Work>) {
        let seconds = now - self.at;
        if !self.work.is_empty() && seconds < SECONDS_MIN {
            return;
        }
        for (device, after) in &work {
            let Some(before) = self.work.get(device) else { continue };
            let seen = self.seen.entry(*device).or_default();
            let directions = [(before.reads, after.reads), (before.writes, after.writes)];
            for (rates, (before, after)) in seen.iter_mut().zip(directions) {
                *rates = rates.after(before, after, seconds);
            }
        }
        self.seen.retain(|device, _| work.contains_key(device));
        (self.at, self.work) = (now, work);
    }

    /// The rates of reads and writes.
    #[must_use]
    pub fn rates_of(&self, device: DeviceNumber) -> [Rates; 2] {
        self.seen.get(&device).copied().unwrap_or_default()
    }
}

impl Rates {
    /// The rates with another observation. Counters that have gone back are those of another device.
    fn after(self, before: Traffic, after: Traffic, seconds: f64) -> Self {
        let rate = |before: u64, after: u64| after.checked_sub(before).map(|done| float(done) / seconds);
        let (bytes, operations) = (rate(before.bytes, after.bytes), rate(before.operations, after.operations));
        // A device at rest shows nothing about its best.
        let most = |known: Option<f64>, seen: Option<f64>| {
            known.into_iter().chain(seen.filter(|seen| *seen > 0.0)).reduce(f64::max)
        };
        Self {
            bytes,
            bytes_max: most(self.bytes_max, bytes),
            operations,
            operations_max: most(self.operations_max, operations),
        }
    }

    /// The rates with limits in place of the most that was seen.
    pub(super) fn within(self, limit: Limit) -> Self {
        let (bytes_max, operations_max) = (limit.bytes.or(self.bytes_max), limit.operations.or(self.operations_max));
        Self { bytes_max, operations_max, ..self }
    }
}

/// The standard's type for rates and sizes.
#[expect(clippy::cast_precision_loss, reason = "the standard's type for rates and sizes")]
pub(super) fn float(number: u64) -> f64 {
    number as f64
}
