//! Groups by invitation, from a server's view: members, leaves, and events in place of ended processes.

use super::harness::*;
use crate::events::Event;
use crate::proto::{Command, Group, JobControl, Notify, QueryInfo, RegisterEvents, Reply, Request};
use crate::server::{Capabilities, EventDelivery, HostCall, Output, PeerId, Upcall};
use crate::types::codes::range;
use crate::types::{DataArray, DataType, Info, Namespace, ProcId, Rank, Status, Text, Value};

fn procs(procs: &[ProcId]) -> Value {
    let elements = procs.iter().cloned().map(Value::from).collect();
    Value::DataArray(Box::new(DataArray { element_type: DataType::Proc, elements }))
}

fn about(command: Command, id: &str, directives: &[Info]) -> Request {
    let id = Some(Text::from(id));
    Request::GroupOther(Group { command: command.to_raw(), id, procs: Vec::new(), directives: directives.to_vec() })
}

fn join(id: &str, members: &[ProcId]) -> Request {
    about(Command::GroupJoin, id, &[Info::new(key("pmix.grp.mbrs"), procs(members))])
}

fn leave(id: &str) -> Request {
    about(Command::GroupLeave, id, &[])
}

fn group(id: &str) -> ProcId {
    ProcId { namespace: Namespace::new(id).unwrap(), rank: Rank::Wildcard }
}

fn event(status: Status, id: Option<&str>, targets: &[ProcId]) -> Request {
    let named = id.map(|id| Info::new(key("pmix.grp.id"), id));
    let info = [Info::new(key("pmix.evrange"), procs(targets))].into_iter().chain(named).collect();
    Request::Notify(Notify { status, range: range::RANGE_CUSTOM, info })
}

fn listen(rig: &mut Rig, peers: &[PeerId], codes: &[Status]) {
    for &peer in peers {
        let wish = RegisterEvents { codes: codes.to_vec(), directives: Vec::new() };
        assert_eq!(statuses(&rig.request(peer, Request::RegisterEvents(wish))), [(peer, Status::SUCCESS)]);
    }
}

/// Receivers and events, with the affected process.
fn notified(outputs: &[Output]) -> Vec<(PeerId, Status, Option<ProcId>)> {
    let notified = |output: &Output| match output {
        Output::Notify(peer, EventDelivery { event, .. }) => {
            let affected = event.info.iter().find(|info| info.key.as_str() == "pmix.evproc");
            let affected = affected.and_then(|info| match &info.value {
                Value::Proc(proc) => Some((**proc).clone()),
                _ => None,
            });
            Some((*peer, event.status, affected))
        }
        _ => None,
    };
    outputs.iter().filter_map(notified).collect()
}

#[test]
fn a_process_that_reports_its_join_is_a_member_and_adds_no_others() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(3, 3);
    let members = [proc(0), proc(1)];
    for &peer in &peers[..2] {
        assert_eq!(statuses(&rig.request(peer, join("g", &members))), [(peer, Status::SUCCESS)]);
    }
    assert_eq!(rig.request(peers[0], fence(&[group("g")], &[])), []);
    let outputs = rig.request(peers[1], fence(&[group("g")], &[]));
    assert_eq!(statuses(&outputs), [(peers[0], Status::SUCCESS), (peers[1], Status::SUCCESS)]);
    // The third process can claim to be in their group, but can't change the meaning of their names.
    let claim = [proc(0), proc(1), proc(2)];
    assert_eq!(statuses(&rig.request(peers[2], join("g", &claim))), [(peers[2], Status::SUCCESS)]);
    assert_eq!(rig.request(peers[0], fence(&[group("g")], &[])), []);
    assert_eq!(replies(&rig.request(peers[1], fence(&[group("g")], &[]))).len(), 2);
    for (request, status) in [
        (join("h", &members), Status::ERR_NOT_A_MEMBER),
        (join("job", &claim), Status::ERR_BAD_PARAM),
        (join("", &claim), Status::ERR_BAD_PARAM),
        (about(Command::GroupJoin, "h", &[]), Status::ERR_NOT_A_MEMBER),
        (about(Command::GroupInvite, "h", &[]), Status::ERR_NOT_SUPPORTED),
    ] {
        assert_eq!(statuses(&rig.request(peers[2], request)), [(peers[2], status)]);
    }
}

#[test]
fn a_leaver_is_out_and_the_others_are_told_here_and_elsewhere() {
    let mut rig = Rig::new(Capabilities::NOTIFY_EVENT | Capabilities::FENCE);
    let peers = rig.job(4, 3);
    listen(&mut rig, &peers, &[Status::GROUP_LEFT]);
    let members = [0, 1, 2, 3].map(proc);
    peers.iter().for_each(|&peer| drop(rig.request(peer, join("g", &members))));
    let outputs = rig.request(peers[2], leave("g"));
    let left = |peer| (peer, Status::GROUP_LEFT, Some(proc(2)));
    assert_eq!(notified(&outputs), [left(peers[0]), left(peers[1])]);
    assert_eq!(statuses(&outputs), [(peers[2], Status::SUCCESS)]);
    let (_, call) = upcall(&outputs);
    assert!(matches!(call, Upcall::NotifyEvent(event) if event.status == Status::GROUP_LEFT));
    assert_eq!(statuses(&rig.request(peers[2], leave("g"))), [(peers[2], Status::ERR_NOT_FOUND)]);
    // A remote process can report its own leave; others can't.
    for (source, remaining) in [(proc(1), [0, 1, 3].as_slice()), (proc(3), &[0, 1])] {
        let affected = Info::new(key("pmix.evproc"), proc(3));
        let info = vec![affected, Info::new(key("pmix.grp.id"), "g")];
        let (status, range) = (Status::GROUP_LEFT, range::RANGE_SESSION);
        rig.host(HostCall::NotifyEvent(Event { status, source: Some(source), range, info }));
        rig.request(peers[0], fence(&[group("g")], &[]));
        let outputs = rig.request(peers[1], fence(&[group("g")], &[]));
        let remaining: Vec<ProcId> = remaining.iter().map(|&rank| proc(rank)).collect();
        match upcalls(&outputs).as_slice() {
            [(_, Upcall::Fence(fence))] => assert_eq!(fence.procs, remaining),
            [] => assert_eq!((replies(&outputs).len(), remaining), (2, vec![proc(0), proc(1)])),
            other => panic!("{other:?}"),
        }
    }
}

/// Leaders of OpenPMIx releases wait for answers that an ended process never gives.
#[test]
fn the_server_reports_ends_of_leaders_and_of_processes_without_an_answer() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(4, 4);
    listen(&mut rig, &peers, &[Status::PROC_TERMINATED]);
    let invite = |id| event(Status::GROUP_INVITED, Some(id), &[proc(1), proc(2), proc(3)]);
    rig.request(peers[0], invite("g"));
    rig.request(peers[1], event(Status::GROUP_INVITE_DECLINED, None, &[proc(0)]));
    assert_eq!(notified(&rig.lose(peers[1])), [], "it had answered");
    let ended = |peer, rank| (peer, Status::PROC_TERMINATED, Some(proc(rank)));
    assert_eq!(notified(&rig.lose(peers[2])), [ended(peers[0], 2)]);
    let outputs = rig.request(peers[0], invite("h"));
    assert_eq!(notified(&outputs), [ended(peers[0], 1), ended(peers[0], 2)], "they are gone already");
    assert_eq!(notified(&rig.request(peers[0], Request::Finalize)), [ended(peers[3], 0), ended(peers[3], 0)]);
    assert_eq!(notified(&rig.lose(peers[3])), []);
}

/// Found by the simulation (seed 28): a process that accepted after the leader had given up, or had ended, listened too
/// late and waited for ever. Seed 63462805238839: a process accepted after a minute an invitation that its leader had
/// concluded. The leader had ended since, and the server reported that end. The process then volunteered, and was
/// announced as leader to a group that existed. So a latecomer hears of the leader's end only if the leader ended
/// before it concluded.
#[test]
fn a_process_that_accepts_too_late_hears_the_outcome_on_any_node() {
    let mut rig = Rig::new(Capabilities::NOTIFY_EVENT);
    let peers = rig.job(4, 3);
    listen(&mut rig, &peers[1..2], &[Status::PROC_TERMINATED, Status::GROUP_CONSTRUCT_ABORT]);
    let mut invite = event(Status::GROUP_INVITED, Some("g"), &[1, 2, 3].map(proc));
    let Request::Notify(question) = &mut invite else { panic!() };
    question.info.push(flag(crate::proto::GROUP_LEADER_TELLS));
    let accept = || event(Status::GROUP_INVITE_ACCEPTED, Some("g"), &[proc(0)]);
    let many = event(Status::GROUP_INVITE_ACCEPTED, Some("x"), &[0, 0, 0].map(proc));
    assert_eq!(notified(&rig.request(peers[1], many)), [], "an answer for each would be a way to flood others");
    let accept_elsewhere = || {
        let info = vec![Info::new(key("pmix.evrange"), proc(0)), Info::new(key("pmix.grp.id"), "g")];
        let (status, range) = (Status::GROUP_INVITE_ACCEPTED, range::RANGE_CUSTOM);
        HostCall::NotifyEvent(Event { status, source: Some(proc(3)), range, info })
    };
    let goes_up = |outputs: &[Output]| match upcall(outputs).1 {
        Upcall::NotifyEvent(event) => (event.status, event.targets().into_iter().cloned().collect::<Vec<_>>()),
        other => panic!("{other:?}"),
    };
    rig.request(peers[0], invite);
    assert_eq!(notified(&rig.request(peers[1], accept())), [], "it is open");
    rig.request(peers[0], event(Status::GROUP_CONSTRUCT_ABORT, Some("g"), &[2, 3].map(proc)));
    let aborted = (peers[1], Status::GROUP_CONSTRUCT_ABORT, None);
    assert_eq!(notified(&rig.request(peers[1], accept())), std::slice::from_ref(&aborted));
    let outputs = rig.host(accept_elsewhere());
    assert_eq!(goes_up(&outputs), (Status::GROUP_CONSTRUCT_ABORT, vec![proc(3)]));
    assert_eq!(notified(&rig.lose(peers[0])), []);
    assert_eq!(notified(&rig.request(peers[1], accept())), [aborted], "the leader had concluded before it ended");
    assert_eq!(goes_up(&rig.host(accept_elsewhere())), (Status::GROUP_CONSTRUCT_ABORT, vec![proc(3)]));
    // Another leader ends while its invitation is open.
    rig.request(peers[2], event(Status::GROUP_INVITED, Some("h"), &[1, 3].map(proc)));
    let ended = (peers[1], Status::PROC_TERMINATED, Some(proc(2)));
    assert_eq!(notified(&rig.lose(peers[2])), std::slice::from_ref(&ended));
    assert_eq!(notified(&rig.request(peers[1], event(Status::GROUP_INVITE_ACCEPTED, Some("h"), &[proc(2)]))), [ended]);
}

/// Its acceptance crossed the completion without it: too early for the answer to latecomers, too late for the leader.
#[test]
fn only_accepting_processes_that_are_left_out_hear_of_an_abort() {
    let mut rig = Rig::new(Capabilities::NOTIFY_EVENT);
    let peers = rig.job(6, 5);
    let ends = [Status::GROUP_CONSTRUCT_COMPLETE, Status::GROUP_CONSTRUCT_ABORT];
    listen(&mut rig, &peers, &ends);
    let mut invite = event(Status::GROUP_INVITED, Some("g"), &[1, 2, 3, 4, 5].map(proc));
    let Request::Notify(question) = &mut invite else { panic!() };
    question.info.push(flag(crate::proto::GROUP_LEADER_TELLS));
    rig.request(peers[0], invite);
    for (rank, answer) in
        [(1, Status::GROUP_INVITE_ACCEPTED), (2, Status::GROUP_INVITE_ACCEPTED), (3, Status::GROUP_INVITE_DECLINED)]
    {
        rig.request(peers[rank], event(answer, Some("g"), &[proc(0)]));
    }
    let info = vec![Info::new(key("pmix.evrange"), proc(0)), Info::new(key("pmix.grp.id"), "g")];
    let (status, range) = (Status::GROUP_INVITE_ACCEPTED, range::RANGE_CUSTOM);
    rig.host(HostCall::NotifyEvent(Event { status, source: Some(proc(5)), range, info }));
    let outputs = rig.request(peers[0], event(Status::GROUP_CONSTRUCT_COMPLETE, Some("g"), &[0, 1].map(proc)));
    let expected =
        [(peers[1], Status::GROUP_CONSTRUCT_COMPLETE, None), (peers[2], Status::GROUP_CONSTRUCT_ABORT, None)];
    assert_eq!(notified(&outputs), expected);
    let gone_up = |(_, call): &(_, Upcall)| match call {
        Upcall::NotifyEvent(event) if event.status == Status::GROUP_CONSTRUCT_ABORT => {
            Some(event.targets().into_iter().cloned().collect::<Vec<_>>())
        }
        _ => None,
    };
    let gone_up: Vec<_> = upcalls(&outputs).iter().filter_map(gone_up).collect();
    assert_eq!(gone_up, [[2, 5].map(proc)]);
}

/// A process that had accepted got the abort of an existing group, if its leader had informed all processes and not
/// each by name.
#[test]
fn a_process_that_hears_of_or_is_in_the_group_gets_no_abort() {
    let membership = Info::new(key("pmix.grp.mbrs"), procs(&[0, 1, 2, 3].map(proc)));
    for (range, more) in [(range::RANGE_NAMESPACE, None), (range::RANGE_CUSTOM, Some(membership))] {
        let (mut rig, peers) = invited_by_0(&[1, 2, 3]);
        accept(&mut rig, &peers[1..]);
        rig.host(from_3(Status::GROUP_INVITE_ACCEPTED));
        let Request::Notify(mut complete) = event(Status::GROUP_CONSTRUCT_COMPLETE, Some("g"), &[proc(1)]) else {
            panic!()
        };
        complete.range = range;
        complete.info.retain(|info| range == range::RANGE_CUSTOM || info.key.as_str() != "pmix.evrange");
        complete.info.extend(more);
        let outputs = rig.request(peers[0], Request::Notify(complete));
        assert!(aborts(&outputs).is_empty(), "{outputs:?}");
    }
}

/// The event about an ended process went up, or to its next connection.
#[test]
fn an_ended_process_that_had_accepted_gets_no_abort() {
    let forgotten = HostCall::DeregisterNamespace(namespace("other"));
    for (is_other, ends) in [(true, forgotten), (false, from_3(Status::PROC_TERMINATED))] {
        let (mut rig, peers) = invited_by_0(&[1, 2, 3]);
        let accepts = |rig: &mut Rig| match is_other {
            true => drop(rig.host(from(ProcId::new(namespace("other"), 0), Status::GROUP_INVITE_ACCEPTED))),
            false => drop(rig.host(from_3(Status::GROUP_INVITE_ACCEPTED))),
        };
        accepts(&mut rig);
        accept(&mut rig, &peers[1..]);
        rig.host(ends);
        let complete = || event(Status::GROUP_CONSTRUCT_COMPLETE, Some("g"), &[0, 1].map(proc));
        let expected = vec![proc(2)];
        assert_eq!(aborts(&rig.request(peers[0], complete())), [expected]);
    }
}

/// The leader repeated the server's event: in OpenPMIx releases the second one ends a new join of that name. A leader
/// that ended between its two events left the process uninformed. Now the first event holds all names, and the server
/// passes them on.
#[test]
fn a_process_that_accepts_after_declining_hears_once_that_it_is_left_out() {
    for is_heard in [true, false] {
        let (mut rig, peers) = invited_by_0(&[1, 2]);
        let servers = namespace("server");
        let mut invitation = crate::client::Invitation::new(Text::from("g"), proc(0), servers, [0, 1, 2].map(proc));
        for (rank, answer, is_heard) in [
            (1, Status::GROUP_INVITE_ACCEPTED, true),
            (2, Status::GROUP_INVITE_DECLINED, true),
            (2, Status::GROUP_INVITE_ACCEPTED, is_heard),
        ] {
            let request = event(answer, Some("g"), &[proc(0)]);
            let Request::Notify(said) = &request else { panic!() };
            if is_heard {
                invitation.hear(answer, Some(&proc(rank)), &said.info);
            }
            rig.request(peers[rank as usize], request);
        }
        let mut heard = Vec::new();
        for (status, info) in invitation.announcements(&invitation.conclude(true), None, true) {
            let range = range::RANGE_CUSTOM;
            heard.extend(notified(&rig.request(peers[0], Request::Notify(Notify { status, range, info }))));
        }
        heard.extend(notified(&rig.lose(peers[0])));
        let expected =
            [(peers[1], Status::GROUP_CONSTRUCT_COMPLETE, None), (peers[2], Status::GROUP_CONSTRUCT_ABORT, None)];
        assert_eq!(heard, expected, "its leader has heard its second answer: {is_heard}");
    }
}

/// Any process could have others informed about an invitation that they never got, and a list of any length was
/// searched for each.
#[test]
fn only_who_was_asked_can_be_left_out() {
    let complete = || {
        let mut complete = event(Status::GROUP_CONSTRUCT_COMPLETE, Some("g"), &[proc(0)]);
        let Request::Notify(said) = &mut complete else { panic!() };
        said.info.push(Info::new(key(crate::proto::GROUP_LEFT_OUT), procs(&[1, 2].map(proc))));
        complete
    };
    let (mut rig, peers) = invited_by_0(&[2]);
    assert_eq!(aborts(&rig.request(peers[0], complete())), [vec![proc(2)]]);
    assert!(aborts(&rig.request(peers[0], complete())).is_empty(), "it is over");
    assert!(aborts(&rig.request(peers[1], complete())).is_empty(), "it has asked nobody");
}

/// Ranks 0 to 2 are local, 3 and another job's process are not. Rank 0 has invited these and the stranger, and reports
/// the result itself.
fn invited_by_0(ranks: &[u32]) -> (Rig, Vec<PeerId>) {
    let mut rig = Rig::new(Capabilities::NOTIFY_EVENT);
    let peers = rig.job(4, 3);
    rig.register("other", Some(1), Some(0));
    listen(&mut rig, &peers, &[Status::GROUP_CONSTRUCT_COMPLETE, Status::GROUP_CONSTRUCT_ABORT]);
    let invited: Vec<ProcId> =
        ranks.iter().map(|&rank| proc(rank)).chain([ProcId::new(namespace("other"), 0)]).collect();
    let mut invite = event(Status::GROUP_INVITED, Some("g"), &invited);
    let Request::Notify(question) = &mut invite else { panic!() };
    question.info.push(flag(crate::proto::GROUP_LEADER_TELLS));
    rig.request(peers[0], invite);
    (rig, peers)
}

fn accept(rig: &mut Rig, peers: &[PeerId]) {
    for &peer in peers {
        rig.request(peer, event(Status::GROUP_INVITE_ACCEPTED, Some("g"), &[proc(0)]));
    }
}

fn from_3(status: Status) -> HostCall {
    from(proc(3), status)
}

/// An event of a remote process about itself for the leader.
fn from(source: ProcId, status: Status) -> HostCall {
    let about = Info::new(key("pmix.evproc"), source.clone());
    let info = vec![Info::new(key("pmix.evrange"), proc(0)), Info::new(key("pmix.grp.id"), "g"), about];
    HostCall::NotifyEvent(Event { status, source: Some(source), range: range::RANGE_CUSTOM, info })
}

/// Targets of aborts, local and remote.
fn aborts(outputs: &[Output]) -> Vec<Vec<ProcId>> {
    let event = |output: &Output| match output {
        Output::Notify(_, EventDelivery { event, .. }) if event.status == Status::GROUP_CONSTRUCT_ABORT => {
            targets(&event.info)
        }
        Output::Upcall(_, Upcall::NotifyEvent(event)) if event.status == Status::GROUP_CONSTRUCT_ABORT => {
            targets(&event.info)
        }
        _ => None,
    };
    outputs.iter().filter_map(event).collect()
}

fn targets(info: &[Info]) -> Option<Vec<ProcId>> {
    let range = info.iter().find(|info| info.key.as_str() == "pmix.evrange")?;
    let Value::DataArray(array) = &range.value else { return None };
    let target = |value: &Value| if let Value::Proc(proc) = value { Some((**proc).clone()) } else { None };
    array.elements.iter().map(target).collect()
}

/// A job that ended dropped the invitation. A process that accepted then got its end, though leader and others went on.
#[test]
fn a_job_that_ends_does_not_end_the_invitation_for_the_others() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    rig.register("other", Some(1), Some(0));
    listen(&mut rig, &peers[1..], &[Status::GROUP_CONSTRUCT_ABORT]);
    let stranger = ProcId::new(namespace("other"), 0);
    let mut invite = event(Status::GROUP_INVITED, Some("g"), &[proc(0), proc(1), stranger]);
    let Request::Notify(question) = &mut invite else { panic!() };
    question.info.push(flag(crate::proto::GROUP_LEADER_TELLS));
    rig.request(peers[0], invite);
    rig.host(HostCall::DeregisterNamespace(namespace("other")));
    assert_eq!(notified(&rig.request(peers[1], event(Status::GROUP_INVITE_ACCEPTED, Some("g"), &[proc(0)]))), []);
}

/// Found by the simulation (seed 48): a process that went from one group to another of that name got the members of the
/// first.
#[test]
fn a_process_is_told_of_the_group_that_it_is_in_and_not_of_one_that_still_names_it() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(3, 3);
    let (first, second) = ([0, 1].map(proc), [1, 2].map(proc));
    peers[..2].iter().for_each(|&peer| drop(rig.request(peer, join("g", &first))));
    rig.request(peers[1], join("g", &second));
    for (peer, members) in [(peers[0], &first), (peers[1], &second)] {
        let qualifiers = vec![Info::new(key("pmix.grp.id"), "g")];
        let query = crate::types::Query { keys: vec![Text::from("pmix.qry.pgrpmems")], qualifiers };
        let outputs = rig.request(peer, Request::from(QueryInfo::new(vec![query])));
        let expected = Info::new(key("pmix.qry.pgrpmems"), procs(members));
        assert_eq!(replies(&outputs), [(peer, Reply::Infos(vec![expected]))]);
    }
}

#[test]
fn the_server_tells_the_end_for_leaders_that_never_do() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(3, 3);
    let own = rig.join(&proc(0), SEGMENT);
    let ends = [Status::GROUP_CONSTRUCT_COMPLETE, Status::GROUP_CONSTRUCT_ABORT];
    listen(&mut rig, &peers, &ends);
    let invite = |id| event(Status::GROUP_INVITED, Some(id), &[0, 1, 2].map(proc));
    let accept = |id| event(Status::GROUP_INVITE_ACCEPTED, id, &[proc(0)]);
    rig.request(peers[0], invite("g"));
    assert_eq!(notified(&rig.request(peers[1], accept(None))), []);
    let outputs = rig.request(peers[2], accept(None));
    let complete = |peer| (peer, Status::GROUP_CONSTRUCT_COMPLETE, None);
    assert_eq!(notified(&outputs), [complete(peers[0]), complete(peers[1]), complete(peers[2])]);
    rig.request(peers[0], invite("h"));
    rig.request(peers[1], accept(Some("h")));
    let outputs = rig.request(peers[2], event(Status::GROUP_INVITE_DECLINED, Some("h"), &[proc(0)]));
    assert_eq!(notified(&outputs).len(), 3);
    assert!(notified(&outputs).iter().all(|(_, status, _)| *status == Status::GROUP_CONSTRUCT_ABORT));
    // Our own clients report the result themselves, even those that map nothing, and they state it. The server once
    // reported a group without its leader.
    let Request::Notify(mut question) = event(Status::GROUP_INVITED, Some("j"), &[1, 2].map(proc)) else { panic!() };
    question.info.push(flag(crate::proto::GROUP_LEADER_TELLS));
    rig.request(peers[0], Request::Notify(question));
    rig.request(peers[1], accept(Some("j")));
    assert_eq!(notified(&rig.request(peers[2], accept(Some("j")))), []);
    rig.request(own, invite("i"));
    rig.request(peers[1], accept(Some("i")));
    assert_eq!(notified(&rig.request(peers[2], accept(Some("i")))), []);
}

#[test]
fn where_no_host_numbers_groups_the_server_does() {
    let control = |directives: &[Info], targets: &[ProcId]| {
        Request::from(JobControl { targets: targets.to_vec(), directives: directives.to_vec() })
    };
    let wish = [flag("pmix.grp.actxid")];
    let mut rig = Rig::new(Capabilities::empty());
    let peer = rig.job(1, 1)[0];
    for number in 1..3 {
        let outputs = rig.request(peer, control(&wish, &[]));
        let expected = Reply::Infos(vec![Info::new(key("pmix.grp.ctxid"), Value::Size(number))]);
        assert_eq!(replies(&outputs), [(peer, expected)]);
    }
    let outputs = rig.request(peer, control(&wish, &[proc(0)]));
    assert_eq!(statuses(&outputs), [(peer, Status::ERR_NOT_SUPPORTED)]);
    let mut rig = Rig::new(Capabilities::JOB_CONTROL);
    let peer = rig.job(1, 1)[0];
    let outputs = rig.request(peer, control(&wish, &[]));
    let expected = Reply::Infos(vec![Info::new(key("pmix.grp.ctxid"), Value::Size(1))]);
    assert_eq!(replies(&outputs), [(peer, expected)], "a host without groups, such as modex run, numbers none");
    let mut rig = Rig::new(Capabilities::JOB_CONTROL | Capabilities::GROUP);
    let peer = rig.job(1, 1)[0];
    assert_eq!(upcalls(&rig.request(peer, control(&wish, &[]))).len(), 1, "the host numbers groups");
}

/// A process joined a group of a million jobs that nobody knew. Each later join and leave went through all their names.
#[test]
fn a_join_names_few_jobs_and_ties_to_known_ones_alone() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(1, 1);
    let of_jobs = |count: usize| {
        let strangers = (0..count).map(|number| ProcId::new(namespace(&format!("unknown{number}")), 0));
        std::iter::once(proc(0)).chain(strangers).collect::<Vec<_>>()
    };
    let outputs = rig.request(peers[0], join("many", &of_jobs(5000)));
    assert_eq!(statuses(&outputs), [(peers[0], Status::ERR_OUT_OF_RESOURCE)]);
    let outputs = rig.request(peers[0], join("some", &of_jobs(100)));
    assert_eq!(statuses(&outputs), [(peers[0], Status::SUCCESS)]);
    let ties = rig.server.holdings().into_iter().find(|(name, _)| *name == "process with ties");
    assert_eq!(ties, Some(("process with ties", 0)));
}

/// Each end of a process went through all invited names: 20 leaders with a million each made an Init take 20 s.
#[test]
fn open_invitations_name_a_bounded_number_of_processes() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(20, 20);
    listen(&mut rig, &peers, &[Status::GROUP_INVITED]);
    let invited: Vec<ProcId> = (0..10_000).map(|rank| ProcId::new(namespace("elsewhere"), rank)).collect();
    for &peer in &peers {
        let outputs = rig.request(peer, event(Status::GROUP_INVITED, Some("g"), &invited));
        assert_eq!(statuses(&outputs), [(peer, Status::SUCCESS)]);
    }
    let open = rig.server.holdings().into_iter().find(|(name, _)| *name == "invitation");
    assert_eq!(open, Some(("invitation", 3)), "those of a user name half of all");
}
