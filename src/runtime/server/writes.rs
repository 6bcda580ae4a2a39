//! The connections with output to write, and their order in a turn.
//!
//! One event can go to thousands of connections. To copy all of it into their sockets took 145 ms, and no other client
//! was served meanwhile. So a turn writes for a limited time, counted in bytes. The poller reports the remaining
//! connections, because their sockets have room, and a later turn writes to them.

use std::collections::BTreeSet;

use crate::server::PeerId;

/// Bytes that one turn gives to the kernel.
const TURN_BYTES: usize = 1 << 20;
/// The cost of a system call, in bytes.
const CALL_BYTES: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct Writes {
    waiting: BTreeSet<PeerId>,
    /// The connection that came first in the last turn.
    last: Option<PeerId>,
}

impl Writes {
    pub(super) fn insert(&mut self, id: PeerId) {
        self.waiting.insert(id);
    }

    /// Takes all connections. One comes first by its number, another one in each turn, so that none waits for ever. The
    /// others follow by their queued bytes, so that a short reply does not wait behind other clients' events.
    pub(super) fn take(&mut self, queued_bytes: impl Fn(PeerId) -> usize) -> Vec<PeerId> {
        let waiting = std::mem::take(&mut self.waiting);
        let after = |last: &PeerId| waiting.range(*last..).find(|id| *id != last).copied();
        self.last = self.last.as_ref().and_then(after).or_else(|| waiting.first().copied());
        let mut order: Vec<PeerId> = waiting.into_iter().collect();
        order.sort_by_key(|id| (Some(*id) != self.last, queued_bytes(*id)));
        order
    }
}

/// The bytes that a turn may still write.
#[derive(Debug)]
pub(super) struct WriteBudget(usize);

impl WriteBudget {
    pub(super) const fn new() -> Self {
        Self(TURN_BYTES)
    }

    pub(super) const fn left_bytes(&self) -> usize {
        self.0
    }

    pub(super) const fn spend(&mut self, written_bytes: usize) {
        self.0 = self.0.saturating_sub(written_bytes.saturating_add(CALL_BYTES));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes one turn over peers with this many bytes each, and returns the peers that it wrote to.
    fn turn(writes: &mut Writes, sizes: &[usize]) -> Vec<u64> {
        let size = |id: PeerId| sizes[usize::try_from(id.0).unwrap()];
        let mut budget = WriteBudget::new();
        let mut written = Vec::new();
        for id in writes.take(size) {
            if budget.left_bytes() == 0 {
                writes.insert(id);
            } else {
                budget.spend(size(id));
                written.push(id.0);
            }
        }
        written
    }

    #[test]
    fn short_queues_come_before_long_ones() {
        let mut writes = Writes::default();
        [0, 1, 2, 3].into_iter().for_each(|id| writes.insert(PeerId(id)));
        assert_eq!(turn(&mut writes, &[5, 300, 20, 10]), [0, 3, 2, 1]);
    }

    #[test]
    fn a_turn_ends_and_every_connection_has_its_own() {
        let mut writes = Writes::default();
        (0..10).for_each(|id| writes.insert(PeerId(id)));
        let sizes = [TURN_BYTES / 2; 10];
        let turns: Vec<usize> = (0..5).map(|_| turn(&mut writes, &sizes).len()).collect();
        assert_eq!(turns, [2, 2, 2, 2, 2]);
    }

    #[test]
    fn long_queues_are_not_forgotten_behind_ever_new_short_ones() {
        let mut writes = Writes::default();
        let sizes: Vec<usize> = (0..600).map(|id| if id == 300 { TURN_BYTES } else { 1 }).collect();
        let is_written = |writes: &mut Writes| {
            (0..600).for_each(|id| writes.insert(PeerId(id)));
            turn(writes, &sizes).contains(&300)
        };
        assert!((0..600).any(|_| is_written(&mut writes)));
    }
}
