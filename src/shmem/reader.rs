//! A reader of a segment: lock-free, without system calls once mapped, and without trust in its data.

use std::num::NonZeroU32;
use std::time::Duration;

use zerocopy::{CastError, FromBytes, Immutable, KnownLayout};

use super::backing::{ReaderHandle, Source};
use super::cells;
use super::error::{Corrupt, SegmentError};
use super::futex;
use super::header::{self, HEADER_BYTES, LayoutId, Preamble, STATE_LIVE, STATE_RETIRED, SegmentInfo};
use super::memory::{HeaderWords, Memory};
use super::offset::{CELL_BYTES, Offset, ROOT_COUNT, RootIndex, TableRef};
use super::options::{Protection, ReaderOptions, SegmentState};
use super::publication::{self, Overclaim, Watermark};
use super::region::Region;
use super::sync::Ordering;
use super::sync::memory::AtomicU64;
use super::verified_range::{CellTable, Gap, KnownRanges, VerifiedRange};

/// Reads a segment. All access is O(1) or O(number of tables), takes no lock and allocates nothing.
///
/// Borrowed bytes live as long as the reader, independent of the writer. Dropping the reader unmaps and closes
/// everything.
#[derive(Debug)]
pub struct SegmentReader {
    region: Region,
    watermark: Watermark,
    info: SegmentInfo,
    protection: Protection,
    /// The table behind each root at the last visit, packed. Searching the header's list again would double the cost of
    /// a lookup.
    known_tables: [AtomicU64; ROOT_COUNT],
    known_ranges: KnownRanges,
}

impl SegmentReader {
    /// Maps a segment for reading, after checking that it is a segment with the layout `expected`.
    pub fn attach(handle: ReaderHandle, expected: LayoutId, options: &ReaderOptions) -> Result<Self, SegmentError> {
        let (info, object_bytes) = examine(handle.source(), Some(expected))?;
        let source = handle.into_source();
        let protection = source.protection();
        let region = Region::map(source, object_bytes, info.span_bytes, options.wish_bytes(object_bytes))?;
        let known_tables = [const { AtomicU64::new(0) }; ROOT_COUNT];
        let watermark = Watermark::new();
        let reader = Self { region, watermark, info, protection, known_tables, known_ranges: KnownRanges::new() };
        reader.first_look()?;
        Ok(reader)
    }

    /// A handle for another reader, in this or another process, with the same descriptor.
    #[must_use]
    pub fn handle(&self) -> ReaderHandle {
        ReaderHandle::again(self.region.source())
    }

    /// The description in a segment's header, for any layout above this module. For tools.
    pub fn peek(handle: &ReaderHandle) -> Result<SegmentInfo, SegmentError> {
        examine(handle.source(), None).map(|(info, _)| info)
    }

    /// The data in the preamble of a segment of any version. For tools.
    pub fn preamble(handle: &ReaderHandle) -> Result<Preamble, SegmentError> {
        handle.source().check()?;
        header::preamble(&handle.source().fixed_header()?)
    }

    /// Published bytes without cells.
    #[inline]
    pub fn slice(&self, offset: Offset, len: u64) -> Result<&[u8], Corrupt> {
        let mut known = self.known_ranges.all(self.region.first());
        match known.find_map(|stretch| stretch.slice(offset.get(), len)) {
            Some(bytes) => Ok(bytes),
            None => self.look_up_slice(offset, len),
        }
    }

    /// The known stretch around a position, for cheaper reads nearby; empty if none is known.
    #[inline(always)]
    #[must_use]
    pub fn stretch_around(&self, offset: u64) -> VerifiedRange<'_> {
        let mut known = self.known_ranges.all(self.region.first());
        known.find(|stretch| stretch.slice(offset, 1).is_some()).unwrap_or(VerifiedRange::EMPTY)
    }

    #[cold]
    fn look_up_slice(&self, offset: Offset, len: u64) -> Result<&[u8], Corrupt> {
        let (memory, start, end) = self.readable(offset, len)?;
        let gap = cells::gap_around(self.header(), start, end).ok_or(Corrupt::Cells { offset: start, len })?;
        let reach = self.watermark.readable().min(self.region.first().len());
        let stretch = Gap { start: gap.start.max(HEADER_BYTES), end: gap.end.min(reach), ..gap };
        // SAFETY: published and within the object as far as the watermark reaches (I1, I4), within the first mapping
        // (cut to it), and between the tables there are, or behind the last (I2).
        unsafe { self.known_ranges.remember(stretch) };
        // SAFETY: `readable` has checked that the bytes are published (I1), within the object (I4) and the mapping;
        // they are no cells (I2, checked).
        Ok(unsafe { memory.bytes(start, len) })
    }

    /// A published value, in place.
    #[inline]
    pub fn read<T: FromBytes + KnownLayout + Immutable>(&self, offset: Offset) -> Result<&T, Corrupt> {
        let bytes = self.slice(offset, u64::try_from(size_of::<T>()).unwrap_or(u64::MAX))?;
        T::ref_from_bytes(bytes).map_err(|e| misfit::<T, _>(offset, 1, &e))
    }

    /// `count` published values in a row, in place.
    #[inline]
    pub fn array<T: FromBytes + KnownLayout + Immutable>(&self, offset: Offset, count: u64) -> Result<&[T], Corrupt> {
        let size = u64::try_from(size_of::<T>()).unwrap_or(u64::MAX);
        let Some(len) = size.checked_mul(count) else {
            return Err(Corrupt::Count { offset: offset.get(), count, size });
        };
        let bytes = self.slice(offset, len)?;
        let elements = usize::try_from(count).unwrap_or(usize::MAX);
        <[T]>::ref_from_bytes_with_elems(bytes, elements).map_err(|e| misfit::<T, _>(offset, count, &e))
    }

    /// The table of cells that starts at `offset`.
    #[inline(always)]
    pub fn table(&self, offset: Offset) -> Result<TableRef, Corrupt> {
        // Makes sure that the list in the header covers the table, if there is one.
        self.readable(offset, CELL_BYTES)?;
        let table = cells::listed_at(self.header(), offset).ok_or(Corrupt::NotATable { offset: offset.get() })?;
        let len = table.cell_count.checked_mul(CELL_BYTES).ok_or(Corrupt::NotATable { offset: offset.get() })?;
        self.readable(offset, len)?;
        Ok(table)
    }

    /// The table of cells that a root leads to; `None` if it has not been set.
    #[inline(always)]
    pub fn root_cells(&self, root: RootIndex) -> Result<Option<CellTable<'_>>, Corrupt> {
        match (self.known_cells(root), self.root(root)) {
            (Some(cells), _) => Ok(Some(cells)),
            (None, Some(offset)) => self.look_up_root_cells(root, offset).map(Some),
            (None, None) => Ok(None),
        }
    }

    /// The same from memory of an earlier lookup; `None` if there was none.
    #[inline(always)]
    #[must_use]
    pub fn known_cells(&self, root: RootIndex) -> Option<CellTable<'_>> {
        let offset = self.root(root)?;
        // Acquire pairs with the Release in `look_up_root_cells`: the Acquire of `published` by another thread of this
        // process extends to this thread.
        let known = self.known_table(root).map_or(0, |word| word.load(Ordering::Acquire));
        let table = TableRef::unpacked(known, offset)?;
        // SAFETY: `look_up_root_cells` has found the whole table to be readable, in the first mapping (I4), and
        // aligned; its cells are only ever written atomically (I2).
        Some(CellTable::new(unsafe { self.region.first().words64(offset.get(), table.cell_count) }))
    }

    #[cold]
    fn look_up_root_cells(&self, root: RootIndex, offset: Offset) -> Result<CellTable<'_>, Corrupt> {
        if !offset.get().is_multiple_of(CELL_BYTES) {
            return Err(Corrupt::Misaligned { offset: offset.get(), align: CELL_BYTES });
        }
        let table = self.table(offset)?;
        let (memory, start, end) = self.readable(offset, table.cell_count.saturating_mul(CELL_BYTES))?;
        if let (true, Some(word), Some(packed)) =
            (end <= self.region.first().len(), self.known_table(root), table.packed())
        {
            // Release pairs with the Acquire in `root_cells`.
            word.store(packed, Ordering::Release);
        }
        // SAFETY: readable, that is within the mapping and the object (I4), and aligned (both checked); the cells are
        // only ever written atomically (I2).
        Ok(CellTable::new(unsafe { memory.words64(start, table.cell_count) }))
    }

    #[inline(always)]
    fn known_table(&self, root: RootIndex) -> Option<&AtomicU64> {
        self.known_tables.get(usize::from(root.get()))
    }

    /// The present value of a cell of a table. Data published before the cell's store is readable now.
    #[inline(always)]
    pub fn cell(&self, table: TableRef, index: u64) -> Result<u64, Corrupt> {
        let TableRef { offset, cell_count } = table;
        let cell = table.cell(index).ok_or(Corrupt::NoCell { table: offset, cell_count, index })?;
        self.load_acquire(cell)
    }

    /// The present value of the published word at `offset`, cell or not.
    #[inline(always)]
    pub fn load_acquire(&self, offset: Offset) -> Result<u64, Corrupt> {
        if !offset.get().is_multiple_of(CELL_BYTES) {
            return Err(Corrupt::Misaligned { offset: offset.get(), align: CELL_BYTES });
        }
        let (memory, start, _) = self.readable(offset, CELL_BYTES)?;
        // SAFETY: within the mapping and the object (I4, checked), aligned (checked); a cell is only ever written
        // atomically (I2) and any other published word not at all (I1).
        Ok(publication::follow::<AtomicU64>(unsafe { memory.word64(start) }))
    }

    /// The target of a root; `None` if it has not been set.
    #[inline(always)]
    #[must_use]
    pub fn root(&self, root: RootIndex) -> Option<Offset> {
        Offset::from_raw(publication::follow(self.header().root(root)))
    }

    /// The number of the newest publication. It wraps: compare for equality only.
    #[inline]
    #[must_use]
    pub fn generation(&self) -> u32 {
        publication::generation(self.header().generation())
    }

    /// Sleeps until the generation differs from `seen`, at most for `timeout`; without a timeout there is no limit. The
    /// writer has to wake: see [`bump_generation`].
    ///
    /// A signal or an unrelated wake-up ends the sleep early, as [`GenerationWait::Unchanged`]: the caller, which has
    /// the clock, decides whether to continue.
    ///
    /// [`bump_generation`]: super::SegmentWriter::bump_generation
    #[must_use]
    pub fn wait_for_generation(&self, seen: u32, timeout: Option<Duration>) -> GenerationWait {
        self.after(futex::wait(self.header().generation(), seen, timeout), seen)
    }

    /// As [`SegmentReader::wait_for_generation`], woken for these classes only: see
    /// [`SegmentWriter::wake_classes`](super::SegmentWriter::wake_classes).
    #[must_use]
    pub fn wait_in_classes(&self, seen: u32, classes: NonZeroU32, timeout: Duration) -> GenerationWait {
        self.after(futex::wait_for_classes(self.header().generation(), seen, classes, timeout), seen)
    }

    fn after(&self, woken: futex::Wake, seen: u32) -> GenerationWait {
        let word = self.header().generation();
        match (publication::generation(word), woken) {
            (now, _) if now != seen => GenerationWait::Changed(now),
            (_, futex::Wake::TimedOut) => GenerationWait::TimedOut,
            (_, futex::Wake::LookAgain) => GenerationWait::Unchanged,
        }
    }

    /// Whether the segment is still written to.
    pub fn state(&self) -> Result<SegmentState, Corrupt> {
        match publication::state(self.header().state()) {
            STATE_LIVE => Ok(SegmentState::Live),
            STATE_RETIRED => Ok(SegmentState::Retired),
            found => Err(Corrupt::State { found }),
        }
    }

    /// Bytes that are published and present, header included.
    pub fn published_bytes(&self) -> Result<u64, Corrupt> {
        self.refresh()
    }

    /// The segment's description in its header.
    #[must_use]
    pub fn info(&self) -> &SegmentInfo {
        &self.info
    }

    /// Text that names the segment.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.info.label
    }

    /// Identity of its writer.
    #[must_use]
    pub fn owner(&self) -> &str {
        &self.info.owner
    }

    /// The protection against writes by this process.
    #[must_use]
    pub fn protection(&self) -> Protection {
        self.protection
    }

    /// Number of mappings, and their bytes of address space. For statistics.
    #[must_use]
    pub fn mapped(&self) -> (usize, u64) {
        self.region.mapped()
    }

    /// Checks that `len` bytes at `offset` are readable; returns a mapping with them, their start and their end.
    #[inline(always)]
    fn readable(&self, offset: Offset, len: u64) -> Result<(&Memory, u64, u64), Corrupt> {
        let start = offset.get();
        let Some(end) = start.checked_add(len).filter(|_| start >= HEADER_BYTES) else {
            return Err(self.out_of_range(start, len));
        };
        if !self.watermark.covers(end) && self.refresh()? < end {
            return Err(self.out_of_range(start, len));
        }
        Ok((self.region.reaching(end)?, start, end))
    }

    #[cold]
    fn out_of_range(&self, offset: u64, len: u64) -> Corrupt {
        Corrupt::Range { offset, len, published: publication::observe(self.header().published()) }
    }

    /// Reads the present end of the published bytes.
    #[cold]
    fn refresh(&self) -> Result<u64, Corrupt> {
        let size = || {
            let size = self.region.source().size_bytes();
            size.map_err(|e| Corrupt::Size { errno: e.raw_os_error().unwrap_or(0) })
        };
        match self.watermark.refresh(self.header().published(), size)? {
            Ok(readable) => Ok(readable),
            Err(Overclaim { published, object_bytes }) => Err(Corrupt::Truncated { published, object_bytes }),
        }
    }

    /// Refuses a segment with an impossible `published`.
    fn first_look(&self) -> Result<(), SegmentError> {
        match self.refresh() {
            Ok(published) if published < HEADER_BYTES => {
                Err(SegmentError::Field { field: "published", value: published })
            }
            Ok(_) => Ok(()),
            Err(Corrupt::Truncated { published, object_bytes }) => {
                Err(SegmentError::Truncated { published, object_bytes })
            }
            Err(other) => Err(SegmentError::System { step: "fstat", source: std::io::Error::other(other) }),
        }
    }

    #[inline(always)]
    fn header(&self) -> HeaderWords<'_> {
        // SAFETY: `examine` found the object to be at least as large as the header before it was mapped (I4).
        unsafe { self.region.first().header() }
    }
}

/// Outcome of a wait for a new generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GenerationWait {
    /// There is a new generation, with this number.
    Changed(u32),
    /// No known change; the wait was interrupted.
    Unchanged,
    /// The time is over, or the kernel refuses to let this process sleep; nothing has changed.
    TimedOut,
}

/// Checks type, size and fixed header of a source; returns the header and the size.
fn examine(source: &Source, expected: Option<LayoutId>) -> Result<(SegmentInfo, u64), SegmentError> {
    let object_bytes = source.check()?;
    let info = header::parse(&source.fixed_header()?, expected)?;
    Ok((info, object_bytes))
}

/// The error for bytes of the right size that are invalid for `T`.
#[cold]
fn misfit<T, S>(offset: Offset, count: u64, error: &CastError<&[u8], S>) -> Corrupt
where
    S: ?Sized + zerocopy::TryFromBytes,
{
    let as_u64 = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    match error {
        CastError::Alignment(_) => Corrupt::Misaligned { offset: offset.get(), align: as_u64(align_of::<T>()) },
        _ => Corrupt::Count { offset: offset.get(), count, size: as_u64(size_of::<T>()) },
    }
}
