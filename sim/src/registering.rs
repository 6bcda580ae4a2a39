//! Which servers the host tells of a job, and when.
//!
//! Most hosts tell every server of every job. In some worlds the host is of the other kind, as the daemons of Open MPI are
//! (`Capabilities::REGISTERS_ON_CONNECT`): a job is registered where it has processes, and with another server only when that
//! asks to connect somebody to it: before the answer, with it, or less than a second after it; now and then not at all.

use std::collections::BTreeSet;
use std::time::Duration;

use modex::gds::registration::Description;
use modex::server::{HostCall, RegisterClient, RegisterNamespace};
use modex::types::{Info, Key, Time};

use super::faults::Faults;
use super::host::Subject;
use super::program::Program;
use super::queue::{Event, ServerId};
use super::random::{Random, Stream};
use super::setup::{Job, Setup, part};
use super::world::{GROUP, USER, World};

/// A host that tells servers of other jobs when they ask to connect to them.
#[derive(Debug)]
pub(super) struct Learning {
    random: Random,
    /// Whether the second job comes late where it has processes. They are told of in time: less than a second after anybody
    /// can have named it.
    is_late: bool,
    /// Jobs that it has ended: nobody connects to them.
    over: BTreeSet<usize>,
}

impl Learning {
    /// One in four of the small worlds with several jobs has such a host. The jobs are on nodes of their own in half of them,
    /// and they connect.
    pub(super) fn of(seed: u64, setup: &Setup, jobs: &mut [Job], nodes: u32) -> Option<Self> {
        let mut random = Random::of(seed, Stream::Registrations);
        if setup.is_large() || jobs.len() < 2 || !random.one_in(4) {
            return None;
        }
        if random.one_in(2) {
            part(jobs, nodes);
        }
        Some(Self { is_late: random.one_in(2), random, over: BTreeSet::new() })
    }

    pub(super) fn plan(&mut self, program: &mut Program, has_group_host: bool) {
        program.connect_jobs(&mut self.random, has_group_host);
    }

    /// How long after its question a server is told of a job, if that is not to come with the answer, or later.
    fn before_answer(&mut self) -> Option<Duration> {
        self.random.one_in(3).then(|| Duration::from_micros(self.random.between(0, 200)))
    }

    /// How long after the answer, if ever.
    fn after_answer(&mut self) -> Option<Duration> {
        match self.random.below(8) {
            0 => None,
            1..=3 => Some(Duration::ZERO),
            _ => Some(Duration::from_micros(self.random.below(REGISTRATION_MAX_US))),
        }
    }
}

impl World {
    /// The servers that hear of a job when it starts.
    pub(super) fn heard_by(&self, job: &Job) -> BTreeSet<u32> {
        let nodes = 0..u32::try_from(self.nodes.len()).unwrap_or(0);
        nodes.filter(|node| self.learning.is_none() || !job.ranks_on(*node).is_empty()).collect()
    }

    /// Plans the registration of a job and its processes with one server.
    pub(super) fn register(&mut self, number: usize, server: ServerId, at: Time) {
        let Some(job) = self.jobs.get(number) else { return };
        let size = Info::new(Key::from_static(modex::keys::JOB_SIZE.name()), job.size);
        let registration = RegisterNamespace {
            namespace: job.namespace.clone(),
            local_count: u32::try_from(job.ranks_on(server.node).len()).ok(),
            description: Description::from(vec![size]),
            nodata: false,
        };
        self.queue.plan(at, Event::Call(server, Box::new(HostCall::RegisterNamespace(registration)), None));
        for rank in job.ranks_on(server.node) {
            let client = RegisterClient { proc: job.proc(rank), uid: USER, gid: GROUP, object: u64::from(rank) };
            self.queue.plan(at, Event::Call(server, Box::new(HostCall::RegisterClient(client)), None));
        }
    }

    /// How late a job is registered with a server that hears of it when it starts.
    pub(super) fn lateness(&mut self, job: usize) -> Duration {
        let mut late = Duration::ZERO;
        if job == 1 && self.dice.stream(Faults::UNREGISTERED).is_some() && self.dice.spend() {
            let random = self.dice.stream(Faults::UNREGISTERED);
            late = Duration::from_millis(random.map_or(0, |random| random.below(2_000)));
        }
        match &mut self.learning {
            Some(learning) if job == 1 && learning.is_late => {
                (late / 2).max(Duration::from_micros(learning.random.below(REGISTRATION_MAX_US)))
            }
            Some(_) => late / 2,
            None => late,
        }
    }

    /// Whether a host that tells of jobs at several times has told a server of this one before.
    pub(super) fn is_told_again(&self, server: ServerId, call: &HostCall) -> bool {
        let namespace = match call {
            HostCall::RegisterNamespace(registration) => &registration.namespace,
            HostCall::RegisterClient(registration) => &registration.proc.namespace,
            _ => return false,
        };
        let (Some((number, job)), Some(node)) = (self.job_named(namespace), self.node(server.node)) else {
            return false;
        };
        let is_known = match call {
            HostCall::RegisterClient(RegisterClient { proc, .. }) => {
                let process = proc.rank.process().map(|rank| job.first.saturating_add(rank));
                node.announced.get(&number).zip(process).is_some_and(|(all, process)| all.contains(&process))
            }
            _ => node.registered.contains(&number),
        };
        self.learning.is_some() && (is_known || node.ended.contains(&number))
    }

    /// The host ends a job everywhere.
    pub(super) fn note_job_over(&mut self, number: usize) {
        if let Some(learning) = &mut self.learning {
            learning.over.insert(number);
        }
    }

    /// A server asks to connect processes of these jobs.
    pub(super) fn tell_before_answer(&mut self, server: ServerId, subject: &Subject) {
        for number in self.jobs_to_tell_of(server, subject) {
            if let Some(late) = self.learning.as_mut().and_then(Learning::before_answer) {
                self.register(number, server, self.now + late);
            }
        }
    }

    /// The host has answered, so that the server hears it at that time.
    pub(super) fn tell_with_answer(&mut self, server: ServerId, subject: &Subject, answered: Time) {
        for number in self.jobs_to_tell_of(server, subject) {
            if let Some(late) = self.learning.as_mut().and_then(Learning::after_answer) {
                self.register(number, server, answered + late);
            }
        }
    }

    /// The jobs of a connect that its server does not know, and the host does.
    fn jobs_to_tell_of(&self, server: ServerId, subject: &Subject) -> Vec<usize> {
        let Some(learning) = self.learning.as_ref().filter(|_| subject.is_connect()) else { return Vec::new() };
        let known = |number: &usize| self.node(server.node).is_some_and(|node| node.registered.contains(number));
        let named = subject.procs().iter().filter_map(|entry| Some(self.job_named(&entry.namespace)?.0));
        let named: BTreeSet<usize> = named.collect();
        named.into_iter().filter(|number| !known(number) && !learning.over.contains(number)).collect()
    }
}

/// A job is registered less than a second after the answer to a connect.
const REGISTRATION_MAX_US: u64 = 1_000_000;
