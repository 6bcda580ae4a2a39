use std::collections::BTreeMap;
use std::sync::Arc;

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
    pub(super) fn see(&mut self, input: &Input) {
        match input {
            Input::Connected(peer, hello) => {
                self.host.observed(&hello.proc, Moment::Connected);
                self.procs.insert(*peer, hello.proc.clone());
            }
            Input::Lost(peer) => drop(self.procs.remove(peer)),
            _ => {}
        }
    }

    /// The connection's process reached this moment.
    pub(super) fn reached(&self, peer: PeerId, moment: Moment) {
        if let Some(proc) = self.procs.get(&peer) {
            self.host.observed(proc, moment);
        }
    }

    /// The server has closed the connection.
    pub(super) fn forget(&mut self, peer: PeerId) {
        self.procs.remove(&peer);
    }
}
