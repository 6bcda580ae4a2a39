use proptest::prelude::*;

use super::*;
use crate::types::Namespace;

fn own() -> ProcId {
    ProcId::new(Namespace::new("job").unwrap(), 3)
}

fn peer(rank: impl Into<Rank>) -> ProcId {
    ProcId::new(Namespace::new("other").unwrap(), rank)
}

fn staging() -> Staging {
    Staging::new(own(), StagingLimits::default())
}

fn key(name: &'static str) -> Key {
    Key::from_static(name)
}

fn seen(staging: &Staging, key: &str) -> Option<Value> {
    staging.find(&own(), key, None).map(|value| Value::clone(value))
}

fn is_removed(staging: &Staging, key: &str) -> bool {
    staging.look(&own(), key, None) == Some(StagedValue::Removed)
}

fn part(staged: &Staged, scope: Scope) -> Vec<(&str, u32)> {
    let kvals = staged.commit.parts.iter().filter(|(of, _)| *of == scope).flat_map(|(_, kvals)| kvals);
    kvals.map(|kval| (kval.key.as_str(), kval.value.as_u32().unwrap())).collect()
}

#[test]
fn a_value_that_is_too_large_is_refused_by_its_size_alone() {
    let limit = StagingLimits::default().value_bytes_max;
    assert_eq!(staging().check_size("k", limit), Ok(()));
    let error = staging().check_size("k", limit + 1).unwrap_err();
    assert_eq!(error, StagingError::ValueTooLarge { key: key("k"), size_bytes: limit + 1, limit });
}

#[test]
fn a_put_value_is_visible_to_the_process_before_and_after_the_commit() {
    let mut staging = staging();
    for scope in [Scope::Local, Scope::Remote, Scope::Global, Scope::Internal] {
        staging.put(scope, "k", Value::Uint8(scope.to_raw())).unwrap();
        assert_eq!(seen(&staging, "k"), Some(Value::Uint8(scope.to_raw())));
    }
    assert!(staging.take_commit().is_some());
    assert_eq!(seen(&staging, "k"), Some(Value::Uint8(Scope::Internal.to_raw())));
}

#[test]
fn a_commit_holds_what_changed_since_the_last_one() {
    let mut staging = staging();
    staging.put(Scope::Global, "a", Value::Uint32(1)).unwrap();
    staging.put(Scope::Local, "b", Value::Uint32(2)).unwrap();
    let first = staging.take_commit().unwrap();
    assert_eq!(part(&first, Scope::Global), [("a", 1)]);
    assert_eq!(part(&first, Scope::Local), [("b", 2)]);
    assert_eq!(staging.take_commit(), None);
    staging.put(Scope::Global, "a", Value::Uint32(3)).unwrap();
    let second = staging.take_commit().unwrap();
    assert_eq!(second.commit.parts, [(Scope::Global, vec![Kval { key: key("a"), value: Value::Uint32(3) }])]);
}

/// Regression: three values of 15 MiB made one message that no peer accepts. The connection broke, and with it the job.
/// The rule: a commit is split into messages that every peer accepts.
#[test]
fn more_than_a_message_holds_is_committed_in_pieces() {
    let limits = StagingLimits { commit_bytes_max: 100, ..StagingLimits::default() };
    let mut staging = Staging::new(own(), limits);
    for name in ["a", "b", "c"] {
        staging.put(Scope::Global, name, Value::ByteObject(vec![1; 60])).unwrap();
    }
    let mut order = Vec::new();
    while let Some(staged) = staging.take_commit() {
        let keys: Vec<String> =
            staged.commit.parts.iter().flat_map(|(_, kvals)| kvals).map(|kval| kval.key.to_string()).collect();
        assert_eq!(keys.len(), 1);
        order.extend(keys);
    }
    assert_eq!(order, ["a", "b", "c"]);
}

#[test]
fn a_piece_that_was_not_delivered_is_taken_again() {
    let limits = StagingLimits { commit_bytes_max: 100, ..StagingLimits::default() };
    let mut staging = Staging::new(own(), limits);
    staging.put(Scope::Global, "a", Value::ByteObject(vec![1; 60])).unwrap();
    staging.put(Scope::Global, "b", Value::ByteObject(vec![1; 60])).unwrap();
    let first = staging.take_commit().unwrap();
    let second = staging.take_commit().unwrap();
    staging.put_back(second.mark);
    assert_eq!(staging.take_commit().unwrap().commit, second.commit);
    staging.put_back(first.mark);
    assert_eq!(staging.take_commit().unwrap().commit, first.commit);
}

#[test]
fn the_first_commit_is_one_even_of_nothing() {
    let mut staging = staging();
    let first = staging.take_first_commit().unwrap();
    assert_eq!(first.commit.parts, []);
    assert_eq!(staging.take_first_commit(), None);
    staging.put_back(first.mark);
    staging.put(Scope::Global, "k", Value::Uint32(1)).unwrap();
    assert!(staging.take_commit().is_some());
    assert_eq!(staging.take_first_commit(), None);
}

#[test]
fn internal_values_are_never_committed() {
    let mut staging = staging();
    staging.put(Scope::Internal, "k", Value::Uint32(1)).unwrap();
    assert_eq!(staging.take_commit(), None);
}

#[test]
fn an_internal_put_does_not_take_a_value_from_others() {
    let mut staging = staging();
    staging.put(Scope::Global, "k", Value::Uint32(1)).unwrap();
    staging.put(Scope::Internal, "k", Value::Uint32(2)).unwrap();
    assert_eq!(seen(&staging, "k"), Some(Value::Uint32(2)));
    assert_eq!(part(&staging.take_commit().unwrap(), Scope::Global), [("k", 1)]);
}

#[test]
fn a_global_put_replaces_a_local_one() {
    let mut staging = staging();
    staging.put(Scope::Local, "k", Value::Uint32(1)).unwrap();
    staging.put(Scope::Global, "k", Value::Uint32(2)).unwrap();
    let staged = staging.take_commit().unwrap();
    assert_eq!(part(&staged, Scope::Global), [("k", 2)]);
    assert_eq!(part(&staged, Scope::Local), []);
}

#[test]
fn a_local_put_leaves_a_global_one_to_other_nodes() {
    let mut staging = staging();
    staging.put(Scope::Global, "k", Value::Uint32(1)).unwrap();
    staging.put(Scope::Local, "k", Value::Uint32(2)).unwrap();
    let staged = staging.take_commit().unwrap();
    assert_eq!(part(&staged, Scope::Local), [("k", 2)]);
    assert_eq!(part(&staged, Scope::Remote), [("k", 1)]);
    assert_eq!(part(&staged, Scope::Global), []);
}

#[test]
fn a_scope_narrows_what_is_found() {
    let mut staging = staging();
    staging.put(Scope::Global, "k", Value::Uint32(1)).unwrap();
    staging.put(Scope::Local, "k", Value::Uint32(2)).unwrap();
    let find = |scope| staging.find(&own(), "k", Some(scope)).and_then(|value| value.as_u32());
    assert_eq!(find(Scope::Local), Some(2));
    assert_eq!(find(Scope::Remote), Some(1));
    assert_eq!(find(Scope::Global), Some(2), "the scope of all excludes nobody's");
    assert_eq!(find(Scope::Internal), None);
}

#[test]
fn a_commit_that_failed_is_part_of_the_next_one() {
    let mut staging = staging();
    staging.put(Scope::Global, "a", Value::Uint32(1)).unwrap();
    let failed = staging.take_commit().unwrap();
    staging.put(Scope::Global, "b", Value::Uint32(2)).unwrap();
    staging.put_back(failed.mark);
    assert_eq!(part(&staging.take_commit().unwrap(), Scope::Global), [("a", 1), ("b", 2)]);
}

#[test]
fn a_reserved_key_cannot_be_put() {
    let refused = staging().put(Scope::Global, "pmix.rank", Value::Uint32(1)).unwrap_err();
    assert!(matches!(refused, StagingError::Key(KeyError::Reserved { .. })));
    assert_eq!(refused.status(), Status::ERR_BAD_PARAM);
}

/// Regression: a C program could give its peers another size of the job, or another name of itself.
#[test]
fn a_key_of_the_server_cannot_be_put_and_those_of_mpi_libraries_can() {
    let mut staging = staging();
    for name in ["pmix.job.size", "pmix.rank", "pmix.nspace", "pmix.parent", "pmix.srvr.uri"] {
        let refused = staging.put_any(Scope::Global, key(name), Value::Uint32(1)).unwrap_err();
        assert!(matches!(refused, StagingError::JobData { .. }), "{name}");
        assert_eq!(refused.status(), Status::ERR_BAD_PARAM);
    }
    for name in ["pmix.hname", "pmix.cpuset", "pmix.locstr", "pmix.puri"] {
        staging.put_any(Scope::Global, key(name), Value::Uint32(1)).unwrap();
    }
}

#[test]
fn anything_can_be_stored_internally_for_a_process_of_any_namespace() {
    let mut staging = staging();
    staging.store_internal(&peer(0), key("pmix.loc"), Value::Uint16(7)).unwrap();
    staging.store_internal(&own(), key("pmix.loc"), Value::Uint16(8)).unwrap();
    assert_eq!(**staging.find(&peer(0), "pmix.loc", None).unwrap(), Value::Uint16(7));
    assert_eq!(seen(&staging, "pmix.loc"), Some(Value::Uint16(8)));
    assert!(staging.find(&peer(1), "pmix.loc", None).is_none());
    assert!(staging.find(&peer(0), "pmix.loc", Some(Scope::Global)).is_none());
    assert_eq!(staging.take_commit(), None);
}

#[test]
fn job_data_cannot_be_stored_internally() {
    let refused = staging().store_internal(&peer(Rank::Wildcard), key("pmix.job.size"), Value::Uint32(1)).unwrap_err();
    assert!(matches!(refused, StagingError::JobData { .. }));
    assert!(staging().store_internal(&peer(Rank::Wildcard), key("mine"), Value::Uint32(1)).is_ok());
}

#[test]
fn the_key_limit_counts_keys_and_not_puts() {
    let limits = StagingLimits { key_count_max: 2, ..StagingLimits::default() };
    let mut staging = Staging::new(own(), limits);
    for _ in 0..3 {
        staging.put(Scope::Global, "a", Value::Uint32(1)).unwrap();
    }
    staging.store_internal(&peer(0), key("b"), Value::Uint32(1)).unwrap();
    let refused = staging.put(Scope::Global, "c", Value::Uint32(1)).unwrap_err();
    assert_eq!(refused, StagingError::TooManyKeys { limit: 2 });
    assert_eq!(refused.status(), Status::ERR_OUT_OF_RESOURCE);
}

#[test]
fn a_value_at_the_limit_is_taken_and_a_larger_one_refused() {
    let value = |size_bytes| Value::ByteObject(vec![0; size_bytes]);
    let limits = StagingLimits { value_bytes_max: footprint(&value(100)).unwrap(), ..StagingLimits::default() };
    let mut staging = Staging::new(own(), limits);
    staging.put(Scope::Global, "k", value(100)).unwrap();
    assert!(matches!(staging.put(Scope::Global, "k", value(101)), Err(StagingError::ValueTooLarge { .. })));
    assert_eq!(seen(&staging, "k"), Some(value(100)));
}

#[test]
fn replacing_a_value_frees_its_bytes_and_a_shared_one_counts_once() {
    let value = || Value::ByteObject(vec![0; 100]);
    let one = footprint(&value()).unwrap();
    let mut staging = Staging::new(own(), StagingLimits { total_bytes_max: 2 * one, ..StagingLimits::default() });
    for scope in [Scope::Global, Scope::Global, Scope::Local, Scope::Global, Scope::Internal, Scope::Global] {
        staging.put(scope, "k", value()).unwrap();
    }
    assert_eq!(staging.size_bytes(), one);
    staging.store_internal(&peer(0), key("k"), value()).unwrap();
    staging.store_internal(&peer(0), key("k"), value()).unwrap();
    let refused = staging.put(Scope::Local, "k", value()).unwrap_err();
    assert_eq!(refused, StagingError::Full { needed_bytes: 3 * one, limit: 2 * one });
    assert_eq!(part_count(&mut staging), 1);
}

fn part_count(staging: &mut Staging) -> usize {
    staging.take_commit().unwrap().commit.parts.len()
}

#[derive(Clone, Debug)]
enum Step {
    Put(Scope, &'static str),
    Commit,
    LoseCommit,
}

fn step() -> impl Strategy<Value = Step> {
    let scope = prop::sample::select(vec![Scope::Local, Scope::Remote, Scope::Global, Scope::Internal]);
    let key = prop::sample::select(vec!["a", "b", "c"]);
    prop_oneof![
        6 => (scope, key).prop_map(|(scope, key)| Step::Put(scope, key)),
        2 => Just(Step::Commit),
        1 => Just(Step::LoseCommit),
    ]
}

/// The values that one audience sees, by key.
type View = BTreeMap<String, u32>;

/// The server's handling of a commit: each value goes to the audiences of its scope.
fn apply(commit: &Commit, same_node: &mut View, other_nodes: &mut View) {
    // Backwards, to show that the order inside a commit does not matter.
    for (scope, kvals) in commit.parts.iter().rev() {
        for kval in kvals.iter().rev() {
            let (key, value) = (kval.key.to_string(), kval.value.as_u32().unwrap());
            if scope.is_visible_locally() {
                same_node.insert(key.clone(), value);
            }
            if scope.is_visible_remotely() {
                other_nodes.insert(key, value);
            }
        }
    }
}

proptest! {
    #[test]
    fn after_a_commit_every_audience_sees_its_last_put(steps in prop::collection::vec(step(), 0..60)) {
        let mut staging = staging();
        let (mut want_same, mut want_other, mut want_own) = (View::new(), View::new(), View::new());
        let (mut same, mut other) = (View::new(), View::new());
        for (value, step) in (0u32..).zip(steps.into_iter().chain([Step::Commit])) {
            match step {
                Step::Put(scope, key) => {
                    staging.put(scope, key, Value::Uint32(value)).unwrap();
                    want_own.insert(key.into(), value);
                    if scope.is_visible_locally() {
                        want_same.insert(key.into(), value);
                    }
                    if scope.is_visible_remotely() {
                        want_other.insert(key.into(), value);
                    }
                }
                Step::Commit => {
                    if let Some(staged) = staging.take_commit() {
                        apply(&staged.commit, &mut same, &mut other);
                    }
                    prop_assert_eq!((&same, &other), (&want_same, &want_other));
                }
                Step::LoseCommit => {
                    if let Some(staged) = staging.take_commit() {
                        staging.put_back(staged.mark);
                    }
                }
            }
            for (key, value) in &want_own {
                prop_assert_eq!(seen(&staging, key), Some(Value::Uint32(*value)));
            }
        }
        prop_assert!(staging.changes.len() <= 2 * staging.entries.len());
    }
}

#[test]
fn a_removed_value_is_gone_here_at_once_and_for_others_with_the_commit() {
    let mut staging = staging();
    staging.put(Scope::Global, "k", Value::Uint32(1)).unwrap();
    staging.put(Scope::Internal, "i", Value::Uint32(2)).unwrap();
    staging.take_commit().unwrap();
    staging.remove(Scope::Global, key("k")).unwrap();
    assert_eq!(seen(&staging, "k"), None);
    assert!(is_removed(&staging, "k"));
    assert_eq!(staging.own(None).map(|(key, _)| key.as_str()).collect::<Vec<_>>(), ["i"]);
    let staged = staging.take_commit().unwrap();
    assert_eq!(staged.commit.parts, [(Scope::Global, vec![Kval { key: key("k"), value: Value::Undefined }])]);
    assert!(!is_removed(&staging, "k"), "the server answers from now on");
    staging.put_back(staged.mark);
    assert!(is_removed(&staging, "k"));
    staging.take_commit().unwrap();
    staging.put(Scope::Local, "k", Value::Uint32(3)).unwrap();
    assert_eq!(seen(&staging, "k"), Some(Value::Uint32(3)));
    // An internal value was never seen by others.
    staging.remove(Scope::Internal, key("i")).unwrap();
    assert_eq!((seen(&staging, "i"), is_removed(&staging, "i")), (None, false));
    assert_eq!(part(&staging.take_commit().unwrap(), Scope::Local), [("k", 3)]);
}
