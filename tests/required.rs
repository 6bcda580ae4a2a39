//! Required means required: each attribute of the dictionary, marked so, goes to each function of a client, a server
//! and a tool. Functions succeed only with attributes that `PMIX_QUERY_ATTRIBUTE_SUPPORT` lists for them.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::sync::{Arc, Mutex};

use modex::keys::{ValueKind, rows_with_name};
use modex::storage_systems::MountTable;
use modex::types::codes::{alloc_directive, iof_channel, range};
use modex::types::{
    App, AsStatus, DataType, Info, InfoFlags, Key, Namespace, Pdata, ProcId, Query, Rank, Scope, Status, Text, Value,
};
use modex::{
    Allocate, Capabilities, Client, Connect, Credential, Event, FabricRegister, FabricSource, FenceOptions, FenceReply,
    FenceUpcall, GetCredential, GetOptions, GroupRequest, Host, HostFacts, IofOutput, IofPull, IofPush, JobControl,
    Log, Lookup, Monitor, Publish, QueryInfo, RegisterEvents, Requester, ResourceBlock, Responder, ServerService,
    SessionControl, Spawn, Unpublish, UpcallAnswer, ValidateCredential,
};
use modex::{Server, ServerBuilder, Tool, ToolAdmission, ToolDirections, ToolSupport, keys};
use support::{TestServer, namespace, proc};

#[test]
fn client_process() {}

const GROUP: &str = "group";

/// A host that knows the facts of this library, and nothing of its own.
struct Knowing(HostFacts);

impl Default for Knowing {
    fn default() -> Self {
        Self(facts(&[
            ServerService::Names,
            ServerService::FileMonitor,
            ServerService::ResourceMonitor,
            ServerService::Credentials,
            ServerService::Fabric,
            ServerService::Storage,
            ServerService::FileStaging,
        ]))
    }
}

fn facts(services: &[ServerService]) -> HostFacts {
    let facts = HostFacts::default();
    services.iter().for_each(|service| facts.note_service(*service));
    facts
}

impl Host for Knowing {
    fn capabilities(&self) -> Capabilities {
        Capabilities::QUERY
    }

    fn query(&self, requester: Requester, request: QueryInfo, reply: Responder<Vec<Info>>) {
        if let Some((_, reply)) = self.0.answer(&requester, request, reply) {
            reply.fail(Status::ERR_NOT_SUPPORTED);
        }
    }
}

/// A host with all functions. It refuses the required infos that reach it, or honours all of them.
struct Judging {
    facts: HostFacts,
    honours_all: bool,
    /// The required keys that have reached it.
    heard: Arc<Mutex<BTreeSet<String>>>,
}

impl Judging {
    /// Storage has no function of a host.
    fn new(honours_all: bool) -> Self {
        let facts = facts(&[ServerService::Storage, ServerService::FileStaging]);
        Self { facts, honours_all, heard: Arc::default() }
    }

    fn judge<T: UpcallAnswer>(&self, directives: &[Info], reply: Responder<T>, result: T) {
        let required = directives.iter().filter(|info| info.flags().contains(InfoFlags::REQUIRED));
        self.heard.lock().unwrap().extend(required.map(|info| info.key.to_string()));
        if self.honours_all || keys::first_unmet(directives, &[]).is_none() {
            reply.succeed(result);
        } else {
            reply.fail(Status::ERR_NOT_SUPPORTED);
        }
    }
}

/// The services of this host, with the directives and the result of each.
macro_rules! judged {
    ($($method:ident($request:ty, $directives:ident) -> $answer:ty { $result:expr })*) => {
        $(fn $method(&self, _: Requester, request: $request, reply: Responder<$answer>) {
            self.judge(&request.$directives, reply, $result);
        })*
    };
}

impl Host for Judging {
    fn capabilities(&self) -> Capabilities {
        Capabilities::all()
    }

    judged! {
        publish(Publish, info) -> () { () }
        lookup(Lookup, directives) -> Vec<Pdata> { Vec::new() }
        unpublish(Unpublish, directives) -> () { () }
        log(Log, directives) -> () { () }
        allocate(Allocate, info) -> Vec<Info> { Vec::new() }
        job_control(JobControl, directives) -> Vec<Info> { Vec::new() }
        monitor(Monitor, directives) -> Vec<Info> { Vec::new() }
        get_credential(GetCredential, directives) -> Credential { Credential { bytes: b"secret".to_vec(), info: Vec::new() } }
        validate_credential(ValidateCredential, directives) -> Vec<Info> { Vec::new() }
        iof_pull(IofPull, directives) -> () { () }
        iof_push(IofPush, directives) -> () { () }
        fabric_register(FabricRegister, directives) -> Vec<Info> { Vec::new() }
        resource_block(ResourceBlock, directives) -> () { () }
        session_control(SessionControl, directives) -> Vec<Info> { Vec::new() }
    }

    fn spawn(&self, _: Requester, request: Spawn, reply: Responder<Namespace>) {
        let of_apps = request.apps.into_iter().flat_map(|app| app.info);
        let directives: Vec<Info> = request.job.into_iter().chain(of_apps).collect();
        self.judge(&directives, reply, namespace("spawned"));
    }

    fn query(&self, requester: Requester, request: QueryInfo, reply: Responder<Vec<Info>>) {
        if let Some((QueryInfo { queries, .. }, reply)) = self.facts.answer(&requester, request, reply) {
            let qualifiers: Vec<Info> = queries.into_iter().flat_map(|query| query.qualifiers).collect();
            self.judge(&qualifiers, reply, vec![info("fact", true)]);
        }
    }

    fn connect(&self, request: Connect, reply: Responder<()>) {
        self.judge(&request.directives, reply, ());
    }

    fn disconnect(&self, request: Connect, reply: Responder<()>) {
        self.judge(&request.directives, reply, ());
    }

    fn group(&self, request: GroupRequest, reply: Responder<Vec<Info>>) {
        self.judge(&request.directives, reply, Vec::new());
    }

    fn fence(&self, request: FenceUpcall, reply: Responder<FenceReply>) {
        self.judge(&request.directives, reply, FenceReply::default());
    }

    fn notify_event(&self, event: Event, reply: Responder<()>) {
        self.judge(&event.info, reply, ());
    }

    fn register_events(&self, request: RegisterEvents, reply: Responder<()>) {
        self.judge(&request.directives, reply, ());
    }
}

/// A function of a client or a server with directives.
type Function<T> = (&'static str, fn(&T, Vec<Info>) -> Result<(), Status>);

fn outcome<T, E: AsStatus + Display>(result: Result<T, E>) -> Result<(), Status> {
    result.map(drop).map_err(|error| error.status())
}

/// Functions that a process alone in its job can complete without a host.
const FUNCTIONS: [Function<Client>; 13] = [
    ("PMIx_Get", |client, directives| {
        outcome(client.get_value(
            client.proc(),
            "own",
            &directives.into_iter().fold(GetOptions::new(), GetOptions::info),
        ))
    }),
    ("PMIx_Fence", |client, directives| {
        outcome(client.fence(&directives.into_iter().fold(FenceOptions::new(), FenceOptions::info)).wait())
    }),
    ("PMIx_Notify_event", |client, directives| {
        outcome(client.notify_event(Status::from_raw(-1001), None, range::RANGE_LOCAL, &directives).wait())
    }),
    ("PMIx_Notify_event", |client, directives| {
        outcome(client.notify_event(Status::from_raw(-1001), None, range::RANGE_PROC_LOCAL, &directives).wait())
    }),
    ("PMIx_Register_event_handler", |client, directives| {
        let registered = client.register_event_handler(&[Status::from_raw(-1001)], &directives, |call| {
            call.complete(Status::SUCCESS, Vec::new());
        });
        outcome(registered.wait().map(|id| client.deregister_event_handler(id).wait()))
    }),
    ("PMIx_Connect", |client, directives| outcome(client.connect_processes(own(client), directives).wait())),
    ("PMIx_Disconnect", |client, directives| {
        client.connect_processes(own(client), Vec::new()).wait().unwrap();
        let left = outcome(client.disconnect_processes(own(client), directives).wait());
        if left.is_err() {
            client.disconnect_processes(own(client), Vec::new()).wait().unwrap();
        }
        left
    }),
    ("PMIx_Group_construct", |client, directives| {
        let formed = outcome(client.group_construct(GROUP, own(client), directives).wait());
        if formed.is_ok() {
            client.group_destruct(GROUP, Vec::new()).wait().unwrap();
        }
        formed
    }),
    ("PMIx_Group_destruct", |client, directives| {
        client.group_construct(GROUP, own(client), Vec::new()).wait().unwrap();
        let ended = outcome(client.group_destruct(GROUP, directives).wait());
        if ended.is_err() {
            client.group_destruct(GROUP, Vec::new()).wait().unwrap();
        }
        ended
    }),
    ("PMIx_Group_invite", |client, directives| {
        let formed = outcome(client.group_invite(GROUP, own(client), directives).wait());
        if formed.is_ok() {
            client.group_leave(GROUP, Vec::new()).wait().unwrap();
        }
        formed
    }),
    ("PMIx_Group_join", |client, directives| {
        outcome(client.group_join(GROUP, Some(client.proc()), false, directives).wait())
    }),
    ("PMIx_Group_leave", |client, directives| outcome(client.group_leave(GROUP, directives).wait())),
    ("PMIx_Query_info", |client, directives| {
        let query = Query { keys: vec![Text::from(keys::QUERY_NAMESPACES.name())], qualifiers: directives };
        outcome(client.query(vec![query]).wait())
    }),
];

/// Services of the host. The server answers some of them in the place of the host.
const SERVICES: [Function<Client>; 21] = [
    ("PMIx_Publish", |client, directives| {
        let published = outcome(client.publish([vec![info("own.data", 1_u32)], directives].concat()).wait());
        drop(client.unpublish(vec![Key::from_static("own.data")], Vec::new()).wait());
        published
    }),
    ("PMIx_Lookup", |client, directives| {
        client.publish(vec![info("own.data", 1_u32)]).wait().map_err(|error| error.status())?;
        let found = outcome(client.lookup(vec![Key::from_static("own.data")], directives).wait());
        client.unpublish(vec![Key::from_static("own.data")], Vec::new()).wait().unwrap();
        found
    }),
    ("PMIx_Unpublish", |client, directives| outcome(client.unpublish(Vec::new(), directives).wait())),
    ("PMIx_Spawn", |client, directives| outcome(client.spawn(directives, vec![application(Vec::new())]).wait())),
    ("PMIx_Spawn", |client, directives| outcome(client.spawn(Vec::new(), vec![application(directives)]).wait())),
    ("PMIx_Log", |client, directives| {
        outcome(client.log(vec![info(keys::LOG_STDERR.name(), "text")], directives).wait())
    }),
    ("PMIx_Job_control", |client, directives| outcome(client.job_control(own(client), directives).wait())),
    ("PMIx_Process_monitor", |client, directives| {
        let period = info(keys::MONITOR_HEARTBEAT_TIME.name(), 1000_u32);
        let watched = client.monitor(
            info(keys::MONITOR_HEARTBEAT.name(), true),
            Status::SUCCESS,
            [vec![period], directives].concat(),
        );
        let watched = outcome(watched.wait());
        drop(client.monitor(cancellation(), Status::SUCCESS, Vec::new()).wait());
        watched
    }),
    ("PMIx_Process_monitor", |client, directives| {
        let watch = [info(keys::MONITOR_FILE_CHECK_TIME.name(), 1000_u32), info(keys::MONITOR_FILE_SIZE.name(), true)];
        let directives = [watch.to_vec(), directives].concat();
        let watched = client.monitor(info(keys::MONITOR_FILE.name(), "/dev/null"), Status::SUCCESS, directives);
        let watched = outcome(watched.wait());
        drop(client.monitor(cancellation(), Status::SUCCESS, Vec::new()).wait());
        watched
    }),
    ("PMIx_Process_monitor", |client, directives| {
        let usage = info(keys::MONITOR_NODE_RESOURCE_USAGE.name(), true);
        outcome(client.monitor(usage, Status::SUCCESS, directives).wait())
    }),
    ("PMIx_Process_monitor", |client, directives| {
        outcome(client.monitor(cancellation(), Status::SUCCESS, directives).wait())
    }),
    ("PMIx_Allocation_request", |client, directives| {
        outcome(client.allocate(alloc_directive::ALLOC_EXTEND, directives).wait())
    }),
    ("PMIx_Get_credential", |client, directives| outcome(client.get_credential(directives).wait())),
    ("PMIx_Validate_credential", |client, directives| {
        let credential = client.get_credential(Vec::new()).wait().map_err(|error| error.status())?;
        outcome(client.validate_credential(credential.bytes, directives).wait())
    }),
    ("PMIx_IOF_pull", |client, directives| {
        let id = pull(client, directives)?;
        client.iof_deregister(id, Vec::new()).wait().unwrap();
        Ok(())
    }),
    ("PMIx_IOF_push", |client, directives| outcome(client.iof_push(own(client), directives, vec![1]).wait())),
    ("PMIx_Register_event_handler", |client, directives| {
        let registered = client.register_event_handler(&[Status::ERR_SYS_OTHER], &directives, |call| {
            call.complete(Status::SUCCESS, Vec::new());
        });
        outcome(registered.wait().map(|id| client.deregister_event_handler(id).wait()))
    }),
    ("PMIx_Notify_event", |client, directives| {
        outcome(client.notify_event(Status::from_raw(-1001), None, range::RANGE_GLOBAL, &directives).wait())
    }),
    ("PMIx_Fabric_register", |client, directives| outcome(client.fabric_register(directives).wait())),
    ("PMIx_Resource_block", |client, directives| {
        outcome(client.resource_block(1, None, Vec::new(), directives).wait())
    }),
    ("PMIx_Session_control", |client, directives| outcome(client.session_control(1, directives).wait())),
];

/// Functions about services of the host that the server alone answers.
const OF_SERVER: [Function<Client>; 2] = [
    ("PMIx_Job_control", |client, directives| {
        let staged = [vec![info("modex.storage.cache", "/proc/self/status")], directives].concat();
        outcome(client.job_control(Vec::new(), staged).wait())
    }),
    ("PMIx_IOF_deregister", |client, directives| {
        let id = pull(client, Vec::new())?;
        let ended = outcome(client.iof_deregister(id, directives).wait());
        if ended.is_err() {
            client.iof_deregister(id, Vec::new()).wait().unwrap();
        }
        ended
    }),
];

fn pull(client: &Client, directives: Vec<Info>) -> Result<u64, Status> {
    let pulled = client.iof_pull(own(client), directives, iof_channel::FWD_STDOUT_CHANNEL, |_| {});
    pulled.wait().map_err(|error| error.status())
}

fn cancellation() -> Info {
    info(keys::MONITOR_CANCEL.name(), Value::Undefined)
}

fn application(info: Vec<Info>) -> App {
    let (argv, environment) = (vec![Text::from("true")], Vec::new());
    App { command: None, argv, environment, working_directory: None, processes_max: 1, info }
}

/// Functions of a server. The job "other" is not registered. `PMIx_Notify_event` is no such function: a host passes
/// events of other nodes on, with marks that it has honoured itself.
const SERVER_FUNCTIONS: [Function<Server>; 7] = [
    ("PMIx_server_setup_application", |server, directives| {
        outcome(server.setup_application(&namespace("other"), &directives))
    }),
    ("PMIx_server_setup_local_support", |server, directives| {
        outcome(server.setup_local_support(&namespace("other"), &directives))
    }),
    ("PMIx_server_IOF_deliver", |server, directives| outcome(server.iof_deliver(output(directives)).wait())),
    ("PMIx_server_IOF_deliver", |server, directives| outcome(server.iof_offer(output(directives)).wait())),
    ("PMIx_server_IOF_deliver", |server, directives| outcome(server.iof_offer_or_keep(output(directives)).wait())),
    ("PMIx_IOF_pull", |server, directives| {
        let channels = iof_channel::FWD_STDOUT_CHANNEL;
        outcome(server.iof_pull(vec![proc("job", 0)], directives, channels, |_| {}).wait())
    }),
    ("PMIx_Get", |server, directives| {
        outcome(server.find(Some(proc("job", 0)), Some(Key::from_static("own")), directives).wait())
    }),
];

fn output(info: Vec<Info>) -> IofOutput {
    let (source, channel, bytes) = (proc("job", 0), iof_channel::FWD_STDOUT_CHANNEL, b"line".to_vec());
    IofOutput { source, channel, bytes, info }
}

fn info(key: &'static str, value: impl Into<Value>) -> Info {
    Info::new(Key::from_static(key), value)
}

fn own(client: &Client) -> Vec<ProcId> {
    vec![client.proc().clone()]
}

/// The attributes that the library says it honours, by function.
fn supported(client: &Client) -> BTreeMap<String, BTreeSet<String>> {
    let levels = [keys::CLIENT_ATTRIBUTES, keys::SERVER_ATTRIBUTES, keys::TOOL_ATTRIBUTES, keys::HOST_ATTRIBUTES];
    let qualifiers = levels.map(|level| info(level.name(), "all")).to_vec();
    let query = Query { keys: vec![Text::from(keys::QUERY_ATTRIBUTE_SUPPORT.name())], qualifiers };
    let mut supported: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for level in client.query(vec![query]).wait().unwrap().results {
        for function in infos(&level.value) {
            let Value::DataArray(array) = &function.value else { panic!("{function:?}") };
            let names = array.elements.iter().map(|element| match element {
                Value::Regattr(attribute) => attribute.key.to_string_lossy(),
                other => panic!("{other:?}"),
            });
            supported.entry(function.key.as_str().to_owned()).or_default().extend(names);
        }
    }
    supported
}

fn infos(value: &Value) -> Vec<Info> {
    let Value::DataArray(array) = value else { panic!("{value:?}") };
    let info =
        |element: &Value| if let Value::Info(info) = element { Info::clone(info) } else { panic!("{element:?}") };
    array.elements.iter().map(info).collect()
}

/// A server and a process alone in its job, with the attributes that the library says it honours.
struct World {
    node: TestServer,
    client: Client,
    supported: BTreeMap<String, BTreeSet<String>>,
}

impl World {
    /// The server has all of its own services, unless the host has them.
    fn new(host: impl Host) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let services: ServerBuilder =
            Server::builder().name_service().file_monitor().resource_monitor().credentials(None);
        let services = services.fabric(FabricSource::parse("test:nodes:2;plane:d:2").unwrap());
        let services = services.storage(MountTable::new()).file_staging();
        let server = services.namespace("srv").hostname("node0").tmpdir(directory.path()).start(host).unwrap();
        let node = TestServer { server: server.into(), directory };
        node.register_local_job("job", 1);
        let client = node.connect("job", 0);
        client.put(Scope::Global, "own", 1_u32).unwrap();
        client.commit().unwrap();
        let supported = supported(&client);
        Self { node, client, supported }
    }

    /// The results of functions with each required attribute that these functions do not list.
    fn unlisted<T>(&self, functions: &[Function<T>], subject: &T) -> Vec<Case> {
        let mut cases = Vec::new();
        for attribute in keys::attributes() {
            // Keys that are not reserved are data.
            let is_data = |name: &str| name == "PMIx_Publish" && !Key::from_static(attribute.name).is_reserved();
            let is_listed = |name: &str| self.honours(name, attribute.name) || is_data(name);
            for (name, function) in functions.iter().filter(|(name, _)| !is_listed(name)) {
                cases.push((*name, attribute.macro_name, function(subject, vec![required(attribute.name)])));
            }
        }
        cases
    }

    fn of_client(&self) -> Vec<Case> {
        let functions = [&FUNCTIONS[..], &SERVICES, &OF_SERVER].concat();
        self.unlisted(&functions, &self.client)
    }

    fn honours(&self, function: &str, attribute: &str) -> bool {
        self.supported.get(function).is_some_and(|names| names.contains(attribute))
    }
}

/// A function, an attribute, and the result.
type Case = (&'static str, &'static str, Result<(), Status>);

fn assert_refused(cases: Vec<Case>) {
    let ignored: Vec<Case> =
        cases.into_iter().filter(|(.., result)| *result != Err(Status::ERR_NOT_SUPPORTED)).collect();
    assert!(ignored.is_empty(), "{} pairs: {ignored:#?}", ignored.len());
}

#[test]
fn no_function_succeeds_without_the_required_attribute() {
    let world = World::new(Knowing::default());
    assert_refused(world.of_client());
    assert_refused(world.unlisted(&SERVER_FUNCTIONS, &*world.node.server));
}

/// The mark of a required attribute reaches the host, unless the library honours the attribute itself.
#[test]
fn a_host_that_honours_nothing_refuses_required_attributes() {
    let world = World::new(Judging::new(false));
    assert_refused(world.of_client());
}

/// The server alone stops a pull, a push has no output, and only a host asks for others.
const REFUSED_BY_SERVER: [(&str, &str); 7] = [
    ("PMIx_Process_monitor", keys::MONITOR_PROXY.name()),
    ("PMIx_IOF_pull", keys::IOF_STOP.name()),
    ("PMIx_IOF_push", keys::IOF_CACHE_SIZE.name()),
    ("PMIx_IOF_push", keys::IOF_DROP_OLDEST.name()),
    ("PMIx_IOF_push", keys::IOF_DROP_NEWEST.name()),
    ("PMIx_IOF_push", keys::IOF_BUFFERING_SIZE.name()),
    ("PMIx_IOF_push", keys::IOF_BUFFERING_TIME.name()),
];

#[test]
fn a_host_that_honours_everything_gets_the_required_attributes() {
    let host = Judging::new(true);
    let heard = Arc::clone(&host.heard);
    let world = World::new(host);
    for (name, function) in SERVICES {
        let is_passed = |key: &&str| !world.honours(name, key) && !REFUSED_BY_SERVER.contains(&(name, *key));
        let passed: BTreeSet<&str> = keys::attributes().map(|attribute| attribute.name).filter(is_passed).collect();
        let all = passed.iter().copied().map(required).collect();
        assert_eq!(function(&world.client, all), Ok(()), "{name}");
        let heard = std::mem::take(&mut *heard.lock().unwrap());
        let lost: Vec<&str> = passed.into_iter().filter(|key| !heard.contains(*key)).collect();
        assert_eq!(lost, [""; 0], "{name}");
        for (_, key) in REFUSED_BY_SERVER.into_iter().filter(|(refusing, _)| *refusing == name) {
            assert_eq!(function(&world.client, vec![required(key)]), Err(Status::ERR_NOT_SUPPORTED), "{name}: {key}");
        }
    }
}

/// Attributes that functions honour come with values of other types, too.
#[test]
fn no_function_succeeds_with_a_required_value_that_it_cannot_read() {
    let world = World::new(Knowing::default());
    let mut ignored = Vec::new();
    for attribute in keys::attributes() {
        let words = [Value::ByteObject(vec![1]), Value::from("word"), Value::CompressedString(vec![1])];
        for value in words.into_iter().chain([Value::Double(0.5), Value::Uint8(1)]) {
            if rows_with_name(attribute.name).any(|row| takes(row.value_type, &value)) {
                continue;
            }
            let wrong = Info { value: value.clone(), ..required(attribute.name) };
            let mut note = |name, result: Result<(), Status>| {
                if result.is_ok() {
                    ignored.push((name, attribute.macro_name, value.data_type()));
                }
            };
            for (name, function) in FUNCTIONS.iter().chain(&SERVICES).chain(&OF_SERVER) {
                if world.honours(name, attribute.name) {
                    note(*name, function(&world.client, vec![wrong.clone()]));
                }
            }
            for (name, function) in SERVER_FUNCTIONS {
                if world.honours(name, attribute.name) {
                    note(name, function(&world.node.server, vec![wrong.clone()]));
                }
            }
        }
    }
    assert!(ignored.is_empty(), "{} cases: {ignored:#?}", ignored.len());
}

/// Whether an attribute of this kind may have the value.
fn takes(kind: ValueKind, value: &Value) -> bool {
    let own = kind.data_type();
    own == value.data_type()
        || own == DataType::Undefined
        || matches!(kind, ValueKind::Pointer | ValueKind::EnvironmentVariable)
        || own == DataType::Float && value.data_type() == DataType::Double
        || NUMBERS.contains(&own) && value.as_u64().is_some()
}

/// Types of numbers, for which numbers of any width are taken.
const NUMBERS: [DataType; 10] = [
    DataType::Int,
    DataType::Int32,
    DataType::Uint16,
    DataType::Uint32,
    DataType::Uint64,
    DataType::Size,
    DataType::Pid,
    DataType::ProcRank,
    DataType::DataRange,
    DataType::Persistence,
];

fn required(key: &'static str) -> Info {
    Info { flags: InfoFlags::REQUIRED.bits(), ..info(key, true) }
}

/// A description takes values of any key. So a required info is refused, or processes find its value.
#[test]
fn a_required_info_of_a_description_is_found_or_refused() {
    let node = TestServer::start("node0", Knowing::default());
    node.register_local_job("asking", 1);
    let supported = supported(&node.connect("asking", 0));
    let is_directive = |attribute: &keys::Attribute| supported["PMIx_server_register_nspace"].contains(attribute.name);
    let mut lost = Vec::new();
    for (number, attribute) in keys::attributes().filter(|attribute| !is_directive(attribute)).enumerate() {
        for value in [Value::from(true), Value::Uint32(1), Value::from("1"), Value::info_array(Vec::new())] {
            let job = namespace(&format!("job-{number}"));
            let infos = vec![info(keys::JOB_SIZE.name(), 1_u32), Info { value, ..required(attribute.name) }];
            if node.server.register_namespace(&job, 0, infos).wait().is_err() {
                continue;
            }
            let whole = ProcId { namespace: job.clone(), rank: Rank::Wildcard };
            let key = Key::from_static(attribute.name);
            let found = [whole, ProcId::new(job.clone(), 0)].into_iter().any(|proc| {
                node.server.get(&proc, Some(&key), vec![info(keys::IMMEDIATE.name(), true)]).wait().is_ok()
            });
            if !found {
                lost.push(attribute.macro_name);
            }
            node.server.deregister_namespace(&job).wait().unwrap();
        }
    }
    assert!(lost.is_empty(), "{} attributes: {lost:?}", lost.len());
}

/// Infos of a tool are for the host. Our server has one without a function for tools.
#[test]
fn no_tool_succeeds_without_the_required_info() {
    let directory = tempfile::tempdir().unwrap();
    let tools = ToolSupport { admission: ToolAdmission::Assigned, ..ToolSupport::default() };
    let server = Server::builder()
        .tmpdir(directory.path())
        .system_tmpdir(directory.path())
        .tools(tools)
        .start(Knowing::default());
    let server = server.unwrap();
    let directions =
        |info: Vec<Info>| ToolDirections { address: Some(server.uri()), info, ..ToolDirections::default() };
    let attached = Tool::builder().env([("HOME", "/")]).directions(directions(Vec::new())).connect().unwrap();
    let supported = supported(&attached.client().unwrap());
    let mut ignored = Vec::new();
    for attribute in keys::attributes().filter(|attribute| !supported["PMIx_tool_init"].contains(attribute.name)) {
        let infos = || vec![required(attribute.name)];
        let builder = || Tool::builder().env([("HOME", "/")]).directions(directions(infos()));
        let results = [
            outcome(builder().connect()),
            outcome(builder().optional().connect()),
            outcome(builder().alone().connect()),
            outcome(attached.attach(&directions(infos()))),
        ];
        if results != [Err(Status::ERR_NOT_SUPPORTED); 4] {
            ignored.push((attribute.macro_name, results));
        }
    }
    assert!(ignored.is_empty(), "{} attributes: {ignored:#?}", ignored.len());
}
