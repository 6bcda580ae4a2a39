//! Answers to queries for facts of the launcher.

use std::collections::BTreeMap;
use std::iter;

use modex::Responder;
use modex::types::{Info, Namespace, Value};

use super::LaunchedJob;
use crate::run::apps::App;
use crate::run::jobs::Job;
use crate::run::launcher_query::{self, Fact, LauncherQuery, Subject};
use crate::run::memory_usage::{self, MemoryUsage};

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
        let mut collected: BTreeMap<(Fact, Subject), Option<Value>> = BTreeMap::new();
        for _ in 0..ANSWERED_IN_TURN {
            let Some((_, QueryCall { query, reply })) = self.queries.pop() else { return };
            let mut known = Vec::new();
            for (fact, subject) in &query.facts {
                let asked = (*fact, subject.clone());
                let value = collected.entry(asked).or_insert_with(|| self.fact(*fact, subject)).clone();
                known.extend(value.map(|value| fact.info(value)));
            }
            reply.partial(query.status(known.len()), known);
        }
    }

    fn job_status(&self, job: &Namespace) -> Option<Value> {
        let number = self.jobs.number(job)?;
        Some(Value::Status(self.job_end(number).status.to_raw()))
    }

    /// The memory of the ranks and the launcher, now or a moment ago.
    fn memory(&mut self) -> &MemoryUsage {
        let now = self.clock.now();
        let fresh = self.memory.take().filter(|usage| usage.is_fresh(now));
        self.memory.insert(fresh.unwrap_or_else(|| {
            let ranks = self.children.all_running();
            MemoryUsage::take(now, ranks.filter_map(|(rank, pid)| Some((self.jobs.proc(rank)?, pid))))
        }))
    }

    fn fact(&mut self, fact: Fact, subject: &Subject) -> Option<Value> {
        if let Subject::Node(name) = subject
            && name.as_deref() != Some(self.server.hostname())
        {
            return None;
        }
        match fact {
            Fact::Operations => Some(launcher_query::operations(&self.what_waits())),
            Fact::RequestCounts => {
                // A server that has ended has no connections.
                Some(launcher_query::request_counts(self.server.request_counts().unwrap_or_default()))
            }
            Fact::JobStatus => match subject {
                Subject::Job(job) => self.job_status(job),
                _ => None,
            },
            Fact::MemoryUsage => match subject {
                Subject::Ranks { target, is_mean: true } => {
                    self.memory().mean(|proc| target.covers(proc)).map(memory_usage::mean_alone)
                }
                Subject::Ranks { target, is_mean: false } => self.memory().samples(|proc| target.covers(proc)),
                _ => None,
            },
            Fact::DaemonMemory => self.memory().launcher.map(Value::Float),
            Fact::ClientMemory => self.memory().mean(|_| true).map(Value::Float),
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
