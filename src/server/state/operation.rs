//! One operation of many processes: its participants, its progress, and the answer of the host.

use std::collections::{BTreeMap, BTreeSet};

use super::early_connect::EarlyConnect;
use super::outputs::Ticket;
use super::registry::{Membership, Presence, Registry, Remote};
use super::signature::{CollectiveKind, Signature};
use super::sizes::{size_of_infos, size_of_procs};
use super::transitions::{CollectivePhase, Effect, Happening, Standing, TransitionTable};
use crate::keys;
use crate::proto::exchange::PackedFence;
use crate::server::interface::{GroupOperation, PeerId, UpcallId, flag};
use crate::types::{Info, Key, Kval, Namespace, ProcId, Status, Time, Value};

/// Identifies one open operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OperationId(pub(crate) u64);

/// One open operation.
#[derive(Debug)]
pub(crate) struct Collective {
    pub(crate) signature: Signature,
    pub(crate) stage: OperationStage,
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
    pub(crate) answer: Option<HostAnswer>,
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
    pub(crate) fn new(signature: Signature, directives: Vec<Info>, user: Option<u32>) -> Self {
        let size_bytes = size_of_procs(&signature.procs).saturating_add(size_of_infos(&directives));
        Self {
            signature,
            stage: OperationStage::Gathering,
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
        }
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

    /// Takes back a connection's ticket. Its contribution stays.
    pub(crate) fn withdraw(&mut self, peer: PeerId) -> Option<Ticket> {
        self.tickets.remove(&peer)
    }

    /// Adds another participant's directives to the first one's, each info once. Returns the added memory in bytes.
    pub(crate) fn merge_directives(&mut self, directives: Vec<Info>) -> usize {
        let news: Vec<Info> = directives.into_iter().filter(|info| !self.directives.contains(info)).collect();
        let size_bytes = size_of_infos(&news);
        self.size_bytes = self.size_bytes.saturating_add(size_bytes);
        self.directives.extend(news);
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

    /// Whether it is a fence that carries data.
    pub(crate) fn collects(&self) -> bool {
        self.signature.kind == CollectiveKind::Fence && flag(&self.directives, keys::COLLECT_DATA)
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

    /// Records local and departed participants. Returns whether all participants that can arrive have arrived.
    pub(crate) fn is_locally_complete(&mut self, registry: &Registry, table: TransitionTable) -> bool {
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

    fn note_departures(&mut self, registry: &Registry, table: TransitionTable, local: &BTreeSet<ProcId>) {
        let departs = |proc: &&ProcId| {
            let presence = registry.client(proc).map(|client| client.presence);
            let effect = (table.0)(self.phase(), self.standing(proc, presence), became(presence));
            effect == Effect::Depart
        };
        let gone: Vec<ProcId> = local.iter().filter(departs).cloned().collect();
        self.departed.extend(gone);
    }

    /// A process has left the operation's group.
    pub(crate) fn leave(&mut self, proc: &ProcId, table: TransitionTable) {
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

    /// The directives for the host.
    pub(crate) fn directives_for_host(&self, status: Status) -> Vec<Info> {
        let local_status = (status != Status::SUCCESS).then(|| Value::Status(status.to_raw()));
        let local_status = local_status.map(|status| Info::new(LOCAL_COLLECTIVE_STATUS, status));
        self.directives.iter().cloned().chain(local_status).collect()
    }

    /// Whether the host must take part. If it is unknown whether there are remote participants, a host decides.
    /// Connections always go to a host that supports them, because it defines their meaning.
    pub(crate) fn needs_host(&self, has_host: bool) -> bool {
        let remote = self.remote();
        let is_wanted = match &self.signature.kind {
            CollectiveKind::Fence => false,
            CollectiveKind::Connect | CollectiveKind::Disconnect => has_host,
            // A number must be unique beyond this node.
            CollectiveKind::Group(..) => has_host && flag(&self.directives, keys::GROUP_ASSIGN_CONTEXT_ID),
        };
        is_wanted || remote == Remote::Some || (remote == Remote::Unknown && has_host)
    }

    /// The participants without those that have left the operation's group.
    pub(crate) fn remaining(&self) -> Vec<ProcId> {
        self.signature.procs.iter().filter(|proc| !self.left.contains(*proc)).cloned().collect()
    }

    /// Whether it ends a group. Members that have left are not missing there.
    pub(crate) const fn ends_group(&self) -> bool {
        matches!(self.signature.kind, CollectiveKind::Group(GroupOperation::Destruct, _))
    }

    /// Whether a local participant is missing.
    fn lacks_somebody(&self) -> bool {
        self.departed.iter().any(|proc| !(self.ends_group() && self.left.contains(proc)))
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

    /// A leader has ended.
    pub(crate) fn lose_leader(&mut self, leader: &ProcId) {
        self.leaders.remove(leader);
        for place in [&mut self.successor, &mut self.foretold] {
            place.take_if(|proc| proc == leader);
        }
        self.is_leaderless = self.leaders.is_empty();
        if self.is_leaderless
            && let Some(successor) = self.foretold.take()
        {
            self.be_led_by(&successor);
        }
    }

    /// A process takes the role of an ended leader.
    pub(crate) fn be_led_by(&mut self, successor: &ProcId) {
        self.is_leaderless = false;
        if let Some(earlier) = self.successor.replace(successor.clone()) {
            self.leaders.remove(&earlier);
        }
        self.leaders.insert(successor.clone());
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
