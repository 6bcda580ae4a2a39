//! The memory of the ranks and of the launcher, for queries.
//!
//! Source: PMIx Standard, `PMIX_QUERY_MEMORY_USAGE`.

use std::time::Duration;

use modex::keys;
use modex::types::{Info, Key, ProcId, Time, Value};
use modex::usage::resident_megabytes;

/// Age up to which figures answer further queries. A process that asks without end then does not keep the launcher busy.
const AGE_MAX: Duration = Duration::from_secs(1);

/// The resident memory of processes at one moment.
#[derive(Clone, Debug)]
pub(super) struct MemoryUsage {
    taken: Time,
    ranks: Vec<RankMemory>,
    /// The launcher's memory, in megabytes.
    pub(super) launcher: Option<f32>,
}

#[derive(Clone, Debug, PartialEq)]
struct RankMemory {
    proc: ProcId,
    pid: u32,
    megabytes: f32,
}

impl MemoryUsage {
    /// Measures these processes, and the launcher.
    pub(super) fn take(now: Time, ranks: impl Iterator<Item = (ProcId, u32)>) -> Self {
        let of_rank = |(proc, pid)| Some(RankMemory { proc, pid, megabytes: resident_megabytes(pid)? });
        let launcher = resident_megabytes(std::process::id());
        Self { taken: now, ranks: ranks.filter_map(of_rank).collect(), launcher }
    }

    /// Whether the figures may still be used.
    pub(super) fn is_fresh(&self, now: Time) -> bool {
        now.since(self.taken) < AGE_MAX
    }

    /// The mean of the ranks that `includes` names; `None` without such a rank.
    #[expect(clippy::cast_precision_loss, reason = "a mean of fewer ranks than 2^24")]
    pub(super) fn mean(&self, includes: impl Fn(&ProcId) -> bool) -> Option<f32> {
        let of: Vec<f32> = self.ranks.iter().filter(|rank| includes(&rank.proc)).map(|rank| rank.megabytes).collect();
        (!of.is_empty()).then(|| of.iter().sum::<f32>() / of.len() as f32)
    }

    /// An array with a sample of each rank that `includes` names; `None` without such a rank.
    pub(super) fn samples(&self, includes: impl Fn(&ProcId) -> bool) -> Option<Value> {
        let sample = |rank: &RankMemory| {
            let figures = vec![
                info(keys::PROCID.name(), rank.proc.clone()),
                info(keys::PROC_PID.name(), Value::Pid(rank.pid)),
                info(keys::PROC_RSS.name(), Value::Float(rank.megabytes)),
            ];
            info(keys::PROC_RESOURCE_USAGE.name(), Value::info_array(figures))
        };
        let samples: Vec<Info> = self.ranks.iter().filter(|rank| includes(&rank.proc)).map(sample).collect();
        (!samples.is_empty()).then(|| Value::info_array(samples))
    }
}

/// The array with the mean alone.
pub(super) fn mean_alone(mean: f32) -> Value {
    Value::info_array(vec![info(keys::CLIENT_AVG_MEMORY.name(), Value::Float(mean))])
}

fn info(key: &'static str, value: impl Into<Value>) -> Info {
    Info::new(Key::from_static(key), value)
}

#[cfg(test)]
mod tests {
    use modex::types::Namespace;

    use super::*;

    fn proc(rank: u32) -> ProcId {
        ProcId::new(Namespace::new("job").unwrap(), rank)
    }

    #[test]
    fn a_mean_is_that_of_the_named_ranks() {
        let rank = |rank: u32, megabytes| RankMemory { proc: proc(rank), pid: 7, megabytes };
        let ranks = vec![rank(0, 1.0), rank(1, 3.0), rank(2, 8.0)];
        let usage = MemoryUsage { taken: Time::ZERO, ranks, launcher: None };
        assert_eq!(usage.mean(|_| true), Some(4.0));
        assert_eq!(usage.mean(|of| *of != proc(2)), Some(2.0));
        assert_eq!((usage.mean(|_| false), usage.samples(|_| false)), (None, None));
    }

    #[test]
    fn figures_are_measured_and_used_for_a_while() {
        let own = std::process::id();
        let usage = MemoryUsage::take(Time::ZERO, [(proc(0), own), (proc(1), u32::MAX)].into_iter());
        assert_eq!(usage.ranks.len(), 1, "a process that has ended has no memory");
        assert!(usage.launcher.is_some_and(|megabytes| megabytes > 0.0));
        let later = Time::ZERO + AGE_MAX;
        assert_eq!([Time::ZERO, later].map(|now| usage.is_fresh(now)), [true, false]);
    }
}
