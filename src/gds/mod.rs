//! The datastore: what a namespace's segment holds and how it is written and read.

pub mod job_record;
mod publish;
pub mod registration;

pub use publish::{
    AsStatus, Audience, JobSummary, KeyRef, Lookup, LookupError, NodeSelector, Origin, Posted, Publish, RealmRequest,
};
