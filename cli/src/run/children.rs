//! The ranks as processes: their start, the destination of their output, and their end.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use modex::Server;
use modex::os_error_hint::explain_start;
use modex::types::Status;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use rustix::process::{self, WaitId, WaitIdOptions};

use super::apps::App;
use super::exec_stop;
use super::job_processes;
use super::orphans::Orphans;
use super::rank_id::{FIRST_JOB, RankId};
use super::verdict::Ending;

/// Why a rank could not be started.
#[derive(Debug, thiserror::Error)]
#[error(
    "{rank}: cannot start {program:?}{}: {}{}{}",
    in_directory(.directory.as_deref()),
    about_interpreter(.interpreter.as_deref()),
    explain_start(.reason),
    about_descriptors(.reason, *.rank_count, *.file_count)
)]
pub(crate) struct SpawnError {
    /// The rank.
    rank: RankId,
    /// The number of ranks of all jobs.
    rank_count: usize,
    /// The number of files for their output.
    file_count: usize,
    /// The program.
    program: OsString,
    /// Its directory, if not the launcher's. The system's reason may be about the directory or the program.
    directory: Option<PathBuf>,
    /// The interpreter that the program's first line names, if it is missing.
    interpreter: Option<PathBuf>,
    /// The operating system's reason.
    reason: io::Error,
}

impl SpawnError {
    fn new(rank: RankId, (rank_count, file_count): (usize, usize), app: &App, reason: io::Error) -> Self {
        let is_missing = reason.kind() == io::ErrorKind::NotFound;
        let interpreter = is_missing.then(|| missing_interpreter(app)).flatten();
        let (program, directory) = (app.program.clone(), app.working_directory.clone());
        Self { rank, rank_count, file_count, program, directory, interpreter, reason }
    }

    /// The status for the process that asked for the rank's job.
    pub(super) fn status(&self) -> Status {
        match self.shell_status() {
            127 => Status::ERR_JOB_EXE_NOT_FOUND,
            126 => Status::ERR_JOB_APP_NOT_EXECUTABLE,
            _ if self.reason.kind() == io::ErrorKind::Unsupported => Status::ERR_NOT_SUPPORTED,
            _ => Status::ERR_JOB_FAILED_TO_LAUNCH,
        }
    }

    /// The launcher's exit status, as shells have it: the program was not found, or is not executable.
    pub(crate) fn shell_status(&self) -> u8 {
        let has_directory = self.directory.as_ref().is_none_or(|directory| directory.is_dir());
        match self.reason.kind() {
            io::ErrorKind::NotFound if has_directory => 127,
            io::ErrorKind::PermissionDenied if has_directory => 126,
            _ if self.reason.raw_os_error() == Some(Errno::ENOEXEC as i32) => 126,
            _ => 1,
        }
    }
}

/// The interpreter that a script names in its first line, if there is no such file. The system's reason is the same as
/// for a missing script.
fn missing_interpreter(app: &App) -> Option<PathBuf> {
    let directory = app.working_directory.clone().unwrap_or_default();
    let mut line = Vec::new();
    let script = File::open(directory.join(&app.program)).ok()?;
    BufReader::new(script.take(INTERPRETER_LINE_BYTES)).read_until(b'\n', &mut line).ok()?;
    let words = line.strip_prefix(b"#!")?.trim_ascii();
    let path = words.split(|byte| byte.is_ascii_whitespace()).next().map(OsStr::from_bytes)?;
    let interpreter = directory.join(path);
    (!path.is_empty() && !interpreter.exists()).then(|| path.into())
}

/// Linux reads this part of a script to find its interpreter.
const INTERPRETER_LINE_BYTES: u64 = 256;

fn about_interpreter(interpreter: Option<&Path>) -> String {
    interpreter.map_or_else(String::new, |path| format!("its interpreter {}: ", path.display()))
}

fn in_directory(directory: Option<&Path>) -> String {
    directory.map_or_else(String::new, |directory| format!(" in {}", directory.display()))
}

/// The number of descriptors that the job needs, if there were too few.
fn about_descriptors(reason: &io::Error, rank_count: usize, file_count: usize) -> String {
    if reason.raw_os_error() != Some(Errno::EMFILE as i32) {
        return String::new();
    }
    let needed = DESCRIPTORS_OF_LAUNCHER + DESCRIPTORS_OF_RANK * rank_count + file_count;
    format!("; a job of {rank_count} ranks needs {needed}")
}

/// Descriptors that suffice for the launcher without ranks, with the server's reserve.
const DESCRIPTORS_OF_LAUNCHER: usize = 40;

/// Descriptors that suffice for a rank: pipes for its output, its connection, and the server's reserve for that.
const DESCRIPTORS_OF_RANK: usize = 4;

/// One of a rank's two outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Channel {
    /// Standard output.
    Out,
    /// Standard error.
    Error,
}

impl Channel {
    /// Its name in marks of lines.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Out => "stdout",
            Self::Error => "stderr",
        }
    }
}

/// One rank's process. It is not reaped before the end of its job, so its process id can't come to mean another.
#[derive(Debug)]
struct Rank {
    process: Child,
    ended: bool,
}

/// Settings of a rank beside those of its program.
#[derive(Debug, Default)]
pub(super) struct RankSetup<'a> {
    /// The program, for the system's search.
    pub(super) program: OsString,
    /// A descriptor that it inherits under the same number.
    pub(super) inherited: Option<BorrowedFd<'a>>,
    /// Processors that it is bound to.
    pub(super) place: Option<&'a [usize]>,
    /// Whether it reads the launcher's input.
    pub(super) has_input: bool,
    /// Variables that it must not inherit.
    pub(super) removed: Vec<String>,
    /// Variables that the program's own settings may replace.
    pub(super) suggested: Vec<(&'static str, OsString)>,
    /// Variables that the launcher sets.
    pub(super) environment: Vec<(String, String)>,
    /// Whether its standard error is its standard output (`2>&1`).
    pub(super) is_merged: bool,
    /// Whether it stops before its first instruction.
    pub(super) stops_on_exec: bool,
}

/// All ranks of all jobs, in one process group.
#[derive(Debug)]
pub(super) struct Children {
    ranks: BTreeMap<RankId, Rank>,
    /// The number of ranks that there will be when the job that starts has all of its ranks.
    rank_count: usize,
    /// The number of files for their output.
    file_count: usize,
    /// The group exists as long as its leader, the guardian.
    group: Pid,
    orphans: Orphans,
    /// From then on the group's number may belong to other processes.
    is_finished: bool,
}

/// Bytes of a large pipe. A rank and the launcher wake each other up less often than with the usual 64 KiB.
const LARGE_PIPE_BYTES: i32 = 256 << 10;

/// The most ranks that get large pipes: 16 MiB in all. A user whose pipes have 64 MiB gets only small ones from Linux.
const LARGE_PIPES_MAX: usize = 64;

/// A rank that was just started, and its pipes.
pub(super) struct Pipes {
    pub(super) pid: u32,
    pub(super) out: OwnedFd,
    /// Standard error, unless it is standard output.
    pub(super) error: Option<OwnedFd>,
    pub(super) input: Option<ChildStdin>,
}

impl Children {
    /// A group without ranks.
    pub(super) fn new(group: Pid) -> Self {
        let orphans = Orphans::adopt(group);
        Self { ranks: BTreeMap::new(), rank_count: 0, file_count: 0, group, orphans, is_finished: false }
    }

    /// Announces a job with this many ranks. The output of all jobs goes to this number of files.
    pub(super) fn expect(&mut self, rank_count: usize, file_count: usize) {
        self.rank_count = self.ranks.len() + rank_count;
        self.file_count = file_count;
    }

    /// Starts a rank. A child inherits the starter's processors, so the rank is bound before it exists and never runs
    /// elsewhere.
    pub(super) fn spawn(&mut self, rank: RankId, app: &App, setup: &RankSetup<'_>) -> Result<Pipes, SpawnError> {
        let counts = (self.rank_count, self.file_count);
        let failed = |reason| SpawnError::new(rank, counts, app, reason);
        let program = &setup.program;
        let mut command = if setup.stops_on_exec { exec_stop::command(program) } else { Command::new(program) };
        let removed = setup.removed.iter().map(String::as_str).chain(Server::REMOVED_VARIABLES.iter().copied());
        removed.for_each(|name| {
            command.env_remove(name);
        });
        command.args(&app.arguments).envs(setup.suggested.iter().map(|(name, value)| (name, value)));
        app.removed.iter().for_each(|name| {
            command.env_remove(name);
        });
        command
            .envs(app.environment.iter().map(|(name, value)| (name, value)))
            .envs(setup.environment.iter().map(|(name, value)| (name, value)))
            .stdin(if setup.has_input { Stdio::piped() } else { no_input().map_err(failed)? })
            .stderr(Stdio::piped())
            .process_group(self.group.as_raw());
        if let Some(directory) = &app.working_directory {
            command.current_dir(directory);
        }
        let out = self.give_output(&mut command, setup.is_merged).map_err(failed)?;
        if let Some(inherited) = setup.inherited {
            // Only this thread starts ranks. A helper that another thread starts in this moment inherits the
            // descriptor, too, and ends soon.
            fcntl(inherited, FcntlArg::F_SETFD(FdFlag::empty())).map_err(|errno| failed(errno.into()))?;
        }
        let mut process = at_place(setup.place, || command.spawn()).map_err(failed)?;
        let error = process.stderr.take().map(OwnedFd::from);
        let input = process.stdin.take();
        let pid = process.id();
        self.ranks.insert(rank, Rank { process, ended: false });
        set_nonblocking(out.as_fd()).map_err(failed)?;
        error.as_ref().map_or(Ok(()), |error| set_nonblocking(error.as_fd())).map_err(failed)?;
        if setup.stops_on_exec {
            exec_stop::stop_at_exec(pid).map_err(failed)?;
        }
        Ok(Pipes { pid, out, error, input })
    }

    /// Gives a process a pipe for its standard output, and for both outputs if they are merged, so that their order
    /// stays. Returns the launcher's end. The other end is closed here with the command.
    fn give_output(&self, command: &mut Command, is_merged: bool) -> io::Result<OwnedFd> {
        let (reader, writer) = io::pipe()?;
        if self.rank_count <= LARGE_PIPES_MAX {
            // Where the user has no room left, the pipe keeps its size.
            let _ = fcntl(reader.as_fd(), FcntlArg::F_SETPIPE_SZ(LARGE_PIPE_BYTES));
        }
        if is_merged {
            command.stderr(writer.try_clone()?);
        }
        command.stdout(writer);
        Ok(reader.into())
    }

    /// The number of ranks that were started, without those of removed jobs.
    pub(super) fn count(&self) -> usize {
        self.ranks.len()
    }

    /// The process of the first rank of the first job that has not ended, as far as [`Children::take_ended`] has seen.
    pub(super) fn first_running(&self) -> Option<u32> {
        let of_first_job = self.ranks.iter().take_while(|(id, _)| id.job == FIRST_JOB);
        of_first_job.map(|(_, state)| state).find(|state| !state.ended).map(|state| state.process.id())
    }

    /// The process of a rank that has not ended.
    pub(super) fn running(&self, rank: RankId) -> Option<u32> {
        let state = self.ranks.get(&rank)?;
        (!state.ended).then(|| state.process.id())
    }

    /// Kills and reaps the ranks of a job. Their process ids may come to mean others.
    pub(super) fn remove(&mut self, job: u32) {
        for (_, mut state) in
            self.ranks.extract_if(RankId { job, rank: 0 }..=RankId { job, rank: u32::MAX }, |_, _| true)
        {
            // A rank that has ended can't be killed.
            let _ = state.process.kill();
            let _ = state.process.wait();
        }
    }

    /// The ranks that ended since the last call.
    pub(super) fn take_ended(&mut self) -> Vec<(RankId, Ending)> {
        let mut ended = Vec::new();
        for (&rank, state) in self.ranks.iter_mut().filter(|(_, state)| !state.ended) {
            let Some(pid) = i32::try_from(state.process.id()).ok().and_then(process::Pid::from_raw) else { continue };
            let flags = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            let ending = match process::waitid(WaitId::Pid(pid), flags) {
                Ok(Some(end)) => match (end.exit_status(), end.terminating_signal()) {
                    (Some(status), _) => Ending::Exited(u8::try_from(status & 0xFF).unwrap_or(u8::MAX)),
                    // Signals of real time have no name, but a number.
                    (None, Some(signal)) => Ending::Signaled(signal),
                    (None, None) => continue,
                },
                // Another process reaped it, so its exit status is lost.
                Err(rustix::io::Errno::CHILD) => Ending::Exited(u8::MAX),
                _ => continue,
            };
            state.ended = true;
            ended.push((rank, ending));
        }
        ended
    }

    /// Sends a signal to every process of the job. Does nothing if no process is left.
    pub(super) fn signal(&self, signal: Signal) {
        // The group exists until the guardian is reaped, so this call only fails if no process may be signalled.
        let _ = killpg(self.group, signal);
    }

    /// Passes a signal of the user on to the ranks that run, and not to the processes that they started. SIGUSR1
    /// reaches only ranks that it does not end, because it also asks the launcher for a report.
    pub(super) fn forward(&self, signal: Signal) {
        let is_meant = |process: u32| signal != Signal::SIGUSR1 || survives(process, signal);
        for state in self.ranks.values().filter(|state| !state.ended && is_meant(state.process.id())) {
            // A rank is not reaped before the end of the job, so its number can't belong to another process.
            let _ = i32::try_from(state.process.id()).map(|process| kill(Pid::from_raw(process), signal));
        }
    }

    /// Sends a signal to these ranks as far as they run, and not to the processes that they started. Returns whether
    /// the system permits it.
    pub(super) fn signal_ranks(&self, ranks: &BTreeSet<RankId>, signal: process::Signal) -> bool {
        let mut is_permitted = true;
        for process in self.processes(ranks).filter_map(process::Pid::from_raw) {
            is_permitted &= process::kill_process(process, signal) != Err(rustix::io::Errno::PERM);
        }
        is_permitted
    }

    /// Sends a signal to these ranks as far as they run, and to all processes that they started. Returns whether the
    /// system permits it.
    pub(super) fn signal_trees(&self, ranks: &BTreeSet<RankId>, signal: process::Signal) -> bool {
        job_processes::signal_trees(&self.processes(ranks).collect(), signal)
    }

    /// The numbers of processes that can't come to mean others: ranks are not reaped before the end of their job.
    fn processes(&self, ranks: &BTreeSet<RankId>) -> impl Iterator<Item = i32> {
        ranks.iter().filter_map(|rank| i32::try_from(self.running(*rank)?).ok())
    }

    /// The ranks that were started, without those of removed jobs.
    pub(super) fn ranks(&self) -> impl Iterator<Item = RankId> {
        self.ranks.keys().copied()
    }

    /// Whether a rank was started, and its job has not ended.
    pub(super) fn has(&self, rank: RankId) -> bool {
        self.ranks.contains_key(&rank)
    }

    /// Reaps processes that ranks have left and that have ended since.
    pub(super) fn reap_orphans(&self) {
        let ranks: BTreeSet<i32> =
            self.ranks.values().filter_map(|state| i32::try_from(state.process.id()).ok()).collect();
        self.orphans.reap_ended(|process| ranks.contains(&process));
    }

    /// Ends processes that the ranks have left, and then reaps the ranks. Their ids stay taken until then.
    pub(super) fn finish(&mut self) {
        if self.is_finished {
            return;
        }
        self.is_finished = true;
        self.signal(Signal::SIGKILL);
        for state in self.ranks.values_mut() {
            let _ = state.process.wait();
        }
        self.orphans.end();
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Whether a process has a handler for a signal, or blocks it to wait for it (proc(5)).
fn survives(process: u32, signal: Signal) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let has = |name: &str| {
        let mask = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
        mask >> (signal as i32 - 1) & 1 == 1
    };
    has("SigCgt") || has("SigBlk")
}

/// An input without data. The start of a program would report a missing `/dev/null` as a missing program.
fn no_input() -> io::Result<Stdio> {
    let unusable = |error| io::Error::other(format!("its standard input /dev/null can't be opened: {error}"));
    File::open("/dev/null").map(Stdio::from).map_err(unusable)
}

/// Runs `start` while the calling thread is bound to these processors.
fn at_place<T>(processors: Option<&[usize]>, start: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let Some(processors) = processors else { return start() };
    let this_thread = Pid::from_raw(0);
    let before = sched_getaffinity(this_thread)?;
    let mut place = CpuSet::new();
    for &processor in processors {
        place.set(processor)?;
    }
    sched_setaffinity(this_thread, &place)?;
    let started = start();
    sched_setaffinity(this_thread, &before)?;
    started
}

/// Makes reads and writes of a descriptor return at once.
pub(super) fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    let flags = OFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFL)?);
    fcntl(fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(())
}
