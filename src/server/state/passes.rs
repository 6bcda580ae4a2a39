//! Passes over many things after a change, some in each step.
//!
//! A change only adds a pass. Each step visits some of the things that the change concerns, and notes the last one.

use std::collections::{BTreeMap, VecDeque};

use crate::types::Time;

/// The changes whose passes are not finished, in order.
#[derive(Debug)]
pub(crate) struct Passes<K, C> {
    queue: VecDeque<K>,
    passes: BTreeMap<K, Pass<C>>,
    next_step: Option<Time>,
}

/// One pass over the things that a change concerns.
#[derive(Debug)]
struct Pass<C> {
    /// The last visited cursor.
    after: Option<C>,
    /// Whether the same has changed again since the pass began.
    again: bool,
}

impl<K, C> Default for Passes<K, C> {
    fn default() -> Self {
        Self { queue: VecDeque::new(), passes: BTreeMap::new(), next_step: None }
    }
}

impl<K: Ord + Clone, C: Ord> Passes<K, C> {
    /// Adds a change. A second one before the end of a pass begins another pass behind it.
    pub(crate) fn add(&mut self, change: K) {
        match self.passes.get_mut(&change) {
            Some(pass) => pass.again |= pass.after.is_some(),
            None => {
                self.queue.push_back(change.clone());
                self.passes.insert(change, Pass { after: None, again: false });
            }
        }
    }

    /// The first change, and the last cursor that was visited because of it.
    pub(crate) fn first(&self) -> Option<(&K, Option<&C>)> {
        let first = self.queue.front()?;
        Some((first, self.passes.get(first)?.after.as_ref()))
    }

    /// Notes a cursor of the first pass as visited.
    pub(crate) fn advance(&mut self, cursor: C) {
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

    /// Puts the first change behind the others, so that none waits until all things of another one are visited.
    pub(crate) fn rotate(&mut self) {
        let first = self.queue.pop_front();
        self.queue.extend(first);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// All changes, sorted.
    pub(crate) fn changes(&self) -> impl Iterator<Item = &K> {
        self.passes.keys()
    }

    /// The changes from one on, sorted.
    pub(crate) fn changes_from(&self, first: K) -> impl Iterator<Item = &K> {
        self.passes.range(first..).map(|(change, _)| change)
    }

    /// The time of the next step.
    pub(crate) const fn next_step(&self) -> Option<Time> {
        self.next_step
    }

    pub(crate) const fn set_next_step(&mut self, next_step: Option<Time>) {
        self.next_step = next_step;
    }

    /// The cursor behind which all are yet to be visited because of a change, or none before any. `None`: there is no
    /// such change.
    pub(crate) fn reached(&self, change: &K) -> Option<Option<&C>> {
        self.passes.get(change).map(|pass| pass.after.as_ref().filter(|_| !pass.again))
    }

    /// Whether a cursor is yet to be visited because of a change.
    pub(crate) fn is_ahead(&self, change: &K, cursor: &C) -> bool {
        self.reached(change).is_some_and(|reached| reached.is_none_or(|after| cursor > after))
    }
}
