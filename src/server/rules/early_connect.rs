//! Operations over jobs that the host knows and this server does not know yet.
//!
//! No operation ends before all its jobs are registered here and all their local processes have arrived. A host may
//! learn of a job only from a connect request. The daemons of Open MPI 4.1 then look up the job of another `mpirun`,
//! register it, and answer. Such a host gets a connect request as soon as only registrations are missing. The operation
//! goes on gathering, and the host's answer counts when all participants have arrived. Not every such host registers
//! every job: a job not registered soon after the answer has no local processes. Groups and disconnects wait that long
//! first, and then go to the host, because a group's request carries more than the arrivals.

use std::time::Duration;

use super::rendezvous::local_status;
use crate::gds::Datastore;
use crate::server::dispatch::core::Server;
use crate::server::interface::config::Capabilities;
use crate::server::interface::host::Upcall;
use crate::server::interface::requests::Connect;
use crate::server::state::collective::{Operation, OperationId, Stage, brings_about};
use crate::server::state::pending::Purpose;
use crate::server::state::registry::Registry;
use crate::server::state::signature::Kind;
use crate::server::state::timers::Timer;
use crate::server::state::transitions::Table;
use crate::types::{ProcId, Status, Time};

/// The state of an operation that lacked nothing but registrations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::server) struct EarlyConnect {
    /// The host has been asked. Some jobs are not registered yet, or some of their processes have not arrived.
    is_gathering: bool,
    /// Number of participants that had ended without arriving when the host was asked; the host knows these.
    departed: usize,
    /// More participants have ended since.
    is_short: bool,
    /// Bounds the wait for registrations: after the host's answer, or before the request to the host.
    pub(in crate::server) until: Option<Time>,
    /// That wait is over: unregistered jobs are on other nodes.
    has_waited: bool,
}

/// Time that a host has to register jobs that it knows.
const REGISTRATION_WAIT_MAX: Duration = Duration::from_secs(1);

impl Operation {
    /// Whether nothing but registrations is missing. Records departed processes.
    fn lacks_only_jobs(&mut self, registry: &Registry, table: Table) -> bool {
        let is_known = |entry: &&ProcId| registry.job(&entry.namespace).is_some();
        let known: Vec<ProcId> = self.signature.procs.iter().filter(is_known).cloned().collect();
        if known.len() == self.signature.procs.len() {
            return false;
        }
        let Some(members) = registry.membership(&known, false) else { return false };
        self.note_departures(registry, table, &members.local);
        members.local.iter().all(|proc| self.contributed.contains(proc) || self.departed.contains(proc))
    }

    /// Whether the host's answer must wait: the host was asked ahead, and some participants have not arrived.
    pub(in crate::server) const fn is_ahead(&self) -> bool {
        matches!(self.early_connect, Some(EarlyConnect { is_gathering: true, .. }))
    }

    /// The host's status, corrected if participants have ended since the request.
    pub(super) fn in_view_of_losses(&self, status: Status) -> Status {
        match self.early_connect {
            Some(EarlyConnect { is_short: true, .. }) if status == Status::SUCCESS => Status::ERR_PARTIAL_SUCCESS,
            _ => status,
        }
    }
}

impl<S: Datastore> Server<S> {
    /// If the host does not register each job with each server, asks it although registrations are missing.
    pub(super) fn ask_ahead(&mut self, now: Time, id: OperationId) {
        let table = self.collectives.table;
        let Some(operation) = self.collectives.get_mut(id) else { return };
        let needed = operation.signature.kind.capability() | Capabilities::REGISTERS_ON_CONNECT;
        // A fence's data is numbered by the sizes of its jobs, so fences never go ahead.
        let may_go = operation.signature.kind != Kind::Fence && self.config.capabilities.contains(needed);
        if !may_go || !operation.lacks_only_jobs(&self.registry, table) {
            return;
        }
        match operation.signature.kind {
            Kind::Connect => self.connect_ahead(now, id),
            _ => self.ask_late(now, id),
        }
    }

    fn ask_late(&mut self, now: Time, id: OperationId) {
        let Some(operation) = self.collectives.get_mut(id) else { return };
        let early_connect = operation.early_connect.get_or_insert_default();
        if !early_connect.has_waited {
            if early_connect.until.is_none() {
                early_connect.until = Some(now + REGISTRATION_WAIT_MAX);
                self.timers.arm(early_connect.until, Timer::Registration(id));
            }
            return;
        }
        if operation.verdicts.is_empty() {
            let status = local_status(operation, &self.registry);
            match self.intolerable(id, status) {
                Some(failure) => self.give_up(now, id, failure),
                None => self.hand_over(now, id, status),
            }
        }
    }

    fn connect_ahead(&mut self, now: Time, id: OperationId) {
        let Some(operation) = self.collectives.get_mut(id) else { return };
        let status = local_status(operation, &self.registry);
        let departed = operation.departed.len();
        operation.early_connect = Some(EarlyConnect { is_gathering: true, departed, ..EarlyConnect::default() });
        let procs = operation.signature.procs.to_vec();
        let directives = operation.directives_for_host(status);
        let upcall = Upcall::Connect(Connect { procs, directives });
        let upcall = self.ask_host(now, Purpose::Operation(id), upcall);
        if let Some(operation) = self.collectives.get_mut(id) {
            operation.stage = Stage::AtHost(upcall);
        }
    }

    /// Called after a change to an operation that went ahead: its jobs and participants may be complete now.
    pub(super) fn advance_ahead(&mut self, now: Time, id: OperationId, is_complete: bool) {
        let table = self.collectives.table;
        let Some(operation) = self.collectives.get_mut(id) else { return };
        let Some(EarlyConnect { has_waited, until, .. }) = operation.early_connect else { return };
        let lacks_only_jobs = !is_complete && operation.lacks_only_jobs(&self.registry, table);
        if is_complete || has_waited && lacks_only_jobs {
            return self.catch_up_with_host(now, id);
        }
        let is_agreed = operation.answer.as_ref().is_some_and(|answer| brings_about(answer.status));
        if is_agreed && lacks_only_jobs && until.is_none() {
            let until = Some(now + REGISTRATION_WAIT_MAX);
            operation.early_connect.iter_mut().for_each(|early_connect| early_connect.until = until);
            self.timers.arm(until, Timer::Registration(id));
        }
    }

    /// The host has registered no job in its time.
    pub(in crate::server) fn expire_registration(&mut self, now: Time, id: OperationId) {
        let Some(early_connect) = self.collectives.get_mut(id).and_then(|operation| operation.early_connect.as_mut())
        else {
            return;
        };
        (early_connect.until, early_connect.has_waited) = (None, true);
        self.advance_operation(now, id);
    }

    fn catch_up_with_host(&mut self, now: Time, id: OperationId) {
        let Some(operation) = self.collectives.get_mut(id) else { return };
        let Some(early_connect) = &mut operation.early_connect else { return };
        early_connect.is_gathering = false;
        early_connect.is_short = operation.departed.len() > early_connect.departed;
        let (until, deadline) = (early_connect.until.take(), operation.deadline.take());
        let signature = operation.signature.clone();
        self.timers.disarm(until, Timer::Registration(id));
        self.timers.disarm(deadline, Timer::Operation(id));
        self.settle_answered(now, &signature);
    }
}
