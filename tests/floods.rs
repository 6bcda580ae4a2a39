//! One client floods the server, another commits. For each kind of flood, the other's turn comes after a bounded number
//! of the flood's requests. A server that handled all input of a socket before the next one made the other client wait
//! up to 110 s.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/floods.rs"]
mod floods;
mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use floods::{Agreeing, Flood, JOB, OTHER_JOB};
use modex::types::Scope;
use modex::{ConnectionLimits, GetOptions, Work};
use support::{TestServer, proc};

/// Requests of one process that one turn handles.
const REQUESTS_PER_TURN: u64 = 8;

/// The server's work while one client flooded it and another one committed until the end of the flood.
fn flooded(flood: Flood, count: u64) -> Work {
    let node = TestServer::with_limits_and_host(ConnectionLimits::default(), Agreeing);
    node.register_local_job(JOB, 2);
    node.register_local_job(OTHER_JOB, 1);
    let victim = node.connect(JOB, 1);
    let path = floods::socket_path(node.server.setup_fork(&proc(JOB, 0)).unwrap()).unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let made = floods::flood(&path, flood, count, &AtomicBool::new(false));
            is_over.store(true, Ordering::Relaxed);
            assert!(made.unwrap() > 0, "{flood:?}");
        });
        let mut number = 0_u32;
        while !is_over.load(Ordering::Relaxed) {
            victim.put(Scope::Global, "k", number).unwrap();
            victim.commit().unwrap();
            number += 1;
        }
        victim.put(Scope::Global, "k", number).unwrap();
        victim.commit().unwrap();
    });
    node.server.work()
}

#[test]
fn a_client_gets_its_turn_after_few_requests_of_a_flooding_client() {
    for flood in Flood::ALL {
        let count = if flood == Flood::ManyNewKeys { 3 } else { 300 };
        let work = flooded(flood, count);
        assert!(work.requests_waited_max <= REQUESTS_PER_TURN, "{flood:?}: {work:?}");
        assert!(work.longest.is_some() && work.turns > 0, "{flood:?}: {work:?}");
    }
}

/// Requests wait for their turn, and their process may end meanwhile. Its earlier requests, such as an abort, still
/// count.
#[test]
fn the_last_requests_of_an_ended_process_are_served() {
    let node = TestServer::with_limits_and_host(ConnectionLimits::default(), Agreeing);
    node.register_local_job(JOB, 2);
    let path = floods::socket_path(node.server.setup_fork(&proc(JOB, 0)).unwrap()).unwrap();
    let requests: Vec<_> = (0..1000).map(|number| (Flood::NewKeys, number)).collect();
    floods::send_and_leave(&path, &requests).unwrap();
    let reader = node.connect(JOB, 1);
    let last: u64 = reader.get_value(&proc(JOB, 0), "key-999", &GetOptions::new()).unwrap().as_u64().unwrap();
    assert_eq!((last, node.server.work().requests >= 1000), (999, true));
}

/// A large commit is decoded beside the server's loop and published in pieces. Later requests of the process still come
/// after it, even if the process ends meanwhile.
#[test]
fn requests_behind_large_ones_stay_in_order() {
    let node = TestServer::with_limits_and_host(ConnectionLimits::default(), Agreeing);
    node.register_local_job(JOB, 2);
    let path = floods::socket_path(node.server.setup_fork(&proc(JOB, 0)).unwrap()).unwrap();
    floods::send_and_leave(&path, &[(Flood::ManyNewKeys, 0), (Flood::ManyNewKeys, 1), (Flood::SameKey, 2)]).unwrap();
    let reader = node.connect(JOB, 1);
    // Without a time of its own, a Get ends two seconds after the first commit, however slow this machine is.
    let patient = GetOptions::new().timeout(Duration::from_secs(300));
    let value = |name: &str| reader.get_value(&proc(JOB, 0), name, &patient).unwrap().as_u64().unwrap();
    // Nothing of the commit is visible before the rest is.
    assert_eq!((value("key"), value("0-49999"), value("1-49999")), (2, 0, 1));
}
