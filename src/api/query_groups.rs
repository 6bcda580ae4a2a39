//! Results of queries in groups: one for each query of a call that asks for them.
//!
//! Source: PMIx Standard, `PMIX_QUERY_RESULTS` and `PMIX_QUERY_QUALIFIERS`.

use std::collections::VecDeque;

use crate::client::{CallError, UNDERSTOOD_OF_QUERIES, ask_for_groups};
use crate::keys;
use crate::proto::{Command, QueryInfo, Reply, Request, Service};
use crate::types::{AsStatus, Info, Key, Query, Status, Value};

/// The queries of a call, one request each, and the groups of their results so far.
pub(super) struct GroupedQueries {
    rest: VecDeque<Query>,
    /// The qualifiers of the query under way.
    qualifiers: Vec<Info>,
    groups: Vec<Info>,
    /// Whether each query so far had all of its results, and whether any had some.
    is_complete: bool,
    has_results: bool,
    error: Option<CallError>,
}

impl GroupedQueries {
    /// The queries of a request that asks for groups.
    ///
    /// # Errors
    /// Too many queries.
    pub(super) fn of(request: &Request) -> Option<Result<Self, CallError>> {
        let Request::Service(Service::QueryInfo(QueryInfo { queries })) = request else { return None };
        let is_wish = |info: &Info| UNDERSTOOD_OF_QUERIES.contains(&info.key.as_str());
        if !ask_for_groups(queries) {
            return None;
        }
        if queries.len() > QUERIES_MAX {
            return Some(Err(CallError::Refused { command: Command::QueryInfo, status: Status::ERR_OUT_OF_RESOURCE }));
        }
        let mut rest: VecDeque<Query> = queries.iter().cloned().collect();
        rest.iter_mut().for_each(|query| query.qualifiers.retain(|info| !is_wish(info)));
        let (qualifiers, groups) = (Vec::new(), Vec::new());
        Some(Ok(Self { rest, qualifiers, groups, is_complete: true, has_results: false, error: None }))
    }

    /// The request for the next query.
    pub(super) fn next(&mut self) -> Option<Request> {
        let query = self.rest.pop_front()?;
        self.qualifiers.clone_from(&query.qualifiers);
        Some(QueryInfo::new(vec![query]).into())
    }

    /// Adds the group of the query under way. Groups that a host has made itself stay as they are.
    pub(super) fn add(&mut self, reply: Result<Reply, CallError>) {
        let (status, results) = match reply {
            Ok(Reply::Partial { status, results }) => (status, *results),
            Ok(Reply::Status(status)) => (status, Reply::Infos(Vec::new())),
            Ok(results) => (Status::SUCCESS, results),
            Err(error) => {
                let status = error.status();
                self.error.get_or_insert(error);
                (status, Reply::Infos(Vec::new()))
            }
        };
        let results = if let Reply::Infos(infos) = results { infos } else { Vec::new() };
        self.is_complete &= status == Status::SUCCESS;
        self.has_results |= !results.is_empty();
        let key = Key::from_static(keys::QUERY_RESULTS.name());
        if !results.is_empty() && results.iter().all(|info| info.key == key) {
            return self.groups.extend(results);
        }
        let qualifiers = std::mem::take(&mut self.qualifiers);
        let of_query =
            Info::new(Key::from_static(keys::QUERY_QUALIFIERS.name()), Value::info_array(qualifiers.clone()));
        let of_query = (!qualifiers.is_empty()).then_some(of_query);
        self.groups.push(Info::new(key, Value::info_array(of_query.into_iter().chain(results).collect())));
    }

    /// The reply with all groups.
    ///
    /// # Errors
    /// The error of the first query that failed, if no query had results.
    pub(super) fn finish(self) -> Result<Reply, CallError> {
        match self.error {
            Some(error) if !self.has_results => Err(error),
            _ if self.is_complete => Ok(Reply::Infos(self.groups)),
            _ => Ok(Reply::Infos(self.groups).with_status(Status::ERR_PARTIAL_SUCCESS)),
        }
    }
}

/// The most queries of a call in groups. Each may be answered inside the one before it.
const QUERIES_MAX: usize = 64;
