//! Values that the process itself put or stored: visible to itself at once, to other processes after a commit.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::gds::qualified::{self, QUALIFIED_VALUE, Qualified};
use crate::keys;
use crate::proto::Commit;
use crate::types::{AsStatus, Info, Key, KeyError, Kval, ProcId, Rank, Scope, Status, Value, footprint};

/// Values of this process that need no server.
///
/// Each key has up to three values, one for each audience: processes on this node, processes on other nodes, and this
/// process alone. A put replaces the values of the audience its scope covers, and leaves the others:
///
/// | put | same node sees | other nodes see | this process sees |
/// |---|---|---|---|
/// | `Local` v | v | as before | v |
/// | `Remote` v | as before | v | v |
/// | `Global` v | v | v | v |
/// | `Internal` v | as before | as before | v |
///
/// The process itself always sees the value it put last. A commit never holds two values for one reader, so the server
/// need not know the order of the puts.
///
/// All values stay after a commit: the process finds its own data here even if the server keeps none.
///
/// Source: PMIx Standard, "Data Access and Sharing" (`PMIx_Put`, `PMIx_Commit`, `PMIx_Store_internal`).
#[derive(Debug)]
pub struct Staging {
    own: ProcId,
    limits: StagingLimits,
    entries: BTreeMap<Key, Entry>,
    /// Key of every put that still has a value for other processes, in the order of the puts.
    changes: BTreeMap<Sequence, Key>,
    /// Values stored for other processes.
    others: BTreeMap<ProcId, BTreeMap<Key, Slot>>,
    key_count: usize,
    size_bytes: usize,
    last_put: Sequence,
    committed: Sequence,
    /// Whether a commit was taken and not put back.
    has_spoken: bool,
}

/// Limits of [`Staging`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StagingLimits {
    /// Limit of the number of keys, over all processes.
    pub key_count_max: usize,
    /// Limit of the bytes of one value.
    pub value_bytes_max: usize,
    /// Limit of the bytes of all values.
    pub total_bytes_max: usize,
    /// Limit of the bytes of keys and values in one commit message; a single value may exceed it. Release 6.1 accepts
    /// messages of 32 MiB, release 3.2 of 16 MiB.
    pub commit_bytes_max: usize,
}

impl Default for StagingLimits {
    fn default() -> Self {
        Self {
            key_count_max: 1 << 16,
            value_bytes_max: 16 << 20,
            total_bytes_max: 256 << 20,
            commit_bytes_max: 8 << 20,
        }
    }
}

/// Reason of a refused value. The old value stays.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StagingError {
    /// The key can't be put.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A reserved key of a whole job: only the host sets data of a job.
    #[error("key {key:?} describes the job of {proc}; only the host may set it")]
    JobData {
        /// The key.
        key: Key,
        /// The owner of the value.
        proc: ProcId,
    },
    /// More keys than allowed.
    #[error("this process holds {limit} keys already, which is the limit; reuse keys or put arrays")]
    TooManyKeys {
        /// The limit.
        limit: usize,
    },
    /// One value is larger than allowed.
    #[error("value of key {key:?} takes {size_bytes} bytes, the limit is {limit}; split it")]
    ValueTooLarge {
        /// The key.
        key: Key,
        /// Size of the value.
        size_bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// One value is nested deeper than peers decode.
    #[error("value of key {key:?} is nested too deeply to be sent; flatten it")]
    ValueTooDeep {
        /// The key.
        key: Key,
    },
    /// The server's release does not know the type.
    #[error(
        "value of key {key:?} has the type {data_type}, which the server's release does not know; use an older type"
    )]
    UnknownType {
        /// The key.
        key: String,
        /// The type's name.
        data_type: &'static str,
    },
    /// The server's release can't remove values.
    #[error("the server's release can't remove the value of key {key}; OpenPMIx's servers can from release 7.0 on")]
    NoRemovals {
        /// The key.
        key: Key,
    },
    /// An invalid qualified value.
    #[error(
        "a qualified value is an array of infos: first the key with its value, then the qualifiers, flagged as such"
    )]
    NotQualified,
    /// All values together are larger than allowed.
    #[error("values of this process would take {needed_bytes} bytes, the limit is {limit}")]
    Full {
        /// The sum with the new value.
        needed_bytes: usize,
        /// The limit.
        limit: usize,
    },
}

impl AsStatus for StagingError {
    fn status(&self) -> Status {
        match self {
            Self::Key(_) | Self::JobData { .. } | Self::NotQualified => Status::ERR_BAD_PARAM,
            Self::ValueTooLarge { .. } | Self::ValueTooDeep { .. } => Status::ERR_INVALID_VAL_LENGTH,
            Self::UnknownType { .. } | Self::NoRemovals { .. } => Status::ERR_NOT_SUPPORTED,
            Self::TooManyKeys { .. } | Self::Full { .. } => Status::ERR_OUT_OF_RESOURCE,
        }
    }
}

/// Reserved keys that no process may put. They name processes, servers and jobs, and a process that puts another value
/// would mislead its peers. MPI libraries put others: Open MPI the name of its node and its binding. OpenPMIx accepts
/// all keys.
const OF_SERVER: [&str; 22] = [
    keys::NSPACE.name(),
    keys::RANK.name(),
    keys::PROCID.name(),
    keys::JOBID.name(),
    keys::JOB_SIZE.name(),
    keys::JOB_NUM_APPS.name(),
    keys::UNIV_SIZE.name(),
    keys::MAX_PROCS.name(),
    keys::NUM_NODES.name(),
    keys::NODE_MAP.name(),
    keys::PROC_MAP.name(),
    keys::LOCAL_SIZE.name(),
    keys::LOCAL_PEERS.name(),
    keys::LOCAL_PROCS.name(),
    keys::PARENT_ID.name(),
    keys::SPAWNED.name(),
    keys::SESSION_ID.name(),
    keys::USERID.name(),
    keys::GRPID.name(),
    keys::SERVER_NSPACE.name(),
    keys::SERVER_RANK.name(),
    keys::SERVER_URI.name(),
];

/// The latest change of a key by its process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StagedValue<'s> {
    /// A value.
    Put(&'s Arc<Value>),
    /// Nothing: it has removed the value.
    Removed,
}

/// The result of [`Staging::take_commit`].
#[derive(Clone, Debug, PartialEq)]
pub struct Staged {
    /// The commit to send.
    pub commit: Commit,
    /// For [`Staging::put_back`] if the commit could not be delivered.
    pub mark: StagingMark,
}

/// A state of the staging area, to which a failed commit returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StagingMark(Sequence);

type Sequence = u64;

/// The values of one key.
#[derive(Clone, Debug, Default)]
struct Entry {
    same_node: Option<Slot>,
    other_nodes: Option<Slot>,
    internal: Option<Slot>,
}

/// One value and the number of its put. A global put fills two slots with the same number.
#[derive(Clone, Debug)]
struct Slot {
    put: Sequence,
    value: Arc<Value>,
    size_bytes: usize,
}

impl Staging {
    /// An empty area of this process.
    #[must_use]
    pub const fn new(own: ProcId, limits: StagingLimits) -> Self {
        Self {
            own,
            limits,
            entries: BTreeMap::new(),
            changes: BTreeMap::new(),
            others: BTreeMap::new(),
            key_count: 0,
            size_bytes: 0,
            last_put: 0,
            committed: 0,
            has_spoken: false,
        }
    }

    /// Puts a value. Other processes see it after the next commit, if the scope permits.
    ///
    /// # Errors
    /// [`StagingError`] for a key that is reserved or malformed, and at the limits.
    pub fn put(&mut self, scope: Scope, key: &str, value: Value) -> Result<(), StagingError> {
        if key == QUALIFIED_VALUE {
            let qualified = Qualified::of(&value).ok_or(StagingError::NotQualified)?;
            Key::for_put(qualified.key().as_str().to_owned())?;
            return self.insert_own(scope, Key::from_static(QUALIFIED_VALUE), value);
        }
        let key = Key::for_put(key.to_owned())?;
        self.insert_own(scope, key, value)
    }

    /// As [`Staging::put`], for any key, reserved or not. A qualified value is put under `PMIX_QUALIFIED_VALUE`.
    ///
    /// # Errors
    /// [`StagingError`] at the limits.
    pub fn put_any(&mut self, scope: Scope, key: Key, value: Value) -> Result<(), StagingError> {
        if OF_SERVER.contains(&key.as_str()) {
            return Err(StagingError::JobData { key, proc: self.own.clone() });
        }
        self.insert_own(scope, key, value)
    }

    /// Removes the value of a key from a scope: a put of no value. This process does not find it from now on, and the
    /// next commit tells the others. A qualified value can't be removed.
    ///
    /// # Errors
    /// [`StagingError`] for a key that can't be put, and at the limits.
    ///
    /// Source: OpenPMIx 7.0, `PMIx_Put` (`PMIX_DEL_LOCAL` and its relatives).
    pub fn remove(&mut self, scope: Scope, key: Key) -> Result<(), StagingError> {
        if scope != Scope::Internal {
            return self.put_any(scope, key, Value::Undefined);
        }
        if let Some(entry) = self.entries.get_mut(&key) {
            let before_bytes = entry.size_bytes();
            entry.internal = None;
            self.size_bytes -= before_bytes - entry.size_bytes();
        }
        Ok(())
    }

    /// Refuses a value of `size_bytes` if it is too large, before it is copied.
    ///
    /// # Errors
    /// [`StagingError`] for a key that can't be put, and for too large a value.
    pub fn check_size(&self, key: &str, size_bytes: usize) -> Result<(), StagingError> {
        let limit = self.limits.value_bytes_max;
        if size_bytes > limit {
            return Err(StagingError::ValueTooLarge { key: Key::for_put(key.to_owned())?, size_bytes, limit });
        }
        Ok(())
    }

    /// Stores a value for any process, of any namespace, known or not. Only this process sees it.
    ///
    /// Reserved keys are accepted for one process, because MPI libraries store the locality of their peers. For a job
    /// they are refused: only the host sets data of a job.
    ///
    /// # Errors
    /// [`StagingError`] for a key that can't be stored, and at the limits.
    pub fn store_internal(&mut self, proc: &ProcId, key: Key, value: Value) -> Result<(), StagingError> {
        if key.is_reserved() && proc.rank == Rank::Wildcard {
            return Err(StagingError::JobData { key, proc: proc.clone() });
        }
        if *proc == self.own {
            return self.insert_own(Scope::Internal, key, value);
        }
        let (key, value) = named(key, value)?;
        let size_bytes = self.measure(&key, &value)?;
        let replaced = self.others.get(proc).and_then(|entries| entries.get(&key));
        let freed_bytes = replaced.map_or(0, |slot| slot.size_bytes);
        let is_new = replaced.is_none();
        self.admit(is_new, freed_bytes, size_bytes)?;
        let slot = Slot { put: 0, value: Arc::new(value), size_bytes };
        self.others.entry(proc.clone()).or_default().insert(key, slot);
        Ok(())
    }

    /// This process's value of a key of a process. With a scope, only the value that the scope's audience sees. The
    /// global scope excludes no value that the process has put itself.
    #[must_use]
    pub fn find(&self, proc: &ProcId, key: &str, scope: Option<Scope>) -> Option<&Arc<Value>> {
        match self.look(proc, key, scope) {
            Some(StagedValue::Put(value)) => Some(value),
            _ => None,
        }
    }

    /// As [`Staging::find`], with removals of which the server does not know yet.
    #[must_use]
    pub fn look(&self, proc: &ProcId, key: &str, scope: Option<Scope>) -> Option<StagedValue<'_>> {
        let newest = match scope {
            _ if *proc == self.own => self.entries.get(key)?.find(scope),
            None | Some(Scope::Internal) => self.others.get(proc)?.get(key),
            Some(Scope::Local | Scope::Remote | Scope::Global) => None,
        };
        match newest? {
            slot if *slot.value != Value::Undefined => Some(StagedValue::Put(&slot.value)),
            slot => (slot.put > self.committed).then_some(StagedValue::Removed),
        }
    }

    /// A qualified value of a process, without key and qualifiers; otherwise as [`Staging::find`].
    #[must_use]
    pub fn find_qualified(&self, proc: &ProcId, key: &str, qualifiers: &[Info], scope: Option<Scope>) -> Option<Value> {
        let prefix = qualified::prefix(key);
        let of_key = |name: &&Key| name.as_str().starts_with(&prefix);
        let (own, others) = (*proc == self.own, self.others.get(proc));
        let names =
            self.entries.keys().filter(|_| own).chain(others.into_iter().flat_map(BTreeMap::keys)).filter(of_key);
        let values = names.filter_map(|name| self.find(proc, name.as_str(), scope));
        qualified::best(key, qualifiers, values.map(|value| &**value)).and_then(qualified::inner)
    }

    /// All own values of this process, by their stored names. With a scope, only those that the scope's audience sees.
    pub fn own(&self, scope: Option<Scope>) -> impl Iterator<Item = (&Key, &Arc<Value>)> {
        let values = self.entries.iter().filter_map(move |(key, entry)| Some((key, &entry.find(scope)?.value)));
        values.filter(|(_, value)| ***value != Value::Undefined)
    }

    /// The values put since the last commit, without those replaced meanwhile; `None` if there are none. They come in
    /// the order of the puts, and fit one message of a peer: the rest is left for the next call.
    #[must_use]
    pub fn take_commit(&mut self) -> Option<Staged> {
        let mark = StagingMark(self.committed);
        let mut parts = [Scope::Local, Scope::Remote, Scope::Global].map(|scope| (scope, Vec::new()));
        let mut message_bytes = 0usize;
        let mut taken = self.last_put;
        for (&put, key) in self.changes.range(self.committed + 1..) {
            let Some((scope, slot)) = self.entries.get(key).and_then(|entry| entry.for_others(put)) else {
                continue;
            };
            let with_this = message_bytes.saturating_add(slot.size_bytes).saturating_add(key.as_str().len());
            if message_bytes > 0 && with_this > self.limits.commit_bytes_max {
                taken = put - 1;
                break;
            }
            message_bytes = with_this;
            if let Some((_, kvals)) = parts.iter_mut().find(|(of, _)| *of == scope) {
                kvals.push(Kval { key: qualified::public_key(key.clone()), value: Value::clone(&slot.value) });
            }
        }
        self.committed = taken;
        let parts: Vec<_> = parts.into_iter().filter(|(_, kvals)| !kvals.is_empty()).collect();
        self.has_spoken |= !parts.is_empty();
        (!parts.is_empty()).then_some(Staged { commit: Commit { parts }, mark })
    }

    /// An empty commit, if none was taken before: other processes wait at the server for this process's first commit.
    /// For use when [`Staging::take_commit`] gives nothing.
    #[must_use]
    pub fn take_first_commit(&mut self) -> Option<Staged> {
        let is_first = !std::mem::replace(&mut self.has_spoken, true);
        is_first.then(|| Staged { commit: Commit { parts: Vec::new() }, mark: StagingMark(self.committed) })
    }

    /// Undoes a commit that was not delivered: its values are part of the next one.
    pub fn put_back(&mut self, mark: StagingMark) {
        self.committed = self.committed.min(mark.0);
        self.has_spoken = false;
    }

    /// Size of the values in bytes.
    #[must_use]
    pub const fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    fn insert_own(&mut self, scope: Scope, key: Key, value: Value) -> Result<(), StagingError> {
        let (key, value) = named(key, value)?;
        let size_bytes = self.measure(&key, &value)?;
        let put = self.last_put + 1;
        let before = self.entries.get(&key);
        let mut after = before.cloned().unwrap_or_default();
        after.set(scope, Slot { put, value: Arc::new(value), size_bytes });

        let is_new = before.is_none();
        let replaced = before.map_or([None; 3], Entry::puts);
        let freed_bytes = before.map_or(0, Entry::size_bytes);
        self.admit(is_new, freed_bytes, after.size_bytes())?;

        self.last_put = put;
        for gone in replaced.into_iter().flatten().filter(|&put| after.for_others(put).is_none()) {
            self.changes.remove(&gone);
        }
        if scope != Scope::Internal {
            self.changes.insert(put, key.clone());
        }
        self.entries.insert(key, after);
        Ok(())
    }

    fn measure(&self, key: &Key, value: &Value) -> Result<usize, StagingError> {
        let Some(size_bytes) = footprint(value) else {
            return Err(StagingError::ValueTooDeep { key: key.clone() });
        };
        let limit = self.limits.value_bytes_max;
        if size_bytes > limit {
            return Err(StagingError::ValueTooLarge { key: key.clone(), size_bytes, limit });
        }
        Ok(size_bytes)
    }

    /// Accounts for a value, if there is room for it.
    fn admit(&mut self, is_new_key: bool, freed_bytes: usize, size_bytes: usize) -> Result<(), StagingError> {
        let limit = self.limits.key_count_max;
        if is_new_key && self.key_count >= limit {
            return Err(StagingError::TooManyKeys { limit });
        }
        let needed_bytes = self.size_bytes.saturating_sub(freed_bytes).saturating_add(size_bytes);
        let limit = self.limits.total_bytes_max;
        if needed_bytes > limit {
            return Err(StagingError::Full { needed_bytes, limit });
        }
        self.key_count += usize::from(is_new_key);
        self.size_bytes = needed_bytes;
        Ok(())
    }
}

/// The name and value in their stored form.
fn named(key: Key, value: Value) -> Result<(Key, Value), StagingError> {
    match qualified::stored(key, value) {
        (key, _) if key.as_str() == QUALIFIED_VALUE => Err(StagingError::NotQualified),
        named => Ok(named),
    }
}

impl Entry {
    /// Every put is visible to the process itself, so it replaces an older internal value.
    fn set(&mut self, scope: Scope, slot: Slot) {
        self.internal = None;
        match scope {
            Scope::Local => self.same_node = Some(slot),
            Scope::Remote => self.other_nodes = Some(slot),
            Scope::Global => {
                self.same_node = Some(slot.clone());
                self.other_nodes = Some(slot);
            }
            Scope::Internal => self.internal = Some(slot),
        }
    }

    /// The value that the scope's audience sees. Without a scope, or with the global one, it is the value that this
    /// process put last.
    fn find(&self, scope: Option<Scope>) -> Option<&Slot> {
        match scope {
            None | Some(Scope::Global) => self.slots().max_by_key(|slot| slot.put),
            Some(Scope::Internal) => self.internal.as_ref(),
            Some(Scope::Local) => self.same_node.as_ref(),
            Some(Scope::Remote) => self.other_nodes.as_ref(),
        }
    }

    fn slots(&self) -> impl Iterator<Item = &Slot> {
        [&self.same_node, &self.other_nodes, &self.internal].into_iter().flatten()
    }

    fn puts(&self) -> [Option<Sequence>; 3] {
        [&self.same_node, &self.other_nodes, &self.internal].map(|slot| slot.as_ref().map(|slot| slot.put))
    }

    /// Size in bytes; a value that two audiences share counts once.
    fn size_bytes(&self) -> usize {
        let all = self.slots().fold(0, |sum: usize, slot| sum.saturating_add(slot.size_bytes));
        let shared = self.same_node.as_ref().filter(|slot| self.is_global(slot)).map_or(0, |slot| slot.size_bytes);
        all - shared
    }

    fn is_global(&self, slot: &Slot) -> bool {
        self.other_nodes.as_ref().is_some_and(|other| other.put == slot.put)
    }

    /// The value of one put for other processes: the part of its audience that no later put has taken.
    fn for_others(&self, put: Sequence) -> Option<(Scope, &Slot)> {
        let of_put = |slot: &'_ &Slot| slot.put == put;
        match (self.same_node.as_ref().filter(of_put), self.other_nodes.as_ref().filter(of_put)) {
            (Some(slot), Some(_)) => Some((Scope::Global, slot)),
            (Some(slot), None) => Some((Scope::Local, slot)),
            (None, Some(slot)) => Some((Scope::Remote, slot)),
            (None, None) => None,
        }
    }
}

#[cfg(test)]
mod tests;
