//! Processes and facts about them: construct, create, destruct, free.

use super::family;
use crate::types::{pmix_node_pid_t, pmix_proc_info_t, pmix_proc_t};

/// Makes a process empty.
///
/// Support: implemented.
///
/// # Safety
/// P1: `p` points to storage for one, with any content.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Proc_construct(p: *mut pmix_proc_t) {
    // SAFETY: the caller's contract.
    unsafe { family::construct::<pmix_proc_t>(p) };
}

/// `n` empty ones in one block, for `PMIx_Proc_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Proc_create(n: usize) -> *mut pmix_proc_t {
    family::create::<pmix_proc_t>(n)
}

/// Releases the content of a process and empties it.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for its content.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Proc_destruct(p: *mut pmix_proc_t) {
    // SAFETY: the caller's contract.
    unsafe { family::destruct::<pmix_proc_t>(p) };
}

/// Releases `n` of them, with their content, and their block.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for their content; the block came from `PMIx_Proc_create` or libc's allocator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Proc_free(p: *mut pmix_proc_t, n: usize) {
    // SAFETY: the caller's contract.
    unsafe { family::free::<pmix_proc_t>(p, n) };
}

/// Makes a description of a process empty.
///
/// Support: implemented.
///
/// # Safety
/// P1: `p` points to storage for one, with any content.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Proc_info_construct(p: *mut pmix_proc_info_t) {
    // SAFETY: the caller's contract.
    unsafe { family::construct::<pmix_proc_info_t>(p) };
}

/// `n` empty ones in one block, for `PMIx_Proc_info_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Proc_info_create(n: usize) -> *mut pmix_proc_info_t {
    family::create::<pmix_proc_info_t>(n)
}

/// Releases the content of a description of a process and empties it.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for its content.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Proc_info_destruct(p: *mut pmix_proc_info_t) {
    // SAFETY: the caller's contract.
    unsafe { family::destruct::<pmix_proc_info_t>(p) };
}

/// Releases `n` of them, with their content, and their block.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for their content; the block came from `PMIx_Proc_info_create` or libc's allocator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Proc_info_free(p: *mut pmix_proc_info_t, n: usize) {
    // SAFETY: the caller's contract.
    unsafe { family::free::<pmix_proc_info_t>(p, n) };
}

/// Makes a process on a node empty.
///
/// Support: implemented.
///
/// # Safety
/// P1: `p` points to storage for one, with any content.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Node_pid_construct(p: *mut pmix_node_pid_t) {
    // SAFETY: the caller's contract.
    unsafe { family::construct::<pmix_node_pid_t>(p) };
}

/// `n` empty ones in one block, for `PMIx_Node_pid_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Node_pid_create(n: usize) -> *mut pmix_node_pid_t {
    family::create::<pmix_node_pid_t>(n)
}

/// Releases the content of a process on a node and empties it.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for its content.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Node_pid_destruct(p: *mut pmix_node_pid_t) {
    // SAFETY: the caller's contract.
    unsafe { family::destruct::<pmix_node_pid_t>(p) };
}

/// Releases `n` of them, with their content, and their block.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for their content; the block came from `PMIx_Node_pid_create` or libc's allocator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Node_pid_free(p: *mut pmix_node_pid_t, n: usize) {
    // SAFETY: the caller's contract.
    unsafe { family::free::<pmix_node_pid_t>(p, n) };
}
