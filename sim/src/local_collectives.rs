//! Arrivals at collective operations: the standard's account of the local phase, compared with the server's own.
//!
//! Source: PMIx Standard, "Process-Related Non-Reserved Keys" and fence. Every local participant contributes once, and
//! the server makes one upcall. A repeated call with the same participants opens a new operation.
//!
//! A host may register a job with a server only when that server asks to connect to it (`registration`). A job with
//! processes on the server's node is registered less than a second after it can be named. Rules for operations over
//! unregistered jobs:
//!
//! 1. A connect goes up as soon as it lacks only registrations: no other request could bring them. The host hears of
//!    known participants that have gone.
//! 2. It stays open then: processes of newly registered jobs join it, and its time limit ends it.
//! 3. It ends well, or in part, once the host has agreed and all jobs are registered and all their local processes have
//!    come or gone. It also ends after a second in which it lacked only registrations: unregistered jobs then have no
//!    process here. It ends neither earlier nor later. Processes that have gone in between are missing.
//! 4. A disconnect goes up after it has lacked only registrations for that second, neither earlier nor later.
//!    Operations on groups that the host forms have no account; they go up no earlier (`hosted_groups`).
//! 5. Fences wait for all registrations. With a host of the usual kind, all operations do.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use modex::proto::Tag;
use modex::server::{PeerId, UpcallId};
use modex::types::{ProcId, Status, Text, Time};

use super::queue::ServerId;
use super::setup::HOST_TIMEOUT;
use super::value::Promise;

/// Kinds of operations that never match each other. Groups have an account here where servers form them without a host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CollectiveKind {
    Fence,
    Connect,
    Disconnect,
    Construct(Text),
    Destruct(Text),
}

impl CollectiveKind {
    /// Whether the operation ends an earlier one, begun when all its jobs were registered.
    pub(super) const fn takes_back(&self) -> bool {
        matches!(self, Self::Disconnect | Self::Destruct(_))
    }
}

/// An operation's participants, as known when it opens.
#[derive(Debug, Default)]
pub(super) struct Local {
    /// Participants on the server's node.
    pub(super) expected: BTreeSet<u32>,
    /// Processes that can't come.
    pub(super) gone: BTreeSet<u32>,
    /// The server's knowledge of the participants.
    pub(super) knowledge: Knowledge,
    /// Whether the operation needs a host and has none.
    pub(super) is_impossible: bool,
    /// Whether the first participant asks for the values of all.
    pub(super) collects: bool,
}

/// The key on which participants agree: the kind, and the set as written, sorted.
pub(super) type Signature = (CollectiveKind, Rc<[ProcId]>);

pub(super) fn signature(kind: CollectiveKind, procs: &[ProcId]) -> Signature {
    let mut procs = procs.to_vec();
    procs.sort_unstable();
    procs.dedup();
    (kind, procs.into())
}

/// One operation on one server.
#[derive(Debug)]
pub(super) struct LocalCollective {
    number: u64,
    stage: Stage,
    /// Local participants that must come.
    pub(super) expected: BTreeSet<u32>,
    pub(super) contributed: BTreeSet<u32>,
    /// Processes that have gone at some time while it was open.
    pub(super) departed: BTreeSet<u32>,
    /// The server's knowledge of the participants.
    knowledge: Knowledge,
    missing_registrations: MissingRegistrations,
    pub(super) is_impossible: bool,
    pub(super) collects: bool,
    waiting: BTreeMap<PeerId, Arrival>,
    deadline: Option<Time>,
    /// The same, for participants that hear of its end one after the other.
    pub(super) due: Option<Time>,
    /// Set when the host has answered with success.
    pub(super) promise: Option<Rc<Promise>>,
}

/// A request that has joined an operation, and the state before it, in case the server takes it back.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    tag: Tag,
    process: u32,
    /// Another of the process's requests had come before, perhaps in an earlier life.
    had_contributed: bool,
    had_departed: bool,
    /// It has started the operation's clock.
    has_timed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Open,
    /// The host has been asked before all jobs were registered.
    Early,
    AtHost(UpcallId),
}

impl LocalCollective {
    /// Participants that have not come.
    pub(super) fn missing(&self) -> BTreeSet<u32> {
        self.expected.difference(&self.contributed).copied().collect()
    }

    /// A participant that has not come although it could have.
    pub(super) fn left_out(&self) -> Option<u32> {
        self.missing().difference(&self.departed).next().copied()
    }

    pub(super) fn is_at_host(&self) -> bool {
        self.stage != Stage::Open
    }

    /// Whether no participant is awaited.
    fn is_done(&self) -> bool {
        let is_settled = self.is_impossible || self.left_out().is_none();
        self.stage == Stage::Open && self.is_defined() && is_settled
    }
}

/// The end of an operation, as a reply reports it.
#[derive(Debug)]
pub(super) enum Ended {
    /// It was no operation, or the request never became part of one.
    Nothing,
    /// The operation has ended well for this participant.
    Well { left_out: Option<u32>, missing: usize, promise: Option<Rc<Promise>>, was_answered: bool },
    /// It has ended well or in part, and should not have.
    Wrongly(String),
}

/// All operations of all servers.
#[derive(Debug, Default)]
pub(super) struct LocalCollectives {
    places: BTreeMap<(ServerId, Signature), VecDeque<LocalCollective>>,
    by_request: BTreeMap<(PeerId, Tag), (ServerId, Signature, u64)>,
    by_upcall: BTreeMap<(ServerId, UpcallId), (Signature, u64)>,
    last: u64,
}

impl LocalCollectives {
    /// A request arrives. Returns the operation's clock: the first participant with a time limit starts it for all.
    pub(super) fn arrive(
        &mut self,
        server: ServerId,
        signature: Signature,
        (peer, tag, process): (PeerId, Tag, u32),
        (now, deadline): (Time, Option<Time>),
        local: impl FnOnce() -> Local,
    ) -> Option<Time> {
        let operations = self.places.entry((server, signature.clone())).or_default();
        let is_free = |op: &&mut LocalCollective| op.takes_more(now) && !op.waiting.contains_key(&peer);
        let (number, clock) = match operations.iter_mut().find(is_free) {
            Some(operation) => {
                operation.join(peer, tag, process, deadline);
                (operation.number, operation.deadline)
            }
            None => {
                self.last += 1;
                let Local { expected, gone, knowledge, is_impossible, collects } = local();
                let departed = if knowledge == Knowledge::Little { BTreeSet::new() } else { gone };
                let mut operation = LocalCollective {
                    number: self.last,
                    stage: Stage::Open,
                    expected,
                    contributed: BTreeSet::new(),
                    departed,
                    knowledge,
                    missing_registrations: MissingRegistrations::default(),
                    is_impossible,
                    collects,
                    waiting: BTreeMap::new(),
                    deadline: None,
                    due: None,
                    promise: None,
                };
                operation.join(peer, tag, process, deadline);
                let clock = operation.deadline;
                operations.push_back(operation);
                (self.last, clock)
            }
        };
        self.by_request.insert((peer, tag), (server, signature, number));
        clock
    }

    /// The operation that a request has joined.
    pub(super) fn of_request(&self, peer: PeerId, tag: Tag) -> Option<(&Signature, &LocalCollective)> {
        let (server, signature, number) = self.by_request.get(&(peer, tag))?;
        let operations = self.places.get(&(*server, signature.clone()))?;
        Some((signature, operations.iter().find(|operation| operation.number == *number)?))
    }

    /// The oldest open group of this name that names a process and does not hold its connection yet.
    pub(super) fn group_with(&self, server: ServerId, name: &Text, proc: &ProcId, peer: PeerId) -> Option<Signature> {
        let kind = CollectiveKind::Construct(name.clone());
        let first = (server, (kind.clone(), Rc::from([])));
        let of_name = self.places.range(first..).take_while(|((of, (other, _)), _)| *of == server && *other == kind);
        let naming = of_name.filter(|((_, (_, procs)), _)| procs.contains(proc));
        let is_free = |op: &&LocalCollective| op.stage == Stage::Open && !op.waiting.contains_key(&peer);
        let free = naming.filter_map(|((_, of), all)| Some((all.iter().find(is_free)?.number, of)));
        free.min_by_key(|(number, _)| *number).map(|(_, signature)| signature.clone())
    }

    /// The server hands the oldest open operation to its host.
    pub(super) fn handed_over(
        &mut self,
        server: ServerId,
        signature: &Signature,
        upcall: UpcallId,
        now: Time,
    ) -> Option<&LocalCollective> {
        let operations = self.places.get_mut(&(server, signature.clone()))?;
        let operation = operations.iter_mut().find(|operation| operation.stage == Stage::Open)?;
        operation.go_up(&signature.0, upcall, now);
        self.by_upcall.insert((server, upcall), (signature.clone(), operation.number));
        Some(operation)
    }

    /// The host answers with success, and with the values that the participants had committed.
    pub(super) fn promised(&mut self, server: ServerId, upcall: UpcallId, promise: Rc<Promise>) {
        let Some((signature, number)) = self.by_upcall.get(&(server, upcall)).cloned() else { return };
        let operations = self.places.get_mut(&(server, signature));
        if let Some(operation) = operations.and_then(|all| all.iter_mut().find(|op| op.number == number)) {
            operation.promise = Some(promise);
        }
    }

    /// A reply to a request. `is_new`: the input that brought the request also caused the reply.
    pub(super) fn replied(&mut self, now: Time, peer: PeerId, tag: Tag, status: Status, is_new: bool) -> Ended {
        let Some((server, signature, number)) = self.by_request.remove(&(peer, tag)) else { return Ended::Nothing };
        let Some(operations) = self.places.get_mut(&(server, signature.clone())) else { return Ended::Nothing };
        let Some(place) = operations.iter().position(|operation| operation.number == number) else {
            return Ended::Nothing;
        };
        let Some(operation) = operations.get_mut(place) else { return Ended::Nothing };
        let left = operation.waiting.remove(&peer);
        if status == Status::ERR_NOT_AVAILABLE {
            // The connection is being closed. Its contribution stays.
            return Ended::Nothing;
        }
        if is_new && REFUSALS.contains(&status) {
            if let Some(arrival) = left {
                operation.take_back(arrival);
            }
            if operation.contributed.is_empty() && operation.waiting.is_empty() {
                operations.remove(place);
            }
            return Ended::Nothing;
        }
        let ended = match status {
            Status::SUCCESS | Status::ERR_PARTIAL_SUCCESS if let Some(what) = operation.objection(now) => {
                Ended::Wrongly(what)
            }
            Status::SUCCESS => Ended::Well {
                left_out: operation.left_out(),
                missing: operation.missing().len(),
                promise: operation.promise.clone(),
                was_answered: operation.is_at_host(),
            },
            _ => Ended::Nothing,
        };
        // All waiting participants are answered at once.
        if operation.waiting.is_empty() {
            self.remove(server, &signature, number);
        } else if let Stage::Open = operation.stage {
            // No newcomer joins an operation that is ending.
            operation.deadline = None;
        }
        ended
    }

    /// A waiting participant of an operation that lacks others, if there is one.
    pub(super) fn somebody_waiting(&self, server: ServerId) -> Option<(PeerId, Tag)> {
        let first = (server, (CollectiveKind::Fence, Rc::from([])));
        let places = self.places.range(first..).take_while(|((of, _), _)| *of == server);
        let mut operations = places.flat_map(|(_, operations)| operations);
        let operation = operations.find(|op| op.left_out().is_some() && !op.waiting.is_empty())?;
        operation.waiting.iter().next().map(|(peer, arrival)| (*peer, arrival.tag))
    }

    /// A connection ended: it waits no more, but its contribution stays.
    pub(super) fn connection_ended(&mut self, peer: PeerId) {
        let first = (peer, Tag(0));
        let requests: Vec<_> = self.by_request.range(first..=(peer, Tag(u32::MAX))).map(|(id, _)| *id).collect();
        for request in requests {
            let Some((server, signature, number)) = self.by_request.remove(&request) else { continue };
            let operations = self.places.get_mut(&(server, signature));
            if let Some(operation) = operations.and_then(|all| all.iter_mut().find(|op| op.number == number)) {
                operation.waiting.remove(&peer);
            }
        }
    }

    /// A process has gone for good, as far as its server can tell.
    pub(super) fn departed(&mut self, server: ServerId, process: u32) {
        for (_, operations) in self.on_mut(server) {
            for operation in operations.iter_mut().filter(|of| of.knowledge != Knowledge::Little) {
                operation.departed.insert(process);
            }
        }
    }

    /// The host has registered something. The participants may be known now.
    pub(super) fn registered(
        &mut self,
        server: ServerId,
        gone: &BTreeSet<u32>,
        knowledge: impl Fn(&CollectiveKind, &[ProcId]) -> Knowledge,
    ) {
        for ((kind, procs), operations) in self.on_mut(server) {
            for operation in operations.iter_mut().filter(|operation| !operation.is_defined()) {
                operation.knowledge = knowledge(kind, procs);
                if operation.knowledge != Knowledge::Little {
                    operation.departed.extend(gone.difference(&operation.contributed));
                }
            }
        }
    }

    /// An operation that waits although every possible participant has come.
    pub(super) fn complete_but_waiting(&mut self, server: ServerId, now: Time) -> Option<String> {
        let mut found = None;
        for ((kind, procs), operations) in self.on_mut(server) {
            operations.iter_mut().for_each(|op| op.note_lacking(kind, now));
            let oldest = operations.front().map(|op| op.number);
            operations.retain(|op| !op.has_ended_unseen(oldest == Some(op.number), now));
            // An operation of this node alone ends without a reply once nobody waits for it.
            operations.retain(|op| !(op.waiting.is_empty() && op.is_done()));
            let is_overdue =
                |(place, op): (usize, &LocalCollective)| op.is_done() || op.is_overdue(kind, place == 0, now);
            if operations.iter().enumerate().any(is_overdue) {
                found = Some(format!("{kind:?} {procs:?}"));
            }
        }
        found
    }

    /// The server has checked its deadlines: operations without a waiting participant have ended without a reply.
    pub(super) fn expired(&mut self, server: ServerId, now: Time) {
        for (_, operations) in self.on_mut(server) {
            let is_over =
                |op: &LocalCollective| op.deadline.is_some_and(|deadline| deadline <= now) && op.takes_more(now);
            operations.retain(|op| !(op.waiting.is_empty() && is_over(op)));
        }
    }

    /// The server has forgotten every operation that names one of these, or is gone (`None`).
    pub(super) fn forgotten(&mut self, server: ServerId, is_named: impl Fn(&[ProcId]) -> bool) {
        self.places.retain(|(of, (_, procs)), _| *of != server || !is_named(procs));
    }

    /// An upcall that the server no longer waits for.
    pub(super) fn settled(&mut self, server: ServerId, upcall: UpcallId) {
        if let Some((signature, number)) = self.by_upcall.remove(&(server, upcall)) {
            let place = (server, signature);
            let is_idle =
                |op: &LocalCollective| op.number == number && op.waiting.is_empty() && op.stage != Stage::Early;
            if let Some(operations) = self.places.get_mut(&place) {
                operations.retain(|op| !is_idle(op));
            }
        }
    }

    fn remove(&mut self, server: ServerId, signature: &Signature, number: u64) {
        let place = (server, signature.clone());
        if let Some(operations) = self.places.get_mut(&place) {
            operations.retain(|operation| operation.number != number);
            if operations.is_empty() {
                self.places.remove(&place);
            }
        }
    }

    fn on_mut(&mut self, server: ServerId) -> impl Iterator<Item = (&Signature, &mut VecDeque<LocalCollective>)> {
        let first = (server, (CollectiveKind::Fence, Rc::from([])));
        let places = self.places.range_mut(first..).take_while(move |((of, _), _)| *of == server);
        places.map(|((_, signature), operations)| (signature, operations))
    }
}

impl LocalCollective {
    fn join(&mut self, peer: PeerId, tag: Tag, process: u32, deadline: Option<Time>) {
        let had_contributed = !self.contributed.insert(process);
        let had_departed = self.departed.remove(&process);
        let has_timed = deadline.is_some() && self.due.is_none();
        self.waiting.insert(peer, Arrival { tag, process, had_contributed, had_departed, has_timed });
        self.deadline = self.deadline.or(deadline);
        self.due = self.due.or(deadline);
    }

    fn take_back(&mut self, arrival: Arrival) {
        if !arrival.had_contributed {
            self.contributed.remove(&arrival.process);
        }
        if arrival.had_departed {
            self.departed.insert(arrival.process);
        }
        if arrival.has_timed {
            (self.deadline, self.due) = (None, None);
        }
    }
}

/// A server's knowledge of the participants of an operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Knowledge {
    /// Not all processes of a job are announced, or a job is not registered.
    #[default]
    Little,
    /// All participants of the jobs that the server has heard of, namely these processes. Other jobs are not
    /// registered.
    ButForJobs(BTreeSet<u32>),
    Whole,
}

/// The state of an operation that lacks registrations.
#[derive(Debug, Default)]
struct MissingRegistrations {
    /// When the host was asked in spite of it, and whether it has agreed.
    asked: Option<Time>,
    has_agreed: Option<bool>,
    /// When the operation first lacked only registrations, and since when it has done so without a break. A connect
    /// counts from the host's agreement.
    first: Option<Time>,
    since: Option<Time>,
}

impl CollectiveKind {
    /// Whether it goes on without jobs that the host may know and the servers do not.
    pub(super) const fn goes_on_without_jobs(&self) -> bool {
        matches!(self, Self::Connect | Self::Disconnect)
    }
}

impl LocalCollective {
    /// Whether all jobs and processes are registered.
    pub(super) fn is_defined(&self) -> bool {
        self.knowledge == Knowledge::Whole
    }

    /// Participants that the server knows and that have not come.
    pub(super) fn missing_known(&self) -> BTreeSet<u32> {
        let known = match &self.knowledge {
            Knowledge::ButForJobs(known) => known,
            Knowledge::Little | Knowledge::Whole => &self.expected,
        };
        known.difference(&self.contributed).copied().collect()
    }

    /// A missing participant that could have come.
    pub(super) fn left_out_known(&self) -> Option<u32> {
        self.missing_known().difference(&self.departed).next().copied()
    }

    fn lacks_only_jobs(&self) -> bool {
        matches!(self.knowledge, Knowledge::ButForJobs(_)) && self.left_out_known().is_none()
    }

    fn has_waited(&self, now: Time) -> bool {
        self.missing_registrations.first.is_some_and(|first| first + REGISTERED_WITHIN <= now)
    }

    /// Whether the local phase of an operation that went up early is over.
    pub(super) fn is_closed(&self, now: Time) -> bool {
        let is_complete = self.is_defined() && self.left_out().is_none();
        is_complete || self.has_waited(now) && self.lacks_only_jobs()
    }

    /// Whether another participant can join.
    pub(super) fn takes_more(&self, now: Time) -> bool {
        match self.stage {
            Stage::Open => true,
            Stage::Early => !self.is_closed(now),
            Stage::AtHost(_) => false,
        }
    }

    /// The operation goes up, perhaps before all jobs are registered.
    pub(super) fn go_up(&mut self, kind: &CollectiveKind, upcall: UpcallId, now: Time) {
        if *kind == CollectiveKind::Connect && self.lacks_only_jobs() {
            self.stage = Stage::Early;
            self.missing_registrations.asked = Some(now);
        } else {
            self.stage = Stage::AtHost(upcall);
            self.deadline = None;
        }
    }

    /// Whether it goes up, or has gone up, too early.
    pub(super) fn is_premature(&self, kind: &CollectiveKind, now: Time) -> bool {
        match kind {
            _ if self.is_defined() => false,
            CollectiveKind::Connect => !self.lacks_only_jobs(),
            CollectiveKind::Disconnect => !(self.lacks_only_jobs() && self.has_waited(now)),
            CollectiveKind::Fence | CollectiveKind::Construct(_) | CollectiveKind::Destruct(_) => true,
        }
    }

    /// The fault in its end, if it went up early and succeeded.
    pub(super) fn objection(&self, now: Time) -> Option<String> {
        if self.stage != Stage::Early {
            return None;
        }
        match self.left_out() {
            _ if self.missing_registrations.has_agreed != Some(true) => Some("before the host has agreed".to_owned()),
            Some(process) => Some(format!("without waiting for process {process}")),
            None => (!self.is_closed(now)).then(|| "before its jobs are registered".to_owned()),
        }
    }

    /// A step is over: notes the registrations that the operation lacks.
    pub(super) fn note_lacking(&mut self, kind: &CollectiveKind, now: Time) {
        let is_begun = match self.stage {
            Stage::Open => *kind == CollectiveKind::Disconnect,
            Stage::Early => self.missing_registrations.has_agreed == Some(true),
            Stage::AtHost(_) => false,
        };
        let is_lacking = is_begun && self.lacks_only_jobs();
        self.missing_registrations.since =
            self.missing_registrations.since.filter(|_| is_lacking).or(is_lacking.then_some(now));
        self.missing_registrations.first = self.missing_registrations.first.or(self.missing_registrations.since);
    }

    /// Whether the server should have continued it.
    pub(super) fn is_overdue(&self, kind: &CollectiveKind, is_oldest: bool, now: Time) -> bool {
        let has_lacked_long = || self.missing_registrations.since.is_some_and(|since| since + REGISTERED_WITHIN < now);
        match self.stage {
            Stage::Open if *kind == CollectiveKind::Connect => self.lacks_only_jobs(),
            Stage::Open => has_lacked_long(),
            Stage::Early => {
                let is_complete = self.is_defined() && self.left_out().is_none();
                is_oldest && self.missing_registrations.has_agreed == Some(true) && (is_complete || has_lacked_long())
            }
            Stage::AtHost(_) => false,
        }
    }

    /// Whether an operation that went up early, and has no waiting participant, has ended without a reply.
    pub(super) fn has_ended_unseen(&self, is_oldest: bool, now: Time) -> bool {
        let Some(asked) = self.missing_registrations.asked.filter(|_| self.waiting.is_empty()) else { return false };
        match self.missing_registrations.has_agreed {
            Some(true) => self.is_closed(now),
            Some(false) => is_oldest,
            None => is_oldest && asked + HOST_TIMEOUT <= now,
        }
    }
}

impl LocalCollectives {
    /// The host answers: it agrees to a connect, perhaps in part, or refuses.
    pub(super) fn answered(&mut self, server: ServerId, upcall: UpcallId, agrees: bool) {
        let Some((signature, number)) = self.by_upcall.get(&(server, upcall)).cloned() else { return };
        let operations = self.places.get_mut(&(server, signature));
        if let Some(operation) = operations.and_then(|all| all.iter_mut().find(|op| op.number == number)) {
            operation.missing_registrations.has_agreed.get_or_insert(agrees);
        }
    }

    /// A connection at an operation that went up early, has the host's answer, and still lacks a participant.
    pub(super) fn somebody_early(&self, server: ServerId, now: Time) -> Option<(PeerId, Tag)> {
        let operations = self.places.iter().filter(|((of, _), _)| *of == server).flat_map(|(_, all)| all);
        let is_ahead = |op: &&LocalCollective| {
            op.stage == Stage::Early && op.missing_registrations.has_agreed == Some(true) && !op.is_closed(now)
        };
        let mut waiting = operations.filter(is_ahead).flat_map(|op| &op.waiting);
        waiting.next().map(|(peer, arrival)| (*peer, arrival.tag))
    }
}

/// The bound on the time in which a host registers a named job where the job has processes.
pub(super) const REGISTERED_WITHIN: Duration = Duration::from_secs(1);

/// Statuses by which a server refuses a request; a refused request never joins an operation.
const REFUSALS: [Status; 4] =
    [Status::ERR_OUT_OF_RESOURCE, Status::ERR_BAD_PARAM, Status::ERR_NOT_A_MEMBER, Status::ERR_INVALID_OPERATION];

#[cfg(test)]
mod tests;
