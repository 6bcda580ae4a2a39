//! The server's own service of published data, with real clients.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::mpsc;
use std::time::Duration;

use modex::keys;
use modex::types::codes::{persistence, range};
use modex::types::{AsStatus, Info, Key, Pdata, ProcId, Status, Value};
use modex::{
    Capabilities, Client, FenceOptions, Host, LocalHost, Lookup, Publish, Requester, Responder, Server, Tool,
    ToolAdmission, ToolDirections, ToolSupport,
};
use support::{TestServer, namespace, proc};

fn key(name: &'static str) -> Key {
    Key::from_static(name)
}

fn data(name: &'static str, number: u32) -> Info {
    Info::new(key(name), number)
}

fn lasting(code: u8) -> Info {
    Info::new(key(keys::PERSISTENCE.name()), Value::Persistence(code))
}

fn waiting(seconds: i32) -> Vec<Info> {
    vec![Info::new(key(keys::WAIT.name()), 0), Info::new(key(keys::TIMEOUT.name()), seconds)]
}

fn looked_up(client: &Client, name: &'static str, directives: Vec<Info>) -> Result<(ProcId, Value), Status> {
    let found = client.lookup(vec![key(name)], directives).wait().map_err(|error| error.status())?;
    let Pdata { proc, value, .. } = found.results.into_iter().next().unwrap();
    Ok((proc, value))
}

fn two() -> (TestServer, Client, Client) {
    let node = TestServer::with_name_service(LocalHost);
    node.register_local_job("job", 2);
    let (one, other) = (node.connect("job", 0), node.connect("job", 1));
    (node, one, other)
}

#[test]
fn clients_publish_look_up_and_withdraw() {
    let (node, one, other) = two();
    one.publish(vec![data("port", 7)]).wait().unwrap();
    assert_eq!(looked_up(&other, "port", Vec::new()), Ok((proc("job", 0), Value::Uint32(7))));
    let again = other.publish(vec![data("port", 8)]).wait().unwrap_err();
    assert_eq!(again.status(), Status::ERR_DUPLICATE_KEY);
    let partly = other.lookup(vec![key("port"), key("none")], Vec::new()).wait().unwrap();
    assert_eq!((partly.status, partly.results.len()), (Status::ERR_PARTIAL_SUCCESS, 1));
    assert_eq!(other.unpublish(vec![key("port")], Vec::new()).wait().unwrap_err().status(), Status::ERR_NOT_FOUND);
    one.unpublish(vec![key("port")], Vec::new()).wait().unwrap();
    assert_eq!(looked_up(&other, "port", Vec::new()), Err(Status::ERR_NOT_FOUND));
    // The server's own process takes part.
    node.server.publish(vec![data("host", 9)]).wait().unwrap();
    let expected = (node.server.proc().clone(), Value::Uint32(9));
    assert_eq!(looked_up(&one, "host", Vec::new()), Ok(expected));
    one.publish(vec![data("for host", 1), Info::new(key(keys::RANGE.name()), Value::DataRange(range::RANGE_RM))])
        .wait()
        .unwrap();
    assert_eq!(looked_up(&other, "for host", Vec::new()), Err(Status::ERR_NOT_FOUND));
    assert_eq!(node.server.lookup(vec![key("for host")], Vec::new()).wait().unwrap().results.len(), 1);
    node.server.unpublish(Vec::new(), Vec::new()).wait().unwrap();
    assert_eq!(looked_up(&one, "host", Vec::new()), Err(Status::ERR_NOT_FOUND));
}

#[test]
fn lookups_wait_for_data_and_end_with_their_time() {
    let (node, one, other) = two();
    let (sender, answers) = mpsc::channel();
    let to_test = sender.clone();
    other
        .lookup(vec![key("a"), key("b")], waiting(0))
        .then(move |found| to_test.send(found.map(|found| found.results.len())).unwrap())
        .unwrap();
    node.server
        .lookup(vec![key("b")], waiting(0))
        .then(move |found| sender.send(found.map(|found| found.results.len())).unwrap())
        .unwrap();
    assert_eq!(looked_up(&other, "never", waiting(1)), Err(Status::ERR_TIMEOUT));
    one.publish(vec![data("a", 1)]).wait().unwrap();
    assert!(answers.try_recv().is_err());
    one.publish(vec![data("b", 2)]).wait().unwrap();
    let mut counts = [(); 2].map(|()| answers.recv_timeout(Duration::from_secs(20)).unwrap().unwrap());
    counts.sort_unstable();
    assert_eq!(counts, [1, 2]);
}

/// Data that is read once is left for others if the process of the lookup is gone.
#[test]
fn a_lookup_ends_with_its_process() {
    let (_node, one, other) = two();
    other.lookup(vec![key("a")], waiting(0)).then(drop).unwrap();
    other.publish(vec![data("there", 1), lasting(persistence::PERSIST_PROC)]).wait().unwrap();
    other.finalize().unwrap();
    while looked_up(&one, "there", Vec::new()).is_ok() {}
    one.publish(vec![data("a", 1), lasting(persistence::PERSIST_FIRST_READ)]).wait().unwrap();
    assert!(looked_up(&one, "a", Vec::new()).is_ok());
}

#[test]
fn data_ends_with_its_process_or_its_job() {
    let node = TestServer::with_name_service(LocalHost);
    for job in ["job", "reader"] {
        node.register_local_job(job, 1);
    }
    let reader = node.connect("reader", 0);
    let publisher = node.connect("job", 0);
    for (name, code) in [
        ("process", persistence::PERSIST_PROC),
        ("job", persistence::PERSIST_APP),
        ("session", persistence::PERSIST_SESSION),
    ] {
        publisher.publish(vec![data(name, 1), lasting(code)]).wait().unwrap();
    }
    let status = |name| looked_up(&reader, name, Vec::new()).map(drop);
    assert_eq!(["process", "job", "session"].map(status), [Ok(()); 3]);
    publisher.finalize().unwrap();
    while status("process").is_ok() {}
    assert_eq!(["job", "session"].map(status), [Ok(()); 2]);
    node.server.deregister_namespace(&namespace("job")).wait().unwrap();
    assert_eq!(["job", "session"].map(status), [Err(Status::ERR_NOT_FOUND), Ok(())]);
}

#[test]
fn a_tools_data_ends_with_its_connection_unless_it_says_otherwise() {
    let directory = tempfile::tempdir().unwrap();
    let tools = ToolSupport { admission: ToolAdmission::Assigned, ..ToolSupport::default() };
    let builder = Server::builder().tmpdir(directory.path()).tools(tools).name_service();
    let server = builder.start(LocalHost).unwrap();
    let connect = || {
        let directions = ToolDirections { address: Some(server.uri()), ..ToolDirections::default() };
        Tool::builder().directions(directions).connect().unwrap()
    };
    let reader = connect();
    let reader = reader.client().unwrap();
    let tool = connect();
    let session = lasting(persistence::PERSIST_SESSION);
    tool.client().unwrap().publish(vec![data("stays", 1), session]).wait().unwrap();
    tool.client().unwrap().publish(vec![data("goes", 1)]).wait().unwrap();
    assert!(looked_up(&reader, "goes", Vec::new()).is_ok());
    tool.finalize().unwrap();
    while looked_up(&reader, "goes", Vec::new()).is_ok() {}
    assert!(looked_up(&reader, "stays", Vec::new()).is_ok());
}

/// A host that publishes, and no more.
struct Publisher(mpsc::Sender<ProcId>);

impl Host for Publisher {
    fn capabilities(&self) -> Capabilities {
        Capabilities::PUBLISH
    }

    fn publish(&self, requester: Requester, _: Publish, reply: Responder<()>) {
        self.0.send(requester.proc).unwrap();
        reply.succeed(());
    }

    fn lookup(&self, _: Requester, _: Lookup, _: Responder<Vec<Pdata>>) {
        unreachable!("the host has not declared it");
    }
}

#[test]
fn the_hosts_own_functions_come_first() {
    let (sender, published) = mpsc::channel();
    let node = TestServer::with_name_service(Publisher(sender));
    node.register_local_job("job", 1);
    let client = node.connect("job", 0);
    client.publish(vec![data("a", 1)]).wait().unwrap();
    node.server.publish(vec![data("a", 1)]).wait().unwrap();
    assert_eq!([published.recv().unwrap(), published.recv().unwrap()], [proc("job", 0), node.server.proc().clone()]);
    assert_eq!(looked_up(&client, "a", Vec::new()), Err(Status::ERR_NOT_FOUND), "the server has not got it");
    // A host that gives its function away.
    node.server.set_capabilities(Capabilities::empty()).wait().unwrap();
    client.publish(vec![data("a", 1)]).wait().unwrap();
    node.server.publish(vec![data("b", 1)]).wait().unwrap();
    assert!(looked_up(&client, "a", Vec::new()).is_ok() && looked_up(&client, "b", Vec::new()).is_ok());
}

#[test]
fn a_server_without_the_service_and_a_closed_one_refuse() {
    let node = TestServer::local();
    node.register_local_job("job", 1);
    let client = node.connect("job", 0);
    let refused = client.publish(vec![data("a", 1)]).wait().unwrap_err();
    assert_eq!(refused.status(), Status::ERR_NOT_SUPPORTED);
    assert_eq!(looked_up(&client, "a", Vec::new()), Err(Status::ERR_NOT_SUPPORTED));
    let refused = node.server.unpublish(Vec::new(), Vec::new()).wait().unwrap_err();
    assert_eq!(refused.status(), Status::ERR_NOT_SUPPORTED);
    let closed = TestServer::with_name_service(LocalHost);
    let (sender, answer) = mpsc::channel();
    closed.server.lookup(vec![key("a")], waiting(0)).then(move |found| sender.send(found).unwrap()).unwrap();
    closed.server.close(Duration::from_secs(20));
    let failure = answer.recv_timeout(Duration::from_secs(20)).unwrap().unwrap_err();
    assert_eq!(failure.status(), Status::ERR_SERVER_NOT_AVAIL);
    assert!(closed.server.lookup(vec![key("a")], Vec::new()).wait().is_err());
}

/// Many processes publish and look up each other's data at the same time.
#[test]
fn a_job_exchanges_names() {
    const SIZE: u32 = 8;
    let node = TestServer::with_name_service(LocalHost);
    node.register_local_job("job", SIZE);
    std::thread::scope(|scope| {
        for rank in 0..SIZE {
            let node = &node;
            scope.spawn(move || {
                let client = node.connect("job", rank);
                let name = |rank: u32, round: u32| Key::new(format!("{rank}.{round}")).unwrap();
                for round in 0..20 {
                    client.publish(vec![Info::new(name(rank, round), rank)]).wait().unwrap();
                    let all: Vec<Key> = (0..SIZE).map(|other| name(other, round)).collect();
                    let found = client.lookup(all, waiting(0)).wait().unwrap();
                    let numbers: Vec<Option<u32>> = found.results.iter().map(|data| data.value.as_u32()).collect();
                    assert_eq!(numbers, (0..SIZE).map(Some).collect::<Vec<_>>());
                }
                client.fence(&FenceOptions::new()).wait().unwrap();
                client.finalize().unwrap();
            });
        }
    });
}
