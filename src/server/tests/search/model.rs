//! The expected behaviour, from the standard's words.

use std::collections::BTreeSet;

use super::fingerprint::fingerprint;
use super::{Bounds, Pair, RANKS, Step};
use crate::types::Status;

/// Replies: process, number of the request, and status.
pub(super) type Replies = BTreeSet<(u32, u32, i32)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Life {
    Here,
    Away,
    Dead,
    Ended,
}

#[derive(Clone, Debug)]
pub(super) struct ModelOperation {
    pub(super) kind: usize,
    pub(super) came: BTreeSet<u32>,
    lost: BTreeSet<u32>,
    pub(super) waiting: Vec<(u32, u32)>,
    pub(super) deadline: Option<u64>,
    pub(super) is_up: bool,
    answer: Option<i32>,
}

/// The expected state.
#[derive(Clone, Debug)]
pub(super) struct Model {
    goes_up: [bool; 2],
    lives: [Life; RANKS as usize],
    /// Oldest first.
    pub(super) operations: Vec<ModelOperation>,
    pub(super) now: u64,
    /// Local statuses of upcalls, in order.
    pub(super) upcalls: Vec<i32>,
}

impl Model {
    pub(super) fn new(pair: Pair) -> Self {
        let goes_up = [0, 1].map(|operation| pair.goes_up(operation));
        Self { goes_up, lives: [Life::Here; 3], operations: Vec::new(), now: 0, upcalls: Vec::new() }
    }

    fn life(&mut self, rank: u32) -> &mut Life {
        &mut self.lives[rank as usize]
    }

    fn open_requests(&self, rank: u32, kind: usize) -> usize {
        let of_kind = self.operations.iter().filter(|operation| operation.kind == kind);
        of_kind.flat_map(|operation| &operation.waiting).filter(|(who, _)| *who == rank).count()
    }

    fn ups(&self) -> usize {
        self.operations.iter().filter(|operation| operation.is_up && operation.answer.is_none()).count()
    }

    /// Whether a step is possible within the bounds.
    pub(super) fn is_possible(&self, step: Step, bounds: Bounds) -> bool {
        let life = |rank: u32| self.lives[rank as usize];
        match step {
            Step::Arrive(rank, kind) => {
                let has_place = self.operations.len() < bounds.operations || self.joinable(rank, kind).is_some();
                life(rank) == Life::Here && has_place && self.open_requests(rank, kind) < bounds.requests
            }
            Step::Finalize(rank) | Step::Die(rank) => life(rank) == Life::Here,
            Step::Return(rank) => life(rank) == Life::Away,
            Step::Deregister(rank) => matches!(life(rank), Life::Away | Life::Dead),
            Step::TimeOut => self.operations.iter().any(|operation| operation.deadline.is_some() && !operation.is_up),
            Step::Answer { oldest, .. } => self.ups() >= if oldest { 1 } else { 2 },
        }
    }

    /// The model after a step.
    pub(super) fn after(&self, step: Step) -> Self {
        let mut after = self.clone();
        after.apply(step, u32::MAX);
        after
    }

    /// Names for the three that are the same for all states which differ only in names: an order by all of the model's
    /// facts about them.
    pub(super) fn names(&self) -> [u32; RANKS as usize] {
        let part = |op: &ModelOperation, rank: u32| {
            let waiting = op.waiting.iter().filter(|(who, _)| *who == rank).count();
            (op.came.contains(&rank), op.lost.contains(&rank), waiting)
        };
        let known = |rank: u32| {
            let parts: Vec<_> = self.operations.iter().map(|op| part(op, rank)).collect();
            (self.lives[rank as usize], parts)
        };
        let mut order = [0, 1, 2];
        order.sort_by_cached_key(|rank| known(*rank));
        let mut names = [0; RANKS as usize];
        (0..RANKS).zip(order).for_each(|(name, rank)| names[rank as usize] = name);
        names
    }

    /// A hash of all facts with later effects.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut model = self.clone();
        let now = std::mem::take(&mut model.now);
        model.upcalls.clear();
        for operation in &mut model.operations {
            operation.deadline = operation.deadline.map(|deadline| deadline.saturating_sub(now));
            operation.waiting.sort_unstable();
            operation.waiting.iter_mut().for_each(|(_, number)| *number = 0);
        }
        fingerprint(&model)
    }

    pub(super) fn apply(&mut self, step: Step, number: u32) -> Replies {
        let mut replies = Replies::new();
        match step {
            Step::Arrive(rank, kind) => self.arrive(rank, kind, number),
            Step::Finalize(rank) => {
                *self.life(rank) = Life::Away;
                self.operations.iter_mut().for_each(|operation| operation.waiting.retain(|(who, _)| *who != rank));
            }
            Step::Return(rank) => *self.life(rank) = Life::Here,
            Step::Die(rank) => {
                *self.life(rank) = Life::Dead;
                self.operations.iter_mut().for_each(|operation| operation.waiting.retain(|(who, _)| *who != rank));
            }
            Step::Deregister(rank) => *self.life(rank) = Life::Ended,
            Step::TimeOut => {
                self.now += 5;
                let now = self.now;
                let is_over = |op: &mut ModelOperation| !op.is_up && op.deadline.is_some_and(|at| at <= now);
                for operation in self.operations.extract_if(.., is_over) {
                    tell(&mut replies, &operation, Status::ERR_TIMEOUT);
                }
            }
            Step::Answer { oldest, well } => {
                let status = if well { Status::SUCCESS } else { Status::ERR_UNREACH };
                let mut up = self.operations.iter_mut().filter(|op| op.is_up && op.answer.is_none());
                let answered = if oldest { up.next() } else { up.next_back() };
                answered.unwrap().answer = Some(status.to_raw());
            }
        }
        self.settle(&mut replies);
        replies
    }

    /// Whether an operation of a kind still waits for a process that has not arrived.
    pub(super) fn lacks(&self, rank: u32, kind: usize) -> bool {
        self.operations.iter().any(|op| op.kind == kind && !op.is_up && !op.came.contains(&rank))
    }

    /// The operation that an arrival joins.
    fn joinable(&self, rank: u32, kind: usize) -> Option<usize> {
        let waits = |operation: &ModelOperation| operation.waiting.iter().any(|(who, _)| *who == rank);
        self.operations.iter().position(|op| op.kind == kind && !op.is_up && !waits(op))
    }

    fn arrive(&mut self, rank: u32, kind: usize, number: u32) {
        let index = match self.joinable(rank, kind) {
            Some(index) => index,
            None => {
                self.operations.push(ModelOperation {
                    kind,
                    came: BTreeSet::new(),
                    lost: BTreeSet::new(),
                    waiting: Vec::new(),
                    deadline: Pair::time_limit(kind).map(|limit| self.now + limit),
                    is_up: false,
                    answer: None,
                });
                self.operations.len() - 1
            }
        };
        let operation = &mut self.operations[index];
        operation.came.insert(rank);
        operation.lost.remove(&rank);
        operation.waiting.push((rank, number));
    }

    /// Operations whose participants have all arrived or ended go up or end; answered ones end, in order.
    fn settle(&mut self, replies: &mut Replies) {
        for index in 0..self.operations.len() {
            let lives = self.lives;
            let operation = &mut self.operations[index];
            if operation.is_up {
                continue;
            }
            for rank in (0..RANKS).filter(|&rank| matches!(lives[rank as usize], Life::Dead | Life::Ended)) {
                if !operation.came.contains(&rank) {
                    operation.lost.insert(rank);
                }
            }
            if operation.came.len() + operation.lost.len() < RANKS as usize {
                continue;
            }
            let survives = operation.came.iter().any(|&rank| matches!(lives[rank as usize], Life::Here | Life::Away));
            let status = match (operation.lost.is_empty(), survives) {
                (true, _) => Status::SUCCESS,
                (false, true) => Status::ERR_PARTIAL_SUCCESS,
                (false, false) => Status::ERR_LOST_CONNECTION,
            };
            operation.is_up = true;
            operation.deadline = None;
            if self.goes_up[operation.kind] {
                self.upcalls.push(status.to_raw());
            } else {
                operation.answer = Some(status.to_raw());
            }
        }
        for kind in [0, 1] {
            while let Some(index) = self.operations.iter().position(|operation| operation.kind == kind) {
                let Some(status) = self.operations[index].answer else { break };
                let operation = self.operations.remove(index);
                tell(replies, &operation, Status::from_raw(status));
            }
        }
    }
}

fn tell(replies: &mut Replies, operation: &ModelOperation, status: Status) {
    replies.extend(operation.waiting.iter().map(|(rank, number)| (*rank, *number, status.to_raw())));
}
