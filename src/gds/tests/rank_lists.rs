//! The local peers of nodes, stored by rule if the process map is one.

use proptest::prelude::*;

use super::*;
use crate::gds::registration::{Context, parse};
use crate::gds::{Damage, NodeSelector, RecordError, StoreError};
use crate::regex::{DealtRanks, MapLimits, RankMap, generate_ranks};
use crate::types::Info;

const PEERS: &str = "pmix.lpeers";

fn dealt(block: u32, node_count: u32, end: u32) -> ColumnValues {
    ColumnValues::RankLists(DealtRanks::new(block, node_count, end).unwrap())
}

/// A job with these numbers of processes and nodes and no other data.
fn job(values: ColumnValues, node_count: u32, rank_count: u32, own_node: Option<u32>) -> JobRecord {
    let node_columns = vec![column(PEERS, values)];
    JobRecord { node_count, node_columns, own_node, rank_count, ..JobRecord::default() }
}

fn registered(record: &JobRecord) -> Store {
    let mut store = store(BackingKind::Heap);
    store.register_record(&namespace(), record).unwrap();
    store
}

fn peers(reader: &NamespaceReader, node: u32) -> Result<Value, ReadError> {
    read(reader, Rank::Wildcard, PEERS, RealmRequest::Node(NodeSelector::Id(node)), None)
}

fn encoding(reader: &NamespaceReader) -> Option<&'static str> {
    let tables = reader.job_tables().unwrap().unwrap();
    tables.node_columns.iter().find(|column| column.key() == PEERS).map(StoredColumn::encoding)
}

#[test]
fn blocks_and_turns_are_lists_by_rule() {
    for (values, expected) in [
        (dealt(2, 3, 6), ["0,1", "2,3", "4,5"]),
        (dealt(2, 3, 5), ["0,1", "2,3", "4"]),
        (dealt(1, 3, 8), ["0,3,6", "1,4,7", "2,5"]),
        (dealt(2, 3, 9), ["0,1,6,7", "2,3,8", "4,5"]),
    ] {
        for own_node in [None, Some(0), Some(2)] {
            let mut store = registered(&job(values.clone(), 3, 9, own_node));
            let reader = attached(&mut store);
            assert_eq!(encoding(&reader), Some("rank lists"));
            assert_eq!([0, 1, 2].map(|node| peers(&reader, node)), expected.map(|text| Ok(Value::from(text))));
            assert_eq!(peers(&reader, 3), Err(ReadError::NotFound), "there is no such node");
            assert_eq!(reader.job_record().unwrap().node_columns, [column(PEERS, values.clone())]);
            assert_eq!(reader.job_entries().unwrap().len(), 3, "an array for each node");
        }
    }
}

#[test]
fn the_own_nodes_list_is_a_text_and_the_others_are_written_nowhere() {
    let mut store = registered(&job(dealt(100, 3, 300), 3, 300, Some(1)));
    let reader = attached(&mut store);
    // The fast path starts at the place of the last read.
    assert!(get(&reader, Rank::Wildcard, PEERS).is_ok());
    let own = reader.quick(Rank::Wildcard, KeyRef::new(PEERS)).unwrap();
    assert!(own.as_c_str().unwrap().to_bytes().starts_with(b"100,101,"));
    assert_eq!((own.unwritten(), own.payload_bytes()), (None, Some(399)));
    let realm = RealmRequest::Node(NodeSelector::Id(2));
    let lookup = Lookup { rank: Rank::Wildcard, key: KeyRef::new(PEERS), realm, audience: None };
    let other = reader.get(&lookup).unwrap();
    assert_eq!((other.as_bytes(), other.as_str(), other.as_c_str(), other.payload_bytes()), (None, None, None, None));
    assert_eq!((other.data_type(), other.as_u64()), (crate::types::DataType::String, None));
    let Some(Value::String(text)) = other.unwritten() else { panic!("{other:?} is a text") };
    assert!(text.as_bytes().starts_with(b"200,201,") && text.as_bytes().ends_with(b",299"));
    assert_eq!(other.to_value(), Ok(Value::String(text)));
    assert_eq!(reader.job_tables().unwrap().unwrap().node_columns[0].size_bytes(), 16, "a cell");
}

#[test]
fn a_node_without_ranks_has_no_list_and_need_not_be_the_own_one() {
    let mut store = registered(&job(dealt(2, 3, 3), 3, 3, Some(2)));
    let reader = attached(&mut store);
    assert_eq!([0, 1].map(|node| peers(&reader, node)), ["0,1", "2"].map(|text| Ok(Value::from(text))));
    assert_eq!(peers(&reader, 2), Err(ReadError::NotFound));
    assert_eq!(get(&reader, Rank::Wildcard, PEERS), Err(ReadError::NotFound));
}

#[test]
fn lists_of_ranks_that_there_are_not_and_lists_elsewhere_are_refused() {
    let refusal = |record: &JobRecord| store(BackingKind::Heap).register_record(&namespace(), record).unwrap_err();
    let misplaced = |key: &str, rank_count| RecordError::RankLists { key: self::key(key), rank_count };
    let is = |error: StoreError, expected: RecordError| assert_eq!(error.to_string(), expected.to_string());
    is(refusal(&job(dealt(2, 3, 6), 3, 5, None)), misplaced(PEERS, 5));
    let mut elsewhere = job(dealt(2, 3, 6), 3, 6, None);
    elsewhere.node_columns[0].key = key("pmix.hname");
    is(refusal(&elsewhere), misplaced("pmix.hname", 6));
    let too_few = refusal(&job(dealt(2, 3, 6), 4, 6, None));
    is(too_few, RecordError::ColumnLength { key: key(PEERS), found: 3, expected: 4 });
}

/// Maps in even blocks, in turns, in turns of several, and any other.
fn any_map() -> impl Strategy<Value = RankMap> {
    let dealt = (1_u32..5, 1_u32..6, 1_u32..40)
        .prop_map(|(block, nodes, end)| ((0..end).map(|rank| rank / block % nodes).collect(), nodes));
    let any = (1_u32..6).prop_flat_map(|nodes| (prop::collection::vec(0..nodes, 1..20), Just(nodes)));
    prop_oneof![2 => dealt, 1 => any].prop_map(|(places, nodes): (Vec<u32>, u32)| {
        let of_node = |node| (0_u32..).zip(&places).filter(move |(_, at)| **at == node).map(|(rank, _)| rank);
        RankMap::from_ranks((0..nodes).map(of_node), &MapLimits::default()).unwrap()
    })
}

proptest! {
    #[test]
    fn every_nodes_list_is_that_of_the_map(map in any_map(), own in 0_usize..6, is_given in any::<bool>()) {
        let names: Vec<String> = (0..map.node_count()).map(|node| format!("n{node}")).collect();
        let text_of = |node| {
            let mut text = String::new();
            map.text_of(node, &mut text);
            Some(text).filter(|text| !text.is_empty())
        };
        let info = |name: &str, value: Value| Info::new(key(name), value);
        let mut description =
            vec![info("pmix.nmap", names.join(",").into()), info("pmix.pmap", Value::Regex(generate_ranks(&map)))];
        // The host's values for some nodes equal the derived ones.
        for (node, name) in names.iter().enumerate().step_by(2).filter(|_| is_given) {
            let told = text_of(node).map(|text| info(PEERS, text.into()));
            let entries = std::iter::once(info("pmix.hname", name.as_str().into())).chain(told).collect();
            description.push(info("pmix.node.arr", Value::info_array(entries)));
        }
        let context = Context::new(format!("n{own}"));
        let first = parse(&namespace(), &context, &description, None).unwrap();
        let later = parse(&namespace(), &context, &[info("late", 1_u32.into())], Some(&first)).unwrap();
        for record in [&first, &later] {
            let mut store = registered(record);
            let reader = attached(&mut store);
            if record.node_count as usize == map.node_count() {
                let is_rule = DealtRanks::of(&map).is_some();
                prop_assert_eq!(encoding(&reader) == Some("rank lists"), is_rule);
            }
            for node in 0..map.node_count() {
                let expected = text_of(node).map(Value::from).ok_or(ReadError::NotFound);
                prop_assert_eq!(peers(&reader, node.try_into().unwrap()), expected, "of node {}", node);
            }
            let back = reader.job_record().unwrap();
            prop_assert_eq!(attached(&mut registered(&back)).job_record().unwrap(), back);
        }
    }
}

/// A process map of this many ranks, written out, in blocks of four.
fn spelled_out(rank_count: u32) -> (DealtRanks, String) {
    let dealt = DealtRanks::new(4, rank_count.div_ceil(4), rank_count).unwrap();
    (dealt, dealt.map_text())
}

/// A job with only this text under a key, and the lists derived from its map.
fn mapped(name: &str, text: &str, dealt: DealtRanks) -> JobRecord {
    let lists = ColumnValues::RankLists(dealt);
    JobRecord { job: vec![(key(name), text.into())], ..job(lists, dealt.node_count(), dealt.end(), Some(0)) }
}

fn stored<'a>(reader: &'a NamespaceReader, name: &str) -> crate::gds::ValueRef<'a> {
    let tables = reader.job_tables().unwrap().unwrap();
    tables.job.iter().find(|(key, _)| *key == name).unwrap().1
}

#[test]
fn a_long_process_map_that_is_a_rule_is_written_nowhere_and_read_as_it_was_given() {
    let (dealt, text) = spelled_out(20_000);
    let other = format!("{text};");
    for (name, text, is_rule) in [
        ("pmix.pmap", text.as_str(), true),
        ("pmix.pmap.raw", text.as_str(), true),
        ("pmix.pmap", &other, false),
        // Under any other key the text is stored as it is.
        ("pmix.other", &text, false),
    ] {
        let record = mapped(name, text, dealt);
        let mut store = registered(&record);
        let reader = attached(&mut store);
        let value = stored(&reader, name);
        assert!(value.unwritten() == is_rule.then(|| Value::from(text)), "{name}");
        assert!(value.as_str() == (!is_rule).then_some(text), "{name}");
        assert!(get(&reader, Rank::Wildcard, name) == Ok(Value::from(text)), "{name}");
        assert!(reader.job_record().unwrap() == record, "{name}");
    }
    // A small value is lent.
    let (dealt, text) = spelled_out(1000);
    let mut store = registered(&mapped("pmix.pmap", &text, dealt));
    assert_eq!(stored(&attached(&mut store), "pmix.pmap").as_str(), Some(text.as_str()));
}

#[test]
fn a_long_text_that_two_keys_have_is_written_once() {
    let text = "n,".repeat(64 << 10);
    let size_of = |others: [&str; 2]| {
        let mut record = JobRecord { job: vec![(key("first"), text.as_str().into())], ..JobRecord::default() };
        record.job.extend(["second", "third"].map(key).into_iter().zip(others.map(Value::from)));
        let mut store = registered(&record);
        let reader = attached(&mut store);
        let found = ["second", "third"].map(|name| get(&reader, Rank::Wildcard, name));
        assert!(found == others.map(|text| Ok(text.into())), "both as they were given");
        reader.statistics().unwrap().published_bytes
    };
    let other = text.replace('n', "m");
    assert_eq!(size_of([&text, &text]), size_of(["", ""]));
    assert!(size_of([&text, &other]) >= size_of(["", ""]) + (128 << 10));
}

#[test]
fn a_node_is_found_by_a_name_that_is_written_once() {
    let names = ["n0", "a-node-with-a-long-name", "n2"];
    let texts = crate::gds::job_record::Texts::collect(names.into_iter(), 0).unwrap();
    let mut record = job(dealt(2, 3, 6), 3, 6, Some(1));
    record.node_columns.push(column("pmix.hname", ColumnValues::Texts(texts)));
    record.node_columns.push(column("pmix.alias", ColumnValues::Sparse(vec![(2, "other,n2".into())])));
    let mut store = registered(&record);
    let reader = attached(&mut store);
    let by_name = |name| read(&reader, Rank::Wildcard, PEERS, RealmRequest::Node(NodeSelector::Name(name)), None);
    let found = [("n0", "0,1"), (names[1], "2,3"), ("n2", "4,5"), ("other", "4,5")];
    for (name, peers) in found {
        assert_eq!(by_name(name), Ok(peers.into()), "{name}");
    }
    assert_eq!(by_name("a-node"), Err(ReadError::NotFound));
    let bytes = super::damage::bytes_of(&record);
    assert_eq!(bytes.windows(names[1].len()).filter(|window| *window == names[1].as_bytes()).count(), 1);
}

#[test]
fn damaged_maps_are_refused() {
    let (dealt, text) = spelled_out(20_000);
    let mut bytes = super::damage::bytes_of(&mapped("pmix.pmap", &text, dealt));
    let rule = [4_u32, 5000, 20_000, 0].map(u32::to_ne_bytes).concat();
    let at = bytes.windows(rule.len()).position(|window| window == rule).unwrap();
    for (block, node_count, end, is_sound) in [
        (4_u32, 5000, 20_000, true),
        (1, 1, 3, true),
        (0, 5000, 20_000, false),
        (4, 0, 20_000, false),
        (4, u32::MAX, 20_000, false),
        (4, 5000, u32::MAX, false),
        (4, 5000, 20_001, false),
        (4, 5001, 20_000, false),
    ] {
        bytes[at..at + 12].copy_from_slice(&[block, node_count, end].map(u32::to_ne_bytes).concat());
        let reader = super::damage::reader_of(&bytes);
        let found = get(&reader, Rank::Wildcard, "pmix.pmap");
        assert_eq!(found.is_ok(), is_sound, "{block} {node_count} {end}: {found:?}");
        assert_eq!(matches!(found, Err(ReadError::Damaged(Damage::Code { .. }))), !is_sound);
    }
}

#[test]
fn damaged_rules_are_refused_and_never_longer_than_the_job() {
    let mut bytes = super::damage::bytes_of(&job(dealt(2, 3, 6), 3, 6, Some(1)));
    let parameters = [2_u64, 6, 1, 0].map(u64::to_ne_bytes).concat();
    let at = bytes.windows(parameters.len()).position(|window| window == parameters).unwrap();
    let words = [0, 1, 5, 6, 7, 1 << 24, (1 << 24) + 1, u64::from(u32::MAX), 1 << 32, u64::MAX];
    for (block, end) in words.into_iter().flat_map(|block| words.map(|end| (block, end))) {
        bytes[at..at + 16].copy_from_slice(&[block, end].map(u64::to_ne_bytes).concat());
        let reader = super::damage::reader_of(&bytes);
        let is_sound = (1..=u64::from(u32::MAX)).contains(&block) && end <= 6;
        for node in [0, 2] {
            match peers(&reader, node) {
                Ok(Value::String(text)) => assert!(is_sound && text.as_bytes().len() <= 11, "{block} {end}: {text:?}"),
                Err(ReadError::NotFound) => assert!(is_sound, "{block} {end}"),
                Err(ReadError::Damaged(Damage::Code { .. })) => assert!(!is_sound, "{block} {end}"),
                other => panic!("{block} {end}: {other:?}"),
            }
        }
        // The own list is written out.
        assert_eq!(peers(&reader, 1), Ok("2,3".into()));
        drop((reader.job_record(), reader.job_entries()));
    }
}
