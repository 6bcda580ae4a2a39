//! Framings, complete and damaged, and malformed lists in them.

use super::*;

#[test]
fn every_framing_yields_the_same_list() {
    let expected = ["n1", "n2"];
    let framings: [&[u8]; 15] = [
        b"n1,n2",
        b"n1,n2\0",
        b"n1,n2\0\0\0",
        b"raw:n1,n2",
        b"raw:n1,n2\0",
        b"raw:\0n1,n2",
        b"raw:\0n1,n2\0",
        b"pmix[n[1:1-2]]",
        b"pmix[n[1:1-2]]\0",
        b"pmix:[n[1:1-2]]\0",
        b"pmix:\0[n[1:1-2]]\0",
        b"pmix:pmix[n[1:1-2]]\0",
        b"pmix:\0pmix[n1,n2]",
        &little_endian_blob(b"n1,n2"),
        &[&little_endian_blob(b"n1,n2")[..], b"\0"].concat(),
    ];
    for map in framings {
        assert_eq!(nodes(map).unwrap(), expected, "{}", map.escape_ascii());
    }
}

#[test]
fn blob_is_read_in_either_byte_order_and_with_its_nul() {
    let text = b"node1,node2,node3";
    let length = u32::try_from(text.len()).unwrap();
    for declared in [length.to_le_bytes(), length.to_be_bytes()] {
        assert_eq!(nodes(&blob_with(declared, text)).unwrap(), ["node1", "node2", "node3"]);
    }
    assert_eq!(nodes(&little_endian_blob(b"n1,n2\0")).unwrap(), ["n1", "n2"]);
}

#[test]
fn bytes_of_a_foreign_blob_are_read() {
    // The stream was written by zlib 1.2.13, not by the compressor of this crate.
    let map = b"blob:\0component=zlib:\0size=23:\0\x0b\x00\x00\x00\
        \x78\xda\xcb\x33\xd4\xc9\x33\xd2\xc9\x33\xd6\xc9\x33\x01\x00\x12\x97\x03\x07";
    assert_eq!(nodes(map).unwrap(), ["n1", "n2", "n3", "n4"]);
}

#[test]
fn names_that_resemble_an_identifier_are_plain_names() {
    for name in ["raw", "pmix", "blob", "pmix4", "raw-1"] {
        assert_eq!(nodes(name.as_bytes()).unwrap(), [name]);
        assert_eq!(nodes(format!("{name},n2").as_bytes()).unwrap(), [name, "n2"]);
    }
}

#[test]
fn colon_without_an_identifier_before_it_frames_nothing() {
    assert_eq!(nodes(b"2001:db8::1,::1").unwrap(), ["2001:db8::1", "::1"]);
    assert_eq!(nodes(b"n1,fe80::1").unwrap(), ["n1", "fe80::1"]);
}

#[test]
fn unknown_framings_are_never_split_on_commas() {
    for map in ["foo:n1,n2", "foo:", "RAW:n1", "x-y_z.1:n1", "n[1:1-2]", "name[", "name]", "n1,n[3", "[2:1-3]"] {
        let start = Excerpt::of(map);
        assert_eq!(nodes(map.as_bytes()), Err(MapError::UnknownFraming { start }), "{map}");
        assert_eq!(ranks(map.as_bytes()), Err(MapError::UnknownFraming { start }), "{map}");
        assert_eq!(framed_length(format!("{map}\0").as_bytes()), Err(MapError::UnknownFraming { start }));
    }
    assert!(matches!(nodes(b"foo:\0n1,n2\0"), Err(MapError::UnknownFraming { .. })));
}

#[test]
fn unbalanced_brackets_are_refused() {
    for map in [
        "pmix[",
        "pmix[n1",
        "pmix[n[1:1-2]",
        "pmix[n1]]",
        "pmix[n]1]",
        "pmix[n[[1:1]]]",
        "pmix[a[1:1]b[1:1]]",
        "pmix[n1],n2",
        "pmix[n1],n2]",
        "pmix:n1,n2",
        "pmix:",
    ] {
        assert!(matches!(nodes(map.as_bytes()), Err(MapError::Bracket { .. })), "{map}");
    }
}

#[test]
fn malformed_items_are_refused() {
    let missing = MapError::MissingWidth { node: 1, text: Excerpt::of("n[1]") };
    assert_eq!(nodes(b"pmix[a,n[1]]"), Err(missing));
    for (map, text) in [("pmix[n[:1]]", ""), ("pmix[n[1:]]", ""), ("pmix[n[1:1-]]", ""), ("pmix[n[1:+2]]", "+2")] {
        let expected = MapError::NotANumber { node: 0, text: Excerpt::of(text) };
        assert_eq!(nodes(map.as_bytes()), Err(expected), "{map}");
    }
    assert_eq!(nodes(b"pmix[n1,n[1:3-2]]"), Err(MapError::ReversedRange { node: 1, first: 3, last: 2 }));
    let overflow = MapError::NumberOverflow { node: 0, text: Excerpt::of("18446744073709551616") };
    assert_eq!(nodes(b"pmix[n[1:18446744073709551616]]"), Err(overflow));
    assert_eq!(nodes(b"pmix[n[1:18446744073709551615]]").unwrap(), ["n18446744073709551615"]);
}

#[test]
fn malformed_names_are_refused() {
    assert_eq!(nodes(b""), Err(MapError::EmptyName { node: 0 }));
    assert_eq!(nodes(b"raw:\0"), Err(MapError::EmptyName { node: 0 }));
    assert_eq!(nodes(b"pmix[]"), Err(MapError::EmptyName { node: 0 }));
    assert_eq!(nodes(b"n1,,n2"), Err(MapError::EmptyName { node: 1 }));
    assert_eq!(nodes(b"n1,n2,"), Err(MapError::EmptyName { node: 2 }));
    assert_eq!(nodes(b"n1, n2"), Err(MapError::NameCharacter { node: 1, character: ' ' }));
    assert_eq!(nodes(b"n1;n2"), Err(MapError::NameCharacter { node: 0, character: ';' }));
    assert_eq!(nodes(b"raw:n[1-2]"), Err(MapError::NameCharacter { node: 0, character: '[' }));
    assert_eq!(nodes(&little_endian_blob(b"a,b\nc")), Err(MapError::NameCharacter { node: 1, character: '\n' }));
    assert_eq!(nodes(b"raw:n\xff"), Err(MapError::NotUtf8 { offset: 1 }));
    assert_eq!(nodes(&little_endian_blob(b"n1,\xff")), Err(MapError::NotUtf8 { offset: 3 }));
    assert_eq!(NodeList::from_names([""; 0], &MapLimits::default()), Err(MapError::NoNodes));
}

#[test]
fn malformed_ranks_are_refused() {
    for (map, node, text) in [("0;1,,2", 1, ""), ("0,", 0, ""), ("0;a", 1, "a"), ("-1", 0, ""), ("1-2-3", 0, "2-3")] {
        let expected = MapError::NotANumber { node, text: Excerpt::of(text) };
        assert_eq!(ranks(map.as_bytes()), Err(expected), "{map}");
    }
    assert_eq!(ranks(b"0;7-5"), Err(MapError::ReversedRange { node: 1, first: 7, last: 5 }));
    let limits = MapLimits { ranks_max: u32::MAX, ..MapLimits::default() };
    let below = format!("{}", RANK_END - 1);
    assert_eq!(expand_ranks(below.as_bytes(), &limits).unwrap().rank_count(), 1);
    for rank in [u64::from(RANK_END), u64::from(u32::MAX), 1 << 32, u64::MAX] {
        let expected = Err(MapError::ReservedRank { node: 0, rank });
        assert_eq!(expand_ranks(rank.to_string().as_bytes(), &limits), expected);
        assert_eq!(expand_ranks(format!("0-{rank}").as_bytes(), &limits), expected);
    }
    let none: [[u32; 0]; 0] = [];
    assert_eq!(RankMap::from_ranks(none, &limits), Err(MapError::NoNodes));
}

#[test]
fn data_behind_the_map_is_refused() {
    for map in [&b"n1\0n2"[..], b"raw:n1\0n2", b"pmix[n1]\0\0x", &[&little_endian_blob(b"n1")[..], b"x"].concat()] {
        assert!(matches!(nodes(map), Err(MapError::TrailingBytes { .. })), "{}", map.escape_ascii());
    }
}

#[test]
fn damaged_blobs_are_refused() {
    let whole = little_endian_blob(b"n1,n2,n3");
    let header_bytes = b"blob:\0component=zlib:\0size=20:\0".len();
    for cut in b"blob:".len()..whole.len() {
        let error = nodes(&whole[..cut]).unwrap_err();
        let available = u64::try_from(cut.saturating_sub(header_bytes)).unwrap();
        let expected = match cut < header_bytes {
            true => MapError::BlobHeader { start: Excerpt::of(&whole[..cut]) },
            false => MapError::Truncated { declared: 20, available },
        };
        assert_eq!(error, expected, "the first {cut} bytes");
        assert_eq!(framed_length(&whole[..cut]), Err(expected));
    }
    for header in [
        "blob:",
        "blob:\0",
        "blob:\0component=lz4:\0size=1:\0x",
        "blob:\0component=zlib:\0size=:\0",
        "blob:\0component=zlib:\0size=1:x",
        "blob:\0component=zlib:\0size=99999999999999999999:\0",
    ] {
        assert!(matches!(nodes(header.as_bytes()), Err(MapError::BlobHeader { .. })), "{header:?}");
        assert!(matches!(framed_length(header.as_bytes()), Err(MapError::BlobHeader { .. })), "{header:?}");
    }
    let huge = format!("blob:\0component=zlib:\0size={}:\0abc", u64::MAX);
    assert_eq!(nodes(huge.as_bytes()), Err(MapError::Truncated { declared: u64::MAX, available: 3 }));
    let tiny = b"blob:\0component=zlib:\0size=3:\0abc";
    assert_eq!(nodes(tiny), Err(MapError::Truncated { declared: 4, available: 3 }));
}

#[test]
fn stream_without_its_end_or_with_a_bad_checksum_is_refused() {
    let whole = little_endian_blob(b"n1,n2,n3");
    let payload = &whole[whole.len() - 20..];
    assert_eq!(payload[..4], [8, 0, 0, 0], "the payload is where the test expects it");
    for kept in 4..payload.len() {
        let mut map = format!("blob:\0component=zlib:\0size={kept}:\0").into_bytes();
        map.extend_from_slice(&payload[..kept]);
        assert_eq!(nodes(&map), Err(MapError::DamagedStream), "{kept} bytes of payload");
    }
    let mut bad_checksum = whole.clone();
    *bad_checksum.last_mut().unwrap() ^= 1;
    assert_eq!(nodes(&bad_checksum), Err(MapError::DamagedStream));
    for (behind_stream, expected) in [(0, Ok(3)), (b'x', Err(MapError::DamagedStream))] {
        let mut map = b"blob:\0component=zlib:\0size=21:\0".to_vec();
        map.extend_from_slice(payload);
        map.push(behind_stream);
        assert_eq!(nodes(&map).map(|names| names.len()), expected);
    }
}

#[test]
fn framed_length_ends_with_the_map() {
    let blob = little_endian_blob(b"n1,n2");
    let maps: [&[u8]; 8] =
        [b"raw:n1,n2\0", b"raw:\0n1\0", b"pmix[n1]\0", b"pmix:\0[n1]\0", b"n1,n2\0", b"\0", b"pmix[]\0", &blob];
    for map in maps {
        for tail in [&b""[..], b"\0", b"\0\0\0\x05abc\0", b"tail"] {
            let buffer = [map, tail].concat();
            assert_eq!(framed_length(&buffer), Ok(map.len()), "{}", buffer.escape_ascii());
        }
    }
    assert_eq!(framed_length(b"raw:\0"), Ok(5));
    assert_eq!(framed_length(b"raw:\0\0"), Ok(5));
}

#[test]
fn framed_length_of_a_cut_map_is_an_error() {
    assert_eq!(framed_length(b""), Err(MapError::Unterminated { available: 0 }));
    assert_eq!(framed_length(b"raw:n1"), Err(MapError::Unterminated { available: 6 }));
    assert_eq!(framed_length(b"pmix[n1]"), Err(MapError::Unterminated { available: 8 }));
    let blob = little_endian_blob(b"n1,n2");
    assert!(matches!(framed_length(&blob[..blob.len() - 1]), Err(MapError::Truncated { .. })));
}
