//! Our client and our server over TCP. A process in a container with another file system finds no UNIX-domain socket,
//! and a process without a segment gets its job information by message. Its answers equal those that its peers read
//! from the segment.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use modex::types::AsStatus;
use modex::types::{ProcId, Rank, Scope, Status, Value};
use modex::{Client, ConnectError, FenceOptions, GetError, GetOptions, LocalHost, keys};
use support::{TestServer, description, namespace, proc, without_socket};

#[test]
fn client_process() {}

fn two_nodes() -> TestServer {
    let node = TestServer::start("node0", LocalHost);
    let description = description(5, &[("node0", "0,2,4"), ("node1", "1,3")]);
    node.server.register_namespace(&namespace("job"), 2, description).wait().unwrap();
    [0, 2].into_iter().for_each(|rank| node.register_client("job", rank));
    node
}

/// The variables of a process's server, without its socket.
fn environment_elsewhere(node: &TestServer, rank: u32) -> Vec<(String, String)> {
    without_socket(node.server.setup_fork(&proc("job", rank)).unwrap())
}

/// Another thread writes the description of a large job. Requests behind it stay in order, and two clients get it.
#[test]
fn the_clients_of_a_large_job_get_their_job_information_over_tcp() {
    let node = TestServer::start("node0", LocalHost);
    let elsewhere = (2..5000).map(|rank| rank.to_string()).collect::<Vec<_>>().join(",");
    let description = description(5000, &[("node0", "0,1"), ("node1", &elsewhere)]);
    node.server.register_namespace(&namespace("job"), 2, description).wait().unwrap();
    [0, 1].into_iter().for_each(|rank| node.register_client("job", rank));
    let clients = [0, 1].map(|rank| Client::builder().env(environment_elsewhere(&node, rank)).connect().unwrap());
    for client in &clients {
        client.put(Scope::Global, "k", 1_u32).unwrap();
        client.commit().unwrap();
        assert_eq!(answer(client, &proc("job", 4999), "pmix.hname").unwrap(), Value::from("node1"));
        assert_eq!(
            answer(client, &ProcId { rank: Rank::Wildcard, ..proc("job", 0) }, "pmix.job.size").unwrap(),
            Value::from(5000_u32)
        );
    }
}

fn answer(client: &Client, proc: &ProcId, key: &str) -> Result<Value, GetError> {
    client.get_value(proc, key, &GetOptions::new().immediate()).map(|found| found.into_value().unwrap())
}

#[test]
fn a_process_without_its_servers_socket_gets_the_same_answers_over_tcp() {
    let node = two_nodes();
    let near = node.connect("job", 0);
    let far = Client::builder().env(environment_elsewhere(&node, 2)).connect().unwrap();
    assert!(near.reads_segment() && !far.reads_segment());
    for client in [&near, &far] {
        client.put(Scope::Global, "text", format!("of {}", client.proc().rank)).unwrap();
        client.put(Scope::Local, "near", 7_u32).unwrap();
        client.put(Scope::Remote, "far", 9_u32).unwrap();
        client.commit().unwrap();
    }
    // The host of this test serves no other node.
    let here = FenceOptions::new().procs([proc("job", 0), proc("job", 2)]).collect(true);
    let pending = near.fence(&here).start().unwrap();
    far.fence(&here).wait().unwrap();
    pending.wait().unwrap();

    let keys = [
        "pmix.job.size",
        "pmix.max.size",
        "pmix.num.nodes",
        "pmix.nlist",
        "pmix.nmap",
        "pmix.pmap",
        "pmix.hname",
        "pmix.nodeid",
        "pmix.lrank",
        "pmix.nrank",
        "pmix.lpeers",
        "pmix.lldr",
        "pmix.local.size",
        "pmix.appnum",
        "pmix.apprank",
        "pmix.grank",
        "pmix.univ.size",
        "no.such.key",
        "pmix.no.such.key",
        "text",
        "near",
    ];
    let ranks = (0..6).map(Rank::from).chain([Rank::Wildcard]);
    let mut found = 0;
    for rank in ranks {
        for key in keys {
            let whose = ProcId { namespace: namespace("job"), rank };
            let (one, other) = (answer(&near, &whose, key), answer(&far, &whose, key));
            assert_eq!(one, other, "{key} of {rank}");
            found += u32::from(one.is_ok());
        }
    }
    assert!(found > 40, "{found} values compared");
    near.finalize().unwrap();
    far.finalize().unwrap();
}

/// The other way does not skip the check: rank 4 is not registered.
#[test]
fn an_unknown_process_is_refused_over_tcp_too() {
    let node = two_nodes();
    let error = Client::builder().env(environment_elsewhere(&node, 4)).connect().unwrap_err();
    assert!(matches!(error, ConnectError::ServerUnreachable { .. } | ConnectError::Refused { .. }), "{error}");
}

/// A refresh of a key that another job's process had never put dropped all cached values of that job. A later Get with
/// `PMIX_OPTIONAL`, which asks no server, did not find them any more.
#[test]
fn a_refresh_that_finds_nothing_leaves_the_rest_of_another_job() {
    let node = TestServer::local();
    for name in ["job", "other"] {
        node.register_local_job(name, 2);
    }
    let peer = node.connect("other", 1);
    peer.put(Scope::Global, "here", 1_u32).unwrap();
    peer.commit().unwrap();
    let client = node.connect_over_tcp("job", 0);
    let whole = ProcId::new(namespace("other"), Rank::Wildcard);
    let kept = [(&proc("other", 1), "here", 1), (&whole, keys::JOB_SIZE.name(), 2)];
    let (immediate, optional) = (GetOptions::new().immediate(), GetOptions::new().optional());
    for (proc, key, value) in kept {
        assert_eq!(client.get_value(proc, key, &immediate).unwrap().as_u64(), Some(value));
    }
    for rank in [0, 1] {
        let missing = client.get_value(&proc("other", rank), "never", &immediate.clone().refresh()).unwrap_err();
        assert_eq!(missing.status(), Status::ERR_NOT_FOUND, "{missing}");
    }
    for (proc, key, value) in kept {
        assert_eq!(client.get_value(proc, key, &optional).unwrap().as_u64(), Some(value), "{key}");
    }
    // For a new job of that name, neither a value of the old job nor its old description is found.
    node.server.deregister_namespace(&namespace("other")).wait().unwrap();
    node.register_local_job("other", 1);
    for (proc, key, _) in kept {
        let gone = client.get_value(proc, key, &optional);
        assert!(gone.is_ok(), "who asks nobody hears of nothing: {gone:?}");
    }
    let missing = client.get_value(&proc("other", 1), "here", &immediate.refresh()).unwrap_err();
    assert_eq!(missing.status(), Status::ERR_NOT_FOUND, "{missing}");
    let missing = client.get_value(&proc("other", 1), "here", &optional).unwrap_err();
    assert_eq!(missing.status(), Status::ERR_NOT_FOUND, "{missing}");
}
