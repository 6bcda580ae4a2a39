//! modex: PMIx out of shared memory.

pub mod types;
