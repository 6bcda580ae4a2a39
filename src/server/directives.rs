//! Directives that the server itself reads. Everything else goes to the host untouched.

use std::time::Duration;

use crate::gds::{NodeSelector, RealmRequest};
use crate::keys::{self, TypedKey};
use crate::types::{Info, InfoFlags};

/// Whether a yes-or-no directive is given and not false.
pub(super) fn flag(directives: &[Info], key: TypedKey<bool>) -> bool {
    find(directives, key).is_some_and(|info| info.value.as_bool().unwrap_or(false))
}

/// The bound on the operation: whole seconds; absent and 0 mean none.
pub(super) fn timeout(directives: &[Info]) -> Option<Duration> {
    let seconds = find(directives, keys::TIMEOUT)?.value.as_u64()?;
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

/// Whether an entry is marked as required and is none of those in `understood`.
pub(super) fn requires_more_than(directives: &[Info], understood: &[&str]) -> bool {
    directives.iter().any(|info| info.flags().contains(InfoFlags::REQUIRED) && !understood.contains(&info.key.as_str()))
}

/// The first entry with this key.
pub(super) fn find<T: ?Sized>(directives: &[Info], key: TypedKey<T>) -> Option<&Info> {
    directives.iter().find(|info| info.key.as_str() == key.name())
}

/// What a Get says beside process and key.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct GetDirectives {
    /// Answer from what is here; neither wait nor ask the host.
    pub(super) immediate: bool,
    /// Ask the host even if an older value is here.
    pub(super) refresh: bool,
    pub(super) timeout: Option<Duration>,
    /// Asks for no bound at all: a timeout of 0.
    pub(super) is_patient: bool,
    pub(super) realm: Realm,
}

impl GetDirectives {
    /// Reads them. `PMIX_OPTIONAL` should never reach a server; if it does, it means no more than immediate.
    pub(super) fn read(directives: &[Info]) -> Self {
        Self {
            immediate: flag(directives, keys::IMMEDIATE) || flag(directives, keys::OPTIONAL),
            refresh: flag(directives, keys::GET_REFRESH_CACHE),
            timeout: timeout(directives),
            is_patient: find(directives, keys::TIMEOUT).is_some_and(|info| info.value.as_u64() == Some(0)),
            realm: Realm::read(directives),
        }
    }
}

/// An owned [`RealmRequest`].
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
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
    pub(super) fn read(directives: &[Info]) -> Self {
        let number = |key| find(directives, key).and_then(|info| info.value.as_u32());
        if flag(directives, keys::SESSION_INFO) {
            return Self::Session(number(keys::SESSION_ID));
        }
        if flag(directives, keys::APP_INFO) {
            return Self::App(number(keys::APPNUM));
        }
        if flag(directives, keys::NODE_INFO) {
            if let Some(id) = number(keys::NODEID) {
                return Self::NodeId(id);
            }
            let name = find(directives, keys::HOSTNAME).and_then(|info| info.value.as_str());
            let name = name.map(str::to_owned);
            return name.map_or(Self::NodeImplied, Self::NodeName);
        }
        if flag(directives, keys::JOB_INFO) { Self::Job } else { Self::Default }
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
