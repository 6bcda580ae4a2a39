//! The datastore: format of a namespace's segment, writer and reader.
//!
//! One segment per namespace, written by the server alone ([`Store`]) and read by every process with its handle
//! ([`NamespaceReader`]). Five structures hang on its roots:
//!
//! - the *key dictionary*, from the text of a key to its number;
//! - the *job record*, with tables for session, job and applications, and columns for nodes and processes. A
//!   registration makes it, and the next one replaces it as a whole;
//! - the *modex table*, an atomic cell for each rank that leads to its newest block of posted values;
//! - the *completion table*, an atomic cell for each connection whose process may sleep until a verdict;
//! - the *statistics*, a few counters.
//!
//! Its rooms: `layout` has the structures of a segment, `read` and `write` its two sides, `registration` the host's
//! description of a job. `read` and `write` stand on `layout`; `write` reads its own segment through `read`.
//!
//! Data is prepared outside the segment, appended in one piece, published, and then linked by one release store. A
//! failed call leaves nothing readable behind, except perhaps interned keys, the modex table or a larger table of keys.
//! Readers take no lock, make no system call and check every offset, length and code.

mod datastore;
mod error;
pub mod job_record;
mod layout;
mod limits;
mod lookup;
pub mod model;
pub mod qualified;
mod read;
pub mod registration;
mod stored_values;
mod write;

#[cfg(test)]
mod tests;

pub use crate::types::AsStatus;
pub use datastore::{Committed, Datastore, JobSummary};
pub use error::{RecordError, Shared, StoreError};
pub use layout::cell::ValueError;
pub(crate) use layout::cell::plain_bytes;
pub use layout::segment_view::Damage;
pub use layout::value_ref::ValueRef;
pub use limits::StoreLimits;
pub use lookup::{
    Audience, KeyRef, Lookup, LookupError, NodeSelector, Origin, Posted, RealmName, RealmQualifiers, RealmRequest,
};
pub use read::job_entries::{JobEntry, OTHER_SESSIONS};
pub use read::reader::NamespaceReader;
pub use read::search::ReadError;
pub use read::statistics::{Section, Statistics};
pub use read::walk;
pub use stored_values::{KeySets, StoredValues};
pub use write::completion_table::{CompletionNotice, CompletionSlot, CompletionStatus, REQUESTS_END};
pub use write::store::{Store, StoreOptions};
