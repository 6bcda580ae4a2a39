//! Every limit at its bound, and maps of the largest sizes.

use super::*;

#[test]
fn node_limit_holds_at_its_bound() {
    let limits = MapLimits { nodes_max: 3, ..MapLimits::default() };
    let over = |found| Err(MapError::Limit { limit: "nodes", found, max: 3 });
    for map in ["a,b,c", "pmix[n[1:1-3]]", "pmix[a,n[1:1-2]]"] {
        assert_eq!(expand_nodes(map.as_bytes(), &limits).unwrap().len(), 3);
    }
    for map in ["a,b,c,d", "pmix[n[1:1-4]]", "pmix[a,n[1:1-3]]"] {
        assert_eq!(expand_nodes(map.as_bytes(), &limits).map(|_| ()), over(4));
    }
    assert_eq!(expand_ranks(b"0;1;2", &limits).unwrap().node_count(), 3);
    assert_eq!(expand_ranks(b"0;1;2;", &limits).map(|_| ()), over(4));
}

#[test]
fn range_is_bounded_before_it_is_counted_out() {
    let limits = MapLimits::default();
    let expected = MapError::Limit { limit: "nodes", found: 1 << 32, max: limits.nodes_max };
    assert_eq!(expand_nodes(b"pmix[n[1:0-4294967295]]", &limits), Err(expected));
    let expected = MapError::Limit { limit: "nodes", found: u64::MAX, max: limits.nodes_max };
    assert_eq!(expand_nodes(b"pmix[n[1:0-18446744073709551615]]", &limits), Err(expected));
    let expected = MapError::Limit { limit: "ranks", found: 4_000_000_001, max: limits.ranks_max };
    assert_eq!(expand_ranks(b"pmix[0-4000000000]", &limits), Err(expected));
}

#[test]
fn rank_limit_holds_at_its_bound() {
    let limits = MapLimits { ranks_max: 4, ..MapLimits::default() };
    assert_eq!(expand_ranks(b"0-1;2-3", &limits).unwrap().rank_count(), 4);
    let expected = MapError::Limit { limit: "ranks", found: 5, max: 4 };
    assert_eq!(expand_ranks(b"0-1;2-4", &limits), Err(expected));
    assert_eq!(RankMap::from_ranks([[0, 1, 2, 3, 4]], &limits), Err(expected));
}

#[test]
fn name_limits_hold_at_their_bounds() {
    let limits = MapLimits { name_bytes_max: 4, ..MapLimits::default() };
    for map in ["abcd", "pmix[a[3:1]]", "pmix[[4:1]]"] {
        assert_eq!(expand_nodes(map.as_bytes(), &limits).unwrap().get(0).map(str::len), Some(4));
    }
    for (map, limit) in [
        ("abcde", "bytes in a node name"),
        ("pmix[a[4:1]]", "bytes in a node name"),
        ("pmix[[5:1]]", "digits in a node name"),
    ] {
        let expected = MapError::Limit { limit, found: 5, max: 4 };
        assert_eq!(expand_nodes(map.as_bytes(), &limits), Err(expected));
    }
    let limits = MapLimits { names_bytes_max: 7, ..MapLimits::default() };
    assert_eq!(expand_nodes(b"pmix[ab[1:1-1],abc]", &limits).unwrap().as_text(), "ab1,abc");
    let expected = MapError::Limit { limit: "bytes of node names", found: 8, max: 7 };
    assert_eq!(expand_nodes(b"ab1,abcd", &limits), Err(expected));
}

#[test]
fn wide_padding_is_bounded_by_the_name_limit_alone() {
    // Wider than a format string can pad.
    let limits = MapLimits { name_bytes_max: 100_000, ..MapLimits::default() };
    let list = expand_nodes(b"pmix[[100000:1]]", &limits).unwrap();
    assert_eq!(list.get(0).map(|name| (name.len(), name.ends_with("01"))), Some((100_000, true)));
}

#[test]
fn inflation_is_bounded() {
    let text = "a,".repeat(500_000) + "a";
    let limit = u32::try_from(text.len()).unwrap();
    let honest = little_endian_blob(text.as_bytes());
    let at = MapLimits { inflated_bytes_max: limit, ..MapLimits::default() };
    assert_eq!(expand_nodes(&honest, &at).unwrap().len(), 500_001);
    let below = MapLimits { inflated_bytes_max: limit - 1, ..MapLimits::default() };
    assert!(matches!(expand_nodes(&honest, &below), Err(MapError::Limit { limit: "bytes of text", .. })));

    // With a wrong length, inflation ends as soon as this is certain.
    let lie = blob_with(100u32.to_le_bytes(), text.as_bytes());
    match expand_nodes(&lie, &at) {
        Err(MapError::InflatedLength { found, .. }) => {
            assert!(found < 200_000, "inflated {found} bytes")
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn length_above_the_limit_never_matches_in_the_other_order() {
    // 256 reads as 65536 in the other byte order: beyond this limit, although it is the length of the stream.
    let text = vec![b'a'; 65536];
    let limits = MapLimits { inflated_bytes_max: 1000, name_bytes_max: 70000, ..MapLimits::default() };
    let map = blob_with(256u32.to_le_bytes(), &text);
    assert!(matches!(expand_nodes(&map, &limits), Err(MapError::InflatedLength { .. })));
}

#[test]
fn million_ranks_on_a_hundred_thousand_nodes_go_both_ways() {
    let limits = MapLimits::default();
    let names = NodeList::from_names((0..100_000).map(|node| format!("node{node:06}")), &limits).unwrap();
    for map in [generate_nodes(&names), generate_nodes_pmix(&names)] {
        assert_eq!(expand_nodes(&map, &limits).unwrap(), names);
    }
    let in_blocks = RankMap::from_ranks((0..100_000).map(|node| node * 10..node * 10 + 10), &limits).unwrap();
    let in_turns = RankMap::from_ranks((0..100_000).map(|node| (node..1_000_000).step_by(100_000)), &limits).unwrap();
    for ranks in [in_blocks, in_turns] {
        assert_eq!(ranks.rank_count(), 1_000_000);
        ranks.check_distinct().unwrap();
        for map in [generate_ranks(&ranks), generate_ranks_pmix(&ranks)] {
            assert_eq!(expand_ranks(&map, &limits).unwrap(), ranks);
        }
    }
}
