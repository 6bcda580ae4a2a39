//! Answers to queries for facts of the launcher.

use std::collections::BTreeMap;
use std::iter;

use modex::Responder;
use modex::types::{Info, Namespace, Value};

use super::LaunchedJob;
use crate::run::apps::App;
use crate::run::jobs::Job;
use crate::run::launcher_query::{self, Fact, LauncherQuery, Subject};

/// A query that waits for its turn.
#[derive(Debug)]
pub(super) struct QueryCall {
    query: LauncherQuery,
    reply: Responder<Vec<Info>>,
    answers: Answers,
}

impl QueryCall {
    pub(super) fn new(query: LauncherQuery, reply: Responder<Vec<Info>>) -> Self {
        Self { query, reply, answers: Answers::default() }
    }
}

/// The facts that a query has got.
#[derive(Debug, Default)]
struct Answers {
    /// The number of facts that were looked at.
    done: usize,
    known: Vec<Info>,
}

impl Answers {
    /// Collects facts, at most `left`. Returns whether the query has all.
    fn go_on(
        &mut self,
        query: &LauncherQuery,
        left: &mut usize,
        mut collect: impl FnMut(Fact, &Subject) -> Option<Value>,
    ) -> bool {
        for (fact, subject) in query.facts.iter().skip(self.done).take(*left) {
            self.known.extend(collect(*fact, subject).map(|value| fact.info(value)));
            self.done += 1;
            *left -= 1;
        }
        self.done == query.facts.len()
    }
}

/// Queries that are answered in one turn.
const ANSWERED_IN_TURN: usize = 16;

/// Facts that are collected in one turn. Each may be about all ranks. A query with more goes on in a later turn.
const FACTS_IN_TURN: usize = 64;

impl LaunchedJob {
    /// Answers some queries. A fact is collected once in a turn, so that a process that asks without end holds up
    /// nothing.
    pub(super) fn answer_queries(&mut self) {
        let mut collected: BTreeMap<(Fact, Subject), Option<Value>> = BTreeMap::new();
        let mut left = FACTS_IN_TURN;
        for _ in 0..ANSWERED_IN_TURN {
            let Some((requester, mut call)) = self.queries.pop() else { return };
            let has_all = call.answers.go_on(&call.query, &mut left, |fact, subject| {
                collected.entry((fact, subject.clone())).or_insert_with(|| self.fact(fact, subject)).clone()
            });
            if !has_all {
                return self.queries.put_back(requester, call);
            }
            let QueryCall { query, reply, answers: Answers { known, .. } } = call;
            reply.partial(query.status(known.len()), known);
        }
    }

    fn job_status(&self, job: &Namespace) -> Option<Value> {
        let number = self.jobs.number(job)?;
        Some(Value::Status(self.job_end(number).status.to_raw()))
    }

    fn fact(&mut self, fact: Fact, subject: &Subject) -> Option<Value> {
        match fact {
            Fact::Operations => Some(launcher_query::operations(&self.waiting_operations())),
            Fact::RequestCounts => {
                // A server that has ended has no connections.
                Some(launcher_query::request_counts(self.server.request_counts().unwrap_or_default()))
            }
            Fact::JobStatus => match subject {
                Subject::Job(job) => self.job_status(job),
                _ => None,
            },
            Fact::TimeRemaining => {
                let seconds = self.verdict.time_left(self.clock.now())?.as_secs();
                Some(Value::Uint32(u32::try_from(seconds).unwrap_or(u32::MAX)))
            }
            Fact::NamespaceInfo => {
                let jobs = self.jobs.iter();
                Some(launcher_query::namespaces(jobs.map(|job| (job.namespace.clone(), command_lines(job)))))
            }
        }
    }
}

/// The words of each program of a job, separated by spaces.
fn command_lines(job: &Job) -> Vec<String> {
    let line = |app: &App| {
        let words = iter::once(&app.program).chain(&app.arguments);
        words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    };
    job.apps.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use modex::types::{Key, ProcId, Query};
    use modex::{QueryInfo, keys};

    use super::*;

    /// Regression: one request with a query for each job was answered in one turn.
    #[test]
    fn a_query_with_many_facts_is_answered_in_some_turns() {
        let one = |number: u32| Query {
            keys: vec![keys::QUERY_JOB_STATUS.name().into()],
            qualifiers: vec![Info::new(Key::from_static(keys::NSPACE.name()), format!("job{number}").as_str())],
        };
        let requester = ProcId::new(Namespace::new("job").unwrap(), 0);
        let query = LauncherQuery::read(&requester, &QueryInfo::new((0..7).map(one).collect())).unwrap();
        let mut answers = Answers::default();
        let mut turn = |mut left| {
            let has_all = answers.go_on(&query, &mut left, |_, _| Some(Value::Float(1.0)));
            (has_all, answers.known.len(), left)
        };
        assert_eq!([turn(3), turn(0), turn(3), turn(3)], [(false, 3, 0), (false, 3, 0), (false, 6, 0), (true, 7, 2)]);
    }
}
