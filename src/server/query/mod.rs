//! Questions that the server answers itself when its host answers none: what runs here, and what Get could tell.

use std::collections::BTreeSet;

mod sets;

use crate::gds::{KeyRef, Lookup, NodeSelector, Publish, RealmRequest};
use crate::keys::{self, TypedKey};
use crate::proto::Reply;
use crate::server::core::Server;
use crate::server::directives::{Realm, find};
use crate::server::inventory::INVENTORY;
use crate::server::outputs::Ticket;
use crate::server::passage::with_status;
use crate::server::registry::{Client, Job, Presence};
use crate::server::requests::Requester;
use crate::types::{
    DataArray, DataType, Info, Key, Namespace, ProcId, ProcInfo, Query, Rank, Status, Text, Value, footprint,
};

impl<S: Publish> Server<S> {
    /// Answers each key of each query, in order, once for all that ask the same. Found keys alone are in the answer, one
    /// info each.
    pub(in crate::server) fn answer_queries(&mut self, ticket: Ticket, requester: &Requester, queries: &[Query]) {
        let reply = match self.answers(requester, queries) {
            Ok((status, found)) => with_status(status, found.is_empty(), Reply::Infos(found)),
            Err(status) => Reply::Status(status),
        };
        self.outputs.reply(ticket, reply);
    }

    fn answers(&self, requester: &Requester, queries: &[Query]) -> Result<(Status, Vec<Info>), Status> {
        let mut found = Vec::new();
        let (mut asked, mut understood) = (BTreeSet::new(), false);
        let mut bytes_left = self.config.limits.query_bytes_max;
        for query in queries {
            let scope = Scope::of(&query.qualifiers, requester)?;
            for name in &query.keys {
                if !asked.insert((scope.clone(), name)) {
                    continue;
                }
                let Ok(key) = Key::from_bytes(name.as_bytes()) else { continue };
                understood |= OWN_KEYS.contains(&key.as_str()) || sets::KEYS.contains(&key.as_str());
                let delivered = self.inventory_value(&key, &query.qualifiers);
                let Some(value) = delivered.or_else(|| self.fact(requester, &scope, &key)) else { continue };
                let size_bytes = footprint(&value).ok_or(Status::ERR_OUT_OF_RESOURCE)?;
                bytes_left = bytes_left.checked_sub(size_bytes).ok_or(Status::ERR_OUT_OF_RESOURCE)?;
                found.push(Info { key, flags: 0, value });
            }
        }
        let status = match found.len() {
            0 if understood => Status::ERR_NOT_FOUND,
            0 => Status::ERR_NOT_SUPPORTED,
            count if count < asked.len() => Status::ERR_PARTIAL_SUCCESS,
            _ => Status::SUCCESS,
        };
        Ok((status, found))
    }

    fn fact(&self, requester: &Requester, scope: &Scope, key: &Key) -> Option<Value> {
        let is = |known: &str| key.as_str() == known;
        if is(keys::QUERY_NAMESPACES.name()) {
            let names: Vec<&str> = self.open_jobs(requester).map(|(name, _)| name.as_str()).collect();
            return Some(Value::from(names.join(",")));
        }
        if is(keys::QUERY_SUPPORTED_KEYS.name()) {
            let known: Vec<&str> = OWN_KEYS.iter().chain(&sets::KEYS).copied().collect();
            return Some(Value::from(known.join(",")));
        }
        if is(keys::QUERY_SUPPORTED_QUALIFIERS.name()) {
            return Some(Value::from(QUALIFIERS.join(",")));
        }
        if let Some(value) = self.fact_about_sets(requester, scope, key) {
            return Some(value);
        }
        let namespace = &scope.namespace;
        let job = self.registry.job(namespace).filter(|job| self.is_open(requester, job))?;
        if is(keys::QUERY_PROC_TABLE.name()) {
            return Some(self.process_table(namespace, job, false));
        }
        if is(keys::QUERY_LOCAL_PROC_TABLE.name()) {
            return Some(self.process_table(namespace, job, true));
        }
        let realm = scope.realm.clone().of_key(Some(key));
        let key = KeyRef::new(key.as_str());
        let lookup = Lookup { rank: scope.rank, key, realm: realm.as_request(), audience: None };
        let found = self.store.lookup(namespace, &lookup).ok();
        let of_session = || self.find_in_session(namespace, &realm, &lookup);
        found.or_else(|| if realm.is_of_session() { of_session() } else { None })
    }

    /// The jobs that somebody may ask about.
    fn open_jobs(&self, requester: &Requester) -> impl Iterator<Item = (&Namespace, &Job)> {
        self.registry.jobs().filter(|(_, job)| self.is_open(requester, job))
    }

    /// One's own user's are, for root and the server's user all. Tools are no jobs.
    fn is_open(&self, requester: &Requester, job: &Job) -> bool {
        let uid = requester.uid;
        let is_own = || job.clients.values().any(|client| client.credentials.uid == uid);
        job.is_registered && !job.is_of_tools && (self.is_trusted(uid) || is_own())
    }

    /// Whether a user may ask about everybody's jobs.
    pub(in crate::server) const fn is_trusted(&self, uid: u32) -> bool {
        uid == 0 || uid == self.config.tools.own_uid
    }

    /// What is known of each process, by rank.
    fn process_table(&self, namespace: &Namespace, job: &Job, is_local: bool) -> Value {
        let ranks: Vec<u32> = match job.job_size {
            Some(size) if !is_local => (0..size.min(TABLE_RANKS_MAX)).collect(),
            _ => job.clients.keys().copied().collect(),
        };
        let elements = ranks.into_iter().map(|rank| {
            let client = job.clients.get(&rank);
            let info = ProcInfo {
                proc: ProcId::new(namespace.clone(), rank),
                hostname: self.text_of(namespace, rank, keys::HOSTNAME),
                executable: client.and_then(|client| client.executable.clone()),
                pid: client.and_then(|client| client.pid).unwrap_or(0),
                state: client.map_or(STATE_UNKNOWN, state),
            };
            Value::ProcInfo(Box::new(info))
        });
        Value::DataArray(Box::new(DataArray { element_type: DataType::ProcInfo, elements: elements.collect() }))
    }

    fn text_of(&self, namespace: &Namespace, rank: u32, key: TypedKey<str>) -> Option<Text> {
        let rank = Rank::Process(rank);
        let lookup = Lookup { rank, key: KeyRef::new(key.name()), realm: RealmRequest::Default, audience: None };
        let implied = Lookup { realm: RealmRequest::Node(NodeSelector::Implied), ..lookup };
        let found = self.store.lookup(namespace, &lookup).or_else(|_| self.store.lookup(namespace, &implied));
        found.ok()?.as_str().map(Text::from)
    }
}

/// What the qualifiers narrow a query to.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Scope {
    namespace: Namespace,
    rank: Rank,
    realm: Realm,
    /// A process set.
    set: Option<Text>,
    group: Option<Text>,
    /// Whose hardware is meant, where that is asked for.
    node: Option<String>,
}

impl Scope {
    fn of(qualifiers: &[Info], requester: &Requester) -> Result<Self, Status> {
        let realm = Realm::read(qualifiers);
        let proc = find(qualifiers, keys::PROCID);
        let (namespace, rank) = (find(qualifiers, keys::NSPACE), find(qualifiers, keys::RANK));
        let named = |key| match find(qualifiers, key).map(|info| &info.value) {
            Some(Value::String(name)) => Some(name.clone()),
            _ => None,
        };
        let (set, group) = (named(keys::PSET_NAME), named(keys::GROUP_ID));
        let node = find(qualifiers, keys::HOSTNAME).and_then(|info| info.value.as_str()).map(str::to_owned);
        let scope = |namespace, rank| Ok(Self { namespace, rank, realm, set, group, node });
        match (proc.map(|info| &info.value), namespace.map(|info| &info.value)) {
            // Both styles together are a mistake.
            (Some(_), Some(_)) => Err(Status::ERR_BAD_PARAM),
            (Some(_), None) if rank.is_some() => Err(Status::ERR_BAD_PARAM),
            (Some(Value::Proc(proc)), None) => scope(proc.namespace.clone(), proc.rank),
            (None, Some(Value::ProcNamespace(namespace))) => scope(namespace.clone(), rank_of(rank)?),
            (None, Some(namespace)) => {
                let name = namespace.as_str().ok_or(Status::ERR_BAD_PARAM)?;
                scope(Namespace::new(name).map_err(|_| Status::ERR_BAD_PARAM)?, rank_of(rank)?)
            }
            (Some(_), None) => Err(Status::ERR_BAD_PARAM),
            (None, None) => scope(requester.proc.namespace.clone(), rank_of(rank)?),
        }
    }
}

/// Without a rank a query is about the job.
fn rank_of(info: Option<&Info>) -> Result<Rank, Status> {
    match info.map(|info| &info.value) {
        None => Ok(Rank::Wildcard),
        Some(Value::ProcRank(rank)) => Ok(*rank),
        Some(value) => value.as_u32().and_then(|raw| Rank::from_raw(raw).ok()).ok_or(Status::ERR_BAD_PARAM),
    }
}

/// In the standard's numbers (`pmix_proc_state_t`).
fn state(client: &Client) -> u8 {
    match client.presence {
        Presence::Expected if client.pid.is_some() => 5,
        Presence::Expected => 1,
        Presence::Connected => 6,
        // It has left the job in order; whether it has ended is not known.
        Presence::Finalized => 5,
        Presence::Lost => 56,
        Presence::Deregistered => 20,
    }
}

/// Of a process elsewhere, or of one that nobody has announced.
const STATE_UNKNOWN: u8 = 0;
/// Processes in one table: what a message carries.
const TABLE_RANKS_MAX: u32 = 1 << 17;

/// Keys that are no job data and that the server answers.
const OWN_KEYS: [&str; 8] = [
    INVENTORY,
    keys::FABRIC_DEVICES.name(),
    keys::FABRIC_DEVICE.name(),
    keys::QUERY_NAMESPACES.name(),
    keys::QUERY_SUPPORTED_KEYS.name(),
    keys::QUERY_SUPPORTED_QUALIFIERS.name(),
    keys::QUERY_PROC_TABLE.name(),
    keys::QUERY_LOCAL_PROC_TABLE.name(),
];

const QUALIFIERS: [&str; 10] = [
    keys::HOSTNAME.name(),
    keys::NSPACE.name(),
    keys::RANK.name(),
    keys::PROCID.name(),
    keys::NODE_INFO.name(),
    keys::APP_INFO.name(),
    keys::JOB_INFO.name(),
    keys::SESSION_INFO.name(),
    keys::PSET_NAME.name(),
    keys::GROUP_ID.name(),
];
