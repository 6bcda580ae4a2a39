//! The places that a Get searches, and their order.

use super::attribute;
use super::directives::GetDirectives;
use crate::gds::qualified::{self, QUALIFIED_VALUE};
use crate::gds::{KeyRef, RealmRequest};
use crate::keys::{DefaultRealm, default_realm};
use crate::proto::RankData;
use crate::types::{AsStatus, Info, Key, Kval, Namespace, ProcId, Rank, Scope, Status, Value};

/// A Get.
#[derive(Clone, Debug, PartialEq)]
pub struct GetRequest {
    /// Owner of the data; for a NULL process see [`GetRequest::new`].
    pub proc: ProcId,
    /// The key; `None`: all values of one process.
    pub key: Option<Key>,
    /// Directives.
    pub directives: GetDirectives,
    /// Number of earlier rounds that ended with [`Outcome::LookAgain`](super::Outcome::LookAgain): each round waits for
    /// more answers to other Gets.
    pub looks: u32,
}

/// Reason why the arguments of a Get are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GetRequestError {
    /// All values, but no process.
    #[error("a get without a key needs a process; name one by namespace and rank")]
    EverythingOfNobody,
    /// A process with an empty namespace, as in an unfilled structure.
    #[error("the process has an empty namespace; name its namespace, or pass no process")]
    Nobody,
    /// All values of a whole job, or of an unknown process.
    #[error("a get without a key needs one process, not rank {rank}")]
    EverythingOfRank {
        /// The given rank.
        rank: Rank,
    },
    /// A rank that means neither a process nor a job.
    #[error("rank {rank} names no process; use a number, the wildcard or undefined")]
    NoSuchRank {
        /// The given rank.
        rank: Rank,
    },
    /// A group's name with a rank that means several members; a Get is about one process.
    #[error("rank {rank} of a group stands for {count} processes; name one member by its rank in the group")]
    SeveralMembers {
        /// The given rank.
        rank: Rank,
        /// Number of members.
        count: usize,
    },
}

impl AsStatus for GetRequestError {
    fn status(&self) -> Status {
        match self {
            Self::EverythingOfNobody
            | Self::Nobody
            | Self::EverythingOfRank { .. }
            | Self::NoSuchRank { .. }
            | Self::SeveralMembers { .. } => Status::ERR_BAD_PARAM,
        }
    }
}

impl GetRequest {
    /// Takes the arguments of a Get. Without a process it means the caller's namespace. If the realm is a node or an
    /// application, which a rank selects, it means the caller's rank, else no particular rank.
    ///
    /// # Errors
    /// [`GetRequestError`] when a necessary key is missing, or the rank owns no data.
    pub fn new(
        proc: Option<ProcId>,
        key: Option<Key>,
        directives: GetDirectives,
        own: &ProcId,
    ) -> Result<Self, GetRequestError> {
        let Some(proc) = proc else {
            if key.is_none() {
                return Err(GetRequestError::EverythingOfNobody);
            }
            let mut request = Self { proc: ProcId { rank: Rank::Undefined, ..own.clone() }, key, directives, looks: 0 };
            if request.is_about_place() {
                request.proc.rank = own.rank;
            }
            return Ok(request.aimed_by_realm(own));
        };
        if proc.namespace.is_nobodys() {
            return Err(GetRequestError::Nobody);
        }
        let rank = proc.rank;
        // The reference answers "my rank" to the invalid rank: a process that does not know its rank asks in this way.
        let is_about_self = key.as_ref().is_some_and(|key| is_about_self(key.as_str(), &proc, own));
        match (rank, &key) {
            (Rank::Invalid | Rank::LocalPeers | Rank::LocalNode, _) if !is_about_self => {
                Err(GetRequestError::NoSuchRank { rank })
            }
            (Rank::Wildcard | Rank::Undefined, None) => Err(GetRequestError::EverythingOfRank { rank }),
            _ => Ok(Self { proc, key, directives, looks: 0 }.aimed_by_realm(own)),
        }
    }

    /// A Get of a session's value means the caller's session, whatever process it names.
    fn aimed_by_realm(mut self, own: &ProcId) -> Self {
        if self.is_of_session() {
            self.proc = ProcId { rank: Rank::Wildcard, ..own.clone() };
            self.directives.name_session();
        }
        self
    }

    /// Whether the Get is about a session.
    fn is_of_session(&self) -> bool {
        matches!(self.realm(), RealmRequest::Session(_) | RealmRequest::SessionNode(..))
    }

    /// The realm of the search. A session number selects the session realm only for keys of a session.
    #[must_use]
    pub fn realm(&self) -> RealmRequest<'_> {
        let directives = &self.directives;
        match directives.realm_request() {
            RealmRequest::Default if directives.session_id.is_some() && self.is_by_default(DefaultRealm::Session) => {
                RealmRequest::Session(directives.session_id)
            }
            realm => realm,
        }
    }

    /// Whether the answer depends on the node or the application of a process.
    fn is_about_place(&self) -> bool {
        match self.realm() {
            RealmRequest::Node(_) | RealmRequest::App(_) | RealmRequest::AppNode(..) => true,
            RealmRequest::Session(_) | RealmRequest::SessionNode(..) | RealmRequest::Job => false,
            RealmRequest::Default => {
                self.is_by_default(DefaultRealm::Node) || self.is_by_default(DefaultRealm::Application)
            }
        }
    }

    fn is_by_default(&self, realm: DefaultRealm) -> bool {
        self.key.as_ref().is_some_and(|key| default_realm(key.as_str()) == realm)
    }

    fn is_reserved(&self) -> bool {
        self.key.as_ref().is_some_and(Key::is_reserved)
    }
}

/// A search in one of the stores.
#[derive(Clone, Copy, Debug)]
pub struct StoreSearch<'a> {
    /// The namespace.
    pub namespace: &'a Namespace,
    /// The rank: a process, the wildcard (the job), or undefined (a key unique in the namespace).
    pub rank: Rank,
    /// The key; `None`: all values of the process.
    pub key: Option<KeyRef<'a>>,
    /// The realm.
    pub realm: RealmRequest<'a>,
    /// Only values posted with this scope.
    pub scope: Option<Scope>,
    /// Only a value with these qualifiers, if there are any.
    pub qualifiers: &'a [Info],
}

/// Reason of a failed search in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Miss {
    /// There is no such value, and the segment holds all data of the server.
    NotFound,
    /// There is one, but its scope excludes this process.
    OutsideScope,
    /// This process has no segment of the namespace, or only received data: the server may know more.
    NotMapped,
    /// The segment can't be trusted.
    Damaged,
    /// The own value is removed here, and the server still has it.
    Removed,
}

/// The places of values that can be read without a request.
pub trait Stores {
    /// A value, borrowed if possible.
    type Value;

    /// A value that this process put or stored itself.
    fn staged(&self, search: &StoreSearch<'_>) -> Option<Self::Value>;

    /// Whether this process has removed its own value, and the server does not know yet.
    fn has_removed(&self, _: &StoreSearch<'_>) -> bool {
        false
    }

    /// A value that the server published in the segment of the namespace.
    ///
    /// # Errors
    /// [`Miss`] with the reason.
    fn published(&self, search: &StoreSearch<'_>) -> Result<Self::Value, Miss>;

    /// All values that the host registered for a process, for a Get without a key.
    fn described(&self, _: &StoreSearch<'_>) -> Option<Self::Value> {
        None
    }

    /// A value received over the socket. Only for unqualified Gets.
    fn cached(&self, search: &StoreSearch<'_>) -> Option<Self::Value>;

    /// Whether the server's own segment of this namespace can be read, so that a request would find nothing newer.
    fn is_mapped(&self, namespace: &Namespace) -> bool;

    /// Whether there is a server.
    fn is_connected(&self) -> bool;
}

/// Stage of a Get.
#[derive(Clone, Copy, Debug)]
pub enum Round<'a> {
    /// No request was made yet, or data has changed since.
    First,
    /// The server answered this very request with these data.
    Answered(&'a [RankData]),
}

/// The decision about a Get.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision<V> {
    /// A store holds the value.
    Found(V),
    /// The value follows from the caller's identity, or was in the server's answer.
    Known(Value),
    /// There is no such value, or none that this process may see.
    NotFound(Status),
    /// Send this request to the server.
    Ask(GetRequest),
}

/// Decides about a Get. Pure: the same request and stores give the same decision.
///
/// The order is: the caller's identity; the server's answer, in that round; staged values; the segment; the cache; and
/// only then the server.
///
/// Source: PMIx Standard, "Data Access and Sharing" (`PMIx_Get`, retrieval rules for reserved and other keys).
pub fn resolve<S: Stores>(request: &GetRequest, own: &ProcId, round: Round<'_>, stores: &S) -> Decision<S::Value> {
    if let Some(value) = about_self(request, own) {
        return Decision::Known(value);
    }
    let rank = aimed_rank(request);
    match round {
        Round::Answered(data) => {
            if let Some(value) = in_answer(request, rank, data) {
                return Decision::Known(value);
            }
        }
        Round::First if must_refresh(request, rank, own, stores) => return Decision::Ask(aimed_at(rank, request)),
        Round::First => {}
    }
    let decision = search(request, own, round, stores, rank);
    match decision {
        // The process has posted nothing, and the Get does not wait: the registered values are all.
        Decision::NotFound(_) if request.key.is_none() && request.directives.scope.is_none() => {
            stores.described(&store_search(request, rank)).map_or(decision, Decision::Found)
        }
        decision => decision,
    }
}

/// Searches the stores. After a miss, decides whether to ask the server.
fn search<S: Stores>(
    request: &GetRequest,
    own: &ProcId,
    round: Round<'_>,
    stores: &S,
    rank: Rank,
) -> Decision<S::Value> {
    let miss = match look(request, rank, own, stores) {
        Ok(Seen::Registered(_)) if matches!(round, Round::First) && may_be_replaced(request, rank, own, stores) => {
            return Decision::Ask(aimed_at(rank, request));
        }
        Ok(Seen::Current(value) | Seen::Registered(value)) => return Decision::Found(value),
        Err(Miss::OutsideScope) => return Decision::NotFound(Status::ERR_EXISTS_OUTSIDE_SCOPE),
        Err(Miss::Removed) => return Decision::NotFound(Status::ERR_NOT_FOUND),
        Err(miss) => miss,
    };
    match round {
        Round::Answered(_) if miss == Miss::Damaged => Decision::NotFound(Status::ERROR),
        Round::Answered(_) => Decision::NotFound(Status::ERR_NOT_FOUND),
        Round::First => ask(request, rank, own, stores, miss),
    }
}

/// Gets that a process answers from its own identity.
fn about_self(request: &GetRequest, own: &ProcId) -> Option<Value> {
    let is_own_namespace = request.proc.namespace == own.namespace;
    match request.key.as_ref()?.as_str() {
        attribute::PROCESS_ID => Some(Value::from(own.clone())),
        attribute::NAMESPACE if is_own_namespace => Some(Value::from(own.namespace.as_str())),
        attribute::RANK if is_own_namespace => match request.proc.rank {
            Rank::Invalid | Rank::Undefined => Some(Value::from(own.rank)),
            rank if rank == own.rank => Some(Value::from(rank)),
            _ => None,
        },
        _ => None,
    }
}

fn is_about_self(key: &str, proc: &ProcId, own: &ProcId) -> bool {
    match key {
        attribute::PROCESS_ID => true,
        attribute::NAMESPACE => proc.namespace == own.namespace,
        attribute::RANK => proc.namespace == own.namespace && matches!(proc.rank, Rank::Invalid),
        _ => false,
    }
}

/// A reserved key is never "unique, publisher unknown": without a rank it means the job.
fn aimed_rank(request: &GetRequest) -> Rank {
    match request.proc.rank {
        Rank::Undefined if request.is_reserved() => Rank::Wildcard,
        rank => rank,
    }
}

fn aimed_at(rank: Rank, request: &GetRequest) -> GetRequest {
    let mut request = request.clone();
    request.proc.rank = rank;
    request
}

/// Own values are always current, and so is a job's record in a segment.
fn must_refresh<S: Stores>(request: &GetRequest, rank: Rank, own: &ProcId, stores: &S) -> bool {
    let is_current = request.proc == *own || (rank == Rank::Wildcard && stores.is_mapped(&request.proc.namespace));
    request.directives.refresh && stores.is_connected() && !is_current
}

/// A value in a store.
enum Seen<V> {
    /// No newer value can exist.
    Current(V),
    /// A value that the host registered under a key that is not reserved. A value that the process posted takes
    /// precedence. A server's own segment has both; received job data has only the registered one.
    Registered(V),
}

/// Whether the server may have a newer value than the received one.
fn may_be_replaced<S: Stores>(request: &GetRequest, rank: Rank, own: &ProcId, stores: &S) -> bool {
    let is_postable = rank.process().is_some() && request.key.is_some() && request.proc != *own;
    let is_staged = || stores.staged(&store_search(request, rank)).is_some();
    is_postable && !request.directives.optional && stores.is_connected() && !is_staged()
}

fn store_search(request: &GetRequest, rank: Rank) -> StoreSearch<'_> {
    StoreSearch {
        namespace: &request.proc.namespace,
        rank,
        key: request.key.as_ref().map(|key| KeyRef::new(key.as_str())),
        realm: request.realm(),
        scope: request.directives.scope,
        qualifiers: &request.directives.qualifiers,
    }
}

fn look<S: Stores>(request: &GetRequest, rank: Rank, own: &ProcId, stores: &S) -> Result<Seen<S::Value>, Miss> {
    let search = store_search(request, rank);
    // Staged values belong to the process's own realm alone. A part of the staged values is not "all values".
    if search.realm == RealmRequest::Default && search.key.is_some() {
        let is_unique_key = rank == Rank::Undefined && request.proc.namespace == own.namespace;
        let rank = if is_unique_key { own.rank } else { rank };
        let own_search = StoreSearch { rank, ..search };
        if let Some(value) = stores.staged(&own_search) {
            return Ok(Seen::Current(value));
        }
        if stores.has_removed(&own_search) {
            return Err(Miss::Removed);
        }
    }
    let found = match stores.published(&search) {
        Ok(value) if request.is_reserved() || stores.is_mapped(&request.proc.namespace) => {
            return Ok(Seen::Current(value));
        }
        found => found.map(Seen::Registered),
    };
    // A requested value is newer than the received job data.
    let cached = if request.directives.is_unqualified() { stores.cached(&search) } else { None };
    cached.map_or(found, |value| Ok(Seen::Current(value)))
}

/// Decides after a miss whether the server may know more.
fn ask<S: Stores>(request: &GetRequest, rank: Rank, own: &ProcId, stores: &S, miss: Miss) -> Decision<S::Value> {
    let not_found = Decision::NotFound(Status::ERR_NOT_FOUND);
    let directives = &request.directives;
    if directives.optional || !stores.is_connected() {
        return not_found;
    }
    // Other jobs' session data is in no segment of this job. Data that changes with sets and groups is in no segment at
    // all.
    let is_elsewhere = request.is_of_session() || request.key.as_ref().is_some_and(is_of_sets);
    let is_segment_complete = miss == Miss::NotFound && !is_elsewhere;
    let is_own_namespace = request.proc.namespace == own.namespace;
    let mut request = aimed_at(rank, request);
    // Internal values come from their own process alone: nothing but registered values can exist.
    let is_registered = request.is_reserved() && is_own_namespace || directives.scope == Some(Scope::Internal);
    if is_registered {
        // The job's data is complete before the job starts, so a segment without the key settles the matter. Without a
        // segment the server's present data is requested, because peers omit keys in the start-up message.
        if is_segment_complete {
            return not_found;
        }
        request.directives.demand_immediate();
    } else if is_segment_complete && request.directives.immediate {
        // The segment holds all present data of the server.
        return not_found;
    }
    Decision::Ask(request)
}

/// Whether the answer changes with process sets and groups: only the server knows it, and the next answer may differ.
pub(super) fn is_of_sets(key: &Key) -> bool {
    matches!(key.as_str(), attribute::PSET_NAMES | attribute::GROUP_NAMES | attribute::GROUP_CONTEXT_ID)
}

/// Finds the wanted value in the server's answer.
fn in_answer(request: &GetRequest, rank: Rank, data: &[RankData]) -> Option<Value> {
    let is_wanted = |of: &&RankData| {
        of.proc.namespace == request.proc.namespace && (of.proc.rank == rank || rank == Rank::Undefined)
    };
    let Some(key) = &request.key else {
        let mut entries: Vec<Info> = data.iter().filter(is_wanted).flat_map(|of| &of.entries).map(to_info).collect();
        entries.sort_by(|a, b| a.key.cmp(&b.key));
        return (!entries.is_empty()).then(|| Value::info_array(entries));
    };
    // The newest value of a key comes last.
    let mut entries = data.iter().filter(is_wanted).flat_map(|of| &of.entries).rev();
    if !request.directives.qualifiers.is_empty() {
        let qualified = entries.filter(|entry| entry.key.as_str() == QUALIFIED_VALUE).map(|entry| &entry.value);
        return qualified::best(key.as_str(), &request.directives.qualifiers, qualified).and_then(qualified::inner);
    }
    entries.find(|entry| entry.key == *key).map(|entry| entry.value.clone())
}

fn to_info(entry: &Kval) -> Info {
    Info::new(entry.key.clone(), entry.value.clone())
}

#[cfg(test)]
mod tests;
