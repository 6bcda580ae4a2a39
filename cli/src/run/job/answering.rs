//! Answers to queries for facts of the launcher.

use std::collections::BTreeMap;
use std::iter;

use modex::Responder;
use modex::types::{Info, Namespace, Value};

use super::LaunchedJob;
use crate::run::apps::App;
use crate::run::jobs::Job;
use crate::run::launcher_query::{self, Fact, LauncherQuery};

/// A query that waits for its turn.
#[derive(Debug)]
pub(super) struct QueryCall {
    pub(super) query: LauncherQuery,
    pub(super) reply: Responder<Vec<Info>>,
}

/// Queries that are answered in one turn.
const ANSWERED_IN_TURN: usize = 16;

impl LaunchedJob {
    /// Answers some queries. A fact is collected once in a turn, so that a process that asks without end holds up
    /// nothing.
    pub(super) fn answer_queries(&mut self) {
        let mut collected: BTreeMap<Fact, Option<Value>> = BTreeMap::new();
        for _ in 0..ANSWERED_IN_TURN {
            let Some((_, QueryCall { query, reply })) = self.queries.pop() else { return };
            let mut known = Vec::new();
            for (fact, job) in &query.facts {
                let value = match job {
                    Some(job) => self.job_status(job),
                    None => collected.entry(*fact).or_insert_with(|| self.fact(*fact)).clone(),
                };
                known.extend(value.map(|value| fact.info(value)));
            }
            reply.partial(query.status(known.len()), known);
        }
    }

    fn job_status(&self, job: &Namespace) -> Option<Value> {
        let number = self.jobs.number(job)?;
        Some(Value::Status(self.job_end(number).status.to_raw()))
    }

    /// A fact that is not about a job.
    fn fact(&self, fact: Fact) -> Option<Value> {
        match fact {
            Fact::Operations => Some(launcher_query::operations(&self.what_waits())),
            Fact::RequestCounts => {
                // A server that has ended has no connections.
                Some(launcher_query::request_counts(self.server.request_counts().unwrap_or_default()))
            }
            Fact::JobStatus => None,
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
