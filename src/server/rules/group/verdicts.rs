//! Decisions about the end of a process while a group with it is formed. The handlers of the others decide whether the
//! group is formed without it or not at all, and which process leads it from then on.
//!
//! The event itself asks for the decisions. Our own clients report the result of their handlers' chain. A complete
//! construction waits for these reports, but only for a bounded time, and not for clients of other libraries, which
//! send none.

use std::time::Duration;

use super::directives::{ABORTED, group_of, name_of};
use crate::events::Event;
use crate::gds::Datastore;
use crate::keys;
use crate::proto;
use crate::server::interface::{GroupOperation, PeerId, find};
use crate::server::state::{
    Collective, CollectiveKind, GroupProgress, OperationId, OperationStage, Remote, ServerCore, Timer,
};
use crate::types::{ProcId, Status, Text, Time, Value};

impl<S: Datastore> ServerCore<S> {
    /// An event asks its receivers for decisions about a construction.
    pub(super) fn await_verdicts(&mut self, now: Time, id: OperationId, event: &Event) {
        let Some(operation) = self.collectives.get(id) else { return };
        // Only our own clients that have arrived: the others decide by not arriving.
        let is_asked = |peer: &PeerId| {
            let peer = self.peers.get(*peer).filter(|peer| peer.maps_segments());
            peer.is_some_and(|peer| operation.contributed().contains(peer.proc()))
        };
        let asked: Vec<PeerId> = self.hearers_of(event).into_iter().filter(is_asked).collect();
        let Some(group) = self.group_progress(id).filter(|_| !asked.is_empty()) else { return };
        let until = now + VERDICT_WAIT_MAX;
        if group.owe(asked, until) {
            self.timers.arm(Some(until), Timer::Verdicts(id));
        }
    }

    /// A client reports its handlers' decision. `None`: the request is no such report.
    pub(super) fn take_verdict(
        &mut self,
        now: Time,
        peer: PeerId,
        proc: &ProcId,
        group: &proto::Group,
    ) -> Option<Status> {
        let verdict = group.directives.iter().find(|info| info.key.as_str() == proto::GROUP_VERDICT)?;
        let Value::Status(verdict) = verdict.value else { return Some(Status::ERR_BAD_PARAM) };
        let verdict = Status::from_raw(verdict);
        let Some(id) = name_of(group) else { return Some(Status::ERR_BAD_PARAM) };
        let Some(operation) = self.construction_of(&id, proc) else {
            let lost = find(&group.directives, keys::EVENT_AFFECTED_PROC).map(|info| &info.value);
            if let (Status::GROUP_LEADER_SELECTED, Some(Value::Proc(lost))) = (verdict, lost) {
                self.succeed_in_invitation(now, lost, &id, proc);
            }
            return Some(Status::SUCCESS);
        };
        self.settle_verdict(operation, peer);
        match verdict {
            Status::GROUP_CONSTRUCT_ABORT => self.give_up(now, operation, ABORTED),
            Status::GROUP_LEADER_SELECTED => self.succeed(now, operation, &id, proc),
            _ => {}
        }
        self.advance_operation(now, operation);
        Some(Status::SUCCESS)
    }

    /// The construction of this name that still gathers and at which a process has arrived.
    fn construction_of(&self, id: &Text, proc: &ProcId) -> Option<OperationId> {
        let kind = CollectiveKind::Group(GroupOperation::Construct, id.clone());
        let is_meant = |operation: &Collective| {
            operation.signature().kind == kind && operation.stage() == OperationStage::Gathering
        };
        self.collectives.of_process(proc).find(|(_, operation)| is_meant(operation)).map(|(id, _)| id)
    }

    /// A connection owes one decision less.
    fn settle_verdict(&mut self, id: OperationId, peer: PeerId) {
        let Some(group) = self.group_progress(id) else { return };
        group.settle(peer);
        self.stop_waiting_if_all_have_spoken(id);
    }

    fn stop_waiting_if_all_have_spoken(&mut self, id: OperationId) {
        let until = self.group_progress(id).and_then(GroupProgress::end_settled_wait);
        self.timers.disarm(until, Timer::Verdicts(id));
    }

    fn group_progress(&mut self, id: OperationId) -> Option<&mut GroupProgress> {
        self.collectives.get_mut(id).and_then(Collective::group_mut)
    }

    /// Missing decisions are not awaited any longer.
    pub(in crate::server) fn expire_verdicts(&mut self, now: Time, id: OperationId) {
        if let Some(group) = self.group_progress(id) {
            group.end_wait();
        }
        self.advance_operation(now, id);
    }

    /// A connection has ended, and will not decide.
    pub(in crate::server::rules) fn go_on_without_verdicts_of(&mut self, now: Time, peer: PeerId, proc: &ProcId) {
        for id in self.collectives.excuse(peer, proc) {
            self.stop_waiting_if_all_have_spoken(id);
            self.advance_operation(now, id);
        }
    }

    /// The first volunteer leads.
    fn succeed(&mut self, now: Time, operation: OperationId, id: &Text, proc: &ProcId) {
        if !self.group_progress(operation).is_some_and(|group| group.volunteer(proc)) {
            return;
        }
        let everybody = self.all_who_form(operation);
        self.tell_of(now, Status::GROUP_LEADER_SELECTED, proc, id, everybody, &[]);
    }

    /// As [`ServerCore::succeed`], for an invitation whose leader has ended.
    fn succeed_in_invitation(&mut self, now: Time, lost: &ProcId, id: &Text, proc: &ProcId) {
        if let Some(candidates) = self.vacancies.fill(now, lost, id, proc) {
            self.tell_of(now, Status::GROUP_LEADER_SELECTED, proc, id, candidates, &[]);
        }
    }

    /// A remote process that forms a group with local ones has ended. The local ones are asked, as its server asks its
    /// own.
    pub(super) fn ask_about_remote_end(&mut self, now: Time, id: &Text, event: &Event, lost: &ProcId) {
        if self.registry.client(lost).is_some() {
            return;
        }
        let was_leader = event.status == Status::GROUP_LEADER_FAILED;
        for operation in self.constructions_with(id, lost) {
            if let Some(group) = self.group_progress(operation).filter(|_| was_leader) {
                group.lose_leader(lost);
            }
            self.await_verdicts(now, operation, event);
        }
    }

    /// The remote leader of an invitation has ended: a local process may take its role.
    pub(super) fn note_vacancy(&mut self, now: Time, leader: &ProcId, id: &Text) {
        if let Some((candidates, successor)) = self.invitations.lose_leader(leader, id) {
            self.open_vacancy(now, leader, id, candidates, successor);
        }
    }

    /// A leader's role is vacant, or has an announced successor, which may have invited already.
    pub(super) fn open_vacancy(
        &mut self,
        now: Time,
        leader: &ProcId,
        id: &Text,
        candidates: Vec<ProcId>,
        successor: Option<ProcId>,
    ) {
        let has_invited = successor.as_ref().is_some_and(|successor| self.invitations.is_open(successor, id));
        let vacancies_max = self.config.limits.groups_per_process_max;
        self.vacancies.open(now, (leader, id), candidates, (successor, has_invited), vacancies_max);
    }

    /// A process has become leader. This may be known here before the end of its predecessor.
    pub(super) fn note_leader(&mut self, now: Time, id: &Text, proc: &ProcId) {
        self.vacancies.note(now, id, proc);
        if self.invitations.is_open(proc, id) {
            self.vacancies.keep(id, proc);
        }
        self.invitations.note_announced_leader(id, proc);
        for operation in self.constructions_with(id, proc) {
            if let Some(group) = self.group_progress(operation) {
                group.note_leader(proc);
            }
        }
    }

    /// Whether an event announces a leader while a lower one already leads. On several nodes processes may volunteer at
    /// once. The lowest of them leads, and its announcement is the last one delivered.
    pub(in crate::server::rules) fn is_outdone(&self, now: Time, event: &Event) -> bool {
        if event.status != Status::GROUP_LEADER_SELECTED {
            return false;
        }
        let Some(proc) = &event.source else { return false };
        let Some(id) = group_of(event) else { return false };
        let leads = |id: OperationId| self.collectives.get(id)?.group()?.new_leader();
        let mut successors = self.constructions_with(&id, proc).into_iter().filter_map(leads);
        successors.any(|successor| successor < proc)
            || self.vacancies.is_outdone(now, &id, proc)
            || self.invitations.is_outdone(&id, proc)
    }

    /// The constructions of this name that still gather and wait for this process.
    fn constructions_with(&self, id: &Text, proc: &ProcId) -> Vec<OperationId> {
        let kind = CollectiveKind::Group(GroupOperation::Construct, id.clone());
        let gathers = |operation: &Collective| {
            operation.stage() == OperationStage::Gathering && operation.signature().kind == kind
        };
        let about = self.collectives.about(id, proc).into_iter();
        about.filter(|id| self.collectives.get(*id).is_some_and(gathers)).collect()
    }

    /// The local processes that have arrived at a construction, and its remote members.
    pub(super) fn all_who_form(&self, id: OperationId) -> Vec<ProcId> {
        let Some(operation) = self.collectives.get(id) else { return Vec::new() };
        if operation.remote() == Remote::None {
            return operation.contributed().iter().cloned().collect();
        }
        let members = self.members_of(operation);
        let elsewhere = members.iter().filter(|proc| self.registry.client(proc).is_none());
        operation.contributed().iter().chain(elsewhere).cloned().collect()
    }
}

/// How long a construction waits for handlers to decide.
const VERDICT_WAIT_MAX: Duration = Duration::from_secs(10);
