//! Fences that a server missed, and its recovery before the next fence of the same participants succeeds.

use super::harness::*;
use crate::gds::model::MapStore;
use crate::server::{Capabilities, DirectModex, HostCall, HostReply, Output, PeerId, ServerConfig, ToolPolicy, Upcall};
use crate::types::{Info, ProcId, Rank, Scope, Status, Text};

const SUCCESS: Status = Status::SUCCESS;

/// Found by simulation: a host's answer was lost on its way to one server, together with the fence's data. The other
/// servers never sent that data again, so this server went on to answer with older values. Now it fetches all values
/// that may be outdated before the next fence of these participants succeeds.
#[test]
fn outdated_values_are_fetched_after_a_missed_fence_before_the_next() {
    let mut rig = Rig::new(Capabilities::FENCE | Capabilities::DIRECT_MODEX);
    let peer = rig.job(4, 1)[0];
    let (id, _) = collect(&mut rig, &[peer]);
    rig.complete(id, fenced(vec![(proc(1), up_to(1, vec![kval("a", 1)])), (proc(2), up_to(1, vec![kval("a", 1)]))]));
    let (missed, _) = collect(&mut rig, &[peer]);
    rig.complete(missed, HostReply::Status(Status::ERR_TIMEOUT));
    let (id, _) = collect(&mut rig, &[peer]);
    let outputs = rig.complete(id, fenced(vec![(proc(2), up_to(3, vec![kval("b", 3)]))]));
    assert_eq!(replies(&outputs), []);
    let fetches = upcalls(&outputs);
    let asked: Vec<Upcall> = fetches.iter().map(|(_, upcall)| upcall.clone()).collect();
    let whole = |rank| Upcall::DirectModex(DirectModex { proc: proc(rank), directives: Vec::new() });
    assert_eq!(asked, [whole(1), whole(2)], "nothing is known of rank 3: a Get asks");
    let first = rig.complete(fetches[0].0, HostReply::DirectModex(up_to(2, vec![kval("a", 2)])));
    assert_eq!(replies(&first), []);
    let last = rig.complete(fetches[1].0, HostReply::DirectModex(up_to(3, vec![kval("a", 2), kval("b", 3)])));
    assert_eq!(statuses(&last), [(peer, SUCCESS)]);
    for rank in [1, 2] {
        assert_eq!(data(&rig.request(peer, get(&proc(rank), Some("a"), &[])))[0], kval("a", 2));
    }
    let (id, _) = collect(&mut rig, &[peer]);
    assert_eq!(statuses(&rig.complete(id, fenced(Vec::new()))), [(peer, SUCCESS)], "that was once for all");
}

#[test]
fn a_fence_that_cannot_fetch_what_another_has_brought_to_others_fails_and_so_does_the_next() {
    for (capabilities, failure) in [
        (Capabilities::FENCE, Status::ERR_NOT_SUPPORTED),
        (Capabilities::FENCE | Capabilities::DIRECT_MODEX, Status::ERR_UNREACH),
    ] {
        let mut rig = Rig::new(capabilities);
        let peer = rig.job(2, 1)[0];
        let (id, _) = collect(&mut rig, &[peer]);
        rig.complete(id, fenced(vec![(proc(1), up_to(1, vec![kval("a", 1)]))]));
        let (missed, _) = collect(&mut rig, &[peer]);
        rig.complete(missed, HostReply::Status(Status::ERR_TIMEOUT));
        for _ in 0..2 {
            let (id, _) = collect(&mut rig, &[peer]);
            let mut outputs = rig.complete(id, fenced(Vec::new()));
            for (fetch, _) in upcalls(&outputs) {
                outputs = rig.complete(fetch, HostReply::Status(Status::ERR_UNREACH));
            }
            assert_eq!(statuses(&outputs), [(peer, failure)]);
        }
    }
}

/// If the fence failed for all servers, all send everything again, and none needs a fetch.
#[test]
fn after_a_fence_that_failed_everything_is_sent_and_said_to_be_everything() {
    let mut rig = Rig::new(Capabilities::FENCE | Capabilities::DIRECT_MODEX);
    let peer = rig.job(2, 1)[0];
    let everything = |commit: u64, entries| up_to(commit | 1 << 63, entries);
    rig.put(peer, Scope::Global, "a", 1);
    let (id, data) = collect(&mut rig, &[peer]);
    assert_eq!(data.blocks, [(proc(0), up_to(1, vec![kval("a", 1)]))], "nobody can have missed anything");
    rig.complete(id, fenced(vec![(proc(1), up_to(1, vec![kval("a", 1)]))]));
    let (missed, _) = collect(&mut rig, &[peer]);
    rig.complete(missed, HostReply::Status(Status::ERR_TIMEOUT));
    let (id, data) = collect(&mut rig, &[peer]);
    assert_eq!(data.blocks, [(proc(0), everything(1, vec![kval("a", 1)]))]);
    let outputs = rig.complete(id, fenced(vec![(proc(1), everything(2, vec![kval("a", 2)]))]));
    assert_eq!((statuses(&outputs), upcalls(&outputs)), (vec![(peer, SUCCESS)], Vec::new()));
    rig.put(peer, Scope::Global, "b", 1);
    assert_eq!(collect(&mut rig, &[peer]).1.blocks, [(proc(0), up_to(2, vec![kval("b", 1)]))]);
}

/// The answer for one fence may be older than the data of another one, which held only changes.
#[test]
fn values_overtaken_during_their_fetch_are_fetched_again() {
    let mut rig = Rig::new(Capabilities::FENCE | Capabilities::DIRECT_MODEX);
    let peer = rig.job(2, 1)[0];
    let both = [proc(0), proc(1)];
    let bring = |rig: &mut Rig, procs: &[ProcId], reply| {
        let (id, _) = fence_upcall(&rig.request(peer, fence(procs, &[flag("pmix.collect")])));
        rig.complete(id, reply)
    };
    bring(&mut rig, &[everybody()], fenced(vec![(proc(1), up_to(1, vec![kval("a", 1)]))]));
    bring(&mut rig, &[everybody()], HostReply::Status(Status::ERR_TIMEOUT));
    let (fetch, _) = upcall(&bring(&mut rig, &[everybody()], fenced(Vec::new())));
    bring(&mut rig, &both, fenced(vec![(proc(1), up_to(3, vec![kval("b", 3)]))]));
    let outputs = rig.complete(fetch, HostReply::DirectModex(up_to(2, vec![kval("a", 2)])));
    let (again, _) = upcall(&outputs);
    assert_eq!(replies(&outputs), []);
    let outputs = rig.complete(again, HostReply::DirectModex(up_to(3, vec![kval("a", 2), kval("b", 3)])));
    assert_eq!(statuses(&outputs), [(peer, SUCCESS)]);
    assert_eq!(data(&rig.request(peer, get(&proc(1), Some("a"), &[])))[0], kval("a", 2));
}

#[test]
fn a_job_that_goes_takes_the_fence_along_that_fetches_its_values() {
    let mut rig = Rig::new(Capabilities::FENCE | Capabilities::DIRECT_MODEX);
    let peer = rig.job(2, 1)[0];
    let (id, _) = collect(&mut rig, &[peer]);
    rig.complete(id, fenced(vec![(proc(1), up_to(1, vec![kval("a", 1)]))]));
    let (missed, _) = collect(&mut rig, &[peer]);
    rig.complete(missed, HostReply::Status(Status::ERR_TIMEOUT));
    let (id, _) = collect(&mut rig, &[peer]);
    assert_eq!(rig.server.upcall_count(), 1);
    rig.complete(id, fenced(Vec::new()));
    let outputs = rig.host(HostCall::DeregisterNamespace(namespace("job")));
    assert_eq!(statuses(&outputs), [(peer, Status::ERR_NOT_FOUND)]);
    assert_eq!((rig.server.upcall_count(), rig.server.collective_count()), (0, 0));
}

/// Two missed fences covered one process. The fence that had asked for it ended with its other job, and the other fence
/// waited for an answer without an owner.
#[test]
fn a_fence_asks_itself_when_the_one_that_had_asked_is_gone() {
    let mut rig = Rig::new(Capabilities::FENCE | Capabilities::DIRECT_MODEX);
    let peer = rig.job(2, 1)[0];
    let with = |name: &str| [everybody(), ProcId::new(namespace(name), Rank::Wildcard)];
    let bring = |rig: &mut Rig, name: &str, reply: HostReply| {
        let (id, _) = fence_upcall(&rig.request(peer, fence(&with(name), &[flag("pmix.collect")])));
        rig.complete(id, reply)
    };
    for name in ["y", "z"] {
        rig.register(name, Some(1), Some(0));
        bring(&mut rig, name, fenced(vec![(proc(1), up_to(1, vec![kval("a", 1)]))]));
        bring(&mut rig, name, HostReply::Status(Status::ERR_TIMEOUT));
    }
    let (_, asked) = upcall(&bring(&mut rig, "y", fenced(Vec::new())));
    assert_eq!(upcalls(&bring(&mut rig, "z", fenced(Vec::new()))), [], "nobody is asked for twice at a time");
    let outputs = rig.host(HostCall::DeregisterNamespace(namespace("y")));
    assert_eq!(statuses(&outputs), [(peer, Status::ERR_NOT_FOUND)]);
    let (fetch, again) = upcall(&outputs);
    assert_eq!(again, asked);
    let outputs = rig.complete(fetch, HostReply::DirectModex(up_to(2, vec![kval("a", 2)])));
    assert_eq!(statuses(&outputs), [(peer, SUCCESS)]);
}

/// A server whose host answers all open requests for a process with the first answer. It has missed a fence of its
/// process and rank 1.
fn rig_of_a_host_that_mixes_requests_up(participants: &[ProcId]) -> (Rig, PeerId) {
    let capabilities = Capabilities::FENCE | Capabilities::DIRECT_MODEX;
    let tools = ToolPolicy { own_uid: OWNER.uid, ..ToolPolicy::default() };
    let config = ServerConfig { capabilities, tools, one_fetch_per_process: true, ..ServerConfig::default() };
    let mut rig = Rig::with(config, MapStore::new());
    let peer = rig.job(2, 1)[0];
    bring(&mut rig, peer, participants, fenced(vec![(proc(1), up_to(1, vec![kval("a", 1)]))]));
    bring(&mut rig, peer, participants, HostReply::Status(Status::ERR_TIMEOUT));
    (rig, peer)
}

fn bring(rig: &mut Rig, peer: PeerId, procs: &[ProcId], reply: HostReply) -> Vec<Output> {
    let (id, _) = fence_upcall(&rig.request(peer, fence(procs, &[flag("pmix.collect")])));
    rig.complete(id, reply)
}

#[test]
fn at_a_host_that_mixes_requests_up_a_missed_fence_waits_for_a_get() {
    let (mut rig, peer) = rig_of_a_host_that_mixes_requests_up(&[everybody()]);
    let (get, _) = upcall(&rig.request(peer, get(&proc(1), Some("x"), &[])));
    assert_eq!(bring(&mut rig, peer, &[everybody()], fenced(Vec::new())), []);
    let outputs = rig.complete(get, HostReply::Status(Status::ERR_NOT_FOUND));
    let (whole, call) = upcall(&outputs);
    assert_eq!(call, Upcall::DirectModex(DirectModex { proc: proc(1), directives: Vec::new() }));
    let outputs = rig.complete(whole, HostReply::DirectModex(up_to(2, vec![kval("a", 2)])));
    assert!(statuses(&outputs).contains(&(peer, SUCCESS)), "{outputs:?}");
}

#[test]
fn at_a_host_that_mixes_requests_up_a_get_waits_for_a_missed_fence() {
    let (mut rig, peer) = rig_of_a_host_that_mixes_requests_up(&[everybody()]);
    let (whole, _) = upcall(&bring(&mut rig, peer, &[everybody()], fenced(Vec::new())));
    for name in ["x", "b"] {
        assert_eq!(rig.request(peer, get(&proc(1), Some(name), &[])), []);
    }
    let outputs = rig.complete(whole, HostReply::DirectModex(up_to(2, vec![kval("a", 2), kval("b", 2)])));
    assert_eq!(replies(&outputs).len(), 2, "for the fence and b");
    let (_, call) = upcall(&outputs);
    let required = Info::new(key("pmix.req.key"), Text::from("x"));
    assert_eq!(call, Upcall::DirectModex(DirectModex { proc: proc(1), directives: vec![required] }));
}

#[test]
fn a_host_that_mixes_requests_up_answers_a_fence_that_is_gone_before_the_next_asks() {
    let with = |name: &str| [everybody(), ProcId::new(namespace(name), Rank::Wildcard)];
    let (mut rig, peer) = rig_of_a_host_that_mixes_requests_up(&[everybody()]);
    rig.register("y", Some(1), Some(0));
    bring(&mut rig, peer, &with("y"), HostReply::Status(Status::ERR_TIMEOUT));
    let (whole, _) = upcall(&bring(&mut rig, peer, &with("y"), fenced(Vec::new())));
    assert_eq!(upcalls(&bring(&mut rig, peer, &[everybody()], fenced(Vec::new()))), []);
    let outputs = rig.host(HostCall::DeregisterNamespace(namespace("y")));
    assert_eq!((statuses(&outputs), upcalls(&outputs)), (vec![(peer, Status::ERR_NOT_FOUND)], Vec::new()));
    let (again, _) = upcall(&rig.complete(whole, HostReply::DirectModex(up_to(2, vec![kval("a", 2)]))));
    let outputs = rig.complete(again, HostReply::DirectModex(up_to(3, vec![kval("a", 3)])));
    assert_eq!(statuses(&outputs), [(peer, SUCCESS)]);
}
