//! Resource usage: construct, create, destruct, free.

use super::family;
use crate::argument::{Count, Freed, InOut, Out};
use crate::types::{pmix_disk_stats_t, pmix_net_stats_t, pmix_node_stats_t, pmix_proc_stats_t};

/// Makes a process's usage empty.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Proc_stats_construct(p: Out<'_, pmix_proc_stats_t>) {
    family::construct::<pmix_proc_stats_t>(p);
}

/// `n` empty ones in one block, for `PMIx_Proc_stats_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Proc_stats_create(n: usize) -> *mut pmix_proc_stats_t {
    family::create::<pmix_proc_stats_t>(n)
}

/// Releases the content of a process's usage and empties it.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Proc_stats_destruct(p: InOut<'_, pmix_proc_stats_t>) {
    family::destruct(p);
}

/// Releases `n` of them, with their content, and their block.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Proc_stats_free<'a>(p: Freed<'a, pmix_proc_stats_t>, n: Count<'a, pmix_proc_stats_t>) {
    family::free(p, n);
}

/// Makes a disk's usage empty.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Disk_stats_construct(p: Out<'_, pmix_disk_stats_t>) {
    family::construct::<pmix_disk_stats_t>(p);
}

/// `n` empty ones in one block, for `PMIx_Disk_stats_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Disk_stats_create(n: usize) -> *mut pmix_disk_stats_t {
    family::create::<pmix_disk_stats_t>(n)
}

/// Releases the content of a disk's usage and empties it.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Disk_stats_destruct(p: InOut<'_, pmix_disk_stats_t>) {
    family::destruct(p);
}

/// Releases `n` of them, with their content, and their block.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Disk_stats_free<'a>(p: Freed<'a, pmix_disk_stats_t>, n: Count<'a, pmix_disk_stats_t>) {
    family::free(p, n);
}

/// Makes an interface's usage empty.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Net_stats_construct(p: Out<'_, pmix_net_stats_t>) {
    family::construct::<pmix_net_stats_t>(p);
}

/// `n` empty ones in one block, for `PMIx_Net_stats_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Net_stats_create(n: usize) -> *mut pmix_net_stats_t {
    family::create::<pmix_net_stats_t>(n)
}

/// Releases the content of an interface's usage and empties it.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Net_stats_destruct(p: InOut<'_, pmix_net_stats_t>) {
    family::destruct(p);
}

/// Releases `n` of them, with their content, and their block.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Net_stats_free<'a>(p: Freed<'a, pmix_net_stats_t>, n: Count<'a, pmix_net_stats_t>) {
    family::free(p, n);
}

/// Makes a node's usage empty.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Node_stats_construct(p: Out<'_, pmix_node_stats_t>) {
    family::construct::<pmix_node_stats_t>(p);
}

/// `n` empty ones in one block, for `PMIx_Node_stats_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Node_stats_create(n: usize) -> *mut pmix_node_stats_t {
    family::create::<pmix_node_stats_t>(n)
}

/// Releases the content of a node's usage and empties it.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Node_stats_destruct(p: InOut<'_, pmix_node_stats_t>) {
    family::destruct(p);
}

/// Releases `n` of them, with their content, and their block.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Node_stats_free<'a>(p: Freed<'a, pmix_node_stats_t>, n: Count<'a, pmix_node_stats_t>) {
    family::free(p, n);
}
