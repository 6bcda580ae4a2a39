//! Values that the server's own process stores for itself, and facts about it.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::gds::qualified;
use crate::keys;
use crate::server::HostResult;
use crate::types::{Info, Key, Kval, ProcId, Status, Value};

/// The values. No other process can ask for them.
pub struct OwnValues {
    pub(super) proc: ProcId,
    pub(super) hostname: String,
    pub(super) uri: String,
    values: Mutex<BTreeMap<ProcId, BTreeMap<Key, Value>>>,
}

impl OwnValues {
    pub(super) const fn new(proc: ProcId, hostname: String, uri: String) -> Self {
        Self { proc, hostname, uri, values: Mutex::new(BTreeMap::new()) }
    }

    /// Stores a value about any process.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for a damaged qualified value.
    pub fn store(&self, proc: &ProcId, key: Key, value: Value) -> Result<(), Status> {
        let (key, value) = qualified::stored(key, value);
        if key.as_str() == qualified::QUALIFIED_VALUE {
            return Err(Status::ERR_BAD_PARAM);
        }
        self.values.lock().entry(proc.clone()).or_default().insert(key, value);
        Ok(())
    }

    /// Removes the server's own value of a key.
    pub fn remove(&self, key: &Key) {
        self.values.lock().get_mut(&self.proc).into_iter().for_each(|values| _ = values.remove(key));
    }

    /// Whether a value is stored under a key.
    #[must_use]
    pub fn has(&self, proc: &ProcId, key: &Key) -> bool {
        self.values.lock().get(proc).is_some_and(|values| values.contains_key(key))
    }

    /// A value that is known without the core.
    pub(super) fn known(&self, proc: Option<&ProcId>, key: &Key, qualifiers: &[Info]) -> Option<Value> {
        let values = self.values.lock();
        let stored = values.get(proc.unwrap_or(&self.proc));
        if !qualifiers.is_empty() {
            let qualified = stored.into_iter().flatten().filter(|(name, _)| qualified::is_qualified(name.as_str()));
            let best = qualified::best(key.as_str(), qualifiers, qualified.map(|(_, value)| value));
            return best.and_then(qualified::inner);
        }
        let stored = stored.and_then(|values| values.get(key)).cloned();
        stored.or_else(|| self.fact(proc, key.as_str()))
    }

    /// A fact about this process.
    fn fact(&self, proc: Option<&ProcId>, key: &str) -> Option<Value> {
        let is_own = proc.is_none_or(|proc| *proc == self.proc);
        match key {
            key if key == keys::PROCID.name() => Some(Value::from(self.proc.clone())),
            key if key == keys::NSPACE.name() && proc.is_none() => Some(Value::from(self.proc.namespace.as_str())),
            key if key == keys::HOSTNAME.name() && is_own => Some(Value::from(self.hostname.as_str())),
            key if key == keys::SERVER_URI.name() && is_own => Some(Value::from(self.uri.as_str())),
            key if key == keys::MYSERVER_URI.name() && is_own => Some(Value::from(self.uri.as_str())),
            _ => None,
        }
    }

    /// The rest of a Get, for the core's answer. A Get without a key takes all stored values.
    pub(super) fn rest(&self, proc: &ProcId, wanted: Option<Key>, qualifiers: Vec<Info>) -> Rest {
        let stored = if wanted.is_none() { self.stored(proc) } else { Vec::new() };
        Rest { stored, wanted, qualifiers }
    }

    /// All values that are stored about a process.
    fn stored(&self, proc: &ProcId) -> Vec<Kval> {
        let values = self.values.lock();
        let values = values.get(proc).into_iter().flatten();
        values.map(|(key, value)| Kval { key: qualified::public_key(key.clone()), value: value.clone() }).collect()
    }
}

/// The rest of a Get.
pub(super) struct Rest {
    stored: Vec<Kval>,
    wanted: Option<Key>,
    qualifiers: Vec<Info>,
}

impl Rest {
    /// The value, from the core's result. Own values answer a Get without a key, even if the core finds no others.
    pub(super) fn finish(self, result: HostResult) -> Result<Value, HostResult> {
        let Self { stored, wanted, qualifiers } = self;
        let entries = match result {
            HostResult::Entries(entries) => entries,
            HostResult::Status(Status::SUCCESS) => Vec::new(),
            _ if !stored.is_empty() => Vec::new(),
            failure => return Err(failure),
        };
        pick(merge(stored, entries), wanted.as_ref(), &qualifiers).ok_or(HostResult::Status(Status::ERR_NOT_FOUND))
    }
}

/// The stored values, and those of the others that have another key.
fn merge(mut stored: Vec<Kval>, others: Vec<Kval>) -> Vec<Kval> {
    let others: Vec<Kval> =
        others.into_iter().filter(|other| !stored.iter().any(|known| qualified::is_same_place(known, other))).collect();
    stored.extend(others);
    stored
}

/// The wanted value, or all values as an array.
fn pick(entries: Vec<Kval>, wanted: Option<&Key>, qualifiers: &[Info]) -> Option<Value> {
    match wanted {
        Some(key) if !qualifiers.is_empty() => {
            let qualified = entries.iter().filter(|entry| entry.key.as_str() == qualified::QUALIFIED_VALUE);
            let best = qualified::best(key.as_str(), qualifiers, qualified.map(|entry| &entry.value));
            best.and_then(qualified::inner)
        }
        Some(key) => entries.into_iter().find(|entry| entry.key == *key).map(|entry| entry.value),
        None if entries.is_empty() => None,
        None => Some(Value::info_array(entries.into_iter().map(|entry| Info::new(entry.key, entry.value)).collect())),
    }
}
