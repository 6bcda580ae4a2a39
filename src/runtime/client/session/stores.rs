use std::collections::BTreeMap;

use super::Session;
use crate::client::{Miss, StagedValue, StoreSearch, Stores};
use crate::gds::{Audience, KeyRef, Lookup, NamespaceReader, ReadError, ValueRef, qualified};
use crate::runtime::client::fetched::Fetched;
use crate::runtime::client::readers::Source;
use crate::types::{DataType, Info, Key, Namespace, ProcId, Rank, Scope, Value};

/// The stores of a session that a Get searches before it asks the server.
pub(super) struct SessionStores<'a>(pub(super) &'a Session);

impl<'a> Stores for SessionStores<'a> {
    type Value = Fetched<'a>;

    fn staged(&self, search: &StoreSearch<'_>) -> Option<Fetched<'a>> {
        let is_own_namespace = search.namespace == &self.0.proc().namespace;
        if is_own_namespace && !self.0.may_be_staged(search.rank) {
            return None;
        }
        let proc = ProcId::new(search.namespace.clone(), search.rank);
        let staging = self.0.staging();
        if !search.qualifiers.is_empty() {
            let found = staging.find_qualified(&proc, search.key?.name, search.qualifiers, search.scope);
            return found.map(Fetched::owned);
        }
        staging.find(&proc, search.key?.name, search.scope).cloned().map(Fetched::shared)
    }

    fn has_removed(&self, search: &StoreSearch<'_>) -> bool {
        let proc = ProcId::new(search.namespace.clone(), search.rank);
        let key = search.key.filter(|_| proc == *self.0.proc() && search.qualifiers.is_empty());
        let is_removed =
            |key: KeyRef<'_>| self.0.staging().look(&proc, key.name, search.scope) == Some(StagedValue::Removed);
        key.is_some_and(is_removed)
    }

    fn published(&self, search: &StoreSearch<'_>) -> Result<Fetched<'a>, Miss> {
        let own = self.0.proc();
        if search.namespace == &own.namespace {
            let source = self.0.own_source().ok_or(Miss::NotMapped)?;
            let reader = &source.reader;
            if search.key.is_none() && search.rank == own.rank {
                return self.everything_own(reader, search.scope).map_err(|miss| final_or_not(miss, source));
            }
            return read(reader, search).map_err(|miss| final_or_not(miss, source));
        }
        let source = self.0.foreign_source(search.namespace).ok_or(Miss::NotMapped)?;
        let found = read(&source.reader, search).map_err(|miss| final_or_not(miss, &source))?;
        // The mapping of another namespace may end before the session, so its values are copied.
        let value = found.into_value().map_err(|_| Miss::Damaged)?;
        Ok(Fetched::owned(value))
    }

    fn described(&self, search: &StoreSearch<'_>) -> Option<Fetched<'a>> {
        let own = self.0.proc();
        let read = |reader: &NamespaceReader| {
            let values = gather(reader, search.rank, &[], IfNothingPosted::Described);
            values.and_then(copied).and_then(infos).ok()
        };
        if search.namespace == &own.namespace {
            return read(&self.0.own_source()?.reader);
        }
        read(&self.0.foreign_source(search.namespace)?.reader)
    }

    fn cached(&self, search: &StoreSearch<'_>) -> Option<Fetched<'a>> {
        let proc = ProcId::new(search.namespace.clone(), search.rank);
        let key = search.key?.name;
        self.0.link().with(|state| state.received.find(&proc, key)).map(Fetched::shared)
    }

    fn is_mapped(&self, namespace: &Namespace) -> bool {
        if namespace == &self.0.proc().namespace {
            self.0.reads_segment()
        } else {
            self.0.foreign_source(namespace).is_some_and(|source| source.is_servers)
        }
    }

    fn is_connected(&self) -> bool {
        self.0.link().with(|state| !state.is_lost())
    }
}

impl<'a> SessionStores<'a> {
    /// All values of this process: its own ones, committed or not, before published ones. Own values of every scope
    /// count, unless the request names a scope.
    fn everything_own(&self, reader: &NamespaceReader, scope: Option<Scope>) -> Result<Fetched<'a>, Miss> {
        let rank = self.0.proc().rank;
        let all = [Some(Audience::SameNode), Some(Audience::OtherNodes)];
        let named = [Audience::of_scope(scope)];
        let audiences = if named == [None] { &all[..] } else { &named };
        let staged: BTreeMap<String, Value> = {
            let staging = self.0.staging();
            staging.own(scope).map(|(key, value)| (key.as_str().to_owned(), Value::clone(value))).collect()
        };
        let published = match scope {
            None if staged.is_empty() => gather(reader, rank, audiences, IfNothingPosted::Nothing)?,
            None => gather(reader, rank, audiences, IfNothingPosted::Described)?,
            Some(_) => posted(reader, rank, audiences)?,
        };
        let mut values = copied(published)?;
        values.extend(staged);
        infos(values)
    }
}

/// A segment of received data may be incomplete, so a missing value may still be at the server.
const fn final_or_not(miss: Miss, source: &Source) -> Miss {
    match miss {
        Miss::NotFound if !source.is_servers => Miss::NotMapped,
        miss => miss,
    }
}

fn read<'a>(reader: &'a NamespaceReader, search: &StoreSearch<'_>) -> Result<Fetched<'a>, Miss> {
    let audience = Audience::of_scope(search.scope);
    let Some(key) = search.key else {
        return match search.scope {
            None => infos(copied(gather(reader, search.rank, &[None], IfNothingPosted::Nothing)?)?),
            // Values of the host have no scope.
            Some(_) => infos(copied(posted(reader, search.rank, &[audience])?)?),
        };
    };
    let lookup = Lookup { rank: search.rank, key, realm: search.realm, audience };
    if search.qualifiers.is_empty() {
        return reader.get(&lookup).map(Fetched::published).map_err(miss);
    }
    let found = reader.get_qualified(&lookup, search.qualifiers).map_err(miss)?;
    qualified::inner(&found).map(Fetched::owned).ok_or(Miss::NotFound)
}

/// The result for a process that has posted nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IfNothingPosted {
    /// Nothing, because it may post later.
    Nothing,
    /// The values that the host registered for it.
    Described,
}

/// Values by key.
type Values<'r> = BTreeMap<&'r str, ValueRef<'r>>;

/// All values of a process: those that it posted to one of the audiences, and those of the host. As in a Get of one
/// key, the host's value of a reserved key counts, and the process's value of any other key.
fn gather<'r>(
    reader: &'r NamespaceReader,
    rank: Rank,
    audiences: &[Option<Audience>],
    if_nothing: IfNothingPosted,
) -> Result<Values<'r>, Miss> {
    let mut values = posted(reader, rank, audiences)?;
    if values.is_empty() && if_nothing == IfNothingPosted::Nothing {
        return Err(Miss::NotFound);
    }
    let rank = rank.process().ok_or(Miss::NotFound)?;
    for (name, value) in reader.described(rank).map_err(|_| Miss::Damaged)? {
        if Key::is_reserved_name(name) {
            values.insert(name, value);
        } else {
            values.entry(name).or_insert(value);
        }
    }
    Ok(values)
}

/// The values that a process posted to one of the audiences. If a key has one for several of them, the first audience
/// counts.
fn posted<'r>(reader: &'r NamespaceReader, rank: Rank, audiences: &[Option<Audience>]) -> Result<Values<'r>, Miss> {
    let rank = rank.process().ok_or(Miss::NotFound)?;
    let mut values = BTreeMap::new();
    for audience in audiences {
        let posted = reader.posted(rank, *audience).map_err(miss)?.into_iter();
        for (name, value) in posted.filter(|(_, value)| value.data_type() != DataType::Undefined) {
            values.entry(name).or_insert(value);
        }
    }
    Ok(values)
}

fn copied(values: Values<'_>) -> Result<BTreeMap<String, Value>, Miss> {
    let copy =
        |(name, value): (&str, ValueRef<'_>)| Ok((name.to_owned(), value.to_value().map_err(|_| Miss::Damaged)?));
    values.into_iter().map(copy).collect()
}

fn infos<'a>(values: BTreeMap<String, Value>) -> Result<Fetched<'a>, Miss> {
    let mut entries = Vec::with_capacity(values.len());
    for (name, value) in values {
        let key = Key::new(qualified::public_name(&name).to_owned()).map_err(|_| Miss::Damaged)?;
        entries.push(Info::new(key, value));
    }
    entries.sort_by(|a, b| a.key.cmp(&b.key));
    if entries.is_empty() { Err(Miss::NotFound) } else { Ok(Fetched::owned(Value::info_array(entries))) }
}

const fn miss(error: ReadError) -> Miss {
    match error {
        ReadError::NotFound => Miss::NotFound,
        ReadError::OutsideScope => Miss::OutsideScope,
        ReadError::Damaged(_) => Miss::Damaged,
    }
}
