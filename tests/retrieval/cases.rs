//! Random jobs in random shapes, and the questions about them. A number identifies a case.

mod questions;

use modex::types::{Info, Key, Rank, Scope, Value};

use self::questions::questions;
use crate::infos::Question;

/// A registration by the host.
#[derive(Clone, Debug)]
pub(crate) struct Register {
    pub(crate) namespace: &'static str,
    pub(crate) local_count: u32,
    pub(crate) infos: Vec<Info>,
}

/// A value that a process of `job` puts and commits.
#[derive(Clone, Debug)]
pub(crate) struct Put {
    pub(crate) rank: u32,
    pub(crate) scope: Scope,
    pub(crate) key: &'static str,
    pub(crate) value: Value,
}

#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) registrations: Vec<Register>,
    /// By rank 0, which asks the questions, and by one other process of its node, if there is one.
    pub(crate) puts: Vec<Put>,
    pub(crate) questions: Vec<Question>,
}

/// Numbers that look random and are the same in every run (SplitMix64).
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(bound.max(1)).unwrap()).unwrap()
    }

    pub(crate) fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        (1..items.len()).rev().for_each(|at| items.swap(at, self.below(at + 1)));
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    U16,
    U32,
    U64,
    Rank,
    /// A rank of the job.
    Member,
    /// Ranks of the job.
    Members,
    Text,
    Bool,
}
use Kind::{Bool, Member, Members, Rank as R, Text, U16, U32, U64};

const OF_SESSION: [(&str, Kind); 6] = [
    ("pmix.clid", Text),
    ("pmix.rm.name", Text),
    ("pmix.univ.size", U32),
    ("pmix.max.size", U32),
    ("pmix.num.nodes", U32),
    ("vendor.session", U32),
];
const OF_JOB: [(&str, Kind); 7] = [
    ("pmix.jobid", Text),
    ("pmix.mapby", Text),
    ("pmix.num.slots", U32),
    ("pmix.max.size", U32),
    ("pmix.offset", R),
    ("vendor.key", U32),
    (UNHEARD_OF, U64),
];
/// A reserved key that no release has.
pub(crate) const UNHEARD_OF: &str = "pmix.unheard.of";
const OF_APP: [(&str, Kind); 7] = [
    ("pmix.app.size", U32),
    ("pmix.aldr", Member),
    ("pmix.wdir", Text),
    ("pmix.app.argv", Text),
    ("pmix.max.size", U32),
    ("pmix.num.nodes", U32),
    ("vendor.app", U32),
];
const OF_NODE: [(&str, Kind); 8] = [
    ("pmix.pmem", U64),
    ("pmix.node.size", U32),
    ("pmix.ndosub", Bool),
    ("pmix.local.size", U32),
    ("pmix.lldr", Member),
    ("pmix.lpeers", Members),
    ("pmix.max.size", U32),
    ("vendor.node", U32),
];
const OF_PROCESS: [(&str, Kind); 9] = [
    ("pmix.lrank", U16),
    ("pmix.nrank", U16),
    ("pmix.grank", R),
    ("pmix.apprank", R),
    ("pmix.locstr", Text),
    ("pmix.reinc", U32),
    ("pmix.pdir", Text),
    ("pmix.spawned", Bool),
    ("vendor.process", U32),
];
/// Keys that processes put. The host may register one of them, too, and only one process puts the last.
const PUT: [(&str, Kind); 4] = [("put.number", U32), ("put.text", Text), ("vendor.process", U32), ("put.alone", U64)];
const SCOPES: [Scope; 4] = [Scope::Local, Scope::Remote, Scope::Global, Scope::Internal];
/// More keys for questions; `-`: everything.
const ASKED: [&str; 14] = [
    "-",
    "pmix.job.size",
    "pmix.nlist",
    "pmix.job.napps",
    "pmix.session.id",
    "pmix.hname",
    "pmix.nodeid",
    "pmix.appnum",
    "pmix.rank",
    "pmix.procid",
    "pmix.nspace",
    "pmix.cpuset",
    "pmix.nsdir",
    "pmix.unknown",
];

pub(crate) fn info(key: &'static str, value: impl Into<Value>) -> Info {
    Info::new(Key::from_static(key), value)
}

pub(crate) fn array(key: &'static str, entries: Vec<Info>) -> Info {
    info(key, Value::info_array(entries))
}

fn value(dice: &mut Dice, kind: Kind, job_size: u32) -> Value {
    let number = u32::try_from(dice.below(1000)).unwrap();
    match kind {
        Kind::U16 => Value::Uint16(u16::try_from(number).unwrap()),
        Kind::U32 => Value::Uint32(number),
        Kind::U64 => Value::Uint64(u64::from(number) << 33),
        Kind::Rank => Value::ProcRank(Rank::from(number)),
        Kind::Member => Value::ProcRank(Rank::from(number % job_size)),
        Kind::Members => {
            let ranks: Vec<String> = (number % job_size..job_size).map(|rank| rank.to_string()).collect();
            Value::from(ranks.join(","))
        }
        Kind::Text => Value::from(format!("text {number}%")),
        Kind::Bool => Value::Bool(number % 2 == 0),
    }
}

fn some(dice: &mut Dice, keys: &[(&'static str, Kind)], percent: usize, job_size: u32) -> Vec<Info> {
    let chosen: Vec<_> = keys.iter().filter(|_| dice.percent(percent)).collect();
    chosen.into_iter().map(|(key, kind)| info(key, value(dice, *kind, job_size))).collect()
}

/// A job before its description is made.
struct Job {
    session: u32,
    nodes: Vec<String>,
    ranks: Vec<Vec<u32>>,
    apps: Vec<u32>,
    /// By rank.
    app_of: Vec<u32>,
    has_maps: bool,
    has_ids: bool,
    density: usize,
}

impl Job {
    fn random(dice: &mut Dice, session: u32, first_node: usize) -> Self {
        let node_count = 1 + dice.below(4);
        let size = 1 + dice.below(8);
        let nodes = (0..node_count).map(|at| format!("n{}", at + first_node)).collect();
        let mut ranks = vec![Vec::new(); node_count];
        let shape = dice.below(3);
        for rank in 0..size {
            let node = match shape {
                0 => rank * node_count / size,
                1 => rank % node_count,
                _ if rank == 0 => 0,
                _ => dice.below(node_count),
            };
            ranks[node].push(u32::try_from(rank).unwrap());
        }
        let app_count = if dice.percent(50) { 1 } else { 1 + dice.below(3) };
        let first_app = u32::try_from(dice.below(2)).unwrap();
        let apps: Vec<u32> = (0..app_count).map(|app| first_app + u32::try_from(app).unwrap() * 2).collect();
        let app_of = (0..size).map(|rank| apps[rank * app_count / size]).collect();
        let (has_maps, has_ids) = (dice.percent(80), dice.percent(30));
        Self { session, nodes, ranks, apps, app_of, has_maps, has_ids, density: 20 + dice.below(70) }
    }

    fn size(&self) -> u32 {
        u32::try_from(self.app_of.len()).unwrap()
    }

    /// Whether only processes describe the nodes, each with its node's name and number.
    fn is_described_by_processes(&self) -> bool {
        !self.has_maps && self.density.is_multiple_of(2)
    }

    fn id(&self, node: usize) -> u32 {
        u32::try_from(node).unwrap() + if self.has_ids { 10 } else { 0 }
    }

    /// The puts of rank 0 and its neighbour: some keys several times, for different readers.
    fn puts(&self, dice: &mut Dice) -> Vec<Put> {
        let mut puts = Vec::new();
        for &rank in self.ranks[0].iter().take(2) {
            for (key, kind) in PUT.iter().filter(|(key, _)| *key != "put.alone" || rank != 0) {
                for _ in 0..dice.below(4) {
                    puts.push(Put { rank, scope: SCOPES[dice.below(4)], key, value: value(dice, *kind, self.size()) });
                }
            }
        }
        puts
    }

    fn node_of(&self, rank: u32) -> usize {
        self.ranks.iter().position(|ranks| ranks.contains(&rank)).unwrap()
    }

    fn maps(&self) -> Vec<Info> {
        let field = |ranks: &Vec<u32>| ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let fields: Vec<String> = self.ranks.iter().map(field).collect();
        vec![info("pmix.nmap", self.nodes.join(",")), info("pmix.pmap", fields.join(";"))]
    }

    fn node_array(&self, dice: &mut Dice, node: usize, has_id: bool, mut more: Vec<Info>) -> Info {
        let mut entries = vec![info("pmix.hname", self.nodes[node].as_str())];
        if has_id {
            entries.push(info("pmix.nodeid", self.id(node)));
        }
        entries.append(&mut more);
        dice.shuffle(&mut entries);
        array("pmix.node.arr", entries)
    }

    /// An array for each process, each as a bare list of entries.
    fn process_array(&self, dice: &mut Dice, rank: u32, names_app: bool) -> Info {
        let mut entries = some(dice, &OF_PROCESS, self.density, self.size());
        if names_app {
            entries.push(info("pmix.appnum", self.app_of[rank as usize]));
        }
        let node = self.node_of(rank);
        if !self.has_maps || dice.percent(30) {
            entries.push(info("pmix.hname", self.nodes[node].as_str()));
        }
        if dice.percent(30) || self.is_described_by_processes() {
            entries.push(info("pmix.nodeid", self.id(node)));
        }
        dice.shuffle(&mut entries);
        entries.insert(0, info("pmix.rank", Rank::from(rank)));
        array("pmix.pdata", entries)
    }

    /// The parts of a job's description, which may stand in any order, at the top or in a job array.
    fn pieces(&self, dice: &mut Dice) -> Vec<Info> {
        let mut pieces = Vec::new();
        for info in some(dice, &OF_JOB, self.density, self.size()) {
            pieces.push(info);
        }
        if self.apps.len() > 1 {
            pieces.push(info("pmix.job.napps", u32::try_from(self.apps.len()).unwrap()));
        }
        let in_apps = dice.percent(30);
        for &app in &self.apps {
            let mut entries = some(dice, &OF_APP, self.density, self.size());
            for node in 0..self.nodes.len() {
                if dice.percent(40) {
                    let more = some(dice, &OF_NODE[3..], self.density, self.size());
                    entries.push(self.node_array(dice, node, self.is_described_by_processes(), more));
                }
            }
            let of_app = (0..self.size()).filter(|rank| in_apps && self.app_of[*rank as usize] == app);
            let processes: Vec<Info> = of_app.map(|rank| self.process_array(dice, rank, false)).collect();
            entries.extend(processes);
            dice.shuffle(&mut entries);
            entries.insert(0, info("pmix.appnum", app));
            if self.apps.len() > 1 || dice.percent(70) || in_apps || self.apps[0] != 0 {
                pieces.push(array("pmix.app.arr", entries));
            } else {
                let is_loose = |info: &Info| OF_APP.iter().take(4).any(|(key, _)| info.key.as_str() == *key);
                pieces.extend(entries.into_iter().filter(is_loose));
            }
        }
        for node in (0..self.nodes.len()).filter(|_| !self.is_described_by_processes()) {
            if self.has_ids || !self.has_maps || dice.percent(50) {
                let mut more = some(dice, &OF_NODE, self.density, self.size());
                if dice.percent(40) {
                    more.push(info("pmix.alias", format!("alias{node},other-{node}")));
                }
                pieces.push(self.node_array(dice, node, self.has_ids || !self.has_maps, more));
            } else if node == 0 && self.nodes[0] == "n0" {
                pieces.extend(some(dice, &OF_NODE[..6], self.density / 2, self.size()));
            }
        }
        if !in_apps {
            let names_app = self.apps.len() > 1 || dice.percent(30);
            let all = names_app || !self.has_maps || dice.percent(50);
            for rank in (0..self.size()).filter(|_| all) {
                pieces.push(self.process_array(dice, rank, names_app));
            }
        }
        dice.shuffle(&mut pieces);
        pieces
    }

    fn session_array(&self, dice: &mut Dice, id: u32, mut inside: Vec<Info>) -> Info {
        let mut entries = some(dice, &OF_SESSION, self.density, self.size());
        for node in 0..self.nodes.len() {
            if dice.percent(25) {
                let more = some(dice, &OF_NODE, self.density / 2, self.size());
                entries.push(self.node_array(dice, node, self.is_described_by_processes(), more));
            }
        }
        entries.append(&mut inside);
        dice.shuffle(&mut entries);
        entries.insert(0, info("pmix.session.id", id));
        array("pmix.ssn.arr", entries)
    }

    /// One or two descriptions: the second one adds the parts that the first left out, and repeats some of it.
    fn descriptions(&self, dice: &mut Dice) -> Vec<Vec<Info>> {
        let mut basics = vec![info("pmix.job.size", self.size())];
        if self.has_maps {
            basics = self.maps();
            if dice.percent(50) {
                basics.push(info("pmix.job.size", self.size()));
            }
        }
        let mut pieces = self.pieces(dice);
        let mut later = Vec::new();
        if dice.percent(40) {
            later = pieces.split_off(dice.below(pieces.len() + 1));
            later.extend(some(dice, &OF_JOB, 30, self.size()));
        }
        pieces.append(&mut basics);
        dice.shuffle(&mut pieces);
        // If applications come in two parts, loose values are ambiguous, so all applications come first.
        let (mut first, rest): (Vec<Info>, Vec<Info>) =
            later.into_iter().partition(|info| info.key.as_str() == "pmix.app.arr");
        pieces.append(&mut first);
        let mut descriptions = vec![self.wrapped(dice, pieces, true)];
        if !rest.is_empty() {
            let again = self.wrapped(dice, rest, false);
            descriptions.push(again);
        }
        descriptions
    }

    /// Flat, in a job array, partly in one, or in the array of the session.
    fn wrapped(&self, dice: &mut Dice, pieces: Vec<Info>, with_session: bool) -> Vec<Info> {
        let shape = dice.below(4);
        let (inside, mut outside): (Vec<Info>, Vec<Info>) = match shape {
            0 => (Vec::new(), pieces),
            1 => pieces.into_iter().partition(|_| dice.percent(50)),
            _ => (pieces, Vec::new()),
        };
        let deeper = |dice: &mut Dice, inside: Vec<Info>| {
            // A job array in a job array also belongs to the job.
            let (mut one, two): (Vec<Info>, Vec<Info>) = inside.into_iter().partition(|_| dice.percent(70));
            if !two.is_empty() {
                one.push(array("pmix.job.arr", two));
            }
            array("pmix.job.arr", one)
        };
        match shape {
            3 if with_session => {
                let job = deeper(dice, inside);
                outside.push(self.session_array(dice, self.session, vec![job]));
            }
            _ => {
                if shape > 0 {
                    outside.push(deeper(dice, inside));
                }
                if with_session && dice.percent(60) {
                    outside.insert(0, self.session_array(dice, self.session, Vec::new()));
                }
            }
        }
        if with_session && dice.percent(30) {
            outside.push(self.session_array(dice, self.session + 1, Vec::new()));
        }
        outside
    }
}

impl Case {
    /// The case of this number.
    pub(crate) fn random(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let job = Job::random(&mut dice, 7, 0);
        let other = {
            let session = 7 + u32::try_from(dice.below(2)).unwrap() * 13;
            Job::random(&mut dice, session, 1)
        };
        let mut registrations = Vec::new();
        let local_count = u32::try_from(job.ranks[0].len()).unwrap();
        for (namespace, local_count, job) in [("job", local_count, &job), ("other", 0, &other)] {
            for infos in job.descriptions(&mut dice) {
                registrations.push(Register { namespace, local_count, infos });
            }
        }
        let puts = job.puts(&mut dice);
        let questions = questions(&job, &other);
        Self { registrations, puts, questions }
    }
}

impl Case {
    /// A job in a form that every release understands: one call, containers side by side, all places by maps. No Get
    /// waits.
    pub(crate) fn plain(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let mut jobs = [Job::random(&mut dice, 7, 0), Job::random(&mut dice, 8, 1)];
        let mut registrations = Vec::new();
        for (namespace, job) in ["job", "other"].into_iter().zip(&mut jobs) {
            (job.has_maps, job.has_ids) = (true, false);
            let mut infos = job.maps();
            infos.push(info("pmix.job.size", job.size()));
            infos.push(info("pmix.job.napps", u32::try_from(job.apps.len()).unwrap()));
            // 4.2.2 refuses a whole description with an unknown reserved key.
            let known = |info: &Info| info.key.as_str() != UNHEARD_OF;
            infos.extend(some(&mut dice, &OF_JOB, job.density, job.size()).into_iter().filter(known));
            let session =
                [vec![info("pmix.session.id", job.session)], some(&mut dice, &OF_SESSION, job.density, job.size())]
                    .concat();
            infos.push(array("pmix.ssn.arr", session));
            for &app in &job.apps {
                let values =
                    [vec![info("pmix.appnum", app)], some(&mut dice, &OF_APP, job.density, job.size())].concat();
                infos.push(array("pmix.app.arr", values));
            }
            for (node, name) in job.nodes.iter().enumerate() {
                let id = u32::try_from(node).unwrap();
                let names = vec![info("pmix.hname", name.as_str()), info("pmix.nodeid", id)];
                infos
                    .push(array("pmix.node.arr", [names, some(&mut dice, &OF_NODE, job.density, job.size())].concat()));
            }
            infos.extend((0..job.size()).map(|rank| job.process_array(&mut dice, rank, true)));
            let local_count = u32::try_from(job.ranks[0].len()).unwrap();
            let local_count = if namespace == "job" { local_count } else { 0 };
            registrations.push(Register { namespace, local_count, infos });
        }
        let mut questions = questions(&jobs[0], &jobs[1]);
        let is_asked = |question: &Question| {
            question.proc.as_ref().is_some_and(|(name, rank)| name == "job" && *rank != Rank::Undefined)
        };
        questions.retain(is_asked);
        for question in &mut questions {
            question.qualifiers.retain(|info| info.key.as_str() != "pmix.immediate");
            question.qualifiers.push(info("pmix.immediate", true));
        }
        Self { registrations, puts: jobs[0].puts(&mut dice), questions }
    }
}

/// A case as text, for the message of a failed test.
pub(crate) fn description(case: &Case) -> String {
    let lines = case.registrations.iter().map(|register| {
        let infos: Vec<String> = register.infos.iter().map(crate::words::info).collect();
        format!("{} ({} here):\n  {}", register.namespace, register.local_count, infos.join("\n  "))
    });
    let put = |put: &Put| format!("{} puts {:?} {}={}", put.rank, put.scope, put.key, crate::words::value(&put.value));
    lines.chain(case.puts.iter().map(put)).collect::<Vec<_>>().join("\n")
}
