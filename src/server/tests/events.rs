use super::harness::*;
use crate::events::{DEFAULT_HANDLER, Event};
use crate::proto::{Notify, RegisterEvents, Reply, Request};
use crate::server::{
    Answer, Capabilities, HostCall, HostCallId, HostReply, HostResult, Input, Limits, Output, PeerId,
    RegisterEvents as Wish, ServerConfig, Upcall, UpcallId,
};
use crate::types::codes::range;
use crate::types::{DataArray, DataType, Info, InfoFlags, ProcId, Scope, Status, Value};

const CODE: Status = Status::from_raw(-1001);
const OTHER: Status = Status::from_raw(-1002);
const SYSTEM: Status = Status::EVENT_NODE_DOWN;
const ALL: Capabilities =
    Capabilities::REGISTER_EVENTS.union(Capabilities::DEREGISTER_EVENTS).union(Capabilities::NOTIFY_EVENT);

pub(super) fn register(codes: &[Status]) -> Request {
    Request::RegisterEvents(RegisterEvents { codes: codes.to_vec(), directives: Vec::new() })
}

fn notify(status: Status, range: u8, info: &[Info]) -> Request {
    Request::Notify(Notify { status, range, info: info.to_vec() })
}

fn of_host(status: Status, range: u8, info: &[Info]) -> HostCall {
    HostCall::NotifyEvent(Event { status, source: None, range, info: info.to_vec() })
}

fn targets(procs: &[ProcId]) -> Info {
    let elements = procs.iter().cloned().map(Value::from).collect();
    Info::new(key("pmix.evrange"), Value::DataArray(Box::new(DataArray { element_type: DataType::Proc, elements })))
}

/// Receivers and events, in order; the server's own process is `None`.
pub(super) fn notified(outputs: &[Output]) -> Vec<(Option<PeerId>, Status)> {
    let notified = |output: &Output| match output {
        Output::Notify(peer, delivery) => Some((Some(*peer), delivery.event.status)),
        Output::Raise(event) => Some((None, event.status)),
        _ => None,
    };
    outputs.iter().filter_map(notified).collect()
}

/// Three processes of "job" and one of "other"; all want `CODE`.
fn listening() -> (Rig, Vec<PeerId>) {
    let mut rig = Rig::new(Capabilities::NOTIFY_EVENT);
    let mut peers = rig.job(4, 3);
    rig.register("other", Some(1), Some(1));
    let other = ProcId::new(namespace("other"), 0);
    rig.register_client(&other);
    peers.push(rig.join(&other, SOCKET));
    for &peer in &peers {
        assert_eq!(statuses(&rig.request(peer, register(&[CODE]))), [(peer, Status::SUCCESS)]);
    }
    (rig, peers)
}

#[test]
fn an_event_goes_to_those_in_range_but_not_back() {
    let (mut rig, peers) = listening();
    let other = ProcId::new(namespace("other"), 0);
    let cases: [(u8, Vec<Info>, &[usize], bool); 7] = [
        (range::RANGE_UNDEF, vec![], &[1, 2, 3], true),
        (range::RANGE_RM, vec![], &[], true),
        (range::RANGE_LOCAL, vec![], &[1, 2, 3], false),
        (range::RANGE_NAMESPACE, vec![], &[1, 2], true),
        (range::RANGE_GLOBAL, vec![], &[1, 2, 3], true),
        (range::RANGE_CUSTOM, vec![targets(&[proc(2), proc(0), other])], &[2, 3], true),
        (range::RANGE_PROC_LOCAL, vec![], &[], false),
    ];
    for (range, info, hearers, goes_up) in cases {
        let outputs = rig.request(peers[0], notify(CODE, range, &info));
        let expected: Vec<_> = hearers.iter().map(|&index| (Some(peers[index]), CODE)).collect();
        assert_eq!(notified(&outputs), expected, "range {range}");
        assert_eq!(upcalls(&outputs).len(), usize::from(goes_up), "range {range}");
        if goes_up {
            let (id, upcall) = upcall(&outputs);
            assert_eq!(upcall, Upcall::NotifyEvent(Event { status: CODE, source: Some(proc(0)), range, info }));
            let outputs = rig.complete(id, HostReply::Status(Status::SUCCESS));
            assert_eq!(statuses(&outputs), [(peers[0], Status::SUCCESS)]);
        }
    }
    for (range, info) in [(range::RANGE_INVALID, vec![]), (8, vec![]), (range::RANGE_CUSTOM, vec![])] {
        let outputs = rig.request(peers[0], notify(CODE, range, &info));
        assert_eq!(statuses(&outputs), [(peers[0], Status::ERR_BAD_PARAM)]);
        assert_eq!(notified(&outputs), []);
    }
}

/// Our server marked each event that it passed on, as other servers do, and handlers of OpenPMIx clients got the mark
/// as one more info. Handlers and hosts get exactly the raiser's infos.
#[test]
fn the_mark_of_a_relayed_event_reaches_neither_clients_nor_the_host() {
    let (mut rig, peers) = listening();
    let relayed = Info::new(key("pmix.srvr.internal.notify"), true);
    let detail = Info::new(key("detail"), 1u32);
    let outputs = rig.request(peers[0], notify(CODE, range::RANGE_GLOBAL, &[relayed, detail.clone()]));
    let Output::Notify(_, delivery) = &outputs[0] else { panic!("{outputs:?}") };
    let event = delivery.notice();
    assert_eq!((&event.source, event.range), (&Some(proc(0)), Some(range::RANGE_GLOBAL)));
    assert_eq!(event.info, std::slice::from_ref(&detail));
    let (_, Upcall::NotifyEvent(event)) = upcall(&outputs) else { panic!("{outputs:?}") };
    assert_eq!(event.info, [detail]);
}

/// No library sends this, but a client may.
#[test]
fn an_event_that_is_for_its_process_alone_reaches_not_even_the_servers() {
    let (mut rig, peers) = listening();
    rig.host(HostCall::RegisterEvents(Wish { codes: vec![CODE], directives: Vec::new() }));
    assert_eq!(notified(&rig.request(peers[0], notify(CODE, range::RANGE_PROC_LOCAL, &[]))), []);
    assert_eq!(notified(&rig.request(peers[0], notify(CODE, range::RANGE_RM, &[]))), [(None, CODE)]);
}

#[test]
fn an_event_of_the_host_goes_down_and_never_up() {
    let (mut rig, peers) = listening();
    let outputs = rig.host(of_host(CODE, range::RANGE_GLOBAL, &[]));
    assert_eq!(notified(&outputs).len(), peers.len());
    assert!(upcalls(&outputs).is_empty());
    let outputs = rig.host(of_host(CODE, range::RANGE_NAMESPACE, &[Info::new(key("pmix.nspace"), "other")]));
    assert_eq!(notified(&outputs), [(Some(peers[3]), CODE)]);
    let outputs = rig.host(of_host(CODE, range::RANGE_RM, &[]));
    assert_eq!(notified(&outputs), []);
    let outputs = rig.host(of_host(CODE, range::RANGE_INVALID, &[]));
    assert!(outputs.iter().any(|o| matches!(o, Output::Complete(_, HostResult::Status(Status::ERR_BAD_PARAM)))));
}

#[test]
fn default_interest_takes_everything_that_is_not_kept_from_it() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    rig.request(peers[1], register(&[]));
    assert_eq!(notified(&rig.request(peers[0], notify(OTHER, range::RANGE_LOCAL, &[]))), [(Some(peers[1]), OTHER)]);
    let hidden = [flag("pmix.evnondef")];
    assert_eq!(notified(&rig.request(peers[0], notify(OTHER, range::RANGE_LOCAL, &hidden))), []);
    // The event kept from default handlers is still there for a registration of its code.
    let outputs = rig.request(peers[1], register(&[OTHER]));
    assert_eq!(notified(&outputs), [(Some(peers[1]), OTHER)]);
    let outputs = rig.request(peers[1], Request::DeregisterEvents(vec![DEFAULT_HANDLER]));
    assert_eq!(outputs, [], "there is no answer");
    assert_eq!(notified(&rig.request(peers[0], notify(CODE, range::RANGE_LOCAL, &[]))), []);
    assert_eq!(notified(&rig.request(peers[0], notify(OTHER, range::RANGE_LOCAL, &[]))), [(Some(peers[1]), OTHER)]);
}

#[test]
fn late_registrants_get_what_they_missed_in_order_after_the_answer_and_once() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(3, 3);
    for (code, info) in [(CODE, vec![]), (OTHER, vec![]), (CODE, vec![]), (CODE, vec![flag("pmix.evnocache")])] {
        rig.request(peers[0], notify(code, range::RANGE_NAMESPACE, &info));
    }
    rig.host(of_host(CODE, range::RANGE_CUSTOM, &[targets(&[proc(2)])]));
    let outputs = rig.request(peers[1], register(&[CODE, OTHER]));
    assert!(matches!(outputs[0], Output::Answer(_, _, Answer::Reply(Reply::Status(Status::SUCCESS)))));
    let to = |peer: usize, codes: &[Status]| codes.iter().map(|code| (Some(peers[peer]), *code)).collect::<Vec<_>>();
    assert_eq!(notified(&outputs), to(1, &[CODE, OTHER, CODE]));
    let Output::Notify(_, delivery) = &outputs[1] else { panic!("{outputs:?}") };
    assert_eq!(delivery.notice().range, None, "what comes out of the cache has no range");
    for request in [register(&[CODE]), register(&[])] {
        assert_eq!(notified(&rig.request(peers[1], request)), []);
    }
    // Events during a deregistration are delivered at the next registration.
    rig.request(peers[1], Request::DeregisterEvents(vec![CODE, DEFAULT_HANDLER]));
    rig.request(peers[0], notify(CODE, range::RANGE_NAMESPACE, &[]));
    assert_eq!(notified(&rig.request(peers[1], register(&[CODE]))), to(1, &[CODE]));
    assert_eq!(notified(&rig.request(peers[1], register(&[]))), []);
    // The raiser gets only the host's events.
    assert_eq!(notified(&rig.request(peers[0], register(&[]))), []);
    assert_eq!(notified(&rig.request(peers[2], register(&[CODE]))), to(2, &[CODE, CODE, CODE, CODE]));
    rig.wait(120);
    let again = rig.join(&proc(1), SOCKET);
    assert_eq!(notified(&rig.request(again, register(&[]))), [], "two minutes and no longer");
}

/// A registration got all kept events in one step. 60 events of 1 MiB held the server up for 50 ms.
#[test]
fn missed_events_are_delivered_in_steps_and_in_order() {
    let large = Info::new(key("payload"), Value::ByteObject(vec![7; 300_000]));
    for (events, info, steps) in [(300, vec![], 5), (3, vec![large], 3)] {
        let mut rig = Rig::new(Capabilities::empty());
        let peers = rig.job(2, 2);
        let codes: Vec<Status> = (0..events).map(|number| Status::from_raw(-2000 - number)).collect();
        for code in &codes {
            rig.request(peers[0], notify(*code, range::RANGE_LOCAL, &info));
        }
        let mut outputs = rig.begin(peers[1], register(&codes));
        assert_eq!(statuses(&outputs), [(peers[1], Status::SUCCESS)]);
        let mut got = notified(&outputs);
        let mut count = 1;
        while outputs.contains(&Output::Unfinished(peers[1])) {
            // Other processes are served in between.
            assert_eq!(statuses(&rig.put(peers[0], Scope::Local, "between", count)), [(peers[0], Status::SUCCESS)]);
            outputs = rig.input(Input::Proceed(peers[1]));
            got.extend(notified(&outputs));
            count += 1;
        }
        assert_eq!(count, steps);
        assert_eq!(got, codes.iter().map(|code| (Some(peers[1]), *code)).collect::<Vec<_>>());
    }
}

/// The rest of a registration ends with its connection.
#[test]
fn a_connection_that_ends_gets_no_more_missed_events() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    for _ in 0..300 {
        rig.request(peers[0], notify(CODE, range::RANGE_LOCAL, &[]));
    }
    assert!(rig.begin(peers[1], register(&[CODE])).contains(&Output::Unfinished(peers[1])));
    assert_eq!(notified(&rig.lose(peers[1])), []);
    assert_eq!(rig.input(Input::Proceed(peers[1])), []);
}

#[test]
fn one_that_comes_again_is_a_new_registrant() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    rig.request(peers[1], register(&[CODE]));
    rig.request(peers[0], notify(CODE, range::RANGE_LOCAL, &[]));
    rig.request(peers[1], Request::Finalize);
    assert_eq!(notified(&rig.request(peers[0], notify(CODE, range::RANGE_LOCAL, &[]))), [], "it has finalized");
    let again = rig.join(&proc(1), SOCKET);
    assert_eq!(notified(&rig.request(again, register(&[CODE]))), [(Some(again), CODE), (Some(again), CODE)]);
}

#[test]
fn the_host_is_asked_once_for_each_code_of_the_environment_and_told_when_the_last_wish_is_gone() {
    let mut rig = Rig::new(ALL);
    let peers = rig.job(2, 2);
    let outputs = rig.request(peers[0], register(&[SYSTEM, CODE]));
    let (id, asked) = upcall(&outputs);
    assert_eq!(asked, Upcall::RegisterEvents(Wish { codes: vec![SYSTEM], directives: Vec::new() }));
    // A second registration waits for the same answer.
    assert_eq!(rig.request(peers[1], register(&[SYSTEM])), []);
    let outputs = rig.complete(id, HostReply::Status(Status::OPERATION_SUCCEEDED));
    assert_eq!(statuses(&outputs), [(peers[0], Status::SUCCESS), (peers[1], Status::SUCCESS)]);
    assert!(upcalls(&rig.host(HostCall::RegisterEvents(Wish { codes: vec![SYSTEM], directives: vec![] }))).is_empty());
    assert_eq!(notified(&rig.host(of_host(SYSTEM, range::RANGE_GLOBAL, &[]))).len(), 3);
    assert_eq!(rig.request(peers[0], Request::DeregisterEvents(vec![SYSTEM])), []);
    assert_eq!(upcalls(&rig.lose(peers[1])), []);
    let outputs = rig.host(HostCall::DeregisterEvents(vec![SYSTEM]));
    assert_eq!(upcall(&outputs).1, Upcall::DeregisterEvents(vec![SYSTEM]));
    assert_eq!(rig.server.upcall_count(), 0, "nobody waits for the answer");
}

#[test]
fn a_wish_that_the_host_refuses_is_none() {
    let mut rig = Rig::new(ALL);
    let peers = rig.job(2, 2);
    let (id, _) = upcall(&rig.request(peers[0], register(&[SYSTEM, CODE])));
    let outputs = rig.complete(id, HostReply::Status(Status::ERR_NO_PERMISSIONS));
    assert_eq!(statuses(&outputs), [(peers[0], Status::ERR_NO_PERMISSIONS)]);
    assert_eq!(notified(&rig.host(of_host(CODE, range::RANGE_GLOBAL, &[]))), []);
    assert_eq!(upcalls(&rig.request(peers[0], register(&[SYSTEM]))).len(), 1, "it is asked again");
}

#[test]
fn a_wish_whose_owner_has_gone_is_taken_back_once_it_is_granted() {
    let mut rig = Rig::new(ALL);
    let peers = rig.job(2, 2);
    let (id, _) = upcall(&rig.request(peers[0], register(&[SYSTEM])));
    assert!(upcalls(&rig.lose(peers[0])).is_empty());
    assert_eq!(rig.server.open_request_count(), 0);
    let outputs = rig.complete(id, HostReply::Status(Status::SUCCESS));
    assert_eq!(upcall(&outputs).1, Upcall::DeregisterEvents(vec![SYSTEM]));
    // The same if the registration is withdrawn in the meantime.
    let (id, _) = upcall(&rig.request(peers[1], register(&[SYSTEM])));
    rig.request(peers[1], Request::DeregisterEvents(vec![SYSTEM]));
    let outputs = rig.complete(id, HostReply::Status(Status::SUCCESS));
    assert_eq!(statuses(&outputs), [(peers[1], Status::SUCCESS)]);
    assert_eq!(upcall(&outputs).1, Upcall::DeregisterEvents(vec![SYSTEM]));
}

/// A deregistration, even of nothing, compared all codes with all listeners, and all others waited for that. Now only
/// the given codes are checked, and the codes of a registration whose owner has gone.
#[test]
fn codes_of_a_withdrawn_registration_alone_are_deregistered_at_the_host() {
    let other = Status::from_raw(SYSTEM.to_raw() - 1);
    let mut rig = Rig::new(ALL);
    let peers = rig.job(2, 2);
    let (id, _) = upcall(&rig.request(peers[0], register(&[SYSTEM])));
    rig.complete(id, HostReply::Status(Status::SUCCESS));
    let (id, asked) = upcall(&rig.request(peers[1], register(&[SYSTEM, other])));
    assert_eq!(asked, Upcall::RegisterEvents(Wish { codes: vec![other], directives: Vec::new() }));
    assert_eq!(
        upcalls(&rig.request(peers[0], Request::DeregisterEvents(vec![SYSTEM, CODE]))),
        [],
        "the other waits for it"
    );
    assert_eq!(upcall(&rig.lose(peers[1])).1, Upcall::DeregisterEvents(vec![SYSTEM]));
    let outputs = rig.complete(id, HostReply::Status(Status::SUCCESS));
    assert_eq!(upcall(&outputs).1, Upcall::DeregisterEvents(vec![other]));
}

#[test]
fn without_a_host_for_them_events_stay_here_and_the_systems_are_not_promised() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    let status = |outputs: Vec<Output>| statuses(&outputs)[0].1;
    assert_eq!(status(rig.request(peers[0], register(&[SYSTEM]))), Status::ERR_NOT_SUPPORTED);
    assert_eq!(status(rig.request(peers[0], register(&[Status::from_raw(7)]))), Status::SUCCESS);
    assert_eq!(status(rig.request(peers[0], notify(CODE, range::RANGE_GLOBAL, &[]))), Status::SUCCESS);
    assert_eq!(status(rig.request(peers[0], notify(CODE, range::RANGE_RM, &[]))), Status::ERR_NOT_SUPPORTED);
}

#[test]
fn the_servers_own_process_listens_too_and_hears_of_lost_clients() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    rig.request(peers[0], notify(CODE, range::RANGE_LOCAL, &[]));
    let wish = HostCall::RegisterEvents(Wish { codes: vec![CODE, Status::ERR_LOST_CONNECTION], directives: vec![] });
    let outputs = rig.host(wish);
    assert!(matches!(outputs[0], Output::Complete(HostCallId(_), HostResult::Status(Status::SUCCESS))));
    assert_eq!(notified(&outputs), [(None, CODE)]);
    assert_eq!(notified(&rig.host(of_host(CODE, range::RANGE_LOCAL, &[]))), [(None, CODE)]);
    let outputs = rig.lose(peers[1]);
    let Some(Output::Raise(event)) = outputs.iter().find(|o| matches!(o, Output::Raise(_))) else {
        panic!("{outputs:?}")
    };
    assert_eq!((event.status, &event.source), (Status::ERR_LOST_CONNECTION, &Some(proc(1))));
    rig.request(peers[0], Request::Finalize);
    assert_eq!(notified(&rig.lose(peers[0])), [], "that one left in order");
}

#[test]
fn lost_clients_of_a_window_give_the_server_one_event() {
    let loss_window = std::time::Duration::from_secs(1);
    let capabilities = Capabilities::NOTIFY_EVENT;
    let config = ServerConfig { capabilities, loss_window, ..ServerConfig::default() };
    let mut rig = Rig::with(config, crate::gds::model::MapStore::new());
    let peers = rig.job(3, 3);
    rig.host(HostCall::RegisterEvents(Wish { codes: vec![Status::ERR_LOST_CONNECTION], directives: vec![] }));
    assert_eq!(notified(&rig.lose(peers[2])), []);
    assert_eq!(notified(&rig.lose(peers[0])), []);
    let outputs = rig.wait(1);
    let [Output::Raise(event)] = &outputs[..] else { panic!("{outputs:?}") };
    assert_eq!((event.status, &event.source), (Status::ERR_LOST_CONNECTION, &Some(proc(2))));
    assert_eq!(event.affected(), [&proc(2), &proc(0)]);
    assert_eq!(notified(&rig.wait(1)), []);
    // The server ends within the window.
    assert_eq!(notified(&rig.lose(peers[1])), []);
    assert_eq!(notified(&rig.input(Input::Closing)), [(None, Status::ERR_LOST_CONNECTION)]);
    assert_eq!(rig.server.poll_timeout(), None);
}

#[test]
fn wishes_are_bounded() {
    let limits = Limits { event_codes_max: 2, ..Limits::default() };
    let store = crate::gds::model::MapStore::new();
    let mut rig = Rig::with(ServerConfig { limits, ..ServerConfig::default() }, store);
    let peers = rig.job(1, 1);
    let code = |number: i32| Status::from_raw(-1000 - number);
    let status = |outputs: Vec<Output>| statuses(&outputs)[0].1;
    assert_eq!(status(rig.request(peers[0], register(&[code(1), code(2)]))), Status::SUCCESS);
    assert_eq!(status(rig.request(peers[0], register(&[code(3)]))), Status::ERR_OUT_OF_RESOURCE);
    rig.request(peers[0], Request::DeregisterEvents(vec![code(1)]));
    assert_eq!(status(rig.request(peers[0], register(&[code(3)]))), Status::SUCCESS);
}

#[test]
fn a_pending_wish_ends_with_the_host_in_time() {
    let config = ServerConfig {
        capabilities: ALL,
        host_timeout: Some(std::time::Duration::from_secs(5)),
        ..ServerConfig::default()
    };
    let mut rig = Rig::with(config, crate::gds::model::MapStore::new());
    let peers = rig.job(1, 1);
    rig.request(peers[0], register(&[SYSTEM]));
    assert_eq!(statuses(&rig.wait(5)), [(peers[0], Status::ERR_TIMEOUT)]);
    rig.request(peers[0], notify(CODE, range::RANGE_GLOBAL, &[]));
    assert_eq!(statuses(&rig.wait(5)), [(peers[0], Status::ERR_TIMEOUT)]);
    let _ = rig.input(Input::Timeout);
}

/// An event with a required info that the host alone may know. Returns its raiser, and the host's upcall.
fn event_for_the_host() -> (Rig, PeerId, UpcallId) {
    let required = Info { flags: InfoFlags::REQUIRED.bits(), ..flag("unknown") };
    let mut rig = Rig::new(ALL);
    let peers = rig.job(2, 2);
    rig.request(peers[1], register(&[]));
    let outputs = rig.request(peers[0], notify(CODE, range::RANGE_GLOBAL, &[required]));
    assert_eq!(notified(&outputs), []);
    let (id, _) = upcall(&outputs);
    (rig, peers[0], id)
}

/// Regression: processes of the node heard of an event that the host then refused.
#[test]
fn an_event_with_a_required_info_for_the_host_waits_for_its_answer() {
    for (answer, heard) in [(Status::ERR_NOT_SUPPORTED, 0), (Status::SUCCESS, 1)] {
        let (mut rig, raiser, id) = event_for_the_host();
        let outputs = rig.complete(id, HostReply::Status(answer));
        assert_eq!((notified(&outputs).len(), statuses(&outputs)), (heard, vec![(raiser, answer)]));
    }
}

/// Regression: nobody got such an event if its raiser ended before the host's answer.
#[test]
fn an_event_outlives_its_raiser_while_the_host_thinks() {
    for (answer, heard) in [(Status::ERR_NOT_SUPPORTED, 0), (Status::SUCCESS, 1)] {
        let (mut rig, raiser, id) = event_for_the_host();
        rig.lose(raiser);
        let outputs = rig.complete(id, HostReply::Status(answer));
        assert_eq!((notified(&outputs).len(), statuses(&outputs)), (heard, vec![]));
    }
}

/// Regression: a required directive that the host alone may know succeeded at a host without a function for it, and for
/// codes that the host had granted before.
#[test]
fn a_required_directive_that_reaches_no_host_is_refused() {
    let required = |name: &'static str| Info { flags: InfoFlags::REQUIRED.bits(), ..flag(name) };
    let request = |code, info| Request::RegisterEvents(RegisterEvents { codes: vec![code], directives: vec![info] });
    let user_code = Status::from_raw(-3005);
    let mut rig = Rig::new(Capabilities::NOTIFY_EVENT);
    let peer = rig.job(1, 1)[0];
    let refused = [(peer, Status::ERR_NOT_SUPPORTED)];
    assert_eq!(statuses(&rig.request(peer, request(user_code, required("unknown")))), refused);
    assert_eq!(statuses(&rig.request(peer, request(user_code, flag("unknown")))), [(peer, Status::SUCCESS)]);
    assert_eq!(statuses(&rig.request(peer, request(user_code, required("pmix.evone")))), [(peer, Status::SUCCESS)]);

    let mut asked = Rig::new(ALL);
    let peer = asked.job(1, 1)[0];
    let (id, _) = upcall(&asked.request(peer, request(SYSTEM, required("unknown"))));
    asked.complete(id, HostReply::Status(Status::SUCCESS));
    assert_eq!(
        statuses(&asked.request(peer, request(SYSTEM, required("unknown")))),
        [(peer, Status::ERR_NOT_SUPPORTED)]
    );
}
