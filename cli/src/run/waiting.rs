//! One text for each PMIx operation of the job that waits: how long, for which ranks, and what their processes do.

use std::fmt::Write;
use std::fs;

use modex::types::{ProcId, Rank};
use modex::usage::{ProcessStat, process_stat};
use modex::{OpenOperation, OperationKind};

use super::jobs::Jobs;
use super::rank_id::{FIRST_JOB, RankId};

/// Limit of the lines.
const LINES_MAX: usize = 16;
/// Limit of the processes that one line names.
const NAMED_MAX: usize = 8;

/// A text for each operation of the launcher's jobs. `pid_of` gives the process of a rank that runs.
pub(super) fn texts(operations: &[OpenOperation], jobs: &Jobs, pid_of: impl Fn(RankId) -> Option<u32>) -> Vec<String> {
    let more = operations.len().checked_sub(LINES_MAX).filter(|more| *more > 0);
    let more = more.map(|more| format!("{more} more operations wait"));
    operations.iter().take(LINES_MAX).map(|operation| line(operation, jobs, &pid_of)).chain(more).collect()
}

fn line(operation: &OpenOperation, jobs: &Jobs, pid_of: &impl Fn(RankId) -> Option<u32>) -> String {
    let OpenOperation { kind, participants, arrived, missing, lacking_clones, age } = operation;
    let seconds = age.as_secs_f64();
    let who = participants.iter().map(|proc| name(proc, jobs)).take(NAMED_MAX).collect::<Vec<_>>().join(", ");
    let ranks = (!missing.is_empty()).then(|| awaited(missing, jobs, pid_of));
    let clones = lacking_clones.iter().take(NAMED_MAX).map(|rank| format!("clones of {}", name(rank, jobs)));
    let more = lacking_clones.len().checked_sub(NAMED_MAX).filter(|more| *more > 0);
    let all: Vec<String> =
        ranks.into_iter().chain(clones).chain(more.map(|more| format!("those of {more} more"))).collect();
    let awaited = if all.is_empty() { "the host".to_owned() } else { all.join(", ") };
    if let OperationKind::Get(_) = kind {
        let asker = if participants.is_empty() { "the host" } else { &who };
        return format!("{kind} by {asker}: {seconds:.1} s; waiting for {awaited}");
    }
    let more = if participants.len() > NAMED_MAX { ", ..." } else { "" };
    let local = arrived.saturating_add(missing.len());
    format!("{kind} of {who}{more}: {arrived} of {local} arrived, {seconds:.1} s; waiting for {awaited}")
}

/// The processes that an operation waits for, with the state of each.
fn awaited(missing: &[ProcId], jobs: &Jobs, pid_of: &impl Fn(RankId) -> Option<u32>) -> String {
    let state = |proc: &ProcId| {
        jobs.rank(proc)
            .map(|rank| pid_of(rank).map_or_else(|| " (ended)".to_owned(), |pid| format!(" ({})", state_of(pid))))
    };
    let named =
        missing.iter().take(NAMED_MAX).map(|proc| format!("{}{}", name(proc, jobs), state(proc).unwrap_or_default()));
    let mut named = named.collect::<Vec<_>>().join(", ");
    if let Some(more) = missing.len().checked_sub(NAMED_MAX).filter(|more| *more > 0) {
        let _ = write!(named, " and {more} more");
    }
    named
}

/// A process or job, in short if it is one of the launcher.
fn name(proc: &ProcId, jobs: &Jobs) -> String {
    match (proc.rank, jobs.number(&proc.namespace)) {
        (Rank::Process(rank), Some(job)) => RankId { job, rank }.to_string(),
        (Rank::Wildcard, Some(FIRST_JOB)) => "all ranks".to_owned(),
        (Rank::Wildcard, Some(job)) => format!("all ranks of job {job}"),
        _ => proc.to_string(),
    }
}

/// The state of a process, and the function of the kernel in which it waits (proc(5)).
fn state_of(pid: u32) -> String {
    let Some(ProcessStat { state, .. }) = process_stat(pid) else { return format!("pid {pid}, gone") };
    let place = fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap_or_default();
    match place.as_str() {
        "" | "0" => format!("pid {pid}, state {state}"),
        place => format!("pid {pid}, state {state}, in {place}"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use modex::types::Namespace;

    use super::*;
    use crate::run::plan::Plan;

    fn operation(kind: OperationKind, ranks: &[Rank], arrived: usize, missing: &[u32]) -> OpenOperation {
        let proc = |rank: Rank| ProcId { namespace: Namespace::new("job").unwrap(), rank };
        OpenOperation {
            kind,
            participants: ranks.iter().copied().map(proc).collect(),
            arrived,
            missing: missing.iter().map(|rank| proc(Rank::Process(*rank))).collect(),
            lacking_clones: Vec::new(),
            age: Duration::from_millis(4_200),
        }
    }

    #[test]
    fn a_line_says_what_waits_and_for_whom() {
        let mut plan = Plan::new(Vec::new(), false).unwrap();
        plan.namespace = Namespace::new("job").unwrap();
        let jobs = Jobs::new(&plan);
        let key = modex::types::Key::from_static("address");
        for (operation, expected) in [
            (
                operation(OperationKind::Fence, &[Rank::Wildcard], 2, &[1]),
                "fence of all ranks: 2 of 3 arrived, 4.2 s; waiting for rank 1 (ended)",
            ),
            (
                operation(OperationKind::Connect, &[Rank::Process(0), Rank::Process(2)], 2, &[]),
                "connect of rank 0, rank 2: 2 of 2 arrived, 4.2 s; waiting for the host",
            ),
            (
                operation(OperationKind::Get(Some(key)), &[Rank::Process(0)], 1, &[3]),
                "Get of \"address\" by rank 0: 4.2 s; waiting for rank 3 (ended)",
            ),
            (
                OpenOperation {
                    lacking_clones: vec![ProcId::new(plan.namespace.clone(), 0)],
                    ..operation(OperationKind::Fence, &[Rank::Wildcard], 2, &[])
                },
                "fence of all ranks: 2 of 2 arrived, 4.2 s; waiting for clones of rank 0",
            ),
        ] {
            assert_eq!(texts(&[operation], &jobs, |_| None), [expected]);
        }
        let many: Vec<u32> = (0..100).collect();
        let all = vec![operation(OperationKind::Fence, &[Rank::Wildcard], 0, &many); 20];
        let texts = texts(&all, &jobs, |_| None);
        assert_eq!(texts.len(), LINES_MAX + 1);
        assert!(texts[0].ends_with("rank 7 (ended) and 92 more"), "{texts:?}");
        assert_eq!(texts[LINES_MAX], "4 more operations wait");
    }

    #[test]
    fn the_state_of_a_process_is_shown() {
        assert!(state_of(std::process::id()).starts_with(&format!("pid {}, state ", std::process::id())));
        assert_eq!(state_of(u32::MAX), format!("pid {}, gone", u32::MAX));
    }
}
