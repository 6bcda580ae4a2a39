//! The library under test, and the programs that are compiled for it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Debian's directory of OpenPMIx 4.2.2.
const DEBIAN: &str = "/usr/lib/x86_64-linux-gnu/pmix2";

/// The library under test.
#[derive(Debug)]
pub(crate) struct Library {
    /// The value of `LD_LIBRARY_PATH` for consumers; `None` for the system's library.
    pub(crate) directory: Option<PathBuf>,
    /// The file of the loaded library in `/proc/PID/maps`.
    pub(crate) file: PathBuf,
}

/// A set of public headers, and the library for linking programs compiled with it.
#[derive(Debug)]
pub(crate) struct Headers {
    pub(crate) name: &'static str,
    pub(crate) include: PathBuf,
    link: PathBuf,
}

/// The library under test, chosen once in a run (and built, if it is ours).
pub(crate) fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(|| match std::env::var("MODEX_LIBPMIX_DIR") {
        Err(_) => Library::in_directory(&build()),
        Ok(name) if name.is_empty() => Library::stock(),
        Ok(name) => Library::in_directory(Path::new(&name)),
    })
}

/// A directory for the programs compiled in this run; `cargo clean` removes it.
pub(crate) fn scratch() -> &'static Path {
    static SCRATCH: OnceLock<PathBuf> = OnceLock::new();
    SCRATCH.get_or_init(|| {
        let name = if library().is_stock() { "consumers-stock" } else { "consumers" };
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        drop(fs::remove_dir_all(&directory));
        fs::create_dir_all(&directory).unwrap();
        directory
    })
}

pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

impl Library {
    /// Debian's OpenPMIx 4.2.2.
    pub(crate) fn stock() -> Self {
        let file = fs::canonicalize(format!("{DEBIAN}/lib/libpmix.so.2"));
        Self { directory: None, file: file.expect("Debian's library is there: run `make consumer-packages`") }
    }

    /// A build of any library.
    pub(crate) fn in_directory(directory: &Path) -> Self {
        let directory = fs::canonicalize(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
        let file = fs::canonicalize(directory.join("libpmix.so.2"))
            .unwrap_or_else(|error| panic!("no libpmix.so.2 in {}: {error}", directory.display()));
        Self { directory: Some(directory), file }
    }

    pub(crate) fn is_stock(&self) -> bool {
        self.directory.is_none()
    }

    /// Debian's headers always; ours, too, if they exist. With our library under test they must exist.
    pub(crate) fn headers(&self) -> Vec<Headers> {
        let debian = PathBuf::from(DEBIAN);
        let mut sets = vec![Headers { name: "debian", include: debian.join("include"), link: debian.join("lib") }];
        let ours = repository().join("libpmix/include");
        if !self.is_stock() || ours.join("pmix.h").exists() {
            assert!(ours.join("pmix.h").exists(), "our headers are missing: {}", ours.display());
            let link = self.directory.clone().unwrap_or_else(|| debian.join("lib"));
            sets.push(Headers { name: "ours", include: ours, link });
        }
        sets
    }
}

impl Headers {
    /// Compiles C sources into one program. No run path is recorded: `LD_LIBRARY_PATH` chooses the library.
    pub(crate) fn compile(&self, sources: &[PathBuf], program: &Path) {
        self.compile_with(sources, program, &[]);
    }

    /// The same with further options of the compiler.
    pub(crate) fn compile_with(&self, sources: &[PathBuf], program: &Path, options: &[&str]) {
        let mut command = Command::new("cc");
        command.args(["-std=gnu11", "-g", "-O1", "-pthread", "-Wall", "-Wextra", "-Werror"]);
        // The macros of 4.2.2 compare unsigned numbers with 0; its prototypes demand 256 bytes for any text.
        command.args(["-Wno-type-limits", "-Wno-stringop-overread"]);
        command.arg("-I").arg(&self.include).args(sources).arg("-o").arg(program);
        // By the name that both libraries have: if the directory has only the library itself, `libpmix.so` is the
        // system's. A program that only opens the library with `dlopen` is not linked with it.
        command.args(options);
        command.arg("-L").arg(&self.link).args(["-Wl,--as-needed", "-l:libpmix.so.2", "-lm"]);
        run_compiler(&mut command);
    }
}

/// Runs a compiler; its warnings fail the test.
pub(crate) fn run_compiler(command: &mut Command) {
    let result = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}; run `make consumer-packages`"));
    assert!(result.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&result.stderr));
}

/// Builds our library and returns its directory.
fn build() -> PathBuf {
    let status = Command::new("make").arg("lib").current_dir(repository()).env_remove("MAKEFLAGS").status().unwrap();
    assert!(status.success(), "`make lib` failed: {status}");
    let target = std::env::var("CARGO_TARGET_DIR").map_or_else(|_| repository().join("target"), PathBuf::from);
    target.join("release")
}
