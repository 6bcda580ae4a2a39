//! The store against a plain model: maps of values, searched in the order of the contract.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::gds::job_record::AppRecord;
use crate::gds::{Committed, Datastore, NodeSelector, Origin, StoreError};
use crate::keys::{DefaultRealm, default_realm};
use crate::regex::DealtRanks;
use crate::types::{DataType, Info, LentEntry, LentKey, LentText, LentValue, ProcId, Timeval};

mod drawn;

use drawn::any_operation;

const KEYS: [&str; 12] = [
    "pmix.hname",
    "pmix.nodeid",
    "pmix.lrank",
    "pmix.appnum",
    "pmix.lpeers",
    "pmix.univ.size",
    "pmix.app.size",
    "pmix.job.size",
    "pmix.unknown",
    "user.a",
    "user.b",
    "x",
];
const RANKS_MAX: u32 = 9;

#[derive(Clone, Debug)]
enum Operation {
    Register(JobRecord),
    Commit {
        rank: u32,
        origin: Origin,
        values: BTreeMap<&'static str, (Scope, Value)>,
    },
    /// Blocks of several remote ranks at once.
    Arrive(Vec<(u32, BTreeMap<&'static str, Value>)>),
    Deregister,
}

/// The newest value of one key in one scope.
#[derive(Clone, Debug)]
struct Slot {
    value: Value,
    origin: Origin,
    sequence: u64,
}

/// An expanded namespace.
#[derive(Debug, Default)]
struct Model {
    record: JobRecord,
    nodes: BTreeMap<(u32, String), Value>,
    procs: BTreeMap<(u32, String), Value>,
    /// By rank and key: the values visible in scope local, and in scope remote.
    posted: BTreeMap<(u32, &'static str), [Option<Slot>; 2]>,
    sequence: u64,
}

type Answer = Result<Value, ReadError>;

impl Model {
    fn register(&mut self, record: &JobRecord) {
        self.nodes = expand(&record.node_columns, record.node_count, &|_, _| None);
        let nodes = self.nodes.clone();
        let own = expand(&record.proc_columns, record.rank_count, &|_, _| None);
        self.record = record.clone();
        self.procs = own.clone();
        let of_node = |rank: u32, key: &str| {
            let node = self.node_of(rank)?;
            nodes.get(&(node, key.to_owned())).cloned()
        };
        let procs = expand(&record.proc_columns, record.rank_count, &of_node);
        self.procs = procs;
    }

    fn commit(&mut self, rank: u32, origin: Origin, values: &BTreeMap<&'static str, (Scope, Value)>) -> Committed {
        let mut committed = Committed::default();
        for (key, (scope, value)) in values {
            let scopes = [scope.is_visible_locally(), scope.is_visible_remotely()];
            let home = usize::from(origin == Origin::Remote);
            let sees = |audience| match self.posted_value(rank, key, audience) {
                Ok(known) => known == *value,
                // There is nothing to remove.
                Err(_) => *value == Value::Undefined,
            };
            let unchanged = (!scopes[0] || sees(Some(Audience::SameNode)))
                && (!scopes[1] || sees(Some(Audience::OtherNodes)))
                && (!scopes[home] || sees(None));
            if unchanged {
                continue;
            }
            committed.is_changed = true;
            committed.keys_for_others.extend(scopes[1].then(|| Key::from_static(key)));
            self.sequence += 1;
            let slots = self.posted.entry((rank, key)).or_default();
            for (slot, covered) in slots.iter_mut().zip(scopes) {
                if covered {
                    *slot = Some(Slot { value: value.clone(), origin, sequence: self.sequence });
                }
            }
        }
        committed
    }

    /// The newest value; a removed one is not found.
    fn posted_value(&self, rank: u32, key: &str, audience: Option<Audience>) -> Answer {
        let newest = self.newest_posted(rank, key, audience);
        newest.and_then(|value| if value == Value::Undefined { Err(ReadError::NotFound) } else { Ok(value) })
    }

    fn newest_posted(&self, rank: u32, key: &str, audience: Option<Audience>) -> Answer {
        let static_key = KEYS.iter().find(|known| **known == key).unwrap();
        let slots = self.posted.get(&(rank, static_key)).ok_or(ReadError::NotFound)?;
        let visible = slots.iter().enumerate().filter_map(|(scope, slot)| {
            let slot = slot.as_ref()?;
            let sees = match audience {
                Some(Audience::SameNode) => scope == 0,
                Some(Audience::OtherNodes) => scope == 1,
                Some(Audience::Nobody) => false,
                None => scope == usize::from(slot.origin == Origin::Remote),
            };
            sees.then_some(slot)
        });
        visible.max_by_key(|slot| slot.sequence).map(|slot| slot.value.clone()).ok_or(ReadError::OutsideScope)
    }

    fn get(&self, rank: Rank, key: &str, realm: RealmRequest<'_>, audience: Option<Audience>) -> Answer {
        match realm {
            RealmRequest::Session(_)
            | RealmRequest::Job
            | RealmRequest::App(_)
            | RealmRequest::Node(_)
            | RealmRequest::AppNode(..)
            | RealmRequest::SessionNode(..) => self.realm_value(rank, key, realm).ok_or(ReadError::NotFound),
            RealmRequest::Default => match rank {
                Rank::Process(process) => {
                    let own = self.own_value(process, key, audience);
                    let is_outside_job = self.record.rank_count != 0 && process >= self.record.rank_count;
                    if own.is_ok() || default_realm(key) == DefaultRealm::ByRank || is_outside_job {
                        return own;
                    }
                    self.default_realm_value(rank, key).or(own)
                }
                Rank::Wildcard | Rank::Undefined => {
                    let job = || self.realm_value(rank, key, RealmRequest::Job).ok_or(ReadError::NotFound);
                    let found = self.default_realm_value(rank, key).or_else(|_| job());
                    if found.is_ok() || rank == Rank::Wildcard {
                        return found;
                    }
                    let mut answers = (0..RANKS_MAX).map(|process| self.posted_value(process, key, audience));
                    let hidden = answers.clone().any(|answer| answer == Err(ReadError::OutsideScope));
                    answers.find(Result::is_ok).unwrap_or(Err(if hidden {
                        ReadError::OutsideScope
                    } else {
                        ReadError::NotFound
                    }))
                }
                _ => Err(ReadError::NotFound),
            },
        }
    }

    fn own_value(&self, rank: u32, key: &str, audience: Option<Audience>) -> Answer {
        let described = self.procs.get(&(rank, key.to_owned())).cloned().ok_or(ReadError::NotFound);
        let posted = self.posted_value(rank, key, audience);
        let (first, second) = if key.starts_with("pmix") { (described, posted) } else { (posted, described) };
        if first == Err(ReadError::NotFound) || second.is_ok() && first.is_err() { second } else { first }
    }

    fn default_realm_value(&self, rank: Rank, key: &str) -> Answer {
        let realm = match default_realm(key) {
            DefaultRealm::Session => RealmRequest::Session(None),
            DefaultRealm::Application => RealmRequest::App(None),
            DefaultRealm::Node => RealmRequest::Node(NodeSelector::Implied),
            DefaultRealm::ByRank => RealmRequest::Job,
        };
        self.realm_value(rank, key, realm).ok_or(ReadError::NotFound)
    }

    fn realm_value(&self, rank: Rank, key: &str, realm: RealmRequest<'_>) -> Option<Value> {
        let newest = |values: &[(Key, Value)]| values.iter().rfind(|(k, _)| k.as_str() == key).map(|(_, v)| v.clone());
        match realm {
            RealmRequest::Session(Some(id)) if self.record.session_id != Some(id) => None,
            // The records of this test have none.
            RealmRequest::AppNode(..) | RealmRequest::SessionNode(..) => None,
            RealmRequest::Session(_) => newest(&self.record.session),
            RealmRequest::Job | RealmRequest::Default => newest(&self.record.job),
            // An unknown process has no application and no node.
            RealmRequest::App(None) | RealmRequest::Node(NodeSelector::Implied) if self.is_nobody(rank) => None,
            RealmRequest::App(number) => {
                let own = match (number, rank) {
                    (None, Rank::Process(process)) => self.proc_number(process, "pmix.appnum"),
                    _ => number,
                };
                let app = match (own, rank, self.record.apps.as_slice()) {
                    (Some(number), _, apps) => apps.iter().find(|app| app.number == number)?,
                    (None, _, [only]) => only,
                    (None, Rank::Process(_), _) => return None,
                    (None, _, apps) => apps.first()?,
                };
                newest(&app.entries)
            }
            RealmRequest::Node(selector) => {
                let node = match (selector, rank) {
                    (NodeSelector::Id(id), _) => self.node_by_id(id)?,
                    (NodeSelector::Name(name), _) => (0..self.record.node_count)
                        .find(|node| self.nodes.get(&(*node, "pmix.hname".to_owned())) == Some(&Value::from(name)))?,
                    (NodeSelector::Implied, Rank::Process(process)) => {
                        let is_guess = ["pmix.hname", "pmix.nodeid"].contains(&key) && self.record.node_count != 1;
                        self.node_of(process).or(self.record.own_node.filter(|_| !is_guess))?
                    }
                    (NodeSelector::Implied, _) => self.record.own_node?,
                };
                self.nodes.get(&(node, key.to_owned())).cloned()
            }
        }
    }

    fn is_nobody(&self, rank: Rank) -> bool {
        self.record.rank_count != 0 && rank.process().is_some_and(|process| process >= self.record.rank_count)
    }

    fn job_size(&self) -> Option<u32> {
        // The job has all processes of its record; values of ranks beyond were refused.
        let told = self.record.job_value("pmix.job.size").and_then(Value::as_u32);
        told.map(|told| told.max(self.record.rank_count))
    }

    fn proc_number(&self, rank: u32, key: &str) -> Option<u32> {
        self.procs.get(&(rank, key.to_owned())).and_then(Value::as_u32)
    }

    fn node_of(&self, rank: u32) -> Option<u32> {
        self.node_by_id(self.proc_number(rank, "pmix.nodeid")?)
    }

    fn node_by_id(&self, id: u32) -> Option<u32> {
        let ids = "pmix.nodeid".to_owned();
        if !self.record.node_columns.iter().any(|column| column.key.as_str() == ids) {
            return (id < self.record.node_count).then_some(id);
        }
        let given = |node: &u32| self.nodes.get(&(*node, ids.clone())).and_then(Value::as_u32);
        (0..self.record.node_count).find(|node| given(node) == Some(id))
    }
}

fn expand(
    columns: &[Column],
    count: u32,
    of_node: &dyn Fn(u32, &str) -> Option<Value>,
) -> BTreeMap<(u32, String), Value> {
    let mut expanded = BTreeMap::new();
    for column in columns {
        for index in 0..count {
            let value = match &column.values {
                ColumnValues::Constant(value) => Some(value.clone()),
                ColumnValues::Numbers { values, .. } => Some(Value::Uint32(values[index as usize].try_into().unwrap())),
                ColumnValues::Counting { first, .. } => Some(Value::Uint32(u32::try_from(*first).unwrap() + index)),
                ColumnValues::Values(values) => values[index as usize].clone(),
                ColumnValues::Sparse(values) => values.iter().find(|(at, _)| *at == index).map(|(_, v)| v.clone()),
                ColumnValues::Texts(texts) => texts.get(index as usize).map(Value::from),
                ColumnValues::RankLists(dealt) => dealt.text_of(index).map(Value::from),
                ColumnValues::Endpoints(endpoints) => endpoints.of(index),
                ColumnValues::OfNode => of_node(index, column.key.as_str()),
            };
            if let Some(value) = value {
                expanded.insert((index, column.key.as_str().to_owned()), value);
            }
        }
    }
    expanded
}

/// Compares every answer; one reader attached when the namespace was made, the other just now.
fn compare(model: &Model, early: &NamespaceReader, store: &Store) -> Result<(), TestCaseError> {
    let late = store.reader(&namespace()).unwrap();
    let ranks = (0..=RANKS_MAX).map(Rank::Process).chain([Rank::Wildcard, Rank::Undefined, Rank::LocalPeers]);
    let realms = [
        RealmRequest::Default,
        RealmRequest::Session(None),
        RealmRequest::Session(Some(1)),
        RealmRequest::Job,
        RealmRequest::App(None),
        RealmRequest::App(Some(1)),
        RealmRequest::Node(NodeSelector::Implied),
        RealmRequest::Node(NodeSelector::Id(1)),
        RealmRequest::Node(NodeSelector::Name("n1")),
    ];
    for rank in ranks {
        for name in KEYS {
            for realm in realms {
                for audience in [None, Some(Audience::SameNode), Some(Audience::OtherNodes)] {
                    let expected = model.get(rank, name, realm, audience);
                    // The fast path gives the same answer to a repeated lookup, if it gives one.
                    let long = search(early, rank, name, realm, audience);
                    let answer = read(early, rank, name, realm, audience);
                    prop_assert_eq!(&answer, &long, "{} of {}: the short way goes wrong", name, rank);
                    prop_assert_eq!(&answer, &expected, "{} of {} in {:?} for {:?}", name, rank, realm, audience);
                    prop_assert_eq!(&read(late, rank, name, realm, audience), &answer);
                }
            }
        }
    }
    for rank in 0..RANKS_MAX {
        for audience in [Audience::SameNode, Audience::OtherNodes] {
            let posted = store.posted(&namespace(), rank, audience).unwrap();
            let names: BTreeSet<_> = posted.iter().map(|kval| kval.key.as_str().to_owned()).collect();
            prop_assert_eq!(names.len(), posted.len(), "each key once");
            for name in KEYS {
                // Other nodes learn of removals.
                let expected = match audience {
                    Audience::OtherNodes => model.newest_posted(rank, name, Some(audience)).ok(),
                    _ => model.posted_value(rank, name, Some(audience)).ok(),
                };
                let found = posted.iter().find(|kval| kval.key.as_str() == name).map(|kval| kval.value.clone());
                prop_assert_eq!(found, expected);
            }
        }
    }
    Ok(())
}

/// Values of a remote process; strings and byte objects are borrowed.
fn arrive(
    store: &mut Store,
    model: Option<&mut Model>,
    rank: u32,
    values: &BTreeMap<&'static str, Value>,
) -> Result<(), TestCaseError> {
    fn lent(value: &Value) -> LentValue<'_> {
        match value {
            Value::String(text) => LentValue::String(LentText::new(text.as_bytes()).unwrap()),
            Value::ByteObject(bytes) => LentValue::ByteObject(bytes),
            value => LentValue::Value(Cow::Borrowed(value)),
        }
    }
    let entry = |(name, value): (&&'static str, _)| LentEntry {
        key: LentKey::new(name.as_bytes()).unwrap(),
        value: lent(value),
    };
    let entries: Vec<LentEntry<'_>> = values.iter().map(entry).collect();
    let result = store.take_arrival(&namespace(), rank, &entries);
    match model {
        Some(model) if model.job_size().is_some_and(|job_size| rank >= job_size) => {
            prop_assert!(matches!(result, Err(StoreError::RankOutsideJob { .. })), "rank {rank}");
        }
        Some(model) => {
            let values = values.iter().map(|(name, value)| (*name, (Scope::Remote, value.clone()))).collect();
            model.commit(rank, Origin::Remote, &values);
            prop_assert!(result.is_ok(), "{result:?}");
        }
        None => prop_assert!(result.is_err()),
    }
    Ok(())
}

fn run(backing: BackingKind, operations: Vec<Operation>) -> Result<(), TestCaseError> {
    let mut store = store(backing);
    let mut state: Option<(Model, NamespaceReader)> = None;
    for operation in operations {
        match operation {
            Operation::Register(record) => {
                store.register_record(&namespace(), &record).unwrap();
                let handle = store.handle(&namespace()).unwrap();
                let (model, _) =
                    state.get_or_insert_with(|| (Model::default(), NamespaceReader::attach(handle).unwrap()));
                model.register(&record);
            }
            Operation::Commit { rank, origin, values } => {
                let posted: Vec<Posted> =
                    values.iter().map(|(name, (scope, value))| posted(*scope, name, value.clone())).collect();
                let result = store.commit(&namespace(), rank, origin, &posted);
                match &mut state {
                    Some((model, _)) if model.job_size().is_some_and(|job_size| rank >= job_size) => {
                        let is_refused = matches!(result, Err(StoreError::RankOutsideJob { .. }));
                        prop_assert!(is_refused, "rank {rank}");
                    }
                    Some((model, _)) => {
                        prop_assert_eq!(result.unwrap(), model.commit(rank, origin, &values))
                    }
                    None => prop_assert!(result.is_err()),
                }
            }
            Operation::Arrive(blocks) => {
                for (rank, values) in &blocks {
                    arrive(&mut store, state.as_mut().map(|(model, _)| model), *rank, values)?;
                }
                prop_assert_eq!(store.publish_arrivals(&namespace()).is_ok(), state.is_some());
            }
            Operation::Deregister => {
                prop_assert_eq!(store.deregister(&namespace()), state.take().is_some());
            }
        }
    }
    match &state {
        Some((model, early)) => compare(model, early, &store),
        None => {
            prop_assert!(!store.is_registered(&namespace()));
            Ok(())
        }
    }
}

proptest! {
    #![proptest_config(crate::cases::cases(150))]
    #[test]
    fn every_answer_from_heap_memory_is_the_models(operations in prop::collection::vec(any_operation(), 1..40)) {
        run(BackingKind::Heap, operations)?;
    }

    #[test]
    fn every_answer_from_a_memfd_is_the_models(operations in prop::collection::vec(any_operation(), 1..15)) {
        run(BackingKind::Memfd, operations)?;
    }
}
