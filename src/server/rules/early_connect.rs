//! Operations over jobs that the host knows and this server does not know yet.
//!
//! No operation ends before all its jobs are registered here and all their local processes have arrived. A host may
//! learn of a job only from a connect request. The daemons of Open MPI 4.1 then look up the job of another `mpirun`,
//! register it, and answer. Such a host gets a connect request as soon as only registrations are missing. The operation
//! goes on gathering, and the host's answer counts when all participants have arrived. Not every such host registers
//! every job: a job not registered soon after the answer has no local processes. Groups and disconnects wait that long
//! first, and then go to the host, because a group's request carries more than the arrivals.

use std::time::Duration;

use crate::gds::Datastore;
use crate::server::interface::{Capabilities, Connect, Upcall};
use crate::server::state::{CollectiveKind, EarlyConnect, OperationId, Purpose, ServerCore, Timer};
use crate::types::Time;

/// Time that a host has to register jobs that it knows.
const REGISTRATION_WAIT_MAX: Duration = Duration::from_secs(1);

impl<S: Datastore> ServerCore<S> {
    /// If the host does not register each job with each server, asks it although registrations are missing.
    pub(super) fn ask_ahead(&mut self, now: Time, id: OperationId) {
        let table = self.collectives.table;
        let Some(operation) = self.collectives.get_mut(id) else { return };
        let needed = operation.signature().kind.capability() | Capabilities::REGISTERS_ON_CONNECT;
        // A fence's data is numbered by the sizes of its jobs, so fences never go ahead.
        let may_go = operation.signature().kind != CollectiveKind::Fence && self.config.capabilities.contains(needed);
        if !may_go || !operation.lacks_only_jobs(&self.registry, table) {
            return;
        }
        match operation.signature().kind {
            CollectiveKind::Connect => self.connect_ahead(now, id),
            _ => self.ask_late(now, id),
        }
    }

    fn ask_late(&mut self, now: Time, id: OperationId) {
        let Some(operation) = self.collectives.get_mut(id) else { return };
        let early_connect = operation.early_connect_mut().get_or_insert_default();
        if !early_connect.has_waited() {
            if early_connect.until().is_none() {
                early_connect.wait_until(now + REGISTRATION_WAIT_MAX);
                self.timers.arm(early_connect.until(), Timer::Registration(id));
            }
            return;
        }
        if !operation.awaits_decisions() {
            let status = operation.local_status(&self.registry);
            match self.intolerable(id, status) {
                Some(failure) => self.give_up(now, id, failure),
                None => self.hand_over(now, id, status),
            }
        }
    }

    fn connect_ahead(&mut self, now: Time, id: OperationId) {
        let Some(operation) = self.collectives.get_mut(id) else { return };
        let status = operation.local_status(&self.registry);
        let departed = operation.departed().len();
        *operation.early_connect_mut() = Some(EarlyConnect::at_host(departed));
        let procs = operation.signature().procs.to_vec();
        let directives = operation.directives_for_host(status);
        let upcall = Upcall::Connect(Connect { procs, directives });
        let upcall = self.ask_host(now, Purpose::Operation(id), upcall);
        if let Some(operation) = self.collectives.get_mut(id) {
            operation.hand_to_host_early(upcall);
        }
    }

    /// Called after a change to an operation that went ahead: its jobs and participants may be complete now.
    pub(super) fn advance_ahead(&mut self, now: Time, id: OperationId, is_complete: bool) {
        let table = self.collectives.table;
        let Some(operation) = self.collectives.get_mut(id) else { return };
        let Some(early_connect) = operation.early_connect() else { return };
        let lacks_only_jobs = !is_complete && operation.lacks_only_jobs(&self.registry, table);
        if is_complete || early_connect.has_waited() && lacks_only_jobs {
            return self.catch_up_with_host(now, id);
        }
        if operation.is_agreed() && lacks_only_jobs && early_connect.until().is_none() {
            let until = now + REGISTRATION_WAIT_MAX;
            operation.early_connect_mut().iter_mut().for_each(|early_connect| early_connect.wait_until(until));
            self.timers.arm(Some(until), Timer::Registration(id));
        }
    }

    /// The host has registered no job in its time.
    pub(in crate::server) fn expire_registration(&mut self, now: Time, id: OperationId) {
        let Some(early_connect) =
            self.collectives.get_mut(id).and_then(|operation| operation.early_connect_mut().as_mut())
        else {
            return;
        };
        early_connect.end_wait();
        self.advance_operation(now, id);
    }

    fn catch_up_with_host(&mut self, now: Time, id: OperationId) {
        let Some(operation) = self.collectives.get_mut(id) else { return };
        let departed = operation.departed().len();
        let Some(early_connect) = operation.early_connect_mut() else { return };
        let (until, deadline) = (early_connect.complete(departed), operation.take_deadline());
        let signature = operation.signature().clone();
        self.timers.disarm(until, Timer::Registration(id));
        self.timers.disarm(deadline, Timer::Operation(id));
        self.settle_answered(now, &signature);
    }
}
