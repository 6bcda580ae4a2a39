use super::*;

#[test]
fn an_empty_description_is_an_empty_record() {
    assert_eq!(record(&[]), JobRecord::default());
}

#[test]
fn nodata_keeps_nothing_unless_it_is_false() {
    let with = |flag: Value| record(&[info("pmix.job.size", 4_u32), info("pmix.reg.nodata", flag)]);
    assert_eq!(with(Value::Bool(true)), JobRecord::default());
    assert_eq!(with(Value::Undefined), JobRecord::default());
    assert_eq!(with(Value::Bool(false)).rank_count, 4);
}

#[test]
fn containers_nest_and_each_value_goes_to_its_realm() {
    let record = record(&[session(vec![
        info("pmix.session.id", 7_u32),
        info("pmix.max.size", 64_u32),
        job(vec![
            info("pmix.max.size", 8_u32),
            app(0, vec![info("pmix.max.size", 4_u32), node("n0", vec![info("pmix.local.size", 2_u32)])]),
            node("n0", vec![info("pmix.max.size", 2_u32), process(3, vec![info("pmix.lrank", 1_u16)])]),
        ]),
    ])]);
    assert_eq!(record.session_id, Some(7));
    assert_eq!(session_value(&record, "pmix.max.size"), Some(Value::Uint32(64)));
    assert_eq!(session_value(&record, "pmix.univ.size"), Some(Value::Uint32(64)));
    assert_eq!(job_value(&record, "pmix.max.size"), Some(Value::Uint32(8)));
    assert_eq!(app_value(&record, 0, "pmix.max.size"), Some(Value::Uint32(4)));
    assert_eq!(node_value(&record, 0, "pmix.max.size"), Some(Value::Uint32(2)));
    assert_eq!(proc_value(&record, 3, "pmix.lrank"), Some(Value::Uint16(1)));
    assert_eq!(record.rank_count, 4);
}

#[test]
fn containers_nest_to_the_limit_and_no_deeper() {
    let nested = |levels: u32| {
        let innermost = info("pmix.jobid", "x");
        (0..levels).fold(innermost, |inner, _| job(vec![inner]))
    };
    assert_eq!(job_value(&record(&[nested(1024)]), "pmix.jobid"), Some(Value::from("x")));
    let limit = RegisterError::Limit { limit: "levels of containers", found: 1025, max: 1024 };
    assert_eq!(refusal(&[nested(1025)]), limit);
    assert_eq!(limit.status(), Status::ERR_OUT_OF_RESOURCE);
}

#[test]
fn a_container_that_is_no_array_of_infos_is_refused() {
    for value in [Value::from("text"), strings(&["a"])] {
        let error = refusal(&[info("pmix.job.arr", value)]);
        assert!(matches!(&error, RegisterError::Type { key, .. } if key == "pmix.job.arr"), "{error}");
        assert_eq!(error.status(), Status::ERR_TYPE_MISMATCH);
    }
}

#[test]
fn a_session_array_needs_its_id() {
    let error = refusal(&[session(vec![info("pmix.univ.size", 4_u32)])]);
    assert!(matches!(error, RegisterError::Unidentified { missing: "PMIX_SESSION_ID", .. }), "{error}");
    assert_eq!(error.status(), Status::ERR_BAD_PARAM);
}

#[test]
fn a_node_array_needs_name_or_id() {
    let error = refusal(&[array("pmix.node.arr", vec![info("pmix.local.size", 1_u32)])]);
    assert!(matches!(error, RegisterError::Unidentified { container: "PMIX_NODE_INFO_ARRAY", position: 0, .. }));
    let by_id = array("pmix.node.arr", vec![info("pmix.nodeid", 5_u32), info("pmix.local.size", 1_u32)]);
    assert_eq!(node_value(&record(&[by_id]), 0, "pmix.nodeid"), Some(Value::Uint32(5)));
}

#[test]
fn a_process_array_begins_with_its_rank() {
    let late = array("pmix.pdata", vec![info("pmix.lrank", 0_u16), info("pmix.rank", Rank::Process(0))]);
    for wrong in [late, array("pmix.pdata", vec![])] {
        let error = refusal(&[process(0, vec![]), wrong]);
        assert!(matches!(error, RegisterError::Unidentified { position: 1, .. }), "{error}");
    }
    let error = refusal(&[array("pmix.pdata", vec![info("pmix.rank", "0")])]);
    assert!(matches!(error, RegisterError::Type { expected: "PMIX_PROC_RANK", found: "PMIX_STRING", .. }), "{error}");
    let wildcard = refusal(&[array("pmix.pdata", vec![info("pmix.rank", Rank::Wildcard)])]);
    assert_eq!(wildcard, RegisterError::NotAProcess { rank: Rank::Wildcard });
}

#[test]
fn a_rank_given_as_int_or_as_process_id_is_a_rank() {
    let of = |first: Info| record(&[array("pmix.pdata", vec![first, info("pmix.lrank", 3_u16)])]);
    let id = |name: &str| ProcId { namespace: Namespace::new(name).unwrap(), rank: Rank::Process(2) };
    for first in [info("pmix.rank", 2_i32), info("pmix.rank", Value::Int(2)), info("pmix.procid", id("job"))] {
        assert_eq!(proc_value(&of(first), 2, "pmix.lrank"), Some(Value::Uint16(3)));
    }
    let foreign = refusal(&[array("pmix.pdata", vec![info("pmix.procid", id("other"))])]);
    assert_eq!(foreign, RegisterError::OtherJob { expected: namespace(), found: "other".to_owned() });
}

#[test]
fn a_process_array_is_about_one_process() {
    let twice = refusal(&[process(0, vec![info("pmix.rank", Rank::Process(0))])]);
    assert!(matches!(twice, RegisterError::Twice { key: "PMIX_RANK", .. }), "{twice}");
    let id = |rank| info("pmix.procid", ProcId { namespace: namespace(), rank: Rank::from(rank) });
    let other = refusal(&[process(0, vec![id(1)])]);
    assert_eq!(other, RegisterError::OtherProcess { rank: 0, found: Rank::Process(1) });
    assert_eq!(column(&record(&[process(0, vec![id(0)])]).proc_columns, "pmix.procid"), None);
    // The job in the array is not stored under any name either, so another server's copy lacks it.
    for own in [Value::from("job"), Value::NullString] {
        let of_own = record(&[process(0, vec![info("pmix.nspace", own)])]);
        assert_eq!(column(&of_own.proc_columns, "pmix.nspace"), None);
    }
    let foreign = refusal(&[process(0, vec![info("pmix.nspace", "other")])]);
    assert_eq!(foreign, RegisterError::OtherJob { expected: namespace(), found: "other".to_owned() });
}

#[test]
fn the_application_number_may_be_missing_only_while_no_application_is_known() {
    let unnumbered = || array("pmix.app.arr", vec![info("pmix.wdir", "/w")]);
    assert_eq!(app_value(&record(&[unnumbered()]), 0, "pmix.wdir"), Some(Value::from("/w")));
    let error = refusal(&[app(0, vec![]), unnumbered()]);
    let expected =
        RegisterError::Unidentified { container: "PMIX_APP_INFO_ARRAY", position: 1, missing: "PMIX_APPNUM" };
    assert_eq!(error, expected);
}

#[test]
fn an_application_array_has_one_number() {
    let error = refusal(&[app(0, vec![info("pmix.appnum", 0_u32)])]);
    assert!(matches!(error, RegisterError::Twice { key: "PMIX_APPNUM", .. }), "{error}");
}

#[test]
fn processes_inside_an_application_array_are_of_that_application() {
    let record = record(&[
        app(1, vec![process(0, vec![]), process(1, vec![info("pmix.appnum", 2_u32)])]),
        app(2, vec![process(2, vec![])]),
    ]);
    let apps: Vec<_> = (0..3).map(|rank| proc_value(&record, rank, "pmix.appnum").unwrap().as_u32()).collect();
    assert_eq!(apps, [Some(1), Some(2), Some(2)]);
}

#[test]
fn node_arrays_of_an_application_stay_there_without_repeats() {
    let record = record(&[app(
        0,
        vec![
            node("n0", vec![info("pmix.local.size", 1_u32)]),
            node("n1", vec![info("pmix.local.size", 2_u32)]),
            node("n0", vec![info("pmix.local.size", 3_u32)]),
        ],
    )]);
    let sizes = column(&record.apps[0].node_columns, "pmix.local.size").unwrap();
    let of_node = |index| previous::value_at(sizes, index);
    assert_eq!([of_node(0), of_node(1)], [3, 2].map(|size| Some(Value::Uint32(size))));
    assert_eq!(node_value(&record, 0, "pmix.local.size"), None, "it is the application's word");
    assert_eq!(record.node_count, 2);
}

#[test]
fn the_jobs_node_arrays_win_over_the_sessions() {
    let of_job = node("n0", vec![info("pmix.node.size", 1_u32)]);
    let of_session = node("n0", vec![info("pmix.node.size", 2_u32), info("pmix.pmem", 9_u64)]);
    let record = record(&[job(vec![of_job]), session(vec![info("pmix.session.id", 0_u32), of_session])]);
    assert_eq!(node_value(&record, 0, "pmix.node.size"), Some(Value::Uint32(1)));
    assert_eq!(node_value(&record, 0, "pmix.pmem"), Some(Value::Uint64(9)));
}

#[test]
fn the_same_node_twice_is_merged_and_the_last_value_stays() {
    let record = record(&[
        node("n0", vec![info("pmix.nodeid", 4_u32), info("pmix.node.size", 1_u32), info("pmix.pmem", 9_u64)]),
        array("pmix.node.arr", vec![info("pmix.nodeid", 4_u32), info("pmix.node.size", 2_u32)]),
        node("alias", vec![info("pmix.alias", "n0,alias"), info("pmix.node.size", 3_u32)]),
    ]);
    assert_eq!(record.node_count, 1);
    assert_eq!(node_value(&record, 0, "pmix.node.size"), Some(Value::Uint32(3)));
    assert_eq!(node_value(&record, 0, "pmix.pmem"), Some(Value::Uint64(9)));
}

#[test]
fn aliases_accumulate_in_both_forms_and_the_maps_name_is_one() {
    let mut description = maps("n0", "0");
    description.push(array(
        "pmix.node.arr",
        vec![info("pmix.hname", "n0.cluster"), info("pmix.nodeid", 0_u32), info("pmix.alias", "a,b")],
    ));
    description.push(node("n0.cluster", vec![info("pmix.alias", strings(&["b", "c"]))]));
    let record = record(&description);
    assert_eq!(record.node_count, 1);
    assert_eq!(node_value(&record, 0, "pmix.hname"), Some(Value::from("n0.cluster")));
    assert_eq!(node_value(&record, 0, "pmix.alias"), Some(Value::from("a,b,c,n0")));
}

#[test]
fn a_node_given_twice_may_repeat_all_its_names() {
    // Regression: the names were counted twice, so a node with more than half of the names allowed could not be
    // updated.
    let names: Vec<String> = (0..200).map(|number| format!("alias{number}")).collect();
    let with_names = || node("a", vec![info("pmix.alias", names.join(","))]);
    let once = record(&[with_names(), with_names()]);
    assert_eq!(node_value(&once, 0, "pmix.alias"), Some(Value::from(names.join(","))));
    let more: Vec<String> = (0..57).map(|number| format!("other{number}")).collect();
    let error = refusal(&[with_names(), node("a", vec![info("pmix.alias", more.join(","))])]);
    assert!(matches!(error, RegisterError::Limit { found: 257, max: 256, .. }), "{error}");
}

#[test]
fn two_nodes_cannot_have_one_id() {
    let with_id = |name: &str| node(name, vec![info("pmix.nodeid", 3_u32)]);
    let error = refusal(&[info("pmix.nmap", "a,b"), with_id("a"), with_id("b")]);
    assert_eq!(error, RegisterError::NodeIdTwice { id: 3, first: 0, second: 1 });
}

#[test]
fn numbers_of_nodes_are_compared_when_all_has_been_said() {
    // Regression: the update "n1 is 5" was refused, although n1 becomes 240 later in it (found by the fuzzer).
    let id = |id: u32| info("pmix.nodeid", id);
    let nested = array("pmix.node.arr", vec![id(5), node("n1", vec![id(240)])]);
    let description = [node("n1", vec![id(5)]), nested];
    let once = record(&description);
    let ids = |record: &JobRecord| [0, 1].map(|index| node_value(record, index, "pmix.nodeid"));
    assert_eq!((once.node_count, ids(&once)), (2, [240, 5].map(|id| Some(Value::Uint32(id)))));
    assert_eq!(parse(&namespace(), &Context::new("n1"), &description, Some(&once)).unwrap(), once);
}

#[test]
fn of_several_nodes_with_a_number_those_are_named_that_keep_it() {
    let numbered = |names: &[(&str, u32)]| {
        let nodes = names.iter().map(|(name, id)| node(name, vec![info("pmix.nodeid", *id)]));
        [info("pmix.nmap", "a,b,c")].into_iter().chain(nodes).collect::<Vec<Info>>()
    };
    let swapped = record(&numbered(&[("a", 8), ("b", 9), ("a", 9), ("b", 8)]));
    assert_eq!([0, 1].map(|index| node_value(&swapped, index, "pmix.nodeid")), [9_u32, 8].map(|id| Some(id.into())));
    for last in ["a", "b", "c"] {
        let error = refusal(&numbered(&[("a", 3), ("b", 3), ("c", 3), (last, 4)]));
        let (first, second) = match last {
            "a" => (1, 2),
            "b" => (0, 2),
            _ => (0, 1),
        };
        assert_eq!(error, RegisterError::NodeIdTwice { id: 3, first, second }, "{last} has another");
    }
}

#[test]
fn an_unknown_name_with_a_known_id_is_another_name_of_that_node() {
    let with_id = |name: &str| node(name, vec![info("pmix.nodeid", 3_u32)]);
    let record = record(&[with_id("a"), with_id("b")]);
    assert_eq!(record.node_count, 1);
    assert_eq!(node_value(&record, 0, "pmix.hname"), Some(Value::from("b")));
    assert_eq!(node_value(&record, 0, "pmix.alias"), Some(Value::from("a")));
}

#[test]
fn an_alias_that_two_nodes_share_does_not_merge_them() {
    let with_alias = |name: &str| node(name, vec![info("pmix.alias", "localhost")]);
    assert_eq!(record(&[with_alias("a"), with_alias("b")]).node_count, 2);
}

#[test]
fn loose_values_go_to_their_keys_default_realm() {
    let record = record(&[
        info("pmix.univ.size", 16_u32),
        info("pmix.wdir", "/w"),
        info("pmix.lpeers", "0,1"),
        info("pmix.max.size", 4_u32),
        info("my.key", 1_i64),
        job(vec![info("pmix.tmpdir", "/tmp/x"), info("pmix.app.argv", "a b"), info("pmix.local.size", 2_u32)]),
    ]);
    assert_eq!(session_value(&record, "pmix.univ.size"), Some(Value::Uint32(16)));
    assert_eq!(session_value(&record, "pmix.tmpdir"), Some(Value::from("/tmp/x")));
    assert_eq!(app_value(&record, 0, "pmix.wdir"), Some(Value::from("/w")));
    assert_eq!(app_value(&record, 0, "pmix.app.argv"), Some(Value::from("a b")));
    assert_eq!(job_value(&record, "pmix.max.size"), Some(Value::Uint32(4)));
    assert_eq!(job_value(&record, "my.key"), Some(Value::Int64(1)));
    assert_eq!(record.own_node, Some(0));
    assert_eq!(node_value(&record, 0, "pmix.hname"), Some(Value::from("n1")));
    assert_eq!(node_value(&record, 0, "pmix.lpeers"), Some(Value::from("0,1")));
    assert_eq!(node_value(&record, 0, "pmix.local.size"), Some(Value::Uint32(2)));
}

#[test]
fn loose_node_values_join_the_own_node_however_it_is_called() {
    let loose = || info("pmix.pmem", 5_u64);
    let mut description = maps("n0,n1", "0;1");
    description.push(loose());
    let by_name = record(&description);
    assert_eq!((by_name.own_node, by_name.node_count), (Some(1), 2));
    assert_eq!(node_value(&by_name, 1, "pmix.pmem"), Some(Value::Uint64(5)));
    assert_eq!(node_value(&by_name, 0, "pmix.pmem"), None);

    let context = Context { aliases: vec!["n0".to_owned()], ..Context::new("login.cluster") };
    let by_alias = parse(&namespace(), &context, &description, None).unwrap();
    assert_eq!(by_alias.own_node, Some(0));

    description.push(info("pmix.hname", "n0"));
    assert_eq!(record(&description).own_node, Some(0));
}

#[test]
fn without_loose_values_the_own_node_is_one_only_if_the_job_uses_it() {
    assert_eq!(record(&maps("n0,n1", "0;1")).own_node, Some(1));
    let elsewhere = record(&maps("n0,n2", "0;1"));
    assert_eq!((elsewhere.own_node, elsewhere.node_count), (None, 2));
}

#[test]
fn loose_application_values_need_an_only_application() {
    let loose = info("pmix.wdir", "/w");
    let only = record(&[app(3, vec![]), loose.clone()]);
    assert_eq!(app_value(&only, 3, "pmix.wdir"), Some(Value::from("/w")));
    let error = refusal(&[loose, app(0, vec![]), app(1, vec![])]);
    assert_eq!(error, RegisterError::WhichApp { key: "pmix.wdir".to_owned(), app_count: 2 });
    assert!(error.to_string().contains("PMIX_APP_INFO_ARRAY"));
}

#[test]
fn a_map_given_twice_is_refused() {
    for key in ["pmix.nmap", "pmix.pmap"] {
        let error = refusal(&[info(key, "0"), job(vec![info(key, "0")])]);
        assert!(matches!(error, RegisterError::Twice { .. }), "{error}");
    }
}

#[test]
fn the_description_of_another_job_is_refused() {
    assert!(register(&[info("pmix.nspace", "job")]).is_ok());
    let error = refusal(&[job(vec![info("pmix.nspace", "other")])]);
    assert_eq!(error, RegisterError::OtherJob { expected: namespace(), found: "other".to_owned() });
}

#[test]
fn the_old_name_of_the_process_array_is_the_same_key() {
    assert_eq!(keys::PROC_DATA.name(), keys::PROC_INFO_ARRAY.name());
    let record = record(&[array(keys::PROC_DATA.name(), vec![info("pmix.rank", Rank::Process(0))])]);
    assert_eq!(record.rank_count, 1);
}
