//! Requests to the host, and their end.

use super::access::Action;
use crate::gds::Datastore;
use crate::proto;
use crate::server::interface::{AbortUpcall, Capabilities, Output, Upcall, UpcallId};
use crate::server::state::{PendingUpcall, Purpose, ServerCore, Ticket, Timer};
use crate::types::{ProcId, Status, Time};

impl<S: Datastore> ServerCore<S> {
    /// Asks the host. The answer carries the returned id.
    pub(super) fn ask_host(&mut self, now: Time, purpose: Purpose, upcall: Upcall) -> UpcallId {
        let deadline = self.config.host_timeout.map(|timeout| now + timeout);
        self.ask_host_until(deadline, purpose, upcall)
    }

    pub(super) fn ask_host_until(&mut self, deadline: Option<Time>, purpose: Purpose, upcall: Upcall) -> UpcallId {
        let id = self.upcalls.insert(purpose, deadline);
        tracing::debug!(upcall = id.0, request = upcall.name(), "the host is asked");
        self.timers.arm(deadline, Timer::Upcall(id));
        self.outputs.push(Output::Upcall(id, upcall));
        id
    }

    /// Forgets an upcall; its answer will be ignored.
    pub(super) fn cancel_upcall(&mut self, id: UpcallId) -> Option<Purpose> {
        let PendingUpcall { purpose, deadline } = self.upcalls.remove(id)?;
        self.timers.disarm(deadline, Timer::Upcall(id));
        Some(purpose)
    }

    pub(in crate::server) fn abort(&mut self, now: Time, ticket: Ticket, requester: ProcId, abort: proto::Abort) {
        if !self.config.capabilities.contains(Capabilities::ABORT) {
            return self.outputs.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
        }
        let object = self.registry.client(&requester).map_or(0, |client| client.object());
        let proto::Abort { status, message, procs } = abort;
        let procs = match self.with_members(procs, &requester) {
            Ok(procs) => procs,
            Err(status) => return self.outputs.reply_status(ticket, status),
        };
        if let Err(status) = self.permit_abort(&ticket, &requester, &procs) {
            return self.outputs.reply_status(ticket, status);
        }
        let upcall = Upcall::Abort(AbortUpcall { requester, object, status, message, procs });
        self.ask_host(now, Purpose::Abort(ticket), upcall);
    }

    fn permit_abort(&self, ticket: &Ticket, requester: &ProcId, procs: &[ProcId]) -> Result<(), Status> {
        let requester = self.requester(ticket.peer(), requester.clone()).ok_or(Status::ERR_NOT_AVAILABLE)?;
        self.permit_all(&requester, Action::Abort, procs)
    }
}
