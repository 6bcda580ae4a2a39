//! Process arrays on their way into a description, by key instead of by process.
//!
//! A host describes each process by an array, all with the same keys in the same order. Filed here one by one, a
//! hundred thousand of them become a few runs of numbers, and no array is kept as a whole.

use std::hash::BuildHasher;

use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::gds::qualified::QUALIFIED_VALUE;
use crate::keys;
use crate::types::{DataType, Info, Key, Rank, Text, Value};

use super::coerce::{RecordCell, ValueRule, number_of, number_value, record_key};
use super::container::Container;
use super::runs::Runs;

/// Process arrays outside all other containers.
///
/// It takes arrays of a rank and values of known form. Other arrays belong into the description as they are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessTable {
    /// Rank and number of entries of each array.
    arrays: Runs,
    array_count: u64,
    columns: Vec<TableColumn>,
    positions: FxHashMap<Key, ColumnId>,
    /// The column of each position in the arrays, without the rank's.
    places: Vec<ColumnId>,
}

/// A column of a [`ProcessTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnId(usize);

/// A value in the form of its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableCell {
    column: ColumnId,
    number: u64,
}

/// A value in the host's form.
#[derive(Clone, Debug, PartialEq)]
pub enum HostValue<'v> {
    /// A 16- or 32-bit number, or a rank below [`Rank::PROCESS_MAX`]: type and number.
    Number(DataType, u32),
    /// A string without NUL.
    Text(&'v [u8]),
    /// Anything else.
    Other(Value),
}

/// All values of one key.
#[derive(Clone, Debug)]
pub(super) struct TableColumn {
    key: Key,
    rule: ValueRule,
    /// Rank and number of each process; the number is the value, or a position in `values`.
    numbers: Runs,
    /// Distinct values, if the key has other values than numbers.
    values: Vec<Value>,
    /// Positions in `values` by the hash of the text there.
    by_hash: FxHashMap<u64, usize>,
}

impl ProcessTable {
    /// The column of this position in the previous array, if the key is still the same.
    #[must_use]
    pub fn column_at(&self, place: usize, is_key: impl FnOnce(&str) -> bool) -> Option<ColumnId> {
        let column = *self.places.get(place)?;
        is_key(self.columns.get(column.0)?.key.as_str()).then_some(column)
    }

    /// The column of a key, remembered for this position; `None` if such an entry does not belong into a table.
    pub fn column(&mut self, place: usize, key: &Key) -> Option<ColumnId> {
        let column = match self.positions.get(key) {
            Some(&column) => column,
            None if is_special(key.as_str()) => return None,
            None => {
                let (key, column) = (record_key(key), ColumnId(self.columns.len()));
                self.positions.insert(key.clone(), column);
                self.columns.push(TableColumn::new(key));
                column
            }
        };
        if place == self.places.len() {
            self.places.push(column);
        } else if let Some(at) = self.places.get_mut(place) {
            *at = column;
        }
        Some(column)
    }

    /// A value for a column; `None` if such a value does not belong into a table.
    pub fn cell(&mut self, column: ColumnId, given: HostValue<'_>) -> Option<TableCell> {
        let number = self.columns.get_mut(column.0)?.cell(given)?;
        Some(TableCell { column, number })
    }

    /// Whether a column of numbers cannot take a value because it is not a number.
    pub(super) fn is_apart(&self, column: ColumnId, value: &Value) -> bool {
        self.columns.get(column.0).is_some_and(|column| {
            column.rule.number_type().is_some() && column.rule.misfit(column.key.as_str(), value).is_some()
        })
    }

    /// Files an array: its rank and all other values.
    pub fn push(&mut self, rank: u32, cells: &[TableCell]) {
        let entry_count = u64::try_from(cells.len()).unwrap_or(u64::MAX).saturating_add(1);
        self.arrays.push(rank, entry_count);
        self.array_count += 1;
        for cell in cells {
            if let Some(column) = self.columns.get_mut(cell.column.0) {
                column.numbers.push(rank, cell.number);
            }
        }
    }

    /// Rank and number of entries of each array, in order.
    pub(super) fn arrays(&self) -> impl Iterator<Item = (u32, u64)> + Clone {
        self.arrays.iter()
    }

    /// Number of arrays.
    pub(super) const fn array_count(&self) -> u64 {
        self.array_count
    }

    /// The columns, in the order of first mention.
    pub(super) fn columns(&self) -> impl Iterator<Item = &TableColumn> {
        self.columns.iter().filter(|column| !column.numbers.is_empty())
    }

    /// Equivalent arrays, in order: one for each run of values from one array.
    pub(super) fn to_infos(&self) -> Vec<Info> {
        let mut columns: Vec<_> = self.columns().map(|column| (column, column.numbers.iter().peekable())).collect();
        let array = |(rank, entry_count): (u32, u64)| {
            let mut entries = vec![Info::new(Key::from_static(keys::RANK.name()), Rank::from(rank))];
            for (column, numbers) in &mut columns {
                // For a key that occurs twice in an array, both values.
                while u64::try_from(entries.len()).unwrap_or(u64::MAX) < entry_count
                    && let Some((_, number)) = numbers.next_if(|(of, _)| *of == rank)
                {
                    entries.extend(column.value(number).map(|value| Info::new(column.key.clone(), value)));
                }
            }
            Info::new(Key::from_static(keys::PROC_INFO_ARRAY.name()), Value::info_array(entries))
        };
        self.arrays().map(array).collect()
    }
}

impl TableColumn {
    fn new(key: Key) -> Self {
        let rule = ValueRule::of(key.as_str());
        Self { key, rule, numbers: Runs::default(), values: Vec::new(), by_hash: FxHashMap::default() }
    }

    /// Its key.
    pub(super) const fn key(&self) -> &Key {
        &self.key
    }

    /// Number of cells.
    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Rank and cell, in the order in which they were filed.
    pub(super) fn cells(&self) -> impl Iterator<Item = (u32, RecordCell<'_>)> {
        let cell = |number| match self.rule.number_type() {
            Some(_) => Some(RecordCell::Number(number)),
            None => Some(RecordCell::Borrowed(self.values.get(usize::try_from(number).ok()?)?)),
        };
        self.numbers.iter().filter_map(move |(rank, number)| Some((rank, cell(number)?)))
    }

    /// The value of a cell of this column.
    pub(super) fn value_of(&self, cell: RecordCell<'_>) -> Value {
        self.rule.value(cell)
    }

    /// The numbers of the ranks from zero, if the column is numeric and has exactly these ranks in this order; else
    /// empty.
    pub(super) fn numbers_from_zero(&self) -> Vec<u64> {
        if self.rule.number_type().is_none() || !self.numbers.counts_from_zero() {
            return Vec::new();
        }
        let mut numbers = Vec::with_capacity(self.numbers.len());
        numbers.extend(self.numbers.iter().map(|(_, number)| number));
        numbers
    }

    fn value(&self, number: u64) -> Option<Value> {
        match self.rule.number_type() {
            Some(data_type) => Some(number_value(data_type, number)),
            None => self.values.get(usize::try_from(number).ok()?).cloned(),
        }
    }

    fn cell(&mut self, given: HostValue<'_>) -> Option<u64> {
        match given {
            HostValue::Number(data_type, number) if self.rule.number_type() == Some(data_type) => Some(number.into()),
            HostValue::Number(data_type, number) => self.other(number_value(data_type, number.into())),
            HostValue::Text(text) => self.text(text),
            HostValue::Other(value) => self.other(value),
        }
    }

    fn text(&mut self, text: &[u8]) -> Option<u64> {
        let last = self.values.len().wrapping_sub(1);
        let is_at =
            |position: usize| matches!(self.values.get(position), Some(Value::String(at)) if at.as_bytes() == text);
        if is_at(last) {
            return u64::try_from(last).ok();
        }
        let hash = FxBuildHasher.hash_one(text);
        if let Some(position) = self.by_hash.get(&hash).copied().filter(|position| is_at(*position)) {
            return u64::try_from(position).ok();
        }
        let number = self.other(Value::String(Text::until_nul(text)))?;
        self.by_hash.insert(hash, usize::try_from(number).ok()?);
        Some(number)
    }

    fn other(&mut self, value: Value) -> Option<u64> {
        // Equal floating point numbers may differ in sign.
        let is_exact = matches!(value, Value::Bool(_) | Value::NullString) || number_of(&value).is_some();
        if is_exact && self.rule.number_type().is_none() && self.values.last() == Some(&value) {
            return u64::try_from(self.values.len() - 1).ok();
        }
        let converted = match self.rule.check(self.key.as_str(), &value).ok()? {
            RecordCell::Number(number) => return Some(number),
            RecordCell::Borrowed(_) => None,
            RecordCell::Owned(converted) => Some(*converted),
        };
        // A column of numbers has no other values: an array with another value belongs into the description.
        self.rule.number_type().is_none().then_some(())?;
        self.values.push(converted.unwrap_or(value));
        u64::try_from(self.values.len() - 1).ok()
    }
}

/// The rest follows from the key.
impl PartialEq for TableColumn {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key && self.numbers == other.numbers && self.values == other.values
    }
}

/// Whether an entry of this key has a meaning besides its value.
fn is_special(key: &str) -> bool {
    [keys::RANK.name(), keys::PROCID.name(), keys::NSPACE.name(), QUALIFIED_VALUE].contains(&key)
        || Container::of(key).is_some()
        || key.is_empty()
}
