//! Descriptions of jobs: the host's description is refused or can be read back. A refusal leaves the earlier state.
//!
//! Input: form and encoding, position of the cut, then a description. The part before the cut is registered first; the
//! part behind it is an update. Some of it is committed, too.

#![no_main]

use libfuzzer_sys::fuzz_target;
use modex::gds::job_record::JobRecord;
use modex::gds::registration::{Context, DescriptionLimits, parse, parse_description};
use modex::gds::{
    Audience, Datastore, KeyRef, Lookup, NamespaceReader, NodeSelector, Origin, Posted, ReadError, RealmRequest, Store,
    StoreLimits, StoreOptions,
};
use modex::shmem::BackingKind;
use modex::types::{Info, Rank, Scope};
use modex_fuzz::{codec, description, sample};

fuzz_target!(|input: &[u8]| {
    let [form, cut, bytes @ ..] = input else { return };
    let infos = match form % 8 {
        0..4 => description::from_short_form(bytes),
        _ => description::from_wire(bytes, codec(form / 8)),
    };
    let (first, second) = infos.split_at(usize::from(*cut).min(infos.len()));
    alone(&infos);
    in_a_store(first, second);
});

const LIMITS: DescriptionLimits =
    DescriptionLimits { ranks_max: 64, nodes_max: 16, aliases_max: 8, apps_max: 8, entries_max: 512, depth_max: 8 };

fn context() -> Context {
    Context { limits: LIMITS, ..Context::new("n1") }
}

/// An accepted description keeps to the limits and does not change when it is registered a second time.
fn alone(infos: &[Info]) {
    let job = sample::namespace();
    let in_tables = parse_description(&job, &context(), &description::in_tables(infos), None);
    let Ok(record) = parse(&job, &context(), infos, None) else {
        assert!(in_tables.is_err(), "tables hide what is wrong");
        return;
    };
    assert_eq!(by_key(in_tables.expect("tables say the same")), by_key(record.clone()));
    assert!(record.rank_count <= LIMITS.ranks_max && record.node_count <= LIMITS.nodes_max + 1);
    assert!(record.own_node.is_none_or(|node| node < record.node_count));
    parse(&job, &context(), infos, Some(&record)).expect("a description is no update that contradicts itself");
}

/// The record as text, in which NaNs are equal. The columns of its processes are in the order of their keys.
fn by_key(mut record: JobRecord) -> String {
    record.proc_columns.sort_by(|a, b| a.key.cmp(&b.key));
    format!("{record:?}")
}

fn in_a_store(first: &[Info], second: &[Info]) {
    let job = sample::namespace();
    let mut store = Store::new(StoreOptions {
        backing: BackingKind::Heap,
        span_bytes: 1 << 20,
        limits: StoreLimits {
            keys_max: 128,
            value_bytes_max: 4096,
            ranks_max: 64,
            nodes_max: 64,
            ..StoreLimits::default()
        },
        registration: context(),
        ..StoreOptions::new("server.0", "n1")
    });
    if store.register(&job, first).is_err() {
        assert!(!store.is_registered(&job), "a refused registration left something");
        return;
    }
    let mut seen = read_all(store.reader(&job).expect("registered"));
    for (rank, infos) in [(0, second), (1, first), (0, first)] {
        let post = |info: &Info| Posted { scope: Scope::Global, key: info.key.clone(), value: info.value.clone() };
        let values: Vec<Posted> = infos.iter().map(post).collect();
        let outcome = store.commit(&job, rank, Origin::Local, &values);
        seen = compare(&store, seen, outcome.is_err());
    }
    let outcome = store.register(&job, second);
    compare(&store, seen, outcome.is_err());
}

/// After a failed call all values read as before.
fn compare(store: &Store, before: String, has_failed: bool) -> String {
    let after = read_all(store.reader(&sample::namespace()).expect("still registered"));
    assert!(!has_failed || before == after, "a call that failed changed\n{before}\nto\n{after}");
    after
}

/// Reads all values in every way, and records the results.
fn read_all(reader: &NamespaceReader) -> String {
    let tables = reader.job_tables().expect("undamaged").expect("described");
    let ranks: Vec<u32> = (0..tables.rank_count.max(2)).filter(|rank| rank % 7 < 2).collect();
    for column in &tables.proc_columns {
        for &rank in &ranks {
            reader.proc_value(column, rank).expect("undamaged").map(|value| value.to_value().expect("undamaged"));
        }
    }
    for name in reader.keys().expect("undamaged") {
        let key = KeyRef::new(name);
        for rank in ranks.iter().copied().map(Rank::Process).chain([Rank::Wildcard, Rank::Undefined]) {
            for realm in [
                RealmRequest::Default,
                RealmRequest::Session(None),
                RealmRequest::Job,
                RealmRequest::App(None),
                RealmRequest::Node(NodeSelector::Implied),
                RealmRequest::Node(NodeSelector::Name("n0")),
                RealmRequest::Node(NodeSelector::Id(1)),
            ] {
                match reader.get(&Lookup { rank, key, realm, audience: None }) {
                    Ok(value) => drop(value.to_value().expect("undamaged")),
                    Err(ReadError::Damaged(damage)) => panic!("{name} of {rank} in {realm:?}: {damage}"),
                    Err(_) => {}
                }
            }
        }
    }
    reader.statistics().expect("undamaged");
    let mut seen =
        format!("{:?}\n{:?}", reader.job_entries().expect("undamaged"), reader.job_record().expect("undamaged"));
    for &rank in &ranks {
        reader.blocks(rank).expect("undamaged");
        for (key, value) in reader.posted(rank, Some(Audience::SameNode)).expect("undamaged") {
            seen.push_str(&format!("\n{rank} {key} {:?}", value.to_value().expect("undamaged")));
        }
    }
    seen
}
