//! Groups on servers whose host forms none: the calls of processes, and the rules for the answers.
//!
//! Source: PMIx Standard, "Process Sets and Groups". A group has all its intended members, or there is none. All
//! members hear the same. A group on one node needs no host; any other group needs one.

use std::collections::BTreeSet;

use modex::client::{Call, CallError, Outcome, processes};
use modex::keys;
use modex::proto::{Command, Group, Reply, Request, Tag};
use modex::server::PeerId;
use modex::types::{Info, Key, ProcId, Status, Text, Time, Value};

use super::invitations::procs_in;
use super::requests::timeout_of;
use crate::bootstraps::{Caller, GroupRequestKind, Joined, PendingGroupRequest, Round};
use crate::local_collectives::{self, CollectiveKind, Local, LocalCollective};
use crate::process::CallPurpose;
use crate::program::{Bootstrap, ProgramPhase, Slip};
use crate::queue::ServerId;
use crate::rule::Rule;
use crate::trace::status_of;
use crate::world::World;

impl World {
    /// The call by which a connection takes part in forming a group, from its own part of the group's definition.
    /// `None`: it already takes part.
    pub(crate) fn bootstrap_call(
        &self,
        peer: PeerId,
        phase: &ProgramPhase,
        bootstrap: &Bootstrap,
        procs: &[ProcId],
    ) -> Option<(CallPurpose, Call)> {
        let connection = self.connections.get(&peer)?;
        let name = bootstrap.name.clone();
        let is_same = |purpose: &CallPurpose| matches!(purpose, CallPurpose::Group(other) if *other == name);
        if connection.calls.values().any(|asked| is_same(&asked.purpose)) {
            return None;
        }
        let own = connection.client.own();
        let place = procs.iter().position(|proc| proc == own)?;
        let elsewhere = self.jobs.iter().find(|job| job.namespace == own.namespace).and_then(|job| {
            let here = job.node_of(own.rank.process()?);
            (0..job.size).find(|rank| job.node_of(*rank) != here).map(|rank| job.proc(rank))
        });
        let (leads, mut directives) = bootstrap.directives_of(place, procs, elsewhere);
        if let Some(seconds) = phase.timeout_s.filter(|_| bootstrap.is_shared || place == 0) {
            directives.push(Info::new(Key::from_static(keys::TIMEOUT.name()), Value::Int(seconds)));
        }
        let procs = if leads { vec![own.clone()] } else { Vec::new() };
        let group = Group { command: Command::GroupConstruct.to_raw(), id: Some(name.clone()), procs, directives };
        Some((CallPurpose::Group(name), Call::Exchange(Request::GroupConstruct(group))))
    }

    /// The call by which a connection takes part in ending its group. Its server knows the group's members.
    pub(crate) fn dissolve_call(
        &mut self,
        peer: PeerId,
        phase: &ProgramPhase,
        name: &Text,
    ) -> Option<(CallPurpose, Call)> {
        self.connections
            .get_mut(&peer)?
            .groups
            .remove(name)
            .then(|| phase.call(Vec::new()))
            .map(|call| (CallPurpose::Meeting, call))
    }

    /// A connection is told that it is in a group.
    pub(crate) fn note_group(&mut self, peer: PeerId, name: Text, result: &Result<Outcome, CallError>) {
        if let (Ok(Outcome::Reply(Reply::Group { .. })), Some(connection)) = (result, self.connections.get_mut(&peer)) {
            connection.groups.insert(name);
        }
    }

    /// A server has got a request about a group.
    pub(crate) fn assemble(&mut self, server: ServerId, (peer, tag, process): (PeerId, Tag, u32), request: &Request) {
        let (Request::GroupConstruct(group) | Request::GroupDestruct(group)) = request else { return };
        let (Some(name), Some(proc)) = (group.id.clone(), self.process(process).map(|of| of.proc.clone())) else {
            return;
        };
        let find = |key: &str| group.directives.iter().find(|info| info.key.as_str() == key).map(|info| &info.value);
        let count = find(keys::GROUP_BOOTSTRAP.name()).map(|count| count.as_u64().unwrap_or(0));
        let asks = match request {
            Request::GroupDestruct(_) if group.procs.is_empty() => {
                GroupRequestKind::Destruct(self.bootstraps.known_members(process, &name).unwrap_or_default())
            }
            Request::GroupDestruct(_) => GroupRequestKind::Destruct(group.procs.clone()),
            _ if count.is_some() || group.procs.is_empty() => GroupRequestKind::Bootstrap,
            _ => GroupRequestKind::Construct(group.procs.clone()),
        };
        let added = find(keys::GROUP_ADD_MEMBERS.name()).map(procs_in).unwrap_or_default();
        let named = if count.is_some() { group.procs.iter().cloned().chain(added).collect() } else { Vec::new() };
        let caller = Caller { peer, tag, process, proc, count, named };
        let limit = timeout_of(&group.directives);
        self.group_request = Some(PendingGroupRequest { server, caller, request: asks, name, limit });
    }

    /// A server has got the request and has not refused it, so it counts.
    pub(crate) fn enter_group(&mut self) {
        let Some(PendingGroupRequest { server, caller, request, name, limit }) = self.group_request.take() else {
            return;
        };
        let deadline = limit.map(|limit| self.now + limit);
        match request {
            GroupRequestKind::Construct(procs) => {
                self.gather(server, &caller, CollectiveKind::Construct(name), &procs, deadline)
            }
            GroupRequestKind::Destruct(procs) => {
                self.gather(server, &caller, CollectiveKind::Destruct(name), &procs, deadline)
            }
            GroupRequestKind::Bootstrap => {
                let known = self.collectives.group_with(server, &name, &caller.proc, caller.peer);
                if let Some((kind, procs)) = known.filter(|_| caller.count.is_none()) {
                    return self.gather(server, &caller, kind, &procs, deadline);
                }
                if self.bootstraps.is_nonsense(server, &name, &caller) {
                    let what = format!("{server:?} takes {caller:?} for {name:?}, which contradicts the others");
                    return self.rules.breaks(Rule::Membership, || what);
                }
                match self.bootstraps.join(server, &name, caller, self.now, limit) {
                    Joined::Waits(calls, until) => {
                        calls.into_iter().for_each(|(peer, tag)| self.rules.bound(peer, tag, Some(until)));
                    }
                    Joined::Whole(round) => self.gather_all(server, name, round),
                }
            }
        }
    }

    /// All leaders have come, so the set of participants is known.
    fn gather_all(&mut self, server: ServerId, name: Text, round: Round) {
        let (until, procs): (_, Vec<ProcId>) = (round.time_named(), round.named.iter().cloned().collect());
        for caller in round.calls {
            self.rules.bound(caller.peer, caller.tag, until);
            if round.named.contains(&caller.proc) {
                self.gather(server, &caller, CollectiveKind::Construct(name.clone()), &procs, until);
            }
        }
    }

    fn gather(
        &mut self,
        server: ServerId,
        caller: &Caller,
        kind: CollectiveKind,
        procs: &[ProcId],
        deadline: Option<Time>,
    ) {
        let meant = self.lasting(server, &kind, procs);
        let is_elsewhere = self.nodes_of(&meant).iter().any(|node| *node != server.node);
        let local = Local {
            expected: self.processes_on(server.node, &meant),
            gone: self.node(server.node).map(|node| node.gone.clone()).unwrap_or_default(),
            knowledge: self.knowledge(server, &kind, procs),
            is_impossible: is_elsewhere,
            collects: false,
        };
        let signature = local_collectives::signature(kind, procs);
        let request = (caller.peer, caller.tag, caller.process);
        let clock = self.collectives.arrive(server, signature, request, (self.now, deadline), || local);
        self.rules.bound(caller.peer, caller.tag, clock);
    }

    /// A server is about to answer. A failure must have a reason, and a member must be told of all members.
    pub(crate) fn check_group_reply(&mut self, peer: PeerId, tag: Tag, reply: &Reply) {
        let status = status_of(reply);
        let is_refused = |pending: &mut PendingGroupRequest| {
            (pending.caller.peer, pending.caller.tag) == (peer, tag) && REFUSALS.contains(&status)
        };
        match self.group_request.take_if(is_refused) {
            Some(PendingGroupRequest { server, caller, name, .. })
                if status == Status::ERR_BAD_PARAM && !self.bootstraps.is_nonsense(server, &name, &caller) =>
            {
                let what = format!("{caller:?} is refused, and there is nothing wrong with it");
                self.rules.breaks(Rule::Membership, || what);
            }
            Some(_) => {}
            None => self.enter_group(),
        }
        let mut reported = None;
        let wrong = match self.collectives.of_request(peer, tag) {
            Some(((kind @ (CollectiveKind::Construct(_) | CollectiveKind::Destruct(_)), procs), operation)) => {
                let members = self.one_by_one(procs);
                reported = Some((kind.clone(), status));
                objection(kind, operation, reply, &members, self.now)
                    .filter(|_| !self.is_excused(status))
                    .map(|what| format!("{peer:?}, for {kind:?} of {members:?}, gets {reply:?}: {what}"))
            }
            _ => self.bootstraps.replied(peer, tag, status, self.now),
        };
        if let Some(what) = wrong {
            self.rules.breaks(Rule::Membership, || what);
        }
        let process = self.connections.get(&peer).map(|connection| connection.process);
        match (process, reported, reply) {
            (Some(process), Some((CollectiveKind::Construct(name), _)), Reply::Group { members, .. }) => {
                self.bootstraps.tell(process, name, members.clone());
            }
            (
                Some(process),
                Some((CollectiveKind::Destruct(name), Status::SUCCESS | Status::ERR_PARTIAL_SUCCESS)),
                _,
            ) => {
                self.bootstraps.untell(process, &name);
            }
            _ => {}
        }
    }

    /// Whether an operation may end like this for reasons outside its participants.
    fn is_excused(&self, status: Status) -> bool {
        let has_faults = !self.setup.faults.is_empty();
        match status {
            Status::ERR_NOT_AVAILABLE => true,
            Status::ERR_NOT_FOUND => self.is_ending || has_faults,
            Status::ERR_OUT_OF_RESOURCE => has_faults,
            _ => false,
        }
    }

    fn one_by_one(&self, procs: &[ProcId]) -> BTreeSet<ProcId> {
        let ranks = |entry: &ProcId| {
            let job = self.job_named(&entry.namespace).map(|(_, job)| job);
            job.into_iter().flat_map(|job| job.ranks_of(entry).map(|rank| job.proc(rank))).collect::<Vec<_>>()
        };
        procs.iter().flat_map(ranks).collect()
    }
}

/// The fault in an answer to a participant of a group operation.
fn objection(
    kind: &CollectiveKind,
    operation: &LocalCollective,
    reply: &Reply,
    members: &BTreeSet<ProcId>,
    now: Time,
) -> Option<&'static str> {
    let has_lost = !operation.departed.is_empty();
    let is_construct = matches!(kind, CollectiveKind::Construct(_));
    match (reply, status_of(reply)) {
        (Reply::Group { .. }, _) | (_, Status::SUCCESS) if operation.is_impossible => {
            Some("the group has members elsewhere")
        }
        (Reply::Group { members: reported, .. }, _) if is_construct => {
            let is_same = reported.iter().collect::<BTreeSet<_>>() == members.iter().collect::<BTreeSet<_>>();
            (!is_same || reported.len() != members.len()).then_some("the members are wrong")
        }
        (_, Status::SUCCESS) => is_construct.then_some("the reply has no members"),
        (_, Status::ERR_NOT_SUPPORTED) => (!operation.is_impossible).then_some("the group is local to this node"),
        (_, Status::ERR_TIMEOUT) => (operation.due.is_none_or(|until| until > now)).then_some("there was time left"),
        (_, Status::GROUP_CONSTRUCT_ABORT) if is_construct => (!has_lost).then_some("no member has ended"),
        (_, Status::ERR_PARTIAL_SUCCESS | Status::ERR_LOST_CONNECTION) if !is_construct => {
            (!has_lost).then_some("no member has ended")
        }
        _ => Some("the status has no reason"),
    }
}

impl Bootstrap {
    /// The directives of the process at a place of the set, and whether it leads.
    fn directives_of(&self, place: usize, procs: &[ProcId], elsewhere: Option<ProcId>) -> (bool, Vec<Info>) {
        let leaders = usize::try_from(self.leaders).unwrap_or(1).clamp(1, procs.len().max(1));
        if place >= leaders {
            return (false, Vec::new());
        }
        let is_mine = |other: usize| self.is_shared || other % leaders == place;
        let last = procs.len() - usize::from(self.slip == Slip::NotAdded && procs.len() > leaders);
        let mine = procs.iter().enumerate().take(last).skip(leaders).filter(|(other, _)| is_mine(*other));
        let mut added: Vec<ProcId> = mine.map(|(_, proc)| proc.clone()).collect();
        if self.slip == Slip::Elsewhere && place == 0 {
            added.extend(elsewhere);
        }
        let count = match self.slip {
            Slip::LeaderShort => leaders + 1,
            Slip::CountsDiffer if place == 0 => leaders + 1,
            Slip::CountsNone if place == 0 => 0,
            _ => leaders,
        };
        let count = Value::Size(u64::try_from(count).unwrap_or(0));
        let mut directives = vec![Info::new(Key::from_static(keys::GROUP_BOOTSTRAP.name()), count)];
        if !added.is_empty() {
            directives.push(Info::new(Key::from_static(keys::GROUP_ADD_MEMBERS.name()), processes(&added)));
        }
        (true, directives)
    }
}

/// A planted defect: the server never hears of the members that leaders add.
pub(crate) fn forget_added(request: &mut Request) {
    if let Request::GroupConstruct(group) = request {
        group.directives.retain(|info| info.key.as_str() != keys::GROUP_ADD_MEMBERS.name());
    }
}

/// Statuses by which a server refuses a request; a refused request never counts.
const REFUSALS: [Status; 3] = [Status::ERR_OUT_OF_RESOURCE, Status::ERR_BAD_PARAM, Status::ERR_NOT_AVAILABLE];
