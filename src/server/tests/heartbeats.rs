//! The server watches for heartbeats itself. Requests went to the host, and the host of OpenPMIx's own tests supports
//! none. The tests failed under our server, and a silent process was never reported.

use super::events::{register, told};
use super::harness::*;
use crate::keys;
use crate::proto::{Monitor, Reply, Request, Service};
use crate::server::{Answer, Capabilities, Input, Output, PeerId, Upcall};
use crate::types::{Info, Key, Status, Value};

const ALERT: Status = Status::MONITOR_HEARTBEAT_ALERT;

fn monitor(key: &'static str, value: Value, directives: Vec<Info>) -> Request {
    Request::from(Monitor { monitor: Info::new(Key::from_static(key), value), error: ALERT, directives })
}

/// A heartbeat every five seconds; `misses_allowed` may be missed.
fn watched(misses_allowed: u32) -> Request {
    let info = |key, value: Value| Info::new(Key::from_static(key), value);
    let directives = vec![
        info(keys::MONITOR_ID.name(), Value::from("mine")),
        info(keys::MONITOR_HEARTBEAT_TIME.name(), Value::Uint32(5)),
        info(keys::MONITOR_HEARTBEAT_DROPS.name(), Value::Uint32(misses_allowed)),
    ];
    monitor(keys::MONITOR_HEARTBEAT.name(), Value::Undefined, directives)
}

fn is_answered(outputs: &[Output], wanted: &Reply) -> bool {
    matches!(outputs, [Output::Answer(_, _, Answer::Reply(reply))] if reply == wanted)
}

fn two() -> (Rig, [PeerId; 2]) {
    let mut rig = Rig::new(Capabilities::MONITOR | Capabilities::NOTIFY_EVENT);
    let peers = rig.job(2, 2);
    rig.request(peers[1], register(&[ALERT]));
    (rig, [peers[0], peers[1]])
}

#[test]
fn one_that_falls_silent_is_reported_once_until_it_is_heard_again() {
    let (mut rig, [silent, other]) = two();
    assert!(is_answered(&rig.request(silent, watched(1)), &Reply::Infos(Vec::new())));
    assert_eq!(rig.input(Input::Heartbeat(silent)), []);
    assert_eq!(rig.wait(5), [], "it was heard");
    assert_eq!(rig.wait(5), [], "one may be missed");
    let outputs = rig.wait(5);
    assert_eq!(told(&outputs), [(Some(other), ALERT)]);
    let is_the_hosts = |output: &Output| match output {
        Output::Upcall(_, Upcall::NotifyEvent(event)) => event.source == Some(proc(0)) && event.status == ALERT,
        _ => false,
    };
    assert!(outputs.iter().any(is_the_hosts), "other nodes' processes hear of it through the host");
    assert_eq!(rig.wait(5), []);
    // Its own request counts like the message.
    let beat = monitor(keys::SEND_HEARTBEAT.name(), Value::Bool(true), Vec::new());
    assert!(is_answered(&rig.request(silent, beat), &Reply::Infos(Vec::new())));
    assert_eq!((rig.wait(5), rig.wait(5)), (Vec::new(), Vec::new()));
    assert_eq!(told(&rig.wait(5)), [(Some(other), ALERT)]);
}

#[test]
fn a_watch_ends_by_its_name_and_with_the_connection() {
    let (mut rig, [first, second]) = two();
    for peer in [first, second] {
        assert!(is_answered(&rig.request(peer, watched(0)), &Reply::Infos(Vec::new())));
    }
    let cancel = |name: &str| monitor(keys::MONITOR_CANCEL.name(), Value::from(name), Vec::new());
    assert!(is_answered(&rig.request(first, cancel("mine")), &Reply::Infos(Vec::new())));
    rig.lose(second);
    assert_eq!(rig.server.poll_timeout(), None);
}

#[test]
fn what_is_no_heartbeat_is_the_hosts() {
    let (mut rig, [peer, _]) = two();
    let host = |outputs: &[Output]| matches!(outputs, [Output::Upcall(_, Upcall::Service(_, Service::Monitor(_)))]);
    let cancel = monitor(keys::MONITOR_CANCEL.name(), Value::from("unknown"), Vec::new());
    assert!(host(&rig.request(peer, cancel)));
    assert!(host(&rig.request(peer, monitor("pmix.monitor.fmon", Value::from("/file"), Vec::new()))));
    let without_time = monitor(keys::MONITOR_HEARTBEAT.name(), Value::Undefined, Vec::new());
    assert!(is_answered(&rig.request(peer, without_time), &Reply::Status(Status::ERR_BAD_PARAM)));
    for _ in 0..16 {
        rig.request(peer, watched(0));
    }
    assert!(is_answered(&rig.request(peer, watched(0)), &Reply::Status(Status::ERR_OUT_OF_RESOURCE)));
}
