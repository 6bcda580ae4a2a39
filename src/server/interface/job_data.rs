//! Answers to Gets that hold the description of a job.

use super::unread::AnswerData;
use crate::gds::Datastore;
use crate::proto::{self, RankData, Reply};
use crate::types::{AsStatus, Kval, Namespace, ProcId, Rank};

/// The answer to a Get that begins with the description of a job. It is as large as the job, and the same for many
/// peers.
#[derive(Clone, Debug, PartialEq)]
pub struct JobData {
    /// The job.
    pub namespace: Namespace,
    /// Whether it has all entries, or only those that peers always get.
    pub is_whole: bool,
    /// Data of processes after the description.
    pub rest: AnswerData,
}

impl JobData {
    /// The description, from all entries of the job.
    #[must_use]
    pub fn description(&self, mut entries: Vec<Kval>) -> RankData {
        if !self.is_whole {
            entries.retain(proto::is_for_peers);
        }
        RankData { proc: ProcId::new(self.namespace.clone(), Rank::Wildcard), entries }
    }

    /// The whole answer.
    pub fn into_reply<S: Datastore>(self, store: &S) -> Reply {
        match store.job_entries(&self.namespace) {
            Ok(entries) => {
                let description = self.description(entries);
                let rest = self.rest.read();
                rest.map_or_else(Reply::Status, |rest| Reply::Data(std::iter::once(description).chain(rest).collect()))
            }
            Err(error) => Reply::Status(error.status()),
        }
    }
}
