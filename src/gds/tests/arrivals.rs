//! Data of many remote processes, received in pieces.

use std::borrow::Cow;

use super::*;
use crate::gds::{Datastore, StoreError, StoreLimits};
use crate::types::{AsStatus, LentEntry, LentKey, LentValue, Status};

fn entry<'a>(key: &'a str, bytes: &'a [u8]) -> LentEntry<'a> {
    LentEntry { key: LentKey::new(key.as_bytes()).unwrap(), value: LentValue::ByteObject(bytes) }
}

#[test]
fn arrivals_become_readable_when_published_or_before_any_other_change() {
    let mut store = store(BackingKind::Heap);
    store.register_record(&namespace(), &block_job(10, 100)).unwrap();
    let value = [7; 128];
    for rank in 100..110 {
        store.take_arrival(&namespace(), rank, &[entry("a", &value), entry("b", b"")]).unwrap();
    }
    store.publish_arrivals(&namespace()).unwrap();
    let reader = || store.reader(&namespace()).unwrap();
    for rank in 100..110 {
        assert_eq!(get(reader(), rank, "a"), Ok(Value::from(value.to_vec())));
        assert_eq!(get(reader(), rank, "b"), Ok(Value::from(Vec::new())));
    }
    store.take_arrival(&namespace(), 110, &[entry("a", &value)]).unwrap();
    let commit = [posted(Scope::Global, "a", 1_u32)];
    store.commit(&namespace(), 0, crate::gds::Origin::Local, &commit).unwrap();
    assert_eq!(get(store.reader(&namespace()).unwrap(), 110, "a"), Ok(Value::from(value.to_vec())));
}

#[test]
fn of_a_key_given_twice_the_later_value_counts() {
    let mut store = store(BackingKind::Heap);
    store.register_record(&namespace(), &block_job(1, 10)).unwrap();
    store.take_arrival(&namespace(), 3, &[entry("a", b"first"), entry("b", b"x"), entry("a", b"second")]).unwrap();
    store.take_arrival(&namespace(), 3, &[entry("b", b"y")]).unwrap();
    store.publish_arrivals(&namespace()).unwrap();
    let reader = store.reader(&namespace()).unwrap();
    assert_eq!(get(reader, 3, "a"), Ok(Value::from(b"second".to_vec())));
    assert_eq!(get(reader, 3, "b"), Ok(Value::from(b"y".to_vec())));
}

/// A removal behind the first value was dropped, because readers found nothing yet.
#[test]
fn a_removal_behind_a_value_of_its_key_counts() {
    for earlier in [&[][..], &[entry("other", b"x")][..]] {
        let mut store = store(BackingKind::Heap);
        store.register_record(&namespace(), &block_job(1, 10)).unwrap();
        store.take_arrival(&namespace(), 3, earlier).unwrap();
        let removal =
            LentEntry { key: LentKey::new(b"a").unwrap(), value: LentValue::Value(Cow::Owned(Value::Undefined)) };
        store.take_arrival(&namespace(), 3, &[entry("a", b"value"), removal]).unwrap();
        store.publish_arrivals(&namespace()).unwrap();
        assert_eq!(get(store.reader(&namespace()).unwrap(), 3, "a"), Err(ReadError::NotFound));
    }
}

#[test]
fn values_that_are_there_already_take_no_room() {
    let mut store = store(BackingKind::Heap);
    store.register_record(&namespace(), &block_job(1, 10)).unwrap();
    let bytes = |store: &Store| store.statistics(&namespace()).unwrap().published_bytes;
    for (rank, is_news) in [(1, true), (1, false), (2, true), (1, false)] {
        let before = bytes(&store);
        store.take_arrival(&namespace(), rank, &[entry("a", b"a value of some length")]).unwrap();
        store.publish_arrivals(&namespace()).unwrap();
        assert_eq!(bytes(&store) > before, is_news, "rank {rank}");
    }
}

/// A job whose data exceeds the limit gets an error status from the fence. Earlier data stays, and the data of each
/// rank is complete or missing.
#[test]
fn arrivals_beyond_the_segment_limit_fail_and_leave_whole_blocks() {
    let limits = StoreLimits { segment_bytes_max: 4 << 20, ..StoreLimits::default() };
    let mut store = Store::new(StoreOptions { limits, ..options(BackingKind::Heap) });
    store.register_record(&namespace(), &block_job(10, 1000)).unwrap();
    let value = vec![5; 1000];
    let mut refused = None;
    for rank in 0..10_000 {
        if let Err(error) = store.take_arrival(&namespace(), rank, &[entry("a", &value), entry("b", &value)]) {
            refused = Some((rank, error));
            break;
        }
    }
    let (first_missing, error) = refused.unwrap();
    assert!(matches!(error, StoreError::SegmentFull { bytes_max: 0x40_0000, .. }), "{error}");
    assert_eq!(error.status(), Status::ERR_OUT_OF_RESOURCE);
    store.publish_arrivals(&namespace()).unwrap();
    let reader = store.reader(&namespace()).unwrap();
    assert!(first_missing > 1000, "{first_missing}");
    for rank in 0..first_missing + 10 {
        let found = ["a", "b"].map(|name| get(reader, rank, name).is_ok());
        assert_eq!(found, [rank < first_missing; 2], "rank {rank}");
    }
}
