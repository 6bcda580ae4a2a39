//! `modex sim` as its users call it: its output and its exit status.

use crate::launch::modex;

#[test]
fn seeds_in_which_every_rule_holds_end_with_success_and_one_summary_line() {
    let text = modex(["sim", "--seeds", "0..4", "--ranks", "4", "--phases", "2"]).run().success();
    assert!(text.starts_with("4 seeds, ") && text.ends_with(": every rule held\n"), "{text}");
    assert_eq!(text.lines().count(), 1);
}

#[test]
fn a_run_is_counted_the_same_in_every_process() {
    let words = ["sim", "--seeds", "5..9", "--ranks", "4", "--phases", "2", "--json"];
    let counts = || {
        let document: serde_json::Value = serde_json::from_str(&modex(words).run().success()).unwrap();
        ["seeds", "steps", "requests", "faults", "hash"].map(|name| document[name].clone())
    };
    let first = counts();
    assert_eq!(first[0], 4);
    assert_eq!(first, counts());
}

#[test]
fn a_broken_rule_is_named_with_a_command_that_shows_it_again() {
    let ended = modex(["sim", "--seeds", "0..20", "--faults", "canary:reply-twice"]).run();
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    let replay = ended.out.lines().find_map(|line| line.split_once(" steps: modex ")).unwrap().1;
    let again = modex(replay.split(' ')).run();
    assert_eq!(again.code(), Some(1), "{again:?}");
    assert!(again.out.contains("every accepted request is answered exactly once"), "{again:?}");
}

#[test]
fn unknown_faults_and_canaries_are_refused() {
    let ended = modex(["sim", "--faults", "die,fire"]).run();
    assert_eq!(ended.code(), Some(2), "{ended:?}");
    assert!(ended.err.contains("\"fire\" is not a kind of fault"), "{ended:?}");
    let ended = modex(["sim", "--faults", "canary:bogus"]).run();
    assert_eq!(ended.code(), Some(2), "{ended:?}");
    let names_canaries =
        ended.err.contains("\"bogus\" is not a canary") && ended.err.contains("fence-data fence-early");
    assert!(names_canaries && !ended.err.contains("loss"), "{ended:?}");
}

/// A finding among drawn shapes is useless without its shape, so the replay command names all of it.
#[test]
fn drawn_shapes_are_the_seeds_own_and_exclude_given_ones() {
    let hash = |words: &[&str]| {
        let document: serde_json::Value = serde_json::from_str(&modex(words).run().success()).unwrap();
        document["hash"].clone()
    };
    let drawn = ["sim", "--seeds", "3..5", "--drawn", "--json"];
    assert_eq!(hash(&drawn), hash(&drawn));
    assert_ne!(hash(&drawn), hash(&["sim", "--seeds", "3..5", "--json"]));
    let ended = modex(["sim", "--drawn", "--nodes", "3"]).run();
    assert_eq!(ended.code(), Some(2), "{ended:?}");
    assert!(ended.err.contains("--drawn") && ended.err.contains("--nodes"), "{ended:?}");
}
