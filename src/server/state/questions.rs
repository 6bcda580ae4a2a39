//! The queries of one request, and the progress of their answers.

use std::collections::{BTreeMap, BTreeSet};

use super::hardware::Topology;
use super::outputs::Ticket;
use super::query_scope::QueryScope;
use crate::server::interface::{
    CURRENT_INVENTORY, Garbage, ProcessRow, QueryAnswer, QueryAnswers, QueryTable, Requester,
};
use crate::types::{Info, Key, Query, Status, Text, Value};
use crate::{keys, storage, usage};

/// The queries of one request, and the host's answers.
#[derive(Debug)]
pub(crate) struct Questions {
    pub(crate) requester: Requester,
    pub(crate) queries: Vec<Query>,
    /// The host's answers. The server answers the missing ones.
    pub(crate) host_answers: Vec<Info>,
    /// The host's status, for queries that neither it nor this server answers.
    pub(crate) verdict: Option<Status>,
    /// Some queries were withheld from the host.
    pub(crate) is_withheld: bool,
    /// The reason for missing values of the runtime.
    pub(crate) runtime_refusal: Option<Status>,
}

impl Questions {
    pub(crate) const fn new(requester: Requester, queries: Vec<Query>) -> Self {
        Self { requester, queries, host_answers: Vec::new(), verdict: None, is_withheld: false, runtime_refusal: None }
    }
}

/// The part of valid queries that the runtime answers: about the use of resources, about the machine as it is now, and
/// about storage if it has some.
/// Keys that the host has answered are left out, as [`QueryProgress`] counts them.
pub(crate) fn for_runtime(
    requester: &Requester,
    queries: &[Query],
    host_answers: &[Info],
    has_storage: bool,
) -> Vec<Query> {
    let is_known = |key: &Key| {
        let key = key.as_str();
        usage::is_query_key(key) || key == CURRENT_INVENTORY || (has_storage && storage::is_key(key))
    };
    let (mut counts, mut asked) = (counts(host_answers), BTreeSet::new());
    let part = |(index, query): (usize, &Query)| {
        // Most queries have no such key.
        let is_known_name = |name: &Text| Key::from_bytes(name.as_bytes()).is_ok_and(|key| is_known(&key));
        if !query.keys.iter().any(is_known_name) {
            return None;
        }
        let scope = QueryScope::of(query, requester, index, has_storage).ok()?;
        let mut keys = query.keys.clone();
        keys.retain(|name| {
            let key = Key::from_bytes(name.as_bytes()).ok().filter(is_known);
            let Some(key) = key.filter(|_| asked.insert((scope.clone(), name.clone()))) else { return false };
            let answers = counts.get_mut(&key).filter(|answers| **answers > 0);
            let is_open = answers.is_none();
            answers.into_iter().for_each(|answers| *answers -= 1);
            is_open
        });
        (!keys.is_empty()).then(|| Query { keys, qualifiers: query.qualifiers.clone() })
    };
    queries.iter().enumerate().filter_map(part).collect()
}

/// The number of the host's answers for each key.
fn counts(host_answers: &[Info]) -> BTreeMap<Key, usize> {
    let mut counts = BTreeMap::new();
    for info in host_answers.iter().flat_map(ungrouped) {
        *counts.entry(info.key.clone()).or_default() += 1;
    }
    counts
}

/// Queries in progress. They may need tables of all processes of a large job, so each step answers some.
#[derive(Debug)]
pub(crate) struct Answering {
    pub(crate) ticket: Ticket,
    pub(crate) questions: Questions,
    pub(crate) topology: Topology,
    pub(crate) progress: QueryProgress,
}

impl Answering {
    /// The ticket, and the memory that takes long to free.
    pub(crate) fn into_parts(self) -> (Ticket, Garbage) {
        (self.ticket, Garbage::new((self.questions, self.progress)))
    }
}

/// The progress of the answers.
#[derive(Debug, Default)]
pub(crate) struct QueryProgress {
    found: Vec<QueryAnswer>,
    /// Size of the answers, without the host's.
    bytes: usize,
    /// Number of the host's answers for each key.
    host_answer_counts: BTreeMap<Key, usize>,
    asked: BTreeSet<(QueryScope, Text)>,
    lacks_some: bool,
    understood: bool,
    refused: Option<Status>,
    /// The next query, and the next one of its keys.
    query: usize,
    key: usize,
    /// The unfinished table, and the rank of its next row.
    table: QueryTable,
    next_rank: Option<u32>,
}

impl QueryProgress {
    /// Begins with the host's answers. The host does not say which of several queries for one key it has answered, so
    /// the server counts its answers. If the host was asked more often than it answered, one query may get an answer
    /// twice and another none.
    pub(crate) fn new(host_answers: &[Info]) -> Self {
        let found = host_answers.iter().cloned().map(QueryAnswer::Info).collect();
        Self { found, host_answer_counts: counts(host_answers), ..Self::default() }
    }

    /// The next query, with its place.
    pub(crate) fn next_query<'a>(&self, queries: &'a [Query]) -> Option<(usize, &'a Query)> {
        queries.get(self.query).map(|query| (self.query, query))
    }

    /// The next key of the current query.
    pub(crate) fn next_key<'a>(&self, query: &'a Query) -> Option<&'a Text> {
        query.keys.get(self.key)
    }

    /// The key to answer, if it is valid and has no answer yet.
    pub(crate) fn begin_key(
        &mut self,
        scope: &QueryScope,
        name: &Text,
        is_supported: impl Fn(&Key) -> bool,
    ) -> Option<Key> {
        let key = Key::from_bytes(name.as_bytes());
        if self.next_rank.is_some() {
            return key.ok();
        }
        if !self.asked.insert((scope.clone(), name.clone())) {
            return None;
        }
        let Ok(key) = key else {
            self.lacks_some = true;
            return None;
        };
        self.understood |= is_supported(&key);
        match self.host_answer_counts.get_mut(&key) {
            Some(0) => self.lacks_some = true,
            Some(answers) => {
                *answers -= 1;
                return None;
            }
            None => {}
        }
        Some(key)
    }

    /// The rank of the next row of the table.
    pub(crate) fn next_row(&self) -> u32 {
        self.next_rank.unwrap_or_default()
    }

    pub(crate) fn add_row(&mut self, row: ProcessRow) {
        self.table.push(row);
    }

    /// Leaves the table to the next step, which begins with this rank.
    pub(crate) fn suspend_table(&mut self, next_rank: u32) {
        self.next_rank = Some(next_rank);
    }

    /// The complete table.
    pub(crate) fn take_table(&mut self) -> QueryTable {
        std::mem::take(&mut self.table)
    }

    /// Keeps an answer, if all answers together have at most `bytes_max`. Returns whether it is kept.
    pub(crate) fn answer(&mut self, answer: QueryAnswer, bytes_max: usize) -> bool {
        let bytes = answer.value_bytes().and_then(|bytes| bytes.checked_add(self.bytes));
        let Some(bytes) = bytes.filter(|&bytes| bytes <= bytes_max) else { return false };
        self.bytes = bytes;
        self.found.push(answer);
        true
    }

    /// A key gets no answer.
    pub(crate) fn miss(&mut self) {
        self.lacks_some = true;
    }

    /// None of the keys of an invalid query get an answer.
    pub(crate) fn refuse_query(&mut self, refusal: Status) {
        (self.lacks_some, self.refused) = (true, Some(refusal));
    }

    /// Goes on to the next key. If the job of a table has ended, its rows belong to no answer.
    pub(crate) fn end_key(&mut self) {
        self.key += 1;
        (self.table, self.next_rank) = (QueryTable::default(), None);
    }

    pub(crate) fn end_query(&mut self) {
        (self.query, self.key) = (self.query.saturating_add(1), 0);
    }

    /// The answers and their status. Without any answer a refusal by the runtime is the status.
    pub(crate) fn end(self, verdict: Option<Status>, runtime_refusal: Option<Status>) -> QueryAnswers {
        let status = match (self.found.len(), runtime_refusal) {
            (0, Some(refusal)) => refusal,
            (0, None) => of_nothing(verdict, self.refused, self.understood),
            (_, Some(_)) => Status::ERR_PARTIAL_SUCCESS,
            _ if self.lacks_some => Status::ERR_PARTIAL_SUCCESS,
            _ => Status::SUCCESS,
        };
        QueryAnswers::new(status, self.found)
    }
}

/// The answers in an info of the host: itself, or those of a group. The standard has a group for each query
/// (`PMIX_QUERY_RESULTS`). Releases of OpenPMIx and PRRTE have none.
fn ungrouped(info: &Info) -> impl Iterator<Item = &Info> {
    let group = match &info.value {
        Value::DataArray(array) if info.key.as_str() == keys::QUERY_RESULTS.name() => Some(&array.elements),
        _ => None,
    };
    let alone = group.is_none().then_some(info);
    let inside = group.into_iter().flatten().filter_map(|element| match element {
        Value::Info(info) if info.key.as_str() != keys::QUERY_QUALIFIERS.name() => Some(&**info),
        _ => None,
    });
    alone.into_iter().chain(inside)
}

/// The status if there are no answers at all.
fn of_nothing(verdict: Option<Status>, refused: Option<Status>, understood: bool) -> Status {
    match (verdict, refused) {
        // A refusal of an invalid query says more than the host's lack of support for queries.
        (Some(Status::ERR_NOT_SUPPORTED), Some(refusal)) => refusal,
        _ if understood => Status::ERR_NOT_FOUND,
        // A part of the answers was expected, and none was found.
        (Some(Status::ERR_PARTIAL_SUCCESS), _) => Status::ERR_NOT_FOUND,
        (verdict, _) => verdict.unwrap_or(Status::ERR_NOT_SUPPORTED),
    }
}
