//! Nothing stays: descriptors, mappings, threads and files go when what they were for goes.
//!
//! One test, because it counts what the whole process holds.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use modex::types::{Rank, Scope};
use modex::{FenceOptions, keys};
use support::{TestServer, description, descriptors, ids, namespace, proc, role, shared_mappings};

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

fn run_a_job(node: &TestServer, name: &str) {
    let (uid, gid) = ids();
    node.server.register_namespace(&namespace(name), 1, description(1, &[("node0", "0")])).unwrap();
    node.server.register_client(&proc(name, 0), uid, gid).unwrap();
    let client = node.connect(name, 0);
    client.put(Scope::Global, "endpoint", name).unwrap();
    client.commit().unwrap();
    client.fence(&FenceOptions::new().collect(true)).unwrap();
    assert_eq!(client.get(Rank::Wildcard, keys::JOB_SIZE), Ok(1));
    client.finalize().unwrap();
    node.server.deregister_client(&proc(name, 0)).unwrap();
    node.server.deregister_namespace(&namespace(name)).unwrap();
}

#[test]
fn a_thousand_jobs_and_the_server_itself_leave_nothing_behind() {
    let before = held();
    let node = TestServer::local();
    run_a_job(&node, "first");
    let with_server = held_when_quiet(&node);
    for number in 0..1000 {
        run_a_job(&node, &format!("job{number}"));
    }
    assert_eq!(held_when_quiet(&node), with_server);

    let directory = node.directory;
    drop(node.server);
    assert_eq!(held(), before);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

/// The server notices the end of a client's connection in its own time; it has by the time it answers the call of a
/// later turn. Two calls: the first may share a turn with the last connection's end.
fn held_when_quiet(node: &TestServer) -> Held {
    for _ in 0..2 {
        node.server.deregister_namespace(&namespace("nobody")).unwrap();
    }
    held()
}
