//! Facts about a host that queries ask for: its process sets, and the attributes that it supports.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use parking_lot::Mutex;

use super::attribute_support::{self, HostAttributes, key_of};
use super::host::{Responder, Taker};
use super::understood::ServerService;
use crate::keys::{self, TypedKey};
use crate::proto::QueryInfo;
use crate::ptl::rendezvous::{self, Belief, Found, Names};
use crate::runtime::shared::local::{hostname, system_directory, temporary_directory};
use crate::server::{HostReply, Requester, supported_keys};
use crate::storage;
use crate::types::{AsStatus, DataArray, DataType, Info, Key, ProcId, Query, Status, Text, Value, footprint};

/// Process sets and supported attributes of a host, and the answers to queries about them. Queries for servers on this
/// node (`PMIX_QUERY_AVAIL_SERVERS`) are answered, too. A host gives its queries to [`HostFacts::answer`] first, and
/// answers the rest itself. Queries for `PMIX_QUERY_ATTRIBUTE_SUPPORT` also find the attributes that this library
/// honours as client, server and tool.
///
/// A key that is repeated in one query is answered once. An answer above the memory limit is refused. Results are a
/// flat list of the found keys, as hosts and tools of OpenPMIx expect.
///
/// ```
/// use modex::types::{Info, Status};
/// use modex::{Capabilities, Host, HostFacts, QueryInfo, Requester, Responder, Server};
///
/// struct Launcher(HostFacts);
///
/// impl Host for Launcher {
///     fn capabilities(&self) -> Capabilities {
///         Capabilities::QUERY
///     }
///
///     fn query(&self, requester: Requester, request: QueryInfo, reply: Responder<Vec<Info>>) {
///         if let Some((_rest, reply)) = self.0.answer(&requester, request, reply) {
///             reply.fail(Status::ERR_NOT_SUPPORTED); // The server answers the rest.
///         }
///     }
/// }
///
/// let facts = HostFacts::default();
/// facts.register_attributes("PMIx_Spawn", vec!["PMIX_HOST".to_owned()])?;
/// let server = Server::builder().start(Launcher(facts))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Source: PMIx Standard, `PMIx_Register_attributes` and "Process Sets".
#[derive(Debug, Default)]
pub struct HostFacts {
    process_sets: Mutex<BTreeMap<String, Vec<ProcId>>>,
    /// For each function.
    attributes: Mutex<HostAttributes>,
    /// The host answers queries, and may say more about its support than its attributes do.
    has_queries: bool,
}

/// Why a fact was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FactError {
    /// A process set has neither name nor members.
    #[error("a process set needs a name and members")]
    EmptySet,
    /// No process set has this name.
    #[error("there is no process set {name:?}")]
    NoSuchSet {
        /// The name.
        name: String,
    },
    /// The attributes of a function are registered once.
    #[error("the attributes of {function:?} are registered already")]
    Repeated {
        /// The function.
        function: String,
    },
}

impl AsStatus for FactError {
    fn status(&self) -> Status {
        match self {
            Self::EmptySet => Status::ERR_BAD_PARAM,
            Self::NoSuchSet { .. } => Status::ERR_NOT_FOUND,
            Self::Repeated { .. } => Status::ERR_REPEAT_ATTR_REGISTRATION,
        }
    }
}

impl HostFacts {
    /// Facts about a host that answers queries. It is asked about its support of spawns and debuggers: launchers of
    /// PRRTE answer more than their attributes say.
    #[must_use]
    pub fn of_host_with_queries() -> Self {
        Self { has_queries: true, ..Self::default() }
    }

    /// Defines a process set; replaces the set of that name.
    ///
    /// # Errors
    /// [`FactError::EmptySet`].
    pub fn define_process_set(&self, name: &str, members: Vec<ProcId>) -> Result<(), FactError> {
        if name.is_empty() || members.is_empty() {
            return Err(FactError::EmptySet);
        }
        self.process_sets.lock().insert(name.to_owned(), members);
        Ok(())
    }

    /// Removes a process set.
    ///
    /// # Errors
    /// [`FactError::NoSuchSet`].
    pub fn delete_process_set(&self, name: &str) -> Result<(), FactError> {
        let removed = self.process_sets.lock().remove(name);
        removed.map(|_| ()).ok_or_else(|| FactError::NoSuchSet { name: name.to_owned() })
    }

    /// Notes the attributes that the host supports for one of its functions, by their macros' names or their keys.
    ///
    /// # Errors
    /// [`FactError::Repeated`].
    pub fn register_attributes(&self, function: &str, attributes: Vec<String>) -> Result<(), FactError> {
        let known = &mut self.attributes.lock().by_function;
        if known.contains_key(function) {
            return Err(FactError::Repeated { function: function.to_owned() });
        }
        known.insert(function.to_owned(), attributes);
        Ok(())
    }

    /// Notes a service of the server. Lists of supported keys and attributes then have those of the service.
    pub fn note_service(&self, service: ServerService) {
        self.attributes.lock().services.insert(service);
    }

    /// Answers queries about these facts. Returns the other queries with a responder for them, which adds the answers
    /// found here. If those queries get no answer, the result is partial.
    #[must_use]
    pub fn answer(
        &self,
        requester: &Requester,
        request: QueryInfo,
        reply: Responder<Vec<Info>>,
    ) -> Option<(QueryInfo, Responder<Vec<Info>>)> {
        let (found, rest) = match self.divide(requester.uid, request.queries) {
            Ok(divided) => divided,
            Err(status) => {
                reply.partial(status, Vec::new());
                return None;
            }
        };
        if rest.is_empty() {
            reply.succeed(found);
            return None;
        }
        let reply = if found.is_empty() { reply } else { with_known(found, reply) };
        let of_attributes: Vec<Info> =
            rest.iter().flat_map(|query| &query.keys).filter_map(|key| self.about_support(key)).collect();
        let reply = if of_attributes.is_empty() { reply } else { with_substitutes(of_attributes, &rest, reply) };
        Some((QueryInfo::new(rest), reply))
    }

    /// Splits queries into found answers and other queries.
    fn divide(&self, uid: u32, queries: Vec<Query>) -> Result<(Vec<Info>, Vec<Query>), Status> {
        let mut found = Answers::default();
        // One search serves all queries of a request.
        let mut servers_here = None;
        let mut rest = Vec::new();
        for Query { mut keys, qualifiers } in queries {
            let mut seen = BTreeSet::new();
            keys.retain(|key| seen.insert(key.clone()));
            if keys.first().is_some_and(|key| is(key, keys::QUERY_ATTRIBUTE_SUPPORT)) {
                let before = found.infos.len();
                let functions = keys.get(1..).unwrap_or_default();
                let host = self.attributes.lock();
                attribute_support::answer(functions, &qualifiers, &host, |info| found.push(info))?;
                if found.infos.len() == before {
                    rest.push(Query { keys, qualifiers });
                }
                continue;
            }
            let mut open = Vec::new();
            for key in keys {
                let is_for_host = self.has_queries && is_about_support(&key);
                let of_support = || self.about_support(&key).filter(|_| !is_for_host);
                let known = self.about_sets(&key, &qualifiers).or_else(of_support);
                let known = known.or_else(|| {
                    let is_asked = is(&key, keys::QUERY_AVAIL_SERVERS);
                    is_asked.then(|| servers_here.get_or_insert_with(|| servers(uid, &server_directories())).clone())
                });
                match known {
                    Some(info) => found.push(info)?,
                    None => open.push(key),
                }
            }
            if !open.is_empty() {
                rest.push(Query { keys: open, qualifiers });
            }
        }
        Ok((found.infos, rest))
    }

    /// Facts about process sets. `None` without any set here: another part of the host may know some.
    fn about_sets(&self, key: &Text, qualifiers: &[Info]) -> Option<Info> {
        let sets = self.process_sets.lock();
        if sets.is_empty() {
            return None;
        }
        let info = |key: &'static str, value: Value| Some(Info::new(Key::from_static(key), value));
        if is(key, keys::QUERY_NUM_PSETS) {
            return info(keys::QUERY_NUM_PSETS.name(), Value::Size(u64::try_from(sets.len()).unwrap_or(u64::MAX)));
        }
        if is(key, keys::QUERY_PSET_NAMES) {
            let names: Vec<&str> = sets.keys().map(String::as_str).collect();
            return info(keys::QUERY_PSET_NAMES.name(), Value::from(names.join(",").as_str()));
        }
        if is(key, keys::QUERY_PSET_MEMBERSHIP) {
            let name = qualifiers.iter().find(|info| info.key.as_str() == keys::PSET_NAME.name())?.value.as_str()?;
            return info(keys::QUERY_PSET_MEMBERSHIP.name(), processes(sets.get(name)?));
        }
        None
    }
}

/// The function whose attributes spawn and debug support mean.
const SPAWN: &str = "PMIx_Spawn";
/// The begin of the keys of a debugger's attributes.
const DEBUG_PREFIX: &str = "pmix.dbg.";
/// The function whose attributes are keys of queries that the host answers.
const QUERY: &str = "PMIx_Query_info";
/// The keys of queries that are answered here.
const KEYS: [&str; 4] = [
    keys::QUERY_ATTRIBUTE_SUPPORT.name(),
    keys::QUERY_SPAWN_SUPPORT.name(),
    keys::QUERY_DEBUG_SUPPORT.name(),
    keys::QUERY_AVAIL_SERVERS.name(),
];

impl HostFacts {
    /// The attributes of a spawn, those for debuggers, or the keys of queries, with commas between them.
    fn about_support(&self, asked: &Text) -> Option<Info> {
        let info = |key: &'static str, known: &[&str]| {
            (!known.is_empty()).then(|| Info::new(Key::from_static(key), known.join(",").as_str()))
        };
        let attributes = self.attributes.lock();
        let of = |function: &str| attributes.by_function.get(function).into_iter().flatten().map(|name| key_of(name));
        if is(asked, keys::QUERY_SPAWN_SUPPORT) {
            return info(keys::QUERY_SPAWN_SUPPORT.name(), &of(SPAWN).collect::<Vec<_>>());
        }
        if is(asked, keys::QUERY_DEBUG_SUPPORT) {
            let known: Vec<&str> = of(SPAWN).filter(|key| key.starts_with(DEBUG_PREFIX)).collect();
            return info(keys::QUERY_DEBUG_SUPPORT.name(), &known);
        }
        if is(asked, keys::QUERY_SUPPORTED_KEYS) {
            let has_storage = attributes.services.contains(&ServerService::Storage);
            let is_answered = |key: &&str| has_storage || !storage::is_key(key);
            let mut known: Vec<&str> = supported_keys().filter(is_answered).chain(KEYS).collect();
            known.extend(of(QUERY));
            return info(keys::QUERY_SUPPORTED_KEYS.name(), &known);
        }
        None
    }
}

/// The servers of a user whose files are found: an array for each of name, address, process and version.
fn servers(uid: u32, directories: &BTreeSet<PathBuf>) -> Info {
    let names = Names::new(&hostname()).ok();
    let is_wanted = |name: &str| names.as_ref().is_some_and(|names| names.is_tool_file(name));
    let mut found: BTreeMap<String, Found> = BTreeMap::new();
    for server in directories.iter().flat_map(|place| rendezvous::search(place, Belief::OwnAndRoot, is_wanted)) {
        if !server.is_doubtful && server.owner == uid {
            found.insert(server.contents.address.clone(), server);
        }
    }
    let servers = found.into_values().take(SERVERS_MAX).map(server_info).collect();
    Info::new(Key::from_static(keys::QUERY_AVAIL_SERVERS.name()), Value::info_array(servers))
}

/// The servers of this user whose files stand where tools of this process look, or in `more`. The answer to a query of
/// a process without a server.
#[must_use]
pub fn available_servers(more: impl IntoIterator<Item = PathBuf>) -> Info {
    let directories = server_directories().into_iter().chain(more).collect();
    servers(nix::unistd::geteuid().as_raw(), &directories)
}

/// The directories of the servers that tools of this process would find.
fn server_directories() -> BTreeSet<PathBuf> {
    BTreeSet::from([system_directory(), temporary_directory(), PathBuf::from("/tmp")])
}

/// Limit of the servers in an answer.
const SERVERS_MAX: usize = 1024;

fn server_info(Found { contents, owner, .. }: Found) -> Info {
    let info = |key: &'static str, value: Value| Info::new(Key::from_static(key), value);
    // A server's address begins with its name.
    let name = contents.address.split_once(';').and_then(|(name, _)| name.rsplit_once(['.', '@']));
    let namespace = name.map(|(namespace, _)| info(keys::NSPACE.name(), Value::from(namespace)));
    let address = info(keys::SERVER_URI.name(), Value::from(contents.address.as_str()));
    let process = contents.pid.map(|pid| info(keys::SERVER_PIDINFO.name(), Value::Pid(pid)));
    let version = contents.version.map(|version| info(keys::VERSION_INFO.name(), Value::from(version.as_str())));
    let owner = info(keys::USERID.name(), Value::Uint32(owner));
    let infos = namespace.into_iter().chain([address]).chain(process).chain(version).chain([owner]).collect();
    info(keys::SERVER_INFO_ARRAY.name(), Value::info_array(infos))
}

/// Whether a key asks for the host's support of spawns or debuggers.
fn is_about_support(key: &Text) -> bool {
    is(key, keys::QUERY_SPAWN_SUPPORT) || is(key, keys::QUERY_DEBUG_SUPPORT)
}

/// A responder that takes these infos for those that the host does not give.
fn with_substitutes(substitutes: Vec<Info>, asked: &[Query], reply: Responder<Vec<Info>>) -> Responder<Vec<Info>> {
    let keys: Vec<Text> = asked.iter().flat_map(|query| &query.keys).cloned().collect();
    Responder::new(Taker::Caller(Box::new(move |answer| {
        let (status, mut infos) = status_and_infos(answer);
        let is_given = |info: &Info| infos.iter().any(|given| given.key == info.key);
        let missing: Vec<Info> = substitutes.into_iter().filter(|info| !is_given(info)).collect();
        let is_helped = !missing.is_empty();
        infos.extend(missing);
        let is_answered = |key: &Text| infos.iter().any(|info| info.key.as_str().as_bytes() == key.as_bytes());
        let status = match status {
            failure if is_helped && failure != Status::SUCCESS => match keys.iter().all(is_answered) {
                true => Status::SUCCESS,
                false => Status::ERR_PARTIAL_SUCCESS,
            },
            status => status,
        };
        reply.partial(status, infos);
    })))
}

fn status_and_infos(answer: HostReply) -> (Status, Vec<Info>) {
    match answer {
        HostReply::Infos { status, info } => (status, info),
        HostReply::Status(status) => (status, Vec::new()),
        _ => (Status::ERROR, Vec::new()),
    }
}

/// A responder whose infos follow the known ones.
fn with_known(mut known: Vec<Info>, reply: Responder<Vec<Info>>) -> Responder<Vec<Info>> {
    Responder::new(Taker::Caller(Box::new(move |answer| {
        let (status, infos) = status_and_infos(answer);
        let is_all = status.is_success() || status == Status::ERR_PARTIAL_SUCCESS;
        known.extend(infos);
        reply.partial(if is_all { status } else { Status::ERR_PARTIAL_SUCCESS }, known);
    })))
}

/// Answers so far, and their size in memory.
#[derive(Default)]
struct Answers {
    infos: Vec<Info>,
    size_bytes: usize,
}

impl Answers {
    fn push(&mut self, info: Info) -> Result<(), Status> {
        let size_bytes = footprint(&info.value).and_then(|size_bytes| self.size_bytes.checked_add(size_bytes));
        self.size_bytes = size_bytes.filter(|&sum| sum <= ANSWER_BYTES_MAX).ok_or(Status::ERR_OUT_OF_RESOURCE)?;
        self.infos.push(info);
        Ok(())
    }
}

/// Limit of the answers to one request, in bytes of memory. The core has the same limit.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// An array of processes.
fn processes(procs: &[ProcId]) -> Value {
    let elements = procs.iter().cloned().map(Value::from).collect();
    Value::DataArray(Box::new(DataArray { element_type: DataType::Proc, elements }))
}

fn is<T: ?Sized>(text: &Text, key: TypedKey<T>) -> bool {
    text.as_bytes() == key.name().as_bytes()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::ptl::rendezvous::Contents;
    use crate::types::Namespace;

    fn ask(keys: &[&str], qualifiers: Vec<Info>) -> Vec<Query> {
        vec![Query { keys: keys.iter().map(|key| Text::from(*key)).collect(), qualifiers }]
    }

    /// Regression: the host's definitions were noted, but no query was answered from them.
    #[test]
    fn queries_find_process_sets_and_the_hosts_attributes() {
        let facts = HostFacts::default();
        let names = [keys::QUERY_NUM_PSETS.name(), keys::QUERY_PSET_NAMES.name()];
        let divided = facts.divide(0, ask(&names, Vec::new())).unwrap();
        assert_eq!(divided, (Vec::new(), ask(&names, Vec::new())), "the host may know");
        let members = vec![ProcId::new(Namespace::new("job").unwrap(), 3)];
        facts.define_process_set("odd", members.clone()).unwrap();
        facts.define_process_set("even", members.clone()).unwrap();
        let (found, rest) = facts.divide(0, ask(&[names[0], "pmix.qry.ns", names[1]], Vec::new())).unwrap();
        let values: Vec<Value> = found.into_iter().map(|info| info.value).collect();
        assert_eq!(values, [Value::Size(2), Value::from("even,odd")]);
        assert_eq!(rest, ask(&["pmix.qry.ns"], Vec::new()));
        let named = |name: &str| vec![Info::new(Key::from_static(keys::PSET_NAME.name()), name)];
        let (found, _) = facts.divide(0, ask(&[keys::QUERY_PSET_MEMBERSHIP.name()], named("odd"))).unwrap();
        assert_eq!(found[0].value, processes(&members));
        let (found, rest) = facts.divide(0, ask(&[keys::QUERY_PSET_MEMBERSHIP.name()], named("none"))).unwrap();
        assert_eq!((found.len(), rest.len()), (0, 1));
        facts.register_attributes("PMIx_Spawn", vec!["PMIX_TIMEOUT".into(), "host.own".into()]).unwrap();
        let (found, rest) =
            facts.divide(0, ask(&[keys::QUERY_ATTRIBUTE_SUPPORT.name(), "PMIx_Spawn"], Vec::new())).unwrap();
        assert_eq!((found.len(), found[0].key.as_str()), (1, "PMIx_Spawn"));
        assert_eq!(rest, []);
    }

    #[test]
    fn spawn_and_debug_support_are_the_attributes_of_a_spawn() {
        let asked = || ask(&[keys::QUERY_SPAWN_SUPPORT.name(), keys::QUERY_DEBUG_SUPPORT.name()], Vec::new());
        let facts = HostFacts::default();
        assert_eq!(facts.divide(0, asked()).unwrap(), (Vec::new(), asked()));
        let attributes = ["PMIX_WDIR", "PMIX_DEBUG_STOP_IN_INIT", "pmix.prefix"].map(str::to_owned);
        facts.register_attributes("PMIx_Spawn", attributes.to_vec()).unwrap();
        let values: Vec<Value> = facts.divide(0, asked()).unwrap().0.into_iter().map(|info| info.value).collect();
        assert_eq!(values, ["pmix.wdir,pmix.dbg.init,pmix.prefix", "pmix.dbg.init"].map(Value::from));
    }

    /// Regression: a launcher of PRRTE supports a spawn beside another job, but its attributes do not say so.
    #[test]
    fn a_host_that_answers_queries_is_asked_about_its_support_first() {
        let facts = HostFacts::of_host_with_queries();
        facts.register_attributes("PMIx_Spawn", vec!["PMIX_WDIR".to_owned()]).unwrap();
        let own = Info::new(Key::from_static(keys::QUERY_SPAWN_SUPPORT.name()), "pmix.cospawn");
        let of_attributes = Info::new(own.key.clone(), "pmix.wdir");
        let (spawn, debug) = (keys::QUERY_SPAWN_SUPPORT.name(), keys::QUERY_DEBUG_SUPPORT.name());
        for (asked, said, given, expected) in [
            (&[spawn][..], Status::SUCCESS, vec![own.clone()], (Status::SUCCESS, vec![own])),
            (&[spawn], Status::ERR_NOT_FOUND, Vec::new(), (Status::SUCCESS, vec![of_attributes.clone()])),
            // The attributes say nothing about debuggers.
            (&[spawn, debug], Status::ERR_NOT_FOUND, Vec::new(), (Status::ERR_PARTIAL_SUCCESS, vec![of_attributes])),
        ] {
            let (send, receive) = mpsc::channel();
            let proc = ProcId::new(Namespace::new("job").unwrap(), 0);
            let requester = Requester { proc, object: 0, uid: 0, gid: 0 };
            let taker = Taker::Caller(Box::new(move |reply| send.send(reply).unwrap()));
            let queries = ask(asked, Vec::new());
            let (rest, reply) =
                facts.answer(&requester, QueryInfo::new(queries.clone()), Responder::new(taker)).unwrap();
            assert_eq!(rest.queries, queries);
            reply.partial(said, given);
            let HostReply::Infos { status, info } = receive.recv().unwrap() else { panic!("no infos") };
            assert_eq!((status, info), expected);
        }
    }

    #[test]
    fn the_hosts_keys_of_queries_are_supported_ones() {
        let facts = HostFacts::default();
        facts.register_attributes("PMIx_Query_info", vec!["host.own".to_owned()]).unwrap();
        let (found, _) = facts.divide(0, ask(&[keys::QUERY_SUPPORTED_KEYS.name()], Vec::new())).unwrap();
        let known: Vec<&str> = found[0].value.as_str().unwrap().split(',').collect();
        for key in [keys::QUERY_NAMESPACES.name(), keys::QUERY_AVAIL_SERVERS.name(), "host.own"] {
            assert!(known.contains(&key), "{key}: {known:?}");
        }
    }

    #[test]
    fn servers_are_found_by_their_files() {
        let place = tempfile::tempdir().unwrap();
        let contents = Contents {
            address: "job@0;tcp4://127.0.0.1:1".to_owned(),
            version: Some("4.2.2".to_owned()),
            pid: Some(std::process::id()),
            owner: None,
            is_locked: false,
        };
        let name = Names::new(&hostname()).unwrap().of_pid(std::process::id());
        for name in [name.as_str(), "other"] {
            std::fs::write(place.path().join(name), contents.render(0)).unwrap();
        }
        let search = |uid: u32| servers(uid, &BTreeSet::from([place.path().to_owned()]));
        let own = nix::unistd::geteuid().as_raw();
        let found = search(own);
        let Value::DataArray(array) = found.value else { panic!("no array") };
        let [Value::Info(server)] = &array.elements[..] else { panic!("not one server: {array:?}") };
        let Value::DataArray(facts) = &server.value else { panic!("no array: {server:?}") };
        let facts: Vec<(&str, &Value)> = facts
            .elements
            .iter()
            .filter_map(|fact| match fact {
                Value::Info(info) => Some((info.key.as_str(), &info.value)),
                _ => None,
            })
            .collect();
        assert_eq!(facts[0], ("pmix.nspace", &Value::from("job")));
        assert_eq!((facts[1].0, facts[2]), ("pmix.srvr.uri", ("pmix.srvr.pidinfo", &Value::Pid(std::process::id()))));
        assert_eq!(search(own + 1).value, Value::info_array(Vec::new()), "another user's server");
    }

    #[test]
    fn facts_that_are_empty_unknown_or_repeated_are_refused() {
        let facts = HostFacts::default();
        let members = vec![ProcId::new(Namespace::new("job").unwrap(), 3)];
        assert_eq!(facts.define_process_set("", members.clone()), Err(FactError::EmptySet));
        assert_eq!(facts.define_process_set("odd", Vec::new()), Err(FactError::EmptySet));
        facts.define_process_set("odd", members).unwrap();
        assert_eq!(facts.delete_process_set("odd"), Ok(()));
        assert_eq!(facts.delete_process_set("odd").unwrap_err().status(), Status::ERR_NOT_FOUND);
        facts.register_attributes("PMIx_Spawn", Vec::new()).unwrap();
        let again = facts.register_attributes("PMIx_Spawn", Vec::new());
        assert_eq!(again.unwrap_err().status(), Status::ERR_REPEAT_ATTR_REGISTRATION);
    }

    /// Regression: every repetition of a key was answered, and the size was measured only afterwards.
    #[test]
    fn repeated_questions_are_answered_once_and_answers_are_bounded() {
        let facts = HostFacts::default();
        facts.define_process_set("odd", vec![ProcId::new(Namespace::new("job").unwrap(), 3)]).unwrap();
        let (found, rest) = facts.divide(0, ask(&[keys::QUERY_NUM_PSETS.name(); 3], Vec::new())).unwrap();
        assert_eq!((found.len(), rest.len()), (1, 0));
        let asked = |function: &str| Info::new(Key::from_static(keys::SERVER_ATTRIBUTES.name()), function);
        let support = |qualifiers| facts.divide(0, ask(&[keys::QUERY_ATTRIBUTE_SUPPORT.name()], qualifiers)).unwrap().0;
        assert_eq!(support(vec![asked("all"); 3]), support(vec![asked("all")]));
        assert_eq!(support(vec![asked("PMIx_Get"), asked("PMIx_Fence")]), support(vec![asked("PMIx_Fence,PMIx_Get")]));
        let info = || Info::new(Key::from_static("a"), vec![0_u8; 20]);
        let size_bytes = footprint(&info().value).unwrap();
        let mut answers = Answers { infos: Vec::new(), size_bytes: ANSWER_BYTES_MAX - size_bytes };
        assert_eq!(answers.push(info()), Ok(()));
        assert_eq!((answers.push(info()), answers.infos.len()), (Err(Status::ERR_OUT_OF_RESOURCE), 1));
    }

    #[test]
    fn a_fact_unknown_to_the_host_makes_an_answer_partial() {
        let facts = HostFacts::default();
        facts.define_process_set("odd", vec![ProcId::new(Namespace::new("job").unwrap(), 3)]).unwrap();
        for (said, expected) in
            [(Status::SUCCESS, Status::SUCCESS), (Status::ERR_NOT_SUPPORTED, Status::ERR_PARTIAL_SUCCESS)]
        {
            let (send, receive) = mpsc::channel();
            let proc = ProcId::new(Namespace::new("job").unwrap(), 0);
            let requester = Requester { proc, object: 0, uid: 0, gid: 0 };
            let taker = Taker::Caller(Box::new(move |reply| send.send(reply).unwrap()));
            let queries = ask(&[keys::QUERY_NUM_PSETS.name(), "pmix.qry.ns"], Vec::new());
            let (rest, reply) = facts.answer(&requester, QueryInfo::new(queries), Responder::new(taker)).unwrap();
            assert_eq!(rest.queries, ask(&["pmix.qry.ns"], Vec::new()));
            reply.partial(said, Vec::new());
            let known = vec![Info::new(Key::from_static(keys::QUERY_NUM_PSETS.name()), Value::Size(1))];
            let HostReply::Infos { status, info } = receive.recv().unwrap() else { panic!("no infos") };
            assert_eq!((status, info), (expected, known));
        }
    }
}
