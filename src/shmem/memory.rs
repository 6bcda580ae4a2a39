//! Mapped memory: the only file that turns addresses into references.

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use memmap2::{Advice, MmapRaw, RemapOptions};

use super::header;
use super::offset::RootIndex;
use super::sync::memory::{AtomicU32, AtomicU64};

/// A mapping of a segment from its first byte on. It may be longer than the object.
pub(crate) struct Memory {
    base: NonNull<u8>,
    len: u64,
    keeper: Keeper,
}

/// The owner that unmaps the memory on drop.
pub(crate) enum Keeper {
    /// A mapping of our own.
    Map { map: MmapRaw },
    /// A mapping shared by the writer and the readers of one process.
    Heap { _map: Arc<MmapRaw> },
    /// A mapping made by crate `shared_memory`.
    #[cfg(feature = "posix-shm")]
    Posix { _map: shared_memory::Shmem },
}

// SAFETY: a `Memory` is an address range and the right to unmap it. Neither is tied to a thread: `MmapRaw` is `Send`
// and `Sync`, and `Shmem`, which is not only for holding a raw pointer, is never used again but to be dropped. Access
// through the address is governed by I1..I5.
unsafe impl Send for Memory {}
// SAFETY: as above; shared use of a `Memory` only computes addresses, and `Shmem` is not touched by it.
unsafe impl Sync for Memory {}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memory").field("base", &self.base).field("len", &self.len).finish_non_exhaustive()
    }
}

impl Memory {
    /// Takes over a mapping. `None` if it is empty, at a null address or not page aligned, which never happens.
    pub(crate) fn from_map(map: MmapRaw) -> Option<Self> {
        let (base, len) = (map.as_mut_ptr(), map.len());
        Self::new(base, len, Keeper::Map { map })
    }

    /// Shares a mapping inside this process.
    pub(crate) fn from_heap(map: Arc<MmapRaw>) -> Option<Self> {
        let (base, len) = (map.as_mut_ptr(), map.len());
        Self::new(base, len, Keeper::Heap { _map: map })
    }

    /// Takes over a mapping made by crate `shared_memory`.
    #[cfg(feature = "posix-shm")]
    pub(crate) fn from_posix(map: shared_memory::Shmem) -> Option<Self> {
        let (base, len) = (map.as_ptr(), map.len());
        Self::new(base, len, Keeper::Posix { _map: map })
    }

    fn new(base: *mut u8, len: usize, keeper: Keeper) -> Option<Self> {
        let base = NonNull::new(base)?;
        let len = u64::try_from(len).ok().filter(|&len| len >= header::HEADER_BYTES)?;
        // I5: everything below relies on the alignment of the base.
        base.as_ptr().addr().is_multiple_of(64).then_some(Self { base, len, keeper })
    }

    /// Length of the mapping in bytes.
    #[inline]
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Makes the mapping `len` bytes long; the mapping may move. On failure nothing has changed.
    ///
    /// No reference into the mapping survives: all references borrow `self`, which is borrowed exclusively here.
    pub(crate) fn grow(&mut self, len: u64) -> io::Result<()> {
        let Keeper::Map { map } = &mut self.keeper else { return Err(io::ErrorKind::Unsupported.into()) };
        let bytes = usize::try_from(len).map_err(io::Error::other)?;
        // SAFETY: the mapping belongs to `self` alone, so its old address is used nowhere else (I5); every address is
        // computed anew from `base`, which is set below.
        unsafe { map.remap(bytes, RemapOptions::new().may_move(true)) }?;
        self.base = NonNull::new(map.as_mut_ptr()).ok_or(io::ErrorKind::InvalidData)?;
        self.len = len;
        Ok(())
    }

    /// Maps the bytes from `start` to `end`, within the object, writable at once instead of page by page at each first
    /// touch. It only saves time, so errors are ignored.
    pub(crate) fn populate(&self, start: u64, end: u64) {
        if let (Keeper::Map { map }, Ok(start), Ok(len)) =
            (&self.keeper, usize::try_from(start), usize::try_from(end.saturating_sub(start)))
        {
            let _ = map.advise_range(Advice::PopulateWrite, start, len);
        }
    }

    /// The address of a byte. Meaningful only for `offset <= len`.
    #[inline]
    fn at(&self, offset: u64) -> *mut u8 {
        self.base.as_ptr().wrapping_add(usize::try_from(offset).unwrap_or(usize::MAX))
    }

    /// Bytes without writes while the reference lives.
    ///
    /// # Safety
    /// - `offset + len <= self.len()` without overflow, and the bytes lie within the object (I4).
    /// - No byte is written while the result lives: the bytes are published (I1) and no cells (I2), or the caller holds
    ///   the writer.
    #[inline]
    pub(crate) unsafe fn bytes(&self, offset: u64, len: u64) -> &[u8] {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        // SAFETY:
        // - non-null, one mapping, initialised: the caller keeps within the mapping and the object (I4);
        // - not written during the lifetime: the caller's contract;
        // - at most isize::MAX bytes: no mapping is larger;
        // - lifetime: the mapping is kept as long as `self` (I5).
        unsafe { core::slice::from_raw_parts(self.at(offset), len) }
    }

    /// The address of bytes that the writer may change.
    #[inline]
    pub(crate) fn bytes_mut(&self, offset: u64) -> *mut u8 {
        self.at(offset)
    }

    /// A 64-bit atomic in the segment.
    ///
    /// # Safety
    /// `offset + 8 <= self.len()`, the word lies within the object (I4), and `offset` is a multiple of 8. While the
    /// result lives, the word is written only atomically.
    #[inline]
    pub(crate) unsafe fn word64(&self, offset: u64) -> &AtomicU64 {
        // SAFETY:
        // - aligned: the base is (I5) and the offset is, by the caller's contract;
        // - valid for the lifetime: within the mapping and the object (I4), which live as long as `self` (I5);
        // - read-only mappings: readers only load, and a 64-bit load never writes on the 64-bit targets we build for;
        // - no mixed access: the caller's contract.
        unsafe { AtomicU64::from_ptr(self.at(offset).cast()) }
    }

    /// `count` 64-bit atomics in a row.
    ///
    /// # Safety
    /// As for [`Memory::word64`], for each of them.
    #[inline]
    pub(crate) unsafe fn words64(&self, offset: u64, count: u64) -> &[AtomicU64] {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        // SAFETY: as in `word64`, for each of them; they are one mapping, which has at most isize::MAX bytes.
        unsafe { core::slice::from_raw_parts(self.at(offset).cast(), count) }
    }

    /// A 32-bit atomic in the segment.
    ///
    /// # Safety
    /// As for [`Memory::word64`], with 4 in place of 8.
    #[inline]
    unsafe fn word32(&self, offset: u64) -> &AtomicU32 {
        // SAFETY: as in `word64`.
        unsafe { AtomicU32::from_ptr(self.at(offset).cast()) }
    }

    /// The atomics of the header.
    ///
    /// # Safety
    /// The first [`header::HEADER_BYTES`] of the mapping lie within the object (I4).
    #[inline]
    pub(crate) unsafe fn header(&self) -> HeaderWords<'_> {
        HeaderWords { memory: self }
    }
}

/// The atomics of a header that is known to exist. They are accessed only through this type (I2).
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeaderWords<'m> {
    memory: &'m Memory,
}

impl<'m> HeaderWords<'m> {
    /// Number of readable bytes.
    #[inline]
    pub(crate) fn published(self) -> &'m AtomicU64 {
        self.word64(header::PUBLISHED_AT)
    }

    /// Bumped after each publication; the futex word.
    #[inline]
    pub(crate) fn generation(self) -> &'m AtomicU32 {
        self.word32(header::GENERATION_AT)
    }

    /// Live or retired.
    #[inline]
    pub(crate) fn state(self) -> &'m AtomicU32 {
        self.word32(header::STATE_AT)
    }

    /// End of the last table of cells; no byte at or beyond it is a cell.
    #[inline]
    pub(crate) fn tables_end(self) -> &'m AtomicU64 {
        self.word64(header::TABLES_END_AT)
    }

    /// Number of tables listed.
    #[inline]
    pub(crate) fn table_count(self) -> &'m AtomicU32 {
        self.word32(header::TABLE_COUNT_AT)
    }

    /// One of the roots.
    #[inline]
    pub(crate) fn root(self, root: RootIndex) -> &'m AtomicU64 {
        self.word64(header::root_at(root))
    }

    /// Offset and cell count of a listed table; `None` beyond the last possible one.
    #[inline]
    pub(crate) fn extent(self, slot: usize) -> Option<(&'m AtomicU64, &'m AtomicU64)> {
        if slot >= header::TABLE_COUNT_MAX {
            return None;
        }
        let (offset, cell_count) = header::extent_at(u64::try_from(slot).ok()?);
        Some((self.word64(offset), self.word64(cell_count)))
    }

    #[inline]
    fn word64(self, at: u64) -> &'m AtomicU64 {
        // SAFETY: `at` is one of the header's offsets, all of which are multiples of 8 below `HEADER_BYTES` (asserted
        // in `header`), backed by the contract of `Memory::header`; nothing else accesses these words (I2).
        unsafe { self.memory.word64(at) }
    }

    #[inline]
    fn word32(self, at: u64) -> &'m AtomicU32 {
        // SAFETY: as in `word64`.
        unsafe { self.memory.word32(at) }
    }
}
