//! A scheduler that the host asks for allocations, and the checker's own account of them.

use std::collections::{BTreeMap, BTreeSet};

use modex::fabrics::{Provider, SlurmTopology};
use modex::keys;
use modex::server::Requester;
use modex::types::codes::alloc_directive::{ALLOC_EXTEND, ALLOC_NEW, ALLOC_RELEASE};
use modex::types::{Info, Key, ProcId, Status, Value};

use super::faults::Canary;
use super::random::{Random, RandomStream};
use super::scheduler::Scheduler;
use super::setup::Setup;

/// The scheduler of a cluster, which is not that of the jobs.
#[derive(Debug)]
pub(super) struct Allocations {
    scheduler: Scheduler,
    pub(super) account: Account,
    random: Random,
    /// Ids that processes have heard of.
    known: BTreeSet<String>,
}

/// The account of all allocations. It knows nothing of the scheduler's inside.
#[derive(Debug)]
pub(super) struct Account {
    returns_at_end: bool,
    free: BTreeSet<String>,
    held: BTreeMap<String, Held>,
    /// Answers of the host that did not reach their requesters yet.
    answers: BTreeMap<ProcId, Vec<Vec<Info>>>,
}

#[derive(Debug)]
struct Held {
    requester: ProcId,
    nodes: BTreeSet<String>,
}

/// A request and its answer, as the checker reads them.
struct Asked<'a> {
    requester: &'a ProcId,
    directive: u8,
    id: &'a str,
    count: usize,
}

impl Allocations {
    /// One in eight small worlds has a scheduler.
    pub(super) fn of(seed: u64, setup: &Setup) -> Option<Self> {
        let mut random = Random::of(seed, RandomStream::Allocations);
        let is_wanted = random.one_in(8) || setup.canary == Some(Canary::NodeTwice);
        let (first, second, returns_at_end) = (random.between(1, 6), random.between(1, 6), random.one_in(2));
        let names = |first: u64, count: u64| (first..first + count).map(|node| format!("c{node}")).collect::<Vec<_>>();
        let (near, far) = (names(0, first), names(first, second));
        let text = format!(
            "SwitchName=s0 Nodes={}\nSwitchName=s1 Nodes={}\nSwitchName=s2 Switches=s[0-1]\n",
            near.join(","),
            far.join(",")
        );
        let fabric = SlurmTopology::default().read(&text).ok().filter(|_| is_wanted && !setup.is_large())?;
        let (held, answers) = (BTreeMap::new(), BTreeMap::new());
        let account = Account { returns_at_end, free: near.into_iter().chain(far).collect(), held, answers };
        Some(Self { scheduler: Scheduler::new(fabric, returns_at_end), account, random, known: BTreeSet::new() })
    }

    /// The next request of a process, if it has one.
    pub(super) fn next(&mut self) -> Option<(u8, Vec<Info>)> {
        let kind = self.random.below(6);
        let count = Info::new(Key::from_static(keys::ALLOC_NUM_NODES.name()), self.random.between(1, 4));
        let known: Vec<&String> = self.known.iter().collect();
        let id = self.random.pick(&known).map(|id| Info::new(Key::from_static(keys::ALLOC_ID.name()), id.as_str()));
        match (kind, id) {
            (0..2, _) => Some((ALLOC_NEW, vec![count])),
            (2, Some(id)) => Some((ALLOC_EXTEND, vec![id, count])),
            (3, Some(id)) => Some((ALLOC_RELEASE, vec![id])),
            _ => None,
        }
    }

    /// The scheduler's answer, and the rule's breach in it.
    pub(super) fn answer(
        &mut self,
        requester: &Requester,
        directive: u8,
        infos: &[Info],
        is_defective: bool,
    ) -> (Result<Vec<Info>, Status>, Option<String>) {
        if is_defective && let Some(id) = self.account.held.keys().next() {
            // The scheduler believes that an allocation has been returned.
            let id = Info::new(Key::from_static(keys::ALLOC_ID.name()), id.as_str());
            let _ = self.scheduler.allocate(requester, ALLOC_RELEASE, &[id]);
        }
        let answer = self.scheduler.allocate(requester, directive, infos);
        let (id, count) = (text(infos, keys::ALLOC_ID.name()), infos.iter().find_map(count_in));
        let asked = Asked { requester: &requester.proc, directive, id, count: count.unwrap_or(0) };
        let wrong = self.account.check(&asked, &answer);
        (answer, wrong)
    }

    /// A process has heard an answer. Returns the breach of a rule.
    pub(super) fn heard(&mut self, proc: &ProcId, infos: &[Info]) -> Option<String> {
        let answers = self.account.answers.entry(proc.clone()).or_default();
        let Some(place) = answers.iter().position(|answer| answer == infos) else {
            return Some(format!("{proc} hears {infos:?}, which the scheduler did not answer, or not twice"));
        };
        answers.remove(place);
        let id = text(infos, keys::ALLOC_ID.name());
        self.known.extend((!id.is_empty()).then(|| id.to_owned()));
        None
    }

    /// A process has ended for its server, or its server has.
    pub(super) fn note_end(&mut self, proc: &ProcId) {
        self.scheduler.note_end(proc);
        self.account.note_end(proc);
    }
}

impl Account {
    fn check(&mut self, asked: &Asked<'_>, answer: &Result<Vec<Info>, Status>) -> Option<String> {
        let &Asked { requester, directive, id, count } = asked;
        let is_known = directive == ALLOC_NEW || self.held.contains_key(id);
        let wrong = |what: &str| {
            Some(format!("{what}: {directive} of {requester} for {id:?} and {count} nodes gives {answer:?}"))
        };
        let infos = match answer {
            Ok(infos) if is_known => infos,
            Ok(_) => return wrong("the allocation does not exist"),
            Err(Status::ERR_NOT_FOUND) if !is_known => return None,
            Err(Status::ERR_OUT_OF_RESOURCE) if directive != ALLOC_RELEASE && count > self.free.len() => return None,
            Err(_) => return wrong(&format!("there are {} free nodes", self.free.len())),
        };
        self.answers.entry(requester.clone()).or_default().push(infos.clone());
        if directive == ALLOC_RELEASE {
            let released = self.held.remove(id);
            self.free.extend(released.into_iter().flat_map(|held| held.nodes));
            return None;
        }
        let (id, list) = (text(infos, keys::ALLOC_ID.name()), text(infos, keys::ALLOC_NODE_LIST.name()));
        let nodes: BTreeSet<String> = list.split(',').map(str::to_owned).collect();
        if directive == ALLOC_NEW && self.held.contains_key(id) {
            return wrong("the id is in use");
        }
        let held = self
            .held
            .entry(id.to_owned())
            .or_insert_with(|| Held { requester: requester.clone(), nodes: BTreeSet::new() });
        let added: BTreeSet<String> = nodes.difference(&held.nodes).cloned().collect();
        if !added.is_subset(&self.free) || !held.nodes.is_subset(&nodes) || added.len() != count {
            return wrong(&format!("the free nodes are {:?}", self.free));
        }
        self.free.retain(|node| !added.contains(node));
        held.nodes = nodes;
        None
    }

    fn note_end(&mut self, proc: &ProcId) {
        let is_returned = |held: &Held| self.returns_at_end && held.requester == *proc;
        let ended: Vec<String> =
            self.held.iter().filter(|(_, held)| is_returned(held)).map(|(id, _)| id.clone()).collect();
        for held in ended.iter().filter_map(|id| self.held.remove(id)) {
            self.free.extend(held.nodes);
        }
    }

    /// Allocations that their requesters' ends should have returned.
    pub(super) fn remaining(&self) -> usize {
        if self.returns_at_end { self.held.len() } else { 0 }
    }
}

fn text<'a>(infos: &'a [Info], key: &str) -> &'a str {
    infos.iter().find(|info| info.key.as_str() == key).and_then(|info| info.value.as_str()).unwrap_or_default()
}

fn count_in(info: &Info) -> Option<usize> {
    let Value::Uint64(count) = info.value else { return None };
    usize::try_from(count).ok().filter(|_| info.key.as_str() == keys::ALLOC_NUM_NODES.name())
}
