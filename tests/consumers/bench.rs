//! `pmixbench`, a small resource manager and its clients that measures any library: here it only has to work, every
//! scenario, with few iterations. Its sources are another project's, beside this one in `../shared/peer`.

use std::io::Write;
use std::path::PathBuf;

use crate::library::{library, repository, scratch};
use crate::process::Consumer;

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

#[test]
fn every_scenario_of_pmixbench_runs() {
    let Some(sources) = sources() else {
        // Not captured as a macro's output is: whoever reads the run has to see it.
        std::io::stderr()
            .write_all(b"pmixbench: NOT RUN: its sources are neither in MODEX_PEER nor in ../shared/peer\n")
            .unwrap();
        return;
    };
    let debian = &library().headers()[0];
    let program = scratch().join("pmixbench");
    let files = ["main.c", "server.c", "client.c", "util.c"].map(|file| sources.join(file));
    debian.compile(&files, &program);
    for scenario in SCENARIOS {
        let ended = Consumer::new(library(), &program).args(*scenario).args(["--iters=20", "--reps=2", "--json"]).run();
        println!("{scenario:?}\n{}", ended.told());
        let ended = ended.success();
        let lines = ended.sorted();
        assert!(lines.iter().any(|line| line.contains("\"p50\":")), "{scenario:?} measured nothing\n{}", ended.told());
        assert!(!lines.iter().any(|line| line.contains("\"name\":\"failed\"")), "{scenario:?}\n{}", ended.told());
    }
}

fn sources() -> Option<PathBuf> {
    let given = std::env::var("MODEX_PEER").ok().filter(|name| !name.is_empty()).map(PathBuf::from);
    let directory = given.unwrap_or_else(|| repository().join("../shared/peer"));
    directory.join("bench.h").exists().then_some(directory)
}
