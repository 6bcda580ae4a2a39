//! The publication protocol: every memory ordering of a segment is decided here.
//!
//! The writer works in this order:
//! 1. fills bytes above `published` with plain writes;
//! 2. [`publish`]es the new end of the readable bytes;
//! 3. [`link`]s an offset below that end into a root or a table cell;
//! 4. [`announce`]s a new generation.
//!
//! A reader [`follow`]s a root or a cell and then asks its [`Watermark`] whether the offset it found is readable.
//! The functions are generic over the atomics so that `loom_model` checks this code and not a copy of it.

use super::sync::{AtomicU64, Ordering, Word32, Word64};

/// Declares every byte below `end` readable.
#[inline]
pub(crate) fn publish<W: Word64>(published: &W, end: u64) {
    // Pairs with the Acquire in `observe`: the plain writes below `end` happen before any read that saw this value.
    published.store(end, Ordering::Release);
}

/// Number of readable bytes.
#[inline]
pub(crate) fn observe<W: Word64>(published: &W) -> u64 {
    // Pairs with the Release in `publish`.
    published.load(Ordering::Acquire)
}

/// Makes `value` (usually an offset below `published`) reachable through a root or a table cell.
#[inline]
pub(crate) fn link<W: Word64>(cell: &W, value: u64) {
    // Pairs with the Acquire in `follow`: a reader of the offset also sees the `published` that covers it.
    cell.store(value, Ordering::Release);
}

/// Reads a root or a table cell.
#[inline]
pub(crate) fn follow<W: Word64>(cell: &W) -> u64 {
    // Pairs with the Release in `link`.
    cell.load(Ordering::Acquire)
}

/// Declares that publication number `value` is complete.
#[inline]
pub(crate) fn announce<W: Word32>(generation: &W, value: u32) {
    // Pairs with the Acquire in `generation`: a reader of the new generation sees all earlier links.
    generation.store(value, Ordering::Release);
}

/// The current generation.
#[inline]
pub(crate) fn generation<W: Word32>(generation: &W) -> u32 {
    // Pairs with the Release in `announce`.
    generation.load(Ordering::Acquire)
}

/// Stores the life state of a segment.
#[inline]
pub(crate) fn set_state<W: Word32>(state: &W, value: u32) {
    // Pairs with the Acquire in `state`: a reader that sees "retired" sees everything published before.
    state.store(value, Ordering::Release);
}

/// Reads the life state of a segment.
#[inline]
pub(crate) fn state<W: Word32>(state: &W) -> u32 {
    // Pairs with the Release in `set_state`.
    state.load(Ordering::Acquire)
}

/// The bytes that one reader process knows to be readable: published *and* within the size of the object.
///
/// Another process writes `published`, so it is believed only up to the size that the kernel reports. The kernel is
/// asked only when `published` exceeds the last size seen. Thus nearly every check is one load of process-local memory.
#[derive(Debug)]
pub(crate) struct Watermark {
    /// Bytes below this are published and within the object. Never decreases.
    readable: AtomicU64,
    /// Last known size of the object. Never decreases, because the object cannot shrink.
    object_bytes: AtomicU64,
}

impl Watermark {
    /// A watermark without readable bytes.
    pub(crate) fn new() -> Self {
        Self { readable: AtomicU64::new(0), object_bytes: AtomicU64::new(0) }
    }

    /// Whether every byte below `end` is known to be readable.
    #[inline]
    pub(crate) fn covers(&self, end: u64) -> bool {
        // Pairs with the Release in `refresh`: the Acquire of `published` by another thread of this process extends to
        // this thread.
        end <= self.readable.load(Ordering::Acquire)
    }

    /// Bytes known to be readable: every byte below this.
    pub(crate) fn readable(&self) -> u64 {
        // As in `covers`.
        self.readable.load(Ordering::Acquire)
    }

    /// Reads `published` again; calls `object_bytes` for the size of the object if needed.
    ///
    /// Returns the number of readable bytes. `Err` holds (`published`, size of the object) if the segment claims more
    /// than the object has; earlier readable bytes stay readable.
    pub(crate) fn refresh<W: Word64, E>(
        &self,
        published: &W,
        object_bytes: impl FnOnce() -> Result<u64, E>,
    ) -> Result<Result<u64, Overclaim>, E> {
        let published = observe(published);
        // Relaxed: a stale size is smaller and only costs another system call.
        let mut size = self.object_bytes.load(Ordering::Relaxed);
        if published > size {
            size = object_bytes()?;
            // Relaxed: the number carries no other data with it.
            self.object_bytes.fetch_max(size, Ordering::Relaxed);
        }
        if published > size {
            return Ok(Err(Overclaim { published, object_bytes: size }));
        }
        // Release pairs with the Acquire in `covers`. Acquire includes the views of earlier refreshes, so that the
        // larger of two values is valid with all its bytes.
        let before = self.readable.fetch_max(published, Ordering::AcqRel);
        Ok(Ok(published.max(before)))
    }
}

/// A segment that declares more bytes than its object has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overclaim {
    /// Size according to the header.
    pub(crate) published: u64,
    /// Size according to the kernel.
    pub(crate) object_bytes: u64,
}
