use std::collections::BTreeSet;
use std::sync::Arc;

use crate::gds::Datastore;
use crate::proto::{Request, Tag};
use crate::server::interface::config::Config;
use crate::server::interface::host::{CallId, HostCall, HostResult, Upcall, UpcallId};
use crate::server::interface::io::{Input, Output, PeerId, Reason};
use crate::server::rules::cleanup::Cleanups;
use crate::server::rules::derived::Deferred;
use crate::server::rules::events::Events;
use crate::server::rules::fence::Exchanges;
use crate::server::rules::forwarding::Forwarding;
use crate::server::rules::group::{Bootstraps, Given, Groups, Invitations, Mourning, Vacancies};
use crate::server::rules::heartbeats::Heartbeats;
use crate::server::rules::missed_fences::MissedFences;
use crate::server::rules::psets::ProcessSets;
use crate::server::rules::slices::Slices;
use crate::server::rules::ties::Ties;
use crate::server::rules::tools::Tools;
use crate::server::state::collective::Collectives;
use crate::server::state::interest::Listener;
use crate::server::state::outputs::Outputs;
use crate::server::state::peer::{Peers, Stage};
use crate::server::state::pending::{PendingUpcalls, Purpose};
use crate::server::state::registry::Registry;
use crate::server::state::timers::{Timer, Timers};
use crate::server::state::waiting::Waiting;
use crate::topo::Inventories;
use crate::types::{Namespace, ProcId, Status, Time};

/// The server core over a datastore. See the module's documentation.
#[derive(Debug)]
pub struct Server<S: Datastore> {
    pub(in crate::server) config: Config,
    pub(in crate::server) store: S,
    pub(in crate::server) registry: Registry,
    pub(in crate::server) peers: Peers,
    pub(in crate::server) waiting: Waiting,
    pub(in crate::server) collectives: Collectives,
    pub(in crate::server) groups: Groups,
    pub(in crate::server) given: Given,
    pub(in crate::server) invitations: Invitations,
    pub(in crate::server) bootstraps: Bootstraps,
    pub(in crate::server) vacancies: Vacancies,
    pub(in crate::server) mourning: Mourning,
    pub(in crate::server) exchanges: Exchanges,
    pub(in crate::server) missed_fences: MissedFences,
    pub(in crate::server) process_sets: ProcessSets,
    pub(in crate::server) forwarding: Forwarding,
    pub(in crate::server) events: Events,
    pub(in crate::server) cleanups: Cleanups,
    pub(in crate::server) heartbeats: Heartbeats,
    pub(in crate::server) upcalls: PendingUpcalls,
    pub(in crate::server) tools: Tools,
    pub(in crate::server) ties: Ties,
    pub(in crate::server) inventories: Inventories,
    pub(in crate::server) deferred: Deferred,
    pub(in crate::server) slices: Slices,
    pub(in crate::server) timers: Timers,
    pub(in crate::server) outputs: Outputs,
}

impl<S: Datastore> Server<S> {
    /// A server without any registrations, which publishes into `store`.
    #[must_use]
    pub fn new(config: Config, store: S) -> Self {
        Self {
            registry: Registry::new(config.commit_base),
            config,
            store,
            peers: Peers::default(),
            waiting: Waiting::default(),
            collectives: Collectives::default(),
            groups: Groups::default(),
            given: Given::default(),
            invitations: Invitations::default(),
            bootstraps: Bootstraps::default(),
            vacancies: Vacancies::default(),
            mourning: Mourning::default(),
            exchanges: Exchanges::default(),
            missed_fences: MissedFences::default(),
            process_sets: ProcessSets::default(),
            forwarding: Forwarding::default(),
            events: Events::default(),
            cleanups: Cleanups::default(),
            heartbeats: Heartbeats::default(),
            upcalls: PendingUpcalls::default(),
            tools: Tools::default(),
            ties: Ties::default(),
            inventories: Inventories::default(),
            deferred: Deferred::default(),
            slices: Slices::default(),
            timers: Timers::default(),
            outputs: Outputs::default(),
        }
    }

    /// Takes one input. `now` never goes back.
    pub fn handle(&mut self, now: Time, input: Input) {
        match input {
            Input::Connected(peer, hello) => self.connect(now, peer, hello),
            Input::ToolConnected(peer, hello) => self.connect_tool(now, peer, hello),
            Input::Request(peer, tag, request) => self.request(now, peer, tag, request),
            // A heartbeat without a watch has no effect.
            Input::Heartbeat(peer) => drop(self.heartbeat(peer)),
            Input::Proceed(peer) => self.proceed(now, peer),
            Input::Lost(peer) => self.lose(now, peer),
            Input::Host(call, host_call) => self.host_call(now, call, host_call),
            Input::Completed(upcall, reply) => self.complete_upcall(now, upcall, reply),
            Input::Topology(hardware) => self.answer_deferred(&hardware),
            Input::Timeout => self.expire(now),
        }
    }

    /// The next output; `None` until the next input.
    #[must_use]
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop()
    }

    /// When to call [`Server::handle`] with [`Input::Timeout`]; `None`: no deadline is running.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    /// The datastore.
    #[must_use]
    pub const fn store(&self) -> &S {
        &self.store
    }

    /// Number of processes of a job, if known. Code that packs fence contributions numbers processes with it.
    #[must_use]
    pub fn job_size(&self, namespace: &Namespace) -> Option<u32> {
        self.registry.job(namespace)?.job_size
    }

    /// Registered namespaces, in order.
    pub fn namespaces(&self) -> impl Iterator<Item = &Namespace> {
        self.registry.namespaces()
    }

    /// Current connections, including those that wait for admission.
    #[must_use]
    pub fn peer_count(&self) -> usize {
        self.peers.len()
    }

    /// Accepted requests without a reply.
    #[must_use]
    pub fn open_request_count(&self) -> usize {
        self.outputs.open_requests()
    }

    /// Open calls of the host.
    #[must_use]
    pub const fn open_call_count(&self) -> usize {
        self.outputs.open_calls()
    }

    /// Open collective operations, including those at the host.
    #[must_use]
    pub fn collective_count(&self) -> usize {
        self.collectives.len()
    }

    /// Upcalls that the host has not answered.
    #[must_use]
    pub fn upcall_count(&self) -> usize {
        self.upcalls.len()
    }

    /// The local processes of an upcall, if it is an operation of many processes.
    pub(crate) fn participants(&self, upcall: UpcallId) -> Option<&BTreeSet<ProcId>> {
        let Purpose::Operation(operation) = self.upcalls.get(upcall)?.purpose else { return None };
        self.collectives.get(operation).map(|operation| &operation.contributed)
    }

    /// The user of a local process.
    pub(crate) fn user_of(&self, proc: &ProcId) -> Option<u32> {
        self.registry.client(proc).map(|client| client.credentials.uid)
    }

    /// Whether an answer to this upcall still has an effect.
    #[must_use]
    pub fn awaits(&self, upcall: UpcallId) -> bool {
        self.upcalls.get(upcall).is_some()
    }

    fn request(&mut self, now: Time, id: PeerId, tag: Tag, request: Request) {
        self.finish_rest(now, id);
        // The request may have been on its way when the connection closed.
        let Some(peer) = self.peers.get(id) else { return self.hurry_of_tool(id) };
        let (stage, proc) = (peer.stage, peer.proc.clone());
        if stage == Stage::Arriving {
            return self.dismiss(now, id, Status::ERR_NOT_AVAILABLE, Reason::RequestBeforeAdmission);
        }
        // The only request without a reply, even without a refusal.
        if let Request::DeregisterEvents(codes) = request {
            return self.deregister_events(Listener::Peer(id), codes);
        }
        if stage == Stage::Finalized {
            let ticket = self.outputs.accept(id, tag);
            return self.outputs.reply_status(ticket, Status::ERR_INVALID_OPERATION);
        }
        let is_full = self.outputs.open_requests_of(id) >= self.config.limits.requests_per_peer_max;
        let ticket = self.outputs.accept(id, tag);
        match request {
            Request::JobInfo => self.job_info(now, ticket, &proc),
            Request::StoreFallback(_) => self.store_fallback(now, ticket, &proc),
            Request::Commit(commit) => self.commit(now, ticket, &proc, commit),
            Request::Finalize => self.finalize(now, ticket, &proc),
            _ if is_full => self.outputs.reply_status(ticket, Status::ERR_OUT_OF_RESOURCE),
            Request::Fence(fence) => self.fence(now, ticket, proc, fence),
            Request::Get(get) => self.get(now, ticket, get),
            Request::Abort(abort) => self.abort(now, ticket, proc, abort),
            Request::Notify(notify) => self.notify(now, ticket, proc, notify),
            Request::RegisterEvents(events) => self.register_events(now, ticket, events),
            request => self.pass(now, ticket, proc, request),
        }
    }

    fn host_call(&mut self, now: Time, call: CallId, host_call: HostCall) {
        let ticket = self.outputs.accept_call(call);
        let status = match host_call {
            HostCall::RegisterNamespace(registration) => {
                let result = self.register_namespace(now, &registration);
                return self.outputs.complete(ticket, result);
            }
            HostCall::ExtendNamespace(namespace, description) => {
                let result = self.extend_namespace(now, namespace, description);
                return self.outputs.complete(ticket, result);
            }
            HostCall::DeregisterNamespace(namespace) => self.deregister_namespace(now, &namespace),
            HostCall::RegisterClient(registration) => self.register_client(now, &registration),
            HostCall::DescribeProcess(facts) => self.describe_process(facts),
            HostCall::DefineProcessSet(set) => {
                let result = self.define_process_set(now, set);
                return self.outputs.complete(ticket, result);
            }
            HostCall::DeleteProcessSet { name, source } => {
                let result = self.delete_process_set(now, name, source);
                return self.outputs.complete(ticket, result);
            }
            HostCall::DeregisterClient(proc) => self.deregister_client(now, &proc),
            HostCall::IofDeliver(output) => self.deliver_output(output),
            HostCall::Capabilities(capabilities) => {
                self.config.capabilities = capabilities;
                Status::SUCCESS
            }
            HostCall::NotifyEvent(event) => self.notify_of_host(now, &Arc::new(event)),
            HostCall::RegisterEvents(events) => return self.register_events_of_host(now, ticket, events),
            HostCall::DeregisterEvents(codes) => {
                self.deregister_events(Listener::Host, codes);
                Status::SUCCESS
            }
            HostCall::DirectModexRequest(request) => return self.direct_modex_request(now, ticket, request),
            HostCall::Get(get) => return self.get_for_host(now, ticket, get),
            HostCall::DeliverInventories(blobs) => {
                let result = self.deliver_inventories(&blobs);
                return self.outputs.complete(ticket, result);
            }
        };
        self.outputs.complete(ticket, HostResult::Status(status));
    }

    fn expire(&mut self, now: Time) {
        for _ in 0..TIMERS_PER_TURN {
            let Some(timer) = self.timers.pop_due(now) else { return };
            match timer {
                Timer::Wait(wait) => self.expire_wait(wait),
                Timer::Operation(operation) => self.expire_operation(now, operation),
                Timer::Upcall(upcall) => self.expire_upcall(now, upcall),
                Timer::Registration(operation) => self.expire_registration(now, operation),
                Timer::Verdicts(operation) => self.expire_verdicts(now, operation),
                Timer::Bootstrap(bootstrap) => self.expire_bootstrap(bootstrap),
                Timer::Watch(watch) => self.expire_watch(now, watch),
                Timer::Mourning => self.mourn_some(now),
            }
        }
    }

    /// Asks the host. The answer carries the returned id.
    pub(in crate::server) fn ask_host(&mut self, now: Time, purpose: Purpose, upcall: Upcall) -> UpcallId {
        let deadline = self.config.host_timeout.map(|timeout| now + timeout);
        self.ask_host_until(deadline, purpose, upcall)
    }

    pub(in crate::server) fn ask_host_until(
        &mut self,
        deadline: Option<Time>,
        purpose: Purpose,
        upcall: Upcall,
    ) -> UpcallId {
        let id = self.upcalls.insert(purpose, deadline);
        self.timers.arm(deadline, Timer::Upcall(id));
        self.outputs.push(Output::Upcall(id, upcall));
        id
    }
}

/// Deadlines handled by one [`Input::Timeout`]. If there are more, the next one is due at once.
const TIMERS_PER_TURN: usize = 256;
