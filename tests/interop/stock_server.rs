//! Our clients under Debian's OpenPMIx 4.2.2. Open MPI's launcher and daemons, hosts written in C and `pmixbench` load
//! the system's library. The processes that they start load ours, and are unchanged.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::library::{Library, library, repository, run_compiler, scratch};
use crate::pmixbench::run_every_scenario;
use crate::process::{Consumer, Ended};

fn ours() -> &'static Path {
    library().directory.as_deref().expect("ours is under test, not Debian's")
}

/// `mpirun` on the system's library, with ranks on ours. The daemons of other hosts use the system's, too.
fn mpirun() -> Consumer {
    let agent = repository().join("tests/mpi/on-node.sh");
    Consumer::new(&Library::stock(), "mpirun")
        .args(["--allow-run-as-root", "--oversubscribe"])
        .args(["--mca", "pml", "ob1", "--mca", "btl", "self,vader,tcp", "--mca", "plm_rsh_agent"])
        .arg(agent)
        .args(["-x", &format!("LD_LIBRARY_PATH={}", ours().display())])
}

/// The compiled program of `tests/mpi`; all are compiled at the first call.
fn program(name: &str) -> PathBuf {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    let directory = DIRECTORY.get_or_init(|| {
        let directory = scratch().join("mpi-ranks");
        fs::create_dir(&directory).unwrap();
        for name in ["hello", "ring", "allreduce", "spawn", "ports", "ends", "stdio", "whose"] {
            let source = repository().join("tests/mpi").join(format!("{name}.c"));
            run_compiler(Command::new("mpicc").args(["-O1", "-g"]).arg(source).arg("-o").arg(directory.join(name)));
        }
        directory
    });
    directory.join(name)
}

fn run(options: &[&str], name: &str, arguments: &[&str]) -> Ended {
    mpirun().args(options).arg(program(name)).args(arguments).run().success()
}

#[test]
fn ranks_load_ours_and_mpirun_and_its_daemons_the_systems() {
    let stock = Library::stock().file.display().to_string();
    let own = library().file.display().to_string();
    for (options, daemons) in [(&["-n", "3"][..], 0), (&["--host", "nodeA:2,nodeB:1", "-n", "3"], 3)] {
        let ended = run(options, "whose", &[]);
        let count = |line: String| ended.sorted().iter().filter(|found| **found == line).count();
        assert_eq!(count(format!("whose rank {own}")), 3, "{}", ended.transcript());
        assert_eq!(count(format!("whose mpirun {stock}")), 3, "{}", ended.transcript());
        assert_eq!(count(format!("whose orted {stock}")), daemons, "{}", ended.transcript());
    }
}

#[test]
fn ranks_find_each_other_on_one_host_and_on_several() {
    for hosts in [&["-n", "4"][..], &["--host", "nodeA:2,nodeB:2", "-n", "4"]] {
        let lines = run(hosts, "hello", &["x"]).sorted();
        assert_eq!(lines.len(), 4, "{lines:?}");
        for (rank, line) in lines.iter().enumerate() {
            assert!(line.starts_with(&format!("hello rank={rank} size=4 app=0 argument=x host=")), "{lines:?}");
        }
        assert_eq!(run(hosts, "ring", &[]).sorted(), ["ring size=4 token=18"]);
        assert_eq!(run(hosts, "allreduce", &[]).sorted(), ["allreduce size=4 most=3"]);
    }
    assert_eq!(run(&["-n", "16"], "ring", &[]).sorted(), ["ring size=16 token=360"]);
}

#[test]
fn ranks_with_the_default_transports() {
    let setting = format!("LD_LIBRARY_PATH={}", ours().display());
    let job =
        Consumer::new(&Library::stock(), "mpirun").args(["--allow-run-as-root", "--oversubscribe", "-x", &setting]);
    assert_eq!(job.args(["-n", "4"]).arg(program("ring")).run().success().sorted(), ["ring size=4 token=18"]);
}

#[test]
fn two_programs_in_one_job() {
    let hello = program("hello");
    let setting = format!("LD_LIBRARY_PATH={}", ours().display());
    let job = mpirun().args(["-n", "2"]).arg(&hello).args(["a", ":", "-x", &setting, "-n", "2"]).arg(&hello).arg("b");
    let lines = job.run().success().sorted();
    for (rank, app, argument) in [(0, 0, 'a'), (1, 0, 'a'), (2, 1, 'b'), (3, 1, 'b')] {
        let start = format!("hello rank={rank} size=4 app={app} argument={argument} ");
        assert_eq!(lines.iter().filter(|line| line.starts_with(&start)).count(), 1, "{start}: {lines:?}");
    }
}

#[test]
fn children_are_spawned_and_joined() {
    let expected = [
        "child merged=2 size=4 remote=2",
        "child merged=3 size=4 remote=2",
        "parent merged=0 size=4 remote=2",
        "parent merged=1 size=4 remote=2",
    ];
    for hosts in [&["-n", "2"][..], &["--host", "nodeA:2,nodeB:2", "-n", "2"]] {
        let ended = run(hosts, "spawn", &[]);
        assert_eq!(ended.sorted(), expected, "{}", ended.transcript());
    }
}

#[test]
fn names_are_published_looked_up_connected_to_and_withdrawn() {
    for hosts in [&["-n", "2"][..], &["--host", "nodeA:1,nodeB:1", "-n", "2"]] {
        let ended = run(hosts, "ports", &[]);
        assert_eq!(ended.sorted(), ["connected", "gone", "published", "served"], "{}", ended.transcript());
    }
}

#[test]
fn an_abort_an_exit_and_a_signal_end_the_job_with_their_code() {
    let ends = |arguments: &[&str]| mpirun().args(["-n", "3"]).arg(program("ends")).args(arguments).run();
    assert_eq!(ends(&["abort", "42"]).code(42).text(), "");
    ends(&["exit", "7"]).code(7);
    ends(&["code", "5"]).code(5);
    ends(&["signal", "9"]).code(128 + 9);
}

#[test]
fn standard_input_and_output_are_forwarded_whole() {
    let input: Vec<u8> = (0..300_007_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let ended = mpirun().args(["-n", "2"]).arg(program("stdio")).input(input.clone()).run().success();
    assert!(ended.out.starts_with(&input), "{} bytes of output, {}", ended.out.len(), ended.err);
}

/// A user's settings of OpenPMIx reach our clients, too, and have no effect.
#[test]
fn settings_of_the_other_library_do_no_harm() {
    let job = mpirun().args(["-x", "PMIX_MCA_gds=ds21", "-x", "PMIX_MCA_psec=none", "-x", "PMIX_MCA_ptl=tcp"]);
    assert_eq!(job.args(["-n", "2"]).arg(program("ring")).run().success().sorted(), ["ring size=2 token=3"]);
}

/// Each chapter of our C suite whose clients do more than one thing: the host on the system's library, the clients on
/// ours. The chapters mark where the other server deviates from the standard (`stock_server`).
#[test]
fn the_clients_of_the_c_suite_run_under_the_systems_server() {
    for chapter in ["modex", "events", "services", "scheduler", "server", "peers", "named"] {
        let program = scratch().join(format!("{chapter}-under-stock"));
        let source = repository().join("tests/capi").join(format!("{chapter}.c"));
        library().headers()[0].compile(&[source], &program);
        let ended = host(&program, &client_starter(&program, "\"$0.program\"")).run();
        println!("{chapter}\n{}", ended.transcript());
        let ended = ended.success();
        assert!(!ended.text().contains("FAILED"), "{}", ended.transcript());
        loaded_one_and_many(&ended);
    }
}

#[test]
fn python_clients_exchange_data() {
    let directory = repository().join("tests/python");
    let program = scratch().join("python-under-stock");
    library().headers()[0].compile(&[directory.join("host.c")], &program);
    let host = host(&program, &client_starter(&program, "/usr/bin/python3"));
    let ended = host.env("PYTHON_CLIENT", directory.join("client.py")).run().success();
    for rank in 0..2 {
        let line = format!("python client {rank} done");
        assert!(ended.text().lines().any(|found| found == line), "no {line:?} in {}", ended.transcript());
    }
    loaded_one_and_many(&ended);
}

/// A host on the system's library that starts its clients with this script.
fn host(program: &Path, starter: &Path) -> Consumer {
    Consumer::new(&Library::stock(), program).env("CAPI_PROGRAM", starter).env("MODEX_CAPI_STOCK", "1")
}

/// A script that starts a client with our library: `command` with the script's arguments. `$0.program` is the program.
fn client_starter(program: &Path, command: &str) -> PathBuf {
    let script = program.with_extension("client");
    let mut target = script.clone().into_os_string();
    target.push(".program");
    fs::copy(program, &target).unwrap();
    let library = ours().display();
    let marks = "-u MODEX_CAPI_STOCK MODEX_CAPI_STOCK_SERVER=1";
    fs::write(&script, format!("#!/bin/sh\nexec env {marks} LD_LIBRARY_PATH={library} {command} \"$@\"\n")).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    script
}

/// One process, the host, has the system's library. All others, and at least one, have ours.
fn loaded_one_and_many(ended: &Ended) {
    let text = ended.text();
    let files =
        text.lines().filter_map(|line| line.strip_prefix("library ")).map(|path| fs::canonicalize(path).unwrap());
    let (own, other): (Vec<PathBuf>, Vec<PathBuf>) = files.partition(|file| *file == library().file);
    assert!(
        !own.is_empty() && other == [Library::stock().file],
        "ours: {own:?}, others: {other:?}\n{}",
        ended.transcript()
    );
}

#[test]
fn every_scenario_of_pmixbench_runs_with_our_library_in_the_clients() {
    run_every_scenario("pmixbench_clients", &Library::stock(), library());
}
