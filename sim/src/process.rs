//! A process of a job: the real client core, and the state that a program would keep beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use modex::client::{
    CacheLimits, CallId, ClientConfig, ClientCore, GetRequest, Miss, Staging, StagingLimits, StoreSearch, Stores,
    ValueCache,
};
use modex::gds::{Audience, Lookup, NamespaceReader, ReadError};
use modex::proto::Tag;
use modex::server::PeerId;
use modex::types::{Namespace, ProcId, Rank, Scope, Text, Time, Value};

use super::invitations::{InvitationCall, Invitations};
use super::queue::ServerId;
use super::random::Random;
use super::value::Put;

/// The stage of a process's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Not started, or between two lives.
    Away,
    Connecting,
    Running,
    /// It has announced that it leaves; the flag says whether it comes again.
    Leaving(bool),
    /// It will never act again, and its connections stay.
    Hung,
    Ended,
}

/// The next step of a process within a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProcessStage {
    Put,
    Meet,
    /// Waits for a number of invitations, and for their outcome.
    Attend(u8),
    Read(u8),
}

#[derive(Debug)]
pub(super) struct Process {
    pub(super) job: usize,
    pub(super) rank: u32,
    pub(super) proc: ProcId,
    pub(super) node: u32,
    pub(super) state: State,
    pub(super) phase: usize,
    pub(super) stage: ProcessStage,
    pub(super) main: Option<PeerId>,
    pub(super) child: Option<PeerId>,
    /// How often it still has to finalize and initialize again.
    pub(super) reinits: u32,
    pub(super) stopped_until: Time,
    /// Number of its newest put, in all its lives.
    pub(super) version: u32,
    /// Its puts in this life.
    pub(super) puts: Vec<Put>,
    /// Its puts in all its lives, as far as its server has taken them.
    pub(super) committed: Vec<Put>,
    /// The lowest versions of others' values that it may see: it was promised or has seen them.
    pub(super) floors: BTreeMap<(u32, u8), u32>,
    /// Its mapping. It stays when the server goes or the job is deregistered.
    pub(super) mapped: Option<Arc<NamespaceReader>>,
    pub(super) random: Random,
}

impl Process {
    pub(super) fn new(job: usize, rank: u32, proc: ProcId, node: u32, random: Random) -> Self {
        Self {
            job,
            rank,
            proc,
            node,
            state: State::Away,
            phase: 0,
            stage: ProcessStage::Put,
            main: None,
            child: None,
            reinits: 0,
            stopped_until: Time::ZERO,
            version: 0,
            puts: Vec::new(),
            committed: Vec::new(),
            floors: BTreeMap::new(),
            mapped: None,
            random,
        }
    }

    /// Whether it may act again.
    pub(super) const fn is_over(&self) -> bool {
        matches!(self.state, State::Hung | State::Ended)
    }

    /// Notes a put.
    pub(super) fn note_put(&mut self, key: u8, scope: Scope, version: u32) {
        let place = self.puts.iter().position(|put| put.key == key);
        let place = place.unwrap_or_else(|| {
            self.puts.push(Put { key, ..Put::default() });
            self.puts.len() - 1
        });
        if let Some(put) = self.puts.get_mut(place) {
            put.own = version;
            if scope.is_visible_locally() {
                put.same_node = version;
            }
            if scope.is_visible_remotely() {
                put.other_nodes = version;
            }
        }
    }

    /// The server has taken all that the process had put by then.
    pub(super) fn note_committed(&mut self, taken: &[Put]) {
        for put in taken {
            match self.committed.iter_mut().find(|known| known.key == put.key) {
                None => self.committed.push(*put),
                Some(known) => {
                    known.same_node = known.same_node.max(put.same_node);
                    known.other_nodes = known.other_nodes.max(put.other_nodes);
                }
            }
        }
    }

    /// Raises the version that a reader may expect. Bounded: a large run remembers the first few.
    pub(super) fn expect(&mut self, whose: u32, key: u8, version: u32) {
        if self.floors.len() >= FLOORS_MAX && !self.floors.contains_key(&(whose, key)) {
            return;
        }
        let floor = self.floors.entry((whose, key)).or_default();
        *floor = version.max(*floor);
    }
}

const FLOORS_MAX: usize = 256;
/// Collecting fences of a connection that the checker remembers.
const FENCES_MAX: usize = 16;

/// A call that has not returned.
#[derive(Debug)]
pub(super) struct PendingCall {
    pub(super) purpose: CallPurpose,
    /// Whether the process continues only after the call.
    pub(super) is_awaited: bool,
    /// When the client core must have ended it, if the process is not stopped.
    pub(super) deadline: Option<Time>,
}

#[derive(Debug)]
pub(super) enum CallPurpose {
    Meeting,
    /// To form a group whose other members the process does not know.
    Group(Text),
    Get(Box<PendingGet>),
    Finalize,
    Invitation(InvitationCall),
    /// To leave a group.
    LeaveGroup(Text),
    Allocation,
    Other,
}

/// A value that is being looked for.
#[derive(Debug)]
pub(super) struct PendingGet {
    pub(super) request: GetRequest,
    pub(super) begun: Time,
    pub(super) whose: u32,
    pub(super) key: u8,
    /// The version that the process could expect when it began to look.
    pub(super) floor: u32,
    /// The fence that may bring the value.
    pub(super) fence: Option<Tag>,
}

/// Both ends of a connection, and the process's state for it.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) process: u32,
    pub(super) server: ServerId,
    pub(super) client: ClientCore,
    pub(super) staging: Staging,
    pub(super) cache: ValueCache,
    pub(super) reader: Option<Arc<NamespaceReader>>,
    /// Segments of other jobs that it is tied to.
    pub(super) foreign: BTreeMap<Namespace, Arc<NamespaceReader>>,
    pub(super) calls: BTreeMap<CallId, PendingCall>,
    pub(super) last_call: u64,
    /// Its last collecting fences, the newest first.
    pub(super) fences: Vec<(Tag, Vec<ProcId>)>,
    /// Its invitations.
    pub(super) invitations: Invitations,
    /// Groups that it is in by a bootstrap, whose leaders did not know each other.
    pub(super) groups: BTreeSet<Text>,
    /// The arrival time of the last message of each direction: no message overtakes it.
    pub(super) up: Time,
    pub(super) down: Time,
    /// When the client is called next.
    pub(super) timer: Option<Time>,
    /// The client knows that it was admitted.
    pub(super) is_admitted: bool,
    /// The client knows that its connection has ended, or the client no longer exists.
    pub(super) is_client_gone: bool,
    /// The server knows it, or no longer exists.
    pub(super) is_server_gone: bool,
}

impl Connection {
    pub(super) fn new(process: u32, proc: &ProcId, server: ServerId) -> Self {
        Self {
            process,
            server,
            client: ClientCore::new(proc.clone(), ClientConfig::default()),
            staging: Staging::new(proc.clone(), StagingLimits::default()),
            cache: ValueCache::new(CacheLimits::default()),
            reader: None,
            foreign: BTreeMap::new(),
            calls: BTreeMap::new(),
            last_call: 0,
            fences: Vec::new(),
            invitations: Invitations::default(),
            groups: BTreeSet::new(),
            up: Time::ZERO,
            down: Time::ZERO,
            timer: None,
            is_admitted: false,
            is_client_gone: false,
            is_server_gone: false,
        }
    }

    /// Notes a collecting fence of these participants.
    pub(super) fn note_fence(&mut self, tag: Tag, procs: &[ProcId]) {
        self.fences.truncate(FENCES_MAX - 1);
        self.fences.insert(0, (tag, procs.to_vec()));
    }

    /// The newest collecting fence with a process, ended or not.
    pub(super) fn fence_with(&self, proc: &ProcId) -> Option<Tag> {
        let names =
            |entry: &ProcId| entry.namespace == proc.namespace && [proc.rank, Rank::Wildcard].contains(&entry.rank);
        self.fences.iter().find(|(_, procs)| procs.iter().any(names)).map(|(tag, _)| *tag)
    }
}

/// A process looks here before it asks. The places and their order are those of a real process (`runtime::stores`).
impl Stores for Connection {
    type Value = Value;

    fn staged(&self, search: &StoreSearch<'_>) -> Option<Value> {
        let proc = ProcId::new(search.namespace.clone(), search.rank);
        self.staging.find(&proc, search.key?.name, search.scope).map(|value| Value::clone(value))
    }

    fn published(&self, search: &StoreSearch<'_>) -> Result<Value, Miss> {
        let own = self.reader.as_ref().filter(|reader| reader.namespace() == search.namespace.as_str());
        let Some(reader) = own.or_else(|| self.foreign.get(search.namespace)) else { return Err(Miss::NotMapped) };
        let audience = match search.scope {
            None | Some(Scope::Global) => None,
            Some(Scope::Local) => Some(Audience::SameNode),
            Some(Scope::Remote) => Some(Audience::OtherNodes),
            Some(Scope::Internal) => return Err(Miss::NotFound),
        };
        let Some(key) = search.key else { return Err(Miss::NotFound) };
        let lookup = Lookup { rank: search.rank, key, realm: search.realm, audience };
        let value = reader.get(&lookup).map_err(|error| match error {
            ReadError::NotFound => Miss::NotFound,
            ReadError::OutsideScope => Miss::OutsideScope,
            ReadError::Damaged(_) => Miss::Damaged,
        })?;
        value.to_value().map_err(|_| Miss::Damaged)
    }

    fn cached(&self, search: &StoreSearch<'_>) -> Option<Value> {
        let proc = ProcId::new(search.namespace.clone(), search.rank);
        self.cache.find(&proc, search.key?.name).map(|value| Value::clone(value))
    }

    fn is_mapped(&self, namespace: &Namespace) -> bool {
        let is_own = self.reader.as_ref().is_some_and(|reader| reader.namespace() == namespace.as_str());
        is_own || self.foreign.contains_key(namespace)
    }

    fn is_connected(&self) -> bool {
        !self.is_client_gone
    }
}
