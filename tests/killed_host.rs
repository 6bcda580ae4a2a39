//! A host that is killed can't remove its socket. The next server of the same user does.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use modex::{LocalHost, Server, ToolAdmission, ToolSupport};
use support::{role, this_binary};

const DIRECTORY: &str = "MODEX_TEST_DIRECTORY";
const NAME: &str = "MODEX_TEST_NAME";

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
        Some("tool host") => {
            let _server = serve(Path::new(&std::env::var(DIRECTORY).unwrap()), &std::env::var(NAME).unwrap());
            println!("\nready");
            loop {
                std::thread::park();
            }
        }
        Some(other) => panic!("unknown role {other}"),
        None => {}
    }
}

/// A server that admits tools.
fn serve(directory: &Path, name: &str) -> Server {
    let tools = ToolSupport { admission: ToolAdmission::Assigned, ..ToolSupport::default() };
    Server::builder().namespace(name).tmpdir(directory).tools(tools).start(LocalHost).unwrap()
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

/// A killed server left the files by which tools find it. They filled the directory for temporary files. Only a server
/// with the same name or process number removed them.
#[test]
fn the_next_server_removes_the_files_by_which_tools_found_a_killed_one() {
    let directory = tempfile::tempdir().unwrap();
    let mut hosts = ["killed", "alive"].map(|name| {
        let mut command = this_binary("tool host");
        command.env(DIRECTORY, directory.path()).env(NAME, name).stdout(Stdio::piped());
        let mut host = command.spawn().unwrap();
        let mut lines = BufReader::new(host.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap() == "ready"));
        host
    });
    // A socket, a file with the process number, and one with the namespace.
    let of_one = 3;
    for (host, left) in hosts.iter_mut().zip([1, 0]) {
        host.kill().unwrap();
        host.wait().unwrap();
        assert_eq!(entry_count(directory.path()), (left + 1) * of_one, "nobody was left to remove them");
        let next = serve(directory.path(), "next");
        assert_eq!(entry_count(directory.path()), (left + 1) * of_one, "those of a server that lives must stay");
        drop(next);
        assert_eq!(entry_count(directory.path()), left * of_one);
    }
}
