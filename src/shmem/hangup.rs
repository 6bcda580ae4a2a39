use std::os::fd::{AsFd, AsRawFd};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc::{F_SETOWN, c_int};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

/// Requests a signal for a process group when the last writer of a pipe is gone.
///
/// The signal comes as long as any process has the pipe's reading end open, or a copy of it. Writers must not write:
/// each write sends the signal, too.
///
/// # Errors
/// The errors of `fcntl`.
pub fn signal_group_on_hangup(reading_end: impl AsFd, group: Pid, signal: Signal) -> Result<(), Errno> {
    let fd = reading_end.as_fd();
    // SAFETY: the descriptor is open while it is borrowed. The command takes a number and touches no memory.
    Errno::result(unsafe { nix::libc::fcntl(fd.as_raw_fd(), F_SETOWN, -group.as_raw()) })?;
    // SAFETY: as above.
    Errno::result(unsafe { nix::libc::fcntl(fd.as_raw_fd(), F_SETSIG, signal as c_int) })?;
    let flags = OFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFL)?);
    fcntl(fd, FcntlArg::F_SETFL(flags | OFlag::O_ASYNC)).map(drop)
}

/// The `libc` crate has it for some C libraries only; the kernel's number is the same for all processors that Rust
/// knows.
const F_SETSIG: c_int = 10;
