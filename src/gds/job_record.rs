//! A job as the host described it, sorted into realms: the result of registration, and the input of the segment writer.
//!
//! Session, job and applications are small tables. Values of each process or node are columnar from the start, so that
//! a million ranks never become a million small tables.

use crate::regex::DealtRanks;
use crate::types::{DataType, Key, Value};

/// A described job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobRecord {
    /// Session-realm values.
    pub session: Vec<(Key, Value)>,
    /// The session's number, if the host gave it.
    pub session_id: Option<u32>,
    /// Node values of the session, by key and index of the node; empty unless the session has a number.
    pub session_nodes: Vec<Column>,
    /// Other sessions, by ascending number.
    pub other_sessions: Vec<SessionRecord>,
    /// Job-realm values.
    pub job: Vec<(Key, Value)>,
    /// Application-realm values, by application number, ascending.
    pub apps: Vec<AppRecord>,
    /// Number of nodes of the job; the length of every full node column.
    pub node_count: u32,
    /// Node-realm columns, addressed by node index (position in the node map).
    pub node_columns: Vec<Column>,
    /// Index of the node this server runs on, if the job uses it.
    pub own_node: Option<u32>,
    /// Number of processes; the length of every full process column. Ranks are `0..rank_count`.
    pub rank_count: u32,
    /// Process-realm columns, addressed by rank.
    pub proc_columns: Vec<Column>,
}

/// Values of one application.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AppRecord {
    /// Its number.
    pub number: u32,
    /// Its values.
    pub entries: Vec<(Key, Value)>,
    /// Its node values, by key and index of the node.
    pub node_columns: Vec<Column>,
}

/// Values of a session other than the job's own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionRecord {
    /// Its number.
    pub id: u32,
    /// Its values.
    pub entries: Vec<(Key, Value)>,
    /// Its node values, by key and index of the node.
    pub node_columns: Vec<Column>,
}

/// One key for all processes (or all nodes).
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// The key.
    pub key: Key,
    /// Its values.
    pub values: ColumnValues,
}

/// The values of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum ColumnValues {
    /// The same for every rank or node.
    Constant(Value),
    /// Unsigned numbers (or ranks) of one type, one for each rank or node.
    Numbers {
        /// Type of each value: an unsigned integer type, `ProcRank` or `Pid`.
        data_type: DataType,
        /// The numbers, each within the type's range.
        values: Vec<u64>,
    },
    /// Unsigned numbers (or ranks) of one type that count up by one.
    Counting {
        /// Type of each value, as of numbers.
        data_type: DataType,
        /// The number of the first rank or node.
        first: u64,
    },
    /// Texts, one for each rank or node, all different.
    Texts(Texts),
    /// Any values; `None` where the key is absent. As long as the column.
    Values(Vec<Option<Value>>),
    /// Index and value of few indexes, ascending.
    Sparse(Vec<(u32, Value)>),
    /// The local peers of each node, by rule; only in that node column. A node without ranks has no value.
    RankLists(DealtRanks),
    /// Endpoints, each with the number of its process; process columns only.
    Endpoints(EndpointLists),
    /// Process columns only: the node's value under the same key.
    OfNode,
}

/// Lists of endpoints on a fabric that many processes share, and the list of each process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EndpointLists {
    /// Arrays of endpoints, without the ranks in their bytes.
    pub lists: Vec<Value>,
    /// The list of each rank, counted from 1; 0 for a rank without endpoints.
    pub numbers: Vec<u64>,
}

impl EndpointLists {
    /// The endpoints of a process.
    #[must_use]
    pub fn of(&self, rank: u32) -> Option<Value> {
        let number = self.numbers.get(usize::try_from(rank).ok()?)?.checked_sub(1)?;
        self.lists.get(usize::try_from(number).ok()?).map(|list| endpoints_of(list.clone(), rank))
    }

    /// Adds the lists of other processes. A process with endpoints keeps these.
    pub fn add(&mut self, mut weaker: Self) {
        self.numbers.resize(self.numbers.len().max(weaker.numbers.len()), 0);
        // A list that nobody takes would be stored for nothing, with each registration again.
        let mut taken = vec![0_u64; weaker.lists.len()];
        for (number, added) in self.numbers.iter_mut().zip(weaker.numbers).filter(|(number, _)| **number == 0) {
            let Some(place) = added.checked_sub(1).and_then(|place| usize::try_from(place).ok()) else { continue };
            let (Some(taken), Some(list)) = (taken.get_mut(place), weaker.lists.get_mut(place)) else { continue };
            if *taken == 0 {
                self.lists.push(std::mem::replace(list, Value::Undefined));
                *taken = u64::try_from(self.lists.len()).unwrap_or(u64::MAX);
            }
            *number = *taken;
        }
    }
}

/// A list's endpoints as those of a process: the rank comes before the bytes of each one, least significant byte first.
pub(crate) fn endpoints_of(mut list: Value, rank: u32) -> Value {
    if let Value::DataArray(array) = &mut list {
        for element in &mut array.elements {
            if let Value::Endpoint(endpoint) = element {
                endpoint.bytes.splice(0..0, rank.to_le_bytes());
            }
        }
    }
    list
}

/// Any number of texts in two allocations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    text: String,
    /// The end of each text in `text`.
    ends: Vec<u32>,
}

impl Texts {
    /// Takes concatenated texts, and the end of each.
    #[must_use]
    pub(crate) const fn new(text: String, ends: Vec<u32>) -> Self {
        Self { text, ends }
    }

    /// Collects texts; `None` beyond 4 GiB.
    pub fn collect<'t>(texts: impl ExactSizeIterator<Item = &'t str>, text_bytes: usize) -> Option<Self> {
        let mut all = Self { text: String::with_capacity(text_bytes), ends: Vec::with_capacity(texts.len()) };
        for text in texts {
            all.text.push_str(text);
            all.ends.push(u32::try_from(all.text.len()).ok()?);
        }
        Some(all)
    }

    /// Number of texts.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no texts.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The text at an index.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&str> {
        let position = |end: u32| usize::try_from(end).unwrap_or(usize::MAX);
        let start = index.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied().map(position))?;
        self.text.get(start..position(*self.ends.get(index)?))
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        (0..self.len()).map(|index| self.get(index).unwrap_or_default())
    }
}

impl JobRecord {
    /// A value of the job realm; the last value of a key, as in the segment.
    #[must_use]
    pub fn job_value(&self, key: &str) -> Option<&Value> {
        self.job.iter().rfind(|(k, _)| k.as_str() == key).map(|(_, value)| value)
    }
}
