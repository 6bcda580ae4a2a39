//! Job information from a socket, imported into a store, gives the same answers as the server's own store.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::properties::{renumbered, tree};
use super::*;
use crate::gds::{
    Datastore, KeyRef, Lookup, NamespaceReader, NodeSelector, ReadError, RealmRequest, Store, StoreOptions,
};
use crate::shmem::BackingKind;
use crate::types::Kval;

fn store() -> Store {
    let options = StoreOptions::new("srv.0", "n1");
    Store::new(StoreOptions { backing: BackingKind::Heap, span_bytes: 64 << 20, ..options })
}

fn import(entries: Vec<Kval>) -> Result<JobRecord, RegisterError> {
    let mut job = ReceivedJob::new(namespace());
    entries.into_iter().for_each(|entry| job.entry(entry));
    job.into_record(&context(), None)
}

/// All entries that a client of modex receives over a socket.
fn received(reader: &NamespaceReader) -> Vec<Kval> {
    let mut entries = Vec::new();
    reader.visit_job_entries(|entry| entries.push(entry.into_kval())).unwrap();
    entries
}

fn kval(key: &'static str, value: impl Into<Value>) -> Kval {
    Kval { key: Key::from_static(key), value: value.into() }
}

fn kval_of(info: Info) -> Kval {
    Kval { key: info.key, value: info.value }
}

/// The answers to all lookups in a small job.
fn answers(reader: &NamespaceReader, keys: &[String]) -> Vec<(String, Result<Value, ReadError>)> {
    let realms = [
        RealmRequest::Default,
        RealmRequest::Session(None),
        RealmRequest::Session(Some(1)),
        RealmRequest::Session(Some(2)),
        RealmRequest::SessionNode(None, NodeSelector::Id(1)),
        RealmRequest::SessionNode(Some(1), NodeSelector::Name("n1")),
        RealmRequest::SessionNode(Some(2), NodeSelector::Name("n1")),
        RealmRequest::Job,
        RealmRequest::App(None),
        RealmRequest::App(Some(0)),
        RealmRequest::App(Some(2)),
        RealmRequest::Node(NodeSelector::Implied),
        RealmRequest::Node(NodeSelector::Id(1)),
        RealmRequest::Node(NodeSelector::Name("n2")),
    ];
    let ranks = (0..14).map(Rank::from).chain([Rank::Wildcard, Rank::Undefined]);
    let mut all = Vec::new();
    for rank in ranks {
        for realm in realms {
            for key in keys {
                let lookup = Lookup { rank, key: KeyRef::new(key), realm, audience: None };
                let answer = reader.get(&lookup).and_then(|value| Ok(value.to_value()?));
                all.push((format!("{key} of {rank} in {realm:?}"), answer));
            }
        }
    }
    all
}

/// A value that suits its key.
fn fitting() -> impl Strategy<Value = Info> {
    let text = || prop::sample::select(vec!["0", "0,1", "/w", ""]);
    prop_oneof![
        prop::sample::select(vec!["pmix.univ.size", "pmix.max.size", "pmix.lldr", "my.key", "pmix.unknown"])
            .prop_flat_map(|key| (0..6_u32).prop_map(move |number| info(key, number))),
        prop::sample::select(vec!["pmix.wdir", "pmix.lpeers", "pmix.lcpus", "my.text"])
            .prop_flat_map(move |key| text().prop_map(move |text| info(key, text))),
        (0..6_u16).prop_map(|number| info("pmix.lrank", number)),
        any::<u64>().prop_map(|bytes| info("pmix.pmem", bytes)),
        any::<bool>().prop_map(|is_spawned| info("pmix.spawned", is_spawned)),
    ]
}

/// A host's description: containers of all realms, some of them nested, and sometimes arbitrary values.
fn description() -> impl Strategy<Value = Vec<Info>> {
    let some = || prop::collection::vec(fitting(), 0..5).boxed();
    let of_node =
        (prop::sample::select(vec!["n0", "n1", "n2"]), some()).prop_map(|(name, infos)| node(name, infos)).boxed();
    let with_nodes = (some(), prop::collection::vec(of_node.clone(), 0..3))
        .prop_map(|(infos, nodes)| [infos, nodes].concat())
        .boxed();
    let of_session = (1..4_u32, with_nodes.clone())
        .prop_map(|(id, infos)| session([vec![info("pmix.session.id", id)], infos].concat()));
    let of_app = (0..3_u32, with_nodes).prop_map(|(number, infos)| app(number, infos));
    let of_process = (0..12_u32, some()).prop_map(|(rank, infos)| process(rank, infos));
    let contained = prop_oneof![of_node, of_app, of_process, fitting()].boxed();
    let of_job = prop::collection::vec(contained.clone(), 0..4).prop_map(job);
    let received = prop_oneof![6 => contained, 3 => of_session, 1 => of_job, 1 => tree()];
    prop::collection::vec(received, 0..10).prop_map(renumbered)
}

fn small(description: &[Info]) -> Result<JobRecord, RegisterError> {
    let limits = DescriptionLimits { ranks_max: 16, nodes_max: 8, ..DescriptionLimits::default() };
    parse(&namespace(), &Context { limits, ..context() }, description, None)
}

/// Checks that the strategy is not vacuous: a refused description is compared with nothing. Before this test, of a
/// thousand samples 163 were jobs, most of them empty; eight had processes, and none another session.
#[test]
fn enough_of_what_is_drawn_is_a_job_and_has_sessions_and_processes() {
    let mut runner = TestRunner::deterministic();
    let mut draw = || small(&description().new_tree(&mut runner).unwrap().current());
    let jobs: Vec<JobRecord> = std::iter::repeat_with(&mut draw).take(1000).filter_map(Result::ok).collect();
    let count = |is: &dyn Fn(&JobRecord) -> bool| jobs.iter().filter(|job| is(job)).count();
    let in_others = count(&|job| job.other_sessions.iter().any(|session| session.id == 2 && session.entries.len() > 1));
    let on_nodes = count(&|job| job.other_sessions.iter().any(|session| !session.node_columns.is_empty()));
    let processes = count(&|job| !job.proc_columns.is_empty());
    let found = (jobs.len(), in_others, on_nodes, processes);
    assert!(jobs.len() > 500 && in_others > 30 && on_nodes > 100 && processes > 200, "{found:?}");
}

proptest! {
    #[test]
    fn every_answer_is_the_same_after_a_journey_over_the_wire(description in description()) {
        let Ok(record) = small(&description) else { return Ok(()) };
        // The wire's value for "no number" cannot be a session's number.
        prop_assume!(record.session_id != Some(u32::MAX));
        let mut original = store();
        original.register_record(&namespace(), &record).unwrap();
        let original = original.reader(&namespace()).unwrap();
        let mut copy = store();
        copy.register_record(&namespace(), &import(received(original)).unwrap()).unwrap();
        let copy = copy.reader(&namespace()).unwrap();
        let mut keys: Vec<String> = original.keys().unwrap().iter().map(ToString::to_string).collect();
        keys.extend(copy.keys().unwrap().iter().map(ToString::to_string));
        keys.sort();
        keys.dedup();
        for (one, other) in answers(original, &keys).into_iter().zip(answers(copy, &keys)) {
            prop_assert_eq!(one, other);
        }
    }

    #[test]
    fn no_answer_of_a_server_panics(entries in prop::collection::vec(tree(), 0..12)) {
        // A contradiction is an error; the caller then asks the server instead.
        let _ = import(entries.into_iter().map(kval_of).collect());
    }
}

/// Regression: values of another type than their key's were left out everywhere. They are kept, as in the sending
/// server, except under keys that registration itself reads.
#[test]
fn unreadable_entries_are_left_out_and_the_rest_stays() {
    let record = import(vec![
        kval("pmix.job.size", "four"),
        kval("pmix.max.size", 4_u32),
        kval_of(array("pmix.node.arr", vec![info("pmix.local.size", 1_u32)])),
        kval_of(node("n1", vec![info("pmix.local.size", "many"), info("pmix.lpeers", "0,1")])),
        kval_of(array("pmix.pdata", vec![info("pmix.lrank", 1_u16)])),
        kval_of(process(1, vec![info("pmix.lrank", "one"), info("pmix.appnum", 0_u32)])),
        kval_of(process(0, vec![info("pmix.nodeid", "one"), info("pmix.lrank", 0_u16)])),
    ])
    .unwrap();
    assert_eq!((record.rank_count, record.node_count, record.own_node), (2, 1, Some(0)));
    assert_eq!(job_value(&record, "pmix.job.size"), None);
    assert_eq!(job_value(&record, "pmix.max.size"), Some(Value::Uint32(4)));
    assert_eq!(node_value(&record, 0, "pmix.local.size"), Some(Value::from("many")));
    assert_eq!(node_value(&record, 0, "pmix.lpeers"), Some(Value::from("0,1")));
    assert_eq!(proc_value(&record, 1, "pmix.appnum"), Some(Value::Uint32(0)));
    assert_eq!(proc_value(&record, 1, "pmix.lrank"), Some(Value::from("one")));
    assert_eq!(proc_value(&record, 0, "pmix.lrank"), Some(Value::Uint16(0)));
}

/// Regression: a client without a segment received the job's own session only, and found no values of the others.
#[test]
fn a_client_without_a_segment_receives_all_sessions_and_knows_its_own() {
    let of = |id: u32, size: u32, nodes: Vec<Info>| {
        session([vec![info("pmix.session.id", id), info("pmix.univ.size", size)], nodes].concat())
    };
    let described =
        vec![of(1, 5, vec![node("n0", vec![info("pmix.pmem", 7_u64)])]), of(2, 6, vec![]), of(3, 7, vec![])];
    for own in [None, Some(2)] {
        let loose = own.map(|id: u32| info("pmix.session.id", id));
        let original = record(&[loose.into_iter().collect(), described.clone()].concat());
        assert_eq!((original.session_id, original.other_sessions.len()), (own.or(Some(1)), 2));
        let mut store = store();
        store.register_record(&namespace(), &original).unwrap();
        let reader = store.reader(&namespace()).unwrap();
        let copy = import(received(reader)).unwrap();
        assert_eq!((copy.session_id, &copy.other_sessions), (original.session_id, &original.other_sessions));
        let for_all = reader.job_entries().unwrap();
        assert_eq!(for_all.iter().filter(|entry| entry.key.as_str() == "pmix.ssn.arr").count(), 1);
    }
    // A job with other sessions, but without one of its own.
    let others = kval("modex.sessions", Value::info_array(vec![of(4, 8, vec![])]));
    let copy = import(vec![kval("pmix.job.size", 1_u32), others]).unwrap();
    assert_eq!((copy.session_id, copy.other_sessions.len(), copy.other_sessions[0].id), (None, 1, 4));
}

#[test]
fn loose_values_belong_to_the_own_node_application_0_and_the_own_session() {
    let record = import(vec![
        kval_of(app(0, vec![info("pmix.app.size", 2_u32)])),
        kval_of(app(1, vec![info("pmix.app.size", 3_u32)])),
        kval("pmix.wdir", "/w"),
        kval("pmix.local.size", 2_u32),
        kval("pmix.univ.size", 9_u32),
    ])
    .unwrap();
    assert_eq!(app_value(&record, 0, "pmix.wdir"), Some(Value::from("/w")));
    assert_eq!(app_value(&record, 1, "pmix.wdir"), None);
    assert_eq!(record.own_node, Some(0));
    assert_eq!(node_value(&record, 0, "pmix.local.size"), Some(Value::Uint32(2)));
    assert_eq!(session_value(&record, "pmix.univ.size"), Some(Value::Uint32(9)));
}

#[test]
fn a_session_without_number_has_none() {
    let entries = vec![info("pmix.session.id", u32::MAX), info("pmix.univ.size", 8_u32)];
    let record = import(vec![kval_of(array("pmix.ssn.arr", entries))]).unwrap();
    assert_eq!(record.session_id, None);
    assert_eq!(session_value(&record, "pmix.session.id"), None);
    assert_eq!(session_value(&record, "pmix.univ.size"), Some(Value::Uint32(8)));
}

/// Regression: only the segment had the node values of applications and sessions.
#[test]
fn a_client_receives_the_node_values_of_applications_and_sessions() {
    let of_node = |name: &str, size: u32| node(name, vec![info("pmix.local.size", size)]);
    let description = [
        maps("n1,n2", "0;1"),
        vec![
            app(0, vec![of_node("n1", 3), of_node("n2", 4)]),
            session(vec![info("pmix.session.id", 1_u32), of_node("n2", 5)]),
        ],
    ]
    .concat();
    let mut store = store();
    store.register_record(&namespace(), &record(&description)).unwrap();
    let copy = import(store.reader(&namespace()).unwrap().job_entries().unwrap()).unwrap();
    assert_eq!(copy.apps[0].node_columns, record(&description).apps[0].node_columns);
    assert_eq!(copy.session_nodes, record(&description).session_nodes);
    assert!(!copy.session_nodes.is_empty() && !copy.apps[0].node_columns.is_empty());
}

/// Regression: if the host's name of the node differed from the server's, clients over the socket did not know their
/// node.
#[test]
fn the_own_node_is_found_by_either_name() {
    let mut store = store();
    store
        .register_record(&namespace(), &record(&[job(vec![info("pmix.hname", "n9"), info("pmix.lpeers", "0")])]))
        .unwrap();
    let copy = import(store.reader(&namespace()).unwrap().job_entries().unwrap()).unwrap();
    assert_eq!(copy.own_node, Some(0));
    assert_eq!(node_value(&copy, 0, "pmix.hname"), Some(Value::from("n9")));
}

/// Regression: the segment had one number, and clients over the socket received another.
#[test]
fn of_two_numbers_of_a_session_the_first_counts() {
    let numbers = [1_u32, 2].map(|number| info("pmix.session.id", number));
    let record = import(vec![kval_of(session(numbers.into()))]).unwrap();
    assert_eq!(record.session_id, Some(1));
    assert_eq!(session_value(&record, "pmix.session.id"), Some(Value::Uint32(1)));
}

/// Regression: a process with nothing but a rank lost it in the copy, and unknown processes got one.
#[test]
fn a_copy_has_the_processes_that_were_told_of() {
    let original = record(&[process(2, vec![])]);
    let mut store = store();
    store.register_record(&namespace(), &original).unwrap();
    let entries = store.reader(&namespace()).unwrap().job_entries().unwrap();
    let received = entries.iter().filter(|entry| entry.key.as_str() == keys::PROC_DATA.name()).count();
    let copy = import(entries).unwrap();
    let ranks = |record: &JobRecord| [0, 1, 2].map(|rank| proc_value(record, rank, "pmix.rank").is_some());
    assert_eq!((received, ranks(&original), ranks(&copy)), (1, [false, false, true], [false, false, true]));
}

#[test]
fn ranks_by_node_place_the_processes() {
    let mut job = ReceivedJob::new(namespace());
    job.node_ranks("n0".into(), "0,2".into());
    job.node_ranks("n1".into(), "1".into());
    let record = job.into_record(&context(), None).unwrap();
    assert_eq!((record.rank_count, record.node_count, record.own_node), (3, 2, Some(1)));
    assert_eq!(proc_value(&record, 2, "pmix.hname"), Some(Value::from("n0")));
    assert_eq!(node_value(&record, 1, "pmix.lpeers"), Some(Value::from("1")));
}

/// Regression: the list of a node's devices was written for each process of the node, 75 MB for 2,048 processes.
#[test]
fn lists_of_a_nodes_devices_are_written_for_the_node_alone() {
    let lists = [keys::FABRIC_COORDINATES.name(), keys::SWITCH_PEERS.name()];
    let of_node = lists.map(|key| info(key, "list")).to_vec();
    let description = [maps("n0,n1", "0,1;2"), vec![node("n0", of_node)]].concat();
    let mut store = store();
    store.register(&namespace(), &description).unwrap();
    let entries = received(store.reader(&namespace()).unwrap());
    let holds_list = |entry: &Kval| match &entry.value {
        Value::DataArray(array) => array.elements.iter().any(|element| match element {
            Value::Info(info) => lists.contains(&info.key.as_str()),
            _ => false,
        }),
        _ => false,
    };
    let holders: Vec<&str> = entries.iter().filter(|entry| holds_list(entry)).map(|entry| entry.key.as_str()).collect();
    assert_eq!(holders, [keys::NODE_INFO_ARRAY.name()]);
    let copy = import(entries).unwrap();
    let is_list = |column: &&Column| lists.contains(&column.key.as_str());
    let of_processes: Vec<&Column> = copy.proc_columns.iter().filter(is_list).collect();
    assert!(of_processes.len() == 2 && of_processes.iter().all(|column| column.values == ColumnValues::OfNode));
}
