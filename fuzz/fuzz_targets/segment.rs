//! Damaged segments: every read returns, with an error or with any value.
//!
//! Input: records of six bytes, each one change of a good segment: kind, position (three bytes, big-endian), and two
//! bytes of content.

#![no_main]

use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use modex::gds::{Audience, KeyRef, Lookup, NamespaceReader, NodeSelector, RealmRequest, ValueRef};
use modex::shmem::{ReaderHandle, ReaderOptions};
use modex::types::Rank;
use modex_fuzz::sample;

static GOOD: LazyLock<Vec<u8>> = LazyLock::new(sample::segment);

fuzz_target!(|input: &[u8]| {
    let mut bytes = GOOD.clone();
    for change in input.as_chunks::<6>().0.iter().take(64) {
        apply(*change, &mut bytes);
    }
    let mut file = tempfile::tempfile_in("/dev/shm").expect("room in /dev/shm");
    file.write_all(&bytes).expect("room in /dev/shm");
    let handle = ReaderHandle::from_descriptor(OwnedFd::from(file));
    let options = ReaderOptions { reservation_bytes_max: 64 << 20 };
    if let Ok(reader) = NamespaceReader::attach_with(handle, &options) {
        read_everything(&reader);
    }
});

fn apply([kind, p2, p1, p0, high, low]: [u8; 6], bytes: &mut Vec<u8>) {
    let raw = usize::try_from(u32::from_be_bytes([0, p2, p1, p0])).unwrap_or_default();
    let number = u16::from_be_bytes([high, low]);
    let position = raw % bytes.len().max(1);
    let word = position & !7;
    let put = |bytes: &mut Vec<u8>, at: usize, content: &[u8]| {
        if let Some(place) = bytes.get_mut(at..at + content.len()) {
            place.copy_from_slice(content);
        }
    };
    match kind % 8 {
        0 => put(bytes, position, &[low]),
        1 => put(bytes, word, &u64::from(number).to_ne_bytes()),
        2 => put(bytes, position & !3, &u32::from(number).to_ne_bytes()),
        // Numbers near the ends of their types.
        3 => put(bytes, word, &u64::MAX.wrapping_sub(number.into()).to_ne_bytes()),
        4 => put(bytes, position & !3, &u32::MAX.wrapping_sub(number.into()).to_ne_bytes()),
        // A reference to another part of the segment.
        5 => put(bytes, word, &(u64::from(number) * 8).to_ne_bytes()),
        6 => {
            let from = usize::from(number) * 8 % bytes.len().max(1);
            let copied: Vec<u8> = bytes.iter().skip(from).take(32).copied().collect();
            put(bytes, word, &copied);
        }
        _ => bytes.truncate(raw.max(1)),
    }
}

/// Keys of every realm, and posted keys.
const KEYS: [&str; 12] = [
    "a",
    "nested",
    "bytes",
    "pmix.job.size",
    "pmix.univ.size",
    "pmix.hname",
    "pmix.lpeers",
    "pmix.nodeid",
    "pmix.lrank",
    "pmix.appnum",
    "pmix.app.size",
    "pmix.jobid",
];

fn read_everything(reader: &NamespaceReader) {
    for rank in (0..6).map(Rank::Process).chain([Rank::Wildcard, Rank::Undefined]) {
        for name in KEYS {
            for realm in [
                RealmRequest::Default,
                RealmRequest::Session(None),
                RealmRequest::App(Some(1)),
                RealmRequest::Node(NodeSelector::Name("n1")),
                RealmRequest::Node(NodeSelector::Id(1)),
            ] {
                if let Ok(value) = reader.get(&Lookup { rank, key: KeyRef::new(name), realm, audience: None }) {
                    look_at(&value);
                }
            }
        }
    }
    walk(reader);
    for rank in 0..6 {
        for audience in [None, Some(Audience::SameNode), Some(Audience::OtherNodes)] {
            reader.posted(rank, audience).into_iter().flatten().for_each(|(_, value)| look_at(&value));
        }
        for block in reader.blocks(rank).into_iter().flatten() {
            block.entries.iter().for_each(|entry| look_at(&entry.value));
        }
    }
    drop((reader.keys(), reader.statistics()));
    // Listing takes time and memory in proportion to the counts of a damaged record, up to the format's bounds of 2^24.
    // This is correct, but far too slow for a fuzzer.
    let sizes = reader.job_tables().ok().flatten().map(|tables| tables.rank_count.max(tables.node_count));
    if sizes.is_none_or(|size| size <= LISTED_MAX) {
        drop((reader.job_entries(), reader.job_record()));
    }
}

const LISTED_MAX: u32 = 1 << 12;

fn walk(reader: &NamespaceReader) {
    let Ok(Some(tables)) = reader.job_tables() else { return };
    let parts = || tables.apps.iter().chain(&tables.other_sessions);
    let named = tables.session.iter().chain(&tables.job).chain(parts().flat_map(|part| &part.values));
    named.for_each(|(_, value)| look_at(value));
    let of_parts = parts().flat_map(|part| &part.node_columns);
    for column in tables.node_columns.iter().chain(&tables.proc_columns).chain(&tables.session_nodes).chain(of_parts) {
        for index in 0..column.count().min(4096) {
            column.value(index).into_iter().flatten().for_each(|value| look_at(&value));
            reader.proc_value(column, index).into_iter().flatten().for_each(|value| look_at(&value));
        }
    }
}

fn look_at(value: &ValueRef<'_>) {
    drop((value.as_bytes(), value.as_c_str(), value.as_u64(), value.to_value()));
}
