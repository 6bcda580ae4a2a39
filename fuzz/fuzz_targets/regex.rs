//! Node maps and process maps: an accepted map keeps to the limits and survives every generator.
//!
//! Input: a map.

#![no_main]

use libfuzzer_sys::fuzz_target;
use modex::regex::{
    MapLimits, NodeList, RANK_END, RankMap, expand_nodes, expand_ranks, framed_length, generate_nodes,
    generate_nodes_pmix, generate_ranks, generate_ranks_pmix,
};

fuzz_target!(|map: &[u8]| {
    if let Ok(nodes) = expand_nodes(map, &LIMITS) {
        nodes_survive(&nodes);
    }
    if let Ok(ranks) = expand_ranks(map, &LIMITS) {
        ranks_survive(&ranks);
    }
    if let Ok(length) = framed_length(map) {
        let framed = map.get(..length).expect("a map ends where the bytes end at the latest");
        assert_eq!(framed_length(framed), Ok(length), "what follows a map changes its length");
    }
});

const LIMITS: MapLimits = MapLimits {
    nodes_max: 1000,
    ranks_max: 10_000,
    name_bytes_max: 64,
    names_bytes_max: 16_000,
    inflated_bytes_max: 32_000,
};

fn nodes_survive(nodes: &NodeList) {
    assert!((1..=1000).contains(&nodes.len()) && nodes.as_text().len() <= 16_000);
    for (index, name) in nodes.iter().enumerate() {
        assert!((1..=64).contains(&name.len()), "{name:?}");
        assert_eq!(nodes.get(index), Some(name));
    }
    assert_eq!(NodeList::from_names(nodes.iter(), &LIMITS).as_ref(), Ok(nodes));
    for generated in [generate_nodes(nodes), generate_nodes_pmix(nodes)] {
        assert_eq!(framed_length(&generated), Ok(generated.len()));
        assert_eq!(expand_nodes(&generated, &MapLimits::default()).as_ref(), Ok(nodes));
    }
}

fn ranks_survive(ranks: &RankMap) {
    assert!((1..=1000).contains(&ranks.node_count()) && ranks.rank_count() <= 10_000);
    let listed: Vec<Vec<u32>> = (0..ranks.node_count()).map(|node| ranks.ranks_of(node).collect()).collect();
    assert!(listed.iter().flatten().all(|rank| *rank < RANK_END));
    assert_eq!(u32::try_from(listed.iter().flatten().count()), Ok(ranks.rank_count()));
    let mut distinct: Vec<u32> = listed.iter().flatten().copied().collect();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(ranks.check_distinct().is_ok(), u32::try_from(distinct.len()) == Ok(ranks.rank_count()));
    assert_eq!(RankMap::from_ranks(listed, &LIMITS).as_ref(), Ok(ranks));
    for generated in [generate_ranks(ranks), generate_ranks_pmix(ranks)] {
        assert_eq!(framed_length(&generated), Ok(generated.len()));
        assert_eq!(expand_ranks(&generated, &MapLimits::default()).as_ref(), Ok(ranks));
    }
}
