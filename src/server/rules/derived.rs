//! Values derived from the node's topology, for queries and for the server's own process. Requests that need it wait
//! until the server's runtime provides it.

use std::sync::Arc;

use super::get::GetVerdict;
use crate::gds::{Datastore, KeyRef, Lookup, NodeSelector, RealmRequest};
use crate::keys;
use crate::server::interface::{HostResult, NodeHardware, Output, flag};
use crate::server::state::{
    Asker, CallTicket, DeferredRequest, Hardware, NEXT_STEP_IN, Questions, RequestedData, ServerCore, Ticket, Timer,
    Topology,
};
use crate::topo::derived::{Derivable, Surroundings, derive, may_follow};
use crate::types::{Info, Kval, Namespace, ProcId, Rank, Status, Time, Value};

/// Processes whose values are generated in one turn. A turn with 512 of them takes some milliseconds.
const GENERATED_PER_STEP: usize = 64;

/// The process and the asker of a derived value.
pub(super) struct Derivation<'a> {
    /// The server's own process has no job.
    pub(super) asker: Option<&'a ProcId>,
    pub(super) proc: &'a ProcId,
}

/// The result of a derivation.
pub(super) enum Derived {
    Value(Value),
    Nothing,
    /// There may be a value, but the server's runtime must provide the topology first.
    NeedsTopology,
}

impl<S: Datastore> ServerCore<S> {
    /// Derives the value of a key.
    pub(super) fn derived(&self, wanted: Derivable, of: &Derivation<'_>, hardware: Hardware<'_>) -> Derived {
        let around = Here { server: self, asker: of.asker };
        let machine = match hardware {
            Hardware::Unasked if !wanted.needs_machine() => None,
            Hardware::Unasked if may_follow(wanted, of.proc, &around) => return Derived::NeedsTopology,
            Hardware::Unasked => return Derived::Nothing,
            Hardware::Known(machine) => Some(machine),
            Hardware::Absent => None,
        };
        derive(wanted, of.proc, &around, machine).map_or(Derived::Nothing, Derived::Value)
    }

    pub(super) fn defer_queries(&mut self, ticket: Ticket, questions: Questions) {
        self.defer(DeferredRequest::Queries(ticket, Box::new(questions)));
    }

    pub(super) fn defer(&mut self, request: DeferredRequest) {
        self.deferred.push(request);
        self.outputs.push(Output::WantTopology);
    }

    /// Answers requests that wait for the topology, with it or without. Of many processes with generated values a part
    /// is left for the next turns.
    pub(in crate::server) fn answer_deferred(&mut self, now: Time, hardware: &NodeHardware) {
        let shared = hardware.0.as_ref().map(Arc::clone);
        let hardware = shared.as_ref().map_or(Hardware::Absent, |shared| Hardware::Known(shared.machine()));
        if let Hardware::Known(machine) = hardware {
            self.keep_own_inventory(machine);
        }
        let mut left = GENERATED_PER_STEP;
        for request in self.deferred.take() {
            match request {
                DeferredRequest::Generated(..) if left == 0 => self.deferred.push(request),
                DeferredRequest::Queries(ticket, questions) => {
                    let topology = shared.as_ref().map(Arc::clone).map_or(Topology::Absent, Topology::Known);
                    self.answer_queries_with(ticket, *questions, topology);
                }
                DeferredRequest::Own(ticket, requested) => self.answer_own(ticket, *requested, hardware),
                DeferredRequest::Generated(id, proc) => {
                    left -= 1;
                    self.publish_generated(now, id, &proc, hardware);
                }
            }
        }
        if left == 0 && self.deferred.len() > 0 && self.deferred.next_step().is_none() {
            self.deferred.set_next_step(Some(now + NEXT_STEP_IN));
            self.timers.arm(self.deferred.next_step(), Timer::Generated);
        }
    }

    /// The next step of the processes that were left.
    pub(in crate::server) fn generate_more(&mut self) {
        self.deferred.set_next_step(None);
        self.outputs.push(Output::WantTopology);
    }

    /// Answers the server's own process with a derived value, if it has no other. Returns the asker if none can be
    /// derived.
    pub(super) fn answer_own_from_topology(
        &mut self,
        asker: Asker,
        requested: &RequestedData,
        directives: &[Info],
    ) -> Option<Asker> {
        let Asker::Own(ticket) = asker else { return Some(asker) };
        let name = requested.key.as_ref().map_or("", |key| key.as_str());
        let may_be_derived =
            may_be_derived(directives, &requested.directives.qualifiers) && self.means_own_node(requested);
        if Derivable::of(name).is_none() || !may_be_derived {
            return Some(Asker::Own(ticket));
        }
        let asker = Asker::Own(ticket);
        let has_nothing = matches!(self.judge(&asker, requested), GetVerdict::Refused(Status::ERR_NOT_FOUND));
        match asker {
            Asker::Own(ticket) if has_nothing => self.answer_own(ticket, requested.clone(), Hardware::Unasked),
            asker => return Some(asker),
        }
        None
    }

    fn answer_own(&mut self, ticket: CallTicket, requested: RequestedData, hardware: Hardware<'_>) {
        let derivable = requested.key.as_ref().and_then(|key| Derivable::of(key.as_str()));
        let derived = derivable.map_or(Derived::Nothing, |derivable| {
            self.derived(derivable, &Derivation { asker: None, proc: &requested.proc }, hardware)
        });
        let result = match (derived, requested.key) {
            (Derived::Value(value), Some(key)) => HostResult::Entries(vec![Kval { key, value }]),
            (Derived::NeedsTopology, Some(_)) if self.host_has_too_much() => {
                HostResult::Status(Status::ERR_OUT_OF_RESOURCE)
            }
            (Derived::NeedsTopology, key) => {
                return self.defer(DeferredRequest::Own(ticket, Box::new(RequestedData { key, ..requested })));
            }
            _ => HostResult::Status(Status::ERR_NOT_FOUND),
        };
        self.outputs.complete(ticket, result);
    }

    fn host_has_too_much(&self) -> bool {
        let waiting = self.held_gets.host_requests().saturating_add(self.deferred.host_requests());
        waiting >= self.config.limits.host_requests_max
    }
}

/// Whether a derived value may be the answer. An optional request wants stored values only; a value with qualifiers is
/// never derived.
pub(super) fn may_be_derived(directives: &[Info], qualifiers: &[Info]) -> bool {
    qualifiers.is_empty() && !flag(directives, keys::OPTIONAL)
}

/// This server's data about jobs.
struct Here<'a, S: Datastore> {
    server: &'a ServerCore<S>,
    /// Its own job is local, even without data about it.
    asker: Option<&'a ProcId>,
}

impl<S: Datastore> Surroundings for Here<'_, S> {
    fn known(&self, job: &Namespace, rank: Rank, key: &'static str) -> Option<Value> {
        let lookup = Lookup { rank, key: KeyRef::new(key), realm: RealmRequest::Default, audience: None };
        self.server.store.lookup(job, &lookup).ok()
    }

    fn is_near(&self, job: &Namespace, rank: u32) -> bool {
        let is_client = || self.server.registry.client(&ProcId::new(job.clone(), rank)).is_some();
        is_client() || self.near_ranks(job).is_some_and(|ranks| ranks.contains(&rank)) || self.is_on_own_node(job, rank)
    }

    fn is_here(&self, job: &Namespace) -> bool {
        let is_known = || self.server.registry.registered(job).is_some();
        let has_clients = || self.server.registry.job(job).is_some_and(|job| !job.clients().is_empty());
        let has_ranks = || self.near_ranks(job).is_some_and(|ranks| !ranks.is_empty());
        self.asker.is_some_and(|asker| *job == asker.namespace) || is_known() && (has_clients() || has_ranks())
    }
}

impl<S: Datastore> ServerCore<S> {
    /// The number of this node in a job.
    pub(super) fn own_node_id(&self, job: &Namespace) -> Option<u64> {
        self.node_id(job, NodeSelector::Implied)
    }

    /// The number of a node in a job.
    fn node_id(&self, job: &Namespace, node: NodeSelector<'_>) -> Option<u64> {
        let (key, realm) = (KeyRef::new(keys::NODEID.name()), RealmRequest::Node(node));
        self.store.lookup(job, &Lookup { rank: Rank::Wildcard, key, realm, audience: None }).ok()?.as_u64()
    }

    /// Whether a request means this node. Derived values are true for this node alone.
    pub(super) fn means_own_node(&self, requested: &RequestedData) -> bool {
        let own_name = self.config.kernel_inventory.as_ref().map(|own| own.inventory().node.as_str());
        let job = &requested.proc.namespace;
        requested.directives.realm.as_request().is_of_own_node(own_name, |node| self.node_id(job, node))
    }
}

impl<S: Datastore> Here<'_, S> {
    fn is_on_own_node(&self, job: &Namespace, rank: u32) -> bool {
        let own = self.server.own_node_id(job);
        let found = self.known(job, Rank::from(rank), keys::NODEID.name()).and_then(|value| value.as_u64());
        own.is_some() && own == found
    }
}
