//! The reading side of a segment: a lookup, the places where it searches, and walks through all values.

pub(super) mod job;
pub(super) mod job_entries;
pub(super) mod quick;
pub(super) mod reader;
pub(super) mod search;
pub(super) mod statistics;
pub mod walk;
