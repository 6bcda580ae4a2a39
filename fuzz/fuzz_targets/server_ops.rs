//! The server core as a state machine: any calls of clients and host, in any order. Every request gets at most one
//! reply, every call of the host is completed, and at the end no state is left.
//!
//! Input: capabilities, bounds, then records of four bytes, each one operation: its kind, and three choices.

#![no_main]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use modex::events::Event;
use modex::gds::model::MapStore;
use modex::gds::{Datastore, Store, StoreLimits, StoreOptions};
use modex::proto::{self, Abort, Collective, Commit, Get, Notify, QueryInfo, Reply, Request, Tag, Version};
use modex::server::{
    Answer, Capabilities, Contribution, Credentials, DirectModexRequest, FenceUpcall, Hello, HostCall, HostCallId,
    HostReply, HostResult, Input, Limits, Output, PeerId, RegisterClient, RegisterEvents, RegisterNamespace,
    ServerConfig, ServerCore, StoreOffer, ToolAdmission, ToolHello, ToolKind, ToolPolicy, Upcall, UpcallId,
};
use modex::shmem::BackingKind;
use modex::types::{Info, Key, Kval, Namespace, ProcId, Rank, Scope, Status, Text, Time, Value};

fuzz_target!(|input: &[u8]| {
    let [capabilities, bounds, operations @ ..] = input else { return };
    let config = config(*capabilities, *bounds);
    match bounds >> 6 {
        0 => run(config, Store::new(segments()), operations),
        1 => run(config, MapStore::with_values_max(4), operations),
        _ => run(config, MapStore::new(), operations),
    }
});

/// The server's own contribution to a fence.
fn blocks_of(fence: &FenceUpcall<Contribution>) -> Vec<(ProcId, Vec<Kval>)> {
    fence.clone().read().expect("the server's own segment is undamaged").data.blocks
}

fn run<S: Datastore>(config: ServerConfig, store: S, operations: &[u8]) {
    let mut world = World::new(ServerCore::new(config, store));
    for &[what, a, b, c] in operations.as_chunks::<4>().0 {
        world.operate(what, [a, b, c]);
    }
    world.end();
}

fn config(capabilities: u8, bounds: u8) -> ServerConfig {
    let bound = |shift: u8, narrow: usize| if bounds >> shift & 1 == 0 { 1000 } else { narrow };
    ServerConfig {
        // The capabilities for events lie at bit 20.
        capabilities: Capabilities::from_bits_truncate(u32::from(capabilities) | u32::from(bounds & 7) << 20)
            | if bounds & 8 == 0 { Capabilities::TOOL_CONNECTED } else { Capabilities::empty() },
        tools: ToolPolicy {
            admission: [ToolAdmission::Assigned, ToolAdmission::Named][usize::from(bounds >> 4 & 1)],
            any_user: bounds & 32 == 0,
            own_uid: OWNER.uid,
            name_prefix: "tool-".to_owned(),
        },
        limits: Limits {
            peers_max: bound(0, 3),
            requests_per_peer_max: bound(1, 2),
            collectives_max: bound(2, 2),
            participants_max: bound(3, 2),
            direct_modex_max: bound(4, 1),
            host_requests_max: bound(5, 1),
            ..Limits::default()
        },
        host_timeout: (capabilities & 0x80 != 0).then_some(Duration::from_secs(20)),
        ..ServerConfig::default()
    }
}

fn segments() -> StoreOptions {
    StoreOptions {
        backing: BackingKind::Heap,
        span_bytes: 256 << 10,
        limits: StoreLimits { keys_max: 64, ranks_max: 64, ..StoreLimits::default() },
        ..StoreOptions::new("server.0", "n0")
    }
}

const RANKS: u32 = 6;
const KEYS: [&str; 5] = ["a", "b", "pmix.job.size", "pmix.rank", "pmix.unknown"];
const OWNER: Credentials = Credentials { uid: 1000, gid: 100 };

struct World<S: Datastore> {
    server: ServerCore<S>,
    now: Time,
    /// Open connections.
    peers: Vec<PeerId>,
    open_requests: BTreeSet<(PeerId, Tag)>,
    open_calls: BTreeSet<HostCallId>,
    /// All upcalls, answered or not: the host may answer twice.
    upcalls: BTreeMap<UpcallId, Upcall>,
    last_id: u32,
}

impl<S: Datastore> World<S> {
    fn new(server: ServerCore<S>) -> Self {
        Self {
            server,
            now: Time::ZERO,
            peers: Vec::new(),
            open_requests: BTreeSet::new(),
            open_calls: BTreeSet::new(),
            upcalls: BTreeMap::new(),
            last_id: 0,
        }
    }

    fn next_id(&mut self) -> u32 {
        self.last_id += 1;
        self.last_id
    }

    fn operate(&mut self, what: u8, [a, b, c]: [u8; 3]) {
        match what % 16 {
            0 => self.host(HostCall::RegisterNamespace(registration(a, b))),
            1 if c > 128 => self.host(HostCall::DeregisterNamespace(namespace(a))),
            1 if c > 64 => self.host(HostCall::DeregisterClient(proc(a))),
            1 | 2 => self.host(HostCall::RegisterClient(RegisterClient {
                proc: proc(a),
                uid: OWNER.uid,
                gid: OWNER.gid,
                object: b.into(),
            })),
            3 if c & 0x30 == 0x30 => self.connect_tool(proc(a), b, c),
            3 => self.connect(proc(a), b, c),
            4 if b > 128 => self.lose(a),
            4 => self.request(a, Request::Finalize),
            5 | 6 => self.request(a, commit(b, c)),
            7 | 8 => self.request(a, Request::Fence(Collective { procs: participants(b), directives: directives(c) })),
            9 | 10 => {
                let key = (c & 1 == 0).then(|| key(c >> 1));
                self.request(a, Request::Get(Get { proc: proc(b), directives: directives(c), key }));
            }
            11 if c > 240 => self.host(HostCall::NotifyEvent(event(b))),
            11 if c > 224 => {
                self.host(HostCall::RegisterEvents(RegisterEvents { codes: codes(b), directives: Vec::new() }))
            }
            11 if c > 216 => self.host(HostCall::DeregisterEvents(codes(b))),
            11 if c > 128 => self.request(a, event_request(b)),
            11 => self.request(a, other_request(b)),
            12 => {
                let (key, timeout) =
                    ((b & 1 == 0).then(|| key(b)), (c & 1 == 0).then(|| Duration::from_secs(c.into())));
                self.host(HostCall::DirectModexRequest(DirectModexRequest { proc: proc(a), key, timeout }));
            }
            13 | 14 => self.answer(a, b, c),
            _ => self.wait(Duration::from_secs(u64::from(a % 32))),
        }
    }

    fn input(&mut self, input: Input) {
        self.server.handle(self.now, input);
        self.server.assert_consistent();
        while let Some(output) = self.server.poll_output() {
            self.output(output);
        }
        assert_eq!(self.open_calls.len(), self.server.open_call_count());
        assert_eq!(self.open_requests.len(), self.server.open_request_count());
    }

    fn output(&mut self, output: Output) {
        match output {
            Output::Unfinished(peer) => self.server.handle(self.now, Input::Proceed(peer)),
            Output::Answer(peer, tag, answer) => {
                assert!(self.open_requests.remove(&(peer, tag)), "{tag:?} of {peer:?} was answered once too often");
                if let Answer::Reply(Reply::Partial { results, .. }) = &answer {
                    assert!(!matches!(**results, Reply::Partial { .. }));
                }
            }
            Output::Complete(call, HostResult::Status(_) | HostResult::Entries(_) | HostResult::Failed { .. }) => {
                assert!(self.open_calls.remove(&call), "{call:?} was completed once too often");
            }
            Output::Refuse(peer, _) | Output::Close(peer, _) => self.forget(peer),
            Output::Upcall(id, upcall) => {
                assert!(self.upcalls.insert(id, upcall).is_none(), "{id:?} was used before");
            }
            Output::AdmitTool(peer, ..)
            | Output::Admit(peer, _)
            | Output::SendSegment(peer, _)
            | Output::Notify(peer, _) => {
                assert!(self.peers.contains(&peer), "{peer:?} has ended");
            }
            _ => {}
        }
    }

    fn host(&mut self, call: HostCall) {
        let id = HostCallId(self.next_id().into());
        self.open_calls.insert(id);
        self.input(Input::Host(id, call));
    }

    fn connect(&mut self, proc: ProcId, b: u8, c: u8) {
        let known = self.peers.get(usize::from(b >> 1)).copied().filter(|_| c > 240);
        let peer = known.unwrap_or_else(|| PeerId(self.next_id().into()));
        let credentials = if c % 16 == 7 { Credentials { uid: 0, gid: 0 } } else { OWNER };
        let store = if b & 1 == 0 { StoreOffer::Segment } else { StoreOffer::Socket };
        let version = Version::new(3 + u32::from(c % 4), 1, 0);
        if known.is_none() {
            self.peers.push(peer);
        }
        // Existing connections that hold this name are strangers or not, by a bit of the input.
        let strangers = if c & 16 == 0 { BTreeSet::new() } else { self.peers.iter().copied().collect() };
        self.input(Input::Connected(peer, Hello { proc, credentials, store, version, strangers }));
    }

    fn connect_tool(&mut self, proc: ProcId, b: u8, c: u8) {
        let known = self.peers.get(usize::from(b >> 1)).copied().filter(|_| c > 240);
        let peer = known.unwrap_or_else(|| PeerId(self.next_id().into()));
        if known.is_none() {
            self.peers.push(peer);
        }
        let kinds = [ToolKind::Tool, ToolKind::Launcher, ToolKind::Singleton, ToolKind::Scheduler];
        let name = if b & 4 == 0 { proc } else { ProcId::new(Namespace::new("tool-1").unwrap(), u32::from(b >> 6)) };
        let hello = ToolHello {
            kind: kinds[usize::from(c % 4)],
            claimed: (b & 1 == 0).then_some(name),
            is_started: b & 2 == 0,
            credentials: if c & 8 == 0 { OWNER } else { Credentials { uid: 0, gid: 0 } },
            claimed_gid: OWNER.gid,
            reads_entries: c & 4 == 0,
            version: Version::new(3 + u32::from(c % 4), 1, 0),
            version_text: "5.0.0".to_owned(),
            info: Vec::new(),
            strangers: BTreeSet::new(),
        };
        self.input(Input::ToolConnected(peer, hello));
    }

    fn lose(&mut self, choice: u8) {
        let Some(peer) = self.peer(choice) else { return };
        self.forget(peer);
        self.input(Input::Lost(peer));
    }

    fn forget(&mut self, peer: PeerId) {
        self.peers.retain(|other| *other != peer);
        self.open_requests.retain(|(of, _)| *of != peer);
    }

    fn request(&mut self, choice: u8, request: Request) {
        let Some(peer) = self.peer(choice) else { return };
        let tag = Tag(self.next_id());
        if !matches!(request, Request::DeregisterEvents(_)) {
            self.open_requests.insert((peer, tag));
        }
        self.input(Input::Request(peer, tag, request));
    }

    fn peer(&self, choice: u8) -> Option<PeerId> {
        self.peers.get(usize::from(choice) % self.peers.len().max(1)).copied()
    }

    /// The host answers a recent upcall, correctly or not. Usually this upcall is still open.
    fn answer(&mut self, a: u8, b: u8, c: u8) {
        let is_open = |id: &UpcallId| self.server.awaits(*id) || b > 240;
        let candidates: Vec<UpcallId> = self.upcalls.keys().copied().filter(is_open).collect();
        let Some(&id) = candidates.get(usize::from(a) % candidates.len().max(1)) else { return };
        let values = |value: u8| vec![Kval { key: key(value), value: Value::from(u32::from(value)) }];
        let reply = match (b % 8, self.upcalls.get(&id)) {
            (0, _) => HostReply::Status(Status::ERR_UNREACH),
            (1, _) => HostReply::DirectModex(values(c)),
            (2, Some(Upcall::Fence(fence))) => HostReply::Fence {
                status: if c > 200 { Status::ERR_PARTIAL_SUCCESS } else { Status::SUCCESS },
                blocks: blocks_of(fence).into_iter().chain([(proc(c), values(b))]).collect(),
            },
            (3, _) => HostReply::Fence { status: Status::SUCCESS, blocks: vec![(proc(c), values(b))] },
            (4, Some(Upcall::DirectModex { .. })) => HostReply::DirectModex(values(c)),
            (5, _) => HostReply::Status(Status::from_raw(c.cast_signed().into())),
            _ => HostReply::Status(Status::SUCCESS),
        };
        self.input(Input::Completed(id, reply));
    }

    fn wait(&mut self, duration: Duration) {
        self.now = self.now + duration;
        self.input(Input::Timeout);
        assert!(
            self.server.poll_timeout().is_none_or(|deadline| deadline > self.now),
            "a deadline has passed unnoticed"
        );
    }

    /// All connections end. The host deregisters every job; it registers each one first, for upcalls about unknown
    /// jobs.
    fn end(&mut self) {
        while !self.peers.is_empty() {
            self.lose(0);
        }
        for choice in [0, 1] {
            self.host(HostCall::RegisterNamespace(registration(choice, 0)));
            self.host(HostCall::DeregisterNamespace(namespace(choice)));
        }
        let upcalls: Vec<UpcallId> = self.upcalls.keys().copied().collect();
        for id in upcalls {
            self.input(Input::Completed(id, HostReply::Status(Status::SUCCESS)));
        }
        self.wait(Duration::from_secs(100_000));
        assert!(self.open_requests.is_empty() && self.open_calls.is_empty());
        let server = &self.server;
        let counts = (server.open_request_count(), server.open_call_count(), server.collective_count());
        assert_eq!(counts, (0, 0, 0));
        assert_eq!((server.peer_count(), server.upcall_count(), server.poll_timeout()), (0, 0, None));
        assert_eq!(server.namespaces().count(), 0);
    }
}

fn namespace(choice: u8) -> Namespace {
    let name = if choice & 1 == 0 { "job" } else { "other" };
    Namespace::new(name).expect("a valid name")
}

fn proc(choice: u8) -> ProcId {
    let rank = match choice >> 1 {
        small @ 0..120 => Rank::from(u32::from(small) % (RANKS + 1)),
        120..124 => Rank::Wildcard,
        _ => Rank::Undefined,
    };
    ProcId::new(namespace(choice), rank)
}

fn key(choice: u8) -> Key {
    Key::from_static(KEYS[usize::from(choice) % KEYS.len()])
}

fn registration(a: u8, b: u8) -> RegisterNamespace {
    let job_size = Info::new(Key::from_static("pmix.job.size"), RANKS);
    RegisterNamespace {
        namespace: namespace(a),
        local_count: (b & 1 == 0).then(|| u32::from(b >> 1) % 4),
        description: if b & 0x40 == 0 { vec![job_size] } else { Vec::new() }.into(),
        nodata: b & 0x80 != 0,
    }
}

fn commit(b: u8, c: u8) -> Request {
    let scope = [Scope::Local, Scope::Remote, Scope::Global][usize::from(b) % 3];
    let entry = |choice: u8| Kval { key: key(choice), value: Value::from(u32::from(c)) };
    let parts = vec![(scope, vec![entry(b >> 2), entry(b >> 5)]), (Scope::Global, vec![entry(c)])];
    Request::Commit(Commit { parts: parts.into_iter().take(usize::from(c) % 3).collect() })
}

/// One bit for each of six processes of one job, and one for all processes of the other. No bits: all processes of one
/// job.
fn participants(choice: u8) -> Vec<ProcId> {
    let own = choice >> 7;
    let ranks = (0..RANKS).filter(|rank| choice >> rank & 1 != 0);
    let mut procs: Vec<ProcId> = ranks.map(|rank| ProcId::new(namespace(own), rank)).collect();
    if procs.is_empty() {
        procs.push(ProcId::new(namespace(own), Rank::Wildcard));
    }
    if choice & 0x40 != 0 {
        procs.push(ProcId::new(namespace(own ^ 1), Rank::Wildcard));
    }
    procs
}

fn directives(choice: u8) -> Vec<Info> {
    let flag = |name| Info::new(Key::from_static(name), true);
    let timeout = Info::new(Key::from_static("pmix.timeout"), Value::Int(i32::from(choice >> 5)));
    let all = [
        (2, flag("pmix.collect")),
        (4, flag("pmix.immediate")),
        (8, flag("pmix.get.refresh")),
        (16, flag("pmix.job.info")),
        (32, timeout),
    ];
    all.into_iter().filter(|(bit, _)| choice & bit != 0).map(|(_, info)| info).collect()
}

const CODES: [Status; 4] =
    [Status::ERR_PROC_ABORTED, Status::EVENT_NODE_DOWN, Status::EVENT_SYS_OTHER, Status::EVENT_JOB_END];

/// One bit for each code; no bits: default handlers.
fn codes(choice: u8) -> Vec<Status> {
    CODES.into_iter().enumerate().filter(|(bit, _)| choice >> bit & 1 != 0).map(|(_, code)| code).collect()
}

fn event(choice: u8) -> Event {
    let flag = |name| Info::new(Key::from_static(name), true);
    let target = Info::new(Key::from_static("pmix.evrange"), Value::from(proc(choice)));
    let info = [(4, flag("pmix.evnondef")), (8, flag("pmix.evnocache")), (16, target)];
    Event {
        status: CODES[usize::from(choice) % CODES.len()],
        source: (choice & 0x80 != 0).then(|| proc(choice)),
        range: choice >> 4,
        info: info.into_iter().filter(|(bit, _)| choice & bit != 0).map(|(_, info)| info).collect(),
    }
}

fn event_request(choice: u8) -> Request {
    let Event { status, range, info, .. } = event(choice.rotate_left(2));
    match choice % 4 {
        0 => Request::RegisterEvents(proto::RegisterEvents { codes: codes(choice >> 2), directives: Vec::new() }),
        1 => Request::DeregisterEvents(codes(choice >> 2)),
        _ => Request::Notify(Notify { status, range, info }),
    }
}

fn other_request(choice: u8) -> Request {
    match choice % 6 {
        0 => Request::JobInfo,
        1 => Request::StoreFallback(None),
        2 => {
            Request::Abort(Abort { status: Status::ERROR, message: Some(Text::from("end")), procs: vec![proc(choice)] })
        }
        3 => Request::DeregisterEvents(Vec::new()),
        4 => Request::RefreshCache(proc(choice)),
        _ => Request::from(QueryInfo::new(Vec::new())),
    }
}
