//! Debian's Slurm 22.05, unmodified: a controller and three nodes in namespaces of their own
//! (`tests/slurm/cluster.sh`). Slurm's plug-in is the server of a job step, and the tasks are its clients; each side
//! has our library or Debian's. Debian's on both sides shows that the tests are right.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::library::{Headers, Library, library, repository, run_compiler, scratch};
use crate::mpi;
use crate::process::{Consumer, Ended, Running};

/// The side's library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Ours,
    Debian,
}

impl Side {
    /// The directory of the library in the cluster, below `/mnt`.
    const fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Debian => "debian",
        }
    }
}

/// Slurm's plug-in calls `PMIx_server_setup_fork` in the task's process, a fork of the server's, and ignores the
/// result. Our library refused it there, so no task of any step found its server.
#[test]
fn steps_run_with_our_library_in_the_server() {
    all_steps(Side::Ours);
}

#[test]
fn steps_run_with_debians_library_in_the_server() {
    all_steps(Side::Debian);
}

fn all_steps(server: Side) {
    let cluster = Cluster::start(server);
    // Slurm counts time limits in minutes. The step with a limit runs beside all others.
    let overdue = cluster.step(Side::Ours, &["-N1", "-n2", "--time=1"], &["/mnt/programs/task", "hang"]).start();
    for client in [Side::Debian, Side::Ours] {
        for shape in [&["-N1", "-n2", "--nodelist=n1"][..], &["-N3", "-n6", "--ntasks-per-node=2"]] {
            values_arrive(&cluster, client, shape);
            steps_end(&cluster, client, shape);
            open_mpi_runs(&cluster, client, shape);
        }
        two_steps_at_once(&cluster, client);
        a_cancelled_step_ends(&cluster, client);
    }
    let ended = overdue.wait();
    assert!(
        !ended.status.success() && ended.err.contains("DUE TO TIME LIMIT"),
        "{:?} {}",
        ended.status,
        ended.transcript()
    );
    // Debian's library sometimes deadlocks in PMIx_server_finalize after an abort, and then the step's daemon never
    // ends.
    if server == Side::Ours && !library().is_stock() {
        cluster.nothing_is_left();
    }
    cluster.end();
}

/// Collecting fences, and Gets that the server of the peer's node answers.
fn values_arrive(cluster: &Cluster, client: Side, shape: &[&str]) {
    for role in ["fence", "direct"] {
        let ended = cluster.step(client, shape, &["/mnt/programs/task", role]).run().success();
        cluster.check_tasks(&ended, client, if shape.contains(&"-N3") { 6 } else { 2 });
    }
}

fn steps_end(cluster: &Cluster, client: Side, shape: &[&str]) {
    let task = |options: &[&str], arguments: [&str; 2]| {
        let options = [shape, options].concat();
        cluster.step(client, &options, &[&["/mnt/programs/task"][..], &arguments].concat()).run()
    };
    let aborted = task(&[], ["abort", "42"]).code(42);
    assert!(!aborted.text().contains("FAILED"), "{}", aborted.transcript());
    // Slurm ends the other tasks only with this option.
    let killed = task(&["--kill-on-bad-exit=1"], ["signal", "9"]);
    assert!(!killed.status.success() && killed.err.contains("Killed"), "{:?} {}", killed.status, killed.transcript());
    assert!(!killed.text().contains("FAILED"), "{}", killed.transcript());
}

/// Open MPI's TCP transport crashes in MPI_Init in about one of 25 starts on three nodes, with any library. It calls a
/// null pointer when a message arrives. Such a step is repeated.
fn open_mpi_runs(cluster: &Cluster, client: Side, shape: &[&str]) {
    let shape_and_end = [shape, &["--kill-on-bad-exit=1"]].concat();
    let run = |arguments: &[&str]| {
        let mut steps = (0..5).map(|_| cluster.step(client, &shape_and_end, arguments).run());
        steps.find(|ended| !ended.err.contains("Failing at address: (nil)")).expect("a step without that crash")
    };
    let size: u32 = if shape.contains(&"-N3") { 6 } else { 2 };
    let ring = run(&["/mnt/programs/ring"]).success();
    assert_eq!(
        ring.sorted(),
        [format!("ring size={size} token={}", 3 * size * (size - 1) / 2)],
        "{}",
        ring.transcript()
    );
    let hello = run(&["/mnt/programs/hello", "x"]).success();
    for rank in 0..size {
        let line = format!("hello rank={rank} size={size} app=0 argument=x host=n{} shared=2", rank / 2 + 1);
        assert!(hello.sorted().contains(&line), "no {line:?}: {}", hello.transcript());
    }
    let whose = run(&["/mnt/programs/whose"]).success();
    let loaded = format!("whose rank {}", cluster.file(client));
    let lines = whose.text();
    let mut libraries = lines.lines().filter(|line| line.starts_with("whose "));
    assert!(libraries.all(|line| line == loaded), "{loaded}: {}", whose.transcript());
    let aborted = run(&["/mnt/programs/ends", "abort", "9"]).code(9);
    assert!(aborted.err.contains("with errorcode 9"), "{}", aborted.transcript());
}

/// Two steps of one job on the same nodes.
fn two_steps_at_once(cluster: &Cluster, client: Side) {
    let step = "srun --exact -N3 -n6 --ntasks-per-node=2 /mnt/programs/task";
    let script = format!("{step} fence & first=$!; {step} direct; second=$?; wait $first && exit $second");
    let job = cluster.command(ROOT, client, &["salloc", "-N3", "-n12", "--ntasks-per-node=4", "sh", "-c", &script]);
    let ended = job.run().success();
    cluster.check_tasks(&ended, client, 12);
}

/// The end of a step with a time limit, without the wait for it.
fn a_cancelled_step_ends(cluster: &Cluster, client: Side) {
    let job = cluster.step(client, &["-N3", "-n6", "--job-name=cancelled"], &["/mnt/programs/task", "hang"]).start();
    job.wait_for_line("hangs");
    cluster.command(ROOT, client, &["scancel", "--name=cancelled"]).run().success();
    let ended = job.wait();
    assert!(!ended.status.success() && ended.err.contains("CANCELLED"), "{:?} {}", ended.status, ended.transcript());
}

const ROOT: &str = "0";
const NOBODY: &str = "65534";

/// A running cluster. All its processes end with the script's input, also if the test dies.
struct Cluster {
    script: Running,
    /// The script's process number, for its namespaces.
    init: String,
    server: Side,
    directory: TempDir,
}

impl Cluster {
    fn start(server: Side) -> Self {
        let directory = tempfile::Builder::new().prefix("slurm-").tempdir_in("/tmp").unwrap();
        let script = Consumer::new(&Library::stock(), "unshare")
            .args(["--pid", "--mount", "--net", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc"])
            .arg(repository().join("tests/slurm/cluster.sh"))
            .arg(directory.path())
            .arg(&library().file)
            .arg(server.name())
            .arg(programs())
            .input_open()
            .start();
        script.wait_for_line("ready");
        assert!(script.transcript().contains("ready"), "the cluster does not start: {}", script.wait().transcript());
        // The child of `timeout` is `unshare`, whose child is the script.
        let init = child_of(&child_of(&script.id().to_string()));
        Self { script, init, server, directory }
    }

    /// A command of a user on the head node, with one of the libraries for clients.
    fn command(&self, uid: &str, client: Side, command: &[&str]) -> Consumer {
        let path = format!("LD_LIBRARY_PATH=/mnt/{}", client.name());
        Consumer::new(&Library::stock(), "nsenter")
            .args(["--target", &self.init, "--pid", "--mount", "--net", "--uts", "--ipc", "--wd=/", "--"])
            .args(["setpriv", "--reuid", uid, "--regid", uid, "--clear-groups", "env", "TMPDIR=/tmp"])
            .args([path.as_str(), "OMPI_MCA_pml=ob1", "OMPI_MCA_btl=self,vader,tcp", "OMPI_MCA_btl_tcp_if_include=lo"])
            .args(command)
    }

    /// A step on one node runs as an ordinary user. A step on several nodes runs as root: the daemon of a step briefly
    /// has its user's id. It then can't read another node's proof, and refuses that node.
    fn step(&self, client: Side, options: &[&str], command: &[&str]) -> Consumer {
        let uid = if options.contains(&"-N1") { NOBODY } else { ROOT };
        self.command(uid, client, &[&["srun", "--mpi=pmix"], options, command].concat())
    }

    /// The library file that a client's process has mapped.
    fn file(&self, client: Side) -> String {
        format!("/mnt/{}/libpmix.so.2", client.name())
    }

    /// Checks that every task has this library, the cluster's server, and no failed check.
    fn check_tasks(&self, ended: &Ended, client: Side, count: usize) {
        let lines = ended.sorted();
        let server = if library().is_stock() { "debian" } else { self.server.name() };
        for line in [format!("library {}", self.file(client)), format!("server {server}")] {
            assert_eq!(lines.iter().filter(|found| **found == line).count(), count, "{line}: {}", ended.transcript());
        }
        assert_eq!(
            lines.iter().filter(|line| line.ends_with(" checks, 0 failed")).count(),
            count,
            "{}",
            ended.transcript()
        );
    }

    /// Slurm removes a step's directories shortly after the end of `srun`. Files that are left after a minute stay.
    fn nothing_is_left(&self) {
        let start = Instant::now();
        loop {
            let left = files_below(&self.directory.path().join("nodes"));
            let left: Vec<&PathBuf> = left.iter().filter(|path| is_of_a_step(path)).collect();
            if left.is_empty() {
                return;
            }
            assert!(start.elapsed() < Duration::from_secs(60), "left of steps: {left:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn end(self) {
        self.script.close_input();
        self.script.wait().success();
    }
}

/// All files of the plug-in and the library have one of these words in their names.
fn is_of_a_step(path: &Path) -> bool {
    path.file_name().is_some_and(|name| ["pmix", "modex"].iter().any(|part| name.to_string_lossy().contains(part)))
}

fn files_below(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path());
    entries.flat_map(|path| [files_below(&path), vec![path]].concat()).collect()
}

/// The only child of a process.
fn child_of(process: &str) -> String {
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap();
    children.trim().to_owned()
}

/// The programs that steps run; all are compiled at the first call.
fn programs() -> &'static Path {
    static PROGRAMS: std::sync::OnceLock<PathBuf> = std::sync::OnceLock::new();
    PROGRAMS.get_or_init(|| {
        let directory = scratch().join("slurm");
        fs::create_dir(&directory).unwrap();
        let headers: &Headers = &Library::stock().headers()[0];
        headers.compile(&[repository().join("tests/slurm/task.c")], &directory.join("task"));
        for name in ["hello", "ring", "ends", "whose"] {
            run_compiler(Command::new("cp").arg(mpi::program(name)).arg(&directory));
        }
        directory
    })
}
