//! `pmixbench` (`tests/peer`): a small resource manager with clients, which measures any library. Here every scenario
//! only has to work, with few iterations, and each process must load the intended library.

use std::fs;
use std::path::{Path, PathBuf};

use crate::library::{Library, library, repository, scratch};
use crate::process::{Consumer, Ended};

const SCENARIOS: &[&[&str]] = &[
    &["--scenario=micro"],
    &["--scenario=fence", "--clients=2"],
    &["--scenario=fence", "--clients=8"],
    &["--scenario=launch", "--clients=2"],
    &["--scenario=launch", "--clients=16"],
    &["--scenario=scale", "--ranks=1000"],
    &["--scenario=dmodex"],
    &["--scenario=nodes"],
];

/// Its sources, and one of ours that changes how it starts processes.
pub(crate) fn sources(ours: &str) -> Vec<PathBuf> {
    let given = std::env::var("MODEX_PEER").ok().filter(|name| !name.is_empty()).map(PathBuf::from);
    let directory = given.unwrap_or_else(|| repository().join("tests/peer"));
    let theirs = ["main.c", "server.c", "client.c", "util.c"].map(|file| directory.join(file));
    theirs.into_iter().chain([repository().join("tests/interop").join(ours)]).collect()
}

/// Runs every scenario with the driver and its servers on one library and the clients on another.
pub(crate) fn run_every_scenario(name: &str, servers: &Library, clients: &Library) {
    let program = scratch().join(name);
    library().headers()[0].compile_with(&sources("client_library.c"), &program, &["-Wl,--wrap=posix_spawn"]);
    for scenario in SCENARIOS {
        let directory = clients.directory.as_deref().unwrap_or_else(|| Path::new(""));
        let bench = Consumer::new(servers, &program).env("CLIENT_LIBRARY", directory).env("CLIENT_LIBRARY_NOTES", "1");
        let ended = bench.args(*scenario).args(["--iters=20", "--reps=2", "--json"]).run();
        println!("{scenario:?}\n{}", ended.transcript());
        let ended = ended.success();
        let lines = ended.sorted();
        assert!(
            lines.iter().any(|line| line.contains("\"p50\":")),
            "{scenario:?} measured nothing\n{}",
            ended.transcript()
        );
        assert!(!lines.iter().any(|line| line.contains("\"name\":\"failed\"")), "{scenario:?}\n{}", ended.transcript());
        for (role, expected) in [("server", servers), ("client", clients)] {
            let loaded = loaded(&ended, role);
            let as_meant = !loaded.is_empty() && loaded.iter().all(|file| *file == expected.file);
            assert!(as_meant, "{scenario:?}: {role}s loaded {loaded:?} instead of {}", expected.file.display());
        }
    }
}

/// The library files of the processes with this role, as each process noted them.
fn loaded(ended: &Ended, role: &str) -> Vec<PathBuf> {
    let mark = format!("library of {role} ");
    let notes = ended.err.lines().filter_map(|line| line.strip_prefix(&mark));
    notes.map(|file| fs::canonicalize(file).unwrap_or_else(|error| panic!("{file}: {error}"))).collect()
}
