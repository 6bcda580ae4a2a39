//! The frame of every exported function: no panic unwinds into C, and errors become status codes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;

use modex::types::{AsStatus, Status, with_stack};
use nix::unistd::{getpid, gettid};

use super::types::pmix_status_t;

/// A status to return instead of success. Every error with a status becomes one with `?`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure(pub Status);

impl<E: AsStatus> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.status())
    }
}

/// Runs the body of a function that returns `PMIX_SUCCESS` or an error.
pub fn guard(body: impl FnOnce() -> Result<(), Failure>) -> pmix_status_t {
    guard_status(|| body().map(|()| Status::SUCCESS))
}

/// Runs the body of a function that can succeed in more than one way (`PMIX_OPERATION_SUCCEEDED`, a handler's id).
pub fn guard_status(body: impl FnOnce() -> Result<Status, Failure>) -> pmix_status_t {
    let outcome = guard_or(Err(Failure(Status::ERROR)), body);
    outcome.unwrap_or_else(|Failure(status)| status).to_raw()
}

/// As [`guard_status`], for a body that needs more stack than the smallest thread has. Of `PTHREAD_STACK_MIN`, which is
/// 16 KiB, a thread has 6 KiB left after its start.
pub fn guard_with_stack(body: impl FnOnce() -> Result<Status, Failure>) -> pmix_status_t {
    // The first thread has more, and libc reads a file to know how much.
    guard_status(|| if gettid() == getpid() { body() } else { with_stack(STACK_BYTES, body) })
}

/// A build without optimisation needs several times the 16 KiB of another one.
const STACK_BYTES: usize = 64 << 10;

/// Runs the body of a function with another result; `otherwise` is the result after a panic.
///
/// The calling thread can't be cancelled (`pthread_cancel`) in the body, because a cancellation unwinds the thread
/// without regard to locks. It takes effect after the body. A thread of the asynchronous type ends in this function,
/// others at their next cancellation point. So exported functions have the ABI `C-unwind`, and nothing to drop after
/// this one.
pub fn guard_or<T: Copy>(otherwise: T, body: impl FnOnce() -> T) -> T {
    let mut state_before = PTHREAD_CANCEL_DISABLE;
    // SAFETY: changes the calling thread alone, and writes its former state to the variable.
    unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut state_before) };
    // A panic leaves nothing half done for the next call: bodies own the data that they change until they succeed, and
    // locks are not poisoned (parking_lot).
    let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or(otherwise);
    // SAFETY: restores the state of the same thread; the former one is not wanted. The frames that it may unwind own
    // nothing.
    unsafe { pthread_setcancelstate(state_before, null_mut()) };
    result
}

// The crate `libc` lacks it for Linux. The type and the number are those of pthread.h in glibc and in musl.
unsafe extern "C-unwind" {
    fn pthread_setcancelstate(state: i32, state_before: *mut i32) -> i32;
}
const PTHREAD_CANCEL_DISABLE: i32 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::CError;

    #[test]
    fn an_error_becomes_its_status() {
        assert_eq!(guard(|| Ok(())), 0);
        assert_eq!(guard(|| Err(CError::Null { what: "proc" }.into())), Status::ERR_BAD_PARAM.to_raw());
        assert_eq!(guard_status(|| Ok(Status::OPERATION_SUCCEEDED)), -157);
    }

    /// Regression: a cancellation in a call aborted the process.
    #[test]
    fn a_thread_is_not_cancelled_inside() {
        extern "C" fn cancel_inside(_: *mut nix::libc::c_void) -> *mut nix::libc::c_void {
            guard_or((), || {
                // SAFETY: names the calling thread.
                let own = unsafe { nix::libc::pthread_self() };
                // SAFETY: the thread lives.
                unsafe { nix::libc::pthread_cancel(own) };
                // SAFETY: looks whether the thread may end here, which it may not.
                unsafe { pthread_testcancel() };
            });
            // The thread must not be cancelled in the frames below, either.
            // SAFETY: changes the calling thread alone.
            unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, null_mut()) };
            null_mut()
        }
        unsafe extern "C" {
            fn pthread_testcancel();
        }
        let (mut thread, mut result) = (0, null_mut());
        // SAFETY: the function takes any argument.
        let started =
            unsafe { nix::libc::pthread_create(&raw mut thread, std::ptr::null(), cancel_inside, null_mut()) };
        assert_eq!(started, 0);
        // SAFETY: the thread is joined once.
        let joined = unsafe { nix::libc::pthread_join(thread, &raw mut result) };
        assert_eq!((joined, result), (0, null_mut()));
    }

    #[test]
    fn a_panic_stays_inside() {
        assert_eq!(guard(|| panic!("inside")), Status::ERROR.to_raw());
        assert_eq!(guard_or(7, || panic!("inside")), 7);
    }
}
