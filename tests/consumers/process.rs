//! Consumers as processes, with the library under test and no inherited variable that could choose another.
#![allow(dead_code, reason = "each test that shares this uses its part")]

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tempfile::TempDir;

use crate::library::Library;

/// A hanging consumer is ended after this time, so that the tests end. Nothing else depends on it.
const HANG_SECONDS: &str = "300";

/// A command to run with the library under test.
pub(crate) struct Consumer {
    command: Command,
    input: Vec<u8>,
    /// Whether its input stays open until [`Running::close_input`].
    keeps_input: bool,
    temporary: TempDir,
}

/// The end of a consumer, and its output.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) out: Vec<u8>,
    pub(crate) err: String,
    /// Names of the files that it left in its temporary directory.
    pub(crate) left: Vec<String>,
}

impl Consumer {
    pub(crate) fn new<S: AsRef<OsStr>>(library: &Library, program: S) -> Self {
        // The directory is in the paths of the consumer's sockets and shared files, so it must be short.
        let temporary = tempfile::Builder::new().prefix("mc-").tempdir_in("/tmp").unwrap();
        let mut command = Command::new("timeout");
        command.args(["--kill-after=10", HANG_SECONDS]).arg(program.as_ref());
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            if ["PMIX_", "OMPI_", "OPAL_", "ORTE_", "MODEX_", "LD_"].iter().any(|prefix| name.starts_with(prefix)) {
                command.env_remove(&*name);
            }
        }
        if let Some(directory) = &library.directory {
            command.env("LD_LIBRARY_PATH", directory);
        }
        command.env("TMPDIR", temporary.path());
        Self { command, input: Vec::new(), keeps_input: false, temporary }
    }

    pub(crate) fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    pub(crate) fn args<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.command.args(arguments);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn input(mut self, bytes: Vec<u8>) -> Self {
        self.input = bytes;
        self
    }

    /// Keeps its input open until [`Running::close_input`].
    pub(crate) fn input_open(mut self) -> Self {
        self.keeps_input = true;
        self
    }

    /// Runs it to its end.
    pub(crate) fn run(self) -> Ended {
        self.start().wait()
    }

    pub(crate) fn start(mut self) -> Running {
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().unwrap_or_else(|error| panic!("{:?}: {error}", self.command));
        let mut stdin = child.stdin.take().unwrap();
        let input = self.input;
        let kept = Arc::new(Mutex::new(None));
        let keeper = self.keeps_input.then(|| Arc::clone(&kept));
        // A consumer may end without reading its input.
        let writer = thread::spawn(move || {
            drop(stdin.write_all(&input));
            if let Some(keeper) = keeper {
                *keeper.lock().unwrap() = Some(stdin);
            }
        });
        let out = Arc::new(Mutex::new(Vec::new()));
        let err = Arc::new(Mutex::new(Vec::new()));
        let pipes = [collect(child.stdout.take().unwrap(), &out), collect(child.stderr.take().unwrap(), &err), writer];
        Running { child, input: kept, pipes, out, err, temporary: self.temporary, what: format!("{:?}", self.command) }
    }
}

/// A running consumer.
pub(crate) struct Running {
    child: Child,
    input: Arc<Mutex<Option<ChildStdin>>>,
    pipes: [JoinHandle<()>; 3],
    out: Arc<Mutex<Vec<u8>>>,
    err: Arc<Mutex<Vec<u8>>>,
    temporary: TempDir,
    what: String,
}

impl Running {
    /// The number of the process, a `timeout` whose child is the consumer.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends it as a user does with `kill`.
    pub(crate) fn terminate(&self) {
        let pid = nix::unistd::Pid::from_raw(self.child.id().try_into().unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    }

    /// Whether it has closed its output.
    pub(crate) fn is_closed(&self) -> bool {
        self.pipes[0].is_finished()
    }

    /// Its temporary directory.
    pub(crate) fn temporary(&self) -> &Path {
        self.temporary.path()
    }

    /// Ends its input.
    pub(crate) fn close_input(&self) {
        wait_for(|| self.pipes[2].is_finished());
        drop(self.input.lock().unwrap().take());
    }

    /// Its output so far.
    pub(crate) fn transcript(&self) -> String {
        String::from_utf8_lossy(&self.out.lock().unwrap()).into_owned()
    }

    /// Its messages so far.
    pub(crate) fn messages(&self) -> String {
        String::from_utf8_lossy(&self.err.lock().unwrap()).into_owned()
    }

    /// Waits for a killed consumer.
    pub(crate) fn bury(mut self) {
        self.child.wait().unwrap();
        self.pipes.into_iter().for_each(|pipe| pipe.join().unwrap());
    }

    /// Waits until it has written this line, or has closed its output.
    pub(crate) fn wait_for_line(&self, line: &str) {
        wait_for(|| {
            let closed = self.pipes[0].is_finished();
            let out = String::from_utf8_lossy(&self.out.lock().unwrap()).into_owned();
            closed || out.lines().any(|found| found == line)
        });
    }

    pub(crate) fn wait(mut self) -> Ended {
        let status = self.child.wait().unwrap();
        self.pipes.into_iter().for_each(|pipe| pipe.join().unwrap());
        let mut left: Vec<String> = fs::read_dir(self.temporary.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        left.sort();
        let err = String::from_utf8_lossy(&self.err.lock().unwrap()).into_owned();
        let ended = Ended { status, out: std::mem::take(&mut *self.out.lock().unwrap()), err, left };
        let hung = status.code() == Some(124) || status.signal() == Some(9);
        assert!(!hung, "{} did not end in {HANG_SECONDS} s\n{}", self.what, ended.transcript());
        ended
    }
}

/// Waits for a condition that another process brings about.
pub(crate) fn wait_for(condition: impl Fn() -> bool) {
    while !condition() {
        thread::sleep(Duration::from_millis(10));
    }
}

fn collect(mut pipe: impl Read + Send + 'static, into: &Arc<Mutex<Vec<u8>>>) -> JoinHandle<()> {
    let into = Arc::clone(into);
    thread::spawn(move || {
        let mut bytes = vec![0; 1 << 16];
        while let Ok(count @ 1..) = pipe.read(&mut bytes) {
            into.lock().unwrap().extend_from_slice(&bytes[..count]);
        }
    })
}

impl Ended {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.out).into_owned()
    }

    /// Lines of its output, sorted, because ranks write in any order.
    pub(crate) fn sorted(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.text().lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }

    /// Fails unless it ended with success.
    pub(crate) fn success(self) -> Self {
        self.code(0)
    }

    /// Fails unless it ended with this exit code.
    pub(crate) fn code(self, code: i32) -> Self {
        assert_eq!(self.status.code(), Some(code), "{:?}\n{}", self.status, self.transcript());
        self
    }

    /// Fails unless there is a line `library PATH`, and every such line names this library.
    pub(crate) fn loaded_only(&self, library: &Library) {
        let text = self.text();
        let files: Vec<PathBuf> = text
            .lines()
            .filter_map(|line| line.strip_prefix("library "))
            .map(|path| fs::canonicalize(path).unwrap_or_else(|error| panic!("{path}: {error}")))
            .collect();
        let ours = !files.is_empty() && files.iter().all(|file| *file == library.file);
        assert!(ours, "expected {} and found {files:?}\n{}", library.file.display(), self.transcript());
    }

    pub(crate) fn transcript(&self) -> String {
        format!("--- standard output:\n{}--- standard error:\n{}", self.text(), self.err)
    }
}
