use std::collections::BTreeSet;
use std::time::Duration;

use crate::gds::model::MapStore;
use crate::proto::{Collective, Commit, Get, Reply, Request, Tag, Version};
use crate::server::{
    Answer, Capabilities, Credentials, FenceData, FenceUpcall, Hello, HostCall, HostCallId, HostReply, Input, Output,
    PeerId, RegisterClient, RegisterNamespace, ServerConfig, ServerCore, StoreOffer, ToolPolicy, Upcall, UpcallId,
};
use crate::types::{Info, Key, Kval, Namespace, ProcId, Rank, Scope, Status, Time, Value};

pub(super) const SEGMENT: StoreOffer = StoreOffer::Segment;
pub(super) const SOCKET: StoreOffer = StoreOffer::Socket;
pub(super) const OWNER: Credentials = Credentials { uid: 1000, gid: 100 };
pub(super) const JOB_SIZE: Key = Key::from_static("pmix.job.size");

/// A server with a clock, which checks the invariants after every input.
pub(super) struct Rig {
    pub(super) server: ServerCore<MapStore>,
    pub(super) now: Time,
    last_peer: u64,
    last_tag: u32,
    last_call: u64,
}

impl Rig {
    pub(super) fn new(capabilities: Capabilities) -> Self {
        // The server of one user, who may do everything.
        let tools = ToolPolicy { own_uid: OWNER.uid, ..ToolPolicy::default() };
        Self::with(ServerConfig { capabilities, tools, ..ServerConfig::default() }, MapStore::new())
    }

    /// A server of root, which serves several users.
    pub(super) fn of_root(capabilities: Capabilities) -> Self {
        Self::with(ServerConfig { capabilities, ..ServerConfig::default() }, MapStore::new())
    }

    pub(super) fn with(config: ServerConfig, store: MapStore) -> Self {
        Self { server: ServerCore::new(config, store), now: Time::ZERO, last_peer: 0, last_tag: 100, last_call: 0 }
    }

    pub(super) fn input(&mut self, input: Input) -> Vec<Output> {
        self.server.handle(self.now, input);
        self.server.assert_consistent();
        let outputs: Vec<Output> = std::iter::from_fn(|| self.server.poll_output()).collect();
        let answered = |output| match output {
            Output::Answer(peer, tag, answer) => Output::Answer(peer, tag, self.completed(answer)),
            output => output,
        };
        outputs.into_iter().map(answered).collect()
    }

    /// The answer, with the job descriptions and the tables that the runtime adds.
    fn completed(&self, answer: Answer) -> Answer {
        match answer {
            Answer::JobData(data) => Answer::Reply(data.into_reply(self.server.store())),
            Answer::Queries(answers) => Answer::Reply(answers.into_reply()),
            Answer::Hardware(answer) => Answer::Reply(answer.into_reply()),
            answer => answer,
        }
    }

    pub(super) fn host(&mut self, call: HostCall) -> Vec<Output> {
        self.last_call += 1;
        self.input(Input::Host(HostCallId(self.last_call), call))
    }

    pub(super) fn register(&mut self, name: &str, job_size: Option<u32>, local_count: Option<u32>) -> Vec<Output> {
        let description: Vec<Info> = job_size.map(|size| Info::new(JOB_SIZE, size)).into_iter().collect();
        let description = description.into();
        let namespace = namespace(name);
        self.host(HostCall::RegisterNamespace(RegisterNamespace { namespace, local_count, description, nodata: false }))
    }

    pub(super) fn register_client(&mut self, proc: &ProcId) -> Vec<Output> {
        let client = RegisterClient { proc: proc.clone(), uid: OWNER.uid, gid: OWNER.gid, object: 77 };
        self.host(HostCall::RegisterClient(client))
    }

    /// Registers "job" with these local ranks and connects all of them by socket.
    pub(super) fn job(&mut self, job_size: u32, local: u32) -> Vec<PeerId> {
        self.register("job", Some(job_size), Some(local));
        (0..local).for_each(|rank| drop(self.register_client(&proc(rank))));
        (0..local).map(|rank| self.join(&proc(rank), SOCKET)).collect()
    }

    pub(super) fn connect(&mut self, proc: &ProcId, store: StoreOffer) -> (PeerId, Vec<Output>) {
        self.last_peer += 1;
        let id = PeerId(self.last_peer);
        let version = Version::new(5, 0, 0);
        let hello = Hello { proc: proc.clone(), credentials: OWNER, store, version, strangers: BTreeSet::new() };
        (id, self.input(Input::Connected(id, hello)))
    }

    pub(super) fn join(&mut self, proc: &ProcId, store: StoreOffer) -> PeerId {
        let (id, outputs) = self.connect(proc, store);
        assert!(matches!(outputs[0], Output::Admit(peer, _) if peer == id), "{outputs:?}");
        id
    }

    /// A request with all its steps.
    pub(super) fn request(&mut self, peer: PeerId, request: Request) -> Vec<Output> {
        let outputs = self.begin(peer, request);
        self.finish(outputs)
    }

    /// The first step of a request.
    pub(super) fn begin(&mut self, peer: PeerId, request: Request) -> Vec<Output> {
        self.last_tag += 1;
        self.input(Input::Request(peer, Tag(self.last_tag), request))
    }

    /// The outputs of a request and of all its further steps.
    pub(super) fn finish(&mut self, mut outputs: Vec<Output>) -> Vec<Output> {
        let unfinished = |output: &Output| if let Output::Unfinished(peer) = output { Some(*peer) } else { None };
        while let Some((place, peer)) =
            outputs.iter().enumerate().find_map(|(place, output)| Some((place, unfinished(output)?)))
        {
            drop(outputs.remove(place));
            outputs.extend(self.input(Input::Proceed(peer)));
        }
        outputs
    }

    /// The outputs of each later step of messages for many connections.
    pub(super) fn fan_out_steps(&mut self) -> Vec<Vec<Output>> {
        let mut steps = Vec::new();
        while self.server.has_fan_out() {
            self.now = self.now + Duration::from_nanos(1);
            steps.push(self.input(Input::Timeout));
        }
        steps
    }

    pub(super) fn lose(&mut self, peer: PeerId) -> Vec<Output> {
        self.input(Input::Lost(peer))
    }

    pub(super) fn complete(&mut self, upcall: UpcallId, reply: HostReply) -> Vec<Output> {
        self.input(Input::Completed(upcall, reply))
    }

    /// Lets time pass.
    pub(super) fn wait(&mut self, seconds: u64) -> Vec<Output> {
        self.now = self.now + Duration::from_secs(seconds);
        self.input(Input::Timeout)
    }

    pub(super) fn put(&mut self, peer: PeerId, scope: Scope, key: &'static str, value: u32) -> Vec<Output> {
        self.request(peer, commit(scope, key, value))
    }
}

pub(super) fn namespace(name: &str) -> Namespace {
    Namespace::new(name).unwrap()
}

pub(super) fn proc(rank: u32) -> ProcId {
    ProcId::new(namespace("job"), rank)
}

pub(super) fn everybody() -> ProcId {
    ProcId::new(namespace("job"), Rank::Wildcard)
}

pub(super) fn key(name: &'static str) -> Key {
    Key::from_static(name)
}

pub(super) fn kval(name: &'static str, value: u32) -> Kval {
    Kval { key: key(name), value: value.into() }
}

pub(super) fn commit(scope: Scope, name: &'static str, value: u32) -> Request {
    Request::Commit(Commit { parts: vec![(scope, vec![kval(name, value)])] })
}

/// Values in the form between servers: with their commit number.
pub(super) fn up_to(commit: u64, mut entries: Vec<Kval>) -> Vec<Kval> {
    entries.push(Kval { key: key("pmix.modex.commit"), value: commit.into() });
    entries
}

pub(super) fn flag(name: &'static str) -> Info {
    Info::new(key(name), true)
}

pub(super) fn timeout(seconds: i32) -> Info {
    Info::new(key("pmix.timeout"), Value::Int(seconds))
}

pub(super) fn fence(procs: &[ProcId], directives: &[Info]) -> Request {
    Request::Fence(Collective { procs: procs.to_vec(), directives: directives.to_vec() })
}

pub(super) fn get(proc: &ProcId, name: Option<&'static str>, directives: &[Info]) -> Request {
    Request::Get(Get { proc: proc.clone(), directives: directives.to_vec(), key: name.map(key) })
}

/// All replies among the outputs, in order.
pub(super) fn replies(outputs: &[Output]) -> Vec<(PeerId, Reply)> {
    let reply = |output: &Output| match output {
        Output::Answer(peer, _, Answer::Reply(reply)) => Some((*peer, reply.clone())),
        _ => None,
    };
    outputs.iter().filter_map(reply).collect()
}

/// All replies among the outputs, each of which must be a status.
pub(super) fn statuses(outputs: &[Output]) -> Vec<(PeerId, Status)> {
    let status = |(peer, reply)| match reply {
        Reply::Status(status) | Reply::Partial { status, .. } => (peer, status),
        other => panic!("not a status: {other:?}"),
    };
    replies(outputs).into_iter().map(status).collect()
}

/// The values of the only reply, which must be one process's data.
pub(super) fn data(outputs: &[Output]) -> Vec<Kval> {
    match replies(outputs).as_slice() {
        [(_, Reply::Data(ranks))] if ranks.len() == 1 => ranks[0].entries.clone(),
        other => panic!("not the data of one process: {other:?}"),
    }
}

pub(super) fn upcalls(outputs: &[Output]) -> Vec<(UpcallId, Upcall)> {
    let upcall = |output: &Output| match output {
        Output::Upcall(id, upcall) => Some((*id, upcall.clone())),
        _ => None,
    };
    outputs.iter().filter_map(upcall).collect()
}

/// The only upcall among the outputs.
pub(super) fn upcall(outputs: &[Output]) -> (UpcallId, Upcall) {
    let mut upcalls = upcalls(outputs);
    assert_eq!(upcalls.len(), 1, "{outputs:?}");
    upcalls.remove(0)
}

/// The only upcall among the outputs, which must be a fence.
pub(super) fn fence_upcall(outputs: &[Output]) -> (UpcallId, FenceUpcall) {
    match upcall(outputs) {
        (id, Upcall::Fence(fence)) => (id, fence.read().unwrap()),
        other => panic!("not a fence: {other:?}"),
    }
}

pub(super) fn fenced(blocks: Vec<(ProcId, Vec<Kval>)>) -> HostReply {
    HostReply::Fence { status: Status::SUCCESS, blocks }
}

/// All peers arrive at a collecting fence over the whole job. Returns the upcall.
pub(super) fn collect(rig: &mut Rig, peers: &[PeerId]) -> (UpcallId, FenceData) {
    let mut outputs = Vec::new();
    for &peer in peers {
        outputs = rig.request(peer, fence(&[everybody()], &[flag("pmix.collect")]));
    }
    let (id, upcall) = fence_upcall(&outputs);
    (id, upcall.data)
}
