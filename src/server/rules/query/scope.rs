//! The subject of a query: the process, the realm and other qualifiers.

use crate::gds::RealmRequest;
use crate::keys::{self, DefaultRealm, default_realm};
use crate::server::interface::directives::{GetDirectives, Realm, find, flag};
use crate::server::interface::requests::Requester;
use crate::server::rules::derived::Hardware;
use crate::server::state::waiting::Wanted;
use crate::types::{Info, InfoFlags, Key, Namespace, ProcId, Rank, Status, Text, Value};

/// The qualifiers of a query.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Scope {
    pub(super) namespace: Namespace,
    pub(super) rank: Rank,
    /// No process, namespace or rank is named.
    pub(super) is_unnamed: bool,
    pub(super) realm: Realm,
    /// A process set.
    pub(super) set: Option<Text>,
    pub(super) group: Option<Text>,
    /// Qualifiers of hardware in inventories: a node, a device.
    pub(super) hardware: [Option<Text>; 3],
    /// Only values posted with this scope.
    pub(super) audience: Option<u8>,
    /// Only values that are here.
    pub(super) is_optional: bool,
    /// The index of a query for values with qualifiers. Such queries are not compared.
    pub(super) qualified: Option<usize>,
}

impl Scope {
    pub(super) fn of(qualifiers: &[Info], requester: &Requester, index: usize) -> Result<Self, Status> {
        let realm = Realm::read(qualifiers);
        let proc = find(qualifiers, keys::PROCID);
        let (namespace, rank) = (find(qualifiers, keys::NSPACE), find(qualifiers, keys::RANK));
        let named = |key| match find(qualifiers, key).map(|info| &info.value) {
            Some(Value::String(name)) => Some(name.clone()),
            _ => None,
        };
        let (set, group) = (named(keys::PSET_NAME), named(keys::GROUP_ID));
        let hardware = [keys::HOSTNAME, keys::DEVICE_ID, keys::FABRIC_DEVICE_NAME].map(named);
        let audience = find(qualifiers, keys::DATA_SCOPE).and_then(|info| match info.value {
            Value::Scope(raw) => Some(raw),
            _ => None,
        });
        let is_optional = flag(qualifiers, keys::OPTIONAL);
        let qualified = qualifiers.iter().any(|info| info.flags().contains(InfoFlags::QUALIFIER)).then_some(index);
        let is_unnamed = proc.is_none() && namespace.is_none() && rank.is_none();
        let scope = |namespace, rank| {
            Ok(Self { namespace, rank, is_unnamed, realm, set, group, hardware, audience, is_optional, qualified })
        };
        match (proc.map(|info| &info.value), namespace.map(|info| &info.value)) {
            // Only one of the two forms is allowed.
            (Some(_), Some(_)) => Err(Status::ERR_BAD_PARAM),
            (Some(_), None) if rank.is_some() => Err(Status::ERR_BAD_PARAM),
            (Some(Value::Proc(proc)), None) if proc.namespace.is_nobodys() => Err(Status::ERR_BAD_PARAM),
            (None, Some(Value::ProcNamespace(namespace))) if namespace.is_nobodys() => Err(Status::ERR_BAD_PARAM),
            (Some(Value::Proc(proc)), None) => scope(proc.namespace.clone(), proc.rank),
            (None, Some(Value::ProcNamespace(namespace))) => scope(namespace.clone(), rank_of(rank)?),
            (None, Some(namespace)) => {
                let name = namespace.as_str().ok_or(Status::ERR_BAD_PARAM)?;
                scope(Namespace::new(name).map_err(|_| Status::ERR_BAD_PARAM)?, rank_of(rank)?)
            }
            (Some(_), None) => Err(Status::ERR_BAD_PARAM),
            // As in a Get without a process, the key decides.
            (None, None) if is_unnamed => scope(requester.proc.namespace.clone(), Rank::Undefined),
            (None, None) => scope(requester.proc.namespace.clone(), rank_of(rank)?),
        }
    }
}

/// The state of one query while its keys are answered.
pub(super) struct Asking<'a> {
    pub(super) requester: &'a Requester,
    pub(super) scope: &'a Scope,
    pub(super) qualifiers: &'a [Info],
    pub(super) hardware: Hardware<'a>,
    /// The equivalent Get of the current key.
    pub(super) wanted: Wanted,
    /// The process in question: without a rank the requester.
    pub(super) meant: ProcId,
}

impl<'a> Asking<'a> {
    pub(super) fn new(
        requester: &'a Requester,
        scope: &'a Scope,
        qualifiers: &'a [Info],
        hardware: Hardware<'a>,
    ) -> Self {
        let proc = ProcId { namespace: scope.namespace.clone(), rank: scope.rank };
        let reader = Some((requester.proc.clone(), requester.uid));
        let wanted =
            Wanted { proc: proc.clone(), key: None, directives: GetDirectives::read(qualifiers, None), reader };
        Self { requester, scope, qualifiers, hardware, wanted, meant: proc }
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
        let (own, Scope { namespace, rank, .. }) = (&self.requester.proc, self.scope);
        let named = ProcId { namespace: namespace.clone(), rank: *rank };
        let job = || ProcId { namespace: namespace.clone(), rank: Rank::Wildcard };
        self.meant = match rank {
            _ if realm.is_of_session() => ProcId { rank: Rank::Wildcard, ..own.clone() },
            Rank::Undefined if *namespace == own.namespace => own.clone(),
            _ => named.clone(),
        };
        self.wanted.proc = match rank {
            _ if realm.is_of_session() => self.meant.clone(),
            Rank::Undefined if is_of_place && self.scope.is_unnamed => self.meant.clone(),
            Rank::Undefined if key.is_reserved() => job(),
            _ => named,
        };
        self.wanted.directives.realm = realm;
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

/// Without a rank a query about a job means all of it.
fn rank_of(info: Option<&Info>) -> Result<Rank, Status> {
    match info.map(|info| &info.value) {
        None => Ok(Rank::Wildcard),
        Some(Value::ProcRank(rank)) => Ok(*rank),
        Some(value) => value.as_u32().and_then(|raw| Rank::from_raw(raw).ok()).ok_or(Status::ERR_BAD_PARAM),
    }
}
