//! The use of processor, memory and files by processes of this machine, as `/proc` shows it (proc(5)).

use std::collections::BTreeMap;
use std::time::Instant;

use modex::usage::{process_bytes, process_stat, seconds_since_boot, ticks_per_second};
use nix::unistd::{SysconfVar, sysconf};

/// The use by one process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Usage {
    /// The letter of its state.
    pub(super) state: char,
    /// Share of one processor.
    pub(super) cpu_percent: Option<f64>,
    pub(super) rss_bytes: u64,
    /// Bytes that it has read and written; `None` if this user may not know.
    pub(super) bytes: Option<(u64, u64)>,
}

/// Measures processes at several times.
#[derive(Debug)]
pub(super) struct Meter {
    ticks_per_second: f64,
    page_bytes: u64,
    /// For each process and its start: the processor time in ticks, and when it was read.
    last: BTreeMap<(u32, u64), (u64, Instant)>,
    next: BTreeMap<(u32, u64), (u64, Instant)>,
}

impl Meter {
    pub(super) fn new() -> Self {
        let variable = |variable| sysconf(variable).ok().flatten();
        Self {
            ticks_per_second: ticks_per_second() as f64,
            page_bytes: variable(SysconfVar::PAGE_SIZE).and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(4096),
            last: BTreeMap::new(),
            next: BTreeMap::new(),
        }
    }

    /// Begins a new round. Processes that were not measured in the last round are forgotten.
    pub(super) fn begin(&mut self) {
        self.last = std::mem::take(&mut self.next);
    }

    /// Measures a process; `None` if there is no such process.
    pub(super) fn measure(&mut self, pid: u32, now: Instant) -> Option<Usage> {
        let stat = process_stat(pid)?;
        let id = (pid, stat.started);
        let share = match self.last.get(&id) {
            Some((busy, at)) => self.share(stat.busy.saturating_sub(*busy), now.duration_since(*at).as_secs_f64()),
            None => seconds_since_boot()
                .and_then(|uptime| self.share(stat.busy, uptime - stat.started as f64 / self.ticks_per_second)),
        };
        self.next.insert(id, (stat.busy, now));
        Some(Usage {
            state: stat.state,
            cpu_percent: share,
            rss_bytes: stat.rss_pages.saturating_mul(self.page_bytes),
            bytes: process_bytes(pid),
        })
    }

    /// The share of one processor in percent.
    fn share(&self, ticks: u64, seconds: f64) -> Option<f64> {
        (seconds > 0.0).then(|| 100.0 * ticks as f64 / self.ticks_per_second / seconds)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_share_of_this_process_is_measured_between_two_rounds() {
        let mut meter = Meter::new();
        let now = crate::top::now();
        let first = meter.measure(std::process::id(), now).unwrap();
        assert!(first.rss_bytes > 0 && first.bytes.is_some() && first.cpu_percent.is_some(), "{first:?}");
        let key = *meter.next.keys().next().unwrap();
        meter.begin();
        // The test may be as busy as it likes: the time between the rounds is long.
        let busy = process_stat(key.0).unwrap().busy;
        meter.last.insert(key, (busy, now));
        let later = meter.measure(key.0, now + Duration::from_secs(1_000_000)).unwrap();
        assert!(later.cpu_percent.is_some_and(|share| share < 1.0), "{later:?}");
        meter.ticks_per_second = 100.0;
        assert_eq!(meter.share(50, 1.0), Some(50.0));
        assert_eq!((meter.share(1, 0.0), meter.measure(u32::MAX, now)), (None, None));
    }
}
