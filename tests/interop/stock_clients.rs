//! OpenPMIx clients under our server: the server's process loads our library, its clients load theirs. The programs are
//! unchanged. The tests use Debian's 4.2.2; others by hand:
//! `MODEX_PEER_LIBRARY=/where/6.1/lib cargo test --test interop stock_clients`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::library::{Library, library, repository, run_compiler, scratch};
use crate::pmixbench::run_every_scenario;
use crate::process::{Consumer, Ended};

/// The directory of the clients' library; empty for the system's.
fn peer() -> String {
    std::env::var("MODEX_PEER_LIBRARY").unwrap_or_default()
}

fn ours() -> PathBuf {
    library().directory.clone().expect("ours is under test, not Debian's")
}

/// Compiles a program once, under another name first, because tests run side by side.
fn compiled(name: &str, compile: impl FnOnce(&Path)) -> PathBuf {
    let directory = scratch().join("stock-clients");
    std::fs::create_dir_all(&directory).unwrap();
    let program = directory.join(name);
    if !program.exists() {
        let fresh = directory.join(format!("{name}-{:?}", std::thread::current().id()));
        compile(&fresh);
        std::fs::rename(fresh, &program).unwrap();
    }
    program
}

/// A chapter of the C test suite: its host is this program on our library, its clients are the same program on theirs.
fn chapter(name: &str, clients_at_least: usize) {
    let source = repository().join("tests/capi").join(format!("{name}.c"));
    let program = compiled(name, |program| library().headers()[0].compile(&[source], program));
    let ended = Consumer::new(library(), program).env("CAPI_CLIENT_LIBRARY_PATH", peer()).run().success();
    let libraries: Vec<PathBuf> = ended
        .text()
        .lines()
        .filter_map(|line| line.strip_prefix("library "))
        .map(|path| std::fs::canonicalize(path).unwrap())
        .collect();
    let of_us = libraries.iter().filter(|file| **file == library().file).count();
    assert_eq!(of_us, 1, "the host alone is on our library\n{}", ended.transcript());
    assert!(libraries.len() > clients_at_least, "{} processes reported\n{}", libraries.len(), ended.transcript());
}

/// Put, commit, fence with and without data, Get of own, peers', wildcard and missing values, direct modex.
#[test]
fn values_are_put_and_got() {
    chapter("modex", 8);
}

/// Registered handlers, late registration, ranges, custom targets, the server's own events.
#[test]
fn events_are_raised_and_delivered() {
    chapter("events", 3);
}

/// Publish and lookup, spawn, query, log, allocation, job control, monitoring, credentials, forwarded output and input,
/// connect, disconnect and groups.
#[test]
fn the_hosts_services_are_reached() {
    chapter("services", 2);
}

/// Registration, update and end of a fabric.
#[test]
fn fabrics_are_registered() {
    chapter("scheduler", 2);
}

/// Endpoints, coordinates, switch peers and a key of a fabric, found under the standard's keys.
#[test]
fn endpoints_on_a_fabric_are_found() {
    chapter("endpoints", 5);
}

/// Static ports of a job, found under the host's name for them.
#[test]
fn static_ports_are_found() {
    chapter("ports", 8);
}

/// Packed data has the encoding of the process that unpacks it.
#[test]
fn data_is_packed_for_clients_with_an_older_encoding() {
    chapter("forms", 1);
}

/// Queries about storage that the server answers itself.
#[test]
fn storage_is_asked_for() {
    chapter("storage", 3);
}

/// Settings collected for a job's start, found in the environment of its processes and by Get.
#[test]
fn settings_for_a_job_reach_its_processes() {
    chapter("launch", 3);
}

/// The processes of other nodes: our server makes the list for such clients if the process map is a rule.
#[test]
fn processes_on_other_nodes_are_found() {
    chapter("peers", 4);
}

/// A launched process with another name becomes a tool of that name.
#[test]
fn a_launched_process_becomes_a_tool_of_another_name() {
    chapter("named", 1);
}

/// One program of `tests/mpi`: Open MPI's launcher on our library, its ranks on theirs.
fn mpi(options: &[&str], name: &str, arguments: &[&str]) -> Ended {
    let source = repository().join("tests/mpi").join(format!("{name}.c"));
    let program = compiled(&format!("mpi-{name}"), |program| {
        run_compiler(Command::new("mpicc").arg("-O1").arg(source).arg("-o").arg(program));
    });
    let theirs = format!("LD_LIBRARY_PATH={}", peer());
    Consumer::new(library(), "mpirun")
        .args(["--allow-run-as-root", "--oversubscribe", "--mca", "pml", "ob1", "--mca", "btl", "self,vader,tcp"])
        .args(["-x", &theirs])
        .args(options)
        .arg(program)
        .args(arguments)
        .run()
        .success()
}

#[test]
fn open_mpi_runs_with_our_library_in_the_launcher_only() {
    let whose = mpi(&["-n", "2"], "whose", &[]);
    let stock = std::fs::canonicalize("/usr/lib/x86_64-linux-gnu/pmix2/lib/libpmix.so.2").unwrap();
    for (who, file) in [("mpirun", &library().file), ("rank", &stock)] {
        let line = format!("whose {who} {}", file.display());
        let found = whose.sorted().iter().filter(|found| **found == line).count();
        assert!(found == 2 || who == "rank" && !peer().is_empty(), "{line}\n{}", whose.transcript());
    }
    assert_eq!(mpi(&["-n", "8"], "ring", &[]).sorted(), ["ring size=8 token=84"]);
    assert_eq!(mpi(&["-n", "8"], "allreduce", &[]).sorted(), ["allreduce size=8 most=7"]);
    let hello = mpi(&["-n", "4"], "hello", &["x"]).sorted();
    assert_eq!(hello.len(), 4, "{hello:?}");
    let ports = mpi(&["-n", "2"], "ports", &[]);
    assert_eq!(ports.sorted(), ["connected", "gone", "published", "served"], "{}", ports.transcript());
    let spawned = mpi(&["-n", "2"], "spawn", &[]);
    let expected = [
        "child merged=2 size=4 remote=2",
        "child merged=3 size=4 remote=2",
        "parent merged=0 size=4 remote=2",
        "parent merged=1 size=4 remote=2",
    ];
    assert_eq!(spawned.sorted(), expected, "{}", spawned.transcript());
}

#[test]
fn every_scenario_of_pmixbench_runs_with_our_library_in_the_server() {
    let theirs = if peer().is_empty() { Library::stock() } else { Library::in_directory(Path::new(&peer())) };
    run_every_scenario("pmixbench_server", library(), &theirs);
}

/// A user's settings of OpenPMIx do not affect our server, and do not lead its clients to features that the server
/// lacks.
#[test]
fn settings_of_the_other_library_in_the_servers_environment_do_no_harm() {
    let source = repository().join("tests/interop/answers.c");
    let program = compiled("answers", |program| library().headers()[0].compile(&[source], program));
    let modex = &crate::command::built("modex");
    let answers = |settings: &[(&str, &str)]| {
        let job = Consumer::new(library(), modex).args(["run", "-n", "2", "--", "sh", "-c"]);
        let job = job.arg("LD_LIBRARY_PATH=$THEIRS exec $PROGRAM").env("THEIRS", peer()).env("PROGRAM", &program);
        let ended = settings.iter().fold(job, |job, (name, value)| job.env(name, value)).run().success();
        assert!(ended.text().lines().count() > 2 * 30, "{}", ended.transcript());
        ended.sorted()
    };
    let expected = answers(&[]);
    for setting in [
        ("PMIX_MCA_gds", "ds21"),
        ("PMIX_MCA_gds", "shmem2"),
        ("PMIX_MCA_psec", "munge"),
        ("PMIX_MCA_psec", "none"),
        ("PMIX_MCA_bfrops", "v20"),
        ("PMIX_MCA_ptl", "usock"),
    ] {
        assert_eq!(answers(&[setting]), expected, "{setting:?}");
    }
}

/// `modex run` with processes of each library: the same answers over the socket as from the segment.
#[test]
fn modex_run_serves_processes_of_both_libraries_in_one_job() {
    let source = repository().join("tests/interop/answers.c");
    let program = compiled("answers", |program| library().headers()[0].compile(&[source], program));
    let modex = &crate::command::built("modex");
    let answers = |script: &str| {
        let ended = Consumer::new(library(), modex)
            .args(["run", "-n", "4", "--", "sh", "-c", script])
            .env("OURS", ours())
            .env("THEIRS", peer())
            .env("PROGRAM", &program)
            .run()
            .success();
        let lines = ended.sorted();
        assert!(lines.len() > 4 * 30, "{}", ended.transcript());
        lines
    };
    let mixed = "LD_LIBRARY_PATH=$([ $((PMIX_RANK % 2)) = 0 ] && echo $OURS || echo $THEIRS) exec $PROGRAM";
    let expected = answers("LD_LIBRARY_PATH=$OURS exec $PROGRAM");
    assert_eq!(answers(mixed), expected);
    assert_eq!(answers("LD_LIBRARY_PATH=$THEIRS exec $PROGRAM"), expected);
}
