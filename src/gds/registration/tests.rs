//! One test for each rule of registration. Answers are read like a client's request reads them.

mod bad_input;
mod builder;
mod containers;
mod contradictions;
mod derivation;
mod forms;
mod homes;
mod numbers;
mod properties;
mod received;
mod resources;
mod store;
mod tables;
mod unstorable;
mod updates;
mod values;

use super::*;
use crate::gds::job_record::{Column, ColumnValues, JobRecord};
use crate::keys;
use crate::types::{AsStatus, DataArray, DataType, Info, Key, Namespace, ProcId, Rank, Regex2, Status, Text, Value};

fn namespace() -> Namespace {
    Namespace::new("job").unwrap()
}

/// A server on node `n1`.
fn context() -> Context {
    Context::new("n1")
}

fn register(description: &[Info]) -> Result<JobRecord, RegisterError> {
    parse(&namespace(), &context(), description, None)
}

fn record(description: &[Info]) -> JobRecord {
    register(description).unwrap()
}

fn refusal(description: &[Info]) -> RegisterError {
    register(description).unwrap_err().cause().clone()
}

fn info(key: &'static str, value: impl Into<Value>) -> Info {
    Info::new(Key::from_static(key), value)
}

fn array(key: &'static str, entries: Vec<Info>) -> Info {
    info(key, Value::info_array(entries))
}

fn session(entries: Vec<Info>) -> Info {
    array("pmix.ssn.arr", entries)
}

fn job(entries: Vec<Info>) -> Info {
    array("pmix.job.arr", entries)
}

fn app(number: u32, mut entries: Vec<Info>) -> Info {
    entries.insert(0, info("pmix.appnum", number));
    array("pmix.app.arr", entries)
}

fn node(name: &str, mut entries: Vec<Info>) -> Info {
    entries.insert(0, info("pmix.hname", name));
    array("pmix.node.arr", entries)
}

fn process(rank: u32, mut entries: Vec<Info>) -> Info {
    entries.insert(0, info("pmix.rank", Rank::from(rank)));
    array("pmix.pdata", entries)
}

/// Both maps, as plain lists.
fn maps(nodes: &str, ranks: &str) -> Vec<Info> {
    vec![info("pmix.nmap", nodes), info("pmix.pmap", ranks)]
}

fn strings(texts: &[&str]) -> Value {
    let elements = texts.iter().map(|text| Value::from(*text)).collect();
    Value::DataArray(Box::new(DataArray { element_type: DataType::String, elements }))
}

fn column<'r>(columns: &'r [Column], key: &str) -> Option<&'r ColumnValues> {
    columns.iter().find(|column| column.key.as_str() == key).map(|column| &column.values)
}

fn node_value(record: &JobRecord, index: u32, key: &str) -> Option<Value> {
    assert!(index < record.node_count, "node {index} of {}", record.node_count);
    previous::value_at(column(&record.node_columns, key)?, index)
}

/// The value of a process; if the column repeats the node's, the value of the process's node.
fn proc_value(record: &JobRecord, rank: u32, key: &str) -> Option<Value> {
    assert!(rank < record.rank_count, "rank {rank} of {}", record.rank_count);
    match column(&record.proc_columns, key)? {
        ColumnValues::OfNode => {
            let id = proc_value(record, rank, "pmix.nodeid")?;
            let index = (0..record.node_count).find(|i| node_value(record, *i, "pmix.nodeid").as_ref() == Some(&id))?;
            node_value(record, index, key)
        }
        values => previous::value_at(values, rank),
    }
}

fn table_value(entries: &[(Key, Value)], key: &str) -> Option<Value> {
    entries.iter().find(|(k, _)| k.as_str() == key).map(|(_, value)| value.clone())
}

fn session_value(record: &JobRecord, key: &str) -> Option<Value> {
    table_value(&record.session, key)
}

fn job_value(record: &JobRecord, key: &str) -> Option<Value> {
    table_value(&record.job, key)
}

fn app_value(record: &JobRecord, number: u32, key: &str) -> Option<Value> {
    let app = record.apps.iter().find(|app| app.number == number)?;
    table_value(&app.entries, key)
}
