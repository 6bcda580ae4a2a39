//! The path to an entry in a caller's description.

use std::fmt;

use crate::gds::qualified::public_name;

/// The path to an entry in a caller's description: the arrays around it, from the outside in, and its key.
///
/// Example: `job.arr[3].node.arr[0] "pmix.hname"`. Entry 3 of the description is the array `pmix.job.arr`; its entry 0
/// is a node array; that array holds the host name. Positions count all entries from 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryPath {
    /// From the inside out: errors collect them on their way up.
    pub(super) steps: Vec<Step>,
    key: Option<String>,
    /// Whether the entry is in the resources, which the server adds to every description.
    pub(super) is_added: bool,
    /// Replaces the steps until these have been searched.
    pub(super) anchor: Option<Anchor>,
}

/// An array, and the position of the next array or of the entry in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) key: String,
    pub(super) position: u64,
}

/// Search key for an entry that the walk has passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    /// A node array, by its number among all node arrays.
    NodeArray(u64),
    /// A process array about this rank.
    Process(u32),
    /// The second array of this rank from the caller.
    SecondOfProcess(u32),
    /// An entry outside session, application, process and node arrays, of this key.
    Job(String),
    /// The first entry of this key, at any depth, with a rank beyond a job of this size.
    RankBeyond(String, u32),
    /// The first entry stored under this name, at any depth; with a limit, the first whose value exceeds it.
    Stored(String, Option<u32>),
}

impl Anchor {
    /// An entry of this key outside session, application, process and node arrays.
    pub(super) fn job(key: &str) -> Self {
        Self::Job(key.to_owned())
    }
}

impl EntryPath {
    /// An entry of this key.
    #[must_use]
    pub fn of_key(key: &str) -> Self {
        Self { key: Some(key.to_owned()), ..Self::default() }
    }

    /// The same path, seen from outside: inside the array under `key`, entry `position` of its parent.
    #[must_use]
    pub fn inside(mut self, key: &str, position: u64) -> Self {
        self.steps.push(Step { key: key.to_owned(), position });
        self
    }

    /// The path of an anchor.
    pub(super) fn anchored(anchor: Anchor) -> Self {
        let key = match &anchor {
            Anchor::Job(key) | Anchor::RankBeyond(key, _) => Some(key.clone()),
            Anchor::Stored(name, _) => Some(public_name(name).to_owned()),
            _ => None,
        };
        Self { key, anchor: Some(anchor), ..Self::default() }
    }

    /// The same path in the resources, which the server adds to every description.
    pub(super) const fn in_resources(mut self) -> Self {
        self.is_added = true;
        self
    }

    pub(super) fn with_key(mut self, key: Option<&str>) -> Self {
        self.key = key.map(str::to_owned).or(self.key);
        self
    }

    /// Whether the path is unknown.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.key.is_none() && !self.is_added
    }

    /// The key of the entry; `None` if the path leads to a whole array.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }
}

/// Arrays shown by name; deeper ones are only counted.
const NAMED_MAX: usize = 8;

impl fmt::Display for EntryPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_added {
            write!(f, "resources{}", if self.steps.is_empty() { "" } else { "." })?;
        }
        for (at, step) in self.steps.iter().rev().take(NAMED_MAX).enumerate() {
            let name = step.key.strip_prefix("pmix.").unwrap_or(&step.key);
            write!(f, "{}{}[{}]", if at == 0 { "" } else { "." }, name.escape_debug(), step.position)?;
        }
        if let Some(deeper) = self.steps.len().checked_sub(NAMED_MAX).filter(|deeper| *deeper > 0) {
            write!(f, " and {deeper} deeper")?;
        }
        match &self.key {
            Some(key) if self.steps.is_empty() && !self.is_added => write!(f, "{key:?}"),
            Some(key) => write!(f, " {key:?}"),
            None => Ok(()),
        }
    }
}
