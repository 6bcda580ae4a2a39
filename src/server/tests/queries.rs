use std::collections::BTreeSet;
use std::sync::Arc;

use super::harness::*;
use super::tools::{arrive, policy, stranger};
use crate::gds::model::MapStore;
use crate::keys;
use crate::proto::{QueryInfo, Reply, Request, Version};
use crate::server::{
    Capabilities, Credentials, Hello, HostCall, HostReply, HostResult, Input, NodeHardware, Output, OwnGet, PeerId,
    RegisterClient, RegisterNamespace, Requester, ServerConfig, ToolAdmission, ToolHello, ToolPolicy, for_runtime,
};
use crate::shmem::SegmentOptions;
use crate::topo::SharedMachine;
use crate::types::{Info, InfoFlags, Key, ProcId, Query, Scope, Status, Text, Topology, Value};

const XML: &str = r#"<topology version="2.0"><object type="Machine" cpuset="0x3">
    <object type="Core" cpuset="0x1"><object type="PU" os_index="0" cpuset="0x1"/></object>
    <object type="Core" cpuset="0x2"><object type="PU" os_index="1" cpuset="0x2"/></object></object></topology>"#;
pub(super) const LOCALITY: &str = "hwloc:CR0:HT0";

pub(super) fn hardware() -> NodeHardware {
    let owner = ProcId::new(namespace("server"), 0);
    let topology = Topology { xml: Some(Text::from(XML)), support: Vec::new() };
    NodeHardware(Some(Arc::new(
        SharedMachine::publish(&topology, &SegmentOptions::new("", owner.to_string())).unwrap(),
    )))
}

/// A server that has the topology, and a job of two whose first process is bound.
pub(super) fn rig(capabilities: Capabilities, answers_topology: bool) -> (Rig, PeerId) {
    let mut rig =
        Rig::with(ServerConfig { capabilities, answers_topology, ..ServerConfig::default() }, MapStore::new());
    register_bound(&mut rig, "job");
    rig.register_client(&proc(0));
    let peer = rig.join(&proc(0), SOCKET);
    (rig, peer)
}

fn register_bound(rig: &mut Rig, name: &str) {
    let bound = vec![Info::new(key(keys::RANK.name()), 0_u32), Info::new(key(keys::CPUSET.name()), "hwloc:0")];
    let description = vec![Info::new(JOB_SIZE, 2_u32), Info::new(key("pmix.pdata"), Value::info_array(bound))];
    let registration = RegisterNamespace {
        namespace: namespace(name),
        local_count: Some(1),
        description: description.into(),
        nodata: false,
    };
    rig.host(HostCall::RegisterNamespace(registration));
}

fn query(names: &[&str]) -> Request {
    let keys = names.iter().map(|name| Text::from(*name)).collect();
    let qualifiers = vec![Info::new(key(keys::PROCID.name()), proc(0))];
    Request::from(QueryInfo::new(vec![Query { keys, qualifiers }]))
}

fn info(name: &'static str, value: impl Into<Value>) -> Info {
    Info::new(key(name), value)
}

const WANTED: [&str; 2] = [keys::LOCALITY_STRING.name(), keys::JOB_SIZE.name()];

/// A host without queries hid the mistake in the query.
#[test]
fn a_query_that_names_its_process_twice_is_a_mistake_whether_the_host_answers_queries_or_not() {
    let both = [info(keys::PROCID.name(), proc(0)), info(keys::NSPACE.name(), "job")];
    let asked = || {
        Request::from(QueryInfo::new(vec![Query {
            keys: vec![Text::from("pmix.job.size")],
            qualifiers: both.to_vec(),
        }]))
    };
    let (mut rig, peer) = rig(Capabilities::empty(), false);
    assert_eq!(statuses(&rig.request(peer, asked())), [(peer, Status::ERR_BAD_PARAM)]);
    for (told, status) in
        [(Status::ERR_NOT_SUPPORTED, Status::ERR_BAD_PARAM), (Status::ERR_NO_PERMISSIONS, Status::ERR_NO_PERMISSIONS)]
    {
        let (mut rig, peer) = self::rig(Capabilities::QUERY, false);
        let (id, _) = upcall(&rig.request(peer, asked()));
        assert_eq!(statuses(&rig.complete(id, HostReply::Status(told))), [(peer, status)]);
    }
}

/// The server knew only registered values, and a query about hardware was not supported.
#[test]
fn a_query_of_hardware_waits_for_the_topology_and_is_answered_with_it_or_without() {
    for (given, is_there) in [(hardware(), true), (NodeHardware(None), false)] {
        let (mut rig, peer) = rig(Capabilities::empty(), true);
        assert_eq!(rig.request(peer, query(&WANTED[..1])), [Output::WantTopology]);
        let answered = replies(&rig.input(Input::Topology(given.clone())));
        let expected = if is_there {
            Reply::Infos(vec![info(keys::LOCALITY_STRING.name(), LOCALITY)])
        } else {
            Reply::Status(Status::ERR_NOT_SUPPORTED)
        };
        assert_eq!(answered, [(peer, expected)]);
        assert_eq!(rig.input(Input::Topology(given)), [], "nobody waits any more");
    }
}

#[test]
fn a_query_of_hardware_that_nobody_has_or_that_is_the_hosts_alone_does_not_wait() {
    let (mut withheld, peer) = rig(Capabilities::empty(), false);
    assert_eq!(statuses(&withheld.request(peer, query(&WANTED[..1]))), [(peer, Status::ERR_NOT_SUPPORTED)]);
    let (mut open, peer) = rig(Capabilities::empty(), true);
    let of_other = |mut qualifiers: Vec<Info>| {
        qualifiers.push(info(keys::PROCID.name(), ProcId::new(namespace("job"), 1)));
        Request::from(QueryInfo::new(vec![Query { keys: vec![Text::from(WANTED[0])], qualifiers }]))
    };
    let outputs = open.request(peer, of_other(Vec::new()));
    assert_eq!(statuses(&outputs), [(peer, Status::ERR_NOT_SUPPORTED)], "that process is bound to nothing");
}

#[test]
fn a_client_that_goes_during_the_topology_read_gets_no_answer() {
    let (mut rig, peer) = rig(Capabilities::empty(), true);
    rig.request(peer, query(&WANTED));
    assert_eq!(rig.server.open_request_count(), 1);
    rig.lose(peer);
    assert_eq!((rig.server.open_request_count(), replies(&rig.input(Input::Topology(hardware())))), (0, Vec::new()));
}

/// A host that knew one of the keys, or returned "not found" instead of "not supported", kept this server from
/// answering the rest.
#[test]
fn the_server_answers_keys_that_the_host_leaves_open() {
    let of_server = || info(keys::LOCALITY_STRING.name(), LOCALITY);
    let told = info("host's", 1);
    let partial = |info| HostReply::Infos { status: Status::ERR_PARTIAL_SUCCESS, info };
    let qualifiers = info(keys::QUERY_QUALIFIERS.name(), Value::info_array(Vec::new()));
    let group =
        |told: &Info| info(keys::QUERY_RESULTS.name(), Value::info_array(vec![qualifiers.clone(), told.clone()]));
    let names = ["host's", WANTED[0]];
    for (reply, expected) in [
        (partial(vec![told.clone()]), Reply::Infos(vec![told.clone(), of_server()])),
        (partial(vec![group(&told)]), Reply::Infos(vec![group(&told), of_server()])),
        (partial(vec![info(WANTED[0], "host")]), partial_reply(vec![info(WANTED[0], "host")])),
        (HostReply::Status(Status::ERR_NOT_FOUND), partial_reply(vec![of_server()])),
        (HostReply::Status(Status::ERR_NOT_SUPPORTED), partial_reply(vec![of_server()])),
    ] {
        let (mut rig, peer) = rig(Capabilities::QUERY, true);
        let (id, _) = upcall(&rig.request(peer, query(&names)));
        let mut outputs = rig.complete(id, reply);
        if outputs == [Output::WantTopology] {
            outputs = rig.input(Input::Topology(hardware()));
        }
        assert_eq!(replies(&outputs), [(peer, expected)]);
    }
    // The host's status stands if no side answers, and so do its other refusals.
    for status in [Status::ERR_NOT_FOUND, Status::ERR_NOT_SUPPORTED, Status::ERR_NO_PERMISSIONS] {
        let (mut rig, peer) = rig(Capabilities::QUERY, true);
        let (id, _) = upcall(&rig.request(peer, query(&["nobody's"])));
        assert_eq!(statuses(&rig.complete(id, HostReply::Status(status))), [(peer, status)]);
    }
}

/// The status promised a result, but there was none.
#[test]
fn a_part_of_nothing_is_not_found() {
    let (mut rig, peer) = rig(Capabilities::QUERY, true);
    let (id, _) = upcall(&rig.request(peer, query(&["nobody's"])));
    let nothing = HostReply::Infos { status: Status::ERR_PARTIAL_SUCCESS, info: Vec::new() };
    assert_eq!(statuses(&rig.complete(id, nothing)), [(peer, Status::ERR_NOT_FOUND)]);
}

fn partial_reply(infos: Vec<Info>) -> Reply {
    Reply::Partial { status: Status::ERR_PARTIAL_SUCCESS, results: Box::new(Reply::Infos(infos)) }
}

#[test]
fn the_servers_own_process_waits_for_the_topology_as_others_do() {
    let get = |name: &'static str, directives: Vec<Info>| {
        HostCall::Get(OwnGet { proc: proc(0), key: Some(Key::from_static(name)), directives })
    };
    let completed = |outputs: &[Output]| match outputs {
        [Output::Complete(_, result)] => result.clone().read(),
        other => panic!("not completed: {other:?}"),
    };
    let (mut rig, _) = rig(Capabilities::empty(), false);
    assert_eq!(rig.host(get(WANTED[0], Vec::new())), [Output::WantTopology]);
    let HostResult::Entries(entries) = completed(&rig.input(Input::Topology(hardware()))) else { panic!("no value") };
    assert_eq!(entries.first().map(|entry| entry.value.clone()), Some(Value::from(LOCALITY)));
    rig.host(get(WANTED[0], Vec::new()));
    let without = completed(&rig.input(Input::Topology(NodeHardware(None))));
    assert_eq!(without, HostResult::Status(Status::ERR_NOT_FOUND));
    let here = completed(&rig.host(get(WANTED[0], vec![flag(keys::OPTIONAL.name())])));
    assert_eq!(here, HostResult::Status(Status::ERR_NOT_FOUND), "what follows is not there");
    let HostResult::Entries(set) = completed(&rig.host(get(keys::CPUSET_BITMAP.name(), Vec::new()))) else {
        panic!("no set, for which no topology is needed")
    };
    assert_eq!(set.first().map(|entry| entry.value.clone()), Some(Value::ProcCpuset(Some(Text::from("0")))));
}

/// A job of the server's user and one of another, and all possible queries about either. Tools of all kinds of users
/// send them, and so does a process of the other user. A process got the data of every user's job; now it gets as
/// little as a tool.
#[test]
fn a_query_tells_a_tool_of_its_users_jobs_and_nobody_of_other_users_processes() {
    const OTHER: u32 = OWNER.uid + 1;
    let tools = ToolPolicy { any_user: true, ..policy(ToolAdmission::Assigned) };
    let mut rig = Rig::with(ServerConfig { tools, answers_topology: true, ..ServerConfig::default() }, MapStore::new());
    register_bound(&mut rig, "job");
    rig.register_client(&proc(0));
    register_bound(&mut rig, "theirs");
    let theirs = ProcId::new(namespace("theirs"), 0);
    rig.host(HostCall::RegisterClient(RegisterClient { proc: theirs.clone(), uid: OTHER, gid: OWNER.gid, object: 1 }));

    let mut peers = Vec::new();
    for (peer, uid) in [(51, OTHER), (52, OTHER + 1), (53, OWNER.uid), (54, 0)] {
        let credentials = Credentials { uid, gid: OWNER.gid };
        let admitted = arrive(&mut rig, peer, ToolHello { credentials, ..stranger() });
        assert!(matches!(admitted[..], [Output::AdmitTool(..)]), "{admitted:?}");
        peers.push(PeerId(peer));
    }
    let [of_other, of_third, of_owner, of_root] = peers[..] else { panic!("four tools") };
    let credentials = Credentials { uid: OTHER, gid: OWNER.gid };
    let version = Version::new(5, 0, 0);
    let hello = Hello { proc: theirs.clone(), credentials, store: SOCKET, version, strangers: BTreeSet::new() };
    rig.input(Input::Connected(PeerId(55), hello));
    let process = PeerId(55);

    let data = [keys::CPUSET.name(), keys::LOCALITY_STRING.name(), keys::CPUSET_BITMAP.name()];
    let tables = [keys::QUERY_PROC_TABLE.name(), keys::QUERY_LOCAL_PROC_TABLE.name()];
    let asked: Vec<&str> = data.into_iter().chain(tables).collect();
    for (peer, of, found) in [
        (of_other, &proc(0), vec![]),
        (of_other, &theirs, asked.clone()),
        (of_third, &proc(0), vec![]),
        (of_third, &theirs, vec![]),
        (of_owner, &proc(0), asked.clone()),
        (of_owner, &theirs, asked.clone()),
        (of_root, &proc(0), asked.clone()),
        (of_root, &theirs, asked.clone()),
        (process, &proc(0), vec![]),
        (process, &theirs, asked.clone()),
    ] {
        let is_answered = |name: &&&str| queried(&mut rig, peer, name, Some(of)).is_some();
        assert_eq!(asked.iter().filter(is_answered).copied().collect::<Vec<_>>(), found, "{peer:?} about {of}");
    }
    for (peer, jobs) in
        [(of_other, "theirs"), (of_third, ""), (of_owner, "job,theirs"), (of_root, "job,theirs"), (process, "theirs")]
    {
        let told = queried(&mut rig, peer, keys::QUERY_NAMESPACES.name(), None);
        assert_eq!(told, Some(Value::from(jobs)), "{peer:?}");
    }
}

/// The answer to a query for one key, after the topology has been given if it is wanted.
fn queried(rig: &mut Rig, peer: PeerId, name: &str, of: Option<&ProcId>) -> Option<Value> {
    let qualifiers = of.map(|proc| info(keys::PROCID.name(), proc.clone())).into_iter().collect();
    let query = Query { keys: vec![Text::from(name)], qualifiers };
    let mut outputs = rig.request(peer, Request::from(QueryInfo::new(vec![query])));
    if outputs == [Output::WantTopology] {
        outputs = rig.input(Input::Topology(hardware()));
    }
    match replies(&outputs).pop() {
        Some((to, Reply::Infos(mut infos))) if to == peer && infos.len() == 1 => infos.pop().map(|info| info.value),
        Some((to, Reply::Status(Status::ERR_NOT_FOUND | Status::ERR_NOT_SUPPORTED))) if to == peer => None,
        other => panic!("{name} of {of:?}: {other:?}"),
    }
}

/// The table of a job of 100,000 processes occupied the server until it was done. The rule: a step adds a bounded
/// number of rows.
#[test]
fn the_table_of_a_large_job_takes_several_steps() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(5000, 2);
    let first = rig.begin(peers[0], query(&[keys::QUERY_PROC_TABLE.name(), keys::QUERY_NAMESPACES.name()]));
    assert_eq!(first, [Output::Unfinished(peers[0])]);
    assert_eq!(statuses(&rig.put(peers[1], Scope::Global, "a", 1)), [(peers[1], Status::SUCCESS)]);
    let answers = replies(&rig.finish(first));
    let [(_, Reply::Infos(found))] = answers.as_slice() else { panic!("{answers:?}") };
    let [table, jobs] = found.as_slice() else { panic!("{found:?}") };
    let Value::DataArray(table) = &table.value else { panic!("no table") };
    let rank = |value: &Value| match value {
        Value::ProcInfo(info) => info.proc.rank.process(),
        _ => None,
    };
    assert!(table.elements.iter().map(rank).eq((0..5000).map(Some)));
    assert_eq!(jobs.value, Value::from("job"));
}

#[test]
fn a_table_ends_with_its_job() {
    let mut rig = Rig::new(Capabilities::empty());
    let peer = rig.job(2, 1)[0];
    rig.register("large", Some(5000), Some(0));
    let qualifiers = vec![Info::new(key(keys::NSPACE.name()), "large")];
    let keys = vec![Text::from(keys::QUERY_PROC_TABLE.name())];
    let first = rig.begin(peer, Request::from(QueryInfo::new(vec![Query { keys, qualifiers }])));
    rig.host(HostCall::DeregisterNamespace(namespace("large")));
    assert_eq!(statuses(&rig.finish(first)), [(peer, Status::ERR_NOT_FOUND)]);
}

/// A job ended while its table was made. The next table of the request began with the rows of that job. The rule: rows
/// of a table that can't be completed are dropped.
#[test]
fn the_rows_of_an_ended_job_are_in_no_other_table() {
    let mut rig = Rig::new(Capabilities::empty());
    let peer = rig.job(2, 1)[0];
    rig.register("large", Some(5000), Some(0));
    let table_of = |job: &str| {
        let qualifiers = vec![Info::new(key(keys::NSPACE.name()), job)];
        Query { keys: vec![Text::from(keys::QUERY_PROC_TABLE.name())], qualifiers }
    };
    let first = rig.begin(peer, Request::from(QueryInfo::new(vec![table_of("large"), table_of("job")])));
    rig.host(HostCall::DeregisterNamespace(namespace("large")));
    let answers = replies(&rig.finish(first));
    let [(_, Reply::Partial { status: Status::ERR_PARTIAL_SUCCESS, results })] = answers.as_slice() else {
        panic!("{answers:?}")
    };
    let Reply::Infos(found) = &**results else { panic!("{results:?}") };
    let [Info { value: Value::DataArray(table), .. }] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(table.elements.len(), 2);
}

/// A table beyond the limit was freed within the turn that refused it.
#[test]
fn the_memory_of_a_refused_table_is_handed_out() {
    let mut config = ServerConfig::default();
    config.limits.query_bytes_max = 10_000;
    let mut rig = Rig::with(config, MapStore::default());
    let peer = rig.job(1000, 1)[0];
    let outputs = rig.request(peer, query(&[keys::QUERY_PROC_TABLE.name()]));
    assert_eq!(statuses(&outputs), [(peer, Status::ERR_OUT_OF_RESOURCE)]);
    assert!(outputs.iter().any(|output| matches!(output, Output::Discard(_))));
}

/// The core has no storage: another part of the server looks, because a file system may answer late.
#[test]
fn storage_is_looked_at_for_what_the_host_leaves() {
    const LIST: &str = keys::QUERY_STORAGE_LIST.name();
    const PATH: &str = keys::STORAGE_PATH.name();
    let asked = |names: &[&str], qualifiers: Vec<Info>| Query {
        keys: names.iter().copied().map(Text::from).collect(),
        qualifiers,
    };
    let request = |queries: &[Query]| Request::from(QueryInfo::new(queries.to_vec()));
    let strange = Info { flags: InfoFlags::REQUIRED.bits(), ..info("strange", true) };
    let queries = [asked(&[LIST, PATH, JOB_SIZE.as_str()], Vec::new()), asked(&[PATH], vec![strange])];
    let look = |outputs: &[Output], expected: &[Query]| match outputs {
        [Output::Look(id, requester, queries)] => {
            assert_eq!((&requester.proc, &queries[..]), (&proc(0), expected));
            *id
        }
        other => panic!("{other:?}"),
    };
    let found = |info: Vec<Info>| HostReply::Infos { status: Status::SUCCESS, info };
    let rig = |capabilities| {
        let config = ServerConfig { capabilities, answers_storage: true, ..ServerConfig::default() };
        let mut rig = Rig::with(config, MapStore::new());
        register_bound(&mut rig, "job");
        rig.register_client(&proc(0));
        let peer = rig.join(&proc(0), SOCKET);
        (rig, peer)
    };
    // Without a host.
    let (mut alone, peer) = rig(Capabilities::empty());
    let id = look(&alone.request(peer, request(&queries[..1])), &[asked(&[LIST, PATH], Vec::new())]);
    let answered = replies(&alone.complete(id, found(vec![info(LIST, "a,b")])));
    let results = Box::new(Reply::Infos(vec![info(LIST, "a,b"), info(keys::JOB_SIZE.name(), 2_u32)]));
    let status = Status::ERR_PARTIAL_SUCCESS;
    assert_eq!(answered, [(peer, Reply::Partial { status, results })]);
    // A refusal is the answer if nothing else is found. Found values stay.
    let refusal = HostReply::Status(Status::ERR_OUT_OF_RESOURCE);
    let id = look(&alone.request(peer, request(&queries[..1])), &[asked(&[LIST, PATH], Vec::new())]);
    let results = Box::new(Reply::Infos(vec![info(keys::JOB_SIZE.name(), 2_u32)]));
    assert_eq!(replies(&alone.complete(id, refusal.clone())), [(peer, Reply::Partial { status, results })]);
    let id = look(&alone.request(peer, request(&[asked(&[PATH], Vec::new())])), &[asked(&[PATH], Vec::new())]);
    assert_eq!(statuses(&alone.complete(id, refusal)), [(peer, Status::ERR_OUT_OF_RESOURCE)]);
    // A strange required qualifier is not ignored. What the host has answered is not asked for again.
    let (mut hosted, peer) = rig(Capabilities::QUERY);
    let (id, _) = upcall(&hosted.request(peer, request(&queries)));
    let told = HostReply::Infos { status, info: vec![info(LIST, "of host")] };
    let id = look(&hosted.complete(id, told), &[asked(&[PATH], Vec::new())]);
    let answered = replies(&hosted.complete(id, found(vec![info(PATH, "/")])));
    let infos = vec![info(LIST, "of host"), info(PATH, "/"), info(keys::JOB_SIZE.name(), 2_u32)];
    assert_eq!(answered, [(peer, Reply::Partial { status, results: Box::new(Reply::Infos(infos)) })]);
    // A process that has gone gets no answer.
    let (id, _) = upcall(&hosted.request(peer, request(&queries[..1])));
    let id = look(&hosted.complete(id, HostReply::Status(Status::ERR_NOT_FOUND)), &[asked(&[LIST, PATH], Vec::new())]);
    hosted.lose(peer);
    assert_eq!(replies(&hosted.complete(id, found(Vec::new()))), []);
}

/// The qualifiers of storage were ignored for other keys, and in servers without storage.
#[test]
fn a_qualifier_of_storage_counts_for_queries_about_storage() {
    let required = Info { flags: InfoFlags::REQUIRED.bits(), ..info(keys::STORAGE_ID.name(), "a") };
    for (answers_storage, key) in [(false, JOB_SIZE.as_str()), (true, JOB_SIZE.as_str()), (false, "pmix.strg.cap")] {
        let config = ServerConfig { answers_storage, ..ServerConfig::default() };
        let mut rig = Rig::with(config, MapStore::new());
        register_bound(&mut rig, "job");
        rig.register_client(&proc(0));
        let peer = rig.join(&proc(0), SOCKET);
        let asked = Query { keys: vec![Text::from(key)], qualifiers: vec![required.clone()] };
        let outputs = rig.request(peer, Request::from(QueryInfo::new(vec![asked])));
        assert_eq!(statuses(&outputs), [(peer, Status::ERR_NOT_SUPPORTED)], "{answers_storage} {key}");
        let outputs = rig.request(peer, query(&[keys::QUERY_SUPPORTED_QUALIFIERS.name()]));
        let [(_, Reply::Infos(found))] = &replies(&outputs)[..] else { panic!("{outputs:?}") };
        let is_listed = found[0].value.as_str().unwrap().contains(keys::STORAGE_ID.name());
        assert_eq!(is_listed, answers_storage);
    }
}

#[test]
fn the_newest_spelling_of_a_key_is_answered_under_that_spelling() {
    let mut rig = Rig::new(Capabilities::default());
    register_bound(&mut rig, "job");
    rig.register_client(&proc(0));
    let peer = rig.join(&proc(0), SOCKET);
    let mut ask = |name: &str| {
        let outputs = rig.request(peer, query(&[name]));
        let [(_, Reply::Infos(found))] = &replies(&outputs)[..] else { panic!("{outputs:?}") };
        found.clone()
    };
    let [found] = &ask("pmix.qry.supqual")[..] else { panic!("one answer") };
    assert_eq!(found.key.as_str(), "pmix.qry.supqual");
    assert_eq!(found.value, ask(keys::QUERY_SUPPORTED_QUALIFIERS.name())[0].value);
}

/// A mean was the answer to a query for each process, because the queries named the same processes.
#[test]
fn use_of_resources_is_measured_for_what_the_host_leaves() {
    const MEMORY: &str = keys::QUERY_MEMORY_USAGE.name();
    let required = |key: keys::TypedKey<bool>| Info { flags: InfoFlags::REQUIRED.bits(), ..info(key.name(), true) };
    let of = |keys: &[&str], qualifiers: Vec<Info>| Query {
        keys: keys.iter().copied().map(Text::from).collect(),
        qualifiers,
    };
    let mut rig = Rig::with(ServerConfig::default(), MapStore::new());
    register_bound(&mut rig, "job");
    rig.register_client(&proc(0));
    let peer = rig.join(&proc(0), SOCKET);
    let queries = [
        of(&[MEMORY, MEMORY], Vec::new()),
        of(&[MEMORY], vec![required(keys::QUERY_REPORT_AVG)]),
        of(&[MEMORY], vec![required(keys::QUERY_REPORT_MINMAX)]),
    ];
    let outputs = rig.request(peer, Request::from(QueryInfo::new(queries.to_vec())));
    let [Output::Look(id, _, asked)] = &outputs[..] else { panic!("{outputs:?}") };
    assert_eq!(asked.iter().map(|query| query.keys.len()).collect::<Vec<_>>(), [1, 1, 1]);
    // Processes of other nodes are missing: the values stay, and the status says so.
    let (status, found) = (Status::ERR_PARTIAL_SUCCESS, vec![info(MEMORY, 1_u32); 3]);
    let outputs = rig.complete(*id, HostReply::Infos { status, info: found.clone() });
    assert_eq!(replies(&outputs), [(peer, Reply::Partial { status, results: Box::new(Reply::Infos(found)) })]);
    // The switches are those of such keys alone.
    let mixed = of(&[MEMORY, JOB_SIZE.as_str()], vec![required(keys::QUERY_REPORT_AVG)]);
    let outputs = rig.request(peer, Request::from(QueryInfo::new(vec![mixed])));
    assert_eq!(statuses(&outputs), [(peer, Status::ERR_NOT_SUPPORTED)]);
}

/// A host that answers one of two queries for a key left the other one without an answer.
#[test]
fn each_query_about_storage_counts_for_itself() {
    let of = |id: &str| Query {
        keys: vec![Text::from(keys::STORAGE_CAPACITY_LIMIT.name())],
        qualifiers: vec![info(keys::STORAGE_ID.name(), id)],
    };
    let requester = Requester { proc: proc(0), object: 0, uid: 1, gid: 1 };
    let queries = [of("a"), of("b")];
    let of_host = |count| vec![info(keys::STORAGE_CAPACITY_LIMIT.name(), 7_u64); count];
    let left = |count| for_runtime(&requester, &queries, &of_host(count), true);
    assert_eq!([0, 1, 2].map(left), [queries.to_vec(), vec![of("b")], Vec::new()]);
}
