//! Queries that the server answers itself if its host does not: running jobs, and the values that a Get could find.

mod answers;
mod asking;
mod sets;
