//! The dispatcher and the cache by example; `model` compares them with a plain model.

mod model;

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::keys;
use crate::types::codes::range;
use crate::types::{DataArray, DataType, Info, InfoFlags, Key, Namespace, ProcId, Rank, Status, Time, Value};

const A: Status = Status::from_raw(-1001);
const B: Status = Status::from_raw(-1002);

fn proc(name: &str, rank: u32) -> ProcId {
    ProcId::new(Namespace::new(name).unwrap(), rank)
}

fn own() -> ProcId {
    proc("job", 0)
}

fn info(key: &str, value: impl Into<Value>) -> Info {
    Info::new(Key::new(key.to_owned()).unwrap(), value)
}

fn procs(procs: &[ProcId]) -> Value {
    let elements = procs.iter().cloned().map(Value::from).collect();
    Value::DataArray(Box::new(DataArray { element_type: DataType::Proc, elements }))
}

fn event(status: Status) -> Event {
    Event { status, source: Some(proc("job", 1)), range: range::RANGE_SESSION, info: Vec::new() }
}

fn with(status: Status, info: &[Info]) -> Event {
    Event { info: info.to_vec(), ..event(status) }
}

/// A dispatcher whose handlers are names.
struct Rig {
    dispatcher: Dispatcher<&'static str>,
    now: Time,
}

impl Rig {
    fn new() -> Self {
        Self { dispatcher: Dispatcher::new(own(), 0), now: Time::ZERO }
    }

    fn try_add(
        &mut self,
        name: &'static str,
        codes: &[Status],
        directives: &[Info],
    ) -> Result<usize, RegistrationError> {
        let mut directives = directives.to_vec();
        directives.push(info(keys::EVENT_HDLR_NAME.name(), name));
        let id = self.dispatcher.insert(Registration::parse(codes, &directives)?, name)?;
        self.dispatcher.activate(self.now, id);
        Ok(id)
    }

    fn add(&mut self, name: &'static str, codes: &[Status], directives: &[Info]) -> usize {
        self.try_add(name, codes, directives).unwrap()
    }

    /// The called handlers, each completing at once.
    fn run(&mut self) -> Vec<&'static str> {
        let mut called = Vec::new();
        while let Some(call) = self.dispatcher.poll_call() {
            called.push(call.handler);
            self.dispatcher.complete(call.token, Status::SUCCESS, Vec::new());
        }
        called
    }

    fn raise(&mut self, event: Event) -> Vec<&'static str> {
        self.dispatcher.raise(self.now, event);
        self.run()
    }
}

fn flag(key: crate::keys::TypedKey<bool>) -> Info {
    info(key.name(), true)
}

#[test]
fn a_new_handler_stands_in_front_of_its_category_but_behind_its_first_one() {
    let mut rig = Rig::new();
    rig.add("one", &[A], &[]);
    rig.add("first", &[A], &[flag(keys::EVENT_HDLR_FIRST_IN_CATEGORY)]);
    rig.add("two", &[A], &[]);
    rig.add("back", &[A], &[flag(keys::EVENT_HDLR_APPEND)]);
    rig.add("last", &[A], &[flag(keys::EVENT_HDLR_LAST_IN_CATEGORY)]);
    rig.add("more", &[A], &[flag(keys::EVENT_HDLR_APPEND)]);
    rig.add("default", &[], &[]);
    assert_eq!(rig.raise(event(A)), ["first", "two", "one", "back", "more", "last", "default"]);
    assert_eq!(rig.raise(event(B)), ["default"]);
}

#[test]
fn a_place_that_is_taken_opens_again_with_its_handler_gone() {
    let mut rig = Rig::new();
    for key in [
        keys::EVENT_HDLR_FIRST,
        keys::EVENT_HDLR_LAST,
        keys::EVENT_HDLR_FIRST_IN_CATEGORY,
        keys::EVENT_HDLR_LAST_IN_CATEGORY,
    ] {
        let id = rig.add("one", &[A], &[flag(key)]);
        let error = rig.try_add("two", &[B], &[flag(key)]).unwrap_err();
        assert_eq!(error.status(), Status::ERR_EVENT_REGISTRATION);
        rig.dispatcher.remove(id).unwrap();
        let id = rig.add("two", &[A], &[flag(key)]);
        rig.dispatcher.remove(id).unwrap();
    }
    // Each category has a first handler of its own.
    rig.add("single", &[A], &[flag(keys::EVENT_HDLR_FIRST_IN_CATEGORY)]);
    rig.add("multi", &[A, B], &[flag(keys::EVENT_HDLR_FIRST_IN_CATEGORY)]);
}

#[test]
fn before_and_after_mean_right_beside_it() {
    let mut rig = Rig::new();
    let before = |name: &str| [info(keys::EVENT_HDLR_BEFORE.name(), name)];
    let after = |name: &str| [info(keys::EVENT_HDLR_AFTER.name(), name)];
    rig.add("c", &[A], &[]);
    rig.add("a", &[A], &[]);
    rig.add("b", &[A], &after("a"));
    rig.add("d", &[A], &before("c"));
    rig.add("default", &[], &after("c"));
    rig.add("multi", &[A, B], &before("default"));
    assert_eq!(rig.raise(event(A)), ["a", "b", "d", "c", "multi", "default"]);
    for (codes, directive) in [(&[][..], before("c")), (&[A], after("default")), (&[A], before("nobody"))] {
        let error = rig.try_add("x", codes, &directive).unwrap_err();
        assert_eq!(error.status(), Status::ERR_EVENT_REGISTRATION, "{error}");
    }
    rig.add("first", &[], &[flag(keys::EVENT_HDLR_FIRST)]);
    rig.add("last", &[], &[flag(keys::EVENT_HDLR_LAST)]);
    assert!(rig.try_add("x", &[A], &before("first")).is_err());
    assert!(rig.try_add("x", &[A], &after("last")).is_err());
    rig.add("fine", &[A], &after("first"));
    rig.add("well", &[A], &before("last"));
    rig.run();
    assert_eq!(rig.raise(event(A)), ["first", "fine", "a", "b", "d", "c", "well", "multi", "default", "last"]);
}

#[test]
fn default_handlers_are_spared_what_is_not_for_them() {
    let mut rig = Rig::new();
    rig.add("first default", &[], &[flag(keys::EVENT_HDLR_FIRST)]);
    rig.add("default", &[], &[]);
    rig.add("single", &[A], &[]);
    assert_eq!(rig.raise(with(A, &[flag(keys::EVENT_NON_DEFAULT)])), ["single"]);
    assert_eq!(rig.raise(with(A, &[info(keys::EVENT_NON_DEFAULT.name(), false)])).len(), 3);
}

#[test]
fn a_handler_can_choose_sources_and_those_concerned() {
    let mut rig = Rig::new();
    let of = |code: u8| info(keys::RANGE.name(), Value::DataRange(code));
    let listed = info(keys::EVENT_CUSTOM_RANGE.name(), procs(&[proc("other", 3)]));
    rig.add("anyone", &[A], &[of(range::RANGE_GLOBAL)]);
    rig.add("job", &[A], &[of(range::RANGE_NAMESPACE)]);
    rig.add("self", &[A], &[of(range::RANGE_PROC_LOCAL)]);
    rig.add("listed", &[A], &[of(range::RANGE_CUSTOM), listed]);
    let without_range = info(keys::EVENT_CUSTOM_RANGE.name(), procs(&[proc("nobody", 3)]));
    rig.add("without a range", &[A], &[without_range]);
    rig.add("about 7", &[A], &[info(keys::EVENT_AFFECTED_PROC.name(), proc("job", 7))]);
    let from = |source: Option<ProcId>| Event { source, ..event(A) };
    assert_eq!(rig.raise(from(Some(own()))), ["about 7", "without a range", "self", "job", "anyone"]);
    assert_eq!(rig.raise(from(Some(proc("job", 1)))), ["about 7", "without a range", "job", "anyone"]);
    assert_eq!(rig.raise(from(Some(proc("other", 3)))), ["about 7", "without a range", "listed", "anyone"]);
    assert_eq!(rig.raise(from(None)).len(), 6, "a source that is not known matches every wish");
    let everyone = ProcId { rank: Rank::Wildcard, ..own() };
    for (affected, count) in [(proc("job", 7), 4), (proc("job", 8), 3), (everyone, 4)] {
        assert_eq!(rig.raise(with(A, &[info(keys::EVENT_AFFECTED_PROCS.name(), procs(&[affected]))])).len(), count);
    }
}

#[test]
fn directives_that_make_no_sense_are_refused() {
    let status = |directives: &[Info]| Registration::parse(&[A], directives).map(drop).map_err(|error| error.status());
    let required = Info { flags: InfoFlags::REQUIRED.bits(), ..info("pmix.unknown", 1_u32) };
    assert_eq!(status(&[info("pmix.unknown", 1_u32)]), Ok(()));
    assert_eq!(status(std::slice::from_ref(&required)), Err(Status::ERR_NOT_SUPPORTED));
    assert!(Registration::parse(&[Status::EVENT_NODE_DOWN], &[required]).is_ok(), "the host may know it");
    for directives in [
        vec![info(keys::EVENT_HDLR_FIRST.name(), "yes")],
        vec![info(keys::EVENT_HDLR_NAME.name(), 1_u32)],
        vec![info(keys::RANGE.name(), Value::DataRange(99))],
        vec![info(keys::RANGE.name(), Value::DataRange(range::RANGE_CUSTOM))],
        vec![info(keys::EVENT_AFFECTED_PROC.name(), 1_u32)],
        vec![flag(keys::EVENT_HDLR_FIRST), flag(keys::EVENT_HDLR_LAST)],
    ] {
        assert_eq!(status(&directives), Err(Status::ERR_BAD_PARAM), "{directives:?}");
    }
    // A flag without a value is set; a false flag requests nothing.
    let unset = info(keys::EVENT_HDLR_LAST.name(), false);
    assert_eq!(status(&[info(keys::EVENT_HDLR_PREPEND.name(), Value::Undefined), unset]), Ok(()));
}

#[test]
fn a_call_counts_its_first_completion_only() {
    let mut rig = Rig::new();
    let _ids = ["c", "b", "a"].map(|name| rig.add(name, &[A], &[]));
    rig.dispatcher.raise(rig.now, event(A));
    let first = rig.dispatcher.poll_call().unwrap();
    assert!(rig.dispatcher.poll_call().is_none(), "the second waits for the first");
    assert!(rig.dispatcher.complete(first.token, Status::SUCCESS, vec![info("r", 1_u32)]));
    assert!(!rig.dispatcher.complete(first.token, Status::EVENT_ACTION_COMPLETE, Vec::new()));
    let second = rig.dispatcher.poll_call().unwrap();
    assert!(!rig.dispatcher.complete(first.token, Status::SUCCESS, Vec::new()));
    assert_eq!(second.results, [info("a", Value::Status(0)), info("r", 1_u32)]);
    assert!(!rig.dispatcher.complete(second.token, Status::EVENT_ACTION_COMPLETE, Vec::new()));
    assert_eq!((rig.run(), rig.dispatcher.chain_count()), (Vec::new(), 0));
}

#[test]
fn a_handler_that_has_gone_is_passed_over_and_one_that_came_later_is_not_called() {
    let mut rig = Rig::new();
    let [c, _b, _a] = ["c", "b", "a"].map(|name| rig.add(name, &[A], &[]));
    rig.dispatcher.raise(rig.now, with(A, &[flag(keys::EVENT_DO_NOT_CACHE)]));
    let first = rig.dispatcher.poll_call().unwrap();
    rig.dispatcher.remove(c).unwrap();
    rig.add("late", &[A], &[flag(keys::EVENT_HDLR_APPEND)]);
    rig.dispatcher.complete(first.token, Status::SUCCESS, Vec::new());
    assert_eq!((rig.run(), rig.dispatcher.chain_count()), (vec!["b"], 0));
}

#[test]
fn a_handler_for_one_call_ends_with_it() {
    let mut rig = Rig::new();
    rig.add("once", &[A], &[flag(keys::EVENT_ONESHOT)]);
    rig.dispatcher.raise(rig.now, event(A));
    let call = rig.dispatcher.poll_call().unwrap();
    assert_eq!(call.ended, Some(vec![A]));
    assert_eq!(rig.dispatcher.unwanted(&[A, B]), [A, B]);
    assert!(rig.raise(event(A)).is_empty());
}

#[test]
fn a_registration_under_way_misses_nothing_and_sees_nothing_twice() {
    let mut rig = Rig::new();
    let id = rig.dispatcher.insert(Registration::parse(&[A], &[]).unwrap(), "late").unwrap();
    assert!(rig.raise(event(A)).is_empty());
    assert!(rig.raise(with(A, &[flag(keys::EVENT_DO_NOT_CACHE)])).is_empty());
    rig.dispatcher.activate(rig.now, id);
    rig.dispatcher.activate(rig.now, id);
    assert_eq!(rig.run(), ["late", "late"]);
    rig.add("later", &[A], &[]);
    assert_eq!(rig.run(), ["later"], "the brief one is gone");
}

#[test]
fn events_are_kept_in_bounds() {
    let limits = EventCacheLimits { events_max: 3, bytes_max: 4096, ..EventCacheLimits::default() };
    let mut cache = EventCache::new(limits);
    let kept = |cache: &EventCache<()>| cache.iter().map(|kept| kept.number).collect::<Vec<_>>();
    for second in 0..4 {
        cache.push(Time::ZERO + Duration::from_secs(second), Arc::new(event(A)), (), None);
    }
    assert_eq!((kept(&cache), cache.oldest_number()), (vec![2, 3, 4], Some(2)));
    cache.expire(Time::ZERO + Duration::from_secs(122));
    assert_eq!(kept(&cache), [4], "two minutes and no longer");
    let large = |bytes: usize| Arc::new(with(A, &[info("large", vec![0_u8; bytes])]));
    let now = Time::ZERO + Duration::from_secs(4);
    assert_eq!(cache.push(now, large(5000), (), None), 5);
    assert_eq!(kept(&cache), [4], "one that is too large alone is counted, not kept");
    cache.push(now, large(3500), (), None);
    assert_eq!(kept(&cache), [4, 6]);
    cache.push(now, large(3500), (), None);
    assert_eq!(kept(&cache), [7], "older ones make room");
}

#[test]
fn an_event_that_all_its_targets_have_got_is_dropped() {
    let mut cache = EventCache::new(EventCacheLimits::default());
    let to = |targets: &[ProcId]| {
        let info = vec![info(keys::EVENT_CUSTOM_RANGE.name(), procs(targets))];
        Arc::new(Event { range: range::RANGE_CUSTOM, info, ..event(A) })
    };
    let both = cache.push(Time::ZERO, to(&[proc("job", 0), proc("job", 1)]), (), None);
    let all = cache.push(Time::ZERO, to(&[ProcId { rank: Rank::Wildcard, ..own() }]), (), None);
    for number in [both, all] {
        cache.served(number, &proc("job", 0));
    }
    assert_eq!(cache.iter().count(), 2);
    for number in [both, all] {
        cache.served(number, &proc("job", 1));
    }
    assert_eq!(cache.oldest_number(), Some(all), "nobody knows who all of a namespace are");
}

/// The tree of 100,000 targets took the server's thread milliseconds to make and to free, for each event of a client.
#[test]
fn an_event_for_very_many_is_kept_for_its_time_and_freed_by_another_thread() {
    let limits = EventCacheLimits { events_max: 1, ..EventCacheLimits::default() };
    let mut cache = EventCache::new(EventCacheLimits { spent_bytes_min: 256 << 10, ..limits });
    let to = |count| {
        let targets: Vec<ProcId> = (0..count).map(|rank| proc("job", rank)).collect();
        Arc::new(Event {
            range: range::RANGE_CUSTOM,
            info: vec![info(keys::EVENT_CUSTOM_RANGE.name(), procs(&targets))],
            ..event(A)
        })
    };
    let number = cache.push(Time::ZERO, to(20_000), (), None);
    (0..20_000).for_each(|rank| cache.served(number, &proc("job", rank)));
    assert_eq!(cache.iter().count(), 1);
    cache.push(Time::ZERO, to(2), (), None);
    assert_eq!(cache.take_spent().len(), 1);
    cache.push(Time::ZERO, to(2), (), None);
    assert_eq!(cache.take_spent().len(), 0, "a small one is freed at once");
    // Regression: a client kept each large event for ever, because it has no such thread.
    let mut of_client = EventCache::new(limits);
    for _ in 0..2 {
        of_client.push(Time::ZERO, to(20_000), (), None);
    }
    assert_eq!(of_client.take_spent().len(), 0);
}

#[test]
fn codes_of_the_environment_are_the_systems_and_those_nobody_defined() {
    let codes = [Status::EVENT_NODE_DOWN, Status::EVENT_SYS_OTHER, Status::from_raw(1), Status::from_raw(-3001)];
    assert!(codes.into_iter().all(is_of_environment));
    let codes = [Status::ERR_PROC_ABORTED, Status::EVENT_JOB_END, Status::SUCCESS, Status::from_raw(-331)];
    assert!(!codes.into_iter().any(is_of_environment));
    assert!(is_system(Status::EVENT_SYS_BASE) && !is_system(Status::from_raw(7)));
}

/// Regression: an application's handler that was called first could end a leader's wait for answers.
#[test]
fn an_observer_sees_everything_live_before_all_handlers_and_leaves_no_trace() {
    let mut rig = Rig::new();
    rig.dispatcher.raise(rig.now, event(A));
    rig.add("first", &[], &[info(keys::EVENT_HDLR_FIRST.name(), true)]);
    let observer = rig.dispatcher.insert(Registration::observer(&[A]), "observer").unwrap();
    rig.dispatcher.activate(rig.now, observer);
    let mut called = Vec::new();
    let mut drain = |rig: &mut Rig| {
        while let Some(call) = rig.dispatcher.poll_call() {
            called.push((call.handler, call.results.len()));
            rig.dispatcher.complete(call.token, Status::EVENT_ACTION_COMPLETE, vec![info("k", 1_u32)]);
        }
    };
    drain(&mut rig);
    rig.dispatcher.raise(rig.now, event(A));
    drain(&mut rig);
    rig.dispatcher.raise(rig.now, Event { range: range::RANGE_UNDEF, ..event(A) });
    drain(&mut rig);
    assert_eq!(called, [("first", 0), ("observer", 0), ("first", 0), ("first", 0)]);
}

/// Regression: the server waited ten seconds for the decision of a process without a handler for the event.
#[test]
fn a_process_without_a_handler_answers_an_event_that_asks_at_once() {
    let mut rig = Rig::new();
    rig.dispatcher.raise(Time::ZERO, event(A));
    assert!(rig.dispatcher.poll_decision().is_none());
    rig.dispatcher.raise(Time::ZERO, event(Status::GROUP_MEMBER_FAILED));
    let decision = rig.dispatcher.poll_decision().unwrap();
    assert_eq!((decision.event.status, decision.results), (Status::GROUP_MEMBER_FAILED, Vec::new()));
}

/// Regression: each listener caused a walk through the list of targets.
#[test]
fn the_reach_of_an_event_is_what_the_event_says() {
    let targets =
        procs(&[proc("b", 2), proc("job", 7), proc("all", 0), ProcId { rank: Rank::Wildcard, ..proc("all", 0) }]);
    let custom = Event { range: range::RANGE_CUSTOM, ..with(A, &[info(keys::EVENT_CUSTOM_RANGE.name(), targets)]) };
    let namespace = Event { range: range::RANGE_NAMESPACE, ..event(A) };
    for event in [custom, namespace, event(B)] {
        let reach = event.reach();
        let hearers = [proc("b", 2), proc("b", 1), proc("job", 7), proc("job", 0), proc("all", 5), proc("c", 0)];
        let everybody = ProcId { rank: Rank::Wildcard, ..proc("b", 0) };
        for hearer in hearers.into_iter().chain([everybody]) {
            assert_eq!(reach.contains(&hearer), event.is_meant_for(&hearer), "{hearer} of {event:?}");
        }
    }
}
