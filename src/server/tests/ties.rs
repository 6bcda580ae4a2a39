//! Segments of other jobs: when processes get them, and when these are withdrawn.

use super::events::{notified, register};
use super::harness::*;
use crate::events::Event;
use crate::proto::{Collective, Command, Group, Reply, Request, Spawn};
use crate::server::interface::processes;
use crate::server::{Capabilities, HostCall, HostReply, Output, PeerId, RegisterClient, RegisterNamespace, Upcall};
use crate::types::codes::range;
use crate::types::{Info, Namespace, ProcId, Rank, Status, Text, Value};

const SUCCESS: Status = Status::SUCCESS;

fn of(name: &str, rank: impl Into<Rank>) -> ProcId {
    ProcId::new(namespace(name), rank)
}

fn all_of(names: &[&str]) -> Vec<ProcId> {
    names.iter().map(|name| of(name, Rank::Wildcard)).collect()
}

fn collective(names: &[&str]) -> Collective {
    Collective { procs: all_of(names), directives: Vec::new() }
}

/// Jobs of one process each, all of them local, which map segments.
fn jobs(rig: &mut Rig, names: &[&str]) -> Vec<PeerId> {
    for name in names {
        rig.register(name, Some(1), Some(1));
        rig.register_client(&of(name, 0));
    }
    names.iter().map(|name| rig.join(&of(name, 0), SEGMENT)).collect()
}

/// Sent and withdrawn segments, in order.
fn segments(outputs: &[Output]) -> Vec<(PeerId, &'static str, String)> {
    let segment = |output: &Output| match output {
        Output::SendSegment(peer, namespace) => Some((*peer, "sent", namespace.to_string())),
        Output::WithdrawSegment(peer, namespace) => Some((*peer, "withdrawn", namespace.to_string())),
        _ => None,
    };
    outputs.iter().filter_map(segment).collect()
}

fn sent(peer: PeerId, name: &str) -> (PeerId, &'static str, String) {
    (peer, "sent", name.to_owned())
}

fn withdrawn(peer: PeerId, name: &str) -> (PeerId, &'static str, String) {
    (peer, "withdrawn", name.to_owned())
}

fn all(rig: &mut Rig, peers: &[PeerId], request: &dyn Fn() -> Request) -> Vec<Output> {
    peers.iter().flat_map(|&peer| rig.request(peer, request())).collect()
}

#[test]
fn connected_processes_get_each_others_segments_before_their_replies() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = jobs(&mut rig, &["a", "b"]);
    let outputs = all(&mut rig, &peers, &|| Request::Connect(collective(&["a", "b"])));
    assert_eq!(segments(&outputs), [sent(peers[0], "b"), sent(peers[1], "a")]);
    let is_segment = |output: &Output| matches!(output, Output::SendSegment(..));
    assert!(outputs[..2].iter().all(is_segment), "{outputs:?}");
    let nothing = || Reply::Data(Vec::new());
    assert_eq!(replies(&outputs), [(peers[0], nothing()), (peers[1], nothing())], "they need no copies");
}

/// Connected processes 0 of jobs "a", "b" and "c". All want the event about an end without a disconnect, and so does
/// "d".
fn connected_with_handlers(rig: &mut Rig) -> Vec<PeerId> {
    let peers = jobs(rig, &["a", "b", "c", "d"]);
    for &peer in &peers {
        rig.request(peer, register(&[UNSYNCED]));
    }
    all(rig, &peers[..3], &|| Request::Connect(collective(&["a", "b", "c"])));
    peers
}

const UNSYNCED: Status = Status::ERR_PROC_TERM_WO_SYNC;

/// Regression: only `modex run` raised the event, for all processes that ended without Finalize. The standard wants it
/// for connected processes that end or finalize without a disconnect.
#[test]
fn an_end_without_a_disconnect_is_told_to_the_connected_once() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = connected_with_handlers(&mut rig);
    let events_to = |peers: &[PeerId]| peers.iter().map(|peer| (Some(*peer), UNSYNCED)).collect::<Vec<_>>();
    assert_eq!(notified(&rig.request(peers[0], Request::Finalize)), events_to(&peers[1..3]));
    assert_eq!(notified(&rig.host(HostCall::DeregisterClient(of("a", 0)))), []);
    assert_eq!(notified(&rig.lose(peers[1])).iter().filter(|(peer, _)| peer.is_some()).count(), 1, "c");
    assert_eq!(notified(&rig.request(peers[3], Request::Finalize)), [], "it was connected with nobody");
}

#[test]
fn an_end_after_a_disconnect_is_told_to_nobody() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = connected_with_handlers(&mut rig);
    all(&mut rig, &peers[..3], &|| Request::Disconnect(collective(&["a", "b", "c"])));
    assert_eq!(notified(&rig.request(peers[0], Request::Finalize)), []);
}

/// The host got it for each end, because a wildcard rank was taken for a process of another node.
#[test]
fn the_end_of_a_process_that_is_connected_on_this_node_alone_is_not_for_the_host() {
    let mut rig = Rig::new(Capabilities::NOTIFY_EVENT);
    let peers = connected_with_handlers(&mut rig);
    let outputs = rig.request(peers[0], Request::Finalize);
    assert_eq!((notified(&outputs).len(), upcalls(&outputs)), (2, Vec::new()));
}

/// An event of the host about an end, for one process or for all.
fn of_host(name: &str, target: Option<&str>) -> HostCall {
    let affected = std::iter::once(Info::new(key("pmix.evproc"), of(name, 0)));
    let target = target.map(|name| Info::new(key("pmix.evrange"), of(name, 0)));
    let range = if target.is_some() { range::RANGE_CUSTOM } else { range::RANGE_SESSION };
    HostCall::NotifyEvent(Event { status: UNSYNCED, source: None, range, info: affected.chain(target).collect() })
}

/// The connected processes did not hear of the second end.
#[test]
fn an_event_about_a_known_end_and_a_new_one_reaches_the_connected() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = connected_with_handlers(&mut rig);
    rig.request(peers[0], Request::Finalize);
    let both = Info::new(key("pmix.evaffected"), processes([of("a", 0), of("d", 0)]));
    let event = Event { status: UNSYNCED, source: None, range: range::RANGE_SESSION, info: vec![both] };
    assert_eq!(notified(&rig.host(HostCall::NotifyEvent(event))).len(), 3);
}

/// The host's event went elsewhere, and the connected processes got none.
#[test]
fn an_event_of_the_host_for_others_does_not_replace_that_for_the_connected() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = connected_with_handlers(&mut rig);
    assert_eq!(notified(&rig.host(of_host("b", Some("d")))), [(Some(peers[3]), UNSYNCED)]);
    assert_eq!(notified(&rig.request(peers[1], Request::Finalize)).len(), 2);
}

#[test]
fn the_hosts_event_about_such_an_end_reaches_the_others_alone() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = connected_with_handlers(&mut rig);
    rig.request(peers[0], Request::Finalize);
    let outputs = rig.host(of_host("a", None));
    assert_eq!(notified(&outputs), [(Some(peers[3]), UNSYNCED)], "the connected have heard of it");
    let outputs = rig.host(of_host("b", None));
    assert_eq!(notified(&outputs).len(), 3, "the host was first");
    assert_eq!(notified(&rig.request(peers[1], Request::Finalize)), [], "the host has told of it");
}

#[test]
fn a_host_gets_the_event_for_participants_of_other_nodes() {
    let mut rig = Rig::new(Capabilities::CONNECT | Capabilities::NOTIFY_EVENT);
    let peers = jobs(&mut rig, &["a", "b"]);
    rig.register("remote", Some(1), Some(0));
    let together = || Request::Connect(collective(&["a", "b", "remote"]));
    let (id, _) = upcall(&all(&mut rig, &peers, &together));
    rig.complete(id, HostReply::Status(SUCCESS));
    let (_, event) = upcall(&rig.request(peers[0], Request::Finalize));
    let Upcall::NotifyEvent(event) = event else { panic!("{event:?}") };
    assert_eq!((event.status, event.source.clone()), (UNSYNCED, Some(of("a", 0))));
    assert!(event.is_meant_for(&of("remote", 0)) && !event.is_meant_for(&of("other", 0)));
}

/// The end of a process in 2,000 connections of 50 processes took 9 ms, because the event named each of them.
#[test]
fn the_event_about_an_end_in_many_connections_names_jobs_and_reaches_the_connected() {
    let mut rig = Rig::new(Capabilities::CONNECT | Capabilities::NOTIFY_EVENT);
    rig.register("a", Some(20), Some(19));
    for rank in 0..19 {
        rig.register_client(&of("a", rank));
    }
    let peers: Vec<PeerId> = (0..19).map(|rank| rig.join(&of("a", rank), SEGMENT)).collect();
    for &peer in &peers {
        rig.request(peer, register(&[UNSYNCED]));
    }
    for absent in 1..18 {
        let ranks = || (0..18).filter(move |rank| *rank != absent);
        // Rank 19 is on another node.
        let procs: Vec<ProcId> = ranks().chain([19]).map(|rank| of("a", rank)).collect();
        let connect = || Request::Connect(Collective { procs: procs.clone(), directives: Vec::new() });
        let together: Vec<PeerId> = ranks().map(|rank| peers[usize::try_from(rank).unwrap()]).collect();
        let outputs = all(&mut rig, &together, &connect);
        if let [(id, _)] = upcalls(&outputs)[..] {
            rig.complete(id, HostReply::Status(SUCCESS));
        }
    }
    let outputs = rig.request(peers[0], Request::Finalize);
    let connected = peers[1..18].iter().map(|peer| (Some(*peer), UNSYNCED));
    assert_eq!(notified(&outputs), connected.collect::<Vec<_>>());
    let Upcall::NotifyEvent(event) = upcall(&outputs).1 else { panic!("{outputs:?}") };
    assert_eq!(event.targets(), [&of("a", Rank::Wildcard)]);
}

#[test]
fn a_segment_is_taken_back_with_the_last_tie() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = jobs(&mut rig, &["a", "b", "c"]);
    all(&mut rig, &peers[..2], &|| Request::Connect(collective(&["a", "b"])));
    let outputs = all(&mut rig, &peers, &|| Request::Connect(collective(&["a", "b", "c"])));
    let expected = [(0, "c"), (1, "c"), (2, "a"), (2, "b")].map(|(peer, name)| sent(peers[peer], name));
    assert_eq!(segments(&outputs), expected);
    let outputs = all(&mut rig, &peers, &|| Request::Disconnect(collective(&["c", "b", "a"])));
    let expected = [(0, "c"), (1, "c"), (2, "a"), (2, "b")].map(|(peer, name)| withdrawn(peers[peer], name));
    assert_eq!(segments(&outputs), expected);
    let outputs = all(&mut rig, &peers[..2], &|| Request::Disconnect(collective(&["a", "b"])));
    assert_eq!(segments(&outputs), [withdrawn(peers[0], "b"), withdrawn(peers[1], "a")]);
    assert_eq!(statuses(&outputs), [(peers[0], SUCCESS), (peers[1], SUCCESS)]);
    let outputs = all(&mut rig, &peers[..2], &|| Request::Disconnect(collective(&["a", "b"])));
    let never = Status::ERR_INVALID_OPERATION;
    assert_eq!(statuses(&outputs), [(peers[0], never), (peers[1], never)], "they are not connected");
}

#[test]
fn a_group_ties_jobs_together_until_it_ends_or_one_leaves() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = jobs(&mut rig, &["a", "b"]);
    let group =
        |command| Group { command, id: Some(Text::from("g")), procs: all_of(&["a", "b"]), directives: Vec::new() };
    let construct = || Request::GroupConstruct(group(crate::proto::Command::GroupConstruct.to_raw()));
    let outputs = all(&mut rig, &peers, &construct);
    assert_eq!(segments(&outputs), [sent(peers[0], "b"), sent(peers[1], "a")]);
    let leave = Request::GroupOther(group(crate::proto::Command::GroupLeave.to_raw()));
    let outputs = rig.request(peers[0], leave);
    assert_eq!(segments(&outputs), [withdrawn(peers[0], "b")]);
    let destruct = || Request::GroupDestruct(group(crate::proto::Command::GroupDestruct.to_raw()));
    let outputs = rig.request(peers[1], destruct());
    assert_eq!(segments(&outputs), [withdrawn(peers[1], "a")]);
}

#[test]
fn clients_without_segments_or_of_other_users_get_copies() {
    let mut rig = Rig::new(Capabilities::empty());
    let here = jobs(&mut rig, &["a"])[0];
    for (name, uid) in [("b", OWNER.uid), ("c", OWNER.uid + 1)] {
        rig.register(name, Some(1), Some(1));
        rig.host(HostCall::RegisterClient(RegisterClient { proc: of(name, 0), uid, gid: OWNER.gid, object: 0 }));
    }
    let socket = rig.join(&of("b", 0), SOCKET);
    let outputs = all(&mut rig, &[here, socket], &|| Request::Connect(collective(&["a", "b"])));
    assert_eq!(segments(&outputs), [sent(here, "b")]);
    let has_job = |reply: &Reply| matches!(reply, Reply::Data(jobs) if jobs.len() == 1);
    assert_eq!(replies(&outputs).iter().map(|(_, reply)| has_job(reply)).collect::<Vec<_>>(), [false, true]);

    // The stranger's job has no connection; it departs, and the host's answer counts.
    let mut rig = Rig::new(Capabilities::CONNECT);
    let here = jobs(&mut rig, &["a"])[0];
    rig.register("c", Some(2), Some(1));
    let stranger = RegisterClient { proc: of("c", 0), uid: OWNER.uid + 1, gid: OWNER.gid, object: 0 };
    rig.host(HostCall::RegisterClient(stranger));
    let request = Collective { procs: vec![of("a", 0), of("c", 1)], directives: Vec::new() };
    let (id, _) = upcall(&rig.request(here, Request::Connect(request)));
    let outputs = rig.complete(id, HostReply::Status(SUCCESS));
    assert_eq!(segments(&outputs), [], "a job of another user's");
    assert!(has_job(&replies(&outputs)[0].1), "{outputs:?}");
}

#[test]
fn the_end_of_a_process_or_of_its_job_ends_its_ties() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = jobs(&mut rig, &["a", "b", "c"]);
    all(&mut rig, &peers, &|| Request::Connect(collective(&["a", "b", "c"])));
    let outputs = rig.host(HostCall::DeregisterNamespace(namespace("c")));
    assert_eq!(segments(&outputs), [withdrawn(peers[0], "c"), withdrawn(peers[1], "c")]);
    rig.request(peers[1], Request::Finalize);
    let again = rig.connect(&of("b", 0), SEGMENT);
    assert_eq!(segments(&again.1), [sent(again.0, "b")], "its own job alone");
    rig.lose(peers[0]);
    rig.host(HostCall::DeregisterNamespace(namespace("a")));
    let outputs = rig.host(HostCall::DeregisterNamespace(namespace("b")));
    assert_eq!(segments(&outputs), []);
}

/// An ended job of others ended every connection of processes within one job.
#[test]
fn a_connection_within_a_job_outlasts_other_jobs() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = jobs(&mut rig, &["a", "c"]);
    rig.request(peers[0], Request::Connect(collective(&["a"])));
    rig.host(HostCall::DeregisterNamespace(namespace("c")));
    let outputs = rig.request(peers[0], Request::Disconnect(collective(&["a"])));
    assert_eq!(statuses(&outputs), [(peers[0], SUCCESS)]);
}

/// The host's answer to a spawn tied a process to the new job that had ended in between.
#[test]
fn a_parent_that_has_left_is_not_tied_to_its_spawned_job() {
    let mut rig = Rig::new(Capabilities::SPAWN);
    let parent = jobs(&mut rig, &["a"])[0];
    let (id, _) = upcall(&rig.request(parent, Request::from(Spawn { job: Vec::new(), apps: Vec::new() })));
    let child = register_child(&mut rig, "child", &of("a", 0));
    rig.request(parent, Request::Finalize);
    let outputs = rig.complete(id, HostReply::Spawned(child));
    assert_eq!(segments(&outputs), []);
}

fn register_child(rig: &mut Rig, name: &str, parent: &ProcId) -> Namespace {
    let description = vec![Info::new(JOB_SIZE, 1_u32), Info::new(key("pmix.parent"), Value::from(parent.clone()))];
    let (namespace, description) = (namespace(name), description.into());
    let registration =
        RegisterNamespace { namespace: namespace.clone(), local_count: Some(1), description, nodata: false };
    rig.host(HostCall::RegisterNamespace(registration));
    rig.register_client(&of(name, 0));
    namespace
}

#[test]
fn a_job_and_whoever_has_started_it_read_each_other() {
    let mut rig = Rig::new(Capabilities::SPAWN);
    let parent = jobs(&mut rig, &["a"])[0];
    let (id, _) = upcall(&rig.request(parent, Request::from(Spawn { job: Vec::new(), apps: Vec::new() })));
    let child = register_child(&mut rig, "child", &of("a", 0));
    let (peer, outputs) = rig.connect(&of("child", 0), SEGMENT);
    assert_eq!(segments(&outputs), [sent(peer, "a"), sent(peer, "child")], "the child reads its parent's job");
    let outputs = rig.complete(id, HostReply::Spawned(child));
    assert_eq!(segments(&outputs), [sent(parent, "child")]);
    let expected = Reply::Spawned { namespace: Text::from("child"), entries: Vec::new() };
    assert_eq!(replies(&outputs), [(parent, expected)]);
    // A second connection of the child, as a forked process makes it.
    let (clone, outputs) = rig.connect(&of("child", 0), SEGMENT);
    assert_eq!(segments(&outputs), [sent(clone, "a"), sent(clone, "child")]);
    let asked = rig.request(peer, get(&everybody_of("child"), Some("pmix.parent"), &[]));
    assert_eq!(replies(&asked).len(), 1);
    let outputs = all(&mut rig, &[parent, peer], &|| {
        Request::Disconnect(Collective { procs: vec![of("a", 0), of("child", 0)], directives: Vec::new() })
    });
    let expected = [(parent, "child"), (peer, "a"), (clone, "a")].map(|(peer, name)| withdrawn(peer, name));
    assert_eq!(segments(&outputs), expected);
    assert_eq!(statuses(&outputs), [(parent, SUCCESS), (peer, SUCCESS)]);
}

fn everybody_of(name: &str) -> ProcId {
    of(name, Rank::Wildcard)
}

/// A job registered after others had been connected to it had no user yet, so no process could read it: its segment was
/// never sent. The same was true for a child that was registered after the reply to its parent.
#[test]
fn segments_are_handed_over_in_whatever_order_jobs_are_registered_announced_and_connected() {
    for late in 0..3 {
        let mut rig = Rig::of_root(Capabilities::CONNECT);
        let here = jobs(&mut rig, &["a"])[0];
        if late < 2 {
            rig.register("b", Some(2), Some(0));
        }
        if late == 0 {
            rig.register_client(&of("b", 0));
        }
        rig.register("elsewhere", Some(1), Some(0));
        let request = Collective { procs: vec![of("a", 0), of("elsewhere", 0), of("b", 1)], directives: Vec::new() };
        let mut outputs = rig.request(here, Request::Connect(request));
        if late == 2 {
            outputs.extend(rig.register("b", Some(2), Some(0)));
        }
        let (id, _) = upcall(&outputs);
        let mut seen = segments(&rig.complete(id, HostReply::Status(SUCCESS)));
        if late > 0 {
            assert_eq!(seen, [], "it is nobody's");
            seen.extend(segments(&rig.register_client(&of("b", 0))));
        }
        assert_eq!(seen, [sent(here, "b")], "late: {late}");
        let clone = rig.connect(&of("a", 0), SEGMENT);
        assert_eq!(segments(&clone.1), [sent(clone.0, "b"), sent(clone.0, "a")], "who comes later");
        // As soon as one of its processes is another user's, they may not read it.
        let stranger = RegisterClient { proc: of("b", 0), uid: OWNER.uid + 1, gid: OWNER.gid, object: 0 };
        let outputs = rig.host(HostCall::RegisterClient(stranger));
        assert_eq!(segments(&outputs), [withdrawn(here, "b"), withdrawn(clone.0, "b")]);
    }
}

#[test]
fn a_child_reads_its_parents_job_in_whatever_order_it_comes_and_is_described() {
    // The parent gets the reply before its child is registered.
    let mut rig = Rig::of_root(Capabilities::SPAWN);
    let parent = jobs(&mut rig, &["a"])[0];
    let (id, _) = upcall(&rig.request(parent, Request::from(Spawn { job: Vec::new(), apps: Vec::new() })));
    assert_eq!(segments(&rig.complete(id, HostReply::Spawned(namespace("child")))), []);
    let mut outputs = rig.register("child", Some(1), Some(1));
    outputs.extend(rig.register_client(&of("child", 0)));
    assert_eq!(segments(&outputs), [sent(parent, "child")]);
    // The child connects before its parent is known.
    let (child, outputs) = rig.connect(&of("child", 0), SEGMENT);
    assert_eq!(segments(&outputs), [sent(child, "child")]);
    let description = vec![Info::new(key("pmix.parent"), Value::from(of("a", 0)))].into();
    let again = RegisterNamespace { namespace: namespace("child"), local_count: Some(1), description, nodata: false };
    assert_eq!(segments(&rig.host(HostCall::RegisterNamespace(again))), [sent(child, "a")]);
    // The parent's job is registered last.
    let mut rig = Rig::of_root(Capabilities::empty());
    register_child(&mut rig, "child", &of("a", 0));
    let (child, outputs) = rig.connect(&of("child", 0), SEGMENT);
    assert_eq!(segments(&outputs), [sent(child, "child")]);
    rig.register("a", Some(1), Some(1));
    assert_eq!(segments(&rig.register_client(&of("a", 0))), [sent(child, "a")]);
}

#[test]
fn members_of_an_invited_group_read_each_others_jobs_until_they_leave() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = jobs(&mut rig, &["a", "b"]);
    let members = [of("a", 0), of("b", 0)].map(Value::from).into();
    let members = crate::types::DataArray { element_type: crate::types::DataType::Proc, elements: members };
    let group = |command: crate::proto::Command, directives| {
        Request::GroupOther(Group {
            command: command.to_raw(),
            id: Some(Text::from("g")),
            procs: Vec::new(),
            directives,
        })
    };
    let join = vec![Info::new(key("pmix.grp.mbrs"), Value::DataArray(Box::new(members)))];
    let outputs = rig.request(peers[0], group(crate::proto::Command::GroupJoin, join));
    assert_eq!(segments(&outputs), [sent(peers[0], "b")]);
    let outputs = rig.request(peers[0], group(crate::proto::Command::GroupLeave, Vec::new()));
    assert_eq!(segments(&outputs), [withdrawn(peers[0], "b")]);
}

/// Regression: a process named a rank that another user's job can't have. The host agreed, and the process read the
/// job.
#[test]
fn a_rank_that_a_job_cannot_have_agrees_to_no_tie() {
    let mut rig = Rig::new(Capabilities::CONNECT | Capabilities::GROUP);
    let peers = jobs(&mut rig, &["a", "b"]);
    let procs = vec![of("a", 0), of("b", 99)];
    let outputs = rig.request(peers[0], Request::Connect(Collective { procs: procs.clone(), directives: Vec::new() }));
    let outputs = rig.complete(upcall(&outputs).0, HostReply::Status(SUCCESS));
    assert_eq!(segments(&outputs), []);
    let group =
        Group { command: Command::GroupConstruct.to_raw(), id: Some(Text::from("g")), procs, directives: Vec::new() };
    let outputs = rig.request(peers[0], Request::GroupConstruct(group));
    let outputs = rig.complete(upcall(&outputs).0, HostReply::Infos { status: SUCCESS, info: Vec::new() });
    assert_eq!(segments(&outputs), []);
}

/// A connect of 99 jobs, whose processes had 45 connections each, sent 441,000 segments in one turn of 2.5 s.
#[test]
fn segments_of_many_jobs_are_handed_over_in_steps() {
    let names: Vec<String> = (0..20).map(|number| format!("job{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut rig = Rig::new(Capabilities::empty());
    let peers = jobs(&mut rig, &names);
    let outputs = all(&mut rig, &peers, &|| Request::Connect(collective(&names)));
    assert_eq!(replies(&outputs).len(), names.len());
    let mut counts = vec![segments(&outputs).len()];
    counts.extend(rig.fan_out_steps().iter().map(|step| segments(step).len()));
    assert_eq!(counts.iter().sum::<usize>(), names.len() * (names.len() - 1));
    assert!(counts.iter().all(|count| *count < 100), "{counts:?}");
    // They are withdrawn in the same way.
    let outputs = all(&mut rig, &peers, &|| Request::Disconnect(collective(&names)));
    let mut counts = vec![segments(&outputs).len()];
    counts.extend(rig.fan_out_steps().iter().map(|step| segments(step).len()));
    assert_eq!(counts.iter().sum::<usize>(), names.len() * (names.len() - 1));
    assert!(counts.iter().all(|count| *count < 100), "{counts:?}");
}
