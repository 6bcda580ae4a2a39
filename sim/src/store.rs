//! The datastore of a simulated server: the real one on memory of this process, and the place where defects of a store
//! are planted.

use std::sync::Arc;

use modex::gds::registration::{Description, ResourceChange};
use modex::gds::{
    Audience, Committed, Datastore, JobSummary, KeySets, Lookup, LookupError, NamespaceReader, Origin, Posted, Store,
    StoreError, StoreOptions, StoredValues,
};
use modex::types::{Info, Kval, LentEntry, Namespace, Scope, Value};

use super::faults::Canary;

#[derive(Debug)]
pub(super) struct SimStore {
    store: Store,
    canary: Option<Canary>,
    /// How many commits there were, to plant a defect in a late one.
    commits: u64,
    /// A planted defect: a job stays in the store.
    leaked: bool,
}

impl SimStore {
    /// A store with `span_bytes` of address space for each namespace. The kernel takes memory page by page as it is
    /// written.
    pub(super) fn new(hostname: &str, span_bytes: u64, canary: Option<Canary>) -> Self {
        let options = StoreOptions { span_bytes, ..StoreOptions::private(hostname) };
        Self { store: Store::new(options), canary, commits: 0, leaked: false }
    }

    /// A mapping of a namespace's segment, which outlives the store.
    pub(super) fn map(&self, namespace: &Namespace) -> Option<Arc<NamespaceReader>> {
        let handle = self.store.reader(namespace)?.segment().handle();
        NamespaceReader::attach(handle).ok().map(Arc::new)
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.leaked && self.store.namespaces().next().is_none()
    }

    fn planted(&self, value: &mut Posted) {
        match self.canary {
            Some(Canary::ScopeLeak) if value.scope == Scope::Local => value.scope = Scope::Global,
            Some(Canary::ChangedValue) if self.commits > 1 => {
                if let Value::Uint64(bits) = &mut value.value {
                    *bits ^= 1 << 40;
                }
            }
            _ => {}
        }
    }
}

impl Datastore for SimStore {
    type Error = StoreError;

    fn register(&mut self, namespace: &Namespace, description: &[Info]) -> Result<JobSummary, StoreError> {
        self.store.register(namespace, description)
    }

    fn register_description(
        &mut self,
        namespace: &Namespace,
        description: &Description,
    ) -> Result<JobSummary, StoreError> {
        self.store.register_description(namespace, description)
    }

    fn change_resources(
        &mut self,
        namespace: &Namespace,
        change: &ResourceChange,
    ) -> Result<Option<JobSummary>, StoreError> {
        self.store.change_resources(namespace, change)
    }

    fn prepare_some(&mut self, namespace: &Namespace, size_bytes: u64) -> bool {
        self.store.prepare_some(namespace, size_bytes)
    }

    fn share_among(&mut self, namespace: &Namespace, processes: u32) {
        self.store.share_among(namespace, processes);
    }

    fn commit(
        &mut self,
        namespace: &Namespace,
        rank: u32,
        origin: Origin,
        values: &[Posted],
    ) -> Result<Committed, StoreError> {
        self.commits += 1;
        match self.canary {
            None => self.store.commit(namespace, rank, origin, values),
            Some(Canary::LostCommit) if origin == Origin::Local && self.commits.is_multiple_of(2) => {
                let for_others = values.iter().filter(|value| value.scope.is_visible_remotely());
                Ok(Committed { is_changed: true, keys_for_others: for_others.map(|value| value.key.clone()).collect() })
            }
            Some(_) => {
                let mut values = values.to_vec();
                values.iter_mut().for_each(|value| self.planted(value));
                self.store.commit(namespace, rank, origin, &values)
            }
        }
    }

    fn deregister(&mut self, namespace: &Namespace) -> bool {
        self.leaked |= self.canary == Some(Canary::Leak);
        self.store.deregister(namespace)
    }

    fn is_registered(&self, namespace: &Namespace) -> bool {
        self.store.is_registered(namespace)
    }

    fn lookup(&self, namespace: &Namespace, lookup: &Lookup<'_>) -> Result<Value, LookupError> {
        self.store.lookup(namespace, lookup)
    }

    fn lookup_qualified(
        &self,
        namespace: &Namespace,
        lookup: &Lookup<'_>,
        qualifiers: &[Info],
    ) -> Result<Value, LookupError> {
        self.store.lookup_qualified(namespace, lookup, qualifiers)
    }

    fn locate(&self, namespace: &Namespace, lookup: &Lookup<'_>) -> Result<(), LookupError> {
        self.store.locate(namespace, lookup)
    }

    fn qualified_values(&self, namespace: &Namespace) -> usize {
        self.store.qualified_values(namespace)
    }

    fn posted(&self, namespace: &Namespace, rank: u32, audience: Audience) -> Result<Vec<Kval>, LookupError> {
        self.store.posted(namespace, rank, audience)
    }

    fn posted_of(
        &self,
        namespace: &Namespace,
        rank: u32,
        audience: Audience,
        keys: &[&str],
    ) -> Result<Vec<Kval>, LookupError> {
        self.store.posted_of(namespace, rank, audience, keys)
    }

    fn posted_later(
        &self,
        namespace: &Namespace,
        rank: u32,
        audience: Audience,
        keys: Option<KeySets>,
    ) -> Result<StoredValues, LookupError> {
        self.store.posted_later(namespace, rank, audience, keys)
    }

    fn job_entries_later(&self, namespace: &Namespace) -> Result<StoredValues, LookupError> {
        self.store.job_entries_later(namespace)
    }

    fn has_posted(&self, namespace: &Namespace, rank: u32, audience: Audience) -> bool {
        self.store.has_posted(namespace, rank, audience)
    }

    fn posted_bytes(&self, namespace: &Namespace, rank: u32, audience: Audience, key: &str) -> usize {
        self.store.posted_bytes(namespace, rank, audience, key)
    }

    fn posts_at_most(&self, namespace: &Namespace, rank: u32, bytes_max: usize) -> bool {
        self.store.posts_at_most(namespace, rank, bytes_max)
    }

    fn take_arrival(
        &mut self,
        namespace: &Namespace,
        rank: u32,
        entries: &[LentEntry<'_>],
    ) -> Result<usize, StoreError> {
        self.store.take_arrival(namespace, rank, entries)
    }

    fn publish_arrivals(&mut self, namespace: &Namespace) -> Result<usize, StoreError> {
        self.store.publish_arrivals(namespace)
    }

    fn described(&self, namespace: &Namespace, rank: u32) -> Result<Vec<Kval>, LookupError> {
        self.store.described(namespace, rank)
    }

    fn job_entries(&self, namespace: &Namespace) -> Result<Vec<Kval>, LookupError> {
        self.store.job_entries(namespace)
    }
}
