//! Operations over jobs that the host knows and this server does not, yet.
//!
//! No operation is over before all jobs that it names are registered here, and everybody of them who is here has come. A
//! host may learn of a job only by being asked to connect to it: the daemons of Open MPI 4.1 look up the job of another
//! `mpirun` then, register it, and answer. To such a host a connect goes up as soon as nothing but registrations is
//! missing. It goes on gathering: what the host answers counts when all are here. Not every such host registers every job:
//! of one that is not registered soon after the answer nobody is here. Groups, which are told more than that all have come, and
//! disconnects wait so long first, and go up then.

use std::time::Duration;

use super::collective::{Operation, OperationId, Stage, brings_about};
use super::config::Capabilities;
use super::core::Server;
use super::host::Upcall;
use super::pending::Purpose;
use super::registry::Registry;
use super::rendezvous::local_status;
use super::requests::Connect;
use super::signature::Kind;
use super::timers::Timer;
use super::transitions::Table;
use crate::gds::Publish;
use crate::types::{ProcId, Status, Time};

/// How it stands with an operation that lacked nothing but registrations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ahead {
    /// The host has been asked. Jobs are still to be registered, or their processes to come.
    is_gathering: bool,
    /// How many had ended without having come when the host was asked: of those it was told.
    departed: usize,
    /// Others have since.
    is_short: bool,
    /// Bounds the wait for registrations: that for the host's after its answer, or that before it is asked.
    pub(super) until: Option<Time>,
    /// It is over: jobs that are not registered live elsewhere.
    has_waited: bool,
}

/// How long a host may take to register jobs that it knows.
const REGISTRATION_WAIT_MAX: Duration = Duration::from_secs(1);

impl Operation {
    /// Whether nothing but registrations is missing. Takes note of who is gone.
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

    /// Whether what the host answers has to wait: it was asked ahead, and not all are here.
    pub(super) const fn is_ahead(&self) -> bool {
        matches!(self.ahead, Some(Ahead { is_gathering: true, .. }))
    }

    /// The host's status, in view of who has ended since it was asked.
    pub(super) fn in_view_of_losses(&self, status: Status) -> Status {
        match self.ahead {
            Some(Ahead { is_short: true, .. }) if status == Status::SUCCESS => Status::ERR_PARTIAL_SUCCESS,
            _ => status,
        }
    }
}

impl<S: Publish> Server<S> {
    /// A host that does not register each job with each server is asked although registrations are missing.
    pub(super) fn ask_ahead(&mut self, now: Time, id: OperationId) {
        let table = self.collectives.table;
        let Some(operation) = self.collectives.get_mut(id) else { return };
        let needed = operation.signature.kind.capability() | Capabilities::REGISTERS_ON_CONNECT;
        // What a fence exchanges is numbered by the sizes of its jobs.
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
        let ahead = operation.ahead.get_or_insert_default();
        if !ahead.has_waited {
            if ahead.until.is_none() {
                ahead.until = Some(now + REGISTRATION_WAIT_MAX);
                self.timers.arm(ahead.until, Timer::Registration(id));
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
        operation.ahead = Some(Ahead { is_gathering: true, departed, ..Ahead::default() });
        let procs = operation.signature.procs.to_vec();
        let directives = operation.directives_for_host(status);
        let upcall = Upcall::Connect(Connect { procs, directives });
        let upcall = self.ask_host(now, Purpose::Operation(id), upcall);
        if let Some(operation) = self.collectives.get_mut(id) {
            operation.stage = Stage::AtHost(upcall);
        }
    }

    /// Something has changed for an operation that was asked for ahead: perhaps its jobs are here now, and so is everybody.
    pub(super) fn advance_ahead(&mut self, now: Time, id: OperationId, is_complete: bool) {
        let table = self.collectives.table;
        let Some(operation) = self.collectives.get_mut(id) else { return };
        let Some(Ahead { has_waited, until, .. }) = operation.ahead else { return };
        let lacks_only_jobs = !is_complete && operation.lacks_only_jobs(&self.registry, table);
        if is_complete || has_waited && lacks_only_jobs {
            return self.catch_up_with_host(now, id);
        }
        let is_agreed = operation.answer.as_ref().is_some_and(|answer| brings_about(answer.status));
        if is_agreed && lacks_only_jobs && until.is_none() {
            let until = Some(now + REGISTRATION_WAIT_MAX);
            operation.ahead.iter_mut().for_each(|ahead| ahead.until = until);
            self.timers.arm(until, Timer::Registration(id));
        }
    }

    /// The host has registered nothing in its time.
    pub(super) fn expire_registration(&mut self, now: Time, id: OperationId) {
        let Some(ahead) = self.collectives.get_mut(id).and_then(|operation| operation.ahead.as_mut()) else { return };
        (ahead.until, ahead.has_waited) = (None, true);
        self.advance_operation(now, id);
    }

    fn catch_up_with_host(&mut self, now: Time, id: OperationId) {
        let Some(operation) = self.collectives.get_mut(id) else { return };
        let Some(ahead) = &mut operation.ahead else { return };
        ahead.is_gathering = false;
        ahead.is_short = operation.departed.len() > ahead.departed;
        let (until, deadline) = (ahead.until.take(), operation.deadline.take());
        let signature = operation.signature.clone();
        self.timers.disarm(until, Timer::Registration(id));
        self.timers.disarm(deadline, Timer::Operation(id));
        self.settle_answered(now, &signature);
    }
}
