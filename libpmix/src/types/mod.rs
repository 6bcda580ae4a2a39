//! The types of the C interface, named as C programs name them.
//!
//! Source: PMIx Standard, "Data Structures and Types"; the layouts are those of the releases 3.2 to 6.1, which agree.

mod callbacks;
mod module;
mod scalars;
mod structs;

pub use callbacks::*;
pub use module::*;
pub use scalars::*;
pub use structs::*;
