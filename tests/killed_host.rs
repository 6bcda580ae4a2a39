//! A host that is killed can't remove its socket. The next server of the same user does.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use modex::{LocalHost, Server};
use support::{role, this_binary};

const DIRECTORY: &str = "MODEX_TEST_DIRECTORY";

#[test]
#[expect(clippy::disallowed_methods, reason = "a test binary is an edge")]
fn client_process() {
    match role().as_deref() {
        Some("host") => {
            let _server = Server::builder().tmpdir(std::env::var(DIRECTORY).unwrap()).start(LocalHost).unwrap();
            println!("\nready");
            loop {
                std::thread::park();
            }
        }
        Some(other) => panic!("unknown role {other}"),
        None => {}
    }
}

fn entry_count(directory: &Path) -> usize {
    std::fs::read_dir(directory).unwrap().count()
}

#[test]
fn the_next_server_removes_what_a_killed_host_left() {
    let directory = tempfile::tempdir().unwrap();
    let mut host = this_binary("host").env(DIRECTORY, directory.path()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(host.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "ready"));
    let beside = Server::builder().tmpdir(directory.path()).start(LocalHost).unwrap();
    assert_eq!(entry_count(directory.path()), 2, "that of a server that lives must stay");
    drop(beside);
    host.kill().unwrap();
    host.wait().unwrap();
    assert_eq!(entry_count(directory.path()), 1, "nobody was left to remove it");
    let next = Server::builder().tmpdir(directory.path()).start(LocalHost).unwrap();
    assert_eq!(entry_count(directory.path()), 1);
    drop(next);
    assert_eq!(entry_count(directory.path()), 0);
}
