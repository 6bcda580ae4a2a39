//! `modex top`: the processes of the jobs of this user, and what they use, again and again.
//!
//! - [`servers`]: the jobs, from their servers
//! - [`usage`]: the use of processor, memory and files, from `/proc`
//! - [`view`]: rows, their order, and their table
//! - [`screen`]: the terminal

mod screen;
mod servers;
mod usage;
mod view;

use std::io::{self, IsTerminal};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use modex::stderr_log::printable;

use super::printing::print_on;
use super::{Outcome, printing};
use crate::ps::ServerReport;
use screen::{Key, Screen};
use servers::{Background, Servers};
use usage::Meter;
use view::{Order, View};

#[derive(Args, Debug)]
#[command(after_long_help = HELP)]
pub(super) struct TopOptions {
    /// Only these jobs, as `modex ps` names them
    #[arg(value_name = "JOB")]
    jobs: Vec<String>,
    /// Seconds between two tables
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    delay: Duration,
    /// End after this many tables
    #[arg(short = 'n', long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    iterations: Option<u64>,
    /// Print one table and end, as with --batch -n 1
    #[arg(long, conflicts_with = "iterations")]
    once: bool,
    /// Print one table after the other, without control of the terminal
    #[arg(short, long)]
    batch: bool,
    /// Order of the rows
    #[arg(long, value_name = "COLUMN", default_value = "rank")]
    sort: Order,
    /// Print each table as a JSON object in one line
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
Examples:
  modex top
  modex top --sort cpu
  modex top --once modex-4711
  modex top -d 5 -n 12 > usage.txt
  modex top --json -n 1 | jq '.ranks[].cpu_percent'

Each row is a process of a job: its state for PMIx and for the system (S, as ps shows it), its share of one
processor since the last table, its memory (RSS), the bytes that it has read and written through system
calls, and the PMIx requests that it has sent to its server. A Get of shared data sends none. The first table has the share since the start of the process. Values of a process on another host,
and bytes of a process of another user, are not known.

Keys:
  q, Ctrl-C    End
  r, c, m, i, p
               Order by rank, processor, memory, bytes, or PMIx requests
  j, k, arrows, space
               Move through the rows

If standard output or input is no terminal, one table follows the other.

JSON object (--json): format (1), and ranks[] of server (its process or null), job, rank, pid, host, program,
state, system_state, cpu_percent, rss_bytes, read_bytes, written_bytes and requests; omitted, the number of further processes;
operations[], a text for each operation that waits.

Exit status:
  0  Done
  1  A server can't be asked, in the last table; or the terminal can't be used
  2  The command line makes no sense

Environment:
  TERM       With dumb, one table follows the other
  TMPDIR, TEMP, TMP, PMIX_SERVER_TMPDIR, PMIX_SYSTEM_TMPDIR
      Directories in which servers are searched. Those of this user's other processes are
      searched, too";

fn seconds(text: &str) -> Result<Duration, String> {
    let number: Result<f64, _> = text.parse();
    let duration = number.ok().and_then(|number| Duration::try_from_secs_f64(number).ok());
    duration.filter(|time| (DELAY_MIN..=DELAY_MAX).contains(time)).ok_or_else(|| "give 0.1 to 3600 seconds".to_owned())
}

const DELAY_MIN: Duration = Duration::from_millis(100);
const DELAY_MAX: Duration = Duration::from_secs(3600);

/// The answers of the servers.
#[derive(Debug, Default)]
struct Snapshot {
    servers: Vec<ServerReport>,
    /// A line for each server that can't be asked.
    complaints: Vec<String>,
}

pub(super) fn run(options: &TopOptions) -> Outcome {
    let is_terminal = io::stdout().is_terminal() && io::stdin().is_terminal() && !is_dumb();
    if options.once || options.batch || options.json || !is_terminal {
        return print_tables(options);
    }
    show_screen(options)
}

/// One table after the other.
fn print_tables(options: &TopOptions) -> Outcome {
    let count = if options.once { Some(1) } else { options.iterations };
    let (mut servers, mut meter) = (Servers::default(), Meter::new());
    let mut number = 0;
    loop {
        let due = now().checked_add(options.delay);
        let snapshot = servers.ask();
        let view = View::new(&snapshot.servers, &options.jobs, options.sort, &mut meter, now());
        let text = if options.json { view.json() } else { view.page() };
        if number > 0 && !options.json && !print_on("\n")? || !print_on(&text)? {
            return Ok(0);
        }
        number += 1;
        if count.is_some_and(|count| number >= count) {
            snapshot.complaints.iter().for_each(|complaint| printing::complain(&printable(complaint)));
            return Ok(u8::from(!snapshot.complaints.is_empty()));
        }
        thread::sleep(due.map_or(options.delay, |due| due.saturating_duration_since(now())));
    }
}

/// A screen that changes, until the user ends it.
fn show_screen(options: &TopOptions) -> Outcome {
    let background = Background::start(options.delay)?;
    let mut screen = Screen::enter()?;
    let (mut meter, mut order, mut first_row) = (Meter::new(), options.sort, 0_usize);
    let mut snapshot: Option<Snapshot> = None;
    let mut shown = 0;
    loop {
        let due = now().checked_add(if snapshot.is_some() { options.delay } else { FIRST_LOOK });
        snapshot = background.newest().or(snapshot);
        let servers = snapshot.as_ref().map_or(&[][..], |snapshot| &snapshot.servers);
        let mut view = View::new(servers, &options.jobs, order, &mut meter, now());
        loop {
            first_row = first_row.min(view.row_count().saturating_sub(1));
            let (rows, columns) = screen.size();
            let complaints = snapshot.as_ref().map(|snapshot| &snapshot.complaints[..]);
            screen.draw(&view.screen(complaints, first_row, rows, columns))?;
            let Some(key) = screen.key(due.map_or(Duration::ZERO, |due| due.saturating_duration_since(now())))? else {
                break;
            };
            match key {
                Key::End => return Ok(0),
                Key::Order(other) => {
                    order = other;
                    view.sort(order);
                }
                Key::Move(step) => first_row = first_row.saturating_add_signed(step),
                Key::Page => first_row = first_row.saturating_add(rows / 2),
                Key::Redraw => {}
            }
        }
        shown += u64::from(snapshot.is_some());
        if options.iterations.is_some_and(|count| shown >= count) {
            return Ok(0);
        }
    }
}

/// How often the screen looks for the first answers.
const FIRST_LOOK: Duration = Duration::from_millis(50);

#[expect(clippy::disallowed_methods, reason = "the program's own clock")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "the terminal's kind is in the environment")]
fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_has_bounds() {
        assert_eq!(seconds("0.1"), Ok(Duration::from_millis(100)));
        assert_eq!(seconds("3600"), Ok(Duration::from_secs(3600)));
        for text in ["", "0", "0.09", "-1", "3601", "NaN", "inf", "1e99", "x"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
