//! A helper process that cleans up when the launcher is killed with SIGKILL and can't do it itself.
//!
//! It leads the process group that all ranks join, so the group exists before the first rank and nobody has to be told
//! its number. It reads orders from a pipe and waits for its end. If the last order was not `done`, the launcher died:
//! the guardian kills what belongs to the job, removes its directory and ends with the group. If it was, what is left of the
//! directory is all there is to remove.
//!
//! If launcher and guardian are killed at once, the kernel kills the ranks' group. Both hold the writing end of a pipe, and every
//! rank inherits its reading end: the *tether*. The kernel sends the group SIGKILL when the last writer is gone, as long as one
//! process still has the tether open. Processes outside the group stay in this case. The directory goes with the next launcher.

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

/// The launcher's end. Dropping it relieves the helper: the launcher has cleaned up, whichever way it got there.
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
        // Its group is asked to stop as a whole, perhaps before it has run a line of its own, and it stays until the end.
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
        // A helper that ended with its group is not missed: there is nothing left for it to do.
        let _ = self.order(b"done\n");
        self.orders = None;
        let _ = self.process.wait();
    }
}

/// A copy for the processes that this one starts, out of the way of scripts' own redirections (`exec 3<file`).
fn inheritable(fd: &OwnedFd) -> io::Result<OwnedFd> {
    let copy = fcntl_dupfd_cloexec(fd, SCRIPTS_DESCRIPTORS).map_err(|reason| match reason {
        // The limit on descriptors is lower.
        Errno::INVAL => Errno::MFILE,
        other => other,
    })?;
    fcntl_setfd(&copy, FdFlags::empty())?;
    Ok(copy)
}

/// Shells' scripts may redirect the descriptors below this one.
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

/// The helper's life: waits for the end of its input and cleans up if nobody else did.
pub(crate) fn run() -> u8 {
    let orders = Orders::read(io::stdin().lock());
    if orders.done {
        // A launcher that has no descriptor left can't go through its directory.
        for directory in orders.directories.iter().filter(|directory| is_ours(directory)) {
            let _ = std::fs::remove_dir_all(directory);
        }
        return 0;
    }
    // Somebody may have started this by hand, in a group of others.
    let is_leader = getpgrp() == getpid();
    for directory in orders.directories.iter().filter(|directory| is_ours(directory)) {
        if is_leader {
            let directory_name = directory.file_name().map_or_else(Vec::new, |name| name.as_bytes().to_vec());
            job_processes::kill_all(&Traits { group: getpgrp().as_raw(), directory_name }, is_one);
        }
        // Nobody is left to tell about a failure.
        let _ = std::fs::remove_dir_all(directory);
    }
    if is_leader {
        // A rank that was only just being started joins the group before it does anything, or fails when it is gone.
        let _ = killpg(getpgrp(), Signal::SIGKILL);
    }
    0
}

/// The signals that the launcher sends its whole group.
fn stop_signals() -> SigSet {
    SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM])
}

/// Whether a process is a guardian. Other jobs' guardians are spared: each cleans up when its own launcher ends.
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
