//! Threads of the library inside other programs.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, JoinHandle, ThreadId};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::SigSet;
use parking_lot::Mutex;

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

/// Handles all items on up to so many threads, and waits for them. The results have the order of the items. The caller
/// is one of the threads, so those that can't be started cost time alone.
pub fn handle_all<T: Sync, R: Send>(
    name: &str,
    threads_max: usize,
    items: &[T],
    handle: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let (next, results) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let handle_some = || {
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(place) else { return };
            let result = handle(item);
            results.lock().insert(place, result);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..items.len().min(threads_max) {
            let body = || {
                IS_OF_LIBRARY.set(true);
                handle_some();
            };
            let _ = without_signals(|| Builder::new().name(name.to_owned()).spawn_scoped(scope, body));
        }
        handle_some();
    });
    results.into_inner().into_values().collect()
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

/// Runs a call on behalf of a thread that waits for it. Waits that only this thread can end are refused inside it, as
/// on the thread itself.
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

/// Calls `ended` when the other end of a pipe or socket is closed, on a thread that waits for it. The end of a pipe may
/// be the reading one, or the writing one, as from OpenPMIx. Bytes that come mean nothing. Other files count as ended.
///
/// # Errors
/// No thread can be started.
pub fn watch_for_end(pipe: File, ended: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let watch = move || {
        has_ended(&pipe, PollTimeout::NONE);
        ended();
    };
    spawn("modex-parent", watch).map(drop)
}

/// Whether the other end is closed. Waits for the end, but not longer than `limit`.
fn has_ended(pipe: &File, limit: PollTimeout) -> bool {
    // The kernel never reports the end of such a file.
    let is_watchable = |kind: fs::FileType| kind.is_fifo() || kind.is_socket();
    if !pipe.metadata().is_ok_and(|found| is_watchable(found.file_type())) {
        return true;
    }
    // The kernel always reports a closed pipe and an error, and the end of a socket's input on request.
    let wanted = PollFlags::from_bits_retain(nix::libc::POLLRDHUP);
    let mut polled = [PollFd::new(pipe.as_fd(), wanted)];
    loop {
        match poll(&mut polled, limit) {
            Ok(0) => return false,
            // An interrupted wait begins again; no other one fails.
            Err(Errno::EINTR) => {}
            _ => return true,
        }
    }
}

/// Takes a pipe that this process has inherited under this number. Processes that it starts do not inherit it any more.
///
/// # Errors
/// There is no such descriptor, or it is no inherited pipe, or one of the three standard streams.
pub fn open_inherited_pipe(number: u32) -> io::Result<File> {
    let path = format!("/proc/self/fd/{number}");
    // The mode of the link is that of the descriptor. The other end would be a new one of this process.
    let is_writing_end = fs::symlink_metadata(&path)?.permissions().mode() & 0o200 != 0;
    if number <= 2 || !is_inherited(number)? || !fs::metadata(&path)?.file_type().is_fifo() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut options = OpenOptions::new();
    let options = options.read(!is_writing_end).write(is_writing_end).custom_flags(OFlag::O_NONBLOCK.bits());
    let pipe = options.open(path)?;
    nix::unistd::close(i32::try_from(number).map_err(io::Error::other)?)?;
    Ok(pipe)
}

/// Whether a descriptor comes from the program that has started this one: all descriptors of this process's own are
/// closed on exec.
fn is_inherited(number: u32) -> io::Result<bool> {
    let fdinfo = fs::read_to_string(format!("/proc/self/fdinfo/{number}"))?;
    let flags = fdinfo.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok());
    Ok(flags.is_some_and(|flags| flags & OFlag::O_CLOEXEC.bits() == 0))
}

/// Size of a program's first stack; unused pages cost no memory.
const STACK_SIZE_BYTES: usize = 8 << 20;

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc;

    use nix::unistd::pipe2;

    use super::*;

    fn has_ended_by_now(pipe: &File) -> bool {
        has_ended(pipe, PollTimeout::ZERO)
    }

    /// The end of a pipe as it is after an exec, and the other end.
    fn inherited_pipe(is_writing_end: bool) -> (u32, OwnedFd) {
        let (reading, writing) = pipe2(OFlag::empty()).unwrap();
        let (own, other) = if is_writing_end { (writing, reading) } else { (reading, writing) };
        (own.into_raw_fd().try_into().unwrap(), other)
    }

    #[test]
    fn all_items_are_handled_by_several_threads_in_their_order() {
        let items: Vec<usize> = (0..100).collect();
        // Each waits for another one, so a single thread would not end.
        let meeting = std::sync::Barrier::new(2);
        let handled = handle_all("test", 2, &items, |item| {
            meeting.wait();
            item * 2
        });
        assert_eq!(handled, items.iter().map(|item| item * 2).collect::<Vec<_>>());
        assert!(handle_all("test", 8, &[0; 0], |item: &i32| *item).is_empty());
    }

    /// Regression: OpenPMIx gives a launcher the writing end of the pipe. A read from that end fails, and the tool
    /// counted as ended at once.
    #[test]
    fn the_end_of_the_other_side_is_seen_from_both_ends_of_a_pipe() {
        for is_writing_end in [false, true] {
            let (number, other) = inherited_pipe(is_writing_end);
            let pipe = open_inherited_pipe(number).unwrap();
            let mut other = File::from(other);
            // Bytes are no end.
            if !is_writing_end {
                other.write_all(b"x").unwrap();
            }
            assert!(!has_ended_by_now(&pipe));
            drop(other);
            assert!(has_ended_by_now(&pipe), "the descriptor of that number is still open, or the end is not seen");
            let (sender, ended) = mpsc::channel();
            watch_for_end(pipe, move || sender.send(()).unwrap()).unwrap();
            assert_eq!(ended.recv(), Ok(()));
        }
    }

    #[test]
    fn the_end_of_a_sockets_input_is_an_end_and_no_other_file_is_watched() {
        let (own, other) = UnixStream::pair().unwrap();
        let own = File::from(OwnedFd::from(own));
        assert!(!has_ended_by_now(&own));
        other.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(has_ended_by_now(&own));
        assert!(has_ended_by_now(&File::open("/dev/null").unwrap()));
        assert!(has_ended_by_now(&tempfile::tempfile().unwrap()));
    }

    #[test]
    fn only_an_inherited_pipe_is_opened() {
        let directory = tempfile::tempdir().unwrap();
        let file = File::create(directory.path().join("file")).unwrap();
        let (own, _other) = pipe2(OFlag::O_CLOEXEC).unwrap();
        for number in [file.as_raw_fd().try_into().unwrap(), own.as_raw_fd().try_into().unwrap(), 0, 1, 2, u32::MAX] {
            assert!(open_inherited_pipe(number).is_err(), "{number}");
        }
    }
}
