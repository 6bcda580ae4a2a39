//! The datastore interface of the server core, which tests can drive with real segments or a plain map.

use super::lookup::{Audience, Lookup, LookupError, Origin, Posted};
use super::registration::{Description, ResourceChange};
use super::stored_values::{KeySets, StoredValues, in_order};
use crate::types::{AsStatus, Info, Key, Kval, LentEntry, Namespace, Scope, Value, footprint};

/// Facts about a job from its registration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobSummary {
    /// Number of processes of the job, the larger of the host's and the maps'; `None` if neither is known.
    pub job_size: Option<u32>,
    /// Number of nodes, if known.
    pub node_count: Option<u32>,
}

/// The effect of a commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Committed {
    /// Whether anything changed.
    pub is_changed: bool,
    /// The keys with a new value that processes of other nodes may see.
    pub keys_for_others: Vec<Key>,
}

/// A datastore as the server core sees it. A failed call leaves earlier data unchanged.
pub trait Datastore {
    /// Why a registration or commit was refused, with its PMIx status.
    type Error: std::error::Error + AsStatus;

    /// Makes the namespace's data visible, or replaces it by a newer description.
    ///
    /// # Errors
    /// Malformed description, or no memory left.
    fn register(&mut self, namespace: &Namespace, description: &[Info]) -> Result<JobSummary, Self::Error>;

    /// As [`Datastore::register`], for a description whose process arrays are in tables.
    ///
    /// # Errors
    /// As [`Datastore::register`].
    fn register_description(
        &mut self,
        namespace: &Namespace,
        description: &Description,
    ) -> Result<JobSummary, Self::Error> {
        self.register(namespace, &description.to_infos())
    }

    /// Gives a described job other resources; `None` if they change nothing. Values that equal those of the old
    /// resources go. New ones add what the job lacks.
    ///
    /// # Errors
    /// Unknown namespace, or no memory left.
    fn change_resources(
        &mut self,
        namespace: &Namespace,
        change: &ResourceChange,
    ) -> Result<Option<JobSummary>, Self::Error>;

    /// Sets the number of local processes that share the limits of posted data. Without it, one process may use up
    /// everything.
    fn share_among(&mut self, namespace: &Namespace, processes: u32) {
        let _ = (namespace, processes);
    }

    /// Publishes a block of values of one process. Values that all their readers see already change nothing.
    ///
    /// # Errors
    /// Unknown namespace, rank out of range, or no memory left.
    fn commit(
        &mut self,
        namespace: &Namespace,
        rank: u32,
        origin: Origin,
        values: &[Posted],
    ) -> Result<Committed, Self::Error>;

    /// Prepares some of the memory for a large value, so that its commit takes no long time. Returns whether another
    /// call would prepare more.
    fn prepare_some(&mut self, namespace: &Namespace, size_bytes: u64) -> bool {
        let _ = (namespace, size_bytes);
        false
    }

    /// Takes over the block of a remote process, lent for the length of the call. It becomes visible with the next
    /// [`Datastore::publish_arrivals`] or any other change of this namespace. Returns the number of blocks not
    /// published yet, this one included.
    ///
    /// # Errors
    /// As [`Datastore::commit`]; published data stays.
    fn take_arrival(
        &mut self,
        namespace: &Namespace,
        rank: u32,
        entries: &[LentEntry<'_>],
    ) -> Result<usize, Self::Error> {
        let posted = |entry: &LentEntry<'_>| Posted {
            scope: Scope::Remote,
            key: entry.key.to_key(),
            value: entry.value.to_value(),
        };
        let values: Vec<Posted> = entries.iter().map(posted).collect();
        self.commit(namespace, rank, Origin::Remote, &values).map(|_| 0)
    }

    /// Publishes the blocks taken over. Returns their number.
    ///
    /// # Errors
    /// Unknown namespace, or no memory left; none of the blocks is published then.
    fn publish_arrivals(&mut self, namespace: &Namespace) -> Result<usize, Self::Error> {
        let _ = namespace;
        Ok(0)
    }

    /// Forgets the namespace. Readers that still map its segment keep a valid mapping. Returns whether it was known.
    fn deregister(&mut self, namespace: &Namespace) -> bool;

    /// Whether the namespace is registered.
    fn is_registered(&self, namespace: &Namespace) -> bool;

    /// One value, copied out.
    ///
    /// # Errors
    /// [`LookupError`].
    fn lookup(&self, namespace: &Namespace, lookup: &Lookup<'_>) -> Result<Value, LookupError>;

    /// As [`Datastore::lookup`], for questions that need no copy of the value.
    ///
    /// # Errors
    /// [`LookupError`].
    fn locate(&self, namespace: &Namespace, lookup: &Lookup<'_>) -> Result<(), LookupError> {
        self.lookup(namespace, lookup).map(drop)
    }

    /// One qualified value, whole: it must have all of the qualifiers. The match with the fewest others wins, then the
    /// first by stored name. A store may give up after a number of values, which is large.
    ///
    /// # Errors
    /// [`LookupError`]. Values count as outside the scope only if they have all of the qualifiers.
    fn lookup_qualified(
        &self,
        namespace: &Namespace,
        lookup: &Lookup<'_>,
        qualifiers: &[Info],
    ) -> Result<Value, LookupError>;

    /// Largest number of values that [`Datastore::lookup_qualified`] examines.
    fn qualified_values(&self, namespace: &Namespace) -> usize;

    /// All posted values of a process that the audience may see; the newest of each key; empty if there are none.
    /// Qualified values come under the key of qualified values. Other nodes get removals, too, as undefined values.
    ///
    /// # Errors
    /// [`LookupError::UnknownNamespace`] or [`LookupError::Damaged`].
    fn posted(&self, namespace: &Namespace, rank: u32, audience: Audience) -> Result<Vec<Kval>, LookupError>;

    /// As [`Datastore::posted`], for these stored names only, in this order. The time does not depend on the process's
    /// other keys. Removed values come as undefined ones.
    ///
    /// # Errors
    /// As [`Datastore::posted`].
    fn posted_of(
        &self,
        namespace: &Namespace,
        rank: u32,
        audience: Audience,
        keys: &[&str],
    ) -> Result<Vec<Kval>, LookupError>;

    /// As [`Datastore::posted`] and [`Datastore::posted_of`], for a later read by any thread.
    ///
    /// # Errors
    /// As [`Datastore::posted`].
    fn posted_later(
        &self,
        namespace: &Namespace,
        rank: u32,
        audience: Audience,
        keys: Option<KeySets>,
    ) -> Result<StoredValues, LookupError> {
        let values = match keys {
            None => self.posted(namespace, rank, audience),
            Some(keys) => self.posted_of(namespace, rank, audience, &in_order(&keys)),
        };
        Ok(StoredValues::Read(values?.into()))
    }

    /// As [`Datastore::job_entries`], for a later read by any thread.
    ///
    /// # Errors
    /// As [`Datastore::job_entries`].
    fn job_entries_later(&self, namespace: &Namespace) -> Result<StoredValues, LookupError> {
        self.job_entries(namespace).map(|entries| StoredValues::Read(entries.into()))
    }

    /// Whether a process has posted values that the audience may see. Copies nothing.
    fn has_posted(&self, namespace: &Namespace, rank: u32, audience: Audience) -> bool {
        self.posted(namespace, rank, audience).is_ok_and(|posted| posted.iter().any(|entry| !entry.is_removal()))
    }

    /// The size in bytes of the posted value of a key that the audience sees; 0 if there is none. Copies nothing.
    fn posted_bytes(&self, namespace: &Namespace, rank: u32, audience: Audience, key: &str) -> usize {
        let found = self.posted_of(namespace, rank, audience, &[key]).unwrap_or_default();
        found.first().map_or(0, |entry| footprint(&entry.value).unwrap_or(usize::MAX))
    }

    /// Whether all posted values of a process, including replaced ones, take at most `bytes_max` bytes. Copies nothing,
    /// and stops at that size.
    fn posts_at_most(&self, namespace: &Namespace, rank: u32, bytes_max: usize) -> bool;

    /// All registered values of a process.
    ///
    /// # Errors
    /// [`LookupError`].
    fn described(&self, namespace: &Namespace, rank: u32) -> Result<Vec<Kval>, LookupError>;

    /// All job-level information, in the form for peers without segments (wire.md 7.1).
    ///
    /// # Errors
    /// [`LookupError::UnknownNamespace`] or [`LookupError::Damaged`].
    fn job_entries(&self, namespace: &Namespace) -> Result<Vec<Kval>, LookupError>;
}
