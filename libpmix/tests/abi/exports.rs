//! The shared library exports the public interface and nothing else, and programs for either set of headers run on it.
//!
//! `MODEX_LIBPMIX` names the library (`make test` names its release build). Without it, the test builds one without
//! optimisation.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::{root, run, support, variable};

/// The names of the library's frameworks, which Open MPI 5 wants to find.
const DATA: &str = "pmix_framework_names";

#[test]
fn the_library_exports_the_public_interface_and_nothing_else() {
    let text = run(Command::new("nm").args(["-D", "--defined-only"]).arg(library()));
    let symbols = text.lines().map(|line| {
        let mut words = line.split_whitespace().skip(1);
        (words.next().unwrap().to_owned(), words.next().unwrap().to_owned())
    });
    let found: BTreeSet<(String, String)> = symbols.map(|(kind, name)| (name, kind)).collect();
    let functions = support::exported().into_iter().map(|name| (name, "T".to_owned()));
    let expected: BTreeSet<(String, String)> = functions.chain([(DATA.to_owned(), "D".to_owned())]).collect();
    let missing: Vec<_> = expected.difference(&found).collect();
    let leaked: Vec<_> = found.difference(&expected).collect();
    assert!(missing.is_empty() && leaked.is_empty(), "missing: {missing:?}\nleaked: {leaked:?}");
}

#[test]
fn the_library_has_the_name_that_programs_ask_for_and_needs_little() {
    let text = run(Command::new("readelf").args(["-d", "-W"]).arg(library()));
    let values = |tag: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| line.contains(tag));
        lines.map(|line| line.split(['[', ']']).nth(1).unwrap().to_owned()).collect()
    };
    assert_eq!(values("(SONAME)"), ["libpmix.so.2"]);
    // The test's own build is linked the usual way. The library of `make lib` contains its unwinder, and loads hwloc on
    // demand.
    let mut system = vec!["libc.so.6", "ld-linux-x86-64.so.2"];
    if variable("MODEX_LIBPMIX").is_none() {
        system.extend(["libm.so.6", "libgcc_s.so.1"]);
    }
    let needed = values("(NEEDED)");
    let surplus: Vec<&String> = needed.iter().filter(|name| !system.contains(&name.as_str())).collect();
    assert!(surplus.is_empty(), "the library needs {surplus:?}");
    assert!(values("PATH)").is_empty(), "the library searches a path of its own");
}

#[test]
fn programs_for_either_headers_run_on_the_library() {
    let debian = Path::new("/usr/lib/x86_64-linux-gnu/pmix2/include");
    let ours = root().join("libpmix/include");
    for (program, include) in [("helpers_4_2.c", debian), ("helpers_4_2.c", &ours), ("helpers_6.c", &ours)] {
        let scratch = tempfile::tempdir().unwrap();
        for name in ["libpmix.so", "libpmix.so.2"] {
            symlink(library(), scratch.path().join(name)).unwrap();
        }
        let executable = scratch.path().join("program");
        let source = root().join("libpmix/tests/abi/programs").join(program);
        let mut compiler = Command::new("gcc");
        compiler.args(["-std=gnu11", "-g", "-o"]).arg(&executable).arg("-isystem").arg(include).arg(source);
        run(compiler.arg("-L").arg(scratch.path()).arg("-lpmix"));
        let mut memcheck = Command::new("valgrind");
        memcheck.args(["-q", "--leak-check=full", "--errors-for-leak-kinds=definite", "--error-exitcode=9"]);
        run(memcheck.arg(&executable).env("LD_LIBRARY_PATH", scratch.path()));
    }
}

/// The library under test.
pub(crate) fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| match variable("MODEX_LIBPMIX") {
        Some(path) => fs::canonicalize(&path).unwrap_or_else(|error| panic!("MODEX_LIBPMIX={path}: {error}")),
        None => built(),
    })
}

/// Builds the library beside the test binaries.
fn built() -> PathBuf {
    let deps = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let (profile, target) = (deps.parent().unwrap(), deps.parent().unwrap().parent().unwrap());
    let cargo = variable("CARGO").unwrap_or_else(|| "cargo".to_owned());
    let mut build = Command::new(cargo);
    build.args(["rustc", "--quiet", "--package", "libpmix", "--crate-type", "cdylib", "--target-dir"]);
    build.arg(target).current_dir(root());
    if profile.ends_with("release") {
        build.arg("--release");
    }
    build.args(["--", "@libpmix/link-args"]);
    run(&mut build);
    profile.join("libpmix.so")
}
