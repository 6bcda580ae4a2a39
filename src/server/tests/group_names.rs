//! Members of a group named by their ranks in it, in other requests.

use super::harness::*;
use crate::events::Event;
use crate::proto::{Abort, Group, IofPull, JobControl, Notify, RegisterEvents, Request, Service};
use crate::server::{Capabilities, Output, PeerId, Upcall};
use crate::types::codes::range;
use crate::types::{DataArray, DataType, Info, ProcId, Rank, Status, Text, Value};

const CODE: Status = Status::from_raw(-1001);

/// Three processes of five are local, and the last two of them are in group "g".
fn rig() -> (Rig, Vec<PeerId>) {
    let capabilities =
        Capabilities::ABORT | Capabilities::JOB_CONTROL | Capabilities::NOTIFY_EVENT | Capabilities::IOF_PULL;
    let mut rig = Rig::new(capabilities);
    let peers = rig.job(5, 3);
    let (id, procs) = (Some(Text::from("g")), vec![proc(1), proc(2)]);
    let construct = Request::GroupConstruct(Group { command: 24, id, procs, directives: Vec::new() });
    rig.request(peers[1], construct.clone());
    assert_eq!(replies(&rig.request(peers[2], construct)).len(), 2);
    (rig, peers)
}

fn member(rank: impl Into<Rank>) -> ProcId {
    ProcId { namespace: namespace("g"), rank: rank.into() }
}

fn targets(procs: &[ProcId]) -> Info {
    let elements = procs.iter().cloned().map(Value::from).collect();
    Info::new(key("pmix.evrange"), Value::DataArray(Box::new(DataArray { element_type: DataType::Proc, elements })))
}

fn notified(outputs: &[Output]) -> Vec<PeerId> {
    outputs.iter().filter_map(|output| if let Output::Notify(peer, _) = output { Some(*peer) } else { None }).collect()
}

#[test]
fn the_host_is_told_of_members_by_their_own_names() {
    let (mut rig, peers) = rig();
    let named = || vec![member(1), proc(4), member(Rank::Wildcard)];
    let meant = [proc(2), proc(4), proc(1)];
    let abort = Request::Abort(Abort { status: Status::ERROR, message: None, procs: named() });
    let Upcall::Abort(abort) = upcall(&rig.request(peers[1], abort)).1 else { panic!("no abort") };
    assert_eq!(abort.procs, meant);
    let control = Request::from(JobControl { targets: named(), directives: vec![flag("pmix.jctrl.kill")] });
    let Upcall::Service(_, Service::JobControl(control)) = upcall(&rig.request(peers[1], control)).1 else {
        panic!("no control")
    };
    assert_eq!(control.targets, meant);
    let pull = IofPull { procs: named(), directives: Vec::new(), channels: 2, local_id: None };
    let Upcall::IofPull(_, pull) = upcall(&rig.request(peers[1], Request::IofPull(pull))).1 else { panic!("no pull") };
    // The processes of a pull are a set.
    assert_eq!(pull.procs, [proc(1), proc(2), proc(4)]);
    // Without targets the request would mean the whole job.
    let control = JobControl { targets: vec![member(7)], directives: vec![flag("pmix.jctrl.kill")] };
    let Upcall::Service(_, Service::JobControl(control)) = upcall(&rig.request(peers[1], Request::from(control))).1
    else {
        panic!("no control")
    };
    assert_eq!(control.targets, [member(7)]);
}

#[test]
fn an_event_for_members_reaches_them() {
    for (named, meant) in [(member(0), vec![proc(1)]), (member(Rank::Wildcard), vec![proc(1), proc(2)])] {
        let (mut rig, peers) = rig();
        for &peer in &peers {
            let wish = RegisterEvents { codes: vec![CODE], directives: Vec::new() };
            rig.request(peer, Request::RegisterEvents(wish));
        }
        for info in [targets(std::slice::from_ref(&named)), Info::new(key("pmix.evrange"), named)] {
            let notify = Notify { status: CODE, range: range::RANGE_CUSTOM, info: vec![info] };
            let outputs = rig.request(peers[0], Request::Notify(notify));
            assert_eq!(notified(&outputs), peers[1..=meant.len()]);
            let Upcall::NotifyEvent(event) = upcall(&outputs).1 else { panic!("no event") };
            assert_eq!(event.targets(), meant.iter().collect::<Vec<_>>());
        }
    }
}

/// A member that sends an event to its whole group is a receiver, too. Its library can't see that from the group's
/// name.
#[test]
fn a_member_hears_what_it_tells_its_group() {
    let (mut rig, peers) = rig();
    let wish = RegisterEvents { codes: vec![CODE], directives: Vec::new() };
    peers.iter().for_each(|&peer| drop(rig.request(peer, Request::RegisterEvents(wish.clone()))));
    let mut tell = |named| {
        let notify = Notify { status: CODE, range: range::RANGE_CUSTOM, info: vec![targets(&[named])] };
        notified(&rig.request(peers[1], Request::Notify(notify)))
    };
    assert_eq!(tell(member(Rank::Wildcard)), peers[1..]);
    assert_eq!(tell(everybody()), [peers[0], peers[2]], "what it could see it has told itself");
}

/// A few bytes each would expand to a whole group each.
#[test]
fn a_group_is_written_out_once() {
    let (mut rig, peers) = rig();
    let info = vec![Info::new(key("pmix.evproc"), member(Rank::Wildcard)); 3];
    let notify = Notify { status: CODE, range: range::RANGE_SESSION, info };
    let Upcall::NotifyEvent(event) = upcall(&rig.request(peers[0], Request::Notify(notify))).1 else {
        panic!("no event")
    };
    let named = member(Rank::Wildcard);
    assert_eq!(event.affected(), [&proc(1), &proc(2), &named, &named]);
}

/// Other names in an event stay unchanged.
#[test]
fn other_names_stay() {
    let (mut rig, peers) = rig();
    let info = vec![Info::new(key("pmix.evproc"), proc(3)), targets(&[proc(4), ProcId::new(namespace("other"), 1)])];
    let notify = Notify { status: CODE, range: range::RANGE_CUSTOM, info: info.clone() };
    let Upcall::NotifyEvent(Event { info: passed, .. }) = upcall(&rig.request(peers[0], Request::Notify(notify))).1
    else {
        panic!("no event")
    };
    assert_eq!(passed, info);
}
