//! Positions in a segment, as types.

use std::fmt;
use std::num::NonZeroU64;

/// A position in a segment: bytes from its start. Never zero, so that a stored zero means "nothing".
///
/// An offset is only a number: whether it lies in a given segment is checked on every access.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset(NonZeroU64);

impl Offset {
    /// The offset a stored word stands for; `None` for zero, which means "nothing".
    #[must_use]
    #[inline]
    pub const fn from_raw(raw: u64) -> Option<Self> {
        match NonZeroU64::new(raw) {
            Some(raw) => Some(Self(raw)),
            None => None,
        }
    }

    /// The number of bytes from the start of the segment, as stored.
    #[must_use]
    #[inline]
    pub const fn get(self) -> u64 {
        self.0.get()
    }

    /// The position `bytes` further on; `None` on overflow.
    #[must_use]
    #[inline]
    pub const fn checked_add(self, bytes: u64) -> Option<Self> {
        match self.0.checked_add(bytes) {
            Some(raw) => Some(Self(raw)),
            None => None,
        }
    }
}

impl fmt::Debug for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Offset({:#x})", self.0)
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// A table of atomic 64-bit cells, which change even after publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TableRef {
    pub(super) offset: Offset,
    pub(super) cell_count: u64,
}

impl TableRef {
    /// Position and length in one word, if they fit: 32 GiB and 2^32 cells. Never zero.
    pub(super) fn packed(self) -> Option<u64> {
        let position = u32::try_from(self.offset.get() / CELL_BYTES).ok()?;
        let cell_count = u32::try_from(self.cell_count).ok()?;
        Some(u64::from(position) << 32 | u64::from(cell_count))
    }

    /// The table at `offset`, if `packed` describes it.
    #[inline(always)]
    pub(super) fn unpacked(packed: u64, offset: Offset) -> Option<Self> {
        let is_same = (packed >> 32) * CELL_BYTES == offset.get();
        is_same.then_some(Self { offset, cell_count: packed & u64::from(u32::MAX) })
    }

    /// Offset of the first cell.
    #[must_use]
    #[inline]
    pub const fn offset(self) -> Offset {
        self.offset
    }

    /// Number of cells.
    #[must_use]
    #[inline]
    pub const fn cell_count(self) -> u64 {
        self.cell_count
    }

    /// The position of one cell; `None` if there is no such cell or its position overflows.
    #[inline]
    pub(super) fn cell(self, index: u64) -> Option<Offset> {
        if index >= self.cell_count {
            return None;
        }
        self.offset.checked_add(index.checked_mul(CELL_BYTES)?)
    }
}

/// Size of a cell of a table, in bytes.
pub(super) const CELL_BYTES: u64 = 8;

/// Number of roots.
pub const ROOT_COUNT: usize = 16;

/// One of the roots in a segment's header. The layer above assigns their meanings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RootIndex(u8);

impl RootIndex {
    /// Root number `INDEX`, checked when the program is compiled.
    #[must_use]
    pub const fn of<const INDEX: u8>() -> Self {
        const { assert!((INDEX as usize) < ROOT_COUNT) };
        Self(INDEX)
    }

    /// All roots in order.
    pub fn all() -> impl Iterator<Item = Self> {
        (0_u8..).take(ROOT_COUNT).map(Self)
    }

    /// The number of this root.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }
}

/// Alignment of bytes in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// On 8 bytes: words.
    Eight,
    /// On 16 bytes: archives.
    Sixteen,
    /// On 64 bytes: cache lines.
    SixtyFour,
}

impl Align {
    /// The alignment in bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Eight => 8,
            Self::Sixteen => 16,
            Self::SixtyFour => 64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packed_table_is_known_again_at_its_own_place_only() {
        let at = |raw| Offset::from_raw(raw).unwrap();
        let table = TableRef { offset: at(4096), cell_count: 7 };
        let packed = table.packed().unwrap();
        assert_eq!(TableRef::unpacked(packed, at(4096)), Some(table));
        assert_eq!(TableRef::unpacked(packed, at(4104)), None);
        assert_eq!(TableRef::unpacked(0, at(8)), None);
    }

    #[test]
    fn a_table_too_far_or_too_long_is_not_packed() {
        let offset = Offset::from_raw(4096).unwrap();
        assert_eq!(TableRef { offset, cell_count: 1 << 32 }.packed(), None);
        assert_eq!(TableRef { offset: Offset::from_raw(1 << 36).unwrap(), cell_count: 1 }.packed(), None);
    }
}
