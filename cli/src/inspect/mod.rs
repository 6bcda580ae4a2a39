//! `modex inspect`: looks into the segments of a live server.
//!
//! The command only reads. It takes no lock and stops no process, so the job is not disturbed. It shows the data that
//! is published at that moment. Two numbers of one report may be a publication apart.
//!
//! - [`options`]: the command line
//! - [`find`] and [`process`]: from a process, a socket or a file to handles of segments
//! - [`view`], [`detail`] and [`value`]: from a handle to a report, which is what `--json` prints
//! - [`hardware`]: the same for the topology of a node, and for inventories
//! - [`cluster`]: the inventories of all nodes that servers know
//! - [`table`], [`hardware_table`]: the report for people

mod cluster;
mod detail;
mod error;
mod find;
mod hardware;
mod hardware_table;
mod options;
mod process;
mod table;
mod value;
mod view;

#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal};

pub(super) use error::OptionError;
use modex::stderr_log::printable;
pub(super) use options::InspectOptions;
pub(super) use value::to_json;

use super::{Outcome, printing};

/// Prints the report. Each part that could not be shown becomes a line on standard error and exit status 1.
pub(super) fn run(options: &InspectOptions) -> Outcome {
    options.target.check()?;
    let report = match &options.target.inventory {
        Some(Some(path)) => view::Report::of_inventory(hardware::InventoryReport::of_file(path)?),
        Some(None) => cluster::report(&options.target)?,
        None => view::report(find::segments(&options.target)?, &options.selection)?,
    };
    let text = if options.json {
        printing::escaped_json(&serde_json::to_string_pretty(&report)?) + "\n"
    } else {
        table::render(&report, io::stdout().is_terminal())
    };
    printing::print(&text)?;
    for problem in &report.problems {
        printing::complain(&format!("{}: {}", printable(&problem.place), printable(&problem.message)));
    }
    Ok(u8::from(!report.problems.is_empty()))
}
