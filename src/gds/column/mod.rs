//! Columns: one key for all ranks (or nodes) of a job.
//!
//! A column is two things. A *function* from the index to a number: a stride (which constants, block and cyclic maps
//! are), a narrow array, or runs. And a *meaning* of the number: it is the value, or it selects one of the column's
//! distinct cells. So every regularity serves numbers and strings alike, and there is one reader for all. What exists
//! for few indexes is a sparse column instead; what follows from the process's node is no column at all but a
//! reference to the node column of the same key; and the lists of the ranks on each node are a rule, if the process map
//! is one, of which the list of the own node alone is written out.

mod plan;
mod read;
mod write;

pub(crate) use plan::Stride;
pub(crate) use read::ColumnView;
pub(crate) use write::push_column;
