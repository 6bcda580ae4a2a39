//! Our client and our server over TCP: a process in a container that has another file system finds no UNIX-domain socket,
//! and a process that gets no segment is told of its job. The answers are those that its peers read from the segment.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use modex::types::{ProcId, Rank, Scope, Value};
use modex::{Client, ConnectError, FenceOptions, GetError, GetOptions, LocalHost};
use support::{TestServer, description, namespace, proc};

#[test]
fn client_process() {}

fn two_nodes() -> TestServer {
    let node = TestServer::start("node0", LocalHost);
    let description = description(5, &[("node0", "0,2,4"), ("node1", "1,3")]);
    node.server.register_namespace(&namespace("job"), 2, description).unwrap();
    [0, 2].into_iter().for_each(|rank| node.register_client("job", rank));
    node
}

/// What the server of a process says, as seen where its socket is not.
fn environment_elsewhere(node: &TestServer, rank: u32) -> Vec<(String, String)> {
    let hide = |(name, value): (String, String)| match name.as_str() {
        "MODEX_SERVER_URI" => (name, value.replace(";unix:/", ";unix:/nowhere/")),
        _ => (name, value),
    };
    node.server.setup_fork(&proc("job", rank)).unwrap().into_iter().map(hide).collect()
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
    // The host of this test knows no other node.
    let here = FenceOptions::new().procs([proc("job", 0), proc("job", 2)]).collect(true);
    let pending = near.fence_nb(&here).unwrap();
    far.fence(&here).unwrap();
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

/// Whoever takes the way around is refused as by the door: nobody registered rank 4.
#[test]
fn an_unknown_process_is_refused_over_tcp_too() {
    let node = two_nodes();
    let error = Client::builder().env(environment_elsewhere(&node, 4)).connect().unwrap_err();
    assert!(matches!(error, ConnectError::ServerUnreachable { .. } | ConnectError::Refused { .. }), "{error}");
}
