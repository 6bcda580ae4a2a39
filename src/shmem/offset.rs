//! Positions in a segment, as types.

use std::fmt;
use std::num::NonZeroU64;

use super::header::ROOT_COUNT;

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

    /// The position `bytes` further on, unless that overflows.
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

/// A table of atomic 64-bit cells, which stay changeable after publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TableRef {
    pub(super) offset: Offset,
    pub(super) cell_count: u64,
}

impl TableRef {
    /// Where the table starts.
    #[must_use]
    #[inline]
    pub const fn offset(self) -> Offset {
        self.offset
    }

    /// How many cells it has.
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

/// One of the roots in a segment's header. What each is for is decided by the layer above.
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

/// How bytes in a segment are aligned.
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
