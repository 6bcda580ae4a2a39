//! The reference model of a datastore: plain ordered maps with the semantics of [`Datastore`].
//!
//! Property tests and simulations drive the server core with it. Tests compare real segments with it. It takes
//! descriptions literally: loose entries and job arrays are job-level values, process arrays are values of their rank.
//! It expands no maps, derives nothing, and knows no realm but job and process.

use std::collections::{BTreeMap, BTreeSet};

use super::registration::ResourceChange;
use super::{
    Audience, Committed, Datastore, JobSummary, KeyRef, Lookup, LookupError, Origin, Posted, RealmRequest, qualified,
};
use crate::types::{AsStatus, Info, Key, Kval, Namespace, Rank, Status, Value, footprint};

/// A datastore of ordered maps. `Clone` makes a snapshot.
#[derive(Clone, Debug, Default)]
pub struct MapStore {
    namespaces: BTreeMap<Namespace, Job>,
    values_max: Option<usize>,
}

/// Why the model refused a change. Earlier data is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MapStoreError {
    /// The namespace is not registered.
    #[error("namespace {namespace} is not registered; register it before committing to it")]
    UnknownNamespace {
        /// The namespace.
        namespace: Namespace,
    },
    /// The rank is not one of the job's.
    #[error("rank {rank} is not in namespace {namespace} of {job_size} processes")]
    RankOutOfRange {
        /// The namespace.
        namespace: Namespace,
        /// The refused rank.
        rank: u32,
        /// Number of processes of the job.
        job_size: u32,
    },
    /// The bound set by [`MapStore::with_values_max`] is reached.
    #[error("the store holds {held} values and may hold {values_max}; {refused} more were refused")]
    Full {
        /// Values held now.
        held: usize,
        /// Values that may be held.
        values_max: usize,
        /// Values refused.
        refused: usize,
    },
}

#[derive(Clone, Debug, Default)]
struct Job {
    summary: JobSummary,
    job_level: BTreeMap<Key, Value>,
    described: BTreeMap<u32, BTreeMap<Key, Value>>,
    /// The commits of each rank, oldest first.
    posted: BTreeMap<u32, Vec<(Origin, Posted)>>,
}

impl Job {
    /// The described values of a rank, or of the job.
    fn described_of(&mut self, rank: Option<u32>) -> &mut BTreeMap<Key, Value> {
        match rank {
            Some(rank) => self.described.entry(rank).or_default(),
            None => &mut self.job_level,
        }
    }

    fn summarize(&mut self) {
        let number = |key: &str| self.job_level.get(key).and_then(Value::as_u32);
        self.summary.job_size = number("pmix.job.size").or(self.summary.job_size);
        self.summary.node_count = number("pmix.num.nodes").or(self.summary.node_count);
    }
}

/// The values of a description, each with its rank or as one of the job.
fn described(description: &[Info]) -> Vec<(Option<u32>, Key, Value)> {
    let mut found = Vec::new();
    for info in description {
        match (info.key.as_str(), info_entries(&info.value)) {
            ("pmix.job.arr", Some(entries)) => found.extend(entries.into_iter().map(|(key, value)| (None, key, value))),
            ("pmix.pdata", Some(entries)) => {
                let rank = entries.iter().find(|(key, _)| key.as_str() == "pmix.rank");
                if let Some(rank) = rank.and_then(|(_, value)| value.as_u32()) {
                    let stored = entries.into_iter().map(|(key, value)| qualified::stored(key, value));
                    found.extend(stored.map(|(key, value)| (Some(rank), key, value)));
                }
            }
            _ => found.push((None, info.key.clone(), info.value.clone())),
        }
    }
    found
}

impl MapStore {
    /// An empty store without a bound.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty store that refuses commits once it holds `values_max` posted values, to simulate a lack of memory.
    #[must_use]
    pub fn with_values_max(values_max: usize) -> Self {
        Self { values_max: Some(values_max), ..Self::default() }
    }

    /// The newest value visible under the lookup's rules, found by linear search.
    fn search(&self, namespace: &Namespace, job: &Job, lookup: &Lookup<'_>) -> Result<Value, LookupError> {
        let key = lookup.key.name;
        let not_found = || LookupError::NotFound { key: key.to_owned(), whose: format!("{namespace}:{}", lookup.rank) };
        match lookup.rank {
            Rank::Wildcard => job.job_level.get(key).cloned().ok_or_else(not_found),
            Rank::Process(rank) => {
                if let Some(value) = job.described.get(&rank).and_then(|entries| entries.get(key)) {
                    return Ok(value.clone());
                }
                newest(job.posted.get(&rank).into_iter().flatten(), lookup).unwrap_or_else(|| Err(not_found()))
            }
            Rank::Undefined => {
                let of_ranks = job.posted.values().rev().filter_map(|posted| newest(posted.iter(), lookup));
                let by_success = of_ranks.reduce(|one, other| if one.is_ok() { one } else { other });
                by_success.unwrap_or_else(|| Err(not_found()))
            }
            Rank::Invalid | Rank::LocalPeers | Rank::LocalNode => Err(not_found()),
        }
    }

    /// The newest value of each key that the audience may see, by stored name.
    fn newest_posted(
        &self,
        namespace: &Namespace,
        rank: u32,
        audience: Audience,
    ) -> Result<BTreeMap<Key, Value>, LookupError> {
        let unknown = || LookupError::UnknownNamespace { namespace: namespace.clone() };
        let job = self.namespaces.get(namespace).ok_or_else(unknown)?;
        let posted = job.posted.get(&rank).into_iter().flatten();
        let visible = posted.filter(|(origin, posted)| is_visible(*origin, posted, Some(audience)));
        Ok(visible.map(|(_, posted)| (posted.key.clone(), posted.value.clone())).collect())
    }

    /// The stored names of the qualified values of a key, of all processes, in order.
    fn qualified_names(&self, namespace: &Namespace, key: &str) -> Result<Vec<String>, LookupError> {
        let prefix = &*qualified::prefix(key);
        let unknown = || LookupError::UnknownNamespace { namespace: namespace.clone() };
        let job = self.namespaces.get(namespace).ok_or_else(unknown)?;
        let posted = job.posted.values().flatten().map(|(_, posted)| &posted.key);
        let keys = job.job_level.keys().chain(job.described.values().flat_map(BTreeMap::keys)).chain(posted);
        let names = keys.map(Key::as_str).filter(|name| name.starts_with(prefix)).map(str::to_owned);
        Ok(names.collect::<BTreeSet<String>>().into_iter().collect())
    }

    fn held(&self) -> usize {
        self.namespaces.values().flat_map(|job| job.posted.values()).map(Vec::len).sum()
    }
}

/// The newest visible value of the key; an error if there are values but none is visible; `None` without values, and if
/// the value was removed.
fn newest<'a>(
    entries: impl DoubleEndedIterator<Item = &'a (Origin, Posted)>,
    lookup: &Lookup<'_>,
) -> Option<Result<Value, LookupError>> {
    let mut hidden = false;
    for (origin, posted) in entries.rev().filter(|(_, posted)| posted.key.as_str() == lookup.key.name) {
        if is_visible(*origin, posted, lookup.audience) {
            return (posted.value != Value::Undefined).then(|| Ok(posted.value.clone()));
        }
        hidden = true;
    }
    hidden.then(|| {
        Err(LookupError::OutsideScope { key: lookup.key.name.to_owned(), whose: format!("rank {}", lookup.rank) })
    })
}

fn is_visible(origin: Origin, posted: &Posted, audience: Option<Audience>) -> bool {
    match (audience, origin) {
        (Some(Audience::Nobody), _) => false,
        (Some(Audience::SameNode), _) | (None, Origin::Local) => posted.scope.is_visible_locally(),
        (Some(Audience::OtherNodes), _) | (None, Origin::Remote) => posted.scope.is_visible_remotely(),
    }
}

impl Datastore for MapStore {
    type Error = MapStoreError;

    fn register(&mut self, namespace: &Namespace, description: &[Info]) -> Result<JobSummary, Self::Error> {
        let job = self.namespaces.entry(namespace.clone()).or_default();
        for (rank, key, value) in described(description) {
            job.described_of(rank).insert(key, value);
        }
        job.summarize();
        Ok(job.summary.clone())
    }

    fn change_resources(
        &mut self,
        namespace: &Namespace,
        change: &ResourceChange,
    ) -> Result<Option<JobSummary>, Self::Error> {
        let unknown = || MapStoreError::UnknownNamespace { namespace: namespace.clone() };
        let job = self.namespaces.get_mut(namespace).ok_or_else(unknown)?;
        // The host wants no data of a job without any.
        if job.job_level.is_empty() && job.described.is_empty() {
            return Ok(None);
        }
        let before = (job.job_level.clone(), job.described.clone());
        for (rank, key, value) in described(&change.before) {
            let values = job.described_of(rank);
            if values.get(&key) == Some(&value) {
                values.remove(&key);
            }
        }
        for (rank, key, value) in described(&change.after) {
            job.described_of(rank).entry(key).or_insert(value);
        }
        job.described.retain(|_, values| !values.is_empty());
        job.summarize();
        Ok((before != (job.job_level.clone(), job.described.clone())).then(|| job.summary.clone()))
    }

    fn commit(
        &mut self,
        namespace: &Namespace,
        rank: u32,
        origin: Origin,
        values: &[Posted],
    ) -> Result<Committed, Self::Error> {
        let held = self.held();
        let values_max = self.values_max.unwrap_or(usize::MAX);
        let job = self
            .namespaces
            .get_mut(namespace)
            .ok_or_else(|| MapStoreError::UnknownNamespace { namespace: namespace.clone() })?;
        if let Some(job_size) = job.summary.job_size.filter(|&job_size| rank >= job_size) {
            return Err(MapStoreError::RankOutOfRange { namespace: namespace.clone(), rank, job_size });
        }
        if held.saturating_add(values.len()) > values_max {
            return Err(MapStoreError::Full { held, values_max, refused: values.len() });
        }
        let block = job.posted.entry(rank).or_default();
        let mut committed = Committed::default();
        for value in values {
            let is_new_for = |audience| {
                let realm = RealmRequest::Default;
                let lookup = Lookup { rank: Rank::from(rank), key: KeyRef::new(value.key.as_str()), realm, audience };
                match newest(block.iter(), &lookup) {
                    Some(Ok(known)) => known != value.value,
                    _ => value.value != Value::Undefined,
                }
            };
            let audiences = [None, Some(Audience::SameNode), Some(Audience::OtherNodes)];
            if audiences.into_iter().any(|audience| is_visible(origin, value, audience) && is_new_for(audience)) {
                block.retain(|(_, old)| old.key != value.key || old.scope != value.scope);
                block.push((origin, value.clone()));
                committed.is_changed = true;
                let key = value.scope.is_visible_remotely().then(|| value.key.clone());
                committed.keys_for_others.extend(key);
            }
        }
        Ok(committed)
    }

    fn deregister(&mut self, namespace: &Namespace) -> bool {
        self.namespaces.remove(namespace).is_some()
    }

    fn is_registered(&self, namespace: &Namespace) -> bool {
        self.namespaces.contains_key(namespace)
    }

    fn lookup(&self, namespace: &Namespace, lookup: &Lookup<'_>) -> Result<Value, LookupError> {
        match self.namespaces.get(namespace) {
            Some(job) => self.search(namespace, job, lookup),
            None => Err(LookupError::UnknownNamespace { namespace: namespace.clone() }),
        }
    }

    /// The reference for indexes: goes through all qualified values of the key.
    fn lookup_qualified(
        &self,
        namespace: &Namespace,
        lookup: &Lookup<'_>,
        qualifiers: &[Info],
    ) -> Result<Value, LookupError> {
        let (key, names) = (lookup.key.name, self.qualified_names(namespace, lookup.key.name)?);
        let best_for = |audience| {
            let found = names.iter().filter_map(|name| {
                self.lookup(namespace, &Lookup { key: KeyRef::new(name), audience, ..*lookup }).ok()
            });
            qualified::best(key, qualifiers, found)
        };
        let is_for_others = || [Audience::SameNode, Audience::OtherNodes].map(Some).map(best_for) != [None, None];
        let (stored, whose) = (key.to_owned(), format!("{namespace}:{}", lookup.rank));
        match best_for(lookup.audience) {
            Some(value) => Ok(value),
            None if is_for_others() => Err(LookupError::OutsideScope { key: stored, whose }),
            None => Err(LookupError::NotFound { key: stored, whose }),
        }
    }

    /// Each name is searched among all values.
    fn qualified_values(&self, namespace: &Namespace) -> usize {
        let posted = self.namespaces.get(namespace).into_iter().flat_map(|job| job.posted.values().flatten());
        let names = posted.clone().filter(|(_, posted)| qualified::is_qualified(posted.key.as_str()));
        names.count().saturating_mul(posted.count())
    }

    fn posted(&self, namespace: &Namespace, rank: u32, audience: Audience) -> Result<Vec<Kval>, LookupError> {
        let newest = self.newest_posted(namespace, rank, audience)?.into_iter();
        let readable = newest.filter(|(_, value)| audience == Audience::OtherNodes || *value != Value::Undefined);
        Ok(readable.map(|(key, value)| Kval { key: qualified::public_key(key), value }).collect())
    }

    fn posted_of(
        &self,
        namespace: &Namespace,
        rank: u32,
        audience: Audience,
        keys: &[&str],
    ) -> Result<Vec<Kval>, LookupError> {
        let newest = self.newest_posted(namespace, rank, audience)?;
        let found = keys.iter().filter_map(|name| newest.iter().find(|(key, _)| key.as_str() == *name));
        Ok(found.map(|(key, value)| Kval { key: qualified::public_key(key.clone()), value: value.clone() }).collect())
    }

    fn posts_at_most(&self, namespace: &Namespace, rank: u32, bytes_max: usize) -> bool {
        let Some(job) = self.namespaces.get(namespace) else { return false };
        let values = job.posted.get(&rank).into_iter().flatten().map(|(_, posted)| &posted.value);
        values.map(|value| footprint(value).unwrap_or(usize::MAX)).fold(0, usize::saturating_add) <= bytes_max
    }

    fn described(&self, namespace: &Namespace, rank: u32) -> Result<Vec<Kval>, LookupError> {
        let job = self
            .namespaces
            .get(namespace)
            .ok_or_else(|| LookupError::UnknownNamespace { namespace: namespace.clone() })?;
        let entries = job.described.get(&rank).into_iter().flatten();
        Ok(entries.map(|(key, value)| Kval { key: qualified::public_key(key.clone()), value: value.clone() }).collect())
    }

    fn job_entries(&self, namespace: &Namespace) -> Result<Vec<Kval>, LookupError> {
        let job = self
            .namespaces
            .get(namespace)
            .ok_or_else(|| LookupError::UnknownNamespace { namespace: namespace.clone() })?;
        let job_level = job.job_level.iter().map(|(key, value)| Kval { key: key.clone(), value: value.clone() });
        let ranks = job.described.values().map(|entries| {
            let infos = entries.iter().map(|(key, value)| Info::new(key.clone(), value.clone())).collect();
            Kval { key: Key::from_static("pmix.pdata"), value: Value::info_array(infos) }
        });
        Ok(job_level.chain(ranks).collect())
    }
}

impl AsStatus for MapStoreError {
    fn status(&self) -> Status {
        match self {
            Self::UnknownNamespace { .. } => Status::ERR_NOT_FOUND,
            Self::RankOutOfRange { .. } => Status::ERR_BAD_PARAM,
            Self::Full { .. } => Status::ERR_OUT_OF_RESOURCE,
        }
    }
}

/// The entries of an array of infos.
fn info_entries(value: &Value) -> Option<Vec<(Key, Value)>> {
    let Value::DataArray(array) = value else { return None };
    let entry = |element: &Value| match element {
        Value::Info(info) => Some((info.key.clone(), info.value.clone())),
        _ => None,
    };
    array.elements.iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gds::{RealmRequest, Store, StoreOptions};
    use crate::types::Scope;

    fn namespace() -> Namespace {
        Namespace::new("job").unwrap()
    }

    fn store() -> MapStore {
        let mut store = MapStore::new();
        store.register(&namespace(), &[Info::new(Key::from_static("pmix.job.size"), 4u32)]).unwrap();
        store
    }

    fn posted(scope: Scope, key: &'static str, value: u32) -> Posted {
        Posted { scope, key: Key::from_static(key), value: value.into() }
    }

    fn find(store: &MapStore, rank: u32, key: &str) -> Result<Value, LookupError> {
        let lookup = Lookup { rank: rank.into(), key: KeyRef::new(key), realm: RealmRequest::Default, audience: None };
        store.lookup(&namespace(), &lookup)
    }

    fn all_new(key: &'static str) -> Committed {
        Committed { is_changed: true, keys_for_others: vec![Key::from_static(key)] }
    }

    /// The answers of a store about resources before and after changes. Each store gives the same.
    fn resources_of(store: &mut impl Datastore<Error: std::fmt::Debug>) -> Vec<Option<Value>> {
        let info = |key: &'static str, value: u32| Info::new(Key::from_static(key), value);
        let of_rank = |value| {
            let entries = vec![info("pmix.rank", 1), info("site.slot", value)];
            Info::new(Key::from_static("pmix.pdata"), Value::info_array(entries))
        };
        let (own, old) = ([info("pmix.job.size", 4), info("site.own", 1)], [info("site.rack", 1), of_rank(1)]);
        store.register(&namespace(), &[own.as_slice(), &old].concat()).unwrap();
        let mut seen = Vec::new();
        for (before, after) in [
            (old.to_vec(), old.to_vec()),
            // Nothing is left of one that goes, and nothing replaces the job's own.
            (old.to_vec(), vec![info("site.own", 2), info("site.row", 3)]),
            // Other values than the job's change nothing.
            (vec![info("site.row", 4), info("site.own", 2)], vec![info("site.own", 3)]),
            (vec![info("site.row", 3)], vec![of_rank(5)]),
        ] {
            let change = ResourceChange { before: before.into(), after: after.into() };
            let changed = store.change_resources(&namespace(), &change).unwrap();
            seen.push(changed.map(|summary| Value::from(summary.job_size.unwrap())));
            for (rank, key) in [
                (Rank::Wildcard, "site.own"),
                (Rank::Wildcard, "site.rack"),
                (Rank::Wildcard, "site.row"),
                (1.into(), "site.slot"),
            ] {
                let lookup = Lookup { rank, key: KeyRef::new(key), realm: RealmRequest::Default, audience: None };
                seen.push(store.lookup(&namespace(), &lookup).ok());
            }
        }
        let nothing = ResourceChange { before: Vec::new().into(), after: Vec::new().into() };
        assert!(store.change_resources(&Namespace::new("unknown").unwrap(), &nothing).is_err());
        seen
    }

    /// The model said that each change changes something, and knew no resources of processes.
    #[test]
    fn resources_change_as_in_a_real_store() {
        let seen = resources_of(&mut MapStore::new());
        assert_eq!(seen, resources_of(&mut Store::new(StoreOptions::new("server", "n0"))));
        let changes: Vec<bool> = seen.iter().step_by(5).map(Option::is_some).collect();
        assert_eq!(changes, [false, true, false, true]);
    }

    #[test]
    fn the_newest_visible_value_is_found_and_scopes_hide_the_others() {
        let mut store = store();
        store.commit(&namespace(), 1, Origin::Local, &[posted(Scope::Global, "a", 1)]).unwrap();
        store.commit(&namespace(), 1, Origin::Local, &[posted(Scope::Global, "a", 2)]).unwrap();
        store.commit(&namespace(), 1, Origin::Local, &[posted(Scope::Remote, "b", 3)]).unwrap();
        assert_eq!(find(&store, 1, "a"), Ok(2u32.into()));
        assert!(matches!(find(&store, 1, "b"), Err(LookupError::OutsideScope { .. })));
        assert!(matches!(find(&store, 2, "a"), Err(LookupError::NotFound { .. })));
    }

    #[test]
    fn a_commit_of_what_is_there_changes_nothing() {
        let mut store = store();
        assert_eq!(store.commit(&namespace(), 1, Origin::Local, &[posted(Scope::Global, "a", 1)]), Ok(all_new("a")));
        assert_eq!(
            store.commit(&namespace(), 1, Origin::Local, &[posted(Scope::Global, "a", 1)]),
            Ok(Committed::default())
        );
    }

    #[test]
    fn ranks_outside_the_job_and_values_beyond_the_bound_are_refused() {
        let mut store = MapStore::with_values_max(1);
        store.register(&namespace(), &[Info::new(Key::from_static("pmix.job.size"), 4u32)]).unwrap();
        let values = [posted(Scope::Global, "a", 1), posted(Scope::Global, "b", 1)];
        assert!(matches!(
            store.commit(&namespace(), 4, Origin::Local, &values[..1]),
            Err(MapStoreError::RankOutOfRange { rank: 4, job_size: 4, .. })
        ));
        assert!(matches!(
            store.commit(&namespace(), 0, Origin::Local, &values),
            Err(MapStoreError::Full { held: 0, values_max: 1, refused: 2 })
        ));
        assert_eq!(store.commit(&namespace(), 0, Origin::Local, &values[..1]), Ok(all_new("a")));
    }
}
