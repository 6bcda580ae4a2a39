//! The one reading of standard input in this process, and its end in a forked child.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::thread::ThreadId;

use modex::types::{Info, ProcId};
use parking_lot::{Condvar, Mutex};

/// The reading, for as long as it goes on.
pub(super) struct Reading {
    pub(super) shared: Arc<Shared>,
    /// Its end wakes the thread.
    pub(super) waker: UnixStream,
    pub(super) thread: ThreadId,
}

impl Reading {
    pub(super) fn stop(&mut self) {
        self.shared.state.lock().targets.clear();
        // A thread that is over has closed its end.
        let _ = self.waker.write(&[1]);
    }
}

pub(super) struct Shared {
    pub(super) state: Mutex<State>,
    pub(super) changed: Condvar,
    pub(super) directives: Vec<Info>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) targets: Vec<ProcId>,
    /// Nothing more is read: the input has ended, or a push has failed.
    pub(super) is_closed: bool,
    /// The thread is about to end.
    pub(super) is_over: bool,
}

/// One process has one standard input. Null before the first reading; what it points to is never freed.
static READING: AtomicPtr<Mutex<Option<Reading>>> = AtomicPtr::new(std::ptr::null_mut());
/// The parent's reading, in a forked child. Unused; it shows a leak checker that the memory is not lost.
static OF_PARENT: AtomicPtr<Mutex<Option<Reading>>> = AtomicPtr::new(std::ptr::null_mut());

pub(super) fn reading() -> Option<&'static Mutex<Option<Reading>>> {
    let found = READING.load(Ordering::Acquire);
    // SAFETY: null, or leaked by `reading_or_new`; Acquire pairs with the Release there.
    unsafe { found.as_ref() }
}

pub(super) fn reading_or_new() -> &'static Mutex<Option<Reading>> {
    if let Some(found) = reading() {
        return found;
    }
    let made = Box::into_raw(Box::new(Mutex::new(None)));
    match READING.compare_exchange(std::ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: made above, and never freed from here on.
        Ok(_) => unsafe { &*made },
        Err(theirs) => {
            // SAFETY: made above by `Box`, and nobody has seen it.
            drop(unsafe { Box::from_raw(made) });
            // SAFETY: leaked by the thread that won.
            unsafe { &*theirs }
        }
    }
}

/// In a forked child the reading stays the parent's: another thread may hold its lock, and the child shares its waker.
/// Runs right after the fork.
pub(super) fn forget_after_fork() {
    let before = READING.swap(std::ptr::null_mut(), Ordering::AcqRel);
    if !before.is_null() {
        OF_PARENT.store(before, Ordering::Release);
        // Nobody reads it, so the compiler would drop it.
        std::hint::black_box(&OF_PARENT);
    }
}
