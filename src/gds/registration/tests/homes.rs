//! Jobs without maps, with the node of each process in its values.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn on(rank: u32, name: &'static str) -> Info {
    process(rank, vec![info("pmix.hname", name)])
}

fn numbered(rank: u32, id: u32) -> Info {
    process(rank, vec![info("pmix.nodeid", id)])
}

fn size(ranks: u32) -> Info {
    info("pmix.job.size", ranks)
}

fn update(previous: &JobRecord, description: &[Info]) -> JobRecord {
    parse(&namespace(), &context(), description, Some(previous)).unwrap()
}

fn text(text: &str) -> Option<Value> {
    Some(Value::from(text))
}

/// The list of nodes, and for each of them its name and local peers.
fn nodes(record: &JobRecord) -> (String, Vec<(String, String)>) {
    let words = |value: Option<Value>| value.map_or("-".to_owned(), |value| value.as_str().unwrap().to_owned());
    let of = |index| ["pmix.hname", "pmix.lpeers"].map(|key| words(node_value(record, index, key)));
    let nodes = (0..record.node_count).map(of).map(|[name, peers]| (name, peers)).collect();
    (words(job_value(record, "pmix.nlist")), nodes)
}

fn described(list: &str, nodes: &[(&str, &str)]) -> (String, Vec<(String, String)>) {
    let owned = |(name, peers): &(&str, &str)| ((*name).to_owned(), (*peers).to_owned());
    (list.to_owned(), nodes.iter().map(owned).collect())
}

fn numbers(record: &JobRecord, key: &str) -> Vec<Option<u32>> {
    (0..record.rank_count).map(|rank| proc_value(record, rank, key)?.as_u32()).collect()
}

#[test]
fn values_of_the_maps_are_derived_from_the_node_of_each_process() {
    let record = record(&[on(3, "n1"), on(0, "n2"), on(1, "n1"), size(5), on(2, "n2"), on(4, "n0")]);
    assert_eq!(nodes(&record), described("n2,n1,n0", &[("n2", "0,2"), ("n1", "1,3"), ("n0", "4")]));
    assert_eq!((record.own_node, job_value(&record, "pmix.num.nodes")), (Some(1), Some(Value::Uint32(3))));
    let of_nodes = |key| [0, 1, 2].map(|index| node_value(&record, index, key));
    assert_eq!(of_nodes("pmix.local.size"), [2, 2, 1].map(|size| Some(Value::Uint32(size))));
    assert_eq!(of_nodes("pmix.lldr"), [0, 1, 4].map(|rank| Some(Value::from(Rank::from(rank)))));
    assert_eq!(numbers(&record, "pmix.nodeid"), [0, 1, 0, 1, 2].map(Some));
    for key in ["pmix.lrank", "pmix.nrank"] {
        assert_eq!(numbers(&record, key), [0, 0, 1, 1, 0].map(Some));
    }
    assert_eq!(column(&record.proc_columns, "pmix.hname"), Some(&ColumnValues::OfNode));
    assert_eq!(job_value(&record, "pmix.nmap"), None, "what was not told is not told on");
}

#[test]
fn nothing_follows_while_a_process_or_their_number_is_missing() {
    let all = || vec![on(0, "n1"), on(1, "n0")];
    let with = |more: Info| [all(), vec![more]].concat();
    for description in [all(), with(size(3)), [with(size(3)), vec![process(2, vec![])]].concat(), with(numbered(2, 7))]
    {
        let record = record(&description);
        assert_eq!(job_value(&record, "pmix.nlist"), None);
        assert_eq!((record.node_count, column(&record.proc_columns, "pmix.lrank")), (0, None));
    }
    // A size alone, or none at all.
    assert_eq!(record(&[size(1 << 24)]).node_count, 0);
    assert_eq!(job_value(&record(&[size(0)]), "pmix.nlist"), None);
}

#[test]
fn numbers_lead_to_nodes_that_arrays_name() {
    let array = |name: &str, id: u32| node(name, vec![info("pmix.nodeid", id)]);
    let known = vec![array("n0", 7), array("n1", 3), array("n2", 5), size(3)];
    let record = record(&[known.clone(), vec![numbered(0, 7), numbered(1, 3), on(2, "n1")]].concat());
    assert_eq!(nodes(&record), described("n1,n0", &[("n0", "0"), ("n1", "1,2"), ("n2", "-")]), "by number");
    assert_eq!(numbers(&record, "pmix.nodeid"), [7, 3, 3].map(Some));
    // The number identifies the node that has another name here.
    let both = process(2, vec![info("pmix.hname", "n1.cluster"), info("pmix.nodeid", 3_u32)]);
    let record = super::record(&[known.clone(), vec![numbered(0, 7), numbered(1, 3), both]].concat());
    assert_eq!(nodes(&record), described("n1,n0", &[("n0", "0"), ("n1", "1,2"), ("n2", "-")]));
    assert_eq!(proc_value(&record, 2, "pmix.hname"), text("n1.cluster"));
    // No other array has this number, or a name for it.
    for other in [numbered(0, 8), array("n0", 8)] {
        let nameless = super::array("pmix.node.arr", vec![info("pmix.nodeid", 8_u32)]);
        let rest = vec![nameless, numbered(1, 3), numbered(2, 3)];
        let lists = super::record(&[known[1..].to_vec(), vec![other, numbered(0, 8)][..1].to_vec(), rest].concat());
        assert_eq!(job_value(&lists, "pmix.nlist"), None);
    }
}

#[test]
fn processes_number_nodes_that_nobody_else_numbers() {
    let at =
        |rank: u32, name: &'static str, id: u32| process(rank, vec![info("pmix.hname", name), info("pmix.nodeid", id)]);
    let known = record(&[size(4), numbered(0, 2), at(1, "n1", 9), at(2, "n0", 2), on(3, "n1")]);
    assert_eq!(nodes(&known), described("n0,n1", &[("n1", "1,3"), ("n0", "0,2")]), "by number");
    assert_eq!(numbers(&known, "pmix.nodeid"), [2, 9, 2, 9].map(Some));
    // One number for two nodes, and two numbers for one.
    for second in [at(1, "n1", 2), at(1, "n0", 3)] {
        let denied = record(&[size(2), at(0, "n0", 2), second]);
        assert_eq!((job_value(&denied, "pmix.nlist"), denied.node_count), (None, 0));
    }
}

#[test]
fn values_of_the_host_win_over_derived_values() {
    let peers = node("n0", vec![info("pmix.lpeers", "1,0"), info("pmix.local.size", 9_u32)]);
    let second = process(1, vec![info("pmix.hname", "n0"), info("pmix.lrank", 5_u16)]);
    let record = record(&[info("pmix.num.nodes", 4_u32), peers, size(3), on(0, "n0"), second, on(2, "n1")]);
    assert_eq!(nodes(&record), described("n0,n1", &[("n0", "1,0"), ("n1", "2")]));
    assert_eq!(numbers(&record, "pmix.lrank"), [0, 5, 0].map(Some));
    assert_eq!(numbers(&record, "pmix.nrank"), [0, 1, 0].map(Some));
    assert_eq!(job_value(&record, "pmix.num.nodes"), Some(Value::Uint32(4)));
    assert_eq!(node_value(&record, 0, "pmix.local.size"), Some(Value::Uint32(9)));
}

#[test]
fn the_last_process_may_be_told_of_later() {
    let last_process = process(2, vec![info("pmix.hname", "n1"), info("pmix.lrank", 7_u16)]);
    for first in [vec![size(3), on(0, "n0"), last_process.clone()], vec![on(0, "n0"), last_process]] {
        let before = record(&first);
        assert_eq!(job_value(&before, "pmix.nlist"), None);
        let after = update(&before, &[on(1, "n1"), size(3)]);
        assert_eq!(nodes(&after), described("n0,n1", &[("n0", "0"), ("n1", "1,2")]));
        assert_eq!(numbers(&after, "pmix.lrank"), [0, 0, 7].map(Some));
        for again in [vec![], vec![size(3)], vec![on(1, "n1")], vec![numbered(2, 1)]] {
            let same = update(&after, &again);
            assert_eq!((nodes(&same), same.own_node), (nodes(&after), after.own_node));
            for key in ["pmix.lrank", "pmix.nrank", "pmix.nodeid"] {
                assert_eq!(numbers(&same, key), numbers(&after, key), "{key}");
            }
        }
    }
}

#[test]
fn derived_values_follow_a_process_that_moves() {
    let peers = || node("n0", vec![info("pmix.lpeers", "2,1,0")]);
    let first = |more: Vec<Info>| record(&[vec![size(3), on(0, "n0"), on(1, "n0"), on(2, "n0")], more].concat());
    let moved = update(&first(vec![]), &[on(1, "n1")]);
    assert_eq!(nodes(&moved), described("n0,n1", &[("n0", "0,2"), ("n1", "1")]));
    assert_eq!(numbers(&moved, "pmix.nodeid"), [0, 1, 0].map(Some));
    assert_eq!(numbers(&moved, "pmix.lrank"), [0, 0, 1].map(Some));
    assert_eq!(proc_value(&moved, 1, "pmix.hname"), text("n1"));
    assert_eq!((moved.own_node, job_value(&moved, "pmix.num.nodes")), (Some(1), Some(Value::Uint32(2))));
    // The same by number, and back.
    let back = update(&moved, &[numbered(1, 0)]);
    assert_eq!(nodes(&back), described("n0", &[("n0", "0,1,2"), ("n1", "-")]));
    assert_eq!(
        (proc_value(&back, 1, "pmix.hname"), numbers(&back, "pmix.lrank")),
        (text("n0"), [0, 1, 2].map(Some).into())
    );
    // The host's own values stay.
    let moved = update(&first(vec![peers(), info("pmix.nlist", "own")]), &[on(1, "n1")]);
    assert_eq!(nodes(&moved), described("own", &[("n0", "2,1,0"), ("n1", "1")]));
}

#[test]
fn a_job_grows_with_the_homes_of_its_processes() {
    let first = record(&[size(2), on(0, "n0"), on(1, "n1")]);
    let grown = || update(&first, &[size(4), on(2, "n1"), on(3, "n2")]);
    let all = described("n0,n1,n2", &[("n0", "0"), ("n1", "1,2"), ("n2", "3")]);
    assert_eq!(nodes(&grown()), all);
    // In two steps: in between, the nodes of the new processes are unknown.
    let between = update(&first, &[size(4)]);
    assert_eq!(nodes(&between), described("-", &[("n0", "-"), ("n1", "-")]));
    assert_eq!(numbers(&between, "pmix.lrank"), [None; 4]);
    assert_eq!(numbers(&between, "pmix.nodeid"), [Some(0), Some(1), None, None]);
    let grown_later = update(&update(&between, &[on(2, "n1")]), &[on(3, "n2")]);
    assert_eq!(nodes(&grown_later), all);
    assert_eq!(job_value(&grown_later, "pmix.num.nodes"), Some(Value::Uint32(3)));
    assert_eq!(numbers(&grown_later, "pmix.lrank"), [0, 0, 1, 0].map(Some));
    let shrunk = update(&grown(), &[size(1)]);
    assert_eq!(nodes(&shrunk), described("n0", &[("n0", "0"), ("n1", "-"), ("n2", "-")]));
}

#[test]
fn later_numbers_and_maps_win_over_what_followed() {
    let first = record(&[size(2), on(0, "n0"), on(1, "n1")]);
    // The first node's number, derived from its position, has changed.
    let numbers_now = update(&first, &[node("n1", vec![info("pmix.nodeid", 0_u32)])]);
    assert_eq!(numbers(&numbers_now, "pmix.nodeid"), [2, 0].map(Some));
    assert_eq!(nodes(&numbers_now), described("n1,n0", &[("n0", "0"), ("n1", "1")]));
    assert_eq!(update(&first, &[numbered(0, 8), numbered(1, 9)]).node_count, 2);
    let ids = update(&first, &[numbered(0, 8), numbered(1, 9)]);
    assert_eq!([0, 1].map(|index| node_value(&ids, index, "pmix.nodeid")), [8, 9].map(|id| Some(Value::Uint32(id))));
    let mapped = update(&first, &maps("n1,n0", "0;1"));
    assert_eq!(nodes(&mapped), described("n1,n0", &[("n1", "0"), ("n0", "1")]));
    assert_eq!(numbers(&mapped, "pmix.nodeid"), [0, 1].map(Some));
    // The map then places processes.
    let moved = update(&mapped, &[on(0, "n0")]);
    assert_eq!(nodes(&moved), nodes(&mapped));
}

#[test]
fn numbers_that_the_host_told_stay_where_nothing_followed() {
    let nameless =
        |id: u32, memory: u64| array("pmix.node.arr", vec![info("pmix.nodeid", id), info("pmix.pmem", memory)]);
    let known = [nameless(0, 100), nameless(1, 200), numbered(0, 0), numbered(1, 1)];
    for more in [vec![], vec![size(2)], vec![size(2), info("pmix.nlist", "own")]] {
        let first = record(&[known.to_vec(), more].concat());
        let named = ["n0", "n1"].iter().zip(0_u32..).map(|(name, id)| node(name, vec![info("pmix.nodeid", id)]));
        let later = update(&first, &named.collect::<Vec<_>>());
        assert_eq!(
            (later.node_count, numbers(&later, "pmix.nodeid")),
            (2, [0, 1].map(Some).into()),
            "of the same nodes"
        );
        let at = |index, key| node_value(&later, index, key);
        assert_eq!([0, 1].map(|index| at(index, "pmix.hname")), ["n0", "n1"].map(text));
        assert_eq!([0, 1].map(|index| at(index, "pmix.pmem")), [100, 200].map(|memory| Some(Value::Uint64(memory))));
    }
}

#[test]
fn a_process_that_is_said_to_be_on_two_nodes_stays_so() {
    let named = |name: &str, id: u32| node(name, vec![info("pmix.nodeid", id)]);
    let at =
        |rank: u32, name: &'static str, id: u32| process(rank, vec![info("pmix.hname", name), info("pmix.nodeid", id)]);
    let denied = record(&[size(2), named("n0", 0), named("n1", 1), at(0, "n0", 0), at(1, "n0", 1)]);
    assert_eq!(job_value(&denied, "pmix.nlist"), None);
    assert_eq!(job_value(&update(&denied, &[]), "pmix.nlist"), None);
    assert_eq!(nodes(&update(&denied, &[at(1, "n0", 0)])), described("n0", &[("n0", "0,1"), ("n1", "-")]));
}

#[test]
fn nothing_follows_from_more_nodes_than_there_may_be() {
    let mut context = context();
    context.limits.nodes_max = 2;
    let homes = ["n0", "n1", "n2"].iter().zip(0..).map(|(name, rank)| on(rank, name));
    let description: Vec<Info> = homes.chain([size(3)]).collect();
    let record = parse(&namespace(), &context, &description, None).unwrap();
    assert_eq!((job_value(&record, "pmix.nlist"), record.node_count), (None, 0));
    assert_eq!(proc_value(&record, 2, "pmix.hname"), text("n2"));
}

#[test]
fn a_process_map_alone_removes_derived_values() {
    let first = record(&[size(3), on(0, "n0"), on(1, "n1"), on(2, "n1")]);
    let mapped = update(&first, &[info("pmix.pmap", "0,1;2")]);
    assert_eq!(nodes(&mapped), described("-", &[("n0", "-"), ("n1", "-")]));
    assert_eq!((numbers(&mapped, "pmix.lrank"), job_value(&mapped, "pmix.num.nodes")), (vec![None; 3], None));
    assert_eq!(proc_value(&mapped, 2, "pmix.hname"), text("n1"));
    let listed = update(&first, &[info("pmix.nmap", "n0,n1")]);
    assert_eq!(nodes(&listed), described("n0,n1", &[("n0", "-"), ("n1", "-")]));
    // With the node map there are both maps.
    let both = update(&mapped, &[info("pmix.nmap", "n0,n1")]);
    assert_eq!(nodes(&both), described("n0,n1", &[("n0", "0,1"), ("n1", "2")]));
    // The host's own list stays.
    let listed = record(&[size(2), on(0, "n0"), on(1, "n1"), info("pmix.nlist", "own")]);
    assert_eq!(job_value(&update(&listed, &[info("pmix.pmap", "0,1")]), "pmix.nlist"), text("own"));
}

proptest! {
    /// Hosts describe processes in any order, at once or in parts, and processes move. The final answers equal those
    /// for maps of the final places.
    #[test]
    fn homes_answer_like_maps(
        first in prop::collection::vec(prop::option::of(0..4_usize), 1..9),
        later in prop::collection::vec(prop::collection::vec((0..9_usize, 0..4_usize, any::<bool>()), 0..5), 0..4),
    ) {
        let names = ["n0", "n1", "n2", "n3"];
        let count = u32::try_from(first.len()).unwrap();
        let mut homes = first.clone();
        let on_some = |(rank, home): (u32, &Option<usize>)| home.map(|home| on(rank, names[home]));
        let mut record = record(&[vec![size(count)], (0..).zip(&first).filter_map(on_some).collect()].concat());
        for moves in later {
            let mut description = BTreeMap::new();
            for (rank, home, by_number) in moves {
                let rank = rank % first.len();
                homes[rank] = Some(home);
                let ranked = u32::try_from(rank).unwrap();
                let named = |index: &u32| node_value(&record, *index, "pmix.hname") == text(names[home]);
                let id = (0..record.node_count).find(named).and_then(|at| node_value(&record, at, "pmix.nodeid"));
                let described = match id.filter(|_| by_number) {
                    Some(id) => process(ranked, vec![info("pmix.nodeid", id)]),
                    None => on(ranked, names[home]),
                };
                description.insert(rank, described);
            }
            record = update(&record, &description.into_values().collect::<Vec<_>>());
        }
        let of_node = |at: usize| {
            let ranks = (0..).zip(&homes).filter(|(_, home)| **home == Some(at));
            ranks.map(|(rank, _): (u32, _)| rank.to_string()).collect::<Vec<_>>().join(",")
        };
        let is_complete = homes.iter().all(Option::is_some);
        let list = job_value(&record, "pmix.nlist");
        let mut listed: Vec<&str> = list.as_ref().and_then(Value::as_str).into_iter().flat_map(|list| list.split(',')).collect();
        listed.sort_unstable();
        let used = (0..4).filter(|at| is_complete && !of_node(*at).is_empty());
        prop_assert_eq!(&listed, &used.map(|at| names[at]).collect::<Vec<_>>());
        let node_count = u32::try_from(listed.len()).unwrap();
        prop_assert_eq!(job_value(&record, "pmix.num.nodes"), is_complete.then_some(Value::Uint32(node_count)));
        for index in 0..record.node_count {
            let name = node_value(&record, index, "pmix.hname");
            let at = names.iter().position(|known| text(known) == name).unwrap();
            let ranks = of_node(at);
            let described = node_value(&record, index, "pmix.lpeers");
            prop_assert_eq!(described, text(&ranks).filter(|_| is_complete && !ranks.is_empty()));
            let leader = ranks.split(',').next().unwrap().parse().ok().filter(|_| is_complete);
            prop_assert_eq!(node_value(&record, index, "pmix.lldr"), leader.map(|rank: u32| Value::from(Rank::from(rank))));
        }
        for (rank, home) in (0..count).zip(&homes) {
            prop_assert_eq!(proc_value(&record, rank, "pmix.hname"), home.and_then(|home| text(names[home])));
            let local = homes.iter().take(usize::try_from(rank).unwrap()).filter(|other| *other == home).count();
            let local = u16::try_from(local).ok().filter(|_| is_complete).map(Value::Uint16);
            prop_assert_eq!(proc_value(&record, rank, "pmix.lrank"), local.clone());
            prop_assert_eq!(proc_value(&record, rank, "pmix.nrank"), local);
            if let (true, Some(home)) = (is_complete, home) {
                let id = proc_value(&record, rank, "pmix.nodeid");
                let index = (0..record.node_count).find(|at| node_value(&record, *at, "pmix.nodeid") == id);
                prop_assert_eq!(node_value(&record, index.unwrap(), "pmix.hname"), text(names[*home]));
            }
        }
    }
}
