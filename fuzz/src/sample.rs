//! A job, and its segment as a server writes it.

use std::os::unix::fs::FileExt;

use modex::gds::registration::JobDescription;
use modex::gds::{Datastore, Origin, Posted, Store, StoreOptions};
use modex::types::{Info, Key, Namespace, ProcId, Scope, Value};

/// The namespace of every target.
#[must_use]
pub fn namespace() -> Namespace {
    Namespace::new("job").expect("a valid name")
}

/// Ranks of [`description`].
pub const RANKS: u32 = 5;

/// Three nodes with most kinds of data that a host registers.
#[must_use]
pub fn description() -> Vec<Info> {
    JobDescription::new(&namespace())
        .nodes(["n0", "n1", "n2"])
        .ranks_by_node([vec![0, 1, 2], vec![3, 4], vec![]])
        .session_id(7)
        .app(2, ["a.out", "-x"], "/tmp")
        .app(3, ["b.out"], "/")
        .build()
        .expect("a valid description")
}

/// The bytes of a segment with the job and posted values of some processes.
#[must_use]
pub fn segment() -> Vec<u8> {
    let mut store = Store::new(StoreOptions { span_bytes: 16 << 20, ..StoreOptions::new("server.0", "n0") });
    let job = namespace();
    store.register(&job, &description()).expect("a valid description");
    let nested = Value::info_array(vec![
        Info::new(Key::from_static("n"), Value::Proc(Box::new(ProcId::new(job.clone(), 1)))),
        Info::new(Key::from_static("m"), Value::from("text")),
    ]);
    for round in 0..4_u32 {
        let posted = |scope, key, value: Value| Posted { scope, key: Key::from_static(key), value };
        let values = [
            posted(Scope::Global, "a", round.into()),
            posted(Scope::Local, "nested", nested.clone()),
            posted(Scope::Remote, "bytes", Value::ByteObject(vec![0xAB; 40])),
        ];
        store.commit(&job, round, Origin::Local, &values).expect("a valid commit");
        store.commit(&job, 0, Origin::Remote, &values).expect("a valid commit");
    }
    let published = store.statistics(&job).expect("an undamaged segment").published_bytes;
    let descriptor = store.handle(&job).expect("a handle").into_descriptor().expect("a memfd");
    let mut bytes = vec![0; usize::try_from(published).expect("a small segment")];
    std::fs::File::from(descriptor).read_exact_at(&mut bytes, 0).expect("a segment of that size");
    bytes
}
