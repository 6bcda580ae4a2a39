//! How long each phase took on each rank, collected through the modex itself.

use std::fmt::Write as _;
use std::time::Duration;

use crate::api::{Client, GetOptions};
use crate::types::{Namespace, ProcId, Scope};

/// A part of the demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Init,
    Put,
    Commit,
    Fence,
    Read,
    Barrier,
}

/// Every phase with its name and the key its time is put under.
const PHASES: [(Phase, &str, &str); 6] = [
    (Phase::Init, "init", "demo.ns.init"),
    (Phase::Put, "put", "demo.ns.put"),
    (Phase::Commit, "commit", "demo.ns.commit"),
    (Phase::Fence, "fence", "demo.ns.fence"),
    (Phase::Read, "read all peers", "demo.ns.read"),
    (Phase::Barrier, "barrier", "demo.ns.barrier"),
];

/// Times of one rank; rounds add up.
#[derive(Debug, Default)]
pub(super) struct PhaseTimes {
    spent: [Duration; 6],
}

type Failure = Box<dyn std::error::Error>;

impl PhaseTimes {
    /// Adds to a phase.
    pub(super) fn add(&mut self, phase: Phase, time: Duration) {
        if let Some(spent) = self.spent.get_mut(phase as usize) {
            *spent += time;
        }
    }

    /// Puts the times, in nanoseconds, for rank 0 to read.
    pub(super) fn put(&self, client: &Client) -> Result<(), Failure> {
        for ((_, _, key), spent) in PHASES.iter().zip(self.spent) {
            client.put(Scope::Global, key, u64::try_from(spent.as_nanos())?)?;
        }
        Ok(())
    }
}

/// The table over all ranks, in microseconds.
pub(super) fn table(client: &Client, namespace: &Namespace, rank_count: u32) -> Result<String, Failure> {
    let mut table = format!("{:<16}{:>12}{:>12}{:>12}", "phase (us)", "min", "median", "max");
    for (_, name, key) in PHASES {
        let mut times = Vec::new();
        for rank in 0..rank_count {
            let proc = ProcId::new(namespace.clone(), rank);
            let value = client.get_value(&proc, key, &GetOptions::new())?.into_value()?;
            times.push(value.as_u64().ok_or_else(|| format!("{key} of {proc} is no number"))?);
        }
        times.sort_unstable();
        if times.last() == Some(&0) {
            // A phase that no rank went through, as the barrier of a single round.
            continue;
        }
        let cell = |time: Option<&u64>| time.map_or("-".to_owned(), |t| format!("{}.{:03}", t / 1000, t % 1000));
        let (least, middle, most) = (cell(times.first()), cell(times.get(times.len() / 2)), cell(times.last()));
        write!(table, "\n{name:<16}{least:>12}{middle:>12}{most:>12}")?;
    }
    Ok(table)
}
