//! Every order of events for three participants and two overlapping operations, up to a depth: the real core beside a
//! model that is written from the standard's words and knows nothing of the core's table.
//!
//! After each step the two agree on who is told what and on what goes up, which covers the invariants: each accepted request
//! is answered exactly once, none succeeds with a contribution missing, nobody waits without cause. From each state two
//! ways lead out: everybody comes, and then nobody waits any more; everybody ends, and then nothing is left.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{Hash, Hasher};
use std::time::Duration;

use super::harness::*;
use crate::gds::model::MapStore;
use crate::proto::{Collective, Reply, Request, Tag};
use crate::server::transitions::{Effect, Happening, Phase, Standing, Table, effect};
use crate::server::{CallId, RegisterClient, RegisterNamespace, UpcallId};
use crate::server::{Capabilities, Config, Hello, HostCall, HostReply, Input, Output, PeerId, Server, Upcall, Version};
use crate::types::{Info, ProcId, Status, Time};

const RANKS: u32 = 3;
/// Open requests of one process for one operation.
const REPEATS_MAX: usize = 2;

/// Which two operations overlap.
#[derive(Clone, Copy, Debug)]
enum Pair {
    /// A fence of all, which needs the host, and one of the three, which does not and has a time limit.
    FencesOfOtherSets,
    /// A fence and a connect of the same set, both of this node alone.
    FenceAndConnect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Arrive(u32, usize),
    Finalize(u32),
    Return(u32),
    Die(u32),
    /// The host says that one which has left, or was lost, has ended.
    Deregister(u32),
    TimeOut,
    /// The host answers the oldest or the newest upcall, well or not.
    Answer {
        oldest: bool,
        well: bool,
    },
}

impl Step {
    const fn rank(self) -> Option<u32> {
        match self {
            Self::Arrive(rank, _) | Self::Finalize(rank) | Self::Return(rank) | Self::Die(rank) => Some(rank),
            Self::Deregister(rank) => Some(rank),
            Self::TimeOut | Self::Answer { .. } => None,
        }
    }
}

impl Pair {
    fn capabilities(self) -> Capabilities {
        match self {
            Self::FencesOfOtherSets => Capabilities::FENCE,
            Self::FenceAndConnect => Capabilities::empty(),
        }
    }

    /// One process of the job may live elsewhere.
    fn job_size(self) -> u32 {
        match self {
            Self::FencesOfOtherSets => RANKS + 1,
            Self::FenceAndConnect => RANKS,
        }
    }

    fn request(self, operation: usize) -> Request {
        let three: Vec<ProcId> = (0..RANKS).map(proc).collect();
        match (self, operation) {
            (_, 0) => fence(&[everybody()], &[]),
            (Self::FencesOfOtherSets, _) => fence(&three, &[timeout(5)]),
            (Self::FenceAndConnect, _) => {
                Request::Connect(Collective { procs: vec![everybody()], directives: vec![timeout(5)] })
            }
        }
    }

    fn goes_up(self, operation: usize) -> bool {
        matches!(self, Self::FencesOfOtherSets) && operation == 0
    }

    fn time_limit(operation: usize) -> Option<u64> {
        (operation == 1).then_some(5)
    }
}

/// What a request is answered with: by whom it was made, and its number.
type Told = BTreeSet<(u32, u32, i32)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Life {
    Here,
    Away,
    Dead,
    Ended,
}

#[derive(Clone, Debug, Hash)]
struct ModelOperation {
    kind: usize,
    came: BTreeSet<u32>,
    lost: BTreeSet<u32>,
    waiting: Vec<(u32, u32)>,
    deadline: Option<u64>,
    is_up: bool,
    answer: Option<i32>,
}

/// What ought to happen.
#[derive(Clone, Debug, Hash)]
struct Model {
    goes_up: [bool; 2],
    lives: [Life; RANKS as usize],
    /// Oldest first.
    operations: Vec<ModelOperation>,
    now: u64,
    /// Statuses that local participants are missing with, of upcalls, in order.
    upcalls: Vec<i32>,
}

impl Model {
    fn new(pair: Pair) -> Self {
        let goes_up = [0, 1].map(|operation| pair.goes_up(operation));
        Self { goes_up, lives: [Life::Here; 3], operations: Vec::new(), now: 0, upcalls: Vec::new() }
    }

    fn life(&mut self, rank: u32) -> &mut Life {
        &mut self.lives[rank as usize]
    }

    fn open_requests(&self, rank: u32, kind: usize) -> usize {
        let of_kind = self.operations.iter().filter(|operation| operation.kind == kind);
        of_kind.flat_map(|operation| &operation.waiting).filter(|(who, _)| *who == rank).count()
    }

    fn ups(&self) -> usize {
        self.operations.iter().filter(|operation| operation.is_up && operation.answer.is_none()).count()
    }

    fn is_possible(&self, step: Step) -> bool {
        let life = |rank: u32| self.lives[rank as usize];
        match step {
            Step::Arrive(rank, kind) => life(rank) == Life::Here && self.open_requests(rank, kind) < REPEATS_MAX,
            Step::Finalize(rank) | Step::Die(rank) => life(rank) == Life::Here,
            Step::Return(rank) => life(rank) == Life::Away,
            Step::Deregister(rank) => matches!(life(rank), Life::Away | Life::Dead),
            Step::TimeOut => self.operations.iter().any(|operation| operation.deadline.is_some() && !operation.is_up),
            Step::Answer { oldest, .. } => self.ups() >= if oldest { 1 } else { 2 },
        }
    }

    fn apply(&mut self, step: Step, number: u32) -> Told {
        let mut told = Told::new();
        match step {
            Step::Arrive(rank, kind) => self.arrive(rank, kind, number),
            Step::Finalize(rank) => {
                *self.life(rank) = Life::Away;
                self.operations.iter_mut().for_each(|operation| operation.waiting.retain(|(who, _)| *who != rank));
            }
            Step::Return(rank) => *self.life(rank) = Life::Here,
            Step::Die(rank) => {
                *self.life(rank) = Life::Dead;
                self.operations.iter_mut().for_each(|operation| operation.waiting.retain(|(who, _)| *who != rank));
            }
            Step::Deregister(rank) => *self.life(rank) = Life::Ended,
            Step::TimeOut => {
                self.now += 5;
                let now = self.now;
                let is_over = |op: &mut ModelOperation| !op.is_up && op.deadline.is_some_and(|at| at <= now);
                for operation in self.operations.extract_if(.., is_over) {
                    tell(&mut told, &operation, Status::ERR_TIMEOUT);
                }
            }
            Step::Answer { oldest, well } => {
                let status = if well { Status::SUCCESS } else { Status::ERR_UNREACH };
                let mut up = self.operations.iter_mut().filter(|op| op.is_up && op.answer.is_none());
                let answered = if oldest { up.next() } else { up.next_back() };
                answered.unwrap().answer = Some(status.to_raw());
            }
        }
        self.settle(&mut told);
        told
    }

    fn arrive(&mut self, rank: u32, kind: usize, number: u32) {
        let waits = |operation: &ModelOperation| operation.waiting.iter().any(|(who, _)| *who == rank);
        let open = self.operations.iter_mut().find(|op| op.kind == kind && !op.is_up && !waits(op));
        let index = match open {
            Some(operation) => {
                let address = std::ptr::from_ref(operation);
                self.operations.iter().position(|other| std::ptr::eq(other, address)).unwrap()
            }
            None => {
                self.operations.push(ModelOperation {
                    kind,
                    came: BTreeSet::new(),
                    lost: BTreeSet::new(),
                    waiting: Vec::new(),
                    deadline: Pair::time_limit(kind).map(|limit| self.now + limit),
                    is_up: false,
                    answer: None,
                });
                self.operations.len() - 1
            }
        };
        let operation = &mut self.operations[index];
        operation.came.insert(rank);
        operation.lost.remove(&rank);
        operation.waiting.push((rank, number));
    }

    /// Operations whose participants have all come or ended go up or end; those answered end, in order.
    fn settle(&mut self, told: &mut Told) {
        for index in 0..self.operations.len() {
            let lives = self.lives;
            let operation = &mut self.operations[index];
            if operation.is_up {
                continue;
            }
            for rank in (0..RANKS).filter(|&rank| matches!(lives[rank as usize], Life::Dead | Life::Ended)) {
                if !operation.came.contains(&rank) {
                    operation.lost.insert(rank);
                }
            }
            if operation.came.len() + operation.lost.len() < RANKS as usize {
                continue;
            }
            let survives = operation.came.iter().any(|&rank| matches!(lives[rank as usize], Life::Here | Life::Away));
            let status = match (operation.lost.is_empty(), survives) {
                (true, _) => Status::SUCCESS,
                (false, true) => Status::ERR_PARTIAL_SUCCESS,
                (false, false) => Status::ERR_LOST_CONNECTION,
            };
            operation.is_up = true;
            operation.deadline = None;
            if self.goes_up[operation.kind] {
                self.upcalls.push(status.to_raw());
            } else {
                operation.answer = Some(status.to_raw());
            }
        }
        for kind in [0, 1] {
            while let Some(index) = self.operations.iter().position(|operation| operation.kind == kind) {
                let Some(status) = self.operations[index].answer else { break };
                let operation = self.operations.remove(index);
                tell(told, &operation, Status::from_raw(status));
            }
        }
    }
}

fn tell(told: &mut Told, operation: &ModelOperation, status: Status) {
    told.extend(operation.waiting.iter().map(|(rank, number)| (*rank, *number, status.to_raw())));
}

/// The core, with what it was asked and has answered.
struct World {
    pair: Pair,
    server: Server<MapStore>,
    model: Model,
    now: Time,
    peers: [PeerId; RANKS as usize],
    last_peer: u64,
    number: u32,
    open: BTreeMap<Tag, (u32, u32)>,
    upcalls: Vec<UpcallId>,
    seen_upcalls: Vec<i32>,
}

impl World {
    fn new(pair: Pair, table: Table) -> Self {
        let config = Config { capabilities: pair.capabilities(), ..Config::default() };
        let mut server = Server::new(config, MapStore::new());
        server.collectives.table = table;
        let mut world = Self {
            pair,
            server,
            model: Model::new(pair),
            now: Time::ZERO,
            peers: [PeerId(0); 3],
            last_peer: 0,
            number: 0,
            open: BTreeMap::new(),
            upcalls: Vec::new(),
            seen_upcalls: Vec::new(),
        };
        let description = vec![Info::new(JOB_SIZE, pair.job_size())].into();
        let (namespace, local_count) = (namespace("job"), Some(RANKS));
        let job = RegisterNamespace { namespace, local_count, description, nodata: false };
        world.host(HostCall::RegisterNamespace(job));
        for rank in 0..RANKS {
            let client = RegisterClient { proc: proc(rank), uid: OWNER.uid, gid: OWNER.gid, object: 0 };
            world.host(HostCall::RegisterClient(client));
        }
        (0..RANKS).for_each(|rank| world.connect(rank));
        world
    }

    fn host(&mut self, call: HostCall) {
        self.server.handle(self.now, Input::Host(CallId(0), call));
        while self.server.poll_output().is_some() {}
    }

    fn connect(&mut self, rank: u32) {
        self.last_peer += 1;
        let id = PeerId(self.last_peer);
        self.peers[rank as usize] = id;
        let version = Version { major: 5, minor: 0 };
        let hello = Hello { proc: proc(rank), credentials: OWNER, store: SOCKET, version, strangers: BTreeSet::new() };
        self.server.handle(self.now, Input::Connected(id, hello));
        while self.server.poll_output().is_some() {}
    }

    /// Does one step with the core and the model; what they disagree on.
    fn step(&mut self, step: Step) -> Result<(), String> {
        self.number += 1;
        let number = self.number;
        self.perform(step, number);
        let told = self.told()?;
        let expected = self.model.apply(step, number);
        if told != expected {
            return Err(format!("told {told:?}, expected {expected:?}"));
        }
        if self.seen_upcalls != self.model.upcalls {
            return Err(format!("went up {:?}, expected {:?}", self.seen_upcalls, self.model.upcalls));
        }
        Ok(())
    }

    fn perform(&mut self, step: Step, number: u32) {
        let peer = |rank: u32| self.peers[rank as usize];
        let inputs = match step {
            Step::Arrive(rank, operation) => {
                self.open.insert(Tag(number), (rank, number));
                vec![Input::Request(peer(rank), Tag(number), self.pair.request(operation))]
            }
            Step::Finalize(rank) => {
                let peer = peer(rank);
                self.open.retain(|_, (who, _)| *who != rank);
                self.server.handle(self.now, Input::Request(peer, Tag(1_000_000 + number), Request::Finalize));
                vec![Input::Lost(peer)]
            }
            Step::Die(rank) => {
                self.open.retain(|_, (who, _)| *who != rank);
                vec![Input::Lost(peer(rank))]
            }
            Step::Return(rank) => return self.connect(rank),
            Step::Deregister(rank) => vec![Input::Host(CallId(0), HostCall::DeregisterClient(proc(rank)))],
            Step::TimeOut => {
                self.now = self.now + Duration::from_secs(5);
                vec![Input::Timeout]
            }
            Step::Answer { oldest, well } => {
                let upcall = if oldest { self.upcalls.remove(0) } else { self.upcalls.pop().unwrap() };
                let status = if well { Status::SUCCESS } else { Status::ERR_UNREACH };
                vec![Input::Completed(upcall, HostReply::Fence { status, blocks: Vec::new() })]
            }
        };
        inputs.into_iter().for_each(|input| self.server.handle(self.now, input));
    }

    /// Who was told what since the last look.
    fn told(&mut self) -> Result<Told, String> {
        let mut told = Told::new();
        while let Some(output) = self.server.poll_output() {
            match output {
                Output::Reply(_, tag, reply) if tag.0 < 1_000_000 => {
                    let Some((rank, number)) = self.open.remove(&tag) else {
                        return Err(format!("{tag:?} is answered twice, or nobody asked: {reply:?}"));
                    };
                    let status = match reply {
                        Reply::Status(status) | Reply::Partial { status, .. } => status,
                        _ => Status::SUCCESS,
                    };
                    told.insert((rank, number, status.to_raw()));
                }
                Output::Upcall(id, Upcall::Fence(fence)) => {
                    self.upcalls.push(id);
                    let missing = fence.directives.iter().find(|info| info.key.as_str() == "pmix.loc.col.st");
                    let missing = missing.and_then(|info| match info.value {
                        crate::types::Value::Status(status) => Some(status),
                        _ => None,
                    });
                    self.seen_upcalls.push(missing.unwrap_or(0));
                }
                _ => {}
            }
        }
        Ok(told)
    }

    /// Whoever is missing comes, and the host answers: then nobody waits.
    fn everybody_comes(&mut self) -> Result<(), String> {
        for _ in 0..8 {
            for rank in 0..RANKS {
                if self.model.is_possible(Step::Return(rank)) {
                    self.step(Step::Return(rank))?;
                }
                for kind in [0, 1] {
                    let is_missed = |op: &ModelOperation| op.kind == kind && !op.is_up && !op.came.contains(&rank);
                    let is_missed = self.model.operations.iter().any(is_missed);
                    if is_missed && self.model.is_possible(Step::Arrive(rank, kind)) {
                        self.step(Step::Arrive(rank, kind))?;
                    }
                }
            }
            while self.model.is_possible(Step::Answer { oldest: true, well: true }) {
                self.step(Step::Answer { oldest: true, well: true })?;
            }
        }
        if !self.open.is_empty() || self.server.open_request_count() != 0 {
            return Err(format!("everybody came, and {:?} wait", self.open));
        }
        Ok(())
    }

    /// Everybody ends, and the host answers: then nothing is left.
    fn everybody_ends(&mut self) -> Result<(), String> {
        for rank in 0..RANKS {
            for step in [Step::Die(rank), Step::Deregister(rank)] {
                if self.model.is_possible(step) {
                    self.step(step)?;
                }
            }
        }
        while self.model.is_possible(Step::Answer { oldest: true, well: true }) {
            self.step(Step::Answer { oldest: true, well: true })?;
        }
        let left = (self.server.collective_count(), self.server.open_request_count(), self.server.upcall_count());
        if left != (0, 0, 0) || self.server.poll_timeout().is_some() {
            return Err(format!("all have gone and {left:?} operations, requests, upcalls are left"));
        }
        Ok(())
    }
}

fn steps() -> Vec<Step> {
    let mut steps = Vec::new();
    for rank in 0..RANKS {
        steps.extend([Step::Arrive(rank, 0), Step::Arrive(rank, 1), Step::Finalize(rank), Step::Return(rank)]);
        steps.extend([Step::Die(rank), Step::Deregister(rank)]);
    }
    for (oldest, well) in [(true, true), (true, false), (false, true)] {
        steps.push(Step::Answer { oldest, well });
    }
    steps.push(Step::TimeOut);
    steps
}

/// What a path found, and how many states it led through.
struct Search {
    states: usize,
    steps: usize,
    defect: Option<String>,
}

fn replay(pair: Pair, table: Table, path: &[Step]) -> Result<World, String> {
    let mut world = World::new(pair, table);
    path.iter().try_for_each(|step| world.step(*step)).map(|()| world)
}

fn search(pair: Pair, table: Table, depth: usize) -> Search {
    let mut seen = BTreeSet::from([state_of(&World::new(pair, table))]);
    let mut queue: VecDeque<Vec<Step>> = VecDeque::from([Vec::new()]);
    let mut taken = 0;
    while let Some(path) = queue.pop_front() {
        let model = replay(pair, table, &path).map(|world| world.model);
        // The three are alike: they are numbered by their first mention.
        let newcomer = path.iter().filter_map(|step| step.rank()).max().map_or(0, |rank| rank + 1);
        let is_numbered = |step: &Step| step.rank().is_none_or(|rank| rank <= newcomer);
        let is_possible = |step: &Step| model.as_ref().is_ok_and(|model| model.is_possible(*step));
        let possible = |step: &Step| is_numbered(step) && is_possible(step);
        for step in steps().into_iter().filter(possible) {
            taken += 1;
            let longer: Vec<Step> = path.iter().copied().chain([step]).collect();
            let mut world = match replay(pair, table, &longer) {
                Ok(world) => world,
                Err(error) => return found(seen.len(), taken, &longer, &error),
            };
            if !seen.insert(state_of(&world)) {
                continue;
            }
            let comes = world.everybody_comes();
            let ends = replay(pair, table, &longer).and_then(|mut world| world.everybody_ends());
            if let Err(error) = comes.and(ends) {
                return found(seen.len(), taken, &longer, &error);
            }
            if longer.len() < depth {
                queue.push_back(longer);
            }
        }
    }
    Search { states: seen.len(), steps: taken, defect: None }
}

fn found(states: usize, steps: usize, path: &[Step], error: &str) -> Search {
    Search { states, steps, defect: Some(format!("after {path:?}: {error}")) }
}

/// The core's whole state, without what only counts how far it has come, and the model's.
fn state_of(world: &World) -> u64 {
    let mut hasher = DefaultHasher::new();
    canonical(&format!("{:?}", world.server)).hash(&mut hasher);
    let mut model = world.model.clone();
    let (now, upcalls) = (std::mem::take(&mut model.now), std::mem::take(&mut model.upcalls));
    drop(upcalls);
    let mut numbers = BTreeMap::new();
    for operation in &mut model.operations {
        operation.deadline = operation.deadline.map(|deadline| deadline.saturating_sub(now));
        for (_, number) in &mut operation.waiting {
            let next = u32::try_from(numbers.len()).unwrap();
            *number = *numbers.entry(*number).or_insert(next);
        }
    }
    model.hash(&mut hasher);
    hasher.finish()
}

/// A text in which names are numbered by their first mention, and counters are left out.
fn canonical(text: &str) -> String {
    const NAMES: [&str; 5] = ["PeerId(", "UpcallId(", "OperationId(", "Tag(", "Time("];
    const COUNTERS: [&str; 5] = ["last: ", "last_index: ", "revision: ", "last_number: ", "members: Some(("];
    let mut seen: BTreeMap<(usize, String), usize> = BTreeMap::new();
    let mut canonical = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let name = NAMES.iter().position(|name| rest.starts_with(name));
        let counter = COUNTERS.iter().find(|counter| rest.starts_with(**counter));
        let (prefix, is_name) = match (name, counter) {
            (Some(index), _) => (NAMES[index], true),
            (None, Some(counter)) => (*counter, false),
            (None, None) => {
                let next = rest.chars().next().unwrap();
                canonical.push(next);
                rest = &rest[next.len_utf8()..];
                continue;
            }
        };
        let after = &rest[prefix.len()..];
        let length = after.find([')', ',', ' ', '}']).unwrap_or(after.len());
        canonical.push_str(prefix);
        if let (true, Some(index)) = (is_name, name) {
            let next = seen.len();
            let number = *seen.entry((index, after[..length].to_owned())).or_insert(next);
            canonical.push_str(&number.to_string());
        }
        rest = &after[length..];
    }
    canonical
}

/// How many steps a path has at most.
const DEPTH: usize = 5;

#[test]
fn every_order_of_arrivals_departures_and_answers_up_to_a_depth_keeps_the_promises() {
    for pair in [Pair::FencesOfOtherSets, Pair::FenceAndConnect] {
        let Search { states, steps, defect } = search(pair, Table::default(), DEPTH);
        assert_eq!(defect, None, "{pair:?}: {states} states, {steps} steps, paths of {DEPTH}");
        println!("{pair:?}: {states} states, {steps} steps, paths of {DEPTH}");
        assert!(states > 1000, "{pair:?}: only {states} states, {steps} steps");
    }
}

/// Each defect stands for a mistake that one can make in the table.
#[test]
fn a_defect_in_the_table_is_found() {
    fn mutant(
        phase: Phase,
        standing: Standing,
        happening: Happening,
        wrong: impl Fn(Phase, Standing, Happening) -> Option<Effect>,
    ) -> Effect {
        wrong(phase, standing, happening).unwrap_or_else(|| effect(phase, standing, happening))
    }
    type Defective = fn(Phase, Standing, Happening) -> Effect;
    let defects: [(&str, Defective); 6] = [
        ("a finalization is a loss", |phase, standing, happening| {
            mutant(phase, standing, happening, |_, standing, happening| {
                (standing == Standing::Away && happening == Happening::Finalize).then_some(Effect::Depart)
            })
        }),
        ("a loss is waited for", |phase, standing, happening| {
            mutant(phase, standing, happening, |_, _, happening| {
                (happening == Happening::Die).then_some(Effect::Nothing)
            })
        }),
        ("who races ahead waits along", |phase, standing, happening| {
            mutant(phase, standing, happening, |_, standing, happening| {
                (standing == Standing::Arrived && happening == Happening::Arrive).then_some(Effect::Next)
            })
        }),
        ("who is expected departs", |phase, standing, happening| {
            mutant(phase, standing, happening, |phase, standing, happening| {
                let is_met = phase == Phase::Gathering && standing == Standing::Expected;
                (is_met && happening == Happening::Return).then_some(Effect::Depart)
            })
        }),
        ("time does not end it", |phase, standing, happening| {
            mutant(phase, standing, happening, |_, _, happening| {
                (happening == Happening::TimeOut).then_some(Effect::Nothing)
            })
        }),
        ("who came and then died departs", |phase, standing, happening| {
            mutant(phase, standing, happening, |_, standing, happening| {
                (standing == Standing::Arrived && happening == Happening::Die).then_some(Effect::Depart)
            })
        }),
    ];
    for (name, table) in defects {
        let Search { states, steps, defect } = search(Pair::FencesOfOtherSets, Table(table), DEPTH);
        assert!(defect.is_some(), "{name}: not found in {states} states, {steps} steps");
    }
}
