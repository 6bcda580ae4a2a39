//! Doubtful parts of a description: they are kept, but the host may not have meant them.

use crate::gds::job_record::{Column, ColumnValues, JobRecord};
use crate::keys;
use crate::types::{Key, Namespace, Value};

use super::coerce::{ValueRule, number_value};
use super::previous::{column, value_at};

/// Limit of warnings for one description. The last warning gives the number of further keys.
const DOUBTS_MAX: usize = 16;
/// Nodes that a warning names.
const NAMED_MAX: usize = 8;

/// Warns of doubtful values, once for each key. An update does not repeat the warnings of the earlier description.
pub(in crate::gds) fn warn_of_doubts(namespace: &Namespace, record: &JobRecord, previous: Option<&JobRecord>) {
    let mut doubts = doubts(record);
    if doubts.is_empty() {
        return;
    }
    let earlier = previous.map(self::doubts).unwrap_or_default();
    doubts.retain(|doubt| !earlier.contains(doubt));
    for doubt in doubts.iter().take(DOUBTS_MAX) {
        tracing::warn!(%namespace, "{doubt}");
    }
    if let Some(more) = doubts.len().checked_sub(DOUBTS_MAX).filter(|more| *more > 0) {
        tracing::warn!(%namespace, more, "values of more keys do not have the type of their key");
    }
}

/// One text for each key with an unsuitable value, one for ranks beyond the size of the job, and one for misnamed
/// nodes.
pub(super) fn doubts(record: &JobRecord) -> Vec<String> {
    let declared = record.job_value(keys::JOB_SIZE.name()).and_then(Value::as_u32);
    let beyond = declared.filter(|declared| *declared < record.rank_count).map(|declared| {
        let last = record.rank_count.saturating_sub(1);
        format!("PMIX_JOB_SIZE is {declared}, but the process map has ranks up to {last}; all of them are taken")
    });
    let mut doubts: Vec<String> = beyond.into_iter().chain(places_elsewhere(record)).collect();
    let mut keys_seen: Vec<&str> = Vec::new();
    let entries = entries(record).filter_map(|(key, value)| Some((key, misfit(key, value)?)));
    let columns = columns(record).filter_map(|column| Some((&column.key, misfit_in(column)?)));
    for (key, misfit) in entries.chain(columns) {
        if !keys_seen.contains(&key.as_str()) {
            keys_seen.push(key.as_str());
            doubts.push(format!("a value is kept as the host gave it: {misfit}"));
        }
    }
    doubts
}

/// A setup with other names than the node map's gives its places on the fabric to nodes without processes.
fn places_elsewhere(record: &JobRecord) -> Option<String> {
    let values = |key: &str| column(&record.node_columns, key).map(|of| &of.values);
    let (placed, mapped) = (values(keys::FABRIC_COORDINATES.name())?, values(keys::LOCAL_SIZE.name())?);
    let names = values(keys::HOSTNAME.name())?;
    let has = |values, node| value_at(values, node).is_some();
    let own = record.own_node.filter(|own| has(mapped, *own) && !has(placed, *own))?;
    let name = |node| value_at(names, node).and_then(|name| name.as_str().map(str::to_owned));
    let elsewhere = (0..record.node_count).filter(|node| !has(mapped, *node) && has(placed, *node));
    let mut elsewhere: Vec<String> = elsewhere.filter_map(name).take(NAMED_MAX + 1).collect();
    if elsewhere.len() > NAMED_MAX {
        elsewhere.truncate(NAMED_MAX);
        elsewhere.push("...".to_owned());
    }
    (!elsewhere.is_empty()).then(|| {
        format!(
            "the fabric resources are those of nodes {}, which have no process of the job, and not of this node {}; set the job up \
             with the names of its node map, or register them as PMIX_HOSTNAME_ALIASES",
            elsewhere.join(", "),
            name(own).unwrap_or_default()
        )
    })
}

fn entries(record: &JobRecord) -> impl Iterator<Item = &(Key, Value)> {
    let sessions = record.other_sessions.iter().flat_map(|session| &session.entries);
    let apps = record.apps.iter().flat_map(|app| &app.entries);
    record.session.iter().chain(sessions).chain(&record.job).chain(apps)
}

fn columns(record: &JobRecord) -> impl Iterator<Item = &Column> {
    let sessions = record.other_sessions.iter().flat_map(|session| &session.node_columns);
    let apps = record.apps.iter().flat_map(|app| &app.node_columns);
    record.session_nodes.iter().chain(sessions).chain(apps).chain(&record.node_columns).chain(&record.proc_columns)
}

fn misfit(key: &Key, value: &Value) -> Option<String> {
    Some(ValueRule::of(key.as_str()).misfit(key.as_str(), value)?.to_string())
}

/// The misfit of the first unsuitable value of a column. Numbers and texts of a column have one type.
fn misfit_in(column: &Column) -> Option<String> {
    let rule = ValueRule::of(column.key.as_str());
    let misfit = |value: &Value| rule.misfit(column.key.as_str(), value).map(|misfit| misfit.to_string());
    let of_number = |data_type, number| match rule.number_type() == Some(data_type) {
        true => None,
        false => misfit(&number_value(data_type, number)),
    };
    match &column.values {
        ColumnValues::Constant(value) => misfit(value),
        ColumnValues::Numbers { data_type, values } => values.first().and_then(|first| of_number(*data_type, *first)),
        ColumnValues::Counting { data_type, first } => of_number(*data_type, *first),
        ColumnValues::Texts(texts) => texts.get(0).and_then(|text| misfit(&Value::from(text))),
        ColumnValues::Values(values) => values.iter().flatten().find_map(misfit),
        ColumnValues::Sparse(values) => values.iter().find_map(|(_, value)| misfit(value)),
        ColumnValues::RankLists(_) | ColumnValues::Endpoints(_) | ColumnValues::OfNode => None,
    }
}
