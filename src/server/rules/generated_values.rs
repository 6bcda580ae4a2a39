//! Values that a server generates for its own processes, for fences that spread them to other nodes
//! (`PMIX_COLLECT_GENERATED_JOB_INFO`).
//!
//! The store keeps them as if the process had put them for everybody, and the fence carries them with all other data.

use super::derived::{Derivation, Derived};
use crate::gds::{Datastore, KeyRef, Lookup, Posted, RealmRequest};
use crate::keys;
use crate::server::interface::Output;
use crate::server::state::{DeferredRequest, Hardware, OperationId, RegisteredClient, ServerCore};
use crate::topo::derived::Derivable;
use crate::types::{Key, ProcId, Scope, Status, Time};

/// The keys of generated values of a process. All need the topology. A rank in a package would need a look at all
/// processes of the node.
const GENERATED: [&str; 2] = [keys::DEVICE_DISTANCES.name(), keys::LOCALITY_STRING.name()];

impl<S: Datastore> ServerCore<S> {
    /// Generates the values of the processes that have arrived with this wish. A fence waits for those that need the
    /// topology.
    pub(super) fn generate_values(&mut self, id: OperationId) {
        let wishes = self.collectives.get_mut(id).map(|operation| operation.generated_mut().take_wishes());
        // Otherwise the topology is on its way, or a step is due.
        let wants_topology = self.deferred.len() == 0;
        for proc in wishes.unwrap_or_default() {
            let has_values = self.registry.client(&proc).is_some_and(RegisteredClient::has_generated_values);
            if !has_values
                && GENERATED.into_iter().any(|key| self.may_generate(&proc, key))
                && let Some(operation) = self.collectives.get_mut(id)
            {
                operation.generated_mut().await_one();
                self.deferred.push(DeferredRequest::Generated(id, proc));
            }
        }
        if wants_topology && self.deferred.len() > 0 {
            self.outputs.push(Output::WantTopology);
        }
    }

    fn may_generate(&self, proc: &ProcId, key: &'static str) -> bool {
        matches!(self.generate(proc, key, Hardware::Unasked), Derived::NeedsTopology)
    }

    /// Publishes the values of a process, with the topology or without, and lets its fence go on.
    pub(super) fn publish_generated(&mut self, now: Time, id: OperationId, proc: &ProcId, hardware: Hardware<'_>) {
        let posted = |key| match self.generate(proc, key, hardware) {
            Derived::Value(value) => Some(Posted { scope: Scope::Global, key: Key::new(key).ok()?, value }),
            Derived::Nothing | Derived::NeedsTopology => None,
        };
        let values: Vec<Posted> = GENERATED.into_iter().filter_map(posted).collect();
        let failure = match hardware {
            Hardware::Known(_) => self.publish_commit(proc, &values, false).err(),
            Hardware::Unasked | Hardware::Absent => Some(Status::ERR_NOT_SUPPORTED),
        };
        if failure.is_none() {
            self.registry.client_mut(proc).into_iter().for_each(RegisteredClient::note_generated_values);
            self.review_keys(now, proc, &values);
        }
        let Some(operation) = self.collectives.get_mut(id) else { return };
        failure.into_iter().for_each(|status| operation.generated_mut().fail(status));
        operation.generated_mut().note_one();
        // An advance looks at all processes of the fence.
        if !operation.generated().are_awaited() {
            self.advance_operation(now, id);
        }
    }

    /// A value, unless the host or the process has given one.
    fn generate(&self, proc: &ProcId, key: &'static str, hardware: Hardware<'_>) -> Derived {
        let stored = Lookup { rank: proc.rank, key: KeyRef::new(key), realm: RealmRequest::Default, audience: None };
        match Derivable::of(key) {
            Some(wanted) if self.store.lookup(&proc.namespace, &stored).is_err() => {
                self.derived(wanted, &Derivation { asker: None, proc }, hardware)
            }
            _ => Derived::Nothing,
        }
    }
}
