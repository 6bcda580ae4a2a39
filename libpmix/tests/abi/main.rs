//! The C library and its headers agree with `spec/`.
//!
//! - `headers`: the generated headers agree with the tables, with compilers and with Debian's headers.
//! - `exports`: the shared library exports exactly the functions of `spec/abi_functions.tsv`.
//! - `install`: what `make install` installs is complete.
//! - `support`: `cli/src/abi/functions_table.rs`, which `modex info --api` prints, agrees with the docs in
//!   `libpmix/src`.
//!
//! Generated are `modex/{attributes,constants,functions,types}.h` and `pmix{,_server,_tool}.h` in `libpmix/include`,
//! and `cli/src/abi/functions_table.rs`. After a change of a table in `spec/`, of a generator, or of a `Support:` line:
//!
//! ```sh
//! MODEX_BLESS=1 cargo test --test abi
//! ```

#![expect(clippy::unwrap_used, reason = "a failure to read or run is the test's failure")]

#[path = "../../../tests/support/command.rs"]
mod command;
mod exports;
mod facts;
mod headers;
mod install;
mod render;
mod support;
mod tables;

use std::fs;
use std::path::Path;
use std::process::Command;

/// Checks that the file on disk equals `text`. With `MODEX_BLESS` set, writes the file instead.
fn assert_generated(path: &str, text: &str) {
    let path = root().join(path);
    if variable("MODEX_BLESS").is_some() {
        fs::write(path, text).unwrap();
        return;
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == text, "{} is not what its source says; run MODEX_BLESS=1 cargo test --test abi", path.display());
}

/// Runs a command to its end and returns its output. A status other than 0 fails with the command's messages.
fn run(command: &mut Command) -> String {
    let described = format!("{command:?}");
    let output = command.output().unwrap_or_else(|error| panic!("cannot run {described}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{described} ended with {}:\n{errors}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

#[expect(clippy::disallowed_methods, reason = "a test binary is an edge; it has no configuration object")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}
