//! The operations under way, with the processes that they wait for.

use crate::gds::Datastore;
use crate::server::interface::{GroupOperation, OpenOperation, OperationKind};
use crate::server::state::{Asker, Collective, CollectiveKind, HeldGet, ServerCore};
use crate::types::{ProcId, Time};

impl<S: Datastore> ServerCore<S> {
    /// The operations that wait, oldest first, and at most [`OpenOperation::LISTED_MAX`] of each kind.
    #[must_use]
    pub fn open_operations(&self, now: Time) -> Vec<OpenOperation> {
        // Both tables are in order of arrival, nearly.
        let collectives = self.collectives.iter().take(OpenOperation::LISTED_MAX);
        let gets = self.held_gets.iter().take(OpenOperation::LISTED_MAX);
        let collectives = collectives.map(|(_, operation)| self.describe_collective(now, operation));
        let mut all: Vec<OpenOperation> =
            collectives.chain(gets.map(|(_, held)| self.describe_get(now, held))).collect();
        all.sort_by_key(|operation| std::cmp::Reverse(operation.age));
        all
    }

    fn describe_collective(&self, now: Time, operation: &Collective) -> OpenOperation {
        let signature = operation.signature();
        let kind = match &signature.kind {
            CollectiveKind::Fence => OperationKind::Fence,
            CollectiveKind::Connect => OperationKind::Connect,
            CollectiveKind::Disconnect => OperationKind::Disconnect,
            CollectiveKind::Group(GroupOperation::Construct, name) => OperationKind::GroupConstruct(name.clone()),
            CollectiveKind::Group(GroupOperation::Destruct, name) => OperationKind::GroupDestruct(name.clone()),
        };
        let local = signature.membership(&self.registry).unwrap_or_default().local;
        let has_come = |proc: &ProcId| operation.contributed().contains(proc) || operation.departed().contains(proc);
        OpenOperation {
            kind,
            participants: signature.procs.to_vec(),
            arrived: operation.contributed().len(),
            missing: local.into_iter().filter(|proc| !has_come(proc)).collect(),
            lacking_clones: operation.lacking_clones(&self.registry),
            age: now.since(operation.opened()),
        }
    }

    fn describe_get(&self, now: Time, held: &HeldGet) -> OpenOperation {
        let asker = match &held.asker {
            Asker::Peer(ticket) => self.peers.get(ticket.peer()).map(|peer| peer.proc().clone()),
            Asker::Host(_) | Asker::Own(_) => None,
        };
        OpenOperation {
            kind: OperationKind::Get(held.requested.key.clone()),
            participants: asker.into_iter().collect(),
            arrived: 1,
            missing: if held.via.is_some() { Vec::new() } else { vec![held.requested.proc.clone()] },
            lacking_clones: Vec::new(),
            age: now.since(held.since),
        }
    }
}
