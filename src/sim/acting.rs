//! What processes do, and what they make of the answers.

use std::collections::BTreeSet;
use std::time::Duration;

use super::faults::Canary;
use super::invariants::{Promise, Reading, Rule};
use super::process::{Asked, Connection, Sought, Stage, State, Why};
use super::program::{Meeting, Phase};
use super::queue::{Event, ToClient, ToServer};
use super::value::{KEYS, Stamp};
use super::world::{GROUP, USER, World};
use crate::client::{
    Call, CallError, CallId, Decision, FenceDirectives, GetDirectives, GetRequest, Input, LossReason, Outcome, Output,
    Round, resolve,
};
use crate::gds::{AsStatus, KeyRef, Lookup, RealmRequest};
use crate::keys;
use crate::proto::{Collective, Command, Group, Log, Request};
use crate::server::{Credentials, Hello, PeerId, StoreOffer, Version};
use crate::types::{Info, Key, ProcId, Scope, Status, Value};

impl World {
    /// A process starts, as soon as its server knows its job.
    pub(super) fn start(&mut self, process: u32) {
        let Some(of) = self.process(process).filter(|of| of.state == State::Away) else { return };
        let (node, job, stopped_until) = (of.node, of.job, of.stopped_until);
        let is_registered = self.node(node).is_some_and(|node| node.registered.contains(&job));
        let was_registered = self.node(node).is_some_and(|node| node.known.contains(&job));
        if self.is_ending || self.is_dead(node) || (was_registered && !is_registered) {
            return self.retire(process, State::Ended);
        }
        if !is_registered || stopped_until > self.now {
            let at = stopped_until.max(self.now + Duration::from_millis(50));
            return self.queue.plan(at, Event::Start(process));
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
    }

    /// Opens a connection in the name of a process.
    pub(super) fn connect(&mut self, process: u32, offer: StoreOffer) -> Option<PeerId> {
        let of = self.process(process)?;
        let (proc, server) = (of.proc.clone(), self.server_at(of.node)?);
        let peer = self.next_peer();
        self.connections.insert(peer, Connection::new(process, &proc, server));
        let credentials = Credentials { uid: USER, gid: GROUP };
        let hello = Hello {
            proc,
            credentials,
            store: offer,
            version: Version { major: 5, minor: 0 },
            strangers: BTreeSet::new(),
        };
        self.send_up(peer, ToServer::Hello(hello));
        Some(peer)
    }

    /// A process between two lives.
    pub(super) fn go_away(&mut self, process: u32) {
        if let Some(of) = self.process_mut(process) {
            of.state = State::Away;
        }
        let at = self.now + Duration::from_micros(self.network.between(50, 2_000));
        self.queue.plan(at, Event::Start(process));
    }

    /// Something arrives at a client, unless it reads no more or reads later.
    pub(super) fn at_client(&mut self, peer: PeerId, message: ToClient) {
        let Some(connection) = self.connections.get(&peer).filter(|connection| !connection.is_client_gone) else {
            return;
        };
        let process = connection.process;
        let Some(of) = self.process(process) else { return };
        if of.state == State::Hung {
            return self.drop_if_over(peer);
        }
        if of.stopped_until > self.now {
            return self.queue.plan(of.stopped_until, Event::ToClient(peer, Box::new(message)));
        }
        match message {
            ToClient::Admitted => self.admitted(peer, process),
            ToClient::Segment(namespace) => self.map(peer, process, &namespace),
            ToClient::Reply(tag, reply, promise) => {
                if let Some(promise) = promise {
                    self.check_promise(peer, process, &promise);
                }
                self.client_input(peer, Input::Reply(tag, reply));
            }
            ToClient::Refused => {
                self.forget_client(peer);
                self.lost(peer, process, true);
            }
            ToClient::Closed => {
                if self.setup.canary != Some(Canary::DeafClient) {
                    self.client_input(peer, Input::Lost(LossReason::EndOfFile));
                }
                let open = self.connections.get(&peer).map_or(0, |connection| connection.client.calls_in_flight());
                self.rules.loss_told(process, open);
                self.read_again(process);
                self.forget_client(peer);
                self.lost(peer, process, false);
            }
        }
    }

    fn admitted(&mut self, peer: PeerId, process: u32) {
        if let Some(connection) = self.connections.get_mut(&peer) {
            connection.is_admitted = true;
        }
        let why = || Asked { why: Why::Other, is_awaited: false, deadline: None };
        self.client_call(peer, why(), Call::Exchange(Request::JobInfo));
        let is_main = self.process(process).is_some_and(|of| of.main == Some(peer));
        if is_main && let Some(of) = self.process_mut(process) {
            of.state = State::Running;
            self.wake_soon(process);
        }
    }

    /// The processes of a server share one mapping of each segment.
    fn map(&mut self, peer: PeerId, process: u32, namespace: &crate::types::Namespace) {
        let Some(server) = self.connections.get(&peer).map(|connection| connection.server) else { return };
        let known = self.node(server.node).and_then(|node| node.mapped.get(namespace)).cloned();
        let mapped = known.or_else(|| self.core(server)?.store().map(namespace));
        let Some(mapped) = mapped else { return };
        if let Some(node) = self.node_mut(server.node).filter(|node| node.epoch == server.epoch) {
            node.mapped.insert(namespace.clone(), mapped.clone());
        }
        if let Some(connection) = self.connections.get_mut(&peer) {
            connection.reader = Some(mapped.clone());
        }
        if let Some(of) = self.process_mut(process) {
            of.mapped = Some(mapped);
        }
    }

    /// The connection is no more. What the process does next depends on why.
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

    /// The client's end of a connection is no more: the server will notice.
    pub(super) fn close_client(&mut self, peer: PeerId) {
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
    pub(super) fn forget_client(&mut self, peer: PeerId) {
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

    pub(super) fn client_timer(&mut self, peer: PeerId) {
        let Some(connection) = self.connections.get_mut(&peer).filter(|of| !of.is_client_gone) else { return };
        connection.timer = None;
        let process = connection.process;
        let is_due = connection.client.poll_timeout().is_some_and(|at| at <= self.now);
        let Some(of) = self.process(process).filter(|of| of.state != State::Hung) else { return };
        if of.stopped_until > self.now {
            return self.queue.plan(of.stopped_until, Event::ClientTimer(peer));
        }
        match is_due {
            true => self.client_input(peer, Input::Timeout),
            false => self.arm_client(peer),
        }
    }

    fn arm_client(&mut self, peer: PeerId) {
        let now = self.now;
        let Some(connection) = self.connections.get_mut(&peer).filter(|of| !of.is_client_gone) else { return };
        let Some(at) = connection.client.poll_timeout().map(|at| at.max(now)) else { return };
        if connection.timer.is_none_or(|planned| at < planned) {
            connection.timer = Some(at);
            self.queue.plan(at, Event::ClientTimer(peer));
        }
    }

    /// Makes a call.
    fn client_call(&mut self, peer: PeerId, asked: Asked, call: Call) {
        let Some(connection) = self.connections.get_mut(&peer).filter(|of| !of.is_client_gone) else { return };
        connection.last_call += 1;
        let id = CallId(connection.last_call);
        connection.calls.insert(id, asked);
        self.client_input(peer, Input::Call(id, call));
    }

    /// Gives a client core one input and does what it says.
    fn client_input(&mut self, peer: PeerId, input: Input) {
        let now = self.now;
        let Some(connection) = self.connections.get_mut(&peer) else { return };
        let process = connection.process;
        self.trace.words(&[peer.0]);
        self.trace.line(now, || format!("process {process} < {}", super::serving::brief(&input)));
        connection.client.handle(now, input);
        let mut ended = Vec::new();
        while let Some(output) = self.connections.get_mut(&peer).and_then(|of| of.client.poll_output()) {
            match output {
                Output::Send(tag, request) => {
                    let is_commit = request.command() == Command::Commit;
                    let puts = self.process(process).filter(|_| is_commit).map(|of| of.puts.clone());
                    self.trace.words(&[u64::from(tag.0)]);
                    self.send_up(peer, ToServer::Request(tag, request, puts.unwrap_or_default()));
                }
                Output::Received(data) => {
                    if let Some(connection) = self.connections.get_mut(&peer) {
                        connection.cache.receive(&data);
                    }
                }
                Output::Outdated => {
                    if let Some(connection) = self.connections.get_mut(&peer) {
                        connection.cache.forget_processes();
                    }
                }
                Output::Done(call, result) => ended.push((call, result)),
                Output::Report(anomaly) => {
                    self.rules.breaks(Rule::AnsweredOnce, || format!("process {process} notes {anomaly:?}"));
                }
                Output::Close => {
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
        let Some(Asked { why, is_awaited, deadline }) = asked else {
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
        match why {
            Why::Get(sought) => return self.continue_get(peer, process, *sought, is_awaited, result),
            Why::Finalize | Why::Meeting | Why::Other => {}
        }
        if is_awaited {
            self.wake_soon(process);
        }
    }

    fn wake_soon(&mut self, process: u32) {
        let at = self.now + Duration::from_micros(self.network.between(1, 300));
        self.queue.plan(at, Event::Wake(process));
    }

    /// A process does the next thing of the program.
    pub(super) fn wake(&mut self, process: u32) {
        let Some(of) = self.process(process).filter(|of| of.state == State::Running) else { return };
        if of.stopped_until > self.now {
            return self.queue.plan(of.stopped_until, Event::Wake(process));
        }
        let (Some(peer), stage, number) = (of.main, of.stage, of.phase) else { return };
        let Some(phase) = self.program.phases.get(number).cloned() else { return self.finalize(process, peer, false) };
        match stage {
            Stage::Put => {
                self.set_stage(process, Stage::Meet);
                self.put(process, peer);
            }
            Stage::Meet if !self.may_meet(process, &phase) => {
                self.queue.plan(self.now + Duration::from_millis(50), Event::Wake(process));
            }
            Stage::Meet => {
                let gets = if self.setup.is_large() { 1 } else { 3 };
                self.set_stage(process, Stage::Read(gets));
                self.meet(process, peer, &phase);
            }
            Stage::Read(0) => {
                let Some(of) = self.process_mut(process) else { return };
                (of.phase, of.stage) = (number + 1, Stage::Put);
                if of.reinits > 0 {
                    of.reinits -= 1;
                    return self.finalize(process, peer, true);
                }
                self.wake_soon(process);
            }
            Stage::Read(left) => {
                self.set_stage(process, Stage::Read(left - 1));
                self.look(process, peer);
            }
        }
    }

    fn set_stage(&mut self, process: u32, stage: Stage) {
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
        match connection.staging.take_commit() {
            Some(staged) => {
                let asked = Asked { why: Why::Other, is_awaited, deadline: None };
                self.client_call(peer, asked, Call::Commit(staged.commit));
                if !is_awaited {
                    self.wake_soon(process);
                }
            }
            None => self.wake_soon(process),
        }
    }

    /// Fences wait for jobs that are not registered yet. Who connects to a job knows its name, so it has started.
    fn may_meet(&self, process: u32, phase: &Phase) -> bool {
        let is_fence = matches!(phase.meeting, Meeting::Barrier | Meeting::Collect);
        let procs = self.process(process).and_then(|of| phase.procs(&self.jobs, of.job, of.rank));
        is_fence || procs.is_none_or(|procs| self.have_started(&procs))
    }

    /// Takes part in the operation of a phase; so does the process's child, if it has one.
    fn meet(&mut self, process: u32, peer: PeerId, phase: &Phase) {
        let Some(of) = self.process(process) else { return };
        let (child, procs) = (of.child, phase.procs(&self.jobs, of.job, of.rank));
        let is_in = |peer: &PeerId| self.connections.get(peer).is_some_and(|of| of.is_admitted);
        let child = child.filter(is_in);
        let Some(procs) = procs else { return self.wake_soon(process) };
        for (peer, is_awaited) in [(Some(peer), phase.waits), (child, false)] {
            let (Some(peer), procs) = (peer, procs.clone()) else { continue };
            let grace = Duration::from_secs(2);
            let timeout = phase.timeout_s.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs);
            let is_fence = matches!(phase.meeting, Meeting::Barrier | Meeting::Collect);
            let deadline = timeout.filter(|_| is_fence).map(|timeout| self.now + timeout + grace);
            self.client_call(peer, Asked { why: Why::Meeting, is_awaited, deadline }, phase.call(procs));
        }
        if !phase.waits {
            self.wake_soon(process);
        }
    }

    /// Looks for somebody's value.
    fn look(&mut self, process: u32, peer: PeerId) {
        let jobs = u64::try_from(self.jobs.len()).unwrap_or(1);
        let Some(of) = self.process_mut(process) else { return };
        let job = if of.random.one_in(8) { usize::try_from(of.random.below(jobs)).unwrap_or(0) } else { of.job };
        let (key, choice, seconds) = (of.random.below(6), of.random.below(8), of.random.between(1, 20));
        let mut random = of.random.clone();
        let Some(job) = self.jobs.get(job) else { return };
        let rank = random.below_u32(job.size);
        let (proc, whose) = (job.proc(rank), job.first.saturating_add(rank));
        if let Some(of) = self.process_mut(process) {
            of.random = random;
        }
        let key = u8::try_from(key).unwrap_or(0);
        let timeout =
            Info::new(Key::from_static(keys::TIMEOUT.name()), Value::Int(i32::try_from(seconds).unwrap_or(1)));
        let flag = |name| Info::new(Key::from_static(name), true);
        let (directives, is_awaited) = match choice {
            0 | 1 => (vec![flag(keys::OPTIONAL.name())], true),
            2 => (vec![flag(keys::IMMEDIATE.name())], true),
            3 => (vec![timeout, flag(keys::GET_REFRESH_CACHE.name())], true),
            4 => (Vec::new(), false),
            5 => {
                let log = Request::Log(Log { timestamp: None, data: Vec::new(), directives: Vec::new() });
                let asked = Asked { why: Why::Other, is_awaited: true, deadline: None };
                return self.client_call(peer, asked, Call::Exchange(log));
            }
            6 => (vec![timeout], false),
            _ => (vec![timeout], true),
        };
        self.look_for(process, peer, (proc, whose, key), &directives, is_awaited);
        if !is_awaited {
            self.wake_soon(process);
        }
    }

    fn look_for(
        &mut self,
        process: u32,
        peer: PeerId,
        (proc, whose, key): (ProcId, u32, u8),
        directives: &[Info],
        is_awaited: bool,
    ) {
        let Ok(directives) = GetDirectives::parse(directives) else { return };
        let name = Key::from_static(KEYS.get(usize::from(key)).copied().unwrap_or_default());
        let Some(of) = self.process(process) else { return };
        let Ok(request) = GetRequest::new(Some(proc), Some(name), directives, &of.proc) else { return };
        let floor = of.floors.get(&(whose, key)).copied().unwrap_or(0);
        let sought = Sought { request, begun: self.now, whose, key, floor };
        self.continue_get(peer, process, sought, is_awaited, Ok(Outcome::LookAgain));
    }

    /// The loop of a Get, as in the runtime: look, ask, look again.
    fn continue_get(
        &mut self,
        peer: PeerId,
        process: u32,
        sought: Sought,
        is_awaited: bool,
        result: Result<Outcome, CallError>,
    ) {
        let Some(connection) = self.connections.get(&peer) else { return };
        let answered = match result {
            Ok(Outcome::Answered(data)) => Some(data),
            Ok(_) => None,
            Err(error) => return self.found_nothing(process, peer, &sought, is_awaited, error.status()),
        };
        let round = answered.as_deref().map_or(Round::First, Round::Answered);
        let own = connection.client.own().clone();
        match resolve(&sought.request, &own, round, connection) {
            Decision::Found(value) | Decision::Known(value) => self.found(process, &sought, is_awaited, &value),
            Decision::NotFound(status) => self.found_nothing(process, peer, &sought, is_awaited, status),
            Decision::Ask(mut request) => {
                if !request.directives.spend(self.now.since(sought.begun)) {
                    return self.found_nothing(process, peer, &sought, is_awaited, Status::ERR_UNREACH);
                }
                let timeout = request.directives.timeout;
                let deadline = timeout.map(|timeout| self.now + timeout + Duration::from_secs(3));
                let asked = Asked { why: Why::Get(Box::new(sought)), is_awaited, deadline };
                self.client_call(peer, asked, Call::Get(request));
            }
        }
    }

    fn found(&mut self, process: u32, sought: &Sought, is_awaited: bool, value: &Value) {
        let Some(reading) = self.reading(process, sought.whose, sought.key, sought.floor) else { return };
        self.rules.value_read(&reading, value);
        // What a process has put itself it may see before, and longer than, its server.
        if sought.whose != process
            && let Some(stamp) = Stamp::of(value)
            && let Some(of) = self.process_mut(process)
        {
            of.expect(sought.whose, sought.key, stamp.version);
        }
        if is_awaited {
            self.wake_soon(process);
        }
    }

    fn found_nothing(&mut self, process: u32, peer: PeerId, sought: &Sought, is_awaited: bool, status: Status) {
        if self.is_certain(peer, sought, status)
            && let Some(reading) = self.reading(process, sought.whose, sought.key, sought.floor)
        {
            self.rules.value_not_found(&reading, status);
        }
        if is_awaited {
            self.wake_soon(process);
        }
    }

    /// Whether "nothing" can only mean that there is nothing: the reader has it mapped, or its server holds it.
    fn is_certain(&self, peer: PeerId, sought: &Sought, status: Status) -> bool {
        let Some(connection) = self.connections.get(&peer) else { return false };
        let directives = &sought.request.directives;
        let is_word = matches!(status, Status::ERR_NOT_FOUND | Status::ERR_EXISTS_OUTSIDE_SCOPE)
            || (status == Status::ERR_TIMEOUT && !directives.refresh);
        let namespace = &sought.request.proc.namespace;
        if connection.reader.as_ref().is_some_and(|reader| reader.namespace() == namespace.as_str()) {
            return is_word;
        }
        let number = self.job_named(namespace).map(|(number, _)| number);
        let node = self.node(connection.server.node);
        let is_held = node.zip(number).is_some_and(|(node, number)| node.registered.contains(&number));
        is_word && is_held && !directives.optional && !connection.is_client_gone && !self.is_ending
    }

    pub(super) fn reading(&self, reader: u32, whose: u32, key: u8, floor: u32) -> Option<Reading> {
        let (by, of) = (self.process(reader)?, self.process(whose)?);
        Some(Reading { reader, whose, same_node: by.node == of.node, key, floor, newest: of.version })
    }

    /// A collecting fence is over: everything that its participants had committed is in the mapping.
    fn check_promise(&mut self, peer: PeerId, process: u32, promise: &Promise) {
        let Some(node) = self.process(process).map(|of| of.node) else { return };
        let is_mapped = self.connections.get(&peer).is_some_and(|of| of.reader.is_some());
        let count = promise.values.len();
        let first = if count > SAMPLE {
            usize::try_from(self.sample.below(u64::try_from(count).unwrap_or(1))).unwrap_or(0)
        } else {
            0
        };
        for promised in promise.values.iter().cycle().skip(first).take(count.min(SAMPLE)) {
            for put in &promised.committed {
                let version = put.version_for(promised.node == node);
                let missed = self.node(node).and_then(|of| of.missed.get(&(promised.process, put.key)));
                if version == 0 || promised.process == process || missed.is_some_and(|missed| *missed >= version) {
                    continue;
                }
                if is_mapped && let Some(reading) = self.reading(process, promised.process, put.key, version) {
                    let value = self.look_up(process, promised.process, put.key);
                    self.rules.contribution_read(&reading, value.as_ref());
                }
                if let Some(of) = self.process_mut(process) {
                    of.expect(promised.process, put.key, version);
                }
            }
        }
    }

    /// What was published stays readable: everything that a process has seen, it still sees.
    pub(super) fn read_again(&mut self, process: u32) {
        let Some(of) = self.process(process).filter(|of| of.mapped.is_some()) else { return };
        let own = of.job;
        let floors: Vec<((u32, u8), u32)> = of.floors.iter().map(|(of, version)| (*of, *version)).collect();
        for ((whose, key), version) in floors {
            if self.process(whose).is_none_or(|of| of.job != own) {
                continue;
            }
            let Some(reading) = self.reading(process, whose, key, version) else { continue };
            match self.look_up(process, whose, key) {
                Some(value) => self.rules.value_read(&reading, &value),
                None => self.rules.value_not_found(&reading, Status::ERR_NOT_FOUND),
            }
        }
    }

    /// A value straight from the mapping.
    fn look_up(&self, process: u32, whose: u32, key: u8) -> Option<Value> {
        let reader = self.process(process)?.mapped.as_ref()?;
        let rank = self.process(whose)?.proc.rank;
        let key = KeyRef::new(KEYS.get(usize::from(key))?);
        let lookup = Lookup { rank, key, realm: RealmRequest::Default, audience: None };
        reader.get(&lookup).ok()?.to_value().ok()
    }

    /// Leaves in order, with the child.
    fn finalize(&mut self, process: u32, peer: PeerId, comes_again: bool) {
        let Some(of) = self.process_mut(process) else { return };
        of.state = State::Leaving(comes_again);
        let child = of.child.take();
        // A child that was not let in yet goes without a word.
        let is_in = |peer: &PeerId| self.connections.get(peer).is_some_and(|of| of.is_admitted);
        if let Some(child) = child.filter(|peer| !is_in(peer)) {
            self.close_client(child);
        }
        for peer in child.into_iter().chain([peer]) {
            let deadline = Some(self.now + Duration::from_secs(11));
            self.client_call(peer, Asked { why: Why::Finalize, is_awaited: false, deadline }, Call::Finalize);
        }
    }

    /// A process asks for more than its server takes of one.
    pub(super) fn flood(&mut self, process: u32) {
        let Some(of) = self.process(process).filter(|of| of.state == State::Running) else { return };
        let (Some(peer), job) = (of.main, of.job) else { return };
        let timeout = Info::new(Key::from_static(keys::TIMEOUT.name()), Value::Int(2));
        let refresh = Info::new(Key::from_static(keys::GET_REFRESH_CACHE.name()), true);
        for number in 0..FLOOD {
            let Some(job) = self.jobs.get(job) else { return };
            let rank = number % job.size;
            let (proc, whose) = (job.proc(rank), job.first.saturating_add(rank));
            let key = u8::try_from(number % 6).unwrap_or(0);
            let directives = [timeout.clone(), refresh.clone()];
            self.look_for(process, peer, (proc, whose, key), &directives, false);
            let log = Request::Log(Log { timestamp: None, data: Vec::new(), directives: Vec::new() });
            let asked = Asked { why: Why::Other, is_awaited: false, deadline: None };
            self.client_call(peer, asked, Call::Exchange(log));
        }
    }
}

impl Phase {
    /// The call that a process makes.
    fn call(&self, procs: Vec<ProcId>) -> Call {
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
                Call::Exchange(Request::GroupConstruct(Group { command, id: Some(name.clone()), procs, directives }))
            }
            Meeting::Destruct(name) => {
                let command = Command::GroupDestruct.to_raw();
                Call::Exchange(Request::GroupDestruct(Group { command, id: Some(name.clone()), procs, directives }))
            }
        }
    }
}

/// Participants whose values are looked up at the end of a fence.
const SAMPLE: usize = 64;
/// Requests of a process that floods its server, twice.
const FLOOD: u32 = 40;
