//! Writes a job record into an image.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::gds::error::{RecordError, StoreError};
use crate::gds::job_record::{Column, ColumnValues, JobRecord, Texts};
use crate::gds::layout::cell::Encoded;
use crate::gds::layout::column::push_column;
use crate::gds::layout::dictionary::KeyId;
use crate::gds::layout::format::{
    Array, Cell, ColumnHead, Entry, HostName, JobHead, NODES_MAX, NONE, NodeId, PartHead, RANKS_MAX,
};
use crate::gds::layout::image::Image;
use crate::gds::limits::StoreLimits;
use crate::keys;
use crate::regex::DealtRanks;
use crate::types::{Key, Value};

/// Ids of the keys that a record uses.
pub(crate) type KeyIds<'r> = FxHashMap<&'r str, KeyId>;

/// Refuses a record that contradicts itself as a whole; each column is checked when it is written.
pub(crate) fn check(record: &JobRecord, limits: &StoreLimits) -> Result<(), RecordError> {
    let within = |what, found, max| if found > max { Err(RecordError::TooLarge { what, found, max }) } else { Ok(()) };
    within("ranks", record.rank_count, limits.ranks_max.min(RANKS_MAX))?;
    within("nodes", record.node_count, limits.nodes_max.min(NODES_MAX))?;
    match record.own_node {
        Some(own_node) if own_node >= record.node_count => {
            return Err(RecordError::OwnNode { own_node, node_count: record.node_count });
        }
        _ => {}
    }
    let node_id = keys::NODEID.name();
    let of_node = |column: &&Column| column.values == ColumnValues::OfNode;
    let of_node_ids = record.proc_columns.iter().filter(of_node).filter(|column| column.key.as_str() == node_id);
    if let Some(column) = node_columns(record).filter(of_node).chain(of_node_ids).next() {
        return Err(RecordError::OfNode { key: column.key.clone() });
    }
    check_rank_lists(record)
}

/// Rank lists by rule must be of existing ranks, and in a column whose texts are used for nothing else.
fn check_rank_lists(record: &JobRecord) -> Result<(), RecordError> {
    let is_misplaced = |column: &&Column| match &column.values {
        ColumnValues::RankLists(dealt) => {
            column.key.as_str() != keys::LOCAL_PEERS.name() || dealt.end() > record.rank_count
        }
        _ => false,
    };
    match node_columns(record).chain(&record.proc_columns).find(is_misplaced) {
        Some(column) => Err(RecordError::RankLists { key: column.key.clone(), rank_count: record.rank_count }),
        None => Ok(()),
    }
}

/// Every key of a record, with repetitions.
pub(crate) fn keys(record: &JobRecord) -> impl Iterator<Item = &Key> {
    let of_parts = record.apps.iter().map(|app| &app.entries);
    let of_parts = of_parts.chain(record.other_sessions.iter().map(|session| &session.entries));
    let tables = [&record.session, &record.job].into_iter().chain(of_parts);
    let columns = node_columns(record).chain(&record.proc_columns);
    tables.flatten().map(|(key, _)| key).chain(columns.map(|column| &column.key))
}

/// All columns of nodes: of the job, of its applications, of sessions.
fn node_columns(record: &JobRecord) -> impl Iterator<Item = &Column> {
    let of_apps = record.apps.iter().flat_map(|app| &app.node_columns);
    let of_sessions = record.other_sessions.iter().flat_map(|session| &session.node_columns);
    record.node_columns.iter().chain(&record.session_nodes).chain(of_apps).chain(of_sessions)
}

/// The offset of a record in its image, and the size of its columns.
#[derive(Debug)]
pub(crate) struct PlacedRecord {
    pub(crate) offset: u64,
    pub(crate) column_bytes: u64,
}

/// Writes a record whose keys have all been interned. Its head and the heads of its tables come first, before all data
/// whose size depends on the job's. Thus an attaching process touches the same few pages for a job of any size.
pub(crate) fn push_record(
    image: &mut Image,
    record: &JobRecord,
    ids: &KeyIds<'_>,
    limits: &StoreLimits,
) -> Result<PlacedRecord, StoreError> {
    let (own_node, dealt) = (record.own_node, dealt_ranks(record));
    let mut writer = RecordWriter { image, ids, own_node, dealt, value_bytes_max: limits.value_bytes_max };
    let head_room = writer.image.reserve_array::<JobHead>(1)?;
    let [job, session] = [&record.job, &record.session].map(|values| writer.by_id(values));
    let [job_room, session_room] = [job.len(), session.len()].map(|count| writer.image.reserve_array::<Entry>(count));
    let [node_columns, proc_columns] =
        [&record.node_columns, &record.proc_columns].map(|list| writer.columns_by_id(list));
    let node_room = writer.image.reserve_array::<ColumnHead>(node_columns.len())?;
    let proc_room = writer.image.reserve_array::<ColumnHead>(proc_columns.len())?;
    let session = writer.fill_table(session_room?, session)?;
    let job = writer.fill_table(job_room?, job)?;
    let apps = writer.apps(record)?;
    let sessions = writer.sessions(record, session)?;
    let (node_ids_are_indexes, node_ids) = writer.node_ids(record)?;
    let before_columns = writer.image.size_bytes();
    let (node_columns, node_heads) = writer.columns(node_room, node_columns, record.node_count)?;
    let (proc_columns, proc_heads) = writer.columns(proc_room, proc_columns, record.rank_count)?;
    let column_bytes = writer.image.size_bytes().saturating_sub(before_columns);
    let host_names = writer.host_names(record, &node_heads)?;
    let position = |name: &str| {
        let id = ids.get(name)?;
        proc_heads.iter().position(|head| head.key == id.0).and_then(|at| u32::try_from(at).ok())
    };
    let head = JobHead {
        rank_count: record.rank_count,
        node_count: record.node_count,
        own_node: record.own_node.unwrap_or(NONE),
        node_id_column: position(keys::NODEID.name()).unwrap_or(NONE),
        app_number_column: position(keys::APPNUM.name()).unwrap_or(NONE),
        session_id: record.session_id.unwrap_or_default(),
        session_known: record.session_id.is_some().into(),
        node_ids_are_indexes: node_ids_are_indexes.into(),
        session,
        job,
        apps,
        node_columns,
        proc_columns,
        host_names,
        node_ids,
        sessions,
    };
    writer.image.fill_array(head_room, &[head]);
    Ok(PlacedRecord { offset: head_room.offset, column_bytes })
}

/// Values by the id of their key.
type ById<'v> = BTreeMap<KeyId, (&'v Key, &'v Value)>;

struct RecordWriter<'a> {
    image: &'a mut Image,
    ids: &'a KeyIds<'a>,
    own_node: Option<u32>,
    /// The rule of the process map, if it has one.
    dealt: Option<DealtRanks>,
    value_bytes_max: u32,
}

impl RecordWriter<'_> {
    /// The values of a table by key; the last value of a key counts.
    fn by_id<'v>(&self, values: &'v [(Key, Value)]) -> ById<'v> {
        values.iter().map(|(key, value)| (self.id(key), (key, value))).collect()
    }

    fn table(&mut self, values: &[(Key, Value)]) -> Result<Array, StoreError> {
        let by_id = self.by_id(values);
        let room = self.image.reserve_array::<Entry>(by_id.len())?;
        self.fill_table(room, by_id)
    }

    fn fill_table(&mut self, room: Array, by_id: ById<'_>) -> Result<Array, StoreError> {
        let mut entries = Vec::with_capacity(by_id.len());
        let mut shared: FxHashMap<&[u8], Cell> = FxHashMap::default();
        for (id, (key, value)) in by_id {
            let encoded = Encoded::new(value, self.value_bytes_max)
                .map_err(|reason| StoreError::Value { key: key.clone(), reason })?;
            let cell = match long_text(value) {
                None => self.image.push_value(&encoded)?,
                Some(text) => match (self.rule_of(key, text), shared.get(text)) {
                    (Some(dealt), _) => self.image.push_map(dealt)?,
                    (None, Some(cell)) => *cell,
                    (None, None) => {
                        let cell = self.image.push_value(&encoded)?;
                        shared.insert(text, cell);
                        cell
                    }
                },
            };
            entries.push(Entry { id: id.0, cell, ..Entry::default() });
        }
        self.image.fill_array(room, &entries);
        Ok(room)
    }

    /// The rule behind a value that is a process map as text.
    fn rule_of(&self, key: &Key, text: &[u8]) -> Option<DealtRanks> {
        let is_map = [keys::PROC_MAP.name(), keys::PROC_MAP_RAW.name()].contains(&key.as_str());
        self.dealt.filter(|dealt| is_map && dealt.is_map_text(text))
    }

    fn apps(&mut self, record: &JobRecord) -> Result<Array, StoreError> {
        let by_number: BTreeMap<u32, _> = record.apps.iter().map(|app| (app.number, app)).collect();
        let mut heads = Vec::with_capacity(by_number.len());
        for (number, app) in by_number {
            let entries = self.table(&app.entries)?;
            let node_columns = self.part_columns(&app.node_columns, record.node_count)?;
            heads.push(PartHead { number, reserved: 0, entries, node_columns });
        }
        self.image.push_array(&heads)
    }

    /// All sessions; the values of the own one, `own`, are already written.
    fn sessions(&mut self, record: &JobRecord, own: Array) -> Result<Array, StoreError> {
        let mut heads: BTreeMap<u32, PartHead> = BTreeMap::new();
        for session in &record.other_sessions {
            let entries = self.table(&session.entries)?;
            let node_columns = self.part_columns(&session.node_columns, record.node_count)?;
            heads.insert(session.id, PartHead { number: session.id, reserved: 0, entries, node_columns });
        }
        if let Some(number) = record.session_id {
            let node_columns = self.part_columns(&record.session_nodes, record.node_count)?;
            heads.insert(number, PartHead { number, reserved: 0, entries: own, node_columns });
        }
        let heads: Vec<PartHead> = heads.into_values().collect();
        self.image.push_array(&heads)
    }

    fn part_columns(&mut self, columns: &[Column], node_count: u32) -> Result<Array, StoreError> {
        let by_id = self.columns_by_id(columns);
        let room = self.image.reserve_array::<ColumnHead>(by_id.len())?;
        Ok(self.columns(room, by_id, node_count)?.0)
    }

    fn columns_by_id<'v>(&self, columns: &'v [Column]) -> BTreeMap<KeyId, &'v Column> {
        columns.iter().map(|column| (self.id(&column.key), column)).collect()
    }

    /// Writes columns by key; their heads also go into the reserved array.
    fn columns(
        &mut self,
        room: Array,
        by_id: BTreeMap<KeyId, &Column>,
        count: u32,
    ) -> Result<(Array, Vec<ColumnHead>), StoreError> {
        let mut heads: Vec<ColumnHead> = Vec::with_capacity(by_id.len());
        for (id, column) in by_id {
            heads.push(push_column(self.image, column, id, count, self.own_node, self.value_bytes_max)?);
        }
        self.image.fill_array(room, &heads);
        Ok((room, heads))
    }

    /// Names and aliases of all nodes, by hash. A node's own name wins over others' aliases; the first of two nodes
    /// with one name wins. `heads` are those of the nodes' columns: a name that is a text there is not written again.
    fn host_names(&mut self, record: &JobRecord, heads: &[ColumnHead]) -> Result<Array, StoreError> {
        let of_name = |column: &&Column| column.key.as_str() == keys::HOSTNAME.name();
        let written = record.node_columns.iter().rfind(of_name).and_then(|column| {
            let ColumnValues::Texts(texts) = &column.values else { return None };
            Some((texts, heads.iter().find(|head| head.key == self.id(&column.key).0)?.cells))
        });
        let mut names: Vec<(u64, bool, u32, &str)> = Vec::new();
        for column in &record.node_columns {
            let is_alias = column.key.as_str() == keys::HOSTNAME_ALIASES.name();
            if !is_alias && column.key.as_str() != keys::HOSTNAME.name() {
                continue;
            }
            for (node, text) in texts(column, record.node_count) {
                // A plain name is not split.
                let (one, many) = if is_alias { (None, Some(text.split(','))) } else { (Some(text), None) };
                let parts = one.into_iter().chain(many.into_iter().flatten()).filter(|name| !name.is_empty());
                names.extend(parts.map(|name| (xxhash_rust::xxh3::xxh3_64(name.as_bytes()), is_alias, node, name)));
            }
        }
        names.sort_unstable();
        names.dedup();
        let mut entries = Vec::with_capacity(names.len());
        for (hash, _, node, name) in names {
            let is_it = |texts: &Texts| usize::try_from(node).is_ok_and(|node| texts.get(node) == Some(name));
            let cells = written.filter(|(texts, _)| is_it(texts)).map(|(_, cells)| cells);
            let offset = match cells.and_then(|cells| self.image.text_offset(cells, node)) {
                Some(offset) => offset,
                None => self.image.push(1, name.as_bytes())?,
            };
            let len = u32::try_from(name.len()).unwrap_or(u32::MAX);
            entries.push(HostName { hash, name: offset, len, node });
        }
        self.image.push_array(&entries)
    }

    /// Whether the id of every node is its index, and otherwise the nodes by id. The first of two nodes with one id
    /// counts.
    fn node_ids(&mut self, record: &JobRecord) -> Result<(bool, Array), StoreError> {
        let column = record.node_columns.iter().rfind(|column| column.key.as_str() == keys::NODEID.name());
        let Some(column) = column else { return Ok((true, Array::default())) };
        let mut ids = numbers(column, record.node_count);
        let given = u32::try_from(ids.len()).unwrap_or(u32::MAX);
        if given == record.node_count && ids.iter().all(|pair| pair.id == pair.node) {
            return Ok((true, Array::default()));
        }
        ids.sort_unstable();
        ids.dedup_by_key(|pair| pair.id);
        Ok((false, self.image.push_array(&ids)?))
    }

    fn id(&self, key: &Key) -> KeyId {
        // Every key was interned before; the default id would only make this value unreachable.
        self.ids.get(key.as_str()).copied().unwrap_or(KeyId(0))
    }
}

/// The rule of the process map, taken from the lists of local peers.
fn dealt_ranks(record: &JobRecord) -> Option<DealtRanks> {
    record.node_columns.iter().find_map(|column| match column.values {
        ColumnValues::RankLists(dealt) => Some(dealt),
        _ => None,
    })
}

/// The bytes of a string that grows with the job. It is worth a check whether it is stored elsewhere or follows from a
/// rule. A shorter string is lent at every Get.
fn long_text(value: &Value) -> Option<&[u8]> {
    match value {
        Value::String(text) => Some(text.as_bytes()).filter(|bytes| bytes.len() >= LONG_TEXT_BYTES),
        _ => None,
    }
}

/// See [`long_text`].
const LONG_TEXT_BYTES: usize = 64 << 10;

/// The texts of a column with their indexes.
fn texts(column: &Column, count: u32) -> Vec<(u32, &str)> {
    if let ColumnValues::Texts(texts) = &column.values {
        return (0..count).zip(texts.iter()).collect();
    }
    values(column, count).into_iter().filter_map(|(index, value)| Some((index, value.as_str()?))).collect()
}

/// The numbers of a column with their indexes.
fn numbers(column: &Column, count: u32) -> Vec<NodeId> {
    if let ColumnValues::Numbers { values, .. } = &column.values {
        let pairs = (0..count).zip(values);
        return pairs.filter_map(|(node, &id)| Some(NodeId { id: id.try_into().ok()?, node })).collect();
    }
    if let ColumnValues::Counting { first, .. } = &column.values {
        return (*first..)
            .zip(0..count)
            .filter_map(|(id, node)| Some(NodeId { id: id.try_into().ok()?, node }))
            .collect();
    }
    let pairs = values(column, count).into_iter();
    pairs.filter_map(|(node, value)| Some(NodeId { id: value.as_u32()?, node })).collect()
}

fn values(column: &Column, count: u32) -> Vec<(u32, &Value)> {
    match &column.values {
        ColumnValues::Constant(value) => (0..count).map(|index| (index, value)).collect(),
        ColumnValues::Values(values) => {
            (0..count).zip(values).filter_map(|(index, value)| Some((index, value.as_ref()?))).collect()
        }
        ColumnValues::Sparse(values) => values.iter().map(|(index, value)| (*index, value)).collect(),
        ColumnValues::Numbers { .. }
        | ColumnValues::Counting { .. }
        | ColumnValues::Texts(_)
        | ColumnValues::RankLists(_)
        | ColumnValues::Endpoints(_)
        | ColumnValues::OfNode => Vec::new(),
    }
}
