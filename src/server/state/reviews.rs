//! Held requests to look at again after a change.
//!
//! One change may concern many requests, and the answer to each has a copy of the value. So a change only notes the
//! requests that it concerns, as a range of an index. They are reviewed later, some in each step.

use std::collections::{BTreeMap, VecDeque};

use super::operation::OperationId;
use crate::server::interface::UpcallId;
use crate::types::{Key, Namespace, ProcId, Rank, Time};

/// Identifies one held request for data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HeldGetId(pub(crate) u64);

/// The held requests that a change concerns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Concerned {
    /// Requests about a job or its processes.
    Job(Namespace),
    /// Requests about a process.
    Process(ProcId),
    /// Requests about a process that await this key, or any key (`None`).
    Key(ProcId, Option<Key>),
    /// Requests that wait for this upcall.
    Upcall(UpcallId),
    /// Requests that wait for the end of this fence.
    Fence(OperationId),
    /// Requests about a job that has ended here, up to this number. Later ones are not about the ended job.
    Ended(Namespace, HeldGetId),
}

impl Concerned {
    /// The first target of requests that the change may concern, in order; `None`: it concerns no target.
    pub(crate) fn first_target(&self) -> Option<ProcId> {
        match self {
            Self::Job(namespace) | Self::Ended(namespace, _) => Some(ProcId::new(namespace.clone(), Rank::Process(0))),
            Self::Process(proc) | Self::Key(proc, _) => Some(proc.clone()),
            Self::Upcall(_) | Self::Fence(_) => None,
        }
    }

    /// Whether the change may concern requests about this target.
    pub(crate) fn is_about(&self, target: &ProcId) -> bool {
        match self {
            Self::Job(namespace) | Self::Ended(namespace, _) => target.namespace == *namespace,
            Self::Process(proc) | Self::Key(proc, _) => target == proc,
            Self::Upcall(_) | Self::Fence(_) => false,
        }
    }
}

/// The position of a review in the index of held requests by target.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ReviewCursor {
    pub(crate) target: ProcId,
    pub(crate) key: Option<Key>,
    pub(crate) id: HeldGetId,
}

/// The changes whose reviews are not finished, in order.
#[derive(Debug, Default)]
pub(crate) struct Reviews {
    queue: VecDeque<Concerned>,
    passes: BTreeMap<Concerned, Pass>,
    next_step: Option<Time>,
}

/// One pass over the requests that a change concerns.
#[derive(Debug, Default)]
struct Pass {
    /// The last reviewed cursor.
    after: Option<ReviewCursor>,
    /// Whether the same has changed again since the pass began.
    again: bool,
}

impl Reviews {
    /// Adds a change. A second one before the end of a pass begins another pass behind it.
    pub(crate) fn add(&mut self, concerned: Concerned) {
        match self.passes.get_mut(&concerned) {
            Some(pass) => pass.again |= pass.after.is_some(),
            None => {
                self.queue.push_back(concerned.clone());
                self.passes.insert(concerned, Pass::default());
            }
        }
    }

    /// The first change, and the last cursor that was reviewed because of it.
    pub(crate) fn first(&self) -> Option<(&Concerned, Option<&ReviewCursor>)> {
        let first = self.queue.front()?;
        Some((first, self.passes.get(first)?.after.as_ref()))
    }

    /// Notes a cursor of the first pass as reviewed.
    pub(crate) fn advance(&mut self, cursor: ReviewCursor) {
        if let Some(pass) = self.queue.front().and_then(|first| self.passes.get_mut(first)) {
            pass.after = Some(cursor);
        }
    }

    /// Ends the first pass.
    pub(crate) fn finish(&mut self) {
        let Some(first) = self.queue.pop_front() else { return };
        if self.passes.remove(&first).is_some_and(|pass| pass.again) {
            self.add(first);
        }
    }

    /// Puts the first change behind the others, so that none waits until all requests of another one are reviewed.
    pub(crate) fn rotate(&mut self) {
        let first = self.queue.pop_front();
        self.queue.extend(first);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// The time of the next step.
    pub(crate) const fn next_step(&self) -> Option<Time> {
        self.next_step
    }

    pub(crate) const fn set_next_step(&mut self, next_step: Option<Time>) {
        self.next_step = next_step;
    }

    /// Whether a request about a job is yet to be refused, because the job has ended.
    pub(crate) fn is_ending(&self, namespace: &Namespace, id: HeldGetId) -> bool {
        let ends = Concerned::Ended(namespace.clone(), id)..=Concerned::Ended(namespace.clone(), HeldGetId(u64::MAX));
        self.passes.range(ends).next().is_some()
    }

    /// Whether a cursor is yet to be reviewed because of a change.
    pub(crate) fn is_ahead(&self, concerned: &Concerned, cursor: &ReviewCursor) -> bool {
        let is_behind = |pass: &Pass| pass.after.as_ref().is_some_and(|after| cursor <= after);
        self.passes.get(concerned).is_some_and(|pass| pass.again || !is_behind(pass))
    }
}
