//! A launcher under test.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

/// The variable that holds the task of a rank that is this test binary.
pub(crate) const ROLE: &str = "MODEX_TEST_ROLE";
/// The variable that has the same value in every process of one launcher.
const MARK: &str = "MODEX_TEST_MARK";

/// The command under test.
pub(crate) const MODEX: &str = env!("CARGO_BIN_EXE_modex");

/// The start parameters.
pub(crate) struct Launch {
    command: Command,
    input: Option<Vec<u8>>,
    temporary: TempDir,
    mark: String,
}

/// A command that runs.
pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) out: BufReader<Box<dyn Read + Send>>,
    pub(crate) err: BufReader<Box<dyn Read + Send>>,
    temporary: TempDir,
    mark: String,
}

/// The exit status and the messages.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// `modex` with these arguments.
pub(crate) fn modex<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Launch {
    modex_with_signals(&[], arguments)
}

/// The same, started through `env` with these options for its signals.
pub(crate) fn modex_with_signals<S: AsRef<OsStr>>(signals: &[&str], arguments: impl IntoIterator<Item = S>) -> Launch {
    let arguments = arguments.into_iter().map(|argument| argument.as_ref().to_owned());
    through_env(signals.iter().chain([&MODEX]).map(OsString::from).chain(arguments))
}

/// A shell with job control on a terminal of its own. It runs this script, which may start `$MODEX`.
pub(crate) fn on_a_terminal(script: &str) -> Launch {
    through_env(["script", "-qec", "exec bash -mc \"$SCRIPT\"", "/dev/null"].into_iter().map(OsString::from))
        .env("SCRIPT", script)
        .env("MODEX", MODEX)
        .env("SHELL", "/bin/sh")
}

/// A command of these words, started through `env`.
fn through_env(words: impl Iterator<Item = OsString>) -> Launch {
    static LAST: AtomicU32 = AtomicU32::new(0);
    let temporary = tempfile::tempdir().unwrap();
    let mark = format!("{}-{}", std::process::id(), LAST.fetch_add(1, Ordering::Relaxed));
    // A shell that runs the tests in the background may ignore interrupts for them, and processes inherit that.
    let mut command = Command::new("env");
    command
        .arg("--default-signal=INT,QUIT")
        .args(words)
        .env("TMPDIR", temporary.path())
        .env(MARK, &mark)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Launch { command, input: None, temporary, mark }
}

/// `modex run` with these options and, as every rank, this script. A rank finds its number in `$PMIX_RANK`.
pub(crate) fn script(options: &[&str], script: &str) -> Launch {
    let options = options.iter().copied();
    modex(["run"].into_iter().chain(options).chain(["--", "sh", "-c", script]))
}

/// `modex run` with these options. Every rank is this test binary with a role of `client_process`.
pub(crate) fn role(options: &[&str], role: &str) -> Launch {
    let this = std::env::current_exe().unwrap();
    let words = [this.to_str().unwrap(), "--exact", "client_process", "--nocapture"];
    modex([&["run"], options, &["--"], &words].concat()).env(ROLE, role)
}

impl Launch {
    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Bytes for its standard input.
    pub(crate) fn input(mut self, bytes: &str) -> Self {
        self.command.stdin(Stdio::piped());
        self.input = Some(bytes.as_bytes().to_vec());
        self
    }

    /// An input that the test itself writes to, or closes.
    pub(crate) fn open_input(mut self) -> Self {
        self.command.stdin(Stdio::piped());
        self
    }

    pub(crate) fn out_to(mut self, out: impl Into<Stdio>) -> Self {
        self.command.stdout(out);
        self
    }

    pub(crate) fn err_to(mut self, err: impl Into<Stdio>) -> Self {
        self.command.stderr(err);
        self
    }

    /// Removes these variables of the test's own environment.
    pub(crate) fn without(mut self, names: &[&str]) -> Self {
        for name in names {
            self.command.env_remove(name);
        }
        self
    }

    /// Starts it; an output that goes elsewhere reads as empty.
    pub(crate) fn start(mut self) -> Running {
        let mut child = self.command.spawn().unwrap();
        if let Some(input) = self.input {
            give(child.stdin.take().unwrap(), input);
        }
        let nothing = || Box::new(std::io::empty()) as Box<dyn Read + Send>;
        let out = child.stdout.take().map_or_else(nothing, |pipe| Box::new(pipe));
        let err = child.stderr.take().map_or_else(nothing, |pipe| Box::new(pipe));
        let (out, err) = (BufReader::new(out), BufReader::new(err));
        Running { child, out, err, temporary: self.temporary, mark: self.mark }
    }

    /// Runs it to its end. Nothing may be left afterwards.
    pub(crate) fn run(self) -> Ended {
        self.start().finish()
    }
}

impl Running {
    /// The next line of its standard output.
    pub(crate) fn line(&mut self) -> String {
        next_line(&mut self.out)
    }

    /// The next so many bytes of its standard output.
    pub(crate) fn bytes(&mut self, count: usize) -> String {
        let mut bytes = vec![0; count];
        self.out.read_exact(&mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    /// The next line of its standard error.
    pub(crate) fn error_line(&mut self) -> String {
        next_line(&mut self.err)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
    }

    /// Waits for its end. Nothing may be left afterwards.
    pub(crate) fn finish(mut self) -> Ended {
        let mut out = Vec::new();
        let mut err = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| self.out.read_to_end(&mut out).unwrap());
            scope.spawn(|| self.err.read_to_end(&mut err).unwrap());
        });
        let status = self.child.wait().unwrap();
        wait_until(|| processes(&self.mark).is_empty());
        assert_eq!(entries(self.temporary.path()), Vec::<PathBuf>::new(), "files are left behind");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Ended { status, out: text(out), err: text(err) }
    }

    /// Kills the launcher and waits until everything of its job is gone.
    pub(crate) fn kill_launcher(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        wait_until(|| processes(&self.mark).is_empty());
        wait_until(|| entries(self.temporary.path()).is_empty());
    }

    /// Kills launcher and guardian at once and waits until all processes of the job have ended. Returns the launcher's
    /// `TMPDIR`.
    pub(crate) fn kill_launcher_and_guardian(mut self) -> TempDir {
        let guardian = self.guardian();
        // The guardian can't act between its launcher's end and its own.
        kill(Pid::from_raw(guardian), Signal::SIGSTOP).unwrap();
        let both = [self.child.id().to_string(), guardian.to_string()];
        assert!(Command::new("kill").arg("-KILL").args(both).status().unwrap().success());
        self.child.wait().unwrap();
        wait_until(|| processes(&self.mark).is_empty());
        std::mem::replace(&mut self.temporary, tempfile::tempdir().unwrap())
    }

    /// The guardian's process.
    pub(crate) fn guardian(&self) -> i32 {
        let ends_with_its_word = |process: &i32| {
            fs::read(format!("/proc/{process}/cmdline")).is_ok_and(|words| words.ends_with(b"\0guardian\0"))
        };
        self.processes().into_iter().find(ends_with_its_word).unwrap()
    }

    /// Processes of this job, the launcher and the guardian included.
    pub(crate) fn processes(&self) -> Vec<i32> {
        processes(&self.mark)
    }

    /// The directory of its files.
    pub(crate) fn temporary(&self) -> &Path {
        self.temporary.path()
    }

    pub(crate) fn temporary_files(&self) -> Vec<PathBuf> {
        entries(self.temporary.path())
    }
}

impl Drop for Running {
    /// A failed test leaves nothing running either: every process with the mark belongs to it.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        for process in processes(&self.mark) {
            let _ = kill(Pid::from_raw(process), Signal::SIGKILL);
        }
    }
}

impl Ended {
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Its output. The command must succeed without messages.
    pub(crate) fn success(self) -> String {
        assert!(self.status.success() && self.err.is_empty(), "{self:?}");
        self.out
    }

    /// Lines of its output in alphabetical order.
    pub(crate) fn sorted(self) -> Vec<String> {
        let mut lines: Vec<String> = self.success().lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }
}

/// Waits for a condition. A test whose condition never comes ends after a time on which nothing else depends.
pub(crate) fn wait_until(mut is_met: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !is_met() {
        assert!(begun.elapsed() < HANG_TIME, "the condition did not come in {HANG_TIME:?}");
        std::thread::yield_now();
    }
}

const HANG_TIME: std::time::Duration = std::time::Duration::from_secs(300);

/// Whether a process exists and is not a zombie.
pub(crate) fn is_alive(process: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Living processes with this mark. The environment of an ended process is empty.
fn processes(mark: &str) -> Vec<i32> {
    let wanted = format!("{MARK}={mark}");
    let numbers = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_marked = |process: &i32| {
        let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
    };
    numbers.filter(is_marked).collect()
}

pub(crate) fn entries(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect()
}

fn next_line(source: &mut impl BufRead) -> String {
    let mut line = String::new();
    source.read_line(&mut line).unwrap();
    line
}

/// Feeds a pipe from a separate thread, because the pipe may have no reader.
fn give(mut pipe: ChildStdin, bytes: Vec<u8>) {
    std::thread::spawn(move || pipe.write_all(&bytes));
}
