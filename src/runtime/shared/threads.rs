//! Threads of the library inside other programs.

use std::cell::Cell;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::thread::{Builder, JoinHandle, ThreadId};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::SigSet;

/// Starts a thread that handles no signals, because they are for the program's own threads. It has the usual stack
/// size, because functions of the program run on it.
///
/// # Errors
/// No thread can be started.
pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    let body = move || {
        IS_OF_LIBRARY.set(true);
        body();
    };
    without_signals(|| Builder::new().name(name.to_owned()).stack_size(STACK_SIZE_BYTES).spawn(body))?
}

thread_local! {
    static IS_OF_LIBRARY: Cell<bool> = const { Cell::new(false) };
    static CALLS_HOST: Cell<bool> = const { Cell::new(false) };
    static ACTS_AS: Cell<Option<ActingThread>> = const { Cell::new(None) };
}

/// Whether the caller is a thread of the library.
#[must_use]
pub fn is_thread_of_library() -> bool {
    IS_OF_LIBRARY.get()
}

/// A thread on whose behalf something runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActingThread {
    id: ThreadId,
    calls_host: bool,
}

impl ActingThread {
    /// The caller itself.
    #[must_use]
    pub fn of_this() -> Self {
        Self { id: std::thread::current().id(), calls_host: CALLS_HOST.get() }
    }
}

/// The thread on whose behalf the caller runs: itself, or that of [`act_as`].
#[must_use]
pub fn acting_thread() -> ActingThread {
    ACTS_AS.get().unwrap_or_else(ActingThread::of_this)
}

/// The identity of [`acting_thread`].
pub(in crate::runtime) fn acting_id() -> ThreadId {
    acting_thread().id
}

/// Makes the caller the thread that calls the host.
pub(in crate::runtime) fn become_host_thread() {
    CALLS_HOST.set(true);
}

/// Whether the caller runs on behalf of the thread that calls the host.
pub(in crate::runtime) fn is_host_thread() -> bool {
    acting_thread().calls_host
}

/// Runs a call on behalf of a thread that waits for it. Waits that only this thread can end are refused inside it, as on
/// the thread itself.
pub fn act_as<R>(thread: ActingThread, call: impl FnOnce() -> R) -> R {
    /// Restores the earlier state, also after a panic.
    struct Restored(Option<ActingThread>);
    impl Drop for Restored {
        fn drop(&mut self) {
            ACTS_AS.set(self.0);
        }
    }
    let _restored = Restored(ACTS_AS.replace(Some(thread)));
    call()
}

/// Runs `act` with all signals blocked on this thread.
///
/// # Errors
/// The signal mask can't be changed.
pub(in crate::runtime) fn without_signals<R>(act: impl FnOnce() -> R) -> io::Result<R> {
    let before = SigSet::all().thread_swap_mask(nix::sys::signal::SigmaskHow::SIG_SETMASK)?;
    let result = act();
    before.thread_set_mask()?;
    Ok(result)
}

/// Calls `ended` when the other end of a pipe or socket is closed, on a thread that waits for it. The end of a pipe may be
/// the reading one, or the writing one, as from OpenPMIx. Bytes that come mean nothing.
///
/// # Errors
/// No thread can be started.
pub fn watch_for_end(pipe: File, ended: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let watch = move || {
        // The kernel always reports a closed end and an error. An interrupted wait begins again; no other one fails.
        while matches!(poll(&mut [PollFd::new(pipe.as_fd(), PollFlags::empty())], PollTimeout::NONE), Err(Errno::EINTR))
        {
        }
        ended();
    };
    spawn("modex-parent", watch).map(drop)
}

/// Opens a pipe that this process has inherited under this number once more.
///
/// # Errors
/// There is no such descriptor, or it is no pipe.
pub fn open_inherited_pipe(number: u32) -> io::Result<File> {
    let path = format!("/proc/self/fd/{number}");
    // The mode of the link is that of the descriptor. The other end would be a new one of this process.
    let is_writing_end = fs::symlink_metadata(&path)?.permissions().mode() & 0o200 != 0;
    if !fs::metadata(&path)?.file_type().is_fifo() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    OpenOptions::new().read(!is_writing_end).write(is_writing_end).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)
}

/// Size of a program's first stack; unused pages cost no memory.
const STACK_SIZE_BYTES: usize = 8 << 20;

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::sync::mpsc;

    use nix::fcntl::OFlag;
    use nix::unistd::pipe2;

    use super::*;

    /// Regression: OpenPMIx gives a launcher the writing end of the pipe. A read from that end fails, and the tool counted as
    /// ended at once.
    #[test]
    fn the_end_of_the_other_side_is_seen_from_both_ends_of_a_pipe() {
        for is_writing_end in [false, true] {
            let (reading, writing) = pipe2(OFlag::O_CLOEXEC).unwrap();
            let (own, other) = if is_writing_end { (writing, reading) } else { (reading, writing) };
            let again = open_inherited_pipe(own.as_raw_fd().try_into().unwrap()).unwrap();
            let (sender, ended) = mpsc::channel();
            watch_for_end(again, move || sender.send(()).unwrap()).unwrap();
            let mut other = File::from(other);
            // Bytes are no end.
            if !is_writing_end {
                other.write_all(b"x").unwrap();
            }
            assert_eq!(ended.try_recv(), Err(mpsc::TryRecvError::Empty));
            drop(other);
            assert_eq!(ended.recv(), Ok(()));
        }
    }

    #[test]
    fn only_a_pipe_is_opened() {
        let directory = tempfile::tempdir().unwrap();
        let file = File::create(directory.path().join("file")).unwrap();
        for number in [file.as_raw_fd().try_into().unwrap(), u32::MAX] {
            assert!(open_inherited_pipe(number).is_err());
        }
    }
}
