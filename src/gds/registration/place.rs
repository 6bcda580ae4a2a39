//! The position of an entry in a caller's description.

use std::fmt;

use crate::gds::cell::Encoded;
use crate::gds::qualified::{QUALIFIED_VALUE, Qualified, told_name};
use crate::keys;
use crate::types::{Info, Rank, Value, descend};

use super::coerce::Rule;
use super::container::{Container, Infos};
use super::description::Part;
use super::processes::ProcessTable;

/// The position of an entry in a caller's description: the arrays around it, from the outside in, and its key.
///
/// Example: `job.arr[3].node.arr[0] "pmix.hname"`. Entry 3 of the description is the array `pmix.job.arr`; its entry 0
/// is a node array; that array holds the host name. Positions count all entries from 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// From the inside out: errors collect them on their way up.
    steps: Vec<Step>,
    key: Option<String>,
    /// Whether the entry is in the resources, which the server adds to every description.
    is_added: bool,
    /// Replaces the steps until these have been searched.
    anchor: Option<Anchor>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Step {
    key: String,
    position: u64,
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

impl Place {
    /// An entry of this key.
    #[must_use]
    pub fn of_key(key: &str) -> Self {
        Self { key: Some(key.to_owned()), ..Self::default() }
    }

    /// The same place, seen from outside: inside the array under `key`, entry `position` of its parent.
    #[must_use]
    pub fn inside(mut self, key: &str, position: u64) -> Self {
        self.steps.push(Step { key: key.to_owned(), position });
        self
    }

    /// The place of an anchor.
    pub(super) fn anchored(anchor: Anchor) -> Self {
        let key = match &anchor {
            Anchor::Job(key) | Anchor::RankBeyond(key, _) => Some(key.clone()),
            Anchor::Stored(name, _) => Some(told_name(name).to_owned()),
            _ => None,
        };
        Self { key, anchor: Some(anchor), ..Self::default() }
    }

    /// The same place in the resources, which the server adds to every description.
    pub(super) const fn in_resources(mut self) -> Self {
        self.is_added = true;
        self
    }

    pub(super) fn with_key(mut self, key: Option<&str>) -> Self {
        self.key = key.map(str::to_owned).or(self.key);
        self
    }

    /// Searches the anchor's entry. An entry of an earlier description is not found: it has no place in this one.
    pub(super) fn located<'a>(mut self, parts: impl Iterator<Item = Part<'a>>) -> Self {
        let Some(anchor) = self.anchor.take() else { return self };
        let mut search = Search { anchor, node_arrays: 0, arrays_of_process: 0, is_added: false, steps: Vec::new() };
        if search.parts(parts) {
            (self.steps, self.is_added) = (search.steps, search.is_added);
        }
        self
    }

    /// Whether the place is unknown.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.key.is_none() && !self.is_added
    }

    /// The key of the entry; `None` if the place is a whole array.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }
}

/// Arrays shown by name; deeper ones are only counted.
const NAMED_MAX: usize = 8;

impl fmt::Display for Place {
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

/// Repeats the walk of the collector after its success, so it ends within the limit of depth.
struct Search {
    anchor: Anchor,
    node_arrays: u64,
    arrays_of_process: u32,
    is_added: bool,
    /// From the inside out.
    steps: Vec<Step>,
}

impl Search {
    fn parts<'a>(&mut self, parts: impl Iterator<Item = Part<'a>>) -> bool {
        for part in parts {
            match part {
                Part::Added(position, info) if self.entry(info, position, true) => {
                    self.is_added = true;
                    return true;
                }
                Part::Added(..) => self.arrays_of_process = 0,
                Part::Info(position, info) if self.entry(info, position, true) => return true,
                Part::Processes(table, positions) => {
                    let with_entry = self.rank_with_entry(table);
                    let is_meant = |(rank, _)| Some(rank) == with_entry || self.is_process_meant(rank);
                    if let Some(at) = table.arrays().position(is_meant) {
                        let (key, at) =
                            (keys::PROC_INFO_ARRAY.name().to_owned(), u64::try_from(at).unwrap_or(u64::MAX));
                        self.steps.push(Step { key, position: positions.of(at) });
                        return true;
                    }
                }
                Part::Info(..) => {}
            }
        }
        false
    }

    fn entry(&mut self, info: &Info, position: u64, is_of_job: bool) -> bool {
        let key = info.key.as_str();
        let Some(container) = Container::of(key) else {
            return match &self.anchor {
                Anchor::Job(wanted) => is_of_job && wanted == key,
                Anchor::RankBeyond(wanted, size) => wanted == key && rank_in(info).is_some_and(|rank| rank >= *size),
                Anchor::Stored(wanted, limit) => is_stored_as(info, wanted) && limit.is_none_or(|max| !fits(info, max)),
                _ => false,
            };
        };
        let Ok(infos) = Infos::of(key, &info.value) else { return false };
        let is_meant = match (container, &self.anchor) {
            (Container::Node, Anchor::NodeArray(wanted)) => {
                self.node_arrays += 1;
                self.node_arrays - 1 == *wanted
            }
            (Container::Proc, _) => {
                infos.iter().next().and_then(rank_in).is_some_and(|rank| self.is_process_meant(rank))
            }
            _ => false,
        };
        let is_of_job = container == Container::Job;
        if is_meant || descend(|| (0..).zip(infos.iter()).any(|(at, info)| self.entry(info, at, is_of_job))) {
            self.steps.push(Step { key: key.to_owned(), position });
            return true;
        }
        false
    }

    /// The process of a table with the searched entry.
    fn rank_with_entry(&self, table: &ProcessTable) -> Option<u32> {
        let Anchor::Stored(name, limit) = &self.anchor else { return None };
        let is_unfit = |value: Value| limit.is_none_or(|max| Encoded::new(&value, max).is_err());
        let column = table.columns().find(|column| column.key().as_str() == name)?;
        column.cells().find(|(_, cell)| is_unfit(column.value_of(cell.clone()))).map(|(rank, _)| rank)
    }

    /// Whether the next array, about this process, is the searched one.
    fn is_process_meant(&mut self, rank: u32) -> bool {
        match self.anchor {
            Anchor::Process(wanted) => rank == wanted,
            Anchor::SecondOfProcess(wanted) if rank == wanted => {
                self.arrays_of_process += 1;
                self.arrays_of_process == 2
            }
            _ => false,
        }
    }
}

fn is_stored_as(info: &Info, name: &str) -> bool {
    match info.key.as_str() {
        QUALIFIED_VALUE => Qualified::of(&info.value).is_some_and(|qualified| qualified.name().as_str() == name),
        key => key == name,
    }
}

/// Whether a value can be stored, after conversion.
fn fits(info: &Info, value_bytes_max: u32) -> bool {
    let key = info.key.as_str();
    if key == QUALIFIED_VALUE {
        return Encoded::new(&info.value, value_bytes_max).is_ok();
    }
    let rule = Rule::of(key);
    rule.check(key, &info.value).is_ok_and(|cell| Encoded::new(&rule.value(cell), value_bytes_max).is_ok())
}

fn rank_in(info: &Info) -> Option<u32> {
    match &info.value {
        Value::ProcRank(rank) => rank.process(),
        Value::Proc(proc) => proc.rank.process(),
        value => value.as_u32().filter(|rank| *rank <= Rank::PROCESS_MAX),
    }
}
