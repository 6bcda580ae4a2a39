//! A value that a forked child can read, whatever the parent's threads did at the fork.
//!
//! A fork copies the memory of all threads but only the thread that called it. A lock that another thread held stays
//! locked in the child for ever, and its value may be half changed. So there are two copies of the value:
//!
//! ```text
//! change:  lock -> write the idle copy -> make it the stable one -> write the other copy -> unlock
//! read here:       lock -> stable copy
//! read in a fork:          stable copy
//! ```
//!
//! - **K1** The stable copy is complete at every instant, so it is complete at the instant of a fork.
//! - **K2** In the process that made the value, copies are touched only under the lock.
//! - **K3** In a fork no copy ever changes, so reading one needs no lock.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use modex::runtime::ForkMark;
use parking_lot::Mutex;

/// Two copies of a value and the lock for changes.
pub(super) struct Forkable<T> {
    copies: [UnsafeCell<T>; 2],
    /// Whether the second copy is the stable one (K1).
    is_second_stable: AtomicBool,
    lock: Mutex<()>,
    mark: ForkMark,
}

// SAFETY: threads share references to the value (K2, K3) and send values in and out.
unsafe impl<T: Send + Sync> Sync for Forkable<T> {}

impl<T: Clone> Forkable<T> {
    pub(super) fn new(value: T) -> Self {
        Self {
            copies: [UnsafeCell::new(value.clone()), UnsafeCell::new(value)],
            is_second_stable: AtomicBool::new(false),
            lock: Mutex::new(()),
            mark: ForkMark::new(),
        }
    }

    /// Whether this process made the value. If not, it is a fork of the process that did.
    pub(super) fn is_of_this_process(&self) -> bool {
        self.mark.is_of_this_process()
    }

    /// Looks at the value; in a fork, at the value as it was at the fork.
    pub(super) fn read<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        let _lock = self.is_of_this_process().then(|| self.lock.lock());
        // Acquire pairs with the Release in `change`.
        let [first, second] = &self.copies;
        let stable = if self.is_second_stable.load(Ordering::Acquire) { second } else { first };
        // SAFETY: nobody changes the copy meanwhile: here the lock is held (K2), in a fork nobody changes any (K3).
        look(unsafe { &*stable.get() })
    }

    /// Changes the value. `apply` runs once for each copy, with the lock held. It must not wait, and must not drop the
    /// last reference to a value that waits. A fork changes nothing (K3).
    pub(super) fn change(&self, apply: impl Fn(&mut T)) {
        if !self.is_of_this_process() {
            return;
        }
        let _lock = self.lock.lock();
        let [first, second] = &self.copies;
        // Relaxed: it changes under the lock alone.
        let is_second_stable = self.is_second_stable.load(Ordering::Relaxed);
        let (stable, idle) = if is_second_stable { (second, first) } else { (first, second) };
        // SAFETY: readers of this process wait for the lock (K2), and forks read the other copy (K1).
        apply(unsafe { &mut *idle.get() });
        // Release: a reader of the new flag, in a fork too, sees the finished copy.
        self.is_second_stable.store(!is_second_stable, Ordering::Release);
        // A fork that sees any part of the next change sees the new flag.
        fence(Ordering::Release);
        // SAFETY: the copies have changed places: readers wait for the lock (K2), and forks read the other copy (K1).
        apply(unsafe { &mut *stable.get() });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use nix::sys::wait::{WaitStatus, waitpid};
    use nix::unistd::{ForkResult, fork};

    use super::*;

    /// Regression: a child waited for ever for a lock of a parent's thread, or found a value that was half changed.
    #[test]
    fn a_fork_reads_a_whole_value_while_threads_of_its_parent_change_it() {
        let pair = Forkable::new((0_u64, 0_u64));
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        pair.change(|(left, right)| {
                            *left += 1;
                            std::thread::yield_now();
                            *right += 1;
                        });
                    }
                });
            }
            for _ in 0..200 {
                // SAFETY: the child reads its copy of the value and ends.
                match unsafe { fork() }.unwrap() {
                    ForkResult::Child => {
                        pair.change(|pair| *pair = (1, 2));
                        let is_whole = pair.read(|(left, right)| left == right);
                        // SAFETY: ends the child without touching what it has of the parent.
                        unsafe { nix::libc::_exit(i32::from(!is_whole)) }
                    }
                    ForkResult::Parent { child } => {
                        assert_eq!(waitpid(child, None).unwrap(), WaitStatus::Exited(child, 0));
                    }
                }
            }
            is_over.store(true, Ordering::Relaxed);
        });
        pair.read(|(left, right)| assert_eq!(left, right));
    }
}
