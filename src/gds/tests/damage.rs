//! Readers of damaged segments.

use proptest::prelude::*;

use super::*;
use crate::gds::job_record::EndpointLists;
use crate::gds::{Datastore, NodeSelector, Origin};
use crate::shmem::ReaderHandle;
use crate::types::{Info, ProcId};

/// The bytes of a segment that holds a job.
pub(super) fn bytes_of(record: &JobRecord) -> Vec<u8> {
    bytes_after(record, |_| {})
}

/// A reader of a segment of these bytes.
pub(super) fn reader_of(bytes: &[u8]) -> NamespaceReader {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    NamespaceReader::attach(ReaderHandle::open_path(file.path()).unwrap()).unwrap()
}

fn bytes_after(record: &JobRecord, more: impl FnOnce(&mut Store)) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let options = StoreOptions { directory: Some(directory.path().to_owned()), ..options(BackingKind::File) };
    let mut store = Store::new(options);
    store.register_record(&namespace(), record).unwrap();
    more(&mut store);
    let published = store.statistics(&namespace()).unwrap().published_bytes;
    let file = std::fs::read_dir(directory.path()).unwrap().next().unwrap().unwrap();
    let mut bytes = std::fs::read(file.path()).unwrap();
    bytes.truncate(usize::try_from(published).unwrap());
    bytes
}

/// The bytes of a segment that holds some of everything.
fn sample() -> Vec<u8> {
    let mut record = block_job(3, 4);
    let irregular = [5_u64, 1, 9, 2, 2, 7, 0, 3, 8, 8, 1, 6];
    let nested = Value::info_array(vec![Info::new(key("n"), Value::Proc(Box::new(ProcId::new(namespace(), 1))))]);
    let endpoints =
        EndpointLists { lists: vec![nested.clone(), "no list".into()], numbers: irregular.map(|i| i % 3).into() };
    record.proc_columns.extend([
        column("endpoints", ColumnValues::Endpoints(endpoints)),
        column("narrow", ColumnValues::Numbers { data_type: crate::types::DataType::Uint16, values: irregular.into() }),
        column("cells", ColumnValues::Values(irregular.iter().map(|&i| (i > 1).then(|| i.into())).collect())),
        column("sparse", ColumnValues::Sparse(vec![(2, nested.clone()), (11, "the last one".into())])),
    ]);
    record.node_columns[1] = column(
        "pmix.nodeid",
        ColumnValues::Numbers { data_type: crate::types::DataType::Uint32, values: vec![2, 0, 1] },
    );
    record.node_columns[2] =
        column("pmix.lpeers", ColumnValues::RankLists(crate::regex::DealtRanks::new(4, 3, 12).unwrap()));
    bytes_after(&record, |store| {
        for round in 0..5_u32 {
            let values =
                [posted(Scope::Global, "a", round), posted(Scope::Local, &format!("k{round}"), nested.clone())];
            store.commit(&namespace(), round, Origin::Local, &values).unwrap();
            store.commit(&namespace(), 0, Origin::Local, &values).unwrap();
        }
    })
}

/// Reads everything in every way. The test is that it returns.
fn read_everything(reader: &NamespaceReader) {
    let names =
        ["a", "k0", "k4", "narrow", "cells", "sparse", "pmix.hname", "pmix.lpeers", "pmix.app.size", "pmix.jobid"];
    let ranks = (0..13).map(Rank::Process).chain([Rank::Wildcard, Rank::Undefined]);
    for rank in ranks {
        for name in names {
            for realm in [
                RealmRequest::Default,
                RealmRequest::Job,
                RealmRequest::Session(None),
                RealmRequest::App(None),
                RealmRequest::Node(NodeSelector::Name("node00001")),
                RealmRequest::Node(NodeSelector::Id(1)),
            ] {
                drop(read(reader, rank, name, realm, None));
            }
        }
    }
    drop((reader.statistics(), reader.keys(), reader.blocks(0)));
    drop((reader.posted(0, Some(Audience::OtherNodes)), reader.posted(0, None)));
    // Walks take time in proportion to the counts, which may be millions.
    let sizes = reader.job_tables().ok().flatten().map(|tables| tables.rank_count.max(tables.node_count));
    if sizes.is_none_or(|size| size <= 4096) {
        drop((reader.job_record(), reader.job_entries()));
    }
}

#[test]
fn the_sample_is_whole_before_it_is_damaged() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), sample()).unwrap();
    let reader = NamespaceReader::attach(ReaderHandle::open_path(file.path()).unwrap()).unwrap();
    assert_eq!(get(&reader, 0, "a"), Ok(Value::Uint32(4)));
    assert_eq!(get(&reader, 11, "sparse"), Ok("the last one".into()));
    assert_eq!(reader.job_entries().unwrap().len(), 2 + 1 + 3 + 1 + 12);
    assert_eq!(reader.posted(0, Some(Audience::SameNode)).unwrap().len(), 6);
}

#[test]
fn an_archive_cannot_make_a_value_that_no_constructor_makes() {
    use crate::gds::layout::cell::access;
    // A C reader would cut a string with a NUL inside, and a number beyond the last rank would be the wildcard.
    let changed = |value: &Value, from: &[u8], to: &[u8]| {
        let mut bytes = rkyv::to_bytes::<rkyv::rancor::Error>(value).unwrap();
        let at = bytes.windows(from.len()).position(|window| window == from).unwrap();
        bytes[at..at + to.len()].copy_from_slice(to);
        access(&bytes).unwrap().to_value()
    };
    let text = Value::info_array(vec![Info::new(key("n"), "a string that is not inline")]);
    assert_eq!(changed(&text, b"not inline", b"not inline"), Some(text.clone()));
    assert_eq!(changed(&text, b"not inline", b"not\0inline"), None);
    let process = Value::Proc(Box::new(ProcId::new(namespace(), 0x00AB_CDEF)));
    let number = 0x00AB_CDEF_u32.to_le_bytes();
    assert_eq!(changed(&process, &number, &number), Some(process.clone()));
    assert_eq!(changed(&process, &number, &0xFFFF_FFFE_u32.to_le_bytes()), None);
}

proptest! {
    #![proptest_config(crate::cases::cases(400))]
    #[test]
    fn a_damaged_segment_is_an_error_or_a_wrong_value_but_never_a_crash_or_a_loop(
        flips in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![any::<u8>(), Just(0xFF), Just(0x01)]), 1..24),
        beyond_header in any::<bool>(),
    ) {
        thread_local!(static SAMPLE: Vec<u8> = sample());
        let mut bytes = SAMPLE.with(Clone::clone);
        let start = if beyond_header { usize::try_from(crate::shmem::HEADER_BYTES).unwrap() } else { 0 };
        let length = bytes.len() - start;
        for (index, mask) in flips {
            bytes[start + index.index(length)] ^= mask;
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &bytes).unwrap();
        if let Ok(reader) = NamespaceReader::attach(ReaderHandle::open_path(file.path()).unwrap()) {
            read_everything(&reader);
        }
    }
}
