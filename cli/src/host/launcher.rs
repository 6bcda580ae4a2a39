//! The program of a launcher, and the reasons why it can't use the library.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::unistd::{AccessFlags, access};

/// A launcher's file.
#[derive(Debug)]
pub(super) struct Launcher {
    path: PathBuf,
}

/// The reason why a launcher can't use the library.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LauncherError {
    #[error("there is no program {0:?}, here or in PATH")]
    Absent(OsString),
    #[error("{0:?} is no program that this user may execute")]
    NotExecutable(PathBuf),
    #[error("can't read {0:?}: {1}")]
    Read(PathBuf, io::Error),
    #[error(
        "{0:?} runs with rights of its own, so the loader ignores LD_PRELOAD; use a copy without the set-user-id and set-group-id \
         bits and without file capabilities"
    )]
    Privileged(PathBuf),
    #[error("{0:?} is linked statically, so it has its own PMIx and no loader; use a launcher that loads libpmix.so.2")]
    Static(PathBuf),
    #[error("{0:?} has the loader {1:?}, and the library needs the loader of glibc on x86-64")]
    OtherLoader(PathBuf, OsString),
    #[error(
        "{0:?} needs libpmix.so.2, which its loader does not find; set LD_LIBRARY_PATH to the OpenPMIx that it was built with"
    )]
    NoOpenPmix(PathBuf),
    #[error(
        "{program:?} needs {symbol}, which neither this library nor the libpmix.so.2 at {found:?} has; set LD_LIBRARY_PATH to the \
         OpenPMIx that it was built with"
    )]
    Symbol { program: PathBuf, symbol: String, found: String },
    #[error(
        "{0:?} loads no PMIx library, so it has no PMIx server to replace; `modex run` starts its programs on one machine, and \
         docs/slurm.md has the way for Slurm"
    )]
    NoServer(PathBuf),
}

impl Launcher {
    /// The program with this name, as a shell finds it.
    pub(super) fn find(name: &OsStr, directories: Option<OsString>) -> Result<Self, LauncherError> {
        let is_program = |path: &Path| path.is_file() && access(path, AccessFlags::X_OK).is_ok();
        let places = if name.as_bytes().contains(&b'/') {
            vec![PathBuf::from(name)]
        } else {
            let directories = directories.unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
            std::env::split_paths(&directories).map(|directory| directory.join(name)).collect()
        };
        let mut found = places.into_iter().filter(|path| path.exists()).peekable();
        let first = found.peek().cloned();
        match (found.find(|path| is_program(path)), first) {
            (Some(path), _) => Ok(Self { path }),
            (None, Some(first)) => Err(LauncherError::NotExecutable(first)),
            (None, None) => Err(LauncherError::Absent(name.to_owned())),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the loader finds everything for the program. `start` has the environment of the program.
    pub(super) fn check(&self, start: &Command) -> Result<(), LauncherError> {
        let read = |error| LauncherError::Read(self.path.clone(), error);
        let mut file = File::open(&self.path).map_err(read)?;
        if gives_rights(&file.metadata().map_err(read)?) {
            return Err(LauncherError::Privileged(self.path.clone()));
        }
        let mut head = Vec::new();
        (&mut file).take(HEAD_BYTES).read_to_end(&mut head).map_err(read)?;
        if !head.starts_with(b"\x7fELF\x02\x01") {
            // A script: the programs that it starts are not known.
            return Ok(());
        }
        match interpreter(&head) {
            None => return Err(LauncherError::Static(self.path.clone())),
            Some(loader) if !loader.as_bytes().ends_with(LOADER) => {
                return Err(LauncherError::OtherLoader(self.path.clone(), loader));
            }
            Some(_) => {}
        }
        let loaded = Loaded::of(&self.path, start);
        if loaded.ignores_preload() {
            return Err(LauncherError::Privileged(self.path.clone()));
        }
        if loaded.has_pmix() {
            return loaded.check(&self.path);
        }
        // Open MPI's mpirun executes the prterun beside it.
        let beside = self.path.canonicalize().ok().and_then(|path| Some(path.parent()?.join("prterun")));
        match beside.filter(|_| self.has_open_mpi_name()) {
            Some(path) if path.is_file() => Self { path }.check(start),
            _ if self.is_known() && !loaded.has_open_mpi_4() => Err(LauncherError::NoServer(self.path.clone())),
            _ => Ok(()),
        }
    }

    /// Whether the program has a name of Open MPI's launcher. The launcher of MPICH is a link to another name.
    fn has_open_mpi_name(&self) -> bool {
        let file = self.path.canonicalize().ok();
        let name = file.as_ref().and_then(|file| file.file_name());
        name.is_some_and(|name| OPEN_MPI.iter().any(|known| name == *known))
    }

    /// Whether the name is that of a launcher. Other programs may start one.
    fn is_known(&self) -> bool {
        self.path.file_name().is_some_and(|name| LAUNCHERS.iter().any(|launcher| name == *launcher))
    }
}

/// Names of launchers.
const LAUNCHERS: &[&str] =
    &["mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prte", "prted", "prterun", "prun", "srun"];

/// Names of Open MPI's launcher.
const OPEN_MPI: &[&str] = &["mpirun", "mpiexec", "orterun"];

/// The end of the loader's name.
const LOADER: &[u8] = b"ld-linux-x86-64.so.2";

/// Number of bytes with the program headers and the loader's name.
const HEAD_BYTES: u64 = 64 << 10;

/// Whether the kernel gives the program rights that this process lacks.
fn gives_rights(file: &Metadata) -> bool {
    let is_others_user = file.mode() & 0o4000 != 0 && file.uid() != nix::unistd::geteuid().as_raw();
    let is_others_group = file.mode() & 0o2000 != 0 && file.gid() != nix::unistd::getegid().as_raw();
    is_others_user || is_others_group
}

/// The loader that a program names (ELF-64, `PT_INTERP`).
fn interpreter(head: &[u8]) -> Option<OsString> {
    let number = |at: usize, count: usize| {
        let bytes = head.get(at..at.checked_add(count)?)?;
        bytes.iter().rev().try_fold(0_usize, |sum, byte| sum.checked_mul(256)?.checked_add(usize::from(*byte)))
    };
    let (table, count) = (number(32, 8)?, number(56, 2)?);
    (0..count).find_map(|index| {
        let header = table.checked_add(index.checked_mul(56)?)?;
        if number(header, 4)? != PT_INTERP {
            return None;
        }
        let (at, size) = (number(header.checked_add(8)?, 8)?, number(header.checked_add(32)?, 8)?);
        let name = head.get(at..at.checked_add(size)?)?.split(|byte| *byte == 0).next()?;
        Some(OsString::from_vec(name.to_vec()))
    })
}

const PT_INTERP: usize = 3;

/// The loader's list of libraries and missing symbols (ld.so(8), `LD_TRACE_LOADED_OBJECTS`).
struct Loaded {
    text: String,
}

impl Loaded {
    /// Asks the loader. The program does not run.
    fn of(program: &Path, start: &Command) -> Self {
        let mut asked = Command::new(program);
        for (name, value) in start.get_envs() {
            match value {
                Some(value) => asked.env(name, value),
                None => asked.env_remove(name),
            };
        }
        asked.env("LD_TRACE_LOADED_OBJECTS", "1").env("LD_WARN", "yes").env("LD_BIND_NOW", "yes").stdin(Stdio::null());
        // Without an answer the start of the program tells.
        let text = asked.output().map(|output| [output.stdout, output.stderr].concat()).unwrap_or_default();
        Self { text: String::from_utf8_lossy(&text).into_owned() }
    }

    /// The lines that begin with a word.
    fn lines<'a>(&'a self, start: &'a str) -> impl Iterator<Item = &'a str> {
        self.text.lines().map(str::trim).filter(move |line| line.starts_with(start))
    }

    /// Whether the loader has left our library out without a word, as for a program with file capabilities.
    fn ignores_preload(&self) -> bool {
        !self.text.is_empty() && !self.text.contains(super::LIBRARY)
    }

    fn has_pmix(&self) -> bool {
        self.lines("libpmix.so.2 ").next().is_some()
    }

    /// Whether the program is of Open MPI 4, which loads a PMIx library later.
    fn has_open_mpi_4(&self) -> bool {
        self.lines("libopen-rte.so").next().is_some()
    }

    fn check(&self, program: &Path) -> Result<(), LauncherError> {
        let found = self.lines("libpmix.so.2 ").find_map(|line| line.split(" => ").nth(1)).unwrap_or("nowhere");
        if found.starts_with("not found") {
            return Err(LauncherError::NoOpenPmix(program.to_owned()));
        }
        let missing = |line: &str| {
            let symbol = line.strip_prefix("undefined symbol: ")?.split([' ', '\t', ',']).next()?;
            symbol.to_ascii_lowercase().starts_with("pmix_").then(|| symbol.to_owned())
        };
        self.lines("undefined symbol: ").find_map(missing).map_or(Ok(()), |symbol| {
            let found = found.split(" (").next().unwrap_or(found).to_owned();
            Err(LauncherError::Symbol { program: program.to_owned(), symbol, found })
        })
    }
}
