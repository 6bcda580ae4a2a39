//! One job, two ways to its data: a process gets the same answers over the socket as from the segment.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

#[path = "support/cases.rs"]
mod cases;
mod support;

use modex::gds::registration::JobDescription;
use modex::types::{Info, InfoFlags, Key, ProcId, Rank, Scope, Value};
use modex::{Client, FenceOptions, GetError, GetOptions, LocalHost};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use support::{TestServer, namespace, proc, without_socket};

/// Keys of the host and of the processes; the host's also collide with the processes'.
const KEYS: [&str; 6] = ["key", "other.key", "a.third", "pmix.unheard.of", "pmix.fabdev.unheard.of", "fourth"];
/// Keys that the server derives.
const DERIVED: [&str; 18] = [
    "pmix.job.size",
    "pmix.max.size",
    "pmix.univ.size",
    "pmix.num.nodes",
    "pmix.nlist",
    "pmix.jobid",
    "pmix.hname",
    "pmix.nodeid",
    "pmix.lrank",
    "pmix.nrank",
    "pmix.grank",
    "pmix.apprank",
    "pmix.appnum",
    "pmix.lpeers",
    "pmix.lldr",
    "pmix.local.size",
    "pmix.node.size",
    "no.such.key",
];

#[derive(Clone, Debug)]
struct Job {
    /// The number of processes on each node; the first node is the server's.
    nodes: Vec<u32>,
    of_job: Vec<(usize, Value)>,
    of_nodes: Vec<(u32, usize, Value)>,
    of_processes: Vec<(u32, usize, Value)>,
    /// The values of each local process except the first, which reads.
    posted: Vec<Vec<(Scope, usize, Value)>>,
}

/// Values that every encoding carries completely: the wire form shortens floating-point numbers.
fn value() -> impl Strategy<Value = Value> {
    let flat = prop_oneof![
        any::<bool>().prop_map(Value::Bool),
        any::<u16>().prop_map(Value::Uint16),
        any::<u32>().prop_map(Value::Uint32),
        any::<u64>().prop_map(Value::Uint64),
        any::<i32>().prop_map(Value::Int32),
        any::<i64>().prop_map(Value::Int64),
        "[ -~]{0,20}".prop_map(Value::from),
        (4000..5000_usize).prop_map(|len| Value::from("x".repeat(len))),
        vec(any::<u8>(), 0..40).prop_map(Value::ByteObject),
        (0..9_u32).prop_map(|rank| Value::from(proc("job", rank))),
    ];
    let nested = vec(any::<u32>(), 0..4).prop_map(|numbers| {
        let element = |number: u32| Info::new(Key::from_static("n"), number);
        Value::info_array(numbers.into_iter().map(element).collect())
    });
    prop_oneof![9 => flat, 1 => nested]
}

fn job() -> impl Strategy<Value = Job> {
    let key = || 0..KEYS.len();
    vec(1..4_u32, 1..4).prop_flat_map(move |nodes| {
        let (count, size, local) = (u32::try_from(nodes.len()).unwrap(), nodes.iter().sum::<u32>(), nodes[0]);
        let scope = prop::sample::select(vec![Scope::Local, Scope::Remote, Scope::Global]);
        let posts = vec((scope, key(), value()), 0..5);
        let once = |owners: u32| btree_map((0..owners, key()), value(), 0..6);
        let flat = |values: std::collections::BTreeMap<(u32, usize), Value>| {
            values.into_iter().map(|((owner, key), value)| (owner, key, value)).collect::<Vec<_>>()
        };
        let writers = usize::try_from(local - 1).unwrap();
        (btree_map(key(), value(), 0..4), once(count), once(size), vec(posts, writers..=writers)).prop_map(
            move |(of_job, of_nodes, of_processes, posted)| Job {
                nodes: nodes.clone(),
                of_job: of_job.into_iter().collect(),
                of_nodes: flat(of_nodes),
                of_processes: flat(of_processes),
                posted,
            },
        )
    })
}

fn key(index: usize) -> Key {
    Key::from_static(KEYS[index])
}

impl Job {
    fn size(&self) -> u32 {
        self.nodes.iter().sum()
    }

    fn register(&self, node: &TestServer) {
        let names = (0..self.nodes.len()).map(|index| format!("node{index}"));
        let mut next = 0;
        let ranks: Vec<Vec<u32>> =
            self.nodes.iter().map(|count| (0..*count).map(|_| (next, next += 1).0).collect()).collect();
        let mut description = JobDescription::new(&namespace("job")).nodes(names).ranks_by_node(ranks);
        for (index, value) in self.of_job.clone() {
            description = description.job_value(key(index), value);
        }
        for (owner, index, value) in self.of_nodes.clone() {
            description = description.node_value(owner, key(index), value);
        }
        for (owner, index, value) in self.of_processes.clone() {
            description = description.process_value(owner, key(index), value);
        }
        node.server.register_namespace(&namespace("job"), self.nodes[0], description.build().unwrap()).wait().unwrap();
        (0..self.nodes[0]).for_each(|rank| node.register_client("job", rank));
    }

    /// The local processes except the first post their values, and a fence announces that.
    fn post(&self, node: &TestServer, reader: &Client) -> Vec<Client> {
        let writers: Vec<Client> = (1..self.nodes[0]).map(|rank| node.connect("job", rank)).collect();
        for (writer, posts) in writers.iter().zip(&self.posted) {
            for (scope, index, value) in posts.clone() {
                // Only libraries may put a reserved key.
                let _ = writer.put(scope, KEYS[index], value);
            }
            writer.commit().unwrap();
        }
        let here = FenceOptions::new().procs((0..self.nodes[0]).map(|rank| proc("job", rank))).collect(true);
        let pending: Vec<_> = writers.iter().map(|writer| writer.fence(&here).start().unwrap()).collect();
        reader.fence(&here).wait().unwrap();
        pending.into_iter().for_each(|fence| fence.wait().unwrap());
        writers
    }
}

/// The first process of the job, without the server's socket and so without its segments.
fn connect_over_tcp(node: &TestServer) -> Client {
    Client::builder().env(without_socket(node.server.setup_fork(&proc("job", 0)).unwrap())).connect().unwrap()
}

/// The same as a foreign process: it has only an address, an encoding by its variable's name, and a release.
fn connect_as_foreign(node: &TestServer, (uri, release): (&str, &str)) -> Client {
    let variables = node.server.setup_fork(&proc("job", 0)).unwrap();
    let address = variables.iter().find(|(name, _)| name == "PMIX_SERVER_URI41").unwrap().1.clone();
    let mut environment: Vec<_> = variables
        .into_iter()
        .filter(|(name, _)| !["MODEX_", "PMIX_SERVER_URI", "PMIX_VERSION"].iter().any(|start| name.starts_with(start)))
        .collect();
    environment.extend([(uri.to_owned(), address), ("PMIX_VERSION".to_owned(), release.to_owned())]);
    Client::builder().env(environment).connect().unwrap()
}

/// Each encoding, with a release that has it.
const FOREIGN: [(&str, &str); 5] = [
    ("PMIX_SERVER_URI3", "3.2.5"),
    ("PMIX_SERVER_URI4", "4.0.0"),
    ("PMIX_SERVER_URI41", "4.2.2"),
    ("PMIX_SERVER_URI51", "6.0.0"),
    ("PMIX_SERVER_URI61", "6.1.1"),
];

fn answer(client: &Client, whose: &ProcId, key: &str) -> Result<Value, GetError> {
    client.get_value(whose, key, &GetOptions::new().immediate()).map(|found| found.into_value().unwrap())
}

/// A Get with the qualifiers of a realm.
fn qualified(client: &Client, whose: &ProcId, key: &str, realm: u32) -> Result<Value, GetError> {
    let info = |key, value: Value| Info::new(Key::from_static(key), value);
    let options = GetOptions::new().immediate();
    let options = match realm {
        0 => options.info(info("pmix.node.info", true.into())).info(info("pmix.nodeid", 0_u32.into())),
        1 => options.info(info("pmix.node.info", true.into())).info(info("pmix.hname", "node1".into())),
        2 => options.info(info("pmix.app.info", true.into())).info(info("pmix.appnum", 0_u32.into())),
        _ => options.info(info("pmix.job.info", true.into())),
    };
    client.get_value(whose, key, &options).map(|found| found.into_value().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..cases::cases(48) })]

    #[test]
    fn every_answer_over_the_socket_equals_the_one_from_the_segment(job in job(), foreign in prop::sample::select(FOREIGN.to_vec())) {
        let node = TestServer::start("node0", LocalHost);
        job.register(&node);
        let near = node.connect("job", 0);
        let far = [connect_over_tcp(&node), connect_as_foreign(&node, foreign)];
        prop_assert!(near.reads_segment() && !far[0].reads_segment() && !far[1].reads_segment());
        let writers = job.post(&node, &near);
        for rank in (0..=job.size()).map(Rank::from).chain([Rank::Wildcard]) {
            let whose = ProcId { namespace: namespace("job"), rank };
            for key in KEYS.iter().chain(&DERIVED) {
                let expected = answer(&near, &whose, key);
                for far in &far {
                    prop_assert_eq!(&expected, &answer(far, &whose, key), "{} of {}, {:?}", key, rank, foreign);
                }
            }
        }
        let whole = ProcId { namespace: namespace("job"), rank: Rank::Wildcard };
        for (key, realm) in KEYS.iter().chain(&DERIVED).flat_map(|key| (0..4).map(move |realm| (key, realm))) {
            let expected = qualified(&near, &whole, key, realm);
            for far in &far {
                prop_assert_eq!(&expected, &qualified(far, &whole, key, realm), "{} in {}, {:?}", key, realm, foreign);
            }
        }
        drop(writers);
    }
}

fn with_qualifiers(client: &Client, whose: &ProcId, number: Option<u32>, colour: Option<&str>) -> Option<u32> {
    let mut options = GetOptions::new().immediate();
    if let Some(number) = number {
        options = options.qualifier(Key::from_static("number"), number);
    }
    if let Some(colour) = colour {
        options = options.qualifier(Key::from_static("colour"), colour);
    }
    match client.get_value(whose, "several", &options) {
        Ok(found) => found.into_value().unwrap().as_u32(),
        Err(GetError::NotFound { .. }) => None,
        Err(error) => panic!("{error}"),
    }
}

/// A key that was put, or registered, several times with different qualifiers: a Get finds the value with all of its
/// own qualifiers.
#[test]
fn values_that_differ_in_their_qualifiers_come_back_separately() {
    let info = |key, value: Value| Info::new(Key::from_static(key), value);
    let qualifiers = |number: u32, colour: Option<&str>| {
        let colour = colour.map(|colour| info("colour", colour.into()));
        [info("number", number.into())].into_iter().chain(colour).collect::<Vec<_>>()
    };
    let several = Key::from_static("several");
    let array = |value: u32, qualifiers: Vec<Info>| {
        let flagged = qualifiers.into_iter().map(|info| Info { flags: InfoFlags::QUALIFIER.bits(), ..info });
        let infos = [info("several", value.into())].into_iter().chain(flagged).collect();
        info("pmix.qual.val", Value::info_array(infos))
    };
    let node = TestServer::start("node0", LocalHost);
    let of_process = vec![
        info("pmix.rank", Value::ProcRank(Rank::from(2))),
        array(21, qualifiers(1, None)),
        info("several", 20_u32.into()),
        array(22, qualifiers(2, Some("red"))),
    ];
    let description = vec![
        info("pmix.job.size", 3_u32.into()),
        array(1, qualifiers(1, None)),
        info("pmix.job.arr", Value::info_array(vec![array(2, qualifiers(2, None)), info("several", 9_u32.into())])),
        info("pmix.pdata", Value::info_array(of_process)),
    ];
    node.server.register_namespace(&namespace("job"), 3, description).wait().unwrap();
    // A new value with the same qualifiers leaves the others.
    node.server.register_namespace(&namespace("job"), 3, vec![array(11, qualifiers(1, None))]).wait().unwrap();
    (0..3).for_each(|rank| node.register_client("job", rank));
    let writer = node.connect("job", 1);
    writer.put_qualified(Scope::Global, several.clone(), 101_u32, qualifiers(1, None)).unwrap();
    writer.put_qualified(Scope::Global, several.clone(), 0_u32, qualifiers(2, Some("red"))).unwrap();
    writer.put(Scope::Global, "several", 100_u32).unwrap();
    writer.put_qualified(Scope::Local, several.clone(), 102_u32, qualifiers(2, Some("red"))).unwrap();
    writer.put_qualified(Scope::Global, several.clone(), 103_u32, qualifiers(2, Some("blue"))).unwrap();
    let refused = writer.put(Scope::Global, "pmix.qual.val", 1_u32).unwrap_err();
    assert!(refused.to_string().contains("array of infos"), "{refused}");
    assert_eq!(with_qualifiers(&writer, writer.proc(), Some(2), Some("red")), Some(102), "what is put is seen at once");
    writer.commit().unwrap();
    let near = node.connect("job", 0);
    let far: Vec<Client> = [connect_over_tcp(&node)]
        .into_iter()
        .chain(FOREIGN[2..].iter().map(|one| connect_as_foreign(&node, *one)))
        .collect();
    assert!(near.reads_segment() && far.iter().all(|far| !far.reads_segment()));
    for client in [&near, &writer].into_iter().chain(&far) {
        let of = |rank: Rank, number, colour| {
            with_qualifiers(client, &ProcId { namespace: namespace("job"), rank }, number, colour)
        };
        let put = |number, colour| of(1.into(), number, colour);
        assert_eq!(put(None, None), Some(100));
        assert_eq!(put(Some(1), None), Some(101));
        assert_eq!(put(Some(2), Some("red")), Some(102));
        assert_eq!(put(None, Some("blue")), Some(103));
        assert_eq!([put(Some(3), None), put(Some(1), Some("red")), put(None, Some("green"))], [None; 3]);
        let job = |number| of(Rank::Wildcard, number, None);
        assert_eq!([job(None), job(Some(1)), job(Some(2)), job(Some(3))], [Some(9), Some(11), Some(2), None]);
        let told = |number, colour| of(2.into(), number, colour);
        assert_eq!([told(None, None), told(Some(1), None), told(None, Some("red"))], [Some(20), Some(21), Some(22)]);
        let everything = client.find(Some(proc("job", 1)), None, &[]).unwrap().into_value().unwrap();
        let Value::DataArray(everything) = everything else { panic!("everything is an array") };
        let of_key = |key: &str| {
            let is_of_key = |one: &&Value| matches!(one, Value::Info(info) if info.key.as_str() == key);
            everything.elements.iter().filter(is_of_key).count()
        };
        assert_eq!([of_key("pmix.qual.val"), of_key("several")], [3, 1]);
    }
}
