//! `modex bench` of a user's program.

use serde_json::Value;

use crate::launch::{MODEX, modex};

#[test]
fn a_program_is_run_several_times_and_its_phases_are_figures() {
    let words = ["bench", "mpi", "-n", "2", "--runs", "3", "--json", "--", MODEX, "demo"];
    let ended = modex(words).run();
    assert_eq!((ended.code(), ended.err.as_str()), (Some(0), ""), "{ended:?}");
    let document: Value = serde_json::from_str(&ended.out).unwrap();
    let figures = document["figures"].as_array().unwrap();
    let count = |name: &str| figures.iter().find(|figure| figure["name"] == name).map(|figure| figure["n"].clone());
    assert_eq!(count("mpi.wall"), Some(3.into()), "{ended:?}");
    for phase in ["init", "first_fence.of_last_rank", "finalize_to_exit", "spawn_to_exit", "share.pmix"] {
        assert_eq!(count(&format!("mpi.{phase}")), Some(6.into()), "{phase}: {ended:?}");
    }
}

#[test]
fn a_program_that_fails_or_never_joins_is_named() {
    let ended = modex(["bench", "mpi", "-n", "1", "--runs", "1", "--", "true"]).run();
    assert!(ended.code() == Some(0) && ended.out.contains("mpi.wall"), "{ended:?}");
    assert!(ended.err.contains("modex: no rank joined its job"), "{ended:?}");
    let ended = modex(["bench", "mpi", "-n", "1", "--runs", "1", "--", "false"]).run();
    assert!(ended.code() == Some(1) && ended.out.is_empty() && ended.err.contains("\"false\""), "{ended:?}");
    let ended = modex(["bench", "mpi", "-n", "1", "--timeout", "0.2", "--", "sleep", "100"]).run();
    assert!(ended.code() == Some(1) && ended.err.contains("exit status: 124"), "{ended:?}");
    assert_eq!(modex(["bench", "mpi"]).run().code(), Some(2));
}
