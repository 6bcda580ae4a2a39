//! Messages in every encoding. A decoded message is encoded to bytes that decode to the same. Decoding takes memory in
//! proportion to the message.
//!
//! Input: kind of message, encoding, release of the peer, command, then the bytes.

#![no_main]

use std::fmt::Debug;

use libfuzzer_sys::fuzz_target;
use modex::bfrops::{Codec, DecodeLimits, EncodeError, Encoding, Reader, Writer, inflate, wire};
use modex::proto::blob::{self, Contributor, FenceBlock};
use modex::proto::{Command, Dialect, Request, notification, reply, request};
use modex_fuzz::dialect;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<std::alloc::System> = &INSTRUMENTED_SYSTEM;

fuzz_target!(|input: &[u8]| {
    let [shape, codec, peer, command, bytes @ ..] = input else { return };
    let dialect = dialect(*codec, *peer);
    let command = Command::ALL[usize::from(*command) % Command::ALL.len()];
    match shape % 12 {
        0 => one::<wire::Value>(bytes, dialect.codec),
        1 => one::<wire::Info>(bytes, dialect.codec),
        2 => one::<wire::Kval>(bytes, dialect.codec),
        3 => one::<wire::Query>(bytes, dialect.codec),
        4 => requests(bytes, dialect),
        5 => replies(bytes, command, dialect),
        6 => events(bytes, dialect),
        7 => outputs(bytes, dialect),
        8 => segments(bytes),
        9 => fences(bytes, dialect.codec),
        10 => direct_modex(bytes, dialect.codec),
        _ => inflating(bytes),
    }
});

/// Bounds for the fuzzer's bytes. Bytes written from their values are read with the default bounds.
const LIMITS: DecodeLimits =
    DecodeLimits { message_bytes_max: 1 << 20, string_bytes_max: 1 << 16, element_count_max: 1 << 16, nesting_max: 32 };

/// Memory for one byte of a message: the largest elements of one or two bytes, in growing lists.
const BYTES_PER_BYTE: usize = 1024;

fn frugally<T>(bytes: &[u8], read: impl FnOnce() -> T) -> T {
    let region = Region::new(ALLOCATOR);
    let outcome = read();
    let taken = region.change().bytes_allocated;
    let limit = bytes.len() * BYTES_PER_BYTE + 4096;
    assert!(taken <= limit, "reading {} bytes took {taken} bytes of memory", bytes.len());
    outcome
}

/// Compares a value with the result of writing and reading it. The first writing may settle values with several forms,
/// such as numbers with leading zeros or many fractional digits. From then on the bytes must stay the same.
fn survives<T: Debug, E: Debug>(value: &T, write: impl Fn(&T) -> Result<Vec<u8>, E>, read: impl Fn(&[u8]) -> T) {
    let written = write(value).unwrap_or_else(|error| panic!("{value:?} was read but cannot be written: {error:?}"));
    // Topologies have no end of their own: the data after one in an array may be read as its part, and then be missing.
    // Their documentation names the uncertain cases.
    if format!("{value:?}").contains("Topology") {
        return;
    }
    let again = read(&written);
    let rewritten = write(&again).expect("what was written once can be written again");
    assert!(rewritten == written, "{value:?} became {again:?}");
}

fn one<E: Encoding<Value: Debug>>(bytes: &[u8], codec: Codec) {
    let unpack = |bytes: &[u8], limits: &DecodeLimits| Reader::new(bytes, codec, limits)?.unpack::<E>("value");
    let Ok(value) = frugally(bytes, || unpack(bytes, &LIMITS)) else { return };
    let pack = |value: &E::Value| {
        let mut writer = Writer::new(codec);
        writer.pack::<E>(value).map(|()| writer.into_bytes())
    };
    survives(&value, pack, |bytes| unpack(bytes, &DecodeLimits::default()).expect("what was written can be read"));
}

fn requests(bytes: &[u8], dialect: Dialect) {
    let Ok(read) = frugally(bytes, || request::decode(bytes, dialect, &LIMITS)) else { return };
    let decode = |bytes: &[u8]| request::decode(bytes, dialect, &DecodeLimits::default()).expect("readable");
    survives(&read, |request: &Request| request::encode(request, dialect), decode);
}

fn replies(bytes: &[u8], command: Command, dialect: Dialect) {
    let Ok(read) = frugally(bytes, || reply::decode(bytes, command, dialect, &LIMITS)) else { return };
    let decode = |bytes: &[u8]| reply::decode(bytes, command, dialect, &DecodeLimits::default()).expect("readable");
    survives(&read, |reply| reply::encode(reply, command, dialect), decode);
}

fn events(bytes: &[u8], dialect: Dialect) {
    let Ok(read) = frugally(bytes, || notification::decode_event(bytes, dialect, &LIMITS)) else { return };
    let decode = |bytes: &[u8]| notification::decode_event(bytes, dialect, &DecodeLimits::default()).expect("readable");
    survives(&read, |event| notification::encode_event(event, dialect), decode);
}

fn outputs(bytes: &[u8], dialect: Dialect) {
    let Ok(read) = frugally(bytes, || notification::decode_output(bytes, dialect, &LIMITS)) else { return };
    let decode =
        |bytes: &[u8]| notification::decode_output(bytes, dialect, &DecodeLimits::default()).expect("readable");
    survives(&read, |output| notification::encode_output(output, dialect), decode);
}

fn segments(bytes: &[u8]) {
    let Ok(read) = frugally(bytes, || notification::decode_segment(bytes, &LIMITS)) else { return };
    let decode = |bytes: &[u8]| notification::decode_segment(bytes, &DecodeLimits::default()).expect("readable");
    survives(&read, notification::encode_segment, decode);
}

/// Contributors by position are written in the older form, contributors by name in the form of release 6. One result
/// may hold parts of both kinds. Compressed parts take the memory of their inflated form.
fn fences(bytes: &[u8], codec: Codec) {
    let Ok(read) = blob::decode_fence(bytes, &LIMITS) else { return };
    let again = |bytes: &[u8]| blob::decode_fence(bytes, &DecodeLimits::default()).expect("readable");
    let by_position = |block: FenceBlock| match block.contributor {
        Contributor::Relative(rank) => Some((rank, block.entries)),
        Contributor::Process(_) => None,
    };
    let by_name = |block: FenceBlock| match block.contributor {
        Contributor::Relative(_) => None,
        Contributor::Process(proc) => Some((proc, block.entries)),
    };
    let older: Vec<_> = read.iter().cloned().filter_map(by_position).collect();
    if is_writable(&blob::encode_fence(&older, codec)) {
        let again = |bytes: &[u8]| again(bytes).into_iter().map(|block| by_position(block).expect("older")).collect();
        survives(&older, |blocks| blob::encode_fence(blocks, codec), again);
    }
    let newer: Vec<_> = read.into_iter().filter_map(by_name).collect();
    if is_writable(&blob::encode_fence_of_release_6(&newer, codec)) {
        let again = |bytes: &[u8]| again(bytes).into_iter().map(|block| by_name(block).expect("newer")).collect();
        survives(&newer, |blocks| blob::encode_fence_of_release_6(blocks, codec), again);
    }
}

/// One encoding may lack a type of another one.
fn is_writable(written: &Result<Vec<u8>, EncodeError>) -> bool {
    match written {
        Ok(_) => true,
        Err(EncodeError::UnregisteredType { .. }) => false,
        Err(error) => panic!("what was read can't be written: {error}"),
    }
}

fn direct_modex(bytes: &[u8], codec: Codec) {
    let Ok(read) = frugally(bytes, || blob::decode_direct_modex(bytes, &LIMITS)) else { return };
    if !is_writable(&blob::encode_direct_modex(&read, codec)) {
        return;
    }
    let decode = |bytes: &[u8]| blob::decode_direct_modex(bytes, &DecodeLimits::default()).expect("readable");
    survives(&read, |entries| blob::encode_direct_modex(entries, codec), decode);
}

fn inflating(bytes: &[u8]) {
    const INFLATED_BYTES_MAX: usize = 1 << 16;
    if let Ok(inflated) = inflate(bytes, INFLATED_BYTES_MAX) {
        assert!(inflated.len() <= INFLATED_BYTES_MAX);
    }
}
