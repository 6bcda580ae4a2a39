//! Questions between servers: for fabric resources that a job's server lacks, and for the hardware of nodes.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::TcpListener;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak, mpsc};
use std::time::Duration;

use modex::topo::TopologyError;
use modex::types::codes::alloc_directive::ALLOC_EXTEND;
use modex::types::{AsStatus, Info, InfoFlags, Key, Namespace, ProcId, Rank, Status, Text, Topology, Value};
use modex::{
    Allocate, Capabilities, DEVICE_FOUND, DEVICE_LOST, EventCall, FabricSource, Host, LocalHost, NoInventory,
    Requester, Responder, Server, ServerBuilder, ToolAdmission, ToolSupport, TopologySource, keys,
};

type Questions = Arc<Mutex<Vec<Vec<Info>>>>;

/// A host that sets up the job of a question with a server, and gives the result.
#[derive(Clone, Default)]
struct Allocator {
    server: Arc<OnceLock<Weak<Server>>>,
    questions: Questions,
}

impl Host for Allocator {
    fn capabilities(&self) -> Capabilities {
        Capabilities::ALLOCATE
    }

    fn allocate(&self, _: Requester, request: Allocate, reply: Responder<Vec<Info>>) {
        assert_eq!(request.directive, ALLOC_EXTEND);
        self.questions.lock().unwrap().push(request.info.clone());
        let job = request.info.iter().find(|info| info.key.as_str() == keys::NSPACE.name()).unwrap();
        let job = Namespace::new(job.value.as_str().unwrap()).unwrap();
        let server = self.server.get().unwrap().upgrade().unwrap();
        let mut infos = request.info;
        // The class of service is the host's own.
        infos.iter_mut().filter(|info| info.key.as_str() == keys::ALLOC_FABRIC.name()).for_each(|info| *info = wish(0));
        let mut given = server.setup_application(&job, &infos).unwrap();
        given.push(allocation("net", vec![info(keys::ALLOC_FABRIC_QOS.name(), "gold")]));
        reply.succeed(given);
    }
}

fn info(key: &'static str, value: impl Into<Value>) -> Info {
    Info::new(Key::from_static(key), value)
}

/// Values under a name, in the form of the standard.
fn allocation(name: &'static str, values: Vec<Info>) -> Info {
    let description = info(name, Value::info_array(Vec::new()));
    info(name, Value::info_array([vec![description], values].concat()))
}

/// A wish for a class of service, with the mark of a required info or without.
fn wish(flags: u32) -> Info {
    let class = Info { flags, ..info(keys::ALLOC_FABRIC_QOS.name(), "gold") };
    info(keys::ALLOC_FABRIC.name(), Value::info_array(vec![info(keys::ALLOC_FABRIC_ID.name(), "net"), class]))
}

/// A job on two nodes of the test fabric with a wish.
fn setup(flags: u32) -> Vec<Info> {
    vec![
        wish(flags),
        info(keys::NODE_MAP.name(), "test000,test001"),
        info(keys::PROC_MAP.name(), "0;1"),
        info(keys::SETUP_APP_NONENVARS.name(), true),
    ]
}

fn wishes() -> Vec<Info> {
    setup(InfoFlags::REQUIRED.bits())
}

fn builder(directory: &Path) -> ServerBuilder {
    Server::builder().tmpdir(directory).system_tmpdir(directory)
}

/// The scheduler of the node, which knows the test fabric.
fn scheduler_with<H: Host + 'static>(directory: &Path, host: H) -> Server {
    let tools = ToolSupport { admission: ToolAdmission::Named, is_scheduler: true, ..ToolSupport::default() };
    let fabric = FabricSource::parse("test:wide:2;plane:d:1").unwrap();
    builder(directory).namespace("scheduler").tools(tools).fabric(fabric).start(host).unwrap()
}

/// A scheduler whose host answers.
fn scheduler(directory: &Path) -> (Arc<Server>, Questions) {
    let host = Allocator::default();
    let server = Arc::new(scheduler_with(directory, host.clone()));
    host.server.set(Arc::downgrade(&server)).unwrap();
    (server, host.questions)
}

/// The keys of a question, without the values of the library's own.
fn names(questions: &Questions) -> Vec<Vec<String>> {
    let questions = std::mem::take(&mut *questions.lock().unwrap());
    let names = |infos: Vec<Info>| infos.into_iter().map(|info| info.key.to_string()).collect();
    questions.into_iter().map(names).collect()
}

/// The job finds what the scheduler gave: under the name of its wish, and under the standard's keys.
fn check_found(node: &Server, job: &Namespace, given: &[Info]) {
    node.setup_local_support(job, given).unwrap();
    let description = vec![
        info(keys::JOB_SIZE.name(), 2_u32),
        info(keys::NODE_MAP.name(), "test000,test001"),
        info(keys::PROC_MAP.name(), "0;1"),
    ];
    node.register_namespace(job, 0, description).wait().unwrap();
    for (rank, key) in [(Rank::Wildcard, "net"), (Rank::Process(1), keys::FABRIC_ENDPT.name())] {
        let proc = ProcId { namespace: job.clone(), rank };
        assert!(node.get(&proc, Some(&Key::from_static(key)), Vec::new()).wait().is_ok(), "{key}");
    }
}

#[test]
fn a_server_without_a_fabric_asks_the_scheduler_of_the_node_or_that_at_an_address() {
    let (directory, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (scheduler, questions) = scheduler(directory.path());
    let asked = ["modex.setup", "pmix.nspace", "pmix.alloc.net", "pmix.nmap", "pmix.pmap", "pmix.timeout"];
    let job = Namespace::new("job").unwrap();
    let near = builder(directory.path()).namespace("near").start(LocalHost).unwrap();
    let given = near.setup_application(&job, &wishes()).unwrap();
    let expected = [asked.map(str::to_owned).to_vec()];
    let found = names(&questions);
    assert_eq!(found.iter().map(|names| &names[..6]).collect::<Vec<_>>(), expected.each_ref().map(|names| &names[..]));
    check_found(&near, &job, &given);

    // No file leads there. A named scheduler comes before the host.
    let host = Allocator::default();
    let far = builder(elsewhere.path()).namespace("far").start(host.clone()).unwrap();
    let address = info(keys::SERVER_URI.name(), scheduler.uri());
    let given = far.setup_application(&job, &[wishes(), vec![address]].concat()).unwrap();
    assert_eq!((names(&questions).len(), names(&host.questions).len()), (1, 0));
    check_found(&far, &job, &given);

    // The server itself gives a key, and nothing else is asked for.
    let key = [info(keys::ALLOC_FABRIC_ID.name(), "net"), info(keys::ALLOC_FABRIC_SEC_KEY.name(), true)];
    let key = info(keys::ALLOC_FABRIC.name(), Value::info_array(key.to_vec()));
    let may_wait = |infos: &[Info]| near.queue_setup(&job, infos).unwrap().may_wait();
    assert!(!may_wait(std::slice::from_ref(&key)) && may_wait(&wishes()));
    near.setup_application(&job, &[key]).unwrap();
    assert_eq!(names(&questions), [[""; 0]; 0]);
}

/// Regression: a required key was lost, if somebody else gave the rest.
#[test]
fn an_answer_without_the_wanted_key_gets_one() {
    let directory = tempfile::tempdir().unwrap();
    let _scheduler = scheduler(directory.path());
    let near = builder(directory.path()).namespace("near").start(LocalHost).unwrap();
    let mut infos = wishes();
    let key = Info { flags: InfoFlags::REQUIRED.bits(), ..info(keys::ALLOC_FABRIC_SEC_KEY.name(), true) };
    let Value::DataArray(parts) = &mut infos[0].value else { panic!("{infos:?}") };
    parts.elements.push(Value::Info(Box::new(key)));
    let given = near.setup_application(&Namespace::new("job").unwrap(), &infos).unwrap();
    let of_wish = given.iter().find(|info| info.key.as_str() == keys::ALLOC_FABRIC.name()).unwrap();
    let shown = format!("{of_wish:?}");
    assert!(shown.contains(keys::ALLOC_FABRIC_SEC_KEY.name()) && shown.contains("gold"), "{shown}");
}

/// Regression: an address was ignored where nobody is asked.
#[test]
fn a_required_address_is_refused_where_nobody_is_asked() {
    let directory = tempfile::tempdir().unwrap();
    let (scheduler, _) = scheduler(directory.path());
    let address = info(keys::SERVER_URI.name(), "scheduler.0;tcp4://127.0.0.1:1");
    let required = Info { flags: InfoFlags::REQUIRED.bits(), ..address.clone() };
    let set_up = |address| {
        let infos = [setup(0), vec![address]].concat();
        scheduler.setup_application(&Namespace::new("job").unwrap(), &infos).map(drop).map_err(|error| error.status())
    };
    assert_eq!([set_up(address), set_up(required)], [Ok(()), Err(Status::ERR_NOT_SUPPORTED)]);
}

/// Regression: a required allocation was ignored, if the environment alone was asked for.
#[test]
fn a_required_allocation_is_refused_where_the_environment_alone_is_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let server = builder(directory.path()).start(LocalHost).unwrap();
    let set_up = |flags| {
        let infos = [Info { flags, ..wish(0) }, info(keys::SETUP_APP_ENVARS.name(), true)];
        server.setup_application(&Namespace::new("job").unwrap(), &infos).map_err(|error| error.status())
    };
    assert_eq!([set_up(0), set_up(InfoFlags::REQUIRED.bits())], [Ok(Vec::new()), Err(Status::ERR_NOT_SUPPORTED)]);
}

/// Regression: a scheduler whose host has no function for allocations refused each question.
#[test]
fn a_scheduler_answers_questions_that_its_host_leaves() {
    let directory = tempfile::tempdir().unwrap();
    let scheduler = scheduler_with(directory.path(), LocalHost);
    let near = builder(directory.path()).namespace("near").start(LocalHost).unwrap();
    let job = Namespace::new("job").unwrap();
    let wish = |part: Info| {
        let part = Info { flags: InfoFlags::REQUIRED.bits(), ..part };
        let id = info(keys::ALLOC_FABRIC_ID.name(), "net");
        let mut infos = setup(0);
        infos[0] = info(keys::ALLOC_FABRIC.name(), Value::info_array(vec![id, part]));
        infos
    };
    let given = near.setup_application(&job, &wish(info(keys::ALLOC_FABRIC_ENDPTS.name(), Value::Size(1)))).unwrap();
    check_found(&near, &job, &given);
    // Each application of a job has the job's key.
    let key = |job: &Namespace| {
        let given = near.setup_application(job, &setup(0)).unwrap();
        let of_fabric = given.iter().find(|info| info.key.as_str() == "modex.fabric.job").unwrap();
        let Value::DataArray(values) = &of_fabric.value else { panic!("{of_fabric:?}") };
        let is_key = |value: &&Value| matches!(value, Value::Info(info) if info.key.as_str() == keys::ALLOC_FABRIC_SEC_KEY.name());
        values.elements.iter().find(is_key).unwrap().clone()
    };
    assert_eq!(key(&job), key(&job));
    assert_ne!(key(&job), key(&Namespace::new("other").unwrap()));
    let gold = near.setup_application(&job, &wish(info(keys::ALLOC_FABRIC_QOS.name(), "gold")));
    assert_eq!(gold.unwrap_err().status(), Status::ERR_NOT_SUPPORTED);
    // Only questions have an answer.
    let asked = scheduler.allocate(ALLOC_EXTEND, wishes()).wait();
    assert_eq!(asked.unwrap_err().status(), Status::ERR_NOT_SUPPORTED);
}

/// The host's function may use the setup of its own server. The question then asks nobody else.
#[test]
fn a_server_without_a_fabric_asks_its_host() {
    let directory = tempfile::tempdir().unwrap();
    let host = Allocator::default();
    let server = Arc::new(builder(directory.path()).start(host.clone()).unwrap());
    host.server.set(Arc::downgrade(&server)).unwrap();
    let given = server.setup_application(&Namespace::new("job").unwrap(), &setup(0)).unwrap();
    assert_eq!(names(&host.questions).len(), 1);
    let Value::DataArray(answer) = &given[1].value else { panic!("{given:?}") };
    let Value::Info(named) = &answer.elements[0] else { panic!("{answer:?}") };
    assert_eq!(**named, allocation("net", vec![info(keys::ALLOC_FABRIC_QOS.name(), "gold")]));
}

/// A host that never answers, or answers with a status, or with too little.
struct Reluctant(Option<Status>, Mutex<Vec<Responder<Vec<Info>>>>);

impl Host for Reluctant {
    fn capabilities(&self) -> Capabilities {
        Capabilities::ALLOCATE
    }

    fn allocate(&self, _: Requester, _: Allocate, reply: Responder<Vec<Info>>) {
        match self.0 {
            Some(Status::SUCCESS) => reply.succeed(vec![allocation("net", Vec::new())]),
            Some(status) => reply.fail(status),
            None => self.1.lock().unwrap().push(reply),
        }
    }
}

#[test]
fn a_required_part_that_nobody_gives_is_an_error_that_says_who_was_asked() {
    let refused = |status, message: &str| {
        let directory = tempfile::tempdir().unwrap();
        let server = builder(directory.path()).start(Reluctant(status, Mutex::default())).unwrap();
        let infos = [wishes(), vec![info(keys::TIMEOUT.name(), 1_u32)]].concat();
        let error = server.setup_application(&Namespace::new("job").unwrap(), &infos).unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
        error.status()
    };
    assert_eq!(refused(None, "did not answer within 1 s"), Status::ERR_TIMEOUT);
    let full = Status::ERR_OUT_OF_RESOURCE;
    assert_eq!(refused(Some(full), "The host or scheduler answered with"), full);
    assert_eq!(refused(Some(Status::SUCCESS), "scheduler lacks it"), Status::ERR_NOT_SUPPORTED);
    let nobody = refused(Some(Status::ERR_NOT_SUPPORTED), "the scheduler can't be asked: ");
    assert_eq!(nobody, Status::ERR_NOT_SUPPORTED);
    let directory = tempfile::tempdir().unwrap();
    let server = builder(directory.path()).start(LocalHost).unwrap();
    // A wrong address was told as a missing function of the host.
    let address = "scheduler.0;tcp4://127.0.0.1:1";
    let infos = [wishes(), vec![info(keys::SERVER_URI.name(), address)]].concat();
    let error = server.setup_application(&Namespace::new("job").unwrap(), &infos).unwrap_err();
    let message = format!("The server {address:?} of PMIX_SERVER_URI can't be asked: ");
    assert!(error.to_string().contains(&message) && !error.to_string().contains("function"), "{error}");
    assert_eq!(error.status(), Status::ERR_UNREACH);
    // An optional one gets nothing.
    let given = server.setup_application(&Namespace::new("job").unwrap(), &setup(0)).unwrap();
    assert!(!given.iter().any(|info| info.key.as_str() == keys::ALLOC_FABRIC.name()), "{given:?}");
}

/// Each setup is about one revision of the fabric.
#[test]
fn an_update_in_the_middle_of_a_setup_mixes_no_revisions() {
    let directory = tempfile::tempdir().unwrap();
    let listing = directory.path().join("fabric.txt");
    let describe = |device: &str| {
        let line = |node: u32| format!("n{node}: /sys/class/net/{device}/address:52:54:00:00:00:{node:02x}\n");
        let next = directory.path().join("next");
        std::fs::write(&next, (0..50).map(line).collect::<String>()).unwrap();
        std::fs::rename(next, &listing).unwrap();
    };
    describe("older0");
    let fabric = FabricSource::parse(&format!("sysfs:{}", listing.display())).unwrap();
    let server = builder(directory.path()).fabric(fabric).start(LocalHost).unwrap();
    let nodes = (0..50).map(|node| format!("n{node}")).collect::<Vec<_>>().join(",");
    let ranks = (0..50).map(|rank| rank.to_string()).collect::<Vec<_>>().join(";");
    let layout = [info(keys::NODE_MAP.name(), nodes.as_str()), info(keys::PROC_MAP.name(), ranks.as_str())];
    let job = Namespace::new("job").unwrap();
    std::thread::scope(|scope| {
        let updates = scope.spawn(|| {
            for round in 0..100 {
                describe(if round % 2 == 0 { "newer0" } else { "older0" });
                assert_eq!(server.fabric_update(0).wait().unwrap().status, Status::SUCCESS);
            }
        });
        let mut found = [false; 2];
        while !updates.is_finished() || found == [false; 2] {
            let given = format!("{:?}", server.setup_application(&job, &layout).unwrap());
            let names = ["older0", "newer0"].map(|name| given.contains(name));
            assert!(names == [true, false] || names == [false, true], "{given}");
            found = [found[0] | names[0], found[1] | names[1]];
        }
    });
}

/// A machine whose network interface may be pulled out.
#[derive(Clone, Debug, Default)]
struct Machine {
    is_unplugged: Arc<AtomicBool>,
    is_broken: Arc<AtomicBool>,
}

impl TopologySource for Machine {
    fn read(&self) -> Result<Topology, TopologyError> {
        if self.is_broken.load(Ordering::SeqCst) {
            return Err(TopologyError::Failed { doing: "be read" });
        }
        let device = r#"<object type="OSDev" name="eth0" osdev_type="2"/>"#;
        let device = if self.is_unplugged.load(Ordering::SeqCst) { "" } else { device };
        let processor = r#"<object type="Core" cpuset="0x1"><object type="PU" os_index="0" cpuset="0x1"/></object>"#;
        let xml = format!(
            r#"<topology version="2.0"><object type="Machine" cpuset="0x1">{processor}{device}</object></topology>"#
        );
        Ok(Topology { xml: Some(Text::from(xml.as_str())), support: Vec::new() })
    }
}

/// The server of a node. It admits tools.
fn daemon(directory: &Path, node: &str, machine: &Machine) -> Server {
    let tools = ToolSupport { admission: ToolAdmission::Named, ..ToolSupport::default() };
    let builder = builder(directory).hostname(node).topology(Arc::new(machine.clone()));
    builder.namespace(format!("daemon-{node}")).tools(tools).start(LocalHost).unwrap()
}

/// The changes of devices that a server tells its own process of.
fn changes(server: &Server) -> mpsc::Receiver<(Status, String)> {
    let (sender, changes) = mpsc::channel();
    let handler = move |call: EventCall| {
        let node = call.info.iter().find(|info| info.key.as_str() == keys::HOSTNAME.name());
        sender.send((call.status, node.unwrap().value.as_str().unwrap().to_owned())).unwrap();
        call.complete(Status::EVENT_ACTION_COMPLETE, Vec::new());
    };
    server.register_event_handler(&[DEVICE_LOST, DEVICE_FOUND], &[], handler).wait().unwrap();
    changes
}

const TIME: Duration = Duration::from_secs(60);

/// The scheduler knows all machines, and hears of a device that is gone since it asked last.
#[test]
fn a_scheduler_asks_the_servers_of_all_nodes_for_their_machines() {
    let directory = tempfile::tempdir().unwrap();
    let machine = Machine::default();
    let daemons = ["n0", "n1", "n2"].map(|node| daemon(directory.path(), node, &machine));
    let addresses = daemons.each_ref().map(|daemon| daemon.uri().to_owned());
    let scheduler = builder(directory.path()).hostname("head").namespace("head").start(LocalHost).unwrap();
    let (heard, heard_at_node) = (changes(&scheduler), changes(&daemons[1]));
    let asked = scheduler.ask_for_inventories(&addresses, TIME).unwrap();
    assert!(asked.failed.is_empty(), "{:?}", asked.failed);
    assert_eq!(asked.nodes.into_iter().collect::<Vec<_>>(), ["n0", "n1", "n2"]);
    let known = || scheduler.collect_inventories().unwrap();
    let devices = |node: &str| known().iter().find(|known| known.node == node).map(|known| known.devices.len());
    assert_eq!(["head", "n0", "n1", "n2", "n3"].map(devices), [Some(0), Some(1), Some(1), Some(1), None]);

    machine.is_unplugged.store(true, Ordering::SeqCst);
    scheduler.ask_for_inventories(&addresses[1..2], TIME).unwrap();
    assert_eq!(heard.recv(), Ok((DEVICE_LOST, "n1".to_owned())));
    assert_eq!(heard_at_node.recv(), Ok((DEVICE_LOST, "n1".to_owned())));
    assert_eq!(["n0", "n1"].map(devices), [Some(1), Some(0)]);
    machine.is_unplugged.store(false, Ordering::SeqCst);
    assert_eq!(daemons[1].collect_current_inventory().unwrap().devices.len(), 1);
    assert_eq!(heard_at_node.recv(), Ok((DEVICE_FOUND, "n1".to_owned())));
}

/// The topology was read when a process asked for it, and no inventory was delivered since.
#[test]
fn the_first_current_inventory_is_compared_with_the_topology() {
    let directory = tempfile::tempdir().unwrap();
    let machine = Machine::default();
    let node = daemon(directory.path(), "n0", &machine);
    let heard = changes(&node);
    node.topology().unwrap();
    machine.is_unplugged.store(true, Ordering::SeqCst);
    assert_eq!(node.collect_inventory().unwrap().devices.len(), 1, "the topology is read once");
    assert!(node.collect_current_inventory().unwrap().devices.is_empty());
    assert_eq!(heard.recv(), Ok((DEVICE_LOST, "n0".to_owned())));
}

#[test]
fn a_machine_that_could_not_be_read_once_is_read_later() {
    let directory = tempfile::tempdir().unwrap();
    let machine = Machine::default();
    machine.is_broken.store(true, Ordering::SeqCst);
    let node = daemon(directory.path(), "n0", &machine);
    assert!(node.collect_current_inventory().is_err() && node.collect_current_inventory().is_err());
    machine.is_broken.store(false, Ordering::SeqCst);
    assert_eq!(node.collect_current_inventory().unwrap().devices.len(), 1);
}

/// A server without an answer takes nothing from what is known, and keeps nobody else's answer back.
#[test]
fn a_server_without_an_answer_is_named_with_the_reason() {
    let (directory, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let machine = Machine::default();
    let [first, second] = ["n0", "n1"].map(|node| daemon(directory.path(), node, &machine));
    let twin = daemon(elsewhere.path(), "n0", &machine);
    let closed = builder(directory.path()).hostname("n9").namespace("closed").start(LocalHost).unwrap();
    let scheduler = builder(directory.path()).hostname("head").namespace("head").start(LocalHost).unwrap();
    let addresses = [&first, &second, &twin, &closed].map(|server: &Server| server.uri().to_owned());
    drop(second);
    let asked = scheduler.ask_for_inventories(&addresses, TIME).unwrap();
    assert_eq!(asked.nodes.into_iter().collect::<Vec<_>>(), ["n0"]);
    let failed: Vec<&str> = asked.failed.iter().map(|failure| failure.address.as_str()).collect();
    assert_eq!(failed, addresses[1..]);
    let [gone, twin, closed] = &asked.failed[..] else { panic!("{:?}", asked.failed) };
    assert!(matches!(&twin.reason, NoInventory::SecondOfNode { node } if node == "n0"), "{twin}");
    assert!(
        [gone, closed].iter().all(|failure| matches!(failure.reason, NoInventory::Unreached(_))),
        "{gone}, {closed}"
    );
    // A server that says nothing. All kernels accept the connection.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = [format!("silent.0;tcp4://{}", silent.local_addr().unwrap())];
    let asked = scheduler.ask_for_inventories(&silent, Duration::from_millis(100)).unwrap();
    assert_eq!((asked.nodes.len(), asked.failed.len()), (0, 1));
    // No time is left for any of them.
    let asked = scheduler.ask_for_inventories(&addresses[..1], Duration::ZERO).unwrap();
    assert!(matches!(asked.failed[0].reason, NoInventory::TooSlow));
    assert!(scheduler.collect_inventories().unwrap().iter().any(|known| known.node == "n0"));
}
