//! modex: PMIx from shared memory.
//!
//! The job-level key-value store and the results of the modex lie in one read-only mapped segment per namespace.
//! Clients read it without lock, system call or allocation. A small socket protocol remains for requests that need an
//! order or a wait. [`Client`] is for the processes of a job, [`Server`] with a [`Host`] for the launcher.
//!
//! ```no_run
//! use modex::types::{Rank, Scope};
//! use modex::{Client, FenceOptions, keys};
//!
//! let client = Client::connect()?;
//! let size = client.get(Rank::Wildcard, keys::JOB_SIZE)?;
//! client.put(Scope::Global, "endpoint", "10.0.0.7:4711")?;
//! client.commit()?;
//! client.fence(&FenceOptions::new().collect(true)).wait()?;
//! println!("{} of {size}", client.proc());
//! client.finalize()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The modules below are the library's layers, public for tests, fuzzing and inspection; `ARCHITECTURE.md` has the map.

mod api;
pub mod bfrops;
pub mod client;
pub mod events;
pub mod gds;
pub mod keys;
#[doc(hidden)] // For the command.
pub mod os_error_hint;
pub mod proto;
pub mod ptl;
pub mod regex;
pub mod runtime;
pub mod server;
#[expect(unsafe_code, reason = "mapped memory is reached through addresses; see the invariants in its docs")]
pub mod shmem;
#[doc(hidden)] // For the command and the C library.
pub mod stderr_log;
pub mod topo;
pub mod types;

#[cfg(test)]
extern crate self as modex; // `tests/support` names this library `modex` in its unit tests, too.

#[cfg(test)]
#[path = "../tests/support/cases.rs"]
mod cases;

pub use api::*;

/// The examples of the documents, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../docs/rust.md")]
struct Documents;
