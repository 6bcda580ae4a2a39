//! `modex host`: another launcher, such as Open MPI 5's `mpirun`, with a server of this library.
//!
//! PRRTE, the launcher inside Open MPI 5, calls public functions of PMIx and internal ones of the OpenPMIx that it was
//! built with. `libmodex-pmix.so` is the C library under a name of its own. The loader takes it first, for the public
//! functions (`LD_PRELOAD`), and the launcher's `libpmix.so.2` for the internal ones. Before the launcher starts, its
//! loader says whether all functions are there.

mod launcher;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use super::Outcome;
use launcher::{Launcher, LauncherError};

const HELP: &str = "\
Examples:
  modex host -- mpirun -n 4 ./program
  modex host -- mpirun --host nodeA:2,nodeB:2 -n 4 ./program
  modex host -- prte --daemonize

The launcher, its daemons on all nodes and the ranks use this PMIx library. The launcher is Open MPI 5's
mpirun or another one of PRRTE from 3.0 on. Other nodes need this installation at the same path.
A script works, too: all programs that it starts get the library.

Exit status:
  2      The command line makes no sense
  125    The launcher can't use the library, or the library is not there: one line says why
  126    The launcher can't be executed
  127    The launcher, or the interpreter that a script names, is not found
  other  The status of the launcher, which replaces this command. Shells show 128+N after signal N

Environment:
  LD_PRELOAD
             Gets the library in front. Directories of this library leave LD_LIBRARY_PATH
  PRTE_MCA_prte_launch_agent
             The command that starts daemons on other nodes [default: prted]. Gets the library in front";

#[derive(Args, Debug)]
#[command(after_long_help = HELP)]
pub(super) struct HostOptions {
    /// Launcher with its options
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "LAUNCHER")]
    command: Vec<OsString>,
}

/// The reason why a launcher does not start.
#[derive(Debug, thiserror::Error)]
pub(super) enum HostError {
    #[error(
        "{LIBRARY} is not installed beside this command; run make install, or make lib in the clone. It was looked for in {0}"
    )]
    NoLibrary(String),
    #[error(
        "the path {0:?} has a character that the loader or a remote shell does not take as it is; install modex at a path of \
         letters, digits and /._+~@%=,-"
    )]
    Unusable(PathBuf),
    #[error(transparent)]
    Launcher(#[from] LauncherError),
    #[error("can't start {0:?}: {1}")]
    Start(PathBuf, io::Error),
}

impl HostError {
    /// The exit status, as that of env(1) and nohup(1).
    pub(super) fn shell_status(&self) -> u8 {
        match self {
            Self::Launcher(LauncherError::Absent(_)) => NOT_FOUND,
            Self::Start(_, reason) if reason.kind() == io::ErrorKind::NotFound => NOT_FOUND,
            Self::Launcher(LauncherError::NotExecutable(_)) | Self::Start(..) => NOT_EXECUTABLE,
            Self::NoLibrary(_) | Self::Unusable(_) | Self::Launcher(_) => REFUSED,
        }
    }
}

/// The status of a launcher that this command does not start.
const REFUSED: u8 = 125;
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// The C library without the name of other PMIx libraries.
const LIBRARY: &str = "libmodex-pmix.so";

/// The variable of PRRTE with the command that starts a daemon.
const AGENT: &str = "PRTE_MCA_prte_launch_agent";

pub(super) fn run(options: &HostOptions) -> Outcome {
    let [name, arguments @ ..] = options.command.as_slice() else { return Ok(super::MISUSE) };
    let library = library()?;
    let launcher = Launcher::find(name, variable("PATH")).map_err(HostError::from)?;
    let mut command = Command::new(launcher.path());
    command.arg0(name).args(arguments);
    for (name, value) in settings(&library, variable) {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    launcher.check(&command).map_err(HostError::from)?;
    let error = command.exec();
    Err(HostError::Start(launcher.path().to_owned(), error).into())
}

/// The library of this installation, or of the build.
fn library() -> Result<PathBuf, HostError> {
    let found = installed().ok_or_else(|| {
        let places = places().unwrap_or_default();
        HostError::NoLibrary(places.iter().map(|place| place.display().to_string()).collect::<Vec<_>>().join(", "))
    })?;
    if is_plain(found.as_os_str(), b"") { Ok(found) } else { Err(HostError::Unusable(found)) }
}

/// Whether the loader and remote shells take a text as it is. `others` are further bytes that it may have.
fn is_plain(text: &OsStr, others: &[u8]) -> bool {
    text.as_bytes()
        .iter()
        .all(|byte| byte.is_ascii_alphanumeric() || b"/._+~@%=,-".contains(byte) || others.contains(byte))
}

/// The file of the library beside this command.
pub(super) fn installed() -> Option<PathBuf> {
    places()?.iter().find_map(|place| place.join(LIBRARY).canonicalize().ok())
}

/// The directories where installations and the build have the library.
fn places() -> Option<Vec<PathBuf>> {
    let command = std::env::current_exe().ok()?;
    let directory = command.parent()?;
    let multiarch = format!("../lib/{}-linux-gnu", std::env::consts::ARCH);
    let mut places: Vec<_> = ["../lib", "../lib64", &multiarch].iter().map(|place| directory.join(place)).collect();
    places.push(directory.to_owned());
    Some(places)
}

#[expect(clippy::disallowed_methods, reason = "an edge: the launcher inherits this environment")]
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// The variables that the launcher gets; `None` removes one.
fn settings(library: &Path, variable: impl Fn(&str) -> Option<OsString>) -> Vec<(&'static str, Option<OsString>)> {
    let preload = joined(library.as_os_str(), ":", variable("LD_PRELOAD"));
    // A remote shell reads the line. A list that it would read otherwise stays here.
    let remote = preload.to_string_lossy().replace(char::is_whitespace, ":");
    let remote = if is_plain(OsStr::new(&remote), b":") { remote.into() } else { library.as_os_str().to_owned() };
    let agent = variable(AGENT).filter(|agent| !agent.is_empty()).unwrap_or_else(|| "prted".into());
    // Daemons on other nodes inherit no variable.
    let agent = joined(&joined(OsStr::new("env LD_PRELOAD="), "", Some(remote)), " ", Some(agent));
    let mut settings = vec![("LD_PRELOAD", Some(preload)), (AGENT, Some(agent))];
    if let Some(directories) = variable("LD_LIBRARY_PATH") {
        settings.push(("LD_LIBRARY_PATH", without_own(&directories, library)));
    }
    settings
}

fn joined(first: &OsStr, between: &str, rest: Option<OsString>) -> OsString {
    let mut joined = first.to_owned();
    if let Some(rest) = rest.filter(|rest| !rest.is_empty()) {
        joined.push(between);
        joined.push(rest);
    }
    joined
}

/// The directories without that of the library: its `libpmix.so.2` lacks the functions that the launcher looks for
/// there.
fn without_own(directories: &OsStr, library: &Path) -> Option<OsString> {
    let own = library.parent()?.canonicalize().ok()?;
    let others = std::env::split_paths(directories).filter(|path| path.canonicalize().ok().as_ref() != Some(&own));
    std::env::join_paths(others).ok().filter(|others| !others.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launcher_and_daemons_get_the_library_in_front_of_what_is_set() {
        let library = Path::new("/opt/modex/lib/libmodex-pmix.so");
        let nothing = settings(library, |_| None);
        let agent = "env LD_PRELOAD=/opt/modex/lib/libmodex-pmix.so prted";
        assert_eq!(nothing, [("LD_PRELOAD", Some(library.into())), (AGENT, Some(agent.into()))]);
        let given = |name: &str| match name {
            "LD_PRELOAD" => Some("/lib/other.so".into()),
            AGENT => Some("valgrind prted".into()),
            _ => None,
        };
        let both = settings(library, given);
        assert_eq!(both[0].1, Some("/opt/modex/lib/libmodex-pmix.so:/lib/other.so".into()));
        let agent = "env LD_PRELOAD=/opt/modex/lib/libmodex-pmix.so:/lib/other.so valgrind prted";
        assert_eq!(both[1].1, Some(agent.into()));
        let of_agent = |preload: &'static str| {
            settings(library, |name: &str| (name == "LD_PRELOAD").then(|| preload.into()))[1].1.clone().unwrap()
        };
        let (two, alone) = (
            "env LD_PRELOAD=/opt/modex/lib/libmodex-pmix.so:/a:/b prted",
            "env LD_PRELOAD=/opt/modex/lib/libmodex-pmix.so prted",
        );
        assert_eq!(of_agent("/a /b"), two);
        assert_eq!(of_agent("/$LIB/c;d"), alone);
    }

    #[test]
    fn paths_that_a_shell_or_the_loader_reads_otherwise_are_unusable() {
        assert!(is_plain(OsStr::new("/opt/modex-1.0+x~1/lib"), b""));
        for path in ["/a b", "/a:b", "/$LIB", "/a;b", "/a\"b", "/a'b", "/a*b"] {
            assert!(!is_plain(OsStr::new(path), b""), "{path}");
        }
    }

    #[test]
    fn the_directory_of_the_library_leaves_the_search_path() {
        let directory = tempfile::tempdir().unwrap();
        let own = directory.path().join("lib");
        std::fs::create_dir(&own).unwrap();
        let library = own.join(LIBRARY);
        let path = std::env::join_paths([Path::new("/usr/lib"), &own, Path::new("/opt/x")]).unwrap();
        assert_eq!(without_own(&path, &library), Some("/usr/lib:/opt/x".into()));
        assert_eq!(without_own(own.as_os_str(), &library), None);
    }
}
