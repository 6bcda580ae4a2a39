//! Who has arrived where: the standard's account of the local phase, kept beside the server's own and compared with it.
//!
//! Source: PMIx Standard, "Process-Related Non-Reserved Keys" and fence: one contribution from every local participant,
//! one upcall; a repeated call with the same participants opens a new operation.

mod ahead;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use ahead::Lacking;
pub(super) use ahead::{Knowledge, REGISTERED_WITHIN};
use modex::proto::Tag;
use modex::server::{PeerId, UpcallId};
use modex::types::{ProcId, Status, Text, Time};

use super::invariants::Promise;
use super::queue::ServerId;
use super::setup::HOST_TIMEOUT;

/// Kinds of operations that never match each other. Groups have an account here where servers form them without a host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Fence,
    Connect,
    Disconnect,
    Construct(Text),
    Destruct(Text),
}

impl Kind {
    /// Whether it ends what was begun when all its jobs were there.
    pub(super) const fn takes_back(&self) -> bool {
        matches!(self, Self::Disconnect | Self::Destruct(_))
    }
}

/// What can be said of an operation's participants when it opens.
#[derive(Debug, Default)]
pub(super) struct Local {
    /// Who of them is on the server's node.
    pub(super) expected: BTreeSet<u32>,
    /// Who can't come.
    pub(super) gone: BTreeSet<u32>,
    /// What its server knows of who must come.
    pub(super) knowledge: Knowledge,
    /// It is none that the server could do alone, and nobody does it otherwise.
    pub(super) is_impossible: bool,
}

/// What the participants agree on: the kind, and the set as written, sorted.
pub(super) type Signature = (Kind, Rc<[ProcId]>);

pub(super) fn signature(kind: Kind, procs: &[ProcId]) -> Signature {
    let mut procs = procs.to_vec();
    procs.sort_unstable();
    procs.dedup();
    (kind, procs.into())
}

/// One operation on one server.
#[derive(Debug)]
pub(super) struct Gathering {
    number: u64,
    stage: Stage,
    /// Local participants that must come.
    pub(super) expected: BTreeSet<u32>,
    pub(super) contributed: BTreeSet<u32>,
    /// Those that have gone at some time while it was open.
    pub(super) departed: BTreeSet<u32>,
    /// What its server knows of who must come.
    knowledge: Knowledge,
    lacking: Lacking,
    pub(super) is_impossible: bool,
    waiting: BTreeMap<PeerId, Arrival>,
    deadline: Option<Time>,
    /// The same, for those who are told of its end one after the other.
    pub(super) due: Option<Time>,
    /// Set when the host has answered with success.
    pub(super) promise: Option<Rc<Promise>>,
}

/// A request that has joined an operation, and what it would leave if the server took it back.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    tag: Tag,
    process: u32,
    /// Another of the process's requests had come before; perhaps in an earlier life of it.
    had_contributed: bool,
    had_departed: bool,
    /// It has started the operation's clock.
    has_timed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Gathering,
    /// The host has been asked before all jobs were registered.
    Ahead,
    AtHost(UpcallId),
}

impl Gathering {
    /// Who is missing.
    pub(super) fn missing(&self) -> BTreeSet<u32> {
        self.expected.difference(&self.contributed).copied().collect()
    }

    /// Who is missing although it could have come.
    pub(super) fn left_out(&self) -> Option<u32> {
        self.missing().difference(&self.departed).next().copied()
    }

    pub(super) fn is_at_host(&self) -> bool {
        self.stage != Stage::Gathering
    }

    /// Whether nobody has to be waited for.
    fn is_done(&self) -> bool {
        let is_settled = self.is_impossible || self.left_out().is_none();
        self.stage == Stage::Gathering && self.is_defined() && is_settled
    }
}

/// What a reply says about the operation that it belongs to.
#[derive(Debug)]
pub(super) enum Ended {
    /// It was no operation, or the request never became part of one.
    Nothing,
    /// The operation has ended well for this participant.
    Well { left_out: Option<u32>, missing: usize, promise: Option<Rc<Promise>>, was_answered: bool },
    /// It has ended well, or in part, and should not have.
    Wrongly(String),
}

/// All operations of all servers.
#[derive(Debug, Default)]
pub(super) struct Gatherings {
    places: BTreeMap<(ServerId, Signature), VecDeque<Gathering>>,
    by_request: BTreeMap<(PeerId, Tag), (ServerId, Signature, u64)>,
    by_upcall: BTreeMap<(ServerId, UpcallId), (Signature, u64)>,
    last: u64,
}

impl Gatherings {
    /// A request arrives. Gives the operation's clock, which the first who wants one starts for all: `None` if nobody has.
    pub(super) fn arrive(
        &mut self,
        server: ServerId,
        signature: Signature,
        (peer, tag, process): (PeerId, Tag, u32),
        (now, deadline): (Time, Option<Time>),
        local: impl FnOnce() -> Local,
    ) -> Option<Time> {
        let operations = self.places.entry((server, signature.clone())).or_default();
        let is_free = |op: &&mut Gathering| op.takes_more(now) && !op.waiting.contains_key(&peer);
        let (number, clock) = match operations.iter_mut().find(is_free) {
            Some(operation) => {
                operation.join(peer, tag, process, deadline);
                (operation.number, operation.deadline)
            }
            None => {
                self.last += 1;
                let Local { expected, gone, knowledge, is_impossible } = local();
                let departed = if knowledge == Knowledge::Little { BTreeSet::new() } else { gone };
                let mut operation = Gathering {
                    number: self.last,
                    stage: Stage::Gathering,
                    expected,
                    contributed: BTreeSet::new(),
                    departed,
                    knowledge,
                    lacking: Lacking::default(),
                    is_impossible,
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

    /// What a request has joined.
    pub(super) fn of_request(&self, peer: PeerId, tag: Tag) -> Option<(&Signature, &Gathering)> {
        let (server, signature, number) = self.by_request.get(&(peer, tag))?;
        let operations = self.places.get(&(*server, signature.clone()))?;
        Some((signature, operations.iter().find(|operation| operation.number == *number)?))
    }

    /// The group of this name that gathers, names a process, and does not hold its connection yet: the oldest.
    pub(super) fn group_with(&self, server: ServerId, name: &Text, proc: &ProcId, peer: PeerId) -> Option<Signature> {
        let kind = Kind::Construct(name.clone());
        let first = (server, (kind.clone(), Rc::from([])));
        let of_name = self.places.range(first..).take_while(|((of, (other, _)), _)| *of == server && *other == kind);
        let naming = of_name.filter(|((_, (_, procs)), _)| procs.contains(proc));
        let is_free = |op: &&Gathering| op.stage == Stage::Gathering && !op.waiting.contains_key(&peer);
        let free = naming.filter_map(|((_, of), all)| Some((all.iter().find(is_free)?.number, of)));
        free.min_by_key(|(number, _)| *number).map(|(_, signature)| signature.clone())
    }

    /// The server hands an operation to its host: the oldest that gathers.
    pub(super) fn handed_over(
        &mut self,
        server: ServerId,
        signature: &Signature,
        upcall: UpcallId,
        now: Time,
    ) -> Option<&Gathering> {
        let operations = self.places.get_mut(&(server, signature.clone()))?;
        let operation = operations.iter_mut().find(|operation| operation.stage == Stage::Gathering)?;
        operation.go_up(&signature.0, upcall, now);
        self.by_upcall.insert((server, upcall), (signature.clone(), operation.number));
        Some(operation)
    }

    /// The host answers with success, and with what the participants had committed.
    pub(super) fn promised(&mut self, server: ServerId, upcall: UpcallId, promise: Rc<Promise>) {
        let Some((signature, number)) = self.by_upcall.get(&(server, upcall)).cloned() else { return };
        let operations = self.places.get_mut(&(server, signature));
        if let Some(operation) = operations.and_then(|all| all.iter_mut().find(|op| op.number == number)) {
            operation.promise = Some(promise);
        }
    }

    /// A reply to a request. `is_new`: it came with the very input that brought the request.
    pub(super) fn replied(&mut self, now: Time, peer: PeerId, tag: Tag, status: Status, is_new: bool) -> Ended {
        let Some((server, signature, number)) = self.by_request.remove(&(peer, tag)) else { return Ended::Nothing };
        let Some(operations) = self.places.get_mut(&(server, signature.clone())) else { return Ended::Nothing };
        let Some(place) = operations.iter().position(|operation| operation.number == number) else {
            return Ended::Nothing;
        };
        let Some(operation) = operations.get_mut(place) else { return Ended::Nothing };
        let left = operation.waiting.remove(&peer);
        if status == Status::ERR_NOT_AVAILABLE {
            // The connection is being closed. What it contributed stays.
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
        // Everybody who waits is answered at once.
        if operation.waiting.is_empty() {
            self.remove(server, &signature, number);
        } else if let Stage::Gathering = operation.stage {
            // No newcomer joins an operation that is ending.
            operation.deadline = None;
        }
        ended
    }

    /// Somebody who waits for others, if anybody does.
    pub(super) fn somebody_waiting(&self, server: ServerId) -> Option<(PeerId, Tag)> {
        let first = (server, (Kind::Fence, Rc::from([])));
        let places = self.places.range(first..).take_while(|((of, _), _)| *of == server);
        let mut operations = places.flat_map(|(_, operations)| operations);
        let operation = operations.find(|op| op.left_out().is_some() && !op.waiting.is_empty())?;
        operation.waiting.iter().next().map(|(peer, arrival)| (*peer, arrival.tag))
    }

    /// A connection ended: it waits no more, what it contributed stays.
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

    /// The host has registered something: perhaps it is known now who must come.
    pub(super) fn registered(
        &mut self,
        server: ServerId,
        gone: &BTreeSet<u32>,
        knowledge: impl Fn(&Kind, &[ProcId]) -> Knowledge,
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

    /// An operation that waits although all have come that can.
    pub(super) fn complete_but_waiting(&mut self, server: ServerId, now: Time) -> Option<String> {
        let mut found = None;
        for ((kind, procs), operations) in self.on_mut(server) {
            operations.iter_mut().for_each(|op| op.note_lacking(kind, now));
            let oldest = operations.front().map(|op| op.number);
            operations.retain(|op| !op.has_ended_unseen(oldest == Some(op.number), now));
            // One that concerns this node alone, and that nobody waits for any more, ends without a word.
            operations.retain(|op| !(op.waiting.is_empty() && op.is_done()));
            let is_overdue = |(place, op): (usize, &Gathering)| op.is_done() || op.is_overdue(kind, place == 0, now);
            if operations.iter().enumerate().any(is_overdue) {
                found = Some(format!("{kind:?} {procs:?}"));
            }
        }
        found
    }

    /// The server looked at its deadlines: what nobody waits for any more ended without a word.
    pub(super) fn expired(&mut self, server: ServerId, now: Time) {
        for (_, operations) in self.on_mut(server) {
            let is_over = |op: &Gathering| op.deadline.is_some_and(|deadline| deadline <= now) && op.takes_more(now);
            operations.retain(|op| !(op.waiting.is_empty() && is_over(op)));
        }
    }

    /// The server has forgotten everything that names one of these, or is gone (`None`).
    pub(super) fn forgotten(&mut self, server: ServerId, is_named: impl Fn(&[ProcId]) -> bool) {
        self.places.retain(|(of, (_, procs)), _| *of != server || !is_named(procs));
    }

    /// An upcall that the server waits for no more.
    pub(super) fn settled(&mut self, server: ServerId, upcall: UpcallId) {
        if let Some((signature, number)) = self.by_upcall.remove(&(server, upcall)) {
            let place = (server, signature);
            let is_idle = |op: &Gathering| op.number == number && op.waiting.is_empty() && op.stage != Stage::Ahead;
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

    fn on_mut(&mut self, server: ServerId) -> impl Iterator<Item = (&Signature, &mut VecDeque<Gathering>)> {
        let first = (server, (Kind::Fence, Rc::from([])));
        let places = self.places.range_mut(first..).take_while(move |((of, _), _)| *of == server);
        places.map(|((_, signature), operations)| (signature, operations))
    }
}

impl Gathering {
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

/// What a server says of a request that it never makes part of an operation.
const REFUSALS: [Status; 4] =
    [Status::ERR_OUT_OF_RESOURCE, Status::ERR_BAD_PARAM, Status::ERR_NOT_A_MEMBER, Status::ERR_INVALID_OPERATION];

#[cfg(test)]
mod tests;
