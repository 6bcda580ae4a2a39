//! The atomics of this crate.
//!
//! Normally these are `core`'s. Under `--cfg loom` the process-local ones are loom's, for model checking. Words *inside
//! a segment* are always `core`'s, because loom's atomics are separate objects and cannot be laid over shared memory.
//! `publication` is generic over [`Word64`] and [`Word32`], so that the same functions run over both kinds.

pub(crate) use core::sync::atomic::Ordering;

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::AtomicU64;
#[cfg(loom)]
pub(crate) use loom::sync::atomic::AtomicU64;

/// Atomics laid over the bytes of a segment.
pub(crate) mod memory {
    pub(crate) use core::sync::atomic::{AtomicU32, AtomicU64};
}

/// A 64-bit atomic of either implementation.
pub(crate) trait Word64 {
    /// Atomic load.
    fn load(&self, order: Ordering) -> u64;
    /// Atomic store.
    fn store(&self, value: u64, order: Ordering);
}

/// A 32-bit atomic of either implementation.
pub(crate) trait Word32 {
    /// Atomic load.
    fn load(&self, order: Ordering) -> u32;
    /// Atomic store.
    fn store(&self, value: u32, order: Ordering);
}

impl Word64 for core::sync::atomic::AtomicU64 {
    #[inline]
    fn load(&self, order: Ordering) -> u64 {
        self.load(order)
    }

    #[inline]
    fn store(&self, value: u64, order: Ordering) {
        self.store(value, order);
    }
}

impl Word32 for core::sync::atomic::AtomicU32 {
    #[inline]
    fn load(&self, order: Ordering) -> u32 {
        self.load(order)
    }

    #[inline]
    fn store(&self, value: u32, order: Ordering) {
        self.store(value, order);
    }
}

#[cfg(loom)]
impl Word64 for loom::sync::atomic::AtomicU64 {
    fn load(&self, order: Ordering) -> u64 {
        self.load(order)
    }

    fn store(&self, value: u64, order: Ordering) {
        self.store(value, order);
    }
}

#[cfg(loom)]
impl Word32 for loom::sync::atomic::AtomicU32 {
    fn load(&self, order: Ordering) -> u32 {
        self.load(order)
    }

    fn store(&self, value: u32, order: Ordering) {
        self.store(value, order);
    }
}
