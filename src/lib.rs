//! modex: PMIx out of shared memory.

mod api;
pub mod bfrops;
#[cfg(feature = "cli")]
pub mod cli;
pub mod client;
pub mod gds;
pub mod keys;
pub mod proto;
pub mod ptl;
pub mod regex;
pub mod runtime;
pub mod server;
#[expect(unsafe_code, reason = "mapped memory is reached through addresses; see the invariants in its docs")]
pub mod shmem;
pub mod topo;
pub mod types;

pub use api::*;
