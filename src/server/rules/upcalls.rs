//! Requests to the host, and their end.

use std::time::Duration;

use super::access::Action;
use crate::gds::Datastore;
use crate::proto;
use crate::server::interface::{AbortUpcall, Capabilities, Output, Upcall, UpcallId};
use crate::server::state::{AbortStage, PendingUpcall, Purpose, ServerCore, Ticket, Timer};
use crate::types::{ProcId, Status, Time};

/// How long the caller of an abort waits for its end after the host has agreed. Some hosts do nothing else.
const CALLER_END_MAX: Duration = Duration::from_secs(2);

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
        let is_of_caller = procs.is_empty() || procs.iter().any(|named| named.covers(&requester));
        let stage = if is_of_caller { AbortStage::OfCaller } else { AbortStage::OfOthers };
        let upcall = Upcall::Abort(AbortUpcall { requester, object, status, message, procs });
        self.ask_host(now, Purpose::Abort(ticket, stage), upcall);
    }

    /// Handles the host's answer to an abort. The call of a process that is to end does not return, as the standard has
    /// it. PRRTE waits for ever for a job whose caller of abort ends by itself before its daemon has the order to end it.
    pub(in crate::server) fn settle_abort(&mut self, now: Time, ticket: Ticket, stage: AbortStage, status: Status) {
        if stage != AbortStage::OfCaller || status != Status::SUCCESS {
            let status = if stage == AbortStage::Ordered { Status::SUCCESS } else { status };
            return self.outputs.reply_status(ticket, status);
        }
        let deadline = Some(now + CALLER_END_MAX);
        let id = self.upcalls.insert(Purpose::Abort(ticket, AbortStage::Ordered), deadline);
        self.timers.arm(deadline, Timer::Upcall(id));
    }

    fn permit_abort(&self, ticket: &Ticket, requester: &ProcId, procs: &[ProcId]) -> Result<(), Status> {
        let requester = self.requester(ticket.peer(), requester.clone()).ok_or(Status::ERR_NOT_AVAILABLE)?;
        self.permit_all(&requester, Action::Abort, procs)
    }
}
