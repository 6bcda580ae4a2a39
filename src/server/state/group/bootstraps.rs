//! Groups that wait for leaders.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::server::interface::PeerId;
use crate::server::state::outputs::Ticket;
use crate::types::{Info, ProcId, Status, Text, Time};

/// Groups that wait for leaders.
#[derive(Debug, Default)]
pub(crate) struct Bootstraps {
    open: BTreeMap<BootstrapId, Bootstrap>,
    last: u64,
}

/// Identifies one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BootstrapId(u64);

/// One group that waits.
#[derive(Debug)]
pub(crate) struct Bootstrap {
    pub(crate) id: Text,
    /// Only processes of one user meet here.
    pub(crate) user: u32,
    /// Number of leaders; `None`: no leader has arrived yet.
    leader_count: Option<usize>,
    pub(crate) arrivals: Vec<BootstrapArrival>,
    /// The arrived leaders, and the members that they name or add.
    pub(crate) members: BTreeSet<ProcId>,
    pub(crate) deadline: Time,
    /// Whether a process has set a timeout.
    pub(crate) is_timed: bool,
}

/// An arrived process.
#[derive(Debug)]
pub(crate) struct BootstrapArrival {
    pub(crate) ticket: Ticket,
    pub(crate) proc: ProcId,
    pub(crate) leads: bool,
    /// Without added members and timeout: these apply to all.
    pub(crate) directives: Vec<Info>,
    /// Memory of these and of the named members, in bytes.
    pub(crate) size_bytes: usize,
}

impl Bootstraps {
    /// The waiting connections.
    pub(crate) fn waiting_peers(&self) -> impl Iterator<Item = PeerId> {
        self.open.values().flat_map(|open| open.arrivals.iter().map(|arrival| arrival.ticket.peer()))
    }

    pub(crate) fn deadline(&self, id: BootstrapId) -> Option<Time> {
        self.open.get(&id).map(|open| open.deadline)
    }

    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// Number of held arrivals, in all and of a process.
    pub(crate) fn counts(&self, proc: &ProcId) -> (usize, usize) {
        let held = || self.open.values().flat_map(|open| &open.arrivals);
        (held().count(), held().filter(|arrival| arrival.proc == *proc).count())
    }

    /// Memory of all contributions, in bytes.
    pub(crate) fn size_bytes(&self) -> usize {
        size_bytes(self.open.values())
    }

    pub(crate) fn size_bytes_of_user(&self, uid: u32) -> usize {
        size_bytes(self.of_user(uid))
    }

    pub(crate) fn of_user(&self, uid: u32) -> impl Iterator<Item = &Bootstrap> {
        self.open.values().filter(move |open| open.user == uid)
    }

    pub(crate) fn named(&self, id: &Text, user: u32) -> Option<BootstrapId> {
        self.open.iter().find(|(_, open)| open.id == *id && open.user == user).map(|(id, _)| *id)
    }

    pub(crate) fn get(&self, id: BootstrapId) -> Option<&Bootstrap> {
        self.open.get(&id)
    }

    /// Opens a group. Returns its id and deadline.
    pub(crate) fn open(&mut self, now: Time, id: Text, user: u32) -> (BootstrapId, Time) {
        self.last = self.last.saturating_add(1);
        let bootstrap = BootstrapId(self.last);
        let deadline = now + LEADERS_WAIT_MAX;
        let (arrivals, members) = (Vec::new(), BTreeSet::new());
        let open = Bootstrap { id, user, leader_count: None, arrivals, members, deadline, is_timed: false };
        self.open.insert(bootstrap, open);
        (bootstrap, deadline)
    }

    pub(crate) fn remove(&mut self, id: BootstrapId) -> Option<Bootstrap> {
        self.open.remove(&id)
    }

    /// A process arrives. A leader brings the number of leaders, itself and the members that it names.
    ///
    /// # Errors
    /// It disagrees with others about the number of leaders, its connection waits already, or the group is gone.
    pub(crate) fn arrive(
        &mut self,
        id: BootstrapId,
        arrival: BootstrapArrival,
        leader_count: Option<usize>,
        named: Vec<ProcId>,
    ) -> Result<(), (Ticket, Status)> {
        let Some(open) = self.open.get_mut(&id) else { return Err((arrival.ticket, Status::ERR_NOT_AVAILABLE)) };
        let disagrees = leader_count.is_some() && open.leader_count.is_some_and(|known| Some(known) != leader_count);
        let is_repeated = open.arrivals.iter().any(|earlier| earlier.ticket.peer() == arrival.ticket.peer());
        if disagrees || is_repeated {
            return Err((arrival.ticket, Status::ERR_BAD_PARAM));
        }
        open.leader_count = open.leader_count.or(leader_count);
        if arrival.leads {
            open.members.insert(arrival.proc.clone());
            open.members.extend(named);
        }
        open.arrivals.push(arrival);
        Ok(())
    }

    /// Sets the first timeout of a process. Returns the deadline that it replaces.
    pub(crate) fn bound(&mut self, id: BootstrapId, deadline: Time) -> Option<Time> {
        let open = self.open.get_mut(&id).filter(|open| !open.is_timed)?;
        open.is_timed = true;
        Some(std::mem::replace(&mut open.deadline, deadline))
    }

    /// Takes back the tickets of a connection. Returns whether the group
    /// has lost a leader or its last process, and so can't be formed.
    pub(crate) fn withdraw(&mut self, id: BootstrapId, peer: PeerId, tickets: &mut Vec<Ticket>) -> bool {
        let Some(open) = self.open.get_mut(&id) else { return false };
        let leaders = open.leaders().len();
        let own = open.arrivals.extract_if(.., |arrival| arrival.ticket.peer() == peer);
        tickets.extend(own.map(|arrival| arrival.ticket));
        open.arrivals.is_empty() || open.leaders().len() < leaders
    }

    pub(crate) fn of_peer(&self, peer: PeerId) -> Vec<BootstrapId> {
        let waits = |open: &Bootstrap| open.arrivals.iter().any(|arrival| arrival.ticket.peer() == peer);
        self.open.iter().filter(|(_, open)| waits(open)).map(|(id, _)| *id).collect()
    }
}

impl Bootstrap {
    fn leaders(&self) -> BTreeSet<&ProcId> {
        self.arrivals.iter().filter(|arrival| arrival.leads).map(|arrival| &arrival.proc).collect()
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.leader_count.is_some_and(|count| self.leaders().len() >= count)
    }
}

fn size_bytes<'a>(bootstraps: impl Iterator<Item = &'a Bootstrap>) -> usize {
    bootstraps.flat_map(|open| &open.arrivals).map(|arrival| arrival.size_bytes).fold(0, usize::saturating_add)
}

/// Time that arrived processes wait for leaders without a timeout of their own, because the leaders may have ended.
const LEADERS_WAIT_MAX: Duration = Duration::from_secs(60);
