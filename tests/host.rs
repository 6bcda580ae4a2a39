//! Work of a host and its servers for each other: two servers that exchange data, and every upcall.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, Weak, mpsc};

use modex::gds::registration::JobDescription;
use modex::keys::TypedKey;
use modex::types::AsStatus;
use modex::types::{DataArray, DataType, Info, InfoFlags, Key, Kval, ProcId, Rank, Scope, Status, Topology, Value};
use modex::{
    AbortUpcall, Capabilities, Client, ClientConnected, ClientFinalized, ConnectError, ConnectionLimits, DirectModex,
    ExchangeForm, FenceOptions, FenceReply, FenceUpcall, GetOptions, Host, KnownTopology, Log, Moment, Requester,
    Responder, Server, ServerError, keys,
};
use nix::sys::resource::{UsageWho, getrusage};
use support::{Process, TWO_PACKAGES, TestServer, description, namespace, proc, role};

const ENDPOINT: TypedKey<str> = TypedKey::new("endpoint");

#[test]
fn client_process() {
    match role().as_deref() {
        Some("exchange") => exchange(true),
        Some("exchange without data") => exchange(false),
        Some(other) => panic!("unknown role {other}"),
        None => {}
    }
}

fn exchange(collect: bool) {
    let client = Client::connect().unwrap();
    let rank = client.proc().rank.process().unwrap();
    let size = client.get(Rank::Wildcard, keys::JOB_SIZE).unwrap();
    client.put(Scope::Global, "endpoint", format!("endpoint of {rank}")).unwrap();
    client.put(Scope::Local, "near", rank).unwrap();
    client.put(Scope::Remote, "far", rank).unwrap();
    client.commit().unwrap();
    client.fence(&FenceOptions::new().collect(collect)).wait().unwrap();
    let own_node = client.get(rank, keys::HOSTNAME).unwrap();
    for peer in 0..size {
        let is_near = client.get(peer, keys::HOSTNAME).unwrap() == own_node;
        assert_eq!(client.get(peer, ENDPOINT).unwrap(), format!("endpoint of {peer}"));
        let options = GetOptions::new().immediate();
        if peer != rank {
            assert_eq!(client.get_value(&proc("job", peer), "near", &options).is_ok(), is_near);
            assert_eq!(client.get_value(&proc("job", peer), "far", &options).is_ok(), !is_near);
        }
    }
    client.fence(&FenceOptions::new()).wait().unwrap();
    client.finalize().unwrap();
}

/// The network between the servers of a job. Each part of a fence is kept, and the last one brings the answer to all.
/// Direct modex goes straight to the process's server.
#[derive(Default)]
struct Network {
    servers: OnceLock<Vec<(Weak<Server>, Range<u32>)>>,
    fences: Mutex<Vec<Arrival>>,
    /// Whether the data of fences is packed as servers of all releases pack it.
    packs: bool,
}

struct Bytes(Arc<Vec<u8>>);

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

struct Arrival {
    request: FenceUpcall,
    reply: Responder<FenceReply>,
}

struct NetworkHost(Arc<Network>);

impl Host for NetworkHost {
    fn capabilities(&self) -> Capabilities {
        Capabilities::FENCE | Capabilities::DIRECT_MODEX
    }

    fn fence(&self, request: FenceUpcall, reply: Responder<FenceReply>) {
        let mut waiting = self.0.fences.lock().unwrap();
        waiting.push(Arrival { request, reply });
        if waiting.len() == self.0.servers.get().unwrap().len() {
            let arrivals = std::mem::take(&mut *waiting);
            let blocks: Vec<(ProcId, Vec<Kval>)> =
                arrivals.iter().flat_map(|arrival| arrival.request.data.blocks.clone()).collect();
            let namespaces = arrivals.first().unwrap().request.namespaces.clone();
            let parts = arrivals.iter().map(|arrival| {
                ExchangeForm::default().pack_fence(arrival.request.data.blocks.clone(), &namespaces).unwrap()
            });
            let packed = Arc::new(parts.collect::<Vec<_>>().concat());
            for arrival in arrivals {
                if self.0.packs {
                    arrival.reply.packed(Bytes(packed.clone()));
                } else {
                    arrival.reply.succeed(FenceReply { blocks: blocks.clone() });
                }
            }
        }
    }

    fn direct_modex(&self, request: DirectModex, reply: Responder<Vec<Kval>>) {
        let rank = request.proc.rank.process().unwrap();
        let servers = self.0.servers.get().unwrap();
        let (owner, _) = servers.iter().find(|(_, ranks)| ranks.contains(&rank)).unwrap();
        let answer = move |result: Result<Vec<Kval>, ServerError>| match result {
            Ok(entries) => reply.succeed(entries),
            Err(ServerError::Refused { status, .. }) => reply.fail(status),
            Err(_) => reply.fail(Status::ERR_LOST_CONNECTION),
        };
        owner.upgrade().unwrap().direct_modex(&request.proc, None, None).then(answer).unwrap();
    }
}

/// Two servers of one job with two ranks each.
fn two_nodes() -> [TestServer; 2] {
    two_nodes_on(Network::default())
}

fn two_nodes_on(network: Network) -> [TestServer; 2] {
    let network = Arc::new(network);
    let nodes = ["node0", "node1"].map(|name| TestServer::start(name, NetworkHost(network.clone())));
    let ranks = [0..2, 2..4];
    let servers = nodes.iter().map(|node| Arc::downgrade(&node.server)).zip(ranks.clone()).collect();
    assert!(network.servers.set(servers).is_ok());
    for (node, ranks) in nodes.iter().zip(ranks) {
        let description = description(4, &[("node0", "0,1"), ("node1", "2,3")]);
        node.server.register_namespace(&namespace("job"), 2, description).wait().unwrap();
        for rank in ranks {
            node.register_client("job", rank);
        }
    }
    nodes
}

fn run_on_two_nodes(role: &str) {
    run_on(two_nodes(), role);
}

fn run_on([near, far]: [TestServer; 2], role: &str) {
    let placed = [(&near, 0), (&near, 1), (&far, 2), (&far, 3)];
    let clients: Vec<Process> = placed.into_iter().map(|(node, rank)| node.spawn("job", rank, role)).collect();
    clients.into_iter().for_each(Process::succeed);
}

#[test]
fn a_collecting_fence_brings_every_node_the_data_of_all() {
    run_on_two_nodes("exchange");
}

#[test]
fn data_that_servers_have_packed_is_read_where_it_lies() {
    run_on(two_nodes_on(Network { packs: true, ..Network::default() }), "exchange");
}

#[test]
fn without_collection_data_of_other_nodes_are_fetched_when_asked_for() {
    run_on_two_nodes("exchange without data");
}

#[test]
fn data_of_another_node_are_read_in_place_once_they_were_fetched() {
    let nodes = two_nodes();
    let (here, there) = (nodes[0].connect("job", 0), nodes[1].connect("job", 2));
    std::thread::scope(|scope| {
        // The far server holds the request until the process has committed.
        let waiting = scope.spawn(|| here.get(2, ENDPOINT).unwrap().into_owned());
        there.put(Scope::Global, "endpoint", "far").unwrap();
        there.commit().unwrap();
        assert_eq!(waiting.join().unwrap(), "far");
    });
    assert!(here.get_value(&proc("job", 2), "endpoint", &GetOptions::new().optional()).unwrap().is_borrowed());
}

/// Two servers of one job, each with a bound rank.
fn two_bound_nodes() -> [TestServer; 2] {
    let network = Arc::new(Network::default());
    let nodes = ["node0", "node1"].map(|name| {
        let directory = tempfile::tempdir().unwrap();
        let topology = KnownTopology(Topology { xml: Some(TWO_PACKAGES.into()), support: Vec::new() });
        let builder = Server::builder().hostname(name).tmpdir(directory.path()).topology(Arc::new(topology));
        TestServer { server: Arc::new(builder.start(NetworkHost(network.clone())).unwrap()), directory }
    });
    let servers = nodes.iter().map(|node| Arc::downgrade(&node.server)).zip([0..1, 1..2]).collect();
    assert!(network.servers.set(servers).is_ok());
    let cpuset = Key::from_static(keys::CPUSET.name());
    for (rank, node) in (0..).zip(&nodes) {
        let job = JobDescription::new(&namespace("job")).nodes(["node0", "node1"]).ranks_by_node([vec![0], vec![1]]);
        let job = job.process_value(0, cpuset.clone(), "0").process_value(1, cpuset.clone(), "1");
        node.server.register_namespace(&namespace("job"), 1, job.build().unwrap()).wait().unwrap();
        node.register_client("job", rank);
    }
    nodes
}

/// A server generates the distances of devices for its own processes alone. Other nodes had no way to learn them.
#[test]
fn values_that_servers_generate_reach_other_nodes_by_a_fence() {
    for collect in [true, false] {
        let nodes = two_bound_nodes();
        let clients = [nodes[0].connect("job", 0), nodes[1].connect("job", 1)];
        let of = |client: &Client, rank: u32, key: &str| {
            let found = client.get_value(&proc("job", rank), key, &GetOptions::new());
            found.map(|value| value.into_value().unwrap()).unwrap()
        };
        let own = |client: &Client| client.proc().rank.process().unwrap();
        let directive = Key::from_static(keys::COLLECT_GENERATED_JOB_INFO.name());
        let directive = Info { flags: InfoFlags::REQUIRED.bits(), ..Info::new(directive, true) };
        let options = FenceOptions::new().collect(collect).info(directive);
        std::thread::scope(|scope| {
            for client in &clients {
                scope.spawn(|| client.fence(&options).wait().unwrap());
            }
        });
        let localities = ["hwloc:SK0:CR0:HT0", "hwloc:SK1:CR1:HT1"].map(Value::from);
        for client in &clients {
            // The process itself had them before, and lost them.
            let found = [0, 1].map(|rank| of(client, rank, keys::LOCALITY_STRING.name()));
            assert_eq!(found, localities);
            let distances = of(client, 1 - own(client), keys::DEVICE_DISTANCES.name());
            assert!(matches!(distances, Value::DataArray(distances) if !distances.elements.is_empty()));
        }
    }
}

/// Qualified values travel between servers as they were put, in every form.
#[test]
fn values_that_differ_in_their_qualifiers_reach_other_nodes() {
    for (packs, collects) in [(false, true), (true, true), (false, false)] {
        let nodes = two_nodes_on(Network { packs, ..Network::default() });
        let everybody: Vec<_> =
            (0..4).map(|rank| nodes[rank / 2].connect("job", u32::try_from(rank).unwrap())).collect();
        let key = |name: &'static str| Key::from_static(name);
        for number in [1_u32, 2] {
            let qualifiers = vec![Info::new(key("number"), number)];
            everybody[2].put_qualified(Scope::Global, key("several"), 100 + number, qualifiers).unwrap();
        }
        everybody[2].put(Scope::Global, "several", 100_u32).unwrap();
        everybody[2]
            .put_qualified(Scope::Global, key("alone"), 107_u32, vec![Info::new(key("number"), 7_u32)])
            .unwrap();
        everybody.iter().for_each(|client| client.commit().unwrap());
        let fence = FenceOptions::new().collect(collects);
        let pending: Vec<_> = everybody.iter().map(|client| client.fence(&fence).start().unwrap()).collect();
        pending.into_iter().for_each(|fence| fence.wait().unwrap());
        let seen = |number: Option<u32>| {
            let options = number.map_or(GetOptions::new(), |number| GetOptions::new().qualifier(key("number"), number));
            everybody[0].get_value(&proc("job", 2), "several", &options).unwrap().into_value().unwrap()
        };
        let expected = [100_u32, 101, 102].map(Value::from);
        assert_eq!([seen(None), seen(Some(1)), seen(Some(2))], expected, "packed: {packs}, collected: {collects}");
        // No process has put this key without a qualifier; the far server must not wait for that.
        let options = GetOptions::new().qualifier(key("number"), 7_u32);
        let alone = everybody[1].get_value(&proc("job", 2), "alone", &options).unwrap().into_value().unwrap();
        assert_eq!(alone, Value::from(107_u32), "packed: {packs}, collected: {collects}");
    }
}

/// Gives scripted answers and notes the upcalls.
struct Scripted {
    capabilities: Capabilities,
    asked: Mutex<mpsc::Sender<String>>,
    admits: Status,
    server: OnceLock<Weak<Server>>,
}

impl Scripted {
    fn start(capabilities: Capabilities, admits: Status) -> (TestServer, mpsc::Receiver<String>) {
        let (asked, heard) = mpsc::channel();
        let host = Arc::new(Self { capabilities, asked: Mutex::new(asked), admits, server: OnceLock::new() });
        let node = TestServer::start("node0", Shared(host.clone()));
        host.server.set(Arc::downgrade(&node.server)).unwrap();
        (node, heard)
    }

    fn note(&self, what: String) {
        self.asked.lock().unwrap().send(what).unwrap();
    }
}

struct Shared(Arc<Scripted>);

impl Host for Shared {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities
    }

    fn client_connected(&self, client: ClientConnected, reply: Responder<()>) {
        self.0.note(format!("connected {} {}", client.proc, client.object));
        match self.0.admits {
            Status::SUCCESS => reply.succeed(()),
            status => reply.fail(status),
        }
    }

    fn client_finalized(&self, client: ClientFinalized, reply: Responder<()>) {
        self.0.note(format!("finalized {} {}", client.proc, client.object));
        // From another thread, after this function has returned.
        let answer = std::thread::Builder::new().spawn(move || reply.succeed(()));
        drop(answer.unwrap());
    }

    fn abort(&self, request: AbortUpcall, reply: Responder<()>) {
        self.0.note(format!("abort {} {:?}", request.status.to_raw(), request.message.map(|m| m.to_string())));
        // Waits for the server inside a function that the server called.
        let server = self.0.server.get().unwrap().upgrade().unwrap();
        server.register_namespace(&namespace("another"), 0, description(1, &[("node0", "0")])).wait().unwrap();
        reply.succeed(());
    }

    fn fence(&self, _: FenceUpcall, reply: Responder<FenceReply>) {
        drop(reply);
    }

    fn direct_modex(&self, _: DirectModex, _reply: Responder<Vec<Kval>>) {
        panic!("a host with a bug");
    }
}

#[test]
fn the_host_hears_of_clients_that_come_and_go_with_their_object() {
    let (node, heard) =
        Scripted::start(Capabilities::CLIENT_CONNECTED | Capabilities::CLIENT_FINALIZED, Status::SUCCESS);
    node.register_local_job("job", 1);
    let (uid, gid) = support::ids();
    node.server.register_client_object(&proc("job", 0), uid, gid, 42).wait().unwrap();
    node.connect("job", 0).finalize().unwrap();
    assert_eq!(heard.recv().unwrap(), "connected job:0 42");
    assert_eq!(heard.recv().unwrap(), "finalized job:0 42");
}

#[test]
fn a_model_in_the_description_gives_processes_its_variables_and_is_found_by_them() {
    let node = TestServer::local();
    let job = JobDescription::new(&namespace("job")).nodes(["node0"]).ranks_by_node([vec![0, 1]]);
    let job = job
        .app(1, ["./ring", "-x"], "/scratch")
        .app(1, ["./other"], "/elsewhere")
        .job_value(Key::from_static(keys::PROGRAMMING_MODEL.name()), "ompi");
    node.server.register_namespace(&namespace("job"), 2, job.build().unwrap()).wait().unwrap();
    node.register_client("job", 1);
    let variables = node.server.setup_fork(&proc("job", 1)).unwrap();
    let of_model = |name: &str| variables.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str());
    for (name, value) in [
        ("OMPI_COMM_WORLD_RANK", "1"),
        ("OMPI_COMM_WORLD_SIZE", "2"),
        ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
        ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
        ("OMPI_COMMAND", "./other"),
        ("OMPI_ARGV", ""),
        ("OMPI_MCA_initial_wdir", "/elsewhere"),
        ("OMPI_APP_CTX_NUM_PROCS", "1 1"),
        ("OMPI_FIRST_RANKS", "0 1"),
    ] {
        assert_eq!(of_model(name), Some(value), "{name}");
    }
    let client = node.connect("job", 1);
    assert_eq!(client.get(Rank::Wildcard, keys::PROGRAMMING_MODEL).unwrap(), "ompi");
}

#[test]
fn the_host_can_turn_a_client_away() {
    let (node, _heard) = Scripted::start(Capabilities::CLIENT_CONNECTED, Status::ERR_NO_PERMISSIONS);
    node.register_local_job("job", 1);
    let variables = node.server.setup_fork(&proc("job", 0)).unwrap();
    match Client::builder().env(variables).connect().unwrap_err() {
        ConnectError::Refused { status, .. } => assert_eq!(status, Status::ERR_NO_PERMISSIONS),
        other => panic!("{other}"),
    }
}

#[test]
fn a_host_function_may_wait_for_the_server_that_called_it() {
    let (node, heard) = Scripted::start(Capabilities::ABORT, Status::SUCCESS);
    node.register_local_job("job", 1);
    let client = node.connect("job", 0);
    client.abort(Status::from_raw(-7), "no more", Vec::new()).unwrap();
    assert_eq!(heard.recv().unwrap(), "abort -7 Some(\"no more\")");
}

#[test]
fn an_answer_that_is_dropped_or_lost_in_a_panic_is_a_failure_and_the_server_goes_on() {
    let (node, _heard) = Scripted::start(Capabilities::FENCE | Capabilities::DIRECT_MODEX, Status::SUCCESS);
    node.server
        .register_namespace(&namespace("job"), 1, description(2, &[("node0", "0"), ("node1", "1")]))
        .wait()
        .unwrap();
    node.register_client("job", 0);
    let client = node.connect("job", 0);
    assert!(client.fence(&FenceOptions::new()).wait().is_err());
    assert!(client.get(1, ENDPOINT).is_err());
    assert!(client.fence(&FenceOptions::new()).wait().is_err());
    assert_eq!(client.get(Rank::Wildcard, keys::JOB_SIZE), Ok(2));
}

#[test]
fn a_host_that_can_do_nothing_leaves_clients_with_a_clear_answer() {
    let node = TestServer::local();
    node.server
        .register_namespace(&namespace("job"), 1, description(2, &[("node0", "0"), ("node1", "1")]))
        .wait()
        .unwrap();
    node.register_client("job", 0);
    let client = node.connect("job", 0);
    assert_eq!(client.fence(&FenceOptions::new()).wait().unwrap_err().status(), Status::ERR_NOT_SUPPORTED);
    assert_eq!(client.get(1, ENDPOINT).unwrap_err().status(), Status::ERR_NOT_FOUND);
    assert_eq!(client.abort(Status::ERROR, "", Vec::new()).unwrap_err().status(), Status::ERR_NOT_SUPPORTED);
}

#[test]
fn direct_modex_gives_what_other_nodes_may_see() {
    let node = TestServer::local();
    node.register_local_job("job", 1);
    let client = node.connect("job", 0);
    client.put(Scope::Remote, "far", 1_u32).unwrap();
    client.put(Scope::Local, "near", 2_u32).unwrap();
    client.put(Scope::Global, "both", 3_u32).unwrap();
    client.commit().unwrap();
    let mut keys: Vec<String> = node
        .server
        .direct_modex(&proc("job", 0), None, None)
        .wait()
        .unwrap()
        .into_iter()
        // Servers also send each other the number of the commit.
        .filter(|entry| !entry.key.is_reserved())
        .map(|entry| entry.key.as_str().to_owned())
        .collect();
    keys.sort();
    assert_eq!(keys, ["both", "far"]);
}

#[test]
fn a_request_still_open_when_the_server_ends_is_answered() {
    let node = TestServer::local();
    node.register_local_job("job", 1);
    let (done, answers) = mpsc::channel();
    let answer = move |result: Result<Vec<Kval>, ServerError>| done.send(result.is_err()).unwrap();
    node.server.direct_modex(&proc("job", 0), None, None).then(answer).unwrap();
    drop(node);
    assert_eq!(answers.iter().collect::<Vec<_>>(), [true]);
}

/// Panics at every moment.
struct Nervous;

impl Host for Nervous {
    fn capabilities(&self) -> Capabilities {
        Capabilities::empty()
    }

    fn observed(&self, _proc: &ProcId, _moment: Moment) {
        panic!("on purpose");
    }
}

#[test]
fn a_host_that_panics_at_a_moment_does_not_take_the_server_with_it() {
    // The server's own thread called the host. The panic ended it, and every client lost its connection.
    let node = TestServer::start("node0", Nervous);
    node.register_local_job("job", 1);
    let client = node.connect("job", 0);
    client.fence(&FenceOptions::new()).wait().unwrap();
    client.finalize().unwrap();
}

/// Notes the moments.
struct Watching(Arc<Mutex<Vec<Moment>>>);

impl Host for Watching {
    fn capabilities(&self) -> Capabilities {
        Capabilities::empty()
    }

    fn observed(&self, _proc: &ProcId, moment: Moment) {
        self.0.lock().unwrap().push(moment);
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "this process's own readings stand around those of client and server")]
fn a_host_learns_when_a_client_entered_init_and_has_finalized() {
    let moments = Arc::default();
    let node = TestServer::start("node0", Watching(Arc::clone(&moments)));
    node.register_local_job("job", 1);
    let before = std::time::Instant::now();
    let client = node.connect("job", 0);
    let whole = before.elapsed();
    client.finalize().unwrap();
    let moments = moments.lock().unwrap();
    let [Moment::InitBegun { age }, Moment::Connected, Moment::Admitted, Moment::Finalized] = moments[..] else {
        panic!("{moments:?}")
    };
    // The server read its clock between the two readings above.
    assert!(age < whole, "{age:?} of {whole:?}");
}

/// Takes log requests, and never answers.
#[derive(Default)]
struct Silent(Mutex<Vec<Responder<()>>>);

impl Host for Silent {
    fn capabilities(&self) -> Capabilities {
        Capabilities::LOG
    }

    fn log(&self, _: Requester, _: Log, reply: Responder<()>) {
        self.0.lock().unwrap().push(reply);
    }
}

/// A client filled the server's memory with requests that the host did not answer. The limit was one of the connection,
/// so a new connection could send as many again. Now they are counted by process, and in bytes.
#[test]
fn host_requests_of_a_process_are_bounded_across_its_connections() {
    let text = Value::from("x".repeat(80_000).as_str());
    // In memory an array of booleans takes 32 times its size on the wire.
    let elements = vec![Value::from(true); 2_500];
    let booleans = Value::DataArray(Box::new(DataArray { element_type: DataType::Bool, elements }));
    for (host_requests_max, host_bytes_max, value, accepted) in
        [(3, usize::MAX, &text, 3), (100, 100_000, &text, 2), (100, 100_000, &booleans, 2)]
    {
        let limits = ConnectionLimits { host_requests_max, host_bytes_max, ..ConnectionLimits::default() };
        let node = TestServer::with_limits_and_host(limits, Silent::default());
        node.register_local_job("job", 2);
        let data = || vec![Info::new(Key::from_static("pmix.log.stderr"), value.clone())];
        let first = node.connect("job", 0);
        for _ in 0..accepted {
            first.log(data(), Vec::new()).then(|_| ()).unwrap();
        }
        let refused = |client: &Client| client.log(data(), Vec::new()).wait().unwrap_err().status();
        assert_eq!(refused(&first), Status::ERR_OUT_OF_RESOURCE);
        // Requests without the host continue, and other processes are not affected.
        first.put(Scope::Global, "endpoint", "here").unwrap();
        first.commit().unwrap();
        let other = node.connect("job", 1);
        assert_eq!(other.get(0, ENDPOINT).unwrap(), "here");
        let (done, result) = mpsc::channel();
        other.log(data(), Vec::new()).then(move |logged| drop(done.send(logged))).unwrap();
        assert_eq!(other.get(Rank::Wildcard, keys::JOB_SIZE), Ok(2));
        assert!(result.try_recv().is_err());
        // The requests of a closed connection still count.
        drop(first);
        let variables = node.server.setup_fork(&proc("job", 0)).unwrap();
        assert!(Client::builder().env(variables).connect().is_err());
    }
}

/// The files of a broken process stayed: registrations were passed to the host, which may not support them.
#[test]
fn files_that_a_process_registered_for_removal_are_gone_after_it() {
    let node = TestServer::local();
    node.register_local_job("job", 2);
    let left = tempfile::tempdir().unwrap();
    // The cleaner leaves a path through a link alone.
    let place = left.path().canonicalize().unwrap();
    let paths = ["broken", "finalized", "job"].map(|name| place.join(name));
    let register = |client: &Client, targets: Vec<ProcId>, path: &std::path::Path| {
        std::fs::write(path, "left behind").unwrap();
        let directive = Info::new(Key::from_static(keys::REGISTER_CLEANUP.name()), path.to_str().unwrap());
        client.job_control(targets, vec![directive]).wait().unwrap();
    };
    let [broken, finalized] = [0, 1].map(|rank| node.connect("job", rank));
    register(&broken, vec![proc("job", 0)], &paths[0]);
    register(&finalized, vec![proc("job", 1)], &paths[1]);
    register(&finalized, Vec::new(), &paths[2]);
    finalized.finalize().unwrap();
    drop(broken);
    assert!(paths[1].exists() && paths[2].exists());
    // The end of a server is the end of its jobs; it waits for all removals.
    drop(node);
    assert_eq!(paths.map(|path| path.exists()), [false; 3]);
}

/// Every call of a host woke the server's thread and slept until that thread woke it. The two wake-ups took ten times
/// as long as the call. The rule: while the server's thread sleeps, the calling thread handles the call.
#[test]
fn calls_of_the_host_wait_for_no_other_thread() {
    let server = TestServer::local();
    server.register_local_job("job", 1);
    let sleeps = || getrusage(UsageWho::RUSAGE_THREAD).unwrap().voluntary_context_switches();
    let before = sleeps();
    for _ in 0..CALLS {
        server.register_client("job", 0);
    }
    let slept = sleeps() - before;
    assert!(slept < CALLS / 10, "{slept} sleeps in {CALLS} calls");
}

const CALLS: i64 = 500;
