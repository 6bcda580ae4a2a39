use std::cell::RefCell;

use super::*;
use crate::keys;
use crate::types::{Info, Value};

/// Stores with the values of a test, given as place, process and key.
struct Fake {
    values: Vec<(Place, ProcId, &'static str)>,
    miss: Miss,
    is_connected: bool,
    asked: RefCell<Vec<Place>>,
    /// Whether the host registered any values.
    is_described: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Staged,
    Published,
    Cached,
    Described,
}

impl Fake {
    fn new(miss: Miss) -> Self {
        Self { values: Vec::new(), miss, is_connected: true, asked: RefCell::default(), is_described: false }
    }

    fn with(mut self, place: Place, proc: ProcId, key: &'static str) -> Self {
        self.values.push((place, proc, key));
        self
    }

    fn find(&self, place: Place, search: &StoreSearch<'_>) -> Option<Place> {
        self.asked.borrow_mut().push(place);
        let key = search.key.map(|key| key.name);
        let found = self.values.iter().any(|(at, proc, of)| {
            *at == place && proc.namespace == *search.namespace && proc.rank == search.rank && key == Some(*of)
        });
        found.then_some(place)
    }
}

impl Stores for Fake {
    type Value = Place;

    fn staged(&self, search: &StoreSearch<'_>) -> Option<Place> {
        self.find(Place::Staged, search)
    }

    fn published(&self, search: &StoreSearch<'_>) -> Result<Place, Miss> {
        self.find(Place::Published, search).ok_or(self.miss)
    }

    fn described(&self, _: &StoreSearch<'_>) -> Option<Place> {
        self.is_described.then_some(Place::Described)
    }

    fn cached(&self, search: &StoreSearch<'_>) -> Option<Place> {
        self.find(Place::Cached, search)
    }

    fn is_mapped(&self, _: &Namespace) -> bool {
        self.miss != Miss::NotMapped
    }

    fn is_connected(&self) -> bool {
        self.is_connected
    }
}

fn proc(namespace: &str, rank: impl Into<Rank>) -> ProcId {
    ProcId::new(Namespace::new(namespace).unwrap(), rank)
}

fn own() -> ProcId {
    proc("mine", 3)
}

fn directives(entries: &[(&'static str, Value)]) -> GetDirectives {
    let infos: Vec<Info> = entries.iter().map(|(key, value)| Info::new(Key::from_static(key), value.clone())).collect();
    GetDirectives::parse(&infos).unwrap()
}

fn flagged(key: &'static str) -> GetDirectives {
    directives(&[(key, Value::flag())])
}

fn get(proc: ProcId, key: &'static str, directives: GetDirectives) -> GetRequest {
    GetRequest::new(Some(proc), Some(Key::from_static(key)), directives, &own()).unwrap()
}

fn plain(proc: ProcId, key: &'static str) -> GetRequest {
    get(proc, key, GetDirectives::default())
}

fn first(request: &GetRequest, stores: &Fake) -> Decision<Place> {
    resolve(request, &own(), Round::First, stores)
}

const NOT_FOUND: Decision<Place> = Decision::NotFound(Status::ERR_NOT_FOUND);

fn asked(decision: Decision<Place>) -> GetRequest {
    match decision {
        Decision::Ask(request) => request,
        other => panic!("not asked but {other:?}"),
    }
}

#[test]
fn everything_of_a_process_that_posted_nothing_is_what_is_registered_for_it() {
    let everything = |directives| GetRequest::new(Some(proc("mine", 1)), None, directives, &own()).unwrap();
    let stores = Fake { is_described: true, ..Fake::new(Miss::NotFound) };
    let plain = everything(GetDirectives::default());
    asked(first(&plain, &stores));
    assert_eq!(resolve(&plain, &own(), Round::Answered(&[]), &stores), Decision::Found(Place::Described));
    for name in [attribute::OPTIONAL, attribute::IMMEDIATE] {
        assert_eq!(first(&everything(flagged(name)), &stores), Decision::Found(Place::Described), "{name}");
    }
    // Registered values have no scope.
    let scoped =
        everything(directives(&[(attribute::DATA_SCOPE, Value::Scope(1)), (attribute::OPTIONAL, true.into())]));
    assert_eq!(first(&scoped, &stores), NOT_FOUND);
}

#[test]
fn a_get_without_key_and_process_is_refused() {
    let refused = GetRequest::new(None, None, GetDirectives::default(), &own()).unwrap_err();
    assert_eq!(refused, GetRequestError::EverythingOfNobody);
    assert_eq!(refused.status(), Status::ERR_BAD_PARAM);
}

#[test]
fn a_get_of_nobody_is_refused() {
    // Regression: a process read from a value may be unfilled; its empty namespace was taken for a name.
    let nobody = ProcId { namespace: Namespace::in_value(b"").unwrap(), ..own() };
    for key in [Some(Key::from_static("k")), Some(Key::from_static(attribute::RANK)), None] {
        let refused = GetRequest::new(Some(nobody.clone()), key, GetDirectives::default(), &own()).unwrap_err();
        assert_eq!((refused, refused.status()), (GetRequestError::Nobody, Status::ERR_BAD_PARAM));
    }
}

#[test]
fn a_get_without_key_needs_one_process() {
    for rank in [Rank::Wildcard, Rank::Undefined] {
        let refused = GetRequest::new(Some(proc("mine", rank)), None, GetDirectives::default(), &own());
        assert_eq!(refused, Err(GetRequestError::EverythingOfRank { rank }));
    }
    assert!(GetRequest::new(Some(proc("mine", 0)), None, GetDirectives::default(), &own()).is_ok());
}

#[test]
fn a_rank_that_owns_no_data_is_refused() {
    for rank in [Rank::Invalid, Rank::LocalPeers, Rank::LocalNode] {
        let key = Some(Key::from_static("k"));
        let refused = GetRequest::new(Some(proc("mine", rank)), key, GetDirectives::default(), &own());
        assert_eq!(refused, Err(GetRequestError::NoSuchRank { rank }));
    }
}

#[test]
fn without_a_process_the_rank_is_undefined_unless_a_rank_picks_the_realm() {
    let key = || Some(Key::from_static("k"));
    let rank_for = |directives| GetRequest::new(None, key(), directives, &own()).unwrap().proc.rank;
    assert_eq!(rank_for(GetDirectives::default()), Rank::Undefined);
    assert_eq!(rank_for(flagged(attribute::NODE_INFO)), own().rank);
    assert_eq!(rank_for(flagged(attribute::APP_INFO)), own().rank);
    assert_eq!(rank_for(flagged(attribute::SESSION_INFO)), Rank::Wildcard);
}

#[test]
fn without_a_process_a_key_of_a_node_or_an_application_is_the_callers() {
    let rank_for = |key: &'static str, directives| {
        GetRequest::new(None, Some(Key::from_static(key)), directives, &own()).unwrap().proc.rank
    };
    for key in [keys::HOSTNAME.name(), keys::APP_SIZE.name()] {
        assert_eq!(rank_for(key, GetDirectives::default()), own().rank);
        assert_eq!(rank_for(key, flagged(attribute::JOB_INFO)), Rank::Undefined);
    }
    assert_eq!(rank_for(keys::JOB_SIZE.name(), GetDirectives::default()), Rank::Undefined);
}

#[test]
fn a_session_number_names_the_session_of_a_session_key_only() {
    let in_session = |key| get(proc("mine", 0), key, directives(&[(attribute::SESSION_ID, Value::Uint32(7))]));
    assert_eq!(in_session(keys::UNIV_SIZE.name()).realm(), RealmRequest::Session(Some(7)));
    assert_eq!(in_session(keys::JOB_SIZE.name()).realm(), RealmRequest::Default);
}

#[test]
fn the_process_knows_itself_without_looking() {
    let stores = Fake::new(Miss::NotMapped);
    let known = |proc, key| first(&plain(proc, key), &stores);
    assert_eq!(known(proc("else", 9), attribute::PROCESS_ID), Decision::Known(Value::from(own())));
    assert_eq!(known(proc("mine", 9), attribute::NAMESPACE), Decision::Known(Value::from("mine")));
    for rank in [Rank::Invalid, Rank::Undefined, own().rank] {
        assert_eq!(known(proc("mine", rank), attribute::RANK), Decision::Known(Value::from(own().rank)));
    }
    assert!(stores.asked.borrow().is_empty());
    assert!(matches!(known(proc("mine", 9), attribute::RANK), Decision::Ask(_)));
}

#[test]
fn staging_comes_before_the_segment_and_the_segment_before_the_cache() {
    let everywhere = [Place::Staged, Place::Published, Place::Cached];
    for count in 1..=3 {
        let mut stores = Fake::new(Miss::NotFound);
        for &place in everywhere.iter().rev().take(count) {
            stores = stores.with(place, proc("mine", 1), "k");
        }
        let expected = everywhere[3 - count];
        assert_eq!(first(&plain(proc("mine", 1), "k"), &stores), Decision::Found(expected));
    }
}

/// Regression: a host had registered a value for a process under a key that the process posted, too. A Get found the
/// registered value over the socket, but the posted one in the segment.
#[test]
fn a_process_may_have_replaced_its_registered_value() {
    let with_value = || Fake::new(Miss::NotMapped).with(Place::Published, proc("mine", 1), "k");
    let request = plain(proc("mine", 1), "k");
    assert_eq!(asked(first(&request, &with_value())), request);
    assert_eq!(answered(&request, &[], &with_value()), Decision::Found(Place::Published));
    let since = with_value().with(Place::Cached, proc("mine", 1), "k");
    assert_eq!(first(&request, &since), Decision::Found(Place::Cached));
    let optional = get(proc("mine", 1), "k", flagged(attribute::OPTIONAL));
    assert_eq!(first(&optional, &with_value()), Decision::Found(Place::Published));
    let reserved = Fake::new(Miss::NotMapped).with(Place::Published, proc("mine", 1), "pmix.lrank");
    assert_eq!(first(&plain(proc("mine", 1), "pmix.lrank"), &reserved), Decision::Found(Place::Published));
}

/// Regression: the value was looked up twice, once for the decision and once for the answer.
#[test]
fn an_answer_of_the_server_is_looked_up_once() {
    let with_value = || Fake::new(Miss::NotMapped).with(Place::Published, proc("mine", 1), "k");
    let alone = Fake { is_connected: false, ..with_value() };
    for stores in [with_value(), alone] {
        drop(first(&plain(proc("mine", 1), "k"), &stores));
        let of_published = |place: &&Place| **place == Place::Published;
        assert_eq!(stores.asked.borrow().iter().filter(of_published).count(), 1);
    }
}

#[test]
fn a_key_of_an_unknown_publisher_may_be_ones_own() {
    let stores = Fake::new(Miss::NotFound).with(Place::Staged, own(), "k");
    assert_eq!(first(&plain(proc("mine", Rank::Undefined), "k"), &stores), Decision::Found(Place::Staged));
    assert!(matches!(first(&plain(proc("else", Rank::Undefined), "k"), &stores), Decision::Ask(_)));
}

#[test]
fn a_reserved_key_without_a_rank_is_the_jobs() {
    let stores = Fake::new(Miss::NotFound).with(Place::Published, proc("mine", Rank::Wildcard), "pmix.job.size");
    let request = plain(proc("mine", Rank::Undefined), "pmix.job.size");
    assert_eq!(first(&request, &stores), Decision::Found(Place::Published));
    let foreign = asked(first(&plain(proc("else", Rank::Undefined), "pmix.job.size"), &stores));
    assert_eq!(foreign.proc.rank, Rank::Wildcard);
}

#[test]
fn a_narrowed_get_does_not_look_where_only_unqualified_answers_are() {
    let node = directives(&[(attribute::HOSTNAME, Value::from("n1"))]);
    let stores =
        Fake::new(Miss::NotMapped).with(Place::Cached, proc("else", 0), "k").with(Place::Staged, proc("else", 0), "k");
    assert!(matches!(first(&get(proc("else", 0), "k", node), &stores), Decision::Ask(_)));
}

#[test]
fn a_value_outside_the_scope_is_not_waited_for() {
    let stores = Fake::new(Miss::OutsideScope);
    let decision = first(&plain(proc("mine", 1), "k"), &stores);
    assert_eq!(decision, Decision::NotFound(Status::ERR_EXISTS_OUTSIDE_SCOPE));
}

#[test]
fn optional_never_asks() {
    for miss in [Miss::NotFound, Miss::NotMapped, Miss::Damaged] {
        for key in ["k", "pmix.k"] {
            let request = get(proc("else", 1), key, flagged(attribute::OPTIONAL));
            assert_eq!(first(&request, &Fake::new(miss)), NOT_FOUND);
        }
    }
}

#[test]
fn a_get_without_a_server_sends_no_request() {
    let stores = Fake { is_connected: false, ..Fake::new(Miss::NotMapped) };
    assert_eq!(first(&plain(proc("mine", 1), "k"), &stores), NOT_FOUND);
    assert_eq!(first(&get(proc("mine", 1), "k", flagged(attribute::REFRESH_CACHE)), &stores), NOT_FOUND);
}

#[test]
fn an_internal_value_is_not_asked_for() {
    let request = get(proc("mine", 1), "k", directives(&[(attribute::DATA_SCOPE, Value::Scope(4))]));
    assert_eq!(first(&request, &Fake::new(Miss::NotFound)), NOT_FOUND);
}

#[test]
fn a_missing_posted_key_is_asked_for_as_it_is() {
    let request = plain(proc("mine", 1), "k");
    assert_eq!(asked(first(&request, &Fake::new(Miss::NotFound))), request);
}

#[test]
fn an_immediate_get_ends_at_a_segment_and_is_asked_without_one() {
    let request = get(proc("mine", 1), "k", flagged(attribute::IMMEDIATE));
    assert_eq!(first(&request, &Fake::new(Miss::NotFound)), NOT_FOUND);
    assert!(asked(first(&request, &Fake::new(Miss::NotMapped))).directives.immediate);
}

#[test]
fn a_reserved_key_of_the_own_namespace_ends_at_the_segment() {
    assert_eq!(first(&plain(proc("mine", 1), "pmix.k"), &Fake::new(Miss::NotFound)), NOT_FOUND);
}

#[test]
fn without_a_readable_segment_a_reserved_key_is_asked_for_immediately() {
    for miss in [Miss::NotMapped, Miss::Damaged] {
        let request = asked(first(&plain(proc("mine", 1), "pmix.k"), &Fake::new(miss)));
        assert!(request.directives.immediate);
        assert_eq!(request.directives.upward.last().unwrap().key.as_str(), attribute::IMMEDIATE);
    }
}

#[test]
fn a_reserved_key_of_another_namespace_is_asked_for() {
    let request = plain(proc("else", 1), "pmix.k");
    assert_eq!(asked(first(&request, &Fake::new(Miss::NotMapped))), request);
}

#[test]
fn refresh_asks_although_the_value_is_here() {
    let stores = Fake::new(Miss::NotFound).with(Place::Published, proc("mine", 1), "k");
    let request = get(proc("mine", 1), "k", flagged(attribute::REFRESH_CACHE));
    assert!(matches!(first(&request, &stores), Decision::Ask(_)));
    assert_eq!(resolve(&request, &own(), Round::Answered(&[]), &stores), Decision::Found(Place::Published));
}

#[test]
fn refresh_does_not_ask_for_what_is_always_current() {
    let stores = Fake::new(Miss::NotFound).with(Place::Staged, own(), "k").with(
        Place::Published,
        proc("mine", Rank::Wildcard),
        "pmix.k",
    );
    let refresh = || flagged(attribute::REFRESH_CACHE);
    assert_eq!(first(&get(own(), "k", refresh()), &stores), Decision::Found(Place::Staged));
    let job = get(proc("mine", Rank::Wildcard), "pmix.k", refresh());
    assert_eq!(first(&job, &stores), Decision::Found(Place::Published));
}

fn answer(of: ProcId, entries: &[(&'static str, u32)]) -> RankData {
    let entries = entries.iter().map(|&(key, value)| Kval { key: Key::from_static(key), value: value.into() });
    RankData { proc: of, entries: entries.collect() }
}

fn answered(request: &GetRequest, data: &[RankData], stores: &Fake) -> Decision<Place> {
    resolve(request, &own(), Round::Answered(data), stores)
}

#[test]
fn the_answer_is_newer_than_the_stores() {
    let stores = Fake::new(Miss::NotFound).with(Place::Cached, proc("else", 1), "k");
    let data = [answer(proc("else", 0), &[("k", 1)]), answer(proc("else", 1), &[("k", 2), ("k", 3), ("j", 4)])];
    let decision = answered(&plain(proc("else", 1), "k"), &data, &stores);
    assert_eq!(decision, Decision::Known(Value::Uint32(3)));
}

#[test]
fn job_level_data_are_no_answer_for_a_process() {
    let data = [answer(proc("else", Rank::Wildcard), &[("k", 1)])];
    assert_eq!(answered(&plain(proc("else", 1), "k"), &data, &Fake::new(Miss::NotMapped)), NOT_FOUND);
}

#[test]
fn any_publisher_answers_for_an_undefined_rank() {
    let data = [answer(proc("else", 7), &[("k", 1)])];
    let request = plain(proc("else", Rank::Undefined), "k");
    assert_eq!(answered(&request, &data, &Fake::new(Miss::NotMapped)), Decision::Known(Value::Uint32(1)));
    let elsewhere = [answer(proc("third", 7), &[("k", 1)])];
    assert_eq!(answered(&request, &elsewhere, &Fake::new(Miss::NotMapped)), NOT_FOUND);
}

#[test]
fn everything_about_a_process_is_an_array_of_its_values() {
    let request = GetRequest::new(Some(proc("else", 1)), None, GetDirectives::default(), &own()).unwrap();
    let data = [answer(proc("else", 1), &[("a", 1), ("b", 2)])];
    let expected =
        Value::info_array(vec![Info::new(Key::from_static("a"), 1u32), Info::new(Key::from_static("b"), 2u32)]);
    assert_eq!(answered(&request, &data, &Fake::new(Miss::NotMapped)), Decision::Known(expected));
}

#[test]
fn look_again_finds_what_was_published_and_nothing_is_asked_twice() {
    let request = plain(proc("mine", 1), "k");
    let stores = Fake::new(Miss::NotFound);
    assert_eq!(answered(&request, &[], &stores), NOT_FOUND);
    let stores = stores.with(Place::Published, proc("mine", 1), "k");
    assert_eq!(answered(&request, &[], &stores), Decision::Found(Place::Published));
}

#[test]
fn a_damaged_segment_is_an_error_when_the_server_has_nothing_to_add() {
    let decision = answered(&plain(proc("mine", 1), "k"), &[], &Fake::new(Miss::Damaged));
    assert_eq!(decision, Decision::NotFound(Status::ERROR));
}
