use std::time::Duration;

use super::harness::*;
use crate::gds::model::MapStore;
use crate::gds::{Audience, Datastore};
use crate::log_lines::LogLines;
use crate::proto::{RankData, Reply};
use crate::server::{
    Answer, Capabilities, DirectModex, DirectModexRequest, HostCall, HostReply, HostResult, Output, PeerId,
    ServerConfig, ToolPolicy, Upcall,
};
use crate::types::{Info, Key, Kval, ProcId, Rank, Scope, Status, Text, Value};

fn ask(rig: &mut Rig, proc: &ProcId, key: Option<Key>) -> Vec<Output> {
    rig.host(HostCall::DirectModexRequest(DirectModexRequest { proc: proc.clone(), key, timeout: None }))
}

fn results(outputs: &[Output]) -> Vec<HostResult> {
    let result = |output: &Output| match output {
        Output::Complete(_, result) => Some(result.clone().read()),
        _ => None,
    };
    outputs.iter().filter_map(result).collect()
}

#[test]
fn equal_requests_share_one_upcall_and_everybody_is_answered_from_the_store() {
    let mut rig = Rig::new(Capabilities::DIRECT_MODEX);
    let peers = rig.job(4, 2);
    let (id, call) = upcall(&rig.request(peers[0], get(&proc(3), Some("a"), &[timeout(30)])));
    let required = Info::new(key("pmix.req.key"), Text::from("a"));
    assert_eq!(call, Upcall::DirectModex(DirectModex { proc: proc(3), directives: vec![required, timeout(30)] }));
    assert_eq!(rig.request(peers[1], get(&proc(3), Some("a"), &[])), []);
    let outputs = rig.complete(id, HostReply::DirectModex(vec![kval("a", 1), kval("b", 2)]));
    assert_eq!(outputs[0], Output::Wake(namespace("job")), "published before anybody is told");
    let expected = Reply::Data(vec![RankData { proc: proc(3), entries: vec![kval("a", 1), kval("b", 2)] }]);
    assert_eq!(replies(&outputs), [(peers[0], expected.clone()), (peers[1], expected)]);
    assert_eq!(replies(&rig.request(peers[0], get(&proc(3), Some("b"), &[]))).len(), 1, "needs no further upcall");
}

fn rig_of_a_host_that_mixes_requests_up() -> (Rig, Vec<PeerId>) {
    let tools = ToolPolicy { own_uid: OWNER.uid, ..ToolPolicy::default() };
    let capabilities = Capabilities::DIRECT_MODEX;
    let config = ServerConfig { capabilities, tools, one_fetch_per_process: true, ..ServerConfig::default() };
    let mut rig = Rig::with(config, MapStore::new());
    let peers = rig.job(4, 2);
    (rig, peers)
}

/// Regression: PRRTE 3.0 and 4.1 give the first answer to all open requests for a process. A Get of one process found
/// another's value.
#[test]
fn a_host_that_mixes_requests_up_gets_one_at_a_time_for_each_process() {
    let (mut rig, peers) = rig_of_a_host_that_mixes_requests_up();
    let required = |name: &'static str| vec![Info::new(key("pmix.req.key"), Text::from(name))];
    let (first, _) = upcall(&rig.request(peers[0], get(&proc(3), Some("a"), &[])));
    for name in ["b", "c", "d", "b"] {
        assert_eq!(rig.request(peers[1], get(&proc(3), Some(name), &[])), []);
    }
    assert_eq!(upcalls(&rig.request(peers[1], get(&proc(2), Some("b"), &[]))).len(), 1, "another process");
    let outputs = rig.complete(first, HostReply::DirectModex(vec![kval("a", 1), kval("c", 3)]));
    assert_eq!(replies(&outputs).len(), 2, "for a and c");
    let (second, call) = upcall(&outputs);
    assert_eq!(call, Upcall::DirectModex(DirectModex { proc: proc(3), directives: required("b") }));
    let outputs = rig.complete(second, HostReply::Status(Status::ERR_NOT_FOUND));
    assert_eq!(statuses(&outputs), [(peers[1], Status::ERR_NOT_FOUND); 2], "both for b");
    let (third, call) = upcall(&outputs);
    assert_eq!(call, Upcall::DirectModex(DirectModex { proc: proc(3), directives: required("d") }));
    assert_eq!(replies(&rig.complete(third, HostReply::DirectModex(vec![kval("d", 4)]))).len(), 1);
}

/// The same for a job that this server does not know, whose values go to the requesters.
#[test]
fn requests_for_a_process_of_an_unknown_job_come_one_at_a_time_as_well() {
    let (mut rig, peers) = rig_of_a_host_that_mixes_requests_up();
    let target = ProcId::new(namespace("elsewhere"), 3);
    let (first, _) = upcall(&rig.request(peers[0], get(&target, Some("a"), &[])));
    for name in ["b", "c"] {
        assert_eq!(rig.request(peers[1], get(&target, Some(name), &[])), []);
    }
    let outputs = rig.complete(first, HostReply::DirectModex(vec![kval("a", 1), kval("c", 3)]));
    assert_eq!(replies(&outputs).len(), 2, "for a and c");
    let (second, _) = upcall(&outputs);
    assert_eq!(data(&rig.complete(second, HostReply::DirectModex(vec![kval("b", 2)]))), [kval("b", 2)]);
}

/// Regression: after a failed request for another key a refresh found the old value.
#[test]
fn a_refresh_asks_for_its_own_key_after_a_failed_request_for_another_one() {
    let (mut rig, peers) = rig_of_a_host_that_mixes_requests_up();
    let (first, _) = upcall(&rig.request(peers[0], get(&proc(3), Some("a"), &[])));
    rig.complete(first, HostReply::DirectModex(vec![kval("a", 1)]));
    let (other, _) = upcall(&rig.request(peers[0], get(&proc(3), Some("b"), &[])));
    assert_eq!(rig.request(peers[1], get(&proc(3), Some("a"), &[flag("pmix.get.refresh")])), []);
    let (again, _) = upcall(&rig.complete(other, HostReply::Status(Status::ERR_TIMEOUT)));
    let outputs = rig.complete(again, HostReply::DirectModex(vec![kval("a", 2)]));
    assert_eq!(data(&outputs), [kval("a", 2)]);
}

#[test]
fn without_the_upcall_a_remote_key_is_not_found() {
    let mut rig = Rig::new(Capabilities::empty());
    let peer = rig.job(4, 1)[0];
    assert_eq!(statuses(&rig.request(peer, get(&proc(3), Some("a"), &[]))), [(peer, Status::ERR_NOT_FOUND)]);
}

#[test]
fn the_hosts_error_is_the_answer() {
    let mut rig = Rig::new(Capabilities::DIRECT_MODEX);
    let peer = rig.job(4, 1)[0];
    let (id, _) = upcall(&rig.request(peer, get(&proc(3), Some("a"), &[])));
    let outputs = rig.complete(id, HostReply::Status(Status::ERR_TIMEOUT));
    assert_eq!(statuses(&outputs), [(peer, Status::ERR_TIMEOUT)]);
}

#[test]
fn data_without_the_key_is_kept_but_the_key_is_not_found() {
    let mut rig = Rig::new(Capabilities::DIRECT_MODEX);
    let peer = rig.job(4, 1)[0];
    let (id, _) = upcall(&rig.request(peer, get(&proc(3), Some("a"), &[])));
    let outputs = rig.complete(id, HostReply::DirectModex(vec![kval("b", 2)]));
    assert_eq!(statuses(&outputs), [(peer, Status::ERR_NOT_FOUND)]);
    let posted = rig.server.store().posted(&namespace("job"), 3, Audience::OtherNodes);
    assert_eq!(posted, Ok(vec![kval("b", 2)]));
}

#[test]
fn a_store_that_cannot_take_the_data_is_an_error_for_whoever_waits() {
    let config = ServerConfig { capabilities: Capabilities::DIRECT_MODEX, ..ServerConfig::default() };
    let mut rig = Rig::with(config, MapStore::with_values_max(0));
    let peer = rig.job(4, 1)[0];
    let (id, _) = upcall(&rig.request(peer, get(&proc(3), Some("a"), &[])));
    let outputs = rig.complete(id, HostReply::DirectModex(vec![kval("a", 1)]));
    assert_eq!(statuses(&outputs), [(peer, Status::ERR_OUT_OF_RESOURCE)]);
}

#[test]
fn a_refresh_asks_again_for_what_is_here() {
    let mut rig = Rig::new(Capabilities::DIRECT_MODEX);
    let peer = rig.job(4, 1)[0];
    let (id, _) = upcall(&rig.request(peer, get(&proc(3), Some("a"), &[])));
    rig.complete(id, HostReply::DirectModex(vec![kval("a", 1)]));
    let (id, _) = upcall(&rig.request(peer, get(&proc(3), Some("a"), &[flag("pmix.get.refresh")])));
    assert_eq!(data(&rig.complete(id, HostReply::DirectModex(vec![kval("a", 2)]))), [kval("a", 2)]);
}

#[test]
fn a_refresh_of_a_neighbour_needs_no_host() {
    let mut rig = Rig::new(Capabilities::DIRECT_MODEX);
    let peers = rig.job(4, 2);
    rig.put(peers[0], Scope::Global, "a", 1);
    let outputs = rig.request(peers[1], get(&proc(0), Some("a"), &[flag("pmix.get.refresh")]));
    assert_eq!(data(&outputs), [kval("a", 1)]);
}

#[test]
fn a_process_that_turns_out_to_be_local_is_waited_for() {
    let mut rig = Rig::new(Capabilities::DIRECT_MODEX);
    let peer = rig.job(4, 1)[0];
    let (id, _) = upcall(&rig.request(peer, get(&proc(3), Some("a"), &[])));
    rig.register_client(&proc(3));
    assert_eq!(rig.complete(id, HostReply::Status(Status::ERR_NOT_FOUND)), []);
    let target = rig.join(&proc(3), SOCKET);
    assert_eq!(replies(&rig.put(target, Scope::Global, "a", 1)).len(), 2);
}

#[test]
fn a_get_that_timed_out_leaves_the_fetch_for_the_next() {
    let mut rig = Rig::new(Capabilities::DIRECT_MODEX);
    let peer = rig.job(4, 1)[0];
    let (id, _) = upcall(&rig.request(peer, get(&proc(3), Some("a"), &[timeout(1)])));
    assert_eq!(statuses(&rig.wait(1)), [(peer, Status::ERR_TIMEOUT)]);
    assert_eq!(rig.request(peer, get(&proc(3), Some("a"), &[])), []);
    assert_eq!(data(&rig.complete(id, HostReply::DirectModex(vec![kval("a", 1)]))), [kval("a", 1)]);
}

#[test]
fn a_get_that_comes_to_need_the_host_keeps_its_deadline() {
    let mut rig = Rig::new(Capabilities::DIRECT_MODEX);
    rig.register("job", Some(4), Some(2));
    rig.register_client(&proc(0));
    let peer = rig.join(&proc(0), SOCKET);
    assert_eq!(rig.request(peer, get(&proc(3), Some("a"), &[timeout(5)])), []);
    rig.wait(3);
    assert_eq!(upcalls(&rig.register_client(&proc(1))).len(), 1);
    assert_eq!(statuses(&rig.wait(2)), [(peer, Status::ERR_TIMEOUT)]);
}

/// A server whose fence failed lacks the others' values, and the next fence brings only changes. A direct modex of the
/// same commit holds all values, so an equal number is no reason to drop it.
#[test]
fn a_fetch_of_the_commit_that_is_here_in_part_fills_the_gaps() {
    let mut rig = Rig::new(Capabilities::DIRECT_MODEX | Capabilities::FENCE);
    let peer = rig.job(2, 1)[0];
    let collect = fence(&[everybody()], &[flag("pmix.collect")]);
    let (failed, _) = fence_upcall(&rig.request(peer, collect.clone()));
    rig.complete(failed, HostReply::Status(Status::ERR_UNREACH));
    let (id, _) = fence_upcall(&rig.request(peer, collect));
    rig.complete(id, fenced(vec![(proc(1), up_to(2, vec![kval("b", 2)]))]));
    let (fetch, _) = upcall(&rig.request(peer, get(&proc(1), Some("a"), &[])));
    let both = vec![kval("a", 1), kval("b", 2)];
    assert_eq!(data(&rig.complete(fetch, HostReply::DirectModex(up_to(2, both.clone())))), both);
}

#[test]
fn a_host_that_never_answers_is_a_timeout() {
    let config = ServerConfig {
        capabilities: Capabilities::DIRECT_MODEX,
        host_timeout: Some(Duration::from_secs(60)),
        ..ServerConfig::default()
    };
    let mut rig = Rig::with(config, MapStore::new());
    let peer = rig.job(4, 1)[0];
    rig.request(peer, get(&proc(3), Some("a"), &[]));
    let lines = LogLines::default();
    let outputs = tracing::subscriber::with_default(lines.subscriber(), || rig.wait(60));
    assert_eq!(statuses(&outputs), [(peer, Status::ERR_TIMEOUT)]);
    assert_eq!(rig.server.upcall_count(), 0);
    let lines = lines.taken();
    assert!(lines.len() == 1 && lines[0].contains("values of a remote process"), "{lines:?}");
}

#[test]
fn a_fence_may_bring_what_a_get_waits_for() {
    let mut rig = Rig::new(Capabilities::DIRECT_MODEX | Capabilities::FENCE);
    let peers = rig.job(4, 2);
    let (fetch, _) = upcall(&rig.request(peers[0], get(&proc(3), Some("a"), &[])));
    rig.request(peers[0], fence(&[everybody()], &[flag("pmix.collect")]));
    let (id, _) = fence_upcall(&rig.request(peers[1], fence(&[everybody()], &[flag("pmix.collect")])));
    let outputs = rig.complete(id, fenced(vec![(proc(3), vec![kval("a", 1)])]));
    assert_eq!(replies(&outputs).len(), 3);
    assert_eq!(replies(&rig.complete(fetch, HostReply::DirectModex(vec![kval("a", 1)]))), []);
}

#[test]
fn an_unknown_namespace_is_fetched_whole_and_passed_on() {
    let mut rig = Rig::new(Capabilities::DIRECT_MODEX);
    let peers = rig.job(2, 2);
    let (foreign, job) = (ProcId::new(namespace("x"), 4), ProcId::new(namespace("x"), Rank::Wildcard));
    let (id, call) = upcall(&rig.request(peers[0], get(&foreign, Some("pmix.hname"), &[])));
    assert_eq!(call, Upcall::DirectModex(DirectModex { proc: job.clone(), directives: Vec::new() }));
    assert_eq!(rig.request(peers[1], get(&job, Some("pmix.job.size"), &[])), []);
    let outputs = rig.complete(id, HostReply::DirectModex(vec![kval("pmix.job.size", 8)]));
    let expected = Reply::Data(vec![RankData { proc: job, entries: vec![kval("pmix.job.size", 8)] }]);
    assert_eq!(replies(&outputs), [(peers[0], expected.clone()), (peers[1], expected)]);
    assert!(!rig.server.store().is_registered(&namespace("x")), "only the host creates namespaces");
}

#[test]
fn an_unknown_namespace_is_not_found_without_the_upcall_or_when_immediate() {
    let foreign = ProcId::new(namespace("x"), Rank::Wildcard);
    for capabilities in [Capabilities::empty(), Capabilities::DIRECT_MODEX] {
        let mut rig = Rig::new(capabilities);
        let peer = rig.job(1, 1)[0];
        let outputs = rig.request(peer, get(&foreign, Some("pmix.job.size"), &[flag("pmix.immediate")]));
        assert_eq!(statuses(&outputs), [(peer, Status::ERR_NOT_FOUND)]);
    }
    let mut rig = Rig::new(Capabilities::empty());
    let peer = rig.job(1, 1)[0];
    let outputs = rig.request(peer, get(&foreign, Some("pmix.job.size"), &[]));
    assert_eq!(statuses(&outputs), [(peer, Status::ERR_NOT_FOUND)]);
}

#[test]
fn the_hosts_request_is_held_until_the_process_commits() {
    let mut rig = Rig::new(Capabilities::empty());
    let peer = rig.job(4, 1)[0];
    assert_eq!(ask(&mut rig, &proc(0), None), []);
    let outputs = rig.request(
        peer,
        crate::proto::Request::Commit(crate::proto::Commit {
            parts: vec![(Scope::Local, vec![kval("a", 1)]), (Scope::Remote, vec![kval("b", 2)])],
        }),
    );
    assert_eq!(results(&outputs), [HostResult::Entries(up_to(1, vec![kval("b", 2)]))], "what other nodes may see");
}

#[test]
fn the_hosts_request_for_a_key_is_held_until_that_key_is_there() {
    let mut rig = Rig::new(Capabilities::empty());
    let peer = rig.job(4, 1)[0];
    rig.put(peer, Scope::Global, "b", 1);
    assert_eq!(ask(&mut rig, &proc(0), Some(key("a"))), []);
    let outputs = rig.put(peer, Scope::Global, "a", 2);
    assert_eq!(results(&outputs), [HostResult::Entries(up_to(2, vec![kval("a", 2), kval("b", 1)]))]);
}

#[test]
fn the_hosts_request_may_come_before_the_registration() {
    let mut rig = Rig::new(Capabilities::empty());
    assert_eq!(ask(&mut rig, &proc(0), None), []);
    let peer = rig.job(4, 1)[0];
    assert_eq!(results(&rig.put(peer, Scope::Global, "a", 1)), [HostResult::Entries(up_to(1, vec![kval("a", 1)]))]);
}

#[test]
fn the_hosts_request_for_somebody_gone_or_elsewhere_is_not_found() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(4, 2);
    let not_found = [HostResult::Status(Status::ERR_NOT_FOUND)];
    assert_eq!(results(&ask(&mut rig, &proc(3), None)), not_found);
    assert_eq!(ask(&mut rig, &proc(0), None), []);
    assert_eq!(results(&rig.lose(peers[0])), not_found);
    assert_eq!(results(&ask(&mut rig, &proc(0), None)), not_found);
}

fn deregister(rig: &mut Rig, name: &str) -> Vec<Output> {
    rig.host(HostCall::DeregisterNamespace(namespace(name)))
}

/// The request was held until the server finalized, and with it the Get on the other node.
#[test]
fn the_hosts_request_for_a_process_of_a_job_that_has_ended_is_not_found_at_once() {
    let mut rig = Rig::new(Capabilities::DIRECT_MODEX);
    let peer = rig.job(2, 1)[0];
    rig.put(peer, Scope::Global, "a", 1);
    rig.request(peer, crate::proto::Request::Finalize);
    deregister(&mut rig, "job");
    let not_found = [HostResult::Status(Status::ERR_NOT_FOUND)];
    for (whose, key) in [(proc(0), Some(key("a"))), (proc(0), None), (proc(1), None), (everybody(), None)] {
        assert_eq!(results(&ask(&mut rig, &whose, key)), not_found, "{whose}");
    }
    assert_eq!(rig.server.open_call_count(), 0);
    // A job that was never here may still come.
    assert_eq!(ask(&mut rig, &ProcId::new(namespace("x"), 0), None), []);
    deregister(&mut rig, "y");
    assert_eq!(ask(&mut rig, &ProcId::new(namespace("y"), 0), None), []);
}

#[test]
fn the_hosts_request_that_is_held_when_the_job_ends_is_not_found() {
    let mut rig = Rig::new(Capabilities::empty());
    rig.job(2, 1);
    assert_eq!(ask(&mut rig, &proc(0), Some(key("a"))), []);
    let results = results(&deregister(&mut rig, "job"));
    assert_eq!(results, [HostResult::Status(Status::ERR_NOT_FOUND), HostResult::Status(Status::SUCCESS)]);
}

#[test]
fn a_job_that_is_announced_anew_has_not_ended() {
    for is_client_first in [false, true] {
        let mut rig = Rig::new(Capabilities::empty());
        rig.job(2, 1);
        deregister(&mut rig, "job");
        if is_client_first {
            rig.register_client(&proc(0));
            assert_eq!(ask(&mut rig, &proc(0), None), []);
        }
        let peer = rig.job(2, 1)[0];
        assert_eq!(ask(&mut rig, &proc(0), Some(key("a"))), []);
        let found = results(&rig.put(peer, Scope::Global, "a", 1));
        assert_eq!(found.len(), 1 + usize::from(is_client_first));
        assert!(found.iter().all(|result| matches!(result, HostResult::Entries(_))), "{found:?}");
    }
}

#[test]
fn a_clients_get_of_a_job_that_has_ended_is_for_the_host_or_else_not_found() {
    for capabilities in [Capabilities::empty(), Capabilities::DIRECT_MODEX] {
        let mut rig = Rig::new(capabilities);
        let peer = rig.job(1, 1)[0];
        rig.register("ended", Some(1), Some(0));
        deregister(&mut rig, "ended");
        let outputs = rig.request(peer, get(&ProcId::new(namespace("ended"), 0), Some("a"), &[]));
        match capabilities.is_empty() {
            true => assert_eq!(statuses(&outputs), [(peer, Status::ERR_NOT_FOUND)]),
            false => assert_eq!(upcalls(&outputs).len(), 1),
        }
    }
}

#[test]
fn the_hosts_request_for_the_wildcard_is_the_job() {
    let mut rig = Rig::new(Capabilities::empty());
    rig.job(4, 1);
    let expected = [HostResult::Entries(vec![kval("pmix.job.size", 4)])];
    assert_eq!(results(&ask(&mut rig, &everybody(), None)), expected);
}

#[test]
fn the_hosts_request_ends_with_its_timeout() {
    let mut rig = Rig::new(Capabilities::empty());
    rig.job(4, 1);
    let timeout = Some(Duration::from_secs(2));
    rig.host(HostCall::DirectModexRequest(DirectModexRequest { proc: proc(0), key: None, timeout }));
    assert_eq!(results(&rig.wait(2)), [HostResult::Status(Status::ERR_TIMEOUT)]);
    assert_eq!(rig.server.open_call_count(), 0);
}

/// Wire-up of a node to a remote root: the other node was asked once for each process.
#[test]
fn all_processes_of_a_node_that_ask_for_one_elsewhere_cost_one_upcall_and_one_publication() {
    let mut rig = Rig::new(Capabilities::DIRECT_MODEX);
    rig.register("job", Some(65), Some(64));
    (0..64).for_each(|rank| drop(rig.register_client(&proc(rank))));
    let peers: Vec<PeerId> = (0..64).map(|rank| rig.join(&proc(rank), SEGMENT)).collect();
    let asked: Vec<_> =
        peers.iter().flat_map(|&peer| upcalls(&rig.request(peer, get(&proc(64), Some("a"), &[])))).collect();
    assert_eq!(asked.len(), 1, "{asked:?}");
    let outputs = rig.complete(asked[0].0, HostReply::DirectModex(vec![kval("a", 1)]));
    assert_eq!(replies(&outputs).len(), 64);
    let publications = outputs.iter().filter(|output| matches!(output, Output::Wake(_))).count();
    assert_eq!(publications, 1);
    // A published value costs no further request.
    assert_eq!(upcalls(&rig.request(peers[0], get(&proc(64), Some("a"), &[]))), []);
}

/// Regression: the answer of the host ended all requests that waited for it in one turn, each with a copy of all data.
#[test]
fn one_answer_of_the_host_settles_many_requests_in_steps() {
    let mut rig = Rig::new(Capabilities::DIRECT_MODEX);
    let peers = rig.job(4, 1);
    for target in [proc(3), ProcId::new(namespace("elsewhere"), 3)] {
        let (id, _) = upcall(&rig.request(peers[0], get(&target, Some("a"), &[])));
        for _ in 0..99 {
            assert_eq!(rig.request(peers[0], get(&target, Some("a"), &[])), []);
        }
        let outputs = rig.complete(id, HostReply::DirectModex(vec![kval("a", 1)]));
        assert_eq!(replies(&outputs).len(), 64, "{target}");
        assert_eq!(replies(&rig.wait(1)).len(), 36, "{target}");
        assert_eq!(rig.wait(1), []);
    }
}

/// Regression: each request for one key of an unknown job got all fetched data, however much it was.
#[test]
fn large_data_of_an_unknown_job_is_told_in_part_or_shared() {
    let mut rig = Rig::new(Capabilities::DIRECT_MODEX);
    let peers = rig.job(4, 1);
    let target = ProcId::new(namespace("elsewhere"), 3);
    let large = Kval { key: key("large"), value: Value::from("x".repeat(1 << 20)) };
    let fetched = vec![kval("a", 1), large];
    let ask = |rig: &mut Rig, name: Option<&'static str>| {
        let (id, _) = upcall(&rig.request(peers[0], get(&target, name, &[])));
        rig.complete(id, HostReply::DirectModex(fetched.clone()))
    };
    assert_eq!(data(&ask(&mut rig, Some("a"))), [kval("a", 1)]);
    let outputs = ask(&mut rig, None);
    let [Output::Answer(_, _, Answer::Process(answer))] = outputs.as_slice() else { panic!("{outputs:?}") };
    assert_eq!(answer.clone().read().unwrap().entries, fetched);
}

/// Regression: 64 requests in one step each searched all values of an unknown job's process.
#[test]
fn a_search_in_much_data_of_an_unknown_job_ends_the_step() {
    let mut rig = Rig::new(Capabilities::DIRECT_MODEX);
    let peers = rig.job(4, 1);
    let target = ProcId::new(namespace("elsewhere"), 3);
    let (id, _) = upcall(&rig.request(peers[0], get(&target, Some("b"), &[])));
    assert_eq!(rig.request(peers[0], get(&target, Some("b"), &[])), []);
    let outputs = rig.complete(id, HostReply::DirectModex(vec![kval("a", 1); (2 << 20) / size_of::<Kval>()]));
    assert_eq!(statuses(&outputs), [(peers[0], Status::ERR_NOT_FOUND)]);
    assert_eq!(statuses(&rig.wait(1)), [(peers[0], Status::ERR_NOT_FOUND)]);
}

/// Regression: a request whose time ended between two steps of an answer got no data, although it was here.
#[test]
fn the_hosts_answer_is_in_time_for_requests_that_wait_for_their_step() {
    let mut rig = Rig::new(Capabilities::DIRECT_MODEX);
    let peers = rig.job(4, 1);
    let target = ProcId::new(namespace("elsewhere"), 3);
    let (id, _) = upcall(&rig.request(peers[0], get(&target, Some("a"), &[timeout(1)])));
    for _ in 1..200 {
        assert_eq!(rig.request(peers[0], get(&target, Some("a"), &[timeout(1)])), []);
    }
    let mut answers = replies(&rig.complete(id, HostReply::DirectModex(vec![kval("a", 1)])));
    answers.extend(replies(&rig.wait(1)));
    assert!(answers.len() < 200);
    while answers.len() < 200 {
        let more = replies(&rig.wait(0));
        assert!(!more.is_empty(), "{} are answered", answers.len());
        answers.extend(more);
    }
    assert!(answers.iter().all(|(_, reply)| matches!(reply, Reply::Data(_))), "{answers:?}");
}
