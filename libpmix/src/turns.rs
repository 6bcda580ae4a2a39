//! External progress (`PMIX_EXTERNAL_PROGRESS`): functions of the program run inside `PMIx_Progress` alone.
//!
//! ```text
//! thread of the library ── in_turn(call) ──► waits ── ... ──► goes on with the result
//!                               │                      ▲
//!                               └─► queue ─► PMIx_Progress runs the call on the program's thread
//! ```
//!
//! The library keeps its threads for sockets and for the order of calls. A thread that is about to call a function of
//! the program hands the call over, and waits until it has run.
//!
//! - **E1** A call that is handed over runs once, while its owner waits, or never. So it may borrow from its owner.
//! - **E2** One call runs at a time. `PMIx_Progress` inside such a call, or beside it, returns at once.
//! - **E3** A finalization runs the calls that are due on its own thread. Calls that are left at its end never run.
//! - **E4** A forked child has no external progress until it asks for it.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};
use std::sync::mpsc::{TryRecvError, channel};
use std::time::Duration;

use modex::keys;
use modex::runtime::{ActingThread, act_as, acting_thread, is_thread_of_library, spawn_thread};
use modex::types::{Info, InfoFlags, Status, Value};
use parking_lot::{Condvar, Mutex};

use crate::guard::Failure;

/// A call that waits. The pointer is valid until the call has left the queue and has run (E1).
struct Waiting {
    number: u64,
    thread: ActingThread,
    call: *mut (dyn FnMut() + 'static),
}

// SAFETY: the owner waits while another thread runs the call, so the call is never used on two threads at a time (E1).
// Calls hold arguments of C functions, which no thread owns.
unsafe impl Send for Waiting {}

#[derive(Default)]
struct Queue {
    last: u64,
    waiting: VecDeque<Waiting>,
    running: Option<u64>,
}

#[derive(Default)]
struct Turns {
    queue: Mutex<Queue>,
    /// Announces a new call, the end of a call, and the end of external progress.
    changed: Condvar,
}

/// Whether functions of the program run inside `PMIx_Progress`: one of the three below.
static STATE: AtomicU8 = AtomicU8::new(INTERNAL);
/// They run on threads of the library.
const INTERNAL: u8 = 0;
/// They run inside `PMIx_Progress`.
const EXTERNAL: u8 = 1;
/// They ran there, and the last role has ended: they run nowhere (E3).
const ENDED: u8 = 2;

fn is_external() -> bool {
    STATE.load(Ordering::Relaxed) == EXTERNAL
}

/// Null until it is needed, and again in a forked child: a thread that does not exist there may hold the lock.
static TURNS: AtomicPtr<Turns> = AtomicPtr::new(std::ptr::null_mut());
/// In a forked child the parent's. It is unused, but stays reachable for memcheck.
static OF_PARENT: AtomicPtr<Turns> = AtomicPtr::new(std::ptr::null_mut());

fn turns() -> &'static Turns {
    // Acquire pairs with the AcqRel below.
    let found = TURNS.load(Ordering::Acquire);
    // SAFETY: leaked below, so it lives as long as the process.
    if let Some(turns) = unsafe { found.as_ref() } {
        return turns;
    }
    let made = Box::into_raw(Box::<Turns>::default());
    match TURNS.compare_exchange(std::ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
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

/// Takes the directive among the infos of an initialization. The first initialization of the process decides.
///
/// # Errors
/// A required directive that contradicts an earlier initialization.
pub(super) fn choose(infos: &[Info], is_initialized: bool) -> Result<(), Failure> {
    if !is_initialized {
        STATE.store(INTERNAL, Ordering::Relaxed);
    }
    let Some(info) = infos.iter().find(|info| info.key.as_str() == keys::EXTERNAL_PROGRESS.name()) else {
        return Ok(());
    };
    // A flag without a value is set.
    let is_wanted = match &info.value {
        Value::Undefined => true,
        value => value.as_bool().ok_or(Failure(Status::ERR_BAD_PARAM))?,
    };
    if !is_initialized {
        // Relaxed is enough: threads of the library start later.
        STATE.store(if is_wanted { EXTERNAL } else { INTERNAL }, Ordering::Relaxed);
    } else if is_wanted != is_external() {
        if info.flags().contains(InfoFlags::REQUIRED) {
            return Err(Failure(Status::ERR_NOT_SUPPORTED));
        }
        tracing::warn!("PMIX_EXTERNAL_PROGRESS is ignored: an earlier initialization of this process decides");
    }
    Ok(())
}

/// Ends external progress if the process has no role any more. Calls that still wait never run (E3).
pub(super) fn end_unless(is_initialized: bool) {
    if is_external() && !is_initialized {
        let turns = turns();
        let mut queue = turns.queue.lock();
        // A call that comes later looks at the state under the same lock.
        STATE.store(ENDED, Ordering::Relaxed);
        queue.waiting.clear();
        turns.changed.notify_all();
    }
}

/// Runs a call of a function of the program: here, or inside `PMIx_Progress` if the process has external progress.
/// `None` if it did not run, because the process has finalized.
pub(super) fn in_turn<R>(call: impl FnOnce() -> R) -> Option<R> {
    match STATE.load(Ordering::Relaxed) {
        EXTERNAL | ENDED if !is_thread_of_library() => return Some(call()),
        EXTERNAL => {}
        ENDED => return None,
        _ => return Some(call()),
    }
    let (mut call, mut result) = (Some(call), None);
    hand_over(&mut || result = call.take().map(|call| call()));
    result
}

fn hand_over(call: &mut dyn FnMut()) {
    let turns = turns();
    let call: *mut (dyn FnMut() + '_) = call;
    // SAFETY: only the lifetime changes. This function returns after the call has run or has left the queue (E1).
    let call: *mut (dyn FnMut() + 'static) = unsafe { std::mem::transmute(call) };
    let mut queue = turns.queue.lock();
    if !is_external() {
        return;
    }
    queue.last = queue.last.wrapping_add(1);
    let number = queue.last;
    queue.waiting.push_back(Waiting { number, thread: acting_thread(), call });
    turns.changed.notify_all();
    while queue.running == Some(number) || queue.waiting.iter().any(|waiting| waiting.number == number) {
        turns.changed.wait(&mut queue);
    }
}

/// Runs the calls that are due (E2). A thread of the library hands over one call at a time. So after a call this waits
/// a moment for the next one.
pub(super) fn run_due() {
    run_due_and_next(NEXT_TIME_MAX);
}

fn run_due_and_next(next_time_max: Duration) {
    if !is_external() {
        return;
    }
    let turns = turns();
    let mut queue = turns.queue.lock();
    for index in 0..CALLS_MAX {
        if index > 0 {
            let is_idle = |queue: &mut Queue| queue.waiting.is_empty() && queue.running.is_none() && is_external();
            turns.changed.wait_while_for(&mut queue, is_idle, next_time_max);
        }
        // Another thread runs a call.
        if queue.running.is_some() {
            return;
        }
        let Some(Waiting { number, thread, call }) = queue.waiting.pop_front() else { return };
        queue.running = Some(number);
        drop(queue);
        // SAFETY: the owner waits until `running` changes, so the call is alive, and nobody else uses it (E1).
        let run = || unsafe { (*call)() };
        // A panic ends the call alone; its owner finds no result.
        let _ = catch_unwind(AssertUnwindSafe(|| act_as(thread, run)));
        // The call has forked, and this is the child (E4).
        if !std::ptr::eq(TURNS.load(Ordering::Acquire), turns) {
            return;
        }
        queue = turns.queue.lock();
        queue.running = None;
        turns.changed.notify_all();
    }
}

/// Calls that one `PMIx_Progress` runs: calls that start others must not keep it for ever.
const CALLS_MAX: usize = 1024;
/// Time that a thread of the library gets to hand over its next call.
const NEXT_TIME_MAX: Duration = Duration::from_micros(200);

/// Runs the end of a role. With external progress the end is on another thread, and this one runs the calls that are
/// due meanwhile (E3).
pub(super) fn finish<R: Send + 'static>(end: impl FnOnce() -> R + Send + 'static) -> R {
    let is_in_call = is_thread_of_library() || acting_thread() != ActingThread::of_this();
    if !is_external() || is_in_call {
        return end();
    }
    let cell = std::sync::Arc::new(Mutex::new(Some(end)));
    let (sender, receiver) = channel();
    let theirs = std::sync::Arc::clone(&cell);
    let started = spawn_thread("modex-finalize", move || {
        let end = theirs.lock().take();
        // The receiver waits.
        let _ = end.map(|end| sender.send(end()));
    });
    while started.is_ok() {
        match receiver.try_recv() {
            Ok(result) => return result,
            Err(TryRecvError::Disconnected) => break,
            Err(TryRecvError::Empty) => {
                run_due();
                let turns = turns();
                let mut queue = turns.queue.lock();
                if queue.waiting.is_empty() {
                    turns.changed.wait_for(&mut queue, LOOK_PAUSE);
                }
            }
        }
    }
    // Without a thread, the calls that are due do not run.
    let end = cell.lock().take();
    match end {
        Some(end) => end(),
        None => std::panic::panic_any("the end of a role has panicked"),
    }
}

/// Pause between two looks at the end of a role.
const LOOK_PAUSE: Duration = Duration::from_millis(1);

/// In a forked child (E4). It only stores.
pub(super) fn forget_after_fork() {
    STATE.store(INTERNAL, Ordering::Relaxed);
    OF_PARENT.store(TURNS.swap(std::ptr::null_mut(), Ordering::AcqRel), Ordering::Release);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicI32;

    use nix::sys::wait::{WaitStatus, waitpid};
    use nix::unistd::{ForkResult, fork};

    use super::*;

    /// Hands over two calls after each other, on a thread of the library. Returns how many a single run of what is due
    /// runs.
    fn calls_of_one_run() -> Option<i32> {
        STATE.store(EXTERNAL, Ordering::Relaxed);
        let calls = Arc::new(AtomicI32::new(0));
        let counted = Arc::clone(&calls);
        spawn_thread("owner", move || {
            for _ in 0..2 {
                in_turn(|| counted.fetch_add(1, Ordering::Relaxed));
            }
            // No third call comes.
            end_unless(false);
        })
        .ok()?;
        let turns = turns();
        let mut queue = turns.queue.lock();
        turns.changed.wait_while(&mut queue, |queue| queue.waiting.is_empty());
        drop(queue);
        run_due_and_next(Duration::from_secs(1000));
        Some(calls.load(Ordering::Relaxed))
    }

    /// Regression: one function ran, however many were due. The child has the state of external progress for itself.
    #[test]
    fn functions_that_are_handed_over_after_each_other_run_at_once() {
        // SAFETY: the child uses what it makes itself, and ends.
        match unsafe { fork() }.unwrap() {
            ForkResult::Child => {
                let calls = calls_of_one_run();
                // SAFETY: takes any number.
                unsafe { nix::libc::_exit(calls.unwrap_or_default()) }
            }
            ForkResult::Parent { child } => assert_eq!(waitpid(child, None).unwrap(), WaitStatus::Exited(child, 2)),
        }
    }
}
