//! Two processes at once: one publishes, the other reads as fast as it can.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use std::os::fd::AsRawFd;

use super::*;

const TABLE: RootIndex = RootIndex::of::<0>();
const SLOTS: u64 = 32;
const COMMITS: u64 = 40_000;
const SEGMENT: &str = "MODEX_TEST_SEGMENT";
const NAME: &str = "shmem::tests::stress::a_reader_in_another_process_only_sees_whole_blocks";

/// A block: its number, the count of the following words, and these words, each computed from both.
fn block(number: u64) -> Vec<u8> {
    let count = number % 61;
    let words = [number, count].into_iter().chain((0..count).map(|at| word(number, at)));
    words.flat_map(u64::to_le_bytes).collect()
}

fn word(number: u64, at: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ at
}

#[test]
fn a_reader_in_another_process_only_sees_whole_blocks() {
    if variable(CHILD).as_deref() == Some(NAME) {
        return read(Path::new(&variable(SEGMENT).unwrap()));
    }
    let (mut writer, _directory) = writer(BackingKind::Memfd);
    let table = writer.alloc_table(SLOTS).unwrap();
    writer.publish();
    writer.set_root(TABLE, table.offset()).unwrap();
    let handle = writer.handle().unwrap();
    let descriptor = handle.descriptor().unwrap().as_raw_fd();
    let mut command = child(NAME);
    command.env(SEGMENT, format!("/proc/{}/fd/{descriptor}", std::process::id()));
    let mut reading = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(reading.stdout.take().unwrap()).lines();
    // The first half is written after the reader has started.
    assert!(output.any(|line| line.unwrap().contains("attached")), "the reader did not attach");
    for number in 1..=COMMITS {
        let offset = writer.append(&block(number), Align::Eight).unwrap();
        writer.publish();
        writer.store(table, number % SLOTS, offset.get()).unwrap();
        writer.bump_generation(number % 16 == 0);
    }
    writer.retire();
    let said: Vec<_> = output.map(Result::unwrap).collect();
    assert!(reading.wait().unwrap().success(), "{said:?}");
    assert!(said.iter().any(|line| line.contains("1 passed")), "{said:?}");
}

/// The other process: reads until the segment is retired, then once more.
fn read(segment: &Path) {
    let reader = attach(ReaderHandle::open_descriptor_link(segment).unwrap()).unwrap();
    let table = reader.table(reader.root(TABLE).unwrap()).unwrap();
    println!("attached");
    let mut newest = vec![0; usize::try_from(SLOTS).unwrap()];
    let mut seen = 0;
    loop {
        let retired = reader.state().unwrap() == SegmentState::Retired;
        for slot in 0..SLOTS {
            if let Some(offset) = Offset::from_raw(reader.cell(table, slot).unwrap()) {
                let number = check(&reader, offset);
                let newest = &mut newest[usize::try_from(slot).unwrap()];
                assert!(number >= *newest, "block {number} after block {newest}");
                assert_eq!(number % SLOTS, slot);
                *newest = number;
            }
        }
        if retired {
            break;
        }
        // Sleeps only if nothing has changed since. The end of the segment also wakes it.
        if let GenerationWait::Changed(now) = reader.wait_for_generation(seen, None) {
            seen = now;
        }
    }
    assert_eq!(newest.iter().max(), Some(&COMMITS));
    assert_eq!(newest.iter().min(), Some(&(COMMITS - SLOTS + 1)));
}

/// Checks every word of a block; returns its number.
fn check(reader: &SegmentReader, offset: Offset) -> u64 {
    let [number, count] = *reader.read::<[u64; 2]>(offset).unwrap();
    assert_eq!(count, number % 61);
    let words = reader.array::<u64>(offset.checked_add(16).unwrap(), count).unwrap();
    assert!((0_u64..).zip(words).all(|(at, &found)| found == word(number, at)), "block {number} is torn");
    number
}
