//! Whatever a peer sends, decoding it takes memory in proportion to what was sent, not to what was announced.
//!
//! This file has one test, because it counts the memory of its whole process.

#[path = "support/counting.rs"]
mod counting;

use modex::bfrops::{Codec, DecodeLimits, Generation};
use modex::proto::{Command, Dialect, Version, blob, reply, request};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use counting::peak_of;

/// Bytes of memory for each byte received. The worst known case is an array of values without a type: one byte each
/// on the wire, one value in the array and one in a box in memory, and an array that has just been enlarged.
const MULTIPLE: usize = 100;
/// Memory that does not depend on the message.
const FIXED: usize = 4096;

fn check(dialect: Dialect, bytes: &[u8]) {
    let limits = DecodeLimits::default();
    let bound = MULTIPLE * bytes.len() + FIXED;
    let (peak, ()) = peak_of(|| drop(request::decode(bytes, dialect, &limits)));
    assert!(peak <= bound, "request: {peak} > {bound} for {bytes:02x?}");
    let (peak, ()) = peak_of(|| drop(blob::decode_fence(bytes, &limits)));
    assert!(peak <= bound, "fence: {peak} > {bound} for {bytes:02x?}");
    for &command in Command::ALL {
        let (peak, ()) = peak_of(|| drop(reply::decode(bytes, command, dialect, &limits)));
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
