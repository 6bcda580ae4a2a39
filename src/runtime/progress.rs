//! The thread of a client's callbacks.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam::channel::{Receiver, RecvTimeoutError, bounded};
use parking_lot::Mutex;

use super::link::Link;
use super::threads::spawn;

/// Runs callbacks and event handlers, from the first that is asked for until the session is closed.
///
/// What is begun with [`Progress::begin`] is run: either the thread gets it, or it is refused.
#[derive(Default)]
pub(super) struct Progress(Mutex<State>);

#[derive(Default)]
enum State {
    /// Nothing has needed it.
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
    /// Begins something whose end is for the thread, which is started if it does not run yet.
    ///
    /// # Errors
    /// The session is closed, or the thread could not be started. Nothing was begun.
    pub(super) fn begin<R>(&self, link: &Arc<Link>, begin: impl FnOnce(&Link) -> R) -> io::Result<R> {
        // Held until it has begun: what closes the session comes before, and is seen, or after, and waits for it.
        let mut state = self.0.lock();
        match *state {
            State::Idle => *state = State::Running(start(link)?),
            State::Running(_) => {}
            State::Closed => return Err(io::ErrorKind::NotConnected.into()),
        }
        Ok(begin(link))
    }

    /// Whether the caller is the thread: it must not wait for what only the thread can bring.
    pub(super) fn is_current(&self) -> bool {
        match &*self.0.lock() {
            State::Running(running) => running.thread.thread().id() == std::thread::current().id(),
            State::Idle | State::Closed => false,
        }
    }

    /// Shuts the link, and waits until the thread has run what was begun: not longer than a second for a callback, and
    /// not when one is what calls this. A thread that has nothing left to run ends by itself: waiting for that would take
    /// two turns on the processor, and a job's processes end all at once.
    pub(super) fn close(&self, link: &Link) {
        let state = std::mem::replace(&mut *self.0.lock(), State::Closed);
        let has_callbacks = link.shut();
        if let State::Running(Running { thread, ended }) = state
            && has_callbacks
            && thread.thread().id() != std::thread::current().id()
            && ended.recv_timeout(CALLBACK_TIME_MAX) != Err(RecvTimeoutError::Timeout)
        {
            // It catches what callbacks throw.
            let _ = thread.join();
        }
    }

    /// In a forked child: the thread is the parent's.
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

/// How long a callback that runs may keep who closes the session.
const CALLBACK_TIME_MAX: Duration = Duration::from_secs(1);
