//! Missing participants of a fence.

use super::harness::*;
use crate::proto::{Reply, Request};
use crate::server::{Capabilities, HostCall, StoreOffer};
use crate::types::{Info, Scope, Status, Value};

const SUCCESS: Status = Status::SUCCESS;

#[test]
fn a_participant_that_dies_before_it_arrives_departs_and_the_host_is_told() {
    let mut rig = Rig::new(Capabilities::FENCE);
    let peers = rig.job(4, 2);
    rig.request(peers[0], fence(&[everybody()], &[]));
    let (id, upcall) = fence_upcall(&rig.lose(peers[1]));
    let status = Value::Status(Status::ERR_PARTIAL_SUCCESS.to_raw());
    assert_eq!(upcall.directives, [Info::new(key("pmix.loc.col.st"), status)]);
    assert_eq!(statuses(&rig.complete(id, fenced(Vec::new()))), [(peers[0], SUCCESS)]);
}

#[test]
fn a_participant_that_dies_after_it_arrived_stays_with_its_data() {
    let mut rig = Rig::new(Capabilities::FENCE);
    let peers = rig.job(4, 2);
    rig.put(peers[0], Scope::Global, "a", 1);
    rig.request(peers[0], fence(&[everybody()], &[flag("pmix.collect")]));
    rig.lose(peers[0]);
    let outputs = rig.request(peers[1], fence(&[everybody()], &[flag("pmix.collect")]));
    let (id, upcall) = fence_upcall(&outputs);
    assert_eq!(upcall.data.blocks, [(proc(0), up_to(1, vec![kval("a", 1)]))]);
    assert_eq!(upcall.directives, [flag("pmix.collect")]);
    assert_eq!(statuses(&rig.complete(id, fenced(Vec::new()))), [(peers[1], SUCCESS)]);
}

#[test]
fn when_no_participant_is_left_the_host_hears_of_lost_connections() {
    let mut rig = Rig::new(Capabilities::FENCE);
    let peers = rig.job(4, 2);
    rig.request(peers[0], fence(&[everybody()], &[]));
    rig.lose(peers[0]);
    let (_, upcall) = fence_upcall(&rig.lose(peers[1]));
    let status = Value::Status(Status::ERR_LOST_CONNECTION.to_raw());
    assert_eq!(upcall.directives, [Info::new(key("pmix.loc.col.st"), status)]);
}

#[test]
fn the_survivors_of_a_local_fence_learn_that_somebody_was_missing() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    rig.request(peers[0], fence(&[everybody()], &[]));
    assert_eq!(statuses(&rig.lose(peers[1])), [(peers[0], Status::ERR_PARTIAL_SUCCESS)]);
}

/// A partial success left the user to find the missing process.
#[test]
fn a_client_that_knows_our_replies_is_told_who_was_missing_and_others_get_the_status_alone() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(3, 3);
    let ours = rig.join(&proc(2), StoreOffer::Segment);
    rig.request(peers[0], fence(&[everybody()], &[]));
    rig.request(ours, fence(&[everybody()], &[]));
    let status = Status::ERR_PARTIAL_SUCCESS;
    let named = Reply::Partial { status, results: Box::new(Reply::Procs(vec![proc(1)])) };
    assert_eq!(replies(&rig.lose(peers[1])), [(peers[0], Reply::Status(status)), (ours, named)]);
}

#[test]
fn a_participant_that_was_lost_before_the_fence_opened_has_departed() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    rig.lose(peers[1]);
    let outputs = rig.request(peers[0], fence(&[everybody()], &[]));
    assert_eq!(statuses(&outputs), [(peers[0], Status::ERR_PARTIAL_SUCCESS)]);
}

#[test]
fn a_participant_that_comes_back_in_time_has_not_departed() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(3, 3);
    rig.request(peers[0], fence(&[everybody()], &[]));
    rig.lose(peers[1]);
    let again = rig.join(&proc(1), SOCKET);
    assert_eq!(rig.request(again, fence(&[everybody()], &[])), []);
    let outputs = rig.request(peers[2], fence(&[everybody()], &[]));
    assert_eq!(statuses(&outputs), [(peers[0], SUCCESS), (peers[2], SUCCESS), (again, SUCCESS)]);
}

/// A finalize that counted as a departure released the others before the process, which was to come again, had arrived.
#[test]
fn a_finalize_is_not_a_departure() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    rig.request(peers[0], fence(&[everybody()], &[]));
    rig.request(peers[1], Request::Finalize);
    assert_eq!(rig.lose(peers[1]), []);
    let again = rig.join(&proc(1), SOCKET);
    let outputs = rig.request(again, fence(&[everybody()], &[]));
    assert_eq!(statuses(&outputs), [(peers[0], SUCCESS), (again, SUCCESS)]);
}

#[test]
fn a_finalized_process_departs_when_the_host_says_that_it_has_ended() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    rig.request(peers[0], fence(&[everybody()], &[]));
    rig.request(peers[1], Request::Finalize);
    let outputs = rig.host(HostCall::DeregisterClient(proc(1)));
    assert_eq!(statuses(&outputs), [(peers[0], Status::ERR_PARTIAL_SUCCESS)]);
}

#[test]
fn the_loss_of_a_clone_takes_nothing_away() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    let clone = rig.join(&proc(1), SOCKET);
    rig.request(peers[0], fence(&[everybody()], &[]));
    assert_eq!(rig.lose(clone), []);
    assert_eq!(statuses(&rig.request(peers[1], fence(&[everybody()], &[]))).len(), 2);
}

#[test]
fn a_loss_after_the_upcall_changes_nothing() {
    let mut rig = Rig::new(Capabilities::FENCE);
    let peers = rig.job(4, 2);
    let (id, _) = collect(&mut rig, &peers);
    assert_eq!(rig.lose(peers[0]), []);
    assert_eq!(statuses(&rig.complete(id, fenced(Vec::new()))), [(peers[1], SUCCESS)]);
}

#[test]
fn a_lost_participant_is_not_answered() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    rig.request(peers[0], fence(&[everybody()], &[]));
    rig.lose(peers[0]);
    let outputs = rig.request(peers[1], fence(&[everybody()], &[]));
    assert_eq!(replies(&outputs), [(peers[1], Reply::Status(SUCCESS))]);
}
