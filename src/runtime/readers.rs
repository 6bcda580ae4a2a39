//! The segments that a session reads: its server's, or those it filled itself with what its server told.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use parking_lot::Mutex;

use super::link::Link;
use crate::gds::NamespaceReader;
use crate::shmem::ReaderHandle;
use crate::types::Namespace;

/// A segment to read.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) reader: NamespaceReader,
    /// Whether it is the server's own, which holds all that the server knows. What this process was told may be a part.
    pub(super) is_servers: bool,
}

/// The segments of other namespaces.
#[derive(Debug, Default)]
pub(super) struct ForeignSources(Mutex<BTreeMap<Namespace, Arc<Source>>>);

impl ForeignSources {
    /// The segment of another namespace, if the server handed it over or told of the namespace.
    pub(super) fn source(&self, namespace: &Namespace, link: &Link) -> Option<Arc<Source>> {
        let mut known = self.0.lock();
        if let Some(descriptor) = link.with(|state| state.take_segment(namespace)) {
            let source = map_segment(namespace, descriptor).map(|reader| Source { reader, is_servers: true });
            known.extend(source.map(|source| (namespace.clone(), Arc::new(source))));
        }
        if !known.contains_key(namespace) {
            let told = link.with(|state| state.received.job(namespace));
            let source = told.map(|reader| Source { reader, is_servers: false });
            known.extend(source.map(|source| (namespace.clone(), Arc::new(source))));
        }
        known.get(namespace).map(Arc::clone)
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
        let descriptor = || store.handle(&job).unwrap().into_descriptor().unwrap();
        assert!(map_segment(&job, descriptor()).is_some());
        assert!(map_segment(&other, descriptor()).is_none());
    }
}
