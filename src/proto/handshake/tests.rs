use proptest::prelude::*;

use super::*;
use crate::bfrops::{Codec, Generation, strategies};
use crate::proto::{Version, host_order};
use crate::types::{Info, Key, Namespace, ProcId, Status, Text, Time, Value};

fn ids() -> impl Strategy<Value = Ids> {
    (any::<u32>(), any::<u32>()).prop_map(|(uid, gid)| Ids { uid, gid })
}

fn role() -> impl Strategy<Value = Role> {
    let both = || (ids(), strategies::proc_id());
    prop_oneof![
        strategies::proc_id().prop_map(Role::Client),
        ids().prop_map(Role::LegacyTool),
        ids().prop_map(Role::LegacyLauncher),
        ids().prop_map(Role::Tool),
        both().prop_map(|(ids, proc)| Role::NamedTool(ids, proc)),
        both().prop_map(|(ids, proc)| Role::StartedTool(ids, proc)),
        ids().prop_map(Role::Launcher),
        both().prop_map(|(ids, proc)| Role::NamedLauncher(ids, proc)),
        both().prop_map(|(ids, proc)| Role::StartedLauncher(ids, proc)),
        both().prop_map(|(ids, proc)| Role::Singleton(ids, proc)),
        both().prop_map(|(ids, proc)| Role::Scheduler(ids, proc)),
    ]
}

fn connect() -> impl Strategy<Value = Connect> {
    strategies::codec().prop_flat_map(|codec| {
        let info = prop::collection::vec(strategies::info(codec), 0..3);
        (strategies::bytes(), role(), info).prop_map(move |(credential, role, info)| Connect {
            security: Text::from(SECURITY_NATIVE),
            credential,
            role,
            version: Text::from("5.0.0"),
            codec: Text::from(codec.generation.module_name()),
            described: codec.described,
            store: Text::from(STORE_MODEX),
            info,
        })
    })
}

fn own_client() -> Connect {
    Connect {
        security: Text::from(SECURITY_NATIVE),
        credential: native_credential(Ids { uid: 1000, gid: 1001 }),
        role: Role::Client(ProcId::new(Namespace::new("job").unwrap(), 3)),
        version: Text::from("5.0.0"),
        codec: Text::from("v41"),
        described: false,
        store: Text::from(STORE_MODEX),
        info: Vec::new(),
    }
}

/// Regression: a peer with an unreadable release was taken for one older than all layouts.
#[test]
fn a_peer_of_unknown_release_gets_what_all_releases_with_its_encoding_know() {
    for (release, codec, expected) in [
        ("", "v41", Version::new(4, 1, 0)),
        ("unknown", "v3", Version::new(3, 0, 0)),
        ("", "v61", Version::new(6, 1, 0)),
        ("git-4711", "v51", Version::new(6, 0, 0)),
        ("v4.2.2rc2", "v41", Version::new(4, 2, 2)),
        ("17.3", "v61", Version::new(17, 3, 0)),
    ] {
        let connect = Connect { version: Text::from(release), codec: Text::from(codec), ..own_client() };
        assert_eq!(Connect::decode(&body_of(&connect)).unwrap().peer_version(), expected, "{release} {codec}");
    }
}

/// v20 writes commands as 32-bit numbers, types in infos as tagged ints, and buffers without their kind. To read it as
/// v21 or v3 would misread it.
#[test]
fn encodings_that_nobody_here_speaks_are_told_by_their_names() {
    for (codec, generation) in [("v21", Some(Generation::V3)), ("v20", None), ("v12", None), ("v71", None), ("", None)]
    {
        let connect = Connect { codec: Text::from(codec), ..own_client() };
        let read = Connect::decode(&body_of(&connect)).unwrap();
        assert_eq!(read.chosen_codec().map(|codec| codec.generation), generation, "{codec}");
    }
}

fn body_of(connect: &Connect) -> Vec<u8> {
    connect.encode().unwrap().split_off(CONNECT_HEADER_BYTES)
}

#[test]
fn our_own_peers_are_recognised_by_their_store() {
    let connect = own_client();
    assert!(connect.reads_segments());
    assert_eq!(connect.chosen_codec(), Some(Codec::V41));
    assert_eq!(connect.peer_version(), Version::OWN);
    assert!(!Connect { store: Text::from(STORE_HASH), ..connect }.reads_segments());
}

#[test]
fn a_client_may_append_bytes_that_are_no_infos_and_a_tool_may_not() {
    let body = [body_of(&own_client()), vec![0]].concat();
    assert_eq!(Connect::decode(&body), Ok(own_client()));
    let tool = Connect { role: Role::Tool(Ids { uid: 0, gid: 0 }), ..own_client() };
    let body = [body_of(&tool), vec![0]].concat();
    assert!(matches!(Connect::decode(&body), Err(HandshakeError::Decode(_))));
}

#[test]
fn a_connect_message_of_release_2_0_ends_with_its_version() {
    let connect = Connect { version: Text::from("v2.0.3"), ..own_client() };
    let body = body_of(&connect);
    let version_end = body.windows(7).position(|window| window == b"v2.0.3\0").unwrap() + 7;
    let read = Connect::decode(&body[..version_end]).unwrap();
    assert_eq!((read.codec.as_bytes(), read.chosen_codec()), (b"v20".as_slice(), None));
}

#[test]
fn unknown_codecs_and_unknown_roles_are_different_errors() {
    let unknown_codec = Connect { codec: Text::from("v99"), ..own_client() };
    assert_eq!(Connect::decode(&body_of(&unknown_codec)).unwrap().chosen_codec(), None);
    let with_info = Connect { info: vec![Info::new(Key::from_static("k"), true)], ..unknown_codec };
    assert_eq!(with_info.encode(), Err(HandshakeError::UnknownCodec { module: "v99".to_owned() }));

    let mut body = body_of(&own_client());
    let flag = "native".len() + 1 + 4 + 8;
    body[flag] = 11;
    assert_eq!(Connect::decode(&body), Err(HandshakeError::UnknownRole { flag: 11 }));
}

#[test]
fn the_connect_message_has_a_bound() {
    let with_credential = |size: usize| Connect { credential: vec![0; size], ..own_client() };
    let rest = body_of(&with_credential(0)).len();
    assert!(with_credential(CONNECT_BYTES_MAX - rest).encode().is_ok());
    let declared = CONNECT_BYTES_MAX + 1;
    assert_eq!(with_credential(CONNECT_BYTES_MAX - rest + 1).encode(), Err(HandshakeError::TooLong { declared }));
    assert_eq!(Connect::decode(&vec![0; declared]), Err(HandshakeError::TooLong { declared }));
    assert_eq!(connect_body_size([0; CONNECT_HEADER_BYTES]), Err(HandshakeError::NotConnect { tag: 0 }));
    let huge = [0xff; CONNECT_HEADER_BYTES];
    assert!(matches!(connect_body_size(huge), Err(HandshakeError::TooLong { .. })));
}

/// Regression: a foreign message of 256 or 512 bytes was taken for one of 64 or 128 KiB, which never came.
#[test]
fn the_size_is_read_in_either_byte_order() {
    let (bytes, size_at) = (own_client().encode().unwrap(), 8);
    for size in [1_u32, 255, 256, 300, 512, 65_535] {
        for written in [size, size.swap_bytes()] {
            let mut header: [u8; CONNECT_HEADER_BYTES] = bytes[..CONNECT_HEADER_BYTES].try_into().unwrap();
            header[size_at..size_at + 4].copy_from_slice(&host_order::to_bytes(written));
            assert_eq!(connect_body_size(header), Ok(size as usize));
        }
    }
}

#[test]
fn a_credential_of_another_size_is_not_a_native_one() {
    assert_eq!(Ids::from_native_credential(&[0; 7]), None);
    assert_eq!(Ids::from_native_credential(&[0; 9]), None);
}

/// Regression: a process of the other byte order was refused, unless its user was root.
#[test]
fn a_native_credential_is_read_in_either_byte_order() {
    let ids = Ids { uid: 1000, gid: 1001 };
    let mut written = native_credential(ids);
    let read = |written: &[u8]| Ids::from_native_credential(written).unwrap();
    assert_eq!(read(&written).of_user(1000), ids);
    written.chunks_mut(4).for_each(<[u8]>::reverse);
    assert_eq!(read(&written).of_user(1000), ids);
    assert_ne!(read(&written).of_user(1001).uid, 1001);
}

#[test]
fn answers_are_read_as_soon_as_they_are_complete() {
    let accepted = HandshakeAnswer::Accepted { index: 7 }.encode();
    assert!((0..8).all(|size| HandshakeAnswer::decode(&accepted[..size]).is_none()));
    assert_eq!(HandshakeAnswer::decode(&accepted), Some((HandshakeAnswer::Accepted { index: 7 }, 8)));
    let refused = HandshakeAnswer::Refused(Status::ERR_NOT_SUPPORTED);
    assert_eq!(HandshakeAnswer::decode(&refused.encode()), Some((refused, 4)));
}

proptest! {
    #[test]
    fn every_connect_message_reads_back(connect in connect()) {
        let bytes = connect.encode().unwrap();
        let (header, body) = bytes.split_first_chunk::<CONNECT_HEADER_BYTES>().unwrap();
        prop_assert_eq!(connect_body_size(*header), Ok(body.len()));
        prop_assert_eq!(Connect::decode(body), Ok(connect));
    }

    #[test]
    fn every_answer_to_a_tool_reads_back_and_not_before_it_is_complete(
        role in role(),
        (assigned, server) in (strategies::proc_id(), strategies::proc_id()),
        code in any::<i32>(),
    ) {
        let assigned = role.needs_identity().then_some(assigned);
        let answer = ToolAnswer::Accepted { assigned, server, credential: Status::from_raw(code) };
        let bytes = answer.encode();
        prop_assert_eq!(ToolAnswer::decode(&bytes[..bytes.len() - 1], &role), Ok(None));
        prop_assert_eq!(ToolAnswer::decode(&bytes, &role), Ok(Some((answer, bytes.len()))));
    }

    #[test]
    fn arbitrary_connect_messages_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), role in role()) {
        let _ = Connect::decode(&bytes);
        let _ = ToolAnswer::decode(&bytes, &role);
        let with_prefix = [b"native\0\0\0\0\0".as_slice(), &bytes].concat();
        let _ = Connect::decode(&with_prefix);
    }
}

#[test]
fn a_client_may_say_when_its_init_began() {
    let silent = own_client();
    assert_eq!(silent.init_begun(), None);
    let said = |value: Value| {
        let info = vec![Info::new(Key::from_static("modex.init.begun"), value)];
        let body = body_of(&Connect { info, ..silent.clone() });
        Connect::decode(&body).unwrap().init_begun()
    };
    assert_eq!(said(Value::Uint64(7)), Some(Time::from_nanos(7)));
    assert_eq!(said(Value::Uint32(7)), None);
}
