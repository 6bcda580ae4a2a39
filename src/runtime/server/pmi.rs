//! Ranks that speak PMI-1 or PMI-2. A put is a commit of the rank, a barrier a fence of its job, an abort an abort. A
//! get is answered from the segment.
//!
//! Each such rank inherits one end of a socket. The rank becomes known to the core with its first line, so a program
//! that speaks no PMI has not connected.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Weak};

use nix::errno::Errno;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::gds::{KeyRef, Lookup, NamespaceReader, RealmRequest, Store};
use crate::keys;
use crate::os_error_hint::explain;
use crate::pmi::{self, Answer, Command, CommandError, CommandReader, KEY_BYTES_MAX, Place, VALUE_BYTES_MAX};
use crate::proto::{self, Abort, Collective, Commit, Publish, Reply, Request, Service, Spawn, Tag, Unpublish, Version};
use crate::server::{Credentials, Hello, Input, PeerId, StoreOffer};
use crate::types::{App, AsStatus, Info, Key, Kval, Namespace, ProcId, Rank, Scope, Status, Text, Value};

/// A connection for a rank that speaks PMI-1 or PMI-2. The rank inherits one end; the server serves the other one.
#[derive(Debug)]
pub struct PmiChannel {
    proc: ProcId,
    server_end: UnixStream,
    rank_end: OwnedFd,
}

impl PmiChannel {
    /// Makes the connection of a rank.
    ///
    /// # Errors
    /// The operating system has no socket.
    pub fn open(proc: ProcId) -> Result<Self, PmiSocketError> {
        let (server_end, rank_end) = UnixStream::pair().map_err(PmiSocketError)?;
        Ok(Self { proc, server_end, rank_end: rank_end.into() })
    }

    /// The rest of it after the start of the rank. Closes the rank's end in this process.
    pub(super) fn into_entry(self, pid: u32) -> PmiEntry {
        PmiEntry { proc: self.proc, socket: self.server_end, pid }
    }

    /// The end for the rank, to be inherited under any number. Its number is the value of `PMI_FD`.
    #[must_use]
    pub const fn rank_end(&self) -> &OwnedFd {
        &self.rank_end
    }
}

/// The operating system has no socket for a rank.
#[derive(Debug, thiserror::Error)]
#[error("{}", explain(.0))]
pub struct PmiSocketError(io::Error);

/// A started rank, for the server's loop.
pub(super) struct PmiEntry {
    pub(super) proc: ProcId,
    pub(super) socket: UnixStream,
    pub(super) pid: u32,
}

/// Why a rank is not served. Its connection ends.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PmiRefusal {
    /// The host has not registered the process.
    #[error("the process is not registered; call register_client first")]
    NotRegistered,
    /// The host has not described the job.
    #[error("the job is not described; call register_namespace first")]
    NotDescribed,
    /// The operating system refuses to report data of the connection.
    #[error("the connection can't be watched: {0}")]
    Unwatched(Errno),
}

impl AsStatus for PmiRefusal {
    fn status(&self) -> Status {
        match self {
            Self::NotRegistered | Self::NotDescribed => Status::ERR_NOT_FOUND,
            Self::Unwatched(_) => Status::ERR_OUT_OF_RESOURCE,
        }
    }
}

/// The jobs whose ranks speak PMI-1 or PMI-2.
#[derive(Default)]
pub(super) struct PmiJobs(BTreeMap<Namespace, Weak<PmiJob>>);

impl PmiJobs {
    /// The job has ended. A later one of its name has facts of its own.
    pub(super) fn forget(&mut self, namespace: &Namespace) {
        self.0.remove(namespace);
    }

    /// A rank of a described job; `None` if the job is not described.
    pub(super) fn rank(&mut self, proc: ProcId, uid: u32, store: &Store) -> Option<PmiRank> {
        let reader = store.reader(&proc.namespace)?;
        let known = self.0.get(&proc.namespace).and_then(Weak::upgrade);
        let job = known.unwrap_or_else(|| {
            let job = Arc::new(PmiJob::read(&proc.namespace, reader));
            self.0.retain(|_, job| job.strong_count() > 0);
            self.0.insert(proc.namespace.clone(), Arc::downgrade(&job));
            job
        });
        let app_number = number(reader, proc.rank, keys::APPNUM.name()).unwrap_or_default();
        Some(PmiRank {
            job,
            proc,
            uid,
            app_number,
            reader: CommandReader::default(),
            stage: Stage::Silent,
            asked: None,
            awaited: None,
            node_attribute_count: 0,
            has_sent_unknown: false,
        })
    }
}

/// The facts that all ranks of a job share.
struct PmiJob {
    size: u32,
    universe_size: Option<u32>,
    /// The job that spawned this one.
    spawner: Option<Namespace>,
    /// The nodes of the ranks, as `PMI_process_mapping`. Without it, MPICH compares the names of hosts.
    mapping: Option<String>,
    /// The local rank that put a key last. PMI has one key space for each job. A key of another node is searched among
    /// all ranks, and the lowest of several ranks counts.
    owners: Mutex<FxHashMap<Box<str>, u32>>,
    node_attributes: Mutex<NodeAttributes>,
}

/// Values of PMI-2 for the ranks of this node, and the ranks that wait for values.
#[derive(Default)]
struct NodeAttributes {
    values: FxHashMap<String, String>,
    /// The bytes of keys and values.
    bytes: usize,
    waiting: Vec<(PeerId, String)>,
}

impl NodeAttributes {
    /// Stores a value. Returns the ranks that waited for it.
    fn put(&mut self, key: String, value: String) -> Vec<PeerId> {
        let old = self.values.get(&key).map_or(0, |old| key.len() + old.len());
        self.bytes = self.bytes + key.len() + value.len() - old;
        let woken = self.waiting.extract_if(.., |(_, awaited)| *awaited == key).map(|(id, _)| id).collect();
        self.values.insert(key, value);
        woken
    }
}

/// Limit of the attributes that a rank puts. MPICH puts one for each window of shared memory.
const NODE_ATTRIBUTES_MAX: u32 = 1024;
/// Limit of the bytes of all attributes of a job. Ranks within their own limit reach it only in a large job.
const NODE_ATTRIBUTE_BYTES_MAX: usize = 64 << 20;

impl PmiJob {
    fn read(namespace: &Namespace, reader: &NamespaceReader) -> Self {
        let of_job = |key| number(reader, Rank::Wildcard, key);
        let size = of_job(keys::JOB_SIZE.name()).unwrap_or_default();
        let node_of = |rank| number(reader, Rank::Process(rank), keys::NODEID.name());
        let nodes: Option<Vec<u32>> = (0..size).map(node_of).collect();
        let mapping = nodes.filter(|nodes| !nodes.is_empty()).map(|nodes| process_mapping(&nodes));
        let mapping = mapping.filter(|mapping| mapping.len() <= VALUE_BYTES_MAX);
        tracing::debug!(%namespace, size, ?mapping, "a job speaks PMI");
        let parent = reader.get(&lookup(Rank::Wildcard, keys::PARENT_ID.name()));
        Self {
            size,
            universe_size: of_job(keys::UNIV_SIZE.name()),
            spawner: match parent.map(|parent| parent.to_value()) {
                Ok(Ok(Value::Proc(parent))) => Some(parent.namespace),
                _ => None,
            },
            mapping,
            owners: Mutex::default(),
            node_attributes: Mutex::default(),
        }
    }
}

fn number(reader: &NamespaceReader, rank: Rank, key: &str) -> Option<u32> {
    reader.get(&lookup(rank, key)).ok()?.as_u32()
}

fn lookup(rank: Rank, key: &str) -> Lookup<'_> {
    Lookup { rank, key: KeyRef::new(key), realm: RealmRequest::Default, audience: None }
}

/// The nodes of ranks as blocks in the order of ranks: first node, number of nodes, ranks on each.
fn process_mapping(nodes: &[u32]) -> String {
    let mut blocks: Vec<[u32; 3]> = Vec::new();
    for run in nodes.chunk_by(|one, next| one == next) {
        let (Some(&node), Ok(ranks)) = (run.first(), u32::try_from(run.len())) else { continue };
        match blocks.last_mut() {
            Some([first, count, of_each]) if first.checked_add(*count) == Some(node) && *of_each == ranks => {
                *count += 1
            }
            _ => blocks.push([node, 1, ranks]),
        }
    }
    let blocks: String = blocks.iter().map(|[first, count, ranks]| format!(",({first},{count},{ranks})")).collect();
    format!("(vector{blocks})")
}

/// A rank that speaks PMI-1 or PMI-2, between its messages and the core.
pub(super) struct PmiRank {
    job: Arc<PmiJob>,
    proc: ProcId,
    /// The user that the host registered for it.
    uid: u32,
    app_number: u32,
    reader: CommandReader,
    stage: Stage,
    /// The request that the core has not answered. There is one at a time, because answers keep the order of commands.
    asked: Option<Asked>,
    /// The attribute of the node that its last command waits for.
    awaited: Option<String>,
    /// The attributes of the node that it has put first.
    node_attribute_count: u32,
    /// Whether the log has its first unknown command.
    has_sent_unknown: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing came from it.
    Silent,
    /// The core decides about its admission.
    Arriving,
    Admitted,
}

/// A request, and what its answer needs.
struct Asked {
    command: proto::Command,
    size_bytes: usize,
    kind: Question,
}

enum Question {
    Put { key: String },
    Barrier,
    Publish,
    Lookup,
    Unpublish,
    Spawn,
    Abort,
    Finalize,
}

/// The consequence of a command.
pub(super) enum Step {
    /// The core has to decide.
    Ask(Input),
    /// The answer as the rank reads it.
    Say(String),
    /// An answer, and the ranks that can go on now.
    SayAndWake(String, Vec<PeerId>),
    /// Nothing.
    Wait,
}

impl PmiRank {
    pub(super) const fn proc(&self) -> &ProcId {
        &self.proc
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.reader.feed(bytes);
    }

    pub(super) fn pending_bytes(&self) -> usize {
        self.reader.pending_bytes()
    }

    /// Whether a command can be handled now.
    pub(super) fn is_ready(&self) -> bool {
        let is_free = self.asked.is_none() && self.stage != Stage::Arriving;
        match &self.awaited {
            Some(key) => is_free && self.job.node_attributes.lock().values.contains_key(key),
            None => is_free && self.reader.is_ready(),
        }
    }

    /// Whether a message, or the error of one, waits. It may wait for the answer to an earlier one.
    pub(super) const fn has_message(&self) -> bool {
        self.reader.is_ready()
    }

    /// Whether a line has begun that is not complete.
    pub(super) fn owes_bytes(&self) -> bool {
        self.pending_bytes() > 0 && !self.reader.is_ready()
    }

    pub(super) const fn admit(&mut self) {
        self.stage = Stage::Admitted;
    }

    /// The command of the core's open request.
    pub(super) fn asked(&self) -> Option<proto::Command> {
        self.asked.as_ref().map(|asked| asked.command)
    }

    /// Whether the host has not answered an abort. The rank does not wait for it: PMI has no answer to an abort.
    pub(super) fn awaits_abort(&self) -> bool {
        self.asked.as_ref().is_some_and(|asked| matches!(asked.kind, Question::Abort))
    }

    pub(super) fn asked_bytes(&self) -> usize {
        self.asked.as_ref().map_or(0, |asked| asked.size_bytes)
    }

    /// Handles the next command.
    pub(super) fn step(&mut self, id: PeerId, store: &Store) -> Result<Step, CommandError> {
        if self.stage == Stage::Silent {
            self.stage = Stage::Arriving;
            // The host gave it the socket.
            let credentials = Credentials { uid: self.uid, gid: Credentials::GROUP_UNKNOWN };
            let (proc, strangers) = (self.proc.clone(), BTreeSet::new());
            let hello = Hello { proc, credentials, store: StoreOffer::Socket, version: Version::OWN, strangers };
            return Ok(Step::Ask(Input::Connected(id, hello)));
        }
        if let Some(key) = self.awaited.take() {
            return Ok(self.get_node_attribute(id, key, true));
        }
        let Some(command) = self.reader.next_command()? else { return Ok(Step::Wait) };
        Ok(self.handle(id, command, store))
    }

    fn handle(&mut self, id: PeerId, command: Command, store: &Store) -> Step {
        let say = |answer: Answer<'_>| Step::Say(self.reader.answer(answer));
        match command {
            Command::Init { version: version @ (1 | 2) } => say(Answer::Begun(Ok(version))),
            Command::Init { .. } => say(Answer::Begun(Err("the launcher speaks versions 1 and 2"))),
            Command::FullInit => say(Answer::Place(self.place())),
            Command::GetMaxes => say(Answer::Maxes),
            Command::GetAppnum => say(Answer::Appnum(self.app_number)),
            Command::GetMyKvsname => say(Answer::Kvsname(self.proc.namespace.as_str())),
            Command::GetUniverseSize => say(Answer::UniverseSize(self.job.universe_size)),
            Command::Put { kvsname, key, value } => match self.put(kvsname.as_deref(), &key, &value) {
                Ok(commit) => self.ask(id, Question::Put { key }, value.len(), Request::Commit(commit)),
                Err(reason) => say(Answer::Put(Err(reason))),
            },
            Command::Get { kvsname, key } => say(Answer::Got(self.get(kvsname.as_deref(), &key, store))),
            Command::GetJobAttribute { key } if key == "universeSize" => {
                let size = self.job.universe_size.map(|size| size.to_string());
                say(Answer::Got(size.as_deref().ok_or("unknown")))
            }
            Command::GetJobAttribute { key } => say(Answer::Got(self.get(None, &key, store))),
            Command::PutNodeAttribute { key, value } => self.put_node_attribute(key, value),
            Command::GetNodeAttribute { key, waits } => self.get_node_attribute(id, key, waits),
            Command::BarrierIn => self.ask(id, Question::Barrier, 0, Request::Fence(self.fence())),
            Command::PublishName { service, port } => match Key::for_put(service) {
                Ok(key) => self.ask(id, Question::Publish, port.len(), self.publish(key, &port)),
                Err(_) => say(Answer::Published(Err(BAD_SERVICE))),
            },
            Command::LookupName { service } => match Key::for_put(service) {
                Ok(key) => self.ask(id, Question::Lookup, 0, self.lookup(key)),
                Err(_) => say(Answer::Found(Err(BAD_SERVICE))),
            },
            Command::UnpublishName { service } => match Key::for_put(service) {
                Ok(key) => self.ask(id, Question::Unpublish, 0, self.unpublish(key)),
                Err(_) => say(Answer::Unpublished(Err(BAD_SERVICE))),
            },
            Command::Spawn(spawn) => {
                let size_bytes = spawn.memory_bytes;
                match spawn_request(&spawn) {
                    Ok(request) => self.ask(id, Question::Spawn, size_bytes, request),
                    Err(reason) => say(Answer::Spawned(Err(reason))),
                }
            }
            Command::Abort { exit_code, message } => {
                let message = (!message.is_empty()).then(|| Text::until_nul(message.as_bytes()));
                let abort = Abort { status: Status::from_raw(exit_code), message, procs: Vec::new() };
                self.ask(id, Question::Abort, 0, Request::Abort(abort))
            }
            Command::Finalize => self.ask(id, Question::Finalize, 0, Request::Finalize),
            Command::Unknown { name } => {
                if !std::mem::replace(&mut self.has_sent_unknown, true) {
                    tracing::warn!(proc = %self.proc, name, "a rank sent an unknown PMI command; it gets an error");
                }
                say(Answer::Unknown(&name))
            }
        }
    }

    fn ask(&mut self, id: PeerId, kind: Question, size_bytes: usize, request: Request) -> Step {
        self.asked = Some(Asked { command: request.command(), size_bytes, kind });
        Step::Ask(Input::Request(id, TAG, request))
    }

    /// The core's answer as a line. An abort has none.
    pub(super) fn answer(&mut self, reply: &Reply) -> Option<String> {
        let kind = self.asked.take()?.kind;
        let status = match reply {
            Reply::Status(status) | Reply::Partial { status, .. } => *status,
            _ => Status::SUCCESS,
        };
        let reason = reason(status);
        let outcome = if status == Status::SUCCESS { Ok(()) } else { Err(reason.as_str()) };
        let answer = match kind {
            Question::Put { key } => {
                if let (Ok(()), Some(rank)) = (outcome, self.proc.rank.process()) {
                    self.job.owners.lock().insert(key.into(), rank);
                }
                Answer::Put(outcome)
            }
            Question::Barrier => Answer::BarrierOut(outcome),
            Question::Publish => Answer::Published(outcome),
            Question::Lookup => Answer::Found(outcome.and_then(|()| port_in(reply).ok_or("service_not_found"))),
            Question::Unpublish => Answer::Unpublished(outcome),
            Question::Spawn => Answer::Spawned(outcome.and_then(|()| job_in(reply).ok_or("no job"))),
            Question::Abort => return None,
            Question::Finalize => Answer::Finalized,
        };
        Some(self.reader.answer(answer))
    }

    fn place(&self) -> Place<'_> {
        let spawner = self.job.spawner.as_ref().map(Namespace::as_str);
        let rank = self.proc.rank.process().unwrap_or_default();
        Place { rank, size: self.job.size, app_number: self.app_number, spawner }
    }

    fn put_node_attribute(&mut self, key: String, value: String) -> Step {
        let mut attributes = self.job.node_attributes.lock();
        let is_new = !attributes.values.contains_key(&key);
        let checked = match stored(&key, &value) {
            Ok(_) if is_new && self.node_attribute_count >= NODE_ATTRIBUTES_MAX => {
                Err("the rank has put too many attributes")
            }
            Ok(_) if attributes.bytes + key.len() + value.len() > NODE_ATTRIBUTE_BYTES_MAX => {
                Err("the attributes of the job take too much memory")
            }
            checked => checked.map(|_| ()),
        };
        let answer = self.reader.answer(Answer::Put(checked));
        if checked.is_err() {
            return Step::Say(answer);
        }
        self.node_attribute_count += u32::from(is_new);
        Step::SayAndWake(answer, attributes.put(key, value))
    }

    fn get_node_attribute(&mut self, id: PeerId, key: String, waits: bool) -> Step {
        let mut attributes = self.job.node_attributes.lock();
        if let Some(value) = attributes.values.get(&key) {
            return Step::Say(self.reader.answer(Answer::Got(Ok(value))));
        }
        if !waits || key.len() > KEY_BYTES_MAX {
            return Step::Say(self.reader.answer(Answer::Got(Err("not found"))));
        }
        attributes.waiting.push((id, key.clone()));
        drop(attributes);
        self.awaited = Some(key);
        Step::Wait
    }

    fn put(&self, kvsname: Option<&str>, key: &str, value: &str) -> Result<Commit, &'static str> {
        self.check_space(kvsname)?;
        let (key, value) = stored(key, value)?;
        Ok(Commit { parts: vec![(Scope::Global, vec![Kval { key, value }])] })
    }

    fn get<'a>(&'a self, kvsname: Option<&str>, key: &str, store: &'a Store) -> Result<&'a str, &'static str> {
        self.check_space(kvsname)?;
        if key == "PMI_process_mapping"
            && let Some(mapping) = &self.job.mapping
        {
            return Ok(mapping);
        }
        let owner = self.job.owners.lock().get(key).copied();
        // A rank on another node may have put it.
        let rank = owner.map_or(Rank::Undefined, Rank::Process);
        let reader = store.reader(&self.proc.namespace).ok_or("the job has ended")?;
        let name = stored_name(key);
        // The process that spawned the job may have put it.
        let of_job = |_| reader.get(&lookup(Rank::Wildcard, &name));
        let found = reader.get(&lookup(rank, &name)).or_else(of_job).map_err(|_| "key not found")?;
        let value = found.as_str().ok_or("the value is no text")?;
        // A process that speaks PMIx may have put a longer one.
        if value.len() <= VALUE_BYTES_MAX { Ok(value) } else { Err("the value is too long") }
    }

    fn check_space(&self, kvsname: Option<&str>) -> Result<(), &'static str> {
        let is_own = kvsname.is_none_or(|name| name == self.proc.namespace.as_str());
        if is_own { Ok(()) } else { Err("unknown key space") }
    }

    fn fence(&self) -> Collective {
        let procs = vec![ProcId { namespace: self.proc.namespace.clone(), rank: Rank::Wildcard }];
        let collect = Info::new(Key::from_static(keys::COLLECT_DATA.name()), true);
        Collective { procs, directives: vec![collect] }
    }

    fn publish(&self, key: Key, port: &str) -> Request {
        Request::Service(Service::Publish(Publish { uid: self.uid, info: vec![Info::new(key, port)] }))
    }

    fn lookup(&self, key: Key) -> Request {
        Request::Service(Service::Lookup(proto::Lookup { uid: self.uid, keys: vec![key], directives: Vec::new() }))
    }

    fn unpublish(&self, key: Key) -> Request {
        Request::Service(Service::Unpublish(Unpublish { uid: self.uid, keys: vec![key], directives: Vec::new() }))
    }
}

/// A key and a value as the store has them.
fn stored(key: &str, value: &str) -> Result<(Key, Value), &'static str> {
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        return Err("a key has 1 to 64 bytes");
    }
    if value.len() > VALUE_BYTES_MAX {
        return Err("a value has at most 1024 bytes");
    }
    let key = Key::new(stored_name(key)).map_err(|_| "the key has a NUL")?;
    let value = Text::new(value.as_bytes()).map_err(|_| "the value has a NUL")?;
    Ok((key, Value::String(value)))
}

/// A spawn in the terms of PMIx.
fn spawn_request(spawn: &pmi::Spawn) -> Result<Request, &'static str> {
    let text = |text: &str| Text::until_nul(text.as_bytes());
    let values = spawn.values.iter().map(|(key, value)| stored(key, value).map(|(key, value)| Info::new(key, value)));
    let job = values.collect::<Result<Vec<Info>, _>>()?;
    let apps = spawn.programs.iter().map(|program| {
        let words = std::iter::once(&program.command).chain(&program.arguments);
        App {
            command: Some(text(&program.command)),
            argv: words.map(|word| text(word)).collect(),
            environment: Vec::new(),
            working_directory: None,
            processes_max: program.count,
            info: program.info.iter().filter_map(|(hint, value)| hint_info(hint, text(value))).collect(),
        }
    });
    let apps = apps.collect();
    Ok(Request::Service(Service::Spawn(Spawn { job, apps })))
}

/// A hint of MPI_Comm_spawn as a directive. MPI lets a launcher ignore the hints that it does not know.
fn hint_info(hint: &str, value: Text) -> Option<Info> {
    let key = match hint {
        "wdir" => keys::WDIR.name(),
        "host" | "hosts" => keys::HOST.name(),
        "hostfile" => keys::HOSTFILE.name(),
        _ => return None,
    };
    Some(Info::new(Key::from_static(key), Value::String(value)))
}

/// The name under which a key is stored. A key of PMI is never a key of the standard.
fn stored_name(key: &str) -> String {
    format!("pmi.{key}")
}

/// The address in the answer to a lookup. Libraries of PMI have no room for a longer one.
fn port_in(reply: &Reply) -> Option<&str> {
    let Reply::Lookup(found) = reply else { return None };
    match &found.first()?.value {
        Value::String(port) => port.to_str().ok().filter(|port| port.len() <= VALUE_BYTES_MAX),
        _ => None,
    }
}

/// The job in the answer to a spawn.
fn job_in(reply: &Reply) -> Option<&str> {
    let Reply::Spawned { namespace, .. } = reply else { return None };
    namespace.to_str().ok()
}

fn reason(status: Status) -> String {
    match status {
        Status::ERR_NOT_SUPPORTED => "the launcher does not support this".to_owned(),
        Status::ERR_NOT_FOUND => "service_not_found".to_owned(),
        Status::ERR_DUPLICATE_KEY => "the name is published already".to_owned(),
        status => status.to_string(),
    }
}

const BAD_SERVICE: &str = "the name of the service can not be a key";

/// The tag of a rank's only open request.
const TAG: Tag = Tag::DYNAMIC_FIRST;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mapping_names_blocks_of_nodes_in_the_order_of_ranks() {
        for (nodes, expected) in [
            (&[0, 0, 0, 0][..], "(vector,(0,1,4))"),
            (&[0, 0, 1, 1], "(vector,(0,2,2))"),
            (&[0, 1, 0, 1], "(vector,(0,2,1),(0,2,1))"),
            (&[1, 1, 0], "(vector,(1,1,2),(0,1,1))"),
            (&[0, 1, 1], "(vector,(0,1,1),(1,1,2))"),
            (&[], "(vector)"),
        ] {
            assert_eq!(process_mapping(nodes), expected);
        }
    }
}
