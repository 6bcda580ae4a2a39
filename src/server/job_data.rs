//! Answers to Gets that hold the description of a job.

use crate::gds::{Datastore, LookupError};
use crate::proto::{self, RankData, Reply};
use crate::types::{AsStatus, Namespace, ProcId, Rank};

/// The answer to a Get that begins with the description of a job. It is as large as the job, and the same for many
/// peers.
#[derive(Clone, Debug, PartialEq)]
pub struct JobData {
    /// The job.
    pub namespace: Namespace,
    /// Whether it has all entries, or only those that peers always get.
    pub is_whole: bool,
    /// Data of processes after the description.
    pub rest: Vec<RankData>,
}

impl JobData {
    /// The stored description.
    ///
    /// # Errors
    /// [`LookupError`].
    pub fn description<S: Datastore>(&self, store: &S) -> Result<RankData, LookupError> {
        let mut entries = store.job_entries(&self.namespace)?;
        if !self.is_whole {
            entries.retain(proto::is_told);
        }
        Ok(RankData { proc: ProcId::new(self.namespace.clone(), Rank::Wildcard), entries })
    }

    /// The whole answer.
    pub fn into_reply<S: Datastore>(self, store: &S) -> Reply {
        match self.description(store) {
            Ok(description) => Reply::Data(std::iter::once(description).chain(self.rest).collect()),
            Err(error) => Reply::Status(error.status()),
        }
    }
}
