//! Pulls of output by processes, and deliveries of the host.

use std::sync::Arc;

use modex::client::Call;
use modex::proto::{IofDeregister, IofPull, Request, Tag};
use modex::server::{Forwarded, HostCall, IofOutput, PeerId};
use modex::types::ProcId;
use modex::types::codes::iof_channel::FWD_STDOUT_CHANNEL;

use crate::faults::Canary;
use crate::output_pulls::OutputStep;
use crate::process::{CallPurpose, PendingCall};
use crate::queue::ServerId;
use crate::rule::Rule;
use crate::world::World;

impl World {
    /// A process pulls output or ends a pull, and goes on without the answer; or the host has output of it.
    pub(crate) fn take_output_step(&mut self, process: u32, peer: PeerId) {
        let Some((server, proc)) = self.place_of(process, peer) else { return };
        let neighbours = self.neighbours_of(server, &proc);
        let request = match self.output_pulls.as_mut().and_then(|pulls| pulls.next(peer, &neighbours)) {
            Some(OutputStep::Pull(source, number)) => Request::IofPull(IofPull {
                procs: vec![source],
                directives: Vec::new(),
                channels: FWD_STDOUT_CHANNEL,
                local_id: Some(number),
            }),
            Some(OutputStep::EndPull(reference)) => {
                Request::IofDeregister(IofDeregister { directives: Vec::new(), reference })
            }
            Some(OutputStep::Output) => return self.deliver_output(server, proc),
            None => return,
        };
        let call = PendingCall { purpose: CallPurpose::Other, is_awaited: false, deadline: None };
        self.client_call(peer, call, Call::Exchange(request));
    }

    fn place_of(&self, process: u32, peer: PeerId) -> Option<(ServerId, ProcId)> {
        self.output_pulls.as_ref()?;
        Some((self.connections.get(&peer)?.server, self.process(process)?.proc.clone()))
    }

    fn neighbours_of(&self, server: ServerId, proc: &ProcId) -> Vec<ProcId> {
        let job = self.job_named(&proc.namespace).map(|(_, job)| job);
        let ranks = job.into_iter().flat_map(|job| job.ranks_on(server.node));
        ranks.map(|rank| ProcId::new(proc.namespace.clone(), rank)).collect()
    }

    fn deliver_output(&mut self, server: ServerId, source: ProcId) {
        if !self.is_serving(server) || !self.is_registered(server, &source.namespace) {
            return;
        }
        let Some(pulls) = &mut self.output_pulls else { return };
        let number = pulls.deliver((server, source.clone()));
        let (channel, bytes) = (FWD_STDOUT_CHANNEL, number.to_string().into_bytes());
        let output = IofOutput { source, channel, bytes, info: Vec::new() };
        self.call(server, HostCall::IofDeliver(Arc::new(output)), None);
    }

    /// Notes a request about pulls. Returns the host's time for the answer, a multiple of its usual time.
    pub(crate) fn note_pull(&mut self, server: ServerId, peer: PeerId, tag: Tag, request: &Request) -> Option<u32> {
        let pulls = self.output_pulls.as_mut()?;
        match request {
            Request::IofPull(IofPull { procs, local_id, .. }) => {
                let source = (server, procs.first()?.clone());
                Some(pulls.ask(peer, tag, source, (*local_id)?))
            }
            Request::IofDeregister(IofDeregister { reference, .. }) => {
                pulls.end(peer, *reference);
                None
            }
            Request::Finalize => {
                pulls.connection_ended(peer);
                None
            }
            _ => None,
        }
    }

    /// A server forwards output.
    pub(crate) fn note_forwarded(&mut self, peer: PeerId, Forwarded { reference, output }: &Forwarded) {
        if self.setup.canary == Some(Canary::OutputLost) && self.canary.one_in(8) {
            return;
        }
        let wrong = self.output_pulls.as_mut().and_then(|pulls| pulls.forwarded((peer, *reference), &output.bytes));
        self.check_output(wrong);
    }

    /// A step of a server has ended: it has forwarded all that it had to.
    pub(crate) fn check_forwarded(&mut self) {
        let wrong = self.output_pulls.as_mut().and_then(|pulls| pulls.step_ended());
        self.check_output(wrong);
    }

    fn check_output(&mut self, wrong: Option<String>) {
        if let Some(wrong) = wrong {
            self.rules.breaks(Rule::OutputOnce, || wrong);
        }
    }
}
