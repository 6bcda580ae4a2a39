//! The writing side: the store of a server, its namespaces, and the segment of each.

mod arrivals;
pub(super) mod completion_table;
mod namespace;
mod qualified_index;
mod record;
mod shares;
pub(super) mod store;
mod writer;
