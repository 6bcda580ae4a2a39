//! All namespaces of a server.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::completion_table::CompletionNotice;
use super::namespace::NamespaceData;
use super::writer::NamespaceWriter;
use crate::gds::datastore::{Committed, Datastore, JobSummary};
use crate::gds::error::StoreError;
use crate::gds::job_record::JobRecord;
use crate::gds::limits::StoreLimits;
use crate::gds::lookup::{Audience, Lookup, LookupError, Origin, Posted};
use crate::gds::qualified::{self, QUALIFIED_VALUE};
use crate::gds::read::reader::NamespaceReader;
use crate::gds::read::search::ReadError;
use crate::gds::read::statistics::Statistics;
use crate::gds::registration::{self, Context, Description, ResourceChange};
use crate::gds::stored_values::{KeySets, SegmentPart, StoredValues, UnreadValues, copied, damaged};
use crate::keys;
use crate::shmem::{BackingKind, GrowError, ReaderHandle, SegmentOptions};
use crate::types::{Info, Kval, LentEntry, Namespace, Rank, Scope, Value};

/// Settings of a [`Store`].
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Kind of memory of the segments.
    pub backing: BackingKind,
    /// The directory of the files; needed by [`BackingKind::File`] alone.
    pub directory: Option<PathBuf>,
    /// The most bytes that a namespace's segment can hold.
    pub span_bytes: u64,
    /// Limits of a namespace.
    pub limits: StoreLimits,
    /// Identity of this server, written into every segment: usually `namespace.rank`.
    pub owner: String,
    /// Context of registrations: the server's own node, and limits.
    pub registration: Context,
}

impl StoreOptions {
    /// Sealed memfds with default limits, of the server `owner` on the node `hostname`.
    #[must_use]
    pub fn new(owner: impl Into<String>, hostname: impl Into<String>) -> Self {
        Self {
            backing: BackingKind::Memfd,
            directory: None,
            span_bytes: SegmentOptions::SPAN_BYTES_DEFAULT,
            limits: StoreLimits::default(),
            owner: owner.into(),
            registration: Context::new(hostname),
        }
    }

    /// Memory of this process alone, on the node `hostname`.
    #[must_use]
    pub fn private(hostname: impl Into<String>) -> Self {
        Self { backing: BackingKind::Heap, ..Self::new(String::new(), hostname) }
    }

    fn segment(&self, namespace: &Namespace) -> SegmentOptions {
        SegmentOptions {
            backing: self.backing,
            directory: self.directory.clone(),
            span_bytes: self.span_bytes,
            ..SegmentOptions::new(namespace.as_str(), self.owner.as_str())
        }
    }
}

/// The datastore of a server: one segment for each registered namespace.
///
/// With [`BackingKind::Memfd`] a small namespace begins in memory of this process. It moves to a memfd when a process
/// maps it or posts a value. Thus a server can know many more jobs than it has descriptors and mappings, and a
/// registration makes no system call.
#[derive(Debug)]
pub struct Store {
    options: StoreOptions,
    namespaces: BTreeMap<Namespace, NamespaceData>,
}

impl Store {
    /// A store without namespaces.
    #[must_use]
    pub const fn new(mut options: StoreOptions) -> Self {
        // A description beyond the store's limits is refused while it is parsed, not after it is written.
        let (store, description) = (&options.limits, &mut options.registration.limits);
        if description.ranks_max > store.ranks_max {
            description.ranks_max = store.ranks_max;
        }
        if description.nodes_max > store.nodes_max {
            description.nodes_max = store.nodes_max;
        }
        Self { options, namespaces: BTreeMap::new() }
    }

    /// Makes a described job visible, or replaces its description. Posted values of its processes stay.
    ///
    /// # Errors
    /// [`StoreError`]; the namespace is then as it was, or still unknown.
    pub fn register_record(&mut self, namespace: &Namespace, record: &JobRecord) -> Result<JobSummary, StoreError> {
        match self.namespaces.get_mut(namespace).map(|data| (data.writer.is_private(), data.write_record(record))) {
            // It has outgrown its first, private memory.
            Some((true, Err(StoreError::Grow(GrowError::SpanExhausted { .. })))) => {
                self.shared(namespace)?.write_record(record)?;
            }
            Some((_, written)) => written?,
            None => drop(self.namespaces.insert(namespace.clone(), self.create(namespace, record)?)),
        }
        Ok(summary(record))
    }

    /// A new namespace with its description, in private memory if it is small.
    fn create(&self, namespace: &Namespace, record: &JobRecord) -> Result<NamespaceData, StoreError> {
        let written = |options: &SegmentOptions| {
            let mut writer = NamespaceWriter::create(options, self.options.limits)?;
            writer.write_record(record).map(|()| NamespaceData::new(writer))
        };
        let shared = self.options.segment(namespace);
        let is_small = record.rank_count.saturating_add(record.node_count) <= PRIVATE_PARTS_MAX;
        if is_small && shared.backing == BackingKind::Memfd {
            let (backing, span_bytes) = (BackingKind::Heap, PRIVATE_BYTES_MAX.min(shared.span_bytes));
            match written(&SegmentOptions { backing, span_bytes, ..shared.clone() }) {
                Err(StoreError::Grow(GrowError::SpanExhausted { .. })) => {}
                result => return result,
            }
        }
        written(&shared)
    }

    /// Moves a namespace to a segment that other processes can map.
    ///
    /// # Errors
    /// [`StoreError`]; the namespace is as it was.
    pub fn share(&mut self, namespace: &Namespace) -> Result<(), StoreError> {
        self.shared(namespace).map(drop)
    }

    /// The data of a namespace, in the segment that its processes read.
    fn shared(&mut self, namespace: &Namespace) -> Result<&mut NamespaceData, StoreError> {
        let options = self.options.segment(namespace);
        let data = self.namespaces.get_mut(namespace).ok_or_else(|| unknown(namespace))?;
        if data.writer.is_private() && options.backing != BackingKind::Heap {
            data.writer.move_to(&options)?;
        }
        Ok(data)
    }

    /// A reader's handle for the namespace's segment, which this call [shares](Store::share).
    ///
    /// # Errors
    /// [`StoreError::UnknownNamespace`], or [`StoreError::Handle`] if no descriptor is available.
    pub fn handle(&mut self, namespace: &Namespace) -> Result<ReaderHandle, StoreError> {
        self.shared(namespace)?.writer.handle()
    }

    /// The reading side of a namespace; `None` if it is unknown.
    #[must_use]
    pub fn reader(&self, namespace: &Namespace) -> Option<&NamespaceReader> {
        self.shared_reader(namespace).map(Arc::as_ref)
    }

    /// As [`Store::reader`], for a thread that reads while the store continues.
    #[must_use]
    pub fn shared_reader(&self, namespace: &Namespace) -> Option<&Arc<NamespaceReader>> {
        self.namespaces.get(namespace).map(|data| data.writer.reader())
    }

    /// Sizes of a namespace's segment.
    ///
    /// # Errors
    /// [`StoreError::UnknownNamespace`] or [`StoreError::Damaged`].
    pub fn statistics(&self, namespace: &Namespace) -> Result<Statistics, StoreError> {
        self.writer(namespace)?.statistics()
    }

    /// Gives a connection of a namespace a slot at its completion table, where verdicts wake it. `connections` is the
    /// expected number. Returns whether the slot was free.
    ///
    /// # Errors
    /// [`StoreError`]; the connection has no slot, and nothing else has changed.
    pub fn take_slot(&mut self, namespace: &Namespace, connection: u32, connections: u32) -> Result<bool, StoreError> {
        self.shared(namespace)?.take_slot(connection, connections)
    }

    /// Takes a connection's slot back.
    pub fn free_slot(&mut self, namespace: &Namespace, connection: u32) {
        if let Some(data) = self.namespaces.get_mut(namespace) {
            data.free_slot(connection);
        }
    }

    /// Writes verdicts for connections of a namespace, and wakes sleepers. Connections without a slot are skipped.
    ///
    /// # Errors
    /// [`StoreError`]; some or all verdicts were not written.
    pub fn complete_waits(&mut self, namespace: &Namespace, notices: &[CompletionNotice]) -> Result<(), StoreError> {
        self.namespaces.get_mut(namespace).ok_or_else(|| unknown(namespace))?.complete_waits(notices)
    }

    /// All namespaces, in order.
    pub fn namespaces(&self) -> impl Iterator<Item = &Namespace> {
        self.namespaces.keys()
    }

    fn writer(&self, namespace: &Namespace) -> Result<&NamespaceWriter, StoreError> {
        self.namespaces.get(namespace).map(|data| &data.writer).ok_or_else(|| unknown(namespace))
    }

    /// The present description, read back from the segment to update it. Few hosts register twice, so a second copy in
    /// memory is not worth its cost.
    fn previous(&self, namespace: &Namespace) -> Result<Option<JobRecord>, StoreError> {
        Ok(self.reader(namespace).map(NamespaceReader::job_record).transpose()?)
    }

    fn unread(&self, namespace: &Namespace, part: SegmentPart) -> Result<StoredValues, LookupError> {
        let reader = Arc::clone(self.known_reader(namespace)?);
        Ok(StoredValues::Unread(UnreadValues { reader, namespace: namespace.clone(), part }))
    }

    fn known_reader(&self, namespace: &Namespace) -> Result<&Arc<NamespaceReader>, LookupError> {
        self.shared_reader(namespace).ok_or_else(|| LookupError::UnknownNamespace { namespace: namespace.clone() })
    }
}

impl Datastore for Store {
    type Error = StoreError;

    fn register(&mut self, namespace: &Namespace, description: &[Info]) -> Result<JobSummary, StoreError> {
        let previous = self.previous(namespace)?;
        let record = registration::parse(namespace, &self.options.registration, description, previous.as_ref())?;
        let value_bytes_max = self.options.limits.value_bytes_max;
        let summary = self
            .register_record(namespace, &record)
            .map_err(|error| registration::located_in_infos(error, description, value_bytes_max))?;
        registration::warn_of_doubts(namespace, &record, previous.as_ref());
        Ok(summary)
    }

    fn register_description(
        &mut self,
        namespace: &Namespace,
        description: &Description,
    ) -> Result<JobSummary, StoreError> {
        let (context, previous) = (&self.options.registration, self.previous(namespace)?);
        let record = registration::parse_description(namespace, context, description, previous.as_ref())?;
        let value_bytes_max = self.options.limits.value_bytes_max;
        let summary = self
            .register_record(namespace, &record)
            .map_err(|error| registration::located_in(error, description, value_bytes_max))?;
        registration::warn_of_doubts(namespace, &record, previous.as_ref());
        Ok(summary)
    }

    fn change_resources(
        &mut self,
        namespace: &Namespace,
        change: &ResourceChange,
    ) -> Result<Option<JobSummary>, StoreError> {
        let previous = self.previous(namespace)?.ok_or_else(|| unknown(namespace))?;
        let record = registration::with_resources(namespace, &self.options.registration, &previous, change)?;
        record.map(|record| self.register_record(namespace, &record)).transpose()
    }

    fn share_among(&mut self, namespace: &Namespace, processes: u32) {
        if let Some(data) = self.namespaces.get_mut(namespace) {
            data.writer.share_among(processes);
        }
    }

    fn commit(
        &mut self,
        namespace: &Namespace,
        rank: u32,
        origin: Origin,
        values: &[Posted],
    ) -> Result<Committed, StoreError> {
        let data = self.shared(namespace)?;
        match values.iter().any(|posted| posted.key.as_str() == QUALIFIED_VALUE) {
            true => data.append_block(rank, origin, &values.iter().map(stored).collect::<Vec<_>>()),
            false => data.append_block(rank, origin, values),
        }
    }

    fn prepare_some(&mut self, namespace: &Namespace, size_bytes: u64) -> bool {
        self.shared(namespace).is_ok_and(|data| data.prepare_some(size_bytes))
    }

    fn take_arrival(
        &mut self,
        namespace: &Namespace,
        rank: u32,
        entries: &[LentEntry<'_>],
    ) -> Result<usize, StoreError> {
        let data = self.shared(namespace)?;
        if !entries.iter().any(|entry| entry.key.as_str() == QUALIFIED_VALUE) {
            return data.take_arrival(rank, entries);
        }
        let posted = |entry: &LentEntry<'_>| {
            let (key, value) = qualified::stored(entry.key.to_key(), entry.value.to_value());
            Posted { scope: Scope::Remote, key, value }
        };
        data.publish_arrivals()?;
        data.append_block(rank, Origin::Remote, &entries.iter().map(posted).collect::<Vec<_>>())?;
        Ok(0)
    }

    fn publish_arrivals(&mut self, namespace: &Namespace) -> Result<usize, StoreError> {
        self.namespaces.get_mut(namespace).ok_or_else(|| unknown(namespace))?.publish_arrivals()
    }

    fn deregister(&mut self, namespace: &Namespace) -> bool {
        let Some(mut data) = self.namespaces.remove(namespace) else { return false };
        data.writer.retire();
        true
    }

    fn is_registered(&self, namespace: &Namespace) -> bool {
        self.namespaces.contains_key(namespace)
    }

    fn lookup(&self, namespace: &Namespace, lookup: &Lookup<'_>) -> Result<Value, LookupError> {
        let reader = self.known_reader(namespace)?;
        let value = reader.get(lookup).and_then(|value| Ok(value.to_value()?));
        value.map_err(|error| lookup_error(namespace, lookup.key.name, lookup.rank, error))
    }

    fn locate(&self, namespace: &Namespace, lookup: &Lookup<'_>) -> Result<(), LookupError> {
        let found = self.known_reader(namespace)?.get(lookup).map(drop);
        found.map_err(|error| lookup_error(namespace, lookup.key.name, lookup.rank, error))
    }

    fn lookup_qualified(
        &self,
        namespace: &Namespace,
        lookup: &Lookup<'_>,
        qualifiers: &[Info],
    ) -> Result<Value, LookupError> {
        let unknown = || LookupError::UnknownNamespace { namespace: namespace.clone() };
        let data = self.namespaces.get(namespace).ok_or_else(unknown)?;
        let value = data.writer.lookup_qualified(lookup, qualifiers);
        value.map_err(|error| lookup_error(namespace, lookup.key.name, lookup.rank, error))
    }

    fn qualified_values(&self, namespace: &Namespace) -> usize {
        self.namespaces.get(namespace).map_or(0, |data| data.writer.qualified.examined_max())
    }

    fn posted(&self, namespace: &Namespace, rank: u32, audience: Audience) -> Result<Vec<Kval>, LookupError> {
        let posted = self.known_reader(namespace)?.posted(rank, Some(audience));
        copied(namespace, posted.map_err(|error| damaged(namespace, &error))?)
    }

    fn posted_of(
        &self,
        namespace: &Namespace,
        rank: u32,
        audience: Audience,
        keys: &[&str],
    ) -> Result<Vec<Kval>, LookupError> {
        let posted = self.known_reader(namespace)?.posted_of(rank, Some(audience), keys);
        copied(namespace, posted.map_err(|error| damaged(namespace, &error))?)
    }

    fn posted_later(
        &self,
        namespace: &Namespace,
        rank: u32,
        audience: Audience,
        keys: Option<KeySets>,
    ) -> Result<StoredValues, LookupError> {
        self.unread(namespace, SegmentPart::Posted { rank, audience, keys })
    }

    fn job_entries_later(&self, namespace: &Namespace) -> Result<StoredValues, LookupError> {
        self.unread(namespace, SegmentPart::Job)
    }

    fn has_posted(&self, namespace: &Namespace, rank: u32, audience: Audience) -> bool {
        self.known_reader(namespace).is_ok_and(|reader| reader.has_posted(rank, audience).unwrap_or(false))
    }

    fn posted_bytes(&self, namespace: &Namespace, rank: u32, audience: Audience, key: &str) -> usize {
        self.known_reader(namespace).map_or(0, |reader| reader.posted_bytes(rank, audience, key).unwrap_or(0))
    }

    fn posts_at_most(&self, namespace: &Namespace, rank: u32, bytes_max: usize) -> bool {
        let reader = self.known_reader(namespace);
        reader.is_ok_and(|reader| reader.posts_at_most(rank, bytes_max).unwrap_or(false))
    }

    fn described(&self, namespace: &Namespace, rank: u32) -> Result<Vec<Kval>, LookupError> {
        let described = self.known_reader(namespace)?.described(rank);
        copied(namespace, described.map_err(|error| damaged(namespace, &error))?)
    }

    fn job_entries(&self, namespace: &Namespace) -> Result<Vec<Kval>, LookupError> {
        let entries = self.known_reader(namespace)?.job_entries();
        entries.map_err(|damage| damaged(namespace, &damage))
    }
}

/// Limit of processes and nodes of a job that begins in private memory: larger jobs would probably move soon.
const PRIVATE_PARTS_MAX: u32 = 1024;
/// Address space of a private namespace, in bytes. Many use little of it.
const PRIVATE_BYTES_MAX: u64 = 256 << 10;

/// With its stored name.
fn stored(posted: &Posted) -> Posted {
    let (key, value) = qualified::stored(posted.key.clone(), posted.value.clone());
    Posted { scope: posted.scope, key, value }
}

fn unknown(namespace: &Namespace) -> StoreError {
    StoreError::UnknownNamespace { namespace: namespace.clone() }
}

fn lookup_error(namespace: &Namespace, key: &str, rank: Rank, error: ReadError) -> LookupError {
    let (key, whose) = (key.to_owned(), format!("{namespace}:{rank}"));
    match error {
        ReadError::NotFound => LookupError::NotFound { key, whose },
        ReadError::OutsideScope => LookupError::OutsideScope { key, whose },
        ReadError::Damaged(damage) => damaged(namespace, &damage),
    }
}

/// The size of the job: the host's, else that of the record. Ranks of a process map beyond `PMIX_JOB_SIZE` count.
fn summary(record: &JobRecord) -> JobSummary {
    let said = |key: &str| record.job_value(key).and_then(Value::as_u32);
    let derived = |count: u32| (count > 0).then_some(count);
    JobSummary {
        job_size: said(keys::JOB_SIZE.name()).max(derived(record.rank_count)),
        node_count: said(keys::NUM_NODES.name()).or(derived(record.node_count)),
    }
}
