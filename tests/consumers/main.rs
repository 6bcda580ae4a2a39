//! The C library with its real consumers: Open MPI's launcher, daemons and ranks, C programs compiled with Debian's
//! headers and with ours, `pmixbench`, Debian's Python module, Slurm's job steps. All are real processes. Programs of
//! each MPI also run under `modex run`.
//!
//! `make consumers` runs this. It is not a part of a plain `cargo test`, because it needs Debian packages (`make
//! test-packages`) and builds the library. `MODEX_LIBPMIX_DIR` chooses the tested library:
//!
//! | value | library |
//! |---|---|
//! | not set | ours, built by `make lib` first |
//! | a directory | the `libpmix.so.2` in it |
//! | empty | Debian's OpenPMIx 4.2.2: proves the tests themselves |

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "a test binary is an edge; it has no configuration object")]

mod bench;
mod capi;
#[path = "../support/command.rs"]
mod command;
mod examples;
mod forwarding;
mod library;
mod machines;
mod mpi;
mod mpi_kills;
mod mpi_run;
mod pmixbench;
mod process;
mod prrte;
mod python;
mod secure;
mod slurm;
