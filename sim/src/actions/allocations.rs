//! Requests of processes for allocations, which the host passes to its scheduler.

use modex::client::{Call, CallError, Outcome};
use modex::proto::{Allocate, Reply, Request};
use modex::server::{HostReply, Input, PeerId, Requester, UpcallId};
use modex::types::Status;

use crate::faults::{Canary, Faults};
use crate::process::{CallPurpose, PendingCall};
use crate::queue::ServerId;
use crate::rule::Rule;
use crate::world::World;

impl World {
    /// A process may ask for an allocation, and goes on without its answer.
    pub(crate) fn ask_scheduler(&mut self, peer: PeerId) {
        let Some((directive, infos)) = self.allocations.as_mut().and_then(|of| of.next()) else { return };
        let call = Call::Exchange(Request::Service(Allocate::new(directive, infos).into()));
        self.client_call(
            peer,
            PendingCall { purpose: CallPurpose::Allocation, is_awaited: false, deadline: None },
            call,
        );
    }

    /// A server asks for an allocation.
    pub(crate) fn allocate(
        &mut self,
        server: ServerId,
        id: UpcallId,
        requester: &Requester,
        Allocate { directive, info, .. }: &Allocate,
    ) -> Option<Input> {
        if self.strikes(Faults::REFUSE) {
            return self.answer(server, id, HostReply::Status(Status::ERR_UNREACH));
        }
        let is_defective = self.setup.canary == Some(Canary::NodeTwice);
        let (answer, wrong) = self.allocations.as_mut()?.answer(requester, *directive, info, is_defective);
        if let Some(wrong) = wrong {
            self.rules.breaks(Rule::NodesOnce, || wrong);
        }
        let reply = match answer {
            Ok(info) => HostReply::Infos { status: Status::SUCCESS, info },
            Err(status) => HostReply::Status(status),
        };
        self.answer(server, id, reply)
    }

    /// A process hears the answer to a request.
    pub(crate) fn note_allocation(&mut self, process: u32, result: Result<Outcome, CallError>) {
        let Ok(Outcome::Reply(Reply::Infos(infos))) = result else { return };
        let proc = self.process(process).map(|of| of.proc.clone());
        let wrong = self.allocations.as_mut().zip(proc).and_then(|(of, proc)| of.heard(&proc, &infos));
        if let Some(wrong) = wrong {
            self.rules.breaks(Rule::AnsweredOnce, || wrong);
        }
    }

    /// The host learns of the end of a process, with or without its server.
    pub(crate) fn return_allocations(&mut self, process: u32) {
        let proc = self.process(process).map(|of| of.proc.clone());
        if let Some((of, proc)) = self.allocations.as_mut().zip(proc) {
            of.note_end(&proc);
        }
    }
}
