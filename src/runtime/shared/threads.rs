//! Threads of the library inside other programs.

use std::fs::File;
use std::io::{self, Read};
use std::thread::{Builder, JoinHandle};

use nix::sys::signal::SigSet;

/// Starts a thread that handles no signals, because they are for the program's own threads. It has the usual stack
/// size, because functions of the program run on it.
///
/// # Errors
/// No thread can be started.
pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    without_signals(|| Builder::new().name(name.to_owned()).stack_size(STACK_SIZE_BYTES).spawn(body))?
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
