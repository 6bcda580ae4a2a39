//! The duration of each phase on each rank, collected through the modex itself.

use std::time::Duration;

use modex::types::{Namespace, ProcId, Scope, Value};
use modex::{Client, GetOptions};

use crate::time_table::time_table;

/// A part of the demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DemoPhase {
    Init,
    Put,
    Commit,
    Fence,
    Read,
    Barrier,
}

/// Every phase with its name.
const PHASES: [(DemoPhase, &str); 6] = [
    (DemoPhase::Init, "init"),
    (DemoPhase::Put, "put"),
    (DemoPhase::Commit, "commit"),
    (DemoPhase::Fence, "fence"),
    (DemoPhase::Read, "read all peers"),
    (DemoPhase::Barrier, "barrier"),
];

/// The key of a rank's times: nanoseconds, in the order of the phases, eight bytes each.
const KEY: &str = "demo.ns";

/// Times of one rank, summed over the rounds.
#[derive(Debug, Default)]
pub(super) struct PhaseTimes {
    spent: [Duration; 6],
}

type Failure = Box<dyn std::error::Error>;

impl PhaseTimes {
    /// Adds to a phase.
    pub(super) fn add(&mut self, phase: DemoPhase, time: Duration) {
        if let Some(spent) = self.spent.get_mut(phase as usize) {
            *spent += time;
        }
    }

    /// Puts the times for rank 0 to read.
    pub(super) fn put(&self, client: &Client) -> Result<(), Failure> {
        let mut bytes = Vec::with_capacity(size_of::<u64>() * PHASES.len());
        for spent in self.spent {
            bytes.extend(u64::try_from(spent.as_nanos())?.to_le_bytes());
        }
        Ok(client.put(Scope::Global, KEY, Value::ByteObject(bytes))?)
    }
}

/// The table over all ranks, in microseconds.
pub(super) fn table(client: &Client, namespace: &Namespace, rank_count: u32) -> Result<String, Failure> {
    let mut times_of_phases = PHASES.map(|_| Vec::new());
    for rank in 0..rank_count {
        let proc = ProcId::new(namespace.clone(), rank);
        let found = client.get_value(&proc, KEY, &GetOptions::new())?;
        let times = found.as_bytes().and_then(|bytes| <&[[u8; 8]; 6]>::try_from(bytes.as_chunks().0).ok());
        let times = times.ok_or_else(|| format!("{KEY} of {proc} is not a list of times"))?;
        for (of_phase, time) in times_of_phases.iter_mut().zip(times) {
            of_phase.push(Duration::from_nanos(u64::from_le_bytes(*time)));
        }
    }
    // A phase that no rank went through, such as the barrier of a single round, has no row.
    let rows = PHASES.into_iter().map(|(_, name)| name).zip(times_of_phases);
    Ok(time_table("phase (us)", 1e6, rows.filter(|(_, times)| times.iter().any(|time| !time.is_zero()))))
}
