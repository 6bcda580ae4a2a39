//! Every request for the host, from a client through the socket to the host and back, in both forms: waiting, and with
//! a callback.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::{Arc, Mutex, OnceLock, Weak, mpsc};

use modex::types::AsStatus;
use modex::types::codes::iof_channel;
use modex::types::{App, Info, Key, Namespace, Pdata, ProcId, Query, Rank, ResourceUnit, Status, Text, Value};
use modex::{
    Allocate, Capabilities, Client, Connect, Credential, Delivery, FabricRegister, FabricUpdate, GetCredential,
    GetOptions, GroupOperation, GroupRequest, Host, IofOutput, IofPull, IofPush, JobControl, Log, Lookup, Monitor,
    Publish, QueryInfo, Requester, ResourceBlock, Responder, Server, SessionControl, Spawn, Unpublish,
    ValidateCredential,
};
use support::{TestServer, description, ids, namespace, proc};

/// A host with a simple version of every function.
#[derive(Clone, Default)]
struct Everything(Arc<Shared>);

#[derive(Default)]
struct Shared {
    server: OnceLock<Weak<Server>>,
    published: Mutex<Vec<Pdata>>,
    heard: Mutex<Vec<String>>,
}

impl Everything {
    fn note(&self, what: &str, requester: &Requester) {
        assert_eq!((requester.uid, requester.gid), ids());
        self.hear(format!("{what} of {}", requester.proc));
    }

    fn hear(&self, what: String) {
        self.0.heard.lock().unwrap().push(what);
    }

    fn heard(&self) -> Vec<String> {
        std::mem::take(&mut self.0.heard.lock().unwrap())
    }

    fn server(&self) -> Arc<Server> {
        self.0.server.get().unwrap().upgrade().unwrap()
    }
}

fn fact() -> Info {
    Info::new(Key::from_static("fact"), 42_u32)
}

impl Host for Everything {
    fn capabilities(&self) -> Capabilities {
        let passed = Capabilities::PUBLISH | Capabilities::LOOKUP | Capabilities::UNPUBLISH | Capabilities::SPAWN;
        let connected = Capabilities::CONNECT | Capabilities::DISCONNECT | Capabilities::GROUP;
        let tools = Capabilities::QUERY | Capabilities::LOG | Capabilities::ALLOCATE | Capabilities::JOB_CONTROL;
        let rest = Capabilities::MONITOR | Capabilities::GET_CREDENTIAL | Capabilities::VALIDATE_CREDENTIAL;
        let scheduler = Capabilities::RESOURCE_BLOCK | Capabilities::SESSION_CONTROL;
        let fabric = Capabilities::FABRIC_REGISTER | Capabilities::FABRIC_UPDATE;
        passed | connected | tools | rest | scheduler | fabric | Capabilities::IOF_PULL | Capabilities::IOF_PUSH
    }

    fn publish(&self, requester: Requester, request: Publish, reply: Responder<()>) {
        self.note("publish", &requester);
        let data = request.info.into_iter().filter(|info| !info.key.is_reserved());
        let pdata = |info: Info| Pdata { proc: requester.proc.clone(), key: info.key, value: info.value };
        self.0.published.lock().unwrap().extend(data.map(pdata));
        reply.succeed(());
    }

    fn lookup(&self, requester: Requester, request: Lookup, reply: Responder<Vec<Pdata>>) {
        self.note("lookup", &requester);
        let published = self.0.published.lock().unwrap();
        let found: Vec<Pdata> = published.iter().filter(|data| request.keys.contains(&data.key)).cloned().collect();
        match found.len() {
            0 => reply.fail(Status::ERR_NOT_FOUND),
            count if count == request.keys.len() => reply.succeed(found),
            _ => reply.partial(Status::ERR_PARTIAL_SUCCESS, found),
        }
    }

    fn unpublish(&self, requester: Requester, request: Unpublish, reply: Responder<()>) {
        self.note("unpublish", &requester);
        let is_meant = |data: &Pdata| request.keys.is_empty() || request.keys.contains(&data.key);
        self.0.published.lock().unwrap().retain(|data| !is_meant(data));
        reply.succeed(());
    }

    fn spawn(&self, requester: Requester, request: Spawn, reply: Responder<Namespace>) {
        self.note("spawn", &requester);
        let Some(size) = request.apps.first().and_then(|app| u32::try_from(app.processes_max).ok()) else {
            return reply.fail(Status::ERR_BAD_PARAM);
        };
        let child = namespace("child");
        self.server().register_namespace(&child, 0, description(size, &[("node1", "0-1")])).wait().unwrap();
        reply.succeed(child);
    }

    fn connect(&self, request: Connect, reply: Responder<()>) {
        self.hear(format!("connect of {}", request.procs.len()));
        reply.succeed(());
    }

    fn disconnect(&self, request: Connect, reply: Responder<()>) {
        self.hear(format!("disconnect of {}", request.procs.len()));
        reply.fail(Status::ERR_INVALID_OPERATION);
    }

    fn query(&self, requester: Requester, _: QueryInfo, reply: Responder<Vec<Info>>) {
        self.note("query", &requester);
        reply.partial(Status::ERR_PARTIAL_SUCCESS, vec![fact()]);
    }

    fn log(&self, requester: Requester, _: Log, reply: Responder<()>) {
        self.note("log", &requester);
        reply.succeed(());
    }

    fn allocate(&self, requester: Requester, request: Allocate, reply: Responder<Vec<Info>>) {
        self.note(&format!("allocate {}", request.directive), &requester);
        reply.succeed(vec![fact()]);
    }

    fn job_control(&self, requester: Requester, request: JobControl, reply: Responder<Vec<Info>>) {
        self.note(&format!("control {}", request.targets.len()), &requester);
        // After this function has returned, from another thread.
        drop(std::thread::Builder::new().spawn(move || reply.succeed(Vec::new())).unwrap());
    }

    fn monitor(&self, requester: Requester, request: Monitor, reply: Responder<Vec<Info>>) {
        self.note(&format!("monitor {}", request.error.to_raw()), &requester);
        reply.succeed(Vec::new());
    }

    fn get_credential(&self, requester: Requester, _: GetCredential, reply: Responder<Credential>) {
        self.note("credential", &requester);
        reply.succeed(Credential { bytes: b"trust me".to_vec(), info: vec![fact()] });
    }

    fn validate_credential(&self, requester: Requester, request: ValidateCredential, reply: Responder<Vec<Info>>) {
        self.note("validate", &requester);
        match request.credential.as_slice() {
            b"trust me" => reply.succeed(vec![fact()]),
            _ => reply.fail(Status::ERR_INVALID_CRED),
        }
    }

    fn iof_pull(&self, requester: Requester, request: IofPull, reply: Responder<()>) {
        let is_end = request.directives.iter().any(|info| info.key.as_str() == modex::keys::IOF_STOP.name());
        self.note(if is_end { "stop" } else { "pull" }, &requester);
        reply.succeed(());
    }

    fn iof_push(&self, requester: Requester, request: IofPush, reply: Responder<()>) {
        self.note(&format!("stdin {:?}", String::from_utf8(request.bytes).unwrap()), &requester);
        reply.succeed(());
    }

    fn fabric_register(&self, requester: Requester, request: FabricRegister, reply: Responder<Vec<Info>>) {
        self.note(&format!("fabric {}", request.directives.first().unwrap().key), &requester);
        reply.succeed(vec![fact()]);
    }

    fn fabric_update(&self, requester: Requester, request: FabricUpdate, reply: Responder<Vec<Info>>) {
        self.note(&format!("update {}", request.index), &requester);
        reply.succeed(vec![fact()]);
    }

    fn resource_block(&self, requester: Requester, request: ResourceBlock, reply: Responder<()>) {
        let ResourceBlock { directive, name, units, .. } = request;
        self.note(&format!("block {directive} {name:?} {}", units.first().unwrap().count), &requester);
        reply.succeed(());
    }

    fn session_control(&self, requester: Requester, request: SessionControl, reply: Responder<Vec<Info>>) {
        self.note(&format!("session {}", request.session), &requester);
        reply.succeed(vec![fact()]);
    }

    fn group(&self, request: GroupRequest, reply: Responder<Vec<Info>>) {
        if request.operation == GroupOperation::Destruct {
            self.hear(format!("end of group {}", request.id));
            return reply.succeed(Vec::new());
        }
        let is_local = request.directives.iter().any(|directive| directive.key.as_str() == "pmix.grp.lcl");
        self.hear(format!("{}group {}", if is_local { "local " } else { "" }, request.id));
        let number = (!is_local).then(|| Info::new(Key::from_static("pmix.grp.ctxid"), Value::Size(99)));
        reply.succeed(number.into_iter().collect());
    }
}

/// A job of two clients in this process.
fn start() -> (TestServer, Everything, [Client; 2]) {
    let host = Everything::default();
    let node = TestServer::start("node0", host.clone());
    assert!(host.0.server.set(Arc::downgrade(&node.server)).is_ok());
    node.register_local_job("job", 2);
    let clients = [0, 1].map(|rank| node.connect("job", rank));
    (node, host, clients)
}

/// The result that a function with a callback gives to its callback.
fn called_back<T: Send + 'static>(begin: impl FnOnce(Box<dyn FnOnce(T) + Send>)) -> T {
    let (done, results) = mpsc::channel();
    begin(Box::new(move |result| done.send(result).unwrap()));
    results.recv().unwrap()
}

fn keys(names: &[&'static str]) -> Vec<Key> {
    names.iter().map(|name| Key::from_static(name)).collect()
}

fn data(name: &'static str, value: u32) -> Info {
    Info::new(Key::from_static(name), value)
}

fn app(processes_max: i32) -> App {
    App {
        command: Some(Text::from("/bin/true")),
        argv: Vec::new(),
        environment: Vec::new(),
        working_directory: None,
        processes_max,
        info: Vec::new(),
    }
}

#[test]
fn published_data_are_found_until_they_are_withdrawn() {
    let (_node, host, [publisher, reader]) = start();
    publisher.publish(vec![data("port", 7), data("other", 8)]).wait().unwrap();
    let found = reader.lookup(keys(&["port"]), Vec::new()).wait().unwrap();
    assert_eq!(found.status, Status::SUCCESS);
    let port = Pdata { proc: proc("job", 0), key: Key::from_static("port"), value: Value::Uint32(7) };
    assert_eq!(found.results, std::slice::from_ref(&port));
    let some = called_back(|done| reader.lookup(keys(&["port", "none"]), Vec::new()).then(done).unwrap()).unwrap();
    assert_eq!((some.status, some.results), (Status::ERR_PARTIAL_SUCCESS, vec![port]));
    publisher.unpublish(keys(&["port"]), Vec::new()).wait().unwrap();
    assert_eq!(reader.lookup(keys(&["port"]), Vec::new()).wait().unwrap_err().status(), Status::ERR_NOT_FOUND);
    called_back(|done| publisher.publish(vec![data("port", 9)]).then(done).unwrap()).unwrap();
    called_back(|done| publisher.unpublish(Vec::new(), Vec::new()).then(done).unwrap()).unwrap();
    assert_eq!(host.0.published.lock().unwrap().len(), 0);
    assert_eq!(host.heard()[..2], ["publish of job:0", "lookup of job:1"]);
}

#[test]
fn a_spawned_job_is_known_to_its_parent() {
    let (_node, host, [parent, _]) = start();
    let child = parent.spawn(Vec::new(), vec![app(2)]).wait().unwrap();
    assert_eq!(child, namespace("child"));
    let whole = ProcId::new(child, Rank::Wildcard);
    let size = parent.get_value(&whole, "pmix.job.size", &GetOptions::new()).unwrap();
    assert_eq!(size.as_u64(), Some(2));
    let named = called_back(|done| parent.spawn(Vec::new(), vec![app(2)]).then(done).unwrap());
    assert_eq!(named.unwrap(), namespace("child"));
    assert_eq!(parent.spawn(Vec::new(), Vec::new()).wait().unwrap_err().status(), Status::ERR_BAD_PARAM);
    assert_eq!(host.heard(), ["spawn of job:0"; 3]);
}

#[test]
fn processes_connect_and_disconnect_together() {
    let (_node, host, clients) = start();
    let both = || vec![proc("job", 0), proc("job", 1)];
    std::thread::scope(|scope| {
        let other = scope.spawn(|| clients[1].connect_processes(both(), Vec::new()).wait());
        called_back(|done| clients[0].connect_processes(both(), Vec::new()).then(done).unwrap()).unwrap();
        other.join().unwrap().unwrap();
    });
    std::thread::scope(|scope| {
        let other = scope.spawn(|| clients[1].disconnect_processes(both(), Vec::new()).wait());
        let result = called_back(|done| clients[0].disconnect_processes(both(), Vec::new()).then(done).unwrap());
        assert_eq!(result.unwrap_err().status(), Status::ERR_INVALID_OPERATION);
        assert_eq!(other.join().unwrap().unwrap_err().status(), Status::ERR_INVALID_OPERATION);
    });
    assert_eq!(host.heard(), ["connect of 2", "disconnect of 2"]);
}

#[test]
fn groups_are_formed_with_a_context_number_and_dissolved() {
    let (_node, host, clients) = start();
    let both = || vec![proc("job", 0), proc("job", 1)];
    let wish = || vec![Info::new(Key::from_static("pmix.grp.actxid"), true)];
    std::thread::scope(|scope| {
        let other = scope.spawn(|| clients[1].group_construct("g", both(), wish()).wait().unwrap());
        let group = called_back(|done| clients[0].group_construct("g", both(), wish()).then(done).unwrap()).unwrap();
        assert_eq!(group, other.join().unwrap());
        assert_eq!(group.status, Status::SUCCESS);
        assert_eq!((group.results.members, group.results.context_id), (both(), Some(99)));
    });
    std::thread::scope(|scope| {
        let other = scope.spawn(|| clients[1].group_destruct("g", Vec::new()).wait());
        called_back(|done| clients[0].group_destruct("g", Vec::new()).then(done).unwrap()).unwrap();
        other.join().unwrap().unwrap();
    });
    assert_eq!(clients[0].group_destruct("g", Vec::new()).wait().unwrap_err().status(), Status::ERR_NOT_FOUND);
    let alone = clients[0].group_construct("alone", vec![proc("job", 0)], Vec::new()).wait().unwrap();
    assert_eq!((alone.results.members, alone.results.context_id), (vec![proc("job", 0)], None));
    assert_eq!(host.heard(), ["group g", "end of group g", "local group alone"]);
}

#[test]
fn service_requests_reach_the_host_and_its_answers_the_process() {
    let (_node, host, [client, _]) = start();
    let queries = || vec![Query { keys: vec![Text::from("nobody.knows")], qualifiers: Vec::new() }];
    let some = client.query(queries()).wait().unwrap();
    assert_eq!((some.status, some.results), (Status::ERR_PARTIAL_SUCCESS, vec![fact()]));
    assert_eq!(called_back(|done| client.query(queries()).then(done).unwrap()).unwrap().results, [fact()]);
    client.log(vec![data("pmix.log.stderr", 1)], Vec::new()).wait().unwrap();
    called_back(|done| client.log(Vec::new(), Vec::new()).then(done).unwrap()).unwrap();
    assert_eq!(client.allocate(1, Vec::new()).wait().unwrap().results, [fact()]);
    assert_eq!(called_back(|done| client.allocate(2, Vec::new()).then(done).unwrap()).unwrap().results, [fact()]);
    assert_eq!(client.job_control(Vec::new(), Vec::new()).wait().unwrap().results, []);
    let targets = vec![proc("job", 1)];
    called_back(|done| client.job_control(targets, Vec::new()).then(done).unwrap()).unwrap();
    client.monitor(fact(), Status::from_raw(-109), Vec::new()).wait().unwrap();
    called_back(|done| client.monitor(fact(), Status::from_raw(-110), Vec::new()).then(done).unwrap()).unwrap();
    let expected = [
        "query",
        "query",
        "log",
        "log",
        "allocate 1",
        "allocate 2",
        "control 0",
        "control 1",
        "monitor -109",
        "monitor -110",
    ];
    assert_eq!(host.heard(), expected.map(|what| format!("{what} of job:0")));
}

/// The Python bindings always have a function `fabric`. With it a described fabric was of no use to its own process.
#[test]
fn a_server_with_a_fabric_answers_its_own_process_and_the_host_all_others() {
    let (host, directory) = (Everything::default(), tempfile::tempdir().unwrap());
    let builder = Server::builder().hostname("node0").tmpdir(directory.path());
    let builder = builder.fabric(modex::FabricSource::parse("test:nodes:2;plane:d:1").unwrap());
    let node = TestServer { server: Arc::new(builder.start(host.clone()).unwrap()), directory };
    node.register_local_job("job", 1);
    let plane = || vec![Info::new(Key::from_static(modex::keys::FABRIC_PLANE.name()), "plane000")];
    assert_eq!(node.connect("job", 0).fabric_register(plane()).wait().unwrap().results, [fact()]);
    let own = node.server.fabric_register(plane()).wait().unwrap().results;
    assert!(own.contains(plane().first().unwrap()), "{own:?}");
    assert_eq!(host.heard(), ["fabric pmix.fab.plane of job:0"]);
}

#[test]
fn requests_for_a_scheduler_reach_the_host_from_a_client_and_from_the_server_itself() {
    let (node, host, [client, _]) = start();
    let plane = || vec![Info::new(Key::from_static(modex::keys::FABRIC_PLANE.name()), "10.0.0.0/8")];
    let blue = || Some(Text::from("blue"));
    let units = || vec![ResourceUnit { device_type: 2, count: 3 }];
    assert_eq!(client.fabric_register(plane()).wait().unwrap().results, [fact()]);
    assert_eq!(called_back(|done| client.fabric_update(7).then(done).unwrap()).unwrap().results, [fact()]);
    client.resource_block(1, blue(), units(), Vec::new()).wait().unwrap();
    assert_eq!(client.session_control(42, Vec::new()).wait().unwrap().results, [fact()]);
    assert_eq!(node.server.fabric_register(plane()).wait().unwrap().results, [fact()]);
    assert_eq!(node.server.fabric_update(7).wait().unwrap().results, [fact()]);
    node.server.resource_block(1, blue(), units(), Vec::new()).wait().unwrap();
    assert_eq!(node.server.session_control(42, Vec::new()).wait().unwrap().results, [fact()]);
    let expected = ["fabric pmix.fab.plane", "update 7", "block 1 Some(\"blue\") 3", "session 42"];
    let of = |proc: &ProcId| expected.map(|what| format!("{what} of {proc}"));
    assert_eq!(host.heard(), [of(client.proc()), of(node.server.proc())].concat());
}

#[test]
fn credentials_are_made_and_checked() {
    let (_node, _host, [client, other]) = start();
    let credential = client.get_credential(Vec::new()).wait().unwrap();
    assert_eq!(called_back(|done| client.get_credential(Vec::new()).then(done).unwrap()).unwrap(), credential);
    assert_eq!(other.validate_credential(credential.bytes, Vec::new()).wait().unwrap().results, [fact()]);
    let forged = called_back(|done| other.validate_credential(b"no".to_vec(), Vec::new()).then(done).unwrap());
    assert_eq!(forged.unwrap_err().status(), Status::ERR_INVALID_CRED);
}

/// Regression: a pull of a server's own process was not supported.
#[test]
fn a_server_pulls_the_output_that_its_host_delivers() {
    let (node, _host, _clients) = start();
    let (source, channel) = (proc("job", 1), iof_channel::FWD_STDOUT_CHANNEL);
    let output =
        |text: &str| IofOutput { source: source.clone(), channel, bytes: text.as_bytes().to_vec(), info: Vec::new() };
    let (seen, outputs) = mpsc::channel();
    let take = move |output: IofOutput| seen.send((output.bytes, output.info.len())).unwrap();
    node.server.iof_deliver(output("kept")).wait().unwrap();
    let number = node.server.iof_pull(vec![source.clone()], Vec::new(), channel, take).wait().unwrap();
    node.server.iof_deliver(output("a")).wait().unwrap();
    assert_eq!(node.server.iof_offer(output("b")).wait().unwrap(), Delivery::Copied);
    node.server.iof_deliver(output("")).wait().unwrap();
    let expected = [(b"kept".to_vec(), 0), (b"a".to_vec(), 0), (b"b".to_vec(), 0), (Vec::new(), 1)];
    assert_eq!([(); 4].map(|()| outputs.recv().unwrap()), expected, "the end says so");
    node.server.iof_deregister(number, Vec::new()).wait().unwrap();
    node.server.iof_deliver(output("c")).wait().unwrap();
    assert!(outputs.recv().is_err(), "the handler is gone");
    let again = node.server.iof_deregister(number, Vec::new()).wait();
    assert_eq!(again.unwrap_err().status(), Status::ERR_NOT_FOUND);
    let (seen, outputs) = mpsc::channel::<()>();
    let take = move |_| seen.send(()).unwrap();
    let stdin = node.server.iof_pull(vec![source.clone()], Vec::new(), iof_channel::FWD_STDIN_CHANNEL, take).wait();
    assert_eq!(stdin.unwrap_err().status(), Status::ERR_NOT_SUPPORTED);
    assert!(outputs.recv().is_err(), "the handler of a refused pull is gone");
}

/// Regression: a delivery between the call and its callback reached the handler before the callback.
#[test]
fn a_server_gets_the_number_of_a_pull_before_its_output() {
    let (node, _host, _clients) = start();
    let (source, channel) = (proc("job", 1), iof_channel::FWD_STDOUT_CHANNEL);
    let output =
        |text: &str| IofOutput { source: source.clone(), channel, bytes: text.as_bytes().to_vec(), info: Vec::new() };
    let (seen, events) = mpsc::channel();
    let (held, (blocked, begun)) = (mpsc::channel::<()>(), mpsc::channel());
    // Nothing else runs on the thread of the host's functions meanwhile.
    let hold = move |_| {
        blocked.send(()).unwrap();
        let _ = held.1.recv();
    };
    node.server.iof_deliver(output("kept")).then(hold).unwrap();
    begun.recv().unwrap();
    let numbered = seen.clone();
    let take = move |output: IofOutput| seen.send(String::from_utf8(output.bytes).unwrap()).unwrap();
    node.server
        .iof_pull(vec![source.clone()], Vec::new(), channel, take)
        .then(move |result| numbered.send(format!("number {}", result.unwrap())).unwrap())
        .unwrap();
    node.server.iof_deliver(output("early")).wait().unwrap();
    drop(held.0);
    assert_eq!([(); 3].map(|()| events.recv().unwrap()), ["number 1", "kept", "early"]);
}

#[test]
fn output_is_handed_to_who_pulled_it_until_it_ends_that() {
    let (node, host, [client, _]) = start();
    let stdout = iof_channel::FWD_STDOUT_CHANNEL;
    let output = |text: &str| IofOutput {
        source: proc("job", 1),
        channel: stdout,
        bytes: text.as_bytes().to_vec(),
        info: Vec::new(),
    };
    node.server.iof_deliver(output("kept")).wait().unwrap();
    let (seen, outputs) = mpsc::channel();
    let everybody = || vec![ProcId::new(namespace("job"), Rank::Wildcard)];
    let take = {
        let seen = seen.clone();
        move |output: IofOutput| seen.send(("first", output)).unwrap()
    };
    let first = client.iof_pull(everybody(), Vec::new(), stdout, take).wait().unwrap();
    assert_eq!(outputs.recv().unwrap(), ("first", output("kept")));
    // This client waits for nothing, so it reads unrequested messages.
    node.server.iof_deliver(output("live")).wait().unwrap();
    assert_eq!(outputs.recv().unwrap(), ("first", output("live")));
    let take = move |output: IofOutput| seen.send(("second", output)).unwrap();
    let second =
        called_back(|done| client.iof_pull(everybody(), Vec::new(), stdout, take).then(done).unwrap()).unwrap();
    assert_ne!(first, second);
    called_back(|done| node.server.iof_deliver(output("both")).then(done).unwrap()).unwrap();
    assert_eq!(outputs.recv().unwrap(), ("first", output("both")));
    assert_eq!(outputs.recv().unwrap(), ("second", output("both")));
    client.iof_deregister(first, Vec::new()).wait().unwrap();
    assert_eq!(client.iof_deregister(first, Vec::new()).wait().unwrap_err().status(), Status::ERR_NOT_FOUND);
    node.server.iof_deliver(output("end")).wait().unwrap();
    assert_eq!(outputs.recv().unwrap(), ("second", output("end")));
    called_back(|done| client.iof_deregister(second, Vec::new()).then(done).unwrap()).unwrap();
    // Both handlers are dropped, and their senders with them.
    assert!(outputs.recv().is_err());
    let refused = client.iof_pull(everybody(), Vec::new(), iof_channel::FWD_STDIN_CHANNEL, |_| {}).wait();
    assert_eq!(refused.unwrap_err().status(), Status::ERR_NOT_SUPPORTED);
    let targets = everybody();
    client.iof_push(targets, Vec::new(), b"yes".to_vec()).wait().unwrap();
    called_back(|done| client.iof_push(everybody(), Vec::new(), Vec::new()).then(done).unwrap()).unwrap();
    assert_eq!(host.heard(), ["pull of job:0", "stop of job:0", "stdin \"yes\" of job:0", "stdin \"\" of job:0"]);
}

/// Regression: output that a pull waited with was lost when the server closed.
#[test]
fn buffered_output_is_delivered_before_the_server_ends() {
    let (node, _host, [client, _other]) = start();
    let (source, channel) = (proc("job", 1), iof_channel::FWD_STDOUT_CHANNEL);
    let (seen, outputs) = mpsc::channel();
    let lost = Mutex::new(seen.clone());
    client
        .register_event_handler(&[Status::ERR_LOST_CONNECTION], &[], move |_| {
            lost.lock().unwrap().send(b"the server has gone".to_vec()).unwrap();
        })
        .wait()
        .unwrap();
    let take = move |output: IofOutput| seen.send(output.bytes).unwrap();
    let buffering = vec![Info::new(Key::from_static(modex::keys::IOF_BUFFERING_SIZE.name()), 100_u32)];
    client.iof_pull(vec![source.clone()], buffering, channel, take).wait().unwrap();
    let output = IofOutput { source, channel, bytes: b"few".to_vec(), info: Vec::new() };
    node.server.iof_deliver(output).wait().unwrap();
    drop(node);
    assert_eq!(outputs.recv().unwrap(), b"few");
}

#[test]
fn a_client_that_pulls_output_ends_in_order() {
    let (node, _host, [client, other]) = start();
    let everybody = vec![ProcId::new(namespace("job"), Rank::Wildcard)];
    client.iof_pull(everybody.clone(), Vec::new(), iof_channel::FWD_STDERR_CHANNEL, |_| {}).wait().unwrap();
    client.finalize().unwrap();
    other.iof_pull(everybody, Vec::new(), iof_channel::FWD_STDERR_CHANNEL, |_| {}).wait().unwrap();
    drop(node);
    // Its connection is gone; dropping it must not wait.
    drop(other);
}

#[test]
fn the_server_tells_who_runs_where() {
    let (node, _host, [client, _]) = start();
    let far = description(3, &[("node0", "0"), ("node1", "1,2")]);
    node.server.register_namespace(&namespace("far"), 1, far).wait().unwrap();
    let far = namespace("far");
    assert_eq!(client.resolve_peers(None, Some(&namespace("job"))).wait().unwrap(), [proc("job", 0), proc("job", 1)]);
    assert_eq!(client.resolve_peers(Some("node1"), Some(&far)).wait().unwrap(), [proc("far", 1), proc("far", 2)]);
    assert_eq!(client.resolve_peers(Some("node1"), None).wait().unwrap(), [proc("far", 1), proc("far", 2)]);
    assert_eq!(client.resolve_peers(Some("node9"), Some(&far)).wait().unwrap(), []);
    let all = called_back(|done| client.resolve_peers(None, None).then(done).unwrap()).unwrap();
    assert_eq!(all, [proc("far", 0), proc("job", 0), proc("job", 1)]);
    assert_eq!(client.resolve_nodes(Some(&far)).wait().unwrap(), Text::from("node0,node1"));
    let all = called_back(|done| client.resolve_nodes(None).then(done).unwrap()).unwrap();
    assert_eq!(all, Text::from("node0,node1"));
    let unknown = namespace("unknown");
    assert_eq!(client.resolve_nodes(Some(&unknown)).wait().unwrap_err().status(), Status::ERR_INVALID_NAMESPACE);
    assert_eq!(client.resolve_peers(None, Some(&unknown)).wait().unwrap_err().status(), Status::ERR_INVALID_NAMESPACE);
}

#[test]
fn a_time_limit_in_the_directives_is_kept() {
    let (_node, host, [client, _other]) = start();
    let limit = |seconds: i32| vec![Info::new(Key::from_static("pmix.timeout"), Value::Int(seconds))];
    let both = vec![proc("job", 0), proc("job", 1)];
    let error = client.connect_processes(both, limit(1)).wait().unwrap_err();
    assert_eq!(error.status(), Status::ERR_TIMEOUT);
    let error = client.log(Vec::new(), vec![Info::new(Key::from_static("pmix.timeout"), "soon")]).wait().unwrap_err();
    assert_eq!(error.status(), Status::ERR_BAD_PARAM);
    assert_eq!(host.heard(), [""; 0]);
}

#[test]
fn a_host_that_can_do_nothing_is_no_secret() {
    let node = TestServer::local();
    node.register_local_job("job", 1);
    let client = node.connect("job", 0);
    let answers = [
        client.publish(Vec::new()).wait().unwrap_err(),
        client.lookup(keys(&["a"]), Vec::new()).wait().unwrap_err(),
        client.unpublish(Vec::new(), Vec::new()).wait().unwrap_err(),
        client.spawn(Vec::new(), vec![app(1)]).wait().unwrap_err(),
        client.query(Vec::new()).wait().unwrap_err(),
        client.log(Vec::new(), Vec::new()).wait().unwrap_err(),
        client.allocate(1, Vec::new()).wait().unwrap_err(),
        client.job_control(Vec::new(), Vec::new()).wait().unwrap_err(),
        client.monitor(fact(), Status::ERROR, Vec::new()).wait().unwrap_err(),
        client.get_credential(Vec::new()).wait().unwrap_err(),
        client.validate_credential(Vec::new(), Vec::new()).wait().unwrap_err(),
        client.iof_pull(vec![proc("job", 0)], Vec::new(), iof_channel::FWD_STDOUT_CHANNEL, |_| {}).wait().unwrap_err(),
        client.iof_push(Vec::new(), Vec::new(), Vec::new()).wait().unwrap_err(),
        client.fabric_register(Vec::new()).wait().unwrap_err(),
        client.fabric_update(7).wait().unwrap_err(),
        client.resource_block(1, None, Vec::new(), Vec::new()).wait().unwrap_err(),
        client.session_control(42, Vec::new()).wait().unwrap_err(),
    ];
    assert!(answers.iter().all(|error| error.status() == Status::ERR_NOT_SUPPORTED), "{answers:?}");
    // Operations within this node still work.
    client.connect_processes(vec![proc("job", 0)], Vec::new()).wait().unwrap();
    client.disconnect_processes(vec![proc("job", 0)], Vec::new()).wait().unwrap();
    client.group_construct("g", vec![proc("job", 0)], Vec::new()).wait().unwrap();
    client.group_destruct("g", Vec::new()).wait().unwrap();
}
