//! The search for the place of an error in a description. It follows the failure, so that valid values cost nothing.

use crate::gds::StoreError;
use crate::gds::layout::cell::Encoded;
use crate::gds::qualified::{QUALIFIED_VALUE, Qualified};
use crate::keys;
use crate::types::{Info, Rank, Value, descend};

use super::coerce::ValueRule;
use super::container::{Container, Infos};
use super::description::{Description, Part, parts_of};
use super::entry_path::{Anchor, EntryPath, Step};
use super::error::RegisterError;
use super::processes::ProcessTable;

/// Adds the place in the description to a writer's error. The writer knows only the name of the value.
pub(in crate::gds) fn located_in(error: StoreError, description: &Description, value_bytes_max: u32) -> StoreError {
    located(error, || description.parts(), value_bytes_max)
}

/// As [`located_in`], for a description without tables.
pub(in crate::gds) fn located_in_infos(error: StoreError, infos: &[Info], value_bytes_max: u32) -> StoreError {
    located(error, || parts_of(infos), value_bytes_max)
}

fn located<'a, P: Iterator<Item = Part<'a>>>(
    error: StoreError,
    parts: impl Fn() -> P,
    value_bytes_max: u32,
) -> StoreError {
    let (name, limit, error) = match error {
        StoreError::Value { key, reason } => {
            (key.as_str().to_owned(), Some(value_bytes_max), RegisterError::Value(reason))
        }
        StoreError::TooManyKeys { key, keys_max } => (key, None, RegisterError::TooManyKeys { keys_max }),
        other => return other,
    };
    let error = error.anchored(Anchor::Stored(name, limit)).located(parts());
    error.into()
}

impl RegisterError {
    /// Replaces anchors by the positions in the description.
    pub(super) fn located<'a>(self, parts: impl Iterator<Item = Part<'a>>) -> Self {
        match self {
            Self::At { path, error } => Self::At { path: path.located(parts), error },
            error => error,
        }
    }
}

impl EntryPath {
    /// Searches the anchor's entry. An entry of an earlier description is not found: it has no place in this one.
    fn located<'a>(mut self, parts: impl Iterator<Item = Part<'a>>) -> Self {
        let Some(anchor) = self.anchor.take() else { return self };
        let mut search = Search { anchor, node_arrays: 0, arrays_of_process: 0, is_added: false, steps: Vec::new() };
        if search.parts(parts) {
            (self.steps, self.is_added) = (search.steps, search.is_added);
        }
        self
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
    let rule = ValueRule::of(key);
    rule.check(key, &info.value).is_ok_and(|cell| Encoded::new(&rule.value(cell), value_bytes_max).is_ok())
}

fn rank_in(info: &Info) -> Option<u32> {
    match &info.value {
        Value::ProcRank(rank) => rank.process(),
        Value::Proc(proc) => proc.rank.process(),
        value => value.as_u32().filter(|rank| *rank <= Rank::PROCESS_MAX),
    }
}
