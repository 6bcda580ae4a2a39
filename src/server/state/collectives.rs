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
use std::ops::Bound::{Excluded, Included, Unbounded};

use super::index::take_out;
use super::operation::{Collective, FenceRequest, HostAnswer, OperationId, OperationStage};
use super::outputs::Ticket;
use super::passes::Passes;
use super::registry::Registry;
use super::shares::UserShares;
use super::signature::{CollectiveKind, Signature};
use super::transitions::{Effect, Happening, Standing, TransitionTable};
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
    /// The same by arrived process.
    by_proc: BTreeMap<ProcId, BTreeSet<OperationId>>,
    /// The same by named job.
    by_job: BTreeMap<Namespace, BTreeSet<OperationId>>,
    /// Number of operations of each user.
    of_users: UserShares,
    /// Their memory.
    bytes_of_users: UserShares,
    size_bytes: usize,
    last: u64,
    /// Jobs whose processes have changed: their operations are to be advanced, oldest first.
    pub(crate) advances: Passes<Namespace, OperationId>,
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
        let mut meant: Vec<OperationId> = Vec::new();
        for (signature, ids) in self.of_kind(&wanted.kind).filter(|(signature, _)| signature.covers(proc)) {
            let is_meant = |id: &OperationId| {
                signature == wanted
                    || self.has_company(*id, registry, proc, |other| wanted.covers(other)) && self.may_end(*id, wanted)
            };
            meant.extend(ids.iter().copied().filter(is_meant));
        }
        meant.sort_unstable();
        meant
    }

    /// The signatures of a kind, with their operations.
    fn of_kind(&self, kind: &CollectiveKind) -> impl Iterator<Item = (&Signature, &BTreeSet<OperationId>)> {
        let first = Signature::new(kind.clone(), Vec::new());
        self.by_signature.range(first..).take_while(move |(signature, _)| signature.kind == *kind)
    }

    /// The other processes of the same user that wait for the host to bring the same group together, if an operation is
    /// such a wait.
    pub(crate) fn in_same_bootstrap(&self, id: OperationId) -> impl Iterator<Item = (OperationId, &Collective)> {
        let is_bootstrap = |op: &&Collective| op.group().is_some_and(|group| group.written().is_some());
        let asked = self.operations.get(&id).filter(is_bootstrap);
        let of_kind = asked.into_iter().flat_map(|asked| self.of_kind(&asked.signature().kind));
        let ids = of_kind.flat_map(|(_, ids)| ids).copied().filter(move |other| *other != id);
        let others = ids.filter_map(|other| Some((other, self.operations.get(&other)?)));
        others.filter(move |(_, op)| is_bootstrap(op) && asked.is_some_and(|asked| asked.user() == op.user()))
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
        for namespace in signature.procs.namespaces() {
            self.by_job.entry(namespace.clone()).or_default().insert(id);
        }
        let operation = Collective::new(now, signature, directives, user);
        self.size_bytes = self.size_bytes.saturating_add(operation.size_bytes());
        if let Some(uid) = user {
            self.of_users.take(uid, 1);
            self.bytes_of_users.take(uid, operation.size_bytes());
        }
        self.operations.insert(id, operation);
        id
    }

    /// A participant arrives at an operation from [`Collectives::meant`] or [`Collectives::open`]. Only a second ticket
    /// of one connection could be displaced, which `meant` rules out.
    pub(crate) fn arrive(&mut self, id: OperationId, proc: ProcId, ticket: Ticket) -> Option<&mut Collective> {
        let operation = self.operations.get_mut(&id)?;
        self.by_peer.entry(ticket.peer()).or_default().insert(id);
        self.by_proc.entry(proc.clone()).or_default().insert(id);
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

    /// Whether the fence before this one of the same signature still gathers: it, or one before it, lacks clones.
    pub(crate) fn follows_gathering(&self, id: OperationId) -> bool {
        let ids = self.operations.get(&id).and_then(|operation| self.by_signature.get(operation.signature()));
        let elder = ids.and_then(|ids| self.operations.get(ids.range(..id).next_back()?));
        let is_fence = |elder: &&Collective| elder.signature().kind == CollectiveKind::Fence;
        elder.filter(is_fence).is_some_and(|elder| elder.stage() == OperationStage::Gathering)
    }

    /// A clone of a process has connected: operations may await it.
    pub(crate) fn note_clone(&mut self, proc: &ProcId) {
        let ids = self.by_proc.get(proc).into_iter().flatten();
        for id in ids {
            if let Some(operation) = self.operations.get_mut(id) {
                operation.note_clone(proc);
            }
        }
    }

    /// Whether an operation awaits the clones of a process.
    pub(crate) fn await_clones_of(&self, proc: &ProcId) -> bool {
        self.of_process(proc).any(|(_, operation)| operation.awaits_clones_of(proc))
    }

    pub(crate) fn remove(&mut self, id: OperationId) -> Option<Collective> {
        let operation = self.operations.remove(&id)?;
        for peer in operation.waiting_peers() {
            take_out(&mut self.by_peer, &peer, &id);
        }
        for proc in operation.contributed() {
            take_out(&mut self.by_proc, proc, &id);
        }
        for namespace in operation.signature().procs.namespaces() {
            take_out(&mut self.by_job, namespace, &id);
        }
        self.size_bytes = self.size_bytes.saturating_sub(operation.size_bytes());
        if let Some(uid) = operation.user() {
            self.of_users.give_back(uid, 1);
            self.bytes_of_users.give_back(uid, operation.size_bytes());
        }
        take_out(&mut self.by_signature, operation.signature(), &id);
        Some(operation)
    }

    /// Processes of a job have changed: its operations are to be advanced.
    pub(crate) fn note_change(&mut self, namespace: &Namespace) {
        if self.by_job.contains_key(namespace) {
            self.advances.add(namespace.clone());
        }
    }

    /// The next operation that is to be advanced.
    pub(crate) fn next_due(&mut self) -> Option<OperationId> {
        loop {
            let (namespace, after) = self.advances.first()?;
            match self.next_with(namespace, after.copied(), OperationId(u64::MAX)) {
                Some(id) => return Some(id),
                None => self.advances.finish(),
            }
        }
    }

    /// The next operation that names a namespace, behind one and up to another one.
    pub(crate) fn next_with(
        &self,
        namespace: &Namespace,
        after: Option<OperationId>,
        until: OperationId,
    ) -> Option<OperationId> {
        let ids = self.by_job.get(namespace)?;
        let next = ids.range((after.map_or(Unbounded, Excluded), Unbounded)).next().copied();
        next.filter(|id| *id <= until)
    }

    /// The last operation of all that were opened.
    pub(crate) const fn last(&self) -> OperationId {
        OperationId(self.last)
    }

    /// Older operations of the same signature that are to be advanced, oldest first. If one is up to date, so are all
    /// older ones.
    pub(crate) fn due_elders(&self, id: OperationId, registry: &Registry) -> Vec<OperationId> {
        let reached = self.operations.get(&id).and_then(|operation| self.reached(operation.signature()));
        let Some((signature, reached)) = reached else { return Vec::new() };
        let first = reached.map_or(OperationId(0), |OperationId(last)| OperationId(last.saturating_add(1)));
        let Some(ids) = self.by_signature.get(signature).filter(|_| first < id) else { return Vec::new() };
        let may_go_on = |id: &OperationId| self.get(*id).is_some_and(|operation| operation.may_go_on(registry));
        let newest_first = ids.range((Included(first), Excluded(id))).rev().copied();
        let mut elders: Vec<OperationId> = newest_first.take_while(may_go_on).collect();
        elders.reverse();
        elders
    }

    /// The operation of a signature behind which all are to be advanced, or none before any. `None`: none is.
    fn reached<'s>(&self, signature: &'s Signature) -> Option<(&'s Signature, Option<OperationId>)> {
        if self.advances.is_empty() {
            return None;
        }
        let reached = |namespace| self.advances.reached(namespace).map(|reached| reached.copied());
        let first = match self.advances.len() < signature.procs.len() {
            true => self.advances.changes().filter(|namespace| signature.names(namespace)).filter_map(reached).min(),
            false => signature.procs.namespaces().filter_map(reached).min(),
        };
        first.map(|reached| (signature, reached))
    }

    /// Whether an operation is to be advanced in a later step.
    pub(crate) fn is_due(&self, id: OperationId) -> bool {
        let reached = self.operations.get(&id).and_then(|operation| self.reached(operation.signature()));
        reached.is_some_and(|(_, reached)| reached.is_none_or(|reached| reached < id))
    }

    /// Takes back a connection's tickets. Its contributions stay.
    pub(crate) fn withdraw(&mut self, peer: PeerId) -> Vec<Ticket> {
        let ids = self.by_peer.remove(&peer).unwrap_or_default();
        ids.iter().filter_map(|id| self.operations.get_mut(id)?.withdraw(peer)).collect()
    }

    /// A connection of a process has ended, and will not decide. Returns the operations that awaited its decisions,
    /// oldest first.
    pub(crate) fn excuse(&mut self, peer: PeerId, proc: &ProcId) -> Vec<OperationId> {
        let owed = |operation: &mut Collective| operation.group_mut().is_some_and(|group| group.excuse(peer));
        // Only processes that have arrived are asked for decisions.
        let ids = self.by_proc.get(proc).into_iter().flatten().copied();
        ids.filter(|id| self.operations.get_mut(id).is_some_and(owed)).collect()
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

    /// Operations that name a namespace, oldest first.
    pub(crate) fn with(&self, namespace: &Namespace) -> impl DoubleEndedIterator<Item = OperationId> {
        self.by_job.get(namespace).into_iter().flatten().copied()
    }

    /// Operations at which a process has arrived, oldest first.
    pub(crate) fn of_process(&self, proc: &ProcId) -> impl Iterator<Item = (OperationId, &Collective)> {
        let ids = self.by_proc.get(proc).into_iter().flatten();
        ids.filter_map(|id| Some((*id, self.operations.get(id)?)))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (OperationId, &Collective)> {
        self.operations.iter().map(|(id, operation)| (*id, operation))
    }

    pub(crate) fn len(&self) -> usize {
        self.operations.len()
    }

    /// Checks the indices and counts. For tests and simulations.
    pub(crate) fn assert_consistent(&self) {
        let listed = |ids: &BTreeMap<_, BTreeSet<OperationId>>| ids.values().map(BTreeSet::len).sum::<usize>();
        let jobs = |operation: &Collective| operation.signature().procs.namespaces().count();
        let all = || self.operations.values();
        assert_eq!(listed(&self.by_job), all().map(jobs).sum::<usize>(), "operations are listed by job");
        let arrived = all().map(|operation| operation.contributed().len()).sum::<usize>();
        let listed = self.by_proc.values().map(BTreeSet::len).sum::<usize>();
        assert_eq!(listed, arrived, "operations are listed by arrived process");
        let owned = || all().filter(|operation| operation.user().is_some());
        let bytes = owned().map(Collective::size_bytes).fold(0, usize::saturating_add);
        let counted = (self.of_users.sum(), self.bytes_of_users.sum());
        assert_eq!(counted, (owned().count(), bytes), "operations are counted for their users");
    }

    /// Number of operations at which a process has arrived.
    pub(crate) fn count_of_process(&self, proc: &ProcId) -> usize {
        self.by_proc.get(proc).map_or(0, BTreeSet::len)
    }

    pub(crate) fn count_of_user(&self, uid: u32) -> usize {
        self.of_users.of(uid)
    }

    /// Memory of participants and directives, in bytes.
    pub(crate) const fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    pub(crate) fn size_bytes_of_user(&self, uid: u32) -> usize {
        self.bytes_of_users.of(uid)
    }

    /// Adds another participant's directives to the first one's, each info once.
    pub(crate) fn merge_directives(&mut self, id: OperationId, directives: Vec<Info>) {
        let Some(operation) = self.operations.get_mut(&id) else { return };
        let added_bytes = operation.merge_directives(directives);
        self.size_bytes = self.size_bytes.saturating_add(added_bytes);
        if let Some(uid) = operation.user() {
            self.bytes_of_users.take(uid, added_bytes);
        }
    }
}
