//! Stops this process when its user presses Ctrl-Z.

use nix::sys::signal::{Signal, raise};
use nix::unistd::{Pid, getpgid, getpgrp, getppid, getsid};

use super::job_processes::parent_of;

/// Stops all threads of this process. Returns when it is continued.
pub(crate) fn stop_this_process() {
    // SIGTSTP has a handler here, and the kernel stops a process at a signal without one.
    let _ = raise(Signal::SIGSTOP);
}

/// Whether a shell with job control can continue this process: the kernel's own condition for SIGTSTP. An ancestor
/// outside of the process group must be in the same session.
pub(crate) fn can_be_continued() -> bool {
    let (group, Ok(session)) = (getpgrp(), getsid(None)) else { return false };
    let mut ancestor = getppid();
    while ancestor.as_raw() > 0 && getsid(Some(ancestor)) == Ok(session) {
        if getpgid(Some(ancestor)).is_ok_and(|other| other != group) {
            return true;
        }
        let Some(parent) = parent_of(ancestor.as_raw()) else { return false };
        ancestor = Pid::from_raw(parent);
    }
    false
}
