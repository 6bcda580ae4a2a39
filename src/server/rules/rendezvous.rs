//! The common part of all operations of many processes: arrival, end of the local phase, the host's answer, release.

use std::collections::BTreeSet;

use crate::gds::Datastore;
use crate::keys;
use crate::proto;
use crate::server::interface::{
    Connect, FenceUpcall, Garbage, GroupRequest, HostReply, Output, PeerId, Upcall, find, flag, requires_more_than,
    settled, timeout,
};
use crate::server::state::{
    Collective, CollectiveKind, CollectivePhase, Concerned, FenceRequest, Gathered, GroupProgress, HostAnswer,
    LOOKS_PER_STEP, NEXT_STEP_IN, OperationId, OperationStage, Pool, Purpose, Remote, ServerCore, Signature, Ticket,
    Timer, brings_about, size_of_infos, size_of_procs,
};
use crate::types::{Info, InfoFlags, Namespace, ProcId, Rank, Status, Time};

impl<S: Datastore> ServerCore<S> {
    /// A participant arrives at an operation.
    pub(in crate::server) fn arrive(
        &mut self,
        now: Time,
        ticket: Ticket,
        proc: ProcId,
        kind: CollectiveKind,
        request: proto::Collective,
    ) {
        if let Some(id) = self.find_and_enter(now, ticket, proc, kind, request) {
            self.advance_operation(now, id);
        }
    }

    /// A participant enters the operation that it means; a new one is opened if there is none. The caller must then
    /// advance the operation. `None`: the participant is refused.
    pub(super) fn find_and_enter(
        &mut self,
        now: Time,
        ticket: Ticket,
        proc: ProcId,
        kind: CollectiveKind,
        request: proto::Collective,
    ) -> Option<OperationId> {
        let proto::Collective { procs, directives } = request;
        let is_too_long = kind.merges_directives() && directives.len() > MERGED_DIRECTIVES_MAX;
        if is_too_long || self.are_too_many(&procs) {
            return self.turn_away(ticket, Status::ERR_OUT_OF_RESOURCE);
        }
        let procs = self.groups.translate(&self.registry, procs, &proc, self.config.limits.participants_max);
        let is_somebody = |entry: &ProcId| !matches!(entry.rank, Rank::Invalid | Rank::Undefined);
        if procs.is_empty() || !procs.iter().all(is_somebody) {
            return self.turn_away(ticket, Status::ERR_BAD_PARAM);
        }
        // An operation that waits for a job when it ends gets the same status.
        if !kind.outlives_jobs() && self.registry.ended_among(&procs).is_some() {
            return self.turn_away(ticket, Status::ERR_NOT_FOUND);
        }
        let (open, signature) = self.collectives.meant(&self.registry, (kind, procs), ticket.peer(), &proc);
        if !signature.covers(&proc) {
            return self.turn_away(ticket, Status::ERR_NOT_A_MEMBER);
        }
        let peer = ticket.peer();
        let has_room = match open {
            Some(_) if signature.kind.merges_directives() => self.has_room_in_operations(peer, &[], &directives),
            Some(_) => true,
            None => self.may_open(peer, &proc, &signature.procs, &directives),
        };
        if !has_room {
            return self.turn_away(ticket, Status::ERR_OUT_OF_RESOURCE);
        }
        let user = self.peers.user_of(peer);
        let id = open.unwrap_or_else(|| self.collectives.open(now, signature, directives.clone(), user));
        self.enter(now, id, ticket, proc, directives);
        Some(id)
    }

    /// Whether this list of participants, as written, is too long or names too many jobs.
    pub(super) fn are_too_many<'p>(&self, procs: impl IntoIterator<Item = &'p ProcId>) -> bool {
        let limits = &self.config.limits;
        let (mut known, mut last) = (BTreeSet::new(), None);
        procs.into_iter().enumerate().any(|(place, proc)| {
            // Neighbours are mostly of one job.
            if last != Some(&proc.namespace) {
                known.insert(&proc.namespace);
                last = Some(&proc.namespace);
            }
            place >= limits.participants_max || known.len() > limits.participant_jobs_max
        })
    }

    /// Whether a process may open another operation.
    pub(super) fn may_open(&self, peer: PeerId, proc: &ProcId, procs: &[ProcId], directives: &[Info]) -> bool {
        let Some(uid) = self.peers.user_of(peer) else { return false };
        let limits = &self.config.limits;
        let pool = Pool { max: limits.collectives_max, used: self.collectives.len() };
        self.collectives.count_of_process(proc) < limits.collectives_per_process_max
            && self.has_share(uid, pool, 1, || self.collectives.count_of_user(uid))
            && self.has_room_in_operations(peer, procs, directives)
    }

    /// Whether the additional participants and directives of a connection fit the bound.
    fn has_room_in_operations(&self, peer: PeerId, procs: &[ProcId], directives: &[Info]) -> bool {
        let Some(uid) = self.peers.user_of(peer) else { return false };
        let size_bytes = size_of_procs(procs).saturating_add(size_of_infos(directives));
        let used = self.collectives.size_bytes().saturating_add(self.bootstraps.size_bytes());
        let pool = Pool { max: self.config.limits.collective_bytes_max, used };
        self.has_share(uid, pool, size_bytes, || {
            self.collectives.size_bytes_of_user(uid).saturating_add(self.bootstraps.size_bytes_of_user(uid))
        })
    }

    fn turn_away(&mut self, ticket: Ticket, status: Status) -> Option<OperationId> {
        self.outputs.reply_status(ticket, status);
        None
    }

    /// A participant enters an operation that it can join.
    pub(in crate::server) fn enter(
        &mut self,
        now: Time,
        id: OperationId,
        ticket: Ticket,
        proc: ProcId,
        directives: Vec<Info>,
    ) {
        let leader = flag(&directives, keys::GROUP_LEADER).then(|| proc.clone());
        let with_clones = flag(&directives, keys::ALL_CLONES_PARTICIPATE).then(|| proc.clone());
        let with_values = flag(&directives, keys::COLLECT_GENERATED_JOB_INFO).then(|| proc.clone());
        let requires_values = find(&directives, keys::COLLECT_GENERATED_JOB_INFO)
            .is_some_and(|info| info.flags().contains(InfoFlags::REQUIRED));
        let Some(operation) = self.collectives.arrive(id, proc, ticket) else { return };
        // The standard lists these directives for fences alone.
        if operation.signature().kind == CollectiveKind::Fence {
            with_clones.into_iter().for_each(|rank| operation.await_clones(rank));
            with_values.into_iter().for_each(|rank| operation.generated_mut().wish(rank, requires_values));
        }
        let timeout = timeout(&directives);
        if operation.signature().kind.merges_directives() {
            operation.group_mut().into_iter().zip(leader).for_each(|(group, leader)| group.add_leader(leader));
            self.collectives.merge_directives(id, directives);
        }
        // The first timeout in a contribution bounds the operation for all participants.
        if let Some(timeout) = timeout {
            self.bound(id, now + timeout);
        }
    }

    /// Bounds the local phase of an operation that has no bound yet.
    pub(super) fn bound(&mut self, id: OperationId, deadline: Time) {
        if self.collectives.get_mut(id).is_some_and(|operation| operation.bound(deadline)) {
            self.timers.arm(Some(deadline), Timer::Operation(id));
        }
    }

    /// Passes up a process that does not know the other members of its group. The host brings these requests together.
    pub(super) fn bootstrap(
        &mut self,
        now: Time,
        ticket: Ticket,
        proc: ProcId,
        kind: CollectiveKind,
        request: proto::Collective,
    ) {
        let proto::Collective { procs, directives } = request;
        let is_too_long = directives.len() > MERGED_DIRECTIVES_MAX || self.are_too_many(&procs);
        let peer = ticket.peer();
        if is_too_long || !self.may_open(peer, &proc, &procs, &directives) {
            return self.outputs.reply_status(ticket, Status::ERR_OUT_OF_RESOURCE);
        }
        let user = self.peers.user_of(peer);
        let id = self.collectives.open(now, Signature::new(kind, vec![proc.clone()]), directives, user);
        if let Some(group) = self.collectives.arrive(id, proc, ticket).and_then(Collective::group_mut) {
            group.write(procs);
        }
        self.hand_over(now, id, Status::SUCCESS);
    }

    /// Handles the timeout of an operation.
    pub(in crate::server) fn expire_operation(&mut self, now: Time, id: OperationId) {
        if self.collectives.is_ended_by_time(id) {
            self.finish_operation(now, id, Status::ERR_TIMEOUT);
        }
    }

    /// Advances the operations that name a namespace, because its processes have changed. If they are too many for one
    /// turn, or name too many processes, later turns advance the rest.
    pub(super) fn advance_with(&mut self, now: Time, namespace: &Namespace) {
        self.collectives.note_change(namespace);
        if self.collectives.advances.next_step().is_none() {
            let left = self.pace.left(now);
            let looks = self.advance_up_to(now, left, false);
            self.pace.spend(looks);
            self.set_next_advances(now);
        }
    }

    /// Advances some of the operations that are to be advanced, and at least one.
    pub(in crate::server) fn advance_some(&mut self, now: Time) {
        self.collectives.advances.set_next_step(None);
        self.advance_up_to(now, LOOKS_PER_STEP, true);
        // Other jobs do not wait until all operations of one are advanced.
        self.collectives.advances.rotate();
        self.set_next_advances(now);
    }

    /// Advances operations up to a number of looks at their processes. Returns the number.
    fn advance_up_to(&mut self, now: Time, looks_max: usize, at_least_one: bool) -> usize {
        let mut looks: usize = 0;
        while let Some(id) = self.collectives.next_due() {
            let left = looks_max.saturating_sub(looks);
            let more = self.looks_to_advance(id, left);
            if more > left && !(at_least_one && looks == 0) {
                break;
            }
            self.collectives.advances.advance(id);
            let before = self.outputs.len();
            let elders = self.advance_behind_elders(now, id);
            // An operation that ends, or goes to the host, costs more than a look.
            let outputs = self.outputs.len().saturating_sub(before);
            let more = more.saturating_add(elders).saturating_add(outputs.saturating_mul(LOOKS_FOR_OUTPUT));
            looks = looks.saturating_add(more);
        }
        looks
    }

    /// Number of looks at processes that an operation takes. They are counted only for a list that is short enough.
    pub(super) fn looks_to_advance(&self, id: OperationId, looks_max: usize) -> usize {
        let Some(operation) = self.collectives.get(id) else { return 1 };
        let signature = operation.signature();
        if operation.phase() != CollectivePhase::Gathering || self.end_notices.holds_up(id, signature) {
            return LOOKS_AT_OPERATION;
        }
        match signature.procs.len() {
            long if long > looks_max => long,
            _ => signature.work(&self.registry).saturating_add(LOOKS_AT_OPERATION),
        }
    }

    fn set_next_advances(&mut self, now: Time) {
        if !self.collectives.advances.is_empty() {
            self.collectives.advances.set_next_step(Some(now + NEXT_STEP_IN));
            self.timers.arm(self.collectives.advances.next_step(), Timer::Advances);
        }
    }

    /// A connection of a process that has others has ended: fences may have lacked it.
    pub(super) fn go_on_without_clone(&mut self, now: Time, proc: &ProcId) {
        if self.collectives.await_clones_of(proc) {
            self.advance_with(now, &proc.namespace);
        }
    }

    /// An operation gathers no more. A later turn advances those that have waited behind it.
    fn advance_followers(&mut self, now: Time, signature: &Signature) {
        if let Some(namespace) = signature.procs.namespaces().next() {
            self.collectives.note_change(namespace);
            self.set_next_advances(now);
        }
    }

    /// Completes the local phase if all participants that can arrive have arrived.
    pub(super) fn advance_operation(&mut self, now: Time, id: OperationId) {
        self.advance_behind_elders(now, id);
    }

    /// As [`Self::advance_operation`]. Returns the looks at operations that came first.
    fn advance_behind_elders(&mut self, now: Time, id: OperationId) -> usize {
        // Operations of one signature go to the host in their order.
        let mut looks: usize = 0;
        for elder in self.collectives.due_elders(id, &self.registry) {
            looks = looks.saturating_add(self.looks_to_advance(elder, usize::MAX));
            self.advance_one(now, elder);
        }
        self.advance_one(now, id);
        looks
    }

    fn advance_one(&mut self, now: Time, id: OperationId) {
        let table = self.collectives.table;
        let Some(operation) = self.collectives.get_mut(id) else { return };
        if operation.phase() != CollectivePhase::Gathering || self.end_notices.holds_up(id, operation.signature()) {
            return;
        }
        let is_complete = operation.is_locally_complete(&self.registry, table);
        if operation.is_ahead() {
            return self.advance_ahead(now, id, is_complete);
        }
        let has_host = self.config.capabilities.contains(operation.signature().kind.capability());
        let needs_host = operation.needs_host(self.config.capabilities);
        if needs_host && !has_host {
            // Later arrivals can't change that.
            return self.finish_operation(now, id, Status::ERR_NOT_SUPPORTED);
        }
        // Processes of this node have all that this server generates.
        if needs_host {
            self.generate_values(id);
        }
        if !is_complete {
            return self.ask_ahead(now, id);
        }
        let Some(operation) = self.collectives.get(id) else { return };
        let awaits = operation.awaits_decisions() || operation.generated().are_awaited();
        if awaits || self.collectives.follows_gathering(id) {
            return;
        }
        if let Some(status) = operation.generated().refusal() {
            return self.give_up(now, id, status);
        }
        let status = operation.local_status(&self.registry);
        let understood = operation.signature().kind.understood();
        let is_met = !requires_more_than(operation.directives(), understood);
        if let Some(failure) = self.intolerable(id, status) {
            return self.give_up(now, id, failure);
        }
        if !needs_host {
            if self.collectives.get(id).is_some_and(|op| self.parts_strangers(op)) {
                return self.finish_operation(now, id, Status::ERR_INVALID_OPERATION);
            }
            let is_met = is_met && self.can_number(id);
            let status = self.tolerated(id, status);
            return self.finish_operation(now, id, if is_met { status } else { Status::ERR_NOT_SUPPORTED });
        }
        // The remaining members can end a group that survives deaths, on one node or on many.
        let is_end = self.collectives.get(id).is_some_and(Collective::ends_group);
        self.hand_over(now, id, if is_end { self.tolerated(id, status) } else { status });
    }

    /// An operation has failed here. Its remote participants learn this from the host.
    pub(super) fn give_up(&mut self, now: Time, id: OperationId, failure: Status) {
        let Some(operation) = self.collectives.get_mut(id) else { return };
        let has_host = self.config.capabilities.contains(operation.signature().kind.capability());
        if !has_host || operation.remote() == Remote::None {
            return self.finish_operation(now, id, failure);
        }
        operation.fail(failure);
        self.hand_over(now, id, failure);
    }

    /// Hands the local contribution to the host. Afterwards losses have no effect, and no process can join.
    pub(super) fn hand_over(&mut self, now: Time, id: OperationId, status: Status) {
        let Some(operation) = self.collectives.get(id) else { return };
        let procs = operation.procs_for_host();
        let mut directives = operation.directives_for_host(status);
        directives.extend(self.endpoints_for_host(id));
        let mut fence = FenceRequest::default();
        let upcall = match operation.signature().kind.clone() {
            CollectiveKind::Fence => match self.contribution(id) {
                Ok((data, collected)) => {
                    fence = FenceRequest { collected, sizes: self.sizes_of(&procs) };
                    Upcall::Fence(FenceUpcall { procs, directives, data, namespaces: fence.sizes.clone() })
                }
                Err(status) => return self.finish_operation(now, id, status),
            },
            CollectiveKind::Connect => Upcall::Connect(Connect { procs, directives }),
            CollectiveKind::Disconnect => Upcall::Disconnect(Connect { procs, directives }),
            CollectiveKind::Group(operation, id) => Upcall::Group(GroupRequest { operation, id, procs, directives }),
        };
        let Some(operation) = self.collectives.get_mut(id) else { return };
        let deadline = operation.take_deadline();
        let until = operation.group_mut().and_then(GroupProgress::end_wait);
        self.timers.disarm(deadline, Timer::Operation(id));
        self.timers.disarm(until, Timer::Verdicts(id));
        let upcall = self.ask_host(now, Purpose::Operation(id), upcall);
        self.collectives.hand_to_host(id, upcall, fence);
        self.ask_for_parts(now, id);
        if let Some(operation) = self.collectives.get(id).filter(|operation| operation.holds_up_younger()) {
            self.advance_followers(now, &operation.signature().clone());
        }
    }

    /// Handles the host's answer.
    pub(in crate::server) fn complete_operation(&mut self, now: Time, id: OperationId, reply: HostReply) {
        let Some(operation) = self.collectives.get(id) else { return };
        let signature = operation.signature().clone();
        let nothing = || Gathered::Blocks(Vec::new());
        let answer = match (&signature.kind, reply) {
            (CollectiveKind::Fence, HostReply::Fence { status, blocks }) => {
                HostAnswer { status: settled(status), gathered: Gathered::Blocks(blocks), info: Vec::new() }
            }
            (CollectiveKind::Fence, HostReply::PackedFence { status, packed }) => {
                HostAnswer { status: settled(status), gathered: Gathered::Packed(packed), info: Vec::new() }
            }
            (CollectiveKind::Group(..), HostReply::Infos { status, info }) => {
                HostAnswer { status: settled(status), gathered: nothing(), info }
            }
            (_, other) => HostAnswer { status: other.status(), gathered: nothing(), info: Vec::new() },
        };
        let mut answer = match self.collectives.get(id).and_then(Collective::failure) {
            Some(status) => HostAnswer { status, gathered: nothing(), info: Vec::new() },
            None => answer,
        };
        self.take_endpoints(now, &mut answer);
        let others = self.share_answer(id, &answer);
        self.collectives.keep_answer(id, answer);
        for signature in [signature].iter().chain(&others) {
            self.settle_answered(now, signature);
        }
        self.advance_operation(now, id);
    }

    /// Ends an operation: all waiting processes get this status.
    pub(super) fn finish_operation(&mut self, now: Time, id: OperationId, status: Status) {
        self.finish_with(now, id, status, Vec::new());
    }

    pub(super) fn finish_with(&mut self, now: Time, id: OperationId, status: Status, info: Vec<Info>) {
        if let Some(signature) = self.release(now, id, status, info) {
            self.settle_answered(now, &signature);
        }
        // Other fences may have waited for a fetch of this one.
        self.go_on_catching_up(now);
    }

    /// Ends the operations of a signature in order, as far as the host has answered.
    pub(super) fn settle_answered(&mut self, now: Time, signature: &Signature) {
        while let Some((id, answer)) = self.collectives.take_next_answer(signature) {
            let HostAnswer { status, gathered, info } = answer;
            let status = self.collectives.get(id).map_or(status, |operation| operation.in_view_of_losses(status));
            let (status, filled, whole) = self.take_gathered(id, status, &gathered);
            if !self.must_catch_up(now, id, status, &whole, &info) {
                self.release(now, id, status, info);
            }
            // The number of waiting requests is bounded; the number of processes with new data is not.
            self.review(now, filled.into_iter().map(Concerned::Job));
        }
    }

    /// Removes an operation and answers its waiting processes.
    fn release(&mut self, now: Time, id: OperationId, status: Status, info: Vec<Info>) -> Option<Signature> {
        let operation = self.collectives.remove(id)?;
        let signature = &operation.signature();
        tracing::debug!(operation = id.0, kind = %signature.kind, procs = %signature.procs, %status, "operation ended");
        self.timers.disarm(operation.deadline(), Timer::Operation(id));
        let until = operation.group().and_then(GroupProgress::owed_until);
        self.timers.disarm(until, Timer::Verdicts(id));
        self.timers
            .disarm(operation.early_connect().and_then(|early_connect| early_connect.until()), Timer::Registration(id));
        if let OperationStage::AtHost(upcall) = operation.stage() {
            self.cancel_upcall(upcall);
        }
        self.abandon_catch_up(id);
        self.note_missed(&operation, status);
        let ending = self.ending(&operation, status, info);
        if brings_about(status) {
            self.tie(&operation);
        }
        if operation.holds_up_younger() {
            self.advance_followers(now, operation.signature());
        }
        let (signature, tickets) = operation.into_parts();
        for ticket in tickets {
            let reply = self.reply_at_end(&ending, ticket.peer());
            self.outputs.reply(ticket, reply);
        }
        if signature.procs.len() >= LARGE_LIST_MIN {
            self.outputs.push(Output::Discard(Garbage::new(signature.procs.shared())));
        }
        self.review(now, [Concerned::Fence(id)]);
        Some(signature)
    }
}

/// Number of merged directives from one participant: each is looked up among all others.
pub(super) const MERGED_DIRECTIVES_MAX: usize = 256;
/// An output for a participant or the host costs as much as many looks at processes.
const LOOKS_FOR_OUTPUT: usize = 64;
/// A look at an operation that does not go on costs as much as some looks at processes.
const LOOKS_AT_OPERATION: usize = 4;
/// Participants in a list that is freed on another thread. A shorter one is freed faster than handed over.
const LARGE_LIST_MIN: usize = 8192;
