//! Details on request: keys, realms, and the values of a rank.

use std::cell::Cell;

use modex::gds::qualified::public_name;
use modex::gds::walk::{JobTables, StoredBlock, StoredColumn, StoredPart};
use modex::gds::{Damage, NamespaceReader, Origin, ValueRef};
use modex::keys::{self, DefaultRealm};
use modex::types::Scope;
use serde::Serialize;
use serde_json::Value as Json;

use super::value::{ValueReport, to_json};

/// Values of a column that are shown unless all are asked for.
const COLUMN_VALUES_SHOWN: u32 = 8;

/// Values that one report shows: enough for a job of a million ranks with thirty keys. A damaged segment of a few pages
/// may declare more.
pub(super) const VALUES_MAX: u32 = 1 << 25;

/// The number of values that a report still may show.
#[derive(Debug)]
pub(super) struct Room {
    left: Cell<u32>,
    has_run_out: Cell<bool>,
}

impl Room {
    /// Room for this number of values.
    pub(super) const fn new(values_max: u32) -> Self {
        Self { left: Cell::new(values_max), has_run_out: Cell::new(false) }
    }

    /// Takes the room of a value if there is enough. A text that is written nowhere takes the room of the ranks that it
    /// may name.
    fn take(&self, value: Option<&ValueRef<'_>>) -> bool {
        let need = value.and_then(ValueRef::unwritten_ranks).map_or(1, |ranks| ranks.max(1));
        match self.left.get().checked_sub(need) {
            Some(left) => self.left.set(left),
            None => self.has_run_out.set(true),
        }
        !self.has_run_out.get()
    }

    /// Whether some value is not shown for lack of room.
    pub(super) const fn has_run_out(&self) -> bool {
        self.has_run_out.get()
    }
}

/// A key of the dictionary.
#[derive(Debug, Serialize)]
pub(super) struct KeyReport {
    pub(super) name: String,
    pub(super) attribute: Option<&'static str>,
    pub(super) realm: &'static str,
}

/// The data that the host has registered.
#[derive(Debug, Serialize)]
pub(super) struct RealmsReport {
    pub(super) session: Vec<NamedValue>,
    /// The session's data about nodes.
    pub(super) session_node_columns: Vec<ColumnReport>,
    pub(super) other_sessions: Vec<PartReport>,
    pub(super) job: Vec<NamedValue>,
    pub(super) apps: Vec<PartReport>,
    pub(super) node_columns: Vec<ColumnReport>,
    pub(super) proc_columns: Vec<ColumnReport>,
}

/// A key and its value.
#[derive(Debug, Serialize)]
pub(super) struct NamedValue {
    pub(super) key: String,
    #[serde(flatten)]
    pub(super) value: ValueReport,
}

/// The values of an application, or of another session.
#[derive(Debug, Serialize)]
pub(super) struct PartReport {
    pub(super) number: u32,
    pub(super) values: Vec<NamedValue>,
    /// Its data about nodes.
    pub(super) node_columns: Vec<ColumnReport>,
}

/// One key of all nodes or processes.
#[derive(Debug, Serialize)]
pub(super) struct ColumnReport {
    pub(super) key: String,
    /// The type of the first value.
    #[serde(rename = "type")]
    pub(super) data_type: Option<&'static str>,
    pub(super) encoding: &'static str,
    pub(super) width_bytes: Option<u16>,
    pub(super) size_bytes: u64,
    pub(super) count: u32,
    pub(super) values: Vec<Option<Json>>,
}

/// The values of one rank in the segment.
#[derive(Debug, Serialize)]
pub(super) struct RankReport {
    pub(super) rank: u32,
    pub(super) values: Vec<NamedValue>,
    pub(super) blocks: Vec<BlockReport>,
}

/// One block of posted values.
#[derive(Debug, Serialize)]
pub(super) struct BlockReport {
    pub(super) offset: u64,
    pub(super) entries: Vec<EntryReport>,
}

/// One posted value.
#[derive(Debug, Serialize)]
pub(super) struct EntryReport {
    pub(super) scope: &'static str,
    pub(super) origin: &'static str,
    #[serde(flatten)]
    pub(super) named: NamedValue,
}

/// The dictionary, by name.
pub(super) fn keys(reader: &NamespaceReader, tables: Option<&JobTables<'_>>) -> Result<Vec<KeyReport>, Damage> {
    let mut keys: Vec<KeyReport> = reader.keys()?.into_iter().map(|name| key(name, tables)).collect();
    // The values of qualified keys have generated names in the dictionary. The report shows the names that people know.
    keys.sort_by(|one, other| (&one.name, one.realm).cmp(&(&other.name, other.realm)));
    keys.dedup_by(|one, other| (&one.name, one.realm) == (&other.name, other.realm));
    Ok(keys)
}

/// All realms.
pub(super) fn realms(
    reader: &NamespaceReader,
    tables: &JobTables<'_>,
    all_values: bool,
    room: &Room,
) -> Result<RealmsReport, Damage> {
    let of_node = |stored: &StoredColumn<'_>| column(stored, all_values, room, |index| stored.value(index));
    let part = |StoredPart { number, values, node_columns }: &StoredPart<'_>| {
        let values = all_named(values, room)?;
        let node_columns = node_columns.iter().map(of_node).collect::<Result<_, _>>()?;
        Ok::<_, Damage>(PartReport { number: *number, values, node_columns })
    };
    let of_proc =
        |stored: &StoredColumn<'_>| column(stored, all_values, room, |index| reader.proc_value(stored, index));
    Ok(RealmsReport {
        session: all_named(&tables.session, room)?,
        session_node_columns: tables.session_nodes.iter().map(of_node).collect::<Result<_, _>>()?,
        other_sessions: tables.other_sessions.iter().map(part).collect::<Result<_, _>>()?,
        job: all_named(&tables.job, room)?,
        apps: tables.apps.iter().map(part).collect::<Result<_, _>>()?,
        node_columns: tables.node_columns.iter().map(of_node).collect::<Result<_, _>>()?,
        proc_columns: tables.proc_columns.iter().map(of_proc).collect::<Result<_, _>>()?,
    })
}

/// The values of a rank in the segment; `None` if there is no such rank.
pub(super) fn rank(
    reader: &NamespaceReader,
    tables: Option<&JobTables<'_>>,
    rank: u32,
    all_values: bool,
    room: &Room,
) -> Result<Option<RankReport>, Damage> {
    let blocks = reader.blocks(rank)?;
    // A rank that has committed exists even if the job is not described yet.
    if blocks.is_empty() && tables.is_none_or(|tables| rank >= tables.rank_count) {
        return Ok(None);
    }
    let mut values = Vec::new();
    for column in tables.map_or(&[][..], |tables| &tables.proc_columns) {
        if let Some(value) = reader.proc_value(column, rank)? {
            values.push(named(column.key(), value, room.take(Some(&value)))?);
        }
    }
    let blocks = blocks.iter().map(|stored| block(stored, all_values)).collect::<Result<_, _>>()?;
    Ok(Some(RankReport { rank, values, blocks }))
}

fn key(name: &str, tables: Option<&JobTables<'_>>) -> KeyReport {
    KeyReport {
        name: public_name(name).to_owned(),
        attribute: keys::by_name(public_name(name)).map(|attribute| attribute.macro_name),
        realm: match keys::default_realm(name) {
            DefaultRealm::ByRank => job_or_process(name, tables),
            DefaultRealm::Session => "session",
            DefaultRealm::Application => "application",
            DefaultRealm::Node => "node",
        },
    }
}

/// The owners of a key's values, if the rank of a request decides. Values that the job lacks were posted by a process.
fn job_or_process(name: &str, tables: Option<&JobTables<'_>>) -> &'static str {
    let Some(tables) = tables else { return "process" };
    let is_of_job = tables.job.iter().any(|(key, _)| *key == name);
    let is_of_process = tables.proc_columns.iter().any(|column| column.key() == name);
    match (is_of_job, is_of_process) {
        (true, true) => "job, process",
        (true, false) => "job",
        (false, _) => "process",
    }
}

fn column<'a>(
    stored: &StoredColumn<'a>,
    all_values: bool,
    room: &Room,
    value: impl Fn(u32) -> Result<Option<ValueRef<'a>>, Damage>,
) -> Result<ColumnReport, Damage> {
    let mut data_type = None;
    let mut values = Vec::new();
    let shown = if all_values { stored.count() } else { stored.count().min(COLUMN_VALUES_SHOWN) };
    for index in 0..shown {
        let found = value(index)?;
        if !room.take(found.as_ref()) {
            break;
        }
        data_type = data_type.or(found.map(|found| found.data_type().name()));
        values.push(found.map(|found| Ok::<_, Damage>(to_json(&found.to_value()?))).transpose()?);
    }
    Ok(ColumnReport {
        key: public_name(stored.key()).to_owned(),
        data_type,
        encoding: stored.encoding(),
        width_bytes: stored.width_bytes(),
        size_bytes: stored.size_bytes(),
        count: stored.count(),
        values,
    })
}

fn block(stored: &StoredBlock<'_>, is_shown: bool) -> Result<BlockReport, Damage> {
    let mut entries = Vec::new();
    for entry in &stored.entries {
        entries.push(EntryReport {
            scope: match entry.scope {
                Scope::Local => "local",
                Scope::Remote => "remote",
                Scope::Global => "global",
                Scope::Internal => "internal",
            },
            origin: match entry.origin {
                Origin::Local => "local",
                Origin::Remote => "remote",
            },
            named: named(entry.key, entry.value, is_shown)?,
        });
    }
    Ok(BlockReport { offset: stored.offset, entries })
}

fn all_named(values: &[(&str, ValueRef<'_>)], room: &Room) -> Result<Vec<NamedValue>, Damage> {
    values.iter().map(|(key, value)| named(key, *value, room.take(Some(value)))).collect()
}

fn named(key: &str, value: ValueRef<'_>, is_shown: bool) -> Result<NamedValue, Damage> {
    Ok(NamedValue { key: public_name(key).to_owned(), value: ValueReport::new(value, is_shown)? })
}

#[cfg(test)]
mod tests {
    use modex::gds::{Datastore as _, Store, StoreOptions};
    use modex::types::{DataType, Info, Key, Namespace};

    use super::*;

    #[test]
    fn a_report_shows_no_more_than_it_has_room_for() {
        let dealt = modex::regex::DealtRanks::new(1, 2, 5).unwrap();
        let (number, map) = (ValueRef::from_scalar(DataType::Uint32.to_raw(), 7).unwrap(), ValueRef::from_map(dealt));
        let room = Room::new(7);
        assert!(room.take(Some(&number)) && room.take(Some(&map)) && room.take(None) && !room.has_run_out());
        assert!(!room.take(Some(&number)) && room.has_run_out());
        let room = Room::new(4);
        let shown = all_named(&[("a", number), ("map", map), ("b", number)], &room).unwrap();
        let shown: Vec<bool> = shown.iter().map(|named| named.value.value.is_some()).collect();
        assert_eq!(shown, [true, false, false], "nothing comes behind what is left out");
        let values = column_of_sevens(&Room::new(3));
        assert_eq!(values.len(), 3);
    }

    /// Ten ranks, all requested.
    fn column_of_sevens(room: &Room) -> Vec<Option<Json>> {
        let mut store = Store::new(StoreOptions::private("n0"));
        let job = Namespace::new("job").unwrap();
        store.register(&job, &[Info::new(Key::from_static("pmix.job.size"), 10_u32)]).unwrap();
        let reader = store.reader(&job).unwrap();
        let tables = reader.job_tables().unwrap().unwrap();
        let stored = tables.proc_columns.first().unwrap();
        column(stored, true, room, |index| stored.value(index)).unwrap().values
    }
}
