//! The invariants between two inputs.

use std::collections::BTreeSet;

use crate::gds::Datastore;
use crate::server::rules::get::GetVerdict;
use crate::server::state::{
    Asker, Collective, GroupProgress, OperationId, OperationStage, Presence, Purpose, ServerCore, Timer,
};
use crate::types::Time;

impl<S: Datastore> ServerCore<S> {
    /// Checks the invariants between two inputs; linear in the size of the state. For tests and simulations.
    ///
    /// # Panics
    /// If an invariant of this module is broken; that is a bug in this module.
    pub fn assert_consistent(&self) {
        self.assert_tickets_are_held();
        self.assert_waits_are_needed();
        self.assert_operations_lack_somebody();
        self.assert_timers_belong();
        self.assert_connections_agree();
        self.assert_ties_are_of_the_living();
        self.forwarding.assert_consistent();
        self.collectives.assert_consistent();
        self.groups.assert_consistent();
    }

    fn assert_tickets_are_held(&self) {
        let waiting = self.held_gets.iter().filter_map(|(_, held_get)| match &held_get.asker {
            Asker::Peer(ticket) => Some(ticket.peer()),
            Asker::Host(_) | Asker::Own(_) => None,
        });
        let gathering = self.collectives.iter().flat_map(|(_, operation)| operation.waiting_peers());
        let upcalls = self.upcalls.iter().filter_map(|(_, upcall)| match &upcall.purpose {
            Purpose::ClientFinalized(ticket)
            | Purpose::Abort(ticket, _)
            | Purpose::Passed(ticket, _)
            | Purpose::Notify(ticket, _) => Some(ticket.peer()),
            Purpose::ClientConnected(_)
            | Purpose::ToolConnected(_)
            | Purpose::Operation(_)
            | Purpose::MissedFence(..)
            | Purpose::DirectModex(_)
            | Purpose::OrphanedEvent(_)
            | Purpose::RegisterEvents => None,
        });
        let mut held = 0usize;
        let gathering = gathering.chain(self.bootstraps.waiting_peers());
        let gathering = gathering.chain(self.deferred.waiting_peers()).chain(self.slices.waiting_peers());
        for peer in waiting.chain(gathering).chain(upcalls).chain(self.events.waiting_peers()) {
            assert!(self.peers.get(peer).is_some(), "{peer:?} has ended but a request of it is held");
            held = held.saturating_add(1);
        }
        assert_eq!(held, self.outputs.open_requests(), "every accepted request is held in one place");
        let host_requests = self.held_gets.host_requests().saturating_add(self.events.host_requests());
        let host_requests = host_requests.saturating_add(self.deferred.host_requests());
        assert_eq!(host_requests, self.outputs.open_calls(), "every call of the host is held");
    }

    fn assert_waits_are_needed(&self) {
        assert_eq!(
            !self.held_gets.reviews.is_empty(),
            self.held_gets.reviews.next_step().is_some(),
            "reviews that are due have a step"
        );
        for (id, held_get) in self.held_gets.iter().filter(|(id, _)| !self.held_gets.is_due(*id)) {
            let verdict = self.judge(&held_get.asker, &held_get.requested);
            match held_get.via {
                None if let Some(fence) = held_get.fence => {
                    assert!(self.collectives.get(fence).is_some(), "{id:?} waits for no fence");
                    assert_ne!(verdict, GetVerdict::Found, "{id:?} could be answered");
                }
                None => assert_eq!(verdict, GetVerdict::Hold, "{id:?} waits for {:?} in vain", held_get.requested),
                Some(upcall) => {
                    let is_fetching = self.upcalls.get(upcall).map(|upcall| &upcall.purpose);
                    let is_fetching = matches!(is_fetching, Some(Purpose::DirectModex(_) | Purpose::MissedFence(..)));
                    assert!(is_fetching, "{id:?} waits for no upcall");
                    assert!(matches!(verdict, GetVerdict::Hold | GetVerdict::Fetch(_)), "{id:?} could be answered");
                }
            }
        }
    }

    fn assert_operations_lack_somebody(&self) {
        let advances = &self.collectives.advances;
        assert!(
            advances.next_step().is_some() || advances.is_empty(),
            "operations that are to be advanced have a step"
        );
        assert!(
            self.end_notices.due().is_some() || self.end_notices.len() == 0,
            "ends that others do not know have a step"
        );
        let mut gathering = BTreeSet::new();
        for (id, operation) in self.collectives.iter().filter(|(id, _)| !self.collectives.is_due(*id)) {
            let has_elder = gathering.contains(operation.signature());
            assert!(
                operation.stage() == OperationStage::Gathering || !has_elder,
                "{id:?} waits for one that still gathers"
            );
            assert!(
                !operation.is_ahead() || self.lacks_somebody(id, operation),
                "{id:?} is complete but still gathers"
            );
            match operation.stage() {
                OperationStage::Gathering => {
                    assert!(self.lacks_somebody(id, operation), "{id:?} is complete but still gathers");
                    gathering.insert(operation.signature());
                }
                OperationStage::Answered => {
                    let waits = operation.is_ahead() || !self.collectives.is_oldest(id);
                    assert!(waits, "{id:?} is answered and waits for no process");
                }
                OperationStage::CatchingUp => {
                    assert!(self.collectives.is_oldest(id), "{id:?} is before its turn");
                    let asked = self.upcalls.catching_up(id);
                    assert_eq!(self.missed_fences.open(id), Some(asked.len()), "{id:?} waits for no upcall");
                    let is_busy =
                        |proc: &_| self.config.one_fetch_per_process && self.upcalls.fetching_of(proc).is_some();
                    assert!(!self.missed_fences.is_stuck(id, is_busy), "{id:?} waits for nothing at all");
                }
                OperationStage::AtHost(upcall) => {
                    let purpose = self.upcalls.get(upcall).map(|upcall| &upcall.purpose);
                    assert!(matches!(purpose, Some(Purpose::Operation(of)) if *of == id), "{id:?} waits for no upcall");
                }
            }
        }
    }

    fn lacks_somebody(&self, id: OperationId, operation: &Collective) -> bool {
        if self.end_notices.holds_up(id, operation.signature()) || !operation.lacking_clones(&self.registry).is_empty()
        {
            return true;
        }
        if self.collectives.follows_gathering(id) || operation.generated().are_awaited() {
            return true;
        }
        if let Some(group) = operation.group().filter(|_| operation.awaits_decisions()) {
            return group.owing().all(|peer| self.peers.get(peer).is_some());
        }
        let Some(members) = operation.signature().membership(&self.registry) else { return true };
        let has_come = |proc| operation.contributed().contains(proc) || operation.departed().contains(proc);
        !members.local.iter().all(|proc| has_come(proc) || self.registry.is_gone(proc))
    }

    fn assert_timers_belong(&self) {
        for (deadline, timer) in self.timers.iter() {
            let owned = match timer {
                Timer::HeldGet(id) => self.held_gets.get(id).and_then(|held_get| held_get.deadline),
                Timer::Operation(id) => self.collectives.get(id).and_then(Collective::deadline),
                Timer::Upcall(id) => self.upcalls.get(id).and_then(|upcall| upcall.deadline),
                Timer::Registration(id) => self
                    .collectives
                    .get(id)
                    .and_then(Collective::early_connect)
                    .and_then(|early_connect| early_connect.until()),
                Timer::Verdicts(id) => self.collectives.get(id).and_then(decided_until),
                Timer::Bootstrap(id) => self.bootstraps.deadline(id),
                Timer::Watch(id) => self.watches.due(id),
                Timer::Output(pull) => self.forwarding.pull(pull).and_then(|pull| pull.collected.deadline),
                Timer::Losses => self.loss_window.due(),
                Timer::EndNotices => self.end_notices.due(),
                Timer::Reviews => self.held_gets.reviews.next_step(),
                Timer::Advances => self.collectives.advances.next_step(),
                Timer::FanOut => self.fan_out_due,
                Timer::Generated => self.deferred.next_step(),
            };
            assert_eq!(owned, Some(deadline), "{timer:?} belongs to nothing");
        }
        let waits = self.held_gets.iter().filter(|(_, held_get)| held_get.deadline.is_some()).count();
        let operations = self.collectives.iter().filter(|(_, operation)| operation.deadline().is_some()).count();
        let upcalls = self.upcalls.iter().filter(|(_, upcall)| upcall.deadline.is_some()).count();
        let verdicts = self.collectives.iter().filter(|(_, operation)| decided_until(operation).is_some()).count();
        let is_bounded = |operation: &Collective| {
            operation.early_connect().is_some_and(|early_connect| early_connect.until().is_some())
        };
        let registrations = self.collectives.iter().filter(|(_, operation)| is_bounded(operation)).count();
        let deadlines = [operations, upcalls, verdicts, registrations, self.bootstraps.len(), self.watches.len()]
            .into_iter()
            .fold(waits, usize::saturating_add);
        let reviews = self.held_gets.reviews.next_step();
        let advances = self.collectives.advances.next_step();
        let lost = self.loss_window.due();
        let steps = [lost, self.end_notices.due(), reviews, advances, self.fan_out_due, self.deferred.next_step()];
        let deliveries = self.forwarding.granted().filter(|pull| pull.collected.deadline.is_some()).count();
        let deadlines = deadlines.saturating_add(steps.iter().flatten().count()).saturating_add(deliveries);
        assert_eq!(self.timers.iter().count(), deadlines, "every deadline is armed");
    }

    fn assert_connections_agree(&self) {
        for (id, peer) in self.peers.iter() {
            let client = self.registry.client(peer.proc());
            let is_connected = client.is_some_and(|client| client.connections().contains(&id));
            assert_eq!(is_connected, peer.is_admitted(), "{id:?} of {}", peer.proc());
        }
        for (namespace, job) in self.registry.jobs() {
            for (rank, client) in job.clients() {
                let is_connected = client.presence() == Presence::Connected;
                assert_eq!(is_connected, !client.connections().is_empty(), "{namespace}:{rank} is {client:?}");
            }
        }
    }
}

/// The end of the wait for decisions about ended members.
fn decided_until(operation: &Collective) -> Option<Time> {
    operation.group().and_then(GroupProgress::owed_until)
}
