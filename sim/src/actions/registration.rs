//! The servers that the host tells of a job, and the time of each registration.
//!
//! Most hosts register every job with every server. Some worlds have a host of the other kind, as the daemons of Open
//! MPI are (`Capabilities::REGISTERS_ON_CONNECT`). It registers a job with the servers that have processes of the job.
//! Any other server gets the job only after asking to connect to it.
//!
//! The registration comes before the answer, with it, or less than a second after it. Now and then it never comes.

use std::collections::BTreeSet;
use std::time::Duration;

use modex::gds::registration::Description;
use modex::server::{HostCall, RegisterClient, RegisterNamespace};
use modex::types::{Info, Key, Time};

use crate::faults::Faults;
use crate::host::Subject;
use crate::queue::{QueuedEvent, ServerId};
use crate::registration::{LazyRegistration, REGISTRATION_MAX_US};
use crate::setup::JobSetup;
use crate::world::{GROUP, USER, World};

impl World {
    /// The servers that hear of a job when it starts.
    pub(crate) fn heard_by(&self, job: &JobSetup) -> BTreeSet<u32> {
        let nodes = 0..u32::try_from(self.nodes.len()).unwrap_or(0);
        nodes.filter(|node| self.lazy_registration.is_none() || !job.ranks_on(*node).is_empty()).collect()
    }

    /// Plans the registration of a job and its processes with one server.
    pub(crate) fn register(&mut self, number: usize, server: ServerId, at: Time) {
        let Some(job) = self.jobs.get(number) else { return };
        let size = Info::new(Key::from_static(modex::keys::JOB_SIZE.name()), job.size);
        let registration = RegisterNamespace {
            namespace: job.namespace.clone(),
            local_count: u32::try_from(job.ranks_on(server.node).len()).ok(),
            description: Description::from(vec![size]),
            nodata: false,
        };
        self.queue.plan(at, QueuedEvent::Call(server, Box::new(HostCall::RegisterNamespace(registration)), None));
        for rank in job.ranks_on(server.node) {
            let client = RegisterClient { proc: job.proc(rank), uid: USER, gid: GROUP, object: u64::from(rank) };
            self.queue.plan(at, QueuedEvent::Call(server, Box::new(HostCall::RegisterClient(client)), None));
        }
    }

    /// How late a job is registered with a server that hears of it when it starts.
    pub(crate) fn lateness(&mut self, job: usize) -> Duration {
        let mut late = Duration::ZERO;
        if job == 1 && self.fault_schedule.stream(Faults::UNREGISTERED).is_some() && self.fault_schedule.spend() {
            let random = self.fault_schedule.stream(Faults::UNREGISTERED);
            late = Duration::from_millis(random.map_or(0, |random| random.below(2_000)));
        }
        match &mut self.lazy_registration {
            Some(learning) if job == 1 && learning.is_late => {
                (late / 2).max(Duration::from_micros(learning.random.below(REGISTRATION_MAX_US)))
            }
            Some(_) => late / 2,
            None => late,
        }
    }

    /// Whether a host that registers jobs at several times has registered an earlier one with a server of this job.
    pub(crate) fn is_registered_already(&self, server: ServerId, call: &HostCall) -> bool {
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
        self.lazy_registration.is_some() && (is_known || node.ended.contains(&number))
    }

    /// The host ends a job everywhere.
    pub(crate) fn note_job_over(&mut self, number: usize) {
        if let Some(learning) = &mut self.lazy_registration {
            learning.over.insert(number);
        }
    }

    /// A server asks to connect processes of these jobs.
    pub(crate) fn tell_before_answer(&mut self, server: ServerId, subject: &Subject) {
        for number in self.jobs_to_tell_of(server, subject) {
            if let Some(late) = self.lazy_registration.as_mut().and_then(LazyRegistration::before_answer) {
                self.register(number, server, self.now + late);
            }
        }
    }

    /// The host has answered; the server gets the answer at that time.
    pub(crate) fn tell_with_answer(&mut self, server: ServerId, subject: &Subject, answered: Time) {
        for number in self.jobs_to_tell_of(server, subject) {
            if let Some(late) = self.lazy_registration.as_mut().and_then(LazyRegistration::after_answer) {
                self.register(number, server, answered + late);
            }
        }
    }

    /// The jobs of a connect that the host knows and the server does not.
    fn jobs_to_tell_of(&self, server: ServerId, subject: &Subject) -> Vec<usize> {
        let Some(learning) = self.lazy_registration.as_ref().filter(|_| subject.is_connect()) else {
            return Vec::new();
        };
        let known = |number: &usize| self.node(server.node).is_some_and(|node| node.registered.contains(number));
        let named = subject.procs().iter().filter_map(|entry| Some(self.job_named(&entry.namespace)?.0));
        let named: BTreeSet<usize> = named.collect();
        named.into_iter().filter(|number| !known(number) && !learning.over.contains(number)).collect()
    }
}
