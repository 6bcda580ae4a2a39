//! What those who form a group say to the end of another: their handlers decide whether it is formed of the others or not at
//! all, and who leads it from then on.
//!
//! They are asked by the event itself. Our own clients tell how their handlers' chain has ended; a construction that is
//! complete waits for them, but not for long, and not for clients of other libraries, which say nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{ABORTED, name_of};
use crate::events::Event;
use crate::gds::Publish;
use crate::keys;
use crate::proto;
use crate::server::collective::{Kind, OperationId, Stage};
use crate::server::core::Server;
use crate::server::directives::find;
use crate::server::io::{PeerId, StoreOffer};
use crate::server::requests::GroupOperation;
use crate::server::timers::Timer;
use crate::types::{Namespace, ProcId, Status, Text, Time, Value};

/// Invitations whose leader has ended: who could take its place.
#[derive(Debug, Default)]
pub(in crate::server) struct Vacancies(BTreeMap<(ProcId, Text), Vec<ProcId>>);

impl Vacancies {
    pub(super) fn open(&mut self, leader: ProcId, id: Text, candidates: Vec<ProcId>, vacancies_max: usize) {
        if self.0.len() < vacancies_max {
            self.0.insert((leader, id), candidates);
        }
    }

    /// The first who volunteers; gives all who must know.
    fn fill(&mut self, leader: &ProcId, id: &Text, volunteer: &ProcId) -> Option<Vec<ProcId>> {
        let vacancy = (leader.clone(), id.clone());
        let is_candidate = self.0.get(&vacancy)?.contains(volunteer);
        if is_candidate { self.0.remove(&vacancy) } else { None }
    }

    pub(in crate::server) fn forget_namespace(&mut self, namespace: &Namespace) {
        self.0.retain(|(leader, _), candidates| {
            leader.namespace != *namespace && candidates.iter().all(|proc| proc.namespace != *namespace)
        });
    }

    pub(in crate::server) fn len(&self) -> usize {
        self.0.len()
    }
}

impl<S: Publish> Server<S> {
    /// An event asks whoever is told of it what to do about a construction.
    pub(super) fn await_verdicts(&mut self, now: Time, id: OperationId, event: &Event) {
        let is_own = |peer: &PeerId| self.peers.get(*peer).is_some_and(|peer| peer.store == StoreOffer::Segment);
        let asked: Vec<PeerId> = self.hearers_of(event).into_iter().filter(is_own).collect();
        let Some(operation) = self.collectives.get_mut(id).filter(|_| !asked.is_empty()) else { return };
        for peer in asked {
            let owed = operation.verdicts.entry(peer).or_default();
            *owed = owed.saturating_add(1);
        }
        if operation.verdicts_until.is_none() {
            operation.verdicts_until = Some(now + VERDICT_WAIT_MAX);
            self.timers.arm(operation.verdicts_until, Timer::Verdicts(id));
        }
    }

    /// A client says how its handlers have decided. `None`: it says nothing of the kind.
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

    /// The construction of this name that still gathers and that a process has come to.
    fn construction_of(&self, id: &Text, proc: &ProcId) -> Option<OperationId> {
        let kind = Kind::Group(GroupOperation::Construct, id.clone());
        let mut operations = self.collectives.iter().filter(|(_, operation)| {
            operation.signature.kind == kind
                && operation.stage == Stage::Gathering
                && operation.contributed.contains(proc)
        });
        operations.next().map(|(id, _)| id)
    }

    /// A connection owes one verdict less.
    fn settle_verdict(&mut self, id: OperationId, peer: PeerId) {
        let Some(operation) = self.collectives.get_mut(id) else { return };
        let left = operation.verdicts.get(&peer).map_or(0, |owed| owed.saturating_sub(1));
        if left == 0 {
            operation.verdicts.remove(&peer);
        } else {
            operation.verdicts.insert(peer, left);
        }
        self.stop_waiting_if_all_have_spoken(id);
    }

    fn stop_waiting_if_all_have_spoken(&mut self, id: OperationId) {
        if let Some(operation) = self.collectives.get_mut(id).filter(|operation| operation.verdicts.is_empty()) {
            let until = operation.verdicts_until.take();
            self.timers.disarm(until, Timer::Verdicts(id));
        }
    }

    /// Whoever has said nothing until now has nothing to say.
    pub(in crate::server) fn expire_verdicts(&mut self, now: Time, id: OperationId) {
        if let Some(operation) = self.collectives.get_mut(id) {
            operation.verdicts.clear();
            operation.verdicts_until = None;
        }
        self.advance_operation(now, id);
    }

    /// A connection has ended, and says nothing any more.
    pub(in crate::server) fn go_on_without_verdicts_of(&mut self, now: Time, peer: PeerId) {
        let owing = self.collectives.iter().filter(|(_, operation)| operation.verdicts.contains_key(&peer));
        for id in owing.map(|(id, _)| id).collect::<Vec<_>>() {
            if let Some(operation) = self.collectives.get_mut(id) {
                operation.verdicts.remove(&peer);
            }
            self.stop_waiting_if_all_have_spoken(id);
            self.advance_operation(now, id);
        }
    }

    /// The first who volunteers leads.
    fn succeed(&mut self, now: Time, operation: OperationId, id: &Text, proc: &ProcId) {
        let Some(of) = self.collectives.get_mut(operation).filter(|of| of.is_leaderless) else { return };
        of.is_leaderless = false;
        of.leaders.insert(proc.clone());
        let everybody = self.all_who_form(operation);
        self.tell_of(now, Status::GROUP_LEADER_SELECTED, proc, id, everybody, &[]);
    }

    /// As [`Server::succeed`], where the leader of an invitation has ended.
    fn succeed_in_invitation(&mut self, now: Time, lost: &ProcId, id: &Text, proc: &ProcId) {
        if let Some(candidates) = self.vacancies.fill(lost, id, proc) {
            self.tell_of(now, Status::GROUP_LEADER_SELECTED, proc, id, candidates, &[]);
        }
    }

    /// Elsewhere, or by itself, a process has become leader of a construction.
    pub(super) fn note_leader(&mut self, id: &Text, proc: &ProcId) {
        let kind = Kind::Group(GroupOperation::Construct, id.clone());
        for operation in self.collectives.all_mut() {
            let is_meant = operation.signature.kind == kind && operation.signature.covers(proc);
            if is_meant && operation.is_leaderless {
                operation.is_leaderless = false;
                operation.leaders.insert(proc.clone());
            }
        }
    }

    /// Those here who have come to a construction, and its members elsewhere.
    pub(super) fn all_who_form(&self, id: OperationId) -> Vec<ProcId> {
        let Some(operation) = self.collectives.get(id) else { return Vec::new() };
        let elsewhere = self.members_of(operation).into_iter().filter(|proc| self.registry.client(proc).is_none());
        operation.contributed.iter().cloned().chain(elsewhere).collect()
    }
}

/// How long a construction waits for handlers to decide.
const VERDICT_WAIT_MAX: Duration = Duration::from_secs(10);
