//! Examples of the encodings, generators and accessors; helpers for the other tests.

mod framings;
mod limits;
mod properties;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use std::io::Write as _;

use super::*;

fn nodes(map: &[u8]) -> Result<Vec<String>, MapError> {
    let list = expand_nodes(map, &MapLimits::default())?;
    Ok(list.iter().map(String::from).collect())
}

fn ranks(map: &[u8]) -> Result<Vec<Vec<u32>>, MapError> {
    let map = expand_ranks(map, &MapLimits::default())?;
    Ok((0..map.node_count()).map(|node| map.ranks_of(node).collect()).collect())
}

fn list_of(names: &[&str]) -> NodeList {
    NodeList::from_names(names, &MapLimits::default()).unwrap()
}

fn map_of(ranks: &[&[u32]]) -> RankMap {
    RankMap::from_ranks(ranks.iter().map(|of_node| of_node.iter().copied()), &MapLimits::default()).unwrap()
}

/// A blob made without the module under test; `declared` are the four bytes before the stream.
fn blob_with(declared: [u8; 4], text: &[u8]) -> Vec<u8> {
    let mut payload = declared.to_vec();
    let mut deflater = ZlibEncoder::new(&mut payload, Compression::best());
    deflater.write_all(text).unwrap();
    deflater.finish().unwrap();
    let mut map = format!("blob:\0component=zlib:\0size={}:\0", payload.len()).into_bytes();
    map.extend_from_slice(&payload);
    map
}

fn little_endian_blob(text: &[u8]) -> Vec<u8> {
    blob_with(u32::try_from(text.len()).unwrap().to_le_bytes(), text)
}

// ---- examples of the specification ----

#[test]
fn pmix_node_examples_go_both_ways() {
    let examples: [(&[&str], &str); 7] = [
        (&["odin009", "odin010", "odin011"], "pmix[odin[3:9-11]]"),
        (&["n1", "n2", "n4"], "pmix[n[1:1-2,4]]"),
        (&["c712f6n01", "c712f6n02"], "pmix[c[3:712]f6n01,c[3:712]f6n02]"),
        (&["10", "11", "12"], "pmix[[2:10-12]]"),
        (&["my-host1"], "pmix[my-host1]"),
        (&["a28n01", "a99n02", "a28n02"], "pmix[a[2:28]n01,a[2:99,28]n02]"),
        (&["n1", "my-host", "n2"], "pmix[n[1:1],my-host,n[1:2]]"),
    ];
    for (names, text) in examples {
        assert_eq!(nodes(text.as_bytes()).unwrap(), names, "{text}");
        let generated = generate_nodes_pmix(&list_of(names));
        assert_eq!(String::from_utf8(generated).unwrap(), format!("{text}\0"));
    }
}

#[test]
fn pmix_rank_examples_go_both_ways() {
    let examples: [(&[&[u32]], &str); 4] = [
        (&[&[0, 1, 2, 3], &[4, 5, 6, 7]], "pmix[0-3;4-7]"),
        (&[&[0, 2, 4], &[1, 3, 5]], "pmix[0,2,4;1,3,5]"),
        (&[&[0, 1], &[], &[2]], "pmix[0-1;;2]"),
        (&[&[]], "pmix[]"),
    ];
    for (by_node, text) in examples {
        assert_eq!(ranks(text.as_bytes()).unwrap(), by_node, "{text}");
        let generated = generate_ranks_pmix(&map_of(by_node));
        assert_eq!(String::from_utf8(generated).unwrap(), format!("{text}\0"));
    }
}

#[test]
fn input_of_generate_ppn_is_read_with_its_runs() {
    let expected = [vec![0, 1, 2], vec![3, 4, 5], vec![6, 7]];
    assert_eq!(ranks(b"0,1,2;3,4,5;6-7").unwrap(), expected);
    assert_eq!(ranks(b"raw:0,1,2;3,4,5;6-7\0").unwrap(), expected);
    assert_eq!(ranks(&little_endian_blob(b"0,1,2;3,4,5;6-7")).unwrap(), expected);
}

#[test]
fn run_that_continues_a_rank_is_counted_out_in_full() {
    assert_eq!(ranks(b"0,1-3").unwrap(), [[0, 1, 2, 3]]);
    let map = expand_ranks(b"0,1-3", &MapLimits::default()).unwrap();
    assert_eq!(generate_ranks_pmix(&map), b"pmix[0-3]\0");
    assert_eq!(generate_ranks(&map), b"raw:0,1,2,3\0");
}

#[test]
fn empty_fields_keep_their_node() {
    assert_eq!(ranks(b";0,1;;2;").unwrap(), [vec![], vec![0, 1], vec![], vec![2], vec![]]);
    assert_eq!(ranks(b"").unwrap(), [vec![0u32; 0]]);
}

#[test]
fn numbered_items_take_several_ranges_and_any_suffix() {
    assert_eq!(nodes(b"pmix[a-b[2:8-9,4].c]").unwrap(), ["a-b08.c", "a-b09.c", "a-b04.c"]);
    // A number with more digits than the width is written in full, not cut.
    assert_eq!(nodes(b"pmix[n[1:9-10]]").unwrap(), ["n9", "n10"]);
    assert_eq!(nodes(b"pmix[n[0:7],n[3:007]]").unwrap(), ["n7", "n007"]);
}

// ---- generators ----

#[test]
fn short_lists_are_raw_and_long_ones_blobs() {
    // 819 names of four digits and a comma are 4094 bytes of text; one more name exceeds the bound.
    let names: Vec<String> = (0..820).map(|number| format!("{number:04}")).collect();
    let limits = MapLimits::default();
    let below = NodeList::from_names(&names[..819], &limits).unwrap();
    assert_eq!(generate_nodes(&below), format!("raw:{}\0", below.as_text()).into_bytes());
    let at = NodeList::from_names(names[..819].iter().map(String::as_str).chain(["x"]), &limits).unwrap();
    assert_eq!(at.as_text().len(), 4096);
    let map = generate_nodes(&at);
    assert!(map.starts_with(b"blob:\0component=zlib:\0size="));
    assert!(map.len() < 4096);
    assert_eq!(expand_nodes(&map, &limits).unwrap(), at);
}

#[test]
fn numbers_of_more_than_nine_digits_are_not_compressed() {
    let names = ["n999999999", "n1000000000", "n1000000001"];
    assert_eq!(generate_nodes_pmix(&list_of(&names)), b"pmix[n[9:999999999],n1000000000,n1000000001]\0");
}

#[test]
fn one_node_without_ranks_survives_packing() {
    let map = generate_ranks(&map_of(&[&[]]));
    let packed = [&map[..], b"more data\0"].concat();
    assert_eq!(framed_length(&packed), Ok(map.len()));
    assert_eq!(ranks(&map).unwrap(), [vec![0u32; 0]]);
}

// ---- accessors ----

#[test]
fn node_list_answers_by_index() {
    let list = list_of(&["a", "bc", "def"]);
    assert_eq!((list.len(), list.as_text()), (3, "a,bc,def"));
    assert_eq!((list.get(0), list.get(1), list.get(2), list.get(3)), (Some("a"), Some("bc"), Some("def"), None));
    assert_eq!(list.get(usize::MAX), None);
}

#[test]
fn rank_map_answers_by_node() {
    let map = map_of(&[&[0, 1, 5], &[], &[6, 2, 3]]);
    assert_eq!((map.node_count(), map.rank_count()), (3, 6));
    assert_eq!((0..4).map(|node| map.rank_count_of(node)).collect::<Vec<_>>(), [3, 0, 3, 0]);
    let runs: Vec<_> = map.runs_of(0).iter().map(|run| (run.first(), run.last(), run.count())).collect();
    assert_eq!(runs, [(0, 1, 2), (5, 5, 1)]);
    assert_eq!(map.runs_of(3), []);
    assert_eq!(map.runs_of(usize::MAX), []);
    let mut text = String::from("peers=");
    map.text_of(2, &mut text);
    assert_eq!(text, "peers=6,2,3");
}

#[test]
fn run_never_spans_two_nodes() {
    let map = map_of(&[&[0, 1], &[2, 3]]);
    assert_eq!((map.runs_of(0).len(), map.runs_of(1).len()), (1, 1));
}

#[test]
fn smallest_duplicate_rank_is_named() {
    for (map, rank) in [("0,1;1,2", 1), ("0-9;20-30;5-6", 5), ("7;3;7;3", 3), ("4,4", 4), ("0-9;2-3;9", 2)] {
        let map = expand_ranks(map.as_bytes(), &MapLimits::default()).unwrap();
        assert_eq!(map.check_distinct(), Err(MapError::DuplicateRank { rank }));
    }
    for map in ["0-3;4-7", "1,0;3,2", "", ";;"] {
        assert_eq!(expand_ranks(map.as_bytes(), &MapLimits::default()).unwrap().check_distinct(), Ok(()));
    }
}

#[test]
fn errors_print_what_was_found() {
    let error = nodes(b"foo:\x01aaaaaaaaaaaaaaaaaaaaaaaaaaaa").unwrap_err();
    assert!(error.to_string().contains("`foo:\\x01aaaaaaaaaaaaaaaaaaa...`"), "{error}");
}
