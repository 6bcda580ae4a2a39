//! The protocol by which ranks join their job: found by the libraries of their program, or chosen by the user.
//!
//! Small libraries with the names of MPI libraries stand for these, so that the tests need none of them.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::launch::{Ended, MODEX, modex};

/// A program that prints variables of its environment, and libraries that it needs.
struct Program(TempDir);

impl Program {
    /// The program needs the first library, that one needs the second, and so on.
    fn needing(libraries: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let at = |file: &str| directory.path().join(file);
        std::fs::write(at("library.c"), "int used(void) { return 0; }\n").unwrap();
        std::fs::write(at("program.c"), PROGRAM).unwrap();
        let place = format!("-Wl,--no-as-needed,--allow-shlib-undefined,-rpath,{}", directory.path().display());
        let mut needed = None;
        for name in libraries.iter().rev() {
            let soname = format!("-Wl,-soname,{name}");
            let mut options = vec!["-shared", "-fPIC", &soname, &place];
            options.extend(needed.as_deref());
            compile(&at("library.c"), &at(name), &options);
            needed = Some(at(name).display().to_string());
        }
        let options: Vec<&str> = [place.as_str()].into_iter().chain(needed.as_deref()).collect();
        compile(&at("program.c"), &at("program"), &options);
        Self(directory)
    }

    /// The printed variables of one rank.
    fn sees(&self, options: &[&str], names: &[&str]) -> String {
        let program = self.0.path().join("program").display().to_string();
        let ended = modex([&["run"], options, &["--", &program], names].concat()).without(SETTINGS).run();
        assert_eq!((ended.code(), ended.err.as_str()), (Some(0), ""), "{ended:?}");
        ended.out
    }
}

const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        printf("%s%s", i > 1 ? " " : "", getenv(argv[i]) ? getenv(argv[i]) : "-");
    printf("\n");
    return 0;
}
"#;

fn compile(source: &Path, to: &Path, options: &[&str]) {
    assert!(Command::new("cc").arg("-o").arg(to).arg(source).args(options).status().unwrap().success());
}

/// Variables by which MPI libraries find a PMIx server.
const SETTINGS: &[&str] = &["FLUX_JOB_ID", "JSM_JSRUN_PORT", "I_MPI_PMI", "I_MPI_PMI_LIBRARY"];

/// MPICH 5 aborts if it sees variables of PMIx.
#[test]
fn ranks_get_the_protocol_that_their_library_speaks() {
    let names = ["PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMIX_RANK", "PMIX_NAMESPACE"];
    for libraries in [&["libmpich.so.12"][..], &["libmpi.so.12"], &["libsolver.so.3", "libbase.so", "libmpich.so.12"]] {
        let program = Program::needing(libraries);
        assert_eq!(program.sees(&["-n", "1"], &names), "0 1 0 1 - -\n", "{libraries:?}");
        let seen = program.sees(&["-n", "1", "--pmi", "pmix"], &names[..5]);
        assert_eq!(seen, "- - - - 0\n", "{libraries:?}");
    }
    for libraries in [&[][..], &["libmpi.so.40"], &["libother.so.1"]] {
        let program = Program::needing(libraries);
        assert_eq!(program.sees(&["-n", "1"], &names[..5]), "- - - - 0\n", "{libraries:?}");
        let seen = program.sees(&["-n", "1", "--pmi", "pmi1"], &names);
        assert_eq!(seen, "0 1 0 1 - -\n", "{libraries:?}");
    }
}

#[test]
fn an_open_mpi_before_5_gets_a_setting_unless_the_user_has_one() {
    let (older, newer) =
        (Program::needing(&["libmpi.so.40", "libopen-rte.so.40"]), Program::needing(&["libmpi.so.40"]));
    let names = ["JSM_JSRUN_PORT", "FLUX_JOB_ID"];
    assert_eq!(older.sees(&["-n", "1"], &names), "1 -\n");
    assert_eq!(newer.sees(&["-n", "1"], &names), "- -\n");
    // The library for Fortran does not need the runtime.
    let fortran = Program::needing(&["libmpi_mpifh.so.40", "libmpi.so.40", "libopen-rte.so.40"]);
    assert_eq!(fortran.sees(&["-n", "1"], &names), "1 -\n");
    assert_eq!(older.sees(&["-n", "1", "-x", "FLUX_JOB_ID=7"], &names), "- 7\n");
    assert_eq!(older.sees(&["-n", "1", "-x", "JSM_JSRUN_PORT=7"], &names), "7 -\n");
    assert_eq!(older.sees(&["-n", "1", "--pmi", "pmi1"], &names), "- -\n");
}

#[test]
fn a_user_that_has_set_i_mpi_pmi_wants_pmix() {
    let program = Program::needing(&["libmpi.so.12"]);
    let seen =
        program.sees(&["-n", "1", "-x", "I_MPI_PMI=pmix"], &["I_MPI_PMI", "I_MPI_PMI_LIBRARY", "PMIX_RANK", "PMI_FD"]);
    assert_eq!(seen, "pmix - 0 -\n");
}

/// Its ranks would speak on the connection of the launcher, which is a rank itself.
#[test]
fn a_launcher_within_a_rank_passes_no_connection_of_that_rank_on() {
    let program = Program::needing(&[]);
    let options = ["-n", "1", "--pmi", "pmi1", "--", MODEX, "run", "-n", "1", "--pmi", "pmix"];
    assert_eq!(program.sees(&options, &["PMI_FD", "PMI_RANK", "PMI_SIZE", "PMIX_RANK"]), "- - - 0\n");
}

#[test]
fn each_program_of_a_job_gets_its_own_protocol() {
    let (mpich, plain) = (Program::needing(&["libmpich.so.12"]), Program::needing(&[]));
    let [mpich, plain] = [&mpich, &plain].map(|program| program.0.path().join("program").display().to_string());
    let names = ["PMI_RANK", "PMIX_RANK"];
    let words = [&["run", "-n", "1", &mpich], &names[..], &[":", "-n", "1", &plain], &names].concat();
    let ended = modex(words).without(SETTINGS).run();
    let mut lines: Vec<&str> = ended.out.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["- 1", "0 -"], "{ended:?}");
}

#[test]
fn a_variable_of_the_protocol_can_not_be_set() {
    let ended = modex(["run", "--pmi", "pmi1", "-x", "PMI_RANK=3", "true"]).run();
    assert_eq!(ended.code(), Some(2));
    assert!(ended.err.contains("-x PMI_RANK: the launcher sets this variable for each rank itself"), "{ended:?}");
}

/// A rank that speaks with the launcher.
fn speaking(options: &[&str], script: &str) -> Ended {
    let begin = "say() { echo \"$1\" >&$PMI_FD; }; hear() { read -r line <&$PMI_FD; echo \"$line\"; }\n\
                 say 'cmd=init pmi_version=1 pmi_subversion=1'; hear > /dev/null\n";
    let script = format!("{begin}{script}");
    modex([&["run", "--pmi", "pmi1"], options, &["--", "bash", "-c", &script]].concat()).run()
}

#[test]
fn ranks_exchange_values_through_the_launcher() {
    let script = "say \"cmd=get_my_kvsname\"; space=$(hear); space=${space#*kvsname=}
        say \"cmd=put kvsname=$space key=k$PMI_RANK value=v$PMI_RANK\"; hear > /dev/null
        say cmd=barrier_in; hear > /dev/null
        say \"cmd=get kvsname=$space key=k$(( (PMI_RANK + 1) % PMI_SIZE ))\"; hear
        say \"cmd=get kvsname=$space key=PMI_process_mapping\"; hear
        say cmd=finalize; hear > /dev/null";
    let ended = speaking(&["-n", "3"], script);
    assert_eq!((ended.code(), ended.err.as_str()), (Some(0), ""));
    let mut lines: Vec<&str> = ended.out.lines().collect();
    lines.sort_unstable();
    let mapping = "cmd=get_result rc=0 msg=success value=(vector,(0,1,3))";
    let [v0, v1, v2] = ["v0", "v1", "v2"].map(|value| format!("cmd=get_result rc=0 msg=success value={value}"));
    assert_eq!(lines, [mapping, mapping, mapping, &v0, &v1, &v2]);
}

#[test]
fn an_abort_over_pmi_ends_the_job_with_its_code() {
    let ended =
        speaking(&["-n", "2"], "[ $PMI_RANK = 0 ] || say 'cmd=abort exitcode=42 message=no more memory'; sleep 100");
    assert_eq!(ended.code(), Some(42));
    assert!(ended.err.starts_with("modex: rank 1 aborted the job with status 42: no more memory; "), "{ended:?}");
}

#[test]
fn a_rank_that_ends_without_finalize_over_pmi_has_failed() {
    let ended = speaking(&["-n", "2"], "[ $PMI_RANK = 0 ] || exit 0; say cmd=barrier_in; hear > /dev/null; sleep 100");
    assert_eq!(ended.code(), Some(1));
    assert!(ended.err.starts_with("modex: rank 1 ended without finalizing; "), "{ended:?}");
}

/// A program without MPI is none the worse for an offer that it does not take.
#[test]
fn a_program_that_speaks_no_pmi_ends_as_it_does() {
    let ended = modex(["run", "--pmi", "pmi1", "-n", "3", "--", "sh", "-c", "exit 0"]).run();
    assert_eq!((ended.code(), ended.err.as_str()), (Some(0), ""));
}
