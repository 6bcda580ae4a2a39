//! The interface of the server core: its inputs, its outputs, and the rules for both.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use modex::proto::notification::EventNotice;
use modex::proto::{Reply, Request, Tag};
use modex::server::{Answer, HostCall, HostReply, Input, NodeHardware, Output, PeerId, UpcallId};
use modex::types::{Namespace, ProcId, Status, Text};

use super::bootstraps::forget_added;
use crate::faults::Canary;
use crate::invariants::HELLO;
use crate::invited_groups;
use crate::local_collectives::Ended;
use crate::queue::{QueuedEvent, ServerId, ToClient, ToServer};
use crate::rule::Rule;
use crate::setup::HOST_TIMEOUT;
use crate::trace::{brief, status_of, words_of};
use crate::value::Promise;
use crate::world::World;

impl World {
    /// Something arrives at the server's end of a connection.
    pub(crate) fn at_server(&mut self, peer: PeerId, message: ToServer) {
        let Some(connection) = self.connections.get(&peer) else { return };
        let (server, process) = (connection.server, connection.process);
        if !self.is_serving(server) {
            return;
        }
        match message {
            ToServer::Hello(hello) => {
                self.rules.accepted(peer, HELLO, Some(self.now + HOST_TIMEOUT));
                self.serve(server, Input::Connected(peer, hello));
            }
            ToServer::Hangup => {
                let is_known = !connection.is_server_gone;
                self.end_at_server(peer, true);
                if is_known && self.setup.canary != Some(Canary::DeafServer) {
                    self.serve(server, Input::Lost(peer));
                }
                self.connections.remove(&peer);
            }
            ToServer::Request(tag, mut request, puts) => {
                // A server owes no answer to a message on a closed connection.
                if !connection.is_server_gone {
                    self.accept(server, peer, tag, process, &request);
                    if let Request::Commit(_) = &request {
                        self.commits.insert((peer, tag), puts);
                    }
                }
                if self.setup.canary == Some(Canary::AddedLost) {
                    forget_added(&mut request);
                }
                if self.setup.canary == Some(Canary::JobUnawaited) {
                    self.hide_late_jobs(server, &request);
                }
                self.arriving = Some((peer, tag));
                self.serve(server, Input::Request(peer, tag, request));
                self.arriving = None;
            }
        }
    }

    /// Gives a server one input and carries out its outputs.
    pub(crate) fn serve(&mut self, server: ServerId, input: Input) {
        let now = self.now;
        self.trace.words(&[u64::from(server.node), u64::from(server.epoch)]);
        self.trace.line(now, || format!("server {} < {}", server.node, brief(&input)));
        let look_back = self.before(server, &input);
        let Some(core) = self.core_mut(server) else { return };
        core.handle(now, input);
        while let Some(output) = self.core_mut(server).and_then(|core| core.poll_output()) {
            self.trace.words(&words_of(&output));
            self.trace.line(now, || format!("server {} > {}", server.node, brief(&output)));
            if let Some(answer) = self.execute(server, output) {
                self.note_answer(server, &answer);
                if let Some(core) = self.core_mut(server) {
                    core.handle(now, answer);
                }
            }
        }
        self.after(server, look_back);
        self.check_forwarded();
        self.check_waits(server);
        self.arm_server(server);
    }

    /// Notes the state that an input is about to remove. Returns the state to drop after the server has dropped its
    /// own.
    fn before(&mut self, server: ServerId, input: &Input) -> Option<Forget> {
        match input {
            Input::Host(_, HostCall::DeregisterClient(proc)) => {
                let (number, process) = (self.job_named(&proc.namespace)?.0, self.number_of(proc)?);
                if self.node(server.node)?.announced.get(&number)?.contains(&process) {
                    self.depart(server, process);
                }
                None
            }
            Input::Host(_, HostCall::DeregisterNamespace(namespace)) => Some(Forget::Namespace(namespace.clone())),
            Input::Host(_, HostCall::RegisterNamespace(registration)) => {
                let number = self.job_named(&registration.namespace)?.0;
                let node = self.node_mut(server.node)?;
                node.registered.insert(number);
                node.ended.remove(&number);
                self.jobs.get_mut(number)?.unheard_on.remove(&server.node);
                self.note_registration(server);
                None
            }
            Input::Host(_, HostCall::RegisterClient(registration)) => {
                let number = self.job_named(&registration.proc.namespace)?.0;
                let process = self.number_of(&registration.proc)?;
                let node = self.node_mut(server.node)?;
                node.announced.entry(number).or_default().insert(process);
                node.ended.remove(&number);
                node.gone.remove(&process);
                self.note_registration(server);
                None
            }
            Input::Completed(upcall, _) => {
                self.note_answer(server, input);
                Some(Forget::Upcall(*upcall))
            }
            Input::Timeout => Some(Forget::Expired),
            _ => None,
        }
    }

    fn note_answer(&mut self, server: ServerId, input: &Input) {
        if let Input::Completed(upcall, HostReply::Status(status)) = input {
            let agrees = matches!(*status, Status::SUCCESS | Status::ERR_PARTIAL_SUCCESS);
            self.collectives.answered(server, *upcall, agrees);
        }
    }

    /// The participants may be known now. An operation that lacked only this knowledge is handed over in this step.
    fn note_registration(&mut self, server: ServerId) {
        let gone = self.node(server.node).map(|node| node.gone.clone()).unwrap_or_default();
        let mut collectives = std::mem::take(&mut self.collectives);
        collectives.registered(server, &gone, |kind, procs| self.knowledge(server, kind, procs));
        self.collectives = collectives;
    }

    fn after(&mut self, server: ServerId, forget: Option<Forget>) {
        match forget {
            Some(Forget::Namespace(namespace)) => {
                self.forget_formed(server, None);
                self.output_pulls.iter_mut().for_each(|pulls| pulls.job_ended(server, &namespace));
                self.collectives.forgotten(server, |procs| procs.iter().any(|proc| proc.namespace == namespace));
                let number = self.job_named(&namespace).map(|(number, _)| number);
                if let (Some(number), Some(node)) = (number, self.node_mut(server.node)) {
                    let (was_registered, announced) = (node.registered.remove(&number), node.announced.remove(&number));
                    if was_registered || announced.is_some() {
                        node.ended.insert(number);
                    }
                    node.mapped.remove(&namespace);
                }
            }
            Some(Forget::Upcall(upcall)) => {
                self.collectives.settled(server, upcall);
                if self.setup.canary == Some(Canary::AheadEarly)
                    && let Some((peer, tag)) = self.collectives.somebody_early(server, self.now)
                {
                    self.let_go(server, peer, tag);
                }
            }
            Some(Forget::Expired) => self.collectives.expired(server, self.now),
            None => {}
        }
        self.enter_group();
        if let Some(what) = self.bootstraps.step_ended(server) {
            self.rules.breaks(Rule::NoWaitInVain, || what);
        }
        self.note_fetches_awaited(server);
    }

    pub(crate) fn note_fetches_awaited(&mut self, server: ServerId) {
        let Self { rules, nodes, .. } = self;
        let core = usize::try_from(server.node).ok().and_then(|node| nodes.get(node)?.server.as_ref());
        if let Some(core) = core {
            rules.fetches_still_awaited(server, |upcall| core.awaits(upcall));
        }
    }

    /// Nobody waits in vain, by this account and by the core's own. A small world is checked after each step, a large
    /// one now and then.
    fn check_waits(&mut self, server: ServerId) {
        let is_due = !self.setup.is_large() || self.sample.one_in(4096);
        if !is_due {
            return;
        }
        if let Some(core) = self.core(server) {
            core.assert_consistent();
        }
        let complete = self.collectives.complete_but_waiting(server, self.now);
        self.rules.operations_lack_somebody(server, complete);
        let Some(node) = usize::try_from(server.node).ok().and_then(|node| self.nodes.get(node)) else { return };
        let processes = &self.processes;
        self.rules.values_wanted(server, |whose, key| {
            let of = usize::try_from(whose).ok().and_then(|whose| processes.get(whose));
            let has_left = node.gone.contains(&whose) || node.admitted.get(&whose).is_some_and(BTreeSet::is_empty);
            has_left || of.is_some_and(|of| of.committed.iter().any(|put| put.key == key && put.is_for_others()))
        });
    }

    /// Carries out an output of the server. Returns the host's answer if it comes before anything else.
    fn execute(&mut self, server: ServerId, output: Output) -> Option<Input> {
        match output {
            Output::Admit(peer, _) => {
                self.rules.answered(self.now, peer, HELLO);
                self.admit(server, peer);
                self.send_down(peer, ToClient::Admitted);
            }
            Output::AdmitTool(tool, ..) => self.rules.answered(self.now, tool, HELLO),
            Output::Refuse(peer, _) => {
                self.rules.answered(self.now, peer, HELLO);
                self.end_at_server(peer, false);
                self.send_down(peer, ToClient::Refused);
            }
            Output::Close(peer, _) => {
                self.end_at_server(peer, true);
                self.send_down(peer, ToClient::Closed);
            }
            Output::Answer(peer, tag, answer) => {
                let core = self.core(server)?;
                let reply = match answer.into_reply(core.store()) {
                    Ok(reply) => reply,
                    Err(Answer::JobInfo(namespace)) => {
                        Reply::JobInfo { namespace: Text::from(namespace.as_str()), entries: Vec::new() }
                    }
                    // The nodes of a simulated cluster have no hardware.
                    Err(_) => Reply::Status(Status::ERR_NOT_SUPPORTED),
                };
                let reference = if let Reply::IofPulled(reference) = &reply { Some(*reference) } else { None };
                self.output_pulls.iter_mut().for_each(|pulls| pulls.answered(peer, tag, reference));
                self.reply(server, peer, tag, reply);
            }
            Output::WantTopology => return Some(Input::Topology(NodeHardware(None))),
            Output::Unfinished(peer) => return Some(Input::Proceed(peer)),
            Output::SendSegment(peer, namespace) => self.send_down(peer, ToClient::Segment(namespace)),
            Output::WithdrawSegment(peer, namespace) => self.send_down(peer, ToClient::Withdrawn(namespace)),
            Output::Forward(peer, forwarded) => self.note_forwarded(peer, &forwarded),
            Output::Notify(peer, delivery) => self.notify(peer, Arc::new(delivery.notice())),
            Output::Upcall(id, upcall) => {
                self.note_question_about_output(server, &upcall);
                return self.upcall(server, id, upcall);
            }
            Output::Complete(call, result) => self.completed(server, call, result.read()),
            Output::Described(_)
            // No host of the simulator pulls output.
            | Output::HandOver(_)
            // No process of the simulator keeps copies.
            | Output::TellRemoval(..)
            | Output::Raise(_)
            | Output::Inventories
            | Output::Cleanup(_)
            | Output::Wake(_)
            | Output::LookAtFile(..)
            | Output::Look(..)
            | Output::Measure(..)
            | Output::Discard(_) => {}
        }
        None
    }

    /// A server hands on an event.
    fn notify(&mut self, peer: PeerId, event: Arc<EventNotice>) {
        if self.setup.canary == Some(Canary::EventLost) && self.canary.one_in(8) {
            return;
        }
        // An event without a number comes from a server: it answers a late process.
        let is_for_latecomer =
            event.status == Status::GROUP_CONSTRUCT_ABORT && !invited_groups::is_from_process(&event.info);
        if self.setup.canary == Some(Canary::LateAnswerLost) && is_for_latecomer {
            return;
        }
        let process = self.connections.get(&peer).and_then(|connection| self.process(connection.process));
        let wrong = process.map(|of| of.proc.clone()).and_then(|proc| self.invited_groups.reaches(peer, &proc, &event));
        self.rules.event_went(wrong);
        self.send_down(peer, ToClient::Event(event));
    }

    /// A server answers a request.
    fn reply(&mut self, server: ServerId, peer: PeerId, tag: Tag, mut reply: Reply) {
        if self.setup.canary == Some(Canary::ReplyLost) && self.canary.one_in(16) {
            return;
        }
        if !self.has_group_host {
            self.check_group_reply(peer, tag, &reply);
        }
        self.check_formed(server, peer, tag, &mut reply);
        self.rules.answered(self.now, peer, tag);
        if self.setup.canary == Some(Canary::ReplyTwice) && self.canary.one_in(16) {
            self.rules.answered(self.now, peer, tag);
        }
        let status = status_of(&reply);
        let puts = self.commits.remove(&(peer, tag));
        if let (Some(puts), Status::SUCCESS, Some(connection)) = (puts, status, self.connections.get(&peer)) {
            let process = connection.process;
            if let Some(of) = self.process_mut(process) {
                of.note_committed(&puts);
            }
        }
        let wrong = self.invited_groups.replied(server, peer, tag, status);
        self.rules.event_went(wrong);
        let is_new = self.arriving == Some((peer, tag));
        let ended = self.collectives.replied(self.now, peer, tag, status, is_new);
        let promise = self.check_end(server, peer, ended);
        self.send_down(peer, ToClient::Reply(tag, reply, promise));
        if self.setup.canary == Some(Canary::FenceEarly) {
            self.let_one_go_early(server);
        }
    }

    /// No collective operation succeeds with a participant missing.
    fn check_end(&mut self, server: ServerId, peer: PeerId, ended: Ended) -> Option<Rc<Promise>> {
        let what = match ended {
            Ended::Nothing => return None,
            Ended::Wrongly(what) => what,
            Ended::Well { left_out: Some(process), .. } => format!("without waiting for process {process}"),
            Ended::Well { missing, .. } if missing > 0 => format!("with {missing} local participants missing"),
            Ended::Well { was_answered: true, promise: None, .. } => "although the host did not say so".to_owned(),
            Ended::Well { promise, .. } => return promise,
        };
        self.rules.breaks(Rule::NothingMissing, || format!("{server:?} reports success to {peer:?} {what}"));
        None
    }

    /// A planted defect: one waiting process is told that all have come.
    fn let_one_go_early(&mut self, server: ServerId) {
        if let Some((peer, tag)) = self.collectives.somebody_waiting(server).filter(|_| self.canary.one_in(8)) {
            self.let_go(server, peer, tag);
        }
    }

    fn let_go(&mut self, server: ServerId, peer: PeerId, tag: Tag) {
        self.rules.answered(self.now, peer, tag);
        let ended = self.collectives.replied(self.now, peer, tag, Status::SUCCESS, false);
        let promise = self.check_end(server, peer, ended);
        self.send_down(peer, ToClient::Reply(tag, Reply::Status(Status::SUCCESS), promise));
    }

    fn admit(&mut self, server: ServerId, peer: PeerId) {
        let Some(process) = self.connections.get(&peer).map(|connection| connection.process) else { return };
        if let Some(node) = self.node_mut(server.node) {
            node.admitted.entry(process).or_default().insert(peer);
            node.gone.remove(&process);
        }
    }

    /// A connection leaves in order.
    pub(crate) fn leave(&mut self, server: ServerId, process: u32, peer: PeerId) {
        if let Some(peers) = self.node_mut(server.node).and_then(|node| node.admitted.get_mut(&process)) {
            peers.remove(&peer);
            if peers.is_empty() {
                self.note_parting(process);
            }
        }
    }

    fn note_parting(&mut self, process: u32) {
        self.return_allocations(process);
        let (now, proc) = (self.now, self.process(process).map(|of| of.proc.clone()));
        proc.into_iter().for_each(|proc| self.invited_groups.left(&proc, now));
    }

    /// A connection has ended for the server. A process has gone with its last connection.
    pub(crate) fn end_at_server(&mut self, peer: PeerId, was_admitted: bool) {
        self.rules.connection_ended(peer);
        self.output_pulls.iter_mut().for_each(|pulls| pulls.connection_ended(peer));
        // A tool is no process of the program.
        let Some(connection) = self.connections.get_mut(&peer) else { return };
        connection.is_server_gone = true;
        let (server, process) = (connection.server, connection.process);
        self.collectives.connection_ended(peer);
        self.bootstraps.connection_ended(peer);
        self.forget_forming(peer);
        self.invited_groups.connection_ended(peer);
        let ended: Vec<_> = self.commits.range((peer, Tag(0))..=(peer, Tag(u32::MAX))).map(|(id, _)| *id).collect();
        ended.iter().for_each(|id| drop(self.commits.remove(id)));
        let peers = self.node_mut(server.node).and_then(|node| node.admitted.get_mut(&process));
        let was_last = peers.is_some_and(|peers| peers.remove(&peer) && peers.is_empty());
        if was_admitted && was_last {
            self.depart(server, process);
        }
    }

    fn depart(&mut self, server: ServerId, process: u32) {
        if let Some(node) = self.node_mut(server.node) {
            node.gone.insert(process);
        }
        self.note_parting(process);
        self.forget_member(process, None);
        self.collectives.departed(server, process);
    }

    fn number_of(&self, proc: &ProcId) -> Option<u32> {
        let (_, job) = self.job_named(&proc.namespace)?;
        Some(job.first.saturating_add(proc.rank.process()?))
    }

    pub(crate) fn host_answers(&mut self, server: ServerId, upcall: UpcallId, reply: HostReply) {
        if self.is_serving(server) {
            self.serve(server, Input::Completed(upcall, reply));
        }
    }

    pub(crate) fn server_timer(&mut self, server: ServerId) {
        if !self.is_serving(server) {
            return;
        }
        if let Some(node) = self.node_mut(server.node) {
            node.timer = None;
        }
        let is_due = self.core(server).and_then(|core| core.poll_timeout()).is_some_and(|at| at <= self.now);
        let is_forgotten = self.setup.canary == Some(Canary::Deadline);
        match is_due && !is_forgotten {
            true => self.serve(server, Input::Timeout),
            false if is_due => {}
            false => self.arm_server(server),
        }
    }

    /// Plans the server's next call, unless an earlier or equal call is planned.
    fn arm_server(&mut self, server: ServerId) {
        let Some(at) = self.core(server).and_then(|core| core.poll_timeout()) else { return };
        let at = at.max(self.now);
        let Some(node) = self.node_mut(server.node) else { return };
        if node.timer.is_none_or(|planned| at < planned) {
            node.timer = Some(at);
            self.queue.plan(at, QueuedEvent::ServerTimer(server));
        }
    }
}

/// State that the world drops after the server has dropped it.
enum Forget {
    Namespace(Namespace),
    Upcall(UpcallId),
    Expired,
}
