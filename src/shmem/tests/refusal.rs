//! Invalid segments.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use super::*;
use crate::shmem::header::{GENERATION_AT, PUBLISHED_AT, STATE_AT, TABLE_COUNT_AT, TABLES_END_AT, root_at};

/// The bytes of a good segment with some data and a table, and the offset of the data.
fn good() -> (Vec<u8>, Offset) {
    let (mut writer, _directory) = writer(BackingKind::File);
    let offset = writer.append(&[7; 100], Align::Eight).unwrap();
    let table = writer.alloc_table(4).unwrap();
    writer.publish();
    writer.set_root(RootIndex::of::<0>(), offset).unwrap();
    writer.set_root(RootIndex::of::<1>(), table.offset()).unwrap();
    let Location::Path(path) = writer.location() else { panic!("a file has a path") };
    (fs::read(path).unwrap(), offset)
}

/// A handle to a file with `bytes`, and the file for later changes.
fn handle_to(bytes: &[u8]) -> (ReaderHandle, File) {
    let file = tempfile::tempfile().unwrap();
    file.write_all_at(bytes, 0).unwrap();
    (ReaderHandle::from_descriptor(OwnedFd::from(file.try_clone().unwrap())), file)
}

/// The result of attaching to a good segment with the bytes at `position` replaced by `with`.
fn patched(position: u64, with: &[u8]) -> Result<SegmentReader, SegmentError> {
    let (mut bytes, _) = good();
    let start = usize::try_from(position).unwrap();
    bytes[start..start + with.len()].copy_from_slice(with);
    attach(handle_to(&bytes).0)
}

macro_rules! refused {
    ($position:expr, $with:expr, $error:pat) => {
        let outcome = patched($position, $with);
        assert!(matches!(outcome, Err($error)), "byte {}: {outcome:?}", $position);
    };
}

#[test]
fn an_unchanged_copy_is_accepted() {
    let (bytes, offset) = good();
    let reader = attach(handle_to(&bytes).0).unwrap();
    assert_eq!(reader.slice(offset, 100).unwrap(), [7; 100]);
}

#[test]
fn every_field_of_the_fixed_header_is_checked() {
    refused!(0, b"MODEXSEH", SegmentError::Magic { found: [b'M', .., b'H'] });
    refused!(8, &[0; 8], SegmentError::Layout { found: 0, .. });
    refused!(16, &[2, 0, 0, 0], SegmentError::Version { found: 2, ours: 1 });
    refused!(20, &[1, 2, 3, 4], SegmentError::ByteOrder { found: 0x0403_0201, ours: 0x0102_0304 });
    refused!(24, &[0, 32, 0, 0], SegmentError::Field { field: "header_bytes", value: 8192 });
    refused!(32, &[1], SegmentError::Features { unknown: 1 });
    refused!(40, &[0; 8], SegmentError::Field { field: "span_bytes", value: 0 });
    refused!(40, &[0xFF; 8], SegmentError::Field { field: "span_bytes", value: u64::MAX });
    refused!(64, &[65, 1, 0, 0], SegmentError::Field { field: "label_len", value: 321 });
    refused!(64, &[0xFF; 4], SegmentError::Field { field: "label_len", value: 0xFFFF_FFFF });
    refused!(68, &[65, 1, 0, 0], SegmentError::Field { field: "owner_len", value: 321 });
    refused!(128, &[0xFF], SegmentError::Field { field: "label_len", .. });
    refused!(448, &[0xFF], SegmentError::Field { field: "owner_len", .. });
}

#[test]
fn informative_fields_of_the_header_may_have_any_value() {
    assert_eq!(patched(28, &[0xFF; 4]).unwrap().info().creator_pid, u32::MAX);
    assert_eq!(patched(48, &[0xFF; 8]).unwrap().info().created_unix_s, u64::MAX);
    assert_eq!(patched(GENERATION_AT, &[0xFF; 4]).unwrap().generation(), u32::MAX);
    let state = patched(STATE_AT, &[9, 0, 0, 0]).unwrap().state();
    assert_eq!(state, Err(Corrupt::State { found: 9 }));
}

#[test]
fn the_layout_of_another_build_is_refused_but_can_be_inspected() {
    let (writer, _directory) = writer(BackingKind::Memfd);
    let handle = writer.handle().unwrap();
    assert_eq!(SegmentReader::peek(&handle).unwrap().layout_id, LayoutId::of(LAYOUT));
    let outcome = SegmentReader::attach(handle, LayoutId::of("tests=2"), &ReaderOptions::default());
    let (found, ours) = (LayoutId::of(LAYOUT).get(), LayoutId::of("tests=2").get());
    assert!(matches!(outcome, Err(SegmentError::Layout { found: f, ours: o }) if (f, o) == (found, ours)));
}

#[test]
fn a_span_larger_than_the_address_space_is_mapped_as_far_as_there_is_something() {
    let reader = patched(40, &(1_u64 << 62).to_le_bytes()).unwrap();
    let offset = reader.root(RootIndex::of::<0>()).unwrap();
    assert_eq!(reader.slice(offset, 100).unwrap(), [7; 100]);
}

#[test]
fn bytes_that_are_published_but_not_there_are_refused() {
    refused!(PUBLISHED_AT, &(1_u64 << 40).to_le_bytes(), SegmentError::Truncated { published: 0x100_0000_0000, .. });
    refused!(PUBLISHED_AT, &[0xFF; 8], SegmentError::Truncated { published: u64::MAX, .. });
    refused!(PUBLISHED_AT, &[0; 8], SegmentError::Field { field: "published", value: 0 });
}

#[test]
fn a_segment_that_overclaims_later_keeps_what_was_readable() {
    let (bytes, offset) = good();
    let (handle, file) = handle_to(&bytes);
    let reader = attach(handle).unwrap();
    let readable = reader.published_bytes().unwrap();
    file.write_all_at(&(1_u64 << 40).to_le_bytes(), PUBLISHED_AT).unwrap();
    let object_bytes = file.metadata().unwrap().len();
    let overclaim = Corrupt::Truncated { published: 1 << 40, object_bytes };
    assert_eq!(reader.slice(at(readable), 1), Err(overclaim));
    assert_eq!(reader.published_bytes(), Err(overclaim));
    assert_eq!(reader.slice(offset, 100).unwrap(), [7; 100]);
    file.write_all_at(&[0; 8], PUBLISHED_AT).unwrap();
    assert!(matches!(reader.slice(at(readable), 1), Err(Corrupt::Range { published: 0, .. })));
    assert_eq!(reader.slice(offset, 100).unwrap(), [7; 100], "what was readable stays so");
}

#[test]
fn a_garbled_list_of_tables_is_harmless() {
    let (bytes, offset) = good();
    let (handle, file) = handle_to(&bytes);
    let reader = attach(handle).unwrap();
    let table = reader.table(reader.root(RootIndex::of::<1>()).unwrap()).unwrap();
    file.write_all_at(&[0xFF; 8], TABLES_END_AT).unwrap();
    file.write_all_at(&[0xFF; 4], TABLE_COUNT_AT).unwrap();
    assert_eq!(reader.slice(offset, 100).unwrap(), [7; 100]);
    // The first extent: a table from the start of the data on, with more cells than an offset can count.
    file.write_all_at(&offset.get().to_le_bytes(), 2304).unwrap();
    file.write_all_at(&[0xFF; 8], 2312).unwrap();
    // There was no table at its first read, and none can come there; a new reader believes the list.
    assert_eq!(reader.slice(offset, 1).unwrap(), [7]);
    let reader = attach(ReaderHandle::from_descriptor(OwnedFd::from(file.try_clone().unwrap()))).unwrap();
    assert!(matches!(reader.slice(offset, 1), Err(Corrupt::Cells { .. })));
    assert_eq!(reader.table(offset), Err(Corrupt::NotATable { offset: offset.get() }));
    file.write_all_at(&(1_u64 << 20).to_le_bytes(), 2312).unwrap();
    assert!(matches!(reader.table(offset), Err(Corrupt::Range { .. })));
    assert_eq!(reader.cell(table, 3), Ok(0));
    file.write_all_at(&[0xFF; 8], root_at(RootIndex::of::<0>())).unwrap();
    let wild = reader.root(RootIndex::of::<0>()).unwrap();
    assert!(matches!(reader.slice(wild, 1), Err(Corrupt::Range { .. })));
}

#[test]
fn an_object_that_is_no_segment_is_refused() {
    let (bytes, _) = good();
    for len in [0, 1, 63, 64, 768, 4095] {
        let outcome = attach(handle_to(&bytes[..len]).0);
        assert!(matches!(outcome, Err(SegmentError::TooSmall { found, need: 4096 }) if found == len as u64));
    }
    assert!(matches!(attach(handle_to(&bytes[..4096]).0), Err(SegmentError::Truncated { object_bytes: 4096, .. })));
    assert!(matches!(attach(handle_to(&[0; 4096]).0), Err(SegmentError::Magic { .. })));
    let (pipe, _other_end) = nix::unistd::pipe().unwrap();
    assert!(matches!(attach(ReaderHandle::from_descriptor(pipe)), Err(SegmentError::NotAFile { .. })));
    let directory = File::open("/").unwrap();
    let outcome = attach(ReaderHandle::from_descriptor(directory.into()));
    assert!(matches!(outcome, Err(SegmentError::NotAFile { .. })));
    let write_only = File::options().write(true).open("/dev/null").unwrap();
    let outcome = attach(ReaderHandle::from_descriptor(write_only.into()));
    assert!(matches!(outcome, Err(SegmentError::NotAFile { .. })));
}

#[test]
fn the_layout_id_depends_on_the_layout_above() {
    assert_eq!(LayoutId::of("a"), LayoutId::of("a"));
    assert_ne!(LayoutId::of("a"), LayoutId::of("b"));
    assert_ne!(LayoutId::of(""), LayoutId::of("\n"));
}

/// A test vector: a change of the header must change this number, and the documents that describe the header.
#[test]
fn the_layout_of_the_header_is_the_documented_one() {
    assert_eq!(LayoutId::of("vector").get(), 0x1db7_ad50_713c_889f);
    let (mut writer, _directory) = writer(BackingKind::File);
    let root = writer.append(&[1], Align::SixtyFour).unwrap();
    let table = writer.alloc_table(9).unwrap();
    writer.publish();
    writer.set_root(RootIndex::of::<15>(), root).unwrap();
    writer.bump_generation(false);
    writer.retire();
    let Location::Path(path) = writer.location() else { panic!("a file has a path") };
    let bytes = fs::read(path).unwrap();
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    assert_eq!(&bytes[..8], b"MODEXSEG");
    assert_eq!(word(8), LayoutId::of(LAYOUT).get());
    assert_eq!(word(16), 0x0102_0304_0000_0001, "version and byte order");
    assert_eq!(word(24), u64::from(std::process::id()) << 32 | HEADER_BYTES);
    assert_eq!((word(32), word(40), word(48), word(56)), (0, 64 << 20, 1_700_000_000, 0));
    assert_eq!(word(64), 8 << 32 | 10, "lengths of label and owner");
    assert_eq!((&bytes[128..139], &bytes[448..457]), (b"job-7@host\0".as_slice(), b"daemon.0\0".as_slice()));
    assert_eq!((word(1024), word(1088), word(1152)), (writer.published_bytes(), 2, 1));
    assert_eq!((word(1216), word(1224)), (writer.allocated_bytes(), 1), "end and number of tables");
    assert_eq!((word(1280), word(1280 + 15 * 64)), (0, 4096), "roots");
    assert_eq!((word(2304), word(2312)), (table.offset().get(), 9), "extents");
    assert!(bytes[3328..4096].iter().all(|&byte| byte == 0));
}

#[test]
fn the_preamble_of_any_version_and_byte_order_is_told() {
    let (bytes, _) = good();
    let expected = SegmentReader::preamble(&handle_to(&bytes).0).unwrap();
    assert_eq!((expected.layout_version, expected.created_unix_s), (1, 1_700_000_000));
    assert_eq!(expected.creator_pid, std::process::id());

    let mut newer = bytes.clone();
    newer[16] = 9;
    let found = SegmentReader::preamble(&handle_to(&newer).0).unwrap();
    assert_eq!(found, Preamble { layout_version: 9, ..expected });

    let mut swapped = bytes;
    for word in [8..16, 16..20, 20..24, 24..28, 28..32, 32..40, 40..48, 48..56] {
        swapped[word].reverse();
    }
    let found = SegmentReader::preamble(&handle_to(&swapped).0).unwrap();
    assert_eq!(found, Preamble { is_byte_order_ours: false, ..expected });
}

#[test]
fn an_object_that_is_no_segment_has_no_preamble() {
    let (mut bytes, _) = good();
    let small = SegmentReader::preamble(&handle_to(&bytes[..4095]).0);
    assert!(matches!(small, Err(SegmentError::TooSmall { found: 4095, .. })), "{small:?}");
    bytes[20] = 0;
    let disordered = SegmentReader::preamble(&handle_to(&bytes).0);
    assert!(matches!(disordered, Err(SegmentError::ByteOrder { .. })), "{disordered:?}");
    bytes[0] = 0;
    let other = SegmentReader::preamble(&handle_to(&bytes).0);
    assert!(matches!(other, Err(SegmentError::Magic { .. })), "{other:?}");
}
