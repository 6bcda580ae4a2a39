//! `make install` and `make uninstall`, as far as scripts/install.sh does them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::launch::MODEX;

/// A place with built files, and a prefix to install to.
struct Place {
    directory: TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { directory: tempfile::tempdir().unwrap() };
        fs::create_dir_all(place.built()).unwrap();
        std::os::unix::fs::symlink(MODEX, place.built().join("modex")).unwrap();
        fs::write(place.built().join("modex-topology"), "").unwrap();
        // The library is known by the text of `PMIx_Get_version`.
        let library = format!("\x7fELF\0modex-{} 4.2.9 (PMIx Standard: 4.2, ...)\0", env!("CARGO_PKG_VERSION"));
        fs::write(place.built().join("libpmix.so.2"), &library).unwrap();
        fs::write(place.built().join("libmodex-pmix.so"), library).unwrap();
        place
    }

    fn built(&self) -> PathBuf {
        self.directory.path().join("built")
    }

    fn prefix(&self) -> PathBuf {
        self.directory.path().join("prefix")
    }

    /// A file below the prefix.
    fn file(&self, name: &str, contents: &str) -> PathBuf {
        let path = self.prefix().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, contents).unwrap();
        path
    }

    fn make(&self, target: &str, force: &str) -> Output {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let settings =
            [format!("PREFIX={}", self.prefix().display()), format!("BUILT={}", self.built().display()), force.into()];
        Command::new("make")
            .env_remove("MAKEFLAGS")
            .arg("-s")
            .arg("-C")
            .arg(root)
            .arg(target)
            .args(settings)
            .output()
            .unwrap()
    }

    fn succeed(&self, target: &str, force: &str) {
        let output = self.make(target, force);
        assert!(output.status.success(), "{output:?}");
    }
}

#[test]
fn an_installation_can_be_repeated_and_removed() {
    let place = Place::new();
    place.succeed("install-only", "FORCE=");
    place.succeed("install-only", "FORCE=");
    let built = fs::read(place.built().join("libpmix.so.2")).unwrap();
    assert_eq!(fs::read(place.prefix().join("lib/libpmix.so")).unwrap(), built);
    assert_eq!(fs::read(place.prefix().join("lib/libmodex-pmix.so")).unwrap(), built);
    place.succeed("uninstall-only", "FORCE=");
    assert!(!place.prefix().join("lib/libmodex-pmix.so").exists());
    assert!(!place.prefix().join("lib/libpmix.so").exists() && !place.prefix().join("include/pmix.h").exists());
}

/// Regression: an installation replaced the library of OpenPMIx without a word, and then removed it.
#[test]
fn files_of_another_library_are_replaced_or_removed_on_request_alone() {
    for (name, contents) in [
        ("lib/libpmix.so.2", "OpenPMIx 5.0.3\0"),
        ("lib/libpmix.so", "OpenPMIx 5.0.3\0"),
        ("lib/pkgconfig/pmix.pc", "Name: pmix\nDescription: Process Management Interface for Exascale (PMIx)\n"),
        ("include/pmix_common.h", "/* Copyright (c) 2013-2020 Intel, Inc. */\n"),
    ] {
        let place = Place::new();
        let file = place.file(name, contents);
        for (target, verb) in [("install-only", "replace"), ("uninstall-only", "remove")] {
            let output = place.make(target, "FORCE=");
            let said = String::from_utf8(output.stderr).unwrap();
            let expected = format!(
                "error: {} belongs to another PMIx library; choose another PREFIX, or {verb} it with FORCE=1\n",
                file.display()
            );
            assert!(!output.status.success() && said.starts_with(&expected), "{said}");
            assert_eq!(fs::read_to_string(&file).unwrap(), contents);
        }
        assert!(!place.prefix().join("bin").exists(), "nothing else is installed");
        place.succeed("install-only", "FORCE=1");
        place.succeed("uninstall-only", "FORCE=");
        assert!(!file.exists());
    }
}
