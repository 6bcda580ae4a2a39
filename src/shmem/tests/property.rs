//! Random histories, checked against a plain model, and random damage.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use proptest::prelude::*;

use super::*;

/// One call to a writer.
#[derive(Clone, Debug)]
enum Step {
    Append(Vec<u8>, Align),
    Table(u64),
    Store { table: prop::sample::Index, cell: prop::sample::Index, value: u64 },
    Publish,
    Rollback(Vec<u8>),
}

fn align() -> impl Strategy<Value = Align> {
    prop_oneof![Just(Align::Eight), Just(Align::Sixteen), Just(Align::SixtyFour)]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (prop::collection::vec(any::<u8>(), 0..300), align()).prop_map(|(bytes, align)| Step::Append(bytes, align)),
        1 => (0..40_u64).prop_map(Step::Table),
        4 => (any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u64>())
            .prop_map(|(table, cell, value)| Step::Store { table, cell, value }),
        2 => Just(Step::Publish),
        1 => prop::collection::vec(any::<u8>(), 0..9000).prop_map(Step::Rollback),
    ]
}

/// The expected contents of a segment.
#[derive(Default)]
struct Model {
    blocks: Vec<(Offset, Vec<u8>)>,
    tables: Vec<(TableRef, BTreeMap<u64, u64>)>,
    /// Number of published blocks and tables.
    published: (usize, usize),
}

fn apply(writer: &mut SegmentWriter, model: &mut Model, step: Step) {
    match step {
        Step::Append(bytes, align) => {
            let offset = writer.append(&bytes, align).unwrap();
            assert!(offset.get().is_multiple_of(align.bytes()));
            model.blocks.push((offset, bytes));
        }
        Step::Table(cell_count) => match writer.alloc_table(cell_count) {
            Ok(table) => model.tables.push((table, BTreeMap::new())),
            Err(error) => assert!(model.tables.len() == TABLE_COUNT_MAX, "{error}"),
        },
        Step::Store { table, cell, value } => {
            let filled: Vec<_> = (0..model.tables.len()).filter(|&at| model.tables[at].0.cell_count() > 0).collect();
            if !filled.is_empty() {
                let (table, values) = &mut model.tables[*table.get(&filled)];
                let cell = cell.index(usize::try_from(table.cell_count()).unwrap()) as u64;
                writer.store(*table, cell, value).unwrap();
                values.insert(cell, value);
            }
        }
        Step::Publish => {
            writer.publish();
            model.published = (model.blocks.len(), model.tables.len());
        }
        Step::Rollback(bytes) => {
            let mark = writer.mark();
            writer.append(&bytes, Align::Eight).unwrap();
            let _ = writer.alloc_table(3);
            writer.truncate_to(mark).unwrap();
        }
    }
}

fn compare(writer: &SegmentWriter, reader: &SegmentReader, model: &Model) {
    for (number, (offset, bytes)) in model.blocks.iter().enumerate() {
        assert_eq!(writer.slice(*offset, bytes.len() as u64).unwrap(), bytes);
        let read = reader.slice(*offset, bytes.len() as u64);
        if number < model.published.0 {
            assert_eq!(read.unwrap(), bytes);
        } else if !bytes.is_empty() {
            assert!(matches!(read, Err(Corrupt::Range { .. })));
        }
    }
    for (table, values) in &model.tables[..model.published.1] {
        assert_eq!(reader.table(table.offset()), Ok(*table));
        for cell in 0..table.cell_count() {
            assert_eq!(reader.cell(*table, cell), Ok(values.get(&cell).copied().unwrap_or(0)));
        }
    }
}

proptest! {
    #![proptest_config(crate::cases::cases(48))]

    #[test]
    fn any_history_is_read_back(steps in prop::collection::vec(step(), 1..80), on_heap in any::<bool>()) {
        let (mut writer, _directory) = writer(if on_heap { BackingKind::Heap } else { BackingKind::Memfd });
        let options = ReaderOptions { reservation_bytes_max: HEADER_BYTES };
        let reader = SegmentReader::attach(writer.handle().unwrap(), LayoutId::of(LAYOUT), &options).unwrap();
        let mut model = Model::default();
        for step in steps {
            apply(&mut writer, &mut model, step);
        }
        compare(&writer, &reader, &model);
        apply(&mut writer, &mut model, Step::Publish);
        compare(&writer, &reader, &model);
    }

    #[test]
    fn damage_never_faults(
        flips in prop::collection::vec((damaged_byte(), any::<u8>()), 0..12),
        keep in prop_oneof![3 => Just(usize::MAX), 1 => 0..80_000_usize],
        probes in prop::collection::vec((probe(), probe()), 1..40),
    ) {
        let mut bytes = sample();
        for (at, with) in flips {
            let at = at % bytes.len();
            bytes[at] = with;
        }
        bytes.truncate(keep);
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&bytes, 0).unwrap();
        if let Ok(reader) = attach(ReaderHandle::from_descriptor(OwnedFd::from(file))) {
            for (offset, len) in probes {
                examine(&reader, &bytes, offset, len);
            }
            for root in RootIndex::all() {
                if let Some(offset) = reader.root(root) {
                    examine(&reader, &bytes, offset.get(), 64);
                }
            }
        }
    }
}

/// A position to damage: mostly in the header's fields, else anywhere.
fn damaged_byte() -> impl Strategy<Value = usize> {
    prop_oneof![24..72_usize, 1024..1032_usize, 1216..1236_usize, 1280..2400_usize, any::<usize>()]
}

/// An offset or a length: mostly a small one, else any.
fn probe() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..100_000_u64, 1 => any::<u64>(), 1 => (0..64_u64).prop_map(|back| u64::MAX - back)]
}

/// The bytes of a segment that has a little of everything.
fn sample() -> Vec<u8> {
    let (mut writer, _directory) = writer(BackingKind::File);
    let table = writer.alloc_table(100).unwrap();
    for root in RootIndex::all() {
        let block = writer.append(&[root.get(); 500], Align::Sixteen).unwrap();
        writer.publish();
        writer.set_root(root, block).unwrap();
        writer.store(table, u64::from(root.get()), block.get()).unwrap();
    }
    let Location::Path(path) = writer.location() else { panic!("a file has a path") };
    std::fs::read(path).unwrap()
}

/// Reads in every way at `offset`; readable bytes equal those of the file.
fn examine(reader: &SegmentReader, bytes: &[u8], offset: u64, len: u64) {
    let Some(offset) = Offset::from_raw(offset) else {
        return;
    };
    if let Ok(slice) = reader.slice(offset, len) {
        let start = usize::try_from(offset.get()).unwrap();
        assert_eq!(slice, &bytes[start..start + slice.len()]);
        assert_eq!(slice.len() as u64, len);
    }
    if let Ok(words) = reader.array::<u64>(offset, len) {
        assert_eq!(words.len() as u64, len);
    }
    if let Ok(table) = reader.table(offset) {
        assert!(reader.cell(table, len % table.cell_count().max(1)).is_ok() || table.cell_count() == 0);
        assert!(reader.cell(table, table.cell_count()).is_err());
    }
    let word = reader.load_acquire(offset);
    let value = reader.read::<u64>(offset);
    if let (Ok(word), Ok(value)) = (word, value) {
        assert_eq!(word, *value);
    }
}
