//! modex: PMIx out of shared memory.

pub mod bfrops;
pub mod gds;
pub mod keys;
pub mod proto;
pub mod regex;
pub mod types;
