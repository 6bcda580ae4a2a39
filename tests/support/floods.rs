//! One client that floods a server, in every way of a client: for `tests/floods.rs` and `benches/floods.rs`.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use modex::proto::frame::{self, FrameHeader};
use modex::proto::handshake::{Connect as Introduction, Ids, Role, SECURITY_NATIVE, STORE_HASH, native_credential};
use modex::proto::{
    Abort, Collective, Commit, Dialect, Get, Group, IofPull, IofPush, JobControl, Log, Lookup, Monitor, Notify,
    Publish, RegisterEvents, Request, ResolvePeers, Spawn, Tag, request,
};
use modex::ptl::{Endpoint, ServerAddress};
use modex::types::codes::range;
use modex::types::{
    App, DataArray, DataType, Info, InfoFlags, Key, Kval, Namespace, ProcId, Query, Rank, Scope, Status, Text, Value,
};
use modex::{Capabilities, Connect, FenceReply, FenceUpcall, GroupRequest, Host, QueryInfo, Requester, Responder};

/// The job of the flooding client (rank 0) and of its victim (rank 1).
pub(crate) const JOB: &str = "job";
/// Another job on the same node.
pub(crate) const OTHER_JOB: &str = "other";
/// A large job on other nodes, whose processes the huge requests name.
pub(crate) const LARGE_JOB: &str = "large";
/// The number of its processes.
pub(crate) const LARGE_JOB_SIZE: u32 = 100_000;

/// A host that answers every request at once.
pub(crate) struct Agreeing;

impl Host for Agreeing {
    fn capabilities(&self) -> Capabilities {
        let passed = Capabilities::PUBLISH | Capabilities::LOOKUP | Capabilities::SPAWN | Capabilities::LOG;
        let sets = Capabilities::FENCE | Capabilities::CONNECT | Capabilities::DISCONNECT | Capabilities::GROUP;
        passed
            | sets
            | Capabilities::JOB_CONTROL
            | Capabilities::MONITOR
            | Capabilities::IOF_PULL
            | Capabilities::IOF_PUSH
    }

    fn publish(&self, _: Requester, _: Publish, reply: Responder<()>) {
        reply.succeed(());
    }

    fn lookup(&self, _: Requester, _: Lookup, reply: Responder<Vec<modex::types::Pdata>>) {
        reply.succeed(Vec::new());
    }

    fn spawn(&self, _: Requester, _: Spawn, reply: Responder<Namespace>) {
        reply.fail(Status::ERR_NOT_SUPPORTED);
    }

    fn connect(&self, _: Connect, reply: Responder<()>) {
        reply.succeed(());
    }

    fn fence(&self, _: FenceUpcall, reply: Responder<FenceReply>) {
        reply.succeed(FenceReply::default());
    }

    fn disconnect(&self, _: Connect, reply: Responder<()>) {
        reply.succeed(());
    }

    fn log(&self, _: Requester, _: Log, reply: Responder<()>) {
        reply.succeed(());
    }

    fn job_control(&self, _: Requester, _: JobControl, reply: Responder<Vec<Info>>) {
        reply.succeed(Vec::new());
    }

    fn monitor(&self, _: Requester, _: Monitor, reply: Responder<Vec<Info>>) {
        reply.succeed(Vec::new());
    }

    fn iof_pull(&self, _: Requester, _: IofPull, reply: Responder<()>) {
        reply.succeed(());
    }

    fn iof_push(&self, _: Requester, _: IofPush, reply: Responder<()>) {
        reply.succeed(());
    }

    fn group(&self, _: GroupRequest, reply: Responder<Vec<Info>>) {
        reply.succeed(Vec::new());
    }
}

/// An array of numbers, which differ with the first one.
fn numbers(count: u64, first: u64) -> Value {
    let elements = (0..count).map(|index| Value::from(first + index)).collect();
    Value::DataArray(Box::new(DataArray { element_type: DataType::Uint64, elements }))
}

/// A way to flood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flood {
    Connects,
    Introductions,
    HalfIntroductions,
    HalfFrames,
    NewKeys,
    ManyNewKeys,
    SameKey,
    EmptyCommits,
    Fences,
    MissingGets,
    PresentGets,
    WildcardGets,
    OtherJobGets,
    Registrations,
    ManyCodes,
    Notifications,
    Publishes,
    Lookups,
    Queries,
    Groups,
    Invites,
    Pulls,
    Pushes,
    Logs,
    JobControls,
    Spawns,
    Monitors,
    Resolves,
    Aborts,
    HugeCommits,
    HugeOverwrites,
    HugeFences,
    HugeConnects,
    HugeGroups,
    HugeQueries,
    HugeJobGets,
    HugeNotifications,
    HugeRanges,
    HugePublishes,
    HugeLookups,
    HugeLogs,
    HugeCodes,
    HugePulls,
    HugePushes,
    HugeControls,
    HugeSpawns,
    HugeResolves,
    HugeAborts,
    HeldGets,
    QualifiedGets,
    ComparedPulls,
    HugeWholeGets,
    HugeValueGets,
    HugeChanges,
    HugeValues,
    HugeArrays,
    HugeTexts,
    HugeMissedEvents,
    HugeEventArrays,
}

impl Flood {
    /// Floods of requests of about the largest possible size, or behind much data.
    pub(crate) const HUGE: [Self; 30] = [
        Self::HugeCommits,
        Self::HugeOverwrites,
        Self::HugeFences,
        Self::HugeConnects,
        Self::HugeGroups,
        Self::HugeQueries,
        Self::HugeJobGets,
        Self::HugeNotifications,
        Self::HugeRanges,
        Self::HugePublishes,
        Self::HugeLookups,
        Self::HugeLogs,
        Self::HugeCodes,
        Self::HugePulls,
        Self::HugePushes,
        Self::HugeControls,
        Self::HugeSpawns,
        Self::HugeResolves,
        Self::HugeAborts,
        Self::HugeWholeGets,
        Self::HugeValueGets,
        Self::HugeChanges,
        Self::HugeValues,
        Self::HugeArrays,
        Self::HugeTexts,
        Self::HugeMissedEvents,
        Self::HugeEventArrays,
        Self::HeldGets,
        Self::QualifiedGets,
        Self::ComparedPulls,
    ];

    pub(crate) const ALL: [Self; 29] = [
        Self::Connects,
        Self::Introductions,
        Self::HalfIntroductions,
        Self::HalfFrames,
        Self::NewKeys,
        Self::ManyNewKeys,
        Self::SameKey,
        Self::EmptyCommits,
        Self::Fences,
        Self::MissingGets,
        Self::PresentGets,
        Self::WildcardGets,
        Self::OtherJobGets,
        Self::Registrations,
        Self::ManyCodes,
        Self::Notifications,
        Self::Publishes,
        Self::Lookups,
        Self::Queries,
        Self::Groups,
        Self::Invites,
        Self::Pulls,
        Self::Pushes,
        Self::Logs,
        Self::JobControls,
        Self::Spawns,
        Self::Monitors,
        Self::Resolves,
        Self::Aborts,
    ];

    /// The requests before the flood.
    fn preparation(self) -> Vec<Request> {
        let commit = |entries| Request::Commit(Commit { parts: vec![(Scope::Global, entries)] });
        let kval = |name: &str, value: Value| Kval { key: key(name), value };
        match self {
            Self::PresentGets => vec![commit(vec![kval("present", Value::from(1_u32))])],
            Self::HugeWholeGets => {
                let piece =
                    |first: u64| (first..first + 50_000).map(|index| kval(&format!("key-{index}"), index.into()));
                (0..4).map(|index| commit(piece(index * 50_000).collect())).collect()
            }
            Self::ComparedPulls => (0..1_000).map(|number| pull_of(number..number + 1)).collect(),
            Self::HugeValueGets => vec![commit(vec![kval("large", Value::ByteObject(vec![7; 15 << 20]))])],
            Self::QualifiedGets => {
                let value = |index| Value::info_array(vec![Info::new(key("qualified"), 1_u32), qualifier(index)]);
                let values = (0..50_000).map(|index| kval("pmix.qual.val", value(index)));
                vec![commit(values.collect())]
            }
            _ => Vec::new(),
        }
    }

    /// The request with this number; `None`: the flood has no requests.
    fn request(self, number: u64) -> Option<Request> {
        let own = ProcId::new(namespace(JOB), 0);
        let kval = |name: String| Kval { key: key(&name), value: Value::from(number) };
        let commit = |entries| Request::Commit(Commit { parts: vec![(Scope::Global, entries)] });
        let get = |proc: &ProcId, name: &str| {
            let (proc, key) = (proc.clone(), Some(key(name)));
            Request::Get(Get { proc, directives: Vec::new(), key })
        };
        let both = [0_u32, 1].map(|rank| ProcId::new(namespace(JOB), rank));
        let directives = Vec::new();
        let info = |name: &'static str| Info::new(Key::from_static(name), number);
        let group = |command: Option<u8>| Group {
            command: command.unwrap_or_default(),
            id: Some(Text::from(format!("group-{number}").as_str())),
            procs: both.to_vec(),
            directives: Vec::new(),
        };
        Some(match self {
            Self::Connects | Self::Introductions | Self::HalfIntroductions | Self::HalfFrames => return None,
            Self::NewKeys => commit(vec![kval(format!("key-{number}"))]),
            Self::ManyNewKeys => commit((0..50_000).map(|index| kval(format!("{number}-{index}"))).collect()),
            Self::SameKey => commit(vec![kval("key".to_owned())]),
            Self::EmptyCommits => Request::Commit(Commit { parts: Vec::new() }),
            Self::Fences => {
                let count = usize::try_from(number % 2 + 1).unwrap_or(1);
                let procs = both.into_iter().take(count).collect();
                let directives = vec![Info::new(key(&format!("directive-{number}")), number)];
                Request::Fence(Collective { procs, directives })
            }
            Self::MissingGets => get(&own, &format!("missing-{number}")),
            Self::PresentGets => get(&own, "present"),
            Self::WildcardGets => get(&ProcId { rank: Rank::Wildcard, ..own }, "pmix.job.size"),
            Self::OtherJobGets => {
                get(&ProcId { namespace: namespace(OTHER_JOB), rank: Rank::Wildcard }, "pmix.job.size")
            }
            Self::Registrations => {
                let code = Status::from_raw(-4000 - i32::try_from(number % 2000).unwrap_or_default());
                Request::RegisterEvents(RegisterEvents { codes: vec![code], directives })
            }
            Self::ManyCodes => {
                let codes = (0..4000).map(|code| Status::from_raw(-10_000 - code)).collect();
                Request::RegisterEvents(RegisterEvents { codes, directives })
            }
            Self::Notifications => {
                Request::Notify(Notify { status: Status::from_raw(-3333), range: range::RANGE_LOCAL, info: Vec::new() })
            }
            Self::Publishes => Request::from(Publish { uid: 0, info: vec![info("published")] }),
            Self::Lookups => Request::from(Lookup { uid: 0, keys: vec![Key::from_static("published")], directives }),
            Self::Queries => {
                let keys = ["pmix.qry.ns", "pmix.qry.ptable"].map(Text::from).to_vec();
                let qualifiers = vec![Info::new(Key::from_static("pmix.nspace"), JOB)];
                Request::from(QueryInfo::new(vec![Query { keys, qualifiers }]))
            }
            Self::Groups => Request::GroupConstruct(group(None)),
            Self::Invites => Request::GroupOther(group(Some(INVITE))),
            Self::Pulls => {
                let (procs, channels) = (vec![ProcId::new(namespace(JOB), 1)], 2);
                Request::IofPull(IofPull { procs, directives, channels, local_id: Some(number) })
            }
            Self::Pushes => Request::from(IofPush {
                targets: vec![ProcId::new(namespace(JOB), 1)],
                directives,
                bytes: vec![b'x'; 64],
            }),
            Self::Logs => Request::from(Log { timestamp: None, data: vec![info("pmix.log.stderr")], directives }),
            Self::JobControls => {
                Request::from(JobControl { targets: Vec::new(), directives: vec![info("pmix.jctrl.sig")] })
            }
            Self::Spawns => Request::from(Spawn { job: Vec::new(), apps: vec![app()] }),
            Self::Monitors => {
                Request::from(Monitor { monitor: info("pmix.monitor.beat"), error: Status::ERROR, directives })
            }
            Self::Resolves => Request::ResolvePeers(ResolvePeers {
                node: Some(Text::from("node0")),
                namespace: Some(Text::from(JOB)),
            }),
            Self::Aborts => {
                let procs = vec![ProcId::new(namespace(OTHER_JOB), 99)];
                Request::Abort(Abort { status: Status::ERROR, message: None, procs })
            }
            Self::HeldGets => {
                let (name, place) = (format!("later-{}", number / 1000), number % 1000);
                if place == 999 {
                    let value = Value::ByteObject(vec![7; 1 << 20]);
                    commit(vec![Kval { key: key(&name), value }])
                } else {
                    get(&own, &name)
                }
            }
            Self::ComparedPulls => pull_of(936..1_000),
            Self::QualifiedGets => {
                let directives = vec![qualifier(1_000_000 + number)];
                Request::Get(Get { proc: own, directives, key: Some(key("qualified")) })
            }
            _ => return Some(self.huge_request(number)),
        })
    }

    fn huge_request(self, number: u64) -> Request {
        let commit = |names: &dyn Fn(u64) -> String, count: u64| {
            let kval = |index| Kval { key: key(&names(index)), value: Value::from(number) };
            Request::Commit(Commit { parts: vec![(Scope::Global, (0..count).map(kval).collect())] })
        };
        let directives = Vec::new();
        let own = ProcId::new(namespace(JOB), 0);
        let large = namespace(LARGE_JOB);
        let elsewhere = || (0..LARGE_JOB_SIZE).map(|rank| ProcId::new(large.clone(), rank));
        // In another order each time, so that the server can't reuse earlier results.
        let procs = || -> Vec<ProcId> {
            let turned = usize::try_from(number % u64::from(LARGE_JOB_SIZE)).unwrap_or_default();
            let mut procs: Vec<ProcId> = std::iter::once(own.clone()).chain(elsewhere()).collect();
            procs.rotate_left(turned);
            procs
        };
        let infos = |count: u64| -> Vec<Info> {
            (0..count).map(|index| Info::new(key(&format!("{number}-{index}")), index)).collect()
        };
        let group = Group {
            command: 0,
            id: Some(Text::from(format!("group-{number}").as_str())),
            procs: Vec::new(),
            directives: Vec::new(),
        };
        match self {
            Self::HugeCommits => commit(&|index| format!("{number}-{index}"), 1_000_000),
            Self::HugeOverwrites => commit(&|index| format!("same-{index}"), 100_000),
            Self::HugeFences => Request::Fence(Collective { procs: procs(), directives }),
            Self::HugeConnects => Request::Connect(Collective { procs: procs(), directives }),
            Self::HugeGroups => Request::GroupConstruct(Group { procs: procs(), ..group }),
            Self::HugeQueries => Request::from(QueryInfo::new(
                (0..8_u32)
                    .map(|rank| {
                        let qualifiers = vec![
                            Info::new(Key::from_static("pmix.nspace"), LARGE_JOB),
                            Info::new(Key::from_static("pmix.rank"), rank),
                        ];
                        Query { keys: vec![Text::from("pmix.qry.ptable")], qualifiers }
                    })
                    .collect(),
            )),
            Self::HugeJobGets => {
                Request::Get(Get { proc: ProcId { rank: Rank::Wildcard, namespace: large }, directives, key: None })
            }
            Self::HugeNotifications => {
                let info = vec![Info::new(key("payload"), Value::from("x".repeat(8 << 20)))];
                Request::Notify(Notify { status: Status::from_raw(-3333), range: range::RANGE_LOCAL, info })
            }
            Self::HugeTexts => {
                let elements = (0..32_000).map(|index| Value::from(format!("{number}-{index:0400}"))).collect();
                let value = Value::DataArray(Box::new(DataArray { element_type: DataType::String, elements }));
                Request::Commit(Commit { parts: vec![(Scope::Global, vec![Kval { key: key("texts"), value }])] })
            }
            Self::HugeEventArrays => {
                let info = vec![Info::new(key("payload"), numbers(2_000_000, number))];
                Request::Notify(Notify { status: Status::from_raw(-3333), range: range::RANGE_LOCAL, info })
            }
            Self::HugeRanges => {
                let targets = Value::DataArray(Box::new(DataArray {
                    element_type: DataType::Proc,
                    elements: elsewhere().map(Value::from).collect(),
                }));
                let info = vec![Info::new(Key::from_static("pmix.evrange"), targets)];
                Request::Notify(Notify { status: Status::from_raw(-3333), range: range::RANGE_CUSTOM, info })
            }
            Self::HugePublishes => Request::from(Publish { uid: 0, info: infos(1_000_000) }),
            Self::HugeLookups => {
                let keys =
                    (0..1_000_000).map(|index| Key::new(format!("{number}-{index}")).expect("a valid key")).collect();
                Request::from(Lookup { uid: 0, keys, directives })
            }
            Self::HugeLogs => Request::from(Log { timestamp: None, data: infos(1_000_000), directives }),
            Self::HugeCodes => {
                let codes = (0..2_000_000).map(|code| Status::from_raw(-10_000 - code)).collect();
                Request::RegisterEvents(RegisterEvents { codes, directives })
            }
            Self::HugePulls => {
                Request::IofPull(IofPull { procs: procs(), directives, channels: 2, local_id: Some(number) })
            }
            Self::HugePushes => Request::from(IofPush { targets: procs(), directives, bytes: vec![b'x'; 8 << 20] }),
            Self::HugeControls => Request::from(JobControl {
                targets: procs(),
                directives: vec![Info::new(Key::from_static("pmix.jctrl.sig"), number)],
            }),
            Self::HugeSpawns => Request::from(Spawn { job: infos(1_000_000), apps: vec![app()] }),
            Self::HugeWholeGets => Request::Get(Get { proc: own, directives, key: None }),
            Self::HugeValueGets => Request::Get(Get { proc: own, directives, key: Some(key("large")) }),
            Self::HugeValues => {
                let value = Value::ByteObject(vec![u8::try_from(number % 256).unwrap_or_default(); 15 << 20]);
                Request::Commit(Commit { parts: vec![(Scope::Global, vec![Kval { key: key("large"), value }])] })
            }
            Self::HugeArrays => {
                let kval = |index| Kval { key: key(&format!("array-{index}")), value: numbers(30_000, number) };
                Request::Commit(Commit { parts: vec![(Scope::Global, (0..60).map(kval).collect())] })
            }
            Self::HugeChanges if number.is_multiple_of(2) => commit(&|index| format!("same-{index}"), 100_000),
            Self::HugeChanges => {
                let directives = vec![Info::new(Key::from_static("pmix.collect"), true)];
                Request::Fence(Collective { procs: vec![own, ProcId::new(large, 0)], directives })
            }
            Self::HugeResolves => {
                Request::ResolvePeers(ResolvePeers { node: None, namespace: Some(Text::from(LARGE_JOB)) })
            }
            _ => Request::Abort(Abort { status: Status::ERROR, message: None, procs: elsewhere().collect() }),
        }
    }
}

const INVITE: u8 = 26;

fn qualifier(number: u64) -> Info {
    Info { flags: InfoFlags::QUALIFIER.bits(), ..Info::new(key("qualifier"), number) }
}

/// A pull of some ranks of the large job.
fn pull_of(ranks: std::ops::Range<u32>) -> Request {
    let procs = ranks.map(|rank| ProcId::new(namespace(LARGE_JOB), rank)).collect();
    Request::IofPull(IofPull { procs, directives: Vec::new(), channels: 14, local_id: None })
}

fn app() -> App {
    App {
        command: Some(Text::from("true")),
        argv: Vec::new(),
        environment: Vec::new(),
        working_directory: None,
        processes_max: 1,
        info: Vec::new(),
    }
}

fn namespace(name: &str) -> Namespace {
    Namespace::new(name).unwrap_or_else(|error| panic!("{error}"))
}

fn key(name: &str) -> Key {
    Key::new(name.to_owned()).unwrap_or_else(|error| panic!("{error}"))
}

/// The address of a server's socket, from the environment of its clients.
pub(crate) fn socket_path(variables: impl IntoIterator<Item = (String, String)>) -> Option<PathBuf> {
    let uri = variables.into_iter().find(|(name, _)| name == "MODEX_SERVER_URI")?.1;
    match uri.parse::<ServerAddress>().ok()?.endpoint {
        Endpoint::Unix(path) => Some(path),
        Endpoint::Tcp(_) => None,
    }
}

/// Floods until `count` requests or connections are made, or until `stop`; returns their number.
pub(crate) fn flood(path: &Path, flood: Flood, count: u64, stop: &AtomicBool) -> Result<u64> {
    let is_on = |made: u64| made < count && !stop.load(Ordering::Relaxed);
    match flood {
        Flood::Connects | Flood::Introductions | Flood::HalfIntroductions | Flood::HalfFrames => {
            let mut made = 0;
            let mut open = Vec::new();
            while is_on(made) {
                let mut stream = if flood == Flood::HalfFrames { admitted(path)? } else { UnixStream::connect(path)? };
                // The connection is admitted, does nothing, and is closed some connections later.
                if flood == Flood::Introductions {
                    stream.write_all(&introduction()?)?;
                }
                let mut half = match flood {
                    Flood::HalfIntroductions => introduction()?,
                    Flood::HalfFrames => frame::encode(0, Tag(101), &[0; 60_000]).map_err(Error::other)?,
                    _ => Vec::new(),
                };
                half.truncate(half.len() / 2);
                stream.write_all(&half)?;
                open.push(stream);
                if open.len() > OPEN_MAX {
                    open.clear();
                }
                made += 1;
            }
            Ok(made)
        }
        Flood::HugeMissedEvents => missed_events(path, is_on),
        _ => requests(path, flood, is_on, stop),
    }
}

/// Raises large events, and then opens connections that register for them.
fn missed_events(path: &Path, is_on: impl Fn(u64) -> bool) -> Result<u64> {
    let code = Status::from_raw(-3334);
    let mut raiser = admitted(path)?;
    for number in 1..=15 {
        let info = vec![Info::new(key("payload"), Value::ByteObject(vec![7; 1 << 20]))];
        let event = Notify { status: code, range: range::RANGE_LOCAL, info };
        raiser.write_all(&message(number, &Request::Notify(event))?)?;
    }
    let registration = Request::RegisterEvents(RegisterEvents { codes: vec![code], directives: Vec::new() });
    let (mut made, mut open) = (0, Vec::new());
    while is_on(made) {
        match admitted(path) {
            Ok(mut stream) => {
                stream.write_all(&message(1, &registration)?)?;
                open.push(stream);
                made += 1;
            }
            // The server has not seen all ends yet, and a process has a limit of connections.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof && made > 0 => open.clear(),
            Err(error) => return Err(error),
        }
        if open.len() > OPEN_MAX {
            open.clear();
        }
    }
    Ok(made)
}

/// Open connections of a flood.
const OPEN_MAX: usize = 64;

/// Sends requests in batches as fast as the server takes them, and reads the replies.
fn requests(path: &Path, flood: Flood, is_on: impl Fn(u64) -> bool, stop: &AtomicBool) -> Result<u64> {
    let mut stream = admitted(path)?;
    for (number, request) in (900_000_000..).zip(flood.preparation()) {
        stream.write_all(&message(number, &request)?)?;
    }
    let mut answers = stream.try_clone()?;
    let answered = AtomicU64::new(0);
    let (writer, is_over) = (&stream, &AtomicBool::new(false));
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut buffer = vec![0; 64 << 10];
            while let Ok(bytes) = answers.read(&mut buffer) {
                if bytes == 0 {
                    break;
                }
                answered.fetch_add(1, Ordering::Relaxed);
            }
        });
        // The server may take nothing for long, and a write waits for it. So another thread ends the flood.
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) && !is_over.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(10));
            }
            let _ = writer.shutdown(Shutdown::Both);
        });
        let mut made = 0;
        let mut batch = Vec::new();
        let result = loop {
            if !is_on(made) {
                break Ok(made);
            }
            batch.clear();
            while batch.len() < BATCH_BYTES {
                match flood.request(made) {
                    Some(request) => batch.extend(message(made + 1, &request)?),
                    None => break,
                }
                made += 1;
                if Flood::HUGE.contains(&flood) {
                    break;
                }
            }
            // If the server closes the connection for its requests, the flood ends.
            if { writer }.write_all(&batch).is_err() {
                break Ok(made);
            }
        };
        is_over.store(true, Ordering::Relaxed);
        let _ = writer.shutdown(Shutdown::Both);
        drop(reader.join());
        result
    })
}

/// Sends these requests, each with its number, and closes the connection without reading a reply.
pub(crate) fn send_and_leave(path: &Path, requests: &[(Flood, u64)]) -> Result<()> {
    let mut stream = admitted(path)?;
    let requests = requests.iter().filter_map(|&(flood, number)| Some(message(number, &flood.request(number)?)));
    let batch: Vec<Vec<u8>> = requests.collect::<Result<_>>()?;
    stream.write_all(&batch.concat())
}

/// Bytes of requests in a batch.
const BATCH_BYTES: usize = 32 << 10;

fn message(number: u64, request: &Request) -> Result<Vec<u8>> {
    let payload = request::encode(request, Dialect::OWN).map_err(Error::other)?;
    let tag = Tag(101 + u32::try_from(number % 1_000_000_000).unwrap_or_default());
    frame::encode(0, tag, &payload).map_err(Error::other)
}

fn introduction() -> Result<Vec<u8>> {
    let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
    let connect = Introduction {
        security: Text::from(SECURITY_NATIVE),
        credential: native_credential(Ids { uid, gid }),
        role: Role::Client(ProcId::new(namespace(JOB), 0)),
        version: Text::from("5.0.0"),
        codec: Text::from("v41"),
        described: false,
        store: Text::from(STORE_HASH),
        info: Vec::new(),
    };
    connect.encode().map_err(Error::other)
}

/// An admitted connection of rank 0.
fn admitted(path: &Path) -> Result<UnixStream> {
    let mut stream = UnixStream::connect(path)?;
    stream.write_all(&introduction()?)?;
    let mut answer = [0; FrameHeader::SIZE_BYTES / 2];
    stream.read_exact(&mut answer)?;
    Ok(stream)
}
