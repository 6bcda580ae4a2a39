use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::*;
use crate::gds::lookup::Origin;
use crate::gds::{
    CompletionNotice, CompletionSlot, CompletionStatus, Datastore, REQUESTS_END, StoreError, StoreLimits,
};

/// Longer than any test.
const LONG: Duration = Duration::from_secs(600);

fn job_store() -> Store {
    let mut store = store(BackingKind::Memfd);
    store.register_record(&namespace(), &block_job(1, 4)).unwrap();
    store
}

fn one_with_slot() -> (Store, NamespaceReader) {
    let mut store = job_store();
    store.take_slot(&namespace(), 1, 4).unwrap();
    let reader = attached(&mut store);
    (store, reader)
}

fn tell(store: &mut Store, connection: u32, request: u32, verdict: CompletionStatus) {
    store.complete_waits(&namespace(), &[CompletionNotice { connection, request, verdict }]).unwrap();
}

fn sleep(slot: CompletionSlot<'_>, request: u32) -> Option<CompletionStatus> {
    slot.sleep(request, || LONG)
}

#[test]
fn without_a_slot_there_is_nothing_to_look_at() {
    let mut store = job_store();
    let reader = attached(&mut store);
    assert!(reader.slot(1).is_none(), "there is no completion table");
    assert!(store.take_slot(&namespace(), 1, 4).unwrap());
    assert!(reader.slot(1).is_some());
    assert!(reader.slot(2).is_none() && reader.slot(0).is_none() && reader.slot(65).is_none());
    let unknown = Namespace::new("unknown").unwrap();
    assert!(store.take_slot(&unknown, 1, 4).is_err());
}

/// Two owners of one slot would overwrite each other's verdicts.
#[test]
fn a_slot_has_one_owner_at_a_time() {
    let mut store = job_store();
    assert!(store.take_slot(&namespace(), 1, 4).unwrap());
    assert!(!store.take_slot(&namespace(), 65, 4).unwrap(), "64 slots: it would be the same one");
    let reader = attached(&mut store);
    tell(&mut store, 65, 101, CompletionStatus::Succeeded);
    assert!(reader.slot(65).is_none());
    let slot = reader.slot(1).unwrap();
    tell(&mut store, 1, 101, CompletionStatus::Succeeded);
    store.free_slot(&namespace(), 1);
    assert_eq!(slot.look(101), Some(CompletionStatus::Succeeded), "what was told last stays");
    assert!(store.take_slot(&namespace(), 65, 4).unwrap());
    assert!(reader.slot(1).is_none() && reader.slot(65).is_some());
    assert_eq!(reader.slot(65).unwrap().look(101), None, "that was told to somebody else");
}

#[test]
fn a_completion_concerns_one_request() {
    let (mut store, reader) = one_with_slot();
    let slot = reader.slot(1).unwrap();
    assert_eq!(slot.look(101), None);
    tell(&mut store, 1, 101, CompletionStatus::Succeeded);
    assert_eq!((slot.look(101), slot.look(102)), (Some(CompletionStatus::Succeeded), None));
    tell(&mut store, 1, REQUESTS_END - 1, CompletionStatus::InMessage);
    assert_eq!((slot.look(REQUESTS_END - 1), slot.look(101)), (Some(CompletionStatus::InMessage), None));
    let later = reader.slot(1).unwrap();
    assert_eq!(later.look(REQUESTS_END - 1), None, "it was told before the request with this number was made");
}

#[test]
fn a_sleeper_wakes_when_it_is_told() {
    let (mut store, reader) = one_with_slot();
    let slot = reader.slot(1).unwrap();
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| sleep(slot, 101));
        tell(&mut store, 1, 101, CompletionStatus::InMessage);
        assert_eq!(sleeper.join().unwrap(), Some(CompletionStatus::InMessage));
    });
    assert_eq!(sleep(slot, 101), Some(CompletionStatus::InMessage), "who comes late does not sleep");
    assert_eq!(slot.sleep(102, || Duration::ZERO), None);
}

/// Wakes the intended sleepers, and few others.
#[test]
fn a_sleeper_without_a_completion_sleeps_on() {
    let mut store = job_store();
    for connection in 1..=2 {
        store.take_slot(&namespace(), connection, 4).unwrap();
    }
    let reader = attached(&mut store);
    let [slot, other] = [1, 2].map(|connection| reader.slot(connection).unwrap());
    let looks = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            slot.sleep(101, || {
                looks.fetch_add(1, Ordering::Relaxed);
                LONG
            })
        });
        for request in 101..201 {
            let told = scope.spawn(move || sleep(other, request));
            tell(&mut store, 2, request, CompletionStatus::Succeeded);
            assert_eq!(told.join().unwrap(), Some(CompletionStatus::Succeeded));
        }
        tell(&mut store, 1, 101, CompletionStatus::Succeeded);
        assert_eq!(sleeper.join().unwrap(), Some(CompletionStatus::Succeeded));
    });
    // The sleep may have begun at any time, so each earlier change may cause one more look.
    assert!(looks.load(Ordering::Relaxed) < 100, "{looks:?}");
}

/// A job may have more processes than its completion table has slots, and a full segment has no room for a completion
/// table.
#[test]
fn a_completion_table_has_its_limits() {
    let mut store = job_store();
    assert!(store.take_slot(&namespace(), 1, u32::MAX).unwrap());
    let size_bytes = store.statistics(&namespace()).unwrap().section(Section::CompletionTable);
    assert_eq!(size_bytes, 8 << 16);
    let limits = StoreLimits { segment_bytes_max: 64 << 10, ..StoreLimits::default() };
    let mut store = Store::new(StoreOptions { limits, ..options(BackingKind::Memfd) });
    store.register_record(&namespace(), &block_job(1, 4)).unwrap();
    assert!(matches!(store.take_slot(&namespace(), 1, u32::MAX), Err(StoreError::SegmentFull { .. })));
    store.commit(&namespace(), 0, Origin::Local, &[posted(Scope::Global, "endpoint", 7_u32)]).unwrap();
    let reader = attached(&mut store);
    assert_eq!(get(&reader, 0, "endpoint"), Ok(Value::from(7_u32)));
    assert!(reader.slot(1).is_none());
    tell(&mut store, 1, 101, CompletionStatus::Succeeded);
}

/// Number zero is shared by all connections once other numbers are used up.
#[test]
fn number_zero_has_no_slot() {
    let mut store = job_store();
    assert!(!store.take_slot(&namespace(), 0, 4).unwrap());
    assert!(store.take_slot(&namespace(), 64, 4).unwrap(), "the same slot");
    assert!(attached(&mut store).slot(0).is_none());
}
