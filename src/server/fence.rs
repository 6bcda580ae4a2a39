//! Fences: what a contribution holds, when the host is needed, what its answer means.

use std::collections::BTreeSet;

use super::collective::{Answer, Kind, Operation, OperationId, Signature, Stage};
use super::commit::add_commit_number;
use super::config::Capabilities;
use super::core::Server;
use super::directives::{flag, requires_more_than, timeout};
use super::host::{FenceData, FenceUpcall, Upcall};
use super::io::StoreOffer;
use super::outputs::Ticket;
use super::pending::Purpose;
use super::registry::{Registry, Remote};
use super::timers::Timer;
use crate::gds::{AsStatus, Audience, Publish};
use crate::keys;
use crate::proto::{self, Reply};
use crate::types::{Info, Key, Kval, ProcId, Rank, Status, Time, Value};

/// Tells the host that local participants are missing.
const LOCAL_COLLECTIVE_STATUS: Key = Key::from_static(keys::LOCAL_COLLECTIVE_STATUS.name());

/// Directives a server can meet without the host.
const UNDERSTOOD: [&str; 3] =
    [keys::COLLECT_DATA.name(), keys::COLLECT_GENERATED_JOB_INFO.name(), keys::TIMEOUT.name()];

impl<S: Publish> Server<S> {
    /// A participant arrives at a fence.
    pub(super) fn fence(&mut self, now: Time, ticket: Ticket, proc: ProcId, fence: proto::Collective) {
        let proto::Collective { mut procs, directives } = fence;
        if procs.is_empty() {
            procs.push(ProcId::new(proc.namespace.clone(), Rank::Wildcard));
        }
        if procs.len() > self.config.limits.participants_max {
            return self.outputs.reply_status(ticket, Status::ERR_OUT_OF_RESOURCE);
        }
        if procs.iter().any(|entry| matches!(entry.rank, Rank::Invalid | Rank::Undefined)) {
            return self.outputs.reply_status(ticket, Status::ERR_BAD_PARAM);
        }
        let signature = Signature::new(Kind::Fence, procs);
        if !signature.covers(&proc) {
            return self.outputs.reply_status(ticket, Status::ERR_NOT_A_MEMBER);
        }
        let timeout = timeout(&directives);
        let id = match self.collectives.joinable(&signature, ticket.peer()) {
            Some(id) => id,
            None if self.collectives.len() >= self.config.limits.collectives_max => {
                return self.outputs.reply_status(ticket, Status::ERR_OUT_OF_RESOURCE);
            }
            None => self.collectives.open(signature, directives),
        };
        let Some(operation) = self.collectives.arrive(id, proc, ticket) else { return };
        // The first contribution that carries a timeout starts the clock for everybody.
        if let (None, Some(timeout)) = (operation.deadline, timeout) {
            operation.deadline = Some(now + timeout);
            self.timers.arm(operation.deadline, Timer::Operation(id));
        }
        self.advance_operation(now, id);
    }

    /// Completes the local phase if everybody who can arrive has.
    pub(super) fn advance_operation(&mut self, now: Time, id: OperationId) {
        let Some(operation) = self.collectives.get_mut(id) else { return };
        if operation.stage != Stage::Gathering || !operation.is_locally_complete(&self.registry) {
            return;
        }
        let has_host = self.config.capabilities.contains(Capabilities::FENCE);
        let remote = operation.remote();
        // Where nobody can tell whether there are others, the host can.
        let needs_host = remote == Remote::Some || (remote == Remote::Unknown && has_host);
        let status = local_status(operation, &self.registry);
        if !needs_host {
            let is_met = !requires_more_than(&operation.directives, &UNDERSTOOD);
            return self.finish_operation(now, id, if is_met { status } else { Status::ERR_NOT_SUPPORTED });
        }
        if !has_host {
            return self.finish_operation(now, id, Status::ERR_NOT_SUPPORTED);
        }
        match self.contribution(id) {
            Ok((data, collected)) => self.exchange(now, id, status, data, collected),
            Err(status) => self.finish_operation(now, id, status),
        }
    }

    /// Hands the local contribution to the host. From here on losses change nothing and nobody can join.
    fn exchange(&mut self, now: Time, id: OperationId, status: Status, data: FenceData, collected: Vec<(u32, u64)>) {
        let Some(operation) = self.collectives.get_mut(id) else { return };
        operation.collected = collected;
        let deadline = operation.deadline.take();
        let procs = operation.signature.procs.clone();
        let mut directives = operation.directives.clone();
        if status != Status::SUCCESS {
            directives.push(Info::new(LOCAL_COLLECTIVE_STATUS, Value::Status(status.to_raw())));
        }
        self.timers.disarm(deadline, Timer::Operation(id));
        let upcall = Upcall::Fence(FenceUpcall { procs, directives, data });
        let upcall = self.ask_host(now, Purpose::Fence(id), upcall);
        self.collectives.hand_to_host(id, upcall);
    }

    /// What the local participants contribute, and the commit number of each that it brings up to date.
    ///
    /// A fence over a whole namespace carries what changed since the last one that succeeded; over any other set
    /// nobody knows what the others have, so it carries everything.
    fn contribution(&self, id: OperationId) -> Result<(FenceData, Vec<(u32, u64)>), Status> {
        let Some(operation) = self.collectives.get(id) else { return Err(Status::ERROR) };
        let mut data = FenceData { collect: flag(&operation.directives, keys::COLLECT_DATA), blocks: Vec::new() };
        let mut collected = Vec::new();
        if !data.collect {
            return Ok((data, collected));
        }
        let whole = operation.signature.whole_namespace().and_then(|namespace| self.registry.job(namespace));
        for proc in &operation.contributed {
            let (Some(client), Some(rank)) = (self.registry.client(proc), proc.rank.process()) else { continue };
            let since = whole.and_then(|job| job.collected.get(&rank)).copied().unwrap_or(0);
            if whole.is_some() {
                collected.push((rank, client.commits));
            }
            if client.commits == since {
                continue;
            }
            let mut entries =
                self.store.posted(&proc.namespace, rank, Audience::OtherNodes).map_err(|error| error.status())?;
            entries.retain(|entry| client.changes.get(&entry.key).is_none_or(|&commit| commit > since));
            if !entries.is_empty() {
                add_commit_number(&mut entries, client.commits);
                data.blocks.push((proc.clone(), entries));
            }
        }
        Ok((data, collected))
    }

    /// The host has exchanged the contributions.
    pub(super) fn complete_fence(&mut self, now: Time, id: OperationId, answer: Answer) {
        let Some(operation) = self.collectives.get(id) else { return };
        let signature = operation.signature.clone();
        self.collectives.keep_answer(id, answer);
        self.settle_answered(now, &signature);
    }

    /// Ends an operation: everybody who waits gets this status.
    pub(super) fn finish_operation(&mut self, now: Time, id: OperationId, status: Status) {
        if let Some(signature) = self.release(id, status) {
            self.settle_answered(now, &signature);
        }
    }

    /// Ends the operations of a signature whose turn has come, in order.
    fn settle_answered(&mut self, now: Time, signature: &Signature) {
        while let Some((id, answer)) = self.collectives.take_next_answer(signature) {
            self.settle_fence(now, id, answer);
        }
    }

    /// Ends a fence with the host's answer. All data is published before anybody is released.
    fn settle_fence(&mut self, now: Time, id: OperationId, answer: Answer) {
        let Answer { mut status, blocks } = answer;
        let mut arrived = Vec::new();
        if matches!(status, Status::SUCCESS | Status::ERR_PARTIAL_SUCCESS) {
            match self.publish_blocks(id, blocks) {
                Ok(procs) => arrived = procs,
                Err(error) => status = error,
            }
        }
        if status == Status::SUCCESS {
            self.note_collected(id);
        }
        self.release(id, status);
        for proc in arrived {
            self.review_target(now, &proc);
        }
    }

    /// Stores the blocks of participants elsewhere; what this server contributed itself comes back and is skipped.
    fn publish_blocks(&mut self, id: OperationId, blocks: Vec<(ProcId, Vec<Kval>)>) -> Result<Vec<ProcId>, Status> {
        let mut arrived = Vec::new();
        for (proc, entries) in blocks {
            let is_local = self.registry.client(&proc).is_some();
            let is_participant = self.collectives.get(id).is_some_and(|op| op.signature.covers(&proc));
            if is_local || !is_participant {
                continue;
            }
            self.publish_remote(&proc, entries)?;
            arrived.push(proc);
        }
        Ok(arrived)
    }

    fn note_collected(&mut self, id: OperationId) {
        let Some(operation) = self.collectives.get(id) else { return };
        let Some(namespace) = operation.signature.whole_namespace() else { return };
        let Some(job) = self.registry.job_mut(namespace) else { return };
        for &(rank, commit) in &operation.collected {
            let newest = job.collected.entry(rank).or_default();
            *newest = commit.max(*newest);
        }
    }

    /// Takes an operation off the list and answers everybody who waits for it.
    fn release(&mut self, id: OperationId, status: Status) -> Option<Signature> {
        let operation = self.collectives.remove(id)?;
        tracing::debug!(operation = id.0, procs = ?operation.signature.procs, %status, "fence ended");
        self.timers.disarm(operation.deadline, Timer::Operation(id));
        if let Stage::AtHost(upcall) = operation.stage {
            self.cancel_upcall(upcall);
        }
        let departed = if status == Status::ERR_PARTIAL_SUCCESS { &operation.departed } else { &BTreeSet::new() };
        let missing: Vec<ProcId> = departed.iter().take(MISSING_NAMED_MAX).cloned().collect();
        let (signature, tickets) = operation.into_parts();
        for ticket in tickets {
            // The reference's clients expect a status and nothing behind it.
            let is_own_client = self.peers.get(ticket.peer()).is_some_and(|peer| peer.store == StoreOffer::Segment);
            if missing.is_empty() || !is_own_client {
                self.outputs.reply_status(ticket, status);
            } else {
                let results = Box::new(Reply::Procs(missing.clone()));
                self.outputs.reply(ticket, Reply::Partial { status, results });
            }
        }
        Some(signature)
    }
}

/// Missing participants that a client is told of: enough to find the cause, in a message of bounded size.
const MISSING_NAMED_MAX: usize = 16;

/// What the local phase has to say: whether participants are missing, and whether any is left.
fn local_status(operation: &Operation, registry: &Registry) -> Status {
    let has_survivor = operation.contributed.iter().any(|proc| !registry.is_gone(proc));
    match (operation.departed.is_empty(), has_survivor) {
        (true, _) => Status::SUCCESS,
        (false, true) => Status::ERR_PARTIAL_SUCCESS,
        (false, false) => Status::ERR_LOST_CONNECTION,
    }
}
