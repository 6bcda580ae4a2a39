use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use super::host::{Host, Moment};
use crate::server::{Input, PeerId};
use crate::types::ProcId;

/// Tells the host when its processes reach the moments it may want to time.
pub(super) struct Witness {
    host: Arc<dyn Host>,
    procs: BTreeMap<PeerId, ProcId>,
}

impl Witness {
    pub(super) fn new(host: Arc<dyn Host>) -> Self {
        Self { host, procs: BTreeMap::new() }
    }

    /// Sees what the core is about to learn of a connection.
    pub(super) fn see(&mut self, input: &Input, init_age: impl FnOnce(PeerId) -> Option<Duration>) {
        match input {
            Input::Connected(peer, hello) => {
                if let Some(age) = init_age(*peer) {
                    self.tell(&hello.proc, Moment::InitBegun { age });
                }
                self.tell(&hello.proc, Moment::Connected);
                self.procs.insert(*peer, hello.proc.clone());
            }
            Input::Lost(peer) => {
                if let Some(proc) = self.procs.remove(peer) {
                    self.tell(&proc, Moment::Left);
                }
            }
            _ => {}
        }
    }

    /// The connection's process reached this moment.
    pub(super) fn reached(&self, peer: PeerId, moment: Moment) {
        if let Some(proc) = self.procs.get(&peer) {
            self.tell(proc, moment);
        }
    }

    /// This runs on the server's own thread: a panic of the host must not end it, and with it every client.
    fn tell(&self, proc: &ProcId, moment: Moment) {
        if catch_unwind(AssertUnwindSafe(|| self.host.observed(proc, moment))).is_err() {
            tracing::error!(%proc, ?moment, "the host panicked when it was told of a moment; it misses this one");
        }
    }

    /// Who a connection said it is.
    pub(super) fn proc(&self, peer: PeerId) -> Option<&ProcId> {
        self.procs.get(&peer)
    }

    /// The server has closed the connection.
    pub(super) fn forget(&mut self, peer: PeerId) {
        self.procs.remove(&peer);
    }
}
