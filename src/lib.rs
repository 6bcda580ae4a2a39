//! modex: PMIx out of shared memory.

pub mod client;
pub mod gds;
pub mod proto;
pub mod types;
