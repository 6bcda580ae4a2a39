//! `modex demo`, with and without a launcher, and the report of its phases.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::launch::{MODEX, modex, script};

#[test]
fn any_number_of_ranks_exchange_and_check_their_values() {
    for count in ["1", "2", "16"] {
        let out = modex(["run", "-n", count, MODEX, "demo"]).run().success();
        assert_eq!(out.lines().filter(|line| line.starts_with("demo ok")).count(), 1, "{out}");
        assert!(out.contains(&format!("demo ok ranks={count} rounds=1 ")), "{out}");
    }
}

#[test]
fn rounds_and_sizes_can_be_chosen() {
    let out = modex(["run", "-n", "4", MODEX, "demo", "--rounds", "3", "--size", "100000"]).run().success();
    assert!(out.contains("demo ok ranks=4 rounds=3 ") && out.contains("bytes=100000"), "{out}");
    let out = modex(["run", "-n", "2", MODEX, "demo", "--rounds", "0", "--size", "0"]).run().success();
    assert!(out.contains("demo ok ranks=2 rounds=0 "), "{out}");
}

#[test]
fn the_table_has_every_phase() {
    let out = modex(["run", "-n", "2", MODEX, "demo", "--rounds", "2"]).run().success();
    for phase in ["init", "put", "commit", "fence", "read all peers", "barrier"] {
        assert!(out.lines().any(|line| line.starts_with(phase)), "{phase}: {out}");
    }
}

#[test]
fn the_report_covers_every_rank_in_every_phase() {
    let ended = modex(["run", "-n", "3", "--report", MODEX, "demo"]).run();
    assert!(ended.status.success(), "{ended:?}");
    let rows: Vec<&str> = ended.err.lines().collect();
    assert!(rows[0].starts_with("phase (ms)"), "{ended:?}");
    let names = [
        "spawn to main (Init begins)",
        "Init begins to granted",
        "Init to first fence done",
        "first fence to exit",
        "spawn to exit",
    ];
    assert_eq!(rows.len(), 1 + names.len());
    for (row, name) in rows[1..].iter().zip(names) {
        assert!(row.starts_with(name) && row.ends_with(" 3"), "{row}");
    }
}

#[test]
fn the_report_of_programs_that_are_no_clients_has_no_figures_for_them() {
    let ended = modex(["run", "-n", "1", "--report", "true"]).run();
    assert!(ended.err.lines().nth(2).is_some_and(|row| row.contains('-') && row.ends_with(" 0")), "{ended:?}");
}

#[test]
fn a_report_has_every_moment_of_every_rank_as_json_and_as_a_picture() {
    let place = tempfile::tempdir().unwrap();
    let [json, svg] = ["start.json", "start.svg"].map(|name| place.path().join(name));
    let of = |path: &std::path::Path| format!("--report={}", path.display());
    let ended = modex(["run", "-n", "3", &of(&json), &of(&svg), "--report", MODEX, "demo"]).run();
    assert!(ended.status.success() && ended.err.starts_with("phase (ms)"), "{ended:?}");
    let document: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!((&document["ranks"], document["moments"].as_array().map(Vec::len)), (&3.into(), Some(3)));
    let names =
        ["spawned", "init_begun", "connected", "init_granted", "fence_begun", "fence_ended", "finalized", "ended"];
    for rank in document["moments"].as_array().unwrap() {
        let times: Vec<f64> = names.map(|name| rank[name].as_f64().unwrap_or_else(|| panic!("{name}: {rank}"))).into();
        assert!(times.is_sorted(), "{rank}");
    }
    assert!(document["machine"]["processors"].is_u64() && document["date"].is_string(), "{document}");
    let picture = std::fs::read_to_string(&svg).unwrap();
    assert!(picture.starts_with("<svg") && picture.contains(document["job"].as_str().unwrap()), "{picture}");
}

#[test]
fn a_report_that_can_not_be_written_is_an_error_before_a_rank_starts() {
    let ended = modex(["run", "--report=/no/such/place/x.svg", "echo", "never"]).run();
    assert_eq!((ended.code(), ended.out.as_str()), (Some(1), ""), "{ended:?}");
    assert!(ended.err.starts_with("modex: cannot write the report /no/such/place/x.svg: "), "{ended:?}");
    let ended = modex(["run", "--report=x.png", "echo", "never"]).run();
    assert_eq!((ended.code(), ended.out.as_str()), (Some(2), ""), "{ended:?}");
    assert!(ended.err.contains("ends with .svg or .json"), "{ended:?}");
    let full = tempfile::tempdir().unwrap();
    let link = full.path().join("full.json");
    std::os::unix::fs::symlink("/dev/full", &link).unwrap();
    let ended = modex(["run", &format!("--report={}", link.display()), "true"]).run();
    assert_eq!((ended.code(), ended.err.lines().count()), (Some(1), 1), "{ended:?}");
    assert!(ended.err.starts_with("modex: cannot write the report "), "{ended:?}");
}

/// The old report was truncated, and an empty file stayed.
#[test]
fn a_job_that_can_not_be_started_leaves_reports_as_they_were() {
    let place = tempfile::tempdir().unwrap();
    let [old, new] = ["old.json", "new.svg"].map(|name| place.path().join(name));
    std::fs::write(&old, "an old report").unwrap();
    let [of_old, of_new] = [&old, &new].map(|path| format!("--report={}", path.display()));
    let ended = modex(["run", &of_old, &of_new, "--", "./no-such-program"]).run();
    assert_eq!(ended.code(), Some(127), "{ended:?}");
    assert_eq!(std::fs::read_to_string(&old).unwrap(), "an old report");
    assert!(!new.exists());
    modex(["run", &of_old, "true"]).run().success();
    assert!(std::fs::read_to_string(&old).unwrap().starts_with('{'));
}

/// The error of a client with these variables and no others of a launcher.
fn complaint(variables: &[(&str, &OsStr)]) -> String {
    let launch = modex(["demo"]).without(&["PMIX_NAMESPACE", "PMIX_RANK", "MODEX_SERVER_URI", "PMIX_SECURITY_MODE"]);
    let ended = variables.iter().fold(launch, |launch, (name, value)| launch.env(name, value)).run();
    assert_eq!((ended.code(), ended.out.as_str(), ended.err.lines().count()), (Some(1), "", 1), "{ended:?}");
    ended.err
}

const GOOD: [(&str, &str); 3] =
    [("PMIX_NAMESPACE", "job"), ("PMIX_RANK", "0"), ("MODEX_SERVER_URI", "srv.0;unix:/no/such/socket")];

#[test]
fn without_a_launcher_the_demo_says_so() {
    assert!(
        complaint(&[]).starts_with("modex: PMIX_NAMESPACE is not set: this process was not started by a PMIx launcher")
    );
}

#[test]
fn a_launcher_without_server_and_one_whose_server_is_gone_are_told_apart() {
    let good = GOOD.map(|(name, value)| (name, OsStr::new(value)));
    assert!(complaint(&good[..2]).contains("the launcher started no server of release 3 or later"));
    let gone = complaint(&good);
    assert!(gone.contains("srv.0;unix:/no/such/socket can't be reached"), "{gone}");
}

#[test]
fn a_garbled_variable_is_named() {
    let garbled: [(&str, &[u8]); 7] = [
        ("PMIX_NAMESPACE", b""),
        ("PMIX_NAMESPACE", b"\xff"),
        ("PMIX_RANK", b"one"),
        ("PMIX_RANK", b"4294967295"),
        ("MODEX_SERVER_URI", b"tcp4://127.0.0.1:1"),
        ("MODEX_SERVER_URI", b"srv.0;unix:/a\xff"),
        ("PMIX_SECURITY_MODE", b"munge"),
    ];
    for (garbled_name, bytes) in garbled {
        let mut variables: Vec<(&str, &OsStr)> = GOOD.map(|(name, value)| (name, OsStr::new(value))).to_vec();
        variables.retain(|(name, _)| *name != garbled_name);
        variables.push((garbled_name, OsStr::from_bytes(bytes)));
        let said = complaint(&variables);
        assert!(said.contains(garbled_name), "{garbled_name}={bytes:?}: {said}");
    }
}

#[test]
fn a_missing_variable_is_named() {
    let good = GOOD.map(|(name, value)| (name, OsStr::new(value)));
    assert!(complaint(&[good[0], good[2]]).contains("PMIX_RANK is not set"));
}

/// Regression: the launcher's TCP addresses were set as well. Ranks took these without a message, and had no shared
/// memory.
#[test]
fn a_variable_of_ours_that_is_garbled_or_missing_is_named_although_there_is_another_way() {
    for name in ["MODEX_SERVER_URI", "MODEX_SERVER_TCP"] {
        for damage in [format!("export {name}=garbage"), format!("unset {name}")] {
            let ended = script(&["-n", "1"], &format!("{damage}; exec {MODEX} demo")).run();
            assert_eq!((ended.code(), ended.out.as_str()), (Some(1), ""), "{damage}: {ended:?}");
            // The launcher's own line on the rank's end may come before the rank's.
            let start = format!("modex: {name} ");
            assert!(ended.err.lines().any(|line| line.starts_with(&start)), "{damage}: {ended:?}");
        }
    }
}
