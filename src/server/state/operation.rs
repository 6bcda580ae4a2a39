//! One operation of many processes: its participants, its progress, and the answer of the host.

use std::collections::{BTreeMap, BTreeSet};

use super::awaited_clones::AwaitedClones;
use super::client::Presence;
use super::early_connect::EarlyConnect;
use super::generated_values::GeneratedValues;
use super::group::progress::GroupProgress;
use super::merged_directives::MergedDirectives;
use super::outputs::Ticket;
use super::registry::{Membership, Registry, Remote};
use super::signature::{CollectiveKind, Signature};
use super::sizes::{size_of_infos, size_of_procs};
use super::transitions::{CollectivePhase, Effect, Happening, Standing, TransitionTable};
use crate::keys;
use crate::proto::exchange::PackedFence;
use crate::server::interface::{Capabilities, GroupOperation, PeerId, UpcallId, flag};
use crate::types::{Info, Key, Kval, Namespace, ProcId, Status, Time, Value};

/// Identifies one open operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OperationId(pub(crate) u64);

/// One open operation: the part that all kinds share, and the part of its kind.
#[derive(Debug)]
pub(crate) struct Collective {
    signature: Signature,
    stage: OperationStage,
    /// The directives of the first arrival. For groups, those of all arrivals.
    directives: MergedDirectives,
    contributed: BTreeSet<ProcId>,
    /// Local participants that ended before they arrived.
    departed: BTreeSet<ProcId>,
    failure: Option<Status>,
    opened: Time,
    /// Bounds the local phase.
    deadline: Option<Time>,
    /// The host's answer, kept until the older operations of this signature have ended.
    answer: Option<HostAnswer>,
    early_connect: Option<EarlyConnect>,
    /// The user whose process opened it; none: this server opened it.
    user: Option<u32>,
    /// Memory of its participants and directives, in bytes.
    size_bytes: usize,
    tickets: BTreeMap<PeerId, Ticket>,
    clones: AwaitedClones,
    generated: GeneratedValues,
    /// The participants, as of a revision of the registry, if all their jobs are known.
    members: Option<(u64, Option<Membership>)>,
    particular: Particular,
}

/// The part of an operation that only its kind has.
#[derive(Debug)]
enum Particular {
    Fence(FenceRequest),
    /// A connect or disconnect has none.
    Connect,
    Group(Box<GroupProgress>),
}

/// The facts about a fence's request to the host that its answer needs.
#[derive(Debug, Default)]
pub(crate) struct FenceRequest {
    /// Commit numbers of local processes that the others have if the fence succeeds.
    pub(crate) collected: Vec<(ProcId, u64)>,
    /// The sizes of its namespaces: servers number exchanged data by them.
    pub(crate) sizes: Vec<(Namespace, Option<u32>)>,
}

/// The progress of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperationStage {
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
pub(crate) struct HostAnswer {
    pub(crate) status: Status,
    pub(crate) gathered: Gathered,
    /// Results of a group operation.
    pub(crate) info: Vec<Info>,
}

impl Collective {
    /// An operation without any arrived process.
    pub(crate) fn new(now: Time, signature: Signature, directives: Vec<Info>, user: Option<u32>) -> Self {
        let size_bytes = size_of_procs(&signature.procs).saturating_add(size_of_infos(&directives));
        let particular = match &signature.kind {
            CollectiveKind::Fence => Particular::Fence(FenceRequest::default()),
            CollectiveKind::Connect | CollectiveKind::Disconnect => Particular::Connect,
            CollectiveKind::Group(..) => Particular::Group(Box::default()),
        };
        let merges = signature.kind.merges_directives();
        let directives = if merges { MergedDirectives::new(directives) } else { MergedDirectives::lone(directives) };
        Self {
            signature,
            stage: OperationStage::Gathering,
            directives,
            contributed: BTreeSet::new(),
            departed: BTreeSet::new(),
            failure: None,
            opened: now,
            deadline: None,
            answer: None,
            early_connect: None,
            user,
            size_bytes,
            tickets: BTreeMap::new(),
            clones: AwaitedClones::default(),
            generated: GeneratedValues::default(),
            members: None,
            particular,
        }
    }

    /// The time of its begin.
    pub(crate) const fn opened(&self) -> Time {
        self.opened
    }

    /// Its kind and participants.
    pub(crate) const fn signature(&self) -> &Signature {
        &self.signature
    }

    pub(crate) const fn stage(&self) -> OperationStage {
        self.stage
    }

    /// The directives of the first arrival. For groups, those of all arrivals.
    pub(crate) fn directives(&self) -> &[Info] {
        self.directives.infos()
    }

    /// The local participants that have arrived.
    pub(crate) const fn contributed(&self) -> &BTreeSet<ProcId> {
        &self.contributed
    }

    /// Local participants that ended before they arrived.
    pub(crate) const fn departed(&self) -> &BTreeSet<ProcId> {
        &self.departed
    }

    /// The part of an operation on a group.
    pub(crate) fn group(&self) -> Option<&GroupProgress> {
        if let Particular::Group(group) = &self.particular { Some(group) } else { None }
    }

    pub(crate) fn group_mut(&mut self) -> Option<&mut GroupProgress> {
        if let Particular::Group(group) = &mut self.particular { Some(group) } else { None }
    }

    /// The part of a fence.
    pub(crate) const fn fence(&self) -> Option<&FenceRequest> {
        if let Particular::Fence(fence) = &self.particular { Some(fence) } else { None }
    }

    /// The end of the local phase, if it is bounded.
    pub(crate) const fn deadline(&self) -> Option<Time> {
        self.deadline
    }

    /// Bounds the local phase. Returns whether it had no bound.
    pub(crate) fn bound(&mut self, deadline: Time) -> bool {
        let is_first = self.deadline.is_none();
        self.deadline.get_or_insert(deadline);
        is_first
    }

    /// Takes the bound of the local phase.
    pub(crate) const fn take_deadline(&mut self) -> Option<Time> {
        self.deadline.take()
    }

    /// The local failure. The host's answer does not change it; the host is asked for the remote participants only.
    pub(crate) const fn failure(&self) -> Option<Status> {
        self.failure
    }

    pub(crate) const fn fail(&mut self, failure: Status) {
        self.failure = Some(failure);
    }

    pub(crate) const fn early_connect(&self) -> Option<EarlyConnect> {
        self.early_connect
    }

    pub(crate) const fn early_connect_mut(&mut self) -> &mut Option<EarlyConnect> {
        &mut self.early_connect
    }

    /// The host works on it from now on; the facts about a fence's request are kept.
    pub(crate) fn hand_to_host(&mut self, upcall: UpcallId, fence: FenceRequest) {
        self.stage = OperationStage::AtHost(upcall);
        self.deadline = None;
        if let Particular::Fence(kept) = &mut self.particular {
            *kept = fence;
        }
    }

    /// The host was asked before all participants arrived. It goes on gathering.
    pub(crate) const fn hand_to_host_early(&mut self, upcall: UpcallId) {
        self.stage = OperationStage::AtHost(upcall);
    }

    /// Keeps the host's answer until the turn of this operation comes.
    pub(crate) fn keep_answer(&mut self, answer: HostAnswer) {
        self.stage = OperationStage::Answered;
        self.answer = Some(answer);
    }

    /// Whether the host has agreed.
    pub(crate) fn is_agreed(&self) -> bool {
        self.answer.as_ref().is_some_and(|answer| brings_about(answer.status))
    }

    /// Takes the host's answer if it counts already. An agreement that came early counts when all have arrived.
    pub(crate) fn take_answer(&mut self) -> Option<HostAnswer> {
        let is_ahead = self.is_ahead();
        self.answer.take_if(|answer| !is_ahead || !brings_about(answer.status))
    }

    /// It waits for the values of a missed fence.
    pub(crate) const fn catch_up(&mut self) {
        self.stage = OperationStage::CatchingUp;
    }

    /// A participant arrives. Each connection waits at most once.
    pub(crate) fn arrive(&mut self, proc: ProcId, ticket: Ticket) {
        self.departed.remove(&proc);
        self.contributed.insert(proc);
        let displaced = self.tickets.insert(ticket.peer(), ticket);
        assert!(displaced.is_none(), "a connection waits at most once for one operation");
    }

    /// Whether a connection waits for the end.
    pub(crate) fn waits(&self, peer: PeerId) -> bool {
        self.tickets.contains_key(&peer)
    }

    /// Awaits all clones of a rank that has arrived.
    pub(crate) fn await_clones(&mut self, rank: ProcId) {
        self.clones.add(rank);
    }

    /// Whether it awaits clones of a rank.
    pub(crate) fn awaits_clones_of(&self, rank: &ProcId) -> bool {
        self.clones.contains(rank)
    }

    /// Whether it awaits clones.
    pub(crate) fn awaits_clones(&self) -> bool {
        !self.clones.is_empty()
    }

    /// The processes whose values are generated for it.
    pub(crate) const fn generated(&self) -> &GeneratedValues {
        &self.generated
    }

    pub(crate) const fn generated_mut(&mut self) -> &mut GeneratedValues {
        &mut self.generated
    }

    /// Whether younger operations may have waited although all their participants had come.
    pub(crate) fn holds_up_younger(&self) -> bool {
        self.awaits_clones() || self.generated.is_wished()
    }

    /// A clone of a rank has connected.
    pub(crate) fn note_clone(&mut self, rank: &ProcId) {
        self.clones.reopen(rank);
    }

    /// The ranks that lack clones while it gathers.
    pub(crate) fn lacking_clones(&self, registry: &Registry) -> Vec<ProcId> {
        match self.phase() {
            CollectivePhase::Gathering => self.clones.lacking(registry, |peer| self.waits(peer)),
            CollectivePhase::Closed => Vec::new(),
        }
    }

    /// Takes back a connection's ticket. Its contribution stays.
    pub(crate) fn withdraw(&mut self, peer: PeerId) -> Option<Ticket> {
        self.tickets.remove(&peer)
    }

    /// Adds another participant's directives to the first one's, each info once. Returns the added memory in bytes.
    pub(crate) fn merge_directives(&mut self, directives: Vec<Info>) -> usize {
        let size_bytes = size_of_infos(self.directives.merge(directives));
        self.size_bytes = self.size_bytes.saturating_add(size_bytes);
        size_bytes
    }

    /// Memory of participants and directives, in bytes.
    pub(crate) const fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// The user whose process opened it; none: this server opened it.
    pub(crate) const fn user(&self) -> Option<u32> {
        self.user
    }

    /// The progress in terms of the table.
    pub(crate) const fn phase(&self) -> CollectivePhase {
        match self.stage {
            OperationStage::Gathering => CollectivePhase::Gathering,
            _ if self.is_ahead() => CollectivePhase::Gathering,
            OperationStage::AtHost(_) | OperationStage::Answered | OperationStage::CatchingUp => {
                CollectivePhase::Closed
            }
        }
    }

    /// Whether it is a fence that carries data. Generated values go with the others, because a Get of a reserved key
    /// asks no other node.
    pub(crate) fn collects(&self) -> bool {
        let has = |key| flag(self.directives(), key);
        self.signature.kind == CollectiveKind::Fence && (has(keys::COLLECT_DATA) || self.generated.is_wished())
    }

    /// A process's standing in this operation.
    pub(crate) fn standing(&self, proc: &ProcId, presence: Option<Presence>) -> Standing {
        if self.contributed.contains(proc) {
            return Standing::Arrived;
        }
        match presence {
            _ if self.departed.contains(proc) => Standing::Departed,
            Some(Presence::Finalized) => Standing::Away,
            _ => Standing::Expected,
        }
    }

    /// Records local and departed participants. Returns whether all participants that can arrive have arrived, and the
    /// clones of those that ask for them.
    pub(crate) fn is_locally_complete(&mut self, registry: &Registry, table: TransitionTable) -> bool {
        if !self.is_up_to_date(registry) {
            let members = self.signature.membership(registry);
            members.iter().for_each(|members| self.note_departures(registry, table, &members.local));
            self.members = Some((registry.revision(), members));
        }
        let tickets = &self.tickets;
        if !self.clones.are_here(registry, |peer| tickets.contains_key(&peer)) {
            return false;
        }
        let Some((_, Some(members))) = &self.members else { return false };
        let arrived = self.contributed.len().saturating_add(self.departed.len());
        arrived >= members.local.len()
            && members.local.iter().all(|proc| self.contributed.contains(proc) || self.departed.contains(proc))
    }

    fn note_departures(&mut self, registry: &Registry, table: TransitionTable, local: &BTreeSet<ProcId>) {
        let departs = |proc: &&ProcId| {
            let presence = registry.client(proc).map(|client| client.presence());
            let effect = (table.0)(self.phase(), self.standing(proc, presence), became(presence));
            effect == Effect::Depart
        };
        let gone: Vec<ProcId> = local.iter().filter(departs).cloned().collect();
        self.departed.extend(gone);
    }

    /// Whether a change of processes may have completed it, which nobody has looked at.
    pub(crate) fn may_go_on(&self, registry: &Registry) -> bool {
        self.phase() == CollectivePhase::Gathering && !self.is_up_to_date(registry)
    }

    fn is_up_to_date(&self, registry: &Registry) -> bool {
        self.members.as_ref().is_some_and(|(revision, _)| *revision == registry.revision())
    }

    /// A process has left the operation's group.
    pub(crate) fn leave(&mut self, proc: &ProcId, table: TransitionTable) {
        if let Some(group) = self.group_mut() {
            group.note_leave(proc);
        }
        if (table.0)(self.phase(), self.standing(proc, None), Happening::Leave) == Effect::Depart {
            self.departed.insert(proc.clone());
        }
    }

    pub(crate) fn remote(&self) -> Remote {
        let members = self.members.as_ref().and_then(|(_, members)| members.as_ref());
        members.map_or(Remote::Unknown, |members| members.remote)
    }

    /// The waiting connections, in order.
    pub(crate) fn waiting_peers(&self) -> impl Iterator<Item = PeerId> {
        self.tickets.keys().copied()
    }

    pub(crate) fn into_parts(self) -> (Signature, impl Iterator<Item = Ticket>) {
        (self.signature, self.tickets.into_values())
    }

    /// Whether decisions about ended members are awaited.
    pub(crate) fn awaits_decisions(&self) -> bool {
        self.group().is_some_and(|group| group.owing().len() > 0)
    }

    /// The participants for the host.
    pub(crate) fn procs_for_host(&self) -> Vec<ProcId> {
        let written = self.group().and_then(GroupProgress::written);
        written.cloned().unwrap_or_else(|| self.signature.procs.to_vec())
    }

    /// The directives for the host.
    pub(crate) fn directives_for_host(&self, status: Status) -> Vec<Info> {
        let local_status = (status != Status::SUCCESS).then(|| Value::Status(status.to_raw()));
        let local_status = local_status.map(|status| Info::new(LOCAL_COLLECTIVE_STATUS, status));
        let is_local = self.needs_only_notice() && !flag(self.directives(), keys::GROUP_LOCAL_ONLY);
        let is_local = is_local.then(|| Info::new(Key::from_static(keys::GROUP_LOCAL_ONLY.name()), true));
        self.directives().iter().cloned().chain(is_local).chain(local_status).collect()
    }

    /// Whether the host hears of a group of this node, and has nothing to do for it.
    pub(crate) fn needs_only_notice(&self) -> bool {
        matches!(self.signature.kind, CollectiveKind::Group(..))
            && self.remote() == Remote::None
            && !flag(self.directives(), keys::GROUP_ASSIGN_CONTEXT_ID)
    }

    /// Whether the host must take part. If it is unknown whether there are remote participants, a host decides.
    /// Connections always go to a host that supports them, because it defines their meaning. Some hosts take only those
    /// with other nodes.
    pub(crate) fn needs_host(&self, host: Capabilities) -> bool {
        let has_host = host.contains(self.signature.kind.capability());
        let remote = self.remote();
        let is_wanted = match &self.signature.kind {
            CollectiveKind::Fence => false,
            CollectiveKind::Connect | CollectiveKind::Disconnect => {
                has_host && !host.contains(Capabilities::CONNECTS_OTHER_NODES_ONLY)
            }
            // Hosts keep groups of one node, too, for queries. A number must be unique beyond this node.
            CollectiveKind::Group(..) => has_host,
        };
        is_wanted || remote == Remote::Some || (remote == Remote::Unknown && has_host)
    }

    /// Processes that have left the operation's group, arrived or not.
    pub(crate) fn left(&self) -> impl Iterator<Item = &ProcId> {
        self.group().into_iter().flat_map(GroupProgress::left)
    }

    /// Whether a process has left the operation's group.
    pub(crate) fn has_left(&self, proc: &ProcId) -> bool {
        self.group().is_some_and(|group| group.left().contains(proc))
    }

    /// The participants without those that have left the operation's group.
    pub(crate) fn remaining(&self) -> Vec<ProcId> {
        self.signature.procs.iter().filter(|proc| !self.has_left(proc)).cloned().collect()
    }

    /// Whether it ends a group. Members that have left are not missing there.
    pub(crate) const fn ends_group(&self) -> bool {
        matches!(self.signature.kind, CollectiveKind::Group(GroupOperation::Destruct, _))
    }

    /// Whether a local participant is missing.
    fn lacks_somebody(&self) -> bool {
        self.departed.iter().any(|proc| !(self.ends_group() && self.has_left(proc)))
    }

    /// The result of the local phase: whether participants are missing, and whether any arrived one remains.
    pub(crate) fn local_status(&self, registry: &Registry) -> Status {
        let has_survivor = self.contributed.iter().any(|proc| !registry.is_gone(proc));
        match (self.lacks_somebody(), has_survivor) {
            (false, _) => Status::SUCCESS,
            (true, true) => Status::ERR_PARTIAL_SUCCESS,
            (true, false) => Status::ERR_LOST_CONNECTION,
        }
    }

    /// Whether nothing but registrations is missing. Records departed processes.
    pub(crate) fn lacks_only_jobs(&mut self, registry: &Registry, table: TransitionTable) -> bool {
        let is_known = |entry: &&ProcId| registry.job(&entry.namespace).is_some();
        let known: Vec<ProcId> = self.signature.procs.iter().filter(is_known).cloned().collect();
        if known.len() == self.signature.procs.len() {
            return false;
        }
        let Some(members) = registry.membership(&known, false) else { return false };
        self.note_departures(registry, table, &members.local);
        members.local.iter().all(|proc| self.contributed.contains(proc) || self.departed.contains(proc))
    }

    /// Whether the host's answer must wait: the host was asked ahead, and some participants have not arrived.
    pub(crate) const fn is_ahead(&self) -> bool {
        matches!(&self.early_connect, Some(early_connect) if early_connect.is_gathering())
    }

    /// The host's status, corrected if participants have ended since the request.
    pub(crate) fn in_view_of_losses(&self, status: Status) -> Status {
        match self.early_connect {
            Some(early) if early.is_short() && status == Status::SUCCESS => Status::ERR_PARTIAL_SUCCESS,
            _ => status,
        }
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

/// The contributions of all servers to a fence.
#[derive(Debug)]
pub(crate) enum Gathered {
    /// Values by process.
    Blocks(Vec<(ProcId, Vec<Kval>)>),
    /// As packed by the servers.
    Packed(PackedFence),
}

/// Whether an operation with this status has reached its purpose, perhaps without some participants.
pub(crate) const fn brings_about(status: Status) -> bool {
    matches!(status, Status::SUCCESS | Status::ERR_PARTIAL_SUCCESS)
}

/// Directive with the local status: local participants are missing.
const LOCAL_COLLECTIVE_STATUS: Key = Key::from_static(keys::LOCAL_COLLECTIVE_STATUS.name());
