//! A query answers with the same value as a Get, in every realm.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use modex::gds::registration::JobDescription;
use modex::topo::{Inventory, TopologyError};
use modex::types::{AsStatus, Info, InfoFlags, Key, ProcId, Query, Rank, Scope, Status, Text, Topology, Value};
use modex::{
    Answered, Capabilities, Client, FenceOptions, GetOptions, Host, LocalHost, QueryInfo, Requester, Responder, Server,
    TopologySource, keys,
};
use support::{TWO_PACKAGES, TestServer, description, namespace, proc};

#[test]
fn client_process() {}

#[derive(Debug)]
struct TwoPackages;

impl TopologySource for TwoPackages {
    fn read(&self) -> Result<Topology, TopologyError> {
        Ok(Topology { xml: Some(Text::from(TWO_PACKAGES)), support: vec![1] })
    }
}

/// Two jobs in two sessions, with values of their host in every realm.
fn server() -> TestServer {
    let directory = tempfile::tempdir().unwrap();
    let builder = Server::builder().hostname("node0").tmpdir(directory.path()).topology(Arc::new(TwoPackages));
    let server = TestServer { server: Arc::new(builder.start(LocalHost).unwrap()), directory };
    for (name, session) in [("one", 7), ("other", 8)] {
        let job = namespace(name);
        let description = JobDescription::new(&job)
            .nodes(["node0", "node1"])
            .ranks_by_node([vec![0, 1, 2], vec![3]])
            .app(2, ["first", "word"], "/first")
            .app(2, ["second"], "/second")
            .session_id(session)
            .universe_size(session * 10)
            .job_value(key("of.job"), name)
            .node_value(1, key("of.node"), 11)
            .process_value(0, key("of.process"), 22)
            .process_value(0, key(keys::CPUSET.name()), "hwloc:1")
            .process_value(1, key(keys::CPUSET.name()), "0")
            .process_value(3, key(keys::CPUSET.name()), "0")
            .process_value(1, key(keys::PSET_NAMES.name()), "told");
        server.server.register_namespace(&job, 3, description.build().unwrap()).wait().unwrap();
        (0..3).for_each(|rank| server.register_client(name, rank));
    }
    let own = server.server.collect_inventory().unwrap();
    let other = Inventory { node: "node1".to_owned(), ..own.clone() };
    server.server.deliver_inventory([own, other].map(|inventory| inventory.encode().unwrap()).to_vec()).wait().unwrap();
    server.server.define_process_set("set", &[proc("one", 0), proc("one", 1)]).wait().unwrap();
    server
}

const fn key(name: &'static str) -> Key {
    Key::from_static(name)
}

fn info(name: &'static str, value: impl Into<Value>) -> Info {
    Info::new(key(name), value)
}

/// All keys under which a value may be stored or derived: the standard's keys, without those that only a query
/// measures, and those of this test.
fn names() -> Vec<&'static str> {
    let own = ["of.job", "of.node", "of.process", "posted", "posted.far", "qualified", "nobody's"];
    let all: BTreeSet<&str> = keys::attributes().map(|attribute| attribute.name).chain(own).collect();
    let measured = [keys::CLIENT_AVG_MEMORY.name(), keys::DAEMON_MEMORY.name()];
    all.into_iter().filter(|name| !name.starts_with("pmix.qry.") && !measured.contains(name)).collect()
}

fn qualifier_sets() -> Vec<Vec<Info>> {
    let flag = |name| info(name, true);
    let node = |name: &str| info(keys::HOSTNAME.name(), name);
    let colour = Info { flags: InfoFlags::QUALIFIER.bits(), ..info("colour", "red") };
    vec![
        vec![],
        vec![flag(keys::JOB_INFO.name())],
        vec![flag(keys::NODE_INFO.name())],
        vec![flag(keys::NODE_INFO.name()), node("node1")],
        vec![flag(keys::NODE_INFO.name()), info(keys::NODEID.name(), 1)],
        vec![node("node1")],
        vec![flag(keys::APP_INFO.name())],
        vec![flag(keys::APP_INFO.name()), info(keys::APPNUM.name(), 1)],
        vec![flag(keys::APP_INFO.name()), node("node1")],
        vec![flag(keys::SESSION_INFO.name())],
        vec![flag(keys::SESSION_INFO.name()), info(keys::SESSION_ID.name(), 8)],
        vec![info(keys::SESSION_ID.name(), 8)],
        vec![info(keys::DATA_SCOPE.name(), Value::Scope(Scope::Remote.to_raw()))],
        vec![colour],
        vec![node("node1"), info(keys::FABRIC_DEVICE_NAME.name(), "eth0")],
        vec![info(keys::DEVICE_ID.name(), "02:00:00:00:00:01")],
    ]
}

type Values = BTreeMap<&'static str, Value>;

fn gotten(client: &Client, target: &ProcId, qualifiers: &[Info], names: &[&'static str]) -> Values {
    let options = qualifiers.iter().cloned().fold(GetOptions::new().immediate(), GetOptions::info);
    let value = |name| Some((name, client.get_value(target, name, &options).ok()?.into_value().unwrap()));
    names.iter().copied().filter_map(value).collect()
}

fn queried(client: &Client, target: &ProcId, mut qualifiers: Vec<Info>, names: &[&'static str]) -> Values {
    qualifiers.push(info(keys::PROCID.name(), target.clone()));
    let query = Query { keys: names.iter().copied().map(Text::from).collect(), qualifiers };
    let Ok(answered) = client.query(vec![query]).wait() else { return BTreeMap::new() };
    // Over TCP there is only the text, without the flags of the library that read the machine.
    let plain = |value: Value| match value {
        Value::Topology(topology) if !client.reads_segment() => {
            Value::Topology(Box::new(Topology { support: Vec::new(), ..*topology }))
        }
        value => value,
    };
    let named = |found: Info| (*names.iter().find(|name| **name == found.key.as_str()).unwrap(), plain(found.value));
    answered.results.into_iter().map(named).collect()
}

/// A query could not answer for the topology and values derived from it. For values with qualifiers, of other jobs, and
/// of the calling process, its answer differed from a Get's.
#[test]
fn a_query_answers_every_key_with_the_value_of_a_get() {
    let server = server();
    let posting = server.connect("one", 1);
    posting.put(Scope::Global, "posted", 5).unwrap();
    posting.put(Scope::Remote, "posted.far", 6).unwrap();
    posting.put_qualified(Scope::Global, key("qualified"), 8, vec![info("colour", "red")]).unwrap();
    posting.commit().unwrap();
    let own = |rank| ProcId { rank, ..proc("one", 0) };
    let targets = [
        own(Rank::Wildcard),
        own(Rank::Undefined),
        proc("one", 0),
        proc("one", 1),
        proc("one", 2),
        proc("one", 3),
        proc("one", 9),
        ProcId { rank: Rank::Wildcard, ..proc("other", 0) },
        proc("other", 0),
        proc("nowhere", 0),
    ];
    let (mut found, mut differences) = (BTreeSet::new(), Vec::new());
    let asked = |target: &ProcId| {
        let target = target.clone();
        qualifier_sets().into_iter().map(move |set| (target.clone(), set))
    };
    for client in [server.connect("one", 0), server.connect_over_tcp("one", 0)] {
        for (target, qualifiers) in targets.iter().flat_map(asked) {
            // A Get of a missing value goes to the server. So one client asks for each key of each target once.
            let is_first = qualifiers.is_empty() && client.reads_segment();
            let picked = ["of.node", "qualified", "posted.far", "nobody's", keys::FABRIC_DEVICE.name()];
            let some = || found.iter().copied().chain(picked).collect::<BTreeSet<_>>().into_iter().collect();
            let names = if is_first { names() } else { some() };
            let expected = gotten(&client, &target, &qualifiers, &names);
            let answered = queried(&client, &target, qualifiers.clone(), &names);
            for name in names.iter().filter(|name| answered.get(*name) != expected.get(*name)) {
                let (by_get, by_query) = (expected.get(name), answered.get(name));
                let how = if client.reads_segment() { "from the segment" } else { "over TCP" };
                differences
                    .push(format!("{name} of {target} with {qualifiers:?} {how}: {by_get:?}, queried {by_query:?}"));
            }
            found.extend(expected.into_keys());
        }
    }
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
    let some = ["of.job", "of.node", "of.process", "posted", "qualified", keys::FABRIC_DEVICE.name()];
    assert!(found.len() > 40 && FOLLOWING.iter().chain(&some).all(|name| found.contains(name)), "not there: {found:?}");
    let only_here = || vec![info(keys::OPTIONAL.name(), true)];
    assert_eq!(queried(&posting, &proc("one", 0), only_here(), &FOLLOWING), Values::new(), "nobody told");
    // As in a Get without a process, the caller is meant if its place decides, and for values derived from it.
    let of_nobody = |name: &str| {
        let answered = posting.query(vec![Query { keys: vec![Text::from(name)], qualifiers: Vec::new() }]).wait();
        answered.unwrap().results.remove(0).value
    };
    assert_eq!(of_nobody(keys::LOCALITY_STRING.name()), Value::from("hwloc:SK0:CR0:HT0"));
    assert_eq!(of_nobody(keys::HOSTNAME.name()), Value::from("node0"));
    assert_eq!(of_nobody(keys::WDIR.name()), Value::from("/first"));
    assert_eq!(of_nobody(keys::JOB_SIZE.name()).as_u32(), Some(4));
}

/// A host that counts the questions, and answers each with their number.
#[derive(Default)]
struct Counting(AtomicU32);

impl Host for Counting {
    fn capabilities(&self) -> Capabilities {
        Capabilities::QUERY
    }

    fn query(&self, _: Requester, request: QueryInfo, reply: Responder<Vec<Info>>) {
        let number = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        let asked = request.queries.iter().flat_map(|query| &query.keys);
        reply.succeed(asked.map(|name| Info::new(Key::new(name.to_string()).unwrap(), number)).collect());
    }
}

/// Each of several identical queries made an upcall of the host, and `PMIX_QUERY_REFRESH_CACHE` had no effect.
#[test]
fn identical_queries_ask_the_host_once_until_something_happens() {
    // Answers live for a second, which a slow machine may take for a few queries.
    let in_time = std::iter::from_fn(|| Some(numbers_of_answers()))
        .take(100)
        .find(|(_, time)| *time < Duration::from_millis(900));
    let (numbers, _) = in_time.unwrap();
    let expected = [("first", 1), ("again", 1), ("callback", 1), ("anew", 2), ("kept anew", 2), ("other query", 3)];
    let later = [("after a commit", 4), ("other process", 5)];
    let expected: Numbers = expected.into_iter().chain(later).map(|(when, number)| (when, Some(number))).collect();
    assert_eq!(numbers, expected);
}

type Numbers = Vec<(&'static str, Option<u32>)>;

fn number(results: &[Info]) -> Option<u32> {
    results.first()?.value.as_u32()
}

/// The numbers in the host's answers, and the time since the first question.
#[expect(clippy::disallowed_methods, reason = "a test binary is an edge")]
fn numbers_of_answers() -> (Numbers, Duration) {
    let node = TestServer::start("node0", Counting::default());
    node.register_local_job("job", 2);
    let client = node.connect("job", 0);
    let begun = Instant::now();
    let query = |qualifiers: Vec<Info>| vec![Query { keys: vec![Text::from("host.number")], qualifiers }];
    let ask = |client: &Client, qualifiers| number(&client.query(query(qualifiers)).wait().unwrap().results);
    let mut numbers = vec![("first", ask(&client, Vec::new())), ("again", ask(&client, Vec::new()))];
    let (sender, answers) = mpsc::channel();
    client.query(query(Vec::new())).then(move |answer| sender.send(answer).unwrap()).unwrap();
    numbers.push(("callback", number(&answers.recv().unwrap().unwrap().results)));
    numbers.push(("anew", ask(&client, vec![info(keys::QUERY_REFRESH_CACHE.name(), true)])));
    numbers.push(("kept anew", ask(&client, Vec::new())));
    numbers.push(("other query", ask(&client, vec![info(keys::NSPACE.name(), "job")])));
    client.put(Scope::Global, "posted", 5).unwrap();
    client.commit().unwrap();
    numbers.push(("after a commit", ask(&client, Vec::new())));
    numbers.push(("other process", ask(&node.connect("job", 1), Vec::new())));
    (numbers, begun.elapsed())
}

/// The effect of a request that had begun before was missing in the kept answer.
#[test]
fn the_end_of_an_earlier_request_makes_a_kept_answer_old() {
    let node = TestServer::start("node0", Counting::default());
    node.register_local_job("job", 2);
    let [client, other] = [0, 1].map(|rank| node.connect("job", rank));
    let (sender, ends) = mpsc::channel();
    client.fence(&FenceOptions::default()).then(move |end| sender.send(end).unwrap()).unwrap();
    let ask = || {
        let query = Query { keys: vec![Text::from("host.number")], qualifiers: Vec::new() };
        number(&client.query(vec![query]).wait().unwrap().results)
    };
    assert_eq!(ask(), Some(1));
    other.fence(&FenceOptions::default()).wait().unwrap();
    ends.recv().unwrap().unwrap();
    assert_eq!(ask(), Some(2));
}

/// If the process map is a rule, the lists of other nodes are not stored: each way makes its own.
#[test]
fn gets_queries_and_resolves_agree_on_processes_of_other_nodes() {
    let node = TestServer::local();
    let names = ["node0", "node1", "node2"];
    let maps = [
        ("blocks", ["0,1,2", "3,4,5", "6,7"]),
        ("turns", ["0,3,6", "1,4,7", "2,5"]),
        ("any", ["0,7", "1,2,5", "3,4,6"]),
    ];
    for (job, lists) in maps {
        let size = lists.join(",").split(',').count().try_into().unwrap();
        let nodes: Vec<(&str, &str)> = names.into_iter().zip(lists).collect();
        node.server.register_namespace(&namespace(job), 1, description(size, &nodes)).wait().unwrap();
        node.register_client(job, 0);
    }
    let near = maps.map(|(job, _)| node.connect(job, 0));
    let far = maps.map(|(job, _)| node.connect_over_tcp(job, 0));
    // For the own job, and for others that the server knows.
    for (client, (job, lists)) in near.iter().chain(&far).flat_map(|client| maps.map(|map| (client, map))) {
        for (name, list) in names.into_iter().zip(lists) {
            let ranks: Vec<u32> = list.split(',').map(|rank| rank.parse().unwrap()).collect();
            let expected = Values::from([
                (keys::LOCAL_PEERS.name(), list.into()),
                (keys::LOCAL_SIZE.name(), u32::try_from(ranks.len()).unwrap().into()),
                (keys::LOCALLDR.name(), Value::ProcRank(ranks[0].into())),
            ]);
            let keys: Vec<&str> = expected.keys().copied().collect();
            let at = || vec![info(keys::NODE_INFO.name(), true), info(keys::HOSTNAME.name(), name)];
            let whole = ProcId { rank: Rank::Wildcard, ..proc(job, 0) };
            assert_eq!(gotten(client, &whole, &at(), &keys), expected, "{name} of {job}");
            assert_eq!(queried(client, &whole, at(), &keys), expected, "{name} of {job}, queried");
            let procs: Vec<ProcId> = ranks.iter().map(|rank| proc(job, *rank)).collect();
            assert_eq!(
                client.resolve_peers(Some(name), Some(&namespace(job))).wait().unwrap(),
                procs,
                "{name} of {job}"
            );
        }
    }
}

/// A host may register the peers of a node as runs of ranks. Requests for the peers missed the ranks in runs.
#[test]
fn peers_that_are_told_in_runs_are_all_of_them() {
    let node = TestServer::local();
    let text = |key: &'static str, value: &str| Info::new(Key::from_static(key), value);
    let told = [("node0", "0-3,5"), ("node1", "4")].map(|(name, peers)| {
        let entries = vec![text(keys::HOSTNAME.name(), name), text(keys::LOCAL_PEERS.name(), peers)];
        Info::new(Key::from_static(keys::NODE_INFO_ARRAY.name()), Value::info_array(entries))
    });
    let size = Info::new(Key::from_static(keys::JOB_SIZE.name()), 6_u32);
    let described: Vec<Info> = std::iter::once(size).chain(told).collect();
    node.server.register_namespace(&namespace("job"), 1, described).wait().unwrap();
    node.register_client("job", 0);
    let (near, far) = (node.connect("job", 0), node.connect_over_tcp("job", 0));
    for client in [&near, &far] {
        let there = |name| client.resolve_peers(Some(name), Some(&namespace("job"))).wait().unwrap();
        assert_eq!(there("node0"), [0, 1, 2, 3, 5].map(|rank| proc("job", rank)));
        assert_eq!(there("node1"), [proc("job", 4)]);
    }
}

/// No location was found, although the host had registered the node of each process.
#[test]
fn where_each_process_says_it_is_is_resolved_without_maps() {
    let node = TestServer::start("n0", LocalHost);
    let process = |(rank, name): (u32, &str)| {
        let entries = vec![info(keys::RANK.name(), Rank::from(rank)), info(keys::HOSTNAME.name(), name)];
        info(keys::PROC_INFO_ARRAY.name(), Value::info_array(entries))
    };
    let mut told = vec![info(keys::JOB_SIZE.name(), 3_u32)];
    told.extend([(0, "n0"), (2, "n0")].map(process));
    node.server.register_namespace(&namespace("job"), 2, told).wait().unwrap();
    node.server.register_namespace(&namespace("job"), 2, vec![process((1, "n1"))]).wait().unwrap();
    node.register_client("job", 0);
    for client in [node.connect("job", 0), node.connect_over_tcp("job", 0)] {
        let job = namespace("job");
        assert_eq!(client.resolve_peers(Some("n0"), Some(&job)).wait().unwrap(), [proc("job", 0), proc("job", 2)]);
        assert_eq!(client.resolve_peers(Some("n1"), Some(&job)).wait().unwrap(), [proc("job", 1)]);
        assert_eq!(client.resolve_nodes(Some(&job)).wait().unwrap(), Text::from("n0,n1"));
        client.finalize().unwrap();
        node.register_client("job", 0);
    }
}

/// Values derived from the topology.
const FOLLOWING: [&str; 7] = [
    keys::HWLOC_XML_V2.name(),
    keys::LOCAL_TOPO.name(),
    keys::TOPOLOGY2.name(),
    keys::LOCALITY_STRING.name(),
    keys::CPUSET_BITMAP.name(),
    keys::DEVICE_DISTANCES.name(),
    keys::PACKAGE_RANK.name(),
];

/// The server's own process got no such value.
#[test]
fn the_host_gets_what_follows_from_the_topology_as_clients_do() {
    let server = server();
    let client = server.connect("one", 0);
    let everybody = ProcId { rank: Rank::Wildcard, ..proc("one", 0) };
    for target in [everybody, proc("one", 0), proc("one", 1), proc("one", 2), proc("one", 3), proc("nowhere", 0)] {
        for name in FOLLOWING {
            let by_client = client.get_value(&target, name, &GetOptions::new().immediate());
            let by_client = by_client.map(|value| value.into_value().unwrap()).ok();
            let get = |directives| {
                let entries = server.server.get(&target, Some(&key(name)), directives).wait().ok()?;
                entries.into_iter().find(|entry| entry.key.as_str() == name).map(|entry| entry.value)
            };
            assert_eq!(get(vec![info(keys::IMMEDIATE.name(), true)]), by_client, "{name} of {target}");
            assert_eq!(get(vec![info(keys::OPTIONAL.name(), true)]), None, "{name} of {target} looked for here alone");
        }
    }
    let near =
        server.server.get(&proc("other", 1), Some(&key(keys::LOCALITY_STRING.name())), Vec::new()).wait().unwrap();
    assert_eq!(near.first().unwrap().value, Value::from("hwloc:SK0:CR0:HT0"));
}

/// The results of several queries were one list, so equal keys of different queries could not be told apart.
#[test]
fn results_are_grouped_by_query_on_request() {
    let server = server();
    let client = server.connect("one", 0);
    let named = |job: &str| Info::new(key(keys::NSPACE.name()), job);
    let query = |wanted: &str, qualifiers: Vec<Info>| Query { keys: vec![Text::from(wanted)], qualifiers };
    let wish = Info { flags: InfoFlags::REQUIRED.bits(), ..Info::new(key(keys::QUERY_RESULTS.name()), true) };
    let queries = vec![
        query("of.job", vec![named("one"), wish]),
        query("of.job", Vec::new()),
        query("nobody.knows", vec![named("other")]),
    ];
    let of_job = Info::new(key("of.job"), "one");
    let group = |infos: Vec<Info>| Info::new(key(keys::QUERY_RESULTS.name()), Value::info_array(infos));
    let qualifiers = |job: &str| Info::new(key(keys::QUERY_QUALIFIERS.name()), Value::info_array(vec![named(job)]));
    let groups = vec![
        group(vec![qualifiers("one"), of_job.clone()]),
        group(vec![of_job.clone()]),
        group(vec![qualifiers("other")]),
    ];
    let partial = Answered { status: Status::ERR_PARTIAL_SUCCESS, results: groups.clone() };
    assert_eq!(client.query(queries.clone()).wait().unwrap(), partial);
    let (give, take) = mpsc::channel();
    client.query(queries.clone()).then(move |answer| give.send(answer).unwrap()).unwrap();
    assert_eq!(take.recv().unwrap().unwrap(), partial);
    let whole = Answered { status: Status::SUCCESS, results: groups[..2].to_vec() };
    assert_eq!(client.query(queries[..2].to_vec()).wait().unwrap(), whole);
    // Without the wish the results are one list, as in OpenPMIx.
    let flat = client.query(vec![queries[1].clone(), query("of.job", vec![named("one")])]).wait().unwrap();
    assert_eq!(flat.results, [of_job.clone(), of_job]);
    let nothing = query("nobody.knows", queries[0].qualifiers.clone());
    assert_eq!(client.query(vec![nothing]).wait().unwrap_err().status(), Status::ERR_NOT_SUPPORTED);
    let many = client.query(vec![queries[0].clone(); 65]).wait().unwrap_err();
    assert_eq!(many.status(), Status::ERR_OUT_OF_RESOURCE);
}
