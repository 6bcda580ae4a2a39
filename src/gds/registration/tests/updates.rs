use super::*;

fn update(previous: &JobRecord, description: &[Info]) -> JobRecord {
    parse(&namespace(), &context(), description, Some(previous)).unwrap()
}

fn first() -> JobRecord {
    let mut description = maps("n0,n1", "0,1;2");
    description.extend([
        info("pmix.jobid", "before"),
        info("pmix.cmd.line", "kept"),
        info("pmix.univ.size", 8_u32),
        app(1, vec![info("pmix.wdir", "/w"), info("pmix.app.argv", "a")]),
        node("n1", vec![info("pmix.pmem", 5_u64), info("pmix.alias", "b")]),
        process(1, vec![info("pmix.pdir", "/one"), info("pmix.lrank", 7_u16)]),
    ]);
    record(&description)
}

#[test]
fn an_empty_update_changes_no_answer() {
    let (before, after) = (first(), update(&first(), &[]));
    assert_eq!((before.rank_count, before.node_count), (after.rank_count, after.node_count));
    assert_eq!((before.own_node, before.session_id), (after.own_node, after.session_id));
    assert_eq!((&before.session, &before.job, &before.apps), (&after.session, &after.job, &after.apps));
    for column in &before.proc_columns {
        for rank in 0..before.rank_count {
            let key = column.key.as_str();
            assert_eq!(proc_value(&before, rank, key), proc_value(&after, rank, key), "{key} of {rank}");
        }
    }
    for column in &before.node_columns {
        for index in 0..before.node_count {
            let key = column.key.as_str();
            assert_eq!(node_value(&before, index, key), node_value(&after, index, key), "{key} of {index}");
        }
    }
}

#[test]
fn later_values_replace_earlier_ones_and_the_rest_stays() {
    let record = update(
        &first(),
        &[
            info("pmix.jobid", "after"),
            info("pmix.wdir", "/new"),
            node("b", vec![info("pmix.node.size", 3_u32)]),
            process(1, vec![info("pmix.pdir", "/two")]),
            process(2, vec![info("pmix.hname", "moved")]),
        ],
    );
    assert_eq!(job_value(&record, "pmix.jobid"), Some(Value::from("after")));
    assert_eq!(job_value(&record, "pmix.cmd.line"), Some(Value::from("kept")));
    assert_eq!(app_value(&record, 1, "pmix.wdir"), Some(Value::from("/new")));
    assert_eq!(app_value(&record, 1, "pmix.app.argv"), Some(Value::from("a")));
    assert_eq!(record.node_count, 2);
    assert_eq!(node_value(&record, 1, "pmix.node.size"), Some(Value::Uint32(3)));
    assert_eq!(node_value(&record, 1, "pmix.pmem"), Some(Value::Uint64(5)));
    assert_eq!(proc_value(&record, 1, "pmix.pdir"), Some(Value::from("/two")));
    assert_eq!(proc_value(&record, 1, "pmix.lrank"), Some(Value::Uint16(7)));
    assert_eq!(proc_value(&record, 1, "pmix.hname"), Some(Value::from("n0")));
    assert_eq!(proc_value(&record, 2, "pmix.hname"), Some(Value::from("moved")));
}

#[test]
fn new_maps_replace_what_followed_from_the_old_ones() {
    let mut description = maps("n2,n1", "0;1,2,3");
    description.push(process(0, vec![info("pmix.reinc", 1_u32)]));
    let record = update(&first(), &description);
    assert_eq!((record.rank_count, record.node_count, record.own_node), (4, 2, Some(1)));
    assert_eq!(job_value(&record, "pmix.job.size"), Some(Value::Uint32(4)));
    assert_eq!(job_value(&record, "pmix.nlist"), Some(Value::from("n2,n1")));
    assert_eq!(node_value(&record, 1, "pmix.lpeers"), Some(Value::from("1,2,3")));
    assert_eq!(node_value(&record, 1, "pmix.pmem"), Some(Value::Uint64(5)));
    assert_eq!(node_value(&record, 0, "pmix.pmem"), None);
    assert_eq!(proc_value(&record, 1, "pmix.hname"), Some(Value::from("n1")));
    assert_eq!(proc_value(&record, 1, "pmix.lrank"), Some(Value::Uint16(0)));
    assert_eq!(proc_value(&record, 1, "pmix.pdir"), Some(Value::from("/one")));
}

#[test]
fn a_rank_beyond_the_earlier_job_size_is_refused() {
    let error = parse(&namespace(), &context(), &[process(3, vec![])], Some(&first())).unwrap_err();
    assert_eq!(*error.cause(), RegisterError::RankOutsideJob { rank: 3, place: "process arrays", job_size: 3 });
}

#[test]
fn a_job_does_not_shrink_under_its_process_map() {
    // Regression: such a size was refused. OpenPMIx accepts it, and the processes of the map stay.
    let shrunk = update(&first(), &[info("pmix.job.size", 2_u32)]);
    assert_eq!((shrunk.rank_count, job_value(&shrunk, "pmix.job.size")), (3, Some(Value::Uint32(2))));
    assert_eq!(proc_value(&shrunk, 2, "pmix.hname"), Some(Value::from("n1")));
    // An update without the size does not change it.
    let later = update(&shrunk, &[process(2, vec![info("pmix.pdir", "/two")])]);
    assert_eq!((later.rank_count, job_value(&later, "pmix.job.size")), (3, Some(Value::Uint32(2))));
    assert_eq!(proc_value(&later, 2, "pmix.pdir"), Some(Value::from("/two")));
}

#[test]
fn the_slots_derived_from_the_size_of_a_job_grow_with_it() {
    let slots = |record: &JobRecord| job_value(record, "pmix.max.size");
    let first = || record(&[info("pmix.job.size", 3_u32)]);
    let grown = update(&first(), &[info("pmix.job.size", 5_u32)]);
    assert_eq!((grown.rank_count, slots(&grown)), (5, Some(Value::Uint32(5))));
    let told = update(&first(), &[info("pmix.max.size", 9_u32)]);
    assert_eq!(slots(&update(&told, &[info("pmix.job.size", 5_u32)])), Some(Value::Uint32(9)), "the host's own number");
}

#[test]
fn a_loose_application_value_counts_the_earlier_applications() {
    let two = update(&first(), &[app(2, vec![])]);
    let error = parse(&namespace(), &context(), &[info("pmix.wdir", "/x")], Some(&two)).unwrap_err();
    assert_eq!(*error.cause(), RegisterError::WhichApp { key: "pmix.wdir".to_owned(), app_count: 2 });
}

#[test]
fn a_new_node_map_alone_keeps_the_earlier_job_size() {
    let before = record(&[info("pmix.job.size", 4_u32)]);
    let after = update(&before, &[info("pmix.nmap", "n0,n1")]);
    assert_eq!((after.rank_count, after.node_count), (4, 2));
    assert_eq!(job_value(&after, "pmix.job.size"), Some(Value::Uint32(4)));
}

#[test]
fn a_new_map_in_the_plain_form_replaces_the_earlier_one_in_the_other() {
    // Regression: the encoded map of the earlier registration took precedence over the plain one of the update.
    let plain = [info("pmix.nmap.raw", "n5,n6,n7"), info("pmix.pmap.raw", "0;1;2,3")];
    let after = update(&first(), &plain);
    assert_eq!((after.rank_count, after.node_count), (4, 3));
    assert_eq!(proc_value(&after, 3, "pmix.hname"), Some(Value::from("n7")));
    assert_eq!(job_value(&after, "pmix.nmap"), None, "it would contradict the plain one");
}

#[test]
fn a_new_process_map_pairs_with_the_earlier_node_map() {
    let after = update(&first(), &[info("pmix.pmap", "0;1,2,3")]);
    assert_eq!(proc_value(&after, 3, "pmix.hname"), Some(Value::from("n1")));
    assert_eq!(job_value(&after, "pmix.job.size"), Some(Value::Uint32(4)));
}

#[test]
fn an_update_without_data_leaves_everything_as_it_was() {
    assert_eq!(update(&first(), &[info("pmix.reg.nodata", true), info("pmix.jobid", "lost")]), first());
    // The description is not compared with itself.
    let twice = [process(0, vec![]), process(0, vec![]), info("pmix.reg.nodata", true)];
    assert_eq!(update(&first(), &twice), first());
}

/// Regression: a process kept the number that its node had before the host numbered the nodes, and so was on no node or
/// another.
#[test]
fn processes_go_with_nodes_that_are_numbered_anew() {
    let before = record(&maps("n0,n1", "0;1"));
    let numbered = |name: &str, id: u32| node(name, vec![info("pmix.nodeid", id)]);
    let after = update(&before, &[numbered("n0", 10), numbered("n1", 0)]);
    assert_eq!(proc_value(&after, 0, "pmix.nodeid"), Some(Value::Uint32(10)));
    assert_eq!(proc_value(&after, 1, "pmix.nodeid"), Some(Value::Uint32(0)));
    assert_eq!(proc_value(&after, 1, "pmix.hname"), Some(Value::from("n1")));
}

/// Regression: a value derived from an offset was kept like a host's value.
#[test]
fn global_ranks_follow_a_new_offset_unless_they_were_told() {
    let mut description = maps("n0", "0,1,2");
    description.extend([info("pmix.offset", Rank::from(10)), process(1, vec![info("pmix.grank", Rank::from(77))])]);
    let after = update(&record(&description), &[info("pmix.offset", Rank::from(20))]);
    let global = |rank| proc_value(&after, rank, "pmix.grank").and_then(|value| value.as_u32());
    assert_eq!([0, 1, 2].map(global), [Some(20), Some(77), Some(22)]);
}

#[test]
fn lists_of_ranks_by_rule_stay_one_as_long_as_they_and_the_nodes_do() {
    let peers = |record: &JobRecord| column(&record.node_columns, "pmix.lpeers").unwrap().clone();
    let lists = |record: &JobRecord| [0, 1].map(|node| node_value(record, node, "pmix.lpeers"));
    let first = record(&maps("n0,n1", "0,1;2"));
    assert!(matches!(peers(&first), ColumnValues::RankLists(_)));
    let told = update(&first, &[node("n1", vec![info("pmix.lpeers", "2")]), info("late", 1_u8)]);
    assert_eq!(peers(&told), peers(&first), "nothing else was told");
    let larger = update(&told, &[node("n2", vec![info("pmix.pmem", 5_u64)])]);
    assert_eq!(lists(&larger), ["0,1", "2"].map(|text| Some(Value::from(text))));
    let other = update(&first, &[node("n1", vec![info("pmix.lpeers", "1")])]);
    assert_eq!(lists(&other), ["0,1", "1"].map(|text| Some(Value::from(text))), "what the host says counts");
    let mapped = update(&first, &maps("n1,n0", "0;1,2"));
    assert_eq!(lists(&mapped), ["0", "1,2"].map(|text| Some(Value::from(text))), "no rule");
}

/// Regression: the size of the map was taken from the host's number of nodes. The positions of further nodes became
/// numbers like those given by the host.
#[test]
fn mapped_nodes_stay_so_whatever_number_of_nodes_was_told() {
    for told in [1_u32, 9] {
        let mut description = maps("n0,n1", "0;1");
        description.extend([info("pmix.num.nodes", told), node("n2", vec![info("pmix.nodeid", 2_u32)])]);
        let before = record(&description);
        let numbered = |name: &str, id: u32| [node(name, vec![info("pmix.nodeid", id)])];
        let after = update(&before, &numbered("n0", 1));
        let ids = [0, 1, 2].map(|index| node_value(&after, index, "pmix.nodeid"));
        assert_eq!(ids, [1_u32, 3, 2].map(|id| Some(Value::from(id))), "{told}");
        assert_eq!(job_value(&after, "pmix.num.nodes"), Some(Value::Uint32(told)));
        let twice = parse(&namespace(), &context(), &numbered("n0", 2), Some(&before)).unwrap_err();
        assert_eq!(*twice.cause(), RegisterError::NodeIdTwice { id: 2, first: 2, second: 0 }, "{told}");
    }
}
