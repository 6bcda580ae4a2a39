//! The `modex` command, which another package of the workspace builds.

use std::path::PathBuf;

/// The file of this name, built beside this test.
pub(crate) fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.ancestors().nth(2).unwrap().join(name);
    assert!(path.is_file(), "no {}: `cargo build --package modex-cli` makes it", path.display());
    path
}
