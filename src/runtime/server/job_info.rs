//! Replies to requests for job information. They are written once for all clients of a namespace with the same dialect.
//! The description of a large job takes a long time, so another thread writes it. Its clients wait, and no others do.

use std::fmt;
use std::sync::Arc;

use crate::bfrops::{Codec, EncodeError};
use crate::gds::{Damage, JobEntry, NamespaceReader, Store};
use crate::keys::{self, TypedKey};
use crate::proto::{Command, Dialect, JobInfoWriter, Reply, Tag};
use crate::runtime::shared::message_codec::MessageCodec;
use crate::server::{AnswerData, JobData, PeerId, ProcessAnswer};
use crate::types::{Key, Kval, Namespace, Status, Text, Value};

/// The replies written so far. A client chooses its dialect, so one client can request every possible reply. The kept
/// replies together have a size limit.
#[derive(Debug)]
pub(super) struct JobInfoAnswers {
    /// Limit of the bytes of all kept replies.
    kept_bytes_max: usize,
    kept_bytes: usize,
    /// The last used one is last.
    kept: Vec<Written>,
    /// Replies that are no longer kept, but still on their way to a client.
    parted: Vec<Arc<[u8]>>,
    /// Descriptions that another thread writes, and the requests that wait for them.
    begun: Vec<Begun>,
}

/// A description that another thread writes.
#[derive(Debug)]
struct Begun {
    what: What,
    /// Whether the job was described anew meanwhile.
    is_stale: bool,
    waiting: Vec<DescriptionRequest>,
}

/// A request that a job's description answers.
#[derive(Debug)]
pub(super) enum DescriptionRequest {
    /// A client's request for its job information.
    Info(PeerId, Tag, Namespace),
    /// A Get whose answer begins with the description.
    Data(PeerId, Tag, JobData),
}

/// The fate of a request: answered, delayed, or passed on.
#[derive(Debug)]
pub(super) enum PutOff {
    /// It is answered at once.
    No,
    /// It waits for a description that is being written.
    Behind,
    /// It waits for this description, which another thread should write.
    Begin(Description),
}

/// An answer that begins with the description of a job.
#[derive(Debug, PartialEq)]
pub(super) enum JobAnswer {
    /// Its payload, in parts.
    Written(Vec<Arc<[u8]>>),
    /// The description. Another thread should write all data of a process behind it.
    Unread(Arc<[u8]>, Box<ProcessAnswer>),
}

/// The work to write a description, for any thread.
#[derive(Debug)]
pub(super) struct Description {
    what: What,
    namespace: Namespace,
    /// `None`: a client's job information.
    data: Option<JobData>,
    codec: MessageCodec,
    reader: Arc<NamespaceReader>,
}

/// A written description.
pub(super) struct Described {
    what: What,
    bytes: Result<Arc<[u8]>, JobInfoError>,
}

/// A client's dialect, and the largest payload that it takes.
type Reading = (Dialect, usize);

/// A reply or the shared end of many, and the clients that can read it.
#[derive(Debug)]
struct Written {
    what: What,
    bytes: Arc<[u8]>,
}

#[derive(Clone, Debug, PartialEq)]
enum What {
    /// A client's job information.
    Job(Namespace, Reading),
    /// The reply to a Get of the whole job. Empty if the client's encoding has no form for it, or if it is too large.
    /// `is_ours`: for one of our own clients. `is_whole`: with all entries.
    Data { namespace: Namespace, codec: Codec, bytes_max: usize, is_ours: bool, is_whole: bool },
    /// The node's topology, as it stands at the end of every job's information.
    Topology(Codec),
}

/// Why there is no reply. The reply has no place for a status, so the connection ends.
#[derive(Clone, Debug, thiserror::Error)]
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
        Self { kept_bytes_max, kept_bytes: 0, kept: Vec::new(), parted: Vec::new(), begun: Vec::new() }
    }

    /// Puts a request off if the description of its job is large and not written yet.
    pub(super) fn put_off(&mut self, request: DescriptionRequest, codec: &MessageCodec, store: &Store) -> PutOff {
        let namespace = request.namespace();
        let Some(reader) = store.shared_reader(namespace) else { return PutOff::No };
        let what = request.what(codec);
        if reader.described_parts() <= PARTS_AT_ONCE_MAX || self.kept.iter().any(|written| written.is_for(&what)) {
            return PutOff::No;
        }
        if let Some(begun) = self.begun.iter_mut().find(|begun| !begun.is_stale && begun.what == what) {
            begun.waiting.push(request);
            return PutOff::Behind;
        }
        let (namespace, reader) = (namespace.clone(), Arc::clone(reader));
        let data = match &request {
            DescriptionRequest::Info(..) => None,
            DescriptionRequest::Data(_, _, data) => Some(JobData { rest: AnswerData::NONE, ..data.clone() }),
        };
        self.begun.push(Begun { what: what.clone(), is_stale: false, waiting: vec![request] });
        PutOff::Begin(Description { what, namespace, data, codec: *codec, reader })
    }

    /// Keeps a description, and returns the requests that waited for it. They are asked again, unless there is an
    /// error.
    pub(super) fn settle(&mut self, described: Described) -> (Vec<DescriptionRequest>, Option<JobInfoError>) {
        let Described { what, bytes } = described;
        // Descriptions come in the order of their beginnings, so an outdated one comes first.
        let Some(place) = self.begun.iter().position(|begun| begun.what == what) else { return (Vec::new(), None) };
        let Begun { is_stale, waiting, .. } = self.begun.remove(place);
        match bytes {
            Ok(bytes) if !is_stale => self.keep(what, bytes),
            Ok(_) => {}
            Err(error) => return (waiting, Some(error)),
        }
        (waiting, None)
    }

    /// The payload of the reply for a peer with this dialect and limit, in parts. The part with the topology is the
    /// same for all jobs.
    pub(super) fn payload(
        &mut self,
        namespace: &Namespace,
        reading: Reading,
        store: &Store,
        topology: Option<&str>,
    ) -> Result<Vec<Arc<[u8]>>, JobInfoError> {
        let wanted = What::Job(namespace.clone(), reading);
        let job = self.found_or_written(wanted, || {
            let gone = || JobInfoError::Gone { namespace: namespace.clone() };
            write(namespace, reading, store.reader(namespace).ok_or_else(gone)?)
        })?;
        let job_bytes = job.len();
        let mut parts = vec![job];
        let (dialect, bytes_max) = reading;
        if let Some(xml) = topology.filter(|xml| has_room_for(xml, bytes_max)) {
            let unwritable = |source| JobInfoError::Encode { namespace: namespace.clone(), source };
            let common = || write_topology(dialect, xml).map_err(unwritable);
            let topology = self.found_or_written(What::Topology(dialect.codec), common)?;
            // Nodes and applications may have filled the reply. A reply that is too large would cost the client its
            // connection.
            if job_bytes.saturating_add(topology.len()) <= bytes_max {
                parts.push(topology);
            }
        }
        self.keep_at_most(self.kept_bytes_max);
        Ok(parts)
    }

    /// The payload of a reply to a Get that begins with the description of a job. The description is as large as the
    /// job, so it is written once for all clients with the same dialect. The values of processes behind it are written
    /// for each client.
    pub(super) fn data_payload(
        &mut self,
        data: &JobData,
        codec: &MessageCodec,
        store: &Store,
    ) -> Result<JobAnswer, Status> {
        let description = self.found_or_written(What::of_data(data, codec), || {
            let reader = store.reader(&data.namespace).ok_or(Status::ERR_NOT_FOUND)?;
            write_data(data, codec, reader).map_err(|error| error.status())
        })?;
        self.keep_at_most(self.kept_bytes_max);
        if description.is_empty() {
            return Err(Status::ERR_OUT_OF_RESOURCE);
        }
        let rest = match &data.rest {
            AnswerData::Unread(answer) => {
                return Ok(JobAnswer::Unread(description, answer.clone()));
            }
            AnswerData::Read(rest) if rest.is_empty() => None,
            AnswerData::Read(rest) => {
                let written = codec.write_rest(&Reply::Data(rest.clone()), Command::Get);
                Some(Arc::from(written.map_err(|_| Status::ERR_NOT_SUPPORTED)?))
            }
        };
        Ok(JobAnswer::Written(std::iter::once(description).chain(rest).collect()))
    }

    fn found_or_written<E>(
        &mut self,
        wanted: What,
        write: impl FnOnce() -> Result<Vec<u8>, E>,
    ) -> Result<Arc<[u8]>, E> {
        if let Some(found) = self.kept.iter().position(|written| written.is_for(&wanted)) {
            let written = self.kept.remove(found);
            let bytes = Arc::clone(&written.bytes);
            self.kept.push(written);
            return Ok(bytes);
        }
        let bytes: Arc<[u8]> = write()?.into();
        self.keep(wanted, Arc::clone(&bytes));
        Ok(bytes)
    }

    fn keep(&mut self, what: What, bytes: Arc<[u8]>) {
        tracing::debug!(%what, size_bytes = bytes.len(), "job information written");
        self.kept_bytes = self.kept_bytes.saturating_add(bytes.len());
        self.kept.push(Written { what, bytes });
    }

    /// Forgets the replies of a namespace, because its description changed.
    pub(super) fn forget(&mut self, namespace: &Namespace) {
        let forgotten: Vec<Written> = self.kept.extract_if(.., |written| written.what.is_about(namespace)).collect();
        forgotten.into_iter().for_each(|written| self.part(written));
        let outdated = self.begun.iter_mut().filter(|begun| begun.what.is_about(namespace));
        outdated.for_each(|begun| begun.is_stale = true);
    }

    /// Keeps no replies, because the memory is needed. Replies on their way stay.
    pub(super) fn give_way(&mut self) {
        self.keep_at_most(0);
    }

    /// Memory of the replies, in bytes: the kept ones, and those that a client has yet to take.
    pub(super) fn held_bytes(&mut self) -> usize {
        self.parted.retain(|payload| Arc::strong_count(payload) > 1);
        self.parted.iter().fold(self.kept_bytes, |bytes, payload| bytes.saturating_add(payload.len()))
    }

    /// Drops the least recently used replies.
    fn keep_at_most(&mut self, bytes_max: usize) {
        while self.kept_bytes > bytes_max && !self.kept.is_empty() {
            let oldest = self.kept.remove(0);
            self.part(oldest);
        }
    }

    fn part(&mut self, written: Written) {
        self.kept_bytes = self.kept_bytes.saturating_sub(written.bytes.len());
        self.parted.push(written.bytes);
    }
}

impl What {
    /// The answer to a Get with this data.
    fn of_data(data: &JobData, codec: &MessageCodec) -> Self {
        let (namespace, is_ours, is_whole) = (data.namespace.clone(), codec.is_ours(), data.is_whole);
        let (Dialect { codec, .. }, bytes_max) = codec.reading();
        Self::Data { namespace, codec, bytes_max, is_ours, is_whole }
    }

    fn is_about(&self, namespace: &Namespace) -> bool {
        match self {
            Self::Job(name, _) | Self::Data { namespace: name, .. } => name == namespace,
            Self::Topology(_) => false,
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Job(namespace, (dialect, _)) => write!(f, "job {namespace} for clients of {}", dialect.peer),
            Self::Data { namespace, .. } => write!(f, "all values of job {namespace}"),
            Self::Topology(_) => f.write_str("the topology"),
        }
    }
}

impl DescriptionRequest {
    /// The connection that waits.
    pub(super) const fn peer(&self) -> PeerId {
        match self {
            Self::Info(peer, ..) | Self::Data(peer, ..) => *peer,
        }
    }

    const fn namespace(&self) -> &Namespace {
        match self {
            Self::Info(_, _, namespace) | Self::Data(_, _, JobData { namespace, .. }) => namespace,
        }
    }

    fn what(&self, codec: &MessageCodec) -> What {
        match self {
            Self::Info(_, _, namespace) => What::Job(namespace.clone(), codec.reading()),
            Self::Data(_, _, data) => What::of_data(data, codec),
        }
    }
}

impl Description {
    pub(super) fn write(self) -> Described {
        let Self { what, namespace, data, codec, reader } = self;
        let bytes = match data {
            Some(data) => write_data(&data, &codec, &reader),
            None => write(&namespace, codec.reading(), &reader),
        };
        Described { what, bytes: bytes.map(Arc::from) }
    }
}

impl JobInfoError {
    /// The answer to a Get.
    pub(super) const fn status(&self) -> Status {
        match self {
            Self::Gone { .. } => Status::ERR_NOT_FOUND,
            Self::Damaged { .. } | Self::Encode { .. } => Status::ERROR,
        }
    }
}

impl Written {
    fn is_for(&self, wanted: &What) -> bool {
        match (&self.what, wanted) {
            (What::Topology(codec), What::Topology(wanted)) => codec == wanted,
            (What::Job(namespace, (own, own_bytes_max)), What::Job(wanted, (dialect, bytes_max))) => {
                // The limit decides which entries are left out. So a reply for a higher limit does not fit a lower one,
                // unless it is small enough to be complete for both.
                let is_whole = JobInfoWriter::has_room(self.bytes.len(), *bytes_max.min(own_bytes_max));
                let is_alike = own_bytes_max == bytes_max || is_whole;
                let speak_alike = own.codec == dialect.codec && JobInfoWriter::is_same_for(own.peer, dialect.peer);
                namespace == wanted && is_alike && speak_alike
            }
            (own @ What::Data { .. }, wanted) => own == wanted,
            _ => false,
        }
    }
}

/// The status and the description of a job. Empty if the client can't read it.
fn write_data(data: &JobData, codec: &MessageCodec, reader: &NamespaceReader) -> Result<Vec<u8>, JobInfoError> {
    let damaged = |source| JobInfoError::Damaged { namespace: data.namespace.clone(), source };
    let description = data.description(reader.job_entries().map_err(damaged)?);
    let written = codec.write_payload(&Reply::Data(vec![description]), Command::Get);
    let (_, bytes_max) = codec.reading();
    Ok(match written {
        Ok(payload) if payload.len() <= bytes_max => payload,
        Ok(payload) => {
            let size_bytes = payload.len();
            tracing::warn!(namespace = %data.namespace, size_bytes, bytes_max, "the description of a job is too large for a client");
            Vec::new()
        }
        Err(error) => {
            tracing::warn!(namespace = %data.namespace, %error, "the description of a job can't be written for a client");
            Vec::new()
        }
    })
}

/// Whether the topology may be part of a reply. It is in there twice, and both must fit into the quarter of a message
/// that processes leave free. A client can still request a larger one.
const fn has_room_for(xml: &str, message_bytes_max: usize) -> bool {
    xml.len() <= message_bytes_max / 8
}

/// The end of every job's information: the topology twice, as in OpenPMIx. Older clients know the second name.
fn write_topology(dialect: Dialect, xml: &str) -> Result<Vec<u8>, EncodeError> {
    let entry = |key: TypedKey<str>| Kval { key: Key::from_static(key.name()), value: Value::from(xml) };
    JobInfoWriter::common(dialect, &[keys::HWLOC_XML_V2, keys::LOCAL_TOPO].map(entry))
}

fn write(
    namespace: &Namespace,
    (dialect, message_bytes_max): Reading,
    reader: &NamespaceReader,
) -> Result<Vec<u8>, JobInfoError> {
    let named = || namespace.clone();
    let unwritable = |source| JobInfoError::Encode { namespace: named(), source };
    let (name, process_count) = (Text::from(namespace.as_str()), reader.described_ranks());
    let writer = JobInfoWriter::new(&name, dialect, message_bytes_max, process_count);
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
    Ok(writer.finish())
}

/// Largest number of processes and nodes in a description that the server's thread writes itself. Each takes up to 4
/// us.
const PARTS_AT_ONCE_MAX: u64 = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gds::registration::JobDescription;
    use crate::gds::{Datastore, StoreOptions};
    use crate::types::{Info, ProcId, Rank};

    use crate::bfrops::{DecodeLimits, Generation};
    use crate::proto::{RankData, Version, reply};

    const GENERATIONS: [Generation; 5] =
        [Generation::V3, Generation::V4, Generation::V41, Generation::V51, Generation::V61];

    fn written(answer: Result<JobAnswer, Status>) -> Vec<Arc<[u8]>> {
        match answer {
            Ok(JobAnswer::Written(parts)) => parts,
            other => panic!("{other:?}"),
        }
    }

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

    #[test]
    fn replies_are_named_for_the_log() {
        let namespace = Namespace::new("job").unwrap();
        let reading = MessageCodec::to_client(Dialect::OWN, 1 << 10, false);
        assert_eq!(What::Job(namespace.clone(), reading.reading()).to_string(), "job job for clients of 5.0.0");
        let (Dialect { codec, .. }, bytes_max) = reading.reading();
        let data = What::Data { namespace, codec, bytes_max, is_ours: false, is_whole: true };
        assert_eq!(data.to_string(), "all values of job job");
    }

    /// Each Get of a whole job was answered anew. In a job of 10^5 ranks, 40 KiB of such Gets kept the server busy for
    /// 55 seconds.
    #[test]
    fn the_answer_to_gets_of_a_whole_job_is_written_once_for_all_who_speak_alike() {
        let (namespace, store) = job(1000);
        let mut answers = JobInfoAnswers::new(32 << 20);
        let proc = ProcId::new(namespace.clone(), Rank::from(7));
        let rest = vec![RankData { proc, entries: vec![Kval { key: Key::from_static("a"), value: 1_u32.into() }] }];
        let alone = JobData { namespace: namespace.clone(), is_whole: false, rest: AnswerData::NONE };
        let with_rest = JobData { rest: AnswerData::Read(rest), ..alone.clone() };
        let (ours, theirs) = (
            MessageCodec::to_client(Dialect::OWN, 1 << 30, true),
            MessageCodec::to_client(Dialect::OWN, 1 << 30, false),
        );
        let first = written(answers.data_payload(&alone, &ours, &store));
        let second = written(answers.data_payload(&with_rest, &ours, &store));
        assert!(first.len() == 1 && second.len() == 2 && Arc::ptr_eq(&first[0], &second[0]));
        for (payload, data) in [(first, alone.clone()), (second, with_rest.clone())] {
            let read = reply::decode(&payload.concat(), Command::Get, Dialect::OWN, &DecodeLimits::default());
            assert_eq!(read.unwrap(), data.into_reply(&store));
        }
        let of_theirs = written(answers.data_payload(&alone, &theirs, &store));
        let all = written(answers.data_payload(&JobData { is_whole: true, ..alone.clone() }, &theirs, &store));
        assert!(!Arc::ptr_eq(&all[0], &of_theirs[0]) && all[0].len() > of_theirs[0].len());
        let little = MessageCodec::to_client(Dialect::OWN, 1 << 10, true);
        let kept_bytes = answers.kept_bytes;
        assert_eq!(answers.data_payload(&alone, &little, &store), Err(Status::ERR_OUT_OF_RESOURCE));
        assert_eq!(answers.kept_bytes, kept_bytes, "that it is too large is kept, the bytes are not");
        answers.forget(&namespace);
        assert!(answers.kept.is_empty());
    }

    /// The first Get of all data of a job of 10^5 processes delayed all clients by 400 ms. The server's own thread
    /// wrote the answer. A large description is now written once, by another thread.
    #[test]
    fn the_description_of_a_large_job_is_written_elsewhere_and_once() {
        let (namespace, store) = job(5000);
        let mut answers = JobInfoAnswers::new(32 << 20);
        let codec = MessageCodec::to_client(Dialect::OWN, 1 << 30, true);
        let data = JobData { namespace: namespace.clone(), is_whole: false, rest: AnswerData::NONE };
        let of_data = |peer| DescriptionRequest::Data(PeerId(peer), Tag(101), data.clone());
        let of_info = |peer| DescriptionRequest::Info(PeerId(peer), Tag(101), namespace.clone());
        for (request, kept) in [(&of_data as &dyn Fn(u64) -> DescriptionRequest, 1), (&of_info, 2)] {
            let PutOff::Begin(description) = answers.put_off(request(1), &codec, &store) else { panic!("at once") };
            assert!(matches!(answers.put_off(request(2), &codec, &store), PutOff::Behind));
            let (requests, error) = answers.settle(description.write());
            assert!(error.is_none());
            assert_eq!(requests.iter().map(DescriptionRequest::peer).collect::<Vec<_>>(), [PeerId(1), PeerId(2)]);
            assert!(matches!(answers.put_off(request(3), &codec, &store), PutOff::No));
            assert_eq!(answers.kept.len(), kept);
        }
        let (small, small_store) = job(2);
        let request = DescriptionRequest::Info(PeerId(1), Tag(101), small);
        assert!(matches!(answers.put_off(request, &codec, &small_store), PutOff::No));
    }

    /// A job may be described anew while its description is written. Later requests must not get the old one.
    #[test]
    fn a_description_that_became_outdated_while_it_was_written_answers_no_question() {
        let (namespace, store) = job(5000);
        let mut answers = JobInfoAnswers::new(32 << 20);
        let codec = MessageCodec::to_client(Dialect::OWN, 1 << 30, true);
        let request = |peer| DescriptionRequest::Info(PeerId(peer), Tag(101), namespace.clone());
        let PutOff::Begin(first) = answers.put_off(request(1), &codec, &store) else { panic!("at once") };
        answers.forget(&namespace);
        let PutOff::Begin(second) = answers.put_off(request(2), &codec, &store) else { panic!("behind the old one") };
        let mut settled = |description: Description| answers.settle(description.write()).0;
        assert_eq!(settled(first).iter().map(DescriptionRequest::peer).collect::<Vec<_>>(), [PeerId(1)]);
        assert!(answers.kept.is_empty() && answers.begun.len() == 1);
        assert_eq!(answers.settle(second.write()).0.len(), 1);
        assert!(matches!(answers.put_off(request(1), &codec, &store), PutOff::No));
    }

    /// The first request decided for all: a client with a lower limit could not start after one with a higher limit.
    #[test]
    fn an_answer_is_not_for_one_who_takes_less_whoever_asks_first() {
        let (namespace, store) = job(1000);
        let (much, little) = ((Dialect::OWN, 32 << 20), (Dialect::OWN, 40 << 10));
        for order in [[much, little], [little, much]] {
            let mut answers = JobInfoAnswers::new(1 << 20);
            let mut size_bytes = |reading| size_of(&answers.payload(&namespace, reading, &store, None).unwrap());
            assert!(order.into_iter().all(|reading| size_bytes(reading) > 0));
            assert!(size_bytes(much) > 40 << 10, "everything is told to one who takes it");
            assert!(size_bytes(little) <= 40 << 10, "{}", size_bytes(little));
        }
    }

    /// One client that used another dialect with each connection made the server keep all replies.
    #[test]
    fn answers_in_every_tongue_are_kept_as_far_as_there_is_room_and_counted_as_long_as_anybody_takes_them() {
        let (namespace, store) = job(1000);
        let limit = 32 << 20;
        let reader = store.reader(&namespace).unwrap();
        let one = write(&namespace, (speaking(Generation::V3), limit), reader).unwrap().len();
        let mut answers = JobInfoAnswers::new(one * 5 / 2);
        let mut taken = Vec::new();
        for generation in GENERATIONS {
            taken.extend(answers.payload(&namespace, (speaking(generation), limit), &store, None).unwrap());
            assert!(answers.kept_bytes <= one * 5 / 2 && !answers.kept.is_empty(), "{}", answers.kept_bytes);
        }
        let all: usize = taken.iter().map(|payload| payload.len()).sum();
        assert_eq!(answers.held_bytes(), all, "somebody has yet to take each");
        taken.drain(..4);
        assert_eq!(answers.held_bytes(), answers.kept_bytes);
        let again = answers.payload(&namespace, (speaking(Generation::V61), limit), &store, None).unwrap().remove(0);
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
        let reader = store.reader(&namespace).unwrap();
        let one = write(&namespace, (speaking(Generation::V41), limit), reader).unwrap().len();
        let mut answers = JobInfoAnswers::new(one * 5 / 2);
        let mut ask =
            |generation| answers.payload(&namespace, (speaking(generation), limit), &store, None).unwrap().remove(0);
        let first = ask(Generation::V4);
        let second = ask(Generation::V41);
        assert!(Arc::ptr_eq(&first, &ask(Generation::V4)));
        let third = ask(Generation::V51);
        assert!(Arc::ptr_eq(&first, &ask(Generation::V4)) && Arc::ptr_eq(&third, &ask(Generation::V51)));
        assert!(!Arc::ptr_eq(&second, &ask(Generation::V41)));
    }

    /// A client before the topology was known decided for all later ones.
    #[test]
    fn the_topology_is_told_as_soon_as_it_is_known() {
        let (namespace, store) = job(2);
        let mut answers = JobInfoAnswers::new(32 << 20);
        let mut ask = |topology| answers.payload(&namespace, (Dialect::OWN, 16 << 20), &store, topology).unwrap();
        let without = ask(None);
        let with = ask(Some("<topology/>"));
        assert!(size_of(&with) > size_of(&without) + 2 * "<topology/>".len());
        assert!(are_same(&with, &ask(Some("<topology/>"))) && are_same(&without, &ask(None)));
        assert!(are_same(&without, &with[..1]), "the job's part is the same");
    }

    /// The connection ended instead of leaving the topology out.
    #[test]
    fn the_topology_is_left_out_where_the_job_leaves_no_room_for_it() {
        let namespace = Namespace::new("job").unwrap();
        let mut store = Store::new(StoreOptions::new("srv.0".to_owned(), "n0"));
        let bytes_max = 64 << 10;
        let text = Info::new(Key::from_static("site.text"), "x".repeat(bytes_max / 8 * 7));
        store.register(&namespace, &[text]).unwrap();
        let mut answers = JobInfoAnswers::new(32 << 20);
        let mut ask =
            |bytes_max, xml: &str| answers.payload(&namespace, (Dialect::OWN, bytes_max), &store, Some(xml)).unwrap();
        let large = "x".repeat(bytes_max / 8);
        let parts = ask(bytes_max, &large);
        assert!(parts.len() == 1 && (bytes_max / 8 * 7..bytes_max).contains(&size_of(&parts)), "{}", size_of(&parts));
        assert_eq!(ask(bytes_max * 2, &large).len(), 2);
        let whole_bytes = size_of(&ask(bytes_max * 2, &large));
        assert_eq!(ask(whole_bytes, &large).len(), 2, "it just fits");
        assert_eq!(ask(whole_bytes - 1, &large).len(), 1);
    }

    /// A server with many jobs had megabytes of the same text for each job and each release.
    #[test]
    fn the_topology_is_written_once_for_all_jobs_whose_clients_speak_alike() {
        let xml = "x".repeat(1 << 20);
        let mut store = Store::new(StoreOptions::new("srv.0".to_owned(), "n0"));
        let jobs = ["one", "two", "three"].map(|name| Namespace::new(name).unwrap());
        let mut answers = JobInfoAnswers::new(32 << 20);
        let mut taken = Vec::new();
        for namespace in &jobs {
            let ranks = std::iter::once(0..2);
            let description = JobDescription::new(namespace).nodes(["n0"]).ranks_by_node(ranks).build().unwrap();
            store.register(namespace, &description).unwrap();
            for generation in [Generation::V41, Generation::V61] {
                let reading = (speaking(generation), 32 << 20);
                taken.push(answers.payload(namespace, reading, &store, Some(&xml)).unwrap());
            }
        }
        let texts = 2 * 2 * xml.len();
        assert!((texts..texts + (100 << 10)).contains(&answers.held_bytes()), "{}", answers.held_bytes());
        assert!(Arc::ptr_eq(&taken[0][1], &taken[4][1]) && !Arc::ptr_eq(&taken[0][1], &taken[1][1]));
        assert!(taken.iter().all(|parts| size_of(parts) > 2 * xml.len()));
        jobs.iter().for_each(|namespace| answers.forget(namespace));
        answers.give_way();
        assert!(answers.held_bytes() >= texts, "somebody has yet to take it");
        drop(taken);
        assert_eq!(answers.held_bytes(), 0);
    }

    /// The same megabytes were written a second time.
    #[test]
    fn one_answer_is_for_all_whose_limits_leave_nothing_out() {
        let (namespace, store) = job(1000);
        let mut answers = JobInfoAnswers::new(32 << 20);
        let mut ask =
            |bytes_max, topology| answers.payload(&namespace, (Dialect::OWN, bytes_max), &store, topology).unwrap();
        let first = ask(16 << 20, None);
        assert!(are_same(&first, &ask(32 << 20, None)) && are_same(&first, &ask(1 << 30, None)));
        let xml = "x".repeat(3 << 20);
        let without = ask(17 << 20, Some(&xml));
        assert!(size_of(&ask(1 << 30, Some(&xml))) > size_of(&without) + (6 << 20));
        assert_eq!(Version::new(3, 2, 5).message_bytes_max(), 16 << 20);
    }

    fn size_of(parts: &[Arc<[u8]>]) -> usize {
        parts.iter().map(|part| part.len()).sum()
    }

    fn are_same(one: &[Arc<[u8]>], other: &[Arc<[u8]>]) -> bool {
        one.len() == other.len() && one.iter().zip(other).all(|(one, other)| Arc::ptr_eq(one, other))
    }
}
