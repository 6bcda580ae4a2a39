//! Processes of nodes and nodes of jobs.

use modex::types::{Namespace, Status};

use super::asynchronous::store_string;
use crate::guard::{Failure, guard};
use crate::operation::{Operation, Results};
use crate::types::{c_char, pmix_proc_t, pmix_status_t};
use crate::{call, from_c, pointer, process, to_c};

/// The processes of a namespace (NULL or empty: of all) on a node (NULL: this one). Without processes there the result
/// is success, NULL and 0. The caller releases the array. See the standard's function of the same name.
///
/// Support: implemented.
///
/// # Safety
/// `nodename` and `nspace` are NULL or NUL-terminated, `procs` and `nprocs` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Resolve_peers(
    nodename: *const c_char,
    nspace: *const c_char,
    procs: *mut *mut pmix_proc_t,
    nprocs: *mut usize,
) -> pmix_status_t {
    // SAFETY: the caller's contract.
    unsafe { pointer::clear_array(procs, nprocs) };
    guard(|| {
        process::member()?;
        // SAFETY: the caller's contract.
        let procs = unsafe { pointer::unique(procs, "place for the processes") }?;
        // SAFETY: the caller's contract.
        let nprocs = unsafe { pointer::unique(nprocs, "place for their number") }?;
        // SAFETY: the caller's contract.
        let node = unsafe { from_c::text(nodename) }?.map(|name| name.to_str().map(str::to_owned)).transpose();
        let node = node.map_err(|_| Failure(Status::ERR_BAD_PARAM))?;
        // SAFETY: the caller's contract.
        let namespace = unsafe { namespace(nspace) }?;
        match call::run(Operation::ResolvePeers { node, namespace })?.results {
            Results::Procs(found) => {
                (*procs, *nprocs) = to_c::procs(&found)?.into_raw();
                Ok(())
            }
            _ => Err(Failure(Status::ERROR)),
        }
    })
}

/// The nodes of a namespace (NULL or empty: of all), as a list with commas. The caller releases the string. See the
/// standard's function of the same name.
///
/// Support: implemented.
///
/// # Safety
/// `nspace` is NULL or NUL-terminated, `nodelist` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Resolve_nodes(nspace: *const c_char, nodelist: *mut *mut c_char) -> pmix_status_t {
    // SAFETY: the caller's contract.
    unsafe { pointer::clear(nodelist) };
    guard(|| {
        process::member()?;
        // SAFETY: the caller's contract.
        let place = unsafe { pointer::unique(nodelist, "place for the list") }?;
        // SAFETY: the caller's contract.
        let namespace = unsafe { namespace(nspace) }?;
        match call::run(Operation::ResolveNodes { namespace })?.results {
            // SAFETY: it may be written.
            Results::Text(list) => Ok(unsafe { store_string(list.as_bytes(), place) }?),
            _ => Err(Failure(Status::ERROR)),
        }
    })
}

/// # Safety
/// `nspace` is NULL, a string or a whole `pmix_nspace_t`.
unsafe fn namespace(nspace: *const c_char) -> Result<Option<Namespace>, Failure> {
    // SAFETY: the caller's contract: not NULL, so there is at least a NUL.
    if nspace.is_null() || unsafe { pointer::shared(nspace, "namespace") }? == &0 {
        return Ok(None);
    }
    // SAFETY: the caller's contract.
    Ok(Some(unsafe { from_c::namespace(nspace, None) }?))
}
