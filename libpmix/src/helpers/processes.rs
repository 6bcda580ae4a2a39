//! Processes and facts about them: construct, create, destruct, free.

use super::family;
use crate::argument::{Count, Freed, InOut, Out};
use crate::types::{pmix_node_pid_t, pmix_proc_info_t, pmix_proc_t};

/// Makes a process empty.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Proc_construct(p: Out<'_, pmix_proc_t>) {
    family::construct::<pmix_proc_t>(p);
}

/// `n` empty ones in one block, for `PMIx_Proc_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Proc_create(n: usize) -> *mut pmix_proc_t {
    family::create::<pmix_proc_t>(n)
}

/// Releases the content of a process and empties it.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Proc_destruct(p: InOut<'_, pmix_proc_t>) {
    family::destruct(p);
}

/// Releases `n` of them, with their content, and their block.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Proc_free<'a>(p: Freed<'a, pmix_proc_t>, n: Count<'a, pmix_proc_t>) {
    family::free(p, n);
}

/// Makes a description of a process empty.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Proc_info_construct(p: Out<'_, pmix_proc_info_t>) {
    family::construct::<pmix_proc_info_t>(p);
}

/// `n` empty ones in one block, for `PMIx_Proc_info_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Proc_info_create(n: usize) -> *mut pmix_proc_info_t {
    family::create::<pmix_proc_info_t>(n)
}

/// Releases the content of a description of a process and empties it.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Proc_info_destruct(p: InOut<'_, pmix_proc_info_t>) {
    family::destruct(p);
}

/// Releases `n` of them, with their content, and their block.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Proc_info_free<'a>(p: Freed<'a, pmix_proc_info_t>, n: Count<'a, pmix_proc_info_t>) {
    family::free(p, n);
}

/// Makes a process on a node empty.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Node_pid_construct(p: Out<'_, pmix_node_pid_t>) {
    family::construct::<pmix_node_pid_t>(p);
}

/// `n` empty ones in one block, for `PMIx_Node_pid_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Node_pid_create(n: usize) -> *mut pmix_node_pid_t {
    family::create::<pmix_node_pid_t>(n)
}

/// Releases the content of a process on a node and empties it.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Node_pid_destruct(p: InOut<'_, pmix_node_pid_t>) {
    family::destruct(p);
}

/// Releases `n` of them, with their content, and their block.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Node_pid_free<'a>(p: Freed<'a, pmix_node_pid_t>, n: Count<'a, pmix_node_pid_t>) {
    family::free(p, n);
}
