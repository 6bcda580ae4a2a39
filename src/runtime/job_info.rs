//! Answers to requests for job information: the same bytes for all clients of a namespace that speak alike, made once.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::bfrops::EncodeError;
use crate::gds::{Damage, JobEntry, Store};
use crate::keys;
use crate::proto::{Dialect, JobInfoWriter};
use crate::types::{Key, Kval, Namespace, Text, Value};

/// The answers made so far, by namespace. A namespace has as many as its clients have dialects and limits, which are few.
#[derive(Debug, Default)]
pub(super) struct JobInfoAnswers(BTreeMap<Namespace, Vec<Written>>);

/// A client's dialect, and the largest payload that it takes.
type Reading = (Dialect, usize);

/// An answer, and who can read it.
type Written = (Reading, Arc<[u8]>);

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
    /// The payload of the answer for a peer that reads so. The topology, where it is part of the answers, is the same for
    /// all of them.
    pub(super) fn payload(
        &mut self,
        namespace: &Namespace,
        reading: Reading,
        store: &Store,
        topology: Option<&str>,
    ) -> Result<Arc<[u8]>, JobInfoError> {
        let made = self.0.entry(namespace.clone()).or_default();
        if let Some((_, payload)) = made.iter().find(|(other, _)| is_same(*other, reading)) {
            return Ok(Arc::clone(payload));
        }
        let payload: Arc<[u8]> = write(namespace, reading, store, topology)?.into();
        tracing::debug!(%namespace, codec = %reading.0.codec.generation, size_bytes = payload.len(), "job information written");
        made.push((reading, Arc::clone(&payload)));
        Ok(payload)
    }

    /// The namespace's description changed.
    pub(super) fn forget(&mut self, namespace: &Namespace) {
        self.0.remove(namespace);
    }
}

/// What is left out depends on the limit: an answer for one who takes more is none for one who takes less.
fn is_same((first, first_max): Reading, (second, second_max): Reading) -> bool {
    first.codec == second.codec && first_max == second_max && JobInfoWriter::is_same_for(first.peer, second.peer)
}

fn write(
    namespace: &Namespace,
    (dialect, message_bytes_max): Reading,
    store: &Store,
    topology: Option<&str>,
) -> Result<Vec<u8>, JobInfoError> {
    let named = || namespace.clone();
    let reader = store.reader(namespace).ok_or_else(|| JobInfoError::Gone { namespace: named() })?;
    let unwritable = |source| JobInfoError::Encode { namespace: named(), source };
    let writer = JobInfoWriter::new(&Text::from(namespace.as_str()), dialect, message_bytes_max);
    let mut writer = writer.map_err(unwritable)?;
    let mut written = Ok(());
    let visited = reader.visit_job_entries(|entry| {
        if written.is_ok() {
            written = match entry {
                JobEntry::One(entry) => writer.push(&entry),
                JobEntry::Process(rank, values) => writer.push_process(rank, values.iter().flatten()),
            };
        }
    });
    visited.map_err(|source| JobInfoError::Damaged { namespace: named(), source })?;
    written.map_err(unwritable)?;
    // Twice, as the reference's servers tell it: older ones know the second name. One that would be most of the message
    // can still be asked for.
    if let Some(xml) = topology.filter(|xml| xml.len() <= message_bytes_max / 8) {
        for key in [keys::HWLOC_XML_V2, keys::LOCAL_TOPO] {
            let entry = Kval { key: Key::from_static(key.name()), value: Value::from(xml) };
            writer.push(&entry).map_err(unwritable)?;
        }
    }
    Ok(writer.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gds::Publish;
    use crate::gds::StoreOptions;
    use crate::gds::registration::JobDescription;

    /// Who asked first decided for all: a client that takes less could not start behind one that takes more.
    #[test]
    fn an_answer_is_not_for_one_who_takes_less_whoever_asks_first() {
        let namespace = Namespace::new("job").unwrap();
        let mut store = Store::new(StoreOptions::new("srv.0".to_owned(), "n0"));
        let ranks = vec![(0..1000).collect::<Vec<u32>>()];
        let description = JobDescription::new(&namespace).nodes(["n0"]).ranks_by_node(ranks).build().unwrap();
        store.register(&namespace, &description).unwrap();
        let (much, little) = ((Dialect::OWN, 32 << 20), (Dialect::OWN, 40 << 10));
        for order in [[much, little], [little, much]] {
            let mut answers = JobInfoAnswers::default();
            let mut size_bytes = |reading| answers.payload(&namespace, reading, &store, None).unwrap().len();
            assert!(order.into_iter().all(|reading| size_bytes(reading) > 0));
            assert!(size_bytes(much) > 40 << 10, "everything is told to one who takes it");
            assert!(size_bytes(little) <= 40 << 10, "{}", size_bytes(little));
        }
    }
}
