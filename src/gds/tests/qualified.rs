//! Gets with qualifiers: the store's index against the plain model, and against a walk through the segment.

use std::borrow::Cow;

use proptest::prelude::*;

use super::*;
use crate::gds::model::MapStore;
use crate::gds::qualified::{self, QUALIFIED_VALUE};
use crate::gds::{Datastore, LookupError, NodeSelector, Origin};
use crate::types::{Info, InfoFlags, LentEntry, LentKey, LentValue};

const KEYS: [&str; 2] = ["k", "pmix.l"];
const RANK_COUNT: u32 = 4;
/// Ranks from here on are on other nodes.
const FIRST_REMOTE: u32 = 2;
/// The qualifiers of posted values.
const QUALIFIER_COUNT: usize = 5;
/// A qualifier of registered values alone. The model prefers registered values, and the store posted ones.
const OF_HOST: usize = QUALIFIER_COUNT;

fn qualifier(number: usize) -> Info {
    let (name, value) = [
        ("a", Value::Uint32(1)),
        ("a", Value::Uint64(1)),
        ("a", Value::Uint32(2)),
        ("b", Value::from("x")),
        ("c", Value::info_array(vec![Info::new(key("n"), 1_u32)])),
        ("host", Value::Bool(true)),
    ][number]
        .clone();
    Info { flags: InfoFlags::QUALIFIER.bits(), ..Info::new(key(name), value) }
}

/// A value, with its key and these qualifiers.
fn value(name: &str, number: u32, qualifiers: &[usize]) -> Value {
    let infos = qualifiers.iter().map(|number| qualifier(*number));
    Value::info_array(std::iter::once(Info::new(key(name), number)).chain(infos).collect())
}

#[derive(Clone, Debug)]
struct Post {
    rank: u32,
    scope: Scope,
    values: Vec<Value>,
    arrives: bool,
}

fn any_values() -> impl Strategy<Value = Vec<Value>> {
    let qualifiers = prop::collection::vec(0..QUALIFIER_COUNT, 1..4);
    let value = (prop::sample::select(&KEYS[..]), 0_u32..1000, qualifiers);
    let value = value.prop_map(|(name, number, qualifiers)| self::value(name, number, &qualifiers));
    prop::collection::vec(value, 1..6)
}

fn any_post() -> impl Strategy<Value = Post> {
    let scope = prop::sample::select(vec![Scope::Local, Scope::Remote, Scope::Global]);
    (0..RANK_COUNT, scope, any_values(), any::<bool>()).prop_map(|(rank, scope, values, arrives)| {
        let is_remote = rank >= FIRST_REMOTE;
        Post { rank, scope: if is_remote { Scope::Remote } else { scope }, values, arrives: arrives && is_remote }
    })
}

/// Registered values of a rank.
fn any_description() -> impl Strategy<Value = Vec<Info>> {
    let own = (prop::sample::select(&KEYS[..]), prop::collection::vec(0..=QUALIFIER_COUNT, 0..3));
    let of_rank = |(rank, (name, mut own)): (u32, (&str, Vec<usize>))| {
        own.push(OF_HOST);
        let rank = Info::new(key("pmix.rank"), Rank::Process(rank));
        let entry = Info::new(key(QUALIFIED_VALUE), value(name, 5000, &own));
        Info::new(key("pmix.pdata"), Value::info_array(vec![rank, entry]))
    };
    prop::collection::btree_map(0..RANK_COUNT, own, 0..3).prop_map(move |ranks| {
        let size = Info::new(key("pmix.job.size"), RANK_COUNT);
        std::iter::once(size).chain(ranks.into_iter().map(of_rank)).collect()
    })
}

fn post(store: &mut impl Datastore, Post { rank, scope, values, arrives }: &Post) {
    let origin = if *rank < FIRST_REMOTE { Origin::Local } else { Origin::Remote };
    if *arrives {
        let name = || LentKey::new(QUALIFIED_VALUE.as_bytes()).unwrap();
        let lent = |value| LentEntry { key: name(), value: LentValue::Value(Cow::Borrowed(value)) };
        store.take_arrival(&namespace(), *rank, &values.iter().map(lent).collect::<Vec<_>>()).unwrap();
        store.publish_arrivals(&namespace()).unwrap();
        return;
    }
    let stored = values.iter().map(|value| qualified::stored(key(QUALIFIED_VALUE), value.clone()));
    let posted: Vec<Posted> = stored.map(|(key, value)| Posted { scope: *scope, key, value }).collect();
    store.commit(&namespace(), *rank, origin, &posted).unwrap();
}

/// As the model takes it: without arrivals, and by stored names.
fn post_to_model(model: &mut MapStore, posted: &Post) {
    post(model, &Post { arrives: false, ..posted.clone() });
}

#[derive(Clone, Debug)]
struct Get {
    rank: Rank,
    key: &'static str,
    wanted: Vec<usize>,
    audience: Option<Audience>,
}

fn any_get() -> impl Strategy<Value = Get> {
    let ranks = (0..RANK_COUNT).map(Rank::Process).chain([Rank::Wildcard, Rank::Undefined]).collect::<Vec<_>>();
    let audiences = vec![None, Some(Audience::SameNode), Some(Audience::OtherNodes), Some(Audience::Nobody)];
    let wanted = prop::collection::vec(0..=QUALIFIER_COUNT, 0..4);
    let parts = (prop::sample::select(ranks), prop::sample::select(&KEYS[..]), wanted, prop::sample::select(audiences));
    parts.prop_map(|(rank, key, wanted, audience)| Get { rank, key, wanted, audience })
}

fn compare(store: &Store, model: &MapStore, get: &Get) -> Result<(), TestCaseError> {
    let qualifiers: Vec<Info> = get.wanted.iter().map(|number| qualifier(*number)).collect();
    let (rank, key, audience) = (get.rank, KeyRef::new(get.key), get.audience);
    let lookup = Lookup { rank, key, realm: RealmRequest::Default, audience };
    let found = store.lookup_qualified(&namespace(), &lookup, &qualifiers);
    let walked = store.reader(&namespace()).unwrap().get_qualified(&lookup, &qualifiers);
    prop_assert_eq!(found.as_ref().ok(), walked.as_ref().ok(), "{:?}", get);
    // The model prefers the last of several ranks with one name.
    if rank != Rank::Undefined {
        let expected = model.lookup_qualified(&namespace(), &lookup, &qualifiers);
        prop_assert_eq!(&found, &expected, "{:?}", get);
    }
    Ok(())
}

proptest! {
    #![proptest_config(crate::cases::cases(300))]
    #[test]
    fn a_get_with_qualifiers_finds_what_a_walk_through_all_values_finds(
        description in any_description(),
        posts in prop::collection::vec(any_post(), 0..12),
        gets in prop::collection::vec(any_get(), 40),
    ) {
        let (mut store, mut model) = (store(BackingKind::Heap), MapStore::new());
        store.register(&namespace(), &description).unwrap();
        model.register(&namespace(), &description).unwrap();
        for posted in &posts {
            post(&mut store, posted);
            post_to_model(&mut model, posted);
        }
        for get in &gets {
            compare(&store, &model, get)?;
        }
    }
}

fn find(store: &Store, rank: Rank, realm: RealmRequest<'_>, wanted: &[usize]) -> Result<Value, LookupError> {
    let qualifiers: Vec<Info> = wanted.iter().map(|number| qualifier(*number)).collect();
    let lookup = Lookup { rank, key: KeyRef::new("k"), realm, audience: None };
    store.lookup_qualified(&namespace(), &lookup, &qualifiers)
}

#[test]
fn a_registration_replaces_the_names_of_the_last_one_and_leaves_the_posted_ones() {
    let mut store = store(BackingKind::Memfd);
    let of_job = |number, qualifiers: &[usize]| {
        let (key, value) = qualified::stored(key(QUALIFIED_VALUE), value("k", number, qualifiers));
        JobRecord { job: vec![(key, value)], ..block_job(1, RANK_COUNT) }
    };
    store.register_record(&namespace(), &of_job(1, &[0, OF_HOST])).unwrap();
    post(&mut store, &Post { rank: 1, scope: Scope::Global, values: vec![value("k", 2, &[0])], arrives: false });
    store.register_record(&namespace(), &of_job(3, &[3, OF_HOST])).unwrap();
    for rank in [Rank::Wildcard, Rank::Undefined] {
        assert_eq!(find(&store, rank, RealmRequest::Default, &[3]), Ok(value("k", 3, &[3, OF_HOST])));
    }
    assert_eq!(find(&store, Rank::Process(1), RealmRequest::Job, &[3]), Ok(value("k", 3, &[3, OF_HOST])));
    assert!(find(&store, Rank::Process(1), RealmRequest::Node(NodeSelector::Implied), &[0]).is_err());
    assert_eq!(find(&store, Rank::Undefined, RealmRequest::Default, &[0]), Ok(value("k", 2, &[0])));
    assert!(find(&store, Rank::Wildcard, RealmRequest::Default, &[0]).is_err());
}

/// A Get that waits for its value must not end because another value of the key is hidden.
#[test]
fn a_hidden_value_with_other_qualifiers_is_no_reason() {
    let mut store = store(BackingKind::Heap);
    store.register_record(&namespace(), &block_job(1, RANK_COUNT)).unwrap();
    post(&mut store, &Post { rank: 0, scope: Scope::Remote, values: vec![value("k", 2, &[0, 3])], arrives: false });
    let error = |wanted: &[usize]| find(&store, Rank::Process(0), RealmRequest::Default, wanted).unwrap_err();
    assert!(matches!(error(&[0]), LookupError::OutsideScope { .. }));
    assert!(matches!(error(&[0, 3]), LookupError::OutsideScope { .. }));
    assert!(matches!(error(&[0, 2]), LookupError::NotFound { .. }));
    assert!(matches!(error(&[2]), LookupError::NotFound { .. }));
}

/// A commit that is refused leaves nothing in the index.
#[test]
fn a_refused_commit_is_not_found() {
    let mut store = store(BackingKind::Heap);
    store.register_record(&namespace(), &block_job(1, RANK_COUNT)).unwrap();
    let (name, value) = qualified::stored(key(QUALIFIED_VALUE), value("k", 1, &[0]));
    let values = [Posted { scope: Scope::Global, key: name, value }, posted(Scope::Internal, "x", 1_u32)];
    assert!(store.commit(&namespace(), 0, Origin::Local, &values).is_err());
    for rank in [Rank::Process(0), Rank::Undefined] {
        assert!(matches!(find(&store, rank, RealmRequest::Default, &[0]), Err(LookupError::NotFound { .. })));
    }
}
