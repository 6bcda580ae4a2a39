//! The program of the jobs: the same for all processes, as in programs that run on many nodes.

use modex::client::{Call, FenceDirectives};
use modex::keys;
use modex::proto::{Collective, Command, Group, Request};
use modex::types::{Info, Key, ProcId, Text, Value};

use super::random::{Random, RandomStream};
use super::setup::{JobSetup, Setup};

/// The operations at which processes meet, in order.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) phases: Vec<ProgramPhase>,
}

/// One meeting.
#[derive(Clone, Debug)]
pub(super) struct ProgramPhase {
    pub(super) meeting: Meeting,
    pub(super) set: Set,
    /// The time limit in seconds; `None`: as long as the job may run.
    pub(super) timeout_s: Option<i32>,
    /// Whether a process waits for the end before it goes on.
    pub(super) waits: bool,
    /// Whether the group outlives deaths.
    pub(super) outlives_deaths: bool,
    /// Members that leave the group while the others end it.
    pub(super) leavers: Option<Leavers>,
}

/// The operation of a phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Meeting {
    Barrier,
    Collect,
    Connect,
    Disconnect,
    Construct(Text),
    Destruct(Text),
    Invite(Invite),
    Leave(Text),
    Bootstrap(Bootstrap),
    /// Ends the group that a bootstrap has formed, whatever its members.
    Dissolve(Text),
}

/// A group of leaders that know only their number, and of the processes that they add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bootstrap {
    pub(super) name: Text,
    /// The number of leaders, taken from the front of the set.
    pub(super) leaders: u32,
    /// Whether each leader adds all the others and every caller gives a time limit. If not, each adds a part and the
    /// first gives the limit.
    pub(super) is_shared: bool,
    pub(super) slip: Slip,
}

/// A mistake in the leaders' directives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slip {
    Nothing,
    /// The number of leaders is lower than the leaders' count.
    LeaderShort,
    /// One leader gives another count, or none.
    CountsDiffer,
    CountsNone,
    /// They do not add a process that comes.
    NotAdded,
    /// One adds a process of another node.
    Elsewhere,
}

/// A group that one process forms of the processes that accept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Invite {
    pub(super) name: Text,
    /// The position of the leader in the set, modulo the set's size.
    pub(super) leader: u32,
    /// Whether it is formed without the processes that do not accept.
    pub(super) is_optional: bool,
    pub(super) wants_number: bool,
}

/// The participants, from the point of view of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Set {
    /// Its job.
    Whole,
    /// All jobs.
    Both,
    /// Ranks with the same remainder: they are spread over the nodes.
    Stride(u32),
    /// Neighbours by number.
    Block(u32),
    /// Neighbours on a node.
    Near(u32),
}

/// Members that leave a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leavers {
    /// All on a node.
    Node(u32),
    /// The ranks with this remainder.
    Ranks(u32),
}

impl Program {
    pub(super) fn of(seed: u64, setup: &Setup, jobs: &[JobSetup]) -> Self {
        let mut random = Random::of(seed, RandomStream::Program);
        let mut phases: Vec<ProgramPhase> = Vec::new();
        for number in 0..setup.phases {
            let phase = match phases.last() {
                Some(last) if random.one_in(2) => last.undone(),
                _ => None,
            };
            phases.push(phase.unwrap_or_else(|| ProgramPhase::drawn(&mut random, number, setup, jobs)));
        }
        let mut random = Random::of(seed, RandomStream::Invitations);
        let mut last: Option<ProgramPhase> = None;
        for (number, phase) in (0..).zip(&mut phases) {
            let leaving = last.as_ref().filter(|_| random.one_in(2)).and_then(ProgramPhase::left);
            let invited = random.one_in(4).then(|| phase.by_invitation(&mut random, number, setup));
            if let Some(instead) = leaving.or(invited) {
                *phase = instead;
            }
            last = Some(phase.clone());
        }
        plan_departures(&mut phases, &mut Random::of(seed, RandomStream::Leavers), setup);
        Self { phases }
    }

    /// Some phases form groups without a host, and take them back.
    pub(super) fn form_groups_locally(&mut self, mut random: Random) {
        let mut last: Option<Text> = None;
        for (number, phase) in (0..).zip(&mut self.phases) {
            phase.outlives_deaths = false;
            let name = last.take();
            if let Some(name) = name.clone().filter(|_| random.one_in(2)) {
                phase.meeting = Meeting::Dissolve(name);
            } else if random.one_in(2) {
                *phase = phase.by_bootstrap(&mut random, name, number);
            }
            if let Meeting::Bootstrap(Bootstrap { name, .. }) = &phase.meeting {
                last = Some(name.clone());
            }
        }
    }

    /// The jobs are connected early, and do most of the later operations together.
    pub(super) fn connect_jobs(&mut self, random: &mut Random, has_group_host: bool) {
        let first = usize::from(random.one_in(4) && self.phases.len() > 1);
        let mut group: Option<Text> = None;
        for (number, phase) in self.phases.iter_mut().enumerate().skip(first) {
            if number > first && random.one_in(4) {
                continue;
            }
            let meeting = match group.take() {
                _ if number == first => Meeting::Connect,
                Some(name) if random.one_in(2) => Meeting::Destruct(name),
                last => {
                    group = last;
                    Meeting::of_jobs(random, number)
                }
            };
            if let Meeting::Construct(name) = &meeting {
                group = Some(name.clone());
            }
            let outlives_deaths = random.one_in(2) && group.is_some() && has_group_host;
            *phase = ProgramPhase { meeting, set: Set::Both, outlives_deaths, leavers: None, ..phase.clone() };
        }
    }

    /// Whether the group of this name that the host forms outlives deaths.
    pub(super) fn outlives_deaths(&self, name: &Text) -> bool {
        let is_formed =
            |phase: &ProgramPhase| phase.meeting == Meeting::Construct(name.clone()) && phase.outlives_deaths;
        self.phases.iter().any(is_formed)
    }

    /// Whether the program has an invitation.
    pub(super) fn has_invitations(&self) -> bool {
        self.phases.iter().any(|phase| matches!(phase.meeting, Meeting::Invite(_)))
    }
}

impl Meeting {
    /// An operation of jobs that have been connected.
    fn of_jobs(random: &mut Random, number: usize) -> Self {
        match random.below(8) {
            0 | 1 => Self::Collect,
            2 => Self::Barrier,
            3 | 4 => Self::Construct(Text::from(format!("joint{number}").as_str())),
            5 | 6 => Self::Disconnect,
            _ => Self::Connect,
        }
    }
}

impl ProgramPhase {
    fn drawn(random: &mut Random, number: u32, setup: &Setup, jobs: &[JobSetup]) -> Self {
        let size = jobs.first().map_or(1, |job| job.size);
        let few = if setup.is_large() { 16 } else { size.div_ceil(2).clamp(1, 4) };
        let set = match random.below(8) {
            0..=3 => Set::Whole,
            4 if jobs.len() > 1 => Set::Both,
            5 => Set::Block(few),
            _ => Set::Stride(size.div_ceil(few).max(1)),
        };
        let is_wide = matches!(set, Set::Whole | Set::Both);
        let meeting = match random.below(10) {
            0 if !(is_wide && setup.is_large()) => Meeting::Connect,
            1 if !(is_wide && setup.is_large()) => Meeting::Construct(Text::from(format!("group{number}").as_str())),
            2 | 3 => Meeting::Barrier,
            _ if is_wide && setup.is_large() => Meeting::Barrier,
            _ => Meeting::Collect,
        };
        let timeout_s = random.one_in(2).then(|| i32::try_from(random.between(5, 90)).unwrap_or(5));
        Self { meeting, set, timeout_s, waits: !random.one_in(4), outlives_deaths: false, leavers: None }
    }

    /// The phase that reverses this one.
    fn undone(&self) -> Option<Self> {
        let meeting = match &self.meeting {
            Meeting::Connect => Meeting::Disconnect,
            Meeting::Construct(name) => Meeting::Destruct(name.clone()),
            _ => return None,
        };
        Some(Self { meeting, ..self.clone() })
    }

    /// An invitation instead: to the same processes, or to some of them if there are many.
    fn by_invitation(&self, random: &mut Random, number: u32, setup: &Setup) -> Self {
        let is_wide = matches!(self.set, Set::Whole | Set::Both);
        let set = if is_wide && setup.ranks > GUESTS_MAX { Set::Block(GUESTS_MAX) } else { self.set };
        let name = Text::from(format!("party{number}").as_str());
        let leader = random.below_u32(GUESTS_MAX);
        let invite = Invite { name, leader, is_optional: random.one_in(2), wants_number: random.one_in(2) };
        Self { meeting: Meeting::Invite(invite), set, ..self.clone() }
    }

    /// A bootstrap instead, of neighbours on each node. It may have several sets under one name, or repeat the last
    /// one.
    fn by_bootstrap(&self, random: &mut Random, last: Option<Text>, number: u32) -> Self {
        let name = last.filter(|_| random.one_in(2));
        let name = name.unwrap_or_else(|| Text::from(format!("boot{number}").as_str()));
        let slip = match random.below(12) {
            0 => Slip::LeaderShort,
            1 => Slip::CountsDiffer,
            2 => Slip::CountsNone,
            3 => Slip::NotAdded,
            4 => Slip::Elsewhere,
            _ => Slip::Nothing,
        };
        let leaders = random.below_u32(3) + 1;
        let set = Set::Near(random.pick(&[2, 3, GUESTS_MAX]).copied().unwrap_or(GUESTS_MAX));
        let bootstrap = Bootstrap { name, leaders, is_shared: random.one_in(2), slip };
        Self { meeting: Meeting::Bootstrap(bootstrap), set, ..self.clone() }
    }

    /// Members leave the group that this phase has formed by invitation.
    fn left(&self) -> Option<Self> {
        let Meeting::Invite(Invite { name, .. }) = &self.meeting else { return None };
        Some(Self { meeting: Meeting::Leave(name.clone()), ..self.clone() })
    }

    /// The participants as a process of `jobs[job]` writes them. `None`: the set does not exist in its part of the
    /// program.
    pub(super) fn procs(&self, jobs: &[JobSetup], job: usize, rank: u32) -> Option<Vec<ProcId>> {
        let own = jobs.get(job)?;
        let procs = match self.set {
            Set::Whole => vec![own.everybody()],
            // Only the jobs of the beginning know of each other.
            Set::Both if job < 2 => jobs.iter().take(2).map(JobSetup::everybody).collect(),
            Set::Both => return None,
            Set::Stride(stride) => {
                let stride = stride.max(1);
                let ranks = (rank % stride..own.size).step_by(usize::try_from(stride).unwrap_or(1));
                ranks.map(|rank| own.proc(rank)).collect()
            }
            Set::Block(size) => {
                let first = rank - rank % size.max(1);
                (first..first.saturating_add(size).min(own.size)).map(|rank| own.proc(rank)).collect()
            }
            Set::Near(size) => {
                let (node, known) =
                    (own.node_of(rank), if job < 2 { jobs.get(..2).unwrap_or(jobs) } else { jobs.get(job..=job)? });
                let near = known.iter().flat_map(|job| job.ranks_on(node).map(|rank| job.proc(rank)));
                let near: Vec<ProcId> = near.collect();
                let mut sets = near.chunks(usize::try_from(size).unwrap_or(1).max(1));
                sets.find(|set| set.contains(&own.proc(rank)))?.to_vec()
            }
        };
        Some(procs)
    }

    /// The call that a process makes.
    pub(super) fn call(&self, procs: Vec<ProcId>) -> Call {
        let flag = |name| Info::new(Key::from_static(name), true);
        let timeout =
            self.timeout_s.map(|seconds| Info::new(Key::from_static(keys::TIMEOUT.name()), Value::Int(seconds)));
        let mut directives: Vec<Info> = timeout.into_iter().collect();
        let collective = |procs, directives| Collective { procs, directives };
        match &self.meeting {
            Meeting::Barrier | Meeting::Collect => {
                if self.meeting == Meeting::Collect {
                    directives.push(flag(keys::COLLECT_DATA.name()));
                }
                let directives = FenceDirectives::parse(&directives).unwrap_or_default();
                Call::Fence { procs, directives }
            }
            Meeting::Connect => Call::Exchange(Request::Connect(collective(procs, directives))),
            Meeting::Disconnect => Call::Exchange(Request::Disconnect(collective(procs, directives))),
            Meeting::Construct(name) => {
                let command = Command::GroupConstruct.to_raw();
                directives.extend(self.outlives_deaths.then(|| flag(keys::GROUP_NOTIFY_TERMINATION.name())));
                Call::Exchange(Request::GroupConstruct(Group { command, id: Some(name.clone()), procs, directives }))
            }
            Meeting::Destruct(name) | Meeting::Dissolve(name) => {
                let command = Command::GroupDestruct.to_raw();
                Call::Exchange(Request::GroupDestruct(Group { command, id: Some(name.clone()), procs, directives }))
            }
            // A process makes more than one call for these.
            Meeting::Invite(_) | Meeting::Leave(_) | Meeting::Bootstrap(_) => Call::Exchange(Request::JobInfo),
        }
    }
}

/// Some groups have members that leave while the others end it. Some are formed for that purpose.
fn plan_departures(phases: &mut [ProgramPhase], random: &mut Random, setup: &Setup) {
    if random.one_in(3)
        && !setup.is_large()
        && let [.., first, last] = phases
    {
        first.meeting = Meeting::Construct(Text::from("quit"));
        *last = ProgramPhase { meeting: Meeting::Destruct(Text::from("quit")), ..first.clone() };
    }
    for phase in phases.iter_mut().filter(|phase| matches!(phase.meeting, Meeting::Construct(_))) {
        phase.outlives_deaths = random.one_in(2);
    }
    for phase in phases.iter_mut().filter(|phase| matches!(phase.meeting, Meeting::Destruct(_))) {
        phase.leavers = match random.below(4) {
            0 => None,
            1 => Some(Leavers::Ranks(random.below_u32(REMAINDERS))),
            _ => Some(Leavers::Node(random.below_u32(setup.nodes))),
        };
    }
}

/// The largest number of processes that one invitation names.
const GUESTS_MAX: u32 = 16;
/// Members that leave by rank have one remainder of the ranks modulo this number.
pub(super) const REMAINDERS: u32 = 3;
