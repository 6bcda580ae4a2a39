//! modex: PMIx out of shared memory.

pub mod regex;
pub mod types;
