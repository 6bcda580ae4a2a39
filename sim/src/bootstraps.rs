//! Groups whose members are not known yet, on servers whose host forms no groups. This account of callers is compared
//! with the server's own.
//!
//! Source: PMIx Standard, "Process Sets and Groups" (bootstrap): leaders know their number, and name the members that
//! they add. A group is complete when all leaders and all added members have called. Once all leaders have come, the
//! members are known, and `local_collectives` takes over.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use modex::proto::Tag;
use modex::server::PeerId;
use modex::types::{ProcId, Status, Text, Time};

use super::queue::ServerId;

/// A request to form a group, from a process that does not know the members.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub(super) peer: PeerId,
    pub(super) tag: Tag,
    pub(super) process: u32,
    pub(super) proc: ProcId,
    /// The number of leaders, as a leader gives it.
    pub(super) count: Option<u64>,
    /// Processes that a leader names, itself included.
    pub(super) named: Vec<ProcId>,
}

/// Callers under one name, while leaders are missing.
#[derive(Debug)]
pub(super) struct Round {
    count: Option<u64>,
    pub(super) calls: Vec<Caller>,
    /// Processes that leaders have named.
    pub(super) named: BTreeSet<ProcId>,
    /// The time limit of the first caller that gives one; until then the limit of servers.
    deadline: Time,
    is_timed: bool,
    /// A leader has come and gone: there will be no group.
    is_lost: bool,
    /// A caller has heard that there will be no group.
    is_given_up: bool,
}

impl Round {
    fn leaders(&self) -> BTreeSet<&ProcId> {
        self.calls.iter().filter(|call| call.count.is_some()).map(|call| &call.proc).collect()
    }

    fn is_whole(&self) -> bool {
        let leaders = u64::try_from(self.leaders().len()).unwrap_or(u64::MAX);
        self.count.is_some_and(|count| leaders >= count)
    }

    /// The time by which its members must have come, if a caller has set one.
    pub(super) fn time_named(&self) -> Option<Time> {
        self.is_timed.then_some(self.deadline)
    }
}

/// The effect of a caller on the waiting callers.
#[derive(Debug)]
pub(super) enum Joined {
    /// They wait for leaders until that time.
    Waits(Vec<(PeerId, Tag)>, Time),
    /// All leaders have come.
    Whole(Round),
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Bootstraps {
    rounds: BTreeMap<(ServerId, Text), Round>,
    by_request: BTreeMap<(PeerId, Tag), (ServerId, Text)>,
    /// Callers of a group that does not name them; their refusal is still to come.
    strangers: BTreeMap<(PeerId, Tag), ServerId>,
    /// The groups that processes are in, as the processes were told.
    known_members: BTreeMap<(u32, Text), Vec<ProcId>>,
}

impl Bootstraps {
    /// Whether a server must refuse a request: its count differs or is missing, or its process has asked already.
    pub(super) fn is_nonsense(&self, server: ServerId, name: &Text, caller: &Caller) -> bool {
        let round = self.rounds.get(&(server, name.clone()));
        let has_asked = round.is_some_and(|round| round.calls.iter().any(|call| call.peer == caller.peer));
        let others = round.and_then(|round| round.count);
        let disagrees = caller.count.zip(others).is_some_and(|(own, others)| own != others);
        caller.count == Some(0) || disagrees || has_asked
    }

    /// A request has been taken.
    pub(super) fn join(
        &mut self,
        server: ServerId,
        name: &Text,
        caller: Caller,
        now: Time,
        limit: Option<Duration>,
    ) -> Joined {
        let place = (server, name.clone());
        let round = self.rounds.entry(place.clone()).or_insert_with(|| Round {
            count: None,
            calls: Vec::new(),
            named: BTreeSet::new(),
            deadline: now + LEADERS_AWAITED,
            is_timed: false,
            is_lost: false,
            is_given_up: false,
        });
        round.count = round.count.or(caller.count);
        round.named.extend(caller.named.iter().cloned());
        if let Some(limit) = limit.filter(|_| !round.is_timed) {
            (round.deadline, round.is_timed) = (now + limit, true);
        }
        self.by_request.insert((caller.peer, caller.tag), place.clone());
        round.calls.push(caller);
        let waits = Joined::Waits(round.calls.iter().map(|call| (call.peer, call.tag)).collect(), round.deadline);
        if !round.is_whole() {
            return waits;
        }
        let Some(round) = self.rounds.remove(&place) else { return waits };
        for call in &round.calls {
            self.by_request.remove(&(call.peer, call.tag));
            if !round.named.contains(&call.proc) {
                self.strangers.insert((call.peer, call.tag), server);
            }
        }
        Joined::Whole(round)
    }

    /// A server answers. Returns the fault in the answer. `None` also stands for an answer about something else.
    pub(super) fn replied(&mut self, peer: PeerId, tag: Tag, status: Status, now: Time) -> Option<String> {
        let is_closing = status == Status::ERR_NOT_AVAILABLE;
        if self.strangers.remove(&(peer, tag)).is_some() {
            let is_refused = status == Status::ERR_NOT_A_MEMBER || is_closing;
            return (!is_refused).then(|| format!("{peer:?}, without a leader that named it, gets {status}"));
        }
        let place = self.by_request.get(&(peer, tag))?.clone();
        let round = self.rounds.get_mut(&place)?;
        let (is_late, what) = (round.deadline <= now, &place.1);
        let wrong = match status {
            Status::GROUP_CONSTRUCT_ABORT => {
                // The leader's own connection may end a little later in this step.
                round.is_given_up = true;
                None
            }
            Status::ERR_TIMEOUT if is_late => None,
            _ if is_closing => None,
            _ => Some(format!("{peer:?} waits for leaders of {what:?} and gets {status}")),
        };
        self.take_out(peer, tag, is_closing);
        wrong
    }

    /// A connection has ended, and its requests with it.
    pub(super) fn connection_ended(&mut self, peer: PeerId) {
        let all = (peer, Tag(0))..=(peer, Tag(u32::MAX));
        self.strangers.extract_if(all.clone(), |_, _| true).for_each(drop);
        let tags: Vec<Tag> = self.by_request.range(all).map(|((_, tag), _)| *tag).collect();
        tags.into_iter().for_each(|tag| self.take_out(peer, tag, true));
    }

    fn take_out(&mut self, peer: PeerId, tag: Tag, has_gone: bool) {
        let Some(place) = self.by_request.remove(&(peer, tag)) else { return };
        let Some(round) = self.rounds.get_mut(&place) else { return };
        let leaders = round.leaders().len();
        round.calls.retain(|call| (call.peer, call.tag) != (peer, tag));
        round.is_lost |= has_gone && round.leaders().len() < leaders;
    }

    /// A server has finished its work of one moment. Returns the fault in the state that it left.
    pub(super) fn step_ended(&mut self, server: ServerId) -> Option<String> {
        if self.rounds.is_empty() && self.strangers.is_empty() {
            return None;
        }
        let next = ServerId { epoch: server.epoch + 1, ..server };
        let of_server = (server, Text::from(""))..(next, Text::from(""));
        let wrong = |((_, name), round): (&(ServerId, Text), &Round)| match round {
            Round { is_lost: true, calls, .. } if !calls.is_empty() => {
                Some(format!("{calls:?} wait for leaders of {name:?}, one of which has ended"))
            }
            Round { is_lost: false, is_given_up: true, .. } => {
                Some(format!("{name:?} is given up, and none of its leaders has gone"))
            }
            _ => None,
        };
        let stranger = self.strangers.iter().find(|(_, of)| **of == server);
        let found = self.rounds.range(of_server.clone()).find_map(wrong);
        let found = found.or_else(|| stranger.map(|(of, _)| format!("{of:?} is in no group and gets no reply")));
        self.rounds.extract_if(of_server, |_, round| round.calls.is_empty()).for_each(drop);
        found
    }

    /// A process is told that it is in a group.
    pub(super) fn tell(&mut self, process: u32, name: Text, members: Vec<ProcId>) {
        self.known_members.insert((process, name), members);
    }

    /// Its group is no more.
    pub(super) fn untell(&mut self, process: u32, name: &Text) {
        self.known_members.remove(&(process, name.clone()));
    }

    pub(super) fn known_members(&self, process: u32, name: &Text) -> Option<Vec<ProcId>> {
        self.known_members.get(&(process, name.clone())).cloned()
    }

    /// A server is gone.
    pub(super) fn forgotten(&mut self, server: ServerId) {
        self.rounds.retain(|(of, _), _| *of != server);
        self.by_request.retain(|_, (of, _)| *of != server);
        self.strangers.retain(|_, of| *of != server);
    }
}

/// A request about a group, before it enters the account. A request that is refused at once never enters.
#[derive(Debug)]
pub(super) struct PendingGroupRequest {
    pub(super) server: ServerId,
    pub(super) caller: Caller,
    pub(super) request: GroupRequestKind,
    pub(super) name: Text,
    pub(super) limit: Option<Duration>,
}

#[derive(Debug)]
pub(super) enum GroupRequestKind {
    /// To lead, or to join the group of leaders.
    Bootstrap,
    Construct(Vec<ProcId>),
    Destruct(Vec<ProcId>),
}

/// The longest wait for leaders without a time limit: nobody can tell whether unknown leaders live.
const LEADERS_AWAITED: Duration = Duration::from_secs(60);
