//! Processes and what is known of them: construct, create, destruct, free.

use super::family;
use crate::types::{pmix_node_pid_t, pmix_proc_info_t, pmix_proc_t};

/// Makes a process empty.
///
/// Support: implemented.
///
/// # Safety
/// P1: `p` points to storage for one, whatever is in it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Proc_construct(p: *mut pmix_proc_t) {
    // SAFETY: the caller's contract.
    unsafe { family::construct::<pmix_proc_t>(p) };
}

/// So many empty ones in one block, for `PMIx_Proc_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Proc_create(n: usize) -> *mut pmix_proc_t {
    family::create::<pmix_proc_t>(n)
}

/// Releases what a process holds and empties it.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for what it holds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Proc_destruct(p: *mut pmix_proc_t) {
    // SAFETY: the caller's contract.
    unsafe { family::destruct::<pmix_proc_t>(p) };
}

/// Releases `n` of them, with what they hold, and their block.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for what they hold; the block came from `PMIx_Proc_create` or libc's allocator.
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
/// P1: `p` points to storage for one, whatever is in it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Proc_info_construct(p: *mut pmix_proc_info_t) {
    // SAFETY: the caller's contract.
    unsafe { family::construct::<pmix_proc_info_t>(p) };
}

/// So many empty ones in one block, for `PMIx_Proc_info_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Proc_info_create(n: usize) -> *mut pmix_proc_info_t {
    family::create::<pmix_proc_info_t>(n)
}

/// Releases what a description of a process holds and empties it.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for what it holds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Proc_info_destruct(p: *mut pmix_proc_info_t) {
    // SAFETY: the caller's contract.
    unsafe { family::destruct::<pmix_proc_info_t>(p) };
}

/// Releases `n` of them, with what they hold, and their block.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for what they hold; the block came from `PMIx_Proc_info_create` or libc's allocator.
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
/// P1: `p` points to storage for one, whatever is in it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Node_pid_construct(p: *mut pmix_node_pid_t) {
    // SAFETY: the caller's contract.
    unsafe { family::construct::<pmix_node_pid_t>(p) };
}

/// So many empty ones in one block, for `PMIx_Node_pid_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Node_pid_create(n: usize) -> *mut pmix_node_pid_t {
    family::create::<pmix_node_pid_t>(n)
}

/// Releases what a process on a node holds and empties it.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for what it holds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Node_pid_destruct(p: *mut pmix_node_pid_t) {
    // SAFETY: the caller's contract.
    unsafe { family::destruct::<pmix_node_pid_t>(p) };
}

/// Releases `n` of them, with what they hold, and their block.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for what they hold; the block came from `PMIx_Node_pid_create` or libc's allocator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Node_pid_free(p: *mut pmix_node_pid_t, n: usize) {
    // SAFETY: the caller's contract.
    unsafe { family::free::<pmix_node_pid_t>(p, n) };
}
