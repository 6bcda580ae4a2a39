//! modex: PMIx out of shared memory.

pub mod gds;
pub mod keys;
pub mod proto;
pub mod regex;
pub mod topo;
pub mod types;
