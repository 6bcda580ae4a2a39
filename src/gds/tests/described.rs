//! A host's description: nodes, sessions and applications are found, and the whole is read back and written again.

use super::*;
use crate::gds::job_record::{AppRecord, JobRecord};
use crate::gds::{Datastore, NodeSelector, Origin};
use crate::types::{DataType, Info};

#[test]
fn nodes_are_found_by_number_name_alias_and_process() {
    let mut record = block_job(3, 2);
    record.node_columns[1] =
        column("pmix.nodeid", ColumnValues::Numbers { data_type: DataType::Uint32, values: vec![30, 10, 20] });
    record.node_columns.push(column("pmix.alias", ColumnValues::Sparse(vec![(1, "n1,n1.cluster".into())])));
    record.proc_columns[6] = column(
        "pmix.nodeid",
        ColumnValues::Numbers { data_type: DataType::Uint32, values: vec![30, 30, 10, 10, 20, 20] },
    );
    let mut store = store(BackingKind::Heap);
    store.register_record(&namespace(), &record).unwrap();
    let reader = attached(&mut store);
    let leader = |rank: Rank, selector| read(&reader, rank, "pmix.lldr", RealmRequest::Node(selector), None);
    let second = Ok(Value::ProcRank(Rank::Process(2)));
    assert_eq!(leader(Rank::Wildcard, NodeSelector::Id(10)), second);
    assert_eq!(leader(Rank::Wildcard, NodeSelector::Name("node00001")), second);
    assert_eq!(leader(Rank::Wildcard, NodeSelector::Name("n1.cluster")), second);
    assert_eq!(leader(Rank::Process(3), NodeSelector::Implied), second);
    assert_eq!(leader(Rank::Wildcard, NodeSelector::Implied), Ok(Value::ProcRank(Rank::Process(0))));
    assert_eq!(leader(Rank::Wildcard, NodeSelector::Id(11)), Err(ReadError::NotFound));
    assert_eq!(get(&reader, 5, "pmix.hname"), Ok(Value::from("node00002")));
    assert_eq!(get(&reader, 3, "pmix.lpeers"), Ok(Value::from("2,3")));
    assert_eq!(get(&reader, Rank::Wildcard, "pmix.lpeers"), Ok(Value::from("0,1")));
}

/// The first node that had the name among its aliases was found.
#[test]
fn a_nodes_own_name_wins_over_anothers_alias() {
    let mut record = block_job(3, 2);
    record
        .node_columns
        .push(column("pmix.alias", ColumnValues::Sparse(vec![(0, "node00002,al".into()), (1, "al".into())])));
    let mut store = store(BackingKind::Heap);
    store.register_record(&namespace(), &record).unwrap();
    let reader = attached(&mut store);
    for (name, rank) in [("node00002", 4), ("al", 0), ("node00001", 2)] {
        let realm = RealmRequest::Node(NodeSelector::Name(name));
        let leader = read(&reader, Rank::Wildcard, "pmix.lldr", realm, None);
        assert_eq!(leader, Ok(Value::ProcRank(Rank::Process(rank))), "{name}");
    }
}

/// Four processes on a node, and a second application.
fn job_of_two_applications() -> JobRecord {
    let mut record = block_job(1, 4);
    record.apps.push(AppRecord {
        number: 5,
        entries: vec![(key("pmix.app.size"), Value::Uint32(1))],
        ..Default::default()
    });
    record
}

#[test]
fn session_and_application_are_found_by_number_or_implied() {
    let mut record = job_of_two_applications();
    record.proc_columns[3] = column("pmix.appnum", ColumnValues::Sparse(vec![(3, Value::Uint32(5))]));
    let mut store = store(BackingKind::Heap);
    store.register_record(&namespace(), &record).unwrap();
    let reader = attached(&mut store);
    let size = |rank: Rank, realm| read(&reader, rank, "pmix.app.size", realm, None);
    assert_eq!(size(Rank::Process(3), RealmRequest::Default), Ok(Value::Uint32(1)));
    assert_eq!(size(Rank::Process(0), RealmRequest::Default), Err(ReadError::NotFound), "of no application");
    assert_eq!(size(Rank::Wildcard, RealmRequest::Default), Ok(Value::Uint32(4)));
    assert_eq!(size(Rank::Wildcard, RealmRequest::App(Some(5))), Ok(Value::Uint32(1)));
    let universe = |session| read(&reader, 0, "pmix.univ.size", RealmRequest::Session(session), None);
    assert_eq!(universe(None), Ok(Value::Uint32(4)));
    assert_eq!(universe(Some(7)), Ok(Value::Uint32(4)));
    assert_eq!(universe(Some(8)), Err(ReadError::NotFound));
}

#[test]
fn where_a_process_runs_is_not_guessed() {
    // Regression: if a host gave process arrays without places, every process was on the server's node.
    let mut record = block_job(2, 2);
    record.proc_columns.truncate(6);
    let mut store = store(BackingKind::Heap);
    store.register_record(&namespace(), &record).unwrap();
    let reader = attached(&mut store).of_process(Some(1));
    assert_eq!(get(&reader, 3, "pmix.hname"), Err(ReadError::NotFound));
    assert_eq!(get(&reader, 3, "pmix.nodeid"), Err(ReadError::NotFound));
    assert_eq!(get(&reader, 1, "pmix.hname"), Ok("node00000".into()), "the reader itself is here");
    assert_eq!(get(&reader, 3, "pmix.node.size"), Ok(Value::Uint32(2)), "of the own node");
}

#[test]
fn the_application_of_the_whole_job_is_the_readers_own() {
    let mut record = job_of_two_applications();
    record.proc_columns[3] =
        column("pmix.appnum", ColumnValues::Values([0_u32, 0, 0, 5].map(|app| Some(app.into())).into()));
    let mut store = store(BackingKind::Heap);
    store.register_record(&namespace(), &record).unwrap();
    let size = |reader: &NamespaceReader| get(reader, Rank::Wildcard, "pmix.app.size");
    assert_eq!(size(&attached(&mut store).of_process(Some(3))), Ok(Value::Uint32(1)));
    assert_eq!(size(&attached(&mut store).of_process(Some(0))), Ok(Value::Uint32(4)));
    assert_eq!(size(&attached(&mut store)), Ok(Value::Uint32(4)), "a stranger means application 0");
}

#[test]
fn the_job_record_is_read_back_as_it_was_written() {
    let mut store = store(BackingKind::Heap);
    let mut record = block_job(3, 5);
    record.proc_columns.push(column("few", ColumnValues::Sparse(vec![(2, "x".into()), (14, Value::NullString)])));
    store.register_record(&namespace(), &record).unwrap();
    let back = attached(&mut store).job_record().unwrap();
    store.register_record(&namespace(), &back).unwrap();
    assert_eq!(attached(&mut store).job_record().unwrap(), back, "writing what was read changes nothing");
    assert_eq!((back.session, back.apps, back.rank_count), (record.session, record.apps, record.rank_count));
    let by_key = |mut columns: Vec<Column>| {
        columns.sort_by(|a, b| a.key.cmp(&b.key));
        columns
    };
    assert_eq!(by_key(back.proc_columns), by_key(record.proc_columns));
}

#[test]
fn peers_without_segments_get_one_array_for_each_session_app_node_and_process() {
    let mut store = store(BackingKind::Heap);
    store.register_record(&namespace(), &block_job(2, 3)).unwrap();
    let entries = store.job_entries(&namespace()).unwrap();
    let count = |name: &str| entries.iter().filter(|kval| kval.key.as_str() == name).count();
    let counts = ["pmix.job.size", "pmix.ssn.arr", "pmix.node.arr", "pmix.app.arr", "pmix.pdata"].map(count);
    assert_eq!(counts, [1, 1, 2, 1, 6]);
    let last = entries.last().unwrap();
    let Value::DataArray(array) = &last.value else { panic!("{last:?}") };
    let infos: Vec<(&str, &Value)> = array
        .elements
        .iter()
        .map(|element| match element {
            Value::Info(info) => (info.key.as_str(), &info.value),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(infos[0], ("pmix.rank", &Value::ProcRank(Rank::Process(5))));
    assert!(infos.contains(&("pmix.hname", &"node00001".into())) && infos.contains(&("pmix.lrank", &Value::Uint16(2))));
}

#[test]
fn a_host_description_is_parsed_stored_and_updated() {
    use crate::gds::registration::JobDescription;
    for backing in [BackingKind::Heap, BackingKind::Memfd] {
        let mut store = store(backing);
        let description = JobDescription::new(&namespace())
            .nodes(["n0", "n1"])
            .ranks_by_node([vec![0, 1], vec![2]])
            .session_id(7)
            .build()
            .unwrap();
        let summary = store.register(&namespace(), &description).unwrap();
        assert_eq!((summary.job_size, summary.node_count), (Some(3), Some(2)));
        store.commit(&namespace(), 2, Origin::Remote, &[posted(Scope::Global, "a", 1_u32)]).unwrap();
        let reader = attached(&mut store);
        let check = || {
            assert_eq!(get(&reader, Rank::Wildcard, "pmix.job.size"), Ok(Value::Uint32(3)));
            assert_eq!(get(&reader, 2, "pmix.hname"), Ok("n1".into()));
            assert_eq!(get(&reader, 1, "pmix.lrank"), Ok(Value::Uint16(1)));
            assert_eq!(get(&reader, Rank::Wildcard, "pmix.lpeers"), Ok("0,1".into()));
            assert_eq!(get(&reader, 2, "a"), Ok(Value::Uint32(1)));
        };
        check();
        assert_eq!(get(&reader, Rank::Wildcard, "late"), Err(ReadError::NotFound));
        store.register(&namespace(), &[Info::new(key("late"), "value")]).unwrap();
        check();
        assert_eq!(get(&reader, Rank::Wildcard, "late"), Ok("value".into()));
        let refused = [Info::new(key("pmix.job.size"), "three")];
        assert!(store.register(&namespace(), &refused).is_err());
        check();
    }
}
