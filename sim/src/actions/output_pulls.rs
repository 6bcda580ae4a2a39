//! Pulls of output by processes and tools, and deliveries of the host.

use std::collections::BTreeSet;
use std::sync::Arc;

use modex::client::Call;
use modex::keys;
use modex::proto::{IofDeregister, IofPull, Request, Tag, Version};
use modex::server::{Credentials, Forwarded, HostCall, Input, IofOutput, PeerId, ToolHello, ToolKind, Upcall};
use modex::types::ProcId;
use modex::types::codes::iof_channel::FWD_STDOUT_CHANNEL;

use crate::faults::Canary;
use crate::invariants::HELLO;
use crate::output_pulls::{OutputPulls, OutputStep};
use crate::process::{CallPurpose, PendingCall};
use crate::queue::ServerId;
use crate::rule::Rule;
use crate::setup::HOST_TIMEOUT;
use crate::world::{GROUP, USER, World};

impl World {
    /// A process pulls output or ends a pull, and goes on without the answer; or a tool of its server does; or the host
    /// has output of the process.
    pub(crate) fn take_output_step(&mut self, process: u32, peer: PeerId) {
        let Some((server, proc)) = self.place_of(process, peer) else { return };
        let neighbours = self.neighbours_of(server, &proc);
        let request = match self.output_pulls.as_mut().and_then(|pulls| pulls.next(peer, server, &neighbours)) {
            Some(OutputStep::Pull(source, number)) => pull(source, number),
            Some(OutputStep::EndPull(reference)) => end_pull(reference),
            Some(OutputStep::Output) => return self.deliver_output(server, proc),
            Some(step) => return self.take_tool_step(server, proc, step),
            None => return,
        };
        let call = PendingCall { purpose: CallPurpose::Other, is_awaited: false, deadline: None };
        self.client_call(peer, call, Call::Exchange(request));
    }

    /// Tools are near their server: their messages come at once.
    fn take_tool_step(&mut self, server: ServerId, source: ProcId, step: OutputStep) {
        if self.is_ending || !self.is_serving(server) || !self.is_registered(server, &source.namespace) {
            return;
        }
        match step {
            OutputStep::Tool => self.connect_tool(server),
            OutputStep::ToolPull(tool, number) => self.ask_for_tool(server, tool, &pull(source, number)),
            OutputStep::EndToolPull(tool, reference) => self.ask_for_tool(server, tool, &end_pull(reference)),
            OutputStep::LoseTool(tool) => self.lose_tool(server, tool),
            OutputStep::Pull(..) | OutputStep::EndPull(_) | OutputStep::Output => {}
        }
    }

    fn connect_tool(&mut self, server: ServerId) {
        let tool = self.next_peer();
        let Some(pulls) = &mut self.output_pulls else { return };
        pulls.add_tool(tool, server);
        let hello = ToolHello {
            kind: ToolKind::Tool,
            claimed: None,
            is_started: false,
            credentials: Credentials { uid: USER, gid: GROUP },
            claimed_gid: GROUP,
            reads_entries: true,
            version: Version::new(5, 0, 0),
            version_text: String::new(),
            info: Vec::new(),
            strangers: BTreeSet::new(),
        };
        self.rules.accepted(tool, HELLO, Some(self.now));
        self.serve(server, Input::ToolConnected(tool, hello));
    }

    fn ask_for_tool(&mut self, server: ServerId, tool: PeerId, request: &Request) {
        let Some(number) = self.output_pulls.as_mut().map(OutputPulls::next_number) else { return };
        let tag = Tag(u32::try_from(number).unwrap_or(u32::MAX));
        let questions = self.note_pull(server, tool, tag, request);
        self.rules.accepted(tool, tag, Some(self.now + HOST_TIMEOUT * questions.unwrap_or(0)));
        self.serve(server, Input::Request(tool, tag, request.clone()));
    }

    fn lose_tool(&mut self, server: ServerId, tool: PeerId) {
        self.end_at_server(tool, true);
        if self.setup.canary != Some(Canary::DeafServer) {
            self.serve(server, Input::Lost(tool));
        }
    }

    /// All tools of a server leave.
    pub(crate) fn lose_tools(&mut self, server: ServerId) {
        self.tools_of(server).into_iter().for_each(|tool| self.lose_tool(server, tool));
    }

    pub(crate) fn tools_of(&self, server: ServerId) -> Vec<PeerId> {
        self.output_pulls.as_ref().map(|pulls| pulls.tools_of(server)).unwrap_or_default()
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

    /// A server asks the host for output, or tells it to stop.
    pub(crate) fn note_question_about_output(&mut self, server: ServerId, upcall: &Upcall) {
        let (Upcall::IofPull(_, pull), Some(pulls)) = (upcall, &mut self.output_pulls) else { return };
        let is_stop = pull.directives.iter().any(|info| info.key.as_str() == keys::IOF_STOP.name());
        pull.procs.iter().for_each(|proc| pulls.host_asked((server, proc.clone()), is_stop));
    }

    /// A server forwards output.
    pub(crate) fn note_forwarded(&mut self, peer: PeerId, Forwarded { reference, output }: &Forwarded) {
        let is_tool = self.output_pulls.as_ref().is_some_and(|pulls| pulls.is_tool(peer));
        let is_lossy = match self.setup.canary {
            Some(Canary::OutputLost) => true,
            Some(Canary::ToolOutputLost) => is_tool,
            _ => false,
        };
        if is_lossy && self.canary.one_in(8) {
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

fn pull(source: ProcId, number: u64) -> Request {
    Request::IofPull(IofPull {
        procs: vec![source],
        directives: Vec::new(),
        channels: FWD_STDOUT_CHANNEL,
        local_id: Some(number),
    })
}

fn end_pull(reference: u64) -> Request {
    Request::IofDeregister(IofDeregister { directives: Vec::new(), reference })
}
