//! A Get of a value in the segment allocates nothing.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(unsafe_code, reason = "only a global allocator sees every allocation; it forwards to the system's")]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use modex::keys::{self, TypedKey};
use modex::types::{Rank, Scope};
use support::{TestServer, role};

/// The system's allocator with a count of each thread's allocations.
struct Counting;

thread_local! {
    static ALLOCATION_COUNT: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is forwarded unchanged to the system's allocator, which meets the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATION_COUNT.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's obligations are those of this function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's obligations are those of this function.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations_of<R>(work: impl FnOnce() -> R) -> (R, u64) {
    let before = ALLOCATION_COUNT.get();
    let result = work();
    (result, ALLOCATION_COUNT.get() - before)
}

#[test]
fn client_process() {
    assert_eq!(role(), None, "no test here starts processes");
}

#[test]
fn a_value_in_the_segment_is_read_without_an_allocation() {
    const NUMBER: TypedKey<u64> = TypedKey::new("number");
    const TEXT: TypedKey<str> = TypedKey::new("text");
    let node = TestServer::local();
    node.register_local_job("job", 2);
    let (mine, peer) = (node.connect("job", 0), node.connect("job", 1));
    peer.put(Scope::Global, "number", 7_u64).unwrap();
    peer.put(Scope::Global, "text", "a text that is longer than any cell").unwrap();
    peer.commit().unwrap();
    // A process that has put a value must not lose the fast path to its peers' values.
    mine.put(Scope::Global, "number", 8_u64).unwrap();
    mine.commit().unwrap();

    assert_eq!(allocations_of(|| mine.get(Rank::Wildcard, keys::JOB_SIZE)), (Ok(2), 0));
    assert_eq!(allocations_of(|| mine.get(1, keys::LOCAL_RANK)), (Ok(1), 0));
    assert_eq!(allocations_of(|| mine.get(1, NUMBER)), (Ok(7), 0));
    let (text, count) = allocations_of(|| mine.get(1, TEXT).unwrap());
    assert!(matches!(text, std::borrow::Cow::Borrowed("a text that is longer than any cell")));
    assert_eq!(count, 0);
    // The counter works: a copied value does allocate.
    assert!(allocations_of(|| mine.get(1, TEXT).unwrap().into_owned()).1 > 0);
}
