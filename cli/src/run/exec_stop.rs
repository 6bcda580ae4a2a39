//! Ranks that stop before the first instruction of their program (`PMIX_DEBUG_STOP_ON_EXEC`).
//!
//! The rank starts as this command, asks its launcher to trace it, and becomes the program. The kernel stops the rank
//! at exec. The launcher detaches with SIGSTOP. A debugger can then attach, and SIGCONT continues the rank.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use nix::sys::ptrace;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::io::Errno;
use rustix::process::{WaitId, WaitIdOptions, waitid};

/// The hidden subcommand that becomes another program.
pub(crate) const SUBCOMMAND: &str = "stopped-exec";

/// The exit status of a rank that its launcher can't trace.
const NOT_TRACED: u8 = 125;

/// A command that becomes this program, stopped.
pub(super) fn command(program: &OsString) -> Command {
    // The file itself, also if another one has got its name.
    let mut command = Command::new("/proc/self/exe");
    command.arg(SUBCOMMAND).arg(program);
    command
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

/// Waits until a process of [`command`] has become its program, and leaves it stopped. Kills the process otherwise. The
/// thread must be the one that has started the process.
pub(super) fn stop_at_exec(process: u32) -> io::Result<()> {
    stop_within(process, EXEC_LOOKS_MAX)
}

/// Looks at a process that becomes its program, a millisecond apart. This is a few seconds, during which the launcher
/// does nothing else.
const EXEC_LOOKS_MAX: u32 = 3000;

fn stop_within(process: u32, looks_max: u32) -> io::Result<()> {
    let pid = Pid::from_raw(i32::try_from(process).map_err(io::Error::other)?);
    let stopped = (0..looks_max).find_map(|_| look(pid).transpose());
    let stopped =
        stopped.unwrap_or_else(|| Err(io::Error::new(io::ErrorKind::TimedOut, "it does not reach its program")));
    if stopped.is_err() {
        // An ended process stays for its reaper, so the number is still its own.
        let _ = kill(pid, Signal::SIGKILL);
    }
    stopped
}

/// Looks once at the process, and continues it if it has not become its program. `None`: it needs time.
fn look(pid: Pid) -> io::Result<Option<()>> {
    let id = rustix::process::Pid::from_raw(pid.as_raw()).ok_or(io::ErrorKind::InvalidInput)?;
    let options = WaitIdOptions::EXITED | WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    let status = match waitid(WaitId::Pid(id), options) {
        Err(Errno::INTR) => None,
        status => status?,
    };
    if let Some(status) = status {
        if let Some(status) = status.exit_status() {
            return Err(refusal(status));
        }
        let by_signal = || io::Error::other("a signal ended it before its program");
        if status.killed() || status.dumped() {
            return Err(by_signal());
        }
        if let Some(signal) = status.trapping_signal() {
            // Signals of real time end a process that has no handler.
            match Signal::try_from(signal).map_err(|_| by_signal())? {
                Signal::SIGTRAP => return Ok(Some(ptrace::detach(pid, Signal::SIGSTOP)?)),
                // The stop at exec follows anyway, so other stop signals are dropped.
                Signal::SIGSTOP | Signal::SIGTSTP => ptrace::cont(pid, None)?,
                signal => ptrace::cont(pid, signal)?,
            }
            return Ok(None);
        }
    }
    // It runs, or somebody has stopped it before its launcher traces it.
    std::thread::sleep(Duration::from_millis(1));
    Ok(None)
}

fn refusal(status: i32) -> io::Error {
    match u8::try_from(status) {
        Ok(NOT_FOUND) => io::ErrorKind::NotFound.into(),
        Ok(NOT_EXECUTABLE) => io::ErrorKind::PermissionDenied.into(),
        _ => io::Error::new(io::ErrorKind::Unsupported, "the system does not let the launcher stop it at exec"),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    /// A process that somebody stopped in this moment made the launcher spin for ever.
    #[test]
    fn a_process_that_does_not_become_its_program_is_killed_in_time() {
        for signal in [None, Some(Signal::SIGSTOP)] {
            let mut process = Command::new("sleep").arg("1000").spawn().unwrap();
            kill(Pid::from_raw(i32::try_from(process.id()).unwrap()), signal).unwrap();
            assert_eq!(stop_within(process.id(), 20).unwrap_err().kind(), io::ErrorKind::TimedOut);
            assert_eq!(process.wait().unwrap().signal(), Some(9));
        }
    }
}
