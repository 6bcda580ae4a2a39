//! A small realm: each key once, in the order of first mention. Also the facts about an application or session.

use rustc_hash::FxHashMap;

use crate::gds::qualified::QUALIFIED_VALUE;
use crate::types::{Info, Key, Value};

use super::coerce::{ValueRule, record_key};
use super::columns::Columns;
use super::container::{Infos, qualified};
use super::entry_path::Anchor;
use super::error::RegisterError;

/// The values of the session, the job or an application.
#[derive(Clone, Debug, Default)]
pub(super) struct ValueTable {
    entries: Vec<(Key, Value)>,
    positions: FxHashMap<Key, usize>,
}

impl ValueTable {
    /// Checks the host's value and stores it; it replaces an earlier one.
    pub(super) fn insert(&mut self, info: &Info) -> Result<(), RegisterError> {
        if info.key.as_str() == QUALIFIED_VALUE {
            self.set(qualified(info)?.name(), info.value.clone());
            return Ok(());
        }
        let rule = ValueRule::of(info.key.as_str());
        let cell = rule.check(info.key.as_str(), &info.value)?;
        self.set(record_key(&info.key), rule.value(cell));
        Ok(())
    }

    /// Stores a value; it replaces an earlier one.
    pub(super) fn set(&mut self, key: Key, value: Value) {
        match self.positions.get(&key).and_then(|&position| self.entries.get_mut(position)) {
            Some(entry) => entry.1 = value,
            None => {
                self.positions.insert(key.clone(), self.entries.len());
                self.entries.push((key, value));
            }
        }
    }

    /// Stores a value unless there is one.
    pub(super) fn fill(&mut self, key: Key, value: Value) {
        if !self.positions.contains_key(&key) {
            self.set(key, value);
        }
    }

    /// The value of a key.
    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.positions.get(key).and_then(|&position| self.entries.get(position)).map(|(_, value)| value)
    }

    /// The key of the first entry.
    pub(super) fn first_key(&self) -> Option<&Key> {
        self.entries.first().map(|(key, _)| key)
    }

    /// All entries, in the order of first mention.
    pub(super) fn into_entries(self) -> Vec<(Key, Value)> {
        self.entries
    }
}

/// The facts about one application or one session.
#[derive(Debug, Default)]
pub(super) struct PartFacts<'a> {
    pub(super) table: ValueTable,
    pub(super) nodes: Vec<NodeArray<'a>>,
    /// Values of the node arrays, once the nodes are placed.
    pub(super) columns: Columns<'a>,
}

/// A node array, to be read once all nodes are known by name.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeArray<'a> {
    /// Its position among all node arrays.
    pub(super) position: u64,
    pub(super) infos: Infos<'a>,
}

impl NodeArray<'_> {
    /// The anchor of this array.
    pub(super) const fn anchor(&self) -> Anchor {
        Anchor::NodeArray(self.position)
    }
}
