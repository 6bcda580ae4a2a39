//! Data from the socket, kept for Gets.

use std::sync::Arc;

use crate::client::{CacheLimits, JobStore, ValueCache};
use crate::gds::{KeyRef, Lookup, NamespaceReader, RealmRequest};
use crate::proto::{Dialect, RankData};
use crate::types::{Kval, Namespace, ProcId, Rank, Value};

/// Values and descriptions of jobs that a server sent.
#[derive(Debug)]
pub(super) struct ReceivedData {
    cache: ValueCache,
    jobs: Option<JobStore>,
    hostname: String,
    dialect: Dialect,
}

impl ReceivedData {
    /// No data yet. `hostname` is the server's name for this node.
    pub(super) const fn new(hostname: String, dialect: Dialect) -> Self {
        Self { cache: ValueCache::new(CacheLimits::DEFAULT), jobs: None, hostname, dialect }
    }

    /// Takes the data of a reply. Descriptions of jobs go to the job store, single values to the cache.
    pub(super) fn receive(&mut self, data: &[RankData]) {
        for of in data {
            // A missing value is no description, under any key.
            let describes = |entry: &Kval| JobStore::is_structured(&entry.key) && entry.value != Value::Undefined;
            let is_description = of.proc.rank == Rank::Wildcard && of.entries.iter().any(describes);
            if !is_description {
                self.cache.receive(std::slice::from_ref(of));
                self.forget_denied(of);
                continue;
            }
            let namespace = &of.proc.namespace;
            let jobs = self.jobs.get_or_insert_with(|| JobStore::new(&self.hostname));
            if let Err(error) = jobs.receive(namespace, &of.entries, self.dialect) {
                tracing::warn!(%namespace, %error, "the server's description of a job is not consistent");
                self.cache.receive(&JobStore::spread(&of.proc, &of.entries, self.dialect));
            }
        }
    }

    /// The newest value of a process or job.
    pub(super) fn find(&self, proc: &ProcId, key: &str) -> Option<Arc<Value>> {
        self.cache.find(proc, key).map(Arc::clone)
    }

    /// The description of a job, if the server sent one.
    pub(super) fn job(&self, namespace: &Namespace) -> Option<NamespaceReader> {
        self.jobs.as_ref()?.reader(namespace)
    }

    /// Forgets a job, because the server has newer values.
    pub(super) fn forget(&mut self, namespace: &Namespace) {
        self.cache.forget_namespace(namespace);
        if let Some(jobs) = &mut self.jobs {
            jobs.forget(namespace);
        }
    }

    /// Drops a description with a value that the server no longer has: it is outdated, or of an earlier job of that
    /// name.
    fn forget_denied(&mut self, of: &RankData) {
        let Some(jobs) = &mut self.jobs else { return };
        let mut denied = of.entries.iter().filter(|entry| entry.value == Value::Undefined).peekable();
        if denied.peek().is_none() {
            return;
        }
        let Some(reader) = jobs.reader(&of.proc.namespace) else { return };
        let is_described = |entry: &Kval| {
            let key = KeyRef::new(entry.key.as_str());
            let lookup = Lookup { rank: of.proc.rank, key, realm: RealmRequest::Default, audience: None };
            reader.get(&lookup).is_ok()
        };
        if denied.any(is_described) {
            jobs.forget(&of.proc.namespace);
        }
    }

    /// Forgets the values of processes, because they may have posted newer ones.
    pub(super) fn outdate(&mut self) {
        self.cache.forget_processes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Info, Key};

    #[test]
    fn an_undefined_array_is_no_description_of_a_job() {
        let other = Namespace::new("other").unwrap();
        let said = |entries: &[(&'static str, Value)]| {
            let entries = entries.iter().map(|(key, value)| Kval { key: Key::from_static(key), value: value.clone() });
            [RankData { proc: ProcId { namespace: other.clone(), rank: Rank::Wildcard }, entries: entries.collect() }]
        };
        let node = Value::info_array(vec![Info::new(Key::from_static("pmix.hname"), "n0")]);
        let description = said(&[("pmix.job.size", Value::Uint32(1)), ("pmix.node.arr", node)]);
        for key in ["pmix.node.arr", "pmix.pdata", "pmix.job.arr"] {
            let mut received = ReceivedData::new("n0".to_owned(), Dialect::OWN);
            received.receive(&said(&[(key, Value::Undefined)]));
            assert!(received.job(&other).is_none(), "{key}: nobody has described it");
            received.receive(&description);
            assert!(received.job(&other).is_some());
            received.receive(&said(&[(key, Value::Undefined)]));
            assert!(received.job(&other).is_some(), "{key}: no server answers with it alone");
        }
    }
}
