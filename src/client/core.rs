//! The core of the protocol with the server.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::call::{
    Anomaly, Call, CallError, CallId, ClientConfig, ClientInput, ClientOutput, LossReason, Outcome, Unsendable,
};
use super::gets::{GetPlacement, Gets};
use super::resolve::{GetRequest, is_of_sets};
use super::tags::Tags;
use crate::keys;
use crate::proto::{Collective, Command, Get, RankData, Reply, Request, Service, Tag};
use crate::types::{Kval, Namespace, ProcId, Rank, Status, Text, Time, Value};

/// The client core: calls in, requests out, replies in, results out. See the module for its invariants.
///
/// Time must not run backwards between calls. Outputs are executed in the order they are polled.
#[derive(Debug)]
pub struct ClientCore {
    own: ProcId,
    config: ClientConfig,
    state: State,
    tags: Tags,
    calls: BTreeMap<CallId, InFlight>,
    deadlines: BTreeSet<(Time, CallId)>,
    requests: BTreeMap<Tag, Awaited>,
    gets: Gets,
    outputs: VecDeque<ClientOutput>,
}

/// State of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    Finalizing(CallId),
    Finalized,
    Lost(LossReason),
}

/// A call that is not done.
#[derive(Debug)]
struct InFlight {
    command: Command,
    deadline: Option<Time>,
    /// The request of this call alone. Gets share requests, see [`Gets`].
    tag: Option<Tag>,
}

/// A request without its reply.
#[derive(Debug)]
struct Awaited {
    command: Command,
    shape: Shape,
    /// `None` when the call has given up.
    call: Option<CallId>,
}

/// Expected form of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// A status alone.
    Status,
    /// Data of processes; [`Gets`] knows the waiting calls.
    Data,
    /// Any reply; it is the result.
    Any,
}

impl ClientCore {
    /// A core for a connection whose handshake is complete.
    #[must_use]
    pub const fn new(own: ProcId, config: ClientConfig) -> Self {
        Self {
            own,
            state: State::Open,
            tags: Tags::new(),
            calls: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            requests: BTreeMap::new(),
            gets: Gets::new(config.queue_patience, config.gets_sent_max),
            outputs: VecDeque::new(),
            config,
        }
    }

    /// Handles an input. Poll the outputs afterwards.
    pub fn handle(&mut self, now: Time, input: ClientInput) {
        match input {
            ClientInput::Call(id, call) => self.start(now, id, call),
            ClientInput::Reply(tag, reply) => self.answer(tag, reply),
            ClientInput::NotSent(tag, reason) => self.give_back(tag, reason),
            ClientInput::Settle(id) => self.done(id, Ok(Outcome::Complete)),
            ClientInput::Lost(reason) => self.lose(reason),
            ClientInput::Timeout => self.expire(now),
            ClientInput::SegmentAvailable(namespace) => {
                for call in self.gets.wake_namespace(&namespace) {
                    self.done(call, Ok(Outcome::LookAgain));
                }
            }
        }
    }

    /// The next output, or none.
    #[must_use]
    pub fn poll_output(&mut self) -> Option<ClientOutput> {
        self.outputs.pop_front()
    }

    /// The time for [`ClientInput::Timeout`], unless another input comes before. A time in the past means at once.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let deadline = self.deadlines.first().map(|&(deadline, _)| deadline);
        deadline.into_iter().chain(self.gets.next_overdue()).min()
    }

    /// The command of the request with this tag, needed to decode its reply. `None` for an unknown tag, whose reply may
    /// be skipped.
    #[must_use]
    pub fn command_of(&self, tag: Tag) -> Option<Command> {
        self.requests.get(&tag).map(|awaited| awaited.command)
    }

    /// This process.
    #[must_use]
    pub const fn own(&self) -> &ProcId {
        &self.own
    }

    /// Number of calls in flight.
    #[must_use]
    pub fn calls_in_flight(&self) -> usize {
        self.calls.len()
    }

    #[cfg(test)]
    pub(super) const fn gets_compared(&self) -> usize {
        self.gets.compared
    }

    fn start(&mut self, now: Time, id: CallId, call: Call) {
        let command = call.command();
        if self.calls.contains_key(&id) {
            return self.outputs.push_back(ClientOutput::Report(Anomaly::DuplicateCall(id)));
        }
        if let (Command::Finalize, State::Lost(_)) = (command, self.state) {
            // The server knows that this process is gone, so no message is needed.
            self.state = State::Finalized;
            return self.outputs.push_back(ClientOutput::Done(id, Ok(Outcome::Complete)));
        }
        if let Some(error) = self.refusal(command, matches!(call, Call::Get(_))) {
            return self.outputs.push_back(ClientOutput::Done(id, Err(error)));
        }
        match call {
            Call::Fence { procs, directives } => {
                let deadline = self.deadline(now, directives.timeout);
                let procs = if procs.is_empty() { vec![self.everyone()] } else { procs };
                let fence = Collective { procs, directives: directives.upward };
                self.ask(id, Request::Fence(fence), Shape::Status, deadline);
            }
            Call::Commit(commit) => self.ask(id, Request::Commit(commit), Shape::Status, None),
            Call::Abort(abort) => self.ask(id, Request::Abort(abort), Shape::Status, None),
            Call::Get(request) => self.start_get(now, id, request),
            Call::Finalize | Call::Exchange(Request::Finalize) | Call::ExchangeWithin(Request::Finalize, _) => {
                self.state = State::Finalizing(id);
                let deadline = self.config.finalize_wait.map(|wait| now + wait);
                self.ask(id, Request::Finalize, Shape::Status, deadline);
            }
            Call::Exchange(request @ Request::DeregisterEvents(_))
            | Call::ExchangeWithin(request @ Request::DeregisterEvents(_), _) => {
                // The only request without an answer.
                let tag = self.next_tag();
                self.outputs.push_back(ClientOutput::Send(tag, request));
                self.outputs.push_back(ClientOutput::Done(id, Ok(Outcome::Complete)));
            }
            // A message type of its own, which servers of OpenPMIx count, too. A server that monitors the process gives
            // no answer.
            Call::Exchange(request) | Call::ExchangeWithin(request, _) if is_heartbeat(&request) => {
                self.outputs.push_back(ClientOutput::Send(Tag::HEARTBEAT, request));
                self.outputs.push_back(ClientOutput::Done(id, Ok(Outcome::Reply(Reply::Infos(Vec::new())))));
            }
            Call::Await(command, timeout) => self.accept(id, command, timeout.map(|timeout| now + timeout), None),
            Call::Exchange(request) => self.ask(id, request, Shape::Any, None),
            Call::ExchangeWithin(request, timeout) => {
                let deadline = self.deadline(now, Some(timeout));
                self.ask(id, request, Shape::Any, deadline);
            }
        }
    }

    /// Gets are counted apart: however many of them wait, there is room for a fence.
    fn refusal(&self, command: Command, is_get: bool) -> Option<CallError> {
        let limit = self.config.calls_max;
        match self.state {
            State::Finalizing(_) | State::Finalized => Some(CallError::Finalized { command }),
            State::Lost(reason) => Some(CallError::Lost { command, reason }),
            State::Open if command == Command::Finalize => None,
            State::Open => {
                let (gets, sent) = self.gets.counts();
                let others = self.calls.len().saturating_sub(gets).max(self.requests.len().saturating_sub(sent));
                let in_flight = if is_get { gets.max(sent) } else { others };
                (in_flight >= limit).then_some(CallError::TooManyCalls { command, limit })
            }
        }
    }

    fn start_get(&mut self, now: Time, id: CallId, request: GetRequest) {
        let deadline = self.deadline(now, request.directives.timeout);
        self.accept(id, Command::Get, deadline, None);
        if let GetPlacement::Send(request) = self.gets.place(now, id, request) {
            self.send_get(id, request);
        }
    }

    fn send_get(&mut self, id: CallId, request: GetRequest) {
        let tag = self.send(message(&request), Shape::Data, None);
        self.gets.sent(tag, id, request);
    }

    /// Sends a Get once more, without the directive for current values. Returns whether the Get had the directive.
    fn send_without_refresh(&mut self, tag: Tag) -> bool {
        let Some(request) = self.gets.without_refresh(tag) else { return false };
        let next = self.send(message(&request), Shape::Data, None);
        self.gets.resent(tag, next, request);
        true
    }

    /// Sends a request that belongs to one call.
    fn ask(&mut self, id: CallId, request: Request, shape: Shape, deadline: Option<Time>) {
        let command = request.command();
        if request.names_nobody() {
            let error = CallError::NotSendable { command, reason: Unsendable::Nobody };
            return self.outputs.push_back(ClientOutput::Done(id, Err(error)));
        }
        let tag = self.send(request, shape, Some(id));
        self.accept(id, command, deadline, Some(tag));
    }

    fn accept(&mut self, id: CallId, command: Command, deadline: Option<Time>, tag: Option<Tag>) {
        self.calls.insert(id, InFlight { command, deadline, tag });
        self.deadlines.extend(deadline.map(|deadline| (deadline, id)));
    }

    fn send(&mut self, request: Request, shape: Shape, call: Option<CallId>) -> Tag {
        let tag = self.next_tag();
        self.requests.insert(tag, Awaited { command: request.command(), shape, call });
        self.outputs.push_back(ClientOutput::Send(tag, request));
        tag
    }

    fn next_tag(&mut self) -> Tag {
        let requests = &self.requests;
        self.tags.next(|tag| requests.contains_key(&tag))
    }

    fn answer(&mut self, tag: Tag, reply: Reply) {
        let Some(Awaited { command, shape, call }) = self.requests.remove(&tag) else {
            return self.outputs.push_back(ClientOutput::Report(Anomaly::UnknownTag(tag)));
        };
        if shape == Shape::Data {
            let answer = data_of(reply);
            let is_bare = matches!(&answer, Ok(data) if data.is_empty());
            if is_bare && self.config.asks_again_after_success && self.send_without_refresh(tag) {
                return;
            }
            return self.answer_gets(tag, answer);
        }
        // Without a call: the call gave up and has its result.
        let Some(call) = call else { return };
        // Data of a Get sent as an exchange may be about a node or a device that the Get named.
        let jobs = if command == Command::Get { Vec::new() } else { jobs_in(&reply) };
        if !jobs.is_empty() {
            self.outputs.push_back(ClientOutput::Received(jobs.into()));
        }
        let result = result_of(command, shape, reply);
        if self.state == State::Finalizing(call) {
            return self.leave(call, result);
        }
        if command == Command::Fence && result.is_ok() {
            self.outputs.push_back(ClientOutput::Outdated);
        }
        self.done(call, result);
    }

    /// Fails the calls that wait for a request that was not sent.
    fn give_back(&mut self, tag: Tag, reason: Unsendable) {
        let Some(Awaited { command, shape, call }) = self.requests.remove(&tag) else { return };
        let error = CallError::NotSendable { command, reason };
        match (shape, call) {
            (Shape::Data, _) => self.answer_gets(tag, Err(error)),
            (_, Some(call)) => self.done(call, Err(error)),
            (_, None) => {}
        }
    }

    fn answer_gets(&mut self, tag: Tag, answer: Result<Arc<[RankData]>, CallError>) {
        let Some((sent, held_back)) = self.gets.end(tag) else { return };
        self.outputs.extend(self.out_of_date(&sent.request, &answer));
        if let Ok(data) = &answer
            && !data.is_empty()
            && sent.request.directives.is_unqualified()
            && !sent.request.key.as_ref().is_some_and(is_of_sets)
        {
            self.outputs.push_back(ClientOutput::Received(Arc::clone(data)));
        }
        let is_timed = sent.request.directives.timeout.is_some();
        for call in sent.waiters.into_values() {
            let result = match &answer {
                // The server measured the first caller's time; a call that joined later has time left.
                Err(CallError::Refused { status: Status::ERR_TIMEOUT, .. }) if is_timed && call != sent.leader => {
                    Ok(Outcome::LookAgain)
                }
                answer => answer.clone().map(Outcome::Answered),
            };
            self.done(call, result);
        }
        for call in held_back {
            self.done(call, Ok(Outcome::LookAgain));
        }
    }

    /// The cached data that an answer about another job invalidates, if the Get asked for current data. After an answer
    /// with data all older data of that job is dropped, because another job may now have its name. A missing key
    /// invalidates its own value alone. The own job is exempt: a server does not repeat the data that it sent at the
    /// start.
    fn out_of_date(&self, request: &GetRequest, answer: &Result<Arc<[RankData]>, CallError>) -> Option<ClientOutput> {
        let GetRequest { proc, key, directives, .. } = request;
        if !directives.refresh || proc.namespace == self.own.namespace {
            return None;
        }
        match (answer, key) {
            (Err(CallError::Refused { status, .. }), _) if *status != Status::ERR_NOT_FOUND => None,
            (Err(CallError::Refused { .. }), Some(key)) if directives.is_unqualified() => {
                let nothing = Kval { key: key.clone(), value: Value::Undefined };
                Some(ClientOutput::Received([RankData { proc: proc.clone(), entries: vec![nothing] }].into()))
            }
            (Ok(_) | Err(CallError::Refused { .. }), _) => Some(ClientOutput::Forget(proc.namespace.clone())),
            (Err(_), _) => None,
        }
    }

    fn lose(&mut self, reason: LossReason) {
        match self.state {
            State::Open => {
                self.state = State::Lost(reason);
                self.fail_all(reason);
            }
            // Some servers close the connection instead of answering, and the process leaves in both cases.
            State::Finalizing(call) => self.leave(call, Ok(Outcome::Complete)),
            State::Finalized | State::Lost(_) => {}
        }
    }

    /// Ends the finalize call and, before it, every open call.
    fn leave(&mut self, finalize: CallId, result: Result<Outcome, CallError>) {
        self.state = State::Finalized;
        self.retire(finalize);
        self.fail_all(LossReason::Closed);
        self.outputs.push_back(ClientOutput::Done(finalize, result));
        self.outputs.push_back(ClientOutput::Close);
    }

    fn fail_all(&mut self, reason: LossReason) {
        self.requests.clear();
        self.gets.clear();
        self.deadlines.clear();
        for (id, call) in std::mem::take(&mut self.calls) {
            let error = CallError::Lost { command: call.command, reason };
            self.outputs.push_back(ClientOutput::Done(id, Err(error)));
        }
    }

    fn expire(&mut self, now: Time) {
        while let Some(&(deadline, id)) = self.deadlines.first()
            && deadline <= now
        {
            self.give_up(id);
        }
        while let Some((id, request)) = self.gets.take_overdue(now) {
            self.send_get(id, request);
        }
    }

    /// Ends a call whose time is over. Its request stays with the server, and the tag stays in use until the reply
    /// comes.
    fn give_up(&mut self, id: CallId) {
        let Some(InFlight { command, tag, .. }) = self.retire(id) else { return };
        if let Some(awaited) = tag.and_then(|tag| self.requests.get_mut(&tag)) {
            awaited.call = None;
        }
        self.gets.forget(id);
        let result = Err(CallError::TimedOut { command });
        if self.state == State::Finalizing(id) {
            return self.leave(id, result);
        }
        self.outputs.push_back(ClientOutput::Done(id, result));
    }

    fn done(&mut self, id: CallId, result: Result<Outcome, CallError>) {
        if self.retire(id).is_some() {
            self.outputs.push_back(ClientOutput::Done(id, result));
        }
    }

    /// Removes a call. This is the only way to its [`ClientOutput::Done`], so there is only one.
    fn retire(&mut self, id: CallId) -> Option<InFlight> {
        let call = self.calls.remove(&id)?;
        if let Some(deadline) = call.deadline {
            self.deadlines.remove(&(deadline, id));
        }
        Some(call)
    }

    fn deadline(&self, now: Time, timeout: Option<Duration>) -> Option<Time> {
        timeout.map(|timeout| now + timeout + self.config.timeout_grace)
    }

    fn everyone(&self) -> ProcId {
        ProcId { namespace: self.own.namespace.clone(), rank: Rank::Wildcard }
    }
}

fn message(request: &GetRequest) -> Request {
    let GetRequest { proc, key, directives, .. } = request;
    Request::Get(Get { proc: proc.clone(), directives: directives.upward.clone(), key: key.clone() })
}

fn result_of(command: Command, shape: Shape, reply: Reply) -> Result<Outcome, CallError> {
    match (shape, reply) {
        (_, Reply::Status(status)) if !is_success(status) => Err(CallError::Refused { command, status }),
        (Shape::Status, Reply::Status(_)) => Ok(Outcome::Complete),
        (Shape::Status, Reply::Partial { status, results }) => match *results {
            Reply::Procs(missing) => Err(CallError::Incomplete { command, status, missing }),
            _ => Err(CallError::WrongReply { command }),
        },
        (Shape::Any, reply) => Ok(Outcome::Reply(reply)),
        (Shape::Status | Shape::Data, _) => Err(CallError::WrongReply { command }),
    }
}

/// Data of other jobs in a reply: of newly connected or started jobs.
fn jobs_in(reply: &Reply) -> Vec<RankData> {
    let job = |name: &Text, entries: &Vec<Kval>| {
        let namespace = Namespace::from_bytes(name.as_bytes()).ok()?;
        let proc = ProcId { namespace, rank: Rank::Wildcard };
        (!entries.is_empty()).then(|| RankData { proc, entries: entries.clone() })
    };
    match reply {
        Reply::Data(jobs) => jobs.clone(),
        Reply::Spawned { namespace, entries } => job(namespace, entries).into_iter().collect(),
        Reply::Group { jobs, .. } => jobs.iter().filter_map(|(name, entries)| job(name, entries)).collect(),
        Reply::Partial { results, .. } => jobs_in(results),
        _ => Vec::new(),
    }
}

fn data_of(reply: Reply) -> Result<Arc<[RankData]>, CallError> {
    match reply {
        Reply::Data(data) => Ok(data.into()),
        Reply::Status(status) if is_success(status) => Ok(Arc::from([])),
        Reply::Status(status) => Err(CallError::Refused { command: Command::Get, status }),
        _ => Err(CallError::WrongReply { command: Command::Get }),
    }
}

/// Hosts may report success with either of two codes.
fn is_success(status: Status) -> bool {
    status == Status::SUCCESS || status == Status::OPERATION_SUCCEEDED
}

/// Whether a request is a heartbeat.
fn is_heartbeat(request: &Request) -> bool {
    matches!(request, Request::Service(Service::Monitor(monitor)) if monitor.monitor.key.as_str() == keys::SEND_HEARTBEAT.name())
}
