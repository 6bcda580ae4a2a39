//! Numbers of nodes: given ones, and those implied by positions in the map.

use super::*;

fn numbered(name: &str, id: u32, dev: &str) -> Info {
    node(name, vec![info("pmix.nodeid", id), info("dev", dev)])
}

/// Name, number and device of each node.
fn nodes(record: &JobRecord) -> Vec<[Option<Value>; 3]> {
    let values = |index| ["pmix.hname", "pmix.nodeid", "dev"].map(|key| node_value(record, index, key));
    (0..record.node_count).map(values).collect()
}

fn shown(name: &str, id: u32, dev: Option<&str>) -> [Option<Value>; 3] {
    [Some(Value::from(name)), Some(Value::Uint32(id)), dev.map(Value::from)]
}

fn home(record: &JobRecord, rank: u32) -> [Option<Value>; 2] {
    ["pmix.nodeid", "pmix.hname"].map(|key| proc_value(record, rank, key))
}

/// Regression: the outsider became the first mapped node, which got its device and its name.
#[test]
fn a_node_outside_the_map_is_another_whatever_its_number() {
    let told = |arrays: Vec<Info>| [maps("n1,nb", "0;1"), arrays].concat();
    let outsider = record(&told(vec![numbered("n9", 0, "d9")]));
    let all = [shown("n1", 2, None), shown("nb", 1, None), shown("n9", 0, Some("d9"))];
    assert_eq!(nodes(&outsider), all);
    assert_eq!(home(&outsider, 0), [Some(Value::Uint32(2)), Some(Value::from("n1"))]);
    assert_eq!(home(&outsider, 1), [Some(Value::Uint32(1)), Some(Value::from("nb"))]);
    let cluster = record(&told(vec![numbered("n9", 0, "d9"), numbered("n1", 1, "d1"), numbered("nb", 2, "db")]));
    assert_eq!(nodes(&cluster), [shown("n1", 1, Some("d1")), shown("nb", 2, Some("db")), shown("n9", 0, Some("d9"))]);
    assert_eq!(home(&cluster, 0), [Some(Value::Uint32(1)), Some(Value::from("n1"))]);
    // A number alone means the node that was given it, else the node at this position.
    let alone = |id: u32| array("pmix.node.arr", vec![info("pmix.nodeid", id), info("dev", "alone")]);
    let found = nodes(&record(&told(vec![alone(0), alone(1), numbered("n9", 0, "d9")])));
    assert_eq!(found, [shown("n1", 2, None), shown("nb", 1, Some("alone")), shown("n9", 0, Some("d9"))]);
    // An alias equal to the mapped node's name proves identity; two given numbers still mean two nodes.
    let mut same = numbered("n1.cluster", 0, "d");
    if let Value::DataArray(entries) = &mut same.value {
        entries.elements.push(Value::Info(Box::new(info("pmix.alias", "n1"))));
    }
    assert_eq!(record(&told(vec![same])).node_count, 2);
    let twice = refusal(&told(vec![numbered("n1", 0, "d"), numbered("n9", 0, "d9")]));
    assert!(matches!(twice, RegisterError::NodeIdTwice { id: 0, .. }), "{twice}");
}

/// Regression: an array with aliases was read first. So the number of another array counted for the node, and that of
/// the last one for `PMIX_NODEID`.
#[test]
fn the_last_number_of_a_node_counts_also_if_an_array_has_aliases() {
    let array = |id: u32, others: Vec<Info>| node("n1", [vec![info("pmix.nodeid", id)], others].concat());
    let aliases = || vec![info("pmix.alias", "other")];
    for arrays in [
        [array(5, vec![]), array(7, aliases())],
        [array(5, aliases()), array(7, vec![])],
        [array(5, aliases()), array(7, aliases())],
    ] {
        let record = record(&[maps("n1,nb", "0;1"), arrays.to_vec()].concat());
        assert_eq!(home(&record, 0), [Some(Value::Uint32(7)), Some(Value::from("n1"))]);
        assert_eq!(nodes(&record), [shown("n1", 7, None), shown("nb", 1, None)]);
    }
}

/// Without a map, a common number joins two names of a node.
#[test]
fn without_a_map_a_number_still_joins_two_names() {
    let record = record(&[numbered("a", 0, "d"), numbered("b", 0, "e")]);
    assert_eq!((record.node_count, node_value(&record, 0, "dev")), (1, Some(Value::from("e"))));
}

#[test]
fn a_repeated_or_later_description_leaves_each_node_its_values() {
    let outsider = || vec![numbered("n9", 0, "d9")];
    let first = maps("n1,nb", "0;1");
    let whole = [first.clone(), outsider()].concat();
    let known = record(&whole);
    assert_eq!(parse(&namespace(), &context(), &whole, Some(&known)), Ok(known.clone()));
    for earlier in [&known, &record(&first)] {
        let later = parse(&namespace(), &context(), &outsider(), Some(earlier)).unwrap();
        assert_eq!(nodes(&later), nodes(&known));
        for rank in 0..2 {
            assert_eq!(home(&later, rank), home(&known, rank));
        }
    }
}
