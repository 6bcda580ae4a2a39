//! Tables of processes, and the answers that contain them.
//!
//! A table of a large job has 100,000 rows. As values they would be several pieces of memory each. To free a million
//! pieces stops the server for 30 ms. So rows stay compact until the answer is written, beside the server's loop. The
//! same holds for data of many nodes.

use rustc_hash::FxHashMap;

use super::hardware_value::HardwareValue;
use super::own_keys::{CURRENT_INVENTORY, INVENTORY};
use crate::proto::Reply;
use crate::types::{
    DataArray, DataType, Info, Key, Namespace, ProcId, ProcInfo, Status, Text, Value, footprint, process_footprint,
};
use crate::{fabric, keys, storage, usage};

/// Keys outside job data that the server answers.
const OWN_KEYS: [&str; 7] = [
    INVENTORY,
    CURRENT_INVENTORY,
    keys::QUERY_NAMESPACES.name(),
    keys::QUERY_SUPPORTED_KEYS.name(),
    keys::QUERY_SUPPORTED_QUALIFIERS.name(),
    keys::QUERY_PROC_TABLE.name(),
    keys::QUERY_LOCAL_PROC_TABLE.name(),
];

/// The supported keys.
const SET_KEYS: [&str; 9] = [
    keys::QUERY_NUM_PSETS.name(),
    keys::QUERY_PSET_NAMES.name(),
    keys::QUERY_PSET_MEMBERSHIP.name(),
    keys::QUERY_NUM_GROUPS.name(),
    keys::QUERY_GROUP_NAMES.name(),
    keys::QUERY_GROUP_MEMBERSHIP.name(),
    keys::PSET_NAMES.name(),
    keys::GROUP_NAMES.name(),
    keys::GROUP_CONTEXT_ID.name(),
];

/// The keys outside job data that a server answers itself.
pub(crate) fn supported_keys() -> impl Iterator<Item = &'static str> {
    OWN_KEYS.into_iter().chain(fabric::KEYS).chain(storage::keys()).chain(usage::QUERY_KEYS).chain(SET_KEYS)
}

/// The rows of a table, by rank.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct QueryTable {
    rows: Vec<Row>,
    /// Names of nodes and programs, each once.
    texts: Vec<Text>,
    places: FxHashMap<Text, u32>,
    /// Size of the rows as values.
    values_bytes: usize,
}

/// A process for a table.
pub(in crate::server) struct ProcessRow {
    pub(in crate::server) rank: u32,
    pub(in crate::server) pid: u32,
    pub(in crate::server) hostname: Option<Text>,
    pub(in crate::server) executable: Option<Text>,
    pub(in crate::server) state: u8,
}

/// A process; texts by their place.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    rank: u32,
    pid: u32,
    hostname: Option<u32>,
    executable: Option<u32>,
    state: u8,
}

impl QueryTable {
    /// Adds a process.
    pub(in crate::server) fn push(&mut self, process: ProcessRow) {
        let ProcessRow { rank, pid, hostname, executable, state } = process;
        let bytes = process_footprint(hostname.as_ref(), executable.as_ref());
        self.values_bytes = self.values_bytes.saturating_add(bytes);
        let [hostname, executable] = [hostname, executable].map(|text| self.place_of(text?));
        self.rows.push(Row { rank, pid, hostname, executable, state });
    }

    /// Size of the table as a value, in bytes.
    pub(in crate::server) fn value_bytes(&self) -> Option<usize> {
        footprint(&table_of(Vec::new()))?.checked_add(self.values_bytes)
    }

    fn place_of(&mut self, text: Text) -> Option<u32> {
        if let Some(place) = self.places.get(&text) {
            return Some(*place);
        }
        let place = u32::try_from(self.texts.len()).ok()?;
        self.texts.push(text.clone());
        self.places.insert(text, place);
        Some(place)
    }

    fn into_value(self, namespace: &Namespace) -> Value {
        let Self { rows, texts, .. } = self;
        let text_at = |place: Option<u32>| texts.get(usize::try_from(place?).ok()?).cloned();
        let value = |row: Row| {
            Value::ProcInfo(Box::new(ProcInfo {
                proc: ProcId::new(namespace.clone(), row.rank),
                hostname: text_at(row.hostname),
                executable: text_at(row.executable),
                pid: row.pid,
                state: row.state,
            }))
        };
        table_of(rows.into_iter().map(value).collect())
    }
}

fn table_of(elements: Vec<Value>) -> Value {
    Value::DataArray(Box::new(DataArray { element_type: DataType::ProcInfo, elements }))
}

/// One answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum QueryAnswer {
    Info(Info),
    Table(Key, Namespace, QueryTable),
    Hardware(Key, HardwareValue),
}

impl QueryAnswer {
    /// Size of the answer as a value, in bytes.
    pub(in crate::server) fn value_bytes(&self) -> Option<usize> {
        match self {
            Self::Info(info) => footprint(&info.value),
            Self::Table(_, _, table) => table.value_bytes(),
            Self::Hardware(_, value) => value.value_bytes(),
        }
    }
}

/// The answers to the queries of one request, some of them tables of processes or data of many nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryAnswers {
    status: Status,
    answers: Vec<QueryAnswer>,
}

impl QueryAnswers {
    pub(crate) fn new(status: Status, answers: Vec<QueryAnswer>) -> Self {
        Self { status, answers }
    }

    /// The status that goes with the answers.
    #[must_use]
    pub const fn status(&self) -> Status {
        self.status
    }

    /// Size of the answers that are not yet infos, in bytes.
    #[must_use]
    pub fn unwritten_bytes(&self) -> usize {
        let unwritten = self.answers.iter().filter(|answer| !matches!(answer, QueryAnswer::Info(_)));
        unwritten.map(|answer| answer.value_bytes().unwrap_or(usize::MAX)).fold(0, usize::saturating_add)
    }

    /// The answers that are infos.
    pub fn infos(&self) -> impl Iterator<Item = &Info> {
        self.answers.iter().filter_map(|answer| match answer {
            QueryAnswer::Info(info) => Some(info),
            QueryAnswer::Table(..) | QueryAnswer::Hardware(..) => None,
        })
    }

    /// The reply. Its size grows with the number of rows.
    #[must_use]
    pub fn into_reply(self) -> Reply {
        let (status, infos) = self.into_parts();
        Reply::Infos(infos).with_status(status)
    }

    /// The status and the answers as infos. Their size grows with the number of rows.
    pub(super) fn into_parts(self) -> (Status, Vec<Info>) {
        let info = |answer| match answer {
            QueryAnswer::Info(info) => info,
            QueryAnswer::Table(key, namespace, table) => Info { key, flags: 0, value: table.into_value(&namespace) },
            QueryAnswer::Hardware(key, value) => Info { key, flags: 0, value: value.into_value() },
        };
        (self.status, self.answers.into_iter().map(info).collect())
    }
}

/// Qualifiers of queries that the server answers, without those of storage and of the use of resources.
pub(crate) const QUERY_QUALIFIERS: [&str; 27] = [
    keys::OF_COSTS[0],
    keys::OF_COSTS[1],
    keys::OF_COSTS[2],
    keys::HOSTNAME.name(),
    keys::NSPACE.name(),
    keys::RANK.name(),
    keys::PROCID.name(),
    keys::NODE_INFO.name(),
    keys::APP_INFO.name(),
    keys::JOB_INFO.name(),
    keys::SESSION_INFO.name(),
    keys::PSET_NAME.name(),
    keys::GROUP_ID.name(),
    keys::SESSION_ID.name(),
    keys::APPNUM.name(),
    keys::NODEID.name(),
    keys::DEVICE_ID.name(),
    keys::FABRIC_DEVICE_NAME.name(),
    keys::FABRIC_DEVICE_INDEX.name(),
    keys::FABRIC_IDENTIFIER.name(),
    keys::FABRIC_INDEX.name(),
    keys::FABRIC_PLANE.name(),
    keys::FABRIC_VENDOR.name(),
    keys::DATA_SCOPE.name(),
    keys::OPTIONAL.name(),
    // The client honours it.
    keys::TIMEOUT.name(),
    // The server has no cache of answers.
    keys::QUERY_REFRESH_CACHE.name(),
];
