//! modex: PMIx out of shared memory.

pub mod gds;
pub mod proto;
pub mod server;
pub mod types;
