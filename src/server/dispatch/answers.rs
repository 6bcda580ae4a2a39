//! Answers of the host, each to the rule that asked.

use crate::gds::Datastore;
use crate::server::interface::{HostReply, UpcallId};
use crate::server::state::{AbortStage, PendingUpcall, Purpose, ServerCore, Timer};
use crate::types::{Status, Time};

impl<S: Datastore> ServerCore<S> {
    pub(super) fn complete_upcall(&mut self, now: Time, id: UpcallId, reply: HostReply) {
        // The host may answer twice, after the deadline, or after the requester has gone.
        let Some(PendingUpcall { purpose, deadline }) = self.upcalls.remove(id) else { return };
        self.timers.disarm(deadline, Timer::Upcall(id));
        tracing::debug!(upcall = id.0, status = %reply.status(), "the host has answered");
        match purpose {
            Purpose::ClientConnected(peer) => self.admit_or_refuse(peer, reply.status()),
            Purpose::ToolConnected(peer) => self.settle_tool(now, peer, reply),
            // A host that does not want to hear of the end may have a stub of the function.
            Purpose::ClientFinalized(ticket) if reply.status() == Status::ERR_NOT_SUPPORTED => {
                self.outputs.reply_status(ticket, Status::SUCCESS);
            }
            Purpose::ClientFinalized(ticket) => self.outputs.reply_status(ticket, reply.status()),
            Purpose::Abort(ticket, stage) => self.settle_abort(now, ticket, stage, reply.status()),
            Purpose::Notify(ticket, held) => self.settle_event(now, ticket, held, reply.status()),
            Purpose::OrphanedEvent(held) => self.settle_orphan(now, *held, reply.status()),
            Purpose::RegisterEvents => self.complete_environment(now, id, reply.status()),
            Purpose::Passed(ticket, expected) => self.settle_passed(now, id, (ticket, expected), reply),
            Purpose::MissedFence(operation, proc) => self.caught_up(now, (id, operation), proc, reply),
            Purpose::Operation(operation) => self.complete_operation(now, operation, reply),
            Purpose::DirectModex(fetch) => match reply {
                HostReply::DirectModex(entries) => self.complete_fetch(now, id, &fetch, Ok(entries)),
                other => match other.status() {
                    Status::SUCCESS => self.complete_fetch(now, id, &fetch, Ok(Vec::new())),
                    status => self.complete_fetch(now, id, &fetch, Err(status)),
                },
            },
        }
    }

    /// The host took too long: waiting requests get a timeout, and a later answer is ignored.
    pub(super) fn expire_upcall(&mut self, now: Time, id: UpcallId) {
        let purpose = self.upcalls.get(id).map(|upcall| &upcall.purpose);
        if matches!(purpose, Some(Purpose::Abort(_, AbortStage::Ordered))) {
            return self.complete_upcall(now, id, HostReply::Status(Status::SUCCESS));
        }
        let about = purpose.map(Purpose::subject);
        tracing::warn!(
            upcall = id.0,
            about,
            "the host did not answer in time: requests that wait for it get PMIX_ERR_TIMEOUT. Its function must call back, also after an \
             error"
        );
        self.complete_upcall(now, id, HostReply::Status(Status::ERR_TIMEOUT));
    }
}
