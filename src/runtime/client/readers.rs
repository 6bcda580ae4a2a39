//! The segments that a session reads: its server's, or its own, filled with data from the server.

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
    /// Whether it is the server's own segment, which holds everything that the server knows. A segment of received data
    /// may be incomplete.
    pub(super) is_servers: bool,
}

impl Source {
    /// Whether nothing will be published in it any more.
    fn is_of_the_past(&self) -> bool {
        self.reader.segment().state() == Ok(SegmentState::Retired)
    }
}

/// The segments of other namespaces. Readers share the lock; it is written only after an announcement.
#[derive(Debug)]
pub(super) struct ForeignSources {
    own: Namespace,
    known: RwLock<BTreeMap<Namespace, Arc<Source>>>,
    /// Announcements of the server, and how many of them have been handled.
    news: Arc<AtomicU64>,
    seen: AtomicU64,
}

impl ForeignSources {
    pub(super) fn new(own: Namespace, link: &Link) -> Self {
        let news = link.with(|state| state.segment_news());
        Self { own, known: RwLock::default(), news, seen: AtomicU64::new(0) }
    }

    /// The segment of another namespace, if the server announced it or sent the namespace's description. A segment that
    /// the server took back is dropped: readers keep it mapped until they end.
    pub(super) fn source(&self, namespace: &Namespace, link: &Link) -> Option<Arc<Source>> {
        // Acquire pairs with the Release of an announcement. The announced segment is behind the link's lock.
        let news = self.news.load(Ordering::Acquire);
        if news != self.seen.load(Ordering::Acquire) {
            self.take_news(link);
            self.seen.store(news, Ordering::Release);
        }
        let known = self.known.read().get(namespace).map(Arc::clone);
        match known {
            // The job has ended, or this process has forgotten its description. Only the server knows the job of that
            // name now.
            Some(source) if source.is_of_the_past() => drop(self.known.write().remove(namespace)),
            Some(source) => return Some(source),
            None => {}
        }
        let reader = link.with(|state| state.received.job(namespace))?;
        let source = Arc::new(Source { reader, is_servers: false });
        Some(Arc::clone(self.known.write().entry(namespace.clone()).or_insert(source)))
    }

    fn take_news(&self, link: &Link) {
        // Holds the lock over all of it: a thread that finds no news must also find the new segments.
        let mut known = self.known.write();
        for (namespace, announced) in link.with(|state| state.take_segments_but(&self.own)) {
            match announced.and_then(|descriptor| map_segment(&namespace, descriptor)) {
                Some(reader) => drop(known.insert(namespace, Arc::new(Source { reader, is_servers: true }))),
                None => drop(known.remove(&namespace)),
            }
        }
    }
}

/// Maps a segment. Rejects one that can't be read, or one with another namespace on its label. The server is then asked
/// for each value.
pub(super) fn map_segment(namespace: &Namespace, descriptor: OwnedFd) -> Option<NamespaceReader> {
    match NamespaceReader::attach(ReaderHandle::from_descriptor(descriptor)) {
        Ok(reader) if reader.namespace() == namespace.as_str() => return Some(reader),
        Ok(reader) => tracing::warn!(%namespace, label = reader.namespace(), "the segment belongs to another \
         namespace"),
        Err(error) => tracing::warn!(%namespace, %error, "a segment can't be read; asking the server instead"),
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gds::{Datastore, Store, StoreOptions};

    #[test]
    fn a_segment_serves_the_namespace_on_its_label_only() {
        // An announcement and its descriptor travel separately. A wrong pair would give one job's values for another's.
        let [job, other] = ["job", "other"].map(|name| Namespace::new(name).unwrap());
        let mut store = Store::new(StoreOptions::new("srv.0".to_owned(), "node0"));
        store.register(&job, &[]).unwrap();
        let mut descriptor = || store.handle(&job).unwrap().into_descriptor().unwrap();
        assert!(map_segment(&job, descriptor()).is_some());
        assert!(map_segment(&other, descriptor()).is_none());
    }
}
