//! Users are kept apart, with clients of any library: clients of OpenPMIx got other users' values over the socket. Only
//! root can run this.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, mpsc};

use modex::types::{Info, Key, Namespace, ProcId, Scope, Status, Value};
use modex::{Client, EventCall, LocalHost, Server, SocketAccess, keys};

use crate::library::{Library, repository};

const ALICE: u32 = 61_001;
const BOB: u32 = 61_002;

fn proc(name: &str) -> ProcId {
    ProcId::new(Namespace::new(name).unwrap(), 0)
}

/// The output of the program as a process of this job and user.
fn said(server: &Server, program: &Path, job: &str, uid: u32) -> Vec<String> {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=10", "100"]).arg(program).envs(server.setup_fork(&proc(job)).unwrap());
    let output = command.uid(uid).gid(uid).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_stock_client_reads_the_jobs_of_its_user_and_no_others() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("not checked: only root can start processes of other users");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    set_permissions(directory.path(), Permissions::from_mode(0o711)).unwrap();
    let program = directory.path().join("users");
    Library::stock().headers()[0].compile(&[repository().join("tests/interop/users.c")], &program);
    let builder = Server::builder().tmpdir(directory.path()).access(SocketAccess::RegisteredUsers);
    let server = builder.hostname("node0").start(LocalHost).unwrap();
    for (name, uid) in [("alices", 0), ("second", 0), ("bobs", BOB), ("of-alice", ALICE)] {
        let info = |key: &str, value: Value| Info::new(Key::new(key.to_owned()).unwrap(), value);
        let description = vec![
            info(keys::JOB_SIZE.name(), Value::from(1_u32)),
            info(keys::NODE_MAP.name(), Value::from("node0")),
            info(keys::PROC_MAP.name(), Value::from("0")),
        ];
        server.register_namespace(&proc(name).namespace, 1, description).wait().unwrap();
        server.register_client(&proc(name), uid, uid).wait().unwrap();
    }
    // A client in this process, and so of root.
    let client = Client::builder().env(server.setup_fork(&proc("alices")).unwrap()).connect().unwrap();
    client.put(Scope::Global, "global", 1_u32).unwrap();
    client.commit().unwrap();
    let (heard, hears) = mpsc::channel();
    let heard = Mutex::new(heard);
    let handler = move |call: EventCall| {
        heard.lock().unwrap().send(call.source.clone()).unwrap();
        call.complete(Status::SUCCESS, Vec::new());
    };
    client.register_event_handler(&[Status::from_raw(4711)], &[], handler).wait().unwrap();
    let refused = ["init SUCCESS", "value NOT-FOUND", "size NOT-FOUND", "finalize SUCCESS"];
    for (job, uid) in [("bobs", BOB), ("of-alice", ALICE)] {
        assert_eq!(said(&server, &program, job, uid), refused, "{job}");
    }
    let permitted = ["init", "value", "size", "finalize"].map(|what| format!("{what} SUCCESS"));
    assert_eq!(said(&server, &program, "second", 0), permitted);
    assert_eq!(hears.recv().unwrap(), Some(proc("second")), "the others' events came earlier, and not at all");
}
