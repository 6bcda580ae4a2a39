//! Directives that the server itself reads. Everything else goes to the host untouched.

use std::time::Duration;

use crate::gds::{NodeSelector, RealmRequest};
use crate::types::{Info, InfoFlags};

/// Keys of directives.
///
/// Source: PMIx Standard, "Put and Get", "Synchronization", "Server-Specific Interfaces".
pub(super) mod keys {
    use crate::types::Key;

    pub(in crate::server) const COLLECT_DATA: &str = "pmix.collect";
    pub(in crate::server) const COLLECT_GENERATED_JOB_INFO: &str = "pmix.collect.gen";
    pub(in crate::server) const TIMEOUT_NAME: &str = "pmix.timeout";
    pub(in crate::server) const TIMEOUT: Key = Key::from_static(TIMEOUT_NAME);
    pub(in crate::server) const REQUIRED_KEY: Key = Key::from_static("pmix.req.key");
    pub(in crate::server) const LOCAL_COLLECTIVE_STATUS: Key = Key::from_static("pmix.loc.col.st");
    pub(in crate::server) const USER_ID: Key = Key::from_static("pmix.euid");
    pub(in crate::server) const GROUP_ID: Key = Key::from_static("pmix.egid");
    /// Ours: travels with the values of one process and says which of its commits they include. Other libraries keep
    /// it as one more value of the process.
    pub(in crate::server) const COMMIT_NUMBER: Key = Key::from_static("pmix.modex.commit");
    pub(in crate::server) const JOB_SIZE: &str = "pmix.job.size";
}

/// Whether a yes-or-no directive is given and not false.
pub(super) fn flag(directives: &[Info], key: &str) -> bool {
    find(directives, key).is_some_and(|info| info.value.as_bool().unwrap_or(false))
}

/// The bound on the operation: whole seconds; absent and 0 mean none.
pub(super) fn timeout(directives: &[Info]) -> Option<Duration> {
    let seconds = find(directives, keys::TIMEOUT_NAME)?.value.as_u64()?;
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

/// Whether an entry is marked as required and is none of those in `understood`.
pub(super) fn requires_more_than(directives: &[Info], understood: &[&str]) -> bool {
    directives.iter().any(|info| info.flags().contains(InfoFlags::REQUIRED) && !understood.contains(&info.key.as_str()))
}

pub(super) fn find<'a>(directives: &'a [Info], key: &str) -> Option<&'a Info> {
    directives.iter().find(|info| info.key.as_str() == key)
}

/// What a Get says beside process and key.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct GetDirectives {
    /// Answer from what is here; neither wait nor ask the host.
    pub(super) immediate: bool,
    /// Ask the host even if an older value is here.
    pub(super) refresh: bool,
    pub(super) timeout: Option<Duration>,
    pub(super) realm: Realm,
}

impl GetDirectives {
    /// Reads them. `PMIX_OPTIONAL` should never reach a server; if it does, it means no more than immediate.
    pub(super) fn read(directives: &[Info]) -> Self {
        Self {
            immediate: flag(directives, "pmix.immediate") || flag(directives, "pmix.optional"),
            refresh: flag(directives, "pmix.get.refresh"),
            timeout: timeout(directives),
            realm: Realm::read(directives),
        }
    }
}

/// An owned [`RealmRequest`].
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Realm {
    #[default]
    Default,
    Session(Option<u32>),
    Job,
    App(Option<u32>),
    NodeImplied,
    NodeId(u32),
    NodeName(String),
}

impl Realm {
    fn read(directives: &[Info]) -> Self {
        let number = |key| find(directives, key).and_then(|info| info.value.as_u32());
        if flag(directives, "pmix.ssn.info") {
            return Self::Session(number("pmix.session.id"));
        }
        if flag(directives, "pmix.app.info") {
            return Self::App(number("pmix.appnum"));
        }
        if flag(directives, "pmix.node.info") {
            if let Some(id) = number("pmix.nodeid") {
                return Self::NodeId(id);
            }
            let name = find(directives, "pmix.hname").and_then(|info| info.value.as_str());
            let name = name.map(str::to_owned);
            return name.map_or(Self::NodeImplied, Self::NodeName);
        }
        if flag(directives, "pmix.job.info") { Self::Job } else { Self::Default }
    }

    pub(super) fn as_request(&self) -> RealmRequest<'_> {
        match self {
            Self::Default => RealmRequest::Default,
            Self::Session(id) => RealmRequest::Session(*id),
            Self::Job => RealmRequest::Job,
            Self::App(number) => RealmRequest::App(*number),
            Self::NodeImplied => RealmRequest::Node(NodeSelector::Implied),
            Self::NodeId(id) => RealmRequest::Node(NodeSelector::Id(*id)),
            Self::NodeName(name) => RealmRequest::Node(NodeSelector::Name(name)),
        }
    }
}
