//! One run: all servers, all processes, the host between them, and the loop that takes one event after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use modex::gds::NamespaceReader;
use modex::proto::Tag;
use modex::server::{Capabilities, Limits, PeerId, ServerConfig, ServerCore, ToolAdmission, ToolPolicy, UpcallId};
use modex::types::{Namespace, ProcId, Time};

use super::allocations::Allocations;
use super::bootstraps::{Bootstraps, PendingGroupRequest};
use super::departures::GroupDepartures;
use super::fault_schedule::FaultSchedule;
use super::host::Host;
use super::hosted_groups::HostedGroups;
use super::invariants::Rules;
use super::invited_groups::InvitedGroups;
use super::local_collectives::{CollectiveKind, Knowledge, LocalCollectives};
use super::output_pulls::OutputPulls;
use super::process::{Connection, Process};
use super::program::Program;
use super::queue::{Queue, QueuedEvent, ServerId, ToClient, ToServer};
use super::random::{Random, RandomStream};
use super::registration::LazyRegistration;
use super::setup::{HOST_TIMEOUT, JobSetup, Setup, jobs};
use super::store::SimStore;
use super::trace::{Keep, Trace};
use super::value::{Promise, Put};

/// A place for a server, and the state of the processes there.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) server: Option<ServerCore<SimStore>>,
    pub(super) epoch: u32,
    /// It will never serve again.
    pub(super) is_dead: bool,
    /// When the server is called next.
    pub(super) timer: Option<Time>,
    /// Jobs that are registered at present, by position.
    pub(super) registered: BTreeSet<usize>,
    /// Mappings of the present server's segments, shared by its processes.
    pub(super) mapped: BTreeMap<Namespace, Arc<NamespaceReader>>,
    /// Jobs that were registered, or had processes announced, and have ended.
    pub(super) ended: BTreeSet<usize>,
    /// Which processes of each job are announced.
    pub(super) announced: BTreeMap<usize, BTreeSet<u32>>,
    /// Connections of each process that are admitted and have not finalized.
    pub(super) admitted: BTreeMap<u32, BTreeSet<PeerId>>,
    /// Processes that can't come any more.
    pub(super) gone: BTreeSet<u32>,
    /// Values that missed this server because the host's answer did not reach it, with their versions. Processes of the
    /// server find nothing, or a value at least as new.
    pub(super) missed: BTreeMap<(u32, u8), u32>,
}

pub(super) struct World {
    pub(super) setup: Setup,
    pub(super) now: Time,
    pub(super) queue: Queue,
    pub(super) jobs: Vec<JobSetup>,
    pub(super) program: Program,
    pub(super) nodes: Vec<Node>,
    pub(super) processes: Vec<Process>,
    pub(super) connections: BTreeMap<PeerId, Connection>,
    pub(super) host: Host,
    pub(super) collectives: LocalCollectives,
    pub(super) bootstraps: Bootstraps,
    /// A request about a group that a server has got and has not refused yet.
    pub(super) group_request: Option<PendingGroupRequest>,
    /// Whether the host forms groups.
    pub(super) has_group_host: bool,
    /// The state of a host that does not register every job with every server.
    pub(super) lazy_registration: Option<LazyRegistration>,
    pub(super) invited_groups: InvitedGroups,
    pub(super) departures: GroupDepartures,
    pub(super) hosted_groups: HostedGroups,
    /// The scheduler, in worlds that have one.
    pub(super) allocations: Option<Allocations>,
    /// Forwarded output, in worlds that have it.
    pub(super) output_pulls: Option<OutputPulls>,
    pub(super) rules: Rules,
    pub(super) trace: Trace,
    pub(super) fault_schedule: FaultSchedule,
    pub(super) network: Random,
    pub(super) sample: Random,
    pub(super) canary: Random,
    /// Commits that servers have taken in and not answered yet, with their content.
    pub(super) commits: BTreeMap<(PeerId, Tag), Vec<Put>>,
    /// The request that the present input brought.
    pub(super) arriving: Option<(PeerId, Tag)>,
    /// The upcall whose answer was just given up as lost.
    pub(super) lost_upcall: Option<UpcallId>,
    pub(super) seed: u64,
    pub(super) requests: u64,
    /// Processes that will act again.
    pub(super) acting: u32,
    pub(super) is_ending: bool,
    /// Earlier runs of this thread, as far as [`Canary::Memory`] lets this run know of them.
    pub(super) leaked_runs: u64,
    last_peer: u64,
}

impl World {
    /// A world before its first step, and the jobs that start in it.
    pub(super) fn new(seed: u64, setup: &Setup, keep: Keep) -> (Self, Vec<JobSetup>) {
        let mut draw = Random::of(seed, RandomStream::Network);
        let mut groups = Random::of(seed, RandomStream::Groups);
        // If the host forms no groups, a group has the processes of one node. So more processes share a node.
        let has_group_host = setup.is_large() || !groups.one_in(4);
        let nodes = setup.nodes.max(1);
        let filled = if has_group_host { nodes } else { u32::try_from(groups.between(1, nodes.into())).unwrap_or(1) };
        let mut jobs = jobs(setup, draw.one_in(2), filled);
        let mut lazy_registration = LazyRegistration::of(seed, setup, &mut jobs, filled);
        let mut program = Program::of(seed, setup, &jobs);
        if !has_group_host {
            program.form_groups_locally(groups);
        }
        lazy_registration.iter_mut().for_each(|host| host.plan(&mut program, has_group_host));
        let mut world = Self {
            program,
            has_group_host,
            lazy_registration,
            nodes: Vec::new(),
            processes: Vec::new(),
            connections: BTreeMap::new(),
            host: Host::default(),
            collectives: LocalCollectives::default(),
            bootstraps: Bootstraps::default(),
            group_request: None,
            invited_groups: InvitedGroups::default(),
            departures: GroupDepartures::default(),
            hosted_groups: HostedGroups::default(),
            allocations: Allocations::of(seed, setup),
            output_pulls: OutputPulls::of(seed, setup),
            rules: Rules::default(),
            trace: Trace::new(keep),
            fault_schedule: FaultSchedule::new(seed, setup),
            network: draw,
            sample: Random::of(seed, RandomStream::Sample),
            canary: Random::of(seed, RandomStream::Canary),
            commits: BTreeMap::new(),
            arriving: None,
            lost_upcall: None,
            seed,
            requests: 0,
            acting: 0,
            is_ending: false,
            leaked_runs: 0,
            last_peer: 0,
            now: Time::ZERO,
            queue: Queue::default(),
            setup: setup.clone(),
            jobs: Vec::new(),
        };
        for node in 0..setup.nodes.max(1) {
            let server = world.new_server(node);
            world.nodes.push(Node::of(server));
        }
        (world, jobs)
    }

    pub(super) fn new_server(&self, node: u32) -> ServerCore<SimStore> {
        let groups = if self.has_group_host { Capabilities::GROUP } else { Capabilities::empty() };
        let learns =
            self.lazy_registration.as_ref().map_or(Capabilities::empty(), |_| Capabilities::REGISTERS_ON_CONNECT);
        let scheduler = self.allocations.as_ref().map_or(Capabilities::empty(), |_| Capabilities::ALLOCATE);
        let forwarding = self.output_pulls.as_ref().map_or(Capabilities::empty(), |_| Capabilities::IOF_PULL);
        let capabilities = Capabilities::CLIENT_CONNECTED
            | Capabilities::CLIENT_FINALIZED
            | Capabilities::FENCE
            | Capabilities::DIRECT_MODEX
            | Capabilities::CONNECT
            | Capabilities::DISCONNECT
            | groups
            | learns
            | scheduler
            | forwarding
            | Capabilities::JOB_CONTROL
            | Capabilities::NOTIFY_EVENT
            | Capabilities::LOG;
        let limits = Limits { requests_per_peer_max: REQUESTS_MAX, ..Limits::default() };
        let tools = ToolPolicy { admission: ToolAdmission::Assigned, own_uid: USER, ..ToolPolicy::default() };
        let host_timeout = Some(HOST_TIMEOUT);
        let config = ServerConfig { capabilities, limits, host_timeout, tools, ..ServerConfig::default() };
        let span_bytes = SPAN_BYTES + u64::from(self.setup.ranks) * 64;
        let store = SimStore::new(&format!("n{node}"), span_bytes, self.setup.canary);
        ServerCore::new(config, store)
    }

    pub(super) fn latency(&mut self) -> Duration {
        let nanoseconds = self.network.between(10_000, 200_000);
        Duration::from_nanos(nanoseconds + self.leaked_runs)
    }

    pub(super) fn next_peer(&mut self) -> PeerId {
        self.last_peer += 1;
        PeerId(self.last_peer)
    }

    pub(super) fn node(&self, node: u32) -> Option<&Node> {
        self.nodes.get(usize::try_from(node).ok()?)
    }

    pub(super) fn node_mut(&mut self, node: u32) -> Option<&mut Node> {
        self.nodes.get_mut(usize::try_from(node).ok()?)
    }

    pub(super) fn process(&self, process: u32) -> Option<&Process> {
        self.processes.get(usize::try_from(process).ok()?)
    }

    pub(super) fn process_mut(&mut self, process: u32) -> Option<&mut Process> {
        self.processes.get_mut(usize::try_from(process).ok()?)
    }

    pub(super) fn is_dead(&self, node: u32) -> bool {
        self.node(node).is_none_or(|node| node.is_dead || node.server.is_none())
    }

    /// The server that runs on a node now.
    pub(super) fn server_at(&self, node: u32) -> Option<ServerId> {
        let of = self.node(node)?;
        of.server.as_ref().map(|_| ServerId { node, epoch: of.epoch })
    }

    pub(super) fn is_serving(&self, server: ServerId) -> bool {
        self.server_at(server.node) == Some(server)
    }

    pub(super) fn core(&self, server: ServerId) -> Option<&ServerCore<SimStore>> {
        self.node(server.node).filter(|node| node.epoch == server.epoch)?.server.as_ref()
    }

    pub(super) fn core_mut(&mut self, server: ServerId) -> Option<&mut ServerCore<SimStore>> {
        self.node_mut(server.node).filter(|node| node.epoch == server.epoch)?.server.as_mut()
    }

    pub(super) fn job_named(&self, namespace: &Namespace) -> Option<(usize, &JobSetup)> {
        self.jobs.iter().enumerate().find(|(_, job)| job.namespace == *namespace)
    }

    /// The server of a process, or of some process of a job.
    pub(super) fn server_of(&self, proc: &ProcId) -> Option<ServerId> {
        let (_, job) = self.job_named(&proc.namespace)?;
        self.server_at(job.node_of(proc.rank.process().filter(|rank| *rank < job.size).unwrap_or(0)))
    }

    /// Whether every server has heard of the jobs named. Before that, invitations may miss their targets.
    pub(super) fn have_started(&self, procs: &[ProcId]) -> bool {
        procs.iter().all(|entry| {
            let Some((_, job)) = self.job_named(&entry.namespace) else { return false };
            let is_new = |node: u32| self.node(node).is_some_and(|of| of.epoch > 0);
            job.unheard_on.iter().all(|node| self.is_dead(*node) || is_new(*node))
        })
    }

    /// Whether a job is registered with a server at present.
    pub(super) fn is_registered(&self, server: ServerId, namespace: &Namespace) -> bool {
        let number = self.job_named(namespace).map(|(number, _)| number);
        self.node(server.node).zip(number).is_some_and(|(node, number)| node.registered.contains(&number))
    }

    /// The participants that a server may know. An operation that reverses an earlier one has no process of an ended
    /// job.
    pub(super) fn lasting(&self, server: ServerId, kind: &CollectiveKind, procs: &[ProcId]) -> Vec<ProcId> {
        let ended = self.node(server.node).map(|node| &node.ended).filter(|_| kind.takes_back());
        let has_ended = |proc: &ProcId| {
            let number = self.job_named(&proc.namespace).map(|(number, _)| number);
            ended.zip(number).is_some_and(|(ended, number)| ended.contains(&number))
        };
        procs.iter().filter(|proc| !has_ended(proc)).cloned().collect()
    }

    /// A server's knowledge of the participants on its node.
    pub(super) fn knowledge(&self, server: ServerId, kind: &CollectiveKind, procs: &[ProcId]) -> Knowledge {
        let Some(node) = self.node(server.node) else { return Knowledge::Little };
        let (mut known, mut is_whole) = (Vec::new(), true);
        for entry in procs {
            let Some((number, job)) = self.job_named(&entry.namespace) else { return Knowledge::Little };
            if kind.takes_back() && node.ended.contains(&number) {
                continue;
            }
            let announced = node.announced.get(&number).map_or(0, BTreeSet::len);
            match node.registered.contains(&number) {
                true if announced >= job.ranks_on(server.node).len() => known.push(entry.clone()),
                false if announced == 0 => is_whole = false,
                _ => return Knowledge::Little,
            }
        }
        match is_whole {
            true => Knowledge::Whole,
            // The worth of this knowledge depends on the host.
            false if self.lazy_registration.is_some() && kind.goes_on_without_jobs() => {
                Knowledge::ButForJobs(self.processes_on(server.node, &known))
            }
            false => Knowledge::Little,
        }
    }

    /// The nodes where participants are.
    pub(super) fn nodes_of(&self, procs: &[ProcId]) -> BTreeSet<u32> {
        let mut nodes = BTreeSet::new();
        for entry in procs {
            let Some((_, job)) = self.job_named(&entry.namespace) else { continue };
            let ranks = job.ranks_of(entry);
            if ranks.len() > 1 {
                nodes.extend(job.node_first..job.node_first.saturating_add(job.node_count));
            } else {
                nodes.extend(ranks.map(|rank| job.node_of(rank)));
            }
        }
        nodes
    }

    /// The participants on one node.
    pub(super) fn processes_on(&self, node: u32, procs: &[ProcId]) -> BTreeSet<u32> {
        let mut processes = BTreeSet::new();
        for entry in procs {
            let Some((_, job)) = self.job_named(&entry.namespace) else { continue };
            let (local, meant) = (job.ranks_on(node), job.ranks_of(entry));
            let both = local.start.max(meant.start)..local.end.min(meant.end);
            processes.extend(both.map(|rank| job.first.saturating_add(rank)));
        }
        processes
    }

    /// A message to a server's end. It does not overtake earlier ones.
    pub(super) fn send_up(&mut self, peer: PeerId, message: ToServer) {
        let at = self.now + self.latency();
        let Some(connection) = self.connections.get_mut(&peer) else { return };
        connection.up = connection.up.max(at);
        self.queue.plan(connection.up, QueuedEvent::ToServer(peer, Box::new(message)));
    }

    /// A message to a client's end. It does not overtake earlier ones.
    pub(super) fn send_down(&mut self, peer: PeerId, message: ToClient) {
        let at = self.now + self.latency();
        let Some(connection) = self.connections.get_mut(&peer) else { return };
        connection.down = connection.down.max(at);
        self.queue.plan(connection.down, QueuedEvent::ToClient(peer, Box::new(message)));
    }

    /// A server never gets the values of an exchange.
    pub(super) fn note_missed(&mut self, node: u32, promise: &Promise) {
        let Some(of) = self.node_mut(node) else { return };
        for promised in promise.values.iter().filter(|promised| promised.node != node) {
            for put in &promised.committed {
                let version = of.missed.entry((promised.process, put.key)).or_default();
                *version = put.other_nodes.max(*version);
            }
        }
    }
}

impl Node {
    pub(super) const fn of(server: ServerCore<SimStore>) -> Self {
        Self {
            server: Some(server),
            epoch: 0,
            is_dead: false,
            timer: None,
            registered: BTreeSet::new(),
            ended: BTreeSet::new(),
            mapped: BTreeMap::new(),
            announced: BTreeMap::new(),
            admitted: BTreeMap::new(),
            gone: BTreeSet::new(),
            missed: BTreeMap::new(),
        }
    }
}

/// User and group of all processes.
pub(super) const USER: u32 = 1000;
pub(super) const GROUP: u32 = 100;
/// The number of unanswered requests that a server takes from one connection: few, so that a flood reaches the bound.
pub(super) const REQUESTS_MAX: usize = 24;
/// Address space of a segment, besides what grows with the job.
const SPAN_BYTES: u64 = 16 << 20;
