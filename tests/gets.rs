//! Sources of a Get's value, and the waits of a Get: real sockets, real segments.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::mpsc;
use std::time::Duration;

use modex::keys::{TypedKey, marker};
use modex::types::AsStatus;
use modex::types::{DataType, Info, InfoFlags, Key, Namespace, ProcId, Rank, Scope, Status, Value};
use modex::{FenceOptions, GetError, GetOptions, keys};
use support::{TestServer, description, namespace, proc};

const ENDPOINT: TypedKey<str> = TypedKey::new("endpoint");
const SQUARE: TypedKey<u64> = TypedKey::new("square");

#[test]
fn a_get_waits_for_a_late_commit() {
    let node = TestServer::local();
    node.register_local_job("job", 2);
    let (early, late) = (node.connect("job", 0), node.connect("job", 1));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| early.get(1, ENDPOINT).unwrap().into_owned());
        // The second commit completes the Get: a commit without the key does not.
        late.put(Scope::Global, "other", 1_u32).unwrap();
        late.commit().unwrap();
        late.put(Scope::Global, "endpoint", "late").unwrap();
        late.commit().unwrap();
        assert_eq!(waiting.join().unwrap(), "late");
    });
}

#[test]
fn threads_of_one_process_share_the_socket_and_each_gets_its_own_answer() {
    let node = TestServer::local();
    node.register_local_job("job", 9);
    let asking = node.connect("job", 8);
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..8_u32)
            .map(|rank| {
                (rank, {
                    let asking = &asking;
                    scope.spawn(move || asking.get(rank, SQUARE))
                })
            })
            .collect();
        // In another order than that of the requests.
        for rank in [5_u32, 0, 7, 2, 1, 6, 4, 3] {
            let peer = node.connect("job", rank);
            peer.put(Scope::Local, "square", u64::from(rank) * u64::from(rank)).unwrap();
            peer.commit().unwrap();
            peer.finalize().unwrap();
        }
        for (rank, thread) in waiting {
            assert_eq!(thread.join().unwrap(), Ok(u64::from(rank) * u64::from(rank)));
        }
    });
}

#[test]
fn optional_and_immediate_do_not_wait_and_a_timeout_ends_waiting() {
    let node = TestServer::local();
    node.register_local_job("job", 2);
    let client = node.connect("job", 0);
    let peer = proc("job", 1);
    for options in [GetOptions::new().optional(), GetOptions::new().immediate()] {
        let missing = client.get_value(&peer, "endpoint", &options).unwrap_err();
        assert!(matches!(missing, GetError::NotFound { .. }), "{missing}");
    }
    let late = client.get_value(&peer, "endpoint", &GetOptions::new().timeout(Duration::from_secs(1))).unwrap_err();
    assert_eq!(late.status(), Status::ERR_TIMEOUT, "{late}");
}

/// An unknown directive was ignored even if the caller marked it as required. The value was found as without it. No
/// server is asked, because none knows more.
#[test]
fn a_required_directive_that_nobody_knows_is_not_supported() {
    let node = TestServer::local();
    node.register_local_job("job", 1);
    let client = node.connect("job", 0);
    let job = ProcId::new(namespace("job"), Rank::Wildcard);
    let with = |flags: InfoFlags| {
        let unknown = Info { flags: flags.bits(), ..Info::new(Key::new("vendor.thing").unwrap(), true) };
        client.get_value(&job, keys::JOB_SIZE.name(), &GetOptions::new().info(unknown)).map(|value| value.as_u64())
    };
    assert_eq!(with(InfoFlags::empty()), Ok(Some(1)));
    let refused = with(InfoFlags::REQUIRED).unwrap_err();
    assert_eq!(refused.status(), Status::ERR_NOT_SUPPORTED, "{refused}");
    drop(node);
    assert_eq!(with(InfoFlags::REQUIRED).unwrap_err().status(), Status::ERR_NOT_SUPPORTED);
}

/// Two realms in one Get were an error here, but OpenPMIx 4.2.2 answers. A reader of the segment, a client that asks
/// the server, and the server's own process agree on the order: session, node, application, job.
#[test]
fn of_several_realms_in_one_get_one_counts() {
    const KEY: &str = keys::MAX_PROCS.name();
    let node = TestServer::local();
    let number = |key: &'static str, value: u32| Info::new(Key::from_static(key), value);
    let array = |key: &'static str, entries: Vec<Info>| Info::new(Key::from_static(key), Value::info_array(entries));
    let name = Info::new(Key::from_static(keys::HOSTNAME.name()), "node0");
    let mut told = description(1, &[("node0", "0")]);
    told.extend([
        number(KEY, 10),
        array(keys::SESSION_INFO_ARRAY.name(), vec![number(keys::SESSION_ID.name(), 7), number(KEY, 100)]),
        array(keys::APP_INFO_ARRAY.name(), vec![number(keys::APPNUM.name(), 0), number(KEY, 5)]),
        array(keys::NODE_INFO_ARRAY.name(), vec![name, number(KEY, 3)]),
    ]);
    node.server.register_namespace(&namespace("job"), 1, told).wait().unwrap();
    node.register_client("job", 0);
    let (reader, asker) = (node.connect("job", 0), node.connect_over_tcp("job", 0));
    let realms = [keys::SESSION_INFO, keys::NODE_INFO, keys::APP_INFO, keys::JOB_INFO].map(|key| key.name());
    for (position, expected) in [100, 3, 5, 10].into_iter().enumerate() {
        for other in &realms[position..] {
            for both in [[realms[position], other], [other, realms[position]]] {
                let flags = both.map(|key| Info::new(Key::new(key).unwrap(), true));
                let options = flags.iter().cloned().fold(GetOptions::new(), GetOptions::info);
                for rank in [Rank::from(0), Rank::Wildcard] {
                    let proc = ProcId::new(namespace("job"), rank);
                    for client in [&reader, &asker] {
                        let found = client.get_value(&proc, KEY, &options).unwrap();
                        assert_eq!(found.as_u64(), Some(expected), "{both:?} of {rank}");
                    }
                    let found = node.server.get(&proc, Some(&Key::from_static(KEY)), flags.to_vec()).wait().unwrap();
                    assert_eq!(
                        found.first().and_then(|kval| kval.value.as_u64()),
                        Some(expected),
                        "{both:?} of {rank}"
                    );
                }
            }
        }
    }
}

/// Both hung: an empty commit never left the process, and a Get of a missing key waits for the first commit.
#[test]
fn a_get_ends_after_an_empty_commit_and_for_the_own_process() {
    let node = TestServer::local();
    node.register_local_job("job", 2);
    let (mine, peer) = (node.connect("job", 0), node.connect("job", 1));
    peer.commit().unwrap();
    for rank in [0, 1] {
        let late = mine.get_value(&proc("job", rank), "endpoint", &GetOptions::new()).unwrap_err();
        assert_eq!(late.status(), Status::ERR_TIMEOUT, "{late}");
        let all = mine.get_all(&proc("job", rank), &GetOptions::new()).unwrap();
        assert!(all.contains(&Info::new(Key::from_static("pmix.rank"), Rank::from(rank))), "{all:?}");
    }
}

#[test]
fn a_process_sees_its_own_puts_at_once_and_others_only_after_a_commit() {
    let node = TestServer::local();
    node.register_local_job("job", 2);
    let (mine, peer) = (node.connect("job", 0), node.connect("job", 1));
    mine.put(Scope::Global, "endpoint", "first").unwrap();
    assert_eq!(mine.get(0, ENDPOINT).unwrap(), "first");
    let optional = GetOptions::new().optional();
    assert!(peer.get_value(&proc("job", 0), "endpoint", &optional).is_err());
    mine.commit().unwrap();
    let found = peer.get_value(&proc("job", 0), "endpoint", &optional).unwrap();
    assert!(found.is_borrowed());
    assert_eq!(found.as_str(), Some("first"));
    mine.put(Scope::Global, "endpoint", "second").unwrap();
    mine.commit().unwrap();
    assert_eq!(peer.get(0, ENDPOINT).unwrap(), "second");
}

#[test]
fn remote_scope_hides_a_value_from_this_node_and_internal_from_everybody() {
    let node = TestServer::local();
    node.register_local_job("job", 2);
    let (mine, peer) = (node.connect("job", 0), node.connect("job", 1));
    mine.put(Scope::Remote, "far", 1_u32).unwrap();
    mine.put(Scope::Internal, "own", 2_u32).unwrap();
    mine.commit().unwrap();
    let hidden = peer.get_value(&proc("job", 0), "far", &GetOptions::new()).unwrap_err();
    assert!(matches!(hidden, GetError::OutsideScope { .. }), "{hidden}");
    let absent = peer.get_value(&proc("job", 0), "own", &GetOptions::new().immediate()).unwrap_err();
    assert!(matches!(absent, GetError::NotFound { .. }), "{absent}");
    assert_eq!(mine.get(0, TypedKey::<u32>::new("own")), Ok(2));
}

#[test]
fn a_value_of_another_type_is_a_typed_error() {
    let node = TestServer::local();
    node.register_local_job("job", 1);
    let client = node.connect("job", 0);
    client.put(Scope::Global, "endpoint", 7_u32).unwrap();
    client.commit().unwrap();
    match client.get(0, ENDPOINT).unwrap_err() {
        GetError::WrongType { expected, found, .. } => {
            assert_eq!((expected, found), ("a UTF-8 string", DataType::Uint32));
        }
        other => panic!("{other}"),
    }
    // The width does not matter, only whether the number fits.
    assert_eq!(client.get(0, TypedKey::<u64>::new("endpoint")), Ok(7));
    assert_eq!(client.get(0, TypedKey::<u8>::new("endpoint")), Ok(7));
}

#[test]
fn every_kind_of_value_is_read_as_what_it_is() {
    let node = TestServer::local();
    node.register_local_job("job", 2);
    let (mine, peer) = (node.connect("job", 0), node.connect("job", 1));
    let array = Value::info_array(vec![Info::new(Key::from_static("inner"), 5_u32)]);
    mine.put(Scope::Global, "bool", true).unwrap();
    mine.put(Scope::Global, "negative", -5_i64).unwrap();
    mine.put(Scope::Global, "float", 1.5_f32).unwrap();
    mine.put(Scope::Global, "bytes", vec![1_u8, 2, 3]).unwrap();
    mine.put(Scope::Global, "proc", proc("job", 1)).unwrap();
    // The value of C before it is filled in.
    let nobody = ProcId { namespace: Namespace::in_value(b"").unwrap(), rank: Rank::Undefined };
    mine.put(Scope::Global, "nobody", nobody.clone()).unwrap();
    mine.put(Scope::Global, "rank", Rank::Wildcard).unwrap();
    mine.put(Scope::Global, "status", Value::Status(-46)).unwrap();
    mine.put(Scope::Global, "array", array.clone()).unwrap();
    mine.commit().unwrap();
    assert_eq!(peer.get(0, TypedKey::<bool>::new("bool")), Ok(true));
    assert_eq!(peer.get(0, TypedKey::<i32>::new("negative")), Ok(-5));
    assert_eq!(peer.get(0, TypedKey::<f64>::new("float")), Ok(1.5));
    assert_eq!(&*peer.get(0, TypedKey::<marker::Bytes>::new("bytes")).unwrap(), [1, 2, 3]);
    assert_eq!(peer.get(0, TypedKey::<marker::Proc>::new("proc")), Ok(proc("job", 1)));
    assert_eq!(peer.get(0, TypedKey::<marker::Proc>::new("nobody")), Ok(nobody));
    assert_eq!(peer.get(0, TypedKey::<marker::Rank>::new("rank")), Ok(Rank::Wildcard));
    assert_eq!(peer.get(0, TypedKey::<marker::StatusCode>::new("status")), Ok(Status::ERR_NOT_FOUND));
    assert_eq!(peer.get(0, TypedKey::<marker::Any>::new("array")), Ok(array.clone()));
    match (array, peer.get(0, TypedKey::<marker::Array>::new("array")).unwrap()) {
        (Value::DataArray(expected), found) => assert_eq!(*expected, found),
        (other, _) => panic!("{other:?}"),
    }
    assert!(peer.get(0, TypedKey::<u32>::new("negative")).is_err());
    assert!(peer.get(0, TypedKey::<marker::Proc>::new("rank")).is_err());
}

#[test]
fn a_value_stored_for_a_peer_precedes_the_published_one() {
    let node = TestServer::local();
    node.register_local_job("job", 2);
    let (mine, peer) = (node.connect("job", 0), node.connect("job", 1));
    peer.put(Scope::Global, "endpoint", "published").unwrap();
    peer.commit().unwrap();
    assert_eq!(mine.get(1, ENDPOINT).unwrap(), "published");
    mine.store_internal(&proc("job", 1), Key::from_static("endpoint"), "noted").unwrap();
    assert_eq!(mine.get(1, ENDPOINT).unwrap(), "noted");
    assert_eq!(peer.get(1, ENDPOINT).unwrap(), "published");
}

/// The list of another node's ranks is not stored, so the reader must make it.
#[test]
fn the_local_peers_of_every_node_are_found_as_text() {
    let node = TestServer::local();
    let layout = [("node0", "0,1"), ("node1", "2,3"), ("node2", "4")];
    node.server.register_namespace(&namespace("job"), 2, description(5, &layout)).wait().unwrap();
    node.register_client("job", 0);
    let client = node.connect("job", 0);
    let whole = ProcId::new(namespace("job"), Rank::Wildcard);
    for (name, list) in layout {
        let options = GetOptions::new().optional();
        let options = options.info(Info::new(Key::from_static("pmix.node.info"), true));
        let options = options.info(Info::new(Key::from_static("pmix.hname"), name));
        let found = client.get_value(&whole, "pmix.lpeers", &options).unwrap();
        assert_eq!((found.as_str(), found.is_borrowed()), (Some(list), name == "node0"));
        assert_eq!(found.clone().into_str().as_deref(), Some(list));
        assert_eq!(found.into_value(), Ok(Value::from(list)));
    }
    assert_eq!(client.get(Rank::Wildcard, keys::LOCAL_PEERS).unwrap(), "0,1");
}

#[test]
fn job_data_are_complete_at_start_and_a_missing_key_of_the_own_job_is_not_waited_for() {
    let node = TestServer::local();
    node.register_local_job("job", 3);
    let client = node.connect("job", 1);
    assert_eq!(client.get(Rank::Wildcard, keys::JOB_SIZE), Ok(3));
    assert_eq!(client.get(2, keys::LOCAL_RANK), Ok(2));
    assert_eq!(client.get(0, keys::HOSTNAME).unwrap(), "node0");
    assert_eq!(client.get(Rank::Wildcard, keys::LOCAL_PEERS).unwrap(), "0,1,2");
    let missing = client.get(Rank::Wildcard, keys::ANL_MAP).unwrap_err();
    assert!(matches!(missing, GetError::NotFound { .. }), "{missing}");
}

#[test]
fn a_get_with_callback_delivers_what_is_there_and_what_comes_later() {
    let node = TestServer::local();
    node.register_local_job("job", 2);
    let (mine, peer) = (node.connect("job", 0), node.connect("job", 1));
    let (done, values) = mpsc::channel();
    for key in ["now", "later"] {
        if key == "later" {
            mine.put(Scope::Global, "now", 1_u32).unwrap();
            mine.commit().unwrap();
        }
        let done = done.clone();
        peer.pending_get(&proc("job", 0), key, &GetOptions::new())
            .then(move |value| done.send((key, value)).unwrap())
            .unwrap();
    }
    assert_eq!(values.recv().unwrap(), ("now", Ok(Value::Uint32(1))));
    mine.put(Scope::Global, "later", 2_u32).unwrap();
    mine.commit().unwrap();
    assert_eq!(values.recv().unwrap(), ("later", Ok(Value::Uint32(2))));
    let optional = GetOptions::new().optional();
    peer.pending_get(&proc("job", 0), "never", &optional)
        .then(move |value| done.send(("never", value)).unwrap())
        .unwrap();
    assert!(matches!(values.recv().unwrap(), ("never", Err(GetError::NotFound { .. }))));
}

#[test]
fn a_callback_still_due_when_the_client_goes_learns_so() {
    let node = TestServer::local();
    node.register_local_job("job", 2);
    let client = node.connect("job", 0);
    let (done, values) = mpsc::channel();
    let fence_done = done.clone();
    client.fence(&FenceOptions::new()).then(move |result| fence_done.send(result.is_err()).unwrap()).unwrap();
    client
        .pending_get(&proc("job", 1), "never", &GetOptions::new())
        .then(move |value| done.send(value.is_err()).unwrap())
        .unwrap();
    drop(client);
    assert_eq!(values.iter().collect::<Vec<_>>(), [true, true]);
}

#[test]
fn values_of_every_size_reach_other_processes() {
    let node = TestServer::local();
    node.register_local_job("job", 2);
    let (mine, peer) = (node.connect("job", 0), node.connect("job", 1));
    let sizes = [0_usize, 1, 7, 8, 9, 4095, 4096, 65_535, 65_536, 300_000, 5_000_000];
    for size in sizes {
        mine.put(Scope::Global, &format!("bytes.{size}"), vec![7_u8; size]).unwrap();
    }
    mine.commit().unwrap();
    for size in sizes {
        let found = peer.get_value(&proc("job", 0), &format!("bytes.{size}"), &GetOptions::new()).unwrap();
        assert_eq!(found.as_bytes(), Some(vec![7_u8; size].as_slice()));
    }
    let nested = Value::info_array(vec![Info::new(Key::from_static("inner"), 5_u32)]);
    mine.put(Scope::Global, "nested", nested.clone()).unwrap();
    mine.commit().unwrap();
    let found = peer.get_value(&proc("job", 0), "nested", &GetOptions::new()).unwrap();
    assert_eq!(found.into_value().unwrap(), nested);
}

#[test]
fn a_get_without_a_key_gives_all_that_a_process_posted_and_all_that_is_registered_for_it() {
    let node = TestServer::local();
    node.register_local_job("job", 2);
    let (mine, peer) = (node.connect("job", 0), node.connect("job", 1));
    // The values of a process that has posted nothing; the Get does not wait for it.
    let registered = mine.get_all(&proc("job", 1), &GetOptions::new().immediate()).unwrap();
    assert!(registered.contains(&Info::new(Key::from_static("pmix.rank"), Rank::from(1))), "{registered:?}");
    assert!(registered.iter().all(|info| info.key.is_reserved()), "{registered:?}");
    let nothing = mine.get_all(&proc("job", 1), &GetOptions::new().immediate().scope(Scope::Local)).unwrap_err();
    assert_eq!(nothing, GetError::NothingPosted { proc: proc("job", 1) });
    peer.put(Scope::Local, "near", 1_u32).unwrap();
    peer.put(Scope::Remote, "far", 2_u32).unwrap();
    peer.put(Scope::Global, "both", 3_u32).unwrap();
    peer.commit().unwrap();
    let mut all = mine.get_all(&proc("job", 1), &GetOptions::new()).unwrap();
    all.sort_by(|a, b| a.key.cmp(&b.key));
    let (told, posted): (Vec<Info>, Vec<Info>) = all.into_iter().partition(|info| info.key.is_reserved());
    assert_eq!(posted, [("both", 3_u32), ("near", 1)].map(|(key, value)| Info::new(Key::from_static(key), value)));
    assert_eq!(told, registered);
    let refused = mine.get_all(&ProcId { rank: Rank::Wildcard, ..proc("job", 1) }, &GetOptions::new());
    assert!(matches!(refused, Err(GetError::Refusal(_))));
}

#[test]
fn a_string_is_no_byte_object_wherever_it_was_found() {
    // In the segment it was one: strings and byte objects are stored alike.
    let node = TestServer::local();
    node.register_local_job("job", 2);
    let (mine, peer) = (node.connect("job", 0), node.connect("job", 1));
    mine.put(Scope::Global, "endpoint", "text").unwrap();
    mine.put(Scope::Global, "blob", b"bytes".to_vec()).unwrap();
    mine.commit().unwrap();
    for (client, is_borrowed) in [(&mine, false), (&peer, true)] {
        let text = client.get_value(&proc("job", 0), "endpoint", &GetOptions::new()).unwrap();
        assert_eq!((text.is_borrowed(), text.as_bytes(), text.as_str()), (is_borrowed, None, Some("text")));
        assert_eq!(text.into_bytes(), None);
        let blob = client.get_value(&proc("job", 0), "blob", &GetOptions::new()).unwrap();
        assert_eq!((blob.as_bytes(), blob.as_str()), (Some(&b"bytes"[..]), None));
    }
}

/// The owner commits and joins the fence while its neighbour gets ("lazy modex"). A Get that came early found nothing.
#[test]
fn gets_during_a_collecting_fence_find_what_it_brings() {
    let node = TestServer::local();
    node.register_local_job("job", 2);
    let (asking, owner) = (node.connect("job", 0), node.connect("job", 1));
    let collecting = FenceOptions::new().collect(true);
    owner.commit().unwrap();
    for round in 0..100_u32 {
        let key: &'static str = format!("key{round}").leak();
        let (ended, end) = mpsc::channel();
        asking.fence(&collecting).then(move |result| ended.send(result).unwrap()).unwrap();
        std::thread::scope(|scope| {
            let found = scope.spawn(|| asking.get_value(&proc("job", 1), key, &GetOptions::new()));
            // The first round is longer than the wait for the key of a process that has committed.
            std::thread::sleep(if round == 0 { Duration::from_millis(2500) } else { Duration::ZERO });
            owner.put(Scope::Global, key, round).unwrap();
            owner.commit().unwrap();
            owner.fence(&collecting).wait().unwrap();
            assert_eq!(found.join().unwrap().unwrap().as_u64(), Some(round.into()));
        });
        end.recv().unwrap().unwrap();
    }
}
