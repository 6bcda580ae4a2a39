//! Decisions of processes that form a group when one of them ends.

use super::groups::notified;
use super::harness::*;
use crate::events::Event;
use crate::proto::{Command, GROUP_VERDICT, Group, RegisterEvents, Request};
use crate::server::{Capabilities, HostCall, HostReply, Output, PeerId, Upcall};
use crate::types::codes::range;
use crate::types::{DataArray, DataType, Info, ProcId, Status, Text, Value};

const CODES: [Status; 3] = [Status::GROUP_MEMBER_FAILED, Status::GROUP_LEADER_FAILED, Status::GROUP_LEADER_SELECTED];
const ABORT: Status = Status::GROUP_CONSTRUCT_ABORT;

fn construct(id: &str, directives: &[Info]) -> Request {
    let (id, directives) = (Some(Text::from(id)), directives.to_vec());
    Request::GroupConstruct(Group { command: 24, id, procs: vec![everybody()], directives })
}

/// A client's report about its handlers.
fn verdict(id: &str, verdict: Status, about: u32) -> Request {
    let verdict = Info::new(key(GROUP_VERDICT), Value::Status(verdict.to_raw()));
    let directives = vec![verdict, Info::new(key("pmix.evproc"), Value::from(proc(about)))];
    let command = Command::GroupInvite.to_raw();
    Request::GroupOther(Group { command, id: Some(Text::from(id)), procs: Vec::new(), directives })
}

/// "job" with its local ranks, which read segments and have handlers.
fn job(rig: &mut Rig, job_size: u32, local: u32) -> Vec<PeerId> {
    rig.register("job", Some(job_size), Some(local));
    (0..local).for_each(|rank| drop(rig.register_client(&proc(rank))));
    let peers: Vec<PeerId> = (0..local).map(|rank| rig.join(&proc(rank), SEGMENT)).collect();
    for &peer in &peers {
        let wish = RegisterEvents { codes: CODES.to_vec(), directives: Vec::new() };
        assert_eq!(statuses(&rig.request(peer, Request::RegisterEvents(wish))), [(peer, Status::SUCCESS)]);
    }
    peers
}

/// Results of constructions; a group is a success.
fn ends(outputs: &[Output]) -> Vec<(PeerId, Status)> {
    let end = |(peer, reply)| match reply {
        crate::proto::Reply::Status(status) => (peer, status),
        crate::proto::Reply::Group { .. } => (peer, Status::SUCCESS),
        other => panic!("{other:?}"),
    };
    replies(outputs).into_iter().map(end).collect()
}

#[test]
fn the_leaders_handlers_decide_whether_a_smaller_group_is_formed() {
    for (said, end) in [(Status::SUCCESS, Status::SUCCESS), (ABORT, ABORT)] {
        let mut rig = Rig::new(Capabilities::empty());
        let peers = job(&mut rig, 3, 3);
        let notify = flag("pmix.grp.notterm");
        rig.request(peers[0], construct("g", &[notify.clone(), flag("pmix.grp.ldr")]));
        rig.request(peers[1], construct("g", &[notify]));
        let outputs = rig.lose(peers[2]);
        assert_eq!(notified(&outputs), [(peers[0], Status::GROUP_MEMBER_FAILED, proc(2))], "the leader alone is asked");
        assert_eq!(ends(&outputs), [], "and waited for");
        let outputs = rig.request(peers[0], verdict("g", said, 2));
        let expected = [(peers[0], end), (peers[1], end)];
        assert!(expected.iter().all(|one| ends(&outputs).contains(one)), "{outputs:?}");
        assert_eq!(rig.server.poll_timeout(), None);
    }
}

#[test]
fn the_first_who_volunteers_leads_and_all_are_told() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = job(&mut rig, 4, 4);
    rig.request(peers[0], construct("g", &[flag("pmix.grp.ldr"), flag("pmix.grp.notterm")]));
    (1..3).for_each(|rank| drop(rig.request(peers[rank], construct("g", &[flag("pmix.grp.notterm")]))));
    let failed = |peer| (peer, Status::GROUP_LEADER_FAILED, proc(0));
    assert_eq!(notified(&rig.lose(peers[0])), [failed(peers[1]), failed(peers[2])]);
    assert_eq!(notified(&rig.request(peers[1], verdict("g", Status::SUCCESS, 0))), []);
    let outputs = rig.request(peers[2], verdict("g", Status::GROUP_LEADER_SELECTED, 0));
    let selected = |peer| (peer, Status::GROUP_LEADER_SELECTED, proc(2));
    assert_eq!(notified(&outputs), [selected(peers[1]), selected(peers[2])]);
    let late = rig.request(peers[1], verdict("g", Status::GROUP_LEADER_SELECTED, 0));
    assert_eq!(notified(&late), [], "there is one");
    // It is the leader now, so it gets the ends of others.
    let outputs = rig.lose(peers[3]);
    assert_eq!(notified(&outputs), [(peers[2], Status::GROUP_MEMBER_FAILED, proc(3))]);
    let outputs = rig.request(peers[2], verdict("g", Status::SUCCESS, 3));
    assert!(ends(&outputs).contains(&(peers[1], Status::SUCCESS)), "{outputs:?}");
}

#[test]
fn a_verdict_does_not_wait_long_for_silent_or_ended_members() {
    for is_lost in [false, true] {
        let mut rig = Rig::new(Capabilities::empty());
        let peers = job(&mut rig, 3, 3);
        let notify = [flag("pmix.grp.notterm")];
        (0..2).for_each(|rank| drop(rig.request(peers[rank], construct("g", &notify))));
        assert_eq!(notified(&rig.lose(peers[2])).len(), 2);
        assert_eq!(ends(&rig.request(peers[0], verdict("g", Status::SUCCESS, 2)))[..], [(peers[0], Status::SUCCESS)]);
        let mut expected = vec![(peers[0], Status::SUCCESS)];
        let outputs = if is_lost {
            // Its end is reported, too, and decided about: the first reply is the one to the verdict.
            assert_eq!(notified(&rig.lose(peers[1])), [(peers[0], Status::GROUP_MEMBER_FAILED, proc(1))]);
            expected.push((peers[0], Status::SUCCESS));
            rig.request(peers[0], verdict("g", Status::SUCCESS, 1))
        } else {
            rig.wait(10)
        };
        let of_first: Vec<_> = ends(&outputs).into_iter().filter(|(peer, _)| *peer == peers[0]).collect();
        assert_eq!(of_first, expected, "{outputs:?}");
    }
}

#[test]
fn members_without_handlers_or_of_other_libraries_delay_no_verdict() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(3, 3);
    let wish = RegisterEvents { codes: CODES.to_vec(), directives: Vec::new() };
    rig.request(peers[0], Request::RegisterEvents(wish));
    (0..2).for_each(|rank| drop(rig.request(peers[rank], construct("g", &[flag("pmix.grp.notterm")]))));
    let outputs = rig.lose(peers[2]);
    assert_eq!(notified(&outputs).len(), 1);
    assert_eq!(ends(&outputs), [(peers[0], Status::SUCCESS), (peers[1], Status::SUCCESS)]);
}

#[test]
fn a_verdict_that_nobody_asked_for_changes_nothing_but_a_member_may_give_up() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = job(&mut rig, 3, 3);
    let success = Status::SUCCESS;
    for said in [success, ABORT, Status::GROUP_LEADER_SELECTED] {
        assert_eq!(statuses(&rig.request(peers[0], verdict("g", said, 1))), [(peers[0], success)], "there is no group");
    }
    rig.request(peers[0], construct("g", &[]));
    let outputs = rig.request(peers[1], verdict("g", ABORT, 2));
    assert_eq!(statuses(&outputs), [(peers[1], success)], "it has not come");
    let outputs = rig.request(peers[0], verdict("g", Status::GROUP_LEADER_SELECTED, 2));
    assert_eq!((notified(&outputs), ends(&outputs)), (vec![], vec![(peers[0], success)]), "no leader was lost");
}

/// A construction that was given up on one node was awaited on the others for ever.
#[test]
fn a_construction_that_is_given_up_here_goes_to_the_host_for_the_sake_of_the_others() {
    let mut rig = Rig::new(Capabilities::GROUP);
    let peers = job(&mut rig, 3, 2);
    rig.request(peers[0], construct("g", &[]));
    let (id, call) = upcall(&rig.lose(peers[1]));
    let Upcall::Group(call) = call else { panic!("{call:?}") };
    let status = call.directives.iter().find(|info| info.key.as_str() == crate::keys::LOCAL_COLLECTIVE_STATUS.name());
    assert_eq!(status.map(|info| info.value.clone()), Some(Value::Status(ABORT.to_raw())));
    let outputs = rig.complete(id, HostReply::Infos { status: Status::SUCCESS, info: Vec::new() });
    assert_eq!(statuses(&outputs), [(peers[0], ABORT)], "whatever the host says");
}

#[test]
fn the_leader_of_an_invitation_is_succeeded_by_the_first_invitee_who_volunteers() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = job(&mut rig, 3, 3);
    let range = [0, 1, 2].map(proc).map(Value::from).into();
    let range = Value::DataArray(Box::new(crate::types::DataArray {
        element_type: crate::types::DataType::Proc,
        elements: range,
    }));
    let info = vec![Info::new(key("pmix.evrange"), range), Info::new(key("pmix.grp.id"), "g")];
    let invited =
        crate::proto::Notify { status: Status::GROUP_INVITED, range: crate::types::codes::range::RANGE_CUSTOM, info };
    rig.request(peers[0], Request::Notify(invited));
    rig.lose(peers[0]);
    let outputs = rig.request(peers[2], verdict("g", Status::GROUP_LEADER_SELECTED, 0));
    let selected = |peer| (peer, Status::GROUP_LEADER_SELECTED, proc(2));
    assert_eq!(notified(&outputs), [selected(peers[1]), selected(peers[2])]);
    assert_eq!(notified(&rig.request(peers[1], verdict("g", Status::GROUP_LEADER_SELECTED, 0))), [], "there is one");
    // An open vacancy ends with its job.
    rig.host(HostCall::DeregisterNamespace(namespace("job")));
    assert_eq!(rig.server.holdings().iter().map(|(_, count)| count).sum::<usize>(), 0);
}

/// A volunteer that never invited kept the role, and so did a remote one that ended without an event.
#[test]
fn a_successor_that_does_not_invite_keeps_the_place_for_a_minute() {
    let high = ProcId::new(namespace("zzz"), 0);
    // The event about the end may be the last to come.
    for (invites, is_heard_first) in [(false, false), (true, false), (true, true)] {
        let mut rig = Rig::new(Capabilities::NOTIFY_EVENT);
        let peers = job(&mut rig, 5, 3);
        let invited: Vec<ProcId> = [0, 1, 2, 4].map(proc).into_iter().chain([high.clone()]).collect();
        let selected = || from_elsewhere(Status::GROUP_LEADER_SELECTED, &high, &invited);
        let mut news = [
            from_elsewhere(Status::GROUP_INVITED, &proc(3), &invited),
            from_elsewhere(Status::PROC_TERMINATED, &proc(3), &invited),
            from_elsewhere(Status::GROUP_LEADER_SELECTED, &proc(4), &invited),
            from_elsewhere(Status::GROUP_INVITED, &proc(4), &invited),
        ];
        if is_heard_first {
            news[1..].rotate_left(1);
        }
        let news_count = if is_heard_first { 4 } else { 3 };
        news.into_iter().take(news_count).for_each(|call| drop(rig.host(call)));
        let volunteer = || verdict("g", Status::GROUP_LEADER_SELECTED, 3);
        rig.wait(59);
        assert_eq!(notified(&rig.request(peers[2], volunteer())), [], "there is one");
        assert_eq!(notified(&rig.host(selected())), [], "a lower one leads");
        if invites && !is_heard_first {
            rig.host(from_elsewhere(Status::GROUP_INVITED, &proc(4), &invited));
        }
        rig.wait(2);
        assert_eq!(notified(&rig.host(selected())).len(), if invites { 0 } else { 3 });
        assert_eq!(notified(&rig.request(peers[2], volunteer())), [], "there is one, again or still");
        rig.wait(61);
        assert_eq!(notified(&rig.request(peers[2], volunteer())).len(), if invites { 0 } else { 3 });
    }
}

/// An event of a remote process about itself.
fn from_elsewhere(status: Status, source: &ProcId, targets: &[ProcId]) -> HostCall {
    let elements = targets.iter().cloned().map(Value::from).collect();
    let targets = Value::DataArray(Box::new(DataArray { element_type: DataType::Proc, elements }));
    let info = vec![
        Info::new(key("pmix.evrange"), targets),
        Info::new(key("pmix.grp.id"), "g"),
        Info::new(key("pmix.evproc"), Value::from(source.clone())),
    ];
    HostCall::NotifyEvent(Event { status, source: Some(source.clone()), range: range::RANGE_CUSTOM, info })
}

/// A volunteer on another node than the leader's was ignored, and the construction did not wait for decisions there.
#[test]
fn a_leader_that_ends_elsewhere_can_be_succeeded_from_here() {
    let mut rig = Rig::new(Capabilities::GROUP | Capabilities::NOTIFY_EVENT);
    let peers = job(&mut rig, 4, 3);
    let notify = flag("pmix.grp.notterm");
    (0..2).for_each(|rank| drop(rig.request(peers[rank], construct("g", std::slice::from_ref(&notify)))));
    let locals = [0, 1, 2].map(proc);
    let outputs = rig.host(from_elsewhere(Status::GROUP_LEADER_FAILED, &proc(3), &locals));
    assert_eq!(notified(&outputs).len(), 3);
    // A process that had not arrived at the event is not awaited, but the others are.
    let outputs = rig.request(peers[2], construct("g", &[notify]));
    assert_eq!(upcalls(&outputs), []);
    let outputs = rig.request(peers[1], verdict("g", Status::GROUP_LEADER_SELECTED, 3));
    let selected = |peer| (peer, Status::GROUP_LEADER_SELECTED, proc(1));
    assert_eq!(notified(&outputs), peers.iter().map(|&peer| selected(peer)).collect::<Vec<_>>());
    assert!(matches!(upcall(&outputs).1, Upcall::NotifyEvent(event) if event.status == Status::GROUP_LEADER_SELECTED));
    let outputs = rig.request(peers[0], verdict("g", Status::GROUP_LEADER_SELECTED, 3));
    assert_eq!(notified(&outputs), [], "there is one");
    assert!(matches!(upcall(&outputs).1, Upcall::Group(_)), "all have spoken: {outputs:?}");
    assert_eq!(rig.server.poll_timeout(), None);
}

/// Servers could not agree on one volunteer if their events crossed.
#[test]
fn of_those_who_volunteer_on_several_nodes_the_lowest_leads_and_is_heard_of_last() {
    for arrives_first in [true, false] {
        let mut rig = Rig::new(Capabilities::GROUP | Capabilities::NOTIFY_EVENT);
        let peers = job(&mut rig, 4, 3);
        let elsewhere = ["aaa", "zzz"].map(|name| ProcId::new(namespace(name), 0));
        let procs: Vec<ProcId> = [everybody()].into_iter().chain(elsewhere.clone()).collect();
        let (id, directives) = (Some(Text::from("g")), vec![flag("pmix.grp.notterm")]);
        let construct = Request::GroupConstruct(Group { command: 24, id, procs, directives });
        (0..2).for_each(|rank| drop(rig.request(peers[rank], construct.clone())));
        let locals = [0, 1, 2].map(proc);
        let selected = |proc: &ProcId| from_elsewhere(Status::GROUP_LEADER_SELECTED, proc, &locals);
        rig.host(from_elsewhere(Status::GROUP_LEADER_FAILED, &proc(3), &locals));
        if arrives_first {
            assert_eq!(notified(&rig.host(selected(&elsewhere[0]))).len(), 3);
            let late = rig.request(peers[1], verdict("g", Status::GROUP_LEADER_SELECTED, 3));
            assert_eq!(notified(&late), [], "there is one");
        } else {
            assert_eq!(notified(&rig.request(peers[1], verdict("g", Status::GROUP_LEADER_SELECTED, 3))).len(), 2);
            assert_eq!(notified(&rig.host(selected(&elsewhere[1]))), [], "a lower one leads");
            assert_eq!(notified(&rig.host(selected(&elsewhere[0]))).len(), 3);
        }
        // It gets the ends of others, and no other local process does.
        rig.request(peers[0], verdict("g", Status::SUCCESS, 3));
        let outputs = rig.lose(peers[2]);
        let Upcall::NotifyEvent(event) = &upcalls(&outputs)[0].1 else { panic!("{outputs:?}") };
        assert_eq!((event.status, event.targets()), (Status::GROUP_MEMBER_FAILED, vec![&elsewhere[0]]));
    }
}

/// Only the server of the leader's node knew of the vacancy.
#[test]
fn the_leader_of_an_invitation_that_ends_elsewhere_is_succeeded_from_here_unless_it_has_been_elsewhere() {
    for is_taken in [false, true] {
        let mut rig = Rig::new(Capabilities::NOTIFY_EVENT);
        let peers = job(&mut rig, 5, 3);
        let invited = [0, 1, 2, 4].map(proc);
        rig.host(from_elsewhere(Status::GROUP_INVITED, &proc(3), &invited));
        rig.host(from_elsewhere(Status::PROC_TERMINATED, &proc(3), &invited));
        if is_taken {
            rig.host(from_elsewhere(Status::GROUP_LEADER_SELECTED, &proc(4), &invited));
        }
        let outputs = rig.request(peers[2], verdict("g", Status::GROUP_LEADER_SELECTED, 3));
        assert_eq!(notified(&outputs).len(), if is_taken { 0 } else { 3 }, "{outputs:?}");
        assert_eq!(
            notified(&rig.request(peers[1], verdict("g", Status::GROUP_LEADER_SELECTED, 3))),
            [],
            "there is one"
        );
        rig.host(HostCall::DeregisterNamespace(namespace("job")));
        assert_eq!(rig.server.holdings().iter().map(|(_, count)| count).sum::<usize>(), 0);
    }
}

/// Both led: invitations did not follow the rule of constructions that the lowest leads. A selection that came before
/// the failure was forgotten, so that this node elected again.
#[test]
fn of_those_who_volunteer_for_an_invitation_on_several_nodes_the_lowest_leads() {
    let [low, high] = ["aaa", "zzz"].map(|name| ProcId::new(namespace(name), 0));
    let locals = [0, 1, 2].map(proc);
    let invited: Vec<ProcId> = locals.iter().chain([&low, &high]).cloned().collect();
    let selected = |proc: &ProcId| from_elsewhere(Status::GROUP_LEADER_SELECTED, proc, &locals);
    let lost = || from_elsewhere(Status::PROC_TERMINATED, &proc(3), &locals);
    let volunteer = || verdict("g", Status::GROUP_LEADER_SELECTED, 3);
    let begin = || {
        let mut rig = Rig::new(Capabilities::NOTIFY_EVENT);
        let peers = job(&mut rig, 5, 3);
        rig.host(from_elsewhere(Status::GROUP_INVITED, &proc(3), &invited));
        (rig, peers)
    };
    // The events of the nodes cross.
    let (mut rig, peers) = begin();
    rig.host(lost());
    assert_eq!(notified(&rig.request(peers[1], volunteer())).len(), 3);
    assert_eq!(notified(&rig.request(peers[0], volunteer())), [], "there is one");
    assert_eq!(notified(&rig.host(selected(&high))), [], "a lower one leads");
    assert_eq!(notified(&rig.host(selected(&low))).len(), 3);
    assert_eq!(notified(&rig.host(selected(&high))), [], "a lower one leads");
    // The event about the new leader overtakes the one about the end.
    let (mut rig, peers) = begin();
    assert_eq!(notified(&rig.host(selected(&low))).len(), 3);
    assert_eq!(notified(&rig.host(selected(&high))), [], "a lower one leads");
    rig.host(lost());
    assert_eq!(notified(&rig.request(peers[1], volunteer())), [], "there is one");
    // The new leader ends, and its role is vacant.
    rig.host(from_elsewhere(Status::PROC_TERMINATED, &low, &locals));
    assert_eq!(notified(&rig.request(peers[1], volunteer())).len(), 3);
    rig.host(HostCall::DeregisterNamespace(namespace("job")));
    assert_eq!(rig.server.holdings().iter().map(|(_, count)| count).sum::<usize>(), 0);
}

/// A server dropped an invitation that its processes had declined as soon as any other job ended, and then delivered the
/// news of successors in any order.
#[test]
fn the_end_of_another_job_leaves_a_declined_invitation_with_its_successors() {
    let mut rig = Rig::new(Capabilities::NOTIFY_EVENT);
    job(&mut rig, 5, 1);
    rig.register("other", Some(1), Some(1));
    let invited = [0, 1, 2, 4].map(proc);
    rig.host(from_elsewhere(Status::GROUP_INVITED, &proc(3), &invited));
    rig.host(from_elsewhere(Status::GROUP_INVITE_DECLINED, &proc(0), &[proc(3)]));
    rig.host(HostCall::DeregisterNamespace(namespace("other")));
    rig.host(from_elsewhere(Status::PROC_TERMINATED, &proc(3), &invited));
    let selected = |rank| from_elsewhere(Status::GROUP_LEADER_SELECTED, &proc(rank), &invited);
    assert_eq!(notified(&rig.host(selected(1))).len(), 1);
    assert_eq!(notified(&rig.host(selected(4))), [], "a lower one leads");
}

/// The role was kept for a minute for a process whose invitation was already over, and no other could take it.
#[test]
fn a_successor_that_has_told_how_it_ended_before_the_news_of_the_leaders_end_leaves_no_place() {
    let invited = [0, 1, 2, 4].map(proc);
    for end in [Status::GROUP_CONSTRUCT_COMPLETE, Status::GROUP_CONSTRUCT_ABORT] {
        let mut rig = Rig::new(Capabilities::NOTIFY_EVENT);
        let peers = job(&mut rig, 5, 3);
        rig.host(from_elsewhere(Status::GROUP_INVITED, &proc(3), &invited));
        for status in [Status::GROUP_LEADER_SELECTED, Status::GROUP_INVITED, end] {
            rig.host(from_elsewhere(status, &proc(4), &invited));
        }
        rig.host(from_elsewhere(Status::PROC_TERMINATED, &proc(3), &invited));
        let held = |what: &str| rig.server.holdings().iter().find(|(name, _)| *name == what).map(|(_, count)| *count);
        assert_eq!((held("invitation"), held("invitation without a leader")), (Some(0), Some(0)), "{end}");
        assert_eq!(notified(&rig.request(peers[1], verdict("g", Status::GROUP_LEADER_SELECTED, 3))), []);
    }
}

/// The end of a leader that had declared itself later took the successor's role away, and a selection that came before
/// the failure was forgotten.
#[test]
fn a_successor_stays_until_it_ends_and_may_be_heard_of_before_the_end_of_the_leader() {
    let [low, high] = ["aaa", "zzz"].map(|name| ProcId::new(namespace(name), 0));
    let locals = [0, 1, 2].map(proc);
    let selected = |proc: &ProcId| from_elsewhere(Status::GROUP_LEADER_SELECTED, proc, &locals);
    let lost = || from_elsewhere(Status::GROUP_LEADER_FAILED, &proc(4), &locals);
    let volunteer = || verdict("g", Status::GROUP_LEADER_SELECTED, 4);
    let begin = || {
        let mut rig = Rig::new(Capabilities::GROUP | Capabilities::NOTIFY_EVENT);
        let peers = job(&mut rig, 5, 4);
        let procs: Vec<ProcId> = [everybody(), low.clone(), high.clone()].into();
        let construct = move |leads: bool| {
            let (id, notify) = (Some(Text::from("g")), flag("pmix.grp.notterm"));
            let directives = [notify].into_iter().chain(leads.then(|| flag("pmix.grp.ldr"))).collect();
            Request::GroupConstruct(Group { command: 24, id, procs: procs.clone(), directives })
        };
        (0..2).for_each(|rank| drop(rig.request(peers[rank], construct(false))));
        (rig, peers, construct)
    };
    let (mut rig, peers, construct) = begin();
    rig.host(lost());
    assert_eq!(notified(&rig.request(peers[1], volunteer())).len(), 2);
    rig.request(peers[2], construct(true));
    rig.lose(peers[2]);
    assert_eq!(notified(&rig.host(selected(&high))), [], "a lower one leads");
    let (mut rig, peers, _) = begin();
    assert_eq!(notified(&rig.host(selected(&low))).len(), 3);
    assert_eq!(notified(&rig.host(selected(&high))), [], "a lower one leads");
    rig.host(lost());
    assert_eq!(notified(&rig.request(peers[1], volunteer())), [], "there is one");
}

/// A process in a thousand constructions ended, and all their members were informed in one turn: 150 ms for all others.
/// The rule: a turn informs a bounded number of groups, and each construction waits for its own events.
#[test]
fn the_members_of_many_constructions_are_told_of_an_end_in_several_turns() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = job(&mut rig, 3, 3);
    let count = 100;
    for number in 0..count {
        for peer in &peers[..2] {
            rig.request(*peer, construct(&format!("g{number}"), &[flag("pmix.grp.notterm")]));
        }
    }
    let mut steps = Vec::new();
    let mut outputs = rig.lose(peers[2]);
    loop {
        steps.push(notified(&outputs).len());
        if steps.iter().sum::<usize>() >= 2 * count || steps.len() > count {
            break;
        }
        assert!(rig.server.poll_timeout().is_some(), "{steps:?}");
        outputs = rig.wait(1);
    }
    assert!(steps.len() > 2 && steps.iter().all(|notified| (1..=64).contains(notified)), "{steps:?}");
    assert_eq!(steps.iter().sum::<usize>(), 2 * count, "each member hears of each construction once");
    let formed: usize = (0..count)
        .map(|number| {
            let id = format!("g{number}");
            let ended = peers[..2].iter().flat_map(|peer| ends(&rig.request(*peer, verdict(&id, Status::SUCCESS, 2))));
            ended.filter(|end| *end == (peers[0], Status::SUCCESS)).count()
        })
        .sum();
    // The reply to each verdict is a success, and so is the reply to each construction.
    assert_eq!(formed, 2 * count);
}
