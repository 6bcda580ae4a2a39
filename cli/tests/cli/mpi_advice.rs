//! The advice for MPI programs whose ranks do not join the job.
//!
//! A small library with the name of an MPI library stands for it, so that the tests need none of them.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::launch::{Ended, MODEX, modex, script};

const OPEN_MPI: &str = "modex: the program uses Open MPI, but no rank joined the job (PMIx_Init); for Open MPI 4.1 write \
                        modex run -x JSM_JSRUN_PORT=1 ...\n";

/// An empty library of this name, and a program that needs it and ends with status 0.
struct Mpi {
    directory: TempDir,
    library: PathBuf,
}

impl Mpi {
    fn named(name: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let at = |file: &str| directory.path().join(file);
        let library = at(name);
        std::fs::write(at("library.c"), "int used(void) { return 0; }\n").unwrap();
        std::fs::write(at("program.c"), "int used(void); int main(void) { return used(); }\n").unwrap();
        let soname = format!("-Wl,-soname,{name}");
        compile(&at("library.c"), &library, &["-shared".as_ref(), "-fPIC".as_ref(), soname.as_ref()]);
        let place = format!("-Wl,-rpath,{}", directory.path().display());
        compile(&at("program.c"), &at("program"), &[&library, place.as_ref()]);
        Self { directory, library }
    }

    fn program(&self) -> String {
        self.directory.path().join("program").display().to_string()
    }

    fn run(&self, options: &[&str]) -> Ended {
        modex([&["run"], options, &[&self.program()]].concat()).without(SETTINGS).run()
    }
}

fn compile(source: &Path, to: &Path, options: &[&Path]) {
    assert!(Command::new("cc").arg("-o").arg(to).arg(source).args(options).status().unwrap().success());
}

/// Variables by which MPI libraries find a PMIx server.
const SETTINGS: &[&str] = &["FLUX_JOB_ID", "JSM_JSRUN_PORT", "I_MPI_PMI"];

/// Each rank of an Open MPI 4.1 program ran alone, as rank 0 of 1, and no line said why.
#[test]
fn ranks_that_run_alone_are_a_reason_for_advice() {
    let open_mpi = Mpi::named("libmpi.so.40");
    let ended = open_mpi.run(&["-n", "2"]);
    assert_eq!((ended.code(), ended.err.as_str()), (Some(0), OPEN_MPI));
    for (name, advice) in [
        ("libmpi_mpifh.so.40", "Open MPI, "),
        ("libmpich.so.12", "MPICH, but no rank joined the job (PMI); its library may be built for another launcher"),
        ("libmpi.so.12", "Intel MPI or MPICH, but no rank joined the job (PMI); "),
    ] {
        let ended = Mpi::named(name).run(&["-n", "2"]);
        assert_eq!((ended.code(), ended.err.lines().count()), (Some(0), 1), "{ended:?}");
        assert!(ended.err.starts_with("modex: the program uses ") && ended.err.contains(advice), "{ended:?}");
    }
    for (name, choice, advice) in [
        ("libmpich.so.12", "pmix", "(PMIx_Init); write modex run --pmi pmi1 ...\n"),
        ("libmpi.so.40", "pmi1", "(PMI); Open MPI speaks PMIx: write modex run --pmi pmix ...\n"),
    ] {
        let ended = Mpi::named(name).run(&["-n", "2", "--pmi", choice]);
        assert!(ended.code() == Some(0) && ended.err.ends_with(advice), "{ended:?}");
    }
}

#[test]
fn a_program_without_need_of_advice_gets_none() {
    let open_mpi = Mpi::named("libmpi.so.40");
    let quiet = |ended: Ended| assert_eq!((ended.code(), ended.err.as_str()), (Some(0), ""));
    // A rank alone is what one rank is, and a user that has set the variable knows about it.
    quiet(open_mpi.run(&["-n", "1"]));
    quiet(open_mpi.run(&["-n", "2", "-x", "FLUX_JOB_ID=1"]));
    quiet(modex(["run", "-n", "2", &open_mpi.program()]).env("FLUX_JOB_ID", "1").run());
    quiet(modex(["run", "-n", "2", "true"]).without(SETTINGS).run());
    quiet(script(&["-n", "2"], "exit 0").without(SETTINGS).run());
    // One rank has joined, and fails because the other one has not.
    let program = open_mpi.program();
    let ended = modex(["run", "-n", "1", &program, ":", "-n", "1", MODEX, "demo"]).without(SETTINGS).run();
    assert!(ended.code() == Some(1) && !ended.err.contains("Open MPI"), "{ended:?}");
}

#[test]
fn a_rank_that_fails_is_named_before_the_advice() {
    let open_mpi = Mpi::named("libmpi.so.40");
    let ended = modex(["run", "-n", "1", &open_mpi.program(), ":", "-n", "1", "false"]).without(SETTINGS).run();
    assert_eq!(ended.code(), Some(1));
    let lines: Vec<&str> = ended.err.split_inclusive('\n').collect();
    assert!(lines.len() == 2 && lines[0].starts_with("modex: rank 1 exited with status 1"), "{ended:?}");
    assert_eq!(lines[1], OPEN_MPI);
}

/// Python loads the MPI library as a part of an extension, so the file of its interpreter does not name it.
#[test]
fn a_library_that_a_rank_has_loaded_counts_too() {
    let open_mpi = Mpi::named("libmpi.so.40");
    let preload = format!("LD_PRELOAD={}", open_mpi.library.display());
    let mut job = script(&["-n", "2", "-x", &preload, "--stdin", "all"], "echo ready; read end; exit 0")
        .without(SETTINGS)
        .open_input()
        .start();
    let lines = [job.line(), job.line()];
    drop(job.child.stdin.take());
    assert_eq!(lines, ["ready\n", "ready\n"]);
    let ended = job.finish();
    assert_eq!((ended.code(), ended.err.as_str()), (Some(0), OPEN_MPI));
}
