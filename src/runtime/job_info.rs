//! Answers to requests for job information: the same bytes for all clients of a namespace that speak alike, made once.

use std::sync::Arc;

use crate::bfrops::EncodeError;
use crate::gds::{Damage, JobEntry, Store};
use crate::keys;
use crate::proto::{Dialect, JobInfoWriter};
use crate::types::{Key, Kval, Namespace, Text, Value};

/// The answers made so far. A client chooses its dialect, so one client can ask for each answer that there is: the largest of
/// them together have a bound.
#[derive(Debug)]
pub(super) struct JobInfoAnswers {
    /// Bytes of all that are kept.
    kept_bytes_max: usize,
    kept_bytes: usize,
    /// Which was used last comes last.
    kept: Vec<Written>,
    /// No longer kept, and still on their way to somebody.
    parted: Vec<Arc<[u8]>>,
}

/// A client's dialect, and the largest payload that it takes.
type Reading = (Dialect, usize);

/// An answer, and who can read it.
#[derive(Debug)]
struct Written {
    namespace: Namespace,
    reading: Reading,
    /// Whether the topology was known when it was written.
    has_topology: bool,
    payload: Arc<[u8]>,
}

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
    pub(super) const fn new(kept_bytes_max: usize) -> Self {
        Self { kept_bytes_max, kept_bytes: 0, kept: Vec::new(), parted: Vec::new() }
    }

    /// The payload of the answer for a peer that reads so. The topology, where it is part of the answers, is the same for
    /// all of them.
    pub(super) fn payload(
        &mut self,
        namespace: &Namespace,
        reading: Reading,
        store: &Store,
        topology: Option<&str>,
    ) -> Result<Arc<[u8]>, JobInfoError> {
        let is_wanted = |written: &Written| written.namespace == *namespace && written.is_for(reading, topology);
        if let Some(found) = self.kept.iter().position(is_wanted) {
            let written = self.kept.remove(found);
            let payload = Arc::clone(&written.payload);
            self.kept.push(written);
            return Ok(payload);
        }
        let payload: Arc<[u8]> = write(namespace, reading, store, topology)?.into();
        tracing::debug!(%namespace, codec = %reading.0.codec.generation, size_bytes = payload.len(), "job information written");
        self.kept_bytes = self.kept_bytes.saturating_add(payload.len());
        let (namespace, has_topology) = (namespace.clone(), topology.is_some());
        self.kept.push(Written { namespace, reading, has_topology, payload: Arc::clone(&payload) });
        self.keep_at_most(self.kept_bytes_max);
        Ok(payload)
    }

    /// The namespace's description changed.
    pub(super) fn forget(&mut self, namespace: &Namespace) {
        let of_namespace = |written: &mut Written| written.namespace == *namespace;
        let forgotten: Vec<Written> = self.kept.extract_if(.., of_namespace).collect();
        forgotten.into_iter().for_each(|written| self.part(written));
    }

    /// Keeps nothing: the memory is needed. What is on its way still is.
    pub(super) fn give_way(&mut self) {
        self.keep_at_most(0);
    }

    /// Memory of the answers, in bytes: those that are kept, and those that somebody has yet to take.
    pub(super) fn held_bytes(&mut self) -> usize {
        self.parted.retain(|payload| Arc::strong_count(payload) > 1);
        self.parted.iter().fold(self.kept_bytes, |bytes, payload| bytes.saturating_add(payload.len()))
    }

    /// Parts with those that were not used for the longest time.
    fn keep_at_most(&mut self, bytes_max: usize) {
        while self.kept_bytes > bytes_max && !self.kept.is_empty() {
            let oldest = self.kept.remove(0);
            self.part(oldest);
        }
    }

    fn part(&mut self, written: Written) {
        self.kept_bytes = self.kept_bytes.saturating_sub(written.payload.len());
        self.parted.push(written.payload);
    }
}

impl Written {
    /// What is left out depends on the limit: an answer for one who takes more is none for one who takes less, unless it is
    /// so small that nothing is left out for either.
    fn is_for(&self, (dialect, bytes_max): Reading, topology: Option<&str>) -> bool {
        let (own, own_bytes_max) = self.reading;
        let (less, more) = (bytes_max.min(own_bytes_max), bytes_max.max(own_bytes_max));
        let is_whole = JobInfoWriter::has_room(self.payload.len(), less)
            && has_topology(topology, less) == has_topology(topology, more);
        // One that was written before the topology was known is told to nobody who comes afterwards.
        let is_told_alike = (less == more || is_whole) && self.has_topology == topology.is_some();
        is_told_alike && own.codec == dialect.codec && JobInfoWriter::is_same_for(own.peer, dialect.peer)
    }
}

/// One that would be most of the message can still be asked for.
fn has_topology(topology: Option<&str>, message_bytes_max: usize) -> bool {
    topology.is_some_and(|xml| xml.len() <= message_bytes_max / 8)
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
                JobEntry::OtherSessions(entry) => writer.push_other_sessions(&entry),
                JobEntry::Process(rank, values) => writer.push_process(rank, values.iter().flatten()),
            };
        }
    });
    visited.map_err(|source| JobInfoError::Damaged { namespace: named(), source })?;
    written.map_err(unwritable)?;
    // Twice, as the reference's servers tell it: older ones know the second name.
    if let Some(xml) = topology.filter(|_| has_topology(topology, message_bytes_max)) {
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

    use crate::bfrops::{Codec, Generation};
    use crate::proto::Version;

    const GENERATIONS: [Generation; 5] =
        [Generation::V3, Generation::V4, Generation::V41, Generation::V51, Generation::V61];

    fn job(ranks_count: u32) -> (Namespace, Store) {
        let namespace = Namespace::new("job").unwrap();
        let mut store = Store::new(StoreOptions::new("srv.0".to_owned(), "n0"));
        let ranks = vec![(0..ranks_count).collect::<Vec<u32>>()];
        let description = JobDescription::new(&namespace).nodes(["n0"]).ranks_by_node(ranks).build().unwrap();
        store.register(&namespace, &description).unwrap();
        (namespace, store)
    }

    fn speaking(generation: Generation) -> Dialect {
        Dialect { codec: Codec { generation, ..Dialect::OWN.codec }, ..Dialect::OWN }
    }

    /// Who asked first decided for all: a client that takes less could not start behind one that takes more.
    #[test]
    fn an_answer_is_not_for_one_who_takes_less_whoever_asks_first() {
        let (namespace, store) = job(1000);
        let (much, little) = ((Dialect::OWN, 32 << 20), (Dialect::OWN, 40 << 10));
        for order in [[much, little], [little, much]] {
            let mut answers = JobInfoAnswers::new(1 << 20);
            let mut size_bytes = |reading| answers.payload(&namespace, reading, &store, None).unwrap().len();
            assert!(order.into_iter().all(|reading| size_bytes(reading) > 0));
            assert!(size_bytes(much) > 40 << 10, "everything is told to one who takes it");
            assert!(size_bytes(little) <= 40 << 10, "{}", size_bytes(little));
        }
    }

    /// One client that said another dialect with each connection had the server keep all of them.
    #[test]
    fn answers_in_every_tongue_are_kept_as_far_as_there_is_room_and_counted_as_long_as_anybody_takes_them() {
        let (namespace, store) = job(1000);
        let limit = 32 << 20;
        let one = write(&namespace, (speaking(Generation::V3), limit), &store, None).unwrap().len();
        let mut answers = JobInfoAnswers::new(one * 5 / 2);
        let mut taken = Vec::new();
        for generation in GENERATIONS {
            taken.push(answers.payload(&namespace, (speaking(generation), limit), &store, None).unwrap());
            assert!(answers.kept_bytes <= one * 5 / 2 && !answers.kept.is_empty(), "{}", answers.kept_bytes);
        }
        let all: usize = taken.iter().map(|payload| payload.len()).sum();
        assert_eq!(answers.held_bytes(), all, "somebody has yet to take each");
        taken.drain(..4);
        assert_eq!(answers.held_bytes(), answers.kept_bytes);
        let again = answers.payload(&namespace, (speaking(Generation::V61), limit), &store, None).unwrap();
        assert!(Arc::ptr_eq(&again, &taken[0]), "which was used last is kept");
        answers.give_way();
        assert_eq!(answers.held_bytes(), again.len());
        drop((again, taken));
        assert_eq!(answers.held_bytes(), 0);
    }

    #[test]
    fn which_answer_was_not_used_for_the_longest_time_goes_first() {
        let (namespace, store) = job(1000);
        let limit = 32 << 20;
        let one = write(&namespace, (speaking(Generation::V41), limit), &store, None).unwrap().len();
        let mut answers = JobInfoAnswers::new(one * 5 / 2);
        let mut ask = |generation| answers.payload(&namespace, (speaking(generation), limit), &store, None).unwrap();
        let first = ask(Generation::V4);
        let second = ask(Generation::V41);
        assert!(Arc::ptr_eq(&first, &ask(Generation::V4)));
        let third = ask(Generation::V51);
        assert!(Arc::ptr_eq(&first, &ask(Generation::V4)) && Arc::ptr_eq(&third, &ask(Generation::V51)));
        assert!(!Arc::ptr_eq(&second, &ask(Generation::V41)));
    }

    /// Who came before the topology was known decided for all who came later.
    #[test]
    fn the_topology_is_told_as_soon_as_it_is_known() {
        let (namespace, store) = job(2);
        let mut answers = JobInfoAnswers::new(32 << 20);
        let mut ask = |topology| answers.payload(&namespace, (Dialect::OWN, 16 << 20), &store, topology).unwrap();
        let without = ask(None);
        let with = ask(Some("<topology/>"));
        assert!(with.len() > without.len() + 2 * "<topology/>".len());
        assert!(Arc::ptr_eq(&with, &ask(Some("<topology/>"))) && Arc::ptr_eq(&without, &ask(None)));
    }

    /// A second writing of megabytes for the same bytes.
    #[test]
    fn one_answer_is_for_all_whose_limits_leave_nothing_out() {
        let (namespace, store) = job(1000);
        let mut answers = JobInfoAnswers::new(32 << 20);
        let mut ask =
            |bytes_max, topology| answers.payload(&namespace, (Dialect::OWN, bytes_max), &store, topology).unwrap();
        let first = ask(16 << 20, None);
        assert!(Arc::ptr_eq(&first, &ask(32 << 20, None)) && Arc::ptr_eq(&first, &ask(1 << 30, None)));
        let xml = "x".repeat(3 << 20);
        let without = ask(17 << 20, Some(&xml));
        assert!(ask(1 << 30, Some(&xml)).len() > without.len() + (6 << 20));
        assert_eq!(Version::new(3, 2, 5).message_bytes_max(), 16 << 20);
    }
}
