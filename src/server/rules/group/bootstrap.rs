//! Groups whose members do not know each other: leaders know only the number of leaders, and each adds members. A host
//! that forms groups brings them together. Without such a host, this server does it for the processes of this node.
//!
//! The members are unknown until all leaders have arrived, so arrived processes are held. Then the group is formed like
//! any other, of the leaders and the members that they add.

use std::collections::BTreeSet;

use super::directives::{ABORTED, membership, membership_in};
use crate::gds::Datastore;
use crate::keys;
use crate::proto;
use crate::server::interface::{GroupOperation, Limits, PeerId, find, timeout};
use crate::server::rules::rendezvous::MERGED_DIRECTIVES_MAX;
use crate::server::state::{
    Bootstrap, BootstrapArrival, BootstrapId, CollectiveKind, Gathered, HostAnswer, OperationId, OperationStage,
    Participants, Pool, ServerCore, Signature, Ticket, Timer, brings_about, size_of_infos, size_of_procs,
};
use crate::types::{Info, ProcId, Rank, Status, Text, Time, Value};

impl<S: Datastore> ServerCore<S> {
    /// A process helps to form a group without naming its members, and no host can find them.
    pub(super) fn gather_bootstrap(
        &mut self,
        now: Time,
        ticket: Ticket,
        proc: ProcId,
        id: Text,
        request: proto::Collective,
    ) {
        let kind = CollectiveKind::Group(GroupOperation::Construct, id.clone());
        if request.procs.is_empty() && self.collectives.is_gathering(&self.registry, &kind, &proc) {
            // The leaders have arrived, and one has named this process.
            let request = proto::Collective { procs: vec![proc.clone()], ..request };
            return self.arrive(now, ticket, proc, kind, request);
        }
        match self.hold_for_bootstrap(now, ticket, proc, id, request) {
            Ok(bootstrap) if self.is_too_large(bootstrap) => self.end_bootstrap(bootstrap, Status::ERR_OUT_OF_RESOURCE),
            Ok(bootstrap) => self.begin_if_whole(now, bootstrap),
            Err((ticket, status)) => self.outputs.reply_status(ticket, status),
        }
    }

    fn hold_for_bootstrap(
        &mut self,
        now: Time,
        ticket: Ticket,
        proc: ProcId,
        id: Text,
        request: proto::Collective,
    ) -> Result<BootstrapId, (Ticket, Status)> {
        let limits = &self.config.limits;
        let Some(user) = self.peers.user_of(ticket.peer()) else {
            return Err((ticket, Status::ERR_NOT_AVAILABLE));
        };
        let count = find(&request.directives, keys::GROUP_BOOTSTRAP).map(|info| info.value.as_u64());
        let count = match count.map(|count| count.and_then(|count| usize::try_from(count).ok())) {
            None => None,
            Some(Some(count)) if (1..=limits.participants_max).contains(&count) => Some(count),
            Some(_) => return Err((ticket, Status::ERR_BAD_PARAM)),
        };
        let is_somebody = |entry: &ProcId| matches!(entry.rank, Rank::Process(_) | Rank::Wildcard);
        let names_others = count.is_none() && !request.procs.is_empty();
        if names_others || !request.procs.iter().all(is_somebody) {
            return Err((ticket, Status::ERR_BAD_PARAM));
        }
        let limit = timeout(&request.directives).map(|limit| now + limit);
        let (held, own) = self.bootstraps.counts(&proc);
        let pool = Pool { max: limits.collectives_max, used: held };
        let of_user = || self.bootstraps.of_user(user).map(|open| open.arrivals.len()).fold(0, usize::saturating_add);
        let is_full = own >= limits.collectives_per_process_max || !self.has_share(user, pool, 1, of_user);
        let Some((named, directives)) = parted(request, limits).filter(|_| !is_full) else {
            return Err((ticket, Status::ERR_OUT_OF_RESOURCE));
        };
        if !self.may_open(ticket.peer(), &proc, &named, &directives) {
            return Err((ticket, Status::ERR_OUT_OF_RESOURCE));
        }
        let size_bytes = size_of_procs(&named).saturating_add(size_of_infos(&directives));
        let bootstrap = match self.bootstraps.named(&id, user) {
            Some(bootstrap) => bootstrap,
            None => self.open_bootstrap(now, id, user),
        };
        let arrival = BootstrapArrival { ticket, proc, leads: count.is_some(), directives, size_bytes };
        self.bootstraps.arrive(bootstrap, arrival, count, named)?;
        if let Some(limit) = limit
            && let Some(earlier) = self.bootstraps.bound(bootstrap, limit)
        {
            self.timers.disarm(Some(earlier), Timer::Bootstrap(bootstrap));
            self.timers.arm(Some(limit), Timer::Bootstrap(bootstrap));
        }
        Ok(bootstrap)
    }

    fn open_bootstrap(&mut self, now: Time, id: Text, user: u32) -> BootstrapId {
        let (bootstrap, deadline) = self.bootstraps.open(now, id, user);
        self.timers.arm(Some(deadline), Timer::Bootstrap(bootstrap));
        bootstrap
    }

    fn take_bootstrap(&mut self, id: BootstrapId) -> Option<Bootstrap> {
        let open = self.bootstraps.remove(id)?;
        self.timers.disarm(Some(open.deadline), Timer::Bootstrap(id));
        Some(open)
    }

    /// Starts the operation if all leaders have arrived, so that the members are known.
    fn begin_if_whole(&mut self, now: Time, id: BootstrapId) {
        if !self.bootstraps.get(id).is_some_and(Bootstrap::is_whole) {
            return;
        }
        let Some(open) = self.take_bootstrap(id) else { return };
        let Some(leader) = open.arrivals.iter().find(|arrival| arrival.leads) else { return };
        let procs = open.members.into_iter().collect();
        let procs = self.groups.translate(&self.registry, procs, &leader.proc, self.config.limits.participants_max);
        let has_ended = self.registry.ended_among(&procs).is_some();
        let whole = Signature::new(CollectiveKind::Group(GroupOperation::Construct, open.id), procs);
        let (mut operation, mut entered) = (None, BTreeSet::new());
        for BootstrapArrival { ticket, proc, directives, .. } in open.arrivals {
            let peer = ticket.peer();
            if !whole.covers(&proc) {
                self.outputs.reply_status(ticket, Status::ERR_NOT_A_MEMBER);
                continue;
            }
            if has_ended {
                self.outputs.reply_status(ticket, Status::ERR_NOT_FOUND);
                continue;
            }
            // The list of members may be long, so it is searched once, not for each arrival. Another group of this name
            // may wait for one of these processes, but it joins this one.
            let same = operation.filter(|id| self.collectives.takes(*id, ticket.peer(), &proc));
            let id = match same.or_else(|| self.collectives.of_set(&whole, ticket.peer(), &proc)) {
                Some(id) => id,
                None if !self.may_open(peer, &proc, &whole.procs, &directives) => {
                    self.outputs.reply_status(ticket, Status::ERR_OUT_OF_RESOURCE);
                    continue;
                }
                None => self.collectives.open(now, whole.clone(), directives.clone(), Some(open.user)),
            };
            self.enter(now, id, ticket, proc, directives);
            operation = Some(id);
            entered.insert(id);
        }
        for id in entered {
            if open.is_timed {
                // The timeout of a process covers the whole call.
                self.bound(id, open.deadline);
            }
            self.advance_operation(now, id);
        }
    }

    /// The host answers a process that does not know the other members. The answer is for all of them on this node,
    /// because hosts of OpenPMIx give one for each node. A waiting process of the members' jobs that no leader has
    /// added is told so. A leader of another group still waits for its own answer, and so do processes of other jobs.
    /// Returns the signatures of the operations that have got an answer, too.
    pub(in crate::server::rules) fn share_answer(&mut self, id: OperationId, answer: &HostAnswer) -> Vec<Signature> {
        let mut same = self.collectives.in_same_bootstrap(id).peekable();
        if same.peek().is_none() {
            return Vec::new();
        }
        let members = membership(&answer.info).filter(|_| brings_about(answer.status)).map(Participants::new);
        let is_in = |proc: &ProcId| members.as_ref().is_none_or(|members| members.cover(proc));
        let has_job = |proc: &ProcId| {
            members.as_ref().is_none_or(|members| members.namespaces().any(|job| *job == proc.namespace))
        };
        let mut sharing = Vec::new();
        for (other, operation) in same {
            let OperationStage::AtHost(upcall) = operation.stage() else { continue };
            let leads = find(operation.directives(), keys::GROUP_BOOTSTRAP).is_some();
            let status = match operation.contributed().iter().all(is_in) {
                true => answer.status,
                false if leads || !operation.contributed().iter().any(has_job) => continue,
                false => Status::ERR_NOT_A_MEMBER,
            };
            sharing.push((other, upcall, status, operation.signature().clone()));
        }
        let share = |(other, upcall, status, signature)| {
            self.cancel_upcall(upcall);
            let (gathered, info) = (Gathered::Blocks(Vec::new()), answer.info.clone());
            self.collectives.keep_answer(other, HostAnswer { status, gathered, info });
            signature
        };
        sharing.into_iter().map(share).collect()
    }

    /// Whether leaders have named more members together than an operation may have.
    fn is_too_large(&self, id: BootstrapId) -> bool {
        let members = self.bootstraps.get(id).map_or(0, |open| open.members.len());
        members > self.config.limits.participants_max
    }

    /// The missing leaders are unknown, so the waiting processes get a timeout.
    pub(in crate::server) fn expire_bootstrap(&mut self, id: BootstrapId) {
        self.end_bootstrap(id, Status::ERR_TIMEOUT);
    }

    fn end_bootstrap(&mut self, id: BootstrapId, status: Status) {
        for arrival in self.take_bootstrap(id).into_iter().flat_map(|open| open.arrivals) {
            self.outputs.reply_status(arrival.ticket, status);
        }
    }

    /// Takes back the tickets of a connection. Without a leader the group can't be formed.
    pub(in crate::server::rules) fn withdraw_from_bootstraps(&mut self, peer: PeerId) -> Vec<Ticket> {
        let mut tickets = Vec::new();
        for id in self.bootstraps.of_peer(peer) {
            if self.bootstraps.withdraw(id, peer, &mut tickets) {
                self.end_bootstrap(id, ABORTED);
            }
        }
        tickets
    }
}

/// The members that a leader names and adds, and its other directives; `None`: too many.
fn parted(request: proto::Collective, limits: &Limits) -> Option<(Vec<ProcId>, Vec<Info>)> {
    let proto::Collective { procs: mut named, mut directives } = request;
    let added = find(&directives, keys::GROUP_ADD_MEMBERS).map(|info| &info.value);
    let added_count =
        added.map_or(0, |value| if let Value::DataArray(array) = value { array.elements.len() } else { 0 });
    if named.len().saturating_add(added_count) > limits.participants_max || directives.len() > MERGED_DIRECTIVES_MAX {
        return None;
    }
    named.extend(added.and_then(membership_in).unwrap_or_default());
    let for_all = [keys::GROUP_ADD_MEMBERS.name(), keys::TIMEOUT.name()];
    directives.retain(|info| !for_all.contains(&info.key.as_str()));
    Some((named, directives))
}
