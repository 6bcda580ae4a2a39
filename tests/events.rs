//! Events between real sockets: handlers in two clients and in the server's process.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use modex::gds::AsStatus;
use modex::types::codes::range;
use modex::types::{DataArray, DataType, Info, Key, ProcId, Status, Value};
use modex::{
    Capabilities, Client, Completion, Event, EventCall, EventError, FenceOptions, GetOptions, Host, RegisterEvents,
    Responder, keys,
};
use support::{TestServer, proc};

/// An application's own event.
const CODE: Status = Status::from_raw(4711);
const OTHER: Status = Status::from_raw(4712);
/// An event of a job, which no registration asks the host for.
const JOB_CODE: Status = Status::ERR_PROC_ABORTED;
const DONE: Status = Status::SUCCESS;

/// What handlers saw, in order.
#[derive(Clone)]
struct Log {
    seen: mpsc::Sender<String>,
}

impl Log {
    fn new() -> (Self, mpsc::Receiver<String>) {
        let (seen, heard) = mpsc::channel();
        (Self { seen }, heard)
    }

    fn note(&self, what: impl Into<String>) {
        self.seen.send(what.into()).unwrap();
    }

    /// A handler that says its name and the event's number.
    fn handler(&self, name: &'static str) -> impl Fn(EventCall) + Send + Sync + 'static {
        let log = Mutex::new(self.clone());
        move |call| {
            log.lock().unwrap().note(format!("{name} {}", call.status.to_raw()));
            call.complete(DONE, Vec::new());
        }
    }
}

fn info(key: &str, value: impl Into<Value>) -> Info {
    Info::new(Key::new(key.to_owned()).unwrap(), value)
}

fn named(name: &str) -> Info {
    info(keys::EVENT_HDLR_NAME.name(), name)
}

fn procs(procs: &[ProcId]) -> Value {
    let elements = procs.iter().cloned().map(Value::from).collect();
    Value::DataArray(Box::new(DataArray { element_type: DataType::Proc, elements }))
}

fn two() -> (TestServer, Client, Client) {
    let node = TestServer::local();
    node.register_local_job("job", 2);
    let (zero, one) = (node.connect("job", 0), node.connect("job", 1));
    (node, zero, one)
}

/// Waits until everything that was sent to this client before has been handled: its handlers run in order. Default
/// handlers do not see it, as they would only after this has returned.
fn settle(node: &TestServer, client: &Client) {
    let (done, wait) = mpsc::channel();
    let done = Mutex::new(done);
    let mark = Status::from_raw(9999);
    let id = client
        .register_event_handler(&[mark], &[], move |call| {
            done.lock().unwrap().send(()).unwrap();
            call.complete(DONE, Vec::new());
        })
        .unwrap();
    let target = info(keys::EVENT_CUSTOM_RANGE.name(), procs(&[client.proc().clone()]));
    let only = [target, no_cache(), info(keys::EVENT_NON_DEFAULT.name(), true)];
    node.server.notify_event(mark, None, range::RANGE_CUSTOM, &only).unwrap();
    wait.recv().unwrap();
    client.deregister_event_handler(id).unwrap();
}

fn no_cache() -> Info {
    info(keys::EVENT_DO_NOT_CACHE.name(), true)
}

#[test]
fn an_event_of_one_client_runs_the_chain_of_another_in_order() {
    let (_node, zero, one) = two();
    let (log, heard) = Log::new();
    let flag = |key: &str| [info(key, true)];
    one.register_event_handler(&[], &[], log.handler("default")).unwrap();
    one.register_event_handler(&[CODE, OTHER], &[], log.handler("multi")).unwrap();
    one.register_event_handler(&[CODE], &[], log.handler("single")).unwrap();
    one.register_event_handler(&[CODE], &flag("pmix.evappend"), log.handler("appended")).unwrap();
    one.register_event_handler(&[CODE], &flag("pmix.evprepend"), log.handler("prepended")).unwrap();
    one.register_event_handler(&[], &flag("pmix.evfirst"), log.handler("first")).unwrap();
    let id = one.register_event_handler(&[CODE], &flag("pmix.evlast"), log.handler("last")).unwrap();
    assert_eq!(id, 6, "numbers count from 0");
    zero.notify_event(CODE, None, range::RANGE_LOCAL, &[]).unwrap();
    let order = ["first", "prepended", "single", "appended", "multi", "default", "last"];
    for name in order {
        assert_eq!(heard.recv().unwrap(), format!("{name} 4711"));
    }
}

#[test]
fn a_handler_sees_source_details_name_and_earlier_results() {
    let (_node, zero, one) = two();
    let (seen, heard) = mpsc::channel();
    let seen = Mutex::new(seen);
    one.register_event_handler(&[], &[named("second")], move |call| seen.lock().unwrap().send(call).unwrap()).unwrap();
    one.register_event_handler(&[CODE], &[named("first")], |call| {
        call.complete(Status::EVENT_PARTIAL_ACTION_TAKEN, vec![info("result", 7_u32)]);
    })
    .unwrap();
    zero.notify_event(CODE, None, range::RANGE_NAMESPACE, &[info("detail", "text")]).unwrap();
    let call = heard.recv().unwrap();
    assert_eq!((call.handler, call.status, &call.source), (0, CODE, &Some(proc("job", 0))));
    assert_eq!(call.info, [info("detail", "text"), named("second")]);
    let first = info("first", Value::Status(Status::EVENT_PARTIAL_ACTION_TAKEN.to_raw()));
    assert_eq!(call.results, [first, info("result", 7_u32)]);
}

#[test]
fn action_complete_ends_the_chain() {
    let (node, zero, one) = two();
    let (log, heard) = Log::new();
    one.register_event_handler(&[], &[], log.handler("default")).unwrap();
    one.register_event_handler(&[], &[info("pmix.evlast", true)], log.handler("last")).unwrap();
    one.register_event_handler(&[CODE], &[], |call| call.complete(Status::EVENT_ACTION_COMPLETE, Vec::new())).unwrap();
    zero.notify_event(CODE, None, range::RANGE_LOCAL, &[]).unwrap();
    zero.notify_event(OTHER, None, range::RANGE_LOCAL, &[]).unwrap();
    assert_eq!(heard.recv().unwrap(), "default 4712");
    assert_eq!(heard.recv().unwrap(), "last 4712");
    settle(&node, &one);
    drop(one);
    assert_eq!(heard.try_iter().count(), 0);
}

#[test]
fn a_chain_waits_for_a_handler_that_completes_later_on_another_thread() {
    let (_node, zero, one) = two();
    let (log, heard) = Log::new();
    let (held, calls) = mpsc::channel::<Completion>();
    let held = Mutex::new(held);
    one.register_event_handler(&[], &[], log.handler("default")).unwrap();
    one.register_event_handler(&[CODE], &[], move |call| held.lock().unwrap().send(call.completion).unwrap()).unwrap();
    zero.notify_event(CODE, None, range::RANGE_LOCAL, &[]).unwrap();
    let completion = calls.recv().unwrap();
    // Another event overtakes the one that waits.
    zero.notify_event(OTHER, None, range::RANGE_LOCAL, &[]).unwrap();
    assert_eq!(heard.recv().unwrap(), "default 4712");
    thread::scope(|scope| scope.spawn(move || completion.complete(DONE, Vec::new())).join().unwrap());
    assert_eq!(heard.recv().unwrap(), "default 4711");
}

#[test]
fn a_handler_that_panics_or_drops_its_call_does_not_hold_up_the_next_one() {
    let (_node, zero, one) = two();
    let (log, heard) = Log::new();
    one.register_event_handler(&[], &[], log.handler("default")).unwrap();
    one.register_event_handler(&[CODE, OTHER], &[], drop).unwrap();
    one.register_event_handler(&[CODE], &[], |_| panic!("on purpose")).unwrap();
    zero.notify_event(CODE, None, range::RANGE_LOCAL, &[]).unwrap();
    assert_eq!(heard.recv().unwrap(), "default 4711");
}

#[test]
fn a_handler_may_call_blocking_functions_and_register_and_deregister() {
    let (_node, zero, one) = two();
    let one = Arc::new(one);
    let (log, heard) = Log::new();
    let (client, inner) = (Arc::downgrade(&one), Mutex::new(log));
    let id = one
        .register_event_handler(&[CODE], &[], move |call| {
            let client = client.upgrade().unwrap();
            let log = inner.lock().unwrap();
            client.put(modex::types::Scope::Global, "seen", 1_u32).unwrap();
            client.commit().unwrap();
            client.register_event_handler(&[OTHER], &[], log.handler("other")).unwrap();
            client.deregister_event_handler(call.handler).unwrap();
            log.note("handled");
            call.complete(DONE, Vec::new());
        })
        .unwrap();
    assert_eq!(id, 0);
    zero.notify_event(CODE, None, range::RANGE_LOCAL, &[]).unwrap();
    assert_eq!(heard.recv().unwrap(), "handled");
    zero.notify_event(CODE, None, range::RANGE_LOCAL, &[]).unwrap();
    zero.notify_event(OTHER, None, range::RANGE_LOCAL, &[]).unwrap();
    assert_eq!(heard.recv().unwrap(), "other 4712");
    assert!(zero.get_value(&proc("job", 1), "seen", &GetOptions::new()).is_ok());
}

#[test]
fn blocking_calls_of_other_threads_go_on_while_the_progress_thread_waits_for_events() {
    let (_node, zero, one) = two();
    let (log, heard) = Log::new();
    for client in [&zero, &one] {
        client.register_event_handler(&[CODE], &[], log.handler("code")).unwrap();
    }
    thread::scope(|scope| {
        for client in [&zero, &one] {
            scope.spawn(move || {
                for round in 0..200_u32 {
                    client.put(modex::types::Scope::Global, "round", round).unwrap();
                    client.commit().unwrap();
                    client.fence(&FenceOptions::new()).unwrap();
                    if round % 10 == 0 {
                        client.notify_event(CODE, None, range::RANGE_LOCAL, &[]).unwrap();
                    }
                }
            });
        }
    });
    // Each hears twenty of its own and twenty of the other's.
    assert_eq!(heard.iter().take(80).count(), 80);
}

#[test]
fn a_callback_runs_although_the_progress_thread_waits_for_the_server() {
    // It sat in poll, waiting for the fence, and did not see that the value of the Get was there.
    let (_node, zero, one) = two();
    let (done, results) = mpsc::channel();
    let fenced = done.clone();
    zero.fence_with(&FenceOptions::new(), move |result| fenced.send(result.is_ok()).unwrap()).unwrap();
    let job = ProcId { rank: modex::types::Rank::Wildcard, ..proc("job", 0) };
    zero.get_nb(&job, "pmix.job.size", &GetOptions::new(), move |value| done.send(value.is_ok()).unwrap()).unwrap();
    assert!(results.recv().unwrap());
    one.fence(&FenceOptions::new()).unwrap();
    assert!(results.recv().unwrap());
}

#[test]
fn ranges_decide_who_hears_of_an_event() {
    let node = TestServer::local();
    node.register_local_job("job", 2);
    node.register_local_job("other", 1);
    let clients = [node.connect("job", 0), node.connect("job", 1), node.connect("other", 0)];
    let (log, heard) = Log::new();
    for (client, name) in clients.iter().zip(["job.0", "job.1", "other.0"]) {
        client.register_event_handler(&[CODE], &[], log.handler(name)).unwrap();
    }
    let to = |targets: &[ProcId]| [info(keys::EVENT_CUSTOM_RANGE.name(), procs(targets))];
    let everyone_else = ProcId { rank: modex::types::Rank::Wildcard, ..proc("other", 0) };
    let cases: [(u8, &[Info], &[&str]); 7] = [
        (range::RANGE_LOCAL, &[], &["job.0", "job.1", "other.0"]),
        (range::RANGE_GLOBAL, &[], &["job.0", "job.1", "other.0"]),
        (range::RANGE_SESSION, &[], &["job.0", "job.1", "other.0"]),
        (range::RANGE_NAMESPACE, &[], &["job.0", "job.1"]),
        (range::RANGE_CUSTOM, &to(&[proc("job", 1)]), &["job.1"]),
        (range::RANGE_CUSTOM, &to(&[everyone_else]), &["other.0"]),
        (range::RANGE_PROC_LOCAL, &[], &["job.0"]),
    ];
    for (range, details, expected) in cases {
        clients[0].notify_event(CODE, None, range, details).unwrap();
        let mut hearers: Vec<String> = heard.iter().take(expected.len()).collect();
        hearers.sort();
        let expected: Vec<String> = expected.iter().map(|name| format!("{name} 4711")).collect();
        assert_eq!(hearers, expected, "range {range}");
    }
    let refused = |range| clients[0].notify_event(CODE, None, range, &[]).unwrap_err().status();
    assert_eq!(refused(range::RANGE_RM), Status::ERR_NOT_SUPPORTED, "there is no host to take it");
    assert_eq!(refused(range::RANGE_CUSTOM), Status::ERR_BAD_PARAM);
    assert_eq!(refused(range::RANGE_INVALID), Status::ERR_BAD_PARAM);
    clients.iter().for_each(|client| settle(&node, client));
    assert_eq!(heard.try_iter().count(), 0);
}

#[test]
fn events_of_the_past_reach_a_late_registrant_once_and_in_order() {
    let (node, zero, one) = two();
    for code in [CODE, OTHER, CODE] {
        zero.notify_event(code, None, range::RANGE_LOCAL, &[]).unwrap();
    }
    zero.notify_event(CODE, None, range::RANGE_LOCAL, &[no_cache()]).unwrap();
    let (log, heard) = Log::new();
    let id = one.register_event_handler(&[CODE], &[], log.handler("code")).unwrap();
    assert_eq!(heard.iter().take(2).collect::<Vec<_>>(), ["code 4711", "code 4711"].map(str::to_owned));
    one.register_event_handler(&[], &[], log.handler("default")).unwrap();
    let missed: Vec<String> = heard.iter().take(3).collect();
    assert_eq!(missed, ["default 4711", "default 4711", "default 4712"].map(str::to_owned));
    // A second registration of the process gets them from the process, a renewed one of the same code nothing twice.
    one.deregister_event_handler(id).unwrap();
    one.register_event_handler(&[CODE], &[], log.handler("again")).unwrap();
    assert_eq!(heard.iter().take(2).collect::<Vec<_>>(), ["again 4711", "again 4711"].map(str::to_owned));
    settle(&node, &one);
    assert_eq!(heard.try_iter().count(), 0);
    // One that connects only now.
    let late = node.connect("job", 1);
    late.register_event_handler(&[OTHER], &[], log.handler("late")).unwrap();
    assert_eq!(heard.recv().unwrap(), "late 4712");
}

#[test]
fn a_deregistered_handler_hears_nothing_more() {
    let (node, zero, one) = two();
    let (log, heard) = Log::new();
    let id = one.register_event_handler(&[CODE], &[], log.handler("code")).unwrap();
    zero.notify_event(CODE, None, range::RANGE_LOCAL, &[]).unwrap();
    assert_eq!(heard.recv().unwrap(), "code 4711");
    one.deregister_event_handler(id).unwrap();
    assert_eq!(one.deregister_event_handler(id), Err(EventError::Unknown { id }));
    zero.notify_event(CODE, None, range::RANGE_LOCAL, &[]).unwrap();
    settle(&node, &one);
    assert!(heard.try_recv().is_err());
    one.finalize().unwrap();
}

#[test]
fn registration_and_its_end_also_come_by_callback() {
    let (_node, zero, one) = two();
    let (log, heard) = Log::new();
    let (done, ids) = mpsc::channel();
    let ended = done.clone();
    zero.notify_event(CODE, None, range::RANGE_LOCAL, &[]).unwrap();
    let (noted, handler) = (log.clone(), log.handler("code"));
    one.register_event_handler_with(&[CODE], &[], handler, move |id| {
        noted.note("registered");
        done.send(id.unwrap()).unwrap();
    })
    .unwrap();
    let id = ids.recv().unwrap();
    assert_eq!(heard.recv().unwrap(), "registered");
    assert_eq!(heard.recv().unwrap(), "code 4711");
    one.deregister_event_handler_with(id, move |result| ended.send(usize::from(result.is_ok())).unwrap()).unwrap();
    assert_eq!(ids.recv().unwrap(), 1);
    let (told, replies) = mpsc::channel();
    zero.notify_event_with(CODE, None, range::RANGE_LOCAL, &[], move |result| told.send(result).unwrap()).unwrap();
    assert_eq!(replies.recv().unwrap(), Ok(()));
}

#[test]
fn a_local_delivery_runs_on_the_calling_thread_before_it_returns() {
    let (_node, zero, _one) = two();
    let (log, heard) = Log::new();
    let own = thread::current().id();
    let (other, noted) = (log.handler("default"), Mutex::new(log));
    zero.register_event_handler(&[], &[], other).unwrap();
    zero.register_event_handler(&[Status::MODEL_DECLARED], &[named("model")], move |call| {
        assert_eq!(thread::current().id(), own);
        noted.lock().unwrap().note(format!("model {:?}", call.info));
        call.complete(DONE, Vec::new());
    })
    .unwrap();
    let details = [info("pmix.pgm.model", "MPI"), info(keys::EVENT_NON_DEFAULT.name(), true)];
    zero.deliver_locally(Status::MODEL_DECLARED, None, &details);
    let expected = [details[0].clone(), details[1].clone(), named("model")];
    assert_eq!(heard.try_recv().unwrap(), format!("model {expected:?}"));
    assert!(heard.try_recv().is_err());
}

#[test]
fn a_lost_server_is_an_event() {
    let (node, zero, one) = two();
    let (seen, heard) = mpsc::channel();
    let seen = Mutex::new(seen);
    zero.register_event_handler(&[], &[], move |call| {
        seen.lock().unwrap().send((call.status, call.source.clone())).unwrap()
    })
    .unwrap();
    drop(node);
    assert_eq!(heard.recv().unwrap(), (Status::ERR_LOST_CONNECTION, Some(proc("srv", 0))));
    drop((zero, one));
    assert!(heard.recv().is_err(), "once, and the handler is dropped with its client");
}

#[test]
fn one_that_finalizes_does_not_lose_its_server() {
    let (_node, zero, _one) = two();
    let (log, heard) = Log::new();
    zero.register_event_handler(&[], &[], log.handler("default")).unwrap();
    drop(log);
    zero.finalize().unwrap();
    assert_eq!(heard.iter().count(), 0);
}

/// Notes what it is asked for.
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
    let default = one.register_event_handler(&[], &[], log.handler("default")).unwrap();
    let first = one.register_event_handler(&[down, JOB_CODE], &[], log.handler("down")).unwrap();
    assert_eq!(asked.recv().unwrap(), format!("register {:?}", [down]));
    let second = zero.register_event_handler(&[down], &[], log.handler("zero")).unwrap();
    one.deregister_event_handler(first).unwrap();
    zero.notify_event(JOB_CODE, None, range::RANGE_LOCAL, &[]).unwrap();
    zero.notify_event(JOB_CODE, None, range::RANGE_GLOBAL, &[info("detail", 1_u32)]).unwrap();
    let details = [info("detail", 1_u32)];
    assert_eq!(asked.recv().unwrap(), format!("notify {} job:0 5 {details:?}", JOB_CODE.to_raw()));
    zero.deregister_event_handler(second).unwrap();
    assert_eq!(asked.recv().unwrap(), format!("deregister {:?}", [down]));
    // What the host tells goes down only.
    node.server.notify_event(down, None, range::RANGE_GLOBAL, &[]).unwrap();
    let default_heard: Vec<String> = heard.iter().take(3).collect();
    let expected = [JOB_CODE, JOB_CODE, down].map(|code| format!("default {}", code.to_raw()));
    assert_eq!(default_heard, expected);
    one.deregister_event_handler(default).unwrap();
    drop((zero, one, node));
    assert_eq!(asked.iter().count(), 0);
}

/// A blocking registration waited for ever when the caller was what its answer had to come from: a function of the host
/// that wants events of the host's own environment.
#[test]
fn a_function_of_the_host_does_not_wait_for_the_host() {
    let (node, _asked) = Noting::start(None);
    let (send, receive) = mpsc::channel();
    let server = Arc::clone(&node.server);
    let job = move || {
        let refused = server.register_event_handler(&[Status::EVENT_NODE_DOWN], &[], drop);
        let local = server.register_event_handler(&[JOB_CODE], &[], drop);
        send.send((refused.map_err(|error| error.status()), local)).unwrap();
    };
    node.server.defer(job).unwrap();
    let (refused, local) = receive.recv().unwrap();
    assert_eq!(refused, Err(Status::ERR_WOULD_BLOCK));
    local.unwrap();
    node.server.register_event_handler(&[Status::EVENT_NODE_DOWN], &[], drop).unwrap();
}

/// The end of a registration waited for a call of its handler that waited for what the caller held (a lock, or Python's
/// interpreter): both waited for ever.
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
    let id = zero.register_event_handler(&[CODE], &[], handler).unwrap();
    let guard = held.lock().unwrap();
    one.notify_event(CODE, None, range::RANGE_LOCAL, &[]).unwrap();
    has_entered.recv().unwrap();
    zero.deregister_event_handler(id).unwrap();
    drop(guard);
}

#[test]
fn a_host_that_refuses_makes_registration_and_notification_fail() {
    let (node, _asked) = Noting::start(Some(Status::ERR_NO_PERMISSIONS));
    node.register_local_job("job", 1);
    let client = node.connect("job", 0);
    let error = client.register_event_handler(&[CODE], &[], drop).unwrap_err();
    assert_eq!(error.status(), Status::ERR_NO_PERMISSIONS);
    let error = client.notify_event(JOB_CODE, None, range::RANGE_GLOBAL, &[]).unwrap_err();
    assert_eq!(error.status(), Status::ERR_NO_PERMISSIONS);
    // The handler is not there, and its number is not used again.
    assert_eq!(client.register_event_handler(&[JOB_CODE], &[], drop), Ok(1));
}

#[test]
fn a_server_without_a_host_for_it_does_not_promise_events_of_the_system() {
    let (_node, zero, _one) = two();
    let error = zero.register_event_handler(&[Status::EVENT_NODE_DOWN], &[], drop).unwrap_err();
    assert_eq!(error.status(), Status::ERR_NOT_SUPPORTED);
}

#[test]
fn handlers_of_the_servers_own_process_run_with_the_hosts_functions() {
    let (node, zero, one) = two();
    let (log, heard) = Log::new();
    zero.notify_event(CODE, None, range::RANGE_LOCAL, &[]).unwrap();
    let id = node.server.register_event_handler(&[CODE], &[], log.handler("code")).unwrap();
    assert_eq!(id, 1, "numbers count from 1 in servers");
    assert_eq!(heard.recv().unwrap(), "code 4711");
    let (done, ids) = mpsc::channel();
    let registered = move |id: Result<usize, EventError>| done.send(id.unwrap()).unwrap();
    node.server
        .register_event_handler_with(&[Status::ERR_LOST_CONNECTION], &[], log.handler("lost"), registered)
        .unwrap();
    let second = ids.recv().unwrap();
    drop(one);
    assert_eq!(heard.recv().unwrap(), format!("lost {}", Status::ERR_LOST_CONNECTION.to_raw()));
    node.server.notify_event(CODE, None, range::RANGE_PROC_LOCAL, &[]).unwrap();
    assert_eq!(heard.recv().unwrap(), "code 4711");
    node.server.deregister_event_handler(id).unwrap();
    let (done, ended) = mpsc::channel();
    node.server.deregister_event_handler_with(second, move |result| done.send(result).unwrap()).unwrap();
    assert_eq!(ended.recv().unwrap(), Ok(()));
    zero.notify_event(CODE, None, range::RANGE_LOCAL, &[]).unwrap();
    let (told, replies) = mpsc::channel();
    node.server
        .notify_event_with(CODE, None, range::RANGE_LOCAL, &[], move |result| told.send(result).unwrap())
        .unwrap();
    assert_eq!(replies.recv().unwrap(), Ok(()));
    drop((zero, node, log));
    assert_eq!(heard.iter().count(), 0);
}
