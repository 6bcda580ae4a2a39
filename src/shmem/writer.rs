//! The one writer of a segment: an append-only arena.

use std::num::NonZeroU32;

use super::backing::{Backing, PAGE_BYTES, ReaderHandle, create, next_reservation};
use super::cells::{Cells, Extent};
use super::error::{Corrupt, CreateError, GrowError, HandleError, WriteError};
use super::futex;
use super::header::{
    self, HEADER_BYTES, LABEL_BYTES_MAX, LayoutId, OWNER_BYTES_MAX, STATE_LIVE, STATE_RETIRED, SegmentInfo,
};
use super::memory::HeaderWords;
use super::offset::{Align, CELL_BYTES, Offset, RootIndex, TableRef};
use super::options::{Location, Protection, SegmentOptions};
use super::publication;

use zerocopy::IntoBytes;

/// Writes a segment. Dropping it unmaps and closes everything and removes any name; readers keep their mappings.
#[derive(Debug)]
pub struct SegmentWriter {
    backing: Box<dyn Backing>,
    layout_id: LayoutId,
    /// End of the allocated bytes. All bytes above it are zero.
    allocated: u64,
    /// End of the readable bytes; a copy of the atomic in the header.
    published: u64,
    /// The newest generation; a copy of the atomic in the header.
    generation: u32,
    cells: Cells,
}

impl SegmentWriter {
    /// Makes an empty segment. `layout` describes the structures of the layer above (see [`LayoutId::of`]).
    pub fn create(options: &SegmentOptions, layout: &str) -> Result<Self, CreateError> {
        fits("label", &options.label, LABEL_BYTES_MAX)?;
        fits("owner", &options.owner, OWNER_BYTES_MAX)?;
        let mut backing = create(options, page_rounded(options.span_bytes)?)?;
        backing.reserve(HEADER_BYTES)?;
        let layout_id = LayoutId::of(layout);
        let mut writer =
            Self { backing, layout_id, allocated: 0, published: 0, generation: 0, cells: Cells::default() };
        writer.write_fixed_header(options);
        writer.allocated = HEADER_BYTES;
        publication::set_state(writer.header().state(), STATE_LIVE);
        writer.publish();
        Ok(writer)
    }

    /// Moves the contents to a new segment with these `options`; label and owner must be the same as before. Offsets
    /// stay. On failure nothing has changed.
    ///
    /// Readers of the old segment would see no further data, so it must have no readers except the caller.
    pub fn move_to(&mut self, options: &SegmentOptions) -> Result<(), CreateError> {
        let mut backing = create(options, page_rounded(options.span_bytes)?)?;
        if self.allocated > backing.span_bytes() {
            let (need_bytes, span_bytes) = (self.allocated, backing.span_bytes());
            return Err(GrowError::SpanExhausted { need_bytes, span_bytes }.into());
        }
        backing.reserve(next_reservation(0, self.allocated, backing.span_bytes()))?;
        backing.populate(self.allocated);
        let len = usize::try_from(self.allocated).unwrap_or(usize::MAX);
        let from = self.backing.memory().bytes_mut(0);
        // SAFETY:
        // - in bounds: `allocated` bytes are backed in the old object (I4) and were just reserved in the new one;
        // - they do not overlap: they are different objects;
        // - no data race: `self`, borrowed exclusively, is the only writer of the old one; the new one is not shared
        //   yet.
        unsafe { core::ptr::copy_nonoverlapping(from, backing.memory().bytes_mut(0), len) };
        self.backing = backing;
        self.write_fixed_header(options);
        Ok(())
    }

    /// Writes the segment's description into the header.
    fn write_fixed_header(&mut self, options: &SegmentOptions) {
        let fixed = header::compose(&SegmentInfo {
            layout_id: self.layout_id,
            creator_pid: std::process::id(),
            span_bytes: self.backing.span_bytes(),
            created_unix_s: options.created_unix_s,
            label: options.label.clone(),
            owner: options.owner.clone(),
        });
        let to = self.backing.memory().bytes_mut(0);
        // SAFETY: `fixed` is shorter than the header, which is reserved (I4); no reader knows the object yet.
        unsafe { core::ptr::copy_nonoverlapping(fixed.as_bytes().as_ptr(), to, fixed.as_bytes().len()) };
    }

    /// Allocates `len` zeroed bytes. On failure nothing has changed.
    pub fn alloc(&mut self, len: u64, align: Align) -> Result<Offset, GrowError> {
        let span_bytes = self.span_bytes();
        let placed = self
            .allocated
            .checked_next_multiple_of(align.bytes())
            .and_then(|start| Some((Offset::from_raw(start)?, start.checked_add(len)?)));
        let (offset, end) = match placed {
            Some((offset, end)) if end <= span_bytes => (offset, end),
            _ => {
                return Err(GrowError::SpanExhausted { need_bytes: self.allocated.saturating_add(len), span_bytes });
            }
        };
        self.ensure_reserved(end)?;
        self.backing.populate(end);
        self.allocated = end;
        Ok(offset)
    }

    /// Prepares memory for the next `ahead_bytes` of allocations, so that these cost no system call. It only saves
    /// time, so failures are ignored: an allocation reports them.
    pub fn prepare(&mut self, ahead_bytes: u64) {
        self.prepare_some(ahead_bytes, ahead_bytes);
    }

    /// As [`SegmentWriter::prepare`], but for at most `step_bytes` more than before. Returns whether another call would
    /// prepare more.
    pub fn prepare_some(&mut self, ahead_bytes: u64, step_bytes: u64) -> bool {
        let end = self.allocated.saturating_add(ahead_bytes).min(self.span_bytes());
        let step_end = end.min(self.backing.reserved_bytes().saturating_add(step_bytes));
        if self.ensure_reserved(step_end).is_err() {
            return false;
        }
        self.backing.populate(step_end);
        step_end < end
    }

    /// Allocates a copy of `bytes`. On failure nothing has changed.
    pub fn append(&mut self, bytes: &[u8], align: Align) -> Result<Offset, GrowError> {
        let offset = self.alloc(u64::try_from(bytes.len()).unwrap_or(u64::MAX), align)?;
        self.copy_in(offset.get(), bytes);
        Ok(offset)
    }

    /// Allocates a table of `cell_count` atomic cells, all zero, on a cache line of its own.
    /// On failure nothing has changed.
    pub fn alloc_table(&mut self, cell_count: u64) -> Result<TableRef, GrowError> {
        self.cells.check_room()?;
        let bytes = cell_count.checked_mul(CELL_BYTES).and_then(|bytes| bytes.checked_next_multiple_of(64));
        // A table of no cells still takes a line, so that no two tables start at the same offset.
        let bytes = bytes.unwrap_or(u64::MAX).max(64);
        let offset = self.alloc(bytes, Align::SixtyFour)?;
        let table = TableRef { offset, cell_count };
        self.cells.push(Extent { table, end: self.allocated });
        Ok(table)
    }

    /// Fills allocated bytes that are not published yet.
    pub fn write(&mut self, offset: Offset, bytes: &[u8]) -> Result<(), WriteError> {
        let len = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.unpublished_mut(offset, len)?.copy_from_slice(bytes);
        Ok(())
    }

    /// Allocated, unpublished bytes, to be filled in place.
    pub fn unpublished_mut(&mut self, offset: Offset, len: u64) -> Result<&mut [u8], WriteError> {
        let (start, allocated) = (offset.get(), self.allocated);
        if start < self.published {
            return Err(WriteError::Published { offset: start, published: self.published });
        }
        if start.checked_add(len).is_none_or(|end| end > allocated) {
            return Err(WriteError::Unallocated { offset: start, len, allocated });
        }
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let address = self.backing.memory().bytes_mut(start);
        // SAFETY:
        // - in bounds and backed: `start + len <= allocated <= reserved` (checked; I4), one mapping;
        // - not shared: readers never touch bytes above `published` (I3). In this process all access to them goes
        //   through `self`, which is borrowed exclusively while the result lives;
        // - writable: the writer's mapping is.
        Ok(unsafe { core::slice::from_raw_parts_mut(address, len) })
    }

    /// Stores into a cell of a table. A reader of the value sees everything published before this call.
    pub fn store(&mut self, table: TableRef, index: u64, value: u64) -> Result<(), WriteError> {
        publication::link(self.cell(table, index)?, value);
        Ok(())
    }

    /// The value of a cell of a table.
    pub fn load(&self, table: TableRef, index: u64) -> Result<u64, WriteError> {
        Ok(publication::follow(self.cell(table, index)?))
    }

    /// Bytes written earlier, published or not, but not cells of tables.
    pub fn slice(&self, offset: Offset, len: u64) -> Result<&[u8], Corrupt> {
        let start = offset.get();
        let end = start.checked_add(len).filter(|&end| start >= HEADER_BYTES && end <= self.allocated);
        let Some(end) = end else {
            return Err(Corrupt::Range { offset: start, len, published: self.allocated });
        };
        if self.cells.overlap(start, end) {
            return Err(Corrupt::Cells { offset: start, len });
        }
        // SAFETY: within the allocated bytes and so within the mapping and the object (I4); no cells (I2, checked); not
        // written while borrowed, since every write takes `&mut self`.
        Ok(unsafe { self.backing.memory().bytes(start, len) })
    }

    /// Makes everything allocated so far readable. It never changes again, except for the cells of tables. Returns the
    /// number of published bytes.
    pub fn publish(&mut self) -> u64 {
        let Self { backing, cells, .. } = self;
        // SAFETY: as in `header`.
        let header = unsafe { backing.memory().header() };
        cells.list(header);
        publication::publish(header.published(), self.allocated);
        self.published = self.allocated;
        self.published
    }

    /// Points a root to published data.
    pub fn set_root(&mut self, root: RootIndex, target: Offset) -> Result<(), WriteError> {
        if target.get() >= self.published {
            return Err(WriteError::RootUnpublished { root, target, published: self.published });
        }
        publication::link(self.header().root(root), target.get());
        Ok(())
    }

    /// Advances the generation, wrapping; returns the new one. With `wake`, all its waiters are woken.
    pub fn bump_generation(&mut self, wake: bool) -> u32 {
        self.generation = self.generation.wrapping_add(1);
        publication::announce(self.header().generation(), self.generation);
        if wake {
            futex::wake_all(self.header().generation());
        }
        self.generation
    }

    /// Advances the generation, and wakes its waiters in these classes and the waiters for any change. There are as
    /// many classes as bits, so that most other sleepers sleep on.
    pub fn wake_classes(&mut self, classes: NonZeroU32) -> u32 {
        self.bump_generation(false);
        futex::wake_classes(self.header().generation(), classes);
        self.generation
    }

    /// Declares the end of all publications, and wakes all waiters.
    pub fn retire(&mut self) {
        publication::set_state(self.header().state(), STATE_RETIRED);
        self.bump_generation(true);
    }

    /// The present end of the allocated bytes, for [`SegmentWriter::truncate_to`].
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark(self.allocated)
    }

    /// Frees everything allocated since `mark`; none of it may be published.
    pub fn truncate_to(&mut self, mark: Mark) -> Result<(), WriteError> {
        let Mark(end) = mark;
        if end < self.published {
            return Err(WriteError::Published { offset: end, published: self.published });
        }
        if let (Some(start), Some(len)) = (Offset::from_raw(end), self.allocated.checked_sub(end)) {
            // Future allocations there must be zero.
            self.unpublished_mut(start, len)?.fill(0);
            self.allocated = end;
            self.cells.truncate(end);
        }
        Ok(())
    }

    /// A reader's handle for attaching. Each call makes a new descriptor.
    pub fn handle(&self) -> Result<ReaderHandle, HandleError> {
        self.backing.handle()
    }

    /// The layout readers must agree on.
    #[must_use]
    pub fn layout_id(&self) -> LayoutId {
        self.layout_id
    }

    /// Readable bytes, header included.
    #[must_use]
    pub fn published_bytes(&self) -> u64 {
        self.published
    }

    /// Bytes allocated, published or not, header included.
    #[must_use]
    pub fn allocated_bytes(&self) -> u64 {
        self.allocated
    }

    /// Bytes of memory the segment takes.
    #[must_use]
    pub fn reserved_bytes(&self) -> u64 {
        self.backing.reserved_bytes()
    }

    /// Maximum size of the segment: the span granted, which may be less than the one requested.
    #[must_use]
    pub fn span_bytes(&self) -> u64 {
        self.backing.span_bytes()
    }

    /// The protection against writes by readers.
    #[must_use]
    pub fn protection(&self) -> Protection {
        self.backing.protection()
    }

    /// The place of the segment.
    #[must_use]
    pub fn location(&self) -> Location {
        self.backing.location()
    }

    fn header(&self) -> HeaderWords<'_> {
        // SAFETY: `create` reserved the header before anything else (I4).
        unsafe { self.backing.memory().header() }
    }

    /// The atomic behind a cell of one of this segment's own tables.
    fn cell(&self, table: TableRef, index: u64) -> Result<&super::sync::memory::AtomicU64, WriteError> {
        let cell = if self.cells.contains(table) { table.cell(index) } else { None };
        let cell = cell.ok_or(WriteError::NoCell { table: table.offset, index })?;
        // SAFETY: the table is one of ours (checked), so the cell is allocated (I4), aligned, and accessed only
        // atomically while anybody can see it (I2).
        Ok(unsafe { self.backing.memory().word64(cell.get()) })
    }

    /// Copies into unpublished bytes that are allocated or about to be.
    fn copy_in(&mut self, at: u64, bytes: &[u8]) {
        let to = self.backing.memory().bytes_mut(at);
        debug_assert!(at >= self.published && at + bytes.len() as u64 <= self.backing.reserved_bytes());
        // SAFETY: source and destination do not overlap, as the destination is unpublished segment memory that only
        // `self` gives out, exclusively; both callers have reserved `bytes.len()` bytes at `at` (I4); readers do not
        // look there (I3).
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }

    /// Puts memory behind everything below `end`: in a large step if possible, else exactly.
    fn ensure_reserved(&mut self, end: u64) -> Result<(), GrowError> {
        let have = self.backing.reserved_bytes();
        if end <= have {
            return Ok(());
        }
        let span_bytes = self.span_bytes();
        let exact = end.checked_next_multiple_of(PAGE_BYTES).unwrap_or(span_bytes).min(span_bytes);
        self.backing.reserve(next_reservation(have, end, span_bytes)).or_else(|_| self.backing.reserve(exact))
    }
}

/// A place in an arena to come back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(u64);

/// Smallest span: the header and something to hold.
const SPAN_BYTES_MIN: u64 = 64 << 10;
/// Largest span: it fits several times into the address space of current machines.
const SPAN_BYTES_MAX: u64 = 1 << 45;

/// A span as a multiple of the page size.
fn page_rounded(span_bytes: u64) -> Result<u64, CreateError> {
    span_bytes
        .checked_next_multiple_of(PAGE_BYTES)
        .filter(|span| (SPAN_BYTES_MIN..=SPAN_BYTES_MAX).contains(span))
        .ok_or(CreateError::Span { found: span_bytes, min: SPAN_BYTES_MIN, max: SPAN_BYTES_MAX })
}

/// Refuses a text that does not fit the header.
fn fits(what: &'static str, text: &str, max: usize) -> Result<(), CreateError> {
    if text.len() > max {
        return Err(CreateError::TextTooLong { what, found: text.len(), max });
    }
    Ok(())
}
