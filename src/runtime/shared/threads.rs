//! Threads of the library inside other programs.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read};
use std::thread::{Builder, JoinHandle, ThreadId};

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

/// Calls `ended` when the other end of a pipe is closed, on a thread that waits for it.
///
/// # Errors
/// No thread can be started.
pub fn watch_for_end(mut pipe: File, ended: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let watch = move || {
        // The bytes mean nothing, and an error is an end.
        let mut buffer = [0; 64];
        while pipe.read(&mut buffer).is_ok_and(|size| size > 0) {}
        ended();
    };
    spawn("modex-parent", watch).map(drop)
}

/// Size of a program's first stack; unused pages cost no memory.
const STACK_SIZE_BYTES: usize = 8 << 20;
