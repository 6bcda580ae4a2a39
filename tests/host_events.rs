//! Events and their registrations at the host, and handlers of the server's own process.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/hearing.rs"]
mod hearing;
mod support;

use std::sync::{Arc, Mutex, mpsc};

use hearing::{Log, info, two};
use modex::types::AsStatus;
use modex::types::Status;
use modex::types::codes::range;
use modex::{Capabilities, Event, EventCall, EventError, Host, RegisterEvents, Responder};
use support::TestServer;

/// An application's own event.
const CODE: Status = Status::from_raw(4711);
/// An event of a job: its registrations do not reach the host.
const JOB_CODE: Status = Status::ERR_PROC_ABORTED;
const DONE: Status = Status::SUCCESS;

/// Notes its upcalls.
struct Noting {
    asked: Mutex<mpsc::Sender<String>>,
    refuses: Option<Status>,
}

impl Noting {
    fn start(refuses: Option<Status>) -> (TestServer, mpsc::Receiver<String>) {
        let (asked, heard) = mpsc::channel();
        (TestServer::start("node0", Self { asked: Mutex::new(asked), refuses }), heard)
    }

    fn note(&self, what: String, reply: Responder<()>) {
        self.asked.lock().unwrap().send(what).unwrap();
        match self.refuses {
            Some(status) => reply.fail(status),
            None => reply.succeed(()),
        }
    }
}

impl Host for Noting {
    fn capabilities(&self) -> Capabilities {
        Capabilities::REGISTER_EVENTS | Capabilities::DEREGISTER_EVENTS | Capabilities::NOTIFY_EVENT
    }

    fn register_events(&self, request: RegisterEvents, reply: Responder<()>) {
        self.note(format!("register {:?}", request.codes), reply);
    }

    fn deregister_events(&self, codes: Vec<Status>, reply: Responder<()>) {
        self.note(format!("deregister {codes:?}"), reply);
    }

    fn notify_event(&self, event: Event, reply: Responder<()>) {
        let source = event.source.unwrap();
        self.note(format!("notify {} {source} {} {:?}", event.status.to_raw(), event.range, event.info), reply);
    }
}

#[test]
fn the_host_hears_of_wider_events_and_of_wishes_for_its_own() {
    let (node, asked) = Noting::start(None);
    node.register_local_job("job", 2);
    let (zero, one) = (node.connect("job", 0), node.connect("job", 1));
    let (log, heard) = Log::new();
    let down = Status::EVENT_NODE_DOWN;
    let default = one.register_event_handler(&[], &[], log.handler("default")).wait().unwrap();
    let first = one.register_event_handler(&[down, JOB_CODE], &[], log.handler("down")).wait().unwrap();
    assert_eq!(asked.recv().unwrap(), format!("register {:?}", [down]));
    let second = zero.register_event_handler(&[down], &[], log.handler("zero")).wait().unwrap();
    one.deregister_event_handler(first).wait().unwrap();
    zero.notify_event(JOB_CODE, None, range::RANGE_LOCAL, &[]).wait().unwrap();
    zero.notify_event(JOB_CODE, None, range::RANGE_GLOBAL, &[info("detail", 1_u32)]).wait().unwrap();
    let details = [info("detail", 1_u32)];
    assert_eq!(asked.recv().unwrap(), format!("notify {} job:0 5 {details:?}", JOB_CODE.to_raw()));
    zero.deregister_event_handler(second).wait().unwrap();
    assert_eq!(asked.recv().unwrap(), format!("deregister {:?}", [down]));
    // The host's events go down only.
    node.server.notify_event(down, None, range::RANGE_GLOBAL, &[]).wait().unwrap();
    let default_heard: Vec<String> = heard.iter().take(3).collect();
    let expected = [JOB_CODE, JOB_CODE, down].map(|code| format!("default {}", code.to_raw()));
    assert_eq!(default_heard, expected);
    one.deregister_event_handler(default).wait().unwrap();
    drop((zero, one, node));
    assert_eq!(asked.iter().count(), 0);
}

/// A blocking registration in a function of the host waited for ever. It wanted events of the host's environment, and
/// the host's answer had to come from that very thread.
#[test]
fn a_function_of_the_host_does_not_wait_for_the_host() {
    let (node, _asked) = Noting::start(None);
    let (send, receive) = mpsc::channel();
    let server = Arc::clone(&node.server);
    let job = move || {
        let refused = server.register_event_handler(&[Status::EVENT_NODE_DOWN], &[], drop).wait();
        let local = server.register_event_handler(&[JOB_CODE], &[], drop).wait();
        send.send((refused.map_err(|error| error.status()), local)).unwrap();
    };
    node.server.defer(job).unwrap();
    let (refused, local) = receive.recv().unwrap();
    assert_eq!(refused, Err(Status::ERR_WOULD_BLOCK));
    local.unwrap();
    node.server.register_event_handler(&[Status::EVENT_NODE_DOWN], &[], drop).wait().unwrap();
}

/// The end of a registration waited for a call of its handler. The handler waited for a lock of the caller (or Python's
/// interpreter lock), so both waited for ever.
#[test]
fn the_end_of_a_registration_comes_although_its_handler_waits_for_the_caller() {
    let (_node, zero, one) = two();
    let held = Arc::new(Mutex::new(()));
    let (entered, has_entered) = mpsc::channel();
    let (wanted, entered) = (Arc::clone(&held), Mutex::new(entered));
    let handler = move |call: EventCall| {
        entered.lock().unwrap().send(()).unwrap();
        drop(wanted.lock());
        call.complete(DONE, Vec::new());
    };
    let id = zero.register_event_handler(&[CODE], &[], handler).wait().unwrap();
    let guard = held.lock().unwrap();
    one.notify_event(CODE, None, range::RANGE_LOCAL, &[]).wait().unwrap();
    has_entered.recv().unwrap();
    zero.deregister_event_handler(id).wait().unwrap();
    drop(guard);
}

#[test]
fn a_host_that_refuses_makes_registration_and_notification_fail() {
    let (node, _asked) = Noting::start(Some(Status::ERR_NO_PERMISSIONS));
    node.register_local_job("job", 1);
    let client = node.connect("job", 0);
    let error = client.register_event_handler(&[CODE], &[], drop).wait().unwrap_err();
    assert_eq!(error.status(), Status::ERR_NO_PERMISSIONS);
    let error = client.notify_event(JOB_CODE, None, range::RANGE_GLOBAL, &[]).wait().unwrap_err();
    assert_eq!(error.status(), Status::ERR_NO_PERMISSIONS);
    // The handler does not exist, and its number is not used again.
    assert_eq!(client.register_event_handler(&[JOB_CODE], &[], drop).wait(), Ok(1));
}

#[test]
fn a_server_without_a_host_for_it_does_not_promise_events_of_the_system() {
    let (_node, zero, _one) = two();
    let error = zero.register_event_handler(&[Status::EVENT_NODE_DOWN], &[], drop).wait().unwrap_err();
    assert_eq!(error.status(), Status::ERR_NOT_SUPPORTED);
}

#[test]
fn handlers_of_the_servers_own_process_run_with_the_hosts_functions() {
    let (node, zero, one) = two();
    let (log, heard) = Log::new();
    zero.notify_event(CODE, None, range::RANGE_LOCAL, &[]).wait().unwrap();
    let id = node.server.register_event_handler(&[CODE], &[], log.handler("code")).wait().unwrap();
    assert_eq!(id, 1, "numbers count from 1 in servers");
    assert_eq!(heard.recv().unwrap(), "code 4711");
    let (done, ids) = mpsc::channel();
    let registered = move |id: Result<usize, EventError>| done.send(id.unwrap()).unwrap();
    node.server
        .register_event_handler(&[Status::ERR_LOST_CONNECTION], &[], log.handler("lost"))
        .then(registered)
        .unwrap();
    let second = ids.recv().unwrap();
    drop(one);
    assert_eq!(heard.recv().unwrap(), format!("lost {}", Status::ERR_LOST_CONNECTION.to_raw()));
    node.server.notify_event(CODE, None, range::RANGE_PROC_LOCAL, &[]).wait().unwrap();
    assert_eq!(heard.recv().unwrap(), "code 4711");
    node.server.deregister_event_handler(id).wait().unwrap();
    let (done, ended) = mpsc::channel();
    node.server.deregister_event_handler(second).then(move |_| done.send(()).unwrap()).unwrap();
    ended.recv().unwrap();
    zero.notify_event(CODE, None, range::RANGE_LOCAL, &[]).wait().unwrap();
    let (told, replies) = mpsc::channel();
    node.server
        .notify_event(CODE, None, range::RANGE_LOCAL, &[])
        .then(move |result| told.send(result).unwrap())
        .unwrap();
    assert_eq!(replies.recv().unwrap(), Ok(()));
    drop((zero, node, log));
    assert_eq!(heard.iter().count(), 0);
}
