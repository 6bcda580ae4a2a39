//! Requests that take more than one turn.
//!
//! A request may bring a million values. Its work is cut: each step does a bounded part and leaves the rest here.
//! [`Output::Unfinished`] says that there is a rest, and [`Input::Proceed`](crate::server::Input::Proceed) does the
//! next step. The runtime serves others in between, and takes the next request of the same connection after the last
//! step. So the requests of a connection stay in order.
//!
//! Segments and notices of removals may go to thousands of connections. A step sends some of them, and a timer the
//! others.

use crate::gds::Datastore;
use crate::server::interface::{Output, PeerId};
use crate::server::state::{Rest, ServerCore};

impl<S: Datastore> ServerCore<S> {
    /// Keeps the rest of a connection's request for its next step.
    pub(super) fn leave_rest(&mut self, peer: PeerId, rest: Rest) {
        self.slices.push(peer, rest);
        self.outputs.push(Output::Unfinished(peer));
    }

    /// Whether messages for many connections are left.
    pub(in crate::server) fn has_fan_out(&self) -> bool {
        !self.handovers.is_empty() || !self.removals.is_empty()
    }

    /// Sends some of the messages for many connections.
    pub(in crate::server) fn send_some(&mut self) {
        self.fan_out_due = None;
        self.hand_over_some();
        self.tell_some_removals();
    }
}
