//! The server's own process: its calls of the core, and its requests. No message is made. The host's functions run on
//! the caller's thread.
//!
//! ```text
//! api::Server ── Request ──┬─ services, abort, connect, groups ──> host
//!                          ├─ queries that the host leaves ──> core
//!                          ├─ fence ──> the process is alone
//!                          └─ peers and nodes ──┐
//! api::Server ── find ──────> own values ──> core
//! ```

pub(super) mod events;
pub(super) mod output;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use crossbeam::channel::{Receiver, bounded};
use nix::unistd::{getegid, geteuid};

use super::host::{Host, Responder, Taker, UpcallAnswer, call_service};
use super::loop_messages::{HostResultCallback, LoopMessage, LoopSender, ResultReceiver};
use super::name_desk::NameCallback;
use super::own_values::{OwnValues, Rest};
use crate::client::CallError;
use crate::events::Event;
use crate::gds::qualified;
use crate::keys;
use crate::proto::{self, AnswerForm, Command, Monitor, QueryInfo, Reply, Request, Service};
use crate::ptl::ServerEnvironment;
use crate::runtime::shared::event_error::Stopped;
use crate::runtime::shared::events::EventHub;
use crate::server::{
    AbortUpcall, Capabilities, Connect, GroupOperation, GroupRequest, HostCall, HostReply, HostResult, OwnGet,
    OwnQuery, Requester, ServerConfig, ServiceRules, for_runtime, has_false_claim,
};
use crate::types::{Info, Key, Namespace, ProcId, Query, Rank, Status, Text, Value, ranks_in};
use output::{OwnOutputHandler, OwnPulls};

/// The server's own process, as a requester.
pub struct OwnProcess {
    pub(super) host: Arc<dyn Host>,
    pub(super) loop_sender: LoopSender,
    pub(super) events: Arc<EventHub>,
    pub(super) values: Arc<OwnValues>,
    pulls: Arc<OwnPulls>,
    /// The host's capabilities, as bits.
    capabilities: AtomicU32,
    /// Services that the server answers.
    rules: ServiceRules,
    answers_storage: bool,
}

/// Arguments of a Get of the server's own process. Without a process it means this process's namespace; without a key,
/// all values of the process.
#[derive(Clone, Debug)]
pub struct FindRequest {
    /// The process.
    pub proc: Option<ProcId>,
    /// The key.
    pub key: Option<Key>,
    /// Directives and qualifiers.
    pub directives: Vec<Info>,
}

/// The process for which a host asks, and its user, if the host says so.
fn requester_of_monitor(request: &Monitor, host: Requester) -> Requester {
    let value = |key: &str| request.directives.iter().find(|info| info.key.as_str() == key).map(|info| &info.value);
    let Some(Value::Proc(proc)) = value(keys::MONITOR_PROXY.name()) else { return host };
    let id = |key: &str, own: u32| value(key).and_then(Value::as_u32).unwrap_or(own);
    let (uid, gid) = (id(keys::USERID.name(), host.uid), id(keys::GRPID.name(), host.gid));
    Requester { proc: ProcId::clone(proc), object: 0, uid, gid }
}

/// Takes the reply to a request.
type Take = Box<dyn FnOnce(Result<Reply, CallError>) + Send>;

/// The first step of a Get.
enum Step {
    /// The value is known here.
    Known(Value),
    /// The core may know the value.
    Ask(HostCall, Rest),
}

impl OwnProcess {
    pub(super) fn new(
        (host, loop_sender): (Arc<dyn Host>, LoopSender),
        (events, pulls): (Arc<EventHub>, Arc<OwnPulls>),
        environment: &ServerEnvironment,
        config: &ServerConfig,
    ) -> Self {
        let (proc, hostname) = (environment.address.server.clone(), environment.hostname.clone());
        let values = Arc::new(OwnValues::new(proc, hostname, environment.uri()));
        let capabilities = AtomicU32::new(config.capabilities.bits());
        let (rules, answers_storage) = (config.service_rules(), config.answers_storage);
        Self { host, loop_sender, events, values, pulls, capabilities, rules, answers_storage }
    }

    /// Notes the host's capabilities. The core gets them by a call.
    pub fn note_capabilities(&self, capabilities: Capabilities) {
        // Relaxed: no other data depends on it. It only shows who answers, and that a wait would not end.
        self.capabilities.store(capabilities.bits(), Ordering::Relaxed);
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::from_bits_retain(self.capabilities.load(Ordering::Relaxed))
    }

    /// Makes a call of the core and waits for its result.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn call(&self, call: HostCall) -> Result<HostResult, Stopped> {
        let (waiter, result) = bounded(1);
        self.loop_sender.send(LoopMessage::Call(call, ResultReceiver::Waiter(waiter))).map_err(|_| Stopped)?;
        result.recv().map(HostResult::read).map_err(|_| Stopped)
    }

    /// Makes a call whose result goes to `callback`, on the thread that calls the host.
    ///
    /// # Errors
    /// [`Stopped`]: the callback will not run.
    pub fn call_with(&self, call: HostCall, callback: HostResultCallback) -> Result<(), Stopped> {
        self.loop_sender.send(LoopMessage::Call(call, ResultReceiver::Callback(callback))).map_err(|_| Stopped)
    }

    /// Whether the server has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.loop_sender.is_closed()
    }

    /// Runs a job on the thread that calls the host.
    ///
    /// # Errors
    /// [`Stopped`]: the job will not run.
    pub fn run(&self, job: Box<dyn FnOnce() + Send>) -> Result<(), Stopped> {
        self.loop_sender.send(LoopMessage::Run(job)).map_err(|_| Stopped)
    }

    /// A call for a pull of output by this process, and the number of the pull. The output goes to `handler`, on the
    /// thread that calls the host, after the call's callback.
    pub fn pull(
        &self,
        procs: Vec<ProcId>,
        directives: Vec<Info>,
        channels: u16,
        handler: OwnOutputHandler,
    ) -> (HostCall, u64) {
        let number = self.pulls.add(handler);
        let pull = proto::IofPull { procs, directives, channels, local_id: Some(number) };
        (HostCall::IofPull(self.requester(), pull), number)
    }

    /// Drops the handler of a pull that has ended, after the output that is on its way.
    pub fn forget_pull(&self, number: u64) {
        let pulls = Arc::clone(&self.pulls);
        // A server that has ended drops all handlers.
        let _ = self.run(Box::new(move || pulls.remove(number)));
    }

    /// Raises an event for the handlers of this process only.
    pub fn raise_event(&self, event: Event) {
        self.events.raise(event);
    }

    /// Values that this process stores for itself.
    #[must_use]
    pub const fn values(&self) -> &Arc<OwnValues> {
        &self.values
    }

    /// Makes a request and waits for its answer.
    ///
    /// # Errors
    /// [`CallError`]: the host's status, or "not supported" for a request that a server does not make.
    pub fn exchange(&self, request: Request) -> Result<Reply, CallError> {
        let command = request.command();
        if let Some(resolve) = ResolveRequest::of(&request, &self.values.hostname) {
            let refused = |status| CallError::Refused { command, status };
            let ResolveRequest { find, read } = resolve.map_err(refused)?;
            return answer(command, read, self.find(find).map_err(|Stopped| refused(Status::ERR_INIT))?);
        }
        // The host's answer is never lost: a dropped responder answers with an error.
        self.reply_to(request).recv().unwrap_or(Err(CallError::Refused { command, status: Status::ERROR }))
    }

    /// Makes a request of the host and waits so long for its answer. A later answer is dropped.
    ///
    /// # Errors
    /// As [`OwnProcess::exchange`], and [`CallError::TimedOut`].
    pub fn exchange_within(&self, request: Request, time_max: Duration) -> Result<Reply, CallError> {
        let command = request.command();
        self.reply_to(request).recv_timeout(time_max).unwrap_or(Err(CallError::TimedOut { command }))
    }

    fn reply_to(&self, request: Request) -> Receiver<Result<Reply, CallError>> {
        let (sender, reply) = bounded(1);
        let take = move |reply| {
            // If no thread waits any more, the answer is dropped.
            let _ = sender.send(reply);
        };
        self.ask(request, Box::new(take));
        reply
    }

    /// Makes a request. The answer goes to `callback`, on the thread of the host's functions. If the server ends
    /// meanwhile, that thread is gone, and the thread with the answer calls.
    ///
    /// The callback of a spawn runs on the thread with the answer in any case, unless the host answers before this
    /// returns. A host such as PRRTE waits in its own event loop for a flag that the callback sets, and nothing else
    /// would wake the loop.
    ///
    /// # Errors
    /// [`Stopped`]: the callback will not run.
    pub fn exchange_with(
        &self,
        request: Request,
        callback: impl FnOnce(Result<Reply, CallError>) + Send + 'static,
    ) -> Result<(), Stopped> {
        let command = request.command();
        if let Some(resolve) = ResolveRequest::of(&request, &self.values.hostname) {
            return match resolve {
                Ok(ResolveRequest { find, read }) => {
                    self.find_with(find, move |found| callback(answer(command, read, found)))
                }
                Err(status) => self.run(Box::new(move || callback(Err(CallError::Refused { command, status })))),
            };
        }
        if self.loop_sender.is_closed() {
            return Err(Stopped);
        }
        let loop_sender = self.loop_sender.clone();
        let is_made = Arc::new(AtomicBool::new(false));
        let was_made = Arc::clone(&is_made);
        let take = move |reply| {
            // Acquire pairs with the Release below: the caller's part is over.
            if command == Command::Spawn && was_made.load(Ordering::Acquire) {
                return callback(reply);
            }
            if let Err(late) = loop_sender.give(LoopMessage::Run(Box::new(move || callback(reply))))
                && let LoopMessage::Run(job) = *late
            {
                job();
            }
        };
        self.ask(request, Box::new(take));
        is_made.store(true, Ordering::Release);
        Ok(())
    }

    fn ask(&self, request: Request, take: Take) {
        let command = request.command();
        match request {
            Request::Service(service) => self.ask_service(service, take),
            Request::Fence(fence) if self.is_alone(&fence.procs) => take(Ok(Reply::Status(Status::SUCCESS))),
            Request::Abort(proto::Abort { status, message, procs }) => {
                let request = AbortUpcall { requester: self.values.proc.clone(), object: 0, status, message, procs };
                let reply = responder(AnswerForm::Status, command, take);
                self.guarded(|host| host.abort(request, reply));
            }
            Request::Connect(proto::Collective { procs, directives }) => {
                let reply = responder(AnswerForm::Status, command, take);
                self.guarded(|host| host.connect(Connect { procs, directives }, reply));
            }
            Request::Disconnect(proto::Collective { procs, directives }) => {
                let reply = responder(AnswerForm::Status, command, take);
                self.guarded(|host| host.disconnect(Connect { procs, directives }, reply));
            }
            Request::GroupConstruct(group) => {
                let members = group.procs.clone();
                let take = move |reply: Result<Reply, CallError>| take(reply.map(|reply| formed(members, reply)));
                let reply = responder(AnswerForm::Infos, command, Box::new(take));
                self.guarded(|host| host.group(group_request(GroupOperation::Construct, group), reply));
            }
            Request::GroupDestruct(group) => {
                let take = move |reply: Result<Reply, CallError>| {
                    take(reply.and_then(|reply| match reply {
                        Reply::Partial { status, .. } => Err(CallError::Refused { command, status }),
                        _ => Ok(Reply::Status(Status::SUCCESS)),
                    }));
                };
                let reply = responder(AnswerForm::Infos, command, Box::new(take));
                self.guarded(|host| host.group(group_request(GroupOperation::Destruct, group), reply));
            }
            _ => take(Err(CallError::Refused { command, status: Status::ERR_NOT_SUPPORTED })),
        }
    }

    fn requester(&self) -> Requester {
        Requester { proc: self.values.proc.clone(), object: 0, uid: geteuid().as_raw(), gid: getegid().as_raw() }
    }

    fn ask_service(&self, service: Service, take: Take) {
        let requester = self.requester();
        let requester = match &service {
            Service::Monitor(request) => requester_of_monitor(request, requester),
            _ => requester,
        };
        if has_false_claim(&requester, false, &service) {
            let (command, status) = (service.command(), Status::ERR_NOT_SUPPORTED);
            return take(Err(CallError::Refused { command, status }));
        }
        let receive = receiver(service.form(), service.command(), take);
        let service = service.of_server(&requester);
        // A host's function `fabric` is for other processes.
        let is_fabric = matches!(service, Service::FabricRegister(_) | Service::FabricUpdate(_));
        let host = if is_fabric { Capabilities::empty() } else { self.capabilities() };
        if self.rules.is_own(&service, host) {
            return ask_own_service(&self.loop_sender, requester, service, receive);
        }
        let receive = match &service {
            Service::QueryInfo(QueryInfo { queries }) => self.with_core(&requester, queries, receive),
            _ => receive,
        };
        self.guarded(|host| call_service(host, requester, service, Taker::Caller(receive)));
    }

    /// Takes the host's answer to queries. The core answers what the host leaves, as for a client.
    fn with_core(&self, requester: &Requester, queries: &[Query], receive: NameCallback) -> NameCallback {
        let (requester, queries, loop_sender) = (requester.clone(), queries.to_vec(), self.loop_sender.clone());
        let answers_storage = self.answers_storage;
        Box::new(move |reply: HostReply| {
            let (status, host_answers) = match reply {
                HostReply::Status(status) if OwnQuery::is_left(status) => (status, Vec::new()),
                HostReply::Infos { status, info } if OwnQuery::is_left(status) => (status, info),
                reply => return receive(reply),
            };
            let mut for_runtime = for_runtime(&requester, &queries, &host_answers, answers_storage);
            // Nothing ends the wait of this process for a file system.
            let requires_limit = |info: &Info| keys::is_unmet(info, |key| key != keys::TIMEOUT.name());
            for_runtime.retain(|query| !query.qualifiers.iter().any(requires_limit));
            let query = OwnQuery { requester, queries, host_status: Some(status), host_answers, runtime_refusal: None };
            if for_runtime.is_empty() {
                return ask_core(&loop_sender, query, receive);
            }
            let requester = query.requester.clone();
            let of_core = loop_sender.clone();
            let with_looks = Box::new(move |reply: HostReply| {
                let (found, runtime_refusal) = reply.into_looks();
                let host_answers = query.host_answers.into_iter().chain(found).collect();
                ask_core(&of_core, OwnQuery { host_answers, runtime_refusal, ..query }, receive);
            });
            ask_own_service(&loop_sender, requester, Service::QueryInfo(QueryInfo::new(for_runtime)), with_looks);
        })
    }

    /// Calls a function of the host. A panic fails this one request: its responder is dropped and answers with an
    /// error. The panic hook reports it.
    fn guarded(&self, call: impl FnOnce(&dyn Host)) {
        let _ = catch_unwind(AssertUnwindSafe(|| call(&*self.host)));
    }

    /// Whether a fence names this process alone. Other processes are in other jobs, so a fence with them is refused.
    fn is_alone(&self, procs: &[ProcId]) -> bool {
        procs.iter().all(|proc| *proc == self.values.proc)
    }

    /// Finds a value and waits for the core.
    ///
    /// # Errors
    /// [`Stopped`]. The inner error is the core's.
    pub fn find(&self, request: FindRequest) -> Result<Result<Value, HostResult>, Stopped> {
        match self.step(request) {
            Step::Known(value) => Ok(Ok(value)),
            Step::Ask(call, rest) => Ok(rest.finish(self.call(call)?)),
        }
    }

    /// As [`OwnProcess::find`]; the result goes to `callback`, on the thread of the host's functions.
    ///
    /// # Errors
    /// [`Stopped`]: the callback will not run.
    pub fn find_with(
        &self,
        request: FindRequest,
        callback: impl FnOnce(Result<Value, HostResult>) + Send + 'static,
    ) -> Result<(), Stopped> {
        match self.step(request) {
            Step::Known(value) => self.run(Box::new(move || callback(Ok(value)))),
            Step::Ask(call, rest) => self.call_with(call, Box::new(move |result| callback(rest.finish(result)))),
        }
    }

    fn step(&self, request: FindRequest) -> Step {
        let FindRequest { proc, key, mut directives } = request;
        let qualifiers = qualified::qualifiers(&directives);
        if let Some(value) = key.as_ref().and_then(|key| self.values.known(proc.as_ref(), key, &qualifiers)) {
            return Step::Known(value);
        }
        let proc = proc.unwrap_or_else(|| ProcId::new(self.values.proc.namespace.clone(), Rank::Undefined));
        let rest = self.values.rest(&proc, key.clone(), qualifiers);
        // An unknown value fails at once. A server has no other server to ask, and hosts look for values that may not
        // exist yet (orted: the address of another daemon).
        directives.push(Info::new(Key::from_static(keys::IMMEDIATE.name()), true));
        Step::Ask(HostCall::Get(OwnGet { proc, key, directives }), rest)
    }
}

/// A request to resolve peers or nodes, which a Get of the job's description answers.
struct ResolveRequest {
    find: FindRequest,
    read: Read,
}

/// Makes the reply from the value.
type Read = Box<dyn FnOnce(&Value) -> Option<Reply> + Send>;

impl ResolveRequest {
    /// `None`: it is another request. The error refuses it.
    fn of(request: &Request, hostname: &str) -> Option<Result<Self, Status>> {
        match request {
            Request::ResolvePeers(peers) => Some(named(peers.namespace.as_ref()).map(|namespace| {
                let node = peers.node.clone().unwrap_or_else(|| Text::from(hostname));
                Self::peers(namespace, node)
            })),
            Request::ResolveNode(namespace) => Some(named(namespace.as_ref()).map(|namespace| Self::nodes(&namespace))),
            _ => None,
        }
    }

    /// The processes of a job on one node.
    fn peers(namespace: Namespace, node: Text) -> Self {
        let directives = vec![
            Info::new(Key::from_static(keys::NODE_INFO.name()), true),
            Info::new(Key::from_static(keys::HOSTNAME.name()), Value::String(node)),
        ];
        let find = fact(&namespace, keys::LOCAL_PEERS.name(), directives);
        let read = move |value: &Value| {
            let ranks = ranks_in(value.as_str()?);
            Some(Reply::Procs(ranks.map(|rank| ProcId::new(namespace.clone(), rank)).collect()))
        };
        Self { find, read: Box::new(read) }
    }

    /// The nodes of a job, from its description.
    fn nodes(namespace: &Namespace) -> Self {
        let read = |value: &Value| match value {
            Value::String(text) => Some(Reply::Nodes(text.clone())),
            _ => None,
        };
        Self { find: fact(namespace, keys::NODE_LIST.name(), Vec::new()), read: Box::new(read) }
    }
}

/// A Get of a fact about a job.
fn fact(namespace: &Namespace, key: &'static str, directives: Vec<Info>) -> FindRequest {
    let proc = Some(ProcId { namespace: namespace.clone(), rank: Rank::Wildcard });
    FindRequest { proc, key: Some(Key::from_static(key)), directives }
}

/// The answer to such a request, from the result of its Get.
fn answer(command: proto::Command, read: Read, found: Result<Value, HostResult>) -> Result<Reply, CallError> {
    let reply = found.map_err(|failure| status_of(&failure));
    let reply = reply.and_then(|value| read(&value).ok_or(Status::ERR_TYPE_MISMATCH));
    reply.map_err(|status| CallError::Refused { command, status })
}

/// Asks one of the server's own services. A server that has ended answers with an error.
fn ask_own_service(loop_sender: &LoopSender, requester: Requester, service: Service, receive: NameCallback) {
    if let Err(late) = loop_sender.give(LoopMessage::OwnService(requester, Box::new(service), receive))
        && let LoopMessage::OwnService(.., receive) = *late
    {
        receive(HostReply::Status(Status::ERR_SERVER_NOT_AVAIL));
    }
}

/// Asks the core for what others have left. A server that has ended answers with an error.
fn ask_core(loop_sender: &LoopSender, query: OwnQuery, receive: NameCallback) {
    let take = Box::new(move |result: HostResult| {
        receive(match result {
            HostResult::Answers(status, info) => HostReply::Infos { status, info },
            failure => HostReply::Status(status_of(&failure)),
        });
    });
    let message = LoopMessage::Call(HostCall::Query(query), ResultReceiver::Callback(take));
    if let Err(late) = loop_sender.give(message)
        && let LoopMessage::Call(_, ResultReceiver::Callback(take)) = *late
    {
        take(HostResult::Status(Status::ERR_SERVER_NOT_AVAIL));
    }
}

/// Takes the answer as a reply.
fn receiver(form: AnswerForm, command: proto::Command, take: Take) -> NameCallback {
    Box::new(move |reply: HostReply| {
        take(match form.reply(reply) {
            Reply::Status(status) if status != Status::SUCCESS => Err(CallError::Refused { command, status }),
            reply => Ok(reply),
        });
    })
}

fn responder<T: UpcallAnswer>(form: AnswerForm, command: proto::Command, take: Take) -> Responder<T> {
    Responder::new(Taker::Caller(receiver(form, command, take)))
}

fn group_request(operation: GroupOperation, group: proto::Group) -> GroupRequest {
    let proto::Group { id, procs, directives, .. } = group;
    GroupRequest { operation, id: id.unwrap_or_default(), procs, directives }
}

/// The reply for a new group, from the host's infos.
fn formed(members: Vec<ProcId>, reply: Reply) -> Reply {
    match reply {
        Reply::Infos(info) => {
            let context_id = info.iter().find(|info| info.key.as_str() == keys::GROUP_CONTEXT_ID.name());
            let context_id = context_id.and_then(|info| info.value.as_u64());
            Reply::Group { members, context_id, info, jobs: Vec::new() }
        }
        Reply::Partial { status, results } => Reply::Partial { status, results: Box::new(formed(members, *results)) },
        reply => reply,
    }
}

/// A job is named. The server's own process is in no job.
fn named(namespace: Option<&Text>) -> Result<Namespace, Status> {
    let namespace = namespace.ok_or(Status::ERR_NOT_SUPPORTED)?;
    Namespace::from_bytes(namespace.as_bytes()).map_err(|_| Status::ERR_BAD_PARAM)
}

fn status_of(failure: &HostResult) -> Status {
    match failure {
        HostResult::Status(status) | HostResult::Failed { status, .. } => *status,
        HostResult::Entries(_) | HostResult::Answers(..) => Status::ERROR,
    }
}
