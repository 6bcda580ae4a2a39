//! Jobs whose nodes run different libraries. Our servers and stock ones exchange fence data and direct modexes through
//! their hosts. The processes of a node use the library of their server.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::library::{Library, library, repository, scratch};
use crate::pmixbench::sources;
use crate::process::{Consumer, Ended};

/// The library directory of a node: ours here, the system's below.
fn ours() -> String {
    library().directory.as_ref().expect("ours is under test, not Debian's").to_string_lossy().into_owned()
}

const STOCK: &str = "";

/// Runs a job over simulated nodes, with two processes each; returns the checks and findings of `mixed_nodes.c`.
fn job(words: &[String]) -> Ended {
    let program = scratch().join("mixed_nodes");
    if !program.exists() {
        // Compiled under another name first, because tests run side by side.
        let fresh = scratch().join(format!("mixed_nodes-{:?}", std::thread::current().id()));
        library().headers()[0].compile(&[repository().join("tests/interop/mixed_nodes.c")], &fresh);
        std::fs::rename(fresh, &program).unwrap();
    }
    let ended = Consumer::new(&Library::stock(), &program).arg("2").args(words).run().success();
    let lines = ended.sorted();
    let checked = lines.iter().filter(|line| line.contains(" checked ")).count();
    assert_eq!(checked, 2 * words.len(), "not every process has finished\n{}", ended.transcript());
    // A Get of everything returns the posted keys, from servers of either library.
    let keys: Vec<BTreeSet<&str>> = lines
        .iter()
        .filter_map(|line| line.split_once(" keys "))
        .map(|(_, keys)| keys.split(' ').filter(|key| !is_described(key)).collect())
        .collect();
    let posted = ["chain", "g.array", "g.float", "g.number", "g.proc", "g.size", "g.text", "r.bytes", "r.long"];
    assert_eq!(keys, vec![BTreeSet::from(posted); 2 * words.len()], "{}", ended.transcript());
    for (node, word) in words.iter().enumerate() {
        let mark = format!("node {node} library ");
        let loaded: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix(&mark)).collect();
        let expected = if word.is_empty() { Library::stock().file } else { library().file.clone() };
        let right = loaded.iter().all(|file| std::fs::canonicalize(file).unwrap() == expected);
        assert!(loaded.len() == 3 && right, "node {node}: {loaded:?} instead of {}", expected.display());
    }
    ended
}

/// Whether a key is one of the host's, which some libraries return with the posts. Our own keys (`pmix.modex`) must not
/// appear, so they do not count here.
fn is_described(key: &str) -> bool {
    key.starts_with("pmix.") && !key.starts_with("pmix.modex")
}

#[test]
fn every_value_crosses_between_our_servers_and_stock_ones_in_both_directions() {
    for nodes in [[ours(), STOCK.into()], [STOCK.into(), ours()]] {
        job(&nodes);
    }
    job(&[ours(), STOCK.into(), ours(), STOCK.into()]);
}

/// Checks the test itself: the same program finds no fault if all servers are of one kind.
#[test]
fn servers_of_one_kind_exchange_every_value() {
    job(&[STOCK.into(), STOCK.into()]);
    job(&[ours(), ours()]);
}

#[test]
fn our_servers_read_each_other_in_every_form() {
    let form = |release: &str| format!("{},MODEX_EXCHANGE={release}", ours());
    job(&[form("6.1"), form("3.2"), form("5.0"), ours()]);
}

#[test]
fn a_form_that_no_release_has_is_refused() {
    let program = scratch().join("mixed_nodes_refused");
    library().headers()[0].compile(&[repository().join("tests/interop/mixed_nodes.c")], &program);
    let refused = format!("{},MODEX_EXCHANGE=7", ours());
    let ended = Consumer::new(&Library::stock(), &program).args(["1", &refused, &refused]).run().code(1);
    assert!(ended.err.contains("server_init"), "{}", ended.transcript());
}

/// `pmixbench` simulates nodes, too; the wrapper chooses the library of a node's server at its start.
#[test]
fn pmixbench_runs_over_nodes_of_both_kinds() {
    let program = scratch().join("pmixbench_mixed");
    compile_wrapped(&sources("node_library.c"), &program);
    for (scenario, words) in [
        ("dmodex", [ours(), STOCK.into(), ours(), STOCK.into()]),
        ("nodes", [ours(), STOCK.into(), ours(), STOCK.into()]),
        ("nodes", [STOCK.into(), ours(), ours(), STOCK.into()]),
    ] {
        let ended = Consumer::new(&Library::stock(), &program)
            .arg(format!("--scenario={scenario}"))
            .args(["--iters=20", "--json"])
            .env("NODE_LIBRARIES", words.join(":"))
            .run()
            .success();
        let lines = ended.sorted();
        assert!(lines.iter().any(|line| line.contains("remote")), "nothing crossed\n{}", ended.transcript());
        assert!(!lines.iter().any(|line| line.contains("failed")), "{}", ended.transcript());
        for (node, word) in words.iter().enumerate() {
            let note = format!("node {node} library {word}");
            assert!(ended.err.lines().any(|line| line == note), "no {note:?}\n{}", ended.transcript());
        }
    }
}

/// Compiles with `execv` replaced by the one of `node_library.c`.
fn compile_wrapped(sources: &[PathBuf], program: &Path) {
    let headers = &library().headers()[0];
    headers.compile_with(sources, program, &["-Wl,--wrap=execv"]);
}
