//! Whatever a peer sends, decoding it takes memory in proportion to what was sent, not to what was announced.
//!
//! This file has one test, because it counts the memory of its whole process.
#![expect(unsafe_code, reason = "only a global allocator sees every allocation; it forwards to the system's")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use modex::bfrops::{Codec, DecodeLimits, Generation};
use modex::proto::{Command, Dialect, Version, blob, reply, request};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

/// The system's allocator with a record of the most memory in use. One thread counts, so no ordering is needed.
struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is forwarded unchanged to the system's allocator, which meets the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let in_use = IN_USE.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(in_use, Relaxed);
        // SAFETY: the caller's obligations are those of this function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's obligations are those of this function.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most memory that was in use at once during `work`, beyond what was in use before.
fn peak_of(work: impl FnOnce()) -> usize {
    let before = IN_USE.load(Relaxed);
    PEAK.store(before, Relaxed);
    work();
    PEAK.load(Relaxed) - before
}

/// Bytes of memory for each byte received. The worst known case is an array of values without a type: one byte each
/// on the wire, one value in the array and one in a box in memory, and an array that has just been enlarged.
const MULTIPLE: usize = 100;
/// Memory that does not depend on the message.
const FIXED: usize = 4096;

fn check(dialect: Dialect, bytes: &[u8]) {
    let limits = DecodeLimits::default();
    let bound = MULTIPLE * bytes.len() + FIXED;
    let peak = peak_of(|| drop(request::decode(bytes, dialect, &limits)));
    assert!(peak <= bound, "request: {peak} > {bound} for {bytes:02x?}");
    let peak = peak_of(|| drop(blob::decode_fence(bytes, &limits)));
    assert!(peak <= bound, "fence: {peak} > {bound} for {bytes:02x?}");
    for &command in Command::ALL {
        let peak = peak_of(|| drop(reply::decode(bytes, command, dialect, &limits)));
        assert!(peak <= bound, "{command:?}: {peak} > {bound} for {bytes:02x?}");
    }
}

#[test]
fn decoding_takes_a_small_multiple_of_the_bytes_received() {
    let generations = prop::sample::select(Generation::ALL.to_vec());
    let dialect = (generations, any::<bool>())
        .prop_map(|(generation, described)| Dialect { codec: Codec { generation, described }, peer: Version::OWN });
    let bytes = prop::collection::vec(any::<u8>(), 0..400);
    TestRunner::default()
        .run(&(dialect, bytes), |(dialect, bytes)| {
            check(dialect, &bytes);
            Ok(())
        })
        .unwrap();

    // A commit with one entry that announces 2^56 elements of each type and brings as many bytes as fit.
    let filler = vec![0; 100_000];
    for element_type in 0..80 {
        for count in [&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f][..], &[0xa0, 0x8d, 0x06]] {
            let entry = [&[2, 4, b'k', 0, 39, element_type], count, &filler].concat();
            let size = u32::try_from(entry.len()).unwrap();
            let groups = [size & 0x7f | 0x80, size >> 7 & 0x7f | 0x80, size >> 14].map(|group| group.to_le_bytes()[0]);
            let commit = [&[2, 2, 2, 1, 2, 1][..], &groups, &entry].concat();
            check(Dialect::OWN, &commit);
        }
    }
}
