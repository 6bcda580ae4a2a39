//! The attribute names that this module knows. Source: PMIx Standard, "Data Access and Sharing", "Reserved Keys".
//!
//! As text, because a `match` takes no typed keys.

use crate::keys;

/// Look only in the caller's own store.
pub(super) const OPTIONAL: &str = keys::OPTIONAL.name();
/// The server answers from its own data.
pub(super) const IMMEDIATE: &str = keys::IMMEDIATE.name();
/// Fetch values again that may be cached.
pub(super) const REFRESH_CACHE: &str = keys::GET_REFRESH_CACHE.name();
/// Return a pointer into the store.
pub(super) const POINTER_VALUES: &str = keys::GET_POINTER_VALUES.name();
/// Fill storage of the caller.
pub(super) const STATIC_VALUES: &str = keys::GET_STATIC_VALUES.name();
/// Scope in which a value is searched.
pub(super) const DATA_SCOPE: &str = keys::DATA_SCOPE.name();
/// Seconds before giving up; 0: never.
pub(super) const TIMEOUT: &str = keys::TIMEOUT.name();
/// The key is meant in the session realm.
pub(super) const SESSION_INFO: &str = keys::SESSION_INFO.name();
/// The key is meant in the job realm.
pub(super) const JOB_INFO: &str = keys::JOB_INFO.name();
/// The key is meant in the application realm.
pub(super) const APP_INFO: &str = keys::APP_INFO.name();
/// The key is meant in the node realm.
pub(super) const NODE_INFO: &str = keys::NODE_INFO.name();
/// Name of a node.
pub(super) const HOSTNAME: &str = keys::HOSTNAME.name();
/// Number of a node.
pub(super) const NODE_ID: &str = keys::NODEID.name();
/// Number of an application.
pub(super) const APP_NUMBER: &str = keys::APPNUM.name();
/// Number of a session.
pub(super) const SESSION_ID: &str = keys::SESSION_ID.name();
/// Names of the process sets that a process is in.
pub(super) const PSET_NAMES: &str = keys::PSET_NAMES.name();
/// Names of the groups that a process is in.
pub(super) const GROUP_NAMES: &str = keys::GROUP_NAMES.name();
/// The number that the host gave a group.
pub(super) const GROUP_CONTEXT_ID: &str = keys::GROUP_CONTEXT_ID.name();
/// A fence also exchanges committed data.
pub(super) const COLLECT_DATA: &str = keys::COLLECT_DATA.name();
/// A fence also spreads job data that servers computed.
pub(super) const COLLECT_GENERATED_JOB_INFO: &str = keys::COLLECT_GENERATED_JOB_INFO.name();
/// Namespace and rank of the caller.
pub(super) const PROCESS_ID: &str = keys::PROCID.name();
/// Namespace of a process.
pub(super) const NAMESPACE: &str = keys::NSPACE.name();
/// Rank of a process.
pub(super) const RANK: &str = keys::RANK.name();
