//! The memory that a test binary has allocated, now and at its peak.
#![expect(unsafe_code, reason = "only a global allocator sees every allocation; it forwards to the system's")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The system's allocator with a count of used bytes. Only sums are used, and they are read while no thread works, so
/// no ordering is needed.
struct Counting;

static USED_BYTES: AtomicUsize = AtomicUsize::new(0);
static PEAK_BYTES: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is forwarded unchanged to the system's allocator, which meets the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let used_bytes = USED_BYTES.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK_BYTES.fetch_max(used_bytes, Relaxed);
        // SAFETY: the caller's obligations are those of this function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        USED_BYTES.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's obligations are those of this function.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes that are allocated and not freed.
pub(crate) fn used_bytes() -> usize {
    USED_BYTES.load(Relaxed)
}

/// The peak of allocated bytes during `work`, without those allocated before.
pub(crate) fn peak_of<R>(work: impl FnOnce() -> R) -> (usize, R) {
    let before = used_bytes();
    PEAK_BYTES.store(before, Relaxed);
    let result = work();
    (PEAK_BYTES.load(Relaxed).saturating_sub(before), result)
}
