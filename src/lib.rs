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
//! The layers below this interface are private. The feature `unstable-internals` makes them public for the other
//! packages of the repository; any version may change them. `ARCHITECTURE.md` has the map.

#![cfg_attr(
    not(feature = "unstable-internals"),
    allow(dead_code, unreachable_pub, unused_imports, reason = "the layers hold more than the interface needs")
)]

mod api;
pub mod keys;
pub mod types;

// Each layer stands here twice, because an attribute can't change what is public, and rustfmt does not see modules that
// a macro declares.
#[cfg(not(feature = "unstable-internals"))]
mod bfrops;
#[cfg(feature = "unstable-internals")]
pub mod bfrops;
#[cfg(not(feature = "unstable-internals"))]
mod client;
#[cfg(feature = "unstable-internals")]
pub mod client;
#[cfg(not(feature = "unstable-internals"))]
mod events;
#[cfg(feature = "unstable-internals")]
pub mod events;
#[cfg(not(feature = "unstable-internals"))]
mod fabric;
#[cfg(feature = "unstable-internals")]
pub mod fabric;
#[cfg(not(feature = "unstable-internals"))]
mod gds;
#[cfg(feature = "unstable-internals")]
pub mod gds;
#[cfg(not(feature = "unstable-internals"))]
mod names;
#[cfg(feature = "unstable-internals")]
pub mod names;
#[cfg(not(feature = "unstable-internals"))]
mod os_error_hint;
#[cfg(feature = "unstable-internals")]
pub mod os_error_hint;
#[cfg(not(feature = "unstable-internals"))]
mod output;
#[cfg(feature = "unstable-internals")]
pub mod output;
#[cfg(not(feature = "unstable-internals"))]
mod pmi;
#[cfg(feature = "unstable-internals")]
pub mod pmi;
#[cfg(not(feature = "unstable-internals"))]
mod proto;
#[cfg(feature = "unstable-internals")]
pub mod proto;
#[cfg(not(feature = "unstable-internals"))]
mod ptl;
#[cfg(feature = "unstable-internals")]
pub mod ptl;
#[cfg(not(feature = "unstable-internals"))]
mod regex;
#[cfg(feature = "unstable-internals")]
pub mod regex;
#[cfg(not(feature = "unstable-internals"))]
mod runtime;
#[cfg(feature = "unstable-internals")]
pub mod runtime;
#[cfg(not(feature = "unstable-internals"))]
mod server;
#[cfg(feature = "unstable-internals")]
pub mod server;
#[cfg(not(feature = "unstable-internals"))]
mod shmem;
#[cfg(feature = "unstable-internals")]
pub mod shmem;
#[cfg(not(feature = "unstable-internals"))]
mod stderr_log;
#[cfg(feature = "unstable-internals")]
pub mod stderr_log;
#[cfg(not(feature = "unstable-internals"))]
mod storage;
#[cfg(feature = "unstable-internals")]
pub mod storage;
#[cfg(not(feature = "unstable-internals"))]
mod syslog;
#[cfg(feature = "unstable-internals")]
pub mod syslog;
#[cfg(not(feature = "unstable-internals"))]
mod topo;
#[cfg(feature = "unstable-internals")]
pub mod topo;
#[cfg(not(feature = "unstable-internals"))]
mod usage;
#[cfg(feature = "unstable-internals")]
pub mod usage;

#[cfg(test)]
extern crate self as modex; // `tests/support` names this library `modex` in its unit tests, too.

#[cfg(test)]
#[path = "../tests/support/cases.rs"]
mod cases;
#[cfg(test)]
#[path = "../tests/support/log_lines.rs"]
mod log_lines;

pub use api::*;

/// The examples of the documents, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../docs/rust.md")]
struct Documents;
