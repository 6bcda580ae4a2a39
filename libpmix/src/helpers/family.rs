//! What `construct`, `create`, `destruct` and `free` do for every structure.

use crate::form::Form;
use crate::guard::guard_or;
use crate::to_c::Array;
use crate::{memory, pointer};

/// Makes a structure empty, whatever was in it; nothing for NULL.
///
/// # Safety
/// P1: `at` points to storage for one.
pub(super) unsafe fn construct<F: Form>(at: *mut F::C) {
    guard_or((), || {
        // SAFETY: the caller's contract.
        if let Ok(structure) = unsafe { pointer::unique(at, "structure") } {
            F::construct(structure);
        }
    });
}

/// So many empty structures in one block; NULL for none, and when there is no memory.
pub(super) fn create<F: Form>(count: usize) -> *mut F::C {
    guard_or(std::ptr::null_mut(), || {
        Array::<F>::constructed(count).map_or(std::ptr::null_mut(), |array| array.into_raw().0)
    })
}

/// Releases what a structure holds; nothing for NULL.
///
/// # Safety
/// P1, and F1 for what it holds.
pub(super) unsafe fn destruct<F: Form>(at: *mut F::C) {
    guard_or((), || {
        // SAFETY: the caller's contract.
        if let Ok(structure) = unsafe { pointer::unique(at, "structure") } {
            // SAFETY: the caller's contract.
            unsafe { F::destruct(structure) };
        }
    });
}

/// Releases structures, what they hold, and their block; nothing for NULL.
///
/// # Safety
/// P1, and F1 for what they hold; the block is libc's.
pub(super) unsafe fn free<F: Form>(first: *mut F::C, count: usize) {
    guard_or((), || {
        // SAFETY: the caller's contract.
        for structure in unsafe { pointer::slice_mut(first, count, "array") }.unwrap_or_default() {
            // SAFETY: the caller's contract.
            unsafe { F::destruct(structure) };
        }
        // SAFETY: the caller's contract.
        unsafe { memory::release(first) };
    });
}

/// Releases one structure, what it holds, and its block; nothing for NULL.
///
/// # Safety
/// As [`free`].
pub(super) unsafe fn release<F: Form>(at: *mut F::C) {
    // SAFETY: the caller's contract.
    unsafe { free::<F>(at, 1) };
}
