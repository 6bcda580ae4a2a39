//! Connecting to jobs that the host knows and this server does not, yet.
//!
//! No operation is over before all jobs that it names are registered here, and everybody of them who is here has come. A
//! host may learn of a job only by being asked to connect to it: the daemons of Open MPI 4.1 look up the job of another
//! `mpirun` then, register it, and answer. To such a host a connect goes up as soon as nothing but registrations is
//! missing. It goes on gathering: what the host answers counts when all are here.

use super::collective::{Kind, Operation, OperationId, Stage};
use super::config::Capabilities;
use super::core::Server;
use super::host::Upcall;
use super::pending::Purpose;
use super::registry::Registry;
use super::rendezvous::local_status;
use super::requests::Connect;
use super::timers::Timer;
use super::transitions::Table;
use crate::gds::Publish;
use crate::types::{ProcId, Status, Time};

/// An operation that the host has been asked for before all jobs that it names were registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ahead {
    /// Jobs are still to be registered, or their processes to come.
    is_gathering: bool,
    /// How many had ended without having come when the host was asked: of those it was told.
    departed: usize,
    /// Others have since.
    is_short: bool,
}

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
    /// Asks a host that registers jobs when it is asked to connect to them.
    pub(super) fn ask_ahead(&mut self, now: Time, id: OperationId) {
        let (table, needed) = (self.collectives.table, Capabilities::CONNECT | Capabilities::REGISTERS_ON_CONNECT);
        let registers = self.config.capabilities.contains(needed);
        let Some(operation) = self.collectives.get_mut(id) else { return };
        let is_meant = registers && operation.signature.kind == Kind::Connect && operation.stage == Stage::Gathering;
        if !is_meant || !operation.lacks_only_jobs(&self.registry, table) {
            return;
        }
        let status = local_status(operation, &self.registry);
        operation.ahead = Some(Ahead { is_gathering: true, departed: operation.departed.len(), is_short: false });
        let procs = operation.signature.procs.clone();
        let directives = operation.directives_for_host(status);
        let upcall = Upcall::Connect(Connect { procs, directives });
        let upcall = self.ask_host(now, Purpose::Operation(id), upcall);
        if let Some(operation) = self.collectives.get_mut(id) {
            operation.stage = Stage::AtHost(upcall);
        }
    }

    /// The jobs of an operation that was asked for ahead are here, and so is everybody.
    pub(super) fn catch_up_with_host(&mut self, now: Time, id: OperationId) {
        let Some(operation) = self.collectives.get_mut(id) else { return };
        let Some(ahead) = &mut operation.ahead else { return };
        ahead.is_gathering = false;
        ahead.is_short = operation.departed.len() > ahead.departed;
        let deadline = operation.deadline.take();
        let signature = operation.signature.clone();
        self.timers.disarm(deadline, Timer::Operation(id));
        self.settle_answered(now, &signature);
    }
}
