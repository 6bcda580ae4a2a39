//! Names that are claimed a second time: who of those under the same name is no family of the new one.

use std::collections::BTreeSet;
use std::time::Duration;

use super::connections::Connections;
use super::witness::Witness;
use crate::ptl::{self, PeerEnd};
use crate::server::{Input, PeerId};
use crate::types::{ProcId, Time};

/// Looks at processes for those who come by a name that is taken, and not too often.
#[derive(Debug, Default)]
pub(super) struct Claims {
    search_count: u32,
    /// When the count begins anew.
    period_end: Option<Time>,
}

impl Claims {
    /// Notes in an introduction which others under its name are strangers to it. Without others nothing is looked at.
    pub(super) fn examine(&mut self, input: &mut Input, connections: &Connections, witness: &Witness, now: Time) {
        let Some((peer, proc, strangers)) = claim(input) else { return };
        let others = witness.namesakes(peer, proc);
        if !others.is_empty() {
            *strangers = self.strangers(peer, others, connections, now);
        }
    }

    fn strangers(&mut self, id: PeerId, others: Vec<PeerId>, all: &Connections, now: Time) -> BTreeSet<PeerId> {
        let others: Vec<PeerId> = others.into_iter().take(NAMESAKES_MAX).collect();
        let mut ends: Vec<PeerEnd> = others.iter().map(|other| all.peer_end(*other)).collect();
        ends.push(all.peer_end(id));
        if ends.iter().any(|end| matches!(end, PeerEnd::Socket { .. })) && !self.may_search(now) {
            tracing::debug!(peer = id.0, "too many claims to look at; whose child this is stays unknown");
            return BTreeSet::new();
        }
        let claimant = ends.pop().unwrap_or(PeerEnd::Unknown);
        let told = ptl::strangers(claimant, &ends);
        others.into_iter().zip(told).filter_map(|(other, is_stranger)| is_stranger.then_some(other)).collect()
    }

    /// Whether all of a user's processes may be looked at once more.
    fn may_search(&mut self, now: Time) -> bool {
        if self.period_end.is_none_or(|end| end <= now) {
            *self = Self { search_count: 0, period_end: Some(now + PERIOD) };
        }
        self.search_count = self.search_count.saturating_add(1);
        self.search_count <= SEARCHES_PER_PERIOD_MAX
    }
}

fn claim(input: &mut Input) -> Option<(PeerId, &ProcId, &mut BTreeSet<PeerId>)> {
    match input {
        Input::Connected(peer, hello) => Some((*peer, &hello.proc, &mut hello.strangers)),
        Input::ToolConnected(peer, hello) => Some((*peer, hello.claimed.as_ref()?, &mut hello.strangers)),
        _ => None,
    }
}

/// Those under one name that are looked at: any of them that is family lets the new one in, so more would let in more.
const NAMESAKES_MAX: usize = 64;
/// Each search takes the server's thread some milliseconds; beyond these nothing is known of whoever claims a name.
const SEARCHES_PER_PERIOD_MAX: u32 = 4;
const PERIOD: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_searched_so_many_times_in_a_period() {
        let mut claims = Claims::default();
        let start = Time::from_nanos(7);
        assert!((0..SEARCHES_PER_PERIOD_MAX).all(|_| claims.may_search(start)));
        assert!(!claims.may_search(start));
        assert!(claims.may_search(start + PERIOD));
    }
}
