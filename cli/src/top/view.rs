//! The rows, their order, and their table.

use std::time::Instant;

use clap::ValueEnum;
use comfy_table::{CellAlignment, Table, presets};
use modex::stderr_log::printable;
use nix::unistd::gethostname;
use serde::Serialize;
use serde_json::json;
use unicode_width::UnicodeWidthChar;

use super::usage::{Meter, Usage};
use crate::printing::escaped_json;
use crate::ps::{RankReport, ServerReport};

/// The order of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Order {
    /// By job and rank
    Rank,
    /// The busiest first
    Cpu,
    /// The largest first
    Memory,
    /// Most bytes read and written first
    Io,
    /// Most PMIx requests first
    Requests,
}

/// A process of a job.
#[derive(Clone, Debug, Serialize)]
struct Row {
    server: Option<u32>,
    job: String,
    rank: Option<u32>,
    pid: u32,
    host: Option<String>,
    program: Option<String>,
    state: &'static str,
    system_state: Option<char>,
    cpu_percent: Option<f64>,
    rss_bytes: Option<u64>,
    read_bytes: Option<u64>,
    written_bytes: Option<u64>,
    requests: Option<u64>,
}

/// All rows of one moment.
#[derive(Debug)]
pub(super) struct View {
    job_count: usize,
    rows: Vec<Row>,
    /// Number of processes beyond [`ROWS_MAX`].
    omitted: usize,
    operations: Vec<String>,
}

/// Processes that are measured in one round. Each takes two files of the system.
const ROWS_MAX: usize = 16_384;
/// Operations that the screen shows.
const OPERATIONS_SHOWN_MAX: usize = 3;
/// Version of the JSON objects.
const FORMAT: u32 = 1;

impl View {
    /// Measures the processes of these jobs, or of all.
    pub(super) fn new(
        servers: &[ServerReport],
        jobs: &[String],
        order: Order,
        meter: &mut Meter,
        now: Instant,
    ) -> Self {
        let hostname = gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_default();
        let mut view = Self { job_count: 0, rows: Vec::new(), omitted: 0, operations: Vec::new() };
        meter.begin();
        for server in servers {
            let mut is_shown = jobs.is_empty();
            for job in server.jobs.iter().filter(|job| jobs.is_empty() || jobs.contains(&job.name)) {
                is_shown = true;
                view.job_count += 1;
                let room = ROWS_MAX.saturating_sub(view.rows.len());
                view.omitted = view.omitted.saturating_add(job.ranks.len().saturating_sub(room));
                for rank in job.ranks.iter().take(room) {
                    let is_here = rank.host.as_ref().is_none_or(|host| is_same_host(host, &hostname));
                    let is_measured = is_here && rank.pid != 0 && !rank.has_ended;
                    let usage = if is_measured { meter.measure(rank.pid, now) } else { None };
                    view.rows.push(Row::new(server.pid, &job.name, rank, usage));
                }
            }
            view.operations.extend(server.operations.iter().flatten().filter(|_| is_shown).cloned());
        }
        view.sort(order);
        view
    }

    pub(super) fn row_count(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn sort(&mut self, order: Order) {
        self.rows.sort_by(|a, b| (&a.job, a.rank, a.pid).cmp(&(&b.job, b.rank, b.pid)));
        match order {
            Order::Rank => {}
            Order::Cpu => self.rows.sort_by(|a, b| {
                let [a, b] = [a, b].map(|row| row.cpu_percent.unwrap_or(-1.0));
                b.total_cmp(&a)
            }),
            Order::Memory => self.rows.sort_by_key(|row| std::cmp::Reverse(row.rss_bytes)),
            Order::Io => self.rows.sort_by_key(|row| {
                std::cmp::Reverse(row.read_bytes.zip(row.written_bytes).map(|(one, two)| one.saturating_add(two)))
            }),
            Order::Requests => self.rows.sort_by_key(|row| std::cmp::Reverse(row.requests)),
        }
    }

    /// A table with all rows, and a line for each operation that waits.
    pub(super) fn page(&self) -> String {
        if self.job_count == 0 {
            return NO_JOB.to_owned();
        }
        let table = lines(&self.rows);
        let operations = self.operations.iter().map(|operation| format!("  {}", printable(operation)));
        let omitted = (self.omitted > 0).then(|| format!("  {} more", counted(self.omitted, "rank")));
        table.into_iter().chain(omitted).chain(operations).map(|line| line + "\n").collect()
    }

    /// An object in one line.
    pub(super) fn json(&self) -> String {
        let Self { rows, omitted, operations, .. } = self;
        let document = json!({ "format": FORMAT, "ranks": rows, "omitted": omitted, "operations": operations });
        escaped_json(&format!("{document}\n"))
    }

    /// The lines of a screen of this size, from this row on. Without complaints nothing is known yet.
    pub(super) fn screen(
        &self,
        complaints: Option<&[String]>,
        first_row: usize,
        rows: usize,
        columns: usize,
    ) -> Vec<String> {
        let Some(complaints) = complaints else { return vec!["modex top: asking the servers".to_owned()] };
        let mut screen = vec![self.summary()];
        screen.extend(complaints.iter().map(|complaint| printable(complaint)));
        screen.extend(self.operations.iter().take(OPERATIONS_SHOWN_MAX).map(|operation| printable(operation)));
        screen.push(String::new());
        if self.job_count == 0 {
            screen.push(NO_JOB.trim_end().to_owned());
        } else {
            let room = rows.saturating_sub(screen.len() + 1);
            let last_row = first_row.saturating_add(room).min(self.rows.len());
            screen.extend(lines(self.rows.get(first_row..last_row).unwrap_or_default()));
        }
        screen.truncate(rows);
        screen.into_iter().map(|line| within(line, columns)).collect()
    }

    fn summary(&self) -> String {
        let busy: f64 = self.rows.iter().filter_map(|row| row.cpu_percent).sum();
        let memory: u64 = self.rows.iter().filter_map(|row| row.rss_bytes).fold(0, u64::saturating_add);
        format!(
            "modex top: {}, {}, {busy:.0} % CPU, {} memory, {} waiting (q ends)",
            counted(self.job_count, "job"),
            counted(self.rows.len().saturating_add(self.omitted), "rank"),
            size(memory),
            counted(self.operations.len(), "operation"),
        )
    }
}

const NO_JOB: &str = "No job of this user runs here. Start one with modex run.\n";

impl Row {
    fn new(server: Option<u32>, job: &str, rank: &RankReport, usage: Option<Usage>) -> Self {
        let bytes = usage.and_then(|usage| usage.bytes);
        Self {
            server,
            job: job.to_owned(),
            rank: rank.rank,
            pid: rank.pid,
            host: rank.host.clone(),
            program: rank.program.clone(),
            state: rank.state,
            system_state: usage.map(|usage| usage.state),
            cpu_percent: usage.and_then(|usage| usage.cpu_percent),
            rss_bytes: usage.map(|usage| usage.rss_bytes),
            read_bytes: bytes.map(|(read, _)| read),
            written_bytes: bytes.map(|(_, written)| written),
            requests: rank.requests,
        }
    }

    fn cells(&self) -> [String; 11] {
        let program = self.program.as_deref().map(|program| program.rsplit('/').next().unwrap_or(program));
        [
            if self.pid == 0 { "-".to_owned() } else { self.pid.to_string() },
            printable(&self.job),
            or_dash(self.rank.map(|rank| rank.to_string())),
            self.state.to_owned(),
            or_dash(self.system_state.map(String::from)),
            or_dash(self.cpu_percent.map(|share| format!("{share:.1}"))),
            or_dash(self.rss_bytes.map(size)),
            or_dash(self.read_bytes.map(size)),
            or_dash(self.written_bytes.map(size)),
            or_dash(self.requests.map(|requests| requests.to_string())),
            or_dash(program.map(printable)),
        ]
    }
}

/// The heading and a line for each row.
fn lines(rows: &[Row]) -> Vec<String> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).force_no_tty();
    table.set_header(["pid", "job", "rank", "state", "S", "CPU %", "memory", "read", "written", "requests", "program"]);
    table.add_rows(rows.iter().map(Row::cells));
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    for index in [0, 2, 5, 6, 7, 8, 9] {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt().lines().map(str::to_owned).collect()
}

/// The begin of a line that fits into these columns. Some characters take two.
fn within(mut line: String, columns: usize) -> String {
    let mut width = 0_usize;
    let end = line.char_indices().find_map(|(index, character)| {
        width = width.saturating_add(character.width().unwrap_or_default());
        (width > columns).then_some(index)
    });
    line.truncate(end.unwrap_or(line.len()));
    line
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Whether two names mean the same host; one may be without its domain.
fn is_same_host(one: &str, other: &str) -> bool {
    let short = |name: &'_ str| name.split('.').next().unwrap_or_default().to_owned();
    short(one) == short(other)
}

/// A number of bytes with three digits, in powers of 1024.
fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut unit = "";
    for next in ["K", "M", "G", "T", "P", "E"] {
        if value < 1000.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    if unit.is_empty() || value >= 99.95 { format!("{value:.0}{unit}") } else { format!("{value:.1}{unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ps::JobReport;

    fn rank(rank: u32, pid: u32, host: Option<&str>) -> RankReport {
        let host = host.map(str::to_owned);
        let program = Some("/bin/a\u{1b}\u{9b}".to_owned());
        RankReport {
            rank: Some(rank),
            pid,
            host,
            program,
            state: "connected",
            requests: Some(rank.into()),
            has_ended: false,
        }
    }

    fn view(order: Order) -> View {
        let pid = std::process::id();
        let ended = RankReport { has_ended: true, ..rank(3, pid, None) };
        let ranks = vec![rank(1, u32::MAX, None), rank(0, pid, None), rank(2, pid, Some("elsewhere")), ended];
        let job = |name: &str| JobReport { name: name.to_owned(), age_s: None, ranks: ranks_of(&ranks) };
        let server = ServerReport {
            pid: Some(7),
            name: "server:0".to_owned(),
            jobs: vec![job("job"), job("other")],
            operations: Some(vec!["fence of all ranks".to_owned()]),
        };
        View::new(&[server], &["job".to_owned()], order, &mut Meter::new(), crate::top::now())
    }

    fn ranks_of(ranks: &[RankReport]) -> Vec<RankReport> {
        ranks
            .iter()
            .map(|rank| RankReport { host: rank.host.clone(), program: rank.program.clone(), ..*rank })
            .collect()
    }

    #[test]
    fn processes_here_have_values_and_others_have_none() {
        let view = view(Order::Rank);
        let known: Vec<_> = view.rows.iter().map(|row| (row.rank, row.rss_bytes.is_some())).collect();
        assert_eq!(known, [(Some(0), true), (Some(1), false), (Some(2), false), (Some(3), false)]);
        let page = view.page();
        assert_eq!(page.lines().count(), 6, "{page}");
        assert!(page.ends_with("  fence of all ranks\n") && page.contains("a\\u{1b}\\u{9b}"), "{page}");
        assert!(!view.json().contains('\u{9b}'));
        let document: serde_json::Value = serde_json::from_str(&view.json()).unwrap();
        assert_eq!(
            (&document["ranks"][1]["rss_bytes"], &document["ranks"][1]["pid"]),
            (&json!(null), &json!(u32::MAX))
        );
        assert_eq!(document["operations"][0], "fence of all ranks");
    }

    #[test]
    fn rows_with_values_come_first_in_an_order_by_values() {
        for order in [Order::Cpu, Order::Memory, Order::Io] {
            let ranks: Vec<_> = view(order).rows.iter().map(|row| row.rank).collect();
            assert_eq!(ranks, [0, 1, 2, 3].map(Some), "{order:?}");
        }
    }

    #[test]
    fn most_requests_come_first_in_their_order() {
        let view = view(Order::Requests);
        let known: Vec<_> = view.rows.iter().map(|row| row.requests).collect();
        assert_eq!(known, [3, 2, 1, 0].map(Some));
        assert!(view.page().lines().next().unwrap().contains("requests"), "{}", view.page());
    }

    #[test]
    fn a_screen_has_no_more_lines_and_columns_than_the_terminal() {
        let view = view(Order::Rank);
        assert_eq!(view.screen(None, 0, 24, 80).len(), 1);
        let screen = view.screen(Some(&["no answer".to_owned()]), 1, 6, 10);
        assert_eq!(screen.len(), 6, "{screen:?}");
        assert!(screen.iter().all(|line| line.chars().count() <= 10), "{screen:?}");
        assert_eq!((screen[0].as_str(), screen[1].as_str()), ("modex top:", "no answer"));
        let nothing = View { job_count: 0, rows: Vec::new(), omitted: 0, operations: Vec::new() };
        assert!(nothing.page().starts_with("No job") && nothing.screen(Some(&[]), 0, 24, 80).len() == 3);
    }

    #[test]
    fn a_line_is_cut_by_columns_not_by_characters() {
        for (line, expected) in [("abc", "abc"), ("abcde", "abcd"), ("日本語", "日本"), ("a日本", "a日"), ("", "")]
        {
            assert_eq!(within(line.to_owned(), 4), expected);
        }
    }

    #[test]
    fn sizes_are_short() {
        for (bytes, expected) in [
            (0, "0"),
            (999, "999"),
            (1000, "1.0K"),
            (1536, "1.5K"),
            (102_400, "100K"),
            (1_048_576, "1.0M"),
            (u64::MAX, "16.0E"),
        ] {
            assert_eq!(size(bytes), expected);
        }
    }
}
