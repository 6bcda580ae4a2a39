//! From the host's description to a client's answer, through a real segment.

use super::*;
use crate::gds::{KeyRef, Lookup, NodeSelector, Publish, RealmRequest, Store, StoreOptions};
use crate::shmem::BackingKind;

fn store() -> Store {
    let mut options = StoreOptions::new("server.0", "n1");
    options.backing = BackingKind::Heap;
    Store::new(options)
}

fn answer(store: &Store, rank: Rank, key: &str, realm: RealmRequest<'_>) -> Option<Value> {
    store.lookup(&namespace(), &Lookup { rank, key: KeyRef::new(key), realm, audience: None }).ok()
}

fn description() -> Vec<Info> {
    JobDescription::new(&namespace())
        .nodes(["n0", "n1", "n2"])
        .ranks_by_node([vec![0, 3], vec![1, 4], vec![2]])
        .app(5, ["a"], "/w")
        .session_id(7)
        .build()
        .unwrap()
}

#[test]
fn a_described_job_answers_in_every_realm() {
    let mut store = store();
    let summary = store.register(&namespace(), &description()).unwrap();
    assert_eq!((summary.job_size, summary.node_count), (Some(5), Some(3)));
    let default = |rank, key| answer(&store, rank, key, RealmRequest::Default);
    assert_eq!(default(Rank::Wildcard, "pmix.job.size"), Some(Value::Uint32(5)));
    assert_eq!(default(Rank::Wildcard, "pmix.univ.size"), Some(Value::Uint32(5)));
    assert_eq!(default(Rank::Wildcard, "pmix.session.id"), Some(Value::Uint32(7)));
    assert_eq!(default(Rank::Wildcard, "pmix.lpeers"), Some(Value::from("1,4")));
    assert_eq!(default(Rank::Process(3), "pmix.hname"), Some(Value::from("n0")));
    assert_eq!(default(Rank::Process(4), "pmix.lrank"), Some(Value::Uint16(1)));
    assert_eq!(default(Rank::Process(4), "pmix.wdir"), Some(Value::from("/w")));
    let node = RealmRequest::Node(NodeSelector::Name("n2"));
    assert_eq!(answer(&store, Rank::Wildcard, "pmix.local.size", node), Some(Value::Uint32(1)));
}

#[test]
fn registering_again_updates_what_the_segment_holds() {
    let mut store = store();
    store.register(&namespace(), &description()).unwrap();
    let later = [info("pmix.jobid", "new"), process(2, vec![info("pmix.reinc", 4_u32)])];
    store.register(&namespace(), &later).unwrap();
    let default = |rank, key| answer(&store, rank, key, RealmRequest::Default);
    assert_eq!(default(Rank::Wildcard, "pmix.jobid"), Some(Value::from("new")));
    assert_eq!(default(Rank::Process(2), "pmix.reinc"), Some(Value::Uint32(4)));
    assert_eq!(default(Rank::Process(1), "pmix.reinc"), Some(Value::Uint32(0)));
    assert_eq!(default(Rank::Process(2), "pmix.hname"), Some(Value::from("n2")));
    assert_eq!(default(Rank::Wildcard, "pmix.nlist"), Some(Value::from("n0,n1,n2")));
}
