//! The data that a fence brings: values of remote processes, stored one process at a time without a copy.

use std::collections::{BTreeSet, VecDeque};
use std::ops::ControlFlow;

use crate::gds::Datastore;
use crate::proto::blob::COMMIT_NUMBER;
use crate::proto::exchange::FenceSource;
use crate::server::state::{Gathered, Registry, Signature, split_number};
use crate::types::{AsStatus, Key, Kval, LentEntry, Namespace, ProcId, Rank, Status};

/// Stores the values of remote participants. It skips this server's own contribution, which comes back.
pub(super) struct Intake<'s, S> {
    store: &'s mut S,
    registry: &'s mut Registry,
    signature: &'s Signature,
    /// The last checked namespace, and whether all its processes take part.
    whole: Option<(Namespace, bool)>,
    /// The namespace of the last stored data.
    last: Option<Namespace>,
    /// Its processes with unpublished data, with the number of the commit, and whether the data is complete up to it.
    unpublished: VecDeque<(u32, Option<u64>, bool)>,
    /// Namespaces with new data.
    filled: BTreeSet<Namespace>,
    /// Whether the caller needs to know the processes with complete data.
    has_missed: bool,
    /// Whether the caller needs to know the removed values.
    has_copies: bool,
    came_whole: BTreeSet<ProcId>,
    removed: Vec<(ProcId, Key)>,
    failure: Option<Status>,
}

/// The result of the intake.
pub(in crate::server) struct IntakeResult {
    /// Namespaces with new data.
    pub(super) filled: BTreeSet<Namespace>,
    /// Processes whose data came completely.
    pub(in crate::server) whole: BTreeSet<ProcId>,
    /// Values that their processes have removed.
    pub(in crate::server) removed: Vec<(ProcId, Key)>,
    /// The reason why some data is not stored.
    pub(in crate::server) failure: Option<Status>,
}

impl<'s, S: Datastore> Intake<'s, S> {
    pub(in crate::server) const fn new(
        store: &'s mut S,
        registry: &'s mut Registry,
        signature: &'s Signature,
        (has_missed, has_copies): (bool, bool),
    ) -> Self {
        Self {
            store,
            registry,
            signature,
            whole: None,
            last: None,
            unpublished: VecDeque::new(),
            filled: BTreeSet::new(),
            has_missed,
            has_copies,
            came_whole: BTreeSet::new(),
            removed: Vec::new(),
            failure: None,
        }
    }

    /// Stores and publishes all data.
    pub(in crate::server) fn take(mut self, gathered: &Gathered, sizes: &[(Namespace, Option<u32>)]) -> IntakeResult {
        match gathered {
            Gathered::Blocks(blocks) => self.take_blocks(blocks),
            Gathered::Packed(packed) => {
                let read = packed.read(sizes, &mut |source, entries| self.take_block(source, entries));
                if let Err(error) = read {
                    tracing::warn!(%error, "the data of a fence can't be read");
                    self.failure.get_or_insert(Status::ERR_UNPACK_FAILURE);
                }
            }
        }
        self.publish_last();
        let Self { filled, came_whole: whole, removed, failure, .. } = self;
        IntakeResult { filled, whole, removed, failure }
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

    /// Fences over different sets and direct modexes overtake each other on their way through the host. Older values
    /// than the stored ones are dropped. Otherwise an update from another fence would be lost for good, because the
    /// next fence does not carry it again.
    fn take_block(&mut self, source: &FenceSource<'_>, entries: &[LentEntry<'_>]) -> ControlFlow<()> {
        let FenceSource { namespace, rank, commit } = *source;
        let (commit, is_all) = split_number(commit);
        if entries.is_empty() || !self.is_participant(namespace, rank) {
            return ControlFlow::Continue(());
        }
        if let Some(job) = self.registry.job_mut(namespace) {
            let is_here = job.clients().contains_key(&rank);
            if is_here || commit.is_some_and(|commit| commit < job.stored().of(rank)) {
                return ControlFlow::Continue(());
            }
        }
        if self.last.as_ref() != Some(namespace) {
            self.publish_last();
            self.filled.insert(namespace.clone());
            self.last = Some(namespace.clone());
        }
        match self.store.take_arrival(namespace, rank, entries) {
            Ok(unpublished) => {
                if self.has_copies {
                    self.note_removed(namespace, rank, entries);
                }
                self.unpublished.push_back((rank, commit, is_all));
                let count = self.unpublished.len();
                self.note(count.saturating_sub(unpublished));
                ControlFlow::Continue(())
            }
            Err(error) => {
                tracing::warn!(%namespace, rank, %error, "data of a process elsewhere can't be stored");
                self.failure = Some(error.status());
                ControlFlow::Break(())
            }
        }
    }

    fn note_removed(&mut self, namespace: &Namespace, rank: u32, entries: &[LentEntry<'_>]) {
        let room = REMOVED_MAX - self.removed.len();
        let mut removed = entries.iter().filter(|entry| entry.value.is_undefined());
        let noted = removed.by_ref().take(room);
        self.removed.extend(noted.map(|entry| (ProcId::new(namespace.clone(), rank), entry.key.to_key())));
        if removed.next().is_some() {
            tracing::warn!(%namespace, rank, "clients that keep copies don't hear of all values that a fence removes");
        }
    }

    /// Publishes the stored data of the last namespace.
    fn publish_last(&mut self) {
        let Some(namespace) = &self.last else { return };
        match self.store.publish_arrivals(namespace) {
            Ok(count) => self.note(count),
            Err(error) => {
                tracing::warn!(%namespace, %error, "data of processes elsewhere can't be stored");
                self.failure.get_or_insert(error.status());
            }
        }
        self.unpublished.clear();
    }

    /// Another `count` blocks of the last namespace are readable: from now on the numbers of their commits are known.
    fn note(&mut self, count: usize) {
        let Some(namespace) = self.last.as_ref().filter(|_| count > 0) else { return };
        let Some(job) = self.registry.job_mut(namespace) else { return };
        for (rank, commit, is_all) in self.unpublished.drain(..count.min(self.unpublished.len())) {
            if let Some(commit) = commit {
                job.stored_mut().note(rank, commit);
            }
            if self.has_missed && is_all {
                self.came_whole.insert(ProcId::new(namespace.clone(), rank));
            }
        }
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

/// Removed values of a fence of which clients hear.
const REMOVED_MAX: usize = 1 << 16;
