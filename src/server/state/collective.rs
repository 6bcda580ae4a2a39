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

use super::outputs::Ticket;
use super::registry::{Membership, Presence, Registry, Remote};
use super::signature::{Kind, Signature};
use super::transitions::{Effect, Happening, Phase, Standing, Table};
use crate::keys;
use crate::server::interface::directives::flag;
use crate::server::interface::host::UpcallId;
use crate::server::interface::io::PeerId;
use crate::server::rules::early_connect::EarlyConnect;
use crate::server::rules::intake::Gathered;
use crate::types::{Info, Namespace, ProcId, Rank, Status, Text, Time, footprint};

/// Whether an operation with this status has reached its purpose, perhaps without some participants.
pub(crate) const fn brings_about(status: Status) -> bool {
    matches!(status, Status::SUCCESS | Status::ERR_PARTIAL_SUCCESS)
}

/// Identifies one open operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OperationId(pub(crate) u64);

/// One open operation.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) signature: Signature,
    pub(crate) stage: Stage,
    /// The directives of the first arrival.
    pub(crate) directives: Vec<Info>,
    pub(crate) contributed: BTreeSet<ProcId>,
    /// Local participants that ended before they arrived.
    pub(crate) departed: BTreeSet<ProcId>,
    /// Processes that have left the operation's group, arrived or not.
    pub(crate) left: BTreeSet<ProcId>,
    /// It ends a group that survives deaths and has no local member any more.
    pub(crate) survives_deaths: bool,
    /// Members in the host's request, if they differ from the participants: for a process that forms a group with
    /// members it can't name.
    pub(crate) written: Option<Vec<ProcId>>,
    /// Processes that declared themselves leaders of a group's construction.
    pub(crate) leaders: BTreeSet<ProcId>,
    /// Its only leader has ended and has no successor.
    pub(crate) is_leaderless: bool,
    /// The process that has replaced an ended leader.
    pub(crate) successor: Option<ProcId>,
    /// The announced new leader, before the end of a leader is known here.
    pub(crate) foretold: Option<ProcId>,
    /// Ended processes whose end the others do not know yet.
    pub(crate) unmourned: BTreeSet<ProcId>,
    /// Number of decisions about ended members that each connection owes.
    pub(crate) verdicts: BTreeMap<PeerId, usize>,
    /// Bounds the wait for these decisions.
    pub(crate) verdicts_until: Option<Time>,
    /// The local failure. The host's answer does not change it; the host is asked for the remote participants only.
    pub(crate) failure: Option<Status>,
    /// Bounds the local phase.
    pub(crate) deadline: Option<Time>,
    /// Commit numbers of local processes that the others have if this operation succeeds.
    pub(crate) collected: Vec<(ProcId, u64)>,
    /// The sizes of its namespaces in the host's request: servers number exchanged data by them.
    pub(crate) sizes: Vec<(Namespace, Option<u32>)>,
    /// The host's answer, kept until the older operations of this signature have ended.
    pub(crate) answer: Option<Answer>,
    pub(crate) early_connect: Option<EarlyConnect>,
    /// The user whose process opened it; none: this server opened it.
    user: Option<u32>,
    /// Memory of its participants and directives, in bytes.
    size_bytes: usize,
    tickets: BTreeMap<PeerId, Ticket>,
    /// The local participants, as of a revision of the registry.
    members: Option<(u64, Membership)>,
}

/// The progress of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Local participants are missing.
    Gathering,
    /// The host works on it; no process can join.
    AtHost(UpcallId),
    /// The host has answered, but not yet for an older operation of this signature.
    Answered,
    /// The host has answered, and the values of a missed earlier fence are being fetched.
    CatchingUp,
}

/// The host's answer to an operation.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: Status,
    pub(crate) gathered: Gathered,
    /// Results of a group operation.
    pub(crate) info: Vec<Info>,
}

impl Operation {
    /// The progress in terms of the table.
    pub(crate) const fn phase(&self) -> Phase {
        match self.stage {
            Stage::Gathering => Phase::Gathering,
            _ if self.is_ahead() => Phase::Gathering,
            Stage::AtHost(_) | Stage::Answered | Stage::CatchingUp => Phase::Closed,
        }
    }

    /// Whether it is a fence that carries data.
    pub(crate) fn collects(&self) -> bool {
        self.signature.kind == Kind::Fence && flag(&self.directives, keys::COLLECT_DATA)
    }

    /// A process's standing in this operation.
    fn standing(&self, proc: &ProcId, presence: Option<Presence>) -> Standing {
        if self.contributed.contains(proc) {
            return Standing::Arrived;
        }
        match presence {
            _ if self.departed.contains(proc) => Standing::Departed,
            Some(Presence::Finalized) => Standing::Away,
            _ => Standing::Expected,
        }
    }

    /// Records local and departed participants. Returns whether all participants that can arrive have arrived.
    pub(crate) fn is_locally_complete(&mut self, registry: &Registry, table: Table) -> bool {
        if self.members.as_ref().is_none_or(|(revision, _)| *revision != registry.revision()) {
            let members = self.signature.membership(registry);
            members.iter().for_each(|members| self.note_departures(registry, table, &members.local));
            self.members = members.map(|members| (registry.revision(), members));
        }
        let Some((_, members)) = &self.members else { return false };
        let arrived = self.contributed.len().saturating_add(self.departed.len());
        arrived >= members.local.len()
            && members.local.iter().all(|proc| self.contributed.contains(proc) || self.departed.contains(proc))
    }

    pub(crate) fn note_departures(&mut self, registry: &Registry, table: Table, local: &BTreeSet<ProcId>) {
        let departs = |proc: &&ProcId| {
            let presence = registry.client(proc).map(|client| client.presence);
            let effect = (table.0)(self.phase(), self.standing(proc, presence), became(presence));
            effect == Effect::Depart
        };
        let gone: Vec<ProcId> = local.iter().filter(departs).cloned().collect();
        self.departed.extend(gone);
    }

    /// A process has left the operation's group.
    pub(crate) fn leave(&mut self, proc: &ProcId, table: Table) {
        self.left.insert(proc.clone());
        if (table.0)(self.phase(), self.standing(proc, None), Happening::Leave) == Effect::Depart {
            self.departed.insert(proc.clone());
        }
    }

    pub(crate) fn remote(&self) -> Remote {
        self.members.as_ref().map_or(Remote::Unknown, |(_, members)| members.remote)
    }

    /// The waiting connections, in order.
    pub(crate) fn waiting_peers(&self) -> impl Iterator<Item = PeerId> {
        self.tickets.keys().copied()
    }

    pub(crate) fn into_parts(self) -> (Signature, impl Iterator<Item = Ticket>) {
        (self.signature, self.tickets.into_values())
    }
}

/// The change that led to a presence.
const fn became(presence: Option<Presence>) -> Happening {
    match presence {
        Some(Presence::Expected | Presence::Connected) => Happening::Return,
        Some(Presence::Finalized) => Happening::Finalize,
        Some(Presence::Lost | Presence::Deregistered) | None => Happening::Die,
    }
}

/// All open operations.
#[derive(Debug, Default)]
pub(crate) struct Collectives {
    /// The rules of operations.
    pub(crate) table: Table,
    operations: BTreeMap<OperationId, Operation>,
    /// The same by signature, oldest first.
    by_signature: BTreeMap<Signature, BTreeSet<OperationId>>,
    size_bytes: usize,
    last: u64,
}

impl Collectives {
    /// The oldest operation that a process means and can join, and the signature of its request. Groups are found by
    /// name: members may be written in any way, and the first arrival's form counts. Without an arrived process of the
    /// same user, the request must name an arrived process, or equal the signature.
    pub(crate) fn meant(
        &self,
        registry: &Registry,
        (kind, procs): (Kind, Vec<ProcId>),
        peer: PeerId,
        proc: &ProcId,
    ) -> (Option<OperationId>, Signature) {
        let wanted = Signature::new(kind, procs);
        let ids = match &wanted.kind {
            Kind::Group(..) => self.of_group(registry, &wanted, proc),
            _ => self.by_signature.get(&wanted).into_iter().flatten().copied().collect(),
        };
        let mut meant = ids.iter().filter_map(|id| Some((*id, self.operations.get(id)?)));
        if let Some((id, operation)) = meant.find(|(_, operation)| self.is_joinable(operation, peer, proc)) {
            return (Some(id), operation.signature.clone());
        }
        // Otherwise the next one of that set, so that they end in order, unless it names processes outside this
        // request.
        let mut earlier = ids.iter().filter_map(|id| self.operations.get(id)).map(|operation| &operation.signature);
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
        let stays = |entry: &&ProcId| !operation.left.contains(*entry);
        !operation.ends_group()
            || wanted.procs.iter().filter(is_one).all(|entry| operation.signature.covers(entry))
                && operation.signature.procs.iter().filter(is_one).filter(stays).all(|entry| wanted.covers(entry))
    }

    /// Whether a process has arrived that is of the same user, or that the request names.
    fn has_company(
        &self,
        id: OperationId,
        registry: &Registry,
        proc: &ProcId,
        names: impl Fn(&ProcId) -> bool,
    ) -> bool {
        let user = |proc: &ProcId| registry.client(proc).map(|client| client.credentials.uid);
        let own = user(proc);
        let is_known = |other: &ProcId| own.is_some() && user(other) == own || names(other);
        self.operations.get(&id).is_some_and(|operation| operation.contributed.iter().any(is_known))
    }

    /// The oldest operation with exactly these participants that this connection of a process can join.
    pub(crate) fn of_set(&self, signature: &Signature, peer: PeerId, proc: &ProcId) -> Option<OperationId> {
        self.by_signature.get(signature)?.iter().copied().find(|id| self.takes(*id, peer, proc))
    }

    /// Whether this connection of a process can join an operation.
    pub(crate) fn takes(&self, id: OperationId, peer: PeerId, proc: &ProcId) -> bool {
        let operation = self.operations.get(&id);
        operation.is_some_and(|op| op.signature.covers(proc) && self.is_joinable(op, peer, proc))
    }

    fn is_joinable(&self, operation: &Operation, peer: PeerId, proc: &ProcId) -> bool {
        let happening = if operation.tickets.contains_key(&peer) { Happening::Repeat } else { Happening::Arrive };
        let effect = (self.table.0)(operation.phase(), operation.standing(proc, None), happening);
        matches!(effect, Effect::Count | Effect::WaitAlong)
    }

    pub(crate) fn open(&mut self, signature: Signature, directives: Vec<Info>, user: Option<u32>) -> OperationId {
        let size_bytes = size_of_procs(&signature.procs).saturating_add(size_of_infos(&directives));
        self.size_bytes = self.size_bytes.saturating_add(size_bytes);
        self.last = self.last.saturating_add(1);
        let id = OperationId(self.last);
        self.by_signature.entry(signature.clone()).or_default().insert(id);
        let operation = Operation {
            signature,
            stage: Stage::Gathering,
            directives,
            contributed: BTreeSet::new(),
            departed: BTreeSet::new(),
            left: BTreeSet::new(),
            survives_deaths: false,
            written: None,
            leaders: BTreeSet::new(),
            is_leaderless: false,
            successor: None,
            foretold: None,
            unmourned: BTreeSet::new(),
            verdicts: BTreeMap::new(),
            verdicts_until: None,
            failure: None,
            deadline: None,
            collected: Vec::new(),
            sizes: Vec::new(),
            answer: None,
            early_connect: None,
            user,
            size_bytes,
            tickets: BTreeMap::new(),
            members: None,
        };
        self.operations.insert(id, operation);
        id
    }

    /// A participant arrives at an operation from [`Collectives::meant`] or [`Collectives::open`]. Only a second ticket
    /// of one connection could be displaced, which `meant` rules out.
    pub(crate) fn arrive(&mut self, id: OperationId, proc: ProcId, ticket: Ticket) -> Option<&mut Operation> {
        let operation = self.operations.get_mut(&id)?;
        operation.departed.remove(&proc);
        operation.contributed.insert(proc);
        let displaced = operation.tickets.insert(ticket.peer(), ticket);
        assert!(displaced.is_none(), "a connection waits at most once for one operation");
        Some(operation)
    }

    /// Closes the operation to newcomers.
    pub(crate) fn hand_to_host(&mut self, id: OperationId, upcall: UpcallId) {
        if let Some(operation) = self.operations.get_mut(&id) {
            operation.stage = Stage::AtHost(upcall);
            operation.deadline = None;
        }
    }

    /// Stores the host's answer to an operation until its turn comes.
    pub(crate) fn keep_answer(&mut self, id: OperationId, answer: Answer) {
        if let Some(operation) = self.operations.get_mut(&id) {
            operation.stage = Stage::Answered;
            operation.answer = Some(answer);
        }
    }

    /// Marks an operation that waits for the values of a missed fence.
    pub(crate) fn catch_up(&mut self, id: OperationId) {
        if let Some(operation) = self.operations.get_mut(&id) {
            operation.stage = Stage::CatchingUp;
        }
    }

    /// The host's answer to the oldest operation of a signature, if there is one.
    pub(crate) fn take_next_answer(&mut self, signature: &Signature) -> Option<(OperationId, Answer)> {
        let oldest = *self.by_signature.get(signature)?.first()?;
        let operation = self.operations.get_mut(&oldest)?;
        let is_ahead = operation.is_ahead();
        let counts = |answer: &mut Answer| !is_ahead || !brings_about(answer.status);
        let answer = operation.answer.take_if(counts)?;
        Some((oldest, answer))
    }

    /// Whether no older operation of the same signature is open.
    pub(crate) fn is_oldest(&self, id: OperationId) -> bool {
        let signature = self.operations.get(&id).map(|operation| &operation.signature);
        signature.and_then(|signature| self.by_signature.get(signature)?.first()) == Some(&id)
    }

    pub(crate) fn remove(&mut self, id: OperationId) -> Option<Operation> {
        let operation = self.operations.remove(&id)?;
        self.size_bytes = self.size_bytes.saturating_sub(operation.size_bytes);
        if let Some(ids) = self.by_signature.get_mut(&operation.signature) {
            ids.remove(&id);
            if ids.is_empty() {
                self.by_signature.remove(&operation.signature);
            }
        }
        Some(operation)
    }

    /// Takes back a connection's tickets. Its contributions stay.
    pub(crate) fn withdraw(&mut self, peer: PeerId) -> Vec<Ticket> {
        self.operations.values_mut().filter_map(|operation| operation.tickets.remove(&peer)).collect()
    }

    pub(crate) fn get(&self, id: OperationId) -> Option<&Operation> {
        self.operations.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: OperationId) -> Option<&mut Operation> {
        self.operations.get_mut(&id)
    }

    /// Whether a timeout ends this operation.
    pub(crate) fn is_ended_by_time(&self, id: OperationId) -> bool {
        let phase = self.operations.get(&id).map(Operation::phase);
        phase.is_some_and(|phase| (self.table.0)(phase, Standing::Expected, Happening::TimeOut) == Effect::End)
    }

    /// Whether an operation of this kind, with an arrived process of the same user, gathers and waits for this process.
    pub(crate) fn is_gathering(&self, registry: &Registry, kind: &Kind, proc: &ProcId) -> bool {
        let is_meant = |op: &Operation| op.signature.kind == *kind && op.signature.covers(proc);
        let mut meant = self.operations.iter().filter(|(_, op)| op.stage == Stage::Gathering && is_meant(op));
        meant.any(|(id, _)| self.has_company(*id, registry, proc, |_| false))
    }

    /// Operations on this group with this process.
    pub(crate) fn about(&self, id: &Text, proc: &ProcId) -> Vec<OperationId> {
        let is_about = |op: &Operation| {
            matches!(&op.signature.kind, Kind::Group(_, name) if name == id) && op.signature.covers(proc)
        };
        self.operations.iter().filter(|(_, op)| is_about(op)).map(|(id, _)| *id).collect()
    }

    /// Operations that still gather and name a namespace, oldest first.
    pub(crate) fn gathering_with(&self, namespace: &Namespace) -> Vec<OperationId> {
        let is_concerned = |op: &Operation| op.phase() == Phase::Gathering && op.signature.names(namespace);
        self.operations.iter().filter(|(_, op)| is_concerned(op)).map(|(id, _)| *id).collect()
    }

    /// Operations that name a namespace, oldest first.
    pub(crate) fn with(&self, namespace: &Namespace) -> Vec<OperationId> {
        self.operations.iter().filter(|(_, op)| op.signature.names(namespace)).map(|(id, _)| *id).collect()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (OperationId, &Operation)> {
        self.operations.iter().map(|(id, operation)| (*id, operation))
    }

    pub(crate) fn len(&self) -> usize {
        self.operations.len()
    }

    /// Number of operations at which a process has arrived. The search visits all operations, because they are few.
    pub(crate) fn count_of_process(&self, proc: &ProcId) -> usize {
        self.operations.values().filter(|op| op.contributed.contains(proc)).count()
    }

    pub(crate) fn count_of_user(&self, uid: u32) -> usize {
        self.of_user(uid).count()
    }

    /// Memory of participants and directives, in bytes.
    pub(crate) const fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    pub(crate) fn size_bytes_of_user(&self, uid: u32) -> usize {
        self.of_user(uid).map(|op| op.size_bytes).fold(0, usize::saturating_add)
    }

    fn of_user(&self, uid: u32) -> impl Iterator<Item = &Operation> {
        self.operations.values().filter(move |op| op.user == Some(uid))
    }

    /// Adds another participant's directives to the first one's, each info once.
    pub(crate) fn merge_directives(&mut self, id: OperationId, directives: Vec<Info>) {
        let Some(operation) = self.operations.get_mut(&id) else { return };
        let news: Vec<Info> = directives.into_iter().filter(|info| !operation.directives.contains(info)).collect();
        let size_bytes = size_of_infos(&news);
        operation.size_bytes = operation.size_bytes.saturating_add(size_bytes);
        self.size_bytes = self.size_bytes.saturating_add(size_bytes);
        operation.directives.extend(news);
    }
}

/// Approximate memory of a list of participants in an operation and in the index, in bytes.
pub(crate) const fn size_of_procs(procs: &[ProcId]) -> usize {
    procs.len().saturating_mul(2 * size_of::<ProcId>())
}

/// Approximate memory of infos, in bytes.
pub(crate) fn size_of_infos(infos: &[Info]) -> usize {
    let size = |info: &Info| footprint(&info.value).unwrap_or(usize::MAX).saturating_add(size_of::<Info>());
    infos.iter().map(size).fold(0, usize::saturating_add)
}
