//! The server watches for heartbeats itself. Requests went to the host, and the host of OpenPMIx's own tests supports
//! none. The tests failed under our server, and a silent process was never reported.

use super::events::{notified, register};
use super::harness::*;
use crate::gds::model::MapStore;
use crate::keys;
use crate::proto::{Monitor, Reply, Request, Service};
use crate::server::{
    Answer, Capabilities, FileLook, FileState, Input, Output, PeerId, ServerConfig, ToolPolicy, Upcall,
};
use crate::types::{Info, InfoFlags, Key, Status, Value};

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
    assert_eq!(notified(&outputs), [(Some(other), ALERT)]);
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
    assert_eq!(notified(&rig.wait(5)), [(Some(other), ALERT)]);
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
fn a_cancellation_of_the_wrong_type_ends_no_watch() {
    let (mut rig, [peer, _]) = two();
    assert!(is_answered(&rig.request(peer, watched(0)), &Reply::Infos(Vec::new())));
    let wrong = monitor(keys::MONITOR_CANCEL.name(), Value::Uint32(7), Vec::new());
    assert!(is_answered(&rig.request(peer, wrong), &Reply::Status(Status::ERR_BAD_PARAM)));
    assert!(rig.server.poll_timeout().is_some());
}

/// A service of the server's own has no requests if the host has the same service, so nobody else is asked.
#[test]
fn the_hosts_monitoring_replaces_the_servers_own() {
    let (capabilities, own_services) = (Capabilities::MONITOR, Capabilities::MONITOR);
    let config = ServerConfig { capabilities, own_services, ..ServerConfig::default() };
    let mut rig = Rig::with(config, MapStore::new());
    let peer = rig.job(1, 1)[0];
    assert!(is_answered(&rig.request(peer, watched(0)), &Reply::Infos(Vec::new())));
    let cancel = monitor(keys::MONITOR_CANCEL.name(), Value::from("mine"), Vec::new());
    assert!(is_answered(&rig.request(peer, cancel), &Reply::Infos(Vec::new())));
}

#[test]
fn monitors_other_than_heartbeats_go_to_the_host() {
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

const FILE_ALERT: Status = Status::MONITOR_FILE_ALERT;

fn file_rig() -> (Rig, [PeerId; 2]) {
    file_rig_of(OWNER.uid)
}

/// The server's user, and two clients of `OWNER`.
fn file_rig_of(own_uid: u32) -> (Rig, [PeerId; 2]) {
    let tools = ToolPolicy { own_uid, ..ToolPolicy::default() };
    let config = ServerConfig { watches_files: true, tools, ..ServerConfig::default() };
    let mut rig = Rig::with(config, MapStore::new());
    let peers = rig.job(2, 2);
    rig.request(peers[1], register(&[FILE_ALERT]));
    (rig, [peers[0], peers[1]])
}

/// A file that must change every five seconds, as these keys say.
fn file(path: &str, changes: &[&'static str]) -> Monitor {
    let info = |key, value: Value| Info::new(Key::from_static(key), value);
    let mut directives = vec![
        info(keys::MONITOR_ID.name(), Value::from("file")),
        info(keys::MONITOR_FILE_CHECK_TIME.name(), Value::Uint32(5)),
        info(keys::MONITOR_FILE_DROPS.name(), Value::Uint32(1)),
    ];
    directives.extend(changes.iter().map(|key| info(key, Value::Bool(true))));
    let monitor = info(keys::MONITOR_FILE.name(), Value::from(path));
    Monitor { monitor, error: Status::SUCCESS, directives }
}

/// The look among the outputs of an interval.
fn look(outputs: &[Output]) -> FileLook {
    let looks = outputs.iter().filter_map(|output| match output {
        Output::LookAtFile(look, path) => {
            assert_eq!(path.as_bytes(), b"/file");
            Some(*look)
        }
        _ => None,
    });
    let [look] = looks.collect::<Vec<_>>()[..] else { panic!("{outputs:?}") };
    look
}

fn state(size_bytes: u64, time: i64) -> Option<FileState> {
    Some(FileState { size_bytes, accessed: (time, 0), modified: (time, 0) })
}

#[test]
fn a_file_that_stops_growing_is_reported_once_until_it_grows_again() {
    let (mut rig, [watcher, other]) = file_rig();
    let outputs = rig.request(watcher, Request::from(file("/file", &[keys::MONITOR_FILE_SIZE.name()])));
    assert!(matches!(outputs[0], Output::LookAtFile(..)) && is_answered(&outputs[1..], &Reply::Infos(Vec::new())));
    let first = look(&outputs);
    assert_eq!(rig.input(Input::FileSeen(first, state(7, 1))), [], "nothing to compare with");
    // Each size after an interval, and whether it is reported. A newer time is no growth.
    for (size, is_reported) in [(8, false), (8, false), (7, true), (7, false), (9, false), (9, false), (9, true)] {
        let id = look(&rig.wait(5));
        let outputs = rig.input(Input::FileSeen(id, state(size, i64::try_from(size).unwrap() + 100)));
        let expected = if is_reported { vec![(Some(other), FILE_ALERT)] } else { Vec::new() };
        assert_eq!(notified(&outputs), expected, "{size}");
    }
    let cancel = monitor(keys::MONITOR_CANCEL.name(), Value::from("file"), Vec::new());
    assert!(is_answered(&rig.request(watcher, cancel), &Reply::Infos(Vec::new())));
    assert_eq!((rig.input(Input::FileSeen(first, None)), rig.server.poll_timeout()), (Vec::new(), None));
}

#[test]
fn a_file_that_is_gone_or_can_not_be_looked_at_gives_no_sign() {
    let (mut rig, [watcher, other]) = file_rig();
    let both = [keys::MONITOR_FILE_ACCESS.name(), keys::MONITOR_FILE_MODIFY.name()];
    let id = look(&rig.request(watcher, Request::from(file("/file", &both))));
    let _ = rig.input(Input::FileSeen(id, None));
    let id = look(&rig.wait(5));
    assert_eq!(rig.input(Input::FileSeen(id, state(1, 1))), [], "it has come");
    let id = look(&rig.wait(5));
    assert_eq!(notified(&rig.input(Input::FileSeen(id, None))), []);
    let id = look(&rig.wait(5));
    assert_eq!(notified(&rig.wait(5)), [(Some(other), FILE_ALERT)], "the file system does not answer");
    let _ = rig.input(Input::FileSeen(id, state(1, 2)));
    rig.lose(watcher);
    assert_eq!(rig.server.poll_timeout(), None);
}

#[test]
fn a_watch_of_a_file_must_make_sense() {
    let (mut rig, [watcher, _]) = file_rig();
    let grows = [keys::MONITOR_FILE_SIZE.name()];
    let without_time = Monitor { directives: file("/file", &grows).directives.split_off(3), ..file("/file", &[]) };
    for request in
        [file("file", &grows), file("/file", &[]), without_time, file(&format!("/{}", "a".repeat(4096)), &grows)]
    {
        assert!(is_answered(&rig.request(watcher, Request::from(request)), &Reply::Status(Status::ERR_BAD_PARAM)));
    }
    let mut requires = file("/file", &grows);
    requires.directives.push(Info { flags: InfoFlags::REQUIRED.bits(), ..flag("own.key") });
    let refused = Reply::Status(Status::ERR_NOT_SUPPORTED);
    assert!(is_answered(&rig.request(watcher, Request::from(requires)), &refused));
    let (mut rig, [foreign, _]) = file_rig_of(0);
    let request = Request::from(file("/file", &grows));
    assert!(is_answered(&rig.request(foreign, request), &Reply::Status(Status::ERR_NO_PERMISSIONS)));
    // Without the setting files are the host's.
    let mut rig = Rig::new(Capabilities::empty());
    let peer = rig.job(1, 1)[0];
    assert!(is_answered(&rig.request(peer, Request::from(file("/file", &grows))), &refused));
}

/// A process asked for watches and cancelled them in a loop, and the looks filled the memory.
#[test]
fn looks_without_an_answer_are_bounded_also_if_their_watches_have_gone() {
    let (mut rig, [watcher, other]) = file_rig();
    let watched = || Request::from(file("/file", &[keys::MONITOR_FILE_SIZE.name()]));
    let cancel = || monitor(keys::MONITOR_CANCEL.name(), Value::from("file"), Vec::new());
    let first = look(&rig.request(watcher, watched()));
    let _ = rig.request(watcher, cancel());
    for _ in 1..16 {
        look(&rig.request(watcher, watched()));
        let _ = rig.request(watcher, cancel());
    }
    let refused = Reply::Status(Status::ERR_OUT_OF_RESOURCE);
    assert!(is_answered(&rig.request(watcher, watched()), &refused));
    look(&rig.request(other, watched()));
    let _ = rig.input(Input::FileSeen(first, None));
    look(&rig.request(watcher, watched()));
}

/// A file system that hung made alarms for the files of others.
#[test]
fn a_look_that_waits_for_another_is_no_miss() {
    let (mut rig, [watcher, other]) = file_rig();
    let watched = || Request::from(file("/file", &[keys::MONITOR_FILE_SIZE.name()]));
    let hung = look(&rig.request(other, watched()));
    let _ = rig.request(other, monitor(keys::MONITOR_CANCEL.name(), Value::from("file"), Vec::new()));
    let healthy = look(&rig.request(watcher, watched()));
    for _ in 0..5 {
        assert_eq!(notified(&rig.wait(5)), []);
    }
    let _ = rig.input(Input::FileSeen(hung, None));
    assert_eq!(rig.input(Input::FileSeen(healthy, state(1, 1))), []);
    look(&rig.wait(5));
}
