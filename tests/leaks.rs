//! Memory, descriptors, mappings, threads and files do not outlive their use.
//!
//! One test, because it counts the resources of the whole process.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "of the memory only what stays in use is of interest here")]
#[path = "support/counting.rs"]
mod counting;
mod support;

use std::time::Duration;

use modex::types::{Rank, Scope};
use modex::{FenceOptions, GetOptions, keys};
use support::{TestServer, description, descriptors, ids, namespace, proc, role, shared_mappings};

/// After these jobs, everything is there that is kept once or up to a limit.
const FIRST_JOBS: u32 = 200;
const JOBS: u32 = 1000;
/// Memory that the later jobs may leave: less than six bytes for each.
const GROWTH_BYTES_MAX: usize = 4096;

#[test]
fn client_process() {
    assert_eq!(role(), None, "no test here starts processes");
}

#[derive(Debug, PartialEq, Eq)]
struct Held {
    descriptor_count: usize,
    mapping_count: usize,
}

fn held() -> Held {
    Held { descriptor_count: descriptors().len(), mapping_count: shared_mappings().len() }
}

/// A job with two clients that use their namespace: one of our own, and one over TCP, which leaves without finalize.
fn run_a_job(node: &TestServer, name: &str) {
    let (uid, gid) = ids();
    node.server.register_namespace(&namespace(name), 2, description(2, &[("node0", "0,1")])).wait().unwrap();
    for rank in [0, 1] {
        node.server.register_client(&proc(name, rank), uid, gid).wait().unwrap();
    }
    let clients = [node.connect(name, 0), node.connect_over_tcp(name, 1)];
    for client in &clients {
        client.put(Scope::Global, "endpoint", name).unwrap();
        client.commit().unwrap();
    }
    let fence = FenceOptions::new().collect(true);
    let [first, second] = &clients;
    let pending = first.fence(&fence).start().unwrap();
    second.fence(&fence).wait().unwrap();
    pending.wait().unwrap();
    for client in &clients {
        assert_eq!(client.get(Rank::Wildcard, keys::JOB_SIZE), Ok(2));
        for rank in [0, 1] {
            let endpoint = client.get_value(&proc(name, rank), "endpoint", &GetOptions::new()).unwrap();
            assert_eq!(endpoint.as_str(), Some(name));
        }
        assert!(client.get_value(&proc(name, 0), "nothing", &GetOptions::new().immediate()).is_err());
    }
    let [first, second] = clients;
    first.finalize().unwrap();
    drop(second);
    for rank in [0, 1] {
        node.server.deregister_client(&proc(name, rank)).wait().unwrap();
    }
    node.server.deregister_namespace(&namespace(name)).wait().unwrap();
}

#[test]
fn a_thousand_jobs_and_the_server_itself_leave_nothing_behind() {
    let before = held();
    let node = TestServer::local();
    run_a_job(&node, "job");
    let with_server = held_when_quiet(&node);
    (1..FIRST_JOBS).for_each(|number| run_a_job(&node, &format!("job{number:04}")));
    assert_eq!(held_when_quiet(&node), with_server);
    let used = counting::used_bytes();
    (FIRST_JOBS..JOBS).for_each(|number| run_a_job(&node, &format!("job{number:04}")));
    assert_eq!(held_when_quiet(&node), with_server);
    let growth = counting::used_bytes().saturating_sub(used);
    assert!(growth <= GROWTH_BYTES_MAX, "{growth} bytes more than after {FIRST_JOBS} jobs");

    let directory = node.directory;
    drop(node.server);
    assert_eq!(held_in_the_end(&before), before);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

/// The thread of the host's functions may end a little later than the server.
fn held_in_the_end(expected: &Held) -> Held {
    for _ in 0..60_000 {
        if held() == *expected {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    held()
}

/// The server notices the end of a client's connection some time later, but before it answers the call of a later turn.
/// Two calls, because the first may share a turn with the last connection's end.
fn held_when_quiet(node: &TestServer) -> Held {
    for _ in 0..2 {
        node.server.deregister_namespace(&namespace("nobody")).wait().unwrap();
    }
    held()
}
