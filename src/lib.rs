//! modex: PMIx out of shared memory.

pub mod gds;
pub mod keys;
pub mod proto;
pub mod ptl;
mod runtime;
pub mod types;
