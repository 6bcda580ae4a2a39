//! Tests of every bound that a peer or the host can reach.

use std::collections::BTreeSet;

use super::harness::*;
use crate::gds::model::MapStore;
use crate::proto::{Commit, QueryInfo, Reply, Request, Spawn, Version};
use crate::server::{
    Capabilities, Credentials, DirectModexRequest, Hello, HostCall, HostReply, HostResult, Input, Limits, Output,
    PeerId, Refusal, RegisterClient, ServerConfig, ToolPolicy,
};
use crate::types::{Key, Kval, ProcId, Query, Scope, Status, Text, Value};

const FULL: Status = Status::ERR_OUT_OF_RESOURCE;

fn rig(limits: Limits) -> Rig {
    let capabilities = Capabilities::FENCE | Capabilities::DIRECT_MODEX;
    // The user of all processes, who may take all resources.
    let tools = ToolPolicy { own_uid: OWNER.uid, ..ToolPolicy::default() };
    Rig::with(ServerConfig { capabilities, limits, tools, ..ServerConfig::default() }, MapStore::new())
}

/// Fences with tens of thousands of jobs that nobody knows held the server up for 50 ms each.
#[test]
fn a_fence_names_a_bounded_number_of_jobs() {
    let mut rig = rig(Limits { participant_jobs_max: 3, ..Limits::default() });
    let peer = rig.job(2, 2)[0];
    let others = |count: u32| (0..count).map(|job| ProcId::new(namespace(&format!("unknown-{job}")), 0));
    let of_jobs = |count| [proc(0)].into_iter().chain(others(count)).chain([proc(1)]).collect::<Vec<_>>();
    assert_eq!(statuses(&rig.request(peer, fence(&of_jobs(3), &[]))), [(peer, FULL)]);
    assert_eq!(rig.request(peer, fence(&of_jobs(2), &[])), []);
}

#[test]
fn one_connection_more_than_the_limit_is_refused() {
    let mut rig = rig(Limits { peers_max: 2, ..Limits::default() });
    rig.job(2, 2);
    let (peer, outputs) = rig.connect(&proc(0), SOCKET);
    assert_eq!(outputs, [Output::Refuse(peer, Refusal::TooManyPeers { peers_max: 2 })]);
}

/// One process could take all connections of the server.
#[test]
fn one_connection_of_a_process_more_than_its_share_is_refused() {
    let mut rig = rig(Limits { peers_per_process_max: 2, ..Limits::default() });
    rig.job(2, 2);
    rig.join(&proc(0), SOCKET);
    let (peer, outputs) = rig.connect(&proc(0), SOCKET);
    assert_eq!(outputs, [Output::Refuse(peer, Refusal::TooManyOfProcess { proc: proc(0), peers_max: 2 })]);
    rig.join(&proc(1), SOCKET);
}

/// A user with many processes could take all connections of the server, and others had none.
#[test]
fn a_user_with_many_connections_leaves_some_for_others() {
    let mut rig = rig(Limits { peers_max: 12, ..Limits::default() });
    rig.job(4, 3);
    let other = RegisterClient { proc: proc(3), uid: 1001, gid: 100, object: 0 };
    rig.host(HostCall::RegisterClient(other));
    let connect = |rig: &mut Rig, proc: &ProcId, uid: u32| {
        let id = PeerId(100 + u64::try_from(rig.server.peer_count()).unwrap());
        let (version, credentials) = (Version::new(5, 0, 0), Credentials { uid, ..OWNER });
        let hello = Hello { proc: proc.clone(), credentials, store: SOCKET, version, strangers: BTreeSet::new() };
        let outputs = rig.input(Input::Connected(id, hello));
        match outputs.as_slice() {
            [Output::Admit(..)] => true,
            [Output::Refuse(_, Refusal::TooManyOfUser { uid: refused })] if *refused == uid => false,
            _ => panic!("{outputs:?}"),
        }
    };
    let admitted = (0..12).filter(|_| connect(&mut rig, &proc(0), OWNER.uid)).count();
    assert_eq!(admitted, 3, "half of all, with the three that its processes had");
    assert_eq!([1, 2, 3].map(|_| connect(&mut rig, &proc(3), 1001)), [true, true, false]);
    assert!(!connect(&mut rig, &proc(1), OWNER.uid));
}

#[test]
fn one_held_request_more_than_the_limit_is_refused_and_a_commit_or_finalize_never_is() {
    let mut rig = rig(Limits { requests_per_peer_max: 2, ..Limits::default() });
    let peers = rig.job(2, 2);
    for name in ["a", "b"] {
        assert_eq!(rig.request(peers[0], get(&proc(1), Some(name), &[])), []);
    }
    assert_eq!(statuses(&rig.request(peers[0], get(&proc(1), Some("c"), &[]))), [(peers[0], FULL)]);
    assert_eq!(statuses(&rig.put(peers[0], Scope::Global, "x", 1)), [(peers[0], Status::SUCCESS)]);
    assert_eq!(rig.request(peers[1], get(&proc(0), Some("y"), &[])), [], "others are not concerned");
    assert_eq!(statuses(&rig.request(peers[0], Request::Finalize)).len(), 2);
}

#[test]
fn one_collective_more_than_the_limit_is_refused() {
    let mut rig = rig(Limits { collectives_max: 1, ..Limits::default() });
    let peers = rig.job(2, 2);
    assert_eq!(rig.request(peers[0], fence(&[everybody()], &[])), []);
    assert_eq!(statuses(&rig.request(peers[0], fence(&[proc(0), proc(1)], &[]))), [(peers[0], FULL)]);
    assert_eq!(statuses(&rig.request(peers[1], fence(&[everybody()], &[]))).len(), 2, "joining is no new one");
}

/// One process could keep all others from their fences.
#[test]
fn one_process_arrives_at_its_share_of_the_collectives() {
    let mut rig = rig(Limits { collectives_per_process_max: 1, ..Limits::default() });
    let peers = rig.job(3, 3);
    assert_eq!(rig.request(peers[0], fence(&[everybody()], &[])), []);
    assert_eq!(statuses(&rig.request(peers[0], fence(&[proc(0), proc(1)], &[]))), [(peers[0], FULL)]);
    assert_eq!(rig.request(peers[1], fence(&[proc(1), proc(2)], &[])), [], "the other's share is its own");
    assert_eq!(rig.request(peers[1], fence(&[everybody()], &[])), [], "joining is no new one");
}

#[test]
fn one_participant_more_than_the_limit_is_refused() {
    let mut rig = rig(Limits { participants_max: 2, ..Limits::default() });
    let peers = rig.job(3, 3);
    assert_eq!(rig.request(peers[0], fence(&[proc(0), proc(1)], &[])), []);
    let outputs = rig.request(peers[0], fence(&[proc(0), proc(1), proc(2)], &[]));
    assert_eq!(statuses(&outputs), [(peers[0], FULL)]);
}

#[test]
fn one_fetch_more_than_the_limit_is_refused_and_joining_one_never_is() {
    let mut rig = rig(Limits { direct_modex_max: 1, ..Limits::default() });
    let peer = rig.job(4, 1)[0];
    assert_eq!(upcalls(&rig.request(peer, get(&proc(1), Some("a"), &[]))).len(), 1);
    assert_eq!(statuses(&rig.request(peer, get(&proc(2), Some("a"), &[]))), [(peer, FULL)]);
    assert_eq!(rig.request(peer, get(&proc(1), Some("a"), &[])), []);
}

#[test]
fn one_held_request_of_the_host_more_than_the_limit_is_refused() {
    let mut rig = rig(Limits { host_requests_max: 1, ..Limits::default() });
    rig.job(4, 1);
    let call = HostCall::DirectModexRequest(DirectModexRequest { proc: proc(0), key: None, timeout: None });
    assert_eq!(rig.host(call.clone()), []);
    assert!(matches!(rig.host(call)[..], [Output::Complete(_, HostResult::Status(FULL))]));
}

#[test]
fn one_job_that_has_ended_more_than_the_limit_and_the_oldest_is_forgotten() {
    let mut rig = rig(Limits { jobs_ended_max: 2, ..Limits::default() });
    // A job that ends again is the newest once more, and counts once.
    for name in ["a", "b", "a", "c"] {
        rig.register(name, Some(1), Some(0));
        rig.host(HostCall::DeregisterNamespace(namespace(name)));
    }
    for (name, is_known) in [("a", true), ("b", false), ("c", true)] {
        let proc = ProcId::new(namespace(name), 0);
        let outputs = rig.host(HostCall::DirectModexRequest(DirectModexRequest { proc, key: None, timeout: None }));
        assert_eq!(!outputs.is_empty(), is_known, "{name}: {outputs:?}");
    }
}

/// A client that reads over the socket got all values of its peer, for any small value. Beyond the size of a message
/// its connection broke. Now the other values are left out if they are too large.
#[test]
fn the_answer_to_a_get_carries_other_values_only_as_far_as_a_message_takes_them() {
    let one = crate::types::footprint(&kval("a", 1).value).unwrap();
    for (reply_bytes_max, expected) in [(2 * one, vec!["a", "b"]), (2 * one - 1, vec!["a"])] {
        let mut rig = rig(Limits { reply_bytes_max, ..Limits::default() });
        let peers = rig.job(2, 2);
        rig.put(peers[0], Scope::Global, "a", 1);
        rig.put(peers[0], Scope::Global, "b", 2);
        let answer = data(&rig.request(peers[1], get(&proc(0), Some("a"), &[])));
        assert_eq!(answer.iter().map(|kval| kval.key.as_str()).collect::<Vec<_>>(), expected);
    }
}

/// Each answer to a Get over the socket carried all values of the process. For a process with 10^5 keys, 700 Gets of
/// one key took the server nine seconds. Now a connection gets all values once, because clients keep them for several
/// of their Gets. Later answers carry the wanted key alone, unless all values are small.
#[test]
fn a_connection_is_told_all_that_a_process_has_posted_once() {
    let mut rig = rig(Limits::default());
    let peers = rig.job(3, 3);
    let entries =
        (0..2_000_u32).map(|number| Kval { key: Key::new(format!("k{number}")).unwrap(), value: number.into() });
    rig.request(peers[0], Request::Commit(Commit { parts: vec![(Scope::Global, entries.collect())] }));
    for reader in [peers[1], peers[2]] {
        let mut told = |key| data(&rig.request(reader, get(&proc(0), Some(key), &[])));
        assert_eq!([told("k1").len(), told("k1").len()], [2_000, 1]);
        assert_eq!(told("k1999"), [kval("k1999", 1999)]);
    }
    rig.put(peers[1], Scope::Global, "a", 1);
    rig.put(peers[1], Scope::Global, "b", 2);
    for _ in 0..2 {
        assert_eq!(data(&rig.request(peers[2], get(&proc(1), Some("a"), &[]))).len(), 2);
    }
}

/// The unpacked strings of other keys took the space of the wanted one.
#[test]
fn a_compressed_string_counts_as_what_it_unpacks_to() {
    let mut rig = rig(Limits { reply_bytes_max: 10_000, ..Limits::default() });
    let peers = rig.job(2, 2);
    let compressed = Value::CompressedString(crate::bfrops::deflated(&[b'x'; 6000], 6000));
    let entry = |key| Kval { key: Key::from_static(key), value: compressed.clone() };
    for key in ["a", "b"] {
        rig.request(peers[0], Request::Commit(Commit { parts: vec![(Scope::Global, vec![entry(key)])] }));
    }
    let answer = data(&rig.request(peers[1], get(&proc(0), Some("b"), &[])));
    assert_eq!(answer.iter().map(|kval| kval.key.as_str()).collect::<Vec<_>>(), ["b"]);
}

fn ask(rig: &mut Rig, peer: crate::server::PeerId, keys: &[&str]) -> Reply {
    let query = Query { keys: keys.iter().map(|key| Text::from(*key)).collect(), qualifiers: Vec::new() };
    replies(&rig.request(peer, Request::from(QueryInfo::new(vec![query.clone(), query])))).remove(0).1
}

/// Each repetition of a key brought one more table of the whole job.
#[test]
fn a_key_that_is_asked_for_again_is_answered_once() {
    let mut rig = rig(Limits::default());
    let peer = rig.job(4, 1)[0];
    let Reply::Infos(found) = ask(&mut rig, peer, &["pmix.qry.ptable"; 3]) else { panic!("no infos") };
    assert_eq!(found.len(), 1);
}

#[test]
fn one_key_in_queries_more_than_the_limit_is_refused() {
    for (query_keys_max, is_refused) in [(4, false), (3, true)] {
        let mut rig = rig(Limits { query_keys_max, ..Limits::default() });
        let peer = rig.job(4, 1)[0];
        let reply = ask(&mut rig, peer, &["pmix.qry.ptable", "pmix.qry.lptable"]);
        assert_eq!(reply == Reply::Status(FULL), is_refused, "{reply:?}");
    }
}

/// The answer was measured only when it was complete.
#[test]
fn one_byte_of_answers_to_queries_more_than_the_limit_is_refused() {
    let keys = ["pmix.qry.ptable", "pmix.qry.lptable"];
    let mut open = rig(Limits::default());
    let peer = open.job(4, 1)[0];
    let Reply::Infos(found) = ask(&mut open, peer, &keys) else { panic!("no infos") };
    let size_bytes: usize = found.iter().map(|info| crate::types::footprint(&info.value).unwrap()).sum();
    for (query_bytes_max, is_refused) in [(size_bytes, false), (size_bytes - 1, true)] {
        let mut rig = rig(Limits { query_bytes_max, ..Limits::default() });
        let peer = rig.job(4, 1)[0];
        let reply = ask(&mut rig, peer, &keys);
        assert_eq!(reply == Reply::Status(FULL), is_refused, "{reply:?}");
    }
}

/// All requests that a client can hold ended in one input if they had the same deadline. The rule: each input does a
/// bounded amount of work, and the next deadline is due at once.
#[test]
fn many_deadlines_of_one_moment_take_several_inputs() {
    let mut rig = rig(Limits::default());
    let peer = rig.job(2, 2)[0];
    (0..300).for_each(|_| assert_eq!(rig.request(peer, get(&proc(1), Some("a"), &[timeout(1)])), []));
    let mut ended = Vec::new();
    while rig.server.poll_timeout().is_some() {
        ended.push(rig.wait(1).len());
    }
    assert_eq!(ended, [256, 44]);
}

/// A connect with a job of 100,000 processes took the server 400 ms: the description was made, and then found too large
/// for the answer.
#[test]
fn the_description_of_a_large_job_is_no_part_of_other_answers() {
    for (size, is_there) in [(4096, true), (4097, false)] {
        let mut rig = Rig::new(Capabilities::SPAWN);
        let peer = rig.job(2, 1)[0];
        rig.register("large", Some(size), Some(0));
        let (id, _) = upcall(&rig.request(peer, Request::from(Spawn { job: Vec::new(), apps: Vec::new() })));
        let answers = replies(&rig.complete(id, HostReply::Spawned(namespace("large"))));
        let [(_, Reply::Spawned { entries, .. })] = answers.as_slice() else { panic!("{answers:?}") };
        assert_eq!(!entries.is_empty(), is_there);
    }
}
