//! The headers against the tables, against compilers, and against the headers of OpenPMIx 4.2.2 in Debian.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tables::vocabulary;
use crate::{assert_generated, facts, render, root, run};

/// Folder of the headers of 4.2.2 from Debian's `libpmix-dev` (`make test` installs it).
const DEBIAN: &str = "/usr/lib/x86_64-linux-gnu/pmix2/include";
const WARNINGS: &[&str] = &["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"];

/// The supported dialects of programs that use these headers.
const DIALECTS: &[(&str, &str)] =
    &[("gcc", "c11"), ("gcc", "gnu11"), ("gcc", "gnu17"), ("g++", "c++11"), ("g++", "gnu++17"), ("g++", "c++20")];

#[test]
fn generated_headers_say_what_the_tables_say() {
    for (path, text) in render::headers() {
        assert_generated(path, &text);
    }
}

#[test]
fn a_compiler_finds_every_fact_of_the_tables_in_the_headers() {
    let scratch = tempfile::tempdir().unwrap();
    let source = scratch.path().join("facts.c");
    fs::write(&source, facts::assertions()).unwrap();
    compile("gcc", "c11", &ours(), &source);
}

#[test]
fn each_header_stands_alone_in_every_dialect() {
    let scratch = tempfile::tempdir().unwrap();
    for header in header_files() {
        let source = scratch.path().join("alone.c");
        fs::write(&source, format!("#include <{header}>\n#include <{header}>\nextern int nothing_else;\n")).unwrap();
        for (compiler, dialect) in DIALECTS {
            compile(compiler, dialect, &ours(), &source);
        }
    }
}

#[test]
fn programs_for_either_headers_compile_in_every_dialect() {
    for (compiler, dialect) in DIALECTS {
        for program in ["helpers_4_2.c", "helpers_6.c", "host_and_tool.c"] {
            compile(compiler, dialect, &ours(), &programs().join(program));
        }
    }
    compile("gcc", "gnu11", Path::new(DEBIAN), &programs().join("helpers_4_2.c"));
}

#[test]
fn the_programs_use_every_macro() {
    let text: String = ["helpers_4_2.c", "helpers_6.c"]
        .iter()
        .map(|name| fs::read_to_string(programs().join(name)).unwrap())
        .collect();
    let words: BTreeSet<&str> = text.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let unused: Vec<String> = macros(&ours(), "gcc")
        .into_keys()
        .filter(|name| name.contains('(') || name.ends_with("_STATIC_INIT"))
        .map(|name| name.split('(').next().unwrap().to_owned())
        .filter(|name| name.starts_with("PMI") && !words.contains(name.as_str()))
        .collect();
    assert!(unused.is_empty(), "no test program uses {unused:?}");
}

#[test]
fn every_macro_of_debians_headers_is_ours_too() {
    let bare = |name: &String| name.split('(').next().unwrap().to_owned();
    let own: BTreeSet<String> = macros(&ours(), "gcc").keys().map(bare).collect();
    let missing: Vec<String> = macros(Path::new(DEBIAN), "gcc")
        .keys()
        .filter(|name| name.to_lowercase().starts_with("pmi"))
        .map(bare)
        // The heartbeat is a function now.
        .filter(|name| !own.contains(name) && name != "PMIx_Heartbeat")
        .collect();
    assert!(missing.is_empty(), "Debian's headers define {missing:?}");
}

#[test]
fn debians_headers_say_the_same_about_everything_they_have() {
    let (own, debian) = (report(&ours()), report(Path::new(DEBIAN)));
    let known: BTreeMap<&str, &str> = own.lines().map(split).collect();
    let mut differences = Vec::new();
    for (name, fact) in debian.lines().map(split) {
        let found = known.get(name).copied().unwrap_or("nothing");
        if found != fact && !is_renamed_attribute(name, fact) {
            differences.push(format!("{name}: Debian's {fact}, ours {found}"));
        }
    }
    assert!(debian.lines().count() > 1300, "the report has {} lines", debian.lines().count());
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}

/// Capabilities of OpenPMIx that our headers do not announce.
const MISSING_CAPABILITIES: [&str; 9] = [
    // Parts of its internal interface.
    "PMIX_CAP_CLI_ORDER",
    "PMIX_CAP_CLI_QUAL_VALUE",
    "PMIX_CAP_DEVICE_ENUM",
    "PMIX_CAP_INMEMHELP",
    "PMIX_CAP_LTO",
    "PMIX_CAP_MCA_FW_VERSION",
    // Hosts are asked to cancel a group.
    "PMIX_CAP_GROUP_FT",
    // `PMIx_Progress_thread_stop` does nothing.
    "PMIX_CAP_STOP_PRGTHRD",
    // `client_finalized` is called for tools, too.
    "PMIX_CAP_TOOL_FINALIZED",
];

#[test]
fn each_capability_of_the_tables_is_announced_or_known_to_be_missing() {
    let own = macros(&ours(), "gcc");
    for row in vocabulary::constants().into_iter().filter(|row| row.name.starts_with("PMIX_CAP_")) {
        let is_missing = MISSING_CAPABILITIES.contains(&row.name.as_str());
        let number = (!is_missing).then(|| row.value.to_string());
        assert_eq!(own.get(&row.name), number.as_ref(), "{}", row.name);
    }
}

fn split(line: &str) -> (&str, &str) {
    line.split_once(' ').unwrap()
}

/// The tables note that this attribute had the string, in the form `= text`, in an earlier release.
fn is_renamed_attribute(name: &str, fact: &str) -> bool {
    let rows = vocabulary::attributes();
    let row = rows.iter().find(|row| row.macro_name == name);
    row.is_some_and(|row| fact.strip_prefix("= ").is_some_and(|text| row.spellings().contains(&text)))
}

/// The facts of a set of headers, one per line.
fn report(include: &Path) -> String {
    let scratch = tempfile::tempdir().unwrap();
    let (source, program) = (scratch.path().join("report.cpp"), scratch.path().join("report"));
    fs::write(&source, facts::report_of_4_2_2()).unwrap();
    run(Command::new("g++").args(["-std=gnu++17", "-w", "-o"]).arg(&program).arg("-I").arg(include).arg(&source));
    run(&mut Command::new(program))
}

/// The macros that a set of headers defines, `NAME` or `NAME(parameters)`, without the C library's macros.
fn macros(include: &Path, compiler: &str) -> BTreeMap<String, String> {
    let scratch = tempfile::tempdir().unwrap();
    let source = scratch.path().join("macros.c");
    fs::write(&source, "#include <pmix.h>\n#include <pmix_server.h>\n#include <pmix_tool.h>\n").unwrap();
    let text = run(Command::new(compiler).args(["-E", "-dM", "-I"]).arg(include).arg(&source));
    let definitions = text.lines().filter_map(|line| line.strip_prefix("#define "));
    definitions
        .map(|line| {
            // Parameters are printed without blanks.
            let (name, body) = line.split_once(' ').unwrap_or((line, ""));
            (name.to_owned(), body.to_owned())
        })
        .collect()
}

/// Compiles one file without linking; a C file is C++ to a C++ compiler.
fn compile(compiler: &str, dialect: &str, include: &Path, source: &Path) {
    let language = if compiler == "g++" { "c++" } else { "c" };
    let mut command = Command::new(compiler);
    command.arg(format!("-std={dialect}")).args(["-x", language]).args(WARNINGS);
    if include == Path::new(DEBIAN) {
        // Ignore warnings of Debian's headers.
        command.arg("-isystem").arg(include);
    } else {
        command.arg("-I").arg(include);
    }
    run(command.args(["-c", "-o", "/dev/null"]).arg(source));
}

/// The public headers by the name that programs include.
fn header_files() -> Vec<String> {
    let entries = fs::read_dir(ours()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names: Vec<String> = entries.filter(|name| name.ends_with(".h")).collect();
    assert!(names.len() >= 6, "the headers are {names:?}");
    names
}

fn ours() -> PathBuf {
    root().join("libpmix/include")
}

fn programs() -> PathBuf {
    root().join("libpmix/tests/abi/programs")
}
