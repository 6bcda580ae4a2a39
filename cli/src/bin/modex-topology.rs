//! Prints the processors of each core for the launcher: one line a core, numbers separated by spaces.
//!
//! With `--xml` it prints the topology of the machine, as hwloc writes it.
//!
//! It is a separate program because every process of a job starts with an `exec`. If `modex` itself were linked with
//! hwloc, each `modex demo` would load hwloc's libraries without using them.

use std::process::ExitCode;

fn main() -> ExitCode {
    modex_cli::topology()
}
