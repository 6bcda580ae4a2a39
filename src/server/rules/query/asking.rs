//! The state of one query while its keys are answered.

use crate::gds::RealmRequest;
use crate::keys::{self, DefaultRealm, default_realm};
use crate::server::interface::{GetDirectives, Requester};
use crate::server::state::{Hardware, QueryScope, RequestedData};
use crate::types::{Info, Key, ProcId, Rank, Value};

/// The state of one query while its keys are answered.
pub(super) struct Asking<'a> {
    pub(super) requester: &'a Requester,
    pub(super) scope: &'a QueryScope,
    pub(super) qualifiers: &'a [Info],
    pub(super) hardware: Hardware<'a>,
    /// The equivalent Get of the current key.
    pub(super) requested: RequestedData,
    /// The process in question: without a rank the requester.
    pub(super) meant: ProcId,
}

impl<'a> Asking<'a> {
    pub(super) fn new(
        requester: &'a Requester,
        scope: &'a QueryScope,
        qualifiers: &'a [Info],
        hardware: Hardware<'a>,
    ) -> Self {
        let proc = ProcId { namespace: scope.namespace.clone(), rank: scope.rank };
        let reader = Some((requester.proc.clone(), requester.uid));
        let requested =
            RequestedData { proc: proc.clone(), key: None, directives: GetDirectives::read(qualifiers, None), reader };
        Self { requester, scope, qualifiers, hardware, requested, meant: proc }
    }

    /// Selects the target of a client's Get of this key. For a session's value it is the requester's own job. Without a
    /// rank it is the requester if its placement decides, else the job.
    pub(super) fn aim(&mut self, key: &Key) {
        let realm = self.scope.realm.clone().of_key(Some(key));
        let is_of_place = match realm.as_request() {
            RealmRequest::Default => {
                matches!(default_realm(key.as_str()), DefaultRealm::Node | DefaultRealm::Application)
            }
            RealmRequest::Node(_) | RealmRequest::App(_) | RealmRequest::AppNode(..) => true,
            RealmRequest::Session(_) | RealmRequest::SessionNode(..) | RealmRequest::Job => false,
        };
        let (own, QueryScope { namespace, rank, .. }) = (&self.requester.proc, self.scope);
        let named = ProcId { namespace: namespace.clone(), rank: *rank };
        let job = || ProcId { namespace: namespace.clone(), rank: Rank::Wildcard };
        self.meant = match rank {
            _ if realm.is_of_session() => ProcId { rank: Rank::Wildcard, ..own.clone() },
            Rank::Undefined if *namespace == own.namespace => own.clone(),
            _ => named.clone(),
        };
        self.requested.proc = match rank {
            _ if realm.is_of_session() => self.meant.clone(),
            Rank::Undefined if is_of_place && self.scope.is_unnamed => self.meant.clone(),
            Rank::Undefined if key.is_reserved() => job(),
            _ => named,
        };
        self.requested.directives.realm = realm;
    }
}

/// Facts that follow from the requester alone.
pub(super) fn about_self(asking: &Asking<'_>, key: &Key) -> Option<Value> {
    let (own, meant) = (&asking.requester.proc, &asking.meant);
    let is_own_job = meant.namespace == own.namespace;
    match key.as_str() {
        name if name == keys::PROCID.name() => Some(Value::from(own.clone())),
        name if name == keys::NSPACE.name() && is_own_job => Some(Value::from(own.namespace.as_str())),
        name if name == keys::RANK.name() && is_own_job => {
            let is_own = meant.rank == own.rank || meant.rank == Rank::Invalid;
            is_own.then(|| Value::from(own.rank))
        }
        _ => None,
    }
}
