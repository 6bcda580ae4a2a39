//! Required means required: each attribute of the dictionary, marked so, goes to each function of a client, a server
//! and a tool. Functions succeed only with attributes that `PMIX_QUERY_ATTRIBUTE_SUPPORT` lists for them.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use modex::keys::{ValueKind, rows_with_name};
use modex::types::codes::{iof_channel, range};
use modex::types::{AsStatus, DataType, Info, InfoFlags, Key, ProcId, Query, Rank, Scope, Status, Text, Value};
use modex::{
    Capabilities, Client, FenceOptions, GetOptions, Host, HostFacts, IofOutput, QueryInfo, Requester, Responder,
};
use modex::{Server, Tool, ToolAdmission, ToolDirections, ToolSupport, keys};
use support::{TestServer, namespace, proc};

#[test]
fn client_process() {}

const GROUP: &str = "group";

/// A host that knows the facts of this library, and nothing of its own.
#[derive(Default)]
struct Knowing(HostFacts);

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

/// A function with one directive.
type Function = (&'static str, fn(&Client, Info) -> Result<(), Status>);

/// A function of a server with one directive.
type ServerFunction = (&'static str, fn(&Server, Info) -> Result<(), Status>);

fn outcome<T, E: AsStatus + Display>(result: Result<T, E>) -> Result<(), Status> {
    result.map(drop).map_err(|error| error.status())
}

/// Functions that a process alone in its job can complete, and that no host answers. The last ones need a host.
const FUNCTIONS: [Function; 15] = [
    ("PMIx_Get", |client, directive| {
        outcome(client.get_value(client.proc(), "own", &GetOptions::new().info(directive)))
    }),
    ("PMIx_Fence", |client, directive| outcome(client.fence(&FenceOptions::new().info(directive)).wait())),
    ("PMIx_Notify_event", |client, directive| {
        outcome(client.notify_event(Status::from_raw(-1001), None, range::RANGE_LOCAL, &[directive]).wait())
    }),
    ("PMIx_Notify_event", |client, directive| {
        outcome(client.notify_event(Status::from_raw(-1001), None, range::RANGE_PROC_LOCAL, &[directive]).wait())
    }),
    ("PMIx_Register_event_handler", |client, directive| {
        let registered = client.register_event_handler(&[Status::from_raw(-1001)], &[directive], |call| {
            call.complete(Status::SUCCESS, Vec::new());
        });
        outcome(registered.wait().map(|id| client.deregister_event_handler(id).wait()))
    }),
    ("PMIx_Connect", |client, directive| outcome(client.connect_processes(own(client), vec![directive]).wait())),
    ("PMIx_Disconnect", |client, directive| {
        client.connect_processes(own(client), Vec::new()).wait().unwrap();
        let left = outcome(client.disconnect_processes(own(client), vec![directive]).wait());
        if left.is_err() {
            client.disconnect_processes(own(client), Vec::new()).wait().unwrap();
        }
        left
    }),
    ("PMIx_Group_construct", |client, directive| {
        let formed = outcome(client.group_construct(GROUP, own(client), vec![directive]).wait());
        if formed.is_ok() {
            client.group_destruct(GROUP, Vec::new()).wait().unwrap();
        }
        formed
    }),
    ("PMIx_Group_destruct", |client, directive| {
        client.group_construct(GROUP, own(client), Vec::new()).wait().unwrap();
        let ended = outcome(client.group_destruct(GROUP, vec![directive]).wait());
        if ended.is_err() {
            client.group_destruct(GROUP, Vec::new()).wait().unwrap();
        }
        ended
    }),
    ("PMIx_Group_invite", |client, directive| {
        let formed = outcome(client.group_invite(GROUP, own(client), vec![directive]).wait());
        if formed.is_ok() {
            client.group_leave(GROUP, Vec::new()).wait().unwrap();
        }
        formed
    }),
    ("PMIx_Group_leave", |client, directive| outcome(client.group_leave(GROUP, vec![directive]).wait())),
    ("PMIx_Query_info", |client, directive| {
        let query = Query { keys: vec![Text::from(keys::QUERY_NAMESPACES.name())], qualifiers: vec![directive] };
        outcome(client.query(vec![query]).wait())
    }),
    ("PMIx_Fabric_register", |client, directive| outcome(client.fabric_register(vec![directive]).wait())),
    ("PMIx_Resource_block", |client, directive| {
        outcome(client.resource_block(1, None, Vec::new(), vec![directive]).wait())
    }),
    ("PMIx_Session_control", |client, directive| outcome(client.session_control(1, vec![directive]).wait())),
];

/// Functions of a server. The job "other" is not registered. `PMIx_Notify_event` is no such function: a host passes
/// events of other nodes on, with marks that it has honoured itself.
const SERVER_FUNCTIONS: [ServerFunction; 6] = [
    ("PMIx_server_setup_application", |server, directive| {
        outcome(server.setup_application(&namespace("other"), &[directive]))
    }),
    ("PMIx_server_setup_local_support", |server, directive| {
        outcome(server.setup_local_support(&namespace("other"), &[directive]))
    }),
    ("PMIx_server_IOF_deliver", |server, directive| outcome(server.iof_deliver(output(directive)).wait())),
    ("PMIx_server_IOF_deliver", |server, directive| outcome(server.iof_offer(output(directive)).wait())),
    ("PMIx_server_IOF_deliver", |server, directive| outcome(server.iof_offer_or_keep(output(directive)).wait())),
    ("PMIx_Get", |server, directive| {
        outcome(server.find(Some(proc("job", 0)), Some(Key::from_static("own")), vec![directive]).wait())
    }),
];

fn output(directive: Info) -> IofOutput {
    let (source, channel, bytes) = (proc("job", 0), iof_channel::FWD_STDOUT_CHANNEL, b"line".to_vec());
    IofOutput { source, channel, bytes, info: vec![directive] }
}

fn info(key: &'static str, value: impl Into<Value>) -> Info {
    Info::new(Key::from_static(key), value)
}

fn own(client: &Client) -> Vec<ProcId> {
    vec![client.proc().clone()]
}

/// The attributes that the library says it honours, by function.
fn supported(client: &Client) -> BTreeMap<String, BTreeSet<String>> {
    let levels = [keys::CLIENT_ATTRIBUTES, keys::SERVER_ATTRIBUTES, keys::TOOL_ATTRIBUTES];
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
    fn new() -> Self {
        let node = TestServer::start("node0", Knowing::default());
        node.register_local_job("job", 1);
        let client = node.connect("job", 0);
        client.put(Scope::Global, "own", 1_u32).unwrap();
        client.commit().unwrap();
        let supported = supported(&client);
        Self { node, client, supported }
    }

    /// The results of all functions with a directive.
    fn results(&self, directive: &Info) -> impl Iterator<Item = (&'static str, Result<(), Status>)> {
        let of_client = FUNCTIONS.map(|(name, function)| (name, function(&self.client, directive.clone())));
        let of_server = SERVER_FUNCTIONS.map(|(name, function)| (name, function(&self.node.server, directive.clone())));
        of_client.into_iter().chain(of_server)
    }

    fn honours(&self, function: &str, attribute: &str) -> bool {
        self.supported.get(function).is_some_and(|names| names.contains(attribute))
    }
}

#[test]
fn no_function_succeeds_without_the_required_attribute() {
    let world = World::new();
    let mut ignored = Vec::new();
    for attribute in keys::attributes() {
        for (name, result) in world.results(&required(attribute.name)) {
            if !world.honours(name, attribute.name) && result != Err(Status::ERR_NOT_SUPPORTED) {
                ignored.push((name, attribute.macro_name, result));
            }
        }
    }
    assert!(ignored.is_empty(), "{} pairs: {ignored:#?}", ignored.len());
}

/// Attributes that functions honour come with values of other types, too.
#[test]
fn no_function_succeeds_with_a_required_value_that_it_cannot_read() {
    let world = World::new();
    let mut ignored = Vec::new();
    for attribute in keys::attributes() {
        let words = [Value::ByteObject(vec![1]), Value::from("word"), Value::CompressedString(vec![1])];
        for value in words.into_iter().chain([Value::Double(0.5), Value::Uint8(1)]) {
            if rows_with_name(attribute.name).any(|row| takes(row.value_type, &value)) {
                continue;
            }
            let wrong = Info { value: value.clone(), ..required(attribute.name) };
            for (name, result) in world.results(&wrong) {
                if world.honours(name, attribute.name) && result.is_ok() {
                    ignored.push((name, attribute.macro_name, value.data_type()));
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
