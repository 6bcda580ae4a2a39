//! Values that a Get finds although no process posted them and no host registered them. They follow from the
//! topology ([`crate::topo::derived`]), or the server has them from its host.

use std::sync::Weak;

use super::Session;
use crate::client::{Call, GetDirectives, GetRequest, Outcome};
use crate::gds::NodeSelector;
use crate::proto::{Get, Reply, Request};
use crate::runtime::client::fetched::ValueCallback;
use crate::runtime::shared::local;
use crate::topo::derived::{self, Derivable, Surroundings, derive};
use crate::types::{Key, Namespace, ProcId, Rank, Value};
use crate::{fabric, keys};

/// Whether the server has values of this key from the fabric or from inventories of nodes. They are in no segment.
fn is_delivered(key: &str) -> bool {
    fabric::KEYS.contains(&key)
}

/// Whether a value may exist although none is registered. A Get with `PMIX_OPTIONAL` wants none.
pub(super) fn may_follow(request: &GetRequest) -> bool {
    let is_plain = !request.directives.optional && request.directives.qualifiers.is_empty();
    let may_be = |key: &str| Derivable::of(key).is_some() || is_delivered(key);
    is_plain && request.key.as_ref().is_some_and(|key| may_be(key.as_str()))
}

/// Passes a value to the callback; if there is none, derives it from others.
pub(super) fn or_derived(session: &Weak<Session>, request: &GetRequest, callback: ValueCallback) -> ValueCallback {
    let (session, request) = (Weak::clone(session), request.clone());
    Box::new(move |result| match result {
        Err(error) if error.is_not_found() => {
            let derived = session.upgrade().and_then(|session| session.derived(&request));
            callback(derived.ok_or(error));
        }
        result => callback(result),
    })
}

impl Session {
    /// The value that follows from the topology. `None` if nothing follows, or if there is no topology.
    pub(super) fn derived(&self, request: &GetRequest) -> Option<Value> {
        let key = request.key.as_ref().filter(|_| may_follow(request))?;
        let Some(wanted) = Derivable::of(key.as_str()) else { return self.delivered(request) };
        if !self.means_own_node(request) {
            return None;
        }
        // Without a rank, the request means this process.
        let rank = match request.proc.rank {
            Rank::Undefined if request.proc.namespace == self.proc().namespace => self.proc().rank,
            rank => rank,
        };
        let proc = ProcId { namespace: request.proc.namespace.clone(), rank };
        let machine =
            if wanted.needs_machine() && derived::may_follow(wanted, &proc, self) { self.machine().ok() } else { None };
        derive(wanted, &proc, self, machine.as_deref())
    }

    /// Whether a request means this node. Derived values are true for this node alone.
    fn means_own_node(&self, request: &GetRequest) -> bool {
        let is_of_own_job = request.proc.namespace == self.proc().namespace;
        let id_of = |node: NodeSelector<'_>| {
            if node == NodeSelector::Implied {
                // Each job may number the nodes anew, and this process knows its node's number in its own job.
                let own =
                    is_of_own_job.then(|| self.known(&self.proc().namespace, self.proc().rank, keys::NODEID.name()));
                return own??.as_u64();
            }
            let mut directives = request.directives.clone();
            directives.demand_immediate();
            let key = Some(Key::from_static(keys::NODEID.name()));
            self.get(&GetRequest { key, directives, ..request.clone() }).ok()?.as_u64()
        };
        let own_name = self.hostname().map_or_else(local::hostname, str::to_owned);
        request.directives.realm_request().is_of_own_node(Some(&own_name), id_of)
    }

    /// The value that the server has without waiting. A session without a segment has asked its server already.
    fn delivered(&self, request: &GetRequest) -> Option<Value> {
        if self.is_alone() || !self.reads_segment() {
            return None;
        }
        let mut directives = request.directives.clone();
        directives.demand_immediate();
        let get = Get { proc: request.proc.clone(), key: request.key.clone(), directives: directives.upward };
        let Ok(Outcome::Reply(Reply::Data(data))) = self.link().call(Call::Exchange(Request::Get(get))) else {
            return None;
        };
        let mut entries = data.into_iter().flat_map(|data| data.entries);
        entries.find(|entry| Some(&entry.key) == request.key.as_ref()).map(|entry| entry.value)
    }
}

impl Surroundings for Session {
    /// A value of this process's job as known here, and of other jobs as known to the server.
    fn known(&self, job: &Namespace, rank: Rank, key: &'static str) -> Option<Value> {
        let proc = ProcId { namespace: job.clone(), rank };
        let mut directives = GetDirectives { optional: *job == self.proc().namespace, ..GetDirectives::default() };
        if !directives.optional {
            directives.demand_immediate();
        }
        self.get(&GetRequest { proc, key: Some(Key::from_static(key)), directives, looks: 0 }).ok()?.into_value().ok()
    }

    fn is_near(&self, job: &Namespace, rank: u32) -> bool {
        if *job != self.proc().namespace {
            return self.near_ranks(job).is_some_and(|ranks| ranks.contains(&rank));
        }
        let node = |rank| self.known(job, rank, keys::NODEID.name()).and_then(|value| value.as_u64());
        let own = self.proc().rank;
        own == Rank::from(rank) || node(own).is_some_and(|own| node(Rank::from(rank)) == Some(own))
    }

    fn is_here(&self, job: &Namespace) -> bool {
        *job == self.proc().namespace || self.near_ranks(job).is_some_and(|ranks| !ranks.is_empty())
    }
}
