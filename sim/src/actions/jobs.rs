//! Jobs: how the host starts and ends them, and how their processes end.

use std::time::Duration;

use modex::server::HostCall;
use modex::types::Namespace;

use crate::process::{Process, State};
use crate::queue::QueuedEvent;
use crate::random::{Random, RandomStream};
use crate::setup::JobSetup;
use crate::world::World;

impl World {
    /// The host registers a job with its servers, even where it has no processes, and starts its processes.
    pub(crate) fn launch(&mut self, mut job: JobSetup, delay: Duration) {
        let number = self.jobs.len();
        for rank in 0..job.size {
            let process = job.first.saturating_add(rank);
            let random = Random::of(self.seed, RandomStream::Process(process));
            self.processes.push(Process::new(number, rank, job.proc(rank), job.node_of(rank), random));
            let at = self.now + delay + Duration::from_micros(self.network.between(10, 1000));
            self.queue.plan(at, QueuedEvent::Start(process));
        }
        self.acting = self.acting.saturating_add(job.size);
        let nodes = self.heard_by(&job);
        job.unheard_on = nodes.clone();
        self.jobs.push(job);
        for node in nodes {
            let late = self.lateness(number);
            if let Some(server) = self.server_at(node) {
                self.register(number, server, self.now + delay + late);
            }
        }
    }

    /// The host ends everything that still runs.
    pub(crate) fn end(&mut self) {
        if std::mem::replace(&mut self.is_ending, true) {
            return;
        }
        let namespaces: Vec<Namespace> = self.jobs.iter().map(|job| job.namespace.clone()).collect();
        for node in 0..u32::try_from(self.nodes.len()).unwrap_or(0) {
            self.server_at(node).into_iter().for_each(|server| self.lose_tools(server));
            for namespace in &namespaces {
                let Some(server) = self.server_at(node) else { break };
                let at = self.now + self.latency();
                let call = Box::new(HostCall::DeregisterNamespace(namespace.clone()));
                self.queue.plan(at, QueuedEvent::Call(server, call, None));
            }
        }
    }

    /// A process will not act any more. Once no process acts, the host ends the jobs.
    pub(crate) fn retire(&mut self, process: u32, state: State) {
        let Some(of) = self.process_mut(process) else { return };
        let was_over = of.is_over();
        of.state = state;
        if was_over {
            return;
        }
        self.acting = self.acting.saturating_sub(1);
        if self.acting == 0 {
            self.queue.plan(self.now + Duration::from_millis(10), QueuedEvent::End);
        }
    }
}
