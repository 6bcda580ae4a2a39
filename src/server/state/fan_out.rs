//! Messages for many connections at once, which a step makes in part.
//!
//! A process may have hundreds of connections, be tied to hundreds of jobs, and remove thousands of values. All pairs
//! of a connection and a message would take one turn a second.

use std::collections::VecDeque;

use crate::server::interface::PeerId;

/// Messages that each of some connections gets, in order.
#[derive(Debug)]
pub(crate) struct FanOut<T> {
    spreads: VecDeque<Spread<T>>,
    /// Number of pairs that are left.
    pair_count: usize,
}

#[derive(Debug)]
struct Spread<T> {
    peers: Vec<PeerId>,
    items: Vec<T>,
    pairs_taken: usize,
}

impl<T> Default for FanOut<T> {
    fn default() -> Self {
        Self { spreads: VecDeque::new(), pair_count: 0 }
    }
}

impl<T: Clone> FanOut<T> {
    /// Adds one message for each connection and item.
    pub(crate) fn push(&mut self, peers: Vec<PeerId>, items: Vec<T>) {
        if !peers.is_empty() && !items.is_empty() {
            self.pair_count = self.pair_count.saturating_add(peers.len().saturating_mul(items.len()));
            self.spreads.push_back(Spread { peers, items, pairs_taken: 0 });
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.pair_count == 0
    }

    /// Number of messages that are left.
    pub(crate) const fn len(&self) -> usize {
        self.pair_count
    }

    /// Takes the next pair. An item goes to all its connections before the next one.
    pub(crate) fn pop(&mut self) -> Option<(PeerId, T)> {
        let spread = self.spreads.front_mut()?;
        let peer_count = spread.peers.len();
        let peer = spread.peers.get(spread.pairs_taken.checked_rem(peer_count)?).copied()?;
        let item = spread.items.get(spread.pairs_taken.checked_div(peer_count)?).cloned()?;
        spread.pairs_taken = spread.pairs_taken.saturating_add(1);
        if spread.pairs_taken >= peer_count.saturating_mul(spread.items.len()) {
            self.spreads.pop_front();
        }
        self.pair_count = self.pair_count.saturating_sub(1);
        Some((peer, item))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_connection_gets_each_item_once_and_in_order() {
        let mut fan_out = FanOut::default();
        fan_out.push(vec![PeerId(1), PeerId(2)], vec!["a", "b"]);
        fan_out.push(Vec::new(), vec!["nobody"]);
        fan_out.push(vec![PeerId(3)], vec!["c"]);
        let pairs: Vec<(u64, &str)> = std::iter::from_fn(|| fan_out.pop()).map(|(peer, item)| (peer.0, item)).collect();
        assert_eq!(pairs, [(1, "a"), (2, "a"), (1, "b"), (2, "b"), (3, "c")]);
        assert!(fan_out.is_empty());
    }
}
