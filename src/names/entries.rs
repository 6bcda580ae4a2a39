//! The published data, with indexes by key and by publisher.

use std::collections::{BTreeMap, BTreeSet};

use super::directives::{Access, Persistence, PublishDirectives, Range};
use super::request::Asker;
use super::shares::{NameLimits, Payer, Resource};
use crate::server::Requester;
use crate::types::{Info, Key, Namespace, ProcId, Status, Value, footprint};

/// The number of an entry. A larger number means a later publication.
pub(super) type EntryId = u64;

/// One published value.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: Key,
    pub(super) value: Value,
    pub(super) publisher: ProcId,
    pub(super) uid: u32,
    pub(super) range: Range,
    persistence: Persistence,
    pub(super) access: Option<Access>,
    pub(super) value_bytes: usize,
    size_bytes: usize,
    payer: Payer,
    /// Whether the publisher is a tool. Its end is the end of its job.
    pub(super) is_of_tool: bool,
}

impl Entry {
    /// Whether the first read removes it.
    pub(super) fn is_read_once(&self) -> bool {
        self.persistence == Persistence::FirstRead
    }
}

/// All entries.
#[derive(Debug)]
pub(super) struct Entries {
    entries: BTreeMap<EntryId, Entry>,
    by_key: BTreeMap<Key, BTreeSet<EntryId>>,
    by_publisher: BTreeMap<ProcId, BTreeSet<EntryId>>,
    counts: Resource,
    bytes: Resource,
    value_bytes_max: usize,
    last: EntryId,
}

impl Entries {
    pub(super) fn new(limits: &NameLimits) -> Self {
        Self {
            entries: BTreeMap::new(),
            by_key: BTreeMap::new(),
            by_publisher: BTreeMap::new(),
            counts: Resource::new(limits.entries_max, limits.entries_per_process_max),
            bytes: Resource::new(limits.bytes_max, limits.bytes_per_process_max),
            value_bytes_max: limits.value_bytes_max,
            last: 0,
        }
    }

    /// Adds the data of one request: all, or nothing.
    ///
    /// # Errors
    /// A key is published twice in one range, or there is no room.
    pub(super) fn add(
        &mut self,
        asker: &Asker,
        payer: &Payer,
        directives: &PublishDirectives,
        data: Vec<Info>,
    ) -> Result<Vec<Key>, Status> {
        let keys: BTreeSet<&Key> = data.iter().map(|info| &info.key).collect();
        if keys.len() < data.len() || keys.into_iter().any(|key| self.is_taken(key, asker, &directives.range)) {
            return Err(Status::ERR_DUPLICATE_KEY);
        }
        let fixed_bytes = ENTRY_BYTES.saturating_add(directives.size_bytes());
        let mut sized = Vec::with_capacity(data.len());
        let mut sum = 0_usize;
        for info in data {
            let value_bytes = footprint(&info.value).ok_or(Status::ERR_BAD_PARAM)?;
            if value_bytes > self.value_bytes_max {
                return Err(Status::ERR_OUT_OF_RESOURCE);
            }
            let size_bytes = value_bytes.saturating_add(info.key.as_str().len()).saturating_add(fixed_bytes);
            sum = sum.saturating_add(size_bytes);
            sized.push((info, value_bytes, size_bytes));
        }
        let publisher = &asker.requester.proc;
        let is_crowded = |(info, ..): &(Info, usize, usize)| {
            self.of_key(&info.key).filter(|(_, entry)| entry.publisher == *publisher).count() >= RANGES_OF_KEY_MAX
        };
        if sized.iter().any(is_crowded) {
            return Err(Status::ERR_OUT_OF_RESOURCE);
        }
        if !self.counts.permits(payer, sized.len()) || !self.bytes.permits(payer, sum) {
            return Err(Status::ERR_OUT_OF_RESOURCE);
        }
        let keys = sized.iter().map(|(info, ..)| info.key.clone()).collect();
        for (info, value_bytes, size_bytes) in sized {
            self.insert(Entry {
                key: info.key,
                value: info.value,
                publisher: asker.requester.proc.clone(),
                uid: asker.requester.uid,
                range: directives.range.clone(),
                persistence: directives.persistence,
                access: directives.access.clone(),
                value_bytes,
                size_bytes,
                payer: payer.clone(),
                is_of_tool: asker.is_tool,
            });
        }
        Ok(keys)
    }

    fn insert(&mut self, entry: Entry) {
        self.last = self.last.saturating_add(1);
        self.counts.take(&entry.payer, 1);
        self.bytes.take(&entry.payer, entry.size_bytes);
        self.by_key.entry(entry.key.clone()).or_default().insert(self.last);
        self.by_publisher.entry(entry.publisher.clone()).or_default().insert(self.last);
        self.entries.insert(self.last, entry);
    }

    pub(super) fn remove(&mut self, id: EntryId) {
        let Some(entry) = self.entries.remove(&id) else { return };
        self.counts.give_back(&entry.payer, 1);
        self.bytes.give_back(&entry.payer, entry.size_bytes);
        remove_from(&mut self.by_key, &entry.key, id);
        remove_from(&mut self.by_publisher, &entry.publisher, id);
    }

    /// The entries of a key, oldest first.
    pub(super) fn of_key(&self, key: &Key) -> impl Iterator<Item = (EntryId, &Entry)> {
        self.pick(self.by_key.get(key))
    }

    pub(super) fn get(&self, id: EntryId) -> Option<&Entry> {
        self.entries.get(&id)
    }

    /// The entries of a publisher, oldest first.
    pub(super) fn of_publisher(&self, proc: &ProcId) -> impl Iterator<Item = (EntryId, &Entry)> {
        self.pick(self.by_publisher.get(proc))
    }

    fn pick<'a>(&'a self, ids: Option<&'a BTreeSet<EntryId>>) -> impl Iterator<Item = (EntryId, &'a Entry)> {
        ids.into_iter().flatten().filter_map(|id| Some((*id, self.entries.get(id)?)))
    }

    /// Removes the entries that a process's end ends.
    pub(super) fn end_process(&mut self, proc: &ProcId) {
        let ends = |entry: &Entry| match entry.persistence {
            Persistence::Process => true,
            Persistence::Job => entry.is_of_tool,
            Persistence::Server | Persistence::FirstRead => false,
        };
        let ended: Vec<EntryId> = self.of_publisher(proc).filter(|(_, entry)| ends(entry)).map(|(id, _)| id).collect();
        ended.into_iter().for_each(|id| self.remove(id));
    }

    /// Removes the entries that a job's end ends.
    pub(super) fn end_job(&mut self, namespace: &Namespace) {
        let ends = |entry: &Entry| entry.publisher.namespace == *namespace && entry.persistence != Persistence::Server;
        let ended: Vec<EntryId> = self.entries.iter().filter(|(_, entry)| ends(entry)).map(|(id, _)| *id).collect();
        ended.into_iter().for_each(|id| self.remove(id));
    }

    /// Whether the key is published in this range. The data of other users does not count, so that no user can block
    /// the names of another.
    fn is_taken(&self, key: &Key, asker: &Asker, range: &Range) -> bool {
        let Requester { proc, uid, .. } = &asker.requester;
        self.of_key(key).any(|(_, entry)| match (range, &entry.range) {
            (Range::Namespace, Range::Namespace) => entry.publisher.namespace == proc.namespace,
            (Range::Process, Range::Process) => entry.publisher == *proc && entry.uid == *uid,
            (Range::Custom(one), Range::Custom(other)) => entry.publisher == *proc && entry.uid == *uid && one == other,
            (one, other) => one == other && entry.uid == *uid,
        })
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let is_unused = self.counts.is_unused() && self.bytes.is_unused();
        self.entries.is_empty() && self.by_key.is_empty() && self.by_publisher.is_empty() && is_unused
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}

impl PublishDirectives {
    /// Memory of the lists that each entry holds.
    fn size_bytes(&self) -> usize {
        let procs = match &self.range {
            Range::Custom(procs) => {
                procs.iter().map(|proc| size_of::<ProcId>() + proc.namespace.as_str().len()).sum::<usize>()
            }
            _ => 0,
        };
        let ids = self.access.as_ref().map_or(0, |access| access.users.len().saturating_add(access.groups.len()));
        procs.saturating_add(ids.saturating_mul(size_of::<u32>()))
    }
}

/// Removes a number from an index.
pub(super) fn remove_from<K: Ord, I: Ord>(index: &mut BTreeMap<K, BTreeSet<I>>, key: &K, id: I) {
    if let Some(ids) = index.get_mut(key) {
        ids.remove(&id);
        if ids.is_empty() {
            index.remove(key);
        }
    }
}

/// The most ranges in which one process may publish a key. Each lookup of the key walks through them.
const RANGES_OF_KEY_MAX: usize = 64;

/// Memory of an entry without its key and value, with its places in the indexes.
const ENTRY_BYTES: usize = 512;
