use std::time::Duration;

use super::harness::*;
use crate::gds::model::MapStore;
use crate::gds::{Audience, Datastore};
use crate::keys;
use crate::proto::exchange::{ExchangeForm, PackedFence};
use crate::proto::{Commit, RankData, Reply, Request};
use crate::server::{Capabilities, FenceData, HostReply, Output, ServerConfig};
use crate::types::{Info, InfoFlags, Kval, ProcId, Rank, Scope, Status, Value};

const SUCCESS: Status = Status::SUCCESS;

#[test]
fn a_local_fence_completes_without_the_host_when_the_last_arrives() {
    let mut rig = Rig::new(Capabilities::FENCE);
    let peers = rig.job(2, 2);
    assert_eq!(rig.request(peers[1], fence(&[everybody()], &[])), []);
    let outputs = rig.request(peers[0], fence(&[everybody()], &[]));
    assert_eq!(statuses(&outputs), [(peers[0], SUCCESS), (peers[1], SUCCESS)]);
    assert_eq!(outputs.len(), 2);
}

#[test]
fn no_list_means_the_whole_namespace() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    rig.request(peers[1], fence(&[], &[]));
    assert_eq!(statuses(&rig.request(peers[0], fence(&[everybody()], &[]))).len(), 2);
}

#[test]
fn the_order_and_repetition_of_participants_do_not_matter_but_their_writing_does() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    rig.request(peers[0], fence(&[proc(0), proc(1)], &[]));
    assert_eq!(rig.request(peers[1], fence(&[everybody()], &[])), [], "another way to write the same set");
    assert_eq!(rig.server.collective_count(), 2);
    let outputs = rig.request(peers[1], fence(&[proc(1), proc(0), proc(1)], &[]));
    assert_eq!(statuses(&outputs), [(peers[0], SUCCESS), (peers[1], SUCCESS)]);
}

#[test]
fn a_fence_of_local_processes_of_a_larger_job_is_local() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(8, 2);
    rig.request(peers[0], fence(&[proc(0), proc(1)], &[]));
    assert_eq!(statuses(&rig.request(peers[1], fence(&[proc(0), proc(1)], &[]))).len(), 2);
}

/// The first arrival waited for the other local participants, who may never come, before it was refused.
#[test]
fn a_fence_with_other_nodes_that_no_host_can_reach_is_refused_at_the_first_arrival() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(8, 2);
    for peer in peers {
        let outputs = rig.request(peer, fence(&[everybody()], &[]));
        assert_eq!(statuses(&outputs), [(peer, Status::ERR_NOT_SUPPORTED)]);
        assert_eq!(rig.server.collective_count(), 0);
    }
}

#[test]
fn a_fence_across_namespaces_waits_for_both() {
    let mut rig = Rig::new(Capabilities::empty());
    let first = rig.job(1, 1)[0];
    let other = ProcId::new(namespace("other"), 0);
    let both = [everybody(), ProcId::new(namespace("other"), Rank::Wildcard)];
    assert_eq!(rig.request(first, fence(&both, &[])), [], "the other namespace is not registered");
    rig.register("other", Some(1), Some(1));
    rig.register_client(&other);
    let second = rig.join(&other, SOCKET);
    let outputs = rig.request(second, fence(&both, &[]));
    assert_eq!(statuses(&outputs), [(first, SUCCESS), (second, SUCCESS)]);
}

#[test]
fn a_fence_cannot_complete_before_all_announced_clients_are_registered() {
    let mut rig = Rig::new(Capabilities::empty());
    rig.register("job", Some(2), Some(2));
    rig.register_client(&proc(0));
    let first = rig.join(&proc(0), SOCKET);
    assert_eq!(rig.request(first, fence(&[everybody()], &[])), []);
    assert_eq!(replies(&rig.register_client(&proc(1))), []);
    let second = rig.join(&proc(1), SOCKET);
    assert_eq!(statuses(&rig.request(second, fence(&[everybody()], &[]))).len(), 2);
}

#[test]
fn registering_a_namespace_again_without_a_count_keeps_the_count() {
    let mut rig = Rig::new(Capabilities::empty());
    rig.register("job", Some(2), Some(2));
    rig.register("job", Some(2), None);
    rig.register_client(&proc(0));
    let first = rig.join(&proc(0), SOCKET);
    assert_eq!(rig.request(first, fence(&[everybody()], &[])), []);
}

#[test]
fn clients_registered_beyond_the_announced_count_take_part() {
    let mut rig = Rig::new(Capabilities::empty());
    let first = rig.job(2, 1)[0];
    rig.register_client(&proc(1));
    let second = rig.join(&proc(1), SOCKET);
    assert_eq!(rig.request(first, fence(&[everybody()], &[])), []);
    assert_eq!(statuses(&rig.request(second, fence(&[everybody()], &[]))).len(), 2);
}

#[test]
fn a_caller_who_is_not_a_member_is_told_so() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    let outputs = rig.request(peers[0], fence(&[proc(1)], &[]));
    assert_eq!(statuses(&outputs), [(peers[0], Status::ERR_NOT_A_MEMBER)]);
    assert_eq!(rig.server.collective_count(), 0);
}

#[test]
fn a_rank_that_names_nobody_is_a_bad_parameter() {
    let mut rig = Rig::new(Capabilities::empty());
    let peer = rig.job(1, 1)[0];
    let nobody = ProcId::new(namespace("job"), Rank::Undefined);
    let outputs = rig.request(peer, fence(&[everybody(), nobody], &[]));
    assert_eq!(statuses(&outputs), [(peer, Status::ERR_BAD_PARAM)]);
}

#[test]
fn a_participant_that_races_ahead_opens_the_next_fence() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    rig.request(peers[0], fence(&[everybody()], &[]));
    rig.request(peers[0], fence(&[everybody()], &[]));
    assert_eq!(rig.server.collective_count(), 2);
    for _ in 0..2 {
        let outputs = rig.request(peers[1], fence(&[everybody()], &[]));
        assert_eq!(statuses(&outputs), [(peers[0], SUCCESS), (peers[1], SUCCESS)]);
    }
}

#[test]
fn a_fence_at_the_host_takes_no_newcomers_and_the_next_one_goes_up_beside_it() {
    let mut rig = Rig::new(Capabilities::FENCE);
    let peers = rig.job(4, 2);
    let (first, _) = collect(&mut rig, &peers);
    let (second, _) = collect(&mut rig, &peers);
    assert_ne!(first, second);
    assert_eq!(statuses(&rig.complete(first, fenced(Vec::new()))).len(), 2);
    assert_eq!(statuses(&rig.complete(second, fenced(Vec::new()))).len(), 2);
}

/// Found by simulation: servers that had finished the first of two fences contributed only changes to the second. A
/// server whose host answered the second one first released its clients without the data of the first. So fences of one
/// signature end in the order in which they opened.
#[test]
fn fences_of_one_signature_end_in_order_whatever_the_order_of_the_answers() {
    let mut rig = Rig::new(Capabilities::FENCE);
    let peers = rig.job(4, 2);
    let (first, _) = collect(&mut rig, &peers);
    let (second, _) = collect(&mut rig, &peers);
    assert_eq!(rig.complete(second, fenced(vec![(proc(3), vec![kval("b", 2)])])), []);
    let outputs = rig.complete(first, fenced(vec![(proc(3), vec![kval("a", 1)])]));
    assert_eq!(statuses(&outputs).len(), 4);
    let posted = rig.server.store().posted(&namespace("job"), 3, Audience::OtherNodes);
    assert_eq!(posted, Ok(vec![kval("a", 1), kval("b", 2)]));
}

/// Found by simulation: a late answer of an older fence over another set replaced a newer value, and no later fence
/// carried it again. So values carry their commit number, and older ones are dropped.
#[test]
fn a_late_answer_does_not_put_back_older_values() {
    let mut rig = Rig::new(Capabilities::FENCE | Capabilities::DIRECT_MODEX);
    let peer = rig.job(2, 1)[0];
    let (fetch, _) = upcall(&rig.request(peer, get(&proc(1), Some("a"), &[])));
    let (id, _) = collect(&mut rig, &[peer]);
    rig.complete(id, fenced(vec![(proc(1), up_to(2, vec![kval("a", 2)]))]));
    rig.complete(fetch, HostReply::DirectModex(up_to(1, vec![kval("a", 1)])));
    assert_eq!(data(&rig.request(peer, get(&proc(1), Some("a"), &[]))), [kval("a", 2)]);
}

#[test]
fn a_fence_that_fails_lets_the_next_one_end() {
    let mut rig = Rig::new(Capabilities::FENCE);
    let peers = rig.job(4, 1);
    let (first, _) = collect(&mut rig, &peers);
    let (second, _) = collect(&mut rig, &peers);
    assert_eq!(rig.complete(second, fenced(Vec::new())), []);
    let outputs = rig.complete(first, HostReply::Status(Status::ERR_UNREACH));
    assert_eq!(statuses(&outputs), [(peers[0], Status::ERR_UNREACH), (peers[0], SUCCESS)]);
}

#[test]
fn a_clone_waits_along_and_counts_once() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    let clone = rig.join(&proc(0), SOCKET);
    rig.request(peers[0], fence(&[everybody()], &[]));
    assert_eq!(rig.request(clone, fence(&[everybody()], &[])), []);
    assert_eq!(statuses(&rig.request(peers[1], fence(&[everybody()], &[]))).len(), 3);
}

const ALL_CLONES: &str = keys::ALL_CLONES_PARTICIPATE.name();

/// The directive of a later arrival was ignored, and so was the one of a process whose clone had come first.
#[test]
fn a_fence_waits_for_the_clones_of_each_rank_that_asks_for_them() {
    let required = [Info { flags: InfoFlags::REQUIRED.bits(), ..flag(ALL_CLONES) }];
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(3, 3);
    let clones = [0, 1, 1, 2].map(|rank| rig.join(&proc(rank), SOCKET));
    rig.request(peers[0], fence(&[everybody()], &[]));
    rig.request(clones[1], fence(&[everybody()], &[]));
    rig.request(peers[1], fence(&[everybody()], &required));
    assert_eq!(rig.request(peers[2], fence(&[everybody()], &[])), []);
    let [waits] = &rig.server.open_operations(rig.now)[..] else { panic!() };
    assert_eq!((&waits.missing[..], &waits.lacking_clones[..]), (&[][..], &[proc(1)][..]));
    // Rank 0 and 2 did not ask for theirs.
    let outputs = rig.request(clones[2], fence(&[everybody()], &[]));
    assert_eq!(statuses(&outputs).len(), 5);
}

#[test]
fn a_clone_that_ends_is_awaited_no_more_and_a_new_one_is() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    let clones = [0, 0].map(|rank| rig.join(&proc(rank), SOCKET));
    rig.request(peers[0], fence(&[everybody()], &[flag(ALL_CLONES)]));
    let late = rig.join(&proc(0), SOCKET);
    assert_eq!(rig.request(peers[1], fence(&[everybody()], &[])), []);
    assert_eq!(statuses(&rig.request(clones[0], Request::Finalize)), [(clones[0], SUCCESS)]);
    assert_eq!(rig.lose(clones[1]), []);
    assert_eq!(statuses(&rig.lose(late)), [(peers[0], SUCCESS), (peers[1], SUCCESS)]);
    // A finalization may be the last event, too.
    let clone = rig.join(&proc(0), SOCKET);
    rig.request(peers[1], fence(&[everybody()], &[]));
    rig.request(peers[0], fence(&[everybody()], &[flag(ALL_CLONES)]));
    let mut outputs = rig.request(clone, Request::Finalize);
    outputs.extend(rig.wait(1));
    assert_eq!(statuses(&outputs), [(clone, SUCCESS), (peers[0], SUCCESS), (peers[1], SUCCESS)]);
}

#[test]
fn a_clone_that_connects_after_all_were_here_is_awaited() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    let clone = rig.join(&proc(0), SOCKET);
    rig.request(peers[0], fence(&[everybody()], &[flag(ALL_CLONES)]));
    rig.request(clone, fence(&[everybody()], &[]));
    let late = rig.join(&proc(0), SOCKET);
    assert_eq!(rig.request(peers[1], fence(&[everybody()], &[])), []);
    assert_eq!(statuses(&rig.request(late, fence(&[everybody()], &[]))).len(), 4);
}

/// A rank that raced ahead of its clone completed the second fence before the first one.
#[test]
fn fences_behind_one_that_lacks_a_clone_end_behind_it() {
    let mut rig = Rig::new(Capabilities::empty());
    let peer = rig.job(1, 1)[0];
    let clone = rig.join(&proc(0), SOCKET);
    rig.request(peer, fence(&[everybody()], &[flag(ALL_CLONES)]));
    assert_eq!(rig.request(peer, fence(&[everybody()], &[])), []);
    assert_eq!(rig.request(peer, fence(&[everybody()], &[])), []);
    let mut outputs = rig.request(clone, fence(&[everybody()], &[]));
    outputs.extend(rig.wait(1));
    assert_eq!(statuses(&outputs), [(peer, SUCCESS), (clone, SUCCESS), (peer, SUCCESS), (peer, SUCCESS)]);
}

#[test]
fn a_time_limit_ends_a_fence_that_lacks_clones() {
    let mut rig = Rig::new(Capabilities::empty());
    let peer = rig.job(1, 1)[0];
    rig.join(&proc(0), SOCKET);
    rig.request(peer, fence(&[everybody()], &[flag(ALL_CLONES), timeout(1)]));
    assert_eq!(statuses(&rig.wait(1000)), [(peer, Status::ERR_TIMEOUT)]);
}

#[test]
fn a_fence_with_other_nodes_waits_for_the_clones_here_and_hands_the_directive_up() {
    let directives = [flag(ALL_CLONES)];
    let mut rig = Rig::new(Capabilities::FENCE);
    let peer = rig.job(2, 1)[0];
    let clone = rig.join(&proc(0), SOCKET);
    assert_eq!(upcalls(&rig.request(peer, fence(&[everybody()], &directives))).len(), 0);
    let outputs = rig.request(clone, fence(&[everybody()], &directives));
    assert_eq!(fence_upcall(&outputs).1.directives, directives);
}

#[test]
fn where_the_job_size_is_unknown_the_host_is_asked_if_it_can_be() {
    for (capabilities, upcall_count) in [(Capabilities::FENCE, 1), (Capabilities::empty(), 0)] {
        let mut rig = Rig::new(capabilities);
        rig.register("job", None, Some(1));
        rig.register_client(&proc(0));
        let peer = rig.join(&proc(0), SOCKET);
        assert_eq!(upcalls(&rig.request(peer, fence(&[everybody()], &[]))).len(), upcall_count);
    }
}

#[test]
fn the_upcall_carries_the_participants_the_first_directives_and_what_was_committed_for_others() {
    let mut rig = Rig::new(Capabilities::FENCE);
    let peers = rig.job(4, 2);
    rig.put(peers[0], Scope::Global, "a", 1);
    rig.put(peers[0], Scope::Local, "b", 2);
    rig.put(peers[1], Scope::Remote, "c", 3);
    let first = [flag("pmix.collect"), Info::new(key("host.hint"), 1u32)];
    rig.request(peers[1], fence(&[everybody()], &first));
    let outputs = rig.request(peers[0], fence(&[everybody()], &[flag("pmix.collect")]));
    let (_, upcall) = fence_upcall(&outputs);
    assert_eq!((upcall.procs, upcall.directives), (vec![everybody()], first.to_vec()));
    let blocks = vec![(proc(0), up_to(2, vec![kval("a", 1)])), (proc(1), up_to(1, vec![kval("c", 3)]))];
    assert_eq!(upcall.data, FenceData { collect: true, blocks });
}

#[test]
fn a_plain_barrier_carries_nothing() {
    let mut rig = Rig::new(Capabilities::FENCE);
    let peer = rig.job(2, 1)[0];
    rig.put(peer, Scope::Global, "a", 1);
    let (_, upcall) = fence_upcall(&rig.request(peer, fence(&[everybody()], &[])));
    assert_eq!(upcall.data, FenceData { collect: false, blocks: Vec::new() });
}

#[test]
fn the_others_data_is_stored_before_anybody_is_released() {
    let mut rig = Rig::new(Capabilities::FENCE);
    let peers = rig.job(4, 2);
    rig.put(peers[0], Scope::Global, "a", 1);
    let (id, data) = collect(&mut rig, &peers);
    let mut blocks = vec![(proc(3), vec![kval("a", 3)]), (proc(2), Vec::new())];
    blocks.extend(data.blocks);
    let outputs = rig.complete(id, fenced(blocks));
    assert_eq!(outputs[0], Output::Wake(namespace("job")));
    assert_eq!(statuses(&outputs), [(peers[0], SUCCESS), (peers[1], SUCCESS)]);
    let posted = |rank| rig.server.store().posted(&namespace("job"), rank, Audience::OtherNodes).unwrap();
    assert_eq!((posted(2), posted(3)), (Vec::new(), vec![kval("a", 3)]));
}

#[test]
fn a_fence_without_data_publishes_nothing() {
    let mut rig = Rig::new(Capabilities::FENCE);
    let peer = rig.job(2, 1)[0];
    let (id, _) = collect(&mut rig, &[peer]);
    assert_eq!(rig.complete(id, fenced(vec![(proc(1), Vec::new())])).len(), 1);
}

/// Applications that fence in a loop paid for all data each time, although no value was new.
#[test]
fn a_fence_over_the_whole_namespace_carries_only_what_changed_since_the_last_that_succeeded() {
    let mut rig = Rig::new(Capabilities::FENCE);
    let peers = rig.job(4, 2);
    rig.put(peers[0], Scope::Global, "a", 1);
    rig.put(peers[1], Scope::Global, "b", 1);
    let (failed, _) = collect(&mut rig, &peers);
    rig.complete(failed, HostReply::Status(Status::ERR_TIMEOUT));
    let (id, data) = collect(&mut rig, &peers);
    assert_eq!(data.blocks.len(), 2, "the failed one does not count");
    rig.complete(id, fenced(Vec::new()));
    rig.put(peers[0], Scope::Global, "a", 1);
    rig.put(peers[1], Scope::Global, "c", 2);
    let (id, data) = collect(&mut rig, &peers);
    assert_eq!(data.blocks, [(proc(1), up_to(2, vec![kval("c", 2)]))]);
    rig.complete(id, fenced(Vec::new()));
    assert_eq!(collect(&mut rig, &peers).1.blocks, []);
}

#[test]
fn a_change_that_only_neighbours_may_see_is_no_change_for_others() {
    let mut rig = Rig::new(Capabilities::FENCE);
    let peer = rig.job(2, 1)[0];
    rig.put(peer, Scope::Remote, "a", 1);
    let (id, _) = collect(&mut rig, &[peer]);
    rig.complete(id, fenced(Vec::new()));
    rig.put(peer, Scope::Local, "a", 2);
    assert_eq!(collect(&mut rig, &[peer]).1.blocks, []);
}

/// A fence adds to what other nodes have. So it must say what is gone.
#[test]
fn a_fence_carries_removed_values_and_removes_those_of_others() {
    let mut rig = Rig::new(Capabilities::FENCE);
    let peers = rig.job(2, 1);
    let gone = || Kval { key: key("a"), value: Value::Undefined };
    rig.put(peers[0], Scope::Global, "a", 1);
    let (id, _) = collect(&mut rig, &peers);
    rig.complete(id, fenced(vec![(proc(1), up_to(1, vec![kval("a", 2), kval("b", 3)]))]));
    let removal = Commit { parts: vec![(Scope::Global, vec![gone()])] };
    rig.request(peers[0], Request::Commit(removal));
    let (id, data) = collect(&mut rig, &peers);
    assert_eq!(data.blocks, [(proc(0), up_to(2, vec![gone()]))]);
    rig.complete(id, fenced(vec![(proc(1), up_to(2, vec![gone()]))]));
    let found =
        |rig: &mut Rig, name| replies(&rig.request(peers[0], get(&proc(1), Some(name), &[flag("pmix.immediate")])));
    let value = RankData { proc: proc(1), entries: vec![kval("b", 3)] };
    assert_eq!(found(&mut rig, "b"), [(peers[0], Reply::Data(vec![value]))]);
    assert_eq!(found(&mut rig, "a"), [(peers[0], Reply::Status(Status::ERR_NOT_FOUND))]);
}

/// A communicator's members that fenced in a loop paid for all data each time.
#[test]
fn a_fence_over_any_set_carries_what_changed_since_the_last_of_that_set_and_none_costs_what_a_barrier_does() {
    let mut rig = Rig::new(Capabilities::FENCE);
    let peer = rig.job(3, 1)[0];
    let set = [proc(0), proc(2)];
    let carried = |rig: &mut Rig, directives: &[Info]| {
        let (id, call) = fence_upcall(&rig.request(peer, fence(&set, directives)));
        rig.complete(id, fenced(Vec::new()));
        call.data.blocks
    };
    let collects = [flag("pmix.collect")];
    rig.put(peer, Scope::Global, "a", 1);
    assert_eq!(carried(&mut rig, &collects), [(proc(0), up_to(1, vec![kval("a", 1)]))]);
    assert_eq!(carried(&mut rig, &collects), carried(&mut rig, &[]), "nothing new: a barrier");
    for round in 2..20 {
        rig.put(peer, Scope::Global, "b", round);
        let expected = [(proc(0), up_to(u64::from(round), vec![kval("b", round)]))];
        assert_eq!(carried(&mut rig, &collects), expected, "the k-th costs what the first did");
    }
}

#[test]
fn a_fence_over_another_set_carries_everything() {
    let mut rig = Rig::new(Capabilities::FENCE);
    let peer = rig.job(2, 1)[0];
    rig.put(peer, Scope::Global, "a", 1);
    let (id, _) = collect(&mut rig, &[peer]);
    rig.complete(id, fenced(Vec::new()));
    let outputs = rig.request(peer, fence(&[proc(0), proc(1)], &[flag("pmix.collect")]));
    assert_eq!(fence_upcall(&outputs).1.data.blocks, [(proc(0), up_to(1, vec![kval("a", 1)]))]);
}

#[test]
fn the_hosts_error_goes_to_every_local_participant() {
    let mut rig = Rig::new(Capabilities::FENCE);
    let peers = rig.job(4, 2);
    let (id, _) = collect(&mut rig, &peers);
    let reply = HostReply::Fence { status: Status::ERR_UNREACH, blocks: vec![(proc(3), vec![kval("a", 1)])] };
    let outputs = rig.complete(id, reply);
    assert_eq!(statuses(&outputs), [(peers[0], Status::ERR_UNREACH), (peers[1], Status::ERR_UNREACH)]);
    assert_eq!(outputs.len(), 2, "nothing is published");
}

/// In the form of hosts in C, from servers of every release.
#[test]
fn data_as_servers_have_packed_it_is_stored_like_any_other() {
    for form in [ExchangeForm::Release3, ExchangeForm::Release4, ExchangeForm::Release6] {
        let mut rig = Rig::new(Capabilities::FENCE);
        let peers = rig.job(8, 2);
        let sizes = [(namespace("job"), Some(8))];
        let packed = |blocks: Vec<(ProcId, Vec<Kval>)>| form.pack_fence(blocks, &sizes).unwrap();
        rig.put(peers[0], Scope::Global, "a", 1);
        let (id, data) = collect(&mut rig, &peers);
        let own = packed(data.blocks);
        let others = packed(vec![(proc(3), up_to(2, vec![kval("a", 3)])), (proc(7), vec![kval("b", 4)])]);
        let outputs = rig.complete(id, packed_fence([others, own].concat()));
        assert_eq!(statuses(&outputs), [(peers[0], SUCCESS), (peers[1], SUCCESS)], "{form:?}");
        let posted =
            |rig: &Rig, rank| rig.server.store().posted(&namespace("job"), rank, Audience::OtherNodes).unwrap();
        assert_eq!([3, 7].map(|rank| posted(&rig, rank)), [vec![kval("a", 3)], vec![kval("b", 4)]], "{form:?}");
        // Older values than the stored ones are dropped in any form.
        let (id, _) = collect(&mut rig, &peers);
        let older = packed(vec![(proc(3), up_to(1, vec![kval("a", 2)]))]);
        rig.complete(id, packed_fence(older));
        assert_eq!(posted(&rig, 3), vec![kval("a", 3)], "{form:?}");
    }
}

fn packed_fence(bytes: Vec<u8>) -> HostReply {
    HostReply::PackedFence { status: SUCCESS, packed: PackedFence::new(bytes).unwrap() }
}

/// The frame of a part is complete, but its content is invalid. Earlier parts are stored, with the numbers of their
/// commits.
#[test]
fn data_that_cannot_be_read_fails_the_fence_for_all() {
    let mut rig = Rig::new(Capabilities::FENCE | Capabilities::DIRECT_MODEX);
    let peers = rig.job(8, 2);
    let sizes = [(namespace("job"), Some(8))];
    let part = |rank, number, value| {
        ExchangeForm::Release4.pack_fence(vec![(proc(rank), up_to(number, vec![kval("a", value)]))], &sizes).unwrap()
    };
    let (id, _) = collect(&mut rig, &peers);
    let damaged = vec![2, 3, 0xFF, 0xFF, 0xFF];
    let outputs = rig.complete(id, packed_fence([part(3, 2, 3), damaged, part(4, 2, 4)].concat()));
    let unreadable = Status::ERR_UNPACK_FAILURE;
    assert_eq!(statuses(&outputs), [(peers[0], unreadable), (peers[1], unreadable)]);
    let posted = |rig: &Rig, rank| rig.server.store().posted(&namespace("job"), rank, Audience::OtherNodes).unwrap();
    assert_eq!([3, 4].map(|rank| posted(&rig, rank)), [vec![kval("a", 3)], vec![]]);
    let (id, _) = collect(&mut rig, &peers);
    rig.complete(id, packed_fence(part(3, 1, 2)));
    assert_eq!(posted(&rig, 3), vec![kval("a", 3)]);
}

/// The mark of complete values is no part of the number: later changes are newer all the same.
#[test]
fn changes_count_after_what_was_said_to_be_everything() {
    let mut rig = Rig::new(Capabilities::FENCE | Capabilities::DIRECT_MODEX);
    let peer = rig.job(2, 1)[0];
    let sizes = [(namespace("job"), Some(2))];
    let mut bring = |number: u64, value: u32, is_packed: bool| {
        let (id, _) = collect(&mut rig, &[peer]);
        let blocks = vec![(proc(1), up_to(number, vec![kval("a", value)]))];
        let packed = || packed_fence(ExchangeForm::Release4.pack_fence(blocks.clone(), &sizes).unwrap());
        rig.complete(id, if is_packed { packed() } else { fenced(blocks.clone()) });
        rig.server.store().posted(&namespace("job"), 1, Audience::OtherNodes).unwrap()
    };
    for (number, value) in [(3, 0), (9, 4)] {
        assert_eq!(bring(number | 1 << 63, value, value > 0), [kval("a", value)]);
        for is_packed in [false, true] {
            let next = number + 1 + u64::from(is_packed);
            assert_eq!(
                bring(next, value + 1 + u32::from(is_packed), is_packed),
                [kval("a", value + 1 + u32::from(is_packed))]
            );
        }
    }
}

/// Servers number the processes by the sizes at the time when the fence goes to the host.
#[test]
fn ranks_are_numbered_by_the_sizes_that_the_host_was_told() {
    let mut rig = Rig::new(Capabilities::FENCE);
    let peer = rig.job(2, 1)[0];
    rig.register("other", Some(4), Some(0));
    let other = |rank: u32| ProcId::new(namespace("other"), rank);
    let procs = [proc(0), proc(1), ProcId { namespace: namespace("other"), rank: Rank::Wildcard }];
    let (id, upcall) = fence_upcall(&rig.request(peer, fence(&procs, &[flag("pmix.collect")])));
    let packed = ExchangeForm::Release4.pack_fence(vec![(other(1), vec![kval("a", 1)])], &upcall.namespaces).unwrap();
    rig.register("job", Some(3), Some(1));
    rig.complete(id, packed_fence(packed));
    let posted = |rank| rig.server.store().posted(&namespace("other"), rank, Audience::OtherNodes).unwrap();
    assert_eq!([0, 1, 2].map(posted), [vec![], vec![kval("a", 1)], vec![]]);
}

#[test]
fn an_answer_of_the_wrong_kind_is_an_error() {
    let mut rig = Rig::new(Capabilities::FENCE);
    let peer = rig.job(2, 1)[0];
    let (id, _) = collect(&mut rig, &[peer]);
    assert_eq!(statuses(&rig.complete(id, HostReply::DirectModex(Vec::new()))), [(peer, Status::ERROR)]);
}

#[test]
fn data_that_cannot_be_stored_fails_the_fence_for_all() {
    let config = ServerConfig { capabilities: Capabilities::FENCE, ..ServerConfig::default() };
    let mut rig = Rig::with(config, MapStore::with_values_max(1));
    let peers = rig.job(4, 2);
    let (id, _) = collect(&mut rig, &peers);
    let outputs = rig.complete(id, fenced(vec![(proc(2), vec![kval("a", 1), kval("b", 1)])]));
    let full = Status::ERR_OUT_OF_RESOURCE;
    assert_eq!(statuses(&outputs), [(peers[0], full), (peers[1], full)]);
}

#[test]
fn blocks_of_processes_that_take_no_part_are_not_stored() {
    let mut rig = Rig::new(Capabilities::FENCE);
    let peer = rig.job(4, 1)[0];
    let outputs = rig.request(peer, fence(&[proc(0), proc(1)], &[flag("pmix.collect")]));
    let (id, _) = fence_upcall(&outputs);
    let stranger = ProcId::new(namespace("stranger"), 0);
    let outputs = rig.complete(id, fenced(vec![(proc(2), vec![kval("a", 1)]), (stranger, vec![kval("a", 1)])]));
    assert_eq!(outputs.len(), 1);
    assert_eq!(statuses(&outputs), [(peer, SUCCESS)]);
}

#[test]
fn the_first_contribution_with_a_timeout_starts_the_clock_for_all() {
    let mut rig = Rig::new(Capabilities::FENCE);
    let peers = rig.job(6, 3);
    rig.request(peers[0], fence(&[everybody()], &[]));
    assert_eq!(rig.server.poll_timeout(), None);
    rig.request(peers[1], fence(&[everybody()], &[timeout(5)]));
    assert_eq!(rig.wait(4), []);
    let outputs = rig.wait(1);
    assert_eq!(statuses(&outputs), [(peers[0], Status::ERR_TIMEOUT), (peers[1], Status::ERR_TIMEOUT)]);
}

#[test]
fn the_timeout_bounds_the_local_phase_only() {
    let mut rig = Rig::new(Capabilities::FENCE);
    let peer = rig.job(2, 1)[0];
    let (id, _) = fence_upcall(&rig.request(peer, fence(&[everybody()], &[timeout(5)])));
    assert_eq!(rig.wait(100), []);
    assert_eq!(statuses(&rig.complete(id, fenced(Vec::new()))), [(peer, SUCCESS)]);
}

#[test]
fn a_host_that_never_answers_is_a_timeout_for_all() {
    let host_timeout = Some(Duration::from_secs(60));
    let config = ServerConfig { capabilities: Capabilities::FENCE, host_timeout, ..ServerConfig::default() };
    let mut rig = Rig::with(config, MapStore::new());
    let peers = rig.job(4, 2);
    let (id, _) = collect(&mut rig, &peers);
    let outputs = rig.wait(60);
    assert_eq!(statuses(&outputs), [(peers[0], Status::ERR_TIMEOUT), (peers[1], Status::ERR_TIMEOUT)]);
    assert_eq!(rig.complete(id, fenced(Vec::new())), []);
}

/// A fence of one node has nothing to spread, and processes without processors have no generated values. Regression:
/// the first was refused, and later the second.
#[test]
fn a_fence_waits_for_no_generated_values_where_there_are_none() {
    let directive = Info { flags: InfoFlags::REQUIRED.bits(), ..flag("pmix.collect.gen") };
    for (job_size, asks_host) in [(1, false), (2, true)] {
        let mut rig = Rig::new(Capabilities::FENCE);
        let peers = rig.job(job_size, 1);
        let outputs = rig.request(peers[0], fence(&[everybody()], std::slice::from_ref(&directive)));
        match asks_host {
            true => assert_eq!(upcalls(&outputs).len(), 1, "{outputs:?}"),
            false => assert_eq!(statuses(&outputs), [(peers[0], Status::SUCCESS)]),
        }
    }
}

#[test]
fn a_required_directive_that_nobody_can_meet_fails_a_local_fence() {
    let mut rig = Rig::new(Capabilities::empty());
    let peer = rig.job(1, 1)[0];
    let mut unknown = Info::new(key("pmix.unheard"), true);
    unknown.flags = InfoFlags::REQUIRED.bits();
    let mut known = flag("pmix.collect");
    known.flags = InfoFlags::REQUIRED.bits();
    let outputs = rig.request(peer, fence(&[everybody()], &[unknown]));
    assert_eq!(statuses(&outputs), [(peer, Status::ERR_NOT_SUPPORTED)]);
    assert_eq!(statuses(&rig.request(peer, fence(&[everybody()], &[known]))), [(peer, SUCCESS)]);
}
