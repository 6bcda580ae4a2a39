//! The common part of `construct`, `create`, `destruct` and `free` for all structures.

use crate::form::Form;
use crate::guard::guard_or;
use crate::to_c::Array;
use crate::{memory, pointer};

/// Makes a structure empty, whatever its old content; no effect for NULL.
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

/// `count` empty structures in one block; NULL for none, and when there is no memory.
pub(super) fn create<F: Form>(count: usize) -> *mut F::C {
    guard_or(std::ptr::null_mut(), || {
        Array::<F>::constructed(count).map_or(std::ptr::null_mut(), |array| array.into_raw().0)
    })
}

/// Releases the content of a structure; no effect for NULL.
///
/// # Safety
/// P1, and F1 for its content.
pub(super) unsafe fn destruct<F: Form>(at: *mut F::C) {
    guard_or((), || {
        // SAFETY: the caller's contract.
        if let Ok(structure) = unsafe { pointer::unique(at, "structure") } {
            // SAFETY: the caller's contract.
            unsafe { F::destruct(structure) };
        }
    });
}

/// Releases structures, their content, and their block; no effect for NULL.
///
/// # Safety
/// P1, and F1 for their content; the block is libc's.
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

/// Releases one structure, its content, and its block; no effect for NULL.
///
/// # Safety
/// As [`free`].
pub(super) unsafe fn release<F: Form>(at: *mut F::C) {
    // SAFETY: the caller's contract.
    unsafe { free::<F>(at, 1) };
}
