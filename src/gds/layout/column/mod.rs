//! Columns: one key for all ranks (or nodes) of a job.
//!
//! A column has two parts. A *function* maps the index to a number: a stride (constants, block and cyclic maps), a
//! narrow array, or runs. A *meaning* interprets the number: as the value, or as the index of one of the column's
//! distinct cells. Thus each regularity serves numbers and strings, with one reader for all.
//!
//! Exceptions:
//! - Values of few indexes make a sparse column.
//! - Values of the process's node make a reference to the node column of the same key.
//! - The lists of the ranks on each node are a rule if the process map is one; only the own node's list is written out.

mod plan;
mod read;
mod write;

pub(crate) use plan::Stride;
pub(crate) use read::ColumnView;
pub(crate) use write::push_column;
