//! The server's one thread: waits for sockets, other threads and deadlines, and drives the core. While it waits, a call
//! of the host takes a turn on the host's own thread.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;

use super::cleaner::{Cleaner, FINISH_TIME_MAX};
use super::connections::Connections;
use super::decoder::Content;
use super::duplicate_rank_check::DuplicateRankCheck;
use super::file_looks::FileLooks;
use super::host::Moment;
use super::host_thread::{HostJob, HostThread, Lane, QueuePlacement};
use super::job_info::{Described, DescriptionRequest};
use super::lifecycle_observer::LifecycleObserver;
use super::listeners::Listeners;
use super::loop_messages::{Desk, LoopMessage, LoopReceiver, LoopSender, ResultReceiver};
use super::name_desk::{NameCallback, NameDesk, end_by};
use super::own_process::output::OwnPulls;
use super::own_services::OwnServices;
use super::poller::{EVENTS_PER_TURN, Poller, Readiness, Token, Waker};
use super::process_ends::ProcessEnds;
use super::request_quota::{Account, Duty, RequestOrigin, RequestQuota};
use super::service_desk::ReplyTo;
use super::topology::TopologyDesk;
use super::work::{Task, WorkMeter};
use crate::events::Event;
use crate::gds::Store;
use crate::names::{Asker, NameRequest};
use crate::proto::{Command, Reply, Request, Service, Tag};
use crate::runtime::shared::clock::Clock;
use crate::runtime::shared::events::{self, EventHub};
use crate::runtime::shared::launcher_end::{LauncherEnd, ParentConnection};
use crate::runtime::shared::threads::spawn;
use crate::server::{
    Answer, Cleanup, FileLook, Forwarded, HostCall, HostCallId, HostData, HostReply, HostResult, Input, Output, PeerId,
    Requester, ServerCore, Upcall, UpcallId,
};
use crate::types::{Namespace, ProcId, Rank, Status, Text, Time};

/// The state of the loop.
pub(super) struct ServerLoop {
    pub(super) core: ServerCore<Store>,
    pub(super) host: HostThread,
    pub(super) clock: Clock,
    pub(super) poller: Arc<Poller>,
    pub(super) waker: Waker,
    pub(super) listeners: Listeners,
    pub(super) messages: LoopReceiver,
    pub(super) connections: Connections,
    pub(super) meter: WorkMeter,
    pub(super) calls: Calls,
    pub(super) is_ending: bool,
    /// The end of the thread's wait without any event.
    pub(super) wakes_at: Option<Time>,
    pub(super) lifecycle_observer: LifecycleObserver,
    pub(super) duplicate_rank_check: DuplicateRankCheck,
    pub(super) events: Arc<EventHub>,
    pub(super) own_pulls: Arc<OwnPulls>,
    pub(super) request_quota: RequestQuota,
    pub(super) cleaner: Cleaner,
    pub(super) file_looks: FileLooks,
    pub(super) topology: TopologyDesk,
    /// The service of published data, if it is switched on.
    pub(super) names: Option<NameDesk>,
    pub(super) own_services: OwnServices,
}

/// Pending calls of the host.
#[derive(Default)]
pub(super) struct Calls {
    last: u64,
    /// Each with the process or job that the call ends.
    result_receivers: BTreeMap<HostCallId, (ResultReceiver, Option<ProcId>)>,
}

impl ServerLoop {
    pub(super) const WAKER: Token = Token(0);
    pub(super) const NEWCOMERS: Token = Token(3);

    /// Starts the thread that takes turns. Callers that send messages may take turns, too.
    pub(super) fn start(self, loop_sender: &LoopSender) -> io::Result<JoinHandle<()>> {
        let desk = Arc::new(LoopDesk(Mutex::new(Some(self))));
        loop_sender.set_desk(Arc::clone(&desk) as Arc<dyn Desk>);
        let of_thread = Arc::clone(&desk);
        spawn("modex-server", move || Self::run(&of_thread)).inspect_err(|_| drop(desk.0.lock().take()))
    }

    /// Takes turns until the shutdown, or until the operating system refuses the wait.
    fn run(desk: &LoopDesk) {
        let ended = Ended(desk);
        let Some(poller) = desk.0.lock().as_ref().map(|server_loop| Arc::clone(&server_loop.poller)) else { return };
        let mut timeout = Some(Duration::ZERO);
        loop {
            let ready = poller.wait(timeout);
            let mut desk = desk.0.lock();
            let Some(server_loop) = &mut *desk else { return };
            match ready {
                Ok(ready) => server_loop.turn(ready),
                Err(errno) => {
                    tracing::error!(%errno, "the server's loop can't wait for its sockets any more and ends");
                    break;
                }
            }
            if server_loop.is_ending {
                break;
            }
            timeout = server_loop.timeout();
        }
        if let Some(server_loop) = ended.take() {
            server_loop.end();
        }
    }

    fn turn(&mut self, ready: Vec<Readiness>) {
        self.meter.begin(self.clock.now());
        let has_newcomers = self.serve_all(ready);
        self.handle_requests();
        if has_newcomers {
            // The replies to requests are written first.
            self.execute();
            self.serve_newcomers();
        }
        self.expire();
        self.execute();
        self.end_turn();
    }

    /// Serves all that is ready, except newcomers. Returns whether there may be some.
    fn serve_all(&mut self, mut ready: Vec<Readiness>) -> bool {
        let is_newcomers = |readiness: &Readiness| readiness.token == Self::NEWCOMERS;
        let end = self.meter.last() + READING_TIME;
        let mut has_newcomers = false;
        loop {
            // A full report may leave some out.
            let is_full = ready.len() == EVENTS_PER_TURN;
            has_newcomers |= is_full || ready.iter().any(is_newcomers);
            for readiness in ready.into_iter().filter(|readiness| !is_newcomers(readiness)) {
                self.serve(readiness);
            }
            // Thousands of connections may end together. The kernel reports a request behind all these ends.
            if !is_full || self.meter.last() >= end {
                return has_newcomers;
            }
            ready = self.poller.wait(Some(Duration::ZERO)).unwrap_or_default();
        }
    }

    /// Takes a turn on a caller's thread. Input from sockets is left to the loop's own thread, because it may cause
    /// calls of the host's functions.
    fn turn_of_caller(&mut self) {
        let now = self.clock.now();
        self.meter.begin(now);
        self.topology.put_off(now);
        self.take_messages();
        self.write();
        self.end_turn();
        let is_early = |deadline| self.wakes_at.is_none_or(|at| deadline < at);
        let has_work = self.is_ending || self.connections.has_turns() || self.connections.has_input();
        if has_work || self.deadline().is_some_and(is_early) {
            self.waker.wake();
        }
    }

    fn end_turn(&mut self) {
        self.note(Task::Writing);
        let (lifecycle_observer, connections) = (&self.lifecycle_observer, &self.connections);
        let waited = self.connections.requests_waited_max();
        self.meter.end(waited, |peer| lifecycle_observer.name(peer).or_else(|| connections.name(peer)));
    }

    /// Books the time since the last note on this task.
    fn note(&mut self, task: Task) {
        self.meter.note(self.clock.now(), task);
    }

    /// Handles a few requests of each process that has some, in the order of [`Turns`](super::turns::Turns). Returns to
    /// the sockets after a limit, so that unread peers wait no longer than that.
    fn handle_requests(&mut self) {
        let mut now = self.meter.last();
        let end = now + TURN_TIME;
        for _ in 0..self.connections.turn_count() {
            let Some((id, share)) = self.connections.next_turn() else { return };
            let (start, mut requests) = (now, 0);
            while requests < REQUESTS_PER_PROCESS && self.connections.take_request(id, self.core.store()) {
                requests += 1;
                self.feed(now);
                if self.meter.last() == now {
                    // The connection answered by itself, as to most commands of PMI.
                    self.note(Task::Reading(id));
                }
                now = self.meter.last();
                if now >= start + PROCESS_TIME {
                    break;
                }
            }
            self.connections.end_turn(id, &share, requests, now.since(start), now);
            if now >= end {
                return;
            }
        }
    }

    /// Serves a few listeners and connections without an introduction: longer in a turn with many requests, so that
    /// newcomers get a part of all time.
    fn serve_newcomers(&mut self) {
        let end = self.meter.last() + NEWCOMERS_TIME.max(self.meter.time() / NEWCOMERS_PART);
        while let Some(readiness) = self.connections.next_newcomer() {
            self.serve(readiness);
            if self.meter.last() >= end {
                return;
            }
        }
    }

    fn timeout(&mut self) -> Option<Duration> {
        if self.connections.has_turns() {
            return Some(Duration::ZERO);
        }
        self.wakes_at = self.deadline();
        self.clock.until(self.wakes_at)
    }

    fn deadline(&self) -> Option<Time> {
        // With one array, the compiler would also compare the missing times, and memcheck reports that.
        let deadlines = self.core.poll_timeout().into_iter().chain(self.connections.next_deadline());
        let deadlines = deadlines.chain(self.topology.next_deadline());
        deadlines.chain(self.names.as_ref().and_then(NameDesk::next_deadline)).min()
    }

    fn take_messages(&mut self) {
        let mut now = self.clock.now();
        let end = now + MESSAGES_TIME;
        while now < end {
            let Some(message) = self.messages.take() else { return };
            let task = Task::Call(message_description(&message));
            match message {
                LoopMessage::Call(call, receiver) => {
                    // The call may end a namespace and its completion table.
                    self.complete_waits();
                    let id = self.calls.insert(receiver, ended_by(&call));
                    let ended = self.names.as_ref().and_then(|_| end_by(&call));
                    if let HostCall::DeregisterNamespace(namespace) = &call {
                        self.own_services.note_end_of_job(namespace);
                    }
                    self.handle(now, Input::Host(id, call), None);
                    if let (Some(names), Some(ended)) = (&mut self.names, ended) {
                        names.note_end(now, &self.core, ended);
                    }
                }
                LoopMessage::OwnService(requester, service, callback) => {
                    self.serve_server(now, requester, *service, callback);
                }
                LoopMessage::Completed(upcall, reply) => {
                    self.request_quota.remove(Duty::Upcall(upcall));
                    self.handle(now, Input::Completed(upcall, reply), None);
                }
                LoopMessage::Heard(event) => self.request_quota.remove(event),
                LoopMessage::Run(job) => self.run_job(QueuePlacement::default(), job),
                LoopMessage::Proven(peer, proven) => {
                    self.connections.settle_proof(peer, proven, now);
                    self.feed(now);
                }
                LoopMessage::Searched(peer, strangers) => self.accept(now, peer, strangers),
                LoopMessage::Decoded(peer, decoded) => self.connections.settle_decoded(peer, decoded),
                LoopMessage::Encoded(peer, encoded) => self.connections.settle_encoded(peer, encoded),
                LoopMessage::Described(described) => self.answer_described(*described),
                LoopMessage::TopologyRead => self.tell_topology(),
                LoopMessage::FileSeen(look, state) => self.handle(now, Input::FileSeen(look, state), None),
                // The other thread may have stopped waiting, here and below.
                LoopMessage::ServePmi(entry, caller) => {
                    let uid = self.core.user_of(&entry.proc);
                    drop(caller.send(self.connections.serve_pmi(entry, uid, self.core.store())));
                }
                LoopMessage::ListOperations(asker) => drop(asker.send(self.core.open_operations(now))),
                LoopMessage::CountRequests(asker) => drop(asker.send(self.connections.request_counts())),
                LoopMessage::MeasureOutput(asker) => drop(asker.send(self.connections.unread_output_bytes())),
                LoopMessage::FindDataForm(namespace, asker) => {
                    let form = self.core.peer_in(&namespace).and_then(|peer| self.connections.data_form(peer));
                    let _ = asker.send(form);
                }
                LoopMessage::OpenLauncher(proc, asker) => {
                    let sender = self.host.loop_sender();
                    let found = self.core.launcher_of(&proc);
                    let _ = asker.send(found.and_then(|peer| self.connections.open_launcher(peer, sender)));
                }
                LoopMessage::ServeParent(connection, asker) => {
                    let _ = asker.send(self.serve_parent(now, *connection));
                }
                LoopMessage::ToLauncher(peer, bytes) => self.connections.ask_launcher(peer, bytes),
                LoopMessage::Shutdown => return self.is_ending = true,
            }
            self.note(task);
            now = self.meter.last();
        }
        // More messages may wait, but the wake is used up.
        self.waker.wake();
    }

    /// Gives a request of the server's own process to one of the server's own services.
    fn serve_server(&mut self, now: Time, requester: Requester, service: Service, callback: NameCallback) {
        match (NameRequest::of(service), &mut self.names) {
            (Ok(request), Some(names)) => {
                names.ask_for_server(now, &self.core, requester, request, callback);
                self.settle(now, None);
            }
            (Ok(_), None) => callback(HostReply::Status(Status::ERR_NOT_SUPPORTED)),
            (Err(other), _) => {
                let reply_to = ReplyTo::Caller(callback);
                self.own_services.ask(&self.core, &self.connections, (&requester, None), *other, reply_to);
            }
        }
    }

    /// Serves the tool that started this process.
    fn serve_parent(&mut self, now: Time, connection: ParentConnection) -> Option<LauncherEnd> {
        let parent = connection.parent().clone();
        match self.connections.serve_parent(connection) {
            Ok((id, hello)) => {
                self.handle(now, Input::ParentConnected(id, hello), None);
                self.connections.open_parent(id, self.host.loop_sender())
            }
            Err(errno) => {
                tracing::warn!(%parent, %errno, "can't watch the connection to the tool that started this process");
                None
            }
        }
    }

    fn serve(&mut self, readiness: Readiness) {
        self.topology.put_off(self.meter.last());
        match readiness.token {
            Self::WAKER => {
                self.waker.reset();
                self.take_messages();
            }
            token @ (Listeners::OWN | Listeners::FOREIGN) => {
                if token == Listeners::FOREIGN {
                    self.topology.foresee();
                }
                self.connections.accept(&self.listeners, token, self.clock.now());
                self.note(Task::Accepting);
            }
            token @ Token(number) => {
                match ProcessEnds::whose(token) {
                    Some(peer) => self.connections.outlive(peer),
                    None => self.connections.serve(PeerId(number), readiness, self.meter.last()),
                }
                self.note(Task::of_token(token));
                self.feed(self.meter.last());
            }
        }
    }

    fn expire(&mut self) {
        let now = self.clock.now();
        self.connections.expire(now, &self.listeners);
        self.feed(now);
        if self.core.poll_timeout().is_some_and(|deadline| deadline <= now) {
            self.handle(now, Input::Timeout, None);
            self.note(Task::Deadlines);
        }
        if let Some(names) = &mut self.names {
            names.expire(now, &self.core);
            self.settle(now, None);
        }
        if self.topology.next_deadline().is_some_and(|deadline| deadline <= now) {
            self.topology.read_if_quiet(now);
            self.tell_topology();
        }
    }

    /// Gives the core an input and executes its outputs at once, on the account of the input's origin.
    pub(super) fn handle(&mut self, now: Time, input: Input, origin: Option<&RequestOrigin>) {
        let lost = if let Input::Lost(peer) = &input { Some(*peer) } else { None };
        self.core.handle(now, input);
        self.settle(now, origin);
        lost.into_iter().for_each(|peer| self.note_departure(peer));
    }

    /// Executes all outputs, with those that follow from answers of the service of published data.
    fn settle(&mut self, now: Time, origin: Option<&RequestOrigin>) {
        loop {
            while let Some(output) = self.core.poll_output() {
                self.execute_one(output, origin);
            }
            if let Some(names) = &mut self.names {
                names.note_ties(now, &self.core);
            }
            let Some((upcall, reply)) = self.names.as_mut().and_then(NameDesk::poll_answer) else { return };
            self.core.handle(now, Input::Completed(upcall, reply));
        }
    }

    /// Gives the core the input from connections.
    fn feed(&mut self, now: Time) {
        while let Some(input) = self.connections.poll_input() {
            let origin = self.lifecycle_observer.origin(&input, |peer, tag| self.connections.size_of(peer, tag));
            if origin.as_ref().is_some_and(|origin| self.request_quota.is_full(origin)) && self.turn_away(&input) {
                continue;
            }
            if let Some(input) =
                self.duplicate_rank_check.examine(input, &self.connections, &self.lifecycle_observer, now)
            {
                self.take_in(now, input, origin.as_ref());
            }
        }
    }

    /// Continues with an introduction that waited for a search.
    fn accept(&mut self, now: Time, peer: PeerId, strangers: BTreeSet<PeerId>) {
        if let Some(input) = self.duplicate_rank_check.settle(peer, strangers) {
            let origin = self.lifecycle_observer.origin(&input, |peer, tag| self.connections.size_of(peer, tag));
            self.take_in(now, input, origin.as_ref());
        }
    }

    fn take_in(&mut self, now: Time, input: Input, origin: Option<&RequestOrigin>) {
        self.lifecycle_observer.see(&input, |peer| self.connections.init_age(peer));
        let task = match &input {
            Input::Request(peer, _, request) => Task::Request(*peer, request.command()),
            other => Task::of_input(other),
        };
        self.handle(now, input, origin);
        self.note(task);
    }

    /// Refuses an input that may become more work for the host; returns whether it did. Requests that the server
    /// handles by itself are not refused.
    fn turn_away(&mut self, input: &Input) -> bool {
        match input {
            Input::Connected(peer, _) | Input::ToolConnected(peer, _) => self.connections.turn_away(*peer),
            Input::Request(
                _,
                _,
                Request::Commit(_)
                | Request::Finalize
                | Request::JobInfo
                | Request::StoreFallback(_)
                | Request::DeregisterEvents(_),
            ) => return false,
            Input::Request(peer, tag, _) => {
                self.connections.reply(*peer, *tag, &Reply::Status(Status::ERR_OUT_OF_RESOURCE));
            }
            _ => return false,
        }
        true
    }

    /// Writes to the connections. If one breaks meanwhile, the core gets that as input and may have more output.
    fn execute(&mut self) {
        loop {
            let now = self.clock.now();
            self.write();
            if !self.connections.has_input() {
                return;
            }
            self.feed(now);
        }
    }

    fn write(&mut self) {
        // Messages come first: a peer that reads its verdict on the completion table must find them.
        self.connections.flush();
        self.complete_waits();
        self.connections.end();
    }

    /// Writes the verdicts for sleeping processes to their completion tables.
    fn complete_waits(&mut self) {
        for (namespace, notices) in self.connections.take_completions() {
            if let Err(error) = self.core.complete_waits(&namespace, &notices) {
                // The processes will wake, and demand a message.
                tracing::debug!(%namespace, %error, "waiting processes can't be notified through their segment");
            }
        }
        for (namespace, number) in self.connections.take_left() {
            self.core.free_slot(&namespace, number);
        }
    }

    /// Sends a segment to a peer. A process of the segment's namespace gets a slot at its completion table.
    fn send_segment(&mut self, peer: PeerId, namespace: &Namespace) {
        if let Err(error) = self.core.share_segment(namespace) {
            tracing::warn!(%namespace, %error, "processes can't map the segment; they request each value");
        }
        if let Some(number) = self.connections.candidate(peer, namespace) {
            match self.core.take_slot(namespace, number) {
                Ok(true) => self.connections.assign_slot(peer),
                Ok(false) => {}
                Err(error) => tracing::debug!(%namespace, %error, "the segment has no completion table; processes are \
                 notified by messages alone"),
            }
        }
        self.connections.send_segment(peer, namespace, self.core.store());
    }

    fn execute_one(&mut self, output: Output, origin: Option<&RequestOrigin>) {
        match output {
            Output::Admit(peer, index) => {
                self.connections.watch_process(peer);
                self.connections.admit(peer, index, None);
                self.lifecycle_observer.admitted(peer);
                self.note_arrival(peer);
            }
            Output::AdmitTool(peer, index, proc) => {
                self.connections.watch_process(peer);
                self.connections.admit(peer, index, Some(&proc));
                self.lifecycle_observer.admitted_tool(peer, proc);
                self.note_arrival(peer);
            }
            Output::Refuse(peer, refusal) => {
                self.lifecycle_observer.forget(peer);
                self.connections.refuse(peer, &refusal, self.clock.now());
            }
            Output::Unfinished(peer) => self.connections.note_unfinished(peer),
            Output::Answer(peer, tag, answer) => self.answer(peer, tag, answer),
            Output::WantTopology => self.give_topology(),
            Output::Described(namespace) => self.connections.forget_job_info(&namespace, self.core.store()),
            Output::SendSegment(peer, namespace) => self.send_segment(peer, &namespace),
            Output::WithdrawSegment(peer, namespace) => self.connections.withdraw_segment(peer, namespace),
            Output::Forward(peer, output) => self.connections.send_output(peer, &output),
            Output::HandOver(piece) => self.hand_over(piece),
            Output::Close(peer, reason) => {
                self.lifecycle_observer.forget(peer);
                self.note_departure(peer);
                self.connections.close(peer, reason, self.clock.now());
            }
            Output::Upcall(id, upcall) => self.upcall(id, upcall, origin),
            Output::Notify(peer, delivery) => self.connections.notify(peer, &delivery),
            Output::TellRemoval(peer, removal) => self.connections.tell_removal(peer, &removal),
            Output::Raise(event) => self.raise(event, origin),
            Output::Inventories => self.own_services.follow_inventories(),
            Output::Complete(id, result) => self.complete(id, result),
            Output::Cleanup(cleanup) => self.clean_up(cleanup),
            Output::LookAtFile(look, path) => self.look_at(look, path),
            Output::Look(id, requester, queries) => {
                self.count(id, origin);
                let asker = (&requester, origin.map(|origin| origin.account.clone()));
                self.own_services.look(&self.core, &self.connections, asker, queries, ReplyTo::Core(id));
            }
            Output::Measure(id, requester, request) => {
                self.count(id, origin);
                let asker = (&requester, origin.map(|origin| origin.account.clone()));
                let service = Service::Monitor(*request);
                self.own_services.ask(&self.core, &self.connections, asker, service, ReplyTo::Core(id));
            }
            Output::Discard(garbage) => self.connections.discard(garbage),
            // No process sleeps to wait for a publication.
            Output::Wake(_) => {}
        }
    }

    fn answer(&mut self, peer: PeerId, tag: Tag, answer: Answer) {
        match answer {
            Answer::Reply(reply) => self.reply(peer, tag, Content::Reply(reply)),
            Answer::JobInfo(namespace) => self.answer_job_info(peer, tag, namespace),
            Answer::JobData(data) => self.connections.reply_job_data(peer, tag, data, self.core.store()),
            Answer::Process(answer) => {
                self.connections.reply_large(peer, tag, Content::Process { description: None, answer });
            }
            Answer::Queries(answers) => self.reply(peer, tag, Content::Queries(answers)),
            Answer::Hardware(answer) => self.reply(peer, tag, Content::Hardware(answer)),
            Answer::Topology(question) => self.answer_topology(peer, tag, question),
        }
    }

    fn reply(&mut self, peer: PeerId, tag: Tag, content: Content) {
        if content.is_large() {
            return self.connections.reply_large(peer, tag, content);
        }
        let reply = content.into_reply();
        if reply == Reply::Status(Status::SUCCESS) {
            match self.connections.asked(peer, tag) {
                Some(Command::Fence) => self.lifecycle_observer.reached(peer, Moment::Fenced),
                Some(Command::Finalize) => {
                    self.lifecycle_observer.reached(peer, Moment::Finalized);
                    self.lifecycle_observer.forget(peer);
                }
                _ => {}
            }
        }
        self.connections.reply(peer, tag, &reply);
    }

    /// Answers the requests that waited for the description of a large job.
    fn answer_described(&mut self, described: Described) {
        for request in self.connections.settle_described(described) {
            match request {
                DescriptionRequest::Info(peer, tag, namespace) => self.answer_job_info(peer, tag, namespace),
                DescriptionRequest::Data(peer, tag, data) => {
                    self.connections.reply_job_data(peer, tag, data, self.core.store());
                }
            }
        }
    }

    /// Calls the handlers in this process.
    fn raise(&mut self, event: Event, origin: Option<&RequestOrigin>) {
        let events = Arc::clone(&self.events);
        let placement = QueuePlacement::new(origin, event.source.as_ref());
        let Some(origin) = origin else {
            let placement = self.on_turns_of_user(placement, event.source.as_ref());
            return self.run_job(placement, Box::new(move || events.arrive(event)));
        };
        let duty = self.request_quota.event();
        self.request_quota.add(duty, origin);
        let loop_sender = self.host.loop_sender().clone();
        let job = move || {
            events.arrive(event);
            // A server that has ended keeps no counts.
            let _ = loop_sender.send(LoopMessage::Heard(duty));
        };
        self.run_job(placement, Box::new(job));
    }

    /// The placement of work without a request: on the turns of the user who owns the process that it is about.
    fn on_turns_of_user(&self, placement: QueuePlacement, about: Option<&ProcId>) -> QueuePlacement {
        let uid = placement.uid.or_else(|| about.and_then(|proc| self.core.user_of(proc)));
        QueuePlacement { uid, ..placement }
    }

    /// The placement of an upcall: behind all earlier requests of its participants.
    fn placement_of(&self, id: UpcallId, upcall: &Upcall, origin: Option<&RequestOrigin>) -> QueuePlacement {
        let participants = self.core.participants(id);
        let first = participants.and_then(|participants| participants.first());
        let placement = self.on_turns_of_user(QueuePlacement::of(upcall, origin), first);
        let lanes = participants.into_iter().flatten().map(|proc| Lane::Of(Account::Process(proc.clone())));
        lanes.fold(placement, QueuePlacement::and)
    }

    fn upcall(&mut self, id: UpcallId, upcall: Upcall, origin: Option<&RequestOrigin>) {
        let upcall = match upcall {
            Upcall::Service(requester, service) => match self.ask_names(id, &requester, service, origin) {
                Ok(()) => return,
                Err(service) if self.core.is_own_service(&service) => {
                    self.count(id, origin);
                    let reply_to = ReplyTo::Core(id);
                    let asker = (&requester, origin.map(|origin| origin.account.clone()));
                    return self.own_services.ask(&self.core, &self.connections, asker, *service, reply_to);
                }
                Err(service) => Upcall::Service(requester, *service),
            },
            other => other,
        };
        self.count(id, origin);
        let placement = self.placement_of(id, &upcall, origin);
        self.host.run_at(placement, HostJob::Upcall(id, upcall));
    }

    /// Counts an upcall as work for its origin until its answer.
    fn count(&mut self, id: UpcallId, origin: Option<&RequestOrigin>) {
        if let Some(origin) = origin {
            self.request_quota.add(Duty::Upcall(id), origin);
        }
    }

    /// Gives a request to the server's own service of published data.
    ///
    /// # Errors
    /// The request of another service, or one for the host.
    fn ask_names(
        &mut self,
        id: UpcallId,
        requester: &Requester,
        service: Service,
        origin: Option<&RequestOrigin>,
    ) -> Result<(), Box<Service>> {
        let Some(names) = self.names.as_mut().filter(|_| self.core.is_own_service(&service)) else {
            return Err(Box::new(service));
        };
        let request = NameRequest::of(service)?;
        let is_tool = origin.is_some_and(|origin| matches!(origin.account, Account::Tools(_)));
        let asker = Asker { requester: requester.clone(), is_tool };
        names.ask(self.clock.now(), &self.core, id, asker, request);
        Ok(())
    }

    fn note_arrival(&mut self, peer: PeerId) {
        let Some(proc) = self.core.process_of(peer) else { return };
        self.own_services.note_arrival(peer, proc);
        if let Some(names) = &mut self.names {
            names.note_arrival(peer, proc);
        }
    }

    fn note_departure(&mut self, peer: PeerId) {
        self.own_services.note_departure(&self.core, peer);
        if let Some(names) = &mut self.names {
            names.note_departure(self.clock.now(), &self.core, peer);
        }
    }

    /// Gives output to a handler of this process.
    fn hand_over(&self, piece: Forwarded) {
        if let Some(admitted) = self.own_pulls.admit(piece) {
            let pulls = Arc::clone(&self.own_pulls);
            self.run_job(QueuePlacement::default(), Box::new(move || pulls.hand_over(admitted)));
        }
    }

    fn run_job(&self, placement: QueuePlacement, job: events::Job) {
        self.host.run_at(placement, HostJob::Run(job));
    }

    /// A watch whose file is not looked at gets no sign, and reports that.
    fn look_at(&mut self, look: FileLook, path: Text) {
        if let Err(error) = self.file_looks.order(look, path) {
            tracing::warn!(%error, "a watched file can't be looked at");
        }
    }

    fn clean_up(&mut self, cleanup: Cleanup) {
        if let Err(error) = self.cleaner.order(cleanup) {
            tracing::error!(%error, "the files of an ended process stay");
        }
    }

    fn complete(&mut self, id: HostCallId, result: HostResult<HostData>) {
        match self.calls.result_receivers.remove(&id) {
            // The waiting thread may be gone.
            Some((ResultReceiver::Waiter(waiter), _)) => drop(waiter.send(result)),
            Some((ResultReceiver::Callback(callback), ended)) => {
                let job = HostJob::Complete(callback, result);
                match ended {
                    Some(ended) => self.host.run_behind(&ended, job),
                    None => self.host.run_at(QueuePlacement::default(), job),
                }
            }
            None => {}
        }
    }

    /// Answers all pending calls: callbacks get a status, and the channels of waiting threads are closed.
    fn end(mut self) {
        // Calls that were on their way at the end are answered like pending ones.
        self.messages.close();
        while let Some(message) = self.messages.take() {
            match message {
                LoopMessage::Call(_, receiver) => drop(self.calls.insert(receiver, None)),
                LoopMessage::OwnService(.., callback) => callback(HostReply::Status(Status::ERR_SERVER_NOT_AVAIL)),
                LoopMessage::Run(job) => self.run_job(QueuePlacement::default(), job),
                LoopMessage::Completed(..)
                | LoopMessage::Heard(_)
                | LoopMessage::Proven(..)
                | LoopMessage::Searched(..)
                | LoopMessage::Decoded(..)
                | LoopMessage::Encoded(..)
                | LoopMessage::Described(_)
                | LoopMessage::TopologyRead
                | LoopMessage::FileSeen(..)
                | LoopMessage::ServePmi(..)
                | LoopMessage::ListOperations(_)
                | LoopMessage::CountRequests(_)
                | LoopMessage::MeasureOutput(_)
                | LoopMessage::FindDataForm(..)
                | LoopMessage::OpenLauncher(..)
                | LoopMessage::ServeParent(..)
                | LoopMessage::ToLauncher(..)
                | LoopMessage::Shutdown => {}
            }
        }
        if let Some(names) = self.names.take() {
            names.close();
        }
        let ids: Vec<HostCallId> = self.calls.result_receivers.keys().copied().collect();
        for id in ids {
            self.complete(id, HostResult::Status(Status::ERR_SERVER_NOT_AVAIL));
        }
        self.handle(self.clock.now(), Input::Closing, None);
        self.connections.flush_all(self.clock, FLUSH_TIME_MAX);
        for cleanup in self.core.take_cleanups() {
            self.clean_up(cleanup);
        }
        self.cleaner.finish(FINISH_TIME_MAX);
    }
}

/// How long the end of a server waits for peers that read their last messages, such as output of a job.
const FLUSH_TIME_MAX: Duration = Duration::from_secs(1);

/// The loop between its turns. Empty after the last one.
struct LoopDesk(Mutex<Option<ServerLoop>>);

impl Desk for LoopDesk {
    /// A panic ends the loop, as on its own thread.
    fn take_turn(&self) -> bool {
        let Some(mut desk) = self.0.try_lock() else { return false };
        let Some(server_loop) = &mut *desk else { return false };
        let is_whole = catch_unwind(AssertUnwindSafe(|| server_loop.turn_of_caller())).is_ok();
        if !is_whole {
            *desk = None;
        }
        is_whole
    }
}

/// Takes the loop from its desk when its thread ends, also by a panic.
struct Ended<'a>(&'a LoopDesk);

impl Ended<'_> {
    fn take(&self) -> Option<ServerLoop> {
        self.0.0.lock().take()
    }
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

/// The process, or the job (the wildcard rank), that a call of the host ends.
fn ended_by(call: &HostCall) -> Option<ProcId> {
    match call {
        HostCall::DeregisterClient(proc) => Some(proc.clone()),
        HostCall::DeregisterNamespace(namespace) => Some(ProcId { namespace: namespace.clone(), rank: Rank::Wildcard }),
        _ => None,
    }
}

/// A message's description for the log.
const fn message_description(message: &LoopMessage) -> &'static str {
    match message {
        LoopMessage::Call(..) => "a call of the host",
        LoopMessage::Completed(..) => "an answer of the host",
        LoopMessage::OwnService(..) => "a request of the host to a service",
        LoopMessage::Proven(..) => "a proof of munge",
        LoopMessage::Searched(..) => "a search for processes",
        LoopMessage::Decoded(..) => "a decoded request",
        LoopMessage::Encoded(..) => "an encoded answer",
        LoopMessage::Described(_) => "a job's description",
        LoopMessage::TopologyRead => "the topology",
        LoopMessage::FileSeen(..) => "the state of a file",
        LoopMessage::ServePmi(..) => "a rank of PMI",
        LoopMessage::ListOperations(_) => "a list of the operations that wait",
        LoopMessage::CountRequests(_) => "the number of requests of each rank",
        LoopMessage::MeasureOutput(_) => "the bytes of output that wait",
        LoopMessage::FindDataForm(..) => "the form of data for a process",
        LoopMessage::OpenLauncher(..) | LoopMessage::ServeParent(..) | LoopMessage::ToLauncher(..) => {
            "a request to a launcher or its tool"
        }
        LoopMessage::Heard(_) | LoopMessage::Run(_) | LoopMessage::Shutdown => "news of another thread",
    }
}

impl Calls {
    fn insert(&mut self, receiver: ResultReceiver, ended: Option<ProcId>) -> HostCallId {
        self.last += 1;
        let id = HostCallId(self.last);
        self.result_receivers.insert(id, (receiver, ended));
        id
    }
}

/// Time of messages of other threads in a turn. A client's flood may cause thousands of answers of the host.
const MESSAGES_TIME: Duration = Duration::from_micros(30);
/// Requests of one process per turn. An ordinary process has two at a time, a commit and a fence.
const REQUESTS_PER_PROCESS: u64 = 8;
/// Time of a process in a turn; the request that exceeds it is the last.
const PROCESS_TIME: Duration = Duration::from_micros(20);
/// Time of further reports of the poller in a turn.
const READING_TIME: Duration = Duration::from_micros(200);
/// Time of all processes together in a turn.
const TURN_TIME: Duration = Duration::from_millis(1);
/// Time of newcomers in a turn. Accepting a connection takes about 20 us, and the processes with requests wait for it.
const NEWCOMERS_TIME: Duration = Duration::from_micros(20);
/// The part of a turn's earlier time that newcomers get at least.
const NEWCOMERS_PART: u32 = 4;
