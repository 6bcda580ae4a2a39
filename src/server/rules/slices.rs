//! Requests that take more than one turn.
//!
//! A request may bring a million values. Its work is cut: each step does a bounded part and leaves the rest here.
//! [`Output::Unfinished`] says that there is a rest, and [`Input::Proceed`](crate::server::Input::Proceed) does the
//! next step. The runtime serves others in between, and takes the next request of the same connection after the last
//! step. So the requests of a connection stay in order.

use crate::gds::Datastore;
use crate::server::interface::{Output, PeerId};
use crate::server::state::{Rest, ServerCore};

impl<S: Datastore> ServerCore<S> {
    /// Keeps the rest of a connection's request for its next step.
    pub(super) fn leave_rest(&mut self, peer: PeerId, rest: Rest) {
        self.slices.push(peer, rest);
        self.outputs.push(Output::Unfinished(peer));
    }
}
