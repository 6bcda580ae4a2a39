//! A helper process that cleans up when the launcher is killed with SIGKILL and can't do it itself.
//!
//! The guardian leads the process group that all ranks join. So the group exists before the first rank, and its number
//! needs no message. The guardian reads orders from a pipe and waits for the pipe's end. If the last order was not
//! `done`, the launcher died. Then the guardian kills the processes of the job, removes the job's directory and ends
//! with the group. After `done` it only removes the rest of the directory.
//!
//! If launcher and guardian are killed at once, the kernel kills the ranks' group. Both hold the writing end of a pipe,
//! and every rank inherits its reading end: the *tether*. When the last writer is gone and one process still has the
//! tether open, the kernel sends the group SIGKILL. Processes outside the group stay in this case. The directory goes
//! with the next launcher.

use std::io::{self, BufRead, Write};
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use modex::shmem::signal_group_on_hangup;
use nix::fcntl::OFlag;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, killpg};
use nix::unistd::{Pid, getpgrp, getpid, pipe2};
use rustix::io::{Errno, FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};

use super::job_processes::{self, Traits};
use super::session;

/// The hidden subcommand that runs the guardian.
pub(crate) const SUBCOMMAND: &str = "guardian";

/// The launcher's end. Dropping it tells the helper that the launcher has cleaned up, after success or failure.
#[derive(Debug)]
pub(crate) struct Guardian {
    process: Child,
    group: Pid,
    /// Closed to end the helper.
    orders: Option<ChildStdin>,
    /// Inherited by all processes that this one starts.
    _tether: OwnedFd,
    /// The helper has another copy.
    _writing_end: OwnedFd,
}

impl Guardian {
    /// Starts the helper and makes it responsible for a directory that need not exist yet. A Ctrl-C meant for the
    /// launcher does not reach the helper's group.
    pub(crate) fn start(directory: &Path) -> io::Result<Self> {
        let (reading_end, writing_end) = pipe2(OFlag::O_CLOEXEC)?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(SUBCOMMAND).stdin(Stdio::piped()).stdout(writing_end.try_clone()?).process_group(0);
        // The helper's group is asked to stop as a whole, perhaps before the helper has run. The helper must stay until
        // the end.
        let before = stop_signals().thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        let started = command.spawn();
        before.thread_set_mask()?;
        let mut process = started?;
        let orders = process.stdin.take();
        let group = Pid::from_raw(i32::try_from(process.id()).map_err(io::Error::other)?);
        signal_group_on_hangup(&reading_end, group, Signal::SIGKILL)?;
        let mut guardian =
            Self { process, group, orders, _tether: inheritable(&reading_end)?, _writing_end: writing_end };
        guardian.order(&[b"directory ", directory.as_os_str().as_bytes(), b"\n"].concat())?;
        Ok(guardian)
    }

    /// The process group for the processes of the job. Its number stays taken until the guardian is dropped.
    pub(crate) const fn group(&self) -> Pid {
        self.group
    }

    fn order(&mut self, line: &[u8]) -> io::Result<()> {
        self.orders.as_mut().map_or(Ok(()), |orders| orders.write_all(line))
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        // A helper that ended with its group is no loss: it had no work left.
        let _ = self.order(b"done\n");
        self.orders = None;
        let _ = self.process.wait();
    }
}

/// A copy for the processes that this one starts. Its number is above those that scripts redirect (`exec 3<file`).
fn inheritable(fd: &OwnedFd) -> io::Result<OwnedFd> {
    let copy = fcntl_dupfd_cloexec(fd, SCRIPTS_DESCRIPTORS).map_err(|reason| match reason {
        // The limit on descriptors is lower.
        Errno::INVAL => Errno::MFILE,
        other => other,
    })?;
    fcntl_setfd(&copy, FdFlags::empty())?;
    Ok(copy)
}

/// Shell scripts may redirect descriptors below this one.
const SCRIPTS_DESCRIPTORS: RawFd = 10;

/// The orders of the guardian so far.
#[derive(Debug, Default, PartialEq, Eq)]
struct Orders {
    directories: Vec<PathBuf>,
    done: bool,
}

impl Orders {
    fn read(input: impl BufRead) -> Self {
        let mut orders = Self::default();
        for line in input.split(b'\n').map_while(Result::ok) {
            if line == b"done" {
                orders.done = true;
            } else if let Some(directory) = line.strip_prefix(b"directory ") {
                orders.directories.push(PathBuf::from(std::ffi::OsString::from_vec(directory.to_vec())));
            }
        }
        orders
    }
}

/// The helper's main function: waits for the end of its input, and cleans up if the launcher has not done it.
pub(crate) fn run() -> u8 {
    let orders = Orders::read(io::stdin().lock());
    if orders.done {
        // A launcher without a free descriptor can't read its directory.
        for directory in orders.directories.iter().filter(|directory| is_ours(directory)) {
            let _ = std::fs::remove_dir_all(directory);
        }
        return 0;
    }
    // A user may have started this process by hand, in a group of other processes.
    let is_leader = getpgrp() == getpid();
    for directory in orders.directories.iter().filter(|directory| is_ours(directory)) {
        if is_leader {
            let directory_name = directory.file_name().map_or_else(Vec::new, |name| name.as_bytes().to_vec());
            job_processes::kill_all(&Traits { group: getpgrp().as_raw(), directory_name }, is_one);
        }
        // No process is left that could report a failure.
        let _ = std::fs::remove_dir_all(directory);
    }
    if is_leader {
        // A rank that was being started joins the group before it does anything else. If the group is gone, its start
        // fails.
        let _ = killpg(getpgrp(), Signal::SIGKILL);
    }
    0
}

/// The signals that the launcher sends its whole group.
fn stop_signals() -> SigSet {
    SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGTSTP])
}

/// Whether a process is a guardian. Guardians of other jobs are spared: each cleans up when its own launcher ends.
pub(super) fn is_one(process: i32) -> bool {
    let folder = PathBuf::from(format!("/proc/{process}"));
    let words = std::fs::read(folder.join("cmdline")).unwrap_or_default();
    let words: Vec<&[u8]> = words.split(|byte| *byte == 0).collect();
    let is_same_program = || {
        let programs = [std::fs::read_link(folder.join("exe")), std::fs::read_link("/proc/self/exe")];
        matches!(programs, [Ok(theirs), Ok(ours)] if theirs == ours)
    };
    matches!(words[..], [_, word, b""] if word == SUBCOMMAND.as_bytes()) && is_same_program()
}

/// Only directories that a launcher makes are ever removed.
fn is_ours(directory: &Path) -> bool {
    directory.is_absolute() && directory.file_name().is_some_and(session::is_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_read_line_by_line() {
        let orders = Orders::read(&b"directory /tmp/modex-run-1\n"[..]);
        assert_eq!(orders, Orders { directories: vec!["/tmp/modex-run-1".into()], done: false });
        assert!(Orders::read(&b"directory /tmp/modex-run-1\ndone\n"[..]).done);
    }

    #[test]
    fn only_directories_of_launchers_are_removed() {
        assert!(is_ours(Path::new("/tmp/modex-run-1-abc")));
        assert!(!is_ours(Path::new("/tmp")));
        assert!(!is_ours(Path::new("/tmp/modex-abc")));
        assert!(!is_ours(Path::new("modex-run-1")));
    }
}
