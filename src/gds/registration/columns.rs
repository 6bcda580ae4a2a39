//! Columns under construction: all values of one key, for processes or for nodes.
//!
//! Values are kept as a list of (index, value) until the record is made. Memory is thus proportional to the number of
//! values, however large the indexes are.

use rustc_hash::FxHashMap;

use crate::gds::job_record::{Column, ColumnValues, EndpointLists, Texts};
use crate::gds::qualified::QUALIFIED_VALUE;
use crate::regex::DealtRanks;
use crate::types::{DataType, Info, Key, Value};

use super::coerce::{RecordCell, ValueRule, number_of, number_value, record_key};
use super::container::qualified;
use super::error::RegisterError;
use super::front::Front;
use super::processes::TableColumn;

/// Columns by key.
#[derive(Debug, Default)]
pub(super) struct Columns<'a> {
    columns: Vec<ColumnBuilder<'a>>,
    positions: FxHashMap<Key, usize>,
    /// The column of each position in the previous array: usually all arrays have the same keys in the same order.
    places: Vec<usize>,
}

/// Positions of an array whose columns are remembered.
const PLACES_MAX: usize = 256;
/// The position of no column.
const NO_COLUMN: usize = usize::MAX;

/// One column.
#[derive(Debug)]
pub(super) struct ColumnBuilder<'a> {
    key: Key,
    rule: ValueRule,
    entries: Vec<(u32, RecordCell<'a>)>,
    /// Whether the indexes ascend strictly.
    ascends: bool,
    /// Values of the indexes from zero. An entry for the same index overrides the front.
    front: Front<'a>,
    /// Values of the indexes without entry.
    rest: Rest<'a>,
}

/// The values of all indexes without an entry.
#[derive(Debug)]
enum Rest<'a> {
    /// None.
    Absent,
    /// The same for all.
    Constant(RecordCell<'a>),
    /// A number for each index of the column, with or without an entry.
    Numbers(Vec<u64>),
    /// The index and this number.
    Counting(u64),
    /// A text for each index of the column, with or without an entry, no two alike.
    Texts(Texts),
    /// The ranks of each node by rule. Only in columns without entries.
    RankLists(DealtRanks),
    /// Endpoints of indexes, with or without an entry.
    Endpoints(EndpointLists),
    /// The node's value of the same key. Only in columns without entries.
    OfNode,
}

impl<'a> Columns<'a> {
    /// The column of a key that has a value already.
    pub(super) fn existing(&mut self, key: &str) -> Option<&mut ColumnBuilder<'a>> {
        self.positions.get(key).and_then(|&position| self.columns.get_mut(position))
    }

    /// The same for the key at a position of an array.
    #[inline]
    pub(super) fn existing_at(&mut self, place: usize, key: &str) -> Option<&mut ColumnBuilder<'a>> {
        let is_of_key = |column: &ColumnBuilder<'a>| column.key.as_str() == key;
        let expected = self.places.get(place).copied();
        let position = match expected.filter(|&position| self.columns.get(position).is_some_and(is_of_key)) {
            Some(position) => position,
            None => self.find_at(place, key)?,
        };
        self.columns.get_mut(position)
    }

    /// The column of a key, remembered for this position.
    #[inline(never)]
    fn find_at(&mut self, place: usize, key: &str) -> Option<usize> {
        let position = self.positions.get(key).copied()?;
        match self.places.get_mut(place) {
            Some(at) => *at = position,
            None if place < PLACES_MAX => {
                self.places.resize(place, NO_COLUMN);
                self.places.push(position);
            }
            None => {}
        }
        Some(position)
    }

    /// The column of a key.
    pub(super) fn column(&mut self, key: &Key) -> &mut ColumnBuilder<'a> {
        let position = match self.positions.get(key) {
            Some(&position) => position,
            None => {
                let key = record_key(key);
                self.positions.insert(key.clone(), self.columns.len());
                self.columns.push(ColumnBuilder::new(key));
                self.columns.len() - 1
            }
        };
        #[expect(clippy::indexing_slicing, reason = "positions holds only positions of columns, which never shrinks")]
        &mut self.columns[position]
    }

    /// Checks the host's value of an index and stores it; it replaces an earlier one.
    pub(super) fn insert(&mut self, index: u32, info: &'a Info) -> Result<(), RegisterError> {
        if info.key.as_str() != QUALIFIED_VALUE {
            return self.column(&info.key).insert(index, &info.value);
        }
        self.column(&qualified(info)?.name()).insert(index, &info.value)
    }

    /// The finished columns, `count` long. Every index must be below `count`.
    pub(super) fn finish(self, count: u32) -> Vec<Column> {
        self.columns.into_iter().filter_map(|column| column.finish(count)).collect()
    }
}

impl<'a> ColumnBuilder<'a> {
    fn new(key: Key) -> Self {
        let rule = ValueRule::of(key.as_str());
        Self { key, rule, entries: Vec::new(), ascends: true, front: Front::empty(), rest: Rest::Absent }
    }

    /// Checks the host's value and stores it; it replaces an earlier one of the same index.
    pub(super) fn insert(&mut self, index: u32, value: &'a Value) -> Result<(), RegisterError> {
        let cell = self.rule.check(self.key.as_str(), value)?;
        self.push(index, cell);
        Ok(())
    }

    /// Stores a value that continues the front, the hot path of large jobs. Returns whether it did.
    #[inline]
    pub(super) fn continues(&mut self, index: u32, value: &Value) -> bool {
        if !self.entries.is_empty() || usize::try_from(index) != Ok(self.front.len()) {
            return false;
        }
        match &mut self.front {
            Front::Numbers(numbers) => match number_of(value) {
                Some((data_type, number)) if self.rule.number_type() == Some(data_type) => numbers.push(number),
                _ => return false,
            },
            Front::Same(RecordCell::Borrowed(same), count) if *same == value => *count += 1,
            Front::Same(..) => return false,
        }
        true
    }

    /// Stores the values of a table's column, which were checked when they entered the table.
    pub(super) fn extend(&mut self, column: &'a TableColumn) {
        if self.entries.is_empty() && self.front.len() == 0 {
            self.front = Front::Numbers(column.numbers_from_zero());
            if self.front.len() > 0 {
                return;
            }
        }
        self.entries.reserve(column.len());
        column.cells().for_each(|(index, cell)| self.push(index, cell));
    }

    /// Stores a value that needs no check.
    pub(super) fn set(&mut self, index: u32, value: Value) {
        let cell = self.rule.owned_cell(value);
        self.push(index, cell);
    }

    /// Stores a number of the key's own type.
    pub(super) fn set_number(&mut self, index: u32, number: u64) {
        self.push(index, RecordCell::Number(number));
    }

    /// Adds values for indexes without one. `weaker` must ascend strictly.
    pub(super) fn fill(&mut self, weaker: impl IntoIterator<Item = (u32, RecordCell<'a>)>) {
        if self.is_open() {
            let front_count = self.front.len();
            let is_missing = |index: u32| usize::try_from(index).is_ok_and(|index| index >= front_count);
            self.merge(weaker.into_iter().filter(move |(index, _)| is_missing(*index)));
        }
    }

    /// Adds entries for indexes without one. `weaker` must ascend strictly.
    fn merge(&mut self, weaker: impl Iterator<Item = (u32, RecordCell<'a>)>) {
        self.sort();
        let mut weaker = weaker.peekable();
        if weaker.peek().is_none() {
            return;
        }
        if self.entries.is_empty() {
            self.entries.extend(weaker);
            return;
        }
        let mut merged = Vec::with_capacity(self.entries.len());
        let mut strong = std::mem::take(&mut self.entries).into_iter().peekable();
        for (index, cell) in weaker {
            while let Some(entry) = strong.next_if(|(at, _)| *at < index) {
                merged.push(entry);
            }
            match strong.next_if(|(at, _)| *at == index) {
                Some(entry) => merged.push(entry),
                None => merged.push((index, cell)),
            }
        }
        merged.extend(strong);
        self.entries = merged;
    }

    /// Adds numbers of the key's own type for indexes without a value. `weaker` must ascend strictly.
    pub(super) fn fill_numbers(&mut self, weaker: impl IntoIterator<Item = (u32, u64)>) {
        self.fill(weaker.into_iter().map(|(index, number)| (index, RecordCell::Number(number))));
    }

    /// Sets this value for every index without one.
    pub(super) fn fill_constant(&mut self, value: Value) {
        if self.is_open() {
            self.rest = Rest::Constant(self.rule.owned_cell(value));
        }
    }

    /// Sets each number, of the key's own type, for the index without a value. Needs one number for each index.
    pub(super) fn fill_every_number(&mut self, numbers: Vec<u64>) {
        if self.is_open() {
            self.rest = Rest::Numbers(numbers);
        }
    }

    /// Sets each text for the index without a value. Needs one text for each index, all different.
    pub(super) fn fill_every_text(&mut self, texts: Texts) {
        if self.is_open() {
            self.rest = Rest::Texts(texts);
        }
    }

    /// The texts of all indexes below `count`; `None` for an index without text.
    pub(super) fn texts(&mut self, count: u32) -> Vec<Option<&str>> {
        self.list();
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let mut found = match &self.rest {
            Rest::Texts(texts) => texts.iter().map(Some).collect(),
            _ => Vec::new(),
        };
        found.resize(count, None);
        for (index, cell) in &self.entries {
            if let Some(slot) = usize::try_from(*index).ok().and_then(|index| found.get_mut(index)) {
                *slot = cell.as_str();
            }
        }
        found
    }

    /// Sets numbers of the key's own type, counting up from `first`, for indexes without a value.
    pub(super) fn fill_counting(&mut self, first: u64) {
        if self.is_open() {
            self.rest = Rest::Counting(first);
        }
    }

    /// Whether each index below `count` has a value. All indexes must be below `count`.
    pub(super) fn is_complete(&mut self, count: u32) -> bool {
        self.sort();
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        self.front.len() >= count || self.entries.len() >= count
    }

    /// Whether every given number equals this one. All indexes must be below `count`.
    pub(super) fn is_throughout(&mut self, number: u64, count: u32) -> bool {
        match &self.front {
            Front::Numbers(front) if self.is_open() && self.entries.is_empty() => front.iter().all(|at| *at == number),
            _ => self.numbers(count).iter().flatten().all(|at| *at == number),
        }
    }

    /// Whether every index has the number at its position in `numbers`.
    pub(super) fn is(&mut self, numbers: &[u64]) -> bool {
        match &self.front {
            Front::Numbers(front) if self.entries.is_empty() && front.len() == numbers.len() => front == numbers,
            _ => {
                let count = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
                self.numbers(count).iter().zip(numbers).all(|(present, number)| *present == Some(*number))
            }
        }
    }

    /// Whether any index has a given value.
    pub(super) fn has_given(&self) -> bool {
        !self.entries.is_empty() || self.front.len() > 0 || !self.is_open()
    }

    /// Makes the column repeat the node column of the same key.
    pub(super) fn set_of_node(&mut self) {
        self.entries = Vec::new();
        self.front = Front::empty();
        self.rest = Rest::OfNode;
    }

    /// Makes this a column of rank lists by rule, unless a given value differs. Returns whether it did.
    pub(super) fn take_rank_lists(&mut self, dealt: DealtRanks) -> bool {
        let is_as_given =
            |(node, cell): &(u32, RecordCell<'a>)| dealt.text_of(*node).is_some_and(|text| cell.is_text(&text));
        let is_taken = self.is_open() && self.entries().iter().all(is_as_given);
        if is_taken {
            self.entries = Vec::new();
            self.rest = Rest::RankLists(dealt);
        }
        is_taken
    }

    /// Sets endpoints for the indexes without a value.
    pub(super) fn fill_endpoints(&mut self, weaker: EndpointLists) {
        match &mut self.rest {
            Rest::Absent => self.rest = Rest::Endpoints(weaker),
            Rest::Endpoints(endpoints) => endpoints.add(weaker),
            _ => {}
        }
    }

    /// Whether any index may still lack a value.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.rest, Rest::Absent)
    }

    /// Its key.
    pub(super) fn key(&self) -> &Key {
        &self.key
    }

    /// A cell of this column for a value that needs no check.
    pub(super) fn cell(&self, value: Value) -> RecordCell<'static> {
        self.rule.owned_cell(value)
    }

    /// The values so far, in ascending order of index.
    pub(super) fn entries(&mut self) -> &[(u32, RecordCell<'a>)] {
        self.list();
        &self.entries
    }

    /// The numbers of all indexes below `count`; `None` for an index without number.
    pub(super) fn numbers(&mut self, count: u32) -> Vec<Option<u64>> {
        self.sort();
        let rule = self.rule;
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let mut numbers = match &self.rest {
            Rest::Numbers(numbers) => numbers.iter().copied().map(Some).collect(),
            Rest::Counting(first) => (*first..).map(Some).take(count).collect(),
            Rest::Constant(cell) => vec![cell.number(&rule).map(|(_, number)| number); count],
            Rest::Absent | Rest::Texts(_) | Rest::RankLists(_) | Rest::Endpoints(_) | Rest::OfNode => vec![None; count],
        };
        match &self.front {
            Front::Numbers(front) => numbers.iter_mut().zip(front).for_each(|(slot, number)| *slot = Some(*number)),
            Front::Same(cell, _) => {
                let number = cell.number(&rule).map(|(_, number)| number);
                numbers.iter_mut().take(self.front.len()).for_each(|slot| *slot = number);
            }
        }
        for (index, cell) in &self.entries {
            if let Some(slot) = usize::try_from(*index).ok().and_then(|index| numbers.get_mut(index)) {
                *slot = cell.number(&rule).map(|(_, number)| number);
            }
        }
        numbers
    }

    #[inline]
    fn push(&mut self, index: u32, cell: RecordCell<'a>) {
        let is_next = self.entries.is_empty() && usize::try_from(index) == Ok(self.front.len());
        let cell = match if is_next { self.front.take(cell) } else { Err(cell) } {
            Ok(()) => return,
            Err(cell) => cell,
        };
        if is_next {
            // The front ends here; `finish` would merge it anyway.
            self.entries = std::mem::replace(&mut self.front, Front::empty()).into_entries();
        }
        self.ascends &= self.entries.last().is_none_or(|(last, _)| *last < index);
        self.entries.push((index, cell));
    }

    /// Sorts by index; the last of several values for one index stays.
    fn sort(&mut self) {
        if self.ascends {
            return;
        }
        self.entries.reverse();
        self.entries.sort_by_key(|(index, _)| *index);
        self.entries.dedup_by_key(|(index, _)| *index);
        self.ascends = true;
    }

    /// Turns front and entries into one list of entries.
    fn list(&mut self) {
        let front = std::mem::replace(&mut self.front, Front::empty());
        self.merge(front.into_entries().into_iter());
    }

    fn finish(mut self, count: u32) -> Option<Column> {
        if self.entries.is_empty() && self.front.len() > 0 && self.is_complete(count) {
            match std::mem::replace(&mut self.front, Front::empty()) {
                Front::Numbers(numbers) => return self.finish_numbers(numbers),
                Front::Same(cell, _) => {
                    let values = ColumnValues::Constant(self.rule.value(cell));
                    return Some(Column { key: self.key, values });
                }
            }
        }
        self.list();
        match std::mem::replace(&mut self.rest, Rest::Absent) {
            Rest::OfNode => return Some(Column { key: self.key, values: ColumnValues::OfNode }),
            Rest::RankLists(dealt) => return Some(Column { key: self.key, values: ColumnValues::RankLists(dealt) }),
            Rest::Endpoints(mut endpoints) if self.entries.is_empty() => {
                endpoints.numbers.resize(usize::try_from(count).unwrap_or(usize::MAX), 0);
                return Some(Column { key: self.key, values: ColumnValues::Endpoints(endpoints) });
            }
            Rest::Endpoints(endpoints) => {
                let cell = |rank| Some((rank, RecordCell::Owned(Box::new(endpoints.of(rank)?))));
                self.fill((0..count).filter_map(cell));
            }
            Rest::Numbers(values) if self.entries.is_empty() => return self.finish_numbers(values),
            Rest::Numbers(values) => self.fill_numbers((0..count).zip(values)),
            Rest::Texts(texts) if self.entries.is_empty() && count > 1 => {
                return Some(Column { key: self.key, values: ColumnValues::Texts(texts) });
            }
            Rest::Texts(texts) => {
                let cell = |text: &str| RecordCell::Owned(Box::new(Value::from(text)));
                self.fill((0..count).zip(texts.iter().map(cell)));
            }
            Rest::Counting(first) if self.entries.is_empty() && count > 1 => {
                let data_type = self.rule.number_type().unwrap_or(DataType::Uint64);
                return Some(Column { key: self.key, values: ColumnValues::Counting { data_type, first } });
            }
            Rest::Counting(first) => self.fill_numbers((0..count).zip(first..)),
            Rest::Constant(cell) if count > 0 && self.entries.iter().all(|(_, entry)| *entry == cell) => {
                let values = ColumnValues::Constant(self.rule.value(cell));
                return Some(Column { key: self.key, values });
            }
            Rest::Constant(cell) => self.fill((0..count).map(|index| (index, cell.clone()))),
            Rest::Absent => {}
        }
        let (_, first) = self.entries.first()?;
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let values = if self.entries.len() < count {
            self.partial(count)
        } else if self.entries.iter().all(|(_, cell)| cell == first) {
            ColumnValues::Constant(self.rule.value(first.clone()))
        } else {
            self.full()
        };
        Some(Column { key: self.key, values })
    }

    /// A column of numbers of the key's own type alone, one for each index.
    fn finish_numbers(self, values: Vec<u64>) -> Option<Column> {
        let first = *values.first()?;
        let data_type = self.rule.number_type().unwrap_or(DataType::Uint64);
        let values = if values.iter().all(|number| *number == first) {
            ColumnValues::Constant(number_value(data_type, first))
        } else {
            ColumnValues::Numbers { data_type, values }
        };
        Some(Column { key: self.key, values })
    }

    /// A column with a value for every index.
    fn full(&mut self) -> ColumnValues {
        let rule = self.rule;
        let entries = std::mem::take(&mut self.entries);
        let common_type = entries.first().and_then(|(_, cell)| cell.number(&rule)).map(|(data_type, _)| data_type);
        if let Some(data_type) = common_type {
            let numbers: Option<Vec<u64>> = entries
                .iter()
                .map(|(_, cell)| cell.number(&rule).filter(|(other, _)| *other == data_type).map(|(_, number)| number))
                .collect();
            if let Some(values) = numbers {
                return ColumnValues::Numbers { data_type, values };
            }
        }
        ColumnValues::Values(entries.into_iter().map(|(_, cell)| Some(rule.value(cell))).collect())
    }

    /// A column with gaps: sparse if most values are missing, else as long as the column.
    fn partial(&mut self, count: usize) -> ColumnValues {
        let rule = self.rule;
        let entries = std::mem::take(&mut self.entries).into_iter();
        if entries.len().saturating_mul(2) < count {
            return ColumnValues::Sparse(entries.map(|(index, cell)| (index, rule.value(cell))).collect());
        }
        let mut values = vec![None; count];
        for (index, cell) in entries {
            if let Some(slot) = usize::try_from(index).ok().and_then(|index| values.get_mut(index)) {
                *slot = Some(rule.value(cell));
            }
        }
        ColumnValues::Values(values)
    }
}
