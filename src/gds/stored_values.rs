//! Values in a store that are not read yet.
//!
//! A process may post a million values, and the description of a job may be as large. Reading them takes a second, and
//! a server's thread serves others meanwhile. So the server passes this handle on, and the thread that needs the values
//! reads them from the segment.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::layout::value_ref::ValueRef;
use super::lookup::{Audience, LookupError};
use super::qualified;
use super::read::reader::NamespaceReader;
use super::read::walk::NamedValues;
use crate::types::{Key, Kval, Namespace};

/// Stored names of posted values, in sets that several owners share.
pub type KeySets = Vec<Arc<BTreeSet<Arc<Key>>>>;

/// Values of a process or a job: copies, or the place where they stand. A value that is replaced before the read is
/// read in its newest form.
#[derive(Clone, Debug, PartialEq)]
pub enum StoredValues {
    /// Copies.
    Read(Arc<[Kval]>),
    /// In a segment.
    Unread(UnreadValues),
}

/// Values in a segment.
#[derive(Clone, Debug)]
pub struct UnreadValues {
    pub(super) reader: Arc<NamespaceReader>,
    pub(super) namespace: Namespace,
    pub(super) part: SegmentPart,
}

/// The wanted values of a segment.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum SegmentPart {
    /// Posted values of a process: those with these stored names, or all (`None`).
    Posted { rank: u32, audience: Audience, keys: Option<KeySets> },
    /// All information of the job.
    Job,
}

impl StoredValues {
    /// Copies of the values.
    ///
    /// # Errors
    /// [`LookupError::Damaged`].
    pub fn read(&self) -> Result<Vec<Kval>, LookupError> {
        match self {
            Self::Read(values) => Ok(values.to_vec()),
            Self::Unread(values) => values.read(),
        }
    }
}

impl UnreadValues {
    fn read(&self) -> Result<Vec<Kval>, LookupError> {
        let Self { reader, namespace, part } = self;
        let posted = match part {
            SegmentPart::Job => return reader.job_entries().map_err(|error| damaged(namespace, &error)),
            SegmentPart::Posted { rank, audience, keys: None } => reader.posted(*rank, Some(*audience)),
            SegmentPart::Posted { rank, audience, keys: Some(keys) } => {
                reader.posted_of(*rank, Some(*audience), &in_order(keys))
            }
        };
        copied(namespace, posted.map_err(|error| damaged(namespace, &error))?)
    }
}

impl PartialEq for UnreadValues {
    /// Whether both are the same values of the same segment.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.reader, &other.reader) && self.part == other.part
    }
}

/// The names in order, each once.
pub(super) fn in_order(keys: &KeySets) -> Vec<&str> {
    let mut names: Vec<&str> = keys.iter().flat_map(|keys| keys.iter()).map(|key| key.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Copies of values with their keys.
pub(super) fn copied(namespace: &Namespace, values: NamedValues<'_>) -> Result<Vec<Kval>, LookupError> {
    let copy = |(name, value): (&str, ValueRef<'_>)| {
        let key = Key::new(qualified::public_name(name).to_owned()).map_err(|error| damaged(namespace, &error))?;
        Ok(Kval { key, value: value.to_value().map_err(|error| damaged(namespace, &error))? })
    };
    values.into_iter().map(copy).collect()
}

pub(super) fn damaged(namespace: &Namespace, reason: &dyn std::fmt::Display) -> LookupError {
    LookupError::Damaged { namespace: namespace.clone(), reason: reason.to_string() }
}
