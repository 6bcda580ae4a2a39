//! Users are kept apart, on a real server with processes of real users.
//!
//! A server of root had jobs of several users. A process of one user read the data and values of another user's job
//! over the socket, and raised events in its handlers. `docs/trust.md` has the rules, and `src/server/rules/access.rs`
//! the table. Here every process tries all of it through the socket. Only root can run this.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeSet;
use std::fs::{Permissions, set_permissions};
use std::io::IoSlice;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use modex::types::AsStatus;
use modex::types::codes::{iof_channel, range};
use modex::types::{DataArray, DataType, Info, Key, Namespace, ProcId, Query, Rank, Scope, Status, Text, Value};
use modex::{
    AbortUpcall, Capabilities, Client, EventCall, GetOptions, Host, IofPull, IofPush, JobControl, Monitor,
    RegisterEvents, Requester, Responder, Server, SocketAccess, Spawn, keys,
};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use support::{Process, TestServer, description, namespace, proc, role, this_binary};

const ALICE: u32 = 61_001;
const BOB: u32 = 61_002;
/// The events that Alice's process listens to, and that every process raises.
const CODES: [Status; 3] = [Status::from_raw(4711), Status::ERR_PROC_ABORTED, Status::ERR_JOB_TERMINATED];
/// The event that Alice's process raises before the others come.
const OF_ALICE: Status = Status::from_raw(4712);
const LAST: Status = Status::from_raw(4713);
/// The event that the host raises at a process that has registered for events.
const MARK: Status = Status::from_raw(4714);

/// A host that permits everything, so only the server refuses.
struct Anything;

impl Host for Anything {
    fn capabilities(&self) -> Capabilities {
        let deeds = Capabilities::ABORT | Capabilities::JOB_CONTROL | Capabilities::MONITOR | Capabilities::SPAWN;
        deeds | Capabilities::IOF_PULL | Capabilities::IOF_PUSH | Capabilities::REGISTER_EVENTS
    }

    fn abort(&self, _: AbortUpcall, reply: Responder<()>) {
        reply.succeed(());
    }

    fn job_control(&self, _: Requester, _: JobControl, reply: Responder<Vec<Info>>) {
        reply.succeed(Vec::new());
    }

    fn monitor(&self, _: Requester, _: Monitor, reply: Responder<Vec<Info>>) {
        reply.succeed(Vec::new());
    }

    fn spawn(&self, _: Requester, _: Spawn, reply: Responder<Namespace>) {
        reply.succeed(namespace("alices"));
    }

    fn iof_pull(&self, _: Requester, _: IofPull, reply: Responder<()>) {
        reply.succeed(());
    }

    fn iof_push(&self, _: Requester, _: IofPush, reply: Responder<()>) {
        reply.succeed(());
    }

    fn register_events(&self, _: RegisterEvents, reply: Responder<()>) {
        reply.succeed(());
    }
}

#[test]
fn client_process() {
    match role().as_deref() {
        Some("alice") => alice(),
        Some("stranger") => try_everything(&Client::connect().unwrap(), Reach::Nothing),
        Some("tied") => {
            let client = Client::connect().unwrap();
            client.connect_processes(vec![all_of("alices"), all_of("tied")], Vec::new()).wait().unwrap();
            try_everything(&client, Reach::Data);
        }
        Some("parent") => {
            let client = Client::connect().unwrap();
            assert_eq!(client.spawn(Vec::new(), Vec::new()).wait(), Ok(namespace("alices")));
            try_everything(&client, Reach::Everything);
        }
        Some("same user" | "root") => try_everything(&Client::connect().unwrap(), Reach::Everything),
        Some("last") => {
            let client = Client::connect().unwrap();
            client.notify_event(LAST, None, range::RANGE_CUSTOM, &[target()]).wait().unwrap();
        }
        Some("descriptors in flight") => in_flight(),
        Some(other) => panic!("unknown role {other}"),
        None => {}
    }
}

/// How much of Alice's job a process reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    Nothing,
    Data,
    Everything,
}

fn all_of(name: &str) -> ProcId {
    ProcId { namespace: namespace(name), rank: Rank::Wildcard }
}

fn info(key: &str, value: impl Into<Value>) -> Info {
    Info::new(Key::new(key.to_owned()).unwrap(), value)
}

fn target() -> Info {
    at("alices")
}

fn at(name: &str) -> Info {
    let elements = vec![Value::from(proc(name, 0))];
    info(
        keys::EVENT_CUSTOM_RANGE.name(),
        Value::DataArray(Box::new(DataArray { element_type: DataType::Proc, elements })),
    )
}

/// Puts values, listens, agrees to be connected with one job, and prints the events that it heard.
fn alice() {
    let client = Client::connect().unwrap();
    client.put(Scope::Global, "global", 1_u32).unwrap();
    client.put(Scope::Local, "local", 2_u32).unwrap();
    client.commit().unwrap();
    client.publish(vec![info("name", 3_u32)]).wait().unwrap();
    let (heard, hears) = mpsc::channel();
    let heard = Mutex::new(heard);
    let handler = move |call: EventCall| {
        let source = call.source.as_ref().map_or("host".to_owned(), |source| source.namespace.to_string());
        heard.lock().unwrap().send((call.status, source)).unwrap();
        call.complete(Status::SUCCESS, Vec::new());
    };
    client.register_event_handler(&[&CODES[..], &[LAST]].concat(), &[], handler).wait().unwrap();
    client.notify_event(OF_ALICE, None, range::RANGE_GLOBAL, &[]).wait().unwrap();
    client.connect_processes(vec![all_of("alices"), all_of("tied")], Vec::new()).wait().unwrap();
    println!("ready");
    let sources: BTreeSet<(i32, String)> = hears
        .iter()
        .take_while(|(status, _)| *status != LAST)
        .map(|(status, source)| (status.to_raw(), source))
        .collect();
    for (status, source) in sources {
        println!("heard {status} of {source}");
    }
}

type Outcome = Result<(), Status>;

fn outcome<T, E: AsStatus>(result: Result<T, E>) -> Outcome {
    result.map(drop).map_err(|error| error.status())
}

fn get(client: &Client, of: &ProcId, key: &str) -> Outcome {
    outcome(client.get_value(of, key, &GetOptions::new().timeout(Duration::from_secs(60))))
}

fn look_up(client: &Client) -> Outcome {
    outcome(client.lookup(vec![Key::from_static("name")], Vec::new()).wait())
}

/// Each line of the table that has a request, with the reach that permits it and the status of a refusal.
fn try_everything(client: &Client, reach: Reach) {
    let (alice, all) = (proc("alices", 0), all_of("alices"));
    let table = Query {
        keys: vec![Text::from(keys::QUERY_PROC_TABLE.name())],
        qualifiers: vec![info(keys::NSPACE.name(), "alices")],
    };
    let raise = |code: Status, range: u8, infos: &[Info]| outcome(client.notify_event(code, None, range, infos).wait());
    let kill = || vec![info(keys::JOB_CTRL_KILL.name(), true)];
    let (data, deeds) = (Reach::Data, Reach::Everything);
    let (unknown, denied) = (Status::ERR_NOT_FOUND, Status::ERR_NO_PERMISSIONS);
    let no_job = Status::ERR_INVALID_NAMESPACE;
    let pull = client.iof_pull(vec![all.clone()], Vec::new(), iof_channel::FWD_STDOUT_CHANNEL, |_| {}).wait();
    let watched = info(keys::MONITOR_ID.name(), alice.clone());
    let attempts = [
        ("get a global value", data, unknown, get(client, &alice, "global")),
        ("get a local value", data, unknown, get(client, &alice, "local")),
        ("get the job's size", data, unknown, get(client, &all, keys::JOB_SIZE.name())),
        ("look up published data", data, unknown, look_up(client)),
        ("query the process table", data, unknown, outcome(client.query(vec![table]).wait())),
        ("resolve peers", data, no_job, outcome(client.resolve_peers(None, Some(&alice.namespace)).wait())),
        ("resolve nodes", data, no_job, outcome(client.resolve_nodes(Some(&alice.namespace)).wait())),
        ("raise an event at a process", data, denied, raise(CODES[0], range::RANGE_CUSTOM, &[target()])),
        ("claim that a process aborted", data, denied, raise(CODES[1], range::RANGE_CUSTOM, &[target()])),
        ("invite", data, denied, raise(Status::GROUP_INVITED, range::RANGE_CUSTOM, &[target()])),
        ("pull output", deeds, denied, outcome(pull)),
        ("push input", deeds, denied, outcome(client.iof_push(vec![alice.clone()], Vec::new(), b"x".to_vec()).wait())),
        ("control", deeds, denied, outcome(client.job_control(vec![alice.clone()], kill()).wait())),
        ("abort", deeds, denied, outcome(client.abort(Status::ERROR, "", vec![all.clone()]))),
        ("monitor", deeds, denied, outcome(client.monitor(watched, CODES[0], Vec::new()).wait())),
    ];
    for (what, needs, refusal, found) in attempts {
        let expected = if reach >= needs { Ok(()) } else { Err(refusal) };
        assert_eq!(found, expected, "{what}, as {} that reaches {reach:?}", client.proc());
    }
    // All processes in range get the event. An event that reaches no target is no error.
    raise(CODES[2], range::RANGE_GLOBAL, &[]).unwrap();
    raise(CODES[1], range::RANGE_LOCAL, &[]).unwrap();
    // The answers do not show whether such a job exists.
    if reach == Reach::Nothing {
        // Another user's name is not taken.
        client.publish(vec![info("name", 4_u32)]).wait().unwrap();
        assert_eq!(look_up(client), Ok(()));
        assert_eq!(get(client, &proc("nobodys", 0), "global"), Err(unknown));
        let named = client
            .query(vec![Query { keys: vec![Text::from(keys::QUERY_NAMESPACES.name())], qualifiers: Vec::new() }])
            .wait();
        let named = named.unwrap().results;
        assert!(named.iter().all(|info| info.value == Value::from("parents,strangers,tied")), "{named:?}");
    }
    // Events go to root's tools, not to its ordinary processes.
    let is_notified = reach >= Reach::Data && client.proc().namespace != namespace("roots");
    assert_eq!(hears_alice(client), is_notified, "{}", client.proc());
}

/// Whether this process gets the earlier event of Alice's process, which the server keeps for later registrations.
fn hears_alice(client: &Client) -> bool {
    let (heard, hears) = mpsc::channel();
    let heard = Mutex::new(heard);
    let handler = move |call: EventCall| {
        heard.lock().unwrap().send(call.status).unwrap();
        call.complete(Status::SUCCESS, Vec::new());
    };
    client.register_event_handler(&[OF_ALICE, MARK], &[], handler).wait().unwrap();
    println!("listening");
    hears.iter().take_while(|status| *status != MARK).any(|status| status == OF_ALICE)
}

#[test]
fn a_process_reaches_no_other_users_job_without_a_tie() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("not checked: only root can start processes of other users");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    set_permissions(directory.path(), Permissions::from_mode(0o711)).unwrap();
    let builder = Server::builder().tmpdir(directory.path()).access(SocketAccess::RegisteredUsers);
    let server = builder.hostname("node0").name_service().start(Anything).unwrap();
    let node = TestServer { server: server.into(), directory };
    let jobs =
        [("alices", ALICE), ("strangers", BOB), ("tied", BOB), ("parents", BOB), ("second", ALICE), ("roots", 0)];
    for (name, uid) in jobs {
        node.server.register_namespace(&namespace(name), 1, description(1, &[("node0", "0")])).wait().unwrap();
        node.server.register_client(&proc(name, 0), uid, uid).wait().unwrap();
    }
    let mut alice = start(&node, "alices", "alice", ALICE);
    run(&node, "tied", "tied", BOB);
    alice.wait_for_line("ready");
    run(&node, "strangers", "stranger", BOB);
    run(&node, "second", "same user", ALICE);
    run(&node, "roots", "root", 0);
    run(&node, "parents", "parent", BOB);
    start(&node, "second", "last", ALICE).succeed();
    let said = alice.said();
    let heard: BTreeSet<&str> =
        said.lines().filter_map(|line| line.split_once("heard ")).map(|(_, what)| what).collect();
    let expected: BTreeSet<String> = ["tied", "second", "roots", "parents"]
        .iter()
        .flat_map(|name| CODES.map(|code| format!("{} of {name}", code.to_raw())))
        .collect();
    assert_eq!(heard, expected.iter().map(String::as_str).collect::<BTreeSet<_>>(), "{said}");
}

/// A server and a client of a user with so many descriptors in flight that the kernel passes no more.
fn in_flight() {
    const DESCRIPTORS_MAX: u64 = 256;
    setrlimit(Resource::RLIMIT_NOFILE, DESCRIPTORS_MAX, DESCRIPTORS_MAX).unwrap();
    let (one, _other) = UnixStream::pair().unwrap();
    let rights = [ControlMessage::ScmRights(&[one.as_raw_fd(); 200])];
    for _ in 0..2 {
        sendmsg::<()>(one.as_raw_fd(), &[IoSlice::new(b"x")], &rights, MsgFlags::empty(), None).unwrap();
    }
    let node = TestServer::local();
    node.register_local_job("job", 1);
    let client = node.connect("job", 0);
    assert!(!client.reads_segment());
    client.put(Scope::Global, "own", 7_u32).unwrap();
    client.commit().unwrap();
    for (of, key) in [(all_of("job"), keys::JOB_SIZE.name()), (proc("job", 0), "own")] {
        assert_eq!(get(&client, &of, key), Ok(()), "{key}");
    }
}

/// The connection was dropped, and the initialization failed, because the server could not pass the segment.
#[test]
fn a_client_whose_segment_cannot_be_passed_asks_for_its_values() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("not checked: only root can start processes of other users");
        return;
    }
    let mut command = this_binary("descriptors in flight");
    Process::of(command.uid(BOB).gid(BOB).stdin(Stdio::null()).spawn().unwrap()).succeed();
}

/// Lets a process try all operations.
fn run(node: &TestServer, name: &str, role: &str, uid: u32) {
    let mut process = start(node, name, role, uid);
    process.wait_for_line("listening");
    node.server.notify_event(MARK, None, range::RANGE_CUSTOM, &[at(name)]).wait().unwrap();
    process.succeed();
}

/// A process of a job, started as a user.
fn start(node: &TestServer, name: &str, role: &str, uid: u32) -> Process {
    let mut command = this_binary(role);
    command.envs(node.server.setup_fork(&proc(name, 0)).unwrap()).uid(uid).gid(uid).stdin(Stdio::null());
    Process::of(command.spawn().unwrap())
}
