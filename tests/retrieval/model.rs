//! The standard's rules of registration and retrieval in a simple form. Each registered value is filed under its
//! subject, and a Get looks where the rules say. The model shares only data types with the library.
//!
//! Sources: PMIx Standard, "Reserved Keys", "Data Access and Sharing" and "Server-specific Interfaces".

use std::collections::{BTreeMap, BTreeSet};

use modex::types::{Info, Namespace, ProcId, Rank, Scope, Status, Value};

use crate::infos::{Question, array, entries, find, is_in, number, scope, text};

/// The subject of a value. A node is its position among all nodes of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Whose {
    Session(u32),
    SessionNode(u32, usize),
    Job,
    App(u32),
    AppNode(u32, usize),
    Node(usize),
    Process(u32),
}

#[derive(Clone, Debug, Default)]
struct Node {
    /// The first one is the node's name.
    names: Vec<String>,
    id: Option<u32>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Job {
    session: Option<u32>,
    nodes: Vec<Node>,
    /// Ranks of each node, from the map or from the location of each process.
    map: Vec<Vec<u32>>,
    facts: BTreeMap<(Whose, String), Value>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) hostname: &'static str,
    pub(crate) jobs: BTreeMap<String, Job>,
    /// Values that processes of this node put and committed, in that order. No key is reserved.
    pub(crate) puts: Vec<(ProcId, Scope, String, Value)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Realm {
    Session,
    App,
    Node,
    ByRank,
}

/// Keys by realm; all others are looked up by rank.
const SESSION_KEYS: &str = "pmix.session.id pmix.clid pmix.univ.size pmix.tmpdir pmix.tdir.rmclean pmix.fqdn pmix.rm.name \
    pmix.rm.version";
const APP_KEYS: &str = "pmix.app.size pmix.aldr pmix.app.argv pmix.wdir pmix.pset.nm pmix.pset.mems pmix.apmap.type \
    pmix.apmap.regex";
const NODE_KEYS: &str = "pmix.hname pmix.alias pmix.nodeid pmix.pmem pmix.lpeers pmix.lprocs pmix.lcpus pmix.local.size \
    pmix.node.size pmix.lldr pmix.ndosub";
const REALMS: &str = "pmix.ssn.info pmix.job.info pmix.app.info pmix.node.info pmix.hname pmix.nodeid pmix.appnum";
/// Keys that every process has by its place and its job, registered or not.
const OF_EVERY_PROCESS: &str =
    "pmix.rank pmix.hname pmix.nodeid pmix.lrank pmix.nrank pmix.appnum pmix.apprank pmix.grank";

fn default_realm(key: &str) -> Realm {
    match key {
        _ if is_in(SESSION_KEYS, key) => Realm::Session,
        _ if is_in(APP_KEYS, key) => Realm::App,
        _ if is_in(NODE_KEYS, key) => Realm::Node,
        _ => Realm::ByRank,
    }
}

impl Model {
    /// Registers a host's description of a job; in a later description, new values replace old ones.
    pub(crate) fn register(&mut self, namespace: &str, description: &[Info]) {
        let mut job = self.jobs.remove(namespace).unwrap_or_default();
        let infos: Vec<&Info> = description.iter().collect();
        job.session = session_of_job(&infos, None).or(job.session).or_else(|| first_session(&infos));
        job.read_maps(&infos);
        job.name_nodes(&infos);
        job.walk(&infos, Whose::Job, self.hostname);
        job.map_processes();
        self.jobs.insert(namespace.to_owned(), job);
    }

    /// The answer to a Get of one process: posted values come before registered ones.
    pub(crate) fn get(&self, own: &ProcId, question: &Question) -> Result<Value, Status> {
        let scope = scope(&question.qualifiers);
        let (name, rank) = question.proc.clone().unwrap_or((own.namespace.as_str().to_owned(), Rank::Undefined));
        let of = |rank| ProcId { namespace: Namespace::new(&name).unwrap(), rank };
        if question.key == "-" {
            return self.everything(own, &of(rank), scope);
        }
        let names_realm = question.qualifiers.iter().any(|info| is_in(REALMS, info.key.as_str()));
        let put = |rank| self.seen(own, &of(rank), &question.key, scope);
        let registered = self.registered(own, question).ok_or(Status::ERR_NOT_FOUND);
        // A key that only one process puts is found without its rank.
        let is_of_anyone = rank == Rank::Undefined;
        let others = self.puts.iter().filter(|_| is_of_anyone).map(|(proc, ..)| put(proc.rank));
        match put(if is_of_anyone { own.rank } else { rank }) {
            _ if names_realm => registered,
            own => [registered].into_iter().chain(others).fold(own, found_or_hidden),
        }
    }

    /// The puts of a process as another one sees them: all of its own ones, and another process's ones for the node.
    /// With a scope, only the puts for that scope's readers.
    fn seen(&self, own: &ProcId, whose: &ProcId, key: &str, scope: Option<Scope>) -> Result<Value, Status> {
        let puts = || self.puts.iter().rev().filter(|put| put.0 == *whose && put.2 == key);
        let is_visible = |put: Scope| match scope.unwrap_or(Scope::Global) {
            Scope::Global => own == whose || [Scope::Local, Scope::Global].contains(&put),
            Scope::Internal => own == whose && puts().next().is_some_and(|newest| newest.1 == Scope::Internal),
            scope => [scope, Scope::Global].contains(&put),
        };
        let is_hidden = puts().any(|put| put.1 != Scope::Internal);
        let missing = if is_hidden { Status::ERR_EXISTS_OUTSIDE_SCOPE } else { Status::ERR_NOT_FOUND };
        puts().find(|put| is_visible(put.1)).map(|put| put.3.clone()).ok_or(missing)
    }

    /// All puts of a process; without a scope also its registered values, whose reserved keys come first.
    fn everything(&self, own: &ProcId, whose: &ProcId, scope: Option<Scope>) -> Result<Value, Status> {
        let put = self.puts.iter().filter(|put| put.0 == *whose).map(|put| put.2.as_str());
        let mut all: BTreeMap<&str, Value> =
            put.filter_map(|key| Some((key, self.seen(own, whose, key, scope).ok()?))).collect();
        if let (None, Some(job), Some(rank)) = (scope, self.jobs.get(whose.namespace.as_str()), whose.rank.process()) {
            let entry = job.facts.keys().filter(|(of, _)| *of == Whose::Process(rank)).map(|(_, key)| key.as_str());
            for key in OF_EVERY_PROCESS.split_whitespace().chain(entry) {
                let value = job.of_process(rank, default_realm(key), key);
                let value = value.filter(|_| key.starts_with("pmix") || !all.contains_key(key));
                all.extend(value.map(|value| (key, value)));
            }
        }
        if all.is_empty() { Err(Status::ERR_NOT_FOUND) } else { Ok(array(all)) }
    }

    /// The registered value; `None`: there is none.
    fn registered(&self, own: &ProcId, question: &Question) -> Option<Value> {
        let qualifiers: Vec<&Info> = question.qualifiers.iter().collect();
        let says = |key: &str| find(&qualifiers, key).is_some_and(|value| value.as_bool() == Some(true));
        let own_name = own.namespace.as_str();
        let node = node_name(&qualifiers);
        let app = number(find(&qualifiers, "pmix.appnum"));
        let names_node = node.0.is_some() || node.1.is_some();
        let named = match () {
            () if says("pmix.ssn.info") => Some(Realm::Session),
            () if says("pmix.job.info") => Some(Realm::ByRank),
            () if says("pmix.app.info") => Some(Realm::App),
            () if says("pmix.node.info") || names_node => Some(Realm::Node),
            () => app.map(|_| Realm::App),
        };
        let realm = named.unwrap_or_else(|| default_realm(&question.key));
        // With a directive, the session is the caller's; without one, it is the named job's.
        let is_of_session = named == Some(Realm::Session);
        let (namespace, rank) = match &question.proc {
            _ if is_of_session => (own_name, Rank::Wildcard),
            Some((name, rank)) => (name.as_str(), *rank),
            None if matches!(realm, Realm::Node | Realm::App) => (own_name, own.rank),
            None => (own_name, Rank::Undefined),
        };
        let is_own = namespace == own_name;
        // The identity of a process is in no realm.
        match question.key.as_str() {
            "pmix.procid" => return Some(Value::from(own.clone())),
            "pmix.nspace" if is_own => return Some(Value::from(own_name)),
            "pmix.rank" if is_own && [own.rank, Rank::Undefined].contains(&rank) => return Some(Value::from(own.rank)),
            _ => {}
        }
        if is_of_session {
            let session = number(find(&qualifiers, "pmix.session.id")).or(self.jobs.get(own_name)?.session)?;
            return self.in_session(own_name, session, &question.key, names_node.then_some(node));
        }
        let job = self.jobs.get(namespace)?;
        let process = rank.process();
        if let (None, Some(process)) = (named, process) {
            return job.of_process(process, realm, &question.key);
        }
        let app = app.or_else(|| match process.or_else(|| own.rank.process().filter(|_| is_own)) {
            Some(reader) => job.app_of(reader),
            None => job.apps().first().copied(),
        });
        let node = match process {
            _ if names_node => job.node_meant(&node),
            Some(process) => job.node_of(process).filter(|_| job.size().is_none_or(|size| process < size)),
            None => job.node_named(self.hostname),
        };
        match realm {
            Realm::Session => job.entry(Whose::Session(job.session?), &question.key),
            Realm::App => {
                let of_app = job.of_app(app?, &question.key).filter(|_| !names_node);
                of_app.or_else(|| job.entry(Whose::AppNode(app?, node?), &question.key))
            }
            Realm::Node => job.of_node(node?, &question.key),
            Realm::ByRank => job.of_job(&question.key),
        }
    }

    /// The value of a session in the caller's job, else in any other job.
    fn in_session(&self, own: &str, id: u32, key: &str, node: Option<NodeName>) -> Option<Value> {
        let others = self.jobs.iter().filter(|(name, _)| *name != own).map(|(_, job)| job);
        self.jobs.get(own).into_iter().chain(others).find_map(|job| match &node {
            None => job.entry(Whose::Session(id), key),
            Some(node) => job.entry(Whose::SessionNode(id, job.node_meant(node)?), key),
        })
    }
}

/// The first value found; otherwise the status says whether one is hidden.
fn found_or_hidden(one: Result<Value, Status>, other: Result<Value, Status>) -> Result<Value, Status> {
    one.or_else(|status| other.map_err(|other| status.min(other)))
}

/// A node by its name, or by its number.
type NodeName = (Option<String>, Option<u32>);

fn node_name(infos: &[&Info]) -> NodeName {
    (text(find(infos, "pmix.hname")), number(find(infos, "pmix.nodeid")))
}

/// The session of the job: the one that its array names, else the one around it.
fn session_of_job(infos: &[&Info], around: Option<u32>) -> Option<u32> {
    infos.iter().find_map(|info| {
        let inside = entries(&info.value);
        let id = number(find(&inside, "pmix.session.id"));
        match info.key.as_str() {
            "pmix.job.arr" => id.or(around),
            "pmix.ssn.arr" => session_of_job(&inside, id),
            _ => None,
        }
    })
}

fn first_session(infos: &[&Info]) -> Option<u32> {
    let array = || infos.iter().find(|info| info.key.as_str() == "pmix.ssn.arr");
    number(find(infos, "pmix.session.id")).or_else(|| first_session(&entries(&array()?.value)))
}

impl Job {
    /// The maps, at any depth, as plain lists.
    fn read_maps(&mut self, infos: &[&Info]) {
        for info in infos {
            match (info.key.as_str(), &info.value) {
                ("pmix.nmap", value) => {
                    let named = |name: &str| Node { names: vec![name.to_owned()], id: None };
                    self.nodes = text(Some(value)).unwrap().split(',').map(named).collect();
                    self.facts.insert((Whose::Job, "pmix.nmap".to_owned()), value.clone());
                }
                ("pmix.pmap", value) => {
                    let field = |field: &str| field.split(',').filter_map(|rank| rank.parse().ok()).collect();
                    self.map = text(Some(value)).unwrap().split(';').map(field).collect();
                }
                ("pmix.ssn.arr" | "pmix.job.arr", value) => self.read_maps(&entries(value)),
                _ => {}
            }
        }
    }

    /// The names and numbers of nodes, at any depth.
    fn name_nodes(&mut self, infos: &[&Info]) {
        for info in infos {
            let inside = entries(&info.value);
            if info.key.as_str() == "pmix.node.arr" {
                let node = self.node_called(node_name(&inside));
                let aliases = text(find(&inside, "pmix.alias")).unwrap_or_default();
                let aliases = aliases.split(',').filter(|alias| !alias.is_empty()).map(str::to_owned);
                self.nodes[node].names.extend(aliases);
            }
            self.name_nodes(&inside);
        }
    }

    /// The node of this name or number; a new one if it is unknown.
    fn node_called(&mut self, (name, id): NodeName) -> usize {
        let known = name.as_deref().and_then(|name| self.node_named(name)).or_else(|| self.node_numbered(id?));
        let at = known.unwrap_or(self.nodes.len());
        self.nodes.resize(self.nodes.len().max(at + 1), Node::default());
        self.nodes[at].names.extend(name);
        self.nodes[at].id = id.or(self.nodes[at].id);
        at
    }

    /// The map of a job without one, once the node of each process is known.
    fn map_processes(&mut self) {
        let entry = |rank, key: &str| self.entry(Whose::Process(rank), key);
        let home = |rank| Some((text(Some(&entry(rank, "pmix.hname")?)), number(entry(rank, "pmix.nodeid").as_ref())));
        let size = self.size().filter(|_| self.entry(Whose::Job, "pmix.nmap").is_none()).unwrap_or(0);
        let homes: Option<Vec<_>> = (0..size).map(home).collect();
        for (rank, home) in (0..).zip(homes.unwrap_or_default()) {
            let node = self.node_called(home);
            self.map.resize(self.nodes.len(), Vec::new());
            self.map[node].retain(|other| *other != rank);
            self.map[node].push(rank);
        }
    }

    fn node_named(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node.names.iter().any(|known| known == name))
    }

    fn node_meant(&self, (name, id): &NodeName) -> Option<usize> {
        name.as_deref().map_or_else(|| self.node_numbered((*id)?), |name| self.node_named(name))
    }

    /// A node of the map without a number has its position as its number.
    fn node_numbered(&self, id: u32) -> Option<usize> {
        let given = self.nodes.iter().position(|node| node.id == Some(id));
        let at = usize::try_from(id).ok()?;
        given.or_else(|| (at < self.map.len() && self.nodes[at].id.is_none()).then_some(at))
    }

    /// Files every entry under its subject.
    fn walk(&mut self, infos: &[&Info], whose: Whose, hostname: &str) {
        for info in infos {
            let (key, mut inside) = (info.key.as_str(), entries(&info.value));
            let named = |key: &str| number(find(&inside, key)).unwrap();
            let of_array = match (key, whose) {
                ("pmix.ssn.arr", _) => Whose::Session(named("pmix.session.id")),
                ("pmix.job.arr", _) => Whose::Job,
                ("pmix.app.arr", _) => Whose::App(named("pmix.appnum")),
                ("pmix.node.arr", Whose::Session(id)) => Whose::SessionNode(id, self.node_called(node_name(&inside))),
                ("pmix.node.arr", Whose::App(app)) => Whose::AppNode(app, self.node_called(node_name(&inside))),
                ("pmix.node.arr", _) => Whose::Node(self.node_called(node_name(&inside))),
                ("pmix.pdata", _) => Whose::Process(number(Some(&inside.remove(0).value)).unwrap()),
                ("pmix.nmap" | "pmix.pmap", _) => continue,
                _ => {
                    let whose = if whose == Whose::Job { self.loose(key, hostname) } else { whose };
                    self.facts.insert((whose, key.to_owned()), info.value.clone());
                    continue;
                }
            };
            if let (Whose::Process(_), Whose::App(app)) = (of_array, whose) {
                self.facts.insert((of_array, "pmix.appnum".to_owned()), Value::Uint32(app));
            }
            self.walk(&inside, of_array, hostname);
        }
    }

    /// The subject of a value outside any array.
    fn loose(&self, key: &str, hostname: &str) -> Whose {
        match default_realm(key) {
            Realm::Session => self.session.map_or(Whose::Job, Whose::Session),
            Realm::App => Whose::App(self.apps().first().copied().unwrap_or(0)),
            Realm::Node => self.node_named(hostname).map_or(Whose::Job, Whose::Node),
            Realm::ByRank => Whose::Job,
        }
    }

    fn entry(&self, whose: Whose, key: &str) -> Option<Value> {
        let entry = |key: &str| self.facts.get(&(whose, key.to_owned())).cloned();
        match (whose, key) {
            (Whose::Session(_), "pmix.univ.size") => entry(key).or_else(|| entry("pmix.max.size")),
            (Whose::App(_), "pmix.appnum") => None,
            _ => entry(key),
        }
    }

    fn apps(&self) -> BTreeSet<u32> {
        let number = |(whose, _): &(Whose, String)| if let Whose::App(app) = whose { Some(*app) } else { None };
        self.facts.keys().filter_map(number).collect()
    }

    fn app_of(&self, rank: u32) -> Option<u32> {
        number(self.of_process(rank, Realm::ByRank, "pmix.appnum").as_ref())
    }

    /// The application of each rank of a job with several, as far as the host's values agree.
    fn app_numbers(&self) -> Option<Vec<u32>> {
        let of_app = |app: u32, key: &str| number(self.entry(Whose::App(app), key).as_ref());
        let leader = |app: u32| match self.entry(Whose::App(app), "pmix.aldr")? {
            Value::ProcRank(rank) => rank.process(),
            value => value.as_u32(),
        };
        let entry = |rank: u32| number(self.entry(Whose::Process(rank), "pmix.appnum").as_ref());
        let size = self.size().filter(|_| !self.has_one_app())?;
        let mut apps: Vec<u32> = self.apps().into_iter().collect();
        if apps.iter().all(|app| leader(*app).is_some()) {
            apps.sort_by_key(|app| leader(*app));
        }
        let declared = number(self.entry(Whose::Job, "pmix.job.napps").as_ref());
        let is_whole = declared.is_none_or(|declared| usize::try_from(declared) == Ok(apps.len()));
        let ranges = || {
            let sizes: Option<Vec<u32>> = apps.iter().map(|app| of_app(*app, "pmix.app.size")).collect();
            let adds_up = |sizes: &Vec<u32>| sizes.iter().map(|size| u64::from(*size)).sum::<u64>() == u64::from(size);
            let sizes = sizes.filter(|sizes| is_whole && adds_up(sizes))?;
            let dealt = apps.iter().zip(sizes).flat_map(|(app, size)| vec![*app; usize::try_from(size).unwrap()]);
            Some(dealt.collect::<Vec<u32>>())
        };
        let numbers = (0..size).map(entry).collect::<Option<Vec<u32>>>().or_else(ranges)?;
        let agrees = (0..size).zip(&numbers).all(|(rank, app)| entry(rank).is_none_or(|entry| entry == *app));
        let fits = |app: &u32| {
            let ranks: Vec<u32> = (0..size).zip(&numbers).filter(|(_, of)| *of == app).map(|(rank, _)| rank).collect();
            let size_fits = of_app(*app, "pmix.app.size").is_none_or(|size| usize::try_from(size) == Ok(ranks.len()));
            ranks.is_empty() || size_fits && leader(*app).is_none_or(|leader| leader == ranks[0])
        };
        (agrees && apps.iter().all(fits)).then_some(numbers)
    }

    fn has_one_app(&self) -> bool {
        let declared = number(self.entry(Whose::Job, "pmix.job.napps").as_ref()).unwrap_or(1);
        self.apps().len() < 2 && declared < 2
    }

    fn of_app(&self, app: u32, key: &str) -> Option<Value> {
        let first = || (0..).zip(self.app_numbers()?).find(|(_, of)| *of == app).map(|(rank, _)| Rank::from(rank));
        let leader = || first().filter(|_| key == "pmix.aldr").map(Value::from);
        self.entry(Whose::App(app), key).or_else(leader)
    }

    fn size(&self) -> Option<u32> {
        let entry = number(self.entry(Whose::Job, "pmix.job.size").as_ref());
        entry.or_else(|| u32::try_from(self.map.iter().map(Vec::len).sum::<usize>()).ok().filter(|size| *size > 0))
    }

    fn place(&self, rank: u32) -> Option<(usize, usize)> {
        let on = |ranks: &Vec<u32>| ranks.iter().position(|other| *other == rank);
        self.map.iter().enumerate().find_map(|(node, ranks)| Some((node, on(ranks)?)))
    }

    fn node_of(&self, rank: u32) -> Option<usize> {
        let entry = |key: &str| self.entry(Whose::Process(rank), key);
        let by_id = number(entry("pmix.nodeid").as_ref()).and_then(|id| self.node_numbered(id));
        let by_name = || self.node_named(&text(entry("pmix.hname").as_ref())?);
        by_id.or_else(|| self.place(rank).map(|(node, _)| node)).or_else(by_name)
    }

    fn of_job(&self, key: &str) -> Option<Value> {
        // The registered node map; else the nodes with processes, by number.
        let used = self.nodes.iter().zip(&self.map).filter(|(_, ranks)| !ranks.is_empty());
        let used: BTreeMap<_, _> = used.filter_map(|(node, _)| Some((node.id, node.names.first()?.as_str()))).collect();
        let used = || used.into_values().collect::<Vec<_>>().join(",");
        let list =
            (!self.map.is_empty()).then(|| text(self.entry(Whose::Job, "pmix.nmap").as_ref()).unwrap_or_else(used));
        self.entry(Whose::Job, key).or_else(|| match key {
            "pmix.job.size" | "pmix.max.size" => self.size().map(Value::Uint32),
            "pmix.num.nodes" => list.map(|list| Value::Uint32(u32::try_from(list.split(',').count()).unwrap())),
            "pmix.nlist" => list.map(Value::from),
            _ => None,
        })
    }

    fn of_node(&self, node: usize, key: &str) -> Option<Value> {
        let ranks = self.map.get(node);
        let joined = |ranks: &Vec<u32>| ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let entry = self.entry(Whose::Node(node), key);
        let of_session = || self.entry(Whose::SessionNode(self.session?, node), key);
        entry.or_else(of_session).or_else(|| match key {
            "pmix.hname" => self.nodes[node].names.first().map(|name| Value::from(name.as_str())),
            "pmix.nodeid" => self.nodes[node].id.or(ranks.and(u32::try_from(node).ok())).map(Value::Uint32),
            "pmix.local.size" => ranks.map(|ranks| Value::Uint32(u32::try_from(ranks.len()).unwrap())),
            "pmix.lldr" => ranks?.iter().min().map(|rank| Value::from(Rank::from(*rank))),
            "pmix.lpeers" => ranks.filter(|ranks| !ranks.is_empty()).map(joined).map(Value::from),
            _ => None,
        })
    }

    /// A process's own value, else a derived one, else its application's, node's or session's; never the job's.
    fn of_process(&self, rank: u32, realm: Realm, key: &str) -> Option<Value> {
        if self.size().is_some_and(|size| rank >= size) {
            return None;
        }
        let local = || self.place(rank).and_then(|(_, local)| u16::try_from(local).ok());
        let of_job = |key: &str| number(self.entry(Whose::Job, key).as_ref());
        let only_app = || self.has_one_app().then(|| self.apps().first().copied().unwrap_or(0));
        let numbers = self.app_numbers();
        let derived = || numbers.as_ref()?.get(usize::try_from(rank).ok()?).copied();
        let in_app = |app: u32| {
            let before = numbers.iter().flatten().zip(0..rank).filter(|(of, _)| **of == app).count();
            Value::from(Rank::from(u32::try_from(before).unwrap()))
        };
        self.entry(Whose::Process(rank), key).or_else(|| match key {
            "pmix.rank" => Some(Value::from(Rank::from(rank))),
            "pmix.lrank" | "pmix.nrank" => local().map(Value::Uint16),
            "pmix.appnum" => only_app().or_else(derived).map(Value::Uint32),
            "pmix.apprank" => only_app().map(|_| Value::from(Rank::from(rank))).or_else(|| derived().map(in_app)),
            "pmix.grank" => of_job("pmix.offset").map(|offset| Value::from(Rank::from(offset + rank))),
            _ => match realm {
                Realm::Session => self.entry(Whose::Session(self.session?), key),
                Realm::App => self.of_app(self.app_of(rank)?, key),
                Realm::Node => self.of_node(self.node_of(rank)?, key),
                Realm::ByRank => None,
            },
        })
    }
}
