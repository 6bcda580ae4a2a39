//! Several servers, their clients and one host in one process. Random choices decide who does what next and in which
//! order the host gets things done; whatever they are, every request is answered exactly once and a fence that
//! succeeds has brought the data of every server.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use proptest::prelude::*;

use super::harness::{OWNER, SOCKET, commit, everybody, fence, flag, get, key, namespace, proc, timeout};
use crate::gds::model::MapStore;
use crate::gds::{KeyRef, Lookup, Publish, RealmRequest};
use crate::proto::{Reply, Request, Tag};
use crate::server::{
    CallId, Capabilities, Config, DirectModexRequest, FenceUpcall, Hello, HostCall, HostReply, HostResult, Input,
    Output, PeerId, RegisterClient, RegisterNamespace, Server, Upcall, UpcallId, Version,
};
use crate::types::{Info, Kval, ProcId, Scope, Status, Time};

const SERVERS: usize = 3;
const RANKS_PER_SERVER: u32 = 2;
const RANKS: u32 = 6;
const KEY: &str = "value";

/// Server, connection and tag: one request.
type RequestId = (usize, PeerId, Tag);

/// What the host has yet to do.
#[derive(Debug)]
enum Errand {
    Answer(usize, UpcallId, HostReply),
    /// Carry a direct-modex request to the server that owns the process.
    Forward(usize, UpcallId, ProcId, Option<crate::types::Key>),
}

/// One global fence on its way: what each server has contributed so far.
#[derive(Debug, Default)]
struct GlobalFence {
    arrived: BTreeMap<usize, (UpcallId, FenceUpcall)>,
    /// For each rank what it had committed when its server went to the host.
    model: BTreeMap<u32, u32>,
}

/// What a fence at the host must have brought when it ends. Fences of one signature end in order.
#[derive(Debug)]
struct Promise {
    id: UpcallId,
    model: BTreeMap<u32, u32>,
    is_answered: bool,
}

struct World {
    servers: Vec<Server<MapStore>>,
    now: Time,
    /// Open connections of each rank.
    connections: BTreeMap<u32, Vec<PeerId>>,
    registered: BTreeSet<u32>,
    /// What each rank has committed last; later values are greater.
    committed: BTreeMap<u32, u32>,
    open_requests: BTreeSet<RequestId>,
    open_calls: BTreeMap<(usize, CallId), Option<(usize, UpcallId)>>,
    commits_under_way: BTreeMap<RequestId, (u32, u32)>,
    /// For each server and each way to write participants the fences at the host, oldest first, with what they must
    /// bring once it is known.
    fences_under_way: BTreeMap<(usize, Vec<ProcId>), VecDeque<Promise>>,
    /// Global fences by how the participants are written; each server takes them in order.
    fences: BTreeMap<Vec<ProcId>, Vec<GlobalFence>>,
    fences_joined: BTreeMap<(usize, Vec<ProcId>), usize>,
    errands: Vec<Errand>,
    last_id: u64,
    /// Everything that happened, to compare two runs.
    log: Vec<String>,
    fences_checked: usize,
}

impl World {
    fn new() -> Self {
        let config = Config {
            capabilities: Capabilities::all() - Capabilities::ABORT,
            host_timeout: Some(Duration::from_secs(1000)),
            ..Config::default()
        };
        let mut world = Self {
            servers: (0..SERVERS).map(|_| Server::new(config.clone(), MapStore::new())).collect(),
            now: Time::ZERO,
            connections: BTreeMap::new(),
            registered: BTreeSet::new(),
            committed: BTreeMap::new(),
            open_requests: BTreeSet::new(),
            open_calls: BTreeMap::new(),
            commits_under_way: BTreeMap::new(),
            fences_under_way: BTreeMap::new(),
            fences: BTreeMap::new(),
            fences_joined: BTreeMap::new(),
            errands: Vec::new(),
            last_id: 1000,
            log: Vec::new(),
            fences_checked: 0,
        };
        for server in 0..SERVERS {
            world.call(
                server,
                None,
                HostCall::RegisterNamespace(RegisterNamespace {
                    namespace: namespace("job"),
                    local_count: Some(RANKS_PER_SERVER),
                    description: vec![Info::new(super::harness::JOB_SIZE, RANKS)].into(),
                    nodata: false,
                }),
            );
        }
        world
    }

    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    fn input(&mut self, server: usize, input: Input) {
        self.log.push(format!("{server} < {input:?}"));
        self.servers[server].handle(self.now, input);
        self.servers[server].assert_consistent();
        while let Some(output) = self.servers[server].poll_output() {
            self.log.push(format!("{server} > {output:?}"));
            self.output(server, output);
        }
    }

    fn call(&mut self, server: usize, for_whom: Option<(usize, UpcallId)>, call: HostCall) {
        let id = CallId(self.next_id());
        self.open_calls.insert((server, id), for_whom);
        self.input(server, Input::Host(id, call));
    }

    fn request(&mut self, rank: u32, request: Request) {
        let server = server_of(rank);
        let Some(&peer) = self.connections.get(&rank).and_then(|peers| peers.last()) else { return };
        let tag = Tag(u32::try_from(self.next_id()).unwrap());
        self.open_requests.insert((server, peer, tag));
        if let Request::Commit(_) = &request {
            let value = self.committed.get(&rank).copied().unwrap_or(0) + 1;
            self.commits_under_way.insert((server, peer, tag), (rank, value));
        }
        self.input(server, Input::Request(peer, tag, request));
    }

    fn output(&mut self, server: usize, output: Output) {
        match output {
            Output::Reply(peer, tag, reply) => {
                assert!(self.open_requests.remove(&(server, peer, tag)), "{tag:?} answered twice or after its end");
                if let (Some((rank, value)), Reply::Status(Status::SUCCESS)) =
                    (self.commits_under_way.remove(&(server, peer, tag)), &reply)
                {
                    self.committed.insert(rank, value);
                }
            }
            Output::ReplyJobInfo(peer, tag, _) | Output::ReplyTopology(peer, tag, _) => {
                assert!(self.open_requests.remove(&(server, peer, tag)), "{tag:?} answered twice or after its end");
            }
            Output::Close(peer, _) => self.forget(server, peer),
            Output::Refuse(peer, refusal) => panic!("{peer:?} was refused: {refusal}"),
            Output::Complete(call, result) => {
                let for_whom = self.open_calls.remove(&(server, call)).expect("a call is completed once");
                if let Some((asker, upcall)) = for_whom {
                    let reply = match result {
                        HostResult::Entries(entries) => HostReply::DirectModex(entries),
                        HostResult::Status(status) | HostResult::Failed { status, .. } => HostReply::Status(status),
                    };
                    self.errands.push(Errand::Answer(asker, upcall, reply));
                }
            }
            Output::Upcall(id, upcall) => self.upcall(server, id, upcall),
            Output::Admit(..)
            | Output::AdmitTool(..)
            | Output::SendSegment(..)
            | Output::WithdrawSegment(..)
            | Output::Forward(..)
            | Output::Wake(_)
            | Output::Cleanup(_)
            | Output::Described(_)
            | Output::Notify(..)
            | Output::Raise(_) => {}
        }
    }

    fn upcall(&mut self, server: usize, id: UpcallId, upcall: Upcall) {
        match upcall {
            Upcall::Fence(fence) => self.join_global_fence(server, id, fence),
            Upcall::DirectModex { proc, directives } => {
                let required = directives.iter().find(|info| info.key == key("pmix.req.key"));
                let wanted = required.and_then(|info| info.value.as_str().map(|name| name.to_owned()));
                let wanted = wanted.map(|name| crate::types::Key::new(name).unwrap());
                self.errands.push(Errand::Forward(server, id, proc, wanted));
            }
            _ => self.errands.push(Errand::Answer(server, id, HostReply::Status(Status::SUCCESS))),
        }
    }

    /// The host joins the contributions of all servers of a job: the first fence of one server with the first of each
    /// other, the second with the second.
    fn join_global_fence(&mut self, server: usize, id: UpcallId, upcall: FenceUpcall) {
        let joined = self.fences_joined.entry((server, upcall.procs.clone())).or_default();
        let turn = *joined;
        *joined += 1;
        let promise = Promise { id, model: BTreeMap::new(), is_answered: false };
        self.fences_under_way.entry((server, upcall.procs.clone())).or_default().push_back(promise);
        let participants = servers_of(&upcall.procs);
        let fences = self.fences.entry(upcall.procs.clone()).or_default();
        if fences.len() <= turn {
            fences.resize_with(turn + 1, GlobalFence::default);
        }
        let fence = &mut fences[turn];
        let is_collecting = upcall.data.collect;
        for rank in (0..RANKS).filter(|&rank| server_of(rank) == server && is_collecting) {
            let took_part = upcall.procs.iter().any(|entry| entry.covers(&proc(rank)));
            if let Some(&value) = self.committed.get(&rank).filter(|_| took_part) {
                fence.model.insert(rank, value);
            }
        }
        fence.arrived.insert(server, (id, upcall));
        if fence.arrived.len() < participants.len() {
            return;
        }
        let status = match fence.arrived.values().any(|(_, upcall)| is_partial(upcall)) {
            // Now and then the host fails.
            _ if self.last_id.is_multiple_of(7) => Status::ERR_UNREACH,
            true => Status::ERR_PARTIAL_SUCCESS,
            false => Status::SUCCESS,
        };
        let blocks: Vec<(ProcId, Vec<Kval>)> =
            fence.arrived.values().rev().flat_map(|(_, upcall)| upcall.data.blocks.clone()).collect();
        let (arrived, model) = (std::mem::take(&mut fence.arrived), fence.model.clone());
        for (server, (id, upcall)) in arrived {
            // What a process that never arrived had committed is not promised.
            if status == Status::SUCCESS && upcall.data.collect {
                let promises = self.fences_under_way.get_mut(&(server, upcall.procs)).unwrap();
                promises
                    .iter_mut()
                    .filter(|promise| promise.id == id)
                    .for_each(|promise| promise.model = model.clone());
            }
            self.errands.push(Errand::Answer(server, id, HostReply::Fence { status, blocks: blocks.clone() }));
        }
    }

    fn run_errand(&mut self, choice: usize) {
        if self.errands.is_empty() {
            return;
        }
        match self.errands.remove(choice % self.errands.len()) {
            Errand::Answer(server, id, reply) => {
                self.input(server, Input::Completed(id, reply));
                self.check_fences(server, id);
            }
            Errand::Forward(server, id, ..) if choice.is_multiple_of(11) => {
                self.input(server, Input::Completed(id, HostReply::Status(Status::ERR_UNREACH)));
            }
            Errand::Forward(server, id, proc, key) => {
                let owner = server_of(proc.rank.process().unwrap());
                let timeout = Some(Duration::from_secs(50));
                let request = DirectModexRequest { proc, key, timeout };
                self.call(owner, Some((server, id)), HostCall::DirectModexRequest(request));
            }
        }
    }

    fn check_fences(&mut self, server: usize, id: UpcallId) {
        let mut kept = Vec::new();
        for (_, promises) in self.fences_under_way.iter_mut().filter(|((on, _), _)| *on == server) {
            promises.iter_mut().filter(|promise| promise.id == id).for_each(|promise| promise.is_answered = true);
            while promises.front().is_some_and(|promise| promise.is_answered) {
                kept.extend(promises.pop_front());
            }
        }
        for promise in kept {
            // After the end of the job nothing is promised any more.
            if self.servers[server].store().is_registered(&namespace("job")) {
                self.check_fence(server, &promise.model);
            }
        }
    }

    /// Everything committed before the fence is here: that value, or a newer one that a direct modex brought.
    fn check_fence(&mut self, server: usize, model: &BTreeMap<u32, u32>) {
        for (&rank, &value) in model {
            let lookup =
                Lookup { rank: rank.into(), key: KeyRef::new(KEY), realm: RealmRequest::Default, audience: None };
            let found = self.servers[server].store().lookup(&namespace("job"), &lookup).unwrap().as_u32().unwrap();
            let newest = self.committed.get(&rank).copied().unwrap();
            assert!((value..=newest).contains(&found), "rank {rank}: {found} not in {value}..={newest}");
            self.fences_checked += 1;
        }
    }

    fn connect(&mut self, rank: u32) {
        let server = server_of(rank);
        if self.registered.insert(rank) {
            let (uid, gid) = (OWNER.uid, OWNER.gid);
            let client = RegisterClient { proc: proc(rank), uid, gid, object: 0 };
            self.call(server, None, HostCall::RegisterClient(client));
        }
        let peer = PeerId(self.next_id());
        let version = Version { major: 5, minor: 0 };
        let hello = Hello { proc: proc(rank), credentials: OWNER, store: SOCKET, version, strangers: BTreeSet::new() };
        self.input(server, Input::Connected(peer, hello));
        // The host admits at once, so that the requests to come are not refused.
        while let Some(place) = self.errands.iter().position(|errand| is_admission(errand, server)) {
            self.run_errand(place);
        }
        self.connections.entry(rank).or_default().push(peer);
    }

    fn forget(&mut self, server: usize, peer: PeerId) {
        self.connections.values_mut().for_each(|peers| peers.retain(|other| *other != peer));
        self.open_requests.retain(|(on, of, _)| (*on, *of) != (server, peer));
    }

    fn lose(&mut self, rank: u32) {
        let Some(peer) = self.connections.get_mut(&rank).and_then(Vec::pop) else { return };
        self.forget(server_of(rank), peer);
        self.input(server_of(rank), Input::Lost(peer));
    }

    fn step(&mut self, choice: u32) {
        let (rank, action, other) = (choice % RANKS, (choice / RANKS) % 16, (choice / 96) % RANKS);
        let collecting = [flag("pmix.collect")];
        match action {
            0 if self.connections.get(&rank).is_none_or(Vec::is_empty) || choice.is_multiple_of(5) => {
                self.connect(rank)
            }
            1 | 2 => {
                let value = self.committed.get(&rank).copied().unwrap_or(0) + 1;
                self.request(rank, commit(Scope::Global, KEY, value));
            }
            0 | 3..=5 => self.request(rank, fence(&[everybody()], &collecting)),
            6 => self.request(rank, fence(&pair(rank), &collecting)),
            7 => self.request(rank, fence(&[everybody()], &[timeout(7)])),
            8 => self.request(rank, get(&proc(other), Some(KEY), &[])),
            9 => self.request(rank, get(&proc(other), Some(KEY), &[timeout(3), flag("pmix.get.refresh")])),
            10 if choice.is_multiple_of(3) => self.lose(rank),
            10 if choice.is_multiple_of(5) => self.request(rank, Request::Finalize),
            11 => {
                self.now = self.now + Duration::from_secs(1);
                (0..SERVERS).for_each(|server| self.input(server, Input::Timeout));
            }
            _ => self.run_errand(usize::try_from(choice / 96).unwrap()),
        }
    }

    /// The job ends everywhere; whatever was open must have ended with it.
    fn end(&mut self) {
        for server in 0..SERVERS {
            self.call(server, None, HostCall::DeregisterNamespace(namespace("job")));
        }
        while !self.errands.is_empty() {
            self.run_errand(0);
            // A request forwarded to a server that has forgotten the job is held for its registration.
            self.now = self.now + Duration::from_secs(100);
            (0..SERVERS).for_each(|server| self.input(server, Input::Timeout));
        }
        assert_eq!(self.open_requests, BTreeSet::new(), "never answered");
        assert!(self.open_calls.is_empty(), "never completed: {:?}", self.open_calls);
        for server in &self.servers {
            let counts = (server.open_request_count(), server.open_call_count(), server.collective_count());
            assert_eq!(counts, (0, 0, 0));
            assert_eq!((server.peer_count(), server.upcall_count(), server.poll_timeout()), (0, 0, None));
        }
    }
}

fn run(choices: &[u32]) -> World {
    let mut world = World::new();
    (0..RANKS).for_each(|rank| world.connect(rank));
    choices.iter().for_each(|&choice| world.step(choice));
    world.end();
    world
}

fn server_of(rank: u32) -> usize {
    usize::try_from(rank / RANKS_PER_SERVER).unwrap()
}

/// A process and its counterpart on the next server.
fn pair(rank: u32) -> [ProcId; 2] {
    let other = (rank + RANKS_PER_SERVER) % RANKS;
    [proc(rank.min(other)), proc(rank.max(other))]
}

fn servers_of(procs: &[ProcId]) -> BTreeSet<usize> {
    let ranks = (0..RANKS).filter(|&rank| procs.iter().any(|entry| entry.covers(&proc(rank))));
    ranks.map(server_of).collect()
}

fn is_partial(upcall: &FenceUpcall) -> bool {
    upcall.directives.iter().any(|info| info.key == key("pmix.loc.col.st"))
}

fn is_admission(errand: &Errand, server: usize) -> bool {
    matches!(errand, Errand::Answer(on, _, HostReply::Status(Status::SUCCESS)) if *on == server)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn every_request_is_answered_once_and_fences_bring_what_was_committed(
        choices in prop::collection::vec(any::<u32>(), 0..300)
    ) {
        run(&choices);
    }

    #[test]
    fn equal_inputs_give_equal_outputs(choices in prop::collection::vec(any::<u32>(), 0..100)) {
        prop_assert_eq!(run(&choices).log, run(&choices).log);
    }
}

/// Were the worlds too chaotic for any fence to succeed, the property above would say nothing.
#[test]
fn fences_do_succeed_in_the_simulation() {
    let everybody_fences = (0..RANKS).map(|rank| rank + 3 * RANKS);
    let everybody_commits = (0..RANKS).map(|rank| rank + RANKS);
    let host_works = (0..12).map(|turn| 15 * RANKS + 96 * turn);
    let round: Vec<u32> = everybody_commits.chain(everybody_fences).chain(host_works).collect();
    let world = run(&round.repeat(3));
    assert!(world.fences_checked > 0);
}
