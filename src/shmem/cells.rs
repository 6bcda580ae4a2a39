//! The atomic cells of a segment, as both sides track them.
//!
//! Cells change after publication, so no `&[u8]` may ever cover one (I2). The header lists the tables of cells. A table
//! is listed before its bytes are published, so a reader of the bytes also finds the table.

use super::error::GrowError;
use super::header::TABLE_COUNT_MAX;
use super::memory::HeaderWords;
use super::offset::{CELL_BYTES, Offset, TableRef};
use super::sync::Ordering;
use super::verified_range::Gap;

/// A table and the end of its bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) table: TableRef,
    pub(super) end: u64,
}

/// The writer's own list, in order of offsets.
#[derive(Debug, Default)]
pub(super) struct Cells {
    extents: Vec<Extent>,
    /// Number of tables listed in the header.
    listed: usize,
}

impl Cells {
    /// Refuses another table if the header can't list it.
    pub(super) fn check_room(&self) -> Result<(), GrowError> {
        if self.extents.len() >= TABLE_COUNT_MAX {
            return Err(GrowError::TooManyTables { max: TABLE_COUNT_MAX });
        }
        Ok(())
    }

    /// Adds a table that lies above all others.
    pub(super) fn push(&mut self, extent: Extent) {
        self.extents.push(extent);
    }

    /// Forgets tables that start at or above `end`. None of them is listed.
    pub(super) fn truncate(&mut self, end: u64) {
        let kept = self.extents.partition_point(|extent| extent.table.offset.get() < end);
        self.extents.truncate(kept.max(self.listed));
    }

    /// Whether `table` is one of these.
    pub(super) fn contains(&self, table: TableRef) -> bool {
        let found = self.extents.binary_search_by_key(&table.offset, |extent| extent.table.offset);
        found.ok().and_then(|at| self.extents.get(at)).is_some_and(|extent| extent.table == table)
    }

    /// Whether any byte of `start..end` belongs to a table.
    pub(super) fn overlap(&self, start: u64, end: u64) -> bool {
        let after = self.extents.partition_point(|extent| extent.end <= start);
        self.extents.get(after).is_some_and(|extent| start < end && extent.table.offset.get() < end)
    }

    /// Lists the new tables in the header. Must precede the publication that covers them.
    pub(super) fn list(&mut self, header: HeaderWords<'_>) {
        for (slot, extent) in self.extents.iter().enumerate().skip(self.listed) {
            let Some((offset, cell_count)) = header.extent(slot) else {
                break;
            };
            // Relaxed, here and below: the Release of `published` follows, and readers use the list only for bytes
            // below a `published` they have acquired.
            offset.store(extent.table.offset.get(), Ordering::Relaxed);
            cell_count.store(extent.table.cell_count, Ordering::Relaxed);
            header.tables_end().store(extent.end, Ordering::Relaxed);
        }
        self.listed = self.extents.len();
        header.table_count().store(u32::try_from(self.listed).unwrap_or(u32::MAX), Ordering::Relaxed);
    }
}

/// The gap between listed tables around `start..end`; `None` if a byte of it belongs to a table. The range is readable.
#[cold]
pub(super) fn gap_around(header: HeaderWords<'_>, start: u64, end: u64) -> Option<Gap> {
    // Relaxed, here and below: see `Cells::list`.
    let tables_end = header.tables_end().load(Ordering::Relaxed);
    if start >= tables_end {
        return Some(Gap { start: tables_end, end: u64::MAX, tables_before: usize::MAX });
    }
    let mut gap = Gap { start: 0, end: u64::MAX, tables_before: 0 };
    for table in listed(header) {
        let offset = table.offset.get();
        if offset >= end {
            gap.end = gap.end.min(offset);
            continue;
        }
        let cells = table.cell_count.checked_mul(CELL_BYTES);
        let table_end = cells.and_then(|bytes| offset.checked_add(bytes)).filter(|&table_end| table_end <= start)?;
        gap.start = gap.start.max(table_end);
        gap.tables_before += 1;
    }
    Some(gap)
}

/// The table that starts at `offset`, if the header lists one.
#[inline(always)]
pub(super) fn listed_at(header: HeaderWords<'_>, offset: Offset) -> Option<TableRef> {
    listed(header).find(|table| table.offset == offset)
}

/// The tables listed in the header. Its numbers are untrusted: they only bound the work.
#[inline(always)]
fn listed(header: HeaderWords<'_>) -> impl Iterator<Item = TableRef> {
    // Relaxed, here and below: see `Cells::list`.
    let count = usize::try_from(header.table_count().load(Ordering::Relaxed)).unwrap_or(usize::MAX);
    (0..count.min(TABLE_COUNT_MAX)).filter_map(move |slot| {
        let (offset, cell_count) = header.extent(slot)?;
        let offset = Offset::from_raw(offset.load(Ordering::Relaxed))?;
        Some(TableRef { offset, cell_count: cell_count.load(Ordering::Relaxed) })
    })
}
