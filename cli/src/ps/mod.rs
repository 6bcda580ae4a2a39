//! `modex ps`: the jobs of this user on this machine, and the operations that they wait for.
//!
//! - [`find`]: the servers of this user that admit tools
//! - [`jobs`]: the answers of a server
//! - [`table`]: the list for people

mod find;
mod jobs;
mod table;

use clap::Args;
pub(super) use find::servers;
#[cfg(test)]
pub(super) use jobs::JobReport;
pub(super) use jobs::{Connection, RankReport, ServerReport, directions, state_in_words};
use modex::stderr_log::printable;
use serde_json::json;

use super::{Outcome, printing};

#[derive(Args, Debug)]
#[command(after_long_help = HELP)]
pub(super) struct PsOptions {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
Examples:
  modex ps
  modex ps --json
  watch modex ps

A row shows the server's process, the job, the number of its ranks, their states, and the age of its
oldest process or of the server. Below it stands a line for each operation that waits.

JSON document (--json):
  format      version of this document, 1; fields may be added without a new version
  servers[]   one object for each server:
    pid, name     its process, or null; its own name as namespace.rank
    jobs[]        name, age_s, and ranks[] of rank, pid, host, program, state and requests
    operations[]  a text for each operation that waits; null if the server can't tell

Exit status:
  0  Every server has answered, or there is none
  1  A server can't be asked
  2  The command line makes no sense

Environment:
  TMPDIR, TEMP, TMP, PMIX_SERVER_TMPDIR, PMIX_SYSTEM_TMPDIR
      Directories in which servers are searched. Those of this user's other processes are
      searched, too";

pub(super) fn run(options: &PsOptions) -> Outcome {
    let mut servers = Vec::new();
    let mut status = 0;
    for found in find::servers() {
        match jobs::of(&found) {
            Ok(server) => servers.push(server),
            // The process has ended meanwhile.
            Err(_) if !found.path.exists() => {}
            Err(error) => {
                status = 1;
                let pid = found.contents.pid.map_or_else(|| "unknown".to_owned(), |pid| pid.to_string());
                printing::complain(&format!("cannot ask process {pid}: {}", printable(&error.to_string())));
            }
        }
    }
    let text = match table::render(&servers) {
        _ if options.json => {
            printing::escaped_json(&format!("{:#}\n", json!({ "format": FORMAT, "servers": servers })))
        }
        Some(table) => table,
        // Servers that can't be asked may have jobs.
        None if status != 0 => String::new(),
        None => "No job of this user runs here. Start one with modex run.\n".to_owned(),
    };
    printing::print(&text)?;
    Ok(status)
}

/// Version of the JSON document.
const FORMAT: u32 = 1;
