use super::*;
use crate::gds::registration::endpoints_info;

#[test]
fn integers_of_another_width_become_the_attributes_type() {
    let record = record(&[
        info("pmix.job.size", Value::Int(4)),
        info("pmix.offset", 8_u64),
        process(1, vec![info("pmix.lrank", Value::Size(1)), info("pmix.exit.code", 3_u8)]),
        node("n0", vec![info("pmix.pmem", 5_i32), info("pmix.lldr", 0_u32)]),
    ]);
    assert_eq!(job_value(&record, "pmix.job.size"), Some(Value::Uint32(4)));
    assert_eq!(job_value(&record, "pmix.offset"), Some(Value::ProcRank(Rank::Process(8))));
    assert_eq!(proc_value(&record, 1, "pmix.lrank"), Some(Value::Uint16(1)));
    assert_eq!(proc_value(&record, 1, "pmix.exit.code"), Some(Value::Int(3)));
    assert_eq!(node_value(&record, 0, "pmix.pmem"), Some(Value::Uint64(5)));
    assert_eq!(node_value(&record, 0, "pmix.lldr"), Some(Value::ProcRank(Rank::Process(0))));
}

/// Regression: a number too large for its key was refused under every key. It is kept if registration does not read it.
#[test]
fn an_integer_that_does_not_fit_is_refused_with_its_number_or_kept() {
    let error = refusal(&[info("pmix.job.size", -1_i64)]);
    let expected = RegisterError::Range { key: "pmix.job.size".to_owned(), number: -1, expected: "PMIX_UINT32" };
    assert_eq!(error, expected);
    assert_eq!(error.status(), Status::ERR_BAD_PARAM);
    let record = record(&[process(0, vec![info("pmix.lrank", 1_u32 << 16)])]);
    assert_eq!(proc_value(&record, 0, "pmix.lrank"), Some(Value::Uint32(1 << 16)));
    let said = doubts::doubts(&record);
    assert!(said.len() == 1 && said[0].contains("\"pmix.lrank\": 65536 does not fit uint16"), "{said:?}");
}

#[test]
fn a_wrong_type_under_a_key_that_is_read_is_refused_with_key_expected_and_found() {
    let wrong = || info("pmix.hname", 4_u32);
    let error = refusal(&[wrong()]);
    let expected = RegisterError::Type { key: "pmix.hname".to_owned(), expected: "PMIX_STRING", found: "PMIX_UINT32" };
    assert_eq!(error, expected);
    assert_eq!(error.status(), Status::ERR_TYPE_MISMATCH);
    for description in [
        session(vec![info("pmix.session.id", "0")]),
        app(0, vec![wrong()]),
        app(0, vec![node("n", vec![wrong()])]),
        node("n", vec![wrong()]),
        process(0, vec![wrong()]),
        process(0, vec![info("pmix.hname", "right"), wrong()]),
    ] {
        assert!(matches!(refusal(&[description]), RegisterError::Type { .. }));
    }
    assert!(matches!(refusal(&[info("pmix.reg.nodata", "yes")]), RegisterError::Type { .. }));
}

/// Regression: such values were refused in every realm. OpenPMIx stores them as given.
#[test]
fn a_wrong_type_under_another_key_is_kept_in_every_realm() {
    let wrong = || info("pmix.nsdir", 4_u32);
    let kept = Some(Value::Uint32(4));
    assert_eq!(job_value(&record(&[wrong()]), "pmix.nsdir"), kept);
    let of_session = record(&[session(vec![info("pmix.session.id", 0_u32), wrong()])]);
    assert_eq!(session_value(&of_session, "pmix.nsdir"), kept);
    assert_eq!(app_value(&record(&[app(0, vec![wrong()])]), 0, "pmix.nsdir"), kept);
    let of_app = record(&[app(0, vec![node("n", vec![wrong()])])]);
    let in_app = column(&of_app.apps[0].node_columns, "pmix.nsdir").unwrap();
    assert_eq!((0..of_app.node_count).find_map(|at| previous::value_at(in_app, at)), kept);
    assert_eq!(node_value(&record(&[node("n", vec![wrong()])]), 0, "pmix.nsdir"), kept);
    for entries in [vec![wrong()], vec![info("pmix.nsdir", "right"), wrong()]] {
        assert_eq!(proc_value(&record(&[process(0, entries)]), 0, "pmix.nsdir"), kept);
    }
}

#[test]
fn an_integer_that_is_0_or_1_becomes_a_bool() {
    for (given, expected) in [
        (Value::Uint32(1), Value::Bool(true)),
        (Value::Int(0), Value::Bool(false)),
        (Value::Uint8(1), Value::Bool(true)),
        (Value::Uint32(2), Value::Uint32(2)),
        (Value::Int(-1), Value::Int(-1)),
        (Value::from("true"), Value::from("true")),
    ] {
        let record = record(&[info("pmix.spawned", given.clone())]);
        assert_eq!(job_value(&record, "pmix.spawned"), Some(expected.clone()), "{given:?}");
        assert_eq!(doubts::doubts(&record).is_empty(), expected.data_type() == DataType::Bool, "{given:?}");
    }
    assert_eq!(record(&[info("pmix.reg.nodata", 1_u32), info("vendor.key", 1_u8)]), JobRecord::default());
}

#[test]
fn a_map_is_text_or_bytes_and_nothing_else() {
    let with = |nodes: Value| register(&[info("pmix.nmap", nodes), info("pmix.pmap", "0;1")]);
    for nodes in [
        Value::from("pmix[n[1:0-1]]"),
        Value::from("n0,n1"),
        Value::Regex(b"raw:n0,n1\0".to_vec()),
        Value::ByteObject(b"raw:n0,n1\0".to_vec()),
    ] {
        let record = with(nodes.clone()).unwrap();
        assert_eq!(job_value(&record, "pmix.nlist"), Some(Value::from("n0,n1")));
        assert_eq!(job_value(&record, "pmix.nmap"), Some(nodes));
    }
    // Regression: PRRTE 4.1 and later give the form of OpenPMIx 6.1, which was refused. It is stored as the older form.
    let typed = |encoding: &'static str, bytes: &[u8]| {
        Value::Regex2(Box::new(Regex2 { encoding: Some(Text::from(encoding)), bytes: bytes.to_vec() }))
    };
    let record = with(typed("raw", b"n0,n1\0")).unwrap();
    assert_eq!(job_value(&record, "pmix.nlist"), Some(Value::from("n0,n1")));
    assert_eq!(job_value(&record, "pmix.nmap"), Some(Value::Regex(b"raw:n0,n1\0".to_vec())));
    assert!(matches!(with(typed("zip", b"n0,n1\0")).unwrap_err().cause(), RegisterError::Type { .. }));
    assert!(matches!(with(Value::Uint32(1)).unwrap_err().cause(), RegisterError::Type { .. }));
    assert!(matches!(with(Value::from("huh:x[")).unwrap_err().cause(), RegisterError::NodeMap(_)));
}

#[test]
fn local_peers_and_cpusets_are_accepted_in_both_forms() {
    let ranks = vec![Value::ProcRank(Rank::Process(0)), Value::ProcRank(Rank::Process(2))];
    let ranks = Value::DataArray(Box::new(DataArray { element_type: DataType::ProcRank, elements: ranks }));
    for (peers, cpusets) in [(Value::from("0,2"), Value::from("hw:0:hw:1")), (ranks, strings(&["hw:0", "hw:1"]))] {
        let record = record(&[node("n0", vec![info("pmix.lpeers", peers), info("pmix.lcpus", cpusets.clone())])]);
        assert_eq!(node_value(&record, 0, "pmix.lpeers"), Some(Value::from("0,2")));
        assert_eq!(node_value(&record, 0, "pmix.lcpus"), Some(cpusets));
    }
    // Regression: another list was refused. It is kept.
    let record = record(&[node("n0", vec![info("pmix.lpeers", strings(&["0", "2"]))])]);
    assert_eq!(node_value(&record, 0, "pmix.lpeers"), Some(strings(&["0", "2"])));
}

#[test]
fn keys_of_the_host_are_stored_as_given_in_their_realm() {
    let nested = Value::info_array(vec![info("x", 1_u8), info("y", Value::info_array(vec![]))]);
    let mine = || info("host.key", nested.clone());
    let record = record(&[
        mine(),
        session(vec![info("pmix.session.id", 0_u32), mine()]),
        app(0, vec![mine()]),
        node("n0", vec![mine()]),
        process(0, vec![mine()]),
        info("pmix.not.in.any.table", 5_i8),
    ]);
    assert_eq!(job_value(&record, "host.key"), Some(nested.clone()));
    assert_eq!(session_value(&record, "host.key"), Some(nested.clone()));
    assert_eq!(app_value(&record, 0, "host.key"), Some(nested.clone()));
    assert_eq!(node_value(&record, 0, "host.key"), Some(nested.clone()));
    assert_eq!(proc_value(&record, 0, "host.key"), Some(nested));
    assert_eq!(job_value(&record, "pmix.not.in.any.table"), Some(Value::Int8(5)));
}

#[test]
fn a_key_given_twice_has_the_later_value_in_every_realm() {
    let record = record(&[
        info("k", 1_u8),
        info("k", 2_u8),
        process(0, vec![info("k", 1_u8), info("k", 2_u8)]),
        process(1, vec![info("k", 7_u8)]),
    ]);
    assert_eq!(job_value(&record, "k"), Some(Value::Uint8(2)));
    assert_eq!(proc_value(&record, 0, "k"), Some(Value::Uint8(2)));
    assert_eq!(proc_value(&record, 1, "k"), Some(Value::Uint8(7)));
}

#[test]
fn a_namespace_value_is_a_string_where_a_string_is_wanted() {
    let record = record(&[info("pmix.nspace", namespace())]);
    assert_eq!(job_value(&record, "pmix.nspace"), Some(Value::from("job")));
}

/// Regression: each info of endpoints cost a walk over all ranks, and their number had no bound.
#[test]
fn endpoints_are_read_for_a_bounded_number_of_ranks() {
    let limits = DescriptionLimits { ranks_max: 8, ..DescriptionLimits::default() };
    let context = Context { limits, ..context() };
    let of_all = endpoints_info(Vec::new(), (0..8).map(|rank| (rank, 0)));
    let parse = |count| parse(&namespace(), &context, &vec![of_all.clone(); count], None);
    assert!(parse(16).is_ok());
    let error = parse(17).unwrap_err();
    assert_eq!(error.cause(), &RegisterError::Limit { limit: "ranks of endpoints", found: 136, max: 128 });
}

#[test]
fn sizes_beyond_the_limits_are_refused_by_name() {
    let limits =
        DescriptionLimits { ranks_max: 8, nodes_max: 2, aliases_max: 2, apps_max: 2, entries_max: 6, depth_max: 16 };
    let context = Context { limits, ..context() };
    let parse = |description: &[Info]| parse(&namespace(), &context, description, None);
    let limit_of = |description: &[Info]| match parse(description).unwrap_err().cause() {
        RegisterError::Limit { limit, .. } => *limit,
        RegisterError::NodeMap(_) => "node map",
        RegisterError::ProcMap(_) => "process map",
        other => panic!("{other}"),
    };
    assert_eq!(parse(&[info("pmix.job.size", 8_u32)]).unwrap().rank_count, 8);
    assert_eq!(limit_of(&[info("pmix.job.size", 9_u32)]), "ranks");
    assert_eq!(parse(&[process(7, vec![])]).unwrap().rank_count, 8);
    assert_eq!(limit_of(&[process(8, vec![])]), "ranks");
    assert_eq!(parse(&maps("n0,n1", "0;1")).unwrap().node_count, 2);
    assert_eq!(limit_of(&maps("pmix[n[1:0-2]]", "0")), "node map");
    assert_eq!(limit_of(&maps("n0", "pmix[0-8]")), "process map");
    assert_eq!(limit_of(&[node("a", vec![]), node("b", vec![]), node("c", vec![])]), "nodes");
    let aliases = |names: &str| [node("a", vec![info("pmix.alias", names)])];
    assert!(parse(&aliases("b,c")).is_ok());
    assert_eq!(limit_of(&aliases("b,c,d")), "aliases of one node");
    assert_eq!(limit_of(&[app(0, vec![]), app(1, vec![]), app(2, vec![])]), "applications");
    let entries: Vec<Info> = (0..7).map(|_| info("k", 1_u8)).collect();
    assert!(parse(&entries[1..]).is_ok());
    assert_eq!(limit_of(&entries), "entries");
    assert_eq!(limit_of(&[job(entries)]), "entries");
}

/// PRRTE gives each process that it maps by devices an array of them, and the log warned of each such job.
#[test]
fn the_devices_of_a_process_may_be_an_array() {
    let array = |element_type| Value::DataArray(Box::new(DataArray { element_type, elements: Vec::new() }));
    for (given, doubt_count) in [
        (array(DataType::Device), 0),
        (Value::from("gpu://n0::card0"), 0),
        (array(DataType::Uint32), 1),
        (Value::Uint32(1), 1),
    ] {
        let record = record(&[process(0, vec![info("pmix.dev.id", given.clone())])]);
        assert_eq!(proc_value(&record, 0, "pmix.dev.id"), Some(given));
        assert_eq!(doubts::doubts(&record).len(), doubt_count);
    }
}

/// The fabric resources of a setup with other names of nodes reached no process, without a word.
#[test]
fn places_on_the_fabric_of_unknown_nodes_are_doubtful_if_this_node_has_none() {
    let none = Value::DataArray(Box::new(DataArray { element_type: DataType::Geometry, elements: Vec::new() }));
    let set_up = |name: &str| node(name, vec![info("pmix.fab.coord", none.clone())]);
    let mapped = maps("n0,n1", "0;1");
    let with = |names: &[&str], described: &[Info]| {
        let blob = names.iter().map(|name| set_up(name));
        doubts::doubts(&record(&blob.chain(described.iter().cloned()).collect::<Vec<_>>()))
    };
    for (names, described) in [
        (&["n0", "n1"][..], &mapped[..]),
        (&["n0"], &mapped),
        (&["n1", "login1"], &mapped),
        (&["login1"], &mapped[..1]),
        (&["login1"], &[mapped.as_slice(), &[node("n1", vec![info("pmix.alias", strings(&["login1"]))])]].concat()),
    ] {
        assert_eq!(with(names, described), [""; 0], "{names:?}");
    }
    let said = with(&["n0", "login1"], &mapped);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("nodes login1,") && said[0].contains("this node n1"), "{said:?}");
    let many: Vec<String> = (0..20).map(|number| format!("login{number}")).collect();
    let said = with(&many.iter().map(String::as_str).collect::<Vec<_>>(), &mapped);
    assert!(said[0].contains("login7, ...") && !said[0].contains("login8"), "{said:?}");
}
