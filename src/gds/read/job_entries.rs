//! The job record as key-values, for processes that cannot read segments and for registering again.

use super::job::JobView;
use super::reader::NamespaceReader;
use super::walk::{JobTables, StoredColumn};
use crate::gds::job_record::{AppRecord, Column, ColumnValues, JobRecord, SessionRecord};
use crate::gds::layout::segment_view::Damage;
use crate::gds::layout::value_ref::ValueRef;
use crate::gds::qualified::{public_name, stored_key};
use crate::gds::registration;
use crate::keys;
use crate::types::{DataType, Info, Key, Kval, Rank, Value};

/// A part of the job-level information.
#[derive(Debug)]
#[non_exhaustive]
pub enum JobEntry<'a> {
    /// A value of the job, or all values of the session, an application or a node.
    One(Kval),
    /// The sessions besides the job's, under [`OTHER_SESSIONS`]. Only readers of modex know this key: an OpenPMIx
    /// client would take a second session for the job's, or fail.
    OtherSessions(Kval),
    /// The values of a process: its rank, and its value for each key. Valid until the next visit.
    Process(u32, &'a [Option<Kval>]),
}

/// The key of an array of the session arrays besides the job's own.
pub const OTHER_SESSIONS: &str = "modex.sessions";

impl JobEntry<'_> {
    pub(in crate::gds) fn into_kval(self) -> Kval {
        match self {
            Self::One(entry) | Self::OtherSessions(entry) => entry,
            Self::Process(rank, values) => {
                let rank = Info::new(Key::from_static(keys::RANK.name()), Rank::from(rank));
                let values = values.iter().flatten().map(|entry| Info::new(entry.key.clone(), entry.value.clone()));
                array(keys::PROC_DATA.name(), std::iter::once(rank).chain(values).collect())
            }
        }
    }
}

impl NamespaceReader {
    /// All job-level information as key-values. These are the job's values, and one array of infos each for the
    /// session, every application, every node and every process. Other sessions are left out.
    ///
    /// Processes come as `PMIX_PROC_DATA` (`pmix.pdata`) arrays whose first entry is the rank. Peers also understand
    /// the packed form (`pmix.pblob`), but its bytes depend on the peer's release, which this layer does not know.
    ///
    /// # Errors
    /// [`Damage`].
    pub fn job_entries(&self) -> Result<Vec<Kval>, Damage> {
        let mut entries = Vec::new();
        self.visit_job_entries(|entry| match entry {
            JobEntry::OtherSessions(_) => {}
            entry => entries.push(entry.into_kval()),
        })?;
        Ok(entries)
    }

    /// As [`NamespaceReader::job_entries`], one after the other: the entries of a large job never exist all at once.
    ///
    /// # Errors
    /// [`Damage`]; some entries may have been visited before.
    pub fn visit_job_entries(&self, mut visit: impl FnMut(JobEntry<'_>)) -> Result<(), Damage> {
        let Some(tables) = self.job_tables()? else { return Ok(()) };
        let mut one = |entry| visit(JobEntry::One(entry));
        for (key, value) in &tables.job {
            one(Kval { key: key_of(public_name(key))?, value: value.to_value()? });
        }
        session_array(&tables)?.into_iter().for_each(&mut one);
        let others = other_sessions(&tables)?;
        if !others.is_empty() {
            visit(JobEntry::OtherSessions(array(OTHER_SESSIONS, others)));
        }
        let mut one = |entry| visit(JobEntry::One(entry));
        for node in 0..tables.node_count {
            one(array(keys::NODE_INFO_ARRAY.name(), node_infos(&tables.node_columns, node)?));
        }
        for app in &tables.apps {
            let mut infos = vec![Info::new(Key::from_static(keys::APPNUM.name()), app.number)];
            infos.extend(other_infos(&app.values, keys::APPNUM.name())?);
            infos.extend(node_arrays(&app.node_columns, tables.node_count)?);
            one(array(keys::APP_INFO_ARRAY.name(), infos));
        }
        self.visit_processes(&tables, visit)
    }

    /// Skips ranks without any value, not even their own rank. Values shared by neighbouring ranks are made once: node
    /// values and equal strings.
    fn visit_processes(&self, tables: &JobTables<'_>, mut visit: impl FnMut(JobEntry<'_>)) -> Result<(), Damage> {
        let Some(job) = JobView::current(self.segment_view())? else { return Ok(()) };
        let is_rank = |column: &&StoredColumn<'_>| column.key() == keys::RANK.name();
        let ranks = tables.proc_columns.iter().find(is_rank);
        let is_written = |column: &&StoredColumn<'_>| !is_rank(column) && !is_long_list(column);
        let columns: Vec<&StoredColumn<'_>> = tables.proc_columns.iter().filter(is_written).collect();
        let keys = columns.iter().map(|column| key_of(public_name(column.key()))).collect::<Result<Vec<_>, _>>()?;
        let mut values = vec![None; columns.len()];
        let mut last_node = None;
        for rank in 0..tables.rank_count {
            let node = job.node_of(rank)?;
            let is_neighbour = node.is_some() && node == last_node;
            last_node = node;
            for ((column, key), entry) in columns.iter().zip(&keys).zip(&mut values) {
                if !(is_neighbour && column.is_of_node()) {
                    renew(entry, key, self.proc_value(column, rank)?)?;
                }
            }
            let exists = ranks.map_or(Ok(None), |ranks| ranks.value(rank))?.is_some();
            if exists || values.iter().any(Option::is_some) {
                visit(JobEntry::Process(rank, &values));
            }
        }
        Ok(())
    }

    /// The job record, read back; an empty one if the job has not been described.
    ///
    /// # Errors
    /// [`Damage`].
    pub fn job_record(&self) -> Result<JobRecord, Damage> {
        let Some(tables) = self.job_tables()? else { return Ok(JobRecord::default()) };
        let mut apps = Vec::with_capacity(tables.apps.len());
        for app in &tables.apps {
            let node_columns = columns(&app.node_columns)?;
            apps.push(AppRecord { number: app.number, entries: owned(&app.values)?, node_columns });
        }
        let mut other_sessions = Vec::with_capacity(tables.other_sessions.len());
        for session in &tables.other_sessions {
            let node_columns = columns(&session.node_columns)?;
            other_sessions.push(SessionRecord { id: session.number, entries: owned(&session.values)?, node_columns });
        }
        Ok(JobRecord {
            session: owned(&tables.session)?,
            session_id: tables.session_id,
            session_nodes: columns(&tables.session_nodes)?,
            other_sessions,
            job: owned(&tables.job)?,
            apps,
            node_count: tables.node_count,
            node_columns: columns(&tables.node_columns)?,
            own_node: tables.own_node,
            rank_count: tables.rank_count,
            proc_columns: columns(&tables.proc_columns)?,
        })
    }
}

/// Whether a node's value is a list that grows with the job or the node. Each process of a node would repeat it; the
/// node's array has it, too, and the server answers a Get of it.
fn is_long_list(column: &StoredColumn<'_>) -> bool {
    let lists = [keys::FABRIC_COORDINATES.name(), keys::SWITCH_PEERS.name()];
    column.is_of_node() && lists.contains(&column.key())
}

fn renew(entry: &mut Option<Kval>, key: &Key, found: Option<ValueRef<'_>>) -> Result<(), Damage> {
    match (entry.as_mut(), found) {
        (_, None) => *entry = None,
        (None, Some(found)) => *entry = Some(Kval { key: key.clone(), value: found.to_value()? }),
        (Some(Kval { value: Value::String(text), .. }), Some(found))
            if found.data_type() == DataType::String && found.as_bytes() == Some(text.as_bytes()) => {}
        (Some(entry), Some(found)) => entry.value = found.to_value()?,
    }
    Ok(())
}

/// The session's values, number first; `None` if the session has no data.
fn session_array(tables: &JobTables<'_>) -> Result<Option<Kval>, Damage> {
    let nodes = node_arrays(&tables.session_nodes, tables.node_count)?;
    if tables.session.is_empty() && tables.session_id.is_none() && nodes.is_empty() {
        return Ok(None);
    }
    // The reference library's number for a session without one.
    Ok(Some(session(tables.session_id.unwrap_or(u32::MAX), &tables.session, nodes)?))
}

fn session(id: u32, values: &[(&str, ValueRef<'_>)], nodes: Vec<Info>) -> Result<Kval, Damage> {
    let mut infos = vec![Info::new(Key::from_static(keys::SESSION_ID.name()), id)];
    infos.extend(other_infos(values, keys::SESSION_ID.name())?);
    infos.extend(nodes);
    Ok(array(keys::SESSION_INFO_ARRAY.name(), infos))
}

/// The arrays of the sessions besides the job's.
fn other_sessions(tables: &JobTables<'_>) -> Result<Vec<Info>, Damage> {
    let mut arrays = Vec::with_capacity(tables.other_sessions.len());
    for other in &tables.other_sessions {
        let nodes = node_arrays(&other.node_columns, tables.node_count)?;
        let Kval { key, value } = session(other.number, &other.values, nodes)?;
        arrays.push(Info::new(key, value));
    }
    Ok(arrays)
}

/// The node values of a session or application, as one array for each node with values.
fn node_arrays(columns: &[StoredColumn<'_>], node_count: u32) -> Result<Vec<Info>, Damage> {
    let mut arrays = Vec::new();
    for node in (0..node_count).filter(|_| !columns.is_empty()) {
        let infos = node_infos(columns, node)?;
        if !infos.is_empty() {
            let Kval { key, value } = array(keys::NODE_INFO_ARRAY.name(), infos);
            arrays.push(Info::new(key, value));
        }
    }
    Ok(arrays)
}

fn node_infos(columns: &[StoredColumn<'_>], node: u32) -> Result<Vec<Info>, Damage> {
    let mut infos = Vec::new();
    for column in name_first(columns) {
        push_info(&mut infos, column.key(), column.value(node)?)?;
    }
    Ok(infos)
}

/// The columns, hostnames first: readers expect the name at the start of a node array.
fn name_first<'c, 'a>(columns: &'c [StoredColumn<'a>]) -> impl Iterator<Item = &'c StoredColumn<'a>> {
    let is_name = |column: &&StoredColumn<'_>| column.key() == keys::HOSTNAME.name();
    columns.iter().filter(is_name).chain(columns.iter().filter(move |column| !is_name(column)))
}

/// Table entries as infos, except one key that has been written already.
fn other_infos(values: &[(&str, ValueRef<'_>)], without: &str) -> Result<Vec<Info>, Damage> {
    let mut infos = Vec::with_capacity(values.len());
    for (key, value) in values.iter().filter(|(key, _)| *key != without) {
        push_info(&mut infos, key, Some(*value))?;
    }
    Ok(infos)
}

fn push_info(infos: &mut Vec<Info>, key: &str, value: Option<ValueRef<'_>>) -> Result<(), Damage> {
    if let Some(value) = value {
        infos.push(Info::new(key_of(public_name(key))?, value.to_value()?));
    }
    Ok(())
}

fn array(key: &'static str, infos: Vec<Info>) -> Kval {
    Kval { key: Key::from_static(key), value: Value::info_array(infos) }
}

fn owned(values: &[(&str, ValueRef<'_>)]) -> Result<Vec<(Key, Value)>, Damage> {
    values.iter().map(|(key, value)| Ok((key_of(key)?, value.to_value()?))).collect()
}

fn columns(columns: &[StoredColumn<'_>]) -> Result<Vec<Column>, Damage> {
    columns.iter().map(|column| Ok(Column { key: key_of(column.key())?, values: column_values(column)? })).collect()
}

fn column_values(column: &StoredColumn<'_>) -> Result<ColumnValues, Damage> {
    if column.is_of_node() {
        return Ok(ColumnValues::OfNode);
    }
    if let Some(dealt) = column.view().dealt_ranks()? {
        return Ok(ColumnValues::RankLists(dealt));
    }
    if let Some(endpoints) = column.view().endpoints()? {
        return Ok(ColumnValues::Endpoints(endpoints));
    }
    let value = |index| column.value(index)?.map(|value| value.to_value()).transpose();
    if column.view().is_constant()
        && let Some(value) = value(0)?
    {
        return Ok(ColumnValues::Constant(value));
    }
    if let Some((data_type, values)) = column.view().numbers()?
        && registration::is_of_numbers(data_type)
    {
        return Ok(ColumnValues::Numbers { data_type, values });
    }
    if let Some(indexes) = column.view().sparse_indexes()? {
        let few = indexes.map(|index| Ok(value(index)?.map(|value| (index, value))));
        return Ok(ColumnValues::Sparse(few.filter_map(Result::transpose).collect::<Result<_, Damage>>()?));
    }
    let values = (0..column.count()).map(value);
    Ok(ColumnValues::Values(values.collect::<Result<_, _>>()?))
}

fn key_of(name: &str) -> Result<Key, Damage> {
    if let Some(attribute) = keys::by_name(name) {
        return Ok(Key::from_static(attribute.name));
    }
    stored_key(name).map_err(|_| Damage::Text { what: "key", len: u64::try_from(name.len()).unwrap_or(u64::MAX) })
}
