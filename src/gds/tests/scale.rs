//! The memory of a large job, in bytes.

use super::*;
use crate::gds::{Datastore as _, Origin};

#[test]
fn a_million_ranks_on_ten_thousand_nodes_cost_at_most_40_bytes_each() {
    let mut record = block_job(10_000, 100);
    // Bindings repeat from node to node, as they do on equal nodes.
    let per_local_rank = |prefix: &str| {
        let texts: Vec<Value> = (0..100).map(|local| format!("{prefix}{local}-{local}").into()).collect();
        ColumnValues::Values((0..1_000_000).map(|rank| Some(texts[rank % 100].clone())).collect())
    };
    record.proc_columns.push(column("pmix.cpuset", per_local_rank("hwloc:")));
    record.proc_columns.push(column("pmix.locstr", per_local_rank("hwloc:NM0:SK0:L3")));
    let mut store = store(BackingKind::Heap);
    store.register_record(&namespace(), &record).unwrap();
    assert_eq!(store.statistics(&namespace()).unwrap().rank_count, 0, "nobody has posted anything");
    // The first commit makes room for all.
    store.commit(&namespace(), 7, Origin::Local, &[posted(Scope::Global, "endpoint", 7_u32)]).unwrap();
    let statistics = store.statistics(&namespace()).unwrap();
    assert_eq!(statistics.rank_count, 1_000_000);
    let bytes_per_rank = statistics.published_bytes.div_ceil(1_000_000);
    assert!(bytes_per_rank <= 40, "{bytes_per_rank} bytes a rank: {statistics:?}");
    let reader = store.reader(&namespace()).unwrap();
    assert_eq!(get(reader, 999_999, "pmix.hname"), Ok("node09999".into()));
    assert_eq!(get(reader, 123_456, "pmix.lrank"), Ok(Value::Uint16(56)));
    assert_eq!(get(reader, 123_456, "pmix.cpuset"), Ok("hwloc:56-56".into()));
}

#[test]
fn an_irregular_job_stays_within_40_bytes_a_rank_too() {
    // Ranks scattered over the nodes without a pattern.
    let (node_count, rank_count) = (1000_u64, 100_000_u64);
    let node_of = |rank: u64| rank.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
    let mut record = block_job(1000, 100);
    let local_rank = |rank: u64| node_of(rank) / node_count % 100;
    for column in &mut record.proc_columns {
        let numbers = |number: &dyn Fn(u64) -> u64| (0..rank_count).map(number).collect::<Vec<u64>>();
        if let ColumnValues::Numbers { values, .. } = &mut column.values {
            match column.key.as_str() {
                "pmix.nodeid" => *values = numbers(&|rank| node_of(rank) % node_count),
                "pmix.lrank" | "pmix.nrank" => *values = numbers(&local_rank),
                _ => {}
            }
        }
    }
    let mut store = store(BackingKind::Heap);
    store.register_record(&namespace(), &record).unwrap();
    let statistics = store.statistics(&namespace()).unwrap();
    assert!(statistics.published_bytes.div_ceil(rank_count) <= 40, "{statistics:?}");
}

/// Before, the rank lists of all nodes took seven bytes a rank, the map's text as much again, and the room for posted
/// values eight. With ten ranks a node, most of the rest is names of nodes.
#[test]
fn a_job_in_blocks_or_in_turns_costs_less_than_a_byte_a_rank_or_8_where_nodes_have_ten() {
    use crate::gds::NodeSelector;
    use crate::gds::registration::{Context, parse};
    use crate::types::Info;
    for (node_count, rank_count, bytes_per_rank_max) in [(1000_u32, 100_000_u32, 1), (10_000, 100_000, 8)] {
        let names: Vec<String> = (0..node_count).map(|node| format!("node{node:05}")).collect();
        let list = |ranks: Vec<u32>| ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let width = rank_count / node_count;
        let block = |node: u32| list((node * width..(node + 1) * width).collect());
        let turns = |node: u32| list((0..width).map(|turn| turn * node_count + node).collect());
        for of_node in [&block as &dyn Fn(u32) -> String, &turns] {
            let ranks: Vec<String> = (0..node_count).map(of_node).collect();
            let maps = [("pmix.nmap", names.join(",")), ("pmix.pmap", ranks.join(";"))];
            let description = maps.clone().map(|(name, text)| Info::new(key(name), text));
            let record = parse(&namespace(), &Context::new("node00003"), &description, None).unwrap();
            let mut store = store(BackingKind::Heap);
            store.register_record(&namespace(), &record).unwrap();
            let statistics = store.statistics(&namespace()).unwrap();
            let bytes_max = u64::from(rank_count) * bytes_per_rank_max;
            assert!(statistics.published_bytes < bytes_max, "{node_count} nodes: {statistics:?}");
            let reader = store.reader(&namespace()).unwrap();
            for node in [0, 3, node_count - 1] {
                let realm = RealmRequest::Node(NodeSelector::Id(node));
                assert_eq!(read(reader, Rank::Wildcard, "pmix.lpeers", realm, None), Ok(of_node(node).into()));
            }
            for (name, text) in maps {
                assert_eq!(get(reader, Rank::Wildcard, name), Ok(text.into()));
            }
            assert_eq!(get(reader, Rank::Wildcard, "pmix.nlist"), Ok(names.join(",").into()));
        }
    }
}

/// Regression: the record's head and tables lay behind all data that grows with the job, such as the modex table.
/// Attaching to a million ranks touched two regions more than attaching to ten, which took half as long again.
#[test]
fn the_job_record_lies_at_the_same_place_for_every_job_size() {
    let place = |node_count, ranks_per_node| {
        let mut store = store(BackingKind::Heap);
        store.register_record(&namespace(), &block_job(node_count, ranks_per_node)).unwrap();
        store.reader(&namespace()).unwrap().roots().into_iter().find(|(name, _)| *name == "job").unwrap().1
    };
    assert!(place(1, 10).is_some());
    assert_eq!(place(1, 10), place(1000, 100));
}
