//! A description as it is handed to the store.

use std::borrow::Cow;

use crate::keys;
use crate::types::{Info, Key, Value};

use super::container::{Container, Infos, unwrapped};
use super::processes::ProcessTable;
use super::runs::Runs;

/// A host's description of a job: infos, and tables of values for each process.
///
/// ```
/// use modex::gds::registration::{Description, HostValue};
/// use modex::types::{DataType, Info, Key};
///
/// let mut description = Description::default();
/// description.push(Info::new(Key::new("pmix.job.size")?, 2_u32));
/// let table = description.processes();
/// for rank in 0..2 {
///     let column = table.column(0, &Key::new("pmix.appnum")?).ok_or("no column")?;
///     let cell = table.cell(column, HostValue::Number(DataType::Uint32, 7)).ok_or("no number")?;
///     table.push(rank, &[cell]);
/// }
/// assert_eq!(description.to_infos().len(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Description {
    infos: Vec<Info>,
    /// Tables, each with the number of infos before it.
    tables: Vec<(usize, ProcessTable)>,
    /// Whether the last table takes the next process array. An info about a process closes it, because the last value
    /// of a process counts.
    is_open: bool,
    /// Arrays in all tables but the last.
    arrays_in_closed: u64,
    /// Number of arrays in the tables when an info came, for infos behind arrays.
    arrays_before: Runs,
    /// Infos in front from the server.
    prepended: usize,
}

impl Description {
    /// Adds an info.
    pub fn push(&mut self, info: Info) {
        let arrays = self.tables.last().map_or(0, |(_, table)| table.array_count()) + self.arrays_in_closed;
        if let (true, Ok(index)) = (arrays > 0, u32::try_from(self.infos.len() - self.prepended)) {
            self.arrays_before.push(index, arrays);
        }
        self.is_open &= !may_describe_processes(&info);
        self.infos.push(info);
    }

    /// The table for the next process arrays.
    pub fn processes(&mut self) -> &mut ProcessTable {
        if !self.is_open || self.tables.is_empty() {
            self.arrays_in_closed += self.tables.last().map_or(0, |(_, table)| table.array_count());
            self.tables.push((self.infos.len(), ProcessTable::default()));
            self.is_open = true;
        }
        let last = self.tables.len() - 1;
        #[expect(clippy::indexing_slicing, reason = "there is a table now")]
        &mut self.tables[last].1
    }

    /// Puts infos in front of all others.
    pub fn prepend(&mut self, infos: Vec<Info>) {
        self.tables.iter_mut().for_each(|(position, _)| *position += infos.len());
        self.prepended += infos.len();
        self.infos.splice(0..0, infos);
    }

    /// Number of prepended infos.
    pub(super) fn added_count(&self) -> u64 {
        u64::try_from(self.prepended).unwrap_or(u64::MAX)
    }

    /// The infos outside tables.
    #[must_use]
    pub fn infos(&self) -> &[Info] {
        &self.infos
    }

    /// Whether there is an entry of this key.
    #[must_use]
    pub fn has(&self, key: &Key) -> bool {
        let in_table = || self.tables.iter().any(|(_, table)| table.array_count() > 0);
        self.infos.iter().any(|info| unwrapped(info).key == *key)
            || key.as_str() == keys::PROC_INFO_ARRAY.name() && in_table()
    }

    /// Whether there is an entry of this key for the job, also in an array of the job.
    #[must_use]
    pub fn has_of_job(&self, key: &Key) -> bool {
        self.has(key) || self.infos_of_job().any(|info| info.key == *key)
    }

    /// The infos about the job, also those in an array of the job, and the arrays of its parts.
    pub fn infos_of_job(&self) -> impl Iterator<Item = &Info> {
        self.infos.iter().map(unwrapped).flat_map(|info| {
            let elements = match &info.value {
                Value::DataArray(array) if info.key.as_str() == keys::JOB_INFO_ARRAY.name() => &*array.elements,
                _ => &[],
            };
            let inner = elements
                .iter()
                .filter_map(|element| if let Value::Info(info) = element { Some(&**info) } else { None });
            std::iter::once(info).chain(inner)
        })
    }

    /// The whole description as infos, with the process arrays written out.
    #[must_use]
    pub fn to_infos(&self) -> Cow<'_, [Info]> {
        if self.tables.is_empty() {
            return Cow::Borrowed(&self.infos);
        }
        let mut all = Vec::new();
        for part in self.parts() {
            match part {
                Part::Added(_, info) | Part::Info(_, info) => all.push(info.clone()),
                Part::Processes(table, _) => all.extend(table.to_infos()),
            }
        }
        Cow::Owned(all)
    }

    /// Infos and tables in order.
    pub(super) fn parts(&self) -> impl Iterator<Item = Part<'_>> + Clone {
        let mut tables = self.tables.iter().peekable();
        let mut infos = self.infos.iter().enumerate().peekable();
        let mut arrays_before = self.arrays_before.iter().peekable();
        let mut filed = 0;
        std::iter::from_fn(move || {
            let index = infos.peek().map(|(index, _)| *index);
            if let Some((_, table)) = tables.next_if(|(before, _)| index.is_none_or(|index| *before <= index)) {
                let positions = Positions { description: self, filed };
                filed += table.array_count();
                return Some(Part::Processes(table, positions));
            }
            let (index, info) = infos.next().map(|(index, info)| (index, unwrapped(info)))?;
            let count = |length: usize| u64::try_from(length).unwrap_or(u64::MAX);
            let Some(given) = index.checked_sub(self.prepended) else { return Some(Part::Added(count(index), info)) };
            let before = arrays_before.next_if(|(at, _)| usize::try_from(*at) == Ok(given));
            let position = count(given) + before.map_or(0, |(_, arrays)| arrays);
            Some(Part::Info(position, info))
        })
    }
}

/// A part of a description.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part<'a> {
    /// A prepended info from the server, and its position among these.
    Added(u64, &'a Info),
    /// An info, and its position in the caller's description.
    Info(u64, &'a Info),
    Processes(&'a ProcessTable, Positions<'a>),
}

/// Infos as the parts of a description.
pub(super) fn parts_of(infos: &[Info]) -> impl Iterator<Item = Part<'_>> + Clone {
    (0..).zip(infos).map(|(position, info)| Part::Info(position, unwrapped(info)))
}

/// Positions of a table's arrays in the caller's description.
#[derive(Clone, Copy, Debug)]
pub(super) struct Positions<'a> {
    description: &'a Description,
    /// Arrays in the tables before this one.
    filed: u64,
}

impl Positions<'_> {
    /// The position of an array of the table. Walks all infos, so it is only for errors.
    pub(super) fn of(self, array: u64) -> u64 {
        let array = array + self.filed;
        let infos = u64::try_from(self.description.infos.len() - self.description.prepended).unwrap_or(u64::MAX);
        let later = self.description.arrays_before.iter().filter(|(_, arrays)| *arrays > array).count();
        array + infos.saturating_sub(u64::try_from(later).unwrap_or(u64::MAX))
    }
}

/// Whether an info is, or holds, an entry about a single process.
fn may_describe_processes(info: &Info) -> bool {
    let info = unwrapped(info);
    let is_container = |info: &Info| Container::of(info.key.as_str()).is_some();
    match Container::of(info.key.as_str()) {
        None => false,
        Some(Container::Proc) => true,
        Some(_) => Infos::of(info.key.as_str(), &info.value).is_ok_and(|infos| infos.iter().any(is_container)),
    }
}

impl From<Vec<Info>> for Description {
    fn from(infos: Vec<Info>) -> Self {
        Self { infos, ..Self::default() }
    }
}
