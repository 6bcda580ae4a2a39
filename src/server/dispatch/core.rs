//! The doors: inputs, outputs, deadlines and getters.

use std::collections::BTreeSet;

use crate::gds::Datastore;
use crate::proto::Service;
use crate::server::interface::{Input, Output, PeerId, UpcallId};
use crate::server::state::{NEXT_STEP_IN, Purpose, ServerCore, Timer};
use crate::types::{Namespace, ProcId, Time};

impl<S: Datastore> ServerCore<S> {
    /// Takes one input. `now` never goes back.
    pub fn handle(&mut self, now: Time, input: Input) {
        self.take_in(now, input);
        if self.has_fan_out() && self.fan_out_due.is_none() {
            self.fan_out_due = Some(now + NEXT_STEP_IN);
            self.timers.arm(self.fan_out_due, Timer::FanOut);
        }
    }

    fn take_in(&mut self, now: Time, input: Input) {
        match input {
            Input::Connected(peer, hello) => self.connect(now, peer, hello),
            Input::ToolConnected(peer, hello) => self.connect_tool(now, peer, hello),
            Input::ParentConnected(peer, hello) => self.connect_parent(now, peer, hello),
            Input::Request(peer, tag, request) => self.request(now, peer, tag, request),
            // A heartbeat without a watch has no effect.
            Input::Heartbeat(peer) => drop(self.heartbeat(peer)),
            Input::FileSeen(look, state) => self.file_seen(now, look, state),
            Input::Proceed(peer) => self.proceed(now, peer),
            Input::Lost(peer) => self.lose(now, peer),
            Input::Host(call, host_call) => self.host_call(now, call, host_call),
            Input::Completed(upcall, reply) => self.complete_upcall(now, upcall, reply),
            Input::Topology(hardware) => self.answer_deferred(now, &hardware),
            Input::Timeout => self.expire(now),
            Input::Closing => {
                self.report_losses();
                self.deliver_all_output();
            }
        }
    }

    /// The next output; `None` until the next input.
    #[must_use]
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop()
    }

    /// When to call [`ServerCore::handle`] with [`Input::Timeout`]; `None`: no deadline is running.
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
        self.registry.job(namespace)?.job_size()
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
        self.collectives.get(operation).map(|operation| operation.contributed())
    }

    /// Whether the runtime answers this request, and not the host.
    pub(crate) fn is_own_service(&self, service: &Service) -> bool {
        self.config.service_rules().is_own(service, self.config.capabilities)
    }

    /// The process of a connection.
    pub(crate) fn process_of(&self, peer: PeerId) -> Option<&ProcId> {
        self.peers.proc_of(peer)
    }

    /// A connected process of this namespace.
    pub(crate) fn peer_in(&self, namespace: &Namespace) -> Option<PeerId> {
        self.peers.iter().find(|(_, peer)| peer.proc().namespace == *namespace).map(|(id, _)| id)
    }

    /// The connection of a launcher that may serve this process there.
    pub(crate) fn launcher_of(&self, proc: &ProcId) -> Option<PeerId> {
        let may_serve = |id: &PeerId| self.peers.get(*id).is_some_and(|peer| peer.is_admitted() && peer.may_serve());
        self.peers.of_process(proc).find(may_serve)
    }

    /// The user of a local process.
    pub(crate) fn user_of(&self, proc: &ProcId) -> Option<u32> {
        self.registry.client(proc).map(|client| client.credentials().uid)
    }

    /// Whether an answer to this upcall still has an effect.
    #[must_use]
    pub fn awaits(&self, upcall: UpcallId) -> bool {
        self.upcalls.get(upcall).is_some()
    }

    fn expire(&mut self, now: Time) {
        for _ in 0..TIMERS_PER_TURN {
            let Some(timer) = self.timers.pop_due(now) else { return };
            match timer {
                Timer::HeldGet(wait) => {
                    if self.expire_held(now, wait) {
                        return;
                    }
                }
                Timer::Operation(operation) => self.expire_operation(now, operation),
                Timer::Upcall(upcall) => self.expire_upcall(now, upcall),
                Timer::Registration(operation) => self.expire_registration(now, operation),
                Timer::Verdicts(operation) => self.expire_verdicts(now, operation),
                Timer::Bootstrap(bootstrap) => self.expire_bootstrap(bootstrap),
                Timer::Watch(watch) => self.expire_watch(now, watch),
                Timer::Output(pull) => self.deliver_collected(pull),
                Timer::Losses => self.report_losses(),
                Timer::EndNotices => self.announce_some_ends(now),
                Timer::Reviews => self.review_some(now),
                Timer::Advances => self.advance_some(now),
                Timer::FanOut => self.send_some(),
                Timer::Generated => self.generate_more(),
            }
        }
    }
}

/// Deadlines handled by one [`Input::Timeout`]. If there are more, the next one is due at once.
const TIMERS_PER_TURN: usize = 256;
