//! Bookkeeping of collective operations: arrived, missing and departed participants.
//!
//! Participants are counted by identity, never by number. An operation is found by its signature: its kind and the set
//! of participants as written. Several operations of one signature may be open. If a connection arrives a second time
//! while the first operation still gathers, it has raced ahead, and opens (or joins) the next one. Another connection
//! of an arrived process is a clone: it waits along and counts once.
//!
//! Operations of one signature end in the order in which they opened, in any order of the host's answers. A later fence
//! carries only the changes after the earlier one.

use std::collections::{BTreeMap, BTreeSet};

use super::index::take_out;
use super::operation::{Collective, FenceRequest, HostAnswer, OperationId, OperationStage};
use super::outputs::Ticket;
use super::registry::Registry;
use super::signature::{CollectiveKind, Signature};
use super::transitions::{CollectivePhase, Effect, Happening, Standing, TransitionTable};
use crate::server::interface::{PeerId, UpcallId};
use crate::types::{Info, Namespace, ProcId, Rank, Text, Time};

/// All open operations.
#[derive(Debug, Default)]
pub(crate) struct Collectives {
    /// The rules of operations.
    pub(crate) table: TransitionTable,
    operations: BTreeMap<OperationId, Collective>,
    /// The same by signature, oldest first.
    by_signature: BTreeMap<Signature, BTreeSet<OperationId>>,
    /// The same by waiting connection.
    by_peer: BTreeMap<PeerId, BTreeSet<OperationId>>,
    size_bytes: usize,
    last: u64,
    /// Operations whose processes have changed, to be advanced in a later step.
    due: BTreeSet<OperationId>,
    /// The time of that step.
    next_step: Option<Time>,
}

impl Collectives {
    /// The oldest operation that a process means and can join, and the signature of its request. Groups are found by
    /// name: members may be written in any way, and the first arrival's form counts. Without an arrived process of the
    /// same user, the request must name an arrived process, or equal the signature.
    pub(crate) fn meant(
        &self,
        registry: &Registry,
        (kind, procs): (CollectiveKind, Vec<ProcId>),
        peer: PeerId,
        proc: &ProcId,
    ) -> (Option<OperationId>, Signature) {
        let wanted = Signature::new(kind, procs);
        let ids = match &wanted.kind {
            CollectiveKind::Group(..) => self.of_group(registry, &wanted, proc),
            _ => self.by_signature.get(&wanted).into_iter().flatten().copied().collect(),
        };
        let mut meant = ids.iter().filter_map(|id| Some((*id, self.operations.get(id)?)));
        if let Some((id, operation)) = meant.find(|(_, operation)| self.is_joinable(operation, peer, proc)) {
            return (Some(id), operation.signature().clone());
        }
        // Otherwise the next one of that set, so that they end in order, unless it names processes outside this
        // request.
        let mut earlier = ids.iter().filter_map(|id| self.operations.get(id)).map(|operation| operation.signature());
        let is_named = |signature: &&Signature| {
            // Equal lists are the usual case. A search for each of 100,000 entries takes 10 ms.
            **signature == wanted || signature.procs.iter().all(|entry| wanted.encloses(registry, entry))
        };
        let signature = earlier.find(is_named).cloned();
        (None, signature.unwrap_or(wanted))
    }

    /// The operations on a group that a process may mean, oldest first.
    fn of_group(&self, registry: &Registry, wanted: &Signature, proc: &ProcId) -> Vec<OperationId> {
        let first = Signature::new(wanted.kind.clone(), Vec::new());
        let same_group = self.by_signature.range(first..).take_while(|(signature, _)| signature.kind == wanted.kind);
        let mut meant: Vec<OperationId> = Vec::new();
        for (signature, ids) in same_group.filter(|(signature, _)| signature.covers(proc)) {
            let is_meant = |id: &OperationId| {
                signature == wanted
                    || self.has_company(*id, registry, proc, |other| wanted.covers(other)) && self.may_end(*id, wanted)
            };
            meant.extend(ids.iter().copied().filter(is_meant));
        }
        meant.sort_unstable();
        meant
    }

    /// Whether an operation, if it ends a group, may be about the group of these members. Members named one by one must
    /// match, because another group may have the same name. Members that have left need not be named.
    fn may_end(&self, id: OperationId, wanted: &Signature) -> bool {
        let Some(operation) = self.operations.get(&id) else { return false };
        let is_one = |entry: &&ProcId| matches!(entry.rank, Rank::Process(_));
        let stays = |entry: &&ProcId| !operation.has_left(entry);
        !operation.ends_group()
            || wanted.procs.iter().filter(is_one).all(|entry| operation.signature().covers(entry))
                && operation.signature().procs.iter().filter(is_one).filter(stays).all(|entry| wanted.covers(entry))
    }

    /// Whether a process has arrived that is of the same user, or that the request names.
    fn has_company(
        &self,
        id: OperationId,
        registry: &Registry,
        proc: &ProcId,
        names: impl Fn(&ProcId) -> bool,
    ) -> bool {
        let user = |proc: &ProcId| registry.client(proc).map(|client| client.credentials().uid);
        let own = user(proc);
        let is_known = |other: &ProcId| own.is_some() && user(other) == own || names(other);
        self.operations.get(&id).is_some_and(|operation| operation.contributed().iter().any(is_known))
    }

    /// The oldest operation with exactly these participants that this connection of a process can join.
    pub(crate) fn of_set(&self, signature: &Signature, peer: PeerId, proc: &ProcId) -> Option<OperationId> {
        self.by_signature.get(signature)?.iter().copied().find(|id| self.takes(*id, peer, proc))
    }

    /// Whether this connection of a process can join an operation.
    pub(crate) fn takes(&self, id: OperationId, peer: PeerId, proc: &ProcId) -> bool {
        let operation = self.operations.get(&id);
        operation.is_some_and(|op| op.signature().covers(proc) && self.is_joinable(op, peer, proc))
    }

    fn is_joinable(&self, operation: &Collective, peer: PeerId, proc: &ProcId) -> bool {
        let happening = if operation.waits(peer) { Happening::Repeat } else { Happening::Arrive };
        let effect = (self.table.0)(operation.phase(), operation.standing(proc, None), happening);
        matches!(effect, Effect::Count | Effect::WaitAlong)
    }

    pub(crate) fn open(
        &mut self,
        now: Time,
        signature: Signature,
        directives: Vec<Info>,
        user: Option<u32>,
    ) -> OperationId {
        self.last = self.last.saturating_add(1);
        let id = OperationId(self.last);
        self.by_signature.entry(signature.clone()).or_default().insert(id);
        let operation = Collective::new(now, signature, directives, user);
        self.size_bytes = self.size_bytes.saturating_add(operation.size_bytes());
        self.operations.insert(id, operation);
        id
    }

    /// A participant arrives at an operation from [`Collectives::meant`] or [`Collectives::open`]. Only a second ticket
    /// of one connection could be displaced, which `meant` rules out.
    pub(crate) fn arrive(&mut self, id: OperationId, proc: ProcId, ticket: Ticket) -> Option<&mut Collective> {
        let operation = self.operations.get_mut(&id)?;
        self.by_peer.entry(ticket.peer()).or_default().insert(id);
        operation.arrive(proc, ticket);
        Some(operation)
    }

    /// Closes the operation to newcomers.
    pub(crate) fn hand_to_host(&mut self, id: OperationId, upcall: UpcallId, fence: FenceRequest) {
        if let Some(operation) = self.operations.get_mut(&id) {
            operation.hand_to_host(upcall, fence);
        }
    }

    /// Stores the host's answer to an operation until its turn comes.
    pub(crate) fn keep_answer(&mut self, id: OperationId, answer: HostAnswer) {
        if let Some(operation) = self.operations.get_mut(&id) {
            operation.keep_answer(answer);
        }
    }

    /// Marks an operation that waits for the values of a missed fence.
    pub(crate) fn catch_up(&mut self, id: OperationId) {
        if let Some(operation) = self.operations.get_mut(&id) {
            operation.catch_up();
        }
    }

    /// The host's answer to the oldest operation of a signature, if there is one.
    pub(crate) fn take_next_answer(&mut self, signature: &Signature) -> Option<(OperationId, HostAnswer)> {
        let oldest = *self.by_signature.get(signature)?.first()?;
        Some((oldest, self.operations.get_mut(&oldest)?.take_answer()?))
    }

    /// Whether no older operation of the same signature is open.
    pub(crate) fn is_oldest(&self, id: OperationId) -> bool {
        let signature = self.operations.get(&id).map(|operation| operation.signature());
        signature.and_then(|signature| self.by_signature.get(signature)?.first()) == Some(&id)
    }

    pub(crate) fn remove(&mut self, id: OperationId) -> Option<Collective> {
        let operation = self.operations.remove(&id)?;
        self.due.remove(&id);
        for peer in operation.waiting_peers() {
            take_out(&mut self.by_peer, &peer, &id);
        }
        self.size_bytes = self.size_bytes.saturating_sub(operation.size_bytes());
        take_out(&mut self.by_signature, operation.signature(), &id);
        Some(operation)
    }

    /// Notes an operation that is to be advanced in a later step.
    pub(crate) fn put_off(&mut self, id: OperationId) {
        self.due.insert(id);
    }

    /// Takes the oldest operation that is to be advanced.
    pub(crate) fn pop_due(&mut self) -> Option<OperationId> {
        self.due.pop_first()
    }

    /// Takes the oldest operation of the same signature, if it is older and is to be advanced.
    pub(crate) fn take_due_elder(&mut self, id: OperationId) -> Option<OperationId> {
        if self.due.is_empty() {
            return None;
        }
        let ids = self.by_signature.get(self.operations.get(&id)?.signature())?;
        let elder = *ids.range(..id).find(|elder| self.due.contains(elder))?;
        self.due.take(&elder)
    }

    /// Whether an operation is to be advanced in a later step.
    pub(crate) fn is_due(&self, id: OperationId) -> bool {
        self.due.contains(&id)
    }

    /// Whether any operation is.
    pub(crate) fn has_due(&self) -> bool {
        !self.due.is_empty()
    }

    pub(crate) const fn next_step(&self) -> Option<Time> {
        self.next_step
    }

    pub(crate) const fn set_next_step(&mut self, next_step: Option<Time>) {
        self.next_step = next_step;
    }

    /// Takes back a connection's tickets. Its contributions stay.
    pub(crate) fn withdraw(&mut self, peer: PeerId) -> Vec<Ticket> {
        let ids = self.by_peer.remove(&peer).unwrap_or_default();
        ids.iter().filter_map(|id| self.operations.get_mut(id)?.withdraw(peer)).collect()
    }

    /// A connection has ended, and will not decide. Returns the operations that awaited its decisions, oldest first.
    pub(crate) fn excuse(&mut self, peer: PeerId) -> Vec<OperationId> {
        let owed = |operation: &mut Collective| operation.group_mut().is_some_and(|group| group.excuse(peer));
        self.operations.iter_mut().filter_map(|(id, operation)| owed(operation).then_some(*id)).collect()
    }

    pub(crate) fn get(&self, id: OperationId) -> Option<&Collective> {
        self.operations.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: OperationId) -> Option<&mut Collective> {
        self.operations.get_mut(&id)
    }

    /// Whether a timeout ends this operation.
    pub(crate) fn is_ended_by_time(&self, id: OperationId) -> bool {
        let phase = self.operations.get(&id).map(Collective::phase);
        phase.is_some_and(|phase| (self.table.0)(phase, Standing::Expected, Happening::TimeOut) == Effect::End)
    }

    /// Whether an operation of this kind, with an arrived process of the same user, gathers and waits for this process.
    pub(crate) fn is_gathering(&self, registry: &Registry, kind: &CollectiveKind, proc: &ProcId) -> bool {
        let is_meant = |op: &Collective| op.signature().kind == *kind && op.signature().covers(proc);
        let mut meant =
            self.operations.iter().filter(|(_, op)| op.stage() == OperationStage::Gathering && is_meant(op));
        meant.any(|(id, _)| self.has_company(*id, registry, proc, |_| false))
    }

    /// The fence at which this connection waits and that may still bring data of a process, of this node or of another.
    pub(crate) fn fence_to_bring(&self, peer: PeerId, proc: &ProcId, is_here: bool) -> Option<OperationId> {
        let covers = if is_here { Signature::covers } else { Signature::covers_elsewhere };
        let awaits = |op: &Collective| covers(op.signature(), proc) && !op.contributed().contains(proc);
        let brings = |id: &&OperationId| self.operations.get(id).is_some_and(|op| op.collects() && awaits(op));
        self.by_peer.get(&peer)?.iter().find(brings).copied()
    }

    /// Operations on this group with this process.
    pub(crate) fn about(&self, id: &Text, proc: &ProcId) -> Vec<OperationId> {
        let is_about = |op: &Collective| {
            matches!(&op.signature().kind, CollectiveKind::Group(_, name) if name == id) && op.signature().covers(proc)
        };
        self.operations.iter().filter(|(_, op)| is_about(op)).map(|(id, _)| *id).collect()
    }

    /// Operations that still gather and name a namespace, oldest first.
    pub(crate) fn gathering_with(&self, namespace: &Namespace) -> Vec<OperationId> {
        let is_concerned =
            |op: &Collective| op.phase() == CollectivePhase::Gathering && op.signature().names(namespace);
        self.operations.iter().filter(|(_, op)| is_concerned(op)).map(|(id, _)| *id).collect()
    }

    /// Operations that name a namespace, oldest first.
    pub(crate) fn with(&self, namespace: &Namespace) -> Vec<OperationId> {
        self.operations.iter().filter(|(_, op)| op.signature().names(namespace)).map(|(id, _)| *id).collect()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (OperationId, &Collective)> {
        self.operations.iter().map(|(id, operation)| (*id, operation))
    }

    pub(crate) fn len(&self) -> usize {
        self.operations.len()
    }

    /// Number of operations at which a process has arrived. The search visits all operations, because they are few.
    pub(crate) fn count_of_process(&self, proc: &ProcId) -> usize {
        self.operations.values().filter(|op| op.contributed().contains(proc)).count()
    }

    pub(crate) fn count_of_user(&self, uid: u32) -> usize {
        self.of_user(uid).count()
    }

    /// Memory of participants and directives, in bytes.
    pub(crate) const fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    pub(crate) fn size_bytes_of_user(&self, uid: u32) -> usize {
        self.of_user(uid).map(Collective::size_bytes).fold(0, usize::saturating_add)
    }

    fn of_user(&self, uid: u32) -> impl Iterator<Item = &Collective> {
        self.operations.values().filter(move |op| op.user() == Some(uid))
    }

    /// Adds another participant's directives to the first one's, each info once.
    pub(crate) fn merge_directives(&mut self, id: OperationId, directives: Vec<Info>) {
        let Some(operation) = self.operations.get_mut(&id) else { return };
        self.size_bytes = self.size_bytes.saturating_add(operation.merge_directives(directives));
    }
}
