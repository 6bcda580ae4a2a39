use super::*;
use crate::regex::MapError;

fn numbers(record: &JobRecord, key: &str) -> Vec<Option<u32>> {
    let number = |value: Value| match value {
        Value::ProcRank(rank) => rank.process(),
        value => value.as_u32(),
    };
    (0..record.rank_count).map(|rank| proc_value(record, rank, key).and_then(number)).collect()
}

#[test]
fn two_maps_alone_give_every_derived_key() {
    let record = record(&maps("n0,n1,n2", "2,0;1,4,3;"));
    assert_eq!((record.rank_count, record.node_count, record.own_node), (5, 3, Some(1)));
    assert_eq!(job_value(&record, "pmix.num.nodes"), Some(Value::Uint32(3)));
    assert_eq!(job_value(&record, "pmix.nlist"), Some(Value::from("n0,n1,n2")));
    assert_eq!(job_value(&record, "pmix.job.size"), Some(Value::Uint32(5)));
    assert_eq!(job_value(&record, "pmix.max.size"), Some(Value::Uint32(5)));

    assert_eq!(node_value(&record, 0, "pmix.hname"), Some(Value::from("n0")));
    assert_eq!(node_value(&record, 2, "pmix.nodeid"), Some(Value::Uint32(2)));
    assert_eq!(node_value(&record, 1, "pmix.local.size"), Some(Value::Uint32(3)));
    assert_eq!(node_value(&record, 2, "pmix.local.size"), Some(Value::Uint32(0)));
    assert_eq!(node_value(&record, 1, "pmix.lpeers"), Some(Value::from("1,4,3")));
    assert_eq!(node_value(&record, 0, "pmix.lldr"), Some(Value::ProcRank(Rank::Process(0))));
    assert_eq!(node_value(&record, 2, "pmix.lldr"), None);

    assert_eq!(numbers(&record, "pmix.nodeid"), [0, 1, 0, 1, 1].map(Some));
    assert_eq!(numbers(&record, "pmix.lrank"), [1, 0, 0, 2, 1].map(Some));
    assert_eq!(numbers(&record, "pmix.nrank"), [1, 0, 0, 2, 1].map(Some));
    assert_eq!(numbers(&record, "pmix.appnum"), [0; 5].map(Some));
    assert_eq!(numbers(&record, "pmix.apprank"), [0, 1, 2, 3, 4].map(Some));
    assert_eq!(proc_value(&record, 2, "pmix.hname"), Some(Value::from("n0")));
    assert_eq!(column(&record.proc_columns, "pmix.grank"), None);
}

#[test]
fn values_of_the_host_win_over_values_of_the_maps() {
    let mut description = maps("n0,n1", "0;1");
    description.extend([
        info("pmix.num.nodes", 9_u32),
        info("pmix.max.size", 8_u32),
        process(1, vec![info("pmix.lrank", 5_u16), info("pmix.hname", "elsewhere"), info("pmix.apprank", 7_u32)]),
        node("n1", vec![info("pmix.lpeers", "1,0"), info("pmix.nodeid", 40_u32)]),
    ]);
    let record = record(&description);
    assert_eq!(job_value(&record, "pmix.num.nodes"), Some(Value::Uint32(9)));
    assert_eq!(job_value(&record, "pmix.max.size"), Some(Value::Uint32(8)));
    assert_eq!(numbers(&record, "pmix.lrank"), [0, 5].map(Some));
    assert_eq!(numbers(&record, "pmix.apprank"), [0, 7].map(Some));
    assert_eq!(numbers(&record, "pmix.nodeid"), [0, 40].map(Some));
    assert_eq!(proc_value(&record, 0, "pmix.hname"), Some(Value::from("n0")));
    assert_eq!(proc_value(&record, 1, "pmix.hname"), Some(Value::from("elsewhere")));
    assert_eq!(node_value(&record, 1, "pmix.lpeers"), Some(Value::from("1,0")));
    assert_eq!(node_value(&record, 0, "pmix.lpeers"), Some(Value::from("0")));
}

#[test]
fn the_order_of_maps_and_arrays_does_not_matter() {
    let mut description = vec![
        process(1, vec![info("pmix.nrank", 3_u16)]),
        array("pmix.node.arr", vec![info("pmix.nodeid", 1_u32), info("pmix.pmem", 6_u64)]),
        node("n0", vec![info("pmix.pmem", 5_u64)]),
    ];
    description.extend(maps("n0,n1", "0;1"));
    let before = record(&description);
    description.rotate_left(3);
    let after = record(&description);
    assert_eq!(before.proc_columns.len(), after.proc_columns.len());
    for record in [before, after] {
        assert_eq!(record.node_count, 2);
        assert_eq!(node_value(&record, 0, "pmix.pmem"), Some(Value::Uint64(5)));
        assert_eq!(node_value(&record, 1, "pmix.pmem"), Some(Value::Uint64(6)));
        assert_eq!(numbers(&record, "pmix.nrank"), [0, 3].map(Some));
    }
}

#[test]
fn maps_of_different_lengths_are_refused_with_both() {
    assert_eq!(refusal(&maps("n0,n1", "0;1;2")), RegisterError::MapLengths { nodes: 2, fields: 3 });
}

#[test]
fn one_map_alone_tells_what_it_can() {
    let nodes = record(&[info("pmix.nmap", "n0,n1")]);
    assert_eq!((nodes.node_count, nodes.rank_count), (2, 0));
    assert_eq!(job_value(&nodes, "pmix.num.nodes"), Some(Value::Uint32(2)));
    let ranks = record(&[info("pmix.pmap", "0;1")]);
    assert_eq!((ranks.node_count, ranks.rank_count), (0, 2));
    assert_eq!(column(&ranks.proc_columns, "pmix.nodeid"), None);
}

#[test]
fn the_plain_maps_stand_in_for_the_encoded_ones() {
    let record = record(&[info("pmix.nmap.raw", "n0,n1"), info("pmix.pmap.raw", "0;1")]);
    assert_eq!(numbers(&record, "pmix.nodeid"), [0, 1].map(Some));
}

#[test]
fn a_node_twice_in_the_map_is_refused() {
    let expected = RegisterError::NodeTwice { name: "n0".to_owned(), first: 0, second: 2 };
    assert_eq!(refusal(&maps("n0,n1,n0", "0;1;2")), expected);
}

#[test]
fn a_rank_twice_in_the_map_is_refused() {
    let error = refusal(&maps("n0,n1", "0,1;1"));
    assert_eq!(error, RegisterError::ProcMap(MapError::DuplicateRank { rank: 1 }));
    assert_eq!(error.status(), Status::ERR_BAD_PARAM);
}

#[test]
fn ranks_outside_the_job_are_refused_with_both_numbers() {
    let outside = |rank, place, job_size| RegisterError::RankOutsideJob { rank, place, job_size };
    assert_eq!(refusal(&[info("pmix.job.size", 3_u32), process(3, vec![])]), outside(3, "process arrays", 3));
    let beyond = [maps("n0,n1", "0;2"), vec![info("pmix.job.size", 2_u32), process(3, vec![])]].concat();
    assert_eq!(refusal(&beyond), outside(3, "process arrays", 3));
}

/// Regression: such a map was refused. Hosts that give each server a part of the job's processes rely on OpenPMIx,
/// which accepts it.
#[test]
fn a_process_map_may_have_ranks_beyond_the_size_of_the_job() {
    let gap = record(&maps("n0,n1", "0;2"));
    assert_eq!((gap.rank_count, job_value(&gap, "pmix.job.size")), (3, Some(Value::Uint32(2))));
    for size in [1_u32, 2] {
        let record = record(&[maps("n0,n1", "0;1,2"), vec![info("pmix.job.size", size)]].concat());
        assert_eq!((record.rank_count, job_value(&record, "pmix.job.size")), (3, Some(Value::Uint32(size))));
        assert_eq!(numbers(&record, "pmix.nodeid"), [Some(0), Some(1), Some(1)]);
        assert_eq!(node_value(&record, 1, "pmix.lpeers"), Some(Value::from("1,2")));
        let said = doubts::doubts(&record);
        assert!(said.len() == 1 && said[0].starts_with(&format!("PMIX_JOB_SIZE is {size}, ")), "{said:?}");
        assert!(said[0].contains("ranks up to 2"), "{said:?}");
    }
}

/// Regression: a job that grew kept its map until the next one, so its new processes were on no node, or on a wrong
/// one.
#[test]
fn a_job_grows_with_its_map() {
    let record = parse(&namespace(), &context(), &maps("n0,n1", "0;1"), None).unwrap();
    let grown = [info("pmix.job.size", 4_u32)];
    let refused = parse(&namespace(), &context(), &grown, Some(&record)).unwrap_err();
    assert_eq!(refused.cause(), &RegisterError::JobSize { job_size: 4, in_map: 2 });
    let with_map = [&grown[..], &[info("pmix.pmap", "0,2;1,3")]].concat();
    let record = parse(&namespace(), &context(), &with_map, Some(&record)).unwrap();
    assert_eq!(numbers(&record, "pmix.nodeid"), [Some(0), Some(1), Some(0), Some(1)]);
    assert_eq!(proc_value(&record, 2, "pmix.hname"), Some(Value::from("n0")));
}

#[test]
fn the_global_rank_needs_the_offset() {
    let mut description = maps("n0", "0,1,2");
    description.push(info("pmix.offset", Rank::Process(10)));
    assert_eq!(numbers(&record(&description), "pmix.grank"), [10, 11, 12].map(Some));
}

/// Values of processes for each rank, and the leaders of applications 0 and 5.
fn of_apps(description: &[Info]) -> [Vec<Option<u32>>; 3] {
    let record = record(description);
    let leader = |number| match app_value(&record, number, "pmix.aldr") {
        Some(Value::ProcRank(rank)) => rank.process(),
        _ => None,
    };
    let numbers = |key| if column(&record.proc_columns, key).is_some() { numbers(&record, key) } else { Vec::new() };
    [numbers("pmix.appnum"), numbers("pmix.apprank"), vec![leader(0), leader(5)]]
}

/// Regression: a process of a job with several applications had no `PMIX_APP_RANK` unless the host gave it.
#[test]
fn sizes_of_several_applications_give_the_ranks_in_them() {
    let sized = |number: u32, size: u32| app(number, vec![info("pmix.app.size", size)]);
    let led = |number: u32, size: u32, leader: u32| {
        app(number, vec![info("pmix.app.size", size), info("pmix.aldr", Rank::Process(leader))])
    };
    let with = |more: Vec<Info>| of_apps(&[maps("n0", "0,1,2"), more].concat());
    let all = |values: &[u32]| values.iter().copied().map(Some).collect::<Vec<_>>();
    let nothing = [Vec::new(), Vec::new(), vec![None, None]];
    assert_eq!(with(vec![sized(0, 1), sized(5, 2)]), [all(&[0, 5, 5]), all(&[0, 0, 1]), all(&[0, 1])]);
    assert_eq!(with(vec![led(0, 1, 2), led(5, 2, 0)]), [all(&[5, 5, 0]), all(&[0, 1, 0]), all(&[2, 0])]);
    assert_eq!(with(vec![sized(0, 1), sized(5, 1)]), nothing, "a rank has no application");
    assert_eq!(with(vec![sized(0, 1), sized(5, 2), info("pmix.job.napps", 3_u32)]), nothing, "one is unknown");
    assert_eq!(with(vec![led(0, 1, 1), led(5, 2, 1)])[1], Vec::new(), "leaders that the sizes contradict");
    let elsewhere = process(0, vec![info("pmix.appnum", 5_u32)]);
    assert_eq!(with(vec![sized(0, 1), sized(5, 2), elsewhere])[1], Vec::new(), "a process that the sizes contradict");
}

#[test]
fn the_applications_of_all_processes_give_the_ranks_in_them() {
    let of = |rank: u32, number: u32| process(rank, vec![info("pmix.appnum", number)]);
    let given =
        [maps("n0", "0,1,2"), vec![app(0, Vec::new()), app(5, Vec::new()), of(0, 5), of(1, 0), of(2, 5)]].concat();
    let [_, ranks, leaders] = of_apps(&given);
    assert_eq!((ranks, leaders), (vec![Some(0), Some(0), Some(1)], vec![Some(1), Some(0)]));
    let one_less = [given, vec![app(0, vec![info("pmix.app.size", 2_u32)])]].concat();
    assert_eq!(of_apps(&one_less)[1], Vec::new());
}

#[test]
fn ranks_in_an_application_need_an_only_application_or_sizes() {
    let with = |more: Info| {
        let mut description = maps("n0", "0,1");
        description.push(more);
        record(&description)
    };
    assert_eq!(numbers(&with(app(4, vec![])), "pmix.appnum"), [4, 4].map(Some));
    let two_by_count = with(info("pmix.job.napps", 2_u32));
    let two_by_number = with(process(1, vec![info("pmix.appnum", 1_u32)]));
    for record in [&two_by_count, &two_by_number] {
        assert_eq!(column(&record.proc_columns, "pmix.apprank"), None);
        assert_eq!(proc_value(record, 0, "pmix.appnum"), None);
    }
}

#[test]
fn process_arrays_without_maps_leave_the_job_size_open() {
    let record = record(&[process(5, vec![info("pmix.lrank", 0_u16)])]);
    assert_eq!(record.rank_count, 6);
    assert_eq!(job_value(&record, "pmix.job.size"), None);
    assert_eq!(numbers(&record, "pmix.apprank"), [None, None, None, None, None, Some(5)]);
    assert_eq!(proc_value(&record, 5, "pmix.appnum"), Some(Value::Uint32(0)));
}

#[test]
fn a_host_name_places_a_process_that_no_map_places() {
    let on = |rank: u32, name: &'static str| process(rank, vec![info("pmix.hname", name)]);
    let numbered =
        |name: &str, id: u32| node(name, vec![info("pmix.nodeid", id), info("pmix.alias", format!("{name}.x"))]);
    let mut description = vec![numbered("a", 7), numbered("b", 3), on(0, "b"), on(1, "a.x"), on(2, "elsewhere")];
    description.push(process(3, vec![info("pmix.hname", "a"), info("pmix.nodeid", 3_u32)]));
    let record = record(&description);
    assert_eq!(numbers(&record, "pmix.nodeid"), [Some(3), Some(7), None, Some(3)], "what the host says wins");
}

#[test]
fn an_implied_node_id_gives_way_to_a_given_one() {
    let mut description = maps("n0,n1", "0;1");
    description.push(node("n0", vec![info("pmix.nodeid", 1_u32)]));
    let record = record(&description);
    assert_eq!(node_value(&record, 0, "pmix.nodeid"), Some(Value::Uint32(1)));
    // It has another number instead, which leads its processes to it.
    assert_eq!(node_value(&record, 1, "pmix.nodeid"), Some(Value::Uint32(2)));
    assert_eq!(numbers(&record, "pmix.nodeid"), [Some(1), Some(2)]);
    assert_eq!(proc_value(&record, 1, "pmix.hname"), Some(Value::from("n1")));
}

#[test]
fn a_node_with_more_processes_than_16_bits_count_has_no_local_ranks() {
    let of = |count: u32| record(&maps("n0", &format!("pmix[0-{}]", count - 1)));
    assert_eq!(proc_value(&of(65_536), 65_535, "pmix.lrank"), Some(Value::Uint16(u16::MAX)));
    assert_eq!(column(&of(65_537).proc_columns, "pmix.lrank"), None);
}
