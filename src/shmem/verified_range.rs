//! Memory that a reader has already checked: stretches of bytes and tables of cells.
//!
//! Both are views of the first mapping. Published bytes between tables of cells stay so, because each new table lies
//! above all earlier published bytes (I2). So a stretch is remembered in one word, and reads within it cost only the
//! bounds check of a slice.

use zerocopy::{FromBytes, Immutable, KnownLayout};

use super::memory::Memory;
use super::offset::CELL_BYTES;
use super::publication;
use super::sync::Ordering;
use super::sync::memory::AtomicU64;

/// Published bytes without any cell.
#[derive(Clone, Copy, Debug)]
pub struct VerifiedRange<'a> {
    start: u64,
    bytes: &'a [u8],
}

impl<'a> VerifiedRange<'a> {
    /// An empty stretch.
    pub const EMPTY: Self = Self { start: 0, bytes: &[] };

    /// All bytes from `offset` on; `None` if `offset` is outside.
    #[inline(always)]
    fn from(self, offset: u64) -> Option<&'a [u8]> {
        self.bytes.get(usize::try_from(offset.wrapping_sub(self.start)).ok()?..)
    }

    /// `len` bytes at `offset`; `None` if a byte is outside.
    #[inline(always)]
    #[must_use]
    pub fn slice(self, offset: u64, len: u64) -> Option<&'a [u8]> {
        self.from(offset)?.get(..usize::try_from(len).ok()?)
    }

    /// A value, in place; `None` if it is outside or not aligned.
    #[inline(always)]
    #[must_use]
    pub fn read<T: FromBytes + KnownLayout + Immutable>(self, offset: u64) -> Option<&'a T> {
        T::ref_from_prefix(self.from(offset)?).ok().map(|(value, _)| value)
    }

    /// `count` values in a row, in place; `None` if a byte is outside or they are not aligned.
    #[inline(always)]
    #[must_use]
    pub fn array<T: FromBytes + KnownLayout + Immutable>(self, offset: u64, count: u64) -> Option<&'a [T]> {
        let count = usize::try_from(count).ok()?;
        <[T]>::ref_from_prefix_with_elems(self.from(offset)?, count).ok().map(|(values, _)| values)
    }
}

/// A table of readable cells.
#[derive(Clone, Copy, Debug)]
pub struct CellTable<'a> {
    cells: &'a [AtomicU64],
}

impl<'a> CellTable<'a> {
    pub(super) const fn new(cells: &'a [AtomicU64]) -> Self {
        Self { cells }
    }

    /// Number of cells.
    #[inline(always)]
    #[must_use]
    pub const fn cell_count(self) -> u64 {
        // Lossless: a `usize` has at most 64 bits.
        self.cells.len() as u64
    }

    /// The present value of a cell, if it exists. Data published before the cell's store is readable now.
    #[inline(always)]
    #[must_use]
    pub fn load(self, index: u64) -> Option<u64> {
        self.cells.get(usize::try_from(index).ok()?).map(publication::follow)
    }
}

/// Stretches that a reader has found.
#[derive(Debug)]
pub(super) struct KnownRanges([AtomicU64; KNOWN_COUNT]);

/// One behind the last table, and eight between tables. A reader alternates between registered and posted data, with
/// the dictionary's larger tables in between. Eight neighbouring gaps have places of their own.
const KNOWN_COUNT: usize = 9;

/// The first two gaps are nearly empty, because a writer begins with two tables.
const FIRST_GAP: usize = 2;

/// Bytes between two tables, or behind the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Number of tables before it; the maximum behind the last table.
    pub(super) tables_before: usize,
}

impl KnownRanges {
    pub(super) const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; KNOWN_COUNT])
    }

    /// The known stretches, in `memory`, the reader's first mapping.
    #[inline(always)]
    pub(super) fn all<'a>(&self, memory: &'a Memory) -> impl Iterator<Item = VerifiedRange<'a>> {
        self.0.iter().map(|word| {
            // Acquire pairs with the Release in `remember`: the Acquire of `published` by another thread of this
            // process extends to this thread.
            let (start, end) = unpacked(word.load(Ordering::Acquire));
            // SAFETY: the contract of `remember` covers these bytes; or the word is zero, and the range is empty.
            VerifiedRange { start, bytes: unsafe { memory.bytes(start, end - start) } }
        })
    }

    /// Keeps a stretch, if it fits a word.
    ///
    /// # Safety
    /// Its bytes are published (I1), no cells (I2), and within the object (I4) and the reader's first mapping.
    #[cold]
    pub(super) unsafe fn remember(&self, stretch: Gap) {
        let between = stretch.tables_before.saturating_sub(FIRST_GAP) % (KNOWN_COUNT - 1);
        let place = self.0.get(if stretch.tables_before == usize::MAX { 0 } else { 1 + between });
        if let (Some(word), Some(packed)) = (place, stretch.packed()) {
            // Release pairs with the Acquire in `all`.
            word.store(packed, Ordering::Release);
        }
    }
}

impl Gap {
    /// The stretch in one word; `None` if it is empty or too large.
    fn packed(self) -> Option<u64> {
        let words = |bytes: u64| u32::try_from(bytes / CELL_BYTES).ok();
        // Rounded inwards. Tables are at multiples of a cell's size, but an untrusted list may differ.
        let start = words(self.start.checked_next_multiple_of(CELL_BYTES)?)?;
        let end = words(self.end)?;
        (start < end).then_some(u64::from(end) << u32::BITS | u64::from(start))
    }
}

/// Start and end of a result of [`Gap::packed`]; zero gives an empty range. Never ends before it starts.
#[inline(always)]
fn unpacked(word: u64) -> (u64, u64) {
    ((word & u64::from(u32::MAX)) * CELL_BYTES, (word >> u32::BITS) * CELL_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_fits_a_word_and_comes_back_no_larger() {
        let packed = |start, end| Gap { start, end, tables_before: 0 }.packed();
        for (start, end) in [(4096, 8192), (0, 8), (4097, 8191), (0, u64::from(u32::MAX) * CELL_BYTES)] {
            let back = unpacked(packed(start, end).unwrap());
            assert!(start <= back.0 && back.0 < back.1 && back.1 <= end, "{start} {end} {back:?}");
            assert!(back.1 - back.0 + 2 * CELL_BYTES > end - start);
        }
        assert_eq!([packed(0, u64::MAX), packed(9, 17), packed(64, 32)], [None; 3]);
        assert_eq!(unpacked(0), (0, 0));
    }

    #[test]
    fn a_stretch_gives_what_lies_in_it_and_nothing_else() {
        let words = [1_u64, 2, 3];
        let stretch = VerifiedRange { start: 4096, bytes: zerocopy::IntoBytes::as_bytes(&words) };
        assert_eq!(stretch.slice(4104, 16), Some(&stretch.bytes[8..]));
        assert_eq!((stretch.read::<u64>(4112), stretch.array::<u64>(4104, 2)), (Some(&3), Some(&words[1..])));
        assert_eq!(
            (stretch.slice(4120, 0), stretch.slice(4120, 1), stretch.slice(4095, 1)),
            (Some(&[][..]), None, None)
        );
        assert_eq!(
            (stretch.slice(0, 0), stretch.slice(4096, u64::MAX), stretch.slice(u64::MAX, 2)),
            (None, None, None)
        );
        assert_eq!(
            (stretch.read::<u64>(4100), stretch.read::<u64>(4113), stretch.array::<u64>(4104, 3)),
            (None, None, None)
        );
        assert_eq!(stretch.array::<u64>(4096, 1 << 61), None);
        assert_eq!(VerifiedRange::EMPTY.slice(1, 0), None);
    }
}
