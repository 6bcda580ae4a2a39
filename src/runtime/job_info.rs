//! Answers to requests for job information: the same bytes for all clients of a namespace that speak alike, made once.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::bfrops::EncodeError;
use crate::gds::{Damage, Store};
use crate::proto::{Dialect, JobInfoWriter};
use crate::types::{Namespace, Text};

/// The answers made so far, by namespace. A namespace has as many as its clients have dialects, which are few.
#[derive(Debug, Default)]
pub(super) struct JobInfoAnswers(BTreeMap<Namespace, Vec<Written>>);

/// An answer, and who can read it.
type Written = (Dialect, Arc<[u8]>);

/// Why there is no answer. The request has no place for a status, so the connection ends.
#[derive(Debug, thiserror::Error)]
pub(super) enum JobInfoError {
    #[error("namespace {namespace} is not registered any more")]
    Gone { namespace: Namespace },
    #[error("the segment of namespace {namespace} is damaged: {source}")]
    Damaged { namespace: Namespace, source: Damage },
    #[error("the job information of namespace {namespace} can't be written for this peer: {source}")]
    Encode { namespace: Namespace, source: EncodeError },
}

impl JobInfoAnswers {
    /// The payload of the answer for a peer of this dialect.
    pub(super) fn payload(
        &mut self,
        namespace: &Namespace,
        dialect: Dialect,
        store: &Store,
    ) -> Result<Arc<[u8]>, JobInfoError> {
        let made = self.0.entry(namespace.clone()).or_default();
        let is_same =
            |other: &Dialect| other.codec == dialect.codec && JobInfoWriter::is_same_for(other.peer, dialect.peer);
        if let Some((_, payload)) = made.iter().find(|(other, _)| is_same(other)) {
            return Ok(Arc::clone(payload));
        }
        let payload: Arc<[u8]> = write(namespace, dialect, store)?.into();
        tracing::debug!(%namespace, codec = %dialect.codec.generation, size_bytes = payload.len(), "job information written");
        made.push((dialect, Arc::clone(&payload)));
        Ok(payload)
    }

    /// The namespace's description changed.
    pub(super) fn forget(&mut self, namespace: &Namespace) {
        self.0.remove(namespace);
    }
}

fn write(namespace: &Namespace, dialect: Dialect, store: &Store) -> Result<Vec<u8>, JobInfoError> {
    let named = || namespace.clone();
    let reader = store.reader(namespace).ok_or_else(|| JobInfoError::Gone { namespace: named() })?;
    let unwritable = |source| JobInfoError::Encode { namespace: named(), source };
    let mut writer = JobInfoWriter::new(&Text::from(namespace.as_str()), dialect).map_err(unwritable)?;
    let mut written = Ok(());
    let visited = reader.visit_job_entries(|entry| {
        if written.is_ok() {
            written = writer.push(&entry);
        }
    });
    visited.map_err(|source| JobInfoError::Damaged { namespace: named(), source })?;
    written.map_err(unwritable)?;
    Ok(writer.finish())
}
