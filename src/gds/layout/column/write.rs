//! Writes a column into an image.

use rustc_hash::FxHashMap;

use super::plan::{Plan, Stride};
use crate::gds::error::{RecordError, StoreError};
use crate::gds::job_record::{Column, ColumnValues, EndpointLists, Texts};
use crate::gds::layout::cell::{Encoded, ValueIdentity, value_of_scalar};
use crate::gds::layout::dictionary::KeyId;
use crate::gds::layout::format::{Array, ColumnHead, Entry, NONE, function, meaning};
use crate::gds::layout::image::Image;
use crate::regex::DealtRanks;
use crate::types::{DataType, Rank, Value};

/// A column is sparse if at most one of this many indexes has a value.
const SPARSE_ADVANTAGE: usize = 8;

/// Writes a column of `count` indexes; returns its head. `own`: the index of nearly all lookups, if known. The record's
/// check has excluded node columns that refer to the node.
pub(crate) fn push_column(
    image: &mut Image,
    column: &Column,
    key: KeyId,
    count: u32,
    own: Option<u32>,
    value_bytes_max: u32,
) -> Result<ColumnHead, StoreError> {
    let mut writer = ColumnWriter { image, column, key, count, value_bytes_max };
    match &column.values {
        ColumnValues::Constant(value) => writer.constant(value),
        ColumnValues::Numbers { data_type, values } => {
            writer.check_length(values.len())?;
            writer.numbers(*data_type, values)
        }
        ColumnValues::Counting { data_type, first } => writer.counting(*data_type, *first),
        ColumnValues::Texts(texts) => {
            writer.check_length(texts.len())?;
            writer.texts(texts)
        }
        ColumnValues::Values(values) => {
            writer.check_length(values.len())?;
            writer.values(values)
        }
        ColumnValues::Sparse(values) => writer.sparse(values),
        ColumnValues::RankLists(dealt) => {
            writer.check_length(usize::try_from(dealt.node_count()).unwrap_or(usize::MAX))?;
            writer.rank_lists(*dealt, own)
        }
        ColumnValues::Endpoints(endpoints) => {
            writer.check_length(endpoints.numbers.len())?;
            writer.endpoints(endpoints)
        }
        ColumnValues::OfNode => Ok(writer.head(function::OF_NODE, [0; 4])),
    }
}

struct ColumnWriter<'a> {
    image: &'a mut Image,
    column: &'a Column,
    key: KeyId,
    count: u32,
    value_bytes_max: u32,
}

impl<'a> ColumnWriter<'a> {
    fn constant(&mut self, value: &Value) -> Result<ColumnHead, StoreError> {
        let encoded = self.encode(value)?;
        if let Encoded::Scalar { data_type, bits } = encoded {
            let head = self.planned(Plan::Stride(Stride::constant(bits)), &[])?;
            return Ok(ColumnHead { data_type: data_type.to_raw(), meaning: meaning::SCALAR, ..head });
        }
        let cell = self.image.push_value(&encoded)?;
        let cells = self.image.push_array(&[cell])?;
        let head = self.planned(Plan::Stride(Stride::constant(1)), &[])?;
        Ok(ColumnHead { cells, meaning: meaning::CELL, ..head })
    }

    fn numbers(&mut self, data_type: DataType, numbers: &[u64]) -> Result<ColumnHead, StoreError> {
        self.check_fits(data_type, numbers)?;
        let head = self.planned(Plan::of(numbers), numbers)?;
        Ok(ColumnHead { data_type: data_type.to_raw(), meaning: meaning::SCALAR, ..head })
    }

    fn counting(&mut self, data_type: DataType, first: u64) -> Result<ColumnHead, StoreError> {
        let last = first.saturating_add(u64::from(self.count).saturating_sub(1));
        if last > u64::from(Rank::PROCESS_MAX) {
            // More than any job has: ranks beyond have gaps.
            let numbers: Vec<u64> = (0..u64::from(self.count)).map(|index| first.wrapping_add(index)).collect();
            return self.numbers(data_type, &numbers);
        }
        self.check_fits(data_type, &[first, last])?;
        let head = self.planned(Plan::Stride(Stride::counting(first)), &[])?;
        Ok(ColumnHead { data_type: data_type.to_raw(), meaning: meaning::SCALAR, ..head })
    }

    fn check_fits(&self, data_type: DataType, numbers: &[u64]) -> Result<(), StoreError> {
        match misfit(data_type, numbers) {
            Some(number) => Err(RecordError::Number { key: self.column.key.clone(), data_type, number }.into()),
            None => Ok(()),
        }
    }

    fn values(&mut self, values: &[Option<Value>]) -> Result<ColumnHead, StoreError> {
        let present = values.iter().flatten().count();
        if present <= values.len() / SPARSE_ADVANTAGE {
            let few = (0_u32..).zip(values).filter_map(|(index, value)| Some((index, value.as_ref()?)));
            return self.sparse_entries(few);
        }
        let encoded = values.iter().map(|value| value.as_ref().map(|value| self.encode(value)).transpose());
        let encoded = encoded.collect::<Result<Vec<Option<Encoded<'_>>>, StoreError>>()?;
        match scalars(&encoded) {
            Some((data_type, numbers)) => self.numbers(data_type, &numbers),
            None => self.cells(&encoded),
        }
    }

    fn sparse(&mut self, values: &[(u32, Value)]) -> Result<ColumnHead, StoreError> {
        let count = self.count;
        let mut next = 0_u32;
        for (index, _) in values {
            if *index < next || *index >= count {
                return Err(RecordError::SparseIndex { key: self.column.key.clone(), index: *index, count }.into());
            }
            next = index.saturating_add(1);
        }
        self.sparse_entries(values.iter().map(|(index, value)| (*index, value)))
    }

    fn sparse_entries<'v>(&mut self, values: impl Iterator<Item = (u32, &'v Value)>) -> Result<ColumnHead, StoreError> {
        let mut entries = Vec::new();
        for (index, value) in values {
            let encoded = self.encode(value)?;
            entries.push(Entry { id: index, cell: self.image.push_value(&encoded)?, ..Entry::default() });
        }
        let Array { offset, count } = self.image.push_array(&entries)?;
        Ok(self.head(function::SPARSE, [offset, count, 0, 0]))
    }

    /// Each distinct value once, and for each index the number of its cell.
    fn cells(&mut self, values: &[Option<Encoded<'_>>]) -> Result<ColumnHead, StoreError> {
        let mut numbers_by_value: FxHashMap<ValueIdentity<'_>, u64> = FxHashMap::default();
        let mut cells = Vec::new();
        let mut numbers = Vec::with_capacity(values.len());
        for value in values {
            let Some(value) = value else {
                numbers.push(0);
                continue;
            };
            let identity = value.identity();
            let number = match numbers_by_value.get(&identity) {
                Some(&number) => number,
                None => {
                    cells.push(self.image.push_value(value)?);
                    let number = u64::try_from(cells.len()).unwrap_or(u64::MAX);
                    numbers_by_value.insert(identity, number);
                    number
                }
            };
            numbers.push(number);
        }
        let cells = self.image.push_array(&cells)?;
        let head = self.planned(Plan::of(&numbers), &numbers)?;
        Ok(ColumnHead { cells, meaning: meaning::CELL, ..head })
    }

    /// As [`Self::cells`], for texts known to differ, which need no search for duplicates.
    fn texts(&mut self, texts: &Texts) -> Result<ColumnHead, StoreError> {
        let mut cells = Vec::with_capacity(texts.len());
        for text in texts.iter() {
            cells.push(self.image.push_value(&self.encode_text(text)?)?);
        }
        let cells = self.image.push_array(&cells)?;
        let head = self.planned(Plan::Stride(Stride::counting(1)), &[])?;
        Ok(ColumnHead { cells, meaning: meaning::CELL, ..head })
    }

    /// A rule, and the own node's list as a text: every process requests this list, and finds it without computing it.
    fn rank_lists(&mut self, dealt: DealtRanks, own: Option<u32>) -> Result<ColumnHead, StoreError> {
        let own_list = own.and_then(|own| Some((own, dealt.text_of(own)?)));
        let mut cells = Vec::new();
        if let Some((_, text)) = &own_list {
            cells.push(self.image.push_value(&self.encode_text(text)?)?);
        }
        let cells = self.image.push_array(&cells)?;
        let written = own_list.map_or(NONE, |(own, _)| own);
        let head = self.head(function::RANK_LISTS, [dealt.block(), dealt.end(), written, 0].map(u64::from));
        Ok(ColumnHead { cells, meaning: meaning::CELL, ..head })
    }

    fn endpoints(&mut self, endpoints: &EndpointLists) -> Result<ColumnHead, StoreError> {
        let mut cells = Vec::with_capacity(endpoints.lists.len());
        for list in &endpoints.lists {
            cells.push(self.image.push_value(&self.encode(list)?)?);
        }
        let cells = self.image.push_array(&cells)?;
        let head = self.planned(Plan::of(&endpoints.numbers), &endpoints.numbers)?;
        Ok(ColumnHead { cells, meaning: meaning::ENDPOINTS, ..head })
    }

    fn planned(&mut self, plan: Plan, numbers: &[u64]) -> Result<ColumnHead, StoreError> {
        Ok(match plan {
            Plan::Stride(Stride { base, div, modulo, factor }) => {
                self.head(function::STRIDE, [base, div, modulo, factor])
            }
            Plan::Runs(runs) => {
                let Array { offset, count } = self.image.push_array(&runs)?;
                self.head(function::RUNS, [offset, count, 0, 0])
            }
            Plan::Narrow { base, width } => {
                let offset = push_narrow(self.image, numbers, base, width)?.offset;
                ColumnHead { width, ..self.head(function::NARROW, [base, offset, 0, 0]) }
            }
        })
    }

    fn head(&self, function: u16, parameters: [u64; 4]) -> ColumnHead {
        ColumnHead {
            key: self.key.0,
            count: self.count,
            function,
            width: 0,
            data_type: 0,
            meaning: meaning::SCALAR,
            cells: Array::default(),
            parameters,
        }
    }

    fn encode<'v>(&self, value: &'v Value) -> Result<Encoded<'v>, StoreError> {
        Encoded::new(value, self.value_bytes_max)
            .map_err(|reason| StoreError::Value { key: self.column.key.clone(), reason })
    }

    fn encode_text<'v>(&self, text: &'v str) -> Result<Encoded<'v>, StoreError> {
        Encoded::text(text, self.value_bytes_max)
            .map_err(|reason| StoreError::Value { key: self.column.key.clone(), reason })
    }

    fn check_length(&self, found: usize) -> Result<(), StoreError> {
        if u32::try_from(found) == Ok(self.count) {
            return Ok(());
        }
        Err(RecordError::ColumnLength { key: self.column.key.clone(), found, expected: self.count }.into())
    }
}

/// The numbers, if every index has one and all are of the same type.
fn scalars(values: &[Option<Encoded<'_>>]) -> Option<(DataType, Vec<u64>)> {
    let mut common = None;
    let mut numbers = Vec::with_capacity(values.len());
    for value in values {
        let Some(Encoded::Scalar { data_type, bits }) = value else { return None };
        if *common.get_or_insert(*data_type) != *data_type {
            return None;
        }
        numbers.push(*bits);
    }
    Some((common?, numbers))
}

/// A number outside the type's range.
fn misfit(data_type: DataType, numbers: &[u64]) -> Option<u64> {
    let is_misfit = |number: u64| value_of_scalar(data_type, number).is_none();
    let highest = numbers.iter().copied().max()?;
    // For these types all smaller numbers fit, too. Ranks have gaps above the highest process.
    let fits_below = match data_type {
        DataType::Uint16 | DataType::Uint32 | DataType::Uint64 => true,
        DataType::ProcRank => highest <= u64::from(Rank::PROCESS_MAX),
        _ => false,
    };
    if fits_below && !is_misfit(highest) {
        return None;
    }
    numbers.iter().copied().find(|number| is_misfit(*number))
}

fn push_narrow(image: &mut Image, numbers: &[u64], base: u64, width: u16) -> Result<Array, StoreError> {
    // The plan's width fits the largest difference, so no conversion fails.
    let differences = numbers.iter().map(|number| number.wrapping_sub(base));
    match width {
        1 => image.push_array(&differences.map(|d| u8::try_from(d).unwrap_or(u8::MAX)).collect::<Vec<u8>>()),
        2 => image.push_array(&differences.map(|d| u16::try_from(d).unwrap_or(u16::MAX)).collect::<Vec<u16>>()),
        4 => image.push_array(&differences.map(|d| u32::try_from(d).unwrap_or(u32::MAX)).collect::<Vec<u32>>()),
        _ => image.push_array(&differences.collect::<Vec<u64>>()),
    }
}
