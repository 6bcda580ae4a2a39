//! A host with more rights than the user who started it: that user controls its environment.
//!
//! `PMIX_MCA_ptl_base_report_uri=/etc/x` let an ordinary user overwrite a file of root's through a setuid server. The
//! server followed links, too. `PMIX_LAUNCHER_RNDZ_FILE` created new files. In such a process no variable chooses a
//! file to write or a library to load. In other processes the server replaces the named file by a new one, and follows
//! no link.

use std::fs::{self, Permissions, set_permissions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::statvfs::{FsFlags, statvfs};
use tempfile::TempDir;

use crate::library::{library, repository};

const USER: u32 = 61_001;

/// A program, its library, and files that it could harm.
struct Place {
    directory: TempDir,
}

impl Place {
    /// A directory in which setuid programs work; `None`: there is none.
    fn make() -> Option<Self> {
        let candidates = [Path::new("/tmp"), Path::new(env!("CARGO_TARGET_TMPDIR")), Path::new("/var/tmp")];
        let allows = |path: &&Path| statvfs(*path).is_ok_and(|found| !found.flags().contains(FsFlags::ST_NOSUID));
        let parent = candidates.into_iter().find(allows)?;
        let place = Self { directory: tempfile::Builder::new().prefix("ms-").tempdir_in(parent).unwrap() };
        set_permissions(place.directory.path(), Permissions::from_mode(0o755)).unwrap();
        fs::copy(&library().file, place.path("libpmix.so.2")).unwrap();
        let search = format!("-Wl,-rpath,{}", place.directory.path().display());
        let source = repository().join("tests/consumers/secure.c");
        library().headers()[0].compile_with(&[source], &place.path("server"), &[&search]);
        fs::create_dir(place.path("etc")).unwrap();
        fs::write(place.path("etc/precious"), "precious").unwrap();
        symlink("precious", place.path("etc/link")).unwrap();
        fs::create_dir(place.path("tmp")).unwrap();
        set_permissions(place.path("tmp"), Permissions::from_mode(0o777)).unwrap();
        Some(place)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The names in a directory.
    fn names(&self, directory: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(directory)).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Runs the server as a user, with a report to this file. Returns the names in both directories meanwhile, and its
    /// standard error.
    fn serve(&self, uid: u32, report: &str) -> (Vec<String>, Vec<String>, String) {
        let mut command = Command::new("timeout");
        command.args(["--kill-after=10", "100"]).arg(self.path("server")).env_clear();
        command.env("PMIX_MCA_ptl_base_report_uri", self.path(report)).env("TMPDIR", self.path("tmp"));
        command.env("PMIX_LAUNCHER_RNDZ_FILE", self.path("etc/launcher"));
        if self.path("server").metadata().unwrap().mode() & 0o4000 != 0 {
            // Any other server would wait for this tool.
            command.env("PMIX_LAUNCHER_RNDZ_URI", "gone.0;tcp4://127.0.0.1:1");
        }
        command.env("MODEX_SECURITY", "munge").env("MODEX_LOG", "warn").env("PATH", "/usr/bin:/bin");
        command.env("HWLOC_PLUGINS_PATH", self.path("tmp"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).uid(uid).gid(uid);
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (etc, tmp) = (self.names("etc"), self.names("tmp"));
        drop(child.stdin.take());
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        let status = child.wait().unwrap();
        assert!(status.success() && line == "ready\n", "{status}: {line}{said}");
        (etc, tmp, said)
    }
}

fn place() -> Option<Place> {
    if library().is_stock() || !nix::unistd::geteuid().is_root() {
        eprintln!("not checked: only root can make a setuid program of root's");
        return None;
    }
    let place = Place::make();
    if place.is_none() {
        eprintln!("not checked: every file system here is mounted with nosuid");
    }
    place
}

#[test]
fn the_environment_of_a_setuid_server_chooses_no_file_and_no_library() {
    let Some(place) = place() else { return };
    chown(place.path("server"), Some(0), Some(0)).unwrap();
    set_permissions(place.path("server"), Permissions::from_mode(0o4755)).unwrap();
    for report in ["etc/precious", "etc/link", "etc/new"] {
        let (etc, tmp, said) = place.serve(USER, report);
        assert_eq!(etc, ["link", "precious"], "{report}");
        // The C library's start removes TMPDIR from the environment, so there is no message about it.
        assert_eq!(tmp, Vec::<String>::new(), "its sockets are elsewhere");
        let files = ["PMIX_MCA_ptl_base_report_uri", "PMIX_LAUNCHER_RNDZ_FILE"];
        for name in files.into_iter().chain(["PMIX_LAUNCHER_RNDZ_URI", "MODEX_SECURITY", "HWLOC_*"]) {
            assert!(said.contains(name), "no word of {name}:\n{said}");
        }
    }
    assert_eq!(fs::read_to_string(place.path("etc/precious")).unwrap(), "precious");
    // The same without the setuid bit: the program can harm only its own user's files.
    set_permissions(place.path("server"), Permissions::from_mode(0o755)).unwrap();
    chown(place.path("etc"), Some(USER), Some(USER)).unwrap();
    let (etc, tmp, said) = place.serve(USER, "etc/report");
    assert_eq!(etc, ["launcher", "link", "precious", "report"], "{said}");
    assert_ne!(tmp, Vec::<String>::new());
    assert_eq!(place.path("etc/report").metadata().unwrap().uid(), USER);
}

#[test]
fn an_ordinary_servers_report_takes_the_place_of_a_link_and_does_not_follow_it() {
    let Some(place) = place() else { return };
    let (etc, _, said) = place.serve(0, "etc/link");
    assert_eq!(etc, ["launcher", "link", "precious"], "{said}");
    assert_eq!(fs::read_to_string(place.path("etc/precious")).unwrap(), "precious");
    let link = place.path("etc/link");
    assert!(link.symlink_metadata().unwrap().is_file());
    assert!(fs::read_to_string(link).unwrap().contains(";tcp4://"));
    assert_eq!(place.names("etc"), ["link", "precious"], "the launcher's file goes with the server");
}
