//! Processes and nodes of two servers, monitored by requests of one process.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::{Arc, Mutex, OnceLock, Weak, mpsc};

use modex::events::Event;
use modex::gds::registration::JobDescription;
use modex::proto::Monitor;
use modex::types::codes::range::RANGE_CUSTOM;
use modex::types::{AsStatus, DataArray, DataType, Info, Key, ProcId, Rank, Status, Value};
use modex::{Capabilities, Client, Host, Requester, Responder, Server, keys};
use support::{TestServer, namespace, proc};

/// The servers of a host, and the requests that reached it.
#[derive(Default)]
struct Nodes {
    servers: OnceLock<[Weak<Server>; 2]>,
    asked: Mutex<usize>,
    events: Mutex<Option<mpsc::Sender<Event>>>,
}

/// One of two nodes. Its server asks it for the other.
struct Node {
    nodes: Arc<Nodes>,
    other: usize,
}

impl Host for Node {
    fn capabilities(&self) -> Capabilities {
        Capabilities::MONITOR | Capabilities::NOTIFY_EVENT
    }

    fn monitor(&self, requester: Requester, request: Monitor, reply: Responder<Vec<Info>>) {
        *self.nodes.asked.lock().unwrap() += 1;
        let Monitor { monitor, error, mut directives } = request;
        directives.push(info(keys::MONITOR_LOCAL_ONLY.name(), true));
        directives.push(info(keys::MONITOR_PROXY.name(), requester.proc));
        let other = self.nodes.servers.get().unwrap().get(self.other).unwrap().upgrade().unwrap();
        let asked = other.monitor(monitor, error, directives);
        asked
            .then(move |answer| match answer {
                Ok(answer) => reply.succeed(answer.results),
                Err(error) => reply.fail(error.status()),
            })
            .unwrap();
    }

    fn notify_event(&self, event: Event, reply: Responder<()>) {
        if let Some(events) = &*self.nodes.events.lock().unwrap() {
            drop(events.send(event));
        }
        reply.succeed(());
    }
}

/// Two servers of a job with a rank each, and its first process.
fn two_nodes() -> (Arc<Nodes>, [TestServer; 2], [Client; 2]) {
    let nodes = Arc::new(Nodes::default());
    let servers = [("node0", 1), ("node1", 0)].map(|(name, other)| {
        let directory = tempfile::tempdir().unwrap();
        let builder = Server::builder().hostname(name).tmpdir(directory.path()).shared_monitoring();
        let host = Node { nodes: Arc::clone(&nodes), other };
        TestServer { server: Arc::new(builder.start(host).unwrap()), directory }
    });
    let weak = servers.each_ref().map(|node| Arc::downgrade(&node.server));
    assert!(nodes.servers.set(weak).is_ok());
    for (rank, node) in (0..).zip(&servers) {
        let job = JobDescription::new(&namespace("job")).nodes(["node0", "node1"]).ranks_by_node([vec![0], vec![1]]);
        node.server.register_namespace(&namespace("job"), 1, job.build().unwrap()).wait().unwrap();
        node.register_client("job", rank);
    }
    let [first, second] = &servers;
    let clients = [first.connect("job", 0), second.connect("job", 1)];
    (nodes, servers, clients)
}

fn info(key: &'static str, value: impl Into<Value>) -> Info {
    Info::new(Key::from_static(key), value)
}

fn list(element_type: DataType, elements: Vec<Value>) -> Value {
    Value::DataArray(Box::new(DataArray { element_type, elements }))
}

fn all_of_job() -> Value {
    Value::from(ProcId { rank: Rank::Wildcard, ..proc("job", 0) })
}

/// The values of a figure in the samples that answer a request.
fn figures(client: &Client, kind: &'static str, directives: Vec<Info>, figure: &str) -> Result<Vec<Value>, Status> {
    let asked = client.monitor(info(kind, Value::Undefined), Status::SUCCESS, directives).wait();
    Ok(figures_of(&asked.map_err(|error| error.status())?.results, figure))
}

fn figures_of(samples: &[Info], figure: &str) -> Vec<Value> {
    let arrays = samples.iter().filter_map(|sample| match &sample.value {
        Value::DataArray(array) => Some(&array.elements),
        _ => None,
    });
    let infos = arrays.flatten().filter_map(|element| match element {
        Value::Info(info) => Some(info),
        _ => None,
    });
    infos.filter(|info| info.key.as_str() == figure).map(|info| info.value.clone()).collect()
}

/// Regression: a host that asks other nodes alone, as PRRTE does, was asked for this node, and never answered.
#[test]
fn a_request_without_targets_stays_on_its_node() {
    let (nodes, _servers, [client, _other]) = two_nodes();
    let procs =
        |directives| figures(&client, keys::MONITOR_PROC_RESOURCE_USAGE.name(), directives, keys::PROCID.name());
    let own = Ok(vec![Value::from(proc("job", 0))]);
    assert_eq!(procs(Vec::new()), own);
    let all = info(keys::MONITOR_TARGET_PROCS.name(), list(DataType::Proc, vec![all_of_job()]));
    assert_eq!(procs(vec![all, info(keys::MONITOR_LOCAL_ONLY.name(), true)]), own);
    assert_eq!(*nodes.asked.lock().unwrap(), 0);
}

#[test]
fn one_answer_has_the_samples_of_both_nodes() {
    let (nodes, _servers, [client, _other]) = two_nodes();
    let procs = |targets: Vec<ProcId>| {
        let targets = list(DataType::Proc, targets.into_iter().map(Value::from).collect());
        let directives = vec![info(keys::MONITOR_TARGET_PROCS.name(), targets)];
        figures(&client, keys::MONITOR_PROC_RESOURCE_USAGE.name(), directives, keys::PROCID.name())
    };
    let both = Ok(vec![Value::from(proc("job", 0)), Value::from(proc("job", 1))]);
    assert_eq!(procs(vec![proc("job", 1), proc("job", 0)]), both);
    assert_eq!(procs(vec![ProcId { rank: Rank::Wildcard, ..proc("job", 0) }]), both);
    assert_eq!(procs(vec![proc("job", 1)]), Ok(vec![Value::from(proc("job", 1))]));
    let names = |names: &[&str]| names.iter().map(|name| Value::from(*name)).collect::<Vec<_>>();
    let everybody = vec![info(keys::MONITOR_TARGET_PROCS.name(), list(DataType::Proc, vec![all_of_job()]))];
    let of_procs = keys::MONITOR_PROC_RESOURCE_USAGE.name();
    assert_eq!(figures(&client, of_procs, everybody, keys::HOSTNAME.name()), Ok(names(&["node0", "node1"])));
    let hosts =
        |directive| figures(&client, keys::MONITOR_NODE_RESOURCE_USAGE.name(), vec![directive], keys::HOSTNAME.name());
    let by_name = info(keys::MONITOR_TARGET_NODES.name(), list(DataType::String, names(&["node1", "node0"])));
    assert_eq!(hosts(by_name), Ok(names(&["node0", "node1"])));
    let numbers = list(DataType::Uint32, vec![Value::Uint32(0), Value::Uint32(1)]);
    assert_eq!(hosts(info(keys::MONITOR_TARGET_NODEIDS.name(), numbers)), Ok(names(&["node0", "node1"])));
    assert_eq!(hosts(info(keys::MONITOR_TARGET_NODES.name(), "node1")), Ok(names(&["node1"])));
    assert_eq!(*nodes.asked.lock().unwrap(), 7);
}

#[test]
fn samples_of_another_node_are_events_for_the_requester_until_its_job_ends() {
    let (nodes, servers, [client, _other]) = two_nodes();
    let (sender, events) = mpsc::channel();
    *nodes.events.lock().unwrap() = Some(sender);
    let again = info(keys::MONITOR_RESOURCE_RATE.name(), 1_u32);
    let there = info(keys::MONITOR_TARGET_NODES.name(), "node1");
    let first = figures(&client, keys::MONITOR_NODE_RESOURCE_USAGE.name(), vec![again, there], keys::HOSTNAME.name());
    assert_eq!(first, Ok(vec![Value::from("node1")]));
    let event = events.recv().unwrap();
    assert_eq!((event.status, event.range), (Status::MONITOR_RESUSAGE_UPDATE, RANGE_CUSTOM));
    assert_eq!(figures_of(&event.info, keys::HOSTNAME.name()), [Value::from("node1")]);
    let hearer = event.info.iter().find(|info| info.key.as_str() == keys::EVENT_CUSTOM_RANGE.name());
    assert_eq!(hearer.map(|info| &info.value), Some(&Value::from(proc("job", 0))));
    let [_, there] = &servers;
    there.server.deregister_namespace(&namespace("job")).wait().unwrap();
    // The samples of another job's process show that the first one gets none any more.
    let directives = vec![
        info(keys::MONITOR_RESOURCE_RATE.name(), 1_u32),
        info(keys::MONITOR_LOCAL_ONLY.name(), true),
        info(keys::MONITOR_PROXY.name(), proc("another", 0)),
    ];
    let of_node = info(keys::MONITOR_NODE_RESOURCE_USAGE.name(), Value::Undefined);
    there.server.monitor(of_node, Status::MONITOR_FILE_ALERT, directives).wait().unwrap();
    let later: Vec<Event> = events.iter().take_while(|event| event.status != Status::MONITOR_FILE_ALERT).collect();
    // One may have been on its way.
    assert!(later.len() <= 1, "{later:?}");
}
