//! Prints the processors of each core, for the launcher: one line a core, numbers separated by spaces. With `--xml` it
//! prints the topology of the machine, as hwloc writes it.
//!
//! A program of its own because every process of a job starts with an `exec`: were `modex` itself linked with hwloc and
//! what hwloc needs, each `modex demo` would pay for loading them without using them.

use std::process::ExitCode;

fn main() -> ExitCode {
    modex_cli::topology()
}
