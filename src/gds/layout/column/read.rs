//! Reads one value of a column.

use zerocopy::{FromBytes, Immutable, KnownLayout};

use super::plan::Stride;
use crate::gds::job_record::EndpointLists;
use crate::gds::layout::dictionary::KeyId;
use crate::gds::layout::format::{Array, Cell, ColumnHead, Entry, Run, function, meaning};
use crate::gds::layout::segment_view::{Damage, SegmentView};
use crate::gds::layout::value_ref::ValueRef;
use crate::regex::DealtRanks;
use crate::types::{DataType, Value};

/// A column in a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ColumnView<'a> {
    segment: SegmentView<'a>,
    head: &'a ColumnHead,
    /// Number of processes of the job.
    rank_count: u32,
}

impl<'a> ColumnView<'a> {
    /// Opens a column of a job with `rank_count` processes.
    #[inline]
    pub(crate) const fn new(segment: SegmentView<'a>, head: &'a ColumnHead, rank_count: u32) -> Self {
        Self { segment, head, rank_count }
    }

    /// The column's key.
    pub(crate) const fn key(&self) -> KeyId {
        KeyId(self.head.key)
    }

    /// Number of indexes the column covers.
    pub(crate) const fn count(&self) -> u32 {
        self.head.count
    }

    /// Whether the values are those of the process's node.
    pub(crate) const fn is_of_node(&self) -> bool {
        self.head.function == function::OF_NODE
    }

    /// The value at an index; `None` if absent, or if the value is the node's.
    #[inline]
    pub(crate) fn value(&self, index: u32) -> Result<Option<ValueRef<'a>>, Damage> {
        if index >= self.head.count || self.is_of_node() {
            return Ok(None);
        }
        if self.head.function == function::SPARSE {
            return self.sparse_value(index);
        }
        if self.head.function == function::RANK_LISTS && !self.is_written(index) {
            return self.rank_list(index);
        }
        let number = self.number(index)?;
        match self.head.meaning {
            meaning::SCALAR => ValueRef::from_scalar(self.head.data_type, number).map(Some),
            meaning::CELL => self.cell_value(number),
            meaning::ENDPOINTS => Ok(self.cell_value(number)?.and_then(|list| list.of_process(index))),
            other => Err(Damage::Code { what: "the meaning of a column", code: other.into() }),
        }
    }

    /// Whether every index has the same value.
    pub(crate) const fn is_constant(&self) -> bool {
        self.head.function == function::STRIDE
            && self.head.meaning != meaning::ENDPOINTS
            && matches!(self.head.parameters, [_, _, _, 0])
    }

    /// The lists of endpoints of a column that has such; else `None`.
    pub(crate) fn endpoints(&self) -> Result<Option<EndpointLists>, Damage> {
        if self.head.meaning != meaning::ENDPOINTS {
            return Ok(None);
        }
        let numbers = (0..self.head.count).map(|index| self.number(index)).collect::<Result<_, _>>()?;
        let list = |cell| ValueRef::from_cell(self.segment, cell)?.map_or(Ok(Value::Undefined), |list| list.to_value());
        let lists = self.segment.array::<Cell>(self.head.cells)?.iter().map(list).collect::<Result<_, Damage>>()?;
        Ok(Some(EndpointLists { lists, numbers }))
    }

    /// The indexes with a value, ascending, for a sparse column; else `None`.
    pub(crate) fn sparse_indexes(&self) -> Result<Option<impl Iterator<Item = u32> + use<'a>>, Damage> {
        if self.head.function != function::SPARSE {
            return Ok(None);
        }
        let [offset, count, ..] = self.head.parameters;
        Ok(Some(self.segment.array::<Entry>(Array { offset, count })?.iter().map(|entry| entry.id)))
    }

    /// The rule that a column's lists of ranks follow; `None` if it has no such lists.
    pub(crate) fn dealt_ranks(&self) -> Result<Option<DealtRanks>, Damage> {
        if self.head.function != function::RANK_LISTS {
            return Ok(None);
        }
        let [block, end, ..] = self.head.parameters;
        let rule = || DealtRanks::new(block.try_into().ok()?, self.head.count, end.try_into().ok()?);
        // The lists must not name ranks beyond the processes of the job.
        let rule = rule().filter(|rule| rule.end() <= self.rank_count);
        rule.map(Some).ok_or(Damage::Code { what: "the end of a column's lists of ranks", code: end })
    }

    /// All numbers of a column whose values are its numbers; else `None`.
    pub(crate) fn numbers(&self) -> Result<Option<(DataType, Vec<u64>)>, Damage> {
        let is_scalar = self.head.meaning == meaning::SCALAR && self.head.function <= function::RUNS;
        match DataType::from_raw(self.head.data_type) {
            Some(data_type) if is_scalar => {
                let numbers = (0..self.head.count).map(|index| self.number(index));
                Ok(Some((data_type, numbers.collect::<Result<_, _>>()?)))
            }
            _ => Ok(None),
        }
    }

    /// Short name of the column's form, for people.
    pub(crate) const fn encoding(&self) -> &'static str {
        match (self.head.function, self.head.meaning, self.head.parameters) {
            (_, meaning::ENDPOINTS, _) => "endpoints",
            (function::STRIDE, _, [_, _, _, 0]) => "constant",
            (function::STRIDE, meaning::SCALAR, _) => "stride",
            (function::STRIDE, _, _) => "stride into cells",
            (function::NARROW, meaning::SCALAR, _) => "narrow array",
            (function::NARROW, _, _) => "narrow array into cells",
            (function::RUNS, meaning::SCALAR, _) => "runs",
            (function::RUNS, _, _) => "runs into cells",
            (function::SPARSE, _, _) => "sparse",
            (function::OF_NODE, _, _) => "of the node",
            (function::RANK_LISTS, _, _) => "rank lists",
            _ => "unknown",
        }
    }

    /// Bytes of each number of a narrow array; `None` for the other encodings.
    pub(crate) const fn width_bytes(&self) -> Option<u16> {
        if self.head.function == function::NARROW { Some(self.head.width) } else { None }
    }

    /// Bytes that the column takes beside its head and the payloads of its cells.
    pub(crate) fn size_bytes(&self) -> u64 {
        let [_, second, ..] = self.head.parameters;
        let size = |count: u64, element: usize| count.saturating_mul(u64::try_from(element).unwrap_or(u64::MAX));
        let numbers = match self.head.function {
            function::NARROW => size(self.head.count.into(), self.head.width.into()),
            function::RUNS => size(second, size_of::<Run>()),
            function::SPARSE => size(second, size_of::<Entry>()),
            _ => 0,
        };
        numbers.saturating_add(size(self.head.cells.count, size_of::<Cell>()))
    }

    #[inline]
    fn number(&self, index: u32) -> Result<u64, Damage> {
        let [first, second, third, fourth] = self.head.parameters;
        match self.head.function {
            function::STRIDE => Stride { base: first, div: second, modulo: third, factor: fourth }
                .at(index.into())
                .ok_or(Damage::Code { what: "a divisor of a column", code: 0 }),
            function::NARROW => self.narrow(second, index).map(|difference| first.wrapping_add(difference)),
            function::RUNS => self.run(Array { offset: first, count: second }, index),
            // Only one list is written out.
            function::RANK_LISTS => Ok(1),
            other => Err(Damage::Code { what: "the function of a column", code: other.into() }),
        }
    }

    #[inline]
    fn narrow(&self, offset: u64, index: u32) -> Result<u64, Damage> {
        let array = Array { offset, count: self.head.count.into() };
        match self.head.width {
            1 => self.element::<u8>(array, index).map(u64::from),
            2 => self.element::<u16>(array, index).map(u64::from),
            4 => self.element::<u32>(array, index).map(u64::from),
            8 => self.element::<u64>(array, index),
            other => Err(Damage::Code { what: "the width of a column", code: other.into() }),
        }
    }

    #[inline]
    fn element<T: FromBytes + Immutable + KnownLayout + Copy>(&self, array: Array, index: u32) -> Result<T, Damage> {
        let element = self.segment.element::<T>(array, index.into())?;
        element.copied().ok_or(Damage::Missing { what: "an element of a column" })
    }

    fn run(&self, runs: Array, index: u32) -> Result<u64, Damage> {
        let runs = self.segment.array::<Run>(runs)?;
        let after = runs.partition_point(|run| run.start <= index);
        let run = after.checked_sub(1).and_then(|at| runs.get(at));
        let run = run.ok_or(Damage::Missing { what: "the run of an index" })?;
        let steps = u64::from(index.saturating_sub(run.start));
        Ok(run.base.wrapping_add(steps.wrapping_mul(run.step)))
    }

    #[inline]
    fn cell_value(&self, number: u64) -> Result<Option<ValueRef<'a>>, Damage> {
        let Some(index) = number.checked_sub(1) else { return Ok(None) };
        let cell = self.segment.element::<Cell>(self.head.cells, index)?;
        ValueRef::from_cell(self.segment, cell.ok_or(Damage::Missing { what: "a cell of a column" })?)
    }

    /// Whether the list of ranks at an index is a text in a cell.
    fn is_written(&self, index: u32) -> bool {
        let [_, _, written, _] = self.head.parameters;
        written == u64::from(index)
    }

    #[cold]
    fn rank_list(&self, index: u32) -> Result<Option<ValueRef<'a>>, Damage> {
        let dealt = self.dealt_ranks()?.filter(|dealt| dealt.has_ranks(index));
        Ok(dealt.map(|dealt| ValueRef::from_ranks(dealt, index)))
    }

    fn sparse_value(&self, index: u32) -> Result<Option<ValueRef<'a>>, Damage> {
        let [offset, count, ..] = self.head.parameters;
        let entries = self.segment.array::<Entry>(Array { offset, count })?;
        let entry = entries.binary_search_by_key(&index, |entry| entry.id).ok().and_then(|at| entries.get(at));
        entry.map_or(Ok(None), |entry| ValueRef::from_cell(self.segment, &entry.cell))
    }
}
