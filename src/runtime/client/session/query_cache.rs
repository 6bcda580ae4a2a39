//! Answers to queries, for identical later queries.
//!
//! An answer serves queries until another request of the process begins or ends, until an event reaches the process, or
//! until the answer is a second old. The standard lets answers live longer. But programs that were tried on releases of
//! OpenPMIx without such a cache repeat a query until the answer changes, and an answer depends on requests of the
//! process itself.
//!
//! Source: PMIx Standard, `PMIx_Query_info` and `PMIX_QUERY_REFRESH_CACHE`.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::Mutex;

use crate::client::CallError;
use crate::keys;
use crate::proto::{QueryInfo, Reply, Request, Service};
use crate::types::{Info, Query, Time, footprint};

/// The answers of one process.
#[derive(Default)]
pub(super) struct QueryCache(Mutex<VecDeque<Kept>>);

/// Queries on their way to the server.
pub(super) struct Asked {
    queries: Vec<Query>,
    moment: Moment,
}

/// The time on the conversation's clock, and the number of requests, of their ends and of events so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) time: Time,
    pub(super) activity: u64,
}

struct Kept {
    queries: Vec<Query>,
    moment: Moment,
    reply: Reply,
}

impl QueryCache {
    /// The answer to a request, if it is a query with a known answer.
    pub(super) fn answer(&self, request: &Request, now: Moment) -> Option<Reply> {
        if queries_of(request)?.iter().any(asks_anew) {
            return None;
        }
        let mut kept = self.0.lock();
        kept.retain(|kept| kept.moment.activity == now.activity && now.time.since(kept.moment.time) < TIME_MAX);
        let queries = Self::ask(request, now).filter(|_| !kept.is_empty())?.queries;
        kept.iter().find(|kept| kept.queries == queries).map(|kept| kept.reply.clone())
    }

    /// Notes a query that is sent now. `None` for another request, and for a large query.
    pub(super) fn ask(request: &Request, now: Moment) -> Option<Asked> {
        let mut queries = queries_of(request)?.to_vec();
        let infos: usize = queries.iter().map(|query| query.qualifiers.len()).sum();
        let keys: usize = queries.iter().map(|query| query.keys.len()).sum();
        if infos.saturating_add(keys) > QUERY_ENTRIES_MAX {
            return None;
        }
        for query in &mut queries {
            query.qualifiers.retain(|qualifier| qualifier.key.as_str() != keys::QUERY_REFRESH_CACHE.name());
        }
        Some(Asked { queries, moment: now })
    }

    /// Keeps the answer to a query, if it is complete.
    pub(super) fn keep_answer(&self, asked: Option<Asked>, answer: &Result<Reply, CallError>) {
        if let (Some(asked), Ok(reply)) = (asked, answer) {
            self.keep(asked, reply);
        }
    }

    fn keep(&self, asked: Asked, reply: &Reply) {
        let Reply::Infos(infos) = reply else { return };
        let Asked { queries, moment } = asked;
        if bytes_of(infos).is_none_or(|bytes| bytes > ANSWER_BYTES_MAX) {
            return;
        }
        let mut kept = self.0.lock();
        kept.retain(|kept| kept.queries != queries);
        while kept.len() >= ANSWERS_MAX {
            kept.pop_front();
        }
        kept.push_back(Kept { queries, moment, reply: reply.clone() });
    }
}

/// Time for which an answer serves later queries.
const TIME_MAX: Duration = Duration::from_secs(1);
/// Limit of kept answers.
const ANSWERS_MAX: usize = 16;
/// Limit of one kept answer, in bytes of memory.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Limit of keys and qualifiers of one kept query.
const QUERY_ENTRIES_MAX: usize = 64;

fn queries_of(request: &Request) -> Option<&[Query]> {
    match request {
        Request::Service(Service::QueryInfo(QueryInfo { queries })) => Some(queries),
        _ => None,
    }
}

fn asks_anew(query: &Query) -> bool {
    let is_refresh = |info: &&Info| info.key.as_str() == keys::QUERY_REFRESH_CACHE.name();
    query.qualifiers.iter().find(is_refresh).is_some_and(|info| info.value.as_bool() != Some(false))
}

fn bytes_of(infos: &[Info]) -> Option<usize> {
    infos.iter().try_fold(0_usize, |sum, info| sum.checked_add(footprint(&info.value)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Key, Text, Value};

    fn at(millis: u64, activity: u64) -> Moment {
        Moment { time: Time::default() + Duration::from_millis(millis), activity }
    }

    fn query(key: &str, qualifiers: Vec<Info>) -> Request {
        Request::from(QueryInfo::new(vec![Query { keys: vec![Text::from(key)], qualifiers }]))
    }

    fn refresh(value: bool) -> Vec<Info> {
        vec![Info::new(Key::from_static(keys::QUERY_REFRESH_CACHE.name()), value)]
    }

    fn reply(value: impl Into<Value>) -> Reply {
        Reply::Infos(vec![Info::new(Key::from_static("a"), value)])
    }

    fn keep(cache: &QueryCache, request: &Request, now: Moment, reply: &Reply) {
        cache.keep(QueryCache::ask(request, now).unwrap(), reply);
    }

    #[test]
    fn an_answer_serves_identical_queries_until_something_happens() {
        let cache = QueryCache::default();
        let asked = query("a", Vec::new());
        assert_eq!(cache.answer(&asked, at(0, 1)), None);
        keep(&cache, &asked, at(0, 1), &reply(1));
        assert_eq!(cache.answer(&asked, at(999, 1)), Some(reply(1)));
        assert_eq!(cache.answer(&asked, at(1000, 1)), None, "a second later");
        keep(&cache, &asked, at(0, 1), &reply(1));
        let named = vec![Info::new(Key::from_static(keys::NSPACE.name()), "job")];
        assert_eq!(cache.answer(&query("a", named), at(0, 1)), None, "of another job");
        assert_eq!(cache.answer(&query("b", Vec::new()), at(0, 1)), None);
        assert_eq!(cache.answer(&asked, at(0, 2)), None, "another request, or an event");
    }

    #[test]
    fn a_refreshed_answer_replaces_the_kept_one() {
        let cache = QueryCache::default();
        keep(&cache, &query("a", Vec::new()), at(0, 1), &reply(1));
        let anew = query("a", refresh(true));
        assert_eq!(cache.answer(&anew, at(1, 1)), None);
        keep(&cache, &anew, at(1, 1), &reply(2));
        assert_eq!(cache.answer(&query("a", Vec::new()), at(2, 1)), Some(reply(2)));
        assert_eq!(cache.answer(&query("a", refresh(false)), at(2, 1)), Some(reply(2)));
    }

    #[test]
    fn errors_parts_and_large_answers_are_not_kept() {
        let cache = QueryCache::default();
        let asked = query("a", Vec::new());
        for reply in [
            Reply::Status(crate::types::Status::ERR_NOT_FOUND),
            reply(1).with_status(crate::types::Status::ERR_PARTIAL_SUCCESS),
            reply(vec![0_u8; ANSWER_BYTES_MAX + 1]),
        ] {
            keep(&cache, &asked, at(0, 1), &reply);
            assert_eq!(cache.answer(&asked, at(0, 1)), None);
        }
        let large = Query { keys: vec![Text::from("a"); QUERY_ENTRIES_MAX + 1], qualifiers: Vec::new() };
        assert!(QueryCache::ask(&Request::from(QueryInfo::new(vec![large])), at(0, 1)).is_none());
    }

    #[test]
    fn the_oldest_answer_makes_room() {
        let cache = QueryCache::default();
        for number in 0..=ANSWERS_MAX {
            keep(&cache, &query(&format!("a{number}"), Vec::new()), at(0, 1), &reply(1));
        }
        assert_eq!(cache.answer(&query("a0", Vec::new()), at(0, 1)), None);
        assert!(cache.answer(&query("a1", Vec::new()), at(0, 1)).is_some());
    }
}
