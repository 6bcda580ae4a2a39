//! Connecting and disconnecting processes.

use super::harness::*;
use crate::proto::{Collective, RankData, Reply, Request};
use crate::server::{Capabilities, Connect, HostCall, HostReply, Upcall};
use crate::types::{Info, ProcId, Rank, Status};

fn connect(procs: &[ProcId], directives: &[Info]) -> Request {
    Request::Connect(Collective { procs: procs.to_vec(), directives: directives.to_vec() })
}

fn disconnect(procs: &[ProcId]) -> Request {
    Request::Disconnect(Collective { procs: procs.to_vec(), directives: Vec::new() })
}

fn other(rank: impl Into<Rank>) -> ProcId {
    ProcId::new(namespace("other"), rank)
}

#[test]
fn the_host_is_asked_once_when_all_local_participants_have_come() {
    let mut rig = Rig::new(Capabilities::CONNECT | Capabilities::DISCONNECT);
    let peers = rig.job(4, 2);
    let procs = [proc(3), proc(1), proc(0)];
    assert_eq!(rig.request(peers[0], connect(&procs, &[flag("pmix.custom")])), []);
    // The same set in another order.
    let (id, call) = upcall(&rig.request(peers[1], connect(&[proc(0), proc(1), proc(3)], &[])));
    let directives = vec![flag("pmix.custom")];
    assert_eq!(call, Upcall::Connect(Connect { procs: vec![proc(0), proc(1), proc(3)], directives }));
    let outputs = rig.complete(id, HostReply::Status(Status::SUCCESS));
    assert_eq!(replies(&outputs), [(peers[0], Reply::Data(Vec::new())), (peers[1], Reply::Data(Vec::new()))]);

    rig.request(peers[0], disconnect(&procs));
    let (id, call) = upcall(&rig.request(peers[1], disconnect(&procs)));
    assert!(matches!(call, Upcall::Disconnect(_)));
    let outputs = rig.complete(id, HostReply::Status(Status::ERR_INVALID_OPERATION));
    let expected = Status::ERR_INVALID_OPERATION;
    assert_eq!(statuses(&outputs), [(peers[0], expected), (peers[1], expected)]);
}

#[test]
fn even_local_connections_are_the_hosts_affair_if_it_has_one() {
    let mut rig = Rig::new(Capabilities::CONNECT);
    let peer = rig.job(1, 1)[0];
    assert!(matches!(upcall(&rig.request(peer, connect(&[proc(0)], &[]))).1, Upcall::Connect(_)));
}

/// Regression: PRRTE 3.0 freed memory twice when its daemon was asked to connect processes of one node. OpenPMIx asks
/// no host for these.
#[test]
fn some_hosts_take_only_connections_with_other_nodes() {
    let host = Capabilities::CONNECT | Capabilities::DISCONNECT | Capabilities::CONNECTS_OTHER_NODES_ONLY;
    let mut rig = Rig::new(host);
    let peers = rig.job(4, 2);
    let here = [proc(0), proc(1)];
    rig.request(peers[0], connect(&here, &[]));
    let outputs = rig.request(peers[1], connect(&here, &[]));
    assert_eq!(replies(&outputs), [(peers[0], Reply::Data(Vec::new())), (peers[1], Reply::Data(Vec::new()))]);
    rig.request(peers[0], disconnect(&here));
    let outputs = rig.request(peers[1], disconnect(&here));
    assert_eq!(statuses(&outputs), [(peers[0], Status::SUCCESS), (peers[1], Status::SUCCESS)]);
    let (_, call) = upcall(&rig.request(peers[0], connect(&[proc(0), proc(3)], &[])));
    assert!(matches!(call, Upcall::Connect(_)));
}

#[test]
fn without_the_host_only_processes_of_this_node_are_connected() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(4, 2);
    rig.request(peers[0], connect(&[proc(0), proc(1)], &[]));
    let outputs = rig.request(peers[1], connect(&[proc(0), proc(1)], &[]));
    assert_eq!(replies(&outputs), [(peers[0], Reply::Data(Vec::new())), (peers[1], Reply::Data(Vec::new()))]);
    let outputs = rig.request(peers[0], connect(&[proc(0), proc(3)], &[]));
    assert_eq!(statuses(&outputs), [(peers[0], Status::ERR_NOT_SUPPORTED)]);
    assert_eq!(rig.server.collective_count(), 0);
}

#[test]
fn connected_processes_get_the_data_of_the_other_job() {
    let mut rig = Rig::new(Capabilities::CONNECT);
    let here = rig.job(1, 1)[0];
    rig.register("other", Some(1), Some(1));
    rig.register_client(&other(0));
    let there = rig.join(&other(0), SOCKET);
    let procs = [everybody(), other(Rank::Wildcard)];
    rig.request(here, connect(&procs, &[]));
    let (id, _) = upcall(&rig.request(there, connect(&procs, &[])));
    let outputs = rig.complete(id, HostReply::Status(Status::SUCCESS));
    let jobs: Vec<(_, Vec<ProcId>)> = replies(&outputs)
        .into_iter()
        .map(|(peer, reply)| match reply {
            Reply::Data(jobs) if jobs.iter().all(|RankData { entries, .. }| !entries.is_empty()) => {
                (peer, jobs.into_iter().map(|job| job.proc).collect())
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(jobs, [(here, vec![other(Rank::Wildcard)]), (there, vec![everybody()])]);
}

#[test]
fn a_job_that_has_no_process_here_lives_elsewhere() {
    let mut rig = Rig::new(Capabilities::CONNECT);
    let peer = rig.job(1, 1)[0];
    rig.register("other", None, Some(0));
    let (id, _) = upcall(&rig.request(peer, connect(&[proc(0), other(7)], &[])));
    let outputs = rig.complete(id, HostReply::Status(Status::SUCCESS));
    assert_eq!(replies(&outputs), [(peer, Reply::Data(Vec::new()))]);
}

#[test]
fn a_connection_and_a_fence_of_the_same_processes_do_not_meet() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    assert_eq!(rig.request(peers[0], connect(&[everybody()], &[])), []);
    assert_eq!(rig.request(peers[1], fence(&[everybody()], &[])), []);
    assert_eq!(rig.request(peers[1], disconnect(&[everybody()])), []);
    assert_eq!(rig.server.collective_count(), 3);
}

#[test]
fn a_process_cannot_connect_others_without_itself() {
    let mut rig = Rig::new(Capabilities::CONNECT);
    let peers = rig.job(2, 2);
    let outputs = rig.request(peers[0], connect(&[proc(1)], &[]));
    assert_eq!(statuses(&outputs), [(peers[0], Status::ERR_NOT_A_MEMBER)]);
    let outputs = rig.request(peers[0], connect(&[], &[]));
    assert_eq!(statuses(&outputs), [(peers[0], Status::ERR_BAD_PARAM)]);
}

#[test]
fn a_time_limit_ends_the_wait_for_local_participants() {
    let mut rig = Rig::new(Capabilities::CONNECT);
    let peers = rig.job(2, 2);
    assert_eq!(rig.request(peers[0], connect(&[everybody()], &[timeout(3)])), []);
    assert_eq!(statuses(&rig.wait(3)), [(peers[0], Status::ERR_TIMEOUT)]);
    assert_eq!(rig.server.collective_count(), 0);
}

#[test]
fn the_host_learns_that_a_participant_was_lost() {
    let mut rig = Rig::new(Capabilities::CONNECT);
    let peers = rig.job(2, 2);
    rig.request(peers[0], connect(&[everybody()], &[]));
    let Upcall::Connect(Connect { directives, .. }) = upcall(&rig.lose(peers[1])).1 else { panic!("not a connect") };
    let status = crate::types::Value::Status(Status::ERR_PARTIAL_SUCCESS.to_raw());
    assert_eq!(directives, [Info::new(key("pmix.loc.col.st"), status)]);
}

#[test]
fn a_participant_that_dies_at_the_host_is_not_answered_and_the_others_are() {
    let mut rig = Rig::new(Capabilities::CONNECT);
    let peers = rig.job(2, 2);
    rig.request(peers[0], connect(&[everybody()], &[]));
    let (id, _) = upcall(&rig.request(peers[1], connect(&[everybody()], &[])));
    assert_eq!(rig.lose(peers[1]), []);
    let outputs = rig.complete(id, HostReply::Status(Status::SUCCESS));
    assert_eq!(replies(&outputs), [(peers[0], Reply::Data(Vec::new()))]);
}

#[test]
fn a_job_that_is_deregistered_ends_what_it_takes_part_in() {
    let mut rig = Rig::new(Capabilities::CONNECT);
    let peer = rig.job(1, 1)[0];
    rig.register("other", Some(1), Some(1));
    assert_eq!(rig.request(peer, connect(&[proc(0), other(0)], &[])), []);
    let outputs = rig.host(HostCall::DeregisterNamespace(namespace("other")));
    assert_eq!(statuses(&outputs), [(peer, Status::ERR_NOT_FOUND)]);
}

/// All operations of an ended process were advanced in one turn. With 60 connects of 50,000 processes, named one by
/// one, this took 80 ms.
#[test]
fn operations_of_many_processes_go_on_in_steps() {
    const CONNECTS: usize = 6;
    let mut rig = Rig::new(Capabilities::CONNECT);
    let peers = rig.job(20_000, 2);
    let all: Vec<ProcId> = (0..20_000).map(proc).collect();
    for _ in 0..CONNECTS {
        assert_eq!(rig.request(peers[0], connect(&all, &[])), []);
    }
    let mut counts = vec![upcalls(&rig.lose(peers[1])).len()];
    while rig.server.poll_timeout().is_some() {
        counts.push(upcalls(&rig.wait(1)).len());
    }
    assert_eq!((counts.iter().sum::<usize>(), counts.iter().max()), (CONNECTS, Some(&1)), "{counts:?}");
}

/// The second of two equal operations did not overtake the first one.
#[test]
fn an_operation_that_waits_for_its_step_is_not_overtaken() {
    let mut rig = Rig::new(Capabilities::CONNECT);
    let peers = rig.job(20_000, 3);
    let all: Vec<ProcId> = (0..20_000).map(proc).collect();
    rig.request(peers[0], connect(&all, &[]));
    rig.request(peers[1], connect(&all, &[]));
    rig.request(peers[0], connect(&all, &[]));
    assert_eq!(upcalls(&rig.lose(peers[2])), []);
    let begun = upcalls(&rig.request(peers[1], connect(&all, &[])));
    assert_eq!(begun.len(), 2);
    let answers = begun.iter().map(|(id, _)| replies(&rig.complete(*id, HostReply::Status(Status::SUCCESS))).len());
    assert_eq!(answers.collect::<Vec<_>>(), [2, 2]);
}
