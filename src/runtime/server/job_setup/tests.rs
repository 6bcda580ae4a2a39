use std::collections::BTreeMap;
use std::sync::{Arc, mpsc};

use parking_lot::Mutex;

use crate::gds::registration::{Description, JobDescription, read_lists};
use crate::keys::TypedKey;
use crate::log_lines::LogLines;
use crate::regex::TypedList;
use crate::topo::inventory::{Device, Inventory};
use crate::types::codes::device_type::DEVTYPE_NETWORK;
use crate::types::{AsStatus, Info, InfoFlags, Key, Namespace, ProcId, Rank, Regex2, Status, Text, Value};
use crate::{Allocate, Capabilities, FabricSource, Host, LocalHost, Requester, Responder, Server, StaticPorts, keys};

use super::layout::elements;
use super::{
    ALLOTMENTS_MAX, EnvironmentChange, JobSetup, MARK, NamespaceRegistration, SetupError, TRANSPORT_KEY_VARIABLE,
};

/// A server with a job.
struct Fixture {
    server: Server,
    namespace: Namespace,
    _directory: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        // No scheduler is there.
        let builder = Server::builder().hostname("n0").tmpdir(directory.path()).system_tmpdir(directory.path());
        let server = builder.start(LocalHost).unwrap();
        Self { server, namespace: Namespace::new("job").unwrap(), _directory: directory }
    }

    fn setup(&self) -> &Arc<JobSetup> {
        self.server.jobs()
    }

    fn give(&self, name: &'static str, number: u32) -> Result<(), SetupError> {
        self.setup().give(&self.namespace, value(name, number))
    }

    /// Values left for the registration.
    fn left(&self) -> Vec<Info> {
        self.setup()
            .jobs
            .lock()
            .get(&self.namespace)
            .map_or_else(Vec::new, |job| [job.left.values(), job.left.endpoints().as_slice()].concat())
    }

    /// Begins the first registration; returns it and the values that the description got.
    fn begin(&self) -> (NamespaceRegistration, Vec<Info>) {
        let mut description = Description::default();
        let registration = self.setup().begin(&self.namespace, &mut description);
        (registration, description.infos().to_vec())
    }

    /// Registers the job with the core, during a registration that has begun.
    fn register(&self) {
        let ranks = std::iter::once(0..1);
        let description = JobDescription::new(&self.namespace).nodes(["n0"]).ranks_by_node(ranks).build().unwrap();
        self.server.register_namespace(&self.namespace, 1, description).wait().unwrap();
    }

    fn number(&self, name: &'static str) -> Option<u32> {
        let job = ProcId { namespace: self.namespace.clone(), rank: Rank::Wildcard };
        let found = self.server.get(&job, Some(&Key::from_static(name)), Vec::new()).wait().ok()?;
        found.iter().find(|kval| kval.key.as_str() == name)?.value.as_u32()
    }
}

fn value(name: &'static str, number: u32) -> Vec<Info> {
    vec![Info::new(Key::from_static(name), number)]
}

/// Regression: values given during a registration created the job in the core, without a size or processes; or they
/// were lost.
#[test]
fn values_given_during_a_registration_are_added_after_it() {
    let fixture = Fixture::new();
    let (registration, _) = fixture.begin();
    fixture.give("site.colour", 7).unwrap();
    assert_eq!(fixture.left(), value("site.colour", 7), "the core knows no such job");
    fixture.register();
    // The registration looked before the values were there.
    registration.conclude(true);
    assert_eq!(fixture.left(), []);
    // Calls are served in order, so the value is there when this one is.
    fixture.give("site.size", 8).unwrap();
    assert_eq!(["site.colour", "site.size"].map(|name| fixture.number(name)), [Some(7), Some(8)]);
}

/// Regression: of two calls before the registration only the second call's values were kept. A call that added its
/// values to the job removed those that another call had left for the registration.
#[test]
fn the_values_of_several_calls_are_all_added_to_the_job() {
    let fixture = Fixture::new();
    fixture.give("site.a", 1).unwrap();
    fixture.give("site.b", 2).unwrap();
    fixture.give("site.b", 2).unwrap();
    let (registration, described) = fixture.begin();
    assert_eq!(described, [value("site.a", 1), value("site.b", 2)].concat());
    fixture.give("site.c", 3).unwrap();
    assert_eq!(fixture.left(), value("site.c", 3), "the others are in the description");
    // The core has the job now; the registering thread has not yet looked for values that came meanwhile.
    fixture.register();
    fixture.give("site.d", 4).unwrap();
    assert_eq!(fixture.left(), [value("site.c", 3), value("site.d", 4)].concat(), "the registration hands them over");
    registration.conclude(true);
    assert_eq!(fixture.left(), []);
    fixture.give("site.e", 5).unwrap();
    let found = ["site.a", "site.b", "site.c", "site.d", "site.e"].map(|name| fixture.number(name));
    assert_eq!(found, [None, None, Some(3), Some(4), Some(5)], "what was taken is not added again");
}

/// Regression: values left during a registration were added last, over newer values of a later call.
#[test]
fn the_newest_value_of_a_key_stands_whoever_adds_last() {
    let fixture = Fixture::new();
    let (registration, _) = fixture.begin();
    fixture.give("site.c", 3).unwrap();
    fixture.register();
    fixture.give("site.c", 4).unwrap();
    registration.conclude(true);
    // Calls are served in order, so the noted values are there when this call returns.
    fixture.give("site.d", 5).unwrap();
    assert_eq!(fixture.number("site.c"), Some(4));
}

/// Regression: after a refused registration, the second registration of the job had none of its allocated values.
#[test]
fn values_given_to_a_job_outlive_a_refused_registration() {
    let fixture = Fixture::new();
    fixture.give("site.a", 1).unwrap();
    let (registration, _) = fixture.begin();
    fixture.give("site.b", 2).unwrap();
    registration.conclude(false);
    assert_eq!(fixture.left(), [value("site.a", 1), value("site.b", 2)].concat());
    let (registration, _) = fixture.begin();
    assert!(registration.is_first(), "the job is not described");
    fixture.register();
    registration.conclude(true);
    assert_eq!(fixture.left(), []);
}

/// Regression: a host that prepared a job again and again without registering it filled memory.
#[test]
fn a_job_is_given_so_much_before_it_is_registered_and_no_more() {
    let fixture = Fixture::new();
    for _ in 0..ALLOTMENTS_MAX {
        fixture.give("site.a", 1).unwrap();
    }
    assert!(matches!(fixture.give("site.a", 1), Err(SetupError::TooOften)));
    assert_eq!(fixture.left(), value("site.a", 1));
    let (registration, _) = fixture.begin();
    fixture.register();
    registration.conclude(true);
    fixture.give("site.a", 1).unwrap();
    assert_eq!(fixture.number("site.a"), Some(1));
}

/// A Rust host gets what the C library's hosts get: resources and fabric values reach the job's description.
#[test]
fn resources_and_allotted_values_are_in_the_description_that_a_host_registers() {
    let fixture = Fixture::new();
    let Fixture { server, namespace, .. } = &fixture;
    server.register_resources(value("site.power", 9)).unwrap();
    fixture.give("site.net", 1).unwrap();
    let description = || JobDescription::new(namespace).nodes(["n0"]).ranks_by_node([[0]]).build().unwrap();
    server.register_namespace(namespace, 1, description()).wait().unwrap();
    assert_eq!(["site.power", "site.net"].map(|name| fixture.number(name)), [Some(9), Some(1)]);
    server.register_resources([value("site.late", 3), value("site.net", 4)].concat()).unwrap();
    assert_eq!(["site.late", "site.net"].map(|name| fixture.number(name)), [Some(3), Some(1)], "its own value stays");
    server.deregister_resources(&value("site.late", 0));
    assert_eq!(["site.late", "site.power"].map(|name| fixture.number(name)), [None, Some(9)]);
    server.deregister_resources(&value("site.net", 0));
    server.deregister_namespace(namespace).wait().unwrap();
    server.deregister_resources(&value("site.power", 0));
    server.register_namespace(namespace, 1, description()).wait().unwrap();
    assert_eq!(["site.power", "site.net"].map(|name| fixture.number(name)), [None, None]);
}

/// PRRTE registers the facts about each group before it answers the members' servers. Each stayed in every job.
#[test]
fn facts_about_a_group_are_no_resources() {
    let fixture = Fixture::new();
    let number = keys::GROUP_CONTEXT_ID.name();
    fixture.server.register_resources([value(number, 5), value("site.power", 9)].concat()).unwrap();
    fixture.server.register_resources(value(number, 6)).unwrap();
    let (_registration, added) = fixture.begin();
    assert_eq!(added, value("site.power", 9));
}

/// A change of resources while a job is being registered reaches it at the end of its registration.
#[test]
fn resources_that_change_during_a_registration_reach_the_job() {
    let fixture = Fixture::new();
    let Fixture { server, .. } = &fixture;
    server.register_resources(value("site.old", 1)).unwrap();
    let (registration, added) = fixture.begin();
    assert_eq!(added, value("site.old", 1));
    server.register_resources(value("site.new", 2)).unwrap();
    fixture.register();
    assert_eq!(fixture.number("site.new"), None);
    registration.conclude(true);
    // Calls are served in order.
    assert_eq!(fixture.number("site.new"), Some(2));
}

/// A job without data gets none from resources, before its registration and after it.
#[test]
fn a_job_without_data_gets_no_resources() {
    let fixture = Fixture::new();
    let Fixture { server, namespace, .. } = &fixture;
    server.register_resources(value("site.old", 1)).unwrap();
    let nodata = vec![Info::new(Key::from_static(keys::REGISTER_NODATA.name()), true)];
    server.register_namespace(namespace, 0, nodata).wait().unwrap();
    server.register_resources(value("site.new", 2)).unwrap();
    assert_eq!(["site.old", "site.new"].map(|name| fixture.number(name)), [None, None]);
}

/// An operation that is dropped leaves the job its values. Its `wait` and its `then` both end the registration.
#[test]
fn a_registration_begins_with_the_wait_or_the_callback_and_ends_before_their_result() {
    let fixture = Fixture::new();
    let Fixture { server, namespace, .. } = &fixture;
    let description = || JobDescription::new(namespace).nodes(["n0"]).ranks_by_node([[0]]).build().unwrap();
    fixture.give("site.a", 1).unwrap();
    drop(server.register_namespace(namespace, 1, description()));
    assert_eq!(fixture.left(), value("site.a", 1));
    let refused = || vec![Info::new(Key::from_static(crate::keys::PROC_MAP.name()), 1_u32)];
    assert!(server.register_namespace(namespace, 1, refused()).wait().is_err());
    assert_eq!(fixture.left(), value("site.a", 1));
    let (sender, receiver) = mpsc::channel();
    let end = |sender: &mpsc::Sender<_>| {
        let sender = sender.clone();
        move |result| sender.send(result).unwrap()
    };
    server.register_namespace(namespace, 1, refused()).then(end(&sender)).unwrap();
    assert!(receiver.recv().unwrap().is_err());
    assert_eq!(fixture.left(), value("site.a", 1));
    server.register_namespace(namespace, 1, description()).then(end(&sender)).unwrap();
    assert_eq!((receiver.recv().unwrap(), fixture.number("site.a")), (Ok(()), Some(1)));
    fixture.give("site.b", 2).unwrap();
    assert_eq!((fixture.left(), fixture.number("site.b")), (Vec::new(), Some(2)));
}

fn setting(name: &str, value: &str) -> Info {
    EnvironmentChange::set(name.as_ref(), value.as_ref()).info()
}

fn names(changes: &[EnvironmentChange]) -> Vec<&str> {
    changes.iter().filter_map(|change| change.name().to_str()).collect()
}

/// Regression: of two calls for one job only the second call's variables were kept. Those of its first application were
/// lost.
#[test]
fn local_support_adds_up_until_the_job_is_deregistered() {
    let fixture = Fixture::new();
    let Fixture { server, namespace, .. } = &fixture;
    let support = |name: &str| server.setup_local_support(namespace, &[setting(name, "1")]).unwrap();
    assert_eq!(names(&support("A")), ["A"]);
    assert_eq!(names(&support("B")), ["A", "B"]);
    assert_eq!(names(&support("A")), ["B", "A"]);
    let (registration, _) = fixture.begin();
    registration.conclude(false);
    assert_eq!(names(&support("C")), ["B", "A", "C"], "a refused registration takes nothing away");
    fixture.register();
    assert_eq!(names(&support("D")), ["B", "A", "C", "D"]);
    server.deregister_namespace(namespace).wait().unwrap();
    assert_eq!(names(&support("E")), ["E"]);
}

/// Such an info was ignored, although it was required.
#[test]
fn a_required_change_of_the_environment_that_says_nothing_is_refused() {
    let fixture = Fixture::new();
    let Fixture { server, namespace, .. } = &fixture;
    let required = |info: Info| Info { flags: InfoFlags::REQUIRED.bits(), ..info };
    let odd = required(Info::new(Key::from_static(keys::SET_ENVAR.name()), true));
    let refusals = [
        server.setup_application(namespace, std::slice::from_ref(&odd)).map(drop),
        server.setup_local_support(namespace, std::slice::from_ref(&odd)).map(drop),
    ];
    assert!(refusals.iter().all(|refused| matches!(refused, Err(SetupError::Unknown { .. }))), "{refusals:?}");
    assert_eq!(names(&server.setup_local_support(namespace, &[required(setting("A", "1"))]).unwrap()), ["A"]);
}

#[test]
fn the_infos_of_a_setup_are_for_their_job_and_version_alone() {
    let fixture = Fixture::new();
    let Fixture { server, namespace, .. } = &fixture;
    let infos = server.setup_application(namespace, &[setting("A", "1")]).unwrap();
    assert_eq!(infos.first().map(|info| info.key.as_str()), Some(MARK));
    assert_eq!(names(&server.setup_local_support(namespace, &infos).unwrap()), ["A"]);
    let other = Namespace::new("other").unwrap();
    let refused = server.setup_local_support(&other, &infos).unwrap_err();
    assert!(matches!(&refused, SetupError::ForeignJob { found, .. } if found == "job"), "{refused:?}");
    // PRRTE passes on the changes of the environment alone.
    assert_eq!(names(&server.setup_local_support(&other, &infos[1..]).unwrap()), ["A"]);
    for mark in ["2 job", "", "job"] {
        let refused = server.setup_local_support(namespace, &[Info::new(Key::from_static(MARK), mark)]).unwrap_err();
        assert!(matches!(refused, SetupError::Version { .. }), "{mark:?}");
    }
    assert_eq!(server.setup_application(namespace, &[]).unwrap(), [], "without content there is no mark");
}

#[test]
fn a_choice_selects_variables_and_a_wish_counts_beside_any() {
    let fixture = Fixture::new();
    let Fixture { server, namespace, .. } = &fixture;
    let fabric = vec![
        Info::new(Key::from_static(keys::ALLOC_FABRIC_ID.name()), "net"),
        Info::new(Key::from_static(keys::ALLOC_FABRIC_SEC_KEY.name()), true),
    ];
    let wishes = [
        setting("A", "1"),
        Info::new(Key::from_static(keys::ALLOC_FABRIC.name()), Value::info_array(fabric)),
        Info::new(Key::from_static(keys::NODE_MAP.name()), "n0"),
        Info::new(Key::from_static(keys::PROC_MAP.name()), "0"),
    ];
    let content = |choices: &[TypedKey<bool>]| {
        let choices: Vec<Info> = choices.iter().copied().map(flag).collect();
        let infos = server.setup_application(namespace, &[wishes.as_slice(), &choices].concat()).unwrap();
        let is_change = |info: &&Info| info.key.as_str() == keys::SET_ENVAR.name();
        (infos.iter().any(|info| is_change(&info)), infos.iter().skip(1).any(|info| !is_change(&info)))
    };
    let (envars, others, all) = (keys::SETUP_APP_ENVARS, keys::SETUP_APP_NONENVARS, keys::SETUP_APP_ALL);
    assert_eq!(content(&[others]), (false, true));
    for both in [&[][..], &[envars], &[all], &[envars, others]] {
        assert_eq!(content(both), (true, true));
    }
}

/// Open MPI's `mtl/psm2` does not open its endpoint without the key.
#[test]
fn a_setup_of_other_data_gives_the_job_a_transport_key() {
    let fixture = Fixture::new();
    let Fixture { server, namespace, .. } = &fixture;
    let secret = |is_wanted: bool| {
        let parts = [part(keys::ALLOC_FABRIC_ID.name(), "net"), part(keys::ALLOC_FABRIC_SEC_KEY.name(), is_wanted)];
        part(keys::ALLOC_FABRIC.name(), Value::info_array(parts.to_vec()))
    };
    let maps = TWO_NODES.map(|(key, text)| part(key, text));
    let key = |wish: Info| {
        let mut infos = server.setup_application(namespace, &[&maps[..], &[wish]].concat()).unwrap();
        infos.retain(|info| info.key.as_str() == keys::CREDENTIAL.name());
        infos.pop()
    };
    for none in [flag(keys::SETUP_APP_ENVARS), secret(false)] {
        assert_eq!(key(none), None);
    }
    let first = key(flag(keys::SETUP_APP_NONENVARS)).unwrap();
    // A later application of the job has the same key.
    for wish in [flag(keys::SETUP_APP_ALL), secret(true)] {
        assert_eq!(key(wish).as_ref(), Some(&first));
    }
    fixture.start(&[flag(keys::SETUP_APP_NONENVARS)]).unwrap();
    assert_eq!(fixture.found(Rank::Wildcard, keys::CREDENTIAL.name()), Some(first.value));
}

/// Regression: the newer one counted, so the order of calls chose the key of a node.
#[test]
fn a_setup_replaces_no_credential_of_the_host() {
    for is_first in [true, false] {
        let Fixture { server, namespace, .. } = &Fixture::new();
        let infos = server.setup_application(namespace, &[flag(keys::SETUP_APP_NONENVARS)]).unwrap();
        let set_up = || {
            let changes = server.setup_local_support(namespace, &infos).unwrap();
            assert_eq!(names(&changes), [TRANSPORT_KEY_VARIABLE]);
        };
        if is_first {
            set_up();
        }
        let description = JobDescription::new(namespace).nodes(["n0"]).ranks_by_node([vec![0]]);
        let description = description.job_value(Key::from_static(keys::CREDENTIAL.name()), "host").build().unwrap();
        server.register_namespace(namespace, 1, description).wait().unwrap();
        if !is_first {
            set_up();
        }
        let process = ProcId { namespace: namespace.clone(), rank: Rank::Wildcard };
        let found = server.get(&process, Some(&Key::from_static(keys::CREDENTIAL.name())), Vec::new()).wait().unwrap();
        assert_eq!(found[0].value, Value::from("host"));
    }
}

/// The credential of an update was replaced, and that of a refused registration kept the setup's out.
#[test]
fn a_setups_credential_gives_way_to_that_of_a_registration_that_succeeded() {
    let Fixture { server, namespace, .. } = &Fixture::new();
    let infos = server.setup_application(namespace, &[flag(keys::SETUP_APP_NONENVARS)]).unwrap();
    let described = |credential: Option<&str>, ranks: Vec<u32>| {
        let description = JobDescription::new(namespace).nodes(["n0"]).ranks_by_node([ranks]);
        let credential = credential.map(|credential| (Key::from_static(keys::CREDENTIAL.name()), credential));
        let described = credential.into_iter().fold(description, |all, (key, value)| all.job_value(key, value));
        server.register_namespace(namespace, 1, described.build().unwrap()).wait()
    };
    let found = || {
        let process = ProcId { namespace: namespace.clone(), rank: Rank::Wildcard };
        let found = server.get(&process, Some(&Key::from_static(keys::CREDENTIAL.name())), Vec::new()).wait();
        found.unwrap().pop().unwrap().value
    };
    let contradictory = vec![part(keys::NODE_MAP.name(), "n0,n1"), part(keys::PROC_MAP.name(), "0")];
    let refused = [vec![part(keys::CREDENTIAL.name(), "refused")], contradictory].concat();
    server.register_namespace(namespace, 1, refused).wait().unwrap_err();
    server.setup_local_support(namespace, &infos).unwrap();
    described(None, vec![0]).unwrap();
    let setups = found();
    assert_ne!(setups, Value::from("refused"));
    described(Some("host"), vec![0]).unwrap();
    server.setup_local_support(namespace, &infos).unwrap();
    assert_eq!((found(), setups != Value::from("host")), (Value::from("host"), true));
}

fn flag(key: TypedKey<bool>) -> Info {
    Info::new(Key::from_static(key.name()), true)
}

/// A scheduler's server with the test fabric, which also runs node `test000`.
fn fixture_with_fabric() -> Fixture {
    let directory = tempfile::tempdir().unwrap();
    let fabric = FabricSource::parse("test:wide:3;plane:d:2;plane:s:1").unwrap();
    let builder = Server::builder().hostname("test000").tmpdir(directory.path()).fabric(fabric);
    let server = builder.start(LocalHost).unwrap();
    Fixture { server, namespace: Namespace::new("job").unwrap(), _directory: directory }
}

const LAYOUT: [(&str, &str); 2] = [("pmix.nmap", "test000,elsewhere,test001"), ("pmix.pmap", "0,1,2;3;4,5")];

fn layout() -> Vec<Info> {
    LAYOUT.map(|(key, text)| Info::new(Key::from_static(key), text)).to_vec()
}

impl Fixture {
    fn found(&self, rank: Rank, name: &'static str) -> Option<Value> {
        let process = ProcId { namespace: self.namespace.clone(), rank };
        let directives = vec![Info::new(Key::from_static(keys::IMMEDIATE.name()), true)];
        let found = self.server.get(&process, Some(&Key::from_static(name)), directives).wait().ok()?;
        found.into_iter().find(|kval| kval.key.as_str() == name).map(|kval| kval.value)
    }

    /// Device and bytes of each endpoint of a process.
    fn endpoints(&self, rank: u32) -> Endpoints {
        self.found(Rank::Process(rank), "pmix.fab.endpt").map(|value| endpoints_in(&value)).unwrap_or_default()
    }
}

/// Device and bytes of each endpoint.
type Endpoints = Vec<(String, Vec<u8>)>;

fn endpoints_in(value: &Value) -> Endpoints {
    let Value::DataArray(array) = value else { panic!("{value:?}") };
    let endpoint = |value: &Value| match value {
        Value::Endpoint(endpoint) => (endpoint.os_name.as_ref().unwrap().to_string(), endpoint.bytes.clone()),
        other => panic!("{other:?}"),
    };
    array.elements.iter().map(endpoint).collect()
}

/// One endpoint in each plane, for each process of a node with devices, found under the standard's keys by everybody.
#[test]
fn a_job_has_endpoints_coordinates_switch_peers_and_a_key_of_the_servers_fabric() {
    let fixture = fixture_with_fabric();
    let infos = fixture.server.setup_application(&fixture.namespace, &layout()).unwrap();
    let names: Vec<&str> = infos.iter().map(|info| info.key.as_str()).collect();
    assert_eq!(names, [MARK, "modex.fabric.job"]);
    fixture.server.setup_local_support(&fixture.namespace, &infos).unwrap();
    let ranks = [vec![0, 1, 2], vec![3], vec![4, 5]];
    let nodes = ["test000", "elsewhere", "test001"];
    let description = JobDescription::new(&fixture.namespace).nodes(nodes).ranks_by_node(ranks).build().unwrap();
    let of_description = fixture.server.setup_application(&fixture.namespace, &description);
    assert_eq!(of_description.unwrap(), infos, "the maps of a description are in the array of the job");
    fixture.server.register_namespace(&fixture.namespace, 3, description).wait().unwrap();
    let at = |device: &str, rank: u8| (device.to_owned(), vec![rank, 0, 0, 0]);
    let expected = |one: &str, other: &str, rank| vec![at(one, rank), at(other, rank)];
    assert_eq!(fixture.endpoints(0), expected("test000:nic000", "test000:nic002", 0));
    assert_eq!(fixture.endpoints(1), expected("test000:nic001", "test000:nic002", 1), "in turn");
    assert_eq!(fixture.endpoints(2), expected("test000:nic000", "test000:nic002", 2));
    assert_eq!(fixture.endpoints(3), [], "its node has no device");
    assert_eq!(fixture.endpoints(5), expected("test001:nic001", "test001:nic002", 5));
    let devices = |rank| match fixture.found(Rank::Process(rank), "pmix.fab.coord") {
        Some(Value::DataArray(array)) => array.elements.len(),
        other => panic!("{other:?}"),
    };
    assert_eq!((devices(0), devices(5)), (3, 3));
    let Some(Value::DataArray(peers)) = fixture.found(Rank::Process(4), "pmix.speers") else { panic!("no peers") };
    let Value::Info(first) = &peers.elements[0] else { panic!("{peers:?}") };
    let Value::DataArray(facts) = &first.value else { panic!("{first:?}") };
    let texts: Vec<&str> = facts
        .elements
        .iter()
        .map(|value| match value {
            Value::Info(info) => info.value.as_str().unwrap(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(texts, ["fab://test001/test001:nic000", "plane000:switch000", "0,1,2,4,5"]);
    let Some(Value::ByteObject(key)) = fixture.found(Rank::Wildcard, "pmix.alloc.nsec") else { panic!("no key") };
    assert_eq!(key.len(), 16);
}

/// A wish under the name `net`.
fn wish(parts: &[Info]) -> Info {
    let id = Info::new(Key::from_static(keys::ALLOC_FABRIC_ID.name()), "net");
    Info::new(Key::from_static(keys::ALLOC_FABRIC.name()), Value::info_array([&[id], parts].concat()))
}

fn part(key: &'static str, value: impl Into<Value>) -> Info {
    Info::new(Key::from_static(key), value)
}

fn endpoints_wanted(count: u64) -> Info {
    part(keys::ALLOC_FABRIC_ENDPTS.name(), Value::Size(count))
}

/// The two nodes of the test fabric that the job has.
const TWO_NODES: [(&str, &str); 2] = [("pmix.nmap", "test000,test001"), ("pmix.pmap", "0,1,2;3")];

impl Fixture {
    /// Sets up a job with wishes on two nodes, and registers it.
    fn start(&self, wishes: &[Info]) -> Result<Vec<Info>, SetupError> {
        let maps = TWO_NODES.map(|(key, text)| part(key, text));
        let infos = self.server.setup_application(&self.namespace, &[wishes, &maps].concat())?;
        self.server.setup_local_support(&self.namespace, &infos)?;
        let description = JobDescription::new(&self.namespace)
            .nodes(["test000", "test001"])
            .ranks_by_node([vec![0, 1, 2], vec![3]])
            .build()
            .unwrap();
        self.server.register_namespace(&self.namespace, 3, description).wait().unwrap();
        Ok(infos)
    }

    /// The keys under the name `net`, and the devices and bytes of each endpoint there: those of the nodes, and those
    /// of the processes.
    fn granted(&self) -> (Vec<String>, BTreeMap<String, Endpoints>) {
        let value = self.found(Rank::Wildcard, "net").unwrap();
        let parts: Vec<&Info> = elements(&value).collect();
        let mut found = BTreeMap::new();
        for array in elements(&parts[0].value) {
            let facts: Vec<&Info> = elements(&array.value).collect();
            let owner =
                facts[0].value.as_str().map_or_else(|| facts[0].value.as_u32().unwrap().to_string(), str::to_owned);
            let list = facts.iter().find(|info| info.key.as_str() == "pmix.fab.endpt");
            found.insert(owner, list.map(|list| endpoints_in(&list.value)).unwrap_or_default());
        }
        (parts.iter().skip(1).map(|info| info.key.to_string()).collect(), found)
    }
}

/// Regression: a server with a fabric gave nothing for a wish, and refused a required one. So did its scheduler's host.
/// Now the wish is for endpoints of this fabric, found under its name and as the process's own.
#[test]
fn a_wish_gets_endpoints_of_its_plane_on_the_servers_fabric() {
    let fixture = fixture_with_fabric();
    let parts = [
        required(part(keys::ALLOC_FABRIC_TYPE.name(), "test")),
        required(part(keys::ALLOC_FABRIC_PLANE.name(), "plane000")),
        required(endpoints_wanted(1)),
        part(keys::ALLOC_FABRIC_ENDPTS_NODE.name(), Value::Size(3)),
        part(keys::ALLOC_FABRIC_SEC_KEY.name(), true),
    ];
    fixture.start(&[wish(&parts)]).unwrap();
    let (names, endpoints) = fixture.granted();
    let keys =
        ["pmix.alloc.nettype", "pmix.alloc.netplane", "pmix.alloc.endpts", "pmix.alloc.endpts.nd", "pmix.alloc.nsec"];
    assert_eq!(names, keys);
    let at = |device: &str, bytes: &[u8]| (device.to_owned(), bytes.to_vec());
    let local = [0xfd, 0xff, 0xff, 0xff];
    let of_node = |node: &str| {
        let again = [&local[..], &[1, 0, 0, 0]].concat();
        vec![
            at(&format!("{node}:nic000"), &local),
            at(&format!("{node}:nic001"), &local),
            at(&format!("{node}:nic000"), &again),
        ]
    };
    let of_process = |device: &str, rank| vec![at(device, &[rank, 0, 0, 0])];
    let expected = [
        ("0", of_process("test000:nic000", 0)),
        ("1", of_process("test000:nic001", 1)),
        ("2", of_process("test000:nic000", 2)),
        ("3", of_process("test001:nic000", 3)),
        ("test000", of_node("test000")),
        ("test001", of_node("test001")),
    ];
    assert_eq!(endpoints, expected.map(|(owner, list)| (owner.to_owned(), list)).into());
    for rank in 0..4_u32 {
        assert_eq!(fixture.endpoints(rank), endpoints[&rank.to_string()], "the plane of the wish alone");
    }
}

/// PRRTE sets up variables alone, and passes on the user's wish. The wish had no effect.
#[test]
fn a_wish_counts_beside_a_setup_of_variables() {
    let fixture = fixture_with_fabric();
    fixture.start(&[part(keys::SETUP_APP_ENVARS.name(), true), wish(&[endpoints_wanted(1)])]).unwrap();
    assert_ne!(fixture.endpoints(0), []);
}

/// PRRTE's main line gives maps with a type. They were overlooked.
#[test]
fn maps_with_a_type_name_the_nodes_and_ranks() {
    let fixture = fixture_with_fabric();
    let maps = TWO_NODES.map(|(key, text)| {
        let TypedList { encoding, bytes } = TypedList::of(text);
        part(key, Value::Regex2(Box::new(Regex2 { encoding: Some(Text::from(encoding)), bytes })))
    });
    let infos = [&[wish(&[required(endpoints_wanted(1))])][..], &maps].concat();
    let given = fixture.server.setup_application(&fixture.namespace, &infos).unwrap();
    assert!(given.iter().any(|info| info.key.as_str() == keys::ALLOC_FABRIC.name()), "{given:?}");
}

/// The job has the planes 0 (two devices of a node) and 1 (one device). A process that wants more endpoints than there
/// are devices has several at one, and numbers tell them apart, in several wishes, too.
#[test]
fn a_process_has_several_endpoints_at_one_device_if_it_wants_more_than_there_are() {
    let fixture = fixture_with_fabric();
    let other = [part(keys::ALLOC_FABRIC_ID.name(), "other"), part(keys::ALLOC_FABRIC_PLANE.name(), "plane001")];
    let other = part(keys::ALLOC_FABRIC.name(), Value::info_array(other.to_vec()));
    fixture.start(&[wish(&[endpoints_wanted(4)]), other]).unwrap();
    let at = |device: u8, earlier: u8| {
        let bytes = if earlier == 0 { vec![1, 0, 0, 0] } else { vec![1, 0, 0, 0, earlier, 0, 0, 0] };
        (format!("test000:nic00{device}"), bytes)
    };
    // nic000 and nic002 are the first of each plane. The first process has nic000 last, so the second one begins with
    // nic002.
    let wanted = vec![at(2, 0), at(1, 0), at(0, 0), at(2, 1)];
    assert_eq!(fixture.granted().1["1"], wanted);
    // A wish without numbers has one in each of its planes.
    assert_eq!(fixture.endpoints(1), [wanted, vec![at(2, 2)]].concat());
}

#[test]
fn parts_that_the_fabric_lacks_are_left_out_or_refused_if_required() {
    let elsewhere = LAYOUT.map(|(key, text)| part(key, text));
    let maps = TWO_NODES.map(|(key, text)| part(key, text));
    let cases = [
        (
            vec![part(keys::ALLOC_FABRIC_PLANE.name(), "plane9")],
            &maps[..],
            Status::ERR_NOT_SUPPORTED,
            "no plane of the fabric and no device of node test000 has the name \"plane9\"; the planes are plane000, plane001",
        ),
        (
            vec![part(keys::ALLOC_FABRIC_TYPE.name(), "infiniband")],
            &maps[..],
            Status::ERR_NOT_SUPPORTED,
            "node test000 has no device of the type \"infiniband\" there",
        ),
        (vec![endpoints_wanted(1)], &elsewhere[..], Status::ERR_NOT_SUPPORTED, "node elsewhere has no such device"),
        (vec![endpoints_wanted(1)], &[][..], Status::ERR_NOT_SUPPORTED, "add PMIX_NODE_MAP and PMIX_PROC_MAP"),
        (vec![endpoints_wanted(1)], &maps[..1], Status::ERR_NOT_SUPPORTED, "add PMIX_NODE_MAP and PMIX_PROC_MAP"),
        (vec![endpoints_wanted((1 << 16) - 1)], &maps[..], Status::SUCCESS, ""),
        (
            vec![endpoints_wanted(1 << 16)],
            &maps[..],
            Status::ERR_OUT_OF_RESOURCE,
            "262146 endpoints and nodes, more than 262144",
        ),
        (
            vec![part(keys::ALLOC_FABRIC_QOS.name(), "gold")],
            &maps[..],
            Status::ERR_NOT_SUPPORTED,
            "the description of the fabric has no such resource",
        ),
    ];
    let fixture = fixture_with_fabric();
    for (parts, maps, status, reason) in cases {
        let set_up = |wish: Info| fixture.server.setup_application(&fixture.namespace, &[&[wish], maps].concat());
        let result = set_up(wish(&parts.iter().cloned().map(required).collect::<Vec<_>>()));
        assert_eq!(result.as_ref().err().map_or(Status::SUCCESS, AsStatus::status), status, "{reason}");
        let error = result.map_err(|error| error.to_string()).err().unwrap_or_default();
        assert!(error.contains(reason), "{error}");
        assert_eq!(set_up(required(wish(&parts))).is_ok(), reason.is_empty());
        let values = set_up(wish(&parts)).unwrap().iter().flat_map(super::values_of).collect::<Vec<_>>();
        let is_empty = |info: &Info| {
            elements(&info.value).count() == 1 && elements(&info.value).all(|of| elements(&of.value).count() == 0)
        };
        assert!(!values.iter().any(|info| info.key.as_str() == "net" && is_empty(info)), "{values:?}");
    }
    // The key is there, without the lacking part.
    let parts = [part(keys::ALLOC_FABRIC_PLANE.name(), "plane9"), part(keys::ALLOC_FABRIC_SEC_KEY.name(), true)];
    fixture.start(&[wish(&parts)]).unwrap();
    assert_eq!(fixture.granted().0, ["pmix.alloc.nsec"]);
}

/// The first one of two counts of endpoints counted, without a word.
#[test]
fn a_wish_has_each_part_once() {
    let fixture = fixture_with_fabric();
    let maps = TWO_NODES.map(|(key, text)| part(key, text));
    let pairs = [
        [endpoints_wanted(1), endpoints_wanted(2)],
        [keys::ALLOC_FABRIC_PLANE.name(); 2].map(|key| part(key, "plane000")),
        [keys::ALLOC_FABRIC_TYPE.name(), keys::ALLOC_FABRIC_ID.name()].map(|key| part(key, "test")),
    ];
    for pair in pairs {
        let twice = pair[1].key.clone();
        let refused = fixture.server.setup_application(&fixture.namespace, &[&[wish(&pair)], &maps[..]].concat());
        let refused = refused.unwrap_err();
        assert_eq!(refused.status(), Status::ERR_DUPLICATE_KEY);
        assert!(refused.to_string().contains(twice.as_str()), "{refused}");
    }
    let of_site = [part("site.rail", 1_u32), part("site.rail", 2_u32), endpoints_wanted(1)];
    fixture.server.setup_application(&fixture.namespace, &[&[wish(&of_site)], &maps[..]].concat()).unwrap();
}

/// Such maps were taken without a word, although the registration of the same job fails.
#[test]
fn maps_that_contradict_each_other_give_no_endpoints_and_are_refused_if_these_are_required() {
    let fixture = fixture_with_fabric();
    let (nodes, ranks) = ("pmix.nmap", "pmix.pmap");
    let cases = [
        (vec![part(nodes, "test000,test001"), part(ranks, "0,1")], "2 nodes but the process map has 1 fields"),
        (vec![part(nodes, "test000"), part(ranks, "0;1")], "1 nodes but the process map has 2 fields"),
        (vec![part(nodes, "test000"), part(nodes, "test001"), part(ranks, "0")], "PMIX_NODE_MAP is given twice"),
        (vec![part(nodes, "test000"), part(ranks, "0"), part(ranks, "1")], "PMIX_PROC_MAP is given twice"),
        (vec![part(nodes, "test000,test000"), part(ranks, "0;1")], "names \"test000\" at 0 and at 1"),
        (vec![part(nodes, "test000,test001"), part(ranks, "0;0")], "rank 0 is listed more than once"),
        (vec![part(nodes, "test000"), part(ranks, 1_u32)], "\"pmix.pmap\": expected string, got uint32"),
    ];
    for (maps, reason) in cases {
        let set_up = |wishes: &[Info]| fixture.server.setup_application(&fixture.namespace, &[wishes, &maps].concat());
        let refused = set_up(&[required(wish(&[endpoints_wanted(1)]))]).unwrap_err();
        assert!(refused.to_string().contains(reason), "{refused}");
        let registered = fixture.server.register_namespace(&fixture.namespace, 0, maps.clone()).wait().unwrap_err();
        assert!(registered.to_string().contains(reason), "{registered}");
        assert_eq!(refused.status(), registered.status());
        assert_eq!(set_up(&[]).unwrap(), [], "nobody asked for a fabric");
        // PRRTE always has a wish, and would start the job without its variables.
        let given = set_up(&[wish(&[endpoints_wanted(1)]), setting("A", "1")]).unwrap();
        assert_eq!(names(&fixture.server.setup_local_support(&fixture.namespace, &given).unwrap()), ["A"]);
    }
    // OpenPMIx registers such a job, too.
    let beyond = [part(keys::JOB_SIZE.name(), 1_u32), part(nodes, "test000"), part(ranks, "0,7")];
    assert_ne!(fixture.server.setup_application(&fixture.namespace, &beyond).unwrap(), []);
}

fn required(info: Info) -> Info {
    Info { flags: InfoFlags::REQUIRED.bits(), ..info }
}

/// Delivers nodes with an interface in each of two packages, `eth0` in the first one.
fn deliver(server: &Server, nodes: &[&str]) {
    let device = |name: &str, package| Device {
        device_types: DEVTYPE_NETWORK,
        name: name.to_owned(),
        package: Some(package),
        ..Device::default()
    };
    let devices = vec![device("eth0", 0), device("eth1", 1)];
    let inventory =
        |node: &&str| Inventory { node: (*node).to_owned(), devices: devices.clone(), ..Inventory::default() };
    let blobs = nodes.iter().map(|node| inventory(node).encode().unwrap());
    server.deliver_inventory(blobs.collect()).wait().unwrap();
}

/// Delivers an inventory of one node with these network devices.
fn deliver_devices(server: &Server, node: &str, names: &[&str]) {
    let device = |name: &&str| Device { device_types: DEVTYPE_NETWORK, name: (*name).to_owned(), ..Device::default() };
    let devices = names.iter().map(device).collect();
    let inventory = Inventory { node: node.to_owned(), devices, ..Inventory::default() };
    server.deliver_inventory(vec![inventory.encode().unwrap()]).wait().unwrap();
}

/// A node, and the names of its devices.
type Delivered = (&'static str, &'static [&'static str]);

/// Each application's rank on a node of its own, with inventories that change before some of them. Gives the last
/// answer alone to the node, and returns the device of each rank.
fn devices_after_changes(applications: &[(&str, &[Delivered])], wishes: &[Info]) -> Vec<String> {
    let directory = tempfile::tempdir().unwrap();
    let builder = Server::builder().hostname("n0").tmpdir(directory.path());
    let server = builder.fabric(FabricSource::parse("inventory").unwrap()).start(LocalHost).unwrap();
    let fixture = Fixture { server, namespace: Namespace::new("job").unwrap(), _directory: directory };
    let mut given = Vec::new();
    for (rank, (node, inventories)) in applications.iter().enumerate() {
        inventories.iter().for_each(|(node, names)| deliver_devices(&fixture.server, node, names));
        let maps = [part("pmix.nmap", *node), part("pmix.pmap", rank.to_string())];
        given = fixture.server.setup_application(&fixture.namespace, &[wishes, &maps].concat()).unwrap();
    }
    fixture.server.setup_local_support(&fixture.namespace, &given).unwrap();
    let count = u32::try_from(applications.len()).unwrap();
    let description = JobDescription::new(&fixture.namespace).nodes(["n0", "n1"]);
    let of_node = |node: &str| (0..count).filter(|rank| applications[*rank as usize].0 == node).collect::<Vec<_>>();
    let description = description.ranks_by_node([of_node("n0"), of_node("n1")]).build().unwrap();
    fixture.server.register_namespace(&fixture.namespace, count, description).wait().unwrap();
    let endpoints: Vec<Endpoints> = (0..count).map(|rank| fixture.endpoints(rank)).collect();
    if !wishes.is_empty() {
        let granted = fixture.granted().1;
        assert!((0..count).all(|rank| granted[&rank.to_string()] == endpoints[rank as usize]), "{granted:?}");
    }
    endpoints.into_iter().map(|of| of.into_iter().map(|(device, _)| device).collect::<Vec<_>>().join(",")).collect()
}

/// Regression: the answer for a later application gave earlier ones other devices if an inventory had changed
/// meanwhile. Their processes may run already, and other nodes have the earlier answer.
#[test]
fn a_change_of_the_fabric_moves_no_endpoints_of_earlier_applications() {
    for wishes in [&[][..], &[wish(&[endpoints_wanted(1)])]] {
        let found = devices_after_changes(
            &[
                ("n0", &[("n0", &["eth0", "eth1"]), ("n1", &["eth0"])]),
                ("n0", &[("n0", &["dev0", "eth0", "eth1"])]),
                ("n0", &[]),
                // The change of another node begins no new turn.
                ("n0", &[("n1", &["eth9"])]),
                ("n1", &[("n0", &["other"])]),
                ("n0", &[]),
            ],
            wishes,
        );
        assert_eq!(found, ["eth0", "dev0", "eth0", "eth1", "eth9", "other"]);
    }
}

/// Regression: after an inventory that changed and changed back, two applications had one fabric again. Their turns
/// went on from each other, so the later answer moved endpoints of the second one.
#[test]
fn a_change_that_is_taken_back_moves_no_endpoints() {
    let applications: [(&str, &[Delivered]); 5] = [
        ("n0", &[("n0", &["eth0", "eth1"]), ("n1", &["eth0"])]),
        ("n1", &[]),
        ("n0", &[("n1", &["eth9"])]),
        ("n0", &[("n1", &["eth0"]), ("n0", &["other"])]),
        ("n0", &[("n0", &["eth0", "eth1"])]),
    ];
    for wishes in [&[][..], &[wish(&[endpoints_wanted(1)])]] {
        for count in 1..=applications.len() {
            let found = devices_after_changes(&applications[..count], wishes);
            assert_eq!(found, ["eth0", "eth0", "eth1", "other", "eth0"][..count], "{count} applications");
        }
    }
}

/// A node's endpoint at a device, and the number of those before it there.
fn of_node(device: &str, number: u8) -> (String, Vec<u8>) {
    let number = if number == 0 { vec![] } else { vec![number, 0, 0, 0] };
    (device.to_owned(), [vec![0xfd, 0xff, 0xff, 0xff], number].concat())
}

/// The endpoints in the answer to a wish for a node with these devices. Each rank is an application.
fn given_to_node(fixture: &Fixture, (rank, names): (u32, &[&str]), id: &str, count: u64) -> Endpoints {
    deliver_devices(&fixture.server, "test000", names);
    let parts =
        [part(keys::ALLOC_FABRIC_ID.name(), id), part(keys::ALLOC_FABRIC_ENDPTS_NODE.name(), Value::Size(count))];
    let wish = part(keys::ALLOC_FABRIC.name(), Value::info_array(parts.to_vec()));
    let infos = [wish, part("pmix.nmap", "test000"), part("pmix.pmap", rank.to_string())];
    let given = fixture.server.setup_application(&fixture.namespace, &infos).unwrap();
    let values: Vec<Info> = given.iter().flat_map(super::values_of).collect();
    let named = values.iter().find(|value| value.key.as_str() == id).unwrap();
    let arrays = elements(elements(&named.value).next().map(|description| &description.value).unwrap());
    let lists = arrays.flat_map(|array| elements(&array.value));
    let lists = lists.filter(|info| info.key.as_str() == "pmix.fab.endpt");
    lists.flat_map(|list| endpoints_in(&list.value)).collect()
}

/// Regression: the endpoint of a device that was lost and came back was given twice.
#[test]
fn a_device_that_comes_back_keeps_its_endpoints() {
    let fixture = Fixture::new();
    let found = [("a", "eth0"), ("b", "other"), ("c", "eth0")].into_iter().zip(0..);
    let found = found.flat_map(|((id, name), rank)| given_to_node(&fixture, (rank, &[name]), id, 1));
    assert_eq!(found.collect::<Endpoints>(), [of_node("eth0", 0), of_node("other", 0), of_node("eth0", 1)]);
}

/// A node's endpoints at one device have distinct numbers, also after a change of the fabric.
#[test]
fn further_endpoints_of_a_node_are_those_of_the_changed_fabric() {
    let fixture = Fixture::new();
    for (rank, count, names) in [(0, 2, &["eth0"][..]), (1, 4, &["dev0", "eth0"])] {
        let found = given_to_node(&fixture, (rank, names), "net", count);
        let at = of_node;
        let first = vec![at("eth0", 0), at("eth0", 1)];
        let further = vec![at("dev0", 0), at("eth0", 2)];
        assert_eq!(found, if rank == 0 { first } else { [first, further].concat() });
    }
}

/// Regression: each plane of the fabric counted for the limit of endpoints, also one without a device of the job. So a
/// large application that had been set up lost its endpoints in later answers, when another node got a device in
/// another plane.
#[test]
fn planes_without_a_device_of_the_job_do_not_count() {
    let fixture = fixture_with_fabric();
    let kind = part(keys::ALLOC_FABRIC_TYPE.name(), "test");
    let ask = |plane: Option<&str>| {
        let plane = plane.map(|plane| required(part(keys::ALLOC_FABRIC_PLANE.name(), plane)));
        let parts: Vec<Info> = [required(kind.clone())].into_iter().chain(plane).collect();
        let infos = [wish(&parts), part("pmix.nmap", "test000"), part("pmix.pmap", "0-140000")];
        fixture.server.setup_application(&fixture.namespace, &infos).map(|infos| infos.len())
    };
    assert!(ask(Some("plane000")).is_ok());
    assert_eq!(ask(None).unwrap_err().status(), Status::ERR_OUT_OF_RESOURCE, "two planes");
}

/// Regression: two requests of one name, one of them for an endpoint in each plane, had the number of endpoints of the
/// first.
#[test]
fn requests_with_and_without_numbers_share_no_order_of_devices() {
    let fixture = fixture_with_fabric();
    let kind = required(part(keys::ALLOC_FABRIC_TYPE.name(), "test"));
    let mut given = Vec::new();
    for (rank, parts) in [vec![kind.clone()], vec![kind, endpoints_wanted(3)]].into_iter().enumerate() {
        let infos = [wish(&parts), part("pmix.nmap", "test000"), part("pmix.pmap", rank.to_string())];
        given = fixture.server.setup_application(&fixture.namespace, &infos).unwrap();
    }
    fixture.server.setup_local_support(&fixture.namespace, &given).unwrap();
    let description = JobDescription::new(&fixture.namespace).nodes(["test000"]).ranks_by_node([vec![0, 1]]);
    fixture.server.register_namespace(&fixture.namespace, 2, description.build().unwrap()).wait().unwrap();
    assert_eq!([0, 1].map(|rank| fixture.endpoints(rank).len()), [2, 3]);
}

/// Regression: an application that had a process of an earlier one was forgotten without a word.
#[test]
fn a_setup_that_shares_a_part_of_the_processes_says_so() {
    let lines = LogLines::default();
    tracing::subscriber::with_default(lines.subscriber(), || {
        let fixture = fixture_with_fabric();
        for ranks in ["0,1", "2", "0,1", "1,3"] {
            let infos = [part("pmix.nmap", "test000"), part("pmix.pmap", ranks)];
            fixture.server.setup_application(&fixture.namespace, &infos).unwrap();
        }
    });
    let said = lines.taken();
    assert_eq!(said.iter().filter(|line| line.contains("begins the job anew")).count(), 1, "{said:?}");
}

/// The processes at the device may run, so the setup of another application does not fail.
#[test]
fn endpoints_at_a_lost_device_stay_and_the_log_names_it() {
    let lines = LogLines::default();
    let found = tracing::subscriber::with_default(lines.subscriber(), || {
        let applications: [(&str, &[Delivered]); 3] =
            [("n0", &[("n0", &["eth0", "eth1"])]), ("n0", &[("n0", &["eth1"])]), ("n0", &[])];
        devices_after_changes(&applications, &[])
    });
    assert_eq!(found, ["eth0", "eth1", "eth1"]);
    let said = lines.taken();
    let lost: Vec<_> = said.iter().filter(|line| line.contains("is no longer in the fabric")).collect();
    assert!(lost.len() == 2 && lost[0].contains("eth0") && lost[0].contains("n0"), "{said:?}");
}

/// A place in the second package, for a process.
fn bound(rank: u32) -> Info {
    let facts =
        [part(keys::RANK.name(), Value::ProcRank(rank.into())), part(keys::LOCALITY_STRING.name(), "hwloc:SK1:NM1")];
    required(part(keys::PROC_INFO_ARRAY.name(), Value::info_array(facts.to_vec())))
}

/// Regression: without a description of the fabric, the endpoints were in turns over all interfaces and under the name
/// of the wish alone.
#[test]
fn inventories_without_a_description_give_the_closest_devices_under_the_standards_keys() {
    for mark in [required, std::convert::identity] {
        let fixture = Fixture::new();
        deliver(&fixture.server, &["test000", "test001"]);
        fixture.start(&[mark(wish(&[endpoints_wanted(1)])), bound(0), bound(1)]).unwrap();
        let at = |device: &str, rank: u8| vec![(device.to_owned(), vec![rank, 0, 0, 0])];
        let expected = [at("eth1", 0), at("eth1", 1), at("eth0", 2), at("eth0", 3)];
        assert_eq!([0, 1, 2, 3].map(|rank| fixture.endpoints(rank)), expected);
        assert_eq!([0, 1, 2, 3].map(|rank: u32| fixture.granted().1[&rank.to_string()].clone()), expected);
        assert!(fixture.found(Rank::Process(3), "pmix.fab.coord").is_some());
    }
}

/// Processes of half a job get nothing, and jobs that ask for nothing, too.
#[test]
fn inventories_give_endpoints_on_all_nodes_of_a_job_that_asks_for_them() {
    let fixture = Fixture::new();
    deliver(&fixture.server, &["test000"]);
    let maps = TWO_NODES.map(|(key, text)| part(key, text));
    let set_up = |wishes: &[Info]| fixture.server.setup_application(&fixture.namespace, &[wishes, &maps].concat());
    assert_eq!(set_up(&[wish(&[endpoints_wanted(1)])]).unwrap(), []);
    let refused = set_up(&[required(wish(&[endpoints_wanted(1)]))]).unwrap_err();
    assert_eq!(refused.status(), Status::ERR_NOT_SUPPORTED);
    assert!(refused.to_string().contains("node test001 has no such device"), "{refused}");
    deliver(&fixture.server, &["test001"]);
    assert_eq!(set_up(&[]).unwrap(), []);
    assert_eq!(set_up(&[wish(&[endpoints_wanted(1)])]).unwrap().len(), 3);
}

/// Regression: kinds of devices were known in lower case alone.
#[test]
fn a_kind_of_devices_is_in_upper_or_lower_case() {
    let fixture = Fixture::new();
    deliver(&fixture.server, &["test000", "test001"]);
    fixture.start(&[required(wish(&[part(keys::ALLOC_FABRIC_TYPE.name(), "Ethernet")]))]).unwrap();
    assert_eq!(fixture.endpoints(0).len(), 1);
}

/// The applications of a job are set up one by one. All get the same key, and the processes of each keep their
/// endpoints.
#[test]
fn each_application_adds_its_endpoints_and_the_key_stays() {
    let fixture = fixture_with_fabric();
    let mut keys = Vec::new();
    for map in ["0,1", "2"] {
        let node = Info::new(Key::from_static("pmix.nmap"), "test000");
        let infos = [node, Info::new(Key::from_static("pmix.pmap"), map)];
        let given = fixture.server.setup_application(&fixture.namespace, &infos).unwrap();
        fixture.server.setup_local_support(&fixture.namespace, &given).unwrap();
        keys.push(super::values_of(&given[1]).pop());
    }
    assert!(keys[0].is_some() && keys[0] == keys[1]);
    let description = |ranks: Vec<u32>| {
        JobDescription::new(&fixture.namespace).nodes(["test000"]).ranks_by_node([ranks]).build().unwrap()
    };
    fixture.server.register_namespace(&fixture.namespace, 3, description(vec![0, 1, 2])).wait().unwrap();
    let first = |rank| fixture.endpoints(rank).first().cloned();
    let all = [0, 1, 2].map(first);
    let device = |name: &str, rank| Some((format!("test000:nic{name}"), vec![rank, 0, 0, 0]));
    assert_eq!(all, [device("000", 0), device("001", 1), device("000", 2)]);
    // A second description changes none of them.
    fixture.server.register_namespace(&fixture.namespace, 3, description(vec![0, 1, 2])).wait().unwrap();
    assert_eq!([0, 1, 2].map(first), all);
}

/// The values of each application were kept again with each later one. Their memory grew with the square of the
/// applications.
#[test]
fn values_that_wait_for_a_registration_are_kept_once() {
    let waiting = |count: u32| {
        let fixture = fixture_with_fabric();
        for rank in 0..count {
            let maps = [part("pmix.nmap", "test000"), part("pmix.pmap", rank.to_string())];
            let infos = [&[wish(&[endpoints_wanted(1)]), flag(keys::SETUP_APP_NONENVARS)], &maps[..]].concat();
            let given = fixture.server.setup_application(&fixture.namespace, &infos).unwrap();
            fixture.server.setup_local_support(&fixture.namespace, &given).unwrap();
        }
        let bytes = format!("{:?}", fixture.left()).len();
        let nodes = ["test000"];
        let description = JobDescription::new(&fixture.namespace)
            .nodes(nodes)
            .ranks_by_node(std::iter::once(0..count))
            .build()
            .unwrap();
        fixture.server.register_namespace(&fixture.namespace, count, description).wait().unwrap();
        assert!((0..count).all(|rank| fixture.endpoints(rank)[0].1 == rank.to_le_bytes()));
        bytes
    };
    let (one, two) = (waiting(32), waiting(64));
    assert!(two < one * 9 / 4, "{one} and {two} bytes");
}

/// Regression: each call read the endpoints of all earlier calls again, with the lock of all jobs.
#[test]
fn a_call_reads_its_own_endpoints_alone() {
    let read_by_calls = |count: u32| {
        let fixture = fixture_with_fabric();
        let before = read_lists();
        for rank in 0..count {
            let infos = [part("pmix.nmap", "test000"), part("pmix.pmap", rank.to_string())];
            let given = fixture.server.setup_application(&fixture.namespace, &infos).unwrap();
            fixture.server.setup_local_support(&fixture.namespace, &given).unwrap();
        }
        read_lists() - before
    };
    let (few, many) = (read_by_calls(32), read_by_calls(64));
    assert!(few > 0 && many < few * 9 / 4, "{few} and {many} lists");
}

/// Regression: the second application began with the first device again. The ranks at a switch, the value under the
/// name of a wish and its key were those of the last application.
#[test]
fn applications_that_are_set_up_one_by_one_have_what_one_setup_gives() {
    let parts = [
        endpoints_wanted(1),
        part(keys::ALLOC_FABRIC_ENDPTS_NODE.name(), Value::Size(1)),
        part(keys::ALLOC_FABRIC_SEC_KEY.name(), true),
    ];
    let set_up = |wishes: &[Info], maps: &[(&'static str, &'static str)]| {
        let fixture = fixture_with_fabric();
        for &(nodes, ranks) in maps {
            let infos = [wishes, &[part("pmix.nmap", nodes), part("pmix.pmap", ranks)]].concat();
            let given = fixture.server.setup_application(&fixture.namespace, &infos).unwrap();
            fixture.server.setup_local_support(&fixture.namespace, &given).unwrap();
        }
        let description = JobDescription::new(&fixture.namespace).nodes(["test000", "test001"]);
        let description = description.ranks_by_node([vec![0, 1, 2], vec![3]]).build().unwrap();
        fixture.server.register_namespace(&fixture.namespace, 3, description).wait().unwrap();
        let of_rank = |rank| (fixture.endpoints(rank), fixture.found(Rank::Process(rank), "pmix.speers"));
        let found: Vec<_> = (0..4).map(of_rank).collect();
        (fixture, found)
    };
    let one_by_one = [("test000", "0"), ("test000", "1"), ("test000,test001", "2;3")];
    let at_once = [("test000,test001", "0,1,2;3")];
    assert_eq!(set_up(&[], &one_by_one).1, set_up(&[], &at_once).1);
    let ((fixture, found), expected) = (set_up(&[wish(&parts)], &one_by_one), set_up(&[wish(&parts)], &at_once));
    assert_eq!((found, fixture.granted()), (expected.1, expected.0.granted()));
    let named = fixture.found(Rank::Wildcard, "net").unwrap();
    let key = elements(&named).last().unwrap().value.clone();
    assert_eq!(Some(key), fixture.found(Rank::Wildcard, "pmix.alloc.nsec"));
}

/// The second application got devices of the first one's plane.
#[test]
fn applications_may_want_other_planes_under_one_name() {
    let fixture = fixture_with_fabric();
    for (ranks, plane) in [("0", "plane000"), ("1", "plane001")] {
        let wish = wish(&[part(keys::ALLOC_FABRIC_PLANE.name(), plane), required(endpoints_wanted(1))]);
        let infos = [wish, part("pmix.nmap", "test000"), part("pmix.pmap", ranks)];
        let given = fixture.server.setup_application(&fixture.namespace, &infos).unwrap();
        fixture.server.setup_local_support(&fixture.namespace, &given).unwrap();
    }
    let description = JobDescription::new(&fixture.namespace).nodes(["test000"]).ranks_by_node([vec![0, 1]]);
    fixture.server.register_namespace(&fixture.namespace, 2, description.build().unwrap()).wait().unwrap();
    let devices = [0, 1].map(|rank| fixture.endpoints(rank).into_iter().map(|(name, _)| name).collect::<Vec<_>>());
    assert_eq!(devices, [["test000:nic000"], ["test000:nic002"]]);
}

/// An application whose setup failed behind its allocation stayed a part of the job.
#[test]
fn a_setup_that_fails_at_its_variables_changes_no_endpoints() {
    let fixture = fixture_with_fabric();
    let application = |ranks: &str| vec![part("pmix.nmap", "test000"), part("pmix.pmap", ranks)];
    let parent = ProcId { namespace: Namespace::new("nowhere").unwrap(), rank: Rank::Wildcard };
    let unknown = vec![flag(keys::SETUP_APP_ALL), required(part(keys::PARENT_ID.name(), parent))];
    let refused = fixture.server.setup_application(&fixture.namespace, &[application("0"), unknown].concat());
    assert!(matches!(refused, Err(SetupError::UnknownParent { .. })), "{refused:?}");
    let given = fixture.server.setup_application(&fixture.namespace, &application("1")).unwrap();
    fixture.server.setup_local_support(&fixture.namespace, &given).unwrap();
    let description = JobDescription::new(&fixture.namespace).nodes(["test000"]).ranks_by_node([vec![0, 1]]);
    fixture.server.register_namespace(&fixture.namespace, 2, description.build().unwrap()).wait().unwrap();
    assert_eq!(fixture.endpoints(0), []);
    assert_eq!(fixture.endpoints(1)[0].0, "test000:nic000");
}

/// A host that keeps questions until the test answers them.
#[derive(Clone, Default)]
struct Keeper(Arc<Mutex<Vec<Responder<Vec<Info>>>>>);

impl Host for Keeper {
    fn capabilities(&self) -> Capabilities {
        Capabilities::ALLOCATE
    }

    fn allocate(&self, _: Requester, _: Allocate, reply: Responder<Vec<Info>>) {
        self.0.lock().push(reply);
    }
}

/// Regression: the second application counted the endpoints of the first one, whose setup failed at the scheduler. A
/// later answer gave the second one another device.
#[test]
fn a_setup_waits_for_an_earlier_one_of_its_job() {
    let (directory, host) = (tempfile::tempdir().unwrap(), Keeper::default());
    let builder = Server::builder().hostname("n0").tmpdir(directory.path()).system_tmpdir(directory.path());
    let server = builder.start(host.clone()).unwrap();
    deliver(&server, &["n0"]);
    let namespace = Namespace::new("job").unwrap();
    let infos = |ranks: &str, parts: &[Info]| {
        [&[wish(parts)][..], &[part("pmix.nmap", "n0"), part("pmix.pmap", ranks)]].concat()
    };
    let gold = required(part(keys::ALLOC_FABRIC_QOS.name(), "gold"));
    let [first, second, third] = [
        infos("0", &[endpoints_wanted(1), gold]),
        infos("1", &[endpoints_wanted(1)]),
        infos("2", &[endpoints_wanted(1)]),
    ];
    let device_of_second = |given: &[Info]| {
        let values = given.iter().flat_map(super::values_of).find(|info| info.key.as_str() == "net").unwrap();
        let of_owners = elements(elements(&values.value).next().map(|named| &named.value).unwrap());
        let of_second = |array: &&Info| elements(&array.value).next().unwrap().value.as_u32() == Some(1);
        let array = of_owners.filter(of_second).last().unwrap().clone();
        endpoints_in(&elements(&array.value).nth(1).unwrap().value)
    };
    let given = std::thread::scope(|scope| {
        let failing = scope.spawn(|| server.setup_application(&namespace, &first));
        let question = loop {
            std::thread::yield_now();
            if let Some(question) = host.0.lock().pop() {
                break question;
            }
        };
        // A setup for a key asks nobody, but waits. Variables have no order.
        let key = [wish(&[part(keys::ALLOC_FABRIC_SEC_KEY.name(), true)])];
        let may_wait = |infos: &[Info]| server.queue_setup(&namespace, infos).unwrap().may_wait();
        assert_eq!([may_wait(&key), may_wait(&[flag(keys::SETUP_APP_ENVARS)])], [true, false]);
        let queued = server.queue_setup(&namespace, &second).unwrap();
        let (server, namespace, second) = (&server, &namespace, &second);
        let later = scope.spawn(move || server.setup_queued(&queued, namespace, second).unwrap());
        question.fail(Status::ERR_OUT_OF_RESOURCE);
        assert_eq!(failing.join().unwrap().unwrap_err().status(), Status::ERR_OUT_OF_RESOURCE);
        later.join().unwrap()
    });
    let after = server.setup_application(&namespace, &third).unwrap();
    assert_eq!(device_of_second(&given), [("eth0".to_owned(), vec![1, 0, 0, 0])]);
    assert_eq!(device_of_second(&after), device_of_second(&given));
}

/// Setups that waited asked the host after the end of its server.
#[test]
fn a_setup_asks_nobody_after_the_end_of_the_server() {
    let Fixture { server, namespace, .. } = Fixture::new();
    let setup = Arc::clone(server.jobs());
    drop(server);
    let infos = [wish(&[part(keys::ALLOC_FABRIC_QOS.name(), "gold")])];
    let queued = setup.queue(&namespace, &infos).unwrap();
    let ended = setup.setup_application(&namespace, &infos, &queued, &[], |_| panic!("nobody is there"));
    assert!(matches!(ended, Err(SetupError::Stopped(_))), "{ended:?}");
}

/// A wish of another name for endpoints of each node.
fn of_nodes(id: &str, count: u64) -> Info {
    let parts =
        vec![part(keys::ALLOC_FABRIC_ID.name(), id), part(keys::ALLOC_FABRIC_ENDPTS_NODE.name(), Value::Size(count))];
    part(keys::ALLOC_FABRIC.name(), Value::info_array(parts))
}

/// The endpoints of the first node under this name.
fn endpoints_of_node(given: &[Info], id: &str) -> Endpoints {
    let values = given.iter().flat_map(super::values_of).find(|info| info.key.as_str() == id).unwrap();
    let named = elements(&values.value).next().unwrap();
    let of_nodes = elements(&named.value).filter(|array| array.key.as_str() == keys::NODE_INFO_ARRAY.name());
    let lists = of_nodes.flat_map(|array| elements(&array.value)).filter(|fact| fact.key.as_str() == "pmix.fab.endpt");
    lists.flat_map(|list| endpoints_in(&list.value)).collect()
}

/// Regression: a setup without processes was forgotten, and a later one of the job got the same endpoint of a node.
#[test]
fn a_setup_without_processes_keeps_its_endpoints() {
    let fixture = fixture_with_fabric();
    let node = part("pmix.nmap", "test000");
    let set_up = |infos: &[Info]| fixture.server.setup_application(&fixture.namespace, infos).unwrap();
    let first = set_up(&[of_nodes("first", 1), node.clone()]);
    let second = set_up(&[of_nodes("second", 1), node.clone()]);
    let at = |count: &[u8]| vec![("test000:nic000".to_owned(), [&[0xfd, 0xff, 0xff, 0xff], count].concat())];
    assert_eq!(endpoints_of_node(&first, "first"), at(&[]));
    assert_eq!(endpoints_of_node(&second, "second"), at(&[1, 0, 0, 0]));
    // The same setup again has the same answer, and neither moves nor forgets others.
    let processes = [of_nodes("third", 1), node.clone(), part("pmix.pmap", "0")];
    assert_eq!(endpoints_of_node(&set_up(&processes), "third"), at(&[2, 0, 0, 0]));
    (0..2000).for_each(|_| drop(set_up(&[of_nodes("first", 1), node.clone()])));
    assert_eq!(endpoints_of_node(&set_up(&[of_nodes("first", 1), node.clone()]), "first"), at(&[]));
    assert_eq!(endpoints_of_node(&set_up(&[of_nodes("fourth", 1), node]), "fourth"), at(&[3, 0, 0, 0]));
}

/// Regression: the devices of a plane with a new name were new ones, so a node got an endpoint twice.
#[test]
fn devices_of_a_plane_with_a_new_name_are_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("topology.yaml");
    let describe = |plane: &str| {
        std::fs::write(&file, format!("[{{topology: {plane}, tree: {{switches: [{{switch: a, nodes: 'n[0-1]'}}]}}}}]"))
            .unwrap();
    };
    describe("old");
    let fabric = FabricSource::parse(&format!("slurm:{}", file.display())).unwrap();
    let server = Server::builder().tmpdir(directory.path()).fabric(fabric).start(LocalHost).unwrap();
    let namespace = Namespace::new("job").unwrap();
    let set_up = |wish: Info, ranks: &str| {
        let infos = [wish, part("pmix.nmap", "n0"), part("pmix.pmap", ranks)];
        server.setup_application(&namespace, &infos).unwrap()
    };
    let at = |count: &[u8]| vec![("nic0".to_owned(), [&[0xfd, 0xff, 0xff, 0xff], count].concat())];
    assert_eq!(endpoints_of_node(&set_up(of_nodes("first", 1), "0"), "first"), at(&[]));
    describe("new");
    server.fabric_update(0).wait().unwrap();
    assert_eq!(endpoints_of_node(&set_up(of_nodes("second", 1), "1"), "second"), at(&[1, 0, 0, 0]));
}

/// A wish that ports had answered gave its process endpoints on the fabric, once another application was set up.
#[test]
fn a_wish_that_ports_answer_gets_nothing_on_the_fabric() {
    let directory = tempfile::tempdir().unwrap();
    let builder = Server::builder().hostname("test000").tmpdir(directory.path());
    let builder = builder.fabric(FabricSource::parse("test:wide:1;plane:d:2").unwrap());
    let server = builder.static_ports(StaticPorts::parse("tcp:4000-4100").unwrap()).start(LocalHost).unwrap();
    let fixture = Fixture { server, namespace: Namespace::new("job").unwrap(), _directory: directory };
    let given = ["0", "1"].map(|ranks| {
        let infos = [wish(&[endpoints_wanted(2)]), part("pmix.nmap", "test000"), part("pmix.pmap", ranks)];
        fixture.server.setup_application(&fixture.namespace, &infos).unwrap()
    });
    fixture.server.setup_local_support(&fixture.namespace, &given[1]).unwrap();
    let description = JobDescription::new(&fixture.namespace).nodes(["test000"]).ranks_by_node([vec![0, 1]]);
    fixture.server.register_namespace(&fixture.namespace, 2, description.build().unwrap()).wait().unwrap();
    assert_eq!([0, 1].map(|rank| fixture.endpoints(rank).len()), [1, 1], "one in each plane");
}

/// Without a layout nothing can be given, and a wish for another fabric's data is nobody's business here.
#[test]
fn endpoints_need_a_layout_and_a_fabric() {
    let with = fixture_with_fabric();
    assert_eq!(with.server.setup_application(&with.namespace, &[]).unwrap(), []);
    let elsewhere = [("pmix.nmap", "elsewhere"), ("pmix.pmap", "0")];
    let elsewhere = elsewhere.map(|(key, text)| Info::new(Key::from_static(key), text));
    assert_eq!(with.server.setup_application(&with.namespace, &elsewhere).unwrap(), []);
    let environment_alone = [layout(), vec![Info::new(Key::from_static(keys::SETUP_APP_ENVARS.name()), true)]].concat();
    let names = with.server.setup_application(&with.namespace, &environment_alone).unwrap();
    assert!(names.iter().all(|info| info.key.as_str() != "modex.fabric.job"));
    let broken = [("pmix.nmap", "pmix[broken"), ("pmix.pmap", "0")];
    let broken = broken.map(|(key, text)| Info::new(Key::from_static(key), text));
    assert_eq!(with.server.setup_application(&with.namespace, &broken).unwrap(), [], "nobody asked for a fabric");
    let place = Info::new(Key::from_static(keys::PROC_INFO_ARRAY.name()), Value::info_array(Vec::new()));
    let place = Info { flags: InfoFlags::REQUIRED.bits(), ..place };
    let placed = [layout(), vec![place]].concat();
    assert_eq!(with.server.setup_application(&with.namespace, &placed).unwrap().len(), 2);
    let without = Fixture::new();
    assert_eq!(without.server.setup_application(&without.namespace, &layout()).unwrap(), []);
    let refused = without.server.setup_application(&without.namespace, &placed).unwrap_err();
    assert_eq!(refused.status(), Status::ERR_NOT_SUPPORTED);
}
