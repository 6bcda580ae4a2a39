//! The steps of a process: its calls, and its reactions to answers.

use std::collections::BTreeSet;
use std::time::Duration;

use modex::client::{Call, CallError, CallId, ClientInput, ClientOutput, LossReason, Outcome};
use modex::proto::{Command, Request, Version};
use modex::server::{Credentials, Hello, PeerId, StoreOffer};
use modex::types::{ProcId, Scope};

use super::requests::collects;
use crate::faults::Canary;
use crate::process::{CallPurpose, Connection, PendingCall, ProcessStage, State};
use crate::program::{Meeting, ProgramPhase};
use crate::queue::{QueuedEvent, ToClient, ToServer};
use crate::rule::Rule;
use crate::value::{KEYS, Stamp};
use crate::world::{GROUP, USER, World};

impl World {
    /// A process starts, as soon as its server knows its job.
    pub(crate) fn start(&mut self, process: u32) {
        let Some(of) = self.process(process).filter(|of| of.state == State::Away) else { return };
        let (node, job, stopped_until) = (of.node, of.job, of.stopped_until);
        let is_registered = self.node(node).is_some_and(|node| node.registered.contains(&job));
        let was_registered = self.jobs.get(job).is_some_and(|job| !job.unheard_on.contains(&node));
        if self.is_ending || self.is_dead(node) || (was_registered && !is_registered) {
            return self.retire(process, State::Ended);
        }
        if !is_registered || stopped_until > self.now {
            let at = stopped_until.max(self.now + Duration::from_millis(50));
            return self.queue.plan(at, QueuedEvent::Start(process));
        }
        let offer = match self.process_mut(process).map(|of| of.random.below(4)) {
            Some(0) => StoreOffer::Socket,
            _ => StoreOffer::Segment,
        };
        let main = self.connect(process, offer);
        if let Some(of) = self.process_mut(process) {
            of.main = main;
            of.state = State::Connecting;
            of.puts.clear();
        }
        self.forget_other_jobs(process);
    }

    /// A process loses its ties at its end. Its next life is promised no value that it has read of other jobs.
    fn forget_other_jobs(&mut self, process: u32) {
        let Some(of) = self.process(process) else { return };
        let is_own = |whose: u32| self.process(whose).is_some_and(|other| other.job == of.job);
        let kept = of.floors.iter().filter(|((whose, _), _)| is_own(*whose));
        let kept = kept.map(|(read, version)| (*read, *version)).collect();
        if let Some(of) = self.process_mut(process) {
            of.floors = kept;
        }
    }

    /// Opens a connection in the name of a process.
    pub(crate) fn connect(&mut self, process: u32, offer: StoreOffer) -> Option<PeerId> {
        let of = self.process(process)?;
        let (proc, server) = (of.proc.clone(), self.server_at(of.node)?);
        let peer = self.next_peer();
        self.connections.insert(peer, Connection::new(process, &proc, server));
        let credentials = Credentials { uid: USER, gid: GROUP };
        let hello =
            Hello { proc, credentials, store: offer, version: Version::new(5, 0, 0), strangers: BTreeSet::new() };
        self.send_up(peer, ToServer::Hello(hello));
        Some(peer)
    }

    /// A process between two lives.
    pub(crate) fn go_away(&mut self, process: u32) {
        if let Some(of) = self.process_mut(process) {
            of.state = State::Away;
        }
        let at = self.now + Duration::from_micros(self.network.between(50, 2_000));
        self.queue.plan(at, QueuedEvent::Start(process));
    }

    /// A message arrives at a client, unless the client reads no more or reads later.
    pub(crate) fn at_client(&mut self, peer: PeerId, message: ToClient) {
        let Some(connection) = self.connections.get(&peer).filter(|connection| !connection.is_client_gone) else {
            return;
        };
        let process = connection.process;
        let Some(of) = self.process(process) else { return };
        if of.state == State::Hung {
            return self.drop_if_over(peer);
        }
        if of.stopped_until > self.now {
            return self.queue.plan(of.stopped_until, QueuedEvent::ToClient(peer, Box::new(message)));
        }
        match message {
            ToClient::Admitted => self.admitted(peer, process),
            ToClient::Segment(namespace) => self.map(peer, process, &namespace),
            ToClient::Withdrawn(namespace) => {
                if let Some(connection) = self.connections.get_mut(&peer) {
                    connection.foreign.remove(&namespace);
                }
            }
            ToClient::Reply(tag, reply, promise) => {
                let before = self.meetings_of(peer);
                self.client_input(peer, ClientInput::Reply(tag, reply));
                // A call that was given up has no promise.
                if let Some(promise) = promise.filter(|_| self.meetings_of(peer) < before) {
                    self.check_promise(peer, process, &promise);
                }
            }
            ToClient::Event(event) => self.hear(peer, process, &event),
            ToClient::Refused => {
                self.forget_client(peer);
                self.lost(peer, process, true);
            }
            ToClient::Closed => {
                if self.setup.canary != Some(Canary::DeafClient) {
                    self.client_input(peer, ClientInput::Lost(LossReason::EndOfFile));
                }
                let open = self.connections.get(&peer).map_or(0, |connection| connection.client.calls_in_flight());
                self.rules.note_loss(process, open);
                self.read_again(process);
                self.forget_client(peer);
                self.lost(peer, process, false);
            }
        }
    }

    /// Collective operations that a connection waits for.
    fn meetings_of(&self, peer: PeerId) -> usize {
        let calls = self.connections.get(&peer).map(|connection| connection.calls.values());
        calls.map_or(0, |calls| calls.filter(|asked| matches!(asked.purpose, CallPurpose::Meeting)).count())
    }

    fn admitted(&mut self, peer: PeerId, process: u32) {
        if let Some(connection) = self.connections.get_mut(&peer) {
            connection.is_admitted = true;
        }
        let purpose = || PendingCall { purpose: CallPurpose::Other, is_awaited: false, deadline: None };
        self.client_call(peer, purpose(), Call::Exchange(Request::JobInfo));
        let is_main = self.process(process).is_some_and(|of| of.main == Some(peer));
        if is_main && let Some(of) = self.process_mut(process) {
            of.state = State::Running;
            self.hear_of_invitations(peer);
            self.wake_soon(process);
        }
    }

    /// The processes of a server share one mapping of each segment.
    fn map(&mut self, peer: PeerId, process: u32, namespace: &modex::types::Namespace) {
        let Some(server) = self.connections.get(&peer).map(|connection| connection.server) else { return };
        let known = self.node(server.node).and_then(|node| node.mapped.get(namespace)).cloned();
        let mapped = known.or_else(|| self.core(server)?.store().map(namespace));
        let Some(mapped) = mapped else { return };
        if let Some(node) = self.node_mut(server.node).filter(|node| node.epoch == server.epoch) {
            node.mapped.insert(namespace.clone(), mapped.clone());
        }
        if self.process(process).is_some_and(|of| of.proc.namespace != *namespace) {
            if let Some(connection) = self.connections.get_mut(&peer) {
                connection.foreign.insert(namespace.clone(), mapped);
            }
            return;
        }
        if let Some(connection) = self.connections.get_mut(&peer) {
            connection.reader = Some(mapped.clone());
        }
        if let Some(of) = self.process_mut(process) {
            of.mapped = Some(mapped);
        }
    }

    /// The connection has ended. The next step of the process depends on the purpose of its call.
    fn lost(&mut self, peer: PeerId, process: u32, was_refused: bool) {
        let Some(of) = self.process_mut(process) else { return };
        if of.child == Some(peer) {
            of.child = None;
        }
        if of.main != Some(peer) {
            return;
        }
        of.main = None;
        let state = of.state;
        match state {
            State::Leaving(true) => self.go_away(process),
            _ if was_refused && !self.is_ending && self.network.one_in(2) => self.go_away(process),
            _ => self.retire(process, State::Ended),
        }
    }

    /// The client's end of a connection has closed: the server will notice.
    pub(crate) fn close_client(&mut self, peer: PeerId) {
        let Some(connection) = self.connections.get_mut(&peer) else { return };
        if connection.is_client_gone {
            return;
        }
        connection.is_client_gone = true;
        connection.calls.clear();
        if connection.is_server_gone {
            self.connections.remove(&peer);
        } else {
            self.send_up(peer, ToServer::Hangup);
        }
    }

    /// Both ends know that the connection is no more.
    pub(crate) fn forget_client(&mut self, peer: PeerId) {
        if let Some(connection) = self.connections.get_mut(&peer) {
            connection.is_client_gone = true;
        }
        self.drop_if_over(peer);
    }

    fn drop_if_over(&mut self, peer: PeerId) {
        if self.connections.get(&peer).is_some_and(|of| of.is_server_gone) {
            self.connections.remove(&peer);
        }
    }

    pub(crate) fn client_timer(&mut self, peer: PeerId) {
        let Some(connection) = self.connections.get_mut(&peer).filter(|of| !of.is_client_gone) else { return };
        connection.timer = None;
        let process = connection.process;
        let is_due = connection.client.poll_timeout().is_some_and(|at| at <= self.now);
        let Some(of) = self.process(process).filter(|of| of.state != State::Hung) else { return };
        if of.stopped_until > self.now {
            return self.queue.plan(of.stopped_until, QueuedEvent::ClientTimer(peer));
        }
        match is_due {
            true => self.client_input(peer, ClientInput::Timeout),
            false => self.arm_client(peer),
        }
    }

    fn arm_client(&mut self, peer: PeerId) {
        let now = self.now;
        let Some(connection) = self.connections.get_mut(&peer).filter(|of| !of.is_client_gone) else { return };
        let Some(at) = connection.client.poll_timeout().map(|at| at.max(now)) else { return };
        if connection.timer.is_none_or(|planned| at < planned) {
            connection.timer = Some(at);
            self.queue.plan(at, QueuedEvent::ClientTimer(peer));
        }
    }

    /// Makes a call.
    pub(crate) fn client_call(&mut self, peer: PeerId, asked: PendingCall, call: Call) {
        let Some(connection) = self.connections.get_mut(&peer).filter(|of| !of.is_client_gone) else { return };
        connection.last_call += 1;
        let id = CallId(connection.last_call);
        connection.calls.insert(id, asked);
        self.client_input(peer, ClientInput::Call(id, call));
    }

    /// Gives a client core one input and carries out its outputs.
    pub(crate) fn client_input(&mut self, peer: PeerId, input: ClientInput) {
        let now = self.now;
        let Some(connection) = self.connections.get_mut(&peer) else { return };
        let process = connection.process;
        self.trace.words(&[peer.0]);
        self.trace.line(now, || format!("process {process} < {}", crate::trace::brief(&input)));
        connection.client.handle(now, input);
        let mut ended = Vec::new();
        while let Some(output) = self.connections.get_mut(&peer).and_then(|of| of.client.poll_output()) {
            match output {
                ClientOutput::Send(tag, request) => {
                    let is_commit = request.command() == Command::Commit;
                    let puts = self.process(process).filter(|_| is_commit).map(|of| of.puts.clone());
                    self.trace.words(&[u64::from(tag.0)]);
                    if let Request::Fence(fence) = &request
                        && collects(&fence.directives)
                        && let Some(connection) = self.connections.get_mut(&peer)
                    {
                        connection.note_fence(tag, &fence.procs);
                    }
                    self.send_up(peer, ToServer::Request(tag, request, puts.unwrap_or_default()));
                }
                ClientOutput::Received(data) => {
                    if let Some(connection) = self.connections.get_mut(&peer) {
                        connection.cache.receive(&data);
                    }
                }
                ClientOutput::Forget(namespace) => {
                    if let Some(connection) = self.connections.get_mut(&peer) {
                        connection.cache.forget_namespace(&namespace);
                    }
                }
                ClientOutput::Outdated => {
                    if let Some(connection) = self.connections.get_mut(&peer) {
                        connection.cache.forget_processes();
                    }
                }
                ClientOutput::Done(call, result) => ended.push((call, result)),
                ClientOutput::Report(anomaly) => {
                    self.rules.breaks(Rule::AnsweredOnce, || format!("process {process} notes {anomaly:?}"));
                }
                ClientOutput::Close => {
                    self.close_client(peer);
                    self.lost(peer, process, false);
                }
            }
        }
        for (call, result) in ended {
            self.done(peer, process, call, result);
        }
        self.arm_client(peer);
    }

    /// Every call ends exactly once, and in time.
    fn done(&mut self, peer: PeerId, process: u32, call: CallId, result: Result<Outcome, CallError>) {
        let Some(connection) = self.connections.get_mut(&peer) else { return };
        let asked = connection.calls.remove(&call);
        let is_over = connection.is_client_gone;
        let Some(PendingCall { purpose, is_awaited, deadline }) = asked else {
            if !is_over {
                self.rules.breaks(Rule::AnsweredOnce, || format!("{call:?} of process {process} ended twice"));
            }
            return;
        };
        let Some(of) = self.process(process) else { return };
        let latest = deadline.map(|deadline| deadline.max(of.stopped_until));
        if let Some(latest) = latest.filter(|latest| *latest < self.now) {
            let late = self.now.since(latest);
            self.rules.breaks(Rule::BeforeDeadline, || format!("{call:?} of process {process} ended {late:?} late"));
        }
        match purpose {
            CallPurpose::Get(sought) => return self.continue_get(peer, process, *sought, is_awaited, result),
            CallPurpose::Invitation(step) => return self.party_goes_on(peer, process, step, result),
            CallPurpose::Group(name) => self.note_group(peer, name, &result),
            CallPurpose::Allocation => self.note_allocation(process, result),
            CallPurpose::LeaveGroup(name) => self.note_leave(process, name, &result),
            CallPurpose::Finalize | CallPurpose::Meeting | CallPurpose::Other => {}
        }
        if is_awaited {
            self.wake_soon(process);
        }
    }

    pub(crate) fn wake_soon(&mut self, process: u32) {
        let at = self.now + Duration::from_micros(self.network.between(1, 300));
        self.queue.plan(at, QueuedEvent::Wake(process));
    }

    /// A process does the next thing of the program.
    pub(crate) fn wake(&mut self, process: u32) {
        let Some(of) = self.process(process).filter(|of| of.state == State::Running) else { return };
        if of.stopped_until > self.now {
            return self.queue.plan(of.stopped_until, QueuedEvent::Wake(process));
        }
        let (Some(peer), stage, number) = (of.main, of.stage, of.phase) else { return };
        let Some(phase) = self.program.phases.get(number).cloned() else { return self.finalize(process, peer, false) };
        match stage {
            ProcessStage::Put => {
                self.set_stage(process, ProcessStage::Meet);
                self.ask_scheduler(peer);
                self.take_output_step(process, peer);
                self.put(process, peer);
            }
            ProcessStage::Meet if !self.may_meet(process, &phase) => {
                self.queue.plan(self.now + Duration::from_millis(50), QueuedEvent::Wake(process));
            }
            ProcessStage::Attend(left) if left > 0 && self.attends(peer, &phase) => {
                self.set_stage(process, ProcessStage::Attend(left - 1));
                self.queue.plan(self.now + Duration::from_millis(500), QueuedEvent::Wake(process));
            }
            ProcessStage::Attend(_) => {
                self.set_stage(process, ProcessStage::Read(1));
                self.wake_soon(process);
            }
            ProcessStage::Meet => {
                let gets = if self.setup.is_large() { 1 } else { 3 };
                self.set_stage(process, ProcessStage::Read(gets));
                self.meet(process, peer, &phase);
            }
            ProcessStage::Read(0) => {
                let Some(of) = self.process_mut(process) else { return };
                (of.phase, of.stage) = (number + 1, ProcessStage::Put);
                if of.reinits > 0 {
                    of.reinits -= 1;
                    return self.finalize(process, peer, true);
                }
                self.wake_soon(process);
            }
            ProcessStage::Read(left) => {
                self.set_stage(process, ProcessStage::Read(left - 1));
                self.look(process, peer);
            }
        }
    }

    fn set_stage(&mut self, process: u32, stage: ProcessStage) {
        if let Some(of) = self.process_mut(process) {
            of.stage = stage;
        }
    }

    /// Puts a few values and commits them.
    fn put(&mut self, process: u32, peer: PeerId) {
        let Some(of) = self.process_mut(process) else { return };
        let mut puts = Vec::new();
        for _ in 0..of.random.below(3) {
            of.version += 1;
            let key = u8::try_from(of.random.below(6)).unwrap_or(0);
            let scopes = [Scope::Global, Scope::Global, Scope::Global, Scope::Local, Scope::Remote, Scope::Internal];
            let scope = of.random.pick(&scopes).copied().unwrap_or(Scope::Global);
            of.note_put(key, scope, of.version);
            puts.push(Stamp { process, key, scope, version: of.version });
        }
        let is_awaited = !of.random.one_in(4);
        let Some(connection) = self.connections.get_mut(&peer) else { return };
        for stamp in puts {
            let name = KEYS.get(usize::from(stamp.key)).copied().unwrap_or_default();
            if let Err(error) = connection.staging.put(stamp.scope, name, stamp.value()) {
                self.rules.breaks(Rule::StaysReadable, || format!("process {process} can't put {name}: {error}"));
                return;
            }
        }
        let staging = &mut connection.staging;
        match staging.take_commit().or_else(|| staging.take_first_commit()) {
            Some(staged) => {
                let asked = PendingCall { purpose: CallPurpose::Other, is_awaited, deadline: None };
                self.client_call(peer, asked, Call::Commit(staged.commit));
                if !is_awaited {
                    self.wake_soon(process);
                }
            }
            None => self.wake_soon(process),
        }
    }

    /// Operations wait for jobs that are not registered yet. An invitation is an event, which reaches only the
    /// processes that have come.
    fn may_meet(&self, process: u32, phase: &ProgramPhase) -> bool {
        let is_event = matches!(phase.meeting, Meeting::Invite(_) | Meeting::Leave(_));
        let procs = self.process(process).filter(|_| is_event).and_then(|of| phase.procs(&self.jobs, of.job, of.rank));
        procs.is_none_or(|procs| self.have_started(&procs))
    }

    /// Takes part in the operation of a phase; so does the process's child, if it has one.
    fn meet(&mut self, process: u32, peer: PeerId, phase: &ProgramPhase) {
        let Some(of) = self.process(process) else { return };
        let (child, procs) = (of.child, phase.procs(&self.jobs, of.job, of.rank));
        let is_in = |peer: &PeerId| self.connections.get(peer).is_some_and(|of| of.is_admitted);
        let child = child.filter(is_in);
        let Some(procs) = procs else { return self.wake_soon(process) };
        match &phase.meeting {
            Meeting::Invite(invite) => {
                if self.invite(process, peer, phase, invite) {
                    self.set_stage(process, ProcessStage::Attend(if phase.waits { ATTENTION } else { 0 }));
                    self.wake_soon(process);
                }
                return;
            }
            Meeting::Leave(name) => {
                self.leave_party(process, peer, name);
                return self.wake_soon(process);
            }
            _ => {}
        }
        let mut is_idle = !phase.waits;
        for (peer, is_awaited) in [(Some(peer), phase.waits), (child, false)] {
            let Some(peer) = peer else { continue };
            let quit = self.leave_call(process, phase);
            let Some((purpose, call)) = quit.or_else(|| self.call_of(peer, phase, &procs)) else {
                is_idle |= is_awaited;
                continue;
            };
            let grace = Duration::from_secs(2);
            let timeout = phase.timeout_s.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs);
            let is_fence = matches!(phase.meeting, Meeting::Barrier | Meeting::Collect);
            let deadline = timeout.filter(|_| is_fence).map(|timeout| self.now + timeout + grace);
            self.client_call(peer, PendingCall { purpose, is_awaited, deadline }, call);
        }
        if is_idle {
            self.wake_soon(process);
        }
    }

    /// The call of a connection, if it makes one.
    fn call_of(&mut self, peer: PeerId, phase: &ProgramPhase, procs: &[ProcId]) -> Option<(CallPurpose, Call)> {
        match &phase.meeting {
            Meeting::Bootstrap(bootstrap) => self.bootstrap_call(peer, phase, bootstrap, procs),
            Meeting::Dissolve(name) => self.dissolve_call(peer, phase, name),
            _ => Some((CallPurpose::Meeting, phase.call(procs.to_vec()))),
        }
    }

    /// Whether a process still waits for an invitation or its outcome.
    fn attends(&self, peer: PeerId, phase: &ProgramPhase) -> bool {
        let Meeting::Invite(invite) = &phase.meeting else { return false };
        let guest = self.connections.get(&peer).map(|connection| &connection.invitations);
        guest.is_some_and(|guest| guest.is_busy() || !guest.asked.contains(&invite.name))
    }

    /// Leaves in order, with the child.
    fn finalize(&mut self, process: u32, peer: PeerId, comes_again: bool) {
        let Some(of) = self.process_mut(process) else { return };
        of.state = State::Leaving(comes_again);
        let child = of.child.take();
        // A child that was not admitted yet leaves without a message.
        let is_in = |peer: &PeerId| self.connections.get(peer).is_some_and(|of| of.is_admitted);
        if let Some(child) = child.filter(|peer| !is_in(peer)) {
            self.close_client(child);
        }
        for peer in child.into_iter().chain([peer]) {
            let deadline = Some(self.now + Duration::from_secs(11));
            self.client_call(
                peer,
                PendingCall { purpose: CallPurpose::Finalize, is_awaited: false, deadline },
                Call::Finalize,
            );
        }
    }
}

/// How often a process checks whether its invitation has ended, half a second apart.
const ATTENTION: u8 = 240;
