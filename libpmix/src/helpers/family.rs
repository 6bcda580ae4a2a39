//! The common part of `construct`, `create`, `destruct` and `free` for all structures.

use crate::argument::{Count, Freed, InOut, Out};
use crate::form::Form;
use crate::guard::guard_or;
use crate::to_c::Array;

/// Makes a structure empty, whatever its old content; no effect for NULL.
pub(super) fn construct<F: Form>(mut at: Out<'_, F::C>) {
    guard_or((), || {
        if let Ok(structure) = at.place("structure") {
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
pub(super) fn destruct<F: Form>(at: InOut<'_, F>) {
    guard_or((), || {
        if let Ok(structure) = at.own("structure") {
            F::destruct(structure);
        }
    });
}

/// Releases structures, their content, and their block; no effect for NULL.
pub(super) fn free<'a, F: Form>(first: Freed<'a, F>, count: Count<'a, F>) {
    guard_or((), || first.free(count));
}

/// Releases one structure, its content, and its block; no effect for NULL.
pub(super) fn release<F: Form>(at: Freed<'_, F>) {
    guard_or((), || at.free_one());
}
