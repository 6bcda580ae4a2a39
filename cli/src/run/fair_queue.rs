//! Requests that wait for the launcher's loop. Processes take turns, so that one with many requests delays no other.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use modex::types::ProcId;

/// The requests by process. Those of one process keep their order.
///
/// The server bounds the requests of a process that are not answered, so the queue has no bound of its own.
#[derive(Debug)]
pub(super) struct FairQueue<T> {
    waiting: BTreeMap<ProcId, VecDeque<T>>,
    /// The process that had the last turn.
    last: Option<ProcId>,
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), last: None }
    }
}

impl<T> FairQueue<T> {
    /// Adds a request.
    pub(super) fn push(&mut self, proc: ProcId, request: T) {
        self.waiting.entry(proc).or_default().push_back(request);
    }

    /// Takes the oldest request of the process whose turn it is.
    pub(super) fn pop(&mut self) -> Option<(ProcId, T)> {
        let after = self.last.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let next = self.waiting.range((after, Bound::Unbounded)).next().or_else(|| self.waiting.iter().next());
        let proc = next?.0.clone();
        let requests = self.waiting.get_mut(&proc)?;
        let request = requests.pop_front()?;
        if requests.is_empty() {
            self.waiting.remove(&proc);
        }
        self.last = Some(proc.clone());
        Some((proc, request))
    }

    /// Gives back a request that can't be served yet.
    pub(super) fn put_back(&mut self, proc: ProcId, request: T) {
        self.waiting.entry(proc).or_default().push_front(request);
    }

    /// The number of processes that wait.
    pub(super) fn process_count(&self) -> usize {
        self.waiting.len()
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use modex::types::Namespace;

    use super::*;

    #[test]
    fn processes_take_turns_and_each_keeps_its_order() {
        let proc = |rank: u32| ProcId::new(Namespace::new("a").unwrap(), rank);
        let mut queue = FairQueue::default();
        for (rank, request) in [(0, "a"), (0, "b"), (0, "c"), (2, "d"), (1, "e")] {
            queue.push(proc(rank), request);
        }
        assert_eq!((queue.process_count(), queue.pop()), (3, Some((proc(0), "a"))));
        queue.put_back(proc(0), "a");
        let order: Vec<&str> = std::iter::from_fn(|| queue.pop()).map(|(_, request)| request).collect();
        assert_eq!(order, ["e", "d", "a", "b", "c"]);
        assert!(queue.is_empty());
    }
}
