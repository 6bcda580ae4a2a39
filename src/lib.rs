//! modex: PMIx out of shared memory.

pub mod keys;
pub mod types;
