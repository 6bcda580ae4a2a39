//! Debian's Open MPI 4.1.4, unmodified: `mpirun`, `orted` and the ranks all load the library under test.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::library::{Library, library, repository, run_compiler, scratch};
use crate::process::{Consumer, Ended, wait_for};

const PROGRAMS: &[&str] = &["hello", "ring", "allreduce", "spawn", "ports", "ends", "stdio", "whose", "killed"];

#[test]
fn a_ring_of_one_to_sixteen_ranks() {
    for size in [1, 2, 3, 4, 8, 16] {
        let ended = run(&["-n", &size.to_string()], "ring", &[]);
        assert_eq!(
            ended.sorted(),
            [format!("ring size={size} token={}", 3 * size * (size - 1) / 2)],
            "{}",
            ended.transcript()
        );
        left_nothing(&ended);
    }
}

#[test]
fn allreduce_with_one_to_sixteen_ranks() {
    for size in [1, 2, 4, 8, 16] {
        let ended = run(&["-n", &size.to_string()], "allreduce", &[]);
        assert_eq!(ended.sorted(), [format!("allreduce size={size} most={}", size - 1)], "{}", ended.transcript());
    }
}

#[test]
fn sixteen_ranks_say_hello() {
    let lines = run(&["-n", "16"], "hello", &["x"]).sorted();
    assert_eq!(lines.len(), 16, "{lines:?}");
    for rank in 0..16 {
        let start = format!("hello rank={rank} size=16 app=0 argument=x host=");
        assert!(lines.iter().any(|line| line.starts_with(&start) && line.ends_with("shared=16")), "{start}: {lines:?}");
    }
}

/// The transports that Open MPI chooses by itself publish more keys, and other ones.
#[test]
fn ranks_with_the_default_transports() {
    let ended = Consumer::new(library(), "mpirun").args(BASE).args(["-n", "4"]).arg(program("ring")).run().success();
    assert_eq!(ended.sorted(), ["ring size=4 token=18"], "{}", ended.transcript());
}

#[test]
fn two_programs_in_one_job() {
    let hello = program("hello");
    let ended = mpirun(library())
        .args(["-n", "2"])
        .arg(&hello)
        .args(["a", ":", "-n", "2"])
        .arg(&hello)
        .args(["b"])
        .run()
        .success();
    let lines = ended.sorted();
    for (rank, app, argument) in [(0, 0, 'a'), (1, 0, 'a'), (2, 1, 'b'), (3, 1, 'b')] {
        let start = format!("hello rank={rank} size=4 app={app} argument={argument} ");
        assert_eq!(lines.iter().filter(|line| line.starts_with(&start)).count(), 1, "{start}: {lines:?}");
    }
    left_nothing(&ended);
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
    // The children are on one node, the parents on both or only on the other: one node has processes of one job only.
    for (hosts, of_children) in [
        (&["--host", "nodeA:1,nodeB:3", "--map-by", "node", "-n", "2"][..], "nodeB"),
        (&["--host", "nodeA:2,nodeB:2", "-n", "2"], "nodeB"),
    ] {
        let ended = run(hosts, "spawn", &[of_children]);
        assert_eq!(ended.sorted(), expected, "{hosts:?} {}", ended.transcript());
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
fn two_jobs_meet_through_the_name_server() {
    let directory = tempfile::tempdir_in(scratch()).unwrap();
    let uri = directory.path().join("uri");
    let server = Consumer::new(library(), "ompi-server").args(["--no-daemonize", "-r"]).arg(&uri).start();
    wait_for(|| std::fs::read_to_string(&uri).is_ok_and(|text| text.ends_with('\n')));
    let uri = format!("file:{}", uri.display());
    let job =
        |half: &str| mpirun(library()).args(["--ompi-server", &uri, "-n", "1"]).arg(program("ports")).arg(half).start();
    let accepting = job("accept");
    // A lookup does not wait, so the second job starts after the first has published.
    accepting.wait_for_line("published");
    let connected = job("connect").wait().success();
    assert_eq!(connected.sorted(), ["connected"], "{}", connected.transcript());
    let served = accepting.wait().success();
    assert_eq!(served.sorted(), ["published", "served"], "{}", served.transcript());
    server.terminate();
    server.wait();
}

#[test]
fn an_abort_passes_its_code_on() {
    for hosts in [&["-n", "3"][..], &["--host", "nodeA:2,nodeB:1", "-n", "3"]] {
        // The message comes as a log request. Open MPI 4.1.4 itself loses it sometimes, with any library, with "Out of
        // resource in file ../../../orte/util/show_help.c". It must arrive in one of several runs.
        let arrived = (0..6).any(|_| {
            let ended = mpirun(library()).args(hosts).arg(program("ends")).args(["abort", "42"]).run().code(42);
            assert_eq!(ended.text(), "");
            ended.err.contains("MPI_ABORT was invoked on rank 2") && ended.err.contains("with errorcode 42")
        });
        assert!(arrived, "no abort message in six runs");
    }
}

#[test]
fn a_rank_that_leaves_without_finalize_ends_the_job() {
    let ended = mpirun(library()).args(["-n", "3"]).arg(program("ends")).args(["exit", "7"]).run().code(7);
    assert!(ended.err.contains("Exit code:    7"), "{}", ended.transcript());
    assert_eq!(ended.text(), "");
}

#[test]
fn a_code_returned_after_finalize_is_the_jobs() {
    let ended = mpirun(library()).args(["-n", "3"]).arg(program("ends")).args(["code", "5"]).run().code(5);
    assert!(ended.err.contains("Exit code:    5"), "{}", ended.transcript());
}

#[test]
fn a_rank_that_dies_by_a_signal_ends_the_job() {
    for hosts in [&["-n", "3"][..], &["--host", "nodeA:2,nodeB:1", "-n", "3"]] {
        for (signal, name) in [(9, "Killed"), (11, "Segmentation fault")] {
            let job = mpirun(library()).args(hosts).arg(program("ends")).args(["signal", &signal.to_string()]);
            let ended = job.run().code(128 + signal);
            assert!(ended.err.contains(&format!("exited on signal {signal} ({name})")), "{}", ended.transcript());
            assert_eq!(ended.text(), "");
        }
    }
}

#[test]
fn standard_input_and_output_are_forwarded_whole() {
    // Every byte value, more than any pipe or message holds.
    let input: Vec<u8> = (0..1_500_007_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for hosts in [&["-n", "2"][..], &["--host", "nodeA:1,nodeB:1", "-n", "2"]] {
        let ended = mpirun(library()).args(hosts).arg(program("stdio")).input(input.clone()).run().success();
        assert!(ended.out.starts_with(&input), "{} bytes of output, {}", ended.out.len(), ended.err);
        assert_eq!(&ended.out[input.len()..], b"out of 0\n");
        for line in ["err of 0", "err of 1", &format!("read {}", input.len())] {
            assert!(ended.err.lines().any(|found| found == line), "no {line:?} in {}", ended.err);
        }
    }
}

#[test]
fn output_is_tagged_with_its_rank() {
    let ended = mpirun(library()).args(["--tag-output", "-n", "2"]).arg(program("stdio")).run().success();
    for (rank, stream, text) in
        [(0, "stdout", ended.text()), (1, "stdout", ended.text()), (1, "stderr", ended.err.clone())]
    {
        let line = format!("[1,{rank}]<{stream}>:{} of {rank}", &stream[3..]);
        assert!(text.lines().any(|found| found == line), "no {line:?} in {}", ended.transcript());
    }
}

#[test]
fn ranks_on_several_hosts() {
    let hosts = ["--host", "nodeA:2,nodeB:2,nodeC:2", "-n", "6"];
    let lines = run(&hosts, "hello", &["x"]).sorted();
    for (rank, host) in [(0, 'A'), (1, 'A'), (2, 'B'), (3, 'B'), (4, 'C'), (5, 'C')] {
        let line = format!("hello rank={rank} size=6 app=0 argument=x host=node{host} shared=2");
        assert!(lines.contains(&line), "no {line:?} in {lines:?}");
    }
    assert_eq!(run(&hosts, "ring", &[]).sorted(), ["ring size=6 token=45"]);
    assert_eq!(run(&hosts, "allreduce", &[]).sorted(), ["allreduce size=6 most=5"]);
    // Ranks are spread over the hosts, so that neighbours are never on the same one.
    let ended = run(&["--host", "nodeA:4,nodeB:4", "--map-by", "node", "-n", "8"], "ring", &[]);
    assert_eq!(ended.sorted(), ["ring size=8 token=84"], "{}", ended.transcript());
}

/// A program without a launcher lets Open MPI start a daemon for it when it needs one.
#[test]
fn a_singleton_runs_and_spawns() {
    let single = |name: &str| {
        Consumer::new(library(), program(name)).env("OMPI_MCA_rmaps_base_oversubscribe", "1").run().success()
    };
    assert_eq!(single("ring").sorted(), ["ring size=1 token=0"]);
    let ended = single("spawn");
    let expected =
        ["child merged=1 size=3 remote=1", "child merged=2 size=3 remote=1", "parent merged=0 size=3 remote=2"];
    assert_eq!(ended.sorted(), expected, "{}", ended.transcript());
}

#[test]
fn the_library_is_mapped_into_launcher_daemons_and_ranks() {
    let file = library().file.display().to_string();
    let one = run(&["-n", "2"], "whose", &[]);
    check_maps(&one, &[("rank", 2), ("mpirun", 2)], &file);
    let several = run(&["--host", "nodeA:2,nodeB:2", "-n", "4"], "whose", &[]);
    check_maps(&several, &[("rank", 4), ("orted", 4), ("mpirun", 4)], &file);
    let single = Consumer::new(library(), program("whose")).run().success();
    check_maps(&single, &[("rank", 1)], &file);
}

/// Each kind of process is named this many times, and each has this library and no other.
fn check_maps(ended: &Ended, expected: &[(&str, usize)], file: &str) {
    let lines: Vec<String> = ended.sorted().into_iter().filter(|line| line.starts_with("whose ")).collect();
    for (who, count) in expected {
        let line = format!("whose {who} {file}");
        assert_eq!(lines.iter().filter(|found| **found == line).count(), *count, "{line}\n{}", ended.transcript());
    }
    assert_eq!(lines.len(), expected.iter().map(|(_, count)| count).sum::<usize>(), "{}", ended.transcript());
}

/// `orterun` removes its session directories when a job ends well.
fn left_nothing(ended: &Ended) {
    assert!(ended.left.is_empty(), "left behind: {:?}", ended.left);
}

/// Options of every start: to run as root, and with more ranks than processors.
const BASE: &[&str] = &["--allow-run-as-root", "--oversubscribe"];

/// Without fabric probing: the tests are about the start, not the network.
const QUIET: &[&str] = &["--mca", "pml", "ob1", "--mca", "btl", "self,vader,tcp"];

pub(crate) fn mpirun(library: &Library) -> Consumer {
    let agent = repository().join("tests/mpi/on-node.sh");
    Consumer::new(library, "mpirun").args(BASE).args(QUIET).args(["--mca", "plm_rsh_agent"]).arg(&agent)
}

/// Runs one program of `tests/mpi` under `mpirun` with success.
fn run(options: &[&str], name: &str, arguments: &[&str]) -> Ended {
    mpirun(library()).args(options).arg(program(name)).args(arguments).run().success()
}

/// The compiled program; all are compiled at the first call.
pub(crate) fn program(name: &str) -> PathBuf {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    let directory = DIRECTORY.get_or_init(|| {
        let directory = scratch().join("mpi");
        std::fs::create_dir(&directory).unwrap();
        for name in PROGRAMS {
            compile(&repository().join("tests/mpi").join(format!("{name}.c")), &directory.join(name));
        }
        directory
    });
    assert!(PROGRAMS.contains(&name), "{name} is not compiled");
    directory.join(name)
}

fn compile(source: &Path, program: &Path) {
    run_compiler(
        Command::new("mpicc").args(["-O1", "-g", "-Wall", "-Wextra", "-Werror"]).arg(source).arg("-o").arg(program),
    );
}
