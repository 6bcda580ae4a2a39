//! How long the phases of the job's start took, per rank, as minimum, median and maximum.

use std::fmt::Write as _;
use std::time::Duration;

use crate::types::Time;

/// A moment in a rank's life, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The launcher asked the kernel for the process.
    Spawned,
    /// The process runs its own code, has entered Init, and its connect message has reached the server.
    Connected,
    /// The server has admitted it: what is left of Init happens in the process itself.
    Initialized,
    /// The server has released its first fence.
    Fenced,
    /// The process has ended.
    Ended,
}

const PHASES: [(Phase, &str); 4] = [
    (Phase::Connected, "spawn to main and connect"),
    (Phase::Initialized, "connect to Init granted"),
    (Phase::Fenced, "Init to first fence done"),
    (Phase::Ended, "first fence to exit"),
];

/// The moments of every rank.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    ranks: Vec<[Option<Time>; 5]>,
}

impl Timeline {
    /// Of a job with this many ranks.
    pub(super) fn new(rank_count: usize) -> Self {
        Self { ranks: vec![[None; 5]; rank_count] }
    }

    /// Notes a moment; the first of its kind counts.
    pub(super) fn mark(&mut self, rank: u32, phase: Phase, now: Time) {
        let moments = usize::try_from(rank).ok().and_then(|rank| self.ranks.get_mut(rank));
        if let Some(moment) = moments.and_then(|moments| moments.get_mut(phase as usize)) {
            moment.get_or_insert(now);
        }
    }

    /// The table for people.
    pub(super) fn table(&self) -> String {
        let mut table = format!("{:<26}{:>12}{:>12}{:>12}{:>8}\n", "phase (ms)", "min", "median", "max", "ranks");
        for (before, (phase, name)) in PHASES.iter().enumerate() {
            let mut spans: Vec<Duration> = self
                .ranks
                .iter()
                .filter_map(|moments| Some((*moments.get(*phase as usize)?)?.since((*moments.get(before)?)?)))
                .collect();
            push_row(&mut table, name, &mut spans);
        }
        let mut whole: Vec<Duration> = self
            .ranks
            .iter()
            .filter_map(|moments| {
                let [spawned, .., ended] = moments;
                Some((*ended)?.since((*spawned)?))
            })
            .collect();
        push_row(&mut table, "spawn to exit", &mut whole);
        table
    }
}

fn push_row(table: &mut String, name: &str, spans: &mut [Duration]) {
    spans.sort_unstable();
    let cell = |span: Option<&Duration>| span.map_or("-".to_owned(), |s| format!("{:.3}", s.as_secs_f64() * 1e3));
    let (least, middle, most) = (cell(spans.first()), cell(spans.get(spans.len() / 2)), cell(spans.last()));
    // Writing to a String can't fail.
    let _ = writeln!(table, "{name:<26}{least:>12}{middle:>12}{most:>12}{:>8}", spans.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Time {
        Time::ZERO + Duration::from_millis(milliseconds)
    }

    #[test]
    fn each_phase_is_counted_from_the_one_before() {
        let mut timeline = Timeline::new(3);
        for (rank, late) in [(0, 0), (1, 2), (2, 7)] {
            timeline.mark(rank, Phase::Spawned, at(0));
            timeline.mark(rank, Phase::Connected, at(1 + late));
            timeline.mark(rank, Phase::Initialized, at(4 + late));
        }
        timeline.mark(0, Phase::Connected, at(50));
        let table = timeline.table();
        let row: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(row, ["spawn", "to", "main", "and", "connect", "1.000", "3.000", "8.000", "3"]);
        let row: Vec<&str> = table.lines().nth(2).unwrap().split_whitespace().rev().collect();
        assert_eq!(row[..4], ["3", "3.000", "3.000", "3.000"]);
    }

    #[test]
    fn a_phase_nobody_reached_has_no_figures() {
        let timeline = Timeline::new(1);
        assert!(timeline.table().lines().skip(1).all(|row| row.trim_end().ends_with('0') && row.contains('-')));
    }
}
