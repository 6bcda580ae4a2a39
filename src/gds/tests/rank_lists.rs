//! The local peers of nodes, stored as a rule where the process map is one.

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

/// A job of so many processes and nodes of which nothing else is known.
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
            let store = registered(&job(values.clone(), 3, 9, own_node));
            let reader = attached(&store);
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
    let store = registered(&job(dealt(100, 3, 300), 3, 300, Some(1)));
    let reader = attached(&store);
    // The short way leads to where something was found before.
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
    let store = registered(&job(dealt(2, 3, 3), 3, 3, Some(2)));
    let reader = attached(&store);
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
    fn every_nodes_list_is_that_of_the_map(map in any_map(), own in 0_usize..6, is_told in any::<bool>()) {
        let names: Vec<String> = (0..map.node_count()).map(|node| format!("n{node}")).collect();
        let text_of = |node| {
            let mut text = String::new();
            map.text_of(node, &mut text);
            Some(text).filter(|text| !text.is_empty())
        };
        let info = |name: &str, value: Value| Info::new(key(name), value);
        let mut description =
            vec![info("pmix.nmap", names.join(",").into()), info("pmix.pmap", Value::Regex(generate_ranks(&map)))];
        // What the host says of some nodes is what would follow.
        for (node, name) in names.iter().enumerate().step_by(2).filter(|_| is_told) {
            let told = text_of(node).map(|text| info(PEERS, text.into()));
            let entries = std::iter::once(info("pmix.hname", name.as_str().into())).chain(told).collect();
            description.push(info("pmix.node.arr", Value::info_array(entries)));
        }
        let context = Context::new(format!("n{own}"));
        let first = parse(&namespace(), &context, &description, None).unwrap();
        let later = parse(&namespace(), &context, &[info("late", 1_u32.into())], Some(&first)).unwrap();
        for record in [&first, &later] {
            let store = registered(record);
            let reader = attached(&store);
            if record.node_count as usize == map.node_count() {
                let is_rule = DealtRanks::of(&map).is_some();
                prop_assert_eq!(encoding(&reader) == Some("rank lists"), is_rule);
            }
            for node in 0..map.node_count() {
                let expected = text_of(node).map(Value::from).ok_or(ReadError::NotFound);
                prop_assert_eq!(peers(&reader, node.try_into().unwrap()), expected, "of node {}", node);
            }
            let back = reader.job_record().unwrap();
            prop_assert_eq!(attached(&registered(&back)).job_record().unwrap(), back);
        }
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
        // The own one is written out.
        assert_eq!(peers(&reader, 1), Ok("2,3".into()));
        drop((reader.job_record(), reader.job_entries()));
    }
}
