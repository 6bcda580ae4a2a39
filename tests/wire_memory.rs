//! Decoding takes memory in proportion to the bytes received, not to the sizes announced in them. Large values are
//! copied once on each side.
//!
//! This file has one test, because it counts the memory of its whole process.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/counting.rs"]
mod counting;

use modex::bfrops::{Codec, DecodeLimits, Generation};
use modex::proto::{Command, Commit, Dialect, Request, Version, blob, reply, request};
use modex::types::{Key, Kval, Scope, Value};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use counting::peak_of;

/// Bytes of memory for each byte received. The worst known case is an array of values without a type that has just been
/// enlarged. Each value takes one byte on the wire, and in memory one element of the array and one box.
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

    large_values_are_copied_once();
}

/// A commit of large values was slow. A client copied them from buffer to buffer, and each buffer grew in steps. A
/// server copied the buffer before it read the values. The kernel must provide the memory of each copy.
fn large_values_are_copied_once() {
    let value = Value::ByteObject(vec![7; 64 << 10]);
    let entry = |number: u32| Kval { key: Key::new(format!("key.{number}")).unwrap(), value: value.clone() };
    let commit = Request::Commit(Commit { parts: vec![(Scope::Global, (0..4).map(entry).collect())] });
    let bound = (256 << 10) * 5 / 4;
    let (peak, bytes) = peak_of(|| request::encode(&commit, Dialect::OWN).unwrap());
    assert!(peak < bound, "{peak} bytes to write a commit");
    let (peak, read) = peak_of(|| request::decode(&bytes, Dialect::OWN, &DecodeLimits::default()).unwrap());
    assert!(peak < bound, "{peak} bytes to read a commit");
    assert_eq!(read, commit);
}
