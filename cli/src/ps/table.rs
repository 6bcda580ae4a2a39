//! The list for people.

use std::collections::BTreeMap;

use comfy_table::{CellAlignment, Table, presets};
use modex::stderr_log::printable;

use super::jobs::{JobReport, RankReport, ServerReport};

/// A row for each job, and below a server's jobs a line for each operation that waits. `None`: there is no job.
pub(super) fn render(servers: &[ServerReport]) -> Option<String> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).force_no_tty().set_header(["pid", "job", "ranks", "states", "age", "waiting"]);
    let mut operations = Vec::new();
    for server in servers {
        for (index, job) in server.jobs.iter().enumerate() {
            table.add_row(row(server, job));
            let last = index + 1 == server.jobs.len();
            operations.push(server.operations.iter().flatten().filter(|_| last).collect::<Vec<_>>());
        }
    }
    if operations.is_empty() {
        return None;
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 3));
    }
    for index in [0, 2, 4] {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let text = table.trim_fmt();
    let mut lines = text.lines();
    let mut page = lines.next().map(|heading| format!("{heading}\n")).unwrap_or_default();
    for (line, operations) in lines.zip(operations) {
        page += &format!("{line}\n");
        page.extend(operations.into_iter().map(|operation| format!("  {}\n", printable(operation))));
    }
    Some(page)
}

fn row(server: &ServerReport, job: &JobReport) -> [String; 6] {
    let waiting = server.operations.as_ref().map_or_else(|| "-".to_owned(), |all| all.len().to_string());
    [
        server.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string()),
        printable(&job.name),
        job.ranks.len().to_string(),
        states(&job.ranks),
        job.age_s.map_or_else(|| "-".to_owned(), age),
        waiting,
    ]
}

/// The number of ranks in each state.
fn states(ranks: &[RankReport]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for rank in ranks {
        *counts.entry(rank.state).or_default() += 1;
    }
    let counts: Vec<_> = counts.into_iter().map(|(state, count)| format!("{count} {state}")).collect();
    if counts.is_empty() { "-".to_owned() } else { counts.join(", ") }
}

/// A time as `ps` shows it: days-hours:minutes:seconds.
fn age(seconds: u64) -> String {
    let (days, hours) = (seconds / 86_400, seconds / 3600 % 24);
    let rest = format!("{:02}:{:02}", seconds / 60 % 60, seconds % 60);
    match (days, hours) {
        (0, 0) => rest,
        (0, hours) => format!("{hours:02}:{rest}"),
        (days, hours) => format!("{days}-{hours:02}:{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(rank: u32, state: &'static str) -> RankReport {
        RankReport { rank: Some(rank), pid: 1, host: None, program: None, state, requests: None, has_ended: false }
    }

    #[test]
    fn each_job_has_a_row_and_each_operation_a_line() {
        let job = |name: &str, ranks| JobReport { name: name.to_owned(), age_s: Some(83), ranks };
        let first = vec![rank(0, "running"), rank(1, "connected"), rank(2, "connected")];
        let servers = [
            ServerReport {
                pid: Some(4711),
                name: "server.0".to_owned(),
                jobs: vec![job("first", first), job("second", Vec::new())],
                operations: Some(vec!["fence of all ranks".to_owned()]),
            },
            ServerReport { pid: None, name: "b.0".to_owned(), jobs: vec![job("odd\u{1b}", vec![])], operations: None },
        ];
        let text = render(&servers).unwrap();
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
            .collect();
        assert_eq!(lines[1], ["4711", "first", "3", "2 connected, 1 running", "01:23", "1"], "{text}");
        assert_eq!(lines[2], ["4711", "second", "0", "-", "01:23", "1"], "{text}");
        assert_eq!(lines[3], ["fence of all ranks"], "{text}");
        assert_eq!(lines[4], ["-", "odd\\u{1b}", "0", "-", "01:23", "-"], "{text}");
        assert_eq!(render(&[]), None);
    }

    #[test]
    fn ages_are_short() {
        for (seconds, expected) in [(0, "00:00"), (3599, "59:59"), (3600, "01:00:00"), (90_061, "1-01:01:01")] {
            assert_eq!(age(seconds), expected);
        }
    }
}
