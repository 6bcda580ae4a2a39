//! Processes of several jobs that are connected read each other's segments, until they are disconnected.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use modex::types::{Info, Key, ProcId, Rank, Scope, Value};
use modex::{Client, GetOptions, LocalHost};
use support::{TestServer, description, namespace, proc};

fn whole(jobs: &[&str]) -> Vec<ProcId> {
    jobs.iter().map(|job| ProcId::new(namespace(job), Rank::Wildcard)).collect()
}

/// A value that this process reads without a request.
fn read(client: &Client, whose: &ProcId, key: &str) -> Option<Value> {
    client.get_value(whose, key, &GetOptions::new().optional()).ok().map(|found| found.into_value().unwrap())
}

fn post(client: &Client, key: &str, value: &str) {
    client.put(Scope::Global, key, value).unwrap();
    client.commit().unwrap();
}

fn together(clients: [&Client; 2], call: impl Fn(&Client) + Sync) {
    std::thread::scope(|scope| clients.into_iter().for_each(|client| drop(scope.spawn(|| call(client)))));
}

#[test]
fn connected_jobs_read_each_others_values_in_place_until_they_disconnect() {
    let node = TestServer::start("node0", LocalHost);
    ["a", "b"].iter().for_each(|job| node.register_local_job(job, 1));
    let [a, b] = ["a", "b"].map(|job| node.connect(job, 0));
    post(&b, "first", "before");
    assert_eq!(read(&a, &proc("b", 0), "first"), None, "nothing ties them");
    let both = || whole(&["a", "b"]);
    for round in 0..3 {
        together([&a, &b], |client| client.connect_processes(both(), Vec::new()).wait().unwrap());
        assert_eq!(read(&a, &proc("b", 0), "first"), Some(Value::from("before")), "round {round}");
        let size = read(&a, &ProcId::new(namespace("b"), Rank::Wildcard), "pmix.job.size");
        assert_eq!(size, Some(Value::from(1_u32)), "round {round}");
        let key = format!("later.{round}");
        post(&b, &key, "after");
        assert_eq!(read(&a, &proc("b", 0), &key), Some(Value::from("after")), "without a message");
        together([&a, &b], |client| client.disconnect_processes(both(), Vec::new()).wait().unwrap());
        assert_eq!(read(&a, &proc("b", 0), &key), None, "round {round}");
    }
}

#[test]
fn a_child_knows_who_has_started_it_and_reads_that_job() {
    let node = TestServer::start("node0", LocalHost);
    node.register_local_job("a", 1);
    let parent = node.connect("a", 0);
    post(&parent, "address", "of the parent");
    let mut child = description(1, &[("node0", "0")]);
    child.push(Info::new(Key::from_static(modex::keys::PARENT_ID.name()), Value::from(proc("a", 0))));
    node.server.register_namespace(&namespace("child"), 1, child).wait().unwrap();
    node.register_client("child", 0);
    let child = node.connect("child", 0);
    let own = ProcId::new(namespace("child"), Rank::Wildcard);
    let Some(Value::Proc(started_by)) = read(&child, &own, "pmix.parent") else { panic!("a child has a parent") };
    assert_eq!(*started_by, proc("a", 0));
    assert_eq!(read(&child, &started_by, "address"), Some(Value::from("of the parent")));
}
