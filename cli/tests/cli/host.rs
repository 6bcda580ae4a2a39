//! `modex host`: launchers that can't use the library, and the environment of one that can. tests/consumers has real
//! ones.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::launch::MODEX;

/// An installation of the command, with an empty library, and a directory for launchers.
struct Place {
    directory: TempDir,
}

impl Place {
    fn new() -> Self {
        // A neighbour of the command, because a link does not leave its file system.
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        for part in ["bin", "lib", "launchers"] {
            fs::create_dir(directory.path().join(part)).unwrap();
        }
        fs::hard_link(MODEX, directory.path().join("bin/modex")).unwrap();
        fs::write(directory.path().join("lib/libmodex-pmix.so"), "").unwrap();
        Self { directory }
    }

    fn launcher(&self, name: &str, contents: &[u8], mode: u32) -> PathBuf {
        let path = self.directory.path().join("launchers").join(name);
        fs::write(&path, contents).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    fn run(&self, words: &[&str]) -> Output {
        let path = format!("{}:/usr/bin:/bin", self.directory.path().join("launchers").display());
        let mut command = Command::new(self.directory.path().join("bin/modex"));
        command.env_remove("LD_PRELOAD").env_remove("PRTE_MCA_prte_launch_agent").env("PATH", path);
        command.env("LD_LIBRARY_PATH", format!("{}:/opt/other", self.directory.path().join("lib").display()));
        command.arg("host").args(words).output().unwrap()
    }

    /// The only line of a refusal.
    fn refusal(&self, words: &[&str]) -> String {
        self.failure(words, 125)
    }

    /// The only line of a command with this status.
    fn failure(&self, words: &[&str], status: i32) -> String {
        let output = self.run(words);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{words:?}: {error}");
        assert_eq!(error.lines().count(), 1, "{words:?}: {error}");
        error
    }
}

#[test]
fn a_launcher_that_can_not_use_the_library_is_refused_in_words() {
    let place = Place::new();
    let mut head = vec![0; 64];
    head[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    place.launcher("static-launcher", &head, 0o755);
    assert!(place.refusal(&["--", "static-launcher"]).contains("is linked statically"));
    // MPICH's mpiexec is such a program: dynamic, without PMIx.
    place.launcher("mpiexec", &fs::read("/bin/true").unwrap(), 0o755);
    assert!(place.refusal(&["mpiexec", "-n", "2"]).contains("loads no PMIx library"));
    if nix::unistd::geteuid().is_root() {
        let path = place.launcher("privileged", &fs::read("/bin/true").unwrap(), 0o755);
        std::os::unix::fs::chown(&path, Some(1), None).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o4755)).unwrap();
        assert!(place.refusal(&["privileged"]).contains("rights of its own"));
    }
    // Open MPI's launchers start the prterun beside them. Other programs have nothing to do with it.
    let prterun = place.launcher("prterun", &head, 0o755);
    place.launcher("unknown", &fs::read("/bin/true").unwrap(), 0o755);
    assert_eq!(place.run(&["unknown"]).status.code(), Some(0));
    assert!(place.refusal(&["mpiexec"]).contains("prterun\" is linked statically"));
    fs::remove_file(prterun).unwrap();
    assert!(place.refusal(&["mpiexec"]).contains("loads no PMIx library"));
    fs::rename(place.directory.path().join("lib"), place.directory.path().join("lib64")).unwrap();
    assert!(place.refusal(&["mpiexec"]).contains("loads no PMIx library"));
    fs::remove_file(place.directory.path().join("lib64/libmodex-pmix.so")).unwrap();
    assert!(place.refusal(&["mpiexec"]).contains("libmodex-pmix.so is not installed"));
}

/// Regression: each of these had the status 1, which a launcher may have, too.
#[test]
fn a_launcher_that_can_not_be_started_has_the_status_of_a_shell() {
    let place = Place::new();
    assert!(place.failure(&["--", "no-such-launcher"], 127).contains("there is no program \"no-such-launcher\""));
    assert!(place.failure(&["/no/such"], 127).contains("there is no program"));
    place.launcher("text", b"text", 0o644);
    let directory = place.directory.path().to_str().unwrap();
    for words in [["text"], [directory]] {
        assert!(place.failure(&words, 126).contains("is no program that this user may execute"));
    }
    place.launcher("lost", b"#!/no/such/interpreter\n", 0o755);
    assert!(place.failure(&["lost"], 127).contains("can't start"));
    place.launcher("ended", b"#!/bin/sh\nkill -s KILL $$\n", 0o755);
    assert_eq!(place.run(&["ended"]).status.signal(), Some(9));
    assert_eq!(place.run(&[]).status.code(), Some(2));
}

#[test]
fn a_script_and_what_it_starts_get_the_library() {
    let place = Place::new();
    let script =
        b"#!/bin/sh\necho \"$LD_PRELOAD\"\necho \"$PRTE_MCA_prte_launch_agent\"\necho \"$LD_LIBRARY_PATH\"\nexit 7\n";
    place.launcher("start", script, 0o755);
    let output = place.run(&["--", "start", "-n", "2"]);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let library = place.directory.path().canonicalize().unwrap().join("lib/libmodex-pmix.so");
    let expected = format!("{0}\nenv LD_PRELOAD={0} prted\n/opt/other\n", library.display());
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}
