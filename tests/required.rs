//! Required means required: each attribute of the dictionary, marked so, goes to each function of a client. Functions
//! succeed only with attributes that `PMIX_QUERY_ATTRIBUTE_SUPPORT` lists for them.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use modex::types::codes::range;
use modex::types::{AsStatus, Info, InfoFlags, Key, ProcId, Query, Scope, Status, Text, Value};
use modex::{Capabilities, Client, FenceOptions, GetOptions, Host, HostFacts, QueryInfo, Requester, Responder, keys};
use support::TestServer;

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

fn outcome<T, E: AsStatus + Display>(result: Result<T, E>) -> Result<(), Status> {
    result.map(drop).map_err(|error| error.status())
}

/// Functions that a process alone in its job can complete, and that no host answers.
const FUNCTIONS: [Function; 11] = [
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
];

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

#[test]
fn no_function_succeeds_without_the_required_attribute() {
    let node = TestServer::start("node0", Knowing::default());
    node.register_local_job("job", 1);
    let client = node.connect("job", 0);
    client.put(Scope::Global, "own", 1_u32).unwrap();
    client.commit().unwrap();
    let supported = supported(&client);
    let mut ignored = Vec::new();
    for attribute in keys::attributes() {
        let directive = Info { flags: InfoFlags::REQUIRED.bits(), ..info(attribute.name, true) };
        for (name, function) in FUNCTIONS {
            let is_honoured = supported.get(name).is_some_and(|names| names.contains(attribute.name));
            if !is_honoured && function(&client, directive.clone()) != Err(Status::ERR_NOT_SUPPORTED) {
                ignored.push((name, attribute.macro_name, function(&client, directive.clone())));
            }
        }
    }
    assert!(ignored.is_empty(), "{} pairs: {ignored:#?}", ignored.len());
}
