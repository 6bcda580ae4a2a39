//! The words of a lookup: whose value, of which realm, for which readers, and why there is none.

use crate::types::{AsStatus, Key, Namespace, Rank, Scope, Status, Value};

/// Origin of a block of values, which decides the scope rules for readers on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Committed by a process on this node: local readers see `local` and `global` values.
    Local,
    /// Received from another node by a fence or direct modex: local readers see `remote` and `global` values.
    Remote,
}

/// The readers for whom values are collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Processes on the publisher's node: `local` and `global` values.
    SameNode,
    /// Processes on other nodes: `remote` and `global` values.
    OtherNodes,
    /// No process: excludes every posted value.
    Nobody,
}

impl Audience {
    /// The audience of a Get with a scope (`PMIX_DATA_SCOPE`); `None`: all values, as without a scope. Values of
    /// internal scope are in no store. Registered values have no scope, so no scope excludes them.
    #[must_use]
    pub const fn of_scope(scope: Option<Scope>) -> Option<Self> {
        match scope {
            None | Some(Scope::Global) => None,
            Some(Scope::Internal) => Some(Self::Nobody),
            Some(Scope::Local) => Some(Self::SameNode),
            Some(Scope::Remote) => Some(Self::OtherNodes),
        }
    }
}

/// One value that a process posted.
#[derive(Clone, Debug, PartialEq)]
pub struct Posted {
    /// The readers that may see it. Never [`Scope::Internal`].
    pub scope: Scope,
    /// Its key.
    pub key: Key,
    /// The value.
    pub value: Value,
}

/// The realm of a lookup, if not the key's own.
///
/// Source: PMIx Standard, "Data Access and Sharing" (`PMIX_SESSION_INFO` ... `PMIX_PROC_INFO`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RealmRequest<'a> {
    /// The realm the standard gives the key.
    #[default]
    Default,
    /// The caller's session, or the one with this id.
    Session(Option<u32>),
    /// The job.
    Job,
    /// The application of the lookup's process, or the one with this number.
    App(Option<u32>),
    /// A node.
    Node(NodeSelector<'a>),
    /// A node value of the application.
    AppNode(Option<u32>, NodeSelector<'a>),
    /// A node value of the session.
    SessionNode(Option<u32>, NodeSelector<'a>),
}

impl RealmRequest<'_> {
    /// Whether it means the reader's own node. `id_of` finds the number of a node.
    #[must_use]
    pub fn is_of_own_node(&self, own_name: Option<&str>, id_of: impl Fn(NodeSelector<'_>) -> Option<u64>) -> bool {
        let (Self::Node(node) | Self::AppNode(_, node) | Self::SessionNode(_, node)) = *self else { return true };
        match node {
            NodeSelector::Implied => true,
            NodeSelector::Name(name) if own_name == Some(name) => true,
            NodeSelector::Name(_) | NodeSelector::Id(_) => {
                id_of(node).is_some_and(|id| Some(id) == id_of(NodeSelector::Implied))
            }
        }
    }
}

/// The realm qualifiers of a Get: a named realm, and its narrowing.
///
/// Source: PMIx Standard, "Reserved Keys" (retrieval rules by realm).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RealmQualifiers<'a> {
    /// The realm named.
    pub realm: RealmName,
    /// `PMIX_HOSTNAME`.
    pub hostname: Option<&'a str>,
    /// `PMIX_NODEID`.
    pub node_id: Option<u32>,
    /// `PMIX_APPNUM`.
    pub app_number: Option<u32>,
    /// `PMIX_SESSION_ID`.
    pub session_id: Option<u32>,
}

/// The realm that a Get names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum RealmName {
    /// None: the realm the standard gives the key.
    #[default]
    Default,
    /// `PMIX_SESSION_INFO`.
    Session,
    /// `PMIX_JOB_INFO`.
    Job,
    /// `PMIX_APP_INFO`.
    App,
    /// `PMIX_NODE_INFO`.
    Node,
}

impl RealmName {
    /// Precedence of several realms in one Get: a part of a job wins over the job. The standard does not define it.
    /// OpenPMIx 4.2.2 mostly agrees, but also considers their order and the rank.
    pub const PRECEDENCE: [Self; 4] = [Self::Session, Self::Node, Self::App, Self::Job];

    /// The realm of the two that wins.
    #[must_use]
    pub fn beside(self, other: Self) -> Self {
        Self::PRECEDENCE.into_iter().find(|name| [self, other].contains(name)).unwrap_or_default()
    }
}

impl<'a> RealmQualifiers<'a> {
    /// The realm to search. A qualifier alone implies its realm: a host name can only mean a node. A session number
    /// alone does not, because it may also select the session of a job.
    #[must_use]
    pub const fn request(&self) -> RealmRequest<'a> {
        match (self.realm, self.node()) {
            (RealmName::Session, NodeSelector::Implied) => RealmRequest::Session(self.session_id),
            (RealmName::Session, node) => RealmRequest::SessionNode(self.session_id, node),
            (RealmName::Job, _) => RealmRequest::Job,
            (RealmName::App, NodeSelector::Implied) => RealmRequest::App(self.app_number),
            (RealmName::App, node) => RealmRequest::AppNode(self.app_number, node),
            (RealmName::Node, node) => RealmRequest::Node(node),
            (RealmName::Default, NodeSelector::Implied) if self.app_number.is_some() => {
                RealmRequest::App(self.app_number)
            }
            (RealmName::Default, NodeSelector::Implied) => RealmRequest::Default,
            (RealmName::Default, node) => RealmRequest::Node(node),
        }
    }

    /// A host name wins over a number, because it is more precise.
    const fn node(&self) -> NodeSelector<'a> {
        match (self.hostname, self.node_id) {
            (Some(name), _) => NodeSelector::Name(name),
            (None, Some(id)) => NodeSelector::Id(id),
            (None, None) => NodeSelector::Implied,
        }
    }
}

/// The node of a lookup in the node realm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeSelector<'a> {
    /// The node of the lookup's process, else this server's node.
    #[default]
    Implied,
    /// By number.
    Id(u32),
    /// By name or alias.
    Name(&'a str),
}

/// A key with its hash, so that a key known at compile time is hashed once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRef<'a> {
    /// The key's text.
    pub name: &'a str,
    /// XXH3-64 of the text, seed 0.
    pub hash: u64,
}

impl<'a> KeyRef<'a> {
    /// Hashes a key.
    #[must_use]
    #[inline(always)]
    pub fn new(name: &'a str) -> Self {
        // The call returns only the number, in a register.
        Self { name, hash: hash(name) }
    }
}

#[inline(never)]
fn hash(name: &str) -> u64 {
    xxhash_rust::xxh3::xxh3_64(name.as_bytes())
}

/// A value to look up.
#[derive(Clone, Copy, Debug)]
pub struct Lookup<'a> {
    /// A process, the wildcard for the job, or undefined for a key unique in the namespace.
    pub rank: Rank,
    /// The key.
    pub key: KeyRef<'a>,
    /// The realm to search.
    pub realm: RealmRequest<'a>,
    /// Only values visible to this audience; `None`: values visible to a process on this node.
    pub audience: Option<Audience>,
}

/// Why a lookup found no value.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LookupError {
    /// The key is not stored.
    #[error("key {key:?} of {whose} is not stored")]
    NotFound {
        /// The key.
        key: String,
        /// Namespace and rank or realm, for people.
        whose: String,
    },
    /// The value is not visible to this reader.
    #[error("key {key:?} of {whose} was posted with a scope that excludes this reader")]
    OutsideScope {
        /// The key.
        key: String,
        /// Namespace and rank, for people.
        whose: String,
    },
    /// The namespace is not known here.
    #[error("namespace {namespace} is not registered with this server")]
    UnknownNamespace {
        /// The namespace.
        namespace: Namespace,
    },
    /// The stored bytes are damaged.
    #[error("segment of namespace {namespace} is damaged: {reason}")]
    Damaged {
        /// The namespace.
        namespace: Namespace,
        /// The mismatch.
        reason: String,
    },
}

impl AsStatus for LookupError {
    fn status(&self) -> Status {
        match self {
            Self::NotFound { .. } | Self::UnknownNamespace { .. } => Status::ERR_NOT_FOUND,
            Self::OutsideScope { .. } => Status::ERR_EXISTS_OUTSIDE_SCOPE,
            Self::Damaged { .. } => Status::ERROR,
        }
    }
}
