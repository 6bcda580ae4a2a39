//! The host's answers, and the handling of missing ones.

use super::access::Action;
use crate::gds::Datastore;
use crate::proto;
use crate::server::dispatch::core::Server;
use crate::server::interface::config::Capabilities;
use crate::server::interface::host::{AbortUpcall, HostReply, Upcall, UpcallId};
use crate::server::state::outputs::Ticket;
use crate::server::state::pending::{PendingUpcall, Purpose};
use crate::server::state::timers::Timer;
use crate::types::{ProcId, Status, Time};

impl<S: Datastore> Server<S> {
    pub(in crate::server) fn complete_upcall(&mut self, now: Time, id: UpcallId, reply: HostReply) {
        // The host may answer twice, after the deadline, or after the requester has gone.
        let Some(PendingUpcall { purpose, deadline }) = self.upcalls.remove(id) else { return };
        self.timers.disarm(deadline, Timer::Upcall(id));
        match purpose {
            Purpose::ClientConnected(peer) => self.admit_or_refuse(peer, status_of(&reply)),
            Purpose::ToolConnected(peer) => self.settle_tool(now, peer, reply),
            Purpose::ClientFinalized(ticket) | Purpose::Abort(ticket) | Purpose::Notify(ticket) => {
                self.outputs.reply_status(ticket, status_of(&reply));
            }
            Purpose::RegisterEvents => self.complete_environment(now, id, status_of(&reply)),
            Purpose::Passed(ticket, expected) => self.settle_passed(ticket, expected, reply),
            Purpose::MissedFence(operation, proc) => self.caught_up(now, operation, proc, reply),
            Purpose::Operation(operation) => self.complete_operation(now, operation, reply),
            Purpose::DirectModex(fetch) => match reply {
                HostReply::DirectModex(entries) => self.complete_fetch(now, id, &fetch, Ok(entries)),
                other => match status_of(&other) {
                    Status::SUCCESS => self.complete_fetch(now, id, &fetch, Ok(Vec::new())),
                    status => self.complete_fetch(now, id, &fetch, Err(status)),
                },
            },
        }
    }

    /// The host took too long: waiting requests get a timeout, and a later answer is ignored.
    pub(in crate::server) fn expire_upcall(&mut self, now: Time, id: UpcallId) {
        tracing::warn!(upcall = id.0, "the host did not answer in time");
        self.complete_upcall(now, id, HostReply::Status(Status::ERR_TIMEOUT));
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
        let object = self.registry.client(&requester).map_or(0, |client| client.object);
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
        let requester = self.requester(ticket, requester.clone()).ok_or(Status::ERR_NOT_AVAILABLE)?;
        self.permit_all(&requester, Action::Abort, procs)
    }
}

/// The status in a reply of the host. Unexpected data is the host's mistake, and an error.
pub(super) fn status_of(reply: &HostReply) -> Status {
    match reply {
        HostReply::Status(status) => settled(*status),
        HostReply::Fence { .. }
        | HostReply::PackedFence { .. }
        | HostReply::DirectModex(_)
        | HostReply::Lookup { .. }
        | HostReply::Spawned(_)
        | HostReply::Infos { .. }
        | HostReply::Credential(_)
        | HostReply::Tool(_) => Status::ERROR,
    }
}

/// "Done at once" is another form of success.
pub(super) fn settled(status: Status) -> Status {
    if status == Status::OPERATION_SUCCEEDED { Status::SUCCESS } else { status }
}
