//! The attribute names this module knows. Source: PMIx Standard, "Data Access and Sharing", "Reserved Keys".

/// Look only in the caller's own store.
pub(super) const OPTIONAL: &str = "pmix.optional";
/// The server answers from what it has.
pub(super) const IMMEDIATE: &str = "pmix.immediate";
/// Fetch again what may be cached.
pub(super) const REFRESH_CACHE: &str = "pmix.get.refresh";
/// Return a pointer into the store.
pub(super) const POINTER_VALUES: &str = "pmix.get.pntrs";
/// Fill storage of the caller.
pub(super) const STATIC_VALUES: &str = "pmix.get.static";
/// Scope in which a value is searched.
pub(super) const DATA_SCOPE: &str = "pmix.scope";
/// Seconds before giving up; 0: never.
pub(super) const TIMEOUT: &str = "pmix.timeout";
/// The key is meant in the session realm.
pub(super) const SESSION_INFO: &str = "pmix.ssn.info";
/// The key is meant in the job realm.
pub(super) const JOB_INFO: &str = "pmix.job.info";
/// The key is meant in the application realm.
pub(super) const APP_INFO: &str = "pmix.app.info";
/// The key is meant in the node realm.
pub(super) const NODE_INFO: &str = "pmix.node.info";
/// Name of a node.
pub(super) const HOSTNAME: &str = "pmix.hname";
/// Number of a node.
pub(super) const NODE_ID: &str = "pmix.nodeid";
/// Number of an application.
pub(super) const APP_NUMBER: &str = "pmix.appnum";
/// Number of a session.
pub(super) const SESSION_ID: &str = "pmix.session.id";
/// A fence also exchanges committed data.
pub(super) const COLLECT_DATA: &str = "pmix.collect";
/// A fence also spreads job data that servers computed.
pub(super) const COLLECT_GENERATED_JOB_INFO: &str = "pmix.collect.gen";
/// Namespace and rank of the caller.
pub(super) const PROCESS_ID: &str = "pmix.procid";
/// Namespace of a process.
pub(super) const NAMESPACE: &str = "pmix.nspace";
/// Rank of a process.
pub(super) const RANK: &str = "pmix.rank";
