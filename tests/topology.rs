//! The node's topology: read once by the server, at the first request, and shared with every process of every job.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use modex::gds::registration::JobDescription;
use modex::topo::{CpuSet, Inventory, TopologyError};
use modex::types::AsStatus;
use modex::types::{Info, Key, ProcId, Query, Rank, Status, Text, Topology, Value};
use modex::{
    Client, DEVICE_LOST, EventCall, FabricSource, GetOptions, LocalHost, Server, TopologySharing, TopologySource, keys,
};
use support::{TWO_PACKAGES, TestServer, namespace, proc, without_socket};

#[test]
fn client_process() {}

/// A machine with two packages, which counts how often it is read.
#[derive(Default)]
struct Counted {
    reads: AtomicUsize,
    is_broken: bool,
}

impl fmt::Debug for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Counted")
    }
}

impl TopologySource for Counted {
    fn read(&self) -> Result<Topology, TopologyError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        if self.is_broken {
            return Err(TopologyError::Failed { doing: "be read" });
        }
        Ok(Topology { xml: Some(Text::from(TWO_PACKAGES)), support: vec![1] })
    }
}

impl Counted {
    fn reads(&self) -> usize {
        self.reads.load(Ordering::SeqCst)
    }
}

fn server(source: Option<Arc<Counted>>, sharing: TopologySharing) -> TestServer {
    let directory = tempfile::tempdir().unwrap();
    let builder = Server::builder().hostname("node0").tmpdir(directory.path()).topology_sharing(sharing);
    let builder = match source {
        Some(source) => builder.topology(source),
        None => builder,
    };
    let server = TestServer { server: Arc::new(builder.start(LocalHost).unwrap()), directory };
    server.register_local_job("one", 2);
    server.register_local_job("other", 1);
    server
}

fn over_tcp(server: &TestServer, job: &str, rank: u32) -> Client {
    Client::builder().env(without_socket(server.server.setup_fork(&proc(job, rank)).unwrap())).connect().unwrap()
}

fn set(list: &str) -> CpuSet {
    list.parse().unwrap()
}

#[test]
fn the_machine_is_read_on_the_first_request_and_once_for_all_jobs() {
    let source = Arc::new(Counted::default());
    let server = server(Some(Arc::clone(&source)), TopologySharing::OnDemand);
    let clients = [server.connect("one", 0), server.connect("one", 1), server.connect("other", 0)];
    assert_eq!(source.reads(), 0);
    for client in &clients {
        let machine = client.topology().unwrap();
        assert!(machine.is_shared());
        assert_eq!(machine.locality(&set("1")), Some("hwloc:SK1:CR1:HT1".to_owned()));
        assert_eq!((machine.xml(), machine.support()), (TWO_PACKAGES, &[1_u8][..]));
        assert!(Arc::ptr_eq(&machine, &client.topology().unwrap()));
    }
    assert_eq!(server.server.topology().unwrap().machine().distances(&set("0")).first().unwrap().nearest, 2);
    assert_eq!(source.reads(), 1);
}

#[test]
fn clients_of_other_libraries_find_the_text_where_their_servers_put_it() {
    let source = Arc::new(Counted::default());
    let server = server(Some(Arc::clone(&source)), TopologySharing::AtStart);
    let far = over_tcp(&server, "one", 0);
    let job = ProcId { rank: Rank::Wildcard, ..proc("one", 0) };
    for key in [keys::HWLOC_XML_V2, keys::LOCAL_TOPO] {
        let found = far.get_value(&job, key.name(), &GetOptions::new().optional()).unwrap();
        assert_eq!(found.as_str().unwrap(), TWO_PACKAGES);
    }
    let machine = far.topology().unwrap();
    assert!(!machine.is_shared());
    assert_eq!(machine.package_of(&set("1")), Some(1));
    assert_eq!(source.reads(), 1);
}

#[test]
fn the_text_can_be_asked_for_by_those_who_read_the_segment_and_those_who_do_not() {
    let source = Arc::new(Counted::default());
    let server = server(Some(Arc::clone(&source)), TopologySharing::OnDemand);
    for client in [server.connect("one", 0), over_tcp(&server, "one", 1)] {
        let job = ProcId { rank: Rank::Wildcard, ..proc("one", 0) };
        let found = client.get_value(&job, keys::HWLOC_XML_V2.name(), &GetOptions::new().immediate()).unwrap();
        assert_eq!(found.as_str().unwrap(), TWO_PACKAGES);
    }
    assert_eq!(source.reads(), 1);
}

/// A Get or query that named another node found the topology of this one.
#[test]
fn values_derived_from_the_topology_are_found_for_this_node_alone() {
    let server = server(Some(Arc::new(Counted::default())), TopologySharing::OnDemand);
    let info = |key: &'static str, value: Value| Info::new(Key::from_static(key), value);
    let of_node = |key: &'static str, value: Value| vec![info(keys::NODE_INFO.name(), true.into()), info(key, value)];
    let own = [Vec::new(), of_node(keys::HOSTNAME.name(), "node0".into()), of_node(keys::NODEID.name(), 0_u32.into())];
    let others = [of_node(keys::HOSTNAME.name(), "node1".into()), of_node(keys::NODEID.name(), 1_u32.into())];
    let job = ProcId { rank: Rank::Wildcard, ..proc("one", 0) };
    for client in [server.connect("one", 0), over_tcp(&server, "one", 1)] {
        let found = |key: &str, directives: &Vec<Info>| {
            let options = directives.iter().cloned().fold(GetOptions::new(), GetOptions::info);
            let got = client.get_value(&job, key, &options).ok().map(|value| value.into_value().unwrap());
            let query = Query { keys: vec![Text::from(key)], qualifiers: directives.clone() };
            let queried = client.query(vec![query]).wait().ok().map(|mut answered| answered.results.remove(0).value);
            (got, queried)
        };
        let (key, value) = (keys::LOCAL_TOPO.name(), Value::from(TWO_PACKAGES));
        for directives in &own {
            assert_eq!(found(key, directives), (Some(value.clone()), Some(value.clone())), "{directives:?}");
        }
        for directives in &others {
            assert_eq!(found(key, directives), (None, None), "{directives:?}");
        }
    }
}

#[test]
fn without_a_topology_questions_about_it_say_so_and_nothing_else_fails() {
    let broken = || Arc::new(Counted { is_broken: true, ..Counted::default() });
    let kept = Arc::new(Counted::default());
    let servers = [
        (server(None, TopologySharing::OnDemand), Status::ERR_NOT_SUPPORTED),
        (server(Some(Arc::clone(&kept)), TopologySharing::Refused), Status::ERR_NOT_SUPPORTED),
        (server(Some(broken()), TopologySharing::OnDemand), Status::ERROR),
        (server(Some(broken()), TopologySharing::AtStart), Status::ERROR),
    ];
    for (server, status) in &servers {
        let near = server.connect("one", 0);
        let far = over_tcp(server, "one", 1);
        assert_eq!(near.topology().unwrap_err().status(), *status);
        assert_eq!(far.topology().unwrap_err().status(), Status::ERR_NOT_SUPPORTED);
        for client in [&near, &far] {
            let job = ProcId { rank: Rank::Wildcard, ..proc("one", 0) };
            let text = client.get_value(&job, keys::HWLOC_XML_V2.name(), &GetOptions::new().immediate());
            assert_eq!(text.unwrap_err().status(), Status::ERR_NOT_FOUND);
            assert_eq!(client.get(Rank::Wildcard, keys::JOB_SIZE).unwrap(), 2);
        }
    }
    assert_eq!(kept.reads(), 0);
    assert!(servers.get(1).unwrap().0.server.topology().is_ok(), "the host may ask");
}

#[test]
fn many_processes_that_ask_at_once_are_answered_by_one_reading() {
    let source = Arc::new(Counted::default());
    let server = server(Some(Arc::clone(&source)), TopologySharing::OnDemand);
    let client = Arc::new(server.connect("one", 0));
    let ask = |client: &Arc<Client>| {
        let client = Arc::clone(client);
        std::thread::Builder::new().spawn(move || client.topology().unwrap().xml().len()).unwrap()
    };
    let asking: Vec<_> = (0..8).map(|_| ask(&client)).collect();
    assert!(asking.into_iter().all(|thread| thread.join().unwrap() == TWO_PACKAGES.len()));
    assert_eq!(source.reads(), 1);
}

/// The host registers only the processors of processes; the rest is derived.
#[test]
fn locality_and_distances_follow_from_the_processors_of_a_process() {
    let server = server(Some(Arc::new(Counted::default())), TopologySharing::OnDemand);
    let job = namespace("bound");
    let layout = JobDescription::new(&job).nodes(["node0", "node1"]).ranks_by_node([vec![0, 1, 2, 3], vec![4]]);
    let sets = (0_u32..).zip(["1", "hwloc:0", "0", "0-1", "0"]);
    let description =
        sets.fold(layout, |layout, (rank, set)| layout.process_value(rank, Key::from_static(keys::CPUSET.name()), set));
    let description = description.build().unwrap();
    server.server.register_namespace(&job, 4, description).wait().unwrap();
    (0..2).for_each(|rank| server.register_client("bound", rank));
    for client in [server.connect("bound", 0), over_tcp(&server, "bound", 1)] {
        let get = |rank: u32, key: &str| {
            client
                .get_value(&proc("bound", rank), key, &GetOptions::new().immediate())
                .map(|v| v.into_value().unwrap())
                .ok()
        };
        assert_eq!(get(0, keys::CPUSET_BITMAP.name()), Some(Value::ProcCpuset(Some(Text::from("1")))));
        let locality = |rank| get(rank, keys::LOCALITY_STRING.name());
        assert_eq!(locality(0), Some(Value::from("hwloc:SK1:CR1:HT1")));
        assert_eq!(locality(1), Some(Value::from("hwloc:SK0:CR0:HT0")));
        assert_eq!([locality(3), locality(4)], [None, None], "not bound, and elsewhere");
        let package_ranks = [0, 1, 2, 3].map(|rank| get(rank, keys::PACKAGE_RANK.name()));
        assert_eq!(package_ranks, [Some(0), Some(0), Some(1), None].map(|rank| rank.map(Value::Uint16)));
        let Some(Value::DataArray(distances)) = get(0, keys::DEVICE_DISTANCES.name()) else { panic!("no distances") };
        let Some(Value::DeviceDistance(distance)) = distances.elements.first() else { panic!("no distance") };
        assert_eq!((distance.minimum, distance.maximum, distance.device_type), (3, 3, 4));
        let only_here = GetOptions::new().optional();
        assert!(client.get_value(&proc("bound", 0), keys::LOCALITY_STRING.name(), &only_here).is_err());
    }
    let (sender, receiver) = mpsc::channel();
    let client = server.connect("bound", 0);
    let done = move |found: Result<Value, _>| sender.send(found.unwrap()).unwrap();
    client.pending_get(&proc("bound", 1), keys::LOCALITY_STRING.name(), &GetOptions::new()).then(done).unwrap();
    assert_eq!(receiver.recv().unwrap(), Value::from("hwloc:SK0:CR0:HT0"));
}

/// Delivered inventories are found by queries and Gets, for one node and for all.
#[test]
fn inventories_are_collected_delivered_and_asked_for() {
    let server = server(Some(Arc::new(Counted::default())), TopologySharing::OnDemand);
    let own = server.server.collect_inventory().unwrap();
    assert_eq!((own.node.as_str(), own.packages, own.cores, own.processors, own.devices.len()), ("node0", 2, 2, 2, 1));
    let other = Inventory { node: "node1".to_owned(), ..own.clone() };
    let blobs = [&own, &other].map(|inventory| inventory.encode().unwrap());
    let client = server.connect("one", 0);
    let hostname = |name: &str| Info::new(Key::from_static(keys::HOSTNAME.name()), name);
    let ask = |key: &str, mut qualifiers: Vec<Info>| {
        qualifiers.push(Info::new(Key::from_static(keys::QUERY_REFRESH_CACHE.name()), true));
        client.query(vec![Query { keys: vec![Text::from(key)], qualifiers }]).wait().map(|answered| answered.results)
    };
    // A tool asks each node's server for its own inventory.
    let Value::DataArray(found) = ask(Server::INVENTORY, Vec::new()).unwrap().remove(0).value else {
        panic!("no array")
    };
    assert_eq!(found.elements, [Value::ByteObject(blobs[0].clone())], "nothing has been delivered");
    assert!(ask(Server::INVENTORY, vec![hostname("node1")]).is_err());
    server.server.deliver_inventory(blobs.to_vec()).wait().unwrap();
    let refused = server.server.deliver_inventory(vec![b"none".to_vec()]).wait().unwrap_err();
    assert_eq!(refused.status(), Status::ERR_BAD_PARAM);

    let found = ask(Server::INVENTORY, vec![hostname("node1")]).unwrap();
    assert_eq!(found.first().unwrap().value, Value::ByteObject(blobs[1].clone()));
    let Value::DataArray(all) = ask(Server::INVENTORY, Vec::new()).unwrap().remove(0).value else { panic!("no array") };
    assert_eq!(all.elements, blobs.map(Value::ByteObject));
    assert!(ask(Server::INVENTORY, vec![hostname("node2")]).is_err());

    let newer = Inventory { model: "newer".to_owned(), ..other };
    server.server.deliver_inventory(vec![newer.encode().unwrap()]).wait().unwrap();
    for client in [client, over_tcp(&server, "one", 1)] {
        let job = ProcId { rank: Rank::Wildcard, ..proc("one", 0) };
        let options = GetOptions::new().immediate().info(hostname("node1"));
        let found = client.get_value(&job, keys::FABRIC_DEVICES.name(), &options).unwrap().into_value().unwrap();
        let Value::DataArray(devices) = found else { panic!("no devices") };
        let Some(Value::Info(device)) = devices.elements.first() else { panic!("no device") };
        let Value::DataArray(facts) = &device.value else { panic!("no facts") };
        let Some(Value::Info(identity)) = facts.elements.first() else { panic!("no identity") };
        assert_eq!((identity.key.as_str(), identity.value.as_str()), ("pmix.dev.id", Some("ipv4://02:00:00:00:00:01")));
        let named = options.info(Info::new(Key::from_static(keys::FABRIC_DEVICE_NAME.name()), "eth0"));
        assert!(client.get_value(&job, keys::FABRIC_DEVICE.name(), &named).is_ok());
    }
}

/// The reading of a topology may take seconds.
#[test]
fn a_delivered_inventory_saves_the_reading_of_the_topology() {
    let source = Arc::new(Counted::default());
    let node = server(Some(Arc::clone(&source)), TopologySharing::OnDemand).server;
    let delivered = Inventory { node: "node0".to_owned(), ..Inventory::default() };
    node.deliver_inventory(vec![delivered.encode().unwrap()]).wait().unwrap();
    assert_eq!((node.collect_inventories().unwrap(), source.reads()), (vec![delivered], 0));
}

/// One call at the scheduler, or one query, has all nodes: its own, those that were delivered, and those of the fabric.
#[test]
fn the_inventories_of_all_nodes_are_found_at_one_server() {
    let directory = tempfile::tempdir().unwrap();
    let builder = Server::builder().hostname("node0").tmpdir(directory.path());
    let server = builder.fabric(FabricSource::parse("test:wide:3;plane:d:2").unwrap()).start(LocalHost).unwrap();
    let server = TestServer { server: Arc::new(server), directory };
    server.register_local_job("one", 1);
    let delivered = Inventory { node: "test001".to_owned(), processors: 64, ..Inventory::default() };
    server.server.deliver_inventory(vec![delivered.encode().unwrap()]).wait().unwrap();
    let all = server.server.collect_inventories().unwrap();
    let shown: Vec<_> = all.iter().map(|inventory| (inventory.node.as_str(), inventory.devices.len())).collect();
    assert_eq!(shown, [("node0", 0), ("test000", 2), ("test001", 0), ("test002", 2)]);
    let [own, first, second, _] = all.as_slice() else { panic!("{all:?}") };
    assert!(own.processors > 0 && *second == delivered);
    let device = first.devices.first().unwrap();
    assert_eq!((device.name.as_str(), device.uuid.as_str()), ("test000:nic000", "fab://test000/test000:nic000"));

    let client = server.connect("one", 0);
    let ask = |qualifiers| {
        let query = Query { keys: vec![Text::from(Server::INVENTORY)], qualifiers };
        client.query(vec![query]).wait().unwrap().results.remove(0).value
    };
    let blobs: Vec<Value> = all.iter().map(|inventory| Value::ByteObject(inventory.encode().unwrap())).collect();
    let Value::DataArray(found) = ask(Vec::new()) else { panic!("no array") };
    assert_eq!(found.elements, blobs);
    for (inventory, blob) in all.iter().zip(&blobs) {
        let hostname = Info::new(Key::from_static(keys::HOSTNAME.name()), inventory.node.as_str());
        assert_eq!(ask(vec![hostname]), *blob);
    }
}

/// A fabric of inventories is unknown at first. Each delivery ends with the newer fabric, or leaves the older one.
#[test]
fn a_fabric_of_inventories_follows_each_delivery() {
    let directory = tempfile::tempdir().unwrap();
    let builder = Server::builder().hostname("node0").tmpdir(directory.path()).topology(Arc::new(Counted::default()));
    let server = builder.fabric(FabricSource::parse("inventory").unwrap()).start(LocalHost).unwrap();
    let server = TestServer { server: Arc::new(server), directory };
    let (node, job) = (&server.server, namespace("job"));
    assert_eq!(node.fabric_register(Vec::new()).wait().unwrap_err().status(), Status::ERR_NOT_FOUND);
    let layout = [("pmix.nmap", "node0,node1"), ("pmix.pmap", "0;1")];
    let layout = layout.map(|(key, text)| Info::new(Key::from_static(key), text));
    assert_eq!(node.setup_application(&job, &layout).unwrap(), []);
    let (sender, events) = mpsc::channel();
    let codes = [Status::FABRIC_UPDATED, DEVICE_LOST];
    let heard = move |call: EventCall| {
        sender.send(call.status).unwrap();
        call.complete(Status::EVENT_ACTION_COMPLETE, Vec::new());
    };
    node.register_event_handler(&codes, &[], heard).wait().unwrap();

    let own = node.collect_inventory().unwrap();
    let other = Inventory { node: "node1".to_owned(), ..own.clone() };
    let deliver = |inventories: &[&Inventory]| {
        let blobs = inventories.iter().map(|inventory| inventory.encode().unwrap()).collect();
        node.deliver_inventory(blobs).wait()
    };
    let devices = || {
        let fabric = node.fabric().unwrap();
        fabric.planes().iter().map(|plane| (plane.name().to_owned(), plane.device_count())).collect::<Vec<_>>()
    };
    deliver(&[&own, &other]).unwrap();
    assert_eq!(devices(), [("net".to_owned(), 2)]);
    assert_eq!(events.recv(), Ok(Status::FABRIC_UPDATED));
    let given = node.setup_application(&job, &layout).unwrap();
    assert!(given.iter().any(|info| info.key.as_str() == "modex.fabric.job"), "{given:?}");
    let registered = node.fabric_register(Vec::new()).wait().unwrap();
    assert!(registered.results.iter().any(|info| info.key.as_str() == keys::FABRIC_NUM_DEVICES.name()));

    // Without a change there is no revision; a refused delivery is none.
    let before = node.fabric().unwrap();
    deliver(&[&own]).unwrap();
    assert_eq!(deliver(&[&own, &own]).unwrap_err().status(), Status::ERR_BAD_PARAM);
    node.fabric_update(0).wait().unwrap();
    assert!(!before.is_outdated());

    // A device with a name that no list can hold is left out. The others follow.
    let mut strange = other.clone();
    strange.devices.iter_mut().for_each(|device| device.name = "a\tb".to_owned());
    deliver(&[&strange]).unwrap();
    assert_eq!(devices(), [("net".to_owned(), 1)]);
    assert!(before.is_outdated());
    assert_eq!([events.recv(), events.recv()], [Ok(DEVICE_LOST), Ok(Status::FABRIC_UPDATED)]);
    deliver(&[&Inventory { devices: Vec::new(), ..other }]).unwrap();
    assert_eq!(events.recv(), Ok(DEVICE_LOST));
    deliver(&[&Inventory { devices: Vec::new(), ..own }]).unwrap();
    assert_eq!(devices(), []);
    assert_eq!(node.fabric_update(0).wait().unwrap_err().status(), Status::ERR_NOT_FOUND);
}

/// A machine that is read only after a signal.
#[derive(Debug)]
struct Stuck(Mutex<mpsc::Receiver<()>>);

impl TopologySource for Stuck {
    fn read(&self) -> Result<Topology, TopologyError> {
        // A message or the end of the sender continues the reading.
        let _ = self.0.lock().unwrap().recv();
        Ok(Topology { xml: Some(Text::from(TWO_PACKAGES)), support: vec![1] })
    }
}

fn stuck(sharing: TopologySharing, time_max: Duration) -> (TestServer, mpsc::Sender<()>) {
    let (go_on, told) = mpsc::channel();
    let directory = tempfile::tempdir().unwrap();
    let builder = Server::builder().hostname("node0").tmpdir(directory.path()).topology_sharing(sharing);
    let builder = builder.topology(Arc::new(Stuck(Mutex::new(told)))).topology_time_max(time_max);
    let server = TestServer { server: Arc::new(builder.start(LocalHost).unwrap()), directory };
    server.register_local_job("one", 3);
    (server, go_on)
}

/// A hanging driver stopped every client of another library in its Init, and every waiting thread of the host, for
/// ever.
#[test]
fn a_machine_that_cannot_be_read_holds_up_nobody_and_is_told_when_it_is_read_after_all() {
    for sharing in [TopologySharing::AtStart, TopologySharing::OnDemand] {
        let (server, go_on) = stuck(sharing, Duration::from_millis(20));
        let (far, near) = (over_tcp(&server, "one", 0), server.connect("one", 1));
        assert_eq!(far.get(Rank::Wildcard, keys::JOB_SIZE).unwrap(), 3);
        for client in [&far, &near] {
            assert_eq!(client.topology().unwrap_err(), TopologyError::TooSlow);
        }
        assert_eq!(server.server.topology().unwrap_err(), TopologyError::TooSlow);
        go_on.send(()).unwrap();
        let asked = || server.server.topology();
        let read = std::iter::repeat_with(asked).find(|found| !matches!(found, Err(TopologyError::TooSlow)));
        assert_eq!(read.unwrap().unwrap().machine().xml(), TWO_PACKAGES);
        for client in [&far, &near, &over_tcp(&server, "one", 2)] {
            assert_eq!(client.topology().unwrap().xml(), TWO_PACKAGES);
        }
    }
}

/// A hanging reading does not delay the end of the server.
#[test]
fn a_server_ends_while_its_machine_is_being_read() {
    let (server, go_on) = stuck(TopologySharing::AtStart, Duration::MAX);
    let asked = Arc::clone(&server.server);
    let asking = std::thread::Builder::new().spawn(move || asked.topology().map(drop)).unwrap();
    server.server.close(Duration::ZERO);
    assert!(matches!(asking.join().unwrap(), Err(TopologyError::Unreachable { .. })));
    drop(go_on);
}
