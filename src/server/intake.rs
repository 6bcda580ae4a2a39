//! What a fence brings: data of any number of processes elsewhere, taken over process by process from where it lies.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::collective::Signature;
use super::registry::Registry;
use crate::gds::{AsStatus, Publish};
use crate::proto::blob::COMMIT_NUMBER;
use crate::proto::exchange::{FenceSource, read_fence};
use crate::types::{Kval, LentEntry, Namespace, ProcId, Rank, Status};

/// What all servers have contributed to a fence.
#[derive(Debug)]
pub(super) enum Gathered {
    /// Values by process.
    Blocks(Vec<(ProcId, Vec<Kval>)>),
    /// As servers have packed them.
    Packed(PackedBytes),
}

/// Bytes of a host, which are given back when this is dropped. Cheap to clone.
#[derive(Clone)]
pub struct PackedBytes(Arc<dyn AsRef<[u8]> + Send + Sync>);

impl PackedBytes {
    /// Takes bytes in any form.
    pub fn new(bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Self {
        Self(Arc::new(bytes))
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}

impl fmt::Debug for PackedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PackedBytes({} bytes)", self.bytes().len())
    }
}

impl PartialEq for PackedBytes {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

/// Stores what comes of participants elsewhere. What this server contributed itself comes back and is passed over.
pub(super) struct Intake<'s, S> {
    store: &'s mut S,
    registry: &'s mut Registry,
    signature: &'s Signature,
    /// The last namespace that was asked about, and whether all its processes take part.
    whole: Option<(Namespace, bool)>,
    /// Namespaces that data came for.
    filled: BTreeSet<Namespace>,
    failure: Option<Status>,
}

impl<'s, S: Publish> Intake<'s, S> {
    pub(super) const fn new(store: &'s mut S, registry: &'s mut Registry, signature: &'s Signature) -> Self {
        Self { store, registry, signature, whole: None, filled: BTreeSet::new(), failure: None }
    }

    /// Takes everything over and publishes it. Gives the namespaces that something came for.
    pub(super) fn take(
        mut self,
        gathered: &Gathered,
        sizes: &[(Namespace, Option<u32>)],
    ) -> (BTreeSet<Namespace>, Result<(), Status>) {
        match gathered {
            Gathered::Blocks(blocks) => self.take_blocks(blocks),
            Gathered::Packed(packed) => self.take_packed(packed.bytes(), sizes),
        }
        for namespace in &self.filled {
            if let Err(error) = self.store.publish_arrivals(namespace) {
                tracing::warn!(%namespace, %error, "data of processes elsewhere can't be stored");
                self.failure.get_or_insert(error.status());
            }
        }
        (self.filled, self.failure.map_or(Ok(()), Err))
    }

    fn take_blocks(&mut self, blocks: &[(ProcId, Vec<Kval>)]) {
        for (proc, values) in blocks {
            let Rank::Process(rank) = proc.rank else { continue };
            let is_number = |entry: &&Kval| entry.key == COMMIT_NUMBER;
            let commit = values.iter().find(is_number).and_then(|entry| entry.value.as_u64());
            let entries: Vec<LentEntry<'_>> =
                values.iter().filter(|entry| !is_number(entry)).map(LentEntry::from).collect();
            let source = FenceSource { namespace: &proc.namespace, rank, commit };
            if self.take_block(&source, &entries).is_break() {
                return;
            }
        }
    }

    fn take_packed(&mut self, bytes: &[u8], sizes: &[(Namespace, Option<u32>)]) {
        let outcome = read_fence(bytes, sizes, &mut |source, entries| self.take_block(source, entries));
        if let Err(error) = outcome {
            tracing::warn!(%error, "the data of a fence can't be read");
            self.failure.get_or_insert(Status::ERR_UNPACK_FAILURE);
        }
    }

    /// Fences over different sets and direct modexes overtake each other on their way through the host. Values older
    /// than those stored are dropped: an update that a fence has brought would be lost for good, because the next fence
    /// does not carry it again.
    fn take_block(&mut self, source: &FenceSource<'_>, entries: &[LentEntry<'_>]) -> ControlFlow<()> {
        let FenceSource { namespace, rank, commit } = *source;
        if entries.is_empty() || !self.is_participant(namespace, rank) {
            return ControlFlow::Continue(());
        }
        if let Some(job) = self.registry.job_mut(namespace) {
            let is_here = job.clients.contains_key(&rank);
            if is_here || commit.is_some_and(|commit| commit < job.stored.of(rank)) {
                return ControlFlow::Continue(());
            }
        }
        if let Err(error) = self.store.take_arrival(namespace, rank, entries) {
            tracing::warn!(%namespace, rank, %error, "data of a process elsewhere can't be stored");
            self.failure = Some(error.status());
            return ControlFlow::Break(());
        }
        if let (Some(commit), Some(job)) = (commit, self.registry.job_mut(namespace)) {
            job.stored.note(rank, commit);
        }
        if !self.filled.contains(namespace) {
            self.filled.insert(namespace.clone());
        }
        ControlFlow::Continue(())
    }

    fn is_participant(&mut self, namespace: &Namespace, rank: u32) -> bool {
        let is_whole = match &self.whole {
            Some((last, is_whole)) if last == namespace => *is_whole,
            _ => {
                let anybody = ProcId { namespace: namespace.clone(), rank: Rank::Undefined };
                let is_whole = self.signature.covers(&anybody);
                self.whole = Some((namespace.clone(), is_whole));
                is_whole
            }
        };
        is_whole || self.signature.procs.binary_search(&ProcId::new(namespace.clone(), rank)).is_ok()
    }
}
