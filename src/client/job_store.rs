//! Job data received over the socket, kept in the form of segments.

use crate::gds::registration::{Context, ReceivedJob};
use crate::gds::{Datastore, NamespaceReader, OTHER_SESSIONS, Store, StoreError, StoreOptions};
use crate::keys;
use crate::proto::{Dialect, RankData, job_blob};
use crate::types::{Key, Kval, Namespace, ProcId, Rank, Value};

/// Job data of a server, in segments that only this process has.
///
/// So a Get is the same search whether the server shares memory or not: over the same structures and without a lock.
/// The copy is incomplete: the server may have values that are missing here.
#[derive(Debug)]
pub struct JobStore {
    store: Store,
    context: Context,
}

impl JobStore {
    /// An empty store. `hostname` is the server's name for this node: values of "the" node are those of the node with
    /// that name.
    #[must_use]
    pub fn new(hostname: &str) -> Self {
        let options = StoreOptions::private(hostname);
        let context = options.registration.clone();
        Self { store: Store::new(options), context }
    }

    /// Takes a server's data about a job. Older data stays unless newer data replaces it.
    ///
    /// # Errors
    /// [`StoreError`] when the parts contradict each other, or there is no memory left. The old data stays.
    pub fn receive(&mut self, namespace: &Namespace, entries: &[Kval], dialect: Dialect) -> Result<(), StoreError> {
        let mut job = ReceivedJob::new(namespace.clone());
        for entry in entries {
            unpack(&mut job, namespace, entry, dialect);
        }
        let previous = self.store.reader(namespace).map(NamespaceReader::job_record).transpose()?;
        let record = job.into_record(&self.context, previous.as_ref())?;
        self.store.register_record(namespace, &record)?;
        Ok(())
    }

    /// Removes the data of a job. Existing readers stay valid.
    pub fn forget(&mut self, namespace: &Namespace) {
        self.store.deregister(namespace);
    }

    /// A reader of a job's present and future data; `None` if there is none yet.
    #[must_use]
    pub fn reader(&self, namespace: &Namespace) -> Option<NamespaceReader> {
        let handle = self.store.reader(namespace)?.segment().handle();
        NamespaceReader::attach(handle).ok()
    }

    /// The values among the entries of a job that can't be stored: those of the job itself and of each process.
    #[must_use]
    pub fn spread(job: &ProcId, entries: &[Kval], dialect: Dialect) -> Vec<RankData> {
        const PROCESS: &str = keys::PROC_BLOB.name();
        const ARRAY: &str = keys::PROC_DATA.name();
        let of = |rank: Rank, entries| RankData { proc: ProcId { namespace: job.namespace.clone(), rank }, entries };
        let loose = entries.iter().filter(|entry| !Self::is_structured(&entry.key)).cloned().collect();
        let processes = entries.iter().filter_map(|entry| match (entry.key.as_str(), &entry.value) {
            (PROCESS, Value::ByteObject(blob)) => {
                let (rank, entries) = job_blob::decode_process(blob, dialect).ok()?;
                Some(of(Rank::from(rank), entries))
            }
            (ARRAY, Value::DataArray(array)) => {
                let entries: Vec<Kval> = array.elements.iter().filter_map(kval_of).collect();
                let rank = entries.iter().find(|entry| entry.key.as_str() == keys::RANK.name())?.value.as_u32()?;
                Some(of(Rank::from_raw(rank).ok()?, entries))
            }
            _ => None,
        });
        std::iter::once(of(Rank::Wildcard, loose)).chain(processes).collect()
    }

    /// Whether an entry describes parts of the job and needs this store to be taken apart.
    #[must_use]
    pub fn is_structured(key: &Key) -> bool {
        STRUCTURED.contains(&key.as_str())
    }
}

/// Keys of entries that hold other entries.
const STRUCTURED: [&str; 8] = [
    OTHER_SESSIONS,
    keys::SESSION_INFO_ARRAY.name(),
    keys::JOB_INFO_ARRAY.name(),
    keys::APP_INFO_ARRAY.name(),
    keys::NODE_INFO_ARRAY.name(),
    keys::PROC_DATA.name(),
    keys::PROC_BLOB.name(),
    keys::MAP_BLOB.name(),
];

fn kval_of(element: &Value) -> Option<Kval> {
    match element {
        Value::Info(info) => Some(Kval { key: info.key.clone(), value: info.value.clone() }),
        _ => None,
    }
}

/// Files an entry, unpacked if it is packed. An unreadable entry is left out: a request to the server may find it.
fn unpack(job: &mut ReceivedJob, namespace: &Namespace, entry: &Kval, dialect: Dialect) {
    const PROCESS: &str = keys::PROC_BLOB.name();
    const MAP: &str = keys::MAP_BLOB.name();
    match (entry.key.as_str(), &entry.value) {
        (PROCESS, Value::ByteObject(blob)) => match job_blob::decode_process(blob, dialect) {
            Ok((rank, entries)) => job.process(rank, entries),
            Err(error) => tracing::warn!(%namespace, %error, "the server's data of a process can't be read"),
        },
        (MAP, Value::ByteObject(blob)) => match job_blob::decode_map(blob, dialect) {
            Ok(nodes) => nodes.into_iter().for_each(|(hostname, ranks)| job.node_ranks(hostname, ranks)),
            Err(error) => tracing::warn!(%namespace, %error, "the server's map of the job can't be read"),
        },
        _ => job.entry(entry.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gds::{KeyRef, Lookup, RealmRequest};
    use crate::types::{Info, Rank};

    fn kval(key: &'static str, value: impl Into<Value>) -> Kval {
        Kval { key: Key::from_static(key), value: value.into() }
    }

    fn get(reader: &NamespaceReader, rank: impl Into<Rank>, key: &str) -> Option<Value> {
        let lookup = Lookup { rank: rank.into(), key: KeyRef::new(key), realm: RealmRequest::Default, audience: None };
        reader.get(&lookup).ok().map(|value| value.to_value().unwrap())
    }

    #[test]
    fn a_later_description_adds_to_an_earlier_one() {
        let namespace = Namespace::new("job").unwrap();
        let mut store = JobStore::new("node0");
        assert!(store.reader(&namespace).is_none());
        let node = vec![
            Info::new(Key::from_static("pmix.hname"), "node0"),
            Info::new(Key::from_static("pmix.local.size"), 2_u32),
        ];
        let told = [
            kval("pmix.job.size", 2_u32),
            kval("pmix.node.arr", Value::info_array(node)),
            kval("pmix.pblob", Value::ByteObject(b"\x02\x01\x02\x16pmix.lrank\0\x0d\x01".to_vec())),
            kval("pmix.pblob", Value::ByteObject(b"damaged".to_vec())),
        ];
        store.receive(&namespace, &told, Dialect::OWN).unwrap();
        let reader = store.reader(&namespace).unwrap();
        assert_eq!(get(&reader, Rank::Wildcard, "pmix.job.size"), Some(Value::Uint32(2)));
        assert_eq!(get(&reader, Rank::Wildcard, "pmix.local.size"), Some(Value::Uint32(2)));
        assert_eq!(get(&reader, 1, "pmix.lrank"), Some(Value::Uint16(1)));
        store.receive(&namespace, &[kval("pmix.univ.size", 9_u32)], Dialect::OWN).unwrap();
        assert_eq!(get(&reader, Rank::Wildcard, "pmix.univ.size"), Some(Value::Uint32(9)));
        assert_eq!(get(&reader, 1, "pmix.lrank"), Some(Value::Uint16(1)));
        store.forget(&namespace);
        assert!(store.reader(&namespace).is_none());
        store.receive(&namespace, &[kval("pmix.univ.size", 9_u32)], Dialect::OWN).unwrap();
        assert_eq!(get(&store.reader(&namespace).unwrap(), Rank::Wildcard, "pmix.job.size"), None);
        assert_eq!(get(&reader, Rank::Wildcard, "pmix.job.size"), Some(Value::Uint32(2)));
    }

    #[test]
    fn a_job_that_contradicts_itself_is_refused_and_its_values_can_be_had_all_the_same() {
        let job = ProcId::new(Namespace::new("job").unwrap(), Rank::Wildcard);
        let process = vec![
            Info::new(Key::from_static("pmix.rank"), Rank::Process(7)),
            Info::new(Key::from_static("pmix.lrank"), 3_u16),
        ];
        let told = [
            kval("pmix.job.size", 2_u32),
            kval("pmix.pdata", Value::info_array(process)),
            kval("pmix.pblob", Value::ByteObject(b"\x02\x01\x02\x16pmix.lrank\0\x0d\x01".to_vec())),
        ];
        let mut store = JobStore::new("node0");
        assert!(store.receive(&job.namespace, &told, Dialect::OWN).is_err());
        let spread = JobStore::spread(&job, &told, Dialect::OWN);
        let find = |rank: Rank, key: &str| {
            let of = spread.iter().find(|of| of.proc.rank == rank)?;
            of.entries.iter().find(|entry| entry.key.as_str() == key).map(|entry| entry.value.clone())
        };
        assert_eq!(find(Rank::Wildcard, "pmix.job.size"), Some(Value::Uint32(2)));
        assert_eq!(find(Rank::Process(7), "pmix.lrank"), Some(Value::Uint16(3)));
        assert_eq!(find(Rank::Process(1), "pmix.lrank"), Some(Value::Uint16(1)));
    }
}
