//! Access to a segment, with checks of bounds and typed errors.

use zerocopy::{FromBytes, Immutable, KnownLayout};

use super::format::Array;
use crate::shmem::{CellTable, Corrupt, Offset, RootIndex, SegmentReader, TableRef, VerifiedRange};

/// Damage in the bytes of a segment. Small and free of allocation, because `Get` returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// The bytes are not readable.
    #[error(transparent)]
    Memory(#[from] Corrupt),
    /// A compulsory reference is empty.
    #[error("a reference to {what} is zero")]
    Missing {
        /// The expected structure.
        what: &'static str,
    },
    /// A code unknown to this build, despite the matching layout id.
    #[error("{what} has the unknown code {code}")]
    Code {
        /// The field.
        what: &'static str,
        /// Its content.
        code: u64,
    },
    /// A number outside the range of its data type.
    #[error("{bits:#x} is not a value of data type {data_type}")]
    Number {
        /// The standard's number of the type.
        data_type: u16,
        /// The number found.
        bits: u64,
    },
    /// A string or name with illegal bytes.
    #[error("a {what} of {len} bytes is malformed")]
    Text {
        /// The structure.
        what: &'static str,
        /// Its length.
        len: u64,
    },
    /// An archive that fails validation, or holds another type than its cell.
    #[error("an archived value of {len} bytes is malformed")]
    Archive {
        /// Its length.
        len: u64,
    },
    /// A chain of blocks that is too long or does not lead backwards.
    #[error("the block at {offset:#x} of a chain does not lead backwards within {} steps", CHAIN_MAX)]
    Chain {
        /// The last block followed.
        offset: u64,
    },
}

/// The segment's roots.
pub(crate) mod root {
    use super::RootIndex;

    /// The key dictionary's table of slots.
    pub(crate) const KEYS: RootIndex = RootIndex::of::<0>();
    /// The job record.
    pub(crate) const JOB: RootIndex = RootIndex::of::<1>();
    /// The modex table: the newest block of each rank.
    pub(crate) const MODEX: RootIndex = RootIndex::of::<2>();
    /// The table of statistics.
    pub(crate) const STATISTICS: RootIndex = RootIndex::of::<3>();
    /// The completion table: a table of verdicts for connections.
    pub(crate) const COMPLETION_TABLE: RootIndex = RootIndex::of::<4>();
}

/// A mapped segment, as the readers in this module see it.
///
/// Most reads of a lookup are close together. So a lookup carries the stretch around its position, and only reads
/// elsewhere look at the segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentView<'a> {
    segment: &'a SegmentReader,
    near: VerifiedRange<'a>,
}

impl<'a> SegmentView<'a> {
    /// Reads through a mapping.
    #[inline]
    pub(crate) const fn new(segment: &'a SegmentReader) -> Self {
        Self { segment, near: VerifiedRange::EMPTY }
    }

    /// The same, for further reads near a position.
    #[inline(always)]
    pub(crate) fn around(self, offset: u64) -> Self {
        Self { near: self.segment.stretch_around(offset), ..self }
    }

    /// The target of a root; `None` before the first store.
    #[inline(always)]
    pub(crate) fn root(self, root: RootIndex) -> Option<u64> {
        self.segment.root(root).map(Offset::get)
    }

    /// The table of atomic cells that a root leads to.
    #[inline(always)]
    pub(crate) fn root_cells(self, root: RootIndex) -> Result<Option<CellTable<'a>>, Damage> {
        Ok(self.segment.root_cells(root)?)
    }

    /// A cell of a table that no root refers to yet.
    pub(crate) fn cell(self, table: TableRef, index: u64) -> Result<u64, Damage> {
        Ok(self.segment.cell(table, index)?)
    }

    /// Bytes.
    #[inline(always)]
    pub(crate) fn bytes(self, offset: u64, len: u64) -> Result<&'a [u8], Damage> {
        match self.near.slice(offset, len) {
            Some(bytes) => Ok(bytes),
            None => self.far_bytes(offset, len),
        }
    }

    #[inline(never)]
    fn far_bytes(self, offset: u64, len: u64) -> Result<&'a [u8], Damage> {
        Ok(self.segment.slice(position(offset, "bytes")?, len)?)
    }

    /// One structure.
    #[inline(always)]
    pub(crate) fn record<T: FromBytes + Immutable + KnownLayout>(self, offset: u64) -> Result<&'a T, Damage> {
        match self.near.read(offset) {
            Some(record) => Ok(record),
            None => self.far_record(offset),
        }
    }

    #[inline(never)]
    fn far_record<T: FromBytes + Immutable + KnownLayout>(self, offset: u64) -> Result<&'a T, Damage> {
        Ok(self.segment.read(position(offset, "a structure")?)?)
    }

    /// An array; an empty one needs no position.
    #[inline(always)]
    pub(crate) fn array<T: FromBytes + Immutable + KnownLayout>(self, array: Array) -> Result<&'a [T], Damage> {
        match self.near.array(array.offset, array.count) {
            Some(elements) => Ok(elements),
            None => self.far_array(array),
        }
    }

    #[inline(never)]
    fn far_array<T: FromBytes + Immutable + KnownLayout>(self, array: Array) -> Result<&'a [T], Damage> {
        if array.count == 0 {
            return Ok(&[]);
        }
        Ok(self.segment.array(position(array.offset, "an array")?, array.count)?)
    }

    /// One element of an array whose other elements are not needed.
    #[inline(always)]
    pub(crate) fn element<T: FromBytes + Immutable + KnownLayout>(
        self,
        array: Array,
        index: u64,
    ) -> Result<Option<&'a T>, Damage> {
        if index >= array.count {
            return Ok(None);
        }
        let size = u64::try_from(size_of::<T>()).unwrap_or(u64::MAX);
        let offset = index.checked_mul(size).and_then(|bytes| array.offset.checked_add(bytes));
        match offset {
            Some(offset) => self.record(offset).map(Some),
            None => Err(Corrupt::Count { offset: array.offset, count: array.count, size }.into()),
        }
    }
}

fn position(offset: u64, what: &'static str) -> Result<Offset, Damage> {
    Offset::from_raw(offset).ok_or(Damage::Missing { what })
}

/// Blocks a reader follows at most: more than any chain the writer makes can have.
pub(crate) const CHAIN_MAX: usize = 64;
