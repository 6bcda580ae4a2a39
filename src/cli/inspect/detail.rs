//! What is listed on request: keys, realms, and what a rank has.

use serde::Serialize;
use serde_json::Value as Json;

use super::value::{ValueReport, to_json};
use crate::gds::qualified::told_name;
use crate::gds::walk::{JobTables, StoredBlock, StoredColumn, StoredPart};
use crate::gds::{Damage, NamespaceReader, Origin, ValueRef};
use crate::keys::{self, DefaultRealm};
use crate::types::Scope;

/// Values of a column that are shown unless all are asked for.
const COLUMN_VALUES_SHOWN: u32 = 8;

/// A key of the dictionary.
#[derive(Debug, Serialize)]
pub(super) struct KeyReport {
    pub(super) name: String,
    pub(super) attribute: Option<&'static str>,
    pub(super) realm: &'static str,
}

/// What the host has registered.
#[derive(Debug, Serialize)]
pub(super) struct RealmsReport {
    pub(super) session: Vec<NamedValue>,
    pub(super) job: Vec<NamedValue>,
    pub(super) apps: Vec<AppReport>,
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

/// The values of an application.
#[derive(Debug, Serialize)]
pub(super) struct AppReport {
    pub(super) number: u32,
    pub(super) values: Vec<NamedValue>,
}

/// One key of all nodes or processes.
#[derive(Debug, Serialize)]
pub(super) struct ColumnReport {
    pub(super) key: String,
    /// Of the first value there is.
    #[serde(rename = "type")]
    pub(super) data_type: Option<&'static str>,
    pub(super) encoding: &'static str,
    pub(super) width_bytes: Option<u16>,
    pub(super) size_bytes: u64,
    pub(super) count: u32,
    pub(super) values: Vec<Option<Json>>,
}

/// What the segment holds of one rank.
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
    // The values of qualified keys have names of their own there, and one that people know.
    keys.sort_by(|one, other| (&one.name, one.realm).cmp(&(&other.name, other.realm)));
    keys.dedup_by(|one, other| (&one.name, one.realm) == (&other.name, other.realm));
    Ok(keys)
}

/// All realms.
pub(super) fn realms(
    reader: &NamespaceReader,
    tables: &JobTables<'_>,
    all_values: bool,
) -> Result<RealmsReport, Damage> {
    let mut apps = Vec::new();
    for StoredPart { number, values, .. } in &tables.apps {
        apps.push(AppReport { number: *number, values: all_named(values)? });
    }
    let of_node = |stored: &StoredColumn<'_>| column(stored, all_values, |index| stored.value(index));
    let of_proc = |stored: &StoredColumn<'_>| column(stored, all_values, |index| reader.proc_value(stored, index));
    Ok(RealmsReport {
        session: all_named(&tables.session)?,
        job: all_named(&tables.job)?,
        apps,
        node_columns: tables.node_columns.iter().map(of_node).collect::<Result<_, _>>()?,
        proc_columns: tables.proc_columns.iter().map(of_proc).collect::<Result<_, _>>()?,
    })
}

/// What the segment holds of a rank; `None` if there is no such rank.
pub(super) fn rank(
    reader: &NamespaceReader,
    tables: Option<&JobTables<'_>>,
    rank: u32,
    all_values: bool,
) -> Result<Option<RankReport>, Damage> {
    let blocks = reader.blocks(rank)?;
    // Who has committed exists even if the job is not described yet.
    if blocks.is_empty() && tables.is_none_or(|tables| rank >= tables.rank_count) {
        return Ok(None);
    }
    let mut values = Vec::new();
    for column in tables.map_or(&[][..], |tables| &tables.proc_columns) {
        if let Some(value) = reader.proc_value(column, rank)? {
            values.push(named(column.key(), value, true)?);
        }
    }
    let blocks = blocks.iter().map(|stored| block(stored, all_values)).collect::<Result<_, _>>()?;
    Ok(Some(RankReport { rank, values, blocks }))
}

fn key(name: &str, tables: Option<&JobTables<'_>>) -> KeyReport {
    KeyReport {
        name: told_name(name).to_owned(),
        attribute: keys::by_name(told_name(name)).map(|attribute| attribute.macro_name),
        realm: match keys::default_realm(name) {
            DefaultRealm::ByRank => job_or_process(name, tables),
            DefaultRealm::Session => "session",
            DefaultRealm::Application => "application",
            DefaultRealm::Node => "node",
        },
    }
}

/// Of a key that the rank of a request decides about: whose values there are. What the job lacks some process posted.
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
    value: impl Fn(u32) -> Result<Option<ValueRef<'a>>, Damage>,
) -> Result<ColumnReport, Damage> {
    let mut data_type = None;
    let mut values = Vec::new();
    let shown = if all_values { stored.count() } else { stored.count().min(COLUMN_VALUES_SHOWN) };
    for index in 0..shown {
        let found = value(index)?;
        data_type = data_type.or(found.map(|found| found.data_type().name()));
        values.push(found.map(|found| Ok::<_, Damage>(to_json(&found.to_value()?))).transpose()?);
    }
    Ok(ColumnReport {
        key: told_name(stored.key()).to_owned(),
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

fn all_named(values: &[(&str, ValueRef<'_>)]) -> Result<Vec<NamedValue>, Damage> {
    values.iter().map(|(key, value)| named(key, *value, true)).collect()
}

fn named(key: &str, value: ValueRef<'_>, is_shown: bool) -> Result<NamedValue, Damage> {
    Ok(NamedValue { key: told_name(key).to_owned(), value: ValueReport::new(value, is_shown)? })
}
