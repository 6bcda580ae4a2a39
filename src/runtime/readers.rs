//! The segments that a session reads: its server's, or those it filled itself with what its server told.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

use super::link::Link;
use crate::gds::NamespaceReader;
use crate::shmem::{ReaderHandle, SegmentState};
use crate::types::Namespace;

/// A segment to read.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) reader: NamespaceReader,
    /// Whether it is the server's own, which holds all that the server knows. What this process was told may be a part.
    pub(super) is_servers: bool,
}

impl Source {
    /// Whether nothing will be published in it any more.
    fn is_of_the_past(&self) -> bool {
        self.reader.segment().state() == Ok(SegmentState::Retired)
    }
}

/// The segments of other namespaces. Those who read share the lock; it is written only when there is news.
#[derive(Debug)]
pub(super) struct ForeignSources {
    own: Namespace,
    known: RwLock<BTreeMap<Namespace, Arc<Source>>>,
    /// What the server has announced, and how much of it has been looked at.
    news: Arc<AtomicU64>,
    seen: AtomicU64,
}

impl ForeignSources {
    pub(super) fn new(own: Namespace, link: &Link) -> Self {
        let news = link.with(|state| state.segment_news());
        Self { own, known: RwLock::default(), news, seen: AtomicU64::new(0) }
    }

    /// The segment of another namespace, if the server handed it over or told of the namespace. One that it has taken back
    /// is let go: mapped as long as somebody reads, and no longer.
    pub(super) fn source(&self, namespace: &Namespace, link: &Link) -> Option<Arc<Source>> {
        // Acquire pairs with the Release of who announces; what was announced is behind the link's lock.
        let news = self.news.load(Ordering::Acquire);
        if news != self.seen.load(Ordering::Acquire) {
            self.take_news(link);
            self.seen.store(news, Ordering::Release);
        }
        let known = self.known.read().get(namespace).map(Arc::clone);
        match known {
            // The server has ended that job, or this process has forgotten what it was told. Whoever has the name now, the
            // server knows.
            Some(source) if source.is_of_the_past() => drop(self.known.write().remove(namespace)),
            Some(source) => return Some(source),
            None => {}
        }
        let reader = link.with(|state| state.received.job(namespace))?;
        let source = Arc::new(Source { reader, is_servers: false });
        Some(Arc::clone(self.known.write().entry(namespace.clone()).or_insert(source)))
    }

    fn take_news(&self, link: &Link) {
        // Under the lock: who finds nothing new must find what is new here.
        let mut known = self.known.write();
        for (namespace, announced) in link.with(|state| state.take_segments_but(&self.own)) {
            match announced.and_then(|descriptor| map_segment(&namespace, descriptor)) {
                Some(reader) => drop(known.insert(namespace, Arc::new(Source { reader, is_servers: true }))),
                None => drop(known.remove(&namespace)),
            }
        }
    }
}

/// Maps a segment. One that can't be read, or is labelled for another namespace than it was announced for, is none: the
/// server is asked for each value instead.
pub(super) fn map_segment(namespace: &Namespace, descriptor: OwnedFd) -> Option<NamespaceReader> {
    match NamespaceReader::attach(ReaderHandle::from_descriptor(descriptor)) {
        Ok(reader) if reader.namespace() == namespace.as_str() => return Some(reader),
        Ok(reader) => tracing::warn!(%namespace, label = reader.namespace(), "the segment is another namespace's"),
        Err(error) => tracing::warn!(%namespace, %error, "a segment can't be read; asking the server instead"),
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gds::{Publish, Store, StoreOptions};

    #[test]
    fn a_segment_serves_the_namespace_on_its_label_only() {
        // Announcement and descriptor travel side by side. Were they ever paired wrongly, one job's values would be
        // taken for another's.
        let [job, other] = ["job", "other"].map(|name| Namespace::new(name).unwrap());
        let mut store = Store::new(StoreOptions::new("srv.0".to_owned(), "node0"));
        store.register(&job, &[]).unwrap();
        let mut descriptor = || store.handle(&job).unwrap().into_descriptor().unwrap();
        assert!(map_segment(&job, descriptor()).is_some());
        assert!(map_segment(&other, descriptor()).is_none());
    }
}
