//! Job information on its way to a peer that does not read segments.

use super::fitting::{pack_entry, pack_process, pack_values};
use super::{Dialect, Version};
use crate::bfrops::wire::CompulsoryString;
use crate::bfrops::{EncodeError, Writer};
use crate::keys;
use crate::types::{Info, Key, Kval, Rank, Text, Value};

/// Writes the answer to a request for job information entry by entry.
///
/// Values of processes are left out where the answer would become larger than the peer accepts. The peer requests the
/// missing ones, except the node and the application of each process: they go first.
#[derive(Debug)]
pub struct JobInfoWriter {
    writer: Writer,
    peer: Version,
    /// No process is added to an answer of this size.
    full_bytes: usize,
    /// Processes that are still to come, at most.
    pending_count: usize,
    /// The most bytes of a process with all values so far.
    whole_bytes_max: usize,
    /// Memory for the values of one process.
    buffer: Vec<u8>,
}

impl JobInfoWriter {
    /// Begins an answer about a job with this number of processes, for a peer that takes payloads of this size.
    ///
    /// # Errors
    /// [`EncodeError`] for a name longer than a message can carry.
    pub fn new(
        namespace: &Text,
        dialect: Dialect,
        message_bytes_max: usize,
        process_count: usize,
    ) -> Result<Self, EncodeError> {
        let mut writer = Writer::new(dialect.codec);
        writer.pack::<CompulsoryString>(namespace)?;
        let full_bytes = full_bytes(message_bytes_max);
        let (peer, pending_count) = (dialect.peer, process_count);
        Ok(Self { writer, peer, full_bytes, pending_count, whole_bytes_max: 0, buffer: Vec::new() })
    }

    /// Whether an answer of this size is complete for certain, for a peer that takes payloads of `message_bytes_max`.
    #[must_use]
    pub const fn has_room(size_bytes: usize, message_bytes_max: usize) -> bool {
        size_bytes < full_bytes(message_bytes_max) - reserved_bytes_max(full_bytes(message_bytes_max))
    }

    /// Adds an entry, as far as the peer has types for it.
    ///
    /// # Errors
    /// [`EncodeError`] for a value that no peer could read.
    pub fn push(&mut self, entry: &Kval) -> Result<(), EncodeError> {
        pack_job_entry(&mut self.writer, entry, self.peer)
    }

    /// Adds a job's information about sessions other than its own, if the peer may be our own client. Over TCP our
    /// clients can't be told from those of the release that they name, which find one more key among the job's.
    ///
    /// # Errors
    /// As [`JobInfoWriter::push`].
    pub fn push_other_sessions(&mut self, entry: &Kval) -> Result<(), EncodeError> {
        if knows_other_sessions(self.peer) { pack_entry(&mut self.writer, entry) } else { Ok(()) }
    }

    /// Adds the values of a process, as far as the peer has types for them, and as far as there is room.
    ///
    /// # Errors
    /// As [`JobInfoWriter::push`].
    pub fn push_process<'a>(
        &mut self,
        rank: u32,
        values: impl IntoIterator<Item = &'a Kval>,
    ) -> Result<(), EncodeError> {
        self.pending_count = self.pending_count.saturating_sub(1);
        let size_bytes = self.writer.size_bytes();
        if size_bytes >= self.full_bytes {
            return Ok(());
        }
        let reserved_bytes = self.pending_count.saturating_mul(BRIEF_BYTES).min(reserved_bytes_max(self.full_bytes));
        let is_whole = size_bytes.saturating_add(self.whole_bytes_max).saturating_add(reserved_bytes) < self.full_bytes;
        let values = values.into_iter().filter(|value| is_whole || LOOKED_UP.contains(&value.key.as_str()));
        pack_values(&mut self.writer, &mut self.buffer, Rank::from(rank), values)?;
        self.whole_bytes_max = self.whole_bytes_max.max(self.writer.size_bytes().saturating_sub(size_bytes));
        Ok(())
    }

    /// Entries that are equal in the answers of all namespaces, packed for the end of each answer.
    ///
    /// # Errors
    /// As [`JobInfoWriter::push`].
    pub fn common<'a>(dialect: Dialect, entries: impl IntoIterator<Item = &'a Kval>) -> Result<Vec<u8>, EncodeError> {
        let mut writer = Writer::new(dialect.codec);
        entries.into_iter().try_for_each(|entry| pack_job_entry(&mut writer, entry, dialect.peer))?;
        Ok(writer.into_bytes())
    }

    /// The answer's payload.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        self.writer.into_bytes()
    }

    /// Whether two peers with the same encoding and limit get the same bytes, too.
    #[must_use]
    pub fn is_same_for(first: Version, second: Version) -> bool {
        reads_session_arrays(first) == reads_session_arrays(second)
            && knows_other_sessions(first) == knows_other_sessions(second)
    }
}

/// A quarter stays free: a process is small, and the values that follow are no processes.
const fn full_bytes(message_bytes_max: usize) -> usize {
    message_bytes_max / 4 * 3
}

/// The part of an answer that values of [`LOOKED_UP`] may have for themselves.
const fn reserved_bytes_max(full_bytes: usize) -> usize {
    full_bytes / 2
}

/// Values of a process that clients of OpenPMIx only look up: `get_data` of `pmix_client_get.c` asks no server for
/// them. Such a client needs them for the values of the process's node and application, too.
const LOOKED_UP: [&str; 3] = [keys::HOSTNAME.name(), keys::NODEID.name(), keys::APPNUM.name()];
/// The bytes of these values of a process, if the node's name has up to 29 letters.
const BRIEF_BYTES: usize = 96;

/// Whether an entry of a job's information is sent. The maps of nodes and processes stay here, as at the reference's
/// servers: the entries of nodes and processes hold the same facts. A client of release 4.2 that can't copy a map's
/// form forgets all entries after it.
#[must_use]
pub fn is_for_peers(entry: &Kval) -> bool {
    !matches!(entry.value, Value::Regex(_)) && !MAPS.contains(&entry.key.as_str())
}

/// One entry of a job's information.
pub(super) fn pack_job_entry(writer: &mut Writer, entry: &Kval, peer: Version) -> Result<(), EncodeError> {
    if !is_for_peers(entry) {
        return Ok(());
    }
    match session_infos(entry) {
        Some(infos) if !reads_session_arrays(peer) => infos
            .map(|info| Kval { key: info.key.clone(), value: info.value.clone() })
            .try_for_each(|member| pack_entry(writer, &member)),
        _ if pack_process(writer, entry)? => Ok(()),
        _ => pack_entry(writer, entry),
    }
}

fn session_infos(entry: &Kval) -> Option<impl Iterator<Item = &Info>> {
    let elements = match &entry.value {
        Value::DataArray(array) if entry.key == Key::from_static(SESSION_ARRAY) => &array.elements,
        _ => return None,
    };
    Some(elements.iter().filter_map(|element| match element {
        Value::Info(info) => Some(&**info),
        _ => None,
    }))
}

/// Releases before 4.2 look for the session's values among those of the job.
fn reads_session_arrays(peer: Version) -> bool {
    peer >= Version::new(4, 2, 0)
}

/// Our own clients name only their release.
fn knows_other_sessions(peer: Version) -> bool {
    peer == Version::OWN
}

const SESSION_ARRAY: &str = "pmix.ssn.arr";
const MAPS: [&str; 2] = ["pmix.nmap", "pmix.pmap"];

#[cfg(test)]
mod tests {
    use super::super::fitting::PROC_DATA;
    use super::*;
    use crate::bfrops::wire::CompulsoryString as Name;
    use crate::bfrops::{Codec, DecodeLimits, Generation, Reader};

    fn entry(key: &'static str, value: impl Into<Value>) -> Kval {
        Kval { key: Key::from_static(key), value: value.into() }
    }

    fn process(rank: u32) -> Kval {
        let infos = vec![
            Info::new(Key::from_static("pmix.rank"), Rank::from(rank)),
            Info::new(Key::from_static("pmix.nodeid"), rank / 2),
        ];
        entry(PROC_DATA, Value::info_array(infos))
    }

    fn dialect(generation: Generation, peer: Version) -> Dialect {
        Dialect { codec: Codec { generation, described: false }, peer }
    }

    /// Entries that a peer reads after the namespace.
    fn read(bytes: &[u8], dialect: Dialect) -> Vec<Kval> {
        let mut reader = Reader::new(bytes, dialect.codec, &DecodeLimits::default()).unwrap();
        assert_eq!(reader.unpack::<Name>("namespace").unwrap(), Text::from("job"));
        reader.unpack_rest::<crate::bfrops::wire::Kval>("entry").unwrap()
    }

    fn written(entries: &[Kval], dialect: Dialect) -> Vec<Kval> {
        let mut writer = JobInfoWriter::new(&Text::from("job"), dialect, 32 << 20, 0).unwrap();
        entries.iter().for_each(|entry| writer.push(entry).unwrap());
        read(&writer.finish(), dialect)
    }

    #[test]
    fn processes_are_packed_as_the_rank_and_its_values() {
        for (generation, peer) in [(Generation::V3, Version::new(3, 2, 5)), (Generation::V61, Version::new(6, 1, 1))] {
            let dialect = dialect(generation, peer);
            let [Kval { key, value: Value::ByteObject(bytes) }] = &written(&[process(7)], dialect)[..] else {
                panic!()
            };
            assert_eq!(key.as_str(), "pmix.pblob");
            let mut reader = Reader::new(bytes, dialect.codec, &DecodeLimits::default()).unwrap();
            assert_eq!(reader.unpack::<Rank>("rank").unwrap(), Rank::from(7));
            let values = reader.unpack_rest::<crate::bfrops::wire::Kval>("value").unwrap();
            assert_eq!(values, [entry("pmix.nodeid", 3_u32)]);
        }
    }

    #[test]
    fn entries_common_to_all_answers_read_like_pushed_entries() {
        for generation in Generation::ALL.iter().copied() {
            for described in [false, true] {
                let dialect = Dialect { codec: Codec { generation, described }, peer: Version::OWN };
                let (own, common) = (entry("pmix.univ.size", 4_u32), [entry("a", "text"), entry("b", 5_u32)]);
                let mut writer = JobInfoWriter::new(&Text::from("job"), dialect, 32 << 20, 0).unwrap();
                writer.push(&own).unwrap();
                let bytes = [writer.finish(), JobInfoWriter::common(dialect, &common).unwrap()].concat();
                assert_eq!(read(&bytes, dialect), [&[own], &common[..]].concat());
            }
        }
    }

    #[test]
    fn releases_before_4_2_find_the_sessions_values_among_those_of_the_job() {
        let session = Value::info_array(vec![Info::new(Key::from_static("pmix.univ.size"), 4_u32)]);
        let entries = [entry(SESSION_ARRAY, session)];
        assert_eq!(written(&entries, dialect(Generation::V41, Version::new(4, 2, 2))), entries);
        let old = written(&entries, dialect(Generation::V3, Version::new(3, 2, 5)));
        assert_eq!(old, [entry("pmix.univ.size", 4_u32)]);
    }

    /// Regression: the values of all processes of a job of 10 000 ranks were missing, because its map is compressed.
    #[test]
    fn maps_are_not_sent() {
        let maps = [entry("pmix.nmap", Value::Regex(b"raw:a,b\0".to_vec())), entry("pmix.pmap", "0;1")];
        let rest = [entry("pmix.job.size", 2_u32)];
        let sent = written(&[&maps[..], &rest].concat(), dialect(Generation::V41, Version::new(4, 2, 2)));
        assert_eq!(sent, rest);
    }

    /// The values of each process in an answer to a peer that takes `bytes_max`, for a job of such processes.
    fn processes_of(process_count: u32, bytes_max: usize) -> (usize, Vec<Vec<String>>) {
        let dialect = dialect(Generation::V41, Version::new(5, 0, 0));
        let count = usize::try_from(process_count).unwrap();
        let mut writer = JobInfoWriter::new(&Text::from("job"), dialect, bytes_max, count).unwrap();
        let values = [
            entry("pmix.hname", "a-node-of-16-let"),
            entry("pmix.nodeid", 100_000_u32),
            entry("pmix.appnum", 0_u32),
            entry("pmix.fab.endpt", "x".repeat(300)),
        ];
        (0..process_count).for_each(|rank| writer.push_process(rank, &values).unwrap());
        writer.push(&entry("last", 1_u32)).unwrap();
        let bytes = writer.finish();
        let mut entries = read(&bytes, dialect);
        assert_eq!(entries.pop(), Some(entry("last", 1_u32)));
        let keys_of = |process: Kval| {
            let Value::ByteObject(values) = process.value else { panic!("{process:?}") };
            let mut reader = Reader::new(&values, dialect.codec, &DecodeLimits::default()).unwrap();
            reader.unpack::<Rank>("rank").unwrap();
            let values = reader.unpack_rest::<crate::bfrops::wire::Kval>("value").unwrap();
            values.into_iter().map(|value| value.key.as_str().to_owned()).collect()
        };
        (bytes.len(), entries.into_iter().map(keys_of).collect())
    }

    /// A client closes the connection on a message too large for it, and can't start.
    #[test]
    fn processes_are_left_out_before_the_answer_is_too_large() {
        let (size_bytes, processes) = processes_of(10_000, 64 << 10);
        assert!((48 << 10..49 << 10).contains(&size_bytes), "{size_bytes} bytes");
        assert!((100..10_000).contains(&processes.len()), "{}", processes.len());
        assert!(processes[..50].iter().all(|keys| keys.len() == 4), "others than the server may read the first half");
    }

    /// Regression: clients of OpenPMIx's main line (August 2026) found no node of the last 27,000 of 96,000 ranks. They
    /// look its name and number up among the values that they have, and request neither.
    #[test]
    fn the_nodes_of_all_processes_stand_in_an_answer_without_room_for_all_values() {
        let bytes_max = 64 << 10;
        let (size_bytes, processes) = processes_of(250, bytes_max);
        assert!(size_bytes < bytes_max / 4 * 3 && processes.len() == 250, "{size_bytes} bytes, {}", processes.len());
        let whole_count = processes.iter().filter(|keys| keys.len() == 4).count();
        assert!((50..150).contains(&whole_count), "{whole_count}");
        assert!(processes.iter().all(|keys| keys[..3] == ["pmix.hname", "pmix.nodeid", "pmix.appnum"]));
        assert!(!JobInfoWriter::has_room(size_bytes, bytes_max), "the answer is not complete");
        let (size_bytes, processes) = processes_of(110, bytes_max);
        assert!(processes.len() == 110 && processes.iter().all(|keys| keys.len() == 4), "{size_bytes} bytes");
    }

    /// A client of 4.2 to 6.1 stops reading at the array of a second session. A client of 3.2 takes the array for that
    /// of its own job.
    #[test]
    fn other_sessions_are_told_to_those_alone_that_name_our_release() {
        let sessions = entry("modex.sessions", Value::info_array(vec![Info::new(Key::from_static("s"), 1_u32)]));
        let releases =
            [(3, 2, 5), (4, 2, 2), (5, 0, 1), (6, 1, 1)].map(|(major, minor, patch)| Version::new(major, minor, patch));
        for peer in releases.into_iter().chain([Version::OWN]) {
            let packed = |entries: &[&Kval]| {
                let mut writer =
                    JobInfoWriter::new(&Text::from("job"), dialect(Generation::V41, peer), 1 << 20, 0).unwrap();
                entries.iter().for_each(|entry| writer.push_other_sessions(entry).unwrap());
                writer.finish()
            };
            let is_sent = packed(&[&sessions]) != packed(&[]);
            assert_eq!(is_sent, peer == Version::OWN, "{peer:?}");
            assert_eq!(JobInfoWriter::is_same_for(Version::OWN, peer), peer == Version::OWN, "{peer:?}");
        }
        assert!(JobInfoWriter::is_same_for(Version::new(4, 2, 2), Version::new(6, 1, 1)));
        assert!(!JobInfoWriter::is_same_for(Version::new(3, 2, 5), Version::new(4, 2, 2)), "arrays of a session");
    }
}
