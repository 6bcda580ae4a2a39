//! Answers to queries for facts of the launcher.

use std::iter;

use modex::types::{Info, Namespace, Value};

use super::LaunchedJob;
use crate::run::apps::App;
use crate::run::jobs::Job;
use crate::run::launcher_query::{self, Fact};

impl LaunchedJob {
    /// Answers once in a turn, so that a process that asks without end holds up nothing.
    pub(super) fn answer_queries(&mut self) {
        for (query, reply) in std::mem::take(&mut self.queries) {
            let facts = query.facts.iter();
            let known: Vec<Info> = facts.filter_map(|(fact, job)| Some(fact.info(self.fact(*fact, job)?))).collect();
            reply.partial(query.status(known.len()), known);
        }
    }

    fn fact(&self, fact: Fact, job: &Namespace) -> Option<Value> {
        match fact {
            Fact::Operations => Some(launcher_query::operations(&self.what_waits())),
            Fact::RequestCounts => {
                // A server that has ended has no connections.
                Some(launcher_query::request_counts(self.server.request_counts().unwrap_or_default()))
            }
            Fact::JobStatus => {
                let number = self.jobs.number(job)?;
                Some(Value::Status(self.job_end(number).status.to_raw()))
            }
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
