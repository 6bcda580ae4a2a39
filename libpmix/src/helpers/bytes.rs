//! Bytes, variables, map expressions, attributes: construct, create, destruct, free.

use super::family;
use crate::types::{pmix_byte_object_t, pmix_envar_t, pmix_regattr_t, pmix_regex2_t};

/// Makes a byte object empty.
///
/// Support: implemented.
///
/// # Safety
/// P1: `p` points to storage for one, with any content.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Byte_object_construct(p: *mut pmix_byte_object_t) {
    // SAFETY: the caller's contract.
    unsafe { family::construct::<pmix_byte_object_t>(p) };
}

/// `n` empty ones in one block, for `PMIx_Byte_object_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Byte_object_create(n: usize) -> *mut pmix_byte_object_t {
    family::create::<pmix_byte_object_t>(n)
}

/// Releases the content of a byte object and empties it.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for its content.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Byte_object_destruct(p: *mut pmix_byte_object_t) {
    // SAFETY: the caller's contract.
    unsafe { family::destruct::<pmix_byte_object_t>(p) };
}

/// Releases `n` of them, with their content, and their block.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for their content; the block came from `PMIx_Byte_object_create` or libc's allocator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Byte_object_free(p: *mut pmix_byte_object_t, n: usize) {
    // SAFETY: the caller's contract.
    unsafe { family::free::<pmix_byte_object_t>(p, n) };
}

/// Makes a variable empty.
///
/// Support: implemented.
///
/// # Safety
/// P1: `p` points to storage for one, with any content.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Envar_construct(p: *mut pmix_envar_t) {
    // SAFETY: the caller's contract.
    unsafe { family::construct::<pmix_envar_t>(p) };
}

/// `n` empty ones in one block, for `PMIx_Envar_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Envar_create(n: usize) -> *mut pmix_envar_t {
    family::create::<pmix_envar_t>(n)
}

/// Releases the content of a variable and empties it.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for its content.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Envar_destruct(p: *mut pmix_envar_t) {
    // SAFETY: the caller's contract.
    unsafe { family::destruct::<pmix_envar_t>(p) };
}

/// Releases `n` of them, with their content, and their block.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for their content; the block came from `PMIx_Envar_create` or libc's allocator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Envar_free(p: *mut pmix_envar_t, n: usize) {
    // SAFETY: the caller's contract.
    unsafe { family::free::<pmix_envar_t>(p, n) };
}

/// Makes a map expression empty.
///
/// Support: implemented.
///
/// # Safety
/// P1: `p` points to storage for one, with any content.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Regex2_construct(p: *mut pmix_regex2_t) {
    // SAFETY: the caller's contract.
    unsafe { family::construct::<pmix_regex2_t>(p) };
}

/// `n` empty ones in one block, for `PMIx_Regex2_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Regex2_create(n: usize) -> *mut pmix_regex2_t {
    family::create::<pmix_regex2_t>(n)
}

/// Releases the content of a map expression and empties it.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for its content.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Regex2_destruct(p: *mut pmix_regex2_t) {
    // SAFETY: the caller's contract.
    unsafe { family::destruct::<pmix_regex2_t>(p) };
}

/// Releases `n` of them, with their content, and their block.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for their content; the block came from `PMIx_Regex2_create` or libc's allocator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Regex2_free(p: *mut pmix_regex2_t, n: usize) {
    // SAFETY: the caller's contract.
    unsafe { family::free::<pmix_regex2_t>(p, n) };
}

/// Makes an attribute's description empty.
///
/// Support: implemented.
///
/// # Safety
/// P1: `p` points to storage for one, with any content.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Regattr_construct(p: *mut pmix_regattr_t) {
    // SAFETY: the caller's contract.
    unsafe { family::construct::<pmix_regattr_t>(p) };
}

/// `n` empty ones in one block, for `PMIx_Regattr_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Regattr_create(n: usize) -> *mut pmix_regattr_t {
    family::create::<pmix_regattr_t>(n)
}

/// Releases the content of an attribute's description and empties it.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for its content.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Regattr_destruct(p: *mut pmix_regattr_t) {
    // SAFETY: the caller's contract.
    unsafe { family::destruct::<pmix_regattr_t>(p) };
}

/// Releases `n` of them, with their content, and their block.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for their content; the block came from `PMIx_Regattr_create` or libc's allocator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Regattr_free(p: *mut pmix_regattr_t, n: usize) {
    // SAFETY: the caller's contract.
    unsafe { family::free::<pmix_regattr_t>(p, n) };
}
