//! Our library and OpenPMIx at the two ends of the same job, as real processes.
//!
//! `make consumers` runs this. It is not a part of a plain `cargo test`, because it needs Debian's OpenPMIx 4.2.2 and
//! builds the C library. `MODEX_LIBPMIX_DIR` names another build of ours to test.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "a test binary is an edge; it has no configuration object")]

#[path = "../support/command.rs"]
mod command;
#[path = "../consumers/library.rs"]
#[expect(dead_code, reason = "shared with the consumers' tests, which use the rest")]
mod library;
mod mixed_servers;
#[path = "../consumers/pmixbench.rs"]
mod pmixbench;
#[path = "../consumers/process.rs"]
mod process;
mod stock_clients;
mod stock_server;
mod tools;
mod users;
