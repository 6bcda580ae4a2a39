//! Questions about the node's topology: the runtime has it, and reads it for the first question.

use super::get::GetVerdict;
use crate::gds::Datastore;
use crate::keys;
use crate::server::interface::{Answer, TOPOLOGY, TopologyQuestion};
use crate::server::state::{Asker, HeldGet, Peer, RequestedData, ServerCore, Ticket};
use crate::types::{Key, ProcId, Rank, Status};

/// Keys that other libraries use for the topology as text.
const TEXTS: [&str; 2] = [keys::HWLOC_XML_V2.name(), keys::LOCAL_TOPO.name()];

impl<S: Datastore> ServerCore<S> {
    pub(super) fn pass_topology_question(&mut self, ticket: Ticket, proc: ProcId, key: Key) {
        if !self.config.answers_topology {
            return self.outputs.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
        }
        let is_mapping = self.peers.get(ticket.peer()).is_some_and(Peer::maps_segments);
        let wants_segment = is_mapping && key.as_str() == TOPOLOGY;
        self.outputs.answer(ticket, Answer::Topology(TopologyQuestion { proc, key, wants_segment }));
    }

    /// The key of the topology as text, if it is requested and the host has registered no other value under it.
    pub(super) fn topology_question(
        &self,
        asker: &Asker,
        requested: &RequestedData,
        verdict: &GetVerdict,
    ) -> Option<Key> {
        let Asker::Peer(ticket) = asker else { return None };
        let key = requested.key.as_ref().filter(|key| TEXTS.contains(&key.as_str()))?;
        // The job must be known here: its own processes ask, or a tool does.
        let namespace = &requested.proc.namespace;
        let is_own_job = self.peers.get(ticket.peer())?.is_of_job(namespace);
        let is_here = is_own_job || self.registry.registered(namespace).is_some();
        let is_asked = is_here && requested.proc.rank == Rank::Wildcard && self.config.answers_topology;
        (is_asked && *verdict != GetVerdict::Found && self.means_own_node(requested)).then(|| key.clone())
    }

    pub(super) fn ask_topology(&mut self, held: HeldGet, key: Key) {
        match held.asker {
            Asker::Peer(ticket) => self.pass_topology_question(ticket, held.requested.proc, key),
            asker => self.refuse(asker, Status::ERR_NOT_FOUND),
        }
    }
}
