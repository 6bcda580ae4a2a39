//! Members of a group named by their ranks in it, in requests that are not about groups.

use super::harness::*;
use crate::events::Event;
use crate::proto::{Abort, Group, JobControl, Notify, RankData, RegisterEvents, Reply, Request};
use crate::server::{Capabilities, HostReply, Output, PeerId, StoreOffer, Upcall};
use crate::types::codes::range;
use crate::types::{DataArray, DataType, Info, ProcId, Rank, Scope, Status, Text, Value};

const CODE: Status = Status::from_raw(-1001);

/// Three processes of five are here, and the last two of them are in group "g".
fn rig() -> (Rig, Vec<PeerId>) {
    let capabilities = Capabilities::ABORT
        | Capabilities::JOB_CONTROL
        | Capabilities::NOTIFY_EVENT
        | Capabilities::DIRECT_MODEX
        | Capabilities::FENCE;
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

fn told(outputs: &[Output]) -> Vec<PeerId> {
    outputs.iter().filter_map(|output| if let Output::Notify(peer, _) = output { Some(*peer) } else { None }).collect()
}

#[test]
fn the_host_never_sees_a_groups_name() {
    let (mut rig, peers) = rig();
    let named = || vec![member(1), proc(4), member(Rank::Wildcard)];
    let meant = [proc(2), proc(4), proc(1), proc(2)];
    let abort = Request::Abort(Abort { status: Status::ERROR, message: None, procs: named() });
    let Upcall::Abort(abort) = upcall(&rig.request(peers[1], abort)).1 else { panic!("no abort") };
    assert_eq!(abort.procs, meant);
    let control = Request::JobControl(JobControl { targets: named(), directives: vec![flag("pmix.jctrl.kill")] });
    let Upcall::JobControl(control) = upcall(&rig.request(peers[1], control)).1 else { panic!("no control") };
    assert_eq!(control.targets, meant);
    // Without targets it would be about the whole job.
    let control = JobControl { targets: vec![member(7)], directives: vec![flag("pmix.jctrl.kill")] };
    let Upcall::JobControl(control) = upcall(&rig.request(peers[1], Request::JobControl(control))).1 else {
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
            assert_eq!(told(&outputs), peers[1..=meant.len()]);
            let Upcall::NotifyEvent(event) = upcall(&outputs).1 else { panic!("no event") };
            assert_eq!(event.targets(), meant.iter().collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_members_value_comes_under_the_name_that_was_asked() {
    let (mut rig, peers) = rig();
    let reader = rig.join(&proc(1), StoreOffer::Segment);
    let found = |outputs: &[Output], peer| {
        let expected = RankData { proc: member(1), entries: vec![kval("a", 7)] };
        assert_eq!(replies(outputs).into_iter().find(|(to, _)| *to == peer), Some((peer, Reply::Data(vec![expected]))));
    };
    // One waits until there is something, the other comes then.
    assert_eq!(rig.request(reader, get(&member(1), Some("a"), &[])), []);
    found(&rig.put(peers[2], Scope::Global, "a", 7), reader);
    found(&rig.request(peers[0], get(&member(1), Some("a"), &[])), peers[0]);
    let outputs = rig.request(peers[0], get(&member(2), Some("a"), &[]));
    let Upcall::DirectModex { proc, .. } = upcall(&outputs).1 else { panic!("no question") };
    assert_eq!(proc, member(2), "there is no third member");
}

#[test]
fn a_member_elsewhere_is_asked_for_by_its_own_name() {
    let (mut rig, peers) = rig();
    let (id, procs) = (Some(Text::from("far")), vec![proc(0), proc(4)]);
    rig.host(crate::server::HostCall::Capabilities(Capabilities::GROUP | Capabilities::DIRECT_MODEX));
    let construct = Request::GroupConstruct(Group { command: 24, id, procs, directives: Vec::new() });
    let (id, _) = upcall(&rig.request(peers[0], construct));
    rig.complete(id, HostReply::Infos { status: Status::SUCCESS, info: Vec::new() });
    let far = ProcId::new(namespace("far"), 1);
    let (id, question) = upcall(&rig.request(peers[0], get(&far, Some("a"), &[])));
    assert!(matches!(question, Upcall::DirectModex { proc: asked, .. } if asked == proc(4)));
    let outputs = rig.complete(id, HostReply::DirectModex(vec![kval("a", 9)]));
    let expected = RankData { proc: far, entries: vec![kval("a", 9)] };
    assert_eq!(replies(&outputs), [(peers[0], Reply::Data(vec![expected]))]);
}

/// What an event tells of itself stays as it is where no group is named.
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
