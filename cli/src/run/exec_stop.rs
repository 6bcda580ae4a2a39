//! Ranks that stop before the first instruction of their program (`PMIX_DEBUG_STOP_ON_EXEC`).
//!
//! The rank starts as this command, asks its launcher to trace it, and becomes the program. The kernel stops the rank at
//! exec. The launcher detaches with SIGSTOP. A debugger can then attach, and SIGCONT continues the rank.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

/// The hidden subcommand that becomes another program.
pub(crate) const SUBCOMMAND: &str = "stopped-exec";

/// The exit status of a rank that its launcher can't trace.
const NOT_TRACED: u8 = 125;

/// A command that becomes this program, stopped.
pub(super) fn command(program: &OsString) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(SUBCOMMAND).arg(program);
    Ok(command)
}

/// The main function of the subcommand. Returns only if the process can't become the program.
pub(crate) fn become_program(words: &[OsString]) -> u8 {
    let Some((program, arguments)) = words.split_first() else { return NOT_TRACED };
    if let Err(reason) = ptrace::traceme() {
        // The launcher sees the exit status.
        let _ = writeln!(io::stderr(), "modex: cannot be traced: {}", io::Error::from(reason));
        return NOT_TRACED;
    }
    let reason = Command::new(program).args(arguments).exec();
    if reason.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE }
}

/// The statuses of shells.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

/// Waits until a process of [`command`] has become its program, and leaves it stopped. The thread must be the one that
/// has started the process.
pub(super) fn stop_at_exec(process: u32) -> io::Result<()> {
    let pid = Pid::from_raw(i32::try_from(process).map_err(io::Error::other)?);
    loop {
        // An ended process stays for its reaper.
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WSTOPPED | WaitPidFlag::WNOWAIT;
        match waitid(Id::Pid(pid), flags) {
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
            Ok(WaitStatus::Exited(_, status)) => return Err(refusal(status)),
            Ok(WaitStatus::Signaled(..)) => return Err(io::Error::other("a signal ended it before its program")),
            Ok(WaitStatus::PtraceEvent(_, Signal::SIGTRAP, _)) => return Ok(ptrace::detach(pid, Signal::SIGSTOP)?),
            // The stop at exec follows anyway, so other stop signals are dropped.
            Ok(WaitStatus::PtraceEvent(_, Signal::SIGSTOP | Signal::SIGTSTP, _)) => ptrace::cont(pid, None)?,
            Ok(WaitStatus::PtraceEvent(_, signal, _)) => ptrace::cont(pid, signal)?,
            Ok(_) => {}
        }
    }
}

fn refusal(status: i32) -> io::Error {
    match u8::try_from(status) {
        Ok(NOT_FOUND) => io::ErrorKind::NotFound.into(),
        Ok(NOT_EXECUTABLE) => io::ErrorKind::PermissionDenied.into(),
        _ => io::Error::new(io::ErrorKind::Unsupported, "the system does not let the launcher stop it at exec"),
    }
}
