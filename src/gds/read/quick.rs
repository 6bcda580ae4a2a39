//! The fast path of a Get.
//!
//! Nearly every Get finds an undamaged value near the previous reads. This module handles only that case. Anything else
//! ends it with `None`, and [`Search`](super::search::Search) then finds the value or the reason of its absence. So no
//! error is made or passed here. The functions return results that fit a register: a structure would be written and
//! read at different widths, which stalls processors.
//!
//! In an undamaged segment `Search` gives the same answer to every lookup answered here; the model test checks this. In
//! a damaged segment either may find the damage.

use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::gds::layout::block;
use crate::gds::layout::column::Stride;
use crate::gds::layout::dictionary::{KeyId, unpack};
use crate::gds::layout::format::{
    Array, BlockHead, Cell, ColumnHead, Entry, JobHead, KeyHead, NONE, SLOT_ID_BITS, form, function, meaning, realm,
};
use crate::gds::layout::segment_view::root;
use crate::gds::layout::value_ref::ValueRef;
use crate::gds::lookup::KeyRef;
use crate::shmem::{Offset, SegmentReader, VerifiedRange};
use crate::types::{DataType, Rank};

/// The value of a lookup without a realm or an audience, if the fast path finds it.
#[inline(always)]
pub(crate) fn find<'a>(segment: &'a SegmentReader, rank: Rank, key: KeyRef<'_>) -> Option<ValueRef<'a>> {
    let is_reserved = key.name.as_bytes().starts_with(b"pmix");
    match (rank, is_reserved) {
        (Rank::Process(number), true) => described(segment, number, key),
        _ => match cell_of(segment, rank, key) {
            Some(cell) => value_of(segment, cell),
            None if is_reserved => of_own_node(segment, rank, key),
            None => None,
        },
    }
}

/// The cell of a posted value, or of a value of the job itself.
#[inline(never)]
fn cell_of<'a>(segment: &'a SegmentReader, rank: Rank, key: KeyRef<'_>) -> Option<&'a Cell> {
    let Key { near, id, head } = Key::find(segment, key)?;
    match rank {
        Rank::Process(rank) if head.reserved_key == 0 => posted(near, rank, id),
        Rank::Wildcard if head.realm == realm::BY_RANK => {
            let (near, job) = job(near)?;
            Some(&entry_of(near.array(job.job)?, id)?.cell)
        }
        _ => None,
    }
}

/// The segment, and the stretch of the last read.
#[derive(Clone, Copy)]
struct Near<'a> {
    segment: &'a SegmentReader,
    stretch: VerifiedRange<'a>,
}

impl<'a> Near<'a> {
    /// The same near a position.
    #[inline(always)]
    fn at(self, offset: u64) -> Self {
        match self.stretch.slice(offset, 1) {
            Some(_) => self,
            None => Self { stretch: self.segment.stretch_around(offset), ..self },
        }
    }

    #[inline(always)]
    fn array<T: FromBytes + KnownLayout + Immutable>(self, array: Array) -> Option<&'a [T]> {
        self.stretch.array(array.offset, array.count)
    }
}

/// A key of the dictionary.
struct Key<'a> {
    near: Near<'a>,
    id: KeyId,
    head: &'a KeyHead,
}

impl<'a> Key<'a> {
    #[inline(always)]
    fn find(segment: &'a SegmentReader, key: KeyRef<'_>) -> Option<Self> {
        let slots = segment.known_cells(root::KEYS)?;
        let mask = slots.cell_count().checked_sub(1).filter(|mask| mask & (mask + 1) == 0)?;
        let mut at = key.hash;
        loop {
            let (fragment, id) = unpack(slots.load(at & mask)?)?;
            if fragment == key.hash >> SLOT_ID_BITS {
                let near = Near { segment, stretch: segment.stretch_around(id.offset()) };
                let head: &KeyHead = near.stretch.read(id.offset())?;
                let text = near.stretch.slice(id.text_offset(), head.len.into())?;
                // A collision of the compared hash bits is left to the slow path.
                return (head.hash == key.hash && text == key.name.as_bytes()).then_some(Self { near, id, head });
            }
            at = at.wrapping_add(1);
            if at == key.hash.wrapping_add(PROBES_MAX) {
                return None;
            }
        }
    }
}

/// Limit of slots examined. The table is at most half full, so hardly any key is further from its start.
const PROBES_MAX: u64 = 16;

/// A process's posted value: the newest, if this reader may see it.
#[inline(always)]
fn posted(near: Near<'_>, rank: u32, key: KeyId) -> Option<&Cell> {
    let mut offset = near.segment.known_cells(root::MODEX)?.load(rank.into())?;
    loop {
        let near = near.at(offset);
        let head: &BlockHead = near.stretch.read(offset)?;
        let entries = Array { offset: offset.checked_add(block::HEAD_BYTES)?, count: head.entry_count.into() };
        if let Some(entry) = entry_of(near.array(entries)?, key) {
            let is_seen = block::is_visible(entry, None) && !block::is_removal(&entry.cell);
            return is_seen.then_some(&entry.cell);
        }
        if head.previous >= offset {
            return None;
        }
        offset = head.previous;
    }
}

/// The registered value of a process.
#[inline(never)]
fn described<'a>(segment: &'a SegmentReader, rank: u32, key: KeyRef<'_>) -> Option<ValueRef<'a>> {
    let Key { near, id: key, .. } = Key::find(segment, key).filter(|key| key.head.reserved_key != 0)?;
    let (near, job) = job(near)?;
    let columns: &[ColumnHead] = near.array(job.proc_columns)?;
    let column = column_of(columns, key)?;
    if column.function != function::OF_NODE {
        return in_column(near, column, rank);
    }
    if rank >= column.count || job.node_ids_are_indexes != 1 {
        return None;
    }
    let node_ids = columns.get(usize::try_from(job.node_id_column).ok().filter(|_| job.node_id_column != NONE)?)?;
    let node = u32::try_from(in_column(near, node_ids, rank)?.as_u64()?).ok()?;
    if node >= job.node_count {
        return None;
    }
    in_column(near, column_of(near.array(job.node_columns)?, key)?, node)
}

/// The registered value of the own node, if the lookup is for the job.
#[inline(never)]
fn of_own_node<'a>(segment: &'a SegmentReader, rank: Rank, key: KeyRef<'_>) -> Option<ValueRef<'a>> {
    let Key { near, id, head } = Key::find(segment, key).filter(|_| rank == Rank::Wildcard)?;
    let (near, job) = job(near).filter(|_| head.realm == realm::NODE)?;
    in_column(near, column_of(near.array(job.node_columns)?, id)?, job.own_node)
}

/// The present job record.
#[inline(always)]
fn job(near: Near<'_>) -> Option<(Near<'_>, &JobHead)> {
    let offset = near.segment.root(root::JOB).map(Offset::get)?;
    let near = near.at(offset);
    Some((near, near.stretch.read(offset)?))
}

/// The first entry of a key.
#[inline(always)]
fn entry_of(entries: &[Entry], key: KeyId) -> Option<&Entry> {
    let at = first_not_below(entries, |entry| entry.id < key.0);
    entries.get(at).filter(|entry| entry.id == key.0)
}

#[inline(always)]
fn column_of(columns: &[ColumnHead], key: KeyId) -> Option<&ColumnHead> {
    let at = first_not_below(columns, |column| column.key < key.0);
    columns.get(at).filter(|column| column.key == key.0)
}

/// As `partition_point`, inlined: the call would cost as much as the search. Uses branches instead of selections:
/// processors predict the path of repeated lookups, and a chain of selections would wait for each load.
#[inline(always)]
fn first_not_below<T>(sorted: &[T], is_below: impl Fn(&T) -> bool) -> usize {
    let (mut start, mut count) = (0, sorted.len());
    while count > 0 {
        let half = count / 2;
        if sorted.get(start + half).is_some_and(&is_below) {
            start += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    start
}

#[inline]
fn in_column<'a>(near: Near<'a>, column: &ColumnHead, index: u32) -> Option<ValueRef<'a>> {
    if index >= column.count {
        return None;
    }
    let [first, second, third, fourth] = column.parameters;
    let number = match (column.function, column.width) {
        (function::STRIDE, _) => Stride { base: first, div: second, modulo: third, factor: fourth }.at(index.into())?,
        (function::NARROW, 1) => first.wrapping_add((*element::<u8>(near, second, index)?).into()),
        (function::NARROW, 2) => first.wrapping_add((*element::<u16>(near, second, index)?).into()),
        (function::NARROW, 4) => first.wrapping_add((*element::<u32>(near, second, index)?).into()),
        (function::NARROW, 8) => first.wrapping_add(*element::<u64>(near, second, index)?),
        // Only the list that is written out.
        (function::RANK_LISTS, _) if third == u64::from(index) => 1,
        _ => return None,
    };
    match column.meaning {
        meaning::SCALAR => ValueRef::from_scalar(column.data_type, number).ok(),
        meaning::CELL => {
            let index = number.checked_sub(1).filter(|&index| index < column.cells.count)?;
            value_of(near.segment, element::<Cell>(near, column.cells.offset, u32::try_from(index).ok()?)?)
        }
        _ => None,
    }
}

#[inline(always)]
fn element<T: FromBytes + KnownLayout + Immutable>(near: Near<'_>, offset: u64, index: u32) -> Option<&T> {
    let size = u64::try_from(size_of::<T>()).ok()?;
    near.stretch.read(offset.checked_add(u64::from(index) * size)?)
}

/// The value of a cell, if it is a number or uncompressed bytes.
#[inline(always)]
fn value_of<'a>(segment: &'a SegmentReader, cell: &'a Cell) -> Option<ValueRef<'a>> {
    match cell.form {
        form::SCALAR => ValueRef::from_scalar(cell.data_type, cell.payload).ok(),
        form::BYTES if cell.data_type != DataType::CompressedString.to_raw() => {
            let with_nul = segment.stretch_around(cell.payload).slice(cell.payload, u64::from(cell.len) + 1)?;
            ValueRef::from_bytes(cell.data_type, with_nul).ok()
        }
        form::INLINE if cell.data_type != DataType::CompressedString.to_raw() => ValueRef::from_inline(cell).ok(),
        _ => None,
    }
}
