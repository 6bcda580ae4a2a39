use std::collections::BTreeMap;

use super::fetched::Fetched;
use super::readers::Source;
use super::session::Session;
use crate::client::{Miss, Question, Stores};
use crate::gds::{Audience, Lookup, NamespaceReader, ReadError};
use crate::types::{Info, Key, Namespace, ProcId, Rank, Scope, Value};

/// The places of a session where a Get looks without asking the server.
pub(super) struct SessionStores<'a>(pub(super) &'a Session);

impl<'a> Stores for SessionStores<'a> {
    type Value = Fetched<'a>;

    fn staged(&self, question: &Question<'_>) -> Option<Fetched<'a>> {
        let is_own_namespace = question.namespace == &self.0.proc().namespace;
        if is_own_namespace && !self.0.may_be_staged(question.rank) {
            return None;
        }
        let proc = ProcId::new(question.namespace.clone(), question.rank);
        let staging = self.0.staging();
        staging.find(&proc, question.key?.name, question.scope).cloned().map(Fetched::shared)
    }

    fn published(&self, question: &Question<'_>) -> Result<Fetched<'a>, Miss> {
        let own = self.0.proc();
        if question.namespace == &own.namespace {
            let source = self.0.own_source().ok_or(Miss::NotMapped)?;
            let reader = &source.reader;
            if question.key.is_none() && question.scope.is_none() && question.rank == own.rank {
                // No scope excludes a process from what it posted itself.
                let all = read_all(reader, own.rank, &[Some(Audience::SameNode), Some(Audience::OtherNodes)]);
                return all.map_err(|miss| final_or_not(miss, source));
            }
            return read(reader, question).map_err(|miss| final_or_not(miss, source));
        }
        let source = self.0.foreign_source(question.namespace).ok_or(Miss::NotMapped)?;
        let found = read(&source.reader, question).map_err(|miss| final_or_not(miss, &source))?;
        // The mapping of another namespace is not tied to the session's life, so its values are copied.
        let value = found.into_value().map_err(|_| Miss::Damaged)?;
        Ok(Fetched::owned(value))
    }

    fn cached(&self, question: &Question<'_>) -> Option<Fetched<'a>> {
        let proc = ProcId::new(question.namespace.clone(), question.rank);
        let key = question.key?.name;
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

/// What a server told is not all it knows.
const fn final_or_not(miss: Miss, source: &Source) -> Miss {
    match miss {
        Miss::NotFound if !source.is_servers => Miss::NotMapped,
        miss => miss,
    }
}

fn read<'a>(reader: &'a NamespaceReader, question: &Question<'_>) -> Result<Fetched<'a>, Miss> {
    let audience = match question.scope {
        None | Some(Scope::Global) => None,
        Some(Scope::Local) => Some(Audience::SameNode),
        Some(Scope::Remote) => Some(Audience::OtherNodes),
        // Never leaves the process that put it, so no segment holds it.
        Some(Scope::Internal) => return Err(Miss::NotFound),
    };
    let Some(key) = question.key else { return read_all(reader, question.rank, &[audience]) };
    let lookup = Lookup { rank: question.rank, key, realm: question.realm, audience };
    reader.get(&lookup).map(Fetched::published).map_err(miss)
}

/// Everything a process posted to one of the audiences, as an array of infos; of a key with a value for each of them
/// the one for the first.
fn read_all<'a>(reader: &NamespaceReader, rank: Rank, audiences: &[Option<Audience>]) -> Result<Fetched<'a>, Miss> {
    let rank = rank.process().ok_or(Miss::NotFound)?;
    let mut values = BTreeMap::new();
    for audience in audiences {
        for (name, value) in reader.posted(rank, *audience).map_err(miss)? {
            values.entry(name).or_insert(value);
        }
    }
    let mut entries = Vec::with_capacity(values.len());
    for (name, value) in values {
        let key = Key::new(name.to_owned()).map_err(|_| Miss::Damaged)?;
        entries.push(Info::new(key, value.to_value().map_err(|_| Miss::Damaged)?));
    }
    if entries.is_empty() { Err(Miss::NotFound) } else { Ok(Fetched::owned(Value::info_array(entries))) }
}

const fn miss(error: ReadError) -> Miss {
    match error {
        ReadError::NotFound => Miss::NotFound,
        ReadError::OutsideScope => Miss::OutsideScope,
        ReadError::Damaged(_) => Miss::Damaged,
    }
}
