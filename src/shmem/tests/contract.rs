//! The contract of all backings.

use std::time::Duration;

use super::*;

macro_rules! contract {
    ($($behaviour:ident),* $(,)?) => {
        mod memfd { $(#[test] fn $behaviour() { super::$behaviour(super::BackingKind::Memfd); })* }
        mod file { $(#[test] fn $behaviour() { super::$behaviour(super::BackingKind::File); })* }
        mod heap { $(#[test] fn $behaviour() { super::$behaviour(super::BackingKind::Heap); })* }
        #[cfg(feature = "posix-shm")]
        mod posix { $(#[test] fn $behaviour() { super::$behaviour(super::BackingKind::Posix); })* }
    };
}

contract!(
    a_new_segment_says_what_it_is_and_holds_nothing,
    published_bytes_are_read_back,
    unpublished_bytes_are_not_readable,
    a_reader_keeps_its_slices_while_the_segment_grows,
    every_reader_of_a_segment_sees_the_same,
    ranges_outside_what_is_published_are_refused,
    published_bytes_cannot_be_written,
    cells_change_after_publication,
    cells_are_no_bytes,
    tables_of_others_are_refused,
    typed_reads_check_alignment_and_size,
    truncation_leaves_no_garbage,
    a_root_points_only_to_published_data,
    a_full_span_is_an_error_and_changes_nothing,
    the_number_of_tables_is_bounded,
    a_waiter_sees_the_next_generation,
    a_retired_segment_says_so,
    the_reader_outlives_the_writer,
);

const ROOT: RootIndex = RootIndex::of::<3>();

fn a_new_segment_says_what_it_is_and_holds_nothing(kind: BackingKind) {
    let (writer, _directory) = writer(kind);
    let reader = reader(&writer);
    assert_eq!((reader.label(), reader.owner()), ("job-7@host", "daemon.0"));
    assert_eq!(reader.info().span_bytes, writer.span_bytes());
    assert_eq!(reader.info().created_unix_s, 1_700_000_000);
    assert_eq!(reader.info().creator_pid, std::process::id());
    assert_eq!(reader.info(), &SegmentReader::peek(&writer.handle().unwrap()).unwrap());
    assert_eq!(reader.published_bytes(), Ok(HEADER_BYTES));
    assert_eq!(reader.state(), Ok(SegmentState::Live));
    assert_eq!(reader.generation(), 0);
    assert!(RootIndex::all().all(|root| reader.root(root).is_none()));
    assert_eq!(RootIndex::all().count(), ROOT_COUNT);
    assert_eq!(reader.protection(), writer.protection());
}

fn published_bytes_are_read_back(kind: BackingKind) {
    let (mut writer, _directory) = writer(kind);
    let reader = reader(&writer);
    let text = writer.append(b"some text", Align::Eight).unwrap();
    let block = writer.alloc(100, Align::SixtyFour).unwrap();
    assert!(block.get().is_multiple_of(64));
    writer.write(block.checked_add(10).unwrap(), &[7; 20]).unwrap();
    writer.unpublished_mut(block, 2).unwrap().fill(9);
    assert_eq!(writer.slice(text, 9).unwrap(), b"some text");
    assert_eq!(writer.publish(), writer.allocated_bytes());
    writer.set_root(ROOT, block).unwrap();
    assert_eq!(reader.root(ROOT), Some(block));
    assert_eq!(reader.slice(text, 9).unwrap(), b"some text");
    let mut expected = [0; 100];
    expected[..2].fill(9);
    expected[10..30].fill(7);
    assert_eq!(reader.slice(block, 100).unwrap(), expected);
    assert_eq!(writer.slice(block, 100).unwrap(), expected);
}

fn unpublished_bytes_are_not_readable(kind: BackingKind) {
    let (mut writer, _directory) = writer(kind);
    let reader = reader(&writer);
    let offset = writer.append(b"secret", Align::Eight).unwrap();
    let range = Corrupt::Range { offset: offset.get(), len: 6, published: HEADER_BYTES };
    assert_eq!(reader.slice(offset, 6), Err(range));
    writer.publish();
    assert_eq!(reader.slice(offset, 6), Ok(b"secret".as_slice()));
}

fn a_reader_keeps_its_slices_while_the_segment_grows(kind: BackingKind) {
    let (mut writer, _directory) = writer(kind);
    let first = writer.append(&[1; 1000], Align::Sixteen).unwrap();
    writer.publish();
    let reader = reader(&writer);
    let kept = reader.slice(first, 1000).unwrap();
    let mut offsets = Vec::new();
    for fill in 0..50_u8 {
        offsets.push(writer.append(&vec![fill; 200_000], Align::Sixteen).unwrap());
        writer.publish();
    }
    for (fill, &offset) in (0..50_u8).zip(&offsets) {
        assert!(reader.slice(offset, 200_000).unwrap().iter().all(|&byte| byte == fill));
    }
    assert_eq!(kept, [1; 1000]);
    assert_eq!(reader.mapped().0, 1, "the span was reserved once");
}

fn every_reader_of_a_segment_sees_the_same(kind: BackingKind) {
    let (mut writer, _directory) = writer(kind);
    let before = reader(&writer);
    let offset = writer.append(b"shared", Align::Eight).unwrap();
    writer.publish();
    let after = reader(&writer);
    assert_eq!(before.slice(offset, 6), after.slice(offset, 6));
    assert_eq!(before.published_bytes(), Ok(writer.published_bytes()));
}

fn ranges_outside_what_is_published_are_refused(kind: BackingKind) {
    let (mut writer, _directory) = writer(kind);
    let offset = writer.append(&[5; 16], Align::Eight).unwrap();
    let end = writer.publish();
    let reader = reader(&writer);
    assert_eq!(reader.slice(offset, 16).unwrap().len(), 16);
    assert_eq!(reader.slice(at(end), 0).unwrap().len(), 0);
    let outside = [(1, 8), (HEADER_BYTES - 8, 16), (offset.get(), 17), (end, 1), (end + 1, 0)];
    let overflowing = [(u64::MAX, 1), (u64::MAX - 7, 16), (offset.get(), u64::MAX), (1 << 62, 1 << 62)];
    for (start, len) in outside.into_iter().chain(overflowing) {
        let refused = Err(Corrupt::Range { offset: start, len, published: end });
        assert_eq!(reader.slice(at(start), len), refused);
        assert!(matches!(writer.slice(at(start), len), Err(Corrupt::Range { .. })));
    }
    assert!(matches!(reader.load_acquire(at(end)), Err(Corrupt::Range { .. })));
    assert!(matches!(reader.load_acquire(at(8)), Err(Corrupt::Range { .. })));
    assert!(matches!(reader.read::<[u8; 32]>(offset), Err(Corrupt::Range { .. })));
}

fn published_bytes_cannot_be_written(kind: BackingKind) {
    let (mut writer, _directory) = writer(kind);
    let offset = writer.append(&[5; 16], Align::Eight).unwrap();
    let published = writer.publish();
    let refused = WriteError::Published { offset: offset.get(), published };
    assert_eq!(writer.write(offset, &[1]), Err(refused));
    assert!(matches!(writer.write(at(8), &[1]), Err(WriteError::Published { .. })));
    let next = writer.alloc(8, Align::Eight).unwrap();
    let allocated = writer.allocated_bytes();
    let refused = WriteError::Unallocated { offset: next.get(), len: 9, allocated };
    assert_eq!(writer.write(next, &[1; 9]), Err(refused));
    assert!(matches!(writer.unpublished_mut(next, u64::MAX), Err(WriteError::Unallocated { .. })));
    assert_eq!(writer.write(next, &[1; 8]), Ok(()));
}

fn cells_change_after_publication(kind: BackingKind) {
    let (mut writer, _directory) = writer(kind);
    let table = writer.alloc_table(1000).unwrap();
    writer.store(table, 1, 11).unwrap();
    writer.publish();
    let reader = reader(&writer);
    let found = reader.table(table.offset()).unwrap();
    assert_eq!((found, found.cell_count()), (table, 1000));
    assert_eq!((reader.cell(found, 0), reader.cell(found, 1)), (Ok(0), Ok(11)));
    writer.store(table, 999, u64::MAX).unwrap();
    writer.store(table, 1, 12).unwrap();
    assert_eq!((reader.cell(found, 1), reader.cell(found, 999)), (Ok(12), Ok(u64::MAX)));
    assert_eq!(writer.load(table, 1), Ok(12));
    assert_eq!(reader.load_acquire(at(table.offset().get() + 8)), Ok(12));
    let beyond = Corrupt::NoCell { table: table.offset(), cell_count: 1000, index: 1000 };
    assert_eq!(reader.cell(found, 1000), Err(beyond));
    let refused = WriteError::NoCell { table: table.offset(), index: 1000 };
    assert_eq!(writer.store(table, 1000, 1), Err(refused));
}

fn cells_are_no_bytes(kind: BackingKind) {
    let (mut writer, _directory) = writer(kind);
    let before = writer.append(&[1; 64], Align::SixtyFour).unwrap();
    let table = writer.alloc_table(16).unwrap();
    let between = writer.append(&[2; 64], Align::SixtyFour).unwrap();
    let other = writer.alloc_table(8).unwrap();
    let after = writer.append(&[3; 64], Align::SixtyFour).unwrap();
    writer.publish();
    let reader = reader(&writer);
    for (offset, fill) in [(before, 1), (between, 2), (after, 3)] {
        assert_eq!(reader.slice(offset, 64).unwrap(), [fill; 64]);
        assert_eq!(writer.slice(offset, 64).unwrap(), [fill; 64]);
    }
    for (start, len) in [
        (table.offset().get(), 1),
        (before.get(), 65),
        (between.get() - 1, 2),
        (other.offset().get() + 63, 1),
        (before.get(), after.get() - before.get()),
    ] {
        assert_eq!(reader.slice(at(start), len), Err(Corrupt::Cells { offset: start, len }));
        assert_eq!(writer.slice(at(start), len), Err(Corrupt::Cells { offset: start, len }));
    }
    assert_eq!(reader.table(before), Err(Corrupt::NotATable { offset: before.get() }));
}

fn tables_of_others_are_refused(kind: BackingKind) {
    let (mut other, _other_directory) = writer(kind);
    let (mut writer, _directory) = writer(kind);
    let foreign = other.alloc_table(100).unwrap();
    let bytes = writer.append(&[0; 4096], Align::SixtyFour).unwrap();
    writer.publish();
    assert_eq!(foreign.offset(), bytes, "the table would lie on the bytes");
    assert_eq!(writer.store(foreign, 0, 1), Err(WriteError::NoCell { table: bytes, index: 0 }));
    assert_eq!(writer.load(foreign, 0), Err(WriteError::NoCell { table: bytes, index: 0 }));
    assert_eq!(reader(&writer).slice(bytes, 4096).unwrap(), [0; 4096]);
}

fn typed_reads_check_alignment_and_size(kind: BackingKind) {
    let (mut writer, _directory) = writer(kind);
    let mut bytes = [0; 64];
    bytes[8] = 1;
    bytes[16] = 2;
    let offset = writer.append(&bytes, Align::SixtyFour).unwrap();
    writer.publish();
    let reader = reader(&writer);
    type Word = zerocopy::little_endian::U64;
    assert_eq!(reader.read::<Word>(at(offset.get() + 8)).unwrap().get(), 1);
    assert_eq!(reader.array::<Word>(offset, 3).unwrap().iter().map(|word| word.get()).sum::<u64>(), 3);
    assert_eq!(reader.array::<u64>(offset, 8).unwrap().len(), 8);
    assert_eq!(reader.array::<u64>(offset, 0).unwrap().len(), 0);
    let odd = at(offset.get() + 4);
    assert_eq!(reader.read::<u64>(odd), Err(Corrupt::Misaligned { offset: odd.get(), align: 8 }));
    assert_eq!(reader.array::<u64>(odd, 2), Err(Corrupt::Misaligned { offset: odd.get(), align: 8 }));
    assert_eq!(reader.load_acquire(odd), Err(Corrupt::Misaligned { offset: odd.get(), align: 8 }));
    assert!(matches!(reader.array::<u64>(offset, 9), Err(Corrupt::Range { .. })));
    let count = u64::MAX / 4;
    assert_eq!(reader.array::<u64>(offset, count), Err(Corrupt::Count { offset: offset.get(), count, size: 8 }));
}

fn truncation_leaves_no_garbage(kind: BackingKind) {
    let (mut writer, _directory) = writer(kind);
    writer.append(b"kept", Align::Eight).unwrap();
    let early = writer.mark();
    writer.append(b"published", Align::Eight).unwrap();
    writer.publish();
    let mark = writer.mark();
    writer.append(&[0xAA; 5000], Align::Eight).unwrap();
    let table = writer.alloc_table(10).unwrap();
    writer.store(table, 3, 3).unwrap();
    writer.truncate_to(mark).unwrap();
    assert_eq!(writer.mark(), mark);
    assert!(writer.store(table, 3, 3).is_err(), "the table is gone");
    let again = writer.alloc(6000, Align::Eight).unwrap();
    writer.publish();
    assert_eq!(reader(&writer).slice(again, 6000).unwrap(), [0; 6000]);
    assert!(matches!(writer.truncate_to(early), Err(WriteError::Published { .. })));
    writer.truncate_to(writer.mark()).unwrap();
}

fn a_root_points_only_to_published_data(kind: BackingKind) {
    let (mut writer, _directory) = writer(kind);
    let target = writer.append(&[1], Align::Eight).unwrap();
    let refused = WriteError::RootUnpublished { root: ROOT, target, published: HEADER_BYTES };
    assert_eq!(writer.set_root(ROOT, target), Err(refused));
    writer.publish();
    assert_eq!(writer.set_root(ROOT, target), Ok(()));
    assert_eq!(reader(&writer).root(ROOT), Some(target));
}

fn a_full_span_is_an_error_and_changes_nothing(kind: BackingKind) {
    let (mut options, _directory) = options(kind);
    options.span_bytes = 128 << 10;
    let mut writer = SegmentWriter::create(&options, LAYOUT).unwrap();
    let span = writer.span_bytes();
    assert_eq!(span, 128 << 10);
    let all = span - HEADER_BYTES;
    writer.append(&vec![1; usize::try_from(all - 8).unwrap()], Align::Eight).unwrap();
    let before = (writer.mark(), writer.reserved_bytes());
    for len in [9, span, u64::MAX] {
        let error = writer.alloc(len, Align::Eight).unwrap_err();
        assert!(matches!(error, GrowError::SpanExhausted { span_bytes, .. } if span_bytes == span), "{error}");
    }
    assert!(matches!(writer.alloc_table(u64::MAX / 2), Err(GrowError::SpanExhausted { .. })));
    assert!(matches!(writer.alloc_table(1), Err(GrowError::SpanExhausted { .. })));
    assert_eq!((writer.mark(), writer.reserved_bytes()), before);
    let last = writer.append(&[2; 8], Align::Eight).unwrap();
    assert_eq!(writer.publish(), span);
    assert_eq!(reader(&writer).slice(last, 8).unwrap(), [2; 8]);
}

fn the_number_of_tables_is_bounded(kind: BackingKind) {
    let (mut writer, _directory) = writer(kind);
    let tables: Vec<_> = (0..TABLE_COUNT_MAX).map(|_| writer.alloc_table(0).unwrap()).collect();
    let before = writer.mark();
    assert!(matches!(writer.alloc_table(1), Err(GrowError::TooManyTables { max: TABLE_COUNT_MAX })));
    assert_eq!(writer.mark(), before);
    writer.publish();
    let reader = reader(&writer);
    assert!(tables.iter().all(|&table| reader.table(table.offset()) == Ok(table)));
}

fn a_waiter_sees_the_next_generation(kind: BackingKind) {
    let (mut writer, _directory) = writer(kind);
    let reader = reader(&writer);
    let timeout = Some(Duration::from_millis(1));
    assert_eq!(reader.wait_for_generation(7, timeout), GenerationWait::Changed(0));
    // A signal may end a wait early, so it is repeated until the time is over.
    while reader.wait_for_generation(0, timeout) != GenerationWait::TimedOut {
        assert_eq!(reader.generation(), 0);
    }
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            loop {
                if let GenerationWait::Changed(now) = reader.wait_for_generation(0, None) {
                    return now;
                }
            }
        });
        assert_eq!(writer.bump_generation(true), 1);
        assert_eq!(waiter.join().unwrap(), 1);
    });
    assert_eq!(writer.bump_generation(false), 2);
    assert_eq!(reader.generation(), 2);
}

fn a_retired_segment_says_so(kind: BackingKind) {
    let (mut writer, _directory) = writer(kind);
    let reader = reader(&writer);
    writer.retire();
    assert_eq!(reader.state(), Ok(SegmentState::Retired));
    assert_eq!(reader.generation(), 1);
}

fn the_reader_outlives_the_writer(kind: BackingKind) {
    let (mut writer, _directory) = writer(kind);
    let offset = writer.append(b"still here", Align::Eight).unwrap();
    writer.publish();
    let reader = reader(&writer);
    drop(writer);
    assert_eq!(reader.slice(offset, 10).unwrap(), b"still here");
}
