//! Properties, checked against plain vectors.

use proptest::collection::vec;
use proptest::prelude::*;

use super::little_endian_blob;
use crate::regex::*;

/// Names with and without compressible numbers, similar enough to share items.
fn names() -> impl Strategy<Value = Vec<String>> {
    let numbered = "[ab]{0,2}[0-9]{1,2}[xy0]{0,2}";
    let name = prop_oneof![
        4 => numbered,
        1 => "[a-c]{0,2}[0-9]{7,22}[a-z0-9]{0,2}",
        1 => "[a-c]{1,3}",
        1 => "[a-z0-9._-]{1,8}",
        1 => "[a-z]{1,2}[0-9]{1,3}[.-][0-9]{1,3}",
        1 => any_name(),
    ];
    let consecutive = (numbered, 0..200u32, 1..30u32)
        .prop_map(|(stem, first, count)| (first..first + count).map(|n| format!("{stem}{n}")).collect::<Vec<_>>());
    let counted = ("[a-c]{0,2}", 0..120u32, 1..30u32, "[xz]?").prop_map(|(prefix, first, count, suffix)| {
        (first..first + count).map(|n| format!("{prefix}{n:02}{suffix}")).collect::<Vec<_>>()
    });
    let stretch = prop_oneof![3 => vec(name, 1..10), 1 => consecutive, 2 => counted];
    vec(stretch, 1..8).prop_map(|stretches| stretches.concat())
}

/// Any name a list accepts.
fn any_name() -> impl Strategy<Value = String> {
    vec(any::<char>(), 1..12).prop_map(|characters| {
        let allowed = |c: &char| !(c.is_control() || c.is_whitespace() || ",;[]".contains(*c));
        let name: String = characters.into_iter().filter(allowed).collect();
        if name.is_empty() { "x".to_owned() } else { name }
    })
}

fn ranks_by_node() -> impl Strategy<Value = Vec<Vec<u32>>> {
    let rank = prop_oneof![4 => 0..30u32, 1 => 0..RANK_END, 1 => RANK_END - 3..RANK_END];
    let run = (0..1000u32, 0..40u32).prop_map(|(first, count)| (first..first + count).collect::<Vec<_>>());
    vec(prop_oneof![vec(rank, 0..12), run], 1..30)
}

/// Many nodes, so that the list is long enough for deflation.
fn many_ranks_by_node() -> impl Strategy<Value = Vec<Vec<u32>>> {
    (2..400u32, 1..20u32, any::<bool>()).prop_map(|(nodes, per_node, in_turns)| {
        let ranks_of = |node| match in_turns {
            true => (node..nodes * per_node).step_by(usize::try_from(nodes).unwrap()).collect(),
            false => (node * per_node..(node + 1) * per_node).collect(),
        };
        (0..nodes).map(ranks_of).collect()
    })
}

/// Bytes that pass the first checks more often than random ones.
fn almost_a_map() -> impl Strategy<Value = Vec<u8>> {
    let framed = "(raw:|pmix\\[|pmix:|blob:|foo:)?\\x00?[ab0-9,;:\\[\\]\\-\\x00]{0,40}(\\]|\\x00)?";
    let blob = (vec(any::<u8>(), 0..40), vec((any::<prop::sample::Index>(), any::<u8>()), 0..4));
    let damaged_blob = blob.prop_map(|(text, changes)| {
        let mut map = little_endian_blob(&text);
        for (index, byte) in changes {
            let at = index.index(map.len());
            map[at] = byte;
        }
        map
    });
    prop_oneof![framed.prop_map(String::into_bytes), damaged_blob, vec(any::<u8>(), 0..80)]
}

fn small() -> MapLimits {
    MapLimits {
        nodes_max: 500,
        ranks_max: 2000,
        names_bytes_max: 20_000,
        inflated_bytes_max: 10_000,
        ..MapLimits::default()
    }
}

proptest! {
    #[test]
    fn node_maps_of_all_forms_expand_to_what_they_were_made_from(names in names()) {
        let limits = MapLimits::default();
        let list = NodeList::from_names(&names, &limits).unwrap();
        prop_assert_eq!(list.iter().collect::<Vec<_>>(), names.iter().collect::<Vec<_>>());
        let text = names.join(",");
        prop_assert_eq!(list.as_text(), &text);
        prop_assert!(generate_nodes(&list).len() <= text.len() + "raw:\0".len());
        let forms = [
            generate_nodes(&list),
            generate_nodes_pmix(&list),
            little_endian_blob(text.as_bytes()),
            format!("raw:{text}").into_bytes(),
            format!("raw:\0{text}\0").into_bytes(),
        ];
        for map in forms {
            prop_assert_eq!(&expand_nodes(&map, &limits).unwrap(), &list, "{}", map.escape_ascii());
        }
    }

    #[test]
    fn process_maps_of_all_forms_expand_to_what_they_were_made_from(
        model in prop_oneof![3 => ranks_by_node(), 1 => many_ranks_by_node()]
    ) {
        let limits = MapLimits::default();
        let map = RankMap::from_ranks(model.clone(), &limits).unwrap();
        let listed: Vec<Vec<u32>> = (0..map.node_count()).map(|node| map.ranks_of(node).collect()).collect();
        prop_assert_eq!(&listed, &model);
        prop_assert_eq!(map.rank_count(), u32::try_from(model.concat().len()).unwrap());
        let fields: Vec<String> = model
            .iter()
            .map(|ranks| ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(","))
            .collect();
        let text = fields.join(";");
        let forms = [
            generate_ranks(&map),
            generate_ranks_pmix(&map),
            little_endian_blob(text.as_bytes()),
            format!("raw:{text}").into_bytes(),
            text.into_bytes(),
        ];
        for bytes in forms {
            prop_assert_eq!(&expand_ranks(&bytes, &limits).unwrap(), &map, "{}", bytes.escape_ascii());
        }
        for (node, field) in fields.iter().enumerate() {
            let mut text = String::new();
            map.text_of(node, &mut text);
            prop_assert_eq!(&text, field);
        }
    }

    #[test]
    fn duplicates_are_found_exactly_if_there_are_any(model in ranks_by_node()) {
        let map = RankMap::from_ranks(model.clone(), &MapLimits::default()).unwrap();
        let mut ranks = model.concat();
        ranks.sort_unstable();
        let duplicate = ranks.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0]);
        let expected = duplicate.map_or(Ok(()), |rank| Err(MapError::DuplicateRank { rank }));
        prop_assert_eq!(map.check_distinct(), expected);
    }

    #[test]
    fn generated_maps_are_found_again_in_front_of_anything(
        names in names(),
        model in prop_oneof![ranks_by_node(), many_ranks_by_node()],
        tail in vec(any::<u8>(), 0..20),
    ) {
        let list = NodeList::from_names(&names, &MapLimits::default()).unwrap();
        let ranks = RankMap::from_ranks(model, &MapLimits::default()).unwrap();
        let maps = [generate_nodes(&list), generate_nodes_pmix(&list), generate_ranks(&ranks), generate_ranks_pmix(&ranks)];
        for map in maps {
            let buffer = [&map[..], &tail[..]].concat();
            prop_assert_eq!(framed_length(&buffer), Ok(map.len()));
        }
    }

    #[test]
    fn an_accepted_map_keeps_to_the_limits_and_can_be_written_again(map in almost_a_map()) {
        let limits = small();
        if let Ok(list) = expand_nodes(&map, &limits) {
            prop_assert!(list.len() <= 500 && list.as_text().len() <= 20_000);
            prop_assert_eq!(&expand_nodes(&generate_nodes(&list), &limits).unwrap(), &list);
            prop_assert_eq!(&expand_nodes(&generate_nodes_pmix(&list), &limits).unwrap(), &list);
        }
        if let Ok(ranks) = expand_ranks(&map, &limits) {
            prop_assert!(ranks.node_count() <= 500 && ranks.rank_count() <= 2000);
            prop_assert_eq!(&expand_ranks(&generate_ranks_pmix(&ranks), &limits).unwrap(), &ranks);
        }
        if let Ok(length) = framed_length(&map) {
            prop_assert!((1..=map.len()).contains(&length));
        }
    }

    #[test]
    fn framed_length_and_expansion_agree_on_where_a_map_ends(map in almost_a_map()) {
        if expand_nodes(&map, &small()).is_ok() && let Ok(length) = framed_length(&map) {
            prop_assert!(map[length..].iter().all(|&byte| byte == 0));
            prop_assert!(expand_nodes(&map[..length], &small()).is_ok());
        }
    }
}
