//! Tests of the datastore as a whole.

mod arrivals;
mod behaviour;
mod columns;
mod completion_table;
mod damage;
mod described;
mod model;
mod qualified;
mod rank_lists;
mod scale;

use super::job_record::{Column, ColumnValues, JobRecord, Texts};
use super::read::walk::StoredColumn;
use super::{Audience, KeyRef, Lookup, NamespaceReader, Posted, ReadError, RealmRequest, Section, Store, StoreOptions};
use crate::shmem::BackingKind;
use crate::types::{Key, Namespace, Rank, Scope, Value};

fn namespace() -> Namespace {
    Namespace::new("job-1").unwrap()
}

fn store(backing: BackingKind) -> Store {
    Store::new(options(backing))
}

fn options(backing: BackingKind) -> StoreOptions {
    StoreOptions { backing, span_bytes: 256 << 20, ..StoreOptions::new("server.0", "n0") }
}

fn attached(store: &mut Store) -> NamespaceReader {
    NamespaceReader::attach(store.handle(&namespace()).unwrap()).unwrap()
}

fn key(name: &str) -> Key {
    Key::new(name.to_owned()).unwrap()
}

fn posted(scope: Scope, name: &str, value: impl Into<Value>) -> Posted {
    Posted { scope, key: key(name), value: value.into() }
}

fn column(name: &str, values: ColumnValues) -> Column {
    Column { key: key(name), values }
}

fn read(
    reader: &NamespaceReader,
    rank: impl Into<Rank>,
    name: &str,
    realm: RealmRequest<'_>,
    audience: Option<Audience>,
) -> Result<Value, ReadError> {
    let lookup = Lookup { rank: rank.into(), key: KeyRef::new(name), realm, audience };
    Ok(reader.get(&lookup)?.to_value()?)
}

/// The same by the long way alone.
fn search(
    reader: &NamespaceReader,
    rank: Rank,
    name: &str,
    realm: RealmRequest<'_>,
    audience: Option<Audience>,
) -> Result<Value, ReadError> {
    Ok(reader.search(&Lookup { rank, key: KeyRef::new(name), realm, audience })?.to_value()?)
}

fn get(reader: &NamespaceReader, rank: impl Into<Rank>, name: &str) -> Result<Value, ReadError> {
    read(reader, rank, name, RealmRequest::Default, None)
}

/// A block job: `ranks_per_node` consecutive ranks on each node.
fn block_job(node_count: u32, ranks_per_node: u32) -> JobRecord {
    use crate::types::DataType::{ProcRank, Uint16, Uint32};
    let rank_count = node_count * ranks_per_node;
    let numbers = |data_type, count: u32, number: &dyn Fn(u64) -> u64| ColumnValues::Numbers {
        data_type,
        values: (0..u64::from(count)).map(number).collect(),
    };
    let width = u64::from(ranks_per_node);
    let texts = |text: &dyn Fn(u32) -> String| {
        ColumnValues::Values((0..node_count).map(|node| Some(Value::from(text(node)))).collect())
    };
    let peers = |node: u32| {
        let first = node * ranks_per_node;
        (first..first + ranks_per_node).map(|rank| rank.to_string()).collect::<Vec<_>>().join(",")
    };
    JobRecord {
        session: vec![(key("pmix.univ.size"), Value::Uint32(rank_count))],
        session_id: Some(7),
        job: vec![(key("pmix.job.size"), Value::Uint32(rank_count)), (key("pmix.jobid"), Value::from("job-1"))],
        apps: vec![super::job_record::AppRecord {
            number: 0,
            entries: vec![(key("pmix.app.size"), Value::Uint32(rank_count))],
            node_columns: Vec::new(),
        }],
        session_nodes: Vec::new(),
        other_sessions: Vec::new(),
        node_count,
        own_node: Some(0),
        node_columns: vec![
            column("pmix.hname", texts(&|node| format!("node{node:05}"))),
            column("pmix.nodeid", numbers(Uint32, node_count, &|node| node)),
            column("pmix.lpeers", texts(&peers)),
            column("pmix.lldr", numbers(ProcRank, node_count, &|node| node * width)),
            column("pmix.local.size", ColumnValues::Constant(Value::Uint32(ranks_per_node))),
            column("pmix.node.size", ColumnValues::Constant(Value::Uint32(ranks_per_node))),
        ],
        rank_count,
        proc_columns: vec![
            column("pmix.rank", numbers(ProcRank, rank_count, &|rank| rank)),
            column("pmix.grank", numbers(ProcRank, rank_count, &|rank| rank)),
            column("pmix.apprank", numbers(ProcRank, rank_count, &|rank| rank)),
            column("pmix.appnum", ColumnValues::Constant(Value::Uint32(0))),
            column("pmix.lrank", numbers(Uint16, rank_count, &|rank| rank % width)),
            column("pmix.nrank", numbers(Uint16, rank_count, &|rank| rank % width)),
            column("pmix.nodeid", numbers(Uint32, rank_count, &|rank| rank / width)),
            column("pmix.hname", ColumnValues::OfNode),
        ],
    }
}
