//! Fences.

use super::asynchronous::{run, start};
use crate::from_c;
use crate::guard::{Failure, guard};
use crate::operation::Operation;
use crate::process;
use crate::types::{c_void, pmix_info_t, pmix_op_cbfunc_t, pmix_proc_t, pmix_status_t};

/// Waits until every named process (none: the caller's namespace) has entered the fence. See the standard's function of
/// the same name.
///
/// Support: implemented.
///
/// # Safety
/// The arrays have as many elements as the counts say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Fence(
    procs: *const pmix_proc_t,
    nprocs: usize,
    info: *const pmix_info_t,
    ninfo: usize,
) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        run(unsafe { operation(procs, nprocs, info, ninfo) }?)
    })
}

/// As [`PMIx_Fence`], with a callback.
///
/// Support: implemented.
///
/// # Safety
/// The arrays have as many elements as the counts say. `cbfunc` is NULL or may be called on another thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Fence_nb(
    procs: *const pmix_proc_t,
    nprocs: usize,
    info: *const pmix_info_t,
    ninfo: usize,
    cbfunc: Option<pmix_op_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        start(unsafe { operation(procs, nprocs, info, ninfo) }?, cbfunc, cbdata)
    })
}

/// # Safety
/// The arrays have as many elements as the counts say.
unsafe fn operation(
    procs: *const pmix_proc_t,
    nprocs: usize,
    info: *const pmix_info_t,
    ninfo: usize,
) -> Result<Operation, Failure> {
    let own = process::member()?.proc().namespace;
    // A count without an array is an error; an array without a count means the namespace.
    // SAFETY: the caller's contract.
    let procs = unsafe { from_c::procs(procs, nprocs, Some(&own)) }?;
    // SAFETY: the caller's contract.
    let directives = unsafe { from_c::infos(info, ninfo) }?;
    Ok(Operation::Fence { procs, directives })
}
