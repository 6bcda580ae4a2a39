//! Updates: fills values missing in the new description from an earlier registration.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::gds::job_record::{Column, ColumnValues, JobRecord};
use crate::types::{Rank, Value};
use crate::{keys, regex};

use super::coerce::{RecordCell, number_value, text_of};
use super::collect::Facts;
use super::columns::{ColumnBuilder, Columns};
use super::context::DescriptionLimits;
use super::error::RegisterError;
use super::maps::{Maps, map_bytes};
use super::node_identity::{NodeIdentity, names_in};
use super::nodes::Nodes;
use super::sessions::Settled;
use super::table::{PartFacts, ValueTable};

/// Adds earlier values of job and applications, except values derived from a map that is replaced.
///
/// `was_unmapped`: there was no map before. The list of nodes may then be derived from the processes, and is added
/// later.
pub(super) fn fill_tables(facts: &mut Facts<'_>, previous: &JobRecord, fresh: &Maps, was_unmapped: bool) {
    // A number of slots equal to the job's size was probably derived, so it grows with the size.
    let earlier_size =
        previous.job_value(keys::JOB_SIZE.name()).filter(|_| facts.job.get(keys::JOB_SIZE.name()).is_some());
    for (key, value) in &previous.job {
        let is_stale = fresh.nodes.is_some() && FROM_NODE_MAP.contains(&key.as_str())
            || fresh.ranks.is_some() && FROM_PROC_MAP.contains(&key.as_str())
            || was_unmapped && LISTS_OF_NODES.contains(&key.as_str())
            || key.as_str() == keys::MAX_PROCS.name() && Some(value) == earlier_size;
        if !is_stale {
            facts.job.fill(key.clone(), value.clone());
        }
    }
    for app in &previous.apps {
        let table = &mut facts.apps.entry(app.number).or_default().table;
        for (key, value) in &app.entries {
            table.fill(key.clone(), value.clone());
        }
    }
}

/// Adds the earlier nodes, each at its index and with the names and the number it had.
///
/// `has_followed`: without a map, the derived nodes followed the processes.
pub(super) fn add_nodes(
    nodes: &mut Nodes<'_, '_>,
    previous: &JobRecord,
    has_followed: bool,
    limits: &DescriptionLimits,
) -> Result<(), RegisterError> {
    let mapped_count = if has_followed { previous.node_count } else { mapped_count(previous, limits)? };
    for index in 0..previous.node_count {
        let value = |key: &str| node_value(previous, key, index);
        let identity = NodeIdentity {
            anchor: None,
            hostname: value(keys::HOSTNAME.name()).as_ref().and_then(text_of),
            id: value(keys::NODEID.name()).as_ref().and_then(Value::as_u32),
            aliases: value(keys::HOSTNAME_ALIASES.name()).as_ref().map(names_in).unwrap_or_default(),
        };
        nodes.restore(identity, mapped_count)?;
    }
    Ok(())
}

/// Number of nodes in the earlier map, whatever number the host gave.
fn mapped_count(previous: &JobRecord, limits: &DescriptionLimits) -> Result<u32, RegisterError> {
    let map = [keys::NODE_MAP.name(), keys::NODE_MAP_RAW.name()].iter().find_map(|key| previous.job_value(key));
    let Some(map) = map.and_then(map_bytes) else { return Ok(0) };
    let names = regex::expand_nodes(map, &limits.of_maps()).map_err(RegisterError::NodeMap)?;
    Ok(u32::try_from(names.len()).unwrap_or(u32::MAX))
}

/// Adds the earlier number and list of nodes.
pub(super) fn fill_node_list(job: &mut ValueTable, previous: Option<&JobRecord>) {
    let values = previous.into_iter().flat_map(|previous| &previous.job);
    for (key, value) in values.filter(|(key, _)| LISTS_OF_NODES.contains(&key.as_str())) {
        job.fill(key.clone(), value.clone());
    }
}

/// Adds earlier values of nodes and processes.
pub(super) fn fill_columns(
    procs: &mut Columns<'_>,
    nodes: &mut Nodes<'_, '_>,
    previous: &JobRecord,
    rank_count: u32,
    offset: Option<u32>,
) {
    let indexes = node_indexes(nodes, previous);
    let nodes_stay = nodes.count() == previous.node_count
        && indexes.iter().copied().eq((0..previous.node_count).map(|index| (index, index)));
    for column in &previous.node_columns {
        if let (ColumnValues::RankLists(dealt), true) = (&column.values, nodes_stay)
            && dealt.end() <= rank_count
            && nodes.columns.column(&column.key).take_rank_lists(*dealt)
        {
            continue;
        }
        // The names and numbers of nodes were restored or come from the new map; a number may belong to another node
        // now.
        if column.key.as_str() == keys::NODEID.name() || IDENTITIES.contains(&column.key.as_str()) && nodes.is_mapped()
        {
            continue;
        }
        let mut values: Vec<(u32, Value)> =
            indexes.iter().filter_map(|(old, new)| Some((*new, value_at(&column.values, *old)?))).collect();
        values.sort_unstable_by_key(|(index, _)| *index);
        fill(nodes.columns.column(&column.key), values.into_iter());
    }
    let common_count = rank_count.min(previous.rank_count);
    let renumbered = renumbered(nodes, previous, &indexes);
    let earlier_offset = previous.job_value(keys::NPROC_OFFSET.name()).and_then(Value::as_u32);
    let earlier_offset = earlier_offset.filter(|earlier| offset.is_some_and(|offset| offset != *earlier));
    for column in &previous.proc_columns {
        let builder = procs.column(&column.key);
        let number = |rank| value_at(&column.values, rank).and_then(|value| value.as_u32());
        if column.key.as_str() == keys::NODEID.name() && !renumbered.is_empty() {
            let id = |rank| number(rank).map(|id| renumbered.get(&id).copied().unwrap_or(id));
            fill(builder, (0..common_count).filter_map(|rank| Some((rank, Value::Uint32(id(rank)?)))));
            continue;
        }
        if let (GLOBAL_RANK, Some(earlier), Some(offset)) = (column.key.as_str(), earlier_offset, offset) {
            // A value derived from the earlier offset is derived from the new one.
            let follows = |rank: u32, current| earlier.checked_add(rank) == Some(current);
            let now = |rank| {
                number(rank).map(|current| if follows(rank, current) { offset.saturating_add(rank) } else { current })
            };
            fill(builder, (0..common_count).filter_map(|rank| Some((rank, Value::from(Rank::from(now(rank)?))))));
            continue;
        }
        match &column.values {
            ColumnValues::Constant(value) if previous.rank_count >= rank_count => {
                builder.fill_constant(value.clone());
            }
            ColumnValues::Endpoints(endpoints) => builder.fill_endpoints(endpoints.clone()),
            ColumnValues::OfNode => fill_of_node(builder, previous, common_count, rank_count),
            values => fill(builder, (0..common_count).filter_map(|rank| Some((rank, value_at(values, rank)?)))),
        }
    }
}

/// Adds earlier node values of sessions and applications.
pub(super) fn fill_parts(
    sessions: &mut Settled<'_>,
    apps: &mut BTreeMap<u32, PartFacts<'_>>,
    nodes: &Nodes<'_, '_>,
    previous: &JobRecord,
) {
    let indexes = node_indexes(nodes, previous);
    fill_part(&mut sessions.part(previous.session_id).columns, &previous.session_nodes, &indexes);
    for session in &previous.other_sessions {
        fill_part(&mut sessions.part(Some(session.id)).columns, &session.node_columns, &indexes);
    }
    for app in &previous.apps {
        fill_part(&mut apps.entry(app.number).or_default().columns, &app.node_columns, &indexes);
    }
}

fn fill_part(columns: &mut Columns<'_>, earlier: &[Column], indexes: &[(u32, u32)]) {
    for column in earlier {
        let values = indexes.iter().filter_map(|(old, new)| Some((*new, value_at(&column.values, *old)?)));
        let mut values: Vec<(u32, Value)> = values.collect();
        values.sort_unstable_by_key(|(index, _)| *index);
        fill(columns.column(&column.key), values.into_iter());
    }
}

/// Numbers that nodes had, with the new number of the same node: processes stay on their nodes.
fn renumbered(nodes: &Nodes<'_, '_>, previous: &JobRecord, indexes: &[(u32, u32)]) -> FxHashMap<u32, u32> {
    let change = |(old, new): &(u32, u32)| {
        let before = node_value(previous, keys::NODEID.name(), *old)?.as_u32()?;
        let now = nodes.id(*new)?;
        (before != now).then_some((before, now))
    };
    indexes.iter().filter_map(change).collect()
}

/// The present index of each earlier node; lost nodes are left out.
fn node_indexes(nodes: &Nodes<'_, '_>, previous: &JobRecord) -> Vec<(u32, u32)> {
    let now = |index: u32| match nodes.is_mapped() {
        false => Some(index),
        true => nodes.index_of_name(&text_of(&node_value(previous, keys::HOSTNAME.name(), index)?)?),
    };
    let mut indexes: Vec<(u32, u32)> =
        (0..previous.node_count).filter_map(|index| Some((index, now(index)?))).collect();
    // If two earlier nodes are now one, the later one's values are dropped.
    indexes.sort_by_key(|(_, new)| *new);
    indexes.dedup_by_key(|(_, new)| *new);
    indexes
}

/// A column that repeated its nodes' values: kept unless there are new values, else written out.
fn fill_of_node(builder: &mut ColumnBuilder<'_>, previous: &JobRecord, common_count: u32, rank_count: u32) {
    if !builder.is_open() {
        return;
    }
    if builder.entries().is_empty() && previous.rank_count == rank_count {
        builder.set_of_node();
        return;
    }
    let by_id = indexes_by_id(previous);
    let proc_ids = column(&previous.proc_columns, keys::NODEID.name());
    let key = builder.key().clone();
    let value_of = |rank: u32| {
        let node = by_id.get(&value_at(&proc_ids?.values, rank)?.as_u32()?)?;
        node_value(previous, key.as_str(), *node)
    };
    fill(builder, (0..common_count).filter_map(|rank| Some((rank, value_of(rank)?))));
}

/// The nodes by their numbers.
pub(super) fn indexes_by_id(previous: &JobRecord) -> FxHashMap<u32, u32> {
    let ids = column(&previous.node_columns, keys::NODEID.name());
    let id = |index| value_at(&ids?.values, index)?.as_u32();
    (0..previous.node_count).filter_map(|index| Some((id(index)?, index))).collect()
}

fn fill<'a>(builder: &mut ColumnBuilder<'a>, values: impl Iterator<Item = (u32, Value)>) {
    let cells: Vec<(u32, RecordCell<'a>)> = values.map(|(index, value)| (index, builder.cell(value))).collect();
    builder.fill(cells);
}

fn node_value(previous: &JobRecord, key: &str, index: u32) -> Option<Value> {
    value_at(&column(&previous.node_columns, key)?.values, index)
}

pub(super) fn column<'r>(columns: &'r [Column], key: &str) -> Option<&'r Column> {
    columns.iter().find(|column| column.key.as_str() == key)
}

/// The value of a column at an index; `None` if absent, and for columns that repeat the node's values.
pub(super) fn value_at(values: &ColumnValues, index: u32) -> Option<Value> {
    let position = || usize::try_from(index).ok();
    match values {
        ColumnValues::Constant(value) => Some(value.clone()),
        ColumnValues::Numbers { data_type, values } => {
            values.get(position()?).map(|number| number_value(*data_type, *number))
        }
        ColumnValues::Counting { data_type, first } => {
            Some(number_value(*data_type, first.saturating_add(index.into())))
        }
        ColumnValues::Texts(texts) => texts.get(position()?).map(Value::from),
        ColumnValues::RankLists(dealt) => dealt.text_of(index).map(Value::from),
        ColumnValues::Values(values) => values.get(position()?)?.clone(),
        ColumnValues::Sparse(values) => {
            let found = values.binary_search_by_key(&index, |(at, _)| *at).ok()?;
            values.get(found).map(|(_, value)| value.clone())
        }
        ColumnValues::Endpoints(endpoints) => endpoints.of(index),
        ColumnValues::OfNode => None,
    }
}

/// Job values that a new node map makes stale, including the earlier map in its other form.
const FROM_NODE_MAP: [&str; 4] =
    [keys::NUM_NODES.name(), keys::NODE_LIST.name(), keys::NODE_MAP.name(), keys::NODE_MAP_RAW.name()];

/// Job values that list the nodes.
const LISTS_OF_NODES: [&str; 2] = [keys::NUM_NODES.name(), keys::NODE_LIST.name()];

/// Job values that a new process map makes stale, including the earlier map in its other form.
const FROM_PROC_MAP: [&str; 4] =
    [keys::JOB_SIZE.name(), keys::MAX_PROCS.name(), keys::PROC_MAP.name(), keys::PROC_MAP_RAW.name()];

const GLOBAL_RANK: &str = keys::GLOBAL_RANK.name();

/// Node values that identify the node.
const IDENTITIES: [&str; 3] = [keys::HOSTNAME.name(), keys::NODEID.name(), keys::HOSTNAME_ALIASES.name()];
