//! The thread of a client's callbacks.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam::channel::{Receiver, RecvTimeoutError, bounded};
use parking_lot::Mutex;

use super::link::Link;
use crate::runtime::shared::threads::{acting_id, spawn};

/// Runs callbacks and event handlers, from the first one until the session is closed.
///
/// Either the thread runs a job that was begun with [`Progress::begin`], or `begin` refuses it.
#[derive(Default)]
pub(super) struct Progress(Mutex<State>);

#[derive(Default)]
enum State {
    /// No job yet.
    #[default]
    Idle,
    Running(Running),
    Closed,
}

struct Running {
    thread: JoinHandle<()>,
    /// Closed when the thread is about to end.
    ended: Receiver<()>,
}

impl Progress {
    /// Begins an operation that ends on the thread. Starts the thread if it does not run yet.
    ///
    /// # Errors
    /// The session is closed, or the thread could not be started. Nothing was begun.
    pub(super) fn begin<R>(&self, link: &Arc<Link>, begin: impl FnOnce(&Link) -> R) -> io::Result<R> {
        // Held during `begin`: a close comes before it and is seen, or after it and waits for it.
        let mut state = self.0.lock();
        match *state {
            State::Idle => *state = State::Running(start(link)?),
            State::Running(_) => {}
            State::Closed => return Err(io::ErrorKind::NotConnected.into()),
        }
        Ok(begin(link))
    }

    /// Whether the caller is the thread. It must not wait for results that only it can bring.
    pub(super) fn is_current(&self) -> bool {
        match &*self.0.lock() {
            State::Running(running) => running.thread.thread().id() == acting_id(),
            State::Idle | State::Closed => false,
        }
    }

    /// Shuts the link, and waits until the thread has run all pending jobs. Waits at most a second for a callback, and
    /// not at all inside a callback. It does not wait for an idle thread, which ends by itself. A wait would take two
    /// turns on the processor when all processes of a job end at once.
    pub(super) fn close(&self, link: &Link) {
        let state = std::mem::replace(&mut *self.0.lock(), State::Closed);
        let has_callbacks = link.shut();
        if let State::Running(Running { thread, ended }) = state
            && has_callbacks
            && thread.thread().id() != acting_id()
            && ended.recv_timeout(CALLBACK_TIME_MAX) != Err(RecvTimeoutError::Timeout)
        {
            // It catches panics of callbacks.
            let _ = thread.join();
        }
    }

    /// In a forked child the thread does not exist.
    pub(super) fn forget(&mut self) {
        std::mem::forget(std::mem::take(self.0.get_mut()));
    }
}

fn start(link: &Arc<Link>) -> io::Result<Running> {
    link.prepare_progress()?;
    let link = Arc::clone(link);
    let (running, ended) = bounded(0);
    let thread = spawn("modex-progress", move || {
        link.run_callbacks();
        drop(running);
    })?;
    Ok(Running { thread, ended })
}

/// How long a running callback may delay the close of a session.
const CALLBACK_TIME_MAX: Duration = Duration::from_secs(1);
