//! Conversations captured between unmodified OpenPMIx releases (see `vectors/README.md`): every message is read, and
//! written again to the same bytes.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking; vectors are our own files"
)]

use std::collections::BTreeMap;

use modex::bfrops::{Codec, DecodeLimits, Generation};
use modex::proto::frame::{self, Frame, FrameBuffer};
use modex::proto::handshake::{
    CONNECT_HEADER_BYTES, Connect, HandshakeAnswer, Ids, Role, ToolAnswer, connect_body_size, native_credential,
};
use modex::proto::notification::{decode_event, encode_event};
use modex::proto::{Command, Dialect, Reply, Request, Tag, Version, blob, reply, request};
use modex::types::{Kval, Namespace, ProcId, Status, Value};

/// The messages of a `.hex` file that one side sent and the other received, in order.
fn conversation(name: &str) -> Vec<(char, Vec<u8>)> {
    let path = format!("{}/tests/vectors/{name}.hex", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.ends_with("EOF"));
    lines.map(|line| (line.chars().next().unwrap(), hex(line.split_whitespace().nth(1).unwrap()))).collect()
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

/// The contents of a replayed conversation.
#[derive(Debug, Default)]
struct Replayed {
    requests: Vec<Request>,
    replies: Vec<Reply>,
    events: usize,
}

/// Reads all messages, writes them again and compares the bytes. `server` is the release of the server.
fn replay(name: &str, server: Version) -> Replayed {
    let mut messages = conversation(name).into_iter();
    let (_, connect_bytes) = messages.next().unwrap();
    let connect = replay_connect(&connect_bytes);
    let codec = connect.chosen_codec().unwrap();
    let as_seen_by_server = Dialect { codec, peer: connect.peer_version() };
    let as_seen_by_client = Dialect { codec, peer: server };

    let (_, answer) = messages.next().unwrap();
    let (read, size) = HandshakeAnswer::decode(&answer).unwrap();
    assert_eq!((size, read.encode()), (answer.len(), answer));

    let limits = DecodeLimits::default();
    let mut commands = BTreeMap::new();
    let mut replayed = Replayed::default();
    for (direction, bytes) in messages {
        let mut buffer = FrameBuffer::new(DecodeLimits::MESSAGE_BYTES_MAX);
        buffer.feed(&bytes);
        let Frame { header, payload } = buffer.next_frame().unwrap().unwrap();
        assert_eq!(frame::encode(header.index, header.tag, payload).unwrap(), bytes);
        match (direction, header.tag) {
            ('>', Tag::HEARTBEAT) => assert!(payload.is_empty()),
            // 4.2 and 5.0 answer heartbeats without a monitor; clients ignore that.
            ('<', Tag::HEARTBEAT) => {
                let lost = reply::decode(payload, Command::Finalize, as_seen_by_client, &limits);
                assert_eq!(lost, Ok(Reply::Status(Status::from_raw(-61))));
            }
            ('<', Tag::NOTIFICATION) => {
                let event = decode_event(payload, as_seen_by_client, &limits).unwrap();
                assert_eq!(encode_event(&event, as_seen_by_server).unwrap(), payload);
                replayed.events += 1;
            }
            ('>', tag) => {
                let read = request::decode(payload, as_seen_by_server, &limits).unwrap();
                assert_eq!(request::encode(&read, as_seen_by_client).unwrap(), payload, "{read:?}");
                commands.insert(tag, read.command());
                replayed.requests.push(read);
            }
            (_, tag) => {
                let command = commands.remove(&tag).unwrap();
                let read = reply::decode(payload, command, as_seen_by_client, &limits).unwrap();
                assert_eq!(reply::encode(&read, command, as_seen_by_server).unwrap(), payload, "{read:?}");
                replayed.replies.push(read);
            }
        }
    }
    commands.retain(|_, command| command.expects_reply());
    // The 3.2 server closes the connection instead of answering FINALIZE.
    assert!(commands.values().all(|&command| command == Command::Finalize && server.major == 3), "{commands:?}");
    replayed
}

fn replay_connect(bytes: &[u8]) -> Connect {
    let (header, body) = bytes.split_first_chunk::<CONNECT_HEADER_BYTES>().unwrap();
    assert_eq!(connect_body_size(*header), Ok(body.len()));
    let connect = Connect::decode(body).unwrap();
    let mut written = connect.encode().unwrap();
    // Exception: clients of 4.2 count one byte too many and append a stray NUL, which is not part of the message.
    if connect.peer_version() < Version::new(5, 0, 0) && connect.peer_version() >= Version::new(4, 0, 0) {
        written.push(0);
        written[8] += 1;
    }
    let claimed = Ids::from_native_credential(&connect.credential).unwrap();
    assert_eq!(native_credential(claimed), connect.credential);
    // From a machine of the other byte order: apart from the credential, only this header has the sender's.
    if header[8] == 0 {
        written[..CONNECT_HEADER_BYTES].chunks_mut(4).for_each(<[u8]>::reverse);
    }
    assert_eq!(written, bytes);
    connect
}

const V3_2: Version = Version::new(3, 2, 5);
const V4_2: Version = Version::new(4, 2, 2);
const V5_0: Version = Version::new(5, 0, 11);
const V6_1: Version = Version::new(6, 1, 1);

#[test]
fn a_session_of_every_release_is_read_and_written_byte_for_byte() {
    for (name, server) in [
        ("v3.2_full_init_to_finalize", V3_2),
        ("v4.2.2_full_init_to_finalize", V4_2),
        ("v4.2.2_fully_described", V4_2),
        ("v6.1_full_init_to_finalize", V6_1),
    ] {
        let replayed = replay(name, server);
        let commands: Vec<Command> = replayed.requests.iter().map(Request::command).collect();
        let expected = [Command::JobInfo, Command::Commit, Command::Fence, Command::Get, Command::Finalize];
        assert_eq!(commands, expected, "{name}");
        let Reply::JobInfo { namespace, entries } = &replayed.replies[0] else { panic!("{name}") };
        assert_eq!(namespace.as_bytes(), b"testns");
        let value_of = |key: &str| entries.iter().find(|entry| entry.key.as_str() == key).map(|entry| &entry.value);
        assert_eq!(value_of("pmix.job.size"), Some(&Value::Uint32(2)), "{name}");
        let Reply::Data(data) = &replayed.replies[3] else { panic!("{name}") };
        assert_eq!(data[0].entries[1].value, Value::Uint32(0xdead_beef), "{name}");
    }
}

/// A process on s390x at our server.
#[test]
fn a_session_of_a_big_endian_client_is_read_and_written_byte_for_byte() {
    let replayed = replay("v4.2.2_big_endian", V4_2);
    let Reply::Data(data) = &replayed.replies[3] else { panic!("{:?}", replayed.replies) };
    let Value::DataArray(array) = &data[0].entries[6].value else { panic!("{data:?}") };
    assert_eq!(array.elements, [1, 0x0102_0304, 7].map(Value::Uint32));
    let values: Vec<&Value> = data[0].entries.iter().map(|entry| &entry.value).collect();
    let global = Value::Uint32(0xdead_beef);
    let expected = [
        &Value::from("hello-local"),
        &Value::Int32(-123_456),
        &Value::Uint64(0x0102_0304_0506_0708),
        &Value::Uint16(0xabc0),
        &Value::Double(3.25),
        &Value::ByteObject(vec![1, 2, 3, 4, 5]),
        values[6],
        &global,
    ];
    assert_eq!(values, expected);
}

#[test]
fn sessions_between_different_releases_are_read_and_written_byte_for_byte() {
    for (name, server) in
        [("srv4.2.2_cli6.1", V4_2), ("srv5.0_cli6.1", V5_0), ("srv6.1_cli3.2", V6_1), ("srv6.1_cli4.2.2", V6_1)]
    {
        assert_eq!(replay(name, server).requests.len(), 5, "{name}");
    }
}

#[test]
fn every_captured_command_is_read_and_written_byte_for_byte() {
    for (name, server) in [("v4.2.2_commands", V4_2), ("v5.0_commands", V5_0), ("v6.1_commands", V6_1)] {
        let replayed = replay(name, server);
        let lookup = replayed.replies.iter().find_map(|reply| match reply {
            Reply::Lookup(found) => Some(found[0].value.clone()),
            _ => None,
        });
        assert_eq!(lookup, Some(Value::from("pubvalue")), "{name}");
        assert!(replayed.requests.iter().any(|request| matches!(request, Request::GroupConstruct(_))), "{name}");
    }
    let types = replay("v4.2.2_types_and_misc", V4_2);
    let floats = types.requests.iter().find_map(|request| match request {
        Request::Commit(commit) if commit.parts[0].1.len() > 2 => Some(commit.parts[0].1[2].value.clone()),
        _ => None,
    });
    assert_eq!(floats, Some(Value::Float(1.5)));
}

#[test]
fn data_that_a_6_1_client_posts_with_a_connect_request_is_kept_among_its_directives() {
    let replayed = replay("v6.1_commands", V6_1);
    let connect = replayed.requests.iter().find_map(|request| match request {
        Request::Connect(connect) => Some(connect),
        _ => None,
    });
    let posted = &connect.unwrap().directives[0];
    assert_eq!(posted.key.as_str(), "pmix.pdata");
    let Value::DataArray(array) = &posted.value else { panic!("{posted:?}") };
    assert_eq!(array.elements.len(), 3);
}

#[test]
fn delivered_events_are_read_and_written_byte_for_byte() {
    assert_eq!(replay("v4.2.2_event_delivery", V4_2).events, 1);
    assert_eq!(replay("v6.1_event_delivery", V6_1).events, 1);
}

/// Tool sessions were captured as chunks of the stream, not as messages.
#[test]
fn tool_sessions_are_read_and_written_byte_for_byte() {
    let chunks = conversation("tool_connect");
    let sessions: Vec<&[(char, Vec<u8>)]> = chunks.chunk_by(|_, (_, next)| next[..4] != [0xff; 4]).collect();
    assert_eq!(sessions.len(), 3);
    for session in sessions {
        let connect = replay_connect(&session[0].1);
        assert!(connect.info.iter().any(|info| info.key.as_str() == "pmix.ppid"));
        let (answer, size) = ToolAnswer::decode(&session[1].1, &connect.role).unwrap().unwrap();
        assert_eq!(answer.encode(), session[1].1);
        assert_eq!(size, session[1].1.len());
        let ToolAnswer::Accepted { assigned, server, credential } = answer else { panic!("refused") };
        assert_eq!(assigned.is_some(), matches!(connect.role, Role::Tool(_)));
        assert_eq!(server, ProcId::new(Namespace::new("srvns").unwrap(), 0));
        assert_eq!(credential, Status::SUCCESS);

        let dialect = Dialect { codec: connect.chosen_codec().unwrap(), peer: connect.peer_version() };
        let limits = DecodeLimits::default();
        for pair in session[2..].chunks(2) {
            let [(_, asked), (_, answered)] = pair else { panic!("unanswered request") };
            let (asked, answered) = (&asked[16..], &answered[16..]);
            let read = request::decode(asked, dialect, &limits).unwrap();
            assert_eq!(request::encode(&read, dialect).unwrap(), asked);
            let answer = reply::decode(answered, read.command(), dialect, &limits).unwrap();
            assert_eq!(reply::encode(&answer, read.command(), dialect).unwrap(), answered);
        }
    }
}

/// Captured server blobs: release, kind, bytes.
fn server_blobs() -> Vec<(Version, String, Vec<u8>)> {
    let path = format!("{}/tests/vectors/server_blobs.hex", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let words = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    words.map(|words| (Version::parse(words[0].as_bytes()), words[1].to_owned(), hex(words[2]))).collect()
}

/// The encoding that servers of a release use among themselves.
fn codec_of(release: Version) -> Codec {
    let generation = match release.major {
        3 => Generation::V3,
        6 => Generation::V61,
        _ => Generation::V41,
    };
    Codec { generation, described: false }
}

#[test]
fn fence_data_of_every_release_is_read_and_written_byte_for_byte() {
    let blobs: Vec<_> = server_blobs().into_iter().filter(|(_, kind, _)| kind == "fence_blob").collect();
    assert_eq!(blobs.len(), 4);
    for (release, _, bytes) in blobs {
        let codec = codec_of(release);
        let blocks = blob::decode_fence(&bytes, &DecodeLimits::default()).unwrap();
        assert_eq!(blocks.len(), 2, "{release}");
        assert!(blocks.iter().all(|block| block.entries == blocks[0].entries && block.entries.len() == 2));
        let (mut relative, mut named) = (Vec::new(), Vec::new());
        for block in blocks {
            match block.contributor {
                blob::Contributor::Relative(rank) => relative.push((rank, block.entries)),
                blob::Contributor::Process(proc) => named.push((proc, block.entries)),
            }
        }
        assert_eq!((named.len(), relative.len()), if release == V6_1 { (2, 0) } else { (0, 2) }, "{release}");
        match release {
            V6_1 => assert_eq!(blob::encode_fence_of_release_6(&named, codec).unwrap(), bytes),
            _ => assert_eq!(blob::encode_fence(&relative, codec).unwrap(), bytes, "{release}"),
        }
    }
}

/// The tests above name their vectors; none in the directory may be left out.
#[test]
fn every_vector_is_replayed() {
    let directory = format!("{}/tests/vectors", env!("CARGO_MANIFEST_DIR"));
    let names = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<String> = names
        .filter(|path| path.extension().is_some_and(|extension| extension == "hex"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    found.sort();
    let source = include_str!("wire_vectors.rs");
    let is_named =
        |name: &String| [format!("\"{name}\""), format!("/{name}.hex")].iter().any(|word| source.contains(word));
    let missing: Vec<&String> = found.iter().filter(|name| !is_named(name)).collect();
    assert!(found.len() == 17 && missing.is_empty(), "{} vectors, never read: {missing:?}", found.len());
}

#[test]
fn direct_modex_answers_of_every_release_are_read_and_written_byte_for_byte() {
    let blobs: Vec<_> = server_blobs().into_iter().filter(|(_, kind, _)| kind == "dmodex_blob").collect();
    assert_eq!(blobs.len(), 4);
    for (release, _, bytes) in blobs {
        let codec = codec_of(release);
        let entries: Vec<Kval> = blob::decode_direct_modex(&bytes, &DecodeLimits::default()).unwrap();
        assert_eq!(entries[0].value, Value::from("hello-remote"));
        assert_eq!(blob::encode_direct_modex(&entries, codec).unwrap(), bytes, "{release}");
    }
}
