//! `modex bench`: its outputs, its comparison, and the bench of a user's program.

use serde_json::Value;

use crate::launch::{MODEX, modex, on_a_terminal};

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
    assert_eq!(modex(["bench", "mpi", "--timeout", "NaN", "--", "true"]).run().code(), Some(2));
    let ended = modex(["bench", "mpi", "--", "true", ":", "-n", "1", "true"]).run();
    assert!(ended.code() == Some(2) && ended.err.contains("one program"), "{ended:?}");
}

#[test]
fn a_measured_program_gets_variables_and_the_protocol() {
    let script = r#"test "$A" = 3 && test -n "$PMI_FD""#;
    let words = ["bench", "mpi", "-n", "1", "--runs", "1", "-x", "A=3", "--pmi", "pmi1", "--", "sh", "-c", script];
    let ended = modex(words).run();
    assert!(ended.code() == Some(0) && ended.out.contains("mpi.wall"), "{ended:?}");
}

/// The program says which directory it searches first. Two of each three runs count, with both libraries.
#[test]
fn a_program_runs_with_another_library_in_turns() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path().canonicalize().unwrap();
    std::fs::write(place.join("libpmix.so.2"), "").unwrap();
    let (directory, log) = (place.to_str().unwrap(), place.join("log"));
    let script = format!("echo \"$LD_LIBRARY_PATH\" >> {}", log.display());
    let words = ["bench", "mpi", "-n", "1", "--runs", "2", "-x", "LD_LIBRARY_PATH=/own", "--library", directory];
    let ended = modex(words.into_iter().chain(["--json", "--", "sh", "-c", &script])).run();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    let other = format!("{directory}:/own");
    let log = std::fs::read_to_string(log).unwrap();
    assert_eq!(log.lines().collect::<Vec<_>>(), ["/own", &other, &other, "/own", "/own", &other]);
    let document: Value = serde_json::from_str(&ended.out).unwrap();
    let figure = |name: &str| document["figures"].as_array().unwrap().iter().find(|figure| figure["name"] == name);
    assert_eq!(figure("library.mpi.wall").unwrap()["n"], 2, "{ended:?}");
    let ours = figure("mpi.wall").unwrap();
    assert_eq!((&ours["n"], &ours["ratio_to"]), (&2.into(), &"library.mpi.wall".into()), "{ended:?}");
    let ended = modex(["bench", "mpi", "--library", "/proc", "--", "true"]).run();
    assert!(ended.code() == Some(2) && ended.err.contains("no libpmix.so.2"), "{ended:?}");
}

#[test]
fn a_plot_that_can_not_be_written_is_an_error_before_the_measurement() {
    let ended = modex(PUT.iter().chain(&["--plot", "/no/such/place.svg"])).run();
    assert!(ended.code() == Some(1) && ended.out.is_empty() && ended.err.contains("/no/such/place.svg"), "{ended:?}");
}

const PUT: [&str; 6] = ["bench", "put", "--samples", "20", "--values", "1"];

#[test]
fn a_run_is_compared_with_an_earlier_one() {
    let place = tempfile::tempdir().unwrap();
    let [before, plot] = ["before.json", "put.svg"].map(|name| place.path().join(name).display().to_string());
    let earlier = modex(PUT.iter().chain(&["--json"])).run().success();
    std::fs::write(&before, &earlier).unwrap();
    let text = modex(PUT.iter().chain(&["--compare", &before, "--plot", &plot])).run();
    assert_eq!((text.code(), text.err.as_str()), (Some(0), ""), "{text:?}");
    assert!(text.out.contains("before: ") && text.out.contains("now/before"), "{text:?}");
    assert!(std::fs::read_to_string(&plot).unwrap().contains("modex bench put"));
    let json = modex(PUT.iter().chain(&["--compare", &before, "--json"])).run().success();
    let [earlier, later]: [Value; 2] = [&earlier, &json].map(|text| serde_json::from_str(text).unwrap());
    let rows = later["compared"]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), earlier["figures"].as_array().unwrap().len(), "{later}");
    assert_eq!((&rows[0]["before"], &later["compared"]["date"]), (&earlier["figures"][0]["p50"], &earlier["date"]));
    let other = modex(["bench", "fence", "--compare", &before]).run();
    assert!(other.code() == Some(1) && other.err.contains("`modex bench put`, not of `fence`"), "{other:?}");
    let missing = modex(["bench", "fence", "--compare", "/no/such/file"]).run();
    assert!(missing.code() == Some(2) && missing.err.contains("/no/such/file"), "{missing:?}");
}

#[test]
fn a_terminal_shows_a_bar_and_a_file_does_not() {
    let shown = on_a_terminal(&format!("exec {MODEX} bench put --samples 20")).run();
    assert!(shown.out.contains("put [.....") && shown.out.contains("] 0/1 "), "{shown:?}");
    let quiet = modex(PUT).run();
    assert!(quiet.err.is_empty() && !quiet.out.contains("put ["), "{quiet:?}");
}
