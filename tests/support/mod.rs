//! Jobs of real processes for integration tests: the test binary runs itself again as each client.
//!
//! A test file that uses this has a test named `client_process`. It does nothing in the parent, and in a child it plays
//! the role from the environment.

#![expect(dead_code, reason = "each test file uses its part of this")]

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;

use modex::types::{Info, Key, Namespace, ProcId, Value};
use modex::{BackingKind, Client, ConnectionLimits, Host, LocalHost, Server, keys};

pub(crate) const ROLE: &str = "MODEX_TEST_ROLE";

/// A machine with two packages of one core, and a network interface at the first.
pub(crate) const TWO_PACKAGES: &str = r#"<topology version="2.0"><object type="Machine" cpuset="0x3">
    <object type="Package" cpuset="0x1"><object type="Core" cpuset="0x1"><object type="PU" os_index="0" cpuset="0x1"/></object>
      <object type="OSDev" name="eth0" osdev_type="2"><info name="Address" value="02:00:00:00:00:01"/></object></object>
    <object type="Package" cpuset="0x2"><object type="Core" cpuset="0x2"><object type="PU" os_index="1" cpuset="0x2"/></object>
    </object></object></topology>"#;

/// The role of this process, if it is a child.
#[expect(clippy::disallowed_methods, reason = "a test binary is an edge")]
pub(crate) fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

pub(crate) fn namespace(name: &str) -> Namespace {
    Namespace::new(name).unwrap()
}

pub(crate) fn proc(name: &str, rank: u32) -> ProcId {
    ProcId::new(namespace(name), rank)
}

/// A job with these ranks on these nodes, for example `[("node0", "0,1"), ("node1", "2")]`.
pub(crate) fn description(job_size: u32, nodes: &[(&str, &str)]) -> Vec<Info> {
    let names: Vec<&str> = nodes.iter().map(|(name, _)| *name).collect();
    let ranks: Vec<&str> = nodes.iter().map(|(_, ranks)| *ranks).collect();
    vec![
        Info::new(Key::from_static(keys::JOB_SIZE.name()), job_size),
        Info::new(Key::from_static(keys::NODE_MAP.name()), Value::from(names.join(",").as_str())),
        Info::new(Key::from_static(keys::PROC_MAP.name()), Value::from(ranks.join(";").as_str())),
    ]
}

/// A server in a directory of its own, and the processes of one job on its node.
pub(crate) struct TestServer {
    pub(crate) server: Arc<Server>,
    pub(crate) directory: tempfile::TempDir,
}

impl TestServer {
    pub(crate) fn start(hostname: &str, host: impl Host) -> Self {
        Self::with_backing(hostname, host, BackingKind::Memfd)
    }

    /// A server with other limits of its connections.
    pub(crate) fn with_connection_limits(limits: ConnectionLimits) -> Self {
        Self::with_limits_and_host(limits, LocalHost)
    }

    pub(crate) fn with_limits_and_host(limits: ConnectionLimits, host: impl Host) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let builder = Server::builder().hostname("node0").tmpdir(directory.path()).connection_limits(limits);
        Self { server: Arc::new(builder.start(host).unwrap()), directory }
    }

    /// A server with another backing of its segments than memfds.
    pub(crate) fn with_backing(hostname: &str, host: impl Host, backing: BackingKind) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let builder = Server::builder().namespace("srv").hostname(hostname).tmpdir(directory.path()).backing(backing);
        let server = builder.start(host).unwrap();
        Self { server: Arc::new(server), directory }
    }

    /// A server that answers publish, lookup and unpublish itself, unless the host does.
    pub(crate) fn with_name_service(host: impl Host) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let builder = Server::builder().hostname("node0").tmpdir(directory.path()).name_service();
        Self { server: Arc::new(builder.start(host).unwrap()), directory }
    }

    pub(crate) fn local() -> Self {
        Self::start("node0", LocalHost)
    }

    /// Registers a job with all its processes on this node.
    pub(crate) fn register_local_job(&self, name: &str, size: u32) {
        let ranks: Vec<String> = (0..size).map(|rank| rank.to_string()).collect();
        let nodes = [("node0", ranks.join(","))];
        self.server
            .register_namespace(&namespace(name), size, description(size, &[(nodes[0].0, &nodes[0].1)]))
            .wait()
            .unwrap();
        (0..size).for_each(|rank| self.register_client(name, rank));
    }

    /// Registers a process of the user that runs the tests.
    pub(crate) fn register_client(&self, name: &str, rank: u32) {
        let (uid, gid) = ids();
        self.server.register_client(&proc(name, rank), uid, gid).wait().unwrap();
    }

    /// A client in this process.
    pub(crate) fn connect(&self, name: &str, rank: u32) -> Client {
        Client::builder().env(self.server.setup_fork(&proc(name, rank)).unwrap()).connect().unwrap()
    }

    /// As [`TestServer::connect`], for a client that can't reach the server's socket, and so gets no segment.
    pub(crate) fn connect_over_tcp(&self, name: &str, rank: u32) -> Client {
        let variables = self.server.setup_fork(&proc(name, rank)).unwrap();
        let client = Client::builder().env(without_socket(variables)).connect().unwrap();
        assert!(!client.reads_segment());
        client
    }

    /// A client in a process of its own.
    pub(crate) fn spawn(&self, name: &str, rank: u32, role: &str) -> Process {
        Process(self.command(name, rank, role).spawn().unwrap())
    }

    /// As [`TestServer::spawn`]. Its input stays open until the process is released.
    pub(crate) fn spawn_waiting(&self, name: &str, rank: u32, role: &str) -> Process {
        Process(self.command(name, rank, role).stdin(Stdio::piped()).spawn().unwrap())
    }

    /// As [`TestServer::spawn`], for another user.
    pub(crate) fn spawn_as(&self, name: &str, rank: u32, role: &str, uid: u32) -> Process {
        Process(self.command(name, rank, role).uid(uid).gid(uid).spawn().unwrap())
    }

    fn command(&self, name: &str, rank: u32, role: &str) -> Command {
        let mut command = this_binary(role);
        command.envs(self.server.setup_fork(&proc(name, rank)).unwrap());
        command
    }
}

/// Runs this binary as a process with a role, but as no client. Its input stays open until the process is released.
pub(crate) fn play(role: &str) -> Process {
    Process(this_binary(role).stdin(Stdio::piped()).spawn().unwrap())
}

/// The variables of a server's processes, without access to its UNIX-domain socket.
pub(crate) fn without_socket(variables: impl IntoIterator<Item = (String, String)>) -> Vec<(String, String)> {
    let hide = |(name, value): (String, String)| match name.as_str() {
        "MODEX_SERVER_URI" => (name, value.replace(";unix:/", ";unix:/nowhere/")),
        _ => (name, value),
    };
    variables.into_iter().map(hide).collect()
}

pub(crate) fn this_binary(role: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command
        .args(["--exact", "client_process", "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Effective ids of this process.
pub(crate) fn ids() -> (u32, u32) {
    (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw())
}

/// A client process. Killed and reaped when dropped.
pub(crate) struct Process(Child);

impl Process {
    /// The rest of the first line of its standard output with this text, behind the text.
    pub(crate) fn line_after(&mut self, text: &str) -> String {
        let mut line = Vec::new();
        let stdout = self.0.stdout.as_mut().unwrap();
        let mut byte = [0; 1];
        while stdout.read(&mut byte).unwrap() == 1 {
            line.push(byte[0]);
            if byte == *b"\n" {
                let seen = String::from_utf8(std::mem::take(&mut line)).unwrap();
                if let Some((_, rest)) = seen.split_once(text) {
                    return rest.trim_end().to_owned();
                }
            }
        }
        panic!("the process ended before it said {text:?}");
    }

    /// Waits for its end, which must be a success.
    pub(crate) fn succeed(self) {
        let _ = self.said();
    }

    /// As [`Process::succeed`]; returns its standard output.
    pub(crate) fn said(mut self) -> String {
        let status = self.0.wait().unwrap();
        let (mut out, mut err) = (String::new(), String::new());
        self.0.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        self.0.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        assert!(status.success(), "client ended with {status}:\n{out}\n{err}");
        out
    }

    /// A process of this binary, started with another command.
    pub(crate) const fn of(child: Child) -> Self {
        Self(child)
    }

    /// Its end, and both its outputs.
    pub(crate) fn end(mut self) -> (ExitStatus, String) {
        let status = self.0.wait().unwrap();
        let mut said = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        self.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (status, said)
    }

    /// Closes its input, and waits for its successful end.
    pub(crate) fn release(mut self) {
        drop(self.0.stdin.take());
        self.succeed();
    }

    /// Sends it a line.
    pub(crate) fn tell_line(&mut self) {
        self.0.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Waits for a line that ends with this text on its standard output.
    pub(crate) fn wait_for_line(&mut self, text: &str) {
        let mut seen = Vec::new();
        let stdout = self.0.stdout.as_mut().unwrap();
        let mut byte = [0; 1];
        while stdout.read(&mut byte).unwrap() == 1 {
            seen.push(byte[0]);
            if seen.ends_with(format!("{text}\n").as_bytes()) {
                return;
            }
        }
        panic!("the process ended before it said {text:?}: {}", String::from_utf8_lossy(&seen));
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails if it has ended and was reaped, as it should be.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The objects of this process's open descriptors.
pub(crate) fn descriptors() -> Vec<String> {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap();
    let links = entries.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
    links.map(|link| link.display().to_string()).collect()
}

/// Lines of this process's memory map with shared memory.
pub(crate) fn shared_mappings() -> Vec<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().filter(|line| line.contains("memfd") || line.contains("/dev/shm")).map(str::to_owned).collect()
}
