//! Groups whose members do not know each other: leaders know only the number of leaders, and each adds members. A host
//! that forms groups brings them together. Without such a host, this server does it for the processes of this node.
//!
//! The members are unknown until all leaders have arrived, so arrived processes are held. Then the group is formed like
//! any other, of the leaders and the members that they add.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{ABORTED, membership_in};
use crate::gds::Datastore;
use crate::keys;
use crate::proto;
use crate::server::dispatch::core::Server;
use crate::server::interface::config::Limits;
use crate::server::interface::directives::{find, timeout};
use crate::server::interface::io::PeerId;
use crate::server::interface::requests::GroupOperation;
use crate::server::rules::rendezvous::MERGED_DIRECTIVES_MAX;
use crate::server::state::collective::{size_of_infos, size_of_procs};
use crate::server::state::outputs::Ticket;
use crate::server::state::shares::Pool;
use crate::server::state::signature::{Kind, Signature};
use crate::server::state::timers::Timer;
use crate::types::{Info, ProcId, Rank, Status, Text, Time, Value};

/// Groups that wait for leaders.
#[derive(Debug, Default)]
pub(in crate::server) struct Bootstraps {
    open: BTreeMap<BootstrapId, Bootstrap>,
    last: u64,
}

/// Identifies one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::server) struct BootstrapId(u64);

/// One group that waits.
#[derive(Debug)]
struct Bootstrap {
    id: Text,
    /// Only processes of one user meet here.
    user: u32,
    /// Number of leaders; `None`: no leader has arrived yet.
    leader_count: Option<usize>,
    arrivals: Vec<Arrival>,
    /// The arrived leaders, and the members that they name or add.
    members: BTreeSet<ProcId>,
    deadline: Time,
    /// Whether a process has set a timeout.
    is_timed: bool,
}

/// An arrived process.
#[derive(Debug)]
struct Arrival {
    ticket: Ticket,
    proc: ProcId,
    leads: bool,
    /// Without added members and timeout: these apply to all.
    directives: Vec<Info>,
    /// Memory of these and of the named members, in bytes.
    size_bytes: usize,
}

impl Bootstraps {
    /// The waiting connections.
    pub(in crate::server) fn waiting_peers(&self) -> impl Iterator<Item = PeerId> {
        self.open.values().flat_map(|open| open.arrivals.iter().map(|arrival| arrival.ticket.peer()))
    }

    pub(in crate::server) fn deadline(&self, id: BootstrapId) -> Option<Time> {
        self.open.get(&id).map(|open| open.deadline)
    }

    pub(in crate::server) fn len(&self) -> usize {
        self.open.len()
    }

    /// Number of held arrivals, in all and of a process.
    fn counts(&self, proc: &ProcId) -> (usize, usize) {
        let held = || self.open.values().flat_map(|open| &open.arrivals);
        (held().count(), held().filter(|arrival| arrival.proc == *proc).count())
    }

    /// Memory of all contributions, in bytes.
    pub(in crate::server) fn size_bytes(&self) -> usize {
        size_bytes(self.open.values())
    }

    pub(in crate::server) fn size_bytes_of_user(&self, uid: u32) -> usize {
        size_bytes(self.of_user(uid))
    }

    fn of_user(&self, uid: u32) -> impl Iterator<Item = &Bootstrap> {
        self.open.values().filter(move |open| open.user == uid)
    }

    fn named(&self, id: &Text, user: u32) -> Option<BootstrapId> {
        self.open.iter().find(|(_, open)| open.id == *id && open.user == user).map(|(id, _)| *id)
    }

    fn of_peer(&self, peer: PeerId) -> Vec<BootstrapId> {
        let waits = |open: &Bootstrap| open.arrivals.iter().any(|arrival| arrival.ticket.peer() == peer);
        self.open.iter().filter(|(_, open)| waits(open)).map(|(id, _)| *id).collect()
    }
}

impl Bootstrap {
    fn leaders(&self) -> BTreeSet<&ProcId> {
        self.arrivals.iter().filter(|arrival| arrival.leads).map(|arrival| &arrival.proc).collect()
    }

    fn is_whole(&self) -> bool {
        self.leader_count.is_some_and(|count| self.leaders().len() >= count)
    }
}

impl<S: Datastore> Server<S> {
    /// A process helps to form a group without naming its members, and no host can find them.
    pub(super) fn gather_bootstrap(
        &mut self,
        now: Time,
        ticket: Ticket,
        proc: ProcId,
        id: Text,
        request: proto::Collective,
    ) {
        let kind = Kind::Group(GroupOperation::Construct, id.clone());
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
        let Some(user) = self.peers.get(ticket.peer()).map(|peer| peer.credentials.uid) else {
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
        let Some(open) = self.bootstraps.open.get_mut(&bootstrap) else {
            return Err((ticket, Status::ERR_NOT_AVAILABLE));
        };
        let disagrees = count.is_some() && open.leader_count.is_some_and(|known| Some(known) != count);
        let is_repeated = open.arrivals.iter().any(|arrival| arrival.ticket.peer() == ticket.peer());
        if disagrees || is_repeated {
            return Err((ticket, Status::ERR_BAD_PARAM));
        }
        open.leader_count = open.leader_count.or(count);
        let leads = count.is_some();
        if leads {
            open.members.insert(proc.clone());
            open.members.extend(named);
        }
        open.arrivals.push(Arrival { ticket, proc, leads, directives, size_bytes });
        if let (Some(limit), false) = (limit, open.is_timed) {
            let earlier = std::mem::replace(&mut open.deadline, limit);
            open.is_timed = true;
            self.timers.disarm(Some(earlier), Timer::Bootstrap(bootstrap));
            self.timers.arm(Some(limit), Timer::Bootstrap(bootstrap));
        }
        Ok(bootstrap)
    }

    fn open_bootstrap(&mut self, now: Time, id: Text, user: u32) -> BootstrapId {
        self.bootstraps.last = self.bootstraps.last.saturating_add(1);
        let bootstrap = BootstrapId(self.bootstraps.last);
        let deadline = now + LEADERS_WAIT_MAX;
        let (arrivals, members) = (Vec::new(), BTreeSet::new());
        let open = Bootstrap { id, user, leader_count: None, arrivals, members, deadline, is_timed: false };
        self.bootstraps.open.insert(bootstrap, open);
        self.timers.arm(Some(deadline), Timer::Bootstrap(bootstrap));
        bootstrap
    }

    fn take_bootstrap(&mut self, id: BootstrapId) -> Option<Bootstrap> {
        let open = self.bootstraps.open.remove(&id)?;
        self.timers.disarm(Some(open.deadline), Timer::Bootstrap(id));
        Some(open)
    }

    /// Starts the operation if all leaders have arrived, so that the members are known.
    fn begin_if_whole(&mut self, now: Time, id: BootstrapId) {
        if !self.bootstraps.open.get(&id).is_some_and(Bootstrap::is_whole) {
            return;
        }
        let Some(open) = self.take_bootstrap(id) else { return };
        let Some(leader) = open.arrivals.iter().find(|arrival| arrival.leads) else { return };
        let procs = open.members.into_iter().collect();
        let procs = self.groups.translate(&self.registry, procs, &leader.proc, self.config.limits.participants_max);
        let has_ended = self.registry.ended_among(&procs).is_some();
        let whole = Signature::new(Kind::Group(GroupOperation::Construct, open.id), procs);
        let (mut operation, mut entered) = (None, BTreeSet::new());
        for Arrival { ticket, proc, directives, .. } in open.arrivals {
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
                None => self.collectives.open(whole.clone(), directives.clone(), Some(open.user)),
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

    /// Whether leaders have named more members together than an operation may have.
    fn is_too_large(&self, id: BootstrapId) -> bool {
        let members = self.bootstraps.open.get(&id).map_or(0, |open| open.members.len());
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
    pub(in crate::server) fn withdraw_from_bootstraps(&mut self, peer: PeerId) -> Vec<Ticket> {
        let mut tickets = Vec::new();
        for id in self.bootstraps.of_peer(peer) {
            let Some(open) = self.bootstraps.open.get_mut(&id) else { continue };
            let leaders = open.leaders().len();
            let own = open.arrivals.extract_if(.., |arrival| arrival.ticket.peer() == peer);
            tickets.extend(own.map(|arrival| arrival.ticket));
            if open.arrivals.is_empty() || open.leaders().len() < leaders {
                self.end_bootstrap(id, ABORTED);
            }
        }
        tickets
    }
}

fn size_bytes<'a>(bootstraps: impl Iterator<Item = &'a Bootstrap>) -> usize {
    bootstraps.flat_map(|open| &open.arrivals).map(|arrival| arrival.size_bytes).fold(0, usize::saturating_add)
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

/// Time that arrived processes wait for leaders without a timeout of their own, because the leaders may have ended.
const LEADERS_WAIT_MAX: Duration = Duration::from_secs(60);
