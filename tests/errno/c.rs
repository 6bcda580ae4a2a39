//! As `errno`, for a C program with the C library, over both kinds of socket.
#![cfg(target_arch = "x86_64")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "a test binary is an edge")]

#[path = "../support/command.rs"]
mod command;
mod faults;
#[expect(dead_code, reason = "one program is compiled here")]
#[path = "../consumers/library.rs"]
mod library;
#[expect(dead_code, reason = "the victim is a program of its own, and the server is not traced")]
mod roles;
#[path = "../support/mod.rs"]
mod support;
#[expect(dead_code, reason = "the server is not traced")]
mod sweep;
mod tracer;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use faults::KINDS;
use support::role;
use sweep::{Wire, clients_sweep};

#[test]
fn client_process() {
    match role().as_deref() {
        Some("peer") => roles::peer(),
        Some(other) => panic!("unknown role {other}"),
        None => {}
    }
}

#[test]
fn a_program_in_c_to_which_the_kernel_says_no_goes_on_or_says_why() {
    clients_sweep("c-client", Wire::Own, &KINDS[1..], victim);
}

#[test]
fn so_does_one_that_speaks_as_clients_of_the_reference_do() {
    clients_sweep("c-tcp-client", Wire::Reference, &KINDS[1..], victim);
}

fn victim() -> Command {
    let mut command = Command::new(program());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(directory) = &library::library().directory {
        command.env("LD_LIBRARY_PATH", directory);
    }
    command
}

/// The program, compiled once.
fn program() -> &'static PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let directory = tempfile::Builder::new().prefix("errno-in-c").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let program = directory.keep().join("life");
        let headers = library::library().headers();
        let ours = headers.iter().find(|headers| headers.name == "ours").unwrap();
        ours.compile(&[library::repository().join("tests/errno/life.c")], &program);
        program
    })
}
