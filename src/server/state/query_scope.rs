//! The subject of a query: the process, the realm and other qualifiers.

use crate::server::interface::query_answers::QUERY_QUALIFIERS;
use crate::server::interface::{OwnedRealm, Requester, find, flag};
use crate::types::{Info, InfoFlags, Namespace, Query, Rank, Status, Text, Value};
use crate::{fabric, keys, storage, usage};

/// The qualifiers of a query.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct QueryScope {
    pub(crate) namespace: Namespace,
    pub(crate) rank: Rank,
    /// No process, namespace or rank is named.
    pub(crate) is_unnamed: bool,
    pub(crate) realm: OwnedRealm,
    /// A process set.
    pub(crate) set: Option<Text>,
    pub(crate) group: Option<Text>,
    /// Qualifiers of hardware: a node, a device, a plane of a fabric.
    pub(crate) hardware: [Option<Text>; 6],
    /// Numbers of hardware: of a plane, and of a device in it.
    pub(crate) hardware_numbers: [Option<u64>; 2],
    /// Only values posted with this scope.
    pub(crate) audience: Option<u8>,
    /// Only values that are here.
    pub(crate) is_optional: bool,
    /// The index of a query for values with qualifiers, or with those of costs, storage or usage. Such queries are not
    /// compared.
    pub(crate) qualified: Option<usize>,
}

impl QueryScope {
    /// Reads the qualifiers of a query with a place among others. Those of storage count for queries about storage
    /// alone, and so do those of the use of resources.
    pub(crate) fn of(query: &Query, requester: &Requester, index: usize, has_storage: bool) -> Result<Self, Status> {
        let Query { keys: names, qualifiers } = query;
        check(names, qualifiers, has_storage)?;
        let realm = OwnedRealm::read(qualifiers);
        let proc = find(qualifiers, keys::PROCID);
        let (namespace, rank) = (find(qualifiers, keys::NSPACE), find(qualifiers, keys::RANK));
        let named = |key| match find(qualifiers, key).map(|info| &info.value) {
            Some(Value::String(name)) => Some(name.clone()),
            _ => None,
        };
        let (set, group) = (named(keys::PSET_NAME), named(keys::GROUP_ID));
        let hardware = [
            keys::HOSTNAME,
            keys::DEVICE_ID,
            keys::FABRIC_DEVICE_NAME,
            keys::FABRIC_IDENTIFIER,
            keys::FABRIC_PLANE,
            keys::FABRIC_VENDOR,
        ];
        let hardware = hardware.map(named);
        let numbers = [find(qualifiers, keys::FABRIC_INDEX), find(qualifiers, keys::FABRIC_DEVICE_INDEX)];
        let hardware_numbers = numbers.map(|info| info.and_then(|info| info.value.as_u64()));
        let audience = find(qualifiers, keys::DATA_SCOPE).and_then(|info| match info.value {
            Value::Scope(raw) => Some(raw),
            _ => None,
        });
        let is_optional = flag(qualifiers, keys::OPTIONAL);
        let is_special = |info: &Info| {
            let key = info.key.as_str();
            let is_of_value = info.flags().contains(InfoFlags::QUALIFIER);
            is_of_value || keys::OF_COSTS.contains(&key) || storage::is_qualifier(key) || usage::is_query_qualifier(key)
        };
        let qualified = qualifiers.iter().any(is_special).then_some(index);
        let is_unnamed = proc.is_none() && namespace.is_none() && rank.is_none();
        let scope = |namespace, rank| {
            Ok(Self {
                namespace,
                rank,
                is_unnamed,
                realm,
                set,
                group,
                hardware,
                hardware_numbers,
                audience,
                is_optional,
                qualified,
            })
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

/// Refuses a required qualifier without a meaning for a query, and a malformed one.
fn check(names: &[Text], qualifiers: &[Info], has_storage: bool) -> Result<(), Status> {
    let is_of_storage = |name: &Text| name.to_str().is_ok_and(storage::is_key);
    let is_about_storage = has_storage && names.iter().all(is_of_storage);
    let is_of_usage = |name: &Text| name.to_str().is_ok_and(usage::is_query_key);
    let is_about_usage = names.iter().all(is_of_usage);
    let is_known = |key: &str| {
        QUERY_QUALIFIERS.contains(&key)
            || (is_about_storage && storage::is_qualifier(key))
            || (is_about_usage && usage::is_query_qualifier(key))
    };
    let is_unmet = |info: &Info| {
        let is_of_value = info.flags().contains(InfoFlags::QUALIFIER);
        !is_of_value && keys::is_unmet(info, is_known)
    };
    match qualifiers {
        all if all.iter().any(is_unmet) => Err(Status::ERR_NOT_SUPPORTED),
        all if all.iter().any(fabric::is_malformed) => Err(Status::ERR_BAD_PARAM),
        _ => Ok(()),
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
