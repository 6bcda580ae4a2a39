//! Events between real sockets: handlers in two clients and in the server's process.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/hearing.rs"]
mod hearing;
mod support;

use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use hearing::{Log, info, two};
use modex::types::AsStatus;
use modex::types::codes::range;
use modex::types::{DataArray, DataType, Info, ProcId, Status, Value};
use modex::{Client, Completion, FenceOptions, GetOptions, keys};
use support::{TestServer, proc};

/// An application's own event.
const CODE: Status = Status::from_raw(4711);
const OTHER: Status = Status::from_raw(4712);
const DONE: Status = Status::SUCCESS;

fn named(name: &str) -> Info {
    info(keys::EVENT_HDLR_NAME.name(), name)
}

fn procs(procs: &[ProcId]) -> Value {
    let elements = procs.iter().cloned().map(Value::from).collect();
    Value::DataArray(Box::new(DataArray { element_type: DataType::Proc, elements }))
}

/// Waits until all earlier events of this client have been handled: its handlers run in order. Default handlers do not
/// see the event, because they would get it only after this function returns.
fn settle(node: &TestServer, client: &Client) {
    let (done, wait) = mpsc::channel();
    let done = Mutex::new(done);
    let mark = Status::from_raw(9999);
    let id = client
        .register_event_handler(&[mark], &[], move |call| {
            done.lock().unwrap().send(()).unwrap();
            call.complete(DONE, Vec::new());
        })
        .wait()
        .unwrap();
    let target = info(keys::EVENT_CUSTOM_RANGE.name(), procs(&[client.proc().clone()]));
    let only = [target, no_cache(), info(keys::EVENT_NON_DEFAULT.name(), true)];
    node.server.notify_event(mark, None, range::RANGE_CUSTOM, &only).wait().unwrap();
    wait.recv().unwrap();
    client.deregister_event_handler(id).wait().unwrap();
}

fn no_cache() -> Info {
    info(keys::EVENT_DO_NOT_CACHE.name(), true)
}

#[test]
fn an_event_of_one_client_runs_the_chain_of_another_in_order() {
    let (_node, zero, one) = two();
    let (log, heard) = Log::new();
    let flag = |key: &str| [info(key, true)];
    one.register_event_handler(&[], &[], log.handler("default")).wait().unwrap();
    one.register_event_handler(&[CODE, OTHER], &[], log.handler("multi")).wait().unwrap();
    one.register_event_handler(&[CODE], &[], log.handler("single")).wait().unwrap();
    one.register_event_handler(&[CODE], &flag("pmix.evappend"), log.handler("appended")).wait().unwrap();
    one.register_event_handler(&[CODE], &flag("pmix.evprepend"), log.handler("prepended")).wait().unwrap();
    one.register_event_handler(&[], &flag("pmix.evfirst"), log.handler("first")).wait().unwrap();
    let id = one.register_event_handler(&[CODE], &flag("pmix.evlast"), log.handler("last")).wait().unwrap();
    assert_eq!(id, 6, "numbers count from 0");
    zero.notify_event(CODE, None, range::RANGE_LOCAL, &[]).wait().unwrap();
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
    one.register_event_handler(&[], &[named("second")], move |call| seen.lock().unwrap().send(call).unwrap())
        .wait()
        .unwrap();
    one.register_event_handler(&[CODE], &[named("first")], |call| {
        call.complete(Status::EVENT_PARTIAL_ACTION_TAKEN, vec![info("result", 7_u32)]);
    })
    .wait()
    .unwrap();
    zero.notify_event(CODE, None, range::RANGE_NAMESPACE, &[info("detail", "text")]).wait().unwrap();
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
    one.register_event_handler(&[], &[], log.handler("default")).wait().unwrap();
    one.register_event_handler(&[], &[info("pmix.evlast", true)], log.handler("last")).wait().unwrap();
    one.register_event_handler(&[CODE], &[], |call| call.complete(Status::EVENT_ACTION_COMPLETE, Vec::new()))
        .wait()
        .unwrap();
    zero.notify_event(CODE, None, range::RANGE_LOCAL, &[]).wait().unwrap();
    zero.notify_event(OTHER, None, range::RANGE_LOCAL, &[]).wait().unwrap();
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
    one.register_event_handler(&[], &[], log.handler("default")).wait().unwrap();
    one.register_event_handler(&[CODE], &[], move |call| held.lock().unwrap().send(call.completion).unwrap())
        .wait()
        .unwrap();
    zero.notify_event(CODE, None, range::RANGE_LOCAL, &[]).wait().unwrap();
    let completion = calls.recv().unwrap();
    // Another event overtakes the waiting one.
    zero.notify_event(OTHER, None, range::RANGE_LOCAL, &[]).wait().unwrap();
    assert_eq!(heard.recv().unwrap(), "default 4712");
    thread::scope(|scope| scope.spawn(move || completion.complete(DONE, Vec::new())).join().unwrap());
    assert_eq!(heard.recv().unwrap(), "default 4711");
}

#[test]
fn a_handler_that_panics_or_drops_its_call_does_not_hold_up_the_next_one() {
    let (_node, zero, one) = two();
    let (log, heard) = Log::new();
    one.register_event_handler(&[], &[], log.handler("default")).wait().unwrap();
    one.register_event_handler(&[CODE, OTHER], &[], drop).wait().unwrap();
    one.register_event_handler(&[CODE], &[], |_| panic!("on purpose")).wait().unwrap();
    zero.notify_event(CODE, None, range::RANGE_LOCAL, &[]).wait().unwrap();
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
            client.register_event_handler(&[OTHER], &[], log.handler("other")).wait().unwrap();
            client.deregister_event_handler(call.handler).wait().unwrap();
            log.note("handled");
            call.complete(DONE, Vec::new());
        })
        .wait()
        .unwrap();
    assert_eq!(id, 0);
    zero.notify_event(CODE, None, range::RANGE_LOCAL, &[]).wait().unwrap();
    assert_eq!(heard.recv().unwrap(), "handled");
    zero.notify_event(CODE, None, range::RANGE_LOCAL, &[]).wait().unwrap();
    zero.notify_event(OTHER, None, range::RANGE_LOCAL, &[]).wait().unwrap();
    assert_eq!(heard.recv().unwrap(), "other 4712");
    assert!(zero.get_value(&proc("job", 1), "seen", &GetOptions::new()).is_ok());
}

#[test]
fn blocking_calls_of_other_threads_go_on_while_the_progress_thread_waits_for_events() {
    let (_node, zero, one) = two();
    let (log, heard) = Log::new();
    for client in [&zero, &one] {
        client.register_event_handler(&[CODE], &[], log.handler("code")).wait().unwrap();
    }
    thread::scope(|scope| {
        for client in [&zero, &one] {
            scope.spawn(move || {
                for round in 0..200_u32 {
                    client.put(modex::types::Scope::Global, "round", round).unwrap();
                    client.commit().unwrap();
                    client.fence(&FenceOptions::new()).wait().unwrap();
                    if round % 10 == 0 {
                        client.notify_event(CODE, None, range::RANGE_LOCAL, &[]).wait().unwrap();
                    }
                }
            });
        }
    });
    // Each client hears twenty events of its own and twenty of the other.
    assert_eq!(heard.iter().take(80).count(), 80);
}

#[test]
fn a_callback_runs_although_the_progress_thread_waits_for_the_server() {
    // The progress thread was in `poll`, waiting for the fence, and missed the value of the Get.
    let (_node, zero, one) = two();
    let (done, results) = mpsc::channel();
    let fenced = done.clone();
    zero.fence(&FenceOptions::new()).then(move |result| fenced.send(result.is_ok()).unwrap()).unwrap();
    let job = ProcId { rank: modex::types::Rank::Wildcard, ..proc("job", 0) };
    zero.pending_get(&job, "pmix.job.size", &GetOptions::new())
        .then(move |value| done.send(value.is_ok()).unwrap())
        .unwrap();
    assert!(results.recv().unwrap());
    one.fence(&FenceOptions::new()).wait().unwrap();
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
        client.register_event_handler(&[CODE], &[], log.handler(name)).wait().unwrap();
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
        clients[0].notify_event(CODE, None, range, details).wait().unwrap();
        let mut hearers: Vec<String> = heard.iter().take(expected.len()).collect();
        hearers.sort();
        let expected: Vec<String> = expected.iter().map(|name| format!("{name} 4711")).collect();
        assert_eq!(hearers, expected, "range {range}");
    }
    let refused = |range| clients[0].notify_event(CODE, None, range, &[]).wait().unwrap_err().status();
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
        zero.notify_event(code, None, range::RANGE_LOCAL, &[]).wait().unwrap();
    }
    zero.notify_event(CODE, None, range::RANGE_LOCAL, &[no_cache()]).wait().unwrap();
    let (log, heard) = Log::new();
    let id = one.register_event_handler(&[CODE], &[], log.handler("code")).wait().unwrap();
    assert_eq!(heard.iter().take(2).collect::<Vec<_>>(), ["code 4711", "code 4711"].map(str::to_owned));
    one.register_event_handler(&[], &[], log.handler("default")).wait().unwrap();
    let missed: Vec<String> = heard.iter().take(3).collect();
    assert_eq!(missed, ["default 4711", "default 4711", "default 4712"].map(str::to_owned));
    // A second registration of the process gets them from the process. A renewed one of the same code gets nothing
    // twice.
    one.deregister_event_handler(id).wait().unwrap();
    one.register_event_handler(&[CODE], &[], log.handler("again")).wait().unwrap();
    assert_eq!(heard.iter().take(2).collect::<Vec<_>>(), ["again 4711", "again 4711"].map(str::to_owned));
    settle(&node, &one);
    assert_eq!(heard.try_iter().count(), 0);
    // A client that connects only now.
    let late = node.connect("job", 1);
    late.register_event_handler(&[OTHER], &[], log.handler("late")).wait().unwrap();
    assert_eq!(heard.recv().unwrap(), "late 4712");
}

#[test]
fn a_deregistered_handler_hears_nothing_more() {
    let (node, zero, one) = two();
    let (log, heard) = Log::new();
    let id = one.register_event_handler(&[CODE], &[], log.handler("code")).wait().unwrap();
    zero.notify_event(CODE, None, range::RANGE_LOCAL, &[]).wait().unwrap();
    assert_eq!(heard.recv().unwrap(), "code 4711");
    one.deregister_event_handler(id).wait().unwrap();
    // A second deregistration has no effect.
    one.deregister_event_handler(id).wait().unwrap();
    zero.notify_event(CODE, None, range::RANGE_LOCAL, &[]).wait().unwrap();
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
    zero.notify_event(CODE, None, range::RANGE_LOCAL, &[]).wait().unwrap();
    let (noted, handler) = (log.clone(), log.handler("code"));
    one.register_event_handler(&[CODE], &[], handler)
        .then(move |id| {
            noted.note("registered");
            done.send(id.unwrap()).unwrap();
        })
        .unwrap();
    let id = ids.recv().unwrap();
    assert_eq!(heard.recv().unwrap(), "registered");
    assert_eq!(heard.recv().unwrap(), "code 4711");
    one.deregister_event_handler(id).then(move |_| ended.send(1).unwrap()).unwrap();
    assert_eq!(ids.recv().unwrap(), 1);
    let (told, replies) = mpsc::channel();
    zero.notify_event(CODE, None, range::RANGE_LOCAL, &[]).then(move |result| told.send(result).unwrap()).unwrap();
    assert_eq!(replies.recv().unwrap(), Ok(()));
}

#[test]
fn a_local_delivery_runs_on_the_calling_thread_before_it_returns() {
    let (_node, zero, _one) = two();
    let (log, heard) = Log::new();
    let own = thread::current().id();
    let (other, noted) = (log.handler("default"), Mutex::new(log));
    zero.register_event_handler(&[], &[], other).wait().unwrap();
    zero.register_event_handler(&[Status::MODEL_DECLARED], &[named("model")], move |call| {
        assert_eq!(thread::current().id(), own);
        noted.lock().unwrap().note(format!("model {:?}", call.info));
        call.complete(DONE, Vec::new());
    })
    .wait()
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
    .wait()
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
    zero.register_event_handler(&[], &[], log.handler("default")).wait().unwrap();
    drop(log);
    zero.finalize().unwrap();
    assert_eq!(heard.iter().count(), 0);
}

/// Regression: a turn writes a bounded number of bytes, and a server that ended then dropped the rest. Clients missed
/// an event whose notification had succeeded.
#[test]
fn a_server_that_ends_writes_all_that_it_has_accepted() {
    const CLIENTS: u32 = 40;
    let node = TestServer::local();
    node.register_local_job("job", CLIENTS);
    let clients: Vec<Client> = (0..CLIENTS).map(|rank| node.connect("job", rank)).collect();
    let hearings: Vec<mpsc::Receiver<Status>> = clients
        .iter()
        .map(|client| {
            let (tell, heard) = mpsc::channel();
            let tell = Mutex::new(tell);
            client
                .register_event_handler(&[CODE, Status::ERR_LOST_CONNECTION], &[], move |call| {
                    tell.lock().unwrap().send(call.status).unwrap();
                    call.complete(DONE, Vec::new());
                })
                .wait()
                .unwrap();
            heard
        })
        .collect();
    let large = info("large", vec![7_u8; 100_000]);
    node.server.notify_event(CODE, None, range::RANGE_LOCAL, &[large]).wait().unwrap();
    drop(node);
    let first: Vec<Status> = hearings.iter().map(|heard| heard.recv().unwrap()).collect();
    assert_eq!(first, vec![CODE; CLIENTS as usize]);
}
