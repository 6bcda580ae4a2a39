//! Recovery of a server that missed the end of a collecting fence.
//!
//! A fence carries the changes since the last one of the same participants. A server that saw that one succeed does not
//! send its values again. A server may have missed it: the host's answer was lost, came too late, or could not be
//! stored. Such a server would answer with older values for good, so it remembers the set of participants. When the
//! next collecting fence of that set succeeds, it fetches every value that may be outdated before it releases any
//! process. These are the stored values of remote processes, unless the fence brought all of a process's values.
//! Servers that saw the fence fail, too, send everything (see [`crate::server::state::EVERYTHING`]), so a fence that
//! failed everywhere costs no fetch. Values that are missing here need no care: a Get finds none and asks.

use std::collections::{BTreeSet, VecDeque};

use super::commit::{Arrival, about};
use crate::gds::Datastore;
use crate::server::interface::{Capabilities, DirectModex, HostReply, Upcall, UpcallId};
use crate::server::state::{Concerned, OperationId, Purpose, ServerCore, Settlement, brings_about};
use crate::types::{Info, ProcId, Status, Time};

impl<S: Datastore> ServerCore<S> {
    /// Starts to fetch the values of a missed earlier fence of these participants. `whole`: processes whose values this
    /// fence brought completely. Returns whether the fence must wait for the fetches.
    pub(super) fn must_catch_up(
        &mut self,
        now: Time,
        id: OperationId,
        status: Status,
        whole: &BTreeSet<ProcId>,
        info: &[Info],
    ) -> bool {
        let is_good = brings_about(status);
        let operation = self.collectives.get(id).filter(|operation| is_good && operation.collects());
        let Some(operation) = operation.filter(|operation| self.missed_fences.is_missed(&operation.signature().procs))
        else {
            return false;
        };
        let mut left = VecDeque::new();
        for namespace in operation.signature().procs.namespaces() {
            let Some(job) = self.registry.job(namespace) else { continue };
            let known = job.stored().ranks().map(|rank| ProcId::new(namespace.clone(), rank));
            let is_outdated = |proc: &ProcId| {
                let is_local = self.registry.client(proc).is_some();
                !is_local && !whole.contains(proc) && operation.signature().covers(proc)
            };
            left.extend(known.filter(is_outdated));
        }
        tracing::debug!(operation = id.0, ranks = left.len(), "the server fetches the data of a missed fence");
        let deadline = self.config.host_timeout.map(|timeout| now + timeout);
        self.missed_fences.begin(id, (status, info.to_vec()), left, deadline);
        self.collectives.catch_up(id);
        self.go_on_catching_up(now);
        true
    }

    /// Sends more requests, and ends the fences that have all values.
    pub(super) fn go_on_catching_up(&mut self, now: Time) {
        let can_ask = self.config.capabilities.contains(Capabilities::DIRECT_MODEX);
        let done = self.missed_fences.done(can_ask);
        let Self { config, upcalls, missed_fences, .. } = self;
        let is_busy = |proc: &ProcId| config.one_fetch_per_process && upcalls.fetching_of(proc).is_some();
        let questions = if can_ask { missed_fences.next_questions(is_busy) } else { Vec::new() };
        for (id, deadline, proc) in questions {
            let upcall = Upcall::DirectModex(DirectModex { proc: proc.clone(), directives: Vec::new() });
            self.ask_host_until(deadline, Purpose::MissedFence(id, proc), upcall);
        }
        for (id, status) in done {
            self.end_catch_up(now, id, status);
        }
    }

    /// The host has fetched a process's values for a fence, or has failed to. Gets may wait for that, too.
    pub(in crate::server) fn caught_up(
        &mut self,
        now: Time,
        (upcall, id): (UpcallId, OperationId),
        proc: ProcId,
        reply: HostReply,
    ) {
        self.missed_fences.forget_question(&proc);
        let result = match reply {
            HostReply::DirectModex(_) if self.registry.client(&proc).is_some() => Ok(Arrival::Changes),
            HostReply::DirectModex(entries) => self.publish_remote(&proc, entries),
            other => Err(Some(other.status()).filter(|status| *status != Status::SUCCESS).unwrap_or(Status::ERROR)),
        };
        let otherwise = result.as_ref().err().copied().unwrap_or(Status::ERR_NOT_FOUND);
        self.held_gets.note_settled(upcall, Settlement { is_given: result.is_ok(), otherwise, fetched: None });
        self.review(now, std::iter::once(Concerned::Upcall(upcall)).chain(about(&proc)));
        if !self.missed_fences.note_answer(id) {
            return self.go_on_catching_up(now);
        }
        match result {
            Ok(arrival) => {
                if arrival == Arrival::Overtaken {
                    self.missed_fences.ask_again(id, proc);
                }
                if self.missed_fences.is_out_of_patience(id) {
                    self.end_catch_up(now, id, Status::ERR_NOT_AVAILABLE);
                }
            }
            Err(status) => {
                tracing::warn!(%proc, %status, "the data of a missed fence can't be fetched");
                self.end_catch_up(now, id, status);
            }
        }
        self.go_on_catching_up(now);
    }

    fn end_catch_up(&mut self, now: Time, id: OperationId, status: Status) {
        let Some((info, is_complete)) = self.missed_fences.take_results(id) else { return };
        if is_complete && let Some(operation) = self.collectives.get(id) {
            self.missed_fences.forget(&operation.signature().procs);
        }
        self.finish_with(now, id, status, info);
    }

    /// A fence has ended; cancels its fetches. A host that gets one request at a time goes on with them.
    pub(super) fn abandon_catch_up(&mut self, id: OperationId) {
        if !self.missed_fences.abandon(id) || self.config.one_fetch_per_process {
            return;
        }
        for (upcall, proc) in self.upcalls.catching_up(id) {
            self.cancel_upcall(upcall);
            self.missed_fences.forget_question(&proc);
        }
    }
}
