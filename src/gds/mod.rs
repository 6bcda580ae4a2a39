//! The datastore: format of a namespace's segment, writer and reader.
//!
//! One segment per namespace, written by the server alone ([`Store`]) and read by every process with its handle
//! ([`NamespaceReader`]). Five structures hang on its roots:
//!
//! - the *key dictionary*, from the text of a key to its number;
//! - the *job record*, which a registration makes and the next one replaces as a whole: tables for session, job and
//!   applications, columns for nodes and processes;
//! - the *modex table*, an atomic cell for each rank that leads to its newest block of posted values;
//! - the *board*, an atomic cell for each connection whose process may sleep until a verdict;
//! - the *statistics*, a few counters.
//!
//! Data is prepared outside the segment, appended in one piece, published, and then linked by one release store. A
//! failed call leaves nothing readable behind, except perhaps interned keys, the modex table or a larger table of keys.
//! Readers take no lock, make no system call and check every offset, length and code.

mod arrivals;
mod block;
mod cell;
mod column;
mod completion_table;
mod datastore;
mod dictionary;
mod error;
mod format;
mod image;
mod job;
mod job_entries;
pub mod job_record;
mod limits;
mod lookup;
mod memory;
pub mod model;
mod namespace;
pub mod qualified;
mod quick;
mod reader;
mod record;
pub mod registration;
mod search;
mod shares;
mod statistics;
mod store;
mod value_ref;
pub mod walk;
mod writer;

#[cfg(test)]
mod tests;

pub use crate::types::AsStatus;
pub use cell::ValueError;
pub use completion_table::{CompletionNotice, CompletionSlot, CompletionStatus, REQUESTS_END};
pub use datastore::{Datastore, JobSummary};
pub use error::{RecordError, Shared, StoreError};
pub use job_entries::{JobEntry, OTHER_SESSIONS};
pub use limits::StoreLimits;
pub use lookup::{
    Audience, KeyRef, Lookup, LookupError, NodeSelector, Origin, Posted, RealmName, RealmQualifiers, RealmRequest,
};
pub use memory::Damage;
pub use reader::NamespaceReader;
pub use search::ReadError;
pub use statistics::{Section, Statistics};
pub use store::{Store, StoreOptions};
pub use value_ref::ValueRef;
