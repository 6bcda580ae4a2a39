use std::io::Write;
use std::ops::ControlFlow;

use proptest::prelude::*;

use super::blob::{BlobError, Contributor, decode_fence, encode_direct_modex, encode_fence};
use super::request::RequestDecodeError;
use super::*;
use crate::bfrops::wire::{Bool, ByteObject, Kval};
use crate::bfrops::{Codec, DecodeLimits, DecodeProblem, EncodeError, Generation, Writer};
use crate::types::{DataArray, DataType, Info, Key, Namespace, ProcId, Scope, Status, Value, footprint};

const LIMITS: fn() -> DecodeLimits = DecodeLimits::default;

fn entry(key: &'static str, value: &str) -> Kval {
    Kval { key: Key::from_static(key), value: Value::from(value) }
}

#[test]
fn a_command_without_a_request_type_is_answered_as_not_supported() {
    for command in [36, 40, 255] {
        let refused = request::decode(&[2, command], Dialect::OWN, &LIMITS()).unwrap_err();
        assert_eq!(refused, RequestDecodeError::Unsupported { command });
        assert_eq!((refused.status(), refused.expects_reply()), (Status::ERR_NOT_SUPPORTED, true));
    }
}

#[test]
fn a_malformed_request_knows_its_command_and_whether_it_is_answered() {
    let cut_fence = request::decode(&[2, 3, 2], Dialect::OWN, &LIMITS()).unwrap_err();
    assert!(matches!(cut_fence, RequestDecodeError::Malformed { command: Some(Command::Fence), .. }));
    assert_eq!(cut_fence.status(), Status::ERR_UNPACK_READ_PAST_END_OF_BUFFER);
    let cut_deregistration = request::decode(&[2, 14, 2], Dialect::OWN, &LIMITS()).unwrap_err();
    assert!(!cut_deregistration.expects_reply());
    let empty = request::decode(&[], Dialect::OWN, &LIMITS()).unwrap_err();
    assert!(matches!(empty, RequestDecodeError::Malformed { command: None, .. }));
}

#[test]
fn values_of_undefined_or_internal_scope_cannot_be_committed() {
    for code in [0, 4, 9] {
        let bytes = [2, 2, 2, code, 2, 1, 0];
        let RequestDecodeError::Malformed { error, .. } = request::decode(&bytes, Dialect::OWN, &LIMITS()).unwrap_err()
        else {
            panic!("scope {code}")
        };
        assert_eq!(*error.problem(), DecodeProblem::Scope { code });
    }
}

#[test]
fn everything_is_meant_by_a_get_with_an_empty_key_or_none() {
    let head = [2, 4, 2, 4, b'n', 0, 2, 0, 2, 0];
    for tail in [vec![], vec![2, 0], vec![2, 2, 0]] {
        let bytes = [head.as_slice(), &tail].concat();
        let Request::Get(get) = request::decode(&bytes, Dialect::OWN, &LIMITS()).unwrap() else { panic!("get") };
        assert_eq!(get.key, None);
    }
}

#[test]
fn bytes_behind_a_request_are_ignored() {
    assert_eq!(request::decode(&[2, 5, 2, 5, 7], Dialect::OWN, &LIMITS()), Ok(Request::Finalize));
}

#[test]
fn a_status_in_place_of_job_information_is_recognised() {
    for described in [false, true] {
        for generation in Generation::ALL {
            let dialect = Dialect { codec: Codec { generation, described }, peer: Version::OWN };
            for status in [Status::ERR_NOT_FOUND, Status::SUCCESS, Status::from_raw(7)] {
                let bytes = reply::encode(&Reply::Status(status), Command::JobInfo, dialect).unwrap();
                let read = reply::decode(&bytes, Command::JobInfo, dialect, &LIMITS());
                assert_eq!(read, Ok(Reply::Status(status)), "{dialect:?}");
            }
        }
    }
}

/// Regression: a reference server answers so if its host finishes at once. Our client took it for no answer.
#[test]
fn success_alone_is_success_without_infos() {
    let payload = reply::encode(&Reply::Status(Status::SUCCESS), Command::Monitor, Dialect::OWN).unwrap();
    for command in [Command::Monitor, Command::QueryInfo, Command::JobControl, Command::Allocate] {
        assert_eq!(reply::decode(&payload, command, Dialect::OWN, &LIMITS()).unwrap(), Reply::Infos(Vec::new()));
    }
    for command in [Command::IofPull, Command::Spawn, Command::Lookup, Command::Fence] {
        let decoded = reply::decode(&payload, command, Dialect::OWN, &LIMITS()).unwrap();
        assert_eq!(decoded, Reply::Status(Status::SUCCESS));
    }
}

/// A server of 3.2 needs the number that its own clients do not send.
#[test]
fn a_pull_of_output_has_its_number_for_servers_of_every_release() {
    let pull = IofPull { procs: Vec::new(), directives: Vec::new(), channels: 2, local_id: Some(7) };
    let codec = Codec { generation: Generation::V3, described: false };
    let dialect = Dialect { codec, peer: Version::new(3, 2, 5) };
    let payload = request::encode(&Request::IofPull(pull.clone()), dialect).unwrap();
    assert_eq!(request::decode(&payload, dialect, &LIMITS()).unwrap(), Request::IofPull(pull));
}

#[test]
fn an_error_with_empty_results_is_only_an_error() {
    // Status -46, then zero infos.
    let read = reply::decode(&[2, 0x5b, 2, 0], Command::QueryInfo, Dialect::OWN, &LIMITS());
    assert_eq!(read, Ok(Reply::Status(Status::ERR_NOT_FOUND)));
    // Status -46, then a number for nothing.
    let read = reply::decode(&[2, 0x5b, 2, 7], Command::IofPull, Dialect::OWN, &LIMITS());
    assert_eq!(read, Ok(Reply::Status(Status::ERR_NOT_FOUND)));
    let read = reply::decode(&[2, 0], Command::Get, Dialect::OWN, &LIMITS());
    assert_eq!(read, Ok(Reply::Data(Vec::new())));
}

#[test]
fn a_fence_may_say_who_was_missing_and_need_not() {
    let status = Status::ERR_PARTIAL_SUCCESS;
    let missing = vec![ProcId::new(Namespace::new("job").unwrap(), 1)];
    for expected in [
        Reply::Partial { status, results: Box::new(Reply::Procs(missing)) },
        Reply::Status(status),
        Reply::Status(Status::SUCCESS),
    ] {
        let bytes = reply::encode(&expected, Command::Fence, Dialect::OWN).unwrap();
        assert_eq!(reply::decode(&bytes, Command::Fence, Dialect::OWN, &LIMITS()), Ok(expected));
    }
}

#[test]
fn partial_results_of_partial_results_cannot_be_sent() {
    let partial = |results| Reply::Partial { status: Status::QUERY_PARTIAL_SUCCESS, results: Box::new(results) };
    let nested = partial(partial(Reply::Infos(Vec::new())));
    let command = Command::QueryInfo.to_raw();
    assert_eq!(reply::encode(&nested, Command::QueryInfo, Dialect::OWN), Err(EncodeError::WrongReply { command }));
}

#[test]
fn an_event_of_another_command_is_refused() {
    let error = notification::decode_event(&[2, 3], Dialect::OWN, &LIMITS()).unwrap_err();
    assert_eq!(*error.problem(), DecodeProblem::WrongCommand { expected: 12, found: 3 });
}

#[test]
fn a_segment_notice_reads_back() {
    let notice = SegmentNotice { namespace: Namespace::new("job").unwrap(), layout_id: u64::MAX };
    let bytes = notification::encode_segment(&notice).unwrap();
    assert_eq!(notification::decode_segment(&bytes, &LIMITS()), Ok(notice));
}

#[test]
fn keys_of_a_fence_are_listed_once_if_that_is_smaller() {
    let same = [entry("a.rather.long.key", "x")];
    let listed = encode_fence(&[(0, same.to_vec()), (1, same.to_vec())], Codec::V41).unwrap();
    let alone = encode_fence(&[(0, same.to_vec())], Codec::V41).unwrap();
    assert_eq!((listed[3], alone[3]), (3, 1));
}

#[test]
fn a_fence_key_outside_the_list_is_refused() {
    let same = [entry("a.rather.long.key", "x")];
    let mut bytes = encode_fence(&[(0, same.to_vec()), (1, same.to_vec())], Codec::V41).unwrap();
    let last_index = bytes.len() - 6;
    assert_eq!(bytes[last_index], 0);
    bytes[last_index] = 1;
    let BlobError::Decode(error) = decode_fence(&bytes, &LIMITS()).unwrap_err() else { panic!("inflate") };
    assert_eq!(*error.problem(), DecodeProblem::KeyIndex { index: 1, count: 1 });
}

/// A part in the form of release 6 with one process.
fn newer_part(content: &[u8], is_compressed: bool) -> Vec<u8> {
    let codec = Codec { generation: Generation::V61, described: false };
    let mut part = Writer::new(codec);
    part.pack::<Bool>(&is_compressed).unwrap();
    part.pack::<ByteObject>(&content.to_vec()).unwrap();
    let mut blob = Writer::new(codec);
    blob.pack::<ByteObject>(&part.into_bytes()).unwrap();
    blob.into_bytes()
}

/// Contents of a part in the form of release 6.
fn newer_content(procs: &[ProcId], entries: &[Kval]) -> Vec<u8> {
    let mut content = Writer::new(Codec { generation: Generation::V61, described: false });
    content.pack::<crate::bfrops::wire::Byte>(&1).unwrap();
    for proc in procs {
        layout::pack_entries_of::<ProcId>(&mut content, proc, entries).unwrap();
    }
    content.into_bytes()
}

fn deflated(content: &[u8]) -> Vec<u8> {
    let size = host_order::to_bytes(content.len().try_into().unwrap()).to_vec();
    let mut encoder = flate2::write::ZlibEncoder::new(size, flate2::Compression::best());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

/// The envelope is complete, but its content is damaged.
#[test]
fn of_a_damaged_part_of_release_6_nothing_is_given_out() {
    let procs = [2, 3].map(|rank| ProcId::new(Namespace::new("job").unwrap(), rank));
    for size_bytes in [9, 3 << 20] {
        let value = Kval { key: Key::from_static("k"), value: Value::ByteObject(vec![7; size_bytes]) };
        let content = newer_content(&procs, &[value]);
        let damaged = &content[..content.len() - 1];
        for (content, is_whole) in [(&content[..], true), (damaged, false)] {
            for part in [newer_part(content, false), newer_part(&deflated(content), true)] {
                let mut count = 0;
                let outcome = blob::read_fence(&part, &LIMITS(), &mut |_| {
                    count += 1;
                    ControlFlow::Continue(())
                });
                assert_eq!((count, outcome.is_ok()), if is_whole { (2, true) } else { (0, false) });
            }
        }
    }
}

/// A part that is read twice, because it is large, counts once against the limits.
#[test]
fn elements_of_a_large_part_are_counted_once() {
    let limits = DecodeLimits { element_count_max: 300_000, ..LIMITS() };
    let elements = vec![Value::from(0xFFFF_FFFF_FFFF_u64); 250_000];
    let array = Value::DataArray(Box::new(DataArray { element_type: DataType::Uint64, elements }));
    let bytes = encode_fence(&[(0, vec![Kval { key: Key::from_static("k"), value: array }])], Codec::V41).unwrap();
    assert!(bytes.len() > 1 << 20, "{} bytes are kept", bytes.len());
    assert_eq!(decode_fence(&bytes, &limits).map(|blocks| blocks.len()), Ok(1));
}

#[test]
fn compressed_fence_data_of_release_6_is_read() {
    let proc = ProcId::new(Namespace::new("job").unwrap(), 7);
    let mut deflated = deflated(&newer_content(std::slice::from_ref(&proc), &[entry("k", "v")]));
    let blocks = decode_fence(&newer_part(&deflated, true), &LIMITS()).unwrap();
    assert_eq!(blocks.len(), 1);
    assert_eq!((&blocks[0].contributor, &blocks[0].entries[..]), (&Contributor::Process(proc), &[entry("k", "v")][..]));

    deflated.truncate(deflated.len() - 8);
    assert!(matches!(decode_fence(&newer_part(&deflated, true), &LIMITS()), Err(BlobError::Inflate(_))));
}

/// A decompression bomb in another server's part, with or without its size. It is refused before it fills more memory
/// than a message may have.
#[test]
fn fence_data_that_inflate_without_end_are_refused() {
    let limits = DecodeLimits { message_bytes_max: 1 << 20, ..LIMITS() };
    for declared in [u32::MAX, 16 << 20, 1 << 20, 100] {
        let mut encoder =
            flate2::write::ZlibEncoder::new(host_order::to_bytes(declared).to_vec(), flate2::Compression::best());
        encoder.write_all(&vec![0; 16 << 20]).unwrap();
        let bomb = newer_part(&encoder.finish().unwrap(), true);
        assert!(bomb.len() < 64 << 10, "{} bytes", bomb.len());
        let refused = decode_fence(&bomb, &limits);
        assert!(matches!(refused, Err(BlobError::Inflate(_))), "{declared}: {refused:?}");
    }
}

fn with_dialect<T: std::fmt::Debug, S: Strategy<Value = T>>(
    strategy: impl Fn(Dialect) -> S,
) -> impl Strategy<Value = (Dialect, T)> {
    strategies::dialect().prop_flat_map(move |dialect| (Just(dialect), strategy(dialect)))
}

/// Regression: a fence over several nodes of PRRTE 3.0 failed. It puts an object with its directives, mostly none,
/// before the parts.
#[test]
fn an_empty_part_of_a_fence_is_passed_over() {
    for codec in [Codec::V41, Codec { described: true, ..Codec::V41 }] {
        let mut writer = Writer::new(codec);
        writer.pack::<ByteObject>(&Vec::new()).unwrap();
        let part = encode_fence(&[(3, vec![entry("k", "v")])], codec).unwrap();
        let blocks = decode_fence(&[writer.into_bytes(), part].concat(), &LIMITS()).unwrap();
        assert_eq!(blocks.len(), 1);
        assert_eq!(
            (&blocks[0].contributor, &blocks[0].entries[..]),
            (&Contributor::Relative(3), &[entry("k", "v")][..])
        );
    }
}

proptest! {
    #[test]
    fn every_request_reads_back((dialect, request) in with_dialect(strategies::request)) {
        let bytes = request::encode(&request, dialect).unwrap();
        prop_assert_eq!(request::decode(&bytes, dialect, &LIMITS()), Ok(request));
    }

    #[test]
    fn every_reply_reads_back((dialect, (command, reply)) in with_dialect(strategies::reply)) {
        let bytes = reply::encode(&reply, command, dialect).unwrap();
        prop_assert_eq!(reply::decode(&bytes, command, dialect, &LIMITS()), Ok(reply));
    }

    #[test]
    fn every_notice_reads_back(
        (dialect, (event, output)) in
            with_dialect(|dialect| (strategies::event(dialect.codec), strategies::output(dialect.codec))),
    ) {
        let bytes = notification::encode_event(&event, dialect).unwrap();
        prop_assert_eq!(notification::decode_event(&bytes, dialect, &LIMITS()), Ok(event));
        let bytes = notification::encode_output(&output, dialect).unwrap();
        prop_assert_eq!(notification::decode_output(&bytes, dialect, &LIMITS()), Ok(output));
    }

    #[test]
    fn fence_data_of_several_servers_reads_back_in_their_order(
        (dialect, (one, other)) in
            with_dialect(|dialect| (strategies::fence(dialect.codec), strategies::fence(dialect.codec))),
    ) {
        let parts = [&one, &other].map(|blocks| encode_fence(blocks, dialect.codec).unwrap());
        let blocks = decode_fence(&parts.concat(), &LIMITS()).unwrap();
        let read: Vec<(u32, Vec<Kval>)> = blocks
            .into_iter()
            .map(|block| match block.contributor {
                Contributor::Relative(rank) => (rank, block.entries),
                Contributor::Process(proc) => panic!("{proc} in the older form"),
            })
            .collect();
        prop_assert_eq!(read, [one, other].concat());
    }

    #[test]
    fn arbitrary_messages_never_panic(
        dialect in strategies::dialect(),
        bytes in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        for command in Command::ALL {
            let code = command.to_raw();
            let head: &[u8] = match (dialect.codec.generation, dialect.codec.described) {
                (Generation::V3, false) => &[0, 0, 0, 1, code],
                (Generation::V3, true) => &[0, 9, 0, 0, 0, 1, 0, 34, code],
                (_, false) => &[2, code],
                (_, true) => &[9, 2, 34, code],
            };
            let _ = request::decode(&[head, &bytes].concat(), dialect, &LIMITS());
            let _ = reply::decode(&[&[2, 0], bytes.as_slice()].concat(), *command, dialect, &LIMITS());
        }
        let _ = notification::decode_event(&[&[2, 12], bytes.as_slice()].concat(), dialect, &LIMITS());
        let _ = notification::decode_output(&bytes, dialect, &LIMITS());
        let _ = notification::decode_segment(&bytes, &LIMITS());
        let _ = decode_fence(&bytes, &LIMITS());
        let _ = decode_fence(&newer_part(&bytes, false), &LIMITS());
    }

    #[test]
    fn direct_modex_answers_read_back(
        (codec, entries) in crate::bfrops::strategies::codec()
            .prop_flat_map(|codec| (Just(codec), prop::collection::vec(crate::bfrops::strategies::kval(codec), 0..5))),
    ) {
        let bytes = encode_direct_modex(&entries, codec).unwrap();
        prop_assert_eq!(blob::decode_direct_modex(&bytes, &LIMITS()), Ok(entries));
    }
}

#[test]
fn global_values_are_committed_once_for_each_audience() {
    let kval = |key: &'static str| crate::types::Kval { key: Key::from_static(key), value: Value::from(key) };
    let parts =
        vec![(Scope::Local, vec![kval("l")]), (Scope::Remote, vec![kval("r")]), (Scope::Global, vec![kval("g")])];
    let local = (Scope::Local, vec![kval("l"), kval("g")]);
    let remote = (Scope::Remote, vec![kval("r"), kval("g")]);
    let commit = Commit { parts };
    assert_eq!(commit.clone().by_audience(1 << 20), [Commit { parts: vec![local.clone(), remote.clone()] }]);
    // Data for other nodes goes first: their servers request it once, and take the available part.
    assert_eq!(commit.by_audience(8), [Commit { parts: vec![remote] }, Commit { parts: vec![local] }]);
    let commit = Commit { parts: vec![(Scope::Local, vec![kval("l")])] };
    assert_eq!(commit.clone().by_audience(1 << 20), [commit]);
}

#[test]
fn a_deferred_tag_is_made_from_a_plain_one_and_back() {
    for tag in [Tag::DYNAMIC_FIRST, Tag(0x3FFF_FFFE)] {
        assert!(!tag.is_deferred() && tag.deferred().is_deferred());
        assert_eq!((tag.plain(), tag.deferred().plain()), (tag, tag));
    }
    // Tags without a deferred form stay unchanged.
    for tag in [Tag(0x3FFF_FFFF), Tag(0x4000_0000), Tag(0x8000_0031), Tag::CONNECT] {
        assert!(!tag.deferred().is_deferred());
        assert_eq!((tag.deferred(), tag.plain()), (tag, tag));
    }
}

/// Regression: one lookup of a million keys held the server for 90 ms, and the host for longer. So a list that does not
/// grow with the size of a job has a bound. Only the message bounds the values of a process and the members of an
/// operation.
#[test]
fn lists_that_do_not_grow_with_a_job_are_bounded() {
    let keys = |count: usize| vec![Key::from_static("k"); count];
    let lookup = |count| Request::from(Lookup::new(keys(count), Vec::new()));
    let infos = |count| vec![Info::new(Key::from_static("k"), 1_u32); count];
    let publish = |count| Request::from(Publish { uid: 0, info: infos(count) });
    let codes = |count| Request::DeregisterEvents(vec![Status::ERROR; count]);
    let procs = |count: u32| (0..count).map(|rank| ProcId::new(Namespace::new("job").unwrap(), rank)).collect();
    let fence = |count| Request::Fence(Collective { procs: procs(count), directives: Vec::new() });
    let control = |count| Request::from(JobControl { targets: procs(count), directives: Vec::new() });
    let read =
        |request: &Request| request::decode(&request::encode(request, Dialect::OWN).unwrap(), Dialect::OWN, &LIMITS());
    for request in [lookup(1 << 16), publish(1 << 16), codes(1 << 16), control(1 << 16), fence(1 << 17)] {
        assert_eq!(read(&request).as_ref(), Ok(&request));
    }
    for request in [lookup((1 << 16) + 1), publish((1 << 16) + 1), codes((1 << 16) + 1), control((1 << 16) + 1)] {
        assert_eq!(read(&request).map_err(|error| error.status()), Err(Status::ERR_OUT_OF_RESOURCE));
    }
    // An array within a value is one entry.
    let elements = vec![Value::from(7_u64); 1 << 17];
    let array = Value::DataArray(Box::new(DataArray { element_type: DataType::Uint64, elements }));
    let request = Request::from(Publish { uid: 0, info: vec![Info::new(Key::from_static("k"), array)] });
    assert_eq!(read(&request).as_ref(), Ok(&request));
}

/// The host's requests were counted by their size on the wire. An array of booleans takes 32 times as much while it
/// waits, and 100 such requests took 2.2 GB.
#[test]
fn the_memory_of_a_request_is_that_of_its_lists() {
    const COUNT: usize = 100_000;
    let array = |element_type, element: Value| {
        Value::DataArray(Box::new(DataArray { element_type, elements: vec![element; COUNT] }))
    };
    let info = || Info::new(Key::from_static("k"), 1_u32);
    for value in [array(DataType::Bool, true.into()), array(DataType::Info, Value::Info(Box::new(info())))] {
        let actual = footprint(&value).unwrap();
        let request = Request::from(Publish { uid: 0, info: vec![Info::new(Key::from_static("k"), value)] });
        let bytes = request::encode(&request, Dialect::OWN).unwrap();
        let (read, measured) = request::decode_measured(&bytes, Dialect::OWN, &LIMITS()).unwrap();
        assert_eq!(read, request);
        assert!((actual..3 * actual).contains(&measured), "{measured} of {actual} bytes");
    }
}

/// An empty key went up to the host, which has no rule for it. The requester is told that the key is invalid.
#[test]
fn a_lookup_of_an_empty_key_is_a_bad_parameter() {
    let nothing = || vec![Key::of_info(b"").unwrap()];
    for request in [Lookup::new(nothing(), Vec::new()).into(), Request::from(Unpublish::new(nothing(), Vec::new()))] {
        let bytes = request::encode(&request, Dialect::OWN).unwrap();
        let refused = request::decode(&bytes, Dialect::OWN, &LIMITS()).unwrap_err();
        assert_eq!(refused.status(), Status::ERR_BAD_PARAM);
    }
}

/// Blocks of removals have their own scopes, and come first, as a client of OpenPMIx 7.0 sends them.
#[test]
fn removals_have_their_own_scopes_for_releases_that_know_them() {
    let kval = |name: &'static str, value: Value| Kval { key: Key::from_static(name), value };
    let commit = Commit { parts: vec![(Scope::Local, vec![kval("a", Value::Uint32(1)), kval("b", Value::Undefined)])] };
    let dialect = |peer| Dialect { codec: Codec { generation: Generation::V41, described: false }, peer };
    let newest = dialect(Version::FIRST_WITH_REMOVALS);
    let bytes = request::encode(&Request::Commit(commit.clone()), newest).unwrap();
    let read = request::decode(&bytes, newest, &LIMITS()).unwrap();
    let apart =
        vec![(Scope::Local, vec![kval("b", Value::Undefined)]), (Scope::Local, vec![kval("a", Value::Uint32(1))])];
    assert_eq!(read, Request::Commit(Commit { parts: apart }));
    // The command and its length, the length of the scope, and the scope.
    assert_eq!(bytes.get(..4), Some(&[2, 2, 2, 5][..]));
    let own = request::encode(&Request::Commit(commit.clone()), Dialect::OWN).unwrap();
    assert_eq!(request::decode(&own, Dialect::OWN, &LIMITS()).unwrap(), Request::Commit(commit));
}

#[test]
fn a_removal_reads_back() {
    let dialect = Dialect { codec: Codec::V41, peer: Version::FIRST_WITH_REMOVALS };
    let proc = ProcId::new(Namespace::new("job").unwrap(), 1);
    let notice = notification::RemovalNotice { proc, scope: 7, key: Key::from_static("k") };
    let bytes = notification::encode_removal(&notice, dialect).unwrap();
    assert_eq!(notification::decode_removal(&bytes, dialect, &LIMITS()), Ok(notice));
}

/// Clients of 4.2 drop the values of a partial success.
#[test]
fn clients_before_5_0_get_what_a_lookup_found_with_success() {
    let pdata = crate::types::Pdata {
        proc: ProcId::new(Namespace::new("job").unwrap(), 1),
        key: Key::from_static("k"),
        value: Value::Uint32(1),
    };
    let found = Reply::Lookup(vec![pdata]);
    let partly = found.clone().with_status(Status::ERR_PARTIAL_SUCCESS);
    for (peer, expected) in [(Version::new(4, 2, 2), &found), (Version::new(5, 0, 0), &partly)] {
        let dialect = Dialect { codec: Codec::V41, peer };
        let bytes = reply::encode(&partly, Command::Lookup, dialect).unwrap();
        assert_eq!(reply::decode(&bytes, Command::Lookup, dialect, &LIMITS()).as_ref(), Ok(expected));
    }
}
